"""One stream at work: its meters' timelines, their schedule, charges and releases (see the package)."""

import heapq
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import groupby
from operator import attrgetter

from meteragent.core.charges import Charges, Spending
from meteragent.core.claims import Claims
from meteragent.core.intake import Found, Intake
from meteragent.core.names import Names
from meteragent.core.noise import Noise
from meteragent.core.register import timeline_of
from meteragent.core.share import give_back
from meteragent.core.stream import Effects, Stream
from meteragent.core.timeline import Outcome, Pending, Timeline
from meteragent.core.window import Window
from meteragent.domain.commit import Commit, Outgoing, Snapshot, TimelineState, Total
from meteragent.domain.counters import Counts
from meteragent.domain.errors import PayloadError
from meteragent.domain.reading import Message, Observer
from meteragent.domain.terms import Clock
from meteragent.domain.units import DAY_MS, Kind
from meteragent.privacy.sampling import SecretBits
from meteragent.wire import total
from meteragent.wire.record import RecordFormats

_KEPT_MS = 7 * DAY_MS
"""How long a broker keeps what waits for us: the session expiry that we ask for."""


class Pipeline:
    """One stream: its meters' timelines, their schedule, charges and releases."""

    def __init__(
        self, stream: Stream, known: Snapshot, spending: Spending, bits: SecretBits, counts: Counts
    ) -> None:
        """The stream as the store left it."""
        self._stream = stream
        self._terms = stream.terms
        self._wall = stream.terms.clock is Clock.WALL
        self._intake = Intake(stream)
        self._registers = stream.terms.kind is Kind.REGISTER
        self._names = Names(stream)
        self._charges = Charges(spending)
        self._noise = Noise(bits)
        self._counts = counts
        self._formats = RecordFormats(known.terms, stream.format)
        self._floor_ms = known.floor_ms
        self._marks = dict(known.marks)
        self._totals = dict(known.totals)
        self._timelines: dict[str, Timeline] = {}
        self._opens: list[tuple[int, str]] = []
        self._closes: list[tuple[int, str, str]] = []
        for meter, state in known.states.items():
            first_ms = self._boundary(meter, state.next_ms)
            restored = timeline_of(stream.terms).restore(stream.terms, first_ms, state, dict(known.terms))
            self._timelines[meter] = restored
            self._schedule(meter, restored)
        self._claims = Claims(known.announced, stream.claim_key, listens=stream.listens)
        for meter in self._timelines if stream.listens else ():
            self._claims.ask(self._names[meter].topic)
        self._effects = Effects(Commit(stream.name, 0))
        self._catching_up = False
        self._restored = set(self._timelines)
        self._observer: Observer | None = None
        self._due_ms: Mapping[str, int] = {}
        self._withheld: Collection[str] = ()

    @property
    def name(self) -> str:
        """The stream's name: its channel in the ledger."""
        return self._stream.name

    @property
    def length_ms(self) -> int:
        """The length of an ordinary window: a long time may pass in steps of it."""
        return self._terms.length_ms

    # --- what the shell calls ------------------------------------------------------------------

    def leave_after(self, due_ms: Mapping[str, int]) -> None:
        """Let no record of a topic leave before those that wait already: its delay may have been longer."""
        self._due_ms = due_ms

    def withhold(self, topics: Collection[str]) -> None:
        """Open no window on these sink topics: the broker refuses them, and enough of theirs waits."""
        self._withheld = topics

    def feed(
        self, batch: Sequence[Message], now_ms: int, closing_ms: int, observer: Observer | None = None
    ) -> Effects:
        """Take in messages in order of arrival, then let the time pass to `now_ms`.

        Windows and slots open to `now_ms`, slots close to `closing_ms` (wall clock only). `observer` is shown
        what counts.
        """
        self._observe(observer)
        self._effects = Effects(Commit(self._stream.name, now_ms))
        self._catching_up = closing_ms < now_ms
        touched = dict.fromkeys(self._redraw_restored())
        if batch:
            self._counts.add("received", len(batch))
        for arrived_ms, messages in groupby(batch, attrgetter("received_ms")):
            if self._opens or self._closes:
                self._advance(min(arrived_ms, now_ms), closing_ms, now_ms, touched)
            for found in self._intake.take(messages, self._counts, self._effects.acknowledge):
                self._give(found, arrived_ms, now_ms, touched)
        self._advance(now_ms, closing_ms, now_ms, touched)
        if self._intake.shares:
            self._effects.acknowledge = give_back(self._effects.acknowledge)
        self._effects.listen = self._claims.take()
        self._effects.commit.states = {meter: self._state(meter) for meter in touched}
        self._effects.commit.charges = self._charges.take()
        self._noise.forget()
        return self._effects

    def clear(self, sink_topics: Iterable[str]) -> None:
        """Take in that no other store releases on these topics: from the next boundary on windows open."""
        self._claims.settle(sink_topics)

    def deadline_ms(self, *, closing: bool) -> int | None:
        """When `feed` wants to be called again though nothing arrives; None: never.

        Without `closing` only the opening of windows and slots counts.
        """
        times_ms = [self._opens[0][0]] if self._opens else []
        if closing and self._closes:
            times_ms.append(self._closes[0][0])
        return min(times_ms, default=None)

    def meters(self) -> Collection[str]:
        """The meters that are known, as the source names them."""
        return self._timelines.keys()

    def labels(self) -> dict[str, str]:
        """The names under which the meters that are known leave."""
        return {meter: self._names[meter].label for meter in self._timelines}

    # --- messages ------------------------------------------------------------------------------

    def _give(self, found: Found, received_ms: int, now_ms: int, touched: dict[str, None]) -> None:
        """Give a reading to its meter, which is touched if it counts, or count why it does not."""
        meter, phase, reading = found
        try:
            if self._place(meter, phase, reading, received_ms, now_ms):
                touched[meter] = None
        except PayloadError as error:
            self._counts.add(error.reason)
            self._effects.acknowledge.append(reading.token)

    def _place(self, meter: str, phase: str | None, reading: Pending, received_ms: int, now_ms: int) -> bool:
        """Give a reading to its meter; whether that touches it. Raises PayloadError if it cannot count."""
        if reading.time_ms > received_ms + self._stream.ahead_ms:
            raise PayloadError("refused_ahead")
        first_seen = meter not in self._timelines
        timeline = self._timeline(meter, reading.time_ms, received_ms)
        if phase is None and (stood := timeline.follow(reading, min(received_ms, now_ms))) is not None:
            self._effects.acknowledge.append(stood.token)
            self._accepted(meter, reading)
            return True
        counting: Pending | None = reading
        if phase is None:
            outcome, free = timeline.accept(reading)
        else:
            outcome, free, counting = self._intake.accept(meter, phase, timeline, reading)
        self._effects.acknowledge += free
        if timeline.thinned:
            self._counts.add("thinned", timeline.thinned)
            timeline.thinned = 0
        if outcome is not Outcome.ACCEPTED:
            self._counts.add(str(outcome))
            return first_seen
        self._accepted(meter, counting)
        self._follow(meter, timeline, min(received_ms, now_ms), now_ms)
        return True

    def _observe(self, observer: Observer | None) -> None:
        """Show the spans of the meters that it watches to the observer of this feed, no more to the last."""
        for watcher, span in ((self._observer, None), (observer, observer and observer.span)):
            for meter in watcher.meters if watcher else ():
                if (timeline := self._timelines.get(meter)) is not None:
                    timeline.observe = partial(span, meter) if span else None
        self._observer = observer

    def _accepted(self, meter: str, reading: Pending | None) -> None:
        """Count a reading that counts, by itself or in the sum of phases, and show it to who looks."""
        self._counts.add("accepted")
        if reading is None:
            return
        if self._observer is not None:
            self._observer.reading(meter, reading.time_ms, reading.value_u)
        if not self._terms.low_u <= reading.value_u <= self._terms.high_u and not self._registers:
            self._counts.add("clamped")

    def _timeline(self, meter: str, time_ms: int, received_ms: int) -> Timeline:
        """The meter's timeline; a meter first seen starts at its next boundary (law 4)."""
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
            heapq.heappush(self._opens, (first_ms, meter))
        return timeline

    def _boundary(self, meter: str, time_ms: int) -> int:
        """The first boundary at or after a time where a window of the meter may open (law 1)."""
        earliest_ms = max(time_ms, self._marks.get(meter, 0), self._floor_ms)
        return self._stream.schedule.first_ms(earliest_ms)

    def _follow(self, meter: str, timeline: Timeline, opened_ms: int, now_ms: int) -> None:
        """Let a reading take effect: cover what it closed; by the event clock, open and close.

        By the wall clock slots have opened to `opened_ms` only, the arrival of the reading.
        """
        clock_ms = opened_ms
        if not self._wall:
            clock_ms = timeline.newest_ms or 0
            while (opens_ms := timeline.next_open_ms()) is not None and opens_ms <= clock_ms:
                self._close_until(meter, timeline, opens_ms, now_ms)
                self._open(meter, timeline, now_ms)
            self._close_until(meter, timeline, clock_ms, now_ms)
        self._effects.acknowledge += timeline.cover_spans(clock_ms)
        if self._registers:
            self._settle(timeline)

    # --- the schedule --------------------------------------------------------------------------

    def _schedule(self, meter: str, timeline: Timeline, known_ms: int | None = None) -> None:
        """Ask to be woken for the next opening, and the next closing unless it is known (wall clock only)."""
        if not self._wall:
            return
        opens_ms, closes_ms = timeline.next_open_ms(), timeline.next_close_ms()
        if opens_ms is not None:
            heapq.heappush(self._opens, (opens_ms, meter))
        if closes_ms is not None and closes_ms != known_ms:
            heapq.heappush(self._closes, (closes_ms, self._names[meter].label, meter))

    def _advance(self, open_ms: int, close_ms: int, now_ms: int, touched: dict[str, None]) -> None:
        """Let the time pass for all timelines: open and close what is due, in order of time."""
        close_ms = min(open_ms, close_ms)
        while True:
            opens_ms = self._opens[0][0] if self._opens else open_ms + 1
            closes_ms = self._closes[0][0] if self._closes else close_ms + 1
            if closes_ms <= close_ms and closes_ms <= opens_ms:
                _, _, meter = heapq.heappop(self._closes)
                self._close_due(meter, closes_ms, now_ms)
            elif opens_ms <= open_ms:
                _, meter = heapq.heappop(self._opens)
                self._open_due(meter, self._timelines[meter], now_ms)
            else:
                return
            touched[meter] = None

    def _open_due(self, meter: str, timeline: Timeline, now_ms: int) -> None:
        known_ms = timeline.next_close_ms()
        self._open(meter, timeline, now_ms)
        self._schedule(meter, timeline, known_ms)
        self._drop_forgotten(meter, timeline)

    def _close_due(self, meter: str, closes_ms: int, now_ms: int) -> None:
        timeline = self._timelines.get(meter)
        if timeline is None or timeline.next_close_ms() != closes_ms:
            return  # a band that began later ended earlier, and what was asked for then has been done
        self._close_until(meter, timeline, closes_ms, now_ms)
        next_ms = timeline.next_close_ms()
        if next_ms is not None:
            heapq.heappush(self._closes, (next_ms, self._names[meter].label, meter))
        self._drop_forgotten(meter, timeline)

    def _drop_forgotten(self, meter: str, timeline: Timeline) -> None:
        if timeline.next_ms is None and not timeline.windows:
            self._effects.acknowledge += [p.token for p in timeline.pending]
            self._effects.acknowledge += self._intake.forget(meter)
            self._claims.forget(self._names[meter].topic)
            self._names.forget(meter)
            del self._timelines[meter]
            self._counts.add("forgotten")

    # --- opening -------------------------------------------------------------------------------

    def _open(self, meter: str, timeline: Timeline, now_ms: int) -> None:
        """Open the next slot, and its window when it is the first one."""
        windows = timeline.windows
        if windows and (noise_bound := windows[-1].noise_bound) is not None:
            window = windows[-1]
            noise = self._noise.slot(noise_bound, self._formats[window.terms_id].terms.mechanism)
            window.draw(noise, timeline.covered_ms, self._noise.dither(window.terms, window.drawn))
            return
        start_ms = timeline.next_ms
        if start_ms is None or self._is_forgotten(timeline):
            timeline.next_ms = None
            return
        terms = self._stream.schedule.terms(start_ms)
        label, sink_topic, _ = self._names[meter]
        if not self._claims.is_own(sink_topic):
            timeline.next_ms = start_ms + terms.length_ms
            timeline.idle += 1
            self._counts.add("held")
            return
        timeline.next_ms = self._marks[meter] = start_ms + terms.length_ms
        self._effects.commit.marks[meter] = timeline.next_ms
        timeline.idle += 1
        if sink_topic in self._withheld:
            self._counts.add("withheld")
            return
        if not self._charges.add(meter, start_ms, terms):
            self._counts.add("over_budget")
            return
        terms_id = self._formats.id(terms)
        noise_bound, noise = self._noise.open(terms_id, self._formats[terms_id].terms.mechanism)
        window = Window(start_ms, terms, terms_id, sink_topic, label, noise_bound)
        window.draw(noise, timeline.covered_ms, self._noise.dither(terms, 0))
        windows.append(window)
        self._counts.add("opened")
        self._effects.commit.terms[terms_id] = terms
        self._claims.announce(self._formats[terms_id].descriptor, window, now_ms, self._effects.commit)

    def _is_forgotten(self, timeline: Timeline) -> bool:
        """Return whether `forget` has passed in whole windows without a reading (wall clock only).

        While readings that waited in the broker may still come, it is as long as a broker keeps them.
        """
        patience_ms = max(self._stream.forget_ms, _KEPT_MS) if self._catching_up else self._stream.forget_ms
        return self._wall and timeline.idle * self._terms.length_ms >= patience_ms

    def _redraw_restored(self) -> set[str]:
        """Draw anew for the slots that a new meaning of the readings has lost; the meters of these."""
        windows = {meter: self._timelines[meter].windows for meter in self._restored}
        lost = {meter for meter in windows if any(window.lost is not None for window in windows[meter])}
        self._restored.clear()
        for meter in lost:
            self._settle(self._timelines[meter])
        return lost

    def _settle(self, timeline: Timeline) -> None:
        """Count what became of registers, and give lost slots noise of a new noise bound."""
        for name in timeline.counts():
            self._counts.add(name)
        for window in timeline.windows:
            if (place := window.lost) is not None:
                _, noise = self._noise.open(window.terms_id, self._formats[window.terms_id].terms.mechanism)
                window.redraw(noise, self._noise.dither(window.terms, place))
                self._counts.add("register_lost")

    # --- closing -------------------------------------------------------------------------------

    def _close_until(self, meter: str, timeline: Timeline, clock_ms: int, now_ms: int) -> None:
        """Close and release the slots of a timeline that are due."""
        while (closing := timeline.closing()) is not None and closing[0] <= clock_ms:
            due_ms, window, index = closing
            self._release(meter, timeline, window, index, due_ms, now_ms)
            if not window.slots and window.drawn == window.terms.n:
                timeline.windows.remove(window)

    def _release(
        self, meter: str, timeline: Timeline, window: Window, index: int, due_ms: int, now_ms: int
    ) -> None:
        self._effects.acknowledge += timeline.cover(due_ms - window.terms.lateness_ms)
        if self._registers:
            self._settle(timeline)
        if index not in window.fed:
            self._counts.add("gap_slots")
        window.fed.discard(index)
        quanta = window.close(index)
        payload = self._formats[window.terms_id].record(window.label, window.start_ms, index, quanta)
        leave_ms = max(now_ms, self._due_ms.get(window.topic, 0))
        if self._wall:
            leave_ms = max(leave_ms, due_ms + self._names[meter].delay_ms)
        self._effects.commit.outgoing.append(Outgoing(window.topic, payload, leave_ms, False))
        self._counts.add("released")
        if self._stream.total:
            self._sum_up(window, index, quanta, leave_ms)

    def _sum_up(self, window: Window, index: int, quanta: int, leave_ms: int) -> None:
        """Send the running total, which has one more slot.

        It goes by the name that a meter leaves under: one that went on would tell that two are the same.
        """
        label, commit = window.label, self._effects.commit
        descriptor = self._formats[window.terms_id].descriptor
        released = quanta, descriptor.terms.sd
        sums = Total.after(self._totals.get(label), window.terms, window.start_ms, index, released)
        self._totals[label] = commit.totals[label] = sums
        payload = total.message(descriptor.id, label, sums, window.slot_end_ms(index))
        commit.outgoing.append(Outgoing(total.topic(window.topic), payload, leave_ms, False))

    def _state(self, meter: str) -> TimelineState | None:
        timeline = self._timelines.get(meter)
        return None if timeline is None else timeline.state()
