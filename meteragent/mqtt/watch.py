"""A listener that leaves no trace, for commands that read a broker's messages for a short time.

A random client id affects no other client's session, and no session is left with the broker.
"""

from collections.abc import Callable, Sequence
from typing import Final, NoReturn

from meteragent.domain.errors import LinkError
from meteragent.mqtt.link import Endpoint, Link, Token
from meteragent.mqtt.reconnect import Entropy, keep_connected
from meteragent.mqtt.session import Session

OnMessage = Callable[[str, bytes, bool], None]
"""A function that is called with the topic, the payload and the retain flag."""

ATTEMPTS: Final = 2
"""The number of attempts to connect: the second is for brokers that refuse the first MQTT version."""


async def watch_topics(
    endpoint: Endpoint,
    name: str,
    filters: Sequence[str],
    on_message: OnMessage,
    *,
    entropy: Entropy,
    on_listening: Callable[[], None] = lambda: None,
    advice: Callable[[str], str] = lambda _: "",
) -> NoReturn:
    """Pass messages that match `filters` to `on_message` until cancelled; reconnect after a loss.

    The client id begins with the endpoint's, for brokers that accept only certain ids. `on_listening` is
    called on each connection when all filters are granted. If ATTEMPTS connections fail before the first
    such call, the last LinkError is raised, with the advice for its code.
    """
    watcher = _Watcher(filters, on_message, on_listening, advice)
    link = Link(
        endpoint,
        f"{endpoint.client_id or 'meteragent'}-{name}-{entropy(6).hex()}",
        on_message=watcher.on_message,
        on_failed=watcher.on_failed,
        session_expiry_s=0,
    )
    await keep_connected(link, watcher.serve, entropy)


class _Watcher:
    """The callbacks of one `watch_topics`, for all its connections."""

    def __init__(
        self,
        filters: Sequence[str],
        on_message: OnMessage,
        on_listening: Callable[[], None],
        advice: Callable[[str], str],
    ) -> None:
        self._filters = filters
        self._on_message = on_message
        self._on_listening = on_listening
        self._advice = advice
        self._session: Session | None = None
        self._has_listened = False
        self._failure_count = 0

    async def serve(self, session: Session) -> None:
        """Subscribe to the filters on a new connection, then call `on_listening`."""
        self._session = session
        for topic_filter in self._filters:
            await session.subscribe(topic_filter)
        self._has_listened = True
        self._on_listening()

    def on_message(self, topic: str, payload: bytes, _qos: int, retain: bool, token: Token | None) -> None:
        """Acknowledge a message, unless its QoS is 0, and pass it to `on_message`."""
        if token is not None and self._session is not None:
            self._session.acknowledge([token])
        self._on_message(topic, payload, retain)

    def on_failed(self, reason: LinkError) -> None:
        """Raise `reason` if ATTEMPTS connections have failed or ended before all filters were granted."""
        self._failure_count += 1
        if not self._has_listened and self._failure_count >= ATTEMPTS:
            advice = self._advice(reason.code)
            raise type(reason)(f"{reason}. {advice}", reason.code) if advice else reason
