"""Metrics are metrics, and exact where they can be (meteragent.privacy.metric)."""

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from itertools import combinations, permutations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent.privacy.metric import (
    Distance,
    GraphMetric,
    Induced,
    Metric,
    Nullable,
    Rowwise,
    Scaled,
    absolute,
    chebyshev,
    discrete,
    domination,
    euclidean,
    hamming,
    is_metric,
    manhattan,
    normalised_manhattan,
    square_root,
    symmetric_difference,
    violations,
)

# Closed forms -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metric", "x", "y", "expected"),
    [
        (discrete, "a", "b", 1),
        (discrete, "a", "a", 0),
        (absolute, Fraction(1, 3), 2, Fraction(5, 3)),
        (absolute, Decimal("0.1"), Fraction(1, 10), 0),
        (symmetric_difference, {1, 2, 3}, {3, 4}, 3),
        (symmetric_difference, frozenset(), {"a"}, 1),
        (hamming, "karolin", "kathrin", 3),
        (hamming, (1, 2), (1, 2), 0),
        (manhattan, (1, -2, 3), (4, 2, 3), 7),
        (manhattan, (), (), 0),
        (chebyshev, (1, -2, 3), (4, 2, 3), 4),
        (chebyshev, (), (), 0),
        (euclidean, (1, -2, 3), (4, 2, 3), 5),
        (euclidean, (Fraction(1, 2), 0), (0, Fraction(2, 3)), Fraction(5, 6)),
        (normalised_manhattan(10), (1, -2, 3), (4, 2, 3), Fraction(7, 10)),
        (Scaled(absolute, "1/220"), 0, 110, Fraction(1, 2)),
        (Nullable(absolute, Fraction(9)), None, 4, 9),
        (Nullable(absolute, Fraction(9)), 4, None, 9),
        (Nullable(absolute, Fraction(9)), None, None, 0),
        (Nullable(absolute, Fraction(9)), 1, 4, 3),
    ],
)
def test_distances_are_the_definition_s(metric: Metric, x: Any, y: Any, expected: Any) -> None:
    """Each metric is its formula, a Fraction where it is rational."""
    assert metric(x, y) == expected
    assert isinstance(metric(x, y), Fraction)


def test_a_float_distance_is_an_irrational_one() -> None:
    """Only the Euclidean distance may be a float, and only where no rational number has the square."""
    assert euclidean((0, 0), (1, 1)) == math.sqrt(2)
    assert isinstance(euclidean((0, 0), (10**40, 0)), Fraction)
    assert square_root(Fraction(4, 9)) == Fraction(2, 3)
    assert isinstance(square_root(Fraction(4, 8)), float)
    assert isinstance(square_root(Fraction(8, 4)), float)


def test_a_point_s_float_is_the_number_that_it_holds() -> None:
    """A float in a point counts as the rational that it holds; a value that is not a number raises."""
    assert absolute(0.1, 0) == Fraction(0.1) != Fraction("0.1")
    for number in (math.nan, math.inf):
        with pytest.raises((ValueError, OverflowError)):
            absolute(number, 0)


def test_array_numbers_neither_wrap_nor_round() -> None:
    """Rows of arrays are as good as tuples, also where their integers' differences do not fit them."""
    low, high = np.array([-(2**63)]), np.array([2**63 - 1])
    assert chebyshev(low, high) == manhattan(low, high) == 2**64 - 1
    assert euclidean(low, high) == 2**64 - 1
    assert absolute(np.uint8(3), np.uint8(5)) == 2


@pytest.mark.parametrize("metric", [hamming, manhattan, chebyshev, euclidean])
def test_points_of_different_dimensions_have_no_distance(metric: Metric) -> None:
    """Databases with different numbers of rows are refused, never cut to the shorter."""
    with pytest.raises(ValueError, match="2 and 3 rows"):
        metric((1, 2), (1, 2, 3))


@pytest.mark.parametrize("make", [lambda f: Scaled(absolute, f), normalised_manhattan])
def test_factors_are_exact_and_above_zero(make: Callable[[Any], Metric]) -> None:
    """A scale is a parameter: a float is refused, and so are zero and less."""
    with pytest.raises(TypeError, match="must be exact"):
        make(0.5)
    for factor in (0, -1):
        with pytest.raises(ValueError, match="must be positive"):
            make(factor)


# Axioms -------------------------------------------------------------------------------------------

NUMBERS = st.integers(-9, 9)
VECTORS = st.lists(st.tuples(NUMBERS, NUMBERS), min_size=2, max_size=4, unique=True)


@given(points=VECTORS, factor=st.fractions(Fraction(1, 9), 9))
def test_the_metrics_of_vectors_keep_the_axioms(points: list[Any], factor: Fraction) -> None:
    """d_h, d_1, the normalised d_1, d_2, d_inf and their multiples are metrics on any vectors."""
    for metric in (hamming, manhattan, normalised_manhattan(7), euclidean, chebyshev):
        assert is_metric(points, metric, extended=False)
        assert is_metric(points, Scaled(metric, factor), extended=False)


@given(points=st.lists(st.frozensets(st.integers(0, 5)), min_size=1, max_size=6, unique=True))
def test_the_symmetric_difference_is_a_metric(points: list[frozenset[int]]) -> None:
    """Holohan 2014, Example 1."""
    assert is_metric(points, symmetric_difference, extended=False)
    assert is_metric(points, discrete, extended=False)


@given(
    numbers=st.lists(NUMBERS, min_size=2, max_size=5, unique=True),
    share=st.fractions(0, 2, max_denominator=12),
)
def test_null_must_be_half_the_width_away(numbers: list[int], share: Fraction) -> None:
    """With None the axioms hold if and only if it is not a short cut, which is from half of the width on."""
    width = max(numbers) - min(numbers)
    metric = Nullable(absolute, share * width)
    assert is_metric([*numbers, None], metric) == (share >= Fraction(1, 2))


def test_absent_rows_are_at_the_largest_distance() -> None:
    """With null at the width, a row that appears counts 1 in the normalised d_1 (section 5)."""
    width = 10
    metric = Rowwise(Scaled(Nullable(absolute, Fraction(width)), Fraction(1, width)))
    assert metric((3, None, 0), (None, None, 10)) == 2
    assert metric((3, None), (8, None)) == Fraction(1, 2)
    assert is_metric(list(product([0, 4, 10, None], repeat=2)), metric)


def broken(table: dict[tuple[int, int], Any]) -> Metric:
    """The discrete metric on integers, but for some distances."""
    return lambda x, y: table.get((x, y), discrete(x, y))


@pytest.mark.parametrize(
    ("changed", "axiom", "points"),
    [
        ({(1, 1): Fraction(1)}, "d(x, x) = 0", (1,)),
        ({(0, 2): Fraction(0), (2, 0): Fraction(0)}, "d(x, y) > 0", (0, 2)),
        ({(0, 1): Fraction(-1), (1, 0): Fraction(-1)}, "d(x, y) > 0", (0, 1)),
        ({(0, 1): math.nan}, "d(x, y) > 0", (0, 1)),
        ({(0, 1): Fraction(3, 2)}, "d(x, y) = d(y, x)", (0, 1)),
        ({(0, 1): Fraction(3, 4)}, "d(x, y) = d(y, x)", (0, 1)),
        ({(0, 2): Fraction(3), (2, 0): Fraction(3)}, "d(x, z) <= d(x, y) + d(y, z)", (0, 1, 2)),
    ],
)
def test_every_axiom_is_checked(changed: dict[Any, Any], axiom: str, points: tuple[int, ...]) -> None:
    """What breaks one axiom is named, with the points where it does; what breaks none has an empty list."""
    assert violations(range(3), broken({})) == []
    found = violations(range(3), broken(changed))
    assert any(violation.axiom == axiom and violation.points == points for violation in found)
    assert not is_metric(range(3), broken(changed))


def test_infinite_distances_are_allowed_in_extended_metrics() -> None:
    """Points may be infinitely far apart, unless that is asked not to be."""
    far = Nullable(absolute, math.inf)
    assert is_metric([0, 1, None], far)
    assert [v.axiom for v in violations([0, None], far, extended=False)] == ["d(x, y) is finite"]


def test_a_short_cut_is_seen_below_infinity() -> None:
    """A distance of infinity where a way around is finite breaks the triangle inequality."""
    metric = broken({(0, 2): math.inf, (2, 0): math.inf})
    assert {v.points for v in violations(range(3), metric)} == {(0, 1, 2), (2, 1, 0)}


# Graphs -------------------------------------------------------------------------------------------


def test_a_graph_s_distance_is_its_shortest_path() -> None:
    """The number of edges, in no direction; infinity where no path leads, also to vertices without edges."""
    metric = GraphMetric([("a", "b"), ("b", "c"), ("d", "c"), ("x", "y"), ("a", "a")])
    assert [metric("a", v) for v in "abcd"] == [0, 1, 2, 3]
    assert metric("d", "a") == 3
    assert metric("a", "x") == metric("a", "?") == metric("?", "!") == math.inf
    assert metric("?", "?") == 0
    assert is_metric("abcdxy?", metric)


@given(
    edges=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=12),
)
def test_shortest_paths_are_those_of_relaxation(edges: list[tuple[int, int]]) -> None:
    """Against Floyd and Warshall's algorithm, on any graph of seven vertices."""
    far: dict[tuple[int, int], float] = {
        (u, v): math.inf * (u != v) if u != v else 0 for u in range(7) for v in range(7)
    }
    for u, v in edges:
        if u != v:
            far[u, v] = far[v, u] = 1
    for k, u, v in product(range(7), repeat=3):
        far[u, v] = min(far[u, v], far[u, k] + far[k, v])
    metric = GraphMetric(edges)
    assert all(metric(u, v) == d for (u, v), d in far.items())


def test_differential_privacy_is_privacy_on_a_graph() -> None:
    """The Hamming distance is the graph's of databases that differ in one row, d_1 that of steps by one."""
    databases = list(product(range(3), repeat=3))
    neighbours = [(x, y) for x, y in combinations(databases, 2) if hamming(x, y) == 1]
    steps = [(x, y) for x, y in combinations(databases, 2) if manhattan(x, y) == 1]
    by_rows, by_steps = GraphMetric(neighbours), GraphMetric(steps)
    for x, y in combinations(databases, 2):
        assert by_rows(x, y) == hamming(x, y)
        assert by_steps(x, y) == manhattan(x, y)


# Metrics induced on answers -----------------------------------------------------------------------


def test_answers_are_as_far_apart_as_their_nearest_points_by_any_chain() -> None:
    """A link is as long as the nearest points with its answers; a distance is the shortest chain of links."""
    answers = {0: "a", 10: "b", 11: "b", 30: "b", 33: "c", 100: "a"}
    metric = Induced(absolute, answers.__getitem__, answers)
    assert metric.links["a", "b"] == metric("b", "a") == 10
    assert metric.links["c", "a"] == 33
    assert metric("a", "c") == 10 + 3
    assert metric("a", "a") == metric("?", "?") == 0
    assert metric("a", "?") == math.inf
    assert is_metric("abc", metric)


@given(
    points=st.lists(st.tuples(NUMBERS, NUMBERS), min_size=2, max_size=5, unique=True),
    answers=st.lists(st.integers(0, 3), min_size=5, max_size=5),
)
def test_the_induced_metric_is_the_shortest_chain(points: list[Any], answers: list[int]) -> None:
    """Against every chain of different answers; and under it the query is 1-Lipschitz."""
    query = dict(zip(points, answers, strict=False))
    metric = Induced(manhattan, query.__getitem__, points)
    given_answers = sorted(set(query.values()))

    def link(u: int, v: int) -> Distance:
        return min(manhattan(x, y) for x in points for y in points if (query[x], query[y]) == (u, v))

    for u, v in combinations(given_answers, 2):
        others = [w for w in given_answers if w not in (u, v)]
        chains = [(u, *way, v) for size in range(len(others) + 1) for way in permutations(others, size)]
        assert metric(u, v) == min(sum(map(link, chain, chain[1:])) for chain in chains)
    assert domination(points, lambda x, y: metric(query[x], query[y]), manhattan) <= 1


# Domination ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3])
def test_norms_dominate_each_other_by_known_factors(n: int) -> None:
    """d_inf <= d_2 <= d_1 <= n d_inf, none of the factors smaller (Proposition 1: privacy follows)."""
    cube = list(product((0, 1, 3), repeat=n))
    assert domination(cube, chebyshev, euclidean) == 1
    assert domination(cube, euclidean, manhattan) == 1
    assert domination(cube, manhattan, chebyshev) == n
    assert domination(cube, manhattan, euclidean) == pytest.approx(math.sqrt(n))
    assert domination(cube, normalised_manhattan(3), hamming) == 1
    assert domination(cube, hamming, manhattan) == 1


@given(points=VECTORS, factor=st.fractions(Fraction(1, 9), 9))
def test_a_multiple_is_dominated_by_its_factor(points: list[Any], factor: Fraction) -> None:
    """A metric times c is dominated with c, and the metric by it with 1/c."""
    assert domination(points, Scaled(manhattan, factor), manhattan) == factor
    assert domination(points, manhattan, Scaled(manhattan, factor)) == 1 / factor


def test_infinite_distances_dominate_and_are_not_dominated() -> None:
    """Infinity bounds anything; no multiple of a finite distance bounds it, and none of 0 bounds 1."""
    far = Nullable(absolute, math.inf)
    assert domination([0, None], discrete, far) == 0
    assert domination([0, None], far, discrete) == math.inf
    assert domination([0, None], far, far) == 0
    assert domination([0, 1], discrete, lambda x, y: Fraction(0)) == math.inf
    assert domination([5], manhattan, chebyshev) == 0
