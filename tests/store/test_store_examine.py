"""What is looked at before a store is used: one that the agent cannot have written is set aside."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from meteragent.domain.shape import Band
from meteragent.store import ledger, restore_at, schema
from tests.support.stores import LENGTH_MS, TERMS, open_store, opening, persist, sending

DAMAGES = {
    "a single value is missing": "DELETE FROM meta WHERE key = 'client_id'",
    "a single value is of another kind": "UPDATE meta SET value = 5 WHERE key = 'client_id'",
    "a mark is a text": "UPDATE mark SET end_ms = 'soon'",
    "a mark's meter is no UTF-8": "UPDATE mark SET meter = CAST(x'ff' AS TEXT) WHERE meter = 'a'",
    "a message is a text": "UPDATE outbox SET payload = 'record'",
    "a charge is nothing": "UPDATE charge SET epsilon = '0'",
    "a charge is no number": "UPDATE charge SET epsilon = '1/0'",
    "a charge is endless": f"UPDATE charge SET epsilon = '{'9' * 5000}'",
    "terms are not there": "DELETE FROM terms",
    "terms are unreadable": "UPDATE terms SET terms = '{}'",
    "a state is a text": "UPDATE state SET state = 'text'",
    "a mark is before the end of an open window": f"UPDATE mark SET end_ms = {LENGTH_MS - 1}",
    "an open window has no mark": "DELETE FROM mark",
}


def stored(path: Path) -> Path:
    """A store with an open window, its charge, and rows that wait."""
    with open_store(path) as store:
        persist(store, opening(0, "a", "b"))
        persist(store, sending(5, 6))
    return path


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_what_cannot_have_been_written_is_set_aside(tmp_path: Path, damage: str) -> None:
    """The new store opens nothing before its floor, and does not know what was charged before now."""
    path = stored(tmp_path / "db")
    with closing(sqlite3.connect(path)) as connection, connection:
        assert connection.execute(damage).rowcount >= 1
    with open_store(path, now_ms=77, floor_ms=3 * LENGTH_MS) as store:
        assert store.set_aside
        assert store.snapshot("main").marks == {}
        assert ledger.unknown_before_ms(store.connection) == 77


def test_terms_that_make_no_sense_are_set_aside(tmp_path: Path) -> None:
    """They are read, with their sum, and are those of no stream."""
    path = stored(tmp_path / "db")
    odd = schema.encode_terms(replace(TERMS, bands=(Band("a", ()),), step_ms=-1))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE terms SET terms = ?", (odd,))
    with open_store(path, now_ms=77) as store:
        assert store.set_aside


def test_what_was_written_is_kept(tmp_path: Path) -> None:
    """The same store without damage opens as it was."""
    path = stored(tmp_path / "db")
    with open_store(path, now_ms=77, floor_ms=3 * LENGTH_MS) as store:
        assert not store.set_aside
        assert store.snapshot("main").marks == {"a": LENGTH_MS, "b": LENGTH_MS}
        assert ledger.unknown_before_ms(store.connection) is None


@pytest.mark.parametrize(("take_over", "until_ms"), [(True, 5 * LENGTH_MS), (False, 0)])
def test_a_store_has_taken_over_until_it_was_told(tmp_path: Path, take_over: bool, until_ms: int) -> None:
    """Never at first; what others announced before the time of `restore_at` is its own, if it takes over."""
    path = stored(tmp_path / "db")
    with open_store(path) as store:
        assert ledger.taken_over_ms(store.connection) == 0
    restore_at(path, at_ms=5 * LENGTH_MS, now_ms=77, take_over=take_over)
    with open_store(path, now_ms=77) as store:
        assert ledger.taken_over_ms(store.connection) == until_ms
        assert store.snapshot("main").marks == {"a": 5 * LENGTH_MS, "b": 5 * LENGTH_MS}
