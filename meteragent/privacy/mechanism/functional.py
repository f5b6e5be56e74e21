"""Noise for curves: k functionals of a curve, rounded to a lattice, are released as a window (THEORY 4.1).

A curve f on [0, T] becomes the numbers L_1 f, .. L_k f, rounded to whole quanta. A mechanism for windows adds
noise to these numbers. The functionals are Delta-Lipschitz from the sup norm to d_inf, and rounding by
floor(x/q + 1/2) turns a distance d into at most q ceil(d/q). So the loss between curves at a sup distance of
d is at most the mechanism's loss at q ceil(Delta d/q). Anything computed from the noisy numbers, such as a
curve, is post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from meteragent.privacy.bits import Bits
from meteragent.privacy.curve import Means, Projection
from meteragent.privacy.exact import Exact, not_negative, round_half_up
from meteragent.privacy.mechanism.base import MetricMechanism
from meteragent.privacy.space import Curve, Curves, Windows


@dataclass(frozen=True)
class Functional:
    """A mechanism for windows under d_inf, applied to the functionals of curves under the sup norm.

    See Holohan 2014, Example 4, and Chatzikokolakis 2013, Fact 5. With a `Projection` as `functionals`, this
    is a finite-dimensional projection of a mechanism on C([0, T]).

    Raises:
        ValueError: the points of the mechanism are not unbounded windows under d_inf with one number per
            functional.
    """

    mechanism: MetricMechanism
    functionals: Means | Projection

    def __post_init__(self) -> None:
        """Check that the mechanism's points are windows with one number per functional."""
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
        """Return the mechanism's loss at q ceil(Delta d/q), for curves at a sup distance of d = `distance`.

        Raises:
            TypeError: `distance` is not exact.  ValueError: it is negative.
        """
        change = self.functionals.sensitivity * not_negative("distance", distance)
        quantum: Fraction = self.mechanism.space.quantum
        return self.mechanism.loss(quantum * math.ceil(change / quantum))

    def window(self, curve: Curve) -> tuple[int, ...]:
        """Return a curve's functionals in whole quanta, floor(L f/q + 1/2); they are as secret as the curve.

        Raises:
            ValueError: the curve is not in the space.
        """
        if curve not in self.space:
            raise ValueError(f"a curve on [0, {self.space.duration_s}] s is needed")
        quantum: Fraction = self.mechanism.space.quantum
        return tuple(round_half_up(value / quantum) for value in self.functionals(curve))

    def release(self, curves: Iterable[Curve], *, bits: Bits | None = None) -> NDArray[Any]:
        """Release the functionals of `curves` with noise, in quanta, one row for each curve.

        Each curve is charged. `bits` is the source of randomness; None means the mechanism's default.

        Raises:
            ValueError: a curve is not in the space.  Also the errors of the mechanism's `release`.
        """
        windows = [self.window(curve) for curve in curves]
        return self.mechanism.release(np.array(windows, np.int64).reshape(-1, self.functionals.k), bits=bits)

    def log_mass(self, outputs: ArrayLike, curve: Curve) -> NDArray[np.float64]:
        """Return ln P(y | `curve`) for each y of `outputs`, which are in quanta and of shape (..., k)."""
        return self.mechanism.log_mass(outputs, self.window(curve))
