"""Looking at the page: a browser's window on it, what it asked for, and what it complained of."""

import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from axe_playwright_python.async_playwright import Axe  # type: ignore[import-untyped]
from playwright.async_api import Browser, Page, Request, expect

from meteragent.agent.page import app
from meteragent.domain.units import HOUR_MS
from tests.integration.browser import chromium
from tests.integration.service import now_ms, until
from tests.support.broker import free_port
from tests.support.not_run import ROOT
from tests.support.page_world import PageWorld

STEP_MS = HOUR_MS // 2
TABS = ("now", "history", "promise", "receivers", "problems")
"""The tabs that every page of numbers has, in their order."""
WIDTHS = (320, 360, 768, 1280)
"""The widths at which nothing is cut off."""
PICTURES = ROOT / "demo-out" / "page"


class Site(NamedTuple):
    """A page's server with its world, and the browser that looks at it."""

    world: PageWorld
    url: str
    browser: Browser

    def begin(self) -> None:
        """Set the world to the last boundary before now, with a day's records in its past."""
        world = self.world
        world.now_ms = now_ms() // STEP_MS * STEP_MS
        world.history = [
            world.record(world.now_ms - i * STEP_MS, 400 + 50 * (i % 7)) for i in range(12, 0, -1)
        ]
        world.last = world.upcoming = None
        world.arrivals, world.problems = (), []
        world.counts.clear()
        world.timelines.clear()

    @asynccontextmanager
    async def looking(
        self, *, is_refused: bool = False, language: str = "en", **options: Any
    ) -> AsyncIterator["Look"]:
        """Open the page in a window of its own; fail if the browser complains of anything."""
        async with window(self.browser, **{"locale": language, **options}) as page:
            look = Look(self.world, page, language)
            if is_refused:
                look.refused = True  # which the browser complains of
            else:
                await look.open(self.url)
            yield look
        await until(lambda: not self.world.viewers)
        assert look.refused or look.complaints == []


@asynccontextmanager
async def serving_site() -> AsyncIterator[Site]:
    """Run the page's server and a browser until the block ends."""
    app.STATE_S, usual_s = 0.2, app.STATE_S
    world, port = PageWorld(), free_port()
    # Names that lead to this machine, as an attacker's may.
    rules = "--host-resolver-rules=MAP evil.example 127.0.0.1, MAP gateway.local 127.0.0.1"
    try:
        async with world.serving(port=port), chromium(rules) as browser:
            yield Site(world, f"http://127.0.0.1:{port}/", browser)
    finally:
        app.STATE_S = usual_s


@asynccontextmanager
async def window(browser: Browser, **options: Any) -> AsyncIterator[Page]:
    """Open a separate browser window without history."""
    context = await browser.new_context(**options)
    try:
        yield await context.new_page()
    finally:
        await context.close()


class Look:
    """One open page, the requests it made, and what it complained of."""

    def __init__(self, world: PageWorld, page: Page, language: str = "en") -> None:
        self.world = world
        self.language = language
        self.page = page
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.refused = False
        self._generator = random.Random(11)
        page.on("request", self._on_request)
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def _on_request(self, request: Request) -> None:
        self.requests.append(request.url)

    async def open(self, url: str) -> None:
        """Open the page and wait until it knows what time it is."""
        await self.page.goto(url)
        await expect(self.page.locator("#line")).to_have_attribute("data-state", "open")
        await expect(self.page.locator("#spent-table table")).to_be_attached()

    async def tab(self, name: str) -> None:
        """Show the panel of a tab, with all that is folded in it."""
        await self.page.click(f"#tab-{name}")
        for summary in await self.page.locator("details:not([open]) > summary:visible").all():
            await summary.click()

    async def drawn(self, place: str = "trace-plot") -> str:
        """Return a plot as it is drawn at this moment."""
        data_url: str = await self.page.evaluate(
            "place => document.querySelector(`#${place} canvas`).toDataURL()", place
        )
        return data_url

    async def changes(self, act: Callable[[], Awaitable[object]], place: str = "trace-plot") -> None:
        """Perform an action, and wait until the plot changes."""
        before = await self.drawn(place)
        await act()
        await self.page.wait_for_function(
            "([place, before]) => document.querySelector(`#${place} canvas`).toDataURL() !== before",
            arg=[place, before],
        )

    async def landmarks(self) -> list[str]:
        """Return the names of the landmarks that are shown."""
        kinds = (
            "section[aria-label], section[aria-labelledby], [role=region], [role=tabpanel], [role=tablist]"
        )
        places = self.page.locator(f":is({kinds}):visible")
        names: list[str] = await places.evaluate_all(
            """all => all.map(one => one.getAttribute("aria-label")
                || document.getElementById(one.getAttribute("aria-labelledby")).textContent)"""
        )
        return names

    async def cut_off(self) -> list[str]:
        """Return what of the shown panel is out of sight sideways: of its container, its cell or the page."""
        places: list[str] = await self.page.evaluate(
            """() => {
              const cells = ".wide, td, th, dt, dd, li, p, b, strong, code, [role=tab]";
              const shown = [...document.querySelectorAll("body *")].filter(one => one.checkVisibility()
                && !one.closest(".unseen, .skip, caption, svg, select"));
              const isCut = one => {
                const { left, right } = one.getBoundingClientRect();
                const frame = (one.closest(".wide, section, .tabs") || document.body).getBoundingClientRect();
                const written = [...one.childNodes].filter(node => node.nodeType === 3 && node.data.trim());
                const texts = written.map(node => {
                  const range = document.createRange();
                  range.selectNodeContents(node);
                  return range.getBoundingClientRect();
                });
                return left < -1 || right > innerWidth + 1
                  || one.matches(cells) && one.clientWidth > 0 && one.scrollWidth > one.clientWidth + 1
                  || texts.some(text => text.right > frame.right + 1 || text.left < frame.left - 1);
              };
              const name = one => `${one.tagName} ${one.closest("[id]")?.id} ${one.textContent.slice(0, 40)}`;
              return shown.filter(isCut).map(name);
            }"""
        )
        return places

    async def live(self, slots: int = 3) -> list[int]:
        """Let slots pass, with their readings and records; return the released values."""
        generator, left = self._generator, list[int]()
        for _ in range(slots):
            start_ms = self.world.clock_ms
            for time_ms in range(start_ms, start_ms + STEP_MS, 60_000):
                self.world.read(generator.choice([80, 90, 2000, 300]), time_ms)
            self.world.now_ms = start_ms + STEP_MS
            left.append(generator.randint(-300, 900))
            self.world.release(start_ms, left[-1])
        await expect(self.page.locator("#sent")).to_have_text(f"{left[-1]}\u00a0W".replace("-", "−"))
        return left


class Focus(NamedTuple):
    """Where the keyboard is, and how that is seen."""

    place: str
    outline: str


async def tab(page: Page) -> Focus:
    """Press Tab, and return where it leads."""
    await page.keyboard.press("Tab")
    focus = await page.evaluate(
        """() => {
          const { activeElement: one } = document, style = getComputedStyle(one);
          return [one.id || one.name || one.closest("[id]")?.id || one.tagName,
                  `${style.outlineStyle} ${style.outlineWidth}`];
        }"""
    )
    return Focus(*focus)


async def serious(page: Page) -> list[str]:
    """Return the serious and critical violations that axe finds."""
    broken_rules = (await Axe().run(page)).response["violations"]
    return [rule["id"] for rule in broken_rules if rule["impact"] in {"serious", "critical"}]
