"""The outgoing side, which sends the outbox's rows in order until the broker confirms them.

Theory of operation
-------------------
A row goes through these stages:

    outbox      on disk, by (due time, id)
    queue       the next rows, in memory (`SendQueue`): filled by `queue_rows` right after a commit, and by
                `_read_outbox`
    in flight   published, but not yet answered; the session limits the number of these rows
    confirmed   accepted by the broker, and marked in the outbox by the next commit (`note_marked`)

After a crash, all unmarked rows are sent again from the outbox. On a new connection, all unconfirmed rows are
sent again. A record may therefore be sent twice, but no crash loses it, and its bytes are always the same.
`idle` is set when no row can be sent now and all rows sent have been answered; a stop waits for it.

Rules
1. A record is sent only after it is on disk: it is read from the outbox, or handed over by the commit that
   has just written it. The outbox and the commit give the same rows and bytes in the same order.
2. No record is sent before it is due, and no message is sent while the clock shows no time.
3. On every new connection, the descriptors are sent first, and then all unconfirmed rows from the beginning
   of the outbox. A meter's records are never out of order, though some may arrive twice. A record that the
   broker refuses is never discarded: its meter waits and `health` reports how many topics are refused, while
   the other meters, the other streams and the source continue (`refused_topics`).
4. All other messages (a status, devices for Home Assistant) depend only on the time, descriptors, open
   windows and Home Assistant's starts, never on readings (law 4). Other incoming messages are ignored here.
"""

import asyncio
import logging
import math
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from operator import attrgetter, itemgetter
from typing import NamedTuple

from meteragent.agent.clock import POLL_S, loop_s, wait_at_most
from meteragent.agent.link.refused_topics import Refusals
from meteragent.agent.store_thread import OutboxReader
from meteragent.domain.counters import Counts
from meteragent.domain.errors import LinkError
from meteragent.mqtt import Session, Token, Will
from meteragent.store.outbox import WaitingRow
from meteragent.wire import status
from meteragent.wire.descriptor import LATEST_SUFFIX, descriptor_topics
from meteragent.wire.home_assistant import ONLINE, Discovery

FETCH_MAX = 1000
"""The largest number of rows to read from the outbox at once, without those in flight or confirmed."""
ROW_ORDER = itemgetter(1, 0)
"""The order in which rows are sent: by due time, then by id."""
OUTBOX_START = (-math.inf, 0.0)
"""The position before all rows."""

UNRETAINED_S = 3600.0
"""The time, in seconds, between two announcements at a broker without retained messages."""

_log = logging.getLogger("meteragent")


class Presence(NamedTuple):
    """The settings of the status and of the device announcements for Home Assistant.

    Without a topic `status`, no status is sent; without `discovery`, no devices are announced. When Home
    Assistant starts, the announcements are sent again after `delay_s`, which differs between agents. If
    `retain` is set, the broker also retains the newest record of each topic.
    """

    status: str | None = None
    discovery: Discovery | None = None
    delay_s: float = 1.0
    retain: bool = False

    @property
    def will(self) -> Will | None:
        """The last will, which the broker publishes when the connection ends; None if there is no status."""
        return None if self.status is None else Will(self.status, status.OFFLINE)


class SendQueue:
    """The first rows of the outbox, in order, up to the position `end` (due time, id), kept in memory."""

    def __init__(self) -> None:
        self.end: tuple[float, float] = OUTBOX_START
        self._rows: list[WaitingRow] = []

    def drop_rows(self) -> None:
        """Drop all rows, because the outbox is read from the beginning."""
        self.end = OUTBOX_START
        self._rows = []

    def add_rows(self, rows: Iterable[WaitingRow]) -> None:
        """Add the committed rows up to `end`; if the queue is too long then, shorten it and lower `end`."""
        self._rows += [row for row in rows if ROW_ORDER(row) <= self.end]
        self._rows.sort(key=ROW_ORDER)
        if len(self._rows) > 2 * FETCH_MAX:
            del self._rows[FETCH_MAX:]
            self.end = ROW_ORDER(self._rows[-1])

    def merge_rows(self, rows: Iterable[WaitingRow], end: tuple[float, float]) -> None:
        """Add the rows read from the outbox up to `end`, and keep rows that were committed meanwhile."""
        by_id = {row.id: row for row in self._rows if ROW_ORDER(row) <= end} | {row.id: row for row in rows}
        self.end = end
        self._rows = sorted(by_id.values(), key=ROW_ORDER)

    def pop_due(self, now_ms: int) -> list[WaitingRow]:
        """Remove the rows that are due, and return them."""
        count = bisect_right(self._rows, now_ms, key=attrgetter("due_ms"))
        rows = self._rows[:count]
        del self._rows[:count]
        return rows

    @property
    def next_due_ms(self) -> int | None:
        """The time at which the first row is due; None if the queue is empty."""
        return self._rows[0].due_ms if self._rows else None


class Flight(NamedTuple):
    """A message in flight: its row (0 if not in the outbox), the topic to hold after a refusal, its flag."""

    row: int
    topic: str
    retain: bool = False


@dataclass
class Announcer:
    """What a sink sends in addition to rows of the outbox; due times are the event loop's.

    Descriptors, the status and devices for Home Assistant are sent on each connection. The status is also
    sent every minute, and devices when Home Assistant starts. If the broker retains nothing, descriptors and
    devices are also sent every `UNRETAINED_S`. `publish` takes a flight, a topic and a payload.
    """

    presence: Presence
    outbox: OutboxReader
    now_ms: Callable[[], int | None]
    refusals: Refusals
    publish: Callable[[Session, Flight, str, bytes], Awaitable[None]]
    _status_due_s: float = math.inf
    _descriptors_due_s: float = math.inf
    _devices_due_s: float = math.inf
    _period_s: float = math.inf

    async def begin_connection(self, session: Session, now_s: float) -> None:
        """Subscribe to starts of Home Assistant on a new connection, and make all announcements due now."""
        self._status_due_s = self._descriptors_due_s = self._devices_due_s = now_s
        self._period_s = math.inf if session.retains else UNRETAINED_S
        if self.presence.discovery is not None:
            try:
                await session.subscribe(self.presence.discovery.birth_topic)
            except LinkError as error:  # Home Assistant finds the retained devices nevertheless
                text = "cannot subscribe to Home Assistant's birth messages at the sink's broker: %s"
                _log.warning(text, error)

    def hear_message(self, topic: str, payload: bytes, retain: bool, now_s: float) -> None:
        """Process a message, which may announce a start of Home Assistant: then the devices are due soon."""
        discovery = self.presence.discovery
        if discovery is not None and (topic, payload, retain) == (discovery.birth_topic, ONLINE, False):
            self._devices_due_s = min(self._devices_due_s, now_s + self.presence.delay_s)

    def next_due_s(self) -> float:
        """Return when the next announcement is due; the status is not due while no time is shown."""
        status_s = math.inf if self.presence.status is None or self.now_ms() is None else self._status_due_s
        return min(status_s, self._descriptors_due_s, self._devices_due_s)

    async def send_due(self, session: Session, now_s: float) -> None:
        """Publish what is due: the status, then descriptors, then devices."""
        now_ms = self.now_ms()
        if self.presence.status is not None and now_s >= self._status_due_s and now_ms is not None:
            self._status_due_s = now_s + status.PERIOD_S
            await self._publish_allowed(session, self.presence.status, status.online_message(now_ms))
        if now_s >= self._descriptors_due_s:
            self._descriptors_due_s = now_s + self._period_s
            await self._send_descriptors(session)
        if now_s >= self._devices_due_s:
            self._devices_due_s = now_s + self._period_s
            await self._introduce_all(session)

    async def _send_descriptors(self, session: Session) -> None:
        for descriptor in await self.outbox.latest_descriptors():
            flight = Flight(0, self.refusals.topic_of(descriptor.topic), retain=True)
            if flight.topic not in self.refusals.held_topics:
                for topic in descriptor_topics(descriptor.topic, descriptor.id):
                    await self.publish(session, flight, topic, descriptor.payload)

    async def _introduce_all(self, session: Session) -> None:
        """Announce only the devices of meters with open windows, so that deleted devices do not return."""
        if self.presence.discovery is not None:
            open_topics = await self.outbox.open_topics()
            for descriptor in await self.outbox.latest_descriptors():
                if descriptor.topic in open_topics:
                    await self._publish_device(session, descriptor.topic, descriptor.payload)

    async def introduce_meter(self, session: Session, row: WaitingRow) -> None:
        """Announce a meter's device before `row` is sent, if `row` is the meter's latest descriptor."""
        if row.retain and (sink_topic := row.topic.removesuffix(LATEST_SUFFIX)) != row.topic:
            await self._publish_device(session, sink_topic, row.payload)

    async def _publish_device(self, session: Session, sink_topic: str, descriptor: bytes) -> None:
        if self.presence.discovery is not None:
            await self._publish_allowed(session, *self.presence.discovery.message(sink_topic, descriptor))

    async def _publish_allowed(self, session: Session, topic: str, payload: bytes) -> None:
        if self.refusals.may_send(topic, 0, 0):
            await self.publish(session, Flight(0, topic, retain=True), topic, payload)


_NO_FLIGHT = Flight(0, "")
_NEVER_MS = 2**63


class Sink:
    """The outgoing messages of a stream for one receiver."""

    def __init__(
        self,
        reader: OutboxReader,
        now_ms: Callable[[], int | None],
        counts: Counts,
        refusals: Refusals,
        presence: Presence = Presence(),  # noqa: B008 -- it is frozen
    ) -> None:
        """Prepare to send rows from `reader`; `refusals` must be made for this receiver's topics."""
        self.presence = presence
        self.delivered_ms: int | None = None
        self._outbox = reader
        self._now_ms = now_ms
        self.counts = counts
        self._queue = SendQueue()
        self._read_s, self._from_start = -math.inf, True
        self._wake = asyncio.Event()
        self._room = asyncio.Event()
        self._in_flight: dict[int, Flight] = {}
        self._publish_s = -math.inf
        self.refusals = refusals
        self._announcer = Announcer(presence, reader, now_ms, self.refusals, self._publish)
        self._unmarked_ids: set[int] = set()
        self.late_ids: set[int] = set()
        self._last_ms = _NEVER_MS
        self._session: Session | None = None
        self.idle = asyncio.Event()

    def reread_outbox(self) -> None:
        """Read the outbox again, from the beginning."""
        self._read_again()
        self.idle.clear()
        self._wake.set()

    def _read_again(self) -> None:
        self._read_s, self._from_start = -math.inf, True
        self.refusals.restart_waiting_bytes()

    def finish(self) -> None:
        """Send only rows that are already due; once these are answered, `idle` stays set."""
        self._last_ms = self._now_ms() or 0
        self.reread_outbox()

    async def has_due(self) -> bool:
        """Return whether a row on a topic that is not refused still has to be sent after `finish`."""
        rows = await self._outbox.due_rows(self._last_ms, FETCH_MAX + len(self._unmarked_ids), OUTBOX_START)
        held_topics = self.refusals.held_topics
        due_ids = {row.id for row in rows if self.refusals.topic_of(row.topic) not in held_topics}
        return len(rows) >= FETCH_MAX or not due_ids <= self._unmarked_ids

    def queue_rows(self, rows: Iterable[WaitingRow]) -> None:
        """Queue rows that were committed to the outbox."""
        self._queue.add_rows(rows)
        self.idle.clear()
        self._wake.set()

    @property
    def unmarked_ids(self) -> frozenset[int]:
        """The ids of rows that are delivered or too late (`late_ids`), but not yet marked so in the outbox.

        The ids stay here until `note_marked`, because a cancelled commit may not have marked the rows.
        """
        return frozenset(self._unmarked_ids)

    def note_marked(self, row_ids: Iterable[int]) -> None:
        """Forget the ids of rows that are marked in the outbox; these rows will not be read again."""
        if not (self._unmarked_ids - self.late_ids).isdisjoint(row_ids):
            self.delivered_ms = self._now_ms()
        self._unmarked_ids.difference_update(row_ids)
        self.late_ids &= self._unmarked_ids

    def on_delivered(self, packet_id: int, _reason: int) -> None:
        """Record that the broker has confirmed a publication."""
        row, topic, retain = self._in_flight.pop(packet_id, _NO_FLIGHT)
        if self.refusals.on_accepted(topic, row, retain=retain) and row:
            self._unmarked_ids.add(row)
            self.counts.add("delivered")
        self._on_answer()

    def on_refused(self, packet_id: int, reason: int) -> None:
        """Record that the broker has refused a publication, and hold its topic; other topics continue."""
        topic = self._in_flight.pop(packet_id, _NO_FLIGHT).topic
        if topic not in self.refusals.held_topics:
            text = "the sink's broker refuses a topic (reason 0x%02x): its messages wait until it is accepted"
            _log.warning(text, reason)
        self.refusals.on_refused(topic, loop_s(), reason)
        self._on_answer()

    def _on_answer(self) -> None:
        self._room.set()
        if not self._in_flight:
            self._wake.set()  # the sink may be idle now

    def on_message(self, topic: str, payload: bytes, _qos: int, retain: bool, token: Token | None) -> None:
        """Acknowledge a message, and ignore it unless it announces a start of Home Assistant."""
        if self._session is not None and token is not None:
            self._session.acknowledge([token])
        self._announcer.hear_message(topic, payload, retain, loop_s())
        self._wake.set()

    async def serve(self, session: Session) -> None:
        """Send descriptors and then all unconfirmed rows on a new connection (rule 3)."""
        self._session = session
        self._in_flight.clear()
        session.retains = self.refusals.on_connected(
            loop_s(), retains=session.retains, version=session.version
        )
        try:
            await self._announcer.begin_connection(session, loop_s())
            await self._send(session)
        finally:
            flights = {(flight.topic, flight.retain) for flight in self._in_flight.values()}
            self.refusals.on_ended(flights, self._publish_s, loop_s())

    async def _send(self, session: Session) -> None:
        self._queue.drop_rows()
        self._read_again()
        while True:
            self._wake.clear()
            await self._announcer.send_due(session, loop_s())
            if self.refusals.update_trials(loop_s()):
                self._read_again()
            rows = await self._due_rows()
            if not rows:
                if not self._in_flight and not self._wake.is_set():
                    self.refusals.on_idle()
                    self.idle.set()
                await self._wait(self._queue.next_due_ms)
            for row in rows:
                await self._publish_row(session, row)

    async def _publish_row(self, session: Session, row: WaitingRow) -> None:
        """Publish a row, unless its topic is held or the row is, or becomes, too late."""
        topic, retain = self.refusals.topic_of(row.topic), row.retain or self.presence.retain
        if not self._is_too_late(row) and self.refusals.may_send(topic, row.id, row.size_bytes):
            await self._announcer.introduce_meter(session, row)
            await self._wait_for_room(session)
            if not self._is_too_late(row):
                self._publish_at_once(session, Flight(row.id, topic, retain), row.topic, row.payload)

    def _is_too_late(self, row: WaitingRow) -> bool:
        """Return whether a row is a late report, which is counted once and deleted by the next commit."""
        if row.until_ms is None or (self._now_ms() or 0) < row.until_ms:
            return False
        if row.id not in self._unmarked_ids:
            self._unmarked_ids.add(row.id)
            self.late_ids.add(row.id)
            self.counts.add("report_late")
        return True

    async def _publish(self, session: Session, flight: Flight, topic: str, payload: bytes) -> None:
        """Publish a message as soon as one more may be in flight and the clock shows a time."""
        await self._wait_for_room(session)
        self._publish_at_once(session, flight, topic, payload)

    def _publish_at_once(self, session: Session, flight: Flight, topic: str, payload: bytes) -> None:
        self._publish_s = loop_s()
        self._in_flight[session.publish(topic, payload, retain=flight.retain)] = flight

    async def _due_rows(self) -> list[WaitingRow]:
        """Return the due rows, if possible without using the store, whose load depends on readings."""
        now_ms = self._now_ms()
        if now_ms is None:
            return []
        now_ms, queue = min(now_ms, self._last_ms), self._queue
        rows = queue.pop_due(now_ms)
        if not rows and (queue.end < (now_ms, math.inf) or loop_s() >= self._read_s + POLL_S):
            await self._read_outbox(now_ms)
            rows = queue.pop_due(now_ms)
        return rows

    async def _read_outbox(self, now_ms: int) -> None:
        """Read the rows due within twice `POLL_S` that are neither in flight nor unmarked."""
        self._read_s = loop_s()
        until_ms, row_count = now_ms + round(2000 * POLL_S), len(self._in_flight) + len(self._unmarked_ids)
        from_start, self._from_start = self._from_start, False
        position = OUTBOX_START if from_start else self._queue.end
        if until_ms < position[0]:
            return  # the clock was set back, and all due rows are in the queue
        rows = await self._outbox.due_rows(until_ms, FETCH_MAX + row_count, position)
        if self._from_start or (self._queue.end != position and not from_start):
            self._read_s = -math.inf
            return  # a reread was requested, or the queue became shorter, so rows in between are missing
        excluded_ids = self._unmarked_ids.union(flight.row for flight in self._in_flight.values())
        end = ROW_ORDER(rows[-1]) if len(rows) >= FETCH_MAX + row_count else (until_ms, math.inf)
        self._queue.merge_rows((row for row in rows if row.id not in excluded_ids), end)

    async def _wait_for_room(self, session: Session) -> None:
        """Wait until another message may be in flight and the clock shows a time (rule 2)."""
        while self._now_ms() is None or len(self._in_flight) >= (
            1 if self.refusals.must_send_singly else session.inflight
        ):
            self._room.clear()
            await wait_at_most(self._room, POLL_S)

    async def _wait(self, next_ms: int | None) -> None:
        """Wait for a wake-up or the next row, announcement or trial; without a row, at most `POLL_S`."""
        now_ms, now_s = self._now_ms(), loop_s()
        pause_s = POLL_S
        if next_ms is not None and now_ms is not None and next_ms <= self._last_ms:
            pause_s = (next_ms - now_ms) / 1000
        pause_s = min(pause_s, self._announcer.next_due_s() - now_s, self.refusals.next_trial_s - now_s)
        await wait_at_most(self._wake, max(pause_s, 0))
