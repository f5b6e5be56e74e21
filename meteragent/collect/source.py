"""The sources of messages: the protocol of each, and the one that a configuration names."""

from collections.abc import Sequence
from typing import Final, NoReturn, Protocol

from meteragent.collect.configuration import Settings
from meteragent.collect.core import Message
from meteragent.collect.mqtt import MqttSource
from meteragent.mqtt import Entropy

EXTRAS: Final = {"NATS": ("collect-nats",), "Kafka": ("collect-kafka",)}
"""The extras that each kind of source needs in addition to the sink's extra."""


class Source(Protocol):
    """Messages of a broker, which delivers each message again until it is acknowledged.

    `is_shared` states whether one meter's messages may be divided among several collectors, `is_up` whether
    there is a connection.
    """

    is_shared: bool
    is_up: bool

    async def run(self) -> NoReturn:
        """Stay connected until cancelled."""
        ...

    async def take_batch(self, size: int) -> list[Message]:
        """Wait for messages, and return at most `size`; a shared source may return none after a while."""
        ...

    async def acknowledge(self, messages: Sequence[Message]) -> None:
        """Acknowledge messages whose effects have been committed."""
        ...


def source_of(settings: Settings, filters: Sequence[str], entropy: Entropy) -> Source:
    """Return the source that a configuration names; Kafka reads its own topics instead of filters."""
    keys = settings.source
    if keys.kind == "NATS":
        from meteragent.collect.nats import NatsSource  # noqa: PLC0415  needs an extra of its own

        return NatsSource(keys.read_servers(), keys.client_id, filters, entropy)
    if keys.kind == "Kafka":
        from meteragent.collect.kafka import KafkaSource  # noqa: PLC0415  likewise

        return KafkaSource(keys.read_servers(), keys.client_id, keys.kafka_topics, keys.sasl)
    return MqttSource(keys.read_servers()[0], keys.client_id, filters, entropy)
