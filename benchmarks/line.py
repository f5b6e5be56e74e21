"""The agent without its connections: messages pass through the core into the store, as in the runner.

The benchmarks `store` and `shares` use this module to measure the cost of a record without MQTT, and how this
cost grows with the store's history and the number of meters.
"""

import sqlite3
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from benchmarks.contestants import ROOT
from meteragent import config
from meteragent.agent.parts import core_of
from meteragent.core.charges import Spending
from meteragent.core.pipeline import Pipeline
from meteragent.domain.commit import Charge, Commit, Outgoing
from meteragent.domain.counters import Counts
from meteragent.domain.reading import Message
from meteragent.privacy.bits import SystemBits
from meteragent.store import Store, ledger, outbox, transaction

NOW_MS, SLOT_MS, DAY_MS = 1_800_000_000_000, 1_800_000, 86_400_000
STREAM, EPSILON = "main", Fraction(1, 220)
CHUNK, BATCH = 20_000, 500
TEXT = """
[source]
topic = "meters/{meter}/power"
profile = "json"
time = "t"
kind = "power"
unit = "W"
[window]
length = "30min"
clock = "event"
[sink]
topic = "private/{meter}/power"
"""


@contextmanager
def folder() -> Iterator[Path]:
    """Yield a temporary folder on the project's disk."""
    with tempfile.TemporaryDirectory(dir=ROOT, prefix="bench-") as name:
        yield Path(name)


def open_store(path: Path) -> Store:
    """Open the store at a path."""
    return Store.open(path, now_ms=NOW_MS, recovery_floor_ms=None)


@dataclass
class Line:
    """One stream on an open store: `meters` meters with a reading every `step_ms` each (by default a slot).

    Each commit marks the rows of the previous commit as delivered; with a `has_backlog`, it marks the oldest
    waiting rows instead.
    """

    store: Store
    meters: int
    step_ms: int = SLOT_MS
    has_backlog: bool = False
    reading_count: int = 0
    _delivered: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        [stream] = config.parse(TEXT).stream
        core_stream = core_of(stream, Fraction(0), None, b"x" * 32)
        self.pipeline = Pipeline(core_stream, self.store.snapshot(STREAM), Spending(), SystemBits(), Counts())

    def warm(self) -> None:
        """Feed whole batches with at least two readings of each meter.

        With a reading in each slot, every meter has then released a slot.
        """
        for _ in range(-(-max(2 * self.meters, BATCH) // BATCH)):
            self.feed(self.messages(BATCH))

    def messages(self, count: int) -> list[Message]:
        """Return the next `count` readings; the meters take turns."""
        batch = []
        for _ in range(count):
            step, meter = divmod(self.reading_count, self.meters)
            now_ms = NOW_MS + step * self.step_ms
            payload = b'{"t":%d,"power":%d}' % (now_ms // 1000, step % 3000)
            batch.append(Message(f"meters/m{meter}/power", payload, False, now_ms, object()))
            self.reading_count += 1
        return batch

    def feed(self, messages: list[Message]) -> int:
        """Feed and commit messages, and mark the rows of the previous call as delivered.

        Return the number of rows that the next call will mark: the new rows or, with a backlog, at most
        `BATCH` waiting rows.
        """
        now_ms = messages[-1].received_ms
        commit = self.pipeline.feed(messages, now_ms, now_ms).commit
        rows = persist(self.store, commit, self._delivered)
        if self.has_backlog:
            rows = outbox.pending_rows(self.store.connection, STREAM, now_ms, BATCH)
        self._delivered = [row.id for row in rows]
        return len(rows)


def persist(store: Store, commit: Commit, delivered: list[int]) -> list[outbox.WaitingRow]:
    """Commit a transaction and erase the log, as the agent does; return the new rows of the outbox."""
    rows = transaction.commit(store, commit, delivered, None, commit.clock_ms).rows
    store.erase_log()
    return rows


def fill(store: Store, releases: int, meters: int, *, are_waiting: bool) -> None:
    """Put past half-hourly releases into the outbox and the ledger, as delivered or as still waiting."""
    first_ms = NOW_MS - (releases // meters + 1) * SLOT_MS
    with store.transaction() as tx:
        for begin in range(0, releases, CHUNK):
            _fill(tx, range(begin, min(begin + CHUNK, releases)), meters, first_ms)
            if not are_waiting:
                ids = range(begin + 1, begin + CHUNK + 1)
                outbox.mark_delivered(tx, ids, first_ms)


def _fill(tx: sqlite3.Connection, numbers: range, meters: int, first_ms: int) -> None:
    commit = Commit(STREAM, first_ms)
    for number in numbers:
        step, meter = divmod(number, meters)
        start_ms = first_ms + step * SLOT_MS
        charge = Charge(start_ms - start_ms % DAY_MS, EPSILON)
        commit.charges.setdefault(charge, Counter())[f"m{meter}"] += 1
        commit.outgoing.append(Outgoing("main", f"private/m{meter}/power", RECORD % meter, start_ms, False))
    ledger.debit_windows(tx, commit)
    outbox.append_commit(tx, commit)


RECORD = (
    b'{"v":1,"meter":"m%d","t":"2026-11-20T12:00:00Z","for":"PT30M","value":-1512,"unit":"W",'
    b'"sd":311.1,"d":"9f2c01ab"}'
)


def cost_s(line: Line, batches: list[list[Message]]) -> tuple[float, float]:
    """Return the CPU time and the elapsed time per message, in s."""
    count = sum(map(len, batches))
    start_s, start_cpu_s = time.perf_counter(), time.process_time()
    for batch in batches:
        line.feed(batch)
    return (time.process_time() - start_cpu_s) / count, (time.perf_counter() - start_s) / count
