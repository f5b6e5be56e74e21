"""The outbox: noisy bytes from their commit until they are delivered, then for `keep`.

A row leaves not before `due_ms`, in the order (due, id), and as often as it takes: always the same
bytes (law 1). Delivered rows stay for `export` until they are pruned, the first delivered first.
"""

import json
import math
import sqlite3
from collections.abc import Collection, Iterator
from itertools import accumulate
from typing import NamedTuple

from meteragent.domain.commit import Commit, Descriptor
from meteragent.store import Store, batch

PAGE = 1000
"""Rows that `export` reads, and `room` prunes, at once."""
_ROW_BYTES = 64
"""What a row counts beside its topic and payload, as the totals do."""


class Waiting(NamedTuple):
    """A row that has not been delivered."""

    id: int
    due_ms: int
    topic: str
    payload: bytes
    retain: bool

    @property
    def size_bytes(self) -> int:
        """What the row counts, as in the totals."""
        return _ROW_BYTES + len(self.topic) + len(self.payload)


class Left(NamedTuple):
    """A row that has been delivered."""

    channel: str
    topic: str
    payload: bytes
    due_ms: int
    delivered_ms: int


_APPEND = """INSERT INTO outbox (channel, due_ms, topic, payload, retain)
    SELECT ?1, json_extract(value, '$[0]'), json_extract(value, '$[1]'),
           substr(?3, json_extract(value, '$[2]'), json_extract(value, '$[3]')), json_extract(value, '$[4]')
    FROM json_each(?2)"""


def append(tx: sqlite3.Connection, commit: Commit) -> list[Waiting]:
    """Add a commit's messages behind those of the same due time, and keep its descriptors; the new rows.

    All are one statement, which SQLite runs without the interpreter: the core goes on meanwhile.
    """
    tx.executemany(
        "INSERT OR REPLACE INTO descriptor VALUES (?, ?, ?, ?)",
        [(commit.channel, item.topic, item.id, item.payload) for item in commit.descriptors],
    )
    outgoing = commit.outgoing
    if not outgoing:
        return []
    sizes = [len(row.payload) for row in outgoing]
    rows = [
        (row.due_ms, row.topic, end - size + 1, size, int(row.retain))
        for row, size, end in zip(outgoing, sizes, accumulate(sizes), strict=True)
    ]
    payloads = b"".join([row.payload for row in outgoing] + [b"\0"])  # a part of nothing would be NULL
    last = tx.execute(_APPEND, (commit.channel, batch(rows), payloads)).lastrowid or 0
    return [
        Waiting(id_, row.due_ms, row.topic, row.payload, row.retain)
        for id_, row in enumerate(outgoing, last - len(outgoing) + 1)
    ]


def pending(
    connection: sqlite3.Connection,
    channel: str,
    now_ms: int,
    limit: int,
    after: tuple[float, float] = (-math.inf, 0.0),
) -> list[Waiting]:
    """Return the first undelivered rows that are due, by (due, id), after such a place.

    Those in flight are among them. Nothing here remembers a place on purpose: a row may be committed that is
    due before one that has left.
    """
    rows = connection.execute(
        "SELECT id, due_ms, topic, payload, retain FROM outbox INDEXED BY outbox_waiting"
        " WHERE channel = ? AND delivered_ms IS NULL AND due_ms <= ? AND due_ms >= ?"
        " AND (due_ms, id) > (?, ?) ORDER BY due_ms, id LIMIT ?",
        (channel, now_ms, after[0], *after, limit),
    )
    return [
        Waiting(id_, due_ms, topic, payload, bool(retain)) for id_, due_ms, topic, payload, retain in rows
    ]


def next_due_ms(connection: sqlite3.Connection, channel: str, now_ms: int) -> int | None:
    """When the next row falls due after `now_ms`; None if there is none."""
    [(due_ms,)] = connection.execute(
        "SELECT min(due_ms) FROM outbox INDEXED BY outbox_waiting"
        " WHERE channel = ? AND delivered_ms IS NULL AND due_ms > ?",
        (channel, now_ms),
    )
    return None if due_ms is None else int(due_ms)


def last_due_ms(connection: sqlite3.Connection, channel: str, after_ms: int) -> dict[str, int]:
    """Return when the last undelivered row of each topic falls due, of those due after a time."""
    rows = connection.execute(
        "SELECT topic, max(due_ms) FROM outbox INDEXED BY outbox_waiting"
        " WHERE channel = ? AND delivered_ms IS NULL AND due_ms > ? GROUP BY topic",
        (channel, after_ms),
    )
    return {topic: int(due_ms) for topic, due_ms in rows}


def delivered(tx: sqlite3.Connection, ids: Collection[int], now_ms: int) -> None:
    """Note that the broker has taken these rows; saying it again changes nothing."""
    tx.execute(
        "UPDATE outbox SET delivered_ms = ?"
        " WHERE id IN (SELECT value FROM json_each(?)) AND delivered_ms IS NULL",
        (now_ms, json.dumps(list(ids))),
    )


def depth(connection: sqlite3.Connection, channel: str) -> int:
    """How many rows wait."""
    found = connection.execute("SELECT waiting FROM outbox_total WHERE channel = ?", (channel,)).fetchone()
    return int(found[0]) if found else 0


def prune(tx: sqlite3.Connection, before_ms: int, limit: int = PAGE) -> int:
    """Delete at most `limit` rows delivered before a time, oldest first; how many it were."""
    return tx.execute(
        "DELETE FROM outbox WHERE id IN (SELECT id FROM outbox INDEXED BY outbox_left"
        " WHERE delivered_ms IS NOT NULL AND delivered_ms < ? ORDER BY delivered_ms, id LIMIT ?)",
        (before_ms, limit),
    ).rowcount


def size(commit: Commit) -> int:
    """How many bytes a commit adds to the outbox."""
    return sum(_ROW_BYTES + len(row.topic) + len(row.payload) for row in commit.outgoing)


def total(connection: sqlite3.Connection) -> int:
    """How many bytes all rows take together, those that wait and those that have left."""
    [(found,)] = connection.execute("SELECT ifnull(sum(waiting_bytes + left_bytes), 0) FROM outbox_total")
    return int(found)


def room(store: Store, max_bytes: int, channels: Collection[str]) -> tuple[bool, int]:
    """Whether undelivered rows of these channels leave room; and how many of others were dropped for it.

    Plain rule, no hysteresis: False when they take `max_bytes` or more. While all rows together take
    that much, each call removes a page of what nobody waits for: delivered rows, oldest first, and when
    there are none undelivered ones of other channels, whose streams are no more. Those are kept till
    then: a stream that comes back sends them. The ledger is not counted: it is never pruned, and must
    not stop the agent.
    """
    totals = store.connection.execute(
        "SELECT channel, waiting_bytes, left_bytes FROM outbox_total"
    ).fetchall()
    waiting = sum(row[1] for row in totals if row[0] in channels)
    left = sum(row[2] for row in totals)
    retired = {row[0]: row[1] for row in totals if row[0] not in channels and row[1]}
    dropped = 0
    if (left or retired) and waiting + left + sum(retired.values()) >= max_bytes:
        with store.transaction() as tx:
            if not left:
                dropped = _drop(tx, next(iter(retired)), PAGE)
            prune(tx, 2**63 - 1, PAGE)
    return waiting < max_bytes, dropped


def _drop(tx: sqlite3.Connection, channel: str, limit: int) -> int:
    """Delete undelivered rows of a channel, oldest first; how many it were."""
    rows = tx.execute(
        "SELECT id FROM outbox INDEXED BY outbox_waiting"
        " WHERE channel = ? AND delivered_ms IS NULL ORDER BY due_ms, id LIMIT ?",
        (channel, limit),
    )
    ids = [id_ for (id_,) in rows]
    delivered(tx, ids, 0)  # for the totals: a row is taken from those that have left
    tx.execute("DELETE FROM outbox WHERE id IN (SELECT value FROM json_each(?))", (json.dumps(ids),))
    return len(ids)


def descriptors(connection: sqlite3.Connection, channel: str) -> list[Descriptor]:
    """The latest descriptor of each topic, to be sent again at every connect."""
    rows = connection.execute(
        "SELECT topic, id, payload FROM descriptor WHERE channel = ? ORDER BY topic", (channel,)
    )
    return [Descriptor(*row) for row in rows]


def export(connection: sqlite3.Connection) -> Iterator[Left]:
    """Everything that has left and is still kept, in the order of its commits.

    Reads a page at a time: a long read would keep the agent from erasing (rule 2 of the store).
    """
    last = 0
    while rows := connection.execute(
        "SELECT id, channel, topic, payload, due_ms, delivered_ms FROM outbox"
        " WHERE id > ? AND delivered_ms IS NOT NULL ORDER BY id LIMIT ?",
        (last, PAGE),
    ).fetchall():
        last = rows[-1][0]
        for row in rows:
            yield Left(*row[1:])


def latest(connection: sqlite3.Connection, channel: str, topic: str, limit: int) -> list[bytes]:
    """The payloads of the newest records of a topic, at most so many, in the order of their commits.

    Looks at the newest rows only: what is far back among many meters' records is not worth a long read.
    """
    rows = connection.execute(
        "SELECT payload FROM outbox WHERE id > (SELECT ifnull(max(id), 0) FROM outbox) - ?"
        " AND channel = ? AND topic = ? AND NOT retain ORDER BY id DESC LIMIT ?",
        (20 * PAGE, channel, topic, limit),
    )
    return [bytes(payload) for (payload,) in rows][::-1]


def last_left(connection: sqlite3.Connection, channel: str, since_ms: int = 0) -> Left | None:
    """The message of a channel that was delivered last, if that was since a time and it is still kept."""
    row = connection.execute(
        "SELECT channel, topic, payload, due_ms, delivered_ms FROM outbox INDEXED BY outbox_left"
        " WHERE delivered_ms IS NOT NULL AND delivered_ms >= ? AND channel = ?"
        " ORDER BY delivered_ms DESC, id DESC LIMIT 1",
        (since_ms, channel),
    ).fetchone()
    return None if row is None else Left(*row)
