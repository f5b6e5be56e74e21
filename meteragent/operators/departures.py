"""Messages that wait for their instant, and then for the broker's acknowledgement.

Messages not accepted when a connection ends are sent again on the next, and so is the newest retained message
on each topic, in case the broker has lost it. After a crash, `Desk.first_step` creates a new key list and
repeats the leader's other messages; the helper's answer is sent again when the leader asks again.
"""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from meteragent.crowd.machine import Outgoing

ANSWER = "answer"
MINUTE_S = 60
REFUSED_S = 300
"""The time, in seconds, after which a message that the broker has refused is sent again."""


class Name(NamedTuple):
    """The identity of a message: its topic and payload; of a retained message, the topic alone."""

    topic: str
    payload: bytes


class Departures:
    """The messages that the broker has not accepted yet, and the newest retained messages."""

    def __init__(self) -> None:
        self._waiting: dict[Name, Outgoing] = {}
        self._retained: dict[str, Outgoing] = {}
        self._in_flight: dict[int, tuple[Name, Outgoing]] = {}
        self.refused_topics: set[str] = set()

    def __len__(self) -> int:
        return len(self._waiting) + len(self._in_flight)

    @property
    def in_flight_count(self) -> int:
        """The number of messages that were sent and that the broker has not acknowledged or refused."""
        return len(self._in_flight)

    def add_messages(self, messages: Iterable[Outgoing], now_s: int) -> Counter[str]:
        """Add the messages of a committed step; count those that are `dropped` or `late`.

        An answer whose instant has passed is dropped; when the leader asks again, it is sent on time. Any
        other late message is sent at the next full minute. So no message shows how late it was.
        """
        counts = Counter[str]()
        for message in messages:
            if message.due_s < now_s:
                if message.topic == ANSWER:
                    counts["dropped"] += 1
                    continue
                counts["late"] += 1
                message = message._replace(due_s=-(-now_s // MINUTE_S) * MINUTE_S)  # noqa: PLW2901
            if message.retain:
                self._retained[message.topic] = message
            name = Name(message.topic, b"" if message.retain else message.payload)
            same_message = self._waiting.get(name)
            # Equal messages count as one message, which is sent at the earlier instant.
            if same_message is None or message.retain or message.due_s < same_message.due_s:
                self._waiting[name] = message
        return counts

    def on_connected(self, now_s: int) -> None:
        """Note a new connection: send all unacknowledged messages and all newest retained messages again."""
        for name, message in self._in_flight.values():
            self._waiting.setdefault(name, message)
        self._in_flight.clear()
        for topic, message in self._retained.items():
            self._waiting.setdefault(Name(topic, b""), message._replace(due_s=max(message.due_s, now_s)))

    def due_messages(self, now_s: int) -> list[Outgoing]:
        """Return the waiting messages whose instant has come."""
        return [message for message in self._waiting.values() if message.due_s <= now_s]

    def next_s(self) -> int | None:
        """Return the earliest instant of a waiting message; None if no message waits."""
        return min((message.due_s for message in self._waiting.values()), default=None)

    def on_sent(self, message: Outgoing, packet_id: int) -> None:
        """Note that a message was sent under a packet id."""
        name = Name(message.topic, b"" if message.retain else message.payload)
        if self._waiting.get(name) == message:
            del self._waiting[name]
        self._in_flight[packet_id] = name, message

    def on_delivered(self, packet_id: int) -> None:
        """Note that the broker has accepted a message, and therefore its topic."""
        if packet_id in self._in_flight:
            _, message = self._in_flight.pop(packet_id)
            self.refused_topics.discard(message.topic)

    def on_refused(self, packet_id: int, now_s: int) -> None:
        """Note that the broker has refused a message; send it again after REFUSED_S."""
        if packet_id in self._in_flight:
            name, message = self._in_flight.pop(packet_id)
            self.refused_topics.add(message.topic)
            self._waiting.setdefault(name, message._replace(due_s=now_s + REFUSED_S))
