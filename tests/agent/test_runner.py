"""One stream at work: meteragent.agent.runner, over a real store; the test provides time and messages."""

import asyncio
import threading
from pathlib import Path

import pytest

from meteragent.agent import runner as module
from meteragent.agent.store_thread import OutboxReader, StoreThread
from meteragent.domain.commit import Budget, Commit, Outgoing
from meteragent.domain.counters import Counts
from meteragent.domain.errors import StoreError
from meteragent.store import commands, outbox
from tests.support.fake_session import LIMIT_S
from tests.support.line import LENGTH_MS, START_MS, Line
from tests.support.mqtt_peer import turns
from tests.support.stores import TERMS, open_store, opened, opening, persist, sending


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check the clock every 2 ms: it is a test's, and shows nothing by itself."""
    monkeypatch.setattr(module, "POLL_S", 0.002)


async def test_readings_become_records_on_schedule(tmp_path: Path) -> None:
    """Every slot of a meter is released when the clock passes its end, with or without readings."""
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


async def test_nothing_is_acknowledged_before_it_is_on_disk(tmp_path: Path) -> None:
    """A reading that is accounted for is acknowledged once the transaction has returned (law 7)."""
    with open_store(tmp_path / "db") as store:
        line = Line(store)
        async with line.running():
            line.store.gate.clear()
            line.send(100)
            line.now_ms += 1
            line.send(200)
            async with asyncio.timeout(LIMIT_S):
                await line.store.requested.wait()
            assert line.session.acknowledged == []
            line.store.gate.set()
            await line.until(lambda: line.session.acknowledged == [b"100"])


async def test_a_commit_that_fails_ends_it_and_acknowledges_nothing(tmp_path: Path) -> None:
    """If the store cannot be written, the runner raises, because its memory is ahead of the disk."""
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
    """While the clock is set back, nothing is taken, opened, closed or acknowledged; then it goes on."""
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
    """If undelivered records fill the store, nothing opens, closes or is acknowledged; counted once."""
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


async def test_what_waits_for_refused_topics_may_take_a_tenth_of_the_store(tmp_path: Path) -> None:
    """For all streams together; beyond it their meters open no windows, and the others go on."""
    with open_store(tmp_path / "db") as store:
        line, topic = Line(store, max_bytes=100_000), "private/m"
        async with line.running():
            for meter in ("m", "other"):
                line.send(100, meter=meter)
            await line.until(lambda: line.opened == 2)
            line.sink.refusals.on_refused(topic, 0.0)
            assert not line.store.note_refused_bytes("another stream", 6000)
            await line.pass_to(START_MS + LENGTH_MS)
            assert line.opened == 4
            assert not line.sink.refusals.may_send(topic, 1, 4000)
            await line.pass_to(START_MS + 2 * LENGTH_MS)
            assert line.opened == 5
            assert line.counts["withheld"] == 1
            line.store.note_refused_bytes("another stream", 0)
            await line.pass_to(START_MS + 3 * LENGTH_MS)
            assert line.opened == 7


async def test_when_there_is_room_again_what_waited_counts(tmp_path: Path) -> None:
    """After a full store, nothing closes before another catch_up, so readings that waited are not late."""
    with open_store(tmp_path / "db") as store:
        line = Line(store, wait_ms=1500, max_bytes=1)
        async with line.running():
            line.send(100)
            await line.until(lambda: line.counts["store_full"] == 1)
            await line.pass_to(START_MS + 2 * LENGTH_MS)
            line.send(500)
            line.now_ms += LENGTH_MS
            line.store.max_bytes = 2**20
            await line.until(lambda: line.opened == 4)
            line.send(900, meter="m")
            await line.pass_to(START_MS + 4 * LENGTH_MS)
            assert line.released == []
            await line.pass_to(START_MS + 5 * LENGTH_MS)
        assert line.released == [(0, 100), (1, 100), (2, 500), (3, 900), (4, 900)]
        assert line.counts["late"] == 0


async def test_a_full_store_is_emptied_by_what_is_delivered(tmp_path: Path) -> None:
    """Deliveries are still marked while processing is paused, which is what ends the pause."""
    with open_store(tmp_path / "db") as store:
        line = Line(store, max_bytes=1)
        async with line.running():
            line.send(100)
            await line.until(lambda: line.counts["store_full"] == 1)
            async with line.delivering():
                await line.until(lambda: line.store.marked == [1, 2])
                await line.pass_to(START_MS + LENGTH_MS)
                await line.until(lambda: line.released == [(0, 100)])


async def test_a_delivery_is_marked_though_its_commit_was_cancelled(tmp_path: Path) -> None:
    """If a stop cancels a commit while the store is busy, the stop's own commit marks the delivery."""
    with open_store(tmp_path / "db") as store:
        line = Line(store)
        commit = Commit("main", START_MS, outgoing=[Outgoing("main", "t", b"x", START_MS, False)])
        [row] = await line.store.persist(commit, [], None)
        line.sink.queue_rows([row])
        async with line.delivering():
            await line.until(lambda: row.id in line.sink.unmarked_ids)
        busy = threading.Event()
        other = asyncio.ensure_future(line.store.call(busy.wait))
        stopped = asyncio.create_task(line.runner._commit(Commit("main", START_MS + 1)))
        await turns(3)
        stopped.cancel()
        await asyncio.wait({stopped})
        busy.set()
        await other
        assert len(outbox.pending_rows(store.connection, "main", START_MS, 9)) == 1
        await line.runner.flush_marks()
        assert outbox.pending_rows(store.connection, "main", START_MS, 9) == []
        line.store._thread.shutdown()


async def test_a_catch_up_ends_though_readings_keep_coming(tmp_path: Path) -> None:
    """What waits when catch_up ends counts; what comes during those commits does not delay the rest."""
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
    """Windows that a jump skips are opened, charged and released, without one large transaction."""
    with open_store(tmp_path / "db") as store:
        line = Line(store)
        async with line.running():
            line.send(100)
            await line.until(lambda: line.opened == 1)
            line.now_ms += 50 * LENGTH_MS
            await line.until(lambda: line.opened == 51)
        assert line.released == [(second, 100) for second in range(50)]
        assert max(map(opened, line.store.commits)) <= 2


async def test_the_pause_is_until_the_next_deadline_from_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long a batch took, the runner wakes at the next boundary or at the end of its catch_up."""
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
    """A delivery alone is written at the next check of the clock; without one, nothing is."""
    with open_store(tmp_path / "db") as store:
        persist(store, sending(START_MS))
        line = Line(store)
        async with line.running():
            async with line.delivering():
                await line.until(lambda: line.store.marked == [1])
            await line.turn()
            await line.runner.flush_marks()
        assert len(line.store.commits) == 1


async def test_a_commit_is_one_transaction(tmp_path: Path) -> None:
    """If the budget refuses a charge, nothing of the commit is written: no mark, state, row or delivery."""
    with open_store(tmp_path / "db") as store:
        persist(store, sending(5))
        thread = StoreThread(store, 86_400_000, 2**20, {"main"}, Counts())
        commit = opening(1000, "m")
        commit.outgoing += sending(7).outgoing
        with pytest.raises(StoreError, match="budget"):
            await thread.persist(commit, [1], Budget(TERMS.epsilon_per_w / 2, 86_400_000))
        assert [row.due_ms for row in outbox.pending_rows(store.connection, "main", START_MS, 9)] == [5]
        assert store.snapshot("main").marks == {}
        assert list(commands.day_charges(store.connection)) == []
        await thread.persist(commit, [1], Budget(TERMS.epsilon_per_w, 86_400_000))
        assert [row.due_ms for row in outbox.pending_rows(store.connection, "main", START_MS, 9)] == [7]
        assert store.snapshot("main").marks
        thread._generation_thread.shutdown()
        thread._thread.shutdown()


async def test_a_device_that_fails_on_reading_is_named(tmp_path: Path) -> None:
    """The error is the store's, with its path, as after a commit that fails, and no crash of the agent."""
    with open_store(tmp_path / "db") as store:
        thread = StoreThread(store, 1000, 2**20, {"main"}, Counts())
        store.connection.set_progress_handler(lambda: True, 1)
        with pytest.raises(StoreError, match=f"^{tmp_path / 'db'}: interrupted$"):
            await OutboxReader(thread, "main").latest_descriptors()
        store.connection.set_progress_handler(None, 1)
        thread._generation_thread.shutdown()
        thread._thread.shutdown()


async def test_delivered_records_are_kept_for_their_time(tmp_path: Path) -> None:
    """A delivered row is pruned by the first commit after `keep`, and not before."""
    with open_store(tmp_path / "db") as store:
        thread = StoreThread(store, 1000, 2**20, {"main"}, Counts())
        await thread.persist(sending(5), [], None)
        await thread.persist(Commit("main", 100), [1], None)
        for now_ms, kept in ((1100, 1), (1101, 0)):
            await thread.persist(Commit("main", now_ms), [], None)
            assert len(list(commands.delivered_rows(store.connection))) == kept
        thread._generation_thread.shutdown()
        thread._thread.shutdown()


async def test_the_next_generation_file_is_prepared_after_each_commit_with_records(tmp_path: Path) -> None:
    """After a commit with records, the file for the next such commit is written, and after no other."""
    with open_store(tmp_path / "db") as store:
        thread, new = StoreThread(store, 1000, 2**20, {"main"}, Counts()), tmp_path / "db.gen.new"
        await thread.persist(opening(0, "m"), [], None)
        thread._generation_thread.submit(int).result()
        assert not new.exists()
        await thread.persist(sending(5), [], None)
        thread._generation_thread.submit(int).result()
        assert new.exists()
        thread._generation_thread.shutdown()
        thread._thread.shutdown()
