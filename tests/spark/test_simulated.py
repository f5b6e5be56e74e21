"""Simulated homes on Spark: the same rows as one machine makes, whatever the partitions."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from simulators.__main__ import main
from simulators.homes import spark as on_spark
from simulators.homes.plan import EVENTS, SERIES, Files, Plan
from simulators.homes.region import GERMANY
from simulators.homes.spark import simulate

PLAN = Plan(seed=3, homes=23, days=2, step_s=3600, first=4, resolution_w=0.1)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """What one machine writes."""
    actual = Files.at(tmp_path_factory.mktemp("one"))
    PLAN.write(actual)
    return actual


def ordered(table: Any, schema: Any) -> Any:
    """A table with the types of one machine's, in an order of its own."""
    first = ["home", "time"] if "time" in schema.names else ["home", "start", "appliance", "end"]
    return table.select(schema.names).cast(schema).sort_by([(name, "ascending") for name in first])


def test_rows_are_those_of_one_machine(
    spark: SparkSession, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Series and events, bit for bit, with homes spread over four tasks and batches of five."""
    monkeypatch.setattr(on_spark, "_HOMES_A_TASK", 6)
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 5)
    try:
        made = simulate(spark, 23, 2, seed=3, step_s=3600, first=4, resolution_w=0.1)
        assert made.series.rdd.getNumPartitions() == 4
        actual = [table.toArrow() for table in made]
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    for table, path, schema in zip(actual, files, (SERIES, EVENTS), strict=True):
        assert ordered(table, schema).equals(ordered(pq.read_table(path), schema))


def test_homes_of_today_are_those_of_one_machine(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With cars, heat pumps, panels and batteries, each task has the weather and the bits of one machine."""
    monkeypatch.setattr(on_spark, "_HOMES_A_TASK", 12)
    one_machine = Files.at(tmp_path)
    Plan(3, 60, 1, 3600, 100, 0.1, GERMANY).write(one_machine)
    made = simulate(spark, 60, 1, seed=3, step_s=3600, first=100, resolution_w=0.1, region=GERMANY)
    for table, path, schema in zip(made, one_machine, (SERIES, EVENTS), strict=True):
        assert ordered(table.toArrow(), schema).equals(ordered(pq.read_table(path), schema))


def test_generate_writes_folders(spark: SparkSession, files: Files, tmp_path: Path) -> None:
    """`--engine spark` writes Parquet that holds the same, and again over what is there."""
    asked = ["--seed", "3", "--homes", "23", "--days", "2", "--step", "1h", "--first-day", "2025-01-10"]
    for _ in range(2):
        arguments = [*asked, "--resolution", "0.1", "--out", str(tmp_path), "--engine", "spark"]
        assert main(["generate", *arguments]) == 0
    for name, path, schema in zip(("series", "events"), files, (SERIES, EVENTS), strict=True):
        written: pa.Table = pq.read_table(tmp_path / f"{name}.parquet")
        assert ordered(written, schema).equals(ordered(pq.read_table(path), schema))


def test_what_cannot_be_is_refused(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    """A step that does not divide a day, and a file where there must be a folder."""
    with pytest.raises(ValueError, match="divides a day"):
        simulate(spark, 1, 1, step_s=7)
    assert main(["generate", "--seed", "0", "--out", "a.parquet", "--engine", "spark"]) == 2
    assert "not a folder" in capsys.readouterr().err
