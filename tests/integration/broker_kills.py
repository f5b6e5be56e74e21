"""kill -9 of the agent, and of the broker, under a feed of readings: what is missing, doubled or wrong."""

import asyncio
import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from meteragent.agent.watch import ask
from meteragent.mqtt.endpoint import Version
from tests.integration.agent import Agent
from tests.integration.judge import Messages, slots, value, violations
from tests.integration.kills import PLAN, Outcome, kill_agent, kill_brokers
from tests.integration.plan import time_ms
from tests.integration.service import (
    ALONE,
    Meters,
    Sent,
    Service,
    is_released,
    mean_w,
    meters,
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
LENGTH_MS, STEP_MS, LATENESS_MS, HOLD_MS = 10_000, 2_000, 5_000, 60_000
WINDOW: Final = f'''length = "{LENGTH_MS}ms"
step = "{STEP_MS}ms"
lateness = "{LATENESS_MS}ms"
catch_up = "{LATENESS_MS}ms"'''
"""By the wall clock. The lateness is more than the 2 s after which NATS sends again, and a start."""


class Judged(NamedTuple):
    """The outcome of a number of kills."""

    kills: int
    slots: int
    missing: int
    doubled: int
    wrong: int

    @property
    def text(self) -> str:
        """A cell of the table."""
        counts = {"missing": self.missing, "doubled": self.doubled, "wrong": self.wrong}
        bad = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
        return f"{self.kills}×: {self.slots} slots, {bad or 'all right'}"

    @property
    def kept(self) -> bool:
        """Whether everything left, once and right."""
        return not (self.missing or self.doubled or self.wrong)


class Guest(Agent):
    """An agent whose broker does not report subscriptions."""

    async def subscribed(self, broker: Server) -> None:
        """Wait until it hears."""
        await hears(self, broker)


async def hears(agent: Service, broker: Server) -> None:
    """Send messages that are not readings until the agent has received one."""
    async with asyncio.timeout(LIMIT_S):
        while not (answer := ask(agent.store)) or not json.loads(answer)["counts"].get("received"):
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


async def of_agent(server: Server, folder: Path, version: Version, kills: int) -> Judged:
    """Kill the agent a number of times, and judge all messages received."""
    make = guest(version)
    return judged(kills, await kill_agent(server, folder, [PLAN], kills, AGENT_BURST, *ALONE, make=make))


async def of_agent_by_clock(server: Server, folder: Path, version: Version, kills: int) -> Judged:
    """Kill the agent a number of times at random moments, with current readings; judge all messages received.

    For brokers that send again after a time of their own only: under a burst, whose event time runs a
    hundred times as fast as the clock, that would be far later than any lateness.
    """
    source, sink = lines(version)
    streams = stream(server.url, source=f'hold = "{HOLD_MS}ms"\n{source}', window=WINDOW, sink=sink)
    rng = random.Random(kills)
    with service(folder, streams) as agent:
        agent.start()
        await hears(agent, server)
        async with Receiver(server) as receiver, meters(server) as line:
            sending = asyncio.create_task(_report(line, rng))
            for _ in range(kills):
                await asyncio.sleep(rng.uniform(2, 5))
                await agent.kill()
                agent.start()
            await asyncio.sleep((LENGTH_MS + LATENESS_MS) / 1000)
            sending.cancel()
            last_ms = now_ms() // STEP_MS * STEP_MS - STEP_MS
            for home in HOMES:
                await until(lambda home=home: _newest_ms(receiver, home) >= last_ms)  # type: ignore[misc]
            await agent.stop()
            await receiver.flush(server.url)
    return by_clock(kills, line.sent, receiver.messages, last_ms)


async def _report(line: Meters, rng: random.Random) -> None:
    """Send readings of every home, at random moments twice a second."""
    while True:
        for home in HOMES:
            await line.send(home, rng.randrange(6000))
        await asyncio.sleep(rng.uniform(0.2, 0.8))


def _newest_ms(receiver: Receiver, home: str) -> int:
    newest = receiver.newest.get(f"private/main/{home}")
    return time_ms(newest) if newest else 0


def by_clock(kills: int, sent: Sequence[Sent], messages: Messages, last_ms: int) -> Judged:
    """Judge the slots from each home's first window on, up to the one that begins at `last_ms`."""
    counts = Counter[str]()
    for home in HOMES:
        released = defaultdict[int, set[bytes]](set)
        for payload in messages.get(f"private/main/{home}", ()):
            released[time_ms(json.loads(payload)["t"])].add(payload)
        own = [reading for reading in sent if reading.meter == home]
        first_ms = -(-own[0].time_ms // LENGTH_MS) * LENGTH_MS
        expected = set(range(first_ms, last_ms + 1, STEP_MS))
        counts["slots"] += len(released)
        counts["missing"] += len(expected - released.keys())
        counts["doubled"] += sum(len(payloads) > 1 for payloads in released.values())
        counts["wrong"] += sum(start_ms < first_ms for start_ms in released)
        for start_ms in expected & released.keys():
            mean = mean_w(own, home, start_ms, STEP_MS, HOLD_MS)
            counts["wrong"] += any(not is_released(float(value(p)), mean) for p in released[start_ms])
    return Judged(kills, *(counts[name] for name in Judged._fields[1:]))


async def of_broker(server: Server, folder: Path, version: Version, kills: int) -> Judged:
    """Kill the broker a number of times, and judge all messages received."""
    make = guest(version)
    return judged(kills, await kill_brokers([server], folder, [PLAN], kills, BROKER_BURST, make=make))


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
