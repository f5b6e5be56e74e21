"""One stream at work: its messages through the core into the store, commit by commit.

    wait for messages or a deadline -> feed the core -> one transaction -> hand to the sink -> acknowledge

While a transaction is being written, and while what it leaves in the log is erased, the next batch grows,
so commits group themselves. The store has one thread, so that an fsync blocks nothing else.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from meteragent.agent.clock import CatchUp, SteadyClock
from meteragent.agent.listener import Listener
from meteragent.agent.page import Viewers
from meteragent.agent.sink import Outlet, Sink
from meteragent.agent.source import Source
from meteragent.core.pipeline import Pipeline
from meteragent.core.stream import Effects
from meteragent.domain.budget import Budget
from meteragent.domain.commit import Commit, Descriptor
from meteragent.domain.counters import Counts
from meteragent.domain.reading import Message
from meteragent.store import Store, outbox, transaction

POLL_S = 1.0
"""How long a runner sleeps at most: a wall clock may be set."""

REFUSED_PART = 10
"""What waits for topics that the sink's broker refuses may take this part of the room, one in so many."""

UNERASED_MAX_S = 600.0
"""When another reader has kept old accumulators in the log for so long, everything stands until it ends."""
STANDS_UNERASED = "another program reads the store and keeps its log from being erased"
STANDS_FULL = "the store is full of undelivered messages"

_T = TypeVar("_T")
_log = logging.getLogger("meteragent")


class StoreThread:
    """The store, used from one thread of its own."""

    def __init__(
        self, store: Store, keep_ms: int, max_bytes: int, channels: Collection[str], counts: Counts
    ) -> None:
        """`channels`: the streams that there are; what others left behind makes room when need be."""
        self.store = store
        self._channels = channels
        self._counts = counts
        self._keep_ms = keep_ms
        self.max_bytes = max_bytes
        self._thread = ThreadPoolExecutor(1, "store")
        self._beside = ThreadPoolExecutor(1, "generation")
        self._bytes: int | None = None
        self._added = 0
        self._refused_bytes: dict[str, int] = {}
        self._erasing: asyncio.Future[None] | None = None
        self._kept = False
        self._kept_since_s: float | None = None

    async def call(self, function: Callable[..., _T], *arguments: Any) -> _T:
        """Run a function on the store's thread."""
        return await self._begin(function, *arguments)

    def _begin(self, function: Callable[..., _T], *arguments: Any) -> asyncio.Future[_T]:
        return asyncio.get_running_loop().run_in_executor(self._thread, function, *arguments)

    async def persist(
        self, commit: Commit, delivered: Sequence[int], budget: Budget | None
    ) -> list[outbox.Waiting]:
        """Write a commit and mark what was delivered, in one transaction, fsynced on return; its rows.

        What the log keeps is erased next, before the thread does anything else (rule 2 of the store).
        """
        added = outbox.size(commit)
        self._added += added
        try:
            written = self._begin(transaction.commit, self.store, commit, delivered, budget, self._keep_ms)
            self._erasing = self._begin(self._erase_log)
            rows, self._bytes = await written
        finally:
            self._added -= added
        if rows:
            self._beside.submit(self.store.prepare)
        return rows

    def _erase_log(self) -> None:
        self.store.erase()
        self._kept = not self.store.erased

    async def erased(self) -> None:
        """Wait until what the last commit left in the log is erased; raises StoreError.

        Where another reader of the file keeps it, that is tried again and noted (`unerased_s`).
        """
        if self._kept and (self._erasing is None or self._erasing.done()):
            self._erasing = self._begin(self._erase_log)
        erasing = self._erasing
        if erasing is not None:
            await asyncio.wait({erasing})  # who is cancelled here must not cancel that
            erasing.result()
        if not self._kept:
            self._kept_since_s = None
        elif self._kept_since_s is None:
            self._kept_since_s = asyncio.get_running_loop().time()

    @property
    def unerased_s(self) -> float:
        """For how long another reader has kept old accumulators in the log."""
        since_s = self._kept_since_s
        return 0.0 if since_s is None else asyncio.get_running_loop().time() - since_s

    async def room(self) -> bool:
        """Whether the store has room for more undelivered messages, those on their way to it counted."""
        if self._bytes is not None and self._bytes + self._added < self.max_bytes:
            return True
        room, dropped = await self.call(outbox.room, self.store, self.max_bytes, self._channels)
        self._counts.add("retired_unsent", dropped)
        return room

    def refused(self, channel: str, waiting_bytes: int) -> bool:
        """Note what waits for a stream's refused topics; return whether all such has taken its part."""
        self._refused_bytes[channel] = waiting_bytes
        return sum(self._refused_bytes.values()) * REFUSED_PART >= self.max_bytes

    def outlet(self, channel: str) -> Outlet:
        """What a stream's sink reads."""

        async def pending(now_ms: int, limit: int, after: tuple[float, float]) -> list[outbox.Waiting]:
            return await self.call(outbox.pending, self.store.connection, channel, now_ms, limit, after)

        async def descriptors() -> list[Descriptor]:
            return await self.call(outbox.descriptors, self.store.connection, channel)

        async def running() -> set[str]:
            states = (await self.call(self.store.snapshot, channel)).states.values()
            return {window.topic for state in states for window in state.windows}

        return Outlet(pending, descriptors, running)

    async def close(self) -> None:
        """Close the store and end its thread; raises StoreError, also when the last erasing has failed."""
        try:
            self._beside.shutdown()
            await self.call(self.store.close)
            await self.erased()
        finally:
            self._thread.shutdown()


@dataclass(frozen=True, slots=True)
class Patience:
    """How long readings are collected before they are written (`store.flush`), and the stream's boundaries.

    Every commit of a month-long slot writes what is written again minutes later: on flash that is wear.
    Readings that wait are unacknowledged; what falls due is never late.
    """

    flush_ms: int
    boundary_ms: Callable[[int], int]


NONE = Patience(0, lambda time_ms: time_ms)


@dataclass(frozen=True, slots=True)
class Runner:
    """Takes one stream's messages through the core into the store.

    `stood_ms` is where the clock stood when it was stopped; at a first start, where it is now. `turn` is
    called whenever the runner has gone round: a watchdog listens. `viewers` look at the local page.
    """

    pipeline: Pipeline
    source: Source
    sink: Sink
    store: StoreThread
    clock: SteadyClock
    catch_up: CatchUp
    budget: Budget | None
    counts: Counts
    stood_ms: int
    turn: Callable[[], None]
    patience: Patience = NONE
    viewers: Viewers = field(default_factory=Viewers)
    listener: Listener | None = None

    async def run(self) -> None:
        """Run until cancelled; whatever it raises must end the process."""
        opened_ms = closed_ms = self.stood_ms
        while True:
            subscribed = self.source.subscribed.is_set()  # before the time: catch_up counts from no earlier
            now_ms = await self._time()
            closing_ms = self.catch_up.closing_ms(now_ms, subscribed=subscribed)
            steps = self._steps(opened_ms, now_ms)
            held = closed_ms < opened_ms or bool(steps and self.source.batches)
            for step_ms in steps:
                await self._feed([], step_ms, closed_ms if held else min(closing_ms, step_ms))
            if held and closing_ms > closed_ms:
                await self._close_after(now_ms, closed_ms, closing_ms)
            if self._may_wait(opened_ms, now_ms, closing_ms):
                await asyncio.sleep(min(self._pause_s(), self.patience.flush_ms / 1000))
                continue
            await self._feed(self.source.batch(now_ms), now_ms, closing_ms)
            opened_ms, closed_ms = now_ms, closing_ms
            await self.source.wait(self._pause_s())

    def _may_wait(self, fed_ms: int, now_ms: int, closing_ms: int) -> bool:
        """Whether what has arrived may wait for more: nothing falls due, and it has not waited for `flush`.

        A meter that is new has its first window at the next boundary, so that is due in any case. Who looks
        at the page sees at once.
        """
        if (
            self.viewers
            or not 0 < self.source.waiting <= self.source.many
            or now_ms - fed_ms >= self.patience.flush_ms
        ):
            return False
        deadline_ms = self.pipeline.deadline_ms(closing=closing_ms == now_ms)
        due_ms = self.patience.boundary_ms(fed_ms + 1)
        return now_ms < (due_ms if deadline_ms is None else min(due_ms, deadline_ms))

    async def _close_after(self, now_ms: int, closed_ms: int, closing_ms: int) -> None:
        """Close what fell due while nothing closed; what has arrived by now counts first."""
        for _ in range(self.source.batches):
            await self._feed(self.source.batch(now_ms), now_ms, closed_ms)
        for step_ms in self._steps(closed_ms, closing_ms):
            await self._feed([], now_ms, step_ms)

    def _steps(self, from_ms: int, to_ms: int) -> range:
        """A long time passes window by window, so that no transaction holds a year of records."""
        return range(from_ms + self.pipeline.length_ms, to_ms, self.pipeline.length_ms)

    async def _feed(self, batch: Sequence[Message], now_ms: int, closing_ms: int) -> None:
        self.turn()
        self.clock.check()
        self.pipeline.withhold(self.sink.refusals.held if self._refused_full() else ())
        observer = self.viewers.observer(self.pipeline.name) if self.viewers else None
        if self.listener is not None:
            self.pipeline.clear(self.listener.clear())
        effects = self.pipeline.feed(batch, now_ms, closing_ms, observer)
        await self._commit(effects)
        if self.listener is not None:
            self.listener.ask(effects.listen)
        if self.viewers:
            self.viewers.released(self.pipeline.name, effects.commit.outgoing)
        self.source.acknowledge(effects.acknowledge)

    def _refused_full(self) -> bool:
        """Return whether what waits for refused topics, of all streams, takes its part of the store."""
        return self.store.refused(self.pipeline.name, self.sink.refusals.waiting_bytes)

    async def _commit(self, effects: Effects) -> None:
        delivered = sorted(self.sink.confirmed)
        if effects.commit or delivered:
            rows = await self.store.persist(effects.commit, delivered, self.budget)
            self.sink.written(delivered)
            if rows:
                self.sink.take(rows)

    async def _time(self) -> int:
        """The time, once there is a clock, room in the store and an erased log; else everything stands."""
        stands = False
        while True:
            self.turn()
            await self.store.erased()
            self.clock.check()
            now_ms = self.clock.now_ms()
            if now_ms is not None:
                kept = self.store.unerased_s >= UNERASED_MAX_S
                if not kept and await self.store.room():
                    return now_ms
                if not stands:
                    stands = True
                    self.catch_up.again()
                    self.counts.add("store_unerased" if kept else "store_full")
                    _log.warning("everything stands: %s", STANDS_UNERASED if kept else STANDS_FULL)
                if not kept:
                    await self.flush()
            await asyncio.sleep(POLL_S)

    async def flush(self) -> None:
        """Mark what was delivered though nothing else is written: at a stop, and to make room."""
        delivered = sorted(self.sink.confirmed)
        if delivered:
            await self.store.persist(Commit(self.pipeline.name, self.clock.newest_ms), delivered, None)
            self.sink.written(delivered)

    def _pause_s(self) -> float:
        """How long until the next deadline; from now, for the batch in hand took its time."""
        now_ms = self.clock.now_ms()
        deadline_ms = self.pipeline.deadline_ms(closing=self.catch_up.over)
        times_ms = [time_ms for time_ms in (deadline_ms, self.catch_up.ends_ms) if time_ms is not None]
        if now_ms is None or not times_ms:
            return POLL_S
        return min(max((min(times_ms) - now_ms) / 1000, 0), POLL_S)
