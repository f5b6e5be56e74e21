"""The store's disk: the files that a crash or a power cut leaves, and a device that fails.

A store is a real SQLite database in a folder, in memory if possible. A crash leaves its files in a new
folder, which the agent's next process opens:

    commit-before   in the middle of a transaction: none of it is on disk
    commit-torn     power cut before the fsync of the write-ahead log (WAL): a part of the new content, then
                    garbage, then the former content; or while `.gen` is rewritten to count the commit
    commit-written  the transaction is only in the WAL; some of its records may have been sent
    commit-moved    power cut while the WAL is moved into the file: some of the pages, and the whole WAL; or
                    while the WAL is erased: some of the blocks that were overwritten since the last sync
                    (`power`); or while the next `.gen` is being prepared
    commit-done     everything is done
    settle          before, between or after the transactions that admit and revoke receivers (`world`)
    open, close     before or after one of the lines of the store's own code that change its files

At all other places (`world`, `traffic`) a crash leaves the files as they are. Around a commit, the files are
read when SQLite is about to run COMMIT, after the transaction, and before and after the checkpoint. The
checkpoint is a separate step, during which the agent continues. The files are therefore real ones, not a
model of them. Everything that a call synced before it returned is always present.
"""

import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any, Protocol, TypeVar

from meteragent.agent.store_thread import StoreThread
from meteragent.domain.commit import Budget, Commit
from meteragent.domain.errors import StoreError
from meteragent.store import Store, generation, outbox, schema, transaction
from meteragent.store.transaction import CommitResult
from simulators.simtest.schedule import Crash
from simulators.simtest.store.power import Files, Moment, Recorder

_T = TypeVar("_T")

_FILES = ("db", "db-wal", "db.gen", "db.gen.new")
_PAGE_BYTES = 4096
_RUBBISH = 50
_COUNTING = 500
"""From this `part` of a crash in `commit-torn` on, the WAL is synced and `.gen` is being replaced."""
_ERASING = 400
"""From this `part` of a crash in `commit-moved` on, the WAL has been moved and is being erased."""
_BEFORE_COMMIT = ("commit-before", "commit-torn")
"""Crashes after which the transaction is not on disk, or is in doubt."""


def read_files(folder: Path) -> Files:
    """Return the files of a store. Reading drops SQLite's locks, which no other process needs."""
    return {name: (folder / name).read_bytes() for name in _FILES if (folder / name).exists()}


def _select_store_files(files: Files) -> Files:
    return {name: content for name, content in files.items() if name in _FILES}


def write_files(files: Files, folder: Path) -> Path:
    """Write the files of a store into a new folder, make it valid (`settle`), and return the folder."""
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return settle(folder)


def settle(folder: Path) -> Path:
    """Make a copied folder valid: write the inode of its generation file into that file.

    A real crash leaves the files in place, whereas the store would refuse these copies as restored. A folder
    whose generation file is missing or unreadable is left as it is.
    """
    current, path = generation.read_generation(folder / "db"), folder / "db.gen"
    if current and current.name != generation.UNREADABLE:
        with path.open("rb") as file:
            inode = generation.inode_of(file.fileno())
        fields = json.loads(schema.unseal(path.read_text())) | {"inode": inode}
        path.write_text(schema.seal(json.dumps(fields)))  # keeps the inode
    return folder


class DiskObserver(Protocol):
    """An observer of a disk that decides when the process dies."""

    def begin_commit(self, commit: Commit, delivered: Sequence[int]) -> Crash | None:
        """Begin a transaction; return the crash that ends the process during or after it, or None."""

    def begin_call(self) -> None:
        """Begin a call other than a commit."""

    def crash(self, trap: Crash, files: Files) -> None:
        """End the process with the crash `trap`, which leaves `files`."""

    def execute(self, function: Callable[..., _T], *arguments: Any) -> _T:
        """Run a function of the store's thread; the process may die during the call."""

    def end_commit(self, rows: Sequence[outbox.WaitingRow]) -> None:
        """Treat the transaction as committed, with the new `rows`."""

    def fail_commit(self) -> None:
        """Treat the transaction as failed; it may or may not be on disk."""

    def cancel_device_failure(self) -> None:
        """Cancel a device failure that is no longer due."""

    def drop_retired(self) -> None:
        """Treat the rows of retired streams that were dropped to make room as delivered."""

    @property
    def is_alive(self) -> bool:
        """Whether the process is still running."""


class Disk(StoreThread):
    """The agent's store thread, without a thread: a commit takes time, during which the process may die.

    `takes_s` is the duration of a commit, and also of the erasure that follows; each call also waits for a
    random time of up to `hesitates_s`. During the next commit and
    erasure, or the next call, the device fails after `fails` steps of SQLite; it does not fail if `fails` is
    None. `has_failed` says whether it has failed.
    """

    def __init__(self, random: Random, observer: DiskObserver, *agents: Any) -> None:
        """Create a disk; `agents` holds the arguments for the agent's store thread."""
        super().__init__(*agents)
        self.takes_s = self.hesitates_s = 0.0
        self.fails: int | None = None
        self.has_failed = False
        self._observer = observer
        self._random = random
        self._turn = asyncio.Lock()

    async def has_space(self) -> bool:
        """Return whether the store has space; this may drop rows of retired streams to make room."""
        dropped_rows = self._counts["retired_unsent"]
        has_space = await super().has_space()
        if self._counts["retired_unsent"] > dropped_rows:
            self._observer.drop_retired()
        return has_space

    async def _submit(self, function: Callable[..., _T], *arguments: Any) -> _T:  # type: ignore[override] # no thread
        """Run a function when all earlier calls have returned; return its result.

        Raises CancelledError if the process is dead by then.
        """
        async with self._turn:
            await asyncio.sleep(self._hesitate_s())
            self._check_alive()
            self._observer.begin_call()
            self._begin_failing()
            try:
                result = self._observer.execute(function, *arguments)
            finally:
                is_failing = self.fails is not None
                self._end_failing()
            if is_failing:
                self._observer.cancel_device_failure()
            return result

    async def persist(
        self, commit: Commit, delivered: Sequence[int], budget: Budget | None
    ) -> list[outbox.WaitingRow]:
        """Commit a transaction and return the new rows; the process may die during the transaction.

        The disk's next step erases the log. Raises StoreError if the device fails.
        """
        await self._turn.acquire()
        try:
            cancelled = await self._wait()
            trap = self._observer.begin_commit(commit, delivered)
            if trap is not None and trap.where in _BEFORE_COMMIT:
                self._observer.crash(
                    trap, self._cut_in_commit(trap, lambda: self._write(commit, delivered, budget))
                )
            self._begin_failing()
            try:
                rows, self._bytes = self._write(commit, delivered, budget)
            except StoreError:
                self._end_failing()
                self._observer.fail_commit()
                raise
            self._observer.end_commit(rows)
        except BaseException:
            self._turn.release()
            raise
        self._erasing = asyncio.create_task(self._erase(trap))
        # Retrieve the exception, so that asyncio does not log it.
        self._erasing.add_done_callback(lambda task: task.cancelled() or task.exception())
        if cancelled:
            raise asyncio.CancelledError
        return rows

    def _write(self, commit: Commit, delivered: Sequence[int], budget: Budget | None) -> CommitResult:
        return transaction.commit(self.store, commit, delivered, budget, self._keep_ms)

    async def _erase(self, trap: Crash | None) -> None:
        """Erase the log after `takes_s`, and prepare the next commit.

        With a `trap`, the process then dies and leaves the files from before, during or after the erasure.
        """
        try:
            await asyncio.sleep(self.takes_s + self._hesitate_s())
            self._check_alive()
            if trap is None:
                self.store.erase_log()
                self.store.prepare_generation()
                self._observer.cancel_device_failure()
                return
            written_files = read_files(self.store.path.parent)
            with Recorder(self.store.path.parent) as recorder:
                self.store.erase_log()
                self.store.prepare_generation()
            self._observer.cancel_device_failure()
            self._observer.crash(trap, self._cut_in_erasing(trap, written_files, recorder.moments))
        finally:
            self._end_failing()
            self._turn.release()

    async def _wait(self) -> bool:
        """Wait for the disk; return whether the caller was cancelled and the disk continues nevertheless.

        Raises CancelledError if the disk does not continue, or if the process is dead.
        """
        try:
            await asyncio.sleep(self.takes_s + self._hesitate_s())
        except asyncio.CancelledError:
            if self._random.random() < 0.5:
                raise
            self._check_alive()
            return True
        self._check_alive()
        return False

    def _hesitate_s(self) -> float:
        """Return how long the next call waits before it runs."""
        return self.hesitates_s and self._random.uniform(0, self.hesitates_s)

    @property
    def is_busy(self) -> bool:
        """Whether a commit, an erasure or another call is on its way."""
        return self._turn.locked()

    def _check_alive(self) -> None:
        if not self._observer.is_alive:
            raise asyncio.CancelledError

    def _begin_failing(self) -> None:
        """Make the device fail once, after `fails` steps, unless `fails` is None."""
        if self.fails is not None:
            steps, failing, observer = count(1), self.fails, self._observer

            def fails_now() -> bool:
                """Return whether the device fails at this step."""
                is_due = next(steps) == failing and observer.is_alive
                self.has_failed |= is_due
                return is_due

            self.store.connection.set_progress_handler(fails_now, 1)

    def _end_failing(self) -> None:
        if self.fails is not None:
            self.fails = None
            self.store.connection.set_progress_handler(None, 0)

    def _cut_in_commit(self, trap: Crash, transaction: Callable[[], object]) -> Files:
        """Return the files that a crash during a transaction leaves."""
        folder, shots = self.store.path.parent, dict[str, Files]()

        def trace(statement: str) -> None:
            """Read the files before COMMIT."""
            if statement == "COMMIT":
                shots["before"] = read_files(folder)

        self.store.connection.set_trace_callback(trace)
        with Recorder(folder) as recorder:
            transaction()
        self.store.connection.set_trace_callback(None)
        former_files = shots["before"]
        if trap.where == "commit-before":
            return former_files
        if len(recorder.moments) > 1 and trap.part >= _COUNTING:
            moments = recorder.moments
            index = len(moments) * (trap.part - _COUNTING) // (1000 - _COUNTING)
            return _select_store_files(moments[index].cut(self._random))
        return self._tear_log(former_files, read_files(folder), trap.part)

    def _cut_in_erasing(self, trap: Crash, written_files: Files, moments: Sequence[Moment]) -> Files:
        """Return the files that a crash leaves while the WAL is moved and erased."""
        erased_files = read_files(self.store.path.parent)
        if trap.where != "commit-moved":
            return written_files if trap.where == "commit-written" else erased_files
        if trap.part < _ERASING:
            return self._move_some_pages(written_files, erased_files)
        return _select_store_files(
            moments[len(moments) * (trap.part - _ERASING) // (1000 - _ERASING)].cut(self._random)
        )

    def _tear_log(self, former_files: Files, written_files: Files, part: int) -> Files:
        former_log, log = former_files.get("db-wal", b""), written_files.get("db-wal", b"")
        pairs = enumerate(zip(former_log, log, strict=False))
        # Both logs begin with the synced frames of earlier commits, which are not yet erased.
        synced_size = next((index for index, (x, y) in pairs if x != y), min(len(former_log), len(log)))
        cut = synced_size + (len(log) - synced_size) * part // 1000
        rubbish = self._random.randbytes(self._random.randrange(_RUBBISH))
        return former_files | {"db-wal": log[:cut] + rubbish + former_log[cut + len(rubbish) :]}

    def _move_some_pages(self, written_files: Files, erased_files: Files) -> Files:
        pages, moved_pages = (
            bytearray(written_files["db"].ljust(len(erased_files["db"]), b"\0")),
            erased_files["db"],
        )
        for begin in range(0, len(moved_pages), _PAGE_BYTES):
            if self._random.random() < 0.5:
                pages[begin : begin + _PAGE_BYTES] = moved_pages[begin : begin + _PAGE_BYTES]
        return written_files | {"db": bytes(pages)}


def record_transactions(store: Store) -> Callable[[], list[Files]]:
    """Start reading the files before each transaction and each COMMIT; return a function that stops this.

    The returned function returns all states of the files; the last is the current one.
    """
    states: list[Files] = []

    def trace(statement: str) -> None:
        """Read the files before a transaction begins and before it is committed."""
        if statement.startswith(("BEGIN", "COMMIT")):
            states.append(read_files(store.path.parent))

    def end() -> list[Files]:
        """Stop reading, and return the states."""
        store.connection.set_trace_callback(None)
        return [*states, read_files(store.path.parent)]

    store.connection.set_trace_callback(trace)
    return end


def run_with_states(folder: Path, action: Callable[[], _T]) -> tuple[_T, list[Files]]:
    """Run an action; return its result, and the states of the files from its beginning to its end.

    Only lines of the store's own code are watched. The last state is the state after the action.
    """
    states: list[Files] = []
    previous_files: set[tuple[str, int, int, int]] | None = None

    def keep_state() -> None:
        """Read and keep the files if they have changed."""
        nonlocal previous_files
        files = {(f.name, f.stat().st_ino, f.stat().st_size, f.stat().st_mtime_ns) for f in folder.iterdir()}
        if files != previous_files:
            previous_files = files
            states.append(read_files(folder))

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        """Keep the state of the files at each line of the store's code."""
        if "store" not in Path(frame.f_code.co_filename).parts:
            return None
        if event == "line":
            keep_state()
        return trace

    tracing = sys.gettrace()
    sys.settrace(trace)
    try:
        result = action()
    finally:
        sys.settrace(tracing)
    keep_state()
    return result, states
