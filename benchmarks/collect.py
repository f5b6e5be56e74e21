"""`collect` beside plain COPY and a plain consumer: ``python -m benchmarks.collect --meters 100000``.

Every contestant writes the same records of half hours into an empty table with the same key and partitions,
5,000 in each transaction:

* COPY: rows that are already parsed, copied straight into the table;
* a plain consumer: `json.loads` of each record, then COPY; it checks nothing, and a repetition would end it;
* `collect`: the core and the database, as `service` calls them, in the same process;
* `collect` with MQTT: the program itself, which receives the messages that a mosquitto holds for its session.

The first three alternate for some rounds. CPU is that of the client's process. The program's memory is read
at a fifth of the records and at the end.
"""

import argparse
import asyncio
import json
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

from meteragent.collect.core import Core, Limits, Message
from meteragent.collect.database import Database
from meteragent.collect.service import BATCH
from meteragent.collect.topic import StreamTopic
from meteragent.domain.grid import iso_time, parse_time
from meteragent.mqtt import Endpoint, Session, keep_connected
from meteragent.wire.descriptor import describe
from meteragent.wire.record import RecordFormat
from tests.integration.collecting import DURABLE, Collector
from tests.support.broker import Broker, mosquitto_program
from tests.support.collecting import NOW_MS, TEMPLATE, empty_database, topic
from tests.support.messages import HALF_HOUR_MS, NOON_MS
from tests.support.postgres import Postgres, server_programs
from tests.support.stores import TERMS

_COPY = "COPY meteragent.record (stream, meter, t, until, quanta, d) FROM STDIN"
_WINDOW = 500
"""Publications unanswered at once."""


class Cost(NamedTuple):
    """The cost of a contestant: records per second of wall-clock time, and the client's CPU time."""

    rate: float
    cpu_us: float


def messages(meters: int, slots: int) -> Iterator[Message]:
    """Yield the records of all meters, slot by slot."""
    shared = RecordFormat.of(describe(TERMS))
    for slot in range(slots):
        for number in range(meters):
            meter, time_ms = f"m{number:06}", NOON_MS + slot * HALF_HOUR_MS
            yield Message(topic(meter), shared.record(meter, time_ms, 0, (number * 7919 + slot) % 3000))


def batches(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Cut items into transactions."""
    yield from (items[place : place + BATCH] for place in range(0, len(items), BATCH))


async def copied(
    url: str, rows: Sequence[tuple[object, ...]], parse: Callable[[Any], tuple[object, ...]]
) -> None:
    """Copy rows, each as `parse` returns it."""
    connection = await psycopg.AsyncConnection.connect(url, autocommit=True)
    async with connection:
        for batch in batches(rows):
            async with connection.transaction(), connection.cursor() as cursor, cursor.copy(_COPY) as copy:
                for row in batch:
                    await copy.write_row(parse(row))


def parsed(message: Message) -> tuple[object, ...]:
    """Parse a record as a program that trusts it would."""
    facts = json.loads(message.payload)
    until = iso_time(parse_time(facts["t"]) + HALF_HOUR_MS)
    return "main", facts["meter"], facts["t"], until, facts["value"], facts["d"]


async def collected(url: str, records: Sequence[Message]) -> None:
    """Write records as the service does."""
    async with Database.connect(url, None, "bench", "month") as database:
        tables = await database.begin(is_first=True)
        core = Core([StreamTopic.parse("main", TEMPLATE)], Limits(), *tables)
        for batch in batches(records):
            await database.write(core.take(batch, NOW_MS), len(batch), NOW_MS, core.mixed)


async def prepared(url: str) -> None:
    """Create the tables, their partitions and the descriptor."""
    async with Database.connect(url, None, "bench", "month") as database:
        await database.migrate()
        core = Core([StreamTopic.parse("main", TEMPLATE)], Limits(), *await database.begin(is_first=True))
        descriptor = Message(f"{topic('m0')}/privacy", describe(TERMS).message("m0", NOON_MS))
        await database.write(core.take([descriptor], NOW_MS), 1, NOW_MS)


def measured(server: Postgres, count: int, work: Callable[[str], Coroutine[Any, Any, None]]) -> Cost:
    """Run a contestant on empty tables; return its cost."""
    url = empty_database(server)
    asyncio.run(prepared(url))
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    asyncio.run(work(url))
    wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT count(*) FROM meteragent.record").fetchone() == (count,)
    return Cost(count / wall_s, cpu_s / count * 1e6)


def bytes_a_record(server: Postgres) -> float:
    """Return the size of the table and its key, per record."""
    query = (
        "SELECT sum(pg_total_relation_size(inhrelid)) / (SELECT count(*) FROM meteragent.record)"
        " FROM pg_inherits WHERE inhparent = 'meteragent.record'::regclass"
    )
    with psycopg.connect(server.url()) as connection:
        [(size,)] = connection.execute(query).fetchall()
    return float(size)


async def publish(url: str, records: Sequence[Message]) -> None:
    """Publish at QoS 1, a few hundred at a time."""
    room, completion = asyncio.Semaphore(_WINDOW), asyncio.Event()
    answered = 0

    def on_delivered(_packet_id: int, _reason: int) -> None:
        """Make room for the next publication."""
        nonlocal answered
        answered += 1
        room.release()
        if answered == len(records):
            completion.set()

    async def serve(session: Session) -> None:
        """Publish everything."""
        for message in records:
            await room.acquire()
            session.publish(message.topic, message.payload)

    connection = asyncio.ensure_future(
        keep_connected(
            Endpoint.parse(url),
            "meters",
            serve,
            entropy=os.urandom,
            on_delivered=on_delivered,
            inflight=_WINDOW,
        )
    )
    await completion.wait()
    connection.cancel()


def with_mqtt(server: Postgres, records: Sequence[Message]) -> tuple[Cost, list[float]]:
    """Let the program receive what waits for it; return its cost, and its memory in MiB at 20 and 100%."""
    program = mosquitto_program()
    assert program is not None
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        broker = stack.enter_context(Broker(program, folder, settings=DURABLE))
        url = empty_database(server)
        asyncio.run(prepared(url))
        collector = stack.enter_context(Collector(folder, f'url = "{broker.url}"', url))
        while not collector.is_connected():
            time.sleep(0.1)
        time.sleep(0.5)  # for the subscriptions
        assert collector.stop() == 0
        asyncio.run(publish(broker.url, records))
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        collector.start()
        while not collector.is_connected():
            time.sleep(0.01)
        begun_s, memory = time.perf_counter(), []
        with psycopg.connect(url, autocommit=True) as connection:
            for share in (0.2, 1.0):
                while _count(connection) < share * len(records):
                    collector.assert_runs()
                    time.sleep(0.05)
                memory.append(collector.memory_mib())
        wall_s = time.perf_counter() - begun_s
        assert collector.stop() == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(len(records) / wall_s, cpu_s / len(records) * 1e6), memory


def _count(connection: "psycopg.Connection[Any]") -> int:
    [(count,)] = connection.execute(
        "SELECT coalesce(sum(written), 0)::bigint FROM meteragent.collector"
    ).fetchall()
    return int(count)


def main() -> None:
    """Read the arguments, run, and print a table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.collect",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--meters", type=int, default=100_000, help="default %(default)s")
    parser.add_argument("--slots", type=int, default=2, help="half hours of each meter; default %(default)s")
    parser.add_argument("--rounds", type=int, default=3, help="default %(default)s")
    options = parser.parse_args()
    programs = server_programs()
    if programs is None or mosquitto_program() is None:
        sys.exit("NOT RUN: PostgreSQL 15 and mosquitto are needed")
    records = list(messages(options.meters, options.slots))
    rows = [parsed(message) for message in records]
    contestants: dict[str, Callable[[str], Coroutine[Any, Any, None]]] = {
        "COPY of parsed rows": lambda url: copied(url, rows, lambda row: row),
        "a plain consumer": lambda url: copied(url, records, parsed),
        "collect": lambda url: collected(url, records),
    }
    costs: dict[str, list[Cost]] = {name: [] for name in contestants}
    with Postgres(programs) as server:
        for _ in range(options.rounds):
            for name, work in contestants.items():
                costs[name].append(measured(server, len(records), work))
        size = bytes_a_record(server)
        end_to_end, memory = with_mqtt(server, records)
    print(
        f"{options.meters} meters, {len(records)} records, {options.rounds} rounds;"
        f" load {os.getloadavg()[0]:.1f}"
    )
    for name, runs in [*costs.items(), ("collect with MQTT", [end_to_end])]:
        rate, cpu_us = (statistics.median(values) for values in zip(*runs, strict=True))
        print(f"{name:22} {rate:9.0f} records/s {cpu_us:7.1f} us of CPU a record")
    print(
        f"{size:.0f} bytes a record with its key; memory {memory[0]:.0f} MiB at a fifth,"
        f" {memory[1]:.0f} at the end"
    )


if __name__ == "__main__":
    main()
