"""Queries and how much they stretch: Chatzikokolakis 2013, Definitions 4 and 5 (meteragent.privacy.query).

Mechanisms on finitely many answers are tables here: the law of what is released, per answer. `level` is the
smallest epsilon for which such a table is private.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import combinations, pairwise, permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent.privacy.metric import Metric, absolute, discrete, hamming
from meteragent.privacy.query import Query, average, count, percentile, total
from meteragent.privacy.space import Categories, Databases, Finite, Numbers, Windows

KINDS = ("hamming", "l1", "normalised l1", "linf")
Law = dict[Any, tuple[float, ...]]


def level(law: Law, metric: Metric) -> float:
    """The smallest epsilon with law[x] <= e^(epsilon d(x, y)) law[y] for all x and y."""
    return max(
        max(math.log(p / q) for p, q in zip(law[x], law[y], strict=True)) / float(metric(x, y))
        for x, y in permutations(law, 2)
        if metric(x, y) < math.inf
    )


def after(law: Law, query: Query, points: Any) -> Law:
    """The mechanism after the query."""
    return {x: law[query(x)] for x in points}


# Queries on databases -----------------------------------------------------------------------------

QUERIES: dict[str, Callable[[Databases], Query]] = {
    "count": lambda domain: count(domain, lambda row: row != 2),
    "sum": total,
    "average": average,
    "smallest": lambda domain: percentile(domain, 0),
    "median": lambda domain: percentile(domain, 50),
    "largest": lambda domain: percentile(domain, 100),
}


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("low", "high", "quantum", "n"), [(0, 2, "1", 3), (1, 4, "1/2", 2), (2, 3, "3", 3)])
def test_the_sensitivity_of_a_query_is_the_least(
    name: str, kind: Any, low: int, high: int, quantum: str, n: int
) -> None:
    """What the formulas say is what two databases show, and no less, under each of the four metrics."""
    domain = Databases(Numbers(low, high, quantum), n, kind)
    query = QUERIES[name](domain)
    assert isinstance(query.sensitivity, Fraction)
    shown = [
        query.metric(query(x), query(y)) / domain.metric(x, y) for x, y in combinations(domain.points, 2)
    ]
    assert max(shown) == query.sensitivity
    assert Query(query.function, domain, query.metric).sensitivity == query.sensitivity


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("count", {"hamming": 1, "l1": 2, "normalised l1": 8, "linf": 20}),
        ("sum", {"hamming": 4, "l1": 1, "normalised l1": 4, "linf": 10}),
        ("average", {"hamming": "2/5", "l1": "1/10", "normalised l1": "2/5", "linf": 1}),
        ("median", {"hamming": 4, "l1": 1, "normalised l1": 4, "linf": 1}),
    ],
)
def test_sensitivities_of_a_database_too_large_to_search(name: str, expected: dict[str, Any]) -> None:
    """Ten rows of 0 .. 4 W in half watts: width and number of rows count as the metric has it."""
    for kind in KINDS:
        domain = Databases(Numbers(0, 8, "1/2"), 10, kind)  # type: ignore[arg-type]
        assert QUERIES[name](domain).sensitivity == Fraction(expected[kind])


def test_answers_are_those_of_the_rows() -> None:
    """Counts, sums, means and order statistics of a database, in quanta."""
    domain = Databases(Numbers(0, 9), 5)
    x = (7, 0, 3, 3, 9)
    assert count(domain, lambda row: row > 2)(x) == 4
    assert total(domain)(x) == 22
    assert average(domain)(x) == Fraction(22, 5)
    ranks: dict[Any, int] = {0: 0, 1: 0, 20: 0, "20.1": 3, 40: 3, 60: 3, 61: 7, 80: 7, 81: 9, 100: 9}
    assert {percent: percentile(domain, percent)(x) for percent in ranks} == ranks


def test_rows_without_bounds_have_sensitivities_where_the_width_does_not_count() -> None:
    """Under d_1 and d_inf a sum of any readings is a query; under d_h it needs their width."""
    for kind, expected in (("l1", 1), ("linf", 4)):
        assert total(Databases(Numbers(), 4, kind)).sensitivity == expected  # type: ignore[arg-type]
        assert percentile(Databases(Numbers(0), 4, kind), 50).sensitivity == 1  # type: ignore[arg-type]
    for query in (total, average, lambda domain: percentile(domain, 50)):
        with pytest.raises(ValueError, match="bounds"):
            query(Databases(Numbers(), 4))


def test_queries_on_numbers_need_numbers() -> None:
    """A sum of categories is refused; a count of them is not, unless they cannot be searched."""
    domain = Databases(Categories("abc"), 3)
    for query in (total, average, lambda d: percentile(d, 50)):
        with pytest.raises(TypeError, match="must be Numbers, not Categories"):
            query(domain)
    assert count(domain, lambda row: row == "a")(("a", "b", "a")) == 2
    with pytest.raises(ValueError, match="too large to search"):
        count(Databases(Numbers(), 3), lambda row: row > 0)
    for percent in (-1, 101):
        with pytest.raises(ValueError, match="percent must lie"):
            percentile(domain, percent)
    with pytest.raises(TypeError, match="percent must be exact"):
        percentile(domain, 0.5)  # type: ignore[arg-type]


def test_a_count_that_tells_no_rows_apart_says_nothing() -> None:
    """If all rows satisfy the predicate, or none, the sensitivity is 0."""
    for verdict in (True, False):
        query = count(Databases(Categories("abc"), 3), lambda _, verdict=verdict: verdict)  # type: ignore[misc]
        assert query.sensitivity == 0
        assert query.answers == (3 * verdict,)
        assert query.is_uniformly_sensitive


# Sensitivity in general ---------------------------------------------------------------------------


def test_a_declared_sensitivity_is_checked_on_pairs() -> None:
    """On a space without end it must be declared; what the tried pairs refute is refused."""
    space = Windows(3, "1/2")
    query = Query(sum, space, sensitivity=6)
    assert query.sensitivity == 6
    assert query((1, 2, 3)) == 6
    with pytest.raises(ValueError, match="a sensitivity of 5 does not hold: two points show 6"):
        Query(sum, space, sensitivity=5)
    with pytest.raises(ValueError, match="declare the query's sensitivity"):
        Query(sum, space)
    with pytest.raises(TypeError, match="sensitivity must be exact"):
        Query(sum, space, sensitivity=6.5)  # type: ignore[arg-type]


def test_a_query_that_tears_points_apart_has_no_sensitivity() -> None:
    """Points at no distance with different answers, or answers infinitely far apart, are refused."""
    near = Finite([0, 1, 2], lambda x, y: Fraction(abs(x // 2 - y // 2)))
    with pytest.raises(ValueError, match="a sensitivity of inf does not hold"):
        Query(abs, near)
    with pytest.raises(ValueError, match="a sensitivity of inf does not hold"):
        Query(abs, Numbers(0, 2), lambda x, y: math.inf if x != y else Fraction(0))
    assert Query(lambda x: x // 2, near).sensitivity == 1


def test_nothing_is_answered_about_what_is_no_point() -> None:
    """A point outside of the space is refused: nothing is promised for it."""
    query = Query(abs, Numbers(-3, 3))
    assert query(-3) == 3
    with pytest.raises(ValueError, match="not in the query's space"):
        query(4)


# Uniform sensitivity ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "uniform"),
    [
        ("count", {"hamming", "l1", "normalised l1"}),
        ("sum", {"l1", "normalised l1"}),
        ("average", {"l1", "normalised l1"}),
        ("smallest", {"l1", "normalised l1", "linf"}),
        ("median", {"l1", "normalised l1", "linf"}),
        ("largest", {"l1", "normalised l1", "linf"}),
    ],
)
def test_which_queries_are_uniformly_sensitive(name: str, uniform: set[str]) -> None:
    """Those of Theorems 8 and 11 to 13, but for the average under d_inf: there rows are real numbers."""
    for kind in KINDS:
        query = QUERIES[name](Databases(Numbers(0, 2), 3, kind))  # type: ignore[arg-type]
        assert query.is_uniformly_sensitive == (kind in uniform)


def test_the_average_under_d_inf_is_uniform_between_whole_quanta() -> None:
    """On a lattice answers of whole quanta have tight expansive chains, those between have none."""
    query = average(Databases(Numbers(0, 2), 3, "linf"))
    assert query.chain(0, 2) == (0, 1, 2)
    assert query.chain(0, Fraction(1, 3)) is None
    assert query.induced(0, Fraction(1, 3)) == 1


@st.composite
def queries(draw: st.DrawFn) -> Query:
    """Any query on a few points of the plane, its answers at any distances."""
    points = draw(
        st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=6, unique=True)
    )
    answers = draw(st.lists(st.integers(0, 4), min_size=len(points), max_size=len(points)))
    metric = draw(st.sampled_from([absolute, discrete]))
    of = dict(zip(points, answers, strict=True))
    return Query(
        of.__getitem__, Finite(points, lambda x, y: absolute(x[0], y[0]) + absolute(x[1], y[1])), metric
    )


@given(query=queries())
def test_chains_are_tight_and_expansive(query: Query) -> None:
    """A chain's links add up to the distance, and each stretches some two points by all of Delta."""
    for start, end in permutations(query.answers, 2):
        chain = query.chain(start, end)
        if chain is None:
            continue
        assert (chain[0], chain[-1]) == (start, end)
        assert sum(query.metric(y, z) for y, z in pairwise(chain)) == query.metric(start, end)
        for y, z in pairwise(chain):
            assert any(
                query.metric(y, z) == query.sensitivity * query.domain.metric(u, v)
                for u, v in permutations(query.domain.points, 2)  # type: ignore[attr-defined]
                if (query(u), query(v)) == (y, z)
            )


@given(query=queries())
def test_uniform_sensitivity_is_a_chain_between_any_two_answers(query: Query) -> None:
    """Definition 5 against all chains there are; it holds where d_Y is Delta times the induced metric."""
    points = query.domain.points  # type: ignore[attr-defined]

    def expands(y: int, z: int) -> bool:
        ends = [(u, v) for u in points for v in points if (query(u), query(v)) == (y, z)]
        return query.metric(y, z) in {query.sensitivity * query.domain.metric(u, v) for u, v in ends}

    def linked(y: int, z: int) -> bool:
        others = [a for a in query.answers if a not in (y, z)]
        ways = [(y, *way, z) for size in range(len(others) + 1) for way in permutations(others, size)]
        return any(
            all(expands(u, v) for u, v in pairwise(way))
            and sum(query.metric(u, v) for u, v in pairwise(way)) == query.metric(y, z)
            for way in ways
        )

    pairs = list(permutations(query.answers, 2))
    for y, z in pairs:
        assert linked(y, z) == (query.chain(y, z) is not None)
    assert query.is_uniformly_sensitive == all(linked(y, z) for y, z in pairs)
    induced = query.induced
    scaled = all(query.metric(y, z) == query.sensitivity * induced(y, z) for y, z in pairs)
    assert query.is_uniformly_sensitive == scaled


LAWS = st.lists(st.floats(0.1, 1), min_size=3, max_size=3).map(lambda p: tuple(v / sum(p) for v in p))


@given(query=queries(), laws=st.lists(LAWS, min_size=5, max_size=5))
def test_privacy_after_a_query(query: Query, laws: list[Any]) -> None:
    """Fact 5 and Theorem 6: after f the level is at most Delta times that on answers; if uniform, exactly.

    And it is always that for the induced metric.
    """
    if len(query.answers) < 2:
        return
    law = dict(zip(query.answers, laws, strict=False))
    points = query.domain.points  # type: ignore[attr-defined]
    composed = level(after(law, query, points), query.domain.metric)
    bound = level(law, query.metric) * float(query.sensitivity)
    assert composed <= bound + 1e-12
    if query.is_uniformly_sensitive:
        assert composed == pytest.approx(bound, rel=1e-12)
    assert composed == pytest.approx(level(law, query.induced), rel=1e-12)


def test_without_uniform_sensitivity_the_answers_may_be_less_private() -> None:
    """A mechanism may be Delta-private after a Delta-sensitive query and not private on the answers (Fig. 1).

    Three databases, the third twice as far away as its answer would have it: noise can be spared between
    answers 1 and 2, so that nothing shows after the query, but does on the answers.
    """
    query = Query({0: 0, 1: 1, 3: 2}.__getitem__, Finite([0, 1, 3], absolute))
    assert query.sensitivity == 1
    assert not query.is_uniformly_sensitive
    assert query.chain(0, 1) == (0, 1)
    assert query.chain(1, 2) is query.chain(0, 2) is None
    tops = {0: 0, 1: -1, 2: -3}  # ln P(yes), with P(yes | 0) = 1/2
    law: Law = {y: (math.exp(t) / 2, 1 - math.exp(t) / 2) for y, t in tops.items()}
    assert level(after(law, query, [0, 1, 3]), absolute) == pytest.approx(1)
    assert level(law, absolute) == pytest.approx(2)


def test_counting_is_a_path_of_neighbours() -> None:
    """The chain of a count goes one by one, each link being two neighbours."""
    query = count(Databases(Categories("ab"), 4), lambda row: row == "b")
    assert query.chain(0, 4) == (0, 1, 2, 3, 4)
    assert query.chain(3, 3) == (3,)
    assert query.induced.links[1, 2] == 1
    assert hamming("aaab", "aabb") == 1


def test_a_larger_declared_sensitivity_is_not_uniform() -> None:
    """Uniformity is about the least sensitivity: declaring more leaves no expansive chain."""
    assert Query(abs, Numbers(0, 3), sensitivity=1).is_uniformly_sensitive
    assert not Query(abs, Numbers(0, 3), sensitivity=2).is_uniformly_sensitive
    with pytest.raises(ValueError, match="too large to search"):
        Query(abs, Numbers(), sensitivity=1).answers  # noqa: B018
