"""meteragent.mqtt on one connection, against a broker that does what a script says."""

import asyncio
from typing import Any

import pytest

from meteragent.domain.errors import LinkError
from meteragent.mqtt import Session
from meteragent.mqtt.link import Version
from tests.support.fake_broker import (
    DISCONNECT,
    PUBACK,
    PUBLISH,
    SUBSCRIBE,
    UNSUBSCRIBE,
    FakeBroker,
    Wire,
    packet_id,
)
from tests.support.mqtt_peer import connected, soon, token

BOTH = pytest.mark.parametrize("version", ["5", "3.1.1"])


async def accept(wire: Wire) -> None:
    """Accept the connection, and read until it ends."""
    await wire.accept()
    await wire.end()


# Receiving


@BOTH
async def test_a_message_is_acknowledged_when_the_caller_says_so_and_not_before(version: Version) -> None:
    """No PUBACK precedes `acknowledge`, over MQTT 5 and 3.1.1 alike (law 7)."""

    async def script(wire: Wire) -> None:
        await wire.accept()
        wire.send(wire.publish(7, b"a") + wire.publish(9, b"b"))
        await wire.expect(PUBLISH)
        assert await wire.expect(PUBACK) == b"\0\7"
        await wire.end()

    async with FakeBroker(script) as broker, connected(broker.url, version=version) as peer:
        session = await peer.session()
        first, _ = await peer.get(2)
        session.publish("marker", b"")
        session.acknowledge([token(first)])


async def test_a_message_is_acknowledged_once_also_if_its_id_is_used_again() -> None:
    """A token works once: a second use must not acknowledge the next message of the same packet id."""

    async def script(wire: Wire) -> None:
        await wire.accept()
        wire.send(wire.publish(7, b"a"))
        await wire.expect(PUBACK)
        wire.send(wire.publish(7, b"b"))
        assert [packet.kind for packet in await wire.end()] == [DISCONNECT]

    async with FakeBroker(script) as broker, connected(broker.url) as peer:
        session = await peer.session()
        (first,) = await peer.get(1)
        session.acknowledge([token(first), token(first)])
        await peer.get(1)
        session.acknowledge([token(first)])


@BOTH
async def test_a_subscription_of_any_name_is_ended(version: Version) -> None:
    """The packet is as long as it says, also where letters take several bytes: the next one is read."""
    name = "zähler/\N{GRINNING FACE}"

    async def script(wire: Wire) -> None:
        await wire.accept()
        wire.send(wire.suback(packet_id(b"\0\0" + await wire.expect(SUBSCRIBE)), 1))
        body = await wire.expect(UNSUBSCRIBE)
        assert body.endswith(len(name.encode()).to_bytes(2) + name.encode())
        wire.send(wire.puback(packet_id(await wire.expect(PUBLISH))))
        await wire.end()

    async with FakeBroker(script) as broker, connected(broker.url, version=version) as peer:
        session = await peer.session()
        await session.subscribe(name)
        session.unsubscribe(name)
        session.publish("t", b"a")
        await soon(peer.delivered.get())


async def test_a_late_acknowledgement_never_lands_on_a_newer_session() -> None:
    """A token of a lost connection is ignored, though the new one has a message of the same packet id."""

    async def first(wire: Wire) -> None:
        await wire.accept()
        wire.send(wire.publish(7, b"a"))
        await wire.expect(PUBLISH)

    async def second(wire: Wire) -> None:
        await wire.accept(is_present=True)
        wire.send(wire.publish(7, b"b"))
        await wire.expect(PUBLISH)
        assert await wire.expect(PUBACK) == b"\0\7"
        await wire.end()

    async with FakeBroker(first, second) as broker, connected(broker.url) as peer:
        old = await peer.session()
        (before,) = await peer.get(1)
        old.publish("marker", b"")
        new = await peer.session()
        (after,) = await peer.get(1)
        old.acknowledge([token(before)])
        new.acknowledge([token(before)])
        new.publish("marker", b"")
        new.acknowledge([token(after)])


async def test_a_message_repeated_before_its_acknowledgement_is_the_same_message() -> None:
    """What the broker repeats on the same connection is not handed over again."""

    async def script(wire: Wire) -> None:
        await wire.accept()
        wire.send(wire.publish(7, b"a") + wire.publish(7, b"a", flags=8) + wire.publish(8, b"b"))
        await wire.end()

    async with FakeBroker(script) as broker, connected(broker.url) as peer:
        assert [got.payload for got in await peer.get(2)] == [b"a", b"b"]


async def test_an_id_used_again_before_its_acknowledgement_names_two_messages() -> None:
    """Both are handed over. Brokers take an acknowledgement for the older: it leaves when that is done."""

    async def script(wire: Wire) -> None:
        await wire.accept()
        wire.send(wire.publish(7, b"a") + wire.publish(8, b"b") + wire.publish(7, b"c"))
        assert [await wire.expect(PUBACK) for _ in range(3)] == [b"\0\x08", b"\0\7", b"\0\7"]
        await wire.end()

    async with FakeBroker(script) as broker, connected(broker.url) as peer:
        session = await peer.session()
        first, other, second = await peer.get(3)
        assert [first.payload, second.payload] == [b"a", b"c"]
        for got in (second, other, first):
            session.acknowledge([token(got)])


async def test_nothing_is_read_while_it_is_paused() -> None:
    """What the broker sends meanwhile arrives when reading goes on; pausing twice is pausing once."""

    async def script(wire: Wire) -> None:
        await wire.accept()
        wire.send(wire.publish(1, b"a"))
        await wire.expect(PUBACK)
        wire.send(wire.publish(2, b"b"))
        await wire.expect(PUBACK)
        await wire.end()

    async with FakeBroker(script) as broker, connected(broker.url) as peer:
        session = await peer.session()
        (first,) = await peer.get(1)
        for _ in range(2):
            session.set_reading(is_reading=False)
        session.acknowledge([token(first)])
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(peer.get(1), 0.05)
        session.set_reading(is_reading=True)
        (second,) = await peer.get(1)
        session.acknowledge([token(second)])


async def test_nothing_is_handed_over_before_serve_has_started() -> None:
    """What a resumed session sends with the CONNACK waits for the first step of `serve`."""
    order = []

    async def script(wire: Wire) -> None:
        await wire.hello()
        wire.send(wire.connack(0, is_present=True) + wire.publish(1, b"a") + wire.publish(2, b"b"))
        await wire.end()

    async def serve(session: Session) -> None:
        assert session.session_present
        order.append("serve")

    def on_message(_topic: str, payload: bytes, *_: object) -> None:
        order.append(payload.decode())
        result.set()

    result = asyncio.Event()
    async with FakeBroker(script) as broker, connected(broker.url, serve=serve, on_message=on_message):
        await soon(result.wait())
    assert order == ["serve", "a", "b"]


# A callback or serve that fails


@pytest.mark.parametrize("failing", ["on_message", "on_delivered", "serve"])
async def test_a_failure_of_ours_ends_the_agent(failing: str) -> None:
    """What a callback raises is raised by keep_connected, and the message is not acknowledged."""

    async def script(wire: Wire) -> None:
        await wire.accept()
        wire.send(wire.publish(1, b"a") + wire.publish(2, b"b"))
        number = packet_id(await wire.expect(PUBLISH))
        wire.send(wire.puback(number))
        assert [packet.kind for packet in await wire.end()] == [DISCONNECT]

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    async def serve(session: Session) -> None:
        session.publish("t", b"")
        if failing == "serve":
            fail()

    options: dict[str, Any] = {} if failing == "serve" else {failing: fail}
    async with FakeBroker(script) as broker, connected(broker.url, serve=serve, **options) as peer:
        assert isinstance(await peer.failure(), ZeroDivisionError)


async def test_after_a_failure_nothing_more_is_handed_over() -> None:
    """The messages behind the one that failed stay with the broker, too."""
    got = []

    async def script(wire: Wire) -> None:
        await wire.accept()
        wire.send(wire.publish(1, b"a") + wire.publish(2, b"b"))
        await wire.end()

    def on_message(_topic: str, payload: bytes, *_: object) -> None:
        got.append(payload)
        raise ZeroDivisionError

    async with FakeBroker(script) as broker, connected(broker.url, on_message=on_message) as peer:
        await peer.failure()
    assert got == [b"a"]


async def test_a_link_error_of_serve_makes_a_new_connection() -> None:
    """Serve gives a connection up with LinkError."""
    served = []

    async def serve(session: Session) -> None:
        served.append(session)
        if len(served) == 1:
            raise LinkError("enough")
        second.set()

    second = asyncio.Event()
    async with FakeBroker(accept) as broker, connected(broker.url, serve=serve) as peer:
        await soon(second.wait())
        assert "enough" in await peer.warned()


async def test_serve_is_cancelled_when_the_connection_is_lost() -> None:
    """Serve does not outlive its connection."""

    async def script(wire: Wire) -> None:
        await wire.accept()
        await wire.expect(PUBLISH)

    async def serve(session: Session) -> None:
        session.publish("t", b"")
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    ended = asyncio.Event()
    async with FakeBroker(script) as broker, connected(broker.url, serve=serve):
        await soon(ended.wait())


async def test_a_failure_of_ours_while_it_cleans_up_ends_the_agent() -> None:
    """What serve raises when it is cancelled is not lost, though the connection was the first to go."""

    async def script(wire: Wire) -> None:
        await wire.accept()
        await wire.expect(PUBLISH)

    async def serve(session: Session) -> None:
        session.publish("t", b"")
        try:
            await asyncio.Event().wait()
        finally:
            raise ZeroDivisionError

    async with FakeBroker(script) as broker, connected(broker.url, serve=serve) as peer:
        assert isinstance(await peer.failure(), ZeroDivisionError)


async def test_a_failure_of_ours_outweighs_the_link_error_that_follows_it() -> None:
    """When a callback fails, serve may meet the end of its session first: the agent ends all the same."""

    async def script(wire: Wire) -> None:
        await wire.accept()
        wire.send(wire.puback(packet_id(await wire.expect(PUBLISH))))
        await wire.end()

    async def serve(session: Session) -> None:
        session.publish("t", b"")
        await answered.wait()
        session.publish("t", b"")

    def on_delivered(*_: object) -> None:
        answered.set()
        raise ZeroDivisionError

    answered = asyncio.Event()
    options: dict[str, Any] = {"serve": serve, "on_delivered": on_delivered}
    async with FakeBroker(script) as broker, connected(broker.url, **options) as peer:
        assert isinstance(await peer.failure(), ZeroDivisionError)
    assert broker.levels == [5]
