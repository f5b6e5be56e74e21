"""The source for Kafka: a member of a consumer group, whose offsets follow the commits of the sink.

librdkafka (confluent-kafka) commits stored offsets to Kafka once a second, when partitions are revoked, and
when the consumer is closed. The offset after a message is stored only after its effect has been committed in
the sink, so messages arrive again after a crash, or when partitions move, and change no row. The library
blocks, so all calls to it are made in a separate thread.

The MQTT topic is the header `mqtt_topic` or else the key; a Kafka record without either is refused.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, Final, NoReturn, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka import Message as KafkaMessage

from meteragent.collect.core import PAYLOAD_MAX, Message
from meteragent.collect.queue import LINGER_S
from meteragent.domain.errors import LinkError
from meteragent.mqtt import Endpoint

SESSION_MS: Final = 45_000
"""The time without heartbeats after which a member's partitions are assigned to other members."""
COMMIT_MS: Final = 1_000
"""The interval at which offsets are committed."""
IDLE_S: Final = 10.0
"""How long a batch waits for its first message."""
REPEAT_S: Final = 60.0
"""The time before a repeated error of the library is logged again."""
HEADER: Final = "mqtt_topic"
_PROTOCOLS = {
    (False, False): "plaintext",
    (False, True): "sasl_plaintext",
    (True, False): "ssl",
    (True, True): "sasl_ssl",
}
"""Kafka's names of the security protocols. A key states whether TLS is used and whether there is a login."""

_log = logging.getLogger("meteragent.collect.kafka")
_Result = TypeVar("_Result")


class KafkaSource:
    """A member of a consumer group."""

    is_shared, is_up = True, False

    def __init__(self, servers: Sequence[Endpoint], group: str, topics: Sequence[str], sasl: str) -> None:
        self._name = ", ".join(f"{server.host}:{server.port}" for server in servers)
        self._settings, self._topics = consumer_settings(servers, group, sasl), list(topics)
        self._thread = ThreadPoolExecutor(1, "kafka")
        self._consumer: Consumer | None = None
        self._start = asyncio.Event()
        self._log_times_s: dict[str, float] = {}

    async def run(self) -> NoReturn:
        """Stay in the group until cancelled. Raises LinkError if the library refuses settings or topics."""
        consumer = await self._call_checked(Consumer, self._settings | {"error_cb": self._log_error})
        try:
            await self._call_checked(partial(consumer.subscribe, self._topics, on_assign=self._on_assign))
            self._consumer = consumer
            self._start.set()
            cancellation: asyncio.Future[NoReturn] = asyncio.get_running_loop().create_future()
            await cancellation
        finally:
            self._consumer = None
            await asyncio.shield(self._call(consumer.close))
            self._thread.shutdown(wait=False)

    async def take_batch(self, size: int) -> list[Message]:
        """Wait for messages, and return at most `size` of them, or none if none arrive for IDLE_S seconds."""
        await self._start.wait()
        end_s = asyncio.get_running_loop().time() + IDLE_S
        while self._consumer is not None and asyncio.get_running_loop().time() < end_s:
            arrivals = await self._call(self._consumer.consume, size, LINGER_S)
            for message in arrivals:
                if (error := message.error()) is not None:
                    self._log_error(error)
            if messages := [_to_message(message) for message in arrivals if message.error() is None]:
                self.is_up = True
                return messages
        return []

    async def acknowledge(self, messages: Sequence[Message]) -> None:
        """Store the offsets after these messages for partitions that are still assigned to this member."""
        latest: dict[tuple[str | None, int | None], KafkaMessage] = {}
        for message in messages:
            latest[message.token.topic(), message.token.partition()] = message.token
        if self._consumer is not None:
            await self._call(_store_offsets, self._consumer, list(latest.values()))

    async def _call(self, work: Callable[..., _Result], *arguments: Any) -> _Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)

    async def _call_checked(self, work: Callable[..., _Result], *arguments: Any) -> _Result:
        try:
            return await self._call(work, *arguments)
        except KafkaException as error:
            raise LinkError(f"source {self._name}: {error.args[0].str()}") from None

    def _on_assign(self, _: Consumer, partitions: Sequence[TopicPartition]) -> None:
        self.is_up = True
        _log.info("source %s: Kafka assigned partitions: %d", self._name, len(partitions))

    def _log_error(self, error: KafkaError) -> None:
        """Log an error unless it was logged less than REPEAT_S seconds ago; the library itself recovers."""
        if error.code() == KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001  the library has no other name for it
            self.is_up = False
        text, now_s = error.str(), time.monotonic()
        if now_s - self._log_times_s.get(error.name(), -REPEAT_S) >= REPEAT_S:
            self._log_times_s[error.name()] = now_s
            _log.warning("source %s: %s", self._name, text)


def consumer_settings(servers: Sequence[Endpoint], group: str, sasl: str) -> dict[str, Any]:
    """Return the settings of librdkafka for a consumer group; `sasl` is the mechanism of the login."""
    server = servers[0]
    has_login = server.username is not None
    values = {
        "bootstrap.servers": ",".join(f"{server.host}:{server.port}" for server in servers),
        "group.id": group,
        "client.id": "meteragent-collect",
        "auto.offset.reset": "earliest",
        "enable.auto.offset.store": False,
        "auto.commit.interval.ms": COMMIT_MS,
        "session.timeout.ms": SESSION_MS,
        "heartbeat.interval.ms": min(3_000, SESSION_MS // 3),
        "queued.max.messages.kbytes": 32 * 1024,
        "log_level": 2,  # errors are reported to `error_cb`
        "security.protocol": _PROTOCOLS[server.tls, has_login],
        "sasl.mechanism": sasl if has_login else None,
        "sasl.username": server.username,
        "sasl.password": server.password,
        "ssl.ca.location": server.ca_file,
        "ssl.certificate.location": server.cert_file,
        "ssl.key.location": server.key_file or server.cert_file,
    }
    return {key: str(value) for key, value in values.items() if value is not None}


def _store_offsets(consumer: Consumer, messages: Sequence[KafkaMessage]) -> None:
    """Store the offset after each message, except for partitions that have been revoked."""
    for message in messages:
        with suppress(KafkaException):
            consumer.store_offsets(message=message)


def _to_message(arrival: KafkaMessage) -> Message:
    headers = dict(arrival.headers() or ())
    topic = headers.get(HEADER) or arrival.key() or b"?"
    name = topic if isinstance(topic, str) else topic.decode(errors="replace")
    # One byte more than the limit is enough for the core to refuse the message.
    payload = (arrival.value() or b"")[: PAYLOAD_MAX + 1]
    return Message(name, payload, arrival)
