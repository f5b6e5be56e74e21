"""Two agents on one meter: a store that has not announced a topic listens whether another one has."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from meteragent import config
from meteragent.agent.link import other_agent
from meteragent.agent.store_thread import StoreThread
from meteragent.domain import identity
from meteragent.domain.counters import Counts
from meteragent.domain.errors import LinkError
from meteragent.domain.grid import iso_time
from meteragent.mqtt import SubscriptionRefused
from meteragent.service.health import ask_socket, socket_path
from meteragent.store import commands, read_only, restore_at
from tests.support.agent_world import START_MS, STEP_MS, STREAM, World, quick
from tests.support.contexts import context_of
from tests.support.fake_session import FakeSession, Publication
from tests.support.mqtt_peer import turns
from tests.support.stores import open_store
from tests.support.vitals import agent_vitals

ANNOUNCED = {"id": "0", "meter": "m", "valid_from": iso_time(START_MS - STEP_MS)}


class Loop:
    """The loop's clock, as the listener reads it."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        """Return seconds."""
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Loop:
    """A clock that a test sets."""
    made = Loop()
    monkeypatch.setattr(other_agent, "loop_s", made)
    return made


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world whose agent listens for ten seconds."""
    made = quick(tmp_path, monkeypatch)
    made.listen_s = 10.0
    return made


async def seconds(world: World, number: int) -> None:
    """Let windows pass."""
    for _ in range(number):
        world.now_ms += STEP_MS
        await world.settle()


async def asked(world: World, meter: str = "m") -> None:
    """Receive a meter's first reading, so that the agent listens on its topic."""
    world.sides["source"].send(100, meter, time_ms=world.now_ms)
    await world.until(lambda: f"private/{meter}/privacy" in world.sides["sink"].session.filters)


def hear(world: World, meter: str = "m", *, retain: bool = True, **facts: object) -> None:
    """Receive a descriptor on the sink's connection."""
    payload = json.dumps(ANNOUNCED | facts).encode()
    sink = world.sides["sink"]
    sink.session.send(sink, payload, f"private/{meter}/privacy", retain=retain)


def record(world: World, *, retain: bool = False) -> None:
    """Receive another agent's record of the meter `m` on the sink's connection."""
    sink = world.sides["sink"]
    sink.session.send(sink, b"{}", "private/m", retain=retain)


async def codes(world: World) -> list[str]:
    """Return the codes of the agent's problems, without that of waiting records: nobody confirms any."""
    answer = await asyncio.to_thread(ask_socket, socket_path(world.store))
    assert answer is not None
    return [item.code for item in agent_vitals(answer).problems if item.code != "messages_wait"]


def sent(world: World) -> list[Publication]:
    """Return what has left so far."""
    queue = world.sides["sink"].session.published
    return [queue.get_nowait() for _ in range(queue.qsize())]


async def published(world: World) -> Publication:
    """Return what leaves next."""
    return await world.sides["sink"].session.next()


def refusing(error: LinkError) -> Callable[[str], Coroutine[Any, Any, None]]:
    """A broker that does not let anybody subscribe."""

    async def subscribe(_: str) -> None:
        raise error

    return subscribe


async def test_a_new_meter_is_listened_to_before_its_first_window(world: World, clock: Loop) -> None:
    """No window opens for ten seconds; if nothing came, the first one opens at the next boundary."""
    async with world.running():
        await asked(world)
        await seconds(world, 3)
        clock.now_s += 9.9
        await seconds(world, 1)
        assert (world.agent.counts["opened"], world.agent.counts["held"]) == (0, 5)
        clock.now_s += 0.2
        await world.settle()
        assert (world.agent.counts["opened"], sent(world)) == (0, [])
        await seconds(world, 1)
        assert world.agent.counts["opened"] == 1
        descriptor = json.loads((await published(world)).payload)
        assert descriptor["valid_from"] == iso_time(START_MS + 5 * STEP_MS)
        assert world.sides["sink"].session.filters == []
        assert await codes(world) == []


async def test_another_stores_meter_is_held_back(world: World, clock: Loop) -> None:
    """A meter announced by another store opens nothing, is not charged and releases nothing; others go on."""
    async with world.running():
        await asked(world)
        await asked(world, "n")
        hear(world, store="0123456789abcdef")
        clock.now_s += 11
        await seconds(world, 5)
        assert world.agent.counts["released"] >= 2
        assert {item.topic.split("/")[1] for item in [await published(world), *sent(world)]} == {"n"}
        assert await codes(world) == ["earlier_store"]
        record(world)
        assert await codes(world) == ["other_agent"]
        [actual] = world.agent.alarms.problems
        assert actual.text.startswith("stream main: another agent releases 1 of the meters")
        assert "--restored-at now" in actual.cure
    with read_only(world.store) as connection:
        assert {row.meter for row in commands.day_charges(connection)} == {"n"}


async def test_a_deleted_store_is_not_another_agent(
    world: World, clock: Loop, caplog: pytest.LogCaptureFixture
) -> None:
    """If nobody sends on the meter's topic, `health` and the log say what to do, and name no other agent."""
    async with world.running():
        await asked(world)
        hear(world, store="0123456789abcdef")
        record(world, retain=True)
        clock.now_s += 11
        await seconds(world, 5)
        assert world.agent.counts["opened"] == 0
        [actual] = world.agent.alarms.problems
    assert actual.code == "earlier_store"
    assert actual.text.startswith("stream main: an earlier store has released 1 of the meters")
    assert "(was the earlier one deleted?)" in actual.text
    assert "--restored-at now" in actual.cure
    assert any(actual.cure in line for line in caplog.messages)
    assert "another agent releases" not in caplog.text


async def test_another_agent_that_announces_a_meter_now_is_one(world: World, clock: Loop) -> None:
    """A descriptor that is published while the agent listens comes from an agent that runs."""
    async with world.running():
        await asked(world)
        hear(world, store="0123456789abcdef", retain=False)
        assert await codes(world) == ["other_agent"]


async def test_another_agent_is_noticed_on_a_later_connection(tmp_path: Path) -> None:
    """The agent listens for its records on each connection, and no longer once it has heard one."""
    counts = Counts()
    thread = StoreThread(open_store(tmp_path / "db"), 0, 2**30, [], counts)
    context = context_of(config.parse(STREAM.format("", "")), thread, counts)
    listener = other_agent.Listener("main", context)
    listener.ask_about(["private/m"])
    listener.hear_message("private/m/privacy", json.dumps(ANNOUNCED).encode(), retain=True)
    for _ in range(2):
        session = FakeSession()
        task = asyncio.ensure_future(listener.serve(session))
        await turns(5)
        assert session.filters == ["private/m"]
        task.cancel()
    assert [item.code for item in context.alarms.problems] == ["earlier_store"]
    listener.hear_message("private/m", b"record", retain=False)
    assert session.filters == []
    assert [item.code for item in context.alarms.problems] == ["other_agent"]
    await thread.close()


async def test_an_agent_of_an_earlier_version_counts_as_another(world: World, clock: Loop) -> None:
    """A descriptor without a mark is not this store's, because this store knows what it announced."""
    async with world.running():
        await asked(world)
        hear(world)
        clock.now_s += 11
        await seconds(world, 3)
        assert (world.agent.counts["opened"], await codes(world)) == (0, ["earlier_store"])


async def test_what_is_no_descriptor_holds_nothing_back(world: World, clock: Loop) -> None:
    """Arbitrary bytes on the topic are not a claim, and neither is a descriptor on another topic."""
    async with world.running():
        await asked(world)
        sink = world.sides["sink"]
        for payload in (
            b"",
            b"\xff",
            b"[]",
            b"{}",
            b"3",
            b'{"store":"x","valid_from":"soon"}',
            b"[" * 100_000,
        ):
            sink.session.send(sink, payload, "private/m/privacy", retain=True)
        hear(world, "other")
        clock.now_s += 11
        await seconds(world, 2)
        assert (world.agent.counts["opened"], await codes(world)) == (2, [])


async def test_a_store_knows_its_own_mark(world: World, clock: Loop) -> None:
    """After a restart the agent does not listen for meters that it announced; descriptors have its mark."""
    async with world.running():
        await asked(world)
        clock.now_s += 11
        await seconds(world, 2)
        descriptor = json.loads((await published(world)).payload)
    async with world.running():
        await seconds(world, 2)
        assert world.agent.counts["opened"] > 0
        assert world.sides["sink"].session.filters == []  # announced: nobody is asked
    assert descriptor["store"] == identity.store_mark(descriptor_key(world), "private/m")


def descriptor_key(world: World) -> bytes:
    """The key of the store's marks."""
    with open_store(world.store) as store:
        return store.claim_key


async def test_its_own_descriptor_is_an_answer_at_once(world: World, clock: Loop) -> None:
    """If the retained descriptor has this store's mark, the wait is over."""
    async with world.running():
        await seconds(world, 1)
    key = descriptor_key(world)
    async with world.running():
        await asked(world)
        hear(world, store=identity.store_mark(key, "private/m"))
        await seconds(world, 2)
        assert (world.agent.counts["opened"] > 0, await codes(world)) == (True, [])
        assert clock.now_s == 100.0


async def test_a_store_takes_over_what_was_announced_before(world: World, clock: Loop) -> None:
    """After `--restored-at` the meters that another store had announced are its own, not those of later."""
    async with world.running():
        await world.turn()
    restore_at(world.store, at_ms=START_MS, now_ms=START_MS)
    async with world.running():
        for meter, valid_ms in (("m", START_MS - 1), ("n", START_MS)):
            await asked(world, meter)
            hear(world, meter, store="0123456789abcdef", valid_from=iso_time(valid_ms))
        await seconds(world, 2)
        assert {item.topic.split("/")[1] for item in [await published(world), *sent(world)]} == {"m"}
        assert await codes(world) == ["earlier_store"]


async def test_a_broker_that_lets_nobody_listen_is_a_warning(world: World, clock: Loop) -> None:
    """Without read access, or an answer within ten seconds, the first window opens, and is counted."""
    async with world.running():
        session = world.sides["sink"].session
        session.subscribe = refusing(SubscriptionRefused("no"))  # type: ignore[method-assign,assignment]
        world.sides["source"].send(100, "m", time_ms=world.now_ms)
        await world.until(lambda: world.agent.counts["unchecked"] == 1)
        session.subscribe = refusing(LinkError("no answer"))  # type: ignore[method-assign,assignment]
        world.sides["source"].send(100, "n", time_ms=world.now_ms)
        await seconds(world, 2)
        assert (world.agent.counts["opened"], world.agent.counts["unchecked"]) == (2, 1)
        clock.now_s += 11
        await seconds(world, 2)
        assert world.agent.counts["unchecked"] == 2
        while (await session.next()).topic != "private/n/privacy":
            pass  # it is announced
        assert await codes(world) == []


async def test_what_was_not_answered_is_asked_again(world: World, clock: Loop) -> None:
    """If the connection ends while the agent listens, it listens again on the next one."""
    async with world.running():
        await asked(world)
    async with world.running():
        await world.until(lambda: "private/m/privacy" in world.sides["sink"].session.filters)
        assert world.agent.counts["opened"] == 0


async def test_a_replay_listens_to_nobody(world: World, clock: Loop) -> None:
    """By the event clock, windows open at once, by the readings' own times."""
    text = STREAM.format("", "").replace('catch_up = "5s"', 'clock = "event"')
    async with world.running(text):
        for step in range(3):
            world.sides["source"].send(100, time_ms=START_MS + step * STEP_MS)
        await world.until(lambda: world.agent.counts["opened"] > 1)
        assert world.sides["sink"].session.filters == []
