"""Tables as inputs: one snapshot of a Delta or Iceberg table is released, and a run keeps to its snapshot."""

import json
import shutil
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.catalog import Catalog
from pyiceberg.manifest import FileFormat
from pyiceberg.table import Table
from pyiceberg.types import LongType
from pyiceberg.utils.config import Config

from meteragent import extras
from meteragent.archive.ledger import Ledger
from meteragent.archive.preview import preview
from meteragent.archive.run import Local, RunResult, sanitise_archive
from meteragent.archive.snapshot import FileView
from meteragent.cli.sanitise import as_json, preview_summary, result_summary
from meteragent.domain.errors import ArchiveError
from tests.support import tables
from tests.support.archives import Place, silent
from tests.support.tables import add_version, last_actions, protocol, wide


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A folder with a key."""
    return Place.make(tmp_path / "place")


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Catalog]:
    """A catalog of Iceberg tables, which the environment names `here`."""
    with tables.catalog(tmp_path / "a lake") as lake:
        for name in ("type", "uri", "warehouse"):
            monkeypatch.setenv(f"PYICEBERG_CATALOG__HERE__{name.upper()}", lake.properties[name])
        monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())  # it was read by the import
        yield lake


def sanitise(place: Place, address: Path | str, out: str = "out") -> RunResult:
    """Release what is at an address."""
    return sanitise_archive(place.policy(), address, place.folder / out, silent)


def assert_releases(place: Place, address: Path | str, rows: pa.Table) -> RunResult:
    """Release a table; the rows released are those of a Parquet file with `rows`, in a place of its own."""
    result = sanitise(place, address)
    other = Place.make(place.folder / "other")
    pq.write_table(rows, other.folder / "in.parquet")
    other.sanitise(other.folder / "in.parquet")
    assert place.released("out").equals(other.released())
    assert {row["meter"] for row in place.ledger()} == {row["meter"] for row in other.ledger()}
    return result


def test_a_delta_table_releases_its_latest_version(place: Place, tmp_path: Path) -> None:
    """Rows that were replaced are not released; the version is in the summary, in JSON and in the ledger."""
    write_deltalake(tmp_path / "t", wide(3, 2))
    write_deltalake(tmp_path / "t", wide(2, 3, seed=1), mode="overwrite")
    write_deltalake(tmp_path / "t", wide(5, 1, seed=2).slice(3), mode="append")
    folder = (tmp_path / "t").rename(tmp_path / "a [1]{2} ü:?#*")
    now = pa.concat_tables([wide(2, 3, seed=1), wide(5, 1, seed=2).slice(3)])
    seen = preview(place.policy(), folder, place.folder / "out", silent)
    result = assert_releases(place, folder, now)
    assert seen.admission == result.admission
    id_ = DeltaTable(folder).metadata().id
    assert f"snapshot       2 of Delta table {id_}" in result_summary(result)
    assert f"snapshot       2 of Delta table {id_}" in preview_summary(seen)
    facts = {"kind": "Delta", "table": str(id_), "snapshot": "2", "schema": None}
    assert json.loads(as_json(result))["table"] == facts
    assert json.loads(Ledger(result.ledger).facts(result.admission.run))["table"] == facts


@pytest.mark.parametrize("meters", [["a b:%20/ü", "007"], [7, 70]], ids=["text", "integers"])
def test_meters_of_partitions(place: Place, tmp_path: Path, meters: list[Any]) -> None:
    """A meter that only the log knows, since tables are divided by it, counts as if it were in the file."""
    rows = wide(2, 2)
    rows = rows.set_column(0, "meter", pa.array(np.repeat(meters, 2)))
    write_deltalake(tmp_path / "t", rows, partition_by=["meter"])
    assert_releases(place, tmp_path / "t", rows)


@pytest.mark.parametrize("mode", ["name", "id"])
def test_column_mapping_and_deletion_vectors(place: Place, tmp_path: Path, mode: str) -> None:
    """Columns are those that the log means, not those of the same name; deleted rows do not count."""
    rows = wide(3, 4)
    tables.mapped_delta(tmp_path / "a [1]?", rows, mode, [0, 2])
    assert_releases(place, tmp_path / "a [1]?", rows.take([1, 3, 5, 7, 9, 11]))


def test_a_version_with_a_deletion_vector(place: Place, tmp_path: Path) -> None:
    """A vector that is added to a file of a library, in which row groups are small, counts."""
    rows = wide(4, 5)
    write_deltalake(tmp_path / "t", rows)
    (add,) = last_actions(tmp_path / "t", "add")
    remove = {"path": add["path"], "deletionTimestamp": 1, "dataChange": True}
    pq.write_table(rows, tmp_path / "t" / add["path"], row_group_size=3)
    size = (tmp_path / "t" / add["path"]).stat().st_size
    add |= {"deletionVector": tables.vector([0, 1, 2, 7, 19]), "size": size}
    add_version(tmp_path / "t", protocol("deletionVectors"), {"remove": remove}, {"add": add})
    kept = [index for index in range(20) if index not in {0, 1, 2, 7, 19}]
    result = assert_releases(place, tmp_path / "t", rows.take(kept))
    assert result.counts
    assert result.counts.numbers == 96 * len(kept)


def test_a_folder_that_is_taken_for_its_neighbour(place: Place, tmp_path: Path) -> None:
    """A name in which the library decodes percent signs is refused; nothing of the neighbour is released."""
    write_deltalake(tmp_path / "a b", wide(2, 2))
    shutil.copytree(tmp_path / "a b", tmp_path / "a%20b")
    with pytest.raises(ArchiveError, match="a%20b: a Delta table under a name with a percent sign"):
        sanitise(place, tmp_path / "a%20b")
    assert place.ledger() == []


def iceberg(lake: Catalog, rows: pa.Table, name: str = "homes", **properties: str) -> Table:
    """Create a table with some rows."""
    table = lake.create_table(f"n.{name}", rows.schema, properties={"format-version": "2"} | properties)
    table.append(rows)
    return table


def test_an_iceberg_table_releases_its_current_snapshot(place: Place, lake: Catalog) -> None:
    """By its catalog's address or by the metadata's file, with the snapshot's id in the facts."""
    table = iceberg(lake, wide(3, 2))
    table.overwrite(wide(2, 3, seed=1))
    result = assert_releases(place, "iceberg://here/n.homes", wide(2, 3, seed=1))
    snapshot = table.current_snapshot()
    assert snapshot
    assert result.table == ("Iceberg", str(table.metadata.table_uuid), str(snapshot.snapshot_id), 0)
    path = Path(table.metadata_location.removeprefix("file://"))
    assert sanitise(place, path).admission.run == result.admission.run
    with pytest.raises(
        ArchiveError, match=r"a Iceberg table, .*: give iceberg://CATALOG/NAMESPACE.TABLE, or"
    ):
        sanitise(place, path.parent.parent)


def test_columns_are_found_by_field_ids(place: Place, lake: Catalog) -> None:
    """Renamed, replaced and widened columns, and meters in partitions, mean what the schema means."""
    rows = wide(2, 2).rename_columns(["value", "meter", "time"])
    table = iceberg(lake, rows)
    with table.update_schema() as change:
        for old, new in {"value": "x", "meter": "y", "time": "z"}.items():
            change.rename_column(old, new)
    with table.update_schema() as change:
        for old, new in {"x": "meter", "y": "time", "z": "value"}.items():
            change.rename_column(old, new)
        change.update_column(("z", "element"), LongType())
    later = wide(3, 2, seed=1).slice(4)
    later = later.set_column(2, "value", later.column("value").cast(pa.list_(pa.int64())))
    table.append(later)
    more = [rows.rename_columns(wide(1, 1).column_names), later]
    assert_releases(place, "iceberg://here/n.homes", pa.concat_tables(more, promote_options="permissive"))


def test_position_deletes(place: Place, lake: Catalog, tmp_path: Path) -> None:
    """Rows that a file of positions deletes do not count; others of that file and later ones do."""
    rows = wide(3, 3)
    table = iceberg(lake, rows)
    (task,) = table.scan().plan_files()
    deleted = {"file:///other": [3], task.file.file_path: [8, 0], "file:///x": [1]}
    tables.commit_deletes(table, tables.position_deletes(tmp_path, deleted), FileFormat.PARQUET)
    later = wide(4, 3).slice(9)
    lake.load_table("n.homes").append(later)
    assert_releases(place, "iceberg://here/n.homes", pa.concat_tables([rows.slice(1, 7), later]))


def test_files_without_field_ids(place: Place, lake: Catalog, tmp_path: Path) -> None:
    """Files of before the table count by its mapping of names, also when a column has another name now."""
    rows = wide(2, 2)
    table = lake.create_table("n.homes", rows.schema)
    pq.write_table(rows, tmp_path / "adopted.parquet")
    table.add_files([f"file://{tmp_path}/adopted.parquet"])
    with table.update_schema() as change:
        change.rename_column("time", "old")
    with table.update_schema() as change:
        change.rename_column("value", "watts")
        change.rename_column("old", "time")
    with table.update_schema() as change:
        change.rename_column("watts", "value")
    later = wide(3, 2, seed=1).slice(4)
    table.append(later)
    assert_releases(place, "iceberg://here/n.homes", pa.concat_tables([rows, later]))


def refused_feature(folder: Path) -> str:
    """A table that only its catalog may read."""
    add_version(folder, protocol("catalogManaged"))
    return "a Delta table that cannot be read: catalog-managed"


def refused_new_feature(folder: Path) -> str:
    """A table with a feature of the future."""
    add_version(folder, protocol("fancyRows"))
    return "cannot be read: Feature 'fancyRows' is not supported"


def refused_log(folder: Path) -> str:
    """A damaged log, of whose text nothing is quoted."""
    (folder / "_delta_log" / "00000000000000000001.json").write_text('{"add": {"secret": 31415}}')
    return r"a Delta table that cannot be read: \w+$"


def refused_file(folder: Path) -> str:
    """A file that is gone."""
    (add,) = last_actions(folder, "add")
    (folder / add["path"]).unlink()
    return f"{add['path']}: a file of snapshot 0 of the table is missing: restore it, or"


def refused_column(folder: Path) -> str:
    """A file from before a column was added."""
    rows = wide(2, 2).append_column("watts", wide(2, 2).column("value")).drop(["value"])
    write_deltalake(
        folder,
        rows.rename_columns(["meter", "time", "value"]).drop(["value"]),
        mode="overwrite",
        schema_mode="overwrite",
    )
    write_deltalake(folder, wide(2, 2, seed=1), mode="append", schema_mode="merge")
    return "not one column 'value' in this file of a table: rewrite the table"


def refused_partition(folder: Path) -> str:
    """Times that only the log knows."""
    shutil.rmtree(folder)
    write_deltalake(folder, wide(1, 1), partition_by=["time"])
    return "partitioned by the column of times or of values: not supported"


def refused_meters(folder: Path) -> str:
    """Rows without a meter."""
    shutil.rmtree(folder)
    rows = wide(1, 1)
    write_deltalake(
        folder, rows.set_column(0, "meter", pa.array([None], pa.string())), partition_by=["meter"]
    )
    return "a partition by a meter that is neither text nor an integer"


def refused_name(folder: Path) -> str:
    """A column of another name."""
    shutil.rmtree(folder)
    write_deltalake(folder, wide(1, 1).rename_columns(["meter", "time", "watts"]))
    return "column 'value': not found among 'meter', 'time', 'watts': name the right one"


def refused_no_rows(folder: Path) -> str:
    """A table of which everything was deleted."""
    DeltaTable(folder).delete()
    return "the table has no rows: there is nothing to release"


REFUSED: list[Callable[[Path], str]] = [
    *(refused_feature, refused_new_feature, refused_log, refused_file, refused_column, refused_partition),
    *(refused_meters, refused_name, refused_no_rows),
]


@pytest.mark.parametrize("damage", REFUSED)
def test_delta_tables_that_are_refused(place: Place, tmp_path: Path, damage: Callable[[Path], str]) -> None:
    """What cannot be applied is named, and nothing is debited or left."""
    write_deltalake(tmp_path / "t", wide(2, 2))
    with pytest.raises(ArchiveError, match=damage(tmp_path / "t")):
        sanitise(place, tmp_path / "t")
    assert place.ledger() == []
    assert not list(place.folder.glob("out*"))


def test_iceberg_tables_that_are_refused(place: Place, lake: Catalog, tmp_path: Path) -> None:
    """Equality deletes, files of another format, unknown tables and damaged metadata are named."""
    for name in ("other", "here/n.other", "nowhere/n.homes"):
        with pytest.raises(ArchiveError, match=f"iceberg://{name}: .*: expected iceberg://CATALOG"):
            sanitise(place, f"iceberg://{name}")
    table = iceberg(lake, wide(2, 2))
    pq.write_table(wide(1, 1).select(["meter"]), tmp_path / "deletes.parquet")
    tables.commit_deletes(table, tmp_path / "deletes.parquet", FileFormat.PARQUET, equality_ids=[1])
    with pytest.raises(ArchiveError, match="an Iceberg table with equality deletes: compact it first"):
        sanitise(place, "iceberg://here/n.homes")
    table = iceberg(lake, wide(2, 2), "vector")
    tables.commit_deletes(table, tmp_path / "deletes.parquet", FileFormat.PUFFIN)
    with pytest.raises(ArchiveError, match=r"deletes.parquet: a file of an Iceberg table in PUFFIN"):
        sanitise(place, "iceberg://here/n.vector")
    table = lake.create_table("n.adopted", wide(1, 1).schema)
    pq.write_table(wide(1, 1), tmp_path / "adopted.parquet")
    table.add_files([f"file://{tmp_path}/adopted.parquet"])
    with table.transaction() as change:
        change.remove_properties("schema.name-mapping.default")
    with pytest.raises(
        ArchiveError, match=r"adopted.parquet: not one column 'meter' in this file of a table"
    ):
        sanitise(place, "iceberg://here/n.adopted")
    table = lake.create_table("n.empty", wide(1, 1).schema)
    with pytest.raises(ArchiveError, match="the table has no rows"):
        sanitise(place, "iceberg://here/n.empty")
    Path(table.metadata_location.removeprefix("file://")).write_text("{}")
    with pytest.raises(ArchiveError, match=r"iceberg://here/n.empty: \w+: expected"):
        sanitise(place, "iceberg://here/n.empty")
    assert place.ledger() == []


def test_without_the_libraries(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table is refused with the command that installs what reads it; its files are not read as a folder."""
    write_deltalake(tmp_path / "t", wide(2, 2))
    monkeypatch.setitem(extras.MODULES, "tables", ("no_such_module",))
    with pytest.raises(
        ArchiveError, match=r"a table of Delta: reading it needs no_such_module: pip install .*tables"
    ):
        sanitise(place, tmp_path / "t")
    with pytest.raises(
        ArchiveError, match=r"iceberg://a/b.c: a table of Iceberg: reading it needs no_such_module"
    ):
        sanitise(place, "iceberg://a/b.c")


def overwritten_delta(
    tmp_path: Path, lake: Catalog
) -> tuple[Path | str, Callable[[], object], Callable[[], object]]:
    """A Delta table, and functions that replace its rows and remove what was replaced."""
    folder = tmp_path / "t"
    write_deltalake(folder, wide(3, 2))

    def vacuum() -> None:
        """Remove all but the latest version's files."""
        DeltaTable(folder).vacuum(0, dry_run=False, enforce_retention_duration=False)

    return folder, lambda: write_deltalake(folder, wide(3, 2, seed=1), mode="overwrite"), vacuum


def overwritten_iceberg(
    tmp_path: Path, lake: Catalog
) -> tuple[Path | str, Callable[[], object], Callable[[], object]]:
    """An Iceberg table, and functions that replace its rows and remove what was replaced."""
    table = iceberg(lake, wide(3, 2))
    first = table.current_snapshot()
    assert first

    def overwrite() -> None:
        """Replace the rows, and rename a column and another back."""
        table.overwrite(wide(3, 2, seed=1))
        with table.update_schema() as change:
            change.rename_column("value", "watts")

    return (
        "iceberg://here/n.homes",
        overwrite,
        lambda: table.maintenance.expire_snapshots().by_id(first.snapshot_id).commit(),
    )


@pytest.mark.parametrize("make", [overwritten_delta, overwritten_iceberg])
@pytest.mark.parametrize("step", ["manifest.save", "run.Local.release"])
def test_a_run_goes_on_with_its_snapshot(
    place: Place,
    tmp_path: Path,
    lake: Catalog,
    monkeypatch: pytest.MonkeyPatch,
    make: Callable[..., Any],
    step: str,
) -> None:
    """A run that stopped right after its debit, or later, ends with the rows that it debited."""
    address, overwrite, _ = make(tmp_path, lake)

    def stop(*_: object) -> None:
        """Stop as Ctrl-C does."""
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(f"meteragent.archive.{step}", stop)
        with pytest.raises(KeyboardInterrupt):
            sanitise(place, address)
    assert len(place.ledger()) == 3
    overwrite()
    seen = preview(place.policy(), address, place.folder / "out", silent)
    assert seen.is_debited
    result = assert_releases(place, address, wide(3, 2))
    assert seen.table == result.table
    assert result.admission.released_windows == 6
    assert not list(place.folder.glob("*.waiting"))
    with pytest.raises(ArchiveError, match=r"out: belongs to another run|column 'value': not found"):
        sanitise(place, address)
    if make is overwritten_delta:
        assert sanitise(place, address, "new").admission.refused_windows == 6


@pytest.mark.parametrize("make", [overwritten_delta, overwritten_iceberg])
def test_a_snapshot_that_is_gone(
    place: Place, tmp_path: Path, lake: Catalog, monkeypatch: pytest.MonkeyPatch, make: Callable[..., Any]
) -> None:
    """A run whose snapshot was removed cannot go on: what is missing and what to do is told."""
    address, overwrite, vacuum = make(tmp_path, lake)

    def stop(*_: object) -> None:
        """Stop as Ctrl-C does."""
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Local, "release", stop)
        with pytest.raises(KeyboardInterrupt):
            sanitise(place, address)
    overwrite()
    vacuum()
    before = place.files()
    with pytest.raises(ArchiveError, match=r"(snapshot|version) \d+.*: restore it, or choose another output"):
        sanitise(place, address)
    assert place.files() == before


@given(st.data())
def test_a_view_drops_what_is_deleted(data: st.DataObject) -> None:
    """However the rows of a file come in batches, exactly those that are not deleted are left, in order."""
    count = data.draw(st.integers(1, 50))
    deleted = data.draw(st.sets(st.integers(0, count - 1)))
    ends = [0, *sorted(data.draw(st.sets(st.integers(1, count)))), count]
    view = FileView({"a": "b"}, {"c": "x"}, np.array(sorted(deleted), np.int64))
    batch = pa.RecordBatch.from_arrays([pa.array(range(count))], ["b"])
    spans = [(first, end - first) for first, end in pairwise(ends)]
    parts = [view.select_columns(batch.slice(first, rows), ["c", "a"], first) for first, rows in spans]
    kept = [index for index in range(count) if index not in deleted]
    assert [row for part in parts for row in part.to_pylist()] == [{"c": "x", "a": index} for index in kept]
    assert [part.num_rows for part in parts] == [view.count(first, rows) for first, rows in spans]
