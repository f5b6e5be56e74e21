"""How numbers are written for people: exact ones in full, others in three figures."""

from decimal import Decimal, localcontext
from fractions import Fraction

_DIGITS = 60
_WHOLE_FROM = 999.5


def exact(number: Fraction) -> str:
    """Return an exact number: a decimal where it has one, else a fraction."""
    with localcontext(prec=_DIGITS):
        decimal = Decimal(number.numerator) / Decimal(number.denominator)
    return f"{decimal:f}" if Fraction(decimal) == number else str(number)


def figures(number: float | Fraction) -> str:
    """Return three figures of a number, all of it from a thousand on: ``0.0123``, ``659``, ``12,345``."""
    rounded = float(number)
    return f"{rounded:,.3g}" if abs(rounded) < _WHOLE_FROM else f"{rounded:,.0f}"
