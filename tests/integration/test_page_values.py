"""The page of streams that send amounts, peaks or energies above a threshold, in a real browser."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from meteragent.domain.commit import Outgoing
from meteragent.domain.grid import parse_time
from tests.integration.browser import chromium
from tests.integration.look import Look, window
from tests.support.broker import free_port
from tests.support.configurations import written
from tests.support.page_world import PageWorld
from tests.support.weighted import PRICES

pytestmark = pytest.mark.asyncio(loop_scope="module")

MONTHS = "length = '1mo'\ntimezone = 'UTC'"
OCTOBER_MS, NOVEMBER_MS = map(parse_time, ("2026-10-01T00:00:00Z", "2026-11-01T00:00:00Z"))
REGISTER = "kind = 'register'\nunit = 'kWh'\nevery = '10s'\ndead_band = 0.001"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    """A browser."""
    async with chromium() as running:
        yield running


@asynccontextmanager
async def looking(browser: Browser, world: PageWorld) -> AsyncIterator[Look]:
    """Open a world's page in English, in UTC."""
    port = free_port()
    async with world.serving(port=port), window(browser, locale="en", timezone_id="UTC") as page:
        look = Look(world, page)
        await look.open(f"http://127.0.0.1:{port}/")
        yield look
        assert look.complaints == []


def after_october(quanta: int, text: str) -> PageWorld:
    """Return a world in which the number of October was sent."""
    world = PageWorld(text=text)
    world.now_ms = NOVEMBER_MS + 1
    world.history = world.window(OCTOBER_MS, quanta)
    return world


@pytest.mark.parametrize("source", ["unit = 'W'", REGISTER])
async def test_an_amount_is_not_shown_as_power(browser: Browser, source: str) -> None:
    """An amount is shown in its unit, with its band, and not in a plot of power."""
    world = after_october(2520, written(source=source, window=MONTHS, privacy="hide = '110Wh'") + PRICES)
    async with looking(browser, world) as look:
        place = look.page.locator
        latest = "Oct 1, 00:00 – Nov 1, 00:00: 1.13 EUR sent, 95% band 0.985 EUR to 1.28 EUR."
        await expect(place("#trace-latest")).to_have_text(latest.replace(" EUR", "\u00a0EUR"))
        for hidden in ("#trace .key li + li", "#trace-numbers", "#trace-reader", "#attack-order"):
            await expect(place(hidden).first).to_be_hidden()
        november = world.window(NOVEMBER_MS, 4000)[0]
        world.viewers.queue_records("main", [Outgoing("main", "private/house/power", november, 0, False)])
        await expect(place("#said")).to_have_text("1.8\u00a0EUR was sent for Nov 1, 00:00 to Dec 1, 00:00.")
        await expect(place("#trace-latest")).to_contain_text("1.8\u00a0EUR sent, 95% band")


@pytest.mark.parametrize("source", ["unit = 'kW'", REGISTER])
async def test_a_peak_is_a_power(browser: Browser, source: str) -> None:
    """The largest mean of a month is not divided by the hours of the month, whatever was read."""
    world = after_october(2520, written(source=source, window=MONTHS, privacy="preset = 'peak'"))
    async with looking(browser, world) as look:
        latest = "From Oct 1, 00:00 to Nov 1, 00:00, 2.52\u00a0kW was sent."
        await expect(look.page.locator("#trace-latest")).to_contain_text(latest)


async def test_an_energy_above_a_threshold_is_shown_as_power(browser: Browser) -> None:
    """The energy above a threshold, divided by the length of its slot, is the mean excess of the power."""
    world = after_october(250, written(window="threshold = 3000"))
    async with looking(browser, world) as look:
        latest = "From Oct 1, 00:00 to Oct 1, 00:30, 500\u00a0W was sent."
        await expect(look.page.locator("#trace-latest")).to_contain_text(latest)
