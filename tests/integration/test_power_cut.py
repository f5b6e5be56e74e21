"""Power that is cut under a burst feed, and stops under one: with the sink's broker there and away."""

import asyncio
import random
import shutil
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from meteragent.agent.service import DRAIN_S
from simulators.simtest.store.disk import settle
from tests.conftest import MakeBroker
from tests.integration.agent import LOGS_SUBSCRIPTIONS, Agent
from tests.integration.kills import PLAN, Outcome, invent, kill_agent
from tests.integration.service import Scenarios
from tests.integration.wire import Receiver, feed
from tests.support.broker import Broker

CUTS = 6
STOPS = 3
BURST = 300
MARGIN_S = 5.0
"""What ending takes at most beside the drain, on a busy machine."""


class Stopped(NamedTuple):
    """What came of an agent that was stopped again and again, and how long each stop took."""

    outcome: Outcome
    seconds: list[float]


@pytest.fixture(scope="module")
def cuts(mosquitto: MakeBroker, tmp_path_factory: pytest.TempPathFactory) -> Scenarios:
    """All of them, side by side."""

    async def power_cut(folder: Path) -> Outcome:
        with mosquitto(settings=LOGS_SUBSCRIPTIONS) as broker:
            plans, program = [PLAN, PLAN.noisy], ("tests.integration.altered", "remembers_fsyncs")
            return await kill_agent(
                broker, folder, plans, CUTS, BURST, *program, then=lambda rng: cut_back(folder, rng)
            )

    async def stopped(folder: Path) -> Stopped:
        with mosquitto(settings=LOGS_SUBSCRIPTIONS) as broker:
            return await _stopped(folder, broker, broker, STOPS)

    async def stopped_without_sink(folder: Path) -> Stopped:
        persistent = LOGS_SUBSCRIPTIONS | {"persistence": "true", "autosave_interval": 0}
        with mosquitto(settings=LOGS_SUBSCRIPTIONS) as source, mosquitto(settings=persistent) as sink:
            return await _stopped(folder, source, sink, 1)

    scenarios = Scenarios(tmp_path_factory.mktemp("cuts"), power_cut, stopped, stopped_without_sink)
    asyncio.run(scenarios.run())
    return scenarios


def cut_back(folder: Path, rng: random.Random) -> None:
    """Put the disk back to the last fsync, but for a part of what was written since, torn anywhere.

    That part is of the write-ahead log: its frames are written before anything else is, and count
    only when whole.
    """
    synced, wal, log = folder / "synced", folder / "db-wal", b""
    if not synced.exists():
        return  # it has never been on disk
    since = wal.read_bytes() if wal.exists() else b""
    moved = (folder / "db").read_bytes() != (synced / "db").read_bytes()
    before = (synced / "db-wal").read_bytes()
    if not moved and since.strip(b"\0") and not before.strip(b"\0"):
        torn = since[: rng.randrange(len(since) + 1)] + rng.randbytes(rng.randrange(100))
        log = torn + before[len(torn) :]
    for name in ("db-shm", "db-wal"):
        (folder / name).unlink(missing_ok=True)
    for kept in synced.iterdir():
        shutil.copyfile(kept, folder / kept.name)
    settle(folder)
    if log:
        wal.write_bytes(log)


async def _stopped(folder: Path, source: Broker, sink: Broker, stops: int) -> Stopped:
    """SIGTERM at random moments of a burst, also while a separate sink cannot be reached."""
    rng = random.Random(stops)
    fed, messages = invent(rng, 3, (stops + 1) * BURST // 3)
    seconds: list[float] = []
    with Agent(folder, [PLAN], source.url, sink.url) as agent:
        await agent.subscribed(source)
        async with Receiver(sink) as receiver:
            for life in range(stops):
                before = receiver.records
                feeding = asyncio.create_task(feed(source.url, messages[life * BURST : (life + 1) * BURST]))
                await receiver.more_than(before)
                if sink is not source:
                    sink.stop()
                await asyncio.sleep(rng.uniform(0, 0.2))
                begun_s = time.monotonic()
                await agent.stop()
                seconds.append(time.monotonic() - begun_s)
                if sink is not source:
                    sink.start()
                agent.start()
                await feeding
            await feed(source.url, messages[stops * BURST :])
            await agent.finished(receiver, fed)
            await agent.stop()
            await receiver.flush(sink.url)
    return Stopped(Outcome(agent, fed, receiver, stops), seconds)


def test_a_power_cut_costs_nothing(cuts: Scenarios) -> None:
    """With the store cut back to its last fsync no slot is missing or wrong, and none has two values."""
    outcome = cuts["power_cut"]
    outcome.agent.assert_kept(outcome.fed, outcome.receiver)
    assert outcome.lives >= CUTS // 2
    assert not list(outcome.agent.store.parent.glob("db.corrupt-*"))


@pytest.mark.parametrize("name", ["stopped", "stopped_without_sink"])
def test_a_stop_under_load_costs_nothing(name: str, cuts: Scenarios) -> None:
    """SIGTERM in the middle of a burst ends with 0; what was under way is there after the next start."""
    outcome = cuts[name].outcome
    outcome.agent.assert_kept(outcome.fed, outcome.receiver)


def test_a_stop_under_load_takes_its_time_but_not_for_ever(cuts: Scenarios) -> None:
    """With the sink's broker there it ends at once, without it after the drain."""
    assert max(cuts["stopped"].seconds) < MARGIN_S
    (seconds,) = cuts["stopped_without_sink"].seconds
    assert DRAIN_S - 1 <= seconds < DRAIN_S + MARGIN_S
