"""The client's side of one MQTT connection, without I/O: it turns bytes into events and requests into bytes.

Theory of operation
    This module has neither a socket nor a clock. `receive` takes bytes from the network, in pieces of any
    size, and yields events; the other methods return bytes to write. `session` decides when to acknowledge.
    Whole packets are read from the piece in which they arrive (`_read_packets`). The remainder of a piece is
    kept in `_pieces`; further pieces are merely appended until all bytes for the next step have arrived. Most
    PUBLISH and PUBACK packets are read in place, all other packets through a `Cursor`.

    A SUBSCRIBE, UNSUBSCRIBE or PUBLISH takes the next free packet id, under which the kind of its answer is
    noted (`_answers`); the answer frees the id. An answer that matches no request is ignored.

Rules
    1. A packet that is malformed or unexpected yields a `Violation`, the last event of its connection. The
       event names the rule and contains no part of the packet, which may hold a reading.
    2. A PUBLISH of more than `max_packet_bytes` yields an `Oversized` as soon as its packet id has arrived.
       The remainder is skipped as it arrives. Only in MQTT 5 is the limit sent to the broker.
    3. Pieces are joined only when the bytes for the next step are complete, however small the pieces are.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from meteragent.domain.errors import LinkError
from meteragent.mqtt import packets
from meteragent.mqtt.packets import LAST_ID, MQTT_5, Connect, Cursor, Kind, Malformed

MAX_PACKET_BYTES: Final = 4 * 2**20
"""The size of the largest packet that is read; a larger message is skipped."""
REFUSED: Final = 0x80
"""The smallest reason code of a refusal."""

TLS_ANSWER: Final = "an answer in TLS"
"""The `rule` of the Violation if the port speaks only TLS."""

_SESSION_EXPIRY, _SERVER_KEEP_ALIVE, _RECEIVE_MAXIMUM, _MAXIMUM_PACKET = 0x11, 0x13, 0x21, 0x27
_MAXIMUM_QOS, _RETAIN_AVAILABLE = 0x24, 0x25
_TLS_ALERT = 0x15
_UNLIMITED, _UNLIMITED_BYTES = 65_535, 2**32 - 1
_PUBLISH, _PUBACK = int(Kind.PUBLISH), int(Kind.PUBACK)  # plain integers compare three times as fast


class Connected(NamedTuple):
    """A CONNACK that accepts; None means as requested. MQTT 3.1.1 cannot deny QoS 1 or retained messages."""

    session_present: bool
    receive_maximum: int = _UNLIMITED
    session_expiry_s: int | None = None
    keepalive_s: int | None = None
    has_qos_1: bool = True
    retains: bool = True


class Refusal(NamedTuple):
    """A CONNACK that refuses the connection, with the reason code and its meaning."""

    reason: int
    text: str


class Message(NamedTuple):
    """A PUBLISH; `packet_id` is 0 at QoS 0; `duplicate` is True if the broker has sent the message before."""

    topic: str
    payload: bytes
    qos: int
    retain: bool
    packet_id: int
    duplicate: bool


class Oversized(NamedTuple):
    """A PUBLISH that is skipped because it is too large; `packet_id` is 0 at QoS 0."""

    packet_id: int
    size_bytes: int


class Puback(NamedTuple):
    """A PUBACK for one of this client's publications."""

    packet_id: int
    reason: int


class Suback(NamedTuple):
    """A SUBACK, with the granted QoS or a reason code of 0x80 or above."""

    packet_id: int
    reason: int


class Disconnect(NamedTuple):
    """A DISCONNECT from an MQTT 5 broker."""

    reason: int
    text: str


class Violation(NamedTuple):
    """A violation of the protocol by the broker."""

    rule: str


Event = Connected | Refusal | Message | Oversized | Puback | Suback | Disconnect | Violation


class TooManyRequests(LinkError):
    """More unanswered requests than the broker accepts, or than there are packet ids."""


class Protocol:
    """The client's side of one connection, from CONNECT onwards."""

    def __init__(self, level: int, *, max_packet_bytes: int) -> None:
        """Prepare for CONNECT; `level` is 5, or 4 for MQTT 3.1.1."""
        self.level = level
        self._max_packet_bytes = max_packet_bytes
        self._accepted = False
        self._finished = False
        self._pieces: list[bytes] = []
        self._buffered_bytes = 0
        self._needed_bytes = 2
        self._bytes_to_skip = 0
        self._answers: dict[int, Kind] = {}
        self._unanswered_count = 0
        self._receive_maximum = _UNLIMITED
        self._publish_max_bytes = _UNLIMITED_BYTES
        self._last_id = 0

    # --- packets to write ----------------------------------------------------------------------

    def encode_connect(self, request: Connect) -> bytes:
        """Return a CONNECT, which states this client's limits only in MQTT 5."""
        limits = (
            (_SESSION_EXPIRY, request.session_expiry_s, 4),
            (_RECEIVE_MAXIMUM, request.receive_maximum, 2),
            (_MAXIMUM_PACKET, self._max_packet_bytes, 4),
        )
        properties = [bytes((id_,)) + value.to_bytes(size, "big") for id_, value, size in limits]
        return packets.encode_connect(self.level, request, b"".join(properties))

    def encode_subscribe(self, topic_filter: str) -> tuple[int, bytes]:
        """Return a packet id and a SUBSCRIBE that requests QoS 1."""
        packet_id = self._take_id(Kind.SUBACK)
        return packet_id, packets.encode_subscribe(self.level, packet_id, topic_filter)

    def encode_unsubscribe(self, topic_filter: str) -> bytes:
        """Return an UNSUBSCRIBE."""
        return packets.encode_unsubscribe(self.level, self._take_id(Kind.UNSUBACK), topic_filter)

    def encode_publish(self, topic: str, payload: bytes, *, retain: bool) -> tuple[int, bytes]:
        """Return a packet id and a PUBLISH at QoS 1. Raises TooManyRequests, or LinkError if too large."""
        if self._unanswered_count >= self._receive_maximum:
            raise TooManyRequests("the broker accepts no more unanswered publications")
        packet_id = self._take_id(Kind.PUBACK)
        packet = packets.encode_publish(self.level, packet_id, topic, payload, retain=retain)
        if len(packet) > self._publish_max_bytes:
            del self._answers[packet_id]
            raise LinkError(f"the broker accepts packets of at most {self._publish_max_bytes} bytes")
        self._unanswered_count += 1
        return packet_id, packet

    def _take_id(self, answer: Kind) -> int:
        """Return the next free packet id, in use until its answer arrives. May raise TooManyRequests."""
        if len(self._answers) == LAST_ID:
            raise TooManyRequests("no packet id is free")
        while True:
            self._last_id = self._last_id % LAST_ID + 1
            if self._last_id not in self._answers:
                self._answers[self._last_id] = answer
                return self._last_id

    # --- packets to read -----------------------------------------------------------------------

    @property
    def is_skipping(self) -> bool:
        """Whether the rest of an oversized packet has yet to arrive."""
        return self._bytes_to_skip > 0

    def receive(self, data: bytes) -> Iterator[Event]:
        """Yield the events in the next bytes; after a Violation or Disconnect, all bytes are ignored."""
        if self._finished:
            return
        if self._bytes_to_skip:
            data, self._bytes_to_skip = data[self._bytes_to_skip :], max(self._bytes_to_skip - len(data), 0)
        if self._pieces:
            self._pieces.append(data)
            self._buffered_bytes += len(data)
            if self._buffered_bytes < self._needed_bytes:
                return
            data = b"".join(self._pieces)
            self._pieces.clear()
        try:
            yield from self._read_packets(data)
        except Malformed as error:
            self._finished = True
            yield Violation(str(error))

    def _read_packets(self, data: bytes) -> Iterator[Event]:
        """Yield the events of complete and of oversized packets, and keep the remaining data."""
        offset = 0
        while (fields := packets.field_bounds(data, offset)) is not None:
            begin, end = fields
            if end - offset > self._max_packet_bytes:
                oversized = self._read_oversized(data, offset, begin, end)
                if oversized is None:
                    break
                yield oversized
                self._bytes_to_skip = max(end - len(data), 0)
            elif end > len(data):
                self._needed_bytes = end - offset
                break
            else:
                event = self._read_packet(data[offset], data, begin, end)
                if event is not None:
                    yield event
            if self._finished:
                return
            offset = min(end, len(data))
        else:
            self._needed_bytes = len(data) - offset + 1
        if offset < len(data):
            self._pieces.append(data[offset:])
            self._buffered_bytes = len(data) - offset

    def _read_oversized(self, data: bytes, offset: int, begin: int, end: int) -> Oversized | None:
        """Return the event of a PUBLISH that is too large; None until its packet id has arrived."""
        if data[offset] & 0xF0 != Kind.PUBLISH:
            raise Malformed("a packet that is too large")
        cursor = Cursor(data, begin, len(data))
        self._needed_bytes = begin - offset + 2
        if cursor.remaining_bytes < 2:
            return None
        self._needed_bytes += cursor.read_integer(2) + 2
        if offset + self._needed_bytes > len(data):
            return None
        cursor.offset = offset + self._needed_bytes - 2
        packet_id = cursor.read_integer(2) if _read_qos(data[offset]) else 0
        return Oversized(packet_id, end - begin)

    def _read_packet(self, first_byte: int, data: bytes, begin: int, end: int) -> Event | None:
        """Read one packet; return its event, or None if it has none."""
        kind = first_byte & 0xF0
        if self._accepted:
            if kind == _PUBLISH:
                return _read_message(self.level, first_byte, data, begin, end)
            if first_byte == _PUBACK:
                return self._read_puback(data, begin, end)
        cursor = Cursor(data, begin, end)
        if kind not in (first_byte, Kind.PUBLISH):
            is_tls = first_byte == _TLS_ALERT and not self._accepted
            raise Malformed(TLS_ANSWER if is_tls else "flags that are reserved")
        event = self._read_control(kind, cursor)
        cursor.check_end()
        return event

    def _read_control(self, kind: int, cursor: Cursor) -> Event | None:
        """Return the event of a packet other than a PUBLISH or PUBACK; None if it has none."""
        if not self._accepted:
            if kind != Kind.CONNACK:
                raise Malformed("a packet before the answer to CONNECT")
            return self._read_connack(cursor)
        if kind in (Kind.SUBACK, Kind.UNSUBACK):
            return self._read_suback(Kind(kind), cursor)
        if kind == Kind.PINGRESP:  # its bytes alone show that the broker answers
            return None
        if kind == Kind.DISCONNECT and self.level == MQTT_5:
            return self._read_disconnect(cursor)
        raise Malformed("a packet that a client at QoS 1 never receives")

    def _read_connack(self, cursor: Cursor) -> Event:
        flags, reason = cursor.read_integer(1), cursor.read_integer(1)
        grants = cursor.read_properties() if self.level == MQTT_5 and cursor.remaining_bytes else {}
        if flags > 1 or (reason and flags):
            raise Malformed("flags of CONNACK that are reserved")
        if reason:
            return Refusal(reason, packets.reason_text(self.level, reason))
        self._accepted = True
        self._receive_maximum = grants.get(_RECEIVE_MAXIMUM, _UNLIMITED)
        if not self._receive_maximum or grants.get(_MAXIMUM_PACKET) == 0:
            raise Malformed("a maximum of 0")
        self._publish_max_bytes = grants.get(_MAXIMUM_PACKET, _UNLIMITED_BYTES)
        return Connected(
            bool(flags),
            self._receive_maximum,
            grants.get(_SESSION_EXPIRY),
            grants.get(_SERVER_KEEP_ALIVE),
            has_qos_1=bool(grants.get(_MAXIMUM_QOS, True)),
            retains=bool(grants.get(_RETAIN_AVAILABLE, True)),
        )

    def _read_puback(self, data: bytes, begin: int, end: int) -> Event | None:
        """Return a PUBACK, read in place; None if it matches no request. Most contain only a packet id."""
        reason = 0
        if end - begin == 2:
            packet_id = data[begin] << 8 | data[begin + 1]
        else:
            cursor = Cursor(data, begin, end)
            packet_id = cursor.read_integer(2)
            if self.level == MQTT_5:
                reason = cursor.read_integer(1)
                if cursor.remaining_bytes:
                    cursor.read_properties()
            cursor.check_end()
        return Puback(packet_id, reason) if self._free_id(packet_id, Kind.PUBACK) else None

    def _read_suback(self, kind: Kind, cursor: Cursor) -> Event | None:
        """Return a SUBACK; None if it matches no request. An UNSUBACK frees its id, but yields no event."""
        packet_id = cursor.read_integer(2)
        if self.level == MQTT_5:
            cursor.read_properties()
        reason = cursor.read_integer(1) if kind == Kind.SUBACK or self.level == MQTT_5 else 0
        is_expected = self._free_id(packet_id, kind)
        return Suback(packet_id, reason) if is_expected and kind == Kind.SUBACK else None

    def _read_disconnect(self, cursor: Cursor) -> Event:
        reason = cursor.read_integer(1) if cursor.remaining_bytes else 0
        if cursor.remaining_bytes:
            cursor.read_properties()
        self._finished = True
        return Disconnect(reason, packets.reason_text(self.level, reason))

    def _free_id(self, packet_id: int, answer: Kind) -> bool:
        """Free a packet id and return True if its request waits for this answer; else return False."""
        if self._answers.get(packet_id) is not answer:
            return False
        del self._answers[packet_id]
        if answer is Kind.PUBACK:
            self._unanswered_count -= 1
        return True


def _read_qos(first_byte: int) -> int:
    """Return a PUBLISH's QoS. Raises Malformed for a QoS above 1, or for a repeated message at QoS 0."""
    qos = first_byte >> 1 & 3
    if qos > 1:
        raise Malformed(f"a message at QoS {qos}")
    if first_byte & 8 and not qos:
        raise Malformed("a message at QoS 0 that is sent again")
    return qos


def _read_message(level: int, first_byte: int, data: bytes, begin: int, end: int) -> Message:
    """Return the message of a PUBLISH, read in place for speed because thousands may arrive at once."""
    qos = _read_qos(first_byte)
    name_end = begin + 2 + (data[begin] << 8 | data[begin + 1]) if end - begin > 1 else end + 1
    payload_start = name_end + 2 * qos
    if level == MQTT_5:
        if payload_start < end and not data[payload_start]:
            payload_start += 1  # no properties, as in most messages
        elif payload_start <= end:
            cursor = Cursor(data, payload_start, end)
            cursor.read_properties()
            payload_start = cursor.offset
    if payload_start > end:
        raise Malformed("a packet that ends too early")
    packet_id = data[name_end] << 8 | data[name_end + 1] if qos else 0
    if qos and not packet_id:
        raise Malformed("a packet id of 0")
    try:
        topic = data[begin + 2 : name_end].decode()
    except UnicodeDecodeError:
        raise Malformed("a topic that is not UTF-8") from None
    # MQTT also forbids wildcards in topic names, but RabbitMQ turns an AMQP sender's `*` into `+`. If
    # that were a violation, one such sender would end every connection of its source.
    if not topic or "\0" in topic:
        raise Malformed("an empty topic, or one with a zero byte")
    retain, duplicate = bool(first_byte & 1), bool(first_byte & 8)
    return Message(topic, data[payload_start:end], qos, retain, packet_id, duplicate)
