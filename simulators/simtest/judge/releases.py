"""The check of what a commit releases: each closed slot is sent once, as its exact value plus its noise."""

import json
from bisect import bisect
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from meteragent.domain.commit import Commit, Outgoing, ReleasedSlot
from meteragent.domain.units import MICRO
from simulators.invariant import check
from simulators.simtest.judge.crowd import check_report, report_place
from simulators.simtest.judge.history import History
from simulators.simtest.judge.opened import Key, MessageKey, Window
from simulators.simtest.model import stated
from simulators.simtest.model.names import delay_ms, duration, time_and_band
from simulators.simtest.model.open_windows import ClosedSlot
from simulators.simtest.model.stream import Model

_FIELDS = ["v", "meter", "t", "for", "value", "unit", "sd", "d"]


@dataclass(frozen=True, slots=True)
class ReleaseCheck:
    """The check of the messages of one commit of a stream, which `history` then contains."""

    history: History
    model: Model
    commit: Commit

    def check(self) -> None:
        """Check that each closed slot is released once, and when it is due."""
        closed = {}
        for slot in self.model.closed_slots:
            key = self._key(slot)
            check(key in self.history.windows, "a slot closes without an open window", key)
            closed[self.history.windows[key].public_id, *time_and_band(slot)] = slot
        if self.model.stream.has_keys is not None:
            self._check_reports(closed)
            return
        rows_by_place: dict[Any, list[Outgoing]] = {place: [] for place in closed}
        for row in self.commit.outgoing:
            if row.retain:
                described = row.queue, row.topic.partition("/privacy")[0]
                waiting_ms = self.history.queued_until_ms.get(described, 0)
                is_due = row.due_ms == max(self.commit.clock_ms, waiting_ms)
                check(is_due, "a descriptor is due before an older one", row.topic)
            else:
                facts = json.loads(row.payload)
                place = facts["meter"], facts["t"], facts.get("band")
                check(place in closed, "a record belongs to no slot that closes", row.payload)
                rows_by_place[place].append(row)
        for place, slot in closed.items():
            self._check_slot(rows_by_place[place], slot)
            self._check_disjoint(slot)

    def _check_slot(self, rows: list[Outgoing], slot: ClosedSlot) -> None:
        """Check that a slot is sent once to each receiver that gets it, with the same record."""
        key, window = self._key(slot), self._window_of(slot)
        check(slot.slot_index not in window.records, "an interval leaves twice", key)
        destinations = sorted((row.queue, row.topic) for row in rows)
        expected = sorted(self._destinations(slot))
        check(bool(rows) or not expected, "a slot is due but does not leave", key)
        check(destinations == expected, "the records of a slot are not those of its receivers", key)
        window.records[slot.slot_index] = frozenset(MessageKey(row.topic, row.payload) for row in rows)
        check(len({row.payload for row in rows}) <= 1, "receivers of a stream get different bytes", key)
        for row in rows:
            record = json.loads(row.payload, parse_float=Decimal)
            record.pop("band", None)
            draws = record.pop("draws", None)
            check(list(record) == _FIELDS, "a record has unexpected fields", list(record))
            self._check_record(row, record, slot)
            expected_draws = window.peak.draws if slot.spec.is_peak else None
            check(draws == expected_draws, "a record states a wrong number of draws", row.payload)

    def _destinations(self, slot: ClosedSlot) -> frozenset[tuple[str, str]]:
        """Return the destinations that got a slot's window when it opened and still get the slot."""
        queues = self.model.stream.queues_at(slot.window_ms, [self._end_ms(slot)])
        return frozenset(item for item in self._window_of(slot).destinations if item[0] in queues)

    @staticmethod
    def _end_ms(slot: ClosedSlot) -> int:
        return slot.spec.slot_end_ms(slot.window_ms, slot.slot_index)

    def _key(self, slot: ClosedSlot) -> Key:
        return Key(self.commit.stream, slot.meter, slot.window_ms)

    def _window_of(self, slot: ClosedSlot) -> Window:
        return self.history.windows[self._key(slot)]

    def _check_reports(self, closed: dict[Any, ClosedSlot]) -> None:
        """Check that every closed slot of a crowd is sent in one report."""
        slots = {(public_id, slot.window_ms): slot for (public_id, *_), slot in closed.items()}
        for row in self.commit.outgoing:
            place = report_place(row)
            slot = slots.pop(place, None)
            check(slot is not None, "a report belongs to no slot that closes, or is a second report", place)
            if slot is not None:
                window = self._window_of(slot)
                check_report(row, slot, window.public_id, window.share)
                window.records[0] = frozenset({MessageKey(row.topic, row.payload)})
                self._check_disjoint(slot)
                self._check_due(row, slot)
        check(not slots, "a slot is due but does not leave", list(slots))

    def _check_record(self, row: Outgoing, record: dict[str, Any], slot: ClosedSlot) -> None:
        key, spec, window = self._key(slot), slot.spec, self._window_of(slot)
        expected_slot = ReleasedSlot(record["d"], key.start_ms, self._end_ms(slot))
        check(row.slot == expected_slot, "a record is of another slot than it states", key)
        quanta, remainder = divmod(Fraction(record["value"]) * MICRO, spec.quantum_u)
        check(remainder == 0, "a value is not on the lattice", key)
        window.check_rounding(key, slot, int(quanta))
        self._check_stated(row, record, slot)
        self._check_due(row, slot)
        # A topic gets only one value of an interval, even if several streams or grants have used it.
        self._add_intervals(self.history.intervals.setdefault(row.topic, []), slot)
        self._check_foreign(row.topic, slot)

    def _check_foreign(self, topic: str, slot: ClosedSlot) -> None:
        """Check that no other store released a slot on its topic; the event clock does not listen."""
        foreign = self.history.foreign.get(topic, ()) if slot.spec.clock == "wall" else ()
        spans = slot.spec.spans(slot.window_ms, slot.slot_index)
        is_apart = all(end <= since or until <= begin for since, until in foreign for begin, end in spans)
        check(is_apart, "a receiver gets two draws of one interval", self._key(slot))

    def _check_stated(self, row: Outgoing, record: dict[str, Any], slot: ClosedSlot) -> None:
        """Check that a record and its descriptor describe the slot correctly."""
        key, spec = self._key(slot), slot.spec
        facts = self.history.stated.get(record["d"])
        check(facts == stated.facts_of(spec), "a descriptor states what its window is not", key)
        is_own = (record["for"], record["unit"]) == (duration(slot), spec.unit)
        check(is_own, "a record states a duration or a unit that is not its slot's", row.payload)
        check(
            float(record["sd"]) == stated.sd_of(spec),
            "a record states another error than its descriptor",
            key,
        )

    def _check_due(self, row: Outgoing, slot: ClosedSlot) -> None:
        stream, due_ms = self.model.stream, self.commit.clock_ms
        if stream.ordinary.clock == "wall":
            names = stream.names
            delay = delay_ms(names.secret, names.stream, slot.meter, stream.spread_ms)
            due_ms = max(slot.due_ms + delay, due_ms)
        queued_ms = self.history.queued_until_ms
        due_ms = max(due_ms, *(queued_ms.get(item, 0) for item in self._window_of(slot).destinations))
        is_due = row.due_ms == due_ms
        check(is_due, "a record is not due at the time of the public schedule", self._key(slot))

    def _check_disjoint(self, slot: ClosedSlot) -> None:
        """Check law 1: no time of a meter is in two records of a stream."""
        key = self._key(slot)
        self._add_intervals(self.history.released.setdefault((key.stream, key.meter), []), slot)

    def _add_intervals(self, released: list[tuple[int, int]], slot: ClosedSlot) -> None:
        """Add the intervals of a slot to the sorted `released`, none of which may overlap them."""
        key = self._key(slot)
        for interval in slot.spec.spans(key.start_ms, slot.slot_index):
            index = bisect(released, interval)
            neighbours = released[max(index - 1, 0) : index + 1]
            check(
                all(b <= interval[0] or interval[1] <= a for a, b in neighbours),
                "one interval has two values",
                key,
            )
            released.insert(index, interval)
