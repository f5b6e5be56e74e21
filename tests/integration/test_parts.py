"""Meters of several parts, through a real broker: the sum is right, whatever is silent, late or killed."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from meteragent.domain.grid import iso_time
from tests.conftest import MakeBroker
from tests.integration.service import TELL_ALL, once, service, stream, subscribed, until, utility
from tests.integration.service import meters as meters_of
from tests.support.broker import Broker

START_MS = 1_794_268_800_000
"""The start of a half hour."""
SLOT_S = 1800
LATENESS_S = 60


class Said(NamedTuple):
    """A message of a part, at a second since the start."""

    at_s: int
    topic: str
    payload: str


def json_at(at_s: int, value: float) -> str:
    """Return a reading as it is sent."""
    return f'{{"power": {value:.3f}, "t": "{iso_time(START_MS + at_s * 1000)}"}}'


def tariffs() -> list[Said]:
    """Return the counts of a meter by day and by night, one of which is always silent: 0.6 and 1.2 kWh/h."""
    said = [Said(0, "house/tariffs/night", json_at(0, 7000)), Said(0, "house/tariffs/day", json_at(0, 500))]
    for at_s in range(60, 5 * SLOT_S + 1, 60):
        is_night = at_s > 3 * SLOT_S
        kwh = 7000 + 1.2 * (at_s - 3 * SLOT_S) / 3600 if is_night else 500 + 0.6 * at_s / 3600
        said.append(Said(at_s, f"house/tariffs/{'night' if is_night else 'day'}", json_at(at_s, kwh)))
    return said


WINDOW = f'length = "30min"\nclock = "event"\nlateness = "{LATENESS_S}s"\nahead = "30d"'
PRIVACY = "level = 1000\nradius = 0.01\nquantum = 0.001\naccept = ['coarse_register']"


def of_tariffs(broker: Broker) -> str:
    """Return the configuration of a meter with two tariffs that report on change."""
    text = stream(
        broker.url, source="phases = ['day', 'night']\nevery = '0s'", window=WINDOW, privacy=PRIVACY
    )
    text = text.replace('topic = "meters/{meter}/power"', 'topic = "house/{meter}/{phase}"')
    return text.replace('kind = "power"\nunit = "W"', 'kind = "register"\nunit = "kWh"')


async def slots(
    broker: Broker,
    folder: Path,
    text: str,
    said: Sequence[Said],
    count: int,
    kills_s: Sequence[int] = (),
    *,
    filters: int = 1,
) -> Mapping[int, float]:
    """Return the value of each slot, each of which leaves once; the agent is killed at some seconds.

    Nothing is sent before the agent has subscribed to all its `filters`.
    """
    async with utility(broker) as inbox, meters_of(broker) as line:
        with service(folder, text) as agent:
            agent.start()
            await subscribed(broker, filters)
            for one in said:
                await line.raw(one.topic, one.payload)
                if one.at_s in kills_s:
                    await asyncio.sleep(0.05 * (one.at_s // 60 % 4))
                    await agent.kill()
                    agent.start()
            await until(lambda: len(once(inbox.records("main"))) >= count)
            await agent.stop()
        records = once(inbox.records("main"))  # a record that a kill interrupts is sent again
        return {(item.start_ms - START_MS) // (SLOT_S * 1000): item.value for item in records}


@pytest.mark.parametrize("kills_s", [(), range(540, 4 * SLOT_S, 780)], ids=["steady", "killed"])
def test_a_silent_tariff_stands(mosquitto: MakeBroker, tmp_path: Path, kills_s: Sequence[int]) -> None:
    """The tariff that does not count now is silent: every half hour is right, also through kills."""
    with mosquitto(settings=TELL_ALL) as broker:
        values = asyncio.run(slots(broker, tmp_path, of_tariffs(broker), tariffs(), 4, kills_s))
    assert [values[index] for index in range(4)] == pytest.approx([0.3, 0.3, 0.3, 0.6], abs=0.025)
    assert sum(values[index] for index in range(4)) == pytest.approx(1.5, abs=0.025)


def solar(*, is_register: bool) -> tuple[list[Said], list[float]]:
    """Return what a net meter and an inverter send, the inverter later, and the use of each half hour.

    The net meter has JSON of its own, and the inverter SenML. The home feeds in more and more of what the
    inverter makes; it uses 300 W, then 500 W.
    """
    said, use_w = [], [300, 300, 500, 500, 300]
    net_wh = made_wh = 9_000_000
    for at_s in range(0, 5 * SLOT_S + 1, 20):
        made_w = 40 * (at_s // 300)
        net_w = use_w[min(at_s // SLOT_S, 4)] - made_w
        net, made = (net_wh / 3_600_000, made_wh / 3_600_000) if is_register else (net_w, made_w)
        said.append(Said(at_s, "net/power", json_at(at_s, net)))
        unit = "kWh" if is_register else "W"
        time_s = START_MS // 1000 + at_s
        said.append(Said(at_s + 45, "pv/senml", f'[{{"n":"p","u":"{unit}","v":{made:.6f},"t":{time_s}}}]'))
        net_wh += 20 * net_w
        made_wh += 20 * made_w
    return sorted(said, key=lambda one: one.at_s), [watts / (2000 if is_register else 1) for watts in use_w]


def of_solar(broker: Broker, *, is_register: bool) -> str:
    """Return the configuration of the use of a home with an inverter: net + production."""
    source = 'meter = "house"\n[[stream.source.part]]\ntopic = "pv/senml"\nprofile = "senml"'
    source = f'every = "20s"\ndead_band = 0.000001\n{source}' if is_register else source
    window = f"{WINDOW}\nrange = [-20000, 20000]"
    text = stream(broker.url, source=source, window=window, privacy=PRIVACY)
    text = text.replace('topic = "meters/{meter}/power"', 'topic = "net/power"')
    kind = 'kind = "register"\nunit = "kWh"' if is_register else 'kind = "power"\nunit = "W"'
    return text.replace('kind = "power"\nunit = "W"', kind)


@pytest.mark.parametrize("kills_s", [(), range(540, 4 * SLOT_S, 780)], ids=["steady", "killed"])
@pytest.mark.parametrize("is_register", [False, True], ids=["power", "register"])
def test_use_is_net_and_production(
    mosquitto: MakeBroker, tmp_path: Path, kills_s: Sequence[int], is_register: bool
) -> None:
    """The sum of two devices is right in every half hour, though one comes later, also through kills."""
    said, use = solar(is_register=is_register)
    with mosquitto(settings=TELL_ALL) as broker:
        text = of_solar(broker, is_register=is_register)
        values = asyncio.run(slots(broker, tmp_path, text, said, 4, kills_s, filters=2))
    assert [values[index] for index in range(4)] == pytest.approx(use[:4], abs=0.025)
