"""Queries on the points of a space, and their sensitivity (Chatzikokolakis 2013, section 4).

A query f from a space X to answers Y is Delta-sensitive if d_Y(f(x), f(x')) <= Delta d_X(x, x') (Definition
4). Then an epsilon-d_Y-private mechanism after f is (Delta epsilon)-d_X-private (Fact 5). The converse holds
if f is *uniformly* Delta-sensitive (Definition 5, Theorem 6): any two answers y, y' are joined by a chain of
answers that is tight (d_Y(y, y') is the sum of d_Y over the links) and expansive (the answers at the ends of
each link are those of two points x, x' with d_Y = Delta d_X(x, x')).

*Why the search is finite.* By Delta-sensitivity, the nearest two points that give the answers of a link are
at least d_Y/Delta apart, so the link is expansive if this is exactly their distance. Then y and y' have a
tight expansive chain if and only if their shortest path along expansive links has the length d_Y(y, y'). All
pairs do if and only if d_Y is Delta times the metric that f induces on its answers (`metric.Induced`).

*Sums over rows.* Let f(x) = g(x_1) + .. + g(x_n), and let L be the sensitivity of g on a row's space of width
V. Then the sensitivity of f is L under d_1, L V under the normalised d_1, n L under d_inf, and the largest
|g(u) - g(v)| under d_h. An order statistic moves at most as far as the row that moves farthest, so its
sensitivity is 1 under d_inf and d_1, and V under the other metrics.

*Rows that may be absent* (`WithNull`; Chatzikokolakis 2013, section 5). Sum, average and percentile are those
of the rows that are present, of which there is at least one. Adding or removing a row moves each result by at
most V and is a distance of V, so the sensitivities are those above, except that an average of a single row
moves as far as that row. Theorems 11 to 13 state that the queries are uniformly sensitive (the sum not under
d_inf). On the lattice q [0..k], this does not hold for the average: 0 and q/2 are answers whose nearest
databases are q apart. An average that is rounded down to whole quanta is uniformly sensitive, and a truncated
geometric mechanism on q [0..k] needs this rounding anyway.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Any

from meteragent.privacy.exact import Exact, set_fields, to_rational
from meteragent.privacy.metric import (
    Distance,
    Induced,
    Metric,
    Scaled,
    absolute,
    domination,
    exceeds,
    shortest_paths,
    symmetric_difference,
)
from meteragent.privacy.space import Databases, Numbers, Space, WithNull, list_points

SEARCH_LIMIT = 1024
"""The size of the largest space that is searched; on larger spaces the sensitivity must be declared."""


@dataclass(frozen=True, init=False)
class Query:
    """A query on a space, with a metric on its answers and its sensitivity (Definition 4).

    If `sensitivity` is None, the space is searched for the least sensitivity. A declared sensitivity is
    checked on all pairs of points of a small space, or on the pairs that a large space provides for tests.
    Raises TypeError if the sensitivity is not exact; ValueError if a pair of points shows a larger
    sensitivity, the sensitivity is infinite, or no sensitivity is declared on a space that is too large to
    search.

    `uniform_to` is k if it is known, without a search, that the answers are all of 0 .. k and the query is
    uniformly sensitive; it is not checked.
    """

    function: Callable[[Any], Any]
    domain: Space
    metric: Metric
    sensitivity: Distance
    uniform_to: int | None

    def __init__(
        self,
        function: Callable[[Any], Any],
        domain: Space,
        metric: Metric = absolute,
        sensitivity: Exact | None = None,
        uniform_to: int | None = None,
    ) -> None:
        set_fields(self, function=function, domain=domain, metric=metric, uniform_to=uniform_to)
        smallest = self._least_sensitivity(is_declared=sensitivity is not None)
        delta = smallest if sensitivity is None else to_rational("sensitivity", sensitivity)
        if delta == math.inf or exceeds(smallest, delta):
            raise ValueError(f"a sensitivity of {delta} does not hold: two points show {smallest}")
        object.__setattr__(self, "sensitivity", delta)

    def __call__(self, point: Any) -> Any:
        """Return the answer. Raises ValueError outside the space, where the sensitivity is unknown."""
        if point not in self.domain:
            raise ValueError(f"the point is not in the query's space, {type(self.domain).__name__}")
        return self.function(point)

    @property
    def answers(self) -> tuple[Any, ...]:
        """The distinct answers, in the points' order. Raises ValueError if the space is too large."""
        return tuple(dict.fromkeys(map(self.function, self._search_points())))

    @property
    def induced(self) -> Induced:
        """The metric induced on the answers. Raises ValueError as `answers` does."""
        return Induced(self.domain.metric, self.function, self._search_points())

    def chain(self, start: Hashable, end: Hashable) -> tuple[Any, ...] | None:
        """Return a tight, expansive chain (Definition 5) or None. Raises ValueError as `answers` does."""
        links = self.expansive_links
        paths, chain = shortest_paths(links), [start]
        while chain[-1] != end:
            answer = chain[-1]
            # Follow only links on a tight path to the end, which is no longer than the direct distance.
            candidates = (
                z
                for (y, z), d in links.items()
                if y == answer and not exceeds(d + paths[z].get(end, math.inf), self.metric(answer, end))
            )
            if (step := next(candidates, None)) is None:
                return None
            chain.append(step)
        return tuple(chain)

    @property
    def is_uniformly_sensitive(self) -> bool:
        """Whether any two answers are joined by a tight and expansive chain (Definition 5, Theorem 6)."""
        paths, answers = shortest_paths(self.expansive_links), self.answers
        lengths = (
            (paths.get(y, {}).get(z, math.inf), self.metric(y, z)) for y, z in combinations(answers, 2)
        )
        return not any(exceeds(path, distance) for path, distance in lengths)

    @property
    def expansive_links(self) -> dict[tuple[Hashable, Hashable], Distance]:
        """The distance d_Y of each expansive link: the sensitivity times the nearest points' distance."""
        links = {(y, z): (d, self.metric(y, z)) for (y, z), d in self.induced.links.items()}
        return {link: d_y for link, (d, d_y) in links.items() if not exceeds(self.sensitivity * d, d_y)}

    def _least_sensitivity(self, *, is_declared: bool) -> Distance:
        """Return the least sensitivity on all points; if `is_declared`, on test pairs of a large space."""
        points = list_points(self.domain)
        if is_declared and (points is None or len(points) > SEARCH_LIMIT):
            return max((self._least_stretch(pair) for pair in self.domain.pairs()), default=Fraction(0))
        return self._least_stretch(self._search_points())

    def _least_stretch(self, points: Sequence[Any]) -> Distance:
        return domination(
            points, lambda x, y: self.metric(self.function(x), self.function(y)), self.domain.metric
        )

    def _search_points(self) -> tuple[Any, ...]:
        points = list_points(self.domain)
        if points is None or len(points) > SEARCH_LIMIT:
            raise ValueError(
                "the space is too large to search: declare the query's sensitivity, or uniform_to"
            )
        return points


def count(domain: Databases, predicate: Callable[[Any], bool]) -> Query:
    """Return the number of rows that satisfy `predicate`, as a query: uniformly 1-sensitive under d_h.

    The query is 0-sensitive if all values or none satisfy it. Raises ValueError if the space is too large to
    search, or the sensitivity is infinite or irrational.
    """
    row = Query(lambda value: int(predicate(value)), domain.rows)
    spread = Fraction(len(row.answers) - 1)
    delta = _sensitivity_of_sum(domain, row.sensitivity, spread)
    # A change of one row, the least distance under d_h, moves the count by 1.
    is_uniform = domain.kind == "hamming" and spread == 1 and not isinstance(domain.rows, WithNull)
    top = domain.n if is_uniform else None
    return Query(lambda x: sum(map(row.function, x)), domain, absolute, delta, top)


def total(domain: Databases) -> Query:
    """Return the sum of the rows that are present, as a query: answers in quanta, distances in the unit.

    The sum's sensitivity is 1 under d_1 and the rows' width under normalised d_1 (both uniform), the rows'
    width under d_h, and n under d_inf. Raises TypeError if rows' values are not `Numbers`; ValueError if
    the sensitivity is the rows' width, which is infinite, or rows may be absent but 0 is not one of their
    values.
    """
    if isinstance(domain.rows, WithNull) and 0 not in domain.rows:
        raise ValueError("an absent row adds 0 to the sum: the values of the rows must include 0")
    delta = _sensitivity_of_sum(domain, Fraction(1), domain.rows.diameter)
    top = None if domain.kind == "linf" else _top(domain, domain.n)
    return Query(lambda x: sum(_present(x)), domain, Scaled(absolute, _quantum(domain)), delta, top)


def average(domain: Databases, *, rounded: bool = False) -> Query:
    """Return the mean of the rows that are present, as a query: in quanta, or `rounded` down to whole quanta.

    The mean's sensitivity is the sum's divided by n, so it is 1 under d_inf. If rows may be absent or
    the mean is `rounded`, the sensitivity is at most a row's. Under d_inf the query is uniform for rows
    that are real numbers (Theorem 13), but not on a lattice: if one of n > 1 rows moves by a quantum, the
    mean moves by less. Without absent rows it is uniform under d_1 and normalised d_1, in steps of q/n.
    Raises TypeError if the values of the rows are not `Numbers`; ValueError if the sensitivity is the rows'
    width, which is infinite.
    """
    metric, width = Scaled(absolute, _quantum(domain)), domain.rows.diameter
    if isinstance(domain.rows, WithNull) or rounded:
        delta = _sensitivity_of_row(domain)
    else:
        delta = _sensitivity_of_sum(domain, Fraction(1, domain.n), width / domain.n)
    if not rounded:
        return Query(_mean, domain, metric, delta)
    points = list_points(domain)
    if points is not None and len(points) <= SEARCH_LIMIT:  # the sensitivity may be below a row's
        return Query(lambda x: math.floor(_mean(x)), domain, metric, uniform_to=_top(domain))
    return Query(lambda x: math.floor(_mean(x)), domain, metric, delta, _top(domain))


def percentile(domain: Databases, percent: Exact) -> Query:
    """Return, as a query in quanta, the smallest row that is no smaller than `percent` % of the rows.

    This is the row of rank ceil(n percent / 100), or of rank 1 for 0%, where n is the number of rows present.
    The query's sensitivity is 1 under d_1 and d_inf, and the rows' width under normalised d_1 (uniformly in
    all three) and under d_h. Raises TypeError if the values of the rows are not `Numbers`, or percent is not
    exact; ValueError if percent is not in [0, 100], or the sensitivity is the rows' width, which is infinite.
    """
    share = to_rational("percent", percent)
    if not 0 <= share <= 100:
        raise ValueError(f"percent must lie in [0, 100], not {share}")

    def row(x: Sequence[Any]) -> Any:
        """Return the row of this rank."""
        values = sorted(_present(x))
        return values[max(1, math.ceil(len(values) * share / 100)) - 1]

    metric, delta = Scaled(absolute, _quantum(domain)), _sensitivity_of_row(domain)
    return Query(row, domain, metric, delta, _top(domain))


def most_common(domain: Databases, k: int) -> Query:
    """Return the k most common values of the rows, as a query; ties go to the value listed first.

    An answer can have values that no row has. The answers are frozensets, whose distance is the size of their
    symmetric difference (Holohan 2014, Example 3). Raises ValueError if the rows' values cannot be listed, k
    is not in 1 .. the number of values, or there are too many databases to search for the sensitivity.
    """
    values = list_points(domain.rows)
    if values is None or not 0 < k <= len(values):
        raise ValueError(f"the rows need a finite domain, and k must lie in 1 .. its size, not {k}")

    def commonest(x: Sequence[Any]) -> frozenset[Any]:
        """Return the k most common values."""
        return frozenset(sorted(values, key=lambda value: -list(x).count(value))[:k])

    return Query(commonest, domain, symmetric_difference)


def is_in_family_c(query: Query) -> bool:
    """Return whether a query on databases of numbers is in family C (Chatzikokolakis 2013, Definition 8).

    Let d_V be the metric of the rows and d_V(V) the rows' width. The query is in the family if its answers
    differ by at most d_V(x[i], x'[i]) for all x, x' that differ only in row i, and by d_V(V) for some such x,
    x'. The query's sensitivity is then d_V(V) under d_h and under the normalised d_1 (Proposition 4). Raises
    ValueError if the domain is not a space of databases, or has too many databases to list.
    """
    domain = query.domain
    if not isinstance(domain, Databases) or (points := list_points(domain)) is None:
        raise ValueError("family C needs a query on databases that can be listed")
    is_attained = False
    for x in points:
        for y in domain.neighbours(x):
            change = query.metric(query.function(x), query.function(y))
            row = max(domain.rows.metric(u, v) for u, v in zip(x, y, strict=True))
            if change > row:
                return False
            is_attained = is_attained or change == domain.rows.diameter
    return is_attained


def _present(x: Sequence[Any]) -> list[Any]:
    return [row for row in x if row is not None]


def _mean(x: Sequence[Any]) -> Fraction:
    rows = _present(x)
    return Fraction(sum(rows), len(rows))


def _sensitivity_of_row(domain: Databases) -> Fraction:
    """Return the sensitivity of an answer that moves at most as far as the row that moves farthest."""
    return _require_finite({"l1": Fraction(1), "linf": Fraction(1)}.get(domain.kind, domain.rows.diameter))


def _sensitivity_of_sum(domain: Databases, slope: Distance, spread: Distance) -> Fraction:
    """Return the sensitivity of a sum over rows, from the sensitivity and the width of a row's answers."""
    sensitivities = {
        "hamming": spread,
        "l1": slope,
        "normalised l1": slope * domain.rows.diameter,
        "linf": domain.n * slope,
    }
    return _require_finite(sensitivities[domain.kind])


def _require_finite(sensitivity: Distance) -> Fraction:
    if not isinstance(sensitivity, Fraction):
        raise ValueError(f"no finite sensitivity ({sensitivity}): give the rows bounds")  # noqa: TRY004
    return sensitivity


def _quantum(domain: Databases) -> Fraction:
    return _numbers(domain).quantum


def _numbers(domain: Databases) -> Numbers:
    values = domain.rows.values if isinstance(domain.rows, WithNull) else domain.rows
    if not isinstance(values, Numbers):
        raise TypeError(f"the rows must be Numbers, not {type(values).__name__}")
    return values


def _top(domain: Databases, rows: int = 1) -> int | None:
    """Return k if answers are 0 .. k quanta and the query is uniformly sensitive (Theorems 11 to 13).

    k is `rows` times the largest value. Under d_h, return None: a row may move an answer by many quanta.
    """
    values = _numbers(domain)
    return rows * values.high if values.low == 0 and values.high and domain.kind != "hamming" else None
