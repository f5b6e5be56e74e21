"""Recognition of known families, by topic templates and by the profiles that can read the payload."""

import re
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from meteragent.decode.json import document_of
from meteragent.decode.profile import Profile, Quantity
from meteragent.decode.profiles import PROFILES
from meteragent.domain.errors import PayloadError
from meteragent.domain.identity import PHASE
from meteragent.domain.units import UNITS, Kind
from meteragent.tools.discover.candidate import Candidate, Unplaced, logs_of
from meteragent.tools.discover.listener import TopicLog
from meteragent.tools.discover.rows import (
    RETURNED,
    Row,
    TopicMatch,
    fill_wildcards,
    has_bare_number,
    named_kind,
    place_of,
    read_quantity,
    read_rows,
    ways_of,
)
from meteragent.tools.discover.words import Direction, Role, meaning_of, split_words

_PLAIN = (
    b"1",
    b'{"power":1,"energy":1,"value":1,"total":1,"timestamp":1,"time":1}',
    b'{"P":1,"tPI":1,"a":{"Power":1}}',
)
"""Plain payloads: a family without marks whose profile can read one is not recognised by its payloads."""
_DOCUMENTS = (b"{", b"[", b"/")
"""The first characters of distinctive payloads: JSON and P1 telegrams."""
_CERTAINTY = ("a known family", "a known family, by its payload or the end of its topic")
_UNUSUAL = "the usual topic is {}: is this such a device?"
_DOCUMENTED = ", known from documentation alone"
_APPARENT = frozenset({"tasmota-teleinfo"})
"""Families whose devices also send VA in the fields of another family."""
_ROLE_OF = {
    **dict.fromkeys(("dsmr-p1", "dsmr-reader", "dsmr-reader-topics", "glow", "sml2mqtt"), Role.MAINS),
    **dict.fromkeys(("tasmota-teleinfo", "tasmota-sml", "wmbusmeters", "amsreader"), Role.MAINS),
    **dict.fromkeys(("victron", "evcc", "tibber", "openems"), Role.MAINS),
    **dict.fromkeys(("shelly-gen2-switch", "shelly-gen2-pm1"), Role.DEVICE),
}
"""The roles of families that are always a main meter, or always a switch or plug."""
_DIRECTION = {
    "import": Direction.DRAWN,
    "export": Direction.FED_IN,
    "net": Direction.NET,
    "both": Direction.UNSTATED,
}
_RELAY = "/relay/"
_BOTH = "it counts both energy drawn and energy fed in, so it is right only if nothing is fed in"
_ONE_TARIFF = "only one tariff: no other tariff's register was received"
_CSV = "emonhub-csv"
_OBIS = re.compile(rb"1-0:(1|2|16)\.([78])\.0(?:\*255)?", re.ASCII)
_OBIS_KINDS = {b"7": Kind.POWER, b"8": Kind.REGISTER}
_WITH_OBIS = "vzlogger"
"""The family that sends each channel's OBIS code, which states the kind, on the neighbouring topic ../id."""
_OTHER_MEDIUM = "a wmbusmeters telegram that is not about electricity, or that repeats another telegram"
_PAIR = ("0", "1")
_CLAMPS = "two clamps: each is measured separately, and they are summed only if you choose phases"


def recognise_families(
    topics: Iterable[TopicLog],
    elsewhere: Mapping[str, str],
    roles: Mapping[str, Role],
    profiles: Mapping[str, Profile] = PROFILES,
    described: Collection[str] = (),
) -> tuple[list[Candidate], list[Unplaced]]:
    """Recognise families; return the candidates, and the families' topics that are not proposed.

    `profiles` are the families, in the order in which they are tried. `elsewhere` maps topics to the family
    stated by a description on the broker; `roles` maps topics to their meter's role. A topic that matches a
    template or a description is not also recognised by its payload. The marks and ends of a family are used
    only for topics whose numbers are not `described`.
    """
    logs = list(topics)
    candidates: list[Candidate] = []
    unplaced: list[Unplaced] = []
    apparent_topics = {log.topic for name in _APPARENT for log in logs if _reads(profiles[name], log)}
    for profile in profiles.values():
        plausible_logs = [
            log for log in logs if log.topic not in apparent_topics or profile.name in _APPARENT
        ]
        for template in fill_wildcards(profile.topics, logs):
            places = [place for log in plausible_logs if (place := place_of(template, log)) is not None]
            likely, refused = _recognise(profile, template, places, roles)
            candidates += likely
            unplaced += refused
    candidates = _merge_by_meter(candidates)
    for log in logs:
        profile_name = elsewhere.get(log.topic)
        if profile_name is not None and not any(log in candidate.topics for candidate in candidates):
            likely, refused = _recognise(profiles[profile_name], log.topic, [TopicMatch(log)], roles)
            candidates += likely
            unplaced += refused
    placed = {log.topic for candidate in candidates for log in logs_of(candidate)}
    placed |= {entry.topic for entry in unplaced}
    remaining = [log for log in logs if log.topic not in placed]
    likely, refused = _recognise_elsewhere(remaining, roles, profiles, described)
    return candidates + likely, _with_kinds(unplaced + refused, logs)


def _reads(profile: Profile, log: TopicLog) -> bool:
    """Return whether the payloads of a topic contain at least one of a profile's quantities."""
    return any(read_quantity(quantity, log) for quantity in profile.quantities.values())


def _recognise(
    profile: Profile, template: str, places: Sequence[TopicMatch], roles: Mapping[str, Role], rank: int = 0
) -> tuple[list[Candidate], list[Unplaced]]:
    """Return candidates, one for all meters with the same quantities, and the topics not proposed."""
    rows = {name: read_rows(profile, name, template, places) for name in profile.quantities}
    groups: defaultdict[tuple[object, object, Role], set[str | None]] = defaultdict(set)
    for meter in dict.fromkeys(place.meter for place in places):
        names = tuple(name for name in rows if any(place.meter == meter for place, _ in rows[name]))
        phases = frozenset(place.phase for name in names for place, _ in rows[name] if place.meter == meter)
        topics = [place.log.topic for place in places if place.meter == meter]
        usual = Role.DEVICE if _RELAY in template else _ROLE_OF.get(profile.name, Role.UNKNOWN)
        role = next((roles[topic] for topic in topics if topic in roles), usual)
        if names:
            groups[names, phases, role].add(meter)
    candidates: list[Candidate] = []
    unplaced: list[Unplaced] = []
    for (_, _, role), meters in groups.items():
        group_rows = {name: [row for row in rows[name] if row[0].meter in meters] for name in rows}
        parts = {name: part for name, part in group_rows.items() if part}
        likely, refused = _candidate(profile, template, parts, rank)
        unplaced += refused
        if likely is not None:
            for offer in (likely, *likely.alternatives):
                offer.role = role
            candidates.append(likely)
    return candidates, unplaced


def _candidate(
    profile: Profile, template: str, rows: Mapping[str, list[Row]], rank: int
) -> tuple[Candidate | None, list[Unplaced]]:
    """Return a candidate for the first quantity, if there is one, and the topics that are not proposed."""
    rows = {name: part for name, part in rows.items() if not _hides_direction(profile, name, rows)}
    by_kind = sorted(rows, key=lambda name: profile.quantities[name].kind is not Kind.POWER)
    offers: list[Candidate] = []
    unplaced: list[Unplaced] = []
    ways = [(name, *part) for name in by_kind for part in ways_of(profile.quantities[name], rows[name])]
    for name, part, is_returned in ways:
        offer = _offer(profile, name, template, part, rank)
        if offer is None:
            unplaced += _without_unit(profile, name, template, part)
            continue
        offer.direction = Direction.FED_IN if is_returned else offer.direction
        if _is_one_tariff(offer):
            unplaced += [Unplaced(log.topic, _ONE_TARIFF) for log in offer.topics]
        elif not any(_repeats(offer, earlier) for earlier in offers):
            offers += _split_clamps(offer)
    unplaced = list({entry.topic: entry for entry in reversed(unplaced)}.values())
    if not offers:
        return None, unplaced
    offers[0].alternatives = offers[1:]
    return offers[0], unplaced


def _hides_direction(profile: Profile, name: str, rows: Mapping[str, list[Row]]) -> bool:
    """Return whether a quantity sums both directions, while another quantity of its kind is only import."""
    quantity, peers = profile.quantities[name], (profile.quantities[row_name] for row_name in rows)
    has_import = any(peer.kind is quantity.kind and peer.direction == "import" for peer in peers)
    return quantity.direction == "both" and has_import


def _repeats(offer: Candidate, earlier: Candidate) -> bool:
    """Return whether an offer reads an earlier offer's numbers under another name."""
    topics = [log.topic for log in offer.topics], [log.topic for log in earlier.topics]
    return offer.kind is earlier.kind and topics[0] == topics[1] and offer.numbers == earlier.numbers


def _is_one_tariff(offer: Candidate) -> bool:
    """Return whether an offer is the register of one tariff, judging by the end of its topic."""
    return offer.kind is Kind.REGISTER and len(offer.phases) == 1 and offer.phases[0].endswith(("_1", "_2"))


def _offer(profile: Profile, name: str, template: str, rows: list[Row], rank: int) -> Candidate | None:
    """Return a candidate for one quantity; None if its unit is unknown."""
    quantity = profile.quantities[name]
    unit = _unit(quantity, template, rows)
    if unit is None:
        return None
    return Candidate(
        rank=rank,
        title=profile.title,
        profile=profile.name,
        template=template,
        kind=quantity.kind,
        unit=unit,
        topics=[place.log for place, _ in rows],
        numbers=[numbers for _, numbers in rows],
        meters=tuple(sorted({place.meter for place, _ in rows if place.meter})),
        phases=tuple(sorted({place.phase for place, _ in rows if place.phase})),
        ids=Counter(match.id for _, numbers in rows for match in numbers if match.id is not None),
        value=None if profile.find_quantity(quantity.kind, None) is quantity else name,
        has_time=any(match.time_ms is not None for _, numbers in rows for match in numbers),
        interval_ms=quantity.interval_ms,
        device=profile,
        scale=quantity.scale,
        direction=_direction(quantity, name, template),
        certainty=_CERTAINTY[rank] + ("" if profile.evidence.is_captured else _DOCUMENTED),
        label=name if name not in {"power", "total", "register", "energy"} else "",
        doubts=[_BOTH] if quantity.direction == "both" else [],
    )


def _direction(quantity: Quantity, name: str, template: str) -> Direction:
    """Return the direction that the quantity, its name, or the end of the topic states."""
    if quantity.direction is not None:
        return _DIRECTION[quantity.direction]
    words = frozenset(split_words(name)) | frozenset(split_words(template.rpartition("/")[2]))
    if "net" in words:
        return Direction.NET
    return Direction.FED_IN if words & RETURNED else Direction.UNSTATED


def _without_unit(profile: Profile, name: str, template: str, rows: list[Row]) -> list[Unplaced]:
    """List a family's topics whose messages do not state the unit, with the known keys."""
    quantity = profile.quantities[name]
    entries = []
    for place, _ in rows:
        kind = None if has_bare_number(place.log) and named_kind(template, place) is None else quantity.kind
        source = {"topic": place.log.topic, "profile": profile.name}
        if kind is not None:
            source["kind"] = str(kind)
        if profile.find_quantity(quantity.kind, None) is not quantity:
            source["value"] = name
        missing: tuple[str, ...] = ("unit",) if kind is not None else ("kind", "unit")
        missing += ("scale",) if quantity.is_count else ()
        missing += ("id",) if profile.needs_id else ()
        reason = f"{profile.title}: nothing states the {' and the '.join(missing)} of its numbers"
        entries.append(Unplaced(place.log.topic, reason, missing, source))
    return entries


def _split_clamps(offer: Candidate) -> list[Candidate]:
    """Return a candidate for each of two clamps and one for both; return any other offer unchanged."""
    if offer.phases != _PAIR:
        return [offer]
    parts = []
    place = offer.template.split("/").index(PHASE)
    for phase in _PAIR:
        rows = zip(offer.topics, offer.numbers, strict=True)
        logs, numbers = zip(*(row for row in rows if phase in row[0].topic.split("/")[place]), strict=True)
        label, doubts = f"{offer.label} clamp {phase}".strip(), [*offer.doubts, _CLAMPS]
        part = replace(offer, topics=logs, numbers=numbers, phases=(phase,), label=label)
        parts.append(replace(part, doubts=doubts, alternatives=[]))
    offer.label = f"{offer.label} both clamps".strip()
    return [*parts, offer]


def _unit(quantity: Quantity, template: str, rows: Sequence[Row]) -> str | None:
    """Return the unit that the family or its topics state; None if no unit is stated or the topics differ."""
    units = [meaning_of(place.log.topic).unit for place, _ in rows]
    if quantity.scale is None:
        return units[0] if len(set(units)) == 1 and _is_of(quantity, units[0]) else None
    unit = next((unit for unit in units if _is_of(quantity, unit)), None)
    if quantity.kind is Kind.POWER:
        return unit or meaning_of(template).unit or "W"
    return unit or ("kWh" if quantity.scale == Fraction(1000) else "Wh")


def _is_of(quantity: Quantity, unit: str | None) -> bool:
    return unit in UNITS[quantity.kind] and not quantity.is_count


def _merge_by_meter(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Merge candidates for the same meters: the first power, or else the first, gets the others."""
    groups: defaultdict[tuple[object, ...], list[Candidate]] = defaultdict(list)
    for candidate in candidates:
        groups[candidate.profile, candidate.meters].append(candidate)
    best = []
    for group in groups.values():
        preferred = max(group, key=lambda candidate: candidate.kind is Kind.POWER)
        for candidate in group:
            if candidate is not preferred:
                preferred.alternatives += [candidate, *candidate.alternatives]
                candidate.alternatives = []
        best.append(preferred)
    return best


def _recognise_elsewhere(
    logs: Sequence[TopicLog],
    roles: Mapping[str, Role],
    profiles: Mapping[str, Profile],
    described: Collection[str],
) -> tuple[list[Candidate], list[Unplaced]]:
    """Recognise families by ends of topics and by payloads."""
    candidates: list[Candidate] = []
    unplaced: list[Unplaced] = []
    free = {log.topic: log for log in logs}
    for profile in profiles.values():
        groups = _topics_by_ending(profile, free)
        groups |= {log.topic: [TopicMatch(log)] for log in free.values() if _is_known(profile, log)}
        stated = () if profile.evidence.marks is None and not profile.evidence.ends else described
        for template, places in groups.items():
            topics = free.keys() - stated
            open_places = [place for place in places if place.log.topic in topics]
            likely, refused = _recognise(profile, template, open_places, roles, rank=1)
            for candidate in likely:
                candidate.doubts.append(_UNUSUAL.format(" or ".join(profile.topics)))
            candidates += likely
            unplaced += refused
            placed = {log.topic for candidate in likely for log in logs_of(candidate)}
            placed |= {entry.topic for entry in refused}
            free = {topic: log for topic, log in free.items() if topic not in placed}
    unplaced += [Unplaced(log.topic, _OTHER_MEDIUM) for log in free.values() if _is_of_other_medium(log)]
    unplaced += [_position_entry(log) for [(log, _, _)] in _topics_by_ending(PROFILES[_CSV], free).values()]
    return candidates, unplaced


def _is_known(profile: Profile, log: TopicLog) -> bool:
    """Return whether a topic's newest payload can only be one of a profile's family."""
    if not log.newest.lstrip().startswith(_DOCUMENTS) or not _reads(profile, _log_of(log.newest)):
        return False
    if profile.evidence.marks is not None:
        return profile.evidence.marks(document_of(log.newest))
    return not any(_reads(profile, _log_of(plain)) for plain in _PLAIN)


def _log_of(payload: bytes) -> TopicLog:
    return TopicLog("", payloads=deque([payload]))


def _topics_by_ending(profile: Profile, logs: Mapping[str, TopicLog]) -> dict[str, list[TopicMatch]]:
    """Return the topics that have one of a profile's ends after any beginning, by their template."""
    places: defaultdict[str, list[TopicMatch]] = defaultdict(list)
    for end in profile.evidence.ends:
        for topic, log in logs.items():
            beginning = "".join(f"{segment}/" for segment in topic.split("/")[: -1 - end.count("/")])
            place = place_of(f"{beginning}{end}", log)
            beside = [f"{beginning}{name}" in logs for name in profile.evidence.beside]
            if place is not None and (not beside or any(beside)):
                places[fill_wildcards([f"{beginning}{end}"], [log])[0]].append(place)
    return places


def _position_entry(log: TopicLog) -> Unplaced:
    """Return the entry for an emonhub topic with an unusual number of unnamed values."""
    count = log.newest.count(b",") + 1
    reason = f"{PROFILES[_CSV].title}: nothing states which of its {count} values is meant"
    return Unplaced(log.topic, reason, ("value", "kind", "unit"), {"topic": log.topic, "profile": _CSV})


def _is_of_other_medium(log: TopicLog) -> bool:
    """Return whether a wmbusmeters telegram is about another medium, or only repeats a register."""
    reasons = set()
    for quantity in PROFILES["wmbusmeters"].quantities.values():
        try:
            quantity.read(log.newest)
        except PayloadError as error:
            reasons.add(error.reason)
    return reasons == {"other"}


def _with_kinds(unplaced: Iterable[Unplaced], logs: Iterable[TopicLog]) -> list[Unplaced]:
    """Add the kind to vzlogger channels whose OBIS code was received; the unit remains unknown."""
    kinds = {
        log.topic.removesuffix("/id"): _OBIS_KINDS[match[2]]
        for log in logs
        if log.topic.endswith("/id") and log.payloads and (match := _OBIS.fullmatch(log.payloads[-1].strip()))
    }
    return [_with_kind(entry, kinds.get(entry.topic.rpartition("/")[0])) for entry in unplaced]


def _with_kind(entry: Unplaced, kind: Kind | None) -> Unplaced:
    if kind is None or entry.source.get("profile") != _WITH_OBIS:
        return entry
    missing = tuple(key for key in entry.missing if key != "kind")
    reason = (
        f"a vzlogger channel of kind {kind}: nothing states the {' and the '.join(missing)} of its numbers"
    )
    source = {key: value for key, value in entry.source.items() if key != "value"} | {"kind": str(kind)}
    return replace(entry, reason=reason, missing=missing, source=source)
