"""HTTP requests of a browser to the page, directly to its application or over a socket."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from starlette.types import ASGIApp, Message

LIMIT_S = 10.0


class Answer(NamedTuple):
    """A response; header names are in lower case."""

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
    """Send one request to an ASGI application and return the answer."""
    request_headers = {"host": host, **(headers or {})}
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(name.lower().encode(), value.encode()) for name, value in request_headers.items()],
        "client": (client, 50_000),
        "server": ("127.0.0.1", 8321),
        "scheme": "http",
    }
    incoming, sent_messages = [{"type": "http.request", "body": body}], list[Message]()

    async def receive() -> Message:
        """Return the request, then the end of the connection."""
        return incoming.pop() if incoming else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        """Keep a message of the answer."""
        sent_messages.append(message)

    await app(scope, receive, send)
    answer_headers = {name.decode(): value.decode() for name, value in sent_messages[0]["headers"]}
    return Answer(
        sent_messages[0]["status"],
        answer_headers,
        b"".join(message.get("body", b"") for message in sent_messages[1:]),
    )


class Line:
    """A connection to the server that sends requests and reads events."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def ask(self, path: str, headers: Mapping[str, str] | None = None) -> int:
        """Send a request, read the headers of the answer, and return its status."""
        lines = [f"{name}: {value}\r\n" for name, value in (headers or {}).items()]
        self.writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{''.join(lines)}\r\n".encode())
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        return int(head.split()[1])

    async def event(self, name: str) -> dict[str, Any]:
        """Return the data of the next event named `name`; skip other events."""
        async with asyncio.timeout(LIMIT_S):
            while True:
                line = (await self.reader.readline()).decode()
                assert line, "the stream has ended"
                if line.strip() == f"event: {name}":
                    data = (await self.reader.readline()).decode().removeprefix("data: ")
                    event: dict[str, Any] = json.loads(data)
                    return event


@asynccontextmanager
async def line(port: int) -> AsyncIterator[Line]:
    """Open a connection, closed when the block ends."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Line(reader, writer)
    finally:
        writer.close()
