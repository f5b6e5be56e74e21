"""The incoming side: a stream's subscription, and its messages in batches for the core.

Theory of operation
-------------------
A message *waits* from its arrival until `take_batch` hands it to the core, and is *held* from then until the
core returns its token and `acknowledge` tells the broker. While a QoS 1 message waits or is held, the broker
keeps it and sends it again after a crash, so open spans survive without being stored. A QoS 0 message has no
token and is never held.

Each connection is an *epoch*. A token of an earlier epoch acknowledges nothing and is dropped when the core
returns it: the delivery ended with its connection, and the broker sends the message again. If the message
still waits, it is processed like any other, because the core recognises redeliveries.

Brokers limit the number of unacknowledged messages. A power reading is held until the next one, so with more
meters than the limit, the broker would send nothing until a slot closes (rule 2).

Rules
1. A message is acknowledged when the core returns its token, after the commit of all that it contributes.
2. The number of held messages is bounded by `inflight`, or by less if the broker's limit is lower
   (`InflightLimitProbe`). Over MQTT 3.1.1, where brokers do not state their limits, the bound is 16 unless
   the configuration sets another. Beyond the bound, the oldest messages are acknowledged early and counted;
   a crash may then lose the end of their spans.
3. The number of waiting messages is bounded. QoS 0 messages beyond Receive Maximum are shed and counted. QoS
   1 messages beyond what the protocol allows end the connection, and the broker sends them again.
   Reading is paused earlier, because mosquitto 2.0.11 sends a backlog without regard to Receive Maximum. A
   payload that is too large is truncated just beyond the limit, so that it is still recognised as too large.
4. If messages are acknowledged in the order of their arrival, those that the core has returned but that must
   wait for earlier ones are still held.
5. A token stands for one delivery and is compared by identity, because brokers reuse packet ids, even while
   the core still holds the token of a message that was acknowledged early.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from meteragent.agent.clock import loop_s, wait_at_most
from meteragent.domain.counters import Counts
from meteragent.domain.errors import LinkError
from meteragent.domain.reading import Message
from meteragent.mqtt import Session, SubscriptionRefused
from meteragent.mqtt import Token as MqttToken
from meteragent.mqtt.packets import LAST_ID, MQTT_5

BATCH_MAX = 1000
"""The largest number of messages in one batch, so that a commit stays short."""
HELD_MAX_3_1_1 = 16
"""The largest number of held messages over MQTT 3.1.1; mosquitto's default limit is 20."""

SILENCES_S = (10.0, 11.0, 12.5)
"""The silences before three tests. If a message follows each test, the broker limits unacknowledged messages.
The silences differ, so that regular readings are not mistaken for answers."""
PROMPT_S = 0.5
"""The time within which a broker that was waiting for an acknowledgement sends the next message."""
SILENCE_MAX_S = 900.0
"""The longest silence before a test: the default of `hold`, after which a reading no longer applies."""
HELD_UNTESTED = 3
"""The number of unacknowledged messages that every broker allows, up to which no test is needed."""

_log = logging.getLogger("meteragent")


@dataclass(eq=False, slots=True)
class _Delivery:
    """The core's token for a message: the epoch of its delivery, and the session's token."""

    epoch: int
    token: MqttToken


class InflightLimitProbe:
    """A probe for the number of unacknowledged messages that a broker sends before it waits.

    Besides Receive Maximum, brokers have limits (by default 10 to 32) that they do not state; once that many
    readings are held, nothing arrives until a slot closes. After a silence, the oldest message is therefore
    acknowledged early (a crash may then lose it), unless twice as many messages have been held at once. A
    waiting broker then sends the next message at once; if none follows, the silence before the next test
    doubles. `limit` is half of the broker's limit, so that messages continue to arrive, or None while the
    broker's limit is unknown.
    """

    def __init__(self) -> None:
        self.limit: int | None = None
        self._last_arrival_s = 0.0
        self._silence_s = SILENCES_S[0]
        self._test_start_s: float | None = None
        self._answered_counts: list[int] = []
        self._test_held_count = 0
        self._held_max = 0

    def note_held(self, held_count: int) -> None:
        """Record the number of messages that are held at once."""
        self._held_max = max(self._held_max, held_count)

    def note_arrival(self, now_s: float) -> None:
        """Record that a QoS 1 message has arrived, which may be the answer to a test."""
        self._last_arrival_s = now_s
        if self._test_start_s is None:
            return
        if now_s - self._test_start_s > PROMPT_S:
            self._note_no_answer()
            return
        self._test_start_s = None
        self._answered_counts.append(self._test_held_count)
        if len(self._answered_counts) == len(SILENCES_S):
            self.limit = min(self._answered_counts) // 2
            _log.warning(
                "the source's broker stops at %d unacknowledged messages, so the agent holds half as many",
                min(self._answered_counts),
            )

    def begin_test(self, held_count: int, now_s: float) -> bool:
        """Begin a test if one is due; return whether the oldest held message must be acknowledged for it."""
        if self._test_start_s is not None and now_s - self._test_start_s > PROMPT_S:
            self._note_no_answer()
        held_min = max(HELD_UNTESTED, self._held_max // 2)
        if self.limit is not None or self._test_start_s is not None or held_count <= held_min:
            return False
        silence_s = SILENCES_S[len(self._answered_counts)] if self._answered_counts else self._silence_s
        if now_s - self._last_arrival_s < silence_s:
            return False
        self._test_start_s, self._test_held_count = now_s, held_count
        return True

    def _note_no_answer(self) -> None:
        self._test_start_s = None
        self._answered_counts.clear()
        self._silence_s = min(2 * self._silence_s, SILENCE_MAX_S)


class Source:
    """One stream's incoming messages."""

    def __init__(
        self,
        topic_filters: Sequence[str],
        inflight: int,
        max_payload: int,
        now_ms: Callable[[], int | None],
        counts: Counts,
        *,
        is_capped: bool = True,
        unit_filters: Sequence[str] = (),
    ) -> None:
        """Prepare to subscribe first to `unit_filters`, which the broker may refuse, then to `topic_filters`.

        `now_ms` returns the time, or None. If `is_capped` is set, at most HELD_MAX_3_1_1 messages are held
        over MQTT 3.1.1. `receive_maximum` is how many unacknowledged messages the broker may send.
        """
        self.subscribed = asyncio.Event()
        self._filters = topic_filters
        self._unit_filters = unit_filters
        self._inflight = inflight
        self._is_capped = is_capped
        self.receive_maximum = min(2 * inflight, inflight + BATCH_MAX, LAST_ID)
        self._max_payload = max_payload
        self._now_ms = now_ms
        self._counts = counts
        self._backlog: deque[tuple[Message, int | None]] = deque()
        self._arrival = asyncio.Event()
        self._session: Session | None = None
        self._epoch = 0
        self._held_deliveries: dict[_Delivery, None] = {}
        self._probe = InflightLimitProbe()

    async def serve(self, session: Session) -> None:
        """Begin an epoch on a new connection, drop the tokens of the last epoch, and subscribe."""
        self._session = session
        self._epoch += 1
        self._held_deliveries.clear()
        self._probe = InflightLimitProbe()
        for unit_filter in self._unit_filters:
            try:
                await session.subscribe(unit_filter)
            except SubscriptionRefused as error:
                _log.warning("the unit of the readings is not watched: %s", error)
        for topic_filter in self._filters:
            await session.subscribe(topic_filter)
        self.subscribed.set()
        self._arrival.set()

    def on_message(self, topic: str, payload: bytes, qos: int, retain: bool, token: MqttToken | None) -> None:
        """Queue a message, or shed it by rule 3. Raises LinkError if too many messages wait (rule 3)."""
        backlog = len(self._backlog)
        if backlog >= self.receive_maximum:
            if qos == 0:
                self._counts.add("shed")
                return
            if backlog >= self.receive_maximum + LAST_ID:
                raise LinkError("the broker sends more messages than Receive Maximum allows")
        delivery = None
        if token is not None:
            delivery = _Delivery(self._epoch, token)
            self._probe.note_arrival(loop_s())
        received_ms = self._now_ms()
        payload = payload[: self._max_payload + 1]
        self._backlog.append((Message(topic, payload, retain, received_ms or 0, delivery), received_ms))
        self._arrival.set()
        if backlog + 1 >= self.receive_maximum + 2 * BATCH_MAX and self._session is not None:
            self._session.set_reading(is_reading=False)

    async def wait(self, timeout_s: float) -> None:
        """Wait for messages or the subscription, for at most `timeout_s`."""
        if not self._backlog:
            await wait_at_most(self._arrival, timeout_s)
        self._arrival.clear()

    @property
    def backlog_count(self) -> int:
        """The number of messages waiting for the core."""
        return len(self._backlog)

    @property
    def backlog_max(self) -> int:
        """The number of waiting messages beyond which the broker may soon stop sending."""
        return min(self._held_max() // 2, BATCH_MAX)

    @property
    def batch_count(self) -> int:
        """The number of waiting batches."""
        return -(-len(self._backlog) // BATCH_MAX)

    def take_batch(self, now_ms: int) -> list[Message]:
        """Return the next messages, at most `BATCH_MAX`, in order of arrival; hold those with a valid token.

        A message that arrived while the clock showed no time gets the time of the next message, or `now_ms`.
        """
        if any(received_ms is None for _, received_ms in islice(self._backlog, BATCH_MAX)):
            self._stamp(now_ms)
        batch = list(islice(self._backlog, BATCH_MAX))
        for _ in batch:
            self._backlog.popleft()
        if batch and self._session is not None and len(self._backlog) < self.receive_maximum:
            self._session.set_reading(is_reading=True)
        messages = [message for message, _ in batch]
        for message in messages:
            if message.token is not None and message.token.epoch == self._epoch:
                self._held_deliveries[message.token] = None
        self._probe.note_held(self._held_count())
        return messages

    def _stamp(self, now_ms: int) -> None:
        """Replace each missing time of arrival by the next known one, or by `now_ms` if none is known."""
        messages: deque[tuple[Message, int | None]] = deque()
        for message, received_ms in reversed(self._backlog):
            now_ms = now_ms if received_ms is None else received_ms
            messages.appendleft((message._replace(received_ms=now_ms), now_ms))
        self._backlog = messages

    def acknowledge(self, tokens: Iterable[_Delivery | None]) -> None:
        """Acknowledge the messages whose tokens the core has returned after a commit (rule 1).

        Then acknowledge the oldest held messages beyond the bound (rule 2), and one more if a test is due
        and no message waits.
        """
        deliveries = [token for token in tokens if token is not None]
        for delivery in deliveries:
            self._held_deliveries.pop(delivery, None)
        self._release(deliveries)
        is_in_order = self._session is not None and self._session.keeps_order
        excess = self._held_count() - self._held_max()
        if excess <= 0 and not self._backlog:
            excess = int(self._probe.begin_test(self._held_count(), loop_s()))
        while excess > 0 and self._held_deliveries:
            # In order of arrival, one acknowledgement may let any number of others follow.
            oldest = list(islice(self._held_deliveries, 1 if is_in_order else excess))
            for delivery in oldest:
                del self._held_deliveries[delivery]
            self._counts.add("acked_open", len(oldest))
            self._release(oldest)
            excess = self._held_count() - self._held_max()

    def _release(self, deliveries: Iterable[_Delivery]) -> None:
        """Acknowledge deliveries, unless their connection has ended."""
        if self._session is not None:
            self._session.acknowledge(d.token for d in deliveries if d.epoch == self._epoch)

    def _held_count(self) -> int:
        """Return the number of messages that are held, or that wait for a held one's acknowledgement."""
        if self._session is None or not self._session.keeps_order:
            return len(self._held_deliveries)
        tokens = [message.token for message, _ in self._backlog if message.token is not None]
        waiting_count: int = sum(token.epoch == self._epoch for token in tokens)
        return self._session.unacknowledged_count - waiting_count

    def _held_max(self) -> int:
        """Return the largest number of messages that may be held (rule 2)."""
        is_mqtt_5 = self._session is None or self._session.version == MQTT_5
        bound = self._inflight if is_mqtt_5 or not self._is_capped else min(self._inflight, HELD_MAX_3_1_1)
        return bound if self._probe.limit is None else min(bound, self._probe.limit)
