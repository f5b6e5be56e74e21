"""The error of sums: of many windows, of several slots of one window, of many meters, each with a weight.

Theory of operation
-------------------
As in `accuracy` an error is counted against what was there before it was rounded to the quantum, its
rounding taken as uniform on the quantum's cell. So, with r = R + 1/2, the error of each slot of a window
is uniform on (-r, r), in quanta, independent of the others given r; and that of a sum of m slots is r
times a sum of m uniforms on (-1, 1):

    P(|error| <= h) = sum over r of P(r) G_m(h/r),        G_m(x) = P(|u_1 + .. + u_m| <= x).

That is why slots of one window are uncorrelated but not independent: they share r. Windows are
independent: their errors add by convolution, by the fast Fourier transform on a grid whose cells hold the
masses of a window's error. The grid ends where all beyond has a chance below 1e-12 (Chernoff's bound, on
the cells themselves), so that what wraps around does not count.

What is approximated: a window's error is moved to the middle of its cell, which is 1/256 of the total's
deviation wide, or 1/32 of the windows' root mean square if that is less; where R has many values,
neighbours are merged into 1024 (for m = 1: 16384); G_m is that of a sum over 513 points. All three change
the spread first, and the result is scaled to the exact deviation. What is left is below 5e-5 of a half
width, and below 1e-5 for the usual coverages (measured by the tests against independent formulas).
"""

import math
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from meteragent.privacy import accuracy
from meteragent.privacy.mechanism.laplace import LInfLaplace

Floats = NDArray[np.float64]

_BEYOND = 1e-12
_CELLS_PER_DEVIATION = 256  # of the total
_CELLS_PER_WINDOW = 32  # of a window's deviation
_HALF_POINTS = 256  # of the uniforms behind G_m
_FAR = 7.5  # P(|u_1 + .. + u_m| > 7.5 sqrt(m)) < 2 e^(-7.5^2/2) = 1.3e-12 (Hoeffding)


class Part(NamedTuple):
    """Of each of `windows` windows the sum of `slots` of its values, times `weight`.

    `weight` turns the mechanism's unit into the total's, such as hours / 1000 for W into kWh.
    """

    mechanism: LInfLaplace
    slots: int = 1
    windows: int = 1
    weight: float = 1.0


def sd_of_total(parts: Iterable[Part]) -> float:
    """The standard deviation of the noise in a total: slots are uncorrelated (THEORY 1.2)."""
    return math.hypot(*(p.weight * math.sqrt(p.slots * p.windows) * _sd(p.mechanism) for p in parts))


def half_width_of_total(parts: Iterable[Part], coverage: float = 0.95) -> float:
    """The h such that what was measured lies within total +- h with probability `coverage`.

    In the total's unit; right to 5e-5 of itself for coverages up to 1 - 1e-9. The error of rounding is
    included as in `accuracy.half_width`, which it is for one slot. Parts are independent: slots of one
    window belong into one part.

    Raises:
        ValueError: there is no part; or slots not in 1..n, windows < 1, a weight not above zero, or
            a coverage not between 0 and 1.
    """
    if not 0 < coverage < 1:
        raise ValueError(f"coverage must lie between 0 and 1, not {coverage}")
    windows: Counter[Part] = Counter()
    for part in parts:
        if not (1 <= part.slots <= part.mechanism.n and part.windows >= 1 and 0 < part.weight < math.inf):
            raise ValueError(f"no such part of a total: {part}")
        windows[part._replace(windows=1)] += part.windows
    if not windows:
        raise ValueError("a total has at least one part")
    return _half_width(tuple(windows.items()), coverage)


@lru_cache(maxsize=1024)
def _half_width(windows: tuple[tuple[Part, int], ...], coverage: float) -> float:
    first, count = windows[0]
    if len(windows) == count == first.slots == 1:
        return first.weight * accuracy.half_width(first.mechanism, coverage)
    exact = math.sqrt(sum(count * _variance(part) for part, count in windows))
    fineness = _CELLS_PER_WINDOW * math.sqrt(sum(count for _, count in windows))
    deviation = max(_CELLS_PER_DEVIATION, fineness)  # in cells
    law = _convolved([(_cells(part, exact / deviation), count) for part, count in windows], deviation)
    cell = exact / math.sqrt(2 * np.sum(law * np.arange(law.size, dtype=float) ** 2))
    within = np.maximum.accumulate(2 * np.cumsum(law) - law[0])
    edges = np.arange(law.size) + 0.5
    return cell * float(np.interp(coverage, np.append(0, within), np.append(0, edges)))


_sd = lru_cache(maxsize=1024)(accuracy.sd)


def _variance(part: Part) -> float:
    """Of the error of one window's sum: its rounding has q^2/12 a slot."""
    noise, quantum = _sd(part.mechanism), float(part.mechanism.quantum)
    return part.slots * part.weight**2 * (noise**2 + quantum**2 / 12)


def _convolved(laws: list[tuple[Floats, int]], deviation: float) -> Floats:
    """The masses of cells 0, 1, 2 .. of the sum of `count` errors of each law; all are symmetric."""
    size = 1 << math.ceil(math.log2(2 * _reach(laws, deviation) + 2))
    spectrum = np.ones(size // 2 + 1)
    for law, count in laws:
        circle = np.zeros(size)
        kept = law[: size // 2]
        circle[: kept.size] = kept
        circle[size - kept.size + 1 :] = kept[:0:-1]
        spectrum *= np.fft.rfft(circle).real ** count
    return np.asarray(np.fft.irfft(spectrum, size)[: size // 2])


def _reach(laws: list[tuple[Floats, int]], deviation: float) -> float:
    """How many cells the sum exceeds with a chance below 1e-12: P(|x| > h) <= 2 e^(-sh) E e^(sx)."""
    reach = float(sum(count * law.size for law, count in laws))
    steepest = 600 / max(law.size for law, _ in laws)  # cosh stays finite
    for s in np.minimum(np.geomspace(0.25, 16, 19) / deviation, steepest):
        moments = [2 * np.sum(law * np.cosh(s * np.arange(law.size))) - law[0] for law, _ in laws]
        log_moment = sum(count * math.log(moment) for moment, (_, count) in zip(moments, laws, strict=True))
        reach = min(reach, (math.log(2 / _BEYOND) + log_moment) / s)
    return reach


def _cells(part: Part, cell: float) -> Floats:
    """The masses of cells 0, 1, 2 .. of the error of one window's sum."""
    r, probability = _radii(part.mechanism, 1 << 14 if part.slots == 1 else 1 << 10)
    r = r * part.weight * float(part.mechanism.quantum)
    end = r[-1] * min(part.slots, _FAR * math.sqrt(part.slots))
    edges = (np.arange(math.ceil(end / cell) + 1) + 0.5) * cell
    law = _slot_within if part.slots == 1 else _sum_within
    within = law(r, probability, edges, part.slots)
    return np.append(within[0], np.diff(within) / 2)


def _slot_within(r: Floats, probability: Floats, h: Floats, _: int) -> Floats:
    """P(|error| <= h) of one slot: 1 - sum over r > h of P(r) (1 - h/r)."""
    tail, steepness = (np.append(np.cumsum(p[::-1])[::-1], 0) for p in (probability, probability / r))
    first = np.searchsorted(r, h)
    return np.asarray(1 - tail[first] + h * steepness[first])


def _sum_within(r: Floats, probability: Floats, h: Floats, slots: int) -> Floats:
    """P(|error| <= h) of the sum of several slots: the mean of G_m(h/r)."""
    points, law = _uniform_sum(slots)
    within = np.zeros(h.size)
    for one, mass in zip(r, probability, strict=True):
        within += mass * np.interp(h / one, points, law)
    return within


def _radii(mechanism: LInfLaplace, limit: int) -> tuple[Floats, Floats]:
    """The law of r = R + 1/2 in quanta, on about `limit` values at most, but for a mass of e^-40."""
    n, a = mechanism.n, float(mechanism.a)
    low = max(0.0, n - math.sqrt(80 * n)) / a
    high = (n + 40 + math.sqrt(1600 + 80 * n)) / a
    merged = math.ceil((high - low) / limit)
    r = np.arange(math.floor(low / merged) + 0.5, math.ceil(high / merged) + 1, dtype=np.float64) * merged
    log_weight = n * np.log(r) - a * r
    weight = np.exp(log_weight - log_weight.max())
    return r, weight / weight.sum()


@lru_cache(maxsize=64)
def _uniform_sum(m: int) -> tuple[Floats, Floats]:
    """G_m as a table: points x and P(|u_1 + .. + u_m| <= x)."""
    reach = math.ceil(_HALF_POINTS * min(m, _FAR * math.sqrt(m)))
    circle = np.zeros(1 << math.ceil(math.log2(2 * reach + 2)))
    circle[np.arange(-_HALF_POINTS, _HALF_POINTS + 1)] = 1 / (2 * _HALF_POINTS + 1)
    law = np.fft.irfft(np.fft.rfft(circle).real ** m, circle.size)[: reach + 1]
    points = (np.arange(reach + 1) + 0.5) / (_HALF_POINTS + 0.5)
    within = np.minimum(2 * np.cumsum(law) - law[0], 1)
    return np.append(0, points), np.append(0, within)
