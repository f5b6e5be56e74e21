"""Bits of a key: for each row those that its tag stands for, the same whenever and wherever they are read.

A row's pages are one stream of blocks: block b is AES-256, under the noise key, of the row's tag (12 bytes)
and b (4 bytes, the highest first), as in counter mode (NIST SP 800-38A); page p begins at block p 2^22. Words
are little-endian. All blocks that are asked for at once are one call.

What is lost against true randomness, for an adversary who has not the key and sees q blocks of N rows:

* AES-256 is told from a random permutation with an advantage that nobody knows how to make noticeable;
* blocks of a permutation never repeat, those of true bits do: at most q^2 / 2^129;
* two of N rows have the same tag of 96 bits, and so related noise, with at most N^2 / 2^97 if tags are those
  of `tags`, of different digests: AES-256 in CMAC (NIST SP 800-38B), told from a random function with at most
  20 N^2 / 2^128 and what AES is told with.

With N = 2^32 windows of 96 slots under one key (a million meters daily for 11 years; q < 2^37) the last two
are below 2^-55 and 2^-32. Every statement about the law of the noise then holds but for these chances, and
for adversaries who compute: the promise becomes computational (Mironov, Pandey, Reingold, Vadhan 2009).
Who has the key can take the noise off: see SECURITY.md.
"""

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from meteragent.privacy.bits import PAGE_BYTES, Bits, BytesBits, Rows, UnsignedArray, Width, check_address

KEY_BYTES = 32
TAG_BYTES = 12
DIGEST_BYTES = 32

_BLOCK = 16
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
        self._tags = np.frombuffer(tags, np.uint32).reshape(-1, TAG_BYTES // 4)
        self.count = len(self._tags)

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
        addresses = np.empty((rows.size, blocks.shape[1], _BLOCK // 4), np.uint32)
        addresses[:, :, :3] = self._tags.take(rows, axis=0)[:, np.newaxis]
        addresses[:, :, 3] = blocks.astype(">u4").view(np.uint32)
        words = self._encrypted(addresses).view(np.dtype(dtype).newbyteorder("<"))
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


def tags(key: bytes, digests: bytes) -> bytes:
    """The tags of digests of 32 bytes, both end to end: the first 12 bytes of each one's AES-256-CMAC.

    CMAC of two blocks d, e is AES(AES(d) ^ e ^ K), K its first subkey; all digests go together.

    Raises:
        ImportError: the package `cryptography` is missing; the text names the extra.
        ValueError: the key or the digests have another length.
    """
    if len(key) != KEY_BYTES or len(digests) % DIGEST_BYTES:
        raise ValueError(f"a tag key has {KEY_BYTES} bytes and a digest {DIGEST_BYTES}")
    encrypted, blocks = _cipher(key), np.frombuffer(digests, np.uint8).reshape(-1, 2, _BLOCK)
    state = encrypted(blocks[:, 0].copy()).reshape(-1, _BLOCK)
    state ^= blocks[:, 1]
    state ^= np.frombuffer(_subkey(encrypted), np.uint8)
    return encrypted(state).reshape(-1, _BLOCK)[:, :TAG_BYTES].tobytes()


def _subkey(encrypted: "_Cipher") -> bytes:
    """The first subkey of CMAC: AES(0) doubled in GF(2^128)."""
    doubled = int.from_bytes(encrypted(np.zeros(_BLOCK, np.uint8)).tobytes(), "big") << 1
    return (doubled ^ (doubled >> 128) * (1 << 128 | 0x87)).to_bytes(_BLOCK, "big")


_Cipher = Callable[[NDArray[Any]], NDArray[np.uint8]]


def _cipher(key: bytes) -> _Cipher:
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
