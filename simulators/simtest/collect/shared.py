"""A queue that several collectors share, as a NATS consumer or a Kafka group is shared.

Each message goes to one collector. It goes to any of them again if it is not acknowledged within a time, and
at once if its collector's connection is lost. Acknowledgements may be lost.
"""

import asyncio
from collections.abc import Callable, Sequence
from random import Random
from typing import NoReturn

from meteragent.collect.core import Message

_AGAIN_S = 5.0
"""The time after which a message without acknowledgement is delivered again."""
_POLL_S = 0.1


class SharedQueue:
    """The queue: messages that wait, in order, and those on their way, with the time to send them again."""

    def __init__(self, loop: asyncio.AbstractEventLoop, random: Random) -> None:
        self.loop, self._random = loop, random
        self.waiting: list[tuple[str, bytes]] = []
        self.sent: dict[int, tuple[float, str, tuple[str, bytes]]] = {}
        self.loses_answers = False
        self._number = 0

    @property
    def is_empty(self) -> bool:
        """Whether every message is acknowledged."""
        return not self.waiting and not self.sent

    def take(self, name: str, size: int) -> list[Message]:
        """Return messages for a collector."""
        self.send_again(lambda due_s, _: due_s <= self.loop.time())
        head, self.waiting = self.waiting[:size], self.waiting[size:]
        messages = []
        for topic, payload in head:
            self._number += 1
            self.sent[self._number] = self.loop.time() + _AGAIN_S, name, (topic, payload)
            messages.append(Message(topic, payload, self._number))
        return messages

    def send_again(self, is_due: Callable[[float, str], bool]) -> None:
        """Let messages on their way wait again, in any order, if that is due."""
        numbers = [number for number, (due_s, name, _) in self.sent.items() if is_due(due_s, name)]
        messages = [self.sent.pop(number)[2] for number in numbers]
        self._random.shuffle(messages)
        self.waiting = messages + self.waiting


class SharedSource:
    """A collector's source: `on_acknowledge` returns which of its acknowledgements leave."""

    is_shared = is_up = True

    def __init__(
        self, queue: SharedQueue, name: str, on_acknowledge: Callable[[list[tuple[str, bytes]]], int]
    ) -> None:
        self._queue, self._name, self._on_acknowledge = queue, name, on_acknowledge

    async def run(self) -> NoReturn:
        """Wait until cancelled."""
        await asyncio.Event().wait()
        raise AssertionError

    async def take_batch(self, size: int) -> list[Message]:
        """Return messages, or none if none comes for a while."""
        await asyncio.sleep(_POLL_S)
        return self._queue.take(self._name, size)

    async def acknowledge(self, messages: Sequence[Message]) -> None:
        """Acknowledge messages."""
        count = self._on_acknowledge([(topic, payload) for topic, payload, _ in messages])
        for _, _, number in messages[:count]:
            if not self._queue.loses_answers:
                self._queue.sent.pop(number, None)
