"""Numbers and windows on a lattice: points and bounds are whole quanta, distances in the quantum's unit."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import chain, combinations, product
from numbers import Integral
from types import MappingProxyType
from typing import Any, Literal

from meteragent.privacy.exact import Exact, positive, set_fields
from meteragent.privacy.metric import Distance, Metric, Scaled, absolute, chebyshev, euclidean, manhattan
from meteragent.privacy.space.base import PAIRS_LIMIT, POINTS_LIMIT, Pair, all_pairs, as_row, pairs_both_ways

Norm = Literal["linf", "l1", "l2"]

_NORMS: Mapping[str, Metric] = MappingProxyType({"linf": chebyshev, "l1": manhattan, "l2": euclidean})
_STEPS = (1, 2, 5, 100)  # the sizes of the shifts that a test tries, in quanta


@dataclass(frozen=True, init=False)
class Numbers:
    """The numbers low q .. high q at distance q |x - y|, for a count, a mean or a reading; None: no bound."""

    low: int | None
    high: int | None
    quantum: Fraction

    def __init__(self, low: int | None = None, high: int | None = None, quantum: Exact = 1) -> None:
        _refuse_crossed(low, high)
        set_fields(self, low=low, high=high, quantum=positive("quantum", quantum))

    def metric(self, x: Any, y: Any) -> Distance:
        """Return quantum |x - y|."""
        return self.quantum * absolute(x, y)

    @property
    def diameter(self) -> Distance:
        """The diameter, quantum (high - low), or infinity if a bound is missing."""
        return math.inf if self.low is None or self.high is None else self.metric(self.low, self.high)

    def __contains__(self, x: object) -> bool:
        return _is_whole(x) and _is_between(self.low, x, self.high)

    @property
    def points(self) -> tuple[int, ...]:
        """All numbers, in quanta."""
        return tuple(_list_values(self.low, self.high, 1))

    def pairs(self) -> Iterator[Pair]:
        """Yield all pairs of a small space; otherwise pairs 1, 2, 5 or 100 quanta apart, and the two ends."""
        if _has_few_points(self.low, self.high, 1):
            return all_pairs(self.points)
        ends = [end for end in (self.low, self.high) if end is not None]
        anchors = [*ends, _inner_point(self.low, self.high)]
        shifted = [(x, x + sign * step) for x in anchors for step in _STEPS for sign in (1, -1)]
        return pairs_both_ways((x, y) for x, y in [*shifted, (anchors[0], anchors[-2:][0])] if y in self)


@dataclass(frozen=True, init=False)
class Windows:
    """Vectors of n whole quanta at distance q ||x - y|| in l_inf, l_1 or l_2: a meter's windows.

    `low` and `high` bound every number, in quanta; None means no bound. A point is a sequence of ints, which
    may be a row of an array. Raises ValueError if n < 1, quantum <= 0, low > high, or the metric is unknown.
    """

    n: int
    quantum: Fraction
    norm: Norm
    low: int | None
    high: int | None
    metric: Callable[[Any, Any], Distance] = field(repr=False, compare=False)

    def __init__(
        self,
        n: int,
        quantum: Exact = 1,
        metric: Norm = "linf",
        low: int | None = None,
        high: int | None = None,
    ) -> None:
        if n < 1 or metric not in _NORMS:
            raise ValueError(
                f"a window has n >= 1 numbers and the metric linf, l1 or l2: not {n} and {metric!r}"
            )
        _refuse_crossed(low, high)
        scaled = Scaled(_NORMS[metric], positive("quantum", quantum))
        set_fields(self, n=n, quantum=scaled.factor, norm=metric, low=low, high=high, metric=scaled)

    @property
    def diameter(self) -> Distance:
        """The distance between the corners (low, ..) and (high, ..), or infinity if a bound is missing."""
        if self.low is None or self.high is None:
            return math.inf
        return self.metric((self.low,) * self.n, (self.high,) * self.n)

    def __contains__(self, x: object) -> bool:
        row = as_row(x)
        return (
            row is not None
            and len(row) == self.n
            and all(_is_whole(value) and _is_between(self.low, value, self.high) for value in row)
        )

    @property
    def points(self) -> tuple[tuple[int, ...], ...]:
        """All windows."""
        return tuple(product(_list_values(self.low, self.high, self.n), repeat=self.n))

    def pairs(self) -> Iterator[Pair]:
        """Yield all pairs of a small space; otherwise pairs of a window and a shifted copy, and the corners.

        The shifts are of 1, 2, 5 and 100 quanta along each of `noise_directions`, from a constant window and
        from a varying one, because noise that suffices in some directions may leak in others (THEORY 6).
        """
        if _has_few_points(self.low, self.high, self.n):
            return all_pairs(self.points)
        corners = [(end,) * self.n for end in (self.low, self.high) if end is not None]
        even = (_inner_point(self.low, self.high),) * self.n
        uneven = tuple(v + i % 3 for i, v in enumerate(even))
        shifted = (
            (x, tuple(v + step * s for v, s in zip(x, shift, strict=True)))
            for x in (even, uneven)
            for step in _STEPS
            for shift in noise_directions(self.n)
        )
        shifted_pairs = ((x, y) for x, y in shifted if x in self and y in self)
        return pairs_both_ways(chain(shifted_pairs, combinations(corners, 2)))


def noise_directions(n: int) -> list[tuple[int, ...]]:
    """List sign vectors along which noise should be tested, each once and none with its negative.

    The vectors are (1, .., 1), rows of Walsh's matrix, an irregular vector, two vectors whose second half is
    zero, and e_i and e_i - e_j for the first, second, middle and last indices.
    """
    signs = [tuple(1 - 2 * (i >> bit & 1) for i in range(n)) for bit in range(n.bit_length())]
    irregular = tuple(1 - 2 * ((i * i + i // 2) % 3 % 2) for i in range(n))
    half = tuple(int(2 * i < n) for i in range(n))
    half_signs = tuple(h * s for h, s in zip(half, signs[0], strict=True))
    indices = sorted({0, min(1, n - 1), n // 2, n - 1})
    units = [tuple(int(i == index) for i in range(n)) for index in indices]
    differences = [tuple(u - v for u, v in zip(x, y, strict=True)) for x in units for y in units if x > y]
    vectors: dict[tuple[int, ...], None] = {}
    for vector in [(1,) * n, *signs, irregular, half, half_signs, *units, *differences]:
        if any(vector) and tuple(-v for v in vector) not in vectors:
            vectors[vector] = None
    return list(vectors)


def _is_whole(x: object) -> bool:
    return isinstance(x, Integral) and not isinstance(x, bool)


def _is_between(low: int | None, x: Any, high: int | None) -> bool:
    return (low is None or low <= x) and (high is None or x <= high)


def _refuse_crossed(low: int | None, high: int | None) -> None:
    if low is not None and high is not None and low > high:
        raise ValueError(f"low must not be above high: not {low} and {high}")


def _has_few_points(low: int | None, high: int | None, n: int) -> bool:
    """Return whether a space of n-vectors has few enough points to yield all their pairs."""
    return low is not None and high is not None and (high - low + 1) ** n <= PAIRS_LIMIT


def _inner_point(low: int | None, high: int | None) -> int:
    """Return the middle of the bounds, or a number 1000 quanta inside the only bound, or 0 without bounds."""
    if low is not None and high is not None:
        return (low + high) // 2
    return 0 if low is None and high is None else low + 1000 if low is not None else (high or 0) - 1000


def _list_values(low: int | None, high: int | None, n: int) -> Sequence[int]:
    """List the values of each of n numbers. Raises AttributeError if the space cannot be listed."""
    if low is None or high is None:
        raise AttributeError("a space that lacks a bound has no list of points: give low and high")
    if (high - low + 1) ** n > POINTS_LIMIT:
        raise AttributeError(f"{high - low + 1}^{n} points are too many to be listed")
    return range(low, high + 1)
