"""What the tests of store, ledger and outbox share: terms, states, commits, and ends at any moment."""

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

from meteragent.domain.budget import Budget
from meteragent.domain.commit import Charge, Commit, OpenWindow, Outgoing, Slot, TimelineState
from meteragent.domain.terms import Clock, Terms
from meteragent.domain.units import Kind
from meteragent.store import Store, ledger, outbox
from meteragent.wire.record import RecordFormat
from simulators.simtest.disk import settle

LENGTH_MS = 1_800_000
DAY_MS = 86_400_000
TERMS = Terms(
    kind=Kind.POWER,
    unit="W",
    clock=Clock.WALL,
    length_ms=LENGTH_MS,
    step_ms=LENGTH_MS,
    lateness_ms=0,
    level=Fraction(1),
    radius=Fraction(220),
    quantum_u=1_000_000,
    hold_ms=900_000,
    interval_ms=900_000,
    gap_u=0,
    low_u=0,
    high_u=20_000_000_000,
)
THIRDS = replace(TERMS, step_ms=LENGTH_MS // 3)


def with_mechanism(records: RecordFormat, mechanism: object) -> RecordFormat:
    """The same format of records, with another mechanism in place of that of its terms."""
    terms = replace(records.terms)
    terms.__dict__.update(mechanism=mechanism, sd=records.terms.sd)  # what it has worked out
    return records._replace(descriptor=records.descriptor._replace(terms=terms))


def open_store(path: Path, now_ms: int = 0, floor_ms: int | None = 0) -> Store:
    """The store as most tests open it."""
    return Store.open(path, now_ms=now_ms, recovery_floor_ms=floor_ms, again_s=0)


@contextmanager
def in_memory() -> Iterator[Path]:
    """A folder for a while, in memory where it can be."""
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)


@contextmanager
def fresh() -> Iterator[Store]:
    """A new store in a folder of its own, in memory where it can be: one per example of a property."""
    with in_memory() as folder, open_store(folder / "db") as store:
        yield store


def state(
    k: int, noise_bound: int | None = None, accumulators: Sequence[int] = (7,), topic: str = "t"
) -> TimelineState:
    """A meter whose k-th window is open; with a `noise_bound`, one of three slots, not all of them drawn."""
    slots = tuple(Slot(index, value) for index, value in enumerate(accumulators))
    terms = TERMS if noise_bound is None else THIRDS
    window = OpenWindow(k * LENGTH_MS, terms.id, topic, "m", noise_bound, len(slots), slots)
    return TimelineState(k * LENGTH_MS, None, None, (k + 1) * LENGTH_MS, 0, (window,))


def opening(k: int, *meters: str, stream: str = "main", **how: Any) -> Commit:
    """Each meter opens its k-th window: mark, charge and state."""
    terms = TERMS if how.get("noise_bound") is None else THIRDS
    commit = Commit(stream, k * LENGTH_MS, terms={terms.id: terms})
    for meter in meters:
        commit.marks[meter] = (k + 1) * LENGTH_MS
        commit.states[meter] = state(k, **how)
    commit.charges[Charge(k * LENGTH_MS // DAY_MS * DAY_MS, TERMS.epsilon_per_w)] = Counter(meters)
    return commit


def opened(commit: Commit) -> int:
    """How many windows a commit charges."""
    return sum(windows.total() for windows in commit.charges.values())


def closing(k: int, *meters: str, stream: str = "main") -> Commit:
    """Each meter closes its k-th window: a record leaves, no window is open."""
    commit = Commit(stream, (k + 1) * LENGTH_MS)
    end_ms = (k + 1) * LENGTH_MS
    for meter in meters:
        commit.states[meter] = TimelineState(end_ms, None, None, end_ms, 0, ())
        commit.outgoing.append(Outgoing(f"private/{meter}", b"record %d" % k, end_ms, retain=False))
    return commit


def sending(*due_ms: int, stream: str = "main", payload: bytes = b"record") -> Commit:
    """Rows that fall due."""
    rows = [Outgoing("private/m", payload, due, retain=False) for due in due_ms]
    return Commit(stream, 0, outgoing=rows)


def persist(
    store: Store,
    commit: Commit,
    *,
    delivered: Sequence[int] = (),
    now_ms: int = 0,
    budget: Budget | None = None,
) -> None:
    """All that the agent does in one transaction."""
    with store.transaction() as tx:
        ledger.charge(tx, commit, budget)
        store.write(tx, commit)
        outbox.append(tx, commit)
        outbox.mark_delivered(tx, delivered, now_ms)


def bytes_on_disk(path: Path) -> bytes:
    """Everything in the store's files."""
    return b"".join(file.read_bytes() for file in sorted(path.parent.glob(path.name + "*")))


def keep_writing(path: Path) -> NoReturn:
    """A program to kill: windows open and close, the store too; it says k when window k is on disk."""
    while True:
        with open_store(path) as store:
            known = store.snapshot("main")
            first = known.marks.get("m", 0) // LENGTH_MS
            if first and known.states["m"].windows:  # killed between opening and closing it
                persist(store, closing(first - 1, "m"))
            for k in range(first, first + 3):
                persist(store, opening(k, "m"))
                persist(store, closing(k, "m"))
                sys.stdout.write(f"{k}\n")
                sys.stdout.flush()


def crash_points(folder: Path, copies: Path, action: Callable[[], object]) -> list[Path]:
    """Copies of a folder as kill -9 would leave it at each line of the store that an action runs.

    Only where the folder differs from that of one line before. Another process makes the copies:
    SQLite's locks of this one would be lost.
    """
    found: list[Path] = []
    before: set[tuple[str, int, int, int]] = set()

    def look() -> None:
        nonlocal before
        now = {(f.name, f.stat().st_ino, f.stat().st_size, f.stat().st_mtime_ns) for f in folder.iterdir()}
        if now != before:
            before = now
            found.append(copies / str(len(found)))
            subprocess.run(["cp", "-r", str(folder), str(found[-1])], check=True)
            settle(found[-1])

    def trace(frame: FrameType, event: str, _: Any) -> Any:
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
    return found
