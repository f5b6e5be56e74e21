"""When the slots of a stream open and close: the next time for all meters, and the next slot of one meter."""

import heapq
from collections.abc import Iterator
from typing import NamedTuple

from meteragent.core.stream import Stream
from meteragent.core.timeline import Timeline
from meteragent.domain.terms import Clock


class Deadlines:
    """The times at which slots are due to open and to close: two heaps, whose entries may be stale.

    Closings come before openings with the same time. Closings with the same time are sorted by the public ids
    of their meters (law 4).
    """

    def __init__(self) -> None:
        self._openings: list[tuple[int, str]] = []
        self._closings: list[tuple[int, str, str]] = []

    def add_opening(self, time_ms: int, meter: str) -> None:
        """Schedule the opening of a slot of `meter`."""
        heapq.heappush(self._openings, (time_ms, meter))

    def add_closing(self, time_ms: int, public_id: str, meter: str) -> None:
        """Schedule the closing of a slot of `meter`."""
        heapq.heappush(self._closings, (time_ms, public_id, meter))

    def next_due_ms(self, *, includes_closings: bool) -> int | None:
        """Return the earliest opening time or, if `includes_closings`, closing time; None without one."""
        heads = (*self._openings[:1], *(self._closings[:1] if includes_closings else ()))
        return min((head[0] for head in heads), default=None)

    def take_due(self, open_ms: int, close_ms: int) -> Iterator[tuple[int | None, str]]:
        """Remove and yield the due entries in order; entries may be added during the iteration.

        An opening is yielded as (None, meter) if its time is at most `open_ms`; a closing, as (time, meter),
        if its time is at most `open_ms` and at most `close_ms`.
        """
        close_ms = min(open_ms, close_ms)
        while True:
            opens_ms = self._openings[0][0] if self._openings else open_ms + 1
            closes_ms = self._closings[0][0] if self._closings else close_ms + 1
            if closes_ms <= close_ms and closes_ms <= opens_ms:
                yield closes_ms, heapq.heappop(self._closings)[2]
            elif opens_ms <= open_ms:
                yield None, heapq.heappop(self._openings)[1]
            else:
                return


class Upcoming(NamedTuple):
    """A meter's next slot to be released: its start and end, and the earliest time of its record.

    Under the event clock, readings may close the slot at any time, so the record may be sent earlier. A meter
    whose first reading arrives in the middle of a window has no slot before the next window (law 4).
    """

    start_ms: int
    end_ms: int
    leaves_ms: int


def upcoming_slot(timeline: Timeline, stream: Stream, delay_ms: int) -> Upcoming | None:
    """Return a meter's next slot to close, open or not; None if no receiver gets a further slot.

    `delay_ms` is the meter's fixed delay. Whether a window opens also depends on facts that are not known in
    advance, such as the budget, other agents and a crowd's keys.
    """
    closing = timeline.next_closing()
    if closing is not None:
        closes_ms, window, index = closing
        start_ms, end_ms = window.slot_start_ms(index), window.slot_end_ms(index)
        is_wanted = bool(stream.destinations_of_slot(window.destinations, window.start_ms, end_ms))
    elif timeline.next_ms is not None:
        terms = stream.schedule.terms_at(timeline.next_ms)
        start_ms, end_ms = (timeline.next_ms + at_ms for at_ms in terms.first_slot_ms)
        closes_ms = end_ms + terms.lateness_ms
        is_wanted = any(item.has_slot(timeline.next_ms, end_ms) for item in stream.receivers)
    else:
        return None
    leaves_ms = closes_ms + (delay_ms if stream.terms.clock is Clock.WALL else 0)
    return Upcoming(start_ms, end_ms, leaves_ms) if is_wanted else None
