"""Bits that a test wrote down."""

from typing import Any

import numpy as np

from meteragent.privacy.bits import UnsignedArray


class Tape:
    """Bits that were written down beforehand: each call takes the next entry."""

    def __init__(self, *entries: int | list[int]) -> None:
        self._entries = iter(entries)

    def integer(self, k: int) -> int:
        """The next entry, an integer of at most k bits."""
        value = next(self._entries)
        assert isinstance(value, int)
        assert value.bit_length() <= k
        return value

    def array(self, count: int, dtype: type[np.unsignedinteger[Any]]) -> UnsignedArray:
        """The next entry, an array of `count` values."""
        value = np.array(next(self._entries), dtype)
        assert value.shape == (count,)
        return value

    def discard(self) -> None:
        """Do nothing: what is written down stays."""

    @property
    def left(self) -> int:
        """How many entries have not been taken."""
        return len(list(self._entries))
