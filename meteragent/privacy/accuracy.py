"""The error that a release adds, as descriptors and `check` state it.

All results are floats in the unit of the quantum (W for a quantum in W), per slot unless stated otherwise.
Most depend on the `rounding` of values to whole quanta: half up before the noise, or dithered
(`mechanism.dithered`). Let n be the number of slots, q the quantum, and a = epsilon q. Given the noise bound
R (THEORY 2.1), a slot's noise z, in quanta, is uniform on {-R..R}. Let U be the error of the rounding before
the noise, uniform on (-1/2, 1/2). Then z + U is uniform on (-(R+1/2), R+1/2), and

    P(|z + U| > h) = sum over r = R + 1/2 > h of P(R) (1 - h/r),        P(R) proportional to r^n e^(-a r).

The error of a dithered slot, and the interval that covers it for every load, are those of THEORY A.8. Sums
over the lattice are used if noise bounds above 2^17 are negligible. Otherwise integrals replace the sums over
half-integers: r is Gamma(n+1, 1/a), and a |z + U| is Erlang(K) with K uniform on 1..n (THEORY 1.1, 1.2). By
Poisson summation, the relative error of each moment is at most 2 sum over m >= 1 of |1 + 2 pi i m/a|^-(n+1),
below 1e-10 for n >= 2 (n = 1 has a closed form). The sum for h has a kink, so the error of h is larger, but
below 1e-6. With dithering, h is then rounded up to H + 1/2, and the term (p(H) - p(H+1))/2 of A.8, below
3e-7, is neglected.
"""

import math
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from meteragent.privacy.mechanism.laplace import LInfLaplace

Rounding = Literal["half-up", "dithered"]
"""The rounding of values to whole quanta: floor(x/q + 1/2), or floor(x/q + u) with u uniform on [0, 1)."""

_TERMS_LIMIT = 1 << 17


class _Lattice(NamedTuple):
    """The distribution of r = R + 1/2 as points and probabilities, cut off where about e^-60 is left."""

    r: NDArray[np.float64]
    probability: NDArray[np.float64]


def _lattice(n: int, a: float) -> _Lattice | None:
    """Tabulate the distribution of r; return None if it has too many points for a table."""
    # At the table's end, r = (1+y) n/a, the weight is at most e^-60 times the largest, because
    # n (y - ln(1+y)) >= n y^2 / (2(1+y)) = 60.
    end = (n + 60 + math.sqrt(3600 + 120 * n)) / a
    if end > _TERMS_LIMIT:
        return None
    r = np.arange(math.ceil(end) + 1, dtype=np.float64) + 0.5
    log_weight = n * np.log(r) - a * r
    weight = np.exp(log_weight - log_weight.max())
    return _Lattice(r, weight / weight.sum())


def sd(mechanism: LInfLaplace, rounding: Rounding = "half-up") -> float:
    """Return the standard deviation of a slot's error.

    With half-up rounding, this is the standard deviation of the noise, q sqrt(E[R(R+1)]/3): q / (sqrt2
    sinh(a/2)) for n = 1, and about sqrt((n+1)(n+2)/3)/epsilon for a << 1. The rounding error is a bias and is
    not included. With dithering, it is q sqrt(Var z + 1/6), the square root of the variance averaged over
    loads (THEORY A.8).
    """
    deviation = _deviation(mechanism)
    if rounding == "dithered":
        deviation = math.sqrt(deviation**2 + 1 / 6)
    return float(mechanism.quantum) * deviation


def _deviation(mechanism: LInfLaplace) -> float:
    """Return the standard deviation of the noise z, in quanta."""
    n, a = mechanism.n, float(mechanism.a)
    if n == 1:
        return math.sqrt(2) * math.exp(-a / 2) / -math.expm1(-a)  # sinh would overflow
    if (table := _lattice(n, a)) is None:
        return math.sqrt(((n + 1) * (n + 2) / a**2 - 0.25) / 3)
    return math.sqrt(float(np.sum(table.probability * (table.r**2 - 0.25))) / 3)


def require_coverage(coverage: float) -> None:
    """Raise ValueError unless `coverage` is between 0 and 1."""
    if not 0 < coverage < 1:
        raise ValueError(f"coverage must lie between 0 and 1, not {coverage}")


@lru_cache(maxsize=256)
def half_width(mechanism: LInfLaplace, coverage: float = 0.95, rounding: Rounding = "half-up") -> float:
    """Return an h such that a slot's value is within h of its release with probability `coverage`.

    The error is measured against the value before it is rounded to the quantum. With half-up rounding, it is
    modelled as q (z + U), so h is a continuous function of all parameters. With negligible noise, h is
    coverage * q/2; for n = 1 and a << 1, it is -ln(1 - coverage)/epsilon, as for the Laplace distribution. A
    value at the worst position between two quanta is covered with a lower probability: for n = 1 and a
    coverage of 0.95, it is 0.945 at a = 0.2 and 0.865 at a = 2. With dithering, h is (H + 1/2) q for a whole
    H, and the interval has at least this coverage for every value (THEORY A.8). Raises ValueError if the
    coverage is not between 0 and 1.
    """
    require_coverage(coverage)
    n, a = mechanism.n, float(mechanism.a)
    table = _lattice(n, a)
    if rounding == "dithered" and table is not None:
        return float(mechanism.quantum) * _dithered_half_width(table, coverage)
    low, high = 0.0, (n + 60 + math.sqrt(3600 + 120 * n)) / a + 1
    while (middle := (low + high) / 2) not in (low, high):
        tail = _erlang_tail(n, a * middle) if table is None else _lattice_tail(table, middle)
        low, high = (middle, high) if tail > 1 - coverage else (low, middle)
    if rounding == "dithered":
        high = math.ceil(high - 0.5) + 0.5
    return float(mechanism.quantum) * high


def _dithered_half_width(table: _Lattice, coverage: float) -> float:
    """Return the least h = H + 1/2 with sum over r > h of P(r) (1 - h/r) + P(h)/(4h) <= 1 - coverage."""
    mass, share = (
        np.append(np.cumsum(p[::-1])[::-1][1:], 0) for p in (table.probability, table.probability / table.r)
    )
    outside = mass - table.r * share + table.probability / (4 * table.r)
    return float(table.r[np.argmax(outside <= 1 - coverage)])


def _lattice_tail(table: _Lattice, h: float) -> float:
    """Return P(|z + U| > h) = sum over r > h of P(r) (1 - h/r)."""
    # A dot product runs in threads: if other programs use the cores, it is 100 times as slow as this sum.
    return float(np.sum(table.probability * np.maximum(1 - h / table.r, 0)))


def _erlang_tail(n: int, x: float) -> float:
    """Return P(|Z| > x) at epsilon = 1: the mean of Erlang(1..n)'s tails, e^-x sum_{i<n} (1 - i/n) x^i/i!."""
    i, log_factorial, share = _erlang_terms(n)
    return float(np.sum(np.exp(i * math.log(x) - x - log_factorial) * share))  # see `_lattice_tail`


@lru_cache(maxsize=1)
def _erlang_terms(n: int) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Return i, ln i! and 1 - i/n for i < n, cached because a search for a half-width needs them often."""
    i = np.arange(n)
    return i, np.concatenate(([0.0], np.cumsum(np.log(i[1:])))), 1 - i / n
