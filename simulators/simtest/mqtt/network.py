"""The network: byte streams between the agent and its brokers, in virtual time.

The agent's event loop connects (`Broker.connect`), and its MQTT client writes to the connection's `Socket`.
Bytes take at least `WAY_S` and arrive in order, in pieces of any size. They are lost when the connection is
cut, even in the middle of a packet. The death of a process is silent or not, at random. If it is not, the
bytes that the process has handed to the operating system still arrive, and the broker soon notices the death.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import accumulate, pairwise
from random import Random
from typing import Any, NamedTuple, Protocol

from simulators.invariant import InvariantViolation, check
from simulators.simtest.mqtt import server as mqtt
from simulators.simtest.schedule import Network

WAY_S = 0.002
"""The time that the first piece of a write takes from one end of a connection to the other."""
_PIECE_S = 0.0005
"""The time between pieces of one write."""
_GRACE = 1.5
"""The number of keep-alive intervals for which a client may be silent (MQTT 3.1.2.10)."""


def _nothing() -> None:
    pass


class Publication(NamedTuple):
    """A message of the agent on its way to the sink's broker."""

    packet_id: int
    topic: str
    payload: bytes
    retain: bool


class Observer(Protocol):
    """The observer of everything that the process receives or sends; it may end the process at once."""

    @property
    def guard(self) -> AbstractContextManager[None]:
        """A context that ends the world at an InvariantViolation."""

    @property
    def is_alive(self) -> bool:
        """Whether the process is still running."""

    def on_subscribe(self, client_id: str) -> None:
        """Note that a subscription is confirmed."""

    def on_acknowledge(self, packet_ids: list[int]) -> int:
        """Check the agent's acknowledgements; return how many of them are sent before the process dies."""

    def after_acknowledge(self) -> None:
        """End the process if it is to die after the acknowledgements that it has just sent."""

    def on_publish(self, newest_rows: dict[str, int], topic: str, payload: bytes, *, retain: bool) -> None:
        """Check a publication on a connection; end the process if it is to die before sending it.

        `newest_rows` maps topics to the newest row sent on the connection.
        """

    def after_publish(self) -> None:
        """End the process if it is to die after the publication that it has just sent."""

    def on_answer(self, topic: str, *, is_foreign: bool | None) -> None:
        """Note whose descriptor the agent will find on a topic; if `is_foreign` is None, that it listens."""

    def on_confirm(self, publication: Publication) -> None:
        """Note that the agent is about to receive the confirmation of a publication."""

    def after_confirm(self) -> None:
        """End the process if it is to die after it has received a confirmation."""


class Bystander:
    """The part of an observer that only watches: its processes die elsewhere."""

    is_alive = True
    counts: Counter[str]

    def on_subscribe(self, client_id: str) -> None:
        """Count a subscription."""
        self.counts["subscriptions"] += bool(client_id)

    def after_acknowledge(self) -> None:
        """Do nothing."""

    def after_publish(self) -> None:
        """Do nothing."""

    def on_answer(self, topic: str, *, is_foreign: bool | None) -> None:
        """Do nothing."""

    def on_confirm(self, publication: Publication) -> None:
        """Do nothing."""

    def after_confirm(self) -> None:
        """Do nothing."""


class Peer(Protocol):
    """The part of the broker at the other end that a connection needs."""

    loop: asyncio.AbstractEventLoop
    observer: Observer
    random: Random
    network: Network

    def take(self, connection: "Connection", packet: mqtt.Packet) -> None:
        """Handle a packet of a client."""

    def leave(self, connection: "Connection") -> None:
        """Forget a connection that has ended."""


class Hooks(NamedTuple):
    """Callbacks for just before and just after the last byte of a packet reaches the agent."""

    before: Callable[[], None] = _nothing
    after: Callable[[], None] = _nothing


_NO_HOOKS = Hooks()


class Piece(NamedTuple):
    """Bytes that arrive together, and the position and the hooks of each packet's end in these bytes."""

    data: bytes
    ends: list[tuple[int, Hooks]]


class Pipe:
    """One direction of a connection: bytes arrive in order, in pieces of any size.

    A write may be cut at random places: first a packet is drawn, then a place in it. Thus the sizes of
    packets, which depend on measured values, do not decide which packets arrive together (law 4).
    """

    def __init__(self, peer: Peer, deliver: Callable[[bytes, list[Hooks]], None]) -> None:
        self._loop = peer.loop
        self._random = peer.random
        self._in_pieces = peer.network.pieces / 100
        self._deliver = deliver
        self._outgoing: list[tuple[bytes, Hooks]] = []
        self._pieces: deque[Piece] = deque()
        self._open = True

    def send(self, packet: bytes, hooks: Hooks = _NO_HOOKS) -> None:
        """Send a packet, or the beginning of one; all packets of one turn of the loop are sent together."""
        if not self._outgoing:
            self._loop.call_soon(self._leave)
        self._outgoing.append((packet, hooks))

    def _leave(self) -> None:
        outgoing, self._outgoing = self._outgoing, []
        data = b"".join(packet for packet, _ in outgoing)
        ends = list(accumulate(len(packet) for packet, _ in outgoing))
        cuts = [0, len(data)]
        if self._random.random() < self._in_pieces:
            cuts += [self._cut_point([0, *ends]) for _ in range(2)]
        packets = deque(zip(ends, (hooks for _, hooks in outgoing), strict=True))
        for number, (begin, end) in enumerate(pairwise(sorted(cuts))):
            ends_here = []
            while packets and packets[0][0] <= end:
                packet_end, hooks = packets.popleft()
                ends_here.append((packet_end - begin, hooks))
            self._pieces.append(Piece(data[begin:end], ends_here))
            self._loop.call_later(WAY_S + number * _PIECE_S, self._arrive)

    def _cut_point(self, ends: list[int]) -> int:
        """Draw a position in a write: first a packet, then a place in it."""
        packet = int(self._random.random() * (len(ends) - 1))
        return ends[packet] + int(self._random.random() * (ends[packet + 1] - ends[packet]))

    def _arrive(self) -> None:
        if self._open and self._pieces:
            piece = self._pieces.popleft()
            self._deliver(piece.data, [hooks for _, hooks in piece.ends])

    def cut(self) -> None:
        """Lose the bytes that are on their way, except perhaps the beginning of the next piece."""
        begins = self._random.random() < 0.5
        if self._open and self._pieces and begins:
            data, ends = self._pieces.popleft()
            size = self._cut_point([0, *(end for end, _ in ends), len(data)])
            self._deliver(data[:size], [hooks for end, hooks in ends if end <= size])
        self.close()

    def close(self) -> None:
        """Stop the delivery."""
        self._open = False


class Socket(asyncio.Transport):
    """The agent's end of a connection."""

    def __init__(self, connection: "Connection") -> None:
        super().__init__()
        self._connection = connection

    def write(self, data: "bytes | bytearray | memoryview[Any]") -> None:
        """Hand bytes to the operating system."""
        self._connection.write(bytes(data))

    def is_closing(self) -> bool:
        """Return whether the connection is closed."""
        return self._connection.closed

    def close(self) -> None:
        """Close the connection; bytes already written are still sent."""
        self._connection.close()

    def abort(self) -> None:
        """Close the connection, in the same way as `close`."""
        self._connection.close()

    def pause_reading(self) -> None:
        """Stop reading."""
        self._connection.read(is_reading=False)

    def resume_reading(self) -> None:
        """Resume reading."""
        self._connection.read(is_reading=True)


class Connection:
    """A connection between the agent and a broker.

    `newest_rows` maps each topic to the id of the newest row that was sent on the connection. While
    `_is_silent` is set, nothing arrives at either end, and neither end learns of the loss.
    """

    def __init__(self, peer: Peer, protocol: asyncio.Protocol) -> None:
        self._peer = peer
        self.newest_rows: dict[str, int] = {}
        self.closed = False
        self.connect: mqtt.Connect | None = None
        self.keepalive_s = 0
        self.last_arrival_s = peer.loop.time()
        self._is_silent = False
        self._protocol = protocol
        self._reading = True
        self._unread: list[tuple[bytes, list[Hooks]]] = []
        self._leaving, self._arriving = mqtt.Reader(), mqtt.Reader()
        self._to_broker = Pipe(peer, self._reach_broker)
        self._to_agent = Pipe(peer, self._reach_agent)

    @property
    def level(self) -> int:
        """The MQTT version that the client speaks; it is MQTT 5 until CONNECT is accepted."""
        return mqtt.MQTT_5 if self.connect is None else self.connect.level

    # --- the agent's end -----------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Hand bytes to the operating system; the process may die before, between or after their packets.

        Nothing is sent if the connection is closed or the process is dead.
        """
        observer = self._peer.observer
        if self.closed or not observer.is_alive:
            return
        with observer.guard:
            packets = _parse(self._leaving, data, "the agent sends a packet that MQTT forbids")
        progress = _Progress()
        try:
            self._observe(packets, progress)
            progress.end = len(data)
        finally:
            ends = [end for _, end in packets if end < progress.end]
            for begin, end in pairwise([0, *ends, progress.end]):
                self._to_broker.send(data[begin:end])

    def _observe(self, packets: list[tuple[mqtt.Packet, int]], progress: "_Progress") -> None:
        observer = self._peer.observer
        if acks := [(packet.packet_id, end) for packet, end in packets if isinstance(packet, mqtt.Puback)]:
            leave = observer.on_acknowledge([packet_id for packet_id, _ in acks])
            progress.end = acks[leave - 1][1] if leave else 0
            progress.end += leave < len(acks)  # one byte of the next acknowledgement is sent too
            observer.after_acknowledge()
        for packet, end in packets:
            if isinstance(packet, mqtt.Publish):
                observer.on_publish(self.newest_rows, packet.topic, packet.payload, retain=packet.retain)
                progress.end = end
                observer.after_publish()

    def read(self, *, is_reading: bool) -> None:
        """Deliver bytes that arrive, or keep them until reading resumes."""
        self._reading = is_reading
        if is_reading:
            self._peer.loop.call_soon(self._hand_over_unread)

    def _hand_over_unread(self) -> None:
        while self._reading and self._unread:
            self._hand_over(*self._unread.pop(0))

    def _reach_agent(self, data: bytes, hooks: list[Hooks]) -> None:
        if self._is_silent:
            return
        if self._reading and not self._unread:
            self._hand_over(data, hooks)
        else:
            self._unread.append((data, hooks))

    def _hand_over(self, data: bytes, packets: list[Hooks]) -> None:
        if self.closed or not self._peer.observer.is_alive:
            return
        for hooks in packets:
            hooks.before()
        self._protocol.data_received(data)
        for hooks in packets:
            hooks.after()

    def close(self, error: Exception | None = None) -> None:
        """Close the agent's end and stop reading; the broker learns of the close."""
        if not self.closed:
            self.closed = True
            self._to_agent.close()
            self._peer.loop.call_soon(self._protocol.connection_lost, error)
            self._peer.loop.call_later(2 * WAY_S, self._peer.leave, self)

    def die(self, *, is_silent: bool) -> None:
        """End the agent's side with its process; the broker learns of this unless the end is silent."""
        self._is_silent |= is_silent
        self.closed = True
        self._to_agent.close()
        if not is_silent:
            self._peer.loop.call_later(2 * WAY_S, self._peer.leave, self)

    # --- the broker's end ----------------------------------------------------------------------

    def send(self, packet: bytes, hooks: Hooks = _NO_HOOKS) -> None:
        """Send a packet to the agent."""
        self._to_agent.send(packet, hooks)

    def _reach_broker(self, data: bytes, hooks: list[Hooks]) -> None:
        del hooks  # only packets to the agent have hooks
        peer = self._peer
        if self._is_silent:
            return
        silence_s, self.last_arrival_s = peer.loop.time() - self.last_arrival_s, peer.loop.time()
        with peer.observer.guard:
            is_late = 0 < _GRACE * self.keepalive_s < silence_s
            check(self.closed or not is_late, "the agent does not keep its connection alive")
            for packet, _ in _parse(self._arriving, data, "a broker is sent a packet that MQTT forbids"):
                peer.take(self, packet)

    def cut(self) -> None:
        """Lose the connection and the bytes on their way; both ends learn of the loss."""
        self._to_broker.cut()
        self._to_agent.cut()
        self._peer.leave(self)
        self.close(ConnectionResetError("cut"))

    def lose(self) -> None:
        """Lose the connection silently: nothing arrives from now on, and neither end learns of the loss."""
        self._is_silent = True


class _Progress:
    """The number of bytes of a write that the operating system has accepted."""

    end = 0


def _parse(reader: mqtt.Reader, data: bytes, invariant: str) -> list[tuple[mqtt.Packet, int]]:
    try:
        return reader.read(data)
    except mqtt.Malformed as error:
        raise InvariantViolation(invariant, error) from error
