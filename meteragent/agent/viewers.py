"""The open pages, each on one meter, and the events that wait for them; the oldest give way."""

import asyncio
from collections import deque
from collections.abc import Collection, Iterable
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

    def __init__(self, stream: str, meter: str, topic: str, schedule: Schedule) -> None:
        self.stream = stream
        self.meter = meter
        self.topic = topic
        self.is_over = False
        self._means = SlotMeans(schedule)
        self._readings: deque[tuple[int, int]] = deque(maxlen=WAITING_MAX)
        self._records: deque[bytes] = deque(maxlen=WAITING_MAX)
        self._missed_count = 0
        self._wake = asyncio.Event()

    def queue_reading(self, time_ms: int, value_u: int) -> None:
        """Queue a reading of the meter."""
        self._missed_count += len(self._readings) == WAITING_MAX
        self._readings.append((time_ms, value_u))
        self._wake.set()

    def add_span(self, start_ms: int, end_ms: int, value: "int | RegisterUse | None") -> None:
        """Integrate a stretch of the meter's time into the viewer's means."""
        self._means.add_stretch(start_ms, end_ms, value)

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

    def take_news(self) -> News:
        """Remove all waiting events, and return them with the means of the open and newly closed slots."""
        self._wake.clear()
        news = News(list(self._readings), list(self._records), self._missed_count, self._means.take_means())
        self._readings.clear()
        self._records.clear()
        self._missed_count = 0
        return news


class Viewers:
    """The open pages; an instance is true if a page is open and readings must be passed on."""

    def __init__(self) -> None:
        self._open: list[Viewer] = []

    def __bool__(self) -> bool:
        return bool(self._open)

    def add_viewer(self, stream: str, meter: str, topic: str, schedule: Schedule) -> Viewer:
        """Add a viewer of a meter whose records are sent on `topic`. Raises TooManyViewers."""
        if len(self._open) >= VIEWERS_MAX:
            raise TooManyViewers
        self._open.append(Viewer(stream, meter, topic, schedule))
        return self._open[-1]

    def remove_viewer(self, viewer: Viewer) -> None:
        """Remove a viewer, with its queues and means."""
        self._open.remove(viewer)

    def observer_of(self, stream: str) -> Observer | None:
        """Return the observer of a stream's readings; None while no page shows the stream."""
        viewers = [viewer for viewer in self._open if viewer.stream == stream]
        return _Observer(viewers) if viewers else None

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


class _Observer:
    """The observer that passes a stream's accepted readings and spans on to the viewers of their meters."""

    def __init__(self, viewers: Collection[Viewer]) -> None:
        self._viewers = viewers
        self.meters = {viewer.meter for viewer in viewers}

    def note_reading(self, meter: str, time_ms: int, value_u: int) -> None:
        """Pass an accepted reading on to the viewers of its meter."""
        for viewer in self._viewers:
            if viewer.meter == meter:
                viewer.queue_reading(time_ms, value_u)

    def note_span(self, meter: str, start_ms: int, end_ms: int, value: "int | RegisterUse | None") -> None:
        """Pass a span and its value on to the viewers of its meter."""
        for viewer in self._viewers:
            if viewer.meter == meter:
                viewer.add_span(start_ms, end_ms, value)
