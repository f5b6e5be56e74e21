"""The noise of many windows at once, distributed like that of `noise_bound` and `uniform` for one window.

The noise bound R, with the weights w(R) = (2R+1)^n e^(-aR), is drawn by rejection, as in `noise_bound`, but
from a tight envelope: cells of 2^s integers each, with the mode M as a boundary, out to the distance D at
which w has fallen to 2^-16 w(M), or down to 0. Heights are integers in units of w(M)/S. A cell's envelope is
the larger of the weights at its ends (w is monotone on either side of M), rounded up; beyond D there are
steps as in `noise_bound`. By the choice of S, the areas of the cells and of the steps, laid end to end, fill
the integers below 2^64 except for a remainder, which is rejected. So one uniform word determines a cell, a
place R in it and a height H, exactly. R is accepted if H + U < S w(R)/w(M), U uniform on [0, 1).

A straight line decides nearly all of these comparisons. On a cell from l to r with h = r - l, w differs from
the chord by at most h^2/8 max|w''| (Lagrange), and

    w'' = w (f'^2 + f''),   f' = 2n/(2x+1) - a,   f'' = -4n/(2x+1)^2,

with f = ln w. So w is at most h^2/8 max w max f'^2 below the chord and h^2/8 max w max|f''| above it; f'^2 is
largest at an end, and |f''| at l. (Between M and a neighbouring integer, w may exceed w(M), by a factor of at
most 1/(1 - |f'(M)|).) The weights at the ends and the deviations are bounded by integers, rounded outwards.
The comparisons that the line leaves open, up to one in 80 for n = 1 and fewer than one in 1,000 for n >= 30,
are decided by `bernoulli` with the bounds of `noise_bound`.

`uniform_rows` draws the slots of a window, uniform on {-R .. R}. Fewer than 256 windows are drawn one by one,
windows of one slot by `discrete_laplace`. From the operating system's bits, `alias` draws R for n <= 4.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from itertools import accumulate, pairwise
from math import ceil
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from meteragent.privacy.bits import Bits, SystemBits
from meteragent.privacy.exact import Exact, check_parameters
from meteragent.privacy.sampling.alias import AliasTable, alias_table
from meteragent.privacy.sampling.bernoulli import bernoulli
from meteragent.privacy.sampling.geometric import discrete_laplace
from meteragent.privacy.sampling.noise_bound import Envelope, envelope_of
from meteragent.privacy.sampling.uniform import below, below_array, uniform_columns, uniform_rows

Words = NDArray[np.uint64]

FALL_BITS = 16
"""The cells end where w has fallen to 2^-FALL_BITS of its maximum."""

CELLS_LOG = 8
"""The binary logarithm of the largest number of cells on either side of M."""

GUIDE_BITS = 12
"""The number of leading bits that determine the cell of most words; a search finds the other cells."""

TABLE_FROM = 256
"""The least count for which `noise_bounds` creates a table, which takes as long as about 1,000 draws."""

ALIAS_MAX = 4
"""The largest n with alias tables; for a larger n, an alias table takes longer to make than a `Table`."""

_WORD = 64


class _Line(NamedTuple):
    """A cell's envelope, and a line that is provably between S w/w(M) - `gap` and S w/w(M)."""

    top: int
    start: int  # at the cell's left end, in units of 2^-s
    slope: int
    gap: int


@dataclass(frozen=True, slots=True)
class Table:
    """The cells for one n and a, as arrays with one entry per cell."""

    envelope: Envelope
    reach: int  # D: cells cover M - `depth` .. M + D - 1
    depth: int
    shift: int  # s
    unit: int  # S
    areas: Words  # the start of each cell's area; then the start and the end of the tails' area
    start: Words  # as in _Line, for the cells, for the tails, and for the remainder
    slope: Words
    gap: Words
    guide: NDArray[np.int64]  # the cell by the first bits of a word; -1 if they leave the cell open

    def cell_of(self, words: Words) -> NDArray[np.int64]:
        """Return the cell of each word."""
        cell = self.guide.take((words >> np.uint64(_WORD - GUIDE_BITS)).view(np.int64))
        split = (cell < 0).nonzero()[0]
        cell[split] = self.areas.searchsorted(words[split], side="right") - 1
        return cell

    def weight_bounds(self, point: int, k: int) -> tuple[int, int]:
        """Return integers lo <= 2^k S w(R)/w(M) <= hi at R = `point`."""
        lo, hi = self.envelope.weight_bounds(point, k + _WORD)
        return lo * self.unit >> _WORD, (hi * self.unit >> _WORD) + 1

    def accepts(self, point: int, height: int, bits: Bits) -> bool:
        """Decide an open comparison: return whether height + U < S w(R)/w(M) at R = `point`."""
        return point >= 0 and bernoulli(partial(self.weight_bounds, point), bits, height)

    def draw_tail(self, bits: Bits) -> int | None:
        """Propose a point beyond D by side, block m (chance 2^-m) and place; return the point if accepted."""
        is_above, m = bits.integer(1), 1
        while bits.integer(1):
            m += 1
        i = m * self.reach + below(self.reach, bits)
        point = self.envelope.mode + i if is_above else self.envelope.mode - 1 - i
        accepted = point >= 0 and self.envelope.accepts(point, FALL_BITS + m - 1, bits)
        return point if accepted else None


def noise_bounds(n: int, a: Exact, count: int, bits: Bits) -> NDArray[np.int64]:
    """Draw `count` independent R as `noise_bound` does, int64 (count,). Raises as `check_parameters` does."""
    envelope = envelope_of(n, a)
    if count < TABLE_FROM:
        return np.array([envelope.draw(bits) for _ in range(count)], np.int64)
    if alias := _alias(n, a, bits):
        return alias.draw(count, bits)
    table = table_of(n, a)
    batches = [_draw_accepted(table, count + count // 16, bits)]
    while (remaining := count - sum(batch.size for batch in batches)) > 0:
        batches.append(_draw_accepted(table, remaining + remaining // 16 + 1, bits))
    return np.concatenate(batches)[:count]


def windows(
    n: int, a: Exact, count: int, bits: Bits, points: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """Draw P(z) ~ e^(-a max|z_i|) (THEORY 2.1), int64 (count, n), and add them to `points`, if there are any.

    Raises as `check_parameters` does.
    """
    if n == 1:
        noise = discrete_laplace(count, a, bits)[:, np.newaxis]
    elif count < TABLE_FROM:
        envelope, noise = envelope_of(n, a), np.empty((count, n), np.int64)
        for row in noise:
            noise_bound = envelope.draw(bits)
            np.subtract(below_array(2 * noise_bound + 1, n, bits), noise_bound, out=row)
    elif alias := _alias(n, a, bits):
        noise = uniform_columns(alias.draw(count, bits), n, bits)
    else:
        return uniform_rows(noise_bounds(n, a, count, bits), n, bits, points)
    if points is not None:
        noise += points
    return noise


def _alias(n: int, a: Exact, bits: Bits) -> AliasTable | None:
    """Return the alias table of R for the operating system's bits, if there is one."""
    return alias_table(n, a) if n <= ALIAS_MAX and isinstance(bits, SystemBits) else None


def _draw_accepted(table: Table, count: int, bits: Bits) -> NDArray[np.int64]:
    """Draw `count` proposals and return the accepted R."""
    point, accepted = propose_bounds(table, bits.array(count, np.uint64), lambda _: bits)
    return point[accepted]


def propose_bounds(
    table: Table, word: Words, bits_of: Callable[[int], Bits]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the R that each word proposes, and a mask of the accepted proposals.

    If the word at `index` does not decide whether R is accepted, the bits of `bits_of(index)` do; if the word
    is in the area of the tails, these bits also propose R. The areas, words and bits alone determine which R
    are accepted: a cell's line decides earlier than the bits, but in the same way.
    """
    cell = table.cell_of(word)
    place = word - table.areas.take(cell)
    height = place >> np.uint64(table.shift)
    place &= np.uint64((1 << table.shift) - 1)
    line = table.slope.take(cell)
    line *= place  # modulo 2^64, like the slope, so that the sum with `start` is correct
    line += table.start.take(cell)
    line >>= np.uint64(table.shift)
    point = (cell << table.shift) + place.view(np.int64) + (table.envelope.mode - table.depth)
    accepted = height < line
    above = (~accepted).nonzero()[0]
    undecided = above[height[above] < line[above] + table.gap[cell[above]]]
    for index in undecided.tolist():
        if cell[index] < table.areas.size - 2:
            accepted[index] = table.accepts(int(point[index]), int(height[index]), bits_of(index))
        elif (proposal := table.draw_tail(bits_of(index))) is not None:
            accepted[index], point[index] = True, proposal
    return point, accepted


@lru_cache(maxsize=64, typed=True)  # entries of about 40 KB each
def table_of(n: int, a: Exact) -> Table:
    """Create the cells for n and `a`. Raises the errors of `noise_bounds`."""
    envelope, exact = envelope_of(n, a, FALL_BITS), check_parameters(n, a)
    # |f'(M)| is above 1/2 only if R hardly varies, and then each integer is a cell.
    steep = abs(Fraction(2 * n, 2 * envelope.mode + 1) - exact)
    shift = max(0, (envelope.block - 1).bit_length() - CELLS_LOG) if steep < Fraction(1, 2) else 0
    reach, depth = (
        -(-size >> shift) << shift for size in (envelope.block, min(envelope.block, envelope.mode))
    )
    points = range(envelope.mode - depth, envelope.mode + reach + 1, 1 << shift)
    ends = [envelope.weight_bounds(max(0, point), _WORD) for point in points]
    tops = (max(hi, right) if shift else hi for (_, hi), (_, right) in pairwise(ends))
    area = (sum(tops) << shift) + (4 * reach << _WORD - FALL_BITS)  # of cells and tails, if S were 2^64
    # Rounding up adds less than 2 units to each place of a cell.
    unit = ((1 << _WORD) - (2 * len(ends) << shift) << _WORD) // area >> FALL_BITS << FALL_BITS
    scaled = [(lo * unit >> _WORD, (hi * unit >> _WORD) + 1) for lo, hi in ends]
    cells = zip(points, pairwise(scaled), strict=False)
    lines = [_line(envelope, steep, shift, point, *pair) for point, pair in cells]
    areas = list(accumulate((line.top << shift for line in lines), initial=0))
    areas.append(areas[-1] + 4 * reach * (unit >> FALL_BITS))
    lines += [_Line(0, 0, 0, (1 << _WORD) - 1), _Line(0, 0, 0, 0)]
    _, start, slope, gap = (
        np.array([x % (1 << _WORD) for x in column], np.uint64) for column in zip(*lines, strict=True)
    )
    starts = np.array(areas, np.uint64)
    return Table(envelope, reach, depth, shift, unit, starts, start, slope, gap, _guide(starts))


def _guide(areas: Words) -> NDArray[np.int64]:
    """Tabulate the cell by the first bits of a word; -1 if they leave the cell open."""
    first_word = np.arange(1 << GUIDE_BITS, dtype=np.uint64) << np.uint64(_WORD - GUIDE_BITS)
    last_word = first_word + np.uint64((1 << _WORD - GUIDE_BITS) - 1)
    first_cell, last_cell = (areas.searchsorted(end, side="right") - 1 for end in (first_word, last_word))
    return np.where(first_cell == last_cell, first_cell, -1).astype(np.int64)  # searchsorted may give int32


def _line(
    envelope: Envelope, steep: Fraction, shift: int, point: int, left: tuple[int, int], right: tuple[int, int]
) -> _Line:
    """Create the line of the cell that begins at `point`, from bounds on the weights at the cell's ends."""
    if shift == 0:
        return _Line(left[1], left[0], 0, left[1] - left[0])
    top, low = max(left[1], right[1]), min(left[0], right[0])
    n, odd, next_odd = envelope.n, 2 * point + 1, 2 * (point + (1 << shift)) + 1
    if point >= 0:
        scale = (top << 2 * shift) / (8 * (1 - steep))
        slopes = (
            n * (Fraction(2, x) - Fraction(envelope.slope_num, envelope.slope_den)) for x in (odd, next_odd)
        )
        fall, rise = ceil(scale * max(slope**2 for slope in slopes)), ceil(scale * Fraction(4 * n, odd**2))
        if fall <= low:
            spread = max(left[1] - left[0], right[1] - right[0])
            return _Line(top, left[0] - fall << shift, right[0] - left[0], fall + rise + spread + 1)
        return _Line(top, low << shift, 0, top - low)
    return _Line(top, 0, 0, top)
