"""The peak of a feeder: the largest of many noisy means, without the bias of picking the largest.

Theory of operation
-------------------
The mean over homes in slot t is m_t; what left says y_t = m_t + z_t, with z_t of a known law, symmetric and
the sharper the more homes there are (`privacy.totals`). The peak is M = m_s, the largest, whose slot s nobody
knows. The largest y_t is too high on average: it picks a slot for its noise too.

Interval. Let P(z_t > h_t) = (1-c)/2. As y_s + h_s >= M but for a chance of (1-c)/2, so is the largest
y_t + h_t: the upper end needs no correction for the many slots. Let g_t be such that P(z_t <= g_t) =
(1 - (1-c)/2)^(1/T) for each of the T slots. Given all radii the z_t are independent, and what is then
the chance of z_t <= g_t falls in every radius. Falling functions of independent variables are associated
(Esary, Proschan and Walkup 1967), so all z_t <= g_t with a chance of at least the product, 1 - (1-c)/2;
and then the largest y_t - g_t is at most M. Together: M lies between them with probability c at least.

Value. If the m_t were known, the bias would be B(m) = E max(m_t + z_t) - max m_t. It is large where many
slots are about as high, and next to none where one stands out. B is taken at the y_t, drawn together
around their mean until they vary as much as the m_t must (the variance of the y_t less that of the
noise): without that they would look more uneven than the m_t are, and the bias too small. Slots count
as independent there. No estimator of a largest mean is unbiased for all m; what is left of the bias is
measured by the tests.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from meteragent.consume.series import Floats, Series
from meteragent.privacy.totals import Law, Part, half_width_of_total, law_of_total

_POINTS = 2048  # of an integral over the peak


@dataclass(frozen=True, slots=True)
class Peak:
    """The largest mean over homes of any slot of a time, in `unit`.

    `value` is corrected for the bias of `highest`, the largest of the private means, which is that of
    the slot at `time_ms`. `low` .. `high` holds the largest measured mean with probability `coverage`
    at least.
    """

    value: float
    low: float
    high: float
    coverage: float
    unit: str
    highest: float
    time_ms: int


def peak(meters: Iterable[Series], start_ms: int, end_ms: int, coverage: float = 0.95) -> Peak:
    """The largest mean over meters of any slot between `start_ms` and `end_ms`, with the bias taken off.

    Raises:
        ValueError: there is no meter, or the records of one do not fill that time with whole slots; meters
            differ in unit or slots, or these are bands; or coverage is not between 0 and 1.
    """
    homes = [series.between(start_ms, end_ms) for series in meters]
    if len({_grid(series) for series in homes}) != 1:
        raise ValueError("no meters, or meters that differ in unit or slots, have no peak")
    means = np.mean([series.values for series in homes], axis=0)
    parts = _parts(homes)
    many = 2 * (1 - (1 - coverage) / 2) ** (1 / means.size) - 1
    above = _each(parts, lambda slot: half_width_of_total(slot, coverage))
    below = _each(parts, lambda slot: half_width_of_total(slot, many))
    top = int(np.argmax(means))
    return Peak(
        value=float(means[top]) - _bias(means, [law_of_total(slot) for slot in parts]),
        low=float(np.max(means - below)),
        high=float(np.max(means + above)),
        coverage=coverage,
        unit=homes[0].unit,
        highest=float(means[top]),
        time_ms=int(homes[0].time_ms[top]),
    )


def _grid(series: Series) -> tuple[object, ...]:
    """What meters of one feeder have in common."""
    if any(record.band is not None for record in series.records):
        raise ValueError("the bands of mean days have no peak: they are not of one time")
    return series.unit, series.time_ms.tobytes(), series.end_ms.tobytes()


def _parts(homes: Sequence[Series]) -> list[tuple[Part, ...]]:
    """Of each slot what makes the error of its mean."""
    named = zip(*([record.descriptor for record in series.records] for series in homes), strict=True)
    terms = {id_: one for series in homes for id_, one in series.descriptors.items()}
    known: dict[tuple[str, ...], tuple[Part, ...]] = {}
    found = []
    for ids in named:
        if ids not in known:
            counted = sorted(Counter(ids).items())
            known[ids] = tuple(
                Part(terms[id_].mechanism, 1, count, 1 / len(homes), terms[id_].rounding)
                for id_, count in counted
            )
        found.append(known[ids])
    return found


def _each(parts: Sequence[tuple[Part, ...]], tell: Callable[[tuple[Part, ...]], float]) -> Floats:
    """A number for each slot, told once for slots that are alike."""
    known = {slot: tell(slot) for slot in set(parts)}
    return np.array([known[slot] for slot in parts])


def _bias(means: Floats, laws: Sequence[Law]) -> float:
    """E max(m_t + z_t) - max m_t, at means that vary as much as those behind `means` must."""
    variance = float(np.mean([_variance(law) for law in laws]))
    spread = float(np.var(means, ddof=1)) if means.size > 1 else 0.0
    kept = math.sqrt(max(0.0, 1 - variance / spread)) if spread else 0.0
    likely = means.mean() + kept * (means - means.mean())
    top, reach = likely.max(), max(law.h[-1] for law in laws)
    x = np.linspace(top - reach, top + reach, _POINTS)
    below = np.ones(x.size)
    for one, law in zip(likely, laws, strict=True):
        below *= (1 + np.sign(x - one) * np.interp(np.abs(x - one), law.h, law.within)) / 2
    return float(reach) - _integral(below, x)


def _variance(law: Law) -> float:
    """Of an error: the integral of 2 h P(|error| > h)."""
    return _integral(2 * law.h * (1 - law.within), law.h)


def _integral(y: Floats, x: Floats) -> float:
    """By the trapezoidal rule."""
    return float(np.sum((y[1:] + y[:-1]) * np.diff(x)) / 2)
