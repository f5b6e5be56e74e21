"""The outbox: the same bytes, in order, until they are delivered; then kept for a while."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from meteragent.domain.commit import Commit, Descriptor, Outgoing
from meteragent.store import Store, commands, outbox, read_only
from tests.support.stores import fresh, open_store, persist, sending

LATE = 2**62


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A new store, open."""
    with open_store(tmp_path / "db") as store:
        yield store


def ids(store: Store, now_ms: int = LATE, limit: int = 10_000, stream: str = "main") -> list[int]:
    """The rows that may leave now."""
    return [row.id for row in outbox.pending_rows(store.connection, stream, now_ms, limit)]


def test_bytes_return_as_they_were(tmp_path: Path) -> None:
    """A row is read as it was written, byte for byte, also after a restart and as often as it takes."""
    row = Outgoing("main", "private/é", bytes(range(256)), 5, retain=True)
    with open_store(tmp_path / "db") as store:
        persist(store, Commit("main", 0, outgoing=[row]))
    with open_store(tmp_path / "db") as store:
        for _ in range(2):
            [actual] = outbox.pending_rows(store.connection, "main", 5, 10)
            assert actual == outbox.WaitingRow(1, 5, row.queue, row.topic, row.payload, True)
            assert actual.retain is True


@given(st.lists(st.lists(st.integers(0, 20), max_size=6), max_size=6), st.integers(0, 20), st.integers(1, 9))
def test_order(commits: list[list[int]], now_ms: int, limit: int) -> None:
    """Rows leave by due time, then in the order of their commits; none before it is due."""
    with fresh() as store:
        for due_ms in commits:
            persist(store, sending(*due_ms))
        numbered = enumerate((due for commit in commits for due in commit), start=1)
        expected = sorted((due, id_) for id_, due in numbered)
        due_rows = [(due, id_) for due, id_ in expected if due <= now_ms]
        actual = outbox.pending_rows(store.connection, "main", now_ms, limit)
        assert [(row.due_ms, row.id) for row in actual] == due_rows[:limit]


def test_when_the_last_row_of_a_topic_falls_due(store: Store) -> None:
    """Of each topic the latest due time, of rows that wait and are due after a time, in one stream."""
    rows = [
        Outgoing("main", topic, b"", due_ms, False)
        for topic, due_ms in (("a", 5), ("a", 9), ("b", 7), ("c", 3))
    ]
    persist(store, Commit("main", 0, outgoing=rows))
    persist(store, Commit("other", 0, outgoing=[Outgoing("other", "d", b"", 8, False)]))
    assert outbox.last_due_ms(store.connection, "main", 3) == {"a": 9, "b": 7}
    persist(store, Commit("main", 10), delivered=[2])
    assert outbox.last_due_ms(store.connection, "main", 3) == {"a": 5, "b": 7}


def test_channels_do_not_mix(store: Store) -> None:
    """Each stream has rows, depth and descriptors of its own."""
    persist(store, sending(1, 2))
    persist(store, sending(3, stream="other"))
    descriptor = Descriptor("other", "private/m", "9f2c01ab", b"{}")
    persist(store, Commit("other", 0, descriptors=[descriptor]))
    assert ids(store) == [1, 2]
    assert ids(store, stream="other") == [3]
    assert outbox.queue_depth(store.connection, "main") == 2
    assert outbox.queue_depth(store.connection, "none") == 0
    assert outbox.latest_descriptors(store.connection, "main") == []
    assert outbox.latest_descriptors(store.connection, "other") == [descriptor]
    assert store.snapshot("other").announced == {("other", "private/m"): "9f2c01ab"}


def test_latest_descriptor_of_a_topic(store: Store) -> None:
    """A new descriptor takes the place of the one before on its topic, and of no other."""
    first, second = Descriptor("main", "b", "1", b"one"), Descriptor("main", "b", "2", b"two")
    other = Descriptor("main", "a", "1", b"one")
    persist(store, Commit("main", 0, descriptors=[first, other]))
    persist(store, Commit("main", 0, descriptors=[second]))
    assert outbox.latest_descriptors(store.connection, "main") == [other, second]


def test_ids_are_never_given_twice(store: Store) -> None:
    """A late acknowledgement of a pruned row cannot mark a newer one as delivered."""
    persist(store, sending(1, 2))
    persist(store, Commit("main", 0), delivered=[1, 2])
    with store.transaction() as tx:
        assert outbox.prune_delivered(tx, LATE) == 2
    persist(store, sending(3))
    persist(store, Commit("main", 0), delivered=[1, 2])
    assert ids(store) == [3]


def test_prune_is_bounded_and_oldest_first(store: Store) -> None:
    """Pruning takes the rows that were delivered first, as many as asked, none that waits or is young."""
    persist(store, sending(1, 2, 3, 4, 5))
    for id_, now_ms in ((4, 10), (2, 20), (1, 30)):
        persist(store, Commit("main", 0), delivered=[id_], now_ms=now_ms)
    with store.transaction() as tx:
        assert outbox.prune_delivered(tx, 30, limit=1) == 1
        assert [row.delivered_ms for row in commands.delivered_rows(tx)] == [30, 20]
        assert outbox.prune_delivered(tx, 30, limit=10) == 1
        assert outbox.prune_delivered(tx, 30, limit=10) == 0
    assert [row.delivered_ms for row in commands.delivered_rows(store.connection)] == [30]
    assert ids(store) == [3, 5]


def test_export(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has left is exported once each, in the order of its commits, while more leaves."""
    monkeypatch.setattr(commands, "PAGE_ROWS", 3)
    persist(store, sending(*range(10)))
    persist(store, Commit("main", 0), delivered=[10, 1, 2, 4, 5, 7], now_ms=9)
    with read_only(store.path) as reader:
        rows = commands.delivered_rows(reader)
        actual = [next(rows)]
        persist(store, Commit("main", 0), delivered=[8], now_ms=9)
        assert store.is_erased
        actual += rows
    assert [row.due_ms for row in actual] == [0, 1, 3, 4, 6, 7, 9]
    assert actual[0] == ("main", "private/m", b"record", 0, 9)


# --- room --------------------------------------------------------------------------------------


BOTH = {"main", "other"}


def test_room(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Delivered rows make room, the oldest first and a page at a time; undelivered ones never do."""
    monkeypatch.setattr(outbox, "PAGE_ROWS", 2)
    payload = b"x" * 1000
    persist(store, sending(*range(10), payload=payload))
    assert outbox.make_room(store, 10_000, BOTH) == (False, 0)
    assert len(ids(store)) == 10
    persist(store, Commit("main", 0), delivered=[7, 6, 5], now_ms=1)
    assert outbox.make_room(store, 10_000, BOTH) == (True, 0)
    assert [row.due_ms for row in commands.delivered_rows(store.connection)] == [6]
    assert outbox.make_room(store, 10_000, BOTH) == (True, 0)
    assert len(list(commands.delivered_rows(store.connection))) == 1
    persist(store, sending(*range(3), payload=payload, stream="other"))
    assert outbox.make_room(store, 10_000, BOTH) == (False, 0)
    assert list(commands.delivered_rows(store.connection)) == []
    assert len(ids(store)) + len(ids(store, stream="other")) == 10


def test_what_retired_streams_left_makes_room_last(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Undelivered rows of retired streams are kept as long as there is room, then dropped and counted."""
    monkeypatch.setattr(outbox, "PAGE_ROWS", 2)
    payload = b"x" * 1000
    persist(store, sending(*range(3), payload=payload, stream="retired"))
    persist(store, sending(*range(5), payload=payload))
    assert outbox.make_room(store, 10_000, {"main"}) == (True, 0)
    persist(store, sending(0, payload=payload), delivered=[4, 5])
    persist(store, sending(*range(4), payload=payload))
    assert outbox.make_room(store, 10_000, {"main"}) == (True, 0)
    assert list(commands.delivered_rows(store.connection)) == []
    assert len(ids(store, stream="retired")) == 3
    assert outbox.make_room(store, 10_000, {"main"}) == (True, 2)
    assert outbox.make_room(store, 10_000, {"main"}) == (True, 0)
    assert outbox.queue_depth(store.connection, "retired") == len(ids(store, stream="retired")) == 1
    persist(store, sending(*range(9), payload=payload))
    assert outbox.make_room(store, 10_000, {"main"}) == (False, 1)
    totals = store.connection.execute(
        "SELECT waiting_bytes, left_bytes FROM outbox_total WHERE queue='retired'"
    )
    assert totals.fetchall() == [(0, 0)]


def test_what_a_row_counts(store: Store) -> None:
    """What the rows count for in `max_mb` is within a quarter of what they take in the file."""
    before = file_bytes(store)
    for _ in range(20):
        persist(store, sending(*range(500), payload=b"x" * 170))
    [(counted,)] = store.connection.execute("SELECT sum(waiting_bytes) FROM outbox_total")
    assert counted == pytest.approx(file_bytes(store) - before, rel=0.25)


def file_bytes(store: Store) -> int:
    """How long the database is."""
    [(pages,)] = store.connection.execute("PRAGMA page_count")
    [(page,)] = store.connection.execute("PRAGMA page_size")
    return int(pages * page)


# --- cost --------------------------------------------------------------------------------------


def steps(store: Store, call: object) -> int:
    """How many instructions SQLite runs for a call: a cost that no other load of the machine changes."""
    count = 0

    def tick() -> int:
        nonlocal count
        count += 1
        return 0

    assert callable(call)
    store.connection.set_progress_handler(tick, 1)
    call()
    store.connection.set_progress_handler(None, 1)
    return count


def costs(store: Store) -> list[int]:
    """What sending two rows costs, from the commit to the prune."""

    def prune(limit: int) -> None:
        with store.transaction() as tx:
            outbox.prune_delivered(tx, 1, limit)

    return [
        steps(store, lambda: persist(store, sending(1, 2))),
        steps(store, lambda: outbox.pending_rows(store.connection, "main", LATE, 2)),
        steps(store, lambda: outbox.queue_depth(store.connection, "main")),
        steps(store, lambda: outbox.make_room(store, 10**12, BOTH)),
        steps(store, lambda: persist(store, Commit("main", 0), delivered=ids(store, limit=2), now_ms=2)),
        steps(store, lambda: prune(0)),
    ]


def test_cost_does_not_grow(store: Store) -> None:
    """A release costs the same number of steps after 20,000 past ones, delivered or stuck elsewhere."""
    persist(store, sending(1, stream="stuck"))
    costs(store)
    before = costs(store)
    persist(store, sending(*range(10_000)))
    persist(store, Commit("main", 0), delivered=ids(store), now_ms=2)
    persist(store, sending(*range(10_000), stream="stuck"))
    assert costs(store) == before


# --- against a model ---------------------------------------------------------------------------


class Machine(RuleBasedStateMachine):
    """The outbox against a dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self.context = fresh()
        self.store = self.context.__enter__()
        self.waiting: dict[int, int] = {}
        self.left: dict[int, int] = {}
        self.last = 0

    def teardown(self) -> None:
        """Remove the store."""
        self.context.__exit__(None, None, None)

    @rule(due_ms=st.lists(st.integers(0, 50), min_size=1, max_size=5))
    def append(self, due_ms: list[int]) -> None:
        """Rows are committed."""
        persist(self.store, sending(*due_ms))
        for due in due_ms:
            self.last += 1
            self.waiting[self.last] = due

    @rule(data=st.data(), now_ms=st.integers(0, 50))
    def deliver(self, data: st.DataObject, now_ms: int) -> None:
        """Rows are acknowledged, some for the second time."""
        some = data.draw(st.lists(st.integers(1, max(self.last, 1)), max_size=6))
        persist(self.store, Commit("main", 0), delivered=some, now_ms=now_ms)
        for id_ in some:
            if self.waiting.pop(id_, None) is not None:
                self.left[id_] = now_ms

    @rule(before_ms=st.integers(0, 50), limit=st.integers(1, 4))
    def prune(self, before_ms: int, limit: int) -> None:
        """Delivered rows are deleted."""
        with self.store.transaction() as tx:
            outbox.prune_delivered(tx, before_ms, limit)
        old = sorted((ms, id_) for id_, ms in self.left.items() if ms < before_ms)
        for _, id_ in old[:limit]:
            del self.left[id_]

    @invariant()
    def agrees(self) -> None:
        """What waits, what has left and the totals are those of the dictionary."""
        connection = self.store.connection
        expected = [id_ for _, id_ in sorted((due, id_) for id_, due in self.waiting.items())]
        assert ids(self.store) == expected
        assert outbox.queue_depth(connection, "main") == len(expected)
        assert [row.delivered_ms for row in commands.delivered_rows(connection)] == [
            ms for _, ms in sorted(self.left.items())
        ]
        assert totals(connection) == (len(expected), 79 * len(expected), 79 * len(self.left))


def totals(connection: sqlite3.Connection) -> tuple[int, int, int]:
    """Rows waiting, their bytes, bytes of what has left."""
    read = "SELECT waiting, waiting_bytes, left_bytes FROM outbox_total WHERE queue = 'main'"
    return connection.execute(read).fetchone() or (0, 0, 0)


TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=20, stateful_step_count=20)
