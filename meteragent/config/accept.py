"""The promise for loads of a configured stream: what is warned of, what is refused and what would do."""

from collections.abc import Collection, Iterator
from fractions import Fraction
from math import ceil

from meteragent.config.model import Config, Stream
from meteragent.config.terms import terms
from meteragent.domain import loads
from meteragent.domain.errors import ConfigError
from meteragent.domain.figures import exact, figures
from meteragent.domain.grid import format_duration
from meteragent.domain.terms import Terms
from meteragent.domain.units import HOUR_MS, UNIT_FACTOR, Kind

FACTOR_MAX = 2
"""Up to so many times its level a stream may cost for a move of what it hides; beyond, it is refused."""

_UNTIL = "until then the promise is about what the readings say, not about the load"


def warnings(stream: Stream) -> list[str]:
    """Return what to know where readings say more than the load is, or nobody knows."""
    rules = terms(stream)
    lines = []
    if keys := loads.unknown(rules):
        coarse = rules.kind is not Kind.POWER and 40 * (stream.source.scale or 0) >= rules.radius
        lines.append(_counted(stream.source.scale or Fraction(0), rules) if coarse else _unknown(rules, keys))
    if loads.factor(rules) > 1:
        levels = ", ".join(
            f"{name}: {figures(loads.level(rules, Fraction(wh)))}" for name, wh in loads.MOVES_WH.items()
        )
        lines.append(f"{_said(rules)}. Levels of loads that move {levels}")
    return lines


def _unknown(rules: Terms, keys: Collection[str]) -> str:
    """Say what is not known of a source, and which key states it."""
    if rules.kind is not Kind.POWER:
        return f"in which steps the meter counts is not known: set source.dead_band; {_UNTIL}"
    if "source.every" in keys:
        return f"how far apart readings are is not known: set source.every; {_UNTIL}"
    return (
        "how far the power may go from what the device said last, only you know: set source.dead_band;"
        f" {_UNTIL}"
    )


def _counted(count: Fraction, rules: Terms) -> str:
    """Say what counts make of the promise for the load: each end of a slot may be off by one."""
    level = rules.epsilon * ceil((rules.radius + 2 * count) / rules.quantum) * rules.quantum
    return (
        f"if the meter counts in steps of {exact(count)} {rules.unit}, slots of shapes within the radius"
        f" may differ by two more: level {exact(level)}; set source.dead_band to the step"
    )


def refusals(config: Config, running: Collection[str] = ()) -> list[ConfigError]:
    """Return all that is refused because of how readings follow the load, by key.

    Streams that are `running` already are warned of only.
    """
    return [_refusal(stream, key) for stream, key in _coarse(config) if stream.name not in running]


def _coarse(config: Config) -> Iterator[tuple[Stream, str]]:
    """Find the streams whose factor is beyond the limit and not accepted, and how their keys begin."""
    for place, stream in enumerate(config.stream):
        rules = terms(stream)
        if loads.factor(rules) > FACTOR_MAX and _word(rules) not in stream.privacy.accept:
            yield stream, f"stream[{place}]." if len(config.stream) > 1 else ""


def _word(rules: Terms) -> str:
    """Return the word of `privacy.accept` that accepts it."""
    return "sparse_readings" if rules.kind is Kind.POWER else "coarse_register"


def _refusal(stream: Stream, prefix: str) -> ConfigError:
    """Say what is refused, and what would be right."""
    rules = terms(stream)
    key = "radius" if stream.privacy.radius is not None else "hide"
    least_wh = _least_wh(rules)
    ways = [f"at least {_energy(least_wh)}"]
    if key == "radius":
        least = least_wh / UNIT_FACTOR[rules.unit]
        least *= Fraction(HOUR_MS, rules.step_ms) if rules.kind is Kind.POWER else 1
        ways = [f"at least {figures(least)} {rules.unit}"]
    ways += [_finer(rules), f"privacy.accept = ['{_word(rules)}']"]
    found = f"{_energy(rules.hides_wh)} within a slot; {_said(rules)}"
    return ConfigError(f"{prefix}privacy.{key}", found, "; or ".join(ways))


def _said(rules: Terms) -> str:
    """Say what a move of what is hidden becomes in the readings."""
    moved = loads.distance(rules, rules.hides_wh) * UNIT_FACTOR[rules.unit]
    if rules.kind is Kind.POWER:
        moved = moved * rules.step_ms / HOUR_MS
        sparse = f"power is read every {format_duration(loads.stands_ms(rules))}"
        why = sparse if loads.stands_ms(rules) else "power stands unsent within the dead band"
    else:
        step = (rules.dead_band or Fraction(0)) * UNIT_FACTOR[rules.unit]
        why = f"energy is counted in steps of {_energy(step)}"
    level = figures(rules.level * loads.factor(rules))
    return (
        f"{why}: what moves {_energy(rules.hides_wh)} can count for {_energy(moved)},"
        f" level {level} instead of {figures(rules.level)}"
    )


def _least_wh(rules: Terms) -> Fraction:
    """Return what to hide so that the factor is at most the limit."""
    step = (rules.dead_band or Fraction(0)) * UNIT_FACTOR[rules.unit]
    if rules.kind is not Kind.POWER:
        return step / 2 if loads.counts(rules) == 1 else step * (loads.counts(rules) - 1)
    longest_wh = loads.width_w(rules) * loads.stands_ms(rules) / HOUR_MS
    return Fraction(ceil(longest_wh + 2 * step * rules.step_ms / HOUR_MS))


def _finer(rules: Terms) -> str:
    """Say which readings would do."""
    if rules.kind is not Kind.POWER:
        counts = loads.counts(rules)
        step = rules.hides_wh / UNIT_FACTOR[rules.unit] * (2 if counts == 1 else Fraction(1, counts))
        return f"a count in steps of at most {figures(step)} {rules.unit} (source.dead_band)"
    band_wh = 2 * (rules.dead_band or 0) * UNIT_FACTOR[rules.unit] * Fraction(rules.step_ms, HOUR_MS)
    spare_wh, ways = rules.hides_wh - band_wh, ["the device's energy, kind = 'register'"]
    if loads.stands_ms(rules) and spare_wh > 0:
        width_w = int(spare_wh * HOUR_MS / loads.stands_ms(rules))
        ways.append(f"a window.range of at most {width_w:,} W from end to end")
    spare_s = int(spare_wh * HOUR_MS / loads.width_w(rules)) // 1000
    if loads.stands_ms(rules) and spare_s > 0:
        ways.append(f"readings at most {format_duration(spare_s * 1000)} apart (source.every)")
    return "; or ".join(reversed(ways))


def _energy(wh: Fraction) -> str:
    """Return an energy as people write it."""
    return f"{figures(wh)} Wh" if wh < 1000 else f"{figures(wh / 1000)} kWh"
