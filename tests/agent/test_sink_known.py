"""What the sink knows without reading: the outbox's own answer, whatever is committed in the meantime."""

import asyncio
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from meteragent.agent.link import sink
from meteragent.agent.link.sink import SendQueue
from meteragent.domain.commit import Commit, Outgoing
from meteragent.store import outbox
from meteragent.store.outbox import WaitingRow
from tests.agent.sink_line import NOW_MS, Line
from tests.support.fake_session import LIMIT_S
from tests.support.mqtt_peer import turns
from tests.support.stores import open_store

EVER = float("inf")


def row(id_: int, due_ms: int) -> WaitingRow:
    """Return a row that waits."""
    return WaitingRow(id_, due_ms, "main", "t", b"%d" % id_, False)


steps = st.lists(
    st.tuples(st.sampled_from(["commit", "commit", "read", "leave", "pass"]), st.integers(0, 12)),
    max_size=60,
)


@given(steps, st.integers(1, 6))
@example([("commit", 3), ("read", 0), ("commit", 1), ("pass", 9), ("leave", 0)], 1)
@example([("read", 0), ("commit", 9), ("leave", 0), ("pass", 9), ("leave", 0)], 1)
def test_what_leaves_is_what_the_outbox_would_have_said(plan: list[tuple[str, int]], page: int) -> None:
    """Rows leave in the order (due, id) of all that wait: none twice, none early, and in the end all."""
    known, waiting, left, now_ms, last = SendQueue(), list[WaitingRow](), list[WaitingRow](), 0, 0

    def read() -> None:
        until_ms, actual = now_ms + 3, sorted(waiting, key=lambda item: (item.due_ms, item.id))
        rows = [item for item in actual if item.due_ms <= until_ms][:page]
        end = (rows[-1].due_ms, rows[-1].id) if len(rows) == page else (until_ms, EVER)
        known.merge_rows(rows, end)

    def leave() -> None:
        rows = known.pop_due(now_ms)
        assert rows == sorted(waiting, key=lambda item: (item.due_ms, item.id))[: len(rows)]
        assert all(item.due_ms <= now_ms for item in rows)
        for item in rows:
            waiting.remove(item)
        left.extend(rows)
        assert not [item for item in waiting if (item.due_ms, item.id) <= min(known.end, (now_ms, EVER))]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sink, "FETCH_MAX", page)
        for what, number in plan:
            if what == "commit":
                rows = [row(last := last + 1, max(0, now_ms + number - 6 + k % 3)) for k in range(number)]
                waiting += rows
                known.add_rows(rows)
                assert len(known._rows) <= 2 * page + number
            elif what == "read":
                read()
            elif what == "leave":
                leave()
            else:
                now_ms += number
        for _ in range(len(waiting) + 30):
            now_ms += 1
            read()
            leave()
    assert not waiting
    assert len({item.id for item in left}) == last


async def test_what_a_commit_hands_over_leaves_without_a_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of commits leave in order without reading the outbox, and are those that it holds."""
    monkeypatch.setattr(sink, "POLL_S", 3600.0)
    with open_store(tmp_path / "db") as store:
        line = Line(store)
        async with line.connected() as session:
            await line.looked()
            for due_ms in ((NOW_MS, NOW_MS - 5), (NOW_MS + 5,), (NOW_MS,)):
                rows = [Outgoing("main", "private/m", b"%d" % due, due, False) for due in due_ms]
                with store.transaction() as tx:
                    line.sink.queue_rows(outbox.append_commit(tx, Commit("main", NOW_MS, outgoing=rows)))
            sent = await session.take(3)
            assert [item.payload for item in sent] == [b"%d" % due for due in (NOW_MS - 5, NOW_MS, NOW_MS)]
            line.answer(session, *sent)
            async with asyncio.timeout(LIMIT_S):
                await line.sink.idle.wait()
            line.now_ms = NOW_MS + 5
            line.sink.queue_rows([])
            assert not line.sink.idle.is_set()
            assert (await session.next()).payload == b"%d" % (NOW_MS + 5)
            assert line.reads.locked()


async def test_a_row_committed_while_the_outbox_is_read_is_neither_lost_nor_sent_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether or not the answer already has it."""
    monkeypatch.setattr(sink, "POLL_S", 3600.0)
    with open_store(tmp_path / "db") as store:
        line = Line(store)
        async with line.connected() as session:
            await line.looked()
            for answered in (True, False):
                line.gate.clear()
                line.sink.reread_outbox()
                await turns(3)
                with store.transaction() as tx:
                    commit = Commit("main", NOW_MS, outgoing=[Outgoing("main", "t", b"new", NOW_MS, False)])
                    rows = outbox.append_commit(tx, commit)
                line.sink.queue_rows(rows)
                if not answered:
                    line.unseen.add(rows[0].id)
                line.gate.set()
                item = await session.next()
                assert item.payload == b"new"
                await line.looked()
                assert session.published.empty()
                line.answer(session, item)
                await turns(1)


async def test_rows_given_back_to_the_outbox_while_it_is_read_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows handed over during a read, too many to keep and earlier than what is read, leave."""
    monkeypatch.setattr(sink, "POLL_S", 3600.0)
    monkeypatch.setattr(sink, "FETCH_MAX", 2)
    with open_store(tmp_path / "db") as store:
        line = Line(store)
        async with line.connected() as session:
            await line.looked()
            line.gate.clear()
            line.now_ms = NOW_MS + 3 * 3_600_000  # beyond what the sink has read: it reads on from there
            line.sink.queue_rows([])
            await turns(3)
            payloads = [b"%d" % number for number in range(5)]
            with store.transaction() as tx:
                outgoing = [Outgoing("main", "private/m", payload, NOW_MS, False) for payload in payloads]
                line.sink.queue_rows(outbox.append_commit(tx, Commit("main", NOW_MS, outgoing=outgoing)))
            line.gate.set()
            assert [item.payload for item in await session.take(5)] == payloads
