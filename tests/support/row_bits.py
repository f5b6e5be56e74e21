"""Bits of rows for tests: from a public key, with fixed words, or recorded; and a plain sampler."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import count
from typing import Any

import numpy as np

from meteragent.privacy.bits import Bits, RowBits, RowIds, UnsignedArray, Width
from meteragent.privacy.keyed import KeyedRows
from meteragent.privacy.sampling.bernoulli import bernoulli
from meteragent.privacy.sampling.rows import FIRST_STREAM_PAGE, NOISE_BOUNDS, SLOTS
from meteragent.privacy.sampling.windows import Table, table_of
from tests.support.tape import Tape

KEY = bytes(range(32))

PARAMETERS = [
    (1, Fraction(1, 220)),
    (1, Fraction(100)),
    (1, Fraction(1, 2**31)),  # some rows are narrow, some wide
    (1, Fraction(1, 2**45 - 1)),
    (2, Fraction(7, 10)),
    (3, Fraction(1, 2**30)),
    (4, Fraction(1, 220)),
    (6, Fraction(3)),
    (48, Fraction(1, 220)),
    (96, Fraction(1067, 10)),
    (200, Fraction(1, 10)),
]


def tag(number: int) -> bytes:
    """Return a row's tag."""
    return number.to_bytes(12, "little")


def keyed(*numbers: int) -> KeyedRows:
    """Return rows with these tags."""
    return KeyedRows(KEY, b"".join(map(tag, numbers)))


@dataclass
class Written:
    """Rows in which some words and streams are fixed, by (row, page, place) and (row, page)."""

    rows: RowBits
    written: Mapping[tuple[int, int, int], int] = field(default_factory=dict)
    streams: Mapping[tuple[int, int], Tape] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """The number of rows."""
        return self.rows.count

    def words(self, rows: RowIds, page: int, count: int, dtype: Width) -> UnsignedArray:
        """Return `count` words of each row, as `word` does."""
        return np.stack([self.word(rows, page, place, dtype) for place in range(count)], axis=1)

    def word(self, rows: RowIds, page: int, at: RowIds | int, dtype: Width) -> UnsignedArray:
        """Return the fixed word if there is one, else the word of `rows`."""
        words = self.rows.word(rows, page, at, dtype).copy()
        places = np.broadcast_to(np.asarray(at), rows.shape).tolist()
        for i, address in enumerate(zip(rows.tolist(), places, strict=True)):
            value = self.written.get((address[0], page, address[1]))
            if value is not None:
                words[i] = value
        return words

    def stream(self, row: int, page: int) -> Bits:
        """Return the fixed stream if there is one, else the stream of `rows`."""
        return self.streams.get((row, page)) or self.rows.stream(row, page)


class Watched:
    """Rows that record which words of which pages were read, and fail when a word is read twice."""

    def __init__(self, rows: RowBits) -> None:
        self._rows, self.count = rows, rows.count
        self.widths: dict[tuple[int, int], set[Any]] = {}
        self.read_words: set[tuple[int, int, int]] = set()

    def _note(self, row: int, page: int, place: int, width: Any) -> None:
        assert (row, page, place) not in self.read_words
        self.read_words.add((row, page, place))
        self.widths.setdefault((row, page), set()).add(width)

    def words(self, rows: RowIds, page: int, count: int, dtype: Width) -> UnsignedArray:
        """Record each word, then return the words."""
        for row in rows.tolist():
            for place in range(count):
                self._note(row, page, place, dtype)
        return self._rows.words(rows, page, count, dtype)

    def word(self, rows: RowIds, page: int, at: RowIds | int, dtype: Width) -> UnsignedArray:
        """Record the word, then return it."""
        for row, place in zip(
            rows.tolist(), np.broadcast_to(np.asarray(at), rows.shape).tolist(), strict=True
        ):
            self._note(row, page, place, dtype)
        return self._rows.word(rows, page, at, dtype)

    def stream(self, row: int, page: int) -> Bits:
        """Record the stream as one word, then return it; the stream itself gives each bit once."""
        self._note(row, page, 0, "stream")
        return self._rows.stream(row, page)


# The plain sampler --------------------------------------------------------------------------------


def plain_row(n: int, a: Fraction, rows: RowBits, row: int) -> list[int]:
    """Draw one row's noise by definition: integers in a loop, without lines, each comparison bit by bit."""
    table, row_array = table_of(n, a), np.array([row])
    for t in count():
        word = int(rows.word(row_array, NOISE_BOUNDS, t, np.uint64)[0])
        noise_bound = plain_radius(table, word, rows.stream(row, FIRST_STREAM_PAGE + t))
        if noise_bound is not None:
            return [plain_slot(noise_bound, rows, row_array, slot) for slot in range(n)]
    raise AssertionError


def plain_radius(table: Table, word: int, bits: Bits) -> int | None:
    """Return the noise bound that a word proposes, or None unless it is accepted: height + U < S w/w(M)."""
    edges = [int(area) for area in table.areas]
    cell = max(j for j, edge in enumerate(edges) if edge <= word)
    if cell == len(edges) - 1:
        return None
    if cell == len(edges) - 2:
        return table.draw_tail(bits)
    height, place = divmod(word - edges[cell], 1 << table.shift)
    point = table.envelope.mode - table.depth + (cell << table.shift) + place
    if point < 0:
        return None

    def beyond(k: int) -> tuple[int, int]:
        """Return integer bounds of 2^k (S w/w(M) - height)."""
        lo, hi = table.envelope.weight_bounds(point, k + 64)
        return (lo * table.unit >> 64) - (height << k), (hi * table.unit >> 64) + 1 - (height << k)

    return point if bernoulli(beyond, bits) else None


def plain_slot(noise_bound: int, rows: RowBits, row_array: RowIds, slot: int) -> int:
    """Draw one slot, uniform on {-R .. R}."""
    m = 2 * noise_bound + 1
    for k in count():
        if m > 1 << 32:
            value = int(rows.word(row_array, SLOTS + k, slot, np.uint64)[0]) % (1 << (m - 1).bit_length())
            if value < m:
                return value - noise_bound
        else:
            value, remainder = divmod(int(rows.word(row_array, SLOTS + k, slot, np.uint32)[0]) * m, 1 << 32)
            if remainder >= (1 << 32) % m:
                return value - noise_bound
    raise AssertionError
