"""The files that `init` will write, and the choices from which they follow."""

import json
import re
import sys
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from meteragent import __version__, config
from meteragent.config.refuse.readings import is_too_coarse
from meteragent.domain import presets
from meteragent.domain.errors import ConfigError
from meteragent.domain.identity import PLACEHOLDER
from meteragent.domain.units import Kind
from meteragent.report import guarantee, wording
from meteragent.report.format import amount_text, energy_text
from meteragent.report.language import say
from meteragent.report.warn import cost_reason
from meteragent.texts import english_texts
from meteragent.tools.discover import Access, Findings, Offer, Proposal
from meteragent.tools.discover.configuration import toml_lines
from meteragent.tools.discover.words import Direction, Role

FEED_IN_W = 20_000
"""The magnitude of both limits of `window.range`, in W, for a quantity that may be negative."""


@dataclass(frozen=True, slots=True)
class StatedQuantity:
    """A quantity whose kind, unit or both the operator stated; `source` holds its keys."""

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

    def to_toml(self, access: Access, name: str = "home") -> str:
        """Return a configuration with this source."""
        keys = {"url": access.url, **dict(access.keys), "meter": name, **self.source}
        return "\n".join(["[source]", *toml_lines(keys)])


Quantity = Offer | StatedQuantity
"""A meter's quantity that may be released."""


@dataclass(frozen=True, slots=True)
class MeterChoice:
    """A meter on the broker, its `names` and offers, or the `missing` keys of `source` to ask for."""

    names: tuple[str, ...]
    text: str
    offers: tuple[Quantity, ...] = ()
    is_main: bool = False
    missing: tuple[str, ...] = ()
    source: Mapping[str, Any] = field(default_factory=dict)


class Stream(NamedTuple):
    """One quantity to release; `name` is the last segment of its topic."""

    offer: Quantity
    name: str


class Selection(NamedTuple):
    """Streams that can be chosen together: by one of their `names`, after a question that shows `text`."""

    names: tuple[str, ...]
    text: str
    streams: tuple[Stream, ...]


class Base(NamedTuple):
    """A configuration without preset and topic; `has_entities` adds the keys for Home Assistant."""

    access: Access
    name: str
    streams: tuple[Stream, ...]
    has_solar: bool
    timezone: str
    has_page: bool = False
    has_entities: bool = False


class Draft(NamedTuple):
    """The content and mode of the files to write: the configuration, and perhaps a password and a unit."""

    config: Path
    files: Mapping[Path, tuple[str, int]]
    unit: Path | None = None


# What was found -------------------------------------------------------------------------------------


def meter_choices(proposal: Proposal) -> list[MeterChoice]:
    """Return a separate choice for each meter in a proposal."""
    meters = proposal.meters if len(proposal.meters) > 1 else (None,)
    readings = []
    for meter in meters:
        offers = tuple(_offer_of_meter(offer, meter) for offer in proposal.offers)
        topic = str(offers[0].source["topic"])
        names = (topic, *proposal.meters[:1]) if meter is None else (meter, topic)
        role = say(f"init.role_{proposal.role.name.lower()}")
        title, quantity = _title_of(proposal), _quantity_text(offers[0])
        text = say("init.choice", title=title, role=role, quantity=quantity, topic=topic)
        readings.append(MeterChoice(tuple(dict.fromkeys(names)), text, offers, proposal.role is Role.MAINS))
    return readings


def _title_of(proposal: Proposal) -> str:
    """Return a device's title; for a built-in profile, it is in the language of the reader."""
    device = proposal.offers[0].candidate.device
    is_built_in = device and english_texts("device.").get(device.name) == proposal.title
    return say(f"device.{device.name}") if device and is_built_in else proposal.title


def _quantity_text(offer: Quantity) -> str:
    """Return a quantity's `name` in the language of the reader."""
    text = say("init.name_of_quantity", kind=say(f"init.kind_{offer.kind}"), unit=offer.unit)
    if offer.direction is not Direction.UNSTATED:
        text += f", {say(f'init.direction_{offer.direction.name.lower()}')}"
    label = offer.candidate.label if isinstance(offer, Offer) else ""
    return f"{text} ({label})" if label else text


def unstated_choices(result: Findings) -> list[MeterChoice]:
    """Return a choice for each topic that may belong to a meter, but for which some keys are unknown."""
    return [
        MeterChoice((row.topic,), f"{row.topic}: {row.reason}", missing=row.missing, source=row.source)
        for row in result.unplaced
        if row.missing and row.source
    ]


def _offer_of_meter(offer: Offer, meter: str | None) -> Offer:
    """Return an offer reduced to one of its meters; the whole offer if `meter` is None."""
    if meter is None:
        return offer
    candidate = offer.candidate
    place = candidate.template.split("/").index(PLACEHOLDER)
    rows = [row for row, log in enumerate(candidate.topics) if log.topic.split("/")[place] == meter]
    numbers = [candidate.numbers[row] for row in rows] if candidate.numbers else candidate.numbers
    topics = [candidate.topics[row] for row in rows]
    return Offer(replace(candidate, topics=topics, numbers=numbers, meters=(meter,)))


def possible_selections(reading: MeterChoice, has_solar: bool) -> list[Selection]:
    """Return the selections that a meter's quantities allow, the most likely first.

    With solar panels, quantities that may be negative come first, then pairs of consumption and feed-in, then
    single quantities. Feed-in alone is never offered.
    """
    offers = _complete_offers(reading.offers)
    imports = [offer for offer in offers if _direction_of(offer) is Direction.DRAWN]
    exports = [offer for offer in offers if _direction_of(offer) is Direction.FED_IN]
    net = [offer for offer in offers if _may_be_negative(offer)]
    unknown = [offer for offer in offers if offer not in (*imports, *exports, *net)]
    if not has_solar:
        return _with_names(
            [_selection((offer,), _quantity_text(offer)) for offer in offers if offer not in exports]
        )
    pairs = [
        _selection(
            (offer, export), say("init.pair", drawn=_quantity_text(offer), fed_in=_quantity_text(export))
        )
        for offer in imports
        for export in exports
        if (offer.kind, offer.unit) == (export.kind, export.unit)
    ]
    net_powers, single_imports, single_unknown = (
        [_selection((offer,), f"{_quantity_text(offer)}: {say(remark)}") for offer in group]
        for group, remark in ((net, "init.net"), (imports, "init.drawn_only"), (unknown, "init.unstated"))
    )
    return _with_names(net_powers + pairs + single_imports + single_unknown)


def _direction_of(offer: Quantity) -> Direction:
    """Return the stated direction; if none is stated, the direction that the quantity's name implies."""
    is_import = offer.direction is Direction.UNSTATED and "(import" in offer.name
    return Direction.DRAWN if is_import else offer.direction


def _may_be_negative(offer: Quantity) -> bool:
    """Return whether the quantity may be negative while energy is fed in."""
    direction = _direction_of(offer)
    return direction is Direction.NET or (direction is Direction.UNSTATED and offer.kind is Kind.POWER)


def _complete_offers(offers: Sequence[Quantity]) -> Sequence[Quantity]:
    """Return the first offer of each name; leave out offers of a single phase unless there are no others."""
    complete_offers = [offer for offer in offers if not str(offer.source.get("value")).startswith("phase")]
    by_name = {offer.name: offer for offer in reversed(complete_offers or offers)}
    return [offer for offer in complete_offers or offers if by_name[offer.name] is offer]


def _selection(offers: Sequence[Quantity], text: str) -> Selection:
    kind = "power" if offers[0].kind is Kind.POWER else "energy"
    segments = (kind,) if len(offers) == 1 else ("drawn", "fed-in")
    streams = tuple(Stream(offer, segment) for offer, segment in zip(offers, segments, strict=True))
    names = [str(offer.source.get("value", "")) for offer in offers]
    return Selection(("+".join(filter(None, names)), str(offers[0].kind)), text, streams)


def _with_names(selections: Sequence[Selection]) -> list[Selection]:
    """Return the selections, each with a unique first name (one of its own names, or `choice-N`)."""
    named_selections: list[Selection] = []
    used_names = set[str]()
    for place, selection in enumerate(selections, 1):
        names = [name for name in (*selection.names, f"choice-{place}") if name and name not in used_names]
        used_names.add(names[0])
        named_selections.append(selection._replace(names=(names[0], *selection.names)))
    return named_selections


# The configuration ----------------------------------------------------------------------------------


def path_beside(out: Path, suffix: str) -> Path:
    """Return the path of a configuration's store (.db) or file for a typed password (.password)."""
    return out.absolute().with_suffix(suffix)


def lines_of_presets(base: Base) -> dict[str, str]:
    """Return the presets that `base` allows, each with a line about what it hides and its errors."""
    return {name: line for name in presets.OFFERED_PRESETS if (line := _preset_line(base, name))}


def _preset_line(base: Base, preset: str) -> str | None:
    """Return a line about what a preset hides and the first stream's errors; None if it would be refused."""
    settings = config.parse_or_none(configuration_text(base, preset, "private", "x.db", None))
    if settings is None:
        return None
    stream = settings.stream[0]
    promise = guarantee.compute_guarantee(stream, (), (), config.other_charges_per_day(settings, stream))
    exact = ", ".join(
        f"{say(key)} ± {amount_text(error.value * (1 if name == 'ci95' else 1.96), error.unit)}"
        for name, key in _ERRORS.items()
        if (error := promise.errors.get(name))
    )
    energy, slot = energy_text(promise.terms.hides_wh), wording.slot_phrase(promise.terms)
    hides = say(f"hides.{preset}")
    return say("init.offer", preset=preset, hides=hides, energy=energy, slot=slot, errors=exact)


_ERRORS = {"ci95": "cost.number", "day_kwh": "cost.day", "month_kwh": "init.month"}


def refusal_of_preset(base: Base, preset: str) -> str | None:
    """Return why `check` would refuse a preset; None if it would not."""
    try:
        settings = config.parse(configuration_text(base, preset, "private", "x.db", None))
    except ConfigError as error:
        return str(error)
    reasons = (
        cost_reason(config.terms(stream)) if is_too_coarse(stream) else str(refusal)
        for stream, refusal in config.reading_refusals(settings)
    )
    return next(reasons, None)


def finer_register(base: Base, reading: MeterChoice, coarse: Collection[str]) -> str | None:
    """Return the title of one of the meter's registers that allows all presets in `coarse`, or None."""
    for selection in possible_selections(reading, base.has_solar):
        kinds = [stream.offer.kind for stream in selection.streams]
        finer = base._replace(streams=selection.streams)
        if kinds == [Kind.REGISTER] and not any(refusal_of_preset(finer, preset) for preset in coarse):
            return selection.text
    return None


def configuration_text(base: Base, preset: str, topic: str, store: str, password: Path | None) -> str:
    """Return the text of a configuration."""
    tables = [_toml_tables(base, stream, preset, topic, password) for stream in base.streams]
    lines = [f"# Written by meteragent init {__version__}. `meteragent check` shows what it hides and costs."]
    prefix = "stream." if len(tables) > 1 else ""
    for stream, stream_tables in zip(base.streams, tables, strict=True):
        lines += ["", "[[stream]]", *toml_lines({"name": stream.name})] if prefix else []
        for name, keys in stream_tables.items():
            lines += ["", f"[{prefix}{name}]", *toml_lines(keys)]
    lines += ["", "[page]"] if base.has_page else []
    return "\n".join([*lines, "", "[store]", *toml_lines({"path": store})]) + "\n"


def _toml_tables(
    base: Base, stream: Stream, preset: str, topic: str, password: Path | None
) -> dict[str, dict[str, Any]]:
    """Return the tables of one stream, taken from the configuration that discovery proposes."""
    proposed = tomllib.loads(stream.offer.to_toml(base.access, base.name), parse_float=Decimal)
    source: dict[str, Any] = proposed["source"]
    window: dict[str, Any] = {}
    if password is not None:
        login = {"url": source.pop("url"), "username": source.pop("username")}
        source = login | {"password_file": str(password)} | source
    if presets.PRESETS[preset].has_calendar:
        window["timezone"] = base.timezone
    if "range" in proposed.get("window", {}) or (base.has_solar and _may_be_negative(stream.offer)):
        window["range"] = [-FEED_IN_W, FEED_IN_W]
    sink = {"topic": f"{topic}/{PLACEHOLDER}/{stream.name}"}
    if base.has_entities:
        place = f"/{stream.name}" if len(base.streams) > 1 else ""
        sink |= {"status": f"meteragent/status{place}", "home_assistant": "homeassistant"}
    tables = {"source": source, "window": window, "privacy": {"preset": preset}, "sink": sink}
    return {name: keys for name, keys in tables.items() if keys}


def draft_files(
    base: Base, preset: str, topic: str, out: Path, password: str | None, unit_file: Path | None
) -> Draft:
    """Return the files to write; files with a password, or the name of a password file, have mode 600."""
    secret = None if password is None else path_beside(out, ".password")
    has_secret = secret is not None or any(key == "password_file" for key, _ in base.access.keys)
    settings = configuration_text(base, preset, topic, str(path_beside(out, ".db")), secret)
    files = {out.absolute(): (settings, 0o600 if has_secret else 0o644)}
    if secret is not None:
        files[secret] = (f"{password}\n", 0o600)
    if unit_file is not None:
        unit_file = unit_file.absolute()
        files[unit_file] = (_unit_text(out.absolute()), 0o644)
    return Draft(out.absolute(), files, unit_file)


# The unit -------------------------------------------------------------------------------------------


def _unit_text(path: Path) -> str:
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
WorkingDirectory={str(path.parent).replace("%", "%%")}
ExecStart={_quote_word(sys.executable)} -m meteragent run {_quote_word(str(path))}
UMask=0077
Restart=on-failure
RestartSec=5s
# 78 means that the configuration must be corrected by hand.
RestartPreventExitStatus=78
TimeoutStopSec=30s
# Raw readings exist only in memory.
LimitCORE=0
NoNewPrivileges=yes

[Install]
WantedBy=default.target
"""


def _quote_word(value: str) -> str:
    """Return a word, quoted so that systemd expands nothing in it on a command line."""
    word = value.replace("%", "%%").replace("$", "$$")
    return word if re.fullmatch(r"[\w./:@%+-]+", word) else json.dumps(word, ensure_ascii=False)
