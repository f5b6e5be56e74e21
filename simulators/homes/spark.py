"""Simulated homes on Apache Spark: the tables of `generate`, written by any number of workers.

Each task simulates its homes as a single machine does (`fleet`). A home's day depends only on the seed, the
home and the day, so the rows are the same for any partitioning, bit for bit. Spark has no unsigned numbers
and counts time in microseconds, so `home` is a bigint and `time` a timestamp.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow import RecordBatch
from pyspark.sql import DataFrame, SparkSession

from simulators.homes.fleet import Day, Fleet
from simulators.homes.plan import Plan, event_table
from simulators.homes.region import Region

_TIME = pa.timestamp("us", "UTC")
SERIES = "home bigint, time timestamp, watts float"
EVENTS = "home bigint, appliance string, start timestamp, end timestamp, watts float, channel tinyint"
_HOMES_A_TASK = 1000
"""The approximate number of homes per task: few enough that a week takes seconds and a cluster has enough
tasks."""

Table = Callable[[Plan, Fleet, Day], Any]


class Simulated(NamedTuple):
    """The load and the events of homes, as data frames that are computed on demand."""

    series: DataFrame
    events: DataFrame


def simulate(  # noqa: PLR0913 - the fields of a plan
    spark: SparkSession,
    homes: int,
    days: int,
    *,
    seed: int = 0,
    step_s: int = 900,
    first: int = 0,
    resolution_w: float = 1.0,
    region: Region | None = None,
) -> Simulated:
    """Return homes 0 .. `homes` - 1 on `days` days from day `first` (see `plan`), in no particular order.

    With a `region`, they have what the region's homes have today (`Fleet.of_today`).

    Raises ValueError if the step does not divide a day or the seed is out of range.
    """
    plan = Plan(seed, homes, days, step_s, first, resolution_w, region)
    next(Fleet(seed, [0]).days(first, 1, step_s))  # refuse bad arguments here, not on a worker
    ids = spark.range(0, homes, 1, -(-homes // _HOMES_A_TASK))
    return Simulated(
        ids.mapInArrow(_tables(plan, _series), SERIES), ids.mapInArrow(_tables(plan, _events), EVENTS)
    )


def write(plan: Plan, folder: Path, spark: SparkSession | None = None) -> str:
    """Write or replace the folders `series.parquet` and `events.parquet` in `folder`; return a summary."""
    session = SparkSession.builder.appName("meteragent simulators").getOrCreate() if spark is None else spark
    settings = {
        "seed": plan.seed,
        "step_s": plan.step_s,
        "first": plan.first,
        "resolution_w": plan.resolution_w,
        "region": plan.region,
    }
    tables = simulate(session, plan.homes, plan.days, **settings)  # type: ignore[arg-type]
    for name, table in zip(tables._fields, tables, strict=True):
        table.write.mode("overwrite").parquet(str(folder / f"{name}.parquet"))
    return f"homes: {plan.homes:,}, days: {plan.days:,}, in {folder}"


def _tables(plan: Plan, table: Table) -> Callable[[Iterator[RecordBatch]], Iterator[RecordBatch]]:
    """Return the function that a task runs; it turns batches of homes into the tables of their days."""

    def run(batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
        """Yield the tables of the homes in the batches."""
        for batch in batches:
            for fleet in plan.parts(batch.column(0).to_pylist()):
                for day in fleet.days(plan.first, plan.days, plan.step_s):
                    yield from table(plan, fleet, day).to_batches()

    return run


def _series(plan: Plan, fleet: Fleet, day: Day) -> Any:
    fields = [("home", pa.int64()), ("time", _TIME), ("watts", pa.float32())]
    return plan.series(fleet, day).cast(pa.schema(fields))


def _events(_: Plan, __: Fleet, day: Day) -> Any:
    times = [("start", _TIME), ("end", _TIME)]
    fields = [("home", pa.int64()), ("appliance", pa.string()), *times]
    return event_table(day.events).cast(pa.schema([*fields, ("watts", pa.float32()), ("channel", pa.int8())]))
