"""Run a release: admit windows, then release them in parts that exist in full or not at all.

1. The ledger is locked and the input's files are hashed. Policy, content and key determine the run's id.
2. Admit (`admission`): the windows that the run may release go into the ledger, all at once, and are on
   disk before any of them is released. From then on all other runs refuse these windows.
3. The manifest is written, with `complete` false.
4. Release: each part of the output is written under another name, synced and renamed. A part holds a stretch
   of windows in the order of `order` (wide) or the windows of a job (long). Windows of the wide layout wait
   next to the output, with their noise, until all of them can be put in order.
5. The run's ledger rows are copied next to the output, then the manifest is written with `complete` true and
   the list of parts.

A resumed run has the same id, since input, policy and key are the same. If the ledger contains that id, its
rows determine which windows are released and do not block them; otherwise the run starts afresh. Parts that
are missing, or not as a complete manifest lists them, are written. An output with another id or other cuts is
refused. A run of a table is resumed from the snapshot that the ledger names, not from the latest one.

No window gets different noise a second time, because noise is a function of the key and of the window with
its data and terms (`prf_input`). So a part that is written again has the same bytes. Different data or terms
make a different run, for which the ledger refuses every window that overlaps a released one.

Memory is bounded: it holds a batch of rows, a row group or a job at a time and, if a wide input is released
in part or resumed, a byte per row. No raw value is written anywhere.
"""

import glob
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from meteragent.archive import manifest
from meteragent.archive.acceptance import Layout
from meteragent.archive.admission import Admission, ProgressCallback, ProgressReporter, check_rows
from meteragent.archive.count import count_numbers, names_of, read_job, require_range
from meteragent.archive.files import path_in_errors, write_file
from meteragent.archive.job import Job, cut_jobs, rows_of
from meteragent.archive.kernel import release, release_schema
from meteragent.archive.key import EpochKey, Key
from meteragent.archive.layout import by_slots, read_wide, slot_schema, windows_batch
from meteragent.archive.ledger import SCHEMA, Ledger
from meteragent.archive.manifest import PART_BATCHES, ROWS, VALUES, WINDOWS
from meteragent.archive.number import Counts, Flags, to_milliseconds
from meteragent.archive.order import Order, row_groups, write_sorted
from meteragent.archive.policy import Policy
from meteragent.archive.readings import Windows, integrate_windows, merge_equal_times, opened_windows
from meteragent.archive.snapshot import Version
from meteragent.archive.source import Source
from meteragent.archive.tree import Tree
from meteragent.domain.errors import ArchiveError, KeyRefused
from meteragent.store.generation import sync_folder

COMPRESSION = "zstd"
_RESUME = " (the run is in the ledger: when this is put right, the same command resumes it)"
OPTIONS: dict[str, Any] = {"store_decimal_as_integer": True}
"""Options of the Parquet writer, in addition to `encodings`."""


class Engine(Protocol):
    """An engine, which makes the two passes of a run."""

    @property
    def cut_at(self) -> list[Any]:
        """The values that decide where the engine's parts end."""

    def numbers(self, source: Source, admission: Admission, show: ProgressReporter) -> Counts:
        """Count all numbers of an input."""

    def debit_windows(
        self, source: Source, ledger: Ledger, key: Key, admission: Admission, show: ProgressReporter
    ) -> Iterable[pa.Table]:
        """Yield the ledger rows of run `admission.run`. `admission` is complete after the last table."""

    def release(
        self,
        source: Source,
        ledger: Ledger,
        key: Key,
        admission: Admission,
        out: Path,
        show: ProgressReporter,
    ) -> "PartCounts":
        """Write the parts of the output that are missing."""


class PartCounts(NamedTuple):
    """The numbers of new and existing parts, and the counts of the input's numbers, if all were read."""

    new: int
    existing: int
    counts: Counts | None


@dataclass(frozen=True)
class RunResult:
    """The result of a run; `counts` covers the whole input, or is None if the output was complete."""

    policy: Policy
    layout: Layout
    out: Path
    run_ledger: Path
    ledger: Path
    admission: Admission
    counts: Counts | None
    new_parts: int
    existing_parts: int
    table: Version | None = None


def sanitise_archive(
    policy: Policy,
    path: Path | str,
    out: Path,
    show: ProgressReporter,
    engine: Engine | None = None,
    *,
    clamp: bool = False,
) -> RunResult:
    """Release an archive, or resume the run that was begun earlier with the same input, policy and key.

    `engine` makes the passes (default: `Local`). `clamp` accepts an input that is mostly outside the range.
    Raises ArchiveError if the input, output or ledger cannot be used, or most numbers are outside the range.
    Raises KeyRefused, before anything is written, if there is no key, or some windows have none. Raises
    ConfigError if the pseudonym key cannot be read.
    """
    engine, key, ledger = engine or Local(), Key.load(policy.key_file), Ledger(policy.ledger)
    tree = Tree.at(path)
    check_paths(tree, out, ledger.folder)
    source = Source.open(tree, policy, partial(pins, out, ledger))
    first_key = key.at(first_window_ms(source))  # all later epochs have a key if this epoch does
    with ledger.lock():
        digests, run = run_of(source, first_key, show)
        earlier_facts = manifest.find_manifest(out, run, engine.cut_at)
        admission = Admission(run, clamp=clamp)
        if not ledger.has(run):
            tables = engine.debit_windows(source, ledger, key, admission, show)
            ledger.add(run, tables, lambda: _last_facts(source, digests, admission, out))
        with _resumable(out):
            admission = manifest.admission_of(ledger.facts(run), ledger.path(run))
            admission.ambiguous_readings = source.ambiguous_readings
            waiting = _waiting_folder(out, run)
            if earlier_facts is None:  # what waits is of an output that was removed
                for file in waiting.glob("*"):
                    file.unlink()
                _create_folder(out)
            run_ledger = private_path(out)
            if earlier_facts is not None and earlier_facts["complete"]:
                parts, counts = PartCounts(0, len(earlier_facts["parts"]), None), None
            else:
                manifest.remove_faulty_parts(out, earlier_facts)
                manifest.save(out, manifest.build(source, admission, engine.cut_at, None))
                parts = engine.release(source, ledger, key, admission, out, show)
                paths = [manifest.part_path(out, run, index) for index in range(parts.new + parts.existing)]
                write_file(run_ledger, lambda file: _save_ledger(file, ledger, run))
                manifest.save(out, manifest.build(source, admission, engine.cut_at, paths))
                counts = parts.counts or engine.numbers(source, admission, show)
            shutil.rmtree(waiting, ignore_errors=True)
    folders = out, run_ledger, ledger.folder
    return RunResult(
        policy, source.layout, *folders, admission, counts, parts.new, parts.existing, source.table
    )


def pins(out: Path, ledger: Ledger) -> list[Version]:
    """Return the tables' snapshots of debited runs into `out` that are not complete."""
    prefix = private_path(out, "").name
    folders = sorted(out.parent.glob(f"{glob.escape(prefix)}*.waiting"))
    runs = (folder.name.removeprefix(prefix).removesuffix(".waiting") for folder in folders)
    tables = (manifest.table_version(ledger.facts(run), ledger.path(run)) for run in runs if ledger.has(run))
    return [table for table in tables if table is not None]


def _last_facts(source: Source, digests: list[str], admission: Admission, out: Path) -> bytes:
    """Return a run's facts for the ledger. For `pins`, note a run of a table next to its output."""
    if source.table is not None:
        _create_folder(_waiting_folder(out, admission.run))
        sync_folder(out.parent)
    return manifest.run_facts(source, digests, admission)


@contextmanager
def _resumable(out: Path) -> Iterator[None]:
    """Add to an error that the run is in the ledger, so that it must be resumed."""
    try:
        with path_in_errors(out, "cannot be used"):
            yield
    except (ArchiveError, KeyRefused) as error:
        failure = type(error)(f"{error}{_RESUME}")
    else:
        return
    raise failure


def run_of(source: Source, first_key: EpochKey, show: ProgressReporter) -> tuple[list[str], str]:
    """Return the digests of an input's files, and the id of its run; `first_key` is the first epoch's key."""
    with show("read", sum(stamp[0] for stamp in source.stamps.values()), "B") as progress:
        digests = source.digests(progress)
    return digests, manifest.run_id(source.policy, [*digests, *source.view_digests], first_key)


class Local:
    """The engine that works in this process alone."""

    def __init__(self) -> None:
        self._has_every_row = False  # whether every row was debited in this process

    @property
    def cut_at(self) -> list[Any]:
        """The values that decide where this version's parts end."""
        return manifest.CUT

    def numbers(self, source: Source, _admission: Admission, show: ProgressReporter) -> Counts:
        """Count all numbers of an input."""
        return count_numbers(source, jobs_of(source), show)

    def debit_windows(
        self, source: Source, ledger: Ledger, key: Key, admission: Admission, show: ProgressReporter
    ) -> Iterable[pa.Table]:
        """Yield the run's rows for the ledger, one table per job."""
        if not admission.clamp:
            require_range(source, show)
        with show("admit", 2 * source.rows, "row") as progress:
            check_rows(source, progress)
            yield from admission.admit(source, jobs_of(source), ledger, key, progress)
        self._has_every_row = not admission.refused_windows

    def release(
        self,
        source: Source,
        ledger: Ledger,
        key: Key,
        admission: Admission,
        out: Path,
        show: ProgressReporter,
    ) -> PartCounts:
        """Write the missing parts, one by one."""
        return _Release(source, key, ledger, admission, out).write(show, has_every_row=self._has_every_row)


def jobs_of(source: Source) -> list[Job]:
    """Cut an input into jobs of the size that this engine uses."""
    return cut_jobs(source, ROWS if source.layout == "long" else WINDOWS)


class _Release:
    """The second pass of a run, which writes the parts."""

    def __init__(self, source: Source, key: Key, ledger: Ledger, admission: Admission, out: Path) -> None:
        self.source, self.policy, self.key, self.ledger = source, source.policy, key, ledger
        self.admission, self.out, self.counts = admission, out, Counts()
        self._folder = _waiting_folder(out, admission.run)
        self._jobs, self._is_resumed = jobs_of(source), False

    def write(self, show: ProgressReporter, *, has_every_row: bool) -> PartCounts:
        """Write the missing parts. `has_every_row` means that no row of a wide input has been refused."""
        work = self._wide_parts() if self.source.layout == "wide" else self._long_parts()
        paths = [manifest.part_path(self.out, self.admission.run, index) for index in range(len(work))]
        missing_count = sum(not path.exists() for path in paths)
        is_wide = self.source.layout == "wide"
        if is_wide and missing_count:
            self._read_wide(show, has_every_row=has_every_row)
        with show("write" if is_wide else "release", sum(rows for rows, _ in work), "row") as progress:
            for path, (rows, make_batches) in zip(paths, work, strict=True):
                if path.exists():
                    progress(rows)
                else:
                    self._write(path, make_batches(progress))
        is_resumed = self._is_resumed or missing_count < len(work)
        return PartCounts(missing_count, len(work) - missing_count, None if is_resumed else self.counts)

    def _write(self, path: Path, batches: Iterable[pa.RecordBatch]) -> None:
        """Write a part. Raises ArchiveError if the input has changed by the time the part is complete."""

        def fill(file: Any) -> None:
            """Write the batches as Parquet, then check that the input is unchanged."""
            windows, is_long = release_schema(self.policy), self.source.layout == "long"
            schema = slot_schema(windows, self.policy) if is_long else windows
            with pq.ParquetWriter(file, schema, **OPTIONS, **writer_options(schema)) as writer:
                for batch in batches:
                    writer.write_batch(batch, row_group_size=max(1, batch.num_rows))
            self.source.check_unchanged()

        write_file(path, fill)

    @cached_property
    def _order(self) -> Order:
        """The order in which windows of the wide layout are written."""
        rows = self.ledger.rows(self.admission.run)
        return Order.of(rows, self.policy, max(1, VALUES // self.policy.usual.n))

    def _read_wide(self, show: ProgressReporter, *, has_every_row: bool) -> None:
        """Release the rows of the wide layout in the input's order, in chunks, to the waiting folder."""
        source, flags = self.source, None if has_every_row else self._allowed_rows()
        chunk_rows = max(1, VALUES // max(source.numbers, self.policy.usual.n))
        _create_folder(self._folder)
        file_count = len(list(self._folder.glob("*.arrow")))  # files are written in order
        self._is_resumed = file_count > 0
        with show("release", source.rows, "row") as progress:
            first = min(file_count * chunk_rows, source.rows)
            progress(first)
            for index, batches in enumerate(source.chunks(first, chunk_rows), start=file_count):
                chunk_flags = None if flags is None else flags[index * chunk_rows :]
                releases = release(self._windows(batches, chunk_flags), self.policy, self.key)
                write_file(self._folder / f"{index:06}.arrow", partial(self._store, releases))
                progress(sum(batch.num_rows for batch in batches))

    def _store(self, releases: pa.RecordBatch, file: Any) -> None:
        """Write releases to a waiting file. Raises ArchiveError if the input has changed."""
        write_sorted(file, releases, self._order)
        self.source.check_unchanged()

    def _windows(self, batches: list[pa.RecordBatch], flags: Flags | None) -> pa.RecordBatch:
        """Convert rows to windows, count their numbers, and return those that `flags` allows (None: all)."""
        parts, row = [], 0
        for batch in batches:  # types may differ between files, so batches are converted one by one
            windows, counts = read_wide(batch, self.policy)
            self.counts.add(counts)
            rows = slice(row, row + batch.num_rows)
            parts.append(windows if flags is None else windows.filter(pa.array(flags[rows])))
            row += batch.num_rows
        return parts[0] if len(parts) == 1 else pa.concat_batches(parts)

    def _wide_parts(self) -> list[tuple[int, Callable[[ProgressCallback], Iterator[pa.RecordBatch]]]]:
        """Return each part of the wide layout: an approximate row count and a function for the batches."""
        groups = range(self._order.groups)
        count = -(-len(groups) // PART_BATCHES)
        rows = np.diff(np.arange(count + 1) * self.admission.released_windows // count).tolist()
        return [
            (rows[index], partial(self._row_groups, groups[index * PART_BATCHES :][:PART_BATCHES]))
            for index in range(count)
        ]

    def _row_groups(self, groups: range, progress: ProgressCallback) -> Iterator[pa.RecordBatch]:
        paths = sorted(self._folder.glob("*.arrow"))
        for batch in row_groups(paths, groups, release_schema(self.policy)):
            yield batch
            progress(batch.num_rows)

    def _allowed_rows(self) -> Flags:
        """Return, for each row of a wide input, whether the ledger has its window under this run."""
        flags = np.zeros(self.source.rows, np.bool_)
        for job in self._jobs:
            names: dict[str, int] = {}
            for rows in rows_of(self.source, job, names):
                released_intervals = self.ledger.intervals_of(self.admission.run, names)
                windows = Windows(rows.meter, rows.time_ms)
                flags[rows.row] = released_intervals.contains(windows, self.policy.ends(rows.time_ms))
        return flags

    def _long_parts(self) -> list[tuple[int, Callable[[ProgressCallback], Iterator[pa.RecordBatch]]]]:
        """Return each part of the long layout: an approximate row count and a function for the batches."""
        groups = self.source.groups
        rows = [sum(groups[index].rows for index in job.groups) // job.parts for job in self._jobs]
        return [
            (count, partial(self._release_long, job)) for count, job in zip(rows, self._jobs, strict=True)
        ]

    def _release_long(self, job: Job, progress: ProgressCallback) -> Iterator[pa.RecordBatch]:
        """Yield the releases of a job of the long layout, sorted by public name and then by time."""
        names: dict[str, int] = {}
        readings = read_job(self.source, job, names, self.counts, progress)
        windows, (first, end) = opened_windows(readings.meter, readings.time_ms, self.policy), job.starts_ms
        windows = windows.rows((first <= windows.start_ms) & (windows.start_ms < end))
        released_intervals = self.ledger.intervals_of(self.admission.run, names)
        windows = windows.rows(released_intervals.contains(windows, self.policy.ends(windows.start_ms)))
        meters, merged = names_of(names), merge_equal_times(readings)
        self.counts.add(merged.counts(meters, lambda rows: job.opens(rows.time_ms, self.policy)))
        # A quarter of the wide layout's number: readings are in memory too, and rows are slots.
        batch_windows = max(1, VALUES // (4 * self.policy.usual.n))
        for part_windows, ragged in integrate_windows(merged.readings, windows, self.policy, batch_windows):
            batch = windows_batch(meters.take(pa.array(part_windows.meter)), part_windows.start_ms, ragged)
            yield by_slots(release(batch, self.policy, self.key), self.policy)


def writer_options(schema: pa.Schema) -> dict[str, Any]:
    """Return the writer's options: delta encoding for values, dictionaries for strings, and compression.

    Values are mostly noise. Without compression they take 2 to 3% more space and a quarter less time, so they
    are not compressed. They get no statistics, because the extremes of noise are useless.
    """
    string_columns = [field.name for field in schema if pa.types.is_string(field.type)]
    number = "values.list.element" if "values" in schema.names else "value"
    other_names = [name for name in schema.names if name not in {"values", "value"}]
    numbers = {"column_encoding": {number: "DELTA_BINARY_PACKED"}}
    compression = {"compression": dict.fromkeys(other_names, COMPRESSION) | {number: "none"}}
    return {"use_dictionary": string_columns, "write_statistics": other_names, **numbers, **compression}


def _save_ledger(file: Any, ledger: Ledger, run: str) -> None:
    with pq.ParquetWriter(file, SCHEMA) as writer:
        for batch in ledger.rows(run):
            writer.write_batch(batch)


def first_window_ms(source: Source) -> int:
    """Return the first window's start. Raises ArchiveError if there are no rows, or a time is unreadable."""
    policy, column = source.policy, source.policy.columns.time
    lead_ms = policy.lead_ms if source.layout == "long" else 0
    groups = [group for group in source.groups if group.rows]
    first_times_ms = [group.times_ms[0] for group in groups if group.times_ms and source.is_whole(group)]
    groups_without_times = [group for group in groups if not group.times_ms or not source.is_whole(group)]
    batches = source.read(groups_without_times, [column], 1 << 18)
    first_times_ms += [int(to_milliseconds(batch.column(0), column).min()) for batch in batches]
    if not first_times_ms:
        raise ArchiveError("the input has no rows: there is nothing to release")
    return int(policy.starts(np.array([min(first_times_ms) - lead_ms], np.int64))[0])


def check_paths(tree: Tree, out: Path, ledger: Path) -> None:
    """Raise ArchiveError if `out` is no path, or it or a ledger lies inside the input or contains it."""
    if out.parts and out.parts[0].endswith(":"):
        raise ArchiveError(f"{out}: an address: release to a folder on a disk, and copy it from there")
    if tree.path is None:
        return
    source = tree.path.resolve()
    for target in (out, private_path(out), ledger):
        real_target = target.resolve()
        if source == real_target or source in real_target.parents or real_target in source.parents:
            raise ArchiveError(f"{target}: lies inside the input or contains it: choose a separate path")


def _create_folder(out: Path) -> None:
    """Create a folder if it does not exist. Raises ArchiveError if it cannot be created."""
    with path_in_errors(out, "cannot be created"):
        out.mkdir(exist_ok=True)


def private_path(out: Path, kind: str = "ledger.parquet") -> Path:
    """Return the path next to an output for private files: its rows of the ledger, or waiting releases."""
    return out.with_name(f"{out.name.removesuffix('.parquet')}.{kind}")


def _waiting_folder(out: Path, run: str) -> Path:
    """Return the folder where releases of the wide layout wait until they are in order."""
    return private_path(out, f"{run}.waiting")
