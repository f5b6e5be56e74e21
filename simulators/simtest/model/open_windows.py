"""The open windows of the model, and the slots that the model closes."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from simulators.simtest.model.spec import Stretch, WindowSpec

EnergyOf = Callable[[WindowSpec, Iterable[Stretch]], int]
"""A function that returns the energy over some time in a window, in units of its accumulator."""


class ClosedSlot(NamedTuple):
    """A closed slot: its energy without noise, in an accumulator's units, and the time at which it fell due.

    `energy` is None for a peak if no part of its window has ended since a restart, or if no noise was drawn.
    """

    meter: str
    window_ms: int
    slot_index: int
    spec: WindowSpec
    due_ms: int
    energy: int | None


@dataclass
class OpenWindow:
    """An open window, the indices of its slots that have not closed, and the queues of its receivers.

    In a peak, a part is used if it begins at or after `from_ms`, the time from which this process has had the
    readings. `is_drawn` states whether this process has drawn noise, and `is_first` whether it opened the
    window.
    """

    start_ms: int
    spec: WindowSpec
    open_slots: list[int]
    queues: frozenset[str]
    from_ms: int = 0
    is_drawn: bool = True
    is_first: bool = True

    @property
    def end_ms(self) -> int:
        """The end of the window."""
        return self.start_ms + self.spec.length_ms

    def whole_ms(self, time_ms: int) -> int:
        """Return the start of the peak's part that contains `time_ms`, or `time_ms` if no part does."""
        if not self.spec.is_peak or not self.start_ms <= time_ms < self.end_ms:
            return time_ms
        return time_ms - (time_ms - self.start_ms) % self.spec.step_ms

    def end_of_parts_ms(self, covered_ms: int) -> int:
        """Return the end of the last part that has ended, or the start of the window if none has."""
        return max(self.whole_ms(min(covered_ms, self.end_ms)), self.start_ms)

    def next_close(self) -> tuple[int, int]:
        """Return the index of the open slot that ends first, and the time of its end."""
        ends = [(self.spec.slot_end_ms(self.start_ms, index), index) for index in self.open_slots]
        end_ms, slot_index = min(ends)
        return slot_index, end_ms

    # --- peaks ---------------------------------------------------------------------------------

    def resume(self, covered_ms: int) -> None:
        """Resume in a new process, which has drawn no noise yet and uses only parts from `covered_ms` on."""
        self.from_ms, self.is_drawn, self.is_first = covered_ms, False, False

    def needs_noise(self, before_ms: int, covered_ms: int) -> bool:
        """Return whether a part of a peak has ended between two times, and no noise has been drawn yet."""
        over_ms = self.end_of_parts_ms(covered_ms)
        return self.spec.is_peak and not self.is_drawn and over_ms > self.end_of_parts_ms(before_ms)

    def charge(self, covered_ms: int, *, exceeds: bool) -> None:
        """Draw noise for the parts that have ended; if the budget forbids it, these parts are not used."""
        self.is_drawn = not exceeds
        if exceeds:
            self.from_ms = self.end_of_parts_ms(covered_ms)

    def largest_energy(self, covered_ms: int, energy_of: EnergyOf) -> int | None:
        """Return the largest energy of a part that has ended since the restart, in an accumulator's units.

        If this process opened the window, the result is at least the energy of the lowest power. Otherwise
        it is None if no noise has been drawn or no such part has ended.
        """
        if not self.is_drawn:
            return None
        step_ms = self.spec.step_ms
        parts_ms = range(max(self.from_ms, self.start_ms), self.end_of_parts_ms(covered_ms), step_ms)
        lowest = [self.spec.readings.low_u * step_ms] if self.is_first else []
        energies = (energy_of(self.spec, [(part_ms, part_ms + step_ms)]) for part_ms in parts_ms)
        return max([*lowest, *energies], default=None)
