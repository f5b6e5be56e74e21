"""A world: the agent as it is, between two simulated brokers and over a disk that can die, in virtual time.

What runs is `meteragent.agent`, whole, with seeded bits for noise. What stands in is `network` and `brokers`
for sockets and what is behind them, `disk` for the store's thread and its device, and `loop` for time. A
process ends as the schedule says, and the next one begins with what is left on disk. At the end nothing goes
wrong any more, and all that must have left has.
"""

import asyncio
import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, NoReturn

from meteragent.agent import Agent
from meteragent.agent.clock import BootClock
from meteragent.core.stream import Effects
from meteragent.domain.commit import Commit
from meteragent.domain.counters import Counts
from meteragent.domain.reading import Message
from meteragent.domain.terms import Clock
from meteragent.store import Store, restored_at
from simulators.invariant import InvariantViolation
from simulators.simtest import disk, power
from simulators.simtest import schedule as s
from simulators.simtest.agent_process import environment, is_of_the_device, named
from simulators.simtest.brokers import Broker, SinkBroker, SourceBroker
from simulators.simtest.invariants import Sent
from simulators.simtest.loop import Guard, Killed, VirtualLoop
from simulators.simtest.model import Model, StreamSpec
from simulators.simtest.network import Publication
from simulators.simtest.oracle import KNOWN_S, Oracle
from simulators.simtest.setting import PACES, parse
from simulators.simtest.store_versions import StoreVersions
from simulators.simtest.surroundings import FaultInjector

EPILOGUE_S = 5.0
"""How long nothing goes wrong at the end: a catch-up, a connection, and some turns."""
_STOP_S = 30.0
"""Longer than any stop takes: the outbox is drained for at most ten seconds."""
_SETTLED_S, _ANSWER_S = 2.5, 0.5
"""What fell due, and was owed, this long before the end has left, and is acknowledged."""


class World:
    """Everything around the agent; `run` lets a schedule happen to it.

    `keys` is the folder of `setting.write_keys`, `folder` its own. `scramble` gives the readings other values
    at the same times. `log`: what was published; `counts`: was exercised.
    """

    def __init__(self, plan: s.Schedule, keys: Path, folder: Path, *, scramble: bool = False) -> None:
        self.plan = plan
        self.counts: Counter[str] = Counter()
        self.log: list[tuple[float, str, bytes, bool]] = []
        self.violation: InvariantViolation | None = None
        self._stops, self.alive, self._over, self._postponed = 0, False, False, False
        self.guard = Guard(self)
        self._loop = VirtualLoop()
        self._loop.execute = self.execute
        self._source = SourceBroker(self._loop, self, Random(f"source {plan.seed}"), plan.network)
        self._sink = SinkBroker(self._loop, self, Random(f"sink {plan.seed}"), plan.network)
        self._brokers: dict[str, Broker] = {"source": self._source, "sink": self._sink}
        self._loop.connect = lambda host, protocol: self._brokers[host].connect(protocol)
        self._pace = PACES[plan.pace]
        self._faults = FaultInjector(self._loop, self._pace, self._source, self._sink, scramble=scramble)
        self.wall_ms, self.read_wall_ms = self._faults.wall_ms, self._faults.read_wall_ms
        self._resumes = any(isinstance(event, s.Resume) for event in plan.events)
        self._oracle = Oracle(meanings=self._faults.meanings)
        self._versions = StoreVersions(
            folder, keeps=any(isinstance(e, s.Crash) and e.store for e in plan.events)
        )
        self._keys = keys
        self._channels: set[str] = set()
        self._random = Random(f"disk {plan.seed}")
        self._which, self._armed = 0, list[s.End]()
        self._end: s.End | None = None
        self._files: power.Files | None = None
        self._disk: disk.Disk | None = None
        self._store: Store | None = None
        self._process_counts = Counts()
        self._task: asyncio.Task[None] | None = None

    # --- a whole run ---------------------------------------------------------------------------

    def run(self) -> None:
        """Let everything happen; raises InvariantViolation at the first thing that must not."""
        end_s = self.plan.end_ms / 1000
        self._loop.until_s = end_s + 2 * (EPILOGUE_S + _STOP_S)
        self._source.reachable.set()
        self._sink.reachable.set()
        for event in self.plan.events:
            self._loop.call_at(event.at_ms / 1000, self._apply, event)
        self._loop.call_at(end_s, self._settle)
        self._loop.call_at(end_s + EPILOGUE_S - _ANSWER_S, self._look)
        try:
            while not self._over:
                self._run_process()
                self._rest(end_s)
            self._check_end()
        finally:
            self._loop.close()

    @property
    def _configuration(self) -> s.Configuration:
        return self.plan.configurations[self._which]

    def _run_process(self) -> None:
        """One process of the agent."""
        config = parse(self._configuration, self._pace, self._keys, self._versions.folder / "db")
        self._channels = {one.name for one in self._configuration}
        self.counts["processes"] += 1
        self._end = self._files = self._store = self._disk = None
        self.alive, self._stops = True, 0
        seed = 1000 * self.plan.seed + self.counts["processes"]
        agent = Agent(config, environment(self, config, seed))
        self._process_counts, self._task = agent.counts, self._loop.create_task(agent.run())
        error: BaseException | None = None
        try:
            self._loop.run_until_complete(self._task)
        except (Killed, Exception, asyncio.CancelledError) as found:  # noqa: BLE001 - judged below
            error = found
        failing = self.alive and isinstance(self._end, s.Fail) and is_of_the_device(error)
        told = isinstance(error, asyncio.CancelledError) and self._stops == 1
        self._oracle.process.orderly = self.alive and told
        self.alive = False
        self._loop.end_tasks()
        for broker in self._brokers.values():
            broker.process_ended()
        if self._store is not None:  # nothing has closed it
            if self._files is None:
                self._files = disk.look(self._versions.folder)
            self._store.close()
        self._task = None
        self._faults.attach_disk(None)
        if self.violation:
            raise self.violation
        if not (failing or isinstance(error, (Killed, asyncio.CancelledError))):
            raise InvariantViolation("the agent ends by itself", named(error)) from error

    def _rest(self, end_s: float) -> None:
        """The time until the next process; its store is what the crash left, or what befell it."""
        if (end := self._end) is None:
            return
        self._which = end.then
        if self._files is not None:
            store = end.store if isinstance(end, s.Crash) else ""
            if store:  # who has lost the store must not also have lost the time
                self._faults.not_before_newest()
            self._versions.leave(self._files, store)
        down_s = min(end.down_ms / 1000, max(0.0, end_s - self._loop.time()))
        self._loop.run_until_complete(asyncio.sleep(down_s))

    # --- what a process asks for ------------------------------------------------------------------

    def opened(self, path: Path, *, now_ms: int, recovery_floor_ms: int | None) -> Store:
        """The store of a process that begins; it must hold what was committed."""
        open_store = partial(
            Store.open, path, now_ms=now_ms, recovery_floor_ms=recovery_floor_ms, again_s=0.0
        )
        safe_ms = max(self._faults.newest_ms, self._oracle.safe_ms())
        trap = self._sprung("open")
        if trap is None:
            store = self._versions.open(open_store, now_ms, safe_ms)
        else:
            opening = partial(self._versions.open, open_store, now_ms, safe_ms)
            store, shots = disk.lines(self._versions.folder, opening)
            store.close()
            self._die(trap, shots[len(shots) * trap.part // 1000])
        self._store = store
        with self.guard:
            if (other := self._versions.other(store)) is not None:
                self._oracle.replaced(other)
            self._versions.name(store, hashlib.sha256(f"secret {self.plan.seed}".encode()).digest())
            self._oracle.begin(now_ms, self._process_counts, store, self._channels)
            self._oracle.process.known_s = self._loop.time() + KNOWN_S
            self._versions.copy(self._oracle.checker.expected)
        return store

    def begun(
        self, store: Store, keep_ms: int, max_bytes: int, channels: Collection[str], counts: Counts
    ) -> disk.Disk:
        """The disk of a process, whose clock goes on from what the store has seen."""
        self._faults.newest_ms = max(store.clock_ms, self.wall_ms())
        self._disk = disk.Disk(self._random, self, store, keep_ms, max_bytes, channels, counts)
        self._faults.attach_disk(self._disk)
        return self._disk

    def boot_clock(self) -> BootClock:
        """The boot clock of a process; where a snapshot is to be resumed the wall clock is synchronised."""
        return BootClock(self._faults.boot_ms, lambda: self._resumes and self._store is not None)

    def restored(self, path: Path, *, at_ms: int, now_ms: int, take_over: bool) -> None:
        """The clock has jumped, and the agent restores its store."""
        if self.alive:
            self.counts["clock jumped"] += 1
            restore = partial(restored_at, path, at_ms=at_ms, now_ms=now_ms, take_over=take_over)
            with self.guard:
                self._oracle.resumed(path, restore, self.wall_ms(), self._channels)
            self._store, self._disk = None, None

    def make_model(self, spec: StreamSpec, limit: Fraction | None) -> Model:
        """The model that stands beside a core."""
        return self._oracle.restore(spec, limit)

    def fed(
        self, model: Model, batch: Sequence[Message], now_ms: int, closing_ms: int, effects: Effects
    ) -> None:
        """The core was fed."""
        with self.guard:
            self._oracle.fed(model, batch, now_ms, closing_ms, effects)

    # --- what its disk asks for ----------------------------------------------------------------

    def dies(self, commit: Commit, delivered: Sequence[int]) -> s.Crash | None:
        """A transaction begins; how the process dies in it, if it does."""
        self._oracle.begins(commit, delivered, commit.clock_ms)
        fail = next((one for one in self._armed if isinstance(one, s.Fail)), None)
        if fail is not None and self._disk is not None:
            self._armed.remove(fail)
            self._end, self._disk.fails = fail, fail.steps
            return None
        return self._sprung("commit")

    def died(self, trap: s.Crash, files: power.Files) -> None:
        """The process dies in it, and leaves this."""
        if trap.where == "commit-before":
            self._oracle.in_doubt = None
        self._die(trap, files)

    def committed(self) -> None:
        """It is on disk."""
        self.counts["commits"] += 1
        with self.guard:
            self._oracle.committed()

    def failed(self) -> None:
        """It has failed: what of it is on disk may leave until the process has ended."""
        if self._store is not None:
            with self.guard:
                self._oracle.settle(self._store, self._channels)

    def spared(self) -> None:
        """The device has not failed."""
        self._end = None if isinstance(self._end, s.Fail) else self._end  # it did not come to that

    def dropped(self) -> None:
        """What retired streams left unsent has made room."""
        if self._store is not None:
            with self.guard:
                self._oracle.dropped(self._store, self._channels)

    def execute(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """What the agent asks of its own store thread: to close the store."""
        if not self.alive:
            raise asyncio.CancelledError
        if self._store is None or function != self._store.close:
            return function(*arguments)
        self._store = None
        if (trap := self._sprung("close")) is not None:
            _, shots = disk.lines(self._versions.folder, partial(function, *arguments))
            self._die(trap, shots[len(shots) * trap.part // 1000])
        return function(*arguments)

    # --- how a process ends --------------------------------------------------------------------

    def _sprung(self, where: str) -> s.Crash | None:
        """The crash that waits for the process to get there."""
        traps = (trap for trap in self._armed if isinstance(trap, s.Crash) and trap.where.startswith(where))
        if (trap := next(traps, None)) is not None:
            self._armed.remove(trap)
        return trap

    def _die(self, end: s.Crash, files: power.Files | None = None) -> NoReturn:
        self.counts[f"crash {end.where}"] += 1
        self._end, self.alive = end, False
        self._files = disk.look(self._versions.folder) if files is None else files
        raise Killed

    def _trap(self, where: str) -> None:
        """Die here if it is time."""
        if (trap := self._sprung(where)) is not None:
            self._die(trap)

    # --- what crosses the border ---------------------------------------------------------------

    def subscribed(self, client_id: str) -> None:
        """A stream's subscription is confirmed; the ids of its clients end with its name, but for main."""
        name = client_id.partition("-source")[2].removeprefix("-") or "main"
        self._oracle.process.subscribed_ms.setdefault(name, self.wall_ms())

    def acknowledges(self, packet_ids: list[int]) -> int:
        """The agent acknowledges; how many still leave before it dies."""
        self.counts["acknowledged"] += len(packet_ids)
        with self.guard:
            self._oracle.acknowledges(packet_ids)
        self._trap("acknowledge-before")
        half = any(isinstance(one, s.Crash) and one.where == "acknowledge-half" for one in self._armed)
        return len(packet_ids) // 2 if half else len(packet_ids)

    def after_acknowledging(self) -> None:
        """They have left."""
        self._trap("acknowledge")

    def leaves(self, seen: dict[str, int], topic: str, payload: bytes, *, retain: bool) -> None:
        """A publication leaves on a connection that has seen others."""
        self._trap("publish-before")
        self.counts["published"] += 1
        self.log.append((self._loop.time(), topic, payload, retain))
        now_ms = self._faults.clock_ms()
        with self.guard:
            self._oracle.checker.leaves(Sent(topic, payload), seen, now_ms, retain=retain)

    def after_leaving(self) -> None:
        """It has left."""
        self._trap("publish-after")

    def confirms(self, publication: Publication) -> None:
        """The agent is about to be told that a publication was taken."""
        self.counts["confirmed"] += 1
        self._oracle.confirms(Sent(publication.topic, publication.payload))

    def after_confirming(self) -> None:
        """It has been told, and has not marked it."""
        self._trap("confirm")

    # --- events --------------------------------------------------------------------------------

    def _apply(self, event: s.Event) -> None:
        self.counts[type(event).__name__.lower()] += 1
        match event:
            case s.Stop():
                self._end = event if self.alive else self._end
                self._stop()
            case s.Crash(where="now"):
                if self.alive:
                    self._die(event)
            case s.End():
                self._armed.append(event)
            case s.Resume():
                self._faults.apply(event)
                alive = self.alive and self._store is not None
                self._oracle.copied = alive and self._loop.time() > self._oracle.process.known_s
            case _:
                self._faults.apply(event)
        self._oracle.copied &= not self._faults.set_back  # who has not looked sees the sum of both steps

    def _settle(self) -> None:
        """From now on nothing goes wrong."""
        self._armed.clear()
        self._faults.settle()

    def _owed(self) -> list[int]:
        """What is not acknowledged, and stands for nothing that is still open."""
        held = self._oracle.held()
        return [packet_id for packet_id in self._source.owed if packet_id not in held]

    def _look(self) -> None:
        """What is owed may be in a commit that is on its way: it is given its time."""
        self._loop.call_later(_ANSWER_S, self._finish, self._owed())

    def _finish(self, owed: list[int]) -> None:
        """The end of the world: SIGTERM; nothing is owed that was before."""
        # A process that is stopping when the epilogue ends has not had one: its successor has.
        if self.alive and self._end is not None and not self._postponed:
            self._postponed = True
            self._loop.call_later(EPILOGUE_S + _STOP_S - _ANSWER_S, self._look)
            return
        self._over = True
        now = set(self._owed())
        if never := [packet_id for packet_id in owed if packet_id in now]:
            self.violation = self.violation or InvariantViolation("a message is never acknowledged", never)
        self._stop()

    def _stop(self) -> None:
        """SIGTERM; another one while it stops cuts that short, and what was sent last may come twice."""
        if self.alive and self._task is not None:
            self._stops += 1
            self._task.cancel()

    def _check_end(self) -> None:
        """All that must have left has, and is on disk as it left."""
        oracle, settled_ms = self._oracle, self.wall_ms() - round(_SETTLED_S * self._pace.per_s)
        walls = {one.name: settled_ms for one in self._configuration if one.clock == Clock.WALL}
        oracle.checker.complete(walls, self._channels, settled_ms)
        with Store.open(self._versions.folder / "db", now_ms=self.wall_ms(), recovery_floor_ms=None) as store:
            oracle.settle(store, self._channels)
        oracle.marked()
        records, befell = len(oracle.checker.committed_ever), self._versions.befell
        self.counts.update(befell, windows=len(oracle.checker.windows), records=records)
        for broker in self._brokers.values():
            self.counts.update(broker.counts)
