"""The table `[source]` of the configuration: the broker from which `collect` receives records."""

import re
from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple
from urllib.parse import urlsplit

from pydantic import Field

from meteragent.collect import subject
from meteragent.config import read_endpoint, read_password, read_secret
from meteragent.config.files import address_refusals
from meteragent.config.model import Broker
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
"""The URL schemes of NATS and Kafka."""
_ADDRESS: Final = "mqtt://, mqtts://, nats://, tls:// (NATS), kafka:// or kafkas:// with host[:port]"
_CONSUMER: Final = re.compile(r"[A-Za-z0-9_-]+")
_KAFKA_TOPIC: Final = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")
_FILES: Final = ("ca_file", "cert_file", "key_file")


class Source(Broker):
    """The broker from which records are received."""

    url: str = "mqtt://127.0.0.1:1883"
    """The broker's address: mqtt://host[:port], nats:// or kafka://; with TLS: mqtts://, tls:// or kafkas://.
    NATS and Kafka may have several hosts: nats://a:4222,b:4222.
    """
    client_id: str = Field("meteragent-collect", min_length=1, max_length=64)
    """The name under which the broker keeps undelivered messages or, with Kafka, the group's offsets."""
    kafka_topics: tuple[str, ...] = ()
    """The Kafka topics that hold records and descriptors."""
    sasl: Sasl = "SCRAM-SHA-512"
    """The SASL mechanism with which `collect` logs in to Kafka."""

    @property
    def kind(self) -> Kind:
        """The kind of broker; MQTT unless the scheme is one of NATS or Kafka."""
        scheme = _SCHEMES.get(self.url.partition("://")[0])
        return "MQTT" if scheme is None else scheme.kind

    def read_servers(self) -> tuple[Endpoint, ...]:
        """Return the broker's servers. Raises ConfigError if a file cannot be used."""
        if self.kind == "MQTT":
            return (read_endpoint("source", self.url, self),)
        for key in _FILES:
            path = getattr(self, key)
            if path is not None:
                read_secret(f"source.{key}", path)
        password = None
        if self.password_file is not None:
            password = read_password("source.password_file", self.password_file)
        scheme, hosts = _parse_servers(self.url)
        login = (self.username, password, self.ca_file, self.cert_file, self.key_file)
        return tuple(Endpoint(host, port, scheme.is_tls, *login) for host, port in hosts)


def source_refusals(source: Source, topics: Sequence[str]) -> Iterator[ConfigError]:
    """Yield refusals of the URL, and of keys and topics that contradict others or do not suit the broker."""
    yield from _foreign_key_errors(source)
    if source.kind == "MQTT":
        for error in address_refusals("source", source.url, source):
            expected = _ADDRESS if error.key == "source.url" else error.expected
            yield ConfigError(error.key, error.found, expected)
        return
    yield from _login_errors(source)
    try:
        _parse_servers(source.url)
    except ValueError as error:
        yield ConfigError("source.url", str(error), _ADDRESS)
    yield from (_nats_errors(source, topics) if source.kind == "NATS" else _kafka_errors(source))


def _foreign_key_errors(source: Source) -> Iterator[ConfigError]:
    for key, kind in (("protocol", "MQTT"), ("kafka_topics", "Kafka"), ("sasl", "Kafka")):
        if key in source.model_fields_set and kind != source.kind:
            yield ConfigError(f"source.{key}", f"a key for {kind}", f"no such key for {source.kind}")


def _login_errors(source: Source) -> Iterator[ConfigError]:
    if source.password_file is not None and source.username is None:
        yield ConfigError("source.password_file", "a password without a user name", "source.username as well")
    if source.key_file is not None and source.cert_file is None:
        yield ConfigError("source.key_file", "a key without its certificate", "source.cert_file as well")
    scheme = source.url.partition("://")[0]
    for key in _FILES:
        if getattr(source, key) is not None and not _SCHEMES[scheme].is_tls:
            expected = "tls://" if source.kind == "NATS" else "kafkas://"
            yield ConfigError(f"source.{key}", f"a TLS file, but {scheme}://", f"{expected} in source.url")


def _nats_errors(source: Source, topics: Sequence[str]) -> Iterator[ConfigError]:
    if not _CONSUMER.fullmatch(source.client_id):
        expected = "letters, digits, - and _, because it begins the names of NATS consumers"
        yield ConfigError("source.client_id", repr(source.client_id), expected)
    for index, topic in enumerate(topics):
        if not subject.is_accepted_topic(topic):
            expected = "a topic without white space and without a level * or >, which NATS reserves"
            yield ConfigError(f"stream[{index}].topic", repr(topic), expected)


def _kafka_errors(source: Source) -> Iterator[ConfigError]:
    if not source.kafka_topics:
        yield ConfigError("source.kafka_topics", "no topic", "Kafka's topics, such as ['private']")
    for index, topic in enumerate(source.kafka_topics):
        if not _KAFKA_TOPIC.fullmatch(topic):
            expected = "letters, digits, dots, - and _"
            yield ConfigError(f"source.kafka_topics[{index}]", repr(topic), expected)
    if len(set(source.kafka_topics)) < len(source.kafka_topics):
        yield ConfigError("source.kafka_topics", "a duplicate topic", "each topic once")
    if source.username is not None and source.password_file is None:
        yield ConfigError("source.username", "a user name without a password", "source.password_file as well")


def _parse_servers(url: str) -> tuple[_Scheme, list[tuple[str, int]]]:
    """Return the scheme, and each server's host and port. Raises ValueError, never with the address."""
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
