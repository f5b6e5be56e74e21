"""What commands, page and watch read from a store: the ledger's ends, the newest records, the terms."""

from pathlib import Path

import pytest

from meteragent.domain.commit import Commit
from meteragent.domain.errors import StoreError
from meteragent.store import commands, ledger, outbox, read_only, stored_terms
from tests.support.stores import LENGTH_MS, TERMS, closing, fresh, open_store, opening, persist, sending
from tests.support.terms import terms_with


def test_the_ledger_knows_its_streams_and_its_end() -> None:
    """Those that ever opened a window, and where the last of these ends; nothing before the first."""
    with fresh() as store:
        assert (ledger.marked_streams(store.connection), commands.opened_to_ms(store.connection)) == (
            set(),
            None,
        )
        persist(store, opening(0, "a"))
        persist(store, opening(3, "b", stream="heat"))
        persist(store, sending(5, stream="other"))
        assert ledger.marked_streams(store.connection) == {"main", "heat"}
        assert commands.opened_to_ms(store.connection) == 4 * LENGTH_MS


def test_the_newest_records_of_a_topic() -> None:
    """In the order of their commits, up to a limit, of this stream and topic, without retained messages."""
    with fresh() as store:
        for k in range(4):
            persist(store, closing(k, "m", "other"))
        persist(store, closing(9, "m", stream="heat"))
        row = closing(8, "m").outgoing[0]._replace(retain=True)
        persist(store, Commit("main", 0, outgoing=[row]))
        assert outbox.latest_records(store.connection, "main", "private/m", 3) == [
            b"record %d" % k for k in (1, 2, 3)
        ]
        assert outbox.latest_records(store.connection, "main", "private/none", 3) == []


def test_what_left_last() -> None:
    """The message of the channel that was delivered last, if since the time; none before any was."""
    with fresh() as store:
        persist(store, sending(5, 6, 7))
        persist(store, sending(8, stream="heat"))
        assert outbox.last_delivered(store.connection, "main") is None
        persist(store, sending(), delivered=[1, 2], now_ms=100)
        persist(store, sending(), delivered=[4], now_ms=200)
        actual = outbox.last_delivered(store.connection, "main", 100)
        assert actual is not None
        assert (actual.due_ms, actual.delivered_ms, actual.stream) == (6, 100, "main")
        assert outbox.last_delivered(store.connection, "main", 101) is None


def test_a_row_counts_its_topic_and_payload() -> None:
    """The sizes of what waits add up to what the store says of the whole outbox."""
    with fresh() as store:
        persist(store, sending(5, 6, payload=b"record"))
        persist(store, sending(7, payload=b"x" * 300))
        waiting = outbox.pending_rows(store.connection, "main", 100, -1)
        assert sum(row.size_bytes for row in waiting) == outbox.total_bytes(store.connection)
        assert waiting[2].size_bytes - waiting[0].size_bytes == 294


def test_a_command_reads_the_terms_of_each_stream(tmp_path: Path) -> None:
    """All that a stream has ever had, also while the agent runs; it cannot write."""
    other = terms_with(TERMS, length_ms=2 * TERMS.length_ms, step_ms=2 * TERMS.step_ms)
    with open_store(tmp_path / "db") as store:
        persist(store, opening(0, "a"))
        persist(store, Commit("main", 1, terms={other.id: other}))
        persist(store, opening(0, "a", stream="heat"))
        with read_only(tmp_path / "db") as connection:
            actual = stored_terms(connection)
            with pytest.raises(Exception, match="readonly"):
                connection.execute("DELETE FROM mark")
    assert {name: {item.id for item in known} for name, known in actual.items()} == {
        "main": {TERMS.id, other.id},
        "heat": {TERMS.id},
    }


def test_no_store_is_no_view(tmp_path: Path) -> None:
    """Neither a file that is missing nor an empty one is read as a store, and none is made."""
    (tmp_path / "empty").touch()
    for name in ("none", "empty"):
        with pytest.raises(StoreError, match="there is no store"), read_only(tmp_path / name):
            pass
    assert [path.name for path in tmp_path.iterdir()] == ["empty"]
