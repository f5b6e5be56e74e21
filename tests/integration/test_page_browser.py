"""The page in a real browser: what it shows, how it is used, and what another origin gets of it."""

import asyncio
import math
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any, Literal

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from meteragent.agent.page.guard import GUESS_S
from meteragent.config.model import Receiver
from meteragent.core.arrivals import ArrivalRow
from meteragent.core.deadlines import Upcoming
from meteragent.domain.grid import iso_time
from meteragent.domain.problem import make_problem
from meteragent.report import guarantee, wording
from meteragent.report.language import say
from tests.integration.look import (
    PICTURES,
    STEP_MS,
    TABS,
    WIDTHS,
    Look,
    Site,
    serious,
    serving_site,
    tab,
    window,
)
from tests.integration.service import now_ms, until
from tests.support.broker import free_port
from tests.support.page_world import TOKEN, PageWorld, delivered, named

pytestmark = pytest.mark.asyncio(loop_scope="module")

SECTIONS = {
    "now": ["figures", "trace", "lists"],
    "history": ["month", "numbers"],
    "promise": ["hidden", "presets", "spent"],
    "receivers": ["who", "last"],
    "problems": ["health"],
}
EVENTS = {
    "hidden": ["which programme was on, 1 h 55%", "a kettle 70%", "a TV evening 70%"],
    "open": [
        "a washing machine 93%",
        "the oven, 45 min 100%",
        "8 h away 98%",
        "a day away 100%",
        "a week away 100%",
        "a kettle, every day 100%",
        "a TV evening, every day 100%",
    ],
}
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
CONTROLS = {
    "now": ["trace-reader"],
    "history": ["trace-numbers"],
    "promise": ["hidden-events", "preset", "preset-events", "spent-table"],
    "receivers": ["receivers-table", "last-payload"],
    "problems": ["health-counters"],
}


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
    """Each tab has its sections in their order, nothing is complained of, all requests go to the origin."""
    async with site.looking() as look:
        await look.live()
        tabs = look.page.locator("[role=tab]:visible")
        assert await tabs.evaluate_all("all => all.map(one => one.id.slice(4))") == [*SECTIONS]
        for name, sections in SECTIONS.items():
            await look.tab(name)
            await expect(look.page.locator(f"#tab-{name}")).to_have_attribute("aria-selected", "true")
            shown = look.page.locator("main section:visible")
            assert await shown.evaluate_all("all => all.map(one => one.id)") == sections
            heads = look.page.locator(":is(h1, h2, h3):visible")
            assert await heads.evaluate_all("all => all.every(one => one.innerText)")
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
        await expect(look.page.locator("#sent")).to_have_text("812\u00a0W")
        await expect(look.page.locator("#off")).to_have_text("312\u00a0W")
        await expect(look.page.locator("#off-about")).to_have_text("500\u00a0W measured on average")
        await expect(look.page.locator("#said")).to_contain_text("812\u00a0W was sent")


async def test_the_plot_shows_what_was_measured_and_what_was_sent(site: Site) -> None:
    """Of the newest slot, the line of the larger number is the higher one, each in its colour."""
    async with site.looking(color_scheme="light") as look:
        start_ms = look.world.clock_ms
        for minute in range(31):
            look.world.read(100, start_ms + minute * 60_000)
        look.world.now_ms = start_ms + STEP_MS + 1
        look.world.release(start_ms, 900)
        await expect(look.page.locator("#off")).to_have_text("800\u00a0W")
        heights: list[float] = await look.page.evaluate(
            """colours => {
              const canvas = document.querySelector("#trace-plot canvas");
              const [left, width] = [Math.round(canvas.width * 0.9), Math.round(canvas.width * 0.06)];
              const { data } = canvas.getContext("2d").getImageData(left, 0, width, canvas.height);
              return colours.map(colour => {
                const rows = [];
                for (let at = 0; at < data.length; at += 4)
                  if (colour.every((part, i) => data[at + i] === part)) rows.push(Math.floor(at / 4 / width));
                return rows.reduce((sum, row) => sum + row, 0) / rows.length;
              });
            }""",
            [[176, 65, 0], [11, 92, 173]],
        )
        measured_px, sent_px = heights
        assert 0 < sent_px < measured_px - 20


async def test_a_broker_that_is_not_connected_ends_live(site: Site) -> None:
    """At the top, the page says that a broker is not connected, and when it is connected again."""
    async with site.looking() as look:
        await look.live()
        for is_connected, text in ((False, "No connection to a broker: see Problems"), (True, "Live")):
            site.world.sink_is_connected = is_connected
            await expect(look.page.locator("#line")).to_have_text(text)


async def test_the_table_holds_the_numbers(site: Site) -> None:
    """Beside the plot is a table of the same numbers, the newest first, with the band that is promised."""
    async with site.looking() as look:
        left = await look.live()
        await look.tab("history")
        cells = look.page.locator("#trace-numbers tbody tr")
        await expect(cells.nth(3)).to_be_visible()
        rows = [
            [await cell.inner_text() for cell in await row.locator("td").all()] for row in await cells.all()
        ]
        assert [row[1].replace(",", "").replace("−", "-") for row in rows[:3]] == [str(n) for n in left[::-1]]
        half = float(look.world.descriptor.facts["ci95"])
        assert math.isclose(float(rows[0][3]), half, rel_tol=0.01)
        assert rows[0][0] != "–"  # it was open all that slot
        assert rows[3][0] == "–"  # and not before


async def cells(page: Page, place: str) -> list[list[str]]:
    """Return the texts of a table's cells, row by row."""
    rows: list[list[str]] = await page.locator(f"#{place} tr").evaluate_all(
        "rows => rows.map(row => [...row.cells].map(cell => cell.innerText))"
    )
    return rows


async def test_it_judges_what_arrives_of_each_meter(site: Site) -> None:
    """Several meters have a tab with the times, counts and judgement of each; a click shows a meter."""
    house = ArrivalRow("house", None, 1200, 7_000, 7_000, None)
    site.world.arrivals = (house,)
    async with site.looking() as look:
        await look.live()
        await expect(look.page.locator("#tab-meters")).to_be_hidden()
        shed = ArrivalRow("shed", None, 3, 90_000, None, "wrong_profile")
        site.world.arrivals = (house, shed)
        await expect(look.page.locator("#tab-meters")).to_be_visible()
        await look.tab("meters")
        assert await cells(look.page, "meters-table") == [
            ["Meter", "Messages", "Since message", "Since reading", "State"],
            ["house", "1,200", "7 sec", "7 sec", "OK"],
            ["shed", "3", "1 min 30 sec", "never heard", "wrong_profile"],
        ]
        site.world.arrivals = (house._replace(phase="a"), shed._replace(phase="b"))
        await expect(look.page.locator("#meters-table th").nth(1)).to_have_text("Phase")
        await look.page.click("#meters-table tr:first-child button")
        await expect(look.page.locator("#now")).to_be_visible()


async def test_it_says_the_promise_as_check_does(site: Site) -> None:
    """What is hidden and what is not, the table of limits and warnings are in the words of `check`."""
    promised = guarantee.compute_guarantee(site.world.stream)
    async with site.looking() as look:
        await look.live()
        for place, limits in EVENTS.items():
            rows = await look.page.locator(f"#list-{place} li").all_inner_texts()
            assert [" ".join(row.split("\n")) for row in rows] == limits
        once = {event.title: percent[1] for event, percent, _ in promised.exposures}
        assert (once["a TV evening"], once["a washing machine"]) == (70, 93)
        await look.tab("promise")
        said = await look.page.locator("#hidden-promise, #hidden-formally p").all_inner_texts()
        assert said == wording.promise_lines(promised)
        assert await look.page.locator("#hidden-guesses").inner_text() == say("guess.title")
        shown = await cells(look.page, "hidden-events")
        assert shown == [list(row) for row in (wording.guess_columns(), *wording.guess_rows(promised))]
        for place, lines in (
            ("not", wording.exposed_sentences(promised)),
            ("warnings", [*promised.warnings]),
        ):
            assert await look.page.locator(f"#hidden-{place} li").all_inner_texts() == lines
        own = look.page.locator("#preset-choice label").first
        figures = [text.split("\n")[::-1] for text in await own.locator("span span").all_inner_texts()]
        assert figures == [[*row] for row in wording.summary_figures(promised)]


async def test_the_limits_of_other_presets_are_shown(site: Site) -> None:
    """Each preset has the limits that `check` states; nothing is asked of the agent for it."""
    promises = site.world.view.streams[0].promises()
    async with site.looking() as look:
        await look.live()
        await look.tab("promise")
        names = await look.page.locator("#preset-choice input").evaluate_all("all => all.map(a => a.value)")
        assert names == ["yours", *promises.presets]
        asked = len(look.requests)
        for name, promise in {"yours": promises.guarantee, **promises.presets}.items():
            await look.page.check(f"input[value={name}]")
            await expect(look.page.locator("#preset-events")).to_be_visible(visible=name != "yours")
            assert await cells(look.page, "preset-events") == [
                list(row) for row in (wording.guess_columns(), *wording.guess_rows(promise))
            ]
        assert len(look.requests) == asked


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
        await expect(page.locator("#sent-about")).to_have_text("nothing yet")
        await until(lambda: [viewer.stream for viewer in world.viewers._open] == ["second"])
        assert look.complaints == []


async def test_the_keyboard_reaches_everything(site: Site) -> None:
    """By keyboard alone: the skip link, the tabs by arrows, and each panel's controls; the focus is seen."""
    async with site.looking() as look:
        await look.live(1)
        site.world.last = delivered("private/house/power", b"{}", site.world.clock_ms)
        await expect(look.page.locator("#last-payload")).to_have_text("{}")
        page = look.page
        for name, controls in CONTROLS.items():
            await page.focus("[role=tab][aria-selected=true]")
            if name != "now":
                await page.keyboard.press("ArrowRight")
            assert await page.evaluate("document.activeElement.id") == f"tab-{name}"
            met = list[str]()
            while (focus := await tab(page)).place not in ("BODY", "DIV"):
                assert focus.outline == "solid 3px", focus
                if focus.place == "preset":
                    await page.keyboard.press("ArrowDown")
                    await expect(page.locator("#preset-choice input").nth(1)).to_be_checked()
                met.append(focus.place)
            assert [place for place in dict.fromkeys(met) if place in controls] == controls, name
        await page.goto(site.url)
        await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")
        assert await page.evaluate("document.activeElement.id") == "main"


async def test_the_address_names_the_tab(site: Site) -> None:
    """A reload and a link show the tab that the address names; an unknown name shows the first."""
    async with site.looking() as look:
        await look.tab("promise")
        await look.page.reload()
        await expect(look.page.locator("#promise")).to_be_visible()
        await look.page.evaluate("location.hash = 'state'")
        await expect(look.page.locator("#state")).to_be_visible()
        await look.page.goto(f"{site.url}#nothing")
        await look.page.reload()
        await expect(look.page.locator("#now")).to_be_visible()


@pytest.mark.parametrize("language", ["en", "de"])
@pytest.mark.parametrize("width", WIDTHS)
async def test_nothing_is_cut_off(site: Site, width: int, language: str) -> None:
    """In each tab, light and dark, no cell, label or figure is out of sight, nor in what scrolls sideways."""
    rows = [ArrivalRow(f"Wohnung {part}", None, 86_400, 3_725_000, None, "wrong_profile") for part in "ab"]
    site.world.arrivals = tuple(rows)
    site.world.problems = [make_problem("no_readings", "main", meters=2, of=2, limit_ms=3_600_000)]
    site.world.counts.add("refused_compressed", 12)
    async with site.looking(language=language, viewport={"width": width, "height": 800}) as look:
        await look.live(2)
        payload = look.world.record(look.world.clock_ms, 512)
        site.world.last = delivered("private/house/power", payload, look.world.clock_ms)
        await expect(look.page.locator("#last-payload")).to_have_text(payload.decode())
        for name in (*TABS, "meters"):
            await look.tab(name)
            if name == "promise":
                await look.page.check("input[value=television]")
            for scheme in SCHEMES:
                await look.page.emulate_media(color_scheme=scheme)
                assert "\n".join(await look.cut_off()) == "", (name, scheme)
                assert await look.page.evaluate("document.documentElement.scrollWidth") == width
            names = await look.landmarks()
            assert len({text for text in names if text}) == len(names), names


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (360, 740)])
@pytest.mark.parametrize("language", ["en", "de"])
async def test_the_first_screen_needs_no_scrolling(
    site: Site, width: int, height: int, language: str
) -> None:
    """Figures, plot and both lists are seen at once, on a desk and on a phone."""
    async with site.looking(language=language, viewport={"width": width, "height": height}) as look:
        await look.live(2)
        site.world.upcoming = upcoming(site.world.clock_ms)
        await expect(look.page.locator("#next")).to_contain_text("min" if language == "en" else "Min.")
        for place in ("figures", "trace-plot", "lists"):
            box = await look.page.locator(f"#{place}").bounding_box()
            assert box is not None
            assert box["y"] + box["height"] <= height, place
        site.world.upcoming = None


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", [360, 1280])
async def test_it_is_fit_for_everybody(site: Site, width: int, scheme: Any) -> None:
    """On a phone and on a desk, light and dark: no serious finding of axe in any tab, and pictures."""
    language = "de" if width == 360 else "en"
    async with site.looking(
        language=language, viewport={"width": width, "height": 900}, color_scheme=scheme
    ) as look:
        await look.live(6)
        PICTURES.mkdir(parents=True, exist_ok=True)
        for name in TABS:
            await look.tab(name)
            await look.page.screenshot(path=PICTURES / f"{width}-{scheme}-{name}.png", full_page=True)
            assert await serious(look.page) == [], name


async def test_the_plot_follows_the_scheme(site: Site) -> None:
    """A change between light and dark redraws the plot in its colours."""
    async with site.looking(color_scheme="light") as look:
        await look.live(1)
        await look.changes(partial(look.page.emulate_media, color_scheme="dark"))


def upcoming(start_ms: int) -> Upcoming:
    """Return a slot whose number leaves a minute after its end."""
    return Upcoming(start_ms, start_ms + STEP_MS, start_ms + STEP_MS + 60_000)


async def test_it_promises_only_the_number_that_leaves(site: Site) -> None:
    """It names the first slot that is sent, and how long until its number leaves in the two largest units."""
    async with site.looking(timezone_id="UTC") as look:
        world, start_ms = look.world, look.world.clock_ms
        world.history, following_ms = [], start_ms + STEP_MS
        world.upcoming = upcoming(following_ms)
        world.now_ms = following_ms + 1_200_000
        await look.page.reload()
        times = [iso_time(following_ms + after_ms)[11:16] for after_ms in (0, STEP_MS, STEP_MS + 60_000)]
        # Before midnight, a time of the next day has its date.
        hours = [rf"(?:\w+ \d+, )?{text}" for text in times]
        about = re.compile(rf"^{hours[0]} – {hours[1]}, sent at {hours[2]}$")
        await expect(look.page.locator("#next-about")).to_have_text(about)
        await expect(look.page.locator("#next")).to_have_text(re.compile(r"^1[01] min(?: \d+ sec)?$"))
        world.upcoming = None
        await expect(look.page.locator("#next-about")).to_have_text("no slot is open or about to open")


async def test_what_arrives_is_named_when_nothing_counts(site: Site) -> None:
    """Before a meter is known it says what the messages are and what to do, unless a problem does."""
    world, port = PageWorld(), free_port()
    world.meters, world.now_ms = [], now_ms()
    world.counts.update(received=90, other=90)
    async with world.serving(port=port), window(site.browser, locale="en") as page:
        await page.goto(f"http://127.0.0.1:{port}/")
        said = page.locator("#uncounted")
        reason = "90 messages, none a reading: messages of the device that do not contain the quantity (90)."
        await expect(said).to_have_text(f"{reason} {say('cure.none_accepted')}")
        await expect(page.locator("#measured-about")).to_have_text("Waiting for the first reading")
        world.problems = [make_problem("none_accepted", "main", meters=1, of=1, reasons="other")]
        await expect(page.locator("#problems")).to_contain_text(say("cure.none_accepted"))
        await expect(said).to_have_text(reason)
        await expect(page.locator("#problem-count")).to_have_text("1")
        world.counts.update(accepted=1)
        await expect(said).to_be_hidden()


async def test_receivers_are_named_with_their_state(site: Site) -> None:
    """Each receiver has its topic, its times, and whether it gets numbers now."""
    world, port = PageWorld(), free_port()
    world.now_ms = now_ms()
    topic, hour_ms = "{meter}/x", 3_600_000
    receivers = [
        Receiver(name="utility", topic=topic),
        Receiver(name="app", topic=topic, paused=True),
        Receiver(name="study", topic=topic).model_copy(update={"end": world.now_ms - hour_ms}),
        Receiver(name="next", topic=topic).model_copy(update={"start": world.now_ms + hour_ms}),
    ]
    [one] = world.view.streams
    world.view = replace(world.view, streams=[replace(one, stream=one.stream.with_receivers(receivers))])
    async with world.serving(port=port), window(site.browser, locale="en") as page:
        await page.goto(f"http://127.0.0.1:{port}/#receivers")
        await expect(page.locator("#receivers-table")).to_be_visible()
        rows = await cells(page, "receivers-table")
    states = {row[0]: row[-1] for row in rows[1:]}
    assert states == {"utility": "gets numbers", "app": "paused", "study": "ended", "next": "later"}


async def test_an_operator_of_100_meters_has_a_table(site: Site) -> None:
    """With many meters the page opens with their table; the address of a meter opens that meter."""
    world, port = PageWorld(), free_port()
    world.meters, world.now_ms = [f"meter-{number}" for number in range(100)], now_ms()
    world.arrivals = tuple(ArrivalRow(meter, None, 9, 1000, 1000, None) for meter in world.meters)
    async with world.serving(port=port), window(site.browser, locale="en") as page:
        await page.goto(f"http://127.0.0.1:{port}/")
        await expect(page.locator("#meters-table tbody tr")).to_have_count(100)
        await expect(page.locator("#meters-table")).to_be_visible()
        await page.click("#meters-table button >> text=meter-42")
        await expect(page.locator("#now")).to_be_visible()
        await until(lambda: [viewer.meter for viewer in world.viewers._open] == ["meter-42"])
        await page.goto(f"http://127.0.0.1:{port}/?meter=meter-7")
        await expect(page.locator("#now")).to_be_visible()


async def test_a_reload_shows_what_was_measured(site: Site) -> None:
    """After a reload the measured means and the error are there again, from the agent's memory."""
    async with site.looking() as look:
        await look.live(2)
        before = [await look.page.locator(f"#{place}").inner_text() for place in ("sent", "off", "off-about")]
        quanta = int(before[0].split()[0].replace("−", "-"))
        look.world.history.append(look.world.record(look.world.clock_ms - STEP_MS, quanta))
        await look.page.reload()
        await expect(look.page.locator("#off-about")).to_have_text(before[2])
        after = [await look.page.locator(f"#{place}").inner_text() for place in ("sent", "off", "off-about")]
        assert after == before


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
            await look.tab("history")
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
