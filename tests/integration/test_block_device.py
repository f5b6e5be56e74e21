"""The block device under a store, searched byte for byte: what a thief of the disk reads (law 3).

A file system hands out blocks anew without erasing them, so what a file once held stays on the device. Two
values of one accumulator tell the reading in between, exactly: their difference over the time between them.
The search finds both, and the same agent with a log that is only truncated shows that it does.
"""

import asyncio
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import MakeBroker
from tests.integration.block_device import Device, State, ext4, radii, readings, states
from tests.integration.service import (
    ALONE,
    TELL_ALL,
    Meters,
    Service,
    meters,
    now_ms,
    service,
    stream,
    subscribed,
    until_ms,
)
from tests.support.broker import Broker

LENGTH_MS = 2000
WINDOW = 'length = "2s"\nstep = "1s"\ncatch_up = "200ms"'
READINGS = 80
EVERY_MS = 100
LOOKS = 20
"""An agent has committed, and erased its log, if all its threads sleep this often in a row, 10 ms apart."""
SCENARIOS = {
    "stopped": ("", ALONE),
    "killed": ("", ALONE),
    "killed in a burst": ("", ALONE),
    "collected": ('flush = "1s"', ALONE),
    "only truncated": ("", ("tests.integration.altered", "only_truncates")),
}
"""What is in [store], and the program."""
KILLED = ("killed", "killed in a burst")


class Searched(NamedTuple):
    """What a device holds, states and every R, beside those of the store; and how many readings follow."""

    found: set[State]
    radii: set[int]
    current: set[State]
    current_radii: set[int]
    followed: int
    sent: int


@pytest.fixture(scope="module")
def searched(
    mosquitto: MakeBroker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Searched]]:
    """All scenarios side by side, each with a device of its own."""
    folder = tmp_path_factory.mktemp("devices")
    with mosquitto(settings=TELL_ALL) as broker, ExitStack() as stack:
        devices = {name: stack.enter_context(ext4(folder / name)) for name in SCENARIOS}
        yield asyncio.run(run(broker, devices))


async def run(broker: Broker, devices: dict[str, Device]) -> dict[str, Searched]:
    """One meter sends to all agents; then each ends in its way."""
    async with meters(broker) as line:
        with ExitStack() as stack:
            agents = {}
            for name, (store, program) in SCENARIOS.items():
                streams = stream(broker.url, window=WINDOW, privacy="radius = 200\nquantum = 0.001")
                made = service(devices[name].mount, streams, store, program=program)
                agents[name] = stack.enter_context(made)
                agents[name].start()
            await subscribed(broker, len(agents))
            sent = await send(line, agents["killed in a burst"], agents["only truncated"])
            await settle(agents.values())
            # The kills come first: a stop takes its time, and the next slot closes soon.
            for name in KILLED:
                await agents[name].kill()
            for name in agents.keys() - set(KILLED):
                await agents[name].stop()
            await restart(broker, agents["killed in a burst"], len(agents))
            return {name: search(devices[name], agents[name].store, sent) for name in agents}


async def send(line: Meters, victim: Service, other: Service) -> list[tuple[int, int]]:
    """Send readings, each another power; kill one agent in their midst. Return times and values in mW.

    Each waits until another agent has committed the one before, so that its log has both also if it is slow.
    """
    await line.raw("meters/house/power", f'{{"power": 1, "t": {now_ms()}}}')
    await until_ms((now_ms() // LENGTH_MS + 1) * LENGTH_MS + EVERY_MS)
    sent = []
    for k in range(READINGS):
        watts, time_ms = 100.25 + 137 * k % 1900, now_ms()
        sent.append((time_ms, round(watts * 1000)))
        await line.raw("meters/house/power", f'{{"power": {watts}, "t": {time_ms}}}')
        if k == READINGS // 2:
            await victim.kill()
            victim.start()
        await until_ms(time_ms + EVERY_MS)
        await settle([other], 3)
    return sent


async def settle(agents: Iterable[Service], looks: int = LOOKS) -> None:
    """Wait until every agent has done what the readings and the slots so far asked of it."""
    tasks = [Path("/proc", str(agent.pid), "task") for agent in agents]
    quiet_looks = 0
    while quiet_looks < looks:
        stats = [stat.read_text() for task in tasks for stat in task.glob("*/stat")]
        quiet_looks = (
            quiet_looks + 1 if all(stat.rpartition(")")[2].split()[0] == "S" for stat in stats) else 0
        )
        await asyncio.sleep(0.01)


async def restart(broker: Broker, agent: Service, agents: int) -> None:
    """Start an agent that was killed, and stop it."""
    agent.start()
    await subscribed(broker, agents + 2)
    await agent.stop()


def search(device: Device, store: Path, sent: Sequence[tuple[int, int]]) -> Searched:
    """Search a device, and ask the store what is current."""
    content = device.content()
    with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as connection:
        rows = b"".join(state for (state,) in connection.execute("SELECT state FROM state"))
    found = states(content)
    told = readings(found)
    near = {(time_ms + shift, milliwatts) for time_ms, milliwatts in told for shift in (-1, 0, 1)}
    # Two neighbours: the time to which a reading stood is that of the next one.
    followed = sum((after_ms, milliwatts) in near for (_, milliwatts), (after_ms, _) in pairwise(sent))
    return Searched(found, radii(content), states(rows), radii(rows), followed, len(sent))


def test_a_log_that_is_only_truncated_gives_the_readings_back(searched: dict[str, Searched]) -> None:
    """With the log's blocks given back as they are, most readings follow: the search works."""
    seen = searched["only truncated"]
    assert len(seen.found) > seen.sent // 2
    assert seen.followed > seen.sent // 2
    assert len(seen.radii - seen.current_radii) > 1


@pytest.mark.parametrize("name", list(SCENARIOS)[:-1])
def test_the_device_holds_the_current_accumulators_only(name: str, searched: dict[str, Searched]) -> None:
    """After a stop, a kill and a restart, and with `flush`, the device has no older value and no other R."""
    seen = searched[name]
    assert seen.current
    assert seen.found == seen.current
    assert seen.radii == seen.current_radii


@pytest.mark.parametrize("name", list(SCENARIOS)[:-1])
def test_no_reading_follows_from_the_device(name: str, searched: dict[str, Searched]) -> None:
    """Not one of the readings can be worked out from what the device holds."""
    assert searched[name].followed == 0
