"""The key's ledger on Spark, in the same folder and with the same rows as the local engine's ledger.

The driver holds only a piece of a run's rows at a time (`_PIECE_ROWS`).
"""

import json
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 -- the usual name

from meteragent.archive.key import Key
from meteragent.archive.ledger import SCHEMA, Ledger, parts_of
from meteragent.archive.policy import Policy
from meteragent.domain.errors import ArchiveError
from meteragent.spark import worker
from meteragent.spark.frame import INTERVALS, ddl, read
from meteragent.spark.worker import KeyFingerprint, safely


def taken_intervals(spark: SparkSession, ledger: Ledger, run: str) -> DataFrame:
    """Return the intervals that runs other than `run` have in the ledger, in the columns meter and taken.

    Intervals of the micro-batches of `run` are left out, too. Raises ArchiveError if ledger files are lost.
    """
    run_folder = ledger.path(run).name
    runs = [
        path
        for path in ledger.folder.glob("run=*")
        if path.name != run_folder and not path.match(f"{run_folder}-*")
    ]
    files = [file for path in sorted(runs) for file in parts_of(path)]
    if not files:
        schema = "meter string, taken array<struct<start: timestamp, end: timestamp>>"
        return spark.createDataFrame([], schema).limit(0)  # without limit(0), Spark would sort all windows
    return merge_intervals(read(spark, files, INTERVALS))


def merge_intervals(rows: DataFrame) -> DataFrame:
    """Merge intervals (meter, start, end) that overlap or touch: meter, taken (a list of starts and ends)."""
    by_time = Window.partitionBy("meter").orderBy("start", "end")
    latest_end = F.max("end").over(by_time.rowsBetween(Window.unboundedPreceding, -1))
    is_first = F.coalesce(latest_end < F.col("start"), F.lit(True)).cast("int")
    stretches = rows.withColumn("begins", is_first).withColumn("stretch", F.sum("begins").over(by_time))
    intervals = stretches.groupBy("meter", "stretch").agg(
        F.min("start").alias("start"), F.max("end").alias("end")
    )
    return intervals.groupBy("meter").agg(F.collect_list(F.struct("start", "end")).alias("taken"))


def ledger_rows(windows: DataFrame, policy: Policy) -> Iterator[pa.Table]:
    """Yield the rows of the ledger for windows (meter, start), in one or more tables.

    All rows of a meter are in one table, in order of meter and start.
    """
    make_rows = safely(worker.row_maker(policy, KeyFingerprint.of(Key.load(policy.key_file))))
    by_meter = windows.select("meter", "start").repartition("meter").sortWithinPartitions("meter", "start")
    rows = by_meter.mapInArrow(make_rows, ddl(SCHEMA)).persist()
    try:
        count = max(1, -(-rows.count() // _PIECE_ROWS))
        for index in range(count):
            piece = rows.where(F.pmod(F.xxhash64("meter"), F.lit(count)) == index)
            yield piece.orderBy("meter", "start").toArrow().cast(SCHEMA).combine_chunks()
    finally:
        rows.unpersist()


_PIECE_ROWS = 1 << 20
"""The approximate number of rows that the driver holds at a time."""


def debit(windows: DataFrame, releases: DataFrame, policy: Policy, ledger: Ledger, run: str) -> int:
    """Enter the windows of the micro-batch `run` in the ledger unless they are there; return their number.

    Raises ArchiveError if the ledger has this micro-batch with other releases, which may be published.
    """
    table = pa.concat_tables(ledger_rows(windows, policy))
    (digest,) = releases.agg(F.bit_xor(F.xxhash64("meter", "start", "values", "d", "key"))).collect()[0]
    facts = json.dumps({"policy": dict(policy.facts), "releases": digest}).encode()
    if ledger.has(run):
        if facts != (ledger.path(run) / "_run.json").read_bytes():
            reason = "the source, the key or the policy has changed"
            raise ArchiveError(f"{run} is in the ledger with other releases: {reason}")
    elif table.num_rows:
        ledger.add(run, (ledger.write(run, 0, part) for part in [table]), lambda: facts)
    return int(sum(table.column("windows").to_pylist()))
