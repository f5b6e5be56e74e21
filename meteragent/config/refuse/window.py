"""Refusals for windows: calendars, bands, slots that do not divide a window, ranges and gap values."""

import difflib
import zoneinfo
from itertools import pairwise

from meteragent.config.model import Stream
from meteragent.config.refuse.check import GRID, PROMISE, Problems, reads
from meteragent.config.source import interval_ms
from meteragent.config.terms import band_rules, hours, length_ms, shapes, space, terms, unit
from meteragent.domain.errors import ConfigError
from meteragent.domain.figures import exact
from meteragent.domain.grid import CALENDAR_UNITS, WEEKDAYS, Hours, format_duration
from meteragent.domain.shape import UNKNOWN_BAND, Space
from meteragent.domain.units import HOUR_MS, Kind

BANDS_MAX = 96
"""The largest number of bands; more would take seconds to check, and even longer when a window opens."""


@reads("window.timezone", "window.length", "privacy.preset")
def zone(stream: Stream) -> Problems:
    """Yield a refusal of a time zone that is missing, unknown, or set without a calendar window."""
    name, key = stream.window.timezone, "window.timezone"
    if name is None:
        if unit(stream) is not None:
            expected = (
                f"a time zone, such as 'Europe/Amsterdam' or 'UTC', which windows of {unit(stream)!r} need"
            )
            yield ConfigError(key, "nothing", expected)
        return
    if (refusal := unknown_zone(key, name)) is not None:
        yield refusal
        return
    if unit(stream) is None:
        expected = (
            f"one of {', '.join(map(repr, CALENDAR_UNITS))}: with a time zone, windows follow the calendar"
        )
        yield ConfigError("window.length", repr(format_duration(length_ms(stream))), expected)


def unknown_zone(key: str, name: str, alternative: str = "") -> ConfigError | None:
    """Return the refusal of a time zone; None if the zone exists. `alternative` names other valid values."""
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        matches = difflib.get_close_matches(name, zoneinfo.available_timezones(), n=1)
        expected = f"a time zone such as 'Europe/Amsterdam' or 'UTC'{alternative}"
        return ConfigError(key, repr(name), expected, meant=repr(matches[0]) if matches else None)
    return None


@reads("window.step", "window.blocks", "window.bands")
def alternatives(stream: Stream) -> Problems:
    """Yield a refusal if more than one key defines the slots."""
    keys = [key for key in ("step", "blocks", "bands") if getattr(stream.window, key) is not None]
    if len(keys) > 1:
        expected = f"only one of window.{' and window.'.join(keys)}: each defines the slots"
        yield ConfigError(f"window.{keys[1]}", "a second definition", expected)


@reads(*GRID)
def bands(stream: Stream) -> Problems:
    """Yield a refusal of slots that do not fit the space: only profiles have bands of the day.

    A profile needs local days, and at most BANDS_MAX bands, which must not overlap.
    """
    window, is_profile = stream.window, space(stream) is Space.PROFILE
    if window.bands is not None and not is_profile:
        yield ConfigError("window.bands", "hours of the day", "privacy.space = 'profile': a mean day")
    if not is_profile:
        return
    if window.step is not None:
        expected = "window.bands or window.blocks: a profile has hours of the day"
        yield ConfigError("window.step", repr(format_duration(window.step)), expected)
    elif unit(stream) is None:
        expected = "'1mo', '1w' or '1d' with window.timezone: bands are hours of local days"
        yield ConfigError("window.length", repr(format_duration(length_ms(stream))), expected)
    elif window.blocks is not None and 24 * 60 % window.blocks:
        expected = "a number that divides 1440, the number of minutes in a day"
        yield ConfigError("window.blocks", str(window.blocks), expected)
    elif len(hours(stream)) > BANDS_MAX:
        key = "blocks" if window.bands is None else "bands"
        expected = f"at most {BANDS_MAX}: a band lasts at least a quarter of an hour"
        yield ConfigError(f"window.{key}", str(len(hours(stream))), expected)
    else:
        yield from _overlap(hours(stream))


def _overlap(bands: tuple[Hours, ...]) -> Problems:
    """Yield a refusal of the first pair of overlapping bands."""
    parts = sorted((part, band.name) for band in bands for part in band.parts)
    for ((_, end), name), ((next_start, _), next_name) in pairwise(parts):
        if next_start < end:
            yield ConfigError("window.bands", f"{name} and {next_name}", "bands that do not overlap")
            return


@reads(*GRID, "source.kind", "source.interval", "source.profile", "source.value")
def energy_bands(stream: Stream) -> Problems:
    """Yield refusals of energy bands that do not cover each hour exactly once, or that readings cannot fill.

    Band keys in a space without bands are refused, too.
    """
    if space(stream) is not Space.BANDS:
        yield from _without_bands(stream)
        return
    window = stream.window
    for key in ("step", "blocks", "bands"):
        if getattr(window, key) is not None:
            yield ConfigError(
                f"window.{key}", "slots of another kind", "[[window.band]]: the bands are the slots"
            )
    if unit(stream) is None:
        expected = "'1mo', '1w' or '1d' with window.timezone: bands are hours of local days"
        yield ConfigError("window.length", repr(format_duration(length_ms(stream))), expected)
    if stream.source.kind is Kind.INTERVAL_ENERGY and interval_ms(stream.source) > HOUR_MS:
        interval = repr(format_duration(interval_ms(stream.source)))
        expected = "'1h' or less: the energy of a longer interval does not show in which band it was used"
        yield ConfigError("source.interval", interval, expected)
    if not window.band:
        expected = "[[window.band]] with name, days = 'mon-fri' and hours = ['07:00/23:00']"
        yield ConfigError("window.band", "nothing", expected)
    else:
        yield from _bands_that_fit(stream)


def _without_bands(stream: Stream) -> Problems:
    expected = "privacy.preset = 'tariff' or privacy.space = 'bands', which release the energies of bands"
    has_prices = space(stream) is Space.WEIGHTED
    for key in ("band", "rest") if has_prices else ("band", "rest", "holidays"):
        if getattr(stream.window, key):
            yield ConfigError(f"window.{key}", "bands of energy", expected)


def _bands_that_fit(stream: Stream) -> Problems:
    """Yield refusals of too many bands, repeated or reserved names, overlaps, and hours without a band."""
    rules, remainder_band = band_rules(stream).rules, stream.window.rest
    names = [rule.name for rule in rules] + ([] if remainder_band is None else [remainder_band])
    if len(names) > BANDS_MAX:
        yield ConfigError("window.band", str(len(names)), f"at most {BANDS_MAX} bands")
    for name in sorted({name for name in names if names.count(name) > 1}):
        expected = "a different name for each band; a band may have several hours"
        yield ConfigError("window.band", f"two bands named {name!r}", expected)
    if UNKNOWN_BAND in names:
        expected = "another name: this one is reserved for energy whose band is unknown"
        yield ConfigError("window.band", repr(UNKNOWN_BAND), expected)
    for day, weekday in enumerate(WEEKDAYS):
        parts = sorted((part, rule.name) for rule in rules if day in rule.weekdays for part in rule.parts)
        at_min = 0
        for (from_min, to_min), name in parts:
            if from_min < at_min:
                yield ConfigError(
                    "window.band",
                    f"{name!r} on {weekday}, from {_clock(from_min)}",
                    "bands that do not overlap",
                )
                return
            if from_min > at_min and remainder_band is None:
                yield _uncovered(weekday, at_min, from_min)
                return
            at_min = to_min
        if at_min < 24 * 60 and remainder_band is None:
            yield _uncovered(weekday, at_min, 24 * 60)
            return


def _uncovered(weekday: str, from_min: int, to_min: int) -> ConfigError:
    hours = f"no band on {weekday} from {_clock(from_min)} to {_clock(to_min)}"
    return ConfigError(
        "window.band",
        hours,
        "a band for every hour of the week, or window.rest = 'night' for the remaining hours",
    )


def _clock(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"


@reads(*GRID)
def slots(stream: Stream) -> Problems:
    """Yield a refusal if the number or length of slots does not divide every window."""
    blocks, step = stream.window.blocks, stream.window.step
    for window in shapes(stream) if not band_rules(stream).rules else ():
        length = window.length_ms
        if blocks is not None and length % blocks:
            expected = f"a number that divides every window, including windows of {format_duration(length)!r}"
            yield ConfigError("window.blocks", str(blocks), expected)
            return
        if step is not None and length % step:
            yield _step(length, step)
            return


def _step(length: int, step: int) -> ConfigError:
    """Return the refusal of a step that does not divide the window, with the nearest steps that do."""
    counts = [count for count in (length // step, length // step + 1) if count]
    divisors = [format_duration(length // count) for count in counts if length % count == 0]
    example = " or ".join(map(repr, divisors)) or "a divisor"
    expected = f"a step that divides window.length = {format_duration(length)!r}, such as {example}"
    return ConfigError("window.step", repr(format_duration(step)), expected)


@reads("window.range")
def limits(stream: Stream) -> Problems:
    """Yield a refusal of a range whose lowest value is not below its highest."""
    low, high = stream.window.range
    if low >= high:
        yield ConfigError(
            "window.range", f"[{exact(low)}, {exact(high)}]", "[lowest, highest] in W, the lowest first"
        )


@reads("window.range", "window.gap", *PROMISE)
def gap(stream: Stream) -> Problems:
    """Yield a refusal of a gap value outside the range of readings."""
    low, high = stream.window.range
    usual = terms(stream)
    if not usual.low_u <= usual.gap_u <= usual.high_u:
        expected = f"a value inside window.range = [{exact(low)}, {exact(high)}] W"
        yield ConfigError("window.gap", exact(stream.window.gap), expected)
