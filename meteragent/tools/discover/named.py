"""Points from names: bare numbers and JSON fields whose names state kind and unit.

The unit may also be in a field next to the number.
"""

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise

from meteragent.decode.dialects import to_jmespath
from meteragent.decode.json import time_of
from meteragent.domain.counters import REFUSALS
from meteragent.domain.errors import PayloadError
from meteragent.domain.units import UNITS, Kind
from meteragent.tools.discover.candidate import Unplaced
from meteragent.tools.discover.listener import TopicLog
from meteragent.tools.discover.points import Leaf, Point, foreign_fields, foreign_form, leaves_in, numbers_at
from meteragent.tools.discover.words import Meaning, Role, meaning_of, split_words

BY_NAME = "guessed from the names: no known family sends this"
_UNIT_KEYS = ("unit", "units", "unit_of_measurement", "uom")
_TIME_KEYS = ("timestamp", "time", "ts", "t", "Time", "datetime")
_GENERIC = frozenset(["state", "value", "val", "raw", "agg", "now", "data", "number", "reading"])
_FLOW_WORDS = frozenset(["flow", "direction", "sign", "producing", "richtung"])
_DIGITS = frozenset("0123456789")
_KIND_UNKNOWN = "its name does not say whether it is a register that only grows or an interval's energy"
_FELL = "its numbers fell, so it is not a register that only grows"
_ANYTHING = ("refused_comma", "refused_list")
_ONLY_DIRECTION = "its name states a direction, but neither power, energy nor a unit"

Outcome = tuple[list[Point], list[Unplaced]]


def find_named(logs: Iterable[TopicLog], described: Collection[tuple[str, str | None]]) -> Outcome:
    """Return numbers whose names state kind and unit, and entries for others; skip those in `described`."""
    points: list[Point] = []
    unplaced: list[Unplaced] = []
    for log in logs:
        for certain, refused in (_read_bare(log), _read_document(log, described)):
            points += certain
            unplaced += refused
    return points, unplaced


def _read_bare(log: TopicLog) -> Outcome:
    """Read a topic with bare numbers: the last segment that is not generic names the number."""
    numbers = numbers_at(log, None)
    if not numbers:
        return [], _list_foreign(log)
    segments = log.topic.split("/")
    leaf = _leaf_index(segments)
    stated, topic_meaning = meaning_of(segments[leaf]), meaning_of(log.topic)
    device = [segment for segment in segments[:leaf] if _names_a_device(segment)]
    outer_names = [segment for segment in segments[:leaf] if segment not in device] + segments[leaf + 1 :]
    if stated.kind is None and topic_meaning.kind is not None:
        stated = replace(stated, kind=topic_meaning.kind, unit=topic_meaning.unit)
    elif stated.unit is None and topic_meaning.kind is stated.kind:
        stated = replace(stated, unit=topic_meaning.unit)
    stated = _with_context(stated, map(meaning_of, outer_names), topic_meaning)
    point = Point(
        log=log,
        value=None,
        kind=stated.kind or Kind.POWER,
        unit=stated.unit or "",
        meaning=stated,
        device="/".join(device) or log.topic,
        source=BY_NAME,
        rank=2,
        profile="number",
        numbers=numbers,
    )
    return _judge(point, stated.kind is not None)


def _leaf_index(segments: Sequence[str]) -> int:
    """Return the index of the last segment with a non-generic word; without one, that of the last segment."""
    places = [i for i, segment in enumerate(segments) if not set(split_words(segment)) <= _GENERIC | _DIGITS]
    return places[-1] if places else len(segments) - 1


def _list_foreign(log: TopicLog) -> list[Unplaced]:
    """List a topic whose payload is in another program's format, and state what to send instead.

    A list or a number with a comma may be anything, unless the topic names a power, an energy or a meter.
    """
    form, stated = foreign_form(log), meaning_of(log.topic)
    is_named = stated.kind is not None or stated.role is Role.MAINS
    if form is None or (form in _ANYTHING and (not is_named or stated.objection is not None)):
        return []
    return [Unplaced(log.topic, REFUSALS[form])]


def _names_a_device(segment: str) -> bool:
    """Return whether a segment contains more than a direction, phase, tariff, channel, kind or unit."""
    stated = meaning_of(segment)
    statement = stated.direction or stated.phase or stated.tariff or stated.kind or stated.channel
    return statement is None or bool(stated.labels)


def _with_context(stated: Meaning, context: Iterable[Meaning], topic_meaning: Meaning) -> Meaning:
    """Complete a name's meaning from its context; a missing role or objection is taken from the topic."""
    for outer in context:
        stated = stated.complete_with(outer)
    role = stated.role if stated.role is not Role.UNKNOWN else topic_meaning.role
    return replace(stated, role=role, objection=stated.objection or topic_meaning.objection)


def _read_document(log: TopicLog, described: Collection[tuple[str, str | None]]) -> Outcome:
    """Read the fields of a topic's JSON objects, with the unit and time from each field's newest message."""
    fields: dict[str, Leaf] = {}
    for payload in log.payloads:
        fields |= {leaf.expression: leaf for leaf in leaves_in(payload)}
    points: list[Point] = []
    unplaced: list[Unplaced] = []
    for leaf in fields.values():
        if (log.topic, to_jmespath(leaf.path)) in described:
            continue
        certain, refused = _read_field(log, leaf)
        points += certain
        unplaced += refused
    foreign = {path: form for payload in log.payloads for path, form in foreign_fields(payload)}
    for path, form in foreign.items():
        if meaning_of(str(path[-1])).kind is not None:
            unplaced.append(Unplaced(log.topic, f"{to_jmespath(path)}: {REFUSALS[form]}"))
    return points, unplaced


def _read_field(log: TopicLog, leaf: Leaf) -> Outcome:
    names = [str(step) for step in leaf.path]
    if len(names) == 1 and names[0].lower() in _GENERIC:
        segments = log.topic.split("/")
        names = [*segments[max(0, _leaf_index(segments) - 1) : _leaf_index(segments) + 1], *names]
    stated = meaning_of(names[-1])
    if stated.kind is None and names[-1].lower() in _GENERIC | {"total"} and len(names) > 1:
        is_register = stated.is_register or "total" in names[-1]
        stated = replace(meaning_of(names[-2]), is_total=stated.is_total, is_register=is_register)
    if stated.kind is None and stated.objection is None and stated.direction is None:
        return [], []
    topic_meaning = meaning_of(log.topic)
    outer = [meaning_of(name) for name in names[:-1]]
    label_words = stated.labels.union(*(part.labels for part in outer))
    objection = _objection(outer, topic_meaning, leaf, stated.kind)
    stated = _with_context(stated, outer, replace(meaning_of("_".join(names)), objection=objection))
    stated = replace(stated, labels=label_words)
    if stated.kind is not None and stated.unit is None:
        texts = (leaf.siblings.get(key) for key in _UNIT_KEYS)
        units = (text for text in texts if isinstance(text, str) and text in UNITS[stated.kind])
        stated = replace(stated, unit=next(units, None))
    if stated.role is Role.UNKNOWN:
        stated = replace(stated, role=topic_meaning.role)
    point = Point(
        log=log,
        value=leaf.expression,
        kind=stated.kind or Kind.POWER,
        unit=stated.unit or "",
        meaning=stated,
        device=log.topic,
        source=BY_NAME,
        rank=2,
        profile="json",
        time=_time_path(leaf),
        numbers=numbers_at(log, leaf.expression),
    )
    return _judge(point, stated.kind is not None)


def _objection(outer: Iterable[Meaning], topic: Meaning, leaf: Leaf, kind: Kind | None) -> str | None:
    flows = [key for key in leaf.siblings if key != leaf.path[-1] and set(split_words(key)) & _FLOW_WORDS]
    if flows and kind is Kind.POWER:
        return f"its direction is in another field, {flows[0]}"
    if any(_is_volume(key) for key in leaf.siblings):
        return "the same message has a volume or a flow, so this may be heat and not electricity"
    return next((stated.objection for stated in [*outer, topic] if stated.objection), None)


def _is_volume(name: str) -> bool:
    """Return whether a name refers to a volume or a flow, but not to gas, energy or power."""
    words = split_words(name)
    is_cubic = ("m", "3") in pairwise(words) or bool({"m³", "volume", "flow"} & set(words))
    return is_cubic and not {"gas", "energy", "power"} & set(words)


def _judge(point: Point, has_kind: bool) -> Outcome:
    """Return the point if its kind and unit are certain, otherwise an entry if a reason can be stated."""
    stated = point.meaning
    if not has_kind:
        missing: tuple[str, ...] = () if stated.objection or stated.direction is None else ("kind", "unit")
        reason = (None if stated.is_quiet else stated.objection) or (_ONLY_DIRECTION if missing else None)
        return [], ([] if reason is None else [_to_unplaced(point, reason, missing)])
    if stated.objection is not None:
        return [], [_to_unplaced(point, stated.objection, ())]
    if not point.unit:
        kind, units = "power" if point.kind is Kind.POWER else "energy", " or ".join(UNITS[point.kind])
        missing = ("unit",) if point.kind is Kind.POWER or stated.is_register else ("kind", "unit")
        text = f"its name refers to {kind}, but not to the unit: {units}?"
        return [], [_to_unplaced(point, text, missing)]
    if point.kind is Kind.REGISTER and not stated.is_register:
        return [], [_to_unplaced(point, _KIND_UNKNOWN, ("kind",))]
    if point.kind is Kind.REGISTER and any(b.number < a.number for a, b in pairwise(point.numbers)):
        return [], [_to_unplaced(point, _FELL, ("kind",))]
    point.doubts.append(BY_NAME)
    return [point], []


def _to_unplaced(point: Point, reason: str | None, missing: tuple[str, ...]) -> Unplaced:
    """Return the entry for a point; if `missing` names keys, include the known keys."""
    source = {"topic": point.log.topic, "profile": point.profile}
    if point.value is not None:
        source["value"] = point.value
    if missing and "kind" not in missing:
        source["kind"] = str(point.kind)
    if missing and "unit" not in missing:
        source["unit"] = point.unit
    text = reason if point.value is None else f"{point.value}: {reason}"
    return Unplaced(point.log.topic, text or "", missing, source if missing else {})


def _time_path(leaf: Leaf) -> str | None:
    """Return the path of a readable time in the same object as a field; None if there is no such time."""
    for key in _TIME_KEYS:
        if key in leaf.siblings:
            with suppress(PayloadError):
                time_of(leaf.siblings[key])
                return to_jmespath((*leaf.path[:-1], key))
    return None
