"""What a broker grants, what it sends in spite of that, and what it never answers."""

import asyncio

import pytest

from meteragent.domain.errors import LinkError
from meteragent.mqtt import Will, protocol
from meteragent.mqtt import session as module
from meteragent.mqtt.link import Version
from tests.support.fake_broker import PINGREQ, PUBACK, PUBLISH, FakeBroker, Wire
from tests.support.mqtt_peer import connected, soon, token, turns

BOTH = pytest.mark.parametrize("version", ["5", "3.1.1"])


async def accept(wire: Wire) -> None:
    """Accept the connection, and read until it ends."""
    await wire.accept()
    await wire.end()


async def silent(wire: Wire) -> None:
    """Take the CONNECT and say nothing."""
    await wire.hello()
    await wire.end()


@BOTH
async def test_a_message_that_is_too_large_is_skipped_and_acknowledged(
    version: Version, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is counted and not kept; what follows it is read, and the broker does not send it again."""
    monkeypatch.setattr(protocol, "MAX_PACKET_BYTES", 1000)

    async def script(wire: Wire) -> None:
        await wire.accept()
        large = wire.publish(7, bytes(100_000), b"large")
        wire.send(large[:700])
        wire.send(large[700:] + wire.publish(8, b"next"))
        assert await wire.expect(PUBACK) == b"\0\7"
        assert await wire.expect(PUBACK) == b"\0\10"
        await wire.end()

    async with FakeBroker(script) as broker, connected(broker.url, version=version) as peer:
        session = await peer.session()
        (got,) = await peer.get(1)
        assert got.payload == b"next"
        assert peer.counts == ["oversized"]
        assert "large" not in await peer.warned()
        session.acknowledge([got.token] if got.token else [])
        await turns(1)


async def test_a_large_message_waits_for_the_earlier_one_of_its_id(monkeypatch: pytest.MonkeyPatch) -> None:
    """A PUBACK is taken for the oldest message of its id, which may not be persisted yet (law 7)."""
    monkeypatch.setattr(protocol, "MAX_PACKET_BYTES", 1000)

    async def script(wire: Wire) -> None:
        await wire.accept()
        wire.send(wire.publish(7, b"small") + wire.publish(7, bytes(2000)) + wire.publish(8, b"next"))
        assert await wire.expect(PUBACK) == b"\0\10"
        assert await wire.expect(PUBACK) == b"\0\7"
        assert await wire.expect(PUBACK) == b"\0\7"
        wire.send(wire.publish(9, bytes(2000)) + wire.publish(10, b"last"))
        await wire.end()

    async with FakeBroker(script) as broker, connected(broker.url) as peer:
        session = await peer.session()
        small, following = await peer.get(2)
        session.acknowledge([token(following)])
        await turns(1)
        session.acknowledge([token(small)])
        await peer.get(1)
        assert peer.counts == ["oversized", "oversized"]
        assert "further ones are only counted" in await peer.warned()
        assert peer.log.empty()


async def test_a_message_that_is_too_large_and_never_ends_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that announces 250 MB and sends other packets in their place is not waited for."""
    monkeypatch.setattr(module, "SKIP_S", 0.05)

    async def announces(wire: Wire) -> None:
        await wire.accept(properties=b"\x13\0\1")
        wire.send(b"\x32\x80\xe5\x9a\x77" + b"\0\1t\0\7\0" + bytes(1000) + wire.publish(8, b"swallowed"))
        assert await wire.expect(PUBACK) == b"\0\7"
        await wire.end()

    async with FakeBroker(announces, accept) as broker, connected(broker.url) as peer:
        assert "was skipped" in await peer.warned()
        assert "has not finished an oversized message" in await peer.warned()
        await peer.session()
        assert peer.messages.empty()


async def test_a_publication_that_is_never_answered_ends_the_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The oldest counts, although others are answered: it is published again on the next connection."""
    monkeypatch.setattr(module, "UNANSWERED_S", 0.05)

    async def forgets(wire: Wire) -> None:
        await wire.accept(properties=b"\x13\0\1")
        await wire.expect(PUBLISH)
        await wire.expect(PUBLISH)
        wire.send(wire.puback(2))
        await wire.end()

    async with FakeBroker(forgets, accept) as broker, connected(broker.url) as peer:
        session = await peer.session()
        session.publish("t", b"forgotten")
        session.publish("t", b"answered")
        assert await soon(peer.delivered.get()) == (2, 0)
        assert "has not answered a publication" in await peer.warned()
        await peer.session()


async def test_an_answered_publication_never_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long ago it was: only what is unanswered is waited for."""

    async def script(wire: Wire) -> None:
        await wire.accept()
        await wire.expect(PUBLISH)
        wire.send(wire.puback(1))
        await wire.end()

    async with FakeBroker(script, accept) as broker, connected(broker.url) as peer:
        session = await peer.session()
        session.publish("t", b"answered")
        await soon(peer.delivered.get())
        monkeypatch.setattr(module, "UNANSWERED_S", 1e-9)
        assert session._check_time_limits()
        session.publish("t", b"unanswered")
        assert not session._check_time_limits()


async def test_the_keep_alive_is_what_the_broker_says() -> None:
    """A server keep alive of a second has a ping sent in half of it, though a minute was asked for."""

    async def script(wire: Wire) -> None:
        await wire.accept(properties=b"\x13\0\1")
        assert await wire.expect(PINGREQ) == b""
        wire.send(b"\xd0\0")
        pinged.set()
        await wire.end()

    pinged = asyncio.Event()
    async with FakeBroker(script) as broker, connected(broker.url) as peer:
        await peer.session()
        await soon(pinged.wait())
        assert peer.log.empty()


async def test_a_shorter_session_is_told() -> None:
    """A broker that keeps a lost session for an hour, not for a week, is named, with both numbers."""

    async def script(wire: Wire) -> None:
        await wire.accept(properties=b"\x11\0\0\x0e\x10")
        await wire.end()

    async with FakeBroker(script) as broker, connected(broker.url) as peer:
        await peer.session()
        assert "keeps a lost session for 3600 s instead of the requested 604800 s" in await peer.warned()


async def test_a_broker_without_retained_messages_is_asked_for_none() -> None:
    """CONNACK says so: what was to be retained is sent without the flag, which would end the session."""
    flags: list[int] = []

    async def script(wire: Wire) -> None:
        await wire.accept(properties=b"\x25\0")
        flags.extend(packet.flags for packet in await wire.end() if packet.kind == PUBLISH)

    async with FakeBroker(script) as broker, connected(broker.url) as peer:
        session = await peer.session()
        assert not session.retains
        session.publish("private/m/privacy", b"terms", retain=True)
    assert flags == [2]  # QoS 1


async def test_a_will_that_may_not_be_retained_is_not() -> None:
    """A broker without retained messages refuses such a CONNECT; the next one has a will without the flag."""
    failures: list[LinkError] = []

    async def refuse(wire: Wire) -> None:
        await wire.hello()
        assert wire.connect[7] & 0x2C == 0x2C
        wire.send(wire.connack(0x9A))
        await wire.end()

    async def take(wire: Wire) -> None:
        await wire.accept(properties=b"\x25\0")
        assert wire.connect[7] & 0x2C == 0x0C
        await wire.end()

    will = Will("status", b"offline")
    async with (
        FakeBroker(refuse, take) as broker,
        connected(broker.url, will=will, on_failed=failures.append) as peer,
    ):
        await peer.session()
    assert [failure.code for failure in failures] == ["no_retain"]


@pytest.mark.parametrize(
    ("version", "answer", "code"),
    [
        ("5", b"\x20\5\0\0\2\x24\0", "qos_refused"),  # accepted, with Maximum QoS 0
        ("5", b"\x20\3\0\x9b\0", "qos_refused"),  # refused, because the will is at QoS 1
        ("5", b"\x20\3\0\x85\0", "client_id_refused"),
        ("5", b"\x20\3\0\x87\0", "login_refused"),
        ("5", b"\x20\3\0\x88\0", ""),
        ("3.1.1", b"\x20\2\0\2", "client_id_refused"),
        ("3.1.1", b"\x20\2\0\5", "login_refused"),
        ("3.1.1", b"\x20\2\0\3", ""),
        ("3.1.1", b"\x15\3\3\0\2\2\x46", "port_with_tls"),  # an alert of TLS
        ("5", b"\x15\3\3\0\2\2\x46", "port_with_tls"),
        ("5", b"", "no_answer"),
    ],
)
async def test_what_is_missing_has_the_code_of_a_problem(version: Version, answer: bytes, code: str) -> None:
    """Whatever ends an attempt to connect has the code of the problem that names it, or none."""
    failures: asyncio.Queue[LinkError] = asyncio.Queue()

    async def script(wire: Wire) -> None:
        await wire.hello()
        wire.send(answer)
        if answer:
            await wire.end()

    async with (
        FakeBroker(script, silent) as broker,
        connected(broker.url, version=version, on_failed=failures.put_nowait),
    ):
        assert (await soon(failures.get())).code == code


async def test_nothing_larger_than_the_broker_takes_is_sent() -> None:
    """Maximum Packet Size of the broker: what is larger ends the connection by name, before it is sent."""

    async def script(wire: Wire) -> None:
        await wire.accept(properties=b"\x27\0\0\0\x40")
        assert [packet.kind for packet in await wire.end()] == [PUBLISH, 14]

    async def serve(session: module.Session) -> None:
        session.publish("t", bytes(50))
        session.publish("t", bytes(60))

    async with FakeBroker(script, accept) as broker, connected(broker.url, serve=serve) as peer:
        assert "accepts packets of at most 64 bytes" in await peer.warned()


async def test_a_broker_that_is_silent_to_mqtt_5_is_asked_in_3_1_1() -> None:
    """One that takes a CONNECT of MQTT 5 for its own waits for more of it: no answer is a refusal."""
    scripts = silent, accept
    async with FakeBroker(*scripts) as broker, connected(broker.url, timeout_s=0.2) as peer:
        assert "no answer to the connection attempt" in await peer.warned()
        assert (await peer.session()).version == 4
    assert broker.levels == [5, 4]


async def test_silence_is_no_doubt_about_a_version_that_has_worked() -> None:
    """A broker that hangs for a while is asked again in the version that it knows."""
    stands = asyncio.Event()

    async def works(wire: Wire) -> None:
        await wire.accept()

    async def works_again(wire: Wire) -> None:
        await wire.accept()
        stands.set()
        await wire.end()

    scripts = works, silent, works_again
    async with FakeBroker(*scripts) as broker, connected(broker.url, timeout_s=0.2) as peer:
        await peer.warned()
        await peer.warned()
        await soon(stands.wait())
    assert broker.levels == [5, 5, 5]
