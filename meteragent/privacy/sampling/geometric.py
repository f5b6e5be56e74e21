"""Geometric and discrete Laplace numbers, many at a time: P(g) = (1-e^-a) e^(-ag).

The binary digits of g are independent: digit j is one with probability 1/(1+e^(a 2^j)), and what is
beyond 2^J is again geometric (THEORY 2.4). All digits of a vector are decided at once, by 8 random bits
each; the 1 in 256 that ties reveals 64 more.
"""

from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from meteragent.privacy.bits import Bits, UnsignedArray
from meteragent.privacy.exact import exp_neg_bounds
from meteragent.privacy.sampling.parameters import check_parameters

_TAIL = 45  # a number has a digit j while a 2^j is below it: what is beyond has chance e^-45


def _floor_bits(num: int, den: int, k: int, digit: bool) -> int:
    """floor(2^k p), certified, with y = e^(-num/den): p = y/(1+y) of a digit, p = y of the rest."""
    guard = 16
    while True:
        one = 1 << k + guard
        lo, hi = exp_neg_bounds(num, den, k + guard)
        if digit:
            lo, hi = lo * one // (one + lo), hi * one // (one + hi) + 1
        if lo >> guard == hi >> guard:
            return lo >> guard
        guard *= 2


@lru_cache(maxsize=256, typed=True)
def _expansions(a: Fraction, level: int) -> UnsignedArray:
    """One chunk of the binary expansion of each digit's probability, and last of the rest's.

    Level 0 is the first 8 bits (uint8), each later level the next 64 (uint64).
    """
    a = check_parameters(1, a)
    digits = 0
    while a.numerator << digits < _TAIL * a.denominator:
        digits += 1
    k, dtype = 8 + 64 * level, np.uint64 if level else np.uint8
    floors = [_floor_bits(a.numerator << j, a.denominator, k, j < digits) for j in range(digits + 1)]
    return np.array([floor % (1 << 64) for floor in floors], dtype)


def geometric(count: int, a: Fraction, bits: Bits) -> NDArray[np.int64]:
    """`count` independent g >= 0 with P(g) = (1-e^-a) e^(-ag), exactly (THEORY 2.4), as int64.

    Works on count * (log2(45/a) + 1) bytes at once.

    Raises:
        TypeError: `a` is not exact.  ValueError: a <= 0 or 1/a >= 2^45.
    """
    first = _expansions(a, 0)[:, np.newaxis]
    drawn = bits.array(first.size * count, np.uint8).reshape(first.size, count)
    ones = drawn < first
    row, column = np.divmod(np.flatnonzero(drawn == first), max(count, 1))
    level = 0
    while row.size:
        level += 1
        more, chunk = bits.array(row.size, np.uint64), _expansions(a, level)[row]
        ones[row, column] = more < chunk
        tied = more == chunk
        row, column = row[tied], column[tied]
    digits = first.size - 1
    values: NDArray[np.int64] = (np.int64(1) << np.arange(digits)) @ ones[:digits]
    beyond = np.flatnonzero(ones[digits])
    if beyond.size:
        values[beyond] += (1 + geometric(beyond.size, a * (1 << digits), bits)) << digits
    return values


def discrete_laplace(count: int, a: Fraction, bits: Bits) -> NDArray[np.int64]:
    """`count` independent z with P(z) = tanh(a/2) e^(-a|z|), exactly, as int64 (THEORY 2.4).

    The difference of two geometrics; what `radius` and `uniform` give for n = 1, many at a time.

    Raises:
        TypeError: `a` is not exact.  ValueError: a <= 0 or 1/a >= 2^45.
    """
    return geometric(count, a, bits) - geometric(count, a, bits)
