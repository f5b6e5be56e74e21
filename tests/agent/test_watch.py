"""Watching over the agent: it answers questions about its state, and tells systemd that it is alive."""

import asyncio
import json
import socket
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Event

import pytest

from meteragent import cli
from meteragent.agent import runner, vitals, watch
from meteragent.agent.vitals import AgentVitals
from meteragent.agent.watch import StreamWatch
from meteragent.domain.counters import COUNTERS
from meteragent.service import health
from meteragent.service.health import ask_socket, socket_path
from meteragent.service.process import Notify
from meteragent.store import transaction
from tests.support.agent_world import STEP_MS, STREAM, World, quick
from tests.support.fake_session import LIMIT_S
from tests.support.vitals import agent_vitals


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world whose agent looks at its clock every 2 ms."""
    monkeypatch.setattr(health, "STATUS_S", 0.005)
    return quick(tmp_path, monkeypatch)


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[socket.socket]:
    """A socket on which systemd would listen."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.setblocking(False)
        yield listening


async def asked(world: World) -> AgentVitals:
    """Return what the agent tells another process about itself."""
    answer = await asyncio.to_thread(ask_socket, socket_path(world.store))
    assert answer is not None
    return agent_vitals(answer)


def texts(found: AgentVitals) -> list[str]:
    """Return the problems as a person reads them."""
    return [item.text for item in found.problems]


def codes(found: AgentVitals) -> list[str]:
    """Return the codes of the problems."""
    return [item.code for item in found.problems]


async def until_told(world: World, wanted: list[str]) -> None:
    """Ask until these are the codes."""
    async with asyncio.timeout(LIMIT_S):
        while codes(await asked(world)) != wanted:
            await world.turn(1)


async def heard(systemd: socket.socket, wanted: str) -> list[str]:
    """Return what systemd hears until it hears this line."""
    lines: list[str] = []
    async with asyncio.timeout(LIMIT_S):
        while wanted not in lines:
            told = await asyncio.get_running_loop().sock_recv(systemd, 4096)
            lines += told.decode().splitlines()
    return lines


async def test_who_asks_is_told_how_the_agent_is(world: World) -> None:
    """Connections, meters, what waits and for how long, and what was spent today; no value, no raw name."""
    async with world.running(STREAM.format("", "") + f'pseudonym_key_file = "{key(world)}"\n'):
        world.sides["source"].send(4321, "canary")
        await world.until(lambda: world.agent.counts["opened"] == 1)
        world.now_ms += 3 * STEP_MS
        await world.until(lambda: world.agent.counts["released"] == 3)
        actual = await asked(world)
        answer = await asyncio.to_thread(ask_socket, socket_path(world.store))
    (item,) = actual.streams
    assert (item.name, item.source_up, item.sink_up, item.meters) == ("main", True, True, 1)
    assert item.waiting == 5  # three records and the descriptor in its two places: nobody confirmed any
    assert item.lag_s == 3
    (label,) = item.spent_per_w
    assert item.spent_per_w[label] == 400  # four windows were opened, at level 1000 and 10 W
    assert answer is not None
    assert "canary" not in answer
    assert "4321" not in answer


def key(world: World) -> Path:
    """A file with a key for pseudonyms."""
    path = world.store.with_name("key")
    path.write_bytes(b"0123456789abcdef")
    return path


async def test_what_is_delivered_does_not_wait(world: World) -> None:
    """A confirmed record that is not yet marked in the store is not part of the backlog."""
    async with world.running():
        world.sides["source"].send(1)
        await world.until(lambda: world.agent.counts["opened"] == 1)
        sent = [await world.sides["sink"].session.next() for _ in range(2)]
        assert (await asked(world)).streams[0].waiting == 2
        for item in sent:
            world.sides["sink"].confirm(item)
        assert (await asked(world)).streams[0].waiting == 0


async def test_a_clock_that_stands_is_a_problem(world: World) -> None:
    """Without a clock the agent reports that processing is paused."""
    async with world.running():
        await world.turn()
        assert (await asked(world)).problems == ()
        world.now_ms -= 1000
        await world.turn()
        assert texts(await asked(world)) == ["processing paused: no usable clock"]


async def test_what_a_part_raises_is_told(world: World) -> None:
    """A problem that any part of the agent raises is told as the others are, until it is cleared."""
    async with world.running():
        await world.turn()
        world.agent.alarms.raise_("sink_down", "other")
        assert texts(await asked(world)) == ["stream other: no connection to the broker of the sink"]
        world.agent.alarms.clear("sink_down", "other")
        assert texts(await asked(world)) == []


async def test_a_full_disk_is_told_while_the_agent_runs(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as little space is free, before a write fails."""
    async with world.running():
        await world.turn()
        monkeypatch.setattr("meteragent.agent.watch.has_room", lambda _: False)
        [problem] = (await asked(world)).problems
        assert (problem.code, problem.stream) == ("disk_full", None)
        monkeypatch.undo()
        assert texts(await asked(world)) == []


async def test_a_log_that_is_not_erased_is_told(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that keeps the log is a problem, then pauses processing until the reader ends."""
    monkeypatch.setattr(vitals, "UNERASED_S", 0.0)
    async with world.running():
        world.sides["source"].send(1)
        await world.until(lambda: world.agent.counts["opened"] == 1)
        with closing(sqlite3.connect(world.store, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM mark").fetchall()
            world.now_ms += STEP_MS
            await world.until(lambda: world.agent.counts["released"] == 1)
            await until_told(world, ["wal_not_erased"])
            monkeypatch.setattr(runner, "UNERASED_MAX_S", 1e-9)
            monkeypatch.setattr(watch, "UNERASED_MAX_S", 1e-9)
            world.now_ms += STEP_MS
            await world.until(lambda: world.agent.counts["store_unerased"] == 1)
            assert codes(await asked(world)) == ["unerased_stands"]
            assert world.agent.counts["released"] == 1
        await until_told(world, [])


async def test_a_lost_connection_is_a_problem_until_it_is_back(world: World) -> None:
    """A lost connection, on either side, is a problem until it is restored."""
    async with world.running():
        await world.turn()
        world.sides["sink"].lose()
        assert texts(await asked(world)) == ["stream main: no connection to the broker of the sink"]
        assert world.agent.counts["sink_lost"] == 1


async def test_only_the_owner_may_ask(world: World) -> None:
    """Only who may read the store can use the socket, which is removed with the agent."""
    path = socket_path(world.store)
    async with world.running():
        await world.turn()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not path.exists()


async def test_a_socket_that_was_left_behind_is_replaced(world: World) -> None:
    """A crash leaves its socket behind; the next start answers all the same."""
    path = socket_path(world.store)
    with socket.socket(socket.AF_UNIX) as old:
        old.bind(str(path))
    async with world.running():
        await world.turn()
        assert (await asked(world)).problems == ()


async def test_a_path_of_any_length_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The address of a socket has room for 108 bytes; the store's folder may be deeper."""
    folder = tmp_path / ("d" * 120)
    folder.mkdir()
    world = quick(folder, monkeypatch)
    async with world.running():
        await world.turn()
        assert (await asked(world)).problems == ()


async def test_the_command_tells_and_judges(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """`health` prints the agent's state; it exits with 1 for a problem, and if no agent runs."""
    config = world.store.with_name("c.toml")
    config.write_text(f'{STREAM.format("", "")}\n[store]\npath = "{world.store}"\n')
    async with world.running():
        await world.turn()
        assert await asyncio.to_thread(cli.main, ["health", str(config)]) == 0
        assert "Waiting for the first message of: main." in capsys.readouterr().out
        world.now_ms -= 1000
        await world.turn()
        capsys.readouterr()
        assert await asyncio.to_thread(cli.main, ["health", str(config), "--quiet"]) == 1
        assert capsys.readouterr() == ("", "")
        assert await asyncio.to_thread(cli.main, ["health", str(config), "--json"]) == 1
        assert json.loads(capsys.readouterr().out)["healthy"] is False
    assert cli.main(["health", str(config)]) == 1
    assert f"Start the agent: meteragent run {config}\n" in capsys.readouterr().err


def test_a_relative_store_is_named_with_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In another folder than the agent's, `health` looks for another store, and says which."""
    monkeypatch.chdir(tmp_path)
    Path("c.toml").write_text(f'{STREAM.format("", "")}\n[store]\npath = "m.db"\n')
    assert cli.main(["health", "c.toml"]) == 1
    assert f"answers at {tmp_path / 'm.db.health'}: " in capsys.readouterr().err


async def test_systemd_hears_that_the_agent_is_ready_and_alive(world: World, systemd: socket.socket) -> None:
    """First that it is ready, then repeatedly its state and that it is alive."""
    async with world.running(notify=Notify(systemd.getsockname(), watchdog_s=0.04)):
        assert (await heard(systemd, "READY=1"))[0] == "READY=1"
        for _ in range(3):
            assert "STATUS=all is well" in await heard(systemd, "WATCHDOG=1")


async def test_a_store_that_hangs_is_not_alive(
    world: World, systemd: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a commit does not return, the event loop still runs, and the watchdog is not fed."""
    hangs = Event()
    monkeypatch.setattr(transaction, "commit", lambda *_: hangs.wait(LIMIT_S))
    async with world.running(notify=Notify(systemd.getsockname(), watchdog_s=0.08)):
        await heard(systemd, "WATCHDOG=1")
        world.sides["source"].send(1)
        with pytest.raises(TimeoutError):
            await _until_silent(systemd)
        hangs.set()


async def _until_silent(systemd: socket.socket) -> None:
    """Listen as long as the watchdog is fed; raises TimeoutError."""
    while True:
        async with asyncio.timeout(0.3):
            await heard(systemd, "WATCHDOG=1")


async def test_a_runner_that_does_not_go_round_is_not_alive(
    world: World, systemd: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state is still sent, but the watchdog is fed only while every runner completes its loop."""
    monkeypatch.setattr(StreamWatch, "heartbeat", lambda _: None)
    async with world.running(notify=Notify(systemd.getsockname(), watchdog_s=0.4)):
        told = [line for _ in range(160) for line in await heard(systemd, "STATUS=all is well")]
    assert 0 < told.count("WATCHDOG=1") < 48
    assert told[-1] == "STATUS=all is well"


def test_what_systemd_says_in_the_environment() -> None:
    """The address, and the watchdog if it is meant for this process; without systemd, nothing is sent."""
    said = {"NOTIFY_SOCKET": "/run/x", "WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "7"}
    assert Notify.of(said, 7) == Notify("/run/x", 3.0)
    assert Notify.of(said, 8) == Notify("/run/x", None)
    assert Notify.of({"NOTIFY_SOCKET": "/run/x"}, 7) == Notify("/run/x", None)
    assert Notify.of({"WATCHDOG_USEC": "1"}, 7) == Notify.of({}, 7) == Notify()
    Notify().send_lines("READY=1")
    Notify("/nowhere/at/all").send_lines("READY=1")


def test_an_abstract_address_is_one(tmp_path: Path) -> None:
    """An address that begins with @ is in the kernel's own name space."""
    name = f"meteragent-test-{tmp_path.name}-{id(tmp_path)}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind("\0" + name)
        listening.settimeout(LIMIT_S)
        Notify(f"@{name}").send_lines("READY=1", "STATUS=x")
        assert listening.recv(100) == b"READY=1\nSTATUS=x"


def test_every_counter_is_explained() -> None:
    """Each counter that people see has a sentence."""
    assert all(text and not text.endswith(".") for text in COUNTERS.values())
