"""Public examples of what happens in a home, and how far each moves what a window says.

An event is so many watts for so long, on top of everything else. Whether it happened is what an
attacker asks; the answer depends on d_inf between the window with and without it.
"""

import re
from dataclasses import dataclass
from fractions import Fraction

from meteragent.grid import HOUR_MS, MINUTE_MS, format_duration, parse_duration
from meteragent.release import UNIT_FACTOR, Kind, Terms

_EVENT = re.compile(r"(\d{1,6})\s*W\s+(\d{1,6}(?:s|min|h|d))", re.ASCII)


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


def distances(event: Event, terms: Terms) -> set[tuple[Fraction, ...]]:
    """d_inf of each window that an event touches, in the unit, for every way it can lie on the grid.

    Ways that start with a slot are enough: those that end with one are their mirror images, between
    the two the distances change linearly, and what shifts energy from one window to another moves
    between two of these.
    """
    return {_at(event, terms, index * terms.step_ms) for index in range(terms.n)}


def _at(event: Event, terms: Terms, start_ms: int) -> tuple[Fraction, ...]:
    """The distances when the event starts so long after the start of a window, largest first."""
    end_ms = start_ms + event.duration_ms
    whole = Fraction(event.power_w, UNIT_FACTOR[terms.unit])
    if terms.kind is Kind.INTERVAL_ENERGY:
        whole = whole * terms.step_ms / HOUR_MS
    found = []
    for window_ms in range(0, end_ms, terms.length_ms):
        begin, end = max(start_ms, window_ms), min(end_ms, window_ms + terms.length_ms)
        found.append(whole * _fullest_ms(begin - window_ms, end - window_ms, terms.step_ms) / terms.step_ms)
    return tuple(sorted(found, reverse=True))


def _fullest_ms(begin_ms: int, end_ms: int, step_ms: int) -> int:
    """How much of its fullest slot a stretch within a window fills."""
    first_end_ms = (begin_ms // step_ms + 1) * step_ms
    if end_ms <= first_end_ms:
        return end_ms - begin_ms
    last_start_ms = (end_ms - 1) // step_ms * step_ms
    if last_start_ms > first_end_ms:
        return step_ms
    return max(first_end_ms - begin_ms, end_ms - last_start_ms)
