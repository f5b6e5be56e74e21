"""Publishing on one connection of meteragent.mqtt, against a broker that does what a script says."""

from typing import Any, cast

import pytest

from meteragent.domain.errors import LinkError
from meteragent.mqtt import Session
from meteragent.mqtt.packets import LAST_ID
from tests.support.fake_broker import PUBLISH, FakeBroker, Wire, packet_id
from tests.support.mqtt_peer import closed, connected, soon, token, turns


async def accept(wire: Wire) -> None:
    """Accept the connection, and read until it ends."""
    await wire.accept()
    await wire.end()


async def test_a_refused_publication_ends_the_session_and_is_no_delivery() -> None:
    """A PUBACK with a reason code of 0x80 or more is counted, and never reported as delivered."""

    async def script(wire: Wire) -> None:
        await wire.accept()
        await wire.expect(PUBLISH)
        await wire.expect(PUBLISH)
        wire.send(wire.puback(1, 0x97) + wire.puback(2, 0))
        await wire.end()

    async with FakeBroker(script, accept) as broker, connected(broker.url) as peer:
        session = await peer.session()
        assert [session.publish("t", b"a"), session.publish("t", b"b")] == [1, 2]
        with pytest.raises(LinkError, match="publication refused: reason 0x97"):
            await soon(closed(session))
        await peer.session()
        assert peer.counts == ["publish_refused", "lost"]
        assert peer.delivered.empty()


async def test_a_refused_topic_is_reported_where_somebody_asks() -> None:
    """With `on_refused` a refusal that is about the topic ends nothing; one about a quota still does."""
    refused: list[tuple[int, int]] = []

    async def script(wire: Wire) -> None:
        await wire.accept()
        await wire.expect(PUBLISH)
        await wire.expect(PUBLISH)
        wire.send(wire.puback(1, 0x87) + wire.puback(2, 0))
        await wire.expect(PUBLISH)
        wire.send(wire.puback(3, 0x97))
        await wire.end()

    def on_refused(packet_id: int, reason: int) -> None:
        refused.append((packet_id, reason))

    async with FakeBroker(script, accept) as broker, connected(broker.url, on_refused=on_refused) as peer:
        session = await peer.session()
        session.publish("t", b"a")
        session.publish("u", b"b")
        assert await soon(peer.delivered.get()) == (2, 0)
        session.publish("t", b"c")
        with pytest.raises(LinkError, match="publication refused: reason 0x97"):
            await soon(closed(session))
        assert peer.counts[:2] == ["publish_refused", "publish_refused"]
        assert refused == [(1, 0x87)]


async def test_a_delivery_is_reported_with_its_reason() -> None:
    """A short PUBACK means 0; 0x10, that nobody subscribes, is a delivery."""

    async def script(wire: Wire) -> None:
        await wire.accept()
        await wire.expect(PUBLISH)
        await wire.expect(PUBLISH)
        wire.send(wire.puback(2, 0x10) + wire.puback(1))
        await wire.end()

    async with FakeBroker(script) as broker, connected(broker.url) as peer:
        session = await peer.session()
        session.publish("t", b"a")
        session.publish("t", b"b")
        assert [await soon(peer.delivered.get()) for _ in range(2)] == [(2, 0x10), (1, 0)]


@pytest.mark.parametrize(
    ("properties", "inflight"),
    [(b"", 100), (b"\x21\0\x14", 20), (b"\x21\0\x01", 1), (b"\x21\xff\xff", 100)],
)
async def test_in_flight_is_bounded_by_what_the_broker_takes(properties: bytes, inflight: int) -> None:
    """Inflight is the CONNACK's Receive Maximum, at most what was asked."""

    async def script(wire: Wire) -> None:
        await wire.accept(properties=properties)
        for _ in range(inflight):
            assert await wire.expect(PUBLISH)
        await wire.end()

    options: dict[str, Any] = {"receive_maximum": 500, "inflight": 100}
    async with FakeBroker(script) as broker, connected(broker.url, **options) as peer:
        session = await peer.session()
        assert session.inflight == inflight
        for number in range(inflight):
            assert session.publish("t", b"") == number + 1


async def test_publishing_needs_a_connection_and_a_free_id() -> None:
    """Publish raises LinkError when the broker takes no more, and when the session has ended."""

    async def script(wire: Wire) -> None:
        await wire.accept(properties=b"\x21\0\x05")
        for _ in range(5):
            await wire.expect(PUBLISH)

    async with FakeBroker(script, accept) as broker, connected(broker.url) as peer:
        session = await peer.session()
        for _ in range(5):
            session.publish("t", b"")
        with pytest.raises(LinkError, match="no more unanswered publications"):
            session.publish("t", b"")
        assert await peer.warned()
        with pytest.raises(LinkError, match="the session has ended"):
            session.publish("t", b"")


async def test_a_publication_that_is_too_large_takes_no_id() -> None:
    """However often it is refused, both packet ids and the broker's Receive Maximum are left to others."""

    async def script(wire: Wire) -> None:
        await wire.accept(properties=b"\x21\0\x02\x27\0\0\0\x40")
        await wire.end()

    async with FakeBroker(script, accept) as broker, connected(broker.url) as peer:
        session = await peer.session()
        for _ in range(LAST_ID):
            with pytest.raises(LinkError, match="packets of at most 64 bytes"):
                session.publish("t", bytes(60))
        assert len({session.publish("t", b"") for _ in range(2)}) == 2


async def test_no_id_of_a_lost_connection_is_missing_on_the_next() -> None:
    """Every connection starts with all packet ids, whatever was unanswered on the one before."""

    async def script(wire: Wire) -> None:
        await wire.accept()
        assert packet_id(await wire.expect(PUBLISH)) == 1

    async with FakeBroker(script) as broker, connected(broker.url) as peer:
        for _ in range(3):
            assert (await peer.session()).publish("t", b"") == 1


async def test_what_is_written_in_one_turn_of_the_loop_leaves_in_one_piece() -> None:
    """Publications and acknowledgements of a turn are one write to the transport."""

    async def script(wire: Wire) -> None:
        await wire.accept()
        wire.send(b"".join(wire.publish(number, b"") for number in range(1, 101)))
        kinds = [(await wire.packet()).kind for _ in range(51)]
        assert kinds.count(PUBLISH) == 50
        await wire.end()

    async with FakeBroker(script) as broker, connected(broker.url) as peer:
        session = await peer.session()
        messages = await peer.get(100)
        writes = count_writes(session)
        for _ in range(50):
            session.publish("t", b"")
        session.acknowledge(token(got) for got in messages[:50])
        session.acknowledge(token(got) for got in messages[50:])
        assert writes == []
        await turns(1)
        assert len(writes) == 1
        assert writes[0].count(b"\x40\x02") == 100


def count_writes(session: Session) -> list[bytes]:
    """Every write to the transport from now on."""
    transport = session._transport
    writes: list[bytes] = []
    real: Any = transport._socket

    class Counting:
        def write(self, data: bytes) -> None:
            writes.append(data)
            real.write(data)

        def __getattr__(self, name: str) -> object:
            return getattr(real, name)

    transport._socket = cast("Any", Counting())
    return writes
