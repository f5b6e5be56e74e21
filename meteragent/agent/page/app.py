"""The page's answers: the page itself, its files, its facts, and the events of an open one."""

import asyncio
import contextlib
import html
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from urllib.parse import parse_qs

from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route as At
from starlette.routing import Router
from starlette.types import ASGIApp, Receive, Scope, Send

from meteragent.agent.page import say
from meteragent.agent.page.guard import COOKIE, LOGIN, Guard, Keys
from meteragent.agent.page.view import Promises, Route, Settings, StreamView, View
from meteragent.agent.page.viewers import Full, Viewer, Viewers

GATHER_S = 0.2
"""Readings of so long go into one event."""
GLANCE_S = 2.0
"""How often a page is told how things stand."""
RETRY = b"retry: 1000\n\n"
"""How soon, in ms, a browser asks again when the agent was away."""
BODY_LIMIT = 1024
BODY_S = 10.0
"""How large a login may be, and how long it may take to arrive."""
HISTORY = 200
"""Records from before the page was opened that it is shown."""

_EVENTS = "text/event-stream"
_FOLDER = Path(__file__).parent
_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", "": "text/plain"}


def application(settings: Settings, view: View, viewers: Viewers, routes: Sequence[Route]) -> ASGIApp:
    """The whole of what is answered, behind its guard."""
    keys = Keys(settings.token)
    paths = [*_Page(view, viewers, keys).routes, *(At(each.path, _plain(each, keys)) for each in routes)]
    return Guard(Router(paths, redirect_slashes=False), settings, keys, routes)


def _plain(route: Route, keys: Keys) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        status, kind, body = await route.answer()
        if not keys.bears(request):
            return PlainTextResponse("Send the token for more.\n", status)
        return Response(body, status, media_type=kind)

    return answer


class _Page:
    """What the page's own paths answer; files and texts are read once."""

    def __init__(self, view: View, viewers: Viewers, keys: Keys) -> None:
        self._view = view
        self._viewers = viewers
        self._keys = keys
        self._promises: list[Promises] | None = None
        self._texts = (_FOLDER / "texts" / "en.json").read_bytes()
        self._words: Mapping[str, str] = json.loads(self._texts)
        self._files = {
            path.relative_to(_FOLDER / "static").as_posix(): (path.read_bytes(), _TYPES.get(path.suffix))
            for path in (_FOLDER / "static").rglob("*")
            if path.is_file() and path.suffix in _TYPES
        }

    @property
    def routes(self) -> list[At]:
        """Paths and what answers them."""
        return [
            At("/", self._front),
            At(LOGIN, self._login, methods=["GET"]),
            At(LOGIN, self._enter, methods=["POST"]),
            At("/texts.json", self._texts_file),
            At("/facts.json", self._facts),
            At("/events", self._events),
            At("/static/{name:path}", self._file),
        ]

    async def _front(self, _: Request) -> Response:
        return self._written("index.html")

    async def _login(self, _: Request) -> Response:
        return self._written("login.html", wrong="")

    async def _enter(self, request: Request) -> Response:
        """Take a token; its cookie, or the form again."""
        form = parse_qs((await _body(request)).decode("utf-8", "replace"))
        if not self._keys.fits(form.get("token", [""])[0].encode()):
            return self._written("login.html", 403, wrong=self._words["login.wrong"])
        answer = RedirectResponse("/", 303)
        answer.set_cookie(COOKIE, self._keys.cookie, httponly=True, samesite="strict", path="/")
        return answer

    async def _texts_file(self, _: Request) -> Response:
        return Response(self._texts, media_type="application/json")

    async def _facts(self, _: Request) -> Response:
        """What is promised takes a moment to work out, the first time, which nobody else waits for."""
        told = say.facts(self._view.streams, await self._promised(), await self._view.problems())
        return Response(told, media_type="application/json")

    async def _promised(self) -> list[Promises]:
        """Return what is promised of each stream, worked out once."""
        if self._promises is None:
            streams = self._view.streams
            self._promises = await asyncio.to_thread(lambda: [stream.promises() for stream in streams])
        return self._promises

    async def _file(self, request: Request) -> Response:
        found = self._files.get(request.path_params["name"])
        if found is None:
            return PlainTextResponse("There is no such file.\n", 404)
        body, kind = found
        return Response(body, media_type=kind)

    async def _events(self, request: Request) -> Response:
        """The events of a stream's meter: the one that is asked for, else the first that is known."""
        name = request.query_params.get("stream")
        stream = next((each for each in self._view.streams if name in {None, each.name}), None)
        if stream is None:
            return PlainTextResponse("There is no such stream.\n", 404)
        meter = request.query_params.get("meter") or min(stream.meters(), default="")
        if meter not in stream.meters():
            return PlainTextResponse("There is no such meter yet.\n", 404)
        try:
            schedules = (await self._promised())[self._view.streams.index(stream)].schedules
            viewer = self._viewers.enter(stream.name, meter, stream.topic(meter), schedules)
        except Full:
            return Response(say.event("full", {}), media_type=_EVENTS)
        return _Stream(self._viewers, viewer, self._tell(stream, viewer))

    async def _tell(self, stream: StreamView, viewer: Viewer) -> AsyncIterator[bytes]:
        """What an open page is sent, until it is closed or the server stops."""
        history = await self._view.left(stream.name, viewer.topic, HISTORY)
        yield RETRY + say.event("start", say.start(viewer, history))
        loop = asyncio.get_running_loop()
        glance_at = loop.time()
        meters: list[str] = []
        while not viewer.over:
            if loop.time() >= glance_at:
                glance_at = loop.time() + GLANCE_S
                meters, before = say.meters(stream), meters
                glance = await self._view.glance(stream.name, viewer.meter)
                told = say.glance(glance, stream.terms, self._view.counts)
                told["problems"] = say.wrong(await self._view.problems())
                yield say.event("glance", told | ({} if meters == before else {"meters": meters}))
            await viewer.wait(glance_at - loop.time())
            if not viewer.over:
                await asyncio.sleep(GATHER_S)
            news = viewer.take()
            if news.readings or news.records:
                yield say.event("news", say.news(news))

    def _written(self, name: str, status: int = 200, **more: str) -> Response:
        """A file of HTML with its texts in their places."""
        words = {**self._words, **more}
        text = (_FOLDER / "static" / name).read_text(encoding="utf-8")
        filled = re.sub(r"\{\{([\w.]+)\}\}", lambda match: html.escape(words[match[1]]), text)
        return Response(filled, status, media_type="text/html")


class _Stream(StreamingResponse):
    """The events of one viewer, who is gone when the answer has ended, however it ends."""

    def __init__(self, viewers: Viewers, viewer: Viewer, events: AsyncIterator[bytes]) -> None:
        super().__init__(events, media_type=_EVENTS)
        self._viewers = viewers
        self._viewer = viewer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Tell until it ends."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._viewers.leave(self._viewer)


async def _body(request: Request) -> bytes:
    """A small body; of what is larger, slower or breaks off, nothing."""
    body = b""
    with contextlib.suppress(TimeoutError, ClientDisconnect):
        async with asyncio.timeout(BODY_S):
            async for part in request.stream():
                body += part
                if len(body) > BODY_LIMIT:
                    return b""
        return body
    return b""
