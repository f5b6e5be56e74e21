"""The composition root: meteragent.agent, between brokers that a test plays, over a real store."""

import asyncio
import logging
import re
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any, NoReturn

import pytest

import meteragent.agent.service as module
from meteragent import config
from meteragent.agent import parts
from meteragent.agent.service import Agent
from meteragent.domain.commit import Charge, Commit, TimelineState
from meteragent.domain.errors import ConfigError, StoreError
from meteragent.domain.units import DAY_MS
from meteragent.store import outbox, read_only
from tests.support.agent_world import START_MS, STEP_MS, STREAM, World, quick, reading
from tests.support.fake_session import LIMIT_S
from tests.support.stores import LENGTH_MS, open_store, opening, persist


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world whose agent checks its clock every 2 ms, and does not wait for brokers when it stops."""
    return quick(tmp_path, monkeypatch)


async def test_readings_in_records_out(world: World) -> None:
    """Readings that arrive at the source leave at the sink as private records, acknowledged and counted."""
    async with world.running():
        source = world.sides["source"]
        source.send(100)
        await world.until(lambda: world.agent.counts["opened"] == 1)
        world.now_ms += STEP_MS // 2
        source.send(300, time_ms=world.now_ms)
        await world.until(lambda: source.session.acknowledged == [reading(100, START_MS)])
        world.now_ms = START_MS + 2 * STEP_MS
        assert await world.records(2) == [("private/m", 0, 200), ("private/m", 1, 300)]
    counts = world.agent.counts
    assert (counts["received"], counts["released"], counts["delivered"]) == (2, 2, 4)


async def test_brokers_know_the_agent_again(world: World) -> None:
    """Client ids are the same at every start; those seen by two receivers share nothing, not even a name."""
    names = []
    text = "".join(f'[[stream]]\nname = "{n}"\n' + STREAM.format("stream.", n) for n in ("main", "two"))
    for _ in range(2):
        async with world.running(text):
            await world.until(lambda: len(world.sides) == 4)
            names.append({side: made.client_id for side, made in world.sides.items()})
    assert names[0] == names[1]
    own = names[0]["source"].split("-")[1]
    for side in ("source", "source-two"):
        assert names[0][side] == f"meteragent-{own}-{side}"
    sinks = [names[0][side] for side in ("sink", "sink-two")]
    assert all(re.fullmatch("meteragent-[0-9a-f]{16}-sink", sink) and own not in sink for sink in sinks)
    assert sinks[0] != sinks[1]


@pytest.mark.parametrize(("keys", "seconds"), [("", 604_800), ("kind", 604_800), ("kind time", 0)])
async def test_what_a_register_showed_while_we_were_away_is_not_kept(
    world: World, keys: str, seconds: int
) -> None:
    """The broker keeps readings for a week, except those of a register without timestamps."""
    text = STREAM.format("", "")
    if "kind" in keys:
        text = text.replace('kind = "power"', 'kind = "register"').replace('"W"', '"Wh"')
        text = text.replace("level = 1000", "level = 1000\nquantum = 1")
    if "time" in keys:
        text = text.replace('time = "t"', "")
    async with world.running(text):
        assert world.sides["source"].link.session_expiry_s == seconds


async def test_a_stop_drains_the_outbox_and_closes_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the agent stops, written rows leave and are marked, and no slot closes, however late it is."""
    monkeypatch.setattr(module, "DRAIN_S", LIMIT_S)
    async with world.running() as task:
        sink = world.sides["sink"]
        sink.session.inflight = 2
        world.sides["source"].send(100)
        descriptors = await sink.session.take(2)
        world.now_ms += STEP_MS
        await world.until(lambda: world.agent.counts["opened"] == 2)
        await world.turn()
        task.cancel()
        await world.turn()  # the stop reaches all tasks before the time moves
        world.now_ms += 10 * STEP_MS
        for publication in descriptors:
            sink.confirm(publication)
        assert await world.records(1) == [("private/m", 0, 100)]
        await asyncio.wait({task}, timeout=LIMIT_S)
        assert task.cancelled()
    with read_only(world.store) as connection:
        assert outbox.queue_depth(connection, "main") == 0
    assert world.agent.counts["released"] == 1


async def test_what_falls_due_during_a_stop_leaves_at_the_next_start(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stop sends only what is due when it begins; all that has left is confirmed and marked."""
    monkeypatch.setattr(module, "DRAIN_S", LIMIT_S)
    text = STREAM.format("", "") + 'spread = "1h"\n'
    async with world.running(text) as task:
        sink = world.sides["sink"]
        world.sides["source"].send(100)
        descriptors = await sink.session.take(2)
        world.now_ms += STEP_MS
        await world.until(lambda: world.agent.counts["released"] == 1)
        await world.turn()
        task.cancel()
        await world.turn()
        world.now_ms += 2 * 3_600_000
        await world.turn()
        for publication in descriptors:
            sink.confirm(publication)
        await asyncio.wait({task}, timeout=LIMIT_S)
        assert sink.session.published.empty()
    with read_only(world.store) as connection:
        assert outbox.queue_depth(connection, "main") == 1


async def test_a_stop_does_not_wait_for_ever(world: World) -> None:
    """If the broker confirms nothing, the stop ends after its time limit, and the rows stay in the outbox."""
    async with world.running() as task:
        world.sides["source"].send(100)
        await world.sides["sink"].session.take(2)
        task.cancel()
        await asyncio.wait({task}, timeout=LIMIT_S)
        assert task.cancelled()
    with read_only(world.store) as connection:
        assert outbox.queue_depth(connection, "main") == 2


async def test_the_next_start_sends_what_is_left(world: World) -> None:
    """Rows that a stop left behind leave at the next start, byte for byte."""
    async with world.running():
        world.sides["source"].send(100)
        first = await world.sides["sink"].session.take(2)
        world.now_ms += STEP_MS
        first += await world.sides["sink"].session.take(1)
    async with world.running():
        second = await world.sides["sink"].session.take(5)  # the connection's own descriptors first
    assert [(p.topic, p.payload, p.retain) for p in second[2:]] == [
        (p.topic, p.payload, p.retain) for p in first
    ]


class Broken:
    """No random bits."""

    def integer(self, k: int) -> int:
        """Fail."""
        raise ZeroDivisionError

    def array(self, count: int, dtype: type[Any]) -> NoReturn:
        """Fail."""
        raise ZeroDivisionError

    def discard(self) -> None:
        """As Bits."""


async def test_a_failure_ends_everything_and_leaves_the_store_usable(world: World) -> None:
    """A stream's error ends the agent with that error; the store is closed, and the next start continues."""
    async with world.running(bits=Broken()) as task:
        world.sides["source"].send(100)
        await raises(task, ZeroDivisionError)
    assert all(side.session.over for side in world.sides.values())
    assert world.agent.counts["opened"] == 0
    async with world.running():
        world.sides["source"].send(100)
        await world.until(lambda: world.agent.counts["opened"] == 1)


async def test_a_failing_sink_ends_the_agent_too(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """No stream continues without its sink: the sink's error is raised."""

    def fail(*_: object, **__: object) -> NoReturn:
        raise ZeroDivisionError

    async with world.running() as task:
        monkeypatch.setattr(world.sides["sink"].session, "publish", fail)
        world.sides["source"].send(100)
        await raises(task, ZeroDivisionError)


async def raises(task: "asyncio.Task[None]", kind: type[Exception]) -> None:
    """Fail unless a task ends with exactly this failure, in whatever groups."""
    await asyncio.wait({task}, timeout=LIMIT_S)
    raised = task.exception()
    while isinstance(raised, BaseExceptionGroup):
        (raised,) = raised.exceptions
    assert isinstance(raised, kind)


async def test_without_a_clock_no_store_is_made(world: World) -> None:
    """Before the clock is synchronised nothing is opened, so that no loss is dated to 1970."""
    world.now_ms = 86_400_000
    agent = Agent(world.parse(STREAM.format("", "")), world.environment())
    task = asyncio.create_task(agent.run())
    await world.turn()
    assert not world.store.exists()
    assert not world.sides
    world.now_ms = START_MS
    async with asyncio.timeout(LIMIT_S):
        await world.connected.wait()
    assert world.store.exists()
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()
    assert agent.counts["clock_waits"] == 1


async def test_a_clock_behind_the_store_is_waited_for(world: World) -> None:
    """Until the clock has passed the newest time in the store, the agent takes and opens nothing."""
    await _stopped_for_three_seconds(world)
    world.now_ms = START_MS - 1
    async with world.running():
        world.sides["source"].send(100)
        await world.turn(20)
        assert world.agent.counts["received"] == 0
        assert world.agent.counts["clock_waits"] == 1
        world.now_ms = START_MS
        await world.until(lambda: world.agent.counts["received"] == 1)


async def test_what_fell_due_while_stopped_leaves_after_catch_up(world: World) -> None:
    """After a start, slots close once catch_up has passed, and what arrives by then counts."""
    await _stopped_for_three_seconds(world)
    async with world.running():
        await world.turn(20)
        world.sides["source"].send(100)
        world.now_ms += 4999
        world.sides["source"].send(500, time_ms=START_MS + 2 * STEP_MS)
        await world.turn()
        assert world.agent.counts["released"] == 0
        world.now_ms += 1
        assert [watts for _, _, watts in await world.records(8)] == [100, 100, *[500] * 6]
    assert world.agent.counts["late"] == 0


async def test_a_second_stop_within_catch_up_changes_nothing(world: World) -> None:
    """After another start, slots that were waiting for one catch_up wait for the next one as well."""
    await _stopped_for_three_seconds(world)
    async with world.running():
        await world.turn()
        world.now_ms += 2000
        await world.until(lambda: world.agent.counts["opened"] == 5)
    async with world.running():
        await world.turn(20)
        world.sides["source"].send(100)
        world.now_ms += 4999
        await world.turn()
        assert world.agent.counts["released"] == 0
        world.now_ms += 1
        assert [watts for _, _, watts in await world.records(10)] == [100] * 10


async def _stopped_for_three_seconds(world: World) -> None:
    """A meter has sent 100 W, which the broker will send again."""
    async with world.running():
        world.sides["source"].send(100)
        await world.sides["sink"].session.take(2)
    world.now_ms += 3 * STEP_MS


async def test_a_retired_stream_is_counted(world: World) -> None:
    """Open windows of a stream that is no longer configured are dropped, and counted by meter."""
    async with world.running():
        world.sides["source"].send(100)
        world.sides["source"].send(100, "other")
        await world.sides["sink"].session.take(4)
    async with world.running('[[stream]]\nname = "new"\n' + STREAM.format("stream.", "")):
        assert world.agent.counts["retired"] == 2


async def test_secrets_are_read_before_the_store_is_touched(world: World) -> None:
    """A configured file that cannot be read raises ConfigError, and no store is made."""
    text = STREAM.format("", "").replace("[sink]", '[sink]\npseudonym_key_file = "/nowhere/key"')
    agent = Agent(world.parse(text), world.environment())
    with pytest.raises(ConfigError, match=r"sink\.pseudonym_key_file"):
        await agent.run()
    assert not world.store.exists()


async def test_with_a_key_meters_leave_under_a_pseudonym(world: World, tmp_path: Path) -> None:
    """With a pseudonym key, no topic and no payload that leaves has the meter's own name."""
    key = tmp_path / "key"
    key.write_text("secret\n")
    text = STREAM.format("", "").replace("[sink]", f'[sink]\npseudonym_key_file = "{key}"')
    async with world.running(text):
        world.sides["source"].send(100, "home-of-somebody")
        sent = await world.sides["sink"].session.take(2)
        world.now_ms += STEP_MS
        sent += await world.sides["sink"].session.take(1)
    assert all(b"somebody" not in p.payload and "somebody" not in p.topic for p in sent)
    assert len({p.topic.split("/")[1] for p in sent}) == 1


async def test_a_second_agent_is_refused(world: World) -> None:
    """While an agent has the store open, another one ends with StoreError and disturbs nothing."""
    async with world.running():
        with pytest.raises(StoreError, match="another agent"):
            await Agent(world.parse(STREAM.format("", "")), world.environment()).run()
        world.sides["source"].send(100)
        await world.until(lambda: world.agent.counts["opened"] == 1)


async def test_totals_are_logged_at_the_end(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """A stop logs every nonzero counter, and nothing of what was counted."""
    with caplog.at_level(logging.INFO, "meteragent"):
        async with world.running():
            world.sides["source"].send(13371, "canary")
            world.sides["source"].session.send(world.sides["source"], b"canary", "meters/canary/power")
            await world.until(lambda: world.agent.counts["received"] == 2)
    last = caplog.messages[-1]
    assert last.startswith("totals: received=2 refused_json=1 accepted=1 ")
    assert "canary" not in caplog.text
    assert "13371" not in caplog.text


async def test_a_failure_in_the_event_loop_is_named_without_its_context(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """An error outside any task is logged by type only, because its context may hold a payload."""
    async with world.running():
        await world.turn()
        context = {"message": "canary", "exception": ValueError("canary")}
        asyncio.get_running_loop().call_exception_handler(context)
    assert "in the event loop: ValueError" in caplog.messages
    assert "canary" not in caplog.text


def with_budgets() -> config.Config:
    """Return two streams, one and two, each with a daily budget."""
    streams = ""
    for name, level in (("one", 100), ("two", 200)):
        streams += f'[[stream]]\nname = "{name}"\n' + STREAM.format("stream.", name).replace(
            "[stream.privacy]",
            f'[stream.privacy]\nbudget = {{level = {level * 10**9}, per = "24h"}}',
        )
    return config.parse(streams)


def test_budgets_know_the_day_in_which_a_window_is_still_to_open(tmp_path: Path) -> None:
    """By the event clock a meter was seen and no window opened; by the wall clock it goes on there, later."""
    day_ms = START_MS // DAY_MS * DAY_MS
    with open_store(tmp_path / "db") as store:
        seen = TimelineState(day_ms, None, None, day_ms, 0, ())
        persist(store, opening(day_ms // LENGTH_MS, "m", stream="one"))
        persist(store, opening((day_ms + DAY_MS) // LENGTH_MS, "m", stream="one"))
        persist(store, Commit("two", day_ms + DAY_MS, states={"m": seen}))
        odometers = parts.load_odometers(with_budgets(), store)
    assert odometers["two"].spent("m", day_ms) == odometers["two"].spent("m", day_ms + DAY_MS) > 0


def test_budgets_begin_at_what_was_spent(tmp_path: Path) -> None:
    """Every stream's odometer begins at what all streams of the meter have spent in the period."""
    parsed = with_budgets()
    with open_store(tmp_path / "db") as store:
        day_ms = START_MS // DAY_MS * DAY_MS
        commit = opening(day_ms // LENGTH_MS, "m", stream="one")
        commit.charges = {Charge(day_ms, Fraction(5)): Counter(m=3)}
        persist(store, commit)
        odometers = parts.load_odometers(parsed, store)
    assert set(odometers) == {"one", "two"}
    for odometer in odometers.values():
        assert odometer.spent("m", day_ms) == 15
        assert odometer.spent("other", day_ms) == 0
