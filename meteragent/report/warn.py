"""Warnings about settings that are allowed but probably not intended."""

from collections.abc import Collection
from dataclasses import replace
from fractions import Fraction

from meteragent import config
from meteragent.domain.grid import duration_text
from meteragent.domain.terms import Clock, Terms
from meteragent.domain.units import HOUR_MS, UNIT_FACTOR, Kind
from meteragent.privacy.accuracy import sd
from meteragent.report.catalogue import say
from meteragent.report.format import amount, full, odds_figures
from meteragent.store import mount

_SLOTS_MANY = 12
_LEVEL_HIGH = 4


def of_config(settings: config.Config) -> list[str]:
    """Return the warnings that concern no single stream: files that others can read, the store's place."""
    store = mount.warning(settings.store.path)
    return [*config.exposed(settings), *([store] if store else [])]


def of_stream(
    stream: config.Stream, stored_streams: Collection[str] = (), *, archived: bool = False
) -> list[str]:
    """Return the warnings about a stream; `stored_streams` are the names of the streams in the store."""
    # An archive has a column of times, named in [archive].
    timed = archived or config.has_times(stream.source)
    terms = config.terms(stream)
    phases = len(stream.source.phases or ())
    factor = odds_figures(terms.level)
    energy_at_once = terms.kind is not Kind.POWER and terms.lateness_ms == 0
    untimed = "warning.stamped" if terms.kind is Kind.REGISTER else "warning.arrival"
    names = ", ".join(sorted(stored_streams))
    zone = stream.source.timezone or say("warning.zone_default")
    is_new = bool(stored_streams) and stream.name not in stored_streams
    applies = {
        say("warning.late"): energy_at_once and terms.clock is Clock.WALL,
        say(untimed): not timed,
        say("warning.zone", zone=zone): not archived and config.has_local_times(stream.source),
        say("warning.modulus"): terms.modulus_u is not None and terms.modulus_u < terms.high_u,
        say("warning.phases", count=phases): terms.kind is Kind.POWER and phases > 1,
        say("warning.event_clock"): terms.clock is Clock.EVENT,
        _coarse_quantum(terms): terms.quantum > Fraction(sd(terms.mechanism)) / 2,
        say("warning.level", level=full(terms.level), factor=factor): terms.level > _LEVEL_HIGH,
        say("warning.stream", streams=names, stream=stream.name): is_new,
    }
    warnings = [*config.load_warnings(stream), *(text for text, is_true in applies.items() if is_true)]
    return [*warnings, _many_slots(terms)] if terms.slots_per_bound > _SLOTS_MANY else warnings


def _many_slots(terms: Terms) -> str:
    """Return the warning about many slots, with the error of a single slot that hides the same energy."""
    energy = terms.hides_wh / UNIT_FACTOR[terms.unit]
    wide = energy / Fraction(terms.length_ms, HOUR_MS) if terms.kind is Kind.POWER else energy
    radius = -(-wide // terms.quantum) * terms.quantum
    merged = replace(terms, step_ms=terms.length_ms, radius=radius, preset=None, bands=())
    length, error = duration_text(terms.length_ms), amount(merged.sd, terms.unit)
    return say("warning.slots", count=f"{terms.n:,}", length=length, error=error)


def _coarse_quantum(terms: Terms) -> str:
    return say("warning.quantum", quantum=amount(float(terms.quantum), terms.value_unit))
