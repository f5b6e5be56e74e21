"""A gateway that repeats the last value of a meter it no longer hears: the value is refused."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support.agent_world import STREAM, World, quick

CONFIGURED = "\n".join(
    line
    for line in STREAM.format("", "")
    .replace('profile = "json"', 'profile = "zigbee2mqtt"\nmeter = "m"')
    .replace("meters/{meter}", "meters/m")
    .splitlines()
    if not line.startswith(("time", "value"))
)
HOUR_MS = 3_600_000


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world whose agent looks at its clock every 2 ms."""
    return quick(tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("age_ms", "counted"), [(0, 1), (HOUR_MS - 1000, 1), (HOUR_MS, 0), (2 * HOUR_MS, 0), (-HOUR_MS, 1)]
)
@pytest.mark.parametrize("form", ["epoch", "text"])
async def test_a_value_is_kept_for_hold(world: World, age_ms: int, counted: int, form: str) -> None:
    """The profile's `hold` is an hour: a value that was heard earlier is not the power now."""
    async with world.running(CONFIGURED):
        seen_ms = world.now_ms - age_ms
        text = datetime.fromtimestamp(seen_ms / 1000, UTC).isoformat()
        payload = {"power": 1000, "linkquality": 90, "last_seen": seen_ms if form == "epoch" else text}
        source = world.sides["source"]
        source.on_message("meters/m/power", json.dumps(payload).encode(), 0, False, None)
        await world.settle()
        counts = world.agent.counts
        assert (counts["accepted"] + counts["early"], counts["refused_stale"]) == (counted, 1 - counted)


@pytest.mark.parametrize("seen", [None, "yesterday", {}])
async def test_a_gateway_that_does_not_say_is_believed(world: World, seen: object) -> None:
    """`last_seen` may be switched off, and a text that is no time says nothing."""
    async with world.running(CONFIGURED):
        payload = {"power": 1000, "linkquality": 90} | ({} if seen is None else {"last_seen": seen})
        source = world.sides["source"]
        source.on_message("meters/m/power", json.dumps(payload).encode(), 0, False, None)
        await world.settle()
        assert world.agent.counts["refused_stale"] == 0


async def test_what_stood_ends_when_the_gateway_no_longer_hears_the_meter(world: World) -> None:
    """A value that is kept stands for `hold` since the meter was heard; a refused one ends it."""
    async with world.running(CONFIGURED):
        source, start_ms = world.sides["source"], world.now_ms
        for at_ms, age_ms in ((0, 0), (1_000, 0), (4_000, 2 * HOUR_MS), (5_000, 2 * HOUR_MS)):
            world.now_ms = start_ms + at_ms
            payload = {"power": 1000, "linkquality": 90, "last_seen": world.now_ms - age_ms}
            source.on_message("meters/m/power", json.dumps(payload).encode(), 0, False, None)
            await world.settle()
        world.now_ms = start_ms + 7_000
        await world.settle()
        assert [watts for _, _, watts in await world.records(6)] == [1000] * 4 + [0] * 2


async def test_a_kept_value_stands_for_hold_since_it_was_heard(world: World) -> None:
    """A value that is nearly as old as `hold` on its arrival stands for what is left of it."""
    async with world.running(CONFIGURED):
        payload = {"power": 1000, "linkquality": 90, "last_seen": world.now_ms - HOUR_MS + 2_000}
        source = world.sides["source"]
        source.on_message("meters/m/power", json.dumps(payload).encode(), 0, False, None)
        await world.settle()
        world.now_ms += 5_000
        await world.settle()
        assert [watts for _, _, watts in await world.records(4)] == [1000] * 2 + [0] * 2
