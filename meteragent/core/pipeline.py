"""One stream: its meters' timelines, their schedule, charges and releases.

`feed` takes a batch of messages and the time. It returns the content of one transaction, the messages to
acknowledge after the commit, and the topics to listen on. If the transaction cannot be written, the process
must exit, because its memory is ahead of the store.

A feed alternates between time and messages: before it accepts the readings that arrived at a given time, it
opens and closes all slots that are due by then.

Two clocks drive a wall-clock stream: `now_ms` opens windows and slots, and `closing_ms` closes slots. They
differ after a start or a pause, while readings that waited in the broker arrive and overdue slots stay open
(law 4, `catch_up`). In an event-clock stream, a meter's newest timestamp serves as both.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import groupby
from operator import attrgetter

from meteragent.core.arrivals import Arrivals
from meteragent.core.charges import Charges, Spending
from meteragent.core.deadlines import Deadlines, Upcoming, upcoming_slot
from meteragent.core.factory import Factory, make_timeline
from meteragent.core.intake import Intake, MeterReading, Origin, clock_error_max_ms
from meteragent.core.noise import Noise
from meteragent.core.opening import Openings
from meteragent.core.pending import Outcome, Pending, give_back_tokens
from meteragent.core.prices import PriceIntake, Prices
from meteragent.core.register import RegisterTimeline
from meteragent.core.release import Releases
from meteragent.core.stream import Effects, LiveStream, Names, Stream
from meteragent.core.timeline import Timeline, extend_standing
from meteragent.domain.commit import Commit, Destination, Snapshot
from meteragent.domain.counters import Counts
from meteragent.domain.errors import PayloadError
from meteragent.domain.reading import Message, Observer
from meteragent.domain.schedule import Schedule
from meteragent.domain.terms import Clock
from meteragent.privacy.sampling import SecretBits
from meteragent.wire.record import RecordFormats

_ACCEPTED = Outcome.ACCEPTED  # because looking it up takes as long as a call of a function


class Pipeline:
    """One stream: its meters' timelines, and when their slots open and close."""

    def __init__(
        self, stream: Stream, snapshot: Snapshot, spending: Spending, bits: SecretBits, counts: Counts
    ) -> None:
        """Resume the stream from the contents of the store."""
        formats, book = RecordFormats(snapshot.terms), Prices(snapshot.prices)
        phases, clock_error_ms = stream.source.phases, clock_error_max_ms(stream.terms)
        arrivals = Arrivals(stream.name, phases, stream.max_meters, counts, clock_error_ms)
        running = self._running = LiveStream(stream, Names(stream), Charges(spending), Noise(bits), arrivals)
        self._stream, self.arrivals, self._counts = stream, arrivals, counts
        self._intake = Intake(stream, arrivals)
        self._factory = Factory(stream.terms, formats, book, stream.crowd)
        self._openings = Openings(running, snapshot, self._factory)
        self._releases = Releases(running, snapshot, formats)
        self._timelines, self._resealed_meters = dict[str, Timeline](), list[str]()
        self._has_wall_clock = stream.terms.clock is Clock.WALL
        self._prices = PriceIntake(stream, book, counts)
        self._deadlines = Deadlines()
        for meter, stored_state in snapshot.states.items():
            state = stream.drop_unwanted(stored_state, snapshot.terms)
            first_ms = self._openings.boundary_ms(meter, state.next_ms)
            timeline = self._timelines[meter] = self._factory.restore_timeline(first_ms, state, meter)
            # The sealed slots must be on disk before the prices that they needed are dropped.
            is_sealed = timeline.integrated_until_ms != state.integrated_until_ms
            if is_sealed or any(window.lacks_noise for window in timeline.windows):
                self._resealed_meters.append(meter)
            self._schedule_next(timeline)
            self.arrivals.expect_meter(meter)
            if stream.listens:
                self._openings.claims.ask_about(self._running.names[meter].destinations)
        self._effects = Effects(Commit(stream.name, 0))
        self._observer: Observer | None = None

    @property
    def name(self) -> str:
        """The stream's name, its key in the ledger."""
        return self._stream.name

    @property
    def schedule(self) -> Schedule:
        """The windows; between two feeds, time must advance by at most the length of an ordinary window."""
        return self._stream.schedule

    def hold_messages_until(self, due_ms: Mapping[Destination, int]) -> None:
        """Send nothing new to a destination before its time in `due_ms`, when an older message is due."""
        self._releases.held_until_ms = self._openings.claims.held_until_ms = due_ms

    def withhold_from(self, destinations: Collection[Destination]) -> None:
        """Open no window for these destinations, which refuse messages and have too many waiting."""
        self._openings.withheld = destinations

    def feed(
        self, batch: Sequence[Message], now_ms: int, closing_ms: int, observer: Observer | None = None
    ) -> Effects:
        """Process messages in order of arrival, then advance the time to `now_ms`; return the effects.

        Windows and slots that are due by `now_ms` open, and slots that are due by `closing_ms` close (wall
        clock only). `observer` gets the accepted readings, and the integrated spans of `observer.meters`.
        """
        self._observe(observer)
        self._effects = Effects(Commit(self._stream.name, now_ms))
        changes = dict.fromkeys(self._resealed_meters)
        for meter in self._resealed_meters:
            # A stream that reads power now may have read a register before, and lost its slot.
            self._releases.redraw_missing_noise(self._timelines[meter], self._effects.commit)
        self._resealed_meters.clear()
        integrated_until_ms = (timeline.integrated_until_ms for timeline in self._timelines.values())
        batch = self._prices.take_prices(batch, now_ms, integrated_until_ms, self._effects)
        if batch:
            self._counts.add("received", len(batch))
        for arrived_ms, messages in groupby(batch, attrgetter("received_ms")):
            self._open_and_close(min(arrived_ms, now_ms), closing_ms, now_ms, changes)
            for item in self._intake.take_messages(messages, self._effects.acknowledge):
                self._feed_item(item, arrived_ms, now_ms, changes)
        self._open_and_close(now_ms, closing_ms, now_ms, changes)
        self._effects.acknowledge = give_back_tokens(self._effects.acknowledge)
        self._effects.ask_about = self._openings.claims.take_questions()
        timelines = {meter: self._timelines.get(meter) for meter in changes}
        self._effects.commit.states = {m: t.stored_state() if t else None for m, t in timelines.items()}
        self._effects.commit.charges = self._running.charges.take_charges()
        self._running.noise.drop_unused()
        return self._effects

    def _observe(self, current: Observer | None) -> None:
        """Send observed meters' spans to this feed's observer, if any, and no longer to the last feed's."""
        for observer, span in ((self._observer, None), (current, current and current.note_span)):
            for meter in observer.meters if observer else ():
                if (timeline := self._timelines.get(meter)) is not None:
                    timeline.observe = partial(span, meter) if span else None
        self._observer = current

    def admit_destinations(self, destinations: Iterable[Destination], now_ms: int) -> None:
        """Note that no other store releases to these destinations; windows from `now_ms` on open for them."""
        self._openings.claims.confirm_free(destinations, now_ms)

    def deadline_ms(self, *, includes_closings: bool) -> int | None:
        """Return the time of the next opening or (if `includes_closings`) closing; None without one."""
        return self._deadlines.next_due_ms(includes_closings=includes_closings)

    def meters(self) -> Collection[str]:
        """Return the meters of the stream, as the source names them."""
        return self._timelines.keys()

    def public_ids(self) -> dict[str, str]:
        """Return the public id of each meter of the stream."""
        return {meter: self._running.names[meter].public_id for meter in self._timelines}

    def upcoming_slot(self, meter: str) -> Upcoming | None:
        """Return a meter's next slot to be released; None if the meter is unknown or has no such slot."""
        timeline = self._timelines.get(meter)
        return (
            upcoming_slot(timeline, self._stream, self._running.names[meter].delay_ms) if timeline else None
        )

    def _feed_item(self, item: MeterReading, received_ms: int, now_ms: int, changes: dict[str, None]) -> None:
        """Pass a reading to its meter or count a refusal; add the meter to `changes` if its state changes."""
        origin, reading = item
        if reading is None:
            if timeline := self._timelines.get(origin.meter):
                self._effects.acknowledge += timeline.end_power(received_ms)
            return
        try:
            if self._accept_reading(origin, reading, received_ms, now_ms):
                changes[origin.meter] = None
        except PayloadError as error:
            self.arrivals.count_outcome(origin.history, error.reason, reading.time_ms - received_ms)
            self._effects.acknowledge.append(reading.token)

    def _accept_reading(self, origin: Origin, reading: Pending, received_ms: int, now_ms: int) -> bool:
        """Pass a reading to its meter; return whether its state has changed. May raise PayloadError."""
        meter, phase, _ = origin
        if reading.time_ms > received_ms + self._stream.ahead_ms:
            raise PayloadError("refused_ahead")
        timeline = self._timelines.get(meter)
        is_changed = timeline is None
        if timeline is None or timeline.next_ms is None:
            timeline = self._begin_timeline(meter, reading.time_ms, received_ms)
        clock_ms = min(received_ms, now_ms)  # slots up to this time have opened
        if (tokens := self._intake.undo_fast_clock(timeline, reading, received_ms)) is not None:
            is_changed = True
            self._effects.acknowledge += tokens
        if phase is None and (standing := extend_standing(timeline, reading, clock_ms)) is not None:
            # the fast path, for nearly all power readings
            self._effects.acknowledge.append(standing.token)
            self.arrivals.count_outcome(origin.history, _ACCEPTED, reading.time_ms - received_ms)
            self._judge(origin, reading, [reading])
            return True
        outcome, free, meter_readings = self._intake.accept_reading(phase, timeline, reading)
        self._effects.acknowledge += free
        if timeline.thinned_count:
            self._counts.add("thinned", timeline.thinned_count)
            timeline.thinned_count = 0
        self.arrivals.count_outcome(origin.history, outcome, reading.time_ms - received_ms)
        if outcome is not _ACCEPTED:
            return is_changed
        self._judge(origin, reading, meter_readings)
        self._integrate_spans(timeline, clock_ms, now_ms)
        if isinstance(timeline, RegisterTimeline) and (stood := timeline.take_standing_sums()):
            self._judge(origin, None, stood)
        return True

    def _judge(self, origin: Origin, reading: Pending | None, meter_readings: Sequence[Pending]) -> None:
        """Judge accepted readings; pass the meter's newest reading, if any, to the observer."""
        if meter_readings and origin.phase is not None:
            self.arrivals.history_of(origin.meter).note_outcome("accepted", self.arrivals.now_ms)
        if meter_readings and self._observer is not None:
            self._observer.note_reading(origin.meter, meter_readings[-1].time_ms, meter_readings[-1].value_u)
        self._intake.judge_reading(origin, reading, meter_readings)

    def _begin_timeline(self, meter: str, time_ms: int, received_ms: int) -> Timeline:
        """Return a timeline from the next boundary on, for a new or silent meter. May raise PayloadError."""
        timeline = self._timelines.get(meter)
        if timeline is None and self._has_wall_clock and time_ms <= received_ms - self._stream.forget_ms:
            raise PayloadError("late")
        first_ms = self._openings.boundary_ms(meter, received_ms if self._has_wall_clock else time_ms)
        if timeline is not None:
            timeline.next_ms = first_ms
        elif len(self._timelines) >= self._stream.max_meters:
            raise PayloadError("refused_meters")
        else:
            timeline = self._timelines[meter] = make_timeline(self._stream.terms, first_ms, meter)
            self._openings.claims.ask_about(self._running.names[meter].destinations)
        if self._has_wall_clock:
            self._deadlines.add_opening(first_ms, meter)
        return timeline

    def _integrate_spans(self, timeline: Timeline, clock_ms: int, now_ms: int) -> None:
        """Integrate the spans that a reading ends; under the event clock, open and close slots first."""
        if not self._has_wall_clock:
            clock_ms = timeline.newest_ms or 0
            while (opens_ms := timeline.next_open_ms()) is not None and opens_ms <= clock_ms:
                self._releases.close_until(timeline, opens_ms, now_ms, self._effects)
                self._openings.open_slot(timeline, now_ms, self._effects.commit, is_catching_up=False)
            self._releases.close_until(timeline, clock_ms, now_ms, self._effects)
        self._effects.acknowledge += timeline.integrate_to_watermark(clock_ms)
        self._releases.redraw_missing_noise(timeline, self._effects.commit)

    # --- the schedule --------------------------------------------------------------------------

    def _schedule_next(self, timeline: Timeline, scheduled_ms: int | None = None) -> None:
        """Schedule the next opening, and the next closing unless it is scheduled already; wall clock only."""
        if not self._has_wall_clock:
            return
        opens_ms, closes_ms = timeline.next_open_ms(), timeline.next_close_ms()
        if opens_ms is not None:
            self._deadlines.add_opening(opens_ms, timeline.meter)
        if closes_ms is not None and closes_ms != scheduled_ms:
            self._deadlines.add_closing(
                closes_ms, self._running.names[timeline.meter].public_id, timeline.meter
            )

    def _open_and_close(self, open_ms: int, close_ms: int, now_ms: int, changes: dict[str, None]) -> None:
        """In time order, open slots due by `open_ms` and close slots due by both `open_ms` and `close_ms`."""
        for closes_ms, meter in self._deadlines.take_due(open_ms, close_ms):
            if closes_ms is None:
                self._open_due(meter, now_ms, is_catching_up=close_ms < now_ms)
            else:
                self._close_due(meter, closes_ms, now_ms)
            changes[meter] = None

    def _open_due(self, meter: str, now_ms: int, *, is_catching_up: bool) -> None:
        timeline = self._timelines[meter]
        scheduled_ms, commit = timeline.next_close_ms(), self._effects.commit
        self._openings.open_slot(timeline, now_ms, commit, is_catching_up=is_catching_up)
        self._schedule_next(timeline, scheduled_ms)
        self._drop_forgotten(timeline)

    def _close_due(self, meter: str, closes_ms: int, now_ms: int) -> None:
        timeline = self._timelines.get(meter)
        if timeline is None or timeline.next_close_ms() != closes_ms:
            return  # stale: a band that began later closed earlier, or the meter is forgotten
        self._releases.close_until(timeline, closes_ms, now_ms, self._effects)
        if (next_ms := timeline.next_close_ms()) is not None:
            self._deadlines.add_closing(next_ms, self._running.names[meter].public_id, meter)
        self._drop_forgotten(timeline)

    def _drop_forgotten(self, timeline: Timeline) -> None:
        if timeline.next_ms is None and not timeline.windows:
            meter = timeline.meter
            self._intake.forget_meter(meter)
            self._effects.acknowledge += [p.token for p in timeline.pending] + timeline.forget_phases()
            self._openings.claims.forget_answers(self._running.names[meter].destinations)
            self._running.names.pop(meter, None)
            del self._timelines[meter]
            self._counts.add("forgotten")
