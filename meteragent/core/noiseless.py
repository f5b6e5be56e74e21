"""The noiseless mean of each slot, for the page and `tap`, by the core's arithmetic and in memory only.

A timeline reports each stretch of time that it adds to its slots (`Timeline.observe`). This module adds the
same stretches to windows without noise and prices. So each mean is the power from which the released value is
made, clamped and with gaps filled by the same code. Means are shown only at the device (law 3).
"""

from typing import NamedTuple

from meteragent.core.factory import make_noiseless_window
from meteragent.core.window import Value, Window
from meteragent.domain.schedule import Schedule
from meteragent.domain.terms import Terms
from meteragent.domain.units import HOUR_MS, MICRO, Kind

_CLOSED = 2000
"""The default limit of the number of closed slots whose means are kept."""


class SlotMean(NamedTuple):
    """The mean power over the observed time of a slot, in W or kW; for a peak, the largest mean of a part.

    For a band, the start and end are those of its window. `part` is the observed fraction of the slot, which
    is 1 only if the slot has ended and all of it was observed.
    """

    from_ms: int
    to_ms: int
    band: str
    power: float
    part: float


class SlotMeans:
    """The means of one schedule's slots, which start afresh whenever a stretch of time is missing."""

    def __init__(self, schedule: Schedule, closed_max: int = _CLOSED) -> None:
        self._schedule = schedule
        self._closed_max = closed_max
        self._windows: list[Window] = []
        self._start_ms = self._end_ms = 0
        self._closed_means: list[SlotMean] = []

    def add_stretch(self, start_ms: int, end_ms: int, value: Value) -> None:
        """Add the next stretch of time, with a reading's value, a register's use, or None for a gap."""
        # Open a new window at the first stretch, and whenever a stretch was dropped.
        if not self._windows or start_ms != self._end_ms:
            self._windows = []
            self._open_window(self._schedule.grid.start_ms(start_ms))
            whole_ms = self._windows[0].integrable_until_ms(start_ms)
            # If the windows have parts, observation begins with the first whole part.
            self._start_ms = whole_ms if whole_ms == start_ms else whole_ms + self._windows[0].terms.step_ms
        while self._windows[-1].end_ms < end_ms:
            self._open_window(self._windows[-1].end_ms)
        for window in self._windows:
            window.add_value(max(start_ms, self._start_ms), end_ms, value)
        self._end_ms = end_ms
        self._close_slots()

    def list_means(self) -> list[SlotMean]:
        """Return the means of the closed slots since the last `take_means`, and of the open ones."""
        return self._closed_means + self._open_means()

    def take_means(self) -> list[SlotMean]:
        """Return the means of the open slots, and of the slots that closed since the last call."""
        means, self._closed_means = self.list_means(), []
        return means

    def _open_means(self) -> list[SlotMean]:
        slots = ((window, index) for window in self._windows for index in window.slots)
        return [mean for window, index in slots if (mean := self._mean(window, index)) is not None]

    def _open_window(self, start_ms: int) -> None:
        self._windows.append(make_noiseless_window(self._schedule.terms_at(start_ms), start_ms))

    def _close_slots(self) -> None:
        """Keep the means of ended slots; drop windows without open slots, but never the last window."""
        for window in self._windows:
            for index in [i for i in window.slots if window.slot_end_ms(i) <= self._end_ms]:
                if (mean := self._mean(window, index)) is not None:
                    self._closed_means.append(mean)
                del window.slots[index]
        self._windows = [window for window in self._windows if window.slots] or self._windows[-1:]
        del self._closed_means[: -self._closed_max]

    def _mean(self, window: Window, index: int) -> SlotMean | None:
        """Return the mean over the observed part of a slot; None if no part was observed."""
        terms, stretches = window.terms, window.terms.stretches[index]
        low_ms, high_ms = self._start_ms - window.start_ms, self._end_ms - window.start_ms
        observed_ms = sum(max(min(end, high_ms) - max(start, low_ms), 0) for start, end in stretches)
        has_parts = terms.shape.has_parts
        if observed_ms < (terms.step_ms if has_parts else 1):
            return None
        part = observed_ms / sum(end - start for start, end in stretches)
        band = terms.shape.names[index] if terms.shape.names else ""
        from_ms, to_ms = (window.start_ms + at_ms for at_ms in terms.shape.extent_ms(index))
        power = _power(terms, window.slots[index], terms.step_ms if has_parts else observed_ms)
        return SlotMean(from_ms, to_ms, band, power, part)


def _power(terms: Terms, accumulator: int, observed_ms: int) -> float:
    """Return the mean power over `observed_ms` that follows from a slot's accumulator without noise."""
    if terms.readings.kind is Kind.POWER:
        return accumulator / observed_ms / MICRO
    return accumulator / terms.readings.interval_ms / MICRO * HOUR_MS / observed_ms
