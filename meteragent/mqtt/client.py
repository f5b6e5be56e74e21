"""Behind this door is gmqtt; nothing else of ours knows it. One client is one connection.

What has to be kept from it (gmqtt 0.8; each point is pinned by a test):
    it connects again by itself, also inside connect() and in 3.1.1    retries -2, refusals kept back
    it never gives up waiting for a CONNACK                            the session does
    it acknowledges on receipt, or with a task per message             a plain callback, our PUBACK
    it keeps publications and sends them again                         a store that keeps nothing
    it ignores the reason code of a PUBACK                             read before it does
    it swallows exceptions and logs payloads and topics                a logger that only counts
    it sends packet by packet                                          one write per turn of the loop
    it takes its time to make a publication, and to read one           `publication`, its ids; `reader`
    it leaves with a DISCONNECT that forgets the last will             one that asks for it, or none
"""

import asyncio
import logging
import ssl
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import gmqtt

from meteragent.mqtt.private import Private

CLOSE_TIMEOUT_S: Final = 2.0
MAX_PACKET_BYTES: Final = 4 * 2**20
"""The largest packet a broker may send (MQTT 5): the time to read one grows as its square."""

_MQTT_3: Final = 4
_DIGIT: Final = 0x7F
_BYTE: Final = struct.Struct("!B").pack
_NUMBER: Final = struct.Struct("!H").pack

_WITH_WILL: Final = 0x04
"""The reason of a DISCONNECT that has the broker publish the last will (MQTT 5)."""

logging.getLogger("gmqtt").setLevel(logging.CRITICAL + 1)  # it logs topics


@dataclass(frozen=True, slots=True)
class Events:
    """What a client calls. gmqtt swallows what these raise: all that is left then is `unreadable`.

    refused(reason, text)             the broker answered the connection with no
    accepted(session_present)         the broker answered the connection with yes
    message(topic, payload, qos, retain, packet_id, repeated)
                                      topic: bytes where it is not UTF-8; packet_id: 0 unless QoS 1;
                                      repeated: the broker says that it has sent it before
    puback(packet_id, reason)         the broker answered a publication
    suback(packet_id, granted)        the broker answered a subscription: a QoS, or a reason >= 0x80
    lost(reason)                      the connection is lost; ended by the broker, if it gave a reason
    unreadable()                      gmqtt could not make sense of a packet and has skipped it
    """

    refused: Callable[[int, str], None]
    accepted: Callable[[bool], None]
    message: Callable[[str | bytes, bytes, int, bool, int, bool], None]
    puback: Callable[[int, int], None]
    suback: Callable[[int, int], None]
    lost: Callable[[int | None], None]
    unreadable: Callable[[], None]


class Will(NamedTuple):
    """A last will: what the broker publishes, retained and at QoS 1, when the connection has ended."""

    topic: str
    payload: bytes


def publication(packet_id: int, topic: str, payload: bytes, *, retain: bool, level: int) -> bytes:
    """A PUBLISH at QoS 1, byte for byte as gmqtt makes it, in a tenth of the time."""
    name, properties = topic.encode(), b"" if level == _MQTT_3 else b"\0"
    length, size = len(name) + len(properties) + len(payload) + 4, b""
    while length > _DIGIT:
        length, low = length >> 7, length & _DIGIT
        size += _BYTE(low | _DIGIT + 1)
    head = b"\x33" if retain else b"\x32"
    parts = head, size, _BYTE(length), _NUMBER(len(name)), name, _NUMBER(packet_id), properties, payload
    return b"".join(parts)


class Client:
    """One connection to a broker, which acknowledges nothing and repeats nothing by itself."""

    def __init__(
        self,
        client_id: str,
        events: Events,
        *,
        receive_maximum: int,
        session_expiry_s: int,
        username: str | None,
        password: str | None,
        will: Will | None = None,
    ) -> None:
        self._writer: _Writer | None = None
        self._will = will
        self._level = 0
        self._gmqtt = client = gmqtt.Client(
            client_id,
            clean_session=session_expiry_s == 0,
            optimistic_acknowledgement=False,
            will_message=will and gmqtt.Message(will.topic, will.payload, qos=1, retain=True),
            persistent_storage=_NoStore(),
            logger=_SilentLogger(events.unreadable),
            session_expiry_interval=session_expiry_s,
            receive_maximum=receive_maximum,
            maximum_packet_size=MAX_PACKET_BYTES,
        )
        client.set_config({"reconnect_retries": -2})
        if username is not None:
            client.set_auth_credentials(username, password)
        client.on_connect = lambda _, flags, _reason, _properties: events.accepted(bool(flags & 1))
        client.on_message = lambda _, topic, payload, qos, properties: events.message(
            topic, payload, qos, bool(properties["retain"]), 0, False
        )
        client.on_subscribe = lambda _, packet_id, granted, _properties: events.suback(packet_id, granted[0])
        client.on_disconnect = lambda _, packet: events.lost(
            packet[0] if isinstance(packet, bytes) and packet else None
        )
        self._private = Private(client, events.refused, events.puback, events.message, events.unreadable)

    async def connect(
        self, host: str, port: int, tls: ssl.SSLContext | None, keepalive_s: int, level: int
    ) -> None:
        """Connect with MQTT 5 (level 5) or 3.1.1 (4); may wait for ever. Raises OSError."""
        self._level = level
        await self._gmqtt.connect(host, port, ssl=tls or False, keepalive=keepalive_s, version=level)
        self._writer = self._private.replace_transport(_Writer)
        self._private.replace_reader(properties=level > _MQTT_3)

    @property
    def receive_maximum(self) -> int:
        """How many unanswered publications the broker takes at once."""
        return self._private.receive_maximum()

    def subscribe(self, topic_filter: str) -> int:
        """Subscribe at QoS 1; returns the packet id."""
        return int(self._gmqtt.subscribe(topic_filter, qos=1))

    def unsubscribe(self, topic_filter: str) -> None:
        """End a subscription; nobody waits for the answer."""
        known = self._gmqtt.subscriptions
        self._gmqtt.subscriptions = [one for one in known if one.topic != topic_filter]
        self._gmqtt.unsubscribe([topic_filter.encode()])  # of a str it counts characters, and a broker bytes

    def publish(self, topic: str, payload: bytes, retain: bool) -> int:
        """Publish at QoS 1; returns the packet id. Raises OverflowError when no id is free."""
        packet_id = self._private.next_id()
        self.write(publication(packet_id, topic, payload, retain=retain, level=self._level))
        return packet_id

    def write(self, packets: bytes) -> None:
        """Write packets at the end of this turn of the event loop."""
        if self._writer is not None:
            self._writer.write(packets)

    def pause(self, *, reading: bool) -> None:
        """Read no more, or again."""
        if self._writer is not None:
            self._writer.pause(reading=reading)

    async def close(self) -> None:
        """Write what is waiting, then DISCONNECT, which keeps the session; never raises OSError.

        With a will it is the broker that says goodbye, however the connection ends: a DISCONNECT asks
        for the will, and with MQTT 3.1.1, where none can, there is none.
        """
        if self._will and self._level == _MQTT_3 and self._writer is not None:
            self._writer.close()  # what is written after this does not leave
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self._gmqtt.disconnect(reason_code=_WITH_WILL if self._will else 0)
        except OSError:
            pass
        finally:
            self._private.abort()


class _Writer:
    """Stands in for the transport: all that is written in one turn of the loop leaves in one piece.

    A transport told to close waits until the peer has taken everything, which a dead one never does:
    this one waits for `CLOSE_TIMEOUT_S`.
    """

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._packets: list[bytes] = []

    def write(self, packet: bytes) -> None:
        if not self._packets:
            self._loop.call_soon(self._flush)
        self._packets.append(packet)

    def _flush(self) -> None:
        if self._packets and not self._transport.is_closing():
            self._transport.write(b"".join(self._packets))
        self._packets.clear()

    def pause(self, *, reading: bool) -> None:
        if reading:
            self._transport.resume_reading()
        elif not self._transport.is_closing():
            self._transport.pause_reading()

    def is_closing(self) -> bool:
        return bool(self._transport.is_closing())

    def close(self) -> None:
        self._flush()
        self._transport.close()
        self._loop.call_later(CLOSE_TIMEOUT_S, self._transport.abort)

    def abort(self) -> None:
        self._transport.abort()


class _NoStore:
    """Stands in for gmqtt's store of unanswered publications: it keeps none."""

    is_empty: Final = True

    def push_message(self, _packet_id: int, _packet: bytes) -> None:
        pass

    def remove_message_by_mid(self, packet_id: int) -> None:
        pass

    async def wait_empty(self) -> None:
        pass

    def get_all(self) -> list[tuple[int, bytes]]:
        return []

    def clear(self) -> None:
        pass


class _SilentLogger:
    """Stands in for gmqtt's logger: says nothing, but hears what gmqtt only ever logs.

    It logs `exception` when it has swallowed one, `critical` when it skips a packet.
    """

    def __init__(self, on_unreadable: Callable[[], None]) -> None:
        self._on_unreadable = on_unreadable

    def debug(self, *_: object, **__: object) -> None:
        pass

    info = warning = error = debug

    def critical(self, *_: object, **__: object) -> None:
        self._on_unreadable()

    exception = critical
