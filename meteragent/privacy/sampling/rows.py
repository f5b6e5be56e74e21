"""The noise of many windows, each from the bits of its row: a row's noise does not depend on its batch.

A row is a window with its own pages of words (`bits.RowBits`). Its noise is a function of these words and has
the distribution of `windows`, for every n >= 1:

* Attempt t at the row's noise bound R takes word t (64 bits) of page 0, which determines a cell, a place and
  a height in the table of `windows`. If the height does not decide whether R is accepted, or the word lies in
  the area of the tails, page 512 + t is read as a stream. The first accepted attempt is used.
* Attempt k at slot i takes u, word i of page 1 + k. If m = 2R+1 <= 2^32, words have 32 bits: the slot is
  floor(u m / 2^32) - R if u m mod 2^32 >= 2^32 mod m (Lemire, as in `uniform`). For larger m, they have 64
  bits; the last bit_length(m-1) bits of u are v, and the slot is v - R if v < m. The first accepted attempt
  is used.

No bit is read twice: each attempt has a word, a stream or a page of its own, and R determines the width of
the words for the whole row. So with independent fair bits, attempts are independent and identically
distributed, and the first accepted one has the distribution of `windows` (THEORY 2.1).

If all attempts fail, or a page ends, `OverflowError` is raised. All 511 attempts fail with a probability
below 2^-500: a noise bound is accepted with a probability above 0.9, a slot with at least 1/2.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from meteragent.privacy.bits import Bits, RowBits, RowIds
from meteragent.privacy.exact import Exact
from meteragent.privacy.sampling.windows import Words, propose_bounds, table_of

NOISE_BOUNDS = 0
"""The page of noise bounds: word t is for attempt t."""

SLOTS = 1
"""The first page of slots: page SLOTS + k is for attempt k, and its word i is for slot i."""

FIRST_STREAM_PAGE = 512
"""The first page that is read as a stream: page FIRST_STREAM_PAGE + t is for attempt t at the noise bound."""

ATTEMPTS = FIRST_STREAM_PAGE - SLOTS
"""The number of attempts at a noise bound, and at a slot, that have pages."""

_BATCH_VALUES = 1 << 16  # so that the working set stays in the processor's cache
_NARROW = 1 << 32
_WIDEST = 1 << 63


def row_windows(n: int, a: Exact, source: RowBits) -> NDArray[np.int64]:
    """Draw the noise of each row's window, P(z) ~ e^(-a max|z_i|) exactly, in shape (source.count, n).

    Raises as `check_parameters` does; OverflowError if n is above 2^24 (above 2^23 if a row's R is 2^31 or
    more), or a row's bits are used up.
    """
    table_of(n, a)  # refuses invalid parameters, even if there are no rows
    noise = np.empty((source.count, n), np.int64)
    rows, step = np.arange(source.count), max(1, _BATCH_VALUES // n)
    parts = [rows[start : start + _BATCH_VALUES] for start in range(0, source.count, _BATCH_VALUES)]
    noise_bounds = np.concatenate([_noise_bounds(n, a, part, source) for part in parts] or [rows])
    for start in range(0, source.count, step):
        batch = slice(start, start + step)
        _fill(noise[batch], rows[batch], noise_bounds[batch], source)
    return noise


def _noise_bounds(n: int, a: Exact, rows: RowIds, source: RowBits) -> NDArray[np.int64]:
    """Draw each row's R, from its first accepted attempt."""
    table, noise_bounds, pending = table_of(n, a), np.empty(rows.size, np.int64), np.arange(rows.size)
    for attempt in range(ATTEMPTS):
        pending_rows = rows[pending]

        def stream(index: int, rows: RowIds = pending_rows, page: int = FIRST_STREAM_PAGE + attempt) -> Bits:
            """Return the bits of a pending row, from the page of this attempt."""
            return source.stream(int(rows[index]), page)

        noise_bounds[pending], accepted = propose_bounds(
            table, source.word(pending_rows, NOISE_BOUNDS, attempt, np.uint64), stream
        )
        pending = pending[~accepted]
        if not pending.size:
            return noise_bounds
    raise OverflowError(f"{ATTEMPTS} attempts at a noise bound failed: the bits are not random")


def _fill(noise: NDArray[np.int64], rows: RowIds, noise_bounds: NDArray[np.int64], source: RowBits) -> None:
    """Fill each row of `noise` with the noise of its slots, uniform on {-R .. R}."""
    ranges = (2 * noise_bounds + 1).view(np.uint64)  # above 2^63 if a noise bound is out of range
    if int(ranges.max(initial=0)) > _WIDEST:
        raise OverflowError("a row's noise bound is beyond 2^62 quanta: no window has such noise")
    wide = ranges > _NARROW
    if not wide.any():
        _fill_narrow(noise, rows, ranges, source)
    else:
        for part, fill in ((~wide, _fill_narrow), (wide, _fill_wide)):
            values = np.empty((int(part.sum()), noise.shape[1]), np.int64)
            fill(values, rows[part], ranges[part], source)
            noise[part] = values
    noise -= noise_bounds[:, np.newaxis]


def _fill_narrow(values: NDArray[np.int64], rows: RowIds, ranges: Words, source: RowBits) -> None:
    """Fill `values` with integers below each row's range, which is at most 2^32."""
    product, surplus = values.view(np.uint64), ((1 << 32) % ranges).astype(np.uint32)
    np.multiply(source.words(rows, SLOTS, values.shape[1], np.uint32), ranges[:, np.newaxis], out=product)

    def redraw(row: RowIds, slot: RowIds, page: int) -> NDArray[np.bool_]:
        """Draw new words of the page for the rejected slots; return a mask of the slots to reject again."""
        product[row, slot] = fresh = source.word(rows[row], page, slot, np.uint32) * ranges[row]
        return fresh.astype(np.uint32) < surplus[row]

    _retry(product.astype(np.uint32) < surplus[:, np.newaxis], redraw)
    product >>= np.uint64(32)


def _fill_wide(noise: NDArray[np.int64], rows: RowIds, ranges: Words, source: RowBits) -> None:
    """Fill `noise` with integers below each row's range, which is at most 2^63."""
    values, largest = noise.view(np.uint64), ranges - np.uint64(1)
    mask = np.array([(1 << value.bit_length()) - 1 for value in largest.tolist()], np.uint64)
    np.bitwise_and(source.words(rows, SLOTS, noise.shape[1], np.uint64), mask[:, np.newaxis], out=values)

    def redraw(row: RowIds, slot: RowIds, page: int) -> NDArray[np.bool_]:
        """Draw new words of the page for the rejected slots; return a mask of the slots to reject again."""
        values[row, slot] = fresh = source.word(rows[row], page, slot, np.uint64) & mask[row]
        return fresh > largest[row]

    _retry(values > largest[:, np.newaxis], redraw)


def _retry(rejected: NDArray[np.bool_], redraw: Callable[[RowIds, RowIds, int], NDArray[np.bool_]]) -> None:
    """Redraw the rejected slots, from a new page at each attempt, until `redraw` rejects none."""
    pending = np.flatnonzero(rejected)
    for page in range(SLOTS + 1, SLOTS + ATTEMPTS):
        if not pending.size:
            return
        row, slot = np.divmod(pending, rejected.shape[1])
        pending = pending[redraw(row, slot, page)]
    if pending.size:
        raise OverflowError(f"{ATTEMPTS} attempts at a slot failed: the bits are not random")
