"""Bits of a key: for each row those that its tag stands for, the same whenever and wherever they are read.

A row's pages are one stream of blocks: block b is AES-256, under the noise key, of the row's tag (12 bytes)
and b (4 bytes, the highest first), as in counter mode (NIST SP 800-38A); page p begins at block p 2^22. Words
are little-endian. All blocks that are asked for at once are one call.

What is lost against true randomness, for an adversary who has not the key and sees q blocks of N rows:

* AES-256 is told from a random permutation with an advantage that nobody knows how to make noticeable;
* blocks of a permutation never repeat, those of true bits do: at most q^2 / 2^129;
* two of N rows have the same tag of 96 bits, and so related noise, with at most N^2 / 2^97 if tags are those
  of `tags`, of rows that differ: AES-256 in PMAC, told from a random function with at most (s + 1)^2 / 2^127
  for s blocks in all (Black, Rogaway 2002, Theorem 1) and what AES is told with.

With N = 2^32 windows of 96 slots under one key (a million meters daily for 11 years; q and s below 2^38) the
last two are below 2^-52 and 2^-32 + 2^-51. Every statement about the law of the noise then holds but for
these chances, and for adversaries who compute: the promise becomes computational (Mironov, Pandey, Reingold,
Vadhan 2009). Who has the key can take the noise off: see SECURITY.md.
"""

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from meteragent.privacy.bits import PAGE_BYTES, Bits, BytesBits, Rows, UnsignedArray, Width, check_address

Words = NDArray[np.uint64]
"""Rows of 64-bit words: (count, words)."""

KEY_BYTES = 32
TAG_BYTES = 12

_BLOCK = 16
_BLOCK_WORDS = 2  # of 64 bits, as all words of tags and of addresses
_CACHED = 1 << 16  # words at a time, so that what is in work stays in the processor's cache
_PADDING = 0x80  # the byte after what a last half block has, and zeros
_DOUBLE, _HALF = 0x87, 1 << 127 | 0x43  # x^128 and 1/x in the field of 2^128 elements
_PAGE_BLOCKS = PAGE_BYTES // _BLOCK
_STREAM_BLOCKS = 16  # a stream is read for a few words, mostly


class KeyedRows:
    """The bits of `tags`, 12 bytes for each row, end to end, under a key of 32 bytes (`bits.RowBits`).

    It is neither copied to another process nor shown.

    Raises:
        ImportError: the package `cryptography` is missing; the text names the extra.
        ValueError: the key or the tags have another length.
    """

    def __init__(self, key: bytes, tags: bytes) -> None:
        if len(key) != KEY_BYTES or len(tags) % TAG_BYTES:
            raise ValueError(f"a noise key has {KEY_BYTES} bytes and a tag {TAG_BYTES}")
        self._encrypted = _cipher(key)
        self.count = len(tags) // TAG_BYTES
        addresses = np.zeros((self.count, _BLOCK), np.uint8)
        addresses[:, :TAG_BYTES] = np.frombuffer(tags, np.uint8).reshape(-1, TAG_BYTES)
        self._tags = addresses.view("<u8").astype(np.uint64, copy=False)

    def words(self, rows: Rows, page: int, count: int, dtype: Width) -> UnsignedArray:
        """The first `count` words of a page, for each of some rows: (rows.size, count).

        Raises:
            OverflowError: the page does not hold them.
        """
        size = count * np.dtype(dtype).itemsize
        check_address(page, size)
        first = page * _PAGE_BLOCKS
        blocks = np.arange(first, first + -(-size // _BLOCK), dtype=np.uint32)
        return self._blocks(rows, blocks[np.newaxis], dtype)[:, :count]

    def word(self, rows: Rows, page: int, at: Rows | int, dtype: Width) -> UnsignedArray:
        """One word of a page for each of some rows, at one place or at a place for each: (rows.size,).

        Raises:
            OverflowError: the page does not hold them.
        """
        places = np.broadcast_to(np.asarray(at, np.int64), rows.shape)
        check_address(page, (int(places.max(initial=0)) + 1) * np.dtype(dtype).itemsize)
        block, place = np.divmod(places, _BLOCK // np.dtype(dtype).itemsize)
        blocks = (page * _PAGE_BLOCKS + block).astype(np.uint32)
        read = self._blocks(rows, blocks[:, np.newaxis], dtype)
        return np.asarray(read[np.arange(rows.size), place])

    def stream(self, row: int, page: int) -> Bits:
        """One row's page from its beginning, as a stream; beyond its end: OverflowError."""

        def read(first: int, count: int) -> bytes:
            check_address(page, (first + count) * _BLOCK)
            start = page * _PAGE_BLOCKS + first
            blocks = np.arange(start, start + count, dtype=np.uint32)
            return self._blocks(np.array([row]), blocks[np.newaxis], np.uint8).tobytes()

        return _Stream(read)

    def _blocks(self, rows: Rows, blocks: NDArray[np.uint32], dtype: Width) -> UnsignedArray:
        """Whole blocks for each of some rows, as words: `blocks` are the same for all, or a row for each."""
        first, second = self._tags.take(rows, axis=0).T[:, :, np.newaxis]
        last = blocks.astype(">u4").view("<u4").astype(np.uint64) << np.uint64(32)
        addresses = np.empty((rows.size, blocks.shape[1], _BLOCK_WORDS), np.uint64)
        addresses[:, :, 0] = first
        np.bitwise_or(second, last, out=addresses[:, :, 1])
        words = self._encrypted(_bytes(addresses)).view(np.dtype(dtype).newbyteorder("<"))
        return words.astype(dtype, copy=False).reshape(rows.size, blocks.shape[1] * _BLOCK // words.itemsize)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key is not sent to other processes: send the name of its file")


class _Stream(BytesBits):
    """Bits of a page: `read(first, count)` gives its blocks, some at a time."""

    def __init__(self, read: Callable[[int, int], bytes]) -> None:
        self._read, self._left, self._next = read, b"", 0

    def _take(self, size: int) -> bytes:
        missing = -(-max(0, size - len(self._left)) // (_STREAM_BLOCKS * _BLOCK)) * _STREAM_BLOCKS
        if missing:
            self._left += self._read(self._next, missing)
            self._next += missing
        taken, self._left = self._left[:size], self._left[size:]
        return taken


def tags(key: bytes, *parts: Words) -> bytes:
    """The tags of rows of 64-bit words: the columns of all `parts`, (count, some) each, side by side.

    A row's tag is the first 12 bytes of its words' PMAC with AES-256, the words little-endian (Black, Rogaway
    2002). A MAC whose blocks wait for each other, such as CMAC, would go through a long row block by block:
    here all blocks of all rows go together.

    Raises:
        ImportError: the package `cryptography` is missing; the text names the extra.
        ValueError: the key has another length.
    """
    if len(key) != KEY_BYTES:
        raise ValueError(f"a tag key has {KEY_BYTES} bytes")
    return pmac(_cipher(key), *parts)[:, :TAG_BYTES].tobytes()


def pmac(encrypted: "Encrypted", *parts: Words) -> NDArray[np.uint8]:
    """The PMAC of each row, (count, 16): E(E(m_1 + o_1) + .. + m_b + o_b), + being XOR, E `encrypted`."""
    count, width = len(parts[0]), sum(part.shape[1] for part in parts)
    offsets = _offsets(encrypted, width)
    found, step = np.empty((count, _BLOCK), np.uint8), max(1, _CACHED // offsets.size)
    for first in range(0, count, step):
        some = slice(first, first + step)
        rows = np.empty((len(found[some]), offsets.size), np.uint64)
        rows[:, width:], at = _PADDING, 0
        for part in parts:
            end = at + part.shape[1]
            np.bitwise_xor(part[some], offsets[at:end], out=rows[:, at:end])
            at = end
        *before, last = blocks = _bytes(rows).view(f"V{_BLOCK}").T.copy()
        summed = last.view("<u8")
        if before:
            hidden = encrypted(blocks[:-1]).view("<u8").reshape(len(before), -1)
            summed ^= np.bitwise_xor.reduce(hidden)  # of whole columns: many times as fast as along rows
        found[some] = encrypted(summed).reshape(-1, _BLOCK)
    return found


def _offsets(encrypted: "Encrypted", width: int) -> Words:
    """The offsets of the blocks of rows of so many words: those of the last block mark whether it is full."""
    zero = int.from_bytes(encrypted(np.zeros(_BLOCK, np.uint8)).tobytes(), "big")
    full = zero >> 1 ^ (_HALF if zero & 1 else 0)
    doubled, offset, found = [zero], 0, []
    for place in range(1, -(-width // _BLOCK_WORDS)):
        at = (place & -place).bit_length() - 1
        while len(doubled) <= at:
            doubled.append((doubled[-1] << 1) % (1 << 128) ^ (_DOUBLE if doubled[-1] >> 127 else 0))
        offset ^= doubled[at]
        found.append(offset)
    found.append(0 if width % _BLOCK_WORDS else full)
    data = b"".join(one.to_bytes(_BLOCK, "big") for one in found)
    return np.frombuffer(data, "<u8").astype(np.uint64)


def _bytes(words: Words) -> NDArray[Any]:
    """Words with the lowest byte first."""
    return words.astype("<u8", copy=False)


Encrypted = Callable[[NDArray[Any]], NDArray[np.uint8]]
"""AES under a key of each 16 bytes of an array, as bytes."""


def _cipher(key: bytes) -> Encrypted:
    """AES-256 of each 16 bytes of an array, as bytes."""
    try:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes  # noqa: PLC0415
    except ImportError:
        raise ImportError("noise from a key needs the extra: pip install 'meteragent[archive]'") from None
    # Each block is encrypted by itself: that is what a function from addresses to bits needs.
    encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # noqa: S305

    def encrypted(blocks: NDArray[Any]) -> NDArray[np.uint8]:
        out = np.empty(blocks.nbytes + _BLOCK - 1, np.uint8)  # it asks for so much room
        encryptor.update_into(blocks.reshape(-1).view(np.uint8).data, out.data)
        return out[: blocks.nbytes]

    return encrypted
