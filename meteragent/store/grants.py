"""The receivers that share a stream, and what each gets from its admission to its revocation.

Theory of operation
-------------------
A *grant* is one stretch of time in which a receiver gets a stream: a row of the table `receiver`, from its
admission until it is revoked. Each grant has a queue of its own in the outbox, under a name that is never
used again; the queue of a stream's own sink has the stream's name. The core writes one row for each receiver
of a message, with the receiver's topic and, for a record, the same payload. So noise is drawn once, and an
unreachable receiver does not hold up the others.

A receiver gets a slot if it got the slot's window when that opened, the window starts at or after the grant's
`since_ms`, and the slot ends by the grant's `until_ms` (`Receiver`). All of this is public (law 4). A window
is charged as a whole: its slots after the last grant's end get noise and are closed like the others, but are
sent to nobody.

`replace_grants` compares the grants with the configuration and the actions when the agent starts, when a
grant begins or ends, and after an action. While it runs, no message is sent.

An *action* is what a person does to a receiver: pause, resume or end it. Rows of the table `action` are only
appended, and the last row of a receiver is its state. No action follows an end.
"""

import json
import sqlite3
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from meteragent.domain.commit import Commit, Outgoing, Receiver
from meteragent.domain.errors import StoreError
from meteragent.domain.identity import END
from meteragent.store import Store, json_rows, outbox
from meteragent.store.schema import row_crc

_COLUMNS = "id, stream, name, topic, link, since_ms, until_ms"
_CONFIRMED = """SELECT json_group_array(json_array(queue, topic, id_of_terms, records, from_ms, to_ms)) FROM
    (SELECT queue, topic, id_of_terms, count(*) AS records, min(from_ms) AS from_ms, max(to_ms) AS to_ms
    FROM outbox WHERE id IN (SELECT value FROM json_each(?)) AND delivered_ms IS NULL
    AND id_of_terms IS NOT NULL AND queue IN (SELECT value FROM json_each(?))
    GROUP BY queue, topic, id_of_terms)"""
_COUNT_SENT = f"""INSERT INTO sent
    SELECT {", ".join(f"json_extract(value, '$[{k}]')" for k in range(7))} FROM json_each(?) WHERE true
    ON CONFLICT (queue, topic, id) DO UPDATE SET records = records + excluded.records,
    from_ms = min(from_ms, excluded.from_ms), to_ms = max(to_ms, excluded.to_ms), crc = crc + excluded.records
    + min(0, excluded.from_ms - from_ms) + max(0, excluded.to_ms - to_ms)"""  # noqa: S608 -- constants
_PAUSED_SINCE = """revoked_ms IS NULL AND since_ms <= (SELECT min(at_ms) FROM action WHERE receiver = name
    AND verb = 'resume' AND id > (SELECT max(id) FROM action WHERE receiver = name AND verb = 'pause'))"""


class Action(NamedTuple):
    """What was done to a receiver (one of `VERBS`), when, and where: "page" or "command"."""

    id: int
    receiver: str
    verb: str
    origin: str
    at_ms: int


class WantedGrant(NamedTuple):
    """A receiver that the configuration admits now, for windows that begin at `from_ms` or later.

    `topic` is the template of its topics. `link` is the text of its broker's settings, with the address. If
    `until_ms` is None, the grant has no end.
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

    @property
    def receiver(self) -> Receiver:
        """The receiver, as the core sees it."""
        return Receiver(self.queue, self.topic, self.since_ms, self.until_ms)


def _key(item: WantedGrant | Grant) -> tuple[str, str, str, str]:
    """Return what identifies a receiver: its stream, name, topic and broker."""
    return item.stream, item.name, item.topic, str(json.loads(item.link)["url"])


class Sent(NamedTuple):
    """How many records of one topic and descriptor a receiver's broker has confirmed, and their times."""

    topic: str
    descriptor_id: str
    records: int
    from_ms: int
    to_ms: int


class Receipt(NamedTuple):
    """The receipt of a revoked grant: what was sent to its receiver, and how many messages were discarded."""

    grant: Grant
    revoked_ms: int
    reason: str
    discarded_count: int
    rows: tuple[Sent, ...]


def active_grants(connection: sqlite3.Connection, stream: str | None = None) -> list[Grant]:
    """Return the grants that are not revoked, of a stream or of all."""
    grants = _grants(connection, "revoked_ms IS NULL")
    return [grant for grant in grants if stream in (None, grant.stream)]


def grants_to_withdraw(connection: sqlite3.Connection) -> list[Grant]:
    """Return the revoked grants whose descriptors are not yet withdrawn."""
    grants = _grants(connection, "revoked_ms IS NOT NULL")
    return [grant for grant in grants if outbox.queue_depth(connection, grant.queue)]


def _grants(connection: sqlite3.Connection, condition: str) -> list[Grant]:
    rows = connection.execute(f"SELECT {_COLUMNS} FROM receiver WHERE {condition} ORDER BY id")  # noqa: S608 -- constants
    return [Grant(*row) for row in rows]


def check_grants(tx: sqlite3.Connection, commit: Commit) -> None:
    """Refuse a commit with a message that its receiver may not get; note the topics of descriptors.

    Raises StoreError if a message is neither for the stream's own sink nor for a grant, or if its slot is
    outside the grant.
    """
    outgoing = [row for row in commit.outgoing if row.queue != commit.stream]
    if not outgoing:
        return
    receivers = {grant.queue: grant.receiver for grant in active_grants(tx, commit.stream)}
    for row in outgoing:
        receiver = receivers.get(row.queue)
        if receiver is None or (row.slot and not receiver.has_slot(row.slot.window_ms, row.slot.end_ms)):
            raise StoreError(f"{commit.stream} would send a message to a receiver that may not have it")
    topics = [(row.queue, row.topic) for row in outgoing if row.retain]
    tx.executemany("INSERT OR IGNORE INTO announced VALUES (?, ?)", topics)


def count_sent(tx: sqlite3.Connection, row_ids: Collection[int]) -> None:
    """Add to the receipts' counts the records among rows that are about to be marked as delivered."""
    queues = [grant.queue for grant in active_grants(tx)]
    if not queues:
        return
    [(text,)] = tx.execute(_CONFIRMED, (json.dumps(list(row_ids)), json.dumps(queues)))
    sums = [(*row, row_crc(*row[:3]) + sum(row[3:])) for row in json.loads(text)]
    tx.execute(_COUNT_SENT, (json_rows(sums),))


def replace_grants(
    store: Store, receivers: Iterable[WantedGrant], reasons: dict[tuple[str, str], str], now_ms: int
) -> list[Grant]:
    """Revoke the grants of all receivers but these; admit these receivers unless they have a grant.

    Returns the grants that are new or begin later than before. `reasons` maps a stream and receiver to the
    reason for the revocation; without an entry, it is "removed". A receiver with a different broker or topic
    is a different receiver, and one that was paused meanwhile is admitted anew, without the windows of its
    pause. Raises StoreError if the store cannot be written.
    """
    receivers_by_key = {_key(item): item for item in receivers}
    with store.transaction() as tx:
        earlier_starts = {(grant.id, grant.since_ms) for grant in active_grants(tx)}
        for grant in _grants(tx, _PAUSED_SINCE):
            _revoke(tx, grant, "paused", now_ms)
        for grant in active_grants(tx):
            item = receivers_by_key.pop(_key(grant), None)
            if item is None:
                _revoke(tx, grant, reasons.get((grant.stream, grant.name), "removed"), now_ms)
                continue
            # The start of a grant without a descriptor may still move: the core asks again about its topics.
            from_ms = 0 if outbox.latest_descriptors(tx, grant.queue) else item.from_ms
            change = "UPDATE receiver SET link = ?, since_ms = max(since_ms, ?), until_ms = ? WHERE id = ?"
            tx.execute(change, (item.link, from_ms, item.until_ms, grant.id))
        for item in receivers_by_key.values():
            _admit(tx, item, now_ms)
        return [grant for grant in active_grants(tx) if (grant.id, grant.since_ms) not in earlier_starts]


def _revoke(tx: sqlite3.Connection, grant: Grant, reason: str, now_ms: int) -> None:
    """Revoke a grant: delete its waiting messages, and queue the withdrawal of its descriptors.

    After that, nothing enters its queue: `check_grants` reads the grants in the transaction that writes the
    rows.
    """
    discarded = outbox.drop_undelivered(tx, grant.queue)
    tx.execute("DELETE FROM descriptor WHERE queue = ?", (grant.queue,))
    topics = tx.execute("SELECT topic FROM announced WHERE queue = ? ORDER BY topic", (grant.queue,))
    outbox.enqueue(tx, [Outgoing(grant.queue, topic, b"", now_ms, retain=True) for (topic,) in topics])
    tx.execute("DELETE FROM announced WHERE queue = ?", (grant.queue,))
    change = "UPDATE receiver SET revoked_ms = ?, reason = ?, discarded = ? WHERE id = ?"
    tx.execute(change, (now_ms, reason, discarded, grant.id))


def _admit(tx: sqlite3.Connection, item: WantedGrant, now_ms: int) -> None:
    """Admit a receiver, from the first window that begins after `now_ms` and not before `from_ms`.

    A withdrawal of the same topics that has not been sent yet is dropped, because it would clear the new
    descriptors. These topics are withdrawn when the new grant is revoked.
    """
    former_grants = [grant for grant in grants_to_withdraw(tx) if _key(grant)[2:] == _key(item)[2:]]
    item = item._replace(from_ms=max(item.from_ms, now_ms + 1))
    id_ = tx.execute(
        "INSERT INTO receiver (stream, name, topic, link, since_ms, until_ms) VALUES (?, ?, ?, ?, ?, ?)", item
    ).lastrowid
    queue = Grant(id_ or 0, *item).queue
    for grant in former_grants:
        tx.execute(
            "INSERT OR IGNORE INTO announced SELECT ?, topic FROM outbox"
            " WHERE queue = ? AND delivered_ms IS NULL",
            (queue, grant.queue),
        )
        outbox.drop_undelivered(tx, grant.queue)


def due_receipts(connection: sqlite3.Connection) -> list[Receipt]:
    """Return the receipts of the revoked grants whose receipts are not on disk yet."""
    rows = []
    for grant in _grants(connection, "revoked_ms IS NOT NULL AND NOT receipt"):
        [(revoked_ms, reason, discarded)] = connection.execute(
            "SELECT revoked_ms, reason, discarded FROM receiver WHERE id = ?", (grant.id,)
        )
        sent_rows = connection.execute(
            "SELECT topic, id, records, from_ms, to_ms FROM sent WHERE queue = ? ORDER BY topic, from_ms, id",
            (grant.queue,),
        )
        rows.append(Receipt(grant, revoked_ms, reason, discarded, tuple(map(Sent._make, sent_rows))))
    return rows


def note_receipt(store: Store, grant: Grant) -> None:
    """Record that a grant's receipt is on disk. Raises StoreError if this cannot be written."""
    with store.transaction() as tx:
        tx.execute("UPDATE receiver SET receipt = 1 WHERE id = ?", (grant.id,))


def last_actions(connection: sqlite3.Connection) -> dict[str, Action]:
    """Return the last action on each receiver, by the receiver's name."""
    rows = connection.execute("SELECT max(id), receiver, verb, origin, at_ms FROM action GROUP BY receiver")
    return {action.receiver: action for action in map(Action._make, rows)}


def add_action(store: Store, action: Action, known_id: int | None = None) -> str | None:
    """Append an action, which gets its id here; return the code of the refusal if it is refused.

    A receiver that has ended accepts no action. If `known_id` is stated, the action is refused unless
    `known_id` is the id of the newest action. Raises StoreError if the store cannot be written.
    """
    with store.transaction() as tx:
        actions = last_actions(tx)
        last = actions.get(action.receiver)
        if last is not None and last.verb == END:
            return "ended"
        if known_id is not None and known_id != last_id(actions):
            return "outdated"
        columns = "receiver, verb, origin, at_ms"
        tx.execute(f"INSERT INTO action ({columns}) VALUES (?, ?, ?, ?)", action[1:])  # noqa: S608 -- constant
    return None


def last_id(actions: Mapping[str, Action]) -> int:
    """Return the id of the newest of all actions; 0 if there is none."""
    return max((action.id for action in actions.values()), default=0)
