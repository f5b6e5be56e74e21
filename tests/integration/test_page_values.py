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
        await expect(place("#sent")).to_have_text("1.13\u00a0EUR")
        about = "Oct 1, 00:00 – Nov 1, 00:00, ± 0.149\u00a0EUR in 95%"
        await expect(place("#sent-about")).to_have_text(about)
        for hidden in ("#trace .key li + li", "#trace-reader", "#off-tile"):
            await expect(place(hidden).first).to_be_hidden()
        november = world.window(NOVEMBER_MS, 4000)[0]
        world.viewers.queue_records("main", [Outgoing("main", "private/house/power", november, 0, False)])
        await expect(place("#said")).to_have_text("1.8\u00a0EUR was sent for Nov 1, 00:00 to Dec 1, 00:00.")
        await expect(place("#sent")).to_have_text("1.8\u00a0EUR")


@pytest.mark.parametrize("source", ["unit = 'kW'", REGISTER])
async def test_a_peak_is_a_power(browser: Browser, source: str) -> None:
    """The largest mean of a month is not divided by the hours of the month, whatever was read."""
    world = after_october(2520, written(source=source, window=MONTHS, privacy="preset = 'peak'"))
    async with looking(browser, world) as look:
        await expect(look.page.locator("#sent")).to_have_text("2.52\u00a0kW")
        await expect(look.page.locator("#sent-about")).to_contain_text("Oct 1, 00:00 – Nov 1, 00:00")


async def test_an_energy_above_a_threshold_is_shown_as_power(browser: Browser) -> None:
    """The energy above a threshold, divided by the length of its slot, is the mean excess of the power."""
    world = after_october(250, written(window="threshold = 3000"))
    async with looking(browser, world) as look:
        await expect(look.page.locator("#sent")).to_have_text("500\u00a0W")
        await expect(look.page.locator("#sent-about")).to_contain_text("Oct 1, 00:00 – 00:30")
