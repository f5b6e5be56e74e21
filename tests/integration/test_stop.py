"""How the agent ends: SIGTERM drains what is due, closes nothing, and takes its time, but not for ever."""

import asyncio
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from meteragent.agent.service import DRAIN_S
from meteragent.domain.grid import parse_time
from meteragent.store import read_only
from tests.conftest import MakeBroker
from tests.integration.service import (
    TELL_ALL,
    Arrival,
    Scenarios,
    Sent,
    Service,
    is_released,
    mean_w,
    meters,
    now_ms,
    service,
    stream,
    subscribed,
    until,
    until_ms,
    utility,
)
from tests.support.broker import Broker

LENGTH_MS = 3000
LONG = f'length = "{LENGTH_MS}ms"\ncatch_up = "500ms"'
SHORT = 'length = "1s"\ncatch_up = "500ms"'
MARGIN_S = 5.0
"""What ending takes at most beside the drain, on a busy machine."""


class End(NamedTuple):
    """How an agent ended, what it left behind, and what came of it until then and later."""

    code: int
    seconds: float
    waiting: int
    inbox: list[Arrival]
    later: list[Arrival]
    sent: list[Sent]


def waiting(agent: Service) -> int:
    """How many records wait in the outbox."""
    with read_only(agent.store) as connection:
        found = connection.execute("SELECT count(*) FROM outbox WHERE delivered_ms IS NULL AND NOT retain")
        return int(found.fetchone()[0])


async def ended(agent: Service) -> tuple[int, float]:
    """Exit code, and how many seconds it took."""
    begin_ms = now_ms()
    code = await agent.code()
    return code, (now_ms() - begin_ms) / 1000


@pytest.fixture(scope="module")
def stops(mosquitto: MakeBroker, tmp_path_factory: pytest.TempPathFactory) -> Scenarios:
    """All of them, side by side."""

    async def open_slot(folder: Path) -> End:
        with mosquitto(settings=TELL_ALL) as broker:
            return await _open_slot(folder, broker)

    async def away(folder: Path, meanwhile: Callable[[Service, Broker], object], *, back: bool) -> End:
        with mosquitto(settings=TELL_ALL) as source, mosquitto(is_persistent=True) as sink:
            return await _sink_away(folder, source, sink, meanwhile, back=back)

    async def sink_back(folder: Path) -> End:
        return await away(folder, lambda _, sink: sink.start(), back=True)

    async def sink_away(folder: Path) -> End:
        return await away(folder, lambda *_: None, back=False)

    async def refused(folder: Path) -> End:
        with mosquitto(users={"somebody": "else"}) as broker:
            return await _refused(folder, broker)

    async def impatient(folder: Path) -> End:
        return await away(folder, lambda agent, _: agent.signal(signal.SIGINT), back=False)

    scenarios = Scenarios(
        tmp_path_factory.mktemp("stops"), open_slot, sink_back, sink_away, refused, impatient
    )
    asyncio.run(scenarios.run())
    return scenarios


async def _open_slot(folder: Path, broker: Broker) -> End:
    """Stopped in the middle of a window, started again before its end."""
    async with utility(broker) as inbox, meters(broker) as line:
        with service(folder, stream(broker.url, window=LONG)) as agent:
            agent.start()
            await subscribed(broker)
            await line.send("home", 100)
            await until(lambda: inbox.messages)  # the descriptor: the window has opened
            start_ms = now_ms() // LENGTH_MS * LENGTH_MS
            await until_ms(start_ms + 500)
            await line.send("home", 400)
            await until_ms(start_ms + 900)
            agent.signal()
            code, seconds = await ended(agent)
            left, until_then = waiting(agent), list(inbox.records())
            await line.send("home", 700)
            agent.start()
            await until(lambda: len(inbox.records()) >= 2)
            await agent.stop()
    return End(code, seconds, left, until_then, inbox.records(), line.sent)


async def _refused(folder: Path, broker: Broker) -> End:
    """Stopped while the broker of source and sink refuses the login."""
    with service(folder, stream(broker.url, window=SHORT)) as agent:
        agent.start()
        await until(lambda: agent.log.count("not authorised") >= 2)
        agent.signal()
        code, seconds = await ended(agent)
        return End(code, seconds, waiting(agent), [], [], [])


async def _sink_away(
    folder: Path,
    source: Broker,
    sink: Broker,
    meanwhile: Callable[[Service, Broker], object],
    *,
    back: bool,
) -> End:
    """Stopped while the sink's broker is away and a record waits; `back`: it comes back meanwhile."""
    async with utility(sink) as inbox, meters(source) as line:
        with service(folder, stream(source.url, sink.url, window=SHORT)) as agent:
            agent.start()
            await subscribed(source)
            await line.send("home", 100)
            await until(lambda: len(inbox.messages) >= 2)
            sink.stop()
            await until(lambda: waiting(agent) > 0)
            agent.signal()
            await asyncio.sleep(0.5)
            meanwhile(agent, sink)
            code, seconds = await ended(agent)
            left, until_then = waiting(agent), list(inbox.records())
            if not back:
                sink.start()
            agent.start()
            await until(lambda: len(inbox.records()) > len(until_then))
            await agent.stop()
    return End(code, seconds, left, until_then, inbox.records(), line.sent)


def test_a_stop_closes_no_slot(stops: Scenarios) -> None:
    """SIGTERM in a window ends with 0 at once, and nothing leaves of the slot that is open."""
    end = stops["open_slot"]
    assert end.code == 0
    assert end.seconds < MARGIN_S
    assert end.waiting == 0
    assert end.inbox == []


def test_an_open_slot_survives_the_stop(stops: Scenarios) -> None:
    """After the next start the slot leaves once, with what was sent before, in between and since."""
    end = stops["open_slot"]
    first, second = end.later[:2]
    assert second.start_ms == first.start_ms + LENGTH_MS
    for record in (first, second):
        assert is_released(record.value, mean_w(end.sent, "home", record.start_ms, LENGTH_MS, 900_000))


def test_a_stop_waits_for_the_sink(stops: Scenarios) -> None:
    """What waits when SIGTERM comes leaves if the sink's broker is back in time: the outbox is drained."""
    end = stops["sink_back"]
    assert end.code == 0
    assert end.seconds < DRAIN_S
    assert end.waiting == 0
    assert end.inbox


def test_a_stop_with_nothing_due_ends_at_once(stops: Scenarios) -> None:
    """A broker that refuses the connection is not waited for if no record is due."""
    end = stops["refused"]
    assert end.code == 0
    assert end.seconds < MARGIN_S
    assert end.waiting == 0


def test_a_stop_does_not_wait_for_ever(stops: Scenarios) -> None:
    """With the sink's broker away it ends with 0 after ten seconds, the record in the outbox."""
    end = stops["sink_away"]
    assert end.code == 0
    assert DRAIN_S - 1 <= end.seconds < DRAIN_S + MARGIN_S
    assert end.waiting > 0
    assert end.inbox == []


def test_a_second_signal_ends_the_wait(stops: Scenarios) -> None:
    """A second SIGTERM or SIGINT ends the agent at once, which does not count as a crash."""
    end = stops["impatient"]
    assert end.code == 0
    assert end.seconds < MARGIN_S


@pytest.mark.parametrize("name", ["sink_away", "sink_back", "impatient"])
def test_what_a_stop_leaves_behind_is_not_lost(name: str, stops: Scenarios) -> None:
    """Over a stop with the sink's broker away every slot arrives, in order, each with one value."""
    later = {record.start_ms: record.payload for record in stops[name].later}
    assert set(later) == set(range(min(later), max(later) + 1, 1000))
    assert all(later[record.start_ms] == record.payload for record in stops[name].later)
    first_seen = list(dict.fromkeys(record.start_ms for record in stops[name].later))
    assert first_seen == sorted(first_seen)


async def test_after_a_kill_the_log_says_when_the_number_leaves(
    mosquitto: MakeBroker, tmp_path: Path
) -> None:
    """A slot that falls due during `catch_up` leaves at its end, as the log says, and not when it is due."""
    window = f'length = "{LENGTH_MS}ms"\ncatch_up = "6s"'
    with (
        mosquitto(settings=TELL_ALL) as broker,
        service(tmp_path, stream(broker.url, window=window)) as agent,
    ):
        async with utility(broker) as inbox, meters(broker) as line:
            agent.start()
            await subscribed(broker)
            await line.send("home", 100)
            await until(lambda: inbox.messages)
            await agent.kill()
            sent_before = len(inbox.records())
            agent.start()
            await until(lambda: len(inbox.records()) > sent_before)
            left_ms = now_ms()
            announced = re.findall(r"leaves at (\S+) \(in \d+ s\) at the earliest: 6 s after", agent.log)
            await agent.stop()
    assert parse_time(announced[-1]) <= left_ms < parse_time(announced[-1]) + 1000 * MARGIN_S


async def test_a_stop_with_its_streams_closed_is_no_crash(mosquitto: MakeBroker, tmp_path: Path) -> None:
    """With standard input, output and error closed, SIGTERM still ends the agent with 0."""
    closed = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh"]
    with (
        mosquitto(settings=TELL_ALL) as broker,
        service(tmp_path, stream(broker.url), through=closed) as agent,
    ):
        agent.start()
        await subscribed(broker)
        await agent.stop()
        assert agent.log == ""
