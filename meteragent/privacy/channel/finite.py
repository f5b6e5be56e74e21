"""Finite mechanisms as stochastic matrices, and exact checks of their promises.

A mechanism with finitely many inputs and outputs is a stochastic matrix (a channel). The channel is d-private
if P(z|x) <= e^(d(x, x')) P(z|x') for every output z and any inputs x, x' (Chatzikokolakis 2013, Definition
1). For events, the bound follows by summation. The smallest delta for a pair of inputs at a given e^epsilon
is the largest P(A|x) - e^epsilon P(A|x') over the events A. The event of all z with a positive difference
attains this maximum, which gives the hockey-stick formula:

    delta = sum over z of max(0, P(z|x) - e^epsilon P(z|x')).

Probabilities are exact numbers (`meteragent.privacy.channel.exponential`), so every result except
`smallest_epsilon`, a float, is exact, even for a mechanism whose odds equal its bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, permutations
from typing import Any

from meteragent.privacy.channel.exponential import Number, exp, to_number
from meteragent.privacy.channel.matrix import ZERO, Matrix, Point, Row, total
from meteragent.privacy.exact import Exact, ln_bounds, not_negative
from meteragent.privacy.metric import Metric

_BITS = 192
"""The precision at which `smallest_epsilon` encloses odds; odds that may be 1 are computed exactly."""


@dataclass(frozen=True, init=False)
class Channel(Matrix):
    """A finite mechanism as a stochastic matrix, with the exact checks of its promises."""

    # Metric privacy -------------------------------------------------------------------------------

    def is_private(self, epsilon: Exact, metric: Metric) -> bool:
        """Return whether the channel is epsilon-d-private (Chatzikokolakis 2013, Definition 1).

        That is, P(z|x) <= e^(epsilon d(x, x')) P(z|x') for all z, x, x'. Pairs at an infinite distance are
        not constrained. The result is exact for the metric's distances; a float is taken as the number that
        it represents. Raises ValueError if epsilon or a distance is negative.
        """
        level = not_negative("epsilon", epsilon)
        return not any(
            p > odds * q
            for row, other_row, distance in self._nearest(metric)
            for odds in [exp(level * distance)]
            for p, q in zip(row, other_row, strict=True)
        )

    def smallest_epsilon(self, metric: Metric) -> float:
        """Return the smallest epsilon for which the channel is epsilon-d-private; math.inf if there is none.

        The result is the largest ln(P(z|x)/P(z|x')) / d(x, x'), at least 0, as a float that may be wrong in
        its last bits. For an exact decision, use `is_private`. Raises ValueError if a distance is negative.
        """
        bounds = {id(p): p.bounds(_BITS) for row in self.rows for p in row}
        smallest = 0.0
        for row, other_row, distance in self._nearest(metric):
            pairs = [(p, q) for p, q in zip(row, other_row, strict=True) if p.sign]
            if any(not q.sign for _, q in pairs):
                return math.inf
            enclosures = [(bounds[id(p)], bounds[id(q)]) for p, q in pairs]
            low, high = (max(p[i] / q[1 - i] for p, q in enclosures) for i in (0, 1))
            level = _log_between(low, high) if low > 1 else max(p / q for p, q in pairs).log()
            if level > 0:
                smallest = max(smallest, level / float(distance) if distance else math.inf)
        return smallest

    def largest_odds(self, x: Point, other: Point) -> Number | None:
        """Return the largest P(z|x)/P(z|other) over the outputs, at least 1; None if it is infinite."""
        return _largest_odds(self.row(x), self.row(other))

    def _nearest(self, metric: Metric) -> Iterable[tuple[Row, Row, Fraction]]:
        """Return ordered pairs of different row objects, with the least finite distance between their inputs.

        After a query, many inputs share a row; the nearest pair's constraint implies those of the others.
        """
        nearest: dict[tuple[int, int], tuple[Row, Row, Fraction]] = {}
        for (x, row_x), (y, row_y) in permutations(zip(self.inputs, self.rows, strict=True), 2):
            distance, rows = _distance(metric, x, y), (id(row_x), id(row_y))
            if row_x is row_y or distance is None:
                continue
            if rows not in nearest or distance < nearest[rows][-1]:
                nearest[rows] = (row_x, row_y, distance)
        return nearest.values()

    # Pairs (epsilon, delta) -----------------------------------------------------------------------

    def hockey_stick(self, x: Point, other: Point, odds: Number | Exact) -> Number:
        """Return the smallest delta with P(A|x) <= odds P(A|other) + delta for all A: sum max(0, p - odds q).

        `odds` is e^epsilon: exp("1/2"), or Fraction(3) for epsilon = ln 3 (Holohan 2014, Definition 1).
        Raises ValueError if odds is below 1, or a point is not an input.
        """
        factor = _odds(odds)
        differences = (p - factor * q for p, q in zip(self.row(x), self.row(other), strict=True))
        return total(difference for difference in differences if difference.sign > 0)

    def delta_on(
        self, events: Iterable[Iterable[Point]], x: Point, other: Point, odds: Number | Exact
    ) -> Number:
        """Return the largest P(A|x) - odds P(A|other) over `events`, at least 0.

        For an algebra that separates all outputs, such as `all_events(outputs)`, the result equals
        `hockey_stick` (Holohan 2014, Theorem 3); for fewer events, it may be less. Raises ValueError if odds
        is below 1, or a point is not an input.
        """
        factor = _odds(odds)
        differences = (
            self.probability(A, x) - factor * self.probability(A, other) for A in map(frozenset, events)
        )
        return _largest(differences)

    def smallest_delta(self, odds: Number | Exact, pairs: Iterable[tuple[Any, Any]] | None = None) -> Number:
        """Return the smallest delta for which the channel is (ln odds, delta)-private between `pairs`.

        By default, these are all pairs, in both orders; a pair (x, x') bounds only P(A|x) by P(A|x'). Raises
        ValueError if odds is below 1.
        """
        neighbours = permutations(self.inputs, 2) if pairs is None else pairs
        return _largest(self.hockey_stick(x, y, odds) for x, y in neighbours)


def _largest(numbers: Iterable[Number]) -> Number:
    return max(chain([ZERO], numbers))


def _odds(odds: Number | Exact) -> Number:
    factor = to_number("odds", odds)
    if factor < 1:
        raise ValueError(f"odds are e^epsilon, at least 1, not {float(factor)}")
    return factor


def _distance(metric: Metric, x: Point, other: Point) -> Fraction | None:
    """Return the distance, or None if it is infinite. Raises ValueError if the distance is negative."""
    distance = metric(x, other)
    if not distance >= 0:
        raise ValueError(f"the distance of {x!r} and {other!r} must be at least 0, not {distance}")
    return None if distance == math.inf else Fraction(distance)


def _log_between(low: Fraction, high: Fraction) -> float:
    """Return ln of a number between two bounds that are nearly equal."""
    return float(Fraction(ln_bounds(low, _BITS)[0] + ln_bounds(high, _BITS)[1], 2 << _BITS))


def _largest_odds(row: Row, other_row: Row) -> Number | None:
    """Return the largest ratio of the entries of two rows; None if it is infinite."""
    ratios = []
    for p, q in zip(row, other_row, strict=True):
        if p.sign and not q.sign:
            return None
        if p.sign:
            ratios.append(p / q)
    return max(ratios)
