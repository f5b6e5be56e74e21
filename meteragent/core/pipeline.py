"""One stream: its meters' timelines, their schedule, charges and releases.

Theory of operation
-------------------
`feed` takes a batch of messages and the time. It returns the content of one transaction, the messages to
acknowledge after the commit, and the topics to listen on. `deadline_ms` returns when a slot is next due. If
the transaction cannot be written, the process must exit, because its memory is ahead of the store.

A feed alternates between time and messages. Before it accepts the readings that arrived at a given time, it
opens and closes all slots that are due by then, so a reading meets the slots that were open when it arrived.
`Deadlines` has the next opening and closing of each meter; an entry may be stale, so it is checked when due.

Two clocks drive a wall-clock stream: `now_ms` opens windows and slots, and `closing_ms` closes slots. They
differ after a start or a pause, while readings that waited in the broker arrive and overdue slots stay open
(law 4, `catch_up`). In an event-clock stream, a meter's newest timestamp serves as both.

Rules
1. No slot has noise unless its window's charge is in the same or an earlier commit (law 2). A draw made in
   advance (`noise`) does not belong to a window yet.
2. A window opens at or after the mark of its meter, and raises the mark to the window's end (law 1).
3. The clock alone decides when slots close. Slots that are due together close in the order of their
   meters' public ids, never in the order in which readings arrived (law 4).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import groupby
from operator import attrgetter

from meteragent.core.charges import Charges, Spending
from meteragent.core.claims import Claims
from meteragent.core.deadlines import Deadlines
from meteragent.core.intake import Intake, MeterReading
from meteragent.core.names import Names
from meteragent.core.noise import Noise
from meteragent.core.observers import observe
from meteragent.core.price_intake import PriceIntake
from meteragent.core.redraw import Redraws
from meteragent.core.register import timeline_of
from meteragent.core.share import give_back
from meteragent.core.shares import ShareWindow
from meteragent.core.stream import Effects, Stream
from meteragent.core.timeline import Outcome, Pending, Timeline
from meteragent.core.totals import Totals
from meteragent.core.upcoming import Upcoming, upcoming
from meteragent.core.window import Window
from meteragent.domain.commit import Commit, Outgoing, ReleasedSlot, Snapshot
from meteragent.domain.counters import Counts
from meteragent.domain.errors import PayloadError
from meteragent.domain.reading import Message, Observer
from meteragent.domain.shape import Space
from meteragent.domain.terms import Clock
from meteragent.domain.units import DAY_MS, Kind
from meteragent.privacy.sampling import SecretBits
from meteragent.wire.record import RecordFormats

_SESSION_EXPIRY_MS = 7 * DAY_MS  # how long the agent asks the broker to keep undelivered messages


class Pipeline:
    """One stream: its meters' timelines, their schedule, charges and releases."""

    def __init__(
        self, stream: Stream, snapshot: Snapshot, spending: Spending, bits: SecretBits, counts: Counts
    ) -> None:
        """Resume the stream from the contents of the store."""
        self._stream = stream
        self._terms = stream.terms
        self._wall = stream.terms.clock is Clock.WALL
        self._intake = Intake(stream)
        self._shared = stream.validities is not None
        self._registers = stream.terms.kind is Kind.REGISTER
        peaks = any(terms.space is Space.PEAK for terms in (stream.terms, *snapshot.terms.values()))
        self._settles = self._registers or peaks
        self._names = Names(stream)
        self._charges = Charges(spending)
        self._noise = Noise(bits, stream.crowd)
        self._counts = counts
        self._formats = RecordFormats(snapshot.terms, stream.format)
        self._redraws = Redraws(self._charges, self._noise, counts)
        self._floor_ms = snapshot.floor_ms
        self._marks = dict(snapshot.marks)
        self._totals = Totals(snapshot.totals)
        self._timelines: dict[str, Timeline] = {}
        self._deadlines = Deadlines()
        for meter, stored_state in snapshot.states.items():
            state = stream.without_unwanted(stored_state, snapshot.terms)
            first_ms = self._boundary(meter, state.next_ms)
            timeline = timeline_of(stream.terms).restore(stream.terms, first_ms, state, dict(snapshot.terms))
            self._timelines[meter] = timeline
            self._schedule(meter, timeline)
        self._prices = PriceIntake(stream, snapshot.prices, self._timelines)
        self._claims = Claims(
            snapshot.announced,
            stream.claim_key,
            listens=stream.listens,
            validities=stream.validities or (),
            unannounced=stream.unannounced,
        )
        for meter in self._timelines if stream.listens else ():
            self._claims.ask(self._names[meter].topic)
        self._effects = Effects(Commit(stream.name, 0))
        self._catching_up = False
        self._restored_meters = set(self._timelines)
        self._observer: Observer | None = None
        self._due_ms: Mapping[str, int] = {}
        self._withheld_topics: Collection[str] = ()

    @property
    def name(self) -> str:
        """The stream's name, its key in the ledger."""
        return self._stream.name

    @property
    def length_ms(self) -> int:
        """The length of an ordinary window, in ms; the shell advances the time by at most this per feed."""
        return self._terms.length_ms

    def leave_after(self, due_ms: Mapping[str, int]) -> None:
        """Let no new record on a topic leave before `due_ms[topic]`, when its latest older record is due."""
        self._due_ms = due_ms

    def withhold(self, topics: Collection[str]) -> None:
        """Open no window on these topics: the broker refuses them, and too many messages wait for them."""
        self._withheld_topics = topics

    def feed(
        self, batch: Sequence[Message], now_ms: int, closing_ms: int, observer: Observer | None = None
    ) -> Effects:
        """Process messages in order of arrival, then advance the time to `now_ms`; return the effects.

        Windows and slots that are due by `now_ms` open, and slots that are due by `closing_ms` close (wall
        clock only). `observer` gets the accepted readings, and the integrated spans of `observer.meters`.
        """
        observe(self._timelines, self._observer, observer)
        self._observer = observer
        self._effects = Effects(Commit(self._stream.name, now_ms, shared=self._shared))
        self._catching_up = closing_ms < now_ms
        changes = dict.fromkeys(self._redraw_restored())
        batch = self._prices.take(batch, now_ms, self._counts, self._effects)
        if batch:
            self._counts.add("received", len(batch))
        for arrived_ms, messages in groupby(batch, attrgetter("received_ms")):
            if self._deadlines:
                self._advance(min(arrived_ms, now_ms), closing_ms, now_ms, changes)
            for item in self._intake.take(messages, self._counts, self._effects.acknowledge):
                self._give(item, arrived_ms, now_ms, changes)
        self._advance(now_ms, closing_ms, now_ms, changes)
        if self._intake.shares:
            self._effects.acknowledge = give_back(self._effects.acknowledge)
        self._effects.listen = self._claims.take()
        timelines = {meter: self._timelines.get(meter) for meter in changes}
        self._effects.commit.states = {m: t.state() if t else None for m, t in timelines.items()}
        self._effects.commit.charges = self._charges.take()
        self._noise.forget()
        return self._effects

    def clear(self, sink_topics: Iterable[str]) -> None:
        """Note that no other store has been found on these topics; windows open from the next boundary."""
        self._claims.settle(sink_topics)

    def deadline_ms(self, *, closing: bool) -> int | None:
        """Return the time of the next opening or (if `closing`) closing; None if none is scheduled."""
        return self._deadlines.first_ms(closing=closing)

    def meters(self) -> Collection[str]:
        """Return the meters of the stream, as the source names them."""
        return self._timelines.keys()

    def public_ids(self) -> dict[str, str]:
        """Return the public id of each meter of the stream."""
        return {meter: self._names[meter].public_id for meter in self._timelines}

    def upcoming(self, meter: str) -> Upcoming | None:
        """Return a meter's next slot to be released; None if the meter is unknown or has no such slot."""
        timeline = self._timelines.get(meter)
        return upcoming(timeline, self._stream, self._names[meter].delay_ms) if timeline else None

    def _give(self, item: MeterReading, received_ms: int, now_ms: int, changes: dict[str, None]) -> None:
        """Pass a reading to its meter or count a refusal; add the meter to `changes` if its state changes."""
        meter, phase, reading = item
        try:
            if self._take(meter, phase, reading, received_ms, now_ms):
                changes[meter] = None
        except PayloadError as error:
            self._counts.add(error.reason)
            self._effects.acknowledge.append(reading.token)

    def _take(self, meter: str, phase: str | None, reading: Pending, received_ms: int, now_ms: int) -> bool:
        """Pass a reading to its meter; return whether the meter's state changes. May raise PayloadError."""
        if reading.time_ms > received_ms + self._stream.ahead_ms:
            raise PayloadError("refused_ahead")
        is_new = meter not in self._timelines
        timeline = self._timeline(meter, reading.time_ms, received_ms)
        clock_ms = min(received_ms, now_ms)  # slots up to this time have opened
        # The fast path, for nearly all power readings, has the same result as the code below.
        if phase is None and (standing := timeline.extend_standing(reading, clock_ms)) is not None:
            self._effects.acknowledge.append(standing.token)
            self._accepted(meter, reading)
            return True
        meter_reading: Pending | None = reading
        if phase is None:
            outcome, free = timeline.accept(reading)
        else:
            outcome, free, meter_reading = self._intake.accept(meter, phase, timeline, reading)
        self._effects.acknowledge += free
        if timeline.thinned_count:
            self._counts.add("thinned", timeline.thinned_count)
            timeline.thinned_count = 0
        if outcome is not Outcome.ACCEPTED:
            self._counts.add(str(outcome))
            return is_new
        self._accepted(meter, meter_reading)
        self._apply(meter, timeline, clock_ms, now_ms)
        return True

    def _accepted(self, meter: str, reading: Pending | None) -> None:
        """Count an accepted reading, and its clamping; pass the meter's reading, if any, to the observer."""
        self._counts.add("accepted")
        if reading is None:
            return
        if self._observer is not None:
            self._observer.reading(meter, reading.time_ms, reading.value_u)
        if not self._terms.low_u <= reading.value_u <= self._terms.high_u and not self._registers:
            self._counts.add("clamped")

    def _timeline(self, meter: str, time_ms: int, received_ms: int) -> Timeline:
        """Return a meter's timeline; a new one starts at the next boundary. May raise PayloadError."""
        timeline = self._timelines.get(meter)
        if timeline is not None and timeline.next_ms is not None:
            return timeline
        if timeline is None and self._wall and time_ms <= received_ms - self._stream.forget_ms:
            raise PayloadError("late")
        first_ms = self._boundary(meter, received_ms if self._wall else time_ms)
        if timeline is not None:
            timeline.next_ms = first_ms
        elif len(self._timelines) >= self._stream.max_meters:
            raise PayloadError("refused_meters")
        else:
            timeline = self._timelines[meter] = timeline_of(self._terms)(self._terms, first_ms)
            self._claims.ask(self._names[meter].topic)
        if self._wall:
            self._deadlines.add_opening(first_ms, meter)
        return timeline

    def _boundary(self, meter: str, time_ms: int) -> int:
        """Return the first boundary from `time_ms` on at which a window of the meter may open (law 1)."""
        return self._stream.schedule.first_ms(max(time_ms, self._marks.get(meter, 0), self._floor_ms))

    def _apply(self, meter: str, timeline: Timeline, clock_ms: int, now_ms: int) -> None:
        """Integrate the spans that a reading ends; under the event clock, open and close slots first."""
        if not self._wall:
            clock_ms = timeline.newest_ms or 0
            while (opens_ms := timeline.next_open_ms()) is not None and opens_ms <= clock_ms:
                self._close_until(meter, timeline, opens_ms, now_ms)
                self._open(meter, timeline, now_ms)
            self._close_until(meter, timeline, clock_ms, now_ms)
        self._effects.acknowledge += timeline.integrate_to_watermark(clock_ms)
        if self._settles:
            self._settle(meter, timeline)

    # --- the schedule --------------------------------------------------------------------------

    def _schedule(self, meter: str, timeline: Timeline, scheduled_ms: int | None = None) -> None:
        """Schedule the next opening, and the next closing unless it is scheduled already; wall clock only."""
        if not self._wall:
            return
        opens_ms, closes_ms = timeline.next_open_ms(), timeline.next_close_ms()
        if opens_ms is not None:
            self._deadlines.add_opening(opens_ms, meter)
        if closes_ms is not None and closes_ms != scheduled_ms:
            self._deadlines.add_closing(closes_ms, self._names[meter].public_id, meter)

    def _advance(self, open_ms: int, close_ms: int, now_ms: int, changes: dict[str, None]) -> None:
        """In time order, open slots due by `open_ms` and close slots due by both `open_ms` and `close_ms`."""
        for closes_ms, meter in self._deadlines.take(open_ms, close_ms):
            if closes_ms is None:
                self._open_due(meter, self._timelines[meter], now_ms)
            else:
                self._close_due(meter, closes_ms, now_ms)
            changes[meter] = None

    def _open_due(self, meter: str, timeline: Timeline, now_ms: int) -> None:
        scheduled_ms = timeline.next_close_ms()
        self._open(meter, timeline, now_ms)
        self._schedule(meter, timeline, scheduled_ms)
        self._drop_forgotten(meter, timeline)

    def _close_due(self, meter: str, closes_ms: int, now_ms: int) -> None:
        timeline = self._timelines.get(meter)
        if timeline is None or timeline.next_close_ms() != closes_ms:
            return  # stale: a band that began later closed earlier, or the meter is forgotten
        self._close_until(meter, timeline, closes_ms, now_ms)
        if (next_ms := timeline.next_close_ms()) is not None:
            self._deadlines.add_closing(next_ms, self._names[meter].public_id, meter)
        self._drop_forgotten(meter, timeline)

    def _drop_forgotten(self, meter: str, timeline: Timeline) -> None:
        if timeline.next_ms is None and not timeline.windows:
            self._effects.acknowledge += [*(p.token for p in timeline.pending), *self._intake.forget(meter)]
            self._claims.forget(self._names[meter].topic)
            self._names.forget(meter)
            del self._timelines[meter]
            self._counts.add("forgotten")

    # --- opening -------------------------------------------------------------------------------

    def _open(self, meter: str, timeline: Timeline, now_ms: int) -> None:
        """Open the next slot; for a window's first slot, open the window, or skip it if it may not open."""
        windows = timeline.windows
        if windows and windows[-1].noise_bound is not None:
            mechanism = self._formats.mechanism(windows[-1].terms_id)
            self._noise.draw_next(windows[-1], mechanism, timeline.integrated_until_ms)
            return
        start_ms = timeline.next_ms
        if start_ms is None or self._is_forgotten(timeline):
            timeline.next_ms = None
            return
        terms = self._stream.schedule.terms(start_ms)
        public_id, sink_topic, _ = self._names[meter]
        if not self._claims.is_own(sink_topic, start_ms, start_ms + terms.first_slot[1]):
            timeline.next_ms = start_ms + terms.length_ms
            timeline.idle_windows += 1
            self._counts.add("held")
            return
        timeline.next_ms = self._marks[meter] = start_ms + terms.length_ms
        self._effects.commit.marks[meter] = timeline.next_ms
        timeline.idle_windows += 1
        if not self._stream.is_wanted(start_ms, terms):
            return
        crowd = self._stream.crowd
        is_withheld = sink_topic in self._withheld_topics
        if is_withheld or (crowd is not None and not crowd.may_open(public_id, start_ms)):
            self._counts.add("withheld" if is_withheld else "no_keys")
            return
        if not self._charges.add(meter, start_ms, terms):
            self._counts.add("over_budget")
            return
        window = self._prices.window(start_ms, terms, self._formats.register(terms), sink_topic, public_id)
        mechanism = self._formats.mechanism(window.terms_id)
        self._noise.begin(window, mechanism, timeline.integrated_until_ms)
        windows.append(window)
        self._counts.add("opened")
        self._effects.commit.terms[window.terms_id] = terms
        self._claims.announce(self._formats[window.terms_id].descriptor, window, now_ms, self._effects.commit)

    def _is_forgotten(self, timeline: Timeline) -> bool:
        """Return whether `forget` has passed without a reading, counted in whole windows (wall clock only).

        While readings that waited in the broker may still arrive, the limit is at least the session expiry.
        """
        forget_ms = self._stream.forget_ms
        limit_ms = max(forget_ms, _SESSION_EXPIRY_MS) if self._catching_up else forget_ms
        return self._wall and timeline.idle_windows * self._terms.length_ms >= limit_ms

    def _redraw_restored(self) -> set[str]:
        """Redraw slots that were lost because the readings' meaning changed; return their meters."""
        windows = {meter: self._timelines[meter].windows for meter in self._restored_meters}
        meters = {meter for meter in windows if any(window.lacks_noise for window in windows[meter])}
        self._restored_meters.clear()
        for meter in meters:
            self._settle(meter, self._timelines[meter])
        return meters

    def _settle(self, meter: str, timeline: Timeline) -> None:
        self._redraws.settle(meter, timeline, self._formats, self._effects.commit)

    # --- closing -------------------------------------------------------------------------------

    def _close_until(self, meter: str, timeline: Timeline, clock_ms: int, now_ms: int) -> None:
        """Close and release the slots of a timeline that are due by `clock_ms`."""
        while (closing := timeline.closing()) is not None and closing[0] <= clock_ms:
            due_ms, window, slot_index = closing
            self._release(meter, timeline, window, slot_index, due_ms, now_ms)
            if not window.slots and window.draws >= window.terms.n:
                timeline.windows.remove(window)

    def _release(
        self, meter: str, timeline: Timeline, window: Window, slot_index: int, due_ms: int, now_ms: int
    ) -> None:
        self._effects.acknowledge += timeline.integrate_until(due_ms - window.terms.lateness_ms)
        if self._settles:
            self._settle(meter, timeline)
        if window.has_gap(slot_index):
            self._counts.add("gap_slots")
        window.slots_with_reading.discard(slot_index)
        self._counts.add("released")
        leave_ms = max(now_ms, self._due_ms.get(window.topic, 0))
        if self._wall:
            leave_ms = max(leave_ms, due_ms + self._names[meter].delay_ms)
        if isinstance(window, ShareWindow) and self._stream.crowd is not None:
            self._effects.commit.outgoing.append(window.report(self._stream.crowd, leave_ms))
            return
        quanta = window.close(slot_index)
        form, slot = self._formats[window.terms_id], None
        payload = form.record(window.public_id, window.start_ms, slot_index, quanta, window.draws)
        if self._shared:
            slot = ReleasedSlot(form.descriptor.id, window.start_ms, window.slot_end_ms(slot_index))
        self._effects.commit.outgoing.append(Outgoing(window.topic, payload, leave_ms, False, slot))
        if self._stream.total:
            self._totals.add(window, slot_index, quanta, form.descriptor, leave_ms, self._effects.commit)
