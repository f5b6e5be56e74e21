"""One live connection: what is received, acknowledged and published on it, and why it ended."""

import asyncio
import struct
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal, NoReturn

from meteragent.errors import LinkError
from meteragent.mqtt.client import Client, Events, Will
from meteragent.mqtt.endpoint import Endpoint

Token = tuple[int]
"""Acknowledges one message; it is this very object that counts, not what it holds."""

OnMessage = Callable[[str, bytes, int, bool, Token | None], None]
"""Called with topic, payload, QoS (0 or 1), the retain flag, and a token (None at QoS 0)."""

OnDelivered = Callable[[int, int], None]
"""Called with the packet id and the broker's reason code, below 0x80 (0x10: nobody subscribes)."""

OnRefused = Callable[[int, int], None]
"""Called with the packet id and the broker's reason code, 0x80 or above, of a publication that it refused."""

Count = Callable[[Literal["lost", "publish_refused"]], None]
"""Called when a connection that stood is lost; when the broker refuses a publication."""

_VERSION_REFUSED: Final = (0x01, 0x84)
_REFUSED: Final = 0x80
_OF_THE_CONNECTION: Final = (0x91, 0x97)
"""Refusals that are about no topic: the packet id is in use, a quota is exceeded."""
_PUBACK: Final = struct.Struct("!BBH").pack


class VersionRefused(LinkError):
    """The broker does not speak this version of MQTT."""


class SubscriptionRefused(LinkError):
    """The broker does not let us subscribe."""


class DroppedEarly(LinkError):
    """The broker closed the connection without an answer; perhaps it does not know this version."""


@dataclass(frozen=True, slots=True)
class Link:
    """What all connections of one `keep_connected` have in common; its arguments."""

    endpoint: Endpoint
    client_id: str
    on_message: OnMessage
    on_delivered: OnDelivered
    on_refused: OnRefused | None
    receive_maximum: int
    inflight: int
    session_expiry_s: int
    keepalive_s: int
    timeout_s: float
    count: Count
    will: Will | None


class Session:
    """One connection, made by `keep_connected`, good until `closed`.

    version          5, or 4 for MQTT 3.1.1
    accepted         the broker has answered the connection with yes
    session_present  the broker still knows us: our subscriptions stand
    inflight         how many publications may be unanswered at once:
                     min(asked, CONNACK Receive Maximum - 2), at least 1
    """

    def __init__(self, link: Link, version: int) -> None:
        self.version = version
        self.accepted = False
        self.session_present = False
        self.inflight = link.inflight
        self._link = link
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._reason: Exception = LinkError("the session has not ended")
        self._unacked: dict[int, list[Token | None]] = {}
        self._early: list[tuple[str, bytes, int, bool, Token | None]] | None = []
        self._subscribing: dict[int, asyncio.Future[int]] = {}
        self._client = Client(
            link.client_id,
            self._events(),
            receive_maximum=link.receive_maximum,
            session_expiry_s=link.session_expiry_s,
            username=link.endpoint.username,
            password=link.endpoint.password,
            will=link.will,
        )

    def _events(self) -> Events:
        return Events(
            refused=self._on_refused,
            accepted=self._on_accepted,
            message=self._on_message,
            puback=self._on_puback,
            suback=self._on_suback,
            lost=self._on_lost,
            unreadable=self._on_unreadable,
        )

    async def subscribe(self, topic_filter: str) -> None:
        """Subscribe at QoS 1 and wait for the answer; raises LinkError unless that is granted."""
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._subscribing[self._client.subscribe(topic_filter)] = answer
        await self._first_of(answer, "the subscription")
        if answer.result() != 1:
            raise SubscriptionRefused(f"subscription refused: reason 0x{answer.result():02x}")

    def unsubscribe(self, topic_filter: str) -> None:
        """End a subscription; raises LinkError when the session has ended."""
        if self._ended.done():
            raise LinkError("the session has ended")
        self._client.unsubscribe(topic_filter)

    def acknowledge(self, tokens: Iterable[Token]) -> None:
        """Tell the broker that these messages are done with.

        Tokens of other sessions, and those already acknowledged, are ignored. The acknowledgements
        of one turn of the event loop leave in one write. Brokers use an id again once it is acknowledged,
        mosquitto 2.0.11 after 65,535 messages whether it is or not, and take an acknowledgement for the
        oldest message of its id: so it leaves when that one is done with.
        """
        pubacks = []
        for token in tokens:
            packet_id = token[0]
            named = self._unacked.get(packet_id, [])
            named[:] = [None if held is token else held for held in named]  # by identity
            while named and named[0] is None:
                del named[0]
                pubacks.append(_PUBACK(0x40, 2, packet_id))
            if not named:
                self._unacked.pop(packet_id, None)
        if pubacks:
            self._client.write(b"".join(pubacks))

    def pause(self, *, reading: bool) -> None:
        """Read no more from the broker, or again; a broker that hears nothing ends the connection."""
        self._client.pause(reading=reading)

    def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> int:
        """Publish at QoS 1; returns the packet id that `on_delivered` will be called with.

        Raises LinkError when the session has ended or no packet id is free. The caller keeps at
        most `inflight` unanswered, which also bounds what waits to be written.
        """
        if self._ended.done():
            raise LinkError("the session has ended")
        try:
            return self._client.publish(topic, payload, retain)
        except OverflowError:
            raise LinkError("no packet id is free") from None

    async def closed(self) -> NoReturn:
        """Wait for the end of the session; raises why: a LinkError, or what a callback or serve raised."""
        await asyncio.shield(self._ended)
        raise self._reason

    # The life of a session, for keep_connected

    async def open(self) -> None:
        """Connect; raises LinkError when it cannot be done within `timeout_s`."""
        connecting = asyncio.ensure_future(self._connect())
        try:
            await self._first_of(connecting, "the connection")
        finally:
            connecting.cancel()
            await asyncio.wait({connecting})
        self.inflight = max(1, min(self._link.inflight, self._client.receive_maximum - 2))

    async def _connect(self) -> None:
        endpoint, keepalive_s = self._link.endpoint, self._link.keepalive_s
        try:
            tls = endpoint.tls_context()
            await self._client.connect(endpoint.host, endpoint.port, tls, keepalive_s, self.version)
        except OSError as error:
            self._end(LinkError(f"cannot connect: {error}"))
        except Exception as error:  # noqa: BLE001 -- rule 3: it is raised where it ends the agent
            self._end(error)

    async def run(self, serve: "Callable[[Session], Awaitable[None]]") -> NoReturn:
        """Run `serve` until the session ends; raises why it ended, or what `serve` raised."""
        serving = asyncio.ensure_future(self._serve(serve))
        asyncio.get_running_loop().call_soon(self._hand_over_early)  # after the first step of serve
        try:
            await _first({self._ended})
        finally:
            serving.cancel()
            await asyncio.wait({serving})
        raise self._reason

    async def _serve(self, serve: "Callable[[Session], Awaitable[None]]") -> None:
        try:
            await serve(self)
        except Exception as error:  # noqa: BLE001 -- as above
            self._end(error)

    async def close(self) -> None:
        """Write what is waiting and DISCONNECT; the broker keeps its side of the session."""
        self._end(LinkError("the session was closed"))
        await self._client.close()

    async def _first_of(self, answer: asyncio.Future[Any], of: str) -> None:
        """Wait for an answer; raises why the session ended, or LinkError after `timeout_s`."""
        await _first({answer, self._ended}, self._link.timeout_s)
        if self._ended.done():
            raise self._reason
        if not answer.done():
            raise LinkError(f"no answer to {of} within {self._link.timeout_s:g} s")

    def _end(self, reason: Exception) -> None:
        """End the session; a failure of ours outweighs the LinkErrors that come with it."""
        ours = isinstance(self._reason, LinkError) and not isinstance(reason, LinkError)
        if ours or not self._ended.done():
            self._reason = reason
        if not self._ended.done():
            self._ended.set_result(None)

    # What the client reports

    def _on_refused(self, reason: int, text: str) -> None:
        kind = VersionRefused if reason in _VERSION_REFUSED else LinkError
        self._end(kind(f"connection refused: {text}"))

    def _on_accepted(self, session_present: bool) -> None:
        self.accepted = True
        self.session_present = session_present

    def _on_message(
        self, topic: str | bytes, payload: bytes, qos: int, retain: bool, packet_id: int, repeated: bool
    ) -> None:
        token: Token | None = None
        if packet_id:
            if repeated and packet_id in self._unacked:
                return  # what it repeats was sent on this connection
            token = (packet_id,)
            self._unacked.setdefault(packet_id, []).append(token)
        elif qos != 0:
            self._end(LinkError(f"the broker sent a message at QoS {qos}"))
        if isinstance(topic, bytes) or "\0" in topic:
            self._on_unreadable()
        elif self._early is None:
            self._hand_over(topic, payload, qos, retain, token)
        else:
            self._early.append((topic, payload, qos, retain, token))

    def _hand_over_early(self) -> None:
        early, self._early = self._early or [], None
        for message in early:
            self._hand_over(*message)

    def _hand_over(self, topic: str, payload: bytes, qos: int, retain: bool, token: Token | None) -> None:
        if self._ended.done():
            return
        try:
            self._link.on_message(topic, payload, qos, retain, token)
        except Exception as error:  # noqa: BLE001 -- rule 3: it is raised where it ends the agent
            self._end(error)

    def _on_puback(self, packet_id: int, reason: int) -> None:
        if self._ended.done():
            return
        answered = self._link.on_delivered
        if reason >= _REFUSED:
            self._link.count("publish_refused")
            if self._link.on_refused is None or reason in _OF_THE_CONNECTION:
                self._end(LinkError(f"publication refused: reason 0x{reason:02x}"))
                return
            answered = self._link.on_refused
        try:
            answered(packet_id, reason)
        except Exception as error:  # noqa: BLE001 -- rule 3: it is raised where it ends the agent
            self._end(error)

    def _on_suback(self, packet_id: int, granted: int) -> None:
        answer = self._subscribing.pop(packet_id, None)
        if answer is not None and not answer.done():
            answer.set_result(granted)

    def _on_lost(self, reason: int | None) -> None:
        if not self.accepted:
            self._end(DroppedEarly("the broker closed the connection without an answer"))
        elif reason is not None:
            self._end(LinkError(f"the broker ended the connection: reason 0x{reason:02x}"))
        else:
            self._end(LinkError("the connection was lost"))

    def _on_unreadable(self) -> None:
        self._end(LinkError("the broker sent a packet that cannot be read"))


async def _first(of: set[asyncio.Future[Any]], timeout_s: float | None = None) -> None:
    await asyncio.wait(of, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
