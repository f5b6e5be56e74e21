"""What is written as one statement is what would be written row by row; and the log is erased as a step."""

import asyncio
import dataclasses
import sqlite3
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meteragent.agent import runner
from meteragent.agent.store_thread import StoreThread
from meteragent.domain.codec import encode
from meteragent.domain.commit import (
    Charge,
    Commit,
    Destination,
    OpenWindow,
    Outgoing,
    ReleasedSlot,
    SealedPad,
    Slot,
    TimelineState,
)
from meteragent.domain.counters import Counts
from meteragent.domain.errors import StoreError
from meteragent.store import Store, ledger, outbox, schema
from meteragent.store.outbox import WaitingRow
from tests.support.fake_session import LIMIT_S
from tests.support.line import LENGTH_MS as SECOND_MS
from tests.support.line import Line
from tests.support.mqtt_peer import turns
from tests.support.stores import (
    DAY_MS,
    LENGTH_MS,
    TERMS,
    bytes_on_disk,
    closing,
    fresh,
    open_store,
    opening,
    sending,
    state,
)

# --- as row by row -----------------------------------------------------------------------------

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=9)
texts |= st.sampled_from(['"', "\\", "é", "\\u0000"])
meters = st.sampled_from(["m", 'm"1', "é\\", "Straße 1", "\x7f"])
sizes = st.sampled_from([1, 1, 2, 300, 900])
rows = st.builds(
    Outgoing,
    st.sampled_from(["main", "main@app.1"]),
    texts,
    st.binary(max_size=40),
    st.integers(0, 2**53),
    st.booleans(),
    st.none() | st.builds(ReleasedSlot, texts, st.integers(0, 2**53), st.integers(0, 2**53)),
    until_ms=st.none() | st.integers(0, 2**53),
)


@st.composite
def commits(draw: st.DrawFn) -> list[Commit]:
    """Windows that open one after the other, with states of all sizes, and messages of all bytes."""
    actual = []
    for k in range(draw(st.integers(1, 4))):
        commit = Commit("main", k, terms={TERMS.id: TERMS})
        for meter in draw(st.lists(meters, unique=True)):
            commit.marks[meter] = (k + 1) * LENGTH_MS
            charge = Charge(k * LENGTH_MS // DAY_MS * DAY_MS, TERMS.epsilon_per_w)
            commit.charges.setdefault(charge, Counter())[meter] = draw(st.integers(1, 3))
            commit.states[meter] = state(k, topic="t" * draw(sizes)) if draw(st.booleans()) else None
        commit.outgoing += draw(st.lists(rows, max_size=8))
        actual.append(commit)
    return actual


def row_by_row(tx: sqlite3.Connection, commit: Commit) -> None:
    """Charges, marks, states and messages of a commit, each by a statement of its own."""
    stream = commit.stream
    for (day_ms, epsilon), opened in commit.charges.items():
        tx.executemany(
            "INSERT INTO charge VALUES (?1, ?2, ?3, ?4, ?5, row_crc(?1, ?2, ?3, ?4) + ?5)"
            " ON CONFLICT (meter, day_ms, stream, epsilon)"
            " DO UPDATE SET windows = windows + excluded.windows, crc = crc + excluded.windows",
            [(meter, day_ms, stream, str(epsilon), windows) for meter, windows in opened.items()],
        )
    for meter, end_ms in commit.marks.items():
        query = "INSERT OR REPLACE INTO mark VALUES (?1, ?2, ?3, row_crc(?1, ?2) + ?3)"
        tx.execute(query, (stream, meter, end_ms))
    for meter, item in commit.states.items():
        _write_state(tx, stream, meter, schema.encode_state(item) if item else b"")
    no_slot = (None, None, None)
    for row in commit.outgoing:
        tx.execute(
            "INSERT INTO outbox (queue, due_ms, topic, payload, retain, until_ms, id_of_terms, from_ms,"
            " to_ms, crc) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9,"
            " row_crc('texttext' || typeof(?7), CAST(?1 AS BLOB), CAST(?3 AS BLOB), CAST(?7 AS BLOB),"
            " ?2, ?5, ?6, ?8, ?9, ?4) - 1)",
            (row.queue, row.due_ms, row.topic, row.payload, row.retain, row.until_ms, *(row.slot or no_slot)),
        )


def _write_state(tx: sqlite3.Connection, stream: str, meter: str, text: bytes) -> None:
    actual = "SELECT id, length(state) FROM state WHERE stream = ? AND meter = ? ORDER BY id DESC"
    id_, size = tx.execute(actual, (stream, meter)).fetchone() or (0, 0)
    if len(text) > size:
        new_size = max(512, 1 << (len(text) - 1).bit_length())
        row = (stream, meter, text.ljust(new_size, b"\0"))
        new_id = tx.execute(
            "INSERT INTO state (stream, meter, state, crc) VALUES (?, ?, ?, 0)", row
        ).lastrowid
        tx.execute("UPDATE state SET crc = row_crc(id, stream, meter, 'blob') WHERE id = ?", (new_id,))
        text = b""
    tx.execute("UPDATE state SET state = ? WHERE id = ?", (text.ljust(size, b"\0"), id_))


def content(store: Store) -> dict[str, list[Any]]:
    """All rows of the tables that commits write, with the types of their values."""
    tables = ("mark", "charge", "state", "outbox", "outbox_total", "descriptor", "sqlite_sequence")
    actual = {}
    for table in tables:
        asked = store.connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2")
        actual[table] = [tuple((type(value), value) for value in row) for row in asked]
    return actual


@pytest.mark.slow("compares whole stores")
@settings(max_examples=60)
@given(commits())
def test_one_statement_writes_what_many_do(made: list[Commit]) -> None:
    """Charges, marks, states and messages are the same rows in the same order, ids and types as well."""
    with fresh() as store, fresh() as plain:
        for commit in made:
            with store.transaction() as tx:
                ledger.debit_windows(tx, commit)
                store.write(tx, commit)
                appended = outbox.append_commit(tx, commit)
            with plain.transaction() as tx:
                row_by_row(tx, commit)
            assert content(store) == content(plain)
            last = appended[-1].id if appended else 0
            pending = [
                outbox.pending_rows(store.connection, name, 2**62, -1) for name in ("main", "main@app.1")
            ]
            waiting = {row.id: row for queue_rows in pending for row in queue_rows}
            assert appended == [waiting[id_] for id_ in range(last - len(appended) + 1, last + 1)]
            assert [row.retain for row in appended] == [row.retain for row in commit.outgoing]


windows = st.builds(
    OpenWindow,
    st.integers(),
    texts,
    st.lists(st.builds(Destination, texts, texts), max_size=3).map(tuple),
    texts,
    st.none() | st.integers(),
    st.integers(),
    st.lists(st.builds(Slot, st.integers(), st.integers()), max_size=3).map(tuple),
    st.none() | st.integers(),
    st.none() | st.builds(SealedPad, *[st.binary(max_size=40)] * 3),
)


@given(st.builds(TimelineState, windows=st.lists(windows, max_size=3).map(tuple)))
def test_a_state_is_written_as_any_json(one: TimelineState) -> None:
    """What is put together by hand is what the JSON encoder makes of the fields, with its sum."""
    whole = one._asdict() | {"windows": [window._asdict() for window in one.windows]}
    assert schema.encode_state(one) == schema.seal(encode(whole)).encode()


def test_states_lie_in_the_order_of_their_commit() -> None:
    """Meters that are written together at first lie together, in as few pages as hold them."""
    names = [f"m{k * 7 % 40}" for k in range(40)]
    with fresh() as store, store.transaction() as tx:
        commit = Commit("main", 0, terms={TERMS.id: TERMS}, marks=dict.fromkeys(names, LENGTH_MS))
        commit.states = dict.fromkeys(names, state(0))
        store.write(tx, commit)
        assert [meter for (meter,) in tx.execute("SELECT meter FROM state ORDER BY id")] == names


def test_a_name_with_a_nul_is_refused(tmp_path: Path) -> None:
    """SQLite's JSON would cut it off, and two meters would have one mark; a backslash is none of it."""
    with open_store(tmp_path / "db") as store:
        for commit in (
            opening(0, "a\0b"),
            Commit("main", 0, outgoing=[Outgoing("main", "\0", b"", 0, False)]),
        ):
            with pytest.raises(StoreError, match="NUL"), store.transaction() as tx:  # noqa: PT012 - either
                store.write(tx, commit)
                outbox.append_commit(tx, commit)
        with store.transaction() as tx:
            store.write(tx, opening(0, "a\\u0000b"))
        assert store.snapshot("main").marks == {"a\\u0000b": LENGTH_MS}


def test_what_was_rolled_back_is_forgotten(tmp_path: Path) -> None:
    """A state whose row was never written does not lead the next one to it."""
    with open_store(tmp_path / "db") as store:
        commit = opening(0, "m", "n")
        with pytest.raises(KeyError), store.transaction() as tx:  # noqa: PT012 - the body is what fails
            store.write(tx, commit)
            raise KeyError
        for k in range(2):
            with store.transaction() as tx:
                store.write(tx, opening(k, "n", topic="t" * (1 + 900 * k)))
        assert store.snapshot("main").states == {"n": state(1, topic="t" * 901)}
    with open_store(tmp_path / "db") as store:
        with store.transaction() as tx:
            store.write(tx, closing(1, "n"))
        assert store.snapshot("main").states["n"].windows == ()


def test_a_state_is_written_after_its_first_writing_was_rolled_back(tmp_path: Path) -> None:
    """What the store knows of the file's rows is forgotten with them; a state alone finds its row again."""
    commit = dataclasses.replace(opening(0, "m"), states={"m": state(0)})
    with open_store(tmp_path / "db") as store:
        with pytest.raises(KeyError), store.transaction() as tx:  # noqa: PT012 - the body is what fails
            store.write(tx, commit)
            raise KeyError
        with store.transaction() as tx:
            store.write(tx, commit)
        assert store.snapshot("main").states == {"m": state(0)}


# --- erased as a step of its own ---------------------------------------------------------------

SECRET = 7**60


def write(store: Store, commit: Commit) -> None:
    """A commit as the agent writes it, before it is erased."""
    with store.unerased_transaction() as tx:
        store.write(tx, commit)
        outbox.append_commit(tx, commit)


def test_nothing_is_written_before_the_last_commit_is_erased(tmp_path: Path) -> None:
    """Between a commit and its erasing two values of an accumulator are on disk; never three."""
    values = [SECRET + k for k in range(4)]
    with open_store(tmp_path / "db") as store:
        for k, value in enumerate(values):
            write(store, Commit("main", 0, states={"m": TimelineState(value, None, None, 0, 0, ())}))
            actual = [item for item in values if b"%d" % item in bytes_on_disk(store.path)]
            assert actual == values[max(k - 1, 0) : k + 1]
        store.erase_log()
        assert b"%d" % values[-2] not in bytes_on_disk(store.path)
        assert store.is_erased


def test_an_erasing_that_fails_is_the_end(tmp_path: Path) -> None:
    """After it nothing is written, since what the files hold is unknown; what was committed is there."""
    with open_store(tmp_path / "db") as store:
        write(store, opening(0, "m"))
        store.connection.set_progress_handler(lambda: 1, 1)
        with pytest.raises(StoreError, match="interrupted"):
            store.erase_log()
        store.connection.set_progress_handler(None, 0)
        with pytest.raises(StoreError, match="earlier transaction"):
            write(store, opening(1, "m"))
        assert store.snapshot("main").marks == {"m": LENGTH_MS}


async def test_what_may_leave_does_not_wait_for_the_erasing(tmp_path: Path) -> None:
    """`persist` returns rows that are on disk; the erasing follows before anything else is written."""
    with open_store(tmp_path / "db") as store:
        thread = StoreThread(store, DAY_MS, 2**20, {"main"}, Counts())
        write, erase, gate, steps = store.write, store.erase_log, threading.Event(), list[str]()

        def writes(tx: sqlite3.Connection, commit: Commit) -> None:
            steps.append("written")
            write(tx, commit)

        def slowly() -> None:
            gate.wait(LIMIT_S)
            steps.append("erased")
            erase()

        store.write, store.erase_log = writes, slowly  # type: ignore[method-assign]
        commit = opening(0, "m")
        commit.outgoing += sending(5).outgoing
        [row] = await thread.persist(commit, [], None)
        assert row == WaitingRow(1, 5, "main", "private/m", b"record", False)
        assert steps == ["written"]
        second = asyncio.ensure_future(thread.persist(opening(1, "m"), [1], None))
        await turns(1)
        gate.set()
        await second
        await thread.wait_until_erased()
        assert steps[:3] == ["written", "erased", "written"]
        store.erase_log = erase  # type: ignore[method-assign]
        thread._generation_thread.shutdown()
        thread._thread.shutdown()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock is looked at every 2 ms: it is a test's, and shows nothing by itself."""
    monkeypatch.setattr(runner, "POLL_S", 0.002)


@pytest.mark.usefixtures("impatient")
async def test_an_erasing_that_fails_ends_the_runner(tmp_path: Path) -> None:
    """The runner raises at its next turn, though nothing else is to be written."""
    with open_store(tmp_path / "db") as store:
        line = Line(store)

        def fails() -> None:
            raise StoreError("no")

        store.erase_log = fails  # type: ignore[method-assign]
        async with line.running() as task:
            line.send(100)
            await asyncio.wait({task}, timeout=LIMIT_S)
            assert isinstance(task.exception(), StoreError)
        del store.erase_log


async def test_an_erasing_that_fails_at_the_end_is_told(tmp_path: Path) -> None:
    """A stop whose last commit could not be erased is not orderly, but the store is closed."""
    store = open_store(tmp_path / "db")
    thread = StoreThread(store, DAY_MS, 2**20, {"main"}, Counts())
    erase = store.erase_log

    def fails() -> None:
        store.connection.set_progress_handler(lambda: 1, 1)
        erase()

    store.erase_log = fails  # type: ignore[method-assign]
    await thread.persist(opening(0, "m"), [], None)
    with pytest.raises(StoreError, match="interrupted"):
        await thread.close()
    with open_store(tmp_path / "db") as second:
        assert second.snapshot("main").marks == {"m": LENGTH_MS}


# --- whether there is room ---------------------------------------------------------------------


async def test_there_is_room_until_what_waits_and_is_on_its_way_fills_it(tmp_path: Path) -> None:
    """What is being written counts as written; what is known of the rest is the store's own total."""
    row = 64 + len("private/m") + len(b"record")
    with open_store(tmp_path / "db") as store:
        thread = StoreThread(store, DAY_MS, 3 * row, {"main"}, Counts())
        assert await thread.has_space()
        for due_ms, room in ((1, True), (2, True), (3, False)):
            writing = asyncio.ensure_future(thread.persist(sending(due_ms), [], None))
            await turns(1)
            assert await thread.has_space() is room
            await writing
            assert await thread.has_space() is room
        await thread.persist(Commit("main", 0), [2], None)
        assert await thread.has_space()
        assert outbox.total_bytes(store.connection) == 2 * row  # what had left has made room
        thread._generation_thread.shutdown()
        thread._thread.shutdown()


@pytest.mark.usefixtures("impatient")
async def test_a_long_look_at_the_store_is_not_needed_for_each_turn(tmp_path: Path) -> None:
    """While there is much room the runner asks the store's thread once, at its first turn."""
    with open_store(tmp_path / "db") as store:
        line, asked = Line(store), list[str]()
        call = line.store.call

        async def counted(function: Any, *arguments: Any) -> Any:
            asked.append(function.__name__)
            return await call(function, *arguments)

        line.store.call = counted  # type: ignore[method-assign]
        async with line.running():
            line.send(100)
            await line.pass_to(line.now_ms + 5 * SECOND_MS)
        assert len(line.store.commits) > 2
        assert asked.count("make_room") == 1
        assert line.store._writing_bytes == 0
