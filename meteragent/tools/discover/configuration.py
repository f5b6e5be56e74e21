"""The configuration of a candidate, which the agent accepts without changes."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from meteragent import config
from meteragent.domain.grid import format_duration
from meteragent.domain.identity import PHASE, PLACEHOLDER
from meteragent.domain.units import MINUTE_MS, Kind
from meteragent.tools.discover.candidate import Candidate
from meteragent.tools.discover.listener import cadence_ms

SLOT_MS = 30 * MINUTE_MS
_KEY_FILE = "pseudonym.key"
_MAKE_KEY = f"(umask 077; head -c 32 /dev/urandom | base64 > {_KEY_FILE})"
_USUAL_INTERVALS_MIN = (1, 5, 10, 15, 30, 60)


@dataclass(frozen=True, slots=True)
class Access:
    """The broker and its login, as keys of the configuration."""

    url: str
    keys: tuple[tuple[str, str], ...] = ()


def toml(candidate: Candidate, access: Access, name: str = "home") -> str:
    """Return a configuration that is accepted without changes; a single meter gets a neutral `name`.

    Several meters need a key file. Readings that are too sparse or too coarse for half hours get monthly
    windows.
    """
    text = _toml(candidate, access, name, coarse=False)
    return _toml(candidate, access, name, coarse=True) if config.refusals(config.parse(text)) else text


def _toml(candidate: Candidate, access: Access, name: str, *, coarse: bool) -> str:
    """Return a configuration of half hours, of days for slow readings, or of months if `coarse`."""
    has_many = len(candidate.meters) > 1
    keys = dict(source_keys(candidate))
    if not has_many:
        keys = {"topic": keys.pop("topic"), "meter": name, **keys}
    source = {"url": access.url, **dict(access.keys), **keys}
    sink = {"topic": f"private/{PLACEHOLDER}/{'power' if candidate.kind is Kind.POWER else 'energy'}"}
    if has_many:
        sink["pseudonym_key_file"] = _KEY_FILE
    tables = {
        "source": _lines(source),
        "window": _window(candidate, coarse),
        "privacy": _preset(candidate, coarse),
        "sink": _lines(sink),
    }
    if has_many:
        tables["sink"].append(f"# make the key once: {_MAKE_KEY}")
    return "\n".join(f"[{name}]\n" + "\n".join(lines) for name, lines in tables.items() if lines)


def source_keys(candidate: Candidate) -> Mapping[str, Any]:
    """Return the keys of [source] of a candidate, without the broker's and without `meter`."""
    keys: dict[str, Any] = {"topic": _topic(candidate), "profile": candidate.profile}
    if candidate.value is not None:
        keys["value"] = candidate.value
    if candidate.time is not None:
        keys["time"] = candidate.time
    if candidate.ids and candidate.device is not None and candidate.device.needs_id:
        keys["id"] = candidate.ids.most_common(1)[0][0]
    if candidate.phases:
        keys["phases"] = list(candidate.phases)
    keys |= {"kind": str(candidate.kind), "unit": candidate.unit}
    if candidate.factor is not None:
        keys["scale"] = candidate.factor
    if candidate.kind is Kind.INTERVAL_ENERGY and candidate.interval_ms is None:
        keys["interval"] = _interval(candidate)
    return keys


def _topic(candidate: Candidate) -> str:
    """Return the topic; {meter} stays only if there are several meters."""
    if len(candidate.meters) > 1:
        return candidate.template
    segments = candidate.topics[0].topic.split("/")
    free = {PLACEHOLDER} if candidate.phases else {PLACEHOLDER, PHASE}
    parts = zip(candidate.template.split("/"), segments, strict=True)
    return "/".join(segment if part in free else part for part, segment in parts)


def _lines(table: Mapping[str, Any]) -> list[str]:
    return [f"{key} = {toml_value(value)}" for key, value in table.items()]


def toml_value(value: Any) -> str:
    """Write the value of a key as TOML."""
    if isinstance(value, Fraction):
        return str(value.numerator) if value.denominator == 1 else str(value.numerator / value.denominator)
    return json.dumps(value, ensure_ascii=False)


def _interval(candidate: Candidate) -> str:
    every_ms = cadence_ms(candidate.topics) or 15 * MINUTE_MS
    nearest = min(_USUAL_INTERVALS_MIN, key=lambda minutes: abs(minutes * MINUTE_MS - every_ms))
    return format_duration(nearest * MINUTE_MS)


def is_slow(candidate: Candidate) -> bool:
    """Return whether readings are too rare for half-hour slots."""
    every_ms = cadence_ms(candidate.topics)
    return every_ms is not None and 2 * every_ms > SLOT_MS


def _window(candidate: Candidate, coarse: bool) -> list[str]:
    lines = ['timezone = "UTC"  # yours, such as "Europe/Amsterdam"'] if coarse or is_slow(candidate) else []
    if candidate.kind is Kind.POWER and any(number < 0 for topic in candidate.watts for number in topic):
        lines.append("range = [-20000, 20000]")
    return lines


def _preset(candidate: Candidate, coarse: bool) -> list[str]:
    if coarse:
        return ['preset = "bill"  # readings are too coarse for shorter windows']
    if is_slow(candidate):
        return ['preset = "day"']
    return [
        'preset = "appliance"  # `meteragent check` shows what it hides and costs; others: television, street'
    ]
