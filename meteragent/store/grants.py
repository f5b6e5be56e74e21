"""Receivers of shared streams, and the messages that each may have from its admission to its revocation.

Theory of operation
-------------------
A *grant* is one stretch of time in which a receiver gets a stream: a row of the table `receiver`, from its
admission until it is revoked. Each grant has a queue of its own in the outbox, under a name that is never
used again. For each message of a shared stream, a commit writes one row for each grant whose receiver may
have it, with the grant's topic and the same payload (`append`). So noise is drawn once, and an unreachable
receiver does not hold up the others.

A receiver gets a slot if the slot's window starts at or after the grant's `since_ms`, and the slot ends by
the grant's `until_ms` (`Validity`). Both are public times, so the configuration and the clock alone determine
who gets a slot (law 4). The core opens a window only if a receiver gets one of its slots. The window is then
charged as a whole: its slots after the last grant's end get noise and are closed like the others, but are
sent to nobody.

`settle` compares the grants with the configuration when the agent starts, and when a grant begins or ends.
Meanwhile, no message is sent. In one transaction, `settle` revokes the grants that are no longer configured,
updates the other grants, and admits new receivers. A revocation deletes all rows that wait in the queue and
the descriptors that are sent again on each connection. It then queues an empty retained message for each
topic on which a descriptor may be retained. After that, nothing else can enter the queue, because `append`
reads the grants in the transaction that writes the rows.

A descriptor is sent to each receiver that gets the first slot that the descriptor covers. A receiver that is
new to a stream lacks the descriptors sent before its admission (`unannounced`), and may have a topic on which
another agent releases. So before the first window that the new receiver gets, the core asks again whether
another agent releases there (law 1), and sends the window's descriptor again.
"""

import json
import sqlite3
from collections.abc import Collection, Iterable
from typing import NamedTuple

from meteragent.domain import identity
from meteragent.domain.commit import Commit, Descriptor, Outgoing
from meteragent.domain.validity import Validity
from meteragent.store import Store, outbox
from meteragent.store.outbox import WaitingRow

_COLUMNS = "id, channel, name, topic, link, since_ms, until_ms"


class Wanted(NamedTuple):
    """A receiver that the configuration admits now, for windows that begin at `from_ms` or later.

    `topic` is the template of the receiver's topics. `link` is the text of its broker's settings, with the
    broker's address. If `until_ms` is None, the grant has no end.
    """

    stream: str
    name: str
    topic: str
    link: str
    from_ms: int
    until_ms: int | None


class Grant(NamedTuple):
    """A receiver's grant of a stream; `since_ms` is the earliest start of a window that the receiver gets."""

    id: int
    stream: str
    name: str
    topic: str
    link: str
    since_ms: int
    until_ms: int | None

    @property
    def queue(self) -> str:
        """The name of the grant's queue in the outbox; no stream has such a name."""
        return f"{self.stream}@{self.name}.{self.id}"

    def sink_topic(self, topic: str) -> str:
        """Return the receiver's own form of a topic that begins with the public id."""
        public_id, *below = topic.split("/", 1)
        return "/".join([identity.render(self.topic, public_id), *below])

    @property
    def validity(self) -> Validity:
        """The time for which the receiver gets the stream."""
        return Validity(self.since_ms, self.until_ms)

    def may_have(self, row: Outgoing | Descriptor, clock_ms: int) -> bool:
        """Return whether the receiver may have a message; `clock_ms` decides if the message has no slot."""
        if row.slot is None:
            return self.until_ms is None or clock_ms < self.until_ms
        return self.validity.has_slot(row.slot.window_ms, row.slot.end_ms)


class Sent(NamedTuple):
    """The number of records of one topic and descriptor that a receiver's broker has confirmed.

    `from_ms` is the earliest start of the records' windows, and `to_ms` the latest end of their slots.
    """

    topic: str
    descriptor_id: str
    records: int
    from_ms: int
    to_ms: int


class Receipt(NamedTuple):
    """The receipt of a revoked grant: what was sent to its receiver.

    `discarded` is the number of messages that were deleted at the revocation, because the receiver's broker
    had not confirmed them.
    """

    grant: Grant
    revoked_ms: int
    reason: str
    discarded: int
    rows: tuple[Sent, ...]


def active(connection: sqlite3.Connection) -> list[Grant]:
    """Return the grants that are not revoked."""
    return _grants(connection, "revoked_ms IS NULL")


def withdrawing(connection: sqlite3.Connection) -> list[Grant]:
    """Return the revoked grants whose descriptors are not yet withdrawn."""
    grants = _grants(connection, "revoked_ms IS NOT NULL")
    return [grant for grant in grants if outbox.depth(connection, grant.queue)]


def _grants(connection: sqlite3.Connection, condition: str) -> list[Grant]:
    rows = connection.execute(f"SELECT {_COLUMNS} FROM receiver WHERE {condition} ORDER BY id")  # noqa: S608 -- constants
    return [Grant(*row) for row in rows]


def append(tx: sqlite3.Connection, commit: Commit) -> list[WaitingRow]:
    """Append a shared stream's messages to the queue of each receiver that may have them.

    The descriptors are stored for the stream and for each of these receivers. Returns the new rows.
    """
    outbox.put_descriptors(tx, commit.stream, commit.descriptors)  # these topics now belong to this store
    if not (commit.outgoing or commit.descriptors):
        return []
    rows: list[WaitingRow] = []
    for grant in active(tx):
        if grant.stream != commit.stream:
            continue
        outgoing = [
            row._replace(topic=grant.sink_topic(row.topic))
            for row in commit.outgoing
            if grant.may_have(row, commit.clock_ms)
        ]
        topics = [(grant.queue, row.topic) for row in outgoing if row.retain]
        tx.executemany("INSERT OR IGNORE INTO announced VALUES (?, ?)", topics)
        latest = [
            item._replace(topic=grant.sink_topic(item.topic))
            for item in commit.descriptors
            if grant.may_have(item, commit.clock_ms)
        ]
        outbox.put_descriptors(tx, grant.queue, latest)
        appended = outbox.put(tx, grant.queue, outgoing)
        slots = [
            (row.slot, waiting.id)
            for row, waiting in zip(outgoing, appended, strict=True)
            if row.slot and not row.retain
        ]
        tx.executemany(
            "UPDATE outbox SET id_of_terms = ?, from_ms = ?, to_ms = ? WHERE id = ?",
            [(*slot, id_) for slot, id_ in slots],
        )
        rows += [row._replace(queue=grant.queue) for row in appended]
    return rows


def count_sent(tx: sqlite3.Connection, row_ids: Collection[int]) -> None:
    """Count, for the receipts, the records among rows that are about to be marked as delivered."""
    if tx.execute("SELECT 1 FROM receiver LIMIT 1").fetchone() is None:
        return
    tx.execute(
        "INSERT INTO sent SELECT channel, topic, id_of_terms, count(*), min(from_ms), max(to_ms) FROM outbox"
        " WHERE id IN (SELECT value FROM json_each(?)) AND delivered_ms IS NULL AND id_of_terms IS NOT NULL"
        " GROUP BY channel, topic, id_of_terms"
        " ON CONFLICT (queue, topic, id) DO UPDATE SET records = records + excluded.records,"
        " from_ms = min(from_ms, excluded.from_ms), to_ms = max(to_ms, excluded.to_ms)",
        (json.dumps(list(row_ids)),),
    )


def unannounced(connection: sqlite3.Connection, stream: str) -> dict[str, list[Validity]]:
    """Return, by topic, the validities of the receivers that lack the topic's latest descriptor."""
    validities: dict[str, list[Validity]] = {}
    for grant in active(connection):
        if grant.stream == stream:
            for topic in _missing_topics(connection, grant):
                validities.setdefault(topic, []).append(grant.validity)
    return validities


def _missing_topics(connection: sqlite3.Connection, grant: Grant) -> list[str]:
    """Return the topics of a stream whose latest descriptor was not sent to the grant's receiver."""
    received = {(item.topic, item.id) for item in outbox.descriptors(connection, grant.queue)}
    latest = outbox.descriptors(connection, grant.stream)
    return [item.topic for item in latest if (grant.sink_topic(item.topic), item.id) not in received]


def settle(
    store: Store, receivers: Iterable[Wanted], reasons: dict[tuple[str, str], str], now_ms: int
) -> list[Grant]:
    """Revoke the grants of all receivers but these; admit these receivers unless they have a grant.

    A grant's start moves to a later `from_ms` in two cases: no descriptor has been sent to its receiver, or
    its end is extended and its receiver lacks the latest descriptor of a topic. The core then asks again
    about the topics, and the receiver does not get the windows that are already open. Returns the grants that
    are new or begin later than before. `reasons` maps a stream and receiver to the reason for the revocation;
    without an entry, the reason is "removed". A receiver with a different broker or topic counts as a
    different receiver. Raises StoreError if the store cannot be written.
    """
    receivers_by_key = {(item.stream, item.name, item.topic, _url(item.link)): item for item in receivers}
    kept_keys = set()
    with store.transaction() as tx:
        earlier_starts = {(grant.id, grant.since_ms) for grant in active(tx)}
        for grant in active(tx):
            key = grant.stream, grant.name, grant.topic, _url(grant.link)
            item = receivers_by_key.get(key)
            if item is None:
                _revoke(tx, grant, reasons.get(key[:2], "removed"), now_ms)
                continue
            kept_keys.add(key)
            begins_later = not outbox.descriptors(tx, grant.queue) or (
                _is_extended(grant, item) and _missing_topics(tx, grant)
            )
            from_ms = item.from_ms if begins_later else 0
            tx.execute(
                "UPDATE receiver SET link = ?, since_ms = max(since_ms, ?), until_ms = ? WHERE id = ?",
                (item.link, from_ms, item.until_ms, grant.id),
            )
        for key, item in receivers_by_key.items():
            if key not in kept_keys:
                _admit(tx, item, now_ms)
        return [grant for grant in active(tx) if (grant.id, grant.since_ms) not in earlier_starts]


def _is_extended(grant: Grant, item: Wanted) -> bool:
    """Return whether the configuration gives a grant a later end, or no end."""
    return grant.until_ms is not None and (item.until_ms is None or item.until_ms > grant.until_ms)


def _url(link: str) -> str:
    """Return the address of the broker in a link."""
    return str(json.loads(link)["url"])


def _revoke(tx: sqlite3.Connection, grant: Grant, reason: str, now_ms: int) -> None:
    """Revoke a grant: delete its waiting messages, and queue the withdrawal of its descriptors."""
    discarded = outbox.drop(tx, grant.queue)
    tx.execute("DELETE FROM descriptor WHERE channel = ?", (grant.queue,))
    topics = tx.execute("SELECT topic FROM announced WHERE queue = ? ORDER BY topic", (grant.queue,))
    outbox.put(tx, grant.queue, [Outgoing(topic, b"", now_ms, retain=True) for (topic,) in topics])
    tx.execute("DELETE FROM announced WHERE queue = ?", (grant.queue,))
    tx.execute(
        "UPDATE receiver SET revoked_ms = ?, reason = ?, discarded = ? WHERE id = ?",
        (now_ms, reason, discarded, grant.id),
    )


def _admit(tx: sqlite3.Connection, item: Wanted, now_ms: int) -> None:
    """Admit a receiver, from the first window that begins after `now_ms` and not before `from_ms`.

    A withdrawal of the same topics that has not been sent yet is dropped, because it would clear the new
    descriptors. These topics are withdrawn when the new grant is revoked.
    """
    former_grants = [
        grant for grant in withdrawing(tx) if (grant.topic, _url(grant.link)) == (item.topic, _url(item.link))
    ]
    since_ms = max(item.from_ms, now_ms + 1)
    id_ = tx.execute(
        "INSERT INTO receiver (channel, name, topic, link, since_ms, until_ms) VALUES (?, ?, ?, ?, ?, ?)",
        (item.stream, item.name, item.topic, item.link, since_ms, item.until_ms),
    ).lastrowid
    queue = Grant(id_ or 0, item.stream, item.name, item.topic, item.link, since_ms, item.until_ms).queue
    for grant in former_grants:
        tx.execute(
            "INSERT OR IGNORE INTO announced SELECT ?, topic FROM outbox"
            " WHERE channel = ? AND delivered_ms IS NULL",
            (queue, grant.queue),
        )
        outbox.drop(tx, grant.queue)


def receipts(connection: sqlite3.Connection) -> list[Receipt]:
    """Return the receipts of the revoked grants whose receipts are not on disk yet."""
    grants = _grants(connection, "revoked_ms IS NOT NULL AND NOT receipt")
    return [_receipt(connection, grant) for grant in grants]


def _receipt(connection: sqlite3.Connection, grant: Grant) -> Receipt:
    facts = connection.execute("SELECT revoked_ms, reason, discarded FROM receiver WHERE id = ?", (grant.id,))
    revoked_ms, reason, discarded = facts.fetchone()
    rows = connection.execute(
        "SELECT topic, id, records, from_ms, to_ms FROM sent WHERE queue = ? ORDER BY topic, from_ms, id",
        (grant.queue,),
    )
    return Receipt(grant, revoked_ms, reason, discarded, tuple(Sent(*fields) for fields in rows))


def note_receipt(store: Store, grant: Grant) -> None:
    """Record that a grant's receipt is on disk. Raises StoreError if this cannot be written."""
    with store.transaction() as tx:
        tx.execute("UPDATE receiver SET receipt = 1 WHERE id = ?", (grant.id,))
