"""What an archive is read from: which files, what they hold, in pieces. Parquet is the only form today.

An input is one file or a folder of them (names that begin with a dot or an underscore are no data). It must
stay as it is while it is read; that is checked. Errors name files and columns, and repeat nothing of their
content: what Arrow says of a file is never passed on.
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
from meteragent.archive.form import Form, form
from meteragent.archive.policy import Policy
from meteragent.domain.errors import ArchiveError

T = TypeVar("T")

_UTC_MS = pa.timestamp("ms", tz="UTC")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


class Group(NamedTuple):
    """A row group: its file, its place there, its rows, and the first and last time and meter, if known."""

    path: Path
    place: int
    rows: int
    times_ms: tuple[int, int] | None
    meters: tuple[str, str] | None
    values: int
    """How many numbers the column of values has (a null list counts as one)."""


@dataclass(frozen=True)
class Source:
    """An input that was looked at."""

    form: Form
    groups: tuple[Group, ...]
    seen: tuple[tuple[Path, tuple[int, ...]], ...]
    policy: Policy

    @classmethod
    def open(cls, path: Path, policy: Policy) -> "Source":
        """Look at a file or a folder.

        Raises:
            ArchiveError: there is none, it cannot be read, or a column is not what it must be.
        """
        groups: list[Group] = []
        forms: dict[Form, Path] = {}
        seen = tuple((one, _stamp(one)) for one in _data(path))
        for one, _ in seen:
            with parquet(one) as file:
                forms.setdefault(_form(file, policy, one), one)
                groups.extend(_groups(file, policy, one))
        if len(forms) > 1:
            raise ArchiveError(f"{path}: some files are wide and others long: release them apart")
        return cls(next(iter(forms)), tuple(groups), seen, policy)

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return sum(group.rows for group in self.groups)

    @property
    def numbers(self) -> int:
        """How many numbers a row has, about; at least one."""
        return max(1, sum(group.values for group in self.groups) // max(1, self.rows))

    def check(self) -> None:
        """Raises ArchiveError if a file is not the one that was looked at."""
        for path, stamp in self.seen:
            if _stamp(path) != stamp:
                raise ArchiveError(f"{path}: changed while it was read; nothing more is released of it")

    def digests(self, read: Callable[[int], object]) -> list[str]:
        """The SHA-256 of each file's content; `read` is told how many bytes were read."""
        found = []
        for path, _ in self.seen:
            digest = hashlib.sha256()
            with _told(path), path.open("rb") as file:
                while block := file.read(READ_BYTES):
                    digest.update(block)
                    read(len(block))
            found.append(digest.hexdigest())
        return found

    def read(
        self, groups: Iterable[Group], columns: list[str], at_once: int, *, coded: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """Columns of some row groups, in order, at most so many rows at once; meters `coded` as a dictionary.

        Raises ArchiveError when a file cannot be read.
        """
        meter = self.policy.columns.meter if coded else None
        for group in groups:
            with parquet(group.path, meter, _footer(group.path, _stamp(group.path))) as file:
                batches = file.iter_batches(at_once, row_groups=[group.place], columns=columns)
                while (batch := attempt(group.path, partial(next, batches, None))) is not None:
                    yield _with_zone(batch, self.policy)

    def stretches(self, first: int, size: int) -> Iterator[list[pa.RecordBatch]]:
        """Yield the rows from `first` on, so many at once but for the last, in pieces.

        Where files and row groups end makes no difference but to the pieces.
        """
        held: list[pa.RecordBatch] = []
        row, count = 0, 0
        for group in self.groups:
            if row + group.rows <= first:
                row += group.rows
                continue
            for batch in self.read([group], list(self.policy.columns), size):
                low, high = max(first - row, 0), batch.num_rows
                row += batch.num_rows
                while low < high:
                    taken = min(high - low, size - count)
                    held.append(batch.slice(low, taken))
                    low, count = low + taken, count + taken
                    if count == size:
                        yield held
                        held, count = [], 0
        if held:
            yield held


@lru_cache(maxsize=1)
def _footer(path: Path, stamp: tuple[int, ...]) -> pq.FileMetaData:  # noqa: ARG001  it names the content
    """What a file says of itself: with many row groups it is long, and each of them needs it."""
    return attempt(path, lambda: pq.read_metadata(path))


def _data(path: Path) -> list[Path]:
    """The files of an input, in the order of their names.

    Raises ArchiveError for a folder that has none, or folders that would not be looked into.
    """
    if not path.is_dir():
        return [path]
    shown = [
        one for one in path.rglob("*") if not any(part[0] in "._" for part in one.relative_to(path).parts)
    ]
    for one in shown:
        if one.is_symlink() and one.is_dir():
            raise ArchiveError(f"{one}: a folder by a link is not read: put the folder itself there")
    found = [one for one in shown if one.suffix.lower() == ".parquet" and one.is_file()]
    if not found:
        raise ArchiveError(f"{path}: a folder without *.parquet")
    return sorted(found)


def _stamp(path: Path) -> tuple[int, ...]:
    with _told(path):
        one = path.stat()
    return one.st_ino, one.st_size, one.st_mtime_ns


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """An error of the system's, with the file's name."""
    try:
        yield
    except OSError as error:
        raise ArchiveError(f"{path}: {(error.strerror or 'cannot be read').lower()}") from None


def _form(file: pq.ParquetFile, policy: Policy, path: Path) -> Form:
    schema = file.schema_arrow
    if _is_int96(file, policy.columns.time):  # instants in UTC by convention, as Spark and Impala write them
        at = schema.get_field_index(policy.columns.time)
        schema = schema.set(at, pa.field(policy.columns.time, _UTC_MS))
    try:
        return form(schema, policy)
    except ArchiveError as error:
        raise ArchiveError(f"{path}: {error}") from None


def _is_int96(file: pq.ParquetFile, name: str) -> bool:
    columns = (file.schema.column(at) for at in range(len(file.schema)))
    return any(one.path == name and one.physical_type == "INT96" for one in columns)


def _with_zone(batch: pa.RecordBatch, policy: Policy) -> pa.RecordBatch:
    """Times without a zone are those of 96 bits: others were refused."""
    at = batch.schema.get_field_index(policy.columns.time)
    if at < 0 or batch.column(at).type.tz is not None:
        return batch
    field = pa.field(policy.columns.time, _UTC_MS)
    return batch.set_column(at, field, batch.column(at).cast(pa.timestamp("ms")).view(_UTC_MS))


def _groups(file: pq.ParquetFile, policy: Policy, path: Path) -> Iterator[Group]:
    """The row groups of a file, with what its statistics tell."""
    for place in range(file.metadata.num_row_groups):
        found = file.metadata.row_group(place)
        columns = {found.column(at).path_in_schema: found.column(at) for at in range(found.num_columns)}
        times = _ends(columns.get(policy.columns.time), datetime)
        times_ms = None if times is None else (_floor_ms(times[0]), _floor_ms(times[1]))
        names = _ends(columns.get(policy.columns.meter), str)
        of_values = (c for name, c in columns.items() if name.split(".")[0] == policy.columns.value)
        values = next((one.num_values for one in of_values), 0)
        yield Group(path, place, found.num_rows, times_ms, names, values)


def _floor_ms(time: datetime) -> int:
    return (time - _EPOCH) // _MILLISECOND  # exact: a row group whose last window is not seen is lost


def _ends(column: Any, kind: type[T]) -> tuple[T, T] | None:
    """The least and the greatest of a column, where its statistics say them."""
    if column is None or not column.is_stats_set or not column.statistics.has_min_max:
        return None
    with suppress(ValueError, OverflowError):  # what Python's times do not have, bytes that are no text
        least, greatest = column.statistics.min, column.statistics.max
        return (least, greatest) if isinstance(least, kind) and isinstance(greatest, kind) else None
    return None
