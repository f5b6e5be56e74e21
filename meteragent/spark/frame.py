"""Data frames: from readings to windows to releases, with the archive's own functions (`worker`).

Rows of the wide layout become windows without a shuffle, except in streams. In the long layout, each reading
is assigned to every window that its span may touch, and Spark groups the readings by meter and window, in
streams, too. So the readings of a group are all that its window needs.
"""

import re
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, GroupedData, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- the usual name
from pyspark.sql.types import ArrayType, TimestampType

from meteragent.archive import kernel, layout
from meteragent.archive.key import Key
from meteragent.archive.number import TOTALS
from meteragent.archive.policy import Policy
from meteragent.consume import Descriptor
from meteragent.consume.archive import open_outputs
from meteragent.domain.errors import ArchiveError
from meteragent.spark import worker
from meteragent.spark.worker import KeyFingerprint, safely

INTERVALS = "meter string, start timestamp, end timestamp"
_COUNTS = ", ".join(f"{name}: bigint" for name in TOTALS)
WINDOWS = (
    "meter string, start timestamp, quanta array<bigint>, end timestamp,"
    f" counts struct<{_COUNTS}, first: struct<meter: string, time_ms: bigint>>"
)
_TIMES = "spark.sql.parquet.outputTimestampType"


def layout_of(readings: DataFrame, policy: Policy) -> layout.Layout:
    """Return "wide" if a row is a window, "long" if a reading. Raises ArchiveError if a column is wrong."""
    missing_columns = set(policy.columns) - set(readings.columns)
    if missing_columns:
        raise ArchiveError(f"column {min(missing_columns)!r}: not found among {', '.join(readings.columns)}")
    time = readings.schema[policy.columns.time].dataType
    if not isinstance(time, TimestampType):
        raise ArchiveError(f"column {policy.columns.time!r}: found {time.simpleString()}; expected timestamp")
    is_wide = isinstance(readings.schema[policy.columns.value].dataType, ArrayType)
    return "wide" if is_wide else "long"


def windows(readings: DataFrame, policy: Policy) -> DataFrame:
    """Convert readings to windows as whole quanta: meter, start, quanta, end, counts (for `count_numbers`).

    The policy names the columns of `readings`. In the long layout the windows are those in which the span
    of a reading begins. The result does not depend on the order of rows or on partitions. Raises
    ArchiveError if a column is missing or has the wrong type.
    """
    row_layout = layout_of(readings, policy)
    columns = readings.select(*policy.columns)
    if row_layout == "wide":
        return columns.mapInArrow(safely(worker.wide_reader(policy)), WINDOWS)
    return integrate_groups(assign_readings(columns, policy).groupBy("meter", "start"), policy)


def count_numbers(windows: DataFrame, observation: Observation) -> DataFrame:
    """Return windows without their column `counts`, which `observation` sums up when they are computed."""
    first = F.min("counts.first")
    figures = [F.sum(f"counts.{name}").alias(name) for name in TOTALS]
    places = [first[name].alias(name) for name in ("meter", "time_ms")]
    return windows.observe(observation, F.count(F.lit(1)).alias("windows"), *figures, *places).drop("counts")


def count_similar(windows: DataFrame) -> int:
    """Return the number of meters whose names differ from another's only as spellings of one name do."""
    meters = windows.select("meter").distinct()
    forms = meters.mapInArrow(safely(worker.name_normaliser()), "form string").groupBy("form").count()
    return int(forms.where("count > 1").agg(F.coalesce(F.sum("count"), F.lit(0))).collect()[0][0])


def assign_readings(columns: DataFrame, policy: Policy) -> DataFrame:
    """Repeat each reading for every window that its span may touch: meter, start, end, time, value."""
    value = columns.schema[policy.columns.value].dataType.simpleString()
    schema = f"{INTERVALS}, time timestamp, value {value}"
    return columns.mapInArrow(safely(worker.reading_assigner(policy)), schema)


def integrate_groups(groups: GroupedData, policy: Policy) -> DataFrame:
    """Integrate readings grouped by the window to which they are assigned: meter, start, quanta, end."""
    readings_by_window = groups.agg(F.collect_list(F.struct("time", "value")).alias("readings"))
    lists = readings_by_window.select("meter", "start", "readings")
    return lists.mapInArrow(safely(worker.group_reader(policy)), WINDOWS)


def sanitise(readings: DataFrame, policy: Policy) -> DataFrame:
    """Release windows: meter, start, end, values, d, key.

    The noise is exact, and does not depend on how Spark divides the work. Unlike `sanitise_archive` and
    `stream`, this function neither reads nor writes the key's ledger; the caller must keep a ledger of its
    own. Raises ArchiveError if a column is missing or has the wrong type; KeyMissing if the driver cannot
    read the key, which each worker must have, too.
    """
    return add_noise(windows(readings, policy), policy)


def add_noise(windows: DataFrame, policy: Policy) -> DataFrame:
    """Add noise to windows; every worker must have the key that the driver has now."""
    fingerprint = KeyFingerprint.of(Key.load(policy.key_file))
    return windows.mapInArrow(
        safely(worker.noise_adder(policy, fingerprint)), _ddl(kernel.release_schema(policy))
    )


def release_untaken(windows: DataFrame, policy: Policy) -> DataFrame:
    """Release windows that are not `taken`, others as name, start and end; `name` is the meter's own."""
    fingerprint = KeyFingerprint.of(Key.load(policy.key_file))
    schema = kernel.release_schema(policy).append(pa.field("name", pa.string()))
    return windows.mapInArrow(safely(worker.untaken_releaser(policy, fingerprint)), _ddl(schema))


def sort_into_parts(releases: DataFrame, parts: int) -> DataFrame:
    """Divide releases into `parts` parts by a hash of public id and start; sort each by start and public id.

    The caller gives the number of parts, because Spark would otherwise choose a number that depends on the
    amount of data that it shuffles.
    """
    return releases.repartition(parts, "meter", "start").sortWithinPartitions("start", "meter")


def by_slots(releases: DataFrame, policy: Policy) -> DataFrame:
    """Split releases into a row for each slot, in the same order."""
    schema = layout.slot_schema(kernel.release_schema(policy), policy)
    return releases.mapInArrow(safely(worker.slot_splitter(policy)), _ddl(schema))


def opened_windows(readings: DataFrame, policy: Policy) -> DataFrame:
    """Return the windows that readings open: meter, start, end. Values do not affect them.

    In the long layout each window appears once. In the wide layout there is a row for each input row, with
    the column `fits`: whether the row is on the grid and has the right number of values.
    """
    names = policy.columns
    if layout_of(readings, policy) == "long":
        columns = readings.select(names.meter, names.time)
        return columns.mapInArrow(safely(worker.window_opener(policy)), INTERVALS).distinct()
    count = F.when(F.col(names.value).isNotNull(), F.size(names.value)).alias("numbers")
    columns = readings.select(names.meter, names.time, count)
    return columns.mapInArrow(safely(worker.row_checker(policy)), f"{INTERVALS}, fits boolean")


def mark_taken(windows: DataFrame, ledger_intervals: DataFrame) -> DataFrame:
    """Mark each window as `taken` if it overlaps one of its meter's intervals in the ledger."""
    overlaps = F.exists(
        "taken", lambda interval: (interval["start"] < F.col("end")) & (F.col("start") < interval["end"])
    )
    rows = windows.join(ledger_intervals, "meter", "left")
    return rows.withColumn("taken", F.coalesce(overlaps, F.lit(False)))


def drop_taken(windows: DataFrame, ledger_intervals: DataFrame) -> DataFrame:
    """Drop each window that overlaps one of its meter's intervals in the ledger."""
    return mark_taken(windows, ledger_intervals).where(~F.col("taken")).drop("taken")


def read(spark: SparkSession, paths: Iterable[Path]) -> DataFrame:
    """Return the rows of these Parquet files, whose names Spark would otherwise take as patterns."""
    return spark.read.parquet(*(re.sub(r"([\\\[\]{}*?])", r"\\\1", str(path.absolute())) for path in paths))


def read_outputs(spark: SparkSession, *folders: Path) -> tuple[DataFrame, tuple[Descriptor, ...]]:
    """Return outputs' releases and descriptors for `by_feeder`. Raises RecordError as `open_outputs`."""
    outputs = open_outputs(folders)
    return read(spark, outputs.parts), tuple(outputs.descriptors.values())


def write(releases: DataFrame, path: str) -> None:
    """Write releases as Parquet, and replace any content of `path`; times are in milliseconds."""
    conf = releases.sparkSession.conf
    previous = conf.get(_TIMES)
    conf.set(_TIMES, "TIMESTAMP_MILLIS")
    try:
        releases.write.mode("overwrite").option("compression", "zstd").parquet(path)
    finally:
        conf.set(_TIMES, str(previous))


def _ddl(schema: pa.Schema) -> str:
    """Return a schema in Spark's notation."""
    return ", ".join(f"`{field.name}` {_type(field.type)}" for field in schema)


def _type(kind: pa.DataType) -> str:
    """Return a type in Spark's notation."""
    if pa.types.is_list(kind):
        return f"array<{_type(kind.value_type)}>"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision}, {kind.scale})"
    return "timestamp" if pa.types.is_timestamp(kind) else {"int64": "bigint"}.get(str(kind), str(kind))
