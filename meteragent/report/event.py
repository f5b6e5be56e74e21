"""Public examples of events in a home, and how far each changes the values of a window.

An event adds a constant power to all other use for some time, or removes it if nobody is at home. How sure an
attacker can be depends on the distance between the windows with and without the event.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from meteragent.domain import loads
from meteragent.domain.grid import duration_text, parse_duration
from meteragent.domain.terms import Terms
from meteragent.domain.units import DAY_MS, HOUR_MS, MINUTE_MS
from meteragent.report.format import duration
from meteragent.report.language import say

_EVENT = re.compile(r"(\d{1,6})\s*W\s+(\d{1,6}(?:s|min|h|d))", re.ASCII)

_WINDOWS_FEW = 2

Runs = tuple[tuple[Fraction, int], ...]
"""The distances by which windows change, largest first, each with the number of windows that it changes."""


@dataclass(frozen=True, slots=True)
class Event:
    """A change of the power by `power_w` for `duration_ms`.

    `name` is the English name, which commands and JSON use. `source` states the origin of the power. `key` is
    the key of a public example's title, or "" for other events.
    """

    name: str
    power_w: int
    duration_ms: int
    source: str
    key: str = ""

    @property
    def is_daily(self) -> bool:
        """Whether the event can happen every day, because it is shorter than a day."""
        return self.duration_ms < DAY_MS

    @property
    def title(self) -> str:
        """The event's name in the current language."""
        if self.key:
            return say(f"event.{self.key}")
        return say("event.of_power", power=self.power_w, duration=duration(self.duration_ms))

    @property
    def energy_wh(self) -> Fraction:
        """The energy of the change, in Wh."""
        return Fraction(self.power_w * self.duration_ms, HOUR_MS)


_PROGRAMME = "tracebase: d_inf of windows of one set, 18 to 38 W"
_TELEVISION = "tracebase TV-LCD and TV-CRT: 58 to 156 W when on"
_ASSUMED = "our assumption"
_WASHING = "heating spread over the cycle"
_AWAY = "our assumption: a home's mean use of 330 W falls to a standby of 80 W"

EVENTS = tuple(
    Event(name, power_w, duration_ms, source, key)
    for key, name, power_w, duration_ms, source in (
        ("programme", "which programme was on, 1 h", 38, HOUR_MS, _PROGRAMME),
        ("kettle", "a kettle", 2200, 3 * MINUTE_MS, "110 Wh; tracebase WaterKettle: 1.8 to 2.5 kW"),
        ("evening", "a TV evening", 100, 3 * HOUR_MS, f"0.3 kWh; {_TELEVISION}"),
        ("washing", "a washing machine", 400, 2 * HOUR_MS, f"0.8 kWh; {_ASSUMED}, {_WASHING}"),
        ("oven", "the oven, 45 min", 1600, 45 * MINUTE_MS, f"1.2 kWh; {_ASSUMED}"),
        ("away_hours", "8 h away", 250, 8 * HOUR_MS, f"2 kWh; {_AWAY}"),
        ("away_day", "a day away", 250, 24 * HOUR_MS, f"6 kWh; {_AWAY}"),
        ("away_week", "a week away", 250, 168 * HOUR_MS, f"42 kWh; {_AWAY}"),
    )
)
"""The public examples in `check` (law 8)."""


def parse_event(text: str) -> Event:
    """Parse an event such as ``2000W 30min``. Raises ValueError, with an example, if the text is no event."""
    match = _EVENT.fullmatch(text.strip())
    if match is None or not int(match[1]) or not parse_duration(match[2]):
        raise ValueError("a power and a duration, such as '2000W 30min'")
    duration_ms = parse_duration(match[2])
    name = f"{match[1]} W for {duration_text(duration_ms)}"
    return Event(name, int(match[1]), duration_ms, "yours")


def window_distances(event: Event, terms: Terms, days: int = 1) -> set[tuple[Fraction, ...]]:
    """Return, for each alignment of an event with the grid, the distance by which it changes each window."""
    alignments = distance_runs(event, terms, days)
    return {tuple(distance for distance, count in runs for _ in range(count)) for runs in alignments}


def distance_runs(event: Event, terms: Terms, days: int = 1) -> set[Runs]:
    """Return, for each alignment of an event with the grid, the distances by which windows change, as `Runs`.

    The event happens at the same time on each of `days` days; its energies in one window add up. It is enough
    to consider alignments in which the event starts with a slot (on the first day). Alignments in which the
    event ends with a slot are the mirror images of these, and in between the distances change linearly.

    The distances are between readings, not loads: a sampled power is assumed to last one period longer than
    the event, and dead bands and counting steps are added (`loads`). An event can also shift a register by a
    step for good; this shift of later windows is not included.
    """
    reported = replace(event, duration_ms=event.duration_ms + terms.readings.longest_hold_ms)
    slots = terms.stretches
    starts_ms = {start_ms for stretches in slots for start_ms, _ in stretches if start_ms < DAY_MS}
    alignments = {_runs(reported, terms, start_ms, days) for start_ms in starts_ms}
    return {
        tuple((loads.reported_change_bound(terms, distance), count) for distance, count in runs)
        for runs in alignments
    }


def _runs(event: Event, terms: Terms, start_ms: int, days: int) -> Runs:
    """Return an event's `Runs`, largest first, if the event starts `start_ms` after a window's start."""
    last_window = (start_ms + event.duration_ms - 1) // terms.length_ms
    count = last_window - start_ms // terms.length_ms - 1  # of windows that a single event fills
    if days == 1 and count >= _WINDOWS_FEW:
        # All windows that the event fills have the same distance.
        full_distance = _distance(event, terms, _filled_ms(terms, 0, terms.length_ms))
        ends = replace(event, duration_ms=event.duration_ms - count * terms.length_ms)
        distances = Counter(dict(_runs(ends, terms, start_ms, 1)))
        distances[full_distance] += count
        return tuple(sorted(distances.items(), reverse=True))
    event_ms: dict[int, Counter[int]] = defaultdict(Counter)  # by window and slot
    for begin_ms in range(start_ms, start_ms + days * DAY_MS, DAY_MS):
        end_ms = begin_ms + event.duration_ms
        for window in range(begin_ms // terms.length_ms, (end_ms - 1) // terms.length_ms + 1):
            from_ms, to_ms = (time_ms - window * terms.length_ms for time_ms in (begin_ms, end_ms))
            event_ms[window].update(_filled_ms(terms, max(from_ms, 0), min(to_ms, terms.length_ms)))
    distances = Counter(_distance(event, terms, slots) for slots in event_ms.values())
    return tuple(sorted(distances.items(), reverse=True))


def _distance(event: Event, terms: Terms, filled_ms: Mapping[int, int]) -> Fraction:
    """Return the distance, in the unit of values, if the event lasts `filled_ms` in each slot of a window."""
    parts = [
        Fraction(ms, HOUR_MS if terms.is_energy else terms.slot_ms(index)) for index, ms in filled_ms.items()
    ]
    return event.power_w / terms.wh_per_value * terms.metric.norm(parts)


def _filled_ms(terms: Terms, begin_ms: int, end_ms: int) -> Mapping[int, int]:
    """Return how many ms of a period lie in each slot; of equal slots, only the first two and the last."""
    if terms.places:
        stretches = [place.stretches for place in terms.places]
        return {
            index: sum(max(min(end_ms, to_ms) - max(begin_ms, from_ms), 0) for from_ms, to_ms in parts)
            for index, parts in enumerate(stretches)
        }
    step_ms = terms.step_ms  # of a slot or, in a peak, of a part
    first, last = begin_ms // step_ms, (end_ms - 1) // step_ms
    return {
        index: min(end_ms, (index + 1) * step_ms) - max(begin_ms, index * step_ms)
        for index in {first, min(first + 1, last), last}
    }
