"""The number of values to release for a curve, and lower bounds on the error for any number of values.

Theory of operation
-------------------
More numbers approximate a curve more closely but are noisier: the error is at most approximation(k) +
noise(k), with (k+1)/(2 epsilon) for the mean noise and k/epsilon for the largest (THEORY 1.2, 4.2). Choose k
from public data, never from the private curve. No finite k serves all curves: with k points the mean error is
at least (k+1)/(2 epsilon) for any mechanism (`floor.WindowFloor`: polylines embed all vectors of k numbers
in C([0, T])), so on all of C([0, T]) it is infinite (THEORY 4.4).
Floats affect only accuracy here, never privacy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from meteragent.privacy.exact import Exact, positive


@dataclass(frozen=True, init=False)
class Hoelder:
    """Curves with |f(t) - f(u)| <= constant |t - u|^exponent, t in seconds; Lipschitz for exponent 1.

    No point of a block of length h is farther than constant (h/2)^exponent from the block's mean.

    Raises:
        TypeError: a parameter is not exact.  ValueError: it is not above zero, or the exponent is above 1.
    """

    constant: Fraction
    exponent: Fraction

    def __init__(self, constant: Exact, exponent: Exact = 1) -> None:
        object.__setattr__(self, "constant", positive("constant", constant))
        object.__setattr__(self, "exponent", positive("exponent", exponent))
        if self.exponent > 1:
            raise ValueError(f"an exponent above 1 allows only constant curves: {self.exponent}")

    def approximation(self, duration_s: Fraction) -> tuple[float, float]:
        """Return (c, alpha): k block means are within c k^-alpha of a curve, everywhere."""
        alpha = float(self.exponent)
        return float(self.constant) * math.pow(float(duration_s) / 2, alpha), alpha


@dataclass(frozen=True, init=False)
class BoundedVariation:
    """Curves whose rises and falls sum to at most `variation`, such as switched loads.

    The mean distance of a curve from its mean over a block is at most half of the variation in the block. The
    largest distance has no bound that decreases with k.

    Raises:
        TypeError: the variation is not exact.  ValueError: it is not above zero.
    """

    variation: Fraction

    def __init__(self, variation: Exact) -> None:
        object.__setattr__(self, "variation", positive("variation", variation))

    def approximation(self, duration_s: Fraction) -> tuple[float, float]:  # noqa: ARG002 - for any T
        """Return (c, alpha): k equal block means are within c k^-alpha of a curve, in the mean over time."""
        return float(self.variation) / 2, 1.0


def error_bound(
    curves: Hoelder | BoundedVariation, epsilon: Exact, duration_s: Exact, k: int, *, largest: bool = False
) -> float:
    """Return a bound on the expected error, in the mean over time, of k private block means drawn as steps.

    The bound is c k^-alpha + (k+1)/(2 epsilon). With `largest` it is a bound on the expected largest error,
    c k^-alpha + k/epsilon (THEORY 4.2, for real numbers; a lattice adds its rounding error).

    Raises:
        TypeError: a parameter is not exact.
        ValueError: a parameter is not above zero, or `largest` is set for curves of bounded variation.
    """
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")
    c, alpha = _approximation(curves, duration_s, largest=largest)
    noise = Fraction(k) if largest else Fraction(k + 1, 2)
    return c * math.pow(k, -alpha) + float(noise / positive("epsilon", epsilon))


def best_k(
    curves: Hoelder | BoundedVariation, epsilon: Exact, duration_s: Exact, *, largest: bool = False
) -> int:
    """Return the number of blocks with the least `error_bound`.

    The number is near (alpha c/s)^(1/(1+alpha)), s = 1/(2 epsilon) or, for the largest error, 1/epsilon:
    sqrt(L T epsilon) for Lipschitz curves, sqrt(epsilon V) for bounded variation. The bound is a worst case:
    for simulated households the best number is 4 to 30 times smaller (THEORY 4.2), so simulate if you can.

    Raises:
        As for `error_bound`.
    """
    c, alpha = _approximation(curves, duration_s, largest=largest)
    per_number = (1 if largest else 0.5) / float(positive("epsilon", epsilon))
    k_floor = max(1, math.floor(math.pow(alpha * c / per_number, 1 / (1 + alpha))))
    return min(
        (k_floor, k_floor + 1), key=lambda k: error_bound(curves, epsilon, duration_s, k, largest=largest)
    )


def _approximation(
    curves: Hoelder | BoundedVariation, duration_s: Exact, *, largest: bool
) -> tuple[float, float]:
    """Return (c, alpha) of the approximation; raise ValueError if there is no such bound."""
    if largest and isinstance(curves, BoundedVariation):
        raise ValueError("no number of blocks bounds the largest error of curves that may jump")
    return curves.approximation(positive("duration_s", duration_s))


def chance_within(epsilon: Exact, reach: Exact, k: int) -> Fraction:
    """Return the largest probability that epsilon-private noise on curves stays within `reach` at k points.

    The probability is epsilon reach / k, at most 1. It falls to 0 as k grows. So no noise on C([0, T]) is
    private for the sup norm at any epsilon, because its paths are bounded (THEORY 4.4).

    Raises:
        TypeError: a parameter is not exact.  ValueError: it is not above zero, or k < 1.
    """
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")
    return min(Fraction(1), positive("epsilon", epsilon) * positive("reach", reach) / k)
