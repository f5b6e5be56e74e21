"""The terms of a release: the promise, and the window for which it is made."""

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import cached_property

from meteragent.domain import codec
from meteragent.domain.grid import Band
from meteragent.domain.metric import Metric
from meteragent.domain.prices import PRICE_MS, Price, cut_at_prices
from meteragent.domain.readings import ReadingRules
from meteragent.domain.shapes import Amount, Bands, Shape, WithShape
from meteragent.domain.units import DAY_MS, MICRO, MINUTE_MS, UNIT_FACTOR, Kind
from meteragent.privacy import accuracy
from meteragent.privacy.mechanism.laplace import LInfLaplace


class Clock(StrEnum):
    """The clock that opens and closes windows: the wall clock, or each meter's newest accepted timestamp."""

    WALL = "wall"
    EVENT = "event"


Rounding = accuracy.Rounding
"""The rounding of a slot's energy S to whole quanta of L accumulator units: floor((S + u) / L) with u uniform
on {0, ..., L - 1}, which is S / L on average (THEORY A.1), or, in archives, floor(S / L + 1/2)."""

_SPLIT_MIN_MS = 15 * MINUTE_MS


@dataclass(frozen=True)  # without slots, because the properties are cached
class Terms(WithShape):
    """The terms of a release; a window closes under the terms with which it opened (law 1).

    shape           the kind of window, and its slots
    readings        what readings mean, and their limits
    clock           the clock that opens and closes windows
    lateness_ms     how long after its end a slot closes
    level, radius   the promise: epsilon = level / radius; the radius is in the unit of the values
    metric          the distance to which the promise refers; for `l1`, the noise of each slot is independent,
                    and the radius bounds the sum of the changes in all slots
    quantum_u       the step of the lattice of values, in millionths of their unit
    rounding        the rule that turns a slot's value into whole quanta
    timezone        the zone of the local calendar; None on the epoch grid
    preset          the preset's name; None if a number or the slots differ from the preset's
    others_per_day  the charge of the meter's other streams per day, as epsilon in 1/W
    places          where the bands of the window lie, in their order; empty unless slots are bands
    prices          the prices from a table, with times in ms after the window's start; empty without a table
    """

    shape: Shape
    readings: ReadingRules
    clock: Clock
    lateness_ms: int
    level: Fraction
    radius: Fraction
    metric: Metric
    quantum_u: int
    rounding: Rounding
    timezone: str | None
    preset: str | None
    others_per_day: Fraction
    places: tuple[Band, ...] = ()
    prices: tuple[Price, ...] = ()

    @cached_property
    def id(self) -> str:
        """The id of exactly these terms, a digest of their text."""
        return codec.digest(self)

    # --- the window and its slots --------------------------------------------------------------

    @cached_property
    def slots_per_bound(self) -> int:
        """The number of slots whose noise shares a noise bound: all slots of a window, or in l1 one slot."""
        return 1 if self.metric.is_sum else self.n

    @cached_property
    def stretches(self) -> list[tuple[tuple[int, int], ...]]:
        """The stretches of each slot as (from, to) in ms after the window's start, in order."""
        if self.places:
            return [band.stretches for band in self.places]
        return [(self.shape.extent_ms(slot_index),) for slot_index in range(self.n)]

    @cached_property
    def first_slot_ms(self) -> tuple[int, int]:
        """The start and end of the slot that ends first, in ms after the window's start."""
        return min(((slot[0][0], slot[-1][1]) for slot in self.stretches), key=lambda extent: extent[1])

    @cached_property
    def split_span_max_ms(self) -> int | None:
        """The longest span, in ms, whose energy is split at the boundaries of bands; None if all are split.

        The energy of a longer span is in the unknown band, because its time of use is unknown.
        """
        if not isinstance(self.shape, Bands) or not self.shape.has_unknown:
            return None
        return max(2 * (self.readings.every_ms or 0), _SPLIT_MIN_MS)

    @cached_property
    def prices_max(self) -> int:
        """The largest number of prices in a window, at least 1."""
        if not isinstance(self.shape, Amount):
            return 1
        if self.prices:
            return sum(1 for _ in cut_at_prices(self.prices, self.shape.default_u, 0, self.length_ms))
        return -(-self.length_ms // PRICE_MS)

    def slot_ms(self, slot_index: int) -> int:
        """Return the duration to which a slot's value refers."""
        return self.shape.slot_ms(slot_index)

    # --- values --------------------------------------------------------------------------------

    @cached_property
    def is_energy(self) -> bool:
        """Whether values are energies or amounts; all other values are means of the power."""
        return self.shape.is_energy(self.readings.kind)

    @cached_property
    def value_unit(self) -> str:
        """The unit of the values that are sent."""
        return self.shape.value_unit(self.readings.unit, self.readings.kind)

    @cached_property
    def hours_per_value(self) -> Fraction:
        """The factor that makes a value an energy: 1, or the hours of `step_ms` if it is a mean."""
        return self.shape.hours_per_value(self.readings.kind)

    @cached_property
    def quantum(self) -> Fraction:
        """The step of the lattice of slot values, in their unit."""
        return Fraction(self.quantum_u, MICRO)

    @cached_property
    def steps_per_quantum(self) -> list[int]:
        """One quantum in units of each slot's accumulator (`Shape.steps_per_quantum`)."""
        steps = self.shape.steps_per_quantum
        return [steps(slot_index, self.quantum_u, self.readings) for slot_index in range(self.n)]

    @cached_property
    def wh_per_value(self) -> Fraction:
        """The W or Wh in one unit of a value; for an amount, the fewest Wh that can change it by one unit."""
        return self.shape.wh_per_value(self.readings.unit, self.readings.kind)

    @cached_property
    def value_per_reading(self) -> Fraction:
        """The largest change in a value per unit of a reading (for energies of a power: per unit and hour).

        This change is 1 unless values are amounts, means of energies, or in another unit than the readings.
        """
        hours = 1 if self.readings.kind is Kind.POWER else self.hours_per_value
        return UNIT_FACTOR[self.readings.unit] / self.wh_per_value / hours

    # --- the promise ---------------------------------------------------------------------------

    @cached_property
    def epsilon(self) -> Fraction:
        """The privacy parameter, level / radius, in 1/unit of the values (DESIGN 2)."""
        return self.level / self.radius

    @cached_property
    def mechanism(self) -> LInfLaplace:
        """The mechanism whose noise hides a window, or in l1 each slot; in a crowd, each operator uses it."""
        return LInfLaplace(self.epsilon, self.quantum, self.slots_per_bound)

    @cached_property
    def sd(self) -> float:
        """The standard deviation of the error in a slot's value, in its unit (`privacy.accuracy`)."""
        return accuracy.sd(self.mechanism, self.rounding)

    def half_width(self, coverage: float) -> float:
        """Return the half-width of the interval that covers a slot's value with probability `coverage`."""
        return accuracy.half_width(self.mechanism, coverage, self.rounding)

    @cached_property
    def distance_per_power(self) -> Fraction:
        """The distance by which one more unit of power throughout a window moves its values."""
        return self.shape.distance_per_power(self.readings.kind, self.metric)

    @cached_property
    def radius_w(self) -> Fraction:
        """The radius as a power: a change of 1 W throughout a window is 1/radius_w of the radius."""
        return self.radius * self.wh_per_value / self.distance_per_power

    @property
    def hides_wh(self) -> Fraction:
        """The change in a load's energy that is hidden, in a slot or, in l1, in all slots (THEORY 3.5)."""
        return self.radius * self.wh_per_value * self.hours_per_value

    @property
    def level_per_wh(self) -> Fraction:
        """The level for each Wh that a change adds or removes within the window: level / hide."""
        return self.level / self.hides_wh

    @cached_property
    def epsilon_per_w(self) -> Fraction:
        """The charge of one window, in 1/W, the unit in which the charges of all streams add up."""
        return self.level / self.radius_w

    @property
    def epsilon_per_w_day(self) -> Fraction:
        """The charge of a day of 24 hours, as epsilon in 1/W."""
        return self.epsilon_per_w * DAY_MS / self.length_ms
