"""The open windows of the model, and the slots that the model closes."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from meteragent.domain.shape import Space
from meteragent.domain.terms import Terms


class ClosedSlot(NamedTuple):
    """A closed slot: its energy without noise, in an accumulator's units, and the time at which it fell due.

    `energy` is None for a peak if no part of its window has ended since a restart, or if no noise was drawn.
    """

    meter: str
    window_ms: int
    slot_index: int
    terms: Terms
    due_ms: int
    energy: int | None


@dataclass
class OpenWindow:
    """An open window, and the indices of its slots that have not closed.

    For a peak, a part counts if it begins at or after `from_ms`, the time from which this process has seen
    the readings. `is_drawn` says whether this process has drawn noise, and `is_first` whether it opened the
    window.
    """

    start_ms: int
    terms: Terms
    open_slots: list[int]
    from_ms: int = 0
    is_drawn: bool = True
    is_first: bool = True

    @property
    def is_peak(self) -> bool:
        """Whether the window releases the largest mean of a part."""
        return self.terms.space is Space.PEAK

    def whole_ms(self, time_ms: int) -> int:
        """Return the start of the peak's part that contains `time_ms`, or `time_ms` if no part does."""
        if not self.is_peak or not self.start_ms <= time_ms < self.start_ms + self.terms.length_ms:
            return time_ms
        return time_ms - (time_ms - self.start_ms) % self.terms.step_ms

    def end_of_parts_ms(self, covered_ms: int) -> int:
        """Return the end of the last part that has ended, or the start of the window if none has."""
        end_ms = self.start_ms + self.terms.length_ms
        return max(self.whole_ms(min(covered_ms, end_ms)), self.start_ms)

    def next_close(self) -> tuple[int, int]:
        """Return the index of the open slot that ends first, and the time of its end."""
        ends = [
            (self.start_ms + self.terms.stretches(slot_index)[-1][1], slot_index)
            for slot_index in self.open_slots
        ]
        end_ms, slot_index = min(ends)
        return slot_index, end_ms

    # --- peaks ---------------------------------------------------------------------------------

    def resume(self, covered_ms: int) -> None:
        """Resume in a new process, which has drawn no noise yet; only parts from `covered_ms` on count."""
        self.from_ms, self.is_drawn, self.is_first = covered_ms, False, False

    def needs_noise(self, before_ms: int, covered_ms: int) -> bool:
        """Return whether a part of a peak has ended between two times, and no noise has been drawn yet."""
        over_ms = self.end_of_parts_ms(covered_ms)
        return self.is_peak and not self.is_drawn and over_ms > self.end_of_parts_ms(before_ms)

    def charge(self, covered_ms: int, *, exceeds: bool) -> None:
        """Draw noise for the parts that have ended; if the budget forbids it, these parts do not count."""
        self.is_drawn = not exceeds
        if exceeds:
            self.from_ms = self.end_of_parts_ms(covered_ms)

    def largest_energy(self, covered_ms: int, energy: Callable[[int, int, Terms], int]) -> int | None:
        """Return the largest energy of a part that has ended since the restart, in an accumulator's units.

        If this process opened the window, the result is at least the energy of the lowest power. Otherwise
        it is None if no noise has been drawn or no such part has ended. `energy` computes the energy of a
        slot from its window's start, its index and its terms.
        """
        if not self.is_drawn:
            return None
        terms, step_ms = self.terms, self.terms.step_ms
        parts_ms = range(max(self.from_ms, self.start_ms), self.end_of_parts_ms(covered_ms), step_ms)
        part = replace(terms, space=Space.LINF, length_ms=step_ms)
        lowest = [terms.low_u * step_ms] if self.is_first else []
        return max([*lowest, *(energy(part_ms, 0, part) for part_ms in parts_ms)], default=None)
