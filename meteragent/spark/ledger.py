"""The key's ledger on Spark: the same folder and rows as with the local engine, one for each stretch."""

import json

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 -- the usual name

from meteragent.archive.kernel import TIME, milliseconds
from meteragent.archive.key import Key
from meteragent.archive.ledger import SCHEMA, Ledger, parts_of
from meteragent.archive.policy import Policy
from meteragent.domain.errors import ArchiveError
from meteragent.spark import worker
from meteragent.spark.frame import INTERVALS, read
from meteragent.spark.worker import KeyFingerprint, safely


def taken_intervals(spark: SparkSession, ledger: Ledger, run: str) -> DataFrame:
    """Return the intervals that runs other than `run` have in the ledger, in the columns meter and taken.

    The micro-batches of `run` belong to `run`. Raises ArchiveError if files of the ledger are missing.
    """
    run_folder = ledger.path(run).name
    runs = [
        path
        for path in ledger.folder.glob("run=*")
        if path.name != run_folder and not path.match(f"{run_folder}-*")
    ]
    files = [file for path in sorted(runs) for file in parts_of(path)]
    if not files:
        return spark.createDataFrame(
            [], "meter string, taken array<struct<start: timestamp, end: timestamp>>"
        )
    rows = read(spark, files, INTERVALS)
    by_time = Window.partitionBy("meter").orderBy("start", "end")
    latest_end = F.max("end").over(by_time.rowsBetween(Window.unboundedPreceding, -1))
    is_first = F.coalesce(latest_end < F.col("start"), F.lit(True)).cast("int")
    stretches = rows.withColumn("begins", is_first).withColumn("stretch", F.sum("begins").over(by_time))
    intervals = stretches.groupBy("meter", "stretch").agg(
        F.min("start").alias("start"), F.max("end").alias("end")
    )
    return intervals.groupBy("meter").agg(F.collect_list(F.struct("start", "end")).alias("taken"))


def add_ids(windows: DataFrame, policy: Policy) -> DataFrame:
    """Add the ids of the descriptor (`d`) and of the key (`key`) to windows (meter, start, end)."""
    fingerprint = KeyFingerprint.of(Key.load(policy.key_file))
    return windows.mapInArrow(
        safely(worker.id_adder(policy, fingerprint)), f"{INTERVALS}, d string, key string"
    )


def ledger_rows(windows: DataFrame, policy: Policy) -> pa.Table:
    """Convert windows (meter, start, end, d, key) to rows of the ledger, in order of meter and start."""
    same_terms = Window.partitionBy("meter", "d", "key").orderBy("start")
    is_first = F.coalesce(F.lag("end").over(same_terms) != F.col("start"), F.lit(True))
    numbered_rows = windows.withColumn("begins", is_first.cast("int"))
    stretches = numbered_rows.withColumn("stretch", F.sum("begins").over(same_terms))
    ledger_stretches = stretches.groupBy("meter", "d", "key", "stretch").agg(
        F.min("start").alias("start"), F.max("end").alias("end"), F.count(F.lit(1)).alias("windows")
    )
    table = ledger_stretches.orderBy("meter", "start").toArrow().combine_chunks()
    starts = table.column("start").cast(TIME).combine_chunks()
    terms_index, terms = policy.terms(milliseconds(starts))
    row_terms = [terms[index] for index in terms_index.tolist()]
    text_columns = {
        "epsilon": pa.array([str(part.epsilon) for part in row_terms], pa.string()),
        "unit": pa.array([f"1/{part.value_unit}" for part in row_terms], pa.string()),
    }
    columns = [
        text_columns[name] if name in text_columns else table.column(name).cast(kind) for name, kind in _TYPES
    ]
    return pa.table(columns, schema=SCHEMA)


_TYPES = [(field.name, field.type) for field in SCHEMA]


def debit(releases: DataFrame, policy: Policy, ledger: Ledger, run: str) -> int:
    """Enter the released windows of the micro-batch `run` in the ledger, unless they are there already.

    Return the number of windows. Raises ArchiveError if the ledger has this micro-batch with other
    releases, which may have been published.
    """
    new_windows = releases.where(F.col("values").isNotNull())
    table = ledger_rows(new_windows.select(F.col("name").alias("meter"), "start", "end", "d", "key"), policy)
    (digest,) = new_windows.agg(F.bit_xor(F.xxhash64("name", "start", "values", "d", "key"))).collect()[0]
    facts = json.dumps({"policy": dict(policy.facts), "releases": digest}).encode()
    if ledger.has(run):
        if facts != (ledger.path(run) / "_run.json").read_bytes():
            reason = "the source, the key or the policy has changed"
            raise ArchiveError(f"{run} is in the ledger with other releases: {reason}")
    elif table.num_rows:
        ledger.add(run, [table], lambda: facts)
    return int(sum(table.column("windows").to_pylist()))
