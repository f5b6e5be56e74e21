"""What is looked at before a store is used: one that the agent cannot have written is set aside."""

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from meteragent.domain.codec import encode
from meteragent.domain.commit import Commit, Outgoing, ReleasedSlot
from meteragent.domain.errors import StoreError
from meteragent.domain.grid import Band
from meteragent.store import commands, file, grants, ledger, outbox, restore_at, transaction
from tests.support.stores import LENGTH_MS, TERMS, altering, open_store, opening, persist, sending
from tests.support.terms import in_bands

DAMAGES = {
    "a single value is missing": "DELETE FROM meta WHERE key = 'client_id'",
    "a single value is of another kind": "UPDATE meta SET value = 5 WHERE key = 'client_id'",
    "a mark is a text": "UPDATE mark SET end_ms = 'soon'",
    "a mark's meter is no UTF-8": "UPDATE mark SET meter = CAST(x'ff' AS TEXT) WHERE meter = 'a'",
    "a mark has another value": "UPDATE mark SET end_ms = end_ms + 1",
    "a mark is of another meter": "UPDATE mark SET meter = 'A' WHERE meter = 'a'",
    "a charge counts more": "UPDATE charge SET windows = windows + 1",
    "a charge has another epsilon": "UPDATE charge SET epsilon = '1/21'",
    "a charge is nothing": "UPDATE charge SET epsilon = '0'",
    "a charge is no number": "UPDATE charge SET epsilon = '1/0'",
    "a charge is endless": f"UPDATE charge SET epsilon = '{'9' * 5000}'",
    "terms are not there": "DELETE FROM terms",
    "terms are unreadable": "UPDATE terms SET terms = '{}'",
    "a state is a text": "UPDATE state SET state = 'text'",
    "a mark is before the end of an open window": f"UPDATE mark SET end_ms = {LENGTH_MS - 1}",
    "an open window has no mark": "DELETE FROM mark",
}

DAMAGES_OF_RECEIVERS = {
    "a receiver's name is no text": "UPDATE receiver SET name = x'00'",
    "a receiver's first window is a text": "UPDATE receiver SET since_ms = 'soon'",
    "a receiver's end is a text": "UPDATE receiver SET until_ms = 'never'",
    "a receiver was revoked at no time": "UPDATE receiver SET revoked_ms = 'then', reason = 'removed'",
    "a receiver was revoked for no reason": "UPDATE receiver SET revoked_ms = 5",
    "a receiver's broker is no JSON": "UPDATE receiver SET link = 'mqtt://a'",
    "a receiver's broker is a list": "UPDATE receiver SET link = '[]'",
    "a receiver's broker has no address": "UPDATE receiver SET link = '{}'",
    "a topic to withdraw is no text": "UPDATE announced SET topic = x'00' WHERE topic LIKE '%d1'",
    "a count for the receipt is a text": "UPDATE sent SET records = 'many'",
    "the terms in a receipt are no UTF-8": "UPDATE sent SET id = CAST(x'ff' AS TEXT)",
}


def stored_with_receiver(path: Path) -> Path:
    """Write a store with a receiver that has confirmed one record while another waits; return its path."""
    link = json.dumps({"url": "mqtt://a"})
    receiver = grants.WantedGrant("main-day", "app", "app/{meter}", link, 0, None)
    with open_store(path) as store:
        grants.replace_grants(store, [receiver], {}, 0)
        for k, delivered in ((1, ()), (2, (1, 2, 3))):
            commit = Commit("main-day", (k + 1) * LENGTH_MS)
            queue = "main-day@app.1"
            slot = ReleasedSlot("d1", k * LENGTH_MS, (k + 1) * LENGTH_MS)
            terms = [Outgoing(queue, f"app/m1/privacy{below}", b"terms", 0, True) for below in ("", "/d1")]
            commit.outgoing = [*terms, Outgoing(queue, "app/m1", b"record", 0, False, slot)]
            transaction.commit(store, commit, delivered, None, 10 * LENGTH_MS)
            store.erase_log()
    return path


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
    with altering(path) as connection:
        assert connection.execute(damage).rowcount >= 1
    with open_store(path, now_ms=77, floor_ms=3 * LENGTH_MS) as store:
        assert store.damage
        assert store.snapshot("main").marks == {}
        assert ledger.unknown_before_ms(store.connection) == 77


@pytest.mark.parametrize("damage", DAMAGES_OF_RECEIVERS.values(), ids=DAMAGES_OF_RECEIVERS)
def test_receivers_that_cannot_have_been_written_are_set_aside(tmp_path: Path, damage: str) -> None:
    """The tables of receivers, of descriptors to withdraw and of receipts are examined as the others are."""
    path = stored_with_receiver(tmp_path / "db")
    with altering(path) as connection:
        assert connection.execute(damage).rowcount >= 1
    with open_store(path, now_ms=77) as store:
        assert store.damage
        assert grants.active_grants(store.connection) == []


DAMAGES_OF_MESSAGES = {
    "is a text": "UPDATE outbox SET payload = 'record'",
    "is a number": "UPDATE outbox SET payload = 7",
    "has another number": "UPDATE outbox SET payload = x'35'",
    "is due at another time": "UPDATE outbox SET due_ms = due_ms + 1",
    "is for another topic": "UPDATE outbox SET topic = 'elsewhere'",
    "has a topic that is no text": "UPDATE outbox SET topic = CAST(x'6dff' AS TEXT)",
    "is for another receiver": "UPDATE outbox SET queue = 'other'",
    "has a slot that is a text": "UPDATE outbox SET to_ms = 'late'",
}


@pytest.mark.parametrize("damage", DAMAGES_OF_MESSAGES.values(), ids=DAMAGES_OF_MESSAGES)
def test_a_damaged_message_is_held_back_alone(tmp_path: Path, damage: str) -> None:
    """It is named, and neither sent nor exported; all other messages are as they were."""
    path = stored(tmp_path / "db")
    with open_store(path) as store:
        first, *others = outbox.pending_rows(store.connection, "main", 10**15, 99)
    with altering(path) as connection:
        assert connection.execute(f"{damage} WHERE id = {first.id}").rowcount == 1
    with open_store(path) as store:
        assert not store.damage
        [name] = outbox.hold_damaged(store)
        assert ", " in name
        assert outbox.hold_damaged(store) == []
        assert outbox.pending_rows(store.connection, "main", 10**15, 99) == others
        assert outbox.queue_depth(store.connection, "main") == len(others)
        assert outbox.queue_depth(store.connection, "other") == 0
        with store.transaction() as tx:
            outbox.mark_delivered(tx, [row.id for row in others], 5)
        assert outbox.queue_depth(store.connection, "main") == 0
        assert [row.payload for row in commands.delivered_rows(store.connection)] == [
            row.payload for row in others
        ]


def test_a_delivered_message_that_is_damaged_is_not_exported(tmp_path: Path) -> None:
    """All others are, and then its topic is named."""
    path = stored(tmp_path / "db")
    with open_store(path) as store:
        rows = outbox.pending_rows(store.connection, "main", 10**15, 99)
        with store.transaction() as tx:
            outbox.mark_delivered(tx, [row.id for row in rows], 5)
            tx.execute("UPDATE outbox SET payload = x'35' WHERE id = ?", (rows[0].id,))
        exported = commands.delivered_rows(store.connection)
        assert [next(exported).payload for _ in rows[1:]] == [row.payload for row in rows[1:]]
        with pytest.raises(StoreError, match=f"1 damaged messages are left out: main, {rows[0].topic}"):
            next(exported)


def test_receivers_that_were_written_are_kept(tmp_path: Path) -> None:
    """The same store without damage opens as it was, before and after the receiver is revoked."""
    path = stored_with_receiver(tmp_path / "db")
    with open_store(path) as store:
        assert not store.damage
        assert [grant.name for grant in grants.active_grants(store.connection)] == ["app"]
        grants.replace_grants(store, [], {}, 5 * LENGTH_MS)
    with open_store(path) as store:
        assert not store.damage
        [receipt] = grants.due_receipts(store.connection)
        assert (receipt.reason, receipt.discarded_count) == ("removed", 3)
        assert [sent.records for sent in receipt.rows] == [1]


def test_terms_that_make_no_sense_are_set_aside(tmp_path: Path) -> None:
    """They are read, with their sum, and are those of no stream."""
    path = stored(tmp_path / "db")
    odd = encode(replace(in_bands(TERMS, (Band("a", ()),)), quantum_u=-1))
    with closing(file.open_file(path, "rw")) as connection:
        connection.execute("UPDATE terms SET terms = ?", (odd,))
    with open_store(path, now_ms=77) as store:
        assert store.damage


def test_what_was_written_is_kept(tmp_path: Path) -> None:
    """The same store without damage opens as it was."""
    path = stored(tmp_path / "db")
    with open_store(path, now_ms=77, floor_ms=3 * LENGTH_MS) as store:
        assert not store.damage
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
