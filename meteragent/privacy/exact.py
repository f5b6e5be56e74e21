"""Exact arithmetic: parameters that are rational numbers, and e^-x between two integers.

A privacy parameter is a `Fraction` (or an int); a float is refused, because the number it holds is
not the number that was written. What is irrational, a power of e, is never rounded either: it is
enclosed between integers that are certified to lie below and above it, as closely as asked.
"""

from fractions import Fraction
from typing import Any

GUARD_BITS = 12
"""Extra bits of a working precision: enough that the error counts below cost less than one unit."""


def rational(name: str, value: Any) -> Fraction:
    """`value` as a Fraction, if it is exact; `name` is what the error calls it.

    Raises:
        TypeError: `value` is neither a Fraction nor an int; the text shows what to write.
    """
    if isinstance(value, Fraction):
        return value
    if isinstance(value, int):
        return Fraction(value)
    shown = repr(str(value)) if isinstance(value, float) else "'1/220'"
    raise TypeError(f"{name} must be exact, not {type(value).__name__}: write Fraction({shown})")


def positive(name: str, value: Any) -> Fraction:
    """`value` as a Fraction above zero.

    Raises:
        TypeError: it is not exact.  ValueError: it is not above zero.
    """
    exact = rational(name, value)
    if exact <= 0:
        raise ValueError(f"{name} must be above zero, not {exact}")
    return exact


def exp_neg_bounds(num: int, den: int, k: int) -> tuple[int, int]:
    """Integers lo <= 2^k e^(-num/den) <= hi, a few units apart, for num/den >= -1 and den > 0.

    Taylor's series of y = num/den / 2^h with |y| <= 1/2, then h squarings, all in units of 2^-w.
    Each floor loses less than one unit, and what it passes on to later terms shrinks by |y|/i: a
    term is less than 2 units off, and the terms left out sum to less than 4.
    """
    if num >= k * den:
        return 0, 1  # e^-x <= e^-k < 2^-k
    halvings = max(0, abs(num).bit_length() - den.bit_length() + 2)
    w = k + halvings + GUARD_BITS
    size, den, sign = abs(num), den << halvings, -1 if num > 0 else 1
    term = total = 1 << w
    i = 0
    while term > 1:
        i += 1
        term = term * size // (den * i)
        total += term if i % 2 == 0 else sign * term
    error = 2 * i + 4
    lo, hi = total - error, total + error
    for _ in range(halvings):
        lo, hi = lo * lo >> w, (hi * hi >> w) + 1
    return lo >> w - k, (hi >> w - k) + 1


def power_bounds(lo: int, hi: int, n: int, w: int) -> tuple[int, int]:
    """Integers below and above 2^w x^n, for lo <= 2^w x <= hi, 0 <= lo and n >= 1."""
    return _power(lo, n, w, 0), _power(hi, n, w, 1)


def _power(base: int, n: int, w: int, up: int) -> int:
    """2^w (base/2^w)^n by squaring; every product rounded down, or up by at most one unit."""
    result = 1 << w
    while True:
        if n & 1:
            result = (result * base >> w) + up
        n >>= 1
        if not n:
            return result
        base = (base * base >> w) + up
