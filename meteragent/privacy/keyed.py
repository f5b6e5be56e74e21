"""Bits from a key: each row's bits are a function of the key and the row's tag.

A row's pages are one stream of blocks. Block b is the encryption by AES-256, under the noise key, of the
row's tag (12 bytes) and b (4 bytes, big-endian), as in counter mode (NIST SP 800-38A); page p begins at block
p 2^22. Words are little-endian. All blocks of one request are encrypted in one call.

An adversary without the key, who sees a total of q blocks of N rows, distinguishes these bits from true
randomness with an advantage of at most the sum of:

* the advantage of distinguishing AES-256 from a random permutation, for which no practical attack is known;
* q^2 / 2^129, because blocks of a permutation never repeat and true random blocks do;
* N^2 / 2^97, because two of the N rows may have the same 96-bit tag, and hence the same bits;
* if `compute_tags` computes the tags, and no two rows of its input are equal: (s + 1)^2 / 2^127 for a total
  of s blocks, by which PMAC may differ from a random function (Black, Rogaway 2002, Theorem 1), plus the
  advantage of distinguishing AES-256 under the tag key from a random permutation.

With N = 2^32 windows of 96 slots under one key (a million meters daily for 11 years; q and s below 2^38) the
terms in q, N and s are below 2^-52, 2^-32 and 2^-50. Every statement about the noise then holds except with
these probabilities, and only against adversaries with bounded computing power (Mironov, Pandey, Reingold,
Vadhan 2009). Anyone who has the key can check a guess of a window's data: see SECURITY.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from meteragent.privacy.bits import PAGE_BYTES, Bits, BytesBits, RowIds, UnsignedArray, Width, check_address

Words = NDArray[np.uint64]
"""Rows of 64-bit words: (count, words)."""

KEY_BYTES = 32
TAG_BYTES = 12

_BLOCK = 16
_BLOCK_WORDS = 2  # words of 64 bits; the words of tags and addresses have the same size
_BATCH_WORDS = 1 << 16  # keeps the working set in the processor's cache
_PADDING = 0x80  # the byte that follows a row that ends with half a block; zeros fill the block
_DOUBLE, _HALF = 0x87, 1 << 127 | 0x43  # x^128 and 1/x in the field of 2^128 elements
_PAGE_BLOCKS = PAGE_BYTES // _BLOCK
_STREAM_BLOCKS = 16  # a stream requests a multiple of this; few words are read from most streams


class KeyedRows:
    """Rows whose bits are a function of a key of 32 bytes and one tag per row (`bits.RowBits`).

    `tags` holds 12 bytes for each row, end to end. `repr` shows no key, and pickling raises TypeError. Raises
    ValueError if the key or the tags have the wrong length; ImportError, which names the extra, without
    `cryptography`.
    """

    def __init__(self, key: bytes, tags: bytes) -> None:
        if len(key) != KEY_BYTES or len(tags) % TAG_BYTES:
            raise ValueError(f"a noise key has {KEY_BYTES} bytes and a tag {TAG_BYTES}")
        self._encrypted = _cipher(key)
        self.count = len(tags) // TAG_BYTES
        addresses = np.zeros((self.count, _BLOCK), np.uint8)
        addresses[:, :TAG_BYTES] = np.frombuffer(tags, np.uint8).reshape(-1, TAG_BYTES)
        self._tags = addresses.view("<u8").astype(np.uint64, copy=False)

    def words(self, rows: RowIds, page: int, count: int, dtype: Width) -> UnsignedArray:
        """Read the first `count` words of a page, (rows.size, count), or raise OverflowError."""
        size = count * np.dtype(dtype).itemsize
        check_address(page, size)
        first = page * _PAGE_BLOCKS
        blocks = np.arange(first, first + -(-size // _BLOCK), dtype=np.uint32)
        return self._blocks(rows, blocks[np.newaxis], dtype)[:, :count]

    def word(self, rows: RowIds, page: int, at: RowIds | int, dtype: Width) -> UnsignedArray:
        """Read word `at` of a page for each row, (rows.size,). Raises OverflowError beyond the page's end."""
        places = np.broadcast_to(np.asarray(at, np.int64), rows.shape)
        check_address(page, (int(places.max(initial=0)) + 1) * np.dtype(dtype).itemsize)
        block, place = np.divmod(places, _BLOCK // np.dtype(dtype).itemsize)
        blocks = (page * _PAGE_BLOCKS + block).astype(np.uint32)
        words = self._blocks(rows, blocks[:, np.newaxis], dtype)
        return np.asarray(words[np.arange(rows.size), place])

    def stream(self, row: int, page: int) -> Bits:
        """Return a page of a row as a stream. Reading past its end raises OverflowError."""

        def read(first: int, count: int) -> bytes:
            """Return `count` blocks of the page, from block `first` on."""
            check_address(page, (first + count) * _BLOCK)
            start = page * _PAGE_BLOCKS + first
            blocks = np.arange(start, start + count, dtype=np.uint32)
            return self._blocks(np.array([row]), blocks[np.newaxis], np.uint8).tobytes()

        return _Stream(read)

    def _blocks(self, rows: RowIds, blocks: NDArray[np.uint32], dtype: Width) -> UnsignedArray:
        """Return blocks as words; `blocks` has a row of block numbers for each of `rows`, or one for all."""
        low_words, high_words = self._tags.take(rows, axis=0).T[:, :, np.newaxis]
        counters = blocks.astype(">u4").view("<u4").astype(np.uint64) << np.uint64(32)
        addresses = np.empty((rows.size, blocks.shape[1], _BLOCK_WORDS), np.uint64)
        addresses[:, :, 0] = low_words
        np.bitwise_or(high_words, counters, out=addresses[:, :, 1])
        words = self._encrypted(_bytes(addresses)).view(np.dtype(dtype).newbyteorder("<"))
        return words.astype(dtype, copy=False).reshape(rows.size, blocks.shape[1] * _BLOCK // words.itemsize)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key cannot be pickled: send the path of its file to the other process")


class _Stream(BytesBits):
    """The bits of a page whose blocks `read(first, count)` returns."""

    def __init__(self, read: Callable[[int, int], bytes]) -> None:
        self._read, self._buffer, self._next_block = read, b"", 0

    def _take(self, size: int) -> bytes:
        """Take bytes from the buffer, after reading as many blocks as needed."""
        block_count = -(-max(0, size - len(self._buffer)) // (_STREAM_BLOCKS * _BLOCK)) * _STREAM_BLOCKS
        if block_count:
            self._buffer += self._read(self._next_block, block_count)
            self._next_block += block_count
        data, self._buffer = self._buffer[:size], self._buffer[size:]
        return data


def compute_tags(key: bytes, *parts: Words) -> bytes:
    """Compute the tags of rows of 64-bit words, 12 bytes each, end to end.

    Each of `parts` has shape (count, any width); row i consists of row i of every part. A tag is the first 12
    bytes of the PMAC of its words, little-endian, with AES-256 (Black, Rogaway 2002). CMAC, which chains its
    blocks, would process a long row block by block; PMAC encrypts the blocks of many rows together. Raises as
    `KeyedRows` does.
    """
    if len(key) != KEY_BYTES:
        raise ValueError(f"a tag key has {KEY_BYTES} bytes")
    return pmac(_cipher(key), *parts)[:, :TAG_BYTES].tobytes()


def pmac(encrypt: Encrypted, *parts: Words) -> NDArray[np.uint8]:
    """Compute the PMAC of each row, (count, 16): E(E(m_1 + o_1) + .. + E(m_c + o_c) + m_b + o_b), c = b - 1.

    + is XOR, E is `encrypt`, m_1 .. m_b are a row's blocks of 16 bytes, padded, and o_1 .. o_b their
    offsets.
    """
    count, width = len(parts[0]), sum(part.shape[1] for part in parts)
    offsets = _offsets(encrypt, width)
    macs, step = np.empty((count, _BLOCK), np.uint8), max(1, _BATCH_WORDS // offsets.size)
    for first in range(0, count, step):
        batch = slice(first, first + step)
        rows = np.empty((len(macs[batch]), offsets.size), np.uint64)
        rows[:, width:], start = _PADDING, 0
        for part in parts:
            end = start + part.shape[1]
            np.bitwise_xor(part[batch], offsets[start:end], out=rows[:, start:end])
            start = end
        *earlier_blocks, last_blocks = blocks = _bytes(rows).view(f"V{_BLOCK}").T.copy()
        total = last_blocks.view("<u8")
        if earlier_blocks:
            ciphertexts = encrypt(blocks[:-1]).view("<u8").reshape(len(earlier_blocks), -1)
            total ^= np.bitwise_xor.reduce(ciphertexts)  # much faster along the first axis
        macs[batch] = encrypt(total).reshape(-1, _BLOCK)
    return macs


def _offsets(encrypt: Encrypted, width: int) -> Words:
    """Compute block offsets for a row of `width` words; the last offset is 0 for a partial block."""
    zero = int.from_bytes(encrypt(np.zeros(_BLOCK, np.uint8)).tobytes(), "big")
    full_offset = zero >> 1 ^ (_HALF if zero & 1 else 0)
    doubled, offset, offsets = [zero], 0, []
    for place in range(1, -(-width // _BLOCK_WORDS)):
        twos = (place & -place).bit_length() - 1  # place is odd times 2^twos; a Gray code changes bit `twos`
        while len(doubled) <= twos:
            doubled.append((doubled[-1] << 1) % (1 << 128) ^ (_DOUBLE if doubled[-1] >> 127 else 0))
        offset ^= doubled[twos]
        offsets.append(offset)
    offsets.append(0 if width % _BLOCK_WORDS else full_offset)
    data = b"".join(value.to_bytes(_BLOCK, "big") for value in offsets)
    return np.frombuffer(data, "<u8").astype(np.uint64)


def _bytes(words: Words) -> NDArray[Any]:
    """Convert words to little-endian byte order."""
    return words.astype("<u8", copy=False)


Encrypted = Callable[[NDArray[Any]], NDArray[np.uint8]]
"""A function that applies AES under a key to each 16-byte block of an array, and returns bytes."""


def _cipher(key: bytes) -> Encrypted:
    """Return a function that applies AES-256 under `key`. Raises ImportError that names the missing extra."""
    try:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes  # noqa: PLC0415
    except ImportError:
        raise ImportError("noise from a key needs cryptography, from the extra 'archive'") from None
    # ECB encrypts each block independently, which a function from addresses to bits requires.
    encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # noqa: S305

    def encrypt(blocks: NDArray[Any]) -> NDArray[np.uint8]:
        """Encrypt each 16-byte block."""
        output = np.empty(blocks.nbytes + _BLOCK - 1, np.uint8)  # the size that `update_into` demands
        encryptor.update_into(blocks.reshape(-1).view(np.uint8).data, output.data)
        return output[: blocks.nbytes]

    return encrypt
