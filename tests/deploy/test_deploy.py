"""What `deploy/` ships is what the code understands and the broker does."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress

import numpy as np
import pytest
from aiomqtt import Client, Message, MqttError
from pydantic import BaseModel

from meteragent import config
from meteragent.config import model
from simulators.commands.replay import payloads, replay
from simulators.traces.trace import Trace
from tests.conftest import MakeBroker
from tests.support.broker import Broker
from tests.support.not_run import ROOT

DEPLOY = ROOT / "deploy"
SECTIONS: dict[str, type[BaseModel]] = {
    "source": model.Source,
    "window": model.Window,
    "privacy": model.Privacy,
    "sink": model.Sink,
    "store": model.Store,
    "page": model.Page,
    "tariff": model.Tariff,
    "archive": model.Archive,
}
USERS = {"meters": "a", "meteragent": "b", "utility": "c", "stranger": "d"}
LIMIT_S = 30.0


def section(text: str, name: str) -> str:
    """The lines of one table of a TOML file."""
    return re.split(r"\n#?\[", re.split(rf"\n#?\[{{1,2}}{name}\]", text)[1])[0]


def settings() -> dict[str, str]:
    """The settings of the broker that is shipped, without those that name its place."""
    lines = (DEPLOY / "mosquitto" / "mosquitto.conf").read_text().splitlines()
    pairs = dict(line.split(maxsplit=1) for line in lines if line and not line.startswith("#"))
    return {key: value for key, value in pairs.items() if not re.search("listener|file|location", key)}


@pytest.fixture
def shipped(mosquitto: MakeBroker) -> Broker:
    """The broker as it is shipped, not started."""
    acl = (DEPLOY / "mosquitto" / "acl").read_text()
    return mosquitto(users=USERS, acl=acl, is_persistent=True, settings=settings())


def client(broker: Broker, user: str, session: str | None = None) -> Client:
    """A client with a name; its session lasts if it has a name too."""
    return Client(
        "127.0.0.1",
        broker.port,
        username=user,
        password=USERS[user],
        identifier=session,
        clean_session=session is None,
    )


async def forge(broker: Broker, user: str, topic: str) -> None:
    """Publish as a user without permission, for which some versions of mosquitto close the connection."""
    with suppress(MqttError):
        async with client(broker, user) as forger:
            await forger.publish(topic, b"forged", qos=1)


def test_reference_configuration() -> None:
    """The reference configuration is accepted, and every key it leaves out is shown in a comment."""
    text = (DEPLOY / "meteragent.toml").read_text()
    config.parse(text)
    for name, fields in SECTIONS.items():
        shown = set(re.findall(r"^#?(\w+) = ", section(text, name), re.MULTILINE))
        assert shown == set(fields.model_fields)


def test_reference_defaults() -> None:
    """What the reference configuration shows as a key's value is its default, where it has one."""
    text = (DEPLOY / "meteragent.toml").read_text()
    shown = config.parse(text).stream[0]
    required = 'topic = "meters/{meter}/power"\nkind = "power"\nunit = "W"'
    short = config.parse(f'[source]\n{required}\n[sink]\ntopic = "private/{{meter}}/power"').stream[0]
    assert shown.window == short.window.model_copy(update={"length": 1_800_000, "step": 1_800_000})
    assert config.terms(shown) == config.terms(short)
    differ = {"profile", "value", "time"}
    assert shown.source.model_dump(exclude=differ) == short.source.model_dump(exclude=differ)
    assert shown.sink.model_dump(exclude={"url"}) == short.sink.model_dump(exclude={"url"})
    assert config.sink_url(shown) == config.sink_url(short)


async def first(messages: AsyncIterator[Message]) -> tuple[str, object]:
    """Topic and payload of the next message."""
    message = await anext(messages)
    return str(message.topic), message.payload


async def test_access(shipped: Broker) -> None:
    """With the access list shipped, only the agent reads raw readings and only meters send them."""
    async with asyncio.timeout(LIMIT_S), AsyncExitStack() as stack:
        stack.enter_context(shipped)
        users = ("meters", "meteragent", "utility")
        meters, agent, utility = [await stack.enter_async_context(client(shipped, user)) for user in users]
        for reader in (agent, utility):
            await reader.subscribe("#", qos=1)
        for user in ("meteragent", "utility", "stranger"):
            await forge(shipped, user, "meters/m1/power")
        await meters.publish("meters/m1/power", b"raw", qos=1)
        for user in ("meters", "utility", "stranger"):
            await forge(shipped, user, "private/m1/power")
        await agent.publish("private/m1/power", b"noisy", qos=1)
        assert await first(aiter(agent.messages)) == ("meters/m1/power", b"raw")
        assert await first(aiter(utility.messages)) == ("private/m1/power", b"noisy")


async def test_waits_for_the_absent(mosquitto: MakeBroker) -> None:
    """With the settings shipped, nothing is dropped that waits for an agent that is away."""
    in_memory = settings() | {"persistence": "false"}
    trace = Trace(np.arange(2500) * 1000, np.arange(2500))
    with mosquitto(users=USERS, settings=in_memory) as broker:
        async with asyncio.timeout(LIMIT_S):
            async with client(broker, "meteragent", "agent") as agent:
                await agent.subscribe("meters/+/power", qos=1)
            url = broker.url.replace("://", "://meters:a@")
            await replay(trace, url, "meters/{meter}/power")
            async with client(broker, "meteragent", "agent") as agent:
                messages = aiter(agent.messages)
                received = [(await anext(messages)).payload for _ in range(len(trace))]
    assert received == list(payloads(trace))


async def test_survives_kill(shipped: Broker) -> None:
    """With the settings shipped, what mosquitto acknowledged before its latest message survives kill -9."""
    wanted = [str(number).encode() for number in range(200)]
    async with asyncio.timeout(LIMIT_S):
        with shipped:
            async with client(shipped, "meteragent", "agent") as agent:
                await agent.subscribe("meters/+/power", qos=1)
            with suppress(MqttError):  # its connection is lost
                async with client(shipped, "meters") as meters:
                    for payload in [*wanted, b"latest"]:
                        await meters.publish("meters/m1/power", payload, qos=1)
                    shipped.kill()
            shipped.start()
            async with client(shipped, "meteragent", "agent") as agent:
                messages = aiter(agent.messages)
                assert [(await anext(messages)).payload for _ in wanted] == wanted
