"""The store's disk: what is left when the process or the power ends, and a device that fails.

A store is real SQLite in a folder, in memory where it can be. A crash makes a new folder with what the files
would hold, and the next process of the agent opens that one:

    commit-before   in the middle of a transaction: nothing of it
    commit-torn     power cut before the fsync of the write-ahead log (WAL): any part of what was appended,
                    and rubbish after it; or while `.gen` counts a commit with records
    commit-written  the transaction is in the WAL and nowhere else; some of it has left, perhaps
    commit-moved    power cut while the WAL is moved into the file: any of the pages, and the whole WAL; or
                    while it is erased: any of the blocks that were overwritten since the last sync (`power`);
                    or while the next `.gen` is prepared
    commit-done     all is done
    open, close     at any line of the store's own code at which its files differ from those before

The files are looked at where SQLite is about to run COMMIT and the checkpoint that follows, a step of its own
during which the agent goes on; so the states are those of the files and not a model of them. Everything that
a returned call has synced is always there.
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

from meteragent.agent.runner import StoreThread
from meteragent.domain.budget import Budget
from meteragent.domain.commit import Commit
from meteragent.domain.errors import StoreError
from meteragent.store import generation, outbox, transaction
from meteragent.store.transaction import Committed
from simulators.simtest.power import Files, Moment, Recorder
from simulators.simtest.schedule import Crash

_T = TypeVar("_T")

_KEPT = ("db", "db-wal", "db.gen", "db.gen.new")
_PAGE_BYTES = 4096
_RUBBISH = 50
_COUNTING = 500
"""From this part of `commit-torn` on, in thousandths, the WAL is synced and `.gen` is replaced."""
_ERASING = 400
"""From this part of `commit-moved` on, in thousandths, the WAL has been moved and is erased."""
_IN_IT = ("commit-before", "commit-torn")
"""Crashes before anybody can know that the transaction is on disk."""


def look(folder: Path) -> Files:
    """The files that a store consists of; reading them loses SQLite's locks, which nobody else wants."""
    return {name: (folder / name).read_bytes() for name in _KEPT if (folder / name).exists()}


def _kept(files: Files) -> Files:
    return {name: content for name, content in files.items() if name in _KEPT}


def put(files: Files, folder: Path) -> Path:
    """A folder with these files."""
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return settle(folder)


def settle(folder: Path) -> Path:
    """Take a copy of a store's folder for the folder itself: its generation file names itself again.

    What a crash leaves is on the same device; a copy of it would be refused as one that was put back.
    """
    known, path = generation.read(folder / "db"), folder / "db.gen"
    if known and known.inode is not None:
        with path.open("rb") as file:
            inode = generation.inode_of(file.fileno())
        path.write_text(json.dumps(json.loads(path.read_text()) | {"inode": inode}))  # in the same inode
    return folder


class DiskObserver(Protocol):
    """Who knows when the process dies, and is told what is on disk."""

    def dies(self, commit: Commit, delivered: Sequence[int]) -> Crash | None:
        """A transaction begins; the crash in which the process dies in it, None if it does not."""

    def died(self, trap: Crash, files: Files) -> None:
        """It dies, and leaves these files."""

    def execute(self, function: Callable[..., _T], *arguments: Any) -> _T:
        """Do what the store's thread is asked for; the process may die in it."""

    def committed(self) -> None:
        """The transaction is on disk."""

    def failed(self) -> None:
        """The transaction has failed: nobody knows."""

    def spared(self) -> None:
        """The device has not failed."""

    def dropped(self) -> None:
        """Rows of retired streams have made room."""

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""


class Disk(StoreThread):
    """The agent's store thread, without the thread: it takes as long as it is told, and can die or fail.

    `takes_s` is how long a commit takes, `fails` after how many of SQLite's steps the device fails.
    """

    def __init__(self, random: Random, keeper: DiskObserver, *agents: Any) -> None:
        """`agents`: what the agent makes its store thread of."""
        super().__init__(*agents)
        self.takes_s = 0.0
        self.fails: int | None = None
        self._keeper = keeper
        self._random = random
        self._turn = asyncio.Lock()

    async def room(self) -> bool:
        """Whether there is room; what retired streams left may be dropped for it."""
        before = self._counts["retired_unsent"]
        there_is = await super().room()
        if self._counts["retired_unsent"] > before:
            self._keeper.dropped()
        return there_is

    async def call(self, function: Callable[..., _T], *arguments: Any) -> _T:
        """Do it when the disk gets to it: one thing after the other."""
        async with self._turn:
            await asyncio.sleep(0)
            self._look_alive()
            return self._keeper.execute(function, *arguments)

    async def persist(
        self, commit: Commit, delivered: Sequence[int], budget: Budget | None
    ) -> list[outbox.Waiting]:
        """One transaction, in which the process may die; what it erases is the disk's next step."""
        await self._turn.acquire()
        try:
            cancelled = await self._takes()
            trap = self._keeper.dies(commit, delivered)
            if trap is not None and trap.where in _IN_IT:
                self._keeper.died(trap, self._shot(trap, lambda: self._write(commit, delivered, budget)))
            self._begin_failing()
            try:
                rows, self._bytes = self._write(commit, delivered, budget)
            except StoreError:
                self._end_failing()
                self._keeper.failed()
                raise
            self._keeper.committed()
        except BaseException:
            self._turn.release()
            raise
        self._erasing = asyncio.create_task(self._erase(trap))
        self._erasing.add_done_callback(lambda task: task.cancelled() or task.exception())  # looked at
        if cancelled:
            raise asyncio.CancelledError
        return rows

    def _write(self, commit: Commit, delivered: Sequence[int], budget: Budget | None) -> Committed:
        return transaction.commit(self.store, commit, delivered, budget, self._keep_ms)

    async def _erase(self, trap: Crash | None) -> None:
        """What the log keeps is erased, which takes its time; the process may die before, in it or after."""
        try:
            await asyncio.sleep(self.takes_s)
            self._look_alive()
            if trap is None:
                self.store.erase()
                self.store.prepare()
                self._keeper.spared()
                return
            written = look(self.store.path.parent)
            with Recorder(self.store.path.parent) as recorder:
                self.store.erase()
                self.store.prepare()
            self._keeper.spared()
            self._keeper.died(trap, self._left(trap, written, recorder.moments))
        finally:
            self._end_failing()
            self._turn.release()

    async def _takes(self) -> bool:
        """Wait for the disk; whether nobody waits any more for what it has begun, and will do."""
        try:
            await asyncio.sleep(self.takes_s)
        except asyncio.CancelledError:
            if self._random.random() < 0.5:
                raise
            self._look_alive()
            return True
        self._look_alive()
        return False

    def _look_alive(self) -> None:
        if not self._keeper.alive:
            raise asyncio.CancelledError

    def _begin_failing(self) -> None:
        """The device fails once, after so many steps."""
        if self.fails is not None:
            steps, last, keeper = count(1), self.fails, self._keeper
            self.store.connection.set_progress_handler(lambda: int(next(steps) == last and keeper.alive), 1)

    def _end_failing(self) -> None:
        if self.fails is not None:
            self.fails = None
            self.store.connection.set_progress_handler(None, 0)

    def _shot(self, trap: Crash, transaction: Callable[[], object]) -> Files:
        """The files as a crash in a transaction leaves them."""
        folder, shots = self.store.path.parent, dict[str, Files]()

        def see(statement: str) -> None:
            if statement == "COMMIT":
                shots["before"] = look(folder)

        self.store.connection.set_trace_callback(see)
        with Recorder(folder) as recorder:
            transaction()
        self.store.connection.set_trace_callback(None)
        before = shots["before"]
        if trap.where == "commit-before":
            return before
        if len(recorder.moments) > 1 and trap.part >= _COUNTING:
            moments = recorder.moments
            at = len(moments) * (trap.part - _COUNTING) // (1000 - _COUNTING)
            return _kept(moments[at].cut(self._random))
        return self._torn(before, look(folder), trap.part)

    def _left(self, trap: Crash, written: Files, moments: Sequence[Moment]) -> Files:
        """The files as a crash leaves them while the WAL is moved and erased."""
        done = look(self.store.path.parent)
        if trap.where != "commit-moved":
            return written if trap.where == "commit-written" else done
        if trap.part < _ERASING:
            return self._moved(written, done)
        return _kept(moments[len(moments) * (trap.part - _ERASING) // (1000 - _ERASING)].cut(self._random))

    def _torn(self, before: Files, written: Files, part: int) -> Files:
        old, new = before.get("db-wal", b""), written.get("db-wal", b"")
        cut = len(old) + (len(new) - len(old)) * part // 1000
        return before | {"db-wal": new[:cut] + self._random.randbytes(self._random.randrange(_RUBBISH))}

    def _moved(self, written: Files, done: Files) -> Files:
        pages = bytearray(written["db"].ljust(len(done["db"]), b"\0"))
        for at in range(0, len(done["db"]), _PAGE_BYTES):
            if self._random.random() < 0.5:
                pages[at : at + _PAGE_BYTES] = done["db"][at : at + _PAGE_BYTES]
        return written | {"db": bytes(pages)}


def lines(folder: Path, action: Callable[[], _T]) -> tuple[_T, list[Files]]:
    """What an action returns, and the files at each line of the store where they had changed."""
    found: list[Files] = []
    before: set[tuple[str, int, int, int]] | None = None

    def see() -> None:
        nonlocal before
        now = {(f.name, f.stat().st_ino, f.stat().st_size, f.stat().st_mtime_ns) for f in folder.iterdir()}
        if now != before:
            before = now
            found.append(look(folder))

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if "store" not in Path(frame.f_code.co_filename).parts:
            return None
        if event == "line":
            see()
        return trace

    tracing = sys.gettrace()
    sys.settrace(trace)
    try:
        result = action()
    finally:
        sys.settrace(tracing)
    see()
    return result, found
