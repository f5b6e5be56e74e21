"""List the files of an archive's input, and read them in pieces.

An input is one Parquet file, or a folder. In a folder, all files `*.parquet` are read, at any depth. Files
and subfolders whose names begin with a dot or an underscore are skipped. The files of a table are those of a
snapshot, each with a view. The input must not change while it is being read: every machine refuses a file
that differs from the one listed. Errors name files and columns but do not quote their content, so Arrow's own
messages about a file are never passed on.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from meteragent.archive.acceptance import Layout, layout_of
from meteragent.archive.csv_file import CsvTable
from meteragent.archive.files import attempt_read, open_parquet
from meteragent.archive.mapping import Mapping
from meteragent.archive.policy import Columns, Policy
from meteragent.archive.snapshot import PLAIN, FileView, Version, open_snapshot
from meteragent.archive.tree import Stamp, Tree
from meteragent.domain.errors import ArchiveError

T = TypeVar("T")

_UTC_MS = pa.timestamp("ms", tz="UTC")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


class Group(NamedTuple):
    """A row group of a file: its earliest and latest time, and its first and last meter, where known."""

    file: str
    row_group: int
    rows: int
    times_ms: tuple[int, int] | None
    meters: tuple[str, str] | None
    values: int
    """The length of the value column, with lists flattened (a null or empty list is one value)."""
    first: int = 0
    """The position of the group's first row in its file."""


@dataclass(frozen=True)
class Source:
    """An input whose files have been listed and checked."""

    layout: Layout
    groups: tuple[Group, ...]
    stamps: dict[str, Stamp]
    policy: Policy
    tree: Tree
    csv: dict[str, CsvTable] = field(default_factory=dict)
    ambiguous_readings: int = 0  # at local times that occur twice, told apart by the order of rows
    views: dict[str, FileView] = field(default_factory=dict)
    table: Version | None = None

    @classmethod
    def open(cls, tree: Tree, policy: Policy, pins: Callable[[], Sequence[Version]] = tuple) -> "Source":
        """List and check the files. Raises ArchiveError if there is none, or a file or column is wrong.

        If the input is a table, its snapshot is the one in `pins` or, without one, the latest.
        """
        table = open_snapshot(tree, policy.columns, pins)
        is_csv = table is None and tree.path is not None and tree.path.suffix.lower() != ".parquet"
        if policy.csv and is_csv and not any(Path(tree.root).rglob("*.[pP][aA][rR][qQ][uU][eE][tT]")):
            return cls._open_csv(tree, policy, policy.csv)
        if tree.root.lower().endswith(".csv"):
            raise ArchiveError(f"{tree.root}: CSV needs an [archive.csv] table, which says how to read it")
        groups: list[Group] = []
        layouts: set[Layout] = set()
        stamps = {file: tree.stamp(file) for file in (table.views if table else tree.files())}
        views, version = (table.views, table.version) if table else ({}, None)
        for path in stamps:
            with open_parquet(path, opened=partial(tree.open, path)) as file:
                if path in views:
                    views[path] = views[path].resolve(path, file.schema_arrow)
                view = views.get(path, PLAIN)
                layouts.add(_file_layout(file, policy, path, view))
                groups.extend(_row_groups(file, policy, path, view))
        if len(layouts) > 1:
            raise ArchiveError(f"{tree.root}: some files are wide and others long: release them separately")
        return cls(layouts.pop(), tuple(groups), stamps, policy, tree, views=views, table=version)

    @classmethod
    def _open_csv(cls, tree: Tree, policy: Policy, mapping: Mapping) -> "Source":
        """List the files, and check every cell."""
        stamps = {file: tree.stamp(file) for file in tree.files(mapping.files.lower())}
        folder = tree.root if tree.root not in stamps else Path(tree.root).parent
        names = {file: Path(file).with_suffix("").relative_to(folder).as_posix() for file in stamps}
        if "meter" not in mapping.parts and (tree.root in stamps or len(set(names.values())) < len(names)):
            problem = "needs a folder of files whose names differ before their ends: they name the meters"
            raise ArchiveError(f"{tree.root}: meters = 'path' {problem}")
        groups, tables = list[Group](), dict[str, CsvTable]()
        for file, name in names.items():
            tables[file] = CsvTable(Path(file), mapping, name)
            for index, block in enumerate(tables[file].blocks):
                groups.append(Group(file, index, block.rows, block.times_ms, block.meters, block.rows))
        count = sum(table.ambiguous_readings for table in tables.values())
        return cls("long", tuple(groups), stamps, policy, tree, tables, count)

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
        for file in self.stamps:
            self._check_file(file)

    def _check_file(self, file: str) -> None:
        """Raise ArchiveError if a file is not the one that was listed."""
        if self.tree.stamp(file) != self.stamps[file]:
            raise ArchiveError(f"{file}: changed while it was being read: nothing more is released")

    def digests(self, progress: Callable[[int], object]) -> list[str]:
        """Compute the SHA-256 of each file's content, and report the number of bytes read to `progress`."""
        return [self.tree.digest(file, progress) for file in self.stamps]

    @property
    def view_digests(self) -> list[str]:
        """Digests of the views of a table's files, in order."""
        return [view.digest for view in self.views.values()]

    def is_whole(self, group: Group) -> bool:
        """Return whether a group's file has no deleted rows, so that statistics describe the rows read."""
        return not self.views.get(group.file, PLAIN).deleted.size

    def read(
        self, groups: Iterable[Group], columns: list[str], batch_rows: int, *, needs_dictionary: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """Yield columns of row groups, in order, at most `batch_rows` rows at a time.

        With `needs_dictionary`, a column of meters that holds strings is dictionary-encoded. Raises
        ArchiveError if a file cannot be read, or is not the one that was listed.
        """
        meter = self.policy.columns.meter
        for group in groups:
            self._check_file(group.file)
            if group.file in self.csv:
                block = self.csv[group.file].read(group.row_group, self.policy.columns, columns)
                yield from (block.slice(start, batch_rows) for start in range(0, group.rows, batch_rows))
                continue
            view, first = self.views.get(group.file, PLAIN), group.first
            footer = _read_footer(self.tree, group.file, self.stamps[group.file])
            opened = partial(self.tree.open, group.file)
            in_file = [view.name(column) for column in columns if column not in view.constants]
            encoded = view.name(meter) if needs_dictionary and meter not in view.constants else None
            with open_parquet(group.file, encoded, footer, opened) as file:
                batches = file.iter_batches(batch_rows, row_groups=[group.row_group], columns=in_file)
                while (batch := attempt_read(group.file, partial(next, batches, None))) is not None:
                    rows, first = view.select_columns(batch, columns, first), first + batch.num_rows
                    if rows.num_rows:
                        yield _add_zone(rows, self.policy)

    def chunks(self, first: int, size: int) -> Iterator[list[pa.RecordBatch]]:
        """Yield the rows from `first` on in chunks of `size` rows, which may span files and row groups."""
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
def _read_footer(tree: Tree, file: str, stamp: Stamp) -> pq.FileMetaData:  # noqa: ARG001  part of the cache's key
    """Return a file's footer, cached, because it is needed for every row group and may be long."""
    return attempt_read(file, lambda: pq.read_metadata(tree.open(file)))


def _file_layout(file: pq.ParquetFile, policy: Policy, path: str, view: FileView) -> Layout:
    schema, time = view.schema(file.schema_arrow), view.name(policy.columns.time)
    columns = map(file.schema.column, range(len(file.schema)))
    # 96-bit times are in UTC, by the convention of Spark and Impala.
    if any(column.path == time and column.physical_type == "INT96" for column in columns):
        index = schema.get_field_index(policy.columns.time)
        schema = schema.set(index, pa.field(policy.columns.time, _UTC_MS))
    try:
        return layout_of(schema, policy)
    except ArchiveError as error:
        raise ArchiveError(f"{path}: {error}") from None


def _add_zone(batch: pa.RecordBatch, policy: Policy) -> pa.RecordBatch:
    """Set the zone of 96-bit times, which have none, to UTC. Other times without a zone have been refused."""
    index = batch.schema.get_field_index(policy.columns.time)
    if index < 0 or batch.column(index).type.tz is not None:
        return batch
    field = pa.field(policy.columns.time, _UTC_MS)
    return batch.set_column(index, field, batch.column(index).cast(pa.timestamp("ms")).view(_UTC_MS))


def _row_groups(file: pq.ParquetFile, policy: Policy, path: str, view: FileView) -> Iterator[Group]:
    """Yield the row groups of a file, with the smallest and largest values from its statistics."""
    names, first = Columns(*map(view.name, policy.columns)), 0
    meter = view.constants.get(policy.columns.meter)
    for index in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(index)
        columns = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
        times = _column_extremes(columns.get(names.time), datetime)
        times_ms = None if times is None else (_floor_ms(times[0]), _floor_ms(times[1]))
        meters = _column_extremes(columns.get(names.meter), str) if meter is None else (meter, meter)
        value_columns = (c for name, c in columns.items() if name.split(".")[0] == names.value)
        values = next((column.num_values for column in value_columns), 0)
        yield Group(path, index, view.count(first, group.num_rows), times_ms, meters, values, first)
        first += group.num_rows


def _floor_ms(time: datetime) -> int:
    # This uses integers, because a float's rounding error could exclude a row group's last window.
    return (time - _EPOCH) // _MILLISECOND


def _column_extremes(column: Any, kind: type[T]) -> tuple[T, T] | None:
    """Return a column's smallest and largest value; None if its statistics lack them or are not of `kind`."""
    if column is None or not column.is_stats_set or not column.statistics.has_min_max:
        return None
    with suppress(ValueError, OverflowError):  # times may be beyond Python's range
        low, high = column.statistics.min, column.statistics.max
        return (low, high) if isinstance(low, kind) and isinstance(high, kind) else None
    return None
