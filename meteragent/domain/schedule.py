"""The start of a stream's windows, and the terms under which each of them is released.

On the epoch grid all windows are alike. On the local calendar days have 23, 24 or 25 hours and months
different lengths, so the radius that hides the same energy differs, too. All of this follows from the
configuration and public time-zone rules, never from readings.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from meteragent.domain.grid import Calendar, Grid, Hours
from meteragent.domain.shape import Band
from meteragent.domain.terms import Terms

Shape = Callable[[int, tuple[Band, ...]], Terms]
"""A function that makes the terms of a window from its length (ms) and, for a profile, its bands."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """The windows of a stream: their grid, and the terms of each.

    `usual` are the terms of an ordinary window (a day of 24 hours, a month of 30 days). The terms of all
    windows agree in how readings count.
    """

    usual: Terms
    grid: Grid
    hours: tuple[Hours, ...] = ()
    shape: Shape | None = None

    def first_ms(self, time_ms: int) -> int:
        """Return the first start of a window at or after a time."""
        return self.grid.first_ms(time_ms)

    def terms(self, start_ms: int) -> Terms:
        """Return the terms of the window that starts at `start_ms`."""
        if self.shape is None:
            return self.usual
        bands = _bands(self.grid, self.hours, start_ms) if isinstance(self.grid, Calendar) else ()
        return _shaped(self.shape, self.grid.end_ms(start_ms) - start_ms, bands)


@lru_cache(maxsize=256)
def _bands(calendar: Calendar, hours: tuple[Hours, ...], start_ms: int) -> tuple[Band, ...]:
    """Return the bands of a window in the order in which they begin, without hours that do not occur in it.

    Cached, because all meters open the same window at once.
    """
    bands = [Band(part.name, calendar.stretches(start_ms, part)) for part in hours]
    return tuple(sorted((band for band in bands if band.stretches), key=lambda band: band.stretches[0]))


@lru_cache(maxsize=256)
def _shaped(shape: Shape, length_ms: int, bands: tuple[Band, ...]) -> Terms:
    return shape(length_ms, bands)
