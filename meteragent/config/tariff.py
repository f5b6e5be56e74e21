"""A configuration's tariffs, and the bands of streams that they price."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from meteragent.config.model import Config, Stream
from meteragent.config.shapes import band_rules
from meteragent.config.terms import calendar_unit
from meteragent.domain.grid import EVERY_DAY
from meteragent.domain.schedule import BandRules
from meteragent.domain.shapes import UNKNOWN_BAND
from meteragent.domain.tariff import Tariff

_WINDOWS_OF_A_MONTH = {"1d": 30, "1w": 4, "1mo": 1}
_DAY_MIN = 24 * 60


class MonthWindows(NamedTuple):
    """The number of windows in a month (4 weeks or 30 days), and the number in which each band has hours."""

    windows: int
    counts: Mapping[str, int]


def tariffs_of(config: Config, stream: Stream) -> tuple[Tariff, ...]:
    """Return the tariffs that price all bands of a stream; none if the stream has no bands."""
    names = {*band_names(stream)} - {UNKNOWN_BAND}
    return tuple(
        Tariff(
            tariff.name,
            {band: float(price) for band, price in tariff.prices.items()},
            float(tariff.fee),
            tariff.currency,
        )
        for tariff in config.tariff
        if names and names <= tariff.prices.keys()
    )


def band_names(stream: Stream) -> tuple[str, ...]:
    """Return the bands whose energies a stream releases; empty if it does not release energies of bands."""
    if not stream.window.band:
        return ()
    rules = band_rules(stream)
    return tuple(dict.fromkeys(name for weekday in EVERY_DAY for name in _bands_of_weekday(rules, weekday)))


def ordinary_month(stream: Stream) -> MonthWindows:
    """Return the numbers of windows in an ordinary month, for a stream of bands."""
    length = calendar_unit(stream) or "1mo"
    windows = _WINDOWS_OF_A_MONTH[length]
    if length != "1d":
        return MonthWindows(windows, dict.fromkeys(band_names(stream), windows))
    rules = band_rules(stream)
    return MonthWindows(
        windows, Counter(name for day in range(windows) for name in _bands_of_weekday(rules, day % 7))
    )


def _bands_of_weekday(rules: BandRules, weekday: int) -> Iterator[str]:
    """Yield the bands that have hours on a day of the week, and the band for energy of unknown time."""
    uncovered_min = _DAY_MIN
    for rule in rules.rules:
        if weekday in rule.weekdays:
            yield rule.name
            uncovered_min -= sum(to_min - from_min for from_min, to_min in rule.parts)
    if rules.remainder is not None and uncovered_min > 0:
        yield rules.remainder
    if rules.has_unknown:
        yield UNKNOWN_BAND
