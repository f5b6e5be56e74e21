"""Draws from words of 32 bits by a table: discrete Laplace numbers, and noise bounds for small n.

The values i = 0, 1 .. have the weights w(i) = (2r+1)^p e^(-ar): noise bounds r = i for p = n, and for p = 0
the numbers 0, 1, -1, 2, -2 .. of magnitude r. On a scale S on which all weights sum to a little less than
2^32, i < N has m_i words, m_i <= S w(i) <= m_i + 2. The other words (one in 2^18 for a = 1/220) draw places:

* Two places belong to each i < N. It is accepted if h + U < S w(i), h = m_i or m_i + 1, U uniform on [0, 1).
* 2B places propose a value N + jB + k, with j ones before a zero, and k below B. It is accepted if
  U < 2^j S w, which is at most 1: S w(N) < 1, and from N on w at least halves over B values.
* Other places, and values that are not accepted, draw a new word.

So S w(i) words lead to i, fractions included. The table cuts the words into 2^b cells. A cell's words below
its threshold have one outcome, a value or the rest; the others have another, its alias (Walker 1977).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import count as count_from
from math import ceil

import numpy as np
from numpy.typing import NDArray

from meteragent.privacy.bits import Bits
from meteragent.privacy.exact import Exact, check_parameters, exp_neg_bounds
from meteragent.privacy.sampling.bernoulli import bernoulli
from meteragent.privacy.sampling.uniform import below

SCALE_MAX = 1 << 10
"""The largest n/a for which there is a table; up to this limit, tabulated values are below 2^15."""

_WORD = 32
_FRACTION = 64  # bits of S behind the point
_GUARD = 128  # bits that keep bounds on S w a few units apart
_REST = -1 << 15
_BATCH_VALUES = 1 << 13  # so that the working set stays in the processor's cache


@dataclass(frozen=True, eq=False, slots=True)
class AliasTable:
    """The table for p and a."""

    p: int
    a: Fraction
    unit: int  # S 2^64
    block: int  # B
    masses: NDArray[np.uint32]  # m_i
    shift: int  # a word's cell is in the bits above
    thresholds: NDArray[np.uint32]
    outcomes: NDArray[np.int16]  # each cell's alias, and its outcome below the threshold

    def draw(self, count: int, bits: Bits) -> NDArray[np.int64]:
        """Draw `count` independent numbers or noise bounds."""
        if count > _BATCH_VALUES:
            starts = range(0, count, _BATCH_VALUES)
            return np.concatenate([self.draw(min(_BATCH_VALUES, count - start), bits) for start in starts])
        word = bits.array(count, np.uint32)
        cell = (word >> self.shift).astype(np.intp)
        is_below = word < self.thresholds.take(cell)
        cell += cell
        cell += is_below
        values = self.outcomes.take(cell).astype(np.int64)
        if count and values.item(values.argmin()) == _REST:
            for index in (values == _REST).nonzero()[0].tolist():
                values[index] = self.draw_rest(bits)
        return values

    def draw_one(self, bits: Bits) -> int:
        """Draw a number or a noise bound."""
        word = bits.integer(_WORD)
        cell = word >> self.shift
        outcome = self.outcomes.item(2 * cell + (word < self.thresholds.item(cell)))
        return self.draw_rest(bits) if outcome == _REST else outcome

    def draw_rest(self, bits: Bits) -> int:
        """Draw a number or a noise bound, after a first word for which the table has no value."""
        value = self.propose(bits)
        return self.draw_one(bits) if value is None else value

    def propose(self, bits: Bits) -> int | None:
        """Draw a place; return the number or noise bound that it proposes, or None if that is rejected."""
        index, extra = divmod(below((1 << _WORD) - int(self.masses.sum()), bits), 2)
        size, height, j = self.masses.size, 0, 0
        if index < size:
            height = self.masses.item(index) + extra
        elif index < size + self.block:
            while bits.integer(1):
                j += 1
            index = size + j * self.block + below(self.block, bits)
        else:
            return None
        accepted = bernoulli(lambda k: self.weight_bounds(index, k + j), bits, height)
        return _value(self.p, index) if accepted else None

    def weight_bounds(self, index: int, k: int) -> tuple[int, int]:
        """Return integers lo <= 2^k S w(i) <= hi at i = `index`."""
        r = abs(_value(self.p, index))
        factor = (2 * r + 1) ** self.p * self.unit
        lo, hi = exp_neg_bounds(self.a.numerator * r, self.a.denominator, k + _GUARD)
        return lo * factor >> _GUARD + _FRACTION, (hi * factor >> _GUARD + _FRACTION) + 1


@lru_cache(maxsize=32, typed=True)  # up to 400 KB each; typed, to refuse a float equal to a cached Fraction
def alias_table(p: int, a: Exact) -> AliasTable | None:
    """Create the table for p and `a`; None if n/a is above 2^10. Raises as `check_parameters` does."""
    exact = check_parameters(max(1, p), a)
    if max(1, p) > exact * SCALE_MAX:
        return None
    # e^-0.7 < 1/2. Two numbers have the same magnitude; from r = 2n/a on, w falls faster than e^(-ar/2).
    weights, block = _weights(p, exact), 2 * ceil(Fraction(7, 10) / exact)
    size, places = len(weights), 2 * (len(weights) + block)
    unit = ((1 << _WORD) - places << _GUARD + _FRACTION) // sum(hi for _, hi in weights)
    masses = [lo * unit >> _GUARD + _FRACTION for lo, _ in weights]
    shift = _WORD - size.bit_length()
    starts, pairs = _cut([*masses, (1 << _WORD) - sum(masses)], shift)
    values = [*(_value(p, index) for index in range(size)), _REST]
    outcomes = np.array([values[index] for pair in pairs for index in pair], np.int16)
    arrays = np.array(masses, np.uint32), shift, np.array(starts, np.uint32), outcomes
    return AliasTable(p, exact, unit, block, *arrays)


def _value(p: int, index: int) -> int:
    """Return the value with this index: a noise bound or, if p = 0, a number."""
    return index if p else (index + 1 >> 1) * (1 if index & 1 else -1)


def _weights(p: int, a: Fraction) -> list[tuple[int, int]]:
    """Return bounds on 2^128 w(i) for i < N, an N >= 2p/a with S w(N) < 1."""
    lo = hi = 1 << _GUARD
    q_lo, q_hi = exp_neg_bounds(a.numerator, a.denominator, _GUARD)
    weights: list[tuple[int, int]] = []
    total = 0
    for r in count_from():
        weight = lo * (2 * r + 1) ** p, hi * (2 * r + 1) ** p
        if weight[1] << _WORD < total and r * a >= 2 * p:
            break
        weights += [weight] * (1 if p or r == 0 else 2)
        total += weight[0]
        lo, hi = lo * q_lo >> _GUARD, (hi * q_hi >> _GUARD) + 1
    return weights


def _cut(masses: list[int], shift: int) -> tuple[list[int], list[tuple[int, int]]]:
    """Cut words into cells of 2^shift; return each cell's threshold, alias, and outcome below the threshold.

    Cell i keeps as many words of outcome i as fit. An outcome with words left is the alias of other cells.
    """
    count, size = 1 << _WORD - shift, 1 << shift
    left = masses + [0] * (count - len(masses))
    thresholds, pairs = [cell << shift for cell in range(count)], [(cell, cell) for cell in range(count)]
    short = [cell for cell in range(count) if left[cell] < size]
    donors = [cell for cell in range(count) if left[cell] > size]
    while short:
        cell, donor = short.pop(), donors[-1]
        thresholds[cell] += left[cell]
        pairs[cell] = donor, min(cell, len(masses) - 1)
        left[donor] -= size - left[cell]
        if left[donor] <= size:
            donors.pop()
            short += [donor] * (left[donor] < size)
    return thresholds, pairs
