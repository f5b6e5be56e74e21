"""The connection to the broker: messages in with the time of their arrival, messages out at their instants.

Requests and answers are acknowledged at once, and wait in a queue of their own with a limited size in bytes.
Reports stay unacknowledged until the service releases them: after their commit or, if a draw may have delayed
it, at a public instant. When REPORTS_MAX reports are unreleased, reading pauses, and the broker keeps further
reports. Reading does not depend on the number of reports in the queue, because this number falls when a draw
ends, and the broker sees when reading pauses. Reports from an earlier connection stay in the queue; the
broker delivers them again, and the machine recognises them.
"""

import asyncio
import contextlib
from collections import Counter, deque
from collections.abc import Sequence
from functools import partial
from typing import Final, NoReturn

from meteragent.crowd.machine import Outgoing
from meteragent.domain.problem import connection_advice
from meteragent.mqtt import Endpoint, Entropy, Session, Token, keep_connected
from meteragent.mqtt import Link as MqttLink
from meteragent.operators.clock import Clock
from meteragent.operators.departures import Departures
from meteragent.operators.desk import REPORT, Arrival

REPORTS_MAX: Final = 70_000
"""The number of unreleased reports at which reading pauses.

This number is above the 65,535 messages that a broker may send on one connection without an acknowledgement.
So reading pauses only because of reports without acknowledgement (QoS 0), or reports that arrive again on a
new connection.
"""
REQUEST_BYTES_MAX: Final = 256 << 20
"""The largest total size of waiting requests and answers; a request for 2^20 homes takes about 80 MB."""
SESSION_EXPIRY_S: Final = 7 * 86_400
LINGER_S: Final = 0.02
"""How long a batch waits for further messages, so that the messages of a burst are committed together."""


class Link:
    """An operator's connection to the broker, which keeps messages while the operator is away."""

    def __init__(
        self,
        endpoint: Endpoint,
        base: str,
        client_id: str,
        filters: Sequence[str],
        entropy: Entropy,
        clock: Clock,
    ) -> None:
        self._endpoint, self._base, self._client_id = endpoint, base, client_id
        self._filters, self._entropy, self._clock = tuple(filters), entropy, clock
        self.counts = Counter[str]()
        self.departures = Departures()
        self.is_up = False
        self._reports: deque[Arrival] = deque()
        self._requests: deque[Arrival] = deque()  # requests and answers
        self._request_bytes = self._unreleased = self._lost_count = 0
        self._arrival, self._wake = asyncio.Event(), asyncio.Event()
        self._session: Session | None = None

    async def run(self) -> NoReturn:
        """Stay connected until cancelled."""
        link = MqttLink(
            self._endpoint,
            self._client_id,
            on_message=self.on_message,
            on_delivered=self._on_delivered,
            on_refused=self._on_refused,
            on_failed=self._on_failed,
            count=self._count,
            session_expiry_s=SESSION_EXPIRY_S,
            role="broker",
            advice=partial(connection_advice, side="broker"),
        )
        await keep_connected(link, self._serve, self._entropy)

    async def take_batch(self, size: int, wait_s: float) -> list[Arrival]:
        """Wait for at most `wait_s`; return all requests and answers, and then at most `size` reports."""
        if not (self._requests or self._reports):
            self._arrival.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._arrival.wait()
                    await asyncio.sleep(LINGER_S)
        arrivals = list(self._requests)
        self._requests.clear()
        self._request_bytes = 0
        arrivals += [self._reports.popleft() for _ in range(min(size, len(self._reports)))]
        return arrivals

    def release_reports(self, reports: int, tokens: Sequence[Token]) -> None:
        """Acknowledge committed reports; the broker sees when, so the time must not depend on a draw."""
        self._unreleased -= reports
        if self._session is not None:
            self._session.acknowledge(tokens)

    def resume_reading(self) -> None:
        """Resume reading if at most half of REPORTS_MAX reports are unreleased; the broker sees this, too."""
        if self._session is not None and self._unreleased <= REPORTS_MAX // 2:
            self._session.set_reading(is_reading=True)

    def oldest_s(self, now_s: int) -> int:
        """Return when the oldest waiting message arrived; `now_s` if no message waits."""
        arrival_times_s = (queue[0].at_s for queue in (self._requests, self._reports) if queue)
        return min(arrival_times_s, default=now_s)

    def send_messages(self, messages: Sequence[Outgoing]) -> int:
        """Send committed messages at their instants; return how many were too late."""
        counts = self.departures.add_messages(messages, self._clock.now_s())
        self.counts.update(counts)
        self._wake.set()
        lost_count, self._lost_count = self._lost_count, 0
        return counts.total() + lost_count

    async def _serve(self, session: Session) -> None:
        """Subscribe, then send messages as they become due."""
        self._session, self.is_up = session, True
        self.departures.on_connected(self._clock.now_s())
        for topic_filter in self._filters:
            await session.subscribe(self._base + topic_filter)
        while True:
            self._wake.clear()
            for message in self.departures.due_messages(self._clock.now_s()):
                if self.departures.in_flight_count >= session.inflight:
                    break
                topic = self._base + message.topic
                packet_id = session.publish(topic, message.payload, retain=message.retain)
                self.departures.on_sent(message, packet_id)
                self.counts["sent"] += 1
            await self._pause(session)

    async def _pause(self, session: Session) -> None:
        """Wait for a new message to send, for the broker's reply to a sent one, or for the next instant."""
        next_s = self.departures.next_s()
        has_room = self.departures.in_flight_count < session.inflight
        wait_s = None
        if next_s is not None and has_room:
            wait_s = self._clock.pause_s(next_s)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._wake.wait()

    def on_message(self, topic: str, payload: bytes, _qos: int, _retain: bool, token: Token | None) -> None:
        """Queue a message from the broker, with the time of its arrival."""
        arrival = Arrival(topic.removeprefix(self._base), payload, self._clock.now_s(), token)
        if arrival.kind == REPORT:
            self._reports.append(arrival)
            self._unreleased += 1
            if self._unreleased >= REPORTS_MAX and self._session is not None:
                self._session.set_reading(is_reading=False)
        else:
            if token is not None and self._session is not None:
                self._session.acknowledge([token])
            if self._request_bytes + len(payload) > REQUEST_BYTES_MAX:
                self.counts["dropped"] += 1
                self._lost_count += 1
                return
            self._request_bytes += len(payload)
            self._requests.append(arrival)
        self._arrival.set()

    def _on_delivered(self, packet_id: int, _reason: int) -> None:
        self.departures.on_delivered(packet_id)
        self._wake.set()

    def _on_refused(self, packet_id: int, _reason: int) -> None:
        self.counts["publish_refused"] += 1
        self.departures.on_refused(packet_id, self._clock.now_s())
        self._wake.set()

    def _on_failed(self, _reason: Exception) -> None:
        self.is_up = False

    def _count(self, event: str) -> None:
        if event == "oversized":
            self.counts["oversized"] += 1
