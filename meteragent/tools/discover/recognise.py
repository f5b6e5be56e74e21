"""Recognition of known families, by the topic's template and by the profiles that can read the payload."""

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import cache
from typing import NamedTuple

from meteragent.decode import PayloadNumber, number
from meteragent.decode.profile import Profile, Quantity
from meteragent.decode.profiles import PROFILES
from meteragent.domain.errors import PayloadError
from meteragent.domain.identity import PHASE, PLACEHOLDER
from meteragent.domain.units import Kind
from meteragent.tools.discover.candidate import Candidate, implied, unit_in, words
from meteragent.tools.discover.listener import TopicLog

_PLAIN = (b"1", b'{"power":1,"energy":1,"value":1,"total":1,"timestamp":1,"time":1}')
"""A profile that can read one of these is recognised only by its topic."""
_DOCUMENTS = (b"{", b"[", b"/")
"""The beginnings of distinctive payloads: JSON, and P1 telegrams."""
_FEW = 4
"""The largest number of bare numbers on topics with uninformative names that may be a meter's; more are
assumed to be the sensors of a whole house."""
_BACK = "returned return ret export exported received produced production"
_RETURNED = frozenset(_BACK.split())
_OTHER = "voltage current frequency temperature humidity pf factor reactive apparent timestamp id uuid"
_SAYS_OTHER = frozenset(_OTHER.split())


class Place(NamedTuple):
    """A topic on a template: the meter and the phase that it names."""

    log: TopicLog
    meter: str | None
    phase: str | None


def recognise(topics: Iterable[TopicLog]) -> list[Candidate]:
    """Recognise the known families.

    The payloads of topics that match a family's template are not compared with other families.
    """
    logs, candidates = list(topics), []
    for profile in PROFILES.values():
        for template in profile.topics:
            places = [place for log in logs if (place := _place(template, log)) is not None]
            candidate = _candidate(profile, template, places)
            if candidate is not None:
                candidates.append(candidate)
    recognised = {id(log) for candidate in candidates for log in candidate.topics}
    return _merged(candidates) + _by_payload([log for log in logs if id(log) not in recognised])


def _place(template: str, log: TopicLog) -> Place | None:
    parts, names = log.topic.split("/"), dict[str, str]()
    segments = template.split("/")
    if len(parts) != len(segments):
        return None
    for part, segment in zip(parts, segments, strict=True):
        if segment in (PLACEHOLDER, PHASE):
            names[segment] = part
        elif part != segment:
            return None
    return Place(log, names.get(PLACEHOLDER), names.get(PHASE))


def readings(quantity: Quantity, log: TopicLog) -> list[PayloadNumber]:
    """Read a quantity from the payloads kept for a topic."""
    numbers: list[PayloadNumber] = []
    for payload in log.payloads:
        try:
            numbers += quantity.read(payload)
        except PayloadError:
            continue
    return numbers


def _candidate(profile: Profile, template: str, places: Sequence[Place], rank: int = 0) -> Candidate | None:
    """Find the first quantity of a profile on the topics of a template, power before energy."""
    by_kind = sorted(profile.quantities.items(), key=lambda item: item[1].kind is not Kind.POWER)
    matches = {name: _rows(quantity, template, places) for name, quantity in by_kind}
    name = next((name for name, rows in matches.items() if rows), None)
    if name is None:
        return None
    quantity, rows = profile.quantities[name], _one_way(matches[name])
    candidate = Candidate(
        rank=rank,
        title=profile.title,
        profile=profile.name,
        template=template,
        kind=quantity.kind,
        unit=_unit(quantity, template, rows),
        topics=[place.log for place, _ in rows],
        numbers=[numbers for _, numbers in rows],
        meters=tuple(sorted({place.meter for place, _ in rows if place.meter})),
        phases=tuple(sorted({place.phase for place, _ in rows if place.phase})),
        ids=Counter(match.id for _, numbers in rows for match in numbers if match.id is not None),
        value=None if profile.quantity(quantity.kind, None) is quantity else name,
        timed=any(match.time_ms is not None for _, numbers in rows for match in numbers),
        interval_ms=quantity.interval_ms,
        device=profile,
        scale=quantity.scale,
    )
    candidate.also = [
        f"{key} ({profile.quantities[key].kind})" for key in matches if matches[key] and key != name
    ]
    _doubt_bare(candidate, rows)
    return candidate


def _rows(
    quantity: Quantity, template: str, places: Sequence[Place]
) -> list[tuple[Place, list[PayloadNumber]]]:
    """Find the topics that hold a quantity; a bare number counts if its topic names its kind."""
    rows = [(place, numbers) for place in places if (numbers := readings(quantity, place.log))]
    bare = {id(place) for place, _ in rows if _is_bare(place.log)}
    unnamed = [place for place, _ in rows if id(place) in bare and _named_kind(template, place) is None]
    is_meter = len(unnamed) <= _FEW and all(not words(place.log.topic) & _SAYS_OTHER for place in unnamed)
    accepted = {id(place) for place in unnamed} if is_meter else set()
    return [
        (place, numbers)
        for place, numbers in rows
        if id(place) not in bare or _named_kind(template, place) is quantity.kind or id(place) in accepted
    ]


def _named_kind(template: str, place: Place) -> Kind | None:
    """Return the kind that the topic of a bare number names: in its last segment, else anywhere."""
    return implied(place.log.topic.rpartition("/")[2]) or implied(template) or implied(place.log.topic)


def _is_bare(log: TopicLog) -> bool:
    for payload in log.payloads:
        try:
            number.read(payload)
        except PayloadError:
            continue
        return True
    return False


def _one_way(rows: list[tuple[Place, list[PayloadNumber]]]) -> list[tuple[Place, list[PayloadNumber]]]:
    """Return the rows of consumption if phases report both directions, whose sum would have no meaning."""
    consumed = [row for row in rows if not words(row[0].phase or "") & _RETURNED]
    return consumed if consumed and any(place.phase for place, _ in rows) else rows


def _unit(quantity: Quantity, template: str, rows: Sequence[tuple[Place, object]]) -> str:
    named = next((unit for place, _ in rows if (unit := unit_in(place.log.topic, quantity.kind))), None)
    if quantity.kind is Kind.POWER:
        return named or unit_in(template, quantity.kind) or "W"
    return named or ("kWh" if quantity.scale == Fraction(1000) else "Wh")


def _doubt_bare(candidate: Candidate, rows: Sequence[tuple[Place, object]]) -> None:
    bare = [place for place, _ in rows if _is_bare(place.log)]
    if any(_named_kind(candidate.template, place) is None for place in bare):
        candidate.doubts.append("a bare number, and its topic does not say whether it is power or energy")


def _merged(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return one candidate for each family, preferably of power, which mentions those on other templates."""
    families: defaultdict[str, list[Candidate]] = defaultdict(list)
    for candidate in candidates:
        families[candidate.profile].append(candidate)
    best = []
    for family in families.values():
        preferred = max(family, key=lambda candidate: candidate.kind is Kind.POWER)
        for candidate in family:
            if candidate is not preferred:
                preferred.also.append(f"{candidate.kind} on {candidate.template}")
        best.append(preferred)
    return best


def _by_payload(topics: Sequence[TopicLog]) -> list[Candidate]:
    """Recognise families with distinctive payloads, on topics that are not the usual ones."""
    candidates, logs = [], [log for log in topics if _newest(log).lstrip()[:1] in _DOCUMENTS]
    for profile in _distinct():
        for log in [log for log in logs if _reads(profile, _newest(log))]:
            candidate = _candidate(profile, log.topic, [Place(log, None, None)], rank=1)
            if candidate is not None:
                usual = " or ".join(profile.topics)
                candidate.doubts.append(f"recognised by its payload alone: the usual topic is {usual}")
                candidates.append(candidate)
                logs.remove(log)
    return candidates


def _newest(log: TopicLog) -> bytes:
    return log.payloads[-1] if log.payloads else b""


def _reads(profile: Profile, payload: bytes) -> bool:
    """Return whether a payload holds one of a profile's quantities."""
    log = TopicLog("", payloads=deque([payload]))
    return any(readings(quantity, log) for quantity in profile.quantities.values())


@cache
def _distinct() -> tuple[Profile, ...]:
    """Return the families with distinctive payloads."""
    profiles = PROFILES.values()
    return tuple(profile for profile in profiles if not any(_reads(profile, plain) for plain in _PLAIN))
