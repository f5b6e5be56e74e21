"""The part of `benchmarks.collect` that runs `collect` and a plain consumer as programs, with brokers.

Each broker holds the records.
Each program starts when all records are waiting at the broker. Time runs from the program's start: for
`collect` with a table, until the table has every record; for `collect` with files and for the plain consumer,
until the program has exited. CPU time is that of the program's process, including its start, without the
broker and the database. Memory is the peak of `collect`'s process, after a tenth of the records and at the
end.
"""

import asyncio
import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import nats
import psycopg

from meteragent.collect.core import Message
from meteragent.mqtt import Endpoint, Link, Session, keep_connected
from tests.integration.collecting import DURABLE, Collector
from tests.support.broker import Broker, mosquitto_program
from tests.support.collecting import TEMPLATE
from tests.support.kafka import TOPICS, Kafka
from tests.support.nats import Nats, nats_program

_WINDOW = 500
"""The largest number of publications in flight."""
_PARTITIONS = 64
"""The number of partitions of each Kafka topic; the mock keeps only the newest 5 MB of each partition."""


class Feed(NamedTuple):
    """The place where records wait.

    `source` holds the lines of `[source]` for `collect`, and `plain` the kind of broker and its URL for the
    plain consumer.
    """

    source: str
    plain: tuple[str, str]


class Run(NamedTuple):
    """The cost of a program: records per second, CPU time per record in µs, and memory peaks, if measured."""

    rate: float
    cpu_us: float
    memory_mib: tuple[float, float] | None = None


async def publish(url: str, records: Sequence[Message]) -> None:
    """Publish records at QoS 1, with at most `_WINDOW` of them in flight."""
    room, completion = asyncio.Semaphore(_WINDOW), asyncio.Event()
    answered = 0

    def on_delivered(_packet_id: int, _reason: int) -> None:
        """Allow the next publication, and count this one."""
        nonlocal answered
        answered += 1
        room.release()
        if answered == len(records):
            completion.set()

    async def serve(session: Session) -> None:
        """Publish all records."""
        for message in records:
            await room.acquire()
            session.publish(message.topic, message.payload)

    link = Link(Endpoint.parse(url), "meters", on_delivered=on_delivered, inflight=_WINDOW)
    connection = asyncio.ensure_future(keep_connected(link, serve, os.urandom))
    await completion.wait()
    connection.cancel()


async def publish_to_nats(url: str, records: Sequence[Message]) -> None:
    """Publish records, and wait until the stream has all of them."""
    client = await nats.connect(url)
    for place, message in enumerate(records):
        await client.publish(message.topic.replace("/", "."), message.payload)
        if place % 1000 == 0:
            await client.flush()
    await client.flush()
    stream = client.jetstream().stream_info
    while (await stream("RECORDS")).state.messages < len(records):  # noqa: ASYNC110 -- there is no event for it
        await asyncio.sleep(0.1)
    await client.close()


@contextmanager
def by_mqtt(folder: Path, records: Sequence[Message], url: str) -> Iterator[Feed]:
    """Publish the records to a mosquitto broker, which holds them in a session for each program."""
    program = mosquitto_program()
    assert program is not None
    with Broker(program, folder, settings=DURABLE) as broker:
        feed = Feed(f'url = "{broker.url}"', ("mqtt", broker.url))
        with Collector(folder, feed.source, url) as collector:
            while not collector.is_connected():
                time.sleep(0.1)
            time.sleep(0.5)  # for the subscriptions
            assert collector.stop() == 0
        _plain(feed, url, 0).wait()
        asyncio.run(publish(broker.url, records))
        yield feed


@contextmanager
def by_nats(folder: Path, records: Sequence[Message], _: str) -> Iterator[Feed]:
    """Publish the records to a nats-server, which holds them in a stream."""
    program = nats_program()
    assert program is not None
    with Nats(program, folder) as server:
        server.make_streams()
        url = server.url.replace("//", "//utility:password@")
        asyncio.run(publish_to_nats(url, records))
        secret = folder / "password"
        secret.write_text("password\n")
        login = f'username = "collect"\npassword_file = "{secret}"'
        yield Feed(f'url = "{server.url}"\n{login}', ("nats", url))


@contextmanager
def by_kafka(_folder: Path, records: Sequence[Message], _: str) -> Iterator[Feed]:
    """Publish the records to librdkafka's mock cluster, which holds them in memory."""
    with Kafka(_PARTITIONS) as cluster:
        cluster.send(records)
        topics = ", ".join(f'"{topic}"' for topic in TOPICS)
        source = f'url = "kafka://{cluster.servers}"\nkafka_topics = [{topics}]'
        yield Feed(source, ("kafka", cluster.servers))


FEEDS = {"MQTT": by_mqtt, "NATS": by_nats, "Kafka (mock)": by_kafka}


def _plain(feed: Feed, target: str, count: int) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "benchmarks.plain_consumer", *feed.plain, target, str(count)]
    return subprocess.Popen(command)


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def plain_run(feed: Feed, target: str, count: int) -> Run:
    """Run the plain consumer until it has written all records; return its cost."""
    cpu_s, wall_s = _cpu_s(), time.perf_counter()
    assert _plain(feed, target, count).wait() == 0
    wall_s = time.perf_counter() - wall_s
    return Run(count / wall_s, (_cpu_s() - cpu_s) / count * 1e6)


def collect_run(feed: Feed, folder: Path, target: str, count: int) -> Run:
    """Run `collect` until it has written all records, then stop it; return its cost."""
    collector = Collector(folder, feed.source, target)
    is_table = target.startswith("postgresql:")
    if not is_table:
        text = f'[source]\n{feed.source}\n[[stream]]\ntopic = "{TEMPLATE}"\n[accept]\noldest = "36500d"\n'
        files = f'[dataset]\nfolder = "{target}"\npartition = "hour"\ndelay = "5s"\n'
        collector.config.write_text(text + files)
    message_count = _in_tables(target) if is_table else _in_files(Path(target))
    cpu_s, wall_s, memory = _cpu_s(), time.perf_counter(), []
    with collector:
        for share in (0.1, 1.0):
            while message_count() < share * count:
                collector.assert_runs()
                time.sleep(0.05)
            memory.append(collector.peak_mib())
        end_s = time.perf_counter()
        assert collector.stop() == 0
        wall_s = (end_s if is_table else time.perf_counter()) - wall_s
    return Run(count / wall_s, (_cpu_s() - cpu_s) / count * 1e6, (memory[0], memory[1]))


def _in_tables(url: str) -> Callable[[], int]:
    connection = psycopg.connect(url, autocommit=True)
    query = "SELECT coalesce(sum(messages), 0)::bigint FROM meteragent.collector WHERE name <> 'bench'"
    return lambda: int(connection.execute(query).fetchall()[0][0])


def _in_files(folder: Path) -> Callable[[], int]:
    database = sqlite3.connect(folder / "collect.db")
    query = "SELECT coalesce(sum(messages), 0) FROM collector WHERE name <> 'bench'"
    return lambda: int(database.execute(query).fetchall()[0][0])


def runs(
    name: str,
    records: Sequence[Message],
    prepare_table: Callable[[], str],
    prepare_files: Callable[[Path], Any],
) -> Iterator[tuple[str, Run]]:
    """Run each program with one broker, with NATS also into files; yield each run's name and cost."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        with FEEDS[name](folder, records, prepare_table()) as feed:
            yield f"collect, {name}", collect_run(feed, folder, prepare_table(), len(records))
            yield f"a plain consumer, {name}", plain_run(feed, prepare_table(), len(records))
    if name == "NATS":
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            with FEEDS[name](folder, records, "") as feed:
                prepare_files(folder / "dataset")
                run = collect_run(feed, folder, str(folder / "dataset"), len(records))
                yield f"collect, {name}, Parquet", run
                run = plain_run(feed, str(folder / "plain.parquet"), len(records))
                yield f"a plain consumer, {name}, Parquet", run
