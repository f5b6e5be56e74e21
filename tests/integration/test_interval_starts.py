"""Interval energies that are stamped with their start, as portals state them, through a real broker."""

import asyncio
from pathlib import Path

import pytest

from meteragent.domain.grid import iso_time
from tests.conftest import MakeBroker
from tests.integration.service import TELL_ALL, meters, service, stream, subscribed, until, utility
from tests.support.broker import Broker

START_MS = 1_790_000_000_000
MINUTE_MS = 60_000
SENT_WH = [100, 250, 0, 40, 10]
"""The energies of five quarter hours."""


@pytest.mark.parametrize("stamp", ["start", "end"])
def test_each_energy_counts_in_its_own_interval(stamp: str, mosquitto: MakeBroker, tmp_path: Path) -> None:
    """A slot has the energy of its interval, whether times that arrive are starts or ends of intervals."""
    with mosquitto(settings=TELL_ALL) as broker:
        asyncio.run(_run(broker, tmp_path, stamp))


async def _run(broker: Broker, folder: Path, stamp: str) -> None:
    streams = stream(
        broker.url,
        source=f'interval = "15min"\nstamp = "{stamp}"',
        window='length = "15min"\nclock = "event"\nrange = [0, 1000000]',
        privacy="level = 1000\nradius = 1",
    ).replace('kind = "power"\nunit = "W"', 'kind = "interval_energy"\nunit = "Wh"')
    slot_ms = 15 * MINUTE_MS
    first_ms = START_MS // slot_ms * slot_ms
    async with utility(broker) as inbox, meters(broker) as line:
        with service(folder, streams) as agent:
            agent.start()
            await subscribed(broker)
            for number, energy_wh in enumerate(SENT_WH):
                time = iso_time(first_ms + (number + (stamp == "end")) * slot_ms)
                await line.raw("meters/m/power", f'{{"power": {energy_wh}, "t": "{time}"}}')
            await until(lambda: len(inbox.records()) >= len(SENT_WH) - 2)
            await agent.stop()
        starts = {record.start_ms: record.value for record in inbox.records()}
        expected = {first_ms + number * slot_ms: value for number, value in enumerate(SENT_WH)}
        assert starts.items() <= expected.items(), (starts, expected)
