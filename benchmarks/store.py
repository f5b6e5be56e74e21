"""The store: the cost of a commit and of a release, its growth with history and meters, size and recovery.

`python -m benchmarks.store [--out FILE]`. The stores are on the project's disk, whose fsync time is measured.
"""

import gc
import sqlite3
import time
from contextlib import ExitStack
from functools import partial
from operator import mul
from pathlib import Path
from statistics import median

from benchmarks import crash
from benchmarks.floor import floor
from benchmarks.harness import GROWTH, ROUNDS, Result, compare, report
from benchmarks.line import BATCH, RECORD, Line, cost_s, fill, folder, open_store
from meteragent.__main__ import COLLECT_AFTER

FEW, MANY = 1_000, 1_000_000
METERS, GROWING = 20, (10, 1_000, 10_000)
ORDINARY = 100, 10_000
"""The number of meters, and the milliseconds between two readings of a meter."""
BATCHES = 10
COMMITS = 100
RECOVERY_S = 10.0


def commits(path: Path, per_commit: int) -> Result:
    """Compare our commits per second with those of plain SQLite, which writes only the records."""
    line = Line(store := open_store(path / f"each{per_commit}"), min(per_commit, METERS))
    plain = sqlite3.connect(path / f"plain{per_commit}", isolation_level=None)
    plain.execute("PRAGMA journal_mode = WAL")
    plain.execute("PRAGMA synchronous = FULL")
    plain.execute("CREATE TABLE record (id INTEGER PRIMARY KEY, payload BLOB)")
    line.feed(line.messages(2 * per_commit))
    rates = []
    for _ in range(ROUNDS):
        batches = [line.messages(per_commit) for _ in range(COMMITS)]
        start_s = time.perf_counter()
        for _ in range(COMMITS):
            plain.execute("BEGIN")
            plain.executemany("INSERT INTO record (payload) VALUES (?)", [(RECORD % 0,)] * per_commit)
            plain.execute("COMMIT")
        theirs = COMMITS / (time.perf_counter() - start_s)
        _, ours_s = cost_s(line, batches)
        rates.append((1 / (ours_s * per_commit), theirs))
    plain.close()
    store.close()
    releases = "one release" if per_commit == 1 else f"{per_commit} releases"
    per_s = per_commit * median(ours for ours, _ in rates)
    text = f"{{:,.0f}} and {{:,.0f}} a second, fsynced; {per_s:,.0f} releases a second"
    name = f"commits a second, {releases} each"
    return compare(name, "SQLite writing the records", rates, text, are_rates=True)


def growth(
    name: str, small: Line, large: Line, note: str, per_commit: int = BATCH, goal: float = 1.0
) -> Result:
    """Compare the cost of a release in the large line with its cost in the small line.

    The small line makes commits of `per_commit` releases, the large line commits of `BATCH` releases. The
    ratio is `GROWTH` times the small line's CPU time, divided by the large line's.
    """
    costs_s = []
    for line in (small, large):
        line.warm()
    for _ in range(ROUNDS):
        small_cost = cost_s(small, [small.messages(per_commit) for _ in range(BATCHES * BATCH // per_commit)])
        large_cost = cost_s(large, [large.messages(BATCH) for _ in range(BATCHES)])
        costs_s.append((large_cost, small_cost))
    pairs = [(1e6 * large_s, 1e6 * small_s) for (large_s, _), (small_s, _) in costs_s]
    clock_us = 1e6 * median(clock_s for (_, clock_s), _ in costs_s)
    text = f"{{:.0f}} and {{:.0f}} us of CPU ({clock_us:.0f} us elapsed)"
    against, allow = f"{note} x {GROWTH}", partial(mul, GROWTH)
    return compare(f"CPU time per release, {name}", against, pairs, text, goal=goal, allow=allow)


def ordinary(path: Path) -> Result:
    """Compare the CPU time of an ordinary reading with that of a reading that opens a window.

    About one in 180 of the ordinary readings opens a window, too. A reading that opens a window also charges
    this window, and closes and releases the previous one.
    """
    with open_store(path / "worst") as worst_store, open_store(path / "ordinary") as usual_store:
        worst, usual = Line(worst_store, METERS), Line(usual_store, *ORDINARY)
        for line in (worst, usual):
            line.feed(line.messages(BATCH))
        costs_us = []
        for _ in range(ROUNDS):
            batches = [[line.messages(BATCH) for _ in range(BATCHES)] for line in (worst, usual)]
            worst_us, usual_us = (
                1e6 * cost_s(*side)[0] for side in zip((worst, usual), batches, strict=True)
            )
            costs_us.append((usual_us, worst_us))
    text = f"{{:.1f}} and {{:.1f}} us of CPU, {BATCH} a commit; a window of half an hour, every 10 s"
    name = "CPU time of a reading that opens no window"
    return compare(name, "one that opens, closes and releases a window", costs_us, text)


def size(path: Path) -> Result:
    """Compare the disk space per released reading with the size of its record and topic."""
    disk_bytes = sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*")) / MANY
    sent_bytes = len(RECORD) + len("private/m10/power")
    note = (
        f"{disk_bytes:.0f} bytes per reading while it is kept, with indices and ledger;"
        f" {sent_bytes} bytes sent"
    )
    return Result(
        "bytes on disk per released reading", "the bytes sent", (sent_bytes / disk_bytes,), None, note
    )


def recovery(path: Path) -> Result:
    """Measure the time to a process's first release if a killed process has left a log to replay."""
    runs = []
    for _ in range(ROUNDS):
        log_bytes = crash.kill_in_commit(path, METERS)
        runs.append((crash.recovery_s(path, METERS), log_bytes))
    duration_s, log_bytes = (median(values) for values in zip(*runs, strict=True))
    note = (
        f"{duration_s:.2f} s from its start to its first release; {log_bytes / 1000:,.0f} kB of log to replay"
    )
    ratios = tuple(RECOVERY_S / s for s, _ in runs)
    return Result(f"recovery after kill -9, {MANY:,} releases", f"{RECOVERY_S:.0f} s", ratios, 1.0, note)


def main() -> None:
    """Run the benchmark, and print its results."""
    gc.set_threshold(COLLECT_AFTER)  # as the agent does
    results = []
    with folder() as path:
        results += [commits(path, count) for count in (1, BATCH)]
        results.append(ordinary(path))
        with ExitStack() as stack:
            stores = {}
            for name, releases, waiting in (
                ("few", FEW, False),
                ("many", MANY, False),
                ("short", FEW, True),
                ("deep", MANY, True),
            ):
                stores[name] = stack.enter_context(open_store(path / name))
                fill(stores[name], releases, METERS, are_waiting=waiting)
            results.append(size(path / "many"))
            lines = {
                name: Line(store, METERS, has_backlog=name in ("short", "deep"))
                for name, store in stores.items()
            }
            results.append(growth("10^6 past releases", lines["few"], lines["many"], "10^3 past releases"))
            results.append(growth("10^6 waiting records", lines["short"], lines["deep"], "10^3 waiting"))
        results.append(recovery(path / "many"))
    with ExitStack() as stack:
        path = stack.enter_context(folder())
        ten, thousand, ten_thousand = (
            Line(stack.enter_context(open_store(path / f"{meters}")), meters) for meters in GROWING
        )
        results.append(growth("10,000 meters", thousand, ten_thousand, "1,000 meters"))
        # Not 1: with a row for each meter, SQLite alone takes 12.2 us a release, and 6.3 us for 10 meters.
        results.append(growth("10,000 meters", ten, ten_thousand, "10 meters", goal=0.8))
        results.append(
            growth(
                "10,000 meters", ten, ten_thousand, "10 meters, one window of each per commit", per_commit=10
            )
        )
        results.append(floor(path, GROWING[0], GROWING[-1]))
    report(results, ["numpy"], {"sqlite": sqlite3.sqlite_version})


if __name__ == "__main__":
    main()
