"""A small archive over the night when the clocks go forward, in both forms and as files of a stream.

A row of the wide form is a local day in half hours, and each of its numbers a reading of the long form that
stands for half an hour: so both have the same windows, and the same releases.
"""

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from meteragent.archive import kernel, layout
from meteragent.archive.key import Key, create_ledger, ledger_folder
from meteragent.archive.policy import Policy
from tests.support import archives
from tests.support.archives import DAY_MS, LOCAL_DAY, SPRING_MS

HALF_HOUR_MS = 1_800_000
METERS = 30
DAYS = 3
WINDOW = f"{LOCAL_DAY}\nstep = '30min'"
TIME = pa.timestamp("us", tz="UTC")
TICK = "tick"
"""A meter that nobody asks about: its readings move the watermark."""


KEY = Key("test", "month", 0, hashlib.sha256(b"a key of tests").digest())


def write(path: Path, key: Key) -> None:
    """Put a key into a file."""
    path.write_text(key.text())
    path.chmod(0o600)
    create_ledger(ledger_folder(path))


class Place(NamedTuple):
    """A folder with a key, and what is released under it."""

    folder: Path
    policy: Policy

    @classmethod
    def make(cls, folder: Path) -> "Place":
        """A new folder, with the key of these tests."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "archive.key"
        write(path, KEY)
        return cls.of(folder)

    @classmethod
    def of(cls, folder: Path) -> "Place":
        """A folder that has been made."""
        path = folder / "archive.key"
        return cls(folder, archives.policy(path, source="hold = '30min'", window=WINDOW))

    @property
    def key(self) -> Key:
        """The key in the folder."""
        return Key.load(self.policy.key_file)


def starts(policy: Policy) -> list[int]:
    """Where the windows start: the day before the clocks change, and on."""
    actual = [int(policy.starts(np.array([SPRING_MS - DAY_MS]))[0])]
    while len(actual) < DAYS:
        actual.append(int(policy.ends(np.array([actual[-1]]))[0]))
    return actual


def wide(policy: Policy) -> pa.Table:
    """A row for each meter and day; some numbers are missing."""
    random = np.random.default_rng(7)
    meters, times, values = [], [], []
    for meter in range(METERS):
        for start in starts(policy):
            n = policy.schedule.terms_at(start).n
            watts = [None if random.random() < 0.05 else int(w) for w in random.integers(50, 3000, n)]
            meters.append(f"m{meter}")
            times.append(start)
            values.append(watts)
    columns = [pa.array(meters), pa.array(times, archives.TIME).cast(TIME)]
    return pa.table([*columns, pa.array(values, pa.list_(pa.int64()))], names=["meter", "time", "value"])


def long(policy: Policy) -> pa.Table:
    """The same as readings."""
    given = wide(policy)
    times = given.column("time").cast(archives.TIME).cast(pa.int64()).to_pylist()
    days = zip(given.column("meter").to_pylist(), times, given.column("value").to_pylist(), strict=True)
    rows = [(meter, start + at * HALF_HOUR_MS, w) for meter, start, day in days for at, w in enumerate(day)]
    return table(rows)


def table(rows: list[tuple[str, int, int | None]]) -> pa.Table:
    """Readings from meter, time in ms and watts."""
    meters, times, watts = zip(*rows, strict=True)
    columns = [pa.array(meters), pa.array(times, archives.TIME).cast(TIME), pa.array(watts, pa.int64())]
    return pa.table(columns, names=["meter", "time", "value"])


def plain(place: Place) -> pa.Table:
    """What the archive's own functions make of it, in order."""
    windows, _ = layout.read_wide(wide(place.policy).combine_chunks().to_batches()[0], place.policy)
    return ordered(pa.Table.from_batches([kernel.release(windows, place.policy, place.key)]))


def ordered(releases: pa.Table) -> pa.Table:
    """Releases by meter and start, in one piece, in the archive's types: equal ones have equal bytes."""
    times = {name: releases.column(name).cast(archives.TIME) for name in ("start", "end")}
    names = ("meter", "start", "end", "values", "d", "key")
    actual = pa.table({name: times.get(name, releases.column(name)) for name in names})
    return actual.sort_by([("meter", "ascending"), ("start", "ascending")]).combine_chunks()


def arrive(folder: Path, name: str, readings: pa.Table) -> None:
    """A file of readings that a stream reads, there at once, and newer than those before."""
    folder.mkdir(parents=True, exist_ok=True)
    hidden = folder / f".{name}.parquet"
    pq.write_table(readings, hidden)
    # Spark takes files by when they changed, in milliseconds: of two in one it would take either first.
    newer = 1_000_000_000 * (1 + len(list(folder.iterdir())))
    os.utime(hidden, ns=(newer, newer))
    hidden.rename(folder / f"{name}.parquet")


def arrive_by_day(folder: Path, policy: Policy, readings: pa.Table, name: str = "day") -> None:
    """Files of a day each, then one that moves the watermark past all of them."""
    times = np.array(readings.column("time").cast(pa.int64())) // 1000
    edges = [*starts(policy), int(times.max()) + 1]
    for day in range(DAYS):
        inside = (times >= edges[day]) & (times < edges[day + 1])
        arrive(folder, f"{name}-{day}", readings.filter(pa.array(inside)))
    arrive(folder, f"{name}-end", table([(TICK, edges[-1] + 7 * DAY_MS, 0)]))


@contextmanager
def quiet(what: str, total: int, unit: str) -> Iterator[Callable[[int], object]]:
    """No progress is shown."""
    yield lambda result: None
