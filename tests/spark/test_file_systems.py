"""Inputs in other file systems: an address is taken literally, and means the same to Python and to Java."""

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
from meteragent.archive.run import RunResult
from meteragent.domain.errors import ArchiveError
from meteragent.spark import preview, run, sanitise_archive
from tests.spark import homes
from tests.spark.homes import Place

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


@pytest.mark.parametrize("rows", [homes.wide, homes.long])
def test_a_view_is_the_default(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: Any
) -> None:
    """Where the default is another file system, a path is still one of this machine, relative or not.

    The files are those that the folder has, whatever letters their names have.
    """
    place = Place.make(tmp_path / "place")
    path, meters = given(tmp_path / "data" / "in", rows(place.policy))
    view = f"of-{rows.__name__}"  # Java keeps the file system of a name
    link = {f"fs_viewfs_mounttable_{view}_link_/mounted": (tmp_path / "data").as_uri()}
    root = f"viewfs://{view}"
    with hadoop(spark, fs_defaultFS=f"{root}/", **link):
        monkeypatch.chdir(tmp_path)
        seen = preview(place.policy, Path("data/in"), Path("place/relative out"), homes.quiet)
        result = sanitise_archive(place.policy, Path("data/in"), Path("place/relative out"), homes.quiet)
        assert seen.admission == result.admission
        assert set(table(result).column("meter").to_pylist()) == meters
        with pytest.raises(ArchiveError, match="expected a path, file://, s3:// or iceberg://"):
            sanitise_archive(place.policy, f"{root}/mounted/in", tmp_path / "out", homes.quiet)
    other = Place.make(tmp_path / "second")
    expected = local.sanitise_archive(other.policy, path, other.folder / "out", homes.quiet)
    assert result.admission == expected.admission
    assert table(result).equals(table(expected))


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
