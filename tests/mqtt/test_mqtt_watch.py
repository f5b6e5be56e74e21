"""`watch`: listening that leaves nothing behind, and says why when it cannot."""

import asyncio
from contextlib import suppress

import pytest

from meteragent.domain.errors import LinkError
from meteragent.mqtt import Endpoint
from meteragent.mqtt.watch import watch_topics
from tests.conftest import MakeBroker
from tests.mqtt.test_mqtt_reconnect import accept, refuse
from tests.support.broker import Broker
from tests.support.fake_broker import FakeBroker, Wire
from tests.support.mqtt_peer import hasty, soon


async def told(url: str) -> str:
    """Why a `watch` gives up."""
    with pytest.raises(LinkError) as caught:
        await soon(watch_topics(Endpoint.parse(url), "x", ["#"], lambda *_: None, entropy=hasty))
    return str(caught.value)


async def test_it_asks_for_a_session_that_ends_with_the_connection() -> None:
    """CONNECT: a clean start and no expiry in MQTT 5, a clean session in 3.1.1, an id of its own."""
    connects = []

    async def shut(wire: Wire) -> None:
        await wire.hello()
        connects.append(wire.connect)
        wire.send(wire.connack(0x84))

    async def old(wire: Wire) -> None:
        await wire.hello()
        connects.append(wire.connect)
        await wire.end()

    async with FakeBroker(shut, old) as broker:
        watching = asyncio.create_task(
            watch_topics(Endpoint.parse(broker.url), "look", ["#"], lambda *_: None, entropy=hasty)
        )
        async with asyncio.timeout(10):
            while len(connects) < 2:
                await asyncio.wait({watching}, timeout=0.01)
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
    assert connects[0][6:8] == b"\5\2"
    assert connects[1][6:8] == b"\4\2"
    assert all(b"meteragent-look-040000000000" in packet for packet in connects)
    assert b"\x11" + bytes(4) in connects[0]


async def test_a_broker_that_refuses_is_named_as_such() -> None:
    """Not authorised twice is an answer; so is a port where nobody listens."""
    async with FakeBroker(refuse(0x87), refuse(0x87), accept) as broker:
        assert "not authorised" in await told(broker.url)
        url = broker.url
    assert "cannot connect" in await told(url)


async def test_a_real_broker_forgets_it(mosquitto: MakeBroker) -> None:
    """What comes is handed over with its retain flag and acknowledged; afterwards no session is left."""
    with mosquitto(settings={"log_type": "all"}) as broker:
        heard = await _listened(broker)
        log = (broker.folder / "log").read_text()
    assert heard == [("a/b", b"1", True)]
    assert "Received PUBACK from meteragent-look-" in log
    assert " as meteragent-look-040000000000 (p5, c1," in log


async def _listened(broker: Broker) -> list[tuple[str, bytes, bool]]:
    from simulators.commands.replay import connect  # noqa: PLC0415  only here

    heard: asyncio.Queue[tuple[str, bytes, bool]] = asyncio.Queue()
    async with connect(broker.url) as client:
        await client.publish("a/b", b"1", qos=1, retain=True)
    watching = asyncio.create_task(
        watch_topics(Endpoint.parse(broker.url), "look", ["#"], lambda *m: heard.put_nowait(m), entropy=hasty)
    )
    first = await soon(heard.get())
    await asyncio.wait({watching}, timeout=0.05)
    watching.cancel()
    with suppress(asyncio.CancelledError):
        await watching
    return [first]
