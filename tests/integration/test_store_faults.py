"""A store that is in use, restored from a copy, or corrupt: what the commands do about it, for real."""

import asyncio
import json
import shutil
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import pytest

from meteragent.grid import iso_time, parse_time
from tests.broker import Broker
from tests.conftest import MakeBroker
from tests.integration.service import (
    TELL_ALL,
    Came,
    Meters,
    Scenarios,
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

pytestmark = pytest.mark.integration

NOISY = "level = 1\nradius = 220"
"""Two draws for one slot differ but for once in some 500 times; there are several slots."""
WINDOW = 'length = "1s"\ncatch_up = "300ms"'


class Run(NamedTuple):
    """What happened: how a start ended that must fail, what was told, and what came before and after."""

    code: int
    told: str
    mended_ms: int
    ledger: dict[str, object]
    records: list[Came]
    files: set[str]


@pytest.fixture(scope="module")
def faults(mosquitto: MakeBroker, tmp_path_factory: pytest.TempPathFactory) -> Scenarios:
    """All of them, side by side."""

    async def in_use(folder: Path) -> Run:
        with mosquitto(settings=TELL_ALL) as broker:
            return await _in_use(folder, broker)

    async def restored(folder: Path) -> Run:
        with mosquitto(settings=TELL_ALL) as broker:
            return await _restored(folder, broker)

    async def corrupt(folder: Path) -> Run:
        with mosquitto(settings=TELL_ALL) as broker:
            return await _corrupt(folder, broker)

    async def corrupt_event(folder: Path) -> Run:
        with mosquitto(settings=TELL_ALL) as broker:
            return await _corrupt_event(folder, broker)

    async def killed(folder: Path) -> Run:
        with mosquitto(settings=TELL_ALL) as broker:
            return await _killed(folder, broker)

    scenarios = Scenarios(tmp_path_factory.mktemp("faults"), in_use, restored, corrupt, corrupt_event, killed)
    asyncio.run(scenarios.run())
    return scenarios


def files(agent: Service) -> set[str]:
    """What stands beside the store."""
    return {path.name for path in agent.store.parent.iterdir()}


async def known(agent: Service, came: Utility, code: int = 0, told: str = "", mended_ms: int = 0) -> Run:
    """What is known at the end."""
    ledger = await asyncio.to_thread(agent.command, "ledger", "--json")
    return Run(code, told, mended_ms, json.loads(ledger.stdout), came.records(), files(agent))


async def some(came: Utility, line: Meters, number: int = 1) -> None:
    """A reading, and so many more records."""
    wanted = len(came.records()) + number
    await line.send("home", 100)
    await until(lambda: len(came.records()) >= wanted)


async def _in_use(folder: Path, broker: Broker) -> Run:
    async with utility(broker) as came, meters(broker) as line:
        with service(folder, stream(broker.url, window=WINDOW)) as agent:
            agent.start()
            await subscribed(broker)
            await some(came, line)
            second = await asyncio.to_thread(agent.command, "run")
            await some(came, line)
            await agent.stop()
            return await known(agent, came, second.returncode, second.stderr)


async def _restored(folder: Path, broker: Broker) -> Run:
    """A copy is made, the agent goes on, and the copy is put back."""
    async with utility(broker) as came, meters(broker) as line:
        with service(folder, stream(broker.url, window=WINDOW, privacy=NOISY)) as agent:
            for turn in (1, 2):
                agent.start()
                await subscribed(broker, turn)
                await some(came, line)
                await agent.stop()
                if turn == 1:
                    shutil.copy(agent.store, folder / "copy")
            shutil.copy(folder / "copy", agent.store)
            failed = await asyncio.to_thread(agent.command, "run")
            mended_ms = now_ms()
            mended = await asyncio.to_thread(agent.command, "ledger", "--restored-at", iso_time(mended_ms))
            assert mended.returncode == 0, mended.stderr
            agent.start()
            await subscribed(broker, 3)
            await some(came, line)
            await agent.stop()
            return await known(agent, came, failed.returncode, failed.stderr, mended_ms)


async def _corrupt(folder: Path, broker: Broker) -> Run:
    """The file's head is overwritten while the agent is stopped."""
    async with utility(broker) as came, meters(broker) as line:
        with service(folder, stream(broker.url, window=WINDOW, privacy=NOISY)) as agent:
            agent.start()
            await subscribed(broker)
            await some(came, line)
            await agent.stop()
            spoil(agent.store)
            mended_ms = now_ms()
            agent.start()
            await subscribed(broker, 2)
            await some(came, line)
            await agent.stop()
            return await known(agent, came, agent.totals["store_set_aside"], agent.log, mended_ms)


async def _corrupt_event(folder: Path, broker: Broker) -> Run:
    async with utility(broker) as came:
        with service(folder, stream(broker.url, window='clock = "event"')) as agent:
            agent.start()
            await subscribed(broker)
            await agent.stop()
            before = spoil(agent.store)
            failed = await asyncio.to_thread(agent.command, "run")
            assert spoil(agent.store) == before
            return Run(failed.returncode, failed.stderr, 0, {}, came.records(), files(agent))


async def _killed(folder: Path, broker: Broker) -> Run:
    async with utility(broker) as came, meters(broker) as line:
        with service(folder, stream(broker.url, window=WINDOW)) as agent:
            agent.start()
            await subscribed(broker)
            await some(came, line)
            await agent.kill()
            return await known(agent, came)


def spoil(store: Path) -> bytes:
    """Overwrite the head of a file; returns what it holds then."""
    with store.open("r+b") as file:
        file.write(b"spoilt " * 100)
    return store.read_bytes()


def no_slot_has_two_values(records: list[Came]) -> bool:
    """Whether all that ever came of a slot is the same, byte for byte."""
    payloads: dict[int, set[bytes]] = defaultdict(set)
    for record in records:
        payloads[record.start_ms].add(record.payload)
    return all(len(found) == 1 for found in payloads.values())


def test_a_second_agent_ends_with_1(faults: Scenarios) -> None:
    """On a store in use it says so and ends; the first one goes on, and no slot is missing."""
    run = faults["in_use"]
    assert run.code == 1
    assert run.told.startswith("meteragent: ")
    assert "another agent has it open" in run.told
    starts_ms = [record.start_ms for record in run.records]
    assert starts_ms == [starts_ms[0] + 1000 * k for k in range(len(starts_ms))]


def test_a_restored_store_is_refused(faults: Scenarios) -> None:
    """A copy from before the last start ends `run` with 1, which says what to do about it."""
    run = faults["restored"]
    assert run.code == 1
    assert "a copy from before its last start or stop" in run.told
    assert "--restored-at TIME" in run.told


def test_after_restored_at_nothing_is_released_twice(faults: Scenarios) -> None:
    """With `ledger --restored-at` it runs again: no slot has two values, none before the time is new."""
    run = faults["restored"]
    assert no_slot_has_two_values(run.records)
    assert run.records[-1].start_ms >= run.mended_ms
    last_ms = max(record.start_ms for record in run.records if record.at_ms < run.mended_ms)
    assert all(r.start_ms <= last_ms or r.start_ms >= run.mended_ms // 1000 * 1000 for r in run.records)
    assert run.ledger["unknown_before"] == iso_time(run.mended_ms)


def test_a_corrupt_store_is_set_aside(faults: Scenarios) -> None:
    """By the wall clock the agent goes on: the file is kept under another name, counted, and said."""
    run = faults["corrupt"]
    assert run.code == 1  # times that a store was set aside
    assert "ERROR the store was corrupt or lost and has been set aside" in run.told
    assert any(name.startswith("db.corrupt-") for name in run.files)


def test_after_a_corrupt_store_nothing_is_released_twice(faults: Scenarios) -> None:
    """The first window begins at the next boundary, and the ledger says what it does not know."""
    run = faults["corrupt"]
    assert no_slot_has_two_values(run.records)
    after = [record for record in run.records if record.at_ms >= run.mended_ms]
    assert after
    assert all(record.start_ms >= run.mended_ms for record in after)
    unknown = run.ledger["unknown_before"]
    assert isinstance(unknown, str)
    assert parse_time(unknown) >= run.mended_ms


def test_by_the_event_clock_a_corrupt_store_ends_with_1(faults: Scenarios) -> None:
    """Where no boundary is known to be safe nothing is set aside, and a person must say when it is."""
    run = faults["corrupt_event"]
    assert run.code == 1
    assert "--restored-at TIME" in run.told
    assert not any("corrupt" in name for name in run.files)


def test_after_kill_9_the_ledger_can_be_read(faults: Scenarios) -> None:
    """`ledger` tells what was charged also when the agent has left its files as they were."""
    run = faults["killed"]
    (row,) = run.ledger["spent"]
    assert row["meter"] == "home"
    assert row["windows"] >= len(run.records)
