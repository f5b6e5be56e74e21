"""Databases whose rows may be absent, and the family C, as Chatzikokolakis 2013, section 5, has them."""

from collections.abc import Callable
from fractions import Fraction
from itertools import combinations, product
from typing import Any

import pytest

from meteragent.privacy.mechanism.number import TruncatedGeometric
from meteragent.privacy.mechanism.universal import NotUniform, universal_mechanism
from meteragent.privacy.metric import absolute, discrete, hamming, is_metric
from meteragent.privacy.query import Query, average, count, is_in_family_c, most_common, percentile, total
from meteragent.privacy.space import Categories, Databases, Finite, Numbers, WithNull, list_points

SIZES = [(2, 2), (3, 2), (2, 3)]
"""k and n: rows are 0 .. k or absent, n of them."""

QUERIES: dict[str, Callable[[Databases], Query]] = {
    "sum": total,
    "average, rounded": lambda domain: average(domain, rounded=True),
    "smallest": lambda domain: percentile(domain, 0),
    "median": lambda domain: percentile(domain, 50),
    "largest": lambda domain: percentile(domain, 100),
}


def absent(k: int, n: int, kind: Any, quantum: str = "1") -> Databases:
    """N rows of q [0..k] or none, but not all of them absent."""
    return Databases(WithNull(Numbers(0, k, quantum)), n, kind)


def test_a_database_without_any_row_is_none() -> None:
    """Rows may be None, but not all at once; neighbours and pairs stay within the space."""
    domain = absent(2, 2, "hamming")
    assert len(domain.points) == 4**2 - 1
    assert (None, 0) in domain
    assert (None, None) not in domain
    assert (0, 3) not in domain
    assert set(domain.neighbours((None, 1))) == {(0, 1), (1, 1), (2, 1), (None, 0), (None, 2)}
    large = absent(9, 40, "l1")
    assert list_points(large.rows) == (*range(10), None)
    pairs = list(large.pairs())
    assert pairs
    assert all(x in large and y in large for x, y in pairs)


@pytest.mark.parametrize("kind", ["hamming", "l1", "normalised l1", "linf"])
def test_absence_is_as_far_as_the_width_and_the_distance_stays_a_metric(kind: Any) -> None:
    """d_V(None, v) = d_V(V), which is the width of V with None, too; not all rows are absent at once."""
    domain = absent(3, 2, kind, "1/2")
    assert domain.rows.diameter == Fraction(3, 2) == domain.rows.metric(None, 1)
    assert is_metric(domain.points, domain.metric)
    assert set(product((*range(4), None), repeat=2)) - set(domain.points) == {(None, None)}


@pytest.mark.parametrize("kind", ["hamming", "l1", "linf"])
@pytest.mark.parametrize("k", [0, 1])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_the_diameter_is_reached_also_where_a_row_can_only_be_present_or_absent(
    kind: Any, k: int, n: int
) -> None:
    """With one value, V is 0, but if n > 1, present and absent rows can differ in all n places."""
    domain = absent(k, n, kind)
    distances = [domain.metric(x, y) for x, y in combinations(domain.points, 2)]
    assert domain.diameter == max(distances, default=0)


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("kind", ["hamming", "l1", "normalised l1", "linf"])
@pytest.mark.parametrize(("k", "n"), SIZES)
def test_declared_sensitivities_are_the_least(name: str, kind: Any, k: int, n: int) -> None:
    """The declared sensitivity is what two databases show, also where rows come and go."""
    query = QUERIES[name](absent(k, n, kind))
    assert query.sensitivity == Query(query.function, query.domain, query.metric).sensitivity


def test_a_rounded_average_of_many_databases_has_the_sensitivity_of_a_row() -> None:
    """11^4 databases can be listed, but are too many to search: the sensitivity is declared."""
    query = average(Databases(Numbers(0, 10), 4, "linf"), rounded=True)
    assert query.sensitivity == 1
    assert query((0, 10, 10, 10)) == 7


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize(("k", "n"), SIZES)
def test_theorems_11_to_13_hold_for_sums_percentiles_and_rounded_averages(name: str, k: int, n: int) -> None:
    """They are uniformly qk-, 1- and 1-sensitive for normalised d_1, d_1 and, but for sums, d_inf."""
    quantum = Fraction(1, 4)
    expected = {"normalised l1": quantum * k, "l1": Fraction(1), "linf": Fraction(1)}
    for kind, delta in expected.items():
        query = QUERIES[name](absent(k, n, kind, "1/4"))
        if (name, kind) != ("sum", "linf"):
            assert (query.sensitivity, query.is_uniformly_sensitive) == (delta, True)


@pytest.mark.parametrize("kind", ["normalised l1", "l1", "linf"])
@pytest.mark.parametrize(("k", "n"), SIZES)
def test_an_unrounded_average_is_not_uniformly_sensitive(kind: Any, k: int, n: int) -> None:
    """Theorems 11 to 13 fail for it on q [0..k]: 0 and q/2 are answers whose databases are q apart."""
    query = average(absent(k, n, kind))
    assert query.sensitivity == {"normalised l1": k, "l1": 1, "linf": 1}[kind]
    assert not query.is_uniformly_sensitive
    assert query.chain(0, Fraction(1, 2)) is None
    nearest = min(
        query.domain.metric(x, y)
        for x, y in combinations(list_points(query.domain) or (), 2)
        if {query(x), query(y)} == {Fraction(0), Fraction(1, 2)}
    )
    assert nearest == (Fraction(1, k) if kind == "normalised l1" else 1)


@pytest.mark.parametrize("name", [*QUERIES, "average"])
@pytest.mark.parametrize(("k", "n"), SIZES)
def test_propositions_4_and_5(name: str, k: int, n: int) -> None:
    """Sum, average and percentile are in C, and their sensitivity is d_V(V) under d_h and normalised d_1."""
    ask = QUERIES.get(name, average)
    for kind in ("hamming", "normalised l1"):
        query = ask(absent(k, n, kind))
        assert is_in_family_c(query)
        assert query.sensitivity == k


def test_who_is_not_in_family_c() -> None:
    """An average without absent rows moves by w/n at most; some counts move by more than the row."""
    assert not is_in_family_c(average(Databases(Numbers(0, 3), 2)))
    assert is_in_family_c(total(Databases(Numbers(0, 3), 2)))
    above = Query(lambda x: 3 * sum(v > 0 for v in x), Databases(Numbers(0, 3), 2), absolute)
    assert not is_in_family_c(above)
    stretched = Query(lambda x: Fraction(9 * max(x), 8), Databases(Numbers(0, 3), 2), absolute)
    assert not is_in_family_c(stretched)
    with pytest.raises(ValueError, match="can be listed"):
        is_in_family_c(Query(abs, Numbers(), sensitivity=1))


def test_a_sum_of_rows_that_may_be_absent_needs_zero_among_them() -> None:
    """A row of 1 .. 4 that comes moves the sum by more than the width: refused; an average of them is not."""
    domain = Databases(WithNull(Numbers(1, 4)), 2, "l1")
    with pytest.raises(ValueError, match="must include 0"):
        total(domain)
    assert average(domain).sensitivity == 1
    with pytest.raises(TypeError, match="must be Numbers, not Categories"):
        average(Databases(WithNull(Categories("ab")), 2))


# Theorem 10 and sets of answers -------------------------------------------------------------------


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize(("kind", "level"), [("normalised l1", "2/15"), ("l1", "1/5"), ("linf", "1/5")])
def test_a_query_has_its_universal_mechanism(name: str, kind: Any, level: str) -> None:
    """Theorem 10: TG with epsilon/Delta on q [0..k'] is what a uniformly sensitive query gets.

    Answers that are not as far apart as numbers get none.
    Its corollaries: Delta is qk under the normalised d_1 and 1 under d_1 and, but for sums, d_inf.
    """
    query = QUERIES[name](absent(3, 2, kind, "1/2"))
    if (name, kind) == ("sum", "linf"):
        with pytest.raises(NotUniform, match="no tight 2-expansive chain"):
            universal_mechanism(query, "1/5")
        return
    mechanism = universal_mechanism(query, "1/5")
    assert mechanism.mechanism == TruncatedGeometric(level, "1/2", max(query.answers))
    assert mechanism.loss(Fraction(1)) == Fraction(1, 5)
    uneven = Query(int, Finite(range(3), discrete), discrete)
    with pytest.raises(NotUniform, match="as far apart as numbers"):
        universal_mechanism(uneven, "1/5")


def test_a_query_without_one_hears_why() -> None:
    """Answers between quanta, a broken chain, or answers whose distance is not that of numbers are named."""
    with pytest.raises(NotUniform, match=r"all of 0 \.\. k quanta"):
        universal_mechanism(average(absent(2, 2, "l1")), 1)
    with pytest.raises(NotUniform, match="answers 0 and 1 have no tight 2-expansive chain"):
        universal_mechanism(percentile(absent(2, 2, "hamming"), 50), 1)
    near = Query(lambda x: x[0], Databases(Numbers(0, 2), 1, "l1"), hamming_of_answers)
    with pytest.raises(NotUniform, match="as far apart as numbers"):
        universal_mechanism(near, 1)


def hamming_of_answers(y: int, z: int) -> Fraction:
    """Any two answers at distance 1."""
    return Fraction(y != z)


def test_the_most_common_values_are_an_answer() -> None:
    """A set is an answer, at the size of the symmetric difference: one row moves the two most common by 2.

    So is a count, which one row moves by 1.
    """
    domain = Databases(Categories(["chess", "music", "sport"]), 3)
    query = most_common(domain, 1)
    assert query(("sport", "music", "sport")) == {"sport"}
    assert query(("sport", "music", "chess")) == {"chess"}
    assert query.sensitivity == 2
    assert most_common(domain, 2).sensitivity == 2
    assert most_common(domain, 3).sensitivity == 0
    chess = count(domain, "chess".__eq__)
    assert (chess(("chess", "music", "chess")), chess.sensitivity) == (2, 1)
    assert hamming(("sport",), ("music",)) == 1
    for k in (0, 4):
        with pytest.raises(ValueError, match="k must lie in"):
            most_common(domain, k)


def yes_or_no(n: int) -> Query:
    """The number of n rows that are not 0."""
    return count(Databases(Numbers(0, 1), n, "hamming"), bool)


@pytest.mark.parametrize("name", [*QUERIES, "count"])
@pytest.mark.parametrize("kind", ["hamming", "l1", "normalised l1", "linf"])
@pytest.mark.parametrize("is_null", [False, True])
@pytest.mark.parametrize(("k", "n"), [(1, 3), (2, 2), (3, 2)])
def test_what_is_known_of_a_query_is_what_a_search_finds(
    name: str, kind: Any, k: int, n: int, *, is_null: bool
) -> None:
    """Wherever `uniform_to` is stated, it is the largest answer, and every chain is there."""
    rows = Numbers(0, k, "1/2")
    domain = Databases(WithNull(rows) if is_null else rows, n, kind)
    query = count(domain, bool) if name == "count" else QUERIES[name](domain)
    searched = Query(query.function, query.domain, query.metric)
    if query.uniform_to is not None:
        assert sorted(searched.answers) == list(range(query.uniform_to + 1))
        assert searched.is_uniformly_sensitive
        assert universal_mechanism(query, 1).mechanism == universal_mechanism(searched, 1).mechanism


def test_a_universal_mechanism_has_any_size_that_its_theorem_covers() -> None:
    """A count of 1,000 rows, a sum, a percentile and a rounded average of many: none is searched."""
    assert universal_mechanism(yes_or_no(1000), "1/5").mechanism == TruncatedGeometric("1/5", 1, 1000)
    many = Databases(Numbers(0, 5), 1000, "l1")
    assert universal_mechanism(total(many), "1/5").mechanism == TruncatedGeometric("1/5", 1, 5000)
    for query in (percentile(many, 50), average(many, rounded=True)):
        assert universal_mechanism(query, "1/5").mechanism == TruncatedGeometric("1/5", 1, 5)
    assert universal_mechanism(yes_or_no(9), "1/5").mechanism == TruncatedGeometric("1/5", 1, 9)
    for query in (percentile(Databases(Numbers(0, 5), 4), 50), total(Databases(Numbers(1, 5), 5, "l1"))):
        assert query.uniform_to is None
    with pytest.raises(NotUniform, match="answers 0 and 1 have no tight 2-expansive chain"):
        universal_mechanism(total(Databases(Numbers(0, 2), 4)), 1)
