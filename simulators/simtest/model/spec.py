"""A window as its stream's setting defines it: slots, how readings are used, one quantum, and the charge.

It is computed from the words of the setting and from the definitions in docs/design.md, independently of the
agent, whose terms and kinds of windows are judged by it.

An accumulator counts in millionths of the readings' unit times ms; for an amount, times millionths of the
price per kWh. `WindowSpec.lattice` converts one quantum to this unit.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from meteragent.domain.units import DAY_MS, HOUR_MS, KILO, MICRO, MINUTE_MS

Stretch = tuple[int, int]
"""Time as (from, to), in ms."""


UNKNOWN = "unknown"
"""The band without hours, for use whose time is unknown because a register's readings are far apart."""
SPLIT_MS = 15 * MINUTE_MS
"""The longest span whose use is split at the boundaries of bands, if there is an unknown band."""


class Place(NamedTuple):
    """The place of a slot in its window: its stretches in ms after the window's start, and a band's name."""

    stretches: tuple[Stretch, ...]
    name: str | None = None

    @property
    def duration_ms(self) -> int:
        """The total length of the stretches."""
        return sum(end_ms - start_ms for start_ms, end_ms in self.stretches)


class PriceRule(NamedTuple):
    """The largest absolute price, and the price where none has arrived, in millionths of EUR per kWh."""

    bound_u: int
    default_u: int


@dataclass(frozen=True, slots=True)
class ReadingSpec:
    """How readings are used; limits are in millionths of W or Wh, or of Wh per hour for a register.

    kind         power, interval_energy or register
    hold_ms      the time for which a power applies; 0 for energies
    interval_ms  the time that an energy covers, an hour for a register; 0 for power
    gap_u        the value of time without a reading
    low_u        the lowest value
    high_u       the highest value
    threshold_u  the power that is subtracted, down to 0; 0 if all power is used
    modulus_u    where a register starts again at 0; 0 if it does not
    step_u       the step in which a register is counted; 0 if it is unknown
    phases       the phases that are summed, each with its sign; empty if there are none
    is_on_change  whether each change is sent, so that a silent register has not moved
    """

    kind: str
    hold_ms: int
    interval_ms: int
    gap_u: int
    low_u: int
    high_u: int
    threshold_u: int = 0
    modulus_u: int = 0
    step_u: int = 0
    phases: tuple[tuple[str, int], ...] = ()
    is_on_change: bool = False

    @property
    def meaning(self) -> tuple[str, int]:
        """What a value means: its kind, which implies the unit, and its interval."""
        return self.kind, self.interval_ms

    def count(self, value_u: int | None) -> int:
        """Return the value that is integrated for a reading, limited to the range; None is a gap."""
        limited_u = sorted([self.low_u, self.gap_u if value_u is None else value_u, self.high_u])[1]
        return max(limited_u - self.threshold_u, 0) if self.threshold_u else limited_u


@dataclass(frozen=True)  # without slots, because hashing long tuples of slots takes time
class WindowSpec:
    """A window of a stream.

    space           the kind of window, as configurations and descriptors name it
    length_ms       the length of the window
    step_ms         the length of the slot, of a peak's part, or of the shortest band
    places          the slots
    readings        how readings are used
    lateness_ms     the time from the end of a slot until it closes
    clock           wall or event
    radius          the hidden change, in the unit of values
    quantum_u       the step of values, in millionths of their unit
    price           the rule for prices; None unless energy is weighted by them
    timezone        the zone of the local calendar; None on the epoch grid
    group_id        the id of the group whose total includes the window; empty if there is none
    deadline_ms     the time from the window's end until its report is too late for the group
    others_per_day  the charge of the meter's other streams on a day, as epsilon in 1/W
    """

    space: str
    length_ms: int
    step_ms: int
    places: tuple[Place, ...]
    readings: ReadingSpec
    lateness_ms: int
    clock: str
    radius: Fraction
    quantum_u: int
    price: PriceRule | None = None
    timezone: str | None = None
    group_id: str = ""
    deadline_ms: int = 0
    others_per_day: Fraction = Fraction(0)

    # --- slots ---------------------------------------------------------------------------------

    @property
    def n(self) -> int:
        """The number of slots."""
        return len(self.places)

    @property
    def is_peak(self) -> bool:
        """Whether the window releases its largest part, with noise that each process draws again."""
        return self.space == "peak"

    @property
    def is_in_all(self) -> bool:
        """Whether the radius limits the change in all slots together, so that slots share no noise bound."""
        return self.space in {"bands", "weighted"}

    @property
    def has_bands(self) -> bool:
        """Whether the slots are bands; a record then states the band's name and the window's time."""
        return self.space in {"profile", "bands"}

    def spans(self, window_ms: int, slot_index: int) -> list[Stretch]:
        """Return the time of a slot of the window that starts at `window_ms`, in Unix ms and in order."""
        return [(window_ms + start, window_ms + end) for start, end in self.places[slot_index].stretches]

    def slot_start_ms(self, window_ms: int, slot_index: int) -> int:
        """Return the start of a slot of the window that starts at `window_ms`."""
        return window_ms + self.places[slot_index].stretches[0][0]

    def ends_ms(self, window_ms: int) -> list[int]:
        """Return the ends of the slots of a window that starts at `window_ms`."""
        return [self.slot_end_ms(window_ms, slot_index) for slot_index in range(self.n)]

    def slot_end_ms(self, window_ms: int, slot_index: int) -> int:
        """Return the end of a slot of the window that starts at `window_ms`."""
        return window_ms + self.places[slot_index].stretches[-1][1]

    def is_unknown(self, since_ms: int, until_ms: int) -> bool:
        """Return whether use is of the unknown band; times count from the window's start, in ms."""
        if self.places[-1].name != UNKNOWN or until_ms - since_ms <= SPLIT_MS:
            return False
        stretches = (stretch for place in self.places for stretch in place.stretches)
        return not any(start_ms <= since_ms and until_ms <= end_ms for start_ms, end_ms in stretches)

    # --- values --------------------------------------------------------------------------------

    @property
    def is_mean(self) -> bool:
        """Whether values are means of the power; otherwise they are energies or amounts."""
        plain = {"linf", "curve", "profile"}
        return self.is_peak or (self.space in plain and self.readings.kind == "power")

    @property
    def unit(self) -> str:
        """The unit of values."""
        return "EUR" if self.price is not None else "W" if self.is_mean else "Wh"

    def lattice(self, slot_index: int) -> int:
        """Return one quantum in units of a slot's accumulator."""
        return self.quantum_u * self._units_per_value(slot_index)

    def _units_per_value(self, slot_index: int) -> int:
        """Return the accumulator of a slot with the value 1, divided by the millionths of its unit."""
        interval_ms, is_power = self.readings.interval_ms, self.readings.kind == "power"
        if self.is_peak:
            return self.step_ms if is_power else interval_ms * self.step_ms // HOUR_MS
        if self.is_mean:
            return self.places[slot_index].duration_ms
        of_wh = HOUR_MS if is_power else interval_ms
        return of_wh if self.price is None else of_wh * KILO * MICRO

    # --- the promise ---------------------------------------------------------------------------

    @property
    def epsilon(self) -> Fraction:
        """The privacy parameter per unit of the values, at level 1."""
        return 1 / self.radius

    @property
    def charge(self) -> Fraction:
        """The charge of the window, as epsilon in 1/W.

        It is epsilon times the change of the values, in the metric of the promise, if the power rises by 1 W.
        """
        if self.is_mean:
            return self.epsilon
        hours = [Fraction(place.duration_ms, HOUR_MS) for place in self.places]
        change = sum(hours, Fraction(0)) if self.is_in_all else max(hours)
        return (
            self.epsilon * change * (1 if self.price is None else Fraction(self.price.bound_u, KILO * MICRO))
        )

    @property
    def charge_per_day(self) -> Fraction:
        """The charge of 24 hours, as epsilon in 1/W."""
        return self.charge * DAY_MS / self.length_ms

    @property
    def hides_wh(self) -> Fraction:
        """The energy that is hidden in a slot or, if the promise covers all slots together, in total."""
        if self.price is not None:
            return self.radius * KILO * MICRO / self.price.bound_u
        return self.radius * Fraction(self.step_ms, HOUR_MS) if self.is_mean else self.radius
