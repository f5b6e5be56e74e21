"""The interface of a metric space, and helpers for its points and pairs."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

from meteragent.privacy.metric import Distance

POINTS_LIMIT = 1 << 16
"""The largest size of a space that is listed; a `Finite` is listed whatever its size."""

PAIRS_LIMIT = 64
"""The largest size of a space that yields all its pairs; a `Finite` yields them whatever its size.

A `WithNull` yields at most this number of pairs of its values.
"""

Pair = tuple[Any, Any]


@runtime_checkable
class Space(Protocol):
    """A metric space."""

    def metric(self, x: Any, y: Any, /) -> Distance:
        """Return the distance between two points."""

    @property
    def diameter(self) -> Distance:
        """The largest distance between two points; `math.inf` if distances are unbounded."""

    def __contains__(self, x: object) -> bool: ...

    def pairs(self) -> Iterator[Pair]:
        """Yield pairs of distinct points that a test of a mechanism should try, each in both orders."""


def list_points(space: Space) -> tuple[Any, ...] | None:
    """List all points of a space. Return None if there are infinitely many, or too many to be listed."""
    points: tuple[Any, ...] | None = getattr(space, "points", None)
    return points


def as_row(x: object) -> tuple[Any, ...] | None:
    """Return the values (or rows) of a tuple, list or array as a tuple; None for any other object."""
    to_list = getattr(x, "tolist", None)
    values = to_list() if callable(to_list) else x
    return tuple(values) if isinstance(values, tuple | list) else None


def all_pairs(points: Sequence[Any]) -> Iterator[Pair]:
    """Yield every pair in both orders; each point occurs in one of the first 2 len(points) pairs."""
    n = len(points)
    for shift in range(1, n // 2 + 1):
        for i in range(n if 2 * shift < n else shift):
            x, y = points[i], points[(i + shift) % n]
            yield x, y
            yield y, x


def pairs_both_ways(pairs: Iterable[Pair]) -> Iterator[Pair]:
    """Iterate over the given pairs in both orders, without repetitions; omit pairs of equal points."""
    distinct: dict[Pair, None] = {}
    for x, y in pairs:
        if x != y:
            distinct[x, y] = distinct[y, x] = None
    return iter(distinct)
