"""What a metric space is."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

from meteragent.privacy.metric import Distance

POINTS_LIMIT = 1 << 16
"""A finite space of more points is not listed."""

PAIRS_LIMIT = 64
"""A space of at most so many points gives all its pairs."""

Pair = tuple[Any, Any]


@runtime_checkable
class Space(Protocol):
    """A metric space."""

    def metric(self, x: Any, y: Any, /) -> Distance:
        """The distance of two points."""
        ...

    @property
    def diameter(self) -> Distance:
        """The largest distance of two points; `math.inf` where there is none."""
        ...

    def __contains__(self, x: object) -> bool: ...

    def pairs(self) -> Iterator[Pair]:
        """Pairs of different points that a test of a mechanism should try, each in both orders."""
        ...


class FiniteSpace(Space, Protocol):
    """A metric space whose points can be listed; see `listed`."""

    @property
    def points(self) -> tuple[Any, ...]:
        """All points, each once."""
        ...


def listed(space: Space) -> tuple[Any, ...] | None:
    """All points of a space, or None where they are infinitely many, or too many."""
    points: tuple[Any, ...] | None = getattr(space, "points", None)
    return points


def as_row(x: object) -> tuple[Any, ...] | None:
    """The values of a tuple, a list or an array of one dimension; None of anything else."""
    to_list = getattr(x, "tolist", None)
    values = to_list() if callable(to_list) else x
    return tuple(values) if isinstance(values, tuple | list) else None


def all_pairs(points: Sequence[Any]) -> Iterator[Pair]:
    """Every pair of different points, in both orders; each point is among the first 2 len(points) pairs."""
    n = len(points)
    for shift in range(1, n // 2 + 1):
        for i in range(n if 2 * shift < n else shift):
            x, y = points[i], points[(i + shift) % n]
            yield x, y
            yield y, x


def both_ways(pairs: Iterable[Pair]) -> Iterator[Pair]:
    """Every pair of different points in both orders; what is listed twice, once."""
    seen: dict[Pair, None] = {}
    for x, y in pairs:
        if x != y:
            seen[x, y] = seen[y, x] = None
    return iter(seen)
