"""A connection without a broker that keeps the rules of meteragent.mqtt.Session.

Tokens are compared by identity; tokens of other sessions and used tokens are ignored. Publishing fails once
the session has ended, or when `inflight` publications are unanswered. A packet id is reused as soon as it is
free, the lowest first, as brokers may do.
"""

import asyncio
from collections.abc import Iterable
from itertools import count
from typing import NamedTuple, Protocol

from meteragent.domain.errors import LinkError
from meteragent.mqtt import Session, Token
from meteragent.mqtt.unacknowledged import Unacknowledged

LIMIT_S = 10.0
"""The longest time that a test waits, in s."""


class Publication(NamedTuple):
    """A published message, and the packet id of the answer to it."""

    packet_id: int
    topic: str
    payload: bytes
    retain: bool


class Receives(Protocol):
    """A receiver of messages."""

    def on_message(self, topic: str, payload: bytes, qos: int, retain: bool, token: Token | None) -> None:
        """Receive a message."""


class FakeSession(Session):
    """One connection, driven by a test."""

    def __init__(
        self,
        version: int = 5,
        *,
        inflight: int = 100,
        session_present: bool = False,
        keeps_order: bool = False,
    ) -> None:
        self.version = version
        self.inflight = inflight
        self.session_present = session_present
        self.retains = True
        self.granted = asyncio.Event()
        self.granted.set()
        self.filters: list[str] = []
        self.acknowledged: list[bytes] = []
        self.published: asyncio.Queue[Publication] = asyncio.Queue()
        self.over = False
        self.reading = True
        self._payloads: dict[int, tuple[Token, bytes]] = {}
        self.keeps_order = keeps_order
        self._order = Unacknowledged(keeps_order=True) if keeps_order else None
        self._unanswered: set[int] = set()

    async def subscribe(self, topic_filter: str) -> None:
        """Subscribe, and wait until `granted` is set."""
        self.filters.append(topic_filter)
        await self.granted.wait()

    def unsubscribe(self, topic_filter: str) -> None:
        """Unsubscribe; answered at once."""
        self.filters.remove(topic_filter)

    def acknowledge(self, tokens: Iterable[Token]) -> None:
        """Record the payloads of the acknowledged messages."""
        if self._order is not None:
            tokens = [self._payloads[packet_id][0] for packet_id in self._order.release(tokens)]
        for token in tokens:
            current, payload = self._payloads.get(token[0], (None, b""))
            if current is token:
                del self._payloads[token[0]]
                self.acknowledged.append(payload)

    def set_reading(self, *, is_reading: bool) -> None:
        """Record whether the agent reads."""
        self.reading = is_reading

    def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> int:
        """Publish. Raises LinkError when the session is over."""
        if self.over:
            raise LinkError("the session has ended")
        assert len(self._unanswered) < self.inflight
        packet_id = next(n for n in count(1) if n not in self._unanswered)
        self._unanswered.add(packet_id)
        self.published.put_nowait(Publication(packet_id, topic, payload, retain))
        return packet_id

    # The broker's side, driven by the test

    def send(
        self, receiver: Receives, payload: bytes, topic: str = "in/m", *, qos: int = 1, retain: bool = False
    ) -> None:
        """Send a message to a receiver, as the broker."""
        token: Token | None = None
        if qos:
            packet_id = next(n for n in count(1) if n not in self._payloads)
            token = (packet_id,) if self._order is None else self._order.add(packet_id)
            self._payloads[packet_id] = token, payload
        receiver.on_message(topic, payload, qos, retain, token)

    @property
    def left(self) -> list[bytes]:
        """Payloads that the broker sends again on the next connection."""
        return [payload for _, payload in self._payloads.values()]

    @property
    def unacknowledged_count(self) -> int:
        """How many messages the broker has sent without an acknowledgement."""
        return len(self._payloads)

    def answered(self, publication: Publication) -> int:
        """Free the packet id of a publication that the broker has confirmed, and return it."""
        self._unanswered.remove(publication.packet_id)
        return publication.packet_id

    async def next(self) -> Publication:
        """Return the next publication."""
        async with asyncio.timeout(LIMIT_S):
            return await self.published.get()

    async def take(self, number: int) -> list[Publication]:
        """Return the next `number` publications."""
        return [await self.next() for _ in range(number)]
