"""Messages in: a stream's subscription, and the batches it hands to the core.

Rules
1. A message is acknowledged when the core says so, after the commit that holds what it contributed.
2. What is held unacknowledged is bounded: beyond `inflight` (over MQTT 3.1.1, whose brokers have
   limits of their own that nobody states, 16) the oldest that the core has are acknowledged early
   and counted.
3. What waits for the core is bounded: QoS 0 messages beyond twice `inflight` are shed and counted;
   QoS 1 messages beyond what the protocol allows end the connection, and the broker sends them again.
   Of a payload that is too large, no more is kept than shows it.
4. A token stands for one delivery and is compared by identity: brokers use packet ids again, also
   while the core still holds the token of a message that was acknowledged early.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice

from meteragent.errors import LinkError
from meteragent.health import Counts
from meteragent.mqtt import Session
from meteragent.mqtt import Token as MqttToken
from meteragent.reading import Message

BATCH = 1000
"""Messages in one batch at most, so that a commit stays short."""
HELD_3_1_1 = 16
"""mosquitto sends 20 unacknowledged messages at most by default, and then nothing."""
PACKET_IDS = 65_535
"""No broker can send more unacknowledged messages: each has an id of 16 bits."""
_MQTT_5 = 5


@dataclass(frozen=True, slots=True, eq=False)
class _Delivery:
    """What the core holds of a message, to give it back: the connection it came on and its token."""

    epoch: int
    token: MqttToken


class Source:
    """One stream's incoming messages."""

    def __init__(
        self,
        topic_filter: str,
        inflight: int,
        max_payload: int,
        now_ms: Callable[[], int | None],
        counts: Counts,
    ) -> None:
        """`now_ms` stamps arrivals; None while there is no clock."""
        self.subscribed = asyncio.Event()
        self._filter = topic_filter
        self._inflight = inflight
        self._max_payload = max_payload
        self._now_ms = now_ms
        self._counts = counts
        self._waiting: deque[tuple[Message, int | None]] = deque()
        self._arrived = asyncio.Event()
        self._session: Session | None = None
        self._epoch = 0
        self._held: dict[_Delivery, None] = {}

    @property
    def receive_maximum(self) -> int:
        """How many unacknowledged messages the broker may send: those held, and room to move."""
        return min(2 * self._inflight, PACKET_IDS)

    async def serve(self, session: Session) -> None:
        """Subscribe on a new connection; what was held before belongs to a session that is gone."""
        self._session = session
        self._epoch += 1
        self._held.clear()
        await session.subscribe(self._filter)
        self.subscribed.set()
        self._arrived.set()

    def on_message(self, topic: str, payload: bytes, qos: int, retain: bool, token: MqttToken | None) -> None:
        """Take a message in; raises LinkError when more wait than can be (rule 3)."""
        if qos == 0 and len(self._waiting) >= self.receive_maximum:
            self._counts.add("shed")
            return
        if len(self._waiting) >= self.receive_maximum + PACKET_IDS:
            raise LinkError("the broker sends more than was asked for")
        mine = None if token is None else _Delivery(self._epoch, token)
        received_ms = self._now_ms()
        kept = payload[: self._max_payload + 1]
        self._waiting.append((Message(topic, kept, retain, received_ms or 0, mine), received_ms))
        self._arrived.set()

    async def wait(self, timeout_s: float) -> None:
        """Wait for messages or the subscription, at most so long."""
        if not self._waiting:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._arrived.wait()
        self._arrived.clear()

    @property
    def waiting(self) -> int:
        """How many messages wait for the core."""
        return len(self._waiting)

    @property
    def many(self) -> int:
        """Beyond so many that wait, the broker may soon send no more."""
        return min(self._bound() // 2, BATCH)

    @property
    def batches(self) -> int:
        """How many batches wait."""
        return -(-len(self._waiting) // BATCH)

    def batch(self, now_ms: int) -> list[Message]:
        """The next messages in order of arrival; those that came without a clock came now."""
        taken = list(islice(self._waiting, BATCH))
        for _ in taken:
            self._waiting.popleft()
        messages = [m if at is not None else m._replace(received_ms=now_ms) for m, at in taken]
        for message in messages:
            if message.token is not None and message.token.epoch == self._epoch:
                self._held[message.token] = None
        return messages

    def acknowledge(self, tokens: Iterable[_Delivery | None]) -> None:
        """Acknowledge what the core is done with; call it after the commit only (rule 1).

        Then the oldest beyond the bound are acknowledged early (rule 2).
        """
        done = [token for token in tokens if token is not None]
        for token in done:
            self._held.pop(token, None)
        over = len(self._held) - self._bound()
        if over > 0:
            early = list(islice(self._held, over))
            for token in early:
                del self._held[token]
            self._counts.add("acked_open", over)
            done += early
        if self._session is not None:
            self._session.acknowledge(d.token for d in done if d.epoch == self._epoch)

    def _bound(self) -> int:
        modern = self._session is None or self._session.version == _MQTT_5
        return self._inflight if modern else min(self._inflight, HELD_3_1_1)
