"""Tables for tests: Delta and Iceberg as their libraries write them, and what those cannot write, by hand."""

import json
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestWriterV2,
    write_manifest_list,
)
from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate
from pyiceberg.typedef import Record
from pyroaring import BitMap

from tests.support.archives import WIDE, wide_rows

_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def wide(homes: int, days: int, seed: int = 0) -> pa.Table:
    """Return rows of the wide layout, as Delta and Iceberg keep their times."""
    rows = wide_rows(homes, days, seed=seed)
    table = pa.table({name: [row[name] for row in rows] for name in WIDE.names}, schema=WIDE)
    return table.set_column(1, "time", table.column("time").cast(pa.timestamp("us", "UTC")))


def add_version(folder: Path, *actions: dict[str, Any]) -> None:
    """Add a version to the log of a Delta table."""
    log = folder / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    path = log / f"{len(list(log.glob('*.json'))):020}.json"
    path.write_text("\n".join(map(json.dumps, actions)))


def last_actions(folder: Path, kind: str) -> list[dict[str, Any]]:
    """Return the actions of a kind in the last version of a Delta table that has any."""
    for path in sorted((folder / "_delta_log").glob("*.json"), reverse=True):
        lines = map(json.loads, path.read_text().splitlines())
        if actions := [line[kind] for line in lines if kind in line]:
            return actions
    raise AssertionError(kind)


def protocol(*features: str) -> dict[str, Any]:
    """Return the action that makes a Delta table need features."""
    named = {"readerFeatures": list(features), "writerFeatures": list(features)}
    return {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7} | named}


def vector(positions: list[int]) -> dict[str, Any]:
    """Return a deletion vector of Delta, inline."""
    content = struct.pack("<IqI", 1681511377, 1, 0) + BitMap(positions).serialize()
    padded = content + bytes(-len(content) % 4)
    text = ""
    for index in range(0, len(padded), 4):
        number = int.from_bytes(padded[index : index + 4], "big")
        text += "".join(_Z85[number // 85**place % 85] for place in range(4, -1, -1))
    facts = {"sizeInBytes": len(content), "cardinality": len(positions)}
    return {"storageType": "i", "pathOrInlineDv": text} | facts


def _mapping(number: int, name: str) -> dict[str, Any]:
    """Return what the schema of a Delta table says of a column's id and name in files."""
    return {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": name}


def mapped_delta(folder: Path, rows: pa.Table, mode: str, positions: list[int]) -> None:
    """Write a Delta table with column mapping, partitioned by meter, of which each file lacks `positions`."""
    swapped = {"meter": "time", "time": "value", "value": "meter"}  # names that mislead
    array = {"type": "array", "elementType": "integer", "containsNull": True}
    types: dict[str, Any] = {"meter": "string", "time": "timestamp", "value": array}
    fields = [
        {"name": name, "type": types[name], "nullable": True, "metadata": _mapping(number, swapped[name])}
        for number, name in enumerate(swapped, 1)
    ]
    metadata = {"id": "0b4c", "format": {"provider": "parquet", "options": {}}, "createdTime": 1}
    metadata |= {"schemaString": json.dumps({"type": "struct", "fields": fields})}
    metadata |= {"partitionColumns": ["meter"], "configuration": {"delta.columnMapping.mode": mode}}
    adds = []
    for meter in rows.column("meter").unique().to_pylist():
        place = f"time={quote(meter)}/a b.parquet"
        path = folder / place
        path.parent.mkdir(parents=True)
        mine = rows.filter(pc.equal(rows.column("meter"), meter)).select(["time", "value"])
        names = [swapped[name] if mode == "name" else f"x {name}" for name in mine.column_names]
        columns = [
            pa.field(name, kind, metadata={"PARQUET:field_id": str(number)})
            for number, (name, kind) in enumerate(zip(names, mine.schema.types, strict=True), 2)
        ]
        pq.write_table(pa.Table.from_arrays(mine.columns, schema=pa.schema(columns)), path)
        add = {"path": quote(place), "partitionValues": {"time": meter}, "size": path.stat().st_size}
        add |= {"modificationTime": 1, "dataChange": True, "deletionVector": vector(positions)}
        adds.append({"add": add | {"stats": json.dumps({"numRecords": mine.num_rows, "tightBounds": False})}})
    add_version(folder, protocol("columnMapping", "deletionVectors"), {"metaData": metadata}, *adds)


@contextmanager
def catalog(folder: Path, **more: str) -> Iterator[Catalog]:
    """Yield a catalog of Iceberg tables in SQLite, with the namespace `n`."""
    folder.mkdir(exist_ok=True)
    places = {"uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}
    lake = load_catalog("here", type="sql", **places | more)
    lake.create_namespace_if_not_exists("n")
    yield lake
    lake.close()


class _DeleteManifest(ManifestWriterV2):
    """A manifest of delete files, which pyiceberg reads but does not write."""

    def content(self) -> ManifestContent:
        """Return what the manifest lists."""
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        """The header of the file."""
        return super()._meta | {"content": "deletes"}


def commit_deletes(
    table: Table, path: Path, kind: FileFormat, *, equality_ids: list[int] | None = None
) -> None:
    """Commit a delete file to an Iceberg table."""
    current = table.current_snapshot()
    assert current is not None
    id_, number, base = (
        table.metadata.new_snapshot_id(),
        (current.sequence_number or 0) + 1,
        f"{table.location()}/metadata",
    )
    content = DataFileContent.EQUALITY_DELETES if equality_ids else DataFileContent.POSITION_DELETES
    numbers: dict[str, Any] = {
        "record_count": 1,
        "file_size_in_bytes": path.stat().st_size,
        "equality_ids": equality_ids,
    }
    file = DataFile.from_args(
        content=content, file_path=f"file://{path}", file_format=kind, partition=Record(), **numbers
    )
    file.spec_id = 0
    with _DeleteManifest(
        table.spec(), table.schema(), table.io.new_output(f"{base}/{id_}-m.avro"), id_, "null"
    ) as writer:
        writer.add_entry(
            ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, snapshot_id=id_, data_file=file)
        )
    manifests = [writer.to_manifest_file(), *current.manifests(table.io)]
    output = table.io.new_output(f"{base}/{id_}-list.avro")
    with write_manifest_list(2, output, id_, current.snapshot_id, number, "null") as listed:
        listed.add_manifests(manifests)
    snapshot = Snapshot(
        snapshot_id=id_,
        parent_snapshot_id=current.snapshot_id,
        sequence_number=number,
        manifest_list=output.location,
        summary=Summary(Operation.DELETE),
        schema_id=current.schema_id,
    )
    branch = SetSnapshotRefUpdate.model_validate(
        {"ref-name": "main", "type": SnapshotRefType.BRANCH, "snapshot-id": id_}
    )
    table.catalog.commit_table(table, (), (AddSnapshotUpdate(snapshot=snapshot), branch))


def position_deletes(folder: Path, deleted: dict[str, list[int]]) -> Path:
    """Write a file of position deletes of Iceberg."""
    rows = [(path, position) for path, positions in deleted.items() for position in positions]
    paths, positions = zip(*rows, strict=True)
    table = pa.table({"file_path": paths, "pos": pa.array(positions, pa.int64())})
    pq.write_table(table, folder / "deletes.parquet")
    return folder / "deletes.parquet"
