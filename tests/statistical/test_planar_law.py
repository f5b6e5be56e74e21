"""Planar, noisy-max and exponential draws have their exact laws, and a scale 10% off would be noticed.

Chi-square tests over cells of the exact law. ALARM is the chance that a right sampler fails one of them;
seeds are fixed, so a run repeats, and all tests of this file together fail a right sampler with a chance
below 1e-9. For a wrong one the chance of a miss is computed from its law (noncentral chi-square), must be
below MISS, and the wrong sampler is drawn from.
"""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from meteragent.privacy.bits import Bits, SeededBits, SystemBits
from meteragent.privacy.mechanism.planar import PlanarLaplace, PlanarManhattan
from meteragent.privacy.mechanism.selection import Exponential, NoisyMax
from meteragent.privacy.sampling import planar
from meteragent.privacy.sampling.planar import planar_laplace
from tests.statistical.chi_square import ALARM, MISS, Floats, Integers, merged, miss, p_value

WRONG = Fraction(11, 10)


# Planar Laplace -----------------------------------------------------------------------------------

REACH = 64
GRID = np.stack(np.meshgrid(*[np.arange(-REACH, REACH + 1)] * 2, indexing="ij"), axis=-1)
ORDER = np.lexsort((np.arctan2(GRID[..., 1], GRID[..., 0]).ravel(), np.hypot(*GRID.reshape(-1, 2).T)))
"""The grid's points from the middle out, and round each circle: cells are arcs, so directions count too."""


def masses(a: Fraction) -> Floats:
    """P(z) on the grid in ORDER, and last what lies outside."""
    inside = np.exp(PlanarLaplace(a, 1).log_mass(GRID.reshape(-1, 2), (0, 0)))[ORDER]
    return np.append(inside, max(0.0, 1 - float(inside.sum())))


def counts(points: Integers) -> Floats:
    """How often each point of the grid was drawn, in ORDER, and last how often one outside."""
    inside = (np.abs(points) <= REACH).all(axis=1)
    index = (points[inside] + REACH) @ np.array([2 * REACH + 1, 1])
    drawn = np.bincount(index, minlength=(2 * REACH + 1) ** 2).astype(float)[ORDER]
    return np.append(drawn, float((~inside).sum()))


DRAWS = 100_000


@pytest.mark.parametrize("a", [Fraction(1, 5), Fraction(1), Fraction(7, 3)])
def test_planar_noise_has_its_law_point_by_point(a: Fraction) -> None:
    """All of the plane in cells of 25 or more draws: length and direction are those of e^(-a|z|_2)."""
    points = np.full((DRAWS, 2), 7)
    right, released = masses(a), PlanarLaplace(2 * a, "1/2").release(points, bits=SeededBits(1))
    drawn = counts(released - points)
    assert p_value(merged(drawn, right, DRAWS), merged(right, right, DRAWS)) > ALARM


@pytest.mark.parametrize("a", [Fraction(1, 5), Fraction(1), Fraction(7, 3)])
def test_a_planar_scale_ten_percent_off_is_rejected(a: Fraction) -> None:
    """Draws with 1.1 a are told from the law, with a chance of a miss below 1e-6."""
    right, wrong = masses(a), masses(a * WRONG)
    assert miss(merged(wrong, right, DRAWS), merged(right, right, DRAWS), DRAWS) < MISS
    drawn = counts(planar_laplace(DRAWS, a * WRONG, SeededBits(2)))
    assert p_value(merged(drawn, right, DRAWS), merged(right, right, DRAWS)) < ALARM


def test_manhattan_noise_is_not_planar_laplace() -> None:
    """The test sees directions: Manhattan noise of the same mean length is rejected."""
    right = masses(Fraction(1, 5))
    drawn = counts(
        PlanarManhattan(Fraction(1, 7), 1).release(np.zeros((DRAWS, 2), np.int64), bits=SeededBits(3))
    )
    assert p_value(merged(drawn, right, DRAWS), merged(right, right, DRAWS)) < ALARM


@pytest.mark.parametrize(("a", "draws"), [(Fraction(1, 220), 40_000), (Fraction(1, 1 << 30), 40_000)])
def test_on_a_fine_lattice_the_length_is_erlang(a: Fraction, draws: int) -> None:
    """Kolmogorov-Smirnov on a|z|_2 against Erlang(2) and on the angle, also beyond what int64 can square."""
    for bits in (SeededBits(4), SystemBits()):
        x, y = planar_laplace(draws, a, bits).T.astype(float)
        jitter = np.random.default_rng(5).uniform(-0.5, 0.5, (2, draws))  # within the quantum's cell
        length, angle = (
            float(a) * np.hypot(x + jitter[0], y + jitter[1]),
            np.arctan2(y + jitter[1], x + jitter[0]),
        )
        assert stats.kstest(length, stats.gamma(2).cdf).pvalue > ALARM
        assert stats.kstest(angle, stats.uniform(-math.pi, 2 * math.pi).cdf).pvalue > ALARM
        assert stats.kstest(length * 1.1, stats.gamma(2).cdf).pvalue < ALARM


@pytest.mark.parametrize(("point", "scale"), [([2, 3], 10), ([1, 1], 20), ([3, 4], 10)])
def test_a_tie_is_decided_with_the_chance_that_is_left(point: list[int], scale: int) -> None:
    """Given equal integers, T > y has the chance (e^(-uf) - e^-u)/(1 - e^-u), u = a/s, f the fraction of s y.

    15,000 draws tell a chance from one 0.06 off.
    """
    a, draws, bits = Fraction(9), 15_000, SeededBits(6)
    due, unit = planar._floor(point, scale), float(a / scale)
    fraction = scale * math.hypot(*point) - math.floor(scale * math.hypot(*point) + 1e-9)
    chance = (math.exp(-unit * fraction) - math.exp(-unit)) / -math.expm1(-unit)
    longer = sum(planar._outlives(due, point, a, scale, bits) for _ in range(draws))
    assert stats.binomtest(longer, draws, min(1.0, chance)).pvalue > ALARM
    assert stats.binomtest(longer, draws, abs(chance - 0.06)).pvalue < ALARM


# Selections ---------------------------------------------------------------------------------------


def chosen(mechanism: NoisyMax | Exponential, u: list[int], draws: int, bits: Bits) -> Floats:
    """How often each index was chosen."""
    return np.bincount(mechanism.release(np.tile(u, (draws, 1)), bits=bits), minlength=len(u)).astype(float)


@pytest.mark.parametrize(("kind", "draws"), [(NoisyMax, 200_000), (Exponential, 200_000)])
@pytest.mark.parametrize("u", [[0, 0, 0, 0], [3, 5, 5, 1], [9, 0, 4]])
def test_an_index_is_chosen_as_its_law_says(
    kind: Callable[..., NoisyMax | Exponential], draws: int, u: list[int]
) -> None:
    """Chi-square of the chosen indices against log_mass, ties and all."""
    mechanism = kind("3/4", 1, len(u))
    law = np.exp(mechanism.log_mass(np.arange(len(u)), u))
    assert p_value(chosen(mechanism, u, draws, SeededBits(7)), law) > ALARM


@pytest.mark.parametrize(("kind", "draws"), [(NoisyMax, 200_000), (Exponential, 200_000)])
def test_a_choice_ten_percent_too_sharp_is_rejected(
    kind: Callable[..., NoisyMax | Exponential], draws: int
) -> None:
    """With 1.1 epsilon the indices are told from the law, with a chance of a miss below 1e-6."""
    u = [6, 0, 3]
    right, wrong = (np.exp(kind(epsilon, 1, 3).log_mass(np.arange(3), u)) for epsilon in (1, "1.1"))
    assert miss(wrong, right, draws) < MISS
    assert p_value(chosen(kind("1.1", 1, 3), u, draws, SeededBits(8)), right) < ALARM
