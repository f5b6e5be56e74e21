"""The search, which turns the log of all topics into likely meters and topics that are not proposed.

describe (retained descriptions) + recognise (families) + named (names) -> assemble -> merge
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from meteragent.decode.profile import Profile
from meteragent.decode.profiles import PROFILES
from meteragent.domain.identity import is_publishable
from meteragent.domain.units import UNIT_FACTOR, Kind
from meteragent.tools.discover.assemble import assemble_candidates
from meteragent.tools.discover.candidate import NOT_HEARD, Candidate, Unplaced, logs_of
from meteragent.tools.discover.describe import Descriptions, read_descriptions
from meteragent.tools.discover.describe.document import document_in
from meteragent.tools.discover.listener import Listener, TopicLog
from meteragent.tools.discover.merge import merge_alike
from meteragent.tools.discover.named import find_named
from meteragent.tools.discover.points import Point, numbers_at
from meteragent.tools.discover.recognise import recognise_families
from meteragent.tools.discover.words import Role

_CHANNEL = re.compile(r"[a-z]+\d?:\d+")
_SWITCH = ("ON", "OFF")
_ROLES = list(Role)


@dataclass(slots=True)
class Search:
    """The outcome of a search.

    `ours` holds the topics of private streams, and `quiet` the topics that name neither power nor energy.
    """

    candidates: list[Candidate] = field(default_factory=list)
    unplaced: list[Unplaced] = field(default_factory=list)
    ours: list[str] = field(default_factory=list)
    quiet: list[str] = field(default_factory=list)


def search_log(listener: Listener, profiles: Mapping[str, Profile] = PROFILES) -> Search:
    """Search a listener's log for meters known by a profile, a description on the broker or their names."""
    private = [log.topic for log in listener.topics.values() if log.is_ours]
    logs = {
        log.topic: log
        for log in listener.topics.values()
        if is_publishable(log.topic) and not any(f"{log.topic}/".startswith(f"{topic}/") for topic in private)
    }
    described = read_descriptions(logs)
    logged = [log for log in logs.values() if log.topic not in described.topics]
    logged += _example_logs(logged, described)
    recognised, incomplete = _recognise(logged, described, profiles)
    recognised = [candidate for candidate in recognised if not _is_contradicted(candidate, described)]
    covered = {log.topic: candidate for candidate in recognised for log in logs_of(candidate)}
    points = [point for point in described.points if not _is_covered(point, covered.get(point.log.topic))]
    owners = {point.log.topic: point.device for point in described.points}
    read = set(covered) | {entry.topic for entry in incomplete}
    read |= {point.log.topic for point in points if point.value is None}
    read |= {topic for topic, value in described.places if value is None}
    guessed, leftovers = find_named((log for log in logged if log.topic not in read), described.places)
    guessed = [replace(point, device=owners.get(point.log.topic, point.device)) for point in guessed]
    guessed, leftovers = _split_by_device(guessed, leftovers, recognised)
    assembled, refused = assemble_candidates([*points, *guessed])
    candidates = sorted(_merge_by_rank(recognised) + merge_alike(assembled), key=_candidate_rank)
    placed = {log.topic for candidate in candidates for log in logs_of(candidate)}
    unplaced = _drop_repeated([*described.unplaced, *incomplete, *refused, *leftovers], placed)
    listed_topics = placed | described.topics | {entry.topic for entry in unplaced}
    quiet = [log.topic for log in logged if log.topic not in listed_topics]
    return Search(candidates, unplaced, private, quiet)


def _example_logs(logged: Iterable[TopicLog], described: Descriptions) -> list[TopicLog]:
    """Return a log for each device that sent nothing but whose description has an example message."""
    topics = {log.topic for log in logged}
    logs = {
        device.topic: TopicLog(device.topic, payloads=deque([device.example]))
        for device in described.devices
        if device.example is not None and device.topic not in topics
    }
    return list(logs.values())


def _recognise(
    logged: Sequence[TopicLog], described: Descriptions, profiles: Mapping[str, Profile]
) -> tuple[list[Candidate], list[Unplaced]]:
    """Recognise families, including those of devices that only describe themselves."""
    elsewhere = {device.topic: "tasmota" for device in described.devices}
    roles = {device.topic: device.role for device in described.devices if device.role is not Role.UNKNOWN}
    roles |= {
        point.log.topic: point.meaning.role for point in described.points if point.meaning.role is Role.DEVICE
    }
    roles |= dict.fromkeys(_switch_topics(logged), Role.DEVICE)
    units = {point.log.topic for point in described.points}
    candidates, unplaced = recognise_families(logged, elsewhere, roles, profiles, units)
    for candidate in candidates:
        if not candidate.message_count:
            candidate.doubts.append(NOT_HEARD)
    return candidates, [entry for entry in unplaced if entry.topic not in units]


def _switch_topics(logs: Iterable[TopicLog]) -> Iterator[str]:
    """Yield the topics of plugs and relays: their messages, or Tasmota's STATE, contain a switch state."""
    for log in logs:
        document = document_in(log.newest)
        if not isinstance(document, dict):
            continue
        if document.get("state") in _SWITCH:
            yield log.topic
        if log.topic.endswith("/STATE") and any(str(key).startswith("POWER") for key in document):
            yield f"{log.topic.removesuffix('/STATE')}/SENSOR"


def _is_contradicted(candidate: Candidate, described: Descriptions) -> bool:
    """Return whether a description of a candidate's numbers states another kind or scale, or refuses them."""
    scale = candidate.scale if candidate.scale is not None else UNIT_FACTOR[candidate.unit]
    logs = {log.topic: log for log in candidate.topics}
    contrary_numbers = [
        point.numbers
        for point in described.points
        if point.log.topic in logs and (point.kind, point.scale) != (candidate.kind, scale)
    ]
    refused = (numbers_at(logs[topic], value) for topic, value in described.refused if topic in logs)
    return any(_is_same(candidate, numbers) for numbers in (*contrary_numbers, *refused))


def _is_same(candidate: Candidate, numbers: Sequence[object]) -> bool:
    """Return whether one of a candidate's topics has exactly these numbers."""
    values = [number.number for number in numbers]  # type: ignore[attr-defined]
    return bool(values) and any([match.number for match in row] == values for row in candidate.numbers)


def _is_covered(point: Point, candidate: Candidate | None) -> bool:
    """Return whether a candidate already reads a point: it reads the same kind from the same topic."""
    if candidate is None:
        return False
    return any(
        offer.kind is point.kind and (not point.numbers or _is_same(offer, point.numbers))
        for offer in (candidate, *candidate.alternatives)
    )


def _split_by_device(
    points: Sequence[Point], leftovers: Sequence[Unplaced], candidates: Sequence[Candidate]
) -> tuple[list[Point], list[Unplaced]]:
    """Move points that are on further topics of a recognised device to the unplaced topics, with its name."""
    titles = {meter: candidate.title for candidate in candidates for meter in candidate.meters if meter}

    def entry_of(topic: str) -> Unplaced | None:
        """Return the entry for a topic of a recognised device; None for another topic."""
        meter = next((segment for segment in topic.split("/") if segment in titles), None)
        text = f"belongs to {meter}, which is proposed as {titles[meter]}" if meter else ""
        return Unplaced(topic, text) if meter else None

    entries = [entry for point in points if (entry := entry_of(point.log.topic)) is not None]
    entries += [entry_of(entry.topic) or entry for entry in leftovers]
    return [point for point in points if entry_of(point.log.topic) is None], entries


def _merge_by_rank(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Merge candidates that were recognised by their payload; all others are already merged.

    A usual topic may have a candidate with a single meter. If another candidate of the same family has that
    meter's name in its topic, that candidate becomes one of the meter's quantities.
    """
    usual = [candidate for candidate in candidates if candidate.rank == 0]
    ownerless = []
    for candidate in [candidate for candidate in candidates if candidate.rank]:
        owner = next((main for main in usual if _owns(main, candidate)), None)
        if owner is None:
            ownerless.append(candidate)
            continue
        for offer in (candidate, *candidate.alternatives):
            offer.label = f"{offer.label} {candidate.template.rpartition('/')[2]}".strip()
            owner.alternatives.append(offer)
        candidate.alternatives = []
    return usual + merge_alike(_merge_channels(ownerless))


def _merge_channels(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Turn one device's channels, such as em1:0 and em1:1, into quantities of one candidate."""
    devices: dict[tuple[str, str], Candidate] = {}
    for candidate in candidates:
        device, _, channel = candidate.template.rpartition("/")
        key = (candidate.profile, device if _CHANNEL.fullmatch(channel) else candidate.template)
        first = devices.setdefault(key, candidate)
        if first is not candidate:
            candidate.label = f"{candidate.label} {channel}".strip()
            first.alternatives += [candidate, *candidate.alternatives]
            candidate.alternatives = []
    return list(devices.values())


def _owns(main: Candidate, candidate: Candidate) -> bool:
    """Return whether `candidate` is on another topic of the only meter in `main`."""
    segments = candidate.template.split("/")
    return main.profile == candidate.profile and len(main.meters) == 1 and main.meters[0] in segments


def _candidate_rank(candidate: Candidate) -> tuple[object, ...]:
    return (
        candidate.role in {Role.DEVICE, Role.PRODUCER},
        not candidate.message_count,
        candidate.rank,
        _ROLES.index(candidate.role),
        candidate.kind is not Kind.POWER,
        -candidate.message_count,
    )


def _drop_repeated(entries: Iterable[Unplaced], placed: set[str]) -> list[Unplaced]:
    """Return each entry once; topics without a candidate come first."""
    unique: dict[tuple[str, str], Unplaced] = {}
    for entry in entries:
        unique.setdefault((entry.topic, entry.reason), entry)
    return sorted(unique.values(), key=lambda entry: (entry.topic in placed, not entry.missing, entry.topic))
