"""Numbers as text for people: exact numbers in full, others to three figures."""

from decimal import Decimal, localcontext
from fractions import Fraction

_DIGITS = 60
_WHOLE_FROM = 999.5


def exact(number: Fraction) -> str:
    """Format an exact number as a decimal if it terminates, else as a fraction."""
    with localcontext(prec=_DIGITS):
        decimal = Decimal(number.numerator) / Decimal(number.denominator)
    return f"{decimal:f}" if Fraction(decimal) == number else str(number)


def figures(number: float | Fraction) -> str:
    """Format a number to three figures, or as a whole number from 1,000: ``0.0123``, ``659``, ``12,345``."""
    rounded = float(number)
    return f"{rounded:,.3g}" if abs(rounded) < _WHOLE_FROM else f"{rounded:,.0f}"
