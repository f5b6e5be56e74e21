"""Totals and means over thousands of meters, with intervals, for each feeder and slot.

A cell consists of the records of a feeder's meters for one slot. Noise has mean zero and is independent
between meters, so the sum over a cell is unbiased. The distribution of its error is that of `privacy.totals`,
with one slot of noise per meter, computed once for equal numbers of meters under each mechanism and rounding.
Sums are exact, because values are whole millionths of the unit.

The mean is taken over the `homes` meters that have a record of the slot, which is public (law 4).
`consume.rules` decides which cells are shown. Spark computes the same results (`meteragent.spark.feeder`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from meteragent.consume.message import Descriptor
from meteragent.consume.rules import EVERYTHING, Composition, Flags, Rules, energy_kwh, may_dominate
from meteragent.consume.series import Floats, Integers
from meteragent.consume.slots import Slots
from meteragent.domain.terms import Rounding
from meteragent.domain.units import MICRO
from meteragent.privacy.mechanism.laplace import LInfLaplace
from meteragent.privacy.table import Columns
from meteragent.privacy.totals import Part, half_width_of_total, sd_of_total

Noise = tuple[tuple[LInfLaplace, Rounding, int], ...]
"""The noise of a cell: the number of the cell's meters under each mechanism and rounding."""


@dataclass(frozen=True, eq=False)
class Cells(Columns):
    """Cells by feeder and time, as columns of equal length.

    `homes` is the number of meters that have a record. `total` and `mean` are in `unit`. `sd` is the standard
    deviation of the mean's noise. `low` .. `high` contains the mean of the measured values with probability
    `coverage`; both ends multiplied by `homes` give an interval for the total. In cells that are not
    `shown`, `total`, `mean`, `sd`, `low` and `high` are NaN.
    """

    feeder: NDArray[np.str_]
    start_ms: Integers
    end_ms: Integers
    homes: Integers
    total: Floats
    mean: Floats
    sd: Floats
    low: Floats
    high: Floats
    shown: Flags
    coverage: float
    unit: str

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return columns for `to_pandas()` and `to_arrow()`, which also state the zone of times, UTC."""
        times = {name: getattr(self, f"{name}_ms").astype("datetime64[ms]") for name in ("start", "end")}
        numbers = ("homes", "total", "mean", "sd", "low", "high")
        columns = {name: getattr(self, name) for name in numbers}
        return {"feeder": self.feeder, **times, **columns, "shown": self.shown}


def by_feeder(
    slots: Slots,
    feeder_of: Mapping[str, str] | Callable[[str], str] | None = None,
    rules: Rules = EVERYTHING,
    coverage: float = 0.95,
) -> Cells:
    """Compute the total and the mean of each feeder and slot, in order of feeder and time.

    `feeder_of` is a mapping or a function from a meter's name to the name of its feeder. If it is None, all
    meters belong to one feeder, whose name is empty. Raises TypeError if `slots` is not of type `Slots`, or
    `feeder_of` is neither a mapping nor a function, and ValueError if a meter has no feeder, or no capacity
    although the rules need one; the rules compare energies, but the values are amounts; or coverage is not
    between 0 and 1.
    """
    if not isinstance(slots, Slots):
        raise TypeError(f"expected Slots, not {type(slots).__name__}: see Slots.read, or Slots.of for series")
    names, feeder = _number_feeders(slots.meters, feeder_of)
    order = np.lexsort((slots.end_ms, slots.start_ms, feeder[slots.meter]))
    keys = (feeder[slots.meter][order], slots.start_ms[order], slots.end_ms[order])
    first_rows = np.flatnonzero(np.any([np.diff(key, prepend=key[0] - 1) != 0 for key in keys], axis=0))
    homes = np.diff(first_rows, append=order.size)
    cell, kinds = np.repeat(np.arange(first_rows.size), homes), len(slots.descriptors)
    counts = np.bincount(cell * kinds + slots.terms[order], minlength=first_rows.size * kinds)
    errors = _compute_errors(counts.reshape(-1, kinds), slots.descriptors, coverage)
    capacities_u = None
    if rules.capacity is not None:
        capacity_u = rules.capacities_u(slots.meters)[slots.meter][order]
        capacities_u = [by.reduceat(capacity_u, first_rows) for by in (np.minimum, np.maximum, np.add)]
    is_shown = rules.allow(homes, capacities_u)
    if rules.share is not None and capacities_u is None:
        is_shown &= ~_may_be_dominated(slots, feeder, len(names), rules)[keys[0][first_rows]]
    sums = np.add.reduceat(slots.summable_u[order], first_rows)
    numbers = cell_figures(homes, sums, errors, is_shown)._asdict()
    keys_of_cells = np.array(names)[keys[0][first_rows]], keys[1][first_rows], keys[2][first_rows]
    return Cells(*keys_of_cells, homes, shown=is_shown, coverage=coverage, unit=slots.unit, **numbers)


class Figures(NamedTuple):
    """The numbers of cells (see `Cells`)."""

    total: Floats
    mean: Floats
    sd: Floats
    low: Floats
    high: Floats


def cell_figures(homes: Integers, sum_u: Integers, errors: Floats, is_shown: Flags) -> Figures:
    """Compute the numbers of cells from the exact sums of their values, in millionths of the unit.

    `errors`, shape (cells, 2), holds the standard deviation and the half-width of each cell's mean. The
    numbers are NaN for cells that are not shown.
    """
    mean = sum_u / (MICRO * homes)
    columns = sum_u / MICRO, mean, errors[:, 0], mean - errors[:, 1], mean + errors[:, 1]
    return Figures(*(np.where(is_shown, column, np.nan).astype(np.float64) for column in columns))


@lru_cache(maxsize=1 << 14)
def error_of(noise: Noise, coverage: float) -> tuple[float, float]:
    """Compute the standard deviation and the half-width of the interval of the mean over a cell's meters.

    `noise` states the cell's number of meters under each mechanism and rounding. Raises ValueError if
    coverage is not between 0 and 1.
    """
    homes = sum(count for _, _, count in noise)
    parts = [Part(mechanism, 1, count, 1 / homes, rounding) for mechanism, rounding, count in noise]
    return sd_of_total(parts), half_width_of_total(parts, coverage)


def noise_of(terms: Descriptor) -> tuple[LInfLaplace, Rounding]:
    """Return the mechanism and the rounding of `terms`, on which the error of a record depends."""
    return terms.mechanism, terms.rounding


def _compute_errors(counts: Integers, descriptors: Sequence[Descriptor], coverage: float) -> Floats:
    """Compute `error_of` for each cell; `counts`, shape (cells, descriptors), holds numbers of meters."""
    distinct_counts, cell = np.unique(counts, axis=0, return_inverse=True)
    errors = [
        error_of(
            tuple((*noise_of(descriptor), n) for descriptor, n in zip(descriptors, row, strict=True) if n),
            coverage,
        )
        for row in distinct_counts.tolist()
    ]
    return np.array(errors)[cell.reshape(-1)]


def _number_feeders(
    meters: tuple[str, ...], feeder_of: Mapping[str, str] | Callable[[str], str] | None
) -> tuple[tuple[str, ...], Integers]:
    """Return the feeders' names, and the index of each meter's feeder. Raises TypeError or ValueError."""
    if feeder_of is None:
        return ("",), np.zeros(len(meters), np.int64)
    if not isinstance(feeder_of, Mapping):
        if not callable(feeder_of):
            raise TypeError(
                "feeder_of must be a mapping or a function from a meter's name to its feeder's, "
                f"not {type(feeder_of).__name__}"
            )
        feeder_of = {meter: feeder_of(meter) for meter in meters}
    missing_count = sum(meter not in feeder_of for meter in meters)
    if missing_count:
        raise ValueError(f"meters without a feeder: {missing_count}")
    names = tuple(sorted({feeder_of[meter] for meter in meters}))
    indices = {name: index for index, name in enumerate(names)}
    return names, np.array([indices[feeder_of[meter]] for meter in meters], np.int64)


def _may_be_dominated(slots: Slots, feeder: Integers, feeders: int, rules: Rules) -> Flags:
    """Return, for each of the `feeders` feeders, whether a home may have more than `share` of its energy."""
    sums_u = np.zeros((len(slots.meters), len(slots.descriptors)), slots.summable_u.dtype)
    np.add.at(sums_u, (slots.meter, slots.terms), slots.summable_u)
    energies, compositions = energy_kwh(sums_u, slots.descriptors), _compositions(slots)
    results = np.zeros(feeders, np.bool_)
    for index in range(feeders):
        homes = np.flatnonzero(feeder == index)
        results[index] = may_dominate(
            energies[homes], [compositions[home] for home in homes], slots.descriptors, rules
        )
    return results


def _compositions(slots: Slots) -> list[Composition]:
    starts, window = np.unique(slots.window_ms, return_inverse=True)
    meter_terms, terms = slots.meter * len(slots.descriptors) + slots.terms, len(slots.descriptors)
    windows, counts = np.unique(meter_terms * starts.size + window.reshape(-1), return_counts=True)
    base = int(counts.max()) + 1
    kinds, windows_of_kind = np.unique(windows // starts.size * base + counts, return_counts=True)
    compositions: list[list[tuple[int, int, int]]] = [[] for _ in slots.meters]
    for kind, number in zip(kinds.tolist(), windows_of_kind.tolist(), strict=True):
        compositions[kind // base // terms].append((kind // base % terms, kind % base, number))
    return [tuple(composition) for composition in compositions]
