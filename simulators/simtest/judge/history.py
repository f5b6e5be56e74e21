"""The history of a world: everything that was opened, released, confirmed and lost."""

from dataclasses import dataclass, field
from sqlite3 import Connection

from meteragent.domain.commit import TimelineState
from simulators.simtest.judge import stored
from simulators.simtest.judge.expected_store import ExpectedStore
from simulators.simtest.judge.opened import Key, MessageKey, Window
from simulators.simtest.model.meter import Meter
from simulators.simtest.model.other_stores import EVER_MS
from simulators.simtest.model.registers import MaskedSlot


@dataclass
class History:
    """What has happened in a world so far, as the checks need it.

    `released` holds the released intervals by stream and meter, `descriptors` the descriptors on disk by
    topic, `stated` the facts that descriptors state by id, and `rows` the ids of unretained messages.
    `foreign` holds, by topic, the time in which another store released there. `queued_until_ms` holds, by
    destination, the due time of the last row that was waiting when the core began. `intervals` holds, by
    topic, the intervals of all records that any stream or receiver ever had there. `records` holds all
    unretained messages that were ever committed, `confirmed` the messages whose delivery the agent has
    learned of, and `late` the reports that were too late. `newest_ms` is the newest time that the agent has
    read.
    """

    expected: ExpectedStore = field(default_factory=ExpectedStore)
    windows: dict[Key, Window] = field(default_factory=dict)
    released: dict[tuple[str, str], list[tuple[int, int]]] = field(default_factory=dict)
    descriptors: dict[str, set[bytes]] = field(default_factory=dict)
    stated: dict[str, str] = field(default_factory=dict)
    foreign: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    queued_until_ms: dict[tuple[str, str], int] = field(default_factory=dict)
    intervals: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    rows: dict[MessageKey, int] = field(default_factory=dict)
    records: set[MessageKey] = field(default_factory=set)
    confirmed: set[MessageKey] = field(default_factory=set)
    late: set[MessageKey] = field(default_factory=set)
    newest_ms: int = 0

    def begin(self, stream: str) -> None:
        """Begin a core: note the last due time of each destination's messages; peaks draw new noise."""
        self.queued_until_ms = {
            place: due_ms
            for place, due_ms in self.queued_until_ms.items()
            if place[0].partition("@")[0] != stream
        }
        queues = {stream, *(grant.queue for grant in self.expected.active(stream))}
        for row in self.expected.rows.values():
            if row.queue in queues and not row.is_delivered:
                place = row.queue, row.outgoing.topic.partition("/privacy")[0]
                self.queued_until_ms[place] = max(row.outgoing.due_ms, self.queued_until_ms.get(place, 0))
        for (name, meter), state in self.expected.states.items():
            for window in state.windows if name == stream else ():
                if (opened := self.windows.get(Key(name, meter, window.start_ms))) is not None:
                    opened.peak.resume(window.slots[0].accumulator)

    def has_waiting(self, topic: str) -> bool:
        """Return whether messages wait to be sent on a topic or below it."""
        rows = (row for row in self.expected.rows.values() if not row.is_delivered)
        return any(row.outgoing.topic.startswith(topic) for row in rows)

    def end_foreign(self, topic: str, now_ms: int | None) -> None:
        """End the time in which another store releases on a topic, if any; without `now_ms`, discard it."""
        if (times := self.foreign.get(topic)) and times[-1][1] == EVER_MS:
            since_ms, _ = times.pop()
            if now_ms is not None:
                times.append((since_ms, now_ms))

    def masked_slot(self, stream: str, meter: str, state: TimelineState, saved: Meter) -> MaskedSlot | None:
        """Return the slot of a meter that is on disk as a difference from its register, if any."""
        for window in state.windows:
            if (index := window.masked_slot) is not None:
                register_u = saved.register_u if saved.masked_slot is None else saved.masked_slot.register_u
                spec = self.windows[Key(stream, meter, window.start_ms)].spec
                return MaskedSlot(window.start_ms, index, spec, dict(window.slots)[index], register_u or 0)
        return None

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
            is_complete = len(window.records) == window.spec.n and on_disk
            window.is_lost |= key not in still_open and not is_complete

    def drop_retired(self, store: Connection, streams: set[str]) -> None:
        """Treat dropped rows of retired streams as delivered, and the windows of these streams as lost."""
        retired = {row.queue for row in self.expected.rows.values() if "@" not in row.queue} - streams
        waiting = {id_ for stream in retired for id_ in stored.waiting(store, stream)}
        for id_, row in self.expected.rows.items():
            row.is_delivered |= row.queue in retired and id_ not in waiting
        for key, window in self.windows.items():
            window.is_lost |= key.stream in retired
