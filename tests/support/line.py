"""One stream with a real store, driven by a test's time and messages."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from fractions import Fraction

from meteragent.agent.clock import CatchUp, SteadyClock
from meteragent.agent.link.other_agent import Listener
from meteragent.agent.link.outlets import Outlet, Outlets
from meteragent.agent.link.refused_topics import Refusals
from meteragent.agent.link.sink import Sink
from meteragent.agent.link.source import Source
from meteragent.agent.runner import Runner
from meteragent.agent.store_thread import OutboxReader, StoreThread
from meteragent.config import Config, model
from meteragent.core.charges import Spending
from meteragent.core.pipeline import Pipeline
from meteragent.core.stream import Stream
from meteragent.decode import wrap_single
from meteragent.domain.commit import Budget, Commit, Receiver
from meteragent.domain.counters import Counts
from meteragent.domain.grid import EpochGrid, parse_time
from meteragent.domain.identity import SourceTopic
from meteragent.domain.schedule import Schedule
from meteragent.mqtt import Endpoint, Link
from meteragent.privacy.sampling import SystemBits
from meteragent.store import Store
from meteragent.store.outbox import WaitingRow
from tests.support import bare_numbers
from tests.support.contexts import context_of
from tests.support.fake_session import LIMIT_S, FakeSession
from tests.support.stores import TERMS, opened
from tests.support.terms import terms_with

LENGTH_MS = 1000
START_MS = 1_800_000_000_000
QUIET = terms_with(TERMS, length_ms=LENGTH_MS, step_ms=LENGTH_MS, level=Fraction(1000), radius=Fraction(10))
"""One-second windows whose noise is 0, except with a probability of 1e-43."""
STREAM = Stream(
    name="main",
    source=SourceTopic.parse("in/{meter}"),
    receivers=(Receiver("main", "private/{meter}"),),
    decode=wrap_single(bare_numbers.decode),
    schedule=Schedule(QUIET, EpochGrid(LENGTH_MS)),
    ahead_ms=0,
    forget_ms=86_400_000,
    spread_ms=0,
    max_meters=10,
    max_payload=100,
    secret=bytes(32),
)


class Watched(StoreThread):
    """A store that reports commits on disk to the test, and lets the test delay commits with `gate`."""

    def __init__(self, store: Store, max_bytes: int) -> None:
        super().__init__(store, 86_400_000, max_bytes, {"main"}, Counts())
        self.gate = asyncio.Event()
        self.gate.set()
        self.requested = asyncio.Event()
        self.commits: list[Commit] = []
        self.marked: list[int] = []
        self.on_commit: Callable[[], None] = lambda: None

    async def persist(
        self, commit: Commit, delivered: Sequence[int], budget: Budget | None
    ) -> list[WaitingRow]:
        """Wait for the gate, write the commit, then report it."""
        self.requested.set()
        await self.gate.wait()
        rows = await super().persist(commit, delivered, budget)
        self.commits.append(commit)
        self.marked += delivered
        self.on_commit()
        return rows


class Line:
    """A stream with its store, its clock, and an open connection."""

    def __init__(
        self,
        store: Store,
        *,
        wait_ms: int = 0,
        waits: bool = False,
        max_bytes: int = 2**20,
        flush_ms: int = 0,
    ) -> None:
        self.counts = Counts()
        self.now_ms = START_MS
        self.turned = asyncio.Event()
        self.store = Watched(store, max_bytes)
        self.session = FakeSession()
        clock = SteadyClock(self._wall_ms, self.counts)
        self.source = Source(("in/+",), 100, 100, clock.now_ms, self.counts)
        refusals = Refusals(STREAM.receivers[0].topic)
        self.sink = Sink(OutboxReader(self.store, "main"), clock.now_ms, self.counts, refusals)
        pipeline = Pipeline(STREAM, store.snapshot("main"), Spending(), SystemBits(), self.counts)
        config = Config.model_construct(stream=(), store=model.Store.model_construct(flush=flush_ms))
        context = replace(context_of(config, self.store, self.counts), clock=clock)
        catch_up = CatchUp(store.clock_ms or START_MS, wait_ms, waits=waits)
        self.turns = 0
        listener, link = Listener("main", context), Link(Endpoint.parse("mqtt://nowhere"), "main")
        outlets = Outlets([Outlet(STREAM.receivers[0], self.sink, listener, link)])
        self.runner = Runner(pipeline, self.source, outlets, context, catch_up, None, self._turn)

    def _turn(self) -> None:
        self.turns += 1

    def _wall_ms(self) -> int:
        self.turned.set()
        return self.now_ms

    def send(self, *watts: int, meter: str = "m") -> None:
        """Send readings of a meter to the stream."""
        for value in watts:
            self.session.send(self.source, b"%d" % value, f"in/{meter}")

    @asynccontextmanager
    async def running(self) -> AsyncIterator[asyncio.Task[None]]:
        """Run the runner until the block ends."""
        await self.source.serve(self.session)
        task = asyncio.create_task(self.runner.run())
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.wait({task})
            self.store._generation_thread.shutdown()
            self.store._thread.shutdown()

    @asynccontextmanager
    async def delivering(self) -> AsyncIterator[None]:
        """Run the sink until the block ends, with a broker that confirms everything."""

        async def confirm() -> None:
            """Confirm each publication."""
            while True:
                publication = await self.session.published.get()
                self.sink.on_delivered(self.session.answered(publication), 0)

        tasks = {asyncio.create_task(self.sink.serve(self.session)), asyncio.create_task(confirm())}
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def turn(self, number: int = 3) -> None:
        """Wait until the runner has read its clock `number` times."""
        for _ in range(number):
            self.turned.clear()
            async with asyncio.timeout(LIMIT_S):
                await self.turned.wait()
            await self.store.call(lambda: None)

    async def until(self, true: Callable[[], bool]) -> None:
        """Wait until a condition is true."""
        async with asyncio.timeout(LIMIT_S):
            while not true():
                await self.turn(1)

    async def pass_to(self, now_ms: int) -> None:
        """Advance the time to `now_ms` in steps of half a second."""
        while self.now_ms < now_ms:
            self.now_ms = min(self.now_ms + 500, now_ms)
            await self.turn()

    @property
    def released(self) -> list[tuple[int, int]]:
        """Start (s after START_MS) and value of every record written, in order."""
        rows = [row for commit in self.store.commits for row in commit.outgoing if not row.retain]
        records = [json.loads(row.payload) for row in rows]
        return [((parse_time(r["t"]) - START_MS) // 1000, r["value"]) for r in records]

    @property
    def opened(self) -> int:
        """The number of charged windows."""
        return sum(map(opened, self.store.commits))
