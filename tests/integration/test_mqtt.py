"""meteragent.mqtt against a real broker, mosquitto."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from urllib.parse import urlsplit

import aiomqtt
import pytest

from meteragent.domain.errors import LinkError
from meteragent.mqtt import Session
from meteragent.mqtt.link import Version
from tests.conftest import MakeBroker
from tests.integration.service import until
from tests.support.broker import Broker, Certificates
from tests.support.mqtt_peer import Peer, closed, connected, soon

BOTH = pytest.mark.parametrize("version", ["5", "3.1.1"])


@asynccontextmanager
async def other(broker: Broker) -> AsyncIterator[aiomqtt.Client]:
    """Another make of client on the same broker."""
    async with aiomqtt.Client("127.0.0.1", urlsplit(broker.url).port or 0) as client:
        yield client


async def subscribed(peer: Peer, topic_filter: str = "in/#") -> Session:
    """The next session, subscribed."""
    session = await peer.session()
    await session.subscribe(topic_filter)
    return session


async def send(broker: Broker, count: int, qos: int = 1) -> None:
    """Publish 0, 1, … on in/t."""
    async with other(broker) as client:
        for number in range(count):
            await client.publish("in/t", str(number), qos=qos)


async def numbers(peer: Peer, count: int) -> list[int]:
    """The next messages, as numbers."""
    return [int(got.payload) for got in await peer.get(count)]


@BOTH
async def test_what_another_client_sends_arrives_in_order_and_unchanged(
    broker: Broker, version: Version
) -> None:
    """Messages arrive in order with topic, payload, QoS and no retain flag, and a token only at QoS 1."""
    async with connected(broker.url, version=version) as peer:
        await subscribed(peer)
        await send(broker, 10, qos=1)
        await send(broker, 10, qos=0)
        got = await peer.get(20)
    assert [message.payload for message in got] == [b"%d" % n for n in range(10)] * 2
    assert {(message.topic, message.retain) for message in got} == {("in/t", False)}
    assert [message.qos for message in got] == [1] * 10 + [0] * 10
    assert [message.token is None for message in got] == [False] * 10 + [True] * 10


@BOTH
async def test_a_retained_message_is_marked_as_such(broker: Broker, version: Version) -> None:
    """The retain flag is set on what the broker had kept, and on nothing else."""
    async with other(broker) as client:
        await client.publish("in/t", "0", qos=1, retain=True)
    async with connected(broker.url, version=version) as peer:
        await subscribed(peer)
        await send(broker, 1)
        assert [message.retain for message in await peer.get(2)] == [True, False]


@BOTH
async def test_what_is_not_acknowledged_comes_again_and_nothing_else(
    broker: Broker, version: Version
) -> None:
    """The broker's session outlives a DISCONNECT, and holds exactly what was not acknowledged."""
    async with connected(broker.url, version=version) as peer:
        session = await subscribed(peer)
        await send(broker, 10)
        got = await peer.get(10)
        session.acknowledge(m.token for m in got[::2] if m.token)
        session.publish("out/t", b"")
        await soon(peer.delivered.get())  # so the broker has read the acknowledgements too
    async with connected(broker.url, version=version) as peer:
        assert (await peer.session()).session_present
        assert await numbers(peer, 5) == [1, 3, 5, 7, 9]
        await send(broker, 1)
        assert await numbers(peer, 1) == [0]


async def test_over_mqtt_5_the_broker_holds_as_many_messages_as_receive_maximum_says(broker: Broker) -> None:
    """Receive Maximum overrides mosquitto's 20, so that many readings can wait for their commit."""
    async with connected(broker.url, version="5", receive_maximum=300) as peer:
        await subscribed(peer)
        await send(broker, 300)
        assert await numbers(peer, 300) == list(range(300))


async def test_over_mqtt_3_1_1_an_acknowledgement_makes_room_for_the_next_message(broker: Broker) -> None:
    """Mosquitto sends 20 unacknowledged messages by default, and one more for each acknowledgement."""
    async with connected(broker.url, version="3.1.1") as peer:
        session = await subscribed(peer)
        await send(broker, 25)
        first = await peer.get(20)
        session.publish("in/t", b"99")  # it would overtake, were there room
        session.acknowledge([first[7].token] if first[7].token else [])
        assert await numbers(peer, 1) == [20]


@BOTH
async def test_publications_reach_other_clients_once_and_are_reported(
    broker: Broker, version: Version
) -> None:
    """Each of 1,000 publications, at most `inflight` at once, is delivered once and reported once."""
    async with other(broker) as client, connected(broker.url, version=version) as peer:
        await client.subscribe("out/#", qos=1)
        session = await peer.session()
        assert session.inflight == (20 if version == "5" else 100)  # mosquitto's Receive Maximum is 20
        sent: set[int] = set()
        for number in range(1000):
            if len(sent) >= session.inflight:
                packet_id, reason = await soon(peer.delivered.get())
                sent.remove(packet_id)
                assert reason == 0
            sent.add(session.publish("out/t", b"%d" % number, retain=number == 7))
        while sent:
            sent.remove((await soon(peer.delivered.get()))[0])
        messages = client.messages
        received = [(await soon(anext(messages))).payload for _ in range(1000)]
    assert received == [b"%d" % number for number in range(1000)]
    async with other(broker) as client:
        await client.subscribe("out/#")
        assert (await soon(anext(client.messages))).payload == b"7"


async def test_a_killed_broker_is_found_again_with_its_session(mosquitto: MakeBroker) -> None:
    """After SIGKILL and a new start the session is there, and what the broker had saved comes again."""
    with mosquitto(is_persistent=True) as broker:
        async with connected(broker.url) as peer:
            await subscribed(peer)
        await send(broker, 5)  # to a client that is away: mosquitto saves what it queues, not what it sends
        async with connected(broker.url) as peer:
            first = await peer.session()
            assert await numbers(peer, 5) == [0, 1, 2, 3, 4]
            broker.kill()
            with pytest.raises(LinkError, match="the connection was lost"):
                await soon(closed(first))
            broker.start()
            assert (await peer.session()).session_present
            assert await numbers(peer, 5) == [0, 1, 2, 3, 4]
            assert peer.counts == ["lost"]


async def test_a_broker_that_forgot_the_session_says_so(mosquitto: MakeBroker) -> None:
    """Without persistence a broker that starts again has no session: session_present is False."""
    with mosquitto() as broker:
        async with connected(broker.url) as peer:
            await subscribed(peer)
            broker.kill()
            broker.start()
            session = await peer.session()
            assert not session.session_present
            await session.subscribe("in/#")
            await send(broker, 1)
            assert await numbers(peer, 1) == [0]


async def test_a_forbidden_publication_is_not_a_delivery(mosquitto: MakeBroker) -> None:
    """Over MQTT 5 the broker's refusal ends the session, is counted, and is never reported delivered."""
    with mosquitto(acl="topic readwrite in/#\n") as broker:
        async with connected(broker.url) as peer:
            session = await peer.session()
            session.publish("forbidden", b"1")
            with pytest.raises(LinkError, match="publication refused: reason 0x87"):
                await soon(closed(session))
            await peer.session()
            assert peer.counts == ["publish_refused", "lost"]
            assert peer.delivered.empty()


async def test_a_user_is_let_in_by_the_password(mosquitto: MakeBroker) -> None:
    """The right password connects; a wrong one is refused, named in one line without it, and tried again."""
    with mosquitto(users={"home": "secret"}) as broker:
        async with connected(broker.url, credentials={"username": "home", "password": "secret"}) as peer:
            await subscribed(peer)
        async with connected(broker.url, credentials={"username": "home", "password": "canary"}) as peer:
            line = await peer.warned()
            await until(lambda: (broker.folder / "log").read_text().count("not authorised") >= 2)
            assert peer.sessions.empty()
            assert peer.log.empty()
    assert "not authorised" in line
    assert "canary" not in line


async def test_over_tls_the_broker_must_be_vouched_for(
    mosquitto: MakeBroker, certificates: Certificates
) -> None:
    """A broker is connected to if our authority vouches for its name, and not if another one does."""
    with mosquitto(certificates=certificates) as broker:
        async with connected(broker.url, credentials={"ca_file": certificates.ca}) as peer:
            await subscribed(peer)
        async with connected(broker.url) as peer:
            assert "CERTIFICATE_VERIFY_FAILED" in await peer.warned()
            assert peer.sessions.empty()


async def test_over_tls_a_certificate_with_another_name_is_refused(
    mosquitto: MakeBroker, certificates: Certificates
) -> None:
    """A certificate of our own authority is not valid for a host that it does not name."""
    stolen = replace(certificates, server=certificates.client, server_key=certificates.client_key)
    with mosquitto(certificates=stolen) as broker:
        async with connected(broker.url, credentials={"ca_file": certificates.ca}) as peer:
            assert "not valid for '127.0.0.1'" in await peer.warned()
            assert peer.sessions.empty()


async def test_over_mutual_tls_the_client_shows_its_certificate(
    mosquitto: MakeBroker, certificates: Certificates
) -> None:
    """A broker that asks for a certificate takes ours, and nobody without one."""
    trust = {"ca_file": certificates.ca}
    own = {"cert_file": certificates.client, "key_file": certificates.client_key}
    with mosquitto(certificates=certificates, is_mutual=True) as broker:
        async with connected(broker.url, credentials=trust | own) as peer:
            await subscribed(peer)
        async with connected(broker.url, credentials=trust) as peer:
            await peer.warned()
            assert peer.sessions.empty()
