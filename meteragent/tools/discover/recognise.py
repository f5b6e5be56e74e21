"""Known families: by the topic's template and by who can read the payload."""

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import cache
from typing import NamedTuple

from meteragent.decode import Found, number
from meteragent.decode.profile import Profile, Quantity
from meteragent.decode.profiles import PROFILES
from meteragent.domain.errors import PayloadError
from meteragent.domain.identity import PHASE, PLACEHOLDER
from meteragent.domain.units import Kind
from meteragent.tools.discover.candidate import Candidate, implied, unit_in, words
from meteragent.tools.discover.heard import Heard

_PLAIN = (b"1", b'{"power":1,"energy":1,"value":1,"total":1,"timestamp":1,"time":1}')
"""Who reads one of these is known by its topic only."""
_DOCUMENTS = (b"{", b"[", b"/")
"""How payloads begin that could be told from any other: JSON, and P1 telegrams."""
_FEW = 4
"""So many topics of bare numbers that do not say what they are may be a meter's; more are a house full."""
_BACK = "returned return ret export exported received produced production"
_RETURNED = frozenset(_BACK.split())
_OTHER = "voltage current frequency temperature humidity pf factor reactive apparent timestamp id uuid"
_SAYS_OTHER = frozenset(_OTHER.split())


class Place(NamedTuple):
    """A topic on a template: the meter and the phase that it names."""

    heard: Heard
    meter: str | None
    phase: str | None


def recognise(topics: Iterable[Heard]) -> list[Candidate]:
    """What known families may be heard; a topic that its family's template knows is not looked at again."""
    left, found = list(topics), []
    for profile in PROFILES.values():
        for template in profile.topics:
            places = [place for heard in left if (place := _place(template, heard)) is not None]
            candidate = _candidate(profile, template, places)
            if candidate is not None:
                found.append(candidate)
    known = {id(heard) for candidate in found for heard in candidate.heard}
    left = [heard for heard in left if id(heard) not in known]
    return _merged(found) + _by_payload(left)


def _place(template: str, heard: Heard) -> Place | None:
    parts, named = heard.topic.split("/"), dict[str, str]()
    expected = template.split("/")
    if len(parts) != len(expected):
        return None
    for part, want in zip(parts, expected, strict=True):
        if want in (PLACEHOLDER, PHASE):
            named[want] = part
        elif part != want:
            return None
    return Place(heard, named.get(PLACEHOLDER), named.get(PHASE))


def readings(quantity: Quantity, heard: Heard) -> list[Found]:
    """All that a quantity finds in what was kept of a topic."""
    found: list[Found] = []
    for payload in heard.payloads:
        try:
            found += quantity.read(payload)
        except PayloadError:
            continue
    return found


def _candidate(profile: Profile, template: str, places: Sequence[Place], rank: int = 0) -> Candidate | None:
    """The first quantity of a profile that is found on a template's topics, power before energy."""
    by_kind = sorted(profile.quantities.items(), key=lambda item: item[1].kind is not Kind.POWER)
    found = {name: _read(quantity, template, places) for name, quantity in by_kind}
    name = next((name for name, there in found.items() if there), None)
    if name is None:
        return None
    quantity, there = profile.quantities[name], _one_way([place for place, _ in found[name]], found[name])
    candidate = Candidate(
        rank=rank,
        title=profile.title,
        profile=profile.name,
        template=template,
        kind=quantity.kind,
        unit=_unit(quantity, template, there),
        heard=[place.heard for place, _ in there],
        found=[numbers for _, numbers in there],
        meters=tuple(sorted({place.meter for place, _ in there if place.meter})),
        phases=tuple(sorted({place.phase for place, _ in there if place.phase})),
        ids=Counter(one.id for _, numbers in there for one in numbers if one.id is not None),
        value=None if profile.quantity(quantity.kind, None) is quantity else name,
        timed=any(one.time_ms is not None for _, numbers in there for one in numbers),
        interval_ms=quantity.interval_ms,
        device=profile,
        scale=quantity.scale,
    )
    candidate.also = [
        f"{other} ({profile.quantities[other].kind})" for other in found if found[other] and other != name
    ]
    _doubt_bare(candidate, there)
    return candidate


def _read(quantity: Quantity, template: str, places: Sequence[Place]) -> list[tuple[Place, list[Found]]]:
    """The topics on which a quantity is found; a bare number counts where its topic speaks of its kind."""
    there = [(place, numbers) for place in places if (numbers := readings(quantity, place.heard))]
    bare = [place for place, _ in there if _is_bare(place.heard)]
    silent = [place for place in bare if _kind_said(template, place) is None]
    few = len(silent) <= _FEW and all(not words(place.heard.topic) & _SAYS_OTHER for place in silent)
    return [
        (place, numbers)
        for place, numbers in there
        if not any(place is one for one in bare)
        or _kind_said(template, place) is quantity.kind
        or (few and any(place is one for one in silent))
    ]


def _kind_said(template: str, place: Place) -> Kind | None:
    """The kind that a bare number's topic speaks of: its end first, then all of it."""
    return implied(place.heard.topic.rpartition("/")[2]) or implied(template) or implied(place.heard.topic)


def _is_bare(heard: Heard) -> bool:
    for payload in heard.payloads:
        try:
            number.read(payload)
        except PayloadError:
            continue
        return True
    return False


def _one_way(
    places: Sequence[Place], there: list[tuple[Place, list[Found]]]
) -> list[tuple[Place, list[Found]]]:
    """Of phases that tell both directions, those of what is drawn: their sum would be neither."""
    drawn = [one for one in there if not words(one[0].phase or "") & _RETURNED]
    return drawn if drawn and any(place.phase for place in places) else there


def _unit(quantity: Quantity, template: str, there: Sequence[tuple[Place, object]]) -> str:
    said = next((unit for place, _ in there if (unit := unit_in(place.heard.topic, quantity.kind))), None)
    if quantity.kind is Kind.POWER:
        return said or unit_in(template, quantity.kind) or "W"
    return said or ("kWh" if quantity.scale == Fraction(1000) else "Wh")


def _doubt_bare(candidate: Candidate, there: Sequence[tuple[Place, object]]) -> None:
    silent = [
        place for place, _ in there if _is_bare(place.heard) and _kind_said(candidate.template, place) is None
    ]
    if silent:
        candidate.doubts.append("a bare number, and its topic does not say whether it is power or energy")


def _merged(found: Sequence[Candidate]) -> list[Candidate]:
    """Of what one family says on several templates, the first that tells power; the others are mentioned."""
    families: defaultdict[str, list[Candidate]] = defaultdict(list)
    for candidate in found:
        families[candidate.profile].append(candidate)
    best = []
    for family in families.values():
        first = max(family, key=lambda one: one.kind is Kind.POWER)
        for other in family:
            if other is not first:
                first.also.append(f"{other.kind} on {other.template}")
        best.append(first)
    return best


def _by_payload(topics: Sequence[Heard]) -> list[Candidate]:
    """Families whose payloads are like no other's, on topics that are not the usual ones."""
    found, left = [], [heard for heard in topics if _newest(heard).lstrip()[:1] in _DOCUMENTS]
    for profile in _distinct():
        mine = [heard for heard in left if _reads(profile, _newest(heard))]
        for heard in mine:
            candidate = _candidate(profile, heard.topic, [Place(heard, None, None)], rank=1)
            if candidate is not None:
                usual = " or ".join(profile.topics)
                candidate.doubts.append(f"known by its payload alone: the usual topic is {usual}")
                found.append(candidate)
                left.remove(heard)
    return found


def _newest(heard: Heard) -> bytes:
    return heard.payloads[-1] if heard.payloads else b""


def _reads(profile: Profile, payload: bytes) -> bool:
    """Whether a payload holds one of a profile's quantities."""
    alone = Heard("", payloads=deque([payload]))
    return any(readings(quantity, alone) for quantity in profile.quantities.values())


@cache
def _distinct() -> tuple[Profile, ...]:
    """Families whose payloads are like no other's."""
    known = PROFILES.values()
    return tuple(one for one in known if not any(_reads(one, payload) for payload in _PLAIN))
