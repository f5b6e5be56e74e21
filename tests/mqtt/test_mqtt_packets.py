"""What the MQTT protocol writes (meteragent.mqtt.packets), byte for byte what paho's client writes."""

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from paho.mqtt import client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from meteragent.mqtt import packets
from meteragent.mqtt.packets import MQTT_5, Connect, Cursor, Will
from meteragent.mqtt.protocol import Protocol
from tests.mqtt.test_mqtt_protocol import LEVELS, LIMIT, ids, topics


class Peer(paho.Client):
    """A client of paho that keeps what it would write."""

    def __init__(self, level: int, client_id: str = "c", *, clean: bool = False) -> None:
        version = paho.MQTTv5 if level == MQTT_5 else paho.MQTTv311
        super().__init__(
            CallbackAPIVersion.VERSION2,
            client_id,
            clean_session=None if level == MQTT_5 else clean,
            protocol=version,
        )
        self._sock: Any = object()  # else it does not publish
        self.written = b""

    def _packet_queue(self, _: int, packet: bytes, *_more: object) -> Any:  # type: ignore[override]
        self.written = bytes(packet)
        return paho.MQTT_ERR_SUCCESS

    def __del__(self) -> None:
        """There is no socket to close."""


@given(ids, topics, st.sampled_from([0, 1, 100, 16_300, 16_400, 2_097_200]), st.booleans())
@LEVELS
def test_a_publication_is_what_paho_writes(
    level: int, packet_id: int, topic: str, size: int, retain: bool
) -> None:
    """PUBLISH, byte for byte, also where its length takes four bytes."""
    peer, payload = Peer(level), b"\xa5" * size
    peer._send_publish(packet_id, topic.encode(), payload, 1, retain)
    assert packets.encode_publish(level, packet_id, topic, payload, retain=retain) == peer.written


@given(ids, topics)
@LEVELS
def test_subscriptions_are_what_paho_writes(level: int, packet_id: int, topic: str) -> None:
    """SUBSCRIBE at QoS 1 and UNSUBSCRIBE, byte for byte."""
    peer = Peer(level)
    peer._mid_generate = lambda: packet_id  # type: ignore[method-assign]
    options = SubscribeOptions(1) if level == MQTT_5 else 1
    peer._send_subscribe(False, [(topic.encode(), options)])
    assert packets.encode_subscribe(level, packet_id, topic) == peer.written
    peer._send_unsubscribe(False, [topic.encode()])
    assert packets.encode_unsubscribe(level, packet_id, topic) == peer.written


wills = st.one_of(st.none(), st.builds(Will, topics, st.binary(max_size=40)))
names = st.one_of(st.none(), topics)


@given(st.text("abc", min_size=1), st.integers(0, 65_535), names, topics, wills, st.booleans())
@LEVELS
def test_the_connection_is_asked_for_as_paho_does(  # noqa: PLR0917 -- one for each strategy
    level: int,
    client_id: str,
    keepalive_s: int,
    username: str | None,
    password: str,
    will: Will | None,
    clean: bool,
) -> None:
    """CONNECT with session, credentials, will and properties, byte for byte."""
    peer = Peer(level, client_id, clean=clean)
    if username is not None:
        peer.username_pw_set(username, password)
    if will:
        peer.will_set(will.topic, will.payload, 1, retain=will.retain)
    expiry_s = 0 if clean else 604_800
    peer._clean_start = clean
    peer._connect_properties = properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
    (
        properties.SessionExpiryInterval,
        properties.ReceiveMaximum,
        properties.MaximumPacketSize,
    ) = expiry_s, 1000, LIMIT
    peer._send_connect(keepalive_s)
    secret = None if username is None else password
    request = Connect(client_id, expiry_s, 1000, keepalive_s, username, secret, will)
    assert Protocol(level, max_packet_bytes=LIMIT).encode_connect(request) == peer.written


@LEVELS
def test_short_packets_are_what_paho_writes(level: int) -> None:
    """PUBACK, PINGREQ and DISCONNECT."""
    peer = Peer(level)

    def written(send: Callable[[], object]) -> bytes:
        send()
        return peer.written

    assert packets.encode_puback(513) == written(lambda: peer._send_puback(513))
    assert written(peer._send_pingreq) == packets.PINGREQ
    assert packets.encode_disconnect(level) == written(peer._send_disconnect)
    assert packets.encode_disconnect(level, 4) == (b"\xe0\x01\x04" if level == MQTT_5 else b"\xe0\x00")


@given(st.integers(0, 268_435_455))
def test_numbers_are_read_as_they_are_written(value: int) -> None:
    """A variable byte integer has as few bytes as it needs, and comes back."""
    written = packets.encode_number(value)
    cursor = Cursor(written, 0, len(written))
    assert (cursor.read_number(), cursor.remaining_bytes) == (value, 0)
    assert len(written) == 1 + sum(value >= 128**power for power in (1, 2, 3))
