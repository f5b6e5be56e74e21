"""Kafka: what the library is told, which topic a Kafka record has, and which offsets may be committed."""

import asyncio
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from meteragent.collect import kafka
from meteragent.collect.core import PAYLOAD_MAX, Message
from meteragent.collect.kafka import KafkaSource, consumer_settings
from meteragent.domain.errors import LinkError
from meteragent.mqtt import Endpoint
from tests.support.collecting import NOW_MS, core, record_messages, terms_message, topic
from tests.support.kafka import TOPICS, Kafka
from tests.support.stores import TERMS

HOST = Endpoint("a", 9092, tls=False)


def endpoint(cluster: Kafka) -> Endpoint:
    """Return the address of a cluster of one broker."""
    host, _, port = cluster.servers.partition(":")
    return Endpoint(host, int(port), tls=False)


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        (HOST, {"security.protocol": "plaintext"}),
        (
            Endpoint("a", 1, tls=True, ca_file="ca", cert_file="both"),
            {
                "security.protocol": "ssl",
                "ssl.ca.location": "ca",
                "ssl.certificate.location": "both",
                "ssl.key.location": "both",
            },
        ),
        (
            Endpoint("a", 1, tls=True, username="me", password="p"),
            {
                "security.protocol": "sasl_ssl",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "me",
                "sasl.password": "p",
            },
        ),
    ],
)
def test_login_and_tls(server: Endpoint, expected: dict[str, str]) -> None:
    """The library gets what the configuration has, and nothing of what it lacks, and accepts the keys."""
    values = consumer_settings([server], "group", "PLAIN")
    named = {key: value for key, value in values.items() if key.startswith(("security.", "sasl.", "ssl."))}
    assert named == expected
    if server.ca_file is None:
        Consumer(values).close()


def test_offsets_follow_the_commits() -> None:
    """Nothing is stored by the library itself; a group without offsets begins at the first record."""
    values = consumer_settings([HOST, Endpoint("b", 9, tls=False)], "group", "PLAIN")
    assert values["bootstrap.servers"] == "a:9092,b:9"
    assert (values["enable.auto.offset.store"], values["auto.offset.reset"]) == ("False", "earliest")


async def test_a_file_that_the_library_refuses_ends_it(tmp_path: Path) -> None:
    """A certificate that is none is an error of the source, not a traceback."""
    (tmp_path / "ca").write_text("no certificate")
    server = Endpoint("127.0.0.1", 9, tls=True, ca_file=tmp_path / "ca")
    with pytest.raises(LinkError, match=r"source 127\.0\.0\.1:9: .*ca"):
        await KafkaSource([server], "group", ["a"], "PLAIN").run()


async def test_topics_that_the_library_refuses_end_it() -> None:
    """A pattern that is none is an error of the source, not a traceback."""
    with pytest.raises(LinkError, match=r"source 127\.0\.0\.1:9: .*subscription"):
        await KafkaSource([Endpoint("127.0.0.1", 9, tls=False)], "group", ["^["], "PLAIN").run()


async def test_only_what_is_acknowledged_is_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member that leaves commits the offsets of acknowledged messages; the next one gets the others.

    The topic is the header, or else the key; a record without either, or that is too large, is counted.
    """
    monkeypatch.setattr(kafka, "SESSION_MS", 1_100)  # the mock's next group waits nearly as long
    large = Message(topic("m2"), b"x" * (PAYLOAD_MAX + 10))
    with Kafka() as cluster:
        cluster.send([terms_message(TERMS), *record_messages(TERMS, [7, 8])])
        batch = core().take_messages(await received(cluster, 3, acknowledged=3), NOW_MS)
        assert sorted(row.quanta for row in batch.rows) == [7, 8]
        cluster.send([large])
        cluster.write("private", b"{}", None)
        for acknowledged in (0, 2):
            again = await received(cluster, 2, acknowledged=acknowledged)
            refused = core().take_messages(again, NOW_MS).refusal_counts
            assert refused == {("main", "too_large"): 1, ("", "topic"): 1}
        consumer = Consumer(consumer_settings([endpoint(cluster)], "group", "PLAIN"))
        places = [TopicPartition(name, part) for name in TOPICS for part in range(4)]
        assert sum(max(place.offset, 0) for place in consumer.committed(places, timeout=10)) == 5
        consumer.close()


async def test_a_cluster_that_is_gone_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The source is up while a broker answers, and no longer once all are gone."""
    monkeypatch.setattr(kafka, "IDLE_S", 0.1)
    with Kafka() as cluster:
        source = KafkaSource([endpoint(cluster)], "group", TOPICS, "PLAIN")
        running = asyncio.create_task(source.run())
        while not source.is_up:
            await source.take_batch(10)
    while source.is_up:
        await source.take_batch(10)
    running.cancel()
    await asyncio.wait([running])


async def received(cluster: Kafka, count: int, *, acknowledged: int) -> list[Message]:
    """Join the group, take messages, acknowledge some, and leave."""
    source = KafkaSource([endpoint(cluster)], "group", TOPICS, "PLAIN")
    running = asyncio.create_task(source.run())
    messages: list[Message] = []
    while len(messages) < count:
        messages += await source.take_batch(10)
    await source.acknowledge(messages[:acknowledged])
    running.cancel()
    await asyncio.wait([running])
    return messages
