"""What `sanitise` and `collect` write is one table to Spark, with no row too many."""

from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- as everybody calls it

from meteragent.collect.core import Core, Limits
from meteragent.collect.staging import Staging
from meteragent.collect.topic import StreamTopic
from tests.support.archives import WIDE, Place, save, wide_rows
from tests.support.collecting import NOW_MS, TEMPLATE, record_messages, terms_message
from tests.support.stores import TERMS


def test_an_output_is_one_table(spark: SparkSession, tmp_path: Path) -> None:
    """Spark reads the folder of `sanitise` as it is: the rows and the columns of its parts."""
    place = Place.make(tmp_path / "place")
    out = place.sanitise(save(tmp_path / "in.parquet", wide_rows(3, 4), WIDE)).out
    rows = spark.read.parquet(str(out))
    assert rows.count() == sum(pq.read_metadata(part).num_rows for part in out.glob("part-*.parquet")) == 12
    assert rows.columns == pq.read_schema(next(out.glob("part-*.parquet"))).names


def test_a_dataset_is_one_table(spark: SparkSession, tmp_path: Path) -> None:
    """Spark reads the records of `collect` with stream and day from the paths, and sums them exactly."""
    staging = Staging(tmp_path, "test", "day")
    staging.create_tables()
    core = Core([StreamTopic.parse("main", TEMPLATE)], Limits(), *staging.begin_service(is_first=True))
    quanta = list(range(-50, 50))
    messages = [terms_message(TERMS), *record_messages(TERMS, quanta, first=-60)]
    staging.write_batch(core.take_messages(messages, NOW_MS), len(messages), NOW_MS)
    staging.flush()
    staging.close()
    rows = spark.read.parquet(str(tmp_path / "record"))
    assert {"stream", "day", "meter", "t", "until", "value", "variance", "d"} <= set(rows.columns)
    [total] = (
        rows.where("stream = 'main'").agg(F.count("*"), F.sum("value"), F.countDistinct("day")).collect()
    )
    assert (total[0], total[1], total[2]) == (100, sum(quanta), 3)
