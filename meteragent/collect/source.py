"""The protocol that every source of messages implements, and the choice of a source by the configuration."""

import importlib
from collections.abc import Sequence
from typing import NoReturn, Protocol

from meteragent.collect.configuration import Settings
from meteragent.collect.core import Message
from meteragent.collect.mqtt import MqttSource
from meteragent.mqtt.reconnect import Entropy


class Source(Protocol):
    """Messages of a broker, which delivers each message again until it is acknowledged.

    `is_shared` states whether one meter's messages may be divided among several collectors.
    """

    is_shared: bool

    async def run(self) -> NoReturn:
        """Stay connected until cancelled."""
        ...

    async def batch(self, size: int) -> list[Message]:
        """Wait for messages, and return at most `size` of them, each with its MQTT topic.

        A shared source returns an empty list after a long wait without messages.
        """
        ...

    async def acknowledge(self, messages: Sequence[Message]) -> None:
        """Acknowledge messages whose effects have been committed."""
        ...


def make(settings: Settings, filters: Sequence[str], entropy: Entropy) -> Source:
    """Return the source that a configuration names, for messages whose topics match the filters.

    Kafka has no filters: there, the source reads the configured topics. The NATS or Kafka library is imported
    only if the configuration names such a source.
    """
    keys = settings.source
    if keys.kind == "NATS":
        module = importlib.import_module("meteragent.collect.nats")
        source: Source = module.NatsSource(keys.servers(), keys.client_id, filters, entropy)
    elif keys.kind == "Kafka":
        module = importlib.import_module("meteragent.collect.kafka")
        source = module.KafkaSource(keys.servers(), keys.client_id, keys.kafka_topics, keys.sasl)
    else:
        source = MqttSource(keys.servers()[0], keys.client_id, filters, entropy)
    return source
