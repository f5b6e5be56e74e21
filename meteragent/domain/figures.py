"""Numbers as text: exact, as written in a file, or rounded to three figures for people."""

import re
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

_DIGITS = 60
_WHOLE_FROM = 999.5
_EXPONENT = re.compile(r"[eE][+-]?(\d+)")
_EXPONENT_MAX = 30
"""Roughly the largest exponent of ten of a number in TOML; arithmetic with huge numbers takes too long."""
_EXPONENT_DIGITS = 3
_NUMBER_CHARS_MAX = 100


def parse_exact(value: Any) -> Fraction:
    """Parse an exact number from a TOML file. Raises ValueError, which states the expected value."""
    if isinstance(value, bool) or not isinstance(value, (int, Decimal, str)):
        raise ValueError("a decimal number")  # noqa: TRY004  pydantic reports ValueError only
    if not _is_ordinary(value):
        raise ValueError("a number of ordinary size, such as 220, 0.5 or '1/3'")
    try:
        return Fraction(value)
    except (ValueError, ZeroDivisionError, OverflowError):
        raise ValueError("a finite number such as 220 or '1/3', without the unit (source.unit)") from None


def _is_ordinary(value: int | Decimal | str) -> bool:
    """Return whether a number, in any notation, is small enough for fast arithmetic."""
    if isinstance(value, str):
        exponent = _EXPONENT.search(value)
        return len(value) <= _NUMBER_CHARS_MAX and (exponent is None or len(exponent[1]) < _EXPONENT_DIGITS)
    if isinstance(value, int):
        return value.bit_length() <= 4 * _EXPONENT_MAX
    return not value.is_finite() or abs(value.adjusted()) <= _EXPONENT_MAX


def exact_text(number: Fraction) -> str:
    """Format an exact number as a decimal if that has at most 60 digits, else as a fraction."""
    with localcontext(prec=_DIGITS):
        decimal = Decimal(number.numerator) / Decimal(number.denominator)
    return f"{decimal:f}" if Fraction(decimal) == number else str(number)


def count_text(count: int, noun: str) -> str:
    """Format a count with its noun: ``1 part``, ``1,200 parts``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def three_figures(number: float | Fraction) -> str:
    """Format a number to three figures; from 1,000 on, as a whole number: ``0.0123``, ``659``, ``12,345``."""
    rounded = float(number)
    return f"{rounded:,.3g}" if abs(rounded) < _WHOLE_FROM else f"{rounded:,.0f}"


def energy_figures(wh: Fraction) -> str:
    """Format an energy in Wh to three figures; from 1 kWh on, in kWh."""
    return f"{three_figures(wh)} Wh" if wh < 1000 else f"{three_figures(wh / 1000)} kWh"
