"""The ledger of a key: which intervals of which meters were released under it, by any run, ever.

It belongs to the key, not to what a run writes: an interval that was released under any epsilon, length,
version or path is never released again. It is a folder of Parquet files,

    run=<id>/part-*.parquet    meter, start, end, windows, epsilon, unit, d, key

a row being windows in a row under the same terms and key; `_parts` beside them says how many files there are.
A run's folder is made under another name and renamed when it is whole and on disk: a run is in the ledger or
it is not, and nothing of it leaves before.
The same run may be made again: what it releases is byte for byte the same, so its own rows refuse nothing.

Names of meters are in it, no readings. A ledger that is lost is a key that must not be used again.
"""

import fcntl
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from meteragent.archive.files import attempt, parquet, sync, write
from meteragent.archive.kernel import TIME
from meteragent.archive.number import Flags
from meteragent.archive.policy import Integers
from meteragent.archive.readings import Windows, ranked
from meteragent.domain.errors import ArchiveError, ArchiveInUse

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
_AT_ONCE = 1 << 18


@dataclass(frozen=True)
class Stretches:
    """Intervals of meters, by number; in order of meter and time."""

    meter: Integers
    start_ms: Integers
    end_ms: Integers

    def overlap(self, windows: Windows, ends_ms: Integers) -> Flags:
        """Which windows share some time with a stretch of their meter."""
        if not self.meter.size or not windows.meter.size:
            return np.zeros(windows.meter.size, np.bool_)
        first = min(int(self.start_ms.min()), int(windows.start_ms.min()))
        width = (max(int(self.end_ms.max()), int(ends_ms.max())) - first).bit_length()
        own, others = ranked(self.meter, width), ranked(windows.meter, width)
        # Of those that begin before a window's end, the last end (they should not overlap, but might).
        at = np.searchsorted(own + (self.start_ms - first), others + (ends_ms - first)) - 1
        last = np.maximum.accumulate(own + (self.end_ms - first))[at]
        return np.asarray((at >= 0) & (last > others + (windows.start_ms - first)))

    def holds(self, windows: Windows, ends_ms: Integers) -> Flags:
        """Which windows are among those that make up a stretch of their meter, which are of one length.

        What only shares time with one is not: where a zone's rules have changed since, days lie otherwise.
        """
        if not self.meter.size or not windows.meter.size:
            return np.zeros(windows.meter.size, np.bool_)
        first = min(int(self.start_ms.min()), int(windows.start_ms.min()))
        width = (max(int(self.start_ms.max()), int(windows.start_ms.max())) - first).bit_length()
        own, others = ranked(self.meter, width), ranked(windows.meter, width)
        found = np.searchsorted(
            own + (self.start_ms - first), others + (windows.start_ms - first), side="right"
        )
        at = np.maximum(found - 1, 0)
        whole = (windows.start_ms - self.start_ms[at]) % (ends_ms - windows.start_ms) == 0
        mine = (found > 0) & (self.meter[at] == windows.meter)
        return np.asarray(mine & whole & (ends_ms <= self.end_ms[at]))


@dataclass(frozen=True)
class Ledger:
    """The ledger in a folder."""

    folder: Path

    @contextmanager
    def held(self) -> Iterator[None]:
        """The ledger for one run alone; what a run left half made is taken away.

        Raises:
            ArchiveInUse: another run of this machine holds it.
            ArchiveError: the folder cannot be made.
        """
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            sync(self.folder.parent)
            lock = (self.folder / ".lock").open("w")
        except OSError as error:
            raise ArchiveError(f"{self.folder}: {(error.strerror or 'cannot be made').lower()}") from None
        with lock:
            self._lock(lock, fcntl.LOCK_EX)
            for half in self.folder.glob(".run=*"):
                shutil.rmtree(half)
            yield

    @contextmanager
    def still(self) -> Iterator[None]:
        """The ledger while no run has it, to look at: nothing is written, and none need be there.

        Raises:
            ArchiveInUse: a run of this machine holds it.
            ArchiveError: it cannot be read.
        """
        with ExitStack() as opened:
            try:
                lock = opened.enter_context((self.folder / ".lock").open("rb"))
            except FileNotFoundError:
                lock = None
            except OSError as error:
                reason = (error.strerror or "cannot be read").lower()
                raise ArchiveError(f"{self.folder}: {reason}") from None
            if lock is not None:
                self._lock(lock, fcntl.LOCK_SH)
            yield

    def _lock(self, lock: IO[Any], how: int) -> None:
        try:
            fcntl.flock(lock, how | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ArchiveInUse(f"{self.folder}: another run has this ledger open") from None

    def path(self, run: str) -> Path:
        """Where the rows of a run are."""
        return self.folder / f"run={run}"

    def has(self, run: str) -> bool:
        """Whether a run is in the ledger."""
        return self.path(run).is_dir()

    def others(self, run: str, names: Mapping[str, int]) -> Stretches:
        """What all other runs have released of these meters."""
        return self._stretches((p for p in self._runs() if p != self.path(run)), names)

    def own(self, run: str, names: Mapping[str, int]) -> Stretches:
        """What a run has in the ledger of these meters."""
        return self._stretches([self.path(run)], names)

    def rows(self, run: str) -> Iterator[pa.RecordBatch]:
        """The rows of a run."""
        for path in parts_of(self.path(run)):
            with parquet(path) as file:
                yield from attempt(path, lambda: list(file.iter_batches(_AT_ONCE)))

    def add(self, run: str, tables: Iterable[pa.Table], about: Callable[[], bytes]) -> None:
        """Put a run into the ledger: on disk, all of it, when this returns.

        `about`, asked for when the tables are at their end, is kept beside them.

        Raises ArchiveError when it cannot be written; then nothing is.
        """
        half = self.folder / f".run={run}"
        try:
            half.mkdir(mode=0o700)
            count = 0
            for count, table in enumerate(tables, start=1):
                write(half / _part(count - 1), lambda file: pq.write_table(table, file))  # noqa: B023
            write(half / "_parts", lambda file: file.write(str(count).encode()))
            write(half / "_run.json", lambda file: file.write(about()))
            half.rename(self.path(run))
            sync(self.folder)
        except OSError as error:
            raise ArchiveError(f"{self.folder}: {(error.strerror or 'cannot be written').lower()}") from None
        finally:
            shutil.rmtree(half, ignore_errors=True)

    def about(self, run: str) -> bytes:
        """What is kept beside a run's rows."""
        path = self.path(run) / "_run.json"
        return attempt(path, path.read_bytes)

    def _runs(self) -> list[Path]:
        return sorted(path for path in self.folder.glob("run=*") if path.is_dir())

    def _stretches(self, runs: Iterable[Path], names: Mapping[str, int]) -> Stretches:
        parts = [np.empty((3, 0), np.int64)]
        parts += [part for run in runs for path in parts_of(run) for part in _read(path, names)]
        meter, start_ms, end_ms = np.concatenate(parts, axis=1)
        order = np.lexsort((start_ms, meter))
        return Stretches(meter[order], start_ms[order], end_ms[order])


def parts_of(run: Path) -> list[Path]:
    """The files of a run: one at least.

    Raises ArchiveError when some are gone: what is not in the ledger would leave again.
    """
    told = run / "_parts"
    count = attempt(told, lambda: int(told.read_bytes())) if told.exists() else 0
    parts = [run / _part(place) for place in range(count)]
    if not parts or not all(path.is_file() for path in parts):
        older = (
            ""
            if told.exists()
            else "; a run of an older version has no _parts: write there how many there are"
        )
        raise ArchiveError(f"{run}: files of the ledger are missing: take it from its backup{older}")
    return parts


def _part(place: int) -> str:
    return f"part-{place:05}.parquet"


def _read(path: Path, names: Mapping[str, int]) -> Iterator[Integers]:
    """The rows of a file of these meters, as (meter, start, end)."""
    with parquet(path, "meter") as file:
        columns = ["meter", "start", "end"]
        for batch in attempt(path, lambda: list(file.iter_batches(_AT_ONCE, columns=columns))):
            meter = batch.column("meter")
            if not pa.types.is_dictionary(meter.type):
                meter = meter.dictionary_encode()
            known = np.array([names.get(name, -1) for name in meter.dictionary.to_pylist()], np.int64)
            numbers = known.take(meter.indices.to_numpy(zero_copy_only=False))
            times = [
                batch.column(name).cast(pa.timestamp("ms", tz="UTC")).cast(pa.int64()) for name in columns[1:]
            ]
            rows = np.stack([numbers, *(one.to_numpy(zero_copy_only=False) for one in times)])
            yield rows[:, numbers >= 0]
