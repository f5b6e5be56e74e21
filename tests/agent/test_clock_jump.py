"""A step of the wall clock against the boot clock counts as a restore of the store (law 1)."""

import asyncio
import json
import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import meteragent.agent.service as module
from meteragent.agent.clock import ClockJumped, SteadyClock
from meteragent.agent.store_thread import StoreThread
from meteragent.core.pipeline import Pipeline
from meteragent.domain.counters import Counts
from meteragent.domain.grid import parse_time
from meteragent.domain.reading import Message
from meteragent.domain.units import HOUR_MS, MINUTE_MS
from meteragent.privacy import bits
from meteragent.service.boot_clock import STEP_MS, UNKNOWN_STEP_MS, BootClock, kernel_state, was_synchronised
from meteragent.store import ledger, meta_value, read_only
from tests.support.agent_world import START_MS, STREAM, World, quick, reading
from tests.support.agent_world import STEP_MS as SLOT_MS
from tests.support.fake_session import Publication

DAY_MS = 24 * HOUR_MS


class Clocks:
    """A wall clock and a boot clock that a test sets."""

    def __init__(self, *, known: bool | None = True) -> None:
        self.wall_ms, self.boot_ms, self.known = START_MS, 0, known
        self.boot = BootClock(lambda: self.boot_ms, lambda: self.known)

    def after(self, ms: int, *, step_ms: int = 0) -> int:
        """Let time pass in which the wall clock was stepped, and return the jump."""
        self.boot_ms += ms
        self.wall_ms += ms + step_ms
        return self.boot.step_ms(self.wall_ms)


# --- what is a jump ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("known", "step_ms", "jumps"),
    [
        (True, STEP_MS, False),
        (True, STEP_MS + 1, True),
        (None, STEP_MS + 1, False),
        (None, UNKNOWN_STEP_MS, False),
        (None, UNKNOWN_STEP_MS + 1, True),
        (False, 365 * DAY_MS, False),
    ],
)
def test_a_step_forward_is_a_jump(known: bool | None, step_ms: int, jumps: bool) -> None:
    """More than 5 minutes once synchronised, more than an hour if that is unknown; before that, never."""
    clocks = Clocks(known=known)
    assert clocks.after(0) == clocks.after(1000) == 0
    assert clocks.after(1000, step_ms=step_ms) == (step_ms if jumps else 0)
    assert clocks.after(1000) == 0


@pytest.mark.parametrize("before", [False, None])
def test_the_step_of_the_first_synchronisation_is_no_jump(before: bool | None) -> None:
    """The first synchronisation may step the clock by any amount; from then on, the limit holds."""
    clocks = Clocks(known=before)
    clocks.after(1000)
    clocks.known = True
    assert clocks.after(100, step_ms=DAY_MS) == 0
    assert clocks.after(100, step_ms=DAY_MS) == DAY_MS


def test_a_clock_that_was_synchronised_stays_so() -> None:
    """Losing the time server does not widen the limit."""
    clocks = Clocks()
    clocks.after(1000)
    clocks.known = False
    clocks.after(DAY_MS)
    assert clocks.after(1000, step_ms=STEP_MS + 1) == STEP_MS + 1


def test_a_suspended_machine_has_not_jumped() -> None:
    """Both clocks count the time that the machine was suspended."""
    clocks = Clocks()
    assert clocks.after(1000) == clocks.after(30 * DAY_MS) == 0


def test_a_step_back_and_forward_again_is_no_jump() -> None:
    """A clock that was set back is not used (law 4); correcting it repeats nothing."""
    clocks = Clocks()
    clocks.after(1000)
    assert clocks.after(1000, step_ms=-DAY_MS) == 0
    assert clocks.after(1000, step_ms=DAY_MS + STEP_MS) == 0
    assert clocks.after(1000, step_ms=STEP_MS + 1) == STEP_MS + 1


@given(st.lists(st.tuples(st.integers(0, HOUR_MS), st.integers(-STEP_MS, STEP_MS)), max_size=50))
def test_drift_is_no_jump(looks: list[tuple[int, int]]) -> None:
    """Small steps between two checks never add up to a jump."""
    clocks = Clocks()
    assert not any(clocks.after(ms, step_ms=min(step_ms, STEP_MS)) for ms, step_ms in looks)


@given(
    st.lists(st.integers(0, 1000), max_size=20),
    st.integers(0, 2 * STEP_MS) | st.integers(-DAY_MS, DAY_MS),
)
def test_the_first_look_after_a_jump_sees_it(looks: list[int], step_ms: int) -> None:
    """However often both clocks are read, a jump is noticed at once, and nothing else is taken for one."""
    clocks = Clocks()
    clocks.after(1000)
    assert not any(clocks.after(ms) for ms in looks)
    jumped_ms = clocks.after(1, step_ms=step_ms)
    assert (jumped_ms > 0) == (step_ms > STEP_MS)
    assert jumped_ms in (0, step_ms)
    assert not clocks.after(1)


def test_after_a_jump_there_is_no_time() -> None:
    """After a jump the clock shows no time for the rest of that life, which `check_no_jump` ends."""
    clocks = Clocks()
    clock = SteadyClock(lambda: clocks.wall_ms, Counts(), clocks.boot)
    clock.check_no_jump()
    assert clock.now_ms() == START_MS
    clocks.wall_ms += STEP_MS + 1
    assert clock.now_ms() is None
    clocks.wall_ms = START_MS
    assert clock.now_ms() is None
    assert clock.newest_ms == START_MS
    assert clock.jumped_ms == STEP_MS + 1
    with pytest.raises(ClockJumped):
        clock.check_no_jump()


@pytest.mark.parametrize(
    ("known", "known_again", "boot_id", "step_ms", "jumps"),
    [
        (True, True, "a", STEP_MS + 1, True),
        (True, None, "a", STEP_MS + 1, True),
        (True, True, "a", STEP_MS, False),
        (True, True, "b", STEP_MS + 1, False),
        (True, True, "", STEP_MS + 1, False),
        (None, None, "a", UNKNOWN_STEP_MS + 1, True),
        (None, True, "a", UNKNOWN_STEP_MS + 1, False),
        (False, True, "a", DAY_MS, False),
    ],
)
def test_a_later_process_sees_the_jump(
    known: bool | None, known_again: bool | None, boot_id: str, step_ms: int, jumps: bool
) -> None:
    """What a process notes is enough for the next one, unless the machine was started again in between."""
    former = BootClock(lambda: 0, lambda: known, "a")
    assert former.step_ms(START_MS) == 0
    later = BootClock(lambda: 1000, lambda: known_again, boot_id)
    now_ms = START_MS + 1000 + step_ms
    assert later.step_ms(now_ms) == 0
    later.recall_note(former.note)
    assert later.step_ms(now_ms) == (step_ms if jumps else 0)


def test_a_jump_is_not_noted_before_it_is_dealt_with() -> None:
    """The comparison that sees the jump leaves the note as it was, so that a killed process loses nothing."""
    clocks = Clocks()
    clocks.after(1000)
    note = clocks.boot.note
    assert clocks.after(1000, step_ms=STEP_MS + 1)
    assert clocks.boot.note == note
    clocks.after(1000)
    assert clocks.boot.note != note


# --- what the system knows --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "file", "hardware", "known"),
    [
        (0, False, False, True),
        (4, False, True, True),
        (5, False, False, False),
        (5, False, True, None),
        (5, True, False, True),
        (-1, True, False, True),
        (-1, False, False, None),
        (-1, False, True, None),
    ],
)
def test_what_the_system_says_of_its_clock(
    tmp_path: Path, state: int, file: bool, hardware: bool, known: bool | None
) -> None:
    """A yes from the kernel or timesyncd's file is trusted; a no counts only without a hardware clock."""
    run, clocks = tmp_path / "synchronized", tmp_path / "rtc"
    if file:
        run.touch()
    if hardware:
        (clocks / "rtc0").mkdir(parents=True)
    assert was_synchronised(state, run, clocks) is known


def test_the_kernel_is_asked_and_nothing_is_set() -> None:
    """adjtimex(2) answers with a state of the clock, or not at all; its second answer is the same."""
    assert kernel_state() in range(-1, 6)
    assert kernel_state() == kernel_state()


# --- the agent --------------------------------------------------------------------------------------


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world whose agent looks at its clocks every 2 ms."""
    monkeypatch.setattr(module, "COMPARE_S", 0.002)
    return quick(tmp_path, monkeypatch)


def jump(world: World, ms: int) -> None:
    """Set only the wall clock forward."""
    world.now_ms += ms
    world.ahead_ms += ms


async def begun(world: World) -> None:
    """Open a window, and let half a second of it pass."""
    world.sides["source"].send(100)
    await world.until(lambda: world.agent.counts["opened"] == 1)
    world.now_ms += SLOT_MS // 2
    world.sides["source"].send(300, time_ms=world.now_ms)
    await world.until(lambda: world.agent.counts["accepted"] == 2)


async def connected_again(world: World, before: Any) -> None:
    """Wait until the life after the jump has its connections."""
    await world.until(lambda: world.sides["source"] is not before)
    await world.until(lambda: world.sides["sink"].session.published is not None)


async def test_nothing_of_what_was_open_leaves_after_a_jump(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Open windows are dropped; the first record is of a window after the jump; the process continues."""
    async with world.running() as task:
        await begun(world)
        before, jumped_ms = world.sides["source"], world.now_ms + HOUR_MS
        jump(world, HOUR_MS)
        await connected_again(world, before)
        world.sides["source"].send(700, time_ms=jumped_ms)
        await world.until(lambda: world.agent.counts["accepted"] == 3)
        world.now_ms += 3 * SLOT_MS
        first = await world.records(1)
        assert not task.done()
        [(_, seconds, watts)] = first
        assert START_MS + 1000 * seconds >= jumped_ms
        assert watts == 700
        assert world.agent.counts["clock_jumped"] == 1
        assert [item.code for item in world.agent.alarms.problems] == ["clock_jumped"]
    assert any("the clock jumped 1 h ahead" in text for text in caplog.messages)
    with read_only(world.store) as connection:
        assert ledger.unknown_before_ms(connection) == jumped_ms
        assert meta_value(connection, "floor_ms") == jumped_ms


async def test_the_next_process_sees_the_jump(world: World) -> None:
    """A jump while no process runs, or before a killed one saw it: the next one drops the open window."""
    async with world.running():
        await begun(world)
    jump(world, HOUR_MS)
    async with world.running():
        assert world.agent.counts["clock_jumped"] == 1
        with read_only(world.store) as connection:
            assert meta_value(connection, "floor_ms") == world.now_ms
            assert ledger.unknown_before_ms(connection) == world.now_ms
    async with world.running():
        assert world.agent.counts["clock_jumped"] == 0


async def test_after_another_start_of_the_machine_nothing_is_compared(world: World) -> None:
    """The boot clock begins again when the machine starts, so the open window continues."""
    async with world.running():
        await begun(world)
    jump(world, HOUR_MS)
    world.boot_id = "another"
    async with world.running():
        assert world.agent.counts["clock_jumped"] == 0
    with read_only(world.store) as connection:
        assert meta_value(connection, "floor_ms") == 0
        assert ledger.unknown_before_ms(connection) is None


async def turn(number: int = 20) -> None:
    """Let the event loop take some turns."""
    for _ in range(number):
        turned = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(turned.set_result, None)
        await turned


@pytest.mark.parametrize("stops", [1, 2, 3])
async def test_no_number_of_stops_forgets_the_jump(
    world: World, monkeypatch: pytest.MonkeyPatch, stops: int
) -> None:
    """However many stops come while the store is closed after a jump: it is restored before the end."""
    close, is_closing, gate = StoreThread._close, asyncio.Event(), asyncio.Event()

    async def close_slowly(thread: StoreThread) -> None:
        is_closing.set()
        await gate.wait()
        await close(thread)

    async with world.running() as task:
        await begun(world)
        monkeypatch.setattr(StoreThread, "_close", close_slowly)
        jump(world, HOUR_MS)
        await is_closing.wait()
        for _ in range(stops):
            task.cancel()
            await turn()
        assert not task.done()
        gate.set()
        await asyncio.wait({task})
    assert task.cancelled()
    with read_only(world.store) as connection:
        assert meta_value(connection, "floor_ms") >= START_MS + HOUR_MS


async def test_a_jump_is_reported_for_a_day_after_the_last_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of the first jump's day does not end what is reported of a second one."""
    loop, timers = asyncio.get_running_loop(), list[tuple[asyncio.TimerHandle, Callable[[], object]]]()
    call_later = loop.call_later

    def keep_timers(delay: float, callback: Callable[..., object], *arguments: Any) -> asyncio.TimerHandle:
        timer = call_later(delay, callback, *arguments)
        if delay == module.ALARM_S:
            timers.append((timer, partial(callback, *arguments)))
        return timer

    monkeypatch.setattr(loop, "call_later", keep_timers)
    async with world.running():
        for hours in (1, 2):
            before = world.sides["source"]
            jump(world, hours * HOUR_MS)
            await connected_again(world, before)
        alarms = world.agent.alarms
        [(first, end_alarm), (second, _)] = timers
        if not first.cancelled():
            end_alarm()
        assert [item.fields["step_ms"] for item in alarms.problems] == [2 * HOUR_MS]
        assert not second.cancelled()
        end_alarm()
        assert not alarms.problems


async def test_what_was_undelivered_leaves_as_it_was(world: World) -> None:
    """Unconfirmed rows from before the jump leave again, byte for byte."""
    async with world.running():
        await begun(world)
        world.now_ms = START_MS + SLOT_MS
        sent = [await world.sides["sink"].session.next() for _ in range(3)]
        before = world.sides["source"]
        jump(world, HOUR_MS)
        await connected_again(world, before)
        second = await take(world, 5)
    assert [p.payload for p in sent if not p.retain] == [p.payload for p in second if not p.retain]


async def take(world: World, number: int) -> list[Publication]:
    """Return the next publications."""
    return [await world.sides["sink"].session.next() for _ in range(number)]


@pytest.mark.parametrize(("known", "ms"), [(False, DAY_MS), (None, 50 * MINUTE_MS), (True, 4 * MINUTE_MS)])
async def test_other_steps_are_as_law_4_has_them(world: World, known: bool | None, ms: int) -> None:
    """Without a jump nothing is dropped: the open window is released, and later windows open by the clock."""
    world.synchronised = known
    async with world.running():
        await begun(world)
        jump(world, ms)
        assert (await world.records(1))[0] == ("private/m", 0, 200)
        assert world.agent.counts["clock_jumped"] == 0


async def test_messages_that_were_not_acknowledged_come_again(world: World) -> None:
    """The standing reading is not acknowledged, so the broker delivers it to the new session."""
    async with world.running():
        await begun(world)
        before = world.sides["source"]
        standing = reading(300, world.now_ms)
        jump(world, HOUR_MS)
        await connected_again(world, before)
        assert standing not in before.session.acknowledged
        assert before.session.over


async def test_a_jump_while_the_clock_is_waited_for_is_one_too(world: World) -> None:
    """A store that no life has opened yet may also be a copy: it is restored before it is opened."""
    async with world.running():
        await begun(world)
    world.now_ms = EARLY_MS
    agent = module.Agent(world.parse(STREAM.format("", "")), world.environment())
    task = asyncio.create_task(agent.run())
    await world.turn()
    jump(world, START_MS + HOUR_MS - EARLY_MS)
    await world.until(lambda: agent.counts["clock_jumped"] == 1)
    await world.turn()
    task.cancel()
    await asyncio.wait({task})
    with read_only(world.store) as connection:
        assert meta_value(connection, "floor_ms") == START_MS + HOUR_MS


EARLY_MS = parse_time("2020-01-01T00:00:00Z")


# --- a copy of the memory ---------------------------------------------------------------------------

NOISY = (
    STREAM.format("", "")
    .replace("level = 1000\nradius = 10", "level = 1\nradius = 1000")
    .replace("1s", "10s")
)
WINDOW_MS = 10_000
APART_MS = 6 * MINUTE_MS
"""How long the first life goes on after the snapshot."""


@pytest.mark.parametrize("noticed", [True, False])
async def test_no_interval_leaves_twice_from_a_copy_of_the_memory(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, noticed: bool
) -> None:
    """A process is resumed from a snapshot of its memory, and its clock set right: nothing leaves again.

    fork(2) is the snapshot: the child is the life that went on, driven as the runner drives its core. Were
    the jump not noticed, all that left in the child would leave again.
    """
    monkeypatch.setattr(bits, "_SYSTEM_BITS", set())  # a snapshot keeps the bits that a child would drop
    cores: list[Pipeline] = []

    class Seen(Pipeline):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            cores.append(self)

    world.pipeline = Seen
    if not noticed:
        monkeypatch.setattr(BootClock, "step_ms", lambda *_: 0)
    async with world.running(NOISY):
        await begun(world)
        first = went_on(cores[0], world.now_ms, tmp_path / "first")
        before = world.sides["source"]
        jump(world, APART_MS)
        if noticed:
            await connected_again(world, before)
        else:
            await world.until(lambda: world.agent.counts["released"] >= len(first))
        world.sides["source"].send(700, time_ms=world.now_ms)
        await world.turn()
        world.now_ms += 3 * WINDOW_MS
        second = await released(world, 2 if noticed else len(first))
    assert len(first) >= APART_MS // WINDOW_MS - 1
    twice = first.keys() & second.keys()
    assert twice == set() if noticed else len(twice) >= len(first) - 1


def went_on(core: Pipeline, from_ms: int, path: Path) -> dict[str, float]:
    """Return the records of the life that continued: the start of each slot and its value."""
    if (child := os.fork()) == 0:
        try:
            signal.alarm(60)  # a child that hangs must not stop the test
            left: dict[str, float] = {}
            for at_ms in range(from_ms, from_ms + APART_MS, WINDOW_MS // 2):
                payload = reading(at_ms // 7 % 2000, at_ms)
                effects = core.feed([Message("meters/m/power", payload, False, at_ms, None)], at_ms, at_ms)
                rows = [json.loads(row.payload) for row in effects.commit.outgoing if not row.retain]
                left |= {row["t"]: row["value"] for row in rows}
            path.write_text(json.dumps(left))
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    actual: dict[str, float] = json.loads(path.read_text())
    return actual


async def released(world: World, number: int) -> dict[str, float]:
    """Return the next records: the start of each slot and its value."""
    actual: dict[str, float] = {}
    while len(actual) < number:
        sent = await world.sides["sink"].session.next()
        world.sides["sink"].confirm(sent)
        if not sent.retain:
            record = json.loads(sent.payload)
            actual[record["t"]] = record["value"]
    return actual
