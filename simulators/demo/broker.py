"""The demo's broker: amqtt (MQTT 3.1.1) in a separate process, without persistence.

`python -m simulators.demo.broker` listens on a free loopback port. It prints the port, then each topic filter
that a client subscribes to, one per line on standard output:

    listening 41235
    subscribed meters/+/power

amqtt keeps no messages for disconnected clients, so publishers wait for the second line. The program exits
when its standard input is closed, so it never outlives the process that started it.
"""

import asyncio
import logging
import sys

from amqtt.adapters import StreamReaderAdapter, StreamWriterAdapter
from amqtt.broker import Broker, BrokerContext
from amqtt.plugins.base import BasePlugin

_LISTENER = "default"


class Announcer(BasePlugin[BrokerContext]):  # type: ignore[misc]  # amqtt has no types
    """A plugin that prints each subscription, so that publishers know when to start."""

    async def on_broker_client_subscribed(self, *, topic: str, **_: object) -> None:
        """Print the topic filter of a confirmed subscription."""
        print(f"subscribed {topic}", flush=True)


async def serve() -> None:
    """Run the broker until its standard input is closed."""
    broker = Broker(
        {
            "listeners": {_LISTENER: {"type": "external"}},
            "plugins": {
                "amqtt.plugins.authentication.AnonymousAuthPlugin": {"allow_anonymous": True},
                "simulators.demo.broker.Announcer": {},
            },
        }
    )
    await broker.start()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass a connection to the broker."""
        await broker.external_connected(StreamReaderAdapter(reader), StreamWriterAdapter(writer), _LISTENER)

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    print(f"listening {server.sockets[0].getsockname()[1]}", flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)  # amqtt logs payloads and each acknowledgement that times out after 5 s
    asyncio.run(serve())
