"""The noiseless mean of each slot while a page is open, computed with the core's arithmetic, in memory only.

The core reports the stretches of time that it adds to its slots (`domain.reading.Observer`). This module adds
them to noiseless windows without prices. A mean is therefore the private number as a power, without its
noise, rounding and prices, computed by the same code that clamps values, handles register rollover and fills
gaps. There are windows for the stream's own terms and for each preset that the page can show instead. The
means are sent to the page only (law 3).
"""

from dataclasses import replace
from typing import NamedTuple

from meteragent.core.weighted import window_of
from meteragent.core.window import Window
from meteragent.domain.reading import RegisterUse
from meteragent.domain.schedule import Schedule
from meteragent.domain.shape import Space
from meteragent.domain.terms import Terms
from meteragent.domain.units import HOUR_MS, MICRO, Kind

_CLOSED = 2000
"""The largest number of closed slots whose means may wait for the page."""


class SlotMean(NamedTuple):
    """The mean power of a slot's observed part or, for a peak, the largest mean of a part, in W or kW.

    A band has the times of its window. The field `part` is the observed fraction of the slot, which is 1 only
    if the slot has ended and all of it was observed.
    """

    from_ms: int
    to_ms: int
    band: str
    window_ms: int
    slot_index: int
    power: float
    part: float


class SlotMeans:
    """The means of one schedule's slots, which begin anew whenever a stretch of time is missing."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._windows: list[Window] = []
        self._start_ms = self._end_ms = 0
        self._closed_means: list[SlotMean] = []

    def add(self, start_ms: int, end_ms: int, value: "int | RegisterUse | None") -> None:
        """Add the next stretch of time, with a reading's value, a register's use, or None for a gap."""
        # Open a new window at the first stretch, and whenever a stretch was dropped.
        if not self._windows or start_ms != self._end_ms:
            self._start_ms, self._windows = start_ms, []
            self._open(self._schedule.grid.start_ms(start_ms))
        while self._windows[-1].end_ms < end_ms:
            self._open(self._windows[-1].end_ms)
        for window in self._windows:
            window.add(start_ms, end_ms, value)
        self._end_ms = end_ms
        self._close()

    def take(self) -> list[SlotMean]:
        """Return the means of the open slots, and of the slots that closed since the last call."""
        means, self._closed_means = self._closed_means, []
        slots = ((window, index) for window in self._windows for index in window.slots)
        return means + [mean for window, index in slots if (mean := self._mean(window, index)) is not None]

    def _open(self, start_ms: int) -> None:
        """Open a window with all its slots, without noise."""
        # Without prices, a slot's accumulator holds its energy.
        terms = replace(self._schedule.terms(start_ms), weights=None)
        window = window_of(terms)(start_ms, terms, terms.id, "", "", noise_bound=0)
        for _ in range(terms.n):
            window.draw(0, start_ms, None if terms.rounding == "half-up" else 0)
        self._windows.append(window)

    def _close(self) -> None:
        """Keep the means of ended slots; drop windows without open slots, but never the last window."""
        for window in self._windows:
            for index in [i for i in window.slots if window.slot_end_ms(i) <= self._end_ms]:
                if (mean := self._mean(window, index)) is not None:
                    self._closed_means.append(mean)
                del window.slots[index]
        self._windows = [window for window in self._windows if window.slots] or self._windows[-1:]
        del self._closed_means[:-_CLOSED]

    def _mean(self, window: Window, index: int) -> SlotMean | None:
        """Return the mean over the observed part of a slot; None if no part was observed."""
        terms = window.terms
        observed_ms = _overlap_ms(window, index, self._start_ms, self._end_ms)
        if observed_ms == 0:
            return None
        is_peak = terms.space is Space.PEAK
        part = observed_ms / (terms.length_ms if is_peak else terms.slot_ms(index))
        band = terms.bands[index].name if terms.bands else ""
        start_ms, end_ms = window.slot_start_ms(index), window.slot_end_ms(index)
        if band:
            start_ms, end_ms = window.start_ms, window.end_ms
        power = _power(terms, window.slots[index], terms.step_ms if is_peak else observed_ms)
        return SlotMean(start_ms, end_ms, band, window.start_ms, index, power, part)


def _overlap_ms(window: Window, index: int, from_ms: int, to_ms: int) -> int:
    """Return how much of a slot lies between `from_ms` and `to_ms`."""
    low_ms, high_ms = from_ms - window.start_ms, to_ms - window.start_ms
    stretches = window.terms.stretches(index)
    return sum(max(min(end, high_ms) - max(start, low_ms), 0) for start, end in stretches)


def _power(terms: Terms, accumulator: int, observed_ms: int) -> float:
    """Return the mean power over `observed_ms` that follows from a slot's accumulator without noise."""
    if terms.kind is Kind.POWER:
        return accumulator / observed_ms / MICRO
    return accumulator / terms.interval_ms / MICRO * HOUR_MS / observed_ms
