"""The store: what a commit and a release cost, now and after a million.

`python -m benchmarks.store [--out FILE]`. On the disk that the project is on: an fsync is that disk's.
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
from benchmarks.harness import GROWTH, ROUNDS, Result, compared, report
from benchmarks.line import BATCH, RECORD, Line, cost_s, fill, folder, open_store
from meteragent.cli.run import COLLECT_AFTER

FEW, MANY = 1_000, 1_000_000
METERS, GROWING = 20, (10, 1_000, 10_000)
ORDINARY = 100, 10_000
"""Meters, and milliseconds between two readings of one."""
BATCHES = 10
COMMITS = 100
RECOVERY_S = 10.0


def commits(where: Path, each: int) -> Result:
    """Commits a second of so many releases each, beside plain SQLite that writes the records alone."""
    line = Line(store := open_store(where / f"each{each}"), min(each, METERS))
    plain = sqlite3.connect(where / f"plain{each}", isolation_level=None)
    plain.execute("PRAGMA journal_mode = WAL")
    plain.execute("PRAGMA synchronous = FULL")
    plain.execute("CREATE TABLE record (id INTEGER PRIMARY KEY, payload BLOB)")
    line.feed(line.messages(2 * each))
    rates = []
    for _ in range(ROUNDS):
        batches = [line.messages(each) for _ in range(COMMITS)]
        began_s = time.perf_counter()
        for _ in range(COMMITS):
            plain.execute("BEGIN")
            plain.executemany("INSERT INTO record (payload) VALUES (?)", [(RECORD % 0,)] * each)
            plain.execute("COMMIT")
        theirs = COMMITS / (time.perf_counter() - began_s)
        _, ours_s = cost_s(line, batches)
        rates.append((1 / (ours_s * each), theirs))
    plain.close()
    store.close()
    releases = "one release" if each == 1 else f"{each} releases"
    per_s = each * median(ours for ours, _ in rates)
    text = f"{{:,.0f}} and {{:,.0f}} a second, fsynced; {per_s:,.0f} releases a second"
    name = f"commits a second, {releases} each"
    return compared(name, "SQLite writing the records", rates, text, more=True)


def growth(name: str, few: Line, many: Line, note: str, each: int = BATCH) -> Result:
    """What a release costs with little behind it, so many in a commit, against what it costs with much."""
    seen = []
    for line in (few, many):
        line.warm()
    for _ in range(ROUNDS):
        little = cost_s(few, [few.messages(each) for _ in range(BATCHES * BATCH // each)])
        much = cost_s(many, [many.messages(BATCH) for _ in range(BATCHES)])
        seen.append((much, little))
    pairs = [(1e6 * much_s, 1e6 * little_s) for (much_s, _), (little_s, _) in seen]
    clock_us = 1e6 * median(clock_s for (_, clock_s), _ in seen)
    text = f"{{:.0f}} and {{:.0f}} us of CPU ({clock_us:.0f} us of the clock)"
    against, allow = f"{note} x {GROWTH}", partial(mul, GROWTH)
    return compared(f"CPU a release, {name}", against, pairs, text, goal=1.0, allow=allow)


def ordinary(where: Path) -> Result:
    """A reading of windows that are open, beside one that opens, charges, closes and leaves a release."""
    with open_store(where / "worst") as first, open_store(where / "ordinary") as second:
        worst, usual = Line(first, METERS), Line(second, *ORDINARY)
        for line in (worst, usual):
            line.feed(line.messages(BATCH))
        seen = []
        for _ in range(ROUNDS):
            batches = [[line.messages(BATCH) for _ in range(BATCHES)] for line in (worst, usual)]
            most_us, least_us = (1e6 * cost_s(*one)[0] for one in zip((worst, usual), batches, strict=True))
            seen.append((least_us, most_us))
    text = f"{{:.1f}} and {{:.1f}} us of CPU, {BATCH} a commit; a window of half an hour, every 10 s"
    name = "CPU of a reading that opens nothing"
    return compared(name, "one that opens, closes and is released", seen, text)


def size(many: Path) -> Result:
    """What a released reading takes on disk, beside the bytes that left."""
    bytes_each = sum(path.stat().st_size for path in many.parent.glob(f"{many.name}*")) / MANY
    left = len(RECORD) + len("private/m10/power")
    note = f"{bytes_each:.0f} bytes a reading as long as it is kept, with indices and ledger; {left} left"
    return Result("bytes on disk a released reading", "the bytes that left", (left / bytes_each,), None, note)


def recovery(path: Path) -> Result:
    """How long until a new process has released, once the one before was killed while it committed."""
    seen = []
    for _ in range(ROUNDS):
        log_bytes = crash.killed(path, METERS)
        seen.append((crash.recovered_s(path, METERS), log_bytes))
    took_s, log_bytes = (median(some) for some in zip(*seen, strict=True))
    note = f"{took_s:.2f} s from its start to its first release; {log_bytes / 1000:,.0f} kB of log to replay"
    ratios = tuple(RECOVERY_S / one for one, _ in seen)
    return Result(f"recovery after kill -9, {MANY:,} releases", f"{RECOVERY_S:.0f} s", ratios, 1.0, note)


def main() -> None:
    """Measures everything here."""
    gc.set_threshold(COLLECT_AFTER)  # as the agent does
    results = []
    with folder() as where:
        results += [commits(where, each) for each in (1, BATCH)]
        results.append(ordinary(where))
        with ExitStack() as stack:
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
            lines = {
                name: Line(store, METERS, backlog=name in ("short", "deep")) for name, store in stores.items()
            }
            results.append(growth("10^6 past releases", lines["few"], lines["many"], "10^3 past releases"))
            results.append(growth("10^6 waiting to leave", lines["short"], lines["deep"], "10^3 waiting"))
        results.append(recovery(where / "many"))
    with ExitStack() as stack:
        where = stack.enter_context(folder())
        ten, thousand, most = (
            Line(stack.enter_context(open_store(where / f"{meters}")), meters) for meters in GROWING
        )
        results.append(growth("10,000 meters", thousand, most, "1,000 meters"))
        results.append(growth("10,000 meters", ten, most, "10 meters"))
        results.append(growth("10,000 meters", ten, most, "10 meters, a window of each a commit", each=10))
        results.append(floor(where, GROWING[0], GROWING[-1]))
    report(results, ["numpy"], {"sqlite": sqlite3.sqlite_version})


if __name__ == "__main__":
    main()
