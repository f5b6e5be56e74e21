"""The load of the benchmarks against a real mosquitto, with a forwarder in between."""

import asyncio

import pytest

from benchmarks.contestants import forwarder
from benchmarks.wire import ClosedLoop, Paced
from tests.support.broker import mosquitto_program
from tests.support.not_run import not_run

METERS, OUTSTANDING = 5, 50


@pytest.mark.parametrize("qos", [0, 1])
def test_a_closed_loop_and_a_pace_count_what_passes(qos: int) -> None:
    """Each record that comes lets one more reading go; at a pace, each has a time that it took."""
    if mosquitto_program() is None:
        not_run("mosquitto", "no mosquitto")

    async def both(port: int) -> None:
        load = ClosedLoop(METERS, qos)
        await load.connect(port, port)
        await load.begin(OUTSTANDING)
        await asyncio.sleep(0.2)
        assert load.record_count > OUTSTANDING
        assert load.reading_count == load.record_count + OUTSTANDING
        load.close()
        await asyncio.sleep(0.2)
        paced = Paced(METERS, qos)
        await paced.connect(port, port)
        await paced.run(200, 0.2)
        paced.close()
        assert paced.record_count >= paced.reading_count > 20
        assert all(0 < latency_s < 1 for latency_s in paced.latencies_s)

    with forwarder("gmqtt")(qos) as standing:
        assert standing.memory_mb > 1
        asyncio.run(both(standing.source_port))
