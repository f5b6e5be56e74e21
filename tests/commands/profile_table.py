"""Generate the table of profiles in `meteragent/decode/profiles/README.md`.

`python -m tests.commands.profile_table` rewrites the table in that file.
"""

from fractions import Fraction
from pathlib import Path

from meteragent.decode import profiles
from meteragent.decode.profile import Profile, Quantity
from meteragent.decode.profiles import PROFILES
from meteragent.domain.grid import format_duration
from meteragent.domain.units import Kind

README = Path(profiles.__file__).with_name("README.md")
BEGIN, END = "<!-- the table, made by tests/commands/profile_table.py -->\n", "<!-- end of the table -->\n"
_SCALES = {Fraction(1): "", Fraction(1000): "k", Fraction(1, 1000): "m"}
_ODD = {Fraction(1, 60): "W·min", Fraction(1, 3600): "J"}
_HEAD = (
    "`source.profile`",
    "of",
    "`source.topic`",
    "`source.value`: kind, the device's unit",
    "time",
    "power: how often; stands unsent",
    "dropped",
    "to know",
)


def _unit(quantity: Quantity) -> str:
    if quantity.scale is None:
        return "`source.unit`"
    if quantity.scale in _ODD:
        return _ODD[quantity.scale]
    return _SCALES[quantity.scale] + ("W" if quantity.kind is Kind.POWER else "Wh")


def _quantity(name: str, quantity: Quantity) -> str:
    per = f" per {format_duration(quantity.interval_ms)}" if quantity.interval_ms else ""
    return f"`{name}`: {quantity.kind}, {_unit(quantity)}{per}{_step(quantity)}"


def _step(quantity: Quantity) -> str:
    """Return the steps in which an energy is counted, if they are known."""
    counts = f", {quantity.counters} counts" if quantity.counters > 1 else ""
    if quantity.is_count:
        return f" (steps of 1{counts})"
    return f" (steps of {float(quantity.step_wh):.3g} Wh{counts})" if quantity.step_wh else ""


def _quantities(profile: Profile) -> list[str]:
    """Return the quantities; those that differ only in the number at the end of their name are one entry."""
    entries: dict[str, str] = {}
    for name, quantity in profile.quantities.items():
        stem, _, channel = name.rpartition("-")
        if channel.isdecimal() and stem in entries:
            entries[stem] = entries[stem].partition(" (")[0] + f" (to `{name}`)"
        else:
            entries[name] = _quantity(name, quantity)
    return [*entries.values(), *(["others by their name in the message"] if profile.named else [])]


def _time(profile: Profile) -> str:
    timed = {quantity.timed for quantity in profile.quantities.values()}
    if len(timed) > 1:
        return "by quantity"
    return "the message's" if timed.pop() else "of arrival"


def _unsent(profile: Profile) -> list[str]:
    if not any(quantity.kind is Kind.POWER for quantity in profile.quantities.values()):
        return ["–"]
    band = f"{float(profile.dead_band_w):g} W" if profile.dead_band_known else "`source.dead_band`"
    return [_period(profile), band, f"held for {format_duration(profile.hold_ms)}"]


def _period(profile: Profile) -> str:
    """Return the time between powers."""
    if profile.period_ms is None:
        return "`source.every`"
    return f"every {format_duration(profile.period_ms)}" if profile.period_ms else "on change"


def _dropped(profile: Profile) -> list[str]:
    named = [f"`{{meter}}`: {profile.identifies}"] if profile.identifies else []
    fields = [f"`{field}`" for field in profile.personal]
    return [*named, *([", ".join(fields)] if fields else [])] or ["–"]


def _row(profile: Profile) -> tuple[str | list[str], ...]:
    name = [f"`{profile.name}`", *(["needs `source.id`"] if profile.needs_id else [])]
    topics = [f"`{topic}`" for topic in profile.topics]
    return (
        name,
        profile.title,
        topics,
        _quantities(profile),
        _time(profile),
        _unsent(profile),
        _dropped(profile),
        list(profile.traps),
    )


def table() -> str:
    """Return the table in Markdown."""
    rows = [_HEAD, ("---",) * len(_HEAD), *map(_row, PROFILES.values())]
    cells = [["<br>".join([cell] if isinstance(cell, str) else cell) for cell in row] for row in rows]
    return "".join("| " + " | ".join(row).replace("\n", " ") + " |\n" for row in cells)


def renewed(text: str) -> str:
    """Return a text with the table between its marks generated again."""
    head, _, rest = text.partition(BEGIN)
    return head + BEGIN + "\n" + table() + "\n" + END + rest.partition(END)[2]


if __name__ == "__main__":
    README.write_text(renewed(README.read_text()))
