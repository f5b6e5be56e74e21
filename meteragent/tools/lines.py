"""Format numbers for columns, and sentences as lines, for a terminal."""

import textwrap
from collections.abc import Iterable, Iterator

from meteragent.config import Receiver
from meteragent.report.language import say

WIDTH = 79


def format_column(number: float) -> str:
    """Format a number to three figures, and as a whole number from 100 on, but never with an exponent."""
    decimals = sum(abs(number) < limit for limit in (99.95, 9.995, 0.9995))
    return f"{number:.{decimals}f}"


def silence_texts(receivers: Iterable[Receiver]) -> Iterator[str]:
    """Yield, for each receiver that is paused or has ended, a sentence that says so."""
    return (f"{item.name}: {say(f'receivers.{item.state}')}." for item in receivers if item.state)


def wrap_sentence(text: str) -> list[str]:
    """Return a sentence as lines of at most `WIDTH` characters, without breaking words."""
    return textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False)
