"""What a configuration allows and probably does not mean: one list of warnings."""

from collections.abc import Collection
from dataclasses import replace
from fractions import Fraction

from meteragent import config
from meteragent.domain.figures import exact
from meteragent.domain.grid import format_duration
from meteragent.domain.terms import Clock, Terms
from meteragent.domain.units import HOUR_MS, UNIT_FACTOR, Kind
from meteragent.privacy.accuracy import sd
from meteragent.report.format import amount, odds_factor
from meteragent.store import mount

_SLOTS_MANY = 12
_LEVEL_HIGH = 4


def of_config(settings: config.Config) -> list[str]:
    """Return the warnings of what no stream has: what is sent in the clear, and where the store is."""
    store = mount.warning(settings.store.path)
    return [*config.exposed(settings), *([store] if store else [])]


def of_stream(stream: config.Stream, channels: Collection[str] = (), *, archived: bool = False) -> list[str]:
    """Return the warnings of a stream; `channels` are the streams that the store knows."""
    # Readings of an archive have a column of times, which [archive] names: no message brings one.
    timed = archived or config.has_times(stream.source)
    terms = config.terms(stream)
    late = "what ends a slot arrives after the slot has closed, and its last part is gap: set window.lateness"
    arrival = "readings have no time of their own: the newest that waited counts from its arrival"
    stamped = "a register without times of its own: what comes late counts as used later, more than is hidden"
    wraps = "the modulus is less than window.range allows in an hour: more than one round would go unseen"
    phases = (
        f"the phases are told at different times: load that moves between them counts up to"
        f" {len(stream.source.phases or '1')} times"
    )
    event = "clock = 'event' is for replay and archives: when a record leaves tells when a reading came"
    many = f"{terms.n} slots share one radius of noise; {_one_slot(terms)}"
    high = f"level {exact(terms.level)} lets the odds change by a factor of {odds_factor(terms.level):.3g}"
    names = ", ".join(sorted(channels))
    new = f"the store knows {names}, not {stream.name}: on the same meters a new stream adds to the spent"
    quantum = amount(float(terms.quantum), terms.unit)
    coarse = f"the quantum of {quantum} is coarser than the noise: a finer one is free"
    energy_late = terms.kind is not Kind.POWER and terms.lateness_ms == 0
    applies = {
        late: energy_late and terms.clock is Clock.WALL,
        stamped if terms.kind is Kind.REGISTER else arrival: not timed,
        wraps: terms.modulus_u is not None and terms.modulus_u < terms.high_u,
        phases: terms.kind is Kind.POWER and len(stream.source.phases or ()) > 1,
        event: terms.clock is Clock.EVENT,
        many: terms.n > _SLOTS_MANY,
        coarse: terms.quantum > Fraction(sd(terms.mechanism)) / 2,
        high: terms.level > _LEVEL_HIGH,
        new: bool(channels) and stream.name not in channels,
    }
    return [*config.load_warnings(stream), *(text for text, does in applies.items() if does)]


def _one_slot(terms: Terms) -> str:
    """Say what one slot of the whole window would cost that hides the same energy."""
    energy = terms.hides_wh / UNIT_FACTOR[terms.unit]
    wide = energy / Fraction(terms.length_ms, HOUR_MS) if terms.kind is Kind.POWER else energy
    radius = -(-wide // terms.quantum) * terms.quantum
    merged = replace(terms, step_ms=terms.length_ms, radius=radius, preset=None, bands=())
    length, cost = format_duration(terms.length_ms), amount(merged.sd, terms.unit)
    return f"one slot of {length} that hides the same costs {cost}"
