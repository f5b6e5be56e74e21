"""The part of a world that gives a process its store, its disk, its clocks and the models of its cores."""

import hashlib
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from random import Random

from meteragent.core.stream import Effects
from meteragent.domain.counters import Counts
from meteragent.domain.reading import Message
from meteragent.service.boot_clock import BootClock
from meteragent.store import Store, outbox, restore_at
from simulators.simtest import schedule as s
from simulators.simtest.configuration import spec_of
from simulators.simtest.disk_events import DiskEvents
from simulators.simtest.judge.actions import after_actions
from simulators.simtest.judge.process_record import CLOCK_KNOWN_S
from simulators.simtest.model.setting import Pace
from simulators.simtest.model.stream import Model
from simulators.simtest.model.stream_spec import StreamNames, runs, shares_of
from simulators.simtest.store import disk, power


class ProcessEnvironment(DiskEvents):
    """A world's side of a process (`agent_process.ProcessWorld`), whose counters are `agent_counts`."""

    wall_ms: Callable[[], int]
    _pace: Pace
    _keys: Path
    _random: Random
    _resumes: bool
    _configuration_number: int
    agent_counts: Counts
    _opened_s: float
    _settled_ms: int

    @property
    def _written_configuration(self) -> s.Configuration:
        return self.plan.configurations[self._configuration_number]

    @property
    def _configuration(self) -> s.Configuration:
        """The configuration after the actions on its receivers."""
        return after_actions(self._written_configuration, self._oracle.checker.expected.actions)

    def open_store(self, path: Path, *, now_ms: int, recovery_floor_ms: int | None) -> Store:
        """Open the store of a process, which may die during this. The store must contain all commits."""
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
        for sink in self._sinks:
            sink.begin_agent()
        if self._versions.is_flipped:
            outbox.hold_damaged(store)
            query = "SELECT id FROM outbox WHERE queue = '@damaged'"
            self._oracle.hold([id_ for (id_,) in store.connection.execute(query)])
            self._versions.is_flipped = False
        with self.guard:
            self._check_pads(disk.read_files(self._versions.folder).values())
            if (expected := self._versions.replaced_by(store)) is not None:
                self._oracle.replace_store(expected)
            self._versions.name(store, hashlib.sha256(f"secret {self.plan.seed}".encode()).digest())
            self._oracle.actions.settle(store.connection)
            self._settled_ms, self._opened_s = max(now_ms, store.clock_ms), self._loop.time()
            self._streams = {c.name for c in self._configuration if runs(c, self._pace, self._settled_ms)}
            self._oracle.begin(now_ms, self.agent_counts, store.connection, self._streams)
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
        """Predict which receivers are admitted and revoked; an armed crash happens during this."""
        shares = [share for setting in self._configuration for share in shares_of(setting, self._pace)]
        trap = self._traps.spring("settle")
        with self.guard:
            self._oracle.settle_receivers(shares, self._settled_ms, may_die=trap is not None)
        if trap is not None:
            self._loop.call_soon(self._die_settling, trap, disk.record_transactions(store))

    def _die_settling(self, trap: s.Crash, end_recording: Callable[[], list[power.Files]]) -> None:
        states = end_recording()
        # The agent's tasks start first, because coroutines that never start would be reported.
        self._loop.call_soon(self._die_alive, trap, states[len(states) * trap.part // 1000])

    def _die_alive(self, trap: s.Crash, files: power.Files) -> None:
        if self.is_alive:
            self._die(trap, files)

    def make_boot_clock(self) -> BootClock:
        """Create the boot clock; in worlds with a snapshot, it is synchronised once a store is open.

        A power cut does not reset the boot clock here: the machine is virtual, and its host resumes it.
        """
        return BootClock(self._faults.boot_ms, lambda: self._resumes and self._store is not None, "boot")

    def restore_store(self, path: Path, *, at_ms: int, now_ms: int, take_over: bool) -> None:
        """Restore the agent's store after its clock has jumped."""
        if self.is_alive:
            self.counts["clock jumped"] += 1
            wall_ms = self.wall_ms()
            with self.guard:
                with Store.open(path, now_ms=wall_ms, recovery_floor_ms=None) as store:
                    self._oracle.settle(store.connection, self._streams)
                restore_at(path, at_ms=at_ms, now_ms=now_ms, take_over=take_over)
                with Store.open(path, now_ms=wall_ms, recovery_floor_ms=None) as store:
                    floor_ms = store.floor_ms
                self._oracle.resume_copy(floor_ms, wall_ms)
            self._store, self._disk = None, None

    def make_model(self, names: StreamNames) -> Model:
        """Create the model for a core from the settings of its stream; only the names are the core's."""
        if self._store is not None:
            with self.guard:
                self._oracle.check_settled(self._store.connection, self._streams)
        return self._oracle.restore(spec_of(names, self._configuration, self._pace))

    def check_feed(
        self, model: Model, batch: Sequence[Message], now_ms: int, closing_ms: int, effects: Effects
    ) -> None:
        """Check the effects of feeding the core."""
        with self.guard:
            self._oracle.check_feed(model, batch, now_ms, closing_ms, effects)
