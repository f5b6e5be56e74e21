"""Who may ask for what: names of this host, pages of this origin, and the token.

The page shows raw readings, so all of this is asked of every request, in this order:

1. `Host` is a name of the loopback interface, the address that is listened on, or one of `page.hosts`.
   A foreign name that resolves to this machine (DNS rebinding) is refused.
2. `Origin`, where a browser sends it, is that very host. `Sec-Fetch-Site`, where a browser sends it, says
   that a page of this origin asked or nobody did; from elsewhere the front page may be opened, whole.
3. Where a token is set: the cookie that a login with it gives. It is a keyed hash under a key of this run, so
   a restart ends all logins. It is HttpOnly and SameSite=Strict; `Secure` has no meaning over plain HTTP, so
   what reads the wire reads the page: beyond a network that you trust, put a tunnel or TLS before it.

Routes of this machine's own tools are answered to the loopback interface only, which a proxy on this machine
asks from, too. So where a token is set they ask for it, as `Authorization: Bearer`; one that is `open` tells
its status without it, and no more.
"""

import hashlib
import hmac
import logging
import secrets
from collections.abc import Collection

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from meteragent.agent.page.view import Route, Settings, is_loopback

COOKIE = "meteragent"
LOGIN = "/login"
OPEN = frozenset({LOGIN, "/static/page.css"})
"""What is answered before a login."""
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
"""What every answer carries. With no referrer at all browsers would send the login without its origin."""

_log = logging.getLogger("meteragent")


class Keys:
    """What a token opens: compared in constant time, remembered as a cookie of this run."""

    def __init__(self, token: bytes | None) -> None:
        self._token = token
        self.cookie = hmac.new(secrets.token_bytes(32), token or b"", hashlib.sha256).hexdigest()

    @property
    def needed(self) -> bool:
        """Whether there is a token."""
        return self._token is not None

    def fits(self, token: bytes) -> bool:
        """Whether this is the token."""
        return self._token is not None and hmac.compare_digest(token, self._token)

    def bears(self, request: Request) -> bool:
        """Return whether a request may have what this machine's tools are told."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        known = scheme.lower() == "bearer" and self.fits(token.strip().encode("utf-8", "replace"))
        return not self.needed or known

    def knows(self, request: Request) -> bool:
        """Whether a request may see the page."""
        cookie = request.cookies.get(COOKIE, "").encode("utf-8", "replace")
        return not self.needed or hmac.compare_digest(cookie, self.cookie.encode())


class Guard:
    """Stands before the application: refuses, adds the headers, and lets no exception's text out."""

    def __init__(self, app: ASGIApp, settings: Settings, keys: Keys, local: Collection[Route]) -> None:
        """`local` are the routes that are answered to this machine only."""
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        self._names = _LOOPBACK | settings.hosts | {host}
        self._app = app
        self._keys = keys
        self._local = {route.path: route for route in local}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        answer: ASGIApp = self._refusal(Request(scope)) or self._app
        try:
            await answer(scope, receive, send_with_headers)
        except Exception as error:  # noqa: BLE001  its text may hold a reading
            _log.error("page: %s", type(error).__name__)

    def _refusal(self, request: Request) -> Response | None:
        """The answer to what may not be asked; None where it may."""
        host = request.headers.get("host", "")
        if _name(host) not in self._names:
            return PlainTextResponse("This name is not among page.hosts.\n", 421)
        if not _is_own(request, host):
            return PlainTextResponse("Pages of other origins get nothing.\n", 403)
        path = request.url.path
        if path in self._local:
            return self._local_refusal(request, self._local[path])
        if path in OPEN or self._keys.knows(request):
            return None
        if path == "/":
            return RedirectResponse(LOGIN, 303)
        return PlainTextResponse("Log in first.\n", 401)

    def _local_refusal(self, request: Request, route: Route) -> Response | None:
        """Return the answer to who may not have a tool's route; None where they may."""
        if request.client is None or not is_loopback(request.client.host):
            return PlainTextResponse("For this machine only.\n", 403)
        if route.open or self._keys.bears(request):
            return None
        headers = {"WWW-Authenticate": "Bearer"}
        return PlainTextResponse("Send the token: Authorization: Bearer.\n", 401, headers)


def _name(host: str) -> str:
    """The name in a Host header, without the port: forwarded ports differ."""
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdigit() else host).lower()


def _is_own(request: Request, host: str) -> bool:
    """Whether a page of this origin asks, or nobody's."""
    origin = request.headers.get("origin")
    if origin is not None and origin not in {f"http://{host}", f"https://{host}"}:
        return False
    site = request.headers.get("sec-fetch-site", "none")
    if site in {"same-origin", "none"}:
        return True
    whole = request.headers.get("sec-fetch-dest") == "document"
    return whole and request.method == "GET" and request.url.path in {"/", LOGIN}
