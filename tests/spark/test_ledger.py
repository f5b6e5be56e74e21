"""The key's ledger as Spark reads and writes it."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- as everybody calls it

from meteragent.archive.ledger import SCHEMA, Ledger
from meteragent.domain.errors import ArchiveError
from meteragent.spark import frame
from meteragent.spark.ledger import debit, taken_intervals
from tests.spark import homes
from tests.spark.homes import Place

HOUR_MS = 3_600_000


def add(ledger: Ledger, run: str, *stretches: tuple[str, int, int]) -> None:
    """Put stretches (meter, from and to in hours) into a ledger."""
    rows = [
        {"meter": m, "start": a * HOUR_MS, "end": b * HOUR_MS, "windows": b - a, "d": "d"}
        for m, a, b in stretches
    ]
    table = pa.Table.from_pylist(rows, SCHEMA)
    ledger.add(run, (ledger.write(run, 0, part) for part in [table]), lambda: b"{}")


def test_others(spark: SparkSession, tmp_path: Path) -> None:
    """All that other runs released counts, as stretches that do not overlap; a run's own does not.

    What is not in the ledger would leave again: one with holes is refused.
    """
    ledger = Ledger(tmp_path)
    assert taken_intervals(spark, ledger, "a").collect() == []
    add(ledger, "a", ("m1", 100, 200))
    add(ledger, "a-7", ("m1", 200, 300))
    add(ledger, "b", ("m1", 0, 10), ("m1", 2, 4), ("m1", 20, 30), ("m2", 5, 6))
    add(ledger, "ab", ("m1", 10, 12), ("m1", 22, 31))
    actual = {row.meter: sorted(row.taken) for row in taken_intervals(spark, ledger, "a").collect()}
    hours = {
        meter: [tuple(int(at.timestamp()) // 3600 for at in item) for item in taken]
        for meter, taken in actual.items()
    }
    assert hours == {"m1": [(0, 12), (20, 31)], "m2": [(5, 6)]}
    (ledger.path("b") / "part-00000.parquet").unlink()
    with pytest.raises(ArchiveError, match="files of the ledger are missing"):
        taken_intervals(spark, ledger, "a")


def settled(spark: SparkSession, place: Place) -> tuple[DataFrame, DataFrame]:
    """Windows of a meter, and their releases."""
    rows = spark.createDataFrame(homes.wide(place.policy)).where("meter = 'm1'")
    windows = frame.windows(rows, place.policy)
    return windows, frame.add_noise(windows, place.policy)


def test_debit(spark: SparkSession, tmp_path: Path) -> None:
    """A micro-batch is in the ledger once; again it must be what it was, to the byte."""
    place = Place.make(tmp_path)
    ledger, (windows, actual) = Ledger(place.policy.ledger), settled(spark, place)
    with ledger.lock():
        assert debit(windows, actual, place.policy, ledger, "a-1") == homes.DAYS
        assert debit(windows, actual.repartition(3), place.policy, ledger, "a-1") == homes.DAYS
        rows = [row for batch in ledger.rows("a-1") for row in batch.to_pylist()]
        epsilon = str(place.policy.usual.epsilon)
        told = [(row["meter"], row["windows"], row["epsilon"], row["unit"]) for row in rows]
        assert told == [("m1", 1, epsilon, "1/W")] * 3  # the day in the middle is of other terms
        other = actual.withColumn("values", F.transform("values", lambda item: item + 1))
        with pytest.raises(ArchiveError, match="a-1 is in the ledger with other releases"):
            debit(windows, other, place.policy, ledger, "a-1")
        assert debit(windows.where("false"), actual.where("false"), place.policy, ledger, "a-2") == 0
        assert not ledger.has("a-2")
