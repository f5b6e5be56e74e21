"""A store that is in use, restored from a copy, or corrupt: what the commands do about it, for real."""

import asyncio
import json
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from meteragent.domain.grid import iso_time, parse_time
from tests.conftest import MakeBroker
from tests.integration.service import (
    TELL_ALL,
    Arrival,
    Meters,
    Scenarios,
    Service,
    Utility,
    between,
    meters,
    now_ms,
    once,
    service,
    stream,
    subscribed,
    until,
    utility,
)
from tests.support.broker import Broker

NOISY = "level = 1\nradius = 220"
"""Two draws for one slot differ but for once in some 500 times; there are several slots."""
WINDOW = 'length = "1s"\ncatch_up = "300ms"'


Ended = subprocess.CompletedProcess[str]


class Restored(NamedTuple):
    """A start on a store in use, one on a copy put back, how that was mended, and what came."""

    second: Ended
    failed: Ended
    mended_ms: int
    ledger: dict[str, object]
    records: list[Arrival]


class Corrupt(NamedTuple):
    """The ledger after kill -9, how a start on a spoilt file went on, and what came."""

    killed: dict[str, list[dict[str, object]]]
    before: list[Arrival]
    started_ms: int
    log: str
    set_aside: int
    files: set[str]
    ledger: dict[str, object]
    records: list[Arrival]


class Hot(NamedTuple):
    """Starts on copies that were made while the agent ran and put back after kill -9, and what came."""

    file: Ended
    folder: Ended
    moved: Ended
    records: list[Arrival]


@pytest.fixture(scope="module")
def faults(mosquitto: MakeBroker, tmp_path_factory: pytest.TempPathFactory) -> Scenarios:
    """All of them, side by side."""
    tried = [
        between(mosquitto, one, {"settings": TELL_ALL}) for one in (_restored, _hot, _corrupt, _corrupt_event)
    ]
    scenarios = Scenarios(tmp_path_factory.mktemp("faults"), *tried)
    asyncio.run(scenarios.run())
    return scenarios


def files(agent: Service) -> set[str]:
    """What stands beside the store."""
    return {path.name for path in agent.store.parent.iterdir()}


async def command(agent: Service, *arguments: str) -> Ended:
    """What a command beside the agent says."""
    return await asyncio.to_thread(agent.command, *arguments)


async def ledger(agent: Service) -> Any:
    """What the ledger says."""
    return json.loads((await command(agent, "ledger", "--json")).stdout)


async def some(inbox: Utility, line: Meters) -> None:
    """A reading, and one more record."""
    wanted = len(inbox.records()) + 1
    await line.send("home", 100)
    await until(lambda: len(inbox.records()) >= wanted)


async def _restored(folder: Path, broker: Broker) -> Restored:
    """While it runs a second one starts; a copy is made, the agent goes on, and the copy is put back."""
    async with utility(broker) as inbox, meters(broker) as line:
        with service(folder, stream(broker.url, window=WINDOW, privacy=NOISY)) as agent:
            agent.start()
            await subscribed(broker)
            await some(inbox, line)
            second = await command(agent, "run")
            await some(inbox, line)
            await agent.stop()
            shutil.copy(agent.store, folder / "copy")
            agent.start()
            await subscribed(broker, 2)
            await some(inbox, line)
            await agent.stop()
            shutil.copy(folder / "copy", agent.store)
            failed = await command(agent, "run")
            mended_ms = now_ms()
            mended = await command(agent, "ledger", "--restored-at", iso_time(mended_ms))
            assert mended.returncode == 0, mended.stderr
            agent.start()
            await subscribed(broker, 3)
            await some(inbox, line)
            await agent.stop()
            return Restored(second, failed, mended_ms, await ledger(agent), inbox.records())


def back_up(store: Path, folder: Path) -> None:
    """Copy a store as SQLite does it, and its folder as a tool for files does."""
    with (
        closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as source,
        closing(sqlite3.connect(folder / "copy")) as copy,
    ):
        source.backup(copy)
    (folder / "folder").mkdir()
    for path in store.parent.glob("db*"):
        if path.is_file():  # not the socket that `health` asks
            shutil.copy(path, folder / "folder")


def put_back(copy: Path, store: Path) -> None:
    """Put a copy in the place of a store, or the files of a folder in the place of its files."""
    for suffix in ("-wal", "-shm"):
        Path(f"{store}{suffix}").unlink(missing_ok=True)
    for path in copy.iterdir() if copy.is_dir() else [copy]:
        shutil.copy(path, store.with_name(path.name) if copy.is_dir() else store)


async def _hot(folder: Path, broker: Broker) -> Hot:
    """The file copied by SQLite while the agent runs, and the whole folder; put back when it was killed."""
    async with utility(broker) as inbox, meters(broker) as line:
        with service(folder, stream(broker.url, window=WINDOW, privacy=NOISY)) as agent:
            agent.start()
            await subscribed(broker)
            await some(inbox, line)
            back_up(agent.store, folder)
            await some(inbox, line)
            await some(inbox, line)
            await agent.kill()
            put_back(folder / "copy", agent.store)
            file_alone = await command(agent, "run")
            put_back(folder / "folder", agent.store)
            whole = await command(agent, "run")
            return Hot(file_alone, whole, await command(agent, "ledger", "--moved"), inbox.records())


async def _corrupt(folder: Path, broker: Broker) -> Corrupt:
    """Killed, and the file's head overwritten."""
    async with utility(broker) as inbox, meters(broker) as line:
        with service(folder, stream(broker.url, window=WINDOW, privacy=NOISY)) as agent:
            agent.start()
            await subscribed(broker)
            await some(inbox, line)
            await agent.kill()
            killed, before = await ledger(agent), inbox.records()
            spoil(agent.store)
            started_ms = now_ms()
            agent.start()
            await subscribed(broker, 2)
            await some(inbox, line)
            await agent.stop()
            set_aside = agent.totals["store_set_aside"]
            told = await ledger(agent)
            return Corrupt(
                killed, before, started_ms, agent.log, set_aside, files(agent), told, inbox.records()
            )


async def _corrupt_event(folder: Path, broker: Broker) -> tuple[Ended, set[str]]:
    with service(folder, stream(broker.url, window='clock = "event"')) as agent:
        agent.start()
        await subscribed(broker)
        await agent.stop()
        before = spoil(agent.store)
        failed = await command(agent, "run")
        assert spoil(agent.store) == before
        return failed, files(agent)


def spoil(store: Path) -> bytes:
    """Overwrite the head of a file; returns what it holds then."""
    with store.open("r+b") as file:
        file.write(b"spoilt " * 100)
    return store.read_bytes()


def test_a_second_agent_ends_with_1(faults: Scenarios) -> None:
    """On a store in use it says so and ends; the first one goes on, and no slot is missing."""
    run = faults["restored"]
    assert run.second.returncode == 1
    assert "another agent has it open" in run.second.stderr.splitlines()[-1]
    starts_ms = [r.start_ms for r in once(r for r in run.records if r.at_ms < run.mended_ms)]
    assert starts_ms == [starts_ms[0] + 1000 * k for k in range(len(starts_ms))]


def test_a_restored_store_is_refused(faults: Scenarios) -> None:
    """A copy from before the last start ends `run` with 1, which says what to do about it."""
    run = faults["restored"]
    assert run.failed.returncode == 1
    assert "a copy from before its last start or stop" in run.failed.stderr
    assert "--restored-at TIME" in run.failed.stderr


def test_a_copy_made_while_it_ran_is_refused(faults: Scenarios) -> None:
    """The file alone, copied while the agent ran and put back after kill -9, ends `run` with 1."""
    run = faults["hot"]
    assert run.file.returncode == 1
    assert "a copy from before the last records left" in run.file.stderr
    once(run.records)


def test_a_folder_that_was_put_back_is_refused(faults: Scenarios) -> None:
    """All files together, copied while the agent ran, end `run` with 1, and `ledger --moved` as well."""
    run = faults["hot"]
    for ended in (run.folder, run.moved):
        assert ended.returncode == 1
        assert "copied while an agent ran" in ended.stderr
        assert "--restored-at" in ended.stderr
        assert "--moved" not in ended.stderr


def test_after_restored_at_nothing_is_released_twice(faults: Scenarios) -> None:
    """With `ledger --restored-at` it runs again: no slot has two values, and none before the time is new."""
    run = faults["restored"]
    once(run.records)
    assert run.records[-1].start_ms >= run.mended_ms
    known_ms = {record.start_ms for record in run.records if record.at_ms < run.mended_ms}
    assert all(r.start_ms in known_ms or r.start_ms >= run.mended_ms for r in run.records)
    assert run.ledger["unknown_before"] == iso_time(run.mended_ms)


def test_after_kill_9_the_ledger_can_be_read(faults: Scenarios) -> None:
    """`ledger` tells what was charged also when the agent has left its files as they were."""
    run = faults["corrupt"]
    (row,) = run.killed["spent"]
    assert row["meter"] == "home"
    assert row["windows"] >= len(run.before)


def test_a_corrupt_store_is_set_aside(faults: Scenarios) -> None:
    """By the wall clock the agent goes on: the file is kept under another name, counted, and said."""
    run = faults["corrupt"]
    assert run.set_aside == 1
    assert "ERROR the store was set aside: " in run.log
    assert "; a new one has replaced it" in run.log
    assert any(name.startswith("db.corrupt-") for name in run.files)


def test_after_a_corrupt_store_nothing_is_released_twice(faults: Scenarios) -> None:
    """The first window begins at the next boundary, and the ledger says what it does not know."""
    run = faults["corrupt"]
    once(run.records)
    after = run.records[len(run.before) :]
    assert after
    assert all(record.start_ms >= run.started_ms for record in after)
    unknown = run.ledger["unknown_before"]
    assert isinstance(unknown, str)
    assert parse_time(unknown) >= run.started_ms


def test_by_the_event_clock_a_corrupt_store_ends_with_1(faults: Scenarios) -> None:
    """Where no boundary is known to be safe nothing is set aside, and a person must say when it is."""
    failed, files_left = faults["corrupt_event"]
    assert failed.returncode == 1
    assert "--restored-at TIME" in failed.stderr
    assert not any("corrupt" in name for name in files_left)
