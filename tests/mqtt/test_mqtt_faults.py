"""meteragent.mqtt and brokers that refuse or err; and what it leaves: no word in a log, an orderly end."""

import asyncio
import logging

import pytest

from meteragent.domain.errors import LinkError
from meteragent.mqtt.link import Version
from tests.support.fake_broker import DISCONNECT, PUBLISH, SUBSCRIBE, FakeBroker, Packet, Wire, packet_id
from tests.support.mqtt_peer import connected, soon

CANARY = b"canary-2718281828"


async def accept(wire: Wire) -> None:
    """Accept the connection, and read until it ends."""
    await wire.accept()
    await wire.end()


# Subscribing


@pytest.mark.parametrize("version", ["5", "3.1.1"])
@pytest.mark.parametrize(
    ("granted", "code", "text"),
    [
        (0x87, "subscription_refused", "subscription refused: .* \\(0x87\\)"),
        (0x80, "subscription_refused", "subscription refused: .* \\(0x80\\)"),
        (0, "qos_refused", "subscription granted at QoS 0 only"),
    ],
)
async def test_a_subscription_that_is_not_granted_at_qos_1_is_an_error(
    granted: int, code: str, text: str, version: Version
) -> None:
    """Refused, or at QoS 0, where nothing can be acknowledged: a LinkError with the code of the problem."""

    async def script(wire: Wire) -> None:
        await wire.accept()
        wire.send(wire.suback(packet_id(b"\0\0" + await wire.expect(SUBSCRIBE)), granted))
        await wire.end()

    async with FakeBroker(script) as broker, connected(broker.url, version=version) as peer:
        with pytest.raises(LinkError, match=text) as refused:
            await (await peer.session()).subscribe("a/+")
        assert refused.value.code == code


async def test_a_subscription_is_not_waited_for_for_ever() -> None:
    """No SUBACK in time, or a connection lost meanwhile, is a LinkError."""

    async def lost(wire: Wire) -> None:
        await wire.accept()
        await wire.expect(SUBSCRIBE)

    async with FakeBroker(accept, lost) as broker, connected(broker.url, timeout_s=0.2) as peer:
        session = await peer.session()
        with pytest.raises(LinkError, match=r"no answer to the subscription within 0\.2 s"):
            await session.subscribe("a/+")
        broker.drop()
        with pytest.raises(LinkError, match="the connection was lost"):
            await (await peer.session()).subscribe("a/+")


# A broker that errs


@pytest.mark.parametrize(
    "bad",
    [
        b"\x32\x03\xff\xff\x00",
        b"\x32\x00",
        b"\x32\x0a\x00\x01t\x00\x01\x03\xfe\x00\x00x",
        b"\x40\x01\x00",
    ],
    ids=["topic too long", "no topic", "unknown property", "half a packet id"],
)
async def test_a_packet_that_cannot_be_read_ends_the_connection(bad: bytes) -> None:
    """What cannot be read is never skipped: that would lose a message silently. The DISCONNECT says why."""

    async def script(wire: Wire) -> None:
        await wire.accept()
        wire.send(bad)
        assert await wire.end() == [Packet(DISCONNECT, 0, b"\x81")]

    async with FakeBroker(script, accept) as broker, connected(broker.url) as peer:
        assert "the broker violated MQTT" in await peer.warned()
        await peer.session()


@pytest.mark.parametrize("topic", [b"\xff", b"meters/a\0b/power", b""])
async def test_a_topic_that_is_none_ends_the_connection(topic: bytes) -> None:
    """MQTT forbids what is not UTF-8, a NUL, and no topic at all."""

    async def script(wire: Wire) -> None:
        await wire.accept()
        wire.send(wire.publish(1, b"a", topic=topic))
        await wire.end()

    async with FakeBroker(script, accept) as broker, connected(broker.url) as peer:
        assert "the broker violated MQTT" in await peer.warned()


async def test_a_wildcard_in_a_topic_ends_nothing() -> None:
    """RabbitMQ makes `+` of an AMQP sender's `*`: the message is handed over, and the source lives on."""

    async def script(wire: Wire) -> None:
        await wire.accept()
        wire.send(b"".join(wire.publish(7, b"", topic=topic) for topic in (b"a/+", b"a/#", b"a/b")))
        await wire.end()

    async with FakeBroker(script) as broker, connected(broker.url) as peer:
        assert [got.topic for got in await peer.get(3)] == ["a/+", "a/#", "a/b"]


async def test_a_message_at_qos_2_ends_the_connection() -> None:
    """A broker lowers what it sends to the QoS 1 of our subscription; one that does not is not served."""

    async def script(wire: Wire) -> None:
        await wire.accept()
        wire.send(wire.publish(1, b"a", qos=2))
        assert [packet.kind for packet in await wire.end()] == [DISCONNECT]

    async with FakeBroker(script, accept) as broker, connected(broker.url) as peer:
        assert "a message at QoS 2" in await peer.warned()
        assert peer.messages.empty()


async def test_the_reason_that_a_broker_gives_for_the_end_is_told() -> None:
    """A DISCONNECT of the broker is named with its reason code: 0x8e, another client has our id."""

    async def script(wire: Wire) -> None:
        await wire.accept()
        wire.send(b"\xe0\x01\x8e")
        await wire.end()

    async with FakeBroker(script, accept) as broker, connected(broker.url) as peer:
        assert (
            "the broker ended the connection: another client has this client id (reason 0x8e)"
            in await peer.warned()
        )


async def test_nothing_tells_topics_and_payloads(caplog: pytest.LogCaptureFixture) -> None:
    """With all logs at DEBUG and a loop in debug mode, no record holds a topic or a payload (law 3)."""
    caplog.set_level(logging.DEBUG)
    for name in list(logging.Logger.manager.loggerDict):
        if name.startswith("asyncio"):
            caplog.set_level(logging.DEBUG, logger=name)
    asyncio.get_running_loop().set_debug(enabled=True)
    asyncio.get_running_loop().slow_callback_duration = 0.0

    async def script(wire: Wire) -> None:
        await wire.accept(is_present=True)
        wire.send(wire.publish(1, CANARY, topic=CANARY) + wire.publish(0, CANARY, topic=CANARY, qos=0))
        await wire.expect(PUBLISH)
        broken = b"\x32" + bytes([len(CANARY) + 8]) + b"\0\1t\0\2\2\xfe\xfe"
        wire.send(wire.publish(0, CANARY, topic=b"\xff" + CANARY, qos=0) + broken + CANARY)
        await wire.end()

    async with FakeBroker(script, accept) as broker, connected(broker.url) as peer:
        session = await peer.session()
        (got, _) = await peer.get(2)
        session.publish(CANARY.decode(), CANARY)
        session.acknowledge([got.token] if got.token else [])
        await peer.session()
    assert caplog.records
    assert CANARY.decode() not in caplog.text


# The end of a connection


@pytest.mark.parametrize(("version", "farewell"), [("5", b"\xe0\x00"), ("3.1.1", b"\xe0\x00")])
async def test_a_cancelled_one_leaves_in_order(version: Version, farewell: bytes) -> None:
    """What was acknowledged last leaves first, then a DISCONNECT that does not shorten the session."""

    async def script(wire: Wire) -> None:
        await wire.accept()
        wire.send(wire.publish(1, b""))
        assert await soon(wire.reader.read()) == b"\x40\x02\x00\x01" + farewell

    async with FakeBroker(script) as broker, connected(broker.url, version=version) as peer:
        session = await peer.session()
        session.acknowledge(got.token for got in await peer.get(1) if got.token)
