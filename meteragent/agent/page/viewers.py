"""Who looks at the page just now, and what they have not been sent yet.

A viewer is one open page on one meter. What a viewer does not take in time is dropped, oldest first, and
counted for it; when it leaves, its queue is gone.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from meteragent.agent.page.means import SlotMean, SlotMeans
from meteragent.domain.commit import Outgoing
from meteragent.domain.reading import Observer, Used
from meteragent.domain.schedule import Schedule

VIEWERS = 8
"""Pages open at once, at most."""
WAITING = 2000
"""Readings, and records, that wait for a viewer at most."""


class News(NamedTuple):
    """What is new: readings as (time_ms, value_u), records as they leave, and how many were dropped.

    `means` are those of slots that closed or are open, by the name of their schedule.
    """

    readings: list[tuple[int, int]]
    records: list[bytes]
    missed: int
    means: dict[str, list[SlotMean]]


class Full(Exception):
    """As many pages are open as may be."""


class Viewer:
    """One open page, on one meter of one stream."""

    def __init__(self, stream: str, meter: str, topic: str, schedules: Mapping[str, Schedule]) -> None:
        self.stream = stream
        self.meter = meter
        self.topic = topic
        self.over = False
        self._means = {name: SlotMeans(schedule) for name, schedule in schedules.items()}
        self._readings: deque[tuple[int, int]] = deque(maxlen=WAITING)
        self._records: deque[bytes] = deque(maxlen=WAITING)
        self._missed = 0
        self._wake = asyncio.Event()

    def reading(self, time_ms: int, value_u: int) -> None:
        """Take a reading of its meter."""
        self._missed += len(self._readings) == WAITING
        self._readings.append((time_ms, value_u))
        self._wake.set()

    def span(self, start_ms: int, end_ms: int, value: "int | Used | None") -> None:
        """Take a stretch of time that was added to the slots of its meter."""
        for means in self._means.values():
            means.add(start_ms, end_ms, value)

    def released(self, payload: bytes) -> None:
        """Take a record of its meter."""
        self._missed += len(self._records) == WAITING
        self._records.append(payload)
        self._wake.set()

    def end(self) -> None:
        """The server stops."""
        self.over = True
        self._wake.set()

    async def wait(self, timeout_s: float) -> None:
        """Wait until there is something new, at most so long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._wake.wait()

    def take(self) -> News:
        """All that is new."""
        self._wake.clear()
        means = {name: taken for name, known in self._means.items() if (taken := known.take())}
        news = News(list(self._readings), list(self._records), self._missed, means)
        self._readings.clear()
        self._records.clear()
        self._missed = 0
        return news


class Viewers:
    """The open pages: false while there is none, and then nothing needs to be passed on."""

    def __init__(self) -> None:
        self._open: list[Viewer] = []

    def __bool__(self) -> bool:
        return bool(self._open)

    def enter(
        self, stream: str, meter: str, topic: str, schedules: Mapping[str, Schedule] | None = None
    ) -> Viewer:
        """Somebody looks at a meter, whose records leave on a topic; raises Full when there are too many.

        The means of its slots are told for each of the schedules.
        """
        if len(self._open) >= VIEWERS:
            raise Full
        self._open.append(Viewer(stream, meter, topic, schedules or {}))
        return self._open[-1]

    def leave(self, viewer: Viewer) -> None:
        """Somebody looks no more: nothing is left of what it was to be told."""
        self._open.remove(viewer)

    def observer(self, stream: str) -> Observer | None:
        """Return what takes the readings of a stream just now; None when nobody looks at it."""
        looking = [viewer for viewer in self._open if viewer.stream == stream]
        return _Observer(looking) if looking else None

    def released(self, stream: str, outgoing: Iterable[Outgoing]) -> None:
        """Take what a commit of a stream has put into the outbox; descriptors are not shown."""
        looking = [viewer for viewer in self._open if viewer.stream == stream]
        for row in outgoing if looking else ():
            for viewer in looking:
                if viewer.topic == row.topic and not row.retain:
                    viewer.released(row.payload)

    def end(self) -> None:
        """The server stops: every viewer is told."""
        for viewer in self._open:
            viewer.end()


class _Observer:
    """Passes what counts of a stream on to those who look at its meters."""

    def __init__(self, viewers: Collection[Viewer]) -> None:
        self._viewers = viewers
        self.meters = {viewer.meter for viewer in viewers}

    def reading(self, meter: str, time_ms: int, value_u: int) -> None:
        for viewer in self._viewers:
            if viewer.meter == meter:
                viewer.reading(time_ms, value_u)

    def span(self, meter: str, start_ms: int, end_ms: int, value: "int | Used | None") -> None:
        for viewer in self._viewers:
            if viewer.meter == meter:
                viewer.span(start_ms, end_ms, value)
