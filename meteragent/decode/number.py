"""The profile `number`, whose payload is one number as text, such as ``512.3``; and exact arithmetic."""

import math
import re
from collections.abc import Callable, Iterable
from decimal import ROUND_FLOOR, Context, Decimal, InvalidOperation
from fractions import Fraction
from functools import partial

from meteragent.decode import PayloadNumber
from meteragent.decode.foreign import form_of_bytes, form_of_text
from meteragent.domain.errors import PayloadError
from meteragent.domain.units import MICRO
from meteragent.privacy.exact import round_half_up

_NUMBER = re.compile(r"\s*[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)
_NOT_FINITE = re.compile(r"\s*[+-]?(nan|inf|infinity)\s*", re.ASCII | re.IGNORECASE)
_VALUE_MAX = Decimal(10) ** 12
_NUMBER_MAX = Decimal(10) ** 100
_EXACT_CONTEXT = Context(prec=240, rounding=ROUND_FLOOR)
"""A context in which numbers up to 10**100 with at most 130 decimals are added exactly."""
_MICRO = Decimal(10) ** 6
_HALF = Decimal("0.5")
_FLOOR_CONTEXT = Context(prec=64, rounding=ROUND_FLOOR)
_UNIT_MAX = 10**36
_EXPONENT_MIN = -20
_ZERO = Decimal(0)


def text_of(payload: bytes) -> str:
    """Decode a payload as text, without trailing NULs and white space. Raises PayloadError if not text."""
    content = payload.rstrip(b"\0 \t\r\n")
    if not content:
        raise PayloadError("refused_empty")
    try:
        return content.decode()
    except UnicodeDecodeError:
        pass
    raise PayloadError(form_of_bytes(content) or "refused_encoding")


def parse_finite(text: str) -> Decimal:
    """Parse a finite number as a decimal; return 0 or ±10**100 if the exponent is too large for a decimal."""
    try:
        return Decimal(text)
    except InvalidOperation:
        mantissa, _, exponent = text.lower().partition("e")
        if exponent.startswith("-") or not Decimal(mantissa):
            return Decimal(0)
        return _NUMBER_MAX.copy_sign(Decimal(mantissa))


def sum_clamped(numbers: Iterable[Decimal]) -> Decimal:
    """Return the sum of numbers, each clamped to ±10**100; exact if no number has more than 130 decimals."""
    result = Decimal(0)
    for number in numbers:
        result = _EXACT_CONTEXT.add(result, min(max(number, -_NUMBER_MAX), _NUMBER_MAX))
    return result


def to_millionths(value: Decimal) -> int:
    """Return a value in whole millionths: floor(value * 10**6 + 1/2), clamped as in `make_scaler`."""
    return _round_decimal(value, _MICRO)


def make_scaler(factor: Fraction) -> Callable[[Decimal], int]:
    """Make the exact function floor(value * factor * 10**6 + 1/2), which clamps huge values first."""
    unit = factor * MICRO
    if unit.denominator == 1 and unit.numerator < _UNIT_MAX:
        return partial(_round_decimal, unit=Decimal(unit.numerator))
    return lambda value: round_half_up(Fraction(_clamp(value)) * unit)


def _round_decimal(value: Decimal, unit: Decimal) -> int:
    """Return floor(value * unit + 1/2), which has at most 49 digits, computed with 64-digit decimals."""
    return math.floor(_FLOOR_CONTEXT.fma(_clamp(value), unit, _HALF))


def _clamp(value: Decimal) -> Decimal:
    """Clamp a value to ±10**12 (`window.range` is less), or to 0 if its absolute value is below 10**-19."""
    if value.copy_abs() > _VALUE_MAX:  # abs() would round and could overflow
        return _VALUE_MAX.copy_sign(value)
    return value if value.adjusted() > _EXPONENT_MIN else _ZERO


def read_bare(payload: bytes) -> tuple[PayloadNumber]:
    """Read a payload that is one number without a time. Raises PayloadError as `read_number` does."""
    return (PayloadNumber(None, read_number(payload)),)


def read_number(payload: bytes) -> Decimal:
    """Read a bare number. Raises PayloadError if it is empty, not UTF-8, not a number or not finite."""
    return parse_number(text_of(payload))


def parse_number(text: str) -> Decimal:
    """Parse a string as a number. Raises PayloadError if it is not a number or not finite."""
    if _NOT_FINITE.fullmatch(text):
        raise PayloadError("refused_not_finite")
    if not _NUMBER.fullmatch(text):
        raise PayloadError(form_of_text(text) or "refused_type")
    return parse_finite(text.strip())
