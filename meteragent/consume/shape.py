"""Estimates for one window: its curve, mean day, band energies, amount, energy above a threshold, or peak.

The error band of a curve or a mean day is simultaneous: with the stated probability, all values of a window
are within the half-width of the measured values. A curve that is built from the values with non-negative
functions that sum to 1 (steps or hats) is then everywhere within the half-width of the curve that is built in
the same way from the measured values (THEORY 4.3). The error band does not include how far the load departs
from its mean within a block, because the records do not show this (`privacy.curve.error_bound`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from meteragent.consume.message import Descriptor
from meteragent.consume.series import Estimate, Floats, Integers, Series, frozen
from meteragent.domain.shape import Metric, Space
from meteragent.privacy.accuracy import half_width, sd
from meteragent.privacy.curve import reconstruct
from meteragent.privacy.totals import half_width_of_window


@dataclass(frozen=True, eq=False)
class Curve:
    """The values of a window's k blocks, in `unit`, with the k + 1 `edges_ms` of the blocks.

    The `half_width` of the error band holds for all blocks simultaneously.
    """

    edges_ms: Integers
    values: Floats
    half_width: float
    coverage: float
    unit: str

    def at(
        self, times_ms: ArrayLike, kind: Literal["steps", "hats"] = "steps"
    ) -> tuple[Floats, Floats, Floats]:
        """Evaluate the curve at times of the window; return (values, low, high) in the shape of `times_ms`.

        "steps" is the reconstruction that the descriptor names; "hats" interpolates linearly between the
        midpoints of blocks. Both are post-processing. With probability `coverage`, the curve that is built in
        the same way from the measured values lies between `low` and `high` at all times simultaneously.

        Raises:
            ValueError: a time is outside the window, or the kind is unknown.
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
    """Return the curve of the window that starts at `time_ms`.

    Raises:
        ValueError: there is no such window, or one of its blocks is missing; its slots are bands; its value
            is a peak, an amount or an energy above a threshold; or coverage is not between 0 and 1.
    """
    window = _window(series, time_ms)
    if window.records[0].band is not None:
        raise ValueError("a mean day is not a curve: use mean_day")
    window.require_energy()
    edges_ms = np.append(window.time_ms, window.end_ms[-1])
    terms = window.terms(window.records[0])
    if terms.space is Space.WEIGHTED:
        raise ValueError("an amount is not a curve: use weighted_total")
    half = half_width_of_window(terms.mechanism, coverage, terms.rounding)
    return Curve(frozen(edges_ms), window.values, half, coverage, window.unit)


def mean_day(series: Series, time_ms: int, coverage: float = 0.95) -> MeanDay:
    """Return the mean day of the window that starts at `time_ms`.

    Raises:
        ValueError: there is no such window, or one of its bands is missing; its slots are not means of
            bands; or coverage is not between 0 and 1.
    """
    window = _window(series, time_ms)
    terms = window.terms(window.records[0])
    bands = tuple(record.band for record in window.records if record.band is not None)
    if not bands:
        raise ValueError("slots that are not bands do not make a mean day: use curve")
    if terms.space is Space.BANDS:
        raise ValueError("energies of bands do not make a mean day: use band_energies")
    duration_ms = frozen(np.array([terms.bands[band] for band in bands], np.int64))
    half = _half_width(terms, coverage)
    return MeanDay(time_ms, bands, duration_ms, window.values, half, coverage, window.unit)


def band_energies(series: Series, time_ms: int, coverage: float = 0.95) -> dict[str, Estimate]:
    """Estimate the energy of each band of the window that starts at `time_ms`, in kWh, by the band's name.

    The estimates are unbiased. Each interval holds separately with the stated coverage. The band `unknown`,
    if there is one, has the energy that belongs to no known band, because the register was not read in time.

    Raises:
        ValueError: there is no such window, or one of its bands is missing; its slots are not energies of
            bands; or coverage is not between 0 and 1.
    """
    window = _window(series, time_ms)
    terms = window.terms(window.records[0])
    if terms.space is not Space.BANDS:
        raise ValueError("only windows with the space 'bands' have energies of bands")
    kwh = float(terms.kwh_per_unit())
    half, deviation = (
        kwh * half_width(terms.mechanism, coverage, terms.rounding),
        kwh * sd(terms.mechanism, terms.rounding),
    )
    return {
        record.band or "": Estimate(
            value * kwh, deviation, value * kwh - half, value * kwh + half, coverage, "kWh"
        )
        for record, value in zip(window.records, window.values.tolist(), strict=True)
    }


def weighted_total(series: Series, time_ms: int, coverage: float = 0.95) -> Estimate:
    """Estimate the amount (energy times price) of the window that starts at `time_ms`, in its currency.

    The estimate is unbiased.

    Raises:
        ValueError: there is no such window; its value is not an amount; or coverage is not between 0 and 1.
    """
    window = _window(series, time_ms)
    terms = window.terms(window.records[0])
    if terms.space is not Space.WEIGHTED:
        raise ValueError("only windows with the space 'weighted' have an amount")
    [value] = window.values.tolist()
    half = half_width(terms.mechanism, coverage, terms.rounding)
    deviation = sd(terms.mechanism, terms.rounding)
    return Estimate(value, deviation, value - half, value + half, coverage, window.unit)


def energy_above(series: Series, time_ms: int, coverage: float = 0.95) -> Estimate:
    """Estimate the energy above `threshold_w` in the window that starts at `time_ms`, in kWh.

    The descriptor states the threshold. The estimate is unbiased.

    Raises:
        ValueError: there is no such window; its value is not an energy above a threshold; or coverage is not
            between 0 and 1.
    """
    window = _window(series, time_ms)
    terms = window.terms(window.records[0])
    if terms.space is not Space.ABOVE:
        raise ValueError("only windows with the space 'above' have an energy above a threshold")
    [value], kwh = window.values.tolist(), float(terms.kwh_per_unit())
    half = kwh * half_width(terms.mechanism, coverage, terms.rounding)
    deviation = kwh * sd(terms.mechanism, terms.rounding)
    return Estimate(value * kwh, deviation, value * kwh - half, value * kwh + half, coverage, "kWh")


def highest_mean(series: Series, time_ms: int, coverage: float = 0.95) -> Estimate:
    """Estimate the largest mean of any part of the window that starts at `time_ms`, in the series' unit.

    The interval holds for any number of draws k. The absolute error is at most the largest absolute value of
    the k noises, so the error's standard deviation is at most sqrt(k) times that of one noise. The half-width
    covers each noise with probability 1 - (1 - coverage) / k, and thus all k noises with a probability of at
    least `coverage` (THEORY A.13). With one draw the estimate is unbiased; with more draws it may be too high
    on average. The estimate's `sd` is this bound: sqrt(k) times the standard deviation of one noise.

    Raises:
        ValueError: there is no such window; its value is not a peak; or coverage is not between 0 and 1.
    """
    window = _window(series, time_ms)
    [record] = window.records
    terms, value = window.terms(record), float(record.value)
    if terms.space is not Space.PEAK:
        raise ValueError("only windows with the space 'peak' have a highest mean")
    if not 0 < coverage < 1:
        raise ValueError(f"coverage must lie between 0 and 1, not {coverage}")
    half = half_width(terms.mechanism, 1 - (1 - coverage) / record.draws, terms.rounding)
    deviation = record.draws**0.5 * sd(terms.mechanism, terms.rounding)
    return Estimate(value, deviation, value - half, value + half, coverage, window.unit)


def _half_width(terms: Descriptor, coverage: float) -> float:
    """Return the half-width within which all errors of a window lie with probability `coverage`."""
    if terms.metric is Metric.L1:  # the noises of the window's slots are independent
        return half_width(terms.mechanism, coverage ** (1 / terms.n), terms.rounding)
    return half_width_of_window(terms.mechanism, coverage, terms.rounding)


def _window(series: Series, time_ms: int) -> Series:
    """Select the records of the window at `time_ms`. Raises ValueError if a record is missing."""
    window = series.of_window(time_ms)
    if len(window.records) != window.terms(window.records[0]).n:
        raise ValueError(f"a record of the window that starts at {time_ms} ms is missing")
    return window
