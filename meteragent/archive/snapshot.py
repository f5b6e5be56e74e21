"""A table as an input: a snapshot of the table lists its files, and the rows to read in each.

The folder of a Delta or Iceberg table also contains rows that were replaced or deleted, so not all its files
are read. For each file to read, a snapshot states which rows are deleted, and the names or field ids of the
table's columns. A `FileView` applies this wherever the file is read, on every engine. A feature that cannot
be applied is refused by name, before anything is debited.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from meteragent import extras
from meteragent.archive.acceptance import require_one_column
from meteragent.archive.policy import Columns, Integers
from meteragent.archive.tree import Tree
from meteragent.domain.errors import ArchiveError

T = TypeVar("T")

WAY = "restore it, or choose another output for the table's present rows"
"""What to do if the snapshot with which a run began no longer exists."""


class Version(NamedTuple):
    """The ids of a snapshot: of its table, of itself (in Delta, a version) and, in Iceberg, of its schema."""

    kind: str
    table: str
    snapshot: str
    schema: int | None = None


@dataclass(frozen=True)
class FileView:
    """How a file is read as a part of a table.

    `names` maps the table's columns to their names in the file or, before `resolve`, to field ids.
    `constants` are the values of columns that no file contains. `deleted` are the positions of deleted rows,
    in order. `ids` are the field ids of columns in files that do not state any.
    """

    names: dict[str, str | int]
    constants: dict[str, str]
    deleted: Integers
    ids: dict[str, int] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """A digest of the view, which together with the file's content determines the rows that are read."""
        deleted = hashlib.sha256(self.deleted.astype("<i8").tobytes()).hexdigest()
        return hashlib.sha256(json.dumps([self.names, self.constants, deleted]).encode()).hexdigest()

    def resolve(self, path: str, file: pa.Schema) -> "FileView":
        """Return a file's view, given its schema. Raises ArchiveError if a column is missing or duplicate."""
        names: dict[str, str | int] = {}
        ids = {item.name: int((item.metadata or {}).get(b"PARQUET:field_id", -1)) for item in file}
        if max(ids.values(), default=-1) < 0:
            ids |= {name: self.ids.get(name, -1) for name in ids}
        for column, key in self.names.items():
            matches = [name for name, id_ in ids.items() if key in (name, id_)]
            if len(matches) != 1 or file.names.count(matches[0]) != 1:
                raise ArchiveError(
                    f"{path}: not one column {column!r} in this file of a table: rewrite the table"
                )
            names[column] = matches[0]
        return replace(self, names=names)

    def name(self, column: str) -> str:
        """Return the name of a column in the file."""
        return str(self.names.get(column, column))

    def schema(self, file: pa.Schema) -> pa.Schema:
        """Return the table's columns with their types in a file that has the schema `file`."""
        fields = [file.field(name).with_name(column) for column, name in self.names.items()]
        return pa.schema([*fields, *((name, pa.string()) for name in self.constants)]) if fields else file

    def count(self, first: int, rows: int) -> int:
        """Return how many of `rows` rows from position `first` on are not deleted."""
        low, high = np.searchsorted(self.deleted, [first, first + rows])
        return rows - int(high - low)

    def select_columns(self, batch: pa.RecordBatch, columns: list[str], first: int) -> pa.RecordBatch:
        """Return the table's columns of a batch's remaining rows; the batch begins at position `first`."""
        if not self.names:
            return batch
        keeps = np.ones(batch.num_rows, np.bool_)
        low, high = np.searchsorted(self.deleted, [first, first + batch.num_rows])
        keeps[self.deleted[low:high] - first] = False
        rows = batch.filter(pa.array(keeps)) if low < high else batch
        constants = {name: pa.repeat(value, rows.num_rows) for name, value in self.constants.items()}
        arrays = [constants[name] if name in constants else rows.column(self.names[name]) for name in columns]
        return pa.RecordBatch.from_arrays(arrays, names=columns)


PLAIN = FileView({}, {}, np.empty(0, np.int64))
"""The view of a file that does not belong to a table: all of it, unchanged."""


class Snapshot(NamedTuple):
    """A snapshot of a table, and the views of its files by path, in order."""

    version: Version
    views: dict[str, FileView]


def open_snapshot(tree: Tree, columns: Columns, pins: Callable[[], Sequence[Version]]) -> Snapshot | None:
    """Return the latest snapshot of the table at a tree, or the one in `pins`; None if there is no table.

    `pins` returns the snapshots whose runs must be resumed. Raises ArchiveError if the table is refused.
    """
    if not (is_iceberg := tree.root.endswith(".metadata.json")) and not tree.entries("_delta_log"):
        return None
    reader = _reader("Iceberg" if is_iceberg else "Delta", tree.root)
    snapshot: Snapshot = reader.snapshot(tree, columns, {pin.table: pin for pin in pins()})
    if not snapshot.views:
        raise ArchiveError(f"{tree.root}: the table has no rows: there is nothing to release")
    for info in tree.system.get_file_info(list(snapshot.views)):
        if not info.is_file:
            id_ = snapshot.version.snapshot
            raise ArchiveError(f"{info.path}: a file of snapshot {id_} of the table is missing: {WAY}")
    return snapshot


def metadata_address(name: str) -> str:
    """Return the address of the metadata of an Iceberg table, from its catalog. Raises ArchiveError."""
    return str(_reader("Iceberg", f"iceberg://{name}").metadata_address(name))


def _reader(kind: str, place: str) -> Any:
    """Return the module that reads a kind of tables. Raises ArchiveError if its library is not installed."""
    if (module := extras.missing_module("tables")) is not None:
        raise ArchiveError(f"{place}: a table of {kind}: reading it needs {module}: {extras.hint('tables')}")
    from meteragent.archive import delta, iceberg  # noqa: PLC0415  the extra may be missing

    return delta if kind == "Delta" else iceberg


def find_columns(fields: dict[str, T], columns: Columns) -> dict[str, T]:
    """Return a table's fields of the columns that a policy names. Raises ArchiveError if one is missing."""
    for column in columns:
        require_one_column(list(fields), column)
    return {column: fields[column] for column in columns}
