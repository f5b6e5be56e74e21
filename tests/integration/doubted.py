"""Registers of which some readings are wrong, and kills of the agent while those are doubted."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from meteragent.domain.grid import iso_time
from tests.integration.service import meters, service, stream, subscribed, until, utility
from tests.support.broker import Broker

START_MS = 1_794_268_800_000
"""The start of a half hour."""
SLOT_S = 1800
LATENESS_S = 1800
WH = "dead_band = 0.001\nevery = '15min'"
Readings = dict[int, float]
"""The count in kWh, by the second since the start."""


def steady(
    period_s: int,
    hours: float = 3,
    kw: float = 0.6,
    first: float = 7300.0,
    step: float = 0.001,
    since: int = 0,
) -> Readings:
    """Return what a counter says of a constant load, cut off to its step."""
    times = range(since, since + int(hours * 3600) + 1, period_s)
    return {s: round((first + kw * (s - since) / 3600 + 1e-9) // step * step, 3) for s in times}


def wrong(readings: Readings, *places: int, says: float | None = None, more: float = 0) -> Readings:
    """Return readings with other values at some seconds: `says`, or `more` than is right."""
    return readings | {s: readings[s] + more if says is None else says for s in places}


def same(count: int, kwh: float = 0.3) -> dict[int, float]:
    """Return the same energy in the first slots."""
    return dict.fromkeys(range(count), kwh)


def streams_of(broker: Broker, sources: Mapping[str, str]) -> str:
    """Return the configuration of streams of registers, by what their counters are."""
    return "".join(
        stream(
            broker.url,
            name=name,
            source=source,
            window=f'length = "30min"\nclock = "event"\nlateness = "{LATENESS_S}s"\nahead = "30d"',
            privacy="level = 1000\nradius = 0.01\nquantum = 0.001\naccept = ['coarse_register']",
        )
        .replace('topic = "meters/', f'topic = "{name}/')
        .replace('kind = "power"\nunit = "W"', 'kind = "register"\nunit = "kWh"')
        for name, source in sources.items()
    )


class Kept(NamedTuple):
    """What became of the half hours in rounds of kills; a doubled one left with different bytes."""

    rounds: int
    slots: int
    missing: int = 0
    doubled: int = 0
    wrong: int = 0

    @property
    def is_kept(self) -> bool:
        """Whether each half hour left once, and exact."""
        return not (self.missing or self.doubled or self.wrong)


async def kill_while_doubted(broker: Broker, folder: Path, rounds: int) -> Kept:
    """Kill the agent after two zeros of every quarter of an hour; return what became of the half hours.

    The zeros are unacknowledged, so the broker delivers them again with the good reading before them.
    """
    readings = steady(60, rounds / 4 + 1.5)
    zeros = [s for s in readings if s % 900 in (420, 480) and s < rounds * 900]
    count = rounds // 2 + 1
    async with utility(broker) as inbox, meters(broker) as line:
        with service(folder, streams_of(broker, {"fine": WH})) as agent:
            agent.start()
            await subscribed(broker, 1)
            for second, kwh in sorted(wrong(readings, *zeros, says=0).items()):
                time = iso_time(START_MS + second * 1000)
                await line.raw("fine/killed/power", f'{{"power": {kwh:.3f}, "t": "{time}"}}')
                if second in zeros and second % 900 == 480:
                    await asyncio.sleep(0.05 * (second // 900 % 4))
                    await agent.kill()
                    agent.start()
            await until(lambda: len({item.payload for item in inbox.records("fine")}) >= count)
            await agent.stop()
    # A record that a kill interrupts is sent again, byte for byte.
    records = list({item.payload: item for item in inbox.records("fine")}.values())
    values = {(item.start_ms - START_MS) // (SLOT_S * 1000): item.value for item in records}
    wrong_slots = [index for index, value in values.items() if abs(value - 0.3) > 0.0025]
    missing = set(range(count)) - values.keys()
    return Kept(rounds, len(values), len(missing), len(records) - len(values), len(wrong_slots))
