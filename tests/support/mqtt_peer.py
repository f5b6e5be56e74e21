"""`keep_connected` run as a task that records its callbacks, for the tests of meteragent.mqtt."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, NamedTuple, NoReturn, TypeVar

from meteragent.mqtt import Endpoint, Entropy, Link, Session, Token, keep_connected
from meteragent.mqtt.link import Version
from tests.support.fake_broker import TASK

T = TypeVar("T")

LIMIT_S = 15.0
"""The longest time that a test waits, in s."""


class Got(NamedTuple):
    """The arguments of one call of `on_message`."""

    topic: str
    payload: bytes
    qos: int
    retain: bool
    token: Token | None


def token(got: Got) -> Token:
    """Return the token of a QoS 1 message."""
    assert got.token is not None
    return got.token


async def closed(session: Session) -> NoReturn:
    """Wait until a session ends, then raise the reason."""
    await asyncio.shield(session._session_end)
    raise session._end_reason


class Peer(logging.Handler):
    """A client under test: its log, sessions, messages, deliveries and counts, in order of arrival."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.log: asyncio.Queue[str] = asyncio.Queue()
        self.sessions: asyncio.Queue[Session] = asyncio.Queue()
        self.messages: asyncio.Queue[Got] = asyncio.Queue()
        self.delivered: asyncio.Queue[tuple[int, int]] = asyncio.Queue()
        self.counts: list[str] = []
        self.task: asyncio.Task[Any]

    def emit(self, record: logging.LogRecord) -> None:
        """Record a line of the log."""
        self.log.put_nowait(record.getMessage())

    async def serve(self, session: Session) -> None:
        """Record the session of a new connection."""
        self.sessions.put_nowait(session)

    def on_message(self, topic: str, payload: bytes, qos: int, retain: bool, token: Token | None) -> None:
        """Record a message."""
        self.messages.put_nowait(Got(topic, payload, qos, retain, token))

    def on_delivered(self, packet_id: int, reason: int) -> None:
        """Record an answered publication."""
        self.delivered.put_nowait((packet_id, reason))

    async def session(self) -> Session:
        """Return the next session."""
        return await soon(self.sessions.get())

    async def get(self, count: int) -> list[Got]:
        """Return the next messages."""
        return [await soon(self.messages.get()) for _ in range(count)]

    async def warned(self) -> str:
        """Return the next line of the log, which says why a connection ended or could not be made."""
        return await soon(self.log.get())

    async def failure(self) -> BaseException | None:
        """Return the exception that `keep_connected` raised, once it has ended."""
        await asyncio.wait({self.task}, timeout=LIMIT_S)
        assert self.task.done()
        return self.task.exception()


async def soon(result: Awaitable[T]) -> T:
    """Return the result. Raises TimeoutError after LIMIT_S."""
    async with asyncio.timeout(LIMIT_S):
        return await result


def hasty(size: int) -> bytes:
    """Return bytes that make the random pauses short: 1/64 of their maximum."""
    return b"\4" + bytes(size - 1)


@asynccontextmanager
async def connected(
    url: str,
    *,
    version: Version = "auto",
    client_id: str = "meteragent-test",
    credentials: dict[str, Any] | None = None,
    serve: Callable[[Session], Awaitable[None]] | None = None,
    entropy: Entropy = hasty,
    keeps_order: bool = False,
    **options: Any,
) -> AsyncIterator[Peer]:
    """Run `keep_connected` on a link with `options` until the block ends.

    Then check that it has left no task and no unhandled exception.
    """
    peer, complaints, loop = Peer(), [], asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: complaints.append(context))
    tasks = asyncio.all_tasks()
    endpoint = replace(Endpoint.parse(url), version=version, keeps_order=keeps_order, **(credentials or {}))
    callbacks: dict[str, Any] = {
        "on_message": peer.on_message,
        "on_delivered": peer.on_delivered,
        "count": peer.counts.append,
    }
    link = Link(endpoint, client_id, **(callbacks | options))
    peer.task = asyncio.create_task(keep_connected(link, serve or peer.serve, entropy))
    log = logging.getLogger("meteragent.mqtt")
    log.addHandler(peer)
    try:
        yield peer
    finally:
        log.removeHandler(peer)
        peer.task.cancel()
        await asyncio.wait({peer.task})
        if not peer.task.cancelled():
            peer.task.exception()
    await turns(3)
    assert not {task for task in asyncio.all_tasks() - tasks if task.get_name() != TASK}
    assert not complaints


async def turns(count: int) -> None:
    """Let the event loop run `count` times, so that callbacks scheduled at a connection's end run."""
    for _ in range(count):
        turn = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(turn.set_result, None)
        await turn
