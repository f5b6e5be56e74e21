"""Streams: windows close by the watermark, each leaves once, with the bytes that a batch would have."""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from meteragent.archive.policy import LAST_MS
from meteragent.archive.run import sanitise_archive
from meteragent.consume import archive
from meteragent.domain.errors import RecordError
from meteragent.spark import folder, stream
from meteragent.spark.stream import Sink
from tests.spark import homes
from tests.spark.homes import Place
from tests.support import archives
from tests.support.archives import DAY_MS


def run(
    spark: SparkSession,
    place: Place,
    checkpoint: str = "checkpoint",
    value: str = "bigint",
    each: int = 1,
    sink: Sink | None = None,
) -> pa.Table:
    """Release all windows that can close, a number of files at a time; return everything in the folder."""
    schema = f"meter string, time timestamp, value {value}"
    files = spark.readStream.schema(schema).option("maxFilesPerTrigger", each)
    out, where = place.folder / "out", str(place.folder / checkpoint)
    readings = files.parquet(str(place.folder / "in"))
    sink = sink or folder(out, place.policy)
    with stream(readings, place.policy, sink, where, availableNow=True) as query:
        query.awaitTermination()
    return homes.ordered(spark.read.parquet(str(out)).toArrow())


def failing(releases: DataFrame, batch: int) -> None:
    """A sink that takes nothing."""
    if releases.count():
        raise OSError("no sink")


def test_stream(spark: SparkSession, tmp_path: Path) -> None:
    """Releases are the kernel's, byte for byte; what comes again, or corrected, releases nothing more.

    Nor does a new checkpoint, nor a batch: one ledger knows them all. A receiver reads what there is.
    """
    place = Place.make(tmp_path)
    readings, released = homes.long(place.policy), homes.plain(place)
    future = homes.table([(homes.TICK, LAST_MS - DAY_MS, 0)])
    homes.arrive(tmp_path / "in", "a-first", future)  # would make all others late
    homes.arrive_by_day(tmp_path / "in", place.policy, readings)
    assert run(spark, place).equals(released)
    corrected = readings.slice(0, 200).set_column(2, "value", pa.array([77] * 200))
    homes.arrive(tmp_path / "in", "later", pa.concat_tables([readings, corrected]))
    assert run(spark, place).equals(released)
    assert run(spark, place, "another", each=99).equals(released)
    pq.write_table(readings, tmp_path / "archive.parquet")
    result = sanitise_archive(place.policy, tmp_path / "archive.parquet", tmp_path / "batch", homes.quiet)
    assert (result.admission.released_windows, result.admission.refused_windows) == (0, released.num_rows)
    assert set(archive.read_archive(tmp_path / "out")) == set(released.column("meter").to_pylist())
    batches = sorted((tmp_path / "out").glob("query=*/batch=*"))
    assert len({batch.parent for batch in batches}) == 2
    for batch in batches:
        batch.rename(tmp_path / "aside")
        with pytest.raises(RecordError, match=r"micro-batch .* is missing"):
            archive.read_archive(tmp_path / "out")
        (tmp_path / "aside").rename(batch)


def test_wide_stream(spark: SparkSession, tmp_path: Path) -> None:
    """Windows that come as such, and several times, leave once: the least. What a batch released does not.

    They are in the ledger before the sink is asked; if it fails, it gets them again.
    """
    place = Place.make(tmp_path)
    rows, released = homes.wide(place.policy), homes.plain(place)
    pq.write_table(rows.slice(0, 13 * homes.DAYS), tmp_path / "archive.parquet")
    sanitise_archive(place.policy, tmp_path / "archive.parquet", tmp_path / "batch", homes.quiet)
    taken = set(pq.read_table(tmp_path / "batch").column("meter").to_pylist())
    more = [[5000, *day[1:]] for day in rows.column("value").to_pylist()]
    corrected = rows.set_column(2, "value", pa.array(more, rows.schema.field("value").type))
    last = rows.slice(0, 1).set_column(0, "meter", pa.array([homes.TICK]))
    last = last.set_column(1, "time", pa.array([homes.starts(place.policy)[-1] + 7 * DAY_MS], archives.TIME))
    for name, table in (("0", corrected), ("1", rows), ("2", last.cast(rows.schema))):
        homes.arrive(tmp_path / "in", name, table)
    with pytest.raises(StreamingQueryException, match="no sink"):
        run(spark, place, value="array<bigint>", each=2, sink=failing)
    assert list(place.policy.ledger.glob("run=stream-*"))
    others = released.filter(pc.invert(pc.is_in(released.column("meter"), pa.array(sorted(taken)))))
    assert run(spark, place, value="array<bigint>", each=2).equals(others.combine_chunks())
