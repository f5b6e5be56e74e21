"""Records out: meteragent.agent.link.sink, from a real outbox to connections that a test drives."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from meteragent.agent.link import sink
from meteragent.store import commands, outbox
from tests.agent.sink_line import NOW_MS, Line
from tests.support.fake_session import LIMIT_S, Publication
from tests.support.mqtt_peer import turns
from tests.support.stores import open_store


@pytest.fixture
def line(tmp_path: Path) -> Iterator[Line]:
    """A sink whose outbox is empty."""
    with open_store(tmp_path / "db") as store:
        yield Line(store)


def payloads(publications: list[Publication]) -> list[bytes]:
    """What was published."""
    return [publication.payload for publication in publications]


async def test_records_leave_in_order_as_they_were_written(line: Line) -> None:
    """Rows leave in the order (due, commit), with their topic, bytes and retain flag."""
    line.commit(b"3", due_ms=NOW_MS - 1)
    line.commit(b"4", b"5", topic="private/other")
    line.commit(b"1", b"2", due_ms=NOW_MS - 2)
    async with line.connected() as session:
        sent = await session.take(5)
    assert payloads(sent) == [b"1", b"2", b"3", b"4", b"5"]
    assert [p.topic for p in sent] == ["private/m"] * 3 + ["private/other"] * 2
    assert not any(p.retain for p in sent)


async def test_what_is_committed_leaves_at_once(line: Line) -> None:
    """A wake sends what is new, on a connection that has nothing left to do."""
    async with line.connected() as session:
        await line.looked()
        line.commit(b"1")
        assert (await session.next()).payload == b"1"


async def test_every_connection_begins_with_the_descriptors(line: Line) -> None:
    """Every topic's latest descriptor is sent, retained, in both places, before any record."""
    line.describe("private/a", "old")
    line.describe("private/a", "new")
    line.describe("private/b", "new")
    line.commit(b"record")
    for _ in range(2):
        async with line.connected() as session:
            sent = await session.take(5)
        assert [(p.topic, p.payload, p.retain) for p in sent] == [
            ("private/a/privacy", b"new", True),
            ("private/a/privacy/new", b"new", True),
            ("private/b/privacy", b"new", True),
            ("private/b/privacy/new", b"new", True),
            ("private/m", b"record", False),
        ]


async def test_nothing_leaves_before_it_is_due(line: Line) -> None:
    """A row one millisecond ahead of the clock stays, and leaves when the clock is there."""
    line.commit(b"later", due_ms=NOW_MS + 60_000)
    line.commit(b"now")
    async with line.connected() as session:
        assert (await session.next()).payload == b"now"
        line.now_ms = NOW_MS + 59_999
        await line.looked()
        assert session.published.empty()
        line.now_ms = NOW_MS + 60_000
        line.sink.reread_outbox()
        assert (await session.next()).payload == b"later"


async def test_a_row_leaves_when_it_falls_due_though_nothing_is_announced(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sink wakes by itself for the next row that falls due, not only to look from time to time."""
    monkeypatch.setattr(sink, "POLL_S", 60.0)
    line.commit(b"soon", due_ms=NOW_MS + 5)
    clock = asyncio.get_running_loop().time
    begin_s = clock()

    def now_ms() -> int:
        return NOW_MS + int((clock() - begin_s) * 1000)

    line.sink._now_ms = now_ms
    async with line.connected() as session:
        assert (await session.next()).payload == b"soon"
        assert now_ms() >= NOW_MS + 5


async def test_a_clock_that_is_set_is_noticed(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """The outbox is looked at from time to time, though no row is due soon."""
    monkeypatch.setattr(sink, "POLL_S", 0.01)
    line.commit(b"tomorrow", due_ms=NOW_MS + 86_400_000)
    async with line.connected() as session:
        await line.looked()
        line.now_ms = NOW_MS + 86_400_000
        assert (await session.next()).payload == b"tomorrow"


async def test_without_a_clock_nothing_leaves(line: Line) -> None:
    """Without a valid clock no record leaves, even if it is due; with one it does."""
    line.now_ms = None
    line.commit(b"1", due_ms=0)
    async with line.connected() as session:
        async with asyncio.timeout(LIMIT_S):
            await line.sink.idle.wait()
        assert session.published.empty()
        line.now_ms = NOW_MS
        line.sink.reread_outbox()
        assert (await session.next()).payload == b"1"


async def test_what_leaves_on_time_does_not_wait_for_the_store(line: Line) -> None:
    """A row that was read before it was due leaves when it is, also while the store is busy writing."""
    line.commit(b"soon", due_ms=NOW_MS + 50)
    line.commit(b"later", due_ms=NOW_MS + 10_000)
    async with line.connected() as session:
        await line.looked()
        line.gate.clear()
        line.now_ms = NOW_MS + 50
        assert (await session.next()).payload == b"soon"
        line.gate.set()
        await line.looked()
        assert session.published.empty()


async def test_what_was_due_does_not_leave_when_the_clock_is_set_back(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that wait for room stay when the clock is set back, and leave in order when it is right again."""
    monkeypatch.setattr(sink, "POLL_S", 0.01)
    line.commit(*(b"%d" % number for number in range(4)))
    async with line.connected(inflight=2) as session:
        first = await session.take(2)
        line.now_ms = None
        line.answer(session, *first)
        await turns(20)
        assert session.published.empty()
        line.now_ms = NOW_MS
        assert payloads(await session.take(2)) == [b"2", b"3"]


async def test_descriptors_wait_for_a_clock_too(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a connection made without a clock nothing is said at all; then the descriptors come first."""
    monkeypatch.setattr(sink, "POLL_S", 0.01)
    line.describe("private/a", "new")
    line.commit(b"record")
    line.now_ms = None
    async with line.connected() as session:
        await turns(20)
        assert session.published.empty()
        line.now_ms = NOW_MS
        assert payloads(await session.take(3)) == [b"new", b"new", b"record"]


async def test_what_is_in_flight_is_bounded(line: Line) -> None:
    """At most `inflight` publications are unanswered, descriptors among them; each answer sends one."""
    line.describe("private/a", "id")
    line.commit(*(b"%d" % n for n in range(10)))
    async with line.connected(inflight=3) as session:
        window = await session.take(3)
        assert payloads(window) == [b"id", b"id", b"0"]
        for number in range(1, 10):
            line.answer(session, window.pop(0))
            window.append(await session.next())
            assert window[-1].payload == b"%d" % number


async def test_delivered_is_what_the_broker_has_confirmed(line: Line) -> None:
    """Only confirmed rows are reported, once each and in any order; descriptors are not rows."""
    line.describe("private/a", "id")
    line.commit(b"0", b"1", b"2")
    async with line.connected() as session:
        sent = await session.take(5)
        assert not line.sink.unmarked_ids
        line.answer(session, sent[0], sent[4], sent[2])
        assert line.mark() == [1, 3]
        assert line.mark() == []
    assert [row.payload for row in outbox.pending_rows(line.store.connection, "main", NOW_MS, 9)] == [b"1"]
    assert line.counts["delivered"] == 2


async def test_what_is_confirmed_is_not_sent_again_before_it_is_marked(line: Line) -> None:
    """Between its confirmation and the next commit a row is still in the outbox, and does not leave."""
    line.commit(b"0")
    async with line.connected() as session:
        line.answer(session, await session.next())
        await line.looked()
        line.commit(b"1")
        assert (await session.next()).payload == b"1"
    async with line.connected() as session:
        assert (await session.next()).payload == b"1"
        await line.looked()
        assert session.published.empty()


async def test_what_is_not_confirmed_is_sent_again_in_order(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new connection sends all that is not confirmed, from the first, byte for byte; no more."""
    monkeypatch.setattr(sink, "POLL_S", 3600.0)
    line.commit(*(b"%d" % n for n in range(6)))
    async with line.connected(inflight=4) as session:
        first = await session.take(4)
        line.answer(session, first[1], first[3])
        second = await session.take(2)
    async with line.connected() as session:
        again = await session.take(4)
        await line.looked()
        assert session.published.empty()
    assert payloads([*first, *second]) == [b"0", b"1", b"2", b"3", b"4", b"5"]
    assert payloads(again) == [b"0", b"2", b"4", b"5"]


async def test_an_answer_on_a_new_connection_is_for_the_new_publication(line: Line) -> None:
    """Packet ids start over: messages that an old connection sent are forgotten with it."""
    line.describe("private/a", "id")
    line.commit(b"0", b"1")
    async with line.connected() as session:
        await session.take(4)
    async with line.connected() as session:
        descriptors = await session.take(2)
        line.answer(session, *descriptors)
        assert line.mark() == []
        line.answer(session, (await session.take(2))[1])
        assert line.mark() == [2]


async def test_idle_means_that_nothing_is_left_to_do(line: Line) -> None:
    """`idle` is set when nothing is due and all is confirmed, and cleared by a new commit."""
    line.commit(b"0")
    line.commit(b"later", due_ms=NOW_MS + 1000)
    async with line.connected() as session:
        sent = await session.next()
        await line.looked()
        assert not line.sink.idle.is_set()
        line.answer(session, sent)
        async with asyncio.timeout(LIMIT_S):
            await line.sink.idle.wait()
        line.sink.reread_outbox()
        assert not line.sink.idle.is_set()
        async with asyncio.timeout(LIMIT_S):
            await line.sink.idle.wait()


async def test_what_falls_due_after_the_last_stays(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """At a stop all due rows leave, even those not read yet, but none that falls due meanwhile."""
    monkeypatch.setattr(sink, "POLL_S", 0.01)
    line.commit(b"before")
    line.commit(b"later", due_ms=NOW_MS + 5)
    async with line.connected() as session:
        before = await session.next()
        await line.looked()
        line.sink.finish()
        line.commit(b"written while it was cancelled")
        line.now_ms = NOW_MS + 5000
        late = await session.next()
        assert late.payload == b"written while it was cancelled"
        line.answer(session, before, late)
        async with asyncio.timeout(LIMIT_S):
            await line.sink.idle.wait()
        await line.looked()
        await line.looked()
        assert session.published.empty()
        assert line.mark() == [1, 3]


async def test_only_a_row_that_is_due_and_may_leave_is_waited_for_at_a_stop(line: Line) -> None:
    """Not a later one, one that is confirmed, or one of a topic that is refused, connected or not."""
    line.commit(b"later", due_ms=NOW_MS + 5)
    line.sink.finish()
    assert not await line.sink.has_due()
    line.commit(b"refused", topic="private/bad/power")
    line.commit(b"due")
    assert await line.sink.has_due()
    async with line.connected() as session:
        refused, due = await session.take(2)
        line.sink.on_refused(session.answered(refused), 0x87)
        assert await line.sink.has_due()
        line.answer(session, due)
        assert not await line.sink.has_due()
    assert not await line.sink.has_due()


async def test_a_finished_sink_does_not_spin(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """A due row that cannot leave does not make the sink look for rows again and again."""
    monkeypatch.setattr(sink, "POLL_S", 3600.0)
    line.commit(b"before")
    line.commit(b"later", due_ms=NOW_MS + 5)
    async with line.connected() as session:
        await session.next()
        line.sink.finish()
        await line.looked()
        asked = 0

        def now_ms() -> int:
            nonlocal asked
            asked += 1
            return NOW_MS + 5000

        line.sink._now_ms = now_ms
        line.sink.reread_outbox()
        await turns(200)
        assert asked < 10


async def test_a_long_outbox_leaves_page_by_page(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """More rows than one page all leave, once and in order, while earlier ones wait for their mark."""
    monkeypatch.setattr(sink, "POLL_S", 3600.0)
    monkeypatch.setattr(sink, "FETCH_MAX", 7)
    line.commit(*(b"%d" % n for n in range(50)))
    sent: list[bytes] = []
    async with line.connected(inflight=3) as session:
        for number in range(50):
            publication = await session.next()
            sent.append(publication.payload)
            line.answer(session, publication)
            if number % 10 == 0:
                line.mark()
        await line.looked()
        assert session.published.empty()
    assert sent == [b"%d" % n for n in range(50)]


async def test_an_answer_reads_nothing_again(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is read again at a confirmation, not even at the last: what the outbox held is known."""
    monkeypatch.setattr(sink, "POLL_S", 3600.0)
    line.commit(b"1", b"2", b"3")
    async with line.connected() as session:
        first, second, third = await session.take(3)
        await line.looked()
        for item in (first, second):
            line.answer(session, item)
            await turns(5)
        assert line.reads.locked()
        line.answer(session, third)
        async with asyncio.timeout(LIMIT_S):
            await line.sink.idle.wait()
        assert line.reads.locked()


async def test_each_answer_makes_room_at_once(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a connection that takes one at a time, a confirmation lets the next one leave."""
    monkeypatch.setattr(sink, "POLL_S", 3600.0)
    line.commit(b"1", b"2", b"3")
    async with line.connected(inflight=1) as session:
        for expected in (b"1", b"2", b"3"):
            sent = await session.next()
            assert sent.payload == expected
            line.answer(session, sent)


async def test_a_report_is_not_sent_from_its_deadline_on(line: Line) -> None:
    """It is counted and deleted; one that was delivered is deleted, too, and a record stays for `export`."""
    line.commit(b"late", until_ms=NOW_MS)
    line.commit(b"in time", until_ms=NOW_MS + 1)
    line.commit(b"record")
    async with line.connected() as session:
        sent = await session.take(2)
        assert payloads(sent) == [b"in time", b"record"]
        line.answer(session, *sent)
        assert line.mark() == [1, 2, 3]
        await line.looked()
    assert line.counts["report_late"] == 1
    assert line.sink.delivered_ms == NOW_MS
    assert line.counts["delivered"] == 2
    assert outbox.queue_depth(line.store.connection, "main") == 0
    assert [row.payload for row in commands.delivered_rows(line.store.connection)] == [b"record"]
    assert outbox.total_bytes(line.store.connection) == 64 + len("private/m") + len(b"record")
