"""Messages in: a stream's subscription, and the batches it hands to the core.

Rules
1. A message is acknowledged when the core says so, after the commit that holds what it contributed.
2. What is held unacknowledged is bounded: beyond `inflight` (over MQTT 3.1.1, whose brokers have
   limits of their own that nobody states, 16 unless the configuration says how many) the oldest that the
   core has are acknowledged early and counted. A broker that stops at fewer is found out: see `Allowance`.
3. What waits for the core is bounded: QoS 0 messages beyond Receive Maximum are shed and counted;
   QoS 1 messages beyond what the protocol allows end the connection, and the broker sends them again.
   Before that nothing more is read: mosquitto 2.0.11 sends a backlog without regard to Receive Maximum.
   Of a payload that is too large, no more is kept than shows it.
4. A token stands for one delivery and is compared by identity: brokers use packet ids again, also
   while the core still holds the token of a message that was acknowledged early.
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice

from meteragent.domain.counters import Counts
from meteragent.domain.errors import LinkError
from meteragent.domain.reading import Message
from meteragent.mqtt import Session
from meteragent.mqtt import Token as MqttToken

BATCH = 1000
"""Messages in one batch at most, so that a commit stays short."""
HELD_3_1_1 = 16
"""mosquitto sends 20 unacknowledged messages at most by default, and then nothing."""
PACKET_IDS = 65_535
"""No broker can have more unacknowledged messages on their way: each has an id of 16 bits."""
_MQTT_5 = 5

SILENCES_S = (10.0, 11.0, 12.5)
"""When nothing came for so long, the broker may be waiting for an acknowledgement; it is when three in a
row are answered. The three differ, so that readings which come at regular times are not taken for answers."""
PROMPT_S = 0.5
"""A broker that waits for an acknowledgement answers it with a message within this time."""
SILENCE_MAX_S = 900.0
"""The longest silence that is waited for: the default of `hold`, after which no reading stands."""
HELD_SURELY = 3
"""No broker stops at so few: homes with few meters are never put to the test."""

_log = logging.getLogger("meteragent")


class _Delivery:
    """What the core holds of a message, to give it back: the connection it came on and its token."""

    __slots__ = ("epoch", "token")

    def __init__(self, epoch: int, token: MqttToken) -> None:
        self.epoch = epoch
        self.token = token


class Allowance:
    """How many unacknowledged messages one connection's broker sends before it waits, found out.

    Receive Maximum says what we would take; brokers have limits of their own (by default 10 to 32) that
    they do not state. Where more readings stand than that, nothing would come until a slot closes. So
    after a silence the oldest is acknowledged early (which a crash may then cost), unless twice as many
    have been out at once. A broker that waits sends the next message at once; each time that none comes,
    the silence before the next test is twice as long. Having found out a limit we hold half of it: the
    other half keeps messages coming.
    """

    def __init__(self) -> None:
        self.most: int | None = None
        self._newest_s = 0.0
        self._silence_s = SILENCES_S[0]
        self._tested_s: float | None = None
        self._answered: list[int] = []
        self._held = 0
        self._peak = 0

    def taken(self, held: int) -> None:
        """So many were out at once."""
        self._peak = max(self._peak, held)

    def came(self, now_s: float) -> None:
        """A QoS 1 message has come; after a test it may be the answer."""
        self._newest_s = now_s
        if self._tested_s is None:
            return
        if now_s - self._tested_s > PROMPT_S:
            self._unanswered()
            return
        self._tested_s = None
        self._answered.append(self._held)
        if len(self._answered) == len(SILENCES_S):
            self.most = min(self._answered) // 2
            _log.warning("the broker waits at %d unacknowledged messages: half are held", min(self._answered))

    def test(self, held: int, now_s: float) -> bool:
        """Whether to acknowledge one now, of so many held."""
        if self._tested_s is not None and now_s - self._tested_s > PROMPT_S:
            self._unanswered()
        if self.most is not None or self._tested_s is not None or held <= HELD_SURELY:
            return False
        if 2 * held <= self._peak:
            return False
        needed_s = SILENCES_S[len(self._answered)] if self._answered else self._silence_s
        if now_s - self._newest_s < needed_s:
            return False
        self._tested_s, self._held = now_s, held
        return True

    def _unanswered(self) -> None:
        self._tested_s = None
        self._answered.clear()
        self._silence_s = min(2 * self._silence_s, SILENCE_MAX_S)


class Source:
    """One stream's incoming messages."""

    def __init__(
        self,
        topic_filter: str,
        inflight: int,
        max_payload: int,
        now_ms: Callable[[], int | None],
        counts: Counts,
        *,
        capped: bool = True,
    ) -> None:
        """`now_ms` stamps arrivals; None while there is no clock.

        `capped`: over MQTT 3.1.1 no more than HELD_3_1_1 are held, whatever `inflight` is.
        `receive_maximum` is how many unacknowledged messages the broker may send: those held, and room to
        move.
        """
        self.subscribed = asyncio.Event()
        self._filter = topic_filter
        self._inflight = inflight
        self._capped = capped
        self.receive_maximum = min(2 * inflight, inflight + BATCH, PACKET_IDS)
        self._max_payload = max_payload
        self._now_ms = now_ms
        self._counts = counts
        self._waiting: deque[tuple[Message, int | None]] = deque()
        self._arrived = asyncio.Event()
        self._session: Session | None = None
        self._epoch = 0
        self._held: dict[_Delivery, None] = {}
        self._allowance = Allowance()

    async def serve(self, session: Session) -> None:
        """Subscribe on a new connection; what was held before belongs to a session that is gone."""
        self._session = session
        self._epoch += 1
        self._held.clear()
        self._allowance = Allowance()
        await session.subscribe(self._filter)
        self.subscribed.set()
        self._arrived.set()

    def on_message(self, topic: str, payload: bytes, qos: int, retain: bool, token: MqttToken | None) -> None:
        """Take a message in; raises LinkError when more wait than can be (rule 3)."""
        waiting = len(self._waiting)
        if waiting >= self.receive_maximum:
            if qos == 0:
                self._counts.add("shed")
                return
            if waiting >= self.receive_maximum + PACKET_IDS:
                raise LinkError("the broker sends more than was asked for")
        mine = None
        if token is not None:
            mine = _Delivery(self._epoch, token)
            self._allowance.came(asyncio.get_running_loop().time())
        received_ms = self._now_ms()
        kept = payload[: self._max_payload + 1]
        self._waiting.append((Message(topic, kept, retain, received_ms or 0, mine), received_ms))
        self._arrived.set()
        if waiting + 1 >= self.receive_maximum + 2 * BATCH and self._session is not None:
            self._session.pause(reading=False)

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
        if taken and self._session is not None and len(self._waiting) < self.receive_maximum:
            self._session.pause(reading=True)
        messages = [m if at is not None else m._replace(received_ms=now_ms) for m, at in taken]
        for message in messages:
            if message.token is not None and message.token.epoch == self._epoch:
                self._held[message.token] = None
        self._allowance.taken(len(self._held))
        return messages

    def acknowledge(self, tokens: Iterable[_Delivery | None]) -> None:
        """Acknowledge what the core is done with; call it after the commit only (rule 1).

        Then the oldest beyond the bound are acknowledged early (rule 2).
        """
        done = [token for token in tokens if token is not None]
        for token in done:
            self._held.pop(token, None)
        over = len(self._held) - self._bound()
        if over <= 0 and not self._waiting:
            over = int(self._allowance.test(len(self._held), asyncio.get_running_loop().time()))
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
        asked = self._inflight if modern or not self._capped else min(self._inflight, HELD_3_1_1)
        return asked if self._allowance.most is None else min(asked, self._allowance.most)
