"""Data frames: readings -> windows -> releases, by the archive's own functions (`worker`).

The wide form needs no shuffle. Of the long form each reading is given to every window that it may
touch; then a window needs nothing else, and Spark gathers them by meter and window, in streams too.
"""

import pyarrow as pa
from pyspark.sql import DataFrame, GroupedData
from pyspark.sql import functions as F  # noqa: N812 -- as everybody calls it
from pyspark.sql.types import ArrayType, TimestampType

from meteragent.archive import form, kernel
from meteragent.archive.key import Key
from meteragent.archive.policy import Policy
from meteragent.domain.errors import ArchiveError
from meteragent.spark import worker
from meteragent.spark.worker import Whose, safely

OPENED = "meter string, start timestamp, end timestamp"
WINDOWS = "meter string, start timestamp, quanta array<bigint>, end timestamp"
_TIMES = "spark.sql.parquet.outputTimestampType"


def form_of(readings: DataFrame, policy: Policy) -> form.Form:
    """Whether a row is a window or a reading.

    Raises:
        ArchiveError: a column is missing, or not what it must be.
    """
    missing = set(policy.columns) - set(readings.columns)
    if missing:
        raise ArchiveError(f"column {min(missing)!r}: there is none; there are {', '.join(readings.columns)}")
    time = readings.schema[policy.columns.time].dataType
    if not isinstance(time, TimestampType):
        raise ArchiveError(f"column {policy.columns.time!r}: found {time.simpleString()}; expected timestamp")
    wide = isinstance(readings.schema[policy.columns.value].dataType, ArrayType)
    return "wide" if wide else "long"


def windows(readings: DataFrame, policy: Policy) -> DataFrame:
    """Windows as whole quanta: meter, start, quanta, end.

    The columns of `readings` are as the policy names them. In the long form a window of which any reading
    begins is made; order and partitions mean nothing.

    Raises:
        ArchiveError: a column is missing or not what it must be.
    """
    kind = form_of(readings, policy)
    columns = readings.select(*policy.columns)
    if kind == "wide":
        return columns.mapInArrow(safely(worker.wide(policy)), WINDOWS)
    return gathered(touched(columns, policy).groupBy("meter", "start"), policy)


def touched(columns: DataFrame, policy: Policy) -> DataFrame:
    """Readings, once for each window that they may touch: meter, start, end, time, value."""
    value = columns.schema[policy.columns.value].dataType.simpleString()
    given = f"{OPENED}, time timestamp, value {value}"
    return columns.mapInArrow(safely(worker.touched(policy)), given)


def gathered(touched: GroupedData, policy: Policy) -> DataFrame:
    """Readings that were given to windows and grouped by them, as windows."""
    found = touched.agg(F.collect_list(F.struct("time", "value")).alias("readings"))
    lists = found.select("meter", "start", "readings")
    return lists.mapInArrow(safely(worker.gathered(policy)), WINDOWS)


def sanitise(readings: DataFrame, policy: Policy) -> DataFrame:
    """Releases: meter, start, end, values, d, key; exact noise, the same however Spark cuts its work.

    Nothing is accounted: this is for who keeps the ledger himself (`sanitise_archive`, `stream` keep it).

    Raises:
        ArchiveError: a column is missing or not what it must be.
        KeyMissing: the key cannot be read here; on the workers it must be the same.
    """
    return released(windows(readings, policy), policy)


def released(found: DataFrame, policy: Policy) -> DataFrame:
    """Windows with their noise, under the key that this machine has now."""
    whose = Whose.of(Key.load(policy.key_file))
    return found.mapInArrow(safely(worker.released(policy, whose)), _ddl(kernel.releases(policy)))


def settled(found: DataFrame, policy: Policy) -> DataFrame:
    """Windows and whether they are taken, as releases and `name`, the meter's own.

    Of those that are taken there are name, start and end.
    """
    whose = Whose.of(Key.load(policy.key_file))
    schema = kernel.releases(policy).append(pa.field("name", pa.string()))
    return found.mapInArrow(safely(worker.settled(policy, whose)), _ddl(schema))


def in_order(releases: DataFrame, parts: int) -> DataFrame:
    """Put releases in so many parts by a hash of name and start, and in order of start and name in each.

    The number is fixed: Spark would choose one by the size of what it shuffles.
    """
    return releases.repartition(parts, "meter", "start").sortWithinPartitions("start", "meter")


def by_slots(releases: DataFrame, policy: Policy) -> DataFrame:
    """Releases of which a row is a window, with a row for each slot, in the same order."""
    schema = form.long_releases(kernel.releases(policy), policy)
    return releases.mapInArrow(safely(worker.by_slots(policy)), _ddl(schema))


def opened(readings: DataFrame, policy: Policy) -> DataFrame:
    """The windows that readings open, by meter and time alone: meter, start, end.

    Of the long form each is there once. Of the wide form each row is, with `fits`: whether it is on the grid,
    and has numbers that fit.
    """
    names = policy.columns
    if form_of(readings, policy) == "long":
        columns = readings.select(names.meter, names.time)
        return columns.mapInArrow(safely(worker.opened(policy)), OPENED).distinct()
    there = F.when(F.col(names.value).isNotNull(), F.size(names.value)).alias("numbers")
    columns = readings.select(names.meter, names.time, there)
    return columns.mapInArrow(safely(worker.rows(policy)), f"{OPENED}, fits boolean")


def marked(found: DataFrame, others: DataFrame) -> DataFrame:
    """Windows, with `taken`: whether one overlaps an interval of its meter in `others` (of `ledger`)."""
    overlaps = F.exists("taken", lambda one: (one["start"] < F.col("end")) & (F.col("start") < one["end"]))
    joined = found.join(others, "meter", "left")
    return joined.withColumn("taken", F.coalesce(overlaps, F.lit(False)))


def without(found: DataFrame, others: DataFrame) -> DataFrame:
    """Windows that overlap none of their meter's intervals in `others`."""
    return marked(found, others).where(~F.col("taken")).drop("taken")


def write(releases: DataFrame, path: str) -> None:
    """Write releases as Parquet, times in milliseconds as an archive's are, in the place of what is there."""
    conf = releases.sparkSession.conf
    before = conf.get(_TIMES)
    conf.set(_TIMES, "TIMESTAMP_MILLIS")
    try:
        releases.write.mode("overwrite").option("compression", "zstd").parquet(path)
    finally:
        conf.set(_TIMES, str(before))


def _ddl(schema: pa.Schema) -> str:
    return ", ".join(f"`{field.name}` {_type(field.type)}" for field in schema)


def _type(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return f"array<{_type(kind.value_type)}>"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision}, {kind.scale})"
    return "timestamp" if pa.types.is_timestamp(kind) else {"int64": "bigint"}.get(str(kind), str(kind))
