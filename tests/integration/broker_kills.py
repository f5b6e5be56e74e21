"""kill -9 of the agent, and of the broker, under a feed of readings: what is missing, doubled or wrong."""

import asyncio
import csv
import json
import random
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, Self

from meteragent.domain.grid import parse_time
from meteragent.mqtt.link import Version
from meteragent.service.health import ask_socket, socket_path
from tests.integration.agent import Agent
from tests.integration.judge import Messages, slots, value, violations
from tests.integration.kills import PLAN, Outcome, kill_agent, kill_brokers
from tests.integration.plan import time_ms
from tests.integration.service import (
    ALONE,
    Sent,
    Service,
    is_released,
    mean_w,
    now_ms,
    service,
    stream,
    until,
)
from tests.integration.wire import LIMIT_S, Publication, Receiver, feed
from tests.support.broker import Server

AGENT_BURST: Final = 300
BROKER_BURST: Final = 40
INFLIGHT: Final = 1000
"""Stated, so that the agent holds as many over MQTT 3.1.1: readings of six meters within the lateness."""
CANARY: Final = Publication("meters/canary/power", b"no reading")
CANARY_S: Final = 0.2

HOMES: Final = ("a", "b", "c")
LENGTH_MS, STEP_MS, LATENESS_MS, HOLD_MS = 10_000, 2_000, 15_000, 60_000
WINDOW: Final = f'''length = "{LENGTH_MS}ms"
step = "{STEP_MS}ms"
lateness = "{LATENESS_MS}ms"
catch_up = "{LATENESS_MS}ms"'''
"""By the wall clock. The lateness covers several starts in a row, and each time the 2 s that NATS waits."""


class Judged(NamedTuple):
    """The outcome of a number of kills.

    `lost` counts records that the broker acknowledged and the receiver never got. Only brokers that
    keep nothing when they are killed may lose them; with all others such a slot is missing.
    """

    kills: int
    slots: int
    missing: int
    doubled: int
    wrong: int
    lost: int = 0

    @classmethod
    def total(cls, parts: Iterable[Self]) -> Self:
        """Return the sums of several outcomes."""
        return cls(*map(sum, zip(*parts, strict=True)))

    @property
    def text(self) -> str:
        """A cell of the table."""
        counts = {"missing": self.missing, "doubled": self.doubled, "wrong": self.wrong}
        counts["lost by the broker"] = self.lost
        bad = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
        return f"{self.kills}×: {self.slots} slots, {bad or 'all right'}"

    def is_kept(self, *, is_exact: bool = True) -> bool:
        """Return whether each slot left once and, if `is_exact`, with the right value."""
        return not (self.missing or self.doubled or (is_exact and self.wrong))


class Guest(Agent):
    """An agent whose broker does not report subscriptions."""

    async def subscribed(self, broker: Server) -> None:
        """Wait until it hears."""
        await hears(self, broker)


async def hears(agent: Service, broker: Server) -> None:
    """Send messages that are not readings until the agent has received one."""
    async with asyncio.timeout(LIMIT_S):
        path = socket_path(agent.store)
        while not (answer := ask_socket(path)) or not json.loads(answer)["counts"].get("received"):
            await feed(broker.url, [CANARY])
            await asyncio.sleep(CANARY_S)


def lines(version: Version) -> tuple[str, str]:
    """Return the lines of a source and of a sink that speak one version of MQTT."""
    protocol = f'protocol = "{version}"'
    return f"{protocol}\ninflight = {INFLIGHT}", protocol


def guest(version: Version) -> Callable[..., Agent]:
    """Return how such an agent is made, speaking one version of MQTT on both sides."""
    source, sink = lines(version)
    return partial(Guest, source=source, sink=sink)


async def of_agent(server: Server, folder: Path, version: Version, kills: int, seed: int) -> Judged:
    """Kill the agent a number of times, and judge all messages received."""
    make = guest(version)
    outcome = await kill_agent(server, folder, [PLAN], kills, AGENT_BURST, *ALONE, seed=seed, make=make)
    return judged(kills, outcome)


async def of_broker(server: Server, folder: Path, version: Version, kills: int, seed: int) -> Judged:
    """Kill the broker a number of times, and judge all messages received."""
    make = guest(version)
    outcome = await kill_brokers([server], folder, [PLAN], kills, BROKER_BURST, seed=seed, make=make)
    return judged(kills, outcome)


async def of_agent_by_clock(server: Server, folder: Path, version: Version, kills: int, seed: int) -> Judged:
    """Kill the agent a number of times at random moments, with current readings; judge all messages received.

    For brokers that send again after a time of their own only, or not at all: under a burst, whose event
    time runs a hundred times as fast as the clock, that would be far later than any lateness.
    """

    async def kill(agent: Service, _: Receiver) -> None:
        """Kill the agent and start it again."""
        await agent.kill()
        agent.start()

    return await _by_clock(server, folder, version, kills, seed, kill)


async def of_broker_by_clock(server: Server, folder: Path, version: Version, kills: int, seed: int) -> Judged:
    """Kill a broker that keeps nothing, a number of times at random moments, with current readings.

    Such a broker loses readings, so values may be wrong. It also loses records that it has acknowledged.
    The agent's export names them, and they count as lost by the broker.
    """

    async def kill(_: Service, receiver: Receiver) -> None:
        """Kill the broker and start it again."""
        await receiver.connected.wait()
        server.kill()
        server.start()

    return await _by_clock(server, folder, version, kills, seed, kill, forgets=True)


Kill = Callable[[Service, Receiver], Awaitable[None]]


async def _by_clock(
    server: Server,
    folder: Path,
    version: Version,
    kills: int,
    seed: int,
    kill: Kill,
    *,
    forgets: bool = False,
) -> Judged:
    source, sink = lines(version)
    streams = stream(server.url, source=f'hold = "{HOLD_MS}ms"\n{source}', window=WINDOW, sink=sink)
    rng, readings = random.Random(seed), list[Sent]()
    program = ("tests.integration.altered", "impatient_alone") if forgets else ALONE
    with service(folder, streams, program=program) as agent:
        agent.start()
        await hears(agent, server)
        async with Receiver(server) as receiver, asyncio.TaskGroup() as tasks:
            reports = tasks.create_task(_report(server.url, readings, rng))
            for _ in range(kills):
                await asyncio.sleep(rng.uniform(2, 5))
                await kill(agent, receiver)
            await asyncio.sleep((LENGTH_MS + LATENESS_MS) / 1000)
            reports.cancel()
            last_ms = now_ms() // STEP_MS * STEP_MS - STEP_MS
            for home in HOMES:
                await until(lambda home=home: _newest_ms(receiver, home) >= last_ms)  # type: ignore[misc]
            await agent.stop()
            await receiver.flush(server.url)
    delivered = exported(agent.command("export").stdout) if forgets else {}
    return by_clock(kills, readings, receiver.messages, last_ms, delivered)


async def _report(url: str, log: list[Sent], rng: random.Random) -> None:
    """Send readings of every home, at random moments twice a second, over any number of connections."""
    while True:
        readings = [Sent(home, now_ms(), rng.randrange(6000)) for home in HOMES]
        log += readings
        await feed(url, [_publication(reading) for reading in readings])
        await asyncio.sleep(rng.uniform(0.2, 0.8))


def _publication(reading: Sent) -> Publication:
    payload = json.dumps({"power": reading.watts, "t": reading.time_ms})
    return Publication(f"meters/{reading.meter}/power", payload.encode())


def _newest_ms(receiver: Receiver, home: str) -> int:
    newest = receiver.newest.get(f"private/main/{home}")
    return time_ms(newest) if newest else 0


Delivered = Mapping[str, Mapping[int, Decimal]]
"""The values of records that the broker acknowledged, by meter and start of the slot."""


def exported(text: str) -> Delivered:
    """Return the records of the agent's export."""
    values = defaultdict[str, dict[int, Decimal]](dict)
    for row in csv.DictReader(text.splitlines()):
        values[row["meter"]][parse_time(row["t"])] = Decimal(row["value"])
    return values


def by_clock(
    kills: int, readings: Sequence[Sent], messages: Messages, last_ms: int, delivered: Delivered | None = None
) -> Judged:
    """Judge the slots from each home's first window on, up to the one that begins at `last_ms`.

    A delivered record that was not received is lost, and judged by its value like the others.
    """
    counts = Counter[str]()
    for home in HOMES:
        released = defaultdict[int, set[bytes]](set)
        for payload in messages.get(f"private/main/{home}", ()):
            released[time_ms(json.loads(payload)["t"])].add(payload)
        for start_ms, exact in (delivered or {}).get(home, {}).items():
            if exact not in map(value, released[start_ms]):
                counts["lost"] += not released[start_ms]
                released[start_ms].add(f'{{"value":{exact}}}'.encode())
        readings_of_home = [reading for reading in readings if reading.meter == home]
        first_ms = -(-readings_of_home[0].time_ms // LENGTH_MS) * LENGTH_MS
        expected = set(range(first_ms, last_ms + 1, STEP_MS))
        counts["slots"] += len(released)
        counts["missing"] += len(expected - released.keys())
        counts["doubled"] += sum(len(payloads) > 1 for payloads in released.values())
        counts["wrong"] += sum(start_ms < first_ms for start_ms in released)
        for start_ms in expected & released.keys():
            mean = mean_w(readings_of_home, home, start_ms, STEP_MS, HOLD_MS)
            counts["wrong"] += any(not is_released(float(value(p)), mean) for p in released[start_ms])
    return Judged(kills, *(counts[name] for name in Judged._fields[1:]))


def judged(kills: int, outcome: Outcome) -> Judged:
    """Count what is broken."""
    fed, messages = outcome.fed, outcome.receiver.messages
    kinds = Counter(violation.kind for violation in violations(PLAN, fed, messages))
    return Judged(
        kills,
        sum(len(slots(PLAN, meter, messages)) for meter in fed),
        kinds.pop("missing", 0),
        kinds.pop("two values", 0),
        kinds.total(),
    )
