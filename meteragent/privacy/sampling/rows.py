"""The noise of many windows, each from its own bits: a row's noise does not depend on its batch.

Theory of operation
-------------------
A row is a window, and has pages of words of its own (`bits.RowBits`). Its noise is a function of what stands
there, with the law of `windows`, for every n, 1 included:

* Attempt t at its noise bound R takes word t (64 bits) of page 0: a cell, a place and a height in the table
  of `windows`. If the height leaves it open whether R is kept, or the word lies beyond the cells, page
  512 + t is read as a stream. The least t that is kept counts.
* Attempt k at slot i takes word i of page 1 + k. With m = 2R+1 <= 2^32 words have 32 bits: the slot is
  floor(u m / 2^32) - R if u m mod 2^32 >= 2^32 mod m (Lemire, as in `uniform`). With greater m they have 64
  bits, of which the last bit_length(m-1) are looked at: v - R if v < m. The least k that is taken counts.

No address is read twice. Bounds, slots and streams have different pages; each attempt at a bound has its own
word of page 0 and its own stream; each attempt at the slots has its own page, and each slot its word there. R
says for the whole row how wide those words are, so no page is read with two widths. A stream hands out
each of its bits once.

So with independent fair bits, attempts are independent and alike: the first that is kept has the law of any
that is kept, which is that of `windows` (THEORY 2.1). An open comparison is of a height and a uniform
number U with a weight; what a line decides before, U's bits would decide in the same way, so a draw does not
depend on how closely lines lie. Nothing looks at other rows: rows go in lockstep only so that each step is
done for all of them at once, and in parts that fit the processor's cache.

What a page does not hold is an error (`OverflowError`), never a second use: 511 attempts that all fail have a
chance below 2^-500 (a noise bound is kept with a chance above 0.9, a slot taken with 1/2 or more).
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from meteragent.privacy.bits import Bits, RowBits, Rows
from meteragent.privacy.exact import Exact
from meteragent.privacy.sampling.windows import Words, proposed, table_of

NOISE_BOUNDS = 0
"""The page of noise bounds: word t is for attempt t."""

SLOTS = 1
"""The first of the pages of slots: SLOTS + k is for attempt k, word i for slot i."""

STREAMS = 512
"""The first of the pages that are read as streams: STREAMS + t is for attempt t at the noise bound."""

ATTEMPTS = STREAMS - SLOTS
"""There are pages for so many attempts."""

_CACHED = 1 << 16  # values at a time, so that what is in work stays in the processor's cache
_NARROW = 1 << 32
_WIDEST = 1 << 63


def row_windows(n: int, a: Exact, source: RowBits) -> NDArray[np.int64]:
    """The noise of each row's window, P(z) ~ e^(-a max|z_i|) exactly (THEORY 2.1), as (source.count, n).

    Raises:
        TypeError: n or `a` is not exact.
        ValueError: n < 1, a <= 0 or n/a >= 2^45.
        OverflowError: n is above 2^24, or a row has no more bits.
    """
    table_of(n, a)
    noise = np.empty((source.count, n), np.int64)
    rows, step = np.arange(source.count), max(1, _CACHED // n)
    parts = [rows[first : first + _CACHED] for first in range(0, source.count, _CACHED)]
    noise_bounds = np.concatenate([_noise_bounds(n, a, part, source) for part in parts] or [rows])
    for first in range(0, source.count, step):
        some = slice(first, first + step)
        _fill(noise[some], rows[some], noise_bounds[some], source)
    return noise


def _noise_bounds(n: int, a: Exact, rows: Rows, source: RowBits) -> NDArray[np.int64]:
    """R of each row: the first attempt that is kept."""
    table, noise_bounds, left = table_of(n, a), np.empty(rows.size, np.int64), np.arange(rows.size)
    for attempt in range(ATTEMPTS):
        tried = rows[left]

        def stream(index: int, tried: Rows = tried, page: int = STREAMS + attempt) -> Bits:
            return source.stream(int(tried[index]), page)

        noise_bounds[left], kept = proposed(
            table, source.word(tried, NOISE_BOUNDS, attempt, np.uint64), stream
        )
        left = left[~kept]
        if not left.size:
            return noise_bounds
    raise OverflowError(f"{ATTEMPTS} attempts at a noise bound failed: these are no random bits")


def _fill(out: NDArray[np.int64], rows: Rows, noise_bounds: NDArray[np.int64], source: RowBits) -> None:
    """Places, uniform on {-R .. R}, in each row of `out`."""
    ranges = (2 * noise_bounds + 1).view(np.uint64)  # beyond 2^63 where a noise bound is out of range
    if int(ranges.max(initial=0)) > _WIDEST:
        raise OverflowError("a row's noise bound is beyond 2^62 quanta: no window has such noise")
    wide = ranges > _NARROW
    if not wide.any():
        _narrow(out, rows, ranges, source)
    else:
        for part, places in ((~wide, _narrow), (wide, _wide)):
            drawn = np.empty((int(part.sum()), out.shape[1]), np.int64)
            places(drawn, rows[part], ranges[part], source)
            out[part] = drawn
    out -= noise_bounds[:, np.newaxis]


def _narrow(out: NDArray[np.int64], rows: Rows, ranges: Words, source: RowBits) -> None:
    """Integers below each row's range, which is at most 2^32."""
    product, uneven = out.view(np.uint64), ((1 << 32) % ranges).astype(np.uint32)
    np.multiply(source.words(rows, SLOTS, out.shape[1], np.uint32), ranges[:, np.newaxis], out=product)

    def redraw(row: Rows, slot: Rows, page: int) -> NDArray[np.bool_]:
        product[row, slot] = fresh = source.word(rows[row], page, slot, np.uint32) * ranges[row]
        return fresh.astype(np.uint32) < uneven[row]

    _retry(product.astype(np.uint32) < uneven[:, np.newaxis], redraw)
    product >>= np.uint64(32)


def _wide(out: NDArray[np.int64], rows: Rows, ranges: Words, source: RowBits) -> None:
    """Integers below each row's range, which is at most 2^63."""
    drawn, most = out.view(np.uint64), ranges - np.uint64(1)
    mask = np.array([(1 << value.bit_length()) - 1 for value in most.tolist()], np.uint64)
    np.bitwise_and(source.words(rows, SLOTS, out.shape[1], np.uint64), mask[:, np.newaxis], out=drawn)

    def redraw(row: Rows, slot: Rows, page: int) -> NDArray[np.bool_]:
        drawn[row, slot] = fresh = source.word(rows[row], page, slot, np.uint64) & mask[row]
        return fresh > most[row]

    _retry(drawn > most[:, np.newaxis], redraw)


def _retry(refused: NDArray[np.bool_], redraw: Callable[[Rows, Rows, int], NDArray[np.bool_]]) -> None:
    """Draw what was refused anew, from a page for each attempt, until `redraw` refuses none."""
    left = np.flatnonzero(refused)
    for page in range(SLOTS + 1, SLOTS + ATTEMPTS):
        if not left.size:
            return
        row, slot = np.divmod(left, refused.shape[1])
        left = left[redraw(row, slot, page)]
    if left.size:
        raise OverflowError(f"{ATTEMPTS} attempts at a slot failed: these are no random bits")
