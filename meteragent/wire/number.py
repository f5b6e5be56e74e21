"""Numbers as text in messages."""

from meteragent.domain.units import MICRO


def decimal_text(value_u: int) -> str:
    """Format a number of millionths as an exact JSON number without an exponent or trailing zeros."""
    units, remainder_u = divmod(abs(value_u), MICRO)
    sign = "-" if value_u < 0 else ""
    fraction = f".{remainder_u:06d}".rstrip("0") if remainder_u else ""
    return f"{sign}{units}{fraction}"


def figure(number: float) -> float:
    """Round a number to four significant digits, the precision of `sd` and `ci95` in messages."""
    return float(f"{number:.4g}")
