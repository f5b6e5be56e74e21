"""Totals and means over many meters, slot by slot and feeder by feeder, with intervals, at scale.

Theory of operation
-------------------
A cell is a slot of a feeder: all its meters that have a record from `start_ms` to `end_ms`. Noise has mean
zero and meters are independent, so the sum over a cell is right on average, and its error has the law of
`privacy.totals` with as many windows of each mechanism as there are meters under it. Cells in which these
numbers are equal have one law, which is computed once. Sums are of whole millionths, so they are exact.

The mean is over the meters that have a record of that slot, and `homes` says how many; which records there
are is public (law 4 of the agent). What homes without a record used is in no total.

Which cells are told: see `consume.rules`. Spark makes the same of the same (`meteragent.spark.feeder`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from meteragent.consume.message import Descriptor
from meteragent.consume.rules import EVERYTHING, Flags, Rules, dominated, over_capacity
from meteragent.consume.series import Floats, Integers
from meteragent.consume.slots import Slots
from meteragent.domain.terms import Rounding
from meteragent.domain.units import MICRO
from meteragent.privacy.mechanism.laplace import LInfLaplace
from meteragent.privacy.totals import Part, half_width_of_total, sd_of_total

Noise = tuple[tuple[LInfLaplace, Rounding, int], ...]
"""How many meters of a cell are under each mechanism and rounding."""
_LARGEST = 2**62


@dataclass(frozen=True, eq=False)
class Cells:
    """Cells by feeder and time, as columns of one length; of those that are not `told` numbers are NaN.

    `total` and `mean` are in `unit`; `sd` is that of the mean's noise, and `low` .. `high` holds the mean of
    what was measured with probability `coverage` (times `homes`: the total).
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
    told: Flags
    coverage: float
    unit: str

    def columns(self) -> dict[str, NDArray[Any]]:
        """As columns, for `pandas.DataFrame(..)` or `pyarrow.table(..)`; times (UTC) are datetime64[ms]."""
        times = {name: getattr(self, f"{name}_ms").astype("datetime64[ms]") for name in ("start", "end")}
        numbers = ("homes", "total", "mean", "sd", "low", "high", "told")
        return {"feeder": self.feeder, **times, **{name: getattr(self, name) for name in numbers}}


def by_feeder(
    slots: Slots,
    feeder_of: Mapping[str, str] | None = None,
    rules: Rules = EVERYTHING,
    coverage: float = 0.95,
) -> Cells:
    """Totals and means of each feeder and slot, in order of feeder and time; without `feeder_of` all are one.

    Raises:
        ValueError: a meter has no feeder, or no capacity where the rules ask for it; totals pass 64 bits; or
            coverage is not between 0 and 1.
    """
    names, feeder = _feeders(slots.meters, feeder_of)
    order = np.lexsort((slots.end_ms, slots.start_ms, feeder[slots.meter]))
    keys = (feeder[slots.meter][order], slots.start_ms[order], slots.end_ms[order])
    first = np.flatnonzero(np.any([np.diff(key, prepend=key[0] - 1) != 0 for key in keys], axis=0))
    homes = np.diff(first, append=order.size)
    _check(slots.value_u)
    cell, kinds = np.repeat(np.arange(first.size), homes), len(slots.descriptors)
    counts = np.bincount(cell * kinds + slots.terms[order], minlength=first.size * kinds)
    errors = _errors(counts.reshape(-1, kinds), slots.descriptors, coverage)
    told = homes >= rules.at_least
    if rules.share is not None and rules.capacity is not None:
        capacity_u = rules.capacities_u(slots.meters)[slots.meter][order]
        told &= ~over_capacity(capacity_u, first, rules.share)
    elif rules.share is not None:
        told &= ~dominated(slots, feeder, len(names), rules)[keys[0][first]]
    sums = np.add.reduceat(slots.value_u[order], first)
    numbers = figures(homes, sums, errors, told)._asdict()
    place = np.array(names)[keys[0][first]], keys[1][first], keys[2][first]
    return Cells(*place, homes, told=told, coverage=coverage, unit=slots.unit, **numbers)


class Figures(NamedTuple):
    """The numbers of cells (see `Cells`)."""

    total: Floats
    mean: Floats
    sd: Floats
    low: Floats
    high: Floats


def figures(homes: Integers, sum_u: Integers, errors: Floats, told: Flags) -> Figures:
    """The numbers of cells, from exact sums and their `errors` (cells, 2)."""
    mean = sum_u / (MICRO * homes)
    found = sum_u / MICRO, mean, errors[:, 0], mean - errors[:, 1], mean + errors[:, 1]
    return Figures(*(np.where(told, one, np.nan) for one in found))


@lru_cache(maxsize=1 << 14)
def error_of(noise: Noise, coverage: float) -> tuple[float, float]:
    """Of the mean over the meters of a cell: the standard deviation of its noise, the half width.

    Raises:
        ValueError: coverage is not between 0 and 1.
    """
    homes = sum(count for _, _, count in noise)
    parts = [Part(mechanism, 1, count, 1 / homes, rounding) for mechanism, rounding, count in noise]
    return sd_of_total(parts), half_width_of_total(parts, coverage)


def noise_of(terms: Descriptor) -> tuple[LInfLaplace, Rounding]:
    """Return what the error of a record under these terms follows from."""
    return terms.mechanism, terms.rounding


def _errors(counts: Integers, descriptors: Sequence[Descriptor], coverage: float) -> Floats:
    """Return `error_of` each cell, of which `counts` says how many meters are under each descriptor."""
    alike, cell = np.unique(counts, axis=0, return_inverse=True)
    found = [
        error_of(tuple((*noise_of(one), n) for one, n in zip(descriptors, row, strict=True) if n), coverage)
        for row in alike.tolist()
    ]
    return np.array(found)[cell.reshape(-1)]


def _feeders(
    meters: tuple[str, ...], feeder_of: Mapping[str, str] | None
) -> tuple[tuple[str, ...], Integers]:
    """The feeders' names in order, and that of each meter."""
    if feeder_of is None:
        return ("",), np.zeros(len(meters), np.int64)
    missing = sum(meter not in feeder_of for meter in meters)
    if missing:
        raise ValueError(f"{missing} meters have no feeder")
    names = tuple(sorted({feeder_of[meter] for meter in meters}))
    places = {name: place for place, name in enumerate(names)}
    return names, np.array([places[feeder_of[meter]] for meter in meters], np.int64)


def _check(value_u: Integers) -> None:
    largest = max(abs(int(value_u.min())), abs(int(value_u.max())))
    if largest * value_u.size >= _LARGEST:
        raise ValueError("totals of these may pass 64 bits: take fewer at once")
