"""More messages than a client library makes: packets by hand, many in one write."""

import asyncio
from collections.abc import Iterable
from itertools import islice

from tests.support.broker import Broker

CHUNK = 200
"""Publications in one write, and unanswered at once."""


async def flood(broker: Broker, messages: Iterable[tuple[str, bytes]], *, qos: int = 1) -> int:
    """Publish in order as fast as the broker takes them (MQTT 3.1.1); returns how many it has taken."""
    reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
    writer.write(_packet(0x10, b"\0\4MQTT\4\2\0\0" + _text("flood")))
    assert await reader.readexactly(4) == b"\x20\2\0\0"
    count, left = 0, iter(messages)
    while chunk := list(islice(left, CHUNK)):
        packets = (_publish(*message, qos, 1 + at) for at, message in enumerate(chunk))
        writer.write(b"".join(packets) + _packet(0xC0, b""))
        await writer.drain()
        await reader.readexactly(4 * len(chunk) * qos + 2)  # its PUBACKs, and that it has read so far
        count += len(chunk)
    writer.write(_packet(0xE0, b""))
    writer.close()
    await writer.wait_closed()
    return count


def _publish(topic: str, payload: bytes, qos: int, packet_id: int) -> bytes:
    id_ = packet_id.to_bytes(2, "big") if qos else b""
    return _packet(0x30 | qos << 1, _text(topic) + id_ + payload)


def _text(text: str) -> bytes:
    return len(text).to_bytes(2, "big") + text.encode()


def _packet(kind: int, body: bytes) -> bytes:
    length, left = bytearray(), len(body)
    while left > 0x7F:
        length.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes((kind, *length, left)) + body
