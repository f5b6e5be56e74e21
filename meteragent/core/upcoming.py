"""The next slot of a meter to be released, which is public: it follows from schedule and clock alone."""

from typing import NamedTuple

from meteragent.core.timeline import Timeline
from meteragent.domain.schedule import Schedule
from meteragent.domain.terms import Terms


class Upcoming(NamedTuple):
    """A slot that will be released: its start and end, and the earliest time at which its record is sent.

    A meter whose first reading arrives in the middle of a window has no open slot until the next window
    begins (law 4), so its upcoming slot is in that next window.
    """

    start_ms: int
    end_ms: int
    leaves_ms: int


def upcoming(timeline: Timeline, schedule: Schedule, delay_ms: int) -> Upcoming | None:
    """Return the slot that closes next, which need not be open yet; None if no window is scheduled.

    `delay_ms` is the meter's fixed delay (`sink.spread`). Whether the window opens also depends on the budget
    and on other agents, which are not known in advance.
    """
    closing = timeline.closing()
    if closing is not None:
        closes_ms, window, index = closing
        start_ms, end_ms = window.slot_start_ms(index), window.slot_end_ms(index)
        return Upcoming(start_ms, end_ms, closes_ms + delay_ms)
    if timeline.next_ms is None:
        return None
    terms = schedule.terms(timeline.next_ms)
    from_ms, to_ms = _first_slot(terms)
    end_ms = timeline.next_ms + to_ms
    return Upcoming(timeline.next_ms + from_ms, end_ms, end_ms + terms.lateness_ms + delay_ms)


def _first_slot(terms: Terms) -> tuple[int, int]:
    """Return the start and end of the window's slot that ends first, in ms after the window's start."""
    slots = map(terms.stretches, range(terms.n))
    return min(((stretches[0][0], stretches[-1][1]) for stretches in slots), key=lambda slot: slot[1])
