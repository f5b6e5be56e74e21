"""The page in a real browser, on what left: bands, tariffs, 30 days, the budget, and readouts of plots."""

from collections.abc import AsyncIterator
from fractions import Fraction
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from meteragent.agent.page import app
from meteragent.agent.page import view as page_module
from meteragent.domain.commit import Outgoing
from meteragent.domain.units import DAY_MS
from tests.integration.browser import chromium
from tests.integration.look import STEP_MS, TABS, Look, Site, serious
from tests.integration.service import now_ms
from tests.support.broker import free_port
from tests.support.not_run import ROOT
from tests.support.page_world import PageWorld, tariff_world

pytestmark = pytest.mark.asyncio(loop_scope="module")

PICTURES = ROOT / "demo-out" / "page"
PLACE: Any = {"timezone_id": "Europe/Amsterdam", "locale": "en"}
OCTOBER = ["day 14.2 11.2 … 17.2", "evening 70.4 67.4 … 73.4", "night 91 88 … 94", "unknown 0.3 −2.7 … 3.3"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site() -> AsyncIterator[Site]:
    """A server whose stream sends the energy of bands each month, and the browser."""
    app.STATE_S, usual_s = 0.2, app.STATE_S
    world, port = tariff_world(), free_port()
    try:
        async with world.serving(port=port), chromium() as browser:
            yield Site(world, f"http://127.0.0.1:{port}/", browser)
    finally:
        app.STATE_S = usual_s


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def days(site: Site) -> AsyncIterator[Site]:
    """A server whose stream sends a number each half hour, with 30 days of them, and the same browser."""
    world, port = PageWorld(), free_port()
    world.now_ms = now_ms() // DAY_MS * DAY_MS + 1
    starts_ms = range(world.now_ms - 1 - 30 * DAY_MS, world.now_ms - 1, STEP_MS)
    world.history = [world.record(start_ms, start_ms // DAY_MS % 7 * 100) for start_ms in starts_ms]
    async with world.serving(port=port):
        yield Site(world, f"http://127.0.0.1:{port}/", site.browser)


async def rows(page: Page, place: str) -> list[str]:
    """The texts of a table's rows, without their first cell."""
    found: list[str] = await page.locator(f"#{place} tbody tr").evaluate_all(
        "all => all.map(row => [...row.cells].slice(1).map(cell => cell.innerText).join(' '))"
    )
    return found


async def test_closed_months_are_shown_with_their_errors(site: Site) -> None:
    """Each band of a closed month has the number sent and its interval, the newest month first."""
    async with site.looking(**PLACE) as look:
        await expect(look.page.locator("#bands-table tbody tr")).to_have_count(8)
        await look.tab("history")
        assert (await rows(look.page, "bands-table"))[:4] == OCTOBER
        first = look.page.locator("#bands-table tbody th").first
        await expect(first).to_have_text("Oct 1 – Oct 31")
        await expect(look.page.locator("#next-about")).to_have_text("sent on Dec 1, 00:01")
        await expect(look.page.locator("#sent")).to_have_text("176\u00a0kWh")
        await expect(look.page.locator("#sent-about")).to_have_text("4 bands, Oct 1 – Oct 31")
        await expect(look.page.locator("#bands-none")).to_be_hidden()


async def test_the_cheapest_tariff_is_named_with_how_sure_it_is(site: Site) -> None:
    """The newest month's costs stand in a table; every month says which tariff was the cheapest."""
    async with site.looking(**PLACE) as look:
        said = look.page.locator("#tariffs-cheapest")
        await expect(said).to_contain_text("Oct 1 – Oct 31: night would have cost the least, 51.4\u00a0EUR")
        await expect(said).to_contain_text("Confidence: 99.9%.")
        await expect(look.page.locator("#tariffs-earlier li")).to_have_count(1)
        assert [row.split()[0] for row in await rows(look.page, "tariffs-table")] == ["62.3", "51.4"]


async def test_without_tariffs_it_says_so(site: Site) -> None:
    """Without a tariff a sentence explains how to get a comparison."""
    tariffs, site.world.tariffs = site.world.tariffs, ()
    try:
        async with site.looking(**PLACE) as look:
            await expect(look.page.locator("#tariffs-cheapest")).to_contain_text(
                "no window yet whose bands all have prices"
            )
            await expect(look.page.locator("#tariffs-table")).to_have_attribute("hidden", "")
    finally:
        site.world.tariffs = tariffs


async def test_the_budget_is_stated(site: Site) -> None:
    """What remains is a level and a number of windows, also in the first figures; or that there is none."""
    world = site.world
    async with site.looking(**PLACE) as look:
        bar = look.page.locator("#limit-bar")
        said = look.page.locator("#spent-budget")
        await expect(said).to_contain_text("No budget is set")
        epsilon, end_ms = look.world.descriptor.terms.epsilon_per_w, world.now_ms + DAY_MS
        world.allowance = page_module.Allowance(5 * epsilon, 2 * epsilon, 0, end_ms)
        await expect(said).to_contain_text("a level of 3 is left of the 5 allowed")
        await expect(said).to_contain_text("Number of further windows for which that is enough: 3.")
        await expect(look.page.locator("#limit-about")).to_contain_text("Budget: 2 of 5 spent, until ")
        assert await bar.evaluate("one => one.position") == pytest.approx(2 / 5)
        world.allowance = page_module.Allowance(5 * epsilon, 5 * epsilon - Fraction(1, 10**9), 0, end_ms)
        await expect(said).to_contain_text("too little for another window")
        world.allowance = None


async def test_bands_have_no_place_on_the_trace(site: Site) -> None:
    """A stream of bands shows the readings alone, and says what leaves; a new number is read aloud."""
    async with site.looking(**PLACE) as look:
        await expect(look.page.locator("#sent-about")).to_contain_text("bands")
        for place in ("#trace .key li + li", "#trace-reader", "#off-tile"):
            await expect(look.page.locator(place).first).to_be_hidden()
        await expect(look.page.locator("#numbers")).to_have_attribute("hidden", "")
        payload = look.world.history[0].replace(b"2026-09", b"2026-11").replace(b"2026-08", b"2026-10")
        look.world.viewers.queue_records("main", [page_world_row(payload)])
        await expect(look.page.locator("#said")).to_contain_text("kWh was sent for the band")


def page_world_row(payload: bytes) -> Outgoing:
    """A record on the topic of the meter."""
    return Outgoing("main", "private/house/power", payload, 0, False)


@pytest.mark.parametrize("width", [320, 1280])
async def test_it_is_fit_for_everybody(site: Site, width: int) -> None:
    """On a phone and on a desk: no serious finding of axe, nothing cut off, and a picture of each tab."""
    async with site.looking(viewport={"width": width, "height": 900}, **PLACE) as look:
        await expect(look.page.locator("#tariffs-table table")).to_be_attached()
        for name in TABS:
            await look.tab(name)
            assert "\n".join(await look.cut_off()) == "", name
            await look.page.screenshot(path=PICTURES / f"bands-{width}-{name}.png", full_page=True)
            assert await serious(look.page) == [], name
            assert await look.page.evaluate("document.documentElement.scrollWidth") == width


async def slider(look: Look) -> list[str]:
    """What the slider of the 30 days says, to the eye and to a screen reader."""
    output = await look.page.locator("#month-reader output").inner_text()
    said = await look.page.locator("#month-reader input").get_attribute("aria-valuetext")
    return [output, said or ""]


async def test_days_are_read_with_the_mouse(days: Site) -> None:
    """The day under the mouse is read in words, with its interval; it stays when the mouse has left."""
    async with days.looking(timezone_id="UTC", locale="en") as look:
        await look.tab("history")
        place = look.page.locator("#month-plot canvas")
        await expect(look.page.locator("#month-reader input")).to_be_visible()
        await expect(look.page.locator("#month-reader output")).to_have_text("")
        await place.hover(position={"x": 60, "y": 50})
        output, said = await slider(look)
        assert output == said
        await look.page.mouse.move(0, 0)
        assert await slider(look) == [output, said]
        cells = look.page.locator("#month-numbers tbody tr").last
        day, energy = [await cell.inner_text() for cell in (cells.locator("th"), cells.locator("td").first)]
        assert output.startswith(f"{day}: {energy}\u00a0kWh, 95% interval")


async def test_days_are_read_with_keys_and_by_touch(days: Site) -> None:
    """Arrow keys move from day to day; a finger on the plot chooses the day below it."""
    async with days.looking(timezone_id="UTC", locale="en", has_touch=True) as look:
        await look.tab("history")
        await expect(look.page.locator("#month-reader")).to_be_visible()
        await look.page.locator("#month-reader input").focus()
        read = []
        for _ in range(2):
            await look.page.keyboard.press("ArrowLeft")
            read.append((await slider(look))[0])
        await look.page.keyboard.press("Home")
        read.append((await slider(look))[0])
        assert len(set(read)) == 3
        await look.page.locator("#month-plot canvas").tap()
        assert (await slider(look))[0] not in read
