"""Where an input may be: paths and addresses mean what they say; a folder of a table is refused."""

import os
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from pyarrow import fs

from meteragent.archive.preview import preview
from meteragent.archive.run import RunResult, sanitise_archive
from meteragent.archive.tree import Tree
from meteragent.domain.errors import ArchiveError
from tests.support import tables
from tests.support.archives import LONG, WIDE, Place, long_rows, save, silent, wide_rows

HALF_HOURS = {"window": "length = '30min'", "source": "hold = '10min'"}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A folder with a key."""
    return Place.make(tmp_path / "place")


def sanitise(place: Place, address: Path | str, out: str = "out") -> RunResult:
    """Release what is at an address."""
    return sanitise_archive(place.policy(), address, place.folder / out, silent)


@pytest.fixture(scope="module")
def bucket() -> Iterator[fs.S3FileSystem]:
    """S3 as moto plays it, with the bucket `homes`, in the environment."""
    from moto.server import ThreadedMotoServer  # noqa: PLC0415 -- it takes seconds

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    patch = pytest.MonkeyPatch()
    names = {"ENDPOINT_URL": f"http://{host}:{port}", "REGION": "us-east-1", "EC2_METADATA_DISABLED": "true"}
    for name, value in (names | {"ACCESS_KEY_ID": "a", "SECRET_ACCESS_KEY": "b"}).items():
        patch.setenv(f"AWS_{name}", value)
    with warnings.catch_warnings():
        system = fs.S3FileSystem(endpoint_override=names["ENDPOINT_URL"], allow_bucket_creation=True)
        system.create_dir("homes")
        yield system
    patch.undo()
    server.stop()


def upload(bucket: fs.S3FileSystem, folder: Path, key: str) -> None:
    """Copy a folder into a bucket."""
    for path in (path for path in folder.rglob("*") if path.is_file()):
        with bucket.open_output_stream(f"homes/{key}/{path.relative_to(folder)}") as target:
            target.write(path.read_bytes())


@pytest.mark.parametrize("schema", [WIDE, LONG], ids=["wide", "long"])
def test_objects_are_released_as_files_are(place: Place, bucket: fs.S3FileSystem, schema: pa.Schema) -> None:
    """From S3 comes what comes from a disk, whatever letters the keys have; the run is the same one."""
    keys = HALF_HOURS if schema is LONG else {}
    rows, folder = long_rows(4, 1) if schema is LONG else wide_rows(4, 6), place.folder / "in"
    (folder / "day=1").mkdir(parents=True)
    save(folder / "a [1]{2}*?.parquet", rows[: len(rows) // 2], schema)
    save(folder / "day=1" / "b%20.parquet", rows[len(rows) // 2 :], schema)
    name = f"of {schema.field('value').type}"
    upload(bucket, folder, name)
    policy, address = place.policy(**keys), f"s3://homes/{name}"
    seen = preview(policy, address, place.folder / "remote", silent)
    assert not place.ledger()
    remote = sanitise_archive(policy, address, place.folder / "remote", silent, accepts_checks=True)
    local = sanitise_archive(policy, folder, place.folder / "local", silent, accepts_checks=True)
    assert seen.admission == remote.admission == local.admission
    assert pq.read_table(remote.out).equals(pq.read_table(local.out))
    path = f"{address}/a [1]{{2}}*?.parquet"
    one = sanitise_archive(policy, path, place.folder / "one", silent, accepts_checks=True)
    assert one.admission.refused_windows == one.admission.windows > 0


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_tables_of_objects(
    place: Place, bucket: fs.S3FileSystem, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """A table in S3 is read by its latest snapshot, with the `AWS_…` variables."""
    now = tables.wide(2, 2, seed=1)
    address = "s3://homes/a table"
    if kind == "delta":
        write_deltalake(place.folder / "t", tables.wide(2, 2))
        write_deltalake(place.folder / "t", now, mode="overwrite")
        upload(bucket, place.folder / "t", "a table")
    else:
        endpoint = {"s3.endpoint": os.environ["AWS_ENDPOINT_URL"], "s3.region": "us-east-1"}
        with tables.catalog(place.folder / "lake", warehouse="s3://homes/lake", **endpoint) as lake:
            table = lake.create_table("n.homes", now.schema)
            table.append(tables.wide(2, 2))
            table.overwrite(now)
            address = table.metadata_location
    sanitise(place, address)
    pq.write_table(now, place.folder / "in.parquet")
    other = Place.make(place.folder / "other")
    other.sanitise(place.folder / "in.parquet", "out")
    assert place.released("out").equals(other.released("out"))


def test_an_object_that_is_missing_or_changed(place: Place, bucket: fs.S3FileSystem) -> None:
    """A key without an object, and an object that is replaced, are named; a secret is in no error."""
    with pytest.raises(ArchiveError, match="homes/nothing: no such file"):
        sanitise(place, "s3://homes/nothing")
    folder = place.folder / "in"
    folder.mkdir()
    save(folder / "a.parquet", wide_rows(1, 1))
    upload(bucket, folder, "changed")
    tree = Tree.at("s3://homes/changed")
    before = tree.stamp("homes/changed/a.parquet")
    save(folder / "a.parquet", wide_rows(2, 1))
    upload(bucket, folder, "changed")
    assert tree.stamp("homes/changed/a.parquet") != before


def test_a_file_address_is_a_path(place: Place) -> None:
    """Of a file:// address the percent signs are decoded; other schemes and OUT as an address are refused."""
    path = save(place.folder / "a b.parquet", wide_rows(2, 2))
    assert sanitise(place, path.as_uri()).admission.released_windows == 4
    with pytest.raises(ArchiveError, match="hdfs://a/b: expected a path, file://, s3:// or iceberg://"):
        sanitise(place, "hdfs://a/b")
    with pytest.raises(ArchiveError, match="s3:/b/out: an address: release to a folder on a disk"):
        sanitise_archive(place.policy(), path, Path("s3://b/out"), silent)


SIGNS = {
    "Delta": ("_delta_log/00000000000000000000.json", "give the table's own folder"),
    "Iceberg": ("metadata/v2.metadata.json", "give iceberg://CATALOG/NAMESPACE.TABLE"),
    "Hudi": (".hoodie/hoodie.properties", "write its present rows"),
    "DuckLake": ("homes.ducklake", "write its present rows"),
}


@pytest.mark.parametrize("kind", SIGNS)
def test_a_table_is_refused(place: Place, kind: str) -> None:
    """A folder whose catalog decides which files count, a table within it and a part of one are refused."""
    folder = place.folder / "lake" / "table"
    (folder / "data" / "day=1").mkdir(parents=True)
    save(folder / "data" / "day=1" / "1.parquet", wide_rows(2, 2))
    inputs = [folder, folder.parent, folder / "data", folder / "data" / "day=1" / "1.parquet"]
    sign = folder / SIGNS[kind][0]
    sign.parent.mkdir(exist_ok=True)
    sign.write_text("{}")
    for path in inputs[:2] if kind == "DuckLake" else inputs[kind == "Delta" :]:
        with pytest.raises(ArchiveError, match=f"{path}: a {kind} table, .*{SIGNS[kind][1]}"):
            sanitise(place, path)
    if kind == "Delta":
        with pytest.raises(ArchiveError, match=f"{folder}: a Delta table that cannot be read: DeltaError"):
            sanitise(place, folder)
    assert not place.ledger()
    shutil.rmtree(sign.parent) if sign.parent != folder else sign.unlink()
    assert sanitise(place, folder).admission.released_windows == 4


def test_files_of_ducklake_are_refused(place: Place) -> None:
    """DuckLake's catalog is elsewhere: its data files are known by their names."""
    folder = place.folder / "in"
    folder.mkdir()
    save(folder / "ducklake-01979a2e-51a4-7d4c-a1b7-0d6a6c4f7a11.parquet", wide_rows(1, 1))
    with pytest.raises(ArchiveError, match="a DuckLake table"):
        sanitise(place, folder)


def test_an_error_after_the_debit_says_how_to_go_on(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """What fails once the windows are in the ledger ends in an error that names the cause and the way."""
    path = save(place.folder / "in.parquet", wide_rows(2, 2))

    def fail(*_: object) -> None:
        """Fail as a disk does."""
        raise FileNotFoundError(2, "No such file or directory", "x/_made")

    with monkeypatch.context() as patch:
        patch.setattr("meteragent.archive.manifest.save", fail)
        with pytest.raises(ArchiveError, match=r"out: no such file.*the same command resumes it"):
            sanitise(place, path)
    assert place.ledger()
    assert sanitise(place, path).admission.released_windows == 4
