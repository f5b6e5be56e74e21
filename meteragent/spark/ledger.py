"""The key's ledger, as Spark reads it and adds to it: the same folder, the same rows as the local engine's.

The driver gathers the rows of a run: one for each meter and stretch of windows, not one for each window.
"""

import json

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 -- as everybody calls it

from meteragent.archive.kernel import TIME, milliseconds
from meteragent.archive.ledger import SCHEMA, Ledger
from meteragent.archive.policy import Policy
from meteragent.errors import ArchiveError
from meteragent.spark.frame import OPENED


def others(spark: SparkSession, ledger: Ledger, run: str) -> DataFrame:
    """What all runs but one, and its micro-batches, have released: meter, start, end."""
    own = ledger.path(run).name
    runs = [path for path in ledger.folder.glob("run=*") if path.name != own and not path.match(f"{own}-*")]
    files = sorted(str(file) for path in runs for file in path.glob("part-*.parquet"))
    return spark.read.schema(OPENED).parquet(*files) if files else spark.createDataFrame([], OPENED)


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


def debit(releases: DataFrame, policy: Policy, ledger: Ledger, run: str) -> int:
    """Put what a micro-batch releases into the ledger, once; how many windows it is.

    `releases` are as `frame.released` makes them.

    Raises:
        ArchiveError: the micro-batch was in the ledger with other releases, which may have left.
    """
    windows = releases.select(F.col("name").alias("meter"), "start", "end", "d", "key")
    table = rows(windows, policy)
    values = F.xxhash64("name", "start", "values", "d", "key")
    (digest,) = releases.agg(F.bit_xor(values)).collect()[0]
    about = json.dumps({"policy": dict(policy.facts), "releases": digest}).encode()
    if ledger.has(run):
        if about != (ledger.path(run) / "_run.json").read_bytes():
            raise ArchiveError(f"{run} is in the ledger with other releases: source, key or policy changed")
    elif table.num_rows:
        ledger.add(run, [table], lambda: about)
    return int(sum(table.column("windows").to_pylist()))
