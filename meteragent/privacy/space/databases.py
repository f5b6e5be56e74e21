"""Databases: n rows of one domain (Holohan 2014, section 2; Chatzikokolakis 2013, section 5)."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import islice, product
from types import MappingProxyType
from typing import Any, Literal

from meteragent.privacy.metric import Distance, Rowwise, Scaled, hamming
from meteragent.privacy.space.base import (
    PAIRS_LIMIT,
    POINTS_LIMIT,
    Pair,
    Space,
    all_pairs,
    as_row,
    both_ways,
    listed,
)

DatabaseMetric = Literal["hamming", "l1", "normalised l1", "linf"]

_ROW_PAIRS = 4  # of a row's domain so many of the nearest pairs are tried, and of the farthest


@dataclass(frozen=True, init=False)
class Databases:
    """D^n: tuples of n rows out of the space `rows`, by default at Hamming distance.

    With d_V the rows' metric and V its diameter: d_h counts the rows that differ ("hamming"), d_1 is the
    sum of d_V ("l1"), d_1 / V the same in rows of full width ("normalised l1"), d_inf the largest d_V
    ("linf"). Rows that may be absent are a `Finite` space with None in it and a `Nullable` metric.

    Raises:
        TypeError: n is not an int.
        ValueError: n < 1, an unknown metric, or one to normalise where V is 0 or infinite.
    """

    rows: Space
    n: int
    kind: DatabaseMetric
    metric: Callable[[Any, Any], Distance] = field(repr=False, compare=False)

    def __init__(self, rows: Space, n: int, metric: DatabaseMetric = "hamming") -> None:
        if not isinstance(n, int):
            raise TypeError(f"n must be an int, not {type(n).__name__}")
        if n < 1 or metric not in _METRICS:
            raise ValueError(
                f"a database has n >= 1 rows and a metric out of {[*_METRICS]}: not {n}, {metric!r}"
            )
        object.__setattr__(self, "rows", rows)
        object.__setattr__(self, "n", n)
        object.__setattr__(self, "kind", metric)
        object.__setattr__(self, "metric", _METRICS[metric](rows))

    @property
    def diameter(self) -> Distance:
        """Of n rows as far apart as can be; under d_inf, one."""
        width = self.rows.diameter
        if self.kind == "linf" or not width:
            return width
        return self.n * width if self.kind == "l1" else Fraction(self.n)

    def __contains__(self, x: object) -> bool:
        rows = as_row(x)
        return rows is not None and len(rows) == self.n and all(row in self.rows for row in rows)

    @property
    def points(self) -> tuple[tuple[Any, ...], ...]:
        """All databases."""
        if not self._has_at_most(POINTS_LIMIT):
            raise AttributeError(f"the databases of {self.n} rows are too many to be listed")
        return tuple(product(self._row_points(), repeat=self.n))

    def neighbours(self, x: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
        """The databases that differ from `x` in exactly one row, each once.

        Raises:
            AttributeError: the rows cannot be listed.
        """
        rows = self._row_points()
        return ((*x[:i], row, *x[i + 1 :]) for i in range(self.n) for row in rows if row != x[i])

    def pairs(self) -> Iterator[Pair]:
        """All pairs of a small space; else one row changed (first, middle, last), half of them, all."""
        if self._has_at_most(PAIRS_LIMIT):
            return all_pairs(self.points)
        last, half = self.n - 1, self.n // 2
        changed = [{0}, {half}, {last}, set(range(half)), set(range(self.n))]
        rows = sorted(islice(self.rows.pairs(), POINTS_LIMIT), key=lambda pair: self.rows.metric(*pair))
        return both_ways(
            ((u,) * self.n, tuple(v if i in where else u for i in range(self.n)))
            for u, v in (*rows[:_ROW_PAIRS], *rows[-_ROW_PAIRS:])
            for where in changed
        )

    def _row_points(self) -> tuple[Any, ...]:
        if (points := listed(self.rows)) is None:
            raise AttributeError("the rows' domain cannot be listed, so neither can the databases")
        return points

    def _has_at_most(self, limit: int) -> bool:
        points = listed(self.rows)
        return points is not None and len(points) ** self.n <= limit


def _normalised(rows: Space) -> Rowwise:
    width = rows.diameter
    if not isinstance(width, Fraction) or not width:
        raise ValueError(f"the rows' diameter must be rational and above zero to normalise d_1, not {width}")
    return Rowwise(Scaled(rows.metric, 1 / width))


_METRICS: Mapping[str, Callable[[Space], Rowwise]] = MappingProxyType(
    {
        "hamming": lambda _: hamming,
        "l1": lambda rows: Rowwise(rows.metric),
        "normalised l1": _normalised,
        "linf": lambda rows: Rowwise(rows.metric, "linf"),
    }
)
