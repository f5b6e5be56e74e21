"""The suite names a release that changes its argument, whatever the points are (conformance.draws)."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from meteragent.privacy.bits import Bits, SeededBits
from meteragent.privacy.conformance import Check
from meteragent.privacy.conformance.draws import check_shapes
from meteragent.privacy.conformance.trial import Trial, promised_pairs
from meteragent.privacy.metric import discrete
from meteragent.privacy.space import (
    Categories,
    Curves,
    Databases,
    Finite,
    Numbers,
    Subsets,
    Windows,
    WithNull,
)


@dataclass(frozen=True)
class Meddling:
    """A mechanism that releases points as they are, and then changes the caller's array."""

    space: Any
    change: Callable[[NDArray[Any]], None]

    def loss(self, distance: Fraction, /) -> Fraction:
        """Return the distance: any loss will do."""
        return distance

    def release(self, points: Any, *, bits: Bits | None = None) -> Any:
        """Return a copy of the points, and change the points."""
        released = points.copy()
        self.change(points)
        return released


CHANGES: dict[str, Callable[[NDArray[Any]], None]] = {
    "the first replaced": lambda points: points.__setitem__(slice(1), points[-1:]),
    "reversed": lambda points: points.__setitem__(slice(None), points[::-1].copy()),
    "moved by one": lambda points: points.__setitem__(slice(None), np.roll(points, 1, axis=0)),
    "sorted by name": lambda points: points.__setitem__(
        slice(None), points[np.argsort([repr(point) for point in points], kind="stable")]
    ),
}


@pytest.mark.parametrize(
    "space",
    [
        Numbers(),
        Windows(3),
        Categories("abc"),
        Finite("ab", discrete),
        Subsets("abc"),
        Databases(Categories("ab"), 3),
        Databases(WithNull(Numbers(0, 2)), 2, "l1"),
        Curves(6),
    ],
    ids=lambda space: type(space).__name__,
)
def test_an_array_of_points_is_left_as_it_was(space: Any) -> None:
    """A release that changes its argument is named on every space, whichever way it changes it."""

    def shapes(change: Callable[[NDArray[Any]], None]) -> Check:
        """Check a mechanism that makes this change."""
        mechanism = Meddling(space, change)
        pairs = promised_pairs(mechanism, None, needs_law=False)
        return check_shapes(Trial(mechanism, pairs, 100, SeededBits(1)))

    assert shapes(lambda _: None).passed
    for name, change in CHANGES.items():
        check = shapes(change)
        assert (check.passed, check.finding) == (False, "release changed its argument"), name
