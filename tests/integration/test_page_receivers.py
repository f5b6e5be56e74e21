"""The page of a running agent acts on receivers, in a browser; what attacks it there or beside it fails."""

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import Page, Route, expect

from meteragent import config
from tests.conftest import MakeBroker
from tests.integration.browser import chromium
from tests.integration.look import PICTURES, WIDTHS, Look, serious, window
from tests.integration.service import now_ms
from tests.integration.test_receiver_actions import Scene, running
from tests.support.broker import free_port
from tests.support.not_run import ROOT
from tests.support.page_world import TOKEN, PageWorld

PAUSE = {"verb": "pause", "name": "app", "nonce": ""}


@asynccontextmanager
async def opened(mosquitto: MakeBroker, folder: Path) -> AsyncIterator[tuple[Scene, Page, str]]:
    """Run the agent with its page, and log in in a browser."""
    token, port = folder / "token", free_port()
    token.write_bytes(TOKEN)
    token.chmod(0o600)
    table = f'[page]\nlisten = "127.0.0.1:{port}"\ntoken_file = "{token}"'
    async with running(mosquitto, folder, table) as scene, chromium() as browser:
        page = await (await browser.new_context(locale="en")).new_page()
        url = f"http://127.0.0.1:{port}/"
        await page.goto(url)
        await page.fill("#token", TOKEN.decode())
        await page.click("button")
        await expect(page.locator("#line")).to_have_attribute("data-state", "open")
        await page.click("#tab-receivers")
        yield scene, page, url
        await page.context.close()


async def act(page: Page, verb: str, name: str, state: str) -> None:
    """Press a button, and wait until the table says what has become of the receiver."""
    row = page.locator("#receivers-table tr", has=page.get_by_role("rowheader", name=name, exact=True))
    await row.get_by_role("button", name=f"{verb}: {name}").click()
    await expect(row.locator("td").last).to_contain_text(state)
    await expect(row.locator(".act:disabled")).to_have_count(0)


async def test_a_person_pauses_resumes_and_ends_on_the_page(mosquitto: MakeBroker, tmp_path: Path) -> None:
    """The login outlives each settlement; with nobody left, the page shows the receivers alone."""
    async with opened(mosquitto, tmp_path) as (scene, page, _):
        page.on("dialog", lambda dialog: asyncio.ensure_future(dialog.accept()))
        await expect(page.locator("#receivers-costs")).to_contain_text("add up to epsilon 0.218 per W")
        await act(page, "Pause", "app", "paused")
        await scene.silent()
        count = len(scene.slots()[1])
        await act(page, "Resume", "app", "gets numbers")
        while len(scene.slots()[1]) < count + 2:  # noqa: ASYNC110 -- MQTT has no event for it
            await asyncio.sleep(0.1)
        await act(page, "End", "app", "ended")
        await scene.silent()
        await expect(page.get_by_role("button", name="Resume: app")).to_have_count(0)
        await page.get_by_role("button", name="Pause: utility").click()
        await expect(page.locator("#line")).to_contain_text("nobody gets numbers")
        await expect(page.locator("[role=tab]:visible")).to_have_count(1)
        await expect(page.locator("#receivers-costs")).to_contain_text("add up to epsilon 0 per W")
        await page.get_by_role("button", name="Resume: utility").click()
        await expect(page.locator("#line")).to_have_attribute("data-state", "open")
        await scene.further()
        assert scene.agent.log.count(", by the page") == 5


async def test_a_draft_is_shown_with_what_check_says_of_it(mosquitto: MakeBroker, tmp_path: Path) -> None:
    """The file is offered with the command that installs it, and stays as it is."""
    async with opened(mosquitto, tmp_path) as (scene, page, _):
        before = scene.agent.path.read_text()
        await page.click("#draft summary")
        await expect(page.locator("#draft-said")).to_contain_text("utility gets numbers under the preset")
        await expect(page.locator("#draft-text")).to_have_value(before)
        draft = before.replace('name = "app"', 'name = "app"\npreset = "street"')
        await page.fill("#draft-text", draft)
        await page.click("#draft button")
        await expect(page.locator("#draft-difference")).to_contain_text('+preset = "street"')
        await expect(page.locator("#draft-said")).to_contain_text("under the preset street")
        await expect(page.locator("#draft-command")).to_contain_text(f"cp draft.toml {scene.agent.path}")
        async with page.expect_download() as download:
            await page.click("#draft-file")
        saved = await (await download.value).path()
        assert saved.read_text() == draft
        assert scene.agent.path.read_text() == before


@pytest.mark.parametrize("language", ["en", "de"])
async def test_buttons_and_drafts_are_fit_for_everybody(tmp_path: Path, language: str) -> None:
    """At four widths nothing is cut off; axe finds nothing serious, light and dark."""
    path, port = tmp_path / "home.toml", free_port()
    path.write_text((ROOT / "deploy" / "two-receivers.toml").read_text())
    world = PageWorld(text=path.read_text())
    world.view.config, world.now_ms = config.load(path), now_ms()
    async with (
        world.serving(port=port, token=TOKEN, has_actions=True),
        chromium() as browser,
        window(browser, locale=language, viewport={"width": 1280, "height": 900}) as page,
    ):
        look = Look(world, page, language)
        await page.goto(f"http://127.0.0.1:{port}/")
        await page.fill("#token", TOKEN.decode())
        await page.click("button")
        await expect(page.locator("#line")).to_have_attribute("data-state", "open")
        look.complaints.clear()  # the form of the login had some
        await look.tab("receivers")
        await expect(page.locator("#receivers-table .act")).to_have_count(6)
        await expect(page.locator("#draft-said")).to_contain_text("tariff-app")
        await page.fill("#draft-text", path.read_text().replace('"day"', '"bill"'))
        await page.click("#draft button")
        await expect(page.locator("#draft-difference")).to_contain_text('+preset = "bill"')
        for width in WIDTHS:
            await page.set_viewport_size({"width": width, "height": 900})
            assert "\n".join(await look.cut_off()) == "", width
            assert await page.evaluate("document.documentElement.scrollWidth") == width
            PICTURES.mkdir(parents=True, exist_ok=True)
            await page.screenshot(path=PICTURES / f"{width}-{language}-actions.png", full_page=True)
        for scheme in ("light", "dark"):
            await page.emulate_media(color_scheme=scheme)
            assert await serious(page) == []
        assert look.complaints == []


def asked(url: str, origin: str) -> int:
    """The status that a process on this machine gets, which knows no token."""
    headers = {"Content-Type": "application/json", "Origin": origin}
    request = urllib.request.Request(f"{url}receivers", json.dumps(PAUSE).encode(), headers)
    try:
        with urllib.request.urlopen(request) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


async def test_neither_another_page_nor_another_process_acts(mosquitto: MakeBroker, tmp_path: Path) -> None:
    """A page of another origin in the browser that is logged in, and a process without the token."""
    async with opened(mosquitto, tmp_path) as (scene, page, url):

        async def answer(route: Route) -> None:
            await route.fulfill(body="<!doctype html><title>Evil</title>", content_type="text/html")

        await page.context.route("http://evil.example/", answer)
        evil = await page.context.new_page()
        await evil.goto("http://evil.example/")
        script = """async ([url, body]) => {
            const types = ["application/json", "text/plain", "application/x-www-form-urlencoded"];
            for (const mode of ["cors", "no-cors"]) for (const type of types) {
                const options = {method: "POST", credentials: "include", headers: {"Content-Type": type}};
                await fetch(url, {...options, mode, body}).catch(() => null);
            }
            return "sent";
        }"""
        assert await evil.evaluate(script, [f"{url}receivers", json.dumps(PAUSE)]) == "sent"
        origin = url.rstrip("/")
        assert await asyncio.to_thread(asked, url, origin) == 401
        assert await asyncio.to_thread(asked, url, "http://evil.example") == 403
        await scene.further()
        assert "by the page" not in scene.agent.log
