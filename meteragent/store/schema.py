"""What the store's file holds: its tables by version, and states and terms as JSON."""

import json
from collections.abc import Callable
from dataclasses import fields
from fractions import Fraction
from typing import Any

from meteragent.errors import StoreError
from meteragent.release import Band, Clock, Kind, OpenWindow, Slot, Space, Terms, TimelineState, Total

APPLICATION_ID = 0x4D455445
"""How the file says that it is ours."""

VERSION_1 = (
    f"PRAGMA application_id = {APPLICATION_ID}",
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID",
    """CREATE TABLE mark (channel TEXT, meter TEXT, end_ms INTEGER NOT NULL,
       PRIMARY KEY (channel, meter)) WITHOUT ROWID""",
    """CREATE TABLE terms (channel TEXT, id TEXT, terms TEXT NOT NULL,
       PRIMARY KEY (channel, id)) WITHOUT ROWID""",
    # Not keyed by meter: its rows must never move (rule 2 of the store).
    """CREATE TABLE state (id INTEGER PRIMARY KEY, channel TEXT NOT NULL, meter TEXT NOT NULL,
       state BLOB NOT NULL)""",
    "CREATE INDEX state_meter ON state (channel, meter)",
    """CREATE TABLE charge (meter TEXT, day_ms INTEGER, channel TEXT, epsilon TEXT,
       windows INTEGER NOT NULL, PRIMARY KEY (meter, day_ms, channel, epsilon)) WITHOUT ROWID""",
    """CREATE TABLE descriptor (channel TEXT, topic TEXT, id TEXT NOT NULL, payload BLOB NOT NULL,
       PRIMARY KEY (channel, topic)) WITHOUT ROWID""",
    # AUTOINCREMENT: an id is never given twice, so a late acknowledgement cannot hit another row.
    """CREATE TABLE outbox (id INTEGER PRIMARY KEY AUTOINCREMENT, channel TEXT NOT NULL,
       due_ms INTEGER NOT NULL, topic TEXT NOT NULL, payload BLOB NOT NULL, retain INTEGER NOT NULL,
       delivered_ms INTEGER)""",
    # Partial indexes: what waits costs the same however much has already left.
    "CREATE INDEX outbox_waiting ON outbox (channel, due_ms, id) WHERE delivered_ms IS NULL",
    "CREATE INDEX outbox_left ON outbox (delivered_ms, id) WHERE delivered_ms IS NOT NULL",
    # Totals by trigger: no path can forget them. 64: what a row costs beside topic and payload.
    """CREATE TABLE outbox_total (channel TEXT PRIMARY KEY, waiting INTEGER NOT NULL,
       waiting_bytes INTEGER NOT NULL, left_bytes INTEGER NOT NULL) WITHOUT ROWID""",
    """CREATE TRIGGER outbox_append AFTER INSERT ON outbox BEGIN
       INSERT INTO outbox_total
       VALUES (new.channel, 1, 64 + length(new.topic) + length(new.payload), 0)
       ON CONFLICT (channel) DO UPDATE SET waiting = waiting + 1,
       waiting_bytes = waiting_bytes + excluded.waiting_bytes; END""",
    """CREATE TRIGGER outbox_deliver AFTER UPDATE OF delivered_ms ON outbox BEGIN
       UPDATE outbox_total SET waiting = waiting - 1,
       waiting_bytes = waiting_bytes - 64 - length(new.topic) - length(new.payload),
       left_bytes = left_bytes + 64 + length(new.topic) + length(new.payload)
       WHERE channel = new.channel; END""",
    """CREATE TRIGGER outbox_prune AFTER DELETE ON outbox BEGIN
       UPDATE outbox_total SET left_bytes = left_bytes - 64 - length(old.topic) - length(old.payload)
       WHERE channel = old.channel; END""",
)

VERSION_2: tuple[str, ...] = ()
"""Terms may have bands: a program that does not know them would draw for the wrong slots."""

VERSION_3 = (
    """CREATE TABLE total (channel TEXT, label TEXT, total TEXT NOT NULL,
       PRIMARY KEY (channel, label)) WITHOUT ROWID""",
)
"""Running totals; and a slot may be masked: a program that does not know would release it as it is."""

MIGRATIONS: tuple[tuple[str, ...], ...] = (VERSION_1, VERSION_2, VERSION_3)
"""Step i takes a store from version i to i + 1, in one transaction. A step only adds, so that the
version before can use the result; one that cannot do so raises COMPATIBLE_FROM."""

COMPATIBLE_FROM = 3
"""The oldest version whose code can use a store of the newest."""


_compact = json.JSONEncoder(separators=(",", ":")).encode


def encode_state(state: TimelineState) -> bytes:
    """As JSON with named fields (a reader ignores those it does not know).

    Integers of any size are numbers, fractions are text, "p/q".
    """
    windows = [
        window._asdict() | {"slots": [(place, _number(kept)) for place, kept in window.slots]}
        for window in state.windows
    ]
    return _compact(state._asdict() | {"windows": windows}).encode()


def decode_state(text: bytes) -> TimelineState:
    """The inverse of `encode_state`, whatever zero bytes follow; raises StoreError."""
    try:
        known = json.loads(text.rstrip(b"\0"))
        known["windows"] = tuple(_decode_window(window) for window in known["windows"])
        return TimelineState(**{name: known[name] for name in TimelineState._fields})
    except (ValueError, TypeError, KeyError, ZeroDivisionError):
        raise StoreError("a state in the store is not readable") from None


def _decode_window(known: dict[str, Any]) -> OpenWindow:
    known["slots"] = tuple(Slot(index, _exact(accumulator)) for index, accumulator in known["slots"])
    known = OpenWindow._field_defaults | known
    return OpenWindow(**{name: known[name] for name in OpenWindow._fields})


def _number(accumulator: int | Fraction) -> int | str:
    return accumulator if isinstance(accumulator, int) else str(accumulator)


def _exact(found: int | str) -> int | Fraction:
    return Fraction(*map(int, found.split("/"))) if isinstance(found, str) else found


def encode_total(total: Total) -> str:
    """As a JSON list."""
    return _compact(total)


def decode_total(text: str) -> Total:
    """The inverse of `encode_total`; raises StoreError."""
    try:
        return Total(*json.loads(text))
    except (ValueError, TypeError):
        raise StoreError("a total in the store is not readable") from None


def _bands(known: list[Any]) -> tuple[Band, ...]:
    return tuple(Band(name, tuple((start, end) for start, end in stretches)) for name, stretches in known)


EXACT: dict[str, Callable[[Any], Any]] = {
    "kind": Kind,
    "clock": Clock,
    "level": Fraction,
    "radius": Fraction,
    "space": Space,
    "bands": _bands,
    "others_per_day": Fraction,
}
"""The fields of terms that JSON holds as text or lists."""


def encode_terms(terms: Terms) -> str:
    """As JSON; fractions as "1/220"."""
    return json.dumps({field.name: getattr(terms, field.name) for field in fields(Terms)}, default=str)


def decode_terms(text: str) -> Terms:
    """The inverse of `encode_terms`; a field that is not there has its default; raises StoreError."""
    try:
        known = json.loads(text)
        values = {field.name: known[field.name] for field in fields(Terms) if field.name in known}
        for name in EXACT.keys() & values.keys():
            values[name] = EXACT[name](values[name])
        return Terms(**values)
    except (ValueError, TypeError, KeyError):
        raise StoreError("terms in the store are not readable") from None
