"""The parts of gmqtt 0.8 without a public name that we use: these, and no others.

    Client._package_handler                            the handler of packets; of it we replace
      ._handle_connack_packet(command, packet)           for the reason code of a refusal
      ._handle_puback_packet(command, packet)            for the reason code of an answer
      ._handle_qos_1_publish_packet(packet_id, payload, topic, properties)    for the packet id
    and read
      ._connack_properties                               for Receive Maximum, in whose place
                                                         on_connect's properties hold our own
      .id_generator.next_id(), .free_id(id)              the ids of publications: those of the subscriptions
    Client._connection._transport                      replaced by the coalescing writer,
    Client._connection._protocol._transport            both of them
    Client._connection._protocol._read_packet(data)    replaced by a `Reader`, to which it is `others`
    Client._connection._last_data_in                   when something came last, for its pings

Each is read before it is replaced, so that a gmqtt which has moved one fails at the first connection;
tests pin what they do.
"""
# ruff: noqa: SLF001

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import gmqtt

from meteragent.mqtt.reader import Reader

_UNLIMITED = 65_535
_Transport = TypeVar("_Transport")


class Private:
    """One gmqtt client's private parts. Its arguments are those of `client.Events`."""

    def __init__(
        self,
        client: Any,
        refused: Callable[[int, str], None],
        puback: Callable[[int, int], None],
        message: Callable[[str | bytes, bytes, int, bool, int, bool], None],
        unreadable: Callable[[], None],
    ) -> None:
        self._client = client
        self._puback, self._message, self._unreadable = puback, message, unreadable
        self._handler = handler = client._package_handler
        handle_connack, handle_puback = handler._handle_connack_packet, handler._handle_puback_packet

        def on_connack(command: int, packet: bytes) -> None:
            reason = packet[1]
            if reason == 0:
                handle_connack(command, packet)
            else:
                refused(reason, str(gmqtt.MQTTConnectError(reason)))

        def on_puback(command: int, packet: bytes) -> None:
            handle_puback(command, packet)
            puback(packet[0] << 8 | packet[1], packet[2] if len(packet) > 2 else 0)

        def on_publish(packet_id: int, payload: bytes, topic: Any, properties: Any) -> None:
            message(topic, payload, 1, bool(properties["retain"]), packet_id, bool(properties["dup"]))

        _replace(handler, "_handle_connack_packet", on_connack)
        _replace(handler, "_handle_puback_packet", on_puback)
        _replace(handler, "_handle_qos_1_publish_packet", on_publish)

    def receive_maximum(self) -> int:
        """How many unanswered publications the broker takes at once."""
        return int(self._handler._connack_properties.get("receive_maximum", [_UNLIMITED])[0])

    def next_id(self) -> int:
        """A packet id that is free; it is free again when it has been answered. Raises OverflowError."""
        return int(self._handler.id_generator.next_id())

    def replace_transport(self, wrap: Callable[[Any], _Transport]) -> _Transport:
        """Put what `wrap` makes of the transport in its place."""
        connection = self._client._connection
        transport = wrap(connection._transport)
        _replace(connection, "_transport", transport)
        _replace(connection._protocol, "_transport", transport)
        return transport

    def replace_reader(self, *, properties: bool) -> None:
        """Read what comes by the thousand past gmqtt, as it would: see `reader`."""
        connection, free = self._client._connection, self._handler.id_generator.free_id

        def on_puback(packet_id: int, reason: int) -> None:
            free(packet_id)
            self._puback(packet_id, reason)

        others = connection._protocol._read_packet
        reader = Reader(others, self._message, on_puback, properties=properties)

        def read(data: bytes) -> int:
            _replace(connection, "_last_data_in", time.monotonic())
            try:
                return reader.read(data)
            except Exception:  # noqa: BLE001 -- as gmqtt swallows what its handlers raise
                self._unreadable()
                return -1

        _replace(connection._protocol, "_read_packet", read)

    def abort(self) -> None:
        """Drop the connection, if there is one."""
        if self._client._connection is not None:
            transport = self._client._connection._transport
            # In Python 3.11.2, Debian 12's, one of TLS has no protocol any more when its connection has ended
            with suppress(AttributeError):
                transport.abort()


def _replace(owner: Any, name: str, by: object) -> None:
    getattr(owner, name)
    setattr(owner, name, by)
