"""A broker that follows a test's script packet by packet: it refuses, drops or stays silent."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import NamedTuple, Self

CONNECT, CONNACK, PUBLISH, PUBACK, SUBSCRIBE, SUBACK = 1, 2, 3, 4, 8, 9
UNSUBSCRIBE, PINGREQ, DISCONNECT = 10, 12, 14
TASK = "fake broker"
"""The name of the broker's tasks, which distinguishes them from tasks of the client under test."""


class Packet(NamedTuple):
    """A packet as received: its type, its flags and the bytes after the fixed header."""

    kind: int
    flags: int
    body: bytes


class Wire:
    """A connection as the broker sees it.

    `level` is 0 until CONNECT arrives, then 5, or 4 for MQTT 3.1.1.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.level = 0
        self.connect = b""

    async def packet(self) -> Packet:
        """Return the next packet. Raises IncompleteReadError at the end."""
        header = (await self.reader.readexactly(1))[0]
        size = shift = 0
        while True:
            byte = (await self.reader.readexactly(1))[0]
            size |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return Packet(header >> 4, header & 15, await self.reader.readexactly(size))

    async def expect(self, kind: int) -> bytes:
        """Return the body of the next packet; fails if the packet is of a different type."""
        packet = await self.packet()
        assert packet.kind == kind, f"expected type {kind}, got {packet}"
        return packet.body

    async def end(self) -> list[Packet]:
        """Return all packets until the client closes the connection."""
        packets = []
        try:
            while True:
                packets.append(await self.packet())
        except (asyncio.IncompleteReadError, ConnectionResetError):
            return packets

    async def hello(self) -> int:
        """Read CONNECT and return its protocol level."""
        self.connect = await self.expect(CONNECT)
        self.level = self.connect[6]
        return self.level

    async def accept(self, *, is_present: bool = False, properties: bytes = b"") -> None:
        """Read CONNECT and accept the connection."""
        await self.hello()
        self.send(self.connack(0, is_present=is_present, properties=properties))

    def send(self, data: bytes) -> None:
        """Send packets."""
        self.writer.write(data)

    def connack(self, reason: int, *, is_present: bool = False, properties: bytes = b"") -> bytes:
        """Return a CONNACK packet."""
        return _packet(CONNACK, 0, bytes([is_present, reason]) + self._properties(properties))

    def publish(
        self, packet_id: int, payload: bytes, topic: bytes = b"t", *, qos: int = 1, flags: int = 0
    ) -> bytes:
        """Return a PUBLISH packet; flags: 1 retained, 8 repeated."""
        number = packet_id.to_bytes(2) if qos else b""
        head = len(topic).to_bytes(2) + topic + number + self._properties(b"")
        return _packet(PUBLISH, flags | qos << 1, head + payload)

    def puback(self, packet_id: int, reason: int | None = None) -> bytes:
        """Return a PUBACK packet; without a reason, its short form."""
        return _packet(PUBACK, 0, packet_id.to_bytes(2) + (b"" if reason is None else bytes([reason])))

    def suback(self, packet_id: int, granted: int) -> bytes:
        """Return a SUBACK packet."""
        return _packet(SUBACK, 0, packet_id.to_bytes(2) + self._properties(b"") + bytes([granted]))

    def _properties(self, properties: bytes) -> bytes:
        return bytes([len(properties)]) + properties if self.level == 5 else b""


def packet_id(publication: bytes) -> int:
    """Return the packet id of a QoS 1 PUBLISH or of a SUBSCRIBE."""
    offset = 2 + int.from_bytes(publication[:2])
    return int.from_bytes(publication[offset : offset + 2])


def _packet(kind: int, flags: int, body: bytes) -> bytes:
    size, length = len(body), b""
    while True:
        size, low = divmod(size, 128)
        length += bytes([low | 128 if size else low])
        if not size:
            return bytes([kind << 4 | flags]) + length + body


Script = Callable[[Wire], Awaitable[None]]


class FakeBroker:
    """A broker that serves the n-th connection with the n-th script, then closes it.

    The last script serves all further connections. An exception in a script is raised when the `async with`
    block ends.
    """

    def __init__(self, *scripts: Script, tls: ssl.SSLContext | None = None) -> None:
        self.levels: list[int] = []
        self.url = ""
        self._scripts = scripts
        self._tls = tls
        self._connections = 0
        self._failures: list[Exception] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.set_name(TASK)
        self._tasks.add(task)
        script = self._scripts[min(self._connections, len(self._scripts) - 1)]
        self._connections += 1
        wire = Wire(reader, writer)
        try:
            await script(wire)
        except asyncio.CancelledError:
            pass
        except Exception as error:  # noqa: BLE001 -- raised by __aexit__
            self._failures.append(error)
        finally:
            self.levels.append(wire.level)
            writer.close()
            self._tasks.discard(task)

    def drop(self) -> None:
        """Close all connections."""
        for task in self._tasks:
            task.cancel()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        self.url = (
            f"{'mqtts' if self._tls else 'mqtt'}://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        self.drop()
        if self._tasks:
            await asyncio.wait(self._tasks)
        if kind is None and self._failures:
            raise self._failures[0]
