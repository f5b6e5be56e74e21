"""The noise of many windows at once, by the same law as `noise_bound` and `uniform` one by one.

Theory of operation
-------------------
The noise bounds. w(R) = (2R+1)^n e^(-aR) is drawn by rejection, as in `noise_bound`, but from an envelope
that lies close: cells of 2^s integers each, M a boundary, out to the distance D where w has fallen to 2^-16
w(M). Heights are integers in units of w(M)/S. A cell's envelope is its greater end (w is monotone on either
side of M), rounded up; beyond D there are steps as in `noise_bound`. The areas of the cells and of the
steps, laid end to end, fill the integers below 2^64 but for a rest that is rejected. So one uniform word is
a cell, a place R in it and a height H, all at once and exactly; R is kept if H + U < S w(R)/w(M), U uniform
on [0, 1).

Nearly all of these comparisons are decided by a line. On a cell from l to r with h = r - l, w lies off
the chord by at most h^2/8 max|w''| (Lagrange), and

    w'' = w (f'^2 + f''),   f' = 2n/(2x+1) - a,   f'' = -4n/(2x+1)^2,

so w is at most h^2/8 max w max f'^2 below the chord and h^2/8 max w max|f''| above it: f'^2 is greatest at
an end, |f''| at l. (Between two integers at M, w may exceed w(M), by a factor of at most 1/(1 - |f'(M)|).)
Ends and deviations are integers, certified and rounded outwards. What the line leaves open, about one
draw in 2,000, is decided by `bernoulli` with the bounds of `noise_bound`.

The places of a row are uniform on its cube: `uniform_rows`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, pairwise
from math import ceil
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from meteragent.privacy.bits import Bits
from meteragent.privacy.exact import Exact
from meteragent.privacy.sampling.bernoulli import bernoulli
from meteragent.privacy.sampling.geometric import discrete_laplace
from meteragent.privacy.sampling.noise_bound import Envelope, envelope_of
from meteragent.privacy.sampling.parameters import check_parameters
from meteragent.privacy.sampling.uniform import below, below_array, uniform_rows

Words = NDArray[np.uint64]

FALL = 16
"""The cells end where w has fallen to 2^-FALL of its greatest."""

CELLS_LOG = 8
"""There are at most 2^CELLS_LOG cells on either side of M."""

GUIDE_BITS = 12
"""So many bits of a word say its cell, but for one in 16; a search says the others'."""

TABLE_FROM = 256
"""From so many windows on the table is used; it is kept, and making it takes as long as 1,500 draws do."""

_WORD = 64


class _Line(NamedTuple):
    """A cell's envelope, and a line that S w/w(M) is certified to lie above, by less than `gap`."""

    top: int
    start: int  # at the cell's left end, in units of 2^-s
    slope: int
    gap: int


@dataclass(frozen=True, slots=True)
class Table:
    """The cells for one n and a, as arrays with one entry per cell."""

    envelope: Envelope
    reach: int  # D: cells cover M - left .. M + D - 1
    left: int
    shift: int  # s
    unit: int  # S
    areas: Words  # where each cell's area begins; then where the tails' does, and where it ends
    start: Words  # as in _Line, for cells, tails and what is beyond
    slope: Words
    gap: Words
    guide: NDArray[np.int64]  # by the first bits of a word: its cell, -1 where they leave that open

    def cell(self, words: Words) -> NDArray[np.int64]:
        """The cell in whose area each word lies."""
        cell = self.guide.take((words >> np.uint64(_WORD - GUIDE_BITS)).view(np.int64))
        split = (cell < 0).nonzero()[0]
        cell[split] = self.areas.searchsorted(words[split], side="right") - 1
        return cell

    def bounds(self, point: int, k: int) -> tuple[int, int]:
        """Integers lo <= 2^k S w(R)/w(M) <= hi at R = `point`."""
        lo, hi = self.envelope.weight_bounds(point, k + _WORD)
        return lo * self.unit >> _WORD, (hi * self.unit >> _WORD) + 1

    def keeps(self, point: int, height: int, bits: Bits) -> bool:
        """True with probability P(height + U < S w/w(M)) at R = `point`: a comparison that is open."""

        def beyond(k: int) -> tuple[int, int]:
            lo, hi = self.bounds(point, k)
            return lo - (height << k), hi - (height << k)

        return point >= 0 and bernoulli(beyond, bits)

    def tail(self, bits: Bits) -> int | None:
        """A proposal at distance D or more, if it is kept: a side, the block m with P = 2^-m, a place."""
        right, m = bits.integer(1), 1
        while bits.integer(1):
            m += 1
        i = m * self.reach + below(self.reach, bits)
        point = self.envelope.mode + i if right else self.envelope.mode - 1 - i
        kept = point >= 0 and self.envelope.keeps(point, FALL + m - 1, bits)
        return point if kept else None


def noise_bounds(n: int, a: Exact, count: int, bits: Bits) -> NDArray[np.int64]:
    """`count` independent R as `noise_bound` draws them, as int64 of shape (count,).

    Raises:
        TypeError: n or `a` is not exact.  ValueError: n < 1, a <= 0 or n/a >= 2^45.
    """
    steps = envelope_of(n, a)
    if count < TABLE_FROM:
        return np.array([steps.draw(bits) for _ in range(count)], np.int64)
    table = table_of(n, a)
    drawn = [_proposals(table, count + count // 16, bits)]
    while (missing := count - sum(part.size for part in drawn)) > 0:
        drawn.append(_proposals(table, missing + missing // 16 + 1, bits))
    return np.concatenate(drawn)[:count]


def windows(n: int, a: Exact, count: int, bits: Bits) -> NDArray[np.int64]:
    """The noise of `count` windows, P(z) ~ e^(-a max|z_i|) exactly (THEORY 2.1), as int64 (count, n).

    Raises:
        TypeError: n or `a` is not exact.  ValueError: n < 1, a <= 0 or n/a >= 2^45.
    """
    if n == 1:
        return discrete_laplace(count, a, bits)[:, np.newaxis]
    if count >= TABLE_FROM:
        return uniform_rows(noise_bounds(n, a, count, bits), n, bits)
    steps, noise = envelope_of(n, a), np.empty((count, n), np.int64)
    for row in noise:
        cube = steps.draw(bits)
        np.subtract(below_array(2 * cube + 1, n, bits), cube, out=row)
    return noise


def _proposals(table: Table, count: int, bits: Bits) -> NDArray[np.int64]:
    """Of `count` proposals those that are kept."""
    point, kept = proposed(table, bits.array(count, np.uint64), lambda _: bits)
    return point[kept]


def proposed(
    table: Table, word: Words, bits_of: Callable[[int], Bits]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The R that each word proposes, and whether it is kept; `bits_of` a word's index decides what is open.

    Which R is kept with which words and bits follows from the areas alone: a line only says sooner what the
    bits would say.
    """
    cell = table.cell(word)
    place = word - table.areas.take(cell)
    height = place >> np.uint64(table.shift)
    place &= np.uint64((1 << table.shift) - 1)
    line = table.slope.take(cell)
    line *= place  # modulo 2^64, as all that is unsigned: the sum is right
    line += table.start.take(cell)
    line >>= np.uint64(table.shift)
    point = (cell << table.shift) + place.view(np.int64) + (table.envelope.mode - table.left)
    kept = height < line
    rest = (~kept).nonzero()[0]
    open_ = rest[height[rest] < line[rest] + table.gap[cell[rest]]]
    for index in open_.tolist():
        if cell[index] < table.areas.size - 2:
            kept[index] = table.keeps(int(point[index]), int(height[index]), bits_of(index))
        elif (proposal := table.tail(bits_of(index))) is not None:
            kept[index], point[index] = True, proposal
    return point, kept


@lru_cache(maxsize=64, typed=True)  # of about 40 KB each
def table_of(n: int, a: Exact) -> Table:
    """The cells for n and `a`; raises as `noise_bounds` does."""
    steps, exact = envelope_of(n, a, FALL), check_parameters(n, a)
    steep = abs(Fraction(2 * n, 2 * steps.mode + 1) - exact)  # |f'(M)|; above 1/2 only if R is hardly spread
    shift = max(0, (steps.block - 1).bit_length() - CELLS_LOG) if steep < Fraction(1, 2) else 0
    reach, left = (-(-size >> shift) << shift for size in (steps.block, min(steps.block, steps.mode)))
    points = range(steps.mode - left, steps.mode + reach + 1, 1 << shift)
    ends = [steps.weight_bounds(max(0, point), _WORD) for point in points]
    tops = (max(hi, right) if shift else hi for (_, hi), (_, right) in pairwise(ends))
    area = (sum(tops) << shift) + (4 * reach << _WORD - FALL)  # of cells and tails, if S were 2^64
    # Rounding up costs each place of a cell less than 2 units.
    unit = ((1 << _WORD) - (2 * len(ends) << shift) << _WORD) // area >> FALL << FALL
    scaled = [(lo * unit >> _WORD, (hi * unit >> _WORD) + 1) for lo, hi in ends]
    cells = zip(points, pairwise(scaled), strict=False)
    lines = [_line(steps, steep, shift, point, *pair) for point, pair in cells]
    areas = list(accumulate((line.top << shift for line in lines), initial=0))
    areas.append(areas[-1] + 4 * reach * (unit >> FALL))
    lines += [_Line(0, 0, 0, (1 << _WORD) - 1), _Line(0, 0, 0, 0)]
    _, start, slope, gap = (
        np.array([x % (1 << _WORD) for x in column], np.uint64) for column in zip(*lines, strict=True)
    )
    places = np.array(areas, np.uint64)
    return Table(steps, reach, left, shift, unit, places, start, slope, gap, _guide(places))


def _guide(areas: Words) -> NDArray[np.int64]:
    first = np.arange(1 << GUIDE_BITS, dtype=np.uint64) << np.uint64(_WORD - GUIDE_BITS)
    last = first + np.uint64((1 << _WORD - GUIDE_BITS) - 1)
    least, most = (areas.searchsorted(end, side="right") - 1 for end in (first, last))
    return np.where(least == most, least, -1)


def _line(
    steps: Envelope, steep: Fraction, shift: int, point: int, left: tuple[int, int], right: tuple[int, int]
) -> _Line:
    """The cell that begins at `point`, its weight in `left`, the next one's in `right`."""
    if shift == 0:
        return _Line(left[1], left[0], 0, left[1] - left[0])
    top, low = max(left[1], right[1]), min(left[0], right[0])
    n, odd, next_odd = steps.n, 2 * point + 1, 2 * (point + (1 << shift)) + 1
    if point >= 0:
        scale = (top << 2 * shift) / (8 * (1 - steep))
        slopes = (n * (Fraction(2, x) - Fraction(steps.slope_num, steps.slope_den)) for x in (odd, next_odd))
        fall, rise = ceil(scale * max(slope**2 for slope in slopes)), ceil(scale * Fraction(4 * n, odd**2))
        if fall <= low:
            spread = max(left[1] - left[0], right[1] - right[0])
            return _Line(top, left[0] - fall << shift, right[0] - left[0], fall + rise + spread + 1)
        return _Line(top, low << shift, 0, top - low)
    return _Line(top, 0, 0, top)
