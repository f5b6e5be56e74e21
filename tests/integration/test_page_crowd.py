"""The page of a stream that counts in the total of a group, in a real browser."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from meteragent.texts import read_texts as texts_of
from tests.integration.browser import chromium
from tests.integration.look import PICTURES, Look, serious, window
from tests.support.broker import free_port
from tests.support.page_world import START_MS, PageWorld, crowd_world, named

pytestmark = pytest.mark.asyncio(loop_scope="module")

SHOWN = {"now": ["crowd"], "promise": ["hidden", "spent"], "receivers": ["who"], "problems": ["health"]}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    """A browser."""
    async with chromium() as running:
        yield running


@pytest.mark.parametrize(("language", "width"), [("en", 1280), ("de", 360)])
async def test_a_home_sees_its_reports(browser: Browser, tmp_path: Path, language: str, width: int) -> None:
    """It shows the group, the reports and who learns what, and nothing about numbers, which do not leave."""
    world, port, texts = crowd_world(tmp_path), free_port(), texts_of(language)
    options = {"locale": language, "viewport": {"width": width, "height": 900}, "timezone_id": "UTC"}
    async with world.serving(port=port), window(browser, **options) as page:
        look = Look(world, page, language)
        await look.open(f"http://127.0.0.1:{port}/")
        await expect(page.locator("#crowd-about")).to_contain_text("elm-street")
        for row, count in ((4, "3"), (6, "1"), (7, "0")):
            await expect(page.locator("#crowd-states dd").nth(row)).to_have_text(count)
        await expect(page.locator("#crowd-states .good").first).to_have_text(texts["crowd.known"])
        await expect(page.locator("#crowd-next")).to_contain_text("19:00")
        assert await page.locator("#crowd-learns li").count() == 4
        await expect(page.locator("#crowd-learns")).to_contain_text("house")
        tabs = page.locator("[role=tab]:visible")
        assert await tabs.evaluate_all("all => all.map(one => one.id.slice(4))") == [*SHOWN]
        PICTURES.mkdir(parents=True, exist_ok=True)
        for name, sections in SHOWN.items():
            await look.tab(name)
            shown = page.locator("main section:visible")
            assert await shown.evaluate_all("all => all.map(one => one.id)") == sections
            await page.screenshot(path=PICTURES / f"crowd-{width}-{language}-{name}.png", full_page=True)
            assert await serious(page) == []
            assert "\n".join(await look.cut_off()) == "", name
            assert await page.evaluate("document.documentElement.scrollWidth") == width
        await expect(page.locator("#receivers-table tbody tr")).to_have_count(2)
        assert look.complaints == []


async def test_missing_keys_and_late_reports_are_marked(browser: Browser, tmp_path: Path) -> None:
    """What keeps a home from counting is marked as bad; a stream whose records leave is shown as ever."""
    world, other, port = crowd_world(tmp_path), PageWorld(), free_port()
    assert world.reports is not None
    world.reports = world.reports._replace(late_count=2, last_ms=None, has_keys=False)
    [stream] = other.view.streams
    world.view = replace(world.view, streams=[*world.view.streams, named(stream, "second")])
    other.now_ms = START_MS
    async with world.serving(port=port), window(browser, locale="en") as page:
        look = Look(world, page)
        await look.open(f"http://127.0.0.1:{port}/")
        bad = page.locator("#crowd-states .bad")
        await expect(bad.first).to_contain_text("no slot opens until both operators")
        await expect(bad.nth(1)).to_have_text("2")
        await page.select_option("#stream", "second")
        await expect(page.locator("#trace-plot canvas")).to_be_visible()
        await expect(page.locator("#crowd")).to_be_hidden()
        await page.select_option("#stream", "main")
        await expect(page.locator("#trace")).to_be_hidden()
        await expect(bad.first).to_be_visible()
        assert look.complaints == []
