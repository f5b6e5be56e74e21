"""Receivers of a stream: each gets what it may have, and nothing once revoked."""

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from meteragent.domain.commit import Commit, Descriptor, Outgoing, ReleasedSlot
from meteragent.domain.errors import StoreError
from meteragent.store import Store, grants, outbox, transaction
from meteragent.store.grants import Action, Sent, WantedGrant
from tests.support.stores import LENGTH_MS, open_store

EVER_MS = 2**62
KEEP_MS = 10 * LENGTH_MS


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A new store, open."""
    with open_store(tmp_path / "db") as store:
        yield store


def wanted(name: str, *, url: str = "mqtt://a", from_ms: int = 0, until_ms: int | None = None) -> WantedGrant:
    """Return a receiver of the stream."""
    link = json.dumps({"url": url})
    return WantedGrant("main-day", name, f"{name}/{{meter}}/power", link, from_ms, until_ms)


def settle(store: Store, *receivers: WantedGrant, now_ms: int = 0) -> dict[str, grants.Grant]:
    """Admit exactly these receivers; return all grants by the receiver's name."""
    grants.replace_grants(store, receivers, {}, now_ms)
    return {grant.name: grant for grant in grants.active_grants(store.connection)}


def released(k: int, *held: grants.Grant, payload: bytes = b"record") -> Commit:
    """Return a commit in which a meter's k-th window announces its terms, and is released, to receivers."""
    start_ms, end_ms = k * LENGTH_MS, (k + 1) * LENGTH_MS
    commit = Commit("main-day", end_ms)
    for grant in held:
        queue, topic = grant.receiver.destination("m1")
        commit.outgoing += [
            Outgoing(queue, f"{topic}/privacy", b"terms", start_ms, True),
            Outgoing(queue, f"{topic}/privacy/d1", b"terms", start_ms, True),
            Outgoing(queue, topic, payload, end_ms, False, ReleasedSlot("d1", start_ms, end_ms)),
        ]
        commit.descriptors.append(Descriptor(queue, topic, "d1", b"terms"))
    return commit


def persist(store: Store, commit: Commit, delivered: list[int] | None = None) -> list[outbox.WaitingRow]:
    """Write a commit; return its rows."""
    rows = transaction.commit(store, commit, delivered or [], None, KEEP_MS).rows
    store.erase_log()
    return rows


def waiting(store: Store, grant: grants.Grant) -> list[tuple[str, bytes]]:
    """Return topic and payload of what waits for a receiver."""
    rows = outbox.pending_rows(store.connection, grant.queue, EVER_MS, 1000)
    return [(row.topic, row.payload) for row in rows]


def test_a_row_belongs_to_its_receiver(store: Store) -> None:
    """It is in the receiver's queue, on the receiver's topic, and so is the latest descriptor."""
    held = settle(store, wanted("a"), wanted("b"))
    rows = persist(store, released(1, *held.values()))
    assert {row.queue for row in rows} == {grant.queue for grant in held.values()}
    for name, grant in held.items():
        topics = f"{name}/m1/power/privacy", f"{name}/m1/power/privacy/d1", f"{name}/m1/power"
        assert waiting(store, grant) == list(zip(topics, (b"terms", b"terms", b"record"), strict=True))
        latest = outbox.latest_descriptors(store.connection, grant.queue)
        assert latest == [Descriptor(grant.queue, f"{name}/m1/power", "d1", b"terms")]
    announced = {(grant.queue, f"{name}/m1/power"): "d1" for name, grant in held.items()}
    assert store.snapshot("main-day").announced == announced
    assert store.snapshot("main").announced == {}


def test_the_transaction_refuses_what_a_receiver_may_not_have(store: Store) -> None:
    """Independently of the core: a slot before its start or after its end, another stream's, a revoked one's.

    Nothing is written then.
    """
    early = wanted("early", until_ms=3 * LENGTH_MS)
    late = wanted("late", from_ms=2 * LENGTH_MS)
    held = settle(store, early, late, now_ms=LENGTH_MS - 1)
    for k, name in ((1, "early"), (2, "early"), (2, "late"), (3, "late")):
        persist(store, released(k, held[name], payload=b"%d" % k))
    values = {name: [p for _, p in waiting(store, held[name]) if p != b"terms"] for name in held}
    assert values == {"early": [b"1", b"2"], "late": [b"2", b"3"]}
    settle(store, early, now_ms=4 * LENGTH_MS)
    for commit in (
        released(0, held["early"]),
        released(3, held["early"]),
        replace(released(1, held["early"]), stream="main-bill"),
        released(5, held["late"]),
    ):
        with pytest.raises(StoreError, match="a receiver that may not have it"):
            persist(store, commit)
    assert [p for _, p in waiting(store, held["early"]) if p != b"terms"] == [b"1", b"2"]


def test_revoking_deletes_what_waits_and_withdraws_what_is_retained(store: Store) -> None:
    """In one transaction; the others keep theirs."""
    held = settle(store, wanted("a"), wanted("b"))
    persist(store, released(1, *held.values()))
    kept = waiting(store, held["b"])
    settle(store, wanted("b"), now_ms=2 * LENGTH_MS)
    empty = [("a/m1/power/privacy", b""), ("a/m1/power/privacy/d1", b"")]
    assert waiting(store, held["a"]) == empty
    assert outbox.queue_depth(store.connection, held["a"].queue) == 2
    assert outbox.latest_descriptors(store.connection, held["a"].queue) == []
    assert grants.grants_to_withdraw(store.connection) == [held["a"]]
    persist(store, released(2, held["b"]))
    assert waiting(store, held["a"]) == empty
    assert waiting(store, held["b"])[: len(kept)] == kept
    rows = outbox.pending_rows(store.connection, held["a"].queue, EVER_MS, 9)
    persist(store, Commit("main-day", 0), [row.id for row in rows])
    assert grants.grants_to_withdraw(store.connection) == []


def test_a_revoked_queue_is_not_dropped_to_make_room(store: Store) -> None:
    """What withdraws its descriptors counts as configured while the agent sends it."""
    held = settle(store, wanted("a"))
    persist(store, released(1, held["a"]))
    settle(store)
    names = {"main-day", *(grant.queue for grant in grants.grants_to_withdraw(store.connection))}
    assert outbox.make_room(store, 1, names) == (False, 0)
    assert len(waiting(store, held["a"])) == 2


def test_the_receipt_counts_what_was_confirmed(store: Store) -> None:
    """Records by topic and terms, with their times; descriptors are no records, and the rest was deleted."""
    held = settle(store, wanted("a"), wanted("b"))
    commits = [released(k, *held.values()) for k in (1, 2, 3)]
    rows = [row for commit in commits for row in persist(store, commit) if row.queue == held["a"].queue]
    ids = [row.id for row in rows[:6]]
    for _ in range(2):  # a row may be marked twice, and counts once
        persist(store, Commit("main-day", 5 * LENGTH_MS), ids)
    assert grants.due_receipts(store.connection) == []
    grants.replace_grants(store, [wanted("b")], {("main-day", "a"): "paused"}, 6 * LENGTH_MS)
    [receipt] = grants.due_receipts(store.connection)
    sent = Sent("a/m1/power", "d1", 2, LENGTH_MS, 3 * LENGTH_MS)
    assert receipt == grants.Receipt(held["a"], 6 * LENGTH_MS, "paused", 3, (sent,))
    grants.note_receipt(store, receipt.grant)
    assert grants.due_receipts(store.connection) == []


def test_a_grant_goes_on_after_a_restart(store: Store) -> None:
    """Settling again changes nothing but the end and the login; another broker or topic is another grant."""
    first = settle(store, wanted("a"))["a"]
    again = settle(store, wanted("a", until_ms=9), now_ms=7)["a"]
    assert again == first._replace(until_ms=9)
    moved = settle(store, wanted("a", url="mqtt://b"), now_ms=8)["a"]
    assert (moved.id, moved.since_ms) == (first.id + 1, 9)
    [receipt] = grants.due_receipts(store.connection)
    assert (receipt.grant, receipt.reason) == (again, "removed")


def test_who_is_admitted_again_keeps_its_descriptors(store: Store) -> None:
    """A withdrawal that still waits for the same place is dropped, or it would clear the new descriptors.

    To the new grant, nothing has been announced.
    """
    held = settle(store, wanted("a"), wanted("b"))
    persist(store, released(1, *held.values()))
    settle(store, now_ms=LENGTH_MS)
    again = settle(store, wanted("a"), now_ms=2 * LENGTH_MS)
    assert waiting(store, held["a"]) == []
    assert [grant.name for grant in grants.grants_to_withdraw(store.connection)] == ["b"]
    assert store.snapshot("main-day").announced == {}
    persist(store, released(3, again["a"]))
    assert [payload for _, payload in waiting(store, again["a"])] == [b"terms", b"terms", b"record"]


def test_what_an_earlier_grant_left_is_withdrawn_too(store: Store) -> None:
    """A dropped withdrawal is not forgotten: the next revocation clears its topics with the new ones."""
    first = settle(store, wanted("a"))
    persist(store, released(1, first["a"]))
    settle(store, now_ms=LENGTH_MS)
    again = settle(store, wanted("a"), now_ms=2 * LENGTH_MS)
    assert waiting(store, again["a"]) == []
    settle(store, now_ms=3 * LENGTH_MS)
    assert waiting(store, again["a"]) == [("a/m1/power/privacy", b""), ("a/m1/power/privacy/d1", b"")]


def test_all_or_nothing_through_a_crash(tmp_path: Path) -> None:
    """A revocation that is not committed has not happened: after the end of the process, all is as before."""
    path = tmp_path / "db"
    with open_store(path) as store:
        held = settle(store, wanted("a"))
        persist(store, released(1, held["a"]))
        before = waiting(store, held["a"])
    pid = os.fork()
    if not pid:
        child = open_store(path)
        unfinished = child.unerased_transaction()
        unfinished.__enter__()
        grants._revoke(child.connection, held["a"], "removed", 0)
        os._exit(0)
    os.waitpid(pid, 0)
    with open_store(path) as store:
        assert waiting(store, held["a"]) == before
        assert grants.active_grants(store.connection) == [held["a"]]


def acted(
    store: Store, verb: str, name: str = "a", known_id: int | None = None, *, at_ms: int = 7
) -> str | None:
    """Append an action; return the code of its refusal."""
    return grants.add_action(store, Action(0, name, verb, "command", at_ms), known_id)


def test_a_pause_that_no_agent_has_seen_is_one(store: Store) -> None:
    """Whoever was paused and resumed while the agent was stopped gets nothing of that time: a new grant.

    One that begins after the resumption keeps its grant, and so does whoever was resumed without a pause.
    """
    held = settle(store, wanted("a"), wanted("b"), wanted("c", from_ms=4 * LENGTH_MS))
    persist(store, released(1, held["a"]))
    for name in ("a", "c"):
        acted(store, "pause", name, at_ms=2 * LENGTH_MS)
        acted(store, "resume", name, at_ms=3 * LENGTH_MS)
    for name in ("a", "b"):
        acted(store, "resume", name, at_ms=3 * LENGTH_MS)
    again = settle(store, wanted("a"), wanted("b"), wanted("c"), now_ms=3 * LENGTH_MS)
    assert again["a"].since_ms == 3 * LENGTH_MS + 1
    assert again["a"].id > held["c"].id
    assert {name: again[name].id for name in "bc"} == {name: held[name].id for name in "bc"}
    [receipt] = grants.due_receipts(store.connection)
    assert (receipt.grant.id, receipt.reason, receipt.discarded_count) == (held["a"].id, "paused", 3)
    assert settle(store, wanted("a"), wanted("b"), wanted("c"), now_ms=5 * LENGTH_MS) == again


def test_the_last_action_on_a_receiver_counts(tmp_path: Path) -> None:
    """Every action is a row, also after another start; a receiver that has ended stays so."""
    with open_store(tmp_path / "db") as store:
        assert [acted(store, verb) for verb in ("pause", "resume", "pause")] == [None] * 3
        assert acted(store, "end", "b") is None
    with open_store(tmp_path / "db") as store:
        assert [acted(store, verb, "b") for verb in ("resume", "pause", "end")] == ["ended"] * 3
        actions = grants.last_actions(store.connection)
        assert {name: (row.id, row.verb) for name, row in actions.items()} == {
            "a": (3, "pause"),
            "b": (4, "end"),
        }
        assert grants.last_id(actions) == 4


def test_who_has_not_seen_the_last_action_is_refused(store: Store) -> None:
    """Also if it was on another receiver; nothing is written then."""
    assert grants.last_id(grants.last_actions(store.connection)) == 0
    assert acted(store, "pause", "a", known_id=0) is None
    assert acted(store, "end", "b", known_id=0) == "outdated"
    assert acted(store, "end", "b", known_id=1) is None
    assert grants.last_actions(store.connection).keys() == {"a", "b"}
    assert store.connection.execute("SELECT count(*) FROM action").fetchone() == (2,)
