"""MQTT 3.1.1 and MQTT 5 packets as bytes: encoders for a client's packets, and a reader of fields.

Section numbers are those of the OASIS standard 5.0 (2019-03-07) or, where noted, of 3.1.1 (2014-10-29).
"""

import struct
from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache
from typing import Final, NamedTuple

MQTT_3: Final = 4
MQTT_5: Final = 5
"""Protocol levels in CONNECT (3.1.2.2)."""
LAST_ID: Final = 65_535
"""The largest packet id (2.2.1), and so the largest number of messages without an acknowledgement."""

_SHORT: Final = struct.Struct("!H")
_PUBACK: Final = struct.Struct("!BBH").pack
_DIGIT, _MORE = 0x7F, 0x80
_NUMBERS: Final = 2048
"""The number of variable byte integers that are cached, because packet lengths repeat."""


class Kind(IntEnum):
    """A type of packet that this client uses: the first byte without its flags (2.1.2)."""

    CONNECT = 0x10
    CONNACK = 0x20
    PUBLISH = 0x30
    PUBACK = 0x40
    SUBSCRIBE = 0x80
    SUBACK = 0x90
    UNSUBSCRIBE = 0xA0
    UNSUBACK = 0xB0
    PINGREQ = 0xC0
    PINGRESP = 0xD0
    DISCONNECT = 0xE0


class Malformed(Exception):
    """A packet that the standard forbids; the text names the rule and contains no part of the packet."""


class Will(NamedTuple):
    """A last will, which the broker publishes when a connection has ended, at QoS 1."""

    topic: str
    payload: bytes
    retain: bool = True


@dataclass(frozen=True, slots=True)
class Connect:
    """The requests in a CONNECT; an expiry of 0 keeps no session; `receive_maximum` is for MQTT 5 only."""

    client_id: str
    session_expiry_s: int
    receive_maximum: int
    keepalive_s: int
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    will: Will | None = None


# Packets to write ---------------------------------------------------------------------------------

PINGREQ: Final = bytes((Kind.PINGREQ, 0))


def encode_connect(level: int, request: Connect, properties: bytes = b"") -> bytes:
    """Return a CONNECT (3.1); `properties` are the encoded properties of MQTT 5, without their length."""
    will, login = request.will, (request.username, request.password)
    flags = 0x80 * (login[0] is not None) | 0x40 * (login[1] is not None)
    flags |= 0x02 * (request.session_expiry_s == 0)
    parts = [
        _encode_text("MQTT"),
        bytes((level, flags | (0x0C | will.retain << 5 if will else 0))),
        _SHORT.pack(request.keepalive_s),
    ]
    if level == MQTT_5:
        parts += [encode_number(len(properties)), properties]
    parts.append(_encode_text(request.client_id))
    if will:
        parts += [b"\0"] if level == MQTT_5 else []
        parts += [_encode_text(will.topic), _SHORT.pack(len(will.payload)), will.payload]
    parts += [_encode_text(text) for text in login if text is not None]
    return _encode_packet(Kind.CONNECT, *parts)


def encode_subscribe(level: int, packet_id: int, topic_filter: str) -> bytes:
    """Return a SUBSCRIBE to one filter at QoS 1 (3.8)."""
    parts = _SHORT.pack(packet_id), _no_properties(level), _encode_text(topic_filter), b"\x01"
    return _encode_packet(Kind.SUBSCRIBE | 0x02, *parts)


def encode_unsubscribe(level: int, packet_id: int, topic_filter: str) -> bytes:
    """Return an UNSUBSCRIBE from one filter (3.10)."""
    parts = _SHORT.pack(packet_id), _no_properties(level), _encode_text(topic_filter)
    return _encode_packet(Kind.UNSUBSCRIBE | 0x02, *parts)


_PUBLISH: Final = bytes((Kind.PUBLISH | 0x02,))
_PUBLISH_RETAINED: Final = bytes((Kind.PUBLISH | 0x03,))


def encode_publish(level: int, packet_id: int, topic: str, payload: bytes, *, retain: bool) -> bytes:
    """Return a PUBLISH at QoS 1 (3.3)."""
    fields = _encode_text(topic) + _SHORT.pack(packet_id) + _no_properties(level)
    first_byte = _PUBLISH_RETAINED if retain else _PUBLISH
    return first_byte + encode_number(len(fields) + len(payload)) + fields + payload


def encode_puback(packet_id: int) -> bytes:
    """Return a PUBACK without a reason code, which means success (3.4)."""
    return _PUBACK(Kind.PUBACK, 2, packet_id)


def encode_disconnect(level: int, reason: int = 0) -> bytes:
    """Return a DISCONNECT (3.14), which has a reason only in MQTT 5."""
    return _encode_packet(Kind.DISCONNECT, bytes((reason,)) if reason and level == MQTT_5 else b"")


@lru_cache(_NUMBERS)
def encode_number(value: int) -> bytes:
    """Encode a number as a variable byte integer (1.5.5)."""
    digits = bytearray()
    while value > _DIGIT:
        digits.append(value & _DIGIT | _MORE)
        value >>= 7
    digits.append(value)
    return bytes(digits)


def _encode_text(text: str) -> bytes:
    """Encode a string in UTF-8, preceded by its length (1.5.4)."""
    data = text.encode()
    return _SHORT.pack(len(data)) + data


def _no_properties(level: int) -> bytes:
    return b"\0" if level == MQTT_5 else b""


def _encode_packet(first_byte: int, *parts: bytes) -> bytes:
    return b"".join((bytes((first_byte,)), encode_number(sum(map(len, parts))), *parts))


# Packets to read ----------------------------------------------------------------------------------


def field_bounds(data: bytes, offset: int) -> tuple[int, int] | None:
    """Return where a packet's fields begin and end (2.1.1); None if its header is incomplete."""
    if len(data) > offset + 1 and data[offset + 1] < _MORE:
        return offset + 2, offset + 2 + data[offset + 1]
    value, shift = 0, 0
    for position in range(offset + 1, min(offset + 5, len(data))):
        digit = data[position]
        value |= (digit & _DIGIT) << shift
        if digit < _MORE:
            return position + 1, position + 1 + value
        shift += 7
    if len(data) > offset + 4:
        raise Malformed("a remaining length of more than four bytes")
    return None


_FIXED: Final = {
    **dict.fromkeys((0x01, 0x17, 0x19, 0x24, 0x25, 0x28, 0x29, 0x2A), 1),
    **dict.fromkeys((0x13, 0x21, 0x22, 0x23), 2),
    **dict.fromkeys((0x02, 0x11, 0x18, 0x27), 4),
}
"""The size in bytes of each property that is a number of fixed size, by identifier (2.2.2.2)."""
_TEXTS: Final = {0x03: 1, 0x08: 1, 0x09: 1, 0x12: 1, 0x15: 1, 0x16: 1, 0x1A: 1, 0x1C: 1, 0x1F: 1, 0x26: 2}
"""The number of values in each property of strings or binary data, by identifier."""
_SUBSCRIPTION_IDENTIFIER: Final = 0x0B
_REPEATABLE: Final = (_SUBSCRIPTION_IDENTIFIER, 0x26)

Properties = dict[int, int]
"""The values of properties by identifier: a number, or the total length of strings and binary data.

A repeated property has the value of its last occurrence.
"""


class Cursor:
    """A reader of the fields of one packet, which raises Malformed if a field extends beyond `end`."""

    __slots__ = ("data", "end", "offset")

    def __init__(self, data: bytes, begin: int, end: int) -> None:
        self.data = data
        self.offset = begin
        self.end = end

    @property
    def remaining_bytes(self) -> int:
        """The number of bytes not yet read."""
        return self.end - self.offset

    def read_bytes(self, size: int) -> bytes:
        """Read and return `size` bytes."""
        if self.offset + size > self.end:
            raise Malformed("a packet that ends too early")
        self.offset += size
        return self.data[self.offset - size : self.offset]

    def read_integer(self, size: int) -> int:
        """Read and return an integer of `size` bytes."""
        return int.from_bytes(self.read_bytes(size), "big")

    def read_text(self) -> bytes:
        """Read and return a string or binary data, which is prefixed with its length."""
        return self.read_bytes(self.read_integer(2))

    def read_number(self) -> int:
        """Read and return a variable byte integer."""
        value = 0
        for shift in (0, 7, 14, 21):
            digit = self.read_integer(1)
            value |= (digit & _DIGIT) << shift
            if digit < _MORE:
                return value
        raise Malformed("a number of more than four bytes")

    def read_properties(self) -> Properties:
        """Read and return the properties, which are prefixed with their length (2.2.2)."""
        values: Properties = {}
        size = self.read_number()
        self.read_bytes(size)
        cursor = Cursor(self.data, self.offset - size, self.offset)
        while cursor.remaining_bytes:
            identifier = cursor.read_number()
            if identifier in values and identifier not in _REPEATABLE:
                raise Malformed("a property that occurs twice")
            if identifier in _FIXED:
                values[identifier] = cursor.read_integer(_FIXED[identifier])
            elif identifier == _SUBSCRIPTION_IDENTIFIER:
                values[identifier] = cursor.read_number()
            elif identifier in _TEXTS:
                values[identifier] = sum(len(cursor.read_text()) for _ in range(_TEXTS[identifier]))
            else:
                raise Malformed("a property that MQTT 5 does not have")
        return values

    def check_end(self) -> None:
        """Check that no bytes follow the last field."""
        if self.remaining_bytes:
            raise Malformed("a packet that is too long")


# Reasons ------------------------------------------------------------------------------------------

_RETURN_CODES: Final = {
    1: "the broker does not support this version of MQTT",
    2: "the broker does not accept the client id",
    3: "the broker is not available",
    4: "the user name or the password is malformed",
    5: "the broker does not authorise this client",
    0x80: "the broker gives no reason",
}
"""The meaning of MQTT 3.1.1's return codes (3.1.1, sections 3.2.2.3 and 3.9.3)."""
_REASONS: Final = {
    0x00: "normal disconnection",
    0x01: "the broker does not support this version of MQTT",  # the reply of an older broker
    0x80: "unspecified error",
    0x81: "malformed packet",
    0x82: "protocol error",
    0x83: "implementation specific error",
    0x84: "the broker does not support this version of MQTT",
    0x85: "the broker does not accept the client id",
    0x86: "bad user name or password",
    0x87: "not authorised",
    0x88: "the broker is not available",
    0x89: "the broker is busy",
    0x8A: "banned",
    0x8B: "the broker is shutting down",
    0x8C: "bad authentication method",
    0x8D: "keep alive timeout",
    0x8E: "another client has this client id",
    0x8F: "topic filter invalid",
    0x90: "topic name invalid",
    0x93: "receive maximum exceeded",
    0x94: "topic alias invalid",
    0x95: "packet too large",
    0x96: "message rate too high",
    0x97: "quota exceeded",
    0x98: "administrative action",
    0x99: "payload format invalid",
    0x9A: "the broker does not support retained messages",
    0x9B: "the broker does not support this QoS",
    0x9C: "use another server",
    0x9D: "server moved",
    0x9E: "the broker does not support shared subscriptions",
    0x9F: "connection rate exceeded",
    0xA0: "maximum connect time",
    0xA1: "the broker does not support subscription identifiers",
    0xA2: "the broker does not support wildcard subscriptions",
}
"""The meaning of MQTT 5's reason codes for a connection (3.2.2.2, 3.14.2.1)."""


def reason_text(level: int, reason: int) -> str:
    """Return the meaning of a code in a CONNACK, SUBACK or DISCONNECT; a general text if it is not listed."""
    return (_RETURN_CODES if level == MQTT_3 else _REASONS).get(reason, "an unknown reason")
