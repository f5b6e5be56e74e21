"""Noise for curves: k functionals of a curve, rounded to a lattice, as a window (THEORY 4.1).

A curve f on [0, T] becomes the numbers L_1 f, .. L_k f, in quanta; these get the noise of a mechanism for
windows. The functionals are Delta-Lipschitz from the sup norm to d_inf, rounding by floor(x/q + 1/2) makes of
a distance d at most q ceil(d/q), and what is drawn from the noisy numbers, a curve too, is post-processing.
So curves at a sup distance of d are told apart by at most the mechanism's loss at q ceil(Delta d/q).
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from meteragent.privacy.bits import Bits
from meteragent.privacy.curve import Means, Projection
from meteragent.privacy.exact import Exact, rational, round_half_up
from meteragent.privacy.mechanism.base import MetricMechanism
from meteragent.privacy.space import Curve, Curves, Windows


@dataclass(frozen=True)
class Functional:
    """A mechanism for windows under d_inf, on the functionals of curves under the sup norm.

    Holohan 2014, Example 4; Chatzikokolakis 2013, Fact 5. With `Projection` for functionals it is one
    finite-dimensional projection of a mechanism on C([0, T]).

    Raises:
        ValueError: the mechanism is not one for windows under d_inf without bounds, as long as the
            functionals are many.
    """

    mechanism: MetricMechanism
    functionals: Means | Projection

    def __post_init__(self) -> None:
        """Refuse what takes other points."""
        space, k = self.mechanism.space, self.functionals.k
        if not isinstance(space, Windows) or space != Windows(k, space.quantum):
            raise ValueError(
                f"{k} functionals need a mechanism for Windows({k}, ..) under d_inf, not {space}"
            )

    @property
    def space(self) -> Curves:
        """The curves on [0, T] under the sup norm."""
        return self.functionals.domain

    def loss(self, distance: Exact) -> Fraction:
        """The mechanism's loss at q ceil(Delta distance/q), `distance` that of the curves' sup norm.

        Raises:
            TypeError: `distance` is not exact.  ValueError: it is negative.
        """
        moved = self.functionals.sensitivity * rational("distance", distance)
        quantum: Fraction = self.mechanism.space.quantum
        return self.mechanism.loss(quantum * math.ceil(moved / quantum))

    def window(self, curve: Curve) -> tuple[int, ...]:
        """A curve's functionals in whole quanta, floor(L f/q + 1/2): a secret, as the curve is.

        Raises:
            ValueError: the curve is not of the space.
        """
        if curve not in self.space:
            raise ValueError(f"a curve on [0, {self.space.duration_s}] s is needed")
        quantum: Fraction = self.mechanism.space.quantum
        return tuple(round_half_up(value / quantum) for value in self.functionals(curve))

    def release(self, curves: Iterable[Curve], *, bits: Bits | None = None) -> NDArray[Any]:
        """The noisy functionals of `curves`, in quanta, one row for each: each is charged.

        Raises:
            ValueError: a curve is not of the space.  What the mechanism raises.
        """
        windows = [self.window(curve) for curve in curves]
        return self.mechanism.release(np.array(windows, np.int64).reshape(-1, self.functionals.k), bits=bits)

    def log_mass(self, outputs: ArrayLike, curve: Curve) -> NDArray[np.float64]:
        """That of the mechanism at the curve's window, for `outputs` of shape (.., k), in quanta."""
        return self.mechanism.log_mass(outputs, self.window(curve))
