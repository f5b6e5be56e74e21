"""Receivers of two presets through seeded crashes, pauses, ends and outages, judged by the definitions.

`World` runs the agent's core, store and settlement of receivers in the test's own time. It keeps a model of
who is admitted when, and of the windows that somebody gets. A crash loses what is not committed, and what was
confirmed and not yet marked; `tests/integration/test_receivers.py` does the same to processes.
"""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest

from meteragent import config
from meteragent.agent import parts
from meteragent.agent.link import receivers
from meteragent.core.charges import Spending
from meteragent.core.opening import Openings
from meteragent.core.pipeline import Pipeline
from meteragent.core.stream import Stream
from meteragent.domain.commit import Destination, Outgoing, Receiver
from meteragent.domain.counters import Counts
from meteragent.domain.grid import iso_time, parse_time
from meteragent.domain.reading import Message
from meteragent.domain.units import DAY_MS, HOUR_MS, MINUTE_MS
from meteragent.mqtt import Endpoint
from meteragent.privacy import SeededBits
from meteragent.store import commands, grants, outbox, transaction
from meteragent.store.grants import Grant
from meteragent.store.outbox import WaitingRow
from tests.support.stores import open_store

SEEDS = 3
NOON_MS, SLOT_MS = parse_time("2027-03-01T12:00:00Z"), HOUR_MS // 2
PRESETS = {"a": "appliance", "b": "appliance", "c": "street"}
HEAD = """
source.url = "mqtt://home"
source.topic = "meters/{meter}/power"
source.kind = "power"
source.unit = "W"
window.lateness = "0s"
window.catch_up = "20min"
sink.spread = "5min"
"""


@dataclass
class Sharing:
    """What the file says of a receiver, and since when it is admitted, if it is."""

    start_ms: int | None = None
    end_ms: int | None = None
    paused: bool = False
    since_ms: int | None = None

    def table(self, name: str) -> str:
        """Return the receiver's table."""
        lines = [
            "[[receiver]]",
            f'name = "{name}"',
            f'preset = "{PRESETS[name]}"',
            f'topic = "{name}/{{meter}}"',
        ]
        lines += [f"start = {iso_time(self.start_ms)}"] if self.start_ms is not None else []
        lines += [f"end = {iso_time(self.end_ms)}"] if self.end_ms is not None else []
        return "\n".join([*lines, f"paused = {str(self.paused).lower()}", ""])

    def settle(self, now_ms: int, *, was_sent: bool) -> None:
        """Admit or revoke the receiver by the definition: half a minute's notice; a while after its end."""
        is_over = self.end_ms is not None and now_ms >= self.end_ms + 26 * MINUTE_MS
        is_early = self.start_ms is not None and now_ms < self.start_ms - MINUTE_MS
        if self.paused or is_over or is_early:
            self.since_ms = None
        elif not was_sent:
            self.since_ms = max(self.start_ms or 0, self.since_ms or 0, now_ms + MINUTE_MS // 2)

    def gets(self, window_ms: int) -> bool:
        """Return whether the receiver gets the window of a slot that starts at a time."""
        is_before_end = self.end_ms is None or window_ms + SLOT_MS <= self.end_ms
        return self.since_ms is not None and window_ms >= self.since_ms and is_before_end


@dataclass
class World:
    """A home with one meter, and three receivers; `received` has the records of each by slot."""

    folder: Path
    random: Random
    now_ms: int = NOON_MS
    file: dict[str, Sharing] = field(default_factory=lambda: {name: Sharing() for name in PRESETS})
    received: dict[str, dict[int, bytes]] = field(default_factory=lambda: {name: {} for name in PRESETS})
    charged: Counter[str] = field(default_factory=Counter)
    fed_ms: dict[str, int] = field(default_factory=dict)
    cores: dict[str, Pipeline] = field(default_factory=dict)

    def run(self) -> None:
        """Live through half a day, then through two quiet hours, and judge."""
        self.store = open_store(self.folder / "db")
        self.start()
        while self.now_ms < NOON_MS + DAY_MS // 2:
            if self.random.random() < 0.06:
                self.end_process(change=self.random.random() < 0.5)
            self.step(crashes=True)
        self.end_process(change=False)
        for _ in range(12):
            self.step(crashes=False)
        spent = Counter[str]()
        for line in commands.report(self.store.connection):
            spent[line.stream] += line.windows
        assert not spent - self.charged, "a window is charged that nobody gets"
        assert not self.charged - spent, "a window that somebody gets is not charged"
        self.store.close()

    def start(self) -> None:
        """Begin a process as the agent does: settle, retire what nobody gets, read the store."""
        text = HEAD + "".join(sharing.table(name) for name, sharing in self.file.items())
        known = config.parse(text)
        receivers.settle(known, self.store, self.now_ms)
        active = grants.active(self.store.connection)
        sent = {grant.name for grant in active if outbox.descriptors(self.store.connection, grant.queue)}
        for name, sharing in self.file.items():
            sharing.settle(self.now_ms, was_sent=name in sent)
        streams = [stream for stream in known.stream if receivers.runs(stream, self.now_ms)]
        self.store.retire([stream.name for stream in streams])
        names = {stream.name for stream in streams}
        # A retired stream begins anew with the next reading that is committed.
        self.fed_ms = {name: time_ms for name, time_ms in self.fed_ms.items() if name in names}
        self.next_ms = receivers.next_ms(known, self.now_ms)
        links = parts.Links(Endpoint("home", 1883, tls=False), None, None)
        self.cores = {}
        for stream in streams:
            others = config.others_per_day(known, stream)
            core = parts.core(stream, others, links, b"", receivers=receivers.of(stream, self.store))
            bits = SeededBits(self.random.getrandbits(32))
            snapshot = self.store.snapshot(stream.name)
            self.cores[stream.name] = Pipeline(core, snapshot, Spending(), bits, Counts())

    def end_process(self, *, change: bool) -> None:
        """End the process, perhaps change the file, and start another one later."""
        self.store.close()
        if change:
            sharing = self.file[self.random.choice("abc")]
            match self.random.choice(["pause", "pause", "end", "start"]):
                case "pause":
                    sharing.paused = not sharing.paused
                case "end":
                    sharing.end_ms = self.now_ms + self.random.randrange(1, 9) * 17 * MINUTE_MS
                    sharing.start_ms = None
                case _:
                    sharing.start_ms = self.now_ms + self.random.randrange(1, 5) * 17 * MINUTE_MS
                    sharing.end_ms = None
        self.now_ms += self.random.choice([0, 0, 1, 20, 90]) * MINUTE_MS
        self.store = open_store(self.folder / "db")
        self.start()

    def step(self, *, crashes: bool) -> None:
        """Feed, commit and send for ten minutes; a crash ends a part of it."""
        if self.next_ms is not None and self.now_ms >= self.next_ms:
            self.start()
        for name, core in self.cores.items():
            batch = [Message("meters/m1/power", b"250", False, self.now_ms, None)]
            commit = core.feed(batch, self.now_ms, self.now_ms).commit
            if crashes and self.random.random() < 0.03:
                return self.end_process(change=True)  # not committed
            if commit:
                transaction.commit(self.store, commit, [], None, 10 * DAY_MS)
                self.store.erase()
            self.note_windows(name)
        for grant in grants.active(self.store.connection):
            rows = outbox.pending(self.store.connection, grant.queue, self.now_ms, 1000)
            if not rows or (crashes and self.random.random() < 0.3):
                continue  # its broker is away
            self.receive(grant, rows)
            if crashes and self.random.random() < 0.03:
                return self.end_process(change=True)  # sent, and not marked
            with self.store.transaction() as tx:
                ids = [row.id for row in rows]
                grants.count_sent(tx, ids)
                outbox.mark_delivered(tx, ids, self.now_ms)
        self.now_ms += 10 * MINUTE_MS
        return None

    def note_windows(self, name: str) -> None:
        """Count the windows that begin between two commits of a stream, and that somebody gets."""
        since_ms = self.fed_ms.get(name, self.now_ms - 1)
        for window_ms in range(since_ms // SLOT_MS * SLOT_MS + SLOT_MS, self.now_ms + 1, SLOT_MS):
            shares = [self.file[key] for key, preset in PRESETS.items() if name.endswith(preset)]
            self.charged[name] += any(sharing.gets(window_ms) for sharing in shares)
        self.fed_ms[name] = self.now_ms

    def receive(self, grant: Grant, rows: list[WaitingRow]) -> None:
        """Check what a receiver gets: its own slots, each with one value, the same as all of its preset."""
        for row in rows:
            if row.retain:
                continue
            window_ms = parse_time(json.loads(row.payload)["t"])
            assert self.file[grant.name].gets(window_ms), "a receiver gets a slot that is not its own"
            for name, preset in PRESETS.items():
                if preset == PRESETS[grant.name]:
                    other = self.received[name].get(window_ms, row.payload)
                    assert other == row.payload, "receivers of a preset get different bytes"
            self.received[grant.name][window_ms] = row.payload


def live(folder: Path) -> int:
    """Run the worlds of all seeds; return the number of records that receivers got."""
    received = 0
    for seed in range(SEEDS):
        place = folder / str(seed)
        place.mkdir()
        world = World(place, Random(seed))
        world.run()
        received += sum(map(len, world.received.values()))
    return received


@pytest.mark.slow("hundreds of commits in each world")
def test_whoever_may_have_a_slot_gets_it_and_nobody_else(tmp_path: Path) -> None:
    """In each world: no window for nobody, one value for a slot, and nothing beyond an end or a pause."""
    assert live(tmp_path) > SEEDS * 15


def _bytes_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    original = outbox.put

    def put(tx: Any, rows: list[Outgoing]) -> list[WaitingRow]:
        """Put a blank before what one receiver gets."""
        changed = [row._replace(payload=b" " + row.payload) if "@b." in row.queue else row for row in rows]
        return original(tx, changed)

    monkeypatch.setattr(outbox, "put", put)


def _all_for_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Receiver, "has_slot", lambda *_: True)


def _charged_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Openings._destinations

    def open_for_all(self: Openings, *arguments: Any) -> tuple[Destination, ...]:
        """Open a window for all receivers, whoever's time it is."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Stream, "queues", lambda stream, *_: {item.queue for item in stream.receivers})
            return original(self, *arguments)

    monkeypatch.setattr(Openings, "_destinations", open_for_all)


def _kept_after_revocation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grants, "_revoke", lambda *_: None)


@pytest.mark.slow("worlds until the mistake is found")
@pytest.mark.parametrize(
    ("mistake", "violation"),
    [
        (_bytes_differ, "receivers of a preset get different bytes"),
        (_all_for_everybody, "a receiver gets a slot that is not its own"),
        (_charged_for_nobody, "a window is charged that nobody gets"),
        (_kept_after_revocation, "a receiver gets a slot that is not its own"),
    ],
)
def test_each_mistake_is_found(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    mistake: Callable[[pytest.MonkeyPatch], None],
    violation: str,
) -> None:
    """By the same worlds that the agent passes."""
    mistake(monkeypatch)
    with pytest.raises(AssertionError, match=violation):
        live(tmp_path)
