"""Packets that are read past gmqtt are what gmqtt would have made of them: meteragent.mqtt.reader."""

import asyncio
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from gmqtt.mqtt.connection import MQTTConnection
from gmqtt.mqtt.protocol import MQTTProtocol
from hypothesis import given
from hypothesis import strategies as st

from meteragent.mqtt.client import Client, Events
from meteragent.mqtt.reader import Reader
from tests.mqtt_peer import turns

MQTT_3, MQTT_5 = 4, 5
Event = tuple[Any, ...]


class _Transport:
    """A connection that takes everything."""

    def is_closing(self) -> bool:
        """Never."""
        return False

    def write(self, packet: bytes) -> None:
        """Take it."""

    abort = close = lambda _: None


def events(level: int, chunks: list[bytes], *, fast: bool, **given: Any) -> list[Event]:
    """What a client reports of what comes in; it has sent publications 1 to 5."""

    async def run() -> list[Event]:
        found: list[Event] = []

        def note(name: str) -> Callable[..., None]:
            return lambda *arguments: found.append((name, *arguments))

        names = ("refused", "accepted", "message", "puback", "suback", "lost", "unreadable")
        known = Events(**{name: note(name) for name in names} | given)
        client = Client(
            "id", known, receive_maximum=9, session_expiry_s=0, username=None, password=None, will=None
        )
        private = client._private
        handler, transport = private._handler, _Transport()
        handler._connection_state.protocol_version = level
        protocol = MQTTProtocol(connection_state=handler._connection_state, id_generator=handler.id_generator)
        connection = MQTTConnection(transport, protocol, True, 60, handler)
        private._client._connection, protocol._transport = connection, transport
        if fast:
            private.replace_reader(properties=level == MQTT_5)
        for _ in range(5):
            private.next_id()
        buffer = b""
        for chunk in chunks:  # as gmqtt's loop
            buffer += chunk
            taken = protocol._read_packet(buffer)
            if taken < 0:
                found.append(("no packet",))
                break
            buffer = buffer[taken:]
        connection._keep_connection_callback.cancel()
        await turns(1)
        return [*found, ("rest", buffer), ("ids", sorted(handler.id_generator._used_ids))]

    return asyncio.run(run())


def length(size: int) -> bytes:
    """As MQTT writes it."""
    found = b""
    while size > 127:
        found, size = found + bytes([size & 127 | 128]), size >> 7
    return found + bytes([size])


def packet(first: int, body: bytes) -> bytes:
    """A packet with its length."""
    return bytes([first]) + length(len(body)) + body


topics = st.sampled_from([b"meters/m1/power", b"t", b"", b"\xff", "é/ü".encode(), b"t" * 120])
properties = st.sampled_from([b"\0", b"\0", b"\0", b"\x02\x01\x01", b"\x03\x23\0\x07", b"\x05\x02\0\0\0\x09"])
payloads = st.binary(max_size=20) | st.sampled_from([bytes(118), bytes(200), bytes(16_400)])
firsts = st.sampled_from([0x30, 0x31, 0x32, 0x33, 0x3A, 0x3B, 0x38, 0x39, 0x34, 0x36])


@st.composite
def publishes(draw: st.DrawFn) -> bytes:
    """A PUBLISH, also one that is not as it should be."""
    first, topic = draw(firsts), draw(topics)
    body = len(topic).to_bytes(2) + topic
    if first & 6:
        body += draw(st.sampled_from([1, 2, 7, 300, 65_535, 0])).to_bytes(2)
    body += draw(properties) + draw(payloads)
    return packet(first, body[: draw(st.integers(0, len(body)))] if draw(st.integers(0, 9)) == 0 else body)


pubacks = st.builds(
    lambda number, rest: packet(0x40, number.to_bytes(2) + rest),
    st.integers(0, 9),
    st.sampled_from([b"", b"", b"\0", b"\x10", b"\x97", b"\x87\0", b"\0\x06\x1f\0\x03why"]),
)
others = st.sampled_from(
    [b"\xd0\0", b"\x40\1\5", b"\x40\0", b"\x90\4\0\1\0\1", b"\x90\3\0\1\1", b"\xf0\0", b"\x00\0"]
)


@given(
    st.sampled_from([MQTT_3, MQTT_5]),
    st.lists(publishes() | publishes() | pubacks | others, max_size=12),
    st.lists(st.integers(0, 400), max_size=8),
    st.booleans(),
)
def test_what_is_read_is_what_gmqtt_reads(
    level: int, packets: list[bytes], cuts: list[int], torn: bool
) -> None:
    """The same messages, answers, complaints, rests and free ids, however the stream is cut into pieces."""
    stream = b"".join(packets)
    stream = stream[: len(stream) * 2 // 3] if torn else stream
    places = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    chunks = [stream[a:b] for a, b in pairwise(places)]
    assert events(level, chunks, fast=True) == events(level, chunks, fast=False)


ODD = {
    "properties": packet(0x32, b"\0\1t\0\1\x02\x01\x01payload"),
    "a topic alias": packet(0x32, b"\0\1t\0\1\x03\x23\0\x07payload")
    + packet(0x32, b"\0\0\0\1\x03\x23\0\x07p"),
    "no packet id": packet(0x32, b"\0\1t\0\0\0payload"),
    "half a packet id": packet(0x32, b"\0\1t\0"),
    "a topic that is longer": packet(0x30, b"\0\x7ft\0"),
    "no properties where they must be": packet(0x30, b"\0\1t"),
    "half a topic's length": packet(0x30, b"\0"),
    "no topic": packet(0x30, b"\0\0\0payload"),
    "a topic that is no text": packet(0x33, b"\0\1\xff\0\1\0payload"),
    "QoS 2": packet(0x34, b"\0\1t\0\1\0payload"),
    "a repeated one": packet(0x3B, b"\0\1t\0\1\0payload"),
    "one that says QoS 0 and repeated": packet(0x38, b"\0\1t\0payload"),
    "one of 16 kB": packet(0x30, b"\0\1t\0" + bytes(16_384)),
    "an answer without a reason": packet(0x40, b"\0\2"),
    "an answer with one": packet(0x40, b"\0\2\x97\x03why"),
    "half an answer": packet(0x40, b"\0"),
    "a length in five bytes": b"\x30\xff\xff\xff\xff\x01",
}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("level", [MQTT_3, MQTT_5])
def test_what_is_odd_is_what_gmqtt_makes_of_it(level: int, name: str) -> None:
    """Before, between and behind packets that are not."""
    plain = packet(0x32, b"\0\1t\0\5" + (b"\0" if level == MQTT_5 else b"") + b"payload")
    chunks = [plain + ODD[name] + plain]
    assert events(level, chunks, fast=True) == events(level, chunks, fast=False)


def test_what_comes_by_the_thousand_does_not_pass_gmqtt() -> None:
    """A publication and an answer, whole and without properties, are read here."""
    seen: list[Event] = []

    def nothing(_: bytes) -> int:
        raise AssertionError

    reader = Reader(nothing, lambda *m: seen.append(m), lambda *a: seen.append(a), properties=True)
    stream = packet(0x33, b"\0\1t\0\7\0payload") + packet(0x30, b"\0\1t\0" + bytes(200)) + b"\x40\2\0\5"
    assert reader.read(stream + b"\x40\2\0") == len(stream)
    assert seen == [("t", b"payload", 1, True, 7, False), ("t", bytes(200), 0, False, 0, False), (5, 0)]


def test_a_callback_that_raises_is_told_as_gmqtt_tells_it() -> None:
    """What gmqtt would swallow, and only log, is heard: `unreadable`, and nothing is read after it."""
    found = events(MQTT_5, [packet(0x30, b"\0\1t\0") * 2], fast=True, message=_raise)
    assert found[:2] == [("unreadable",), ("no packet",)]


def _raise(*_: object) -> None:
    raise RuntimeError
