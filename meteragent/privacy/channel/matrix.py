"""Stochastic matrices with exact entries: their rows and columns, Bayes' rule, and combinations."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, Self

from meteragent.privacy.channel.exponential import Number, to_number
from meteragent.privacy.exact import Exact, set_fields

Point = Hashable
Distribution = Mapping[Any, Number | Exact]
"""The probability of each point; a point that is missing has probability 0."""

Row = tuple[Number, ...]


@dataclass(frozen=True, init=False)
class Matrix:
    """A stochastic matrix: `rows[i][j]` is the probability of outputs[j] when inputs[i] is released.

    Entries are exact: Fractions, ints, strings, Decimals, or numbers computed from `exp`, such as 1 / (1 +
    exp("1/2")). Each row must sum to 1 exactly; `of_weights` normalises rows. Raises ValueError if inputs or
    outputs are empty or repeat a point, the shape does not fit, an entry is negative, or a row does not sum
    to 1.
    """

    inputs: tuple[Point, ...]
    outputs: tuple[Point, ...]
    rows: tuple[Row, ...]

    def __init__(
        self, inputs: Iterable[Point], outputs: Iterable[Point], rows: Iterable[Iterable[Number | Exact]]
    ) -> None:
        matrix = tuple(tuple(to_number("a probability", entry) for entry in row) for row in rows)
        set_fields(
            self, inputs=_distinct("inputs", inputs), outputs=_distinct("outputs", outputs), rows=matrix
        )
        if len(matrix) != len(self.inputs) or any(len(row) != len(self.outputs) for row in matrix):
            raise ValueError(f"a row for each of {len(self.inputs)} inputs has {len(self.outputs)} entries")
        for x, row in zip(self.inputs, matrix, strict=True):
            if any(entry.sign < 0 for entry in row) or sum(row) != 1:
                raise ValueError(f"the row of {x!r} is not a distribution: entries must be >= 0 and sum to 1")

    @classmethod
    def _make(cls, inputs: Iterable[Point], outputs: Iterable[Point], rows: Iterable[Row]) -> Self:
        """Create a channel with unchecked rows; several inputs may share a row object (see `_nearest`)."""
        channel = object.__new__(cls)
        set_fields(channel, inputs=_distinct("inputs", inputs), outputs=tuple(outputs), rows=tuple(rows))
        return channel

    @classmethod
    def of_weights(
        cls, inputs: Iterable[Point], outputs: Iterable[Point], weight: Callable[[Any, Any], Number | Exact]
    ) -> Self:
        """Create the channel whose probabilities are proportional to weight(x, z) in each row.

        With weights exp(-score(x, z)), this is the exponential mechanism on finite sets. Raises ValueError if
        a weight is negative, all weights of a row are zero, or inputs or outputs are empty or repeat a point.
        """
        columns, rows = tuple(outputs), []
        for x in (points := tuple(inputs)):
            row = [to_number("a weight", weight(x, z)) for z in columns]
            if (mass := total(row)).sign <= 0:
                raise ValueError(f"the weights of {x!r} sum to {float(mass)}: the sum must be positive")
            rows.append([entry / mass for entry in row])
        return cls(points, columns, rows)

    def row(self, x: Point) -> Row:
        """Return the distribution of the outputs of x. Raises ValueError if x is not an input."""
        return self.rows[_index(self.inputs, x, "input")]

    def column(self, output: Point) -> tuple[Number, ...]:
        """Return P(output | x) for each input x. Raises ValueError if the channel lacks `output`."""
        j = _index(self.outputs, output, "output")
        return tuple(row[j] for row in self.rows)

    def likelihood(self, event: Iterable[Point]) -> tuple[Number, ...]:
        """Return P(event | x) for each x. Raises ValueError if the event is empty or a point is no output."""
        columns = [self.column(output) for output in dict.fromkeys(event)]
        if not columns:
            raise ValueError("an event needs at least one output")
        return tuple(map(total, zip(*columns, strict=True)))

    def probability(self, event: Iterable[Point], x: Point) -> Number:
        """Return P(event | x); other points have probability 0. Raises ValueError if x is no input."""
        members = frozenset(event)
        return total(p for z, p in zip(self.outputs, self.row(x), strict=True) if z in members)

    def posterior(self, prior: Distribution, *event: Point) -> dict[Point, Number]:
        """Return the posterior distribution of the input given `event`, by Bayes' rule.

        `event` is one output, or several outputs if the adversary only knows that one of them was released
        (Chatzikokolakis 2013, section 2). Raises ValueError if `prior` is not a distribution on the inputs,
        or `event` is empty, has probability 0 or contains a point that is not an output.
        """
        joint = [w * p for w, p in zip(self._weights(prior), self.likelihood(event), strict=True)]
        if not (mass := total(joint)).sign:
            raise ValueError(f"{event!r} cannot occur under this prior: no posterior")
        return {x: p / mass for x, p in zip(self.inputs, joint, strict=True)}

    def _weights(self, prior: Distribution) -> list[Number]:
        weights = [to_number("a probability", prior.get(x, 0)) for x in self.inputs]
        if not set(prior) <= set(self.inputs) or any(w.sign < 0 for w in weights) or total(weights) != 1:
            raise ValueError("a prior must give inputs of the channel probabilities >= 0 that sum to 1")
        return weights

    def then(self, other: Matrix) -> Self:
        """Apply `other` to the outputs. Raises ValueError if an output is not an input of `other`."""
        columns = list(zip(*(other.row(z) for z in self.outputs), strict=True))
        rows = (
            tuple(total(p * q for p, q in zip(row, column, strict=True)) for column in columns)
            for row in self.rows
        )
        return self._make(self.inputs, other.outputs, rows)

    def after(self, query: Callable[[Any], Point], points: Iterable[Point]) -> Self:
        """Apply the channel to a query's answers for `points`. Raises ValueError if an answer is no input."""
        inputs = tuple(points)
        return self._make(inputs, self.outputs, (self.row(query(x)) for x in inputs))

    def combine_product(self, other: Matrix) -> Self:
        """Combine independent channels, each on one part of a pair of inputs: the products of their rows."""
        rows = (
            tuple(p * q for p, q in product(row, other_row))
            for row, other_row in product(self.rows, other.rows)
        )
        return self._make(product(self.inputs, other.inputs), product(self.outputs, other.outputs), rows)

    def combine_parallel(self, other: Matrix) -> Self:
        """Combine independent channels on one input; epsilons add (Pauwels 2016, Proposition 3)."""
        return self.combine_product(other).after(lambda x: (x, x), self.inputs)


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


def total(numbers: Iterable[Number]) -> Number:
    """Return the sum of numbers."""
    return sum(numbers, ZERO)


ZERO = to_number("zero", 0)
