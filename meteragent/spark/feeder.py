"""Feeders on Spark: totals and means over many meters, those that `consume.by_feeder` makes of the same.

Spark groups and adds (whole millionths, so that no order matters); laws, intervals and the rule on private
energies are those of `consume`, called on its workers. A meter's windows must not overlap: those that one
ledger has let be released do not.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 -- as everybody calls it

from meteragent.consume import Descriptor, Rules
from meteragent.consume.many import Noise, error_of, figures, noise_of
from meteragent.consume.rules import EVERYTHING, Made, cannot_rule_out, energy_kwh
from meteragent.domain.units import MICRO
from meteragent.spark.worker import Work, safely

CELLS = (
    "feeder string, start timestamp, end timestamp, homes bigint, total double, mean double, sd double,"
    " low double, high double, told boolean"
)
_VERDICT = "feeder string, dominated boolean"


def by_feeder(
    releases: DataFrame,
    descriptors: Iterable[Descriptor],
    feeders: DataFrame | None = None,
    rules: Rules = EVERYTHING,
    coverage: float = 0.95,
) -> DataFrame:
    """Totals and means of each feeder and slot: the columns of `consume.Cells`, in no order.

    `releases` are those of archives (meter, start, end, values, d). `feeders` says of which feeder a meter is
    (meter, feeder, and `capacity` if the rules are about it, in the place of `rules.capacity`); meters that
    are not there are in no cell, and a cell with a meter without a capacity is withheld. Without it all
    are one.

    Raises:
        ValueError: there is no descriptor, they differ in kind or unit or are of mean days; the rules have
            capacities and `feeders` none; or coverage is not between 0 and 1.
    """
    terms = tuple(sorted(descriptors, key=lambda one: one.id))
    if len({(one.kind, one.unit) for one in terms}) != 1 or any(one.bands for one in terms):
        raise ValueError("no descriptors, or slots that differ in kind or unit or are bands, have no total")
    if rules.capacity is not None and (feeders is None or "capacity" not in feeders.columns):
        raise ValueError("capacities are a column of feeders here: found none")
    error_of(((*noise_of(terms[0]), 1),), coverage)
    windows = _windows(releases, feeders)
    of_terms = (
        _slots(windows)
        .groupBy("feeder", "start", "end", "d")
        .agg(
            F.count("*").alias("count"),
            F.sum("value_u").alias("sum_u"),
            F.min("capacity_u").alias("least_u"),
            F.max("capacity_u").alias("most_u"),
            F.sum("capacity_u").alias("capacity_u"),
        )
    )
    cells = of_terms.groupBy("feeder", "start", "end").agg(
        F.sum("count").alias("homes"),
        F.sum("sum_u").alias("sum_u"),
        F.collect_list(F.struct("d", "count")).alias("noise"),
        F.min("least_u").alias("least_u"),
        F.max("most_u").alias("most_u"),
        F.sum("capacity_u").alias("capacity_u"),
    )
    about_capacity = feeders is not None and "capacity" in feeders.columns
    told = _told(cells, None if about_capacity else windows, terms, rules)
    return told.mapInArrow(safely(_figures(terms, coverage)), CELLS)


def _windows(releases: DataFrame, feeders: DataFrame | None) -> DataFrame:
    """Releases with their feeder and capacity."""
    if feeders is None:
        return releases.select("*", F.lit("").alias("feeder"), F.lit(0).cast("bigint").alias("capacity_u"))
    stated = "capacity" in feeders.columns
    capacity = F.coalesce(F.col("capacity").cast("double"), F.lit(0.0)) if stated else F.lit(0.0)
    capacity_u = F.rint(capacity * MICRO).cast("bigint").alias("capacity_u")
    return releases.join(feeders.select("meter", "feeder", capacity_u), "meter")


def _slots(windows: DataFrame) -> DataFrame:
    """A row a slot: feeder, start, end, d, value_u, capacity_u."""
    begin, end = F.unix_micros("start"), F.unix_micros("end")
    step = ((end - begin) / F.size("values")).cast("bigint")
    each = windows.select(
        "feeder", "d", "capacity_u", begin.alias("begin"), step.alias("step"), F.posexplode("values")
    )
    start = F.col("begin") + F.col("pos") * F.col("step")
    return each.select(
        "feeder",
        F.timestamp_micros(start).alias("start"),
        F.timestamp_micros(start + F.col("step")).alias("end"),
        "d",
        _micro(F.col("col")).alias("value_u"),
        "capacity_u",
    )


def _micro(value: Column) -> Column:
    return (value * F.lit(MICRO)).cast("bigint")


def _told(
    cells: DataFrame, windows: DataFrame | None, terms: tuple[Descriptor, ...], rules: Rules
) -> DataFrame:
    """Which cells the rules let be told, in a column; by capacity, or by the energies of `windows`."""
    told = F.col("homes") >= rules.at_least
    if rules.share is None:
        return cells.withColumn("told", told)
    if windows is None:
        over = F.col("most_u") > rules.share * F.col("capacity_u")
        return cells.withColumn("told", told & (F.col("least_u") > 0) & ~over)
    found = windows.select("feeder", "meter", "d", F.size("values").alias("n"), _sum("values").alias("sum_u"))
    homes = found.groupBy("feeder", "meter", "d", "n").agg(
        F.count("*").alias("windows"), F.sum("sum_u").alias("sum_u")
    )
    gathered = homes.groupBy("feeder").agg(
        F.collect_list(F.struct("meter", "d", "n", "windows", "sum_u")).alias("homes")
    )
    verdicts = gathered.mapInArrow(safely(_verdicts(terms, rules)), _VERDICT)
    return cells.join(verdicts, "feeder").withColumn("told", told & ~F.col("dominated"))


def _sum(values: str) -> Column:
    return F.aggregate(values, F.lit(0).cast("bigint"), lambda found, value: found + _micro(value))


def _figures(terms: tuple[Descriptor, ...], coverage: float) -> Work:
    """Cells as they are added up, as they are told."""
    noise_by_id = {one.id: noise_of(one) for one in terms}

    def run(batch: pa.RecordBatch) -> pa.RecordBatch:
        found: list[Noise] = []
        for row in batch.column("noise").to_pylist():
            by_id = sorted((one["d"], one["count"]) for one in row)
            found.append(tuple((*noise_by_id[id_], count) for id_, count in by_id))
        errors = np.array([error_of(noise, coverage) for noise in found]).reshape(-1, 2)
        homes, sum_u, told = (batch.column(name).to_numpy(False) for name in ("homes", "sum_u", "told"))
        numbers = figures(homes, sum_u, errors, told)
        kept = [batch.column(name) for name in ("feeder", "start", "end", "homes")]
        names = ["feeder", "start", "end", "homes", *numbers._fields, "told"]
        return pa.RecordBatch.from_arrays([*kept, *map(pa.array, numbers), batch.column("told")], names)

    return run


def _verdicts(terms: tuple[Descriptor, ...], rules: Rules) -> Work:
    """Of each feeder, whether a home may have more than its share of the energy."""
    places = {one.id: place for place, one in enumerate(terms)}

    def dominated(rows: list[dict[str, Any]]) -> bool:
        names = {name: place for place, name in enumerate(sorted({row["meter"] for row in rows}))}
        sums_u, made = (
            np.zeros((len(names), len(terms)), np.int64),
            [list[tuple[int, int, int]]() for _ in names],
        )
        for row in rows:
            home, place = names[row["meter"]], places[row["d"]]
            sums_u[home, place] += row["sum_u"]
            made[home].append((place, row["n"], row["windows"]))
        kinds: list[Made] = [tuple(sorted(home)) for home in made]
        return cannot_rule_out(energy_kwh(sums_u, terms), kinds, terms, rules)

    def run(batch: pa.RecordBatch) -> pa.RecordBatch:
        found = [dominated(rows) for rows in batch.column("homes").to_pylist()]
        return pa.RecordBatch.from_arrays([batch.column("feeder"), pa.array(found)], ["feeder", "dominated"])

    return run
