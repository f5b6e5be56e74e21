"""Feeders on Spark: totals and means over many meters, with the same results as `consume.by_feeder`.

Spark groups and adds the values, which are whole millionths, so the order of addition does not matter. The
workers call the functions of `consume` for confidence intervals and for the dominance rule on private
energies. The windows of a meter must not overlap; windows that are released under one ledger never do.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 -- the usual name

from meteragent.consume import Descriptor, Rules
from meteragent.consume.many import Noise, cell_figures, error_of, noise_of
from meteragent.consume.rules import EVERYTHING, Composition, energy_kwh, may_dominate, require_total
from meteragent.domain.units import MICRO
from meteragent.spark.worker import Work, safely

CELLS = (
    "feeder string, start timestamp, end timestamp, homes bigint, total double, mean double, sd double,"
    " low double, high double, shown boolean"
)
_VERDICT = "feeder string, dominated boolean"


def by_feeder(
    releases: DataFrame,
    descriptors: Iterable[Descriptor],
    feeders: DataFrame | None = None,
    rules: Rules = EVERYTHING,
    coverage: float = 0.95,
) -> DataFrame:
    """Compute each feeder's total and mean in each slot, unsorted, with the columns of `consume.Cells`.

    `releases` has a row for each window, with the columns meter, start, end, values and d. `feeders`
    assigns meters to feeders, in the columns meter and feeder. If it also has a column `capacity`,
    `rules.share` refers to these capacities instead of `rules.capacity`, and a cell with a meter that has
    no capacity is withheld under this rule. A meter that is missing from `feeders` is in no cell. If
    `feeders` is None, all meters belong to one feeder, whose name is empty. Raises ValueError as
    `require_total` does, if `rules` has capacities but `feeders` has no column `capacity`, or if coverage
    is not between 0 and 1.
    """
    terms = tuple(sorted(descriptors, key=lambda descriptor: descriptor.id))
    has_capacity = feeders is not None and "capacity" in feeders.columns
    require_total(terms, must_be_energy=rules.share is not None and not has_capacity)
    if rules.capacity is not None and not has_capacity:
        raise ValueError("the rules use capacities, but `feeders` has no column `capacity`")
    error_of(((*noise_of(terms[0]), 1),), coverage)
    windows = _windows(releases, feeders)
    sums_by_terms = (
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
    cells = sums_by_terms.groupBy("feeder", "start", "end").agg(
        F.sum("count").alias("homes"),
        F.sum("sum_u").alias("sum_u"),
        F.collect_list(F.struct("d", "count")).alias("noise"),
        F.min("least_u").alias("least_u"),
        F.max("most_u").alias("most_u"),
        F.sum("capacity_u").alias("capacity_u"),
    )
    marked_cells = _mark_shown(cells, None if has_capacity else windows, terms, rules)
    return marked_cells.mapInArrow(safely(_figures_maker(terms, coverage)), CELLS)


def _windows(releases: DataFrame, feeders: DataFrame | None) -> DataFrame:
    """Add the columns `feeder` and `capacity_u` to releases; drop those of meters without a feeder."""
    if feeders is None:
        return releases.select("*", F.lit("").alias("feeder"), F.lit(0).cast("bigint").alias("capacity_u"))
    has_capacity = "capacity" in feeders.columns
    capacity = F.coalesce(F.col("capacity").cast("double"), F.lit(0.0)) if has_capacity else F.lit(0.0)
    capacity_u = F.rint(capacity * MICRO).cast("bigint").alias("capacity_u")
    return releases.join(feeders.select("meter", "feeder", capacity_u), "meter")


def _slots(windows: DataFrame) -> DataFrame:
    """Split releases into a row for each slot, with columns feeder, start, end, d, value_u, capacity_u."""
    begin, end = F.unix_micros("start"), F.unix_micros("end")
    step = ((end - begin) / F.size("values")).cast("bigint")
    slot_rows = windows.select(
        "feeder", "d", "capacity_u", begin.alias("begin"), step.alias("step"), F.posexplode("values")
    )
    start = F.col("begin") + F.col("pos") * F.col("step")
    return slot_rows.select(
        "feeder",
        F.timestamp_micros(start).alias("start"),
        F.timestamp_micros(start + F.col("step")).alias("end"),
        "d",
        _micro(F.col("col")).alias("value_u"),
        "capacity_u",
    )


def _micro(value: Column) -> Column:
    return (value * F.lit(MICRO)).cast("bigint")


def _mark_shown(
    cells: DataFrame, windows: DataFrame | None, terms: tuple[Descriptor, ...], rules: Rules
) -> DataFrame:
    """Add the column `shown`, which states whether the rules allow a cell to be shown.

    `windows` are needed for a dominance rule on private energies; None means that capacities are used.
    """
    capacities_u = [F.col(name) for name in ("least_u", "most_u", "capacity_u")] if windows is None else None
    is_allowed = rules.allow(F.col("homes"), capacities_u)
    if rules.share is None or windows is None:
        return cells.withColumn("shown", is_allowed)
    energies = windows.select(
        "feeder", "meter", "d", F.size("values").alias("n"), _sum("values").alias("sum_u")
    )
    homes = energies.groupBy("feeder", "meter", "d", "n").agg(
        F.count("*").alias("windows"), F.sum("sum_u").alias("sum_u")
    )
    feeders = homes.groupBy("feeder").agg(
        F.collect_list(F.struct("meter", "d", "n", "windows", "sum_u")).alias("homes")
    )
    verdicts = feeders.mapInArrow(safely(_verdict_maker(terms, rules)), _VERDICT)
    return cells.join(verdicts, "feeder").withColumn("shown", is_allowed & ~F.col("dominated"))


def _sum(values: str) -> Column:
    """Return the sum of a column of lists of values, in millionths."""
    return F.aggregate(values, F.lit(0).cast("bigint"), lambda total, value: total + _micro(value))


def _figures_maker(terms: tuple[Descriptor, ...], coverage: float) -> Work:
    """Return the function that computes the figures of cells from their sums."""
    noise_by_id = {descriptor.id: noise_of(descriptor) for descriptor in terms}

    def work(batch: pa.RecordBatch) -> pa.RecordBatch:
        """Compute the figures of each cell (a row of the batch) from its sum and its noise."""
        noises: list[Noise] = []
        for row in batch.column("noise").to_pylist():
            by_id = sorted((entry["d"], entry["count"]) for entry in row)
            noises.append(tuple((*noise_by_id[id_], count) for id_, count in by_id))
        errors = np.array([error_of(noise, coverage) for noise in noises]).reshape(-1, 2)
        homes, sum_u, is_shown = (batch.column(name).to_numpy(False) for name in ("homes", "sum_u", "shown"))
        numbers = cell_figures(homes, sum_u, errors, is_shown)
        key_columns = [batch.column(name) for name in ("feeder", "start", "end", "homes")]
        names = ["feeder", "start", "end", "homes", *numbers._fields, "shown"]
        return pa.RecordBatch.from_arrays(
            [*key_columns, *map(pa.array, numbers), batch.column("shown")], names
        )

    return work


def _verdict_maker(terms: tuple[Descriptor, ...], rules: Rules) -> Work:
    """Return the function that decides for each feeder whether a home may have more than `rules.share`."""
    index_of = {descriptor.id: index for index, descriptor in enumerate(terms)}

    def may_be_dominated(rows: list[dict[str, Any]]) -> bool:
        """Return whether a home of a feeder may have more than `rules.share` of the feeder's energy."""
        names = {name: index for index, name in enumerate(sorted({row["meter"] for row in rows}))}
        sums_u, kinds_of_home = (
            np.zeros((len(names), len(terms)), np.int64),
            [list[tuple[int, int, int]]() for _ in names],
        )
        for row in rows:
            home, index = names[row["meter"]], index_of[row["d"]]
            sums_u[home, index] += row["sum_u"]
            kinds_of_home[home].append((index, row["n"], row["windows"]))
        kinds: list[Composition] = [tuple(sorted(home)) for home in kinds_of_home]
        return may_dominate(energy_kwh(sums_u, terms), kinds, terms, rules)

    def work(batch: pa.RecordBatch) -> pa.RecordBatch:
        """Decide for each feeder (a row of the batch)."""
        verdicts = [may_be_dominated(rows) for rows in batch.column("homes").to_pylist()]
        return pa.RecordBatch.from_arrays(
            [batch.column("feeder"), pa.array(verdicts)], ["feeder", "dominated"]
        )

    return work
