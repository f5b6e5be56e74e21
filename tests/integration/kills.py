"""A burst feed that somebody is killed under, again and again, at seeded random moments."""

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.integration.agent import Agent
from tests.integration.judge import Fed
from tests.integration.plan import Plan, Reading
from tests.integration.wire import Publication, Receiver, feed, publication
from tests.support.broker import Server

START_MS = 1_700_000_000_000
STEP_MS = 10_000
HOUR_MS = 3_600_000
PLAN = Plan("main", length_ms=300_000, step_ms=60_000, lateness_ms=30_000)
UNLIMITED: dict[str, str | int] = {"max_inflight_messages": 0}
"""A setting of mosquitto without a queue: that is what it loses when it is killed (see `kill_brokers`)."""


def invent(rng: random.Random, meters: int, readings: int) -> tuple[Fed, list[Publication]]:
    """Return the readings of meters, each in its order of arrival, and all as publications in that order.

    Every meter reports about every 10 s, out of order within the lateness, on a time of its own: so
    their windows end at different moments of the feed.
    """
    arrivals: list[tuple[int, str, Reading]] = []
    for meter in range(meters):
        first_ms = START_MS + rng.randrange(HOUR_MS)
        for index in range(readings):
            after_ms = index * STEP_MS + rng.randrange(STEP_MS) * (index > 0)
            late_ms = rng.randrange(PLAN.lateness_ms) * (index > 0)
            watts = f"{rng.randrange(6_000_000) / 1000}"
            arrivals.append((after_ms + late_ms, f"m{meter}", Reading(first_ms + after_ms, watts)))
    arrivals.sort()
    fed: dict[str, list[Reading]] = {}
    for _, name, reading in arrivals:
        fed.setdefault(name, []).append(reading)
    return fed, [publication(name, reading) for _, name, reading in arrivals]


class Outcome(NamedTuple):
    """An agent that was killed, the readings fed, and the outcome."""

    agent: Agent
    fed: Fed
    receiver: Receiver
    lives: int
    """How many of them released something before they ended."""


async def moment_to_kill(rng: random.Random, life: int, receiver: Receiver, startup_s: float) -> None:
    """Wait for a random moment: in odd lives since the start, in even ones since something was released."""
    if life % 2:
        await asyncio.sleep(rng.uniform(0, 1.5 * startup_s))
    else:
        await receiver.more_than(receiver.records)
        await asyncio.sleep(rng.uniform(0, startup_s / 2))


async def kill_agent(
    broker: Server,
    folder: Path,
    plans: Sequence[Plan],
    kills: int,
    burst: int,
    *program: str,
    then: Callable[[random.Random], object] = lambda _: None,
    seed: int | None = None,
    make: Callable[..., Agent] = Agent,
) -> Outcome:
    """Kill the agent `kills` times, each time under a burst of readings from 6 meters.

    Every second life ends at a random moment since its start, the others at one since they
    released something. `then` is done before it is started again. The agent that is left finishes and
    is stopped. `make` makes it, as `Agent` does.
    """
    rng = random.Random(kills if seed is None else seed)
    fed, messages = invent(rng, 6, (kills + 1) * burst // 6)
    lives = 0
    with make(folder, plans, broker.url, program=program or ("meteragent",)) as agent:
        begun_s = time.monotonic()
        await agent.subscribed(broker)
        startup_s = time.monotonic() - begun_s
        async with Receiver(broker) as receiver:
            for life in range(kills):
                before = receiver.records
                feeding = asyncio.create_task(feed(broker.url, messages[life * burst : (life + 1) * burst]))
                await moment_to_kill(rng, life, receiver, startup_s)
                await agent.kill()
                lives += receiver.records > before
                then(rng)
                agent.start()
                await feeding
            await feed(broker.url, messages[kills * burst :])
            await agent.finished(receiver, fed)
            await agent.stop()
            await receiver.flush(broker.url)
    return Outcome(agent, fed, receiver, lives)


async def kill_brokers(
    brokers: Sequence[Server],
    folder: Path,
    plans: Sequence[Plan],
    kills: int,
    burst: int,
    *,
    seed: int | None = None,
    make: Callable[..., Agent] = Agent,
) -> Outcome:
    """Kill one of the brokers (source, sink; or one that is both) `kills` times under a feed.

    mosquitto answers first and saves then, and what is on its way to a subscriber that is there is
    no change to it, so not saved: killed, it forgets what it has answered. So it is killed at random
    moments while the receiver, which has what was on its way, is there; and the feeder sends its last
    ones again, also those that were answered: at once, because the next kill could take them again, and
    after it.
    """
    rng = random.Random(kills if seed is None else seed)
    fed, messages = invent(rng, 3, (kills + 1) * burst // 3)
    source, sink = brokers[0], brokers[-1]
    program = ("tests.integration.altered", "impatient")
    lives = 0
    with make(folder, plans, source.url, sink.url, program=program) as agent:
        await agent.subscribed(source)
        async with Receiver(sink) as receiver:
            for life in range(kills):
                before = receiver.records
                start = max(0, life - 1) * burst
                feeding = asyncio.create_task(feed(source.url, messages[start : (life + 1) * burst]))
                await asyncio.sleep(rng.uniform(0, 0.8))
                await receiver.connected.wait()
                lives += receiver.records > before
                broker = rng.choice(brokers)
                broker.kill()
                broker.start()
                await feeding
                await feed(source.url, messages[start : (life + 1) * burst])
            await feed(source.url, messages[(kills - 1) * burst :])
            await agent.finished(receiver, fed)
            await agent.stop()
            await receiver.flush(sink.url)
    return Outcome(agent, fed, receiver, lives)
