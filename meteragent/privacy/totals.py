"""The error of weighted sums of slots, also across windows and meters, and of all slots of a window at once.

As in `accuracy`, errors are measured against the value before it is rounded to the quantum, and the error of
half-up rounding is modelled as uniform on the quantum's cell. So, with r = R + 1/2, the errors of the slots
of a window are uniform on (-r, r), in quanta, and independent given r. The error of a sum of slots with
weights w_i is r times a weighted sum of numbers u_i, uniform on (-1, 1):

    P(|error| <= h) = sum over r of P(r) G_w(h/r),        G_w(x) = P(|w_1 u_1 + .. + w_m u_m| <= x).

So the slots of one window are uncorrelated but not independent, because all of them have the same r. Windows
are independent: their errors are convolved by the fast Fourier transform, on a grid whose cells hold the
masses of a window's error. The grid ends where the mass beyond it is below 1e-12 (Chernoff's bound, on the
cells themselves), so that the mass that wraps around is negligible.

With dithering, the worst load for a total is taken to be half a quantum off the lattice in every slot, where
each variance is Var z + 1/4 (THEORY A.8), so r is replaced by sqrt(r^2 + 1/2). In addition, half of the
heaviest slot's quantum, the largest step of the lattice of these errors, is added to a half-width, so that
the number of lattice points inside is at least the length of the interval. Enumeration shows that this
suffices for every load of the sums in the tests, but there is no general proof. For one slot, and for all
slots of a window at once, the half-widths are proved. `law_of_total` returns the distribution for
the load that is taken as the worst, without the added half quantum.

There are three approximations. A window's error is moved to the middle of its cell, which is as wide as 1/256
of the total's standard deviation, or 1/32 of the windows' root mean square deviation if that is less. If R
has many values, neighbours are merged into about 1024 (16384 if m = 1). G_w is computed on a grid, 513 points
of which cover the heaviest slot's uniform distribution. The result is scaled to the exact standard deviation.
The remaining error is below 5e-5 of a half-width, and below 1e-5 for the usual coverages (measured by the
tests against independent formulas).
"""

import math
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from meteragent.privacy import accuracy
from meteragent.privacy.accuracy import Rounding
from meteragent.privacy.mechanism.laplace import LInfLaplace

Floats = NDArray[np.float64]

_TAIL_MASS = 1e-12  # the mass that may lie beyond the grid
_CELLS_PER_DEVIATION = 256  # cells per standard deviation of the total
_CELLS_PER_WINDOW = 32  # cells per standard deviation of a window
_HALF_POINTS = 256  # grid points on each side of 0, for the heaviest uniform distribution in G_w
_FAR = 7.5  # P(|w_1 u_1 + .. + w_m u_m| > 7.5 |w|_2) <= 2 e^(-7.5^2/2) < 1.3e-12 (Hoeffding)


class Part(NamedTuple):
    """A part of a total: the sum of `slots` values, times `weight`, from each of `windows` windows."""

    mechanism: LInfLaplace
    slots: int = 1
    windows: int = 1
    weight: float = 1.0
    rounding: Rounding = "half-up"


class Weighted(NamedTuple):
    """A part of a total: one value per weight, times that weight, from each of `windows` windows."""

    mechanism: LInfLaplace
    weights: tuple[float, ...]
    windows: int = 1
    rounding: Rounding = "half-up"


class _Window(NamedTuple):
    """A kind of window in a total; `slots` has pairs of a weight and a number, largest weight first."""

    mechanism: LInfLaplace
    slots: tuple[tuple[float, int], ...]
    rounding: Rounding

    @property
    def weight(self) -> float:
        """The weight of the heaviest slot."""
        return self.slots[0][0]

    @property
    def is_single_slot(self) -> bool:
        """Whether the window contributes a single slot."""
        return len(self.slots) == self.slots[0][1] == 1

    @property
    def squares(self) -> float:
        """The sum of the weights' squares."""
        return math.fsum(count * weight**2 for weight, count in self.slots)

    @property
    def reach(self) -> float:
        """A bound on |w_1 u_1 + .. + w_m u_m|, exceeded with a probability of at most 1.3e-12."""
        return min(math.fsum(count * weight for weight, count in self.slots), _FAR * math.sqrt(self.squares))


class Law(NamedTuple):
    """The distribution of a total's error: P(|error| <= h[i]) = within[i], linear between the points."""

    h: Floats
    within: Floats


def sd_of_total(parts: Iterable[Part | Weighted]) -> float:
    """Return the standard deviation of a total's error: slots are uncorrelated (THEORY 1.2).

    Raises ValueError if there is no part, slots are not in 1..n, windows < 1, or a weight is not positive and
    finite.
    """
    windows = _windows(parts).items()
    return math.hypot(
        *(math.sqrt(count * kind.squares) * _sd(kind.mechanism, kind.rounding) for kind, count in windows)
    )


def half_width_of_total(parts: Iterable[Part | Weighted], coverage: float = 0.95) -> float:
    """Return h such that measured and released totals differ by at most h with probability `coverage`.

    The half-width is in the total's unit; its relative error is at most 5e-5 for coverages up to 1 - 1e-9.
    The rounding error is included as in `accuracy.half_width`, which is the result for one slot. With
    dithering, the coverage is at least `coverage` for every load: for one slot by a proof, otherwise as far
    as it has been checked by enumeration. Parts are independent: put the slots of one window into one part.
    Raises ValueError if there is no part, slots are not in 1..n, windows < 1, a weight is not positive and
    finite, or the coverage is not between 0 and 1.
    """
    accuracy.require_coverage(coverage)
    return _half_width(tuple(_windows(parts).items()), coverage)


def half_width_of_window(
    mechanism: LInfLaplace, coverage: float = 0.95, rounding: Rounding = "half-up"
) -> float:
    """Return an h such that with probability `coverage` all n slots of a window are off by at most h.

    The half-width is in the unit of the quantum and includes the rounding error. With half-up rounding, all n
    errors are uniform on (-r, r) given r, so h solves sum over r of P(r) min(1, h/r)^n = coverage. With
    dithering, it is (H + 1/2) q for the least H with

        sum over R of P(R) g(R)^n >= coverage,   g(R) = 1, 1 - 1/(4H + 2), (2H + 1)/(2R + 1)  for R <, =, > H.

    Here g(R) is the least chance, over all loads, that a slot's error is within the half-width given R. As in
    `accuracy`, the worst load is half a quantum off the lattice, for every R. For n = 1 both results are
    `accuracy.half_width`. Raises ValueError if the coverage is not between 0 and 1.
    """
    accuracy.require_coverage(coverage)
    if mechanism.n == 1:
        return accuracy.half_width(mechanism, coverage, rounding)
    r, probability = _half_bounds(mechanism, 1 << 14)
    low, high = 0.0, float(r[-1])
    while (middle := (low + high) / 2) not in (low, high):
        within = float(np.sum(probability * np.minimum(1, middle / r) ** mechanism.n))
        low, high = (middle, high) if within < coverage else (low, middle)
    if rounding == "dithered":
        high = _whole_and_half(mechanism.n, r, probability, high, coverage)
    return float(mechanism.quantum) * high


def _whole_and_half(n: int, r: Floats, probability: Floats, start: float, coverage: float) -> float:
    """Return the least H + 1/2 >= start that bounds all n dithered errors with chance `coverage`."""
    h = math.ceil(start - 0.5) + 0.5
    while True:
        share = np.where(r == h, 1 - 1 / (4 * h), np.minimum(1, h / r))
        if float(np.sum(probability * share**n)) >= coverage:
            return h
        h += 1


def law_of_total(parts: Iterable[Part | Weighted]) -> Law:
    """Return the distribution of a total's error, without the half quantum added for dithering."""
    return _law(tuple(_windows(parts).items()))


def _windows(parts: Iterable[Part | Weighted]) -> Counter[_Window]:
    """Count the windows of each kind in a total."""
    windows: Counter[_Window] = Counter()
    for part in parts:
        weights = {part.weight: part.slots} if isinstance(part, Part) else Counter(part.weights)
        slots = sum(weights.values())
        fits = 1 <= slots <= part.mechanism.n and part.windows >= 1
        if not (fits and all(0 < weight < math.inf for weight in weights)):
            raise ValueError(f"not a part of a total: {part}")
        slots_by_weight = tuple(sorted(weights.items(), reverse=True))
        windows[_Window(part.mechanism, slots_by_weight, part.rounding)] += part.windows
    if not windows:
        raise ValueError("a total must have at least one part")
    return windows


@lru_cache(maxsize=1024)
def _half_width(windows: tuple[tuple[_Window, int], ...], coverage: float) -> float:
    window, count = windows[0]
    if len(windows) == count == 1 and window.is_single_slot:
        return window.weight * accuracy.half_width(window.mechanism, coverage, window.rounding)
    law = _law(windows)
    dithered = (
        kind.weight * float(kind.mechanism.quantum) for kind, _ in windows if kind.rounding == "dithered"
    )
    return float(np.interp(coverage, law.within, law.h)) + max(dithered, default=0.0) / 2


@lru_cache(maxsize=32)
def _law(windows: tuple[tuple[_Window, int], ...]) -> Law:
    """Compute the distribution of a total's error from the count of each kind of window."""
    exact_deviation = math.sqrt(sum(count * _variance(window) for window, count in windows))
    fineness = _CELLS_PER_WINDOW * math.sqrt(sum(count for _, count in windows))
    deviation = max(_CELLS_PER_DEVIATION, fineness)  # in cells
    laws = [(_cells(window, exact_deviation / deviation), count) for window, count in windows]
    law = _convolve(laws, deviation)
    cell = exact_deviation / math.sqrt(2 * np.sum(law * np.arange(law.size, dtype=float) ** 2))
    within = np.maximum.accumulate(2 * np.cumsum(law) - law[0])
    return Law(_freeze(cell * np.append(0, np.arange(law.size) + 0.5)), _freeze(np.append(0, within)))


def _freeze(array: Floats) -> Floats:
    array.setflags(write=False)
    return array


_sd = lru_cache(maxsize=1024)(accuracy.sd)


def _variance(window: _Window) -> float:
    """Return a window's variance; rounding adds q^2/12 per slot if half-up, q^2/4 (at worst) if dithered."""
    noise, quantum = _sd(window.mechanism), float(window.mechanism.quantum)
    return window.squares * (noise**2 + quantum**2 / (4 if window.rounding == "dithered" else 12))


def _convolve(laws: list[tuple[Floats, int]], deviation: float) -> Floats:
    """Return the masses of cells 0, 1, 2 .. of the sum of `count` errors of each symmetric distribution."""
    size = 1 << math.ceil(math.log2(2 * _reach(laws, deviation) + 2))
    spectrum = np.ones(size // 2 + 1)
    for law, count in laws:
        # Negative cells go to the end of the circle, so the transform of a symmetric distribution is real.
        circle = np.zeros(size)
        masses = law[: size // 2]
        circle[: masses.size] = masses
        circle[size - masses.size + 1 :] = masses[:0:-1]
        spectrum *= np.fft.rfft(circle).real ** count
    return np.asarray(np.fft.irfft(spectrum, size)[: size // 2])


def _reach(laws: list[tuple[Floats, int]], deviation: float) -> float:
    """Return an h, in cells, beyond which the mass is at most 1e-12 (Chernoff, 2 e^(-sh) E e^(sx))."""
    reach = float(sum(count * law.size for law, count in laws))
    steepest = 600 / max(law.size for law, _ in laws)  # cosh stays finite
    for s in np.minimum(np.geomspace(0.25, 16, 19) / deviation, steepest):
        moments = [2 * np.sum(law * np.cosh(s * np.arange(law.size))) - law[0] for law, _ in laws]
        log_moment = sum(count * math.log(moment) for moment, (_, count) in zip(moments, laws, strict=True))
        reach = min(reach, (math.log(2 / _TAIL_MASS) + log_moment) / s)
    return reach


def _cells(window: _Window, cell: float) -> Floats:
    """Return the masses of cells 0, 1, 2 .. of the error of one window's sum."""
    r, probability = _half_bounds(window.mechanism, 1 << 14 if window.is_single_slot else 1 << 10)
    if window.rounding == "dithered":
        r = np.sqrt(r**2 + 1 / 2)
    r = r * window.weight * float(window.mechanism.quantum)
    end = r[-1] * window.reach / window.weight
    edges = (np.arange(math.ceil(end / cell) + 1) + 0.5) * cell
    if window.is_single_slot:
        within = _slot_within(r, probability, edges)
    else:
        shares = tuple((weight / window.weight, count) for weight, count in window.slots)
        within = _sum_within(r, probability, edges, *_uniform_sum(shares, window.reach / window.weight))
    return np.append(within[0], np.diff(within) / 2)


def _slot_within(r: Floats, probability: Floats, h: Floats) -> Floats:
    """Return P(|error| <= h) of one slot: 1 - sum over r > h of P(r) (1 - h/r)."""
    tail, steepness = (np.append(np.cumsum(p[::-1])[::-1], 0) for p in (probability, probability / r))
    index = np.searchsorted(r, h)
    return np.asarray(1 - tail[index] + h * steepness[index])


def _sum_within(r: Floats, probability: Floats, h: Floats, points: Floats, law: Floats) -> Floats:
    """Return P(|error| <= h) of a sum of slots: the mean over r of G_w(h/r), a table `law` at `points`."""
    within = np.zeros(h.size)
    for scale, mass in zip(r, probability, strict=True):
        within += mass * np.interp(h / scale, points, law)
    return within


def _half_bounds(mechanism: LInfLaplace, limit: int) -> tuple[Floats, Floats]:
    """Return about `limit` points of r = R + 1/2, in quanta, and their masses; omit tails of about e^-40."""
    n, a = mechanism.n, float(mechanism.a)
    low = max(0.0, n - math.sqrt(80 * n)) / a
    high = (n + 40 + math.sqrt(1600 + 80 * n)) / a
    factor = math.ceil((high - low) / limit)
    r = np.arange(math.floor(low / factor) + 0.5, math.ceil(high / factor) + 1, dtype=np.float64) * factor
    log_weight = n * np.log(r) - a * r
    weight = np.exp(log_weight - log_weight.max())
    return r, weight / weight.sum()


@lru_cache(maxsize=64)
def _uniform_sum(shares: tuple[tuple[float, int], ...], end: float) -> tuple[Floats, Floats]:
    """Tabulate G_w up to `end`: points x and P(|w_1 u_1 + .. + w_m u_m| <= x); the largest weight is 1."""
    reach = math.ceil(_HALF_POINTS * end)
    size = 1 << math.ceil(math.log2(2 * reach + 2))
    spectrum = np.ones(size // 2 + 1)
    for weight, count in shares:
        spectrum *= np.fft.rfft(_uniform(weight, size)).real ** count
    law = np.fft.irfft(spectrum, size)[: reach + 1]
    points = (np.arange(reach + 1) + 0.5) / (_HALF_POINTS + 0.5)
    within = np.minimum(2 * np.cumsum(law) - law[0], 1)
    return np.append(0, points), np.append(0, within)


def _uniform(weight: float, size: int) -> Floats:
    """Return the masses, in cells on a circle, of a uniform distribution on (-weight, weight)."""
    half = weight * (_HALF_POINTS + 0.5)  # in cells
    edges = np.minimum(np.arange(_HALF_POINTS + 1) + 0.5, half)
    masses = np.diff(edges, prepend=-edges[0]) / (2 * half)
    circle = np.zeros(size)
    circle[: masses.size] = masses
    circle[size - masses.size + 1 :] = masses[:0:-1]
    return circle
