"""A key's ledger: for each meter, the intervals that runs have released or may still release under the key.

The ledger belongs to the key, not to an output. An interval that one run has entered is never released by
another run, whatever the epsilon, window length, version or output. The ledger is a folder of Parquet files,

    run=<id>/part-*.parquet    meter, start, end, windows, epsilon, unit, d, key

in which each row covers consecutive windows of a meter under the same terms and key. `_parts` in the run's
folder holds the number of these files, and `_run.json` the run's facts. A run's folder is written under
another name and renamed once all of it is on disk, before any of its windows is released. A repeated run
releases the same bytes, so its own rows do not block its windows.

A key has one ledger. If the ledger is a Delta table (`spark.delta_ledger`), the folder contains only
`_table`, with the table's address.

The ledger holds meters' names but no readings. It is created with its key: a key whose ledger is missing is
refused. Nothing shows that a ledger is an older copy, or another key's.
"""

import fcntl
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from meteragent.archive.files import attempt_read, open_parquet, path_in_errors, write_file
from meteragent.archive.kernel import TIME
from meteragent.archive.key import LOCK, create_ledger
from meteragent.archive.number import Flags
from meteragent.archive.policy import Integers
from meteragent.archive.readings import Windows, meter_sort_keys
from meteragent.domain.errors import ArchiveError, ArchiveInUse, KeyRefused
from meteragent.store.generation import sync_folder

SCHEMA = pa.schema(
    [
        ("meter", pa.string()),
        ("start", TIME),
        ("end", TIME),
        ("windows", pa.int64()),
        ("epsilon", pa.string()),
        ("unit", pa.string()),
        ("d", pa.string()),
        ("key", pa.string()),
    ]
)
_BATCH_ROWS = 1 << 18
_TABLE = "_table"
ELSEWHERE = "what workers wrote is not here: driver and workers must see it under the same path"
"""The text of the error if a file that another process has written is missing."""


@dataclass(frozen=True)
class Intervals:
    """Intervals as columns, sorted by meter and start: the meter's number, the start and the end in ms."""

    meter: Integers
    start_ms: Integers
    end_ms: Integers

    def overlap(self, windows: Windows, ends_ms: Integers) -> Flags:
        """Return, for each window, whether it overlaps one of its meter's intervals."""
        if not self.meter.size or not windows.meter.size:
            return np.zeros(windows.meter.size, np.bool_)
        origin_ms = min(int(self.start_ms.min()), int(windows.start_ms.min()))
        width = (max(int(self.end_ms.max()), int(ends_ms.max())) - origin_ms).bit_length()
        intervals, rows = meter_sort_keys(self.meter, width), meter_sort_keys(windows.meter, width)
        # Find the latest end among the intervals that begin before the end of each window. The intervals
        # should be disjoint; if they are not, the interval that begins last need not end last.
        index = np.searchsorted(intervals + (self.start_ms - origin_ms), rows + (ends_ms - origin_ms)) - 1
        last_end = np.maximum.accumulate(intervals + (self.end_ms - origin_ms))[index]
        return np.asarray((index >= 0) & (last_end > rows + (windows.start_ms - origin_ms)))

    def contains(self, windows: Windows, ends_ms: Integers) -> Flags:
        """Return whether each window is one of the windows that make up an interval of its meter.

        All windows of an interval have the same length. A window that only overlaps the interval may
        result from a change in a time zone's rules.
        """
        if not self.meter.size or not windows.meter.size:
            return np.zeros(windows.meter.size, np.bool_)
        origin_ms = min(int(self.start_ms.min()), int(windows.start_ms.min()))
        width = (max(int(self.start_ms.max()), int(windows.start_ms.max())) - origin_ms).bit_length()
        intervals, rows = meter_sort_keys(self.meter, width), meter_sort_keys(windows.meter, width)
        count = np.searchsorted(
            intervals + (self.start_ms - origin_ms), rows + (windows.start_ms - origin_ms), side="right"
        )
        index = np.maximum(count - 1, 0)
        is_aligned = (windows.start_ms - self.start_ms[index]) % (ends_ms - windows.start_ms) == 0
        is_same_meter = (count > 0) & (self.meter[index] == windows.meter)
        return np.asarray(is_same_meter & is_aligned & (ends_ms <= self.end_ms[index]))


@dataclass(frozen=True)
class Ledger:
    """The ledger in `folder`."""

    folder: Path

    @property
    def table(self) -> str | None:
        """The address of the Delta table that is the key's ledger; None if this folder is the ledger."""
        path = self.folder / _TABLE
        return attempt_read(path, path.read_text) if path.exists() else None

    def bind(self, address: str, create: Callable[[], object]) -> None:
        """Create a Delta table as the key's ledger. Raises ArchiveError if the folder already has runs."""
        with path_in_errors(self.folder, "cannot be created"):
            create_ledger(self.folder)
        with self.lock():
            if self._runs():
                raise ArchiveError(f"{self.folder}: the key has its ledger there: use a new key with a table")
            create()
            write_file(self.folder / _TABLE, lambda file: file.write(address.encode()))

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the ledger for one run, and delete the partial folders that interrupted runs left behind.

        Raises KeyRefused if the ledger is missing; ArchiveInUse if another run or a preview on this machine
        holds the lock; ArchiveError if the lock's file cannot be used.
        """
        with self._open_lock("r+b") as lock:
            self._lock(lock, fcntl.LOCK_EX)
            self._require_no_table()
            for partial_folder in self.folder.glob(".run=*"):
                shutil.rmtree(partial_folder)
            yield

    @contextmanager
    def lock_shared(self) -> Iterator[None]:
        """Prevent runs from changing the ledger while it is read. Raises as `lock` does."""
        with self._open_lock("rb") as lock:
            self._lock(lock, fcntl.LOCK_SH)
            self._require_no_table()
            yield

    def _open_lock(self, mode: str) -> IO[Any]:
        path = self.folder / LOCK
        with path_in_errors(self.folder), suppress(FileNotFoundError):
            return path.open(mode)
        raise KeyRefused(
            f"{self.folder}: the key's ledger is missing, so its windows could be released again: restore"
            " this folder from its backup or, if the key has never released anything, make a new key"
        )

    def _require_no_table(self) -> None:
        """Raise ArchiveError if the key's ledger is not this folder but a table."""
        if (address := self.table) is not None:
            raise ArchiveError(
                f"{self.folder}: the key's ledger is the Delta table {address}: use that table, or a new key"
                f" (if the table was moved, write its new address into {_TABLE})"
            )

    def _lock(self, lock: IO[Any], mode: int) -> None:
        """Lock an open file in this `flock` mode. Raises ArchiveInUse if another lock forbids it."""
        try:
            fcntl.flock(lock, mode | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ArchiveInUse(
                f"{self.folder}: another run is using this ledger: try again when it has finished"
            ) from None

    def path(self, run: str) -> Path:
        """Return the folder of a run's rows."""
        return self.folder / f"run={run}"

    def has(self, run: str) -> bool:
        """Return whether a run is in the ledger."""
        return self.path(run).is_dir()

    def intervals_of_others(self, run: str, names: Mapping[str, int]) -> Intervals:
        """Return other runs' intervals of the meters in `names`, which maps names to numbers."""
        return self._intervals((p for p in self._runs() if p != self.path(run)), names)

    def intervals_of(self, run: str, names: Mapping[str, int]) -> Intervals:
        """Return a run's intervals of the meters in `names`, which maps names to numbers."""
        return self._intervals([self.path(run)], names)

    def rows(self, run: str) -> Iterator[pa.RecordBatch]:
        """Yield a run's rows, in batches."""
        for path in parts_of(self.path(run)):
            with open_parquet(path) as file:
                yield from attempt_read(path, lambda: list(file.iter_batches(_BATCH_ROWS)))

    def write(self, run: str, index: int, table: pa.Table) -> Path:
        """Write a part of a run that is being added, and return its path."""
        write_file(path := self._partial(run) / _part_name(index), lambda file: pq.write_table(table, file))
        return path

    def add(self, run: str, parts: Iterable[object], facts: Callable[[], bytes]) -> None:
        """Add a run to the ledger. All of the run is on disk when this method returns.

        The iterator `parts` writes a part (`write`) in each step. `facts` is called after the last part, and
        its result is stored next to the parts. Raises ArchiveError if the run cannot be written.
        """
        partial_folder = self._partial(run)
        try:
            with path_in_errors(self.folder, "cannot be written"):
                partial_folder.mkdir(mode=0o700)
                count = sum(1 for _ in parts)
                if not all((partial_folder / _part_name(index)).exists() for index in range(count)):
                    raise ArchiveError(f"{self.folder}: {ELSEWHERE}")
                write_file(partial_folder / "_parts", lambda file: file.write(str(count).encode()))
                write_file(partial_folder / "_run.json", lambda file: file.write(facts()))
                partial_folder.rename(self.path(run))
                sync_folder(self.folder)
        finally:
            shutil.rmtree(partial_folder, ignore_errors=True)

    def _partial(self, run: str) -> Path:
        return self.folder / f".run={run}"

    def facts(self, run: str) -> bytes:
        """Return the facts stored next to a run's rows."""
        path = self.path(run) / "_run.json"
        return attempt_read(path, path.read_bytes)

    def _runs(self) -> list[Path]:
        return sorted(path for path in self.folder.glob("run=*") if path.is_dir())

    def _intervals(self, runs: Iterable[Path], names: Mapping[str, int]) -> Intervals:
        """Read the intervals in these runs' folders for the meters in `names`."""
        parts = [np.empty((3, 0), np.int64)]
        parts += [part for run in runs for path in parts_of(run) for part in _read_intervals(path, names)]
        meter, start_ms, end_ms = np.concatenate(parts, axis=1)
        order = np.lexsort((start_ms, meter))
        return Intervals(meter[order], start_ms[order], end_ms[order])


def parts_of(run: Path) -> list[Path]:
    """Return a run's files. Raises ArchiveError if a file is missing: its windows could be released again."""
    count_file = run / "_parts"
    count = attempt_read(count_file, lambda: int(count_file.read_bytes())) if count_file.exists() else 0
    parts = [run / _part_name(index) for index in range(count)]
    if not parts or not all(path.is_file() for path in parts):
        raise ArchiveError(f"{run}: files of the ledger are missing: restore them from its backup")
    return parts


def _part_name(index: int) -> str:
    return f"part-{index:05}.parquet"


def _read_intervals(path: Path, names: Mapping[str, int]) -> Iterator[Integers]:
    """Yield a file's rows for the meters in `names`, as arrays of shape (3, rows): meter, start, end."""
    with open_parquet(path, "meter") as file:
        columns = ["meter", "start", "end"]
        for batch in attempt_read(path, lambda: list(file.iter_batches(_BATCH_ROWS, columns=columns))):
            meter = batch.column("meter")
            if not pa.types.is_dictionary(meter.type):
                meter = meter.dictionary_encode()
            name_numbers = np.array([names.get(name, -1) for name in meter.dictionary.to_pylist()], np.int64)
            numbers = name_numbers.take(meter.indices.to_numpy(zero_copy_only=False))
            times = [
                batch.column(name).cast(pa.timestamp("ms", tz="UTC")).cast(pa.int64()) for name in columns[1:]
            ]
            rows = np.stack([numbers, *(column.to_numpy(zero_copy_only=False) for column in times)])
            yield rows[:, numbers >= 0]
