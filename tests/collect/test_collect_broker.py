"""The table `[source]`: MQTT, NATS or Kafka, by the scheme of its url; every wrong key is refused at once."""

from pathlib import Path

import pytest

from meteragent.cli import main
from meteragent.collect.configuration import Settings, parse
from meteragent.domain.errors import ConfigError

REST = '\n[[stream]]\ntopic = "{topic}"\n[database]\nurl = "postgresql:///x"\n'
KAFKA = 'url = "kafka://a"\nkafka_topics = ["private"]'


def settings(source: str, topic: str = "private/{meter}/power") -> Settings:
    """Parse a configuration with these lines of `[source]`."""
    return parse(f"[source]\n{source}{REST.replace('{topic}', topic)}")


def refusals(source: str, topic: str = "private/{meter}/power") -> list[str]:
    """Return the refused keys with what was found and expected."""
    with pytest.raises(ConfigError) as caught:
        settings(source, topic)
    return [f"{error.key}: {error.found}; {error.expected}" for error in caught.value.errors]


@pytest.mark.parametrize(
    ("url", "kind", "servers", "is_tls"),
    [
        ("mqtt://a", "MQTT", [("a", 1883)], False),
        ("mqtts://a:1", "MQTT", [("a", 1)], True),
        ("nats://a,b:4", "NATS", [("a", 4222), ("b", 4)], False),
        ("tls://[::1]:5/", "NATS", [("::1", 5)], True),
        ("kafka://a,b", "Kafka", [("a", 9092), ("b", 9092)], False),
        ("kafkas://a", "Kafka", [("a", 9093)], True),
    ],
)
def test_the_scheme_names_the_broker(
    url: str, kind: str, servers: list[tuple[str, int]], is_tls: bool
) -> None:
    """Each scheme has its port; NATS and Kafka may have several hosts."""
    topics = 'kafka_topics = ["private"]' if kind == "Kafka" else ""
    source = settings(f'url = "{url}"\n{topics}').source
    assert source.kind == kind
    assert [(server.host, server.port) for server in source.read_servers()] == servers
    assert {server.tls for server in source.read_servers()} == {is_tls}


@pytest.mark.parametrize(
    ("source", "refusal"),
    [
        ('url = "http://a"', "source.url: an address that does not begin with mqtt:// or mqtts://; mqtt://,"),
        ('url = "nats://"', "source.url: an address without a host"),
        ('url = "nats://a:0"', "source.url: a port that is not a number"),
        ('url = "nats://a:x,b"', "source.url: a port that is not a number"),
        ('url = "nats://a/b"', "source.url: an address without a host, or with a path"),
        ('url = "nats://me:secret@a"', "source.url: an address with a user name or password"),
        ('url = "nats://a"\nprotocol = "5"', "source.protocol: a key for MQTT; no such key for NATS"),
        ('url = "nats://a"\nsasl = "PLAIN"', "source.sasl: a key for Kafka; no such key for NATS"),
        ('kafka_topics = ["a"]', "source.kafka_topics: a key for Kafka; no such key for MQTT"),
        ('url = "nats://a"\nclient_id = "a.b"', "source.client_id: 'a.b'; letters, digits"),
        ('url = "nats://a"\nca_file = "x"', "source.ca_file: a TLS file, but nats://; tls:// in"),
        ('url = "nats://a"\npassword_file = "x"', "source.password_file: a password without a user name"),
        ('url = "tls://a"\nkey_file = "x"', "source.key_file: a key without its certificate"),
        ('url = "tls://a"\nca_file = "/nowhere/ca"', "source.ca_file: /nowhere/ca: no such file"),
        ('url = "kafka://a"', "source.kafka_topics: no topic; Kafka's topics, such as ['private']"),
        (KAFKA + '\nusername = "me"', "source.username: a user name without a password"),
        (KAFKA + '\nsasl = "GSSAPI"', "source.sasl: 'GSSAPI'; 'SCRAM-SHA-512', 'SCRAM"),
        (KAFKA.replace('"private"', '"a", "b c"'), "source.kafka_topics[1]: 'b c'; letters, digits"),
        (KAFKA.replace('"private"', '"a", "a"'), "source.kafka_topics: a duplicate topic; each topic once"),
    ],
)
def test_each_wrong_key_is_named(source: str, refusal: str) -> None:
    """A refusal names the key, what was found and what would be right; never a password."""
    [text] = refusals(source)
    assert text.startswith(refusal)
    assert "secret" not in text


@pytest.mark.parametrize("topic", ["private/{meter}/a b", "private/*/{meter}", ">/{meter}"])
def test_a_topic_that_nats_cannot_carry(topic: str) -> None:
    """White space and the wildcards of NATS are refused with the topic's key, for NATS only."""
    [text] = refusals('url = "nats://a"', topic)
    assert text.startswith("stream[0].topic: ")
    assert settings('url = "mqtt://a"', topic).stream[0].topic == topic


def test_all_errors_of_a_source_at_once() -> None:
    """Wrong keys of all sorts are in one refusal."""
    source = 'url = "nats://a:0"\nsasl = "PLAIN"\nclient_id = "a b"\npassword_file = "x"'
    assert [text.partition(":")[0] for text in refusals(source, "a b/{meter}")] == [
        "source.url",
        "source.sasl",
        "source.client_id",
        "source.password_file",
        "stream[0].topic",
    ]


def test_the_command_shows_the_source(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--check` names the kind of broker and its hosts."""
    path = tmp_path / "collect.toml"
    path.write_text(f"[source]\n{KAFKA}{REST.replace('{topic}', 'p/{meter}')}")
    assert main(["collect", str(path), "--check"]) == 0
    assert "source: Kafka at a:9092 under the name 'meteragent-collect'" in capsys.readouterr().out
