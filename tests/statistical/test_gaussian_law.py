"""Discrete Gaussian and vector Laplace draws have their exact laws; a scale 10% off would be noticed.

Chi-square tests over cells of the exact law. ALARM is the chance that a right sampler fails one of them;
seeds are fixed, so a run repeats, and all tests of this file together fail a right sampler with a chance
below 1e-9. For a wrong one the chance of a miss is computed from its law (noncentral chi-square), must be
below MISS, and the wrong sampler is drawn from.
"""

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from meteragent.privacy.bits import SeededBits, SystemBits
from meteragent.privacy.mechanism.gaussian import DiscreteGaussian
from meteragent.privacy.mechanism.vector import VectorLaplace
from meteragent.privacy.sampling.gaussian import discrete_gaussian
from tests.statistical.chi_square import ALARM, MISS, Floats, Integers, merged, miss, p_value

pytestmark = pytest.mark.statistical

DRAWS = 60_000
VARIANCES = [
    Fraction(1, 5),
    Fraction(99, 100),
    Fraction(1),
    Fraction(9, 2),
    Fraction(1000, 7),
    Fraction(10**5),
]


def law(sigma2: Fraction) -> Floats:
    """P(z) for z = -reach .. reach."""
    reach = int(12 * float(sigma2) ** 0.5) + 8
    mechanism = DiscreteGaussian(1 / (2 * sigma2), 1, 1, 1)
    return np.asarray(np.exp(mechanism.log_mass(np.arange(-reach, reach + 1)[:, np.newaxis], [0])))


def counted(drawn: Integers, right: Floats) -> Floats:
    """How often each of -reach .. reach was drawn."""
    return np.bincount(drawn + len(right) // 2, minlength=len(right)).astype(float)


def passes(drawn: Integers, right: Floats) -> bool:
    """Whether draws follow the law."""
    cells = merged(counted(drawn, right), right, len(drawn))
    return p_value(cells, merged(right, right, len(drawn))) > ALARM


@pytest.mark.parametrize("sigma2", VARIANCES)
def test_gaussian_noise_has_its_law(sigma2: Fraction) -> None:
    """Every integer that expects 25 draws is a cell: P(z) ~ e^(-z^2/(2 sigma^2))."""
    assert passes(discrete_gaussian(DRAWS, sigma2, SeededBits(1)), law(sigma2))


@pytest.mark.parametrize("sigma2", VARIANCES)
def test_a_gaussian_scale_ten_percent_off_is_rejected(sigma2: Fraction) -> None:
    """Draws with sigma 10% too small are told from the law, with a chance of a miss below 1e-6."""
    right, less = law(sigma2), sigma2 * Fraction(81, 100)
    narrow = law(less)
    pad = (len(right) - len(narrow)) // 2
    wrong = merged(np.pad(narrow, pad), right, DRAWS)
    assert miss(wrong, merged(right, right, DRAWS), DRAWS) < MISS
    assert not passes(discrete_gaussian(DRAWS, less, SeededBits(2)), right)


def test_gaussian_noise_of_many_quanta_is_normal() -> None:
    """Kolmogorov-Smirnov at sigma of 3 million quanta, whose squares fill int64; 10% off is rejected."""
    for bits in (SeededBits(3), SystemBits()):
        drawn = discrete_gaussian(80_000, Fraction(3_000_000) ** 2, bits) / 3_000_000
        assert stats.kstest(drawn, stats.norm.cdf).pvalue > ALARM
        assert stats.kstest(drawn * 1.1, stats.norm.cdf).pvalue < ALARM


def test_the_slots_of_a_window_have_independent_noise() -> None:
    """z_1 + z_2 has twice the variance, and z_1 - z_2 too: chi-square of their squares' sums."""
    mechanism = DiscreteGaussian("1/8", 5, 1, 2)
    noise = mechanism.release(np.zeros((DRAWS, 2), np.int64), bits=SeededBits(4))
    variance: NDArray[np.float64] = np.array([2 * float(mechanism.sigma2)] * 2)
    for total, expected in zip((noise[:, 0] + noise[:, 1], noise[:, 0] - noise[:, 1]), variance, strict=True):
        statistic = float((total.astype(float) ** 2).sum() / expected)
        assert ALARM < stats.chi2.cdf(statistic, DRAWS) < 1 - ALARM


@pytest.mark.parametrize("a", [Fraction(1, 10), Fraction(3, 2)])
def test_vector_noise_has_its_law(a: Fraction) -> None:
    """Every number of a vector has P(z) = tanh(a/2) e^(-a|z|); 10% off is rejected."""
    mechanism, reach = VectorLaplace(a, 1, 5), int(40 / float(a))
    z = np.arange(-reach, reach + 1)
    right = np.exp(VectorLaplace(a, 1, 1).log_mass(z[:, np.newaxis], [0]))
    assert passes(mechanism.release(np.zeros((DRAWS // 5, 5), np.int64), bits=SeededBits(5)).ravel(), right)
    wrong = VectorLaplace(a * Fraction(11, 10), 1, 5)
    other = np.exp(VectorLaplace(wrong.a, 1, 1).log_mass(z[:, np.newaxis], [0]))
    assert miss(merged(other, right, DRAWS), merged(right, right, DRAWS), DRAWS) < MISS
    assert not passes(wrong.release(np.zeros((DRAWS // 5, 5), np.int64), bits=SeededBits(6)).ravel(), right)
