"""Where messages come from: the protocol of a source, and the source that a configuration names."""

import importlib
from collections.abc import Sequence
from typing import NoReturn, Protocol

from meteragent.collect.configuration import Settings
from meteragent.collect.core import Message
from meteragent.collect.mqtt import MqttSource
from meteragent.mqtt.reconnect import Entropy


class Source(Protocol):
    """Messages of a broker, which delivers each one again until it is acknowledged.

    A source is shared if other collectors take part of the messages of one meter.
    """

    is_shared: bool

    async def run(self) -> NoReturn:
        """Stay connected until cancelled."""
        ...

    async def batch(self, size: int) -> list[Message]:
        """Wait for messages, and return at most `size` of them, each with its MQTT topic.

        A shared source returns none if it has waited for a long time.
        """
        ...

    async def acknowledge(self, messages: Sequence[Message]) -> None:
        """Acknowledge messages whose effects are committed."""
        ...


def make(settings: Settings, filters: Sequence[str], entropy: Entropy) -> Source:
    """Return the source that a configuration names, for messages whose topics match the filters.

    The libraries of NATS and Kafka are imported only where they are needed.
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
