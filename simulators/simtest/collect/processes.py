"""The collectors of a world: what ends them, and what they commit and acknowledge.

A collector dies at a place: at once, before or after a transaction is committed, or before or amid its
acknowledgements. From then on nothing that it does has an effect; the next process of the collector starts
with what is durable. A dataset is copied at the moment of death, and the copy takes its place.
"""

import asyncio
import shutil
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq

from simulators.invariant import InvariantViolation, check
from simulators.simtest import schedule as s
from simulators.simtest.collect.judge import BEGIN, POISON, Judge, Message, Slot, State, Value
from simulators.simtest.collect.shared import SharedQueue
from simulators.simtest.collect.tables import Tables
from simulators.simtest.loop import Guard, VirtualLoop
from simulators.simtest.mqtt.brokers import RetainingBroker
from simulators.simtest.mqtt.network import Bystander


class Collector:
    """A process of a collector; `end` is how it ends, once that is known."""

    def __init__(self, name: str) -> None:
        self.name, self.is_dead = name, False
        self.copy: Path | None = None
        self.end: s.End | None = None
        self.task: asyncio.Task[None]


class Collectors(Bystander):
    """The processes by name, the broker or queue and the tables that they use, and the judge of all."""

    def __init__(self, plan: s.Schedule, folder: Path) -> None:
        self.counts, self.violation = Counter[str](), None
        self.guard, self._folder = Guard(self), folder / "dataset"
        self._kind = plan.pace.partition("-")[2]
        self._loop = VirtualLoop()
        self._loop.set_exception_handler(self._on_error)
        self._random = Random(f"collect {plan.seed}")
        self._broker = RetainingBroker(self._loop, self, Random(f"source {plan.seed}"), plan.network)
        self._broker.reachable.set()
        self._loop.connect = lambda _, protocol: self._broker.connect(protocol)
        self._queue = SharedQueue(self._loop, self._random)
        self._tables = Tables(self._loop, self._on_commit)
        self._tables.poison = POISON
        self._judge = Judge(is_late=self._kind == "dataset")
        self._collectors: dict[str, Collector] = {}
        self._traps: list[s.Crash] = []

    def _on_error(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """End the world at an exception that no task awaits."""
        if self._loop.is_closed() or self.violation is not None:
            return
        with self.guard:
            raise InvariantViolation("an exception is lost", context.get("exception") or context["message"])

    # --- ends of processes ---------------------------------------------------------------------

    def _kill(self, collector: Collector, crash: s.Crash) -> None:
        """Let nothing that the process does from now on have an effect."""
        if collector.is_dead or collector.task.done():
            return
        self.counts[f"crash {crash.where}"] += 1
        collector.is_dead = True
        collector.end = crash
        if self._kind == "dataset" and self._folder.exists():
            collector.copy = self._folder.with_name(f"copy{self.counts['processes']}")
            shutil.copytree(self._folder, collector.copy, ignore=shutil.ignore_patterns("*-shm"))
        self._leave(collector, is_silent=self._random.random() < 0.5)
        collector.task.cancel()

    def _leave(self, collector: Collector, *, is_silent: bool) -> None:
        """End the connections of a process."""
        self._tables.cut(collector.name)
        self._queue.send_again(lambda _, name: name == collector.name and not is_silent)
        for connection in list(self._broker.connections):
            if connection.connect is None or connection.connect.client_id == collector.name:
                connection.die(is_silent=is_silent)

    def _spring(self, place: str, name: str) -> s.Crash | None:
        """Remove and return the first crash that is armed for a place, and end the process."""
        crash = next((trap for trap in self._traps if trap.where == place), None)
        if crash is not None:
            self._traps.remove(crash)
            self._kill(self._collectors[name], crash)
        return crash

    # --- what is observed ----------------------------------------------------------------------

    def _on_commit(self, name: str, is_done: bool) -> None:
        self._spring("commit-done" if is_done else "commit-before", name)
        if is_done and self._kind != "dataset":
            with self.guard:
                self._judge.check_step(self._state(), self._loop.time())

    def _acknowledge(self, name: str, messages: list[Message]) -> int:
        """Check acknowledgements; return how many leave before the process dies."""
        if self._collectors[name].is_dead:
            return 0
        with self.guard:
            state = self._state()
            self._judge.check_step(state, self._loop.time())
            self._judge.acknowledge(messages, state)
        if self._spring("acknowledge-before", name):
            return 0
        crash = self._spring("acknowledge-half", name)
        return len(messages) if crash is None else len(messages) * crash.part // 1000

    def on_acknowledge(self, packet_ids: list[int]) -> int:
        """Check the acknowledgements of a connection."""
        for name, box in self._broker.mailboxes.items():
            if packet_ids[0] in box.unacknowledged:
                mails = [box.unacknowledged[packet_id] for packet_id in packet_ids]
                return self._acknowledge(name, [(mail.topic, bytes(mail.payload)) for mail in mails])
        return len(packet_ids)

    def on_publish(self, *_: Any, **__: Any) -> None:
        """Refuse what a collector publishes."""
        raise InvariantViolation("a collector publishes")

    def _state(self) -> State:
        """Read what is durable."""
        if self._kind == "dataset":
            return _read_dataset(self._folder)
        content = self._tables.content
        return State(
            {
                Slot(row.meter, _ms(row.t)): Value(_ms(row.until), row.quanta, row.digest)
                for row in content.record.values()
            },
            set(),
            {(row[3], bytes(row[4])) for row in content.waiting.values()},
            {(meter, digest) for _, meter, digest in content.terms},
            Counter({reason: count for (_, reason), count in content.refused.items()}),
        )


def _ms(text: str) -> int:
    return round(BEGIN.fromisoformat(text).timestamp() * 1000)


def _read_dataset(folder: Path) -> State:
    """Read the committed content of a dataset, and its files. Raises InvariantViolation for a doubled row."""
    state = State()
    with closing(sqlite3.connect(folder / "collect.db")) as database:
        for meter, time_ms, until_ms, quanta, digest in database.execute(
            "SELECT meter, time_ms, until_ms, quanta, d FROM staged"
        ):
            state.staged.add((Slot(meter, time_ms), Value(until_ms, quanta, digest)))
        state.waiting = {
            (topic, bytes(payload))
            for topic, payload in database.execute("SELECT topic, payload FROM waiting")
        }
        state.terms = set(database.execute("SELECT meter, d FROM terms"))
        state.refused = Counter(dict(database.execute("SELECT reason, count FROM refused")))
    for path in sorted((folder / "record").glob("*/*/records.parquet")):
        for row in pq.read_table(path, partitioning=None).to_pylist():
            slot = Slot(row["meter"], round(row["t"].timestamp() * 1000))
            check(slot not in state.rows, "a row is doubled", slot)
            state.rows[slot] = Value(round(row["until"].timestamp() * 1000), int(row["value"]), row["d"])
    return state
