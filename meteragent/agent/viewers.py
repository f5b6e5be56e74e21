"""The open pages, each on one meter, the events that wait for them, and the means of the meters they showed.

Means are kept for `KEEP_S` after a page closes, in memory only (law 3). The oldest are dropped first.
"""

import asyncio
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from meteragent.agent.clock import wait_at_most
from meteragent.core.noiseless import SlotMean, SlotMeans
from meteragent.domain.commit import Outgoing
from meteragent.domain.reading import Observer, RegisterUse
from meteragent.domain.schedule import Schedule

VIEWERS_MAX = 8
"""The largest number of pages that may be open at once."""
WAITING_MAX = 2000
"""The largest number of readings, and of records, that may wait for a viewer."""
KEEP_S = 86_400
"""How long means are kept after the last visit."""
METERS_MAX = VIEWERS_MAX
"""The largest number of meters whose means are kept."""
SLOTS_MAX = 50
"""The largest number of a meter's slots whose means are kept."""


class News(NamedTuple):
    """New readings (time, millionths of the unit), records, the count of dropped events, and slots' means."""

    readings: list[tuple[int, int]]
    records: list[bytes]
    missed_count: int
    means: list[SlotMean]


class TooManyViewers(Exception):
    """Too many open pages."""


class Viewer:
    """One open page, on one meter of one stream."""

    def __init__(self, stream: str, meter: str, topic: str, means: SlotMeans) -> None:
        self.stream = stream
        self.meter = meter
        self.topic = topic
        self.is_over = False
        self._means = means
        self._known_means: list[SlotMean] = []
        self._readings: deque[tuple[int, int]] = deque(maxlen=WAITING_MAX)
        self._records: deque[bytes] = deque(maxlen=WAITING_MAX)
        self._missed_count = 0
        self._wake = asyncio.Event()

    def queue_reading(self, time_ms: int, value_u: int) -> None:
        """Queue a reading of the meter."""
        self._missed_count += len(self._readings) == WAITING_MAX
        self._readings.append((time_ms, value_u))
        self._wake.set()

    def queue_record(self, payload: bytes) -> None:
        """Queue a record of the meter."""
        self._missed_count += len(self._records) == WAITING_MAX
        self._records.append(payload)
        self._wake.set()

    def end(self) -> None:
        """End the viewer, because the server is stopping."""
        self.is_over = True
        self._wake.set()

    async def wait(self, timeout_s: float) -> None:
        """Wait for an event, for at most `timeout_s`."""
        await wait_at_most(self._wake, timeout_s)

    def new_means(self) -> list[SlotMean]:
        """Return the meter's means that are new or have changed since the last call."""
        known_means, self._known_means = self._known_means, self._means.list_means()[-SLOTS_MAX:]
        return [mean for mean in self._known_means if mean not in known_means]

    def take_news(self) -> News:
        """Remove all waiting events, and return them with the new means."""
        self._wake.clear()
        news = News(list(self._readings), list(self._records), self._missed_count, self.new_means())
        self._readings.clear()
        self._records.clear()
        self._missed_count = 0
        return news


class Viewers:
    """The open pages, and the kept means; an instance is true if a page is open."""

    def __init__(self) -> None:
        self._open: list[Viewer] = []
        self._means: dict[tuple[str, str], SlotMeans] = {}
        self._timers: dict[tuple[str, str], asyncio.TimerHandle] = {}  # of meters that no page shows

    def __bool__(self) -> bool:
        return bool(self._open)

    def add_viewer(self, stream: str, meter: str, topic: str, schedule: Schedule) -> Viewer:
        """Add a viewer of a meter whose records are sent on `topic`. Raises TooManyViewers."""
        if len(self._open) >= VIEWERS_MAX:
            raise TooManyViewers
        key = stream, meter
        if timer := self._timers.pop(key, None):
            timer.cancel()
        means = self._means.setdefault(key, SlotMeans(schedule, SLOTS_MAX))
        if len(self._means) > METERS_MAX:
            self._forget_meter(next(iter(self._timers)))
        self._open.append(Viewer(stream, meter, topic, means))
        return self._open[-1]

    def remove_viewer(self, viewer: Viewer) -> None:
        """Remove a viewer, with its queues; the means of its meter are kept for a day."""
        self._open.remove(viewer)
        key = viewer.stream, viewer.meter
        if all((other.stream, other.meter) != key for other in self._open):
            self._timers[key] = asyncio.get_running_loop().call_later(KEEP_S, self._forget_meter, key)

    def _forget_meter(self, key: tuple[str, str]) -> None:
        self._timers.pop(key).cancel()
        del self._means[key]

    def observer_of(self, stream: str) -> Observer | None:
        """Return the observer of a stream's readings; None if no page has shown the stream."""
        meters = {meter for name, meter in self._means if name == stream}
        return _Observer(stream, meters, self._means, self._open) if meters else None

    def queue_records(self, stream: str, outgoing: Iterable[Outgoing]) -> None:
        """Pass the records that a commit put into the outbox on to their viewers, but no other rows."""
        viewers = [viewer for viewer in self._open if viewer.stream == stream]
        for row in outgoing if viewers else ():
            for viewer in viewers:
                if viewer.topic == row.topic and not row.retain and row.until_ms is None:
                    viewer.queue_record(row.payload)

    def end_viewers(self) -> None:
        """End every viewer, because the server is stopping."""
        for viewer in self._open:
            viewer.end()


class _Observer(NamedTuple):
    """The observer that passes a stream's readings on to viewers, and its spans to the kept means.

    A timeline may keep the observer after the last page closes, so it refers to shared means and viewers.
    """

    stream: str
    meters: Collection[str]
    means: Mapping[tuple[str, str], SlotMeans]
    viewers: Collection[Viewer]

    def note_reading(self, meter: str, time_ms: int, value_u: int) -> None:
        """Pass an accepted reading on to the viewers of its meter."""
        for viewer in self.viewers:
            if (viewer.stream, viewer.meter) == (self.stream, meter):
                viewer.queue_reading(time_ms, value_u)

    def note_span(self, meter: str, start_ms: int, end_ms: int, value: "int | RegisterUse | None") -> None:
        """Integrate a span and its value into the means of its meter."""
        if means := self.means.get((self.stream, meter)):
            means.add_stretch(start_ms, end_ms, value)
