"""The store at work: transactions, marks, states, and what must not stay on the disk."""

import dataclasses
import random
import re
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent.domain.codec import encode
from meteragent.domain.commit import Commit, Destination, OpenWindow, Slot, TimelineState
from meteragent.domain.errors import StoreError
from meteragent.domain.terms import Terms
from meteragent.store import Store, commands, ledger, outbox, read_only, schema
from simulators.simtest.store.disk import write_files
from tests.domain.test_codec import all_terms
from tests.support.stores import (
    LENGTH_MS,
    TERMS,
    bytes_on_disk,
    closing,
    fresh,
    open_store,
    opening,
    persist,
    sending,
    state,
)

numbers = st.integers(-(2**53), 2**53)
texts = st.text(st.characters(codec="utf-8"), max_size=20)
accumulators = st.integers(-(10**400), 10**400)
states = st.builds(
    TimelineState,
    integrated_until_ms=numbers,
    standing_ms=st.none() | numbers,
    newest_ms=st.none() | numbers,
    next_ms=numbers,
    idle_windows=st.integers(0, 1000),
    windows=st.lists(
        st.builds(
            OpenWindow,
            start_ms=numbers,
            terms_id=texts,
            destinations=st.lists(st.builds(Destination, texts, texts), max_size=3).map(tuple),
            public_id=texts,
            noise_bound=st.none() | st.integers(0, 10**400),
            draws=st.integers(0, 1440),
            slots=st.lists(st.builds(Slot, st.integers(0, 1439), accumulators), max_size=3).map(tuple),
            masked_slot=st.none() | st.integers(0, 1439),
        ),
        max_size=3,
    ).map(tuple),
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A new store, open."""
    with open_store(tmp_path / "db") as store:
        yield store


def pragma(store: Store, name: str) -> object:
    """What the live connection says."""
    return store.connection.execute(f"PRAGMA {name}").fetchone()[0]


def test_pragmas(tmp_path: Path) -> None:
    """A new store and one opened again write ahead, sync at every commit, zero what they delete."""
    for _ in range(2):
        with open_store(tmp_path / "db") as store:
            assert pragma(store, "journal_mode") == "wal"
            assert pragma(store, "synchronous") == 2
            assert pragma(store, "secure_delete") == 1
            assert pragma(store, "temp_store") == 2


# --- what is written is what is read -----------------------------------------------------------


@given(states)
def test_states_return(value: TimelineState) -> None:
    """A state comes back exactly, with integers of any size, whatever zero bytes follow it."""
    assert schema.decode_state(schema.encode_state(value) + b"\0" * 7) == value


@given(all_terms)
def test_terms_return(value: Terms) -> None:
    """Terms come back exactly: fractions as fractions, kinds as kinds."""
    assert schema.decode_terms(encode(value)) == value


@pytest.mark.parametrize(
    "text", [b"987654321 {", b"[987654321]", b'{"windows": [987654321]}', b"\xff987654321"]
)
def test_error_of_a_state_holds_nothing_of_it(text: bytes) -> None:
    """The error of a state that is not readable, and what it chains, hold nothing of the state."""
    with pytest.raises(StoreError) as caught:
        schema.decode_state(text)
    assert "987654321" not in repr(caught.value)
    assert caught.value.__suppress_context__


def test_snapshot_after_a_restart(tmp_path: Path) -> None:
    """A restart finds the marks, states, terms and descriptors of a channel, and only of that one."""
    with open_store(tmp_path / "db") as store:
        persist(store, opening(0, "a", "b"))
        persist(store, opening(4, "a", stream="other", noise_bound=99))
        persist(store, opening(1, "a"))
    with open_store(tmp_path / "db") as store:
        known = store.snapshot("main")
        assert known.marks == {"a": 2 * LENGTH_MS, "b": LENGTH_MS}
        assert known.states == {"a": state(1), "b": state(0)}
        assert known.terms == {TERMS.id: TERMS}
        assert known.floor_ms == 0
        assert store.snapshot("other").states == {"a": state(4, noise_bound=99)}


def test_forgotten_meter(store: Store) -> None:
    """A state of None deletes the state and leaves the mark; the meter may come back."""
    persist(store, opening(0, "m"))
    persist(store, Commit("main", 0, states={"m": None}))
    assert store.snapshot("main").states == {}
    assert store.snapshot("main").marks == {"m": LENGTH_MS}
    persist(store, opening(1, "m"))
    assert store.snapshot("main").states == {"m": state(1)}


def test_retired_streams(store: Store) -> None:
    """The open windows of streams that are no longer configured are deleted and counted once."""
    persist(store, opening(0, "a", "b", noise_bound=8**40))
    persist(store, opening(0, "a", stream="other"))
    assert store.blank_other_states({"other"}) == 2
    assert store.blank_other_states({"other"}) == 0
    assert store.snapshot("main").states == {}
    assert store.snapshot("main").marks == {"a": LENGTH_MS, "b": LENGTH_MS}
    assert store.snapshot("other").states == {"a": state(0)}
    assert b"%d" % 8**40 not in bytes_on_disk(store.path)


def test_identity(tmp_path: Path) -> None:
    """The client id and the secret are drawn once and belong to one store."""
    with open_store(tmp_path / "db") as store:
        drawn = store.client_id, store.secret
    with open_store(tmp_path / "db") as store, open_store(tmp_path / "another") as another:
        assert (store.client_id, store.secret) == drawn
        assert len(store.secret) == 32
        assert another.client_id != store.client_id
        assert another.secret != store.secret


@given(st.lists(st.integers(0, 2**45), min_size=1))
def test_clock(clocks_ms: list[int]) -> None:
    """The clock of the store is the newest that was ever committed."""
    with fresh() as store:
        for clock_ms in clocks_ms:
            persist(store, Commit("main", clock_ms))
        assert store.clock_ms == max(clocks_ms)


# --- transactions ------------------------------------------------------------------------------


def test_all_or_nothing(store: Store) -> None:
    """What a transaction wrote before its body raised is not there, and the store goes on."""
    both = dataclasses.replace(opening(0, "m"), outgoing=sending(0).outgoing)
    with pytest.raises(KeyError), store.transaction() as tx:  # noqa: PT012 - the body is what fails
        ledger.debit_windows(tx, both)
        store.write(tx, both)
        outbox.append_commit(tx, both)
        raise KeyError
    assert store.snapshot("main").marks == {}
    assert list(commands.day_charges(store.connection)) == []
    assert outbox.queue_depth(store.connection, "main") == 0
    persist(store, opening(0, "m"))
    assert store.snapshot("main").marks == {"m": LENGTH_MS}


def test_full_disk(tmp_path: Path) -> None:
    """After an error of the device nothing more is written until the store is opened again."""
    with open_store(tmp_path / "db") as store:
        persist(store, opening(0, "m"))
        store.connection.execute(f"PRAGMA max_page_count = {pragma(store, 'page_count')}")
        with pytest.raises(StoreError, match="full"):
            persist(store, sending(*range(1000)))
        store.connection.execute("PRAGMA max_page_count = 1000000")
        with pytest.raises(StoreError, match="earlier"):
            persist(store, opening(1, "m"))
    with open_store(store.path) as second:
        assert second.snapshot("main").marks == {"m": LENGTH_MS}
        assert outbox.queue_depth(second.connection, "main") == 0
        persist(second, opening(1, "m"))


# --- law 1 -------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 9), st.booleans())))
def test_marks_are_never_lowered(asked: list[tuple[str, int, bool]]) -> None:
    """A window opens only at or after its meter's mark, and a mark is the highest end accepted."""
    marks = {"a": 0, "b": 0}
    with fresh() as store:
        for meter, k, passes in asked:
            commit = opening(k, meter)
            if passes:
                commit = Commit("main", 0, marks=commit.marks)
            may = marks[meter] <= (k + 1 if passes else k) * LENGTH_MS
            with nullcontext() if may else pytest.raises(StoreError):
                persist(store, commit)
            marks[meter] = max(marks[meter], (k + 1) * LENGTH_MS) if may else marks[meter]
            assert store.snapshot("main").marks.get(meter, 0) == marks[meter]


def wrong(**changes: object) -> Commit:
    """A commit that opens window 1, with something wrong."""
    return dataclasses.replace(opening(1, "m"), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "commit",
    [
        wrong(marks={"m": LENGTH_MS - 1}),
        wrong(marks={}),
        wrong(marks={"m": LENGTH_MS}),
        wrong(states={"m": state(0)._replace(windows=(state(0).windows[0]._replace(start_ms=1),))}),
        wrong(states={"m": state(2)}),
        wrong(states={"m": state(1)._replace(windows=(state(1).windows[0]._replace(terms_id="?"),))}),
        wrong(marks={}, states={"m": state(1)}, charges={}),
        wrong(marks={}, states={}),
    ],
    ids=[
        "lowered",
        "no mark",
        "not raised",
        "straddles",
        "beyond",
        "unknown terms",
        "not charged",
        "only charged",
    ],
)
def test_openings_that_are_refused(store: Store, commit: Commit) -> None:
    """A window must start at or after its meter's mark and end at or before the new one."""
    persist(store, opening(0, "m"))
    with pytest.raises(StoreError):
        persist(store, commit)
    assert store.snapshot("main").states == {"m": state(0)}
    assert store.snapshot("main").marks == {"m": LENGTH_MS}
    persist(store, opening(1, "m"))


def test_passed_window(store: Store) -> None:
    """A window that passes for want of budget raises the mark without a charge."""
    persist(store, Commit("main", 0, marks={"m": LENGTH_MS}))
    with pytest.raises(StoreError):
        persist(store, opening(0, "m"))
    persist(store, opening(1, "m"))


def test_nothing_opens_before_the_floor(tmp_path: Path) -> None:
    """In a store that replaces a lost one no window opens before the floor."""
    open_store(tmp_path / "db").close()
    (tmp_path / "db").unlink()
    with open_store(tmp_path / "db", floor_ms=2 * LENGTH_MS) as store:
        with pytest.raises(StoreError):
            persist(store, opening(1, "m"))
        persist(store, opening(2, "m"))


# --- law 3: what must not stay on the disk -----------------------------------------------------

SECRETS = [b"%d" % value for value in (7**60, 11**60, 13**60, 17**60)]


def test_closed_window_leaves_nothing(store: Store) -> None:
    """Once a window is closed, R and accumulators are in no file of the store, which is still open."""
    persist(store, opening(0, "m", noise_bound=7**60, accumulators=[11**60, -(13**60)], topic="x" * 5000))
    assert all(secret in bytes_on_disk(store.path) for secret in SECRETS[:3])
    persist(store, closing(0, "m"))
    assert not any(secret in bytes_on_disk(store.path) for secret in SECRETS)


def test_open_window_has_no_history(store: Store) -> None:
    """Of an accumulator that is overwritten only the newest value is in the files of the store."""
    for value in (7**60, 11**60, 13**60, 17**60):
        persist(store, Commit("main", 0, states={"m": TimelineState(value, None, None, 0, 0, ())}))
        actual = [secret for secret in SECRETS if secret in bytes_on_disk(store.path)]
        assert actual == [b"%d" % value]


def changes(rounds: int) -> Iterator[tuple[Commit, dict[str, bytes]]]:
    """Commits in which states of all sizes grow, shrink, come and go; and a mark of each that is there."""
    seed, newest = random.Random(5), dict[str, bytes]()
    for count in range(rounds):
        commit = Commit("main", 0, terms={TERMS.id: TERMS})
        for meter in seed.sample(range(300), seed.randint(1, 40)):
            tag = f"<{count:05d}:{meter:03d}>"
            stays = seed.random() < 0.85
            size = seed.choice([1, 1, 2, 10, 30, 60, 60, 400])
            commit.states[f"m{meter}"] = state(-1, topic=tag * size) if stays else None
            newest[f"m{meter}"] = tag.encode() if stays else b""
        yield commit, newest


def test_rows_of_states_never_move(store: Store) -> None:
    """A row of a state keeps its size and is never deleted: SQLite leaves copies of what it moves."""
    store.connection.executescript("""
        CREATE TEMP TRIGGER moves BEFORE UPDATE ON state WHEN length(new.state) <> length(old.state)
        BEGIN SELECT raise(ABORT, 'a row of state moves'); END;
        CREATE TEMP TRIGGER goes BEFORE DELETE ON state
        BEGIN SELECT raise(ABORT, 'a row of state is deleted'); END;
    """)
    for commit, _ in changes(30):
        persist(store, commit)


@pytest.mark.slow("reads the file after hundreds of commits")
def test_states_leave_no_copies() -> None:
    """However states grow, shrink, come and go, the files hold the newest of each and nothing else."""
    with fresh() as store:
        for count, (commit, newest) in enumerate(changes(300)):
            persist(store, commit)
            if count % 10 == 0:
                actual = set(re.findall(rb"<\d{5}:\d{3}>", bytes_on_disk(store.path)))
                assert actual == set(newest.values()) - {b""}


def test_reader_delays_erasing(store: Store) -> None:
    """While another reader keeps old values on the disk the store says so; then they go."""
    with read_only(store.path) as reader:
        persist(store, opening(0, "m", noise_bound=7**60))
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM meta").fetchall()
        persist(store, closing(0, "m"))
        assert not store.is_erased
        assert SECRETS[0] in bytes_on_disk(store.path)
        reader.execute("COMMIT")
        persist(store, sending(0))
        assert store.is_erased
        assert SECRETS[0] not in bytes_on_disk(store.path)


def test_no_secrets_after_a_kill(tmp_path: Path, store: Store) -> None:
    """What a killed agent left in the WAL is moved and erased by the next start."""
    with read_only(store.path) as reader:
        persist(store, opening(0, "m", noise_bound=7**60))
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM meta").fetchall()
        persist(store, closing(0, "m"))
    assert not store.is_erased
    write_files(
        {name: (tmp_path / name).read_bytes() for name in ("db", "db-wal", "db.gen")}, tmp_path / "killed"
    )
    with open_store(tmp_path / "killed" / "db") as second:
        assert SECRETS[0] not in bytes_on_disk(second.path)
