"""Format numbers for columns, and sentences as lines, for a terminal."""

import textwrap

WIDTH = 79


def format_column(number: float) -> str:
    """Format a number to about four figures, to fit a column, and never in exponent notation."""
    decimals = 0 if abs(number) >= 1000 else 1 if abs(number) >= 10 else 3
    return f"{number:.{decimals}f}"


def wrap_sentence(text: str) -> list[str]:
    """Return a sentence as lines of at most `WIDTH` characters, without breaking words."""
    return textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False)
