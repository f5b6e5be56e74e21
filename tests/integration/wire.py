"""The other ends of the wire: meters that send until they are answered, a receiver that keeps everything."""

import asyncio
import re
import socket
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from types import TracebackType
from typing import NamedTuple, Self

from aiomqtt import MqttError

from simulators.commands.replay import connect, lost
from tests.integration.plan import SOURCE_TOPIC, Reading
from tests.integration.service import PAUSE_S, until
from tests.support.broker import Server

LIMIT_S = 120.0
CHUNK = 100
"""Publications unanswered at once."""
_TIME = re.compile(rb'"t":"([^"]+)"')


class Publication(NamedTuple):
    """A reading on its way."""

    topic: str
    payload: bytes


def publication(meter: str, reading: Reading) -> Publication:
    """Return a meter's reading as a message."""
    return Publication(SOURCE_TOPIC.replace("{meter}", meter), reading.payload)


async def feed(url: str, messages: Sequence[Publication]) -> None:
    """Publish in order at QoS 1; repeat what was not answered, also when the broker goes away.

    The last messages that were answered before it went away are repeated as well: see `kills.kill_brokers`.
    """
    sent_count = 0
    while sent_count < len(messages):
        try:
            async with connect(url) as client, asyncio.TaskGroup() as tasks:
                watch = tasks.create_task(lost(client))
                while sent_count < len(messages):
                    chunk = messages[sent_count : sent_count + CHUNK]
                    await asyncio.gather(*(client.publish(*m, qos=1, timeout=LIMIT_S) for m in chunk))
                    sent_count += len(chunk)
                watch.cancel()
        except* MqttError:
            sent_count = max(0, sent_count - CHUNK)
            await asyncio.sleep(PAUSE_S)


class Receiver:
    """A subscriber to everything under `private/`, with a session that outlives it and the broker.

    `messages` holds every payload ever received, by topic, in order of arrival; `newest` the latest
    time of a record, by topic; `records` how many records were received, with repetitions.

    It speaks MQTT 3.1.1 by hand, because it must keep all that ever came to this machine: libraries
    stop reading when they cannot write, so what had come from a broker that was killed is lost.
    """

    def __init__(self, broker: Server, name: str = "receiver") -> None:
        self.messages: dict[str, list[bytes]] = defaultdict(list)
        self.connected = asyncio.Event()
        self.newest: dict[str, str] = {}
        self.records = 0
        self._port = broker.port
        self._hello = _packet(0x10, b"\0\4MQTT\4\0\0\0" + _text(name))  # the session stays, no keepalive
        self._hello += _packet(0x82, b"\0\1" + _text("private/#") + b"\1")
        self._task: asyncio.Task[None] | None = None

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
            with suppress(OSError):
                await self._listen()
            self.connected.clear()
            await asyncio.sleep(PAUSE_S)

    async def _listen(self) -> None:
        """Read until there is nothing left to read, whether what is written arrives or not."""
        loop, buffer = asyncio.get_running_loop(), bytearray()
        with socket.socket() as wire:
            wire.setblocking(False)
            wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await loop.sock_connect(wire, ("127.0.0.1", self._port))
            await loop.sock_sendall(wire, self._hello)
            while data := await loop.sock_recv(wire, 65_536):
                buffer += data
                answers = b"".join(self._take(kind, body) for kind, body in _packets(buffer))
                with suppress(OSError):
                    await loop.sock_sendall(wire, answers)

    def _take(self, kind: int, body: bytes) -> bytes:
        """Keep a message; returns its acknowledgement."""
        if kind == 0x90:
            self.connected.set()
        if kind & 0xF0 != 0x30:
            return b""
        start = 2 + int.from_bytes(body[:2], "big")
        topic, has_id = body[2:start].decode(), bool(kind & 6)
        payload = body[start + 2 * has_id :]
        self.messages[topic].append(payload)
        if match := _TIME.search(payload):
            self.newest[topic] = max(match[1].decode(), self.newest.get(topic, ""))
            self.records += 1
        return _packet(0x40, body[start : start + 2]) if has_id else b""

    async def more_than(self, records: int) -> None:
        """Wait until there have been more records."""
        await until(lambda: self.records > records, LIMIT_S)

    async def flush(self, url: str) -> None:
        """Wait until everything that the broker has taken by now is here."""
        await feed(url, [Publication("private/end", b"")])
        await until(lambda: bool(self.messages.pop("private/end", [])), LIMIT_S)


def _text(text: str) -> bytes:
    return len(text).to_bytes(2, "big") + text.encode()


def _packet(kind: int, body: bytes) -> bytes:
    """A packet of less than 128 bytes."""
    return bytes((kind, len(body))) + body


def _packets(buffer: bytearray) -> Iterator[tuple[int, bytes]]:
    """Take the whole packets out of a buffer: the first byte and the rest of each."""
    while len(buffer) > 1:
        end = next((at for at in range(1, min(len(buffer), 5)) if buffer[at] < 0x80), None)
        if end is None:
            return
        length = sum((byte & 0x7F) << 7 * at for at, byte in enumerate(buffer[1 : end + 1]))
        if len(buffer) < end + 1 + length:
            return
        kind, body = buffer[0], bytes(buffer[end + 1 : end + 1 + length])
        del buffer[: end + 1 + length]
        yield kind, body
