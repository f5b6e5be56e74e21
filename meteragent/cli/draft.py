"""The files that `init` writes, before they are on disk: a configuration, a password file, a systemd unit."""

import json
import re
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Protocol

from meteragent import __version__, config
from meteragent.domain.identity import PLACEHOLDER
from meteragent.domain.units import Kind
from meteragent.report import guarantee, wording
from meteragent.report.format import energy
from meteragent.tools.discover import Access, Findings, Offer, Proposal
from meteragent.tools.discover.words import Direction, Role

FEED_IN_W = 20_000
"""The extent of the range on each side of zero in a home with solar panels; above zero it is the default."""
_CALENDAR = {"day", "bill"}
PRESETS = {
    "television": "which TV programme is on",
    "appliance": "a kettle",
    "street": "a TV evening",
    "day": "at what time of the day you use power, with one number a day",
    "bill": "on which days you use power, with one number a month",
}
"""What each preset hides."""


class Quantity(Protocol):
    """A quantity of a meter that may be released, such as `meteragent.tools.discover.Offer`."""

    @property
    def kind(self) -> Kind:
        """The kind of the numbers."""

    @property
    def unit(self) -> str:
        """The unit of the numbers."""

    @property
    def direction(self) -> Direction:
        """The direction in which the energy flows."""

    @property
    def name(self) -> str:
        """The quantity in words."""

    @property
    def source(self) -> Mapping[str, Any]:
        """The keys of [source], except those of the broker and the meter's name."""

    def toml(self, access: Access, name: str = "home") -> str:
        """Return a configuration with this source."""


@dataclass(frozen=True, slots=True)
class Stated:
    """A quantity whose kind and unit the operator has stated; `source` has its keys."""

    source: Mapping[str, Any]
    direction: Direction = Direction.UNSTATED

    @property
    def kind(self) -> Kind:
        """The kind of the numbers."""
        return Kind(self.source["kind"])

    @property
    def unit(self) -> str:
        """The unit of the numbers."""
        return str(self.source["unit"])

    @property
    def name(self) -> str:
        """The quantity in words."""
        return f"{str(self.kind).replace('_', ' ')} in {self.unit}"

    def toml(self, access: Access, name: str = "home") -> str:
        """Return a configuration with this source."""
        keys = {"url": access.url, **dict(access.keys), "meter": name, **self.source}
        return "\n".join(["[source]", *_lines(keys)])


@dataclass(frozen=True, slots=True)
class Reading:
    """A meter that was found, with its quantities; `names` has the words by which it can be chosen.

    If `missing` is not empty, these keys of `source` must be asked for, and there are no offers yet.
    """

    names: tuple[str, ...]
    text: str
    offers: tuple[Quantity, ...] = ()
    is_main: bool = False
    missing: tuple[str, ...] = ()
    source: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stream:
    """One quantity that leaves, with the last segment of its topic."""

    offer: Quantity
    name: str


@dataclass(frozen=True, slots=True)
class Selection:
    """The streams to release, `names` by which they can be chosen, and a text for the question."""

    names: tuple[str, ...]
    text: str
    streams: tuple[Stream, ...]


@dataclass(frozen=True, slots=True)
class Base:
    """All of a configuration except its preset and its sink."""

    access: Access
    name: str
    streams: tuple[Stream, ...]
    has_solar: bool
    timezone: str


@dataclass(frozen=True, slots=True)
class Draft:
    """The files to write, by path: their content and mode; the first is the configuration."""

    config: Path
    files: Mapping[Path, tuple[str, int]]
    unit: Path | None = None


# What was found -------------------------------------------------------------------------------------


def readings_of(proposal: Proposal) -> list[Reading]:
    """Return the meters of a proposal, one by one."""
    meters = proposal.meters if len(proposal.meters) > 1 else (None,)
    readings = []
    for meter in meters:
        offers = tuple(_of_meter(offer, meter) for offer in proposal.offers)
        topic = str(offers[0].source["topic"])
        names = (topic if meter is None else meter, topic, *proposal.meters[: 1 if meter is None else 0])
        text = f"{proposal.title}, {proposal.role}: {offers[0].name}, on {topic}"
        readings.append(Reading(tuple(dict.fromkeys(names)), text, offers, proposal.role is Role.MAINS))
    return readings


def unstated(result: Findings) -> list[Reading]:
    """Return the topics that may be meters once the operator has stated their kind or unit."""
    return [
        Reading((entry.topic,), f"{entry.topic}: {entry.reason}", missing=entry.missing, source=entry.source)
        for entry in result.unplaced
        if entry.missing and entry.source
    ]


def _of_meter(offer: Offer, meter: str | None) -> Offer:
    """Return an offer for one of its meters only."""
    if meter is None:
        return offer
    candidate = offer.candidate
    place = candidate.template.split("/").index(PLACEHOLDER)
    rows = [row for row, log in enumerate(candidate.topics) if log.topic.split("/")[place] == meter]
    numbers = [candidate.numbers[row] for row in rows] if candidate.numbers else candidate.numbers
    topics = [candidate.topics[row] for row in rows]
    return Offer(replace(candidate, topics=topics, numbers=numbers, meters=(meter,)))


def selections(reading: Reading, has_solar: bool) -> list[Selection]:
    """Return the selections that a meter's readings allow, the likeliest first.

    In a home with solar panels, numbers that may fall below zero come first, then pairs of a number for
    consumption and one for feed-in, then single numbers. In other homes, feed-in is left out.
    """
    offers = _complete_offers(reading.offers)
    drawn = [offer for offer in offers if _direction(offer) is Direction.DRAWN]
    fed_in = [offer for offer in offers if _direction(offer) is Direction.FED_IN]
    net = [offer for offer in offers if _may_fall_below_zero(offer)]
    unknown = [offer for offer in offers if offer not in (*drawn, *fed_in, *net)]
    if not has_solar:
        known = [offer for offer in offers if offer not in fed_in]
        return _named([_selection((offer,), offer.name) for offer in known])
    pairs = [
        _selection((into, out), f"{into.name}, and {out.name}: two streams, whose levels add")
        for into in drawn
        for out in fed_in
        if (into.kind, into.unit) == (out.kind, out.unit)
    ]
    single_directions = [
        _selection((offer,), f"{offer.name}: what is fed in does not leave") for offer in drawn
    ]
    net_powers = [
        _selection((offer,), f"{offer.name}: one number, below zero while you feed in") for offer in net
    ]
    single_directions += [
        _selection((offer,), f"{offer.name}: check what it counts while you feed in") for offer in unknown
    ]
    return _named(net_powers + pairs + single_directions)


def _direction(offer: Quantity) -> Direction:
    """Return the stated direction, or the one that the name of a device's quantity states."""
    is_import = offer.direction is Direction.UNSTATED and "(import" in offer.name
    return Direction.DRAWN if is_import else offer.direction


def _may_fall_below_zero(offer: Quantity) -> bool:
    """Return whether a number is, or may be, negative while energy is fed in."""
    direction = _direction(offer)
    return direction is Direction.NET or (direction is Direction.UNSTATED and offer.kind is Kind.POWER)


def _complete_offers(offers: Sequence[Quantity]) -> Sequence[Quantity]:
    """Return the offers of each name without those of a single phase, unless there are no others."""
    complete_offers = [offer for offer in offers if not str(offer.source.get("value")).startswith("phase")]
    by_name = {offer.name: offer for offer in reversed(complete_offers or offers)}
    return [offer for offer in complete_offers or offers if by_name[offer.name] is offer]


def _selection(offers: Sequence[Quantity], text: str) -> Selection:
    kind = "power" if offers[0].kind is Kind.POWER else "energy"
    ends = (kind,) if len(offers) == 1 else ("drawn", "fed-in")
    streams = tuple(Stream(offer, end) for offer, end in zip(offers, ends, strict=True))
    names = [str(offer.source.get("value", "")) for offer in offers]
    return Selection(("+".join(filter(None, names)), str(offers[0].kind)), text, streams)


def _named(selections: Sequence[Selection]) -> list[Selection]:
    """Return selections with distinct first names: the quantity's name, its kind, or a number."""
    named_selections: list[Selection] = []
    used_names = set[str]()
    for place, selection in enumerate(selections, 1):
        free = [name for name in (*selection.names, f"choice-{place}") if name and name not in used_names]
        used_names.add(free[0])
        named_selections.append(replace(selection, names=(free[0], *selection.names)))
    return named_selections


# The configuration ----------------------------------------------------------------------------------


def store_path(out: Path) -> Path:
    """Return the path of the store of a configuration, in its folder."""
    return out.absolute().with_suffix(".db")


def password_path(out: Path) -> Path:
    """Return the path of the file for a typed password, in the folder of the configuration."""
    return out.absolute().with_suffix(".password")


def presets(base: Base) -> dict[str, str]:
    """Return the presets that these readings allow, each with a text on what it hides and how exact it is."""
    return {name: line for name in PRESETS if (line := _preset_line(base, name))}


def _preset_line(base: Base, preset: str) -> str | None:
    """Return a text on what a preset hides and costs; None if the readings are too coarse for it."""
    settings = config.accepted(text(base, preset, "private", "x.db", None))
    if settings is None:
        return None
    stream = settings.stream[0]
    promise = guarantee.of(stream, (), (), config.others_per_day(settings, stream))
    errors = {name: error for name, error in promise.errors.items() if name in _ERRORS}
    exact = ", ".join(
        f"{_ERRORS[name]} within ± {_figure(error.value, name)} {error.unit}"
        for name, error in errors.items()
    )
    hidden = f"{energy(promise.terms.hides_wh)} in each {wording.slot(promise.terms)}"
    return f"{preset}: hides {PRESETS[preset]} ({hidden}). 95 % of the time {exact}."


_ERRORS = {"ci95": "one number", "day_kwh": "a day", "month_kwh": "a month"}


def _figure(value: float, name: str) -> str:
    """Return half of a 95 % interval in two or three figures; a total's `value` is one standard deviation."""
    half_width = value if name == "ci95" else 1.96 * value
    return f"{half_width:,.0f}" if half_width >= 100 else f"{half_width:.2g}"


def text(base: Base, preset: str, topic: str, store: str, password: Path | None) -> str:
    """Return the text of a configuration."""
    tables = [_tables(base, stream, preset, topic, password) for stream in base.streams]
    lines = [f"# Written by meteragent init {__version__}. `meteragent check` shows what it hides and costs."]
    if len(tables) == 1:
        for name, keys in tables[0].items():
            lines += ["", f"[{name}]", *_lines(keys)]
    for stream, stream_tables in zip(base.streams, tables, strict=True) if len(tables) > 1 else ():
        lines += ["", "[[stream]]", *_lines({"name": stream.name})]
        for name, keys in stream_tables.items():
            lines += ["", f"[stream.{name}]", *_lines(keys)]
    return "\n".join([*lines, "", "[store]", *_lines({"path": store})]) + "\n"


def _tables(
    base: Base, stream: Stream, preset: str, topic: str, password: Path | None
) -> dict[str, dict[str, Any]]:
    """Return the tables of one stream, from the configuration that discovery proposes."""
    proposed = tomllib.loads(stream.offer.toml(base.access, base.name), parse_float=Decimal)
    source: dict[str, Any] = proposed["source"]
    window: dict[str, Any] = {}
    if password is not None:
        source = {
            "url": source.pop("url"),
            "username": source.pop("username"),
            "password_file": str(password),
        } | source
    if preset in _CALENDAR:
        window["timezone"] = base.timezone
    if "range" in proposed.get("window", {}) or (base.has_solar and _may_fall_below_zero(stream.offer)):
        window["range"] = [-FEED_IN_W, FEED_IN_W]
    sink = {"topic": f"{topic}/{PLACEHOLDER}/{stream.name}"}
    tables = {"source": source, "window": window, "privacy": {"preset": preset}, "sink": sink}
    return {name: keys for name, keys in tables.items() if keys}


def _lines(keys: Mapping[str, Any]) -> list[str]:
    return [f"{key} = {_value(value)}" for key, value in keys.items()]


def _value(value: Any) -> str:
    """Return a value as TOML, where strings and lists are written as in JSON."""
    return str(value) if isinstance(value, Decimal) else json.dumps(value, ensure_ascii=False)


def draft(
    base: Base, preset: str, topic: str, out: Path, password: str | None, unit_file: Path | None
) -> Draft:
    """Return the files to write; those that name or hold a secret are readable by their owner only."""
    secret = None if password is None else password_path(out)
    has_secret = secret is not None or any(key == "password_file" for key, _ in base.access.keys)
    settings = text(base, preset, topic, str(store_path(out)), secret)
    files = {out.absolute(): (settings, 0o600 if has_secret else 0o644)}
    if secret is not None:
        files[secret] = (f"{password}\n", 0o600)
    if unit_file is not None:
        unit_file = unit_file.absolute()
        files[unit_file] = (_unit(out.absolute()), 0o644)
    return Draft(out.absolute(), files, unit_file)


# The unit -------------------------------------------------------------------------------------------


def _unit(path: Path) -> str:
    """Return a systemd unit that runs the configuration as the present user."""
    return f"""# Written by meteragent init {__version__}. Install it as a service of your user:
#   mkdir -p ~/.config/systemd/user && cp THIS-FILE ~/.config/systemd/user/meteragent.service
#   systemctl --user enable --now meteragent && loginctl enable-linger
[Unit]
Description=meteragent: private smart-meter streams
After=network-online.target time-sync.target

[Service]
Type=notify
NotifyAccess=main
WatchdogSec=3min
WorkingDirectory={_escaped(str(path.parent))}
ExecStart={_quoted(sys.executable)} -m meteragent run {_quoted(str(path))}
UMask=0077
Restart=on-failure
RestartSec=5s
# 78 is a configuration that a person must correct.
RestartPreventExitStatus=78
TimeoutStopSec=30s
# Raw readings are in memory only.
LimitCORE=0
NoNewPrivileges=yes

[Install]
WantedBy=default.target
"""


def _escaped(value: str) -> str:
    """Return a path escaped so that systemd expands nothing in it."""
    return value.replace("%", "%%")


def _quoted(value: str) -> str:
    """Return a word quoted for a command line of systemd."""
    word = _escaped(value).replace("$", "$$")
    return word if re.fullmatch(r"[\w./:@%+-]+", word) else json.dumps(word, ensure_ascii=False)
