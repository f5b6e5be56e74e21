"""A register that reports less often than twice a slot, without a stated lateness, through a real broker."""

import asyncio
import time
from pathlib import Path

from meteragent.domain.grid import iso_time
from tests.conftest import MakeBroker
from tests.integration.service import TELL_ALL, meters, service, stream, subscribed, until, utility
from tests.support.broker import Broker

PERIOD_S = 3
SLOT_MS = 5_000
LOAD_WH_S = 10


def test_a_slot_has_the_energy_up_to_its_end(mosquitto: MakeBroker, tmp_path: Path) -> None:
    """With the default lateness the reading after a slot counts for it, so that no slot is short."""
    with mosquitto(settings=TELL_ALL) as broker:
        asyncio.run(_run(broker, tmp_path))


async def _run(broker: Broker, folder: Path) -> None:
    streams = stream(
        broker.url,
        source=f'every = "{PERIOD_S}s"\ndead_band = 1',
        window='length = "5s"\nrange = [0, 1000000]',
        privacy='level = 1000\nradius = 1\naccept = ["coarse_register"]',
    ).replace('kind = "power"\nunit = "W"', 'kind = "register"\nunit = "Wh"')
    async with utility(broker) as inbox, meters(broker) as line:
        with service(folder, streams) as agent:
            agent.start()
            await subscribed(broker)
            first_s = time.time()
            while len(inbox.records()) < 4 and time.time() < first_s + 60:
                now_s = time.time()
                reading = (
                    f'{{"power": {LOAD_WH_S * (now_s - first_s):.3f}, "t": "{iso_time(int(1000 * now_s))}"}}'
                )
                await line.raw("meters/m/power", reading)
                await asyncio.sleep(PERIOD_S)
            await until(lambda: len(inbox.records()) >= 4)
            await agent.stop()
        values = [record.value for record in inbox.records()[1:4]]
        assert all(abs(value - LOAD_WH_S * SLOT_MS / 1000) <= 2 for value in values), values
