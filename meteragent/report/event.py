"""Public examples of what happens in a home, and how far each moves what a window says.

An event is so many watts for so long, on top of everything else. Whether it happened is what an
attacker asks; the answer depends on d_inf between the window with and without it.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from meteragent.domain import loads
from meteragent.domain.grid import format_duration, parse_duration
from meteragent.domain.terms import Terms
from meteragent.domain.units import DAY_MS, HOUR_MS, MINUTE_MS, UNIT_FACTOR, Kind

_EVENT = re.compile(r"(\d{1,6})\s*W\s+(\d{1,6}(?:s|min|h|d))", re.ASCII)


_FEW = 2


@dataclass(frozen=True, slots=True)
class Event:
    """`power_w` more (or less) for `duration_ms`; `daily` if it can happen every day."""

    name: str
    power_w: int
    duration_ms: int
    source: str
    daily: bool = True

    @property
    def energy_wh(self) -> Fraction:
        """The energy moved."""
        return Fraction(self.power_w * self.duration_ms, HOUR_MS)


_ASSUMED = "our assumption"
_AWAY = "our assumption: a home of 330 W falls to its standby of 80 W"

EVENTS = (
    Event("which programme, 1 h", 38, HOUR_MS, "tracebase: d_inf between windows of one set, 18 to 38 W"),
    Event("a kettle", 2200, 3 * MINUTE_MS, "110 Wh; tracebase WaterKettle: 1.8 to 2.5 kW"),
    Event("a TV evening", 100, 3 * HOUR_MS, "0.3 kWh; tracebase TV-LCD and TV-CRT: 58 to 156 W on"),
    Event("a washing machine", 400, 2 * HOUR_MS, f"0.8 kWh; {_ASSUMED}, heating spread over the cycle"),
    Event("the oven, 45 min", 1600, 45 * MINUTE_MS, f"1.2 kWh; {_ASSUMED}"),
    Event("away 8 h", 250, 8 * HOUR_MS, f"2 kWh; {_AWAY}"),
    Event("away a day", 250, 24 * HOUR_MS, f"6 kWh; {_AWAY}", daily=False),
    Event("away a week", 250, 168 * HOUR_MS, f"42 kWh; {_AWAY}", daily=False),
)
"""The public examples of `check` (law 8)."""


def parse(text: str) -> Event:
    """An event such as ``2000W 30min``; raises ValueError when it is not one."""
    match = _EVENT.fullmatch(text.strip())
    if match is None or not int(match[1]) or not parse_duration(match[2]):
        raise ValueError("a power and a duration, such as '2000W 30min'")
    duration_ms = parse_duration(match[2])
    name = f"{match[1]} W for {format_duration(duration_ms)}"
    return Event(name, int(match[1]), duration_ms, "yours", daily=duration_ms < 24 * HOUR_MS)


def distances(event: Event, terms: Terms, days: int = 1) -> set[tuple[Fraction, ...]]:
    """How far (d_inf, in the unit) an event moves each window it touches, for each way to lie on the grid.

    The event happens on each of so many `days` at the same time; what falls into one window adds.
    Ways that start with a slot (of the first day) are enough: those that end with one are their mirror
    images, between the two the distances change linearly, and what shifts energy from one window to
    another moves between two of these.

    It is as the readings say it: power that is sampled stands for a period more, and dead bands and steps
    of a count add theirs (`loads`). A step that an event moved stays moved; windows after it are not told.
    """
    read = replace(event, duration_ms=event.duration_ms + loads.stands_ms(terms))
    places = [terms.stretches(place) for place in range(terms.n)]
    starts_ms = {start_ms for stretches in places for start_ms, _ in stretches if start_ms < DAY_MS}
    ways = {_at(read, terms, start_ms, days) for start_ms in starts_ms}
    return {tuple(loads.as_said(terms, moved) for moved in way) for way in ways}


def _at(event: Event, terms: Terms, start_ms: int, days: int) -> tuple[Fraction, ...]:
    """The distances when the event starts so long after the start of a window, largest first.

    The windows that it fills are all alike: of a single event they are worked out once.
    """
    first, last = start_ms // terms.length_ms, (start_ms + event.duration_ms - 1) // terms.length_ms
    if days == 1 and last - first > _FEW:
        inner = _distance(event, terms, _filled(terms, 0, terms.length_ms))
        rest = replace(event, duration_ms=event.duration_ms - (last - first - 1) * terms.length_ms)
        return tuple(sorted((*_at(rest, terms, start_ms, 1), *[inner] * (last - first - 1)), reverse=True))
    moved_ms: dict[int, Counter[int]] = defaultdict(Counter)  # by window and slot
    for begin_ms in range(start_ms, start_ms + days * DAY_MS, DAY_MS):
        end_ms = begin_ms + event.duration_ms
        for window in range(begin_ms // terms.length_ms, (end_ms - 1) // terms.length_ms + 1):
            from_ms, to_ms = (time_ms - window * terms.length_ms for time_ms in (begin_ms, end_ms))
            moved_ms[window].update(_filled(terms, max(from_ms, 0), min(to_ms, terms.length_ms)))
    moved = (_distance(event, terms, slots) for slots in moved_ms.values())
    return tuple(sorted(moved, reverse=True))


def _distance(event: Event, terms: Terms, filled_ms: Mapping[int, int]) -> Fraction:
    """How far a window moves, in the unit, when the event fills its slots for so long."""
    power = Fraction(event.power_w, UNIT_FACTOR[terms.unit])
    if terms.kind is not Kind.POWER:
        return power * max(filled_ms.values(), default=0) / HOUR_MS
    return power * max((Fraction(ms, terms.slot_ms(place)) for place, ms in filled_ms.items()), default=0)


def _filled(terms: Terms, begin_ms: int, end_ms: int) -> Mapping[int, int]:
    """How long a stretch of a window lies in each of its slots, those between first and last left out."""
    if not terms.bands:
        step_ms = terms.step_ms
        ends = {begin_ms // step_ms, begin_ms // step_ms + 1, (end_ms - 1) // step_ms}
        return {
            place: min(end_ms, (place + 1) * step_ms) - max(begin_ms, place * step_ms)
            for place in ends
            if max(begin_ms, place * step_ms) < min(end_ms, (place + 1) * step_ms)
        }
    return {
        place: sum(max(min(end_ms, to_ms) - max(begin_ms, from_ms), 0) for from_ms, to_ms in stretches)
        for place, (_, stretches) in enumerate(terms.bands)
    }
