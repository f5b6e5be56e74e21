"""The bridge that is shipped: private records leave the house, raw readings do not, whoever tries."""

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, suppress

import pytest
from aiomqtt import Client, Message, MqttError

from tests.conftest import MakeBroker
from tests.integration.service import until
from tests.support.broker import Broker, Certificates
from tests.support.not_run import ROOT

SHIPPED = ROOT / "deploy" / "mosquitto"
USERS = {"meters": "a", "meteragent": "b", "utility": "c", "gateway-1": "change-me"}
LIMIT_S = 30.0


def lines(name: str) -> dict[str, str]:
    """The settings of a file that is shipped."""
    text = (SHIPPED / name).read_text()
    return dict(line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#"))


def client(broker: Broker, user: str, certificates: Certificates | None = None) -> Client:
    """A client with a name, over TLS if it is given the broker's certificate authority."""
    context = ssl.create_default_context(cafile=certificates.ca) if certificates else None
    return Client("127.0.0.1", broker.port, username=user, password=USERS[user], tls_context=context)


@pytest.fixture
def upstream(mosquitto: MakeBroker, certificates: Certificates) -> Iterator[Broker]:
    """The utility's broker, of which we know nothing but its authority; it lets everybody do everything."""
    with mosquitto(users=USERS, certificates=certificates) as running:
        yield running


@pytest.fixture
def gateway(mosquitto: MakeBroker, upstream: Broker, certificates: Certificates) -> Iterator[Broker]:
    """The broker in the house, with the access list and the bridge that are shipped."""
    plain = {
        key: value
        for key, value in lines("mosquitto.conf").items()
        if not re.search("listener|file|location|persistence", key)
    }
    bridge = lines("bridge.conf") | {
        "address": f"127.0.0.1:{upstream.port}",
        "bridge_cafile": str(certificates.ca),
    }
    acl = (SHIPPED / "acl").read_text()
    with mosquitto(users=USERS, acl=acl, settings=plain | bridge) as running:
        yield running


async def reaches(messages: AsyncIterator[Message], payload: bytes) -> list[tuple[str, bytes]]:
    """What comes until this comes."""
    inbox = []
    async for message in messages:
        inbox.append((str(message.topic), bytes(message.payload)))
        if message.payload == payload:
            return inbox
    raise AssertionError


async def test_only_private_records_cross_the_bridge(
    gateway: Broker, upstream: Broker, certificates: Certificates
) -> None:
    """The utility, subscribed to everything on its own broker, sees the private topics and nothing else.

    A meter that publishes on a private topic is refused by the access list; the agent's own word on another
    topic, and what meters say on theirs, stay in the house.
    """
    async with asyncio.timeout(LIMIT_S), AsyncExitStack() as stack:
        utility = await stack.enter_async_context(client(upstream, "utility", certificates))
        await utility.subscribe("#", qos=1)
        agent = await stack.enter_async_context(client(gateway, "meteragent"))
        with suppress(MqttError):  # some versions of mosquitto close the connection for it
            async with client(gateway, "meters") as smuggler:
                await smuggler.publish("private/m1/power", b"canary smuggled", qos=1)
        meters = await stack.enter_async_context(client(gateway, "meters"))
        for topic in ("meters/m1/power", "meters/private/power"):
            await meters.publish(topic, b"canary raw", qos=1, retain=True)
        for topic in ("private/m1/power", "private/m1/power/privacy"):
            await agent.publish(topic, b"noisy", qos=1)
        await agent.publish("private/m1/power", b"last", qos=1)
        inbox = await reaches(aiter(utility.messages), b"last")
    assert inbox == [
        ("private/m1/power", b"noisy"),
        ("private/m1/power/privacy", b"noisy"),
        ("private/m1/power", b"last"),
    ]


async def test_nothing_comes_back_over_the_bridge(
    gateway: Broker, upstream: Broker, certificates: Certificates
) -> None:
    """Whoever rules the utility's broker can neither ask for raw readings nor put anything into the house."""
    async with asyncio.timeout(LIMIT_S), AsyncExitStack() as stack:
        utility = await stack.enter_async_context(client(upstream, "utility", certificates))
        await utility.subscribe("#", qos=1)
        inside = await stack.enter_async_context(client(gateway, "meteragent"))
        await inside.subscribe("#", qos=1)
        meters = await stack.enter_async_context(client(gateway, "meters"))
        await inside.publish("private/m1/power", b"up", qos=1)
        inbox = aiter(utility.messages)
        await reaches(inbox, b"up")  # the bridge stands
        for topic in ("private/m1/power", "meters/m1/power", "$SYS/broker/connection/utility/state"):
            await utility.publish(topic, b"canary from outside", qos=1)
        await meters.publish("meters/m1/power", b"raw", qos=1)
        await inside.publish("private/m1/power", b"later", qos=1)
        heard = await reaches(inbox, b"later")
        assert ("meters/m1/power", b"raw") not in heard
        home = await reaches(aiter(inside.messages), b"raw")
    assert [payload for _, payload in home] == [b"up", b"raw"]  # its own words, and those of the house


async def test_without_the_right_authority_nothing_crosses(
    mosquitto: MakeBroker,
    upstream: Broker,
    gateway: Broker,
    certificates: Certificates,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """A broker in the utility's place that cannot prove its name gets nothing."""
    wrong = Certificates.make(tmp_path_factory.mktemp("wrong"))
    bridge = lines("bridge.conf") | {
        "address": f"127.0.0.1:{upstream.port}",
        "bridge_cafile": str(wrong.ca),
        "restart_timeout": "1",
    }
    with mosquitto(users=USERS, settings=bridge) as deceived:
        async with asyncio.timeout(LIMIT_S), client(upstream, "utility", certificates) as utility:
            await utility.subscribe("#", qos=1)
            async with client(deceived, "meteragent") as agent, client(gateway, "meteragent") as other:
                await agent.publish("private/m1/power", b"deceived", qos=1)
                log = deceived.folder / "log"
                await until(lambda: "certificate verify failed" in log.read_text())
                await other.publish("private/m1/power", b"last", qos=1)
                assert await reaches(aiter(utility.messages), b"last") == [("private/m1/power", b"last")]
