"""Data frames: from readings to windows to releases, with the archive's own functions (`worker`).

Rows of the wide layout become windows without a shuffle, except in streams. In the long layout, each reading
is assigned to every window that its span may touch, and Spark groups the readings by meter and window.
"""

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, GroupedData, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- the usual name
from pyspark.sql.types import StructType

from meteragent.archive import acceptance, kernel
from meteragent.archive.acceptance import Layout
from meteragent.archive.files import COMPRESSION
from meteragent.archive.key import Key
from meteragent.archive.number import TOTALS, Counts
from meteragent.archive.policy import Policy
from meteragent.consume import Descriptor
from meteragent.consume.archive import open_outputs
from meteragent.spark import worker
from meteragent.spark.worker import KeyFingerprint, Work, safely

INTERVALS = "meter string, start timestamp, end timestamp"
_TOTALS = ", ".join(f"{name}: bigint" for name in TOTALS)
_COUNTS = f"counts struct<{_TOTALS}, first: struct<meter: string, time_ms: bigint>>"
WINDOWS = f"meter string, start timestamp, quanta array<bigint>, end timestamp, {_COUNTS}"
_TIMES = "spark.sql.parquet.outputTimestampType"
PART_VALUES = 1 << 22
"""The approximate number of values in a part."""

Rows = Callable[[Work, str], DataFrame]
"""A function that applies work to the batches of an input's rows; the result has the given schema."""


def layout_of(readings: DataFrame, policy: Policy) -> Layout:
    """Return "wide" if each row is a window, else "long". Raises ArchiveError if a column is wrong."""
    fields = [field for field in readings.schema if field.name in policy.columns]
    no_rows = readings.sparkSession.createDataFrame([], StructType(fields))
    return acceptance.layout_of(no_rows.toArrow().schema, policy)


def batch_mapper(readings: DataFrame, policy: Policy) -> Rows:
    """Return a function that applies work to the rows of a data frame, in the columns of the policy."""
    return lambda work, schema: select_columns(readings, policy).mapInArrow(safely(work), schema)


def select_columns(readings: DataFrame, policy: Policy) -> DataFrame:
    """Select the columns that a policy names."""
    return readings.select(*map(quote, policy.columns))


def quote(name: str) -> str:
    """Return a column's name in backticks, without which Spark would take a dot for access to a field."""
    return f"`{name.replace('`', '``')}`"


def windows(readings: DataFrame, policy: Policy) -> DataFrame:
    """Convert readings to windows as whole quanta: meter, start, quanta, end, counts (for `count_columns`).

    The policy names the columns of `readings`. In the long layout the windows are those in which the span
    of a reading begins. The result does not depend on the order of rows or on partitions. Raises
    ArchiveError if a column is missing or has the wrong type.
    """
    rows = batch_mapper(readings, policy)
    if layout_of(readings, policy) == "wide":
        return rows(worker.wide_reader(policy), WINDOWS)
    return integrate_groups(assign_readings(rows, policy).groupBy("meter", "start"), policy)


def count_columns() -> list[Column]:
    """Return aggregates of windows: their number and, from column `counts`, figures for `counts_of`."""
    first = F.min("counts.first")
    figures = [F.sum(f"counts.{name}").alias(name) for name in TOTALS]
    places = [first[name].alias(name) for name in ("meter", "time_ms")]
    return [F.count(F.lit(1)).alias("windows"), *figures, *places]


def counts_of(figures: dict[str, Any]) -> Counts:
    """Return the counts that have these figures, which are results of the aggregates of `count_columns`."""
    first = None if figures["meter"] is None else (figures["meter"], figures["time_ms"])
    return Counts(**{name: figures[name] or 0 for name in TOTALS}, first_conflict=first)


def assign_readings(rows: Rows, policy: Policy) -> DataFrame:
    """Repeat each reading for every window that its span may touch: meter, start, end, time, value_u."""
    return rows(worker.reading_assigner(policy), f"{INTERVALS}, time timestamp, value_u bigint")


def integrate_groups(groups: GroupedData, policy: Policy) -> DataFrame:
    """Integrate readings grouped by the window to which they are assigned: meter, start, quanta, end."""
    return _lists(groups).mapInArrow(safely(worker.group_reader(policy)), WINDOWS)


def _lists(groups: GroupedData) -> DataFrame:
    """Return the readings of each group as a list: meter, start, readings."""
    readings_by_window = groups.agg(F.collect_list(F.struct("time", "value_u")).alias("readings"))
    return readings_by_window.select("meter", "start", "readings")


def sanitise(readings: DataFrame, policy: Policy) -> DataFrame:
    """Release windows: meter, start, end, values, d, key. No ledger is used: the caller must keep one.

    The noise is exact, and does not depend on how Spark divides the work. Each worker must have the key.
    Raises ArchiveError if a column is missing or wrong; KeyMissing if the driver cannot read the key.
    """
    return add_noise(windows(readings, policy), policy)


def add_noise(windows: DataFrame, policy: Policy) -> DataFrame:
    """Add noise to windows. Every worker must have the driver's current key."""
    fingerprint = KeyFingerprint.of(Key.load(policy.key_file))
    return windows.mapInArrow(safely(worker.noise_adder(policy, fingerprint)), release_ddl(policy))


def part_count(windows: int, policy: Policy) -> int:
    """Return the number of parts, computed only from public facts: the policy and the window count."""
    return max(1, -(-windows * policy.usual.n // PART_VALUES))


def sort_into_parts(releases: DataFrame, parts: int) -> DataFrame:
    """Divide releases into `parts` parts by a hash of public id and start; sort each by start and public id.

    The caller gives the number of parts, because Spark would otherwise choose a number that depends on the
    amount of data that it shuffles.
    """
    return releases.repartition(parts, "meter", "start").sortWithinPartitions("start", "meter")


def mark_taken(windows: DataFrame, ledger_intervals: DataFrame) -> DataFrame:
    """Add the column `taken`: whether a window overlaps one of its meter's intervals in the ledger."""
    overlaps = F.exists(
        "taken", lambda interval: (interval["start"] < F.col("end")) & (F.col("start") < interval["end"])
    )
    rows = windows.join(ledger_intervals, "meter", "left")
    return rows.withColumn("taken", F.coalesce(overlaps, F.lit(False)))


def read(spark: SparkSession, paths: Iterable[Path], schema: str | None = None) -> DataFrame:
    """Return the rows of these Parquet files; a character such as ``*`` in a name stands for itself."""
    reader = spark.read.schema(schema) if schema else spark.read
    return reader.parquet(*(literal(_address(path)) for path in paths))


def literal(address: str) -> str:
    """Escape an address so that Spark does not take it as a pattern, and finds only this address."""
    return re.sub(r"([\\\[\]{}*?])", r"\\\1", address)


def _address(path: Path) -> str:
    """Return a path with the scheme ``file``; Spark looks up a bare path in its default file system."""
    return f"file://{path.absolute()}"


def read_outputs(spark: SparkSession, *folders: Path) -> tuple[DataFrame, tuple[Descriptor, ...]]:
    """Return outputs' releases and descriptors for `by_feeder`. Raises RecordError as `open_outputs`."""
    outputs = open_outputs(folders)
    return read(spark, outputs.parts), tuple(outputs.descriptors.values())


def write(releases: DataFrame, path: Path) -> None:
    """Write releases as Parquet, and replace any content of `path`; times are in milliseconds."""
    conf = releases.sparkSession.conf
    previous = conf.get(_TIMES)
    conf.set(_TIMES, "TIMESTAMP_MILLIS")
    try:
        releases.write.mode("overwrite").option("compression", COMPRESSION).parquet(_address(path))
    finally:
        conf.set(_TIMES, str(previous))


def release_ddl(policy: Policy) -> str:
    """Return the schema of releases in Spark's notation."""
    return ddl(kernel.release_schema(policy))


def ddl(schema: pa.Schema) -> str:
    """Return a schema in Spark's notation."""
    return ", ".join(f"`{field.name}` {_type(field.type)}" for field in schema)


def _type(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return f"array<{_type(kind.value_type)}>"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision}, {kind.scale})"
    return "timestamp" if pa.types.is_timestamp(kind) else {"int64": "bigint"}.get(str(kind), str(kind))
