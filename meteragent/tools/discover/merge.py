"""Meters that are read in the same way: topics that differ in one segment become one candidate."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from operator import attrgetter

from meteragent.domain.identity import PLACEHOLDER
from meteragent.tools.discover.candidate import Candidate
from meteragent.tools.discover.words import meaning_of


def merge_alike(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Merge groups of candidates that are read in the same way, the largest group first."""
    groups: defaultdict[tuple[object, ...], dict[int, Candidate]] = defaultdict(dict)
    for candidate in candidates:
        for key in _keys(candidate):
            groups[key][id(candidate)] = candidate
    merged, merged_ids = [], set[int]()
    for group in sorted(groups.values(), key=len, reverse=True):
        members = [candidate for name, candidate in group.items() if name not in merged_ids]
        if len(members) > 1:
            merged_ids |= group.keys()
            merged.append(_merge_group(members))
    return merged + [candidate for candidate in candidates if id(candidate) not in merged_ids]


def _keys(candidate: Candidate) -> Iterator[tuple[object, ...]]:
    """Yield a key for each segment that may name the meter: candidates with the same key can be merged."""
    parts, reading = candidate.template.split("/"), _reading(candidate)
    for index, part in enumerate(parts):
        if not part.startswith("{") and _may_be_a_meter(part):
            yield (*reading, index, *parts[:index], None, *parts[index + 1 :])


def _may_be_a_meter(segment: str) -> bool:
    """Return whether a segment may be a meter's name rather than the name of a quantity."""
    stated = meaning_of(segment)
    states_other = stated.direction or stated.phase or stated.tariff or stated.channel or stated.objection
    return states_other is None and (stated.kind is None or bool(stated.labels))


def _reading(candidate: Candidate) -> tuple[object, ...]:
    """Return the properties, apart from topics, that candidates must share to be merged."""
    read = attrgetter("profile", "kind", "unit", "value", "time", "factor", "direction", "phases")
    keys = map(read, (candidate, *candidate.alternatives))
    return (candidate.rank, candidate.role, candidate.message_count > 0, *keys)


def _merge_group(group: Sequence[Candidate]) -> Candidate:
    """Merge several candidates into the first; alternatives whose topics do not fit are dropped."""
    merged, rows = group[0], [candidate.template.split("/") for candidate in group]
    index = next(i for i, column in enumerate(zip(*rows, strict=True)) if len({*column}) > 1)
    names = [row[index] for row in rows]
    merged.alternatives = [
        offer
        for place, offer in enumerate(merged.alternatives)
        if _merge_offers([candidate.alternatives[place] for candidate in group], index, names)
    ]
    _merge_offers(group, index, names)
    return merged


def _merge_offers(offers: Sequence[Candidate], index: int, names: Sequence[str]) -> bool:
    """Merge offers into the first if their topics differ only by `names`; return whether they do."""
    rows = [offer.template.split("/") for offer in offers]
    if any(index >= len(row) or row[index] != name for row, name in zip(rows, names, strict=True)):
        return False
    if len({(*row[:index], *row[index + 1 :]) for row in rows}) > 1:
        return False
    first = offers[0]
    first.template = "/".join([*rows[0][:index], PLACEHOLDER, *rows[0][index + 1 :]])
    first.meters = tuple(sorted(names))
    first.topics = [log for offer in offers for log in offer.topics]
    first.numbers = [numbers for offer in offers for numbers in offer.numbers]
    return True
