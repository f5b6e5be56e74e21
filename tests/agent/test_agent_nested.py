"""Nested streams in a running agent: one topic in, two topics out, one ledger, sums that agree."""

from pathlib import Path

import pytest

from meteragent.consume import collect, nested
from meteragent.store import ledger, read_only
from tests.support.agent_world import START_MS, STEP_MS, World, quick

TEXT = """
[source]
topic = "meters/{meter}/power"
profile = "json"
time = "t"
kind = "power"
unit = "W"
[window]
catch_up = "5s"
[privacy]
shares = { "1s" = 0.5, "2s" = 0.5 }
level = 1000000
hide = "0.01Wh"
[sink]
topic = "private/{meter}"
status = "agent/status"
"""
"""Windows of one and two seconds whose noise is 0, except with a chance below 1e-300."""


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world whose agent polls its clock every 2 ms, and does not wait for brokers when it stops."""
    return quick(tmp_path, monkeypatch)


async def test_one_source_serves_all_streams_of_a_table(world: World) -> None:
    """Each stream has separate connections; records of both lengths leave and agree; both are charged."""
    messages: dict[str, list[bytes]] = {"1s": [], "2s": []}
    async with world.running(TEXT):
        await world.until(lambda: len(world.sides) == 4)
        sources = [world.sides[f"source-main-{length}"] for length in messages]
        for second, watts in enumerate((100, 300, 500, 700, 0)):
            world.now_ms = START_MS + second * STEP_MS
            for source in sources:
                source.send(watts, time_ms=world.now_ms)
            await world.settle()
        world.now_ms = START_MS + 4 * STEP_MS
        for length, count in (("1s", 4), ("2s", 2)):
            side, records = world.sides[f"sink-main-{length}"], 0
            while records < count:
                publication = await side.session.next()
                side.confirm(publication)
                if publication.topic.startswith("private"):
                    assert publication.topic.startswith(f"private/m/{length}")
                    messages[length].append(publication.payload)
                    records += not publication.retain
    fine, coarse = nested(*(collect(payloads)["m"] for payloads in messages.values()))
    assert fine.values.tolist() == pytest.approx([100, 300, 500, 700], abs=0.2)
    assert coarse.values.tolist() == pytest.approx([200, 600], abs=0.2)
    assert fine.combined.all()
    assert coarse.combined.all()
    with read_only(world.store) as connection:
        assert ledger.marked_streams(connection) == {"main-1s", "main-2s"}
