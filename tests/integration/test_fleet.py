"""A fleet of four agents on one broker, one of them killed: each window of each meter leaves once in all."""

import asyncio
import json
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path

from meteragent.domain.identity import fnv1a
from meteragent.store import commands, read_only
from tests.conftest import MakeBroker
from tests.integration.service import (
    LIMIT_S,
    TELL_ALL,
    Arrival,
    Meters,
    Service,
    is_released,
    mean_w,
    meters,
    now_ms,
    service,
    stream,
    subscribed,
    until,
    until_ms,
    utility,
)
from tests.support.broker import Broker

AGENTS, METERS = 4, 40
LENGTH_MS = 1000
HOLD_MS = 900_000
KILLED = 2
WINDOWS = 3
NAMES = [f"m{number}" for number in range(METERS)]


def configuration(broker: Broker, number: int) -> str:
    """One agent of the fleet; it waits for what a busy machine is late with, and not long after a stop."""
    shard = f'shard = "{number}/{AGENTS}"'
    return stream(broker.url, source=shard, window='lateness = "1s"\ncatch_up = "1500ms"')


async def send(to: Meters, end_ms: int) -> None:
    """Each meter says ten times a second what it takes, another number every second."""
    while (time_ms := now_ms()) < end_ms:
        for number, name in enumerate(NAMES):
            await to.send(name, 100 * number + time_ms // 1000 % 10)
        await until_ms(time_ms + 100)


async def until_released(inbox: "list[Arrival]", start_ms: int) -> None:
    """Wait until all meters' windows of a time have come."""
    await until(lambda: {c.meter for c in inbox if c.is_record and c.start_ms == start_ms} == set(NAMES))


async def test_each_window_leaves_once_over_all_agents(mosquitto: MakeBroker, tmp_path: Path) -> None:
    """Each has its meters and no other's; kill -9 of one and its restart lose and repeat nothing."""
    with ExitStack() as stack:
        broker = stack.enter_context(mosquitto(settings=TELL_ALL))
        made = (service(tmp_path / f"{k}", configuration(broker, k)) for k in range(AGENTS))
        fleet = list(map(stack.enter_context, made))
        for agent in fleet:
            agent.start()
        await subscribed(broker, AGENTS)
        async with utility(broker) as other, meters(broker) as to, asyncio.timeout(LIMIT_S):
            first_ms = -(-now_ms() // LENGTH_MS) * LENGTH_MS + LENGTH_MS
            sending = asyncio.create_task(send(to, first_ms + WINDOWS * LENGTH_MS))
            await until_ms(first_ms + 1.4 * LENGTH_MS)
            await fleet[KILLED].kill()
            fleet[KILLED].start()
            await sending
            await until_released(other.messages, first_ms + (WINDOWS - 1) * LENGTH_MS)
            await asyncio.gather(*(agent.stop() for agent in fleet))
        check(other.messages, to, first_ms)
        check_ledgers(fleet)
    assert all(agent.totals["other_shard"] > agent.totals["accepted"] for agent in fleet)


def check(inbox: "list[Arrival]", to: Meters, first_ms: int) -> None:
    """Of each slot one record, as often as it came; none missing; and what was measured in it."""
    payloads: defaultdict[tuple[str, int], set[bytes]] = defaultdict(set)
    for record in (c for c in inbox if c.is_record):
        payloads[record.meter, record.start_ms].add(record.payload)
    assert {len(found) for found in payloads.values()} == {1}
    for name in NAMES:
        starts = sorted(start_ms for meter, start_ms in payloads if meter == name)
        assert starts == list(range(starts[0], starts[-1] + 1, LENGTH_MS))
        for start_ms in range(first_ms, first_ms + WINDOWS * LENGTH_MS, LENGTH_MS):
            [payload] = payloads[name, start_ms]
            mean = mean_w(to.sent, name, start_ms, LENGTH_MS, HOLD_MS)
            assert is_released(json.loads(payload)["value"], mean)


def check_ledgers(fleet: "list[Service]") -> None:
    """Each store has charged the meters that hash to its number."""
    for number, agent in enumerate(fleet):
        with read_only(agent.store) as connection:
            charged = {row.meter for row in commands.day_charges(connection)}
        mine = {name for name in NAMES if fnv1a(name.encode()) % AGENTS == number}
        assert charged == mine
        assert len(mine) > 1
