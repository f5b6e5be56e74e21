"""`meteragent collect` as a service manager runs it, under kills: of itself, of PostgreSQL, of the broker."""

import asyncio
import random
import signal
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self

import psycopg
from aiomqtt import MqttError

from meteragent.collect.core import Message
from simulators.commands.replay import connect, lost
from tests.integration.forked import Forked, Process
from tests.integration.service import LIMIT_S, PAUSE_S, interrupted, until
from tests.support.broker import Broker, Server
from tests.support.collecting import TEMPLATE, TableRow, record_messages, refusals, rows, terms_message
from tests.support.kafka import TOPICS, Kafka
from tests.support.messages import HALF_HOUR_MS, NOON_MS
from tests.support.nats import Nats
from tests.support.postgres import Postgres
from tests.support.stores import TERMS

Victim = Literal["collect", "postgres", "broker"]
VICTIMS: tuple[Victim, ...] = ("collect", "postgres", "broker")
IMPATIENT = "tests.integration.impatient"
METERS = 5
CHUNK = 100
"""Publications unanswered at once."""
DURABLE: dict[str, str | int] = {"max_inflight_messages": 0}


class Collector:
    """The process, with one configuration; leaving the `with` leaves nothing behind."""

    def __init__(self, folder: Path, source: str, table_url: str, program: str = "meteragent") -> None:
        self.config, self.log = folder / "collect.toml", folder / "collect.log"
        self._program = program
        self.config.write_text(
            f'[source]\n{source}\n[[stream]]\ntopic = "{TEMPLATE}"\n'
            f'[database]\nurl = "{table_url}"\n[accept]\noldest = "36500d"\n'
            f'[health]\nsocket = "{folder}/health"\n'
        )
        self._process: Process | None = None
        self._log_start = 0

    def start(self) -> None:
        """Start the program."""
        with self.log.open("ab") as log:
            self._log_start = log.tell()
            self._process = Forked(self._program, ["collect", str(self.config)], log)

    def kill(self) -> None:
        """Kill the program with SIGKILL."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(LIMIT_S)
        self._process = None

    def stop(self) -> int:
        """Stop the program with SIGTERM, and return its exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(LIMIT_S)
        self._process = None
        return code

    def interrupt(self, rng: random.Random) -> None:
        """Send one to three SIGTERMs; fail unless the program ends with 0."""
        process, self._process = self._process, None
        assert process is not None
        code = interrupted(process, rng)
        assert code == 0, (code, self.log.read_text())

    def is_connected(self) -> bool:
        """Return whether this life has joined its source; fail with the log if it has ended."""
        self.assert_runs()
        log = self.log.read_bytes()[self._log_start :]
        return b": connected with " in log or b": Kafka assigned " in log

    def peak_mib(self) -> float:
        """Return the largest resident memory that the process has had so far."""
        assert self._process is not None
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) / 1024

    def assert_runs(self) -> None:
        """Fail with the log if the program has ended."""
        assert self._process is not None
        assert self._process.poll() is None, self.log.read_text()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self.kill()


def burst(rng: random.Random, index: int, size: int) -> tuple[list[Message], list[TableRow]]:
    """Return what meters send in a round, and the rows that it makes.

    The descriptors come somewhere among the records, and some records come twice.
    """
    messages: list[Message] = []
    expected: list[TableRow] = []
    first_slot = index * (size // METERS) - 300 * 48
    for number in range(METERS):
        meter = f"m{number}"
        quanta = [rng.randrange(-10_000, 10_000) for _ in range(size // METERS)]
        messages += record_messages(TERMS, quanta, meter, first_slot)
        expected += [
            TableRow(meter, NOON_MS + (first_slot + i) * HALF_HOUR_MS, "", value)
            for i, value in enumerate(quanta)
        ]
    rng.shuffle(messages)
    for number in range(METERS):
        messages.insert(rng.randrange(len(messages)), terms_message(TERMS, f"m{number}"))
    return messages + rng.sample(messages, size // 10), expected


async def send(url: str, messages: Sequence[Message]) -> None:
    """Publish in order at QoS 1, descriptors retained, again what was not answered.

    mosquitto answers first and saves then, so the last ones that were answered before it went away are sent
    again, too; an agent's own outbox relies on a broker that keeps what it has answered.
    """
    sent_count = 0
    while sent_count < len(messages):
        try:
            async with connect(url) as client, asyncio.TaskGroup() as tasks:
                watch = tasks.create_task(lost(client))
                while sent_count < len(messages):
                    chunk = messages[sent_count : sent_count + CHUNK]
                    await asyncio.gather(
                        *(
                            client.publish(
                                topic, payload, qos=1, retain=topic.endswith("privacy"), timeout=LIMIT_S
                            )
                            for topic, payload, _ in chunk
                        )
                    )
                    sent_count += len(chunk)
                watch.cancel()
        except* MqttError:
            sent_count = max(0, sent_count - CHUNK)
            await asyncio.sleep(PAUSE_S)


class Chain(NamedTuple):
    """What is between the sender and `collect`: the broker, the lines of `[source]`, and how to send.

    `program` is what runs instead of meteragent, which would wait for longer than a test.
    """

    source: str
    send: Callable[[Sequence[Message]], Awaitable[None]]
    broker: Server | None
    program: str = "meteragent"


def by_mqtt(broker: Broker) -> Chain:
    """Return the chain with an MQTT broker."""
    return Chain(f'url = "{broker.url}"', partial(send, broker.url), broker)


def by_nats(server: Nats, folder: Path) -> Chain:
    """Return the chain with NATS, whose MQTT gateway the sender uses; the password's file is in a folder."""
    secret = folder / "password"
    secret.write_text("password\n")
    source = f'url = "{server.url}"\nusername = "collect"\npassword_file = "{secret}"'
    return Chain(source, partial(send, server.mqtt_url), server, IMPATIENT)


def by_kafka(cluster: Kafka) -> Chain:
    """Return the chain with Kafka's topics, to which a bridge would write; the mock is not killed."""
    topics = ", ".join(f'"{topic}"' for topic in TOPICS)
    source = f'url = "kafka://{cluster.servers}"\nkafka_topics = [{topics}]'

    async def send_to_kafka(messages: Sequence[Message]) -> None:
        """Write in a thread, because the library blocks."""
        await asyncio.to_thread(cluster.send, messages)

    return Chain(source, send_to_kafka, None, IMPATIENT)


class Kept(NamedTuple):
    """The outcome of rounds: the rows that were sent, and what the table has."""

    expected: list[TableRow]
    table: list[TableRow]
    refusal_counts: dict[str, int]
    lives: int
    """How many rounds had written something before the kill."""

    def assert_equal(self) -> None:
        """Fail unless the table has each interval that was sent once, and nothing else was counted."""
        assert self.table == sorted(self.expected)
        assert self.refusal_counts == {}


async def kill(
    victim: Victim,
    *,
    chain: Chain,
    postgres: Postgres,
    table_url: str,
    folder: Path,
    rounds: int,
    size: int,
    seed: int = 0,
    is_stopped: bool = False,
) -> Kept:
    """Kill one part of the chain in each round, at a random moment of a burst; then let the chain finish.

    If `is_stopped`, `collect` is not killed, but stopped by one to three SIGTERMs.
    """
    rng = random.Random(f"{victim}{seed}")
    expected_rows: list[TableRow] = []
    lives = 0
    with Collector(folder, chain.source, table_url, chain.program) as collector:
        await until(collector.is_connected)
        for index in range(rounds):
            messages, expected = burst(rng, index, size)
            before = count(table_url) or 0
            feeding = asyncio.ensure_future(chain.send(messages))
            if rng.random() < 0.5:
                await until(lambda before=before: (count(table_url) or 0) > before)  # type: ignore[misc]
            await asyncio.sleep(rng.uniform(0, 0.2))
            lives += (count(table_url) or 0) > before
            if is_stopped:
                await asyncio.to_thread(collector.interrupt, rng)
                collector.start()
            else:
                kill_and_start(victim, collector, postgres, chain.broker)
            await feeding
            if victim == "broker":
                await chain.send(messages)
            expected_rows += expected
        # A killed member of a Kafka group keeps its partitions until its session ends, 45 s later.
        await until(lambda: collector.is_connected() and count(table_url) == len(expected_rows), 3 * LIMIT_S)
        assert collector.stop() == 0
    with psycopg.connect(table_url) as connection:
        return Kept(expected_rows, rows(connection), refusals(connection), lives)


def kill_and_start(victim: Victim, collector: Collector, postgres: Postgres, broker: Server | None) -> None:
    """Kill a part with SIGKILL, and start it again."""
    part: Any = {"collect": collector, "postgres": postgres, "broker": broker}[victim]
    part.kill()
    part.start()


def count(table_url: str, table: str = "record") -> int | None:
    """Return the number of rows of a table; None while the database or the table is not there."""
    try:
        with psycopg.connect(table_url) as connection:
            [(number,)] = connection.execute(f"SELECT count(*) FROM meteragent.{table}").fetchall()
    except psycopg.Error:
        return None
    return int(number)
