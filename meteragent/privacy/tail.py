"""The probability that noise alone makes a weighted sum at least as large as the released sum (THEORY 3.9).

The difference between two costs is a weighted sum of independent slot values of windows with n = 1.
`tail_probability` is the p-value of such a difference, and `quantile` is the inverse of `tail_probability`.

At any load, z + U with U uniform on [0, 1) is stochastically larger than the error e of a dithered slot, in
quanta (THEORY 3.9), and the sign of a weight does not matter:

    P(w_1 e_1 + .. + w_m e_m >= x) <= P(|w_1| (z_1 + U_1) + .. + |w_m| (z_m + U_m) >= x).

For one term the bound is attained. With half-up rounding, e is at most z + 1/2, which z + U + 1/2 dominates.

One term has a closed form. The distribution of a sum is convolved by the fast Fourier transform, on a grid of
1/1024 of the longest decay length |w| q/a. Each term's mass between two points of the grid is divided between
them so that the mean is preserved, which raises the tails by a relative error of at most 1e-6 for each term.
The grid ends where the mass beyond it is below 1e-13 (Chernoff's bound); 1e-12 is added for this mass and for
the rounding of the transform.
"""

import math
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from meteragent.privacy.accuracy import Rounding
from meteragent.privacy.mechanism.laplace import LInfLaplace

Floats = NDArray[np.float64]

_CELLS_PER_DECAY = 1024
_BEYOND = 1e-13  # the mass that may lie beyond the grid
_INEXACT = 1e-12  # an upper bound on the numerical error of a chance


class Term(NamedTuple):
    """A number of independent `values` of a mechanism with n = 1, each times a `weight` that is not 0."""

    mechanism: LInfLaplace
    weight: float
    values: int = 1
    rounding: Rounding = "dithered"


class _Kind(NamedTuple):
    """The size of a quantum in the sum, and a = epsilon q."""

    size: float
    a: float

    @property
    def decay(self) -> float:
        """The length over which the tail falls by a factor of e."""
        return self.size / self.a


class _Law(NamedTuple):
    """The distribution of a sum: P(sum - mean >= x[i]) = tail[i], linear between the points."""

    x: Floats
    tail: Floats


def tail_probability(terms: Iterable[Term], x: float) -> float:
    """Return the largest probability, over all loads, that the error of a sum is at least x.

    The result is exact for a single dithered value, otherwise an upper bound. Raises ValueError if
    there is no term, or one has n > 1, values < 1, or a weight that is 0 or not finite.
    """
    kinds, mean = _kinds(terms)
    if len(kinds) == 1 and kinds[0][1] == 1:
        kind = kinds[0][0]
        return float(_slot_tail(kind.a, np.array([(x - mean) / kind.size + 0.5]))[0])
    law = _law(kinds)
    return min(1.0, float(np.interp(x - mean, law.x, law.tail)) + _INEXACT)


def quantile(terms: Iterable[Term], chance: float) -> float:
    """Find the least x >= 0 with tail_probability <= chance. Raises ValueError unless 1e-9 <= chance < 1."""
    if not 1e-9 <= chance < 1:
        raise ValueError(f"a chance must lie between 1e-9 and 1, not {chance}")
    listed = list(terms)
    low, high = 0.0, 1.0
    while tail_probability(listed, high) > chance:
        low, high = high, 2 * high
    while (middle := (low + high) / 2) not in (low, high):
        low, high = (middle, high) if tail_probability(listed, middle) > chance else (low, middle)
    return high


def _kinds(terms: Iterable[Term]) -> tuple[tuple[tuple[_Kind, int], ...], float]:
    """Return the number of values of each kind, and the mean of the dominating sum."""
    counts, mean = Counter[_Kind](), 0.0
    for term in terms:
        size = abs(term.weight) * float(term.mechanism.quantum)
        if term.mechanism.n != 1 or term.values < 1 or not 0 < size < math.inf:
            raise ValueError(f"not a term of a sum: {term}")
        counts[_Kind(size, float(term.mechanism.a))] += term.values
        mean += term.values * size * (0.5 if term.rounding == "dithered" else 1)
    if not counts:
        raise ValueError("a sum must have at least one term")
    return tuple(sorted(counts.items(), reverse=True)), mean


def _slot_tail(a: float, y: Floats) -> Floats:
    """Return P(z + U >= y): T(k) = r^k / (1 + r) for k >= 0, r = e^-a, linear between integers k."""
    k = np.ceil(y)
    return np.asarray((1 - (k - y)) * _whole_tail(a, k) + (k - y) * _whole_tail(a, k - 1))


def _whole_tail(a: float, k: Floats) -> Floats:
    """Return T(k) = P(z >= k), computed as 1 - T(1 - k) for k < 0."""
    far = np.exp(-a * np.where(k < 0, 1 - k, k)) / (1 + math.exp(-a))
    return np.where(k < 0, 1 - far, far)


def _slot_excess(a: float, y: Floats) -> Floats:
    """Return E max(z + U - y, 0) for y >= 1/2: r^k / (2 (1 - r)) at integers k, integrals of T in between."""
    k = np.ceil(y)
    s = k - y
    at, before = _whole_tail(a, k), _whole_tail(a, k - 1)
    return np.asarray(np.exp(-a * k) / (-2 * math.expm1(-a)) + s * at + s**2 * (before - at) / 2)


@lru_cache(maxsize=64)
def _law(kinds: tuple[tuple[_Kind, int], ...]) -> _Law:
    """Return the distribution of the sum of the terms, each less its mean."""
    cell = max(kind.decay for kind, _ in kinds) / _CELLS_PER_DECAY
    reach = math.ceil(_reach(kinds) / cell)
    size = 1 << math.ceil(math.log2(2 * reach + 2))
    spectrum = np.ones(size // 2 + 1)
    for kind, count in kinds:
        spectrum *= np.fft.rfft(_circle(kind, cell, size)).real ** count
    masses = np.fft.irfft(spectrum, size)[: reach + 1]  # of the points 0, 1, 2 ..; the sum is symmetric
    upper = np.clip(np.cumsum(masses[::-1])[::-1] - masses / 2, 0, 0.5)
    x = cell * np.arange(-reach, reach + 1, dtype=np.float64)
    # The arrays stay writeable, because np.interp would copy read-only arrays at each call.
    return _Law(x, np.concatenate((1 - upper[:0:-1], upper)))


def _circle(kind: _Kind, cell: float, size: int) -> Floats:
    """Return a term's masses at grid points, by hat functions: second differences of the mean excess."""
    points = np.arange(size // 2 + 1, dtype=np.float64) * (cell / kind.size)
    excess = _slot_excess(kind.a, points + 0.5)
    masses = np.maximum(np.diff(excess, 2), 0) * (kind.size / cell)
    at_zero = 1 - 2 * float(np.sum(masses))
    circle = np.zeros(size)
    circle[0] = max(at_zero, 0)
    circle[1 : masses.size + 1] = masses
    circle[size - masses.size :] = masses[::-1]
    return circle


def _reach(kinds: tuple[tuple[_Kind, int], ...]) -> float:
    """Return a distance that (sum - mean) exceeds with a chance of at most 1e-13 (Chernoff)."""
    decay = max(kind.decay for kind, _ in kinds)
    best = math.inf
    for share in (0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.97):
        slope = share / decay
        moment = sum(count * _log_moment(kind, slope) for kind, count in kinds)
        best = min(best, (math.log(1 / _BEYOND) + moment) / slope)
    return best


def _log_moment(kind: _Kind, slope: float) -> float:
    """Return ln((1 - r)^2 / ((1 - r e^t)(1 - r e^-t)) sinh(t/2)/(t/2)), t = slope * size, r = e^-a."""
    t, a = slope * kind.size, kind.a
    noise = 2 * math.log(-math.expm1(-a)) - math.log(-math.expm1(t - a)) - math.log(-math.expm1(-t - a))
    half = t / 2
    return noise + half + math.log(-math.expm1(-2 * half) / (2 * half))
