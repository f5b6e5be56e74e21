"""A load on a broker: readings are sent and records received, in a closed loop or at a fixed rate.

The client must not distort the measurement. It therefore implements only the part of MQTT 3.1.1 that
publishes and receives messages (QoS 0 and 1), writes many packets at once, and keeps no state per message.
"""

import asyncio
import time
from collections import defaultdict, deque
from collections.abc import Callable

CONNECT, CONNACK, PUBLISH, PUBACK, SUBSCRIBE = 0x10, 0x20, 0x30, 0x40, 0x82
FIRST_S = 1_700_000_000
_KEEPALIVE_S = 600


def packet(kind: int, body: bytes) -> bytes:
    """Return a packet: its type `kind`, its length and its body."""
    length, size = len(body), bytearray()
    while True:
        length, low = divmod(length, 128)
        size.append(low | (0x80 if length else 0))
        if not length:
            return bytes([kind]) + bytes(size) + body


def text(value: str) -> bytes:
    """Return a string as MQTT encodes it."""
    raw = value.encode()
    return len(raw).to_bytes(2, "big") + raw


class Client(asyncio.Protocol):
    """One connection, which calls `on_message` with the topic of each message."""

    def __init__(self, name: str, on_message: Callable[[bytes], None]) -> None:
        self.ready = asyncio.Event()
        self.acknowledged_count = 0
        self._name = name
        self._on_message = on_message
        self._buffer = bytearray()
        self._id = 0
        self._packets: list[bytes] = []

    @classmethod
    async def connect(cls, port: int, name: str, on_message: Callable[[bytes], None]) -> "Client":
        """Return a client once the broker at `port` has answered CONNECT; the return code is not checked."""
        loop = asyncio.get_running_loop()
        _, client = await loop.create_connection(lambda: cls(name, on_message), "127.0.0.1", port)
        await client.ready.wait()
        client.ready.clear()
        return client

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send CONNECT."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        body = text("MQTT") + bytes([4, 2]) + _KEEPALIVE_S.to_bytes(2, "big") + text(self._name)
        transport.write(packet(CONNECT, body))

    async def subscribe(self, topic_filter: str, qos: int) -> None:
        """Subscribe, and wait for the answer, which is not checked."""
        self._transport.write(packet(SUBSCRIBE, b"\0\1" + text(topic_filter) + bytes([qos])))
        await self.ready.wait()

    def publish(self, topic: bytes, payload: bytes, qos: int) -> None:
        """Queue a message for the next `flush`; `topic` is already encoded by `text`."""
        number = b""
        if qos:
            self._id = self._id % 65_535 + 1
            number = self._id.to_bytes(2, "big")
        self._packets.append(packet(PUBLISH | qos << 1, topic + number + payload))

    def flush(self) -> None:
        """Write the packets queued since the last flush."""
        if self._packets:
            self._transport.write(b"".join(self._packets))
            self._packets.clear()

    def data_received(self, data: bytes) -> None:
        """Split the data into packets, report each message's topic, and acknowledge messages at QoS 1.

        Write the queued packets, too.
        """
        buffer = self._buffer
        buffer += data
        offset, answers = 0, []
        while (bounds := split(buffer, offset)) is not None:
            kind, begin, offset = bounds
            if kind & 0xF0 == PUBLISH:
                topic_end = begin + 2 + int.from_bytes(buffer[begin : begin + 2], "big")
                if kind & 6:
                    answers.append(b"\x40\2" + bytes(buffer[topic_end : topic_end + 2]))
                self._on_message(bytes(buffer[begin + 2 : topic_end]))
            elif kind == PUBACK:
                self.acknowledged_count += 1
            else:
                self.ready.set()
        del buffer[:offset]
        if answers:
            self._transport.write(b"".join(answers))
        self.flush()

    def close(self) -> None:
        """Close the connection."""
        self._transport.close()


def split(buffer: bytearray, offset: int) -> tuple[int, int, int] | None:
    """Return the first byte of the packet at `offset` (type and flags), and its body's start and end.

    Return None if the packet is incomplete.
    """
    length = shift = 0
    place = offset + 1
    while place < len(buffer):
        byte = buffer[place]
        place += 1
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            end = place + length
            return (buffer[offset], place, end) if end <= len(buffer) else None
    return None


class Load:
    """`meters` meters whose readings are sent to a contestant and come back as records.

    Each meter's first reading has the time `first_s`, and each further reading is `step_s` later.
    """

    def __init__(self, meters: int, qos: int, first_s: int = FIRST_S, step_s: int = 1) -> None:
        self.record_count = 0
        self.reading_count = 0
        self.meters = meters
        self._qos = qos
        self._topics = [text(f"meters/m{meter}/power") for meter in range(meters)]
        self._first_s = first_s
        self._step_s = step_s

    async def connect(self, source_port: int, sink_port: int) -> None:
        """Connect to both brokers, and subscribe to the records."""
        self._receiver = await Client.connect(sink_port, "bench-receiver", self._receive)
        await self._receiver.subscribe("private/+/power", self._qos)
        self._sender = await Client.connect(source_port, "bench-sender", lambda _: None)

    def _receive(self, topic: bytes) -> None:
        self.record_count += 1
        self.arrived(topic)

    def arrived(self, topic: bytes) -> None:
        """Handle the arrival of a record on `topic`."""

    def send(self) -> None:
        """Queue the next meter's reading; after the last meter, the readings' time advances by a step."""
        step, meter = divmod(self.reading_count, len(self._topics))
        payload = b'{"t":%d,"power":%d}' % (self._first_s + step * self._step_s, step % 3000)
        self._sender.publish(self._topics[meter], payload, self._qos)
        self.reading_count += 1

    def flush(self) -> None:
        """Write the readings queued since the last flush."""
        self._sender.flush()

    def close(self) -> None:
        """Close both connections."""
        self._sender.close()
        self._receiver.close()


class ClosedLoop(Load):
    """A fixed number of readings in flight: each record that arrives triggers the next reading."""

    async def begin(self, outstanding: int) -> None:
        """Queue the first `outstanding` readings and start writing; the loop then continues on its own."""
        for _ in range(outstanding):
            self.send()
        self._ticking = asyncio.create_task(self._tick())

    def arrived(self, _: bytes) -> None:
        """Queue the next reading."""
        self.send()

    def close(self) -> None:
        """Stop, and close both connections."""
        self._ticking.cancel()
        super().close()

    async def _tick(self) -> None:
        while True:
            self.flush()
            await asyncio.sleep(0.0005)


class Paced(Load):
    """Readings at a fixed rate, with the latencies of their records in s, in order of arrival.

    A forwarder sends a message for each reading. The agent sends the record of a slot when the reading
    `behind` slots later arrives, so the first `behind` readings of a meter release no record. A latency is
    the time from the reading that releases a record to the arrival of this record.
    """

    def __init__(
        self, meters: int, qos: int, first_s: int = FIRST_S, step_s: int = 1, behind: int = 0
    ) -> None:
        super().__init__(meters, qos, first_s, step_s)
        self.latencies_s: list[float] = []
        self._behind = behind
        self._sent_s: defaultdict[bytes, deque[float]] = defaultdict(deque)

    def send(self) -> None:
        """Queue a reading; if it releases a record, note the time."""
        step, meter = divmod(self.reading_count, self.meters)
        if step >= self._behind:
            self._sent_s[self._topics[meter].partition(b"/")[2]].append(time.perf_counter())
        super().send()

    def arrived(self, topic: bytes) -> None:
        """Note the latency of a record; a record for which no reading is in flight is ignored."""
        sent_s = self._sent_s[topic.partition(b"/")[2]]
        if sent_s:
            self.latencies_s.append(time.perf_counter() - sent_s.popleft())

    async def run(self, per_s: int, seconds: float) -> None:
        """Send `per_s` readings per second for `seconds`, then wait half a second for the last records."""
        start_s, start_count = time.perf_counter(), self.reading_count
        while (elapsed_s := time.perf_counter() - start_s) < seconds:
            while self.reading_count - start_count < elapsed_s * per_s:
                self.send()
            self.flush()
            await asyncio.sleep(0.0005)
        await asyncio.sleep(0.5)
