"""Finite mechanisms as stochastic matrices, and exact checks of their promises.

Theory of operation
-------------------
A mechanism with finitely many inputs and outputs is a stochastic matrix (a channel). It is d-private if
P(z|x) <= e^(d(x, x')) P(z|x') for every output z and any inputs x, x' (Chatzikokolakis 2013, Definition 1).
For events, the bound follows by summation. The smallest delta for a pair of inputs at a given e^epsilon is
the largest P(A|x) - e^epsilon P(A|x') over the events A. The event of all z with a positive difference
attains this maximum, which gives the hockey-stick formula:

    delta = sum over z of max(0, P(z|x) - e^epsilon P(z|x')).

Probabilities are exact numbers (`meteragent.privacy.channel.exponential`), so every result except
`smallest_epsilon`, a float, is exact, even for a mechanism whose odds equal its bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, permutations, product
from typing import Any

from meteragent.privacy.channel.exponential import Number, exp, number
from meteragent.privacy.channel.sets import all_events
from meteragent.privacy.exact import Exact, not_negative
from meteragent.privacy.metric import Metric

Point = Hashable
Distribution = Mapping[Any, Number | Exact]
"""The probability of each point; a point that is missing has probability 0."""

_Row = tuple[Number, ...]


@dataclass(frozen=True, init=False)
class Channel:
    """A stochastic matrix: `rows[i][j]` is the probability of outputs[j] when inputs[i] is released.

    Entries are exact: Fractions, ints, strings, Decimals, or numbers computed from `exp`, such as
    1 / (1 + exp("1/2")). Each row must sum to 1 exactly; `Channel.of_weights` normalises rows.

    Raises:
        TypeError: an entry is not exact.
        ValueError: inputs or outputs are empty or repeat a point, the shape does not fit, an entry is
            negative, or a row does not sum to 1.
    """

    inputs: tuple[Point, ...]
    outputs: tuple[Point, ...]
    rows: tuple[_Row, ...]

    def __init__(
        self,
        inputs: Iterable[Point],
        outputs: Iterable[Point],
        rows: Iterable[Iterable[Number | Exact]],
    ) -> None:
        matrix = tuple(tuple(number("a probability", entry) for entry in row) for row in rows)
        object.__setattr__(self, "inputs", _distinct("inputs", inputs))
        object.__setattr__(self, "outputs", _distinct("outputs", outputs))
        object.__setattr__(self, "rows", matrix)
        if len(matrix) != len(self.inputs) or any(len(row) != len(self.outputs) for row in matrix):
            raise ValueError(f"a row for each of {len(self.inputs)} inputs has {len(self.outputs)} entries")
        for x, row in zip(self.inputs, matrix, strict=True):
            if any(entry.sign < 0 for entry in row) or sum(row) != 1:
                raise ValueError(f"the row of {x!r} is not a distribution: entries must be >= 0 and sum to 1")

    @classmethod
    def _make(cls, inputs: Iterable[Point], outputs: Iterable[Point], rows: Iterable[_Row]) -> Channel:
        """Create a channel with unchecked rows; several inputs may share a row object (see `_nearest`)."""
        channel = object.__new__(cls)
        object.__setattr__(channel, "inputs", _distinct("inputs", inputs))
        object.__setattr__(channel, "outputs", tuple(outputs))
        object.__setattr__(channel, "rows", tuple(rows))
        return channel

    @classmethod
    def of_weights(
        cls,
        inputs: Iterable[Point],
        outputs: Iterable[Point],
        weight: Callable[[Any, Any], Number | Exact],
    ) -> Channel:
        """Create the channel whose probabilities are proportional to weight(x, z) in each row.

        With weights exp(-score(x, z)), this is the exponential mechanism on finite sets.

        Raises:
            TypeError: a weight is not exact.
            ValueError: a weight is negative, all weights of a row are zero, or inputs or outputs are empty or
                repeat a point.
        """
        columns, rows = tuple(outputs), []
        for x in (points := tuple(inputs)):
            row = [number("a weight", weight(x, z)) for z in columns]
            if (total := _total(row)).sign <= 0:
                raise ValueError(f"the weights of {x!r} sum to {float(total)}: the sum must be positive")
            rows.append([entry / total for entry in row])
        return cls(points, columns, rows)

    # Rows, columns, Bayes' rule -------------------------------------------------------------------

    def row(self, x: Point) -> _Row:
        """Return the distribution of the outputs when x is released.

        Raises:
            ValueError: x is not an input.
        """
        return self.rows[_index(self.inputs, x, "input")]

    def column(self, output: Point) -> tuple[Number, ...]:
        """Return the probability of `output` for each input.

        Raises:
            ValueError: `output` is not an output of this channel.
        """
        j = _index(self.outputs, output, "output")
        return tuple(row[j] for row in self.rows)

    def likelihood(self, event: Iterable[Point]) -> tuple[Number, ...]:
        """Return the probability of `event` for each input: the sum of its outputs' columns.

        Raises:
            ValueError: `event` is empty, or contains a point that is not an output.
        """
        columns = [self.column(output) for output in dict.fromkeys(event)]
        if not columns:
            raise ValueError("an event needs at least one output")
        return tuple(map(_total, zip(*columns, strict=True)))

    def probability(self, event: Iterable[Point], x: Point) -> Number:
        """Return P(event | x); points of the event that are not outputs have probability 0.

        Raises:
            ValueError: x is not an input.
        """
        members = frozenset(event)
        return _total(p for z, p in zip(self.outputs, self.row(x), strict=True) if z in members)

    def marginal(self, prior: Distribution) -> dict[Point, Number]:
        """Return the distribution of the outputs if the input is distributed as `prior`.

        Raises:
            TypeError: a probability is not exact.  ValueError: `prior` is not a distribution on the inputs.
        """
        weights = self._weights(prior)
        return {
            z: _total(w * row[j] for w, row in zip(weights, self.rows, strict=True))
            for j, z in enumerate(self.outputs)
        }

    def posterior(self, prior: Distribution, *event: Point) -> dict[Point, Number]:
        """Return the posterior distribution of the input given `event`, by Bayes' rule.

        `event` is one output, or several outputs if the adversary only knows that one of them was released
        (Chatzikokolakis 2013, section 2).

        Raises:
            TypeError: a probability is not exact.
            ValueError: `prior` is not a distribution on the inputs, or `event` is empty, has probability 0 or
                contains a point that is not an output.
        """
        joint = [w * p for w, p in zip(self._weights(prior), self.likelihood(event), strict=True)]
        if not (total := _total(joint)).sign:
            raise ValueError(f"{event!r} cannot occur under this prior: no posterior")
        return {x: p / total for x, p in zip(self.inputs, joint, strict=True)}

    def _weights(self, prior: Distribution) -> list[Number]:
        weights = [number("a probability", prior.get(x, 0)) for x in self.inputs]
        if not set(prior) <= set(self.inputs) or any(w.sign < 0 for w in weights) or _total(weights) != 1:
            raise ValueError("a prior must give inputs of the channel probabilities >= 0 that sum to 1")
        return weights

    # Metric privacy -------------------------------------------------------------------------------

    def is_private(self, epsilon: Exact, metric: Metric) -> bool:
        """Return whether the channel is epsilon-d-private (Chatzikokolakis 2013, Definition 1).

        That is, P(z|x) <= e^(epsilon d(x, x')) P(z|x') for all z, x, x'. Pairs at an infinite distance are
        not constrained. The result is exact for the metric's distances; a float is taken as the number that
        it represents.

        Raises:
            TypeError: epsilon is not exact.  ValueError: epsilon or a distance is negative.
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
        its last bits. For an exact decision, use `is_private`.

        Raises:
            ValueError: a distance is negative.
        """
        smallest = 0.0
        for row, other_row, distance in self._nearest(metric):
            odds = _largest_odds(row, other_row)
            if odds is None or (odds > 1 and not distance):
                return math.inf
            if odds > 1:
                smallest = max(smallest, odds.log() / float(distance))
        return smallest

    def largest_odds(self, x: Point, other: Point) -> Number | None:
        """Return the largest P(z|x)/P(z|other) over the outputs, at least 1; None if it is infinite.

        Raises:
            ValueError: a point is not an input.
        """
        return _largest_odds(self.row(x), self.row(other))

    def _nearest(self, metric: Metric) -> Iterable[tuple[_Row, _Row, Fraction]]:
        """Return all ordered pairs of different row objects, with the least distance between their inputs.

        Pairs at an infinite distance are omitted.

        After a query, many inputs share a row. Among all inputs with two given rows, the constraint of the
        nearest pair implies those of the other pairs.
        """
        nearest: dict[tuple[int, int], tuple[_Row, _Row, Fraction]] = {}
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

        Raises:
            TypeError: odds is not exact.  ValueError: odds is below 1, or a point is not an input.
        """
        factor = _odds(odds)
        differences = (p - factor * q for p, q in zip(self.row(x), self.row(other), strict=True))
        return _total(difference for difference in differences if difference.sign > 0)

    def delta_on(
        self, events: Iterable[Iterable[Point]], x: Point, other: Point, odds: Number | Exact
    ) -> Number:
        """Return the largest P(A|x) - odds P(A|other) over `events`, at least 0.

        For an algebra that separates all outputs, such as `all_events(outputs)`, the result equals
        `hockey_stick` (Holohan 2014, Theorem 3); for fewer events, it may be less.

        Raises:
            TypeError: odds is not exact.  ValueError: odds is below 1, or a point is not an input.
        """
        factor = _odds(odds)
        differences = (
            self.probability(A, x) - factor * self.probability(A, other) for A in map(frozenset, events)
        )
        return _largest(differences)

    def delta_by_events(self, x: Point, other: Point, odds: Number | Exact) -> Number:
        """Return `delta_on` for all events; the time for it doubles with each output.

        Raises:
            TypeError: odds is not exact.
            ValueError: odds is below 1, a point is not an input, or there are more than 20 outputs.
        """
        return self.delta_on(all_events(self.outputs), x, other, odds)

    def smallest_delta(self, odds: Number | Exact, pairs: Iterable[tuple[Any, Any]] | None = None) -> Number:
        """Return the smallest delta for which the channel is (ln odds, delta)-private between `pairs`.

        `pairs` are pairs of neighbours; include both orders to protect both points. The default is all
        pairs, in both orders.

        Raises:
            TypeError: odds is not exact.  ValueError: odds is below 1, or a point is not an input.
        """
        neighbours = permutations(self.inputs, 2) if pairs is None else pairs
        return _largest(self.hockey_stick(x, y, odds) for x, y in neighbours)

    # Combinations of channels ---------------------------------------------------------------------

    def then(self, other: Channel) -> Channel:
        """Apply `other` to this channel's outputs: post-processing, the product of the matrices.

        Raises:
            ValueError: an output of this channel is not an input of the other.
        """
        columns = list(zip(*(other.row(z) for z in self.outputs), strict=True))
        rows = (
            tuple(_total(p * q for p, q in zip(row, column, strict=True)) for column in columns)
            for row in self.rows
        )
        return Channel._make(self.inputs, other.outputs, rows)

    def after(self, query: Callable[[Any], Point], points: Iterable[Point]) -> Channel:
        """Apply this channel to the answers of a query: the inputs are `points`, and query(x) is released.

        Raises:
            ValueError: an answer is not an input of this channel, or `points` is empty or repeats a point.
        """
        inputs = tuple(points)
        return Channel._make(inputs, self.outputs, (self.row(query(x)) for x in inputs))

    def times(self, other: Channel) -> Channel:
        """Combine independent channels, each on one part of a pair of inputs: the products of their rows."""
        rows = (
            tuple(p * q for p, q in product(row, other_row))
            for row, other_row in product(self.rows, other.rows)
        )
        return Channel._make(product(self.inputs, other.inputs), product(self.outputs, other.outputs), rows)

    def beside(self, other: Channel) -> Channel:
        """Combine two independent channels on the same input: epsilons add (Pauwels 2016, Proposition 3).

        Raises:
            ValueError: an input of this channel is not an input of the other.
        """
        return self.times(other).after(lambda x: (x, x), self.inputs)


def _distinct(name: str, points: Iterable[Point]) -> tuple[Point, ...]:
    listed = tuple(points)
    if not listed or len(set(listed)) < len(listed):
        raise ValueError(f"give at least one of the {name}, and each only once, not {listed!r}")
    return listed


def _index(points: tuple[Point, ...], point: Point, name: str) -> int:
    try:
        return points.index(point)
    except ValueError:
        raise ValueError(f"{point!r} is not an {name} of this channel, which has {points!r}") from None


def _total(numbers: Iterable[Number]) -> Number:
    return sum(numbers, _ZERO)


def _largest(numbers: Iterable[Number]) -> Number:
    """Return the largest of the numbers and zero."""
    return max(chain([_ZERO], numbers))


def _odds(odds: Number | Exact) -> Number:
    factor = number("odds", odds)
    if factor < 1:
        raise ValueError(f"odds are e^epsilon, at least 1, not {float(factor)}")
    return factor


def _distance(metric: Metric, x: Point, other: Point) -> Fraction | None:
    """Return the distance, or None if it is infinite. Raises ValueError if it is negative."""
    distance = metric(x, other)
    if not distance >= 0:
        raise ValueError(f"the distance of {x!r} and {other!r} must be at least 0, not {distance}")
    return None if distance == math.inf else Fraction(distance)


def _largest_odds(row: _Row, other_row: _Row) -> Number | None:
    """Return the largest ratio of the entries of two rows; None if it is infinite."""
    ratios = []
    for p, q in zip(row, other_row, strict=True):
        if p.sign and not q.sign:
            return None
        if p.sign:
            ratios.append(p / q)
    return max(ratios)


_ZERO = number("zero", 0)
