"""Argument types for options that several commands share."""

import argparse
import math
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import TypeVar

from meteragent.domain.grid import parse_duration, parse_time
from simulators.papers import ITEMS
from simulators.signature import DAY_S

T = TypeVar("T")


def seed(text: str) -> int:
    """Parse a seed, a whole number from 0 to 2^64 - 1; raise argparse's error for anything else."""
    if not text.isdecimal() or int(text) >= 1 << 64:
        raise argparse.ArgumentTypeError(f"a seed is a whole number from 0 to 2**64 - 1, not {text}")
    return int(text)


def positive(text: str) -> int:
    """Parse a positive whole number; raise argparse's error for anything else."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number above 0")
    return int(text)


def levels(text: str) -> list[Fraction]:
    """Parse lo:hi:k; return k levels from lo to hi in constant ratio, rounded to three significant digits.

    Raises ValueError if `text` does not have this form.
    """
    try:
        low, high, count = text.split(":")
        lowest, highest, k = float(low), float(high), int(count)
    except ValueError:
        raise ValueError(f"levels are lo:hi:k, such as 0.1:10:5, not {text}") from None
    if not (0 < lowest <= highest < math.inf and k >= 1 and (k > 1 or lowest == highest)):
        raise ValueError(f"levels are lo:hi:k with 0 < lo < hi and k > 1, not {text}")
    ratio = (highest / lowest) ** (1 / max(k - 1, 1))
    return [Fraction(f"{lowest * ratio**i:.3g}") for i in range(k)]


def count(text: str) -> int:
    """Parse a number of homes or days; raise argparse's error for anything else."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number from 1 on")
    return int(text)


def days(text: str) -> int:
    """Parse a number of days; raise argparse's error for anything else."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number of days")
    return int(text)


def homes(text: str) -> int:
    """Parse a number of homes, at least 2; raise argparse's error for anything else."""
    if not text.isdecimal() or int(text) < 2:
        raise argparse.ArgumentTypeError(f"{text} is not a number of homes, at least 2")
    return int(text)


def step(text: str) -> int:
    """Parse a duration that divides a day, in seconds; raise argparse's error for anything else."""
    try:
        step_s, rest_ms = divmod(parse_duration(text), 1000)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if rest_ms or DAY_S % step_s:
        raise argparse.ArgumentTypeError(f"{text} is not whole seconds that divide a day")
    return step_s


def refusing(parse: Callable[[str], T]) -> Callable[[str], T]:
    """Wrap a parser so that argparse shows the message of its ValueError."""

    def parsed(text: str) -> T:
        """Parse the text."""
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parsed


def url(text: str) -> str:
    """Check a broker's address and return it; raises ValueError."""
    from simulators.wire import broker  # noqa: PLC0415  it needs the extra `sim`

    broker(text)
    return text


def meters(text: str) -> int:
    """Parse a number of meters; raises ValueError."""
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"{text} is not a number of meters")
    return int(text)


def loops(text: str) -> int:
    """Parse a number of repetitions, or 0; raises ValueError."""
    if not text.isdecimal():
        raise ValueError(f"{text} is neither a number of repetitions nor 0 (for ever)")
    return int(text)


def trace_file(text: str) -> Path:
    """Parse the path of a trace to write; raises ValueError."""
    path = Path(text)
    if path.suffix not in (".csv", ".parquet"):
        raise ValueError(f"{text} is neither FILE.csv nor FILE.parquet")
    return path


def speed(text: str) -> float:
    """Parse a multiple of real time, or max; raises ValueError."""
    factor = math.inf if text == "max" else float(text)
    if not factor > 0:
        raise ValueError(f"{text} is neither a factor above 0 nor max")
    return factor


def start(text: str) -> int | None:
    """Parse the time of the first reading in ms: RFC 3339, now, or column (None); raises ValueError."""
    if text == "now":
        return time.time_ns() // 1_000_000
    return None if text == "column" else parse_time(text)


def level_range(text: str) -> list[Fraction]:
    """Parse lo:hi:k as `levels` does; raise argparse's error for anything else."""
    try:
        return levels(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def radius(text: str) -> Fraction:
    """Parse a number of watts above 0; raise argparse's error for anything else."""
    try:
        watts = Fraction(text)
    except (ValueError, ZeroDivisionError):
        watts = Fraction(0)
    if watts <= 0:
        raise argparse.ArgumentTypeError(f"{text} is not a number of watts above 0")
    return watts


def at_least(minimum: int) -> Callable[[str], int]:
    """Return a parser of whole numbers that are at least `minimum`."""

    def parse(text: str) -> int:
        """Parse a number; raise argparse's error for anything else."""
        if not text.isdecimal() or not minimum <= int(text) < 1 << 64:
            raise argparse.ArgumentTypeError(f"{text} is not a whole number from {minimum} to 2**64 - 1")
        return int(text)

    return parse


def item(text: str) -> str:
    """Parse an item's name; raise argparse's error if there is no such item."""
    if text not in ITEMS:
        raise argparse.ArgumentTypeError(f"{text} is none of {', '.join(ITEMS)}")
    return text
