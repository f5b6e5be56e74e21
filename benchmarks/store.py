"""The store: what a commit and a release cost, now and after a million.

`python -m benchmarks.store [--out FILE]`. On the disk that the project is on: an fsync is that disk's.
"""

import shutil
import sqlite3
import time
from contextlib import ExitStack
from pathlib import Path

from benchmarks.harness import ROUNDS, Result, report
from benchmarks.line import BATCH, CHANNEL, RECORD, Line, cost_s, fill, folder, open_store
from meteragent.store import Store

FEW, MANY = 1_000, 1_000_000
METERS, GROWING = 20, (10, 1_000, 10_000)
BATCHES = 10
COMMITS = 100
GROWTH, RECOVERY_S = 1.1, 10.0


def commits(where: Path) -> Result:
    """Commits of one release each, beside plain SQLite that writes the record alone."""
    line = Line(store := open_store(where / "one"), 1)
    plain = sqlite3.connect(where / "plain", isolation_level=None)
    plain.execute("PRAGMA journal_mode = WAL")
    plain.execute("PRAGMA synchronous = FULL")
    plain.execute("CREATE TABLE record (id INTEGER PRIMARY KEY, payload BLOB)")
    line.feed(line.messages(10))
    ratios, note = [], ""
    for _ in range(ROUNDS):
        batches = [line.messages(1) for _ in range(COMMITS)]
        began_s = time.perf_counter()
        for _ in range(COMMITS):
            plain.execute("INSERT INTO record (payload) VALUES (?)", (RECORD % 0,))
        theirs = (time.perf_counter() - began_s) / COMMITS
        _, ours = cost_s(line, batches)
        ratios.append(theirs / ours)
        note = f"{1 / ours:,.0f} and {1 / theirs:,.0f} a second, fsynced"
    plain.close()
    store.close()
    return Result("commits, one release each", "SQLite writing the record", tuple(ratios), None, note)


def growth(name: str, few: Line, many: Line, note: str) -> Result:
    """What a release costs with little behind it against what it costs with much."""
    ratios, text = [], ""
    for line in (few, many):
        line.feed(line.messages(max(2 * line.meters, BATCH)))
    for _ in range(ROUNDS):
        batches = [[line.messages(BATCH) for _ in range(BATCHES)] for line in (few, many)]
        (little, _), (much, much_clock) = cost_s(few, batches[0]), cost_s(many, batches[1])
        ratios.append(GROWTH * little / much)
        text = f"{little * 1e6:.0f} and {much * 1e6:.0f} us of CPU ({much_clock * 1e6:.0f} us of the clock)"
    return Result(f"CPU a release, {name}", f"{note} x {GROWTH}", tuple(ratios), 1.0, text)


def size(many: Path) -> Result:
    """What a released reading takes on disk, beside the bytes that left."""
    bytes_each = many.stat().st_size / MANY
    left = len(RECORD) + len("private/m10/power")
    note = f"{bytes_each:.0f} bytes a reading, with indices and ledger"
    return Result("bytes on disk a released reading", "the bytes that left", (left / bytes_each,), None, note)


def recovery(crashed: Path) -> Result:
    """How long until a store is open again that nobody closed."""
    ratios, took_s = [], 0.0
    for _ in range(ROUNDS):
        began_s = time.perf_counter()
        store = open_store(crashed)
        store.snapshot(CHANNEL)
        took_s = time.perf_counter() - began_s
        ratios.append(RECOVERY_S / took_s)
        _leave(store)
    return Result(f"open after a crash, {MANY:,} releases", "10 s", tuple(ratios), None, f"{took_s:.1f} s")


def _leave(store: Store) -> None:
    """Let go of a store as a crash does: no new generation, nothing cleaned up."""
    store._failed = True  # noqa: SLF001 -- then it closes its files and writes nothing
    store.close()


def copy(path: Path, folder: Path) -> Path:
    """The files of a store in use, elsewhere: what a crash leaves."""
    folder.mkdir()
    for found in path.parent.glob(f"{path.name}*"):
        shutil.copy(found, folder / found.name)
    return folder / path.name


def main() -> None:
    """Measures everything here."""
    with ExitStack() as stack:
        where = stack.enter_context(folder())
        results = [commits(where)]
        stores = {}
        for name, releases, waiting in (
            ("few", FEW, False),
            ("many", MANY, False),
            ("short", FEW, True),
            ("deep", MANY, True),
        ):
            stores[name] = stack.enter_context(open_store(where / name))
            fill(stores[name], releases, METERS, waiting=waiting)
        results.append(size(where / "many"))
        lines = {name: Line(store, METERS, name in ("short", "deep")) for name, store in stores.items()}
        results.append(growth("10^6 past releases", lines["few"], lines["many"], "10^3 past releases"))
        results.append(growth("10^6 waiting to leave", lines["short"], lines["deep"], "10^3 waiting"))
        results.append(recovery(copy(where / "many", where / "crashed")))
    with ExitStack() as stack:
        where = stack.enter_context(folder())
        ten, thousand, most = (
            Line(stack.enter_context(open_store(where / f"{meters}")), meters) for meters in GROWING
        )
        results.append(growth("10,000 meters", thousand, most, "1,000 meters"))
        results.append(growth("10,000 meters", ten, most, "10 meters"))
    report(results, ["numpy"], {"sqlite": sqlite3.sqlite_version})


if __name__ == "__main__":
    main()
