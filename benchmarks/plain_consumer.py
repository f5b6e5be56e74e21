"""A plain consumer, the peer of `collect`: ``python -m benchmarks.plain_consumer SOURCE URL TARGET COUNT``.

It reads records with the usual library for each broker (aiomqtt, nats-py, confluent-kafka) and parses each
record with `json.loads`. It writes at most 5,000 records at a time, with COPY to the table `record` of a
PostgreSQL database, or to one Parquet file, which is complete only at the end. Then it acknowledges these
records; with MQTT, the library has already acknowledged them on arrival. It checks nothing: COPY fails at a
repeated record, and a file holds such a record twice. The process exits after COUNT records. With `mqtt` and
COUNT 0, it only creates its session.
"""

import argparse
import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiomqtt
import nats
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Consumer
from nats.js.api import ConsumerConfig
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

SIZE = 5_000
SLOT = timedelta(minutes=30)
COPY = "COPY meteragent.record (stream, meter, t, until, quanta, d) FROM STDIN"
ONLY_D = 1
"""The number of the only descriptor in the table."""
NAME = "plain"
TIME = pa.timestamp("ms", "UTC")
SCHEMA = pa.schema(
    [
        ("stream", pa.string()),
        ("meter", pa.string()),
        ("t", TIME),
        ("until", TIME),
        ("value", pa.float64()),
        ("d", pa.string()),
    ]
)

Acknowledge = Callable[[], Awaitable[None]]
Batches = AsyncIterator[tuple[list[bytes], Acknowledge]]
Row = tuple[Any, ...]


def parsed(payload: bytes) -> Row:
    """Parse a record without any check."""
    facts = json.loads(payload)
    start = datetime.fromisoformat(facts["t"])
    return "main", facts["meter"], start, start + SLOT, facts["value"], facts["d"]


async def none() -> None:
    """Acknowledge nothing, because the library has already acknowledged the messages."""


async def of_mqtt(url: str, count: int) -> Batches:
    """Yield batches from a session that the broker keeps; if `count` is 0, only subscribe."""
    expiry = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
    expiry.SessionExpiryInterval = 86_400
    client = aiomqtt.Client(
        "127.0.0.1",
        urlsplit(url).port or 1883,
        identifier=NAME,
        protocol=aiomqtt.ProtocolVersion.V5,
        clean_start=False,
        properties=expiry,
    )
    async with client:
        if not count:
            await client.subscribe("private/+/power", qos=1)
        batch: list[bytes] = []
        while count:
            batch.append(bytes((await anext(client.messages)).payload))
            if len(batch) == min(SIZE, count):
                yield batch, none
                count -= len(batch)
                batch = []


async def of_nats(url: str, count: int) -> Batches:
    """Yield batches from a durable pull consumer."""
    client = await nats.connect(url)
    settings = ConsumerConfig(max_ack_pending=4 * SIZE)
    consumer = await client.jetstream().pull_subscribe(
        "private.*.power", NAME, stream="RECORDS", config=settings
    )
    while count:
        messages = await consumer.fetch(min(SIZE, count))

        async def acknowledge(messages: Sequence[Any] = messages) -> None:
            """Acknowledge each message."""
            for message in messages:
                await message.ack()

        yield [message.data for message in messages], acknowledge
        count -= len(messages)
    await client.close()


async def of_kafka(servers: str, count: int) -> Batches:
    """Yield batches from a consumer group with one member."""
    settings = {"bootstrap.servers": servers, "group.id": NAME, "auto.offset.reset": "earliest"}
    consumer = Consumer(settings | {"enable.auto.commit": False})
    consumer.subscribe(["private"])

    async def acknowledge() -> None:
        """Commit the offsets."""
        await asyncio.to_thread(consumer.commit, asynchronous=False)

    while count:
        messages = await asyncio.to_thread(consumer.consume, min(SIZE, count), 0.5)
        payloads = [message.value() or b"" for message in messages if not message.error()]
        if payloads:
            yield payloads, acknowledge
        count -= len(payloads)
    consumer.close()


async def copy_rows(url: str, batches: Batches) -> None:
    """Copy each batch into the table, and acknowledge it after its commit."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        async for payloads, acknowledge in batches:
            async with connection.transaction(), connection.cursor() as cursor, cursor.copy(COPY) as copy:
                for payload in payloads:
                    await copy.write_row((*parsed(payload)[:-1], ONLY_D))
            await acknowledge()


def table_of(rows: Sequence[Row]) -> pa.Table:
    """Return rows as an Arrow table."""
    return pa.table(list(map(list, zip(*rows, strict=True))), schema=SCHEMA)


async def write_file(path: Path, batches: Batches) -> None:
    """Write each batch as a row group of one file and acknowledge it; flush the file to disk at the end."""
    with pq.ParquetWriter(path, SCHEMA) as writer:
        async for payloads, acknowledge in batches:
            writer.write_table(table_of([parsed(payload) for payload in payloads]))
            await acknowledge()
    sync(path)


def sync(path: Path) -> None:
    """Flush a file to disk."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


SOURCES: dict[str, Callable[[str, int], Batches]] = {"mqtt": of_mqtt, "nats": of_nats, "kafka": of_kafka}


def main() -> None:
    """Read the arguments, and consume the records."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.plain_consumer", description=__doc__)
    parser.add_argument("source", choices=SOURCES)
    parser.add_argument("url")
    parser.add_argument("target", help="the URL of a PostgreSQL database, or a file to write")
    parser.add_argument("count", type=int)
    options = parser.parse_args()
    batches = SOURCES[options.source](options.url, options.count)
    if options.target.startswith("postgresql:"):
        asyncio.run(copy_rows(options.target, batches))
    else:
        asyncio.run(write_file(Path(options.target), batches))


if __name__ == "__main__":
    main()
