"""Streams: windows close by the watermark, each leaves once, with the bytes that a batch would have."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from meteragent.spark.stream import folder, stream
from tests.spark import homes
from tests.spark.homes import Place

pytestmark = pytest.mark.spark


def arriving(spark: SparkSession, place: Place) -> DataFrame:
    """The files of a place as a stream, one file in a micro-batch."""
    files = spark.readStream.schema("meter string, time timestamp, value bigint").option(
        "maxFilesPerTrigger", 1
    )
    return files.parquet(str(place.folder / "in"))


def run(spark: SparkSession, place: Place, checkpoint: str = "checkpoint") -> pa.Table:
    """Release all that has arrived and can close; all that is in the sink then, in order."""
    out = str(place.folder / "out")
    where = str(place.folder / checkpoint)
    with stream(arriving(spark, place), place.policy, folder(out), where, availableNow=True) as query:
        query.awaitTermination()
    return homes.ordered(spark.read.parquet(out).toArrow())


def test_stream(spark: SparkSession, tmp_path: Path) -> None:
    """What a stream releases is byte for byte what the kernel does."""
    place = Place.make(tmp_path)
    readings = homes.long(place.policy)
    homes.arrive_by_day(place.folder / "in", place.policy, readings)
    released = run(spark, place)
    assert released.equals(homes.plain(place))
