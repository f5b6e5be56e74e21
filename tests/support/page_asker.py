"""Asks the page's application as a browser would, without a network; and over one, as little as it takes."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from starlette.types import ASGIApp, Message

LIMIT_S = 10.0


class Answer(NamedTuple):
    """What came back; names of headers in small letters."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode()


async def ask(
    app: ASGIApp,
    path: str,
    *,
    method: str = "GET",
    host: str = "127.0.0.1:8321",
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
    client: str = "127.0.0.1",
) -> Answer:
    """One request to an ASGI application."""
    asked = {"host": host, **(headers or {})}
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(name.lower().encode(), value.encode()) for name, value in asked.items()],
        "client": (client, 50_000),
        "server": ("127.0.0.1", 8321),
        "scheme": "http",
    }
    coming, went = [{"type": "http.request", "body": body}], list[Message]()

    async def receive() -> Message:
        return coming.pop() if coming else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        went.append(message)

    await app(scope, receive, send)
    known = {name.decode(): value.decode() for name, value in went[0]["headers"]}
    return Answer(went[0]["status"], known, b"".join(message.get("body", b"") for message in went[1:]))


class Line:
    """One connection to the server, that asks and reads events."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def ask(self, path: str) -> int:
        """Send a request; returns the answer's status, its headers read."""
        self.writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        return int(head.split()[1])

    async def event(self, name: str) -> dict[str, Any]:
        """The data of the next event of a name; others are passed over."""
        async with asyncio.timeout(LIMIT_S):
            while True:
                line = (await self.reader.readline()).decode()
                assert line, "the stream has ended"
                if line.strip() == f"event: {name}":
                    data = (await self.reader.readline()).decode().removeprefix("data: ")
                    found: dict[str, Any] = json.loads(data)
                    return found


@asynccontextmanager
async def line(port: int) -> AsyncIterator[Line]:
    """A connection, closed when the block ends."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Line(reader, writer)
    finally:
        writer.close()
