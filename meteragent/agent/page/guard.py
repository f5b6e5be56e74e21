"""Access control for the page: host names, the origin, and the token.

Every request must pass these checks, in this order. The login page and its style sheet skip check 3; the
routes for this machine's tools replace it (see below).

1. `Host` is a name of the loopback interface, the address on which the page listens, or one of `page.hosts`.
   A foreign name that resolves to this machine (DNS rebinding) is refused.
2. `Origin`, if the browser sends it, names the same host as `Host`. `Sec-Fetch-Site`, if sent, is
   `same-origin` or `none`; a page of another origin may only link to the front page or the login page.
3. If a token is set, the request carries the cookie of a login with that token. The cookie is a keyed hash
   under a key of this run, so a restart ends all logins. The cookie is HttpOnly and SameSite=Strict
   but, over plain HTTP, not Secure. After a wrong token, no token from that address is checked for `GUESS_S`.
4. A request that acts (any POST but the login) has an `Origin`, and `page.actions` allows it. The action
   itself requires a nonce of its login, which is valid until the next action by anybody.

Routes for this machine's tools answer only on the loopback interface, which a proxy uses, too: if a token is
set, they require it as `Authorization: Bearer`. Without the token, an `open` route answers only its status.
"""

import hashlib
import hmac
import logging
import secrets
from collections.abc import Collection
from time import monotonic

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from meteragent.agent.page.view import Route, Settings, is_loopback

COOKIE = "meteragent"
LOGIN_PATH = "/login"
OPEN_PATHS = frozenset({LOGIN_PATH, "/static/page.css"})
"""Paths of the page that require no login."""
GUESS_S = 1.0
"""How long after a wrong token no other token from the same address is checked."""
LOG_S = 60.0
"""The shortest time between two log lines about wrong tokens."""
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
"""The headers of every response. With the policy `no-referrer`, browsers would send the login form with
`Origin: null`, which is refused."""

_log = logging.getLogger("meteragent")


class Login:
    """The token, compared in constant time, and the cookies of logins, which represent it during this run."""

    def __init__(self, token: bytes | None, key: bytes) -> None:
        self._token = token
        self._key = hmac.digest(key, token or b"", "sha256")
        self._waits: dict[str, float] = {}
        self._refused_count = 0
        self._log_due_s = 0.0

    def _mac(self, text: str) -> str:
        return hmac.new(self._key, text.encode("utf-8", "replace"), hashlib.sha256).hexdigest()

    def make_cookie(self) -> str:
        """Return the cookie of a new login."""
        name = secrets.token_hex(16)
        return f"{name}.{self._mac(name)}"

    def nonce(self, request: Request, known_id: int) -> str:
        """Return the nonce with which a login may act if it has seen the actions up to `known_id`."""
        return self._mac(f"{request.cookies.get(COOKIE, '')} {known_id}")  # the name of a login has no space

    @property
    def is_set(self) -> bool:
        """Whether a token is set."""
        return self._token is not None

    def matches(self, token: bytes, request: Request) -> bool | None:
        """Return whether `token` in a request is the configured token; None if its address has to wait."""
        now_s, address = monotonic(), request.client.host if request.client else ""
        self._waits = {host: until_s for host, until_s in self._waits.items() if until_s > now_s}
        has_to_wait = address in self._waits
        if not token or (not has_to_wait and hmac.compare_digest(token, self._token or b"")):
            return bool(token) and self.is_set
        self._waits.setdefault(address, now_s + GUESS_S)
        self._refused_count += 1
        if now_s >= self._log_due_s:
            self._log_due_s = now_s + LOG_S
            _log.warning("page: tokens refused since the start: %d", self._refused_count)
        return None if has_to_wait else False

    def has_token(self, request: Request) -> bool:
        """Return whether a request carries the token as a bearer token, or no token is set."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if not self.is_set or scheme.lower() != "bearer":
            return not self.is_set
        return self.matches(token.strip().encode("utf-8", "replace"), request) is True

    def allows(self, request: Request) -> bool:
        """Return whether a request carries the cookie of a login, or no token is set."""
        name, _, mac = request.cookies.get(COOKIE, "").encode("utf-8", "replace").decode().partition(".")
        return not self.is_set or hmac.compare_digest(mac.encode(), self._mac(name).encode())


class Guard:
    """A layer around the application that refuses requests, adds headers, and keeps error texts secret."""

    def __init__(self, app: ASGIApp, settings: Settings, login: Login, local: Collection[Route]) -> None:
        """Wrap an application; `local` lists the routes that only this machine may use."""
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        self._names = _LOOPBACK | settings.hosts | {host}
        self._app = app
        self._login = login
        self._has_actions = settings.has_actions
        self._local = {route.path: route for route in local}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            return

        async def send_with_headers(message: Message) -> None:
            """Send a message; add the headers to the start of a response."""
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        answer: ASGIApp = self._refusal(Request(scope)) or self._app
        try:
            await answer(scope, receive, send_with_headers)
        except Exception as error:  # noqa: BLE001  the text may contain a reading
            _log.error("page: %s", type(error).__name__)

    def _refusal(self, request: Request) -> Response | None:
        host = request.headers.get("host", "")
        if _name(host) not in self._names:
            return PlainTextResponse("This host name is not in page.hosts.\n", 421)
        if not _is_same_origin(request, host):
            return PlainTextResponse("Requests from pages of other origins are refused.\n", 403)
        path = request.url.path
        if path in self._local:
            return self._local_refusal(request, self._local[path])
        if path in OPEN_PATHS or self._login.allows(request):
            return self._action_refusal(request)
        if path == "/":
            return RedirectResponse(LOGIN_PATH, 303)
        return PlainTextResponse("Log in first.\n", 401)

    def _action_refusal(self, request: Request) -> Response | None:
        if request.method != "POST" or request.url.path == LOGIN_PATH:
            return None
        if "origin" not in request.headers:
            return PlainTextResponse("Send the header Origin.\n", 403)
        if not self._has_actions:
            return PlainTextResponse("Set page.token_file and, beyond this machine, page.actions.\n", 403)
        return None

    def _local_refusal(self, request: Request, route: Route) -> Response | None:
        if request.client is None or not is_loopback(request.client.host):
            return PlainTextResponse("Available only on this machine.\n", 403)
        if route.is_open or self._login.has_token(request):
            return None
        headers = {"WWW-Authenticate": "Bearer"}
        return PlainTextResponse("Send the header Authorization: Bearer TOKEN.\n", 401, headers)


def _name(host: str) -> str:
    """Return the host name of a Host header, without the port, which port forwarding may have changed."""
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdigit() else host).lower()


def _is_same_origin(request: Request, host: str) -> bool:
    """Return whether a request is from this origin, from no page, or by a link to the front or login page."""
    origin = request.headers.get("origin")
    if origin is not None and origin not in {f"http://{host}", f"https://{host}"}:
        return False
    site = request.headers.get("sec-fetch-site", "none")
    if site in {"same-origin", "none"}:
        return True
    navigates = request.headers.get("sec-fetch-dest") == "document"
    return navigates and request.method == "GET" and request.url.path in {"/", LOGIN_PATH}
