"""The bounds of the numbers in messages: what every receiver and its tables can hold."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Final, NamedTuple

from meteragent.domain.units import DAY_MS, MICRO

Number = int | Fraction


class Bounds(NamedTuple):
    """The smallest and the largest value of a number."""

    low: Number
    high: Number


VALUE_MAX: Final = (2**63 - 1) // MICRO
"""The largest value, in any unit: its millionths are 64-bit integers."""

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
"""The numbers of a descriptor that follow from a configuration; durations are in ms."""


def beyond(numbers: Mapping[str, Number]) -> str | None:
    """Return the name of the first number that is beyond its bounds, or None."""
    wrong = (name for name, number in numbers.items() if not BOUNDS[name].low <= number <= BOUNDS[name].high)
    return next(wrong, None)
