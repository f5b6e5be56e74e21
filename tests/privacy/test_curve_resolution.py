"""How many numbers a curve is worth, and what none is enough for (meteragent.privacy.curve; THEORY 4)."""

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import gamma

from meteragent.privacy.curve import (
    BoundedVariation,
    Hoelder,
    best_k,
    block_means,
    chance_within,
    error_bound,
)
from meteragent.privacy.floor import WindowFloor
from meteragent.privacy.metric import chebyshev
from meteragent.privacy.space import Curve, Curves, polyline, steps


def deviations(curve: Curve, k: int, grid: int = 240) -> NDArray[np.float64]:
    """|f - its k block means|, at the middles of `grid` parts."""
    duration = curve.duration_s
    means = block_means([duration * i / k for i in range(k + 1)])(curve)
    times = [duration * (2 * i + 1) / (2 * grid) for i in range(grid)]
    return np.array([abs(float(curve(t) - means[int(t * k / duration)])) for t in times])


@given(rises=st.lists(st.integers(-2, 2), min_size=6, max_size=6), k=st.sampled_from([1, 2, 3, 5]))
def test_block_means_of_lipschitz_curves_are_near(rises: list[int], k: int) -> None:
    """Everywhere within L T/(2k) (THEORY 4.2)."""
    curve = polyline(range(7), [sum(rises[:i]) for i in range(7)])
    c, alpha = Hoelder(2).approximation(curve.duration_s)
    assert (c, alpha) == (6, 1)
    assert deviations(curve, k, 60).max() <= c / k + 1e-12


@pytest.mark.parametrize("k", [1, 2, 5])
def test_block_means_of_hoelder_curves_are_near(k: int) -> None:
    """For the root of the time, H = 1 and alpha = 1/2, everywhere within (T/2k)^(1/2)."""
    parts = 60
    roots = [Fraction(math.sqrt(i)).limit_denominator(10**6) for i in range(parts + 1)]
    curve = polyline(range(parts + 1), roots)
    c, alpha = Hoelder(1, "1/2").approximation(curve.duration_s)
    bound = c * k**-alpha
    assert bound == pytest.approx(math.sqrt(parts / (2 * k)))
    assert 0.5 * bound < deviations(curve, k).max() <= bound


@given(loads=st.lists(st.integers(0, 9), min_size=6, max_size=6), k=st.sampled_from([1, 2, 3, 5]))
def test_block_means_of_switched_loads_are_near_in_the_mean(loads: list[int], k: int) -> None:
    """In the mean over time within V/(2k), V all that the load goes up and down."""
    curve, variation = steps(range(7), loads), sum(abs(u - v) for u, v in pairwise(loads))
    assume(variation > 0)
    c, alpha = BoundedVariation(variation).approximation(curve.duration_s)
    assert alpha == 1
    assert deviations(curve, k, 60).mean() <= c / k * (1 + 1e-9) + 1e-12


def test_a_switch_in_the_middle_of_a_block_attains_the_bound() -> None:
    """V/(2k) is not too careful: one block, on for half of it."""
    assert (
        deviations(steps([0, 1, 2], [0, 10]), 1).mean() == BoundedVariation(10).approximation(Fraction(2))[0]
    )


@pytest.mark.parametrize(
    ("family", "expected", "largest"),
    [
        (Hoelder("0.1"), lambda k: 0.1 * 3600 / (2 * k) + (k + 1) * 10 / 2, False),
        (Hoelder("0.1"), lambda k: 0.1 * 3600 / (2 * k) + k * 10, True),
        (Hoelder(3, "1/2"), lambda k: 3 * math.sqrt(3600 / (2 * k)) + (k + 1) * 10 / 2, False),
        (BoundedVariation(5000), lambda k: 5000 / (2 * k) + (k + 1) * 10 / 2, False),
    ],
)
def test_the_error_bound_and_the_best_number_of_blocks(
    family: Hoelder | BoundedVariation, expected: Callable[[int], float], largest: bool
) -> None:
    """The formulas of THEORY 4.2 at epsilon = 1/10 in an hour; no other k has a smaller bound."""
    bounds = [error_bound(family, "1/10", 3600, k, largest=largest) for k in range(1, 200)]
    assert bounds == pytest.approx([expected(k) for k in range(1, 200)])
    assert best_k(family, "1/10", 3600, largest=largest) == 1 + int(np.argmin(bounds))


@given(
    constant=st.fractions("1/100", 1000, max_denominator=100),
    exponent=st.fractions("1/10", 1, max_denominator=10),
    epsilon=st.fractions("1/500", 10, max_denominator=500),
    largest=st.booleans(),
)
def test_no_neighbour_of_the_best_number_is_better(
    constant: Fraction, exponent: Fraction, epsilon: Fraction, largest: bool
) -> None:
    """One block more, or one less, has no smaller bound; the bound is convex in between."""
    family = Hoelder(constant, exponent)
    k = best_k(family, epsilon, 60, largest=largest)
    best = error_bound(family, epsilon, 60, k, largest=largest)
    for other in {max(1, k - 1), k + 1}:
        assert best <= error_bound(family, epsilon, 60, other, largest=largest) * (1 + 1e-12)


def test_the_closed_forms_of_the_best_error() -> None:
    """sqrt(L T/epsilon) + 1/(2 epsilon), at sqrt(L T epsilon) blocks; sqrt(2 L T/epsilon) for the largest."""
    slope, epsilon, duration = Fraction(4), Fraction(1), 400
    family = Hoelder(slope)
    assert best_k(family, epsilon, duration) == 40
    assert error_bound(family, epsilon, duration, 40) == pytest.approx(40 + 0.5)
    assert best_k(Hoelder(8), 1, 400, largest=True) == 40
    assert error_bound(Hoelder(8), 1, 400, 40, largest=True) == pytest.approx(80)
    assert best_k(BoundedVariation(79_000), 1, 86_400) == 281
    assert best_k(BoundedVariation("0.01"), 1, 86_400) == 1


def test_families_and_bounds_refuse_what_makes_no_sense() -> None:
    """An exponent above 1, k of 0, floats, and the largest error of curves that jump."""
    with pytest.raises(ValueError, match="above 1"):
        Hoelder(1, 2)
    with pytest.raises(TypeError, match="must be exact"):
        Hoelder(0.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="positive"):
        BoundedVariation(0)
    with pytest.raises(ValueError, match="at least 1"):
        error_bound(Hoelder(1), 1, 1, 0)
    with pytest.raises(ValueError, match="may jump"):
        best_k(BoundedVariation(1), 1, 1, largest=True)
    with pytest.raises(ValueError, match="may jump"):
        error_bound(BoundedVariation(1), 1, 1, 1, largest=True)


# No number serves all curves ----------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 2, 6, 30])
def test_noise_rarely_stays_near_at_many_points(k: int) -> None:
    """The l_inf mechanism's largest error, Gamma(k), keeps the bound epsilon reach/k, which falls to 0."""
    for reach in (Fraction(1, 10), Fraction(1), Fraction(5), Fraction(40)):
        within = gamma(k, scale=3).cdf(float(reach))
        assert within <= float(chance_within("1/3", reach, k))
    assert chance_within("1/3", 2, 1000 * k) == Fraction(2, 3000 * k)
    assert chance_within(1, 2 * k, k) == 1


def test_what_leaves_no_chance_is_refused() -> None:
    """A float epsilon and k = 0 are."""
    with pytest.raises(TypeError, match="epsilon must be exact"):
        chance_within(0.1, 1, 1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="k must be at least 1"):
        chance_within(1, 1, 0)


def test_the_floor_of_curves_grows_without_end() -> None:
    """Polylines at k knots are a copy of (R^k, d_inf) in C([0, T]): any k numbers' floor is the curves'."""
    vectors = [(0, 0, 0), (1, -2, 3), (5, 5, 5), (0, 4, -4)]
    space = Curves(2)
    for x, y in combinations(vectors, 2):
        assert space.metric(polyline([0, 1, 2], x), polyline([0, 1, 2], y)) == chebyshev(x, y)
    floors = [WindowFloor(k, 1).mean_absolute for k in (1, 10, 100, 1000)]
    assert floors == [Fraction(k + 1, 2) for k in (1, 10, 100, 1000)]
