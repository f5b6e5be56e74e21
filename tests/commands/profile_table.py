"""Generate the sections on profiles in `meteragent/decode/profiles/README.md`, and the add-on's list of them.

`python -m tests.commands.profile_table` rewrites both, the keys of a profile's file in `docs/profiles.md`,
and the JSON Schema in deploy/.
"""

import inspect
import json
import re
from fractions import Fraction
from pathlib import Path

from meteragent.config.schema import file_schema, key_docstrings
from meteragent.config.source import FORMATS
from meteragent.decode import profile_model, profiles
from meteragent.decode.profile import Profile, Quantity
from meteragent.decode.profile_model import ProfileTable, QuantityTable, SourceTable
from meteragent.decode.profiles import PROFILES
from meteragent.domain.grid import format_duration
from meteragent.domain.units import Kind
from tests.support.not_run import ROOT

PAGE = ROOT / "docs" / "profiles.md"
README = Path(profiles.__file__).with_name("README.md")
ADD_ON = ROOT / "deploy" / "homeassistant" / "addon" / "meteragent" / "config.yaml"
SCHEMA = ROOT / "deploy" / "meteragent.schema.json"
BEGIN, END = "<!-- the table, made by tests/commands/profile_table.py -->\n", "<!-- end of the table -->\n"
_SCALES = {Fraction(1): "", Fraction(1000): "k", Fraction(1, 1000): "m"}
_ODD = {Fraction(1, 60): "W·min", Fraction(1, 3600): "J"}


def _unit(quantity: Quantity) -> str:
    if quantity.scale is None:
        return "`source.unit`"
    if quantity.scale in _ODD:
        return _ODD[quantity.scale]
    return _SCALES[quantity.scale] + ("W" if quantity.kind is Kind.POWER else "Wh")


def _quantity(name: str, quantity: Quantity) -> str:
    per = f" per {format_duration(quantity.interval_ms)}" if quantity.interval_ms else ""
    direction = f", {quantity.direction}" if quantity.direction else ""
    return f"`{name}`: {quantity.kind}{direction}, {_unit(quantity)}{per}{_step(quantity)}"


def _step(quantity: Quantity) -> str:
    """Return the steps in which an energy is counted, if they are known."""
    counts = f", {quantity.counters} counts" if quantity.counters > 1 else ""
    if quantity.is_count:
        return f" (steps of 1{counts})"
    return f" (steps of {float(quantity.step_wh):.3g} Wh{counts})" if quantity.step_wh else ""


def _quantities(profile: Profile) -> list[str]:
    """Return the quantities; those whose names differ only in a final number share an entry."""
    entries = dict[str, str]()
    for name, quantity in profile.quantities.items():
        stem, _, channel = name.rpartition("-")
        if channel.isdecimal() and stem in entries:
            entries[stem] = entries[stem].partition(" (")[0] + f" (to `{name}`)"
        else:
            entries[name] = _quantity(name, quantity)
    return [*entries.values(), *(["others by their name in the message"] if profile.named else [])]


def _time(profile: Profile) -> str:
    timed = {quantity.has_time for quantity in profile.quantities.values()}
    if len(timed) > 1:
        return "by quantity"
    return "the message's" if timed.pop() else "of arrival"


def _unsent(profile: Profile) -> list[str]:
    if not any(quantity.kind is Kind.POWER for quantity in profile.quantities.values()):
        return []
    band = f"{float(profile.dead_band_w):g} W" if profile.knows_dead_band else "`source.dead_band`"
    hold = format_duration(profile.hold_ms)
    return [f"{_period(profile)}; may differ from what was sent last by {band}; held for {hold}"]


def _period(profile: Profile) -> str:
    """Return the time between powers."""
    if profile.period_ms is None:
        return "`source.every`"
    return f"every {format_duration(profile.period_ms)}" if profile.period_ms else "on change"


def _dropped(profile: Profile) -> list[str]:
    named = [f"`{{meter}}`, {profile.identifies}"] if profile.identifies else []
    fields = [f"`{field}`" for field in profile.personal]
    return [*named, *([", ".join(fields)] if fields else [])] or []


def _section(profile: Profile) -> str:
    """Return the section on a profile."""
    rows = {
        "topics": [f"`{topic}`" for topic in profile.topics],
        "needs": ["`source.id`"] if profile.needs_id else [],
        "values": _quantities(profile),
        "time": [_time(profile)],
        "power": _unsent(profile),
        "dropped": _dropped(profile),
        "to know": list(profile.traps),
        "from": [f"{origin.address}, {origin.date}, {origin.facts}" for origin in profile.evidence.origins],
    }
    lines = [f"## `{profile.name}`", "", f"{profile.title[0].upper()}{profile.title[1:]}.", ""]
    for name, entries in rows.items():
        if len(entries) == 1:
            lines.append(f"- {name}: {entries[0]}")
        elif entries:
            lines += [f"- {name}:", *(f"  - {entry}" for entry in entries)]
    return "\n".join(lines) + "\n"


def table() -> str:
    """Return the list of all profiles, and a section on each, in Markdown."""
    rows = [("`source.profile`", "of"), ("---", "---")]
    rows += [(f"[`{profile.name}`](#{profile.name})", profile.title) for profile in PROFILES.values()]
    overview = "".join(f"| {name} | {title} |\n" for name, title in rows)
    return "\n".join([overview, *map(_section, PROFILES.values())])


def renewed_list(text: str) -> str:
    """Return the add-on's configuration with its list of formats and profiles."""
    names = "|".join([*FORMATS, *PROFILES])
    return re.sub(r"(?m)^(  profile: list\().*\)$", lambda match: f"{match[1]}{names})", text)


def key_tables() -> str:
    """Return the keys of a profile's file, with their docstrings, in Markdown."""
    docstrings = key_docstrings(inspect.getsource(profile_model))
    text = ""
    for head, model in (
        ("key", ProfileTable),
        ("key of `[quantity.NAME]`", QuantityTable),
        ("key of `[[source]]`", SourceTable),
    ):
        text += f"\n| {head} | meaning |\n|---|---|\n"
        for name, field in model.model_fields.items():
            required = " (required)" if field.is_required() else ""
            text += f"| `{name}`{required} | {' '.join(docstrings[model.__name__][name].split())} |\n"
    return text.lstrip()


def renewed(text: str, generated: str) -> str:
    """Return a text with what is between its marks generated again."""
    head, _, tail = text.partition(BEGIN)
    return head + BEGIN + "\n" + generated + "\n" + END + tail.partition(END)[2]


if __name__ == "__main__":
    README.write_text(renewed(README.read_text(), table()))
    PAGE.write_text(renewed(PAGE.read_text(), key_tables()))
    ADD_ON.write_text(renewed_list(ADD_ON.read_text()))
    SCHEMA.write_text(json.dumps(file_schema(), indent=2) + "\n")
