"""The network: connections of bytes between the agent and two brokers, in virtual time.

The agent's event loop makes a connection here (`Broker.connect`), and its MQTT client writes to a `Socket` of
it. What is written is on its way for `WAY_S`, arrives in order and in pieces of any size, and is lost where
the connection is cut: in the middle of a packet as well. What a process has given to its system still leaves
when the process dies; whether the broker learns of that at once is a matter of chance.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import accumulate, pairwise
from random import Random
from typing import Any, NamedTuple, Protocol

from simulators.invariant import InvariantViolation, check
from simulators.simtest import mqtt_server as mqtt
from simulators.simtest.schedule import Network

WAY_S = 0.002
"""How long a byte is on its way."""
_PIECE_S = 0.0005
"""How far pieces of one write are apart."""
_GRACE = 1.5
"""A client may be silent for so many keep-alives (3.1.2.10)."""


def _nothing() -> None:
    pass


class Publication(NamedTuple):
    """A message of the agent's on its way to the sink's broker."""

    packet_id: int
    topic: str
    payload: bytes
    retain: bool


class Observer(Protocol):
    """Who sees what crosses the border of the process, and may end it there."""

    @property
    def guard(self) -> AbstractContextManager[None]:
        """Ends the world at an InvariantViolation."""

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""

    def subscribed(self, client_id: str) -> None:
        """A subscription is confirmed."""

    def acknowledges(self, packet_ids: list[int]) -> int:
        """The agent acknowledges; returns how many of them still leave before it dies."""

    def after_acknowledging(self) -> None:
        """They have left."""

    def leaves(self, seen: dict[str, int], topic: str, payload: bytes, *, retain: bool) -> None:
        """A publication leaves on a connection that has `seen` others."""

    def after_leaving(self) -> None:
        """It has left."""

    def confirms(self, publication: Publication) -> None:
        """The agent is about to be told that a publication was taken."""

    def after_confirming(self) -> None:
        """It has been told."""


class Peer(Protocol):
    """What a connection needs of the broker at its other end."""

    loop: asyncio.AbstractEventLoop
    observer: Observer
    random: Random
    network: Network

    def take(self, connection: "Connection", packet: mqtt.Packet) -> None:
        """Read a packet of a client."""

    def leave(self, connection: "Connection") -> None:
        """A connection has ended."""


class Mark(NamedTuple):
    """What happens just before the last byte of a packet reaches the agent, and just after."""

    before: Callable[[], None] = _nothing
    after: Callable[[], None] = _nothing


_NO_MARK = Mark()


class Piece(NamedTuple):
    """Bytes that arrive together: where packets end in them, and what happens then."""

    data: bytes
    ends: list[tuple[int, Mark]]


class Pipe:
    """One direction of a connection: bytes arrive in order, in pieces of any size.

    Where a write is cut follows from chance and the number of its packets, not from its size: that depends on
    what was measured, and which packets arrive must not (law 4).
    """

    def __init__(self, broker: Peer, deliver: Callable[[bytes, list[Mark]], None]) -> None:
        self._loop = broker.loop
        self._random = broker.random
        self._in_pieces = broker.network.pieces / 100
        self._deliver = deliver
        self._written: list[tuple[bytes, Mark]] = []
        self._pieces: deque[Piece] = deque()
        self._open = True

    def send(self, packet: bytes, mark: Mark = _NO_MARK) -> None:
        """Send a packet, or the beginning of one; those of one turn of the loop leave together."""
        if not self._written:
            self._loop.call_soon(self._leave)
        self._written.append((packet, mark))

    def _leave(self) -> None:
        written, self._written = self._written, []
        data = b"".join(packet for packet, _ in written)
        ends = list(accumulate(len(packet) for packet, _ in written))
        cuts = [0, len(data)]
        if self._random.random() < self._in_pieces:
            cuts += [self._place([0, *ends]) for _ in range(2)]
        marks = deque(zip(ends, (mark for _, mark in written), strict=True))
        for number, (begin, end) in enumerate(pairwise(sorted(cuts))):
            mine = []
            while marks and marks[0][0] <= end:
                at, mark = marks.popleft()
                mine.append((at - begin, mark))
            self._pieces.append(Piece(data[begin:end], mine))
            self._loop.call_later(WAY_S + number * _PIECE_S, self._arrive)

    def _place(self, ends: list[int]) -> int:
        """Return a place in a packet: any of them, and anywhere in it."""
        which = int(self._random.random() * (len(ends) - 1))
        return ends[which] + int(self._random.random() * (ends[which + 1] - ends[which]))

    def _arrive(self) -> None:
        if self._open and self._pieces:
            piece = self._pieces.popleft()
            self._deliver(piece.data, [mark for _, mark in piece.ends])

    def cut(self) -> None:
        """Lose what is on its way, but perhaps the beginning of the next piece."""
        begins = self._random.random() < 0.5
        if self._open and self._pieces and begins:
            data, ends = self._pieces.popleft()
            place = self._place([0, *(at for at, _ in ends), len(data)])
            self._deliver(data[:place], [mark for at, mark in ends if at <= place])
        self.close()

    def close(self) -> None:
        """Deliver nothing any more."""
        self._open = False


class Socket(asyncio.Transport):
    """The agent's end of a connection."""

    def __init__(self, connection: "Connection") -> None:
        super().__init__()
        self._connection = connection

    def write(self, data: "bytes | bytearray | memoryview[Any]") -> None:
        """Give bytes to the system."""
        self._connection.write(bytes(data))

    def is_closing(self) -> bool:
        """Whether it is closed."""
        return self._connection.closed

    def close(self) -> None:
        """Close it; what was written still leaves."""
        self._connection.close()

    def abort(self) -> None:
        """Close it."""
        self._connection.close()

    def pause_reading(self) -> None:
        """Read no more."""
        self._connection.read(reading=False)

    def resume_reading(self) -> None:
        """Read again."""
        self._connection.read(reading=True)


class Connection:
    """A connection between the agent and a broker.

    `seen` is what has left on it by topic. `lost`: nothing arrives on either side, and nobody knows.
    """

    def __init__(self, broker: Peer, protocol: asyncio.Protocol) -> None:
        self.broker = broker
        self.seen: dict[str, int] = {}
        self.closed = False
        self.connect: mqtt.Connect | None = None
        self.keepalive_s = 0
        self.heard_s = broker.loop.time()
        self._lost = False
        self._protocol = protocol
        self._reading = True
        self._unread: list[tuple[bytes, list[Mark]]] = []
        self._leaving, self._arriving = mqtt.Reader(), mqtt.Reader()
        self._up = Pipe(broker, self._reach_broker)
        self._down = Pipe(broker, self._reach_agent)

    @property
    def level(self) -> int:
        """The version of MQTT that the client speaks."""
        return mqtt.MQTT_5 if self.connect is None else self.connect.level

    # --- the agent's end -----------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Give bytes to the system; the process may die before, between and after the packets in them."""
        observer = self.broker.observer
        if self.closed or not observer.alive:
            return
        with observer.guard:
            packets = _read(self._leaving, data, "the agent sends what MQTT forbids")
        given = _Given()
        try:
            self._observe(packets, given)
            given.end = len(data)
        finally:
            ends = [end for _, end in packets if end < given.end]
            for begin, end in pairwise([0, *ends, given.end]):
                self._up.send(data[begin:end])

    def _observe(self, packets: list[tuple[mqtt.Packet, int]], given: "_Given") -> None:
        observer = self.broker.observer
        if acks := [(packet.packet_id, end) for packet, end in packets if isinstance(packet, mqtt.Puback)]:
            leave = observer.acknowledges([packet_id for packet_id, _ in acks])
            given.end = acks[leave - 1][1] if leave else 0
            given.end += leave < len(acks)  # a byte of the next one
            observer.after_acknowledging()
        for packet, end in packets:
            if isinstance(packet, mqtt.Publish):
                observer.leaves(self.seen, packet.topic, packet.payload, retain=packet.retain)
                given.end = end
                observer.after_leaving()

    def read(self, *, reading: bool) -> None:
        """Hand over what arrives, or keep it until later."""
        self._reading = reading
        if reading:
            self.broker.loop.call_soon(self._read_on)

    def _read_on(self) -> None:
        while self._reading and self._unread:
            self._hand_over(*self._unread.pop(0))

    def _reach_agent(self, data: bytes, marks: list[Mark]) -> None:
        if self._lost:
            return
        if self._reading and not self._unread:
            self._hand_over(data, marks)
        else:
            self._unread.append((data, marks))

    def _hand_over(self, data: bytes, marks: list[Mark]) -> None:
        if self.closed or not self.broker.observer.alive:
            return
        for mark in marks:
            mark.before()
        self._protocol.data_received(data)
        for mark in marks:
            mark.after()

    def close(self, error: Exception | None = None) -> None:
        """Close the agent's end: it reads nothing any more, and the broker learns of it."""
        if not self.closed:
            self.closed = True
            self._down.close()
            self.broker.loop.call_soon(self._protocol.connection_lost, error)
            self.broker.loop.call_later(2 * WAY_S, self.broker.leave, self)

    def die(self, *, silently: bool) -> None:
        """The process has ended, and its end of the connection with it."""
        self._lost |= silently
        self.closed = True
        self._down.close()
        if not silently:
            self.broker.loop.call_later(2 * WAY_S, self.broker.leave, self)

    # --- the broker's end ----------------------------------------------------------------------

    def send(self, packet: bytes, mark: Mark = _NO_MARK) -> None:
        """Send a packet to the agent."""
        self._down.send(packet, mark)

    def _reach_broker(self, data: bytes, marks: list[Mark]) -> None:
        del marks  # only the agent's side has any
        broker = self.broker
        if self._lost:
            return
        silence_s, self.heard_s = broker.loop.time() - self.heard_s, broker.loop.time()
        with broker.observer.guard:
            late = 0 < _GRACE * self.keepalive_s < silence_s
            check(self.closed or not late, "the agent does not keep its connection alive")
            for packet, _ in _read(self._arriving, data, "a broker is sent what MQTT forbids"):
                broker.take(self, packet)

    def cut(self) -> None:
        """Lose it in the middle of whatever is on its way; both ends learn of it."""
        self._up.cut()
        self._down.cut()
        self.broker.leave(self)
        self.close(ConnectionResetError("cut"))

    def lose(self) -> None:
        """Nothing arrives any more, and neither end learns of it."""
        self._lost = True


class _Given:
    """How many bytes of a write the system was given."""

    end = 0


def _read(reader: mqtt.Reader, data: bytes, invariant: str) -> list[tuple[mqtt.Packet, int]]:
    try:
        return reader.read(data)
    except mqtt.Malformed as error:
        raise InvariantViolation(invariant, error) from error
