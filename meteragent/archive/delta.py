"""Delta tables: open one with `deltalake`, without a JVM, and list the files of one version.

Partition values, column mapping and deletion vectors are applied. A table that requires another feature of
its readers is refused, with the feature's name.
"""

import re
from collections.abc import Mapping
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from meteragent.archive.policy import Columns, Integers
from meteragent.archive.snapshot import PLAIN, WAY, FileView, Snapshot, Version, find_columns
from meteragent.archive.tree import Tree
from meteragent.domain.errors import ArchiveError

_READABLE = {"columnMapping", "deletionVectors", "timestampNtz", "typeWidening", "typeWidening-preview"}
_READABLE |= {"v2Checkpoint", "vacuumProtocolCheck"}
"""The features that are supported, by `deltalake`, by this module or by the types in the files."""
_FEATURE = re.compile(r"Feature '[\w-]+' is not supported|catalog-managed table")
"""The parts of errors of `deltalake` that may be quoted; other parts may contain values from the log."""


def load_table(tree: Tree, version: int | None = None) -> DeltaTable:
    """Return the Delta table at a tree, at `version` or the latest one. Raises ArchiveError if that fails."""
    if "%" in tree.root or "\\" in tree.root:  # `deltalake` would read another folder
        raise ArchiveError(
            f"{tree.root}: a Delta table under a name with a percent sign or a backslash: rename it"
        )
    address, settings = tree.address
    options = {f"aws_{name}": value for name, value in settings.items()}
    if settings.get("endpoint", "").startswith("http:"):
        options["aws_allow_http"] = "true"
    try:
        table = DeltaTable(tree.path.as_uri() if tree.path else address, version, options)
        unreadable = {*(table.protocol().reader_features or [])} - _READABLE
        if not unreadable:
            return table
        reason = f"it needs {', '.join(sorted(unreadable))}"
    except (DeltaError, OSError, ValueError) as error:
        feature = _FEATURE.search(str(error))
        reason = feature[0] if feature else type(error).__name__
    if version is not None:
        reason = f"version {version}: {reason}: {WAY}"
    raise ArchiveError(f"{tree.root}: a Delta table that cannot be read: {reason}")


def snapshot(tree: Tree, columns: Columns, pins: Mapping[str, Version]) -> Snapshot:
    """Return a table's latest version, or the one in `pins` if there is one. Raises ArchiveError."""
    table = load_table(tree)
    id_ = str(table.metadata().id)
    if id_ in pins:
        table = load_table(tree, int(pins[id_].snapshot))
    partitions, names = set(table.metadata().partition_columns), _column_finders(table, columns)
    if partitions & {columns.time, columns.value}:
        raise ArchiveError(f"{tree.root}: partitioned by the column of times or of values: not supported")
    names = {name: key for name, key in names.items() if name not in partitions}
    deleted, views, actions = _deleted_positions(table, tree), {}, pa.table(table.get_add_actions())
    for row in actions.select(sorted({"path", "partition"} & {*actions.column_names})).to_pylist():
        address, constants = unquote(row["path"]), {}
        path = tree.locate(address) if re.match(r"\w*:?/", address) else f"{tree.root}/{address}"
        if columns.meter in partitions:
            if not isinstance(meter := row["partition"][columns.meter], str | int):
                raise ArchiveError(f"{path}: a partition by a meter that is neither text nor an integer")
            constants = {columns.meter: str(meter)}
        views[path] = FileView(names, constants, deleted.pop(path, PLAIN.deleted))
    if deleted:
        raise ArchiveError(f"{tree.root}: deletion vectors of files that are not in the table: not supported")
    return Snapshot(Version("Delta", id_, str(table.version())), dict(sorted(views.items())))


def _column_finders(table: DeltaTable, columns: Columns) -> dict[str, str | int]:
    """Return the names or ids of the columns in files. Raises ArchiveError if the table lacks one."""
    mode = table.metadata().configuration.get("delta.columnMapping.mode", "none")
    fields = find_columns({field.name: field.metadata for field in table.schema().fields}, columns)
    if mode == "none":
        return {name: name for name in fields}
    key = f"delta.columnMapping.{'id' if mode == 'id' else 'physicalName'}"
    return {name: metadata[key] for name, metadata in fields.items()}


def _deleted_positions(table: DeltaTable, tree: Tree) -> dict[str, Integers]:
    """Return the positions that deletion vectors delete, by file."""
    base, vectors = unquote(table.table_uri).rstrip("/") + "/", {}
    for row in pa.RecordBatchReader.from_stream(table.deletion_vectors()):
        for address, keeps in zip(row.column(0).to_pylist(), row.column(1), strict=True):
            path = unquote(address)
            path = f"{tree.root}/{path.removeprefix(base)}" if path.startswith(base) else tree.locate(path)
            vectors[path] = np.flatnonzero(~keeps.values.to_numpy(zero_copy_only=False))
    return vectors
