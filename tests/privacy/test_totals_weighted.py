"""Windows of which every slot has a weight of its own, and bands that hold all slots of one at once."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from meteragent.privacy import LInfLaplace, SeededBits, half_width
from meteragent.privacy.totals import (
    Part,
    Weighted,
    half_width_of_total,
    half_width_of_window,
    law_of_total,
    sd_of_total,
)
from tests.privacy.test_totals import COVERAGES, MARGIN, TOTALS, mechanism


def weighted_within(n: int, weights: tuple[float, ...], a: float, h: float) -> float:
    """P(|weighted sum of slots| <= h): the mean over R of Irwin and Hall's formula with weights.

    P(w u <= x) is the sum over signs s of (s_1 .. s_m) (x + s w)_+^m / (m! 2^m w_1 .. w_m).
    """
    r = np.arange(int((n + 60 + math.sqrt(3600 + 120 * n)) / a) + 2) + 0.5
    log_weight = n * np.log(r) - a * r
    weight = np.exp(log_weight - log_weight.max())
    m, x = len(weights), np.minimum(h / r, sum(weights))
    below = np.zeros(r.size)
    for signs in itertools.product((1, -1), repeat=m):
        shift = float(np.dot(signs, weights))
        below += math.prod(signs) * (np.maximum(x + shift, 0) ** m - np.maximum(shift - x, 0) ** m)
    within = below / (math.factorial(m) * 2**m * math.prod(weights))
    return float(weight @ within / weight.sum())


@pytest.mark.parametrize(
    ("n", "weights", "a"),
    [
        (4, (0.186, 0.341, 0.124, 0.093), "1/2"),
        (4, (1.0, 1.0, 0.25), "1/3"),
        (3, (5.0, 1.0, 1e-3), "1"),
        (6, (1.0, 1 / 3, 1 / 3, 1 / 7), "2"),
    ],
)
@pytest.mark.parametrize("coverage", COVERAGES)
def test_slots_of_one_window_can_weigh_differently(
    n: int, weights: tuple[float, ...], a: str, coverage: float
) -> None:
    """The weighted sum of slots of one window has the law of R times a weighted sum of uniforms."""
    h = half_width_of_total([Weighted(mechanism(n, a), weights)], coverage)
    assert weighted_within(n, weights, float(Fraction(a)), h * (1 - 5e-5)) < coverage
    assert weighted_within(n, weights, float(Fraction(a)), h * (1 + 5e-5)) > coverage


def windows_within(n: int, a: float, h: float) -> float:
    """P(all n slots within h): the mean over R of the share of a cube."""
    r = np.arange(int((n + 60 + math.sqrt(3600 + 120 * n)) / a) + 2) + 0.5
    log_weight = n * np.log(r) - a * r
    weight = np.exp(log_weight - log_weight.max())
    return float(weight @ np.minimum(1, h / r) ** n / weight.sum())


@pytest.mark.parametrize(("n", "a"), [(1, "1/220"), (2, "1/7"), (48, "1/3"), (1440, "2")])
@pytest.mark.parametrize("coverage", COVERAGES)
def test_all_slots_of_a_window_are_within_a_band(n: int, a: str, coverage: float) -> None:
    """The band of a window holds all its slots at once, by R's law alone; of one slot, its interval."""
    h = half_width_of_window(mechanism(n, a), coverage)
    assert windows_within(n, float(Fraction(a)), h) == pytest.approx(coverage, abs=1e-5)
    assert half_width_of_window(mechanism(n, a, Fraction(1, 10)), coverage) == pytest.approx(h / 10)
    if n == 1:
        assert h == half_width(mechanism(n, a), coverage)
    else:
        assert h > half_width(mechanism(n, a), coverage)
    with pytest.raises(ValueError, match="between 0 and 1"):
        half_width_of_window(mechanism(n, a), 1)


def test_equal_weights_are_a_part() -> None:
    """Slots that weigh alike make the same total however they are written; the order does not matter."""
    one, other = mechanism(5, "1/40"), mechanism(3, "1/7")
    parts = [Part(one, 3, 2, 0.5), Part(other, 2, weight=2.0)]
    weighted = [Weighted(other, (2.0, 2.0)), Weighted(one, (0.5,) * 3), Weighted(one, (0.5,) * 3)]
    assert half_width_of_total(weighted) == pytest.approx(half_width_of_total(parts), rel=1e-9)
    assert sd_of_total(weighted) == pytest.approx(sd_of_total(parts), rel=1e-12)
    there = half_width_of_total([Weighted(one, (1.0, 2.0, 3.0))])
    assert half_width_of_total([Weighted(one, (3.0, 1.0, 2.0))]) == there
    assert there == pytest.approx(half_width_of_total([Weighted(one, (1.0, 2.0, 3.0, 1e-9))]), rel=1e-5)


@pytest.mark.parametrize("coverage", COVERAGES)
def test_an_interval_is_a_quantile_of_the_law(coverage: float) -> None:
    """The law of a total holds its coverage at its half width, also of one slot."""
    for parts in ([Part(mechanism(1, "1/220"))], [Weighted(mechanism(4, "1/50"), (1.0, 2.0), 7)]):
        law = law_of_total(parts)
        assert law.h[0] == law.within[0] == 0
        assert (np.diff(law.h) > 0).all()
        assert np.interp(half_width_of_total(parts, coverage), *law) == pytest.approx(coverage, abs=2e-5)
    with pytest.raises(ValueError, match="at least one part"):
        law_of_total([])


# Against simulated noise --------------------------------------------------------------------------


@pytest.mark.statistical
def test_bands_cover_simulated_windows() -> None:
    """95% of windows lie within their band with all slots; with noise 10% off, noticeably another share."""
    noise = LInfLaplace(Fraction(1, 20), Fraction(1), 6)
    before = np.random.default_rng(6).uniform(0, 50, (TOTALS, 6))
    off = np.floor(before + 0.5) + noise.release(np.zeros((TOTALS, 6), np.int64), bits=SeededBits(6)) - before
    h, worst = half_width_of_window(noise), np.abs(off).max(axis=1)
    assert abs((worst <= h).mean() - 0.95) < MARGIN
    for factor in (0.9, 1.1):
        assert abs((factor * worst <= h).mean() - 0.95) > MARGIN


@pytest.mark.statistical
def test_intervals_cover_windows_of_unequal_slots() -> None:
    """The energy of mean days, whose bands differ in length, is covered as it says."""
    noise, weights = LInfLaplace(Fraction(1, 90), Fraction(1), 4), np.array([6, 11, 4, 3])
    before = np.random.default_rng(5).uniform(0, 50, (TOTALS, 4))
    drawn = noise.release(np.zeros((TOTALS, 4), np.int64), bits=SeededBits(5))
    off = (np.floor(before + 0.5) + drawn - before) @ weights
    h = half_width_of_total([Weighted(noise, tuple(weights.tolist()))])
    assert abs((np.abs(off) <= h).mean() - 0.95) < MARGIN
    for factor in (0.9, 1.1):
        assert abs((np.abs(factor * off) <= h).mean() - 0.95) > MARGIN
