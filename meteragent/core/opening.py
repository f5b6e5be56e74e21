"""Open the windows of a stream, if this store owns their topics and the budget allows them.

Rules
1. No slot has noise unless its window's charge is in the same or an earlier commit (law 2). A draw made in
   advance (`noise`) does not belong to a window yet.
2. A window opens at or after the mark of its meter, and raises the mark to the window's end (law 1).
3. The receivers of a window are fixed when it opens. A receiver that is held back does not hold back the
   others. If another store releases to a receiver's topic, this receiver does not get the window later
   either, even if the topic becomes free: that store has put other noise on the same interval.
4. A window is skipped and counted if every receiver's topic is held or refused, no receiver has a grant
   (`store.grants`), a key is missing, or the budget forbids it. None of these depends on a reading.
"""

from collections.abc import Collection, Iterable, Mapping

from meteragent.core.factory import Factory
from meteragent.core.stream import Destinations, LiveStream
from meteragent.core.timeline import Timeline
from meteragent.core.window import Window
from meteragent.domain import identity
from meteragent.domain.commit import Commit, Descriptor, Destination, Outgoing, Snapshot
from meteragent.domain.shapes import Accumulator
from meteragent.domain.terms import Clock, Terms
from meteragent.domain.units import DAY_MS
from meteragent.wire import descriptor
from meteragent.wire.descriptor import TermsDescriptor

_SESSION_EXPIRY_MS = 7 * DAY_MS  # how long the agent asks the broker to keep undelivered messages


class Claims:
    """The owner of each destination of a stream's meters: this store, another store, or not yet known.

    A destination to which this store has sent a descriptor is its own for ever. For any other, the core asks
    its caller once whether another store releases there (`take_questions`), and the caller answers only if
    none does (`confirm_free`). If `listens` is False, this store owns every destination. The store's mark in
    descriptors, if any, is derived from `key`.
    """

    def __init__(self, announced: Mapping[Destination, str], key: bytes | None, *, listens: bool) -> None:
        """Start with the destinations of this store; `announced` maps each to its latest descriptor's id."""
        self._announced = dict(announced)
        self._key = key
        self._listens = listens
        self._clear: dict[Destination, int] = {}
        self._asked: set[Destination] = set()
        self._questions: list[Destination] = []
        self.held_until_ms: Mapping[Destination, int] = {}

    def ask_about(self, destinations: Iterable[Destination]) -> None:
        """Collect questions about destinations, except this store's own and those asked about before."""
        for destination in destinations:
            if not (self.is_own(destination) or destination in self._asked):
                self._asked.add(destination)
                self._questions.append(destination)

    def take_questions(self) -> list[Destination]:
        """Return the destinations that the caller should check, collected since the last call."""
        destinations, self._questions = self._questions, []
        return destinations

    def confirm_free(self, destinations: Iterable[Destination], now_ms: int) -> None:
        """Note that at `now_ms` no other store releases to `destinations`; one may have done so before."""
        self._clear.update(dict.fromkeys(destinations, now_ms))

    def is_own(self, destination: Destination, start_ms: int = 2**62) -> bool:
        """Return whether this store is known to own a destination for windows from `start_ms` on."""
        is_clear = self._clear.get(destination, 2**63) <= start_ms
        return not self._listens or is_clear or destination in self._announced

    def forget_answers(self, destinations: Collection[Destination]) -> None:
        """Forget the answers about a forgotten meter's destinations, so that they are asked about again."""
        self._asked.difference_update(destinations)
        self._clear = {place: ms for place, ms in self._clear.items() if place not in destinations}

    def announce_window(self, terms: TermsDescriptor, window: Window, now_ms: int, commit: Commit) -> None:
        """Add a window's descriptor to the commit for each of its destinations that lacks it."""
        if window.terms.shape.accumulator is Accumulator.SHARE:
            return  # the leader publishes the descriptor of the total
        for destination in window.destinations:
            if self._announced.get(destination) == terms.id:
                continue
            self._announced[destination] = terms.id
            queue, sink_topic = destination
            mark = None if self._key is None else identity.store_mark(self._key, sink_topic)
            payload = terms.encode_message(window.public_id, window.start_ms, mark)
            commit.descriptors.append(Descriptor(queue, sink_topic, terms.id, payload))
            # No older descriptor may arrive after this one, even if it was due later: it would be retained.
            due_ms = max(now_ms, self.held_until_ms.get(destination, 0))
            for topic in descriptor.descriptor_topics(sink_topic, terms.id):
                commit.outgoing.append(Outgoing(queue, topic, payload, due_ms, retain=True))


class Openings:
    """The marks, claims and charges of a stream, which decide whether a window opens."""

    def __init__(self, running: LiveStream, snapshot: Snapshot, factory: Factory) -> None:
        stream, self._names, self._charges, self._noise, arrivals = running
        self._counts = arrivals.counts
        self._stream = stream
        self._factory = factory
        self._marks = dict(snapshot.marks)
        self._floor_ms = snapshot.floor_ms
        self.claims = Claims(snapshot.announced, stream.claim_key, listens=stream.listens)
        self.withheld: Collection[Destination] = ()

    def boundary_ms(self, meter: str, time_ms: int) -> int:
        """Return the first boundary from `time_ms` on at which a window of the meter may open (law 1)."""
        return self._stream.schedule.first_start_ms(max(time_ms, self._marks.get(meter, 0), self._floor_ms))

    def open_slot(self, timeline: Timeline, now_ms: int, commit: Commit, *, is_catching_up: bool) -> None:
        """Open the next slot; for a window's first slot, open the window, or skip it if it may not open."""
        windows = timeline.windows
        if windows and windows[-1].noise_bound is not None:
            windows[-1].open_next_slot(self._noise, timeline.integrated_until_ms)
            return
        start_ms = timeline.next_ms
        if start_ms is None or self._is_forgotten(timeline, is_catching_up=is_catching_up):
            timeline.next_ms = None
            return
        terms = self._stream.schedule.terms_at(start_ms)
        destinations = self._pass_and_charge(timeline, terms, commit)
        if not destinations:
            return
        terms_id = self._factory.formats.register_terms(terms)
        public_id = self._names[timeline.meter].public_id
        window = self._factory.make_window(start_ms, terms_id, destinations, public_id)
        window.open_first_slot(self._noise, timeline.integrated_until_ms)
        windows.append(window)
        self._counts.add("opened")
        commit.terms[terms_id] = terms
        self.claims.announce_window(self._factory.formats[terms_id].descriptor, window, now_ms, commit)

    def _pass_and_charge(self, timeline: Timeline, terms: Terms, commit: Commit) -> Destinations:
        """Charge the next window and advance past it; return its destinations, none if it is skipped."""
        meter, (public_id, destinations, _) = timeline.meter, self._names[timeline.meter]
        start_ms = timeline.next_ms or 0
        timeline.next_ms = end_ms = start_ms + terms.length_ms
        timeline.idle_windows += 1
        valid = self._stream.destinations_of_slot(destinations, start_ms, start_ms + terms.first_slot_ms[1])
        clear = valid
        if self._stream.listens:
            clear = tuple([destination for destination in valid if self.claims.is_own(destination, start_ms)])
        if len(clear) < len(valid):
            self._counts.add("held", len(valid) - len(clear))
            if not clear:  # not this store's window: the mark stays
                return ()
        self._marks[meter] = commit.marks[meter] = end_ms
        allowed = clear
        if self.withheld:
            allowed = tuple([destination for destination in clear if destination not in self.withheld])
        if len(allowed) < len(clear):
            self._counts.add("withheld", len(clear) - len(allowed))
        if not allowed:
            return ()
        crowd = self._stream.crowd
        has_keys = crowd is None or crowd.may_open(public_id, start_ms)
        if has_keys and self._charges.add(meter, start_ms, terms):
            return allowed
        self._counts.add("over_budget" if has_keys else "no_keys")
        return ()

    def _is_forgotten(self, timeline: Timeline, *, is_catching_up: bool) -> bool:
        """Return whether `forget` has passed without a reading, counted in whole windows (wall clock only).

        While readings that waited in the broker may still arrive, the limit is at least the session expiry.
        """
        terms, forget_ms = self._stream.schedule.usual, self._stream.forget_ms
        limit_ms = max(forget_ms, _SESSION_EXPIRY_MS) if is_catching_up else forget_ms
        return terms.clock is Clock.WALL and timeline.idle_windows * terms.length_ms >= limit_ms
