"""The page of a running agent: what comes is on it, what leaves is on it, and nothing stays."""

import asyncio
import json
import re
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from meteragent.domain.grid import iso_time, parse_time
from tests.conftest import MakeBroker
from tests.integration.browser import chromium
from tests.integration.look import TABS
from tests.integration.service import (
    LIMIT_S,
    TELL_ALL,
    Meters,
    Service,
    Utility,
    meters,
    now_ms,
    service,
    stream,
    subscribed,
    until,
    utility,
)
from tests.support.broker import Broker, free_port
from tests.support.page_asker import Line, line

pytestmark = pytest.mark.asyncio(loop_scope="module")

CANARY_W = 4711


class Home(NamedTuple):
    """A running agent with its page, a meter's line, and the utility."""

    agent: Service
    port: int
    line: Meters
    utility: Utility


@asynccontextmanager
async def home(folder: Path, broker: Broker, **options: Any) -> AsyncIterator[Home]:
    """It has subscribed."""
    port = free_port()
    store = f'[page]\nlisten = "127.0.0.1:{port}"\n'
    async with utility(broker) as inbox, meters(broker) as sending:
        with service(folder, stream(broker.url, **options), store) as agent:
            agent.start()
            await subscribed(broker)
            yield Home(agent, port, sending, inbox)


async def get(port: int, path: str) -> tuple[int, bytes]:
    """Status and body of an answer."""
    async with line(port) as asking:
        asking.writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        head, _, body = (await asking.reader.read()).partition(b"\r\n\r\n")
        return int(head.split()[1]), body


async def opened(asking: Line) -> None:
    """Open the page of the first meter, once there is one."""
    await asking.ask("/events")
    await asking.event("start")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def at(mosquitto: MakeBroker, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Home]:
    """An agent at work, whose first record has left; all but the last tests share it."""
    with mosquitto(settings=TELL_ALL) as broker:
        async with home(tmp_path_factory.mktemp("page"), broker) as running:
            await running.line.send("house", 100)
            await until(running.utility.records)
            yield running


async def test_what_comes_and_what_leaves_is_on_the_page(at: Home) -> None:
    """In a browser: readings as the meter sent them, numbers and the last message as the utility got them."""
    async with chromium() as browser:
        page: Page = await browser.new_page()
        complaints: list[str] = []
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        await page.goto(f"http://127.0.0.1:{at.port}/")
        await expect(page.locator("#line")).to_have_attribute("data-state", "open")
        sending = asyncio.create_task(_keep_sending(at.line))
        await expect(page.locator("#measured")).to_have_text("250\u00a0W")
        await expect(page.locator("#off-about")).to_contain_text("measured on average")
        await page.click("#tab-history")
        await expect(page.locator("#trace-numbers tbody tr td").first).to_be_visible()
        await page.click("#tab-receivers")
        shown = await page.locator("#last-payload").inner_text()
        assert shown in {message.payload.decode() for message in at.utility.messages}
        await page.click("#tab-problems")
        await expect(page.locator("#health-states .good")).to_have_count(3)
        sending.cancel()
        assert complaints == []
        await page.close()


async def _keep_sending(sending: Meters) -> None:
    while True:
        await sending.send("house", 250)
        await asyncio.sleep(0.1)


def resident_mb(pid: int) -> float:
    """Return the resident memory of a process."""
    [kilobytes] = re.findall(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(kilobytes) * 1024 / 1e6


async def test_an_open_page_takes_little_memory(mosquitto: MakeBroker, tmp_path: Path) -> None:
    """With the page open in a browser, all its tabs shown, the agent has at most 6 MB more than before."""
    port = free_port()
    with mosquitto(settings=TELL_ALL) as broker:
        async with utility(broker) as inbox, meters(broker) as sending, chromium() as browser:
            page_table = f'[page]\nlisten = "127.0.0.1:{port}"\n'
            with service(tmp_path / "agent", stream(broker.url), page_table, through=()) as agent:
                agent.start()
                await subscribed(broker)
                feeding = asyncio.create_task(_keep_sending(sending))
                await until(lambda: len(inbox.records()) > 10)  # it has warmed up
                before_mb = resident_mb(agent.pid)
                page: Page = await browser.new_page()
                await page.goto(f"http://127.0.0.1:{port}/")
                await expect(page.locator("#off-about")).to_contain_text("measured on average")
                for name in TABS:
                    await page.click(f"#tab-{name}")
                await asyncio.sleep(5)
                growth_mb = resident_mb(agent.pid) - before_mb
                feeding.cancel()
    assert 0.5 < growth_mb < 6


async def test_the_next_number_leaves_when_the_log_says(mosquitto: MakeBroker, tmp_path: Path) -> None:
    """In a browser: the time and the countdown of a meter's first number are those of the agent's log."""
    await asyncio.sleep(max(0, 90 - (20 - time.time()) % 1800))  # not near a boundary of half hours
    slots = {"window": 'length = "30min"', "privacy": "level = 1\nradius = 220"}
    with mosquitto(settings=TELL_ALL) as broker:
        async with home(tmp_path, broker, **slots) as running, chromium() as browser:
            [logged] = re.findall(r"a new meter's first number leaves at (\S+) \(in", running.agent.log)
            await running.line.send("house", 250)
            page: Page = await browser.new_page(timezone_id="UTC", locale="en")
            await page.goto(f"http://127.0.0.1:{running.port}/")
            at = logged[11:16] if logged.endswith(":00Z") else logged[11:19]
            await expect(page.locator("#next-about")).to_have_text(re.compile(rf", sent at {at}$"))
            minutes, seconds = map(
                int, re.findall(r"\d+", f"{await page.locator('#next').inner_text()} 0")[:2]
            )
            wait_s = (parse_time(logged) - now_ms()) / 1000
    assert minutes * 60 + seconds == pytest.approx(wait_s, abs=5)


FIGURES = ("sent", "sent-about", "off", "off-about", "next-about", "limit")


async def test_the_first_figures_are_those_of_the_records_and_the_ledger(
    mosquitto: MakeBroker, tmp_path: Path
) -> None:
    """In a browser: what was sent, its error, the next slot, the limit of `check`, what is spent."""
    noise = {"window": 'length = "2s"', "privacy": "level = 1\nradius = 1000"}
    with mosquitto(settings=TELL_ALL) as broker:
        async with home(tmp_path, broker, **noise) as running, chromium() as browser:
            sending = asyncio.create_task(_keep_sending(running.line))
            page: Page = await browser.new_page(timezone_id="UTC", locale="en")
            await until(running.utility.records)
            await page.goto(f"http://127.0.0.1:{running.port}/")
            await expect(page.locator("#off-about")).to_have_text("250\u00a0W measured on average")
            shown: list[str] = await page.evaluate(
                "ids => ids.map(id => document.getElementById(id).textContent)", FIGURES
            )
            sent, slot, off, _, following, limit = shown
            before = await asyncio.to_thread(spent, running.agent)
            total = ""
            async with asyncio.timeout(LIMIT_S):
                while Fraction(total or 0) < before:  # a glance comes every two seconds
                    [total] = await page.locator("#spent-table tr:last-child code").all_text_contents()
            after = await asyncio.to_thread(spent, running.agent)
            await until(lambda: following[:8] in of_slots(running.utility))
            sending.cancel()
            values = of_slots(running.utility)
            checked = json.loads(running.agent.command("check", "--json").stdout)["streams"][0]
    assert figure(sent) == pytest.approx(values[slot[:8]], abs=0.51)
    assert figure(off) == pytest.approx(abs(values[slot[:8]] - 250), abs=0.51)
    assert figure(limit) == checked["loads"]["in_all"]["periods"][-1]["right_of_100"]
    assert 0 < before <= Fraction(total) <= after


def of_slots(inbox: Utility) -> dict[str, float]:
    """Return the values that the utility got, by the time of the day at which their slots start."""
    return {iso_time(record.start_ms)[11:19]: record.value for record in inbox.records()}


def figure(text: str) -> float:
    """Return the number of a figure."""
    return float(text.replace("−", "-").replace(",", "").rstrip("%").split("\u00a0")[0])


async def test_readings_are_passed_on_while_somebody_looks_only(at: Home) -> None:
    """A reading from before the page was opened is not on it; those since then are, with their times."""
    async with line(at.port) as asking:
        await opened(asking)
        begin_ms = now_ms()
        await at.line.send("house", CANARY_W)
        await at.line.raw("meters/house/power", b"no reading")
        await at.line.send("other", 999)
        [[time_ms, watts]] = (await asking.event("news"))["readings"]
        assert (time_ms, watts) == (at.line.sent[-2].time_ms, CANARY_W)
        assert time_ms >= begin_ms
        while not (records := (await asking.event("news"))["records"]):
            pass
    await until(lambda: records[0].encode() in {message.payload for message in at.utility.messages})
    await until(lambda: CANARY_W in {message.value for message in at.utility.records()})  # noise is 0 here


async def test_readings_that_do_not_count_are_not_shown(at: Home) -> None:
    """What is refused, late or seen before is not on the page."""
    async with line(at.port) as asking:
        await opened(asking)
        time_ms = now_ms()
        await at.line.send("house", 200, time_ms)
        await at.line.send("house", 201, time_ms)
        await at.line.send("house", 202, time_ms - 60_000)
        await at.line.send("house", 203, time_ms + 7_200_000)
        await at.line.send("house", 205, time_ms + 1)
        seen: list[list[float]] = []
        while [time_ms + 1, 205] not in seen:
            seen += (await asking.event("news"))["readings"]
    assert seen == [[time_ms, 200], [time_ms + 1, 205]]


async def test_health_and_metrics_are_beside_the_page(at: Home) -> None:
    """The same server tells this machine's tools whether all is well, and Prometheus its figures."""
    assert await get(at.port, "/healthz") == (200, b"all is well\n")
    status, text = await get(at.port, "/metrics")
    assert status == 200
    assert b"\n# TYPE meteragent_accepted_total counter\nmeteragent_accepted_total " in text
    assert b"meteragent_healthy 1\n" in text


async def test_spent_is_what_the_ledger_says(at: Home) -> None:
    """What the page says was spent is what `meteragent ledger` says, exactly, while windows open."""
    before = await asyncio.to_thread(spent, at.agent)
    async with line(at.port) as asking:
        await asking.ask("/events?meter=house")
        told = {
            period: Fraction(sums["exact"])
            for period, sums in (await asking.event("glance"))["spent"].items()
        }
    after = await asyncio.to_thread(spent, at.agent)
    assert 0 < before <= told["start"] <= after
    assert told["today"] <= told["month"] <= told["start"]
    assert told["start"] % 100 == 0  # a window's level is 1000 at 10 W


def spent(agent: Service) -> Fraction:
    """What the ledger's command says of the meter."""
    rows = json.loads(agent.command("ledger", "--meter", "house", "--json").stdout)["spent"]
    return sum((Fraction(row["epsilon_per_w"]) for row in rows), Fraction(0))


async def test_a_stop_does_not_wait_for_who_looks(at: Home) -> None:
    """SIGTERM ends an agent whose page is open as soon as any other, with 0; its log has no reading."""
    async with line(at.port) as asking:
        await opened(asking)
        begin_ms = now_ms()
        await at.agent.stop()
        assert now_ms() - begin_ms < 5000
        await asking.reader.read()
    assert "ERROR" not in at.agent.log
    assert "Traceback" not in at.agent.log
    assert str(CANARY_W) not in at.agent.log


async def test_a_taken_port_ends_the_agent(at: Home, tmp_path: Path) -> None:
    """Where the page cannot be served the agent ends with 1 and says which key it is."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        text = stream("mqtt://127.0.0.1:1")
        with service(tmp_path, text, f'[page]\nlisten = "127.0.0.1:{port}"\n') as agent:
            assert await agent.run() == 1
            assert f"page.listen: 127.0.0.1:{port}: address already in use: name another port" in agent.log
            assert "crash" not in agent.log
            assert ".py" not in agent.log
