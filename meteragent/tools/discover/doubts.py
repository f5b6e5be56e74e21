"""A candidate's assumptions and uncertainties, in sentences without readings."""

import json
from collections.abc import Iterator
from itertools import pairwise

from meteragent.domain.units import Kind
from meteragent.tools.discover.candidate import Candidate, has_identifier
from meteragent.tools.discover.configuration import is_slow
from meteragent.tools.discover.listener import TopicLog, cadence_ms
from meteragent.tools.discover.words import PART_WORDS, split_words

_HIGHEST_W = 100_000


def list_doubts(candidate: Candidate) -> list[str]:
    """List a candidate's assumptions and uncertainties."""
    parts = (_about_unit, _about_meters, _about_times, _about_values)
    return [*candidate.doubts, *(text for part in parts for text in part(candidate))]


def _about_unit(candidate: Candidate) -> Iterator[str]:
    if candidate.device is not None and candidate.scale is None:
        yield f"the payload does not state the unit: {candidate.unit} is an assumption"
    if candidate.device is not None and not candidate.device.knows_dead_band and candidate.kind is Kind.POWER:
        yield "the device's dead band is unknown: set source.dead_band to the change in power that it omits"
    if candidate.kind is Kind.INTERVAL_ENERGY and candidate.interval_ms is None:
        yield "the interval of a reading is unknown: source.interval is set to the time between messages"
    parts = sorted({part for log in candidate.topics for part in _parts_beside(log)})
    if parts:
        yield f"{', '.join(parts)} start again at zero and count the same energy: do not release them as well"


def _parts_beside(log: TopicLog) -> Iterator[str]:
    """Yield the names of daily, weekly, monthly or similar registers in the newest payload of a topic."""
    for payload in list(log.payloads)[-1:]:
        for name in _keys(payload):
            parts = frozenset(split_words(name))
            if parts and parts <= PART_WORDS - {"period", "minute", "hour", "last"}:
                yield name


def _keys(payload: bytes) -> Iterator[str]:
    try:
        nodes = [json.loads(payload)]
    except (ValueError, RecursionError):
        return
    while nodes:
        node = nodes.pop()
        if isinstance(node, dict):
            yield from node
            nodes += node.values()
        elif isinstance(node, list):
            nodes += node


def _about_meters(candidate: Candidate) -> Iterator[str]:
    if candidate.ids:
        yield "which id is yours: compare it with the meter's number (a radio also receives the neighbours')"
    if len(candidate.meters) > 1:
        count = len(candidate.meters)
        yield f"which of the {count} are yours, and which is the main meter: each adds to the privacy spent"
    if candidate.device is not None and candidate.device.identifies and candidate.meters:
        yield f"{{meter}} is {candidate.device.identifies}: with this configuration it is not sent"
    elif any(has_identifier(log.topic) for log in candidate.topics):
        yield "a topic seems to hold a serial number or an address: with this configuration it is not sent"


def _about_times(candidate: Candidate) -> Iterator[str]:
    live, every_ms = candidate.message_count - candidate.retained_count, cadence_ms(candidate.topics)
    if not candidate.message_count:
        return
    if not live:
        yield "only retained messages were received, which may be old; the agent ignores them: listen longer"
    elif live == len(candidate.topics) and every_ms is None:
        yield "each topic had one message, so the time between messages is unknown: listen longer"
    if every_ms is not None and is_slow(candidate):
        every = rough_duration(every_ms)
        yield f"{every} between readings is long for half-hour slots: longer windows are proposed"
    if not candidate.has_time:
        yield "the payload has no time: the time of arrival counts"


def _about_values(candidate: Candidate) -> Iterator[str]:
    numbers = [number for topic in candidate.watts for number in topic]
    if candidate.kind is Kind.POWER and any(number < 0 for number in numbers):
        yield "values below zero: is power fed in? The proposed window.range extends as far below 0 as above"
    if candidate.kind is Kind.POWER and any(abs(number) > _HIGHEST_W for number in numbers):
        yield "values above 100 kW in this unit: is the unit wrong, or is this not a home?"
    if candidate.kind is Kind.REGISTER and any(b < a for row in candidate.watts for a, b in pairwise(row)):
        yield "the register fell: two meters share the topic, it was reset, or it is not a register"


def rough_duration(duration_ms: int) -> str:
    """Return a duration as text, in ms, whole seconds or whole minutes."""
    if duration_ms < 1000:
        return f"{max(duration_ms, 1)} ms"
    seconds = round(duration_ms / 1000)
    return f"{seconds} s" if seconds < 120 else f"{round(seconds / 60)} min"
