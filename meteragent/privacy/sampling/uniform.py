"""Integers that are equally likely: masked rejection, the fair way to a range that is no power of two."""

import numpy as np
from numpy.typing import NDArray

from meteragent.privacy.bits import Bits


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
