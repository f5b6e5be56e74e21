"""The part of a world to which the disk reports transactions, and at which a process may die."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NoReturn

from meteragent.domain.commit import Commit, Outgoing
from meteragent.store import Store, crowd_keys, grants
from meteragent.store.outbox import WaitingRow
from simulators.simtest import schedule as s
from simulators.simtest.loop import Killed
from simulators.simtest.model.receivers import Action
from simulators.simtest.store import disk, power
from simulators.simtest.store.versions import StoreVersions
from simulators.simtest.traffic import Traffic


class DiskEvents(Traffic):
    """A world's side of its disk (`disk.DiskObserver`), and the death of a process."""

    _resumes: bool
    _versions: StoreVersions
    _streams: set[str]
    _store: Store | None
    _disk: disk.Disk | None
    _end: s.End | None
    _files: power.Files | None

    def begin_commit(self, commit: Commit, delivered: Sequence[int]) -> s.Crash | None:
        """Begin a transaction; return the crash that ends the process during or after it, or None.

        If a failure of the device is armed, it happens in the transaction or the erasure, instead of a crash.
        """
        self._oracle.checker.newest_ms = self._faults.newest_ms
        self._oracle.begin_commit(commit, delivered, commit.clock_ms)
        fail = self._traps.take_failure(is_in_call=False) if self._disk is not None else None
        if fail is not None and self._disk is not None:
            self._end, self._disk.fails = fail, fail.steps
            return None
        return self._traps.spring("commit")

    def begin_call(self) -> None:
        """Begin a call other than a commit; a failure of the device that is armed for it happens then."""
        fail = self._traps.take_failure(is_in_call=True) if self._disk is not None else None
        if fail is not None and self._disk is not None:
            self._end, self._disk.fails = fail, fail.steps
            self.counts["failing calls"] += 1

    def crash(self, trap: s.Crash, files: power.Files) -> None:
        """End the process during the transaction or the erasure that follows, and leave `files` on disk."""
        if trap.where == "commit-before":
            self._oracle.in_doubt = None
        self._die(trap, files)

    def end_commit(self, rows: Sequence[WaitingRow]) -> None:
        """Treat the transaction as committed, with the new `rows`."""
        self.counts["commits"] += 1
        self._oracle.is_noted |= self._resumes and self._loop.time() > self._oracle.process.clock_known_s
        with self.guard:
            self._oracle.end_commit([_outgoing(row) for row in rows])

    def fail_commit(self) -> None:
        """Treat the transaction as failed, and check the store, which may or may not contain it."""
        if self._store is not None:
            with self.guard:
                self._oracle.settle(self._store.connection, self._streams)

    def cancel_device_failure(self) -> None:
        """Cancel a failure of the device that did not happen."""
        self._end = None if isinstance(self._end, s.Fail) else self._end

    def drop_retired(self) -> None:
        """Treat the rows of retired streams that were dropped to make room as delivered."""
        if self._store is not None:
            with self.guard:
                self._oracle.drop_retired(self._store.connection, self._streams)

    def execute(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Run a function of the agent's store thread; the process may die while it closes the store."""
        if not self.is_alive:
            raise asyncio.CancelledError
        if function == crowd_keys.commit_keys:
            function(*arguments)
            self._note_keys(*arguments[1:])
            return None
        if function == grants.add_action:
            return self._write_action(*arguments)
        if self._store is None or function != self._store.close:
            return function(*arguments)
        self._store = None
        if (trap := self._traps.spring("close")) is not None:
            _, states = disk.run_with_states(self._versions.folder, partial(function, *arguments))
            self._die(trap, states[len(states) * trap.part // 1000])
        return function(*arguments)

    def _write_action(self, store: Store, action: grants.Action, *known_ids: Any) -> str | None:
        """Write an action on a receiver for the agent, which may die meanwhile."""
        self._oracle.actions.begin(self._noted(action))
        if (trap := self._traps.spring("act")) is not None:
            end_recording = disk.record_transactions(store)
            grants.add_action(store, action, *known_ids)
            states = end_recording()
            self._die(trap, states[len(states) * trap.part // 1000])
        refusal = grants.add_action(store, action, *known_ids)
        self.counts["actions"] += 1
        with self.guard:
            self._oracle.actions.end(refusal)
        return refusal

    def _noted(self, action: grants.Action) -> Action:
        """Return an action as the judge notes it."""
        newest_ms = max(self._faults.newest_ms, self._faults.wall_ms())
        return Action(action.receiver, action.verb, action.at_ms, newest_ms, self._loop.time())

    def _die(self, end: s.Crash, files: power.Files | None = None) -> NoReturn:
        self.counts[f"crash {end.where}"] += 1
        self._end, self.is_alive = end, False
        self._files = disk.read_files(self._versions.folder) if files is None else files
        raise Killed


def _outgoing(row: WaitingRow) -> Outgoing:
    """Return the message of a new row."""
    return Outgoing(row.queue, row.topic, row.payload, row.due_ms, row.retain, until_ms=row.until_ms)
