"""When a stream's windows start, and the terms under which each window is released.

On the local calendar, days and months differ in length, so the radius that hides a given energy differs as
well. The schedule depends on the configuration and public time-zone rules, never on readings.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache

from meteragent.domain.grid import Band, BandRule, Calendar, Grid
from meteragent.domain.shapes import UNKNOWN_BAND
from meteragent.domain.terms import Terms

MakeTerms = Callable[[int, tuple[Band, ...]], Terms]
"""A function that computes the terms of a window from its length (ms) and its bands, if any."""


@dataclass(frozen=True, slots=True)
class BandRules:
    """The rules of a window's bands; `remainder` names the band for the time that no rule covers.

    If `has_unknown`, there is also a band for energy whose time of use is unknown.
    """

    rules: tuple[BandRule, ...] = ()
    remainder: str | None = None
    has_unknown: bool = False

    def bands(self, calendar: Calendar, start_ms: int) -> tuple[Band, ...]:
        """Return a window's bands that have hours, by their start, and then the unknown band, if any."""
        length_ms = calendar.end_ms(start_ms) - start_ms
        bands = [Band(rule.name, calendar.stretches(start_ms, rule)) for rule in self.rules]
        if self.remainder is not None:
            bands.append(Band(self.remainder, uncovered_stretches(bands, length_ms)))
        bands = sorted((band for band in bands if band.stretches), key=lambda band: band.stretches[0])
        return (*bands, Band(UNKNOWN_BAND, ((length_ms, length_ms),))) if self.has_unknown else tuple(bands)


def uncovered_stretches(bands: Iterable[Band], length_ms: int) -> tuple[tuple[int, int], ...]:
    """Return the stretches of a window that no band covers, as (from, to) in ms after its start, in order."""
    stretches, at_ms = list[tuple[int, int]](), 0
    for from_ms, to_ms in sorted(stretch for band in bands for stretch in band.stretches):
        if at_ms < from_ms:
            stretches.append((at_ms, from_ms))
        at_ms = max(at_ms, to_ms)
    return (*stretches, (at_ms, length_ms)) if at_ms < length_ms else tuple(stretches)


@dataclass(frozen=True, slots=True)
class Schedule:
    """The windows of a stream: their grid, and the terms of each; readings mean the same in all windows.

    `usual` are the terms of an ordinary window (a day of 24 hours, a month of 30 days). `make_terms` computes
    the terms of each window; if it is None, all windows have the usual terms.
    """

    usual: Terms
    grid: Grid
    rules: BandRules = BandRules()
    make_terms: MakeTerms | None = None

    def first_start_ms(self, time_ms: int) -> int:
        """Return the start of the first window that starts at or after `time_ms`."""
        return self.grid.first_start_ms(time_ms)

    def terms_at(self, start_ms: int) -> Terms:
        """Return the terms of the window that starts at `start_ms`."""
        if self.make_terms is None:
            return self.usual
        bands = _bands(self.grid, self.rules, start_ms) if isinstance(self.grid, Calendar) else ()
        return _terms_of_bands(self.make_terms, self.grid.end_ms(start_ms) - start_ms, bands)


@lru_cache(maxsize=256)
def _bands(calendar: Calendar, rules: BandRules, start_ms: int) -> tuple[Band, ...]:
    """Return the bands of a window, which are cached because all meters open the same window at once."""
    return rules.bands(calendar, start_ms)


@lru_cache(maxsize=256)
def _terms_of_bands(shape: MakeTerms, length_ms: int, bands: tuple[Band, ...]) -> Terms:
    return shape(length_ms, bands)
