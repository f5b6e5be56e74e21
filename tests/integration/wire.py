"""The other ends of the wire: meters that send until they are answered, a receiver that keeps everything."""

import asyncio
import re
from collections import defaultdict
from collections.abc import Sequence
from types import TracebackType
from typing import NamedTuple, Self

from aiomqtt import Client, Message, MqttError

from simulators.replay import connect, lost
from tests.broker import Broker
from tests.integration.plan import SOURCE_TOPIC, Reading
from tests.integration.service import PAUSE_S, until

LIMIT_S = 120.0
CHUNK = 100
"""Publications unanswered at once."""
_TIME = re.compile(rb'"t":"([^"]+)"')


class Publication(NamedTuple):
    """A reading on its way."""

    topic: str
    payload: bytes


def publication(meter: str, reading: Reading) -> Publication:
    """A meter's reading as a message."""
    return Publication(SOURCE_TOPIC.replace("{meter}", meter), reading.payload)


async def feed(url: str, messages: Sequence[Publication]) -> None:
    """Publish in order at QoS 1, again and again what was not answered, also when the broker goes away.

    mosquitto answers before it saves: what it answered at the very moment of its death is lost.
    So the last ones that were answered are sent again too; the agent refuses duplicates.
    """
    sent = 0
    while sent < len(messages):
        try:
            async with connect(url) as client, asyncio.TaskGroup() as tasks:
                watch = tasks.create_task(lost(client))
                while sent < len(messages):
                    chunk = messages[sent : sent + CHUNK]
                    await asyncio.gather(*(client.publish(*m, qos=1, timeout=LIMIT_S) for m in chunk))
                    sent += len(chunk)
                watch.cancel()
        except* MqttError:
            sent = max(0, sent - CHUNK)
            await asyncio.sleep(PAUSE_S)


class Receiver:
    """A subscriber to everything under `private/`, with a session that outlives it and the broker.

    `messages` holds every payload ever received, by topic, in order of arrival; `newest` the latest
    time of a record, by topic; `records` how many records were received, with repetitions.
    """

    def __init__(self, broker: Broker, name: str = "receiver") -> None:
        self.messages: dict[str, list[bytes]] = defaultdict(list)
        self.connected = asyncio.Event()
        self.newest: dict[str, str] = {}
        self.records = 0
        self._port = broker.port
        self._name = name
        self._task: asyncio.Task[None] | None = None
        keep = self._keep

        class Keeping(asyncio.Queue[Message]):
            """aiomqtt acknowledges what it has put here: it must not be lost, whatever happens next."""

            def put_nowait(self, item: Message) -> None:
                keep(item)

        self._queue = Keeping

    async def __aenter__(self) -> Self:
        await self.come()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.go()

    async def come(self) -> None:
        """Connect, and stay connected."""
        self._task = asyncio.create_task(self._stay())
        async with asyncio.timeout(LIMIT_S):
            await self.connected.wait()

    async def go(self) -> None:
        """Disconnect; the broker keeps what comes."""
        assert self._task is not None
        self._task.cancel()
        await asyncio.wait({self._task})
        self.connected.clear()

    async def _stay(self) -> None:
        while True:
            try:
                await self._listen()
            except MqttError:
                self.connected.clear()
                await asyncio.sleep(PAUSE_S)

    async def _listen(self) -> None:
        async with Client(
            "127.0.0.1", self._port, identifier=self._name, clean_session=False, queue_type=self._queue
        ) as client:
            await client.subscribe("private/#", qos=1)
            self.connected.set()
            await lost(client)

    def _keep(self, message: Message) -> None:
        topic, payload = str(message.topic), bytes(message.payload)
        self.messages[topic].append(payload)
        if found := _TIME.search(payload):
            self.newest[topic] = max(found[1].decode(), self.newest.get(topic, ""))
            self.records += 1

    async def more_than(self, records: int) -> None:
        """Wait until there have been more records."""
        await until(lambda: self.records > records, LIMIT_S)

    async def flush(self, url: str) -> None:
        """Wait until everything that the broker has taken by now is here."""
        await feed(url, [Publication("private/end", b"")])
        await until(lambda: bool(self.messages.pop("private/end", [])), LIMIT_S)
