"""Refusals for windows: calendars, slots that do not divide a window, ranges, thresholds and gap values."""

import zoneinfo

from meteragent.config.model import Stream
from meteragent.config.refuse.check import GRID, PROMISE, Problems, reads
from meteragent.config.shapes import band_rules
from meteragent.config.terms import length_ms, shapes, terms, unit
from meteragent.domain.errors import ConfigError
from meteragent.domain.figures import exact
from meteragent.domain.grid import CALENDAR_UNITS, format_duration
from meteragent.domain.refusal import nearest


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
        expected = f"a time zone such as 'Europe/Amsterdam' or 'UTC'{alternative}"
        return ConfigError(key, repr(name), expected, meant=nearest(name, [*zoneinfo.available_timezones()]))
    return None


@reads("window.step", "window.blocks", "window.bands")
def alternatives(stream: Stream) -> Problems:
    """Yield a refusal if more than one key defines the slots."""
    keys = [key for key in ("step", "blocks", "bands") if getattr(stream.window, key) is not None]
    if len(keys) > 1:
        expected = f"only one of window.{' and window.'.join(keys)}: each defines the slots"
        yield ConfigError(f"window.{keys[1]}", "a second definition", expected)


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


@reads("window.range", *GRID)
def threshold(stream: Stream) -> Problems:
    """Yield a refusal of a threshold that no reading or every reading exceeds."""
    threshold_w, (low, high) = stream.window.threshold, stream.window.range
    if threshold_w is not None and not low <= threshold_w < high:
        expected = f"a power within window.range = [{exact(low)}, {exact(high)}] W and below its upper end"
        yield ConfigError("window.threshold", exact(threshold_w), expected)


@reads("window.range", "window.gap", *PROMISE)
def gap(stream: Stream) -> Problems:
    """Yield a refusal of a gap value outside the range of readings."""
    low, high = stream.window.range
    readings = terms(stream).readings
    if not readings.holds(readings.gap_u):
        expected = f"a value inside window.range = [{exact(low)}, {exact(high)}] W"
        yield ConfigError("window.gap", exact(stream.window.gap), expected)
