"""Rows: a template's topics that have a quantity, with the numbers received there."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

from meteragent.decode import PayloadNumber, number
from meteragent.decode.profile import Profile, Quantity
from meteragent.domain.errors import PayloadError
from meteragent.domain.identity import PHASE, PLACEHOLDER
from meteragent.domain.units import Kind
from meteragent.tools.discover.listener import TopicLog
from meteragent.tools.discover.words import Direction, meaning_of, split_words

RETURNED = frozenset(
    ["returned", "return", "ret", "export", "exported", "received", "produced", "production"]
)
WILDCARD = "+"
"""The segment of a profile's template that stands for any segment."""
_AMPERES = frozenset({"current"})


class TopicMatch(NamedTuple):
    """A topic that matches a template, with the meter and phase that the topic names."""

    log: TopicLog
    meter: str | None = None
    phase: str | None = None


Row = tuple[TopicMatch, list[PayloadNumber]]


def place_of(template: str, log: TopicLog) -> TopicMatch | None:
    """Return the meter and the phase that a topic names; None if the template does not match."""
    parts, segments, names = log.topic.split("/"), template.split("/"), dict[str, str]()
    if len(parts) != len(segments):
        return None
    for part, segment in zip(parts, segments, strict=True):
        if segment in (PLACEHOLDER, PHASE):
            names[segment] = part
        elif segment not in (part, WILDCARD):
            return None
    return TopicMatch(log, names.get(PLACEHOLDER), names.get(PHASE))


def fill_wildcards(templates: Iterable[str], logs: Sequence[TopicLog]) -> list[str]:
    """Return templates with each wildcard replaced by the segments received in its place."""
    topics = dict[str, None]()
    for template in templates:
        segments = template.split("/")
        if WILDCARD not in segments:
            topics.setdefault(template)
            continue
        for log in logs:
            if place_of(template, log) is not None:
                pairs = zip(segments, log.topic.split("/"), strict=True)
                parts = (part if segment == WILDCARD else segment for segment, part in pairs)
                topics.setdefault("/".join(parts))
    return list(topics)


def read_quantity(quantity: Quantity, log: TopicLog) -> list[PayloadNumber]:
    """Read a quantity from the payloads kept for a topic."""
    numbers: list[PayloadNumber] = []
    for payload in log.payloads:
        with suppress(PayloadError):
            numbers += quantity.read(payload)
    return numbers


def read_rows(profile: Profile, name: str, template: str, places: Sequence[TopicMatch]) -> list[Row]:
    """Return the rows of topics with a quantity; omit bare numbers whose topic cannot mean the quantity."""
    quantity, names = profile.quantities[name], _names(profile, template)
    rows = [(place, numbers) for place in places if (numbers := read_quantity(quantity, place.log))]
    if names:
        is_elsewhere = quantity.topic is not None and name not in names
        return [row for row in rows if name in names or not (is_elsewhere or has_bare_number(row[0].log))]
    return [row for row in rows if not has_bare_number(row[0].log) or _may_be(quantity, template, row[0])]


def _names(profile: Profile, template: str) -> frozenset[str]:
    """Return the names of the quantities that the end of a template can mean."""
    end = template.rpartition("/")[2]
    exact = frozenset(
        name
        for name, quantity in profile.quantities.items()
        if quantity.topic is not None and f"/{template}".endswith(f"/{quantity.topic}")
    )
    if exact:
        return exact
    if end in profile.quantities:
        return frozenset({end})
    words, stated = frozenset(split_words(end)), meaning_of(end)
    is_returned = bool(words & RETURNED) or stated.direction is Direction.FED_IN
    names = {name: frozenset(split_words(name)) for name in profile.quantities}
    matching_names = {name for name, parts in names.items() if parts <= words}
    if not matching_names and stated.kind is not None:
        matching_names = {name for name in names if profile.quantities[name].kind is stated.kind}
    return frozenset(name for name in matching_names if bool(names[name] & RETURNED) == is_returned)


def _may_be(quantity: Quantity, template: str, place: TopicMatch) -> bool:
    """Return whether a bare number's topic names the quantity's kind or, without a known unit, no kind."""
    kind = named_kind(template, place)
    if kind is not None:
        return kind is quantity.kind
    return quantity.scale is None and not _names_another(place)


def _names_another(place: TopicMatch) -> bool:
    """Return whether the meter's or phase's name refers to another quantity."""
    return any(meaning_of(name).objection for name in (place.meter, place.phase) if name is not None)


def named_kind(template: str, place: TopicMatch) -> Kind | None:
    """Return the kind that a bare number's topic names; None if it names none, or another quantity."""
    topic = place.log.topic
    if _names_another(place):
        return None
    return meaning_of(topic.rpartition("/")[2]).kind or meaning_of(template).kind or meaning_of(topic).kind


def has_bare_number(log: TopicLog) -> bool:
    """Return whether at least one payload of a topic is a bare number."""
    for payload in log.payloads:
        with suppress(PayloadError):
            number.read_number(payload)
            return True
    return False


def ways_of(quantity: Quantity, rows: list[Row]) -> list[tuple[list[Row], bool]]:
    """Split rows whose topics name a direction, tariff or phase; True marks feed-in.

    If all phases are numbers, or no topic names a phase, rows are not split. Otherwise, powers are dropped
    unless they are exactly the three phases, because other powers have no meaningful sum.
    """
    if not any(place.phase and not place.phase.isdecimal() for place, _ in rows):
        return [(rows, False)]
    ways = []
    for is_returned in (False, True):
        part = [row for row in rows if bool(_words(row) & RETURNED) is is_returned]
        phases = [meaning_of(row[0].phase or "").phase for row in part if not _words(row) & _AMPERES]
        if quantity.kind is Kind.POWER:
            part = [
                row for row in part if meaning_of(row[0].phase or "").phase and not _words(row) & _AMPERES
            ]
            part = part if sorted(filter(None, phases)) == ["1", "2", "3"] else []
        if part:
            ways.append((part, is_returned))
    return ways


def _words(row: Row) -> frozenset[str]:
    return frozenset(split_words(row[0].phase or ""))
