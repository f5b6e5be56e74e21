"""One meter of one stream: its readings, integrated into the accumulators of its open slots.

Theory of operation
-------------------
A timeline integrates power over slots. `integrated_until_ms` is the *split*: the time before the split is
settled in the accumulators; the time after it still depends on the *pending* readings, which are kept in
order of their times. Integrating moves the split forward. Time is an argument; `next_open_ms` and `closing`
return when the next slot opens and closes. A reading's *span* is the time that it describes (rule 1). The
pending reading whose span contains the split is the *standing* reading: it is integrated up to the split, but
the end of its span is not yet known.

Readings wait because the span of a power reading ends where the next span begins, and readings may arrive out
of order within `lateness`. So spans are integrated up to the watermark, which is the newest accepted time
less `lateness` and never beyond the clock (`integrate_to_watermark`). When a slot closes, spans are
integrated up to its end, even if readings are still on their way (`integrate_until`). If `lateness` is 0, the
watermark is the time of the newest reading, which ends the span of the standing reading at once. Nearly all
readings of power meters are of this kind and take a fast path (`extend_standing`).

Rules
1. A power reading stands until the next one, for at most `hold`. An interval reading covers the `interval`
   that ends at its time, except any part that an earlier interval covers. Two consecutive readings of a
   register give the use between them (`register`). All other time is gap.
2. Time is integrated once: a reading whose span lies wholly before the split is refused, and one whose
   span lies partly before the split counts from the split on (law 7).
3. A reading's token is returned once its whole span is integrated, or once the reading is refused, replaced
   or dropped (rule 5). If readings share a message or are summed over phases, `meteragent.core.tokens`
   determines when the message is acknowledged.
4. From one noise bound R at most n noise values are ever drawn (THEORY 2.1). R is dropped with the last draw,
   because while R is known, an accumulator reveals more than its noise allows. The noise of a lost slot
   (`register`) is never used; its replacement is drawn from a new noise bound and masks a constant.
5. At most `PENDING` readings are pending; if there are more, those closest to their predecessor are dropped.
6. A slot is integrated only after it has opened: the split passes the clock only over lost or sealed slots.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from operator import itemgetter
from typing import NamedTuple, Protocol

from meteragent.core.largest import whole_ms
from meteragent.core.window import Value, Window
from meteragent.domain.commit import OpenWindow, TimelineState
from meteragent.domain.reading import Token
from meteragent.domain.terms import Terms
from meteragent.domain.units import Kind

_RECENT, _DROP = 144, 16
"""How many integrated times are kept to tell `duplicate` from `late`, and how many are dropped at once."""
PENDING = 4096
"""The largest number of a meter's pending readings; a sender could stamp thousands within `ahead`."""


class Outcome(StrEnum):
    """The outcome of a reading, which is also the name of its counter."""

    ACCEPTED = "accepted"
    LATE = "late"
    DUPLICATE = "duplicate"
    EARLY = "early"


class Pending(NamedTuple):
    """A reading whose span is not wholly integrated, and the token that acknowledges its message.

    `hold` begins at `since_ms`: in a sum of phases, the time of the oldest reading. If `since_ms` is None,
    `hold` begins at `time_ms`. `stamped` is True if the time was derived from the arrival. In a sum of
    registers, which were judged one by one, `shift_u` is the part of the change since the last sum that is
    not use; otherwise it is None.
    """

    time_ms: int
    value_u: int
    token: Token
    since_ms: int | None = None
    stamped: bool = False
    shift_u: int | None = None


class PhaseResult(NamedTuple):
    """The effect of a phase's reading.

    `outcome` is None if the reading is too old; the timeline then determines the reason. `sums` are the new
    sums of the phases, in order of time. `free` holds the tokens to give back, and `counters` the names of
    the counters to increase.
    """

    outcome: Outcome | None
    sums: Sequence[Pending]
    free: list[Token]
    counters: Sequence[str] = ()


class Phases(Protocol):
    """The phases of one meter, and the readings of each phase that are in use."""

    def accept(self, phase: str, reading: Pending) -> PhaseResult:
        """Accept or refuse a phase's reading."""

    def stand(self, until_ms: int, *, is_slot_end: bool) -> PhaseResult:
        """Return the sums in which silent phases stand, up to the time until which all is integrated."""

    def forget(self) -> list[Token]:
        """Return the tokens to give back when the meter is forgotten."""


class Timeline:
    """The pending readings and open windows of one meter of a stream of power or interval energy."""

    __slots__ = (
        "idle_windows",
        "integrated_until_ms",
        "newest_ms",
        "next_ms",
        "observe",
        "pending",
        "recent_ms",
        "standing_ms",
        "terms",
        "thinned_count",
        "windows",
    )

    def __init__(self, terms: Terms, first_ms: int) -> None:
        """Start without readings; the meter's first window starts at `first_ms`, a boundary of the grid."""
        self.terms = terms
        self.integrated_until_ms = first_ms
        self.next_ms: int | None = first_ms
        self.standing_ms: int | None = None
        self.newest_ms: int | None = None
        self.idle_windows = 0
        self.thinned_count = 0
        self.pending: list[Pending] = []
        self.windows: list[Window] = []
        self.recent_ms = array("q")
        self.observe: Callable[[int, int, Value], None] | None = None

    def resume(self, state: TimelineState, windows: list[Window]) -> None:
        """Resume from a state in the store with its open windows, which keep their own terms.

        If the meaning of the readings has changed (kind, unit or interval), the windows are sealed.
        """
        self.integrated_until_ms = state.integrated_until_ms
        self.standing_ms = state.standing_ms
        self.newest_ms = state.newest_ms
        self.idle_windows = state.idle_windows
        self.windows = windows
        if any(window.terms.readings.meaning != self.terms.readings.meaning for window in windows):
            self._seal()

    def _seal(self) -> None:
        """Seal the open windows: their remaining time counts as gap or, in a peak, does not count."""
        for window in self.windows:
            window.seal(self.integrated_until_ms)
        self.integrated_until_ms = max(self.integrated_until_ms, self.windows[-1].end_ms)

    def state(self) -> TimelineState:
        """Return the state that the store keeps, which does not contain pending readings."""
        windows = tuple([self._window_state(window) for window in self.windows])
        next_ms = self.next_ms if self.next_ms is not None else self.integrated_until_ms
        return TimelineState(
            self.integrated_until_ms, self.standing_ms, self.newest_ms, next_ms, self.idle_windows, windows
        )

    def _window_state(self, window: Window) -> OpenWindow:
        return window.state()

    def counts(self) -> list[str]:
        """Return the names of the counters to increase for the spans integrated since the last call."""
        return []

    @property
    def _reading_terms(self) -> Terms:
        """The oldest open window's terms (law 1) if readings mean the same under them, else `self.terms`."""
        if not self.windows:
            return self.terms
        oldest = self.windows[0].terms
        return oldest if oldest.readings.meaning == self.terms.readings.meaning else self.terms

    # --- readings in ---------------------------------------------------------------------------

    def accept(self, reading: Pending) -> tuple[Outcome, list[Token]]:
        """Accept or refuse a reading; return the outcome and the freed tokens."""
        time_ms = reading.time_ms
        if self._is_integrated(reading):
            return self.refusal(time_ms), [reading.token]
        pending = self.pending
        if pending and time_ms <= pending[-1].time_ms:
            index = bisect_left(pending, time_ms, key=itemgetter(0))
            neighbour = pending[index]
            if neighbour.time_ms == time_ms:
                if reading.stamped and self._gives_way(neighbour):
                    pending[index] = reading
                    return Outcome.ACCEPTED, [neighbour.token]
                return Outcome.DUPLICATE, [self._token_of_duplicate(index, reading)]
            pending.insert(index, reading)
        else:
            pending.append(reading)
        self.note_activity(time_ms)
        tokens = self._thin() if len(pending) > PENDING else []
        # A reading before the split ends the span of the standing reading, which may then be given back.
        return Outcome.ACCEPTED, [*tokens, *self._free()] if time_ms <= self.integrated_until_ms else tokens

    def _thin(self) -> list[Token]:
        """Drop the pending readings that follow their predecessor most closely; return their tokens.

        All times that remain, except the last, differ by at least 1/2,048 of the time from the first to the
        last. The choice depends on times alone, never on a value. A power reading stands a little longer, a
        register loses only the time at which energy was used (unless it is reset), and a dropped interval
        becomes gap unless another interval covers it.
        """
        oldest, *readings, newest = self.pending
        distance_ms = 2 * (newest.time_ms - oldest.time_ms) // PENDING
        remaining, tokens = [oldest], []
        for reading in readings:
            if reading.time_ms - remaining[-1].time_ms < distance_ms and not reading.shift_u:
                tokens.append(reading.token)
            else:
                remaining.append(reading)
        self.pending[:] = *remaining, newest
        self.thinned_count += len(tokens)
        return tokens

    def _gives_way(self, _pending: Pending) -> bool:
        """Return whether a pending reading gives way to a newer one that was stamped with the same time."""
        return True

    def replace_sum(self, reading: Pending) -> tuple[Outcome, list[Token]]:
        """Accept or refuse the sum of a meter's phases, which replaces an earlier sum with the same time."""
        if (i := self._count_up_to(reading.time_ms) - 1) >= 0 and self.pending[i].time_ms == reading.time_ms:
            previous_sum, self.pending[i] = self.pending[i], reading
            return Outcome.ACCEPTED, [previous_sum.token]
        return self.accept(reading)

    def note_activity(self, time_ms: int) -> None:
        """Note that the meter sent a reading: advance the meter's clock and end its idle time."""
        if self.newest_ms is None or self.newest_ms < time_ms:
            self.newest_ms = time_ms
        self.idle_windows = 0

    def _is_integrated(self, reading: Pending) -> bool:
        """Return whether the span of a reading lies wholly before the split (rule 2)."""
        time_ms, terms = reading.time_ms, self._reading_terms
        if terms.readings.kind is Kind.INTERVAL_ENERGY:
            return time_ms <= self.integrated_until_ms
        is_older = self.standing_ms is not None and time_ms < self.standing_ms
        from_ms = time_ms if reading.since_ms is None else reading.since_ms
        return is_older or from_ms + terms.readings.hold_ms <= self.integrated_until_ms

    def refusal(self, time_ms: int) -> Outcome:
        """Return the outcome of a reading that is refused because its time is already integrated."""
        if time_ms in self.recent_ms:
            return Outcome.DUPLICATE
        is_waiting = not self.windows and self.next_ms == self.integrated_until_ms
        return Outcome.EARLY if is_waiting else Outcome.LATE

    def _token_of_duplicate(self, index: int, reading: Pending) -> Token:
        """Return the token to acknowledge at once when a reading has the time of a pending reading.

        A redelivery replaces the first delivery, whose connection may be closed. A correction (another value)
        is refused.
        """
        first_delivery = self.pending[index]
        if first_delivery.value_u != reading.value_u:
            return reading.token
        self.pending[index] = reading
        return first_delivery.token

    def extend_standing(self, reading: Pending, clock_ms: int) -> Pending | None:
        """Accept a power reading and integrate up to it in one step, if this stays within one open slot.

        This is the fast path through `accept` and `integrate_to_watermark`. Return the previous standing
        reading, whose token is free. If the fast path does not apply, return None and change nothing.
        """
        if len(self.pending) != 1 or len(self.windows) != 1:
            return None
        [standing], [window] = self.pending, self.windows
        time_ms, from_ms = reading.time_ms, self.integrated_until_ms
        end_ms = standing.time_ms + window.terms.readings.hold_ms
        if not (
            standing.time_ms == self.newest_ms
            and standing.time_ms <= from_ms < min(time_ms, end_ms)
            and time_ms <= clock_ms
            and (slot_index := window.slot_of_power(from_ms, time_ms)) is not None
            and standing.since_ms is None
        ):
            return None
        # The result is the same as on the general path. `accept` would append `reading`, the newest. Its time
        # is the watermark, because there is no lateness and the clock has reached it. Up to the watermark,
        # the slot has only the span of the standing reading, for at most `hold`, and then gap. `_free` would
        # drop the standing reading.
        window.put(slot_index, from_ms, min(time_ms, end_ms), standing.value_u)
        if end_ms < time_ms:
            window.put(slot_index, end_ms, time_ms, None)
        if self.observe is not None:
            self.observe(from_ms, min(time_ms, end_ms), standing.value_u)
            self.observe(min(time_ms, end_ms), time_ms, None)
        self.integrated_until_ms = self.standing_ms = self.newest_ms = time_ms
        self.idle_windows = 0
        self._remember(standing.time_ms)
        self.pending[0] = reading
        return standing

    # --- integrating ---------------------------------------------------------------------------

    def integrate_to_watermark(self, clock_ms: int) -> list[Token]:
        """Integrate the spans that end by the watermark; return the freed tokens.

        The watermark is the newest accepted time less `lateness`, at most `clock_ms` (rule 6). If the last
        span has not ended by then, the split moves only to that span's start; in a peak, by whole parts.
        """
        if self.newest_ms is None:
            return []
        watermark_ms = min(self.newest_ms - self._reading_terms.lateness_ms, clock_ms)
        if (until_ms := whole_ms(self.windows, watermark_ms)) <= self.integrated_until_ms:
            return self.integrate_until(until_ms)  # no effect, unless a register resumes its slot
        ended_ms = self._ended_ms(watermark_ms)
        return [] if ended_ms is None else self.integrate_until(whole_ms(self.windows, ended_ms))

    def _ended_ms(self, watermark_ms: int) -> int | None:
        """Return up to when it is settled by the watermark what counts; None if no reading is that old."""
        if not (count := self._count_up_to(watermark_ms)):
            return None
        until_ms, end_ms = self.pending[count - 1].time_ms, self._end_ms(count - 1)
        return end_ms if until_ms < end_ms <= watermark_ms else until_ms

    def integrate_until(self, until_ms: int) -> list[Token]:
        """Add all time up to `until_ms` to the slots; return the freed tokens."""
        at_ms = self.integrated_until_ms
        if until_ms <= at_ms:
            return []
        for start_ms, end_ms, value in self._spans(until_ms):
            if at_ms < start_ms:
                self._add(at_ms, start_ms, None)
                at_ms = start_ms
            if at_ms < end_ms:
                self._add(at_ms, min(end_ms, until_ms), value)
                at_ms = min(end_ms, until_ms)
        if at_ms < until_ms:
            self._add(at_ms, until_ms, None)
        self.integrated_until_ms = until_ms
        return self._free()

    def _add(self, start_ms: int, end_ms: int, value: Value) -> None:
        for window in self.windows:
            window.add(start_ms, end_ms, value)
        if self.observe is not None:
            self.observe(start_ms, end_ms, value)

    def _spans(self, until_ms: int) -> Iterator[tuple[int, int, Value]]:
        """Yield the spans that begin before `until_ms` as (start, end, value), in order of both times."""
        terms = self._reading_terms
        interval_ms = terms.readings.interval_ms if terms.readings.kind is Kind.INTERVAL_ENERGY else 0
        for index, reading in enumerate(self.pending):
            start_ms = reading.time_ms - interval_ms
            if start_ms >= until_ms:
                return
            yield start_ms, self._end_ms(index), reading.value_u

    def _count_up_to(self, time_ms: int) -> int:
        """Count the pending readings whose time is at most `time_ms`."""
        return bisect_right(self.pending, time_ms, key=itemgetter(0))

    def _end_ms(self, index: int) -> int:
        """Return the end of a pending reading's span."""
        reading, terms = self.pending[index], self._reading_terms
        if terms.readings.kind is Kind.INTERVAL_ENERGY:
            return reading.time_ms
        since_ms = reading.since_ms
        end_ms = (reading.time_ms if since_ms is None else since_ms) + terms.readings.hold_ms
        if index + 1 < len(self.pending):
            return min(end_ms, self.pending[index + 1].time_ms)
        return end_ms

    def _free(self) -> list[Token]:
        """Drop the pending readings whose span is wholly integrated; return their tokens (rule 3)."""
        count = self._count_up_to(self.integrated_until_ms)
        if count == 0:
            return []
        self.standing_ms = max(self.standing_ms or 0, self.pending[count - 1].time_ms)
        if self._end_ms(count - 1) > self.integrated_until_ms:
            count -= 1
        integrated, self.pending = self.pending[:count], self.pending[count:]
        for reading in integrated:
            self._remember(reading.time_ms)
        return [reading.token for reading in integrated]

    def _remember(self, time_ms: int) -> None:
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
        closing = self.closing()
        return None if closing is None else closing[0]

    def closing(self) -> tuple[int, Window, int] | None:
        """Return the next slot to close as (closing time, window, index); None if no slot is open."""
        for window in self.windows:
            if window.slots:
                slot_index = window.next_slot
                return window.slot_end_ms(slot_index) + window.terms.lateness_ms, window, slot_index
        return None


def add_sums(timeline: Timeline, result: PhaseResult) -> tuple[list[Pending], Outcome, list[Token]]:
    """Add the sums of a meter's phases to its timeline.

    Return those that are accepted, the outcome of the last or else of the result, and the freed tokens.
    """
    outcome, tokens, accepted = result.outcome or Outcome.LATE, list(result.free), list[Pending]()
    for item in result.sums:
        outcome, free_tokens = timeline.replace_sum(item)
        tokens += free_tokens
        accepted += [item] if outcome is Outcome.ACCEPTED else []
    return accepted, outcome, tokens
