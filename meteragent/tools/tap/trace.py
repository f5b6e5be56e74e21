"""One meter's readings since the tap started, integrated as by the agent, but without noise."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from meteragent.core.factory import make_timeline
from meteragent.core.noiseless import SlotMeans
from meteragent.core.pending import Pending, give_back_tokens
from meteragent.core.phases import make_phases
from meteragent.core.register import RegisterTimeline
from meteragent.core.timeline import Timeline
from meteragent.core.window import Value
from meteragent.domain.schedule import Schedule
from meteragent.domain.terms import Terms
from meteragent.domain.units import HOUR_MS, Kind


class RawUse(NamedTuple):
    """The use in a slot, in the unit of the values; `is_partial` if some of its time is not known."""

    value: float
    is_partial: bool


class Trace:
    """The use in each slot of one meter, known from `since_ms` on."""

    def __init__(self, phases: Sequence[str], schedule: Schedule, subtracted: Collection[str] = ()) -> None:
        """Start without readings."""
        self.since_ms = 0
        self._rules = schedule.usual
        self._phases = make_phases(phases, schedule.usual, subtracted)
        self._timeline: Timeline | None = None
        self._means = SlotMeans(schedule)

    def add(self, phase: str | None, reading: Pending, now_ms: int) -> bool:
        """Add a reading of the meter or of a phase; return whether this yields a new reading or sum."""
        timeline = self._timeline
        if timeline is None:
            is_interval = self._rules.readings.kind is Kind.INTERVAL_ENERGY
            start_ms = reading.time_ms - (self._rules.readings.interval_ms if is_interval else 0)
            timeline = self._timeline = make_timeline(self._rules, start_ms)
            timeline.observe = self._observe
            self.since_ms = start_ms if phase is None else 0
            if phase is not None:
                timeline.phases = self._phases
        sums = [reading]
        if phase is None:
            timeline.accept_reading(reading)
        else:
            timeline.note_activity(reading.time_ms)
            sums, _, tokens = timeline.add_sums(self._phases.accept_reading(phase, reading))
            give_back_tokens(tokens)
        give_back_tokens(timeline.integrate_to_watermark(now_ms))
        stood = timeline.take_standing_sums() if isinstance(timeline, RegisterTimeline) else ()
        return bool(sums or stood)

    def _observe(self, start_ms: int, end_ms: int, value: Value) -> None:
        """Add a stretch of time; before the first sum of phases there is nothing to add."""
        if value is not None or self.since_ms:
            self.since_ms = self.since_ms or start_ms
            self._means.add_stretch(start_ms, end_ms, value)

    def end_at(self, time_ms: int) -> None:
        """Integrate all time up to `time_ms`, because a record shows that the agent has done so."""
        if self._timeline is not None:
            self._timeline.integrate_until(time_ms)

    def use_between(self, from_ms: int, to_ms: int, band: str, terms: Terms) -> RawUse | None:
        """Return the use in the observed part of a slot; `band` is its name, empty if slots are not bands.

        For a peak, return the largest mean of the window's parts that were observed from start to end. Return
        None if there is no such part, if nothing was observed, or if the configuration has no such slot. Also
        return None for amounts and for energies above a threshold, which are not computed here.
        """
        means = (mean for mean in self._means.list_means() if mean[:3] == (from_ms, to_ms, band))
        shape, mean = terms.shape, next(means, None)
        if mean is None or not (shape.is_additive or shape.has_parts):
            return None
        slot_ms = terms.slot_ms(shape.names.index(band) if band else 0)
        return RawUse(mean.power * (mean.part * slot_ms / HOUR_MS if terms.is_energy else 1), mean.part < 1)
