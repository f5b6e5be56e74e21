"""Run a release: admit windows, then release them in parts that exist in full or not at all.

1. The ledger is locked and the input's files are hashed. Policy, content and key determine the run's id.
2. Admit (`admission`): the windows that the run may release go into the ledger, all at once, and are on
   disk before any of them is released. From then on all other runs refuse these windows.
3. The manifest is written, with `complete` false.
4. Release: each part of the output is written under another name, synced and renamed. A part holds successive
   windows in the order of `order` (wide) or the windows of a job (long). Windows of the wide layout are kept
   in files next to the output, with their noise, until all of them can be put in order.
5. The run's ledger rows are copied next to the output, then the manifest is written with `complete` true and
   the list of parts.

A resumed run has the same id, since input, policy and key are the same. If the ledger contains that id, its
rows determine which windows are released and do not block them; otherwise the run starts afresh. Parts are
written if they are missing or differ from a complete manifest's list. An output with another id or another
`manifest.CUT` is refused. A run of a table resumes with the snapshot that the ledger names, not the latest.

A window that is computed again gets the same noise, because noise is a function of the key and of the window
with its data and terms (`prf_input`). So a part that is written again has the same bytes. Different data or
terms make a different run, for which the ledger refuses every window that overlaps a released window.

Memory is bounded: it holds a batch of rows, a row group or a job at a time and, if a wide input is released
in part or resumed, a byte per row. No raw value is written anywhere.
"""

import glob
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from meteragent.archive import manifest
from meteragent.archive.acceptance import Layout
from meteragent.archive.admission import (
    Admission,
    ProgressCallback,
    ProgressReporter,
    admit_job,
    misfit_error,
)
from meteragent.archive.checks import find_checks, require_no_checks
from meteragent.archive.count import (
    Checked,
    check_groups,
    count_job,
    names_of,
    read_job,
    total,
)
from meteragent.archive.files import path_in_errors, write_file, writer_options
from meteragent.archive.job import Job, cut_jobs, rows_of
from meteragent.archive.kernel import release, release_schema
from meteragent.archive.key import EpochKey, Key
from meteragent.archive.layout import by_slots, read_wide, slot_schema, windows_batch
from meteragent.archive.ledger import ELSEWHERE, SCHEMA, Ledger
from meteragent.archive.manifest import JOB_ROWS, JOB_WINDOWS, PART_BATCHES, ROW_GROUP_VALUES
from meteragent.archive.number import Counts, Flags, to_milliseconds
from meteragent.archive.order import Order, row_groups, write_sorted
from meteragent.archive.policy import Policy
from meteragent.archive.readings import Windows, integrate_windows, merge_equal_times, opened_windows
from meteragent.archive.snapshot import Version
from meteragent.archive.source import Source
from meteragent.archive.tree import Tree
from meteragent.domain.errors import ArchiveError, KeyRefused
from meteragent.store.generation import sync_folder

T = TypeVar("T")
R = TypeVar("R")

_RESUME = " (the run is in the ledger: when this is put right, the same command resumes it)"
_FLAGS = "rows.npy"
"""The file, in the waiting folder, that states which rows are released; without it, all rows are."""


class PartCounts(NamedTuple):
    """The numbers of new and existing parts, and the counts of the input's numbers, if all were read."""

    new: int
    existing: int
    counts: Counts | None


@dataclass(frozen=True)
class RunResult:
    """The result of a run to the path or address `out`; `counts` is None if the output was complete."""

    policy: Policy
    layout: Layout
    out: Any
    run_ledger: Path
    ledger: Path
    admission: Admission
    counts: Counts | None
    new_parts: int
    existing_parts: int
    table: Version | None = None


def sanitise_archive(
    policy: Policy,
    path: Path | str | Tree,
    out: Path,
    show: ProgressReporter,
    engine: "Local | None" = None,
    *,
    accepts_checks: bool = False,
) -> RunResult:
    """Release an archive, or resume the run that was begun earlier with the same input, policy and key.

    `engine` reads and writes (default: `Local`). Raises ArchiveError if the input, output or
    ledger cannot be used; ChecksRefused, unless `accepts_checks`, if something is probably wrong with the
    input (`checks`); KeyRefused, before anything is written, if there is no key, or some windows have none;
    ConfigError if the pseudonym key cannot be read.
    """
    engine, key, ledger = engine or Local(), Key.load(policy.key_file), Ledger(policy.ledger)
    tree = path if isinstance(path, Tree) else Tree.at(path)
    check_paths(tree, out, ledger.folder)
    source = Source.open(tree, policy, partial(pins, out, ledger))
    first_key = key.at(first_window_ms(source))  # all later epochs have a key if this epoch does
    with ledger.lock():
        digests, run = run_of(source, first_key, show)
        earlier_facts = manifest.find_manifest(out, run)
        admission = Admission(run, accepts_checks=accepts_checks)
        if not ledger.has(run):
            debits = engine.debit_windows(source, ledger, key, admission, show)
            ledger.add(run, debits, lambda: _last_facts(source, digests, admission, out))
        with resumable(out):
            admission = manifest.admission_of(ledger.facts(run), ledger.path(run))
            admission.ambiguous_readings = source.ambiguous_readings
            waiting = _waiting_folder(out, run)
            if earlier_facts is None:  # waiting files belong to an output that was removed
                for file in waiting.glob("*"):
                    file.unlink()
                _create_folder(out)
            run_ledger = private_path(out)
            if earlier_facts is not None and earlier_facts["complete"]:
                parts, counts = PartCounts(0, len(earlier_facts["parts"]), None), None
            else:
                manifest.remove_faulty_parts(out, earlier_facts)
                manifest.save(out, manifest.build(source, admission, None))
                parts = engine.release(source, ledger, key, admission, out, show)
                paths = [manifest.part_path(out, run, index) for index in range(parts.new + parts.existing)]
                write_file(run_ledger, lambda file: _save_ledger(file, ledger, run))
                manifest.save(out, manifest.build(source, admission, paths))
                counts = parts.counts or engine.numbers(source, show)
            shutil.rmtree(waiting, ignore_errors=True)
    folders = out, run_ledger, ledger.folder
    return RunResult(
        policy, source.layout, *folders, admission, counts, parts.new, parts.existing, source.table
    )


def pins(out: Path, ledger: Ledger) -> list[Version]:
    """Return the snapshots of tables that incomplete runs into `out` read, if the ledger has the runs."""
    prefix = private_path(out, "").name
    folders = sorted(out.parent.glob(f"{glob.escape(prefix)}*.waiting"))
    runs = (folder.name.removeprefix(prefix).removesuffix(".waiting") for folder in folders)
    tables = (manifest.table_version(ledger.facts(run), ledger.path(run)) for run in runs if ledger.has(run))
    return [table for table in tables if table is not None]


def _last_facts(source: Source, digests: list[str], admission: Admission, out: Path) -> bytes:
    """Return a run's facts for the ledger; for a table, create the folder by which `pins` finds the run."""
    if source.table is not None:
        _create_folder(_waiting_folder(out, admission.run))
        sync_folder(out.parent)
    return manifest.run_facts(source, digests, admission)


@contextmanager
def resumable(out: Path) -> Iterator[None]:
    """Add a note to errors: the run is in the ledger, and the same command resumes it."""
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
    """The engine that makes the two passes of a run in this process, one step after the other.

    A step depends on its arguments alone, so another engine may execute steps elsewhere, or twice. The
    results of a step are small, or are files that exist in full or not at all.
    """

    tasks = 1
    """The number of pieces into which reading is divided, so that several can be read at the same time."""

    def __init__(self) -> None:
        self._has_every_row = False  # whether every row was debited in this process

    def each(self, work: Callable[[T], Iterator[R]], items: Sequence[T]) -> Iterator[R]:
        """Yield the results of `work` for each of `items`, in order."""
        for item in items:
            yield from work(item)

    def key_loader(self, key: Key, _policy: Policy) -> Callable[[], Key]:
        """Return a function by which a step gets the run's key."""
        return lambda: key

    def numbers(self, source: Source, show: ProgressReporter) -> Counts:
        """Count all numbers of an input."""
        with show("count", source.rows, "row") as progress:
            return self._check(source, progress).counts

    def _check(self, source: Source, progress: ProgressCallback) -> Checked:
        """Read every row now; if one failed only after the debit, its window would never be released."""
        if source.layout == "long":
            return total(self.each(partial(count_job, source), jobs_of(source)), progress)
        groups = source.groups
        pieces = np.array_split(np.arange(len(groups)), min(self.tasks, len(groups)))
        steps = [groups[piece[0] : piece[-1] + 1] for piece in pieces]
        return total(self.each(partial(check_groups, source), steps), progress)

    def debit_windows(
        self,
        source: Source,
        ledger: Ledger,
        key: Key,
        admission: Admission,
        show: ProgressReporter,
        *,
        is_dry: bool = False,
    ) -> Iterator[object]:
        """Write each job's part of the ledger, unless `is_dry`; yield its result. Complete `admission`."""
        with show("admit", 2 * source.rows, "row") as progress:
            checked = self._check(source, progress)
            if checked.misfits:
                raise misfit_error(checked.misfits, source)
            load_key = self.key_loader(key, source.policy)
            work = partial(admit_job, source, ledger, admission.run, load_key, is_dry=is_dry)
            yield from admission.admit(self.each(work, [*enumerate(jobs_of(source))]), source, progress)
        admission.counts, similar_meters = checked.counts, admission.similar_meters
        if not admission.accepts_checks:
            require_no_checks(
                find_checks(source.policy, source.layout, checked.counts, admission.windows, similar_meters)
            )
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
        """Write the parts of the output that are missing."""
        release = _Release(
            source, self.key_loader(key, source.policy), ledger, admission, out.absolute(), ROW_GROUP_VALUES
        )
        return release.write_parts(self, show, has_every_row=self._has_every_row)


def jobs_of(source: Source) -> list[Job]:
    """Cut an input into jobs of the size that this version uses."""
    return cut_jobs(source, JOB_ROWS if source.layout == "long" else JOB_WINDOWS)


@dataclass(frozen=True)
class _Release:
    """The second pass of a run, which writes the parts; `values` is the number of values in a row group."""

    source: Source
    load_key: Callable[[], Key]
    ledger: Ledger
    admission: Admission
    out: Path
    values: int

    def write_parts(self, engine: Local, show: ProgressReporter, *, has_every_row: bool) -> PartCounts:
        """Write the missing parts; `has_every_row` states that no row of a wide input was refused."""
        if self.source.layout == "long":
            jobs = jobs_of(self.source)
            with show("release", self.source.rows, "row") as progress:
                return self._parts(engine, len(jobs), partial(self._write_long, jobs), progress)
        policy, rows = self.source.policy, self.ledger.rows(self.admission.run)
        order = Order.of(rows, policy, max(1, self.values // policy.usual.n))
        count = -(-order.groups // PART_BATCHES)
        groups = [range(order.groups)[index * PART_BATCHES :][:PART_BATCHES] for index in range(count)]
        is_whole, counts = False, Counts()
        if not all(self._path(index).exists() for index in range(count)):
            is_whole, counts = self._read_wide(engine, show, order, has_every_row=has_every_row)
        with show("write", self.admission.released_windows, "row") as progress:
            parts = self._parts(engine, count, partial(self._write_wide, groups), progress)
        return parts._replace(counts=counts if is_whole and not parts.existing else None)

    def _parts(
        self, engine: Local, count: int, work: Callable[[int], Iterator[Checked]], progress: ProgressCallback
    ) -> PartCounts:
        """Write each missing part with `work`; return the numbers of new and existing parts, and counts."""
        missing = [index for index in range(count) if not self._path(index).exists()]
        counts = total(engine.each(work, missing), progress).counts
        if any(not self._path(index).exists() for index in missing):
            raise ArchiveError(f"{self.out}: {ELSEWHERE}")
        return PartCounts(len(missing), count - len(missing), counts if len(missing) == count else None)

    def _path(self, index: int) -> Path:
        return manifest.part_path(self.out, self.admission.run, index)

    def _write(self, index: int, batches: Iterable[pa.RecordBatch]) -> None:
        """Write a part. Raises ArchiveError if the input has changed by the time the part is complete."""

        def fill(file: Any) -> None:
            """Write the batches as Parquet, then check that the input is unchanged."""
            windows, is_long = release_schema(self.source.policy), self.source.layout == "long"
            schema = slot_schema(windows, self.source.policy) if is_long else windows
            with pq.ParquetWriter(file, schema, **writer_options(schema)) as writer:
                for batch in batches:
                    writer.write_batch(batch, row_group_size=max(1, batch.num_rows))
            self.source.check_unchanged()

        write_file(self._path(index), fill)

    @property
    def _folder(self) -> Path:
        return _waiting_folder(self.out, self.admission.run)

    @property
    def _chunk_rows(self) -> int:
        """The number of rows of the wide layout whose releases wait in one file."""
        return max(1, self.values // max(self.source.numbers, self.source.policy.usual.n))

    def _waiting(self) -> list[Path]:
        """Return the files in which releases of the wide layout wait."""
        count = -(-self.source.rows // self._chunk_rows)
        return [self._folder / f"{index:06}.arrow" for index in range(count)]

    def _read_wide(
        self, engine: Local, show: ProgressReporter, order: Order, *, has_every_row: bool
    ) -> tuple[bool, Counts]:
        """Release the rows of the wide layout in the input's order, in chunks, to the waiting folder.

        Return whether this call released all rows, and the counts of their numbers.
        """
        _create_folder(self._folder)
        paths = self._waiting()
        missing = [index for index, path in enumerate(paths) if not path.exists()]
        if missing and not has_every_row:
            write_file(self._folder / _FLAGS, lambda file: np.save(file, self._allowed_rows()))
        with show("release", self.source.rows, "row") as progress:
            runs = [run for run in self._runs(engine.tasks) if not set(run).isdisjoint(missing)]
            counts = total(engine.each(partial(self._release_chunks, order), runs), progress).counts
        return len(missing) == len(paths), counts

    def _runs(self, tasks: int) -> list[range]:
        """Return at most `tasks` ranges of consecutive chunks that each begin in a different row group.

        A row group can only be read from its beginning, so few rows are then read twice.
        """
        count = len(self._waiting())
        ends = np.cumsum([group.rows for group in self.source.groups])
        groups = np.searchsorted(ends, np.arange(count) * self._chunk_rows, side="right")
        firsts = np.flatnonzero(np.diff(groups, prepend=-1))
        pieces = np.array_split(firsts, min(tasks, firsts.size))
        return [range(*edges) for edges in pairwise([*(int(piece[0]) for piece in pieces), count])]

    def _release_chunks(self, order: Order, run: range) -> Iterator[Checked]:
        """Release the chunks in `run` that have no file yet, and yield the counts of each."""
        paths, size, key = self._waiting(), self._chunk_rows, self.load_key()
        flags = np.load(self._folder / _FLAGS, mmap_mode="r") if (self._folder / _FLAGS).exists() else None
        first = next(index for index in run if not paths[index].exists())
        chunks = self.source.chunks(first * size, size)
        for index, batches in zip(range(first, run.stop), chunks, strict=False):
            if paths[index].exists():
                continue
            rows = slice(index * size, (index + 1) * size)
            windows, counts = self._windows(batches, None if flags is None else flags[rows])
            releases = release(windows, self.source.policy, key)
            write_file(paths[index], partial(self._store, order, releases))
            yield Checked(sum(batch.num_rows for batch in batches), 0, counts)

    def _store(self, order: Order, releases: pa.RecordBatch, file: Any) -> None:
        """Write releases to a waiting file. Raises ArchiveError if the input has changed."""
        write_sorted(file, releases, order)
        self.source.check_unchanged()

    def _windows(self, batches: list[pa.RecordBatch], flags: Flags | None) -> tuple[pa.RecordBatch, Counts]:
        """Convert rows to windows, drop those that `flags` does not allow, and count all numbers."""
        parts, row, counts = [], 0, Counts()
        for batch in batches:  # types may differ between files, so batches are converted one by one
            windows, part_counts = read_wide(batch, self.source.policy)
            counts.add(part_counts)
            rows = slice(row, row + batch.num_rows)
            parts.append(windows if flags is None else windows.filter(pa.array(flags[rows])))
            row += batch.num_rows
        return parts[0] if len(parts) == 1 else pa.concat_batches(parts), counts

    def _write_wide(self, groups: list[range], index: int) -> Iterator[Checked]:
        """Write a part of the wide layout, and yield its number of rows."""
        paths = self._waiting()
        if not all(path.exists() for path in paths):
            raise ArchiveError(f"{self._folder}: {ELSEWHERE}")
        rows = list[int]()

        def batches() -> Iterator[pa.RecordBatch]:
            """Yield the row groups of the part."""
            for batch in row_groups(paths, groups[index], release_schema(self.source.policy)):
                rows.append(batch.num_rows)
                yield batch

        self._write(index, batches())
        yield Checked(sum(rows), 0, Counts())

    def _allowed_rows(self) -> Flags:
        """Return, for each row of a wide input, whether the ledger has its window under this run."""
        flags = np.zeros(self.source.rows, np.bool_)
        for job in jobs_of(self.source):
            names: dict[str, int] = {}
            for rows in rows_of(self.source, job, names):
                released_intervals = self.ledger.intervals_of(self.admission.run, names)
                windows = Windows(rows.meter, rows.time_ms)
                flags[rows.row] = released_intervals.contains(windows, self.source.policy.ends(rows.time_ms))
        return flags

    def _write_long(self, jobs: list[Job], index: int) -> Iterator[Checked]:
        """Write the part of a job of the long layout, and yield the counts of its numbers."""
        rows, counts = list[int](), Counts()
        self._write(index, self._release_long(jobs[index], counts, rows.append))
        yield Checked(sum(rows), 0, counts)

    def _release_long(self, job: Job, counts: Counts, progress: ProgressCallback) -> Iterator[pa.RecordBatch]:
        """Yield the releases of a job of the long layout, sorted by public name and then by time."""
        names, policy, key = dict[str, int](), self.source.policy, self.load_key()
        readings = read_job(self.source, job, names, counts, progress)
        windows, (first, end) = opened_windows(readings.meter, readings.time_ms, policy), job.starts_ms
        windows = windows.rows((first <= windows.start_ms) & (windows.start_ms < end))
        released_intervals = self.ledger.intervals_of(self.admission.run, names)
        windows = windows.rows(released_intervals.contains(windows, policy.ends(windows.start_ms)))
        meters, merged = names_of(names), merge_equal_times(readings)
        counts.add(merged.counts(meters, lambda rows: job.opens(rows.time_ms, policy)))
        # A quarter of a wide row group's windows, because readings take memory, too, and each slot is a row.
        batch_windows = max(1, self.values // (4 * policy.usual.n))
        for part_windows, ragged in integrate_windows(merged.readings, windows, policy, batch_windows):
            batch = windows_batch(meters.take(pa.array(part_windows.meter)), part_windows.start_ms, ragged)
            yield by_slots(release(batch, policy, key), policy)


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
    """Raise ArchiveError if `out` is no path, or if output or ledger lie in the input or contain it."""
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
    """Return the path next to an output for private files: the run's ledger rows, or waiting releases."""
    return out.with_name(f"{out.name.removesuffix('.parquet')}.{kind}")


def _waiting_folder(out: Path, run: str) -> Path:
    """Return the folder where releases of the wide layout wait until they are in order."""
    return private_path(out, f"{run}.waiting")
