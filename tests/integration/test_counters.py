"""A day of every family through mosquitto: what left is what the device's own counter says.

The agent runs with a wall clock that the test moves by hours. At each, every device sends what its counter
shows. In the afternoon the agent is killed and started again, when no slot of the morning waits for late
readings: a register without times would lose such a slot, and the agent would count it. At midnight, at both
ends of the day, nothing is drawn, so that seconds do not matter by which a message without a time is late.
During the day they matter to a power without a time, so its tolerance follows from the measured delays.
"""

import asyncio
import json
from collections.abc import Iterator
from fractions import Fraction
from itertools import accumulate, pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from meteragent.decode.profiles import PROFILES
from meteragent.domain.grid import parse_time
from meteragent.domain.units import DAY_MS, HOUR_MS
from meteragent.service.health import ask_socket, socket_path
from simulators.commands.replay import connect
from tests.conftest import MakeBroker
from tests.integration.clocked import set_clock
from tests.integration.service import TELL_ALL, Service, now_ms, service, subscribed, until
from tests.integration.wire import Receiver
from tests.support.broker import Broker
from tests.support.device import Device, Moment
from tests.support.devices import DEVICES
from tests.support.vitals import agent_vitals

SLOT_MS = 6 * HOUR_MS
QUIET = 2
"""Hours before and after midnight in which nothing is drawn."""
KILLED_AT = QUIET + 15
"""The hour in which the agent is killed: the third after noon, and slots stay open for two."""
LOOK_S = 0.03
"""How long the agent may take to look at its clock."""
TOLERANCE_WH = Fraction(6 * 4, 1000)
"""A quantum for each of the four numbers, which are of 1 mWh, or of 1 mW for six hours."""
TWICE = sum(not device.write(Moment(0, 0, 0, 0)) for device in DEVICES)
"""Messages that a second stream reads."""
FIRST_WH = {"drawn": 7_654_321, "fed": 1_234_567}


class Run(NamedTuple):
    """The day's beginning, the moments that were sent, and what came on each topic.

    `delays_s` has for each moment how long it took until the agent had all of its messages.
    """

    start_ms: int
    moments: list[Moment]
    delays_s: list[Fraction]
    received: dict[str, list[bytes]]

    def released_wh(self, device: Device) -> Fraction:
        """Return the energy of the day's four slots, each of which must have left, always the same."""
        records: dict[str, bytes] = {}
        for payload in self.received[f"private/{device.name}/home"]:
            facts = json.loads(payload, parse_float=Fraction, parse_int=Fraction)
            assert records.setdefault(facts["t"], payload) == payload
            records[facts["t"]] = payload
        values = {
            parse_time(text): json.loads(payload, parse_float=Fraction, parse_int=Fraction)["value"]
            for text, payload in records.items()
        }
        value = sum((values[self.start_ms + slot * SLOT_MS] for slot in range(4)), Fraction(0))
        return value * 6 if device.kind == "power" else value

    def counted_wh(self, device: Device) -> Fraction:
        """Return by how much the device's counter rose in the day."""
        first, last = (self._at(self.start_ms + offset_ms) for offset_ms in (0, DAY_MS))
        drawn_wh = device.counter_wh(last.drawn_wh) - device.counter_wh(first.drawn_wh)
        fed_wh = last.fed_wh - first.fed_wh if device.kind == "power" else 0
        return drawn_wh - fed_wh

    def tolerance_wh(self, device: Device) -> Fraction:
        """Return how far the numbers may be from the counter.

        Until a power without a time arrives, the previous power counts, or none after the kill. Both are off
        by at most the sum of the two powers.
        """
        if not device.uses_arrival:
            return TOLERANCE_WH
        powers_w = [0, *(abs(moment.power_w) for moment in self.moments)]
        both_ws = Fraction(0)
        for pair_w, delay_s in zip(pairwise(powers_w), self.delays_s, strict=True):
            both_ws += sum(pair_w) * delay_s
        return TOLERANCE_WH + both_ws / 3600

    def _at(self, time_ms: int) -> Moment:
        return next(moment for moment in self.moments if moment.time_ms >= time_ms)


def powers_w() -> Iterator[int]:
    """Yield the power of each hour from the evening before to the night after."""
    for hour in range(-QUIET, 24 + 4):
        is_quiet = hour < QUIET or hour >= 24 - QUIET
        feeds = 10 <= hour < 15
        yield 0 if is_quiet else -(hour * 337 % 1900) if feeds else 100 + hour * 531 % 2800


def moments(start_ms: int) -> list[Moment]:
    """Return what devices know at each hour, and the power of the next one."""
    powers = [*powers_w()]
    drawn = accumulate((max(power_w, 0) for power_w in powers), initial=FIRST_WH["drawn"])
    fed = accumulate((max(-power_w, 0) for power_w in powers), initial=FIRST_WH["fed"])
    return [
        Moment(start_ms + (at - QUIET) * HOUR_MS, drawn_wh, fed_wh, power_w)
        for at, (drawn_wh, fed_wh, power_w) in enumerate(zip(drawn, fed, powers, strict=False))
    ]


@pytest.fixture(scope="module")
def run(mosquitto: MakeBroker, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The day."""
    with mosquitto(settings=TELL_ALL) as broker:
        return asyncio.run(_run(broker, tmp_path_factory.mktemp("counters")))


async def _run(broker: Broker, folder: Path) -> Run:
    start_ms = (now_ms() // DAY_MS + 2) * DAY_MS
    day = moments(start_ms)
    streams = "".join(device.toml(broker.url) for device in DEVICES)
    with service(folder, streams, program=("tests.integration.clocked",)) as agent:
        set_clock(folder, day[0].time_ms - now_ms())
        async with Receiver(broker) as receiver, connect(broker.url) as client:
            agent.start()
            await subscribed(broker, len(DEVICES))
            expected, delays_s = 0, list[Fraction]()
            for at, moment in enumerate(day):
                sent_ms = now_ms()
                set_clock(folder, moment.time_ms - sent_ms)
                await asyncio.sleep(LOOK_S)
                messages = [message for device in DEVICES for message in device.write(moment)]
                await asyncio.gather(*(client.publish(*message, qos=1) for message in messages))
                expected += len(messages) + TWICE
                await until(lambda: received(agent) >= expected)  # noqa: B023 -- called in this round only
                if at == KILLED_AT:
                    await agent.kill()
                    agent.start()
                    await subscribed(broker, 2 * len(DEVICES))
                    expected = await settled(agent)
                delays_s.append(Fraction(now_ms() - sent_ms, 1000))
            last_ms = start_ms + DAY_MS - SLOT_MS
            topics = [f"private/{device.name}/home" for device in DEVICES]
            await until(lambda: all(newest_ms(receiver, topic) >= last_ms for topic in topics))
            await agent.stop()
            await receiver.flush(broker.url)
        return Run(start_ms, day, delays_s, dict(receiver.messages))


def received(agent: Service) -> int:
    """Return how many messages the agent has fed to its streams since its start."""
    assert agent.runs, agent.log
    answer = ask_socket(socket_path(agent.store))
    return 0 if answer is None else agent_vitals(answer).counts.get("received", 0)


async def settled(agent: Service) -> int:
    """Wait until the messages that were not acknowledged have come again; return how many they are.

    They have come when none has followed for a second.
    """
    await until(lambda: received(agent))
    count = 0
    while count != received(agent):
        count = received(agent)
        await asyncio.sleep(1)
    return count


def newest_ms(receiver: Receiver, topic: str) -> int:
    """Return the start of the newest slot that has come on a topic."""
    return parse_time(receiver.newest[topic]) if topic in receiver.newest else 0


@pytest.mark.parametrize("device", DEVICES, ids=lambda device: device.name)
def test_what_left_in_a_day_is_what_the_counter_says(device: Device, run: Run) -> None:
    """The day's numbers add up to the rise of the device's own counter, although the agent was killed."""
    assert abs(run.released_wh(device) - run.counted_wh(device)) <= run.tolerance_wh(device)
    assert run.counted_wh(device) > 10_000
    assert run.tolerance_wh(device) < run.counted_wh(device) / 100


def test_every_profile_has_a_device() -> None:
    """A device of every profile takes part in the day."""
    assert {device.profile for device in DEVICES} == set(PROFILES)
