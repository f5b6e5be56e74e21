"""The page in German, in a real browser: what it says, and its names of presets."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import expect

from meteragent.report import guarantee, wording
from meteragent.report.language import use_language
from tests.integration.look import Site, serving_site

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site() -> AsyncIterator[Site]:
    """The server and the browser."""
    async with serving_site() as served:
        served.begin()
        yield served


async def test_a_german_page_says_what_check_says(site: Site) -> None:
    """Its promise is in the German words of `check`; presets have German names beside their own."""
    with use_language("de"):
        promise = wording.promise_lines(guarantee.compute_guarantee(site.world.stream))
    async with site.looking(language="de", viewport={"width": 360, "height": 800}) as look:
        await look.live(3)
        await look.tab("promise")
        await look.page.check("input[value=television]")
        await expect(look.page.locator("#preset-events tbody tr")).to_have_count(8)
        assert await look.page.evaluate("document.documentElement.lang") == "de"
        said = await look.page.locator("#hidden-promise, #hidden-formally p").all_inner_texts()
        assert said == promise
        names = await look.page.locator("#preset-choice strong").all_inner_texts()
        assert names == ["Gerät (Ihre)", "Fernsehen", "Straße", "Tag", "Rechnung", "Typischer Tag", "Spitze"]
        codes = await look.page.locator("#preset-choice code").all_inner_texts()
        assert codes == ["television", "street", "day", "bill", "typical-day", "peak"]
