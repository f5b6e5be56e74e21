"""Kinds of windows with one wrong fact each, which the judge of the simulation must find.

The facts are those that a class in `meteragent.domain.shapes` states of its numbers:

    reach       how far one unit of power moves the values, and thus what a window charges
    integrand   what a reading counts for
    lattice     one quantum in units of the accumulator, and thus noise, dither and rounding
    redraw      whether a restart draws and charges noise again
    difference  whether a register's slot is on disk as the register less the accumulator
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from meteragent.domain.shapes import SHAPES, Shape, Space

FACTS = ("reach", "integrand", "lattice", "redraw", "difference")

CHARGES = "charges are not those of the opened windows"
ENERGY = "energy that was not measured"
PEAK = "a peak is not its noise plus the largest part"
DRAWS = "a record states a wrong number of draws"
DIFFERENCE = "a slot is on disk as a difference from the register, or should be"


class ShapeMutant(NamedTuple):
    """A kind with a wrong fact: some words of what it breaks, and the seed of a schedule that shows it."""

    space: Space
    fact: str
    breaks: str
    seed: int

    def patch(self, patch: pytest.MonkeyPatch) -> None:
        """Put the wrong fact in the place of the right one."""
        _WRONG[self.fact](SHAPES[self.space], patch)


def doubles(method: str) -> Callable[[type[Shape], pytest.MonkeyPatch], None]:
    """Return what makes the result of a kind's method twice as large."""

    def doubled(shape: type[Shape], patch: pytest.MonkeyPatch) -> None:
        right = getattr(shape, method)

        def wrong(self: Shape, *arguments: Any) -> Any:
            return 2 * right(self, *arguments)

        patch.setattr(shape, method, wrong)

    return doubled


def negates(flag: str) -> Callable[[type[Shape], pytest.MonkeyPatch], None]:
    """Return what makes a flag of a kind its opposite."""
    return lambda shape, patch: patch.setattr(shape, flag, not getattr(shape, flag))


_WRONG = {
    "reach": doubles("distance_per_power"),
    "integrand": doubles("integrand_u"),
    "lattice": doubles("steps_per_quantum"),
    "redraw": negates("is_redrawn"),
    "difference": negates("is_difference_stored"),
}
"""What makes each fact wrong."""

SILENT = {
    (Space.PEAK, "difference"): "its number is a largest sum, which is on disk as it is",
    (Space.ABOVE, "difference"): "it takes no registers",
    (Space.SHARE, "redraw"): "it has no noise, and sends no record that would state draws",
    (Space.SHARE, "difference"): "its accumulator is uniform whatever the use, and is on disk as it is",
}
"""The facts that nothing asks of a kind, so a wrong one changes nothing; each with its reason."""

SHAPE_MUTANTS = [
    ShapeMutant(Space.LINF, "reach", CHARGES, 0),
    ShapeMutant(Space.LINF, "integrand", ENERGY, 0),
    ShapeMutant(Space.LINF, "lattice", "exceeds its bound", 0),
    ShapeMutant(Space.LINF, "redraw", DRAWS, 0),
    ShapeMutant(Space.LINF, "difference", DIFFERENCE, 2),
    ShapeMutant(Space.CURVE, "reach", CHARGES, 23),
    ShapeMutant(Space.CURVE, "integrand", ENERGY, 23),
    ShapeMutant(Space.CURVE, "lattice", ENERGY, 23),
    ShapeMutant(Space.CURVE, "redraw", DRAWS, 23),
    ShapeMutant(Space.CURVE, "difference", DIFFERENCE, 434),
    ShapeMutant(Space.PROFILE, "reach", CHARGES, 1),
    ShapeMutant(Space.PROFILE, "integrand", ENERGY, 1),
    ShapeMutant(Space.PROFILE, "lattice", "exceeds its bound", 1),
    ShapeMutant(Space.PROFILE, "redraw", DRAWS, 4),
    ShapeMutant(Space.PROFILE, "difference", DIFFERENCE, 4),
    ShapeMutant(Space.BANDS, "reach", CHARGES, 28),
    ShapeMutant(Space.BANDS, "integrand", ENERGY, 159),
    ShapeMutant(Space.BANDS, "lattice", ENERGY, 159),
    ShapeMutant(Space.BANDS, "redraw", DRAWS, 159),
    ShapeMutant(Space.BANDS, "difference", DIFFERENCE, 526),
    ShapeMutant(Space.WEIGHTED, "reach", CHARGES, 8),
    ShapeMutant(Space.WEIGHTED, "integrand", ENERGY, 8),
    ShapeMutant(Space.WEIGHTED, "lattice", ENERGY, 8),
    ShapeMutant(Space.WEIGHTED, "redraw", DRAWS, 8),
    ShapeMutant(Space.WEIGHTED, "difference", DIFFERENCE, 94),
    ShapeMutant(Space.PEAK, "reach", CHARGES, 43),
    ShapeMutant(Space.PEAK, "integrand", PEAK, 304),
    ShapeMutant(Space.PEAK, "lattice", PEAK, 304),
    ShapeMutant(Space.PEAK, "redraw", "a counter is wrong: register_lost", 43),
    ShapeMutant(Space.ABOVE, "reach", CHARGES, 69),
    ShapeMutant(Space.ABOVE, "integrand", ENERGY, 69),
    ShapeMutant(Space.ABOVE, "lattice", ENERGY, 69),
    ShapeMutant(Space.ABOVE, "redraw", DRAWS, 69),
    ShapeMutant(Space.SHARE, "reach", "a descriptor states what its window is not", 46),
    ShapeMutant(Space.SHARE, "integrand", "did not begin with its pad", 57),
    ShapeMutant(Space.SHARE, "lattice", "did not begin with its pad", 16),
]
"""Each kind with each of its facts wrong, and a seed of the generator whose one schedule shows it."""
