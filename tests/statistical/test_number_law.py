"""What leaves of numbers, labels and rows has the stated law, and 10% off it is noticed.

A chi-square test over cells of the exact law, written here from the papers' formulas. ALARM is the chance
that a right sampler fails one test; there are fewer than 20, and seeds are fixed, so a run repeats. Where
something wrong must be rejected, the chance of a miss is computed from its law first, and is below MISS.
"""

from fractions import Fraction

import numpy as np
import pytest

from meteragent.privacy import SeededBits
from meteragent.privacy.mechanism.categorical import Categorical
from meteragent.privacy.mechanism.number import Laplace, TruncatedGeometric
from meteragent.privacy.mechanism.product import Product
from meteragent.privacy.mechanism.sanitisation import LaplaceSanitisation
from meteragent.privacy.space import Categories, Numbers
from tests.statistical.chi_square import ALARM, MISS, Floats, Integers, miss, p_value

DRAWS = 60_000
OFF = [Fraction(9, 10), Fraction(11, 10)]


def counts(cells: Integers, size: int) -> Floats:
    """How many draws are in each cell."""
    return np.bincount(cells, minlength=size).astype(float)


def rejects(right: Floats, wrong: Floats, counted: Floats) -> bool:
    """Whether draws from a wrong law are told from the right one, as they must be."""
    assert miss(wrong, right, int(counted.sum())) < MISS
    return p_value(counted, right) < ALARM


# Numbers ------------------------------------------------------------------------------------------

REACH = 8


def cell_of(noise: Integers, a: float) -> Integers:
    """17 cells of noise, each a quarter of its scale or a quantum wide; the outer ones hold all beyond."""
    width = max(1, round(1 / a / 4))
    return np.asarray(np.clip((noise + width // 2) // width, -REACH, REACH) + REACH, np.int64)


def number_law(a: float, by: float) -> Floats:
    """P(z) = tanh(a/2) e^(-a|z|) in the cells for noise of parameter `by`."""
    z = np.arange(-int(80 / a), int(80 / a) + 1)
    law = np.tanh(a / 2) * np.exp(-a * abs(z))
    return np.bincount(cell_of(z, by), law, minlength=2 * REACH + 1).astype(float)


@pytest.mark.parametrize("a", [Fraction(1, 220), Fraction(1, 10), Fraction(1, 2)])
def test_a_number_has_laplace_noise(a: Fraction) -> None:
    """P(z) = tanh(a/2) e^-a|z| around the number; a scale 10% off is rejected."""
    right, points = number_law(float(a), float(a)), np.arange(DRAWS)
    for factor in (Fraction(1), *OFF):
        noise = Laplace(a * factor * 10, "1/10").release(points, bits=SeededBits(1)) - points
        found = counts(cell_of(noise, float(a)), right.size)
        if factor == 1:
            assert p_value(found, right) > ALARM
        else:
            assert rejects(right, number_law(float(a * factor), float(a)), found)


def test_a_sanitised_number_has_the_noise_of_example_5() -> None:
    """Scale b = D/(epsilon - ln(1-delta)): with the b for 10% more or less epsilon it is rejected."""
    a = 0.1 / 3 * (1 - np.log(0.5))  # D = 3, q = 0.1, epsilon = 1, delta = 1/2
    space, points = Numbers(0, 30, "0.1"), np.arange(DRAWS) % 31
    noise = LaplaceSanitisation(space, 1, "1/2").release(points, bits=SeededBits(2)) - points
    right = number_law(a, a)
    assert p_value(counts(cell_of(noise, a), right.size), right) > ALARM
    for factor in OFF:
        noise = Laplace(factor * 10 * Fraction(a), "1/10").release(points, bits=SeededBits(2)) - points
        assert rejects(right, number_law(a * float(factor), a), counts(cell_of(noise, a), right.size))


def clipped_law(a: float, k: int, x: int) -> Floats:
    """Figure 2(iv), corrected: lambda e^(-a|y-x|)."""
    y = np.arange(k + 1)
    weight = np.where((y == 0) | (y == k), np.exp(a), np.exp(a) - 1) / (np.exp(a) + 1)
    return np.asarray(weight * np.exp(-a * abs(y - x)))


@pytest.mark.parametrize(
    ("k", "x", "draws"), [(6, 0, DRAWS), (6, 2, DRAWS), (6, 6, DRAWS), (1, 1, 10 * DRAWS)]
)
def test_a_clipped_number_has_the_truncated_geometric_law(k: int, x: int, draws: int) -> None:
    """Each output 0 .. k as often as the corrected matrix has it; a 10% wrong parameter is rejected."""
    right, points = clipped_law(0.5, k, x), np.full(draws, x)
    released = TruncatedGeometric("1/4", 2, k).release(points, bits=SeededBits(k))
    assert p_value(counts(released, k + 1), right) > ALARM
    for factor in OFF:
        released = TruncatedGeometric(factor / 4, 2, k).release(points, bits=SeededBits(k))
        assert rejects(right, clipped_law(0.5 * float(factor), k, x), counts(released, k + 1))


# Labels -------------------------------------------------------------------------------------------


def label_law(p: float, values: int, true: int) -> Floats:
    """The true value with 1 - m p, each other with p."""
    return np.where(np.arange(values) == true, 1 - (values - 1) * p, p)


@pytest.mark.parametrize(
    ("values", "epsilon", "delta"), [(2, "1", "0"), (4, "1/2", "1/10"), (40, "3", "0.01")]
)
def test_a_label_is_replaced_by_each_other_with_p(values: int, epsilon: str, delta: str) -> None:
    """Each other leaves with (1-delta)/(m+e^epsilon); a p that is 10% larger or smaller is rejected."""
    space, labels = Categories(range(values)), np.full(DRAWS, 1)
    level, loose = Fraction(epsilon), Fraction(delta)
    p = float(1 - loose) / (values - 1 + np.exp(float(level)))
    right = label_law(p, values, 1)
    released = Categorical(space, level, loose).release(labels, bits=SeededBits(values))
    assert p_value(counts(released.astype(int), values), right) > ALARM
    for factor in OFF:
        wrong = label_law(p * float(factor), values, 1)
        # The wrong mechanism: m + e^epsilon' = (m + e^epsilon)/factor.
        other = Fraction(np.log((1 - float(loose)) / (p * float(factor)) - values + 1))
        released = Categorical(space, other, loose).release(labels, bits=SeededBits(values))
        assert rejects(right, wrong, counts(released.astype(int), values))


# Rows ---------------------------------------------------------------------------------------------


def pair_counts(first: Integers, second: Integers, size: int) -> Floats:
    """How often each pair of values is in two rows."""
    return counts(first * size + second, size * size)


def test_rows_are_noisy_on_their_own() -> None:
    """Two rows of a product fill 9 cells as independent ones; one noise for both is rejected."""
    row = TruncatedGeometric("1/2", 1, 2)
    law = clipped_law(0.5, 2, 1)
    right, databases = np.outer(law, law).ravel(), np.ones((DRAWS, 2), int)
    released = Product(row, 2).release(databases, bits=SeededBits(9))
    assert p_value(pair_counts(released[:, 0], released[:, 1], 3), right) > ALARM
    one = row.release(databases[:, 0], bits=SeededBits(9))
    assert rejects(right, np.diag(law).ravel(), pair_counts(one, one, 3))
