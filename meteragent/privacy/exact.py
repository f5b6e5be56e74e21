"""Exact arithmetic: rational parameters, rounding half up, and integer bounds on e^-x, ln x and x^n.

A privacy parameter is a `Fraction`, a `Decimal`, an int or a string such as "0.1" or "1/220". A float is
refused, because its value is not exactly the number that was written. Irrational numbers (powers of e and
logarithms) are not rounded either: 2^k times such a number is enclosed between integers that are proved to
lie below and above it, for a k that the caller chooses.
"""

from decimal import Decimal
from fractions import Fraction
from numbers import Real
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

Exact = Fraction | Decimal | int | str
"""The types of an exact number. Every function with such a parameter raises as `to_rational` does."""

SCALE_LIMIT = 1 << 45
"""The limit on n/a; below it noise exceeds int64 with a probability below e^-2^17."""

GUARD_BITS = 12
"""Extra bits of working precision: for k up to 1000, all errors together stay below one unit of a result."""


def set_fields(instance: object, **values: Any) -> None:
    """Set fields of a frozen dataclass, in its `__init__`."""
    for name, value in values.items():
        object.__setattr__(instance, name, value)


def require_present(values: ArrayLike) -> NDArray[Any]:
    """Return `values` as an array. Raises TypeError if a mask, NA or null marks some of them as missing."""
    if _has_missing(values):
        raise TypeError(
            "some values are marked as missing, by a mask or as NA: fill them, as by array.filled(0) or"
            " series.fillna(0), or leave out their windows"
        )
    return np.asarray(values)


def _has_missing(values: Any) -> bool:
    """Return whether a value is NA, or a container has NA or a mask, which numpy would ignore."""
    if isinstance(values, list | tuple):
        return any(map(_has_missing, values))
    if type(values) is not np.ndarray and isinstance(values, np.ndarray) and hasattr(values, "mask"):
        return True
    array = np.asarray(values)
    if array.ndim and array.dtype == object:
        return _has_missing(array.ravel().tolist())
    is_table = array.ndim and array.dtype.kind == "f" and not isinstance(values, np.ndarray)
    return bool(np.isnan(array).any()) if is_table else type(values).__name__ == "NAType"


def to_rational(name: str, value: Any) -> Fraction:
    """Return `value` as a Fraction; `name` is the parameter's name in error messages.

    Raises TypeError for a type that is not `Exact`, and ValueError for text or a Decimal without a finite
    number.
    """
    if isinstance(value, Fraction):
        return value
    if isinstance(value, bool) or not isinstance(value, int | Decimal | str):
        example = repr(str(value)) if isinstance(value, Real) and not isinstance(value, bool) else "'1/220'"
        raise TypeError(f"{name} must be exact, not {type(value).__name__}: write Fraction({example})")
    try:
        return Fraction(value)
    except (ValueError, OverflowError, ZeroDivisionError):
        raise ValueError(f"{name} must be a finite number such as '1/220' or '0.1', not {value!r}") from None


@overload
def round_half_up(numerator: int | Fraction, denominator: int = 1) -> int: ...
@overload
def round_half_up(
    numerator: NDArray[np.integer | np.object_], denominator: int | NDArray[np.integer | np.object_]
) -> NDArray[Any]: ...
def round_half_up(numerator: Any, denominator: Any = 1) -> Any:
    """Return floor(numerator / denominator + 1/2): the nearest whole number; of two nearest, the larger.

    The result is exact for ints, Fractions and arrays of Python ints, which broadcast. Arrays of a fixed
    width overflow without an error if 2 numerator + denominator or 2 denominator does not fit into their
    type, and return 0 for a denominator of 0, which raises ZeroDivisionError otherwise.
    """
    return (2 * numerator + denominator) // (2 * denominator)


def positive(name: str, value: Any) -> Fraction:
    """Return `value` as a Fraction. Raises as `to_rational` does, or ValueError unless `value` > 0."""
    exact = to_rational(name, value)
    if exact <= 0:
        raise ValueError(f"{name} must be positive, not {exact}")
    return exact


def not_negative(name: str, value: Any) -> Fraction:
    """Return `value` as a Fraction. Raises as `to_rational` does, or ValueError if `value` is negative."""
    exact = to_rational(name, value)
    if exact < 0:
        raise ValueError(f"{name} must not be negative: {exact}")
    return exact


def check_parameters(n: int, a: Exact) -> Fraction:
    """Return `a` exactly. Raises TypeError if n is no int; ValueError if n < 1, a <= 0 or n/a >= 2^45."""
    if not isinstance(n, int):
        raise TypeError(f"n must be an int, not {type(n).__name__}")
    if n < 1:
        raise ValueError(f"n must be at least 1, not {n}")
    exact = positive("a", a)
    if n >= exact * SCALE_LIMIT:
        raise ValueError(f"n/a must be below 2^45, and {n} / ({exact}) is not: take a coarser quantum")
    return exact


def exp_neg_bounds(num: int, den: int, k: int) -> tuple[int, int]:
    """Return integers lo <= 2^k e^(-num/den) <= hi, a few units apart, for num/den >= -1 and den > 0.

    The function sums the Taylor series of e^-y for y = num/den / 2^h with |y| <= 1/2, then squares the sum h
    times, in units of 2^-w. Each rounding down loses less than one unit, and in each later term this error
    shrinks by the factor |y|/i. So the error of a term is less than 2 units, and the omitted terms sum to
    less than 4.
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


def ln_bounds(x: Fraction, k: int) -> tuple[int, int]:
    """Return integers lo <= 2^k ln x <= hi, a few units apart, for a rational x > 0.

    ln x = h ln 2 + ln y with y = x / 2^h in [2/3, 4/3), and ln y = 2 artanh((y-1)/(y+1)), a series in powers
    of a number of magnitude at most 1/5; ln 2 = 2 artanh(1/3).
    """
    h = x.numerator.bit_length() - x.denominator.bit_length()
    y = x / Fraction(2) ** h
    while y >= Fraction(4, 3):
        h, y = h + 1, y / 2
    while y < Fraction(2, 3):
        h, y = h - 1, y * 2
    w = k + abs(h).bit_length() + GUARD_BITS
    (two_lo, two_hi), (lo, hi) = _artanh_bounds(Fraction(1, 3), w), _artanh_bounds((y - 1) / (y + 1), w)
    lo, hi = lo + h * (two_lo if h >= 0 else two_hi), hi + h * (two_hi if h >= 0 else two_lo)
    return 2 * lo >> w - k, (2 * hi >> w - k) + 1  # the factor 2 of 2 artanh


def _artanh_bounds(x: Fraction, w: int) -> tuple[int, int]:
    """Return integers that enclose 2^w artanh x, |x| <= 1/3; a power or a term loses less than 2 units."""
    size, den, sign = abs(x.numerator), x.denominator, 1 if x >= 0 else -1
    power = size * (1 << w) // den
    total, i = 0, 0
    while power:
        total += power // (2 * i + 1)
        power = power * size * size // (den * den)
        i += 1
    error = 3 * i + 3
    return sign * total - error, sign * total + error


def power_bounds(lo: int, hi: int, n: int, w: int) -> tuple[int, int]:
    """Return a lower and an upper integer bound on 2^w x^n, for 0 <= lo <= 2^w x <= hi and n >= 1."""
    return _power(lo, n, w, 0), _power(hi, n, w, 1)


def _power(base: int, n: int, w: int, up: int) -> int:
    """Return a lower (`up` = 0) or upper (`up` = 1) bound on 2^w (base/2^w)^n, by repeated squaring."""
    result = 1 << w
    while True:
        if n & 1:
            result = (result * base >> w) + up
        n >>= 1
        if not n:
            return result
        base = (base * base >> w) + up
