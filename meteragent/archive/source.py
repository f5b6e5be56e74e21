"""List the files of an archive's input, and read them in pieces.

An input is one Parquet file, or a folder. In a folder, all files `*.parquet` are read, at any depth. Files
and subfolders whose names begin with a dot or an underscore are skipped. The input must not change while it
is being read, and a change in a file is detected. Errors name files and columns but do not quote their
content, so Arrow's own messages about a file are never passed on.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from meteragent.archive.files import READ_BYTES, attempt, parquet
from meteragent.archive.layout import Layout, layout_of
from meteragent.archive.policy import Policy
from meteragent.domain.errors import ArchiveError

T = TypeVar("T")

_UTC_MS = pa.timestamp("ms", tz="UTC")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


class Group(NamedTuple):
    """A row group of a file.

    `times_ms` holds the earliest and the latest time, and `meters` the first and the last of the meters'
    names in order; each is None if unknown.
    """

    path: Path
    row_group: int
    rows: int
    times_ms: tuple[int, int] | None
    meters: tuple[str, str] | None
    values: int
    """The length of the value column, with lists flattened (a null or empty list counts as one value)."""


@dataclass(frozen=True)
class Source:
    """An input whose files have been listed and checked."""

    layout: Layout
    groups: tuple[Group, ...]
    stamps: tuple[tuple[Path, tuple[int, ...]], ...]
    policy: Policy

    @classmethod
    def open(cls, path: Path, policy: Policy) -> "Source":
        """List and check the files. Raises ArchiveError if there is none, or a file or column is wrong."""
        groups: list[Group] = []
        layouts: dict[Layout, Path] = {}
        stamps = tuple((file_path, _stamp(file_path)) for file_path in _data(path))
        for file_path, _ in stamps:
            with parquet(file_path) as file:
                layouts.setdefault(_layout(file, policy, file_path), file_path)
                groups.extend(_groups(file, policy, file_path))
        if len(layouts) > 1:
            raise ArchiveError(f"{path}: some files are wide and others long: release them separately")
        return cls(next(iter(layouts)), tuple(groups), stamps, policy)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(group.rows for group in self.groups)

    @property
    def numbers(self) -> int:
        """The approximate number of values per row, at least one."""
        return max(1, sum(group.values for group in self.groups) // max(1, self.rows))

    def check_unchanged(self) -> None:
        """Raise ArchiveError if a file has changed since it was listed."""
        for path, stamp in self.stamps:
            if _stamp(path) != stamp:
                raise ArchiveError(f"{path}: changed while it was being read: nothing more is released")

    def digests(self, progress: Callable[[int], object]) -> list[str]:
        """Compute the SHA-256 of each file's content, and report the number of bytes read to `progress`."""
        digests = []
        for path, _ in self.stamps:
            digest = hashlib.sha256()
            with _path_in_errors(path), path.open("rb") as file:
                while block := file.read(READ_BYTES):
                    digest.update(block)
                    progress(len(block))
            digests.append(digest.hexdigest())
        return digests

    def read(
        self, groups: Iterable[Group], columns: list[str], batch_rows: int, *, needs_dictionary: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """Yield columns of row groups, in order, at most `batch_rows` rows at a time.

        With `needs_dictionary`, a column of meters that holds strings is dictionary-encoded. Raises
        ArchiveError if a file cannot be read.
        """
        meter = self.policy.columns.meter if needs_dictionary else None
        for group in groups:
            with parquet(group.path, meter, _footer(group.path, _stamp(group.path))) as file:
                batches = file.iter_batches(batch_rows, row_groups=[group.row_group], columns=columns)
                while (batch := attempt(group.path, partial(next, batches, None))) is not None:
                    yield _add_zone(batch, self.policy)

    def chunks(self, first: int, size: int) -> Iterator[list[pa.RecordBatch]]:
        """Yield the rows from `first` on in chunks of `size` rows; the last chunk may be smaller.

        A chunk is a list of batches. The ends of files and row groups affect the batches, never the chunks.
        """
        chunk: list[pa.RecordBatch] = []
        row, count = 0, 0
        for group in self.groups:
            if row + group.rows <= first:
                row += group.rows
                continue
            for batch in self.read([group], list(self.policy.columns), size):
                low, high = max(first - row, 0), batch.num_rows
                row += batch.num_rows
                while low < high:
                    rows = min(high - low, size - count)
                    chunk.append(batch.slice(low, rows))
                    low, count = low + rows, count + rows
                    if count == size:
                        yield chunk
                        chunk, count = [], 0
        if chunk:
            yield chunk


@lru_cache(maxsize=1)
def _footer(path: Path, stamp: tuple[int, ...]) -> pq.FileMetaData:  # noqa: ARG001  part of the cache's key
    """Return a file's footer, cached: every row group is read with it, and it may be long."""
    return attempt(path, lambda: pq.read_metadata(path))


def _data(path: Path) -> list[Path]:
    """Return an input's files, sorted. Raises ArchiveError if there are none, or a link to a folder."""
    if not path.is_dir():
        return [path]
    visible_entries = [
        entry
        for entry in path.rglob("*")
        if not any(part[0] in "._" for part in entry.relative_to(path).parts)
    ]
    for entry in visible_entries:
        if entry.is_symlink() and entry.is_dir():
            raise ArchiveError(f"{entry}: a link to a folder is not followed: put the folder itself there")
    files = [entry for entry in visible_entries if entry.suffix.lower() == ".parquet" and entry.is_file()]
    if not files:
        raise ArchiveError(f"{path}: there are no *.parquet files in this folder")
    return sorted(files)


def _stamp(path: Path) -> tuple[int, ...]:
    """Return values that change when a file is replaced or written to."""
    with _path_in_errors(path):
        status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


@contextmanager
def _path_in_errors(path: Path) -> Iterator[None]:
    """Turn a system error into an ArchiveError that names the file."""
    try:
        yield
    except OSError as error:
        raise ArchiveError(f"{path}: {(error.strerror or 'cannot be read').lower()}") from None


def _layout(file: pq.ParquetFile, policy: Policy, path: Path) -> Layout:
    """Return the layout of a file."""
    schema = file.schema_arrow
    if _is_int96(file, policy.columns.time):  # these are in UTC, by the convention of Spark and Impala
        index = schema.get_field_index(policy.columns.time)
        schema = schema.set(index, pa.field(policy.columns.time, _UTC_MS))
    try:
        return layout_of(schema, policy)
    except ArchiveError as error:
        raise ArchiveError(f"{path}: {error}") from None


def _is_int96(file: pq.ParquetFile, name: str) -> bool:
    """Return whether a column has 96-bit times."""
    columns = (file.schema.column(index) for index in range(len(file.schema)))
    return any(column.path == name and column.physical_type == "INT96" for column in columns)


def _add_zone(batch: pa.RecordBatch, policy: Policy) -> pa.RecordBatch:
    """Set the zone of 96-bit times, which have none, to UTC. Other times without a zone have been refused."""
    index = batch.schema.get_field_index(policy.columns.time)
    if index < 0 or batch.column(index).type.tz is not None:
        return batch
    field = pa.field(policy.columns.time, _UTC_MS)
    return batch.set_column(index, field, batch.column(index).cast(pa.timestamp("ms")).view(_UTC_MS))


def _groups(file: pq.ParquetFile, policy: Policy, path: Path) -> Iterator[Group]:
    """Yield the row groups of a file, with the smallest and largest values from its statistics."""
    for index in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(index)
        columns = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
        times = _extremes(columns.get(policy.columns.time), datetime)
        times_ms = None if times is None else (_floor_ms(times[0]), _floor_ms(times[1]))
        names = _extremes(columns.get(policy.columns.meter), str)
        value_columns = (c for name, c in columns.items() if name.split(".")[0] == policy.columns.value)
        values = next((column.num_values for column in value_columns), 0)
        yield Group(path, index, group.num_rows, times_ms, names, values)


def _floor_ms(time: datetime) -> int:
    """Return a time in milliseconds, rounded down."""
    # This uses integers, because a float's rounding error could exclude a row group's last window.
    return (time - _EPOCH) // _MILLISECOND


def _extremes(column: Any, kind: type[T]) -> tuple[T, T] | None:
    """Return a column's smallest and largest value; None if its statistics lack them or are not of `kind`."""
    if column is None or not column.is_stats_set or not column.statistics.has_min_max:
        return None
    with suppress(ValueError, OverflowError):  # times may be beyond Python's range
        low, high = column.statistics.min, column.statistics.max
        return (low, high) if isinstance(low, kind) and isinstance(high, kind) else None
    return None
