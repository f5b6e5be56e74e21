"""A world: the unchanged agent between simulated brokers, with a disk that can fail, in virtual time.

`World.run` starts one process of `meteragent.agent` after another, with seeded bits for noise. `network` and
`brokers` replace sockets and their peers, `disk` replaces the store's thread and its device, and `loop`
replaces time. The schedule determines how a process ends; the next process starts with the files that are
left. At the end all faults cease, and everything that was due must have been sent.

A crash event only sets a trap, except for `now`, which takes effect at once. The trap springs when the
process reaches the place of the crash: a method below or in `traffic` that the agent, the network or the disk
calls. A failure of the device waits for the next commit.
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
from meteragent.store import Store, crowd_keys, restore_at
from meteragent.store.outbox import WaitingRow
from simulators.invariant import InvariantViolation
from simulators.simtest import disk, power
from simulators.simtest import schedule as s
from simulators.simtest.agent_process import environment, format_error, is_device_failure
from simulators.simtest.brokers import Broker, SinkBroker, SourceBroker
from simulators.simtest.ending import check_complete, check_retained
from simulators.simtest.loop import Guard, Killed, VirtualLoop
from simulators.simtest.model import Model
from simulators.simtest.oracle import CLOCK_KNOWN_S, Oracle
from simulators.simtest.receivers import BROKERS
from simulators.simtest.setting import PACES, parse
from simulators.simtest.store_versions import StoreVersions
from simulators.simtest.stream_spec import StreamSpec
from simulators.simtest.surroundings import FaultInjector
from simulators.simtest.traffic import Traffic
from simulators.simtest.traps import Traps

EPILOGUE_S = 5.0
"""The time without faults at the end: long enough for a catch-up, a connection and some turns."""
_STOP_S = 30.0
"""A time longer than any stop takes, since the outbox is drained for at most ten seconds."""
_SETTLED_S, _ANSWER_S = 2.5, 0.5
"""Records that are due `_SETTLED_S` before the end must be sent by the end, and messages that are owed
`_ANSWER_S` before the end must be acknowledged by the end."""


class World(Traffic):
    """Everything around the agent.

    `keys` is the folder of `setting.write_keys`; `folder` holds the stores of this world. `scramble` gives
    the readings other values at the same times. `log` holds the publications, and `counts` counts events.
    """

    def __init__(self, plan: s.Schedule, keys: Path, folder: Path, *, scramble: bool = False) -> None:
        self.plan = plan
        self.counts: Counter[str] = Counter()
        self.log: list[tuple[float, str, bytes, bool]] = []
        self.violation: InvariantViolation | None = None
        self._stops, self.alive, self._is_over, self._has_postponed_end = 0, False, False, False
        self.guard = Guard(self)
        self._loop = VirtualLoop()
        self._loop.execute = self.execute
        self._source = SourceBroker(self._loop, self, Random(f"source {plan.seed}"), plan.network)
        self._sinks = [SinkBroker(self._loop, self, plan, name) for name in BROKERS]
        self._brokers: dict[str, Broker] = {
            "source": self._source,
            **dict(zip(BROKERS, self._sinks, strict=True)),
        }
        self._loop.connect = lambda host, protocol: self._brokers[host].connect(protocol)
        self._pace = PACES[plan.pace]
        self._faults = FaultInjector(
            self._loop, self._pace, self._source, self._sinks[0], self._brokers, scramble=scramble
        )
        self.wall_ms, self.read_wall_ms = self._faults.wall_ms, self._faults.read_wall_ms
        self._resumes = any(isinstance(event, s.Resume) for event in plan.events)
        self._oracle = Oracle(meanings=self._faults.meanings)
        keeps = any(isinstance(event, s.Crash) and event.store for event in plan.events)
        self._versions = StoreVersions(folder, keeps=keeps)
        self._keys = keys
        self._streams, self._settled_ms = set[str](), 0
        self._random = Random(f"disk {plan.seed}")
        self._configuration_number, self._traps, self._opened_s = 0, Traps(), 0.0
        self._end: s.End | None = None
        self._files: power.Files | None = None
        self._disk: disk.Disk | None = None
        self._store: Store | None = None
        self._process_counts = Counts()
        self._task: asyncio.Task[None] | None = None

    # --- a whole run ---------------------------------------------------------------------------

    def run(self) -> None:
        """Run the schedule. Raises InvariantViolation at the first violation."""
        self._loop.until_s = (end_s := self.plan.end_ms / 1000) + 2 * (EPILOGUE_S + _STOP_S)
        for broker in self._brokers.values():
            broker.reachable.set()
        for event in self.plan.events:
            self._loop.call_at(event.at_ms / 1000, self._apply, event)
        self._loop.call_at(end_s, self._settle)
        self._loop.call_at(end_s + EPILOGUE_S - _ANSWER_S, self._ask_owed)
        try:
            while not self._is_over:
                self._run_process()
                self._wait_for_restart(end_s)
            self._check_end()
        finally:
            self._loop.close()

    @property
    def _configuration(self) -> s.Configuration:
        return self.plan.configurations[self._configuration_number]

    def _run_process(self) -> None:
        """Run one process of the agent until it ends, and check how it ended."""
        config = parse(self._configuration, self._pace, self._keys, self._versions.folder / "db")
        self.counts["processes"] += 1
        self._end = self._files = self._store = self._disk = None
        self.alive, self._stops = True, 0
        seed = 1000 * self.plan.seed + self.counts["processes"]
        agent = Agent(config, environment(self, config, seed))
        self._process_counts, self._task = agent.counts, self._loop.create_task(agent.run())
        error: BaseException | None = None
        try:
            self._loop.run_until_complete(self._task)
        except (Killed, Exception, asyncio.CancelledError) as raised:  # noqa: BLE001 - checked below
            error = raised
        failing = self.alive and isinstance(self._end, s.Fail) and is_device_failure(error)
        is_stopped = isinstance(error, asyncio.CancelledError) and self._stops == 1
        self._oracle.process.orderly = self.alive and is_stopped
        self.alive = False
        self._loop.end_tasks()
        for broker in self._brokers.values():
            broker.end_process()
        if self._store is not None:  # the process did not close it
            if self._files is None:
                self._files = disk.read_files(self._versions.folder)
            self._store.close()
        self._task = None
        self._faults.attach_disk(None)
        if self.violation:
            raise self.violation
        if not (failing or isinstance(error, (Killed, asyncio.CancelledError))):
            raise InvariantViolation("the agent ends by itself", format_error(error)) from error

    def _wait_for_restart(self, end_s: float) -> None:
        """Wait until the next process starts, with the store that a crash or an operator leaves."""
        if (end := self._end) is None:
            return
        self._configuration_number = end.then
        if self._files is not None:
            store = end.store if isinstance(end, s.Crash) else ""
            if store:  # after a clock set back *and* a lost store, no agent could know what it had released
                self._faults.correct_clock()
            self._versions.leave(self._files, store)
        down_s = min(end.down_ms / 1000, max(0.0, end_s - self._loop.time()))
        self._loop.run_until_complete(asyncio.sleep(down_s))

    # --- environment of a process -----------------------------------------------------------------

    def open_store(self, path: Path, *, now_ms: int, recovery_floor_ms: int | None) -> Store:
        """Open the store of a process; the process may die meanwhile. The store must contain all commits."""
        open_store = partial(
            Store.open, path, now_ms=now_ms, recovery_floor_ms=recovery_floor_ms, again_s=0.0
        )
        safe_ms = max(self._faults.newest_ms, self._oracle.safe_ms())
        trap = self._traps.spring("open")
        if trap is None:
            store = self._versions.open(open_store, now_ms, safe_ms)
        else:
            opening = partial(self._versions.open, open_store, now_ms, safe_ms)
            store, states = disk.run_with_states(self._versions.folder, opening)
            store.close()
            self._die(trap, states[len(states) * trap.part // 1000])
        self._store = store
        with self.guard:
            self._check_pads(disk.read_files(self._versions.folder).values())
            if (expected := self._versions.replaced_by(store)) is not None:
                self._oracle.replace_store(expected)
            self._versions.name(store, hashlib.sha256(f"secret {self.plan.seed}".encode()).digest())
            self._settled_ms, self._opened_s = max(now_ms, store.clock_ms), self._loop.time()
            self._streams = {c.name for c in self._configuration if c.runs(self._pace, self._settled_ms)}
            self._oracle.begin(now_ms, self._process_counts, store, self._streams)
            self._oracle.process.clock_known_s = self._loop.time() + CLOCK_KNOWN_S
            self._versions.copy(self._oracle.checker.expected)
        return store

    def make_disk(
        self, store: Store, keep_ms: int, max_bytes: int, streams: Collection[str], counts: Counts
    ) -> disk.Disk:
        """Create the disk of a process; the agent's clock continues from the clock of the store."""
        self._faults.newest_ms = max(store.clock_ms, self.wall_ms())
        self._disk = disk.Disk(self._random, self, store, keep_ms, max_bytes, streams, counts)
        self._faults.attach_disk(self._disk)
        self._settle_receivers(store)
        return self._disk

    def _settle_receivers(self, store: Store) -> None:
        """Predict which receivers are admitted and revoked; if a crash is armed, it comes meanwhile."""
        shares = [share for setting in self._configuration for share in setting.shares(self._pace)]
        trap = self._traps.spring("settle")
        with self.guard:
            self._oracle.settle_receivers(shares, self._settled_ms, in_doubt=trap is not None)
        if trap is not None:
            self._loop.call_soon(self._die_settling, trap, disk.record_transactions(store))

    def _die_settling(self, trap: s.Crash, end_recording: Callable[[], list[power.Files]]) -> None:
        states = end_recording()
        # The agent's tasks start first, because coroutines that never start would be reported.
        self._loop.call_soon(self._die_alive, trap, states[len(states) * trap.part // 1000])

    def _die_alive(self, trap: s.Crash, files: power.Files) -> None:
        if self.alive:
            self._die(trap, files)

    def make_boot_clock(self) -> BootClock:
        """Create the boot clock; in worlds with a snapshot, it is synchronised once a store is open."""
        return BootClock(self._faults.boot_ms, lambda: self._resumes and self._store is not None)

    def restore_store(self, path: Path, *, at_ms: int, now_ms: int, take_over: bool) -> None:
        """Restore the agent's store after its clock has jumped."""
        if self.alive:
            self.counts["clock jumped"] += 1
            restore = partial(restore_at, path, at_ms=at_ms, now_ms=now_ms, take_over=take_over)
            with self.guard:
                self._oracle.resume_copy(path, restore, self.wall_ms(), self._streams)
            self._store, self._disk = None, None

    def make_model(self, spec: StreamSpec, limit: Fraction | None) -> Model:
        """Create the model for a core."""
        if self._store is not None:
            with self.guard:
                self._oracle.check_settled(self._store, self._streams)
        return self._oracle.restore(spec, limit)

    def check_feed(
        self, model: Model, batch: Sequence[Message], now_ms: int, closing_ms: int, effects: Effects
    ) -> None:
        """Check the effects of feeding the core."""
        with self.guard:
            self._oracle.check_feed(model, batch, now_ms, closing_ms, effects)

    # --- reports of the disk -------------------------------------------------------------------

    def begin_commit(self, commit: Commit, delivered: Sequence[int]) -> s.Crash | None:
        """Begin a transaction; return the crash that ends the process during or after it, or None.

        If a failure of the device is armed, it comes in the transaction or the erasure, instead of a crash.
        """
        self._oracle.checker.newest_ms = self._faults.newest_ms
        self._oracle.begin_commit(commit, delivered, commit.clock_ms)
        fail = self._traps.take_failure() if self._disk is not None else None
        if fail is not None and self._disk is not None:
            self._end, self._disk.fails = fail, fail.steps
            return None
        return self._traps.spring("commit")

    def crash(self, trap: s.Crash, files: power.Files) -> None:
        """End the process during the transaction or the erasure that follows, and leave `files`."""
        if trap.where == "commit-before":
            self._oracle.in_doubt = None
        self._die(trap, files)

    def end_commit(self, rows: Sequence[WaitingRow]) -> None:
        """Treat the transaction as committed, with the new `rows`."""
        self.counts["commits"] += 1
        with self.guard:
            self._oracle.end_commit(rows)

    def fail_commit(self) -> None:
        """Treat the transaction as failed, and compare the store, which may or may not hold it."""
        if self._store is not None:
            with self.guard:
                self._oracle.settle(self._store, self._streams)

    def cancel_device_failure(self) -> None:
        """Cancel a failure of the device that did not happen."""
        self._end = None if isinstance(self._end, s.Fail) else self._end

    def drop_retired(self) -> None:
        """Treat the rows of retired streams that were dropped to make room as delivered."""
        if self._store is not None:
            with self.guard:
                self._oracle.drop_retired(self._store, self._streams)

    def execute(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Run a function of the agent's store thread; the process may die while it closes the store."""
        if not self.alive:
            raise asyncio.CancelledError
        if function == crowd_keys.put:
            function(*arguments)
            self._note_keys(*arguments[1:])
            return None
        if self._store is None or function != self._store.close:
            return function(*arguments)
        self._store = None
        if (trap := self._traps.spring("close")) is not None:
            _, states = disk.run_with_states(self._versions.folder, partial(function, *arguments))
            self._die(trap, states[len(states) * trap.part // 1000])
        return function(*arguments)

    # --- how a process ends --------------------------------------------------------------------

    def _die(self, end: s.Crash, files: power.Files | None = None) -> NoReturn:
        self.counts[f"crash {end.where}"] += 1
        self._end, self.alive = end, False
        self._files = disk.read_files(self._versions.folder) if files is None else files
        raise Killed

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
                self._traps.arm(event)
            case s.Keys():
                self._publish_keys(event)
            case s.Resume():
                self._faults.apply(event)
                alive = self.alive and self._store is not None
                self._oracle.is_copy = alive and self._loop.time() > self._oracle.process.clock_known_s
            case _:
                self._faults.apply(event)
        self._oracle.is_copy &= not self._faults.set_back  # correcting such a clock shows no jump

    def _settle(self) -> None:
        """End all faults, and disarm all traps."""
        self._traps.clear()
        self._faults.settle()

    def _owed(self) -> list[int]:
        """Return the packet ids of unacknowledged messages that no held reading needs."""
        held_ids = self._oracle.held_packet_ids()
        return [packet_id for packet_id in self._source.owed if packet_id not in held_ids]

    def _ask_owed(self) -> None:
        """List the owed packet ids, and check them later, because a commit may be on its way."""
        self._loop.call_later(_ANSWER_S, self._finish, self._owed())

    def _finish(self, packet_ids: list[int]) -> None:
        """End the world with SIGTERM; messages that were owed before must be acknowledged."""
        # If a process is stopping when the epilogue ends, wait for its successor's acknowledgements.
        if self.alive and self._end is not None and not self._has_postponed_end:
            self._has_postponed_end = True
            self._loop.call_later(EPILOGUE_S + _STOP_S - _ANSWER_S, self._ask_owed)
            return
        # Receivers may just have been admitted or revoked: slots that fell due meanwhile must be sent first.
        if (
            self.alive
            and self._oracle.checker.expected.grants
            and self._loop.time() < self._opened_s + _SETTLED_S
        ):
            self._loop.call_later(EPILOGUE_S - _ANSWER_S, self._ask_owed)
            return
        self._is_over = True
        still_owed = set(self._owed())
        if stuck := [packet_id for packet_id in packet_ids if packet_id in still_owed]:
            self.violation = self.violation or InvariantViolation("a message is never acknowledged", stuck)
        self._stop()

    def _stop(self) -> None:
        """Send SIGTERM; a second SIGTERM cuts the stop short, and the last records may then be sent twice."""
        if self.alive and self._task is not None:
            self._stops += 1
            self._task.cancel()

    def _check_end(self) -> None:
        """Check that everything due has been sent, and that the store is as expected; complete the counts."""
        oracle, settled_ms = self._oracle, self.wall_ms() - round(_SETTLED_S * self._pace.per_s)
        closed_ms = {c.name: settled_ms for c in self._configuration if c.clock == Clock.WALL}
        check_complete(oracle.checker, closed_ms, self._streams, settled_ms)
        with Store.open(self._versions.folder / "db", now_ms=self.wall_ms(), recovery_floor_ms=None) as store:
            oracle.settle(store, self._streams)
        oracle.check_marked()
        for sink in self._sinks if not self._versions.damages else ():
            check_retained(oracle.checker, sink.retained)
        grants = oracle.checker.expected.grants.values()
        self.counts["reports too late"] += len(oracle.checker.late)
        self.counts.update({"receivers": len(grants), "receivers revoked": sum(g.is_revoked for g in grants)})
        self.counts.update([*self._versions.damages, *oracle.prices.elements()])
        self.counts.update(windows=len(oracle.checker.windows), records=len(oracle.checker.records))
        for broker in self._brokers.values():
            self.counts.update(broker.counts)
