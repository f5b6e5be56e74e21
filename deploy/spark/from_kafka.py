"""Readings from a topic of Kafka -> releases on another: an example to start from.

Usage: spark-submit --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0 from_kafka.py
archive.toml kafka:9092 meters.raw meters.private /srv/checkpoint
"""

import json
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- as everybody calls it

from meteragent import config
from meteragent.archive.policy import Policy
from meteragent.spark import descriptors, stream

PAYLOAD = "t string, power decimal(24, 6)"
"""What a message says, as JSON: ``{"t": "2026-11-20T12:00:00Z", "power": 512}``."""


def readings(messages: DataFrame) -> DataFrame:
    """Meter (the key), time and value of messages.

    One that is no JSON, or has no time, is no reading; one that has a time and no number is a reading without
    a value. Nothing here raises on what a message holds: Spark would put it into its logs.
    """
    said = F.from_json(F.col("value").cast("string"), PAYLOAD)
    columns = messages.select(F.col("key").cast("string").alias("meter"), said.alias("said"))
    timed = columns.select(
        "meter", F.try_to_timestamp("said.t").alias("time"), F.col("said.power").alias("value")
    )
    return timed.where("meter is not null and meter <> '' and time is not null")


def messages(releases: DataFrame) -> DataFrame:
    """Releases as messages: the meter is the key; values are exact, in decimal."""
    columns = F.struct("meter", "start", "end", "values", "d", F.col("key").alias("k"))
    return releases.select(F.col("meter").alias("key"), F.to_json(columns).alias("value"))


def main(settings: str, servers: str, source: str, target: str, checkpoint: str) -> None:
    """Run until stopped."""
    policy = Policy.of(config.load(Path(settings)))
    spark = SparkSession.builder.appName("meteragent").getOrCreate()
    kafka = {"kafka.bootstrap.servers": servers}
    told = [(one["id"], json.dumps(one)) for one in descriptors(policy)]
    meta = spark.createDataFrame(told, "key string, value string").write.format("kafka")
    meta.options(**kafka).option("topic", f"{target}.privacy").save()

    def sink(releases: DataFrame, _batch: int) -> None:
        messages(releases).write.format("kafka").options(**kafka).option("topic", target).save()

    raw = spark.readStream.format("kafka").options(**kafka).option("subscribe", source)
    raw = raw.option("startingOffsets", "earliest").option("failOnDataLoss", "true")
    with stream(readings(raw.load()), policy, sink, checkpoint, processingTime="1 minute") as query:
        query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
