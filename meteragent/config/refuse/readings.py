"""Refusals of readings that follow the load too coarsely or complete slots too late.

They are separate from all other refusals, because a stream that has run before is only warned of them.
"""

from collections.abc import Iterator
from fractions import Fraction
from math import ceil

from meteragent.config.model import Config, Stream
from meteragent.config.shapes import preset, stated_radius
from meteragent.config.source import completes_slots, every_ms, has_period, lateness_ms
from meteragent.config.terms import terms
from meteragent.domain import loads
from meteragent.domain.errors import ConfigError
from meteragent.domain.figures import energy_figures, three_figures
from meteragent.domain.grid import format_duration
from meteragent.domain.terms import Terms
from meteragent.domain.units import HOUR_MS, UNIT_FACTOR, Kind

LEVEL_FACTOR_MAX = 2
"""If a change of the load by the hidden energy can have more than this many times the stream's level, the
stream is refused, unless `privacy.accept` allows this."""
LOST_MAX = Fraction(1, 50)
"""A stream is refused if a larger share of a slot can be lost, unless `privacy.accept` allows this."""
_LOST = "lost_energy"


def reading_refusals(config: Config) -> list[tuple[Stream, ConfigError]]:
    """Return the streams whose readings are too coarse or whose slots lose energy, with their refusals."""
    return [*_coarse_streams(config), *_lossy_streams(config)]


def largest_loss(stream: Stream) -> tuple[Fraction, Fraction]:
    """Return the most that a slot can lose if its last reading is late: a share of the slot, and Wh."""
    source, window, step_ms = stream.source, stream.window, terms(stream).step_ms
    late_ms = every_ms(source) - lateness_ms(source, window) if completes_slots(source, window) else 0
    lost_ms = min(max(late_ms, 0), step_ms)
    return Fraction(lost_ms, step_ms), window.range[1] * lost_ms / HOUR_MS


def _lossy_streams(config: Config) -> Iterator[tuple[Stream, ConfigError]]:
    """Yield, for each table, the first stream whose slots may lose much energy, with its refusal."""
    prefixes = set[str]()
    if config.archive is not None:
        return  # archives lose nothing
    for stream, prefix in config.prefixed_streams:
        error = _loss_refusal(stream, prefix)
        if error is not None and prefix not in prefixes:
            prefixes.add(prefix)
            yield stream, error


def _loss_refusal(stream: Stream, prefix: str) -> ConfigError | None:
    """Return the refusal of an unknown period, or of a lateness that is much shorter than the period."""
    source, window = stream.source, stream.window
    if completes_slots(source, window) and window.lateness is None and not has_period(source):
        expected = "the longest time between readings, such as '10s': the one after a slot's end completes it"
        return ConfigError(f"{prefix}source.every", "nothing", expected)
    share, lost_wh = largest_loss(stream)
    if share <= LOST_MAX or _LOST in stream.privacy.accept:
        return None
    late, period = map(format_duration, (lateness_ms(source, window), every_ms(source)))
    cost = f"{late!r}, up to {energy_figures(lost_wh)} of each slot ({three_figures(100 * share)}%) are lost"
    longer = f"at least {period!r}, because the reading that completes a slot comes so long after its end"
    return ConfigError(f"{prefix}window.lateness", cost, f"{longer}; or privacy.accept = ['{_LOST}']")


def is_too_coarse(stream: Stream) -> bool:
    """Return whether readings follow the load too coarsely and `privacy.accept` does not allow this."""
    rules = terms(stream)
    is_coarse = loads.level_factor(rules) > LEVEL_FACTOR_MAX and _word(rules) not in stream.privacy.accept
    return is_coarse and not _is_for_readings(stream, rules)


def _is_for_readings(stream: Stream, rules: Terms) -> bool:
    """Return whether slots are readings of power, and the promise is stated as a distance, as in the papers.

    The promise is taken to be stated so if a radius is set and slots are no longer than the hold of a
    reading, or if a preset of several slots applies and slots are no shorter than the hold.
    """
    privacy, hold_ms = stream.privacy, rules.readings.longest_hold_ms
    by_radius = privacy.radius is not None and rules.step_ms <= hold_ms
    by_preset = privacy.hide is None and preset(stream).slots > 1 and 0 < hold_ms <= rules.step_ms
    return rules.readings.kind is Kind.POWER and (by_radius or by_preset)


def _coarse_streams(config: Config) -> Iterator[tuple[Stream, ConfigError]]:
    """Yield, for each table, the coarsest of the streams that are too coarse, with its refusal."""
    largest: dict[str, tuple[Fraction, Stream]] = {}
    for stream, prefix in config.prefixed_streams:
        factor = loads.level_factor(terms(stream))
        if is_too_coarse(stream) and (prefix not in largest or factor > largest[prefix][0]):
            largest[prefix] = factor, stream
    for prefix, (_, stream) in largest.items():
        yield stream, _coarse_refusal(stream, prefix)


def _word(rules: Terms) -> str:
    """Return the word that must be in `privacy.accept` for the stream to be accepted."""
    return "sparse_readings" if rules.readings.kind is Kind.POWER else "coarse_register"


def _coarse_refusal(stream: Stream, prefix: str) -> ConfigError:
    """Return the refusal of a stream, with settings that would be accepted."""
    rules = terms(stream)
    wh_per_unit = rules.wh_per_value * rules.hours_per_value

    def text(energy_wh: Fraction) -> str:
        """Return an energy in a slot as text; if a radius is configured, as the value of the slot."""
        if stream.privacy.radius is None:
            return energy_figures(energy_wh)
        return f"{three_figures(energy_wh / wh_per_unit)} {rules.value_unit}"

    accept = f"privacy.accept = ['{_word(rules)}']"
    settings = f"at least {text(_hide_min_wh(rules))}", _finer_settings(rules), accept
    effect = text(loads.distance_bound(rules, rules.hides_wh) * wh_per_unit)
    level = three_figures(rules.level * loads.level_factor(rules))
    usual = three_figures(rules.level)
    key, value = stated_radius(stream, rules, "within a slot")
    cost = (
        f"{value}; {_cost_reason(rules)}: a change of {text(rules.hides_wh)} can count as {effect},"
        f" at level {level} instead of {usual}"
    )
    return ConfigError(f"{prefix}{key}", cost, "; or ".join(settings))


def _cost_reason(rules: Terms) -> str:
    """Return, in words, why a change by the hidden energy can appear larger in the readings."""
    if rules.readings.kind is Kind.POWER and (hold_ms := rules.readings.longest_hold_ms):
        verb = "is read every" if hold_ms == rules.readings.every_ms else "stands for at most"
        return f"power {verb} {format_duration(hold_ms)}"
    if rules.readings.kind is Kind.POWER:
        return "changes of power within the dead band are not reported"
    step = (rules.readings.dead_band or Fraction(0)) * UNIT_FACTOR[rules.readings.unit]
    return f"energy is counted in steps of {energy_figures(step)}"


def _hide_min_wh(rules: Terms) -> Fraction:
    """Return the Wh to hide for a level within `LEVEL_FACTOR_MAX`; for power, a whole number."""
    step = (rules.readings.dead_band or Fraction(0)) * UNIT_FACTOR[rules.readings.unit]
    if rules.readings.kind is not Kind.POWER:
        return step / 2 if loads.counts_max(rules) == 1 else step * (loads.counts_max(rules) - 1)
    longest_wh = rules.readings.width_w * rules.readings.longest_hold_ms / HOUR_MS
    return Fraction(ceil(longest_wh + 2 * step * _dead_band_hours(rules)))


def _dead_band_hours(rules: Terms) -> Fraction:
    """Return the number of hours for which the power in a value may be off by the dead band."""
    return rules.distance_per_power if rules.is_energy else rules.hours_per_value


def _finer_settings(rules: Terms) -> str:
    """Return, in words, the settings of the source or the range that would be accepted."""
    if rules.readings.kind is not Kind.POWER:
        counts = loads.counts_max(rules)
        step = rules.hides_wh / UNIT_FACTOR[rules.readings.unit] * (2 if counts == 1 else Fraction(1, counts))
        return f"a count in steps of at most {three_figures(step)} {rules.readings.unit} (source.dead_band)"
    band_wh = 2 * (rules.readings.dead_band or 0) * UNIT_FACTOR[rules.readings.unit] * _dead_band_hours(rules)
    spare_wh, settings = rules.hides_wh - band_wh, ["the device's energy register (kind = 'register')"]
    if rules.readings.longest_hold_ms and spare_wh > 0:
        width_w = int(spare_wh * HOUR_MS / rules.readings.longest_hold_ms)
        settings.append(f"a window.range of at most {width_w:,} W from end to end")
    spare_s = int(spare_wh * HOUR_MS / rules.readings.width_w) // 1000
    if rules.readings.longest_hold_ms and spare_s > 0:
        settings.append(f"readings at most {format_duration(spare_s * 1000)} apart (source.every)")
    return "; or ".join(reversed(settings))
