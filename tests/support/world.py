"""A small world around the core: a broker, a store and a clock, with failures, all in memory.

`World` runs the real pipeline with labelled noise against a store in memory. It passes every commit to a
`Witness`, and compares the stored state and the acknowledgements with a `Model` of DESIGN.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from typing import Any, NamedTuple, Protocol
from unittest.mock import patch

from meteragent.core import window as slot
from meteragent.core.charges import Spending
from meteragent.core.pipeline import Pipeline
from meteragent.core.stream import Effects, Stream
from meteragent.decode import json as json_profile
from meteragent.domain.commit import Commit, Destination, Receiver, Snapshot
from meteragent.domain.counters import Counts
from meteragent.domain.grid import EpochGrid
from meteragent.domain.identity import SourceTopic, pseudonym
from meteragent.domain.reading import Message, Reading
from meteragent.domain.schedule import Schedule
from meteragent.domain.terms import Terms
from meteragent.domain.units import DAY_MS, MICRO
from meteragent.privacy import SeededBits
from meteragent.wire.record import RecordFormat, RecordFormats
from tests.support.model import Arrival, Meter, Model
from tests.support.stores import with_mechanism
from tests.support.witness import TERMS, WIDE, Draws, Labelled, Witness

BASE_MS = 23_148 * DAY_MS
"""A day of the year 2033, near which all times of the world are."""


_decode = json_profile.make_decoder("power", "t")


def decode(payload: bytes) -> list[Reading]:
    """Return one reading for each line."""
    return [_decode(line) for line in payload.split(b"\n")]


def stream(terms: Terms | Schedule = TERMS, **changes: Any) -> Stream:
    """Return a stream of JSON readings with these terms or this schedule."""
    schedule = terms if isinstance(terms, Schedule) else Schedule(terms, EpochGrid(terms.length_ms))
    default = Stream(
        name="main",
        source=SourceTopic.parse("meters/{meter}/power"),
        receivers=(Receiver("main", "private/{meter}/power"),),
        decode=decode,
        schedule=schedule,
        ahead_ms=100,
        forget_ms=10 * DAY_MS,
        spread_ms=0,
        max_meters=100,
        max_payload=1000,
        secret=b"secret",
    )
    return replace(default, **changes)


def message(
    time_ms: int, value: object, *, meter: str = "m1", received_ms: int | None = None, token: Any = None
) -> Message:
    """Return a reading as it arrives; times are milliseconds after BASE_MS."""
    payload = f'{{"t":{BASE_MS + time_ms},"power":{value}}}'.encode()
    received_ms = time_ms if received_ms is None else received_ms
    return Message(f"meters/{meter}/power", payload, False, BASE_MS + received_ms, token)


class Disk(Protocol):
    """A store of commits."""

    def snapshot(self) -> Snapshot:
        """Return the state with which the core starts."""

    def write(self, commit: Commit) -> None:
        """Write a commit in one transaction."""


@dataclass
class MemoryDisk:
    """A small store that keeps the state of every commit."""

    contents: Snapshot = field(default_factory=lambda: Snapshot({}, {}, {}))

    def snapshot(self) -> Snapshot:
        """Return a copy of the state, so that callers may change it."""
        s = self.contents
        fields = dict(s.marks), dict(s.states), dict(s.terms), s.floor_ms, dict(s.announced), dict(s.totals)
        return Snapshot(*fields)

    def write(self, commit: Commit) -> None:
        """Keep the parts of a commit that a start needs."""
        self.contents.marks.update(commit.marks)
        self.contents.terms.update(commit.terms)
        for meter, state in commit.states.items():
            if state is None:
                self.contents.states.pop(meter, None)
            else:
                self.contents.states[meter] = state
        self.contents.totals.update(commit.totals)
        self.contents.announced.update((Destination(d.queue, d.topic), d.id) for d in commit.descriptors)


class Queued(NamedTuple):
    """An unacknowledged message at the broker, with its readings as (time, value)."""

    id: int
    meter: str
    readings: tuple[tuple[int, int], ...]


class LabelledFormats(RecordFormats):
    """Formats of records whose terms have labels in place of noise."""

    def __init__(self, terms: Mapping[str, Terms], draws: Draws) -> None:
        self.draws = draws
        super().__init__(terms)

    def make_format(self, terms: Terms) -> RecordFormat:
        """Return the format for records of these terms."""
        return with_mechanism(super().make_format(terms), Labelled(terms, self.draws))


class World:
    """A broker, a store, a clock, and the core between them."""

    def __init__(self, stream: Stream, *, disk: Disk | None = None, has_model: bool = True) -> None:
        self.now_ms = BASE_MS + 1
        self.closing_ms: int | None = None
        self.disk = MemoryDisk() if disk is None else disk
        self.draws = Draws()
        self.witness = Witness(self.draws)
        self.counts = Counts()
        self.queue: dict[int, Queued] = {}
        self.message_count = 0
        self.epoch = 0
        self.model = Model(stream.schedule) if has_model else None
        self.saved: dict[str, Meter] = {}
        self.arrived: list[Message] = []
        self.start(stream)

    def start(self, stream: Stream) -> None:
        """Start the core from the disk; the broker redelivers unacknowledged messages."""
        self.stream = stream
        for meter in set(self.witness.names.values()):
            self._name(meter)
        labelled = partial(LabelledFormats, draws=self.draws)
        with patch("meteragent.core.pipeline.RecordFormats", labelled):
            self.pipeline = Pipeline(stream, self.disk.snapshot(), Spending(), SeededBits(1), self.counts)
        self.reconnect()

    def reconnect(self) -> None:
        """Open a new connection: unacknowledged messages are redelivered, and earlier tokens are void."""
        self.epoch += 1
        self.arrived = [self._delivery(queued) for queued in self.queue.values()]

    def crash(self, stream: Stream | None = None) -> None:
        """Lose everything in memory and start again, with a different configuration if one is given."""
        if self.model is not None:
            self.model.load(self.saved, (stream or self.stream).schedule)
        self.start(stream or self.stream)

    def send(self, meter: str, time_ms: int, value_u: int) -> None:
        """Publish a reading of a meter."""
        self.send_pack(meter, (time_ms, value_u))

    def send_pack(self, meter: str, *readings: tuple[int, int]) -> None:
        """Publish a message of several readings, as (time, value)."""
        self._name(meter)
        self.message_count += 1
        self.queue[self.message_count] = Queued(self.message_count, meter, readings)
        self.arrived.append(self._delivery(self.queue[self.message_count]))

    def _name(self, meter: str) -> None:
        key = self.stream.pseudonym_key
        self.witness.names[meter if key is None else pseudonym(key, meter)] = meter

    def _delivery(self, queued: Queued) -> Message:
        documents = [
            f'{{"t":{time_ms},"power":{Decimal(value_u) / MICRO:f}}}' for time_ms, value_u in queued.readings
        ]
        text = documents[0] if len(documents) == 1 else "\n".join(documents)
        token = (self.epoch, queued.id)
        return Message(f"meters/{queued.meter}/power", text.encode(), False, self.now_ms, token)

    def feed(self, fails: str = "") -> None:
        """Run one turn of the agent; it `fails` before or after the transaction, or not at all."""
        batch, self.arrived = self.arrived, []
        closing_ms = self.now_ms if self.closing_ms is None else self.closing_ms
        with patch.object(slot, "reach_quanta", lambda *_: WIDE):  # labels are wider than any noise
            effects = self.pipeline.feed(batch, self.now_ms, closing_ms)
        free: list[Any] = []
        if self.model is not None:
            arrivals = [arrival for message in batch for arrival in self._arrivals(message)]
            free = self.model.feed(arrivals, self.now_ms, closing_ms)
            assert self.counts["accepted"] == self.model.accepted
        if fails == "before":
            self.crash()
            return
        self.disk.write(effects.commit)
        self.witness.see(effects.commit)
        if self.model is not None:
            self._agrees(effects, free)
            self.saved = self.model.save(effects.commit.states)
        if fails == "after":
            self.crash()
            return
        for epoch, id_ in effects.acknowledge:
            if epoch == self.epoch:
                del self.queue[id_]

    def _arrivals(self, message: Message) -> list[Arrival]:
        """Return the readings of a message, sorted by time."""
        queued = self.queue[message.token[1]]
        return [
            Arrival(queued.meter, time_ms, value_u, message.received_ms, message.token)
            for time_ms, value_u in sorted(queued.readings, key=lambda reading: reading[0])
        ]

    def _agrees(self, effects: Effects, free: Iterable[Any]) -> None:
        """Laws 3 and 7: check the accumulators on disk and the acknowledgements.

        An accumulator is noise + energy so far. Where a register's slot is covered up to its newest reading,
        the accumulator is masked: it is that reading minus noise and energy.
        """
        assert self.model is not None
        assert sorted(effects.acknowledge) == sorted(free), "acknowledged too early, too late or twice"
        for meter, state in self.disk.snapshot().states.items():
            account = self.model.meters[meter]
            assert state.integrated_until_ms == account.covered_ms
            standing = account.masked_slot or account.standing_slot()
            for window in state.windows:
                for slot_state in window.slots:
                    is_masked = slot_state.slot_index == window.masked_slot
                    label, terms = self.witness.draw_in(slot_state, window)
                    noise_u = slot_state.accumulator
                    stands = (
                        standing is not None
                        and standing.start_ms
                        == window.start_ms + terms.stretches[slot_state.slot_index][0][0]
                    )
                    assert is_masked == stands, "a register is kept, or masked without need"
                    assert type(noise_u) is int, "a fraction, which noise does not cover"
                    if standing is not None and stands:
                        noise_u = standing.value_u * terms.readings.interval_ms - noise_u
                    noise_u -= int(account.energy(window.start_ms, slot_state.slot_index, terms))
                    self.witness.begins(label, noise_u, slot_state.slot_index, "an accumulator is wrong")

    def check_records(self) -> None:
        """Check that every record is its slot's energy, rounded with the dither on disk."""
        assert self.model is not None
        for labelled, record in self.witness.records.items():
            label, *_ = self.witness.places.get(labelled, (0,))
            dither = self.witness.dithers.get(label)
            expected_quanta = self.model.meters[labelled.meter].quanta(
                record.window_ms, record.place, record.terms, dither
            )
            assert record.quanta in expected_quanta

    def run_to(self, time_ms: int) -> None:
        """Let time pass; feed the core when something has arrived and at each of its deadlines."""
        if self.arrived:
            self.feed()
        while (
            deadline_ms := self.pipeline.deadline_ms(includes_closings=True)
        ) is not None and deadline_ms <= time_ms:
            self.now_ms = max(self.now_ms, deadline_ms)
            self.feed()
        self.now_ms = time_ms
        self.feed()
