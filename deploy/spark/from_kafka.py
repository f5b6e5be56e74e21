"""Release readings from one Kafka topic to another: an example to start from.

Usage: spark-submit --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0 from_kafka.py
stream.toml kafka:9092 meters.raw meters.private /srv/checkpoint
"""

import json
import sys
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- the customary name

from meteragent import config
from meteragent.archive.policy import Policy
from meteragent.spark import descriptors, stream

PAYLOAD = "t string, power decimal(24, 6)"
"""The fields of a JSON message such as ``{"t": "2026-11-20T12:00:00Z", "power": 512}``."""

WITH_OFFSET = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d)$"
"""Times whose meaning does not depend on the zone of Spark's session."""

FIRST, END = "1990-01-01T00:00:00Z", "2100-01-01T00:00:00Z"
"""Times outside are dropped: numbers are probably in another unit than seconds."""


def time_of(text: Column) -> Column:
    """Return the time that a text states, with an offset or as Unix seconds; null for other texts."""
    spark_text = F.regexp_replace(text, r"([+-]\d\d)(\d\d)$", "$1:$2")  # Spark needs the colon
    with_offset = F.when(text.rlike(WITH_OFFSET), F.try_to_timestamp(spark_text))
    seconds = F.timestamp_micros((text.try_cast("decimal(16, 6)") * 1_000_000).cast("bigint"))
    time = F.coalesce(with_offset, seconds)
    return F.when((time >= F.lit(FIRST).cast("timestamp")) & (time < F.lit(END).cast("timestamp")), time)


def readings(messages: DataFrame) -> DataFrame:
    """Return the meter (the key), time and value of messages, and count those that are dropped.

    A message without a meter, or without a time that `time_of` understands, is dropped: the metrics of the
    query count `no_meter`, `no_time` and all messages. A message with a time but no number is a reading
    without a value (`no_value`). No payload raises an error: Spark would write it to its logs.
    """
    text = F.col("value").cast("string")
    fields = F.from_json(F.when(text.rlike(r"^\s*\{"), text), PAYLOAD)  # of an array it reads the first alone
    columns = messages.select(F.col("key").cast("string").alias("meter"), fields.alias("fields"))
    rows = columns.select(
        F.when(F.col("meter") != "", F.col("meter")).alias("meter"),
        time_of(F.col("fields.t")).alias("time"),
        F.col("fields.power").alias("value"),
    )
    lacks = [F.count_if(F.col(f"{name}").isNull()).alias(f"no_{name}") for name in rows.columns]
    counted_rows = rows.observe("messages", F.count(F.lit(1)).alias("messages"), *lacks)
    return counted_rows.where("meter is not null and time is not null")


def messages(releases: DataFrame) -> DataFrame:
    """Return releases as messages with the meter as the key; values are exact decimals."""
    columns = F.struct("meter", "start", "end", "values", "d", F.col("key").alias("k"))
    return releases.select(F.col("meter").alias("key"), F.to_json(columns).alias("value"))


def main(settings: str, servers: str, source: str, target: str, checkpoint: str) -> None:
    """Release readings until the process is stopped."""
    policy = Policy.of(config.load(Path(settings)))
    spark = SparkSession.builder.appName("meteragent").getOrCreate()
    kafka = {"kafka.bootstrap.servers": servers}
    rows = [(descriptor["id"], json.dumps(descriptor)) for descriptor in descriptors(policy)]
    meta = spark.createDataFrame(rows, "key string, value string").write.format("kafka")
    meta.options(**kafka).option("topic", f"{target}.privacy").save()

    def sink(releases: DataFrame, _batch: int) -> None:
        """Write the releases of a batch to the target topic."""
        messages(releases).write.format("kafka").options(**kafka).option("topic", target).save()

    raw_messages = spark.readStream.format("kafka").options(**kafka).option("subscribe", source)
    raw_messages = raw_messages.option("startingOffsets", "earliest").option("failOnDataLoss", "true")
    with stream(readings(raw_messages.load()), policy, sink, checkpoint, processingTime="1 minute") as query:
        query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
