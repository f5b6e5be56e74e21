"""Messages that wait for their instant, then for the broker's answer.

A message stays here until the broker has accepted it. Messages that were not accepted when a connection ended
are sent again on the next one, as are the latest retained messages, in case the broker has lost them. After a
crash, `Desk.begin` makes the same messages again.
"""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from meteragent.crowd.machine import Outgoing

ANSWER = "answer"
MINUTE_S = 60
REFUSED_S = 300
"""How long a message that the broker has refused waits until it is sent again."""


class Name(NamedTuple):
    """The key by which messages are the same: a retained message replaces the previous one on its topic."""

    topic: str
    payload: bytes


class Departures:
    """The messages that have not left."""

    def __init__(self) -> None:
        self._waiting: dict[Name, Outgoing] = {}
        self._retained: dict[str, Outgoing] = {}
        self._in_flight: dict[int, tuple[Name, Outgoing]] = {}
        self.refused_topics: set[str] = set()

    def __len__(self) -> int:
        return len(self._waiting) + len(self._in_flight)

    @property
    def in_flight(self) -> int:
        """The number of messages that the broker has not answered."""
        return len(self._in_flight)

    def add(self, messages: Iterable[Outgoing], now_s: int) -> Counter[str]:
        """Add messages whose effects are committed; return how many are `dropped` or `late`.

        A late answer is dropped: the leader sends its request again, and then the committed answer is in
        time. Any other late message leaves at the next multiple of a minute. Neither shows how late it was.
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
            waiting = self._waiting.get(name)
            # A repeated message leaves when the first would have left: it is one message.
            if waiting is None or message.retain or message.due_s < waiting.due_s:
                self._waiting[name] = message
        return counts

    def connected(self, now_s: int) -> None:
        """Begin a connection: all unanswered messages are sent again, and so are the retained ones."""
        for name, message in self._in_flight.values():
            self._waiting.setdefault(name, message)
        self._in_flight.clear()
        for topic, message in self._retained.items():
            self._waiting.setdefault(Name(topic, b""), message._replace(due_s=max(message.due_s, now_s)))

    def due(self, now_s: int) -> list[Outgoing]:
        """Return the messages whose instant has come."""
        return [message for message in self._waiting.values() if message.due_s <= now_s]

    def next_s(self) -> int | None:
        """Return the earliest instant of a waiting message; None if none waits."""
        return min((message.due_s for message in self._waiting.values()), default=None)

    def sent(self, message: Outgoing, packet_id: int) -> None:
        """Record that a message is under way."""
        name = Name(message.topic, b"" if message.retain else message.payload)
        if self._waiting.get(name) == message:
            del self._waiting[name]
        self._in_flight[packet_id] = name, message

    def delivered(self, packet_id: int) -> None:
        """Record that the broker has accepted a message."""
        if packet_id in self._in_flight:
            _, message = self._in_flight.pop(packet_id)
            self.refused_topics.discard(message.topic)

    def refused(self, packet_id: int, now_s: int) -> None:
        """Record that the broker has refused a message, which is tried again later."""
        if packet_id in self._in_flight:
            name, message = self._in_flight.pop(packet_id)
            self.refused_topics.add(message.topic)
            self._waiting.setdefault(name, message._replace(due_s=now_s + REFUSED_S))
