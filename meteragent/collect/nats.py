"""The source for NATS JetStream.

Each subject has its own durable consumer in each stream that holds the subject, because servers before 2.10
allow only one subject per consumer. `collect` creates consumers, never a stream. A message that is not
acknowledged within ACK_WAIT_S is delivered again. An acknowledgement refers to the message, not to the
connection, so queued messages can still be acknowledged after a reconnection. A full queue pauses pulling.
"""

import asyncio
import hashlib
import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from typing import Final, NamedTuple, NoReturn

from nats import errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.api import AckPolicy, ConsumerConfig

from meteragent.collect.core import Message
from meteragent.collect.queue import Queue
from meteragent.collect.subject import subjects_of, topic_of
from meteragent.domain.errors import LinkError
from meteragent.domain.problem import connection_advice
from meteragent.mqtt import Backoff, Endpoint, Entropy, LoginRefused
from meteragent.mqtt.reconnect import ConnectionLog

ACK_WAIT_S: Final = 30
"""The time after which an unacknowledged message is delivered again."""
QUEUE_MAX: Final = 10_000
PULL_MAX: Final = 1_000
"""The largest number of messages that a request asks for."""
PENDING_MAX: Final = 2 * QUEUE_MAX
"""The largest number of delivered but unacknowledged messages per consumer."""
EXPIRES_S: Final = 30
"""How long, in seconds, a request stays open if fewer than PULL_MAX messages arrive."""
CLOSE_S: Final = 2
"""The longest wait for a connection to close; after a failed handshake, the library would wait for ever."""
_TIMEOUT_S: Final = 10
_END_STATUSES: Final = {"404", "408"}
"""The statuses of a request that ended because there were no more messages."""

_log = logging.getLogger("meteragent.collect.nats")


class _Consumer(NamedTuple):
    """A durable consumer: its stream and its name."""

    stream: str
    name: str


class NatsSource:
    """Durable consumers in the streams of a JetStream server."""

    is_shared, is_up = False, False

    def __init__(
        self, servers: Sequence[Endpoint], client_id: str, filters: Sequence[str], entropy: Entropy
    ) -> None:
        self._servers, self._client_id, self._entropy = tuple(servers), client_id, entropy
        self._subjects = [subject for topic_filter in filters for subject in subjects_of(topic_filter)]
        self._queue, self._room = Queue(QUEUE_MAX), asyncio.Event()
        self._room.set()
        self._client: Client | None = None
        self._latest_error = ""
        """The latest error that the library reported on the current connection; empty if there is none."""

    async def run(self) -> NoReturn:
        """Stay connected until cancelled."""
        name = ", ".join(f"{server.host}:{server.port}" for server in self._servers)
        backoff, now_s = Backoff(self._entropy), asyncio.get_running_loop().time
        with closing(ConnectionLog(f"source {name}", partial(connection_advice, side="source"))) as log:
            while True:
                start_s = now_s()
                reason = await self._serve(log)
                lifetime_s = now_s() - start_s
                delay_s = backoff.delay_s(lifetime_s)
                log.on_failed(reason, lifetime_s, delay_s)
                await asyncio.sleep(delay_s)

    async def take_batch(self, size: int) -> list[Message]:
        """Wait for messages, and return at most `size` of them, in order of arrival."""
        messages = await self._queue.take(size)
        if self._queue.has_room:
            self._room.set()
        return messages

    async def acknowledge(self, messages: Sequence[Message]) -> None:
        """Acknowledge messages; if an acknowledgement is lost, the message is delivered again."""
        if self._client is not None:
            with suppress(errors.Error, OSError):
                for message in messages:
                    await self._client.publish(message.token)

    async def _serve(self, log: ConnectionLog) -> LinkError:
        """Connect, pull messages until the connection ends, and return the reason for its end."""
        client, end, self._latest_error = Client(), asyncio.Event(), ""
        reason = LinkError("the connection has ended")
        try:
            async with asyncio.TaskGroup() as tasks:
                with _translate_errors():
                    await self._connect(client, end)
                    consumers = [
                        consumer
                        for subject in self._subjects
                        for consumer in await self._create_consumers(client, subject)
                    ]
                self._client = client
                for consumer in consumers:
                    tasks.create_task(self._pull(client, consumer))
                version = client.connected_server_version
                log.on_connected(f"NATS {version.major}.{version.minor}.{version.patch}")
                self.is_up = True
                await end.wait()
                raise reason
        except* LinkError as group:
            reason = _first_error(group)
        finally:
            self._client, self.is_up = None, False
            await _close(client)
        if self._latest_error and self._latest_error not in str(reason):
            reason = type(reason)(f"{reason} ({self._latest_error})")
        return reason

    async def _connect(self, client: Client, end: asyncio.Event) -> None:
        async def on_closed() -> None:
            """Set `end`, because the connection has ended."""
            end.set()

        async def on_error(error: Exception) -> None:
            """Keep an error as the reason why the connection ends, so that the library does not print it."""
            _log.debug("%s", error)
            self._latest_error = _text(error)

        server = self._servers[0]
        await client.connect(
            [f"{'tls' if server.tls else 'nats'}://{_host(server)}" for server in self._servers],
            name=f"meteragent collect {self._client_id}",
            user=server.username,
            password=server.password,
            tls=server.tls_context(),
            allow_reconnect=False,
            max_reconnect_attempts=1,  # two attempts for each server; the default is 60
            reconnect_time_wait=0,
            connect_timeout=_TIMEOUT_S,
            ping_interval=EXPIRES_S,
            closed_cb=on_closed,
            error_cb=on_error,
        )

    async def _create_consumers(self, client: Client, subject: str) -> list[_Consumer]:
        """Return a subject's consumers, one per stream, creating new ones. Raises LinkError."""
        question = json.dumps({"subject": subject}).encode()
        answer = await client.request("$JS.API.STREAM.NAMES", question, timeout=_TIMEOUT_S)
        facts = json.loads(answer.data)
        if "error" in facts:
            raise LinkError(f"JetStream: {facts['error'].get('description')}")
        if not facts.get("streams"):
            raise LinkError(f"no stream holds the subject {subject}: docs/collect.md shows how to create one")
        name = f"{self._client_id}-{hashlib.sha256(subject.encode()).hexdigest()[:8]}"
        config = ConsumerConfig(
            name=name,
            durable_name=name,
            description=f"meteragent collect: {subject}",
            filter_subject=subject,
            ack_policy=AckPolicy.EXPLICIT,
            ack_wait=ACK_WAIT_S,
            max_ack_pending=PENDING_MAX,
        )
        for stream in facts["streams"]:
            await client.jetstream().add_consumer(stream, config, timeout=_TIMEOUT_S)
        return [_Consumer(stream, name) for stream in facts["streams"]]

    async def _pull(self, client: Client, consumer: _Consumer) -> NoReturn:
        """Request messages repeatedly. Raises LinkError if a request fails or is not answered."""
        request = json.dumps({"batch": PULL_MAX, "expires": EXPIRES_S * 1_000_000_000}).encode()
        subject, inbox = f"$JS.API.CONSUMER.MSG.NEXT.{consumer.stream}.{consumer.name}", client.new_inbox()
        answers: asyncio.Queue[str] = asyncio.Queue()
        remaining_count = 0

        async def on_message(message: Msg) -> None:
            """Queue a message, or the status of the request, which arrives under the inbox's subject."""
            nonlocal remaining_count
            if message.subject == inbox:
                answers.put_nowait(_status(message))
                return
            self._queue.put(Message(topic_of(message.subject), message.data, message.reply))
            if self._queue.is_full:
                self._room.clear()
            remaining_count -= 1
            if not remaining_count:
                answers.put_nowait("")

        with _translate_errors():
            await client.subscribe(inbox, cb=on_message)
            while True:
                await self._room.wait()
                remaining_count = PULL_MAX
                await client.publish(subject, request, inbox)
                async with asyncio.timeout(EXPIRES_S + _TIMEOUT_S):
                    status = await answers.get()
                if status:
                    raise LinkError(f"consumer {consumer.name} of {consumer.stream}: {status}")


async def _close(client: Client) -> None:
    """Close a connection, and stop waiting for the library after CLOSE_S seconds."""
    try:
        async with asyncio.timeout(CLOSE_S):
            await client.close()
    except TimeoutError:
        _log.debug("the connection did not close within %d s: dropped", CLOSE_S)
    except (errors.Error, OSError) as error:
        _log.debug("%s", error)


def _text(error: Exception) -> str:
    return str(error) or type(error).__name__


def _host(server: Endpoint) -> str:
    host = f"[{server.host}]" if ":" in server.host else server.host
    return f"{host}:{server.port}"


def _status(message: Msg) -> str:
    """Return the reason why a request failed; an empty string if there were no more messages."""
    headers = message.headers or {}
    status = headers.get("Status", "")
    return "" if status in _END_STATUSES else f"{status} {headers.get('Description', '')}".strip()


def _first_error(group: BaseExceptionGroup[LinkError]) -> LinkError:
    error = group.exceptions[0]
    return _first_error(error) if isinstance(error, BaseExceptionGroup) else error


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Translate the library's errors into LinkError, or LoginRefused if the server refuses the login."""
    try:
        yield
    except errors.NoRespondersError:
        raise LinkError(
            "JetStream does not answer: it is switched off, or not enabled for this account"
        ) from None
    except TimeoutError:
        raise LinkError("no answer: is the user allowed to query JetStream?") from None
    except (errors.Error, OSError) as error:
        text = _text(error)
        is_login = "authorization" in text.lower()  # the library raises no specific error for a refused login
        raise (LoginRefused if is_login else LinkError)(text) from None
