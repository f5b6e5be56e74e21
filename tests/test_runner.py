"""One stream at work: meteragent.agent.runner, over a real store, with time and messages from a test."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from meteragent import ledger, outbox
from meteragent.agent import runner as module
from meteragent.agent.clock import CatchUp, SteadyClock
from meteragent.agent.runner import Runner, StoreThread
from meteragent.decode import number, one
from meteragent.errors import StoreError
from meteragent.grid import Epoch, parse_time
from meteragent.health import Counts
from meteragent.ledger import Budget
from meteragent.pipeline import Pipeline, Spending, Stream
from meteragent.privacy.sampling import SystemBits
from meteragent.release import Commit
from meteragent.schedule import Schedule
from meteragent.sink import Sink
from meteragent.source import Source
from meteragent.store import Store
from meteragent.topic import SourceTopic
from tests.fake_session import LIMIT_S, FakeSession
from tests.stores import TERMS, open_store, opening, persist, sending

LENGTH_MS = 1000
START_MS = 1_800_000_000_000
QUIET = replace(TERMS, length_ms=LENGTH_MS, step_ms=LENGTH_MS, level=Fraction(1000), radius=Fraction(10))
"""One-second windows whose noise is 0 but for once in 10^43."""
STREAM = Stream(
    name="main",
    source=SourceTopic.parse("in/{meter}"),
    sink_topic="private/{meter}",
    decode=one(number.decode),
    schedule=Schedule(QUIET, Epoch(LENGTH_MS)),
    ahead_ms=0,
    forget_ms=86_400_000,
    spread_ms=0,
    max_meters=10,
    max_payload=100,
    secret=bytes(32),
)


class Watched(StoreThread):
    """A store whose commits, once on disk, a test sees; it can hold them up."""

    def __init__(self, store: Store, max_bytes: int) -> None:
        super().__init__(store, 86_400_000, max_bytes, {"main"}, Counts())
        self.gate = asyncio.Event()
        self.gate.set()
        self.asked = asyncio.Event()
        self.commits: list[Commit] = []
        self.marked: list[int] = []
        self.on_commit: Callable[[], None] = lambda: None

    async def persist(self, commit: Commit, delivered: Sequence[int], budget: Budget | None) -> None:
        """Ask for leave, write, and tell."""
        self.asked.set()
        await self.gate.wait()
        await super().persist(commit, delivered, budget)
        self.commits.append(commit)
        self.marked += delivered
        self.on_commit()


class Line:
    """A stream with its store, its clock, and a connection that stands."""

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
        self.source = Source("in/+", 100, 100, clock.now_ms, self.counts)
        self.sink = Sink(self.store.outlet("main"), clock.now_ms, self.counts)
        pipeline = Pipeline(STREAM, store.snapshot("main"), Spending(), SystemBits(), self.counts)
        stood_ms = store.clock_ms or START_MS
        catch_up = CatchUp(stood_ms, wait_ms, waits=waits)
        self.turns = 0
        self.runner = Runner(
            pipeline,
            self.source,
            self.sink,
            self.store,
            clock,
            catch_up,
            None,
            self.counts,
            stood_ms,
            self._turn,
            module.Patience(flush_ms, STREAM.schedule.first_ms),
        )

    def _turn(self) -> None:
        self.turns += 1

    def _wall_ms(self) -> int:
        self.turned.set()
        return self.now_ms

    def send(self, *watts: int, meter: str = "m") -> None:
        """Readings arrive."""
        for value in watts:
            self.session.send(self.source, b"%d" % value, f"in/{meter}")

    @asynccontextmanager
    async def running(self) -> AsyncIterator[asyncio.Task[None]]:
        """The runner at work, as long as the block lasts."""
        await self.source.serve(self.session)
        task = asyncio.create_task(self.runner.run())
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.wait({task})
            self.store._thread.shutdown()

    @asynccontextmanager
    async def delivering(self) -> AsyncIterator[None]:
        """The sink at work, its broker confirming everything, as long as the block lasts."""

        async def confirm() -> None:
            while True:
                sent = await self.session.published.get()
                self.sink.on_delivered(self.session.answered(sent), 0)

        tasks = {asyncio.create_task(self.sink.serve(self.session)), asyncio.create_task(confirm())}
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def turn(self, number: int = 3) -> None:
        """The runner looks at its clock so many times."""
        for _ in range(number):
            self.turned.clear()
            async with asyncio.timeout(LIMIT_S):
                await self.turned.wait()
            await self.store.call(lambda: None)

    async def until(self, true: Callable[[], bool]) -> None:
        """Turn until something is true."""
        async with asyncio.timeout(LIMIT_S):
            while not true():
                await self.turn(1)

    async def pass_to(self, now_ms: int) -> None:
        """Let the time pass second by second, as it would."""
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
        """How many windows were charged."""
        return sum(sum(commit.charges.values()) for commit in self.store.commits)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock is looked at every 2 ms: it is a test's, and shows nothing by itself."""
    monkeypatch.setattr(module, "POLL_S", 0.002)


async def test_readings_become_records_on_schedule(tmp_path: Path) -> None:
    """Every slot of a meter is released when the clock passes its end, readings or not, from the first."""
    with open_store(tmp_path / "db") as store:
        line = Line(store)
        async with line.running():
            line.send(100)
            await line.turn()
            assert line.released == []
            line.now_ms += LENGTH_MS // 2
            line.send(300)
            await line.turn()
            await line.pass_to(START_MS + LENGTH_MS - 1)
            assert line.released == []
            await line.pass_to(START_MS + 3 * LENGTH_MS)
        assert line.released == [(0, 200), (1, 300), (2, 300)]
        assert line.opened == 4


async def test_readings_are_collected_and_nothing_is_late(tmp_path: Path) -> None:
    """With `flush`, readings are written together, at their slot's end at the latest; values are the same."""
    with open_store(tmp_path / "db") as store:
        line = Line(store, flush_ms=600_000)
        async with line.running():
            line.send(100)
            await line.pass_to(START_MS + LENGTH_MS - 1)
            assert (line.opened, line.store.commits) == (0, [])
            await line.pass_to(START_MS + LENGTH_MS)
            written = len(line.store.commits)
            for quarter in range(1, 4):
                line.now_ms = START_MS + LENGTH_MS + quarter * LENGTH_MS // 4
                line.send(100 * quarter)
                await line.turn()
            assert len(line.store.commits) == written
            assert line.session.acknowledged == []
            await line.pass_to(START_MS + 2 * LENGTH_MS)
            assert line.session.acknowledged == [b"100", b"100", b"200"]
        assert line.released == [(0, 100), (1, 175)]


async def test_readings_do_not_wait_longer_than_flush(tmp_path: Path) -> None:
    """What has waited for `flush` is written, and so is what would fill half of what may be held."""
    with open_store(tmp_path / "db") as store:
        line = Line(store, flush_ms=200)
        async with line.running():
            line.send(100)
            await line.pass_to(START_MS + LENGTH_MS)
            line.send(100)
            await line.turn()
            written = len(line.store.commits)
            line.now_ms += 199
            line.send(200)
            await line.turn()
            assert len(line.store.commits) == written
            line.now_ms += 1
            await line.until(lambda: line.session.acknowledged[-1:] == [b"100"])
            line.now_ms += 100
            for _ in range(51):
                line.send(300)
            await line.until(lambda: b"200" in line.session.acknowledged)


async def test_nothing_is_acknowledged_before_it_is_on_disk(tmp_path: Path) -> None:
    """A reading that is accounted for is acknowledged when the transaction has returned (law 7)."""
    with open_store(tmp_path / "db") as store:
        line = Line(store)
        async with line.running():
            line.store.gate.clear()
            line.send(100)
            line.now_ms += 1
            line.send(200)
            async with asyncio.timeout(LIMIT_S):
                await line.store.asked.wait()
            assert line.session.acknowledged == []
            line.store.gate.set()
            await line.until(lambda: line.session.acknowledged == [b"100"])


async def test_a_commit_that_fails_ends_it_and_acknowledges_nothing(tmp_path: Path) -> None:
    """When the store cannot be written the runner raises: its memory is ahead of the disk."""
    with open_store(tmp_path / "db") as store:
        line = Line(store)
        store._failed = True  # as after an error of the device
        async with line.running() as task:
            line.send(100)
            line.now_ms += 1
            line.send(200)
            await asyncio.wait({task}, timeout=LIMIT_S)
            assert isinstance(task.exception(), StoreError)
        assert line.session.acknowledged == []


async def test_without_a_clock_everything_stands(tmp_path: Path) -> None:
    """A clock set back stops all: nothing is taken, opened, closed or acknowledged; then it goes on."""
    with open_store(tmp_path / "db") as store:
        line = Line(store)
        async with line.running():
            line.send(100)
            await line.until(lambda: line.opened == 1)
            line.now_ms -= 3_600_000
            commits = len(line.store.commits)
            line.send(200)
            line.session.send(line.source, b"no number")
            await line.turn(20)
            assert len(line.store.commits) == commits
            assert line.session.acknowledged == []
            line.now_ms += 3_600_000 + LENGTH_MS // 2
            await line.until(lambda: b"no number" in line.session.acknowledged)
            await line.pass_to(START_MS + LENGTH_MS)
        assert line.released == [(0, 150)]
        assert line.counts["clock_waits"] == 1


async def test_when_the_store_is_full_everything_stands(tmp_path: Path) -> None:
    """Full of undelivered records, nothing opens, closes or is acknowledged; it is counted once."""
    with open_store(tmp_path / "db") as store:
        line = Line(store, max_bytes=1)
        async with line.running():
            line.send(100)
            await line.until(lambda: line.opened == 1)
            line.session.send(line.source, b"no number")
            await line.pass_to(START_MS + 5 * LENGTH_MS)
            assert line.opened == 1
            assert line.released == []
            assert line.session.acknowledged == []
            assert line.counts["store_full"] == 1


async def test_when_there_is_room_again_what_waited_counts(tmp_path: Path) -> None:
    """After a full store nothing closes before another catch_up: readings that waited are not late."""
    with open_store(tmp_path / "db") as store:
        line = Line(store, wait_ms=1500, max_bytes=1)
        async with line.running():
            line.send(100)
            await line.until(lambda: line.counts["store_full"] == 1)
            await line.pass_to(START_MS + 2 * LENGTH_MS)
            line.send(500)
            line.now_ms += LENGTH_MS
            line.store._max_bytes = 2**20
            await line.until(lambda: line.opened == 4)
            line.send(900, meter="m")
            await line.pass_to(START_MS + 4 * LENGTH_MS)
            assert line.released == []
            await line.pass_to(START_MS + 5 * LENGTH_MS)
        assert line.released == [(0, 100), (1, 100), (2, 500), (3, 900), (4, 900)]
        assert line.counts["late"] == 0


async def test_a_full_store_is_emptied_by_what_is_delivered(tmp_path: Path) -> None:
    """Deliveries are marked while everything stands, which is what ends it."""
    with open_store(tmp_path / "db") as store:
        line = Line(store, max_bytes=1)
        async with line.running():
            line.send(100)
            await line.until(lambda: line.counts["store_full"] == 1)
            async with line.delivering():
                await line.until(lambda: line.store.marked == [1, 2])
                await line.pass_to(START_MS + LENGTH_MS)
                await line.until(lambda: line.released == [(0, 100)])


async def test_a_catch_up_ends_though_readings_keep_coming(tmp_path: Path) -> None:
    """What waits when catch_up ends counts; what comes during those commits does not hold up the rest."""
    with open_store(tmp_path / "db") as store:
        first = Line(store)
        async with first.running():
            first.send(100)
            await first.until(lambda: first.opened == 1)
        line = Line(store, wait_ms=500, waits=True)
        line.now_ms += 2 * LENGTH_MS

        def keep_coming() -> None:
            line.now_ms += 1
            line.send(100)

        async with line.running():
            await line.turn()
            line.send(100)
            await line.pass_to(START_MS + 2 * LENGTH_MS + 499)
            assert line.released == []
            line.store.on_commit = keep_coming
            line.send(200)
            line.now_ms += 1
            await line.until(lambda: len(line.released) >= 2)


async def test_a_jump_of_the_clock_passes_window_by_window(tmp_path: Path) -> None:
    """Windows that a jump skips are opened, charged and released, no transaction holding many."""
    with open_store(tmp_path / "db") as store:
        line = Line(store)
        async with line.running():
            line.send(100)
            await line.until(lambda: line.opened == 1)
            line.now_ms += 50 * LENGTH_MS
            await line.until(lambda: line.opened == 51)
        assert line.released == [(second, 100) for second in range(50)]
        assert max(sum(commit.charges.values()) for commit in line.store.commits) <= 2


async def test_the_pause_is_until_the_next_deadline_from_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long a batch took, the runner wakes at the next boundary, or at the end of its catch_up."""
    with open_store(tmp_path / "db") as store:
        line = Line(store)
        async with line.running():
            line.send(100)
            await line.until(lambda: line.opened == 1)
        monkeypatch.setattr(module, "POLL_S", 60.0)
        line.now_ms = START_MS + 400
        assert line.runner._pause_s() == 0.6
        line.now_ms = START_MS + 1400
        assert line.runner._pause_s() == 0
        line.now_ms = 0
        assert line.runner._pause_s() == 60


async def test_what_was_delivered_is_marked_though_nothing_else_happens(tmp_path: Path) -> None:
    """A delivery alone is written down with the next look at the clock; where there is none, nothing is."""
    with open_store(tmp_path / "db") as store:
        persist(store, sending(START_MS))
        line = Line(store)
        async with line.running():
            async with line.delivering():
                await line.until(lambda: line.store.marked == [1])
            await line.turn()
            await line.runner.flush()
        assert len(line.store.commits) == 1


async def test_a_commit_is_one_transaction(tmp_path: Path) -> None:
    """When the budget refuses a charge nothing of the commit is written: no mark, state, row or delivery."""
    with open_store(tmp_path / "db") as store:
        persist(store, sending(5))
        thread = StoreThread(store, 86_400_000, 2**20, {"main"}, Counts())
        commit = opening(1000, "m")
        commit.outgoing += sending(7).outgoing
        with pytest.raises(StoreError, match="budget"):
            await thread.persist(commit, [1], Budget(TERMS.epsilon_per_w / 2, 86_400_000))
        assert [row.due_ms for row in outbox.pending(store.connection, "main", START_MS, 9)] == [5]
        assert store.snapshot("main").marks == {}
        assert list(ledger.report(store.connection)) == []
        await thread.persist(commit, [1], Budget(TERMS.epsilon_per_w, 86_400_000))
        assert [row.due_ms for row in outbox.pending(store.connection, "main", START_MS, 9)] == [7]
        assert store.snapshot("main").marks
        thread._thread.shutdown()


async def test_delivered_records_are_kept_for_their_time(tmp_path: Path) -> None:
    """A delivered row is pruned by the first commit after `keep`, and not before."""
    with open_store(tmp_path / "db") as store:
        thread = StoreThread(store, 1000, 2**20, {"main"}, Counts())
        await thread.persist(sending(5), [], None)
        await thread.persist(Commit("main", 100), [1], None)
        for now_ms, kept in ((1100, 1), (1101, 0)):
            await thread.persist(Commit("main", now_ms), [], None)
            assert len(list(outbox.export(store.connection))) == kept
        thread._thread.shutdown()
