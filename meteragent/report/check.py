"""What a configuration promises and what it costs, said before anything is released (law 8)."""

import json
import math
import textwrap
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from meteragent import config as settings
from meteragent.domain.figures import exact
from meteragent.domain.grid import format_duration
from meteragent.domain.terms import Clock, Space, Terms
from meteragent.domain.units import DAY_MS, HOUR_MS, UNIT_FACTOR, Kind
from meteragent.privacy.accuracy import half_width, sd
from meteragent.privacy.inference import success_bound
from meteragent.report.event import EVENTS, Event, distances
from meteragent.report.format import MEAN_W, amount
from meteragent.store import mount
from meteragent.wire.descriptor import TermsDescriptor, describe

MONTH_DAYS = 30
HOMES = (100, 1000)
TIMES = (1, 14, 30)
"""How often an event happens: once, every day for two weeks, for a month."""
FIT = 0.1
"""An error below this part of what is measured is marked as fit for use."""
LEARNT = 95
"""From so many right guesses of 100 on, something is known."""
_SLOTS_MANY = 12
_WIDTH = 104
ARCHIVE = "For `meteragent sanitise`: the noise comes from a key, and whoever has the key can take it off."
_LEVEL_HIGH = 4


def facts(
    stream: settings.Stream,
    events: Sequence[Event] = EVENTS,
    channels: Collection[str] = (),
    others: Fraction = Fraction(0),
    *,
    archived: bool = False,
) -> dict[str, Any]:
    """A stream's guarantee, its errors, what is hidden, and warnings; names as in the descriptor.

    Errors are one standard deviation: of a number in the unit, of totals in kWh, of the mean of
    100 and 1,000 homes (a number each, same slot) in the unit; `fit_for` names those below a tenth
    of what an average home uses. `hidden` says of each event how often anybody is right about it.
    `channels` are the streams that the store knows; `others` is what the other streams of the
    configuration charge a meter that has them all on a day, as epsilon in 1/W. `archived`: it has
    an [archive], so `sanitise` releases it, with noise from a key.
    """
    terms = terms_of(stream, others, archived=archived)
    shared = describe(terms, archive=archived)
    errors = _errors(shared)
    hidden = [_hidden(event, shared) for event in events]
    return {
        "stream": stream.name,
        "id": shared.id,
        **shared.facts,
        **settings.facts_of_loads(terms),
        **_fleet(stream),
        "errors": {name: float(f"{error:.4g}") for name, error in errors.items()},
        "fit_for": [name for name, error in errors.items() if error < FIT * _usual(name, terms)],
        "hidden": hidden,
        "warnings": [*warnings(stream, channels, archived=archived), *_habits(hidden)],
        "does_not_hide": _not_hidden(terms),
    }


def terms_of(stream: settings.Stream, others: Fraction = Fraction(0), *, archived: bool = False) -> Terms:
    """Return the terms of an ordinary window, as the agent releases it or as `sanitise` does."""
    return settings.terms(stream, others, "half-up") if archived else settings.terms(stream, others)


def _fleet(stream: settings.Stream) -> dict[str, str]:
    """Which meters an agent of a fleet has, in words."""
    source = stream.source
    if source.shard is None:
        return {}
    reads = settings.topic_of(source)
    chosen = f"whose names hash (FNV-1a) to {source.shard.number} modulo {source.shard.count}"
    meters = f"those on {reads.filter}" if reads.shard is None else f"those of {reads.filter} {chosen}"
    return {"shard": str(source.shard), "shard_meters": meters}


def quantised(distance: Fraction, quantum: Fraction) -> Fraction:
    """What a distance is at most after rounding to the lattice: q * ceil(d / q)."""
    return -(-distance // quantum) * quantum


def _errors(shared: TermsDescriptor) -> dict[str, float]:
    terms, noise = shared.terms, shared.terms.mechanism
    number = sd(noise, terms.rounding)
    errors = {"number": number, "ci95": half_width(noise, 0.95, terms.rounding)}
    for name, days in (("day_kwh", 1), ("month_kwh", MONTH_DAYS)):
        if terms.length_ms <= days * DAY_MS and _is_filled(terms):
            windows = days * DAY_MS / terms.length_ms
            errors[name] = number * math.sqrt(windows) * math.hypot(*_kwh_per_unit(terms))
    for homes in HOMES:
        errors[f"mean_of_{homes}"] = number / math.sqrt(homes)
    return errors


def _is_filled(terms: Terms) -> bool:
    """Whether the slots of a window are all of its time."""
    return sum(map(terms.slot_ms, range(terms.n))) == terms.length_ms


def _usual(name: str, terms: Terms) -> float:
    """What an average home has where the error `name` is."""
    days = {"day_kwh": 1, "month_kwh": MONTH_DAYS}.get(name)
    if days is not None:
        return MEAN_W * 24 * days / 1000
    if name == "ci95":
        return 0.0
    return MEAN_W * terms.step_ms / HOUR_MS / 1000 / min(_kwh_per_unit(terms))


def _hidden(event: Event, shared: TermsDescriptor) -> dict[str, Any]:
    """How often anybody can be right about an event, out of 100, when either answer is as likely."""
    times = TIMES if event.daily else TIMES[:1]
    right = {str(often): right_of_100(event, shared, often) for often in times}
    return {
        "event": event.name,
        "watts": event.power_w,
        "wh": str(event.energy_wh),
        "source": event.source,
        "right_of_100": right,
    }


def right_of_100(event: Event, shared: TermsDescriptor, days: int) -> int:
    """How often of 100 anybody is right about an event that happens on so many days, rounded up."""
    return math.ceil(100 * _right(event, shared, days) - 1e-6)


def _right(event: Event, shared: TermsDescriptor, days: int) -> float:
    """The largest chance to be right about an event that happens on so many days.

    An event that starts just off the grid is rounded up in two windows instead of one: a quantum
    more in its last window covers that. Where a window holds several days, they move it together.
    """
    terms, off_grid = shared.terms, shared.terms.quantum
    if terms.length_ms < DAY_MS:
        ways = [(*way[:-1], way[-1] + off_grid) for way in distances(event, terms)]
        return max(success_bound(shared.terms.mechanism, way, days) for way in ways)
    ways = [tuple(d + off_grid for d in way) for way in distances(event, terms, days)]
    return max(success_bound(shared.terms.mechanism, way) for way in ways)


def _habits(hidden: Sequence[dict[str, Any]]) -> list[str]:
    """What is hidden when it happens once, and learnt when it happens every day."""
    once, month = str(TIMES[0]), str(TIMES[-1])
    learnt = [
        row["event"]
        for row in hidden
        if row["right_of_100"][once] < LEARNT <= row["right_of_100"].get(month, 0)
    ]
    return [f"a habit is learnt within a month: {', '.join(learnt)}"] if learnt else []


def _kwh_per_unit(terms: Terms) -> list[float]:
    """The energy of each slot of a window, in kWh, per unit of its value."""
    base = Fraction(UNIT_FACTOR[terms.unit], 1000)
    if terms.kind is not Kind.POWER:
        return [float(base)] * terms.n
    return [float(base * terms.slot_ms(place) / HOUR_MS) for place in range(terms.n)]


def warnings(stream: settings.Stream, channels: Collection[str] = (), *, archived: bool = False) -> list[str]:
    """What is allowed and probably not meant; `channels` are the streams that the store knows."""
    # Readings of an archive have a column of times, which [archive] names: no message brings one.
    timed = archived or settings.has_times(stream.source)
    terms = settings.terms(stream)
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
    high = f"level {exact(terms.level)} lets the odds change by a factor of {odds(terms):.3g}"
    names = ", ".join(sorted(channels))
    new = f"the store knows {names}, not {stream.name}: on the same meters a new stream adds to the spent"
    quantum = amount(float(terms.quantum), terms.unit)
    coarse = f"the quantum of {quantum} is coarser than the noise: a finer one is free"
    energy_late = terms.kind is not Kind.POWER and terms.lateness_ms == 0
    found = {
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
    return [*settings.load_warnings(stream), *(text for text, applies in found.items() if applies)]


def _one_slot(terms: Terms) -> str:
    """What one slot of the whole window would cost that hides the same energy."""
    step_h = Fraction(terms.length_ms, HOUR_MS)
    energy = terms.hides_wh / UNIT_FACTOR[terms.unit]
    wide = energy / step_h if terms.kind is Kind.POWER else energy
    radius = -(-wide // terms.quantum) * terms.quantum
    one = describe(replace(terms, step_ms=terms.length_ms, radius=radius, preset=None, bands=()))
    length = format_duration(terms.length_ms)
    cost = amount(sd(one.terms.mechanism, terms.rounding), terms.unit)
    return f"one slot of {length} that hides the same costs {cost}"


def _not_hidden(terms: Terms) -> list[str]:
    hides = amount(float(terms.hides_wh), "Wh")
    return [
        f"an event that moves much more than {hides} within one {slot(terms)}",
        "what repeats: the levels of its windows add, and in the end it is learnt",
        "that the meter exists, and its grid in time: they are public",
        "the exact bill, if you send it elsewhere",
    ]


def as_json(found: Sequence[dict[str, Any]]) -> str:
    """The facts of all streams as JSON."""
    return json.dumps({"streams": found}, indent=2)


def as_text(found: Sequence[dict[str, Any]], config: settings.Config) -> str:
    """The facts of all streams in words."""
    both = zip(found, config.stream, strict=True)
    archived = config.archive is not None
    streams = [_stream_text(facts, terms_of(stream, archived=archived)) for facts, stream in both]
    kept = mount.warning(config.store.path)
    lines = [*settings.exposed(config), *([kept] if kept else [])]
    exposed = "\n".join(f"Warning: {line}" for line in lines)
    return "\n\n".join(filter(None, [exposed, *streams]))


def odds(terms: Terms) -> float:
    """The factor by which a window changes the odds at most: e^level."""
    return math.exp(min(float(terms.level), 99))


def _stream_text(found: dict[str, Any], terms: Terms) -> str:
    sections: list[Callable[[dict[str, Any], Terms], list[str]]] = [
        _head,
        _promise,
        _cost,
        _table,
        _end,
    ]
    return "\n".join(line for section in sections for line in section(found, terms))


def _head(found: dict[str, Any], terms: Terms) -> list[str]:
    slots = "one number each" if terms.n == 1 else f"{terms.n} numbers each"
    what = {Space.CURVE: f", the means of {terms.n} blocks of a curve", Space.PROFILE: ", a mean day"}
    slots += what.get(terms.space, "")
    head = f"Stream {found['stream']}: {terms.kind} in {terms.unit}, {windows(terms)}, {slots}"
    fleet = [f"  Shard {found['shard']} of a fleet: {found['shard_meters']}."] if "shard" in found else []
    archive = [f"  {ARCHIVE}"] if found["schedule"] == "archive" else []
    return [head, *fleet, *archive, ""]


def windows(terms: Terms) -> str:
    """The windows in words."""
    if terms.timezone is None:
        return f"windows of {format_duration(terms.length_ms)}"
    days = terms.length_ms // DAY_MS
    name = {1: "days", 7: "weeks"}.get(days, "months")
    return f"local {name} of {terms.timezone}"


def slot(terms: Terms) -> str:
    """A slot in words; of a mean day, its shortest band."""
    if terms.bands:
        return f"band of the day ({format_duration(terms.step_ms)} in all)"
    return f"slot of {format_duration(terms.step_ms)}"


def _promise(found: dict[str, Any], terms: Terms) -> list[str]:
    what = "slot means" if terms.kind is Kind.POWER else "slot energies"
    factor = f"e^{exact(terms.level)} = {odds(terms):.3g}"
    hides = amount(float(terms.hides_wh), "Wh")
    around = " and the readings around it" if terms.kind is Kind.REGISTER else ""
    follow = found.get("level_of_loads") == found["level"] and "dead_band" not in found
    of_what, said = ("load shapes", "") if follow else ("courses of readings", ", in what the readings say")
    return [
        "The promise",
        f"  For any two {of_what} whose {what} differ by at most {exact(terms.radius)} {terms.unit},",
        f"  what leaves in a window changes the odds between them by a factor of at most {factor}.",
        f"  Exactly: epsilon = {found['epsilon']} per {terms.unit}, on multiples of {exact(terms.quantum)}.",
        f"  Hidden{said}: whatever moves at most {hides} within any {slot(terms)}{around}.",
        f"  Levels of windows add: {_per_day(terms)}. What repeats is learnt.",
        *_together(found),
        *_on_change(found, terms),
        *(f"  {line}" for line in textwrap.wrap(of_loads(found, terms), _WIDTH)),
        "",
    ]


def _together(found: dict[str, Any]) -> list[str]:
    """What several streams on one meter cost it: they add."""
    if "meter_epsilon_per_day" not in found:
        return []
    total = float(Fraction(found["meter_epsilon_per_day"]))
    return [f"  Streams add too: a meter that all streams here read is charged {total:.3g} per W a day."]


def of_loads(found: Mapping[str, Any], terms: Terms) -> str:
    """Say what of the promise holds for the load itself."""
    if unknown := found["loads"]["unknown"]:
        keys = " and ".join(unknown)
        return f"For the load itself that holds as far as readings follow it; {keys} would say how far."
    level, hides = float(Fraction(found["level_of_loads"])), amount(float(terms.hides_wh), "Wh")
    steps = ""
    if terms.kind is not Kind.POWER and terms.dead_band:
        each = float(terms.epsilon * terms.dead_band * terms.counters)
        steps = f" A step that it moved stays moved: each later slot may cost a level of {each:.2g}."
    return (
        f"For the load itself: what moves {hides} within a slot, in one go, changes the odds by a factor of"
        f" at most e^{level:.3g} = {math.exp(min(level, 99)):.3g}.{steps}"
    )


def _on_change(found: dict[str, Any], terms: Terms) -> list[str]:
    """What a device that reports on change makes of the promise for what the home really used."""
    if "dead_band" not in found:
        return []
    band, level = f"{found['dead_band']} {terms.unit}", Fraction(found["level_of_curves"])
    what = f"The device reports on change, and lets the power go {band} from what it said last"
    if terms.kind is not Kind.POWER:
        what = f"The meter counts in steps of {band}"
    return [
        f"  {what}: for what the home",
        f"  really used, the factor is e^{exact(level)} = {math.exp(min(float(level), 99)):.3g}.",
    ]


def _per_day(terms: Terms) -> str:
    if terms.length_ms > DAY_MS:
        return f"{exact(terms.level)} in each of the {windows(terms)}"
    return f"{exact(terms.level * DAY_MS / terms.length_ms)} a day"


def _cost(found: dict[str, Any], terms: Terms) -> list[str]:
    errors, unit, fit = found["errors"], terms.unit, found["fit_for"]
    band = amount(errors["ci95"], unit)
    rows = [("a number", "number", f"{amount(errors['number'], unit)} (95 % within {band})")]
    for name, key in (("a day", "day_kwh"), (f"a month of {MONTH_DAYS} days", "month_kwh")):
        if key in errors:
            rows.append((name, key, amount(errors[key], "kWh")))
    for homes in HOMES:
        key = f"mean_of_{homes}"
        rows.append((f"the mean of {homes:,} homes", key, amount(errors[key], unit)))
    marks = dict.fromkeys(fit, f"   fit for use: below {FIT:.0%} of a home of {MEAN_W} W")
    lines = [f"  {name:<26}{text}{marks.get(key, '')}" for name, key, text in rows]
    return ["What it costs (one standard deviation)", *lines, ""]


def _table(found: dict[str, Any], _: Terms) -> list[str]:
    if not found["hidden"]:
        return []
    head = f"  {'':<26}{'moves':>9}  {'once':>5}  {'14 days':>8}  {'30 days':>8}"
    lines = ["What anybody can tell: right in at most so many of 100 guesses (50 is a coin)", head]
    for row in found["hidden"]:
        cells = [str(row["right_of_100"].get(str(often), "-")) for often in TIMES]
        energy = amount(float(Fraction(row["wh"])) / 1000, "kWh")
        lines.append(f"  {row['event']:<26}{energy:>9}  {cells[0]:>5}  {cells[1]:>8}  {cells[2]:>8}")
    return [*lines, ""]


def _end(found: dict[str, Any], _: Terms) -> list[str]:
    lines = [f"Warning: {text}" for text in found["warnings"]]
    lines += [""] if lines else []
    return [*lines, "Does NOT hide: " + "; ".join(found["does_not_hide"]) + "."]
