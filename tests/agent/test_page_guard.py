"""Who may look at the page: meteragent.agent.page.guard, by requests as browsers and attackers send them."""

import logging
from collections.abc import Mapping

import pytest
from starlette.types import ASGIApp

from meteragent.agent.page import view as page
from meteragent.agent.page.app import BODY_LIMIT, build_application
from meteragent.agent.page.guard import COOKIE
from meteragent.domain.errors import ConfigError
from tests.support.page_asker import Answer, ask
from tests.support.page_world import TOKEN, PageWorld

PATHS = [
    "/",
    "/login",
    "/facts.json",
    "/texts.json",
    "/events",
    "/history.json",
    "/static/page.js",
    "/metrics",
]
FORM = {"content-type": "application/x-www-form-urlencoded"}


async def _metrics() -> tuple[int, str, bytes]:
    return 200, "text/plain; version=0.0.4", b"meteragent_healthy 1\n"


def app(**settings: object) -> ASGIApp:
    """The application with an additional route, under some settings."""
    world = PageWorld()
    world.meters = []
    routes = [page.Route("/metrics", _metrics)]
    return build_application(page.Settings(**settings), world.view, world.viewers, routes)  # type: ignore[arg-type]


def away(**settings: object) -> ASGIApp:
    """Return the application as it is reached from other machines."""
    return app(host="0.0.0.0", token=TOKEN, hosts=frozenset({"gateway.local"}), **settings)


async def logged_in(at: ASGIApp) -> dict[str, str]:
    """Return the cookie that the token gives."""
    body = b"token=" + TOKEN
    answer = await ask(at, "/login", method="POST", host="gateway.local", headers=FORM, body=body)
    assert (answer.status, answer.headers["location"]) == (303, "/")
    return {"cookie": answer.headers["set-cookie"].partition(";")[0]}


@pytest.mark.parametrize("path", PATHS)
async def test_a_foreign_name_is_refused(path: str) -> None:
    """A name that is not this host's gets nothing on any path, even if it resolves to it (DNS rebinding)."""
    for host in ("evil.example", "evil.example:8321", "localhost.evil.example", "", "127.0.0.1.evil.example"):
        answer = await ask(app(), path, host=host)
        assert answer.status == 421
        assert b"page.hosts" in answer.body


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:9000", "127.0.0.1:1", "[::1]:8321", "[::1]"])
async def test_names_of_the_loopback_interface_are_known(host: str) -> None:
    """This machine answers to every name of its loopback interface, on any port."""
    assert (await ask(app(), "/", host=host)).status == 200


async def test_names_of_the_configuration_are_known() -> None:
    """The address in `page.listen` and the names in `page.hosts` are accepted as well."""
    at = app(host="::1", hosts=frozenset({"gateway.local"}))
    assert (await ask(at, "/", host="gateway.local:8321")).status == 200
    assert (await ask(app(host="127.0.0.9"), "/", host="127.0.0.9:8321")).status == 200
    assert (await ask(app(), "/", host="127.0.0.9:8321")).status == 421


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:8322"},
        {"sec-fetch-site": "cross-site", "sec-fetch-dest": "empty"},
        {"sec-fetch-site": "same-site", "sec-fetch-dest": "script"},
        {"sec-fetch-site": "cross-site", "sec-fetch-dest": "iframe"},
    ],
)
async def test_pages_of_other_origins_get_nothing(path: str, headers: Mapping[str, str]) -> None:
    """No page of another origin gets an answer on any path, however its browser asks."""
    assert (await ask(app(), path, headers=headers)).status == 403


async def test_a_link_may_open_the_page() -> None:
    """A link from elsewhere may open the whole front page, or the login before it, and nothing else."""
    headers = {"sec-fetch-site": "cross-site", "sec-fetch-dest": "document"}
    assert (await ask(app(), "/", headers=headers)).status == 200
    assert (await ask(app(), "/login", headers=headers)).status == 200
    assert (await ask(app(), "/facts.json", headers=headers)).status == 403
    assert (await ask(app(), "/login", method="POST", headers=headers)).status == 403


async def test_its_own_scripts_may_ask() -> None:
    """Requests of the page's own scripts are answered."""
    headers = {"origin": "http://127.0.0.1:8321", "sec-fetch-site": "same-origin"}
    assert (await ask(app(), "/facts.json", headers=headers)).status == 200


@pytest.mark.parametrize("path", [*PATHS, "/nothing", "/static/../app.py", "/static/%2e%2e/app.py"])
@pytest.mark.parametrize("host", ["localhost", "evil.example"])
async def test_every_answer_is_locked_down(path: str, host: str) -> None:
    """Every answer, even a refusal, allows only scripts and styles of this origin, no frame, no cache."""
    answer = await ask(app(), path, host=host)
    policy = dict(part.strip().split(" ", 1) for part in answer.headers["content-security-policy"].split(";"))
    assert policy == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "img-src": "'self' data:",
        "connect-src": "'self'",
        "frame-ancestors": "'none'",
        "base-uri": "'none'",
        "form-action": "'self'",
    }
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "same-origin"
    assert answer.headers["cache-control"] == "no-store"
    assert b"import" not in answer.body or path.endswith(".js")


def test_beyond_this_machine_it_takes_a_token() -> None:
    """A page that others could reach is refused without a token, which no text shows."""
    for host in ("0.0.0.0", "::", "192.168.1.5", "gateway.local"):
        with pytest.raises(ConfigError, match=r"page\.token_file"):
            page.Settings(host=host)
    assert TOKEN.decode() not in repr(page.Settings(host="0.0.0.0", token=TOKEN))


@pytest.mark.parametrize("path", [path for path in PATHS if path not in {"/", "/login", "/metrics"}])
async def test_without_a_login_there_is_nothing(path: str) -> None:
    """With a token, only the login and its style are served to clients that have not logged in."""
    assert (await ask(away(), path, host="gateway.local")).status == 401
    first = await ask(away(), "/", host="gateway.local")
    assert (first.status, first.headers["location"]) == (303, "/login")
    assert (await ask(away(), "/login", host="gateway.local")).status == 200
    assert (await ask(away(), "/static/page.css", host="gateway.local")).status == 200


async def test_the_token_opens_the_page() -> None:
    """A login gives a cookie, not the token, that scripts cannot read and other sites do not send."""
    at = away()
    body = b"token=" + TOKEN
    answer = await ask(at, "/login", method="POST", host="gateway.local", headers=FORM, body=body)
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    assert TOKEN.decode() not in cookie
    for path in ("/", "/facts.json", "/texts.json"):
        assert (await ask(at, path, host="gateway.local", headers=await logged_in(at))).status == 200


@pytest.mark.parametrize(
    "body", [b"", b"token=", b"token=0123456789abcdeg", b"token=" + TOKEN * 2, b"token=%ff", b"x" * 5000]
)
async def test_another_token_opens_nothing(body: bytes) -> None:
    """A wrong token, no token, or a body of any size gets the form again and no cookie."""
    answer = await ask(away(), "/login", method="POST", host="gateway.local", headers=FORM, body=body)
    assert answer.status == 403
    assert "That is not the token." in answer.text
    assert "set-cookie" not in answer.headers


async def test_a_body_is_read_so_far_only() -> None:
    """A login that is longer than any token is refused, even if it begins with the token."""
    body = b"token=" + TOKEN + b"&more=" + b"x" * BODY_LIMIT
    answer = await ask(away(), "/login", method="POST", host="gateway.local", headers=FORM, body=body)
    assert answer.status == 403


async def test_a_login_ends_with_the_run() -> None:
    """A cookie of another run, or a forged one, opens nothing."""
    cookie = await logged_in(away())
    for headers in (cookie, {"cookie": f"{COOKIE}=0"}, {"cookie": f"{COOKIE}=é"}, {"cookie": COOKIE}):
        assert (await ask(away(), "/facts.json", host="gateway.local", headers=headers)).status == 401


async def test_metrics_are_for_this_machine() -> None:
    """Routes for tools on this machine do not answer another machine, even with the token."""
    near = await ask(app(), "/metrics", host="localhost")
    assert (near.status, near.body) == (200, b"meteragent_healthy 1\n")
    assert near.headers["content-type"].startswith("text/plain; version=0.0.4")
    at = away()
    for headers in (await logged_in(at), BEARER):
        far = await ask(at, "/metrics", host="gateway.local", headers=headers, client="192.168.1.7")
        assert far.status == 403


BEARER = {"authorization": f"Bearer {TOKEN.decode()}"}


@pytest.mark.parametrize("host", ["localhost", "gateway.local"])
async def test_where_there_is_a_token_metrics_take_it(host: str) -> None:
    """A token is required from this machine, too, where a proxy asks for others; a cookie is not enough."""
    at = away()
    wrong: list[dict[str, str]] = [
        {},
        await logged_in(at),
        {"authorization": "Bearer"},
        {"authorization": f"Bearer {TOKEN.decode()}x"},
        {"authorization": f"Basic {TOKEN.decode()}"},
        {"authorization": "Bearer é"},
    ]
    for headers in wrong:
        answer = await ask(at, "/metrics", host=host, headers=headers)
        assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
        assert b"healthy" not in answer.body
    for headers in (BEARER, {"authorization": f"bearer {TOKEN.decode()}"}):
        answer = await ask(away(), "/metrics", host=host, headers=headers)
        assert (answer.status, answer.body) == (200, b"meteragent_healthy 1\n")


async def test_without_the_token_health_is_a_status() -> None:
    """Without the token, this machine's tools learn only whether all is well; with it, also what is wrong."""

    async def wrong() -> tuple[int, str, bytes]:
        return 503, "text/plain", b"no connection\n"

    world = PageWorld()
    for token, headers, body in ((None, {}, b"no"), (TOKEN, BEARER, b"no"), (TOKEN, {}, b"Send the token")):
        routes = [page.Route("/healthz", wrong, is_open=True)]
        at = build_application(page.Settings(token=token), world.view, world.viewers, routes)
        answer = await ask(at, "/healthz", headers=headers)
        assert answer.status == 503
        assert answer.body.startswith(body)


async def test_what_goes_wrong_says_no_more_than_its_name(caplog: pytest.LogCaptureFixture) -> None:
    """An exception in an answer is logged by its type, because its text may hold a reading."""

    async def wrong() -> tuple[int, str, bytes]:
        raise ValueError("4711 W")

    world = PageWorld()
    at = build_application(page.Settings(), world.view, world.viewers, [page.Route("/metrics", wrong)])
    with caplog.at_level(logging.DEBUG), pytest.raises(IndexError):
        await ask(at, "/metrics")  # nothing has been answered
    assert [record.getMessage() for record in caplog.records] == ["page: ValueError"]
    assert "4711" not in caplog.text


async def test_the_form_says_that_it_is_not_encrypted() -> None:
    """The login form warns of what a cookie over plain HTTP cannot protect."""
    answer: Answer = await ask(away(), "/login", host="gateway.local")
    assert "not encrypted" in answer.text
    assert 'type="password"' in answer.text
