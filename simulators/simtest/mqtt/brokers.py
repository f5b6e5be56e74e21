"""The brokers of source, sink and receivers, which keep, redeliver, forget, confirm and refuse messages.

The source's broker keeps a mailbox for each client id. Unacknowledged messages are redelivered on the next
connection, in order and before all other messages, unless `shuffle` mixes them. Every delivery at QoS 1, even
of the same message, gets a new packet id until the ids run out, so an acknowledged packet id identifies one
delivery. The sink's broker confirms messages at once or later, in any order, or not at all while it stalls;
it may limit the number of unanswered messages, and refuse a message.
"""

import asyncio
from collections import Counter, deque
from dataclasses import dataclass, field, replace
from random import Random
from typing import NamedTuple

from simulators.invariant import InvariantViolation, check
from simulators.simtest.mqtt import server as mqtt
from simulators.simtest.mqtt.network import WAY_S, Connection, Hooks, Observer, Publication, Socket
from simulators.simtest.schedule import Network, Schedule

LAST_ID = 65_535
INFLIGHT_3_1_1 = 20
"""The number of unacknowledged messages that mosquitto sends if the client sets no limit."""

_UNSAVED_MAX = 12
"""The largest number of acknowledgements of a client that the source's broker has not saved."""

LOSSES = 4
"""The number of lost connections after which an agent may suspect the retain flag (`refused_topics`)."""

KEEPALIVE_MAX_S = 2
"""The longest keep-alive with which a silent outage is detected within a schedule."""

JUNK: tuple[tuple[str, bytes, str], ...] = (
    ("meters/m{}/power", b"", "refused_empty"),
    ("meters/m{}/power", b"{", "refused_json"),
    ("meters/m{}/power", b"\xff\xfe", "refused_encoding"),
    ("meters/m{}/power", b'{"t":1772450000}', "refused_missing"),
    ("meters/m{}/power", b'{"t":1772450000,"v":NaN}', "refused_not_finite"),
    ("meters/m{}/power", b'{"t":1772450000,"v":"much"}', "refused_type"),
    ("meters/m{}/power", b'{"t":"noon","v":5}', "refused_time"),
    ("meters/m{}/power", b'{"t":9772450000,"v":5}', "refused_ahead"),
    ("meters/m{}/power", b'{"v":5,"t":"' + b"x" * 300 + b'"}', "refused_size"),
    ("meters/" + "m" * 200 + "{}/power", b'{"t":1772450000,"v":5}', "refused_topic"),
)
"""The topic, payload and counter of each message that is not a reading."""
PRICE_JUNK: tuple[tuple[bytes, str], ...] = (
    (b"", "refused_empty"),
    (b"[", "refused_json"),
    (b"\xff\xfe", "refused_encoding"),
    (b'{"start":"2026-03-28T18:00:00Z","price":1}', "refused_missing"),
    (b'{"start":"noon","end":"2026-03-28T18:00:00Z","price":1}', "refused_time"),
    (b'{"start":"2026-03-28T18:00:00Z","end":"2026-03-28T19:00:00Z","price":"much"}', "refused_type"),
)
"""Payloads that have one fault each, so that they give no prices on the price topic, and their counters."""
TIME_REFUSALS = ("refused_time", "refused_ahead")
"""The refusals due to times. If times are not decoded, these messages are valid readings of the value 5."""


class Broker:
    """A broker: whether it can be reached, and its connections."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, observer: Observer, random: Random, network: Network
    ) -> None:
        self.loop = loop
        self.observer = observer
        self.random = random
        self.network = network
        self.reachable = asyncio.Event()
        self.counts: Counter[str] = Counter()
        self.connections: list[Connection] = []
        self._silent: list[Connection] = []

    async def connect(self, protocol: asyncio.Protocol) -> Socket:
        """Connect the agent; an unreachable broker refuses at once or makes the agent wait."""
        await asyncio.sleep(WAY_S)
        if not self.reachable.is_set():
            if self.random.random() < 0.5:
                raise ConnectionRefusedError("connection refused")
            await self.reachable.wait()
        connection = Connection(self, protocol)
        self.counts["connections"] += 1
        self.connections.append(connection)
        socket = Socket(connection)
        protocol.connection_made(socket)
        return socket

    def drop(self, down_s: float) -> None:
        """Lose all connections, perhaps silently, and accept none for `down_s`."""
        self.reachable.clear()
        self.loop.call_later(down_s, self.reachable.set)
        silent = self.random.random() * 100 < self.network.silent
        for connection in list(self.connections):
            if silent and 0 < connection.keepalive_s <= KEEPALIVE_MAX_S:
                self.counts["silent outages"] += 1
                connection.lose()
                self.leave(connection)
                self._silent.append(connection)
            else:
                connection.cut()

    def cut(self) -> None:
        """Lose all connections."""
        for connection in list(self.connections):
            connection.cut()

    def forget(self) -> None:
        """Lose what a broker keeps in memory."""
        raise NotImplementedError

    def settle(self) -> None:
        """End delays, refusals, silent outages and the limit on unanswered messages."""
        if self.network.maximum:  # with this limit, the backlog might not be sent before the end
            self.cut()
        self.network = replace(self.network, late_ms=0, refuses=0, silent=0, maximum=0)
        for connection in self._silent:
            connection.cut()

    def end_process(self) -> None:
        """End the connections of a process that has exited; the broker does not learn of every end."""
        for connection in list(self.connections):
            connection.die(is_silent=self.random.random() < 0.5)

    def leave(self, connection: Connection) -> None:
        """Forget a connection that has ended."""
        if connection in self.connections:
            self.connections.remove(connection)

    # --- the protocol --------------------------------------------------------------------------

    def take(self, connection: Connection, packet: mqtt.Packet) -> None:
        """Handle a packet of a client."""
        match packet:
            case mqtt.Connect():
                self._on_connect(connection, packet)
            case mqtt.Ping():
                self.counts["pings"] += 1
                connection.send(mqtt.PINGRESP)
            case mqtt.Disconnect():
                self.leave(connection)
            case _ if connection.connect is None:
                raise InvariantViolation("the agent sends before the broker has answered CONNECT")
            case _:
                self._take(connection, packet)

    def _on_connect(self, connection: Connection, connect: mqtt.Connect) -> None:
        reason = self._refusal(connect)
        if reason:
            self.counts["refused connections"] += 1
            connection.send(mqtt.connack(connect.level, reason), Hooks(after=connection.cut))
            return
        for former in list(self.connections):  # MQTT 3.1.4: the loss of this connection was not noticed
            if former.connect is not None and former.connect.client_id == connect.client_id:
                former.cut()
        connection.connect = connect
        connection.keepalive_s = connect.keepalive_s
        granted = {}
        if connect.level == mqtt.MQTT_5 and self.network.keepalive_s:
            connection.keepalive_s = granted[0x13] = self.network.keepalive_s
        self._accept(connection, connect, granted)

    def _refusal(self, connect: mqtt.Connect) -> int:
        """Return the reason code with which a connection is refused, or 0 if it is accepted."""
        if self.random.random() * 100 < self.network.refuses:
            return mqtt.UNAVAILABLE[connect.level]
        return 0

    def _accept(self, connection: Connection, connect: mqtt.Connect, granted: dict[int, int]) -> None:
        raise NotImplementedError

    def _take(self, connection: Connection, packet: mqtt.Packet) -> None:
        raise NotImplementedError


class Mail(NamedTuple):
    """A message at the source's broker."""

    topic: str
    payload: bytes
    qos: int
    retain: bool


@dataclass(eq=False)
class Mailbox:
    """One client's queue at the source's broker: waiting messages, and unacknowledged messages by packet id.

    `filters` holds the client's subscriptions, including the subscriptions of former processes. `redelivered`
    is the number of messages at the front of `waiting` that are sent as duplicates. `acknowledged` holds
    messages whose acknowledgements the broker has not saved yet.
    """

    filters: set[str] = field(default_factory=set)
    acknowledged: deque[Mail] = field(default_factory=lambda: deque(maxlen=_UNSAVED_MAX))
    waiting: deque[Mail] = field(default_factory=deque)
    unacknowledged: dict[int, Mail] = field(default_factory=dict)
    redelivered: int = 0
    connection: Connection | None = None

    def forget(self) -> None:
        """Lose the session."""
        self.filters.clear()
        self.waiting.clear()
        self.acknowledged.clear()
        self.unacknowledged.clear()
        self.redelivered = 0


class SourceBroker(Broker):
    """The source's broker."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, observer: Observer, random: Random, network: Network
    ) -> None:
        super().__init__(loop, observer, random, network)
        self.mailboxes: dict[str, Mailbox] = {}
        self._last_id = random.choice([0, LAST_ID - 20])

    @property
    def owed(self) -> list[int]:
        """The packet ids of the messages that connected clients have not acknowledged."""
        return [
            packet_id for box in self.mailboxes.values() if box.connection for packet_id in box.unacknowledged
        ]

    def publish(self, topic: str, payload: bytes, qos: int, *, retain: bool) -> None:
        """Accept a message for its subscribers; at QoS 0, only for those that are connected."""
        mail = Mail(topic, payload, qos, retain)
        for box in self.mailboxes.values():
            matches = any(matches_filter(topic_filter, topic) for topic_filter in box.filters)
            if matches and (qos or box.connection):
                box.waiting.append(mail)
                self._hand_over(box)

    def forget(self) -> None:
        """Lose every session."""
        for box in self.mailboxes.values():
            box.forget()

    def lose_answers(self) -> None:
        """Lose the last acknowledgements: the messages are delivered again, before all others."""
        for box in self.mailboxes.values():
            lost_mails = {-number: mail for number, mail in enumerate(box.acknowledged, 1)}
            self.counts["lost acknowledgements"] += len(lost_mails)
            box.unacknowledged = lost_mails | box.unacknowledged
            box.acknowledged.clear()

    def shuffle(self) -> None:
        """Put unacknowledged and waiting messages into one random order, none marked as a duplicate."""
        for box in self.mailboxes.values():
            messages = [*box.unacknowledged.values(), *box.waiting]
            self.random.shuffle(messages)
            self.counts["redelivered"] += len(box.unacknowledged)
            box.unacknowledged.clear()
            box.waiting = deque(messages)
            box.redelivered = 0

    def _accept(self, connection: Connection, connect: mqtt.Connect, granted: dict[int, int]) -> None:
        box = self.mailboxes.setdefault(connect.client_id, Mailbox())
        if connect.clean:
            box.forget()
        self.counts["redelivered"] += len(box.unacknowledged)
        box.waiting.extendleft(reversed(box.unacknowledged.values()))
        box.redelivered = len(box.unacknowledged)
        box.unacknowledged.clear()
        box.connection = connection
        connection.send(mqtt.connack(connect.level, 0, is_present=bool(box.filters), properties=granted))
        self._hand_over(box)

    def leave(self, connection: Connection) -> None:
        """Forget the connection, but keep its unacknowledged messages for the next one."""
        super().leave(connection)
        for box in self.mailboxes.values():
            if box.connection is connection:
                box.connection = None

    def _take(self, connection: Connection, packet: mqtt.Packet) -> None:
        box = next((box for box in self.mailboxes.values() if box.connection is connection), None)
        if box is None or connection.connect is None:
            return  # a later connection of the same client has taken over
        match packet:
            case mqtt.Subscribe(packet_id=packet_id, topic_filter=topic_filter):
                box.filters.add(topic_filter)
                client_id = connection.connect.client_id
                hooks = Hooks(before=lambda: self.observer.on_subscribe(client_id))
                connection.send(mqtt.suback(connection.level, packet_id), hooks)
            case mqtt.Puback(packet_id=packet_id):
                check(
                    packet_id in box.unacknowledged,
                    "the agent acknowledges a message that was not sent on this connection",
                )
                box.acknowledged.append(box.unacknowledged.pop(packet_id))
                self._hand_over(box)
            case _:
                raise InvariantViolation("the agent publishes at the source's broker", type(packet).__name__)

    def _hand_over(self, box: Mailbox) -> None:
        """Send waiting messages, up to the limit on unacknowledged messages."""
        connection = box.connection
        if connection is None or connection.connect is None:
            return
        limit = connection.connect.receive_maximum or INFLIGHT_3_1_1
        while box.waiting and len(box.unacknowledged) < limit:
            mail = box.waiting.popleft()
            duplicate, box.redelivered = box.redelivered > 0, max(box.redelivered - 1, 0)
            packet_id = 0
            if mail.qos:
                packet_id = self._last_id = self._last_id % LAST_ID + 1
                box.unacknowledged[packet_id] = mail
            flags = mail.retain | (8 if duplicate and mail.qos else 0)
            connection.send(mqtt.publish(connection.level, packet_id, mail.topic, mail.payload, flags))


class RetainingBroker(SourceBroker):
    """The source's broker, which also sends what it has retained to each new subscription."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, observer: Observer, random: Random, network: Network
    ) -> None:
        super().__init__(loop, observer, random, network)
        self.retained: dict[str, bytes] = {}

    def publish_retained(self, topic: str, payload: bytes) -> None:
        """Accept a message, and retain it."""
        self.retained[topic] = payload
        self.publish(topic, payload, 1, retain=False)

    def _take(self, connection: Connection, packet: mqtt.Packet) -> None:
        super()._take(connection, packet)
        if isinstance(packet, mqtt.Subscribe):
            for box in self.mailboxes.values():
                if box.connection is connection:
                    topics = [topic for topic in self.retained if matches_filter(packet.topic_filter, topic)]
                    box.waiting.extend(Mail(topic, self.retained[topic], 1, retain=True) for topic in topics)
                    self._hand_over(box)


def matches_filter(topic_filter: str, topic: str) -> bool:
    """Return whether a filter matches a topic; it may have `+` for a level, and `/#` at its end."""
    patterns, levels = topic_filter.split("/"), topic.split("/")
    if patterns[-1] == "#":
        patterns.pop()
        levels = levels[: len(patterns)]
    return len(patterns) == len(levels) and all(map(lambda a, b: a in ("+", b), patterns, levels))


class SinkBroker(Broker):
    """The sink's broker, or another broker of receivers.

    `retained` holds the retained messages of the agent and of a crowd's operators by topic, and `foreign`
    those of other stores, which publish them again if they are replaced. Topics begin with the broker's name
    or, at the sink's broker, with `private` or `crowd`. While `stalls` is set, nothing is confirmed;
    `refuses` makes the broker refuse the next publication. For the running agent, `_visits` counts the
    connections by client id, and `_retained_for` holds the client ids that have received the confirmation of
    a message to be retained.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, observer: Observer, plan: Schedule, name: str
    ) -> None:
        super().__init__(loop, observer, Random(f"{name} {plan.seed}"), plan.network)
        self.retained: dict[str, bytes] = {}
        self.foreign: dict[str, bytes] = {}
        self._owners = (name, "private", "crowd") if name == "sink" else (name,)
        self._listeners: dict[str, list[Connection]] = {}
        self.stalls = False
        self.refuses = False
        self._unanswered: dict[Connection, dict[int, Publication]] = {}
        self._visits = Counter[str]()
        self._retained_for: set[str] = set()

    def forget(self) -> None:
        """Lose what was retained, but not what other stores and operators keep there."""
        self.counts["forgotten descriptors"] += len(self.retained)
        self.retained = {topic: text for topic, text in self.retained.items() if topic.startswith("crowd/")}

    def begin_agent(self) -> None:
        """Begin with an agent that knows nothing of this broker."""
        self._visits.clear()
        self._retained_for.clear()

    def _refusal(self, connect: mqtt.Connect) -> int:
        if connect.level > self.network.level:
            return mqtt.UNSUPPORTED[connect.level]
        return super()._refusal(connect)

    def _accept(self, connection: Connection, connect: mqtt.Connect, granted: dict[int, int]) -> None:
        self._unanswered[connection] = {}
        self._visits[connect.client_id] += 1
        if connect.level == mqtt.MQTT_5 and self.network.maximum:
            granted[0x21] = self.network.maximum
        connection.send(mqtt.connack(connect.level, 0, properties=granted))

    def leave(self, connection: Connection) -> None:
        """Forget the connection and its unanswered publications."""
        super().leave(connection)
        self._unanswered.pop(connection, None)

    def _take(self, connection: Connection, packet: mqtt.Packet) -> None:
        if isinstance(packet, mqtt.Subscribe):
            self._subscribe(connection, packet)
            return
        if isinstance(packet, mqtt.Unsubscribe):
            self._unsubscribe(connection, packet)
            return
        if not isinstance(packet, mqtt.Publish):
            raise InvariantViolation("the agent acknowledges at the sink's broker", type(packet).__name__)
        if connection not in self._unanswered:
            return
        waiting = self._unanswered[connection]
        check(packet.packet_id not in waiting, "a packet id is reused before it is answered")
        limit = self.network.maximum if connection.level == mqtt.MQTT_5 else 0
        check(not limit or len(waiting) < limit, "the broker is sent more messages at once than it accepts")
        waiting[packet.packet_id] = Publication(*packet)
        owner = packet.topic.partition("/")[0]
        check(owner in self._owners, "a message is sent to a broker that is not its receiver's", packet.topic)
        self._check_flag(connection, packet)
        if packet.retain:
            self.retain(packet.topic, packet.payload)
        late_s = self.random.random() * self.network.late_ms / 1000
        self.loop.call_later(late_s, self._answer, connection, packet.packet_id)

    def _subscribe(self, connection: Connection, packet: mqtt.Subscribe) -> None:
        """Confirm a subscription to keys or to a receiver's topic, and send what is retained there."""
        topic = packet.topic_filter
        check(topic.partition("/")[0] in self._owners, "the agent subscribes to a topic of others", topic)
        self._listeners.setdefault(topic, []).append(connection)
        hooks = Hooks(lambda: self.observer.on_answer(topic, is_foreign=None))
        connection.send(mqtt.suback(connection.level, packet.packet_id), hooks)
        if payload := self.foreign.get(topic) or self.retained.get(topic):
            self._send(connection, topic, payload, 1)

    def _unsubscribe(self, connection: Connection, packet: mqtt.Unsubscribe) -> None:
        listeners = self._listeners.get(packet.topic_filter, [])
        check(connection in listeners, "the agent ends a subscription that it does not have")
        listeners.remove(connection)
        connection.send(mqtt.unsuback(connection.level, packet.packet_id))

    def _send(self, connection: Connection, topic: str, payload: bytes, flags: int) -> None:
        is_foreign = topic in self.foreign

        def note() -> None:
            """Note that the agent is about to receive the message."""
            if payload:
                self.observer.on_answer(topic, is_foreign=is_foreign)

        connection.send(mqtt.publish(connection.level, 0, topic, payload, flags), Hooks(note))

    def retain(self, topic: str, payload: bytes, *, is_foreign: bool = False) -> None:
        """Retain a message, or clear the topic if the payload is empty; send it to all subscribers."""
        messages = self.foreign if is_foreign else self.retained
        messages.pop(topic, None)
        if payload:
            messages[topic] = payload
        for connection in self._listeners.get(topic, ()):
            if connection in self.connections:
                self._send(connection, topic, payload, 0)

    def _check_flag(self, connection: Connection, packet: mqtt.Publish) -> None:
        """Check that a descriptor has the retain flag, unless the agent may think that the broker refuses it.

        With MQTT 5, a broker that retains nothing says so. With MQTT 3.1.1, it closes the connection, and
        never confirms such a message.
        """
        client_id = connection.connect.client_id if connection.connect is not None else ""
        is_suspect = connection.level == mqtt.MQTT_3 and self._visits[client_id] > LOSSES
        may_lack = is_suspect and client_id not in self._retained_for
        is_descriptor = "/privacy" in packet.topic
        check(
            packet.retain or not is_descriptor or may_lack,
            "a descriptor leaves without the flag to retain it",
            packet.topic,
        )

    def _answer(self, connection: Connection, packet_id: int) -> None:
        if connection not in self._unanswered or self.stalls:
            return
        if self.refuses:
            self.refuses = False
            self.counts["refused publications"] += 1
            self.refuse(connection, packet_id)
            return
        publication = self._unanswered[connection].pop(packet_id)
        hooks = Hooks(lambda: self._confirm(connection, publication), self.observer.after_confirm)
        connection.send(mqtt.puback(packet_id), hooks)

    def _confirm(self, connection: Connection, publication: Publication) -> None:
        """Note that the agent is about to receive the confirmation of a publication."""
        if publication.retain and connection.connect is not None:
            self._retained_for.add(connection.connect.client_id)
        self.observer.on_confirm(publication)

    def refuse(self, connection: Connection, packet_id: int) -> None:
        """Refuse a publication because a quota is exceeded, and answer nothing more on the connection.

        With MQTT 3.1.1, a broker can only end the connection.
        """
        if connection.level == mqtt.MQTT_5:
            self._unanswered.pop(connection)
            connection.send(mqtt.puback(packet_id, mqtt.QUOTA_EXCEEDED))
        else:
            connection.cut()
