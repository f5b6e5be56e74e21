"""Numbers and durations as text in messages, and bounds small enough for every receiver's arithmetic."""

import re
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Final, NamedTuple

from meteragent.domain.units import DAY_MS, MICRO, UNIT_FACTOR

EXACT = r"-?\d{1,60}(\.\d{1,30}|/\d{1,60})?"
"""The pattern of an exact number as text: an integer, a decimal or a ratio of integers."""

DURATION = r"PT(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9}(?:\.\d{1,3})?)S)?"
"""The pattern of a duration in hours, minutes and seconds. The pattern also matches a duration of 0, and `PT`
alone, which is not a duration."""

EXACT_SCHEMA = {"type": "string", "pattern": f"^{EXACT}$", "examples": ["1/220"]}
DURATION_SCHEMA = {"type": "string", "pattern": f"^{DURATION}$", "minLength": 4, "examples": ["PT30M"]}
UNIT_SCHEMA = {"anyOf": [{"enum": list(UNIT_FACTOR)}, {"type": "string", "pattern": "^[A-Z]{3}$"}]}
"""The JSON Schemas of an exact number, a duration, and a unit or a currency."""

_EXACT = re.compile(EXACT, re.ASCII)
_DURATION = re.compile(DURATION, re.ASCII)

Number = int | Fraction


class Bounds(NamedTuple):
    """The smallest and the largest value of a number."""

    low: Number
    high: Number


VALUE_MAX: Final = (2**63 - 1) // MICRO
"""The largest value, in any unit, whose number of millionths is a 64-bit integer."""

BOUNDS: Final[Mapping[str, Bounds]] = {
    "n": Bounds(1, 50_000),
    "bands": Bounds(1, 288),
    "length": Bounds(1, 400 * DAY_MS),
    "step": Bounds(1, 400 * DAY_MS),
    "level": Bounds(Fraction(1, 10**9), 10**9),
    "radius": Bounds(Fraction(1, MICRO), VALUE_MAX),
    "quantum": Bounds(Fraction(1, MICRO), VALUE_MAX),
    "epsilon": Bounds(Fraction(1, 10**24), 10**18),
    "hides_wh": Bounds(Fraction(1, 10**18), 10**18),
}
"""The bounds of those numbers of a descriptor that come from a configuration; durations are in ms."""


def decimal_text(value_u: int) -> str:
    """Format a number of millionths as an exact JSON number without an exponent or trailing zeros."""
    units, remainder_u = divmod(abs(value_u), MICRO)
    sign = "-" if value_u < 0 else ""
    fraction = f".{remainder_u:06d}".rstrip("0") if remainder_u else ""
    return f"{sign}{units}{fraction}"


def shorten(number: float) -> float:
    """Round a number to four significant digits, the precision of `sd` and `ci95` in messages."""
    return float(f"{number:.4g}")


def read_exact(text: str) -> Fraction:
    """Return an integer, decimal or ratio. Raises ValueError for other texts, ZeroDivisionError for 1/0."""
    if _EXACT.fullmatch(text) is None:
        raise ValueError("not an integer, a decimal or a ratio of integers")
    return Fraction(text)


@lru_cache(maxsize=64)  # all records of a stream usually have the same duration
def parse_ms(text: str) -> int:
    """Return a duration in hours, minutes and seconds, in ms. Raises ValueError for other texts and 0."""
    match = _DURATION.fullmatch(text)
    hours, minutes, seconds = (Fraction(part or 0) for part in match.groups()) if match else (0, 0, 0)
    if not (total_ms := int(1000 * (3600 * hours + 60 * minutes + seconds))):
        raise ValueError("not a duration in hours, minutes and seconds, such as PT30M")
    return total_ms


def beyond_bounds(numbers: Mapping[str, Number]) -> str | None:
    """Return the name of the first number that is outside its bounds, or None."""
    wrong = (name for name, number in numbers.items() if not BOUNDS[name].low <= number <= BOUNDS[name].high)
    return next(wrong, None)
