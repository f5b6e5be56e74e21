"""Last wills: what a connection leaves with its broker, and how it ends so that they are published."""

import asyncio
from typing import NamedTuple

import pytest

from meteragent.mqtt import Will
from meteragent.mqtt.link import Version
from tests.support.fake_broker import DISCONNECT, PUBLISH, FakeBroker, Packet, Wire
from tests.support.mqtt_peer import connected, soon

BOTH = pytest.mark.parametrize("version", ["5", "3.1.1"])
WILL = Will("agent/status", b'{"status":"offline"}')
_WILL, _QOS_1, _RETAIN = 0x04, 0x08, 0x20


class Connect(NamedTuple):
    """What a CONNECT says: its flags, and the fields of its payload after the client id."""

    flags: int
    fields: list[bytes]


def read(body: bytes) -> Connect:
    """Read the body of a CONNECT."""
    level, flags, at = body[6], body[7], 10
    if level == 5:
        at += 1 + body[at]
    fields: list[bytes] = []
    while at < len(body):
        if level == 5 and len(fields) == 1 and flags & _WILL:
            assert body[at] == 0  # no property of the will: no delay either
            at += 1
        size = int.from_bytes(body[at : at + 2])
        fields.append(body[at + 2 : at + 2 + size])
        at += 2 + size
    return Connect(flags, fields[1:])


async def conversation(version: Version, will: Will | None) -> tuple[Connect, list[Packet]]:
    """A connection that publishes once and is left: its CONNECT, and all that follows."""
    heard: asyncio.Future[tuple[Connect, list[Packet]]] = asyncio.get_running_loop().create_future()

    async def script(wire: Wire) -> None:
        await wire.accept()
        packets = await wire.end()
        heard.set_result((read(wire.connect), packets))

    async with FakeBroker(script) as broker:
        async with connected(broker.url, version=version, will=will) as peer:
            session = await peer.session()
            session.publish("last", b"word")
        return await soon(heard)


@BOTH
async def test_a_will_is_retained_and_at_qos_1_without_delay(version: Version) -> None:
    """The broker is given topic and payload when the connection is made."""
    connect, _ = await conversation(version, WILL)
    assert connect.flags & 0x3C == _WILL | _QOS_1 | _RETAIN
    assert connect.fields == [b"agent/status", b'{"status":"offline"}']


@BOTH
async def test_without_a_will_nothing_is_left_with_the_broker(version: Version) -> None:
    """No flag and no field; an orderly end is then one that the broker makes no word of."""
    connect, packets = await conversation(version, None)
    assert connect == Connect(connect.flags & ~0x3C, [])
    assert [packet.kind for packet in packets] == [PUBLISH, DISCONNECT]
    assert packets[-1].body in (b"", b"\0", b"\0\0")


async def test_an_orderly_end_asks_for_the_will() -> None:
    """The DISCONNECT of MQTT 5 has reason 0x04, after all that was published before it."""
    _, packets = await conversation("5", WILL)
    assert [packet.kind for packet in packets] == [PUBLISH, DISCONNECT]
    assert packets[-1].body[0] == 0x04


async def test_with_mqtt_3_an_orderly_end_is_without_a_disconnect() -> None:
    """A DISCONNECT would have the broker forget the will; what was published before the end arrives."""
    _, packets = await conversation("3.1.1", WILL)
    assert [packet.kind for packet in packets] == [PUBLISH]
