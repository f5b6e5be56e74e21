"""A candidate's configuration, which the agent accepts without changes."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from math import ceil
from typing import Any

from meteragent import config
from meteragent.config.model import Broker
from meteragent.domain.figures import exact_text
from meteragent.domain.grid import format_duration
from meteragent.domain.identity import PHASE, PLACEHOLDER
from meteragent.domain.presets import DEFAULT, PRESETS, SLOT_MS
from meteragent.domain.units import HOUR_MS, MINUTE_MS, Kind
from meteragent.mqtt import Endpoint
from meteragent.tools.discover.candidate import Candidate
from meteragent.tools.discover.listener import cadence_ms

_KEY_FILE = "pseudonym.key"
_MAKE_KEY = f"(umask 077; head -c 32 /dev/urandom | base64 > {_KEY_FILE})"
_OTHER_PRESETS = [name for name, preset in PRESETS.items() if preset.length == SLOT_MS and name != DEFAULT]
"""Other half-hour presets, which are mentioned next to the proposed preset if they are accepted."""
_USUAL_PERIODS_S = (5, 10, 15, 20, 30, 60)
_JITTER = 1.05
"""The factor by which the time between messages may exceed the period to which it is rounded."""
_USUAL_INTERVALS_MIN = (1, 5, 10, 15, 30, 60)


@dataclass(frozen=True, slots=True)
class Access:
    """The broker and its login, as configuration keys."""

    url: str
    keys: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, url: str, keys: Mapping[str, object]) -> "Access":
        """Return the access at `url`, with the entries of `keys` that belong to a login and are not None."""
        pairs = ((key, keys.get(key)) for key in Broker.model_fields)
        return cls(url, tuple((key, str(value)) for key, value in pairs if value is not None))

    def endpoint(self, password: str | None) -> Endpoint:
        """Return the broker. Raises ValueError if its address or a file cannot be used."""
        keys: dict[str, Any] = {key: value for key, value in self.keys if key != "password_file"}
        return replace(Endpoint.parse(self.url), password=password, **keys)


def configuration_toml(candidate: Candidate, access: Access, name: str = "home") -> str:
    """Return a configuration that is accepted without changes; `name` is the name of a single meter.

    Several meters need a key file. Readings that are too sparse for half-hour slots get daily windows.
    Readings for which the half-hour or daily preset is refused get monthly windows.
    """

    def allows(preset: str) -> bool:
        """Return whether the readings allow a preset."""
        return _is_accepted(candidate, _toml(candidate, access, name, [f'preset = "{preset}"']))

    usual = "day" if is_slow(candidate) else DEFAULT
    if not allows(usual):
        return _monthly(candidate, access, name)
    if usual != DEFAULT:
        return _toml(candidate, access, name, [f'preset = "{usual}"'])
    remark = "`meteragent check` shows what it hides and costs"
    if alternatives := [preset for preset in _OTHER_PRESETS if allows(preset)]:
        remark += f"; others: {', '.join(alternatives)}"
    return _toml(candidate, access, name, [f'preset = "{DEFAULT}"  # {remark}'])


def _monthly(candidate: Candidate, access: Access, name: str) -> str:
    """Return a configuration with monthly windows, for readings that are too coarse for shorter windows."""
    lines = ['preset = "bill"  # readings are too coarse for shorter windows']
    every = _usual_period(candidate)
    if every is not None:
        finer = _toml(candidate, access, name, [f'preset = "{DEFAULT}"'], every=every)
        if _is_accepted(candidate, finer):
            lines += [
                f'# if the device always sends at least every {every}, set source.every = "{every}",',
                f'# choose "{DEFAULT}" and remove window.timezone',
            ]
    return _toml(candidate, access, name, lines, needs_zone=True)


def _usual_period(candidate: Candidate) -> str | None:
    """Return the shortest common period of power reports that is at least 1.5 times the observed median."""
    every_ms = cadence_ms(candidate.topics)
    if candidate.kind is not Kind.POWER or every_ms is None:
        return None
    periods = (seconds for seconds in _USUAL_PERIODS_S if 2 * seconds * 1000 >= 3 * every_ms)
    return next((f"{seconds}s" for seconds in periods), None)


def _register_period(candidate: Candidate) -> str | None:
    """Return a register's period, near the observed median; None if the profile's period suffices.

    The period is an hour if no topic had two live messages, because too long a period loses nothing.
    """
    if candidate.kind is not Kind.REGISTER:
        return None
    device, heard_ms = candidate.device, cadence_ms(candidate.topics)
    known_ms = (
        0 if device is None else device.usual_period_ms(device.find_quantity(candidate.kind, candidate.value))
    )
    if known_ms and (heard_ms or 0) <= _JITTER * known_ms:
        return None
    if heard_ms is None:
        return format_duration(HOUR_MS)
    periods_ms = (1000 * seconds for seconds in (1, 2, *_USUAL_PERIODS_S, 120, 300, 600, 900, 1800))
    longer_ms = HOUR_MS * ceil(heard_ms / HOUR_MS)
    return format_duration(next((ms for ms in periods_ms if heard_ms <= _JITTER * ms), longer_ms))


def _is_accepted(candidate: Candidate, text: str) -> bool:
    device = candidate.device
    return config.parse_or_none(text, {} if device is None else {device.name: device}) is not None


def _toml(
    candidate: Candidate,
    access: Access,
    name: str,
    privacy: list[str],
    *,
    needs_zone: bool = False,
    every: str | None = None,
) -> str:
    """Return a configuration with the lines `privacy`, and a zone if `needs_zone` or readings are rare."""
    has_many = len(candidate.meters) > 1
    every = every or _register_period(candidate)
    keys = dict(source_keys(candidate)) | ({} if every is None else {"every": every})
    if not has_many:
        keys = {"topic": keys.pop("topic"), "meter": name, **keys}
    source = {"url": access.url, **dict(access.keys), **keys}
    sink = {"topic": f"private/{PLACEHOLDER}/{'power' if candidate.kind is Kind.POWER else 'energy'}"}
    if has_many:
        sink["pseudonym_key_file"] = _KEY_FILE
    tables = {
        "source": toml_lines(source),
        "window": _window(candidate, needs_zone),
        "privacy": privacy,
        "sink": toml_lines(sink),
    }
    if has_many:
        tables["sink"].append(f"# make the key once: {_MAKE_KEY}")
    return "\n".join(f"[{name}]\n" + "\n".join(lines) for name, lines in tables.items() if lines)


def source_keys(candidate: Candidate) -> Mapping[str, Any]:
    """Return a candidate's keys of `[source]`, without the broker's keys and without `meter`."""
    keys: dict[str, Any] = {"topic": _topic(candidate), "profile": candidate.profile}
    for key, path in (("value", candidate.value), ("time", candidate.time)):
        keys |= {} if path is None else {key: path}
    if candidate.ids and candidate.device is not None and candidate.device.needs_id:
        keys["id"] = candidate.ids.most_common(1)[0][0]
    if candidate.phases:
        keys["phases"] = list(candidate.phases)
    keys |= {"kind": str(candidate.kind), "unit": candidate.unit}
    if candidate.unit_topic is not None and len(candidate.meters) < 2 and not candidate.phases:
        keys["unit_topic"] = candidate.unit_topic
    if candidate.factor is not None:
        keys["scale"] = candidate.factor
    if candidate.kind is Kind.INTERVAL_ENERGY and candidate.interval_ms is None:
        every_ms = cadence_ms(candidate.topics) or 15 * MINUTE_MS
        nearest = min(_USUAL_INTERVALS_MIN, key=lambda minutes: abs(minutes * MINUTE_MS - every_ms))
        keys["interval"] = format_duration(nearest * MINUTE_MS)
    return keys


def _topic(candidate: Candidate) -> str:
    """Return the topic; {meter} stays only if there are several meters."""
    if len(candidate.meters) > 1:
        return candidate.template
    segments = candidate.topics[0].topic.split("/")
    free = {PLACEHOLDER} if candidate.phases else {PLACEHOLDER, PHASE}
    parts = zip(candidate.template.split("/"), segments, strict=True)
    return "/".join(segment if part in free else part for part, segment in parts)


def toml_lines(table: Mapping[str, Any]) -> list[str]:
    """Format the keys of a table as TOML."""
    return [f"{key} = {toml_value(value)}" for key, value in table.items()]


def toml_value(value: Any) -> str:
    """Format a key's value as TOML, which writes strings and lists as JSON does."""
    if isinstance(value, Fraction):
        text = exact_text(value)
        return f'"{text}"' if "/" in text else text
    if isinstance(value, Decimal):
        return str(value)
    return json.dumps(value, ensure_ascii=False)


def is_slow(candidate: Candidate) -> bool:
    """Return whether readings are too rare for half-hour slots."""
    every_ms = cadence_ms(candidate.topics)
    return every_ms is not None and 2 * every_ms > SLOT_MS


def _window(candidate: Candidate, needs_zone: bool) -> list[str]:
    lines = (
        ['timezone = "UTC"  # yours, such as "Europe/Amsterdam"'] if needs_zone or is_slow(candidate) else []
    )
    if candidate.kind is Kind.POWER and any(number < 0 for topic in candidate.watts for number in topic):
        lines.append("range = [-20000, 20000]")
    return lines
