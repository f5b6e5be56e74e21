"""One open connection: it receives, acknowledges and publishes messages, and records why it ended."""

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any, Final, NoReturn, assert_never

from meteragent.domain.errors import LinkError
from meteragent.mqtt import packets, protocol
from meteragent.mqtt.link import Link, Token
from meteragent.mqtt.transport import Transport
from meteragent.mqtt.unacknowledged import Unacknowledged

SKIP_S: Final = 60.0
"""The longest time, in seconds, that an oversized packet may take to arrive."""
UNANSWERED_S: Final = 300.0
"""The longest wait, in seconds, for an answer to a publication; then the connection ends."""

_CONNECTION_REFUSALS: Final = (0x91, 0x97)
"""Refusals that do not concern the topic: the packet id is in use, or a quota is exceeded."""
_WITH_WILL: Final = 0x04
_MALFORMED: Final = 0x81
"""Reason codes of a DISCONNECT (MQTT 5): publish the last will; the broker has sent a malformed packet."""

_SHORT_EXPIRY: Final = "%s: the broker keeps a lost session for %d s instead of the requested %d s"

_log = logging.getLogger(__name__)


Serve = Callable[["Session"], Awaitable[None]]
"""A function that uses a session until it ends."""


class VersionRefused(LinkError):
    """A refusal of this version of MQTT."""


class LoginRefused(LinkError):
    """A refusal of the user name or password, or of a client that is not authorised."""

    code = "login_refused"


_REFUSALS: Final[dict[int, type[LinkError]]] = {
    **dict.fromkeys((0x01, 0x84), VersionRefused),
    **dict.fromkeys((0x04, 0x05, 0x86, 0x87), LoginRefused),
}
"""The error for each reason code in a CONNACK of MQTT 3.1.1 or 5; other codes raise a LinkError."""
_PROBLEMS: Final = {
    **dict.fromkeys((0x02, 0x85), "client_id_refused"),
    0x9A: "no_retain",
    0x9B: "qos_refused",
}
"""The code of the problem that a reason code in a CONNACK or DISCONNECT names."""


class SubscriptionRefused(LinkError):
    """A refusal of a subscription, or its grant at a QoS other than 1."""

    code = "subscription_refused"


class NoConnack(LinkError):
    """A CONNECT without an answer; perhaps the broker does not know this version."""

    code = "no_answer"


class NoAnswer(LinkError):
    """A connection attempt or a subscription that was not answered in time."""


class Session:
    """One connection, created by `keep_connected` and usable until it ends.

    version          5, or 4 for MQTT 3.1.1
    session_present  whether the broker has kept the session of an earlier connection, with its subscriptions
    inflight         the largest number of unanswered publications: min(requested, CONNACK's Receive Maximum)
    retains          whether the broker retains messages; otherwise, `publish` ignores `retain`
    keeps_order      whether messages are acknowledged in the order of their arrival
    """

    def __init__(self, link: Link, version: int) -> None:
        self.version = version
        self.session_present = False
        self.inflight = link.inflight
        self.retains = True
        self.keeps_order = link.endpoint.keeps_order
        self._link = link
        self._loop = asyncio.get_running_loop()
        self._session_end: asyncio.Future[None] = self._loop.create_future()
        self._end_reason: Exception = LinkError("the session has not ended")
        self._unacknowledged = Unacknowledged(keeps_order=self.keeps_order)
        self._early_messages: list[tuple[str, bytes, int, bool, Token | None]] | None = []
        self._pending_subscriptions: dict[int, asyncio.Future[int]] = {}
        self._publish_times_s: dict[int, float] = {}
        self._skip_start_s: float | None = None
        self._connect_written = False
        self._disconnect_reason = _WITH_WILL if link.will else 0
        self._connack = asyncio.Event()
        self._protocol = protocol.Protocol(version, max_packet_bytes=protocol.MAX_PACKET_BYTES)
        self._transport = Transport(self._protocol, self._on_event, self._on_lost, self._check_time_limits)

    @property
    def is_accepted(self) -> bool:
        """Whether the broker has accepted the connection."""
        return self._connack.is_set()

    async def subscribe(self, topic_filter: str) -> None:
        """Subscribe at QoS 1 and wait for the answer. Raises LinkError unless QoS 1 is granted in time."""
        answer: asyncio.Future[int] = self._loop.create_future()
        packet_id, packet = self._protocol.encode_subscribe(topic_filter)
        self._pending_subscriptions[packet_id] = answer
        self._transport.write(packet)
        await self._await_answer(answer, "the subscription")
        if answer.result() != 1:
            raise _refusal_of(self.version, answer.result())

    def unsubscribe(self, topic_filter: str) -> None:
        """End a subscription without waiting for the answer. Raises LinkError if the session has ended."""
        if self._session_end.done():
            raise LinkError("the session has ended")
        self._transport.write(self._protocol.encode_unsubscribe(topic_filter))

    def acknowledge(self, tokens: Iterable[Token]) -> None:
        """Acknowledge messages; tokens of other sessions and tokens returned before are ignored.

        All acknowledgements of one iteration of the event loop are written together; some must wait for
        earlier messages.
        """
        if packet_ids := self._unacknowledged.release(tokens):
            self._transport.write(b"".join(map(packets.encode_puback, packet_ids)))

    @property
    def unacknowledged_count(self) -> int:
        """The number of messages that have not been acknowledged."""
        return len(self._unacknowledged)

    def set_reading(self, *, is_reading: bool) -> None:
        """Pause or resume reading; after a long pause, the broker may end the connection."""
        self._transport.set_reading(is_reading=is_reading)

    def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> int:
        """Publish at QoS 1; return the packet id for `on_delivered` or `on_refused`.

        The caller must keep at most `inflight` publications unanswered, to bound the waiting bytes. Raises
        LinkError if the session has ended, too many are unanswered, or this one is too large.
        """
        if self._session_end.done():
            raise LinkError("the session has ended")
        packet_id, packet = self._protocol.encode_publish(topic, payload, retain=retain and self.retains)
        self._publish_times_s[packet_id] = self._loop.time()
        self._transport.write(packet)
        return packet_id

    # --- calls from keep_connected -------------------------------------------------------------

    async def open(self) -> None:
        """Connect. Raises LinkError if the attempt fails or takes longer than `timeout_s`."""
        connect_task = asyncio.ensure_future(self._run_to_end(self._connect))
        try:
            await self._await_answer(connect_task, "the connection attempt")
        except NoAnswer as error:
            raise NoConnack(str(error)) if self._connect_written else error from None
        finally:
            connect_task.cancel()
            await asyncio.wait({connect_task})

    async def _connect(self) -> None:
        endpoint = self._link.endpoint
        try:
            await self._transport.connect(endpoint.host, endpoint.port, endpoint.tls_context())
        except OSError as error:
            reason = str(error) or "the connection was ended"
            raise LinkError(f"cannot connect: {reason}", endpoint.problem_code(error)) from None
        self._transport.write(self._protocol.encode_connect(self._link.request))
        self._connect_written = True
        await self._connack.wait()

    async def run(self, serve: Serve) -> NoReturn:
        """Run `serve` until the session ends; raise the reason, perhaps an error of `serve` or a callback."""
        serve_task = asyncio.ensure_future(self._run_to_end(partial(serve, self)))
        self._loop.call_soon(self._hand_over_early)  # runs after the first step of `serve`
        try:
            await _wait_for_first({self._session_end})
        finally:
            serve_task.cancel()
            await asyncio.wait({serve_task})
        raise self._end_reason

    async def _run_to_end(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do some work, whose error ends the session."""
        try:
            await work()
        except Exception as error:  # noqa: BLE001 -- rule 3: `run` raises it
            self._end(error)

    async def close(self) -> None:
        """End the session: write the waiting packets and, except over 3.1.1 with a will, a DISCONNECT."""
        self._end(LinkError("the session was closed"))
        # In 3.1.1 a DISCONNECT would make the broker discard the will, which it must publish.
        is_silent = self._link.will and self.version == packets.MQTT_3
        disconnect = packets.encode_disconnect(self.version, self._disconnect_reason)
        await self._transport.close(b"" if is_silent else disconnect)

    async def _await_answer(self, answer: asyncio.Future[Any], request: str) -> None:
        """Wait for `answer`. Raises `_end_reason` if the session ends first; NoAnswer after `timeout_s`."""
        await _wait_for_first({answer, self._session_end}, self._link.timeout_s)
        if self._session_end.done():
            raise self._end_reason
        if not answer.done():
            raise NoAnswer(f"no answer to {request} within {self._link.timeout_s:g} s")

    def _end(self, reason: Exception) -> None:
        """End the session; an error from a callback or `serve` replaces a LinkError as the reason."""
        replaces = isinstance(self._end_reason, LinkError) and not isinstance(reason, LinkError)
        if replaces or not self._session_end.done():
            self._end_reason = reason
        if not self._session_end.done():
            self._session_end.set_result(None)

    # --- events from the broker ----------------------------------------------------------------

    def _on_event(self, event: protocol.Event) -> None:
        if not self._session_end.done():
            try:
                self._handle(event)
            except Exception as error:  # noqa: BLE001 -- rule 3: `run` raises it
                self._end(error)

    def _handle(self, event: protocol.Event) -> None:
        match event:
            case protocol.Message():
                self._on_message(event)
            case protocol.Puback():
                self._on_answered(event)
            case protocol.Suback():
                answer = self._pending_subscriptions.pop(event.packet_id, None)
                if answer is not None and not answer.done():
                    answer.set_result(event.reason)
            case protocol.Connected():
                self._on_accepted(event)
            case protocol.Oversized():
                self._on_oversized(event)
            case protocol.Refusal() | protocol.Disconnect() | protocol.Violation():
                if isinstance(event, protocol.Violation):
                    self._disconnect_reason = _MALFORMED
                self._end(_reason_of(event))
            case _:
                assert_never(event)

    def _on_accepted(self, event: protocol.Connected) -> None:
        link = self._link
        if not event.has_qos_1:
            raise LinkError("the broker has no QoS 1", "qos_refused")
        self.retains = event.retains
        self.session_present = event.session_present
        self.inflight = min(link.inflight, event.receive_maximum)
        if event.session_expiry_s is not None and event.session_expiry_s < link.session_expiry_s:
            _log.warning(_SHORT_EXPIRY, link.name, event.session_expiry_s, link.session_expiry_s)
        keepalive_s = link.keepalive_s if event.keepalive_s is None else event.keepalive_s
        if keepalive_s:
            self._transport.keep_alive(keepalive_s)
        self._connack.set()

    def _on_message(self, message: protocol.Message) -> None:
        token: Token | None = None
        if message.packet_id:
            if message.duplicate and message.packet_id in self._unacknowledged:
                return  # the first delivery on this connection is still unacknowledged
            token = self._unacknowledged.add(message.packet_id)
        arguments = message.topic, message.payload, message.qos, message.retain, token
        if self._early_messages is None:
            self._link.on_message(*arguments)
        else:
            self._early_messages.append(arguments)

    def _hand_over_early(self) -> None:
        messages, self._early_messages = self._early_messages or [], None
        try:
            for message in messages:
                if not self._session_end.done():
                    self._link.on_message(*message)
        except Exception as error:  # noqa: BLE001 -- rule 3: `run` raises it
            self._end(error)

    def _on_oversized(self, event: protocol.Oversized) -> None:
        """Count and acknowledge an oversized message; otherwise the broker would keep sending it."""
        self._link.count("oversized")
        if self._skip_start_s is None:  # warn once, so that many such messages do not fill the log
            _log.warning("a message of %d bytes was skipped; further ones are only counted", event.size_bytes)
        self._skip_start_s = self._loop.time()
        if event.packet_id:
            self.acknowledge([self._unacknowledged.add(event.packet_id)])

    def _on_answered(self, event: protocol.Puback) -> None:
        self._publish_times_s.pop(event.packet_id, None)
        if event.reason < protocol.REFUSED:
            self._link.on_delivered(event.packet_id, event.reason)
            return
        self._link.count("publish_refused")
        if self._link.on_refused is None or event.reason in _CONNECTION_REFUSALS:
            raise LinkError(f"publication refused: reason 0x{event.reason:02x}")
        self._link.on_refused(event.packet_id, event.reason)

    # --- events from the transport -------------------------------------------------------------

    def _check_time_limits(self) -> bool:
        """End the session if an answer or an oversized packet takes too long; return whether it continues."""
        now_s = self._loop.time()
        if now_s - next(iter(self._publish_times_s.values()), now_s) >= UNANSWERED_S:
            self._end(LinkError(f"the broker has not answered a publication for {UNANSWERED_S:g} s"))
        elif self._protocol.is_skipping and now_s - (self._skip_start_s or now_s) >= SKIP_S:
            self._end(LinkError(f"the broker has not finished an oversized message within {SKIP_S:g} s"))
        return not self._session_end.done()

    def _on_lost(self, error: Exception | None) -> None:
        code = self._link.endpoint.problem_code(error) if isinstance(error, ssl.SSLError) else ""
        unanswered = NoConnack("the broker closed the connection without an answer", code)
        self._end(LinkError("the connection was lost") if self.is_accepted else unanswered)


def _reason_of(event: protocol.Refusal | protocol.Disconnect | protocol.Violation) -> LinkError:
    """Return the reason for the end of a session, with the code of the problem if the broker names it."""
    if isinstance(event, protocol.Violation):
        code = "port_with_tls" if event.rule == protocol.TLS_ANSWER else ""
        return LinkError(f"the broker violated MQTT: {event.rule}", code)
    code = _PROBLEMS.get(event.reason, "")
    if isinstance(event, protocol.Disconnect):
        text = f"the broker ended the connection: {event.text} (reason 0x{event.reason:02x})"
        return LinkError(text, code)
    text = f"connection refused: {event.text} (0x{event.reason:02x})"
    return _REFUSALS.get(event.reason, LinkError)(text, code)


def _refusal_of(version: int, reason: int) -> SubscriptionRefused:
    """Return the error for a subscription that was refused, or granted at QoS 0."""
    if not reason:
        return SubscriptionRefused("subscription granted at QoS 0 only", "qos_refused")
    text = packets.reason_text(version, reason)
    return SubscriptionRefused(f"subscription refused: {text} (0x{reason:02x})")


async def _wait_for_first(futures: set[asyncio.Future[Any]], timeout_s: float | None = None) -> None:
    await asyncio.wait(futures, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
