"""The content of a store's file, read by plain SQL, independently of `meteragent.store`."""

import json
from collections.abc import Iterator
from fractions import Fraction
from sqlite3 import Connection
from typing import Any

from meteragent.domain.commit import Destination, OpenWindow, Outgoing, SealedPad, Slot, TimelineState


def marks(connection: Connection, stream: str) -> dict[str, int]:
    """Return the marks of a stream by meter."""
    return dict(connection.execute("SELECT meter, end_ms FROM mark WHERE stream = ?", (stream,)))


def states(connection: Connection, stream: str) -> dict[str, TimelineState]:
    """Return the states of a stream by meter; a state that is blank was moved or discarded."""
    rows = connection.execute("SELECT meter, state FROM state WHERE stream = ?", (stream,))
    return {meter: _state(json.loads(text)) for meter, blob in rows if (text := blob.rstrip(b"\0"))}


def _state(fields: dict[str, Any]) -> TimelineState:
    del fields["crc"]
    return TimelineState(**fields | {"windows": tuple(map(_window, fields["windows"]))})


def _window(fields: dict[str, Any]) -> OpenWindow:
    pad = fields["sealed_pad"] and SealedPad(*map(bytes.fromhex, _values(fields["sealed_pad"])))
    slots = tuple(Slot(*slot) for slot in fields["slots"])
    destinations = tuple(Destination(*place) for place in fields["destinations"])
    return OpenWindow(**fields | {"slots": slots, "destinations": destinations, "sealed_pad": pad})


def _values(pad: Any) -> list[str]:
    return [pad[name] for name in SealedPad._fields] if isinstance(pad, dict) else list(pad)


def prices(connection: Connection, stream: str) -> tuple[tuple[int, ...], ...]:
    """Return the prices of a stream."""
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (f"prices/{stream}",)).fetchone()
    return tuple(map(tuple, json.loads(row[0])["prices"])) if row else ()


def waiting(connection: Connection, queue: str) -> dict[int, Outgoing]:
    """Return the messages of a queue that are not delivered, by id."""
    query = "SELECT id, queue, topic, payload, due_ms, retain, until_ms FROM outbox"
    rows = connection.execute(f"{query} WHERE queue = ? AND delivered_ms IS NULL", (queue,))
    return {
        id_: Outgoing(to, topic, payload, due_ms, bool(retain), until_ms=until_ms)
        for id_, to, topic, payload, due_ms, retain, until_ms in rows
    }


def count_reports(connection: Connection) -> int:
    """Return the number of reports to crowds."""
    [(count,)] = connection.execute("SELECT count(*) FROM outbox WHERE until_ms IS NOT NULL")
    return int(count)


def charges(connection: Connection) -> Iterator[tuple[tuple[str, int, str], int, Fraction]]:
    """Yield the meter, day and stream of each charge, its number of windows, and epsilon for one of them."""
    query = "SELECT meter, day_ms, stream, windows, epsilon FROM charge"
    for *key, windows, epsilon in connection.execute(query):
        meter, day_ms, stream = key
        yield (meter, day_ms, stream), windows, Fraction(epsilon)


def grants(connection: Connection) -> list[tuple[int, str, str, str, int, int | None]]:
    """Return the id, stream, name, topic, start and end of all grants that are not revoked."""
    query = "SELECT id, stream, name, topic, since_ms, until_ms FROM receiver WHERE revoked_ms IS NULL"
    return connection.execute(query + " ORDER BY id").fetchall()


def actions(connection: Connection) -> list[tuple[str, str]]:
    """Return all actions on receivers, in order: the receiver, and what was done."""
    return connection.execute("SELECT receiver, verb FROM action ORDER BY id").fetchall()


def descriptors(connection: Connection, queue: str) -> dict[str, bytes]:
    """Return the latest descriptor of each topic of a queue."""
    return dict(connection.execute("SELECT topic, payload FROM descriptor WHERE queue = ?", (queue,)))
