"""What a configuration says about each kind of window, in one row for each kind."""

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import NamedTuple

from meteragent.config.model import Stream, Window
from meteragent.domain import shapes
from meteragent.domain.errors import ConfigError
from meteragent.domain.figures import energy_figures, exact_text, three_figures
from meteragent.domain.grid import Band, BandRule, Hours, format_duration
from meteragent.domain.presets import PRESETS, Preset
from meteragent.domain.prices import Price, join_equal_prices
from meteragent.domain.schedule import BandRules
from meteragent.domain.terms import Terms
from meteragent.domain.units import DAY_MS, HOUR_MS, MICRO, MINUTE_MS, UNIT_FACTOR, Kind
from meteragent.privacy.exact import round_half_up

_PART_MS = 15 * MINUTE_MS
"""The usual length of parts: the quarter hour of tariffs and markets."""
Build = Callable[[Stream, int, tuple[Band, ...]], shapes.Shape]
"""A function that builds the shape of a window, given its length and the places of bands or price hours."""


class ShapeRow(NamedTuple):
    """What a configuration says about one kind of window. Keys are those of `[window]`.

    build         builds the shape
    rules         returns the rules for the places of bands or price hours; None if there are none
    hours         the key with the hours of these rules
    implied_by    the key that implies the kind, if `privacy.space` is not set
    own_keys      the keys that only rows listing them accept, each with what to write if it is required,
                  or else with None
    excludes      keys of slots that are refused, each with what to write instead
    readings      why the kind takes only some kinds of readings
    is_archived   whether archives support the kind
    own_refusals  yields refusals of the values of its own keys
    refusals      yields further refusals, given the terms of an ordinary window
    """

    build: Build
    rules: Callable[[Stream], BandRules] | None = None
    hours: str = "bands"
    implied_by: str | None = None
    own_keys: Mapping[str, str | None] = {}
    excludes: Mapping[str, str] = {}
    readings: str = ""
    is_archived: bool = True
    own_refusals: Callable[[Stream], Iterator[ConfigError]] = lambda _: iter(())
    refusals: Callable[[Stream, Terms], Iterator[ConfigError]] = lambda _, _terms: iter(())


def to_millionths(value: Fraction) -> int:
    """Return a value in millionths, rounded half up."""
    return round_half_up(value * MICRO)


def preset(stream: Stream) -> Preset:
    """Return the stream's preset, which supplies all numbers that are not configured."""
    return PRESETS[stream.privacy.preset]


def space(stream: Stream) -> shapes.Space:
    """Return the kind of window, its space: as configured, as implied by another key, or the preset's."""
    if stream.privacy.space is not None:
        return stream.privacy.space
    keys = ((space, row.implied_by) for space, row in ROWS.items() if row.implied_by is not None)
    implied = (space for space, key in keys if getattr(stream.window, key) is not None)
    return next(implied, preset(stream).space)


def shape_class(stream: Stream) -> type[shapes.Shape]:
    """Return the class of the stream's windows."""
    return shapes.SHAPES[space(stream)]


def row_of(stream: Stream) -> ShapeRow:
    """Return the row of the stream's kind of window."""
    return ROWS[space(stream)]


def band_rules(stream: Stream) -> BandRules:
    """Return the rules for the places of a window's bands or price hours, if it has any."""
    rules = row_of(stream).rules
    return BandRules() if rules is None else rules(stream)


def keys_needed(preset: Preset) -> tuple[str, ...]:
    """Return the keys of `[window]` that a preset needs, with related keys; empty if it needs none."""
    keys = ROWS[preset.space].own_keys
    return tuple(keys) if any(keys.values()) else ()


def window_of(preset: Preset, window: Window) -> Window:
    """Return `[window]` without the keys that define slots, except for those that a preset needs."""
    names = {*SLOT_KEYS, *(() if preset.has_calendar else ["timezone"])}.difference(keys_needed(preset))
    return window.model_copy(update={name: Window.model_fields[name].default for name in names})


def stated_radius(stream: Stream, usual: Terms, where: str) -> tuple[str, str]:
    """Return the key that sets how much is hidden, and its value as text, followed by `where`."""
    if stream.privacy.radius is not None:
        return "privacy.radius", f"{three_figures(usual.radius)} {usual.value_unit} {where}"
    return "privacy.hide", f"{energy_figures(usual.hides_wh)} {where}"


def range_text(stream: Stream) -> str:
    """Return a stream's range as written in its configuration."""
    return f"[{', '.join(map(exact_text, stream.window.range))}]"


# Rows ---------------------------------------------------------------------------------------------


def _equal_builder(shape: type[shapes.Equal]) -> Build:
    """Return the builder of equal slots, as set by `step`, `blocks` or, without `length`, the preset."""

    def build(stream: Stream, window_ms: int, _bands: tuple[Band, ...]) -> shapes.Equal:
        """Build the shape."""
        usual = 1 if stream.window.length is not None else preset(stream).slots
        return shape(window_ms, stream.window.step or window_ms // (stream.window.blocks or usual))

    return build


def _banded_builder(kind: type[shapes.Banded]) -> Build:
    """Return the builder of a kind whose slots are bands."""
    return lambda _, window_ms, bands: kind(window_ms, tuple((band.name, band.duration_ms) for band in bands))


def _profile_rules(stream: Stream) -> BandRules:
    """Return the rules of a day's bands: as configured, or else equal blocks of the day."""
    bands = stream.window.bands
    if bands is None:
        minutes = 24 * 60 // (stream.window.blocks or preset(stream).blocks)
        bands = tuple(Hours(start, start + minutes) for start in range(0, 24 * 60, minutes))
    return BandRules(tuple(BandRule(band.name, (band,)) for band in bands))


def _energy_rules(stream: Stream) -> BandRules:
    """Return the rules of a tariff's bands; a register needs a band for energy of unknown time."""
    window, holidays = stream.window, frozenset(stream.window.holidays)
    rules = tuple(BandRule(band.name, band.hours, band.days, holidays) for band in window.band)
    return BandRules(rules, window.rest, stream.source.kind is Kind.REGISTER)


def _build_amount(stream: Stream, window_ms: int, _bands: tuple[Band, ...]) -> shapes.Shape:
    table = stream.window.weights
    if table is None:  # refused
        return shapes.Amount(window_ms, "EUR", MICRO, 0, shapes.PriceSource.TABLE)
    source = shapes.PriceSource.TABLE if table.topic is None else shapes.PriceSource.TOPIC
    return shapes.Amount(
        window_ms, table.unit, to_millionths(table.bound), to_millionths(table.default), source
    )


def _price_rules(stream: Stream) -> BandRules:
    """Return the rules of the price hours; each is named after its row in the price table."""
    table, holidays = stream.window.weights, frozenset(stream.window.holidays)
    rows = () if table is None else enumerate(table.price)
    return BandRules(tuple(BandRule(str(row), price.hours, price.days, holidays) for row, price in rows))


def prices(stream: Stream, bands: tuple[Band, ...]) -> tuple[Price, ...]:
    """Return the prices of a window whose price hours are `bands`; none without a table of prices."""
    table = stream.window.weights
    if table is None or not shape_class(stream).is_priced:
        return ()
    rows = (
        (from_ms, to_ms, to_millionths(table.price[int(band.name)].price))
        for band in bands
        for from_ms, to_ms in band.stretches
    )
    return join_equal_prices(sorted(rows))


def _build_excess(stream: Stream, window_ms: int, _bands: tuple[Band, ...]) -> shapes.Shape:
    """Return the shape with the threshold rounded to millionths of the readings' unit."""
    threshold_w, factor = stream.window.threshold or Fraction(0), UNIT_FACTOR[stream.source.unit]
    return shapes.Excess(window_ms, Fraction(to_millionths(threshold_w / factor), MICRO) * factor)


def _threshold_refusals(stream: Stream) -> Iterator[ConfigError]:
    """Yield a refusal of a threshold that no reading or every reading exceeds."""
    threshold_w, (low, high) = stream.window.threshold, stream.window.range
    if threshold_w is not None and not low <= threshold_w < high:
        expected = f"a power within window.range = {range_text(stream)} W and below its upper end"
        yield ConfigError("window.threshold", exact_text(threshold_w), expected)


def _build_share(stream: Stream, window_ms: int, _bands: tuple[Band, ...]) -> shapes.Shape:
    group = stream.group
    assert group is not None, "only a stream with a group has shares"
    return shapes.Share(window_ms, group.id.hex(), 1000 * group.deadline_s)


def _peak_refusals(stream: Stream, usual: Terms) -> Iterator[ConfigError]:
    """Yield refusals of unfit windows, parts and readings, or else, if all fit, of a useless peak."""
    problems = list(_peak_window_refusals(usual))
    if not HOUR_MS % usual.step_ms:
        problems += _peak_reading_refusals(usual)
    yield from problems or _peak_usefulness_refusals(stream, usual)


def _peak_window_refusals(usual: Terms) -> Iterator[ConfigError]:
    """Yield refusals of short windows, and of parts that do not divide an hour."""
    if usual.timezone is None and usual.length_ms < DAY_MS:
        expected = "'1mo', '1w' or '1d' with window.timezone: a largest mean needs many parts"
        yield ConfigError("window.length", repr(format_duration(usual.length_ms)), expected)
    if HOUR_MS % usual.step_ms:
        expected = "a divisor of an hour, such as '15min', '30min' or '1h'"
        yield ConfigError("window.step", repr(format_duration(usual.step_ms)), expected)


def _peak_reading_refusals(usual: Terms) -> Iterator[ConfigError]:
    """Yield refusals of readings, or of a quantum, that do not fit the parts."""
    readings, step_ms = usual.readings, usual.step_ms
    step = format_duration(step_ms)
    if readings.kind is Kind.INTERVAL_ENERGY and step_ms % readings.interval_ms:
        expected = f"a divisor of window.step = {step!r}: longer intervals hide the peak"
        yield ConfigError("source.interval", repr(format_duration(readings.interval_ms)), expected)
    elif readings.kind is not Kind.POWER and usual.quantum_u * readings.interval_ms * step_ms % HOUR_MS:
        expected = "a coarser quantum, such as 1 W, whose energy over one part is a whole number"
        yield ConfigError("privacy.quantum", three_figures(usual.quantum), expected)
    if readings.kind is not Kind.INTERVAL_ENERGY and (readings.every_ms or 0) > step_ms:
        expected = f"{step!r} or less: each part of {step} needs a reading"
        yield ConfigError("source.every", repr(format_duration(readings.every_ms or 0)), expected)


def _peak_usefulness_refusals(stream: Stream, usual: Terms) -> Iterator[ConfigError]:
    """Yield a refusal if the 95% interval of the peak would be wider than the range of the readings."""
    half_w = Fraction(usual.half_width(0.95)) * UNIT_FACTOR[usual.value_unit]
    width_w = usual.readings.width_w
    if 2 * half_w > width_w:
        expected = (
            f"less: the peak would be within ± {three_figures(half_w)} W, and window.range is"
            f" {three_figures(width_w)} W wide"
        )
        yield ConfigError(*stated_radius(stream, usual, "in each part"), expected)


_SLOTS = ("step", "blocks")
_ONE_NUMBER = dict.fromkeys(_SLOTS, "only window.length: a window has one number")

ROWS: dict[shapes.Space, ShapeRow] = {
    shapes.Space.LINF: ShapeRow(_equal_builder(shapes.Means)),
    shapes.Space.CURVE: ShapeRow(_equal_builder(shapes.Curve)),
    shapes.Space.PROFILE: ShapeRow(
        _banded_builder(shapes.Profile),
        _profile_rules,
        own_keys={"bands": None},
        excludes={"step": "window.bands or window.blocks: a profile has hours of the day"},
    ),
    shapes.Space.BANDS: ShapeRow(
        _banded_builder(shapes.Bands),
        _energy_rules,
        hours="band",
        own_keys={
            "band": "[[window.band]] with name, days = 'mon-fri' and hours = ['07:00/23:00']",
            "rest": None,
            "holidays": None,
        },
        excludes=dict.fromkeys(_SLOTS, "[[window.band]]: the bands are the slots"),
    ),
    shapes.Space.WEIGHTED: ShapeRow(
        _build_amount,
        _price_rules,
        hours="weights.price",
        implied_by="weights",
        own_keys={
            "weights": "[window.weights] with bound = 0.5 and [[window.weights.price]]",
            "holidays": None,
        },
        excludes=_ONE_NUMBER,
    ),
    shapes.Space.PEAK: ShapeRow(
        lambda stream, window_ms, _bands: shapes.Peak(window_ms, stream.window.step or _PART_MS),
        excludes={"blocks": "window.step = '15min' instead: a peak is the largest mean of equal parts"},
        is_archived=False,
        refusals=_peak_refusals,
    ),
    shapes.Space.ABOVE: ShapeRow(
        _build_excess,
        implied_by="threshold",
        own_keys={"threshold": "a power in W, such as 3000"},
        excludes=_ONE_NUMBER,
        readings="an energy gives only the mean power between two readings, and the rounding steps of its"
        " readings would add up",
        is_archived=False,
        own_refusals=_threshold_refusals,
    ),
    shapes.Space.SHARE: ShapeRow(_build_share),
}

OWN_KEYS = tuple(dict.fromkeys(key for row in ROWS.values() for key in row.own_keys))
"""The keys of `[window]` that only some kinds of windows have."""

SLOT_KEYS = ("length", *_SLOTS, *OWN_KEYS)
"""The keys of `[window]` that define windows and slots, apart from the time zone."""

FULL_PRESETS = {
    name: preset for name, preset in PRESETS.items() if not keys_needed(preset) and preset.slots == 1
}
"""The presets for homes that need no further key, except perhaps a time zone."""
