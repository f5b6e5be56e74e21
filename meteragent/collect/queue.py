"""The queue of messages that arrived from a source, and the limits of a batch that is taken from it."""

import asyncio
from collections import deque
from typing import Final

from meteragent.collect.core import PAYLOAD_MAX, Message

BATCH_MAX: Final = 5_000
"""The largest number of messages in a transaction."""
LINGER_S: Final = 0.02
"""How long a batch waits for more messages, so that messages of a burst are committed together."""
BYTES_MAX: Final = 64 * 1024 * 1024
"""The number of bytes of waiting messages at which reading pauses."""


class Queue:
    """Messages that wait, unacknowledged, until a batch takes them; it is full at `size` messages."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._messages: deque[Message] = deque()
        self._bytes = 0
        self._arrival = asyncio.Event()

    @property
    def is_full(self) -> bool:
        """Whether reading should pause."""
        return len(self._messages) >= self._size or self._bytes >= BYTES_MAX

    @property
    def has_room(self) -> bool:
        """Whether reading may resume."""
        return len(self._messages) <= self._size // 2 and self._bytes <= BYTES_MAX // 2

    def put(self, message: Message) -> None:
        """Add a message; of a large payload, keep one byte past the limit, so that the core refuses it."""
        if len(message.payload) > PAYLOAD_MAX:
            message = message._replace(payload=message.payload[: PAYLOAD_MAX + 1])
        self._messages.append(message)
        self._bytes += len(message.payload)
        self._arrival.set()

    async def take(self, size: int) -> list[Message]:
        """Wait for messages, and return at most `size` of them, in order of arrival."""
        while not self._messages:
            self._arrival.clear()
            await self._arrival.wait()
            await asyncio.sleep(LINGER_S)
        messages = [self._messages.popleft() for _ in range(min(size, len(self._messages)))]
        self._bytes -= sum(len(message.payload) for message in messages)
        return messages

    def drop_tokens(self) -> None:
        """Drop the messages that must be acknowledged (with a token): the broker sends them again."""
        self._messages = deque(message for message in self._messages if message.token is None)
        self._bytes = sum(len(message.payload) for message in self._messages)
