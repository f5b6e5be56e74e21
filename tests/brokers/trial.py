"""A broker on trial: clients of ours and of another make, under names that no other behaviour uses."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import aiomqtt

from meteragent.mqtt.link import Version
from tests.support.broker import Server
from tests.support.mqtt_peer import Got, Peer, connected

ANSWER_S: Final = 3.0
"""How long an answer to CONNECT is waited for."""
COMES_S: Final = 10.0
"""A message that has not come after so long does not come."""
QUIET_S: Final = 1.0
"""After a silence of so long nothing more comes."""


class Measured(NamedTuple):
    """What a behaviour was, and whether it is what the agent needs."""

    text: str
    holds: bool


@dataclass(frozen=True, slots=True)
class Trial:
    """A broker that runs, and the version of MQTT that is spoken with it."""

    server: Server
    version: Version

    @asynccontextmanager
    async def client(self, name: str, version: Version | None = None, **options: Any) -> AsyncIterator[Peer]:
        """Our client, with a session of its own."""
        spoken = version or self.version
        async with connected(
            self.server.url,
            version=spoken,
            client_id=f"trial-{name}-{spoken.replace('.', '')}",
            timeout_s=ANSWER_S,
            **options,
        ) as peer:
            yield peer

    @asynccontextmanager
    async def other(self) -> AsyncIterator[aiomqtt.Client]:
        """Another make of client, which speaks MQTT 3.1.1."""
        port = urlsplit(self.server.url).port or 0
        async with aiomqtt.Client("127.0.0.1", port, timeout=COMES_S) as client:
            yield client

    async def send(self, topic: str, *payloads: bytes | str) -> None:
        """Publish at QoS 1 by the other client, and wait until it is answered."""
        async with self.other() as client:
            for payload in payloads:
                await client.publish(topic, payload, qos=1)

    def topic(self, *parts: str) -> str:
        """Return a topic that only trials of this version use."""
        return "/".join((f"trial{self.version.replace('.', '')}", *parts))


async def came(peer: Peer, first_s: float = COMES_S) -> list[Got]:
    """Return what comes until it is quiet; the first may take longer."""
    messages: list[Got] = []
    try:
        while True:
            async with asyncio.timeout(QUIET_S if messages else first_s):
                messages.append(await peer.messages.get())
    except TimeoutError:
        return messages


def warned(peer: Peer, pattern: str) -> re.Match[str] | None:
    """Return what matches in the warnings so far, which are taken out."""
    lines = [peer.log.get_nowait() for _ in range(peer.log.qsize())]
    return re.search(pattern, "\n".join(lines))
