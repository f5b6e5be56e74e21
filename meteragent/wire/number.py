"""How numbers are written."""

from meteragent.domain.units import MICRO


def decimal_text(value_u: int) -> str:
    """Return millionths as an exact JSON number: no exponent, no trailing zeros."""
    whole, rest = divmod(abs(value_u), MICRO)
    sign = "-" if value_u < 0 else ""
    fraction = f".{rest:06d}".rstrip("0") if rest else ""
    return f"{sign}{whole}{fraction}"


def figure(number: float) -> float:
    """Return a number of four significant digits, as messages show errors."""
    return float(f"{number:.4g}")
