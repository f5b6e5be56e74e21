"""A TCP proxy that does to connections what networks do; a test says what, while it runs."""

import asyncio
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Literal, Self

Direction = Literal["up", "down"]
"""To the broker, or from it."""

_BYTES = 65_536


@dataclass(slots=True, eq=False)
class _Pipe:
    """One connection: its two ends, and which directions are dead."""

    client: asyncio.StreamWriter
    broker: asyncio.StreamWriter
    dead: set[Direction] = field(default_factory=set)

    @property
    def ends(self) -> tuple[asyncio.StreamWriter, asyncio.StreamWriter]:
        """The writers of both ends."""
        return self.client, self.broker


class Proxy:
    """Between a client and the broker at a port of the loopback; it passes everything until told otherwise.

    cut(reset)         end all connections, in order (FIN) or rudely (RST)
    stall()            take connections and bytes, pass nothing on until `flow`
    half_open(way)     one direction of the present connections is dead for ever: no byte, no FIN
    drip(pause_s)      byte by byte, with a pause after each, until `flow`
    refuse()           end all connections and take no new ones until `flow`
    flow()             pass everything again
    """

    def __init__(self, broker_port: int) -> None:
        self.port = 0
        self.connections = 0
        self._broker_port = broker_port
        self._pipes: set[_Pipe] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._open = asyncio.Event()
        self._pause_s: float | None = None
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"mqtt://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        await self.flow()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.refuse()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def flow(self) -> None:
        """Pass everything, and what was held back."""
        self._pause_s = None
        self._open.set()
        if self._server is None:
            self._server = await asyncio.start_server(self._take, "127.0.0.1", self.port)
            self.port = self._server.sockets[0].getsockname()[1]

    def stall(self) -> None:
        """Pass nothing on."""
        self._open.clear()

    def drip(self, pause_s: float) -> None:
        """Pass byte by byte."""
        self._pause_s = pause_s

    def half_open(self, direction: Direction) -> None:
        """Drop one direction of the present connections, including their end."""
        for pipe in self._pipes:
            pipe.dead.add(direction)

    def cut(self, *, resets: bool = False) -> None:
        """End all connections."""
        for pipe in list(self._pipes):
            for end in pipe.ends:
                if resets:
                    wire: socket.socket = end.get_extra_info("socket")
                    wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    end.transport.abort()
                else:
                    end.close()

    async def refuse(self) -> None:
        """End all connections, and listen no more."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self.cut(resets=True)

    def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        """Serve one connection until it ends."""
        try:
            answers, broker = await asyncio.open_connection("127.0.0.1", self._broker_port)
        except OSError:
            client.close()
            return
        pipe = _Pipe(client, broker)
        for end in pipe.ends:
            end.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._pipes.add(pipe)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._pass("up", reader, broker, pipe))
                tasks.create_task(self._pass("down", answers, client, pipe))
        finally:
            self._pipes.discard(pipe)
            for end in pipe.ends:
                end.close()

    async def _pass(
        self, direction: Direction, source: asyncio.StreamReader, target: asyncio.StreamWriter, pipe: _Pipe
    ) -> None:
        """Pass on the bytes of one direction, and their end."""
        with suppress(OSError):
            while data := await source.read(_BYTES):
                await self._open.wait()
                for piece in (
                    [data] if self._pause_s is None else [data[at : at + 1] for at in range(len(data))]
                ):
                    if direction not in pipe.dead:
                        target.write(piece)
                        await target.drain()
                    if self._pause_s is not None:
                        await asyncio.sleep(self._pause_s)
        await self._open.wait()
        if direction not in pipe.dead:
            with suppress(OSError):
                target.close()
