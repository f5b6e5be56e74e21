"""Iceberg tables: open one with `pyiceberg`, without a JVM, and list the files of one snapshot.

Field ids, the mapping of names to ids and position deletes are applied. Equality deletes, deletion vectors
(Puffin), encryption, and files other than Parquet or without field ids are refused. Iceberg is an input only.
"""

from collections.abc import Mapping
from functools import cache, partial

import numpy as np
import pyarrow.parquet as pq
from pyiceberg.catalog import load_catalog
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestContent
from pyiceberg.table import FileScanTask, StaticTable, Table
from pyiceberg.table.snapshots import Snapshot as IcebergSnapshot

from meteragent.archive.files import attempt_read
from meteragent.archive.policy import Columns, Integers
from meteragent.archive.snapshot import PLAIN, WAY, FileView, Snapshot, Version, find_columns
from meteragent.archive.tree import Tree
from meteragent.domain.errors import ArchiveError


def metadata_address(name: str) -> str:
    """Return the address of the current metadata of `CATALOG/NAMESPACE.TABLE`. Raises ArchiveError."""
    catalog, _, table = name.partition("/")
    try:
        return load_catalog(catalog).load_table(table).metadata_location
    except Exception as error:  # noqa: BLE001 -- a catalog may be any service
        reason = type(error).__name__
    raise ArchiveError(
        f"iceberg://{name}: {reason}: expected iceberg://CATALOG/NAMESPACE.TABLE, with a catalog that the"
        " configuration of pyiceberg has"
    )


def snapshot(tree: Tree, columns: Columns, pins: Mapping[str, Version]) -> Snapshot:
    """Return a table's current snapshot, or the one in `pins` if there is one. Raises ArchiveError."""
    table = _load_table(tree)
    id_, current = str(table.metadata.table_uuid), table.current_snapshot()
    latest = Version("Iceberg", id_, str(current and current.snapshot_id), table.schema().schema_id)
    if current is None:
        return Snapshot(latest, {})
    version = pins.get(id_, latest)
    chosen = table.snapshot_by_id(int(version.snapshot))
    schema = table.schemas().get(version.schema or 0)
    if chosen is None or schema is None:
        raise ArchiveError(f"{tree.root}: an Iceberg table without snapshot {version.snapshot}: {WAY}")
    names = find_columns({field.name: field.field_id for field in schema.fields}, columns)
    deletes, views = cache(partial(_deleted_positions, tree)), {}
    mapped = {name: item.field_id for item in table.name_mapping() or () for name in item.names}
    ids = {name: id_ for name, id_ in mapped.items() if id_ is not None}
    for task in _scan_tasks(table, chosen, tree):
        path = task.file.file_path
        positions = [PLAIN.deleted, *(deletes(file).get(path, PLAIN.deleted) for file in task.delete_files)]
        views[tree.locate(path)] = FileView({**names}, {}, np.unique(np.concatenate(positions)), ids)
    return Snapshot(version, dict(sorted(views.items())))


def _load_table(tree: Tree) -> Table:
    """Return the table of a metadata file. Raises ArchiveError if it cannot be read."""
    address, options = tree.address
    try:
        return StaticTable.from_metadata(address, {f"s3.{name}": value for name, value in options.items()})
    except Exception as error:  # noqa: BLE001 -- its text may hold values
        reason = type(error).__name__
    raise ArchiveError(f"{address}: the metadata of an Iceberg table, which cannot be read: {reason}")


def _scan_tasks(table: Table, chosen: IcebergSnapshot, tree: Tree) -> list[FileScanTask]:
    """Return a snapshot's files with their delete files. Raises ArchiveError if these cannot be applied."""
    lists = [item for item in chosen.manifests(table.io) if item.content == ManifestContent.DELETES]
    for entry in (entry for item in lists for entry in item.fetch_manifest_entry(table.io)):
        if entry.data_file.content == DataFileContent.EQUALITY_DELETES:
            raise ArchiveError(f"{tree.root}: an Iceberg table with equality deletes: compact it first")
    tasks = list(table.scan(snapshot_id=chosen.snapshot_id).plan_files())
    for file in (file for task in tasks for file in (task.file, *task.delete_files)):
        if file.key_metadata is not None:
            raise ArchiveError(f"{file.file_path}: an encrypted file of an Iceberg table")
        if file.file_format != FileFormat.PARQUET:
            raise ArchiveError(f"{file.file_path}: a file of an Iceberg table in {file.file_format.name}")
    return tasks


def _deleted_positions(tree: Tree, file: DataFile) -> dict[str, Integers]:
    """Return the positions that a delete file deletes, by the data file's address."""
    path = tree.locate(file.file_path)
    rows = attempt_read(path, lambda: pq.read_table(tree.open(path), columns=["file_path", "pos"]))
    names = rows.column("file_path").combine_chunks().dictionary_encode()
    index = np.asarray(names.indices)
    order = np.argsort(index, kind="stable")
    ends = np.cumsum(np.bincount(index, minlength=len(names.dictionary)))
    pieces = np.split(np.asarray(rows.column("pos"))[order], ends[:-1])
    return dict(zip(names.dictionary.to_pylist(), pieces, strict=True))
