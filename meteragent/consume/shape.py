"""A window as what it is: a curve that has a value at any time, or a mean day.

A band holds at once: all numbers of a window are within the half width with the stated probability. A
curve that is made of them by positive functions that sum to 1 (steps, hats) is then as close to the
curve that is made so of the measured means, everywhere (THEORY 4.3). How far a load is from its means
within a block is not in the band: it was not sent (`privacy.curve.error_bound`).
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from meteragent.consume.series import Floats, Integers, Series, frozen
from meteragent.privacy.curve import reconstruct
from meteragent.privacy.totals import half_width_of_window


@dataclass(frozen=True, eq=False)
class Curve:
    """A window's block means, in `unit`, between k + 1 `edges_ms`; all within `half_width` at once."""

    edges_ms: Integers
    values: Floats
    half_width: float
    coverage: float
    unit: str

    def at(
        self, times_ms: ArrayLike, kind: Literal["steps", "hats"] = "steps"
    ) -> tuple[Floats, Floats, Floats]:
        """The curve at any times of the window, and its band: (values, low, high), shaped as the times.

        "steps" is what the descriptor says; "hats" goes straight from block middle to block middle. Both are
        post-processing. The band holds the same curve of the measured means at all times at once.

        Raises:
            ValueError: a time outside the window, or another kind.
        """
        values = reconstruct(self.values, self.edges_ms, times_ms, kind)
        return values, values - self.half_width, values + self.half_width


@dataclass(frozen=True, eq=False)
class MeanDay:
    """The mean day of a window that starts at `time_ms`: a value for each band, in `unit`.

    `duration_ms` is how long each band is in the window in all. All values are within `half_width` at once.
    """

    time_ms: int
    bands: tuple[str, ...]
    duration_ms: Integers
    values: Floats
    half_width: float
    coverage: float
    unit: str


def curve(series: Series, time_ms: int, coverage: float = 0.95) -> Curve:
    """The window that starts at `time_ms` as a curve.

    Raises:
        ValueError: no such window, or one of its blocks is missing; its slots are bands; or coverage is not
            between 0 and 1.
    """
    window = _window(series, time_ms)
    if window.records[0].band is not None:
        raise ValueError("a mean day is no curve: see mean_day")
    edges_ms = np.append(window.time_ms, window.end_ms[-1])
    terms = window.terms(window.records[0])
    half = half_width_of_window(terms.mechanism, coverage, terms.rounding)
    return Curve(frozen(edges_ms), window.values, half, coverage, window.unit)


def mean_day(series: Series, time_ms: int, coverage: float = 0.95) -> MeanDay:
    """The mean day of the window that starts at `time_ms`.

    Raises:
        ValueError: no such window, or one of its bands is missing; its slots are no bands; or coverage is not
            between 0 and 1.
    """
    window = _window(series, time_ms)
    terms = window.terms(window.records[0])
    bands = tuple(record.band for record in window.records if record.band is not None)
    if not bands:
        raise ValueError("slots that are no bands make no mean day: see curve")
    duration_ms = frozen(np.array([terms.bands[band] for band in bands], np.int64))
    half = half_width_of_window(terms.mechanism, coverage, terms.rounding)
    return MeanDay(time_ms, bands, duration_ms, window.values, half, coverage, window.unit)


def _window(series: Series, time_ms: int) -> Series:
    """All records of the window that starts at a time."""
    found = series.of_window(time_ms)
    if len(found.records) != found.terms(found.records[0]).mechanism.n:
        raise ValueError(f"a record of the window that starts at {time_ms} ms is missing")
    return found
