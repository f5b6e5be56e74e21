"""MQTT for simulations: a client, and publishing at QoS 1 with a limit on unacknowledged messages."""

import asyncio
import math
from collections.abc import AsyncIterable, Callable
from socket import IPPROTO_TCP, TCP_NODELAY
from urllib.parse import SplitResult, urlsplit

from aiomqtt import Client

IN_FLIGHT = 100


def broker(url: str) -> SplitResult:
    """Parse mqtt://[user:password@]host[:port]. Raises ValueError if `url` is not such a URL."""
    parts = urlsplit(url)
    if parts.scheme != "mqtt" or not parts.hostname or parts.port == 0:
        raise ValueError(f"{url} is not a URL such as mqtt://127.0.0.1:1883")
    return parts


def connect(url: str, keepalive_s: int = 60) -> Client:
    """Return a client of the broker at `url`: a context manager to be entered in a running event loop.

    After `keepalive_s` seconds of silence the client pings the broker, unless `keepalive_s` is 0.
    """
    parts = broker(url)
    client = Client(
        parts.hostname or "",
        parts.port or 1883,
        username=parts.username,
        password=parts.password,
        keepalive=keepalive_s,
        max_inflight_messages=IN_FLIGHT,
        socket_options=[(IPPROTO_TCP, TCP_NODELAY, 1)],
    )
    client.pending_calls_threshold = IN_FLIGHT
    return client


async def publish(
    client: Client, messages: AsyncIterable[tuple[str, bytes]], acknowledged: Callable[[], object]
) -> None:
    """Publish each (topic, payload) in order, not retained; call `acknowledged` after each acknowledgement.

    Raises MqttError if the connection to the broker is lost.
    """
    room = asyncio.Semaphore(IN_FLIGHT)

    async def send(topic: str, payload: bytes) -> None:
        """Publish one message and wait for its acknowledgement."""
        await client.publish(topic, payload, qos=1, timeout=math.inf)
        acknowledged()
        room.release()

    try:
        async with asyncio.TaskGroup() as tasks:
            watch = tasks.create_task(lost(client))
            async for topic, payload in messages:
                await room.acquire()
                tasks.create_task(send(topic, payload))
            for _ in range(IN_FLIGHT):
                await room.acquire()
            watch.cancel()
    except ExceptionGroup as group:  # the first failure causes the others
        raise group.exceptions[0] from None


async def lost(client: Client) -> None:
    """Raise MqttError as soon as the connection is lost, which a waiting publication does not notice."""
    async for _ in client.messages:
        pass
