"""Status and Home Assistant over a real mosquitto: what it tells when the agent runs, dies and stops.

Each version of MQTT has an agent and a broker of its own; both go through the same day, side by side.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from aiomqtt import Client

from tests.conftest import MakeBroker
from tests.integration.service import (
    TELL_ALL,
    Meters,
    Scenarios,
    Service,
    end_tasks,
    meters,
    service,
    stream,
    subscribed,
    until,
)
from tests.support.broker import Broker

SINK = 'status = "agent/status"\nhome_assistant = "homeassistant"\nprotocol = "{}"'
OFFLINE = {"v": 1, "status": "offline"}
BOTH = pytest.mark.parametrize("version", ["5", "3.1.1"])
HOMES = ("flat", "busy")


class Arrival(NamedTuple):
    """A message as Home Assistant gets it."""

    topic: str
    facts: dict[str, Any]


class Day(NamedTuple):
    """What came on a day of a run, a birth of Home Assistant, a kill, a run, a stop; and the broker's log."""

    inbox: list[Arrival]
    killed: int
    code: int
    log: str


@asynccontextmanager
async def home_assistant(broker: Broker) -> AsyncIterator[tuple[Client, list[Arrival]]]:
    """A client that hears everything but readings."""
    inbox: list[Arrival] = []
    async with Client("127.0.0.1", broker.port, identifier="home-assistant") as client:
        for topic in ("agent/#", "homeassistant/device/#", "private/#"):
            await client.subscribe(topic, qos=1)

        async def listen() -> None:
            async for message in client.messages:
                inbox.append(Arrival(str(message.topic), json.loads(message.payload)))  # noqa: PERF401 -- as it comes

        listening = asyncio.create_task(listen())
        try:
            yield client, inbox
        finally:
            await end_tasks(listening)


def statuses(inbox: list[Arrival]) -> list[str]:
    """What was said of the agent, in order."""
    return [c.facts["status"] for c in inbox if c.topic == "agent/status"]


def devices(inbox: list[Arrival]) -> list[str]:
    """The devices announced, in order."""
    return [c.facts["device"]["name"] for c in inbox if c.topic.endswith("/config")]


def records(inbox: list[Arrival], name: str) -> list[dict[str, Any]]:
    """A home's records."""
    return [c.facts for c in inbox if c.topic == f"private/main/{name}"]


async def _run(agent: Service, made: Meters, inbox: list[Arrival]) -> None:
    """Two homes send until each has two records: one always the same, one whatever."""
    loads = {"flat": (100, 100, 100), "busy": (0, 19_999, 13_371)}
    for number in range(60):
        for name, watts in loads.items():
            await made.send(name, watts[number % 3])
        if all(len(records(inbox, name)) >= 2 for name in loads):
            return
        await asyncio.sleep(0.2)
    raise TimeoutError(agent.log)


async def _birth(client: Client, inbox: list[Arrival]) -> None:
    """Home Assistant starts when it has seen both devices, and sees them again."""
    await until(lambda: len(devices(inbox)) >= 2)
    announced = len(devices(inbox))
    await client.publish("homeassistant/status", "online")
    await until(lambda: len(devices(inbox)) >= announced + 2)


async def _day(folder: Path, broker: Broker, version: str) -> Day:
    text = stream(broker.url, window='catch_up = "500ms"', sink=SINK.format(version))
    with service(folder, text) as agent:
        async with home_assistant(broker) as (client, inbox), meters(broker) as made:
            agent.start()
            await subscribed(broker)
            await asyncio.gather(_run(agent, made, inbox), _birth(client, inbox))
            await agent.kill()
            await until(lambda: statuses(inbox)[-1] == "offline")
            killed = len(inbox)
            agent.start()
            await until(lambda: statuses(inbox)[-1] == "online")
            await subscribed(broker, 2)
            await until(lambda: set(devices(inbox[killed:])) == set(HOMES))
            agent.signal()
            code = await agent.code()
            await until(lambda: statuses(inbox)[-1] == "offline")
            return Day(inbox, killed, code, (broker.folder / "log").read_text())


@pytest.fixture(scope="module")
def days(mosquitto: MakeBroker, tmp_path_factory: pytest.TempPathFactory) -> Scenarios:
    """Both versions of MQTT."""

    async def with_5(folder: Path) -> Day:
        with mosquitto(settings=TELL_ALL) as broker:
            return await _day(folder, broker, "5")

    async def with_3(folder: Path) -> Day:
        with mosquitto(settings=TELL_ALL) as broker:
            return await _day(folder, broker, "3.1.1")

    scenarios = Scenarios(tmp_path_factory.mktemp("days"), with_5, with_3)
    asyncio.run(scenarios.run())
    return scenarios


@pytest.fixture
def day(days: Scenarios, version: str) -> Day:
    """The day with a version of MQTT."""
    found: Day = days["with_5" if version == "5" else "with_3"]
    return found


@BOTH
def test_the_broker_says_when_the_agent_is_gone(day: Day) -> None:
    """Online while it runs, offline after kill -9 and after an orderly stop, and nothing else."""
    told = statuses(day.inbox)
    assert told == ["online", "offline", "online", "offline"]
    assert day.code == 0
    assert [c.facts for c in day.inbox if c.topic == "agent/status" and c.facts["status"] == "offline"] == [
        OFFLINE,
        OFFLINE,
    ]


@BOTH
def test_devices_come_before_records_and_again_when_home_assistant_starts(day: Day) -> None:
    """Each home is announced before its first record; a birth, and a new connection, bring them again."""
    before, after = day.inbox[: day.killed], day.inbox[day.killed :]
    for name in HOMES:
        first = next(i for i, c in enumerate(before) if c.topic == f"private/main/{name}")
        assert name in devices(before[:first])
        assert devices(before).count(name) >= 2
        assert name in devices(after)
    assert len({json.dumps(c.facts) for c in day.inbox if c.topic.endswith("/config")}) == 2


@BOTH
def test_what_a_device_says_is_there(day: Day) -> None:
    """State, attributes and availability are on the topics that are named, in the fields that are named."""
    by_topic = {c.topic: c.facts for c in day.inbox}
    for document in (c.facts for c in day.inbox if c.topic.endswith("/config")):
        sensor = document["components"]["power"]
        assert by_topic[sensor["state_topic"]]["unit"] == sensor["unit_of_measurement"]
        assert isinstance(by_topic[sensor["state_topic"]]["value"], int)
        assert by_topic[sensor["json_attributes_topic"]]["epsilon"] == "100"
        (availability,) = document["availability"]
        assert by_topic[availability["topic"]]["status"] == "offline"


@BOTH
def test_on_the_wire_nothing_but_the_payload_depends_on_the_load(day: Day) -> None:
    """QoS, retain flag and topic of what the sink sends are the same for a flat home and a busy one."""
    sent = re.findall(
        r"Received PUBLISH from meteragent-\w+-sink \(d0, q(\d), r(\d), m\d+, '([^']*)'", day.log
    )
    found = {name: [(q, r, t.replace(name, "…")) for q, r, t in sent if name in t] for name in HOMES}
    assert set(found["flat"]) == set(found["busy"])
    assert {q for q, _, _ in sent} == {"1"}
    assert [r for _, r, topic in sent if topic in {f"private/main/{name}" for name in HOMES}].count("1") == 0
    assert all(r == "1" for _, r, topic in sent if not re.fullmatch(r"private/main/\w+", topic))


@BOTH
def test_the_sinks_broker_is_told_no_name(day: Day) -> None:
    """Client id and credentials name no meter: a drawn id, and no user where none is configured."""
    lines = re.findall(r"New client connected from \S+ as (meteragent\S+) \(([^)]*)\)", day.log)
    assert len({client for client, _ in lines}) == 2
    assert all(re.fullmatch(r"meteragent-[0-9a-f]+-(source|sink)", client) for client, _ in lines)
    assert not any("u'" in told for _, told in lines)
