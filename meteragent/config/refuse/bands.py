"""Refusals of a tariff's bands that do not cover each hour once, and of readings that cannot fill them."""

from itertools import chain

from meteragent.config.model import Stream
from meteragent.config.refuse.check import GRID, Problems, reads
from meteragent.config.refuse.shape import DAY_MIN, clock_text
from meteragent.config.shapes import band_rules
from meteragent.config.source import interval_ms
from meteragent.domain.errors import ConfigError
from meteragent.domain.grid import WEEKDAYS, format_duration
from meteragent.domain.shapes import UNKNOWN_BAND
from meteragent.domain.units import HOUR_MS, Kind


@reads("window.band", "source.kind", "source.interval", "source.profile", "source.value")
def interval(stream: Stream) -> Problems:
    """Yield a refusal of energies whose intervals are too long for bands."""
    interval = interval_ms(stream.source)
    if stream.window.band and stream.source.kind is Kind.INTERVAL_ENERGY and interval > HOUR_MS:
        expected = "'1h' or less: the energy of a longer interval does not show in which band it was used"
        yield ConfigError("source.interval", repr(format_duration(interval)), expected)


@reads(*GRID)
def names(stream: Stream) -> Problems:
    """Yield refusals of repeated or reserved names."""
    remainder_band = stream.window.rest
    names = [band.name for band in stream.window.band] + ([] if remainder_band is None else [remainder_band])
    for name in sorted({name for name in names if names.count(name) > 1}):
        expected = "a different name for each band; a band may have several hours"
        yield ConfigError("window.band", f"two bands named {name!r}", expected)
    if UNKNOWN_BAND in names:
        expected = "another name: this one is reserved for energy whose band is unknown"
        yield ConfigError("window.band", repr(UNKNOWN_BAND), expected)


@reads(*GRID, "source.kind")
def cover(stream: Stream) -> Problems:
    """Yield a refusal of the first hours without a band."""
    window = stream.window
    for day, weekday in enumerate(WEEKDAYS) if window.band and window.rest is None else ():
        parts = [part for rule in band_rules(stream).rules if day in rule.weekdays for part in rule.parts]
        ends = [0, *chain.from_iterable(sorted(parts)), DAY_MIN]
        for from_min, to_min in zip(ends[::2], ends[1::2], strict=True):
            if from_min < to_min:
                problem = f"no band on {weekday} from {clock_text(from_min)} to {clock_text(to_min)}"
                expected = (
                    "a band for every hour of the week, or window.rest = 'night' for the remaining hours"
                )
                yield ConfigError("window.band", problem, expected)
                return
