"""The source for MQTT.

A message belongs to the connection on which it arrived. When a new connection is accepted, waiting QoS 1
messages of the earlier connection are dropped, because the broker sends them again. Acknowledging a message
of an earlier connection has no effect. While the queue is full, the broker keeps further messages.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Final, NoReturn

from meteragent.collect.core import Message
from meteragent.collect.queue import Queue
from meteragent.domain.errors import LinkError
from meteragent.domain.problem import connection_advice
from meteragent.mqtt import Endpoint, Entropy, Link, Session, Token, keep_connected

QUEUE_MAX: Final = 20_000
SESSION_EXPIRY_S: Final = 30 * 86_400
"""How long the broker is asked to keep messages while `collect` is not connected."""
RIVAL_S: Final = 300.0
"""The time within which RIVAL_COUNT connections suggest that another collector has the same client id."""
RIVAL_COUNT: Final = 3

_log = logging.getLogger("meteragent.collect.mqtt")


class MqttSource:
    """A persistent session with an MQTT broker."""

    is_shared, is_up = False, False

    def __init__(self, endpoint: Endpoint, client_id: str, filters: Sequence[str], entropy: Entropy) -> None:
        self._endpoint, self._client_id, self._filters = endpoint, client_id, tuple(filters)
        self._entropy = entropy
        self._queue = Queue(QUEUE_MAX)
        self._session: Session | None = None
        self._starts_s: deque[float] = deque(maxlen=RIVAL_COUNT)

    async def run(self) -> NoReturn:
        """Stay connected until cancelled."""
        link = Link(
            self._endpoint,
            self._client_id,
            on_message=self._on_message,
            count=self._count,
            session_expiry_s=SESSION_EXPIRY_S,
            role="source",
            advice=partial(connection_advice, side="source"),
            on_failed=self._on_failed,
        )
        await keep_connected(link, self._serve, self._entropy)

    async def take_batch(self, size: int) -> list[Message]:
        """Wait for messages, and return at most `size` of them, in order of arrival."""
        messages = await self._queue.take(size)
        if self._session is not None and self._queue.has_room:
            self._session.set_reading(is_reading=True)
        return messages

    async def acknowledge(self, messages: Sequence[Message]) -> None:
        """Acknowledge messages whose effects have been committed."""
        if self._session is not None:
            self._session.acknowledge(message.token for message in messages if message.token is not None)

    async def _serve(self, session: Session) -> None:
        """Drop the unacknowledged messages of the earlier connection, and subscribe.

        A broker that was killed may have kept the session and only some of its subscriptions, so each
        connection subscribes, though the broker then sends all retained descriptors again.
        """
        self._session = session
        self._note_start(asyncio.get_running_loop().time())
        self._queue.drop_tokens()
        for topic_filter in self._filters:
            await session.subscribe(topic_filter)
        self.is_up = True

    def _on_failed(self, _: LinkError) -> None:
        self.is_up = False

    def _note_start(self, now_s: float) -> None:
        """Warn if connections start often; not every broker says that another client has the same id."""
        self._starts_s.append(now_s)
        if len(self._starts_s) == RIVAL_COUNT and now_s - self._starts_s[0] < RIVAL_S:
            self._starts_s.clear()
            text = (
                "source: %d connections in a short time: does another collector have source.client_id = %r?"
            )
            _log.warning(text, RIVAL_COUNT, self._client_id)

    def _count(self, event: str) -> None:
        """Queue an empty message for one that was too large to be read, so that the core counts it."""
        if event == "oversized":
            self._queue.put(Message("", b""))

    def _on_message(self, topic: str, payload: bytes, _qos: int, _retain: bool, token: Token | None) -> None:
        self._queue.put(Message(topic, payload, token))
        if self._queue.is_full and self._session is not None:
            self._session.set_reading(is_reading=False)
