"""The terms of a release: the promise and the grid under which windows leave."""

import hashlib
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import cached_property

from meteragent.domain.shape import Band, Space, stretches
from meteragent.domain.units import DAY_MS, HOUR_MS, MICRO, UNIT_FACTOR, Kind
from meteragent.privacy import accuracy
from meteragent.privacy.mechanism.laplace import LInfLaplace


class Clock(StrEnum):
    """The clock that opens and closes windows: the wall clock, or each meter's newest timestamp."""

    WALL = "wall"
    EVENT = "event"


Rounding = accuracy.Rounding
"""The rounding of a slot's energy S to whole quanta of L accumulator units: floor(S / L + 1/2), or
floor((S + u) / L) with u uniform on {0, ..., L - 1}, which is S / L on average (THEORY-2 A.1)."""


_CAME_LATER = (", rounding='half-up'", ", every_ms=None", ", dead_band=None", ", counters=1")


@dataclass(frozen=True)  # without slots, because the properties are cached
class Terms:
    """The terms of a release: a window finishes under those it opened with (law 1).

    `radius` and `quantum_u` (millionths) are in the stream's unit; epsilon = level / radius. `hold_ms`
    applies to power (the longest time that a reading holds), `interval_ms` to interval energy (the time that
    a reading covers) and to a register (one hour, the unit of time of its rates). `gap_u` is the value of
    time without a reading, `low_u` and `high_u` are the range to which readings are clamped, in millionths of
    the unit (for a register, per hour).

    A window's slots are equal stretches of `step_ms`, or `bands` in the order in which they begin; then
    `step_ms` is the duration of the shortest band. `timezone` is that of the local calendar. `others_per_day`
    is the charge of the meter's other streams on a day, as epsilon in 1/W. `modulus_u` is the value at which
    a register starts again at 0, if it is known. `rounding` turns a slot's value into whole quanta; stored
    terms and descriptors without it are half-up.

    `every_ms` is the longest time between readings (0: they are sent on change). `dead_band` is the largest
    difference between the power and its last reading, or the step in which an energy is counted, in the unit.
    None: unknown. `counters` is the number of truncated counters that are summed in one reading.
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

    @cached_property
    def id(self) -> str:
        """The name of exactly these terms: 16 hex digits.

        Fields that were added later have no part in it as long as they have their defaults, so the names in
        existing stores stay valid.
        """
        named = repr(self)
        for default in _CAME_LATER:
            named = named.replace(default, "")
        return hashlib.sha256(named.encode()).hexdigest()[:16]

    @cached_property
    def n(self) -> int:
        """The number of slots in a window."""
        return len(self.bands) or self.length_ms // self.step_ms

    @cached_property
    def mechanism(self) -> LInfLaplace:
        """The mechanism whose noise hides a window: one for the agent and for every statement about it."""
        return LInfLaplace(epsilon=self.epsilon, quantum=self.quantum, n=self.n)

    @cached_property
    def sd(self) -> float:
        """The standard deviation of a slot, in the unit (`privacy.accuracy`)."""
        return accuracy.sd(self.mechanism, self.rounding)

    def half_width(self, coverage: float) -> float:
        """Return half the interval that covers a slot's value with this probability, in the unit."""
        return accuracy.half_width(self.mechanism, coverage, self.rounding)

    def stretches(self, slot_index: int) -> tuple[tuple[int, int], ...]:
        """Return the stretches of a slot in its window: (from, to) in ms after its start, in order."""
        return stretches(self.bands, self.step_ms, slot_index)

    def slot_ms(self, slot_index: int) -> int:
        """Return the duration of a slot, over all its stretches."""
        return self.bands[slot_index].duration_ms if self.bands else self.step_ms

    @cached_property
    def epsilon(self) -> Fraction:
        """The privacy parameter, in 1/unit: level / radius (DESIGN 2)."""
        return self.level / self.radius

    @cached_property
    def quantum(self) -> Fraction:
        """The lattice of slot values, in the unit."""
        return Fraction(self.quantum_u, MICRO)

    def lattice(self, slot_index: int) -> int:
        """Return one quantum in units of a slot's accumulator (THEORY 3.4's q*T).

        A slot's value is sum(value * duration) / T, where T is the slot for power (a mean) and the interval
        for energy (a sum). So an accumulator counts in millionths of the unit times milliseconds.
        """
        if self.kind is not Kind.POWER:
            return self.quantum_u * self.interval_ms
        return self.quantum_u * (self.slot_ms(slot_index) if self.bands else self.step_ms)

    @property
    def radius_w(self) -> Fraction:
        """The radius as power over a slot, in W; for bands of energy, over the longest band."""
        base = self.radius * UNIT_FACTOR[self.unit]
        if self.kind is Kind.POWER:
            return base
        return base * HOUR_MS / max(map(self.slot_ms, range(len(self.bands))), default=self.step_ms)

    @property
    def hides_wh(self) -> Fraction:
        """The energy that may move within a slot and is hidden: radius * step (THEORY 3.5)."""
        base = self.radius * UNIT_FACTOR[self.unit]
        return base * self.step_ms / HOUR_MS if self.kind is Kind.POWER else base

    @cached_property
    def epsilon_per_w(self) -> Fraction:
        """The charge of one window in 1/W, the unit in which the charges of all streams add up."""
        return self.level / self.radius_w

    @property
    def per_day(self) -> Fraction:
        """The charge of a day of 24 hours, as epsilon in 1/W."""
        return self.epsilon_per_w * DAY_MS / self.length_ms
