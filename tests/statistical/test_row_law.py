"""Rows have the exact law of windows, from a key as from fresh bits, and the tests would notice if not.

Chi-square tests over cells of the exact law, with the error rates of `tests.statistical.chi_square`. Tags of
the key are 0, 1, 2 ..: those of labels are better spread.
"""

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from meteragent.privacy.bits import FreshRows, RowBits, SeededBits
from meteragent.privacy.keyed import KeyedRows
from meteragent.privacy.mechanism.window_law import WindowLaw
from meteragent.privacy.sampling import row_windows
from tests.statistical.chi_square import ALARM, MISS, Floats, Integers, miss, p_value
from tests.support.row_bits import KEY

DRAWS = 40_000
SHARES = np.arange(1, 30) / 30
SOURCES = ["key", "fresh"]


def rows(source: str, count: int = DRAWS) -> RowBits:
    """Rows of a key, or fresh ones."""
    if source == "fresh":
        return FreshRows(count, SeededBits(5))
    tags = np.zeros((count, 3), "<u4")
    tags[:, 0] = np.arange(count)
    return KeyedRows(KEY, tags.tobytes())


def between(law: WindowLaw, ends: NDArray[np.int64], k: int) -> Floats:
    """What cells between these ends hold of the largest of k slots."""
    return np.diff(law.probability_at_most(ends, k), prepend=0, append=1)


def frequencies(values: Integers, ends: NDArray[np.int64]) -> Floats:
    """How many values lie in each cell."""
    return np.bincount(ends.searchsorted(values), minlength=ends.size + 1).astype(float)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(
    ("n", "a"),
    [(1, Fraction(1, 220)), (2, Fraction(7, 10)), (4, Fraction(1, 220)), (30, Fraction(1, 10))],
)
def test_the_largest_and_one_slot_have_their_law(source: str, n: int, a: Fraction) -> None:
    """Of a window and of its last slot; noise 10% larger or smaller is told from it by the first."""
    law = WindowLaw(n, float(a))
    largest, one = (law.quantiles(SHARES, k) for k in (n, 1))
    z = np.abs(row_windows(n, a, rows(source)))
    assert p_value(frequencies(z.max(axis=1), largest), between(law, largest, n)) > ALARM
    assert p_value(frequencies(z[:, -1], one), between(law, one, 1)) > ALARM
    for factor in (Fraction(11, 10), Fraction(9, 10)):
        wrong = between(WindowLaw(n, float(a / factor)), largest, n)
        assert miss(wrong, between(law, largest, n), DRAWS) < MISS
        drawn = np.abs(row_windows(n, a / factor, rows(source))).max(axis=1)
        assert p_value(frequencies(drawn, largest), between(law, largest, n)) < ALARM


@pytest.mark.parametrize("source", SOURCES)
def test_narrow_and_wide_rows_make_one_law(source: str) -> None:
    """Where a third of the rows takes words of 32 bits and others take 64, |z| is exponential to 1e-9."""
    scale = 1 << 30
    z = np.abs(row_windows(1, Fraction(1, scale), rows(source))[:, 0])
    ends = (-np.log1p(-SHARES) * scale).astype(np.int64)
    assert p_value(frequencies(z, ends), np.full(30, 1 / 30)) > ALARM
    assert stats.binomtest(int((z > 1 << 31).sum()), DRAWS, np.exp(-2)).pvalue > ALARM


@pytest.mark.parametrize("source", SOURCES)
def test_signs_slots_and_neighbours_are_independent(source: str) -> None:
    """Of two slots and of the next row, signs are fair and independent: chi-square over 8 cells."""
    z = row_windows(2, Fraction(1, 1000), rows(source)) > 0
    signs = z[:-1, 0] * 4 + z[:-1, 1] * 2 + z[1:, 0]
    counts = np.bincount(signs[::2], minlength=8).astype(float)
    assert p_value(counts, np.full(8, 1 / 8)) > ALARM


def test_the_magnitudes_of_neighbours_are_independent() -> None:
    """Rows of neighbouring tags: 4 x 4 cells of their largest; equal rows, as of one tag, are told apart."""
    n, a = 3, Fraction(1, 220)
    law = WindowLaw(n, float(a))
    ends = law.quantiles((0.25, 0.5, 0.75), n)
    share = between(law, ends, n)
    cell = ends.searchsorted(np.abs(row_windows(n, a, rows("key"))).max(axis=1))
    pairs = np.bincount(cell[::2] * 4 + cell[1::2], minlength=16).astype(float)
    assert p_value(pairs, np.outer(share, share).ravel()) > ALARM
    same = np.bincount(cell[::2] * 5, minlength=16).astype(float)
    assert p_value(same, np.outer(share, share).ravel()) < ALARM
