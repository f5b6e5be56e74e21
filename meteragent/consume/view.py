"""A non-negative view of a series that preserves its totals, for programs that cannot handle negative values.

Negative values are correct: they keep sums and means unbiased, and clipping them makes totals too high. Here
all values of a day (or of a window) are lowered by the same constant, and values that would become negative
are set to zero. The constant is chosen to preserve the day's energy, unless that energy is negative. Of all
non-negative values with that energy, these are the nearest to the records by least squares, weighted by the
energy per unit of each value. This is post-processing and costs no privacy. Individual slot values are
biased: small values upwards, large values downwards. The records' confidence intervals do not apply to them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from meteragent.consume.series import Floats, Integers, Series, freeze
from meteragent.domain.units import DAY_MS


@dataclass(frozen=True, eq=False)
class NonnegativeView:
    """Non-negative values, in the series' unit and order.

    The view has the same energy as the series on each UTC day. If windows follow the local calendar or are
    longer than a day, it has the same energy in each window instead. `raised_ms` lists the starts of the days
    or windows whose energy is negative and therefore not preserved; all values in them are zero.
    """

    values: Floats
    raised_ms: Integers


def nonnegative(series: Series) -> NonnegativeView:
    """Return the non-negative view of a series. Raises ValueError as `Series.require_energy` does."""
    days_ms = np.array([_day_ms(series, i) for i in range(len(series.records))], np.int64)
    values, raised_ms = series.values.copy(), []
    for day_ms in np.unique(days_ms):
        is_in_day = days_ms == day_ms
        weights = series.kwh_per_unit[is_in_day]
        values[is_in_day] = spread_deficit(series.values[is_in_day], weights)
        if weights @ series.values[is_in_day] < 0:
            raised_ms.append(day_ms)
    return NonnegativeView(freeze(values), freeze(np.array(raised_ms, np.int64)))


def _day_ms(series: Series, index: int) -> int:
    """Return the start of the day or window whose total includes the slot with this index."""
    record = series.records[index]
    terms = series.descriptor_of(record)
    if terms.timezone is None and terms.length_ms <= DAY_MS:
        return record.time_ms - record.time_ms % DAY_MS
    return int(series.window_ms[index])


def spread_deficit(values: ArrayLike, weights: ArrayLike) -> Floats:
    """Compute max(x - c, 0) with the c >= 0 that preserves the weighted sum; zeros if the sum is negative.

    This is the projection onto {y >= 0: w y = w x} in the norm sqrt(sum w y^2) (Held, Wolfe and Crowder 1974,
    for equal weights). Only negative values increase, and they become zero.

    Args:
        values: x, shape (m).
        weights: w, shape (m), positive.

    Raises ValueError if shapes differ, or a weight is not positive.
    """
    x, w = np.asarray(values, np.float64), np.asarray(weights, np.float64)
    if x.ndim != 1 or x.shape != w.shape or not (w > 0).all():
        raise ValueError(f"each value needs a positive weight: shapes {x.shape} and {w.shape}")
    if not x.size or x.min() >= 0:
        return x.copy()
    total = float(w @ x)
    if total <= 0:
        return np.zeros_like(x)
    order = np.argsort(-x)
    # If the k largest values remain positive, c is the excess of their weighted sum over the total, divided
    # by the sum of their weights.
    c = (np.cumsum((w * x)[order]) - total) / np.cumsum(w[order])
    remains = x[order] > c
    remains[0] = True  # always true without rounding, which loses a tiny total next to large values
    last_index = int(np.flatnonzero(remains)[-1])
    return np.asarray(np.maximum(x - max(c[last_index], 0.0), 0))  # rounding may make c negative
