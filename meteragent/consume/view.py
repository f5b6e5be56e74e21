"""A view without negative values which keeps the totals, for whoever must have one.

Negative values are right: they keep sums and means unbiased, and cutting them off makes every total too high.
Here the values of a day are lowered together by one amount, those that would fall below zero are zero, and
the amount is such that the day's energy stays what it was: of all values that are nowhere negative and have
that energy these are the nearest, by squares weighted with duration. It is post-processing and costs no
privacy. Slots by themselves are biased: small ones upwards, large ones downwards; intervals do not hold for
them.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from meteragent.consume.series import Floats, Integers, Series, frozen
from meteragent.domain.units import DAY_MS


@dataclass(frozen=True, eq=False)
class View:
    """Values that are nowhere negative, in the series' unit and order.

    The energy of each UTC day is that of the series; of each window, where windows are days of the local
    calendar or longer than a day. `raised_ms` names the days and windows of which that cannot be, because
    their energy is negative: all their values are zero.
    """

    values: Floats
    raised_ms: Integers


def nonnegative(series: Series) -> View:
    """The view of a series; of what there is, where records of a day are missing."""
    days_ms = np.array([_day_ms(series, i) for i in range(len(series.records))], np.int64)
    values, raised_ms = series.values.copy(), []
    for day_ms in np.unique(days_ms):
        mine = days_ms == day_ms
        weights = series.kwh_per_unit[mine]
        values[mine] = without_deficit(series.values[mine], weights)
        if weights @ series.values[mine] < 0:
            raised_ms.append(day_ms)
    return View(frozen(values), frozen(np.array(raised_ms, np.int64)))


def _day_ms(series: Series, place: int) -> int:
    """The start of the day or window whose total a slot is in."""
    record = series.records[place]
    terms = series.terms(record)
    if terms.timezone is None and terms.length_ms <= DAY_MS:
        return record.time_ms - record.time_ms % DAY_MS
    return int(series.window_ms[place])


def without_deficit(values: ArrayLike, weights: ArrayLike) -> Floats:
    """max(x - c, 0) with the c >= 0 that keeps the weighted sum; zeros where that is negative.

    The projection onto {y >= 0: w y = w x} in the norm of sum w y^2 (Held, Wolfe and Crowder 1974, for equal
    weights). No value grows but to zero.

    Args:
        values: x, shape (m).
        weights: w, shape (m), above zero.

    Raises:
        ValueError: shapes differ, or a weight is not above zero.
    """
    x, w = np.asarray(values, np.float64), np.asarray(weights, np.float64)
    if x.ndim != 1 or x.shape != w.shape or not (w > 0).all():
        raise ValueError(f"each value needs a weight above zero: shapes {x.shape} and {w.shape}")
    if not x.size or x.min() >= 0:
        return x.copy()
    total = float(w @ x)
    if total <= 0:
        return np.zeros_like(x)
    order = np.argsort(-x)
    # With the k largest left, c is their weighted sum's excess over the total, by their weight.
    c = (np.cumsum((w * x)[order]) - total) / np.cumsum(w[order])
    left = int(np.flatnonzero(x[order] > c)[-1])
    return np.asarray(np.maximum(x - max(c[left], 0.0), 0))  # c may be a rounding below zero
