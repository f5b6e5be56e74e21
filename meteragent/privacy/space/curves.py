"""Curves on [0, T] under the sup or the L2 norm (Holohan 2014, Example 2).

A curve here is piecewise linear, with or without jumps. Readings that are held or interpolated make only such
curves, and the continuous ones are dense in C([0, T]). Both norms are computed from exact values: if the
difference of two curves changes from a to b on a piece of h seconds, then on this piece its largest absolute
value is max(|a|, |b|) and the integral of its square is h (a^2 + ab + b^2) / 3.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Literal

from meteragent.privacy.exact import Exact, positive, set_fields, to_rational
from meteragent.privacy.metric import Distance, square_root
from meteragent.privacy.space.base import Pair, pairs_both_ways

Piece = tuple[Fraction, Fraction]
"""The values at the start and at the end of a piece."""


@dataclass(frozen=True)
class Curve:
    """A piecewise linear curve: on [times_s[i], times_s[i+1]) a line from pieces[i][0] to pieces[i][1].

    The curve is right-continuous; at the last time it has the end value of the last piece. Adjacent pieces on
    the same straight line are joined, so curves with equal values are equal. `steps` and `polyline` create
    curves. Raises ValueError if there is no piece, the number of times is not the number of pieces plus one,
    or the times do not increase from 0.
    """

    times_s: tuple[Fraction, ...]
    pieces: tuple[Piece, ...]

    def __post_init__(self) -> None:
        if len(self.times_s) != len(self.pieces) + 1 or not self.pieces or self.times_s[0] != 0:
            raise ValueError("a curve has k >= 1 pieces between k + 1 times, the first of them 0")
        if any(t >= u for t, u in pairwise(self.times_s)):
            raise ValueError("the times of a curve must increase")
        bends = [i for i in range(1, len(self.pieces)) if self._bends(i)]
        firsts, lasts = [0, *bends], [*(i - 1 for i in bends), len(self.pieces) - 1]
        pieces = tuple((self.pieces[i][0], self.pieces[j][1]) for i, j in zip(firsts, lasts, strict=True))
        set_fields(self, times_s=(*(self.times_s[i] for i in firsts), self.times_s[-1]), pieces=pieces)

    @property
    def duration_s(self) -> Fraction:
        """The duration T, in seconds."""
        return self.times_s[-1]

    def __call__(self, time_s: Exact) -> Fraction:
        """Return the value at `time_s`. Raises ValueError if it is outside [0, T]."""
        time = to_rational("time_s", time_s)
        if not 0 <= time <= self.duration_s:
            raise ValueError(f"time_s must lie in [0, {self.duration_s}], not {time}")
        i = min(bisect_right(self.times_s, time), len(self.pieces)) - 1
        return self._value_at(i, time)

    def refine(self, times_s: Sequence[Fraction]) -> tuple[Piece, ...]:
        """Split the pieces at `times_s`, which must include all times of the curve."""
        places = [(bisect_right(self.times_s, start) - 1, start, end) for start, end in pairwise(times_s)]
        return tuple((self._value_at(i, start), self._value_at(i, end)) for i, start, end in places)

    def _bends(self, i: int) -> bool:
        """Return whether the curve jumps or changes slope between the pieces i - 1 and i."""
        (a, b), (c, d) = self.pieces[i - 1], self.pieces[i]
        start, joint, end = self.times_s[i - 1 : i + 2]
        return b != c or (b - a) * (end - joint) != (d - c) * (joint - start)

    def _value_at(self, i: int, time_s: Fraction) -> Fraction:
        start, end = self.times_s[i], self.times_s[i + 1]
        start_value, end_value = self.pieces[i]
        return start_value + (end_value - start_value) * (time_s - start) / (end - start)


def steps(edges_s: Sequence[Exact], values: Sequence[Exact]) -> Curve:
    """Return the curve of values[i] from edges_s[i] to edges_s[i+1]. Raises ValueError as `Curve` does."""
    pieces = tuple((value, value) for value in (to_rational("value", v) for v in values))
    return Curve(tuple(to_rational("edge_s", t) for t in edges_s), pieces)


def polyline(times_s: Sequence[Exact], values: Sequence[Exact]) -> Curve:
    """Return the continuous curve through values[i] at times_s[i], from 0. Raises ValueError as `Curve`."""
    if len(times_s) != len(values):
        raise ValueError(f"a curve needs as many values as times, not {len(values)} and {len(times_s)}")
    numbers = [to_rational("value", v) for v in values]
    return Curve(tuple(to_rational("time_s", t) for t in times_s), tuple(pairwise(numbers)))


@dataclass(frozen=True, init=False)
class Curves:
    """The curves on [0, T] with the sup norm of C([0, T]) or the L2 norm. Raises ValueError if T <= 0."""

    duration_s: Fraction
    norm: Literal["sup", "L2"]

    def __init__(self, duration_s: Exact, norm: Literal["sup", "L2"] = "sup") -> None:
        if norm not in ("sup", "L2"):
            raise ValueError(f"the norm of curves is sup or L2, not {norm!r}")
        set_fields(self, duration_s=positive("duration_s", duration_s), norm=norm)

    def metric(self, x: Curve, y: Curve) -> Distance:
        """Return the distance; a rational root is exact. Raises ValueError if the durations differ."""
        if x.duration_s != y.duration_s:
            raise ValueError(f"curves of {x.duration_s} s and {y.duration_s} s have no distance")
        times = sorted({*x.times_s, *y.times_s})
        pairs = zip(x.refine(times), y.refine(times), strict=True)
        gaps = [(u[0] - v[0], u[1] - v[1]) for u, v in pairs]
        if self.norm == "sup":
            return max(max(abs(a), abs(b)) for a, b in gaps)
        lengths = (end - start for start, end in pairwise(times))
        pieces = (h * (a * a + a * b + b * b) for h, (a, b) in zip(lengths, gaps, strict=True))
        return square_root(sum(pieces, Fraction(0)) / 3)

    @property
    def diameter(self) -> Distance:
        """The diameter, which is infinite."""
        return math.inf

    def __contains__(self, x: object) -> bool:
        return isinstance(x, Curve) and x.duration_s == self.duration_s

    def pairs(self) -> Iterator[Pair]:
        """Yield pairs of a curve and a copy shifted by a constant, hat, plateau or wave, of size 1 or 5."""
        parts = 16
        times = [self.duration_s * i / parts for i in range(parts + 1)]
        flat = polyline(times, [0] * (parts + 1))
        jagged = polyline(times, [i % 3 for i in range(parts + 1)])
        shifts = (
            [1] * (parts + 1),
            [int(i == parts // 2) for i in range(parts + 1)],
            [int(2 * i <= parts) for i in range(parts + 1)],
            [1 - 2 * (i % 2) for i in range(parts + 1)],
        )
        return pairs_both_ways(
            (x, polyline(times, [x(t) + size * v for t, v in zip(times, shift, strict=True)]))
            for x in (flat, jagged)
            for size in (1, 5)
            for shift in shifts
        )
