"""The broker's side of MQTT: the packets of clients are parsed, and the packets of brokers are built.

It is written from the standards (3.1.1 and 5.0; the numbers of sections are those of 5.0), independently of
`meteragent.mqtt`, whose client it serves. It uses neither sockets nor clocks.
"""

from typing import NamedTuple

MQTT_3, MQTT_5 = 4, 5
UNAVAILABLE = {MQTT_3: 3, MQTT_5: 0x88}
UNSUPPORTED = {MQTT_3: 1, MQTT_5: 0x84}
"""Reason codes of CONNACK by version: the broker is unavailable, or does not support the version."""
QUOTA_EXCEEDED = 0x97
PINGRESP = b"\xd0\x00"

_SIZES = {0x11: 4, 0x21: 2, 0x27: 4, 0x13: 2}
"""The sizes in bytes of the properties in use: session expiry, receive maximum, packet size, server keep
alive."""


class Malformed(Exception):
    """The error for a packet that breaks the standard or that the agent has no reason to send.

    The agent sends no wills and no credentials, and publishes and subscribes at QoS 1 only.
    """


class Connect(NamedTuple):
    """CONNECT (3.1).

    `expiry_s` is None with MQTT 3.1.1. `receive_maximum` is None if the client sets none.
    """

    level: int
    client_id: str
    clean: bool
    keepalive_s: int
    expiry_s: int | None
    receive_maximum: int | None


class Publish(NamedTuple):
    """PUBLISH (3.3) at QoS 1."""

    packet_id: int
    topic: str
    payload: bytes
    retain: bool


class Puback(NamedTuple):
    """PUBACK (3.4)."""

    packet_id: int


class Subscribe(NamedTuple):
    """SUBSCRIBE (3.8) to one filter at QoS 1."""

    packet_id: int
    topic_filter: str


class Unsubscribe(NamedTuple):
    """UNSUBSCRIBE (3.10) from one filter."""

    packet_id: int
    topic_filter: str


class Ping(NamedTuple):
    """PINGREQ (3.12)."""


class Disconnect(NamedTuple):
    """DISCONNECT (3.14)."""


Packet = Connect | Publish | Puback | Subscribe | Unsubscribe | Ping | Disconnect


class Reader:
    """A reader of one connection's packets, which arrive in pieces of any size."""

    def __init__(self) -> None:
        self._buffer = b""
        self._level = 0

    def read(self, data: bytes) -> list[tuple[Packet, int]]:
        """Return the packets that end in `data`, each with the position of its end in `data`.

        Raises Malformed if the agent must not send one of them.
        """
        buffered_bytes, data = len(self._buffer), self._buffer + data
        packets: list[tuple[Packet, int]] = []
        begin_of_packet = 0
        while (fields := _header(data, begin_of_packet)) is not None and fields[1] <= len(data):
            begin, end = fields
            packets.append(
                (self._packet(data[begin_of_packet], _Fields(data[begin:end])), end - buffered_bytes)
            )
            begin_of_packet = end
        self._buffer = data[begin_of_packet:]
        return packets

    def _packet(self, first_byte: int, fields: "_Fields") -> Packet:
        try:
            packet = self._parse(first_byte, fields)
        except (IndexError, KeyError, UnicodeDecodeError) as error:
            raise Malformed("a packet that ends too early, or a text that is not UTF-8") from error
        if fields.remaining:
            raise Malformed("a packet that is too long")
        if isinstance(packet, Connect) == bool(self._level):
            raise Malformed("CONNECT is not the first packet, or comes twice")
        self._level = packet.level if isinstance(packet, Connect) else self._level
        return packet

    def _parse(self, first_byte: int, fields: "_Fields") -> Packet:
        match first_byte:
            case 0x10:
                return _connect(fields)
            case 0x32 | 0x33:
                topic, packet_id = fields.text(), _packet_id(fields)
                self._skip_properties(fields)
                return Publish(packet_id, topic, fields.take(fields.remaining), bool(first_byte & 1))
            case 0x40:
                return Puback(_packet_id(fields))
            case 0x82 | 0xA2:
                packet_id = _packet_id(fields)
                self._skip_properties(fields)
                topic_filter = fields.text()
                if first_byte == 0x82 and fields.integer(1) != 1:
                    raise Malformed("a subscription at a QoS other than 1")
                return (Subscribe if first_byte == 0x82 else Unsubscribe)(packet_id, topic_filter)
            case 0xC0:
                return Ping()
            case 0xE0:
                fields.take(fields.remaining if self._level == MQTT_5 else 0)
                return Disconnect()
        raise Malformed(f"a packet that begins with 0x{first_byte:02x}")

    def _skip_properties(self, fields: "_Fields") -> None:
        if self._level == MQTT_5:
            fields.take(fields.number())


class _Fields:
    """The fields of one packet, in order. Its methods raise IndexError beyond the end of the packet."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    @property
    def remaining(self) -> int:
        """The number of bytes not yet taken."""
        return len(self._data)

    def take(self, size: int) -> bytes:
        """Return the next `size` bytes. Raises IndexError if there are fewer."""
        if size > len(self._data):
            raise IndexError
        head, self._data = self._data[:size], self._data[size:]
        return head

    def integer(self, size: int) -> int:
        """Return the next `size` bytes as an integer, most significant byte first (1.5.2)."""
        return int.from_bytes(self.take(size))

    def text(self) -> str:
        """Return the next string, which begins with its length in two bytes (1.5.4)."""
        return self.take(self.integer(2)).decode()

    def number(self) -> int:
        """Return the next variable byte integer (1.5.5)."""
        digits = [self.integer(1)]
        while digits[-1] > 0x7F:
            digits.append(self.integer(1))
        return sum((digit & 0x7F) << 7 * place for place, digit in enumerate(digits))


def _header(data: bytes, offset: int) -> tuple[int, int] | None:
    """Return the beginning and the end of a packet's fields, or None while its header is incomplete (2.1)."""
    value = 0
    for place, digit in enumerate(data[offset + 1 : offset + 5]):
        value |= (digit & 0x7F) << 7 * place
        if digit < 0x80:
            begin = offset + 2 + place
            return begin, begin + value
    return None


def _packet_id(fields: _Fields) -> int:
    packet_id = fields.integer(2)
    if not packet_id:
        raise Malformed("a packet id of 0")
    return packet_id


def _connect(fields: _Fields) -> Connect:
    if fields.text() != "MQTT":
        raise Malformed("a protocol other than MQTT")
    level, flags, keepalive_s = fields.integer(1), fields.integer(1), fields.integer(2)
    properties: dict[int, int] = {}
    if level == MQTT_5:
        property_fields = _Fields(fields.take(fields.number()))
        while property_fields.remaining:
            identifier = property_fields.integer(1)
            properties[identifier] = property_fields.integer(_SIZES[identifier])
    if flags & ~0x02:
        raise Malformed("a will or credentials that are not configured")
    client_id = fields.text()
    expiry_s = properties.get(0x11, 0) if level == MQTT_5 else None
    return Connect(level, client_id, bool(flags & 2), keepalive_s, expiry_s, properties.get(0x21))


# Packets of the broker ----------------------------------------------------------------------------


def connack(
    level: int, reason: int, *, is_present: bool = False, properties: dict[int, int] | None = None
) -> bytes:
    """Return a CONNACK (3.2)."""
    granted = b"".join(
        bytes((name,)) + value.to_bytes(_SIZES[name]) for name, value in (properties or {}).items()
    )
    return _packet(0x20, bytes((is_present, reason)), _properties(level, granted))


def publish(level: int, packet_id: int, topic: str, payload: bytes, flags: int) -> bytes:
    """Return a PUBLISH (3.3), at QoS 0 if `packet_id` is 0. In `flags`, 1 is RETAIN and 8 is DUP."""
    name = topic.encode()
    number = packet_id.to_bytes(2) if packet_id else b""
    first_byte = 0x30 | flags | (2 if packet_id else 0)
    return _packet(first_byte, len(name).to_bytes(2), name, number, _properties(level, b""), payload)


def puback(packet_id: int, reason: int = 0) -> bytes:
    """Return a PUBACK (3.4). Only MQTT 5 allows a reason code other than 0."""
    return _packet(0x40, packet_id.to_bytes(2), bytes((reason,)) if reason else b"")


def suback(level: int, packet_id: int) -> bytes:
    """Return a SUBACK (3.9) that grants QoS 1."""
    return _packet(0x90, packet_id.to_bytes(2), _properties(level, b""), b"\1")


def unsuback(level: int, packet_id: int) -> bytes:
    """Return an UNSUBACK (3.11), in which only MQTT 5 has properties and a reason code."""
    return _packet(0xB0, packet_id.to_bytes(2), _properties(level, b"") and b"\0\0")


def _properties(level: int, properties: bytes) -> bytes:
    return bytes((len(properties),)) + properties if level == MQTT_5 else b""


def _packet(first_byte: int, *parts: bytes) -> bytes:
    body = b"".join(parts)
    size, length = len(body), bytearray()
    while size > 0x7F:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    length.append(size)
    return bytes((first_byte,)) + bytes(length) + body
