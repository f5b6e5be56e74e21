"""Types of command-line arguments: each parses a string.

argparse shows the message of an ArgumentTypeError, but not of a ValueError, which `refusing` converts.
"""

import argparse
import math
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import TypeVar

from meteragent.domain.grid import parse_duration, parse_time
from simulators.homes.signature import DAY_S
from simulators.papers import ITEMS

T = TypeVar("T")


def seed(text: str) -> int:
    """Parse a seed. Raises ArgumentTypeError unless it is a whole number from 0 to 2^64 - 1."""
    if not text.isdecimal() or int(text) >= 1 << 64:
        raise argparse.ArgumentTypeError(f"a seed is a whole number from 0 to 2**64 - 1, not {text}")
    return int(text)


def at_least(minimum: int, description: str = "") -> Callable[[str], int]:
    """Return a parser of whole numbers from `minimum` to 2^64 - 1.

    The parser raises ArgumentTypeError for any other text; its message says that the text is not
    `description`.
    """
    description = description or f"a whole number from {minimum} to 2**64 - 1"

    def parse(text: str) -> int:
        """Parse a whole number. Raises ArgumentTypeError if it is not in range."""
        if not text.isdecimal() or not minimum <= int(text) < 1 << 64:
            raise argparse.ArgumentTypeError(f"{text} is not {description}")
        return int(text)

    return parse


positive = at_least(1)
days = at_least(1, "a number of days")
homes = at_least(2, "a number of homes, at least 2")
meters = at_least(1, "a number of meters")


def levels(text: str) -> list[Fraction]:
    """Parse lo:hi:k; return k levels from lo to hi in geometric progression, to three significant digits.

    Raises ValueError if `text` does not have this form, if lo is not positive or is above hi, if k < 1, or if
    k is 1 and lo < hi.
    """
    try:
        low, high, count = text.split(":")
        lowest, highest, k = float(low), float(high), int(count)
    except ValueError:
        raise ValueError(f"levels are lo:hi:k, such as 0.1:10:5, not {text}") from None
    if not (0 < lowest <= highest < math.inf and k >= 1 and (k > 1 or lowest == highest)):
        condition = "0 < lo <= hi and k >= 1, and with lo = hi if k is 1"
        raise ValueError(f"levels are lo:hi:k with {condition}, not {text}")
    ratio = (highest / lowest) ** (1 / max(k - 1, 1))
    return [Fraction(f"{lowest * ratio**i:.3g}") for i in range(k)]


def step(text: str) -> int:
    """Parse a duration, such as 15min; return it in seconds.

    Raises ArgumentTypeError if it is not a duration, or not a whole number of seconds that divides a day.
    """
    try:
        step_s, remainder_ms = divmod(parse_duration(text), 1000)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if remainder_ms or not step_s or DAY_S % step_s:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number of seconds that divides a day")
    return step_s


def refusing(parse: Callable[[str], T]) -> Callable[[str], T]:
    """Wrap a parser so that argparse shows the message of its ValueError."""

    def parsed(text: str) -> T:
        """Parse `text`, and turn a ValueError into an ArgumentTypeError."""
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parsed


def url(text: str) -> str:
    """Return a broker's URL unchanged. Raises ValueError if `text` is not the URL of a broker."""
    from simulators.wire import broker  # noqa: PLC0415  it needs the extra `sim`

    broker(text)
    return text


def loops(text: str) -> int:
    """Parse a number of repetitions, or 0 for an endless replay. Raises ValueError for anything else."""
    if not text.isdecimal():
        raise ValueError(f"{text} is neither a number of repetitions nor 0 (for ever)")
    return int(text)


def trace_file(text: str) -> Path:
    """Parse the path of a trace to write. Raises ValueError if it does not end in .csv or .parquet."""
    path = Path(text)
    if path.suffix not in (".csv", ".parquet"):
        raise ValueError(f"{text} is neither FILE.csv nor FILE.parquet")
    return path


def speed(text: str) -> float:
    """Parse a multiple of real time, or max (infinity). Raises ValueError for anything else."""
    factor = math.inf if text == "max" else float(text)
    if not factor > 0:
        raise ValueError(f"{text} is neither a factor above 0 nor max")
    return factor


def start(text: str) -> int | None:
    """Parse an RFC 3339 time, now or column; return the Unix time in ms, or None for column.

    Raises ValueError for anything else.
    """
    if text == "now":
        return time.time_ns() // 1_000_000
    return None if text == "column" else parse_time(text)


def radius(text: str) -> Fraction:
    """Parse a positive number of watts, such as 40 or 1/2. Raises ArgumentTypeError for anything else."""
    try:
        watts = Fraction(text)
    except (ValueError, ZeroDivisionError):
        watts = Fraction(0)
    if watts <= 0:
        raise argparse.ArgumentTypeError(f"{text} is not a number of watts above 0")
    return watts


def item(text: str) -> str:
    """Return the name of an item of `paper`. Raises ArgumentTypeError if there is no such item."""
    if text not in ITEMS:
        raise argparse.ArgumentTypeError(f"{text} is none of {', '.join(ITEMS)}")
    return text
