"""What must hold after every step, whatever happens (DESIGN 3); `InvariantViolation` says what does not.

The checker sees what the core was fed and what it asked for, every transaction, and everything that crosses
the border of the process. It compares all of it with the model, which is told the same, and remembers for
ever what noise was seen where, what was charged and what has left.
"""

import json
from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

from meteragent.domain import grid, identity
from meteragent.domain.commit import Charge, Commit, OpenWindow, Outgoing
from meteragent.domain.terms import Clock, Terms
from meteragent.domain.units import MICRO
from meteragent.store import Store, outbox
from meteragent.wire.descriptor import describe
from simulators.invariant import check
from simulators.simtest.expected_store import ExpectedStore
from simulators.simtest.model import Closed, Model

_FIELDS = ["v", "meter", "t", "for", "value", "unit", "sd", "d"]


class Sent(NamedTuple):
    """What a message is to those who receive it."""

    topic: str
    payload: bytes


class Key(NamedTuple):
    """A window of a meter of a stream."""

    channel: str
    meter: str
    start_ms: int


@dataclass
class Window:
    """A window that was opened: under which name, with which noise, and the rows of its records.

    `begun` is what each slot's accumulator was seen to begin with: its noise and dither. `lost`: its store
    was lost, restored or its stream retired before all had closed.
    """

    terms: Terms
    label: str
    topic: str
    noise_bound: int | None = None
    drawn: int = 0
    begun: dict[int, int] = field(default_factory=dict)
    records: dict[int, Sent] = field(default_factory=dict)
    lost: bool = False


@dataclass
class InvariantChecker:
    """All that was ever seen of a world. `rows` are the ids of the records that the present store holds.

    `due_ms`: when the last row of a channel's topic falls due that waited when the core began.
    """

    expected: ExpectedStore = field(default_factory=ExpectedStore)
    windows: dict[Key, Window] = field(default_factory=dict)
    left: dict[tuple[str, str], list[tuple[int, int]]] = field(default_factory=dict)
    announced: dict[str, set[bytes]] = field(default_factory=dict)
    due_ms: dict[tuple[str, str], int] = field(default_factory=dict)
    rows: dict[Sent, int] = field(default_factory=dict)
    committed_ever: set[Sent] = field(default_factory=set)
    confirmed: set[Sent] = field(default_factory=set)

    # --- what the core asks for ----------------------------------------------------------------

    def begin(self, channel: str) -> None:
        """A core begins: nothing of a topic may leave before what waits of it."""
        self.due_ms = {key: due_ms for key, due_ms in self.due_ms.items() if key[0] != channel}
        for row in self.expected.rows.values():
            if row.channel == channel and not row.delivered:
                key = channel, row.sent.topic
                self.due_ms[key] = max(row.sent.due_ms, self.due_ms.get(key, 0))

    def step(self, model: Model, commit: Commit, tokens: Iterable[Any], free: Iterable[Any]) -> None:
        """A feed: what may be acknowledged is what the model says (law 7)."""
        given, right = Counter(map(id, tokens)), Counter(map(id, free))
        check(not given - right, "a reading is acknowledged before all that it says is decided, or twice")
        check(not right - given, "a reading is not acknowledged though all that it says is decided")
        check(model.touched <= commit.states.keys(), "a meter has changed and is not written", model.touched)
        if not commit:
            check(not model.opened and not model.closed, "a window or slot is due, and nothing is committed")

    def committed(self, model: Model, commit: Commit, delivered: Sequence[int], now_ms: int) -> None:
        """A transaction is on disk; an empty one only says what was delivered."""
        rows = self.expected.rows
        told = all(Sent(rows[id_].sent.topic, rows[id_].sent.payload) in self.confirmed for id_ in delivered)
        check(told, "a row is marked delivered that nobody has confirmed")
        if not commit:
            self.expected.apply(commit, delivered)
            return
        self._marks(model, commit)
        self._charges(model, commit)
        self._states(model, commit, now_ms)
        before = self.expected.last_id
        self.expected.apply(commit, delivered)
        self._outgoing(model, commit, before)
        self._meters(model, commit)
        model.opened.clear()
        model.closed.clear()
        model.touched.clear()

    def _marks(self, model: Model, commit: Commit) -> None:
        """Law 1: marks rise, and windows open at or after them."""
        for meter, end_ms in commit.marks.items():
            before_ms = self.expected.marks.get((commit.channel, meter), 0)
            check(end_ms > before_ms, "a mark is lowered or stands", f"{meter} of {commit.channel}")
            check(end_ms == model.marks[meter], "a mark is not the end of the last window", meter)
        for meter, start_ms, terms in model.opened:
            key = Key(commit.channel, meter, start_ms)
            before_ms = self.expected.marks.get((commit.channel, meter), 0)
            check(meter in commit.marks, "a window is opened without its mark", key)
            check(start_ms >= max(before_ms, self.expected.floor_ms), "a window opens before the mark", key)
            check(key not in self.windows, "a window is opened twice", key)
            name = _label(model.stream.pseudonym_key, meter)
            self.windows[key] = Window(terms, name, identity.render(model.stream.sink_topic, name))

    @staticmethod
    def _charges(model: Model, commit: Commit) -> None:
        """Law 2: what opens is charged, in the same transaction; nothing else is."""
        due: defaultdict[Charge, Counter[str]] = defaultdict(Counter)
        for meter, start_ms, terms in model.opened:
            due[Charge(grid.day(start_ms), terms.epsilon_per_w)][meter] += 1
        check(due == commit.charges, "what opens is not what is charged", commit.channel)

    def _states(self, model: Model, commit: Commit, now_ms: int) -> None:
        """Law 3: what is on disk is noise, dither and energy so far, the same noise and dither for ever."""
        for meter, state in commit.states.items():
            check(
                (state is None) == (meter not in model.meters), "a meter is forgotten too early or too late"
            )
            clock_ms = now_ms
            if state is not None and model.stream.terms.clock is Clock.EVENT:
                clock_ms = state.newest_ms or 0
            for one in state.windows if state is not None else ():
                key = Key(commit.channel, meter, one.start_ms)
                check(key in self.windows, "a window is open that never opened", key)
                self._drawn(key, one, clock_ms)
                terms = self.windows[key].terms
                for place, accumulator in one.slots:
                    check(place < one.drawn, "a slot is open that was not drawn", key)
                    energy = model.meters[meter].energy(one.start_ms, place, terms)
                    self._begun(key, place, accumulator - energy)

    def _drawn(self, key: Key, found: OpenWindow, clock_ms: int) -> None:
        """One radius; a slot is drawn when it begins by the clock, neither before nor after."""
        window, drawn = self.windows[key], found.drawn
        kept = found.noise_bound is not None
        check(
            kept == (drawn < window.terms.n),
            "a noise bound is kept that nothing needs, or one is missing",
            key,
        )
        window.noise_bound = found.noise_bound if window.noise_bound is None else window.noise_bound
        check(found.noise_bound in (None, window.noise_bound), "a window has two noise bounds", key)
        starts_ms = [key.start_ms + window.terms.stretches(i)[0][0] for i in range(window.terms.n)]
        begun = sum(start_ms <= clock_ms for start_ms in starts_ms)
        check(drawn <= window.terms.n, "more draws than slots from one noise bound", key)
        # Both clocks may have been a window's: what the wall clock began, an event clock finds drawn.
        window.drawn, before = drawn, window.drawn
        check(drawn == max(begun, before, 1), "a slot is drawn before or after it begins", key)

    def _begun(self, key: Key, place: int, begun: int) -> None:
        """What a slot began with is noise and a dither, and stays what it was."""
        window = self.windows[key]
        noise, dither = divmod(begun, window.terms.lattice(place))
        dithered = window.terms.rounding == "dithered"
        check(dithered or not dither, "an accumulator is not its noise and the energy so far", (key, place))
        known = window.begun.setdefault(place, begun)
        check(known == begun, "a slot has two noises, or energy that was not measured", (key, place))
        check(
            window.noise_bound is None or abs(noise) <= window.noise_bound,
            "noise beyond its bound",
            (key, place),
        )

    def _rounded(self, key: Key, slot: Closed, quanta: int) -> None:
        """A record is floor(A / L), half-up floor(A / L + 1/2); A is known if it was ever on disk."""
        begun, lattice = self.windows[key].begun.get(slot.place), slot.terms.lattice(slot.place)
        if begun is not None:
            half = 0 if slot.terms.rounding == "dithered" else lattice // 2
            right = (begun + slot.energy + half) // lattice
            check(
                quanta == right, "a slot has two noises, or energy that was not measured", (key, slot.place)
            )

    def _meters(self, model: Model, commit: Commit) -> None:
        """What is on disk of the meters is what the model says."""
        mine = {meter for channel, meter in self.expected.states if channel == commit.channel}
        check(mine == model.meters.keys(), "a meter is missing on disk, or too much")
        for name, state in commit.states.items():
            if state is None:
                continue
            meter = model.meters[name]
            check(state.covered_ms == meter.covered_ms, "covered is not what is decided", name)
            drawn = {one.start_ms: one.drawn for one in state.windows}
            right = {
                one.start_ms: {place for place in one.places if place < drawn.get(one.start_ms, 0)}
                for one in meter.windows
            }
            found = {one.start_ms: {slot.place for slot in one.slots} for one in state.windows}
            check(found == right, "the open windows and slots are not those that should be", name)

    # --- what will leave -----------------------------------------------------------------------

    def _outgoing(self, model: Model, commit: Commit, last_id: int) -> None:
        """Every slot that closes leaves once: the exact mean and its noise, when it is due."""
        closed = {}
        for one in model.closed:
            key = Key(commit.channel, one.meter, one.window_ms)
            check(key in self.windows, "a slot closes whose window never opened", key)
            closed[self.windows[key].label, *_time_and_band(one)] = one
        for id_, row in enumerate(commit.outgoing, last_id + 1):
            if row.retain:
                self.announced.setdefault(row.topic, set()).add(row.payload)
                continue
            sent = Sent(row.topic, row.payload)
            check(sent not in self.committed_ever, "an interval leaves twice", row.payload)
            self.committed_ever.add(sent)
            self.rows[sent] = id_
            found = json.loads(row.payload, parse_float=Decimal)
            band = found.pop("band", None)
            check(list(found) == _FIELDS, "a record has other fields", list(found))
            slot = closed.pop((found["meter"], found["t"], band), None)
            check(slot is not None, "a record leaves that is not due", row.payload)
            if slot is not None:
                self._record(model, commit, row, found, slot)
        check(not closed, "a slot is due and does not leave", list(closed))

    def _record(
        self, model: Model, commit: Commit, row: Outgoing, found: dict[str, Any], slot: Closed
    ) -> None:
        key, terms = Key(commit.channel, slot.meter, slot.window_ms), slot.terms
        window = self.windows[key]
        check(slot.place not in window.records, "an interval leaves twice", key)
        check(row.topic == window.topic, "a record leaves on another topic than its window's", key)
        window.records[slot.place] = Sent(row.topic, row.payload)
        quanta, rest = divmod(Fraction(found["value"]) * MICRO, terms.quantum_u)
        check(rest == 0, "a value off the lattice", key)
        self._rounded(key, slot, int(quanta))
        check(found["d"] == _descriptor_id(terms), "a record names other terms than its window's", key)
        said = f"{row.topic}/privacy/{found['d']}" in self.announced
        check(said, "a record before its descriptor", key)
        self._apart(key, slot)
        due_ms = commit.clock_ms
        if model.stream.terms.clock is Clock.WALL:
            delay_ms = identity.delay_ms(
                model.stream.secret, model.stream.name, slot.meter, model.stream.spread_ms
            )
            due_ms = max(slot.due_ms + delay_ms, due_ms)
        due_ms = max(due_ms, self.due_ms.get((key.channel, row.topic), 0))
        check(row.due_ms == due_ms, "a record is due at another time than the public schedule says", key)

    def _apart(self, key: Key, slot: Closed) -> None:
        """Law 1: no time of a meter is in two records of a stream."""
        left = self.left.setdefault((key.channel, key.meter), [])
        for start, end in slot.terms.stretches(slot.place):
            mine = (key.start_ms + start, key.start_ms + end)
            at = bisect(left, mine)
            around = left[max(at - 1, 0) : at + 1]
            check(all(b <= mine[0] or mine[1] <= a for a, b in around), "one interval has two values", key)
            left.insert(at, mine)

    # --- what leaves ---------------------------------------------------------------------------

    def leaves(self, sent: Sent, seen: dict[str, int], now_ms: int | None, *, retain: bool) -> None:
        """A publication leaves on a connection that has `seen` others.

        Laws 1, 2: what leaves is on disk, with its charge, byte for byte, due, and not yet confirmed.
        """
        where = sent.topic
        if retain:
            check(
                sent.payload in self.announced.get(where, ()),
                "a descriptor leaves that is not on disk",
                where,
            )
            return
        check(sent in self.rows, "something leaves that is not on disk, or not byte for byte", where)
        id_ = self.rows[sent]
        row = self.expected.rows[id_]
        check(not row.delivered, "a row leaves that the store has marked delivered", where)
        check(now_ms is not None, "something leaves without a clock", where)
        check(now_ms is not None and row.sent.due_ms <= now_ms, "something leaves before it is due", where)
        last = self.expected.rows.get(seen.get(where, 0))
        check(seen.get(where) != id_, "a row leaves twice on one connection", where)
        turned = last is not None and seen[where] > id_ and row.sent.due_ms <= last.sent.due_ms
        check(not turned, "records of a meter leave out of order", where)
        seen[where] = id_

    # --- a store that is lost ------------------------------------------------------------------

    def lose(self, expected: ExpectedStore) -> None:
        """The store begins anew, or again from a copy: what was open will never close."""
        self.expected = expected
        rows = {id_: Sent(row.sent.topic, row.sent.payload) for id_, row in expected.rows.items()}
        self.rows = {sent: id_ for id_, sent in rows.items() if not expected.rows[id_].sent.retain}
        known = {Key(c, m, one.start_ms) for (c, m), s in expected.states.items() for one in s.windows}
        for key, window in self.windows.items():
            whole = len(window.records) == window.terms.n and self.rows.keys() >= set(window.records.values())
            window.lost |= key not in known and not whole

    def drop(self, store: Store, channels: set[str]) -> None:
        """Rows of other channels that a store holds no more have been dropped."""
        others = {row.channel for row in self.expected.rows.values()} - channels
        waiting = {
            row.id for channel in others for row in outbox.pending(store.connection, channel, 2**62, -1)
        }
        for id_, row in self.expected.rows.items():
            row.delivered |= row.channel in others and id_ not in waiting
        for key, window in self.windows.items():
            window.lost |= key.channel in others

    def complete(self, walls: dict[str, int], channels: set[str], until_ms: int) -> None:
        """In the end what must have left has: slots of wall clocks, and all rows that were due by a time."""
        late = self._incomplete(walls)
        check(not late, "a slot that must have been released has not been received", late)
        rows = [row for row in self.expected.rows.values() if row.channel in channels and not row.delivered]
        waits = [row.sent.topic for row in rows if row.sent.due_ms < until_ms]
        check(not waits, "a row that was due was not delivered", waits)

    def _incomplete(self, closed_ms: dict[str, int]) -> list[Key]:
        """The windows of streams that closed up to a time whose slots have not all been received."""
        found = []
        for key, window in self.windows.items():
            if window.lost or key.channel not in closed_ms:
                continue
            due = {
                place
                for place in range(window.terms.n)
                if key.start_ms + window.terms.stretches(place)[-1][1] + window.terms.lateness_ms
                <= closed_ms[key.channel]
            }
            if not due <= {place for place, row in window.records.items() if row in self.confirmed}:
                found.append(key)
        return found


def _label(key: bytes | None, meter: str) -> str:
    return meter if key is None else identity.pseudonym(key, meter)


@lru_cache(maxsize=256)
def _descriptor_id(terms: Terms) -> str:
    return describe(terms).id


def _time_and_band(slot: Closed) -> tuple[str, str | None]:
    """How a record names a slot."""
    if slot.terms.bands:
        return grid.iso_time(slot.window_ms), slot.terms.bands[slot.place].name
    return grid.iso_time(slot.window_ms + slot.terms.stretches(slot.place)[0][0]), None
