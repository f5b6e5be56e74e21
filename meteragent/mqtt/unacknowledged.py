"""The messages of one connection that the client has not acknowledged, and the order of their PUBACKs."""

from collections import deque
from collections.abc import Iterable

from meteragent.mqtt.link import Token


class Unacknowledged:
    """The unacknowledged messages of one connection, each with a token that is compared by identity.

    Brokers reuse ids of unacknowledged messages (mosquitto 2.0.11 after 65,535 messages) and apply an
    acknowledgement to the oldest message with its id. So an acknowledgement waits until all earlier messages
    with its id are released. If `keeps_order`, an acknowledgement waits for all earlier messages: MQTT asks
    for this (4.6.0-2), and a few brokers end the connection otherwise.
    """

    def __init__(self, *, keeps_order: bool) -> None:
        self._keeps_order = keeps_order
        self._queues: dict[int, deque[Token]] = {}
        self._unreleased: dict[int, Token] = {}

    def __contains__(self, packet_id: int) -> bool:
        queue = self._queues.get(self._queue_of(packet_id), ())
        return any(token[0] == packet_id for token in queue)

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def add(self, packet_id: int) -> Token:
        """Add a message that has arrived; return its token."""
        token = (packet_id,)
        self._queues.setdefault(self._queue_of(packet_id), deque()).append(token)
        self._unreleased[id(token)] = token
        return token

    def release(self, tokens: Iterable[Token]) -> list[int]:
        """Release messages; return the ids to acknowledge now, in order. Unknown tokens are ignored."""
        packet_ids = []
        for token in tokens:
            if self._unreleased.get(id(token)) is not token:
                continue
            del self._unreleased[id(token)]
            key = self._queue_of(token[0])
            queue = self._queues[key]
            while queue and id(queue[0]) not in self._unreleased:
                packet_ids.append(queue.popleft()[0])
            if not queue:
                del self._queues[key]
        return packet_ids

    def _queue_of(self, packet_id: int) -> int:
        """Return the key of the queue in which a message waits for earlier ones."""
        return 0 if self._keeps_order else packet_id
