"""A private register: the running sum of what left, to stand beside a meter's own."""

from dataclasses import dataclass

import numpy as np

from meteragent.consume.series import Floats, Integers, Series, frozen, parts_of
from meteragent.privacy.totals import half_width_of_total

_STEP = 1.02
"""An interval is found whenever the deviation has grown so much."""


@dataclass(frozen=True, eq=False)
class Register:
    """The energy from `start_ms` to each of `time_ms`, in kWh: private, with its error.

    It is not promised to grow: a slot's noise can be larger than its energy. `low` .. `high` holds the energy
    measured up to a time with probability `coverage`, for each time by itself.
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
    """The running sum at the end of every slot; of the bands of a mean day, at the end of every window.

    From the first record to the last, or from `start_ms` to `end_ms`.

    A sum's interval never shrinks as slots are added: given the radii, errors are symmetric and unimodal
    (Anderson 1955). So what is found for one time is valid for all before it; it is found whenever
    the deviation has grown by 2 %. Intervals are never too narrow, and about 2 % too wide at most; the last
    is exact, that of `Series.energy`.

    Raises:
        ValueError: whole slots do not fill the time, because of a gap or of a slot across an end; or
            coverage is not between 0 and 1.
    """
    start_ms = int(series.time_ms[0]) if start_ms is None else start_ms
    known = series.between(start_ms, int(series.end_ms[-1]) if end_ms is None else end_ms)
    last = np.append(np.flatnonzero(np.diff(known.end_ms)), len(known.records) - 1)
    kwh = np.cumsum(known.kwh_per_unit * known.values)[last]
    sd = np.sqrt(np.cumsum((known.kwh_per_unit * known.sds) ** 2))[last]
    half = np.empty(last.size)
    done = last.size
    while done:
        first = int(np.searchsorted(sd, sd[done - 1] / _STEP, side="right"))
        parts = parts_of(known, known.kwh_per_unit[: last[done - 1] + 1])
        half[min(first, done - 1) : done] = half_width_of_total(parts, coverage)
        done = min(first, done - 1)
    return Register(
        start_ms,
        time_ms=frozen(known.end_ms[last]),
        kwh=frozen(kwh),
        sd=frozen(sd),
        low=frozen(kwh - half),
        high=frozen(kwh + half),
        coverage=coverage,
    )
