"""A stream's terms and schedule, from its configuration and its preset."""

from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

from meteragent.config.model import Config, Stream
from meteragent.config.shapes import band_rules, preset, prices, row_of, shape_class, to_millionths, window_of
from meteragent.config.source import counter_count, dead_band, hold_ms, interval_ms, lateness_ms, period_ms
from meteragent.domain.grid import Band, BandRule, Calendar, EpochGrid, Grid, Hours, parse_time
from meteragent.domain.metric import Metric
from meteragent.domain.presets import units_per_watt
from meteragent.domain.readings import ReadingRules
from meteragent.domain.schedule import Schedule
from meteragent.domain.shapes import Shape
from meteragent.domain.terms import Rounding, Terms
from meteragent.domain.units import DAY_MS, HOUR_MS, MICRO, Kind

_USUAL_DAYS = {"1d": 1, "1w": 7, "1mo": 30}
"""The number of 24-hour days in an ordinary calendar window, for which figures are stated."""

LIVE_ROUNDING: Rounding = "dithered"
"""The agent's rounding. Archives round half up: they store no accumulators that a copy could reveal."""

_WHOLE_DAY = BandRule("day", (Hours(0, 24 * 60),))
_USUAL_MS = parse_time("1974-04-01T00:00:00Z")
"""A Monday that starts a month of 30 days, before all holidays in configurations."""
SHAPES_FROM_MS, SHAPES_END_MS = map(parse_time, ("2025-01-01T00:00:00Z", "2035-01-01T00:00:00Z"))
"""The start and end, in Unix ms, of the ten years whose calendar windows are checked."""


def metric(stream: Stream) -> Metric:
    """Return the metric of the promise: as configured, or else the usual one of the space."""
    return stream.privacy.metric or shape_class(stream).metrics[0]


def calendar_unit(stream: Stream) -> str | None:
    """Return the calendar unit of the windows; None on the epoch grid."""
    configured_length = stream.window.length
    length = preset(stream).length if configured_length is None else configured_length
    if length == "1d" and configured_length is not None and stream.window.timezone is None:
        return None  # without a time zone, '1d' is 24 hours
    return length if isinstance(length, str) else None


def grid(stream: Stream) -> Grid:
    """Return the grid on which windows start and end."""
    calendar = calendar_unit(stream)
    if calendar is None:
        return EpochGrid(length_ms(stream))
    return Calendar(stream.window.timezone or "UTC", calendar)


def length_ms(stream: Stream) -> int:
    """Return the length of an ordinary window: as configured, or else the preset's."""
    return usual_length_ms(stream.window.length or preset(stream).length)


def usual_length_ms(length: int | str) -> int:
    """Return the length of an ordinary window, in ms, from its length in ms or from its calendar unit."""
    return _USUAL_DAYS[length] * DAY_MS if isinstance(length, str) else length


@lru_cache(maxsize=64)
def _usual_bands(stream: Stream) -> tuple[Band, ...]:
    """Return the bands or price hours of an ordinary window, which begins on a Monday and has no holidays."""
    rules = band_rules(stream)
    return rules.bands(Calendar("UTC", calendar_unit(stream) or "1mo"), _USUAL_MS) if rules.rules else ()


def usual_shape(stream: Stream) -> Shape:
    """Return the shape of an ordinary window."""
    return row_of(stream).build(stream, length_ms(stream), _usual_bands(stream))


@lru_cache(maxsize=64)
def quantum(stream: Stream) -> Fraction:
    """Return the lattice step of slot values, in their unit: as configured, or else the preset's.

    All windows of a stream share one lattice, computed for the shortest slot of an ordinary window. If the
    preset's quantum over that slot is not a whole number of millionths (1 W over 5 minutes is 1/12 Wh), the
    lattice step is the next smaller number of the series 1, 2, 5, 10, ... (0.05 Wh). A finer lattice does not
    weaken the promise, because the loss is counted in whole quanta, rounded up (THEORY A.1.2).
    """
    if stream.privacy.quantum:
        return stream.privacy.quantum
    shape, source = usual_shape(stream), stream.source
    # The preset's quantum is in W or, if energies are released for all kinds of readings, in Wh.
    in_wh = shape.is_energy(Kind.POWER)
    factor = 1 if in_wh else Fraction(shape.step_ms, HOUR_MS) / shape.hours_per_value(source.kind)
    usual = preset(stream).quantum * factor / shape.wh_per_value(source.unit, source.kind)
    return usual if (usual * MICRO).denominator == 1 else finer_step(usual)


def finer_step(quantum: Fraction) -> Fraction:
    """Return the largest step below a quantum in the series 1, 2, 5, 10, ... millionths (at least 1)."""
    steps_u, power_u = [1], 1
    while power_u < quantum * MICRO:
        steps_u += [2 * power_u, 5 * power_u, 10 * power_u]
        power_u *= 10
    return Fraction(max(step_u for step_u in steps_u if step_u == 1 or step_u < quantum * MICRO), MICRO)


def radius(stream: Stream, shape: Shape) -> Fraction:
    """Return the radius in the unit of slot values: as configured, or else derived from `hide` (DESIGN 2).

    The derived radius is the value of `hide` in the shortest slot, rounded up to the lattice: for a mean,
    `hide` divided by the slot's hours; for an amount, `hide` times the largest price.
    """
    privacy, source = stream.privacy, stream.source
    if privacy.radius is not None:
        return privacy.radius
    hide_wh = privacy.hide or preset(stream).hide_wh
    value = hide_wh / shape.wh_per_value(source.unit, source.kind) / shape.hours_per_value(source.kind)
    return -(-value // quantum(stream)) * quantum(stream)


def level(stream: Stream) -> Fraction:
    """Return the configured level, or else the preset's."""
    return stream.privacy.level or preset(stream).level


def other_charges_per_day(config: Config, stream: Stream) -> Fraction:
    """Return the daily charge of a meter's other streams, as epsilon in 1/W, if anyone receives them."""
    siblings = (sibling for sibling in config.stream if sibling is not stream and sibling.is_received)
    return sum((terms(sibling).epsilon_per_w_day for sibling in siblings), Fraction(0))


def schedule(
    stream: Stream, other_charges: Fraction = Fraction(0), rounding: Rounding = LIVE_ROUNDING
) -> Schedule:
    """Return the stream's schedule, with `other_charges` as `others_per_day` of its terms."""
    usual = terms(stream, other_charges, rounding)
    if calendar_unit(stream) is None:
        return Schedule(usual, grid(stream))

    def terms_of(window_ms: int, bands: tuple[Band, ...]) -> Terms:
        """Return the terms of a calendar window."""
        return replace(_terms(stream, window_ms, bands, rounding), others_per_day=other_charges)

    return Schedule(usual, grid(stream), band_rules(stream), terms_of)


@lru_cache(maxsize=64)
def terms(stream: Stream, other_charges: Fraction = Fraction(0), rounding: Rounding = LIVE_ROUNDING) -> Terms:
    """Return the terms of an ordinary window, with `other_charges` as `others_per_day`."""
    usual = _terms(stream, length_ms(stream), _usual_bands(stream), rounding)
    return replace(usual, others_per_day=other_charges)


def _terms(stream: Stream, window_ms: int, bands: tuple[Band, ...], rounding: Rounding) -> Terms:
    shape = row_of(stream).build(stream, window_ms, bands)
    return Terms(
        shape=shape,
        readings=_readings(stream),
        clock=stream.window.clock,
        lateness_ms=lateness_ms(stream.source, stream.window),
        level=level(stream),
        radius=radius(stream, shape),
        metric=metric(stream),
        quantum_u=int(quantum(stream) * MICRO),
        rounding=rounding,
        timezone=stream.window.timezone if calendar_unit(stream) else None,
        preset=_preset_name(stream),
        others_per_day=Fraction(0),
        places=bands if shape.names else (),
        prices=prices(stream, bands),
    )


@lru_cache(maxsize=64)
def _readings(stream: Stream) -> ReadingRules:
    source, window = stream.source, stream.window
    per_w = units_per_watt(source.kind, source.unit, interval_ms(source))
    return ReadingRules(
        kind=source.kind,
        unit=source.unit,
        interval_ms=interval_ms(source),
        hold_ms=hold_ms(source) if source.kind is Kind.POWER else 0,
        gap_u=to_millionths(window.gap),
        low_u=to_millionths(window.range[0] * per_w),
        high_u=to_millionths(window.range[1] * per_w),
        modulus_u=None if source.modulus is None else to_millionths(source.modulus),
        every_ms=period_ms(source),
        dead_band=dead_band(source),
        counters=counter_count(source),
    )


@lru_cache(maxsize=64)
def _preset_name(stream: Stream) -> str | None:
    """Return the preset's name; None if a number or the slots differ from the preset's."""
    no_numbers = dict.fromkeys(("level", "hide", "radius", "quantum", "space", "metric"))
    privacy = stream.privacy.model_copy(update=no_numbers)
    window = window_of(preset(stream), stream.window)
    for_preset = stream.model_copy(update={"privacy": privacy, "window": window})

    def numbers(setting: Stream) -> tuple[object, ...]:
        """Return all settings that a preset determines."""
        shape = usual_shape(setting)
        slots = shape, calendar_unit(setting), _usual_bands(setting)
        return *slots, metric(setting), level(setting), quantum(setting), radius(setting, shape)

    return stream.privacy.preset if numbers(stream) == numbers(for_preset) else None


@lru_cache(maxsize=64)
def distinct_terms(stream: Stream, rounding: Rounding = LIVE_ROUNDING) -> tuple[Terms, ...]:
    """Return the distinct terms of all windows; for calendar windows, the terms of ten years from 2025 on."""
    if calendar_unit(stream) is None:
        return (terms(stream, rounding=rounding),)
    calendar = Calendar(stream.window.timezone or "UTC", calendar_unit(stream) or "")
    windows = schedule(stream, rounding=rounding)
    return tuple(dict.fromkeys(map(windows.terms_at, _distinct_starts_ms(calendar))))


@lru_cache(maxsize=64)
def _distinct_starts_ms(calendar: Calendar) -> tuple[int, ...]:
    """Return the start of one window for each sequence of day lengths, which alone determines the terms."""
    start_ms, starts_ms = calendar.first_start_ms(SHAPES_FROM_MS), dict[object, int]()
    while start_ms < SHAPES_END_MS:
        starts_ms.setdefault(calendar.stretches(start_ms, _WHOLE_DAY), start_ms)
        start_ms = calendar.end_ms(start_ms)
    return tuple(starts_ms.values())


def budget(stream: Stream) -> Fraction | None:
    """Return a period's budget in 1/W: its level divided by the smallest radius; None without a budget."""
    if stream.privacy.budget is None:
        return None
    largest_epsilon = max(window.epsilon_per_w / window.level for window in distinct_terms(stream))
    return stream.privacy.budget.level * largest_epsilon


def sink_url(stream: Stream) -> str:
    """Return the address of the sink's broker: as configured, or else the source's."""
    return stream.sink.url or stream.source.url
