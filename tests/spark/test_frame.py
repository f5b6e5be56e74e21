"""Windows and releases of data frames: the archive's, however Spark cuts its work; errors hold no reading."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import RecordBatch
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- as everybody calls it

from meteragent.archive import kernel, layout
from meteragent.archive import readings as archive
from meteragent.archive.number import to_millionths
from meteragent.archive.policy import Policy
from meteragent.domain.errors import ArchiveError, KeyMissing
from meteragent.spark import frame
from meteragent.spark.worker import safely
from tests.spark import homes
from tests.spark.homes import KEY, Place
from tests.support import archives
from tests.support.archives import DAY_MS, ENERGY, SPRING_MS

SECRET = "31415926"
CUTS: dict[str, Callable[[DataFrame], DataFrame]] = {
    "in one piece": lambda rows: rows.coalesce(1),
    "in seven, in no order": lambda rows: rows.orderBy(F.xxhash64("meter", "time")).repartition(7),
}


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("rows", [homes.wide, homes.long])
def test_releases(spark: SparkSession, tmp_path: Path, cut: str, rows: Callable[[Policy], pa.Table]) -> None:
    """In either form and in any partitions, releases are byte for byte the kernel's."""
    place = Place.make(tmp_path)
    readings = CUTS[cut](spark.createDataFrame(rows(place.policy)))
    assert homes.ordered(frame.sanitise(readings, place.policy).toArrow()).equals(homes.plain(place))


def irregular() -> pa.Table:
    """Readings at any time, some at the same, some without a value, some far apart."""
    random = np.random.default_rng(3)
    count = 4000
    times = SPRING_MS - DAY_MS + random.integers(0, 5 * DAY_MS // 1000, count) * 1000
    watts = random.integers(-50_000, 25_000_000, count) / 1000
    watts[random.random(count) < 0.05] = np.nan
    meters = pa.array([f"m{meter}" for meter in random.integers(0, 6, count)])
    columns = [meters, pa.array(times, archives.TIME).cast(homes.TIME), pa.array(watts)]
    twice = pa.table(columns, names=["meter", "time", "value"])
    return pa.concat_tables([twice, twice.slice(0, 500)])


def plain(readings: pa.Table, policy: Policy) -> pa.Table:
    """The windows that the archive's own functions make of readings."""
    names, meter = np.unique(readings.column("meter").to_pylist(), return_inverse=True)
    times = np.array(readings.column("time").cast(pa.int64())) // 1000
    actual = to_millionths(readings.column("value").combine_chunks(), policy)
    given = archive.Readings(meter, times, actual.values_u, actual.valid)
    chosen = archive.opened_windows(meter, times, policy)
    made = [
        layout.windows_batch(pa.array(names[some.meter]), some.start_ms, slots)
        for some, slots in archive.integrate_windows(
            archive.merge_equal_times(given).readings, chosen, policy, 50
        )
    ]
    return (
        pa.Table.from_batches(made).sort_by([("meter", "ascending"), ("start", "ascending")]).combine_chunks()
    )


@pytest.mark.parametrize("source", ["hold = '3h'", ENERGY], ids=["power", "energy"])
def test_readings_at_any_time(spark: SparkSession, source: str) -> None:
    """Windows gathered by Spark are those of one machine; it works in any time zone of the session."""
    policy, readings = archives.policy(source=source, window=homes.WINDOW), irregular()
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kathmandu")
    try:
        frames = frame.windows(spark.createDataFrame(readings).repartition(3), policy)
        actual = frames.select("meter", "start", "quanta").orderBy("meter", "start").toArrow()
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(zone))
    assert actual.cast(kernel.WINDOWS).combine_chunks().equals(plain(readings, policy))


def test_columns(spark: SparkSession, tmp_path: Path) -> None:
    """A column that is missing or no time is named before anything runs."""
    policy = Place.make(tmp_path).policy
    with pytest.raises(ArchiveError, match="column 'value': not found among"):
        frame.windows(spark.createDataFrame([], "meter string, time timestamp"), policy)
    with pytest.raises(ArchiveError, match=r"column 'time': found timestamp\[us\]; expected a timestamp"):
        frame.windows(spark.createDataFrame([], "meter string, time timestamp_ntz, value int"), policy)


def test_errors_hold_no_reading(spark: SparkSession) -> None:
    """What a failing worker says, and Spark logs, names the type of the error and no value."""

    def work(batch: RecordBatch) -> RecordBatch:
        return pa.array([SECRET, "x"]).cast(pa.int64())

    with pytest.raises(PySparkException) as caught:
        spark.range(0, 1, 1, 1).mapInArrow(safely(work), "id bigint").collect()
    assert "WorkerError: ArrowInvalid" in str(caught.value)
    assert SECRET not in str(caught.value)


def test_another_key(spark: SparkSession, tmp_path: Path) -> None:
    """A worker whose key is missing, or is not the driver's, releases nothing."""
    place = Place.make(tmp_path)
    rows = spark.createDataFrame(homes.wide(place.policy)).coalesce(1)
    releases = frame.sanitise(rows, place.policy)
    homes.write(place.policy.key_file, archives.KEY)
    with pytest.raises(PySparkException, match="KeyRotated: the key on worker"):
        releases.collect()
    place.policy.key_file.unlink()
    with pytest.raises(PySparkException, match="KeyMissing"):
        releases.collect()
    with pytest.raises(KeyMissing):
        frame.sanitise(rows, place.policy)


def test_forgotten_key(spark: SparkSession, tmp_path: Path) -> None:
    """Windows whose epoch was forgotten are not released, and never with another key."""
    place = Place.make(tmp_path)
    homes.write(place.policy.key_file, KEY.without(SPRING_MS + 30 * DAY_MS))
    rows = spark.createDataFrame(homes.wide(place.policy)).coalesce(1)
    releases = frame.sanitise(rows, place.policy)
    with pytest.raises(PySparkException, match="KeyForgotten: windows of 2026-03"):
        releases.collect()
