"""The terms of a release: the promise, and the grid of the windows."""

import hashlib
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

from meteragent.domain.shape import UNKNOWN_BAND, Band, Metric, Space, stretches
from meteragent.domain.units import (
    DAY_MS,
    ENERGY_UNIT,
    HOUR_MS,
    KILO,
    MICRO,
    MINUTE_MS,
    POWER_UNIT,
    UNIT_FACTOR,
    Kind,
)
from meteragent.domain.weights import PRICE_MS, Weights, pieces
from meteragent.privacy import accuracy
from meteragent.privacy.mechanism.laplace import LInfLaplace


class Clock(StrEnum):
    """The clock that opens and closes windows: the wall clock, or each meter's newest accepted timestamp."""

    WALL = "wall"
    EVENT = "event"


Rounding = accuracy.Rounding
"""The rounding of a slot's energy S to whole quanta of L accumulator units: floor(S / L + 1/2), or
floor((S + u) / L) with u uniform on {0, ..., L - 1}; the latter is S / L on average (THEORY-2 A.1)."""


_LATER_DEFAULTS = (
    *(", rounding='half-up'", ", every_ms=None", ", dead_band=None", ", counters=1"),
    f", metric={Metric.LINF!r}",
    *(", weights=None", ", threshold_u=None"),
    ", crowd=None",
)
"""Fields that were added after the first version, with their defaults, as in the terms' `repr`."""
_SPLIT_MIN_MS = 15 * MINUTE_MS


class Crowd(NamedTuple):
    """A group whose totals have the noise of two operators (docs/crowd.md).

    `group_id` is the group's id, in hex digits. `deadline_ms` is the time after a slot's end by which the
    slot's report must have left.
    """

    group_id: str
    deadline_ms: int


@dataclass(frozen=True)  # without slots, because the properties are cached
class Terms:
    """The terms of a release; a window closes under the terms with which it opened (law 1).

    `kind` and `unit` are those of the readings. Whatever the readings, tariff bands (`Space.BANDS`) release
    energies, and a peak releases a power (`value_unit`). `radius` and `quantum_u` (millionths) are in the
    unit of the values; epsilon = level / radius. `hold_ms` applies to power (the longest time for which a
    reading holds), `interval_ms` to interval energy (the time that a reading covers) and to a register (one
    hour, the unit of time of its rates). `gap_u` is the value that applies to time without a reading; `low_u`
    and `high_u` are the ends of the range to which readings are clamped. All three are in millionths of the
    unit or, for a register, of the unit per hour.

    A window's slots are equal stretches of `step_ms`, or `bands` in the order in which they begin; with
    bands, `step_ms` is the duration of the shortest band. A peak has one slot, the window, whose value is the
    largest mean of its parts of `step_ms`. `timezone` is the zone of the local calendar, or None on the epoch
    grid. `others_per_day` is the charge of the meter's other streams per day, as epsilon in 1/W. `modulus_u`
    is the value at which a register starts again at 0; None if it is unknown. `rounding` turns a slot's value
    into whole quanta; stored terms and descriptors without `rounding` are half-up. `metric` is the distance
    to which the promise refers: for `l1`, the noise of each slot is independent, and the radius bounds the
    sum of the changes in all slots. `weights` are the prices of a weighted window, whose values are amounts.
    `threshold_u`, in millionths of the unit, is the threshold of a window that releases the energy above it.
    `crowd` is the group of a window that releases a share of its energy, in Wh; the mechanism then belongs to
    each of the group's two operators, not to the agent.

    `every_ms` is the longest time between readings, or 0 if readings are sent on change. `dead_band` is the
    largest difference between the power and its last reading, or the step in which an energy is counted, in
    the unit. None means unknown in both cases. `counters` is the number of truncated counters summed in one
    reading.
    """

    kind: Kind
    unit: str
    clock: Clock
    length_ms: int
    step_ms: int
    lateness_ms: int
    level: Fraction
    radius: Fraction
    quantum_u: int
    hold_ms: int
    interval_ms: int
    gap_u: int
    low_u: int
    high_u: int
    preset: str | None = None
    space: Space = Space.LINF
    timezone: str | None = None
    bands: tuple[Band, ...] = ()
    others_per_day: Fraction = Fraction(0)
    modulus_u: int | None = None
    rounding: Rounding = "half-up"
    every_ms: int | None = None
    dead_band: Fraction | None = None
    counters: int = 1
    metric: Metric = Metric.LINF
    weights: Weights | None = None
    threshold_u: int | None = None
    crowd: Crowd | None = None

    @cached_property
    def id(self) -> str:
        """The id of exactly these terms: 16 hex digits.

        Fields that were added later are not hashed while they have their defaults, so the ids in existing
        stores stay valid.
        """
        text = repr(self)
        for default in _LATER_DEFAULTS:
            text = text.replace(default, "")
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @cached_property
    def n(self) -> int:
        """The number of slots in a window."""
        return 1 if self.space is Space.PEAK else len(self.bands) or self.length_ms // self.step_ms

    @property
    def slots_per_bound(self) -> int:
        """The number of slots whose noise shares a noise bound: all slots of a window, or in l1 one slot."""
        return 1 if self.metric is Metric.L1 else self.n

    @cached_property
    def is_energy(self) -> bool:
        """Whether slots hold energies, weighted or not; otherwise they hold means of the power."""
        if self.space is Space.PEAK:
            return False
        spaces_of_energy = {Space.BANDS, Space.WEIGHTED, Space.ABOVE}
        return self.kind is not Kind.POWER or self.space in spaces_of_energy or self.crowd is not None

    @cached_property
    def value_unit(self) -> str:
        """The unit of the values that leave."""
        if self.weights is not None:
            return self.weights.unit
        if self.crowd is not None:
            return "Wh"
        return ENERGY_UNIT[self.unit] if self.is_energy else POWER_UNIT[self.unit]

    @cached_property
    def mechanism(self) -> LInfLaplace:
        """The mechanism whose noise hides a window, or in l1 each slot of a window.

        The agent and every statement about the noise use this object.
        """
        return LInfLaplace(self.epsilon, self.quantum, self.slots_per_bound)

    @cached_property
    def sd(self) -> float:
        """The standard deviation of the error in a slot's value, in its unit (`privacy.accuracy`)."""
        return accuracy.sd(self.mechanism, self.rounding)

    def half_width(self, coverage: float) -> float:
        """Return the half-width of the interval that covers a slot's value with probability `coverage`."""
        return accuracy.half_width(self.mechanism, coverage, self.rounding)

    def stretches(self, slot_index: int) -> tuple[tuple[int, int], ...]:
        """Return the stretches of a slot as (from, to) in ms after the window's start, in order."""
        if self.space is Space.PEAK:
            return ((0, self.length_ms),)
        return stretches(self.bands, self.step_ms, slot_index)

    @cached_property
    def first_slot(self) -> tuple[int, int]:
        """The start and end of the slot that ends first, in ms after the window's start."""
        slots = map(self.stretches, range(self.n))
        return min(((stretches[0][0], stretches[-1][1]) for stretches in slots), key=lambda slot: slot[1])

    def slot_ms(self, slot_index: int) -> int:
        """Return the duration to which a slot's value refers: all of its stretches, or one part of a peak."""
        return self.bands[slot_index].duration_ms if self.bands else self.step_ms

    @cached_property
    def epsilon(self) -> Fraction:
        """The privacy parameter, level / radius, in 1/unit of the values (DESIGN 2)."""
        return self.level / self.radius

    @cached_property
    def quantum(self) -> Fraction:
        """The step of the lattice of slot values, in their unit."""
        return Fraction(self.quantum_u, MICRO)

    def lattice(self, slot_index: int) -> int:
        """Return one quantum in units of a slot's accumulator (THEORY 3.4's q*T).

        A slot's value is sum(value * duration) / T. T is the slot's duration for a mean of power, an hour for
        an energy computed from power, and the interval for a sum of energies. So an accumulator counts in
        millionths of the readings' unit times milliseconds and, in a weighted window, times millionths of a
        price per kWh. For a peak of energies, T is the interval times the hours of a part. For a share, the
        unit of quanta is Wh, whatever the unit of the readings.
        """
        if self.crowd is not None:
            per_wh_ms = HOUR_MS if self.kind is Kind.POWER else self.interval_ms
            return self.quantum_u * per_wh_ms // UNIT_FACTOR[self.unit]
        if self.weights is not None:
            per_kwh_ms = self.interval_ms if self.kind is not Kind.POWER else HOUR_MS
            return self.quantum_u * MICRO * (KILO // UNIT_FACTOR[self.unit]) * per_kwh_ms
        if self.kind is not Kind.POWER and not self.is_energy:
            return self.quantum_u * self.interval_ms * self.step_ms // HOUR_MS
        if self.kind is not Kind.POWER:
            return self.quantum_u * self.interval_ms
        return self.quantum_u * (HOUR_MS if self.is_energy else self.slot_ms(slot_index))

    @cached_property
    def hours(self) -> Fraction:
        """The factor from a slot's value to its energy: 1, or the hours of `step_ms` if it is a mean."""
        return Fraction(1) if self.is_energy else Fraction(self.step_ms, HOUR_MS)

    @property
    def threshold_w(self) -> Fraction:
        """The threshold, in W, of a window that releases the energy above it; 0 if there is none."""
        return Fraction(self.threshold_u or 0, MICRO) * UNIT_FACTOR[self.unit]

    @cached_property
    def split_ms(self) -> int | None:
        """The longest span, in ms, whose energy is split at the boundaries of bands; None if all are split.

        The energy of a longer span counts in the unknown band, because its time of use is unknown.
        """
        if self.space is not Space.BANDS or not any(band.name == UNKNOWN_BAND for band in self.bands):
            return None
        return max(2 * (self.every_ms or 0), _SPLIT_MIN_MS)

    @cached_property
    def wh_per_value(self) -> Fraction:
        """The W or Wh in one unit of a value; for an amount, the fewest Wh that can change it by one unit."""
        if self.weights is not None:
            return Fraction(KILO * MICRO, self.weights.bound_u)
        return Fraction(UNIT_FACTOR[self.value_unit])

    @cached_property
    def value_per_reading(self) -> Fraction:
        """The largest change in a value per unit of a reading (for energies of a power: per unit and hour).

        It is 1 unless values are amounts, means of energies, or shares in a unit other than the readings'
        unit.
        """
        hours = 1 if self.kind is Kind.POWER else self.hours
        return UNIT_FACTOR[self.unit] / self.wh_per_value / hours

    @cached_property
    def prices_count(self) -> int:
        """The largest number of prices in a window, or 1 if there are none.

        With each price, the count of a register's energy starts again.
        """
        if self.weights is None:
            return 1
        if self.weights.is_table:
            return sum(1 for _ in pieces(self.weights.prices, self.weights.default_u, 0, self.length_ms))
        return -(-self.length_ms // PRICE_MS)

    @cached_property
    def radius_w(self) -> Fraction:
        """The radius as a power: a change of 1 W throughout a window is 1/radius_w of the radius."""
        return self.radius * self.wh_per_value / self.reach_of_power

    @property
    def hides_wh(self) -> Fraction:
        """The change in a load's energy that is hidden, in a slot or, in l1, in all (THEORY 3.5)."""
        return self.radius * self.wh_per_value * self.hours

    @cached_property
    def epsilon_per_w(self) -> Fraction:
        """The charge of one window in 1/W, the unit in which the charges of all streams add up.

        In l1 the charge is the sum over the slots, because a change in the power by 1 W changes all of them.
        """
        return self.level / self.radius_w

    @cached_property
    def reach_of_power(self) -> Fraction:
        """The distance by which one more unit of power throughout a window changes its means or energies.

        In linf it is 1 if values are means, and the hours of the longest slot if they are energies. In l1 it
        is the sum over all slots, which for the energies of bands is the window's hours.
        """
        in_all = self.metric is Metric.L1
        if not self.is_energy:
            return Fraction(self.n if in_all else 1)
        if self.space in {Space.BANDS, Space.WEIGHTED}:
            return Fraction(self.length_ms, HOUR_MS)
        slots_ms = [band.duration_ms for band in self.bands] or [self.step_ms]
        return Fraction(sum(slots_ms) if in_all else max(slots_ms), HOUR_MS)

    @property
    def level_per_wh(self) -> Fraction:
        """The level for each Wh that a change adds or removes within the window: level / hide."""
        return self.level / self.hides_wh

    @property
    def per_day(self) -> Fraction:
        """The charge of a day of 24 hours, as epsilon in 1/W."""
        return self.epsilon_per_w * DAY_MS / self.length_ms
