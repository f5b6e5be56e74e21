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
    values = np.empty(count, np.int64)
    _fill_scaled(values, np.uint64(m), bits)
    return values


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


def uniform_rows(
    noise_bounds: NDArray[np.int64], n: int, bits: Bits, points: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """Draw n integers, uniform on {-R .. R}, for each R, int64 (count, n), and add them to `points`.

    Raises ValueError if R >= 2^62.
    """
    if noise_bounds.min(initial=0) < 0 or noise_bounds.max(initial=0) >= 1 << 62:
        raise ValueError("a row's noise bound must lie in 0 .. 2^62 - 1")
    ranges = (2 * noise_bounds + 1).view(np.uint64)
    noise = np.empty((noise_bounds.size, n), np.int64)
    wide = int(ranges.max(initial=0)) > 1 << 32
    rows = 1 if wide else max(1, _BATCH_VALUES // max(1, n))
    for start in range(0, noise_bounds.size, rows):
        part = slice(start, start + rows)
        values = noise[part]
        if wide:
            values[:] = below_array(int(ranges[start]), n, bits)
        else:
            _fill_scaled(values, ranges[part, np.newaxis], bits)
        values -= noise_bounds[part, np.newaxis]
        if points is not None:  # added here, while the values are in the processor's cache
            values += points[part]
    return noise


def uniform_columns(noise_bounds: NDArray[np.int64], n: int, bits: Bits) -> NDArray[np.int64]:
    """Draw as `uniform_rows` does for R < 2^31, but slot by slot, which is faster for small n."""
    noise = np.empty((noise_bounds.size, n), np.int64)
    columns = np.empty((n, noise_bounds.size), np.int64)
    _fill_scaled(columns, (2 * noise_bounds + 1).view(np.uint64), bits)
    np.subtract(columns, noise_bounds, out=noise.T)
    return noise


def _fill_scaled(values: NDArray[np.int64], ranges: NDArray[np.uint64] | np.uint64, bits: Bits) -> None:
    """Fill `values`, C-contiguous, with integers below `ranges`, which broadcast to it: at most 2^32."""
    product = values.view(np.uint64)
    np.multiply(bits.array(values.size, np.uint32).reshape(values.shape), ranges, out=product)
    # Of the 2^32 words, 2^32 mod m are too many to be shared equally among m integers.
    redraw = np.flatnonzero(product.astype(np.uint32) < ((1 << 32) % ranges).astype(np.uint32))
    while redraw.size:
        m = np.broadcast_to(ranges, values.shape).flat[redraw]
        product.reshape(-1)[redraw] = fresh = bits.array(redraw.size, np.uint32) * m
        redraw = redraw[fresh.astype(np.uint32) < (1 << 32) % m]
    product >>= np.uint64(32)
