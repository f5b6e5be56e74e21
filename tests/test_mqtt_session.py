"""meteragent.mqtt on one connection, against a broker that does what a script says."""

import asyncio
from typing import Any

import pytest

from meteragent.errors import LinkError
from meteragent.mqtt import Session, Token
from meteragent.mqtt.endpoint import Version
from tests.fake_broker import DISCONNECT, PUBACK, PUBLISH, FakeBroker, Wire, packet_id
from tests.mqtt_peer import Got, connected, soon, turns

BOTH = pytest.mark.parametrize("version", ["5", "3.1.1"])


def token(got: Got) -> Token:
    """The token of a QoS 1 message."""
    assert got.token is not None
    return got.token


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


async def test_a_late_acknowledgement_never_lands_on_a_newer_session() -> None:
    """A token of a lost connection is ignored, though the new one has a message of the same packet id."""

    async def first(wire: Wire) -> None:
        await wire.accept()
        wire.send(wire.publish(7, b"a"))
        await wire.expect(PUBLISH)

    async def second(wire: Wire) -> None:
        await wire.accept(present=True)
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
            session.pause(reading=False)
        session.acknowledge([token(first)])
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(peer.get(1), 0.05)
        session.pause(reading=True)
        (second,) = await peer.get(1)
        session.acknowledge([token(second)])


async def test_nothing_is_handed_over_before_serve_has_started() -> None:
    """What a resumed session sends with the CONNACK waits for the first step of `serve`."""
    order = []

    async def script(wire: Wire) -> None:
        await wire.hello()
        wire.send(wire.connack(0, present=True) + wire.publish(1, b"a") + wire.publish(2, b"b"))
        await wire.end()

    async def serve(session: Session) -> None:
        assert session.session_present
        order.append("serve")

    def on_message(_topic: str, payload: bytes, *_: object) -> None:
        order.append(payload.decode())
        done.set()

    done = asyncio.Event()
    async with FakeBroker(script) as broker, connected(broker.url, serve=serve, on_message=on_message):
        await soon(done.wait())
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


# Publishing


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
            await soon(session.closed())
        await peer.session()
        assert peer.counts == ["publish_refused", "lost"]
        assert peer.delivered.empty()


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
    [(b"", 100), (b"\x21\0\x14", 18), (b"\x21\0\x03", 1), (b"\x21\0\x01", 1), (b"\x21\xff\xff", 100)],
)
async def test_in_flight_is_bounded_by_what_the_broker_takes(properties: bytes, inflight: int) -> None:
    """Inflight is the CONNACK's Receive Maximum less 2, at most what was asked and at least 1."""

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
    """Publish raises LinkError when all ids are in use, and when the session has ended."""

    async def script(wire: Wire) -> None:
        await wire.accept(properties=b"\x21\0\x05")
        for _ in range(4):
            await wire.expect(PUBLISH)

    async with FakeBroker(script, accept) as broker, connected(broker.url) as peer:
        session = await peer.session()
        for _ in range(4):
            session.publish("t", b"")
        with pytest.raises(LinkError, match="no packet id is free"):
            session.publish("t", b"")
        assert await peer.warned()
        with pytest.raises(LinkError, match="the session has ended"):
            session.publish("t", b"")


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
    writer = session._client._writer
    assert writer is not None
    writes: list[bytes] = []
    real = writer._transport

    class Counting:
        def write(self, data: bytes) -> None:
            writes.append(data)
            real.write(data)

        def __getattr__(self, name: str) -> object:
            return getattr(real, name)

    writer._transport = Counting()
    return writes
