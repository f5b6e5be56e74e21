"""Metrics, which measure privacy (Chatzikokolakis, Andres, Bordenabe, Palamidessi 2013, sections 2 and 5).

A metric is any function of two points. A distance is a `Fraction` if it is rational, and a float only if it
is irrational or `math.inf`. Extended metrics are allowed: nothing is promised between points at an infinite
distance. A point's number may be an int, a Fraction, a Decimal or a float. A float is treated as the rational
number that it represents (only parameters must be exact; a point is data).

Databases are tuples of rows. With d_V the metric of a row, d_1 is the sum of d_V over the rows, d_inf is the
largest d_V, d_h is d_1 with the discrete metric, d_r counts the rows that are removed or added, and the
normalised d_1 is d_1 / d_V(V), where d_V(V) is the width of a row's domain.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, count, permutations
from numbers import Integral
from typing import Any, Literal, NamedTuple

from meteragent.privacy.exact import Exact, positive, set_fields

Distance = Fraction | float
"""A Fraction if the distance is rational; a float if it is irrational or infinite."""

Metric = Callable[[Any, Any], Distance]

_SLACK = 1e-12  # the relative rounding error of irrational distances that does not break an inequality


def square_root(square: Fraction) -> Distance:
    """Return the square root of a rational number >= 0: a Fraction if the root is rational, else a float."""
    numerator, denominator = math.isqrt(square.numerator), math.isqrt(square.denominator)
    if numerator**2 == square.numerator and denominator**2 == square.denominator:
        return Fraction(numerator, denominator)
    return math.sqrt(square)


def discrete(x: Any, y: Any) -> Distance:
    """Return 0 for equal points, else 1: the metric of differential privacy on categories."""
    return Fraction(bool(x != y))


def absolute(x: Any, y: Any) -> Distance:
    """Return |x - y|, exactly."""
    return abs(Fraction(_number(x) - _number(y)))


def symmetric_difference(x: Any, y: Any) -> Distance:
    """Count the elements that are in exactly one of two sets (Holohan, Leith, Mason 2014, Example 1)."""
    return Fraction(len(frozenset(x) ^ frozenset(y)))


def _number(x: Any) -> Fraction | int:
    """Return x, even a float, as an exact number. Raises ValueError for nan, OverflowError for infinity."""
    if type(x) is int:
        return x
    return int(x) if isinstance(x, Integral) else Fraction(x)


@dataclass(frozen=True)
class Rowwise:
    """A metric of databases with equally many rows: the sum ("l1") or the maximum ("linf") over the rows."""

    row: Metric
    norm: Literal["l1", "linf"] = "l1"

    def __call__(self, x: Any, y: Any) -> Distance:
        """Return the distance between two databases."""
        rows = (self.row(u, v) for u, v in _pair_rows(x, y))
        return sum(rows, Fraction(0)) if self.norm == "l1" else max(rows, default=Fraction(0))


hamming = Rowwise(discrete)
"""d_h: the number of rows in which two databases differ."""


def _removals(u: Any, v: Any) -> Distance:
    """Count the removals and additions that turn one value of a row (None if absent) into another."""
    return Fraction(0 if u == v else 1 if u is None or v is None else 2)


removal = Rowwise(_removals)
"""d_r: the number of rows removed or added; d_h <= d_r <= 2 d_h (Chatzikokolakis 2013, below Prop. 1)."""

manhattan = Rowwise(absolute)
"""d_1: the sum of |x_i - y_i|."""

chebyshev = Rowwise(absolute, "linf")
"""d_inf: the largest |x_i - y_i|."""


def normalised_manhattan(width: Exact) -> Rowwise:
    """Return the metric d_1 / width, at most d_h on rows of this width. Raises ValueError if width <= 0."""
    return Rowwise(Scaled(absolute, 1 / positive("width", width)))


def euclidean(x: Any, y: Any) -> Distance:
    """Return d_2, a float only if irrational. Raises ValueError if the points differ in dimension."""
    return square_root(Fraction(sum((_number(u) - _number(v)) ** 2 for u, v in _pair_rows(x, y))))


def _pair_rows(x: Any, y: Any) -> Iterator[tuple[Any, Any]]:
    if len(x) != len(y):
        raise ValueError(f"points of {len(x)} and {len(y)} rows have no distance: give both the same number")
    return zip(x, y, strict=True)


@dataclass(frozen=True, init=False)
class Scaled:
    """A metric times a positive factor: epsilon d-privacy is privacy for the metric epsilon d."""

    metric: Metric
    factor: Fraction

    def __init__(self, metric: Metric, factor: Exact) -> None:
        set_fields(self, metric=metric, factor=positive("factor", factor))

    def __call__(self, x: Any, y: Any) -> Distance:
        """Return the scaled distance."""
        return self.factor * self.metric(x, y)


@dataclass(frozen=True)
class Nullable:
    """A metric extended by None (an absent value), which is at `null_distance` from every other value.

    In Chatzikokolakis 2013, section 5, `null_distance` is the width of the domain, its largest distance. The
    result is a metric if and only if `null_distance` is positive and at least half of the width: otherwise
    the path through None would be a shortcut.
    """

    metric: Metric
    null_distance: Distance

    def __call__(self, x: Any, y: Any) -> Distance:
        """Return the distance between two values, either of which may be None."""
        if x is None or y is None:
            return Fraction(0) if x is y else self.null_distance
        return self.metric(x, y)


class GraphMetric:
    """The number of edges of a shortest path between vertices of an undirected graph, or infinity."""

    def __init__(self, edges: Iterable[tuple[Hashable, Hashable]]) -> None:
        self._paths = shortest_paths(dict.fromkeys(map(tuple, edges), Fraction(1)))

    def __call__(self, x: Hashable, y: Hashable) -> Distance:
        """Return the distance between two vertices."""
        return Fraction(0) if x == y else self._paths.get(x, {}).get(y, math.inf)


class Induced:
    """The metric that a query induces on its answers: the largest under which the query is 1-Lipschitz.

    The distance of two answers is the length of the shortest chain of answers between them, where a link is
    as long as the distance of the nearest two points with these answers. A mechanism H is private for this
    metric if and only if H after the query is private for `metric`, because both conditions bound the same
    odds for each link. Chatzikokolakis 2013, Theorem 6, is the case in which the answers' metric is Delta
    times this one.
    """

    def __init__(self, metric: Metric, query: Callable[[Any], Hashable], points: Iterable[Any]) -> None:
        self.links: dict[tuple[Hashable, Hashable], Distance] = {}
        """The length of each link between two answers, in both orders: the least distance of their points."""
        point_answers = [(x, query(x)) for x in points]
        for (x, u), (y, v) in combinations(point_answers, 2):
            if u != v:
                length = min(metric(x, y), self.links.get((u, v), math.inf))
                self.links[u, v] = self.links[v, u] = length
        self._paths = shortest_paths(self.links)

    def __call__(self, x: Hashable, y: Hashable) -> Distance:
        """Return the distance between two answers."""
        return Fraction(0) if x == y else self._paths.get(x, {}).get(y, math.inf)


def shortest_paths(lengths: Mapping[tuple[Any, ...], Distance]) -> dict[Hashable, dict[Hashable, Distance]]:
    """Return the distances {start: {end: distance}} along undirected links, by Dijkstra's algorithm."""
    neighbours: defaultdict[Hashable, dict[Hashable, Distance]] = defaultdict(dict)
    for (u, v), length in lengths.items():
        neighbours[u][v] = neighbours[v][u] = min(length, neighbours[u].get(v, math.inf))
    return {start: _distances(start, neighbours) for start in list(neighbours)}


def _distances(
    start: Hashable, neighbours: Mapping[Hashable, Mapping[Hashable, Distance]]
) -> dict[Hashable, Distance]:
    """Return the distances from `start` to every vertex that can be reached."""
    order, distances = count(), {}  # the order of arrival breaks ties: vertices may have no order
    queue: list[tuple[Distance, int, Hashable]] = [(Fraction(0), next(order), start)]
    while queue:
        distance, _, vertex = heapq.heappop(queue)
        if vertex not in distances:
            distances[vertex] = distance
            for neighbour, length in neighbours[vertex].items():
                heapq.heappush(queue, (distance + length, next(order), neighbour))
    return distances


class Violation(NamedTuple):
    """An axiom that a function violates, and the points that show it."""

    axiom: str
    points: tuple[Any, ...]


def violations(points: Sequence[Any], metric: Metric, *, extended: bool = True) -> list[Violation]:
    """List all violations of the axioms of a metric on a finite set of distinct points.

    The axioms are: d(x, x) = 0; d(x, y) > 0 for x != y; d(x, y) is finite, unless `extended`;
    d(x, y) = d(y, x); d(x, z) <= d(x, y) + d(y, z), for floats up to a relative rounding error of 1e-12. The
    running time grows with the cube of the number of points.
    """
    table = [[metric(x, y) for y in points] for x in points]
    breaches = [Violation("d(x, x) = 0", (x,)) for i, x in enumerate(points) if table[i][i] != 0]
    for i, j in combinations(range(len(points)), 2):
        pair, d = (points[i], points[j]), table[i][j]
        if not d > 0:
            breaches.append(Violation("d(x, y) > 0", pair))
        if d == math.inf and not extended:
            breaches.append(Violation("d(x, y) is finite", pair))
        if d != table[j][i]:
            breaches.append(Violation("d(x, y) = d(y, x)", pair))
    for i, j, k in permutations(range(len(points)), 3):
        if exceeds(table[i][k], table[i][j] + table[j][k]):
            breaches.append(Violation("d(x, z) <= d(x, y) + d(y, z)", (points[i], points[j], points[k])))
    return breaches


def is_metric(points: Sequence[Any], metric: Metric, *, extended: bool = True) -> bool:
    """Return whether the axioms hold on a finite set of distinct points; see `violations`."""
    return not violations(points, metric, extended=extended)


def exceeds(d: Distance, bound: Distance) -> bool:
    """Return whether d > bound; if either is a float, by more than a rounding error."""
    rounded = isinstance(d, float) or isinstance(bound, float)
    return bool(d > bound * (1 + _SLACK)) if rounded and bound != math.inf else d > bound


def domination(points: Sequence[Any], small: Metric, large: Metric) -> Distance:
    """Return the smallest c >= 0 with small <= c large on a finite set; infinity if no such c exists.

    A mechanism that is epsilon-private for `small` is (epsilon c)-private for `large` (Chatzikokolakis 2013,
    Proposition 1, for c = 1: a smaller metric is a stronger promise). On R^n: d_inf <= d_2 <= d_1 <= n d_inf.
    """
    pairs = ((small(x, y), large(x, y)) for x, y in combinations(points, 2))
    return max((_ratio(numerator, denominator) for numerator, denominator in pairs), default=Fraction(0))


def _ratio(small: Distance, large: Distance) -> Distance:
    """Return the least c with small <= c large; 0 if `large` is infinite, where nothing is promised."""
    if small == 0 or large == math.inf:
        return Fraction(0)
    return math.inf if large == 0 else small / large
