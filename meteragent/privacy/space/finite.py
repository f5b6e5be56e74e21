"""Finite spaces: any points with any metric, categories, and sets."""

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, combinations
from typing import Any

from meteragent.privacy.exact import set_fields
from meteragent.privacy.metric import Distance, discrete, symmetric_difference
from meteragent.privacy.space.base import PAIRS_LIMIT, POINTS_LIMIT, Pair, all_pairs, pairs_both_ways


@dataclass(frozen=True, init=False)
class Finite:
    """Points in the caller's order, with any metric. Raises ValueError if there are none, or one repeats."""

    points: tuple[Any, ...]
    metric: Callable[[Any, Any], Distance]

    def __init__(self, points: Iterable[Hashable], metric: Callable[[Any, Any], Distance]) -> None:
        listed = tuple(points)
        if not listed or len(set(listed)) < len(listed):
            raise ValueError("give at least one point, and each point only once")
        set_fields(self, points=listed, metric=metric)

    @property
    def diameter(self) -> Distance:
        """The largest distance between two points."""
        distances = (self.metric(x, y) for x, y in combinations(self.points, 2))
        return max(distances, default=Fraction(0))

    def __contains__(self, x: object) -> bool:
        return x in self.points

    def pairs(self) -> Iterator[Pair]:
        """Yield all pairs of distinct points."""
        return all_pairs(self.points)


class Categories(Finite):
    """Unordered values, any two at distance 1 (Holohan 2014, Example 6)."""

    def __init__(self, values: Iterable[Hashable]) -> None:
        super().__init__(values, discrete)

    @property
    def diameter(self) -> Distance:
        """The diameter: 1, or 0 for a single value."""
        return Fraction(len(self.points) > 1)


@dataclass(frozen=True, init=False)
class Subsets:
    """All subsets of distinct elements (else ValueError); d counts differences (Holohan 2014, Example 1)."""

    universe: tuple[Any, ...]

    def __init__(self, universe: Iterable[Hashable]) -> None:
        listed = tuple(universe)
        if len(set(listed)) < len(listed):
            raise ValueError("give each element of the universe only once")
        object.__setattr__(self, "universe", listed)

    def metric(self, x: Iterable[Any], y: Iterable[Any]) -> Distance:
        """Return the number of elements that are in exactly one of the sets."""
        return symmetric_difference(x, y)

    @property
    def diameter(self) -> Distance:
        """The size of the universe."""
        return Fraction(len(self.universe))

    def __contains__(self, x: object) -> bool:
        return isinstance(x, set | frozenset) and x <= set(self.universe)

    @property
    def points(self) -> tuple[frozenset[Any], ...]:
        """All subsets, in ascending order of size."""
        if 1 << len(self.universe) > POINTS_LIMIT:
            raise AttributeError(f"the subsets of {len(self.universe)} elements are too many to be listed")
        sizes = range(len(self.universe) + 1)
        return tuple(chain.from_iterable(map(frozenset, combinations(self.universe, k)) for k in sizes))

    def pairs(self) -> Iterator[Pair]:
        """Yield all pairs of a small space; otherwise pairs that differ in one, half or all elements."""
        if 1 << len(self.universe) <= PAIRS_LIMIT:
            return all_pairs(self.points)
        universe, half = frozenset(self.universe), frozenset(self.universe[::2])
        neighbours = ((half, half ^ {element}) for element in self.universe)
        return pairs_both_ways([(frozenset(), universe), (frozenset(), half), *neighbours])
