"""Structured Streaming: readings that keep coming -> releases, each window once.

Theory of operation
-------------------
A window closes when the watermark (the newest time seen, less `window.lateness`) has passed the last time at
which a reading of it can lie. Until then its readings are in Spark's state; what comes later Spark drops and
counts. One clock moves all meters, so a time further ahead of the wall clock than `window.ahead` is refused
and counted (`early` among the query's observed metrics). For each micro-batch, in this order:

1. windows that overlap what the key's ledger has from other runs are refused, counted and logged;
2. the others get their noise, a function of the key and of the data: made again, it is the same;
3. they are written to the ledger, under this run and the micro-batch;
4. they go to the sink.

A crash repeats the micro-batch with the same readings and the same watermark. It is in the ledger, or is
written with the same rows; what the sink gets again is byte for byte what it got, or nothing: if the source
says other things than before, the query fails. A new checkpoint is a new run: all that the old one has in the
ledger is refused. So a checkpoint that is lost costs what it had not released, and never a second release.

Readings of open windows are in the checkpoint's state and in shuffle files, as they were sent: both belong
where raw readings may lie. The end of a window, which follows from times, takes over the mark that
`withWatermark` puts on their column: by that Spark knows when to let it go, on any calendar.
"""

import hashlib
import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- as everybody calls it
from pyspark.sql.streaming.query import StreamingQuery

from meteragent.archive import files
from meteragent.archive.key import Key
from meteragent.archive.ledger import Ledger
from meteragent.archive.manifest import NAME as MANIFEST
from meteragent.archive.policy import Policy
from meteragent.spark import worker
from meteragent.spark.frame import WINDOWS, form_of, gathered, marked, settled, touched, write
from meteragent.spark.ledger import debit, others
from meteragent.spark.worker import safely

Sink = Callable[[DataFrame, int], None]
"""Takes the releases of a micro-batch, and its number; a crash makes it take the same again."""

_STORE = "spark.sql.streaming.stateStore.providerClass"
_ROCKS_DB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

_log = logging.getLogger(__name__)


@contextmanager
def stream(
    readings: DataFrame, policy: Policy, sink: Sink, checkpoint: str, **trigger: Any
) -> Iterator[StreamingQuery]:
    """A running query that gives releases to a sink; it stops when the context ends, which holds the ledger.

    Args:
        readings: a streaming frame of the columns that the policy names, in either form; its source must be
            able to say again what it said (Kafka, files), which MQTT is not.
        policy: under what they are released.
        sink: where releases go, such as `folder(out, policy)`.
        checkpoint: the folder of the query's state: never deleted, never copied.
        trigger: as `DataStreamWriter.trigger` takes it, such as processingTime="1 minute".

    Raises:
        ArchiveError: a column is missing or not what it must be.
        ArchiveInUse: another run holds the ledger.
        KeyMissing: the key cannot be read.
    """
    Key.load(policy.key_file)  # now, rather than when the first window closes
    found, spark = closed(readings, policy), readings.sparkSession
    spark.conf.set(_STORE, _ROCKS_DB)
    ledger = Ledger(policy.ledger)
    with ledger.held():
        writer = found.writeStream.outputMode("append").option("checkpointLocation", checkpoint)
        closing = _Closing(policy, sink, ledger)
        query = writer.foreachBatch(closing).trigger(**trigger).start()
        try:
            yield query
        finally:
            query.stop()
            if closing.taken is not None:
                closing.taken.unpersist()


def folder(out: Path, policy: Policy) -> Sink:
    """A sink that writes Parquet below a folder of the driver's: ``query=<id>/batch=7``.

    `meteragent.consume` reads it as it reads what `sanitise` has made.
    """

    def take(releases: DataFrame, batch: int) -> None:
        write(releases, str(out / f"query={_query(releases.sparkSession)}" / f"batch={batch}"))
        facts = {"v": 1, "complete": True, "descriptors": descriptors(policy)}
        files.write(out / MANIFEST, lambda file: file.write(json.dumps(facts, indent=1).encode()))

    return take


def descriptors(policy: Policy) -> list[dict[str, Any]]:
    """The descriptors that releases name in `d`: one for each kind of window that the calendar has."""
    each = [policy.descriptor(terms) for terms in policy.shapes]
    return [json.loads(one.message("", 0)) for one in each]


def closed(readings: DataFrame, policy: Policy) -> DataFrame:
    """Windows as quanta, each when the watermark has passed it: meter, start, quanta, end.

    A window of the wide form that comes several times before it closes is the least of them.
    """
    kind, time = form_of(readings, policy), policy.columns.time
    # A micro-batch keeps its clock, so that it is the same when it is repeated.
    ahead = F.timestamp_add("MILLISECOND", F.lit(policy.stream.window.ahead), F.current_timestamp())
    early = F.col(time) > ahead
    told = readings.select(*policy.columns).observe(
        "readings", F.count(F.lit(1)).alias("read"), F.count_if(early).alias("early")
    )
    timed = told.where(~early).withWatermark(time, f"{policy.usual.lateness_ms} milliseconds")
    mark = timed.schema[time].metadata
    if kind == "wide":
        found = timed.mapInArrow(safely(worker.wide(policy)), WINDOWS)
        ends = found.withColumn("closes", F.col("end").alias("closes", metadata=mark))
        least = ends.groupBy("meter", "start", "end", "closes").agg(F.min("quanta").alias("quanta"))
        return least.select("meter", "start", "quanta", "end")
    last = F.timestamp_add("MILLISECOND", F.lit(policy.lead_ms), F.col("end"))
    given = touched(timed, policy).withColumn("closes", last.alias("closes", metadata=mark))
    return gathered(given.groupBy("meter", "start", "closes"), policy)


@dataclass
class _Closing:
    """What is done with the windows that a micro-batch closes."""

    policy: Policy
    sink: Sink
    ledger: Ledger
    taken: DataFrame | None = None

    def __call__(self, found: DataFrame, batch: int) -> None:
        spark = found.sparkSession
        run = f"stream-{_query(spark)}-{_name(self.policy)}"
        if self.taken is None:
            self.taken = others(spark, self.ledger, run).persist()
        found = settled(marked(found, self.taken), self.policy).persist()
        try:
            count = debit(found, self.policy, self.ledger, f"{run}-{batch}")
            free = found.where(F.col("values").isNotNull())
            _log.info("micro-batch %d: %d windows released, %d refused", batch, count, found.count() - count)
            self.sink(free.drop("name"), batch)
        finally:
            found.unpersist()


def _query(spark: SparkSession) -> str:
    """The id of the query that runs here: as old as its checkpoint."""
    return str(spark.sparkContext.getLocalProperty("sql.streaming.queryId"))


def _name(policy: Policy) -> str:
    """A short name for what decides which windows there are: under another, the same query is another run."""
    told = json.dumps(dict(policy.facts), sort_keys=True) + repr(policy.schedule.grid)
    return hashlib.sha256(told.encode()).hexdigest()[:8]
