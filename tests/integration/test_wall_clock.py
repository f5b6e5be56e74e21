"""The wall clock for real, and a wall clock that is wrong, through a real broker."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

import meteragent.agent.service as agent_module
from meteragent import config
from meteragent.agent import runner
from meteragent.agent.environment import Environment
from meteragent.agent.link import sink
from meteragent.agent.service import Agent
from meteragent.domain import identity
from meteragent.service.boot_clock import BootClock
from meteragent.store import commands, meta_value, read_only
from tests.conftest import MakeBroker
from tests.integration.service import (
    ACKNOWLEDGED,
    TELL_ALL,
    Arrival,
    Meters,
    Sent,
    Utility,
    count_in_log,
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
from tests.support.stalls import Stalls

STEP_MS = 1000
LENGTH_MS = 2000
LATENESS_MS = 300
CATCH_UP_MS = 1000
HOLD_MS = 1000
SPREAD_MS = 700
SLOTS = 4
TOLERANCE_MS = 500
"""How late a message may be on a busy machine, beside the time in which the machine stood still."""

WINDOW = 'length = "2s"\nstep = "1s"\nlateness = "300ms"\ncatch_up = "1s"'
HOMES = ("busy", "flat", "silent", "vanished")


class Run(NamedTuple):
    """The results of the run: messages received and sent, and the times of events."""

    inbox: Utility
    sent: list[Sent]
    start_ms: int
    running_ms: int
    told_ms: int
    stopped_ms: int
    restarted_ms: int
    delays_ms: dict[str, int]
    ledger: Counter[str]
    first: Counter[str]
    second: Counter[str]
    stalls: Stalls

    def late_ms(self, record: Arrival, due_ms: int) -> int:
        """Return how long after it was due a record came, without the time the machine stood still."""
        return record.at_ms - due_ms - self.stalls.within_ms(due_ms, record.at_ms)


async def homes(line: Meters, start_ms: int) -> None:
    """Busy: 20 readings a second; flat: 2; silent: one; vanished: one more after 1.5 seconds."""
    for home in HOMES:
        await line.send(home, 100)
    for tick in range(SLOTS * 20 + 18):
        await until_ms(start_ms + 50 * tick)
        await line.send("busy", 500 + tick % 7)
        if tick % 10 == 0:
            await line.send("flat", 300)
        if tick == 30:
            await line.send("vanished", 200)


@pytest.fixture(scope="module")
def run(mosquitto: MakeBroker, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One agent with three streams, on time, spread, and forgetful; stopped, and started again."""
    with mosquitto(settings=TELL_ALL) as broker, Stalls() as stalls:
        return asyncio.run(_run(broker, tmp_path_factory.mktemp("wall"), stalls))


async def _run(broker: Broker, folder: Path, stalls: Stalls) -> Run:
    hold = f'hold = "{HOLD_MS}ms"'
    streams = stream(broker.url, window=WINDOW, source=hold)
    streams += stream(broker.url, name="spread", window=WINDOW, source=hold, sink=f'spread = "{SPREAD_MS}ms"')
    streams += stream(broker.url, name="forgetful", window='forget = "2s"\ncatch_up = "1s"', source=hold)
    async with utility(broker) as inbox, meters(broker) as line:
        with service(folder, streams) as agent:
            agent.start()
            await subscribed(broker, 3)
            start_ms = (now_ms() + 400 + LENGTH_MS) // LENGTH_MS * LENGTH_MS
            await until_ms(start_ms - 400)
            await homes(line, start_ms)
            running_ms = now_ms()
            ledger = Counter[str]()
            for row in json.loads(agent.command("ledger", "--json").stdout)["spent"]:
                ledger[row["stream"]] += row["windows"]
            told_ms = now_ms()
            await agent.stop()
            stopped_ms, first = now_ms(), agent.totals
            await line.send("flat", 700)
            await asyncio.sleep(2.8)  # with 500 ms about it, three slots fall due however soon it starts
            await line.send("flat", 900)
            agent.start()
            await subscribed(broker, 6)
            restarted_ms = now_ms()
            await asyncio.sleep(CATCH_UP_MS / 1000 + 0.8)
            await line.send("silent", 100)
            await asyncio.sleep(2.1)
            await agent.stop()
            with read_only(agent.store) as connection:
                secret = meta_value(connection, "secret")
    delays_ms = {home: identity.release_delay_ms(secret, "spread", home, SPREAD_MS) for home in HOMES}
    times_ms = (start_ms, running_ms, told_ms, stopped_ms, restarted_ms)
    return Run(inbox, line.sent, *times_ms, delays_ms, ledger, first, agent.totals, stalls)


def before_stop(run: Run, name: str) -> list[Arrival]:
    """The records of a stream that came while it ran for the first time."""
    return [record for record in run.inbox.records(name) if record.at_ms < run.running_ms]


def test_slots_leave_on_schedule_whatever_the_meters_do(run: Run) -> None:
    """Busy, flat, silent and vanished meters alike: a slot leaves at its end + lateness."""
    late_ms = {home: list[int]() for home in HOMES}
    for record in before_stop(run, "main"):
        late_ms[record.meter].append(run.late_ms(record, record.start_ms + STEP_MS + LATENESS_MS))
    for home in HOMES:
        assert len(late_ms[home]) == SLOTS
        assert min(late_ms[home]) >= 0
        assert max(late_ms[home]) <= TOLERANCE_MS


def test_slots_leave_in_topic_order(run: Run) -> None:
    """The order on the wire is that of the schedule, then of the topics: it says nothing of arrivals."""
    order = [(record.start_ms, record.topic) for record in before_stop(run, "main")]
    assert order == sorted(order)
    assert len(order) == SLOTS * len(HOMES)


def test_every_slot_leaves_once(run: Run) -> None:
    """From a meter's first boundary on there is one record per slot, without a gap, over the restart too."""
    for name in ("main", "spread"):
        for home in HOMES:
            starts_ms = [record.start_ms for record in run.inbox.records(name, home)]
            assert starts_ms == [run.start_ms + STEP_MS * k for k in range(len(starts_ms))]
            assert starts_ms[-1] > run.restarted_ms


def test_values_are_the_means_of_what_was_sent(run: Run) -> None:
    """Every value is the exact sample-and-hold mean, also of what was sent while the agent was stopped."""
    for record in run.inbox.records("main"):
        mean = mean_w(run.sent, record.meter, record.start_ms, STEP_MS, HOLD_MS)
        assert is_released(record.value, mean)


def test_every_record_has_the_same_fields(run: Run) -> None:
    """A record of a silent meter cannot be told from a busy one's by its form."""
    facts = [record.facts for record in run.inbox.records("main")]
    assert {tuple(fact) for fact in facts} == {("v", "meter", "t", "for", "value", "unit", "sd", "d")}
    shared = {(fact["for"], fact["unit"], fact["sd"], fact["d"]) for fact in facts}
    assert len(shared) == 1


def test_spread_delays_are_fixed_per_meter(run: Run) -> None:
    """With `spread` a meter's slots leave its own fixed delay later, the same after a restart.

    Delays are drawn from 701 values, so two of four homes share one in 1 of 117 runs; all four do in 1 of
    3·10^8.
    """
    assert len(set(run.delays_ms.values())) > 1
    for record in run.inbox.records("spread"):
        if record.at_ms < run.running_ms or record.start_ms > run.restarted_ms + CATCH_UP_MS:
            due_ms = record.start_ms + STEP_MS + LATENESS_MS + run.delays_ms[record.meter]
            assert 0 <= run.late_ms(record, due_ms) <= TOLERANCE_MS
    order = [record.start_ms + run.delays_ms[record.meter] for record in before_stop(run, "spread")]
    assert order == sorted(order)


def test_what_fell_due_leaves_after_catch_up(run: Run) -> None:
    """After a start nothing leaves before catch_up has passed since the subscription; then all due does."""
    after = [record for record in run.inbox.records("main") if record.at_ms > run.stopped_ms + 50]
    ends_ms = run.restarted_ms + CATCH_UP_MS
    owed = [r for r in after if r.start_ms + STEP_MS + LATENESS_MS < ends_ms - TOLERANCE_MS]
    assert len(owed) >= 3 * len(HOMES)
    for record in owed:
        assert -100 <= run.late_ms(record, ends_ms) <= TOLERANCE_MS
    assert [(r.start_ms, r.topic) for r in owed] == sorted((r.start_ms, r.topic) for r in owed)


def test_a_meter_is_forgotten_after_whole_windows_of_silence(run: Run) -> None:
    """After `forget` without a reading the schedule ends; a new reading begins it at the next boundary."""
    silent_ms = [record.start_ms - run.start_ms for record in run.inbox.records("forgetful", "silent")]
    assert silent_ms[:2] == [0, STEP_MS]
    again = next(sent for sent in reversed(run.sent) if sent.meter == "silent")
    assert silent_ms[2] == -(-(again.time_ms - run.start_ms) // STEP_MS) * STEP_MS
    vanished = [record.start_ms - run.start_ms for record in run.inbox.records("forgetful", "vanished")]
    assert vanished == [STEP_MS * k for k in range(4)]
    # On a slow machine the vanished meter is forgotten before the stop already.
    forgotten = run.first["forgotten"], run.second["forgotten"]
    assert sum(forgotten) >= 2, forgotten


def test_the_ledger_tells_what_was_opened_while_the_agent_runs(run: Run) -> None:
    """`ledger --json` beside a running agent: every window that had begun, of every stream."""
    least, most = ((at_ms - run.start_ms) // LENGTH_MS + 1 for at_ms in (run.running_ms, run.told_ms))
    for name in ("main", "spread"):
        assert least * len(HOMES) <= run.ledger[name] <= most * len(HOMES)
        assert run.ledger[name] % len(HOMES) == 0


def test_nothing_is_lost_or_late(run: Run) -> None:
    """While the agent runs no reading is late, acknowledged early or shed; no connection is lost."""
    assert not {"late", "duplicate", "acked_open", "shed"} & set(run.first)
    assert not {"acked_open", "shed", "source_lost", "sink_lost"} & set(run.second)


# A wall clock that is wrong


class Wall:
    """The wall clock, off by what a test says."""

    def __init__(self) -> None:
        self.off_ms = 0

    def __call__(self) -> int:
        """What it shows."""
        return now_ms() + self.off_ms


class Wrong(NamedTuple):
    """An agent in this process, with its clock, its broker, its meters and its utility."""

    agent: Agent
    wall: Wall
    broker: Broker
    line: Meters
    inbox: Utility

    @property
    def acknowledged(self) -> int:
        """How many readings the broker has been told of."""
        return count_in_log(self.broker, ACKNOWLEDGED)

    def starts(self) -> list[int]:
        """The slots that have left."""
        return [record.start_ms for record in self.inbox.records()]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that is set is noticed soon."""
    for place in (agent_module, runner, sink):
        monkeypatch.setattr(place, "POLL_S", 0.05)


@asynccontextmanager
async def wrong(mosquitto: MakeBroker, folder: Path, off_ms: int = 0) -> AsyncIterator[Wrong]:
    """The agent at work."""
    wall = Wall()
    wall.off_ms = off_ms
    with mosquitto(settings=TELL_ALL) as broker:
        text = stream(broker.url) + f'[store]\npath = "{folder / "db"}"\n'
        boot = BootClock(lambda: time.monotonic_ns() // 1_000_000, lambda: False)
        agent = Agent(config.parse(text), Environment(wall_ms=wall, boot=boot, listen_s=0))
        async with utility(broker) as inbox, meters(broker) as line:
            task = asyncio.create_task(agent.run())
            try:
                yield Wrong(agent, wall, broker, line, inbox)
            finally:
                task.cancel()
                await asyncio.wait({task})
            assert task.cancelled()


def files(folder: Path) -> list[Path]:
    """What a folder holds."""
    return list(folder.iterdir())


@pytest.mark.usefixtures("impatient")
async def test_a_clock_set_back_stops_everything_until_it_is_right(
    mosquitto: MakeBroker, tmp_path: Path
) -> None:
    """Nothing leaves, opens or is acknowledged while the clock is behind; then the stream goes on."""
    async with wrong(mosquitto, tmp_path) as world:
        await subscribed(world.broker)
        await world.line.send("m", 100)
        await until(lambda: len(world.starts()) == 1)
        world.wall.off_ms = -3_600_000
        await asyncio.sleep(0.2)
        await world.line.send("m", 200)
        await world.line.raw("meters/m/power", "not a reading")
        before = dict(world.agent.counts), len(world.inbox.messages), world.acknowledged
        await asyncio.sleep(1.2)
        assert (dict(world.agent.counts), len(world.inbox.messages), world.acknowledged) == before
        assert world.agent.counts["clock_waits"] == 1
        world.wall.off_ms = 0
        await until(lambda: len(world.starts()) >= 3)
        assert world.starts()[:3] == [world.starts()[0] + STEP_MS * k for k in range(3)]
        assert world.agent.counts["refused_json"] == 1
        for record in world.inbox.records():
            mean = mean_w(world.line.sent, "m", record.start_ms, STEP_MS, 900_000)
            assert is_released(record.value, mean)


@pytest.mark.usefixtures("impatient")
async def test_a_clock_set_forward_skips_nothing(mosquitto: MakeBroker, tmp_path: Path) -> None:
    """The windows that a jump passes over are opened, charged and released, in order; then it goes on."""
    async with wrong(mosquitto, tmp_path) as world:
        await subscribed(world.broker)
        await world.line.send("m", 100)
        await until(lambda: len(world.starts()) == 1)
        world.wall.off_ms = 60_000
        await until(lambda: len(world.starts()) >= 62)
        starts_ms = world.starts()
        assert starts_ms == [starts_ms[0] + STEP_MS * k for k in range(len(starts_ms))]
        assert {record.value for record in world.inbox.records()} == {100}
        opened = world.agent.counts["opened"]
        with read_only(tmp_path / "db") as connection:
            charged = sum(row.windows for row in commands.day_charges(connection))
        assert opened <= charged <= opened + 1
        assert charged >= len(starts_ms)


@pytest.mark.usefixtures("impatient")
async def test_a_clock_that_is_not_synchronised_is_waited_for(mosquitto: MakeBroker, tmp_path: Path) -> None:
    """In 1970 nothing happens, not even a connection; when the clock is right, what waits is taken in."""
    async with wrong(mosquitto, tmp_path, off_ms=-now_ms()) as world:
        await asyncio.sleep(0.5)
        assert not files(tmp_path)
        assert count_in_log(world.broker, "meteragent") == 0
        world.wall.off_ms = 0
        await subscribed(world.broker)
        await world.line.send("m", 100)
        await until(lambda: len(world.starts()) == 2)
        assert {record.value for record in world.inbox.records()} == {100}
