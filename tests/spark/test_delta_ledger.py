"""The ledger as a Delta table: each window once, whatever races or stops; what is repeated is equal."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyarrow import fs
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- as everybody calls it

from meteragent.archive.run import sanitise_archive
from meteragent.domain.errors import ArchiveError, ChecksRefused
from meteragent.spark import FrameResult, folder, part, sanitise_frame
from meteragent.spark.delta_ledger import APP_ID, DeltaLedger
from meteragent.spark.stream import Sink, stream
from tests.spark import homes, ledger_job
from tests.spark.homes import Place
from tests.support.not_run import ROOT

HALF = "meter < 'm2'"


def frame(spark: SparkSession, place: Place, rows: pa.Table | None = None) -> DataFrame:
    """The homes' rows, wide unless others are given."""
    return spark.createDataFrame(homes.wide(place.policy) if rows is None else rows)


def release(readings: DataFrame, place: Place, **options: Any) -> FrameResult:
    """Release a frame under the table of a place."""
    return sanitise_frame(readings, place.policy, place.folder / "ledger", **options)


def rows_of(result: FrameResult) -> pa.Table:
    """What has left, in order."""
    return homes.ordered(result.releases.toArrow())


def counts(result: FrameResult) -> tuple[int, int]:
    """How many windows were released and refused."""
    return result.released_windows, result.refused_windows


def test_each_window_is_released_once(spark: SparkSession, tmp_path: Path) -> None:
    """The bytes are the kernel's; what is repeated, in either layout, is equal; a change is refused."""
    place = Place.make(tmp_path)
    readings, released = frame(spark, place), homes.plain(place)
    total = released.num_rows
    first = release(readings.where(HALF), place)
    assert counts(first) == (first.counts and first.counts.numbers and first.releases.count(), 0)
    everything = release(readings, place)
    assert counts(everything) == (total - first.released_windows, first.released_windows)
    both = homes.ordered(pa.concat_tables([rows_of(first), rows_of(everything)]))
    assert both.equals(released)
    again = release(frame(spark, place, homes.long(place.policy)).repartition(7), place)
    assert (again.run, counts(again)) == (everything.run, counts(everything))
    assert rows_of(again).equals(rows_of(everything))
    corrected = release(readings.withColumn("value", F.transform("value", lambda watt: watt + 1)), place)
    assert counts(corrected) == (0, total)
    assert rows_of(corrected).num_rows == release(readings.where("false"), place).releases.count() == 0
    table = DeltaTable(tmp_path / "ledger")
    assert table.version() == table.transaction_version(APP_ID) == 2
    rows = table.to_pyarrow_table()
    assert set(rows.column("run").to_pylist()) == {first.run, everything.run}
    assert pc.sum(rows.column("windows")).as_py() == total
    assert (tmp_path / "ledger").stat().st_mode & 0o077 == 0
    everything.remove_releases()
    with pytest.raises(PySparkException, match="missing or cannot be read"):
        release(readings, place).releases.count()
    assert rows_of(first).num_rows == first.released_windows


def test_what_is_not_released_at_all(spark: SparkSession, tmp_path: Path) -> None:
    """Before anything is debited, rows, numbers and ledgers that are wrong are refused with what is wrong."""
    place = Place.make(tmp_path)
    readings = frame(spark, place)
    refusals = {
        "windows that appear twice: 1": readings.union(readings.where("meter = 'm3'").limit(1)),
        "outside window.range": readings.withColumn("value", F.transform("value", lambda _: F.lit(10**7))),
        "are tiny compared with": readings.withColumn("value", F.transform("value", lambda _: F.lit(1))),
    }
    for message, rows in refusals.items():
        with pytest.raises((ArchiveError, ChecksRefused), match=message):
            release(rows, place)

    def change(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            values = [
                [watt and watt + os.getrandom(1)[0] for watt in day] for day in batch["value"].to_pylist()
            ]
            yield batch.set_column(2, "value", pa.array(values, batch["value"].type))

    changing = readings.mapInArrow(change, readings.schema)
    with (
        patch.object(type(readings), "persist", lambda rows: rows),
        pytest.raises(ArchiveError, match="rows changed while they were read"),
    ):
        release(changing, place)
    with (
        patch.dict(os.environ, {"AWS_S3_ALLOW_UNSAFE_RENAME": "true"}),
        pytest.raises(ArchiveError, match="would let two runs debit"),
    ):
        release(readings, place)
    spark.sparkContext.setLocalProperty("sql.streaming.queryId", "q")
    with pytest.raises(ArchiveError, match="use `stream`"):
        release(frame(spark, place, homes.long(place.policy)), place)
    spark.sparkContext.setLocalProperty("sql.streaming.queryId", None)  # type: ignore[arg-type]
    assert DeltaTable(tmp_path / "ledger").version() == 0
    assert release(readings, place).released_windows


def test_a_key_has_one_ledger(spark: SparkSession, tmp_path: Path) -> None:
    """After a table no folder and no other table; after a folder no table; one that is gone is missed."""
    place, other = Place.make(tmp_path / "a"), Place.make(tmp_path / "b")
    readings = frame(spark, place)
    pq.write_table(homes.wide(place.policy), tmp_path / "archive.parquet")
    release(readings.limit(1), place)
    with pytest.raises(ArchiveError, match="key's ledger is the Delta table"):
        sanitise_archive(place.policy, tmp_path / "archive.parquet", tmp_path / "out", homes.quiet)
    with pytest.raises(ArchiveError, match="key's ledger is the Delta table"):
        sanitise_frame(readings, place.policy, tmp_path / "another")
    (place.folder / "ledger").rename(tmp_path / "moved")
    with pytest.raises(ArchiveError, match="the key's ledger cannot be read"):
        release(readings, place)
    sanitise_archive(other.policy, tmp_path / "archive.parquet", tmp_path / "out", homes.quiet)
    with pytest.raises(ArchiveError, match="the key has its ledger there"):
        release(readings, other)
    third = Place.make(tmp_path / "c")
    write_deltalake(third.folder / "ledger", pa.table({"meter": ["m1"]}))
    with pytest.raises(ArchiveError, match="not a ledger"):
        release(readings, third)


def test_two_drivers_at_once(spark: SparkSession, tmp_path: Path) -> None:
    """Of drivers that commit at once one does; the other commits next if it may, or releases the rest."""
    place = Place.make(tmp_path)
    readings, released = frame(spark, place), homes.plain(place)
    corrected = readings.withColumn("value", F.transform("value", lambda watt: watt + 1))
    pairs = {
        "apart": (readings.where("meter = 'm0'"), readings.where("meter = 'm1'")),
        "overlapping": (readings.where("meter = 'm2'"), corrected.where("meter in ('m2', 'm3')")),
        "equal": (readings.where("meter = 'm4'"), readings.where("meter = 'm4'")),
    }
    release(readings.where("meter = 'm9'"), place)
    for name, pair in pairs.items():
        (one, two), writes = at_once(*[lambda rows=rows: release(rows, place) for rows in pair])
        tables = [rows_of(one), rows_of(two)]
        if name == "equal":
            assert (one.run, tables[0]) == (two.run, tables[1])
            continue
        windows = pa.concat_tables(tables).select(["meter", "start"]).to_pylist()
        assert len({(row["meter"], row["start"]) for row in windows}) == len(windows)
        assert len(windows) == homes.DAYS * 2
        assert writes == (3 if name == "overlapping" else 2)
        if name == "apart":
            assert homes.ordered(pa.concat_tables(tables)).equals(
                released.filter(pc.is_in(released.column("meter"), pa.array(["m0", "m1"]))).combine_chunks()
            )
    rows = DeltaTable(tmp_path / "ledger").to_pyarrow_table()
    assert pc.sum(rows.column("windows")).as_py() == homes.DAYS * 6


def at_once(*drivers: Callable[[], FrameResult]) -> tuple[list[FrameResult], int]:
    """Run drivers that meet before their first commit; return their results and how often workers wrote."""
    meeting, commit, write = (
        threading.Barrier(len(drivers), timeout=100),
        DeltaLedger._commit,
        DeltaLedger._write,
    )
    met, writes = threading.local(), list[str]()

    def committing(ledger: DeltaLedger, *arguments: Any) -> Any:
        if not hasattr(met, "once"):
            met.once = meeting.wait()
        return commit(ledger, *arguments)

    def writing(ledger: DeltaLedger, *arguments: Any) -> Any:
        writes.append(arguments[-1])
        return write(ledger, *arguments)

    with (
        patch.object(DeltaLedger, "_commit", committing),
        patch.object(DeltaLedger, "_write", writing),
        ThreadPoolExecutor(len(drivers)) as pool,
    ):
        return list(pool.map(lambda driver: driver(), drivers)), len(writes)


def test_killed_between_commit_and_release(spark: SparkSession, tmp_path: Path) -> None:
    """A driver that is killed when its commit is in the log has released nothing: the next releases it."""
    place = Place.make(tmp_path)
    command = [sys.executable, "-m", "tests.spark.ledger_job", "killed", str(tmp_path)]
    assert subprocess.run(command, cwd=ROOT, capture_output=True, check=False).returncode == -signal.SIGKILL
    table = DeltaTable(tmp_path / "ledger")
    assert table.version() == 1
    result = release(frame(spark, place), place)
    assert rows_of(result).equals(homes.plain(place))
    table.update_incremental()
    assert table.version() == 1
    altered = next((tmp_path / "ledger" / "_releases").rglob("*.parquet"))
    altered.write_bytes(altered.read_bytes()[:-1] + b"x")
    with pytest.raises(PySparkException, match="not what was registered"):
        release(frame(spark, place), place).releases.count()


def test_stream(spark: SparkSession, tmp_path: Path) -> None:
    """A stream releases the kernel's bytes; what a failed sink gets again is equal; old files go."""
    place = Place.make(tmp_path)
    homes.arrive_by_day(tmp_path / "in", place.policy, homes.long(place.policy))
    attempts: list[pa.Table] = []

    def failing(releases: DataFrame, batch: int) -> None:
        attempts.append(homes.ordered(releases.toArrow()))
        if attempts[-1].num_rows:
            raise OSError("no sink")

    with pytest.raises(StreamingQueryException, match="no sink"):
        run_stream(spark, place, failing)
    out = folder(tmp_path / "out", place.policy)

    def sink(releases: DataFrame, batch: int) -> None:
        attempts.append(homes.ordered(releases.toArrow()))
        out(releases, batch)

    run_stream(spark, place, sink)
    nonempty = [rows for rows in attempts if rows.num_rows]
    assert nonempty[0].equals(nonempty[1])
    actual = homes.ordered(spark.read.parquet(str(tmp_path / "out")).toArrow())
    assert actual.equals(homes.plain(place))
    assert len(list((tmp_path / "ledger" / "_releases").glob("*/*.parquet"))) == 1
    assert not list(place.policy.ledger.glob("run=*"))


def run_stream(spark: SparkSession, place: Place, sink: Sink) -> None:
    """Release all windows that can close, a file at a time."""
    files = spark.readStream.schema("meter string, time timestamp, value bigint")
    readings = files.option("maxFilesPerTrigger", 1).parquet(str(place.folder / "in"))
    where, ledger = str(place.folder / "checkpoint"), place.folder / "ledger"
    with stream(readings, place.policy, sink, where, ledger=ledger, availableNow=True) as query:
        query.awaitTermination()


def test_object_store(tmp_path: Path) -> None:
    """In S3, of two drivers that know the same version of the table one commits; the other sees its files."""
    place = Place.make(tmp_path)
    names = {"REGION": "us-east-1", "ALLOW_HTTP": "true", "ACCESS_KEY_ID": "a", "SECRET_ACCESS_KEY": "b"}
    with (
        object_store() as url,
        patch.dict(os.environ, {f"AWS_{name}": value for name, value in names.items()}),
    ):
        os.environ["AWS_ENDPOINT_URL"] = url
        fs.S3FileSystem(endpoint_override=url, allow_bucket_creation=True).create_dir("homes")
        ledger = DeltaLedger.of("s3://homes/ledger", place.policy)
        tables = [ledger.open(), ledger.open()]
        for run, table in zip(("one", "two"), tables, strict=True):
            newest = ledger._commit(table, run, [ledger_job.written(place, ledger, run)])
        assert newest.version() == newest.transaction_version(APP_ID) == 1
        files = pa.table(newest.get_add_actions(flatten=True))
        assert files["partition.run"].to_pylist() == ["one"]
        assert ledger._commit(newest, "two", [ledger_job.written(place, ledger, "two")]).version() == 2
        name, count = part.releases_of(files["path"].to_pylist()[0])
        with part.files_below(ledger.address).open_input_file(name) as file:
            assert pq.read_table(file).num_rows == count == homes.plain(place).num_rows
        assert_round_trip("s3://homes/other")


def test_files_of_any_size(tmp_path: Path) -> None:
    """A file that is larger than every buffer is written and read whole."""
    assert_round_trip(str(tmp_path))


def assert_round_trip(address: str) -> None:
    """Check that a large file is read as it was written."""
    content = os.urandom((11 << 20) + 7)
    part._write(address, "folder/file", pa.py_buffer(content))
    with part.files_below(address).open_input_stream("folder/file") as stream:
        assert stream.read_buffer().to_pybytes() == content


@contextmanager
def object_store() -> Iterator[str]:
    """S3 as moto plays it, in another process: `deltalake` holds this one's lock while it waits."""
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        try:
            yield next(line.split()[-1] for line in server.stderr if "http://127.0.0.1:" in line)
        finally:
            server.kill()


def test_each_file_is_flushed_before_what_relies_on_it(tmp_path: Path) -> None:
    """In the order of system calls: rows, releases and their folders, the commit, the log; then the release.

    What is written without a flush is lost in a power cut. Each name that appears, by creation, link or
    renaming, is followed by a flush of its folder, and each file that is written by a flush of the file.
    """
    Place.make(tmp_path)
    calls = ledger_job.traced(tmp_path)
    commit = next(at for at, call in enumerate(calls) if call.makes(r"_delta_log/0+1\.json"))
    released = next(at for at, call in enumerate(calls) if call.makes(r"/released"))
    assert commit < released
    ledger_job.require_flushed(calls[:commit], r"/run=|/_releases/")
    ledger_job.require_flushed(calls[:released], "/ledger")
    with pytest.raises(AssertionError):
        ledger_job.require_flushed(calls[: commit + 1], "/ledger")
