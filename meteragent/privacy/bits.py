"""Where random bits come from: two small interfaces, the system's source, and a seeded one.

`Bits` is a stream: a bit is handed out once and never again, whatever else happens: threads, forks, copies.
Two windows whose noise came from the same bits would give away their difference. `RowBits` is a book for
each of many rows: what stands at an address stays there, and each address is for one purpose. Fresh bits
can be read that way (`FreshRows`), and those of a key must be (`meteragent.privacy.keyed`).
"""

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
"""What is fetched at once; arrays that need more are fetched by themselves."""


class Bits(Protocol):
    """A stream of independent fair bits; each is handed out once."""

    def integer(self, k: int) -> int:
        """An integer of k bits, uniform on {0 .. 2^k - 1}; 0 for k = 0."""
        ...

    def array(self, count: int, dtype: Width) -> UnsignedArray:
        """`count` integers, uniform on all values of `dtype`: np.uint8, 16, 32 or 64."""
        ...


class SecretBits(Bits, Protocol):
    """Bits that noise is made of: those that were fetched and not handed out can be dropped."""

    def discard(self) -> None:
        """Drop what was fetched and not handed out."""
        ...


Rows = NDArray[np.int64]
"""Which rows: their numbers, 0 .. count - 1."""

PAGES = 1 << 10
"""How many pages each row has."""

PAGE_BYTES = 1 << 26
"""How long a page is."""


class RowBits(Protocol):
    """Independent fair bits for each of `count` rows: a row has pages, a page has words.

    A word is found by its row, page and place; words of one page are all of one width. What an address holds
    is independent of what all others hold, so a sampler that gives each of its draws an address of its own
    uses no bit twice.
    """

    @property
    def count(self) -> int:
        """How many rows there are."""
        ...

    def words(self, rows: Rows, page: int, count: int, dtype: Width) -> UnsignedArray:
        """The first `count` words of a page, for each of some rows: (rows.size, count)."""
        ...

    def word(self, rows: Rows, page: int, at: Rows | int, dtype: Width) -> UnsignedArray:
        """One word of a page for each of some rows, at one place or at a place for each: (rows.size,)."""
        ...

    def stream(self, row: int, page: int) -> Bits:
        """One row's page from its beginning, as a stream."""
        ...


def check_address(page: int, size: int) -> None:
    """Refuse what no page holds: a sampler that needs more must stop, not begin again.

    Raises:
        OverflowError: there is no such page, or it is shorter than `size` bytes.
    """
    if not (0 <= page < PAGES and size <= PAGE_BYTES):
        raise OverflowError(f"a row has {PAGES} pages of {PAGE_BYTES} bytes: no {size} bytes of page {page}")


class FreshRows:
    """Rows of fresh bits: whatever the address, what is read was never read before."""

    def __init__(self, count: int, bits: Bits) -> None:
        if count < 0:
            raise ValueError(f"a count is not negative: {count}")
        self.count, self._bits = count, bits

    def words(self, rows: Rows, page: int, count: int, dtype: Width) -> UnsignedArray:
        """Fresh words in the shape of some rows' first `count`."""
        check_address(page, count * np.dtype(dtype).itemsize)
        return self._bits.array(rows.size * count, dtype).reshape(rows.size, count)

    def word(self, rows: Rows, page: int, at: Rows | int, dtype: Width) -> UnsignedArray:
        """A fresh word for each of some rows."""
        check_address(page, (int(np.max(at, initial=0)) + 1) * np.dtype(dtype).itemsize)
        return self._bits.array(rows.size, dtype)

    def stream(self, row: int, page: int) -> Bits:  # noqa: ARG002  any row's is as fresh
        """The bits themselves."""
        check_address(page, 0)
        return self._bits


class BytesBits(ABC):
    """Bits of bytes that come in order."""

    @abstractmethod
    def _take(self, size: int) -> bytes:
        """The next `size` bytes."""

    def integer(self, k: int) -> int:
        """An integer of k bits, uniform on {0 .. 2^k - 1}; 0 for k = 0."""
        return int.from_bytes(self._take(k + 7 >> 3), "little") >> (-k & 7)

    def array(self, count: int, dtype: Width) -> UnsignedArray:
        """`count` integers, uniform on all values of `dtype`; read-only.

        Raises:
            ValueError: count < 0.
        """
        if count < 0:
            raise ValueError(f"a count is not negative: {count}")
        return np.frombuffer(self._take(count * np.dtype(dtype).itemsize), dtype=dtype)


class BufferedBits(BytesBits):
    """Bits from blocks of bytes."""

    block_bytes = _BLOCK_BYTES

    def __init__(self) -> None:
        self._buffer = BytesIO()

    @abstractmethod
    def _fresh(self, size: int) -> bytes:
        """`size` bytes never seen before."""

    def _bulk(self, size: int) -> bytes:
        """The same for a whole array."""
        return self._fresh(size)

    def _take(self, size: int) -> bytes:
        if size > _BLOCK_BYTES:
            return self._bulk(size)
        # One call that reads and moves on, so that two threads cannot take the same bytes.
        taken = self._buffer.read(size)
        if len(taken) < size:
            buffer = BytesIO(self._fresh(self.block_bytes))
            taken = buffer.read(size)
            self._buffer = buffer
        return taken


class SystemBits(BufferedBits):
    """Bits of the operating system's cryptographic source (`os.urandom`), 4 KiB at a time.

    No generator stands between: what a copy of this process knows says nothing of the bits to come, but for
    those that wait in the buffer, which `discard` drops. A child process and a pickled copy start with an
    empty buffer, so no two of them see the same bits.
    """

    def __init__(self) -> None:
        super().__init__()
        _SYSTEM_BITS.add(self)

    def _fresh(self, size: int) -> bytes:
        return os.urandom(size)

    def __reduce__(self) -> tuple[type["SystemBits"], tuple[()]]:
        return type(self), ()

    def discard(self) -> None:
        """Drop what was fetched and not handed out."""
        self._buffer = BytesIO()


_SYSTEM_BITS: weakref.WeakSet[SystemBits] = weakref.WeakSet()


def _discard_all() -> None:
    for bits in _SYSTEM_BITS:
        bits.discard()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_discard_all)


class SeededBits(BufferedBits):
    """Reproducible bits (SHAKE-128 of seed and position), for tests and simulations.

    Not secret: who knows or guesses the seed knows the noise. Any integer is a seed, also 0.
    """

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
        """Do nothing: what comes is known to whoever knows the seed, and depends on nothing else."""
