"""A world: the unchanged agent between simulated brokers, with a disk that can fail, in virtual time.

`World.run` starts one process of `meteragent.agent` after another, with seeded bits for noise. `network` and
`brokers` replace sockets and their peers, `disk` replaces the store's thread and its device, and `loop`
replaces time. The schedule determines how a process ends; the next process starts with the files that are
left. At the end all faults cease, and everything that was due must have been sent.

A crash event only sets a trap, except for `now`, which takes effect at once. The trap springs when the
process reaches the place of the crash: a method of `process_environment`, `disk_events` or `traffic` that the
agent, the network or the disk calls. A failure of the device waits for the next commit.
"""

import asyncio
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random

from meteragent.agent.service import Agent
from meteragent.domain.counters import Counts
from meteragent.store import Store
from simulators.invariant import InvariantViolation
from simulators.simtest import schedule as s
from simulators.simtest.agent_process import environment, format_error, is_device_failure
from simulators.simtest.configuration import parse
from simulators.simtest.judge.ending import (
    check_complete,
    check_described,
    check_retained,
    epilogue_s,
    overdue_topics,
)
from simulators.simtest.judge.oracle import Oracle
from simulators.simtest.loop import Guard, Killed, VirtualLoop
from simulators.simtest.model.receivers import BROKERS
from simulators.simtest.model.setting import PACES
from simulators.simtest.mqtt.brokers import Broker, SinkBroker, SourceBroker
from simulators.simtest.mqtt.server import MQTT_5
from simulators.simtest.store import disk, power
from simulators.simtest.store.versions import StoreVersions
from simulators.simtest.surroundings import FaultInjector
from simulators.simtest.traps import Traps
from simulators.simtest.visitors import Visitors

STATES = ("down", "without its store", "waiting", "writing", "stopping")
"""The states in which the agent may be when an event happens."""


def met(state: str, kind: str) -> str:
    """Return the name of the counter of events of this `kind` in a state of the agent."""
    return f"in state {state}: {kind}"


_STOP_S = 30.0
"""A time longer than any stop takes, since the outbox is drained for at most ten seconds."""
_SETTLED_S, _ANSWER_S = 2.5, 0.5
"""By the end, records that are due `_SETTLED_S` before the end must be sent, and messages that are
unacknowledged `_ANSWER_S` before the end must be acknowledged."""


class World(Visitors):
    """Everything around the agent.

    `keys` is the folder of `setting.write_keys`; `folder` holds this world's stores. `is_scrambled` gives the
    readings other values at the same times. `log` holds the publications, and `counts` counts events.
    """

    def __init__(self, plan: s.Schedule, keys: Path, folder: Path, *, is_scrambled: bool = False) -> None:
        self.plan = plan
        self.counts: Counter[str] = Counter()
        self.log: list[tuple[float, str, bytes, bool]] = []
        self.violation: InvariantViolation | None = None
        self._stops, self.is_alive, self._is_over, self._has_postponed_end = 0, False, False, False
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
            self._loop, self._pace, self._source, self._sinks[0], self._brokers, is_scrambled=is_scrambled
        )
        self.wall_ms, self.read_wall_ms = self._faults.wall_ms, self._faults.read_wall_ms
        self._resumes = any(isinstance(event, s.Resume) for event in plan.events)
        self._oracle = Oracle(meanings=self._faults.meanings, listening_clock_s=self._listening_clock_s())
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
        self.agent_counts = Counts()
        self._task: asyncio.Task[None] | None = None

    # --- a whole run ---------------------------------------------------------------------------

    def run(self) -> None:
        """Run the schedule. Raises InvariantViolation at the first violation."""
        self._loop.until_s = (end_s := self.plan.end_ms / 1000) + 2 * (epilogue_s(self.plan) + _STOP_S)
        for broker in self._brokers.values():
            broker.reachable.set()
        for event in self.plan.events:
            self._loop.call_at(event.at_ms / 1000, self._apply, event)
        self._loop.call_at(end_s, self._settle)
        self._loop.call_at(end_s + epilogue_s(self.plan) - _ANSWER_S, self._ask_owed)
        try:
            while not self._is_over:
                self._run_process()
                self._wait_for_restart(end_s)
            self._check_end()
        finally:
            self._loop.close()

    def _run_process(self) -> None:
        """Run one process of the agent until it ends, and check how it ended."""
        path = self._versions.folder / "db"
        config = parse(self._written_configuration, self._pace, self._keys, path, keeps_tables=True)
        self.counts["processes"] += 1
        self._end = self._files = self._store = self._disk = None
        self.is_alive, self._stops = True, 0
        seed = 1000 * self.plan.seed + self.counts["processes"]
        agent = Agent(config, environment(self, seed))
        self.agent_counts, self._task = agent.counts, self._loop.create_task(agent.run())
        error: BaseException | None = None
        try:
            self._loop.run_until_complete(self._task)
        except (Killed, Exception, asyncio.CancelledError) as raised:  # noqa: BLE001 - checked below
            error = raised
        has_failed = self._disk is not None and self._disk.has_failed
        failing = self.is_alive and (has_failed or isinstance(self._end, s.Fail)) and is_device_failure(error)
        is_stopped = isinstance(error, asyncio.CancelledError) and self._stops == 1
        self._oracle.process.is_orderly = self.is_alive and is_stopped
        self.is_alive = False
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
            store, part = (end.store, end.part) if isinstance(end, s.Crash) else ("", 0)
            if store:  # with a clock set back *and* a lost store, no agent could know what it released
                self._faults.correct_clock()
            self._versions.leave(self._files, store, part)
        down_s = min(end.down_ms / 1000, max(0.0, end_s - self._loop.time()))
        with suppress(Killed):
            self._loop.run_until_complete(asyncio.sleep(down_s))
        if self.violation:
            raise self.violation

    # --- events --------------------------------------------------------------------------------

    def _apply(self, event: s.Event) -> None:
        name = type(event).__name__.lower()
        self.counts[name] += 1
        self.counts[met(self._state, name)] += 1
        match event:
            case s.Stop():
                self._end = event if self.is_alive else self._end
                for number in range(event.signals):
                    after_s, process = number * event.apart_ms / 1000, self.counts["processes"]
                    self._loop.call_later(after_s, self._stop_process, process)
            case s.Second():
                self._start_second()
            case s.Act():
                self._act(event)
            case s.Crash(where="now"):
                if self.is_alive:
                    self._die(event)
            case s.End():
                self._traps.arm(event)
            case s.Keys() | s.Foreign():
                self._publish_for_others(event)
            case s.Resume():
                self._faults.apply(event)
                copy, known_s = self._oracle.is_noted, self._oracle.process.clock_known_s
                self._oracle.is_copy = copy or (self._store is not None and self._loop.time() > known_s)
            case _:
                self._faults.apply(event)
        self._oracle.is_copy &= not self._faults.set_back  # the correction of such a clock is not a jump

    def _settle(self) -> None:
        """End all faults, and disarm all traps."""
        self._traps.clear()
        self._faults.settle()

    def _owed(self) -> list[int]:
        """Return the packet ids of unacknowledged messages whose readings are not held."""
        held_ids = self._oracle.process.held_packet_ids()
        return [packet_id for packet_id in self._source.owed if packet_id not in held_ids]

    def _ask_owed(self) -> None:
        """List the owed packet ids, and check them later, because a commit may be under way."""
        self._loop.call_later(_ANSWER_S, self._finish, self._owed())

    def _finish(self, packet_ids: list[int]) -> None:
        """End the world with SIGTERM; messages that were owed before must be acknowledged."""
        checker, until_ms = self._oracle.checker, self.wall_ms() - round(_SETTLED_S * self._pace.per_s)
        has_receivers = bool(checker.expected.grants)
        # If a process is stopping when the epilogue ends, wait once for what its successor sends and
        # acknowledges. Processes also stop, for up to ten seconds, when a receiver is admitted or revoked.
        is_waiting = has_receivers and bool(overdue_topics(checker, self._streams, until_ms))
        if self.is_alive and (self._end is not None or is_waiting) and not self._has_postponed_end:
            self._has_postponed_end = True
            self._loop.call_later(epilogue_s(self.plan) + _STOP_S - _ANSWER_S, self._ask_owed)
            return
        # Receivers may just have been admitted or revoked: slots that fell due meanwhile must be sent first.
        if self.is_alive and has_receivers and self._loop.time() < self._opened_s + _SETTLED_S:
            self._loop.call_later(epilogue_s(self.plan) - _ANSWER_S, self._ask_owed)
            return
        self._is_over = True
        still_owed = set(self._owed())
        if stuck := [packet_id for packet_id in packet_ids if packet_id in still_owed]:
            self.violation = self.violation or InvariantViolation("a message is never acknowledged", stuck)
        self._stop()

    @property
    def _state(self) -> str:
        """What the agent is doing, one of `STATES`."""
        if not self.is_alive:
            return "down"
        if self._stops:
            return "stopping"
        if self._store is None:
            return "without its store"
        return "writing" if self._disk is not None and self._disk.is_busy else "waiting"

    def _stop_process(self, process: int) -> None:
        """Send SIGTERM to a process, unless it has ended since."""
        if process == self.counts["processes"]:
            self._stop()

    def _stop(self) -> None:
        """Send SIGTERM; a second SIGTERM cuts the stop short, and the last records may then be sent twice."""
        if self.is_alive and self._task is not None:
            self._stops += 1
            self._task.cancel()

    def _check_end(self) -> None:
        """Check that everything due has been sent, and that the store is as expected; complete the counts."""
        oracle, settled_ms = self._oracle, self.wall_ms() - round(_SETTLED_S * self._pace.per_s)
        closed_ms = {c.name: settled_ms for c in self._configuration if c.clock == "wall"}
        check_complete(oracle.checker, closed_ms, self._streams, settled_ms)
        with Store.open(self._versions.folder / "db", now_ms=self.wall_ms(), recovery_floor_ms=None) as store:
            oracle.settle(store.connection, self._streams)
        oracle.check_marked()
        if not self.listens:
            oracle.actions.check_others(self.plan.configurations)
        for sink in self._sinks if not self._versions.damages else ():
            check_retained(oracle.checker, sink.retained)
        if self.plan.network.level == MQTT_5:
            retained = self._sinks[0].retained | self._sinks[1].retained
            check_described(oracle.checker, retained, self._streams)
        grants = oracle.checker.expected.grants.values()
        self.counts["reports too late"] += len(oracle.checker.late)
        self.counts.update({"receivers": len(grants), "receivers revoked": sum(g.is_revoked for g in grants)})
        self.counts.update([*self._versions.damages, *oracle.prices.elements()])
        self.counts.update(windows=len(oracle.checker.windows), records=len(oracle.checker.records))
        for broker in self._brokers.values():
            self.counts.update(broker.counts)
