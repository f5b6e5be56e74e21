"""Databases: n rows of one domain (Holohan 2014, section 2; Chatzikokolakis 2013, section 5)."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import islice, product
from types import MappingProxyType
from typing import Any, Literal

from meteragent.privacy.exact import set_fields
from meteragent.privacy.metric import Distance, Nullable, Rowwise, Scaled, hamming
from meteragent.privacy.space import base

DatabaseMetric = Literal["hamming", "l1", "normalised l1", "linf"]


@dataclass(frozen=True)
class WithNull:
    """`values`, and None (absent) at a distance of their diameter from each value (Chatzikokolakis 2013)."""

    values: base.Space

    def metric(self, x: Any, y: Any) -> Distance:
        """Return the distance between two values, either of which may be None."""
        return Nullable(self.values.metric, self.values.diameter)(x, y)

    @property
    def diameter(self) -> Distance:
        """The diameter of `values`."""
        return self.values.diameter

    def __contains__(self, x: object) -> bool:
        return x is None or x in self.values

    @property
    def points(self) -> tuple[Any, ...]:
        """All values, then None."""
        if (points := base.list_points(self.values)) is None:
            raise AttributeError("the values cannot be listed")
        return (*points, None)

    def pairs(self) -> Iterator[base.Pair]:
        """Yield the first 64 pairs of `values`, and None paired with the points of the first four pairs."""
        pairs = list(islice(self.values.pairs(), base.PAIRS_LIMIT))
        return base.pairs_both_ways([*pairs, *((x, None) for pair in pairs[:_ROW_PAIRS] for x in pair)])


_ROW_PAIRS = 4  # how many of the nearest and of the farthest pairs of values are tested; with None, the first


@dataclass(frozen=True, init=False)
class Databases:
    """The databases D^n: tuples of n rows from the space `rows`, by default with the Hamming distance.

    Let d_V be the metric and V the diameter of the space of a row. d_h counts the rows that differ
    ("hamming"), d_1 is the sum of d_V over the rows ("l1"), d_1 / V is this sum in units of V ("normalised
    l1"), and d_inf is the largest d_V ("linf"). If rows may be absent, `rows` is a `WithNull`. Then the
    database in which all rows are absent is not a point, because an average or a percentile of no rows has no
    value (Chatzikokolakis 2013, section 5). Raises TypeError if n is not an int; ValueError if n < 1, the
    metric is unknown, or it is normalised and V is 0, irrational or infinite.
    """

    rows: base.Space
    n: int
    kind: DatabaseMetric
    metric: Callable[[Any, Any], Distance] = field(repr=False, compare=False)

    def __init__(self, rows: base.Space, n: int, metric: DatabaseMetric = "hamming") -> None:
        if not isinstance(n, int):
            raise TypeError(f"n must be an int, not {type(n).__name__}")
        if n < 1 or metric not in _METRICS:
            raise ValueError(
                f"a database has n >= 1 rows and one of the metrics {[*_METRICS]}: not {n}, {metric!r}"
            )
        set_fields(self, rows=rows, n=n, kind=metric, metric=_METRICS[metric](rows))

    @property
    def diameter(self) -> Distance:
        """The distance of databases whose rows all differ by V.

        The diameter is n V under d_1, V under d_inf, and n under other metrics. If V is 0, it is 0, except
        under d_h if rows may be absent and n > 1: (v, None, ..) and (None, v, ..) differ in all n rows.
        """
        width = self.rows.diameter
        if self.kind == "hamming" and isinstance(self.rows, WithNull) and self.n > 1:
            return Fraction(self.n)
        if self.kind == "linf" or not width:
            return width
        return self.n * width if self.kind == "l1" else Fraction(self.n)

    def __contains__(self, x: object) -> bool:
        rows = base.as_row(x)
        if rows is None or len(rows) != self.n or not all(row in self.rows for row in rows):
            return False
        return not self._is_empty(rows)

    @property
    def points(self) -> tuple[tuple[Any, ...], ...]:
        """All databases."""
        if not self._has_at_most(base.POINTS_LIMIT):
            raise AttributeError(f"the databases of {self.n} rows are too many to be listed")
        databases = product(self._row_points(), repeat=self.n)
        return tuple(x for x in databases if not self._is_empty(x))

    def neighbours(self, x: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
        """Yield databases that differ in one row. Raises AttributeError if rows cannot be listed."""
        rows = self._row_points()
        databases = ((*x[:i], row, *x[i + 1 :]) for i in range(self.n) for row in rows if row != x[i])
        return (y for y in databases if not self._is_empty(y))

    def pairs(self) -> Iterator[base.Pair]:
        """Yield all pairs of a small space; otherwise pairs that differ in one row, half the rows, or all."""
        if self._has_at_most(base.PAIRS_LIMIT):
            return base.all_pairs(self.points)
        last_row, half = self.n - 1, self.n // 2
        index_sets = [{0}, {half}, {last_row}, set(range(half)), set(range(self.n))]
        rows = sorted(islice(self.rows.pairs(), base.POINTS_LIMIT), key=lambda pair: self.rows.metric(*pair))
        pairs = (
            ((u,) * self.n, tuple(v if i in indices else u for i in range(self.n)))
            for u, v in (*rows[:_ROW_PAIRS], *rows[-_ROW_PAIRS:])
            for indices in index_sets
        )
        return base.pairs_both_ways((x, y) for x, y in pairs if not (self._is_empty(x) or self._is_empty(y)))

    def _is_empty(self, x: tuple[Any, ...]) -> bool:
        """Return whether all rows of `x` are absent, which is possible only if the rows are a `WithNull`."""
        return isinstance(self.rows, WithNull) and all(row is None for row in x)

    def _row_points(self) -> tuple[Any, ...]:
        if (points := base.list_points(self.rows)) is None:
            raise AttributeError("the rows' space cannot be listed, so neither can the databases")
        return points

    def _has_at_most(self, limit: int) -> bool:
        points = base.list_points(self.rows)
        return points is not None and len(points) ** self.n <= limit


def _normalised_metric(rows: base.Space) -> Rowwise:
    width = rows.diameter
    if not isinstance(width, Fraction) or not width:
        raise ValueError(f"the rows' diameter must be rational and positive to normalise d_1, not {width}")
    return Rowwise(Scaled(rows.metric, 1 / width))


_METRICS: Mapping[str, Callable[[base.Space], Rowwise]] = MappingProxyType(
    {
        "hamming": lambda _: hamming,
        "l1": lambda rows: Rowwise(rows.metric),
        "normalised l1": _normalised_metric,
        "linf": lambda rows: Rowwise(rows.metric, "linf"),
    }
)
