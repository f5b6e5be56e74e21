"""The number of values to release for a curve: error bounds, the best number, and why no number serves all.

Theory of operation
-------------------
More numbers approximate a curve more closely but are noisier: with k numbers, the expected error is at most
approximation(k) + noise(k), where noise(k) is (k+1)/(2 epsilon) for the mean error and k/epsilon for the
largest error (THEORY 1.2, 4.2). Choose k from public data, never from the private curve. No finite k serves
all curves. An epsilon-private mechanism has a mean error of at least (k+1)/(2 epsilon) at k points for some
curve (`floor.WindowFloor`), because polylines embed all vectors of k numbers in C([0, T]). So the error of
such a mechanism has no bound that holds on all of C([0, T]) (THEORY 4.4). Floats affect only accuracy here,
never privacy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from meteragent.privacy.exact import Exact, positive


@dataclass(frozen=True, init=False)
class Hoelder:
    """Curves with |f(t) - f(u)| <= constant |t - u|^exponent, with t and u in seconds.

    Curves with the exponent 1 are Lipschitz. In a block of length h, no value is farther than constant
    (h/2)^exponent from the block's mean.

    Raises:
        TypeError: a parameter is not exact.
        ValueError: a parameter is not positive, or the exponent is above 1.
    """

    constant: Fraction
    exponent: Fraction

    def __init__(self, constant: Exact, exponent: Exact = 1) -> None:
        object.__setattr__(self, "constant", positive("constant", constant))
        object.__setattr__(self, "exponent", positive("exponent", exponent))
        if self.exponent > 1:
            raise ValueError(f"an exponent above 1 allows only constant curves: {self.exponent}")

    def approximation(self, duration_s: Fraction) -> tuple[float, float]:
        """Return (c, alpha): the means of k equal blocks are everywhere within c k^-alpha of the curve."""
        alpha = float(self.exponent)
        return float(self.constant) * math.pow(float(duration_s) / 2, alpha), alpha


@dataclass(frozen=True, init=False)
class BoundedVariation:
    """Curves whose rises and falls sum to at most `variation`, such as switched loads.

    Within a block, the mean distance of the curve from its mean is at most half of its variation there. The
    largest distance has no bound that decreases with the number of blocks.

    Raises:
        TypeError: `variation` is not exact.  ValueError: it is not positive.
    """

    variation: Fraction

    def __init__(self, variation: Exact) -> None:
        object.__setattr__(self, "variation", positive("variation", variation))

    def approximation(self, duration_s: Fraction) -> tuple[float, float]:  # noqa: ARG002 - the same for any T
        """Return (c, alpha): on average, the means of k equal blocks are within c k^-alpha of the curve.

        The average is over time.
        """
        return float(self.variation) / 2, 1.0


def error_bound(
    curves: Hoelder | BoundedVariation, epsilon: Exact, duration_s: Exact, k: int, *, largest: bool = False
) -> float:
    """Return a bound on the expected error, averaged over time, of k private block means shown as steps.

    The blocks have equal lengths. The bound is c k^-alpha + (k+1)/(2 epsilon). With `largest` the result is a
    bound on the expected largest error, c k^-alpha + k/epsilon (THEORY 4.2, for real numbers; a lattice adds
    its rounding error).

    Raises:
        TypeError: a parameter is not exact.
        ValueError: a parameter is not positive, or `largest` is set for curves of bounded variation.
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

    The number is near (alpha c/s)^(1/(1+alpha)), where s is 1/(2 epsilon) or, for the largest error,
    1/epsilon. For the mean error this is sqrt(L T epsilon) for curves with the Lipschitz constant L, and
    sqrt(epsilon V) for curves with the variation V. The bound is a worst case: for a simulated household, the
    number computed from its variation was 4 to 30 times too large (THEORY 4.2), so simulate if you can.

    Raises:
        As for `error_bound`.
    """
    c, alpha = _approximation(curves, duration_s, largest=largest)
    noise_per_value = (1 if largest else 0.5) / float(positive("epsilon", epsilon))
    k_floor = max(1, math.floor(math.pow(alpha * c / noise_per_value, 1 / (1 + alpha))))
    return min(
        (k_floor, k_floor + 1), key=lambda k: error_bound(curves, epsilon, duration_s, k, largest=largest)
    )


def _approximation(
    curves: Hoelder | BoundedVariation, duration_s: Exact, *, largest: bool
) -> tuple[float, float]:
    """Return (c, alpha) of the approximation. Raises ValueError if there is no such bound."""
    if largest and isinstance(curves, BoundedVariation):
        raise ValueError("no number of blocks bounds the largest error of curves that may jump")
    return curves.approximation(positive("duration_s", duration_s))


def chance_within(epsilon: Exact, reach: Exact, k: int) -> Fraction:
    """Bound from above the chance that epsilon-private noise on curves is within `reach` at all of k points.

    The bound is epsilon reach / k, or 1 if that is less. It falls to 0 as k grows, but the paths of noise on
    C([0, T]) are bounded. So no noise on C([0, T]) is private for the sup norm at any epsilon (THEORY 4.4).

    Raises:
        TypeError: a parameter is not exact.  ValueError: a parameter is not positive.
    """
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")
    return min(Fraction(1), positive("epsilon", epsilon) * positive("reach", reach) / k)
