"""A stream's terms and schedule, from its configuration and its preset."""

from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

from meteragent.config.model import Config, Stream
from meteragent.config.source import counters, dead_band, hold_ms, interval_ms, lateness_ms, period_ms
from meteragent.domain.grid import BandRule, Calendar, Epoch, Grid, Hours, parse_time
from meteragent.domain.presets import PRESETS, Preset, radius_that_hides, units_per_watt
from meteragent.domain.schedule import BandRules, Schedule, uncovered
from meteragent.domain.shape import UNKNOWN_BAND, Band, Metric, Space
from meteragent.domain.terms import Crowd, Rounding, Terms
from meteragent.domain.units import DAY_MS, HOUR_MS, KILO, MICRO, MINUTE_MS, UNIT_FACTOR, Kind
from meteragent.domain.weights import Weights, WeightSource, joined
from meteragent.privacy.exact import round_half_up

USUAL_DAYS = {"1d": 1, "1w": 7, "1mo": 30}
"""The number of 24-hour days in an ordinary calendar window, for which figures are stated."""

LIVE_ROUNDING: Rounding = "dithered"
"""The agent's rounding. Archives round half up instead, because they store no accumulators that a copy could
reveal.
"""

PEAK_STEP_MS = 15 * MINUTE_MS
"""The usual length of a peak's parts: the quarter hour of tariffs and markets."""

_WHOLE_DAY = BandRule("day", (Hours(0, 24 * 60),))
SHAPES_FROM_MS, SHAPES_END_MS = map(parse_time, ("2025-01-01T00:00:00Z", "2035-01-01T00:00:00Z"))
"""The start and end, in Unix ms, of the ten years whose calendar windows are checked."""


def preset(stream: Stream) -> Preset:
    """Return the stream's preset, which supplies all numbers that are not configured."""
    return PRESETS[stream.privacy.preset]


def space(stream: Stream) -> Space:
    """Return the space: as configured, as implied by weights or a threshold, or as the preset states."""
    if stream.window.weights is not None and stream.privacy.space is None:
        return Space.WEIGHTED
    if stream.window.threshold is not None and stream.privacy.space is None:
        return Space.ABOVE
    return stream.privacy.space or preset(stream).space


def metric(stream: Stream) -> Metric:
    """Return the metric of the promise: as configured, or else the space's default."""
    is_summed = space(stream) in {Space.BANDS, Space.WEIGHTED}
    return stream.privacy.metric or (Metric.L1 if is_summed else Metric.LINF)


def unit(stream: Stream) -> str | None:
    """Return the calendar unit of the windows; None on the epoch grid."""
    configured_length = stream.window.length
    length = preset(stream).length if configured_length is None else configured_length
    if length == "1d" and configured_length is not None and stream.window.timezone is None:
        return None  # without a time zone, '1d' is 24 hours
    return length if isinstance(length, str) else None


def grid(stream: Stream) -> Grid:
    """Return the grid on which windows start and end."""
    calendar = unit(stream)
    if calendar is None:
        return Epoch(length_ms(stream))
    return Calendar(stream.window.timezone or "UTC", calendar)


def length_ms(stream: Stream) -> int:
    """Return the length of an ordinary window: as configured, or else the preset's."""
    length = stream.window.length or preset(stream).length
    return USUAL_DAYS[length] * DAY_MS if isinstance(length, str) else length


def step_ms(stream: Stream, window_ms: int) -> int:
    """Return the length of a slot, or of a peak's parts: as configured, or else the default.

    The default is 15 minutes for a peak's parts, and otherwise an equal part of the window. The length has no
    meaning for streams whose slots are bands.
    """
    if space(stream) is Space.PEAK:
        return stream.window.step or PEAK_STEP_MS
    return stream.window.step or window_ms // _blocks(stream)


def _blocks(stream: Stream) -> int:
    """Return the number of equal slots: as configured, or else the preset's if it applies, or else 1."""
    window = stream.window
    if space(stream) in {Space.WEIGHTED, Space.ABOVE}:
        return window.blocks or 1
    is_default = window.length is None and window.step is None and stream.privacy.space is None
    return window.blocks or (preset(stream).blocks if is_default or space(stream) is Space.PROFILE else 1)


def hours(stream: Stream) -> tuple[Hours, ...]:
    """Return the bands of a profile's day: as configured, or else equal blocks of the day.

    Return no bands for other spaces.
    """
    if space(stream) is not Space.PROFILE:
        return ()
    if stream.window.bands is not None:
        return stream.window.bands
    minutes = 24 * 60 // _blocks(stream)
    return tuple(Hours(start, start + minutes) for start in range(0, minutes * _blocks(stream), minutes))


def band_rules(stream: Stream) -> BandRules:
    """Return the rules for a window's bands or price hours, if it has any.

    After an outage, a register does not show the bands in which the energy was used, so its stream has an
    extra band for that energy.
    """
    window = stream.window
    holidays = frozenset(window.holidays)
    if space(stream) is Space.WEIGHTED and window.weights is not None:
        rows = enumerate(window.weights.price)
        return BandRules(tuple(BandRule(str(row), price.hours, price.days, holidays) for row, price in rows))
    if space(stream) is not Space.BANDS:
        return BandRules(tuple(BandRule(band.name, (band,)) for band in hours(stream)))
    rules = tuple(BandRule(band.name, band.hours, band.days, holidays) for band in window.band)
    return BandRules(rules, window.rest, stream.source.kind is Kind.REGISTER)


def _usual_bands(stream: Stream) -> tuple[Band, ...]:
    """Return the bands or price hours of an ordinary window, which begins on a Monday and has no holidays."""
    rules, window_ms = band_rules(stream), length_ms(stream)
    bands = [
        Band(
            rule.name,
            tuple(
                (day * DAY_MS + MINUTE_MS * from_min, day * DAY_MS + MINUTE_MS * to_min)
                for day in range(window_ms // DAY_MS)
                if day % 7 in rule.weekdays
                for from_min, to_min in rule.parts
            ),
        )
        for rule in rules.rules
    ]
    if rules.rest is not None:
        bands.append(Band(rules.rest, uncovered(bands, window_ms)))
    bands = sorted((band for band in bands if band.stretches), key=lambda band: band.stretches[0])
    unknown = (Band(UNKNOWN_BAND, ((window_ms, window_ms),)),) if rules.has_unknown else ()
    return (*bands, *unknown)


def _per_w(stream: Stream, duration_ms: int) -> Fraction:
    """Return 1 W in the stream's unit; if that is a unit of energy, the energy of 1 W over a duration."""
    return units_per_watt(stream.source.kind, stream.source.unit, duration_ms)


def quantum(stream: Stream) -> Fraction:
    """Return the lattice step of slot values, in their unit: as configured, or else the preset's.

    All windows of a stream share one lattice, computed for the shortest slot of an ordinary window. Records
    and accumulators are stored in millionths of the unit. If the preset's quantum over that slot is not a
    whole number of millionths (1 W over 5 minutes is 1/12 Wh), the next smaller step of the series 1, 2, 5,
    10, ... is used (0.05 Wh). A finer lattice does not weaken the promise, because the loss is counted in
    whole quanta, rounded up (THEORY-2 A.1.2).
    """
    configured_quantum = stream.privacy.quantum
    if configured_quantum is not None:
        return configured_quantum
    usual = preset(stream).quantum * _per_amount(stream, _shortest_ms(stream))
    return usual if (usual * MICRO).denominator == 1 else finer_step(usual)


def _per_amount(stream: Stream, duration_ms: int) -> Fraction:
    """Return the slot value of 1 W over a duration; for a peak, that of a mean of 1 W.

    For bands, energies above a threshold and crowds, return the slot value of 1 Wh instead; for amounts, that
    of 1 Wh at the largest price.
    """
    if stream.group is not None:
        return Fraction(1)
    if space(stream) is Space.WEIGHTED:
        return _bound(stream) / KILO
    if space(stream) in {Space.BANDS, Space.PEAK, Space.ABOVE}:
        return Fraction(1, UNIT_FACTOR[stream.source.unit])
    return _per_w(stream, duration_ms)


def _bound(stream: Stream) -> Fraction:
    """Return the largest price per kWh; 1 if the stream has no prices."""
    return Fraction(1) if stream.window.weights is None else stream.window.weights.bound


def weights(stream: Stream, bands: tuple[Band, ...] = ()) -> Weights | None:
    """Return a window's weights; None if the stream releases no amounts.

    `bands` holds the window's price hours, each named after its row in the price table.
    """
    table = stream.window.weights
    if table is None or space(stream) is not Space.WEIGHTED:
        return None
    prices = sorted(
        (from_ms, to_ms, _micro(table.price[int(band.name)].price))
        for band in bands
        for from_ms, to_ms in band.stretches
    )
    place = WeightSource.TABLE if table.topic is None else WeightSource.TOPIC
    return Weights(table.unit, _micro(table.bound), _micro(table.default), place, joined(prices))


def finer_step(quantum: Fraction) -> Fraction:
    """Return the largest step below a quantum in the series 1, 2, 5, 10, ... millionths (at least 1)."""
    steps_u, power_u = [1], 1
    while power_u < quantum * MICRO:
        steps_u += [2 * power_u, 5 * power_u, 10 * power_u]
        power_u *= 10
    return Fraction(max(step_u for step_u in steps_u if step_u == 1 or step_u < quantum * MICRO), MICRO)


@lru_cache(maxsize=64)
def _shortest_ms(stream: Stream) -> int:
    """Return the length of the shortest slot of an ordinary window."""
    return _shortest_slot_ms(stream, length_ms(stream), _usual_bands(stream))


def _shortest_slot_ms(stream: Stream, window_ms: int, bands: tuple[Band, ...]) -> int:
    """Return the length of a window's shortest slot; a band without hours is ignored."""
    if space(stream) is Space.WEIGHTED:
        return step_ms(stream, window_ms)
    lengths_ms = [band.duration_ms for band in bands]
    return min(filter(None, lengths_ms), default=step_ms(stream, window_ms))


def radius(stream: Stream, slot_ms: int) -> Fraction:
    """Return the radius in the unit of slot values: as configured, or else derived from `hide` (DESIGN 2).

    The derived radius is `hide` / slot for a mean, `hide` for an energy, and `hide` times the largest price
    for an amount, rounded up to the lattice.
    """
    privacy = stream.privacy
    if privacy.radius is not None:
        return privacy.radius
    hide_wh, spread_ms = privacy.hide or preset(stream).hide_wh, slot_ms
    if space(stream) in {Space.BANDS, Space.WEIGHTED, Space.ABOVE}:
        spread_ms = HOUR_MS
    return radius_that_hides(hide_wh, spread_ms, _per_amount(stream, slot_ms), quantum(stream))


def level(stream: Stream) -> Fraction:
    """Return the configured level, or else the preset's."""
    return stream.privacy.level or preset(stream).level


def others_per_day(config: Config, stream: Stream) -> Fraction:
    """Return the sum of the daily charges of a meter's other streams, as epsilon in 1/W.

    Streams whose receivers are all paused charge nothing.
    """
    siblings = (sibling for sibling in config.stream if sibling is not stream and sibling.is_received)
    return sum((terms(sibling).per_day for sibling in siblings), Fraction(0))


def schedule(
    stream: Stream, other_charges: Fraction = Fraction(0), rounding: Rounding = LIVE_ROUNDING
) -> Schedule:
    """Return the stream's schedule: the start and the terms of each window.

    `other_charges` is the daily charge of the other streams on a meter, as epsilon in 1/W.
    """
    usual = terms(stream, other_charges, rounding)
    if unit(stream) is None:
        return Schedule(usual, grid(stream))

    def shape(window_ms: int, bands: tuple[Band, ...]) -> Terms:
        """Return the terms of a calendar window."""
        return replace(_terms(stream, window_ms, bands), others_per_day=other_charges, rounding=rounding)

    return Schedule(usual, grid(stream), band_rules(stream), shape)


def terms(stream: Stream, other_charges: Fraction = Fraction(0), rounding: Rounding = LIVE_ROUNDING) -> Terms:
    """Return the terms of an ordinary window; only calendar windows differ in their terms.

    `other_charges` is the daily charge of the other streams on a meter, as epsilon in 1/W.
    """
    usual = _terms(stream, length_ms(stream), _usual_bands(stream))
    return replace(usual, others_per_day=other_charges, rounding=rounding)


def _terms(stream: Stream, window_ms: int, bands: tuple[Band, ...]) -> Terms:
    """Return the terms of a window with this length and these bands."""
    source, window = stream.source, stream.window
    per_w = _per_w(stream, interval_ms(source))
    slot_ms = _shortest_slot_ms(stream, window_ms, bands)
    prices = weights(stream, bands)
    return Terms(
        kind=source.kind,
        unit=source.unit,
        clock=window.clock,
        length_ms=window_ms,
        step_ms=slot_ms,
        lateness_ms=lateness_ms(source, window.lateness),
        level=level(stream),
        radius=radius(stream, slot_ms),
        quantum_u=int(quantum(stream) * MICRO),
        hold_ms=hold_ms(source) if source.kind is Kind.POWER else 0,
        interval_ms=interval_ms(source),
        gap_u=_micro(window.gap),
        low_u=_micro(window.range[0] * per_w),
        high_u=_micro(window.range[1] * per_w),
        preset=_preset_name(stream),
        space=space(stream),
        timezone=window.timezone if unit(stream) else None,
        bands=bands if prices is None else (),
        modulus_u=None if source.modulus is None else _micro(source.modulus),
        every_ms=period_ms(source),
        dead_band=dead_band(source),
        counters=counters(source),
        metric=metric(stream),
        weights=prices,
        threshold_u=_threshold_u(stream),
        crowd=_crowd(stream),
    )


def _crowd(stream: Stream) -> Crowd | None:
    """Return a stream's group in the form that terms contain; None if it has no group."""
    group = stream.group
    return None if group is None else Crowd(group.id.hex(), 1000 * group.deadline_s)


def _threshold_u(stream: Stream) -> int | None:
    """Return the threshold in millionths of the unit; None if the space has no threshold."""
    height = stream.window.threshold
    if height is None or space(stream) is not Space.ABOVE:
        return None
    return _micro(height * _per_w(stream, HOUR_MS))


@lru_cache(maxsize=64)
def _preset_name(stream: Stream) -> str | None:
    """Return the preset's name; None if a number or the slots differ from the preset's."""
    names = ("level", "hide", "radius", "quantum", "space", "metric")
    no_numbers = dict.fromkeys(names)
    privacy = stream.privacy.model_copy(update=no_numbers)
    no_slots = {"length": None, "step": None, "blocks": None, "bands": None, "weights": None}
    window = stream.window.model_copy(update=no_slots)
    preset_stream = stream.model_copy(update={"privacy": privacy, "window": window})

    def numbers(setting: Stream) -> tuple[object, ...]:
        """Return all settings that a preset determines."""
        slot_ms = _shortest_ms(setting)
        slots = length_ms(setting), unit(setting), slot_ms, _usual_bands(setting), space(setting)
        return *slots, metric(setting), level(setting), quantum(setting), radius(setting, slot_ms)

    return stream.privacy.preset if numbers(stream) == numbers(preset_stream) else None


@lru_cache(maxsize=64)
def shapes(stream: Stream, rounding: Rounding = LIVE_ROUNDING) -> tuple[Terms, ...]:
    """Return the distinct terms of all windows; for calendar windows, the terms of ten years from 2025 on."""
    if unit(stream) is None:
        return (terms(stream, rounding=rounding),)
    windows = schedule(stream, rounding=rounding)
    calendar = Calendar(stream.window.timezone or "UTC", unit(stream) or "")
    start_ms, starts_ms = windows.first_ms(SHAPES_FROM_MS), dict[object, int]()
    while start_ms < SHAPES_END_MS:  # windows whose days have the same lengths have the same terms
        starts_ms.setdefault(calendar.stretches(start_ms, _WHOLE_DAY), start_ms)
        start_ms = calendar.end_ms(start_ms)
    return tuple(dict.fromkeys(map(windows.terms, starts_ms.values())))


def budget(stream: Stream) -> Fraction | None:
    """Return the budget as epsilon in 1/W per period; None if the stream has no budget.

    The configuration states the budget as a level. If epsilon differs between windows, the largest epsilon
    counts, so a level of k pays for at least k windows of level 1.
    """
    if stream.privacy.budget is None:
        return None
    largest_epsilon = max(window.epsilon_per_w / window.level for window in shapes(stream))
    return stream.privacy.budget.level * largest_epsilon


def _micro(value: Fraction) -> int:
    """Return a value in millionths, rounded half up."""
    return round_half_up(value * MICRO)


def sink_url(stream: Stream) -> str:
    """Return the address of the sink's broker: as configured, or else the source's."""
    return stream.sink.url or stream.source.url
