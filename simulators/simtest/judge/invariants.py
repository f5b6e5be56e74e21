"""The invariants that must hold after every step (docs/design.md, section 3), each with its name.

The checker receives the effects of each feed of the core and every transaction. It compares them with the
model, and records each slot's noise and all releases (`releases`). `publications` checks what is then sent.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from meteragent.domain.commit import Charge, Commit, OpenWindow, Outgoing
from meteragent.domain.units import DAY_MS
from simulators.invariant import check
from simulators.simtest.judge.crowd import ShareCheck
from simulators.simtest.judge.expected_store import Message
from simulators.simtest.judge.history import History
from simulators.simtest.judge.opened import Key, MessageKey, Window
from simulators.simtest.judge.releases import ReleaseCheck
from simulators.simtest.model import stated
from simulators.simtest.model.meter import Meter
from simulators.simtest.model.names import public_name
from simulators.simtest.model.stream import Model


@dataclass
class InvariantChecker(History):
    """The history of a world, and the checks of feeds and transactions against it."""

    # --- feeds and transactions ----------------------------------------------------------------

    def check_feed(self, model: Model, commit: Commit, tokens: Iterable[Any], freed: Iterable[Any]) -> None:
        """Check that the core acknowledges the same tokens as the model (law 7), and commits every change."""
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
        ReleaseCheck(self, model, commit).check()
        self._check_meters(model, commit)
        model.opened_windows.clear()
        model.redrawn.clear()
        model.lost.clear()
        model.closed_slots.clear()
        model.changed_meters.clear()

    def _check_marks(self, model: Model, commit: Commit) -> None:
        """Check law 1: marks rise, and each window opens once, at or after the mark and the store's floor."""
        for meter, end_ms in commit.marks.items():
            before_ms = self.expected.marks.get((commit.stream, meter), 0)
            check(end_ms > before_ms, "a mark does not rise", f"{meter} of {commit.stream}")
            check(end_ms == model.marks[meter], "a mark is not the end of the last window", meter)
        for meter, window in model.opened_windows:
            start_ms, key = window.start_ms, Key(commit.stream, meter, window.start_ms)
            before_ms = self.expected.marks.get((commit.stream, meter), 0)
            check(meter in commit.marks, "a window is opened without its mark", key)
            check(start_ms >= max(before_ms, self.expected.floor_ms), "a window opens too early", key)
            check(key not in self.windows, "a window is opened twice", key)
            public_id = public_name(model.stream.names.pseudonym_key, meter)
            destinations = model.stream.destinations(window.queues, public_id)
            self.windows[key] = Window(window.spec, public_id, destinations)
            if window.spec.clock == "event":  # the agent does not listen, so both stores release from now on
                for _, topic in destinations:
                    self.end_foreign(topic, None)

    @staticmethod
    def _check_charges(model: Model, commit: Commit) -> None:
        """Check law 2: the transaction charges opened windows and redrawn peaks, and nothing else."""
        charges: defaultdict[Charge, Counter[str]] = defaultdict(Counter)
        for meter, window in model.opened_windows:
            charges[Charge(window.start_ms // DAY_MS * DAY_MS, window.spec.charge)][meter] += 1
        for meter, _, time_ms, spec in model.redrawn:
            charges[Charge(time_ms // DAY_MS * DAY_MS, spec.charge)][meter] += 1
        check(charges == commit.charges, "the charges are not those of the opened windows", commit.stream)

    def _check_states(self, model: Model, commit: Commit, now_ms: int) -> None:
        """Check law 3: the disk holds noise plus dither plus energy so far, and the noise never changes.

        A peak has new noise after each restart, and a slot of a crowd has a pad instead of noise.
        """
        for meter, start_ms, _, _ in model.redrawn:
            self.windows[Key(commit.stream, meter, start_ms)].peak.draws += 1
        for meter, start_ms, slot_index in model.lost:
            self.windows[Key(commit.stream, meter, start_ms)].lose(slot_index)
        for meter, state in commit.states.items():
            check(
                (state is None) == (meter not in model.meters), "a meter is forgotten too early or too late"
            )
            clock_ms = now_ms
            if state is not None and model.stream.ordinary.clock == "event":
                clock_ms = state.newest_ms or 0
            for window in state.windows if state is not None else ():
                key = Key(commit.stream, meter, window.start_ms)
                check(key in self.windows, "a window on disk was never opened", key)
                is_same = frozenset(window.destinations) == self.windows[key].destinations
                check(is_same, "a window is not for the receivers that got it when it opened", key)
                due_slot = model.meters[meter].slot_of_difference(window.start_ms)
                is_stored = window.masked_slot == due_slot
                check(is_stored, "a slot is on disk as a difference from the register, or should be", key)
                spec = self.windows[key].spec
                if spec.is_peak:
                    self.windows[key].peak.check_state(model.meters[meter], window, key)
                    continue
                if model.stream.has_keys is not None:
                    self._check_share(model, window, key)
                    continue
                self.windows[key].check_draws(key, window, clock_ms)
                self._check_slots(model.meters[meter], window, key)

    def _check_slots(self, meter: Meter, on_disk: OpenWindow, key: Key) -> None:
        """Check that each open slot is on disk as noise plus energy, or as the register less that sum."""
        spec = self.windows[key].spec
        for slot_index, number in on_disk.slots:
            check(slot_index < on_disk.draws, "an open slot has no noise", key)
            accumulator = number
            if slot_index == on_disk.masked_slot:
                if meter.masked_slot is not None:
                    is_same = number == meter.masked_slot.difference
                    check(is_same, "a slot that waits for its register has changed", key)
                    continue
                register_u = meter.readings[meter.covered_ms].value_u
                accumulator = register_u * spec.readings.interval_ms - number
            energy = meter.slot_energy(spec, key.start_ms, slot_index)
            self.windows[key].check_initial(key, slot_index, accumulator - energy)

    def _check_share(self, model: Model, on_disk: OpenWindow, key: Key) -> None:
        """Check that a slot of a crowd has one sealed pad that no other slot uses, and holds its energy."""
        window = self.windows[key]
        energy = model.meters[key.meter].slot_energy(window.spec, key.start_ms, 0)
        share = ShareCheck.of(on_disk, window.spec, energy)
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
                if row.payload:
                    id_of_facts, facts = stated.read(row.payload)
                    self.stated[id_of_facts] = facts
                continue
            message = MessageKey(row.topic, row.payload)
            check(message not in self.records, "an interval leaves twice", row.payload)
            self.records.add(message)
            self.rows[message] = id_
            if row.until_ms is None:
                self._check_described(rows[id_])

    def check_rows(self, stream: str, rows: Sequence[Outgoing], last_id: int) -> None:
        """Check that the new messages of a commit that the agent sends are the rows after `last_id`."""
        expected = self.expected.rows
        messages = [expected[id_] for id_ in range(last_id + 1, self.expected.last_id + 1)]
        predicted = [message.outgoing for message in messages]
        check(list(rows) == predicted, "the rows of a commit are not its messages", stream)

    def _check_described(self, message: Message) -> None:
        """Check that a record's descriptor is on disk; a receiver must have got it in this grant."""
        row = message.outgoing
        topic = f"{row.topic}/privacy/{json.loads(row.payload)['d']}"
        is_grant = "@" in row.queue
        topics = self.expected.announced_topics(message.queue) if is_grant else self.descriptors
        check(topic in topics, "a record is committed before its descriptor", topic)
