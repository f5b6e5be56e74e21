"""The page in German, in a real browser: its words fit a phone, and its names differ from each other."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import expect

from meteragent.core.arrivals import ArrivalRow
from meteragent.report import guarantee, wording
from meteragent.report.language import use_language
from tests.integration.look import DECISIVE, PICTURES, Site, serving_site

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site() -> AsyncIterator[Site]:
    """The server and the browser."""
    async with serving_site() as served:
        served.begin()
        yield served


async def test_a_german_page_fits_a_phone(site: Site) -> None:
    """Its longer words fit 360 px, and its decisive columns 390 px; it says in German what `check` does."""
    with use_language("de"):
        promise = wording.promise_lines(guarantee.compute_guarantee(site.world.stream))
    phases = [ArrivalRow("Wohnung oben", phase, 86_400, 3_725_000, None, "wrong_profile") for phase in "abc"]
    site.world.arrivals = tuple(phases)
    async with site.looking(language="de", viewport={"width": 360, "height": 800}) as look:
        await look.live(3)
        await expect(look.page.locator("#health-meters")).to_be_visible()
        for summary in await look.page.locator("summary:visible").all():
            await summary.click()
        await look.page.check("input[value=television]")
        await expect(look.page.locator("#preset-events tbody tr")).to_have_count(8)
        assert await look.page.evaluate("document.documentElement.lang") == "de"
        assert await look.page.locator("#hidden-promise p").all_inner_texts() == promise
        names = await look.landmarks()
        assert len({name for name in names if name}) == len(names) == 20
        PICTURES.mkdir(parents=True, exist_ok=True)
        await look.page.screenshot(path=PICTURES / "360-de.png", full_page=True)
        assert await look.page.evaluate("document.documentElement.scrollWidth") == 360
        await look.page.set_viewport_size({"width": 390, "height": 844})
        for place in DECISIVE:
            assert await look.hidden_width(place) == 0, place
