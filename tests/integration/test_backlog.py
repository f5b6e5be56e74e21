"""A meter without times of its own, and what waited for the agent in the broker."""

import asyncio
from pathlib import Path

import pytest

from tests.conftest import MakeBroker
from tests.integration.service import (
    TELL_ALL,
    Arrival,
    Scenarios,
    between,
    meters,
    now_ms,
    service,
    stream,
    subscribed,
    until,
    utility,
)
from tests.support.broker import Broker

BACKLOG = (2000, 1500, 800, 100)
"""What the meter says while the agent is stopped; 1000 stood before."""


async def power(folder: Path, broker: Broker) -> tuple[list[Arrival], int, dict[str, int]]:
    """Stop the agent, let the meter speak, start it; the records, when it was started, and its counters."""
    text = stream(broker.url, window='length = "1s"\ncatch_up = "2s"').replace('time = "t"\n', "")
    with service(folder, text) as agent:
        async with utility(broker) as inbox, meters(broker) as line:
            agent.start()
            await subscribed(broker)
            await line.send("home", 1000)
            await until(lambda: inbox.records() and inbox.records()[-1].value == 1000)
            await agent.stop()
            for watts in BACKLOG:
                await line.send("home", watts)
            started_ms = now_ms()
            agent.start()
            await until(lambda: any(one.start_ms > started_ms + 5000 for one in inbox.records()))
            await agent.stop()
            return inbox.records(), started_ms, agent.totals


@pytest.fixture(scope="module")
def runs(mosquitto: MakeBroker, tmp_path_factory: pytest.TempPathFactory) -> Scenarios:
    """All of it, side by side."""
    scenarios = Scenarios(
        tmp_path_factory.mktemp("backlog"), between(mosquitto, power, {"settings": TELL_ALL})
    )
    asyncio.run(scenarios.run())
    return scenarios


def test_the_newest_of_what_waited_stands(runs: Scenarios) -> None:
    """After a start the home's power is what the meter said last, not what stood before the stop."""
    records, started_ms, _ = runs["power"]
    later = [one.value for one in records if one.start_ms > started_ms]
    assert later[-1] == 100
    assert max(later) == 100  # the slot in which the backlog came has less


def test_what_the_newest_replaced_is_counted(runs: Scenarios) -> None:
    """Every reading of the backlog has a fate: it counts or was replaced, and none is a duplicate."""
    _, _, totals = runs["power"]
    assert totals["received"] == totals["accepted"] + totals["replaced"] == 1 + len(BACKLOG)
    assert totals["replaced"] > 0
    assert totals["duplicate"] == 0
