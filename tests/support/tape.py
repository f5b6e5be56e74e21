"""Bits that a test has written down."""

from typing import Any

import numpy as np

from meteragent.privacy.bits import SeededBits, SystemBits, UnsignedArray


class Tape:
    """A source of bits that returns a list of entries in order, one for each call."""

    def __init__(self, *entries: int | list[int]) -> None:
        self._entries = iter(entries)

    def integer(self, k: int) -> int:
        """Return the next entry, an integer of at most k bits."""
        value = next(self._entries)
        assert isinstance(value, int)
        assert value.bit_length() <= k
        return value

    def array(self, count: int, dtype: type[np.unsignedinteger[Any]]) -> UnsignedArray:
        """Return the next entry, an array of `count` values."""
        value = np.array(next(self._entries), dtype)
        assert value.shape == (count,)
        return value

    def discard(self) -> None:
        """Do nothing, so that the entries stay."""

    @property
    def left(self) -> int:
        """The number of entries that have not been taken."""
        return len(list(self._entries))


class ReplayedBits(SystemBits):
    """The operating system's bits for all that asks, but reproducible: those of a seed."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._take = SeededBits(seed)._take  # type: ignore[method-assign]
