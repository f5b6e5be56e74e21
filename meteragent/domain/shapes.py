"""The kinds of windows: one class each, which states all properties of its values.

A window is divided into slots, and each slot gives one number. A shape contains exactly what a descriptor
states, so that the configuration, the store and a receiver build the same object. A shape does not contain a
window's place in time. Its keys in a configuration, its texts and its messages are stated by one row each in
`meteragent.config`, `meteragent.report` and `meteragent.wire`. To add a kind, write its class here, and a row
wherever a test asks for it.

Methods take the kind of the readings and their unit as arguments, because the same slots hold means if the
readings are of power, and energies if they are of energy.
"""

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

from meteragent.domain.metric import Metric
from meteragent.domain.readings import ReadingRules
from meteragent.domain.units import ENERGY_UNIT, HOUR_MS, KILO, MICRO, POWER_UNIT, UNIT_FACTOR, Kind

UNKNOWN_BAND = "unknown"
"""The name of the band for energy whose time of use is unknown; it has no hours."""


class Space(StrEnum):
    """The name of a kind of window, as configurations and descriptors write it."""

    LINF = "linf"
    CURVE = "curve"
    PROFILE = "profile"
    BANDS = "bands"
    WEIGHTED = "weighted"
    PEAK = "peak"
    ABOVE = "above"
    SHARE = "share"


class Accumulator(StrEnum):
    """How readings make a slot's value: as a sum, as the largest part, or as a share of a sum."""

    SUM = "sum"
    LARGEST = "largest"
    SHARE = "share"


class PriceSource(StrEnum):
    """The source of prices: a table in the configuration, or messages on a topic."""

    TABLE = "table"
    TOPIC = "topic"


@dataclass(frozen=True, slots=True)
class Shape:
    """A kind of window, with the numbers that describe its slots; windows last `length_ms`.

    space                the name of the kind
    metrics              the metrics to which its promise may refer, the usual one first
    kinds                the kinds of readings from which its values can be computed
    energies_of          the kinds of readings from which values are energies or amounts; from other kinds,
                         values are means of the power
    has_slots            whether a window may have several values
    accumulator          how a slot's value is made
    has_parts            whether a value is the mean of one of the window's parts, each of `step_ms`
    is_additive          whether values are energies of the load, or its means over time, which can be added
    is_priced            whether energy is multiplied by prices
    counts_all           whether each reading is integrated as it is, not changed by `integrand_u`
    is_redrawn           whether a slot's noise is drawn, and charged, again after a restart
    is_difference_stored whether the store keeps a register's open slot as a difference (`core.register`)
    """

    length_ms: int

    space: ClassVar[Space]
    metrics: ClassVar[tuple[Metric, ...]] = (Metric.LINF,)
    kinds: ClassVar[frozenset[Kind]] = frozenset(Kind)
    energies_of: ClassVar[frozenset[Kind]] = frozenset(Kind) - {Kind.POWER}
    has_slots: ClassVar[bool] = False
    accumulator: ClassVar[Accumulator] = Accumulator.SUM
    has_parts: ClassVar[bool] = False
    is_additive: ClassVar[bool] = True
    is_priced: ClassVar[bool] = False
    counts_all: ClassVar[bool] = True
    is_redrawn: ClassVar[bool] = False
    is_difference_stored: ClassVar[bool] = False

    @property
    def is_summable(self) -> bool:
        """Whether values of several homes may be summed: energies and means of the load, and amounts."""
        return self.is_additive or self.is_priced

    @property
    def n(self) -> int:
        """The number of slots, which is the number of values of a window."""
        return 1

    @property
    def step_ms(self) -> int:
        """The duration to which a value refers; if slots differ in length, that of the shortest."""
        return self.length_ms

    def slot_ms(self, _slot_index: int) -> int:
        """Return the duration to which a slot's value refers."""
        return self.step_ms

    def extent_ms(self, _slot_index: int) -> tuple[int, int]:
        """Return the time to which a record refers, as (from, to) in ms after the window's start."""
        return 0, self.length_ms

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the slots, in order; empty unless slots are bands."""
        return ()

    def is_energy(self, kind: Kind) -> bool:
        """Return whether values are energies or amounts; all other values are means of the power."""
        return kind in self.energies_of

    def value_unit(self, unit: str, kind: Kind) -> str:
        """Return the unit of the values if readings are in `unit`."""
        return ENERGY_UNIT[unit] if self.is_energy(kind) else POWER_UNIT[unit]

    def wh_per_value(self, unit: str, kind: Kind) -> Fraction:
        """Return the W or Wh in one unit of a value; for an amount, the fewest Wh that can change it by 1."""
        return Fraction(UNIT_FACTOR[self.value_unit(unit, kind)])

    def hours_per_value(self, kind: Kind) -> Fraction:
        """Return the factor that makes a value an energy: 1, or the hours of `step_ms` if it is a mean."""
        return Fraction(1) if self.is_energy(kind) else Fraction(self.step_ms, HOUR_MS)

    def integrand_u(self, value_u: int, _unit: str) -> int:
        """Return the value that is integrated for a reading within the range, in millionths of `_unit`.

        The value must not change by more than the reading does, or the promise would not hold.
        """
        return value_u

    def steps_per_quantum(self, slot_index: int, quantum_u: int, readings: ReadingRules) -> int:
        """Return one quantum in units of a slot's accumulator (THEORY 3.4's q*T).

        A slot's value is sum(value * duration) / T. T is the slot's duration for a mean of power, an hour for
        an energy computed from power, and the interval for a sum of energies. So an accumulator counts in
        millionths of the readings' unit times milliseconds. `quantum_u` is in millionths of the values' unit.
        """
        if readings.kind is not Kind.POWER:
            return quantum_u * readings.interval_ms
        return quantum_u * (HOUR_MS if self.is_energy(readings.kind) else self.slot_ms(slot_index))

    def distance_per_power(self, kind: Kind, metric: Metric) -> Fraction:
        """Return how far one more unit of power throughout a window moves its values, in the metric.

        In linf this distance is 1 for means, whose weights sum to 1 (DESIGN 2), and the hours of the longest
        slot for energies. In l1 it is the sum over all slots (THEORY 3.9).
        """
        slots_ms = [self.slot_ms(slot_index) for slot_index in range(self.n)] or [self.step_ms]
        return metric.norm(Fraction(ms, HOUR_MS) if self.is_energy(kind) else Fraction(1) for ms in slots_ms)

    def is_sound(self) -> bool:
        """Return whether the numbers describe a window: durations are positive, and whole slots fill it."""
        return self.length_ms > 0 and self.step_ms > 0 and self.length_ms % self.step_ms == 0


class WithShape:
    """The base of classes that hold the `shape` of a window."""

    shape: Shape

    @cached_property
    def length_ms(self) -> int:
        """The length of a window."""
        return self.shape.length_ms

    @cached_property
    def step_ms(self) -> int:
        """The duration to which a value refers; if slots differ in length, that of the shortest."""
        return self.shape.step_ms

    @cached_property
    def n(self) -> int:
        """The number of slots in a window."""
        return self.shape.n


@dataclass(frozen=True, slots=True)
class Equal(Shape):
    """A window of equal slots of `every_ms`, each with the mean of the power or the energy in it."""

    every_ms: int

    has_slots: ClassVar[bool] = True
    is_difference_stored: ClassVar[bool] = True

    @property
    def n(self) -> int:
        """The number of slots that fill the window."""
        return self.length_ms // self.every_ms

    @property
    def step_ms(self) -> int:
        """The duration of each slot."""
        return self.every_ms

    def extent_ms(self, slot_index: int) -> tuple[int, int]:
        """Return where a slot lies in its window."""
        return slot_index * self.every_ms, (slot_index + 1) * self.every_ms


@dataclass(frozen=True, slots=True)
class Means(Equal):
    """A window of equal slots whose values are released one by one."""

    space: ClassVar[Space] = Space.LINF


@dataclass(frozen=True, slots=True)
class Curve(Equal):
    """A window that is one curve on [0, T], released as the means of its blocks (THEORY 4.1)."""

    space: ClassVar[Space] = Space.CURVE


@dataclass(frozen=True, slots=True)
class Banded(Shape):
    """A window whose slots are `bands`: (name, duration in ms), in the order in which they begin.

    The hours of each band differ from window to window and are part of the window's terms (`Terms.places`).
    """

    bands: tuple[tuple[str, int], ...]

    has_slots: ClassVar[bool] = True

    @property
    def n(self) -> int:
        """The number of bands."""
        return len(self.bands)

    @property
    def step_ms(self) -> int:
        """The duration of the shortest band that has hours."""
        return min(filter(None, (duration_ms for _, duration_ms in self.bands)), default=self.length_ms)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the bands."""
        return tuple(name for name, _ in self.bands)

    def slot_ms(self, slot_index: int) -> int:
        """Return the total duration of a band's hours in the window."""
        return self.bands[slot_index][1]

    def is_sound(self) -> bool:
        """Return whether all bands except the unknown band have hours, and the hours fit into the window."""
        durations = dict(self.bands)
        have_hours = all(ms > 0 or name == UNKNOWN_BAND for name, ms in self.bands)
        fit = bool(self.bands) and len(durations) == self.n and sum(durations.values()) <= self.length_ms
        return have_hours and fit


@dataclass(frozen=True, slots=True)
class Bands(Banded):
    """A window with the energy of each band of a tariff, for readings of any kind (THEORY 3.9).

    The bands together cover each hour of the window once. After an outage, a register does not show the bands
    in which energy was used, so its windows have a band without hours, `UNKNOWN_BAND`, for that energy.
    """

    space: ClassVar[Space] = Space.BANDS
    metrics: ClassVar[tuple[Metric, ...]] = (Metric.L1,)
    energies_of: ClassVar[frozenset[Kind]] = frozenset(Kind)

    @property
    def has_unknown(self) -> bool:
        """Whether energy whose time of use is unknown has a band of its own."""
        return UNKNOWN_BAND in self.names


@dataclass(frozen=True, slots=True)
class Profile(Banded):
    """A window with each band's mean over all days; bands need not cover the day (THEORY 3.6)."""

    space: ClassVar[Space] = Space.PROFILE
    metrics: ClassVar[tuple[Metric, ...]] = (Metric.LINF, Metric.L1)


@dataclass(frozen=True, slots=True)
class Amount(Shape):
    """A window with one number, an amount in `currency`: energy weighted by public prices.

    `bound_u` is the largest absolute value of a price, and `default_u` the price of time without one, both in
    millionths of `currency` per kWh. The prices of a window belong to its terms (`Terms.prices`).

    A price is known before its time begins. So it does not depend on this home's use during that time, and an
    amount is a linear function of the load: a change of 1 kWh in total changes it by at most the bound
    (THEORY 3.10).
    """

    currency: str
    bound_u: int
    default_u: int
    source: PriceSource

    space: ClassVar[Space] = Space.WEIGHTED
    metrics: ClassVar[tuple[Metric, ...]] = (Metric.L1,)
    energies_of: ClassVar[frozenset[Kind]] = frozenset(Kind)  # divided by the largest price
    is_additive: ClassVar[bool] = False
    is_priced: ClassVar[bool] = True

    def value_unit(self, _unit: str, _kind: Kind) -> str:
        """Return the currency."""
        return self.currency

    def wh_per_value(self, _unit: str, _kind: Kind) -> Fraction:
        """Return the energy, in Wh, that costs one unit of the currency at the largest price."""
        return Fraction(KILO * MICRO, self.bound_u)

    def steps_per_quantum(self, _slot_index: int, quantum_u: int, readings: ReadingRules) -> int:
        """Return one quantum in accumulator units, which include the factor of a price in millionths."""
        per_kwh_ms = HOUR_MS if readings.kind is Kind.POWER else readings.interval_ms
        return quantum_u * MICRO * (KILO // UNIT_FACTOR[readings.unit]) * per_kwh_ms

    def is_sound(self) -> bool:
        """Return whether window and bound are positive, and the unit is no unit of power or energy."""
        return self.length_ms > 0 and self.bound_u > 0 and self.currency not in UNIT_FACTOR


@dataclass(frozen=True, slots=True)
class Peak(Shape):
    """A window with one number, the largest mean power of its equal parts of `part_ms`.

    A change of the load by d in each part moves the largest mean by at most d (THEORY A.13.1).
    """

    part_ms: int

    space: ClassVar[Space] = Space.PEAK
    energies_of: ClassVar[frozenset[Kind]] = frozenset()  # energies are divided by the time of a part
    accumulator: ClassVar[Accumulator] = Accumulator.LARGEST
    has_parts: ClassVar[bool] = True
    is_additive: ClassVar[bool] = False
    is_redrawn: ClassVar[bool] = True

    @property
    def step_ms(self) -> int:
        """The duration of a part."""
        return self.part_ms

    def steps_per_quantum(self, slot_index: int, quantum_u: int, readings: ReadingRules) -> int:
        """Return one quantum in units of the accumulator; for energies, T is interval * hours per part."""
        if readings.kind is Kind.POWER:
            return Shape.steps_per_quantum(self, slot_index, quantum_u, readings)
        return quantum_u * readings.interval_ms * self.part_ms // HOUR_MS


@dataclass(frozen=True, slots=True)
class Excess(Shape):
    """A window with one number, the energy above `threshold_w`.

    Each reading is replaced by max(value - threshold, 0), which changes by no more than the reading, so noise
    that hides a change in the total energy also hides it here (THEORY A.14). The energy used *while*
    the power is above a threshold is another quantity, which jumps by the threshold times the duration.
    """

    threshold_w: Fraction

    space: ClassVar[Space] = Space.ABOVE
    kinds: ClassVar[frozenset[Kind]] = frozenset({Kind.POWER})
    energies_of: ClassVar[frozenset[Kind]] = frozenset(Kind)
    is_additive: ClassVar[bool] = False
    counts_all: ClassVar[bool] = False

    def integrand_u(self, value_u: int, unit: str) -> int:
        """Return the excess of a reading over the threshold, or 0 if there is none."""
        threshold = self.threshold_w  # in integers, for speed: each reading is compared with it
        return max(value_u - threshold.numerator * MICRO // (threshold.denominator * UNIT_FACTOR[unit]), 0)

    def is_sound(self) -> bool:
        """Return whether window and threshold are positive."""
        return self.length_ms > 0 and self.threshold_w > 0


@dataclass(frozen=True, slots=True)
class Share(Shape):
    """A window whose energy, in Wh, is part of the total of the group with the id `group_id` (hex digits).

    The energy is split into a pad and a share, and the group's two operators add the noise (docs/crowd.md 6).
    A report must be sent within `deadline_ms` of the window's end.
    """

    group_id: str
    deadline_ms: int

    space: ClassVar[Space] = Space.SHARE
    energies_of: ClassVar[frozenset[Kind]] = frozenset(Kind)
    accumulator: ClassVar[Accumulator] = Accumulator.SHARE

    def value_unit(self, _unit: str, _kind: Kind) -> str:
        """Return Wh, the unit of all homes of a group."""
        return "Wh"

    def steps_per_quantum(self, _slot_index: int, quantum_u: int, readings: ReadingRules) -> int:
        """Return one quantum, in Wh, in units of the accumulator."""
        per_wh_ms = HOUR_MS if readings.kind is Kind.POWER else readings.interval_ms
        return quantum_u * per_wh_ms // UNIT_FACTOR[readings.unit]


SHAPES: dict[Space, type[Shape]] = {
    shape.space: shape for shape in (Means, Curve, Profile, Bands, Amount, Peak, Excess, Share)
}
"""The class of each kind of window."""
