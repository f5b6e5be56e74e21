"""The demo's stage: meters, broker, agent and receiver, connected as in the field.

    street -> aiomqtt -> amqtt -> meteragent run -> amqtt -> aiomqtt -> messages
    (here)               (each a separate process)           (here)

The receiver uses nothing but the messages. amqtt keeps no messages for clients that connect later, so meters
start sending only when both subscriptions are confirmed. When a sender disconnects, amqtt also discards
messages that it has acknowledged but not forwarded, so meters stay connected until everything has arrived.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from aiomqtt import Client

from simulators.demo.program import programs
from simulators.homes.street import READING_MS, Street
from simulators.wire import connect, publish

AHEAD = 4
"""The largest number of slots whose messages may be in transit, because amqtt does not limit its queues."""

CONFIGURATION = """\
[source]
url = "{url}"
protocol = "3.1.1"     # all that the embedded broker speaks
topic = "meters/{{meter}}/power"
profile = "json"
value = "power"
time = "t"
kind = "power"
unit = "W"

[window]
clock = "event"        # the readings' own time: a day passes in seconds

[privacy]
preset = "appliance"

[sink]
protocol = "3.1.1"
topic = "private/{{meter}}/power"

[store]
path = "{store}"
"""


def configuration(folder: Path, url: str = "mqtt://127.0.0.1") -> Path:
    """Write the agent's configuration, with a store in the same folder; return the configuration's path."""
    path = folder / "meteragent.toml"
    store = (folder / "meteragent.db").as_posix()
    path.write_text(CONFIGURATION.format(url=url, store=store), encoding="utf-8")
    return path


async def play(street: Street, slot_ms: int, folder: Path, progress: Callable[[], object]) -> list[bytes]:
    """Send all readings of a street through the agent; return the messages received, without repetitions.

    Every slot of every home must yield a record; `progress` is called for each record. The agent's files and
    the standard error of all processes are in `folder`. Raises DemoError if a program or a connection fails,
    or if there is no progress for a minute.
    """
    async with programs(folder) as stage, stage.run("broker", "simulators.demo.broker") as broker:
        url = f"mqtt://127.0.0.1:{await broker.wait_for('listening')}"
        async with (
            stage.run("agent", "meteragent", "run", str(configuration(folder, url))),
            connect(url, keepalive_s=0) as receiver,  # a keepalive makes amqtt a third slower
            connect(url, keepalive_s=0) as meters,
        ):
            await receiver.subscribe("private/#", qos=1)
            while await broker.wait_for("subscribed") != "meters/+/power":
                pass
            return await _exchange(street, slot_ms, meters, receiver, stage.alive, progress)


async def _exchange(
    street: Street,
    slot_ms: int,
    meters: Client,
    receiver: Client,
    alive: Callable[[], object],
    progress: Callable[[], object],
) -> list[bytes]:
    """Publish readings and receive records at the same time, until all records have been received."""
    room = asyncio.Semaphore(AHEAD)
    received: dict[bytes, None] = {}
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(publish(meters, _messages(street, slot_ms, room), alive))
        async for count in _count_records(receiver, received, street.homes * street.slots(slot_ms)):
            alive()
            progress()
            if count % street.homes == 0:
                room.release()
    return list(received)


async def _messages(
    street: Street, slot_ms: int, room: asyncio.Semaphore
) -> AsyncIterator[tuple[str, bytes]]:
    """Yield the topics and payloads of the street's messages; wait for `room` before each slot."""
    topics = [f"meters/{meter}/power" for meter in street.meters]
    readings_per_slot = street.homes * slot_ms // READING_MS
    for count, (home, payload) in enumerate(street.messages()):
        if count % readings_per_slot == 0:
            await room.acquire()
        yield topics[home], payload


async def _count_records(receiver: Client, received: dict[bytes, None], total: int) -> AsyncIterator[int]:
    """Add messages to `received`; yield the number of records after each new record, until it is `total`."""
    count = 0
    async for message in receiver.messages:
        payload = bytes(message.payload)
        if payload in received:
            continue
        received[payload] = None
        if message.topic.matches("private/+/power"):
            count += 1
            yield count
        if count == total:
            return
