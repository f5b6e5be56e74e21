"""The invariants that must hold after every step (docs/design.md, section 3), each with its name.

The checker receives the effects of each feed of the core, every transaction, and every publication. It
compares them with the model, and records each slot's noise and all releases.
"""

import json
from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any

from meteragent.domain import grid, identity
from meteragent.domain.commit import Charge, Commit, OpenWindow, Outgoing, ReleasedSlot, TimelineState
from meteragent.domain.shape import Space
from meteragent.domain.terms import Clock
from meteragent.domain.units import MICRO
from meteragent.store import Store, outbox
from meteragent.store.outbox import WaitingRow
from simulators.invariant import check
from simulators.simtest.crowd import ShareCheck, check_report, report_place
from simulators.simtest.expected_store import ExpectedStore, Message, outgoing
from simulators.simtest.model import Model
from simulators.simtest.names import descriptor_id, public_name, time_and_band
from simulators.simtest.open_windows import ClosedSlot
from simulators.simtest.opened import Key, MessageKey, Window

_FIELDS = ["v", "meter", "t", "for", "value", "unit", "sd", "d"]


@dataclass
class InvariantChecker:
    """The history of a world, and the checks against that history.

    `released` holds the released intervals by stream and meter, `descriptors` the descriptors on disk by
    topic, and `rows` the ids of unretained messages. `queued_until_ms` holds, by stream and topic, the due
    time of the last row that was waiting when the core began. `records` holds all unretained messages that
    were ever committed, `confirmed` the messages whose delivery the agent has learned of, and `late` the
    reports that were too late. `newest_ms` is the newest time that the agent has read.
    """

    expected: ExpectedStore = field(default_factory=ExpectedStore)
    windows: dict[Key, Window] = field(default_factory=dict)
    released: dict[tuple[str, str], list[tuple[int, int]]] = field(default_factory=dict)
    descriptors: dict[str, set[bytes]] = field(default_factory=dict)
    queued_until_ms: dict[tuple[str, str], int] = field(default_factory=dict)
    rows: dict[MessageKey, int] = field(default_factory=dict)
    records: set[MessageKey] = field(default_factory=set)
    confirmed: set[MessageKey] = field(default_factory=set)
    late: set[MessageKey] = field(default_factory=set)
    newest_ms: int = 0

    # --- feeds and transactions ----------------------------------------------------------------

    def begin(self, stream: str) -> None:
        """Begin a core: no new record may be due before rows that wait on its topic; peaks draw new noise."""
        self.queued_until_ms = {
            key: due_ms for key, due_ms in self.queued_until_ms.items() if key[0] != stream
        }
        queues = {stream, *(grant.queue for grant in self.expected.active(stream))}
        for row in self.expected.rows.values():
            if row.queue in queues and not row.delivered:
                key = stream, row.core_topic
                self.queued_until_ms[key] = max(row.outgoing.due_ms, self.queued_until_ms.get(key, 0))
        for (name, meter), state in self.expected.states.items():
            for window in state.windows if name == stream else ():
                if (opened := self.windows.get(Key(name, meter, window.start_ms))) is not None:
                    opened.peak.resume(window.slots[0].accumulator)

    def check_feed(self, model: Model, commit: Commit, tokens: Iterable[Any], freed: Iterable[Any]) -> None:
        """Check that the core frees the same tokens as the model (law 7), and commits every change."""
        core_tokens, model_tokens = Counter(map(id, tokens)), Counter(map(id, freed))
        check(not core_tokens - model_tokens, "a reading is acknowledged before all its time is decided")
        check(not model_tokens - core_tokens, "a reading is not acknowledged though its time is decided")
        unwritten = model.changed_meters - commit.states.keys()
        check(not unwritten, "a meter has changed but is not written", unwritten)
        if not commit:
            check(not (model.opened_windows or model.closed_slots), "an opening or a close is not committed")

    def check_commit(
        self, model: Model | None, commit: Commit, delivered: Sequence[int], now_ms: int
    ) -> None:
        """Check a transaction on disk, and apply it; an empty `commit` only marks rows as delivered."""
        rows = self.expected.rows
        for row in (rows[id_].outgoing for id_ in delivered):
            message = MessageKey(row.topic, row.payload)
            if message not in self.confirmed and (row.until_ms or self.newest_ms + 1) <= self.newest_ms:
                self.late.add(message)
            check(
                message in self.confirmed or message in self.late,
                "a row that was neither confirmed nor too late is marked delivered",
            )
        if model is None or not commit:
            self.expected.apply(commit, delivered)
            return
        self._check_marks(model, commit)
        self._check_charges(model, commit)
        self._check_states(model, commit, now_ms)
        model.check_prices(commit.prices, now_ms)
        last_id = self.expected.last_id
        self.expected.apply(commit, delivered)
        self._note_rows(last_id)
        self._check_outgoing(model, commit)
        self._check_meters(model, commit)
        model.opened_windows.clear()
        model.redrawn.clear()
        model.closed_slots.clear()
        model.changed_meters.clear()

    def _check_marks(self, model: Model, commit: Commit) -> None:
        """Check law 1: marks rise, and each window opens once, at or after the mark and the store's floor."""
        for meter, end_ms in commit.marks.items():
            before_ms = self.expected.marks.get((commit.stream, meter), 0)
            check(end_ms > before_ms, "a mark does not rise", f"{meter} of {commit.stream}")
            check(end_ms == model.marks[meter], "a mark is not the end of the last window", meter)
        for meter, start_ms, terms in model.opened_windows:
            key = Key(commit.stream, meter, start_ms)
            before_ms = self.expected.marks.get((commit.stream, meter), 0)
            check(meter in commit.marks, "a window is opened without its mark", key)
            check(start_ms >= max(before_ms, self.expected.floor_ms), "a window opens too early", key)
            check(key not in self.windows, "a window is opened twice", key)
            public_id = public_name(model.stream.pseudonym_key, meter)
            self.windows[key] = Window(terms, public_id, identity.render(model.stream.sink_topic, public_id))

    @staticmethod
    def _check_charges(model: Model, commit: Commit) -> None:
        """Check law 2: the transaction charges opened windows and redrawn peaks, and nothing else."""
        charges: defaultdict[Charge, Counter[str]] = defaultdict(Counter)
        for meter, start_ms, terms in model.opened_windows:
            charges[Charge(grid.day(start_ms), terms.epsilon_per_w)][meter] += 1
        for meter, _, time_ms, terms in model.redrawn:
            charges[Charge(grid.day(time_ms), terms.epsilon_per_w)][meter] += 1
        check(charges == commit.charges, "the charges are not those of the opened windows", commit.stream)

    def _check_states(self, model: Model, commit: Commit, now_ms: int) -> None:
        """Check law 3: the disk holds noise plus dither plus energy so far, and the noise never changes.

        A peak has new noise after each restart, and a slot of a crowd has a pad instead of noise.
        """
        for meter, start_ms, _, _ in model.redrawn:
            self.windows[Key(commit.stream, meter, start_ms)].peak.draws += 1
        for meter, state in commit.states.items():
            check(
                (state is None) == (meter not in model.meters), "a meter is forgotten too early or too late"
            )
            clock_ms = now_ms
            if state is not None and model.stream.terms.clock is Clock.EVENT:
                clock_ms = state.newest_ms or 0
            for window in state.windows if state is not None else ():
                key = Key(commit.stream, meter, window.start_ms)
                check(key in self.windows, "a window on disk was never opened", key)
                terms = self.windows[key].terms
                if terms.space is Space.PEAK:
                    self.windows[key].peak.check_state(model.meters[meter], window, key)
                    continue
                if model.stream.has_keys is not None:
                    self._check_share(model, window, key)
                    continue
                self.windows[key].check_draws(key, window, clock_ms)
                for slot_index, accumulator in window.slots:
                    check(slot_index < window.draws, "an open slot has no noise", key)
                    energy = model.meters[meter].energy(window.start_ms, slot_index, terms)
                    self.windows[key].check_initial(key, slot_index, accumulator - energy)

    def _check_share(self, model: Model, on_disk: OpenWindow, key: Key) -> None:
        """Check that a slot of a crowd has one sealed pad that no other slot uses, and holds its energy."""
        window = self.windows[key]
        energy = model.meters[key.meter].energy(key.start_ms, 0, window.terms)
        share = ShareCheck.of(on_disk, window.terms, energy)
        if window.share is None:
            pads = {known_window.share.pad for known_window in self.windows.values() if known_window.share}
            check(share.pad not in pads, "a pad is used twice", key)
            window.share = share
        share.check_state(window.share, key)

    def _check_meters(self, model: Model, commit: Commit) -> None:
        """Check that the meters' states on disk agree with the model's."""
        on_disk = {meter for stream, meter in self.expected.states if stream == commit.stream}
        check(on_disk == model.meters.keys(), "the meters on disk are not the model's")
        for name, state in commit.states.items():
            if state is None:
                continue
            meter = model.meters[name]
            check(
                state.integrated_until_ms == meter.covered_ms,
                "the integrated time is not the decided time",
                name,
            )
            draws_by_window = {window.start_ms: window.draws for window in state.windows}
            expected_slots = {
                window.start_ms: {i for i in window.open_slots if i < draws_by_window.get(window.start_ms, 0)}
                for window in meter.windows
            }
            slots = {window.start_ms: {slot.slot_index for slot in window.slots} for window in state.windows}
            check(slots == expected_slots, "the open windows and slots are not the model's", name)

    # --- new rows of the outbox ----------------------------------------------------------------

    def _note_rows(self, last_id: int) -> None:
        """Note the rows after `last_id`: messages must be new, and records must follow their descriptors."""
        rows = self.expected.rows
        for id_ in range(last_id + 1, self.expected.last_id + 1):
            row = rows[id_].outgoing
            if row.retain:
                self.descriptors.setdefault(row.topic, set()).add(row.payload)
                continue
            message = MessageKey(row.topic, row.payload)
            check(message not in self.records, "an interval leaves twice", row.payload)
            self.records.add(message)
            self.rows[message] = id_
            if row.until_ms is None:
                self._check_described(rows[id_])

    def check_rows(self, stream: str, rows: Sequence[WaitingRow], last_id: int) -> None:
        """Check that a commit's new `rows`, which the agent sends, are the rows after `last_id`."""
        expected = self.expected.rows
        messages = [expected[id_] for id_ in range(last_id + 1, self.expected.last_id + 1)]
        predicted = [(message.queue, message.outgoing) for message in messages]
        new = [(row.queue or stream, outgoing(row)) for row in rows]
        check(new == predicted, "the rows of a commit are not those of its receivers", stream)

    def _check_described(self, message: Message) -> None:
        """Check that a record's descriptor is on disk; a receiver must have got it in this grant."""
        row = message.outgoing
        topic = f"{row.topic}/privacy/{json.loads(row.payload)['d']}"
        is_shared = row.topic != message.core_topic
        topics = self.expected.announced_topics(message.queue) if is_shared else self.descriptors
        check(topic in topics, "a record is committed before its descriptor", topic)

    def _check_outgoing(self, model: Model, commit: Commit) -> None:
        """Check that each closed slot is released once, as the exact value plus its noise, when it is due."""
        closed = {}
        for slot in model.closed_slots:
            key = Key(commit.stream, slot.meter, slot.window_ms)
            check(key in self.windows, "a slot closes without an open window", key)
            closed[self.windows[key].public_id, *time_and_band(slot)] = slot
        if model.stream.has_keys is not None:
            self._check_reports(model, commit, closed)
            return
        for row in commit.outgoing:
            if row.retain:
                continue
            record = json.loads(row.payload, parse_float=Decimal)
            band, draws = record.pop("band", None), record.pop("draws", None)
            check(list(record) == _FIELDS, "a record has unexpected fields", list(record))
            closed_slot = closed.pop((record["meter"], record["t"], band), None)
            check(closed_slot is not None, "a record belongs to no slot that closes", row.payload)
            if closed_slot is not None:
                self._check_record(model, commit, row, record, closed_slot)
                opened = self.windows[Key(commit.stream, closed_slot.meter, closed_slot.window_ms)]
                expected = opened.peak.draws if closed_slot.terms.space is Space.PEAK else None
                check(draws == expected, "a record states a wrong number of draws", row.payload)
        check(not closed, "a slot is due but does not leave", list(closed))

    def _check_reports(self, model: Model, commit: Commit, closed: dict[Any, ClosedSlot]) -> None:
        """Check that every closed slot of a crowd is sent in one report."""
        slots = {(public_id, slot.window_ms): slot for (public_id, *_), slot in closed.items()}
        for row in commit.outgoing:
            place = report_place(row)
            slot = slots.pop(place, None)
            check(slot is not None, "a report belongs to no slot that closes, or is a second report", place)
            if slot is not None:
                key = Key(commit.stream, slot.meter, slot.window_ms)
                window = self.windows[key]
                check_report(row, slot, window.public_id, window.share)
                window.records[0] = frozenset({MessageKey(row.topic, row.payload)})
                self._check_disjoint(key, slot)
                self._check_due(model, commit, row, slot)
        check(not slots, "a slot is due but does not leave", list(slots))

    def _check_record(
        self, model: Model, commit: Commit, row: Outgoing, record: dict[str, Any], slot: ClosedSlot
    ) -> None:
        key, terms = Key(commit.stream, slot.meter, slot.window_ms), slot.terms
        window = self.windows[key]
        check(slot.slot_index not in window.records, "an interval leaves twice", key)
        check(row.topic == window.topic, "a record leaves on a topic that is not its window's", key)
        end_ms = key.start_ms + terms.stretches(slot.slot_index)[-1][1]
        expected_slot = None
        if model.stream.grants is not None:
            expected_slot = ReleasedSlot(record["d"], key.start_ms, end_ms)
        check(row.slot == expected_slot, "a record is for the receivers of another slot", key)
        window.records[slot.slot_index] = self._messages(model, row)
        quanta, remainder = divmod(Fraction(record["value"]) * MICRO, terms.quantum_u)
        check(remainder == 0, "a value is not on the lattice", key)
        window.check_rounding(key, slot, int(quanta))
        check(record["d"] == descriptor_id(terms), "a record names terms that are not its window's", key)
        self._check_disjoint(key, slot)
        self._check_due(model, commit, row, slot)

    def _check_due(self, model: Model, commit: Commit, row: Outgoing, slot: ClosedSlot) -> None:
        key = Key(commit.stream, slot.meter, slot.window_ms)
        due_ms = commit.clock_ms
        if model.stream.terms.clock is Clock.WALL:
            delay_ms = identity.delay_ms(
                model.stream.secret, model.stream.name, slot.meter, model.stream.spread_ms
            )
            due_ms = max(slot.due_ms + delay_ms, due_ms)
        due_ms = max(due_ms, self.queued_until_ms.get((key.stream, row.topic), 0))
        check(row.due_ms == due_ms, "a record is not due at the time of the public schedule", key)

    def _messages(self, model: Model, row: Outgoing) -> frozenset[MessageKey]:
        """Return the messages that carry a record: one, or one for each receiver that gets the slot."""
        if row.slot is None:
            return frozenset({MessageKey(row.topic, row.payload)})
        topics = [
            grant.sink_topic(row.topic)
            for grant in model.stream.grants or ()
            if grant.gets(row.slot.window_ms, row.slot.end_ms)
        ]
        return frozenset(MessageKey(topic, row.payload) for topic in topics)

    def _check_disjoint(self, key: Key, slot: ClosedSlot) -> None:
        """Check law 1: no time of a meter is in two records of a stream."""
        released = self.released.setdefault((key.stream, key.meter), [])
        for start, end in slot.terms.stretches(slot.slot_index):
            interval = (key.start_ms + start, key.start_ms + end)
            index = bisect(released, interval)
            neighbours = released[max(index - 1, 0) : index + 1]
            check(
                all(b <= interval[0] or interval[1] <= a for a, b in neighbours),
                "one interval has two values",
                key,
            )
            released.insert(index, interval)

    # --- publications --------------------------------------------------------------------------

    def check_publication(
        self, message: MessageKey, newest_rows: dict[str, int], now_ms: int | None, *, retain: bool
    ) -> None:
        """Check a publication on a connection; `newest_rows` holds the newest row sent there, by topic.

        A retained message must be a descriptor on disk or a waiting withdrawal. By laws 1 and 2 any other
        message is on disk, byte for byte, not marked delivered and not too late, and leaves in order and only
        once on a connection. It must be due; nothing is due while the clock is behind (`now_ms` is None).
        """
        topic = message.topic
        if retain:
            is_own = topic.startswith("private/")
            is_known = message.payload in self.descriptors.get(topic, ()) if is_own else False
            is_known = is_known or (not is_own and self.expected.may_retain(topic, message.payload))
            check(is_known, "a retained message that leaves is not on disk", topic)
            return
        check(message in self.rows, "a message that leaves is not on disk byte for byte", topic)
        id_ = self.rows[message]
        row = self.expected.rows[id_]
        check(not row.delivered, "a row leaves although it is marked delivered", topic)
        until_ms = row.outgoing.until_ms
        check(until_ms is None or (now_ms or 0) < until_ms, "a report leaves after its deadline", topic)
        check(now_ms is not None, "a message leaves while the clock is behind", topic)
        check(
            now_ms is not None and row.outgoing.due_ms <= now_ms, "a message leaves before it is due", topic
        )
        previous = self.expected.rows.get(newest_rows.get(topic, 0))
        check(newest_rows.get(topic) != id_, "a row leaves twice on one connection", topic)
        overtaken = (
            previous is not None
            and newest_rows[topic] > id_
            and row.outgoing.due_ms <= previous.outgoing.due_ms
        )
        check(not overtaken, "records of a meter leave out of order", topic)
        newest_rows[topic] = id_

    # --- lost stores ---------------------------------------------------------------------------

    def discard_windows(self, stream: str, meter: str, state: TimelineState, starts_ms: set[int]) -> None:
        """Note that a meter's open windows are lost, except the windows that start at `starts_ms`."""
        for window in state.windows:
            self.windows[Key(stream, meter, window.start_ms)].is_lost |= window.start_ms not in starts_ms

    def replace_store(self, expected: ExpectedStore) -> None:
        """Begin with another store; open windows that it does not contain need not close."""
        self.expected = expected
        rows = {
            id_: MessageKey(row.outgoing.topic, row.outgoing.payload) for id_, row in expected.rows.items()
        }
        self.rows = {message: id_ for id_, message in rows.items() if not expected.rows[id_].outgoing.retain}
        still_open = {
            Key(stream, meter, window.start_ms)
            for (stream, meter), state in expected.states.items()
            for window in state.windows
        }
        for key, window in self.windows.items():
            on_disk = self.rows.keys() >= set().union(*window.records.values())
            is_complete = len(window.records) == window.terms.n and on_disk
            window.is_lost |= key not in still_open and not is_complete

    def drop_retired(self, store: Store, streams: set[str]) -> None:
        """Treat dropped rows of retired streams as delivered, and the windows of these streams as lost."""
        retired = {row.queue for row in self.expected.rows.values() if "@" not in row.queue} - streams
        pending = (outbox.pending(store.connection, stream, 2**62, -1) for stream in retired)
        waiting = {row.id for rows in pending for row in rows}
        for id_, row in self.expected.rows.items():
            row.delivered |= row.queue in retired and id_ not in waiting
        for key, window in self.windows.items():
            window.is_lost |= key.stream in retired
