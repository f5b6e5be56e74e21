"""Format numbers for columns, and sentences as lines, for a terminal."""

import textwrap

WIDTH = 79


def format_column(number: float) -> str:
    """Format a number to three figures, and as a whole number from 100 on, but never with an exponent."""
    decimals = sum(abs(number) < limit for limit in (99.95, 9.995, 0.9995))
    return f"{number:.{decimals}f}"


def wrap_sentence(text: str) -> list[str]:
    """Return a sentence as lines of at most `WIDTH` characters, without breaking words."""
    return textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False)
