"""The next opening and closing of each meter of a stream, in time order (wall clock only)."""

import heapq
from collections.abc import Iterator


class Deadlines:
    """The times at which slots are due to open and to close: two heaps, whose entries may be stale.

    Closings come before openings with the same time. Closings with the same time are sorted by the public ids
    of their meters (law 4).
    """

    __slots__ = ("_closings", "_openings")

    def __init__(self) -> None:
        self._openings: list[tuple[int, str]] = []
        self._closings: list[tuple[int, str, str]] = []

    def __bool__(self) -> bool:
        """Return whether at least one opening or closing is scheduled."""
        return bool(self._openings or self._closings)

    def add_opening(self, time_ms: int, meter: str) -> None:
        """Schedule the opening of a slot of `meter`."""
        heapq.heappush(self._openings, (time_ms, meter))

    def add_closing(self, time_ms: int, public_id: str, meter: str) -> None:
        """Schedule the closing of a slot of `meter`."""
        heapq.heappush(self._closings, (time_ms, public_id, meter))

    def first_ms(self, *, closing: bool) -> int | None:
        """Return the earliest scheduled time, or None if there is none.

        If `closing` is False, only openings count.
        """
        heads = (*self._openings[:1], *(self._closings[:1] if closing else ()))
        return min((head[0] for head in heads), default=None)

    def take(self, open_ms: int, close_ms: int) -> Iterator[tuple[int | None, str]]:
        """Remove and yield the due entries in order; entries may be added during the iteration.

        An opening is due if its time is at most `open_ms`. A closing is due if its time is at most `close_ms`
        and at most `open_ms`. Yields (time, meter) for a closing, and (None, meter) for an opening.
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
