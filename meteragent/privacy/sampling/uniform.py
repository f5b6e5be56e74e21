"""Equally likely integers from equally likely words; words that would favour some integers are redrawn.

For arrays and m <= 2^32, with a word u of 32 bits, floor(u m / 2^32) is uniform on {0 .. m-1} if u is
redrawn while u m mod 2^32 < 2^32 mod m, because each value then comes from floor(2^32 / m) words (Lemire
2019). For larger m, and for single numbers, integers below the least power of two >= m are drawn until one is
below m.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from meteragent.privacy.bits import Bits

_BATCH_VALUES = 1 << 15  # so that the working set stays in the processor's cache


def below(m: int, bits: Bits) -> int:
    """Draw an integer, uniform on {0 .. m-1}, in under 2 attempts on average. Raises ValueError if m < 1."""
    if m < 1:
        raise ValueError(f"the range of integers below m must not be empty: m = {m}")
    k = (m - 1).bit_length()
    while True:
        value = bits.integer(k)
        if value < m:
            return value


def below_array(m: int, count: int, bits: Bits) -> NDArray[np.int64]:
    """Draw `count` integers, uniform on {0 .. m-1}, as int64. Raises ValueError if m is not in 1 .. 2^63."""
    if not 1 <= m <= 1 << 63:
        raise ValueError("m must lie in 1 .. 2^63 to draw an array")
    if m > 1 << 32:
        return _draw_masked(m, count, bits)
    # Of the 2^32 words, `surplus` are too many to be shared equally among m integers.
    factor, surplus = np.uint64(m), np.uint32((1 << 32) % m)
    product = bits.array(count, np.uint32) * factor
    redraw = (product.astype(np.uint32) < surplus).nonzero()[0]
    while redraw.size:
        product[redraw] = fresh = bits.array(redraw.size, np.uint32) * factor
        redraw = redraw[fresh.astype(np.uint32) < surplus]
    product >>= np.uint64(32)
    return product.view(np.int64)


def _draw_masked(m: int, count: int, bits: Bits) -> NDArray[np.int64]:
    """Draw integers with as many bits as m - 1 until all are below m; `below_array` does so if m > 2^32."""
    mask, largest = np.uint64((1 << (m - 1).bit_length()) - 1), np.uint64(m - 1)
    values = bits.array(count, np.uint64) & mask
    redraw = (values > largest).nonzero()[0]
    while redraw.size:
        values[redraw] = fresh = bits.array(redraw.size, np.uint64) & mask
        redraw = redraw[fresh > largest]
    return values.view(np.int64)


def uniform(noise_bound: int, bits: Bits) -> int:
    """Draw an integer, uniform on {-R .. R}, R = `noise_bound` of any size. Raises ValueError if R < 0."""
    return below(2 * noise_bound + 1, bits) - noise_bound


def uniform_rows(noise_bounds: NDArray[np.int64], n: int, bits: Bits) -> NDArray[np.int64]:
    """Draw n integers, uniform on {-R .. R}, for each R, int64 (count, n). Raises ValueError if R >= 2^62."""
    if noise_bounds.min(initial=0) < 0 or noise_bounds.max(initial=0) >= 1 << 62:
        raise ValueError("a row's noise bound must lie in 0 .. 2^62 - 1")
    ranges = (2 * noise_bounds + 1).view(np.uint64)
    widest = int(ranges.max(initial=0))
    noise = np.empty((noise_bounds.size, n), np.int64)
    wide = widest > 1 << 32
    rows = 1 if wide else max(1, _BATCH_VALUES // max(1, n))
    for start in range(0, noise_bounds.size, rows):
        part = slice(start, start + rows)
        values = below_array(int(ranges[start]), n, bits) if wide else _draw_scaled(ranges[part], n, bits)
        np.subtract(values, noise_bounds[part, np.newaxis], out=noise[part])
    return noise


def _draw_scaled(ranges: NDArray[np.uint64], n: int, bits: Bits) -> NDArray[np.int64]:
    """Draw a row of n integers below each of `ranges`, which are at most 2^32."""
    product = bits.array(ranges.size * n, np.uint32).reshape(-1, n) * ranges[:, np.newaxis]
    flat, surplus = product.reshape(-1), ((1 << 32) % ranges).astype(np.uint32)
    redraw = np.flatnonzero(product.astype(np.uint32) < surplus[:, np.newaxis])
    while redraw.size:
        row = redraw // n
        flat[redraw] = fresh = bits.array(redraw.size, np.uint32) * ranges[row]
        redraw = redraw[fresh.astype(np.uint32) < surplus[row]]
    product >>= np.uint64(32)
    return product.view(np.int64)
