"""The two brokers, simulated: what they hold, hand over again, forget and confirm.

These stand in for `meteragent.mqtt` and everything beyond it; the agent's own Source and Sink talk to them as
to a Session. A broker keeps a mailbox for each client id that has subscribed: what was not acknowledged comes
again on the next connection, first and in order, or not in order. An acknowledgement is on its way for a
while, and is lost with its connection. What the sink publishes has left at once; its confirmation takes time.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple, NoReturn, Protocol, cast

from meteragent.domain.errors import LinkError
from meteragent.mqtt import Session, Token
from simulators.simtest.loop import Killed

WAY_S = 0.002
"""How long a packet is on its way."""

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
"""Topic, payload and the counter of what is no reading."""
OF_TIMES = ("refused_time", "refused_ahead")
"""Why readings are refused whose times are read; where they are not, these are readings of 5."""


class Observer(Protocol):
    """Who sees what crosses the border of the process, and may end it there."""

    def subscribed(self, name: str) -> None:
        """A stream's subscription is confirmed."""

    def acknowledges(self, tokens: list[Token]) -> int:
        """The agent acknowledges; returns how many of them still leave before it dies."""

    def after_acknowledging(self) -> None:
        """They have left."""

    def leaves(self, side: "SinkSession", topic: str, payload: bytes, *, retain: bool) -> None:
        """A publication leaves."""

    def after_leaving(self) -> None:
        """It has left."""

    def confirms(self, publication: "Publication") -> None:
        """The agent is about to be told that a publication was taken."""

    def after_confirming(self) -> None:
        """It has been told."""


class Mail(NamedTuple):
    """A message at the source's broker."""

    number: int
    topic: str
    payload: bytes
    qos: int
    retain: bool


class Publication(NamedTuple):
    """A message of the agent's on its way to the sink's broker."""

    packet_id: int
    topic: str
    payload: bytes
    retain: bool


@dataclass(eq=False)
class Link:
    """One side's broker: whether it can be reached, and who is connected."""

    loop: asyncio.AbstractEventLoop
    observer: Observer
    random: Random
    reachable: asyncio.Event = field(default_factory=asyncio.Event)
    sessions: dict[str, Any] = field(default_factory=dict)

    def drop(self, down_s: float) -> None:
        """Lose all connections; nobody gets one for a while."""
        self.reachable.clear()
        self.loop.call_later(down_s, self.reachable.set)
        self.cut()

    def cut(self) -> None:
        """Lose all connections."""
        for session in list(self.sessions.values()):
            session.end(LinkError("the connection was lost"))

    async def keep(
        self, name: str, make: Callable[[], Any], serve: Callable[[Session], Awaitable[None]]
    ) -> NoReturn:
        """Hold a connection, and run `serve` on each: `mqtt.keep_connected`, in short."""
        while True:
            await asyncio.sleep(WAY_S)
            await self.reachable.wait()
            session = self.sessions[name] = make()
            serving = asyncio.ensure_future(serve(cast("Session", session)))
            serving.add_done_callback(session.served)
            self.loop.call_soon(session.begin)
            try:
                await session.ended
            except LinkError:
                pass
            finally:
                del self.sessions[name]
                session.over()
                serving.cancel()
                await asyncio.wait({serving})
            await asyncio.sleep(0.02 + self.random.random() / 5)


class _Session:
    """What sessions of both sides have in common."""

    def __init__(self, link: Link, version: int) -> None:
        self.version = version
        self.ended: asyncio.Future[None] = link.loop.create_future()

    @property
    def stands(self) -> bool:
        """Whether packets still cross it."""
        return not self.ended.done()

    def end(self, reason: BaseException) -> None:
        """It is over; a failure of ours is raised where the connection is kept."""
        if self.stands:
            self.ended.set_exception(reason)

    def served(self, serving: asyncio.Future[None]) -> None:
        """What `serve` raises ends the session."""
        if not serving.cancelled() and (error := serving.exception()) is not None:
            self.end(error)

    def begin(self) -> None:
        """`serve` has taken its first step."""

    def over(self) -> None:
        """Nothing of it reaches anybody any more."""
        if self.stands:
            self.ended.cancel()
        elif not self.ended.cancelled():
            self.ended.exception()  # looked at, so that nobody complains


# --- the source's side -------------------------------------------------------------------------


@dataclass(eq=False)
class Mailbox:
    """What the source's broker keeps for one client: messages that wait, and those handed over."""

    subscribed: bool = False
    waiting: deque[Mail] = field(default_factory=deque)
    handed: dict[Token, Mail] = field(default_factory=dict)
    session: "SourceSession | None" = None

    def forget(self) -> None:
        """The broker has lost the session."""
        self.subscribed = False
        self.waiting.clear()
        self.handed.clear()


@dataclass(eq=False)
class SourceBroker(Link):
    """The source's broker."""

    mailboxes: dict[str, Mailbox] = field(default_factory=dict)
    messages: int = 0
    again: int = 0

    def publish(self, topic: str, payload: bytes, qos: int, *, retain: bool) -> None:
        """A meter publishes: every subscriber gets it, or will."""
        self.messages += 1
        mail = Mail(self.messages, topic, payload, qos, retain)
        for box in list(self.mailboxes.values()):
            if box.subscribed and (qos or (box.session and box.session.stands)):
                box.waiting.append(mail)
                if box.session:
                    box.session.hand_over()

    def forget(self) -> None:
        """Every session is lost."""
        for box in self.mailboxes.values():
            box.forget()

    def shuffle(self) -> None:
        """What waits will come in another order."""
        for box in self.mailboxes.values():
            mixed = [*box.handed.values(), *box.waiting]
            self.random.shuffle(mixed)
            self.again += len(box.handed)
            box.handed.clear()
            box.waiting = deque(mixed)

    async def serve(self, unit: Any, version: int) -> NoReturn:
        """Be the broker of a stream's source."""
        box = self.mailboxes.setdefault(unit.source_id, Mailbox())
        await self.keep(
            unit.source_id, lambda: SourceSession(self, box, unit, version), unit.runner.source.serve
        )


class SourceSession(_Session):
    """A connection of the source's."""

    inflight = 1

    def __init__(self, link: SourceBroker, box: Mailbox, unit: Any, version: int) -> None:
        super().__init__(link, version)
        self._name = unit.stream.name
        self._link = link
        self._box = box
        self._source = unit.runner.source
        self._begun = False
        self._reading = True
        self._last_id = 0
        self._unacked: dict[int, Token] = {}
        box.session = self
        link.again += len(box.handed)
        box.waiting.extendleft(reversed([mail for mail in box.handed.values() if mail.qos]))
        box.handed.clear()

    @property
    def owed(self) -> list[Token]:
        """What the agent has not acknowledged."""
        return list(self._unacked.values())

    async def subscribe(self, _: str) -> None:
        """From now on the broker keeps messages."""
        await asyncio.sleep(WAY_S)
        self._box.subscribed = True
        self._link.observer.subscribed(self._name)

    def begin(self) -> None:
        """Messages that wait may come now."""
        self._begun = True
        self.hand_over()

    def pause(self, *, reading: bool) -> None:
        """Read no more for now, or again."""
        again, self._reading = reading and not self._reading, reading
        if again:
            self._link.loop.call_soon(self.hand_over)

    def hand_over(self) -> None:
        """Hand over what waits, as much as may be unacknowledged."""
        box = self._box
        maximum = self._source.receive_maximum if self.version == 5 else 20
        while self._begun and self._reading and self.stands and box.waiting and len(box.handed) < maximum:
            mail = box.waiting.popleft()
            self._last_id += 1
            token: Token | None = (self._last_id,) if mail.qos else None
            if token is not None:
                box.handed[token] = mail
                self._unacked[token[0]] = token
            try:
                self._source.on_message(mail.topic, mail.payload, mail.qos, mail.retain, token)
            except LinkError as error:
                self.end(error)

    def acknowledge(self, tokens: Iterable[Token]) -> None:
        """Acknowledgements leave, and arrive if the connection lives until then."""
        mine = [token for token in tokens if self._unacked.get(token[0]) is token] if self.stands else []
        for token in mine:
            del self._unacked[token[0]]
        if mine:
            leave = mine[: self._link.observer.acknowledges(mine)]
            timer = self._link.loop.call_later(WAY_S, self._arrive, leave)
            try:
                self._link.observer.after_acknowledging()
            except Killed:  # what the system was given it still sends
                timer.cancel()
                self._arrive(leave)
                raise

    def _arrive(self, tokens: list[Token]) -> None:
        if self._box.session is self and self.stands:
            for token in tokens:
                self._box.handed.pop(token, None)
            self.hand_over()

    def over(self) -> None:
        """The next session begins with what this one leaves."""
        super().over()
        if self._box.session is self:
            self._box.session = None


# --- the sink's side ---------------------------------------------------------------------------


@dataclass(eq=False)
class SinkBroker(Link):
    """The sink's broker."""

    stalls: bool = False
    refuses: bool = False
    refused: int = 0

    async def serve(self, unit: Any, count: Callable[[str], None]) -> NoReturn:
        """Be the broker of a stream's sink."""
        await self.keep(unit.sink_id, lambda: SinkSession(self, unit, count), unit.runner.sink.serve)


class SinkSession(_Session):
    """A connection of the sink's."""

    def __init__(self, link: SinkBroker, unit: Any, count: Callable[[str], None]) -> None:
        super().__init__(link, 5)
        self.inflight = unit.stream.sink.inflight
        self.name = unit.stream.name
        self.seen: dict[str, int] = {}
        self._link = link
        self._unit = unit
        self._count = count
        self._last_id = 0

    def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> int:
        """Publish at QoS 1; it has left when this returns."""
        if not self.stands:
            raise LinkError("the session has ended")
        self._last_id += 1
        self._link.observer.leaves(self, topic, payload, retain=retain)
        publication = Publication(self._last_id, topic, payload, retain)
        self._link.loop.call_later(2 * WAY_S, self._answer, publication)
        self._link.observer.after_leaving()
        return self._last_id

    def _answer(self, publication: Publication) -> None:
        link = self._link
        if not self.stands or link.stalls:
            return
        if link.refuses:
            link.refuses = False
            link.refused += 1
            self._count("publish_refused")
            self.end(LinkError("publication refused"))
            return
        link.observer.confirms(publication)
        self._unit.runner.sink.on_delivered(publication.packet_id, 0)
        link.observer.after_confirming()
