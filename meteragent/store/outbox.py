"""The outbox: messages from their commit until they are delivered, and then for the time `store.keep`.

A row is sent at `due_ms` or later, in the order (due, id), and sent again until the broker confirms it,
always with the same bytes (law 1). Delivered rows stay for `export` until they are pruned in order of
delivery, which happens sooner if the outbox is full. A row with a deadline (`until_ms`) is a report to a
crowd; the row is deleted once it is delivered or too late.
"""

import json
import math
import sqlite3
from collections.abc import Collection, Sequence
from typing import NamedTuple

from meteragent.domain.commit import Commit, Descriptor, Outgoing
from meteragent.store import Store, json_rows
from meteragent.store.schema import SUMS, row_crc

PAGE_ROWS = 1000
"""The largest number of rows that are read or deleted at once."""
_NO_SLOT = (None, None, None)
_START = (-math.inf, 0.0)
ROW_BYTES = 64
"""The size of a row without topic and payload, in bytes; the triggers in `schema` use the same number."""


class WaitingRow(NamedTuple):
    """A row that has not been delivered."""

    id: int
    due_ms: int
    queue: str
    topic: str
    payload: bytes
    retain: bool
    until_ms: int | None = None
    """The time from which the row is no longer sent; None if there is no such time."""

    @property
    def size_bytes(self) -> int:
        """The row's contribution to the totals, in bytes."""
        return ROW_BYTES + len(self.topic) + len(self.payload)


class DeliveredRow(NamedTuple):
    """A row that has been delivered."""

    stream: str
    topic: str
    payload: bytes
    due_ms: int
    delivered_ms: int


IS_DAMAGED = f"crc IS NOT {SUMS['outbox']}"
"""The condition that is true if a row's values have changed since it was appended."""
_DAMAGED = f"""SELECT id, CAST(queue || ', ' || topic AS BLOB) FROM outbox
    WHERE {IS_DAMAGED} AND queue <> '@damaged'"""  # noqa: S608 -- constants
_COUNT = f"""INSERT INTO outbox_total
    SELECT queue, sum(delivered_ms IS NULL), sum(size * (delivered_ms IS NULL)),
           sum(size * (delivered_ms IS NOT NULL))
    FROM (SELECT *, {ROW_BYTES} + length(topic) + length(payload) AS size FROM outbox) GROUP BY queue"""  # noqa: S608 -- constants
# Extracting one value from JSON takes as long as the rest of a row, so rows share extracted values.
_APPEND = f"""WITH shared AS MATERIALIZED (SELECT key AS place,
        {", ".join(f"json_extract(value, '$[{k}]') AS s{k}" for k in range(5))} FROM json_each(?3))
    INSERT INTO outbox (queue, topic, due_ms, crc, payload, retain, until_ms, id_of_terms, from_ms, to_ms)
    SELECT {", ".join(f"json_extract(value, '$[{k}]')" for k in range(4))},
           substr(?2, json_extract(value, '$[4]'), json_extract(value, '$[5]')), s0, s1, s2, s3, s4
    FROM json_each(?1) CROSS JOIN shared ON place = json_extract(value, '$[6]')"""  # noqa: S608 -- constants


def append_commit(tx: sqlite3.Connection, commit: Commit) -> list[WaitingRow]:
    """Append a commit's messages, and store its descriptors; return the new rows."""
    tx.executemany("INSERT OR REPLACE INTO descriptor VALUES (?, ?, ?, ?)", commit.descriptors)
    return enqueue(tx, commit.outgoing)


def enqueue(tx: sqlite3.Connection, outgoing: Sequence[Outgoing]) -> list[WaitingRow]:
    """Append messages to their queues, after those with the same due time; return the new rows."""
    if not outgoing:
        return []
    rows, start, shared = [], 1, dict[tuple[object, ...], int]()
    for queue, topic, payload, due_ms, retain, slot, until_ms in outgoing:
        id_of_terms, from_ms, to_ms = slot or _NO_SLOT
        types, id_ = ("texttextnull", None) if id_of_terms is None else ("texttexttext", id_of_terms.encode())
        names, flag, size_bytes = (queue.encode(), topic.encode(), id_), int(retain), len(payload)
        crc = row_crc(types, *names, due_ms, flag, until_ms, from_ms, to_ms, payload) - 1
        place = shared.setdefault((flag, until_ms, id_of_terms, from_ms, to_ms), len(shared))
        rows.append((queue, topic, due_ms, crc, start, size_bytes, place))
        start += size_bytes
    payloads = b"".join([row.payload for row in outgoing] + [b"\0"])  # substr of an empty blob would be NULL
    last_id = tx.execute(_APPEND, (json_rows(rows), payloads, json_rows([*shared]))).lastrowid or 0
    return [
        WaitingRow(id_, row.due_ms, row.queue, row.topic, row.payload, row.retain, row.until_ms)
        for id_, row in enumerate(outgoing, last_id - len(outgoing) + 1)
    ]


def damaged_rows(connection: sqlite3.Connection, *, is_delivered: bool) -> dict[int, str]:
    """Return the queues and topics of damaged rows, by id: delivered rows if `is_delivered`, else waiting."""
    # The condition is a literal, so that SQLite uses the index of waiting rows.
    rows = connection.execute(f"{_DAMAGED} AND delivered_ms IS {'NOT NULL' if is_delivered else 'NULL'}")
    return {id_: bytes(name).decode(errors="replace") for id_, name in rows}


def hold_damaged(store: Store) -> list[str]:
    """Hold back damaged waiting rows, and recompute all totals; return the rows' queues and topics."""
    with store.transaction() as tx:
        names = damaged_rows(tx, is_delivered=False)
        tx.executemany("UPDATE outbox SET queue = '@damaged' WHERE id = ?", [(id_,) for id_ in names])
        tx.execute("DELETE FROM outbox_total")
        tx.execute(_COUNT)
    return list(names.values())


def pending_rows(
    connection: sqlite3.Connection, queue: str, now_ms: int, limit: int, after: tuple[float, float] = _START
) -> list[WaitingRow]:
    """Return a queue's first undelivered rows that are due, in the order (due, id), after the pair `after`.

    At most `limit` rows are returned, including rows that are being sent. Do not keep a position: a later
    commit may add a row that is due before one that was sent.
    """
    rows = connection.execute(
        "SELECT id, due_ms, topic, payload, retain, until_ms FROM outbox INDEXED BY outbox_waiting"
        " WHERE queue = ? AND delivered_ms IS NULL AND due_ms <= ? AND due_ms >= ?"
        " AND (due_ms, id) > (?, ?) ORDER BY due_ms, id LIMIT ?",
        (queue, now_ms, after[0], *after, limit),
    )
    return [
        WaitingRow(id_, due_ms, queue, topic, payload, bool(retain), until_ms)
        for id_, due_ms, topic, payload, retain, until_ms in rows
    ]


def last_due_ms(connection: sqlite3.Connection, queue: str, after_ms: int) -> dict[str, int]:
    """Return, for each topic of a queue with undelivered rows due after `after_ms`, when the last is due."""
    rows = connection.execute(
        "SELECT topic, max(due_ms) FROM outbox INDEXED BY outbox_waiting"
        " WHERE queue = ? AND delivered_ms IS NULL AND due_ms > ? GROUP BY topic",
        (queue, after_ms),
    )
    return {topic: int(due_ms) for topic, due_ms in rows}


def mark_delivered(tx: sqlite3.Connection, ids: Collection[int], now_ms: int) -> None:
    """Mark rows as delivered, but delete reports to a crowd. Marking a row twice has no effect."""
    rows = json.dumps(list(ids))
    tx.execute(
        "UPDATE outbox SET delivered_ms = ?1, crc = crc + 1 + ?1"
        " WHERE id IN (SELECT value FROM json_each(?2)) AND delivered_ms IS NULL",
        (now_ms, rows),
    )
    query = "DELETE FROM outbox WHERE id IN (SELECT value FROM json_each(?)) AND until_ms IS NOT NULL"
    tx.execute(query, (rows,))


def queue_depth(connection: sqlite3.Connection, queue: str) -> int:
    """Return the number of undelivered rows in a receiver's queue."""
    row = connection.execute("SELECT waiting FROM outbox_total WHERE queue = ?", (queue,)).fetchone()
    return int(row[0]) if row else 0


def prune_delivered(tx: sqlite3.Connection, before_ms: int, limit: int = PAGE_ROWS) -> int:
    """Delete at most `limit` rows delivered before `before_ms`, oldest first; return their number."""
    return tx.execute(
        "DELETE FROM outbox WHERE id IN (SELECT id FROM outbox INDEXED BY outbox_left"
        " WHERE delivered_ms IS NOT NULL AND delivered_ms < ? ORDER BY delivered_ms, id LIMIT ?)",
        (before_ms, limit),
    ).rowcount


def commit_bytes(commit: Commit) -> int:
    """Return the size in bytes of a commit's messages."""
    return sum(ROW_BYTES + len(row.topic) + len(row.payload) for row in commit.outgoing)


def total_bytes(connection: sqlite3.Connection) -> int:
    """Return the size in bytes of all rows, waiting and delivered."""
    query = "SELECT ifnull(sum(waiting_bytes + left_bytes), 0) FROM outbox_total"
    return int(connection.execute(query).fetchone()[0])


def make_room(store: Store, max_bytes: int, queues: Collection[str]) -> tuple[bool, int]:
    """Delete rows if the outbox is full; return whether there is room, and the number of dropped rows.

    There is room while the undelivered rows of `queues` take less than `max_bytes`. While all rows take
    more, each call deletes one page of rows: delivered ones, oldest first, or else undelivered ones of other
    queues (of streams that are no longer configured). Only undelivered rows count as dropped. The ledger is
    neither counted nor pruned.
    """
    rows = store.connection.execute("SELECT queue, waiting_bytes, left_bytes FROM outbox_total").fetchall()
    waiting_bytes = sum(waiting for queue, waiting, _ in rows if queue in queues)
    retired_queues = [queue for queue, waiting, _ in rows if waiting and queue not in queues]
    has_delivered, dropped_rows = any(delivered for *_, delivered in rows), 0
    if (has_delivered or retired_queues) and total_bytes(store.connection) >= max_bytes:
        with store.transaction() as tx:
            if not has_delivered:
                dropped_rows = drop_undelivered(tx, retired_queues[0], PAGE_ROWS)
            prune_delivered(tx, 2**63 - 1, PAGE_ROWS)
    return waiting_bytes < max_bytes, dropped_rows


def drop_undelivered(tx: sqlite3.Connection, queue: str, limit: int = -1) -> int:
    """Delete at most `limit` undelivered rows of a queue (-1: all), oldest first; return their number."""
    rows = tx.execute(
        "SELECT id FROM outbox INDEXED BY outbox_waiting"
        " WHERE queue = ? AND delivered_ms IS NULL ORDER BY due_ms, id LIMIT ?",
        (queue, limit),
    )
    ids = [id_ for (id_,) in rows]
    mark_delivered(tx, ids, 0)  # because the trigger subtracts a deleted row from the delivered total
    tx.execute("DELETE FROM outbox WHERE id IN (SELECT value FROM json_each(?))", (json.dumps(ids),))
    return len(ids)


def latest_descriptors(connection: sqlite3.Connection, queue: str) -> list[Descriptor]:
    """Return the latest descriptor of each topic of a queue; these are sent again on each connection."""
    query = "SELECT queue, topic, id, payload FROM descriptor WHERE queue = ? ORDER BY topic"
    return [Descriptor(*row) for row in connection.execute(query, (queue,))]


def descriptors_of(connection: sqlite3.Connection, queue: str, topic: str, privacy_topic: str) -> list[bytes]:
    """Return the payloads of a topic's latest descriptor and of recent descriptors on `privacy_topic`."""
    rows = connection.execute(
        "SELECT payload FROM descriptor WHERE queue = ?1 AND topic = ?2 UNION ALL"
        " SELECT payload FROM outbox WHERE id > (SELECT ifnull(max(id), 0) FROM outbox) - ?4"
        " AND queue = ?1 AND topic = ?3 AND retain",
        (queue, topic, privacy_topic, 20 * PAGE_ROWS),
    )
    return [bytes(payload) for (payload,) in rows]


def latest_records(connection: sqlite3.Connection, stream: str, topic: str, limit: int) -> list[bytes]:
    """Return the payloads of a topic's newest records in order, at most `limit`; search recent rows only."""
    rows = connection.execute(
        "SELECT payload FROM outbox WHERE id > (SELECT ifnull(max(id), 0) FROM outbox) - ?"
        " AND queue = ? AND topic = ? AND NOT retain ORDER BY id DESC LIMIT ?",
        (20 * PAGE_ROWS, stream, topic, limit),
    )
    return [bytes(payload) for (payload,) in rows][::-1]


def last_delivered(connection: sqlite3.Connection, stream: str, since_ms: int = 0) -> DeliveredRow | None:
    """Return the stream's last delivered message if it was delivered since `since_ms` and is still kept."""
    row = connection.execute(
        "SELECT queue, topic, payload, due_ms, delivered_ms FROM outbox INDEXED BY outbox_left"
        " WHERE delivered_ms IS NOT NULL AND delivered_ms >= ? AND queue = ?"
        " ORDER BY delivered_ms DESC, id DESC LIMIT 1",
        (since_ms, stream),
    ).fetchone()
    return None if row is None else DeliveredRow(*row)
