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
from meteragent.errors import ArchiveError
from meteragent.spark import worker
from meteragent.spark.worker import Whose, safely

OPENED = "meter string, start timestamp, end timestamp"
WINDOWS = "meter string, start timestamp, quanta array<bigint>, end timestamp"


def releases(policy: Policy) -> str:
    """The schema of releases, as Spark writes it; with `name`, the meter's own."""
    kind = kernel.number(policy)
    value = f"decimal({kind.precision}, {kind.scale})" if pa.types.is_decimal(kind) else "bigint"
    times = "start timestamp, end timestamp"
    return f"meter string, {times}, values array<{value}>, d string, key string, name string"


def form_of(readings: DataFrame, policy: Policy) -> form.Form:
    """Whether a row is a window or a reading.

    Raises:
        ArchiveError: a column is missing, or not what it must be.
    """
    missing = set(policy.columns) - set(readings.columns)
    if missing:
        raise ArchiveError(f"column {min(missing)!r}: found none; there are {', '.join(readings.columns)}")
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
    columns = readings.select(*policy.columns)
    if form_of(readings, policy) == "wide":
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

    Nothing is accounted: this is for readers of one's own ledger (`sanitise_archive`, `stream` keep it).

    Raises:
        ArchiveError: a column is missing or not what it must be.
        KeyMissing: the key cannot be read here; on the workers it must be the same.
    """
    return released(windows(readings, policy), policy).drop("name")


def released(found: DataFrame, policy: Policy) -> DataFrame:
    """Windows with their noise, under the key that this machine has now."""
    whose = Whose.of(Key.load(policy.key_file))
    return found.mapInArrow(safely(worker.released(policy, whose)), releases(policy))


def opened(readings: DataFrame, policy: Policy) -> DataFrame:
    """The windows that readings open: meter, start, end; of the long form each once."""
    kind = form_of(readings, policy)
    columns = readings.select(policy.columns.meter, policy.columns.time)
    found = columns.mapInArrow(safely(worker.opened(policy, kind)), OPENED)
    return found.distinct() if kind == "long" else found


def without(found: DataFrame, others: DataFrame) -> DataFrame:
    """Windows that overlap no interval of their meter in `others` (meter, start, end)."""
    taken = others.select(*(F.col(name).alias(f"{name}_taken") for name in ("meter", "start", "end")))
    overlaps = (
        (found["meter"] == taken["meter_taken"])
        & (found["start"] < taken["end_taken"])
        & (taken["start_taken"] < found["end"])
    )
    return found.join(taken, overlaps, "left_anti")
