"""The page in a real browser: what it shows, how it is used, and what another origin gets of it."""

import asyncio
import math
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from itertools import pairwise

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from meteragent.agent.page.guard import GUESS_S
from meteragent.core.arrivals import ArrivalRow
from meteragent.core.deadlines import Upcoming
from meteragent.domain.grid import iso_time
from meteragent.report import guarantee, wording
from meteragent.report.language import say
from tests.integration.look import DECISIVE, PICTURES, STEP_MS, Look, Site, serious, serving_site, tab, window
from tests.integration.service import now_ms, until
from tests.support.broker import free_port
from tests.support.page_world import TOKEN, PageWorld, delivered, named

pytestmark = pytest.mark.asyncio(loop_scope="module")

SECTIONS = ["crowd", "trace", "bands", "month", "hidden", "presets", "spent", "attack", "last", "health"]
CONTROLS = [
    "meter",
    "trace-numbers",
    "hidden-events",
    "preset",
    "preset-events",
    "spent-table",
    "health-meters",
    "health-counters",
]
JUDGED = {360: "dark", 1280: "light"}
"""Every width and every scheme once: axe takes its time."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site() -> AsyncIterator[Site]:
    """The server and the browser, for all tests."""
    async with serving_site() as served:
        yield served


@pytest.fixture(autouse=True)
def fresh(site: Site) -> None:
    """The world begins at the last boundary before now, with a day's records in its past."""
    site.begin()


async def test_it_shows_what_it_is_to_show_in_order(site: Site) -> None:
    """All sections are there in their order, nothing is complained of, and no request leaves the origin."""
    async with site.looking() as look:
        await look.live()
        shown = await look.page.locator("main > section").evaluate_all("all => all.map(one => one.id)")
        assert shown == SECTIONS
        assert await look.page.locator("h1, h2, h3").evaluate_all("all => all.every(one => one.innerText)")
        assert {url[: len(site.url)] for url in look.requests} == {site.url}
        assert await look.page.evaluate("document.documentElement.lang") == "en"


async def test_plots_move_with_what_happens(site: Site) -> None:
    """A reading moves the plot, and so does a release, which is said in words as well."""
    async with site.looking() as look:
        world = look.world
        start_ms = world.clock_ms

        async def read() -> None:
            for minute in range(31):
                world.read(500, start_ms + minute * 60_000)
            world.now_ms = start_ms + STEP_MS + 1

        async def release() -> None:
            world.release(start_ms, 812)

        await look.changes(read)
        await look.changes(release)
        latest = look.page.locator("#trace-latest")
        await expect(latest).to_contain_text("500\u00a0W was measured. 812\u00a0W was sent")
        await expect(look.page.locator("#said")).to_contain_text("812\u00a0W was sent")


async def test_a_broker_that_is_not_connected_ends_live(site: Site) -> None:
    """At the top, the page says that a broker is not connected, and when it is connected again."""
    async with site.looking() as look:
        await look.live()
        for is_connected, text in ((False, "No connection to a broker: see Health"), (True, "Live")):
            site.world.sink_is_connected = is_connected
            await expect(look.page.locator("#line")).to_have_text(text)


async def test_the_table_holds_the_numbers(site: Site) -> None:
    """Beside the plot is a table of the same numbers, the newest first, with the band that is promised."""
    async with site.looking() as look:
        left = await look.live()
        await look.page.click("#trace-numbers summary")
        cells = look.page.locator("#trace-numbers tbody tr")
        await expect(cells.nth(3)).to_be_visible()
        rows = [
            [await cell.inner_text() for cell in await row.locator("td").all()] for row in await cells.all()
        ]
        assert [row[1].replace(",", "").replace("−", "-") for row in rows[:3]] == [str(n) for n in left[::-1]]
        half = look.world.descriptor.facts["ci95"]
        low, high = (float(text.replace(",", "").replace("−", "-")) for text in rows[0][3].split(" … "))
        assert math.isclose(high - low, 2 * half, rel_tol=0.01)
        assert rows[0][0] != "–"  # it was open all that slot
        assert rows[3][0] == "–"  # and not before


async def cells(page: Page, place: str) -> list[list[str]]:
    """Return the texts of a table's cells, row by row."""
    rows: list[list[str]] = await page.locator(f"#{place} tr").evaluate_all(
        "rows => rows.map(row => [...row.cells].map(cell => cell.innerText))"
    )
    return rows


async def test_it_judges_what_arrives_of_each_meter(site: Site) -> None:
    """One meter's row is folded; of several, each has its times, counts and judgement."""
    house = ArrivalRow("house", None, 1200, 7_000, 7_000, None)
    site.world.arrivals = (house,)
    async with site.looking() as look:
        await look.live()
        table = look.page.locator("#health-meters table")
        await expect(table).to_be_attached()
        await expect(table).to_be_hidden()
        shed = ArrivalRow("shed", None, 3, 90_000, None, "wrong_profile")
        site.world.arrivals = (house, shed)
        await expect(table).to_be_visible()
        assert await cells(look.page, "health-meters") == [
            ["Meter", "Messages", "Since the last message", "Since the last accepted reading", "Judgement"],
            ["house", "1,200", "7 sec", "7 sec", "OK"],
            ["shed", "3", "1 min 30 sec", "never heard", "wrong_profile"],
        ]
        await look.page.click("#health-meters summary")
        site.world.arrivals = (house._replace(phase="a"), shed._replace(phase="b"))
        await expect(table).to_be_hidden()
        await look.page.click("#health-meters summary")
        await expect(table.locator("th").nth(1)).to_have_text("Phase")


async def test_it_says_the_promise_as_check_does(site: Site) -> None:
    """What is hidden and what is not, the table of limits and warnings are in the words of `check`."""
    promised = guarantee.compute_guarantee(site.world.stream)
    async with site.looking() as look:
        await look.live()
        said = await look.page.locator("#hidden-promise p").all_inner_texts()
        assert said == wording.promise_lines(promised)
        assert await look.page.locator("#hidden-promise h3").all_inner_texts() == [say("guess.title")]
        shown = await cells(look.page, "hidden-events")
        assert shown == [list(row) for row in (wording.guess_columns(), *wording.guess_rows(promised))]
        for place, lines in (
            ("not", wording.exposed_sentences(promised)),
            ("warnings", [*promised.warnings]),
        ):
            assert await look.page.locator(f"#hidden-{place} li").all_inner_texts() == lines
        own = await look.page.locator("#preset-choice small").first.inner_text()
        assert own == wording.summary_line(promised)


async def test_the_limits_of_other_presets_are_shown(site: Site) -> None:
    """Each preset has the limits that `check` states; nothing is asked of the agent for it."""
    promises = site.world.view.streams[0].promises()
    async with site.looking() as look:
        await look.live()
        names = await look.page.locator("#preset-choice input").evaluate_all("all => all.map(a => a.value)")
        assert names == ["yours", *promises.presets]
        asked = len(look.requests)
        for name, promise in {"yours": promises.guarantee, **promises.presets}.items():
            await look.page.check(f"input[value={name}]")
            assert await cells(look.page, "preset-events") == [
                list(row) for row in (wording.guess_columns(), *wording.guess_rows(promise))
            ]
        assert len(look.requests) == asked


async def test_neighbours_are_compared(site: Site) -> None:
    """Of two slots in a row, it says how often the larger number had the larger use."""
    async with site.looking() as look:
        world = look.world
        for watts, quanta in ((100, 5), (200, 9), (100, 10), (50, 3)):
            start_ms = world.clock_ms
            for time_ms in range(start_ms, start_ms + STEP_MS, 60_000):
                world.read(watts, time_ms)
            world.now_ms = start_ms + STEP_MS
            world.release(start_ms, quanta)
        said = "With the readings: right in 3 of 3. With what was sent: right in 2 of 3."
        await expect(look.page.locator("#attack-pairs")).to_have_text(said)


async def test_another_stream_can_be_looked_at(site: Site) -> None:
    """Where there are several streams one is chosen; what was seen of the other is gone."""
    world, port = PageWorld(), free_port()
    world.now_ms = now_ms() // STEP_MS * STEP_MS
    [one] = world.view.streams
    world.view = replace(world.view, streams=[one, named(one, "second")])
    async with world.serving(port=port), window(site.browser) as page:
        look = Look(world, page)
        await look.open(f"http://127.0.0.1:{port}/")
        await look.live(1)
        await page.select_option("#stream", "second")
        await expect(page.locator("#trace-latest")).to_have_text("Nothing has been sent yet.")
        await until(lambda: [viewer.stream for viewer in world.viewers._open] == ["second"])
        assert look.complaints == []


async def test_the_keyboard_reaches_everything(site: Site) -> None:
    """By keyboard alone: the skip link first, then all controls in order, each with a visible focus."""
    async with site.looking() as look:
        page, met = look.page, list[str]()
        while (focus := await tab(page)).place != "BODY":
            assert focus.outline == "solid 3px", focus
            if focus.place == "trace-numbers" and "trace-numbers" not in met:
                await page.keyboard.press("Enter")
                await expect(page.locator("#trace-numbers")).to_have_attribute("open", "")
            if focus.place == "preset":
                await page.keyboard.press("ArrowDown")
                await expect(page.locator("#preset-choice input").nth(1)).to_be_checked()
            met.append(focus.place)
        assert [place for place in dict.fromkeys(met) if place in CONTROLS] == CONTROLS
        await page.goto(site.url)
        await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")
        assert await page.evaluate("document.activeElement.id") == "main"


@pytest.mark.parametrize("width", JUDGED)
async def test_it_is_fit_for_everybody(site: Site, width: int) -> None:
    """At 360 and 1280 px, light and dark: no serious finding of axe, no scrolling sideways, and a picture."""
    async with site.looking(viewport={"width": width, "height": 900}, color_scheme="light") as look:
        await look.live(6)
        payload = look.world.record(look.world.clock_ms, 512)
        look.world.last = delivered("private/house/power", payload, look.world.clock_ms)
        await expect(look.page.locator("#last-payload")).to_have_text(payload.decode())
        for summary in await look.page.locator("summary:visible").all():
            await summary.click()
        await look.page.check("input[value=television]")
        PICTURES.mkdir(parents=True, exist_ok=True)
        await look.page.screenshot(path=PICTURES / f"{width}-light.png", full_page=True)
        if JUDGED[width] == "light":
            assert await serious(look.page) == []
        await look.changes(partial(look.page.emulate_media, color_scheme="dark"))
        await look.page.screenshot(path=PICTURES / f"{width}-dark.png", full_page=True)
        if JUDGED[width] == "dark":
            assert await serious(look.page) == []
        assert await look.page.evaluate("document.documentElement.scrollWidth") == width


async def test_the_decisive_columns_are_seen_on_a_phone(site: Site) -> None:
    """At 390 px every column of the limits and the numbers is inside its section, unscrolled."""
    async with site.looking(viewport={"width": 390, "height": 844}) as look:
        await look.live(6)
        for summary in await look.page.locator("summary:visible").all():
            await summary.click()
        for place in DECISIVE:
            assert await look.hidden_width(place) == 0, place


async def test_no_two_landmarks_have_one_name(site: Site) -> None:
    """Whoever goes from landmark to landmark hears a name of its own at each."""
    async with site.looking() as look:
        await look.live(1)
        for summary in await look.page.locator("summary:visible").all():
            await summary.click()
        names = await look.landmarks()
        assert len({name for name in names if name}) == len(names) == 20


async def test_it_promises_only_the_number_that_leaves(site: Site) -> None:
    """It names the first slot that is sent, and when its number leaves; once it is open, its mean so far."""
    async with site.looking(timezone_id="UTC") as look:
        world, start_ms = look.world, look.world.clock_ms
        world.history, following_ms = [], start_ms + STEP_MS
        world.upcoming = Upcoming(following_ms, following_ms + STEP_MS, following_ms + STEP_MS + 60_000)
        await look.page.reload()
        # Before midnight, a time of the next day has its date.
        hours = [
            rf"(?:\w+ \d+, )?{iso_time(following_ms + after_ms)[11:16]}"
            for after_ms in (0, STEP_MS, STEP_MS + 60_000)
        ]
        rest = f"to {hours[1]} and is due at {hours[2]}"
        later = look.page.locator("#trace-next")
        await expect(later).to_contain_text(re.compile(rf"it covers {hours[0]} {rest}\."))
        for minute in range(31):
            world.read(500, following_ms + minute * 60_000)
        world.now_ms = following_ms + 1_200_000
        await expect(later).to_contain_text(
            re.compile(f"The slot from {hours[0]} to {hours[1]} is open. Measured so far: 500\u00a0W")
        )
        await expect(later).to_contain_text(re.compile(rf"Its number is due at {hours[2]}\."))
        world.upcoming = None


async def test_it_keeps_still_for_who_asks(site: Site) -> None:
    """With reduced motion readings do not move the plot at once; a release does."""
    async with site.looking(reduced_motion="reduce") as look:
        await look.live(1)
        before = await look.drawn()
        for time_ms in range(look.world.clock_ms, look.world.clock_ms + 600_000, 60_000):
            look.world.read(1500, time_ms)
        await asyncio.sleep(1)
        assert await look.drawn() == before

        async def release() -> None:
            look.world.release(look.world.clock_ms, 321)

        await look.changes(release)


async def test_it_speaks_once(site: Site) -> None:
    """What is read aloud is one sentence in five seconds at most, however much leaves, and of no reading."""
    async with site.looking() as look:
        await look.page.evaluate(
            """() => {
              const place = document.getElementById("said");
              window.said = [];
              const note = () => window.said.push([performance.now(), place.innerText]);
              new MutationObserver(note).observe(place, { childList: true });
            }"""
        )
        for _ in range(4):
            await look.live(1)
        said = await look.page.evaluate("window.said")
        assert said
        assert all(after[0] - before[0] > 4900 for before, after in pairwise(said))
        assert all("was sent" in text for _, text in said)
        await expect(look.page.locator("#said")).to_have_attribute("aria-live", "polite")


async def test_another_origin_gets_nothing(site: Site) -> None:
    """A page of another origin of this very machine can neither read, embed nor listen to anything."""
    async with site.looking(is_refused=True) as look:
        await look.page.goto(site.url)
        inner = await look.page.goto(site.url.replace("127.0.0.1", "localhost") + "texts.json")
        assert inner is not None
        got = await look.page.evaluate(
            """async target => {
              const tried = {};
              for (const path of ["", "facts.json", "events", "static/page.js"])
                for (const mode of ["cors", "no-cors"])
                  tried[path + mode] =
                    await fetch(target + path, { mode }).then(() => "got", () => "refused");
              tried.events = await new Promise(done => { const source = new EventSource(target + "events");
                source.onopen = () => done("got"); source.onerror = () => done("refused"); });
              return tried;
            }""",
            site.url,
        )
        assert set(got.values()) == {"refused"}


async def test_another_name_gets_nothing(site: Site) -> None:
    """A name that leads to this machine and is not its own gets nothing, on any path (DNS rebinding)."""
    async with site.looking(is_refused=True) as look:
        for path in ("", "facts.json", "events", "static/page.js"):
            answer = await look.page.goto(site.url.replace("127.0.0.1", "evil.example") + path)
            assert answer is not None
            assert answer.status == 421
            assert "page.hosts" in await answer.text()


async def test_a_restart_does_not_lose_the_trace(site: Site) -> None:
    """While the agent is away the page says so; when it is back, what it has seen is still there."""
    world, port = PageWorld(), free_port()
    async with window(site.browser) as page:
        look = Look(world, page)
        world.now_ms = now_ms() // STEP_MS * STEP_MS
        async with world.serving(port=port):
            await look.open(f"http://127.0.0.1:{port}/")
            await look.live(2)
        await expect(look.page.locator("#line")).to_have_attribute("data-state", "lost")
        async with world.serving(port=port):
            await expect(look.page.locator("#line")).to_have_attribute("data-state", "open")
            await look.live(1)
            await look.page.click("#trace-numbers summary")
            await expect(look.page.locator("#trace-numbers tbody tr")).to_have_count(3)


async def test_who_has_the_token_gets_in(site: Site) -> None:
    """With a token there is a form first: a wrong one stays there, the right one opens the page."""
    world, port = PageWorld(), free_port()
    async with (
        world.serving(port=port, token=TOKEN, hosts=frozenset({"gateway.local"})),
        window(site.browser) as page,
    ):
        await page.goto(f"http://gateway.local:{port}/")
        await expect(page).to_have_title("meteragent: log in")
        assert await serious(page) == []
        for token in ("wrong", TOKEN.decode()):
            await page.fill("#token", token)
            await page.keyboard.press("Enter")
            if token == "wrong":
                await expect(page.locator(".wrong")).to_have_text("That is not the token.")
                await asyncio.sleep(GUESS_S)
        await expect(page.locator("#line")).to_have_attribute("data-state", "open")
        assert await page.evaluate("document.cookie") == ""
