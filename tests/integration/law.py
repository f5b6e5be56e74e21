"""Whether noise that was observed has the exact law of the l_inf Laplace mechanism (THEORY 2.1).

Per window of n slots, P(z) ~ e^(-a m) with m = max |z_i|, is all of this, and nothing else:
    m        P(m) ~ ((2m+1)^n - (2m-1)^n) e^(-a m); a m is Gamma(n) but for terms of order a^2
    the rest given m and the first slot J that attains it: a fair sign there, uniform on
             {-m+1 .. m-1} before J and on {-m .. m} after it
so each has a test, which a right sampler fails with a chance of ALARM.
"""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy import stats

ALARM = 1e-6
CELLS = 10
EXPECTED_MIN = 20
"""What a cell of a chi-square test expects at least, so that its law is the limit's."""
Floats = NDArray[np.float64]
Windows = Sequence[Sequence[int]]


def passes_scale_test(windows: Windows, a: Fraction) -> bool:
    """Return whether the sum of maxima fits: a Σ m is Gamma(number of slots), the best test of a scale."""
    slots = sum(map(len, windows))
    total = float(a) * sum(max(map(abs, window)) for window in windows)
    low, high = _scale_bounds(slots)
    return bool(low <= total <= high)


def scale_miss(slots: int, factor: float) -> float:
    """Return the chance that noise `factor` times as large passes `passes_scale_test`."""
    low, high = _scale_bounds(slots)
    return float(stats.gamma.cdf(high / factor, slots) - stats.gamma.cdf(low / factor, slots))


def _scale_bounds(slots: int) -> tuple[float, float]:
    return float(stats.gamma.isf(1 - ALARM / 2, slots)), float(stats.gamma.isf(ALARM / 2, slots))


def maxima_p(windows: Windows, a: Fraction) -> float:
    """Return the chi-square p-value of the maxima of windows, over cells of about equal probability."""
    n = len(windows[0])
    end = int((n + 40 + (1600 + 80 * n) ** 0.5) / float(a)) + 2
    m = np.arange(end, dtype=np.float64)
    inner = np.where(m > 0, n * np.log(np.maximum(2 * m - 1, 1) / (2 * m + 1)), -np.inf)
    log_weight = n * np.log(2 * m + 1) + np.log1p(-np.exp(inner)) - float(a) * m
    law = np.exp(log_weight - log_weight.max())
    law /= law.sum()
    cuts = np.unique(np.searchsorted(np.cumsum(law), np.arange(1, CELLS) / CELLS) + 1)
    starts = np.concatenate(([0], cuts))
    counts = np.bincount([min(max(map(abs, window)), end - 1) for window in windows], minlength=end)
    return _chi_square(np.add.reduceat(counts, starts) * 1.0, np.add.reduceat(law, starts) * len(windows))


def sign_p(windows: Windows) -> float:
    """Return the binomial p-value of the signs of the first largest slots."""
    largest = [window[_first_largest(window)] for window in windows]
    return float(stats.binomtest(sum(z > 0 for z in largest), sum(z != 0 for z in largest)).pvalue)


def rest_p(windows: Windows) -> float:
    """Return the chi-square p-value of all other slots, given the largest; n > 1."""
    counts, expected = np.zeros(CELLS), np.zeros(CELLS)
    for window in windows:
        first = _first_largest(window)
        m = abs(window[first])
        for at, z in enumerate(window):
            inside = m - 1 if at < first else m
            if at != first:
                counts[(z + inside) * CELLS // (2 * inside + 1)] += 1
                expected += _cell_sizes(2 * inside + 1)
    return _chi_square(counts, expected)


def _first_largest(window: Sequence[int]) -> int:
    return max(range(len(window)), key=lambda at: (abs(window[at]), -at))


def _cell_sizes(count: int) -> Floats:
    """Which part of {0 .. count - 1} falls in each cell r * CELLS // count."""
    edges = -(-np.arange(CELLS + 1) * count // CELLS)
    return np.asarray(np.diff(edges) / count)


def _chi_square(counts: Floats, expected: Floats) -> float:
    assert expected.min() >= EXPECTED_MIN
    statistic = ((counts - expected) ** 2 / expected).sum()
    return float(stats.chi2.sf(statistic, len(expected) - 1))
