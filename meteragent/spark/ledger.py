"""The key's ledger, as Spark reads it and adds to it: the same folder, the same rows as the local engine's.

The driver gathers the rows of a run: one for each meter and stretch of windows, not one for each window.
"""

import json

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 -- as everybody calls it

from meteragent.archive.kernel import TIME, milliseconds
from meteragent.archive.key import Key
from meteragent.archive.ledger import SCHEMA, Ledger, parts_of
from meteragent.archive.policy import Policy
from meteragent.domain.errors import ArchiveError
from meteragent.spark import worker
from meteragent.spark.frame import OPENED
from meteragent.spark.worker import Whose, safely


def others(spark: SparkSession, ledger: Ledger, run: str) -> DataFrame:
    """What all runs but one, and its micro-batches, have released: meter, taken (its intervals).

    Raises ArchiveError when files of the ledger are missing.
    """
    own = ledger.path(run).name
    runs = [path for path in ledger.folder.glob("run=*") if path.name != own and not path.match(f"{own}-*")]
    files = [str(file) for path in sorted(runs) for file in parts_of(path)]
    if not files:
        return spark.createDataFrame(
            [], "meter string, taken array<struct<start: timestamp, end: timestamp>>"
        )
    found = spark.read.schema(OPENED).parquet(*files)
    in_order = Window.partitionBy("meter").orderBy("start", "end")
    ended = F.max("end").over(in_order.rowsBetween(Window.unboundedPreceding, -1))
    begins = F.coalesce(ended < F.col("start"), F.lit(True)).cast("int")
    stretched = found.withColumn("begins", begins).withColumn("stretch", F.sum("begins").over(in_order))
    merged = stretched.groupBy("meter", "stretch").agg(
        F.min("start").alias("start"), F.max("end").alias("end")
    )
    return merged.groupBy("meter").agg(F.collect_list(F.struct("start", "end")).alias("taken"))


def named(windows: DataFrame, policy: Policy) -> DataFrame:
    """Windows (meter, start, end) with the ids of their descriptor and key: d, key."""
    whose = Whose.of(Key.load(policy.key_file))
    return windows.mapInArrow(safely(worker.named(policy, whose)), f"{OPENED}, d string, key string")


def rows(windows: DataFrame, policy: Policy) -> pa.Table:
    """Windows (meter, start, end, d, key) as rows of the ledger, by meter and start."""
    alike = Window.partitionBy("meter", "d", "key").orderBy("start")
    begins = F.coalesce(F.lag("end").over(alike) != F.col("start"), F.lit(True))
    numbered = windows.withColumn("begins", begins.cast("int"))
    stretched = numbered.withColumn("stretch", F.sum("begins").over(alike))
    found = stretched.groupBy("meter", "d", "key", "stretch").agg(
        F.min("start").alias("start"), F.max("end").alias("end"), F.count(F.lit(1)).alias("windows")
    )
    table = found.orderBy("meter", "start").toArrow().combine_chunks()
    starts = table.column("start").cast(TIME).combine_chunks()
    places, terms = policy.terms(milliseconds(starts))
    of = [terms[place] for place in places.tolist()]
    told = {
        "epsilon": pa.array([str(one.epsilon) for one in of], pa.string()),
        "unit": pa.array([f"1/{one.unit}" for one in of], pa.string()),
    }
    columns = [told[name] if name in told else table.column(name).cast(kind) for name, kind in _TYPES]
    return pa.table(columns, schema=SCHEMA)


_TYPES = [(field.name, field.type) for field in SCHEMA]


def debit(settled: DataFrame, policy: Policy, ledger: Ledger, run: str) -> int:
    """Put what a micro-batch releases into the ledger, once; how many windows it is.

    Raises:
        ArchiveError: the micro-batch was in the ledger with other releases, which may have left.
    """
    free = settled.where(F.col("values").isNotNull())
    table = rows(free.select(F.col("name").alias("meter"), "start", "end", "d", "key"), policy)
    (digest,) = free.agg(F.bit_xor(F.xxhash64("name", "start", "values", "d", "key"))).collect()[0]
    about = json.dumps({"policy": dict(policy.facts), "releases": digest}).encode()
    if ledger.has(run):
        if about != (ledger.path(run) / "_run.json").read_bytes():
            raise ArchiveError(f"{run} is in the ledger with other releases: source, key or policy changed")
    elif table.num_rows:
        ledger.add(run, [table], lambda: about)
    return int(sum(table.column("windows").to_pylist()))
