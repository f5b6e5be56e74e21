"""The peak of a feeder: the largest of many noisy means, corrected for the bias of selecting the largest.

Theory of operation
-------------------
The mean over homes in slot t is m_t. The records give y_t = m_t + z_t, where the noise z_t has a known
symmetric distribution, which is narrower for more homes (`privacy.totals`). The peak is M = m_s, the largest
mean, in an unknown slot s. The largest y_t is too high on average, because its slot is also selected for its
noise.

Interval. Let c be the coverage, and h_t such that P(z_t > h_t) = (1-c)/2. Then y_s + h_s >= M except with
probability (1-c)/2, and if y_s + h_s >= M, the largest y_t + h_t is also at least M. So the upper end needs
no correction for the number of slots. Let g_t be such that P(z_t <= g_t) = (1 - (1-c)/2)^(1/T) for each of
the T slots. Given all noise bounds, the z_t are independent, and the conditional probability of z_t <= g_t
decreases in every noise bound. Decreasing functions of independent variables are associated (Esary, Proschan
and Walkup 1967), so the probability that z_t <= g_t for all t is at least the product of the probabilities,
which is 1 - (1-c)/2. If z_t <= g_t for all t, the largest y_t - g_t is at most M. By the union bound, M lies
between the two ends with a probability of at least c.

Value. If the m_t were known, the bias would be B(m) = E max(m_t + z_t) - max m_t. It is large if many slots
have almost the largest mean, and close to zero if a single slot does. The m_t are replaced by the y_t,
shrunk towards their mean until they have the variance of the m_t. This variance is estimated as the variance
of the y_t less the variance of the noise. Without shrinking, the y_t would vary more than the m_t, and the
computed bias would be too small. Slots are treated as independent in this computation. No estimator
of a largest mean is unbiased for all m; tests measure the remaining bias.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from meteragent.consume.series import Floats, Series, require_series
from meteragent.privacy.totals import Law, Part, half_width_of_total, law_of_total

_POINTS = 2048
"""The number of points at which the distribution of the largest value is integrated."""


@dataclass(frozen=True, slots=True)
class Peak:
    """The largest of the means over homes of all slots in the requested time, in `unit`.

    `highest` is the largest private mean, in the slot at `time_ms`, and `value` is `highest` less its
    estimated selection bias. `low` .. `high` contains the largest measured mean with a probability of at
    least `coverage`.
    """

    value: float
    low: float
    high: float
    coverage: float
    unit: str
    highest: float
    time_ms: int


def peak(meters: Iterable[Series], start_ms: int, end_ms: int, coverage: float = 0.95) -> Peak:
    """Estimate the largest slot mean over meters from `start_ms` to `end_ms`, corrected for bias.

    Raises ValueError if there is no meter; a meter's records do not fill that time with whole slots; meters
    differ in unit or in the start or end of a slot; slots are bands; or coverage is not between 0 and 1, and
    TypeError if `meters` is a mapping.
    """
    homes = [series.between(start_ms, end_ms) for series in require_series(meters)]
    if len({_common_slots(series) for series in homes}) != 1:
        raise ValueError("a peak needs at least one meter, and the same unit and slots for all meters")
    means = np.mean([series.values for series in homes], axis=0)
    parts = _parts(homes)
    coverage_each = 2 * (1 - (1 - coverage) / 2) ** (1 / means.size) - 1
    upper = _for_each_slot(parts, lambda slot: half_width_of_total(slot, coverage))
    lower = _for_each_slot(parts, lambda slot: half_width_of_total(slot, coverage_each))
    top = int(np.argmax(means))
    return Peak(
        value=float(means[top]) - _maximum_bias(means, [law_of_total(slot) for slot in parts]),
        low=float(np.max(means - lower)),
        high=float(np.max(means + upper)),
        coverage=coverage,
        unit=homes[0].unit,
        highest=float(means[top]),
        time_ms=int(homes[0].time_ms[top]),
    )


def _common_slots(series: Series) -> tuple[object, ...]:
    """Return a series' unit and slots, to compare them with other meters'. Raises ValueError for bands."""
    if any(record.band is not None for record in series.records):
        raise ValueError("the bands of mean days have no peak: they do not belong to one time")
    return series.unit, series.time_ms.tobytes(), series.end_ms.tobytes()


def _parts(homes: Sequence[Series]) -> list[tuple[Part, ...]]:
    """Return, for each slot, the parts that add up to the error of the mean over homes."""
    ids_by_slot = zip(*([record.descriptor for record in series.records] for series in homes), strict=True)
    terms = {id_: descriptor for series in homes for id_, descriptor in series.descriptors.items()}
    parts_by_ids: dict[tuple[str, ...], tuple[Part, ...]] = {}
    parts = []
    for ids in ids_by_slot:
        if ids not in parts_by_ids:
            counts = sorted(Counter(ids).items())
            parts_by_ids[ids] = tuple(
                Part(terms[id_].mechanism, 1, count, 1 / len(homes), terms[id_].rounding)
                for id_, count in counts
            )
        parts.append(parts_by_ids[ids])
    return parts


def _for_each_slot(parts: Sequence[tuple[Part, ...]], compute: Callable[[tuple[Part, ...]], float]) -> Floats:
    """Apply `compute` to the parts of each slot; slots with equal parts share one computation."""
    results = {slot: compute(slot) for slot in set(parts)}
    return np.array([results[slot] for slot in parts])


def _maximum_bias(means: Floats, laws: Sequence[Law]) -> float:
    """Compute E max(m_t + z_t) - max m_t for shrunk `means` m_t and the `laws` of z_t (see the module)."""
    # The variance of an error is the integral over h of 2 h P(|error| > h).
    variance = float(np.mean([_integrate(2 * law.h * (1 - law.within), law.h) for law in laws]))
    spread = float(np.var(means, ddof=1)) if means.size > 1 else 0.0
    scale = math.sqrt(max(0.0, 1 - variance / spread)) if spread else 0.0
    shrunk_means = means.mean() + scale * (means - means.mean())
    top, reach = shrunk_means.max(), max(law.h[-1] for law in laws)
    x = np.linspace(top - reach, top + reach, _POINTS)
    cumulative = np.ones(x.size)
    for mean, law in zip(shrunk_means, laws, strict=True):
        cumulative *= (1 + np.sign(x - mean) * np.interp(np.abs(x - mean), law.h, law.within)) / 2
    return float(reach) - _integrate(cumulative, x)


def _integrate(y: Floats, x: Floats) -> float:
    """Integrate y over x by the trapezoidal rule."""
    return float(np.sum((y[1:] + y[:-1]) * np.diff(x)) / 2)
