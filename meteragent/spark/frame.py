"""Data frames: readings -> windows -> releases, with the archive's own functions (`worker`).

The wide layout needs no shuffle. In the long layout each reading is assigned to every window that it may
touch. A window then needs no other data, and Spark groups readings by meter and window, even in streams.
"""

import pyarrow as pa
from pyspark.sql import DataFrame, GroupedData
from pyspark.sql import functions as F  # noqa: N812 -- the usual name
from pyspark.sql.types import ArrayType, TimestampType

from meteragent.archive import kernel, layout
from meteragent.archive.key import Key
from meteragent.archive.policy import Policy
from meteragent.domain.errors import ArchiveError
from meteragent.spark import worker
from meteragent.spark.worker import KeyFingerprint, safely

INTERVALS = "meter string, start timestamp, end timestamp"
WINDOWS = "meter string, start timestamp, quanta array<bigint>, end timestamp"
_TIMES = "spark.sql.parquet.outputTimestampType"


def layout_of(readings: DataFrame, policy: Policy) -> layout.Layout:
    """Return whether a row is a window ("wide") or a reading ("long").

    Raises:
        ArchiveError: a column is missing or has the wrong type.
    """
    missing = set(policy.columns) - set(readings.columns)
    if missing:
        raise ArchiveError(f"column {min(missing)!r}: not found among {', '.join(readings.columns)}")
    time = readings.schema[policy.columns.time].dataType
    if not isinstance(time, TimestampType):
        raise ArchiveError(f"column {policy.columns.time!r}: found {time.simpleString()}; expected timestamp")
    is_wide = isinstance(readings.schema[policy.columns.value].dataType, ArrayType)
    return "wide" if is_wide else "long"


def windows(readings: DataFrame, policy: Policy) -> DataFrame:
    """Convert readings to windows as whole quanta: meter, start, quanta, end.

    The policy names the columns of `readings`. In the long layout the windows are those in which a reading
    begins. Order and partitions do not matter.

    Raises:
        ArchiveError: a column is missing or has the wrong type.
    """
    row_layout = layout_of(readings, policy)
    columns = readings.select(*policy.columns)
    if row_layout == "wide":
        return columns.mapInArrow(safely(worker.read_wide(policy)), WINDOWS)
    return integrate_groups(assign_readings(columns, policy).groupBy("meter", "start"), policy)


def assign_readings(columns: DataFrame, policy: Policy) -> DataFrame:
    """Repeat readings for each window that they may touch: meter, start, end, time, value."""
    value = columns.schema[policy.columns.value].dataType.simpleString()
    schema = f"{INTERVALS}, time timestamp, value {value}"
    return columns.mapInArrow(safely(worker.assign_readings(policy)), schema)


def integrate_groups(groups: GroupedData, policy: Policy) -> DataFrame:
    """Integrate readings, grouped by the windows to which they were assigned."""
    readings_by_window = groups.agg(F.collect_list(F.struct("time", "value")).alias("readings"))
    lists = readings_by_window.select("meter", "start", "readings")
    return lists.mapInArrow(safely(worker.read_grouped(policy)), WINDOWS)


def sanitise(readings: DataFrame, policy: Policy) -> DataFrame:
    """Release windows: meter, start, end, values, d, key.

    The noise is exact, and does not depend on how Spark divides the work. This function does not write the
    ledger: it is for callers that keep a ledger of their own (`sanitise_archive` and `stream` write the key's
    ledger).

    Raises:
        ArchiveError: a column is missing or has the wrong type.
        KeyMissing: the key cannot be read here; the workers must have the same key.
    """
    return add_noise(windows(readings, policy), policy)


def add_noise(windows: DataFrame, policy: Policy) -> DataFrame:
    """Add noise to windows, under the key that this machine has now."""
    fingerprint = KeyFingerprint.of(Key.load(policy.key_file))
    return windows.mapInArrow(
        safely(worker.add_noise(policy, fingerprint)), _ddl(kernel.release_schema(policy))
    )


def settle(windows: DataFrame, policy: Policy) -> DataFrame:
    """Release the windows that are not taken; add the column `name`, the meter's own name.

    Only the name, start and end of taken windows remain.
    """
    fingerprint = KeyFingerprint.of(Key.load(policy.key_file))
    schema = kernel.release_schema(policy).append(pa.field("name", pa.string()))
    return windows.mapInArrow(safely(worker.settle(policy, fingerprint)), _ddl(schema))


def sort_into_parts(releases: DataFrame, parts: int) -> DataFrame:
    """Put releases into `parts` parts by a hash of name and start, each sorted by start and name.

    The number of parts is fixed, because Spark would otherwise choose it by the amount of data that it
    shuffles.
    """
    return releases.repartition(parts, "meter", "start").sortWithinPartitions("start", "meter")


def by_slots(releases: DataFrame, policy: Policy) -> DataFrame:
    """Split releases into a row for each slot, in the same order."""
    schema = layout.slot_schema(kernel.release_schema(policy), policy)
    return releases.mapInArrow(safely(worker.by_slots(policy)), _ddl(schema))


def opened_windows(readings: DataFrame, policy: Policy) -> DataFrame:
    """Return the windows that readings open, which depend only on meters and times: meter, start, end.

    In the long layout each window appears once. In the wide one there is a row for each input row, with
    `fits`: whether it is on the grid and its numbers fit.
    """
    names = policy.columns
    if layout_of(readings, policy) == "long":
        columns = readings.select(names.meter, names.time)
        return columns.mapInArrow(safely(worker.opened_windows(policy)), INTERVALS).distinct()
    count = F.when(F.col(names.value).isNotNull(), F.size(names.value)).alias("numbers")
    columns = readings.select(names.meter, names.time, count)
    return columns.mapInArrow(safely(worker.check_rows(policy)), f"{INTERVALS}, fits boolean")


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


def write(releases: DataFrame, path: str) -> None:
    """Write releases as Parquet, replacing any content; times are in milliseconds, as in an archive."""
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
