"""Programs that forward payloads unchanged, as a user would write them: Python peers of the agent.

`python -m benchmarks.forwarders NAME SOURCE_PORT SINK_PORT QOS` runs a program until it is stopped.
"""

import asyncio
import socket
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import aiomqtt
import gmqtt

NODELAY = [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)]


def sink_topic(topic: str) -> str:
    """Return the topic under which a message is forwarded."""
    return topic.replace("meters/", "private/", 1)


async def with_gmqtt(source_port: int, sink_port: int, qos: int) -> None:
    """Forward messages with two gmqtt connections.

    A message is acknowledged to the source once the sink's client has accepted it; the sink's acknowledgement
    is not awaited.
    """
    sink = gmqtt.Client("bench-out")
    await sink.connect("127.0.0.1", sink_port)
    source = gmqtt.Client("bench-in", optimistic_acknowledgement=False)

    async def forward(_: object, topic: str, payload: bytes, *__: object) -> int:
        """Forward a message."""
        sink.publish(sink_topic(topic), payload, qos=qos)
        return 0

    source.on_message = forward
    await source.connect("127.0.0.1", source_port)
    source.subscribe("meters/+/power", qos=qos)
    await asyncio.Event().wait()


async def with_aiomqtt(source_port: int, sink_port: int, qos: int) -> None:
    """Forward messages with two aiomqtt connections; at QoS 1, await the sink's acknowledgement each time."""
    options: dict[str, Any] = {"socket_options": NODELAY}
    async with (
        aiomqtt.Client("127.0.0.1", sink_port, **options) as sink,
        aiomqtt.Client("127.0.0.1", source_port, **options) as source,
    ):
        await source.subscribe("meters/+/power", qos=qos)
        async for message in source.messages:
            await sink.publish(sink_topic(str(message.topic)), message.payload, qos=qos)


FORWARDERS: dict[str, Callable[[int, int, int], Awaitable[None]]] = {
    "gmqtt": with_gmqtt,
    "aiomqtt": with_aiomqtt,
}

if __name__ == "__main__":
    name, *numbers = sys.argv[1:]
    asyncio.run(FORWARDERS[name](*map(int, numbers)))  # type: ignore[arg-type]
