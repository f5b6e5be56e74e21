"""Inputs and outputs in other file systems: an address is literal, and means the same to Python and Java."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from meteragent.archive import run as local
from meteragent.archive.key import LOCK
from meteragent.archive.run import RunResult
from meteragent.domain.errors import ArchiveError, ConfigError
from meteragent.spark import preview, run, sanitise_archive
from tests.spark import homes
from tests.spark.homes import Place
from tests.support import archives
from tests.support.webhdfs import webhdfs

BRACKETS = "readings [1]{2}*.parquet"
"""A name that would be a pattern, which matches the file of another home, too."""


@contextmanager
def hadoop(spark: SparkSession, **settings: str) -> Iterator[None]:
    """Settings of Hadoop; names have _ for a dot."""
    configuration: Any = spark._jsc.hadoopConfiguration()
    names = {name.replace("_", "."): value for name, value in settings.items()}
    before = {name: configuration.get(name) for name in names}
    for name, value in names.items():
        configuration.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            configuration.unset(name) if value is None else configuration.set(name, value)


def given(folder: Path, rows: pa.Table) -> tuple[Path, set[str]]:
    """A folder of two files, beside a file that the name of one would match; the meters in the two."""
    folder.mkdir(parents=True)
    meters = sorted(set(rows.column("meter").to_pylist()))
    parts = {BRACKETS: meters[:5], "day=1/b.parquet": meters[5:8]}
    for name, members in parts.items():
        (folder / name).parent.mkdir(exist_ok=True)
        pq.write_table(rows.filter(pc.is_in(rows.column("meter"), pa.array(members))), folder / name)
    other = rows.filter(pc.equal(rows.column("meter"), meters[-1]))
    pq.write_table(other, folder.parent / "readings 12x.parquet")
    return folder, {*meters[:8]}


def table(result: RunResult) -> pa.Table:
    """The rows of an output, in order."""
    keys = [("meter", "ascending"), ("start", "ascending")]
    return pq.read_table(result.out).sort_by(keys).combine_chunks()


@contextmanager
def view(spark: SparkSession, folder: Path, name: str) -> Iterator[str]:
    """A file system with two mounts on local folders, which is the default; its address.

    Java keeps the file system of a name.
    """
    places = {"in": folder / "data", "out": folder / "public"}
    links = {f"fs_viewfs_mounttable_{name}_link_/{mount}": path.as_uri() for mount, path in places.items()}
    for path in places.values():
        path.mkdir(parents=True, exist_ok=True)
    with hadoop(spark, fs_defaultFS=f"viewfs://{name}/", **links):
        yield f"viewfs://{name}"


@contextmanager
def hdfs(spark: SparkSession, folder: Path, name: str) -> Iterator[str]:
    """The same folders by the REST interface of HDFS."""
    (folder / "in").symlink_to("data")
    with webhdfs(folder) as server:
        yield server.address
        assert {"OPEN", "CREATE", "RENAME"} < set(server.operations)


def contents(folder: Path) -> dict[str, bytes]:
    """The files of an output, without the checksums that Java writes beside them."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.startswith(".")}


@pytest.mark.parametrize("rows", [homes.wide, homes.long])
def test_a_view_is_the_default(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: Any
) -> None:
    """Where the default is another file system, a path is still one of this machine, relative or not.

    The files are those that the folder has, whatever letters their names have.
    """
    place = Place.make(tmp_path / "place")
    path, meters = given(tmp_path / "data" / "in", rows(place.policy))
    with view(spark, tmp_path, f"of-{rows.__name__}"):
        monkeypatch.chdir(tmp_path)
        seen = preview(place.policy, Path("data/in"), Path("place/relative out"), homes.quiet)
        result = sanitise_archive(place.policy, Path("data/in"), Path("place/relative out"), homes.quiet)
        assert seen.admission == result.admission
        assert set(table(result).column("meter").to_pylist()) == meters
    other = Place.make(tmp_path / "second")
    expected = local.sanitise_archive(other.policy, path, other.folder / "out", homes.quiet)
    assert result.admission == expected.admission
    assert contents(Path(result.out)) == contents(Path(expected.out))


@pytest.mark.parametrize("rows", [homes.wide, homes.long])
@pytest.mark.parametrize("system", [view, hdfs])
def test_a_file_system_of_hadoop(spark: SparkSession, tmp_path: Path, system: Any, rows: Any) -> None:
    """From and to an address goes what goes from a folder to a folder, byte for byte, and never twice.

    The names have letters that are patterns to Java. What was copied away is copied again by the same run.
    """
    place, other = Place.make(tmp_path / "place"), Place.make(tmp_path / "second")
    path, _ = given(tmp_path / "data" / "homes [1]{2} ü", rows(place.policy))
    expected = local.sanitise_archive(other.policy, path, other.folder / "out", homes.quiet)
    with system(spark, tmp_path, f"{system.__name__}-{rows.__name__}") as root:
        source, out = f"{root}/in/homes [1]{{2}} ü", f"{root}/out/may [5] ü"
        seen = preview(place.policy, source, out, homes.quiet)
        assert [path.name for path in place.policy.ledger.iterdir()] == [LOCK]
        result = sanitise_archive(place.policy, source, out, homes.quiet)
        assert seen.admission == result.admission == expected.admission
        assert result.out == out
        (folder,) = tmp_path.glob("*/may [[]5] ü")
        assert contents(folder) == contents(Path(expected.out))
        next(folder.glob("part-*")).unlink()
        again = sanitise_archive(place.policy, source, out, homes.quiet)
        assert again.counts is None
        assert contents(folder) == contents(Path(expected.out))
        one = sanitise_archive(place.policy, f"{source}/{BRACKETS}", f"{root}/out/one", homes.quiet)
        assert one.admission.refused_windows == one.admission.windows == 5 * homes.DAYS
        with pytest.raises(ArchiveError, match=r"out/one: is not empty: choose an address"):
            sanitise_archive(Place.make(tmp_path / "third").policy, source, f"{root}/out/one", homes.quiet)


def test_addresses_that_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    """What is not there, a scheme that Java does not know, a table and a ledger elsewhere: one sentence."""
    place = Place.make(tmp_path / "place")
    given(tmp_path / "data" / "homes", homes.wide(place.policy))
    (tmp_path / "data" / "table" / "_delta_log").mkdir(parents=True)
    (tmp_path / "data" / "table" / "_delta_log" / "0.json").write_text("{}")
    with view(spark, tmp_path, "refused") as root:
        for address, text in {
            f"{root}/in/nothing": "nothing: no such file",
            f"{root}/nowhere/x": "nowhere/x: (no such file|NotInMountpointException)",
            "abc://x/y": "abc://x/y: UnsupportedFileSystemException; the logs of Spark have more",
            f"{root}/in/table": "a table in a file system of Hadoop: release its data frame instead",
        }.items():
            with pytest.raises(ArchiveError, match=text):
                sanitise_archive(place.policy, address, tmp_path / "out", homes.quiet)
    with pytest.raises(ConfigError, match=r"archive.ledger: .*; expected a folder on a disk"):
        archives.policy(place.policy.key_file, archive="ledger = 'hdfs://x/ledger'")
    assert [path.name for path in place.policy.ledger.iterdir()] == [LOCK]


def test_another_file_is_not_read(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that finds another file under a path than the driver listed releases nothing of it."""
    place = Place.make(tmp_path / "place")
    path, _ = given(tmp_path / "data", homes.wide(place.policy))
    debits = run._SparkEngine.debit_windows

    def touch(*of: Any) -> Any:
        """Change a file after it was listed."""
        os.utime(path / BRACKETS, (1, 1))
        return debits(*of)

    monkeypatch.setattr(run._SparkEngine, "debit_windows", touch)
    with pytest.raises(ArchiveError, match="changed while it was being read"):
        sanitise_archive(place.policy, path, place.folder / "out", homes.quiet)
    assert not list(place.policy.ledger.glob("run=*"))
