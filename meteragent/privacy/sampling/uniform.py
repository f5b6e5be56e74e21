"""Integers that are equally likely, from words that are: what does not come out even is drawn anew.

One range, m: of the integers below the next power of two those below m are kept. A range per row: with a
word u of 32 bits, floor(u m / 2^32) is uniform on {0 .. m-1} where u is drawn anew while
u m mod 2^32 < 2^32 mod m, because each value then keeps floor(2^32 / m) words (Lemire 2019).
"""

import numpy as np
from numpy.typing import NDArray

from meteragent.privacy.bits import Bits

Words = NDArray[np.uint64]

_CACHED = 1 << 15  # values


def below(m: int, bits: Bits) -> int:
    """One integer, uniform on {0 .. m-1}, m >= 1 of any size: masked rejection, under 2 tries.

    Raises:
        ValueError: m < 1.
    """
    if m < 1:
        raise ValueError(f"no integer lies in an empty range: m = {m}")
    k = (m - 1).bit_length()
    while True:
        drawn = bits.integer(k)
        if drawn < m:
            return drawn


def below_array(m: int, count: int, bits: Bits) -> NDArray[np.int64]:
    """`count` independent integers, uniform on {0 .. m-1}, as int64 of shape (count,).

    Raises:
        ValueError: m is not in 1 .. 2^63.
    """
    if not 1 <= m <= 1 << 63:
        raise ValueError("m must lie in 1 .. 2^63 to draw an array")
    k = (m - 1).bit_length()
    dtype = next(d for d in (np.uint8, np.uint16, np.uint32, np.uint64) if k <= 8 * d().itemsize)
    mask = dtype((1 << k) - 1)
    out = np.empty(count, np.int64)
    filled = 0
    while filled < count:
        missing = count - filled
        drawn = bits.array((missing << k) // m + missing // 16 + 8, dtype) & mask
        kept = drawn[drawn <= dtype(m - 1)][:missing]
        out[filled : filled + kept.size] = kept
        filled += kept.size
    return out


def uniform(radius: int, bits: Bits) -> int:
    """One integer, uniform on {-R .. R}, for R = `radius` >= 0 of any size.

    Raises:
        ValueError: R < 0.
    """
    return below(2 * radius + 1, bits) - radius


def uniform_rows(radii: NDArray[np.int64], n: int, bits: Bits) -> NDArray[np.int64]:
    """For each R of `radii`, a row of n independent integers, uniform on {-R .. R}: (count, n), int64.

    Raises:
        ValueError: an R is below 0 or not below 2^62.
    """
    if radii.size and not 0 <= radii.min() <= radii.max() < 1 << 62:
        raise ValueError("a row's radius must lie in 0 .. 2^62 - 1")
    out = np.empty((radii.size, n), np.int64)
    rows = max(1, _CACHED // max(1, n))  # at a time: what is in work stays in the processor's cache
    for first in range(0, radii.size, rows):
        part = radii[first : first + rows]
        ranges = (2 * part + 1).view(np.uint64)
        scaled = _scaled if int(ranges.max()) >> 32 == 0 else _masked
        np.subtract(
            scaled(ranges, n, bits).view(np.int64), part[:, np.newaxis], out=out[first : first + rows]
        )
    return out


def _scaled(ranges: Words, n: int, bits: Bits) -> Words:
    """Rows of n integers below each of `ranges`, which are below 2^32."""
    product = bits.array(ranges.size * n, np.uint32).reshape(-1, n) * ranges[:, np.newaxis]
    uneven = ((1 << 32) % ranges).astype(np.uint32)
    flat = product.reshape(-1)
    again = np.flatnonzero(product.astype(np.uint32) < uneven[:, np.newaxis])
    while again.size:
        row = again // n
        flat[again] = fresh = bits.array(again.size, np.uint32) * ranges[row]
        again = again[fresh.astype(np.uint32) < uneven[row]]
    product >>= np.uint64(32)
    return product


def _masked(ranges: Words, n: int, bits: Bits) -> Words:
    """Rows of n integers below each of `ranges`, which are odd and below 2^63."""
    mask = ranges.copy()
    for shift in (1, 2, 4, 8, 16, 32):
        mask |= mask >> np.uint64(shift)
    drawn = bits.array(ranges.size * n, np.uint64).reshape(-1, n) & mask[:, np.newaxis]
    flat = drawn.reshape(-1)
    again = np.flatnonzero(drawn >= ranges[:, np.newaxis])
    while again.size:
        row = again // n
        flat[again] = fresh = bits.array(again.size, np.uint64) & mask[row]
        again = again[fresh >= ranges[row]]
    return drawn
