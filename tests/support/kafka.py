"""librdkafka's own mock cluster in this process: brokers on loopback ports, with groups, without a disk.

No Kafka could be had for these tests. The mock speaks Kafka's protocol to any client, so the program under
test is a process of its own. It has no login, no TLS and no compaction, and forgets everything when it ends,
so it is never killed. It is made through the library's C interface (rdkafka_mock.h), because the Python one
cannot set the delay of a group's first rebalance, which is 3 s.
"""

import ctypes
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import confluent_kafka
from confluent_kafka import Producer

from meteragent.collect.core import Message

TOPICS: Final = ("private", "private-descriptors")
PARTITIONS: Final = 4
_PRODUCER: Final = 0
_FLUSH_S: Final = 30
_QUEUE_MAX: Final = 50_000
"""How many messages wait in the library at once; it takes 100,000."""


class Kafka:
    """A mock cluster with the topics of records and of descriptors."""

    def __init__(self, partitions: int = PARTITIONS) -> None:
        """Start a cluster. A partition of the mock keeps its newest 5 MB only."""
        folder = Path(confluent_kafka.__file__).parent.parent / "confluent_kafka.libs"
        [path] = folder.glob("librdkafka*.so*")
        self._library = ctypes.CDLL(str(path))
        text = ctypes.create_string_buffer(512)
        settings = self._pointer("rd_kafka_conf_new")
        self._call("rd_kafka_conf_set", settings, b"log_level", b"0", text, ctypes.c_size_t(512))
        self._client = self._pointer("rd_kafka_new", _PRODUCER, settings, text, ctypes.c_size_t(512))
        self._cluster = self._pointer("rd_kafka_mock_cluster_new", self._client, 1)
        self._call("rd_kafka_mock_group_initial_rebalance_delay_ms", self._cluster, 0)
        for topic in TOPICS:
            self._call("rd_kafka_mock_topic_create", self._cluster, topic.encode(), partitions, 1)
        address = self._library.rd_kafka_mock_cluster_bootstraps
        address.restype = ctypes.c_char_p
        self.servers = address(self._cluster).decode()

    def send(self, messages: Sequence[Message]) -> None:
        """Write messages as docs/collect.md lays them out, and wait for the answers."""
        producer = Producer({"bootstrap.servers": self.servers, "linger.ms": 5})
        for place, (topic, payload, _) in enumerate(messages):
            if place % _QUEUE_MAX == 0:
                producer.flush(_FLUSH_S)
            kafka_topic = TOPICS["/privacy" in topic]
            if place % 2:
                producer.produce(kafka_topic, payload, topic)
            else:
                meter = topic.split("/")[1]
                producer.produce(kafka_topic, payload, meter, headers={"mqtt_topic": topic.encode()})
        assert producer.flush(_FLUSH_S) == 0

    def write(self, topic: str, payload: bytes, key: bytes | None) -> None:
        """Write one Kafka record, and wait for the answer."""
        producer = Producer({"bootstrap.servers": self.servers})
        producer.produce(topic, payload, key)
        assert producer.flush(_FLUSH_S) == 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._call("rd_kafka_mock_cluster_destroy", self._cluster)
        self._call("rd_kafka_destroy", self._client)

    def _pointer(self, name: str, *arguments: object) -> ctypes.c_void_p:
        function = self._library[name]
        function.restype = ctypes.c_void_p
        return ctypes.c_void_p(function(*arguments))

    def _call(self, name: str, *arguments: object) -> None:
        self._library[name](*arguments)
