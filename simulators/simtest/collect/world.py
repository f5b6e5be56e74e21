"""A world of collectors: the unchanged service, a broker or a shared queue, tables, and their troubles."""

import asyncio
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from unittest.mock import patch

import psycopg

from meteragent.collect import configuration, dataset_sink, outcome, service
from meteragent.collect.configuration import Settings
from meteragent.collect.service import Service
from meteragent.collect.source import source_of
from meteragent.collect.staging import Staging
from meteragent.mqtt import Entropy
from meteragent.service.process import Notify
from simulators.invariant import check
from simulators.simtest import schedule as s
from simulators.simtest.collect.judge import BEGIN, WAIT_S, Message
from simulators.simtest.collect.processes import Collector, Collectors
from simulators.simtest.collect.shared import SharedSource
from simulators.simtest.loop import Killed

_SETTLE_S = 90.0
"""The time without troubles before the end: longer than a statement hangs and a core is kept."""
_RESTART_S = 1.0
_LOSES_ANSWERS = 2


class World(Collectors):
    """Everything around the collectors; the second part of the plan's pace is one of `generator.KINDS`."""

    def __init__(self, plan: s.Schedule, folder: Path) -> None:
        super().__init__(plan, folder)
        self.plan = plan
        self._names = ["c0", "c1"] if self._kind in ("two", "shared") else ["c0"]
        self._is_over = self._has_dropped = False

    # --- a whole run ---------------------------------------------------------------------------

    def run(self) -> None:
        """Run the schedule. Raises InvariantViolation at the first violation."""
        settle_s = self.plan.end_ms / 1000
        self._loop.until_s = settle_s + 3 * _SETTLE_S
        for event in self.plan.events:
            self._loop.call_at(event.at_ms / 1000, self._apply, event)
        self._loop.call_at(settle_s, self._settle)
        self._loop.call_at(settle_s + _SETTLE_S, self._finish)
        try:
            with self._patched():
                self._loop.run_until_complete(self._run_all())
            if self.violation is None:
                self._check_end()
        except Killed:
            pass
        finally:
            self._loop.end_tasks()
            self._loop.close()
        self.counts.update(self._broker.counts + self._judge.counts)
        if self.violation is not None:
            raise self.violation

    @contextmanager
    def _patched(self) -> Iterator[None]:
        """Replace PostgreSQL, the shared queue and the staging area of a dataset by the world's own."""
        world = self

        class WatchedStaging(Staging):
            """The staging area of a dataset, whose transactions the world sees."""

            @contextmanager
            def _transaction(self) -> Iterator[None]:
                name = self._name
                with super()._transaction():
                    yield
                    if world._tables.is_due("fail"):
                        raise sqlite3.OperationalError("disk I/O error")
                    world._on_commit(name, False)
                world._on_commit(name, True)
                if world._tables.is_due("lose"):
                    raise sqlite3.OperationalError("disk I/O error")

        with (
            patch.object(psycopg.AsyncConnection, "connect", self._tables.connect),
            patch.object(dataset_sink, "Staging", WatchedStaging),
            patch.object(service, "source_of", self._source_of if self._kind == "shared" else source_of),
        ):
            yield

    def _source_of(self, settings: Settings, _: Sequence[str], __: Entropy) -> SharedSource:
        name = settings.source.client_id
        return SharedSource(self._queue, name, partial(self._acknowledge, name))

    async def _run_all(self) -> None:
        await asyncio.gather(*map(self._run_collector, self._names))

    async def _run_collector(self, name: str) -> None:
        """Run one process of a collector after another."""
        sink = '[database]\nurl = "postgresql:///x"\n'
        if self._kind == "dataset":
            sink = f'[dataset]\nfolder = "{self._folder}"\ndelay = "3s"\n'
        settings = configuration.parse(
            f'[source]\nurl = "mqtt://source"\nclient_id = "{name}"\n[accept]\n'
            f'wait = "{WAIT_S if self._kind != "dataset" else 10**6}s"\n'
            f'[[stream]]\ntopic = "private/{{meter}}/power"\n{sink}'
        )
        while not self._is_over:
            self.counts["processes"] += 1
            outcome._terms.clear()  # noqa: SLF001 -- a new process has parsed nothing
            collector = self._collectors[name] = Collector(name)
            process = Service(settings, self._entropy, self._now_ms, Notify())
            collector.task = asyncio.create_task(process.run())
            await asyncio.wait([collector.task])
            error = None if collector.task.cancelled() else collector.task.exception()
            if isinstance(error, BaseException):
                may_end = collector.is_dead or self._has_dropped
                with self.guard:
                    check(may_end, "a collector ends by itself", repr(error))
                self.counts["ended by a trigger"] += 1
            self._leave(collector, is_silent=False)
            if collector.copy is not None:
                shutil.rmtree(self._folder)
                collector.copy.rename(self._folder)
            down_s = _RESTART_S if collector.end is None else collector.end.down_ms / 1000
            if not self._is_over:
                await asyncio.sleep(down_s)

    def _entropy(self, size: int) -> bytes:
        """Return bytes of which the first six bits are 0: pauses are at most 1/64 of their maximum."""
        return self._random.getrandbits(8 * size - 6).to_bytes(size)

    def _now_ms(self) -> int:
        return round(1000 * (BEGIN.timestamp() + self._loop.time()))

    # --- events --------------------------------------------------------------------------------

    def _apply(self, event: s.Event) -> None:
        self.counts[type(event).__name__.lower()] += 1
        match event:
            case s.Announce() | s.Record():
                self._publish(self._judge.publish(event), is_retained=isinstance(event, s.Announce))
            case s.Drop():
                self._drop(event)
            case s.Slow(takes_ms=takes_ms):
                self._tables.takes_s = takes_ms / 1000
            case s.Stop():
                self._end(self._collectors[self._names[event.then % len(self._names)]], event)
            case s.Crash(where="now"):
                self._kill(self._collectors[self._names[event.then % len(self._names)]], event)
            case s.Crash():
                self._traps.append(event)
            case s.Trouble():
                self._trouble(event)

    def _publish(self, message: Message, *, is_retained: bool) -> None:
        if self._kind == "shared":
            self._queue.waiting.append(message)
        elif is_retained:
            self._broker.publish_retained(*message)
        else:
            self._broker.publish(*message, 1, retain=False)

    def _drop(self, event: s.Drop) -> None:
        self._queue.loses_answers = event.forgets == _LOSES_ANSWERS
        self._loop.call_later(event.down_ms / 1000, setattr, self._queue, "loses_answers", False)
        self._queue.send_again(lambda *_: True)
        self._broker.drop(event.down_ms / 1000)
        if event.forgets == _LOSES_ANSWERS:
            self._broker.lose_answers()
        elif event.forgets:
            self._broker.forget()
        elif event.shuffles:
            self._broker.shuffle()

    def _trouble(self, event: s.Trouble) -> None:
        tables = self._tables
        match event.how:
            case "refuse":
                tables.is_closed = True
                tables.cut()
                self._loop.call_later(event.lasts_ms / 1000, setattr, tables, "is_closed", False)
            case "drop":
                tables.drops = self._has_dropped = True
                self._loop.call_later(event.lasts_ms / 1000, setattr, tables, "drops", False)
            case _:
                tables.troubles.append(event.how)

    def _settle(self) -> None:
        """End all troubles."""
        self._traps.clear()
        self._broker.settle()
        self._tables.troubles.clear()
        self._tables.takes_s, self._tables.drops, self._tables.is_closed = 0.0, False, False

    def _finish(self) -> None:
        """End the world with SIGTERM; by now, everything is acknowledged."""
        self._is_over = True
        with self.guard:
            check(not self._broker.owed and self._queue.is_empty, "a message is never acknowledged")
            unsent = [box for box in self._broker.mailboxes.values() if box.waiting]
            check(not unsent, "a message is never delivered")
        for collector in self._collectors.values():
            collector.task.cancel()

    def _end(self, collector: Collector, end: s.End) -> None:
        if collector.end is None:
            collector.end = end
            collector.task.cancel()

    def _check_end(self) -> None:
        state = self._state()
        self._judge.check_step(state, self._loop.time())
        self._judge.check_end(state)
