"""Private records out: what the outbox holds, in order, until the broker has confirmed it.

Rules
1. What leaves is on disk: it is read from the outbox, or handed over by the commit that has just put it
   there, which is the same rows with the same bytes in the same order.
2. Nothing leaves before it is due; without a clock nothing leaves at all.
3. On every new connection the descriptors leave first, then everything that is not confirmed, from
   the first: records of a meter are never out of order, though some may come twice.
   A record that the broker refuses is never given up: its meter waits, `health` says so, and the other
   meters, the other streams and the source go on (`refusal`).
4. What leaves beside records, a status and what Home Assistant needs to know, follows from the time, from
   descriptors and from Home Assistant's starts, and from nothing that a meter does (law 4). Nothing that
   arrives here is believed but that Home Assistant has started.
"""

import asyncio
import contextlib
import logging
import math
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Iterable
from operator import attrgetter, itemgetter
from typing import NamedTuple

from meteragent.agent.refused_topics import Refusals
from meteragent.domain.commit import Descriptor
from meteragent.domain.counters import Counts
from meteragent.domain.errors import LinkError
from meteragent.mqtt import Session, Token, Will
from meteragent.store.outbox import Waiting
from meteragent.wire import status
from meteragent.wire.descriptor import topics as descriptor_topics
from meteragent.wire.home_assistant import ONLINE, Discovery

FETCH = 1000
"""Rows read from the outbox at once."""
POLL_S = 1.0
"""How often the outbox is looked at when nothing is announced: a wall clock may be set. What falls due within
twice as long is read beforehand."""

_log = logging.getLogger("meteragent")


class Outlet(NamedTuple):
    """What the sink reads of the store.

    pending      the first rows due by a time, so many, after a place (due time, id)
    descriptors  the latest of each topic
    running      the topics of the windows that are open
    """

    pending: Callable[[int, int, tuple[float, float]], Awaitable[list[Waiting]]]
    descriptors: Callable[[], Awaitable[list[Descriptor]]]
    running: Callable[[], Awaitable[set[str]]]


class Beside(NamedTuple):
    """What leaves beside records: a status, and devices for Home Assistant.

    When Home Assistant has started it is told again `delay_s` later: many agents may hear it start.
    """

    status: str | None = None
    discovery: Discovery | None = None
    delay_s: float = 1.0

    @property
    def will(self) -> Will | None:
        """What the broker says when the connection has ended."""
        return None if self.status is None else Will(self.status, status.OFFLINE)


_ORDER = itemgetter(1, 0)
_NOTHING, _EVER = (-math.inf, 0.0), math.inf
_NEVER_MS = 2**63


class Known:
    """The rows that are to leave next, so that nobody waits for the store to say what it was just told.

    All that wait and come no later than `end` (due time, id) are here, in order; what comes later only the
    outbox knows.
    """

    def __init__(self) -> None:
        self.end: tuple[float, float] = _NOTHING
        self._rows: list[Waiting] = []

    def forget(self) -> None:
        """Nothing is known any more."""
        self.end = _NOTHING
        self._rows = []

    def add(self, rows: Iterable[Waiting]) -> None:
        """Rows that have been committed; when there are many the last are left to the outbox."""
        self._rows += [row for row in rows if _ORDER(row) <= self.end]
        self._rows.sort(key=_ORDER)
        if len(self._rows) > 2 * FETCH:
            del self._rows[FETCH:]
            self.end = _ORDER(self._rows[-1])

    def read(self, rows: Iterable[Waiting], end: tuple[float, float]) -> None:
        """What the outbox holds up to `end`; rows that were committed since then are known."""
        new = {row.id: row for row in self._rows if _ORDER(row) <= end} | {row.id: row for row in rows}
        self.end = end
        self._rows = sorted(new.values(), key=_ORDER)

    def due(self, now_ms: int) -> list[Waiting]:
        """Those that are due, which are to leave now and are no longer known."""
        many = bisect_right(self._rows, now_ms, key=attrgetter("due_ms"))
        rows = self._rows[:many]
        del self._rows[:many]
        return rows

    @property
    def next_ms(self) -> int | None:
        """When the first falls due."""
        return self._rows[0].due_ms if self._rows else None


class Flight(NamedTuple):
    """A message on its way: its row, 0 where it is none of the outbox, and the topic that a refusal holds."""

    row: int
    topic: str


_NO_FLIGHT = Flight(0, "")


class Sink:
    """One stream's outgoing messages."""

    def __init__(
        self,
        outlet: Outlet,
        now_ms: Callable[[], int | None],
        counts: Counts,
        beside: Beside = Beside(),  # noqa: B008 -- it is frozen
        refusals: Refusals | None = None,
    ) -> None:
        """`refusals` knows how deep a sink topic is; left out: three segments."""
        self.beside = beside
        self._outlet = outlet
        self._now_ms = now_ms
        self._counts = counts
        self._known = Known()
        self._looked_s = -math.inf
        self._from_start = True
        self._wake = asyncio.Event()
        self._freed = asyncio.Event()
        self._in_flight: dict[int, Flight] = {}
        self._published_s = -math.inf
        self.refusals = refusals or Refusals(3)
        self._confirmed: set[int] = set()
        self._last_ms = _NEVER_MS
        self._session: Session | None = None
        self._status_s = 0.0
        self._again_s: float | None = None
        self.idle = asyncio.Event()

    def wake(self) -> None:
        """The outbox is to be looked at, from the start."""
        self._read_again()
        self.idle.clear()
        self._wake.set()

    def _read_again(self) -> None:
        self._looked_s, self._from_start = -math.inf, True
        self.refusals.recount()

    def finish(self) -> None:
        """What is due by now is the last that leaves: then `idle` stays, and all that left can be marked."""
        self._last_ms = self._now_ms() or 0
        self.wake()

    def take(self, rows: Iterable[Waiting]) -> None:
        """These rows were committed to the outbox."""
        self._known.add(rows)
        self.idle.clear()
        self._wake.set()

    @property
    def confirmed(self) -> frozenset[int]:
        """The rows that are delivered and not yet marked so in the outbox: until a commit has done so.

        One that is cancelled while it waits for the store has not; what is marked twice is marked once.
        """
        return frozenset(self._confirmed)

    def written(self, delivered: Iterable[int]) -> None:
        """These rows are marked in the outbox: they will not be read again."""
        self._confirmed.difference_update(delivered)

    def on_delivered(self, packet_id: int, _reason: int) -> None:
        """Note that the broker has confirmed a publication."""
        row, topic = self._in_flight.pop(packet_id, _NO_FLIGHT)
        if self.refusals.taken(topic, row) and row:
            self._confirmed.add(row)
            self._counts.add("delivered")
        self._answered()

    def on_refused(self, packet_id: int, reason: int) -> None:
        """Note that the broker has refused a publication: its topic is held, the others go on."""
        _, topic = self._in_flight.pop(packet_id, _NO_FLIGHT)
        if topic not in self.refusals.held:
            _log.warning("the sink's broker refuses a topic (reason 0x%02x): its messages wait", reason)
        self.refusals.refused(topic, _clock_s())
        self._answered()

    def _answered(self) -> None:
        self._freed.set()
        if not self._in_flight:  # else there is something that is not idle
            self._wake.set()

    def on_message(self, topic: str, payload: bytes, _qos: int, retain: bool, token: Token | None) -> None:
        """Home Assistant has started, or something of no interest has arrived."""
        if self._session is not None and token is not None:
            self._session.acknowledge([token])
        discovery = self.beside.discovery
        if discovery is None or topic != discovery.birth or payload != ONLINE or retain:
            return
        if self._again_s is None:
            self._again_s = _clock_s() + self.beside.delay_s
            self._wake.set()

    async def serve(self, session: Session) -> None:
        """Send on a new connection: descriptors, then everything that is not confirmed (rule 3)."""
        self._session = session
        self._in_flight.clear()
        self._status_s, self._again_s = _clock_s(), None
        self.refusals.connected(_clock_s())
        try:
            await self._listen(session)
            await self._send(session)
        finally:
            topics = {flight.topic for flight in self._in_flight.values()}
            self.refusals.ended(topics, self._published_s, _clock_s())

    async def _send(self, session: Session) -> None:
        await self._say_what_is_due(session)
        for descriptor in await self._outlet.descriptors():
            flight = Flight(0, self.refusals.topic_of(descriptor.topic))
            if flight.topic not in self.refusals.held:
                for topic in descriptor_topics(descriptor.topic, descriptor.id):
                    await self._publish(session, flight, topic, descriptor.payload, retain=True)
        await self._introduce_all(session)
        self._known.forget()
        self._read_again()
        while True:
            self._wake.clear()
            await self._say_what_is_due(session)
            if self.refusals.turn(_clock_s()):
                self._read_again()
            rows = await self._due()
            if not rows:
                if not self._in_flight and not self._wake.is_set():
                    self.refusals.idle()
                    self.idle.set()
                await self._woken(self._known.next_ms)
            for row in rows:
                topic = self.refusals.topic_of(row.topic)
                if self.refusals.passes(topic, row.id, row.size_bytes):
                    await self._introduce_new(session, row)
                    await self._publish(session, Flight(row.id, topic), row.topic, row.payload, row.retain)

    async def _publish_beside(self, session: Session, topic: str, payload: bytes) -> None:
        """Publish what is no meter's, retained, unless the broker refuses it."""
        if self.refusals.passes(topic, 0, 0):
            await self._publish(session, Flight(0, topic), topic, payload, retain=True)

    async def _publish(
        self, session: Session, flight: Flight, topic: str, payload: bytes, retain: bool
    ) -> None:
        """Publish a message when there is room."""
        await self._room(session)
        self._published_s = _clock_s()
        self._in_flight[session.publish(topic, payload, retain=retain)] = flight

    async def _listen(self, session: Session) -> None:
        """Ask to be told of Home Assistant's starts; what is retained is found without that."""
        if self.beside.discovery is not None:
            try:
                await session.subscribe(self.beside.discovery.birth)
            except LinkError as error:
                _log.warning("the sink will not hear of Home Assistant's starts: %s", error)

    async def _say_what_is_due(self, session: Session) -> None:
        """The status on its schedule, and the devices after a start of Home Assistant."""
        now_s = _clock_s()
        if self.beside.status is not None and now_s >= self._status_s:
            now_ms = self._now_ms()
            if now_ms is not None:
                self._status_s = now_s + status.PERIOD_S
                await self._publish_beside(session, self.beside.status, status.online(now_ms))
        if self._again_s is not None and now_s >= self._again_s:
            self._again_s = None
            await self._introduce_all(session)

    async def _introduce_all(self, session: Session) -> None:
        """Announce the devices of meters whose windows open; one that has left is not brought back."""
        if self.beside.discovery is not None:
            running = await self._outlet.running()
            for descriptor in await self._outlet.descriptors():
                if descriptor.topic in running:
                    await self._introduce(session, descriptor.topic, descriptor.payload)

    async def _introduce_new(self, session: Session, row: Waiting) -> None:
        """Announce a meter's device before its first descriptor, if this is one."""
        if row.retain and (sink_topic := row.topic.removesuffix("/privacy")) != row.topic:
            await self._introduce(session, sink_topic, row.payload)

    async def _introduce(self, session: Session, sink_topic: str, descriptor: bytes) -> None:
        if self.beside.discovery is not None:
            await self._publish_beside(session, *self.beside.discovery.message(sink_topic, descriptor))

    async def _due(self) -> list[Waiting]:
        """The next rows that are due.

        Those that are known do not wait for what the store is writing: when it is busy tells when a home is.
        """
        now_ms = self._now_ms()
        if now_ms is None:
            return []
        now_ms = min(now_ms, self._last_ms)
        known = self._known
        rows = known.due(now_ms)
        if not rows and (known.end < (now_ms, _EVER) or _clock_s() >= self._looked_s + POLL_S):
            await self._look(now_ms)
            rows = known.due(now_ms)
        return rows

    async def _look(self, now_ms: int) -> None:
        """Read what is due and soon will be, behind what is known.

        Rows on their way, and those confirmed and not yet marked so, are left out.
        """
        self._looked_s = _clock_s()
        until_ms, limit = now_ms + round(2000 * POLL_S), FETCH + len(self._in_flight) + len(self._confirmed)
        from_start, self._from_start = self._from_start, False
        after = _NOTHING if from_start else self._known.end
        if until_ms < after[0]:
            return  # the clock was set back: all that is due is known
        rows = await self._outlet.pending(until_ms, limit, after)
        if self._from_start or (self._known.end != after and not from_start):
            self._looked_s = -math.inf
            return  # meanwhile less is known: what lies between was not read
        sent = self._confirmed.union(flight.row for flight in self._in_flight.values())
        end = _ORDER(rows[-1]) if len(rows) >= limit else (until_ms, _EVER)
        self._known.read((row for row in rows if row.id not in sent), end)

    async def _room(self, session: Session) -> None:
        """Wait until there is room, and a clock: it may have been set back meanwhile (rule 2)."""
        while len(self._in_flight) >= self._window(session) or self._now_ms() is None:
            self._freed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL_S):
                    await self._freed.wait()

    def _window(self, session: Session) -> int:
        """Return how many messages may be on their way at once."""
        return 1 if self.refusals.alone else session.inflight

    async def _woken(self, next_ms: int | None) -> None:
        """Wait for something to happen, or for what is next to fall due."""
        now_ms, now_s = self._now_ms(), _clock_s()
        pause_s = POLL_S
        if next_ms is not None and now_ms is not None and next_ms <= self._last_ms:
            pause_s = (next_ms - now_ms) / 1000
        if self.beside.status is not None and now_ms is not None:
            pause_s = min(pause_s, self._status_s - now_s)
        if self._again_s is not None:
            pause_s = min(pause_s, self._again_s - now_s)
        pause_s = min(pause_s, self.refusals.next_s() - now_s)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(pause_s, 0)):
                await self._wake.wait()


def _clock_s() -> float:
    """The time of schedules that no clock on a wall may move."""
    return asyncio.get_running_loop().time()
