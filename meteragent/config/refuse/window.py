"""Refusals for windows: calendars, the keys of each kind of window, slots, bands, prices, ranges and gaps."""

import zoneinfo
from itertools import chain, pairwise

from meteragent.config.model import Stream
from meteragent.config.refuse.check import GRID_KEYS, PROMISE_KEYS, Refusals, check_of
from meteragent.config.shapes import OWN_KEYS, ROWS, band_rules, range_text, row_of, shape_class, space
from meteragent.config.source import interval_ms
from meteragent.config.terms import calendar_unit, distinct_terms, length_ms, metric, terms
from meteragent.config.value import SPACES
from meteragent.domain.errors import ConfigError
from meteragent.domain.figures import exact_text
from meteragent.domain.grid import CALENDAR_UNITS, WEEKDAYS, format_duration
from meteragent.domain.presets import PRESETS
from meteragent.domain.refusal import similar
from meteragent.domain.shapes import SHAPES, UNKNOWN_BAND, Space
from meteragent.domain.terms import Clock
from meteragent.domain.units import HOUR_MS, MICRO, Kind

HOURS_MAX = 96
"""The largest number of bands or prices; more would take seconds to check and delay every opening."""
_DAY_MIN = 24 * 60


@check_of("window.timezone", "window.length", "privacy.preset")
def zone_refusals(stream: Stream) -> Refusals:
    """Yield a refusal of a time zone that is missing, unknown, or set without a calendar window."""
    name, key = stream.window.timezone, "window.timezone"
    if name is None:
        if (unit := calendar_unit(stream)) is not None:
            expected = f"a time zone, such as 'Europe/Amsterdam' or 'UTC', which windows of {unit!r} need"
            yield ConfigError(key, "nothing", expected)
    elif (refusal := unknown_zone_refusal(key, name)) is not None:
        yield refusal
    elif calendar_unit(stream) is None:
        expected = (
            f"one of {', '.join(map(repr, CALENDAR_UNITS))}: with a time zone, windows follow the calendar"
        )
        origin = " (the preset's)" if stream.window.length is None else ""
        yield ConfigError("window.length", repr(format_duration(length_ms(stream))) + origin, expected)


def unknown_zone_refusal(key: str, name: str, alternative: str = "") -> ConfigError | None:
    """Return the refusal of a time zone; None if the zone exists. `alternative` names other valid values."""
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        expected = f"a time zone such as 'Europe/Amsterdam' or 'UTC'{alternative}"
        return ConfigError(key, repr(name), expected, meant=similar(name, [*zoneinfo.available_timezones()]))
    return None


@check_of("window.step", "window.blocks", "window.bands")
def _alternative_refusals(stream: Stream) -> Refusals:
    """Yield a refusal if more than one key defines the slots."""
    keys = [key for key in ("step", "blocks", "bands") if getattr(stream.window, key) is not None]
    if len(keys) > 1:
        expected = f"only one of window.{' and window.'.join(keys)}: each defines the slots"
        yield ConfigError(f"window.{keys[1]}", "a second definition", expected)


# Kinds of windows ---------------------------------------------------------------------------------


@check_of(*GRID_KEYS)
def _key_refusals(stream: Stream) -> Refusals:
    """Yield refusals of keys of `[window]` that are missing, or that the window's kind or slots exclude."""
    row, window = row_of(stream), stream.window
    for key in OWN_KEYS:
        if key not in row.own_keys and getattr(window, key):
            yield _misplaced_key_refusal(stream, key)
    for key, example in row.own_keys.items():
        if example is not None and not getattr(window, key):
            yield ConfigError(f"window.{key}", "nothing", example)
    for key, expected in row.excludes.items():
        if getattr(window, key) is not None:
            yield ConfigError(f"window.{key}", "slots of another kind", expected)


def _misplaced_key_refusal(stream: Stream, key: str) -> ConfigError:
    """Return the refusal of a key of other kinds of windows, with the settings that choose these kinds."""
    kinds = [kind for kind, row in ROWS.items() if key in row.own_keys]
    for kind in kinds:
        if ROWS[kind].implied_by == key:
            expected = f"'{kind}', which window.{key} implies"
            return ConfigError("privacy.space", repr(str(space(stream))), expected)
    names = [f"privacy.preset = '{name}'" for name, preset in PRESETS.items() if preset.space in kinds]
    names += [f"privacy.space = '{kind}'" for kind in kinds]
    return ConfigError(f"window.{key}", "a value", f"{' or '.join(names)}, or no {key}")


@check_of("privacy.metric", "source.kind", "sink.total", *GRID_KEYS)
def _number_refusals(stream: Stream) -> Refusals:
    """Yield refusals of a metric, readings or a running total that the window's values do not support."""
    shape, distance = shape_class(stream), metric(stream)
    if distance not in shape.metrics:
        spaces = [f"'{name}'" for name in SPACES if distance in SHAPES[Space(name)].metrics]
        expected = (
            f"'{shape.metrics[0]}', the default, or privacy.space = {' or '.join(spaces)}: other spaces do"
            f" not support '{distance}'"
        )
        yield ConfigError("privacy.metric", f"'{distance}'", expected)
    if stream.source.kind not in shape.kinds:
        kinds = " or ".join(f"'{kind}'" for kind in sorted(shape.kinds))
        expected = f"{kinds}: {row_of(stream).readings}"
        yield ConfigError("source.kind", f"'{stream.source.kind}'", expected)
    if stream.sink.total and not shape.is_additive:
        expected = "false: only energies and means have a running total, which is the sum of all energy"
        yield ConfigError("sink.total", "true", expected)


@check_of(*PROMISE_KEYS, "source.every", "window.range")
def further_refusals(stream: Stream) -> Refusals:
    """Yield the further refusals of the window's kind."""
    yield from row_of(stream).refusals(stream, terms(stream))


# Hours --------------------------------------------------------------------------------------------


@check_of(*GRID_KEYS)
def _name_refusals(stream: Stream) -> Refusals:
    """Yield refusals of repeated or reserved names of bands."""
    names = [band.name for band in stream.window.band]
    names += [] if stream.window.rest is None else [stream.window.rest]
    for name in sorted({name for name in names if names.count(name) > 1}):
        expected = "a different name for each band; a band may have several hours"
        yield ConfigError("window.band", f"two bands named {name!r}", expected)
    if UNKNOWN_BAND in names:
        expected = "another name: this one is reserved for energy whose band is unknown"
        yield ConfigError("window.band", repr(UNKNOWN_BAND), expected)


@check_of(*GRID_KEYS, "source.kind")
def _hour_refusals(stream: Stream) -> Refusals:
    """Yield refusals of hours that are too many or overlap, and of hours without local days."""
    row, blocks = row_of(stream), stream.window.blocks
    if row.rules is None:
        return
    if blocks is not None and _DAY_MIN % blocks:
        expected = f"a number that divides {_DAY_MIN}, the number of minutes in a day"
        yield ConfigError("window.blocks", str(blocks), expected)
        return
    rules, key = band_rules(stream).rules, "window.blocks" if blocks is not None else f"window.{row.hours}"
    if rules and calendar_unit(stream) is None:
        expected = "'1mo', '1w' or '1d' with window.timezone: hours are those of local days"
        yield ConfigError("window.length", "a window without local days", expected)
    if len(rules) > HOURS_MAX:
        yield ConfigError(key, str(len(rules)), f"at most {HOURS_MAX}")
    for day, weekday in enumerate(WEEKDAYS):
        parts = sorted((part, rule.name) for rule in rules if day in rule.weekdays for part in rule.parts)
        for ((_, to_min), name), ((from_min, _), next_name) in pairwise(parts):
            if from_min < to_min:
                problem = f"{name} and {next_name} on {weekday} from {_clock_text(from_min)}"
                yield ConfigError(key, problem, "hours that do not overlap")
                return


@check_of(*GRID_KEYS, "source.kind")
def _cover_refusals(stream: Stream) -> Refusals:
    """Yield a refusal of the first hours without a band."""
    window = stream.window
    for day, weekday in enumerate(WEEKDAYS) if window.band and window.rest is None else ():
        parts = [part for rule in band_rules(stream).rules if day in rule.weekdays for part in rule.parts]
        ends = [0, *chain.from_iterable(sorted(parts)), _DAY_MIN]
        for from_min, to_min in zip(ends[::2], ends[1::2], strict=True):
            if from_min < to_min:
                problem = f"no band on {weekday} from {_clock_text(from_min)} to {_clock_text(to_min)}"
                expected = (
                    "a band for every hour of the week, or window.rest = 'night' for the remaining hours"
                )
                yield ConfigError("window.band", problem, expected)
                return


def _clock_text(minute: int) -> str:
    """Return a minute of the day as a time."""
    return f"{minute // 60:02}:{minute % 60:02}"


@check_of("window.band", "source.kind", "source.interval", "source.profile", "source.value")
def _interval_refusals(stream: Stream) -> Refusals:
    """Yield a refusal of energies whose intervals are too long for bands."""
    interval = interval_ms(stream.source)
    if stream.window.band and stream.source.kind is Kind.INTERVAL_ENERGY and interval > HOUR_MS:
        expected = "'1h' or less: the energy of a longer interval does not show in which band it was used"
        yield ConfigError("source.interval", repr(format_duration(interval)), expected)


# Slots and prices ---------------------------------------------------------------------------------


@check_of(*GRID_KEYS)
def _slot_refusals(stream: Stream) -> Refusals:
    """Yield a refusal if the number or length of slots does not divide every window."""
    blocks, step = stream.window.blocks, stream.window.step
    for window in distinct_terms(stream) if not band_rules(stream).rules else ():
        length = window.length_ms
        if blocks is not None and length % blocks:
            expected = f"a number that divides every window, including windows of {format_duration(length)!r}"
            yield ConfigError("window.blocks", str(blocks), expected)
            return
        if step is not None and length % step:
            yield _step_refusal(length, step)
            return


def _step_refusal(length: int, step: int) -> ConfigError:
    """Return the refusal of a step that does not divide the window, with the nearest steps that do."""
    counts = [count for count in (length // step, length // step + 1) if count]
    divisors = [format_duration(length // count) for count in counts if length % count == 0]
    example = " or ".join(map(repr, divisors)) or "a divisor"
    expected = f"a step that divides window.length = {format_duration(length)!r}, such as {example}"
    return ConfigError("window.step", repr(format_duration(step)), expected)


@check_of(*GRID_KEYS, "window.clock")
def _weight_refusals(stream: Stream) -> Refusals:
    """Yield refusals of a table without prices, of an unsuitable topic, and of prices beyond the bound."""
    table = stream.window.weights
    if table is None:
        return
    if table.topic is None and not table.price:
        expected = "[[window.weights.price]] with hours = ['07:00/23:00'] and price = 0.3"
        yield ConfigError("window.weights.price", "nothing", expected)
    if table.topic is not None and table.price:
        expected = "only one of window.weights.topic and window.weights.price"
        yield ConfigError("window.weights.topic", repr(table.topic), expected)
    if table.topic is not None and stream.window.clock is not Clock.WALL:
        expected = "'wall': a price counts only if it arrives before its time"
        yield ConfigError("window.clock", repr(str(stream.window.clock)), expected)
    hourly = [("price", row.price) for row in table.price]
    for key, price in [("bound", table.bound), ("default", table.default), *hourly]:
        if (price * MICRO).denominator != 1:
            expected = "a number with at most six decimals"
            yield ConfigError(f"window.weights.{key}", exact_text(price), expected)
        elif abs(price) > table.bound:
            expected = f"between plus and minus window.weights.bound = {exact_text(table.bound)}"
            yield ConfigError(f"window.weights.{key}", exact_text(price), expected)


# Values -------------------------------------------------------------------------------------------


@check_of("window.range")
def _limit_refusals(stream: Stream) -> Refusals:
    """Yield a refusal of a range whose lowest value is not below its highest."""
    low, high = stream.window.range
    if low >= high:
        yield ConfigError("window.range", range_text(stream), "[lowest, highest] in W, the lowest first")


@check_of("window.range", *GRID_KEYS)
def _own_values(stream: Stream) -> Refusals:
    """Yield refusals of values of keys that only the window's kind has."""
    yield from row_of(stream).own_refusals(stream)


@check_of("window.range", "window.gap", *PROMISE_KEYS)
def _gap_refusals(stream: Stream) -> Refusals:
    """Yield a refusal of a gap value outside the range of readings."""
    readings = terms(stream).readings
    if not readings.low_u <= readings.gap_u <= readings.high_u:
        expected = f"a value inside window.range = {range_text(stream)} W"
        yield ConfigError("window.gap", exact_text(stream.window.gap), expected)


CHECKS = (
    *(zone_refusals, _alternative_refusals, _key_refusals, _number_refusals, _name_refusals),
    *(_hour_refusals, _cover_refusals, _interval_refusals, _slot_refusals, _weight_refusals),
    *(_limit_refusals, _own_values, _gap_refusals),
)
"""The checks in their order, without `further_refusals`, which must follow the checks of the noise."""
