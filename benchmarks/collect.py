"""`collect` compared with plain writers and consumers: ``python -m benchmarks.collect --meters 100000``.

Every contestant takes the same half-hourly records, in batches of at most 5,000. First, these contestants run
in this process, without a broker, and take turns for several rounds. Their CPU time is that of this process,
without the database's.

* COPY: rows that are already parsed, copied into an empty table with the key and partitions of `collect`;
* a plain consumer: `json.loads` of each record, then COPY; it checks nothing, and fails on a repeated record;
* `collect`: the core and the database, as `service` calls them;
* pyarrow: rows that are already parsed, written to one file, which is complete only at the end;
* a plain consumer, Parquet: `json.loads` of each record, then pyarrow in the same way;
* `collect`, Parquet: the core and the dataset; each batch is committed to disk, and all batches are moved
  into Parquet files at the end.

Then `collect` and the plain consumer run as programs, with each broker that holds the records
(`collect_sources`): mosquitto, a nats-server with JetStream, and librdkafka's mock cluster, which keeps
nothing on disk. `--sources` selects among the brokers.
"""

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pyarrow.parquet as pq

from benchmarks import collect_sources, plain_consumer
from benchmarks.collect_sources import FEEDS, Run
from benchmarks.plain_consumer import Batches, Row
from meteragent.collect.core import Core, Limits, Message
from meteragent.collect.database import Database
from meteragent.collect.queue import BATCH_MAX
from meteragent.collect.staging import Staging
from meteragent.collect.topic import StreamTopic
from meteragent.wire.descriptor import describe_terms
from meteragent.wire.record import RecordFormat
from tests.support.broker import mosquitto_program
from tests.support.collecting import NOW_MS, TEMPLATE, empty_database, topic
from tests.support.messages import HALF_HOUR_MS, NOON_MS
from tests.support.nats import nats_program
from tests.support.postgres import Postgres, server_programs
from tests.support.stores import TERMS

STREAMS = [StreamTopic.parse("main", TEMPLATE)]
METERS_MAX = 100_000
"""The number of meters whose descriptors are known."""


class Contestant(NamedTuple):
    """A function that writes records to a database or a folder, and whether it writes files."""

    work: Callable[[str], Coroutine[Any, Any, None]]
    is_files: bool


def messages(meters: int, slots: int) -> Iterator[Message]:
    """Yield the records of all meters, slot by slot."""
    shared = RecordFormat.of(describe_terms(TERMS))
    for slot in range(slots):
        for number in range(meters):
            meter, time_ms = f"m{number:06}", NOON_MS + slot * HALF_HOUR_MS
            yield Message(topic(meter), shared.encode(meter, time_ms, 0, (number * 7919 + slot) % 3000))


def descriptors() -> Iterator[Message]:
    """Yield the descriptors of all meters."""
    shared = describe_terms(TERMS)
    for number in range(METERS_MAX):
        meter = f"m{number:06}"
        yield Message(f"{topic(meter)}/privacy", shared.encode_message(meter, NOON_MS))


def batches(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Divide items into batches, one per transaction."""
    yield from (items[place : place + BATCH_MAX] for place in range(0, len(items), BATCH_MAX))


async def payloads_of(records: Sequence[Message]) -> Batches:
    """Yield the payloads of records, as the plain consumer gets them from a broker."""
    for batch in batches(records):
        yield [message.payload for message in batch], plain_consumer.none


async def copy_rows(url: str, rows: Sequence[Row]) -> None:
    """Copy parsed rows into the table."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        for batch in batches(rows):
            async with (
                connection.transaction(),
                connection.cursor() as cursor,
                cursor.copy(plain_consumer.COPY) as copy,
            ):
                for row in batch:
                    await copy.write_row((*row[:-1], plain_consumer.ONLY_D))


async def write_file(folder: str, rows: Sequence[Row]) -> None:
    """Write parsed rows to a file, and flush it to disk at the end."""
    path = Path(folder, "rows.parquet")
    with pq.ParquetWriter(path, plain_consumer.SCHEMA) as writer:
        for batch in batches(rows):
            writer.write_table(plain_consumer.table_of(batch))
    plain_consumer.sync(path)


async def collect_to_table(url: str, records: Sequence[Message]) -> None:
    """Write records to the database as the service does."""
    async with Database.connect(url, None, "bench", "month") as database:
        core = Core(STREAMS, Limits(), *await database.begin_service(is_first=True))
        for batch in batches(records):
            await database.write_batch(core.take_messages(batch, NOW_MS), len(batch), NOW_MS)


async def collect_to_files(folder: str, records: Sequence[Message]) -> None:
    """Write records to the dataset as the service does."""
    staging = Staging(Path(folder), "bench", "hour")
    staging.create_tables()
    core = Core(STREAMS, Limits(), *staging.begin_service(is_first=True))
    for batch in batches(records):
        staging.write_batch(core.take_messages(batch, NOW_MS), len(batch), NOW_MS)
    staging.flush()
    staging.close()


async def prepare_table(url: str) -> None:
    """Create the tables and their partitions, and write the descriptors."""
    async with Database.connect(url, None, "bench", "month") as database:
        await database.create_tables()
        core = Core(STREAMS, Limits(), *await database.begin_service(is_first=True))
        await database.write_batch(core.take_messages(descriptors(), NOW_MS), 1, NOW_MS)


def prepare_files(folder: Path) -> None:
    """Create a dataset that has the descriptors."""
    staging = Staging(folder, "bench", "hour")
    staging.create_tables()
    core = Core(STREAMS, Limits(), *staging.begin_service(is_first=True))
    staging.write_batch(core.take_messages(descriptors(), NOW_MS), 1, NOW_MS)
    staging.close()


def new_table(server: Postgres) -> str:
    """Create the tables anew with only the descriptor; return the database's URL."""
    url = empty_database(server)
    asyncio.run(prepare_table(url))
    return url


def measure(server: Postgres, count: int, contestant: Contestant) -> tuple[Run, float]:
    """Run a contestant on a table or dataset without records; return its cost, and the bytes per record.

    The bytes are those of the table with its key, or of all Parquet files.
    """
    with tempfile.TemporaryDirectory() as folder:
        prepare_files(Path(folder))
        target = folder if contestant.is_files else new_table(server)
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        asyncio.run(contestant.work(target))
        wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
        if contestant.is_files:
            size = sum(path.stat().st_size for path in Path(folder).rglob("*.parquet")) / count
        else:
            size = bytes_per_record(target, count)
    return Run(count / wall_s, cpu_s / count * 1e6), size


def bytes_per_record(url: str, count: int) -> float:
    """Return the size of the table and its key, in bytes per record.

    Raises AssertionError if the table does not hold `count` records.
    """
    query = (
        "SELECT sum(pg_total_relation_size(inhrelid)), (SELECT count(*) FROM meteragent.record)"
        " FROM pg_inherits WHERE inhparent = 'meteragent.record'::regclass"
    )
    with psycopg.connect(url) as connection:
        [(size, rows)] = connection.execute(query).fetchall()
    assert rows == count
    return float(size) / count


def contestants(records: Sequence[Message]) -> dict[str, Contestant]:
    """Return the contestants in this process."""
    rows = [plain_consumer.parsed(message.payload) for message in records]

    def file(folder: str) -> Path:
        """Return the file that a plain consumer writes."""
        return Path(folder, "plain.parquet")

    return {
        "COPY of parsed rows": Contestant(lambda url: copy_rows(url, rows), is_files=False),
        "a plain consumer": Contestant(
            lambda url: plain_consumer.copy_rows(url, payloads_of(records)), is_files=False
        ),
        "collect": Contestant(lambda url: collect_to_table(url, records), is_files=False),
        "pyarrow, parsed rows": Contestant(lambda folder: write_file(folder, rows), is_files=True),
        "a plain consumer, Parquet": Contestant(
            lambda folder: plain_consumer.write_file(file(folder), payloads_of(records)), is_files=True
        ),
        "collect, Parquet": Contestant(lambda folder: collect_to_files(folder, records), is_files=True),
    }


def line(name: str, runs: Sequence[Run], size: float | None = None) -> str:
    """Return a line of the output: the median rate and CPU time, and the other measurements, if any."""
    rate = statistics.median(run.rate for run in runs)
    cpu_us = statistics.median(run.cpu_us for run in runs)
    text = f"{name:33} {rate:9.0f} records/s {cpu_us:7.1f} us of CPU time per record"
    if size is not None:
        text += f", {size:.0f} bytes on disk"
    if runs[0].memory_mib is not None:
        text += ", peak {:.0f} MiB after a tenth, {:.0f} at the end".format(*runs[0].memory_mib)
    return text


def main() -> None:
    """Read the arguments, run all contestants, and print a line for each."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.collect",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--meters", type=int, default=METERS_MAX, help="default and most %(default)s")
    parser.add_argument(
        "--slots", type=int, default=2, help="half-hourly records per meter; default %(default)s"
    )
    parser.add_argument("--rounds", type=int, default=3, help="default %(default)s")
    parser.add_argument("--sources", nargs="*", choices=FEEDS, default=list(FEEDS))
    options = parser.parse_args()
    programs = server_programs()
    if programs is None or mosquitto_program() is None or nats_program() is None:
        sys.exit("NOT RUN: PostgreSQL 15 or newer, mosquitto and nats-server are needed")
    records = list(messages(options.meters, options.slots))
    rounds = f"{options.rounds} round{'s' * (options.rounds != 1)}"
    print(f"{options.meters} meters, {len(records)} records, {rounds}")
    with Postgres(programs) as server:
        costs: dict[str, list[tuple[Run, float]]] = {}
        works = contestants(records)
        for _ in range(options.rounds):
            for name, contestant in works.items():
                costs.setdefault(name, []).append(measure(server, len(records), contestant))
        for name, pairs in costs.items():
            print(line(name, [run for run, _ in pairs], pairs[0][1]), flush=True)
        for source in options.sources:
            for name, run in collect_sources.runs(source, records, lambda: new_table(server), prepare_files):
                print(line(name, [run]), flush=True)
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
