"""The store on a thread of its own, so that an fsync blocks nothing else."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from meteragent.agent.clock import loop_s
from meteragent.domain.commit import Budget, Commit, Descriptor
from meteragent.domain.counters import Counts
from meteragent.store import Store, outbox, transaction
from meteragent.store.file import raise_device_errors

REFUSED_PART = 10
"""While messages on refused topics occupy 1 / REFUSED_PART or more of the store's space, no window of these
topics opens."""

_T = TypeVar("_T")


class StoreThread:
    """The store with its own thread, on which all calls run; another thread prepares generation files."""

    def __init__(
        self, store: Store, keep_ms: int, max_bytes: int, queues: Collection[str], counts: Counts
    ) -> None:
        """Take an open store; if it is full, messages in queues other than `kept_queues` are dropped."""
        self.store = store
        self.kept_queues = frozenset(queues)
        self._counts = counts
        self._keep_ms = keep_ms
        self.max_bytes = max_bytes
        self._thread = ThreadPoolExecutor(1, "store")
        self._generation_thread = ThreadPoolExecutor(1, "generation")
        self._bytes: int | None = None
        self._writing_bytes = 0
        self._refused_bytes: dict[str, int] = {}
        self._erasure: asyncio.Future[None] | None = None
        self._is_unerased = False
        self._unerased_since_s: float | None = None

    async def call(self, function: Callable[..., _T], *arguments: Any) -> _T:
        """Run a function on the store's thread. Raises StoreError if the device fails."""
        with raise_device_errors(self.store.path):
            return await self._submit(function, *arguments)

    def _submit(self, function: Callable[..., _T], *arguments: Any) -> asyncio.Future[_T]:
        return asyncio.get_running_loop().run_in_executor(self._thread, function, *arguments)

    async def persist(
        self, commit: Commit, row_ids: Sequence[int], budget: Budget | None
    ) -> list[outbox.WaitingRow]:
        """Write a commit and mark delivered rows in one transaction; return new rows once it is on disk."""
        size_bytes = outbox.commit_bytes(commit)
        self._writing_bytes += size_bytes
        try:
            write_task = self._submit(transaction.commit, self.store, commit, row_ids, budget, self._keep_ms)
            self._erasure = self._submit(self._erase_log)  # before any other call: rule 2 of the store
            rows, self._bytes = await write_task
        finally:
            self._writing_bytes -= size_bytes
        if rows:
            self._generation_thread.submit(self.store.prepare_generation)
        return rows

    def _erase_log(self) -> None:
        self.store.erase_log()
        self._is_unerased = not self.store.is_erased

    async def wait_until_erased(self) -> None:
        """Wait until old accumulators are erased from the log; `unerased_s` measures how long they remain."""
        if self._is_unerased and (self._erasure is None or self._erasure.done()):
            self._erasure = self._submit(self._erase_log)
        erasure = self._erasure
        if erasure is not None:
            await asyncio.wait({erasure})  # a cancelled caller must not cancel the erasure
            erasure.result()
        if not self._is_unerased:
            self._unerased_since_s = None
        elif self._unerased_since_s is None:
            self._unerased_since_s = loop_s()

    @property
    def unerased_s(self) -> float:
        """How long another reader has kept old accumulators in the log."""
        since_s = self._unerased_since_s
        return 0.0 if since_s is None else loop_s() - since_s

    async def has_space(self) -> bool:
        """Return whether the store, including what is being written, has room; make room if it is full."""
        if self._bytes is not None and self._bytes + self._writing_bytes < self.max_bytes:
            return True
        has_space, count = await self.call(outbox.make_room, self.store, self.max_bytes, self.kept_queues)
        self._counts.add("retired_unsent", count)
        return has_space

    def note_refused_bytes(self, stream: str, waiting_bytes: int) -> bool:
        """Record the size of a stream's refused messages; return whether all streams' sum is too large."""
        self._refused_bytes[stream] = waiting_bytes
        return sum(self._refused_bytes.values()) * REFUSED_PART >= self.max_bytes

    async def close(self) -> None:
        """Close the store, even if cancelled meanwhile: its file may be used next. Raises StoreError."""
        close_task, is_stopped = asyncio.create_task(self._close()), False
        while not close_task.done():
            try:
                await asyncio.wait({close_task})
            except asyncio.CancelledError:
                is_stopped = True
        close_task.result()
        if is_stopped:
            raise asyncio.CancelledError

    async def _close(self) -> None:
        try:
            self._generation_thread.shutdown()
            await self.call(self.store.close)
            await self.wait_until_erased()
        finally:
            self._thread.shutdown()


class OutboxReader:
    """A sink's view of the store: its queue of the outbox."""

    def __init__(self, thread: StoreThread, queue: str) -> None:
        self._thread = thread
        self._queue = queue

    async def due_rows(self, now_ms: int, limit: int, after: tuple[float, float]) -> list[outbox.WaitingRow]:
        """Return up to `limit` undelivered rows due by `now_ms`, after a pair (due time, id)."""
        connection = self._thread.store.connection
        return await self._thread.call(outbox.pending_rows, connection, self._queue, now_ms, limit, after)

    async def latest_descriptors(self) -> list[Descriptor]:
        """Return the latest descriptor of each topic."""
        return await self._thread.call(outbox.latest_descriptors, self._thread.store.connection, self._queue)

    async def open_topics(self) -> set[str]:
        """Return the topics of a stream's open windows, if the queue is that of the stream's own sink."""
        states = (await self._thread.call(self._thread.store.snapshot, self._queue)).states.values()
        windows = [window for state in states for window in state.windows]
        return {item.topic for window in windows for item in window.destinations if item.queue == self._queue}
