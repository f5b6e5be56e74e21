"""How long a stop waits: for what is due at brokers that were reached, and for nothing else."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

import meteragent.agent as module
from meteragent.mqtt import Endpoint, Session
from meteragent.store import outbox, read_only
from tests.support.agent_world import STEP_MS, STREAM, World, quick
from tests.support.fake_session import LIMIT_S

WAITING = "stopping: waiting for brokers to confirm what is due"


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> World:
    """A world whose agent would wait for a very long time at a stop, with its log kept."""
    caplog.set_level(logging.INFO, "meteragent")
    world = quick(tmp_path, monkeypatch)
    monkeypatch.setattr(module, "DRAIN_S", 100 * LIMIT_S)
    return world


async def stopped(task: "asyncio.Task[None]") -> bool:
    """Wait until the agent has ended; return whether it did."""
    await asyncio.wait({task}, timeout=LIMIT_S)
    return task.cancelled()


def waiting_rows(world: World) -> int:
    """Return how many messages wait in the outbox."""
    with read_only(world.store) as connection:
        return outbox.depth(connection, "main")


async def test_a_stop_without_due_messages_ends_at_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing waits, so nothing is said of waiting; nor does a message of a later time count."""
    async with world.running() as task:
        await world.turn()
        task.cancel()
        assert await stopped(task)
    async with world.running(STREAM.format("", "") + 'spread = "1h"\n') as task:
        world.sides["source"].send(100)
        for descriptor in await world.sides["sink"].session.take(2):
            world.sides["sink"].confirm(descriptor)
        world.now_ms += STEP_MS
        await world.until(lambda: world.agent.counts["released"] == 1)
        await world.settle()
        task.cancel()
        assert await stopped(task)
    assert waiting_rows(world) == 1
    assert not any(line.startswith("stopping") for line in caplog.messages)


async def test_a_broker_that_was_never_reached_is_not_waited_for(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What is due stays in the store, and the next start sends it."""

    async def keep_connected(
        endpoint: Endpoint, client_id: str, serve: Callable[[Session], Awaitable[None]], **options: Any
    ) -> NoReturn:
        """Connect the source, and never the sink."""

        async def serve_never(_: Session) -> None:
            """Wait for ever."""
            await asyncio.Event().wait()

        await world.keep_connected(
            endpoint, client_id, serve_never if client_id.endswith("-sink") else serve, **options
        )

    with monkeypatch.context() as patch:
        patch.setattr(module, "keep_connected", keep_connected)
        async with world.running() as task:
            world.sides["source"].send(100)
            await world.until(lambda: world.agent.counts["opened"] == 1)
            await world.settle()
            task.cancel()
            assert await stopped(task)
    assert waiting_rows(world) == 2
    [line] = [line for line in caplog.messages if line.startswith("stopping")]
    assert line == "stopping: a broker was never reached: its messages stay in the store for the next start"
    async with world.running() as task:
        for descriptor in await world.sides["sink"].session.take(4):  # the connection's own ones first
            world.sides["sink"].confirm(descriptor)
        task.cancel()
        assert await stopped(task)
    assert waiting_rows(world) == 0


async def test_a_second_signal_ends_the_wait_for_a_broker(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """The log says so, and what is not confirmed stays in the outbox."""
    async with world.running() as task:
        world.sides["source"].send(100)
        await world.sides["sink"].session.take(2)
        task.cancel()
        await world.until(lambda: any(line.startswith(WAITING) for line in caplog.messages))
        assert not task.done()
        task.cancel()
        assert await stopped(task)
    assert waiting_rows(world) == 2
    [line] = [line for line in caplog.messages if line.startswith(WAITING)]
    assert line.endswith("press Ctrl-C again to end now")
