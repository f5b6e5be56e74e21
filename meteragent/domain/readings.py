"""What a stream's readings mean, how often they come, and the limits to which they are clamped."""

from dataclasses import dataclass
from fractions import Fraction

from meteragent.domain.units import HOUR_MS, MICRO, UNIT_FACTOR, Kind


@dataclass(frozen=True, slots=True)
class ReadingRules:
    """What the readings of a stream mean, how often they come, and their limits.

    kind         what a reading means (law 5)
    unit         its unit
    interval_ms  the time that an interval energy covers; for a register one hour, the unit of time of its
                 rates; 0 for power
    hold_ms      the longest time for which a power reading applies; 0 for energies
    gap_u        the value that applies to time without a reading
    low_u        the lower limit, to which readings are clamped
    high_u       the upper limit
    modulus_u    the value at which a register starts again at 0; None if unknown
    every_ms     the longest time between readings; 0 if they are sent on change, None if unknown
    dead_band    the largest difference between a power and its last reading, or the step in which an energy
                 is counted, in the unit; None if unknown
    counters     the number of counters, each cut off to its step, that one reading sums

    The limits and the gap value are in millionths of the unit or, for a register, of the unit per hour.
    """

    kind: Kind
    unit: str
    interval_ms: int
    hold_ms: int
    gap_u: int
    low_u: int
    high_u: int
    modulus_u: int | None
    every_ms: int | None
    dead_band: Fraction | None
    counters: int

    @property
    def meaning(self) -> tuple[Kind, str, int]:
        """What determines the meaning of a value; if it changes, open windows cannot continue."""
        return self.kind, self.unit, self.interval_ms

    @property
    def reach_ms(self) -> int:
        """The longest span of a reading of power or interval energy."""
        return self.hold_ms or self.interval_ms

    @property
    def width_w(self) -> Fraction:
        """The width of the range as a power, in W."""
        width = Fraction(self.high_u - self.low_u, MICRO) * UNIT_FACTOR[self.unit]
        return width if self.kind is Kind.POWER else width * HOUR_MS / self.interval_ms

    @property
    def longest_hold_ms(self) -> int:
        """The longest time for which a power reading applies; 0 if unknown, or if readings come on change."""
        return min(self.every_ms or 0, self.hold_ms)
