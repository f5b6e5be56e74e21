"""A private register: the running sum of the records, to compare with a meter's own register."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from meteragent.consume.series import Floats, Integers, Series, freeze, parts_of
from meteragent.privacy.totals import half_width_of_total

_STEP = 1.02
"""The factor by which the standard deviation may grow before another interval is computed."""


@dataclass(frozen=True, eq=False)
class Register:
    """The private energy `kwh` from `start_ms` to each time in `time_ms`, with its interval.

    The sum may decrease, because a slot's noise may be negative and larger than the slot's energy. `low` ..
    `high` contains the measured energy with a probability of at least `coverage`, for each time separately.
    """

    start_ms: int
    time_ms: Integers
    kwh: Floats
    sd: Floats
    low: Floats
    high: Floats
    coverage: float


def total(
    series: Series, start_ms: int | None = None, end_ms: int | None = None, coverage: float = 0.95
) -> Register:
    """Compute the running sum at the end of every slot or, if slots are bands, of every window.

    The sum runs from `start_ms` to `end_ms`, by default from the first record to the last.

    A sum's interval never becomes narrower as slots are added, because errors are symmetric and unimodal
    given the noise bounds (Anderson 1955). So the half-width at one time is valid for all earlier times, and
    it is computed again only after the standard deviation has changed by 2%. Intervals are never too narrow,
    and at most about 2% too wide. The last interval is exact and equals the interval of `Series.energy`.
    Raises ValueError if whole slots do not fill the time, because of a gap or a slot that straddles an end of
    the time; no energy follows from the values; or coverage is not between 0 and 1.
    """
    start_ms = int(series.time_ms[0]) if start_ms is None else start_ms
    series_part = series.between(start_ms, int(series.end_ms[-1]) if end_ms is None else end_ms)
    last_rows = np.append(np.flatnonzero(np.diff(series_part.end_ms)), len(series_part.records) - 1)
    kwh = np.cumsum(series_part.kwh_per_unit * series_part.values)[last_rows]
    sd = np.sqrt(np.cumsum((series_part.kwh_per_unit * series_part.sds) ** 2))[last_rows]
    half = np.empty(last_rows.size)
    stop = last_rows.size  # intervals are computed from the last time backwards
    while stop:
        start = int(np.searchsorted(sd, sd[stop - 1] / _STEP, side="right"))
        parts = parts_of(series_part, series_part.kwh_per_unit[: last_rows[stop - 1] + 1])
        half[min(start, stop - 1) : stop] = half_width_of_total(parts, coverage)
        stop = min(start, stop - 1)
    return Register(
        start_ms,
        time_ms=freeze(series_part.end_ms[last_rows]),
        kwh=freeze(kwh),
        sd=freeze(sd),
        low=freeze(kwh - half),
        high=freeze(kwh + half),
        coverage=coverage,
    )
