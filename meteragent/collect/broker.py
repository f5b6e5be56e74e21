"""The table `[source]` of the configuration: where records arrive. Its URL's scheme names the kind of broker.

The keys of a broker (`config.broker.Broker`) are those of the agent's configuration, with the same texts of
refusals.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple
from urllib.parse import urlsplit

from pydantic import Field

from meteragent.collect import subject
from meteragent.config import endpoint, read_secret
from meteragent.config.broker import Broker
from meteragent.config.files import wrong_address
from meteragent.domain.errors import ConfigError
from meteragent.mqtt import Endpoint

Kind = Literal["MQTT", "NATS", "Kafka"]
Sasl = Literal["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"]


class _Scheme(NamedTuple):
    kind: Kind
    is_tls: bool
    port: int


_SCHEMES: Final = {
    "nats": _Scheme("NATS", is_tls=False, port=4222),
    "tls": _Scheme("NATS", is_tls=True, port=4222),
    "kafka": _Scheme("Kafka", is_tls=False, port=9092),
    "kafkas": _Scheme("Kafka", is_tls=True, port=9093),
}
"""The schemes of brokers other than MQTT's."""
_ADDRESS: Final = "mqtt://, mqtts://, nats://, tls:// (NATS), kafka:// or kafkas:// with host[:port]"
_CONSUMER: Final = re.compile(r"[A-Za-z0-9_-]+")
_KAFKA_TOPIC: Final = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")
_FILES: Final = ("ca_file", "cert_file", "key_file")


class Source(Broker):
    """Where records arrive."""

    url: str = "mqtt://127.0.0.1:1883"
    """The broker: mqtt://host[:port], or mqtts:// for TLS; nats:// or tls:// for NATS; kafka:// or kafkas://.
    NATS and Kafka may have several hosts: nats://a:4222,b:4222.
    """
    client_id: str = Field("meteragent-collect", min_length=1, max_length=64)
    """The name under which the broker keeps what waits, and Kafka the group's offsets."""
    kafka_topics: tuple[str, ...] = ()
    """Kafka's topics that hold records and descriptors."""
    sasl: Sasl = "SCRAM-SHA-512"
    """How a user name and password are sent to Kafka."""

    @property
    def kind(self) -> Kind:
        """The kind of broker."""
        scheme = _SCHEMES.get(self.url.partition("://")[0])
        return "MQTT" if scheme is None else scheme.kind

    def servers(self) -> tuple[Endpoint, ...]:
        """Return the servers; raises ConfigError if an address or a file cannot be used."""
        if self.kind == "MQTT":
            return (endpoint("source", self.url, self),)
        for key in _FILES:
            path = getattr(self, key)
            if path is not None:
                read_secret(f"source.{key}", path)
        password = None
        if self.password_file is not None:
            password = read_secret("source.password_file", self.password_file).decode(errors="replace")
        scheme, hosts = _parse(self.url)
        login = (self.username, password, self.ca_file, self.cert_file, self.key_file)
        return tuple(Endpoint(host, port, scheme.is_tls, *login) for host, port in hosts)


def wrong(source: Source, topics: Sequence[str]) -> Iterator[ConfigError]:
    """Yield refusals of keys that do not fit each other, and of topics that do not fit the broker."""
    yield from _strangers(source)
    if source.kind == "MQTT":
        for error in wrong_address("source", source.url, source):
            expected = _ADDRESS if error.key == "source.url" else error.expected
            yield ConfigError(error.key, error.found, expected)
        return
    yield from _wrong_login(source)
    try:
        _parse(source.url)
    except ValueError as error:
        yield ConfigError("source.url", str(error), _ADDRESS)
    yield from (_wrong_for_nats(source, topics) if source.kind == "NATS" else _wrong_for_kafka(source))


def _strangers(source: Source) -> Iterator[ConfigError]:
    """Yield refusals of keys of another kind of broker."""
    for key, kind in (("protocol", "MQTT"), ("kafka_topics", "Kafka"), ("sasl", "Kafka")):
        if key in source.model_fields_set and kind != source.kind:
            yield ConfigError(f"source.{key}", f"a key of {kind}", f"no such key for {source.kind}")


def _wrong_login(source: Source) -> Iterator[ConfigError]:
    if source.password_file is not None and source.username is None:
        yield ConfigError("source.password_file", "a password without a user name", "source.username as well")
    if source.key_file is not None and source.cert_file is None:
        yield ConfigError("source.key_file", "a key without its certificate", "source.cert_file as well")
    scheme = source.url.partition("://")[0]
    for key in _FILES:
        if getattr(source, key) is not None and not _SCHEMES[scheme].is_tls:
            expected = "tls://" if source.kind == "NATS" else "kafkas://"
            yield ConfigError(f"source.{key}", f"a file of TLS, and {scheme}://", f"{expected} in source.url")


def _wrong_for_nats(source: Source, topics: Sequence[str]) -> Iterator[ConfigError]:
    if not _CONSUMER.fullmatch(source.client_id):
        expected = "letters, digits, - and _, from which NATS consumers get their names"
        yield ConfigError("source.client_id", repr(source.client_id), expected)
    for index, topic in enumerate(topics):
        if not subject.holds(topic):
            expected = "a topic without white space and without levels * and >, which NATS reserves"
            yield ConfigError(f"stream[{index}].topic", repr(topic), expected)


def _wrong_for_kafka(source: Source) -> Iterator[ConfigError]:
    if not source.kafka_topics:
        yield ConfigError("source.kafka_topics", "no topic", "Kafka's topics, such as ['private']")
    for index, topic in enumerate(source.kafka_topics):
        if not _KAFKA_TOPIC.fullmatch(topic):
            expected = "letters, digits, dots, - and _"
            yield ConfigError(f"source.kafka_topics[{index}]", repr(topic), expected)
    if len(set(source.kafka_topics)) < len(source.kafka_topics):
        yield ConfigError("source.kafka_topics", "a topic twice", "each topic once")
    if source.username is not None and source.password_file is None:
        yield ConfigError("source.username", "a user without a password", "source.password_file as well")


def _parse(url: str) -> tuple[_Scheme, list[tuple[str, int]]]:
    """Return the scheme and the hosts of an address.

    Raises ValueError, which names the fault. No text repeats the address, because it may contain a password.
    """
    name, _, hosts_text = url.partition("://")
    scheme = _SCHEMES[name]
    if "@" in hosts_text:
        raise ValueError("an address with a user name or password, which belong in the keys of those names")
    hosts = []
    for text in hosts_text.removesuffix("/").split(","):
        try:
            parts = urlsplit(f"//{text}")
            port = scheme.port if parts.port is None else parts.port
        except ValueError:
            port = 0
        if not port:
            raise ValueError("a port that is not a number from 1 to 65535")
        if not parts.hostname or parts.path or parts.query or parts.fragment:
            raise ValueError("an address without a host, or with a path")
        hosts.append((parts.hostname, port))
    return scheme, hosts
