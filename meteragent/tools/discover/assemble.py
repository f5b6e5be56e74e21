"""Meters from points: one device's phases, tariffs and directions become a candidate with alternatives.

A device's points are grouped by kind, direction, channel and the words that distinguish its measuring points.
In a group, a number without tariff and phase takes precedence; but if the others are exactly phases 2 and 3,
this number is phase 1. Without such a number, tariffs or phases are summed, and an incomplete group is not
proposed. The most likely group is the candidate; the others are its alternatives.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from meteragent.domain.identity import PHASE
from meteragent.domain.units import Kind
from meteragent.tools.discover.candidate import Candidate, Unplaced
from meteragent.tools.discover.points import Point, numbers_at, sum_expression
from meteragent.tools.discover.words import Direction, Meaning, Role

_ROLES = list(Role)
_DIRECTIONS = [Direction.NET, Direction.DRAWN, Direction.UNSTATED, Direction.FED_IN, Direction.PRODUCED]
_PRODUCTION_WORDS = frozenset(["produced", "production", "produce", "producing", "productie"])
_AMBIGUOUS = "its name does not state whether it counts what is drawn or fed in"
_NO_DIRECTION = (
    "its name states no direction: check that it counts the energy drawn, and that it is negative or"
    " unchanged while you feed in"
)


def assemble_candidates(points: Iterable[Point]) -> tuple[list[Candidate], list[Unplaced]]:
    """Return at most one candidate for each device, and an entry for each point that cannot be proposed."""
    devices: defaultdict[str, list[Point]] = defaultdict(list)
    for point in points:
        devices[point.device].append(point)
    candidates, unplaced = [], []
    for members in devices.values():
        candidate, refused = _assemble_meter(members)
        candidates += [] if candidate is None else [candidate]
        unplaced += refused
    return candidates, unplaced


def _assemble_meter(points: Sequence[Point]) -> tuple[Candidate | None, list[Unplaced]]:
    groups: defaultdict[tuple[object, ...], list[Point]] = defaultdict(list)
    unplaced = []
    for point in _with_directions(points):
        stated = point.meaning
        if stated.direction is Direction.UNSTATED:
            unplaced.append(_refusal(point, _AMBIGUOUS))
        else:
            groups[point.kind, stated.direction, stated.channel, stated.labels].append(point)
    offers = []
    for members in groups.values():
        offer = _merge_points(members)
        if isinstance(offer, str):
            unplaced += [_refusal(point, offer) for point in members]
        else:
            offers.append(offer)
    if not offers:
        return None, unplaced
    first, *alternatives = sorted(offers, key=_candidate_rank)
    first.alternatives = alternatives
    return first, unplaced


def _refusal(point: Point, reason: str) -> Unplaced:
    return Unplaced(point.log.topic, reason if point.value is None else f"{point.value}: {reason}")


def _candidate_rank(candidate: Candidate) -> tuple[object, ...]:
    return (
        _ROLES.index(candidate.role),
        _DIRECTIONS.index(candidate.direction) > 2,
        candidate.kind is not Kind.POWER,
        _DIRECTIONS.index(candidate.direction),
        len(candidate.label),
    )


def _with_directions(points: Sequence[Point]) -> list[Point]:
    ways = {(point.kind, point.meaning.direction) for point in points}
    imports = {
        (point.kind, point.meaning.labels) for point in points if point.meaning.direction is Direction.DRAWN
    }
    return [replace(point, meaning=_meaning_in_context(point, ways, imports)) for point in points]


def _meaning_in_context(
    point: Point,
    ways: Collection[tuple[Kind, Direction | None]],
    imports: Collection[tuple[Kind, frozenset[str]]],
) -> Meaning:
    """Return a point's meaning, with the direction that follows from the device's other points."""
    stated, directions = point.meaning, {direction for _, direction in ways}
    # Production next to the same measuring point's consumption is feed-in.
    labels = stated.labels - _PRODUCTION_WORDS
    if stated.direction is Direction.PRODUCED and (point.kind, labels) in imports:
        return replace(stated, direction=Direction.FED_IN, role=Role.UNKNOWN, labels=labels)
    # Numbers of inverters are production; so are unlabelled numbers if the device states only production.
    only_produced = Direction.PRODUCED in directions and directions <= {Direction.PRODUCED, None}
    if stated.direction is None and (stated.role is Role.PRODUCER or (only_produced and not stated.labels)):
        return replace(stated, direction=Direction.PRODUCED, role=Role.PRODUCER)
    # A "delivered" number next to feed-in, or a register without direction next to one of feed-in, is drawn.
    has_export = (Kind.REGISTER, Direction.FED_IN) in ways
    is_import = stated.direction is None and point.kind is Kind.REGISTER and has_export
    is_delivered = stated.direction is Direction.UNSTATED and stated.is_delivered
    if is_import or (is_delivered and Direction.FED_IN in directions):
        return replace(stated, direction=Direction.DRAWN)
    return stated


def _merge_points(points: Sequence[Point]) -> Candidate | str:
    """Return a candidate for one quantity's points, or the reason not to propose them."""
    wholes = [point for point in points if point.meaning.phase is None and point.meaning.tariff is None]
    phases = _first_by_part([point for point in points if point.meaning.tariff is None], "phase")
    tariffs = _first_by_part([point for point in points if point.meaning.phase is None], "tariff")
    if wholes and set(phases) == {"2", "3"} and not any(point.meaning.is_total for point in wholes):
        return _sum([wholes[0], phases["2"], phases["3"]], "phases; the name without a phase is phase 1")
    if wholes:
        totals = [point for point in wholes if point.meaning.is_total]
        return _single(min(totals or wholes, key=lambda point: len(point.log.topic) + len(point.value or "")))
    if len(tariffs) > 1:
        return _sum(list(tariffs.values()), "tariffs")
    if set(phases) in ({"1", "2", "3"}, {"1", "2"}):
        return _sum([phases[name] for name in sorted(phases)], "phases")
    if tariffs:
        return "only one tariff: no other tariff's register was received"
    return "only one phase: no other phase's numbers were received"


def _first_by_part(points: Iterable[Point], part: str) -> dict[str, Point]:
    """Return the first point of each phase or tariff."""
    index: dict[str, Point] = {}
    for point in points:
        name = getattr(point.meaning, part)
        if name is not None:
            index.setdefault(name, point)
    return index


def _single(point: Point) -> Candidate:
    """Return a candidate for one point; a power with negative values is a net power."""
    is_net = point.kind is Kind.POWER and any(match.number < 0 for match in point.numbers)
    observed_direction = Direction.NET if is_net else Direction.UNSTATED
    candidate = Candidate(
        rank=point.rank,
        title=point.title,
        profile=point.profile,
        template=point.log.topic,
        kind=point.kind,
        unit=point.unit,
        topics=[point.log],
        numbers=[point.numbers],
        value=point.value,
        time=point.time,
        has_time=point.time is not None,
        factor=point.factor,
        scale=point.scale,
        direction=point.meaning.direction or observed_direction,
        role=point.meaning.role,
        label=" ".join(sorted(point.meaning.labels)),
        certainty=point.source,
        unit_topic=point.unit_topic,
    )
    if point.meaning.channel is not None:
        candidate.label = f"{candidate.label} channel {point.meaning.channel}".strip()
        candidate.doubts.append("each channel is a separate clamp, and channels are not summed")
    if point.meaning.direction is None:
        candidate.doubts.append(_NO_DIRECTION)
    candidate.doubts += point.doubts
    return candidate


def _sum(points: Sequence[Point], parts: str) -> Candidate | str:
    """Return a candidate for a sum of points, or the reason if they cannot be summed."""
    first = points[0]
    if len({(point.unit, point.factor, point.profile) for point in points}) > 1:
        return f"its {parts} have different units and cannot be summed"
    candidate = _single(first)
    candidate.doubts.append(f"the sum of {len(points)} {parts}")
    if len({point.log.topic for point in points}) == 1:
        if first.value is None:
            return f"its {parts} are on one topic"
        candidate.value = sum_expression([point.value or "" for point in points])
        candidate.numbers = [numbers_at(first.log, candidate.value)]
        if first.log.payloads and not candidate.numbers[0]:
            return f"its {parts} come in different messages and cannot be summed"
        return candidate
    rows = [point.log.topic.split("/") for point in points]
    is_even = len({len(row) for row in rows}) == len({point.value for point in points}) == 1
    indices = [i for i, column in enumerate(zip(*rows, strict=False)) if len({*column}) > 1]
    if not is_even or len(indices) != 1:
        return f"its {parts} are on topics that differ in more than one segment and cannot be summed"
    index = indices[0]
    candidate.template = "/".join([*rows[0][:index], PHASE, *rows[0][index + 1 :]])
    candidate.phases = tuple(row[index] for row in rows)
    candidate.topics = [point.log for point in points]
    candidate.numbers = [point.numbers for point in points]
    return candidate
