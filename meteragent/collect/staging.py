"""A Parquet dataset as a sink: records are staged in SQLite and moved into one file per month, day or hour.

    FOLDER/record/stream=NAME/day=2026-11-20/records.parquet      the records: readers open FOLDER/record
    FOLDER/descriptor.parquet                                     the terms of each stream
    FOLDER/collect.db                                             staged rows, waiting records, refusals

Theory of operation
-------------------
A batch is committed to `collect.db` in one transaction; its rows are then durable, and its messages may be
acknowledged. Every `delay`, `flush` takes the staged rows part by part; a part is one month, day or hour of a
stream. It merges the rows with the part's file, writes a new file, flushes it to disk, renames it into place,
and only then deletes the staged rows. A merge
keeps the first value of a key, so if the process is killed before the deletion, the next flush finds the rows
in the file and changes nothing.

A flush takes at most MOVED_MAX rows at a time, in the order of their arrival, so that its memory use does not
grow with the length of an outage. The result is the same as that of separate flushes of these slices.

Rows are compared with the files and with each other when they are moved, in the order of their arrival. A
refusal for `twice` or `overlap` is therefore counted only by the next flush.

A process locks the folder, so that only one process at a time uses a dataset. The folder must be on a file
system of this machine.
"""

import fcntl
import itertools
import os
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, get_type_hints

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from meteragent import __version__
from meteragent.collect import core, dataset_file
from meteragent.collect.dataset_file import Length, Part, Terms
from meteragent.collect.outcome import (
    DATA_FAULTS,
    SLICE_MAX,
    Content,
    Outcome,
    announced_terms,
    cache_terms,
    expiry_outcome,
    unparsed_digests,
    without_overlaps,
)
from meteragent.domain.errors import DatabaseError
from meteragent.domain.grid import iso_time
from meteragent.domain.units import HOUR_MS
from meteragent.store.generation import sync_folder

MOVED_MAX: Final = 50_000
"""The largest number of staged rows that are moved at once."""
_REFUSALS_MAX: Final = 1_000
"""The largest number of refusals that flushes keep for the log."""
_VERSION = 1
_TYPES: Final[dict[Any, tuple[str, pa.DataType]]] = {
    str: ("TEXT NOT NULL", pa.string()),
    bool: ("INTEGER NOT NULL", pa.bool_()),
    int: ("INTEGER NOT NULL", pa.int64()),
    int | None: ("INTEGER", pa.int64()),
    float: ("REAL NOT NULL", pa.float64()),
}
"""The types of columns in SQLite and in files, by the types of the fields of `Row` and `Numbers`."""


def _declare(kind: type) -> str:
    """Return the declarations of a row's columns."""
    return ", ".join(f"{name} {_TYPES[hint][0]}" for name, hint in get_type_hints(kind).items())


_ROW: Final = ", ".join(core.Row._fields)
_UNIQUE: Final = ", ".join(sorted(core.Row._fields, key=lambda name: name not in ("stream", "time_ms")))
"""The columns of a row, beginning with those by which the rows of a part are found."""
_TABLES = f"""
CREATE TABLE setting (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE descriptor (
    d TEXT PRIMARY KEY, id TEXT NOT NULL, facts TEXT NOT NULL, {_declare(core.Numbers)}
) STRICT;
CREATE TABLE terms (
    stream TEXT, meter TEXT, d TEXT, longest_ms INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (stream, meter, d)
) STRICT;
CREATE TABLE mixed (stream TEXT, meter TEXT, PRIMARY KEY (stream, meter)) STRICT;
CREATE TABLE staged (
    {_declare(core.Row)}, place INTEGER PRIMARY KEY AUTOINCREMENT, deliveries INTEGER NOT NULL DEFAULT 1,
    UNIQUE ({_UNIQUE})
) STRICT;
CREATE TABLE quarantine ({_declare(core.Row)}, deliveries INTEGER NOT NULL) STRICT;
CREATE TABLE waiting (
    place INTEGER PRIMARY KEY AUTOINCREMENT, d TEXT NOT NULL, stream TEXT NOT NULL, meter TEXT NOT NULL,
    topic TEXT NOT NULL, payload BLOB NOT NULL,
    received INTEGER NOT NULL DEFAULT (CAST(strftime('%s', 'now') AS INTEGER)), UNIQUE (d, topic, payload)
) STRICT;
CREATE INDEX waiting_for ON waiting (stream, meter, d);
CREATE TABLE refused (
    stream TEXT, reason TEXT, count INTEGER NOT NULL, latest TEXT NOT NULL, origin TEXT NOT NULL,
    detail TEXT NOT NULL, PRIMARY KEY (stream, reason)
) STRICT;
CREATE TABLE collector (
    name TEXT PRIMARY KEY, version TEXT NOT NULL, latest TEXT, messages INTEGER NOT NULL DEFAULT 0,
    written INTEGER NOT NULL DEFAULT 0, repeated INTEGER NOT NULL DEFAULT 0
) STRICT;
"""
_REFUSE = """
INSERT INTO refused (stream, reason, count, latest, origin, detail) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (stream, reason) DO UPDATE SET count = count + excluded.count, latest = excluded.latest,
    origin = excluded.origin, detail = excluded.detail
"""
_COUNT = """
UPDATE collector SET latest = ?, messages = messages + ?, written = written + ?, repeated = repeated + ?
WHERE name = ?
"""
_STAGE = f"""
INSERT INTO staged ({_ROW}) VALUES (?{", ?" * (len(core.Row._fields) - 1)})
ON CONFLICT DO UPDATE SET deliveries = deliveries + 1
"""  # noqa: S608 -- constants
_OF_PART = "FROM staged WHERE stream = ? AND time_ms >= ? AND time_ms < ? AND place <= ?"
_STAGED = f"SELECT {_ROW}, deliveries {_OF_PART} ORDER BY place"
_SLICE = f"SELECT place, {_ROW}, deliveries FROM staged WHERE place <= ?"  # noqa: S608 -- constants
_QUARANTINE = f"INSERT INTO quarantine SELECT {_ROW}, deliveries FROM staged WHERE place = ?"  # noqa: S608 -- constants
_DELETE = f"DELETE {_OF_PART}"
_DESCRIBE = f"INSERT OR IGNORE INTO descriptor VALUES (?, ?, ?{', ?' * len(core.Numbers._fields)})"  # noqa: S608 -- constants
_WAITING = """
SELECT d, stream, meter, topic, payload, place FROM waiting WHERE stream = ? AND meter = ? AND d = ?
"""
_EXPIRED = """
SELECT stream, count(*), max(topic) FROM waiting WHERE received < strftime('%s', 'now') - ? GROUP BY stream
"""
_EXPIRE = "DELETE FROM waiting WHERE received < strftime('%s', 'now') - ?"
_TERMS = f"SELECT d, {', '.join(Terms._fields)} FROM descriptor WHERE d IN (SELECT d FROM staged)"  # noqa: S608 -- constants
_DESCRIPTORS = f"""
SELECT stream, d, id, facts, {", ".join(core.Numbers._fields)}
FROM (SELECT DISTINCT stream, d FROM terms) JOIN descriptor USING (d) ORDER BY stream, d
"""  # noqa: S608 -- constants
_LAST = "SELECT max(place) FROM (SELECT place FROM staged ORDER BY place LIMIT ?)"
_LONGEST = """
SELECT meter, max(longest_ms) FROM terms JOIN mixed USING (stream, meter) WHERE stream = ? GROUP BY meter
"""
_HOURS = "SELECT DISTINCT stream, time_ms - time_ms % ? FROM staged WHERE place <= ?"
_STREAM = f"SELECT {_ROW} FROM staged WHERE stream = ? AND place <= ? ORDER BY place"  # noqa: S608 -- constants
_DESCRIPTOR_SCHEMA = pa.schema(
    [(name, pa.string()) for name in ("stream", "d", "id", "facts")]
    + [(name, _TYPES[hint][1]) for name, hint in get_type_hints(core.Numbers).items()]
)


class Staging:
    """The staging area and the files of a dataset. All methods block the calling thread."""

    def __init__(self, folder: Path, name: str, length: Length) -> None:
        """Create a folder and its staging area if necessary; lock the folder, and open the area."""
        self._folder, self._name, self._length = folder, name, length
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "record").mkdir(exist_ok=True)
        self._lock = os.open(folder, os.O_RDONLY)
        try:
            _lock_folder(self._lock, folder)
            self._database = sqlite3.connect(
                folder / "collect.db", isolation_level=None, check_same_thread=False
            )
        except BaseException:
            os.close(self._lock)
            raise
        self._descriptor_count: int | None = None
        """The number of rows in `descriptor.parquet`; None until this process has written the file."""
        self._outcome = Outcome(0, 0, Counter())
        """The outcome of the flushes since the last batch."""
        self._latest = ""
        """The time of the last batch in ISO 8601; empty before the first batch."""
        self.staged = 0
        """An upper bound on the number of rows that are not in files yet, including repeated rows."""

    def close(self) -> None:
        """Close the staging area, and release the lock."""
        self._database.close()
        os.close(self._lock)

    def create_tables(self) -> bool:
        """Create the tables unless they exist, and return whether they were created. Raises DatabaseError."""
        self._database.execute("PRAGMA journal_mode = WAL").fetchone()
        self._database.execute("PRAGMA synchronous = FULL")
        [(version,)] = self._fetch("PRAGMA user_version")
        if version not in (0, _VERSION):
            raise DatabaseError(f"{self._folder}: belongs to another version of meteragent")
        if version == 0:
            with self._transaction():
                for statement in filter(str.strip, _TABLES.split(";\n")):
                    self._database.execute(statement)
                query = "INSERT INTO setting VALUES ('partition', ?)"
                self._database.execute(query, (self._length,))
                self._database.execute(f"PRAGMA user_version = {_VERSION}")
            sync_folder(self._folder)
            sync_folder(self._folder.parent)
        [(length,)] = self._fetch("SELECT value FROM setting WHERE name = 'partition'")
        if length != self._length:
            raise DatabaseError(
                f"the dataset was created with dataset.partition = '{length}': set this value again"
            )
        return bool(version == 0)

    def begin_service(self, *, is_first: bool) -> Content:
        """Return the dataset's content. If `is_first`, reset the collector's counts to 0."""
        if is_first:
            with self._transaction():
                self._database.execute(
                    "INSERT OR REPLACE INTO collector (name, version) VALUES (?, ?)",
                    (self._name, __version__),
                )
        [(self.staged,)] = self._fetch("SELECT count(*) FROM staged")
        digests = [d for (d,) in self._fetch("SELECT d FROM descriptor")]
        for unread_digests in unparsed_digests(digests):
            cache_terms(
                row
                for d in unread_digests
                for row in self._fetch("SELECT d, facts FROM descriptor WHERE d = ?", d)
            )
        waiting = self._fetch("SELECT stream, meter, count(*) FROM waiting GROUP BY stream, meter")
        return Content(
            announced_terms(digests),
            [core.Link(*row) for row in self._fetch("SELECT stream, meter, d FROM terms")],
            {(stream, meter): count for stream, meter, count in waiting},
        )

    def expire_waiting(self, wait_ms: int) -> Outcome:
        """Refuse the records that have waited for longer than `wait_ms`."""
        with self._transaction():
            outcome = expiry_outcome(self._fetch(_EXPIRED, wait_ms // 1000))
            self._database.execute(_EXPIRE, (wait_ms // 1000,))
            self._count(outcome, 0)
        return outcome

    def waiting_records(self, keys: Iterable[core.Key]) -> list[core.Waiting]:
        """Return at most SLICE_MAX records that wait for one of the given descriptors."""
        rows = itertools.chain.from_iterable(self._database.execute(_WAITING, key) for key in keys)
        records = [core.Waiting(*row) for row in itertools.islice(rows, SLICE_MAX)]
        return sorted(records, key=lambda record: record.place)

    def write_batch(self, batch: core.Batch, messages: int, now_ms: int) -> Outcome:
        """Commit a batch, and return its refusals and the outcome of the flushes since the last batch."""
        self._latest = iso_time(now_ms)
        with self._transaction():
            self._database.executemany("INSERT OR IGNORE INTO mixed VALUES (?, ?)", sorted(batch.mixed))
            self._write_facts(batch)
            self._stage_rows(batch.rows)
            self._count(Outcome(0, 0, batch.refusal_counts, batch.refusals), messages)
        self.staged += len(batch.rows)
        flushed, self._outcome = self._outcome, Outcome(0, 0, Counter())
        refusals = [*flushed.refusals, *batch.refusals]
        counts = flushed.refusal_counts + batch.refusal_counts
        return flushed._replace(refusal_counts=counts, refusals=refusals)

    def flush(self) -> None:
        """Move all staged rows into files, in slices of at most MOVED_MAX rows."""
        terms = {d: Terms(*numbers) for d, *numbers in self._fetch(_TERMS)}
        while (last := self._fetch(_LAST, MOVED_MAX)[0][0]) is not None:
            self._write_descriptors()
            try:
                hours = self._fetch(_HOURS, HOUR_MS, last)
                parts = sorted({dataset_file.part_of(stream, ms, self._length) for stream, ms in hours})
                overlaps = self._overlapping_rows(parts, terms, last)
                for part in parts:
                    self._move_rows(part, terms, overlaps, last)
            except DATA_FAULTS:
                if not self._set_aside(terms, last):
                    raise
        self.staged = 0

    def _set_aside(self, terms: dict[str, Terms], last: int) -> bool:
        """Move the staged rows that no file can hold to `quarantine`; return whether there were any."""
        staged = [(place, core.Row(*values), count) for place, *values, count in self._fetch(_SLICE, last)]
        unfit = [item for item in staged if not _fits_file(item[1], terms, self._length)]
        refusal_counts = Counter[tuple[str, str]]()
        for _, row, count in unfit:
            refusal_counts[row.stream, "unstorable"] += count
        outcome = Outcome(
            0, 0, refusal_counts, [core.Refusal(row.stream, "unstorable", row.meter) for _, row, _ in unfit]
        )
        places = [(place,) for place, _, _ in unfit]
        with self._transaction():
            self._database.executemany(_QUARANTINE, places)
            self._database.executemany("DELETE FROM staged WHERE place = ?", places)
            self._count(outcome, 0)
        self._outcome = _add_outcomes(self._outcome, outcome)
        return bool(places)

    def _move_rows(self, part: Part, terms: dict[str, Terms], overlaps: set[core.Row], last: int) -> None:
        """Move a part's staged rows into its file, except that the rows in `overlaps` are refused."""
        limits = part.stream, part.start_ms, part.end_ms, last
        staged = [(core.Row(*values), count) for *values, count in self._fetch(_STAGED, *limits)]
        rows = [(row, count) for row, count in staged if row not in overlaps]
        path = self._folder / "record" / part.path
        table = dataset_file.table_of([row for row, _ in rows], terms)
        counts = np.array([count for _, count in rows], np.int64)
        merged = dataset_file.merge_rows(dataset_file.read_file(path), table, counts)
        if merged.new:
            dataset_file.write_table(path, self._folder, merged.table)
        refusal_counts = Counter({(part.stream, "twice"): merged.different})
        refusal_counts[part.stream, "overlap"] = sum(count for row, count in staged if row in overlaps)
        refusals = [core.Refusal(part.stream, "overlap", row.meter) for row, _ in staged if row in overlaps]
        if merged.different:
            refusals.append(core.Refusal(part.stream, "twice", merged.meter))
        outcome = Outcome(merged.new, merged.repeated, +refusal_counts, refusals)
        with self._transaction():
            self._database.execute(_DELETE, limits)
            self._count(outcome, 0)
        self._outcome = _add_outcomes(self._outcome, outcome)

    def _overlapping_rows(self, parts: Sequence[Part], terms: dict[str, Terms], last: int) -> set[core.Row]:
        """Return the staged rows of mixed meters that overlap a slot in files or an earlier accepted row."""
        mixed = set(self._fetch("SELECT stream, meter FROM mixed"))
        overlaps: set[core.Row] = set()
        for part in parts:
            limits = part.stream, part.start_ms, part.end_ms, last
            staged = [core.Row(*values) for *values, _ in self._fetch(_STAGED, *limits)] if mixed else []
            if rows := [row for row in staged if (row.stream, row.meter) in mixed]:
                flags = dataset_file.overlap_flags(
                    self._slots_around(part, rows), dataset_file.table_of(rows, terms)
                )
                overlaps.update(row for row, flag in zip(rows, flags.tolist(), strict=True) if flag)
        for stream in {stream for stream, _ in mixed} & {part.stream for part in parts}:
            rows = [core.Row(*values) for values in self._fetch(_STREAM, stream, last)]
            rows = [row for row in rows if row not in overlaps]
            overlaps |= set(rows) - {row for _, row in without_overlaps(enumerate(rows), mixed)}
        return overlaps

    def _slots_around(self, part: Part, rows: Sequence[core.Row]) -> pa.Table:
        """Return the slots in files that may overlap rows of a part; other meters' slots are not read."""
        meters_by_span = _meters_by_span(rows, dict(self._fetch(_LONGEST, part.stream)), self._length)
        start_ms, end_ms = min(start for start, _ in meters_by_span), max(end for _, end in meters_by_span)
        tables = [dataset_file.SCHEMA.empty_table()]
        for file in dataset_file.parts_between(part.stream, start_ms, end_ms, self._length):
            spans = [span for span in meters_by_span if span[0] <= file.start_ms and file.end_ms <= span[1]]
            if meters := set[str]().union(*(meters_by_span[span] for span in spans)):
                tables.append(dataset_file.read_file(self._folder / "record" / file.path, meters))
        return pa.concat_tables(tables)

    def _write_facts(self, batch: core.Batch) -> None:
        """Write everything in a batch except its rows and refusals."""
        execute = self._database.executemany
        facts = [
            (digest, descriptor.id, descriptor.hashed_text, *core.numbers_of(descriptor))
            for digest, descriptor in batch.descriptors.items()
        ]
        execute(_DESCRIBE, facts)
        execute("INSERT OR IGNORE INTO terms (stream, meter, d) VALUES (?, ?, ?)", sorted(batch.links))
        query = "INSERT OR IGNORE INTO waiting (d, stream, meter, topic, payload) VALUES (?, ?, ?, ?, ?)"
        execute(query, [record[:5] for record in batch.waiting])
        execute("DELETE FROM waiting WHERE place = ?", [(place,) for place in batch.released_places])

    def _stage_rows(self, rows: Sequence[core.Row]) -> None:
        """Stage rows. Equal rows are staged once, with the number of their deliveries."""
        self._database.executemany(_STAGE, rows)
        longest_ms: dict[tuple[str, str, str], int] = {}
        for row in rows:
            key = row.stream, row.meter, row.d
            longest_ms[key] = max(longest_ms.get(key, 0), row.until_ms - row.time_ms)
        query = "UPDATE terms SET longest_ms = max(longest_ms, ?) WHERE stream = ? AND meter = ? AND d = ?"
        self._database.executemany(query, [(length_ms, *key) for key, length_ms in longest_ms.items()])

    def _count(self, outcome: Outcome, messages: int) -> None:
        origins, refused = core.last_refusals(outcome.refusals), sorted(outcome.refusal_counts.items())
        counts = [(*key, count, self._latest, *origins[key][2:]) for key, count in refused]
        self._database.executemany(_REFUSE, counts)
        self._database.execute(
            _COUNT, (self._latest or None, messages, outcome.written, outcome.repeated, self._name)
        )

    def _write_descriptors(self) -> None:
        """Write `descriptor.parquet`, unless this process has already written all descriptors."""
        [(count,)] = self._fetch("SELECT count(*) FROM (SELECT DISTINCT stream, d FROM terms)")
        if count == self._descriptor_count:
            return
        path = self._folder / "descriptor.parquet"
        dataset_file.replace_file(path, self._folder, partial(_fill, self._database.execute(_DESCRIPTORS)))
        self._descriptor_count = count

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._database.execute("COMMIT")
        except BaseException:
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
            raise

    def _fetch(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        return self._database.execute(query, values).fetchall()


def _meters_by_span(
    rows: Sequence[core.Row], longest_ms: dict[str, int], length: Length
) -> dict[tuple[int, int], set[str]]:
    """Return spans of whole parts and, for each, the meters whose rows may overlap slots in the span."""
    meters: defaultdict[tuple[int, int], set[str]] = defaultdict(set)
    for row in rows:
        ends = row.time_ms - longest_ms[row.meter], row.until_ms - 1
        first, last = (dataset_file.part_of(row.stream, time_ms, length) for time_ms in ends)
        meters[first.start_ms, last.end_ms].add(row.meter)
    return meters


def _fill(rows: sqlite3.Cursor, file: Any) -> None:
    with pq.ParquetWriter(file, _DESCRIPTOR_SCHEMA) as writer:
        while slice_rows := rows.fetchmany(SLICE_MAX):
            columns = zip(zip(*slice_rows, strict=True), _DESCRIPTOR_SCHEMA.types, strict=True)
            arrays = [pa.array(column).cast(kind) for column, kind in columns]
            writer.write_table(pa.table(arrays, schema=_DESCRIPTOR_SCHEMA))


def _lock_folder(number: int, folder: Path) -> None:
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise DatabaseError(f"{folder}: another `meteragent collect` is writing this dataset") from None


def _fits_file(row: core.Row, terms: dict[str, Terms], length: Length) -> bool:
    try:
        dataset_file.part_of(row.stream, row.time_ms, length)
        dataset_file.table_of([row], terms)
    except DATA_FAULTS:
        return False
    return True


def _add_outcomes(outcome: Outcome, other: Outcome) -> Outcome:
    return Outcome(
        outcome.written + other.written,
        outcome.repeated + other.repeated,
        outcome.refusal_counts + other.refusal_counts,
        [*outcome.refusals, *other.refusals][-_REFUSALS_MAX:],
    )
