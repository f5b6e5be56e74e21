"""The Laplace mechanism of a finite metric space, or the proof that there is none (Definition 6)."""

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent.privacy.channel import Channel, NoLaplaceMechanism, exp, laplace_channel, laplace_densities
from meteragent.privacy.mechanism.number import TruncatedGeometric
from meteragent.privacy.metric import Scaled, absolute, discrete, euclidean
from tests.support.channels import FEW

Distance = Callable[[Any, Any], Fraction]


def star(x: int, y: int) -> Fraction:
    """A centre, 0, at distance 1 from points that are 2 apart."""
    return Fraction(0) if x == y else Fraction(1 if 0 in (x, y) else 2)


@pytest.mark.parametrize(("epsilon", "k"), [("1/2", 5), ("3", 2), ("1/20", 6)])
def test_of_a_line_of_equal_steps_it_is_the_truncated_geometric(epsilon: str, k: int) -> None:
    """Figure 2 (iv) follows from Definition 6, and is the only solution."""
    made = laplace_channel(range(k + 1), Scaled(absolute, "1/3"), epsilon)
    expected = TruncatedGeometric(epsilon, "1/3", k).channel
    assert made.rows == expected.rows


@pytest.mark.parametrize("points", [(0, 1, 3), (0, 1, 3, 4), (0, 2, 3, 7)])
def test_of_any_line_the_density_is_that_of_its_gaps(points: tuple[int, ...]) -> None:
    """1/(1+t) at the ends and 1/(1+t) + 1/(1+t') - 1 inside, t = e^(-epsilon gap) on either side."""
    densities = laplace_densities(points, absolute, "1/2")
    gaps = [exp(Fraction(a - b, 2)) for a, b in pairwise(points)]
    ends = [1 / (1 + gaps[0]), 1 / (1 + gaps[-1])]
    inside = [1 / (1 + t) + 1 / (1 + u) - 1 for t, u in pairwise(gaps)]
    assert list(densities.values()) == [ends[0], *inside, ends[1]]


def test_of_the_discrete_metric_it_is_randomised_response() -> None:
    """Of m + 1 points any two 1 apart, 1/(1 + m e^-epsilon) each: Holohan's Example 6 for delta = 0."""
    channel = laplace_channel("abcd", discrete, 1)
    assert channel.rows[0][0] == 1 / (1 + 3 * exp(-1))
    assert channel.smallest_epsilon(discrete) == pytest.approx(1)


@FEW
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=5, unique=True))
def test_it_is_private_and_costs_nothing_twice(points: list[tuple[int, int]]) -> None:
    """Fact 7: on any space it is epsilon d-private, exactly; or the only solution has a negative part."""

    def distance(x: tuple[int, int], y: tuple[int, int]) -> Fraction:
        return Fraction(absolute(x[0], y[0]) + absolute(x[1], y[1]))

    densities = laplace_densities(points, distance, "1/3")
    for y in points:
        row = [density * exp(-Fraction(distance(y, z)) / 3) for z, density in densities.items()]
        assert sum(row, exp(0) - 1) == 1
    if all(density.sign >= 0 for density in densities.values()):
        assert laplace_channel(points, distance, "1/3").is_private("1/3", distance)
    else:
        with pytest.raises(NoLaplaceMechanism, match="only solution is negative"):
            laplace_channel(points, distance, "1/3")


def test_a_star_has_none_at_low_levels() -> None:
    """Five points around a centre: the centre's density is negative at epsilon = 1, and not at 2."""
    with pytest.raises(NoLaplaceMechanism, match=r"negative at \[0\]") as caught:
        laplace_channel(range(6), star, 1)
    densities = caught.value.densities
    assert densities[0].sign < 0
    for y in range(6):
        assert sum((p * exp(-star(y, z)) for z, p in densities.items()), exp(0) - 1) == 1
    assert laplace_channel(range(6), star, 2).is_private(2, star)


def test_rows_normalised_each_by_itself_cost_more() -> None:
    """The exponential mechanism on the same weights is not epsilon d-private on a line of three."""
    weights = Channel.of_weights(range(3), range(3), lambda x, z: exp(-Fraction(abs(x - z))))
    assert not weights.is_private(1, absolute)
    assert weights.smallest_epsilon(absolute) == pytest.approx(1.1438, abs=1e-4)


def test_what_is_no_finite_metric_space_is_refused() -> None:
    """Points at no distance or infinitely far, twice, none or too many, and floats are refused."""
    wrong: list[tuple[type[Exception], str, Any]] = [
        (ValueError, "positive finite distance", lambda: laplace_densities("ab", lambda *_: Fraction(0), 1)),
        (ValueError, "positive finite distance", lambda: laplace_densities("ab", lambda *_: math.inf, 1)),
        (ValueError, "different points", lambda: laplace_densities("aa", discrete, 1)),
        (ValueError, "different points", lambda: laplace_densities("", discrete, 1)),
        (ValueError, "1 to 7 different", lambda: laplace_densities(range(8), absolute, 1)),
        (TypeError, "must be exact", lambda: laplace_densities("ab", discrete, 0.5)),  # type: ignore[arg-type]
        (ValueError, "positive", lambda: laplace_densities("ab", discrete, 0)),
    ]
    for error, text, make in wrong:
        with pytest.raises(error, match=text):
            make()


def test_the_smallest_epsilon_of_points_of_the_plane_is_found_at_once() -> None:
    """Roots as distances make long sums of powers of e: ratios are enclosed, not multiplied out."""
    points = [(0, 0), (1, 2), (3, 1), (4, 4), (2, 5)]
    channel = laplace_channel(points, euclidean, 1)
    assert channel.smallest_epsilon(euclidean) == pytest.approx(1, rel=1e-12)
    assert channel.is_private(1, euclidean)
