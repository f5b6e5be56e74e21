"""Private records out: what the outbox holds, in order, until the broker has confirmed it.

Rules
1. What leaves is read from the outbox, so it is on disk, and it is the same bytes every time.
2. Nothing leaves before it is due; without a clock nothing leaves at all.
3. On every new connection the descriptors leave first, then everything that is not confirmed, from
   the first: records of a meter are never out of order, though some may come twice.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from meteragent.encode import descriptor_topics
from meteragent.health import Counts
from meteragent.mqtt import Session
from meteragent.outbox import Waiting
from meteragent.release import Descriptor

FETCH = 1000
"""Rows read from the outbox at once."""
POLL_S = 1.0
"""How often the outbox is looked at when nothing is announced: a wall clock may be set."""


class Outlet(NamedTuple):
    """What the sink reads of its outbox: the first rows due by a time, so many, and descriptors."""

    pending: Callable[[int, int], Awaitable[list[Waiting]]]
    descriptors: Callable[[], Awaitable[list[Descriptor]]]


class Sink:
    """One stream's outgoing messages."""

    def __init__(self, outlet: Outlet, now_ms: Callable[[], int | None], counts: Counts) -> None:
        self._outlet = outlet
        self._now_ms = now_ms
        self._counts = counts
        self._wake = asyncio.Event()
        self._in_flight: dict[int, int] = {}
        self._delivered: list[int] = []
        self._confirmed: set[int] = set()
        self.idle = asyncio.Event()

    def wake(self) -> None:
        """Something was committed to the outbox."""
        self.idle.clear()
        self._wake.set()

    @property
    def confirmed(self) -> frozenset[int]:
        """The rows that are delivered and not yet marked so in the outbox."""
        return frozenset(self._confirmed)

    def take_delivered(self) -> list[int]:
        """The rows confirmed since the last call, for the next commit."""
        delivered, self._delivered = self._delivered, []
        return delivered

    def written(self, delivered: list[int]) -> None:
        """These rows are marked in the outbox: they will not be read again."""
        self._confirmed.difference_update(delivered)

    def on_delivered(self, packet_id: int, _reason: int) -> None:
        """The broker has confirmed a publication."""
        row = self._in_flight.pop(packet_id, None)
        if row:
            self._delivered.append(row)
            self._confirmed.add(row)
            self._counts.add("delivered")
        self._wake.set()

    async def serve(self, session: Session) -> None:
        """Send on a new connection: descriptors, then everything that is not confirmed (rule 3)."""
        self._in_flight.clear()
        for descriptor in await self._outlet.descriptors():
            for topic in descriptor_topics(descriptor.topic, descriptor.id):
                await self._room(session)
                self._in_flight[session.publish(topic, descriptor.payload, retain=True)] = 0
        while True:
            self._wake.clear()
            rows, next_ms = await self._due()
            for row in rows:
                await self._room(session)
                packet_id = session.publish(row.topic, row.payload, retain=row.retain)
                self._in_flight[packet_id] = row.id
            if not rows:
                if not self._in_flight and not self._wake.is_set():
                    self.idle.set()
                await self._woken(next_ms)

    async def _due(self) -> tuple[list[Waiting], int | None]:
        """The next rows that are due, and when the one after them will be, if that is soon.

        Rows on their way, and those confirmed and not yet marked so, are left out.
        """
        now_ms = self._now_ms()
        if now_ms is None:
            return [], None
        known = len(self._in_flight) + len(self._confirmed)
        rows = await self._outlet.pending(now_ms + round(POLL_S * 1000), FETCH + known)
        sent = self._confirmed.union(self._in_flight.values())
        due = [row for row in rows if row.due_ms <= now_ms and row.id not in sent]
        return due, next((row.due_ms for row in rows if row.due_ms > now_ms), None)

    async def _room(self, session: Session) -> None:
        while len(self._in_flight) >= session.inflight:
            self._wake.clear()
            await self._wake.wait()

    async def _woken(self, next_ms: int | None) -> None:
        """Wait for something to happen, or for the next row to fall due."""
        now_ms = self._now_ms()
        pause_s = POLL_S if next_ms is None or now_ms is None else (next_ms - now_ms) / 1000
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(pause_s, 0)):
                await self._wake.wait()
