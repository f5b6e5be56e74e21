"""The page's server over real connections that hold it up, or that guess its token."""

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest
from starlette.requests import Request

from meteragent.agent.page import guard, server
from meteragent.agent.page import view as page
from tests.support.broker import free_port
from tests.support.page_asker import LIMIT_S, line
from tests.support.page_world import TOKEN, PageWorld

REQUEST = b"GET /login HTTP/1.1\r\nHost: localhost\r\n\r\n"
HEAD = b"GET /login HTTP/1.1\r\nHost: loc"
BODY = b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\ntoken="
FILE = b"GET /login HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


async def _healthy() -> tuple[int, str, bytes]:
    return 200, "text/plain", b"well\n"


@pytest.fixture
async def port() -> AsyncIterator[int]:
    """Where a page with a token and /healthz is served."""
    port = free_port()
    routes = (page.Route("/healthz", _healthy, is_open=True),)
    async with PageWorld().serving(port=port, routes=routes, token=TOKEN):
        yield port


async def healthz(port: int) -> int:
    """Return the status of /healthz, asked for on a new connection."""
    async with asyncio.timeout(LIMIT_S), line(port) as asking:
        return await asking.ask("/healthz")


@pytest.mark.parametrize("count", [64, 200])
@pytest.mark.parametrize("sent", [(), (HEAD,), (REQUEST, HEAD), (BODY,), (FILE,)])
async def test_who_holds_connections_keeps_nobody_out(port: int, count: int, sent: tuple[bytes, ...]) -> None:
    """/healthz answers beside 64 or 200 connections that are silent, half sent, or never read."""
    held = []
    try:
        for _ in range(count):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            held.append(writer)
            for data in sent:
                writer.write(data)
        for _ in range(3):
            assert await healthz(port) == 200
    finally:
        for writer in held:
            writer.close()


@pytest.mark.parametrize("sent", [(HEAD,), (REQUEST, HEAD), (REQUEST, REQUEST, HEAD)])
async def test_each_head_has_a_limit(
    port: int, sent: tuple[bytes, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection is dropped if the head of any request takes too long, not only that of the first."""
    monkeypatch.setattr(server, "PATIENCE_S", 0.2)
    async with line(port) as slow, asyncio.timeout(LIMIT_S):
        for data in sent[:-1]:
            slow.writer.write(data)
            assert b" 200 " in await slow.reader.readuntil(b"</html>")
        slow.writer.write(sent[-1])
        assert b"200" not in await slow.reader.read()


async def test_a_head_has_a_limit_after_a_late_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection is dropped even if the answer before the head took longer than a head may take."""
    monkeypatch.setattr(server, "PATIENCE_S", 0.2)

    async def late() -> tuple[int, str, bytes]:
        done, loop = asyncio.Event(), asyncio.get_running_loop()
        loop.call_later(2 * server.PATIENCE_S, done.set)
        await done.wait()
        return await _healthy()

    port, routes = free_port(), (page.Route("/late", late, is_open=True),)
    async with PageWorld().serving(port=port, routes=routes), line(port) as slow, asyncio.timeout(LIMIT_S):
        assert await slow.ask("/late") == 200
        slow.writer.write(HEAD)
        assert b"200" not in await slow.reader.read()


async def login(port: int, token: bytes) -> int:
    """Try a token on a new connection; return the status."""
    body = b"token=" + token
    async with line(port) as opened:
        head = f"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        opened.writer.write(head.encode() + body)
        return int((await opened.reader.readline()).split()[1])


async def test_a_thousand_guesses_are_one(
    port: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Of 1,000 guesses within a second one is compared, so even the token is refused; then it is taken.

    The log has their number, at most once a minute, and no token.
    """
    now_s = [1000.0]
    monkeypatch.setattr(guard, "monotonic", lambda: now_s[0])
    with caplog.at_level(logging.WARNING):
        assert await login(port, b"guess-0") == 403
        for number in range(1, 1001, 10):
            guesses = [login(port, b"guess-%d" % (number + index)) for index in range(10)]
            assert set(await asyncio.gather(*guesses)) == {429}
        assert await login(port, TOKEN) == 429
        assert await healthz(port) == 200
        now_s[0] += guard.GUESS_S
        assert await login(port, TOKEN) == 303
        now_s[0] += guard.LOG_S
        assert await login(port, b"another") == 403
    assert caplog.messages == [
        "page: tokens refused since the start: 1",
        "page: tokens refused since the start: 1003",
    ]


async def test_guesses_from_one_address_hold_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each address waits for its own guesses, and nothing is remembered of those that need not wait."""
    now_s = [1000.0]
    monkeypatch.setattr(guard, "monotonic", lambda: now_s[0])
    keys = guard.Login(TOKEN, b"")

    def compared(token: bytes, client: str) -> bool | None:
        return keys.matches(token, Request({"type": "http", "client": (client, 1), "headers": []}))

    assert compared(b"wrong", "192.0.2.1") is False
    assert compared(TOKEN, "192.0.2.1") is None
    assert compared(TOKEN, "192.0.2.2") is True
    for number in range(100):
        assert compared(b"wrong", f"2001:db8::{number:x}") is False
    now_s[0] += guard.GUESS_S
    assert compared(TOKEN, "192.0.2.1") is True
    assert not keys._waits
