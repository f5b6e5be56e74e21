"""The MQTT protocol without a socket (meteragent.mqtt.protocol): packets, pieces, events and mistakes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent.mqtt import packets
from meteragent.mqtt.packets import MQTT_3, MQTT_5
from meteragent.mqtt.protocol import (
    Connected,
    Disconnect,
    Event,
    Message,
    Oversized,
    Protocol,
    Puback,
    Refusal,
    Suback,
    TooManyRequests,
    Violation,
)
from tests.support.fake_broker import Wire

LEVELS = pytest.mark.parametrize("level", [MQTT_3, MQTT_5])
LIMIT = 200
"""Packets of more bytes are too large here."""
topics = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0+#"), min_size=1, max_size=40
).filter(lambda topic: len(topic.encode()) < 100)
ids = st.integers(1, 65_535)


def broker(level: int) -> Wire:
    """A broker's encoders."""
    nothing: Any = None
    wire = Wire(nothing, nothing)
    wire.level = level
    return wire


def opened(level: int, *, properties: bytes = b"", publications: int = 0) -> Protocol:
    """A connection that stands, with publications 1, 2, … unanswered."""
    protocol = Protocol(level, max_packet_bytes=LIMIT)
    granted = properties if level == MQTT_5 else b""
    (event,) = protocol.receive(broker(level).connack(0, properties=granted))
    assert isinstance(event, Connected)
    for number in range(publications):
        assert protocol.encode_publish("t", b"", retain=False)[0] == number + 1
    return protocol


# Read ---------------------------------------------------------------------------------------------


def sent(level: int) -> st.SearchStrategy[tuple[bytes, Event | None]]:
    """A packet of a broker, and what it means where publication 5 and subscription 6 are unanswered."""
    wire = broker(level)

    def message(topic: str, payload: bytes, packet_id: int, flags: int) -> tuple[bytes, Event]:
        qos = 1 if flags & 8 else packet_id % 2
        packet = wire.publish(packet_id, payload, topic.encode(), qos=qos, flags=flags)
        known = Message(topic, payload, qos, bool(flags & 1), packet_id if qos else 0, bool(flags & 8))
        return packet, Oversized(known.packet_id, len(packet) - size(packet)) if len(
            packet
        ) > LIMIT else known

    def size(packet: bytes) -> int:
        header = packets.field_bounds(packet, 0)
        assert header is not None
        return header[0]

    received = topics | st.sampled_from(["a/+", "#"])
    messages = st.builds(message, received, st.binary(max_size=2 * LIMIT), ids, st.sampled_from([0, 1, 8, 9]))
    return st.one_of(messages, st.just((b"\xd0\x00", None)))


@LEVELS
@given(data=st.data())
def test_packets_come_in_any_pieces(level: int, data: st.DataObject) -> None:
    """Wherever the network cuts them, packets are what they were; one too large is skipped to its end."""
    stream = data.draw(st.lists(sent(level), max_size=8))
    written = b"".join(packet for packet, _ in stream)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(written)), max_size=20)))
    protocol, events = opened(level), list[Event]()
    for begin, end in zip([0, *cuts], [*cuts, len(written)], strict=True):
        events += protocol.receive(written[begin:end])
    assert events == [event for _, event in stream if event is not None]


@LEVELS
@pytest.mark.parametrize("size", [1, 255, 256, 511, 65_535])
def test_topics_of_every_length(level: int, size: int) -> None:
    """The length of a topic has two bytes, both of which count."""
    wire, topic = broker(level), "t" * size
    protocol = Protocol(level, max_packet_bytes=10**6)
    list(protocol.receive(wire.connack(0)))
    known = Message(topic, b"payload", 1, False, 7, False)
    assert list(protocol.receive(wire.publish(7, b"payload", topic.encode()))) == [known]


@LEVELS
def test_a_byte_at_a_time(level: int) -> None:
    """Each event comes with the last byte of its packet, one too large with that of its packet id."""
    wire = broker(level)
    stream = [wire.publish(7, b"512", b"a/b"), wire.publish(9, bytes(300), b"c"), wire.puback(1), b"\xd0\x00"]
    protocol, events = opened(level, publications=1), list[Event]()
    for packet in stream:
        ends = []
        for at in range(len(packet)):
            completed = list(protocol.receive(packet[at : at + 1]))
            ends += [at + 1] * len(completed)
            events += completed
        has_event = packet != b"\xd0\x00"
        assert ends == [3 + 2 + 1 + 2 if len(packet) > LIMIT else len(packet)] * has_event
    oversized = Oversized(9, len(stream[1]) - 3)
    assert events == [Message("a/b", b"512", 1, False, 7, False), oversized, Puback(1, 0)]


def test_a_piece_is_copied_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A packet of 4 MiB in pieces of 1 KiB is looked at when its header, and when all of it, has come."""
    looked_at = list[int]()
    header = packets.field_bounds

    def count(data: bytes, at: int) -> tuple[int, int] | None:
        looked_at.append(len(data))
        return header(data, at)

    monkeypatch.setattr(packets, "field_bounds", count)
    packet = broker(MQTT_3).publish(7, bytes(4 * 2**20), b"t")
    protocol = Protocol(MQTT_3, max_packet_bytes=2 * len(packet))
    list(protocol.receive(broker(MQTT_3).connack(0)))
    looked_at.clear()
    events = [
        event for at in range(0, len(packet), 1024) for event in protocol.receive(packet[at : at + 1024])
    ]
    assert [type(event) for event in events] == [Message]
    assert looked_at[:2] == [1024, len(packet)]
    assert set(looked_at[2:]) <= {len(packet)}


@given(st.binary(max_size=400), st.sampled_from([MQTT_3, MQTT_5]), st.booleans())
def test_any_bytes_are_packets_or_a_violation(data: bytes, level: int, standing: bool) -> None:
    """Nothing is raised; after a violation nothing is read any more, and it holds nothing of the data."""
    protocol = opened(level) if standing else Protocol(level, max_packet_bytes=LIMIT)
    events = list(protocol.receive(data))
    for event in events[:-1]:
        assert not isinstance(event, Violation)
    if events and isinstance(events[-1], Violation):
        assert list(protocol.receive(b"\xd0\x00")) == []
        assert events[-1].rule in RULES


RULES = {
    "a remaining length of more than four bytes",
    "a packet that ends too early",
    "a number of more than four bytes",
    "a property that occurs twice",
    "a property that MQTT 5 does not have",
    "a packet that is too long",
    "a packet that is too large",
    "flags that are reserved",
    "flags of CONNACK that are reserved",
    "a maximum of 0",
    "a packet before the answer to CONNECT",
    "a packet that a client at QoS 1 never receives",
    "a topic that is not UTF-8",
    "an empty topic, or one with a zero byte",
    "a packet id of 0",
    "a message at QoS 2",
    "a message at QoS 3",
    "a message at QoS 0 that is sent again",
}
"""All that a violation may say: constants, so nothing of a packet."""

BROKEN: list[tuple[int, bytes, str]] = [
    (MQTT_3, b"\x30\xff\xff\xff\xff\x01", "a remaining length of more than four bytes"),
    (MQTT_3, b"\x32\x03\xff\xff\x00", "a packet that ends too early"),
    (MQTT_3, b"\x40\x01\x00", "a packet that ends too early"),
    (MQTT_3, b"\x40\x03\x00\x01\x00", "a packet that is too long"),
    (MQTT_5, b"\xd0\x01\x00", "a packet that is too long"),
    (MQTT_5, b"\x90" + b"\x80\x02" + bytes(256), "a packet that is too large"),
    (MQTT_3, b"\x41\x02\x00\x01", "flags that are reserved"),
    (MQTT_3, b"\x20\x02\x00\x00", "a packet that a client at QoS 1 never receives"),
    (MQTT_3, b"\xe0\x00", "a packet that a client at QoS 1 never receives"),
    (MQTT_5, b"\x62\x02\x00\x01", "flags that are reserved"),
    (MQTT_5, b"\x50\x02\x00\x01", "a packet that a client at QoS 1 never receives"),
    (MQTT_5, b"\xf0\x00", "a packet that a client at QoS 1 never receives"),
    (MQTT_3, b"\x30\x04\x00\x01\xff1", "a topic that is not UTF-8"),
    (MQTT_3, b"\x30\x03\x00\x01\x00", "an empty topic, or one with a zero byte"),
    (MQTT_3, b"\x30\x02\x00\x00", "an empty topic, or one with a zero byte"),
    (MQTT_3, b"\x32\x05\x00\x01t\x00\x00", "a packet id of 0"),
    (MQTT_3, b"\x34\x05\x00\x01t\x00\x01", "a message at QoS 2"),
    (MQTT_3, b"\x36\x05\x00\x01t\x00\x01", "a message at QoS 3"),
    (MQTT_3, b"\x38\x03\x00\x01t", "a message at QoS 0 that is sent again"),
    (MQTT_5, b"\x30\x06\x00\x01t\x02\xfe\x00", "a property that MQTT 5 does not have"),
    (MQTT_5, b"\x30\x08\x00\x01t\x04\x01\x00\x01\x00", "a property that occurs twice"),
    (MQTT_5, b"\x30\x05\x00\x01t\x01\x02", "a packet that ends too early"),
    (MQTT_5, b"\x30\x09\x00\x01t\x05\x0b\xff\xff\xff\xff", "a number of more than four bytes"),
]


@pytest.mark.parametrize(("level", "packet", "rule"), BROKEN)
def test_what_the_standard_forbids_is_a_violation(level: int, packet: bytes, rule: str) -> None:
    """It is named by its rule, is the last event, and what came before it counts."""
    protocol = opened(level, publications=1)
    before = broker(level).puback(1)
    assert list(protocol.receive(before + packet + before)) == [Puback(1, 0), Violation(rule)]


CONNACKS: list[tuple[int, bytes, Event]] = [
    (MQTT_3, b"\x20\x02\x01\x00", Connected(session_present=True)),
    (MQTT_3, b"\x20\x02\x00\x05", Refusal(5, "the broker does not authorise this client")),
    (MQTT_3, b"\x20\x02\x00\x7f", Refusal(0x7F, "an unknown reason")),
    (MQTT_3, b"\x20\x02\x02\x00", Violation("flags of CONNACK that are reserved")),
    (MQTT_3, b"\x20\x02\x01\x05", Violation("flags of CONNACK that are reserved")),
    (MQTT_5, b"\x20\x03\x00\x87\x00", Refusal(0x87, "not authorised")),
    (MQTT_5, b"\x20\x02\x00\x84", Refusal(0x84, "the broker does not support this version of MQTT")),
    (MQTT_5, b"\x20\x02\x00\x01", Refusal(0x01, "the broker does not support this version of MQTT")),
    (
        MQTT_5,
        b"\x20\x13\x00\x00\x10\x11\x00\x00\x01\x00\x13\x00\x1e\x21\x00\x0a\x27\x00\x00\x10\x00",
        Connected(
            session_present=False,
            receive_maximum=10,
            session_expiry_s=256,
            keepalive_s=30,
        ),
    ),
    (MQTT_5, b"\x20\x06\x00\x00\x03\x21\x00\x00", Violation("a maximum of 0")),
    (MQTT_3, b"\xd0\x00", Violation("a packet before the answer to CONNECT")),
]


@pytest.mark.parametrize(("level", "packet", "event"), CONNACKS)
def test_the_answer_to_connect(level: int, packet: bytes, event: Event) -> None:
    """What the broker grants is told, what it refuses is told in words, and nothing may come before."""
    assert list(Protocol(level, max_packet_bytes=LIMIT).receive(packet)) == [event]


def test_the_end_that_a_broker_announces() -> None:
    """A DISCONNECT is told with its reason; what follows it is not read."""
    for packet, event in (
        (b"\xe0\x00", Disconnect(0, "normal disconnection")),
        (b"\xe0\x02\x8b\x00", shutting_down),
    ):
        protocol = opened(MQTT_5)
        assert list(protocol.receive(packet + b"\xd0\x00")) == [event]
        assert list(protocol.receive(b"\xd0\x00")) == []


shutting_down = Disconnect(0x8B, "the broker is shutting down")


# Packet ids ---------------------------------------------------------------------------------------


@LEVELS
def test_an_answer_is_to_what_was_asked(level: int) -> None:
    """Answers free the ids they name; an answer to nothing, or of another kind, is ignored."""
    wire, protocol = broker(level), opened(level, publications=2)
    assert protocol.encode_subscribe("a/+")[0] == 3
    refused = wire.puback(2, 0x97) if level == MQTT_5 else wire.puback(2)
    answers = list(protocol.receive(wire.puback(3) + wire.suback(1, 1) + wire.puback(9) + refused))
    assert answers == [Puback(2, 0x97 if level == MQTT_5 else 0)]
    assert list(protocol.receive(wire.suback(3, 0x80) + wire.suback(3, 1))) == [Suback(3, 0x80)]
    assert list(protocol.receive(wire.puback(1) + wire.puback(1))) == [Puback(1, 0)]


@LEVELS
def test_an_unsubscription_is_answered(level: int) -> None:
    """An UNSUBACK, which carries a reason over MQTT 5 only, frees its id and is nothing to report."""
    wire, protocol = broker(level), opened(level)
    protocol.encode_unsubscribe("a/+")
    reasons = b"\0\0" if level == MQTT_5 else b""
    answer = bytes((0xB0, 2 + len(reasons), 0, 1)) + reasons
    assert list(protocol.receive(answer + answer + wire.puback(1))) == []
    protocol._last_id = 0
    assert protocol.encode_publish("t", b"", retain=False)[0] == 1
    assert list(protocol.receive(answer + wire.puback(1))) == [Puback(1, 0)]


@LEVELS
def test_ids_go_round_and_none_is_used_twice(level: int) -> None:
    """The id after 65,535 is 1; those in use are left out; when all are there are no more."""
    wire, protocol = broker(level), opened(level)
    used = [protocol.encode_publish("t", b"", retain=False)[0] for _ in range(65_535)]
    assert used == list(range(1, 65_536))
    with pytest.raises(TooManyRequests):
        protocol.encode_subscribe("t")
    for packet_id in (7, 3):
        list(protocol.receive(wire.puback(packet_id)))
    assert [protocol.encode_publish("t", b"", retain=False)[0] for _ in range(2)] == [3, 7]


def test_no_more_is_published_than_the_broker_takes() -> None:
    """Receive Maximum bounds the publications that are unanswered; subscriptions do not count."""
    wire, protocol = broker(MQTT_5), opened(MQTT_5, properties=b"\x21\x00\x02", publications=2)
    protocol.encode_subscribe("t")
    with pytest.raises(TooManyRequests):
        protocol.encode_publish("t", b"", retain=False)
    list(protocol.receive(wire.puback(1)))
    assert protocol.encode_publish("t", b"", retain=False)[0] == 4
