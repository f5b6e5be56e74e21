"""The protocol that every source of messages implements."""

from collections.abc import Sequence
from typing import NoReturn, Protocol

from meteragent.collect.core import Message


class Source(Protocol):
    """Messages of a broker, which delivers each message again until it is acknowledged.

    `is_shared` states whether one meter's messages may be divided among several collectors, `is_up` whether
    there is a connection.
    """

    is_shared: bool
    is_up: bool

    async def run(self) -> NoReturn:
        """Stay connected until cancelled."""
        ...

    async def batch(self, size: int) -> list[Message]:
        """Wait for messages, and return at most `size` of them, each with its MQTT topic.

        A shared source returns an empty list after a long wait without messages.
        """
        ...

    async def acknowledge(self, messages: Sequence[Message]) -> None:
        """Acknowledge messages whose effects have been committed."""
        ...
