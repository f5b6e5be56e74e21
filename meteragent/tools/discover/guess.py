"""What no family explains: bare numbers and JSON fields whose names speak of power or energy."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any, NamedTuple

from meteragent.decode import Found, number
from meteragent.decode.json import document_of, time_of
from meteragent.domain.errors import PayloadError
from meteragent.domain.identity import PLACEHOLDER
from meteragent.domain.units import UNITS, Kind
from meteragent.tools.discover.candidate import OTHER_WORDS, PART_WORDS, Candidate, implied, unit_in, words
from meteragent.tools.discover.heard import Heard

_UNIT_KEYS = ("unit", "units", "unit_of_measurement", "uom")
_TIME_KEYS = ("timestamp", "time", "ts", "t", "Time", "datetime")
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
_DEPTH_MAX = 8
_OF_ENERGY = "energy kwh wh consumption total today yesterday day week month cumulative"
_SPENT = frozenset(_OF_ENERGY.split())
_BY_NAME = "guessed from names: no known family sends this"


class Field(NamedTuple):
    """A number in a document: its path, and the texts and numbers beside it."""

    path: tuple[str, ...]
    number: Decimal
    beside: dict[str, Any]


def guess(topics: Iterable[Heard]) -> list[Candidate]:
    """One candidate a topic, or for topics that differ in one segment only."""
    found = [one for heard in topics if (one := _bare(heard) or _json(heard)) is not None]
    return together(found)


def _bare(heard: Heard) -> Candidate | None:
    numbers = []
    for payload in heard.payloads:
        with suppress(PayloadError):
            numbers.append(Found(None, number.read(payload)))
    kind = implied(heard.topic.rpartition("/")[2]) or implied(heard.topic)
    if not numbers or kind is None or words(heard.topic) & OTHER_WORDS:
        return None
    unit = unit_in(heard.topic, kind)
    one = Candidate(
        2, "a bare number", "number", heard.topic, kind, unit or UNITS[kind][0], [heard], [numbers]
    )
    _doubt(one, unit)
    return one


def _json(heard: Heard) -> Candidate | None:
    """The likeliest field: power before energy, a total before what is nested deeper."""
    fields: dict[tuple[str, ...], list[Field]] = {}
    for payload in heard.payloads:
        with suppress(PayloadError):
            for field in _fields(document_of(payload)):
                fields.setdefault(field.path, []).append(field)
    kinds = {path: kind for path in fields if (kind := _kind(path)) is not None}
    if not kinds:
        return None
    path = min(kinds, key=lambda p: (kinds[p] is not Kind.POWER, "total" not in words(p[-1]), len(p)))
    kind, first = kinds[path], fields[path][-1]
    unit = unit_in(path[-1], kind) or _unit_beside(first, kind)
    one = Candidate(
        rank=2,
        title="JSON with a field that seems to be one",
        profile="json",
        template=heard.topic,
        kind=kind,
        unit=unit or UNITS[kind][0],
        heard=[heard],
        found=[[Found(None, field.number) for field in fields[path]]],
        value=_expression(path),
        time=_time(first, path),
        also=[f"{_expression(other)} ({kinds[other]})" for other in kinds if other != path][:6],
    )
    one.timed = one.time is not None
    _doubt(one, unit)
    parts = sorted({_expression(p) for p in fields if words(p[-1]) & PART_WORDS and words(p[-1]) & _SPENT})
    if parts:
        one.doubts.append(
            f"{', '.join(parts[:6])} begin again and are parts of the same secret: never read them too"
        )
    return one


def _doubt(one: Candidate, unit: str | None) -> None:
    one.doubts.append(_BY_NAME)
    if unit is None:
        one.doubts.append(f"the unit is not stated: {' or '.join(UNITS[one.kind])}?")
    if one.kind is not Kind.POWER:
        one.doubts.append(
            "a register that only grows, or the energy of each interval (kind = 'interval_energy')?"
        )


def _fields(node: Any, path: tuple[str, ...] = ()) -> Iterator[Field]:
    """The numbers in the objects of a document; what stands in lists is not looked at."""
    if not isinstance(node, dict) or len(path) >= _DEPTH_MAX:
        return
    for key, one in node.items():
        if isinstance(one, Decimal):
            beside = {name: other for name, other in node.items() if isinstance(other, str | Decimal)}
            yield Field((*path, key), one, beside)
        yield from _fields(one, (*path, key))


def _kind(path: tuple[str, ...]) -> Kind | None:
    """What a field's name speaks of; where that is only `value`, what is around it does."""
    said = implied(path[-1])
    if said is None and path[-1].lower() in {"value", "val", "total"} and len(path) > 1:
        return implied(path[-2])
    return said


def _unit_beside(field: Field, kind: Kind) -> str | None:
    told = [field.beside.get(key) for key in _UNIT_KEYS]
    return next((unit for unit in told if isinstance(unit, str) and unit in UNITS[kind]), None)


def _time(field: Field, path: tuple[str, ...]) -> str | None:
    """Where a time stands beside a field, that can be read."""
    for key in _TIME_KEYS:
        if key in field.beside:
            with suppress(PayloadError):
                time_of(field.beside[key])
                return _expression((*path[:-1], key))
    return None


def _expression(path: tuple[str, ...]) -> str:
    """A path as JMESPath."""
    return ".".join(name if _is_plain(name) else _quoted(name) for name in path)


def _is_plain(name: str) -> bool:
    return bool(name) and not name[0].isdecimal() and set(name) <= _PLAIN


def _quoted(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def together(found: Sequence[Candidate]) -> list[Candidate]:
    """Candidates that are read alike, on topics that differ in one segment only, as meters of one."""
    left, out = list(found), []
    while left:
        groups: defaultdict[tuple[object, ...], list[Candidate]] = defaultdict(list)
        for one in left:
            alike = (one.profile, one.kind, one.unit, one.value, one.time)
            parts = one.template.split("/")
            for at in range(len(parts)):
                groups[(*alike, at, *parts[:at], None, *parts[at + 1 :])].append(one)
        largest = max(groups.values(), key=len)
        out.append(_one_of(largest))
        left = [one for one in left if not any(one is other for other in largest)]
    return out


def _one_of(group: Sequence[Candidate]) -> Candidate:
    """Candidates as one with several meters."""
    first = group[0]
    if len(group) == 1:
        return first
    rows = [one.template.split("/") for one in group]
    at = next(i for i in range(len(rows[0])) if len({row[i] for row in rows}) > 1)
    first.template = "/".join([*rows[0][:at], PLACEHOLDER, *rows[0][at + 1 :]])
    first.meters = tuple(sorted(row[at] for row in rows))
    first.heard = [heard for one in group for heard in one.heard]
    first.found = [numbers for one in group for numbers in one.found]
    return first
