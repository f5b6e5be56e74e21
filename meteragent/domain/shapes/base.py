"""What every kind of window says of its numbers; each kind is a class in a file of its own.

A window is divided into slots, and each slot gives one number. A shape states all that is true of these
numbers, and exactly what a descriptor states, so that the configuration, the store and a receiver build the
same object. It knows nothing of the place of a window in time, of keys, of texts and of messages: what these
say of a shape is one row each in `meteragent.config`, `meteragent.report` and `meteragent.wire`.

A shape's own methods take the kind of the readings and their unit as arguments, because the same slots hold
means if the readings are of power, and energies if they are of energy.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import ClassVar

from meteragent.domain.readings import Readings
from meteragent.domain.units import ENERGY_UNIT, HOUR_MS, POWER_UNIT, UNIT_FACTOR, Kind


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


class Metric(StrEnum):
    """The distance between two windows: the largest difference in any slot, or the sum over all slots."""

    LINF = "linf"
    L1 = "l1"


class Accumulator(StrEnum):
    """How readings make a slot's value: as a sum, as the largest part, or as a share of a sum."""

    SUM = "sum"
    LARGEST = "largest"
    SHARE = "share"


@dataclass(frozen=True, slots=True)
class Shape(ABC):
    """A kind of window, with the numbers that describe its slots; windows last `length_ms`.

    space                the name of the kind
    metrics              the metrics to which its promise may refer, the usual one first
    kinds                the kinds of readings from which it can be computed
    has_slots            whether a window may have several values
    accumulator          how a slot's value is made
    has_parts            whether a value is the mean of one of the window's parts, each of `step_ms`
    is_additive          whether values are energies of the load, or its means over time, which can be added
    is_priced            whether energy is multiplied by prices
    counts_all           whether all of a reading counts (`counted`), so a home's value follows from its use
    is_redrawn           whether a slot's noise is drawn, and charged, again after a restart
    is_difference_stored whether the store keeps a register's open slot as a difference (`core.register`)
    """

    length_ms: int

    space: ClassVar[Space]
    metrics: ClassVar[tuple[Metric, ...]] = (Metric.LINF,)
    kinds: ClassVar[frozenset[Kind]] = frozenset(Kind)
    has_slots: ClassVar[bool] = False
    accumulator: ClassVar[Accumulator] = Accumulator.SUM
    has_parts: ClassVar[bool] = False
    is_additive: ClassVar[bool] = True
    is_priced: ClassVar[bool] = False
    counts_all: ClassVar[bool] = True
    is_redrawn: ClassVar[bool] = False
    is_difference_stored: ClassVar[bool] = False

    # --- slots ---------------------------------------------------------------------------------

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

    def extent(self, _slot_index: int) -> tuple[int, int]:
        """Return the time to which a record refers, as (from, to) in ms after the window's start.

        It is the slot itself or, if slots are bands, the whole window.
        """
        return 0, self.length_ms

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the slots, in order; empty unless slots are bands, whose places the window decides."""
        return ()

    # --- values --------------------------------------------------------------------------------

    @abstractmethod
    def is_energy(self, kind: Kind) -> bool:
        """Return whether values are energies or amounts; otherwise they are means of the power."""

    def value_unit(self, unit: str, kind: Kind) -> str:
        """Return the unit of the values if readings are in `unit`."""
        return ENERGY_UNIT[unit] if self.is_energy(kind) else POWER_UNIT[unit]

    def wh_per_value(self, unit: str, kind: Kind) -> Fraction:
        """Return the W or Wh in one unit of a value; for an amount, the fewest Wh that change it by 1."""
        return Fraction(UNIT_FACTOR[self.value_unit(unit, kind)])

    def hours(self, kind: Kind) -> Fraction:
        """Return the factor from a value to its energy: 1, or the hours of `step_ms` if it is a mean."""
        return Fraction(1) if self.is_energy(kind) else Fraction(self.step_ms, HOUR_MS)

    def counted(self, value_u: int, _unit: str) -> int:
        """Return the integrand: what a reading in the range counts for, in millionths of `_unit`.

        It changes by no more than the reading does, or the promise would not hold.
        """
        return value_u

    def lattice(self, slot_index: int, quantum_u: int, readings: Readings) -> int:
        """Return one quantum in units of a slot's accumulator (THEORY 3.4's q*T).

        A slot's value is sum(value * duration) / T. T is the slot's duration for a mean of power, an hour for
        an energy computed from power, and the interval for a sum of energies. So an accumulator counts in
        millionths of the readings' unit times milliseconds. `quantum_u` is in millionths of the values' unit.
        """
        if readings.kind is not Kind.POWER:
            return quantum_u * readings.interval_ms
        return quantum_u * (HOUR_MS if self.is_energy(readings.kind) else self.slot_ms(slot_index))

    def reach_of_power(self, kind: Kind, metric: Metric) -> Fraction:
        """Return the distance by which one more unit of power throughout a window moves its values.

        In linf it is 1 for means, whose weights sum to 1 (DESIGN 2), and the hours of the longest slot for
        energies. In l1 it is the sum over all slots (THEORY 3.9).
        """
        slots_ms = [self.slot_ms(slot_index) for slot_index in range(self.n)] or [self.step_ms]
        if not self.is_energy(kind):
            return Fraction(len(slots_ms) if metric is Metric.L1 else 1)
        return Fraction(sum(slots_ms) if metric is Metric.L1 else max(slots_ms), HOUR_MS)

    def is_sound(self) -> bool:
        """Return whether the numbers make a window: durations are positive, and whole slots fill it."""
        return self.length_ms > 0
