"""What the page does to receivers, and what it refuses: requests as browsers and attackers send them."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from starlette.types import ASGIApp

from meteragent import config
from meteragent.agent.page import view as page
from meteragent.agent.page.app import BODY_LIMIT, DRAFT_LIMIT, build_application
from meteragent.domain.identity import VERBS
from meteragent.store.grants import Action
from tests.support.not_run import ROOT
from tests.support.page_asker import Answer, ask
from tests.support.page_world import TOKEN, PageWorld

HOST = "127.0.0.1:8321"
TEXT = (ROOT / "deploy" / "two-receivers.toml").read_text()
BROWSER = {"origin": f"http://{HOST}", "sec-fetch-site": "same-origin", "content-type": "application/json"}
PAUSE = {"verb": "pause", "name": "utility"}


class Visit:
    """A page with two receivers, and a browser that has logged in."""

    def __init__(self, **settings: Any) -> None:
        self.world = PageWorld(text=TEXT)
        self.settings = page.Settings(**{"token": TOKEN, "has_actions": True, **settings})
        self.cookie = ""

    @property
    def app(self) -> ASGIApp:
        """The application, as it is built anew when the agent has settled an action."""
        last = len(self.world.acts)
        known = {name: Action(last, name, verb, "page", 0) for verb, name in self.world.acts}
        self.world.view.actions = known
        return build_application(self.settings, self.world.view, self.world.viewers, [])

    async def log_in(self) -> None:
        """Log in, as a browser does."""
        body, headers = b"token=" + TOKEN, {"content-type": "application/x-www-form-urlencoded"}
        answer = await ask(self.app, "/login", method="POST", headers=headers, body=body)
        self.cookie = answer.headers["set-cookie"].partition(";")[0]

    async def nonce(self) -> str:
        """The nonce that the page gets."""
        facts = await ask(self.app, "/facts.json", headers={"cookie": self.cookie})
        return str(json.loads(facts.body)["nonce"])

    async def post(
        self, fields: Any, path: str = "/receivers", *, app: ASGIApp | None = None, **headers: Any
    ) -> Answer:
        """Send JSON as the page's script does, but for some headers."""
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        sent = {"cookie": self.cookie, **BROWSER, **names}
        kept = {name: value for name, value in sent.items() if value is not None}
        body = fields if isinstance(fields, bytes) else json.dumps(fields).encode()
        return await ask(app or self.app, path, method="POST", headers=kept, body=body)


@pytest.fixture
async def visit() -> Visit:
    """A visit of somebody who has logged in."""
    made = Visit()
    await made.log_in()
    return made


async def test_whoever_is_logged_in_acts(visit: Visit) -> None:
    """Each action has the nonce that the page got after the one before."""
    for verb in VERBS:
        answer = await visit.post({"verb": verb, "name": "utility", "nonce": await visit.nonce()})
        assert (answer.status, json.loads(answer.body)) == (200, {"refused": None})
    assert visit.world.acts == [("pause", "utility"), ("resume", "utility"), ("end", "utility")]


async def test_the_page_offers_what_the_command_does(visit: Visit) -> None:
    """Its buttons come with the facts: those that a receiver's state allows, and which of them is final."""
    facts = json.loads((await ask(visit.app, "/facts.json", headers={"cookie": visit.cookie})).body)
    assert {tuple(row["verbs"]) for row in facts["receivers"]} == {("pause", "end")}
    assert facts["final"] == VERBS[-1]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": None}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "http://127.0.0.1:9000"}, 403),
        ({"origin": f"http://{HOST}.evil.example"}, 403),
        ({"sec_fetch_site": "cross-site"}, 403),
        ({"sec_fetch_site": "same-site"}, 403),
        ({"host": "evil.example", "origin": "http://evil.example"}, 421),
        ({"cookie": None}, 401),
        ({"cookie": f"meteragent={'0' * 32}.{'0' * 64}"}, 401),
        ({"cookie": "meteragent=é.é"}, 401),
        ({"content_type": None}, 415),
        ({"content_type": "text/plain"}, 415),
        ({"content_type": "application/x-www-form-urlencoded"}, 415),
    ],
)
async def test_what_no_page_of_ours_sends_is_refused(
    visit: Visit, headers: dict[str, Any], status: int
) -> None:
    """A page of another origin, a form, a process without the token, or one that guesses a cookie."""
    nonce = await visit.nonce()
    for path in ("/receivers", "/draft"):
        assert (await visit.post(PAUSE | {"nonce": nonce}, path, **headers)).status == status
    assert not visit.world.acts


async def test_a_nonce_is_good_for_one_action_of_one_login(visit: Visit) -> None:
    """A request that is sent again does nothing; nor does another login's nonce, an old one's or none."""
    nonce = await visit.nonce()
    assert (await visit.post(PAUSE | {"nonce": nonce})).status == 200
    other = Visit()
    await other.log_in()
    before = visit.cookie
    await visit.log_in()
    wrong = [nonce, await other.nonce(), "", "é"]
    visit.cookie, newer = before, visit.cookie
    for value in wrong:
        answer = await visit.post({"verb": "resume", "name": "utility", "nonce": value})
        assert (answer.status, "look" in answer.text) == (409, True)
    visit.cookie, own = newer, await visit.nonce()
    assert (await visit.post({"verb": "resume", "name": "utility", "nonce": own})).status == 409
    assert visit.world.acts == [("pause", "utility")]


async def test_of_requests_at_once_with_one_nonce_one_is_done(visit: Visit) -> None:
    """The others are refused, whatever they ask for."""
    app, nonce = visit.app, await visit.nonce()
    asked = [PAUSE | {"name": name, "nonce": nonce} for name in ("utility", "research") * 4]
    answers = await asyncio.gather(*(visit.post(fields, app=app) for fields in asked))
    assert sorted(answer.status for answer in answers) == [200] + [409] * 7
    assert len(visit.world.acts) == 1


@pytest.mark.parametrize(
    ("body", "path"),
    [
        (b'{"a":"' + b"0" * BODY_LIMIT + b'"}', "/receivers"),
        (b'{"text":"' + b"0" * DRAFT_LIMIT + b'"}', "/draft"),
        (b"[" * 60_000, "/draft"),
        (b"\xff", "/receivers"),
        (b"", "/receivers"),
        (b"[]", "/receivers"),
        (b'{"verb":1}', "/receivers"),
        (b'{"verb":{"a":"b"}}', "/receivers"),
    ],
)
async def test_a_body_is_a_small_object_of_texts(visit: Visit, body: bytes, path: str) -> None:
    """Anything else is refused, as is a large one."""
    assert (await visit.post(body, path)).status == 400


@pytest.mark.parametrize("fields", [{}, {"verb": "pause", "name": "nobody"}])
async def test_what_cannot_be_done_is_refused_with_a_reason(visit: Visit, fields: dict[str, str]) -> None:
    """In the reader's language."""
    answer = await visit.post(fields | {"nonce": await visit.nonce()}, accept_language="de")
    assert (answer.status, json.loads(answer.body)["refused"]) == (409, "diesen Empfänger gibt es nicht")


@pytest.mark.parametrize("settings", [{"has_actions": False}, {"token": None, "has_actions": False}])
async def test_it_is_off_unless_the_configuration_allows_it(settings: dict[str, Any]) -> None:
    """Without a token on this machine, and without `page.actions` beyond; then the page gets no nonce."""
    visit = Visit(**settings)
    if settings.get("token", TOKEN):
        await visit.log_in()
    assert await visit.nonce() == "None"
    for path in ("/receivers", "/draft"):
        answer = await visit.post(PAUSE | {"nonce": "None"}, path)
        assert (answer.status, "page.actions" in answer.text) == (403, True)


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
async def test_only_a_post_acts(visit: Visit, method: str) -> None:
    """No link does."""
    for path in ("/receivers", "/draft"):
        assert (await ask(visit.app, path, method=method, headers={"cookie": visit.cookie})).status == 405


def files_in(folder: Path) -> list[Path]:
    """The files in a folder."""
    return [*folder.iterdir()]


async def drafted(visit: Visit, **fields: str) -> dict[str, str]:
    """What is said of a draft."""
    answer = await visit.post({"nonce": await visit.nonce(), **fields}, "/draft")
    assert answer.status == 200
    said: dict[str, str] = json.loads(answer.body)
    return said


async def test_a_draft_is_described_and_never_written(visit: Visit, tmp_path: Path) -> None:
    """It is what `check` says, the difference from the file, and the command that installs it."""
    path = tmp_path / "my home.toml"
    path.write_text(TEXT)
    visit.world.view.config = config.load(path)
    own = await drafted(visit)
    assert (own["text"], own["difference"]) == (TEXT, "")
    assert own["said"].startswith("Receivers\n  utility gets numbers")
    changed = TEXT.replace('preset = "day"', 'preset = "bill"')
    draft = await drafted(visit, text=changed)
    assert '-preset = "day"' in draft["difference"]
    assert '+preset = "bill"' in draft["difference"]
    assert "under the preset bill" in " ".join(draft["said"].split())
    assert draft["command"].endswith(f"sudo cp draft.toml '{path}'")
    assert path.read_text() == TEXT
    assert files_in(tmp_path) == [path]
    wrong = await drafted(visit, text=TEXT.replace('kind = "power"', 'kind = "pwer"'))
    assert "source.kind" in wrong["said"]
    assert (await drafted(visit, text="[[["))["said"]


async def test_a_draft_reads_no_other_file(visit: Visit, tmp_path: Path) -> None:
    """A group's file is not read, however its key is written."""
    path, secret = tmp_path / "home.toml", tmp_path / "secret.toml"
    path.write_text(TEXT)
    secret.write_text('name = "4711"\n')
    visit.world.view.config = config.load(path)
    source = TEXT.partition("[[receiver]]")[0]
    for key in ("crowd", '"cr\\u006fwd"'):
        draft = f'{source}[sink.{key}]\ngroup = "{secret}"\nid = "{"0" * 64}"\n'
        said = (await drafted(visit, text=draft))["said"]
        assert said.startswith("The file of a group is read by")
        assert "4711" not in said
