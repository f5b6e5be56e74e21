"""The responses of the page's server: page, login, files, texts, facts, history, events, actions, routes."""

import asyncio
import contextlib
import hmac
import html
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route as At
from starlette.routing import Router
from starlette.types import ASGIApp, Receive, Scope, Send

from meteragent.agent.page import serialise
from meteragent.agent.page.guard import COOKIE, LOGIN_PATH, Guard, Login
from meteragent.agent.page.view import Route, Settings, StreamView, View
from meteragent.agent.viewers import TooManyViewers, Viewer, Viewers
from meteragent.report.language import language_of_reader, use_language
from meteragent.store.grants import last_id
from meteragent.texts import read_texts

GATHER_S = 0.2
"""How long readings and records are collected into one event."""
STATE_S = 2.0
"""The shortest time between two `glance` events of an open page."""
RETRY = b"retry: 1000\n\n"
"""The instruction to a browser to wait for 1,000 ms before it reconnects."""
BODY_LIMIT = 1024
"""The largest size of the body of a request, except a draft, in bytes."""
DRAFT_LIMIT = 65_536
"""The largest size of a draft of the configuration, as JSON, in bytes."""
BODY_TIMEOUT_S = 10.0
"""The time within which the body of a request must arrive."""
HISTORY_MAX = 200
"""The largest number of earlier records that a newly opened page shows."""

_EVENTS = "text/event-stream"
_STATIC = Path(__file__).parent / "static"
_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


def build_application(settings: Settings, view: View, viewers: Viewers, routes: Sequence[Route]) -> ASGIApp:
    """Build the application: the page and the routes, behind the guard."""
    login = Login(settings.token, settings.key)
    paths = [
        *_Page(view, viewers, login, has_actions=settings.has_actions).routes,
        *(At(route.path, _endpoint(route, login)) for route in routes),
    ]
    return Guard(Router(paths, redirect_slashes=False), settings, login, routes)


def _endpoint(route: Route, login: Login) -> Callable[[Request], Awaitable[Response]]:
    """Return a route's endpoint; it answers a request without the token only with the status."""

    async def answer(request: Request) -> Response:
        """Answer a request."""
        status, kind, body = await route.answer()
        if not login.has_token(request):
            return PlainTextResponse("Send the token to see more.\n", status)
        return Response(body, status, media_type=kind)

    return answer


class _Page:
    """Responses for the page's paths; scripts, styles and images are read once."""

    def __init__(self, view: View, viewers: Viewers, login: Login, *, has_actions: bool) -> None:
        self._has_actions = has_actions
        self._known_id = last_id(view.actions)
        self._view = view
        self._viewers = viewers
        self._login = login
        self._slow_lock = asyncio.Lock()
        paths = [path for path in _STATIC.iterdir() if path.suffix in _TYPES]
        self._files = {path.name: (path.read_bytes(), _TYPES[path.suffix]) for path in paths}

    @property
    def routes(self) -> list[At]:
        """The paths and their endpoints."""
        return [
            At("/", self._show_front),
            At(LOGIN_PATH, self._show_login, methods=["GET"]),
            At(LOGIN_PATH, self._log_in, methods=["POST"]),
            At("/texts.json", self._texts_file),
            At("/facts.json", self._facts),
            At("/events", self._events),
            At("/history.json", self._history),
            At("/static/{name}", self._file),
            At("/receivers", self._act, methods=["POST"]),
            At("/draft", self._draft, methods=["POST"]),
        ]

    async def _show_front(self, request: Request) -> Response:
        return _html("index.html", _texts(request))

    async def _show_login(self, request: Request) -> Response:
        return _html("login.html", {**_texts(request), "wrong": ""})

    async def _log_in(self, request: Request) -> Response:
        """Check a token; answer with the cookie of a login, or show the form again."""
        form = parse_qs((await _body(request, BODY_LIMIT)).decode("utf-8", "replace"))
        is_right = self._login.matches(form.get("token", [""])[0].encode(), request)
        if not is_right:
            texts = _texts(request)
            reason, status = ("login.wait", 429) if is_right is None else ("login.wrong", 403)
            return _html("login.html", {**texts, "wrong": texts[reason]}, status)
        answer = RedirectResponse("/", 303)
        answer.set_cookie(COOKIE, self._login.make_cookie(), httponly=True, samesite="strict", path="/")
        return answer

    async def _texts_file(self, request: Request) -> Response:
        return Response(json.dumps(_texts(request)), media_type="application/json")

    async def _facts(self, request: Request) -> Response:
        streams, problems = self._view.streams, await self._view.problems()
        promises = await asyncio.to_thread(lambda: [stream.promises() for stream in streams])
        nonce = self._login.nonce(request, self._known_id) if self._has_actions else None
        with use_language(_language(request)):
            sharing = serialise.sharing_fields(self._view.config, self._known_id, nonce)
            facts = serialise.encode_facts(streams, promises, self._view.counts, problems, sharing)
        return Response(facts, media_type="application/json")

    async def _act(self, request: Request) -> Response:
        """Act on a receiver; answer with the reason if that is refused."""
        fields = await self._confirmed_json(request, BODY_LIMIT)
        if isinstance(fields, Response):
            return fields
        refusal = await self._view.act(fields.get("verb", ""), fields.get("name", ""), "page", self._known_id)
        return _make_refusal(request, refusal) if refusal else _json_response({"refused": None})

    async def _draft(self, request: Request) -> Response:
        """Answer with what `check` says of a draft and how the draft differs from the file; store nothing."""
        fields = await self._confirmed_json(request, DRAFT_LIMIT)
        if isinstance(fields, Response):
            return fields
        from meteragent.agent.page import draft  # noqa: PLC0415  only a draft needs the words of `check`

        async with self._slow_lock:
            with use_language(_language(request)):
                answer = await asyncio.to_thread(draft.describe_draft, self._view, fields.get("text"))
        return _json_response(answer)

    async def _confirmed_json(self, request: Request, limit: int) -> dict[str, str] | Response:
        """Return the texts of a JSON object with a valid nonce, or an error response."""
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            return PlainTextResponse("Send application/json.\n", 415)
        try:
            fields = json.loads(await _body(request, limit))
        except (ValueError, RecursionError):
            return PlainTextResponse(f"Send a JSON object of at most {limit:,} bytes.\n", 400)
        if not isinstance(fields, dict) or not all(isinstance(value, str) for value in fields.values()):
            return PlainTextResponse("Send a JSON object of texts.\n", 400)
        nonce = self._login.nonce(request, self._known_id).encode()
        is_right = hmac.compare_digest(fields.get("nonce", "").encode("utf-8", "replace"), nonce)
        return fields if is_right else _make_refusal(request, "outdated")

    async def _file(self, request: Request) -> Response:
        file = self._files.get(request.path_params["name"])
        if file is None:
            return PlainTextResponse("There is no such file.\n", 404)
        body, kind = file
        return Response(body, media_type=kind)

    def _chosen_meter(self, request: Request) -> tuple[StreamView, str] | Response:
        """Return the stream and meter that a query names, by default the first ones, or an error response."""
        name = request.query_params.get("stream")
        stream = next((view for view in self._view.streams if name in {None, view.name}), None)
        if stream is None:
            return PlainTextResponse("There is no such stream.\n", 404)
        meter = request.query_params.get("meter") or min(stream.meters(), default="")
        if meter not in stream.meters():
            return PlainTextResponse("There is no such meter yet.\n", 404)
        return stream, meter

    async def _history(self, request: Request) -> Response:
        """Answer with a meter's history; only one is computed at a time, because the computation is slow."""
        choice = self._chosen_meter(request)
        if isinstance(choice, Response):
            return choice
        stream, meter = choice
        async with self._slow_lock:
            history = await self._view.compute_history(stream.name, meter)
        return Response(serialise.encode_history(history), media_type="application/json")

    async def _events(self, request: Request) -> Response:
        """Answer with the events of a meter, or with the event `full` if too many pages are open."""
        choice = self._chosen_meter(request)
        if isinstance(choice, Response):
            return choice
        stream, meter = choice
        try:
            viewer = self._viewers.add_viewer(stream.name, meter, stream.topic_of(meter), stream.schedule)
        except TooManyViewers:
            return Response(serialise.encode_event("full", {}), media_type=_EVENTS)
        return _Stream(self._viewers, viewer, self._stream_events(stream, viewer, _language(request)))

    async def _stream_events(self, stream: StreamView, viewer: Viewer, language: str) -> AsyncIterator[bytes]:
        """Yield the events of an open page until it is closed or the server stops."""
        history = await self._view.latest_payloads(stream.name, viewer.topic, HISTORY_MAX)
        yield RETRY + serialise.encode_event("start", serialise.first_event_fields(viewer, history))
        loop = asyncio.get_running_loop()
        glance_s = loop.time()
        meters: list[str] = []
        while not viewer.is_over:
            if loop.time() >= glance_s:
                glance_s = loop.time() + STATE_S
                meters, previous_meters = serialise.list_meters(stream), meters
                state = await self._view.meter_state(stream.name, viewer.meter)
                glance = serialise.state_fields(state, stream.terms, self._view.counts)
                problems = await self._view.problems()
                with use_language(language):
                    glance["problems"] = serialise.problem_rows(problems)
                glance["arrivals"] = serialise.list_arrivals(stream)
                change = {} if meters == previous_meters else {"meters": meters}
                yield serialise.encode_event("glance", glance | change)
            await viewer.wait(glance_s - loop.time())
            if not viewer.is_over:
                await asyncio.sleep(GATHER_S)
            news = viewer.take_news()
            if news.readings or news.records:
                yield serialise.encode_event("news", serialise.news_fields(news))


def _language(request: Request) -> str:
    """Return the language that a request's browser prefers, which may differ from the agent's language."""
    return language_of_reader(request.headers.get("accept-language", ""))


def _texts(request: Request) -> Mapping[str, str]:
    return read_texts(_language(request))


def _json_response(document: Mapping[str, Any], status: int = 200) -> Response:
    return Response(json.dumps(document), status, media_type="application/json")


def _make_refusal(request: Request, code: str) -> Response:
    """Return the response to an action that is refused, with the reason in the reader's language."""
    return _json_response({"refused": _texts(request)[f"refused.{code}"]}, 409)


def _html(name: str, texts: Mapping[str, str], status: int = 200) -> Response:
    """Return a response with an HTML file in which each {{name}} is replaced by the text of that name."""
    text = (_STATIC / name).read_text(encoding="utf-8")
    page = re.sub(r"\{\{([\w.]+)\}\}", lambda match: html.escape(texts[match[1]]), text)
    return Response(page, status, media_type="text/html")


class _Stream(StreamingResponse):
    """A response with one viewer's events; when the response ends, for any reason, the viewer is removed."""

    def __init__(self, viewers: Viewers, viewer: Viewer, events: AsyncIterator[bytes]) -> None:
        super().__init__(events, media_type=_EVENTS)
        self._viewers = viewers
        self._viewer = viewer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events until they end."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._viewers.remove_viewer(self._viewer)


async def _body(request: Request, limit: int) -> bytes:
    """Read a small body; a body that is too large, too slow or incomplete is treated as empty."""
    body = b""
    with contextlib.suppress(TimeoutError, ClientDisconnect):
        async with asyncio.timeout(BODY_TIMEOUT_S):
            async for part in request.stream():
                body += part
                if len(body) > limit:
                    return b""
        return body
    return b""
