"""Warnings about settings that are allowed but probably not intended."""

from collections.abc import Collection, Iterator
from dataclasses import replace
from fractions import Fraction
from math import ceil

from meteragent import config
from meteragent.config.source import completes_slots, every_ms, has_local_times, has_period, has_times
from meteragent.domain import loads
from meteragent.domain.figures import exact_text
from meteragent.domain.shapes import Means
from meteragent.domain.terms import Clock, Terms
from meteragent.domain.units import HOUR_MS, UNIT_FACTOR, Kind
from meteragent.privacy.accuracy import sd
from meteragent.report.format import (
    amount_text,
    duration,
    energy_text,
    figures_text,
    full_text,
    level_text,
    localise,
    odds_text,
    percent_text,
    round_up,
    whole_text,
)
from meteragent.report.language import say
from meteragent.store import disk

_SLOTS_MANY = 12
_LEVEL_HIGH = 4
_NOISE_SHARE = 0.5
"""A 95% half-width above this share of the largest reading is probably not intended."""


def config_warnings(settings: config.Config) -> list[str]:
    """Return the warnings about secrets that others can read, and about the store's file system."""
    files = config.world_readable_files(settings)
    secrets = [say("warning.secret", setting=key, path=path) for key, path in files.items()]
    kind = disk.block_keeping_file_system(settings.store.path)
    return [*secrets, *([] if kind is None else [say("warning.blocks", kind=kind)])]


def stream_warnings(
    stream: config.Stream, terms: Terms, stored_streams: Collection[str] = (), *, is_archived: bool = False
) -> list[str]:
    """Return the warnings about a stream and its terms; `stored_streams` are the streams in the store."""
    # An archive has a column of times, named in [archive].
    is_timed = is_archived or has_times(stream.source)
    phases, parts = len(stream.source.phases or ()), len(stream.source.part)
    odds, quantum = odds_text(terms.level), amount_text(float(terms.quantum), terms.value_unit)
    waits = not is_archived and completes_slots(stream.source, stream.window)
    time_key = "warning.stamped" if terms.readings.kind is Kind.REGISTER else "warning.arrival"
    names = ", ".join(sorted(stored_streams))
    noise_w = terms.half_width(0.95) * float(terms.radius_w / terms.radius)
    largest_w = float(max(map(abs, stream.window.range)))
    wide = {"within": amount_text(noise_w, "W"), "range": amount_text(largest_w, "W")}
    is_wide = noise_w > _NOISE_SHARE * largest_w
    zone = stream.source.timezone or say("warning.zone_default")
    is_new = bool(stored_streams) and stream.name not in stored_streams
    applies = {
        say("warning.late"): waits and not has_period(stream.source),
        say(time_key): not is_timed,
        say("warning.zone", zone=zone): not is_archived and has_local_times(stream.source),
        say("warning.modulus"): terms.readings.modulus_u is not None
        and terms.readings.modulus_u < terms.readings.high_u,
        say("warning.phases", count=phases): terms.readings.kind is Kind.POWER and phases > 1,
        say("warning.parts", count=parts + 1): parts > 0,
        _order_warning(stream, terms): stream.source.acknowledge == "in order" and not is_archived,
        say("warning.event_clock"): terms.clock is Clock.EVENT,
        say("warning.quantum", quantum=quantum): terms.quantum > Fraction(sd(terms.mechanism)) / 2,
        say("warning.level", level=full_text(terms.level), odds=odds): terms.level > _LEVEL_HIGH,
        say("warning.range", **wide, hide=energy_text(terms.hides_wh)): is_wide,
        say("warning.stream", streams=names, stream=stream.name): is_new,
    }
    warnings = [*_load_warnings(stream, terms), *(text for text, is_true in applies.items() if is_true)]
    warnings += _loss_warnings(stream, terms) if waits else ()
    return [*warnings, _slots_warning(terms)] if terms.slots_per_bound > _SLOTS_MANY else warnings


def _loss_warnings(stream: config.Stream, terms: Terms) -> Iterator[str]:
    """Yield warnings that energy is lost at a slot's end because readings or their corrections come late."""
    period_ms, (share, lost_wh) = every_ms(stream.source), config.largest_loss(stream)
    period = duration(period_ms)
    if share:
        late, part = duration(terms.lateness_ms), percent_text(figures_text(100 * share))
        yield say("warning.lost", energy=_energy_text(lost_wh), share=part, period=period, lateness=late)
    if terms.readings.kind is Kind.REGISTER and terms.lateness_ms < 2 * period_ms:
        yield say("warning.glitch", period=period, lateness=duration(2 * period_ms))


def _slots_warning(terms: Terms) -> str:
    """Return the warning about many slots, with the error of a single slot that hides the same energy."""
    energy = terms.hides_wh / UNIT_FACTOR[terms.readings.unit]
    wide = energy / Fraction(terms.length_ms, HOUR_MS) if terms.readings.kind is Kind.POWER else energy
    radius = -(-wide // terms.quantum) * terms.quantum
    merged = replace(terms, shape=Means(terms.length_ms, terms.length_ms), radius=radius, places=())
    length, error = duration(terms.length_ms), amount_text(merged.sd, terms.readings.unit)
    return say("warning.slots", count=whole_text(terms.n), length=length, error=error)


def _order_warning(stream: config.Stream, terms: Terms) -> str:
    """Return the warning about acknowledgements in order, with how long one reading holds up others."""
    slot_ms = terms.step_ms + terms.lateness_ms
    hold_ms = max(terms.readings.hold_ms, slot_ms) if terms.readings.kind is Kind.POWER else slot_ms
    return say("warning.in_order", count=whole_text(stream.source.inflight), hold=duration(hold_ms))


# Readings that reveal, or may reveal, more than the load does -----------------------------------------


def _load_warnings(stream: config.Stream, terms: Terms) -> Iterator[str]:
    """Yield the warnings about readings that follow the load coarsely, or about which too little is known."""
    if loads.unknown_keys(terms):
        scale = stream.source.scale or Fraction(0)
        is_coarse = terms.readings.kind is not Kind.POWER and 40 * scale >= terms.radius
        unknown = f"warning.unknown_{unknown_of_loads(terms)}"
        yield _count_warning(scale, terms) if is_coarse else say(unknown)
    if loads.level_factor(terms) > 1:
        yield _cost_warning(terms)


def unknown_of_loads(terms: Terms) -> str:
    """Return the unknown property of the source, as named in the keys of texts."""
    if terms.readings.kind is not Kind.POWER:
        return "step"
    keys = loads.unknown_keys(terms)
    return "every_or_dead_band" if len(keys) > 1 else keys[0].removeprefix("source.")


def _count_warning(scale: Fraction, terms: Terms) -> str:
    """Return the warning that counting in steps of `scale` may add a step at each end of a slot."""
    level = terms.epsilon * ceil((terms.radius + 2 * scale) / terms.quantum) * terms.quantum
    step = f"{localise(exact_text(scale))} {terms.readings.unit}"
    return say("warning.count", step=step, energy=energy_text(terms.hides_wh), level=figures_text(level))


def _cost_warning(terms: Terms) -> str:
    """Return the warning that a change by the hidden energy can look like a larger one, with its level."""
    counted_wh = loads.distance_bound(terms, terms.hides_wh) * terms.wh_per_value * terms.hours_per_value
    level = terms.level * loads.level_factor(terms)
    levels = "; ".join(
        f"{localise(name)}: {figures_text(loads.level(terms, Fraction(wh)))}"
        for name, wh in loads.CHANGES_WH.items()
    )
    text, usual = figures_text(level), figures_text(terms.level)
    return say(
        "warning.cost",
        reason=cost_reason(terms),
        energy=_energy_text(terms.hides_wh),
        counted=_energy_text(counted_wh),
        level=text if text != usual else level_text(round_up(level)),
        usual=usual,
        levels=levels,
    )


def cost_reason(terms: Terms) -> str:
    """Return, in words, why a change by the hidden energy can look like a larger one."""
    if terms.readings.kind is not Kind.POWER:
        step_wh = (terms.readings.dead_band or Fraction(0)) * UNIT_FACTOR[terms.readings.unit]
        return say("warning.cost_step", step=_energy_text(step_wh))
    hold_ms = terms.readings.longest_hold_ms  # the time between readings, or a shorter hold
    key = "warning.cost_sparse" if hold_ms == terms.readings.every_ms else "warning.cost_held"
    return say(key, period=duration(hold_ms)) if hold_ms else say("warning.cost_dead_band")


def _energy_text(wh: Fraction) -> str:
    return f"{figures_text(wh)} Wh" if wh < 1000 else f"{figures_text(wh / 1000)} kWh"
