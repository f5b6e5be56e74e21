"""Terms, states, commits and crash points shared by the tests of store, ledger and outbox."""

import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from meteragent.domain.commit import (
    Budget,
    Charge,
    Commit,
    Destination,
    OpenWindow,
    Outgoing,
    Slot,
    TimelineState,
)
from meteragent.domain.metric import Metric
from meteragent.domain.readings import ReadingRules
from meteragent.domain.shapes import Means
from meteragent.domain.terms import Clock, Terms
from meteragent.domain.units import Kind
from meteragent.store import Store, ledger, outbox, read_only
from meteragent.store.schema import decode_state
from meteragent.wire.record import RecordFormat
from simulators.simtest.store.disk import settle
from tests.support.terms import terms_with

LENGTH_MS = 1_800_000
DAY_MS = 86_400_000
TERMS = Terms(
    shape=Means(LENGTH_MS, LENGTH_MS),
    readings=ReadingRules(
        kind=Kind.POWER,
        unit="W",
        interval_ms=900_000,
        hold_ms=900_000,
        gap_u=0,
        low_u=0,
        high_u=20_000_000_000,
        modulus_u=None,
        every_ms=None,
        dead_band=None,
        counters=1,
    ),
    clock=Clock.WALL,
    lateness_ms=0,
    level=Fraction(1),
    radius=Fraction(220),
    metric=Metric.LINF,
    quantum_u=1_000_000,
    rounding="dithered",
    timezone=None,
    preset=None,
    others_per_day=Fraction(0),
)
THIRDS = terms_with(TERMS, step_ms=LENGTH_MS // 3)


def stored_states(path: Path) -> list[tuple[str, str, TimelineState]]:
    """Return the states in a store, which an agent may be using, each with its stream and meter."""
    with read_only(path) as connection:
        rows = connection.execute("SELECT stream, meter, state FROM state").fetchall()
    # A state that outgrew its row is in another; the first is blank.
    return [(stream, meter, decode_state(state)) for stream, meter, state in rows if state.strip(b"\0")]


def with_mechanism(records: RecordFormat, mechanism: object) -> RecordFormat:
    """Return the format of records with a mechanism that replaces that of its terms."""
    terms = replace(records.terms)
    terms.__dict__.update(
        mechanism=mechanism, sd=records.terms.sd
    )  # sets the cached properties of a frozen class
    return records._replace(descriptor=records.descriptor._replace(terms=terms))


def open_store(path: Path, now_ms: int = 0, floor_ms: int | None = 0) -> Store:
    """Open a store with the arguments that most tests use."""
    return Store.open(path, now_ms=now_ms, recovery_floor_ms=floor_ms, again_s=0)


@contextmanager
def altering(path: Path) -> Iterator[sqlite3.Connection]:
    """Yield a connection that changes a store as rot does: the checksums of changed rows are not theirs."""
    connection = sqlite3.connect(path)
    try:
        connection.create_function("row_crc", -1, lambda *_: 0, deterministic=True)
        with connection:
            yield connection
    finally:
        connection.close()


@contextmanager
def in_memory() -> Iterator[Path]:
    """Yield a temporary folder, in memory if possible."""
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)


@contextmanager
def fresh() -> Iterator[Store]:
    """Yield a new store in a temporary folder, in memory if possible: one for each example of a property."""
    with in_memory() as folder, open_store(folder / "db") as store:
        yield store


def state(
    k: int, noise_bound: int | None = None, accumulators: Sequence[int] = (7,), topic: str = "t"
) -> TimelineState:
    """Return the state of a meter whose k-th window is open.

    With `noise_bound`, the window has three slots, of which only those of `accumulators` are drawn.
    """
    slots = tuple(Slot(index, value) for index, value in enumerate(accumulators))
    terms = TERMS if noise_bound is None else THIRDS
    window = OpenWindow(
        k * LENGTH_MS, terms.id, (Destination("main", topic),), "m", noise_bound, len(slots), slots
    )
    return TimelineState(k * LENGTH_MS, None, None, (k + 1) * LENGTH_MS, 0, (window,))


def opening(k: int, *meters: str, stream: str = "main", **options: Any) -> Commit:
    """Return a commit in which each meter opens its k-th window: mark, charge and state."""
    terms = TERMS if options.get("noise_bound") is None else THIRDS
    commit = Commit(stream, k * LENGTH_MS, terms={terms.id: terms})
    for meter in meters:
        commit.marks[meter] = (k + 1) * LENGTH_MS
        commit.states[meter] = state(k, **options)
    commit.charges[Charge(k * LENGTH_MS // DAY_MS * DAY_MS, TERMS.epsilon_per_w)] = Counter(meters)
    return commit


def opened(commit: Commit) -> int:
    """Return the number of windows that a commit charges."""
    return sum(windows.total() for windows in commit.charges.values())


def closing(k: int, *meters: str, stream: str = "main") -> Commit:
    """Return a commit in which each meter closes its k-th window: a record leaves, and no window is open."""
    commit = Commit(stream, (k + 1) * LENGTH_MS)
    end_ms = (k + 1) * LENGTH_MS
    for meter in meters:
        commit.states[meter] = TimelineState(end_ms, None, None, end_ms, 0, ())
        commit.outgoing.append(Outgoing(stream, f"private/{meter}", b"record %d" % k, end_ms, retain=False))
    return commit


def sending(*due_ms: int, stream: str = "main", payload: bytes = b"record") -> Commit:
    """Return a commit of outbox rows that are due at `due_ms`."""
    rows = [Outgoing(stream, "private/m", payload, time_ms, retain=False) for time_ms in due_ms]
    return Commit(stream, 0, outgoing=rows)


def persist(
    store: Store,
    commit: Commit,
    *,
    delivered: Sequence[int] = (),
    now_ms: int = 0,
    budget: Budget | None = None,
) -> None:
    """Write a commit in one transaction, as the agent does."""
    with store.transaction() as tx:
        ledger.debit_windows(tx, commit, budget)
        store.write(tx, commit)
        outbox.append_commit(tx, commit)
        outbox.mark_delivered(tx, delivered, now_ms)


def bytes_on_disk(path: Path) -> bytes:
    """Return the bytes of all files of a store."""
    return b"".join(file.read_bytes() for file in sorted(path.parent.glob(path.name + "*")))


def keep_writing(path: Path) -> NoReturn:
    """Open and close windows and the store until killed; print k once window k is on disk."""
    while True:
        with open_store(path) as store:
            snapshot = store.snapshot("main")
            next_window = snapshot.marks.get("m", 0) // LENGTH_MS
            if next_window and snapshot.states["m"].windows:  # killed between opening and closing the window
                persist(store, closing(next_window - 1, "m"))
            for k in range(next_window, next_window + 3):
                persist(store, opening(k, "m"))
                persist(store, closing(k, "m"))
                sys.stdout.write(f"{k}\n")
                sys.stdout.flush()


def crash_points(folder: Path, copies: Path, action: Callable[[], object]) -> list[Path]:
    """Run an action and return copies of a folder as kill -9 would leave it at each line of the store's code.

    A copy is made only where the folder has changed since the line before. Another process makes the copies:
    closing the files here would release this process's SQLite locks.
    """
    points: list[Path] = []
    previous_files: set[tuple[str, int, int, int]] = set()

    def look() -> None:
        """Copy the folder if it has changed."""
        nonlocal previous_files
        files = {(f.name, f.stat().st_ino, f.stat().st_size, f.stat().st_mtime_ns) for f in folder.iterdir()}
        if files != previous_files:
            previous_files = files
            points.append(copies / str(len(points)))
            subprocess.run(["cp", "-r", str(folder), str(points[-1])], check=True)
            settle(points[-1])

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        """Look at the folder at each line of the store's code."""
        if "store" not in Path(frame.f_code.co_filename).parts:
            return None
        if event == "line":
            look()
        return trace

    tracing = sys.gettrace()
    sys.settrace(trace)
    try:
        action()
    finally:
        sys.settrace(tracing)
    look()
    return points
