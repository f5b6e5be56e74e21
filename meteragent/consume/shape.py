"""Estimates for one window: its curve, mean day, band energies, amount, energy above a threshold, or peak.

The error band of a curve or a mean day is simultaneous: with the stated probability, all values of a window
are within the half-width of the measured values, and so is everything built from them with non-negative
functions that sum to 1 (steps or hats; THEORY 4.3). It does not include how far the load departs from its
mean within a block, because the records do not show this (THEORY 4.2).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from meteragent.consume.message import Descriptor
from meteragent.consume.series import Estimate, Floats, Integers, Series, freeze
from meteragent.domain.shapes import Space
from meteragent.domain.units import KILO, UNIT_FACTOR
from meteragent.privacy.accuracy import half_width, require_coverage, sd
from meteragent.privacy.curve import reconstruct
from meteragent.privacy.totals import half_width_of_window


@dataclass(frozen=True, eq=False)
class Curve:
    """The values of a window's k blocks, in `unit`, the k + 1 `edges_ms`, and the error band's half-width."""

    edges_ms: Integers
    values: Floats
    half_width: float
    coverage: float
    unit: str

    def at(
        self, times_ms: ArrayLike, kind: Literal["steps", "hats"] = "steps"
    ) -> tuple[Floats, Floats, Floats]:
        """Evaluate the curve at times of the window; return (values, low, high) in the shape of `times_ms`.

        "steps" is the reconstruction that the descriptor names; "hats" interpolates between the midpoints of
        blocks. With probability `coverage`, the curve that is built in the same way from the measured values
        is in the band at all times. Raises ValueError if a time is outside the window, or the kind is
        unknown.
        """
        values = reconstruct(self.values, self.edges_ms, times_ms, kind)
        return values, values - self.half_width, values + self.half_width


@dataclass(frozen=True, eq=False)
class MeanDay:
    """The mean day of a window that starts at `time_ms`: a value for each band, in `unit`.

    `duration_ms` is the total time of each band in the window. The `half_width` holds for all bands
    simultaneously.
    """

    time_ms: int
    bands: tuple[str, ...]
    duration_ms: Integers
    values: Floats
    half_width: float
    coverage: float
    unit: str


def curve(series: Series, time_ms: int, coverage: float = 0.95) -> Curve:
    """Return the curve of the window that starts at `time_ms`. Raises ValueError if there is none."""
    window, terms = _select_window(series, time_ms, "a curve", Space.LINF, Space.CURVE)
    edges_ms = np.append(window.time_ms, window.end_ms[-1])
    half = _half_width(terms, coverage)
    return Curve(freeze(edges_ms), window.values, half, coverage, window.unit)


def mean_day(series: Series, time_ms: int, coverage: float = 0.95) -> MeanDay:
    """Return the mean day of the window that starts at `time_ms`. Raises ValueError if there is none."""
    window, terms = _select_window(series, time_ms, "a mean day", Space.PROFILE)
    bands = tuple(record.band or "" for record in window.records)
    duration_ms = freeze(np.array([terms.slot_ms(band) for band in bands], np.int64))
    half = _half_width(terms, coverage)
    return MeanDay(time_ms, bands, duration_ms, window.values, half, coverage, window.unit)


def band_energies(series: Series, time_ms: int, coverage: float = 0.95) -> dict[str, Estimate]:
    """Estimate the energy of each band of the window that starts at `time_ms`, in kWh, by the band's name.

    The estimates are unbiased. Each interval holds separately with the stated coverage. The band `unknown`,
    if there is one, has the energy that belongs to no known band, because the register was not read in time.
    Raises ValueError if there is no such window, or one of its bands is missing; its slots are not energies
    of bands; or coverage is not between 0 and 1.
    """
    window, terms = _select_window(series, time_ms, "energies of bands", Space.BANDS)
    return {
        record.band or "": _make_estimate(value, terms, float(terms.kwh_per_unit()), "kWh", coverage)
        for record, value in zip(window.records, window.values.tolist(), strict=True)
    }


def weighted_total(series: Series, time_ms: int, coverage: float = 0.95) -> Estimate:
    """Estimate the amount of the window at `time_ms`, in its currency. Raises ValueError if it has none."""
    window, terms = _select_window(series, time_ms, "an amount", Space.WEIGHTED)
    return _make_estimate(float(window.values[0]), terms, 1, window.unit, coverage)


def energy_above(series: Series, time_ms: int, coverage: float = 0.95) -> Estimate:
    """Estimate a window's energy above `threshold_w`, in kWh. Raises ValueError for other windows."""
    window, terms = _select_window(series, time_ms, "an energy above a threshold", Space.ABOVE)
    return _make_estimate(float(window.values[0]), terms, UNIT_FACTOR[window.unit] / KILO, "kWh", coverage)


def highest_mean(series: Series, time_ms: int, coverage: float = 0.95) -> Estimate:
    """Estimate the largest mean of any part of the window that starts at `time_ms`, in the series' unit.

    The interval holds for any number of draws k: the error is at most the largest absolute value of the k
    noises, each of which the half-width covers with probability 1 - (1 - coverage) / k (THEORY A.13.3). `sd`
    is a bound, sqrt(k) times that of one noise. With one draw the estimate is unbiased; with more it may be
    too high on average. Raises ValueError if there is no such window, or its value is not a peak.
    """
    window, terms = _select_window(series, time_ms, "a highest mean", Space.PEAK)
    [record] = window.records
    require_coverage(coverage)
    estimate = _make_estimate(float(record.value), terms, 1, window.unit, 1 - (1 - coverage) / record.draws)
    return replace(estimate, sd=record.draws**0.5 * estimate.sd, coverage=coverage)


def _make_estimate(value: float, terms: Descriptor, factor: float, unit: str, coverage: float) -> Estimate:
    """Return the estimate, in `unit`, of a value times a factor."""
    number, half = value * factor, half_width(terms.mechanism, coverage, terms.rounding) * factor
    deviation = sd(terms.mechanism, terms.rounding) * factor
    return Estimate(number, deviation, number - half, number + half, coverage, unit)


def _half_width(terms: Descriptor, coverage: float) -> float:
    """Return the half-width within which all errors of a window lie with probability `coverage`."""
    if terms.metric.is_sum:  # the noises of the window's slots are independent
        return half_width(terms.mechanism, coverage ** (1 / terms.n), terms.rounding)
    return half_width_of_window(terms.mechanism, coverage, terms.rounding)


def _select_window(series: Series, time_ms: int, noun: str, *spaces: Space) -> tuple[Series, Descriptor]:
    """Select a window's records. Raises ValueError if a record is missing or the window has no `noun`."""
    window = series.of_window(time_ms)
    terms = window.descriptor_of(window.records[0])
    terms.require_kind(noun, *spaces)
    if len(window.records) != terms.n:
        raise ValueError(f"a record of the window that starts at {time_ms} ms is missing")
    return window, terms
