"""Networks that cut, stall, go deaf on one side, drip and refuse, between the agent and its brokers."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import MakeBroker
from tests.integration.agent import LOGS_SUBSCRIPTIONS, Agent
from tests.integration.judge import Fed
from tests.integration.kills import PLAN, invent
from tests.integration.proxy import Proxy
from tests.integration.service import Scenarios, until
from tests.integration.wire import Publication, Receiver, feed
from tests.support.broker import Broker

METERS = 3
MANY, LIMIT = 12, 5
"""Meters, and how many unacknowledged messages a broker sends of which nobody asked that it wait."""
WARM, BURST = 150, 120
"""Readings before the first fault and under each: of a burst 6 slots of every meter fall due."""
WATCHFUL = ("tests.integration.altered", "watchful")
STALL_S = 0.5
"""A moment: far below two keep-alives of 3 s, after which a connection is given up, on a busy machine too."""


async def cut(proxy: Proxy) -> None:
    """Connections end in order, as when a broker's host is restarted."""
    proxy.cut()


async def reset(proxy: Proxy) -> None:
    """Connections end rudely, as when a router has forgotten them."""
    proxy.cut(resets=True)


async def stalled_for_a_moment(proxy: Proxy) -> None:
    """Nothing passes for a while that is shorter than the patience."""
    proxy.stall()
    await asyncio.sleep(STALL_S)


async def stalled_for_long(proxy: Proxy) -> None:
    """Nothing passes until the connection is given up; the next one is taken, and nothing passes either."""
    proxy.stall()
    before = proxy.connections
    await until(lambda: proxy.connections > before)
    await asyncio.sleep(0.2)


async def deaf(proxy: Proxy) -> None:
    """Nothing comes from the broker any more, and nobody says so."""
    before = proxy.connections
    proxy.half_open("down")
    await until(lambda: proxy.connections > before)


async def dumb(proxy: Proxy) -> None:
    """Nothing gets to the broker any more, and nobody says so; what it still sends arrives."""
    before = proxy.connections
    proxy.half_open("up")
    await until(lambda: proxy.connections > before)


async def dripping(proxy: Proxy) -> None:
    """Every byte comes by itself."""
    proxy.drip(0.0002)
    await asyncio.sleep(1.0)


async def refusing(proxy: Proxy) -> None:
    """Nobody listens for a while."""
    await proxy.refuse()
    await asyncio.sleep(0.5)


FAULTS: tuple[Callable[[Proxy], Awaitable[None]], ...] = (
    cut,
    reset,
    stalled_for_a_moment,
    dripping,
    stalled_for_long,
    deaf,
    dumb,
    refusing,
)
LOSE = {"cut", "reset", "stalled_for_long", "deaf", "dumb", "refusing"}
"""Those after which a connection must have been made anew."""


class Run(NamedTuple):
    """An agent that has been through all faults on one side, and which connections each cost."""

    agent: Agent
    fed: Fed
    receiver: Receiver
    lost: dict[str, int]
    one_life: bool


@pytest.fixture(scope="module")
def links(mosquitto: MakeBroker, tmp_path_factory: pytest.TempPathFactory) -> Scenarios:
    """Both sides, at the same time."""

    async def source(folder: Path) -> Run:
        with mosquitto(settings=LOGS_SUBSCRIPTIONS) as broker:
            return await _broken_links(folder, broker, "source")

    async def sink(folder: Path) -> Run:
        with mosquitto(settings=LOGS_SUBSCRIPTIONS) as broker:
            return await _broken_links(folder, broker, "sink")

    async def waiting(folder: Path) -> Run:
        with mosquitto(settings=LOGS_SUBSCRIPTIONS | {"max_inflight_messages": LIMIT}) as broker:
            return await _waiting_broker(folder, broker)

    scenarios = Scenarios(tmp_path_factory.mktemp("links"), source, sink, waiting)
    asyncio.run(scenarios.run())
    return scenarios


async def _broken_links(folder: Path, broker: Broker, side: str) -> Run:
    """Every fault under a burst; after each all that fell due must have arrived before the next."""
    fed, messages = invent(random.Random(len(side)), METERS, (WARM + len(FAULTS) * BURST) // METERS)
    lost: dict[str, int] = {}
    async with Proxy(broker.port) as proxy:
        urls = {"source": broker.url, "sink": broker.url} | {side: proxy.url}
        with Agent(folder, [PLAN], urls["source"], urls["sink"], program=WATCHFUL) as agent:
            pid = agent.pid
            await agent.subscribed(broker)
            async with Receiver(broker) as receiver:
                await feed(broker.url, messages[:WARM])
                await receiver.more_than(0)
                for number, fault in enumerate(FAULTS):
                    begin, end = WARM + number * BURST, WARM + (number + 1) * BURST
                    before = proxy.connections
                    await feed(broker.url, messages[begin : begin + BURST // 3])
                    feeding = asyncio.create_task(feed(broker.url, messages[begin + BURST // 3 : end]))
                    await fault(proxy)
                    await proxy.flow()
                    await feeding
                    await agent.finished(receiver, until_now(fed, messages[:end]))
                    lost[fault.__name__] = proxy.connections - before
                one_life = agent.pid == pid
                await agent.stop()
                await receiver.flush(broker.url)
    return Run(agent, fed, receiver, lost, one_life)


async def _waiting_broker(folder: Path, broker: Broker) -> Run:
    """Of each meter one reading stands, and the broker sends no more than are fewer."""
    fed, messages = invent(random.Random(3), MANY, WARM // METERS)
    with Agent(folder, [PLAN], broker.url, source='protocol = "3.1.1"', program=WATCHFUL) as agent:
        pid = agent.pid
        await agent.subscribed(broker)
        async with Receiver(broker) as receiver:
            await feed(broker.url, messages)
            await agent.finished(receiver, fed)
            one_life = agent.pid == pid
            await agent.stop()
            await receiver.flush(broker.url)
    return Run(agent, fed, receiver, {}, one_life)


def until_now(fed: Fed, sent: Sequence[Publication]) -> Fed:
    """What of it has been sent."""
    count = Counter(publication.topic.split("/")[1] for publication in sent)
    return {meter: readings[: count[meter]] for meter, readings in fed.items()}


SIDES = pytest.mark.parametrize("side", ["source", "sink"])


@SIDES
def test_whatever_a_network_does_nothing_is_lost(side: str, links: Scenarios) -> None:
    """No slot is missing, none has two values, all are in order and right, and no log holds a reading."""
    run = links[side]
    run.agent.assert_kept(run.fed, run.receiver)


@SIDES
def test_the_agent_recovers_by_itself(side: str, links: Scenarios) -> None:
    """One process survives all faults; it reconnects only where it must, and counts that."""
    run = links[side]
    assert run.one_life
    assert {fault for fault, connections in run.lost.items() if connections} == LOSE
    assert run.agent.totals[f"{side}_lost"] >= len(LOSE)
    other = {"source": "sink", "sink": "source"}[side]
    assert run.agent.totals[f"{other}_lost"] == 0


@SIDES
def test_nothing_is_shed_or_given_up(side: str, links: Scenarios) -> None:
    """Nothing is shed; of what stands at most one reading a silence is acknowledged early, and counted."""
    run = links[side]
    assert not {"shed", "publish_refused"} & set(run.agent.totals)
    assert run.agent.totals["acked_open"] < len(FAULTS)
    assert run.agent.totals["released"] <= run.receiver.records


def test_a_broker_that_waits_for_what_stands_is_found_out(links: Scenarios) -> None:
    """Where more readings stand than the broker sends unacknowledged, all arrive all the same, soon.

    By the event clock nothing would ever come any more: time passes with readings. It is said, what is
    acknowledged early is counted, and nothing else changes.
    """
    run = links["waiting"]
    run.agent.assert_kept(run.fed, run.receiver)
    assert run.agent.log.count(f"the source's broker stops at {LIMIT} unacknowledged messages") == 1
    assert run.agent.totals["acked_open"] >= MANY - LIMIT
