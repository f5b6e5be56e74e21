"""Structured Streaming: the releases of readings that keep arriving, each window once.

A window closes when the watermark (the newest time seen, less `window.lateness`) has passed its end or, for
energies in the long layout, the latest time that one of its readings can have. Until then Spark's state holds
its readings. Spark drops and counts readings that arrive later. All meters share one watermark, so a reading
whose time is ahead of the wall clock by more than `window.ahead` is refused and counted (`early` among the
query's observed metrics). For each micro-batch, in this order:

1. Windows that overlap an interval of another run in the key's ledger are refused.
2. The other windows get their noise, which is a function of the key and of the data.
3. These windows are written to the ledger, under this run and the number of the micro-batch. The numbers of
   released and refused windows are logged.
4. The releases of these windows are passed to the sink.

After a crash, the restarted query repeats the micro-batch with the same readings and the same watermark. The
noise is computed again and is the same, so the sink gets the same releases. If the micro-batch is not yet in
the ledger, it is written there now. If it is in the ledger with other releases, because the source delivers
other data than before, the query fails, and the sink gets nothing. If the ledger is a Delta table, releases
are written before they are debited (`delta_ledger`), and the sink gets what was written. A new checkpoint
starts a new run, for which the ledger refuses every window that the old run released. So if a checkpoint is
lost, the windows that were not yet released may be lost, but no window is released twice.

The checkpoint's state and the shuffle files contain the raw readings of open windows: keep both where raw
readings may be kept. The column `closes` holds the time that the watermark has to pass. It gets the metadata
of the time column, and with it the watermark that `withWatermark` sets there. So Spark knows when to drop a
window's state, on any calendar.
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
from pyspark.sql import functions as F  # noqa: N812 -- the usual name
from pyspark.sql.streaming.query import StreamingQuery

from meteragent.archive import files
from meteragent.archive.key import Key
from meteragent.archive.ledger import Ledger
from meteragent.archive.policy import Policy
from meteragent.consume.archive import STREAM_MANIFEST, describe_part, read_facts
from meteragent.spark import frame, worker
from meteragent.spark.delta_ledger import DeltaLedger, FrameResult
from meteragent.spark.ledger import debit, taken_intervals
from meteragent.spark.worker import safely

Sink = Callable[[DataFrame, int], None]
"""A function that takes a micro-batch's releases and its number.

After a crash it may be called again with the same releases and number.
"""

_STORE = "spark.sql.streaming.stateStore.providerClass"
_ROCKS_DB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

_log = logging.getLogger(__name__)
_COUNTS = "micro-batch %d: windows released: %d, refused: %d"


@contextmanager
def stream(
    readings: DataFrame,
    policy: Policy,
    sink: Sink,
    checkpoint: str,
    *,
    ledger: Path | str | None = None,
    **trigger: Any,
) -> Iterator[StreamingQuery]:
    """Run a query that passes releases to a sink; stop it and unlock the ledger when the context ends.

    `readings` is a streaming frame with the policy's columns, whose source can deliver the same data again,
    as Kafka and files can but MQTT cannot. `sink` gets the releases, such as `folder(out, policy)`.
    `checkpoint`, the folder of the query's state, must not be deleted or copied. `ledger` is the path or
    address of a Delta table, as for `sanitise_frame`, instead of the key's folder. `trigger` is as in
    `DataStreamWriter.trigger`.

    Raises ArchiveError if a column is missing or has the wrong type, or the ledger cannot be used;
    ArchiveInUse if another run has locked the ledger; KeyMissing if the key cannot be read.
    """
    Key.load(policy.key_file)  # a missing key is an error now, not when the first window closes
    windows, spark = closed_windows(readings, policy), readings.sparkSession
    spark.conf.set(_STORE, _ROCKS_DB)
    with _closing(policy, sink, ledger) as closing:
        writer = windows.writeStream.outputMode("append").option("checkpointLocation", checkpoint)
        query = writer.foreachBatch(closing).trigger(**trigger).start()
        try:
            yield query
        finally:
            query.stop()


@contextmanager
def _closing(policy: Policy, sink: Sink, table: Path | str | None) -> Iterator[Sink]:
    """Yield the function that releases micro-batches, with the ledger in a table or the key's folder."""
    if table is not None:
        yield _TableClosing(policy, sink, DeltaLedger.of(table, policy))
        return
    ledger = Ledger(policy.ledger)
    with ledger.lock():
        closing = _Closing(policy, sink, ledger)
        try:
            yield closing
        finally:
            if closing.refused_intervals is not None:
                closing.refused_intervals.unpersist()


def folder(out: Path, policy: Policy) -> Sink:
    """Return a sink that writes Parquet below `out` on the driver, in folders such as ``query=<id>/batch=7``.

    `meteragent.consume` reads `out` like an output of `sanitise`. A manifest in each micro-batch's folder
    lists its parts. The manifest of `out` has the first and the last micro-batch of each query.
    """

    def write_batch(releases: DataFrame, batch: int) -> None:
        """Write the releases of a micro-batch with their manifest, then the manifest of the folder."""
        query = _query(releases.sparkSession)
        name = f"query={query}/batch={batch}"
        frame.write(releases, out / name)
        parts = [describe_part(path) for path in sorted((out / name).glob("part-*.parquet"))]
        _save(out / name / STREAM_MANIFEST, {"v": 1, "batch": name, "parts": parts})
        path, facts = out / STREAM_MANIFEST, {"v": 1, "complete": True, "descriptors": descriptors(policy)}
        batches = read_facts(path)["batches"] if path.exists() else {}
        first, last = batches.get(query, (batch, batch))
        _save(path, facts | {"batches": batches | {query: (min(first, batch), max(last, batch))}})

    return write_batch


def _save(path: Path, facts: dict[str, Any]) -> None:
    files.write_file(path, lambda file: file.write(json.dumps(facts, indent=1).encode()))


def descriptors(policy: Policy) -> list[dict[str, Any]]:
    """Return the descriptors to which releases refer in `d`, one for each of the policy's `shapes`."""
    all_descriptors = [policy.descriptor(terms) for terms in policy.shapes]
    return [json.loads(descriptor.encode_message("", 0)) for descriptor in all_descriptors]


def closed_windows(readings: DataFrame, policy: Policy) -> DataFrame:
    """Return each window, as quanta, when the watermark has passed it: meter, start, quanta, end.

    If a window of the wide layout arrives several times before it closes, the copy with the smallest quanta
    (compared as arrays) is returned.
    """
    kind, time = frame.layout_of(readings, policy), policy.columns.time
    # Spark fixes the current time for each micro-batch, so a repeated micro-batch has the same time.
    limit = F.timestamp_add("MILLISECOND", F.lit(policy.stream.window.ahead), F.current_timestamp())
    is_early = F.col(frame.quote(time)) > limit
    counted_readings = frame.select_columns(readings, policy).observe(
        "readings", F.count(F.lit(1)).alias("read"), F.count_if(is_early).alias("early")
    )
    timely_readings = counted_readings.where(~is_early).withWatermark(
        frame.quote(time), f"{policy.usual.lateness_ms} milliseconds"
    )
    watermark_metadata = timely_readings.schema[time].metadata
    if kind == "wide":
        windows = timely_readings.mapInArrow(safely(worker.wide_reader(policy)), frame.WINDOWS)
        closes = F.col("end").alias("closes", metadata=watermark_metadata)
        copies = windows.withColumn("closes", closes).groupBy("meter", "start", "end", "closes")
        smallest_copies = copies.agg(F.min("quanta").alias("quanta"))
        return smallest_copies.select("meter", "start", "quanta", "end")
    latest_time = F.timestamp_add("MILLISECOND", F.lit(policy.lead_ms), F.col("end"))
    assignments = frame.assign_readings(frame.batch_mapper(timely_readings, policy), policy).withColumn(
        "closes", latest_time.alias("closes", metadata=watermark_metadata)
    )
    return frame.integrate_groups(assignments.groupBy("meter", "start", "closes"), policy)


@dataclass
class _Closing:
    """The release of the windows that a micro-batch closes."""

    policy: Policy
    sink: Sink
    ledger: Ledger
    refused_intervals: DataFrame | None = None

    def __call__(self, windows: DataFrame, batch: int) -> None:
        spark = windows.sparkSession
        run = f"stream-{_query(spark)}-{_name(self.policy)}"
        if self.refused_intervals is None:
            self.refused_intervals = taken_intervals(spark, self.ledger, run).persist()
        windows = frame.mark_taken(windows, self.refused_intervals).persist()
        new_windows = windows.where(~F.col("taken"))
        releases = frame.add_noise(new_windows, self.policy).persist()
        try:
            count = debit(new_windows, releases, self.policy, self.ledger, f"{run}-{batch}")
            _log.info(_COUNTS, batch, count, windows.count() - count)
            self.sink(releases, batch)
        finally:
            releases.unpersist()
            windows.unpersist()


@dataclass
class _TableClosing:
    """The release of the windows that a micro-batch closes, with the ledger in a Delta table."""

    policy: Policy
    sink: Sink
    ledger: DeltaLedger
    last_result: FrameResult | None = None

    def __call__(self, windows: DataFrame, batch: int) -> None:
        result = self.ledger.release(windows, self.policy)
        _log.info(_COUNTS, batch, result.released_windows, result.refused_windows)
        self.sink(result.releases, batch)
        if self.last_result is not None:  # Spark never repeats a micro-batch once a later one has begun
            self.last_result.remove_releases()
        self.last_result = result


def _query(spark: SparkSession) -> str:
    """Return the id of the running query, which is stored in its checkpoint."""
    return str(spark.sparkContext.getLocalProperty("sql.streaming.queryId"))


def _name(policy: Policy) -> str:
    """Return a short hash of the policy's facts and grid; a different hash means a different run."""
    facts = json.dumps(dict(policy.facts), sort_keys=True) + repr(policy.schedule.grid)
    return hashlib.sha256(facts.encode()).hexdigest()[:8]
