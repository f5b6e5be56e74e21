"""Sources of random bits: interfaces, the operating system's source, a seeded source, and rows of fresh bits.

`Bits` is a stream: each bit is handed out only once, because two releases with noise from the same bits would
reveal the difference between their windows. `RowBits` gives each of many rows a memory of random bits; a
sampler reads each address for one purpose only. Bits from a key are a fixed function of the address
(`keyed`).
"""

from __future__ import annotations

import hashlib
import os
import weakref
from abc import ABC, abstractmethod
from io import BytesIO
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

UnsignedArray = NDArray[np.unsignedinteger[Any]]
Width = type[np.unsignedinteger[Any]]

_BLOCK_BYTES = 1 << 12
"""The default size of a buffered block in bytes. Requests for more bytes than this bypass the buffer."""


class Bits(Protocol):
    """A stream of independent fair bits; each is handed out once."""

    def integer(self, k: int) -> int:
        """Draw an integer of k bits, uniform on {0 .. 2^k - 1}; 0 for k = 0."""

    def array(self, count: int, dtype: Width) -> UnsignedArray:
        """Draw `count` integers, uniform on all values of `dtype`: np.uint8, 16, 32 or 64."""


class SecretBits(Bits, Protocol):
    """Bits for noise, whose source can drop the bits that were fetched but not handed out."""

    def discard(self) -> None:
        """Drop the bits that were fetched but not handed out."""


RowIds = NDArray[np.int64]
"""Row numbers, 0 .. count - 1."""

PAGES = 1 << 10
"""The number of pages of each row."""

PAGE_BYTES = 1 << 26
"""The length of a page in bytes."""


class RowBits(Protocol):
    """Independent fair bits for each of `count` rows: a row consists of pages, and a page of words.

    All words of a page have the same width. A sampler that reads each address once uses no bit twice.
    """

    @property
    def count(self) -> int:
        """The number of rows."""

    def words(self, rows: RowIds, page: int, count: int, dtype: Width) -> UnsignedArray:
        """Read the first `count` words of a page for each row in `rows`; shape (rows.size, count)."""

    def word(self, rows: RowIds, page: int, at: RowIds | int, dtype: Width) -> UnsignedArray:
        """Read word `at` of a page for each row in `rows`; `at` may differ by row; shape (rows.size,)."""

    def stream(self, row: int, page: int) -> Bits:
        """Return a page of a row, from its beginning, as a stream."""


def check_address(page: int, size: int) -> None:
    """Raise OverflowError unless the page exists and has `size` bytes, so that no bits are read twice."""
    if not (0 <= page < PAGES and size <= PAGE_BYTES):
        raise OverflowError(
            f"{size} bytes of page {page} cannot be read: a row has {PAGES} pages of {PAGE_BYTES} bytes each"
        )


class FreshRows:
    """Rows of fresh bits: each read returns bits that were never read. Raises ValueError if count < 0."""

    def __init__(self, count: int, bits: Bits) -> None:
        if count < 0:
            raise ValueError(f"a count must not be negative: {count}")
        self.count, self._bits = count, bits

    def words(self, rows: RowIds, page: int, count: int, dtype: Width) -> UnsignedArray:
        """Draw `count` words per row, (rows.size, count). Raises OverflowError beyond the page's end."""
        check_address(page, count * np.dtype(dtype).itemsize)
        return self._bits.array(rows.size * count, dtype).reshape(rows.size, count)

    def word(self, rows: RowIds, page: int, at: RowIds | int, dtype: Width) -> UnsignedArray:
        """Draw a word per row, (rows.size,). Raises OverflowError if `at` is beyond the page's end."""
        check_address(page, (int(np.max(at, initial=0)) + 1) * np.dtype(dtype).itemsize)
        return self._bits.array(rows.size, dtype)

    def stream(self, row: int, page: int) -> Bits:  # noqa: ARG002  all rows have fresh bits
        """Return the source of the fresh bits itself. Raises OverflowError if the page does not exist."""
        check_address(page, 0)
        return self._bits


class BytesBits(ABC):
    """Bits taken from a sequence of bytes."""

    @abstractmethod
    def _take(self, size: int) -> bytes:
        """Take the next `size` bytes."""

    def integer(self, k: int) -> int:
        """Draw an integer of k bits, uniform on {0 .. 2^k - 1}; 0 for k = 0."""
        return int.from_bytes(self._take(k + 7 >> 3), "little") >> (-k & 7)

    def array(self, count: int, dtype: Width) -> UnsignedArray:
        """Draw `count` integers, uniform on `dtype`, read-only. Raises ValueError if count < 0."""
        if count < 0:
            raise ValueError(f"a count must not be negative: {count}")
        return np.frombuffer(self._take(count * np.dtype(dtype).itemsize), dtype=dtype)


class BufferedBits(BytesBits):
    """Bits taken from a buffer that is filled a block at a time; large requests bypass the buffer."""

    block_bytes = _BLOCK_BYTES

    def __init__(self) -> None:
        self._buffer = BytesIO()

    @abstractmethod
    def _fresh(self, size: int) -> bytes:
        """Return `size` bytes that were never returned before."""

    def _take(self, size: int) -> bytes:
        """Take bytes from the buffer, which is replaced if it holds too few; large requests bypass it."""
        if size > _BLOCK_BYTES:
            return self._fresh(size)
        # `read` copies and advances in one call, so two threads cannot take the same bytes.
        data = self._buffer.read(size)
        if len(data) < size:
            buffer = BytesIO(self._fresh(self.block_bytes))
            data = buffer.read(size)
            self._buffer = buffer
        return data


class SystemBits(BufferedBits):
    """Bits from the operating system's cryptographic source (`os.urandom`), fetched at least 4 KiB at a time.

    A copy of the process reveals no later bits except those in the buffer. `discard` drops the buffer; a
    forked process and a pickled copy start without it.
    """

    def __init__(self) -> None:
        super().__init__()
        _SYSTEM_BITS.add(self)

    def _fresh(self, size: int) -> bytes:
        return os.urandom(size)

    def __reduce__(self) -> tuple[type[SystemBits], tuple[()]]:
        return type(self), ()

    def discard(self) -> None:
        """Drop the bits that were fetched but not handed out."""
        self._buffer = BytesIO()


_SYSTEM_BITS: weakref.WeakSet[SystemBits] = weakref.WeakSet()
"""All `SystemBits` of this process; after a fork, the child empties their buffers."""


def _discard_all() -> None:
    for bits in _SYSTEM_BITS:
        bits.discard()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_discard_all)


class SeededBits(BufferedBits):
    """Reproducible bits (SHAKE-128 of the seed and the block's number), for tests: not secret."""

    block_bytes = 1 << 16

    def __init__(self, seed: int) -> None:
        if not isinstance(seed, int):
            raise TypeError(f"a seed is an int, not {type(seed).__name__}")
        super().__init__()
        self._seed = seed
        self._blocks = 0

    def _fresh(self, size: int) -> bytes:
        self._blocks += 1
        return hashlib.shake_128(f"{self._seed}:{self._blocks}".encode()).digest(size)

    def discard(self) -> None:
        """Keep the buffer: all bits follow from the seed."""
