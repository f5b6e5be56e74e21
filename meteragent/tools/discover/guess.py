"""Guesses for topics of no known family: bare numbers and JSON fields whose names suggest power or energy."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any, NamedTuple

from meteragent.decode import PayloadNumber, number
from meteragent.decode.json import document_of, time_of
from meteragent.domain.errors import PayloadError
from meteragent.domain.identity import PLACEHOLDER
from meteragent.domain.units import UNITS, Kind
from meteragent.tools.discover.candidate import OTHER_WORDS, PART_WORDS, Candidate, implied, unit_in, words
from meteragent.tools.discover.listener import TopicLog

_UNIT_KEYS = ("unit", "units", "unit_of_measurement", "uom")
_TIME_KEYS = ("timestamp", "time", "ts", "t", "Time", "datetime")
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
_DEPTH_MAX = 8
_OF_ENERGY = "energy kwh wh consumption total today yesterday day week month cumulative"
_SPENT = frozenset(_OF_ENERGY.split())
_BY_NAME = "guessed from the names: no known family sends this"


class Field(NamedTuple):
    """A number in a document: its path, and the strings and numbers in the same object."""

    path: tuple[str, ...]
    number: Decimal
    siblings: dict[str, Any]


def guess(topics: Iterable[TopicLog]) -> list[Candidate]:
    """Guess one candidate for each topic, and one for all topics that differ in one segment only."""
    return together([candidate for log in topics if (candidate := _bare(log) or _json(log)) is not None])


def _bare(log: TopicLog) -> Candidate | None:
    numbers = []
    for payload in log.payloads:
        with suppress(PayloadError):
            numbers.append(PayloadNumber(None, number.read(payload)))
    kind = implied(log.topic.rpartition("/")[2]) or implied(log.topic)
    if not numbers or kind is None or words(log.topic) & OTHER_WORDS:
        return None
    unit = unit_in(log.topic, kind)
    candidate = Candidate(
        2, "a bare number", "number", log.topic, kind, unit or UNITS[kind][0], [log], [numbers]
    )
    _doubt(candidate, unit)
    return candidate


def _json(log: TopicLog) -> Candidate | None:
    """Choose the likeliest field: power before energy, a total before fields that are nested deeper."""
    fields: dict[tuple[str, ...], list[Field]] = {}
    for payload in log.payloads:
        with suppress(PayloadError):
            for field in _fields(document_of(payload)):
                fields.setdefault(field.path, []).append(field)
    kinds = {path: kind for path in fields if (kind := _kind(path)) is not None}
    if not kinds:
        return None
    path = min(kinds, key=lambda p: (kinds[p] is not Kind.POWER, "total" not in words(p[-1]), len(p)))
    kind, newest = kinds[path], fields[path][-1]
    unit = unit_in(path[-1], kind) or _unit_beside(newest, kind)
    candidate = Candidate(
        rank=2,
        title="JSON with a field that may be a meter's",
        profile="json",
        template=log.topic,
        kind=kind,
        unit=unit or UNITS[kind][0],
        topics=[log],
        numbers=[[PayloadNumber(None, field.number) for field in fields[path]]],
        value=_expression(path),
        time=_time(newest, path),
        also=[
            f"{_expression(field_path)} ({kinds[field_path]})" for field_path in kinds if field_path != path
        ][:6],
    )
    candidate.timed = candidate.time is not None
    _doubt(candidate, unit)
    parts = sorted({_expression(p) for p in fields if words(p[-1]) & PART_WORDS and words(p[-1]) & _SPENT})
    if parts:
        candidate.doubts.append(
            f"{', '.join(parts[:6])} start again at zero and are parts of the same secret: do not add them"
        )
    return candidate


def _doubt(candidate: Candidate, unit: str | None) -> None:
    candidate.doubts.append(_BY_NAME)
    if unit is None:
        candidate.doubts.append(f"the unit is not stated: {' or '.join(UNITS[candidate.kind])}?")
    if candidate.kind is not Kind.POWER:
        candidate.doubts.append(
            "is it a register that only grows, or the energy of each interval (kind = 'interval_energy')?"
        )


def _fields(node: Any, path: tuple[str, ...] = ()) -> Iterator[Field]:
    """Yield the numbers in the objects of a document; lists are left out."""
    if not isinstance(node, dict) or len(path) >= _DEPTH_MAX:
        return
    for key, child in node.items():
        if isinstance(child, Decimal):
            siblings = {name: value for name, value in node.items() if isinstance(value, str | Decimal)}
            yield Field((*path, key), child, siblings)
        yield from _fields(child, (*path, key))


def _kind(path: tuple[str, ...]) -> Kind | None:
    """Return the kind that a field's name suggests; if that is only `value`, the object's name decides."""
    kind = implied(path[-1])
    if kind is None and path[-1].lower() in {"value", "val", "total"} and len(path) > 1:
        return implied(path[-2])
    return kind


def _unit_beside(field: Field, kind: Kind) -> str | None:
    texts = [field.siblings.get(key) for key in _UNIT_KEYS]
    return next((unit for unit in texts if isinstance(unit, str) and unit in UNITS[kind]), None)


def _time(field: Field, path: tuple[str, ...]) -> str | None:
    """Return the path of a readable time in the same object as a field."""
    for key in _TIME_KEYS:
        if key in field.siblings:
            with suppress(PayloadError):
                time_of(field.siblings[key])
                return _expression((*path[:-1], key))
    return None


def _expression(path: tuple[str, ...]) -> str:
    """Write a path as JMESPath."""
    return ".".join(name if _is_plain(name) else _quoted(name) for name in path)


def _is_plain(name: str) -> bool:
    return bool(name) and not name[0].isdecimal() and set(name) <= _PLAIN


def _quoted(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def together(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Merge candidates that are read in the same way, on topics that differ in one segment, into one each."""
    remaining, merged = list(candidates), []
    while remaining:
        groups: defaultdict[tuple[object, ...], list[Candidate]] = defaultdict(list)
        for candidate in remaining:
            reading = (candidate.profile, candidate.kind, candidate.unit, candidate.value, candidate.time)
            parts = candidate.template.split("/")
            for index in range(len(parts)):
                groups[(*reading, index, *parts[:index], None, *parts[index + 1 :])].append(candidate)
        largest = max(groups.values(), key=len)
        merged.append(_merged(largest))
        ids = {id(candidate) for candidate in largest}
        remaining = [candidate for candidate in remaining if id(candidate) not in ids]
    return merged


def _merged(group: Sequence[Candidate]) -> Candidate:
    """Merge a group into one candidate with several meters."""
    merged = group[0]
    if len(group) == 1:
        return merged
    rows = [candidate.template.split("/") for candidate in group]
    index = next(i for i in range(len(rows[0])) if len({row[i] for row in rows}) > 1)
    merged.template = "/".join([*rows[0][:index], PLACEHOLDER, *rows[0][index + 1 :]])
    merged.meters = tuple(sorted(row[index] for row in rows))
    merged.topics = [log for candidate in group for log in candidate.topics]
    merged.numbers = [numbers for candidate in group for numbers in candidate.numbers]
    return merged
