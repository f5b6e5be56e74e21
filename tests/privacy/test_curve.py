"""Curves in k numbers and back (meteragent.privacy.curve; THEORY 4)."""

import math
from collections.abc import Iterable
from fractions import Fraction
from itertools import combinations, permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.interpolate import BarycentricInterpolator, CubicSpline
from scipy.stats import gamma

from meteragent.privacy.channel import Channel
from meteragent.privacy.curve import Kind, Projection, reconstruct
from meteragent.privacy.floor import WindowFloor
from meteragent.privacy.metric import chebyshev
from meteragent.privacy.space import Curve, Curves, polyline, steps

KINDS: tuple[Kind, ...] = ("steps", "hats", "bernstein")
VALUES = st.integers(-6, 6).map(lambda halves: Fraction(halves, 2))


@st.composite
def curves(draw: st.DrawFn) -> Curve:
    """Steps or polylines on [0, 6] that break at whole seconds."""
    times = [0, *sorted(draw(st.sets(st.integers(1, 5), max_size=3))), 6]
    size = len(times) - draw(st.integers(0, 1))
    values = draw(st.lists(VALUES, min_size=size, max_size=size))
    return (polyline if size == len(times) else steps)(times, values)


# Projections --------------------------------------------------------------------------------------


@given(x=curves(), y=curves())
def test_values_at_times_are_lipschitz(x: Curve, y: Curve) -> None:
    """No value moves by more than the sup, and on enough times one does nearly."""
    projection = Projection(6, [0, "1.5", 2, 6])
    assert projection(x) == (x(0), x("1.5"), x(2), x(6))
    assert projection.metric(projection(x), projection(y)) <= projection.domain.metric(x, y)
    assert projection.sensitivity == 1


def level(laws: list[dict[Any, Fraction]]) -> Fraction:
    """The largest ratio of the probabilities of any outcome."""
    outcomes = {outcome for law in laws for outcome in law}
    return max(p.get(o, Fraction(0)) / q[o] for p, q in permutations(laws, 2) for o in outcomes)


@given(
    outputs=st.lists(curves(), min_size=2, max_size=4, unique=True),
    weights=st.lists(st.lists(st.integers(1, 9), min_size=4, max_size=4), min_size=2, max_size=3),
    times=st.lists(st.integers(0, 12).map(lambda i: Fraction(i, 2)), min_size=1, max_size=3),
)
def test_a_mechanism_is_private_if_all_its_projections_are(
    outputs: list[Curve], weights: list[list[int]], times: list[Fraction]
) -> None:
    """No projection shows more than the curves do; one of enough times shows all (Theorem 3, Example 4)."""
    laws = []
    for row in weights:
        drawn = row[: len(outputs)]
        laws.append({f: Fraction(w, sum(drawn)) for f, w in zip(outputs, drawn, strict=True)})
    whole, some = Projection(6, [Fraction(i, 2) for i in range(13)]), Projection(6, times)
    assert all(sum(some.image(law).values()) == 1 for law in laws)
    assert level([some.image(law) for law in laws]) <= level(laws)
    assert level([whole.image(law) for law in laws]) == level(laws)


def test_private_values_at_every_single_time_are_not_enough() -> None:
    """Two times together may tell what none tells alone: all projections count, not those of one time."""
    same = {steps([0, 1, 2], [v, v]): Fraction(1, 2) for v in (0, 1)}
    other = {steps([0, 1, 2], [v, 1 - v]): Fraction(1, 2) for v in (0, 1)}
    for t in (0, "1/2", 1, 2):
        assert Projection(2, [t]).image(same) == Projection(2, [t]).image(other)
    both = Projection(2, [0, 1])
    assert not both.image(same).keys() & both.image(other).keys()


continuous = st.lists(VALUES, min_size=7, max_size=7).map(lambda values: polyline(range(7), values))
"""Curves of C([0, 6]) that break at whole seconds."""


def smallest_delta(laws: list[dict[Any, Fraction]], odds: Fraction) -> Fraction:
    """The smallest delta between any two laws, exactly."""
    outcomes = list(dict.fromkeys(outcome for law in laws for outcome in law))
    rows = [[law.get(outcome, Fraction(0)) for outcome in outcomes] for law in laws]
    return Channel(range(len(laws)), outcomes, rows).smallest_delta(odds).bounds(80)[1]


@given(
    outputs=st.lists(continuous, min_size=2, max_size=4, unique=True),
    weights=st.lists(st.lists(st.integers(0, 9), min_size=4, max_size=4), min_size=2, max_size=3),
    times=st.sets(st.integers(0, 12).map(lambda i: Fraction(i, 2)), min_size=1, max_size=4),
    odds=st.sampled_from([Fraction(1), Fraction(3, 2), Fraction(4)]),
)
def test_the_delta_of_curves_is_the_largest_of_their_projections(
    outputs: list[Curve], weights: list[list[int]], times: set[Fraction], odds: Fraction
) -> None:
    """In C([0, T]) (epsilon, delta) holds for all events if all projections have it: with the same delta.

    No projection has a larger one, more times have no smaller one, and enough times have that of the curves.
    """
    drawn = [[w + (i == 0) for i, w in enumerate(row[: len(outputs)])] for row in weights]
    laws = [{f: Fraction(w, sum(row)) for f, w in zip(outputs, row, strict=True)} for row in drawn]

    def seen(at: Iterable[Fraction | int]) -> Fraction:
        return smallest_delta([Projection(6, sorted(at)).image(law) for law in laws], odds)

    assert seen([min(times)]) <= seen(times) <= seen({*times, *range(7)}) == smallest_delta(laws, odds)


def test_continuous_curves_with_the_same_law_at_every_single_time() -> None:
    """{t-1, 1-t} and {|t-1|, -|t-1|} on [0, 2]: alike at each time, and no delta below 1 at two of them."""
    straight, bent = (
        {polyline([0, 1, 2], [sign * v for v in values]): Fraction(1, 2) for sign in (1, -1)}
        for values in ((-1, 0, 1), (1, 0, 1))
    )
    for t in [Fraction(i, 8) for i in range(17)]:
        at = Projection(2, [t])
        assert at.image(straight) == at.image(bent)
    both = [Projection(2, [0, 2]).image(law) for law in (straight, bent)]
    for odds in (1, 10**9):
        assert smallest_delta([straight, bent], Fraction(odds)) == 1
        assert smallest_delta(both, Fraction(odds)) == 1


def test_a_projection_needs_times_of_the_curve() -> None:
    """No time, or one outside of [0, T], is refused."""
    for times in ([], [7], [-1]):
        with pytest.raises(ValueError, match="times in"):
            Projection(6, times)


# Reconstructions ----------------------------------------------------------------------------------


def lebesgue_constant(basis: Any) -> float:
    """The largest sum of |b_j(t)|, over the times t of the columns; a row for each b_j."""
    return float(np.abs(basis).sum(axis=0).max())


def test_steps_hold_from_edge_to_edge() -> None:
    """A block's number from its first instant to before its last; the last block has its end too."""
    edges = np.array([0, 1_800_000, 3_600_000]) + 1_700_000_000_000
    times = edges[0] + np.array([0, 1_799_999, 1_800_000, 3_600_000])
    assert reconstruct([5.0, -1.0], edges, times).tolist() == [5, 5, -1, -1]


def test_hats_go_straight_from_middle_to_middle() -> None:
    """Flat to the first middle, then straight, then flat; blocks may be of different lengths."""
    edges, times = [0, 2, 6, 8], [0, 1, 2, 4, 5.5, 7, 8]
    assert reconstruct([3, 6, 0], edges, times, "hats").tolist() == pytest.approx([3, 3, 4, 6, 3, 0, 0])
    assert reconstruct([3], [0, 2], [0, 1, 2], "hats").tolist() == [3, 3, 3]


@pytest.mark.parametrize("k", [1, 2, 5, 33])
def test_bernstein_s_polynomials_are_binomial(k: int) -> None:
    """Sum over j of v_j C(k-1, j) t^j (1-t)^(k-1-j)."""
    rng, share = np.random.default_rng(1), np.linspace(0, 1, 11)
    values = rng.normal(size=k)
    binomial = [math.comb(k - 1, j) * share**j * (1 - share) ** (k - 1 - j) for j in range(k)]
    curve = reconstruct(values, 10 + 5 * np.arange(k + 1), 10 + 5 * k * share, "bernstein")
    assert curve == pytest.approx(values @ np.array(binomial), abs=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [1, 2, 33])
def test_reconstructions_are_positive_and_sum_to_one(kind: Kind, k: int) -> None:
    """So their Lebesgue constant is 1: errors of at most h in the numbers are at most h in the curve."""
    basis = reconstruct(np.eye(k), np.arange(k + 1), np.linspace(0, k, 997), kind)
    assert basis.shape == (k, 997)
    assert basis.min() >= 0
    assert basis.sum(axis=0) == pytest.approx(1)
    assert lebesgue_constant(basis) == pytest.approx(1)


@pytest.mark.parametrize("kind", KINDS)
def test_many_curves_are_rebuilt_at_once(kind: Kind) -> None:
    """Values of shape (.., k) and times of shape S give (.., *S), each as alone; constants stay."""
    values = np.random.default_rng(2).normal(size=(2, 3, 4))
    edges, times = [0, 1, 2, 3, 4], np.linspace(0, 4, 10).reshape(5, 2)
    curves = reconstruct(values, edges, times, kind)
    assert curves.shape == (2, 3, 5, 2)
    assert curves[1, 2, 3, 1] == reconstruct(values[1, 2], edges, times[3, 1], kind)
    assert reconstruct(np.full(4, 2.5), edges, times, kind) == pytest.approx(2.5)
    assert reconstruct(values, edges, [], kind).shape == (2, 3, 0)


def test_what_cannot_be_rebuilt_is_refused() -> None:
    """Numbers without edges, edges that do not grow, times outside, and unknown functions."""
    for values, edges in (([1, 2], [0, 1]), (1.0, [0, 1]), ([1, 2], [0, 1, 1])):
        with pytest.raises(ValueError, match="increasing edges"):
            reconstruct(values, edges, [0])
    for time in (-0.1, 2.1, math.nan):
        with pytest.raises(ValueError, match=r"times must lie in \[0, 2\]"):
            reconstruct([1, 2], [0, 1, 2], [time])
    with pytest.raises(ValueError, match="not 'spline'"):
        reconstruct([1, 2], [0, 1, 2], [0], "spline")  # type: ignore[arg-type]


def test_other_bases_enlarge_errors() -> None:
    """THEORY 4.3: a cubic interpolating spline by 1.97, Chebyshev's polynomial of 33 points by 3.19."""
    knots, times = np.arange(33.0), np.linspace(0, 32, 4001)
    assert lebesgue_constant(CubicSpline(knots, np.eye(33))(times).T) == pytest.approx(1.97, abs=0.005)
    roots = np.cos((2 * np.arange(33) + 1) * np.pi / 66)
    polynomial = BarycentricInterpolator(roots, np.eye(33))(np.linspace(-1, 1, 4001)).T
    assert lebesgue_constant(polynomial) == pytest.approx(3.19, abs=0.005)


def test_bernstein_s_polynomials_are_slow_at_a_kink() -> None:
    """THEORY 4.3: at k = 33 they miss |t - 1/2| by 0.070, steps and hats by 0.016 at most."""
    k, times = 33, np.linspace(0, 1, 4001)
    edges, truth = np.arange(k + 1) / k, np.abs(times - 0.5)
    knots = np.abs(np.arange(k) / (k - 1) - 0.5)
    means = np.abs((np.arange(k) + 0.5) / k - 0.5)
    means[k // 2] = 1 / (4 * k)  # the block of the kink
    errors = {
        "bernstein": np.abs(reconstruct(knots, edges, times, "bernstein") - truth).max(),
        "steps": np.abs(reconstruct(means, edges, times, "steps") - truth).max(),
        "hats": np.abs(reconstruct(means, edges, times, "hats") - truth).max(),
    }
    assert errors["bernstein"] == pytest.approx(0.070, abs=0.001)
    assert max(errors["steps"], errors["hats"]) <= 0.016


# No number serves all curves ----------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 2, 6, 30])
def test_noise_rarely_stays_near_at_many_points(k: int) -> None:
    """The l_inf mechanism's largest error, Gamma(k), keeps the bound epsilon reach/k, which falls to 0."""
    for reach in (0.1, 1, 5, 40):
        assert gamma(k, scale=3).cdf(reach) <= reach / 3 / k


def test_the_floor_of_curves_grows_without_end() -> None:
    """Polylines at k knots are a copy of (R^k, d_inf) in C([0, T]): any k numbers' floor is the curves'."""
    vectors = [(0, 0, 0), (1, -2, 3), (5, 5, 5), (0, 4, -4)]
    space = Curves(2)
    for x, y in combinations(vectors, 2):
        assert space.metric(polyline([0, 1, 2], x), polyline([0, 1, 2], y)) == chebyshev(x, y)
    floors = [WindowFloor(k, 1).mean_absolute for k in (1, 10, 100, 1000)]
    assert floors == [Fraction(k + 1, 2) for k in (1, 10, 100, 1000)]
