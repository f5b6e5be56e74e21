"""The page's server over real connections: meteragent.agent.page.serve."""

import asyncio
import json
import logging
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack

import pytest

from meteragent.agent import page
from meteragent.agent.page import app, server, view
from meteragent.agent.viewers import VIEWERS_MAX, Viewer, Viewers
from meteragent.core.arrivals import ArrivalRow
from meteragent.domain.errors import ConfigError, PageError
from meteragent.domain.problem import PROBLEMS, make_problem
from tests.support.broker import free_port
from tests.support.page_asker import LIMIT_S, Line, ask, line
from tests.support.page_world import START_MS, TOKEN, PageWorld, delivered

STEP_MS = 1_800_000


class Noted(Viewers):
    """Viewers that report when one of them has left."""

    def __init__(self) -> None:
        super().__init__()
        self.left = asyncio.Event()

    def remove_viewer(self, viewer: Viewer) -> None:
        """Leave as usual, and report it."""
        super().remove_viewer(viewer)
        self.left.set()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let events come at once, and a glance every 10 ms."""
    monkeypatch.setattr(app, "GATHER_S", 0.0)
    monkeypatch.setattr(app, "STATE_S", 0.01)
    return iter([None])


@pytest.fixture
def port() -> int:
    """Where the page is served."""
    return free_port()


@pytest.fixture
async def world() -> PageWorld:
    """A stream with one meter."""
    made = PageWorld()
    made.viewers = Noted()
    return made


@pytest.fixture
async def open_page(world: PageWorld, port: int) -> AsyncIterator[Line]:
    """A page that has received its history."""
    async with world.serving(port=port), line(port) as opened:
        assert await opened.ask("/events") == 200
        await opened.event("start")
        yield opened


async def test_an_open_page_is_told_what_happens(world: PageWorld, open_page: Line) -> None:
    """Readings and records of the meter on the page come as they happen, and those of no other meter."""
    world.read(100.5, START_MS)
    world.read(999, START_MS, meter="other")
    assert (await open_page.event("news"))["readings"] == [[START_MS, 100.5]]
    payload = world.release(START_MS, 512)
    world.release(START_MS, 999, meter="other")
    news = await open_page.event("news")
    means = news.pop("means")
    assert news == {"readings": [], "records": [payload.decode()], "missed": 0}
    assert set(means[0]) == {"from_ms", "to_ms", "band", "power", "part"}


async def test_it_is_told_what_left_before(world: PageWorld, port: int) -> None:
    """First come where the meter's records go, and the latest of them, verbatim."""
    world.history = [world.record(START_MS, 7), world.record(START_MS + 1, 8)]
    async with world.serving(port=port), line(port) as opened:
        assert await opened.ask("/events?stream=main&meter=house") == 200
        assert await opened.event("start") == {
            "topic": "private/house/power",
            "records": [payload.decode() for payload in world.history],
            "means": [],
        }


async def test_no_reading_from_before_it_was_opened(world: PageWorld, port: int) -> None:
    """A reading from before a page was opened, or after it was closed, is nowhere."""
    async with world.serving(port=port):
        world.read(100, START_MS)
        for time_ms in (START_MS + 1, START_MS + 2):
            async with line(port) as opened:
                await opened.ask("/events")
                await opened.event("start")
                world.read(200, time_ms)
                assert (await opened.event("news"))["readings"] == [[time_ms, 200]]
            await gone(world)
            world.read(300, START_MS)


async def test_a_reload_shows_what_was_measured(world: PageWorld, port: int) -> None:
    """A page that is opened again gets the means of the slots since the first visit, in its first event."""
    first_ms = START_MS // STEP_MS * STEP_MS
    async with world.serving(port=port):
        async with line(port) as opened:
            await opened.ask("/events")
            await opened.event("start")
            for minute in range(30):
                world.read(400, first_ms + minute * 60_000)
        await gone(world)
        for minute in range(30, 61):
            world.read(600, first_ms + minute * 60_000)
        async with line(port) as again:
            await again.ask("/events")
            means = (await again.event("start"))["means"]
    whole = [(mean["from_ms"], mean["power"]) for mean in means if mean["part"] == 1]
    assert whole == [(first_ms, 400), (first_ms + STEP_MS, 600)]


async def gone(world: PageWorld) -> None:
    """Wait until the last viewer has left."""
    viewers = world.viewers
    assert isinstance(viewers, Noted)
    async with asyncio.timeout(LIMIT_S):
        while viewers:
            viewers.left.clear()
            await viewers.left.wait()


async def test_a_glance_says_how_things_stand(world: PageWorld, open_page: Line) -> None:
    """The privacy spent comes as a level and exactly, with the last message, health and counters."""
    world.counts.add("accepted", 3)
    payload = world.record(START_MS, 512)
    world.last = delivered("private/house/power", payload, START_MS + 9)
    async with asyncio.timeout(LIMIT_S):
        while (glance := await open_page.event("glance"))["last"] is None:
            pass
    assert glance["spent"]["today"] == {"epsilon": 7 / 220, "exact": "7/220", "level": 7.0}
    assert list(glance["spent"]) == ["today", "month", "start"]
    assert glance["last"]["payload"] == payload.decode()
    assert glance["last"]["left_ms"] == START_MS + 9
    assert glance["health"] == {"outbox": 0, "lag_ms": None, "source": True, "sink": True, "clock": True}
    assert glance["counts"]["accepted"] == 3


async def test_what_arrives_is_told_of_each_meter(world: PageWorld, port: int) -> None:
    """Each meter and phase comes with its judgement: with the facts, and with every glance."""
    world.arrivals = (ArrivalRow("house", "b", 41, 90_000, None, "wrong_profile"),)
    row = {"meter": "house", "phase": "b", "messages": 41, "heard_ago_ms": 90_000, "counted_ago_ms": None}
    at = app.build_application(view.Settings(), world.view, world.viewers, [])
    [stream] = json.loads((await ask(at, "/facts.json")).body)["streams"]
    assert stream["arrivals"] == [row | {"code": "wrong_profile"}]
    async with world.serving(port=port), line(port) as opened:
        await opened.ask("/events")
        assert (await opened.event("glance"))["arrivals"] == stream["arrivals"]


async def test_problems_are_told_with_what_to_do(world: PageWorld, port: int) -> None:
    """Problems come with the facts, even while no meter is known, and with every glance."""
    told = {"code": "sink_down", "text": "stream main: no connection to the broker of the sink"}
    told["cure"] = PROBLEMS["sink_down"].cure
    at = app.build_application(view.Settings(), world.view, world.viewers, [])
    assert json.loads((await ask(at, "/facts.json")).body)["problems"] == []
    world.problems = [make_problem("sink_down", "main")]
    assert json.loads((await ask(at, "/facts.json")).body)["problems"] == [told]
    async with world.serving(port=port), line(port) as opened:
        assert await opened.ask("/events") == 200
        assert (await opened.event("glance"))["problems"] == [told]


async def test_new_meters_are_told(world: PageWorld, open_page: Line) -> None:
    """The meters to choose from come with the first glance and whenever they change."""
    assert (await open_page.event("glance"))["meters"] == ["house"]
    assert "meters" not in await open_page.event("glance")
    world.meters.append("barn")
    async with asyncio.timeout(LIMIT_S):
        while "meters" not in (glance := await open_page.event("glance")):
            pass
    assert glance["meters"] == ["barn", "house"]


async def test_who_vanishes_leaves_nothing(
    world: PageWorld, port: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A page whose connection breaks leaves no viewer, no task and no line in a log."""
    async with world.serving(port=port):
        tasks = asyncio.all_tasks()
        with caplog.at_level(logging.DEBUG):
            async with line(port) as opened:
                await opened.ask("/events")
                await opened.event("start")
                assert world.viewers
                reset = opened.writer.get_extra_info("socket")
                reset.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # no goodbye
            await gone(world)
            world.read(100, START_MS)
            world.release(START_MS, 1)
            glances = world.glances
            await asyncio.gather(*(asyncio.all_tasks() - tasks))
        assert asyncio.all_tasks() == tasks
        assert world.glances == glances
        assert caplog.records == []


async def test_who_does_not_read_is_dropped(
    world: PageWorld, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that reads nothing is dropped in time, however much there is to send."""
    monkeypatch.setattr(server, "PATIENCE_S", 0.2)
    async with world.serving(port=port):
        stuck = socket.create_connection(("127.0.0.1", port))
        stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        stuck.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        async with line(port) as other, asyncio.timeout(LIMIT_S):
            await other.ask("/events")
            while len(world.viewers._open) < 2:
                await other.event("glance")
            while len(world.viewers._open) == 2:
                for time_ms in range(1000):
                    world.read(100, time_ms)
                await other.event("news")
            assert world.viewers._open
        stuck.close()


async def test_a_login_that_breaks_off_is_nothing(
    world: PageWorld, port: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A login that takes too long is refused; one that breaks off is forgotten; neither is logged."""
    monkeypatch.setattr(app, "BODY_TIMEOUT_S", 0.01)
    head = b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\ntoken="
    async with world.serving(port=port, token=TOKEN):
        async with line(port) as slow, asyncio.timeout(LIMIT_S):
            slow.writer.write(head)
            assert b" 403 " in await slow.reader.readline()
        tasks = asyncio.all_tasks()
        async with line(port) as broken:
            broken.writer.write(head)
        async with line(port) as other:
            assert await other.ask("/login") == 200
        await asyncio.gather(*(asyncio.all_tasks() - tasks))
    assert caplog.records == []


async def test_pages_open_at_once_are_bounded(world: PageWorld, port: int) -> None:
    """A page beyond the limit is refused with the reason."""
    async with world.serving(port=port), AsyncExitStack() as stack:
        opened = [await stack.enter_async_context(line(port)) for _ in range(VIEWERS_MAX + 1)]
        for item in opened[:-1]:
            await item.ask("/events")
            await item.event("start")
        await opened[-1].ask("/events")
        assert await opened[-1].event("full") == {}


async def test_what_is_not_there_is_not_found(world: PageWorld, port: int) -> None:
    """An unknown stream, meter or file is not found."""
    async with world.serving(port=port):
        for path in ("/events?stream=no", "/events?meter=no", "/static/no.js", "/static/../view.py", "/no"):
            async with line(port) as asking:
                assert await asking.ask(path) == 404
        world.meters.clear()
        async with line(port) as asking:
            assert await asking.ask("/events") == 404


async def test_a_stop_ends_open_pages(world: PageWorld, port: int) -> None:
    """A stop ends open pages at once, and continues as a stop."""
    async with world.serving(port=port) as task, line(port) as opened:
        await opened.ask("/events")
        await opened.event("start")
        task.cancel()
        async with asyncio.timeout(server.GRACE_S):
            await asyncio.wait({task})
        assert task.cancelled()
        assert not world.viewers
        assert b"news" not in await opened.reader.read()


@pytest.mark.parametrize(("host", "shown"), [("localhost", "localhost"), ("::1", "[::1]")])
async def test_the_address_of_the_page_is_logged(
    world: PageWorld, port: int, host: str, shown: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A browser on this machine opens it as it stands."""
    with caplog.at_level(logging.INFO, "meteragent"):
        async with world.serving(host=host, port=port):
            assert f"page: http://{shown}:{port}" in caplog.messages


async def test_a_taken_port_is_named(world: PageWorld, port: int, caplog: pytest.LogCaptureFixture) -> None:
    """A port that is taken, and a name that is not an address, are reported with their key, not logged."""
    async with world.serving(port=port):
        caplog.set_level(logging.INFO, "meteragent")
        caplog.clear()
        with pytest.raises(PageError, match=rf"page\.listen: 127\.0\.0\.1:{port}: address already in use"):
            await page.serve(view.Settings(port=port), world.view, world.viewers)
    for host in ("no.such.invalid", "192.0.2.1"):
        with pytest.raises(ConfigError, match=rf"page\.listen: found {host}; expected an address"):
            await page.serve(view.Settings(host=host, token=b"x" * 16), world.view, world.viewers)
    assert not caplog.messages


async def test_connections_are_bounded(world: PageWorld, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection beyond the limit is closed at once."""
    monkeypatch.setattr(server, "CONNECTIONS_MAX", 1)
    async with world.serving(port=port), line(port) as first:
        await first.ask("/events")
        await first.event("start")
        async with line(port) as second:
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await second.ask("/")


async def test_a_silent_connection_is_closed(
    world: PageWorld, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection without a request is closed in time."""
    monkeypatch.setattr(server, "PATIENCE_S", 0.01)
    async with world.serving(port=port), line(port) as silent, asyncio.timeout(LIMIT_S):
        silent.writer.write(b"GET / HTTP/1.1\r\n")
        assert await silent.reader.read() == b""


async def test_a_page_without_viewers_does_nothing(world: PageWorld, port: int) -> None:
    """While nobody looks, the server has no timer running: it waits for a connection and nothing else."""
    async with world.serving(port=port) as task:
        async with line(port) as opened:
            await opened.ask("/events")
            await opened.event("start")
        await gone(world)
        loop = asyncio.get_running_loop()
        scheduled = [timer for timer in loop._scheduled if not timer.cancelled()]  # type: ignore[attr-defined]
        assert [timer for timer in scheduled if "uvicorn" in repr(timer) or "page" in repr(timer)] == []
        assert not task.done()


async def test_without_the_extra_it_says_so(world: PageWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """If Starlette or uvicorn is missing, `[page]` is refused with the command that installs it."""
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "meteragent.agent.page.server", raising=False)
    with pytest.raises(ConfigError, match=r"pip install '\.\[page\]'"):
        await page.serve(view.Settings(), world.view, world.viewers)


async def test_the_page_speaks_its_reader_s_language(world: PageWorld, port: int) -> None:
    """HTML, texts, facts, problems and the login are in the language that each browser prefers."""
    at = app.build_application(view.Settings(), world.view, world.viewers, ())
    world.problems = [make_problem("source_down", "main")]
    german = {"accept-language": "de-DE,de;q=0.9,en;q=0.8"}
    texts = (
        ("Keine Verbindung zum Broker der Quelle", "Das ist nicht das Token.", "Warten Sie eine Sekunde."),
        ("no connection to the broker of the source", "That is not the token.", "wait a second."),
    )
    for headers, language, promise, (cause, wrong, wait) in (
        (german, "de", "Verborgen", texts[0]),
        ({}, "en", "Hidden", texts[1]),
    ):
        assert f'<html lang="{language}">' in (await ask(at, "/", headers=headers)).text
        assert json.loads((await ask(at, "/texts.json", headers=headers)).body)["lang"] == language
        facts = json.loads((await ask(at, "/facts.json", headers=headers)).body)
        assert facts["streams"][0]["own"]["said"]["promise"][0].startswith(promise)
        assert cause in facts["problems"][0]["text"]
        locked = app.build_application(view.Settings(token=TOKEN), world.view, world.viewers, ())
        for status, text in ((403, wrong), (429, wait)):
            answer = await ask(locked, "/login", method="POST", headers=headers, body=b"token=x")
            assert (answer.status, text in answer.text) == (status, True)
    async with world.serving(port=port), line(port) as opened:
        assert await opened.ask("/events", german) == 200
        assert "Keine Verbindung" in (await opened.event("glance"))["problems"][0]["text"]
