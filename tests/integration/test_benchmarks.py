"""The load of the benchmarks against a real mosquitto, with a forwarder in between."""

import asyncio
from contextlib import closing

import pytest

from benchmarks.contestants import forwarder
from benchmarks.wire import ClosedLoop, Paced
from tests.conftest import MakeBroker
from tests.integration.service import LIMIT_S, until

METERS, OUTSTANDING = 5, 50
PER_S, SECONDS = 200, 0.5


async def pass_closed_loop(port: int, qos: int) -> None:
    """Pass records through a closed loop until each of the first readings has come back."""
    load = ClosedLoop(METERS, qos)
    await load.connect(port, port)
    await load.begin(OUTSTANDING)
    with closing(load):
        await until(lambda: load.record_count > OUTSTANDING)
        assert load.reading_count == load.record_count + OUTSTANDING


async def pass_paced(port: int, qos: int) -> None:
    """Pass records at a pace until each reading has come back."""
    load = Paced(METERS, qos)
    await load.connect(port, port)
    with closing(load):
        await load.run(PER_S, SECONDS)
        await until(lambda: len(load.latencies_s) == load.reading_count)
        assert 20 < load.reading_count <= PER_S * SECONDS + 1
        assert load.record_count >= load.reading_count
        assert all(0 < latency_s < LIMIT_S for latency_s in load.latencies_s)


@pytest.mark.parametrize("qos", [0, 1])
def test_a_closed_loop_and_a_pace_count_what_passes(mosquitto: MakeBroker, qos: int) -> None:
    """Each record that comes lets one more reading go; at a pace, each has a time that it took."""
    with forwarder("gmqtt")(qos) as standing:
        assert standing.memory_mb > 1
        asyncio.run(pass_closed_loop(standing.source_port, qos))
        asyncio.run(pass_paced(standing.source_port, qos))
