"""When a stream's windows start, and under which terms each of them is released.

On the epoch grid all windows are alike. On the local calendar they are not: days of 23, 24 and 25 hours,
months of different lengths; the radius that hides the same energy differs with them. All of it follows
from the configuration and public time-zone rules, never from readings.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from meteragent.domain.grid import Calendar, Grid, Hours
from meteragent.domain.shape import Band
from meteragent.domain.terms import Terms

Shape = Callable[[int, tuple[Band, ...]], Terms]
"""The terms of a window of some length (ms) and, of a profile, with these bands."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """The windows of a stream: their grid, and the terms of each.

    `usual` are the terms of an ordinary window (a day of 24 hours, a month of 30 days); how readings
    count is the same for all.
    """

    usual: Terms
    grid: Grid
    hours: tuple[Hours, ...] = ()
    shape: Shape | None = None

    def first_ms(self, time_ms: int) -> int:
        """The first start of a window at or after a time."""
        return self.grid.first_ms(time_ms)

    def terms(self, start_ms: int) -> Terms:
        """The terms of the window that starts at `start_ms`."""
        if self.shape is None:
            return self.usual
        bands = _bands(self.grid, self.hours, start_ms) if isinstance(self.grid, Calendar) else ()
        return _shaped(self.shape, self.grid.end_ms(start_ms) - start_ms, bands)


@lru_cache(maxsize=256)
def _bands(calendar: Calendar, hours: tuple[Hours, ...], start_ms: int) -> tuple[Band, ...]:
    """The bands of a window in the order in which they begin; hours that never come have none.

    Remembered, because all meters open the same window at once.
    """
    found = [Band(one.name, calendar.stretches(start_ms, one)) for one in hours]
    return tuple(sorted((band for band in found if band.stretches), key=lambda band: band.stretches[0]))


@lru_cache(maxsize=256)
def _shaped(shape: Shape, length_ms: int, bands: tuple[Band, ...]) -> Terms:
    return shape(length_ms, bands)
