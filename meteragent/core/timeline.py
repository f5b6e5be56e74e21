"""One meter of one stream: its readings, integrated into the accumulators of its open slots.

Theory of operation
-------------------
A timeline integrates power over slots. `integrated_until_ms` is the *split*: the time before the split is
settled in the accumulators; the time after it still depends on the *pending* readings, which are kept in
order of their times. Integrating moves the split forward. A reading's *span* is the time that it describes
(rule 1). The pending reading whose span contains the split is the *standing* reading: it is integrated up to
the split, but the end of its span is not yet known.

Readings wait because the span of a power reading ends where the next span begins, and readings may arrive out
of order within `lateness`. So spans are integrated up to the watermark, which is the newest accepted time
less `lateness` and never beyond the clock (`integrate_to_watermark`). When a slot closes, spans are
integrated up to its end, even if readings are still on their way (`integrate_until`).

Rules
1. A power reading stands until the next one, for at most `hold`. An interval reading covers the `interval`
   that ends at its time, except any part that an earlier interval covers. Two consecutive readings of a
   register give the use between them (`register`). All other time is gap.
2. Time is integrated once: a reading whose span lies wholly before the split is refused, and one whose span
   lies partly before the split is used from the split on (law 7).
3. A reading's token is returned once its whole span is integrated, or once the reading is refused, replaced
   or dropped (rule 5). `pending.SharedToken` determines when its message is acknowledged.
4. From one noise bound R at most n noise values are ever drawn (THEORY 2.1). R is dropped with the last draw,
   because while R is known, an accumulator reveals more than its noise allows. The noise of a lost slot
   (`register`) is never used; its replacement is drawn from a new noise bound and masks a constant.
5. If more than `PENDING_MAX` readings are pending, those closest to their predecessors are dropped.
6. A slot is integrated only once it is open. The split is ahead of the clock only in lost or sealed slots.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter

from meteragent.core.largest import integrable_until_ms
from meteragent.core.pending import PENDING_MAX, Outcome, Pending, thin_out
from meteragent.core.phases import PhaseResult, Phases
from meteragent.core.window import Value, Window
from meteragent.domain.commit import TimelineState
from meteragent.domain.reading import Token
from meteragent.domain.readings import ReadingRules
from meteragent.domain.terms import Clock, Terms
from meteragent.domain.units import HOUR_MS, Kind

_RECENT, _DROP = 144, 16
"""How many integrated times are kept to tell `duplicate` from `late`, and how many are dropped at once."""
# NOTE: these three are guesses; false and missed problems in the field would settle them.
_GAPS_MIN, _LARGE_PART, _REACHES_MAX = 3, 20, 4
"""How many gaps in a row are a problem. They are in a row if each is more than one in so many parts of the
time until the next one, and readings cover the rest of that time, at most so many times the reach of one."""
_TIME = itemgetter(0)


@dataclass(slots=True)
class Gaps:
    """A meter's newest gap, and the number of gaps in a row.

    `apart_ms` is how far apart readings are if their gaps are a problem; the core resets it to 0.
    """

    start_ms: int = 0
    end_ms: int = 0
    count: int = 0
    apart_ms: int = 0

    def note_gap(self, start_ms: int, end_ms: int, terms: Terms) -> None:
        """Note a gap, or the continuation of the newest one."""
        reach_ms, apart_ms = terms.readings.reach_ms, start_ms - self.start_ms
        if start_ms != self.end_ms:
            is_next = start_ms - self.end_ms <= _REACHES_MAX * reach_ms
            is_large = _LARGE_PART * (self.end_ms - self.start_ms) > apart_ms
            self.count = self.count + 1 if is_next and is_large else 1
            self.start_ms = start_ms
            if self.count >= _GAPS_MIN:
                self.apart_ms = apart_ms
        self.end_ms = end_ms
        # By the wall clock, a silence is a problem while it lasts; by the event clock, it takes no time.
        if terms.clock is Clock.EVENT and end_ms - self.start_ms >= max(HOUR_MS, 3 * reach_ms):
            self.apart_ms = end_ms - self.start_ms + reach_ms


@dataclass(slots=True, eq=False)
class Timeline:
    """The pending readings and open windows of one meter of a stream of power or interval energy.

    It starts without readings; the first window starts at the initial `integrated_until_ms`, a boundary.
    `next_ms` is the start of the window that opens next; None if the meter is silent.
    """

    terms: Terms
    integrated_until_ms: int
    meter: str = ""
    next_ms: int | None = field(init=False)
    standing_ms: int | None = None
    newest_ms: int | None = None
    idle_windows: int = 0
    thinned_count: int = 0
    pending: list[Pending] = field(default_factory=list)
    phases: Phases | None = None
    windows: list[Window] = field(default_factory=list)
    recent_ms: "array[int]" = field(default_factory=partial(array, "q"))
    observe: Callable[[int, int, Value], None] | None = None
    gaps: Gaps | None = None  # None before the first

    def __post_init__(self) -> None:
        self.next_ms = self.integrated_until_ms

    def resume(self, state: TimelineState, windows: list[Window]) -> None:
        """Resume from a stored state; seal its windows if readings now mean something else."""
        self.integrated_until_ms, self.standing_ms, self.newest_ms, _, self.idle_windows, _ = state
        self.windows = windows
        if any(window.terms.readings.meaning != self.terms.readings.meaning for window in windows):
            for window in windows:
                window.seal_slots(self.integrated_until_ms)
            self.integrated_until_ms = max(self.integrated_until_ms, windows[-1].end_ms)

    def stored_state(self) -> TimelineState:
        """Return the state that the store keeps, which does not contain pending readings."""
        standing = self._standing_register()
        windows = tuple([window.stored_state(standing) for window in self.windows])
        next_ms = self.next_ms if self.next_ms is not None else self.integrated_until_ms
        return TimelineState(
            self.integrated_until_ms, self.standing_ms, self.newest_ms, next_ms, self.idle_windows, windows
        )

    def _standing_register(self) -> tuple[int, int] | None:
        """Return the time and register of a reading at the split, for `Window.stored_state`, else None."""
        return None

    def take_counts(self) -> Sequence[str]:
        """Return the names of the counters to increase for the spans integrated since the last call."""
        return ()

    @property
    def _reading_terms(self) -> Terms:
        """The oldest open window's terms (law 1), or `self.terms` if readings no longer mean the same."""
        if not self.windows or (oldest := self.windows[0].terms) is self.terms:
            return self.terms
        return oldest if oldest.readings.meaning == self.terms.readings.meaning else self.terms

    # --- readings in ---------------------------------------------------------------------------

    def accept_reading(self, reading: Pending) -> tuple[Outcome, list[Token]]:
        """Accept or refuse a reading; return the outcome and the freed tokens."""
        time_ms, pending = reading.time_ms, self.pending
        if self._is_integrated(reading):
            return self.refusal_outcome(time_ms), [reading.token]
        is_newest = not pending or pending[-1].time_ms < time_ms
        index = len(pending) if is_newest else bisect_left(pending, time_ms, key=_TIME)
        if not is_newest and pending[index].time_ms == time_ms:
            earlier = pending[index]
            gives_way = reading.is_stamped and self._gives_way(earlier)
            if not gives_way and earlier.value_u != reading.value_u:
                return Outcome.DUPLICATE, [reading.token]  # a correction, which is refused
            pending[index] = reading  # also if redelivered: the first delivery's connection may be closed
            return Outcome.ACCEPTED if gives_way else Outcome.DUPLICATE, [earlier.token]
        pending.insert(index, reading)
        self.note_activity(time_ms)
        tokens = thin_out(pending) if len(pending) > PENDING_MAX else []
        self.thinned_count += len(tokens)
        # A reading before the split ends the standing reading's span, whose token may then be freed.
        return Outcome.ACCEPTED, [*tokens, *self._retire()] if time_ms <= self.integrated_until_ms else tokens

    def _gives_way(self, _pending: Pending) -> bool:
        """Return whether a pending reading is replaced by a newer one that was stamped with the same time."""
        return True

    def add_sums(self, result: PhaseResult) -> tuple[list[Pending], Outcome, list[Token]]:
        """Add sums of phases; return those that are accepted, the outcome, and the freed tokens."""
        outcome, tokens, accepted = result.outcome or Outcome.LATE, [*result.free_tokens], list[Pending]()
        for item in result.sums:
            index = self._count_up_to(item.time_ms) - 1
            if index >= 0 and self.pending[index].time_ms == item.time_ms:
                outcome, free_tokens = Outcome.ACCEPTED, [self.pending[index].token]
                self.pending[index] = item
            else:
                outcome, free_tokens = self.accept_reading(item)
            tokens += free_tokens
            accepted += [item] if outcome is Outcome.ACCEPTED else []
        return accepted, outcome, tokens

    def drop_pending_from(self, time_ms: int) -> list[Token]:
        """Drop readings from `time_ms` on, stamped while the meter's clock was fast; return their tokens."""
        index = bisect_left(self.pending, time_ms, key=_TIME)
        tokens = [pending.token for pending in self.pending[index:]]
        del self.pending[index:]
        self.newest_ms = max(time_ms, self.integrated_until_ms)
        if self.standing_ms is not None:  # the standing reading was stamped in the future, too
            self.standing_ms = min(self.standing_ms, time_ms)
        return tokens

    def end_power(self, time_ms: int) -> list[Token]:
        """End the standing power reading, because a gateway lost the meter; return the freed tokens."""
        if self.pending and self.pending[-1].time_ms <= time_ms:
            since_ms = min(self.pending[-1].from_ms, time_ms - self.terms.readings.hold_ms)
            self.pending[-1] = self.pending[-1]._replace(since_ms=since_ms)
        return self.forget_phases()

    def forget_phases(self) -> list[Token]:
        """Forget the readings of the meter's phases; return the freed tokens."""
        phases, self.phases = self.phases, None
        return phases.forget_readings() if phases else []

    def note_activity(self, time_ms: int) -> None:
        """Note that the meter sent a reading: advance the meter's clock and end its idle time."""
        if self.newest_ms is None or self.newest_ms < time_ms:
            self.newest_ms = time_ms
        self.idle_windows = 0

    def _is_integrated(self, reading: Pending) -> bool:
        """Return whether the span of a reading lies wholly before the split (rule 2)."""
        is_older = self.standing_ms is not None and reading.time_ms < self.standing_ms
        return is_older or reading.from_ms + self._reading_terms.readings.hold_ms <= self.integrated_until_ms

    def refusal_outcome(self, time_ms: int) -> Outcome:
        """Return the outcome of a reading that is refused because its time is already integrated."""
        if time_ms in self.recent_ms:
            return Outcome.DUPLICATE
        is_waiting = not self.windows and self.next_ms == self.integrated_until_ms
        return Outcome.EARLY if is_waiting else Outcome.LATE

    # --- integrating ---------------------------------------------------------------------------

    def integrate_to_watermark(self, clock_ms: int) -> list[Token]:
        """Integrate the spans that end by the watermark (in a peak, whole parts); return the freed tokens."""
        if self.newest_ms is None:
            return []
        watermark_ms = min(self.newest_ms - self._reading_terms.lateness_ms, clock_ms)
        if watermark_ms <= self.integrated_until_ms:
            return []
        if integrable_until_ms(self.windows, watermark_ms) <= self.integrated_until_ms:
            return []
        ended_ms = self._settled_until_ms(watermark_ms)
        return [] if ended_ms is None else self.integrate_until(integrable_until_ms(self.windows, ended_ms))

    def _settled_until_ms(self, watermark_ms: int) -> int | None:
        """Return the time up to which the watermark settles the readings; None if no reading is that old."""
        if not (count := self._count_up_to(watermark_ms)):
            return None
        end_ms = self._end_ms(count - 1, self._reading_terms.readings)
        until_ms = self.pending[count - 1].time_ms
        return end_ms if until_ms < end_ms <= watermark_ms else until_ms

    def integrate_until(self, until_ms: int) -> list[Token]:
        """Add all time up to `until_ms` to the slots; return the freed tokens."""
        at_ms = self.integrated_until_ms
        if until_ms <= at_ms:
            return []
        for start_ms, end_ms, value in self._spans(until_ms):
            stop_ms = min(until_ms, end_ms)
            if at_ms < start_ms:
                self._add_to_slots(at_ms, start_ms, None)
                at_ms = start_ms
            if at_ms < stop_ms:
                self._add_to_slots(at_ms, stop_ms, value)
                at_ms = stop_ms
        if at_ms < until_ms:
            self._add_to_slots(at_ms, until_ms, None)
        self.integrated_until_ms = until_ms
        return self._retire()

    def _add_to_slots(self, start_ms: int, end_ms: int, value: Value) -> None:
        for window in self.windows:
            window.add_value(start_ms, end_ms, value)
        if value is None:
            _note_gap(self, start_ms, end_ms)
        if self.observe is not None:
            self.observe(start_ms, end_ms, value)

    def _spans(self, until_ms: int) -> Iterator[tuple[int, int, Value]]:
        """Yield the spans that begin before `until_ms` as (start, end, value), in order of both times."""
        rules = self._reading_terms.readings
        for index, reading in enumerate(self.pending):
            start_ms = reading.time_ms - rules.interval_ms
            if start_ms >= until_ms:
                return
            yield start_ms, self._end_ms(index, rules), reading.value_u

    def _count_up_to(self, time_ms: int) -> int:
        return bisect_right(self.pending, time_ms, key=_TIME)

    def _end_ms(self, index: int, rules: ReadingRules) -> int:
        """Return the end of a pending reading's span; for intervals, whose `hold` is 0, it is their time."""
        end_ms = self.pending[index].from_ms + rules.hold_ms
        return min(end_ms, self.pending[index + 1].time_ms) if index + 1 < len(self.pending) else end_ms

    def _retire(self) -> list[Token]:
        """Drop the pending readings whose span is wholly integrated; return their tokens (rule 3)."""
        count = self._count_up_to(self.integrated_until_ms)
        if count == 0:
            return []
        self.standing_ms = max(self.standing_ms or 0, self.pending[count - 1].time_ms)
        end_ms = self._end_ms(count - 1, self._reading_terms.readings)
        return self._discard(range(count - (end_ms > self.integrated_until_ms)))

    def _discard(self, indices: range) -> list[Token]:
        """Drop pending readings; return their tokens."""
        readings = self.pending[indices.start : indices.stop]
        del self.pending[indices.start : indices.stop]
        for reading in readings:
            self.remember_time(reading.time_ms)
        return [reading.token for reading in readings]

    def remember_time(self, time_ms: int) -> None:
        """Remember the time of a reading whose span is integrated."""
        if len(self.recent_ms) == _RECENT:
            del self.recent_ms[:_DROP]
        self.recent_ms.append(time_ms)

    # --- the schedule --------------------------------------------------------------------------

    def next_open_ms(self) -> int | None:
        """Return when the next slot or window opens; None if no further window is scheduled."""
        if self.windows and self.windows[-1].draws < self.windows[-1].terms.n:
            return self.windows[-1].slot_start_ms(self.windows[-1].draws)
        return self.next_ms

    def next_close_ms(self) -> int | None:
        """Return the time when the next slot closes: its end plus the lateness; None if no slot is open."""
        closing = self.next_closing()
        return closing and closing[0]

    def next_closing(self) -> tuple[int, Window, int] | None:
        """Return the next slot to close as (closing time, window, index); None if no slot is open."""
        for window in self.windows:
            if slots := window.slots:
                slot_index = next(iter(slots)) if len(slots) == 1 else min(slots, key=window.slot_end_ms)
                return window.slot_end_ms(slot_index) + window.terms.lateness_ms, window, slot_index
        return None


def extend_standing(timeline: Timeline, reading: Pending, clock_ms: int) -> Pending | None:
    """Integrate up to a power reading in one step, if possible; return the previous reading, else None."""
    if len(timeline.pending) != 1 or len(timeline.windows) != 1:
        return None
    [standing], [window] = timeline.pending, timeline.windows
    time_ms, from_ms = reading.time_ms, timeline.integrated_until_ms
    end_ms = standing.time_ms + window.terms.readings.hold_ms
    until_ms = min(end_ms, time_ms)
    if not (
        standing.time_ms == timeline.newest_ms
        and standing.time_ms <= from_ms < until_ms
        and time_ms <= clock_ms
        and (slot_index := window.slot_of_power(from_ms, time_ms)) is not None
        and standing.since_ms is None
    ):
        return None
    # `accept_reading` and `integrate_to_watermark` would have the same result. `accept_reading` would append
    # `reading`, the newest. Its time is the watermark, because there is no lateness and the clock has reached
    # it. Until that time, the slot gets the span of the standing reading, at most `hold`, and then gap.
    window.add_to_slot(slot_index, from_ms, until_ms, standing.value_u)
    if end_ms < time_ms:
        window.add_to_slot(slot_index, end_ms, time_ms, None)
        _note_gap(timeline, end_ms, time_ms)
    if timeline.observe is not None:
        timeline.observe(from_ms, until_ms, standing.value_u)
        timeline.observe(until_ms, time_ms, None)
    timeline.integrated_until_ms = timeline.standing_ms = timeline.newest_ms = time_ms
    timeline.idle_windows = 0
    timeline.remember_time(standing.time_ms)
    timeline.pending[0] = reading
    return standing


def _note_gap(timeline: Timeline, start_ms: int, end_ms: int) -> None:
    """Note a stretch of gap, unless readings come on change or are of a register."""
    if timeline.terms.readings.every_ms != 0 and timeline.terms.readings.kind is not Kind.REGISTER:
        timeline.gaps = timeline.gaps or Gaps()
        timeline.gaps.note_gap(start_ms, end_ms, timeline.terms)
