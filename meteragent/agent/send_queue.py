"""The beginning of a sink's outbox in memory, and the sink's view of the store."""

import math
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Iterable
from operator import attrgetter, itemgetter
from typing import NamedTuple

from meteragent.domain.commit import Descriptor
from meteragent.store.outbox import WaitingRow

FETCH = 1000
"""The largest number of rows to read from the outbox at once, besides those in flight or confirmed."""


class OutboxReader(NamedTuple):
    """The sink's view of the store.

    pending      returns undelivered rows due by a time, up to a number, after a position (due time, id)
    descriptors  returns the latest descriptor of each topic
    open_topics  returns the topics of the open windows
    """

    pending: Callable[[int, int, tuple[float, float]], Awaitable[list[WaitingRow]]]
    descriptors: Callable[[], Awaitable[list[Descriptor]]]
    open_topics: Callable[[], Awaitable[set[str]]]


ORDER = itemgetter(1, 0)
"""The order in which rows leave: by due time, then by id."""
BEGINNING = (-math.inf, 0.0)
"""The position before all rows."""


class SendQueue:
    """The beginning of the outbox, kept in memory so that new rows need not be read back from disk.

    The queue holds all waiting rows up to the position `end` (due time, id), in order; later rows are only in
    the outbox.
    """

    def __init__(self) -> None:
        self.end: tuple[float, float] = BEGINNING
        self._rows: list[WaitingRow] = []

    def forget(self) -> None:
        """Drop all rows, because the outbox is read from the beginning."""
        self.end = BEGINNING
        self._rows = []

    def add(self, rows: Iterable[WaitingRow]) -> None:
        """Add the committed rows up to `end`; if the queue is too long then, shorten it and lower `end`."""
        self._rows += [row for row in rows if ORDER(row) <= self.end]
        self._rows.sort(key=ORDER)
        if len(self._rows) > 2 * FETCH:
            del self._rows[FETCH:]
            self.end = ORDER(self._rows[-1])

    def merge(self, rows: Iterable[WaitingRow], end: tuple[float, float]) -> None:
        """Add the rows read from the outbox up to `end`, and keep rows that were committed meanwhile."""
        by_id = {row.id: row for row in self._rows if ORDER(row) <= end} | {row.id: row for row in rows}
        self.end = end
        self._rows = sorted(by_id.values(), key=ORDER)

    def pop_due(self, now_ms: int) -> list[WaitingRow]:
        """Remove the rows that are due, and return them."""
        count = bisect_right(self._rows, now_ms, key=attrgetter("due_ms"))
        rows = self._rows[:count]
        del self._rows[:count]
        return rows

    @property
    def next_ms(self) -> int | None:
        """The time at which the first row is due; None if the queue is empty."""
        return self._rows[0].due_ms if self._rows else None
