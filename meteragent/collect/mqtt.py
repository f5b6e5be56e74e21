"""MQTT: messages wait here, unacknowledged, until their batch is committed.

A message belongs to the connection on which it arrived. When a connection ends, waiting QoS 1 messages
are dropped, because the broker sends them again on the next connection; a token of an earlier connection
acknowledges nothing. When about QUEUE_MAX messages wait, reading pauses, and the broker keeps the rest.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final, NoReturn

from meteragent.collect.core import Message
from meteragent.mqtt import Endpoint, Session, Token, keep_connected
from meteragent.mqtt.reconnect import Entropy

QUEUE_MAX: Final = 20_000
"""The number of waiting messages at which reading pauses; it resumes at half that number."""
SESSION_EXPIRY_S: Final = 30 * 86_400
"""How long the broker keeps messages while `collect` is not connected."""
LINGER_S: Final = 0.02
"""How long a batch waits for more messages, so that a burst is not committed one by one."""
_LOGIN_HINT: Final = "check source.username and source.password_file, and the broker's users"


class MqttSource:
    """A persistent session at a broker."""

    is_shared = False

    def __init__(self, endpoint: Endpoint, client_id: str, filters: Sequence[str], entropy: Entropy) -> None:
        self._endpoint, self._client_id, self._filters = endpoint, client_id, tuple(filters)
        self._entropy = entropy
        self._queue: deque[Message] = deque()
        self._arrival = asyncio.Event()
        self._session: Session | None = None
        self._has_subscribed = False

    async def run(self) -> NoReturn:
        """Stay connected until cancelled."""
        await keep_connected(
            self._endpoint,
            self._client_id,
            self._serve,
            entropy=self._entropy,
            on_message=self._on_message,
            count=self._count,
            session_expiry_s=SESSION_EXPIRY_S,
            role="source",
            login_hint=_LOGIN_HINT,
        )

    async def batch(self, size: int) -> list[Message]:
        """Wait for messages, and return at most `size` of them, in order of arrival."""
        while not self._queue:
            self._arrival.clear()
            await self._arrival.wait()
            await asyncio.sleep(LINGER_S)
        messages = [self._queue.popleft() for _ in range(min(size, len(self._queue)))]
        if self._session is not None and len(self._queue) <= QUEUE_MAX // 2:
            self._session.pause(reading=True)
        return messages

    async def acknowledge(self, messages: Sequence[Message]) -> None:
        """Acknowledge messages whose effects are committed."""
        if self._session is not None:
            self._session.acknowledge(message.token for message in messages if message.token is not None)

    async def _serve(self, session: Session) -> None:
        """Begin with an empty queue, and subscribe.

        A broker that has kept the session still has its subscriptions. They are repeated once, at the start,
        because the filters may have changed since.
        """
        self._session = session
        self._queue = deque(message for message in self._queue if message.token is None)
        if not (self._has_subscribed and session.session_present):
            for topic_filter in self._filters:
                await session.subscribe(topic_filter)
            self._has_subscribed = True

    def _count(self, event: str) -> None:
        """Report a message that was too large to read; the session has acknowledged it."""
        if event == "oversized":
            self._queue.append(Message("", b""))
            self._arrival.set()

    def _on_message(self, topic: str, payload: bytes, _qos: int, _retain: bool, token: Token | None) -> None:
        self._queue.append(Message(topic, payload, token))
        self._arrival.set()
        if len(self._queue) >= QUEUE_MAX and self._session is not None:
            self._session.pause(reading=False)
