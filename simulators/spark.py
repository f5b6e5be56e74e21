"""Simulated homes on Apache Spark: what `generate` writes, by as many workers as there are.

Each task makes the homes that it is given with the same generator, of which a home's day depends on the seed,
the home and the day alone (`fleet`): whatever the partitions, the rows are those of one machine, bit for bit.
Spark has no unsigned numbers and counts time in microseconds: `home` is a bigint, `time` a timestamp.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow import RecordBatch
from pyspark.sql import DataFrame, SparkSession

from simulators.fleet import Day, Fleet
from simulators.plan import Plan, event_table

_TIME = pa.timestamp("us", "UTC")
SERIES = "home bigint, time timestamp, watts float"
EVENTS = "home bigint, appliance string, start timestamp, end timestamp, watts float, channel tinyint"
_HOMES_A_TASK = 1000
"""About: a task takes seconds for a week of these, and a cluster has enough of them."""

Table = Callable[[Plan, Fleet, Day], Any]


class Simulated(NamedTuple):
    """The load of homes, and what ran in them; each is made when it is asked for."""

    series: DataFrame
    events: DataFrame


def simulate(
    spark: SparkSession,
    homes: int,
    days: int,
    *,
    seed: int = 0,
    step_s: int = 900,
    first: int = 0,
    resolution_w: float = 1.0,
) -> Simulated:
    """Homes 0 .. `homes` - 1 on `days` from number `first` on (`plan`), in no order.

    Raises ValueError when the step does not divide a day.
    """
    plan = Plan(seed, homes, days, step_s, first, resolution_w)
    next(Fleet(seed, [0]).days(first, 1, step_s))  # what is refused is refused here, not on a worker
    ids = spark.range(0, homes, 1, -(-homes // _HOMES_A_TASK))
    return Simulated(
        ids.mapInArrow(_tables(plan, _series), SERIES), ids.mapInArrow(_tables(plan, _events), EVENTS)
    )


def write(plan: Plan, out: Path, spark: SparkSession | None = None) -> str:
    """Write `series.parquet` and `events.parquet` into a folder, each a folder itself; says what was done."""
    session = SparkSession.builder.appName("meteragent simulators").getOrCreate() if spark is None else spark
    how = {"seed": plan.seed, "step_s": plan.step_s, "first": plan.first, "resolution_w": plan.resolution_w}
    made = simulate(session, plan.homes, plan.days, **how)  # type: ignore[arg-type]
    for name, table in zip(made._fields, made, strict=True):
        table.write.mode("overwrite").parquet(str(out / f"{name}.parquet"))
    return f"{plan.homes:,} homes, {plan.days:,} days in {out}"


def _tables(plan: Plan, table: Table) -> Callable[[Iterator[RecordBatch]], Iterator[RecordBatch]]:
    """What a task does: homes in, their days' tables out."""

    def run(batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
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
