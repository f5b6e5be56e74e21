"""Release readings from one Kafka topic to another: an example to start from.

Usage: spark-submit --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0 from_kafka.py
archive.toml kafka:9092 meters.raw meters.private /srv/checkpoint
"""

import json
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- the customary name

from meteragent import config
from meteragent.archive.policy import Policy
from meteragent.spark import descriptors, stream

PAYLOAD = "t string, power decimal(24, 6)"
"""The fields of a JSON message such as ``{"t": "2026-11-20T12:00:00Z", "power": 512}``."""


def readings(messages: DataFrame) -> DataFrame:
    """Return the meter (the key), time and value of messages.

    A message that is not JSON or has no time is dropped; a message with a time but no number is a reading
    without a value. No payload raises an error, because Spark would write the payload to its logs.
    """
    fields = F.from_json(F.col("value").cast("string"), PAYLOAD)
    columns = messages.select(F.col("key").cast("string").alias("meter"), fields.alias("fields"))
    timed_columns = columns.select(
        "meter", F.try_to_timestamp("fields.t").alias("time"), F.col("fields.power").alias("value")
    )
    return timed_columns.where("meter is not null and meter <> '' and time is not null")


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
