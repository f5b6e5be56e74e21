"""A meter's next slot to be released, which is public, because it follows from the schedule and the clock."""

from typing import NamedTuple

from meteragent.core.stream import Stream
from meteragent.core.timeline import Timeline
from meteragent.domain.terms import Clock


class Upcoming(NamedTuple):
    """The next slot to be released: its start and end, and the earliest time at which its record is sent.

    Under the event clock, readings may close the slot at any time, so the record may be sent earlier. A meter
    whose first reading arrives in the middle of a window has no open slot until the next window begins (law
    4), so its upcoming slot is in that next window.
    """

    start_ms: int
    end_ms: int
    leaves_ms: int


def upcoming(timeline: Timeline, stream: Stream, delay_ms: int) -> Upcoming | None:
    """Return the slot that closes next, which need not be open yet.

    Returns None if no slot is open and no window is scheduled, or if no receiver gets the slot. `delay_ms` is
    the meter's fixed delay, at most `sink.spread`; the event clock does not delay records. Whether the window
    opens also depends on facts that are not known in advance, such as the budget, other agents and a crowd's
    keys.
    """
    if stream.terms.clock is Clock.EVENT:
        delay_ms = 0
    closing = timeline.closing()
    if closing is not None:
        closes_ms, window, index = closing
        start_ms, end_ms = window.slot_start_ms(index), window.slot_end_ms(index)
        slot, window_ms = Upcoming(start_ms, end_ms, closes_ms + delay_ms), window.start_ms
    elif timeline.next_ms is not None:
        terms, window_ms = stream.schedule.terms(timeline.next_ms), timeline.next_ms
        from_ms, to_ms = terms.first_slot
        end_ms = window_ms + to_ms
        slot = Upcoming(window_ms + from_ms, end_ms, end_ms + terms.lateness_ms + delay_ms)
    else:
        return None
    return slot if stream.has_receiver(window_ms, slot.end_ms) else None
