"""The content of the store's file: the tables; states, terms, totals and prices as JSON; batches of rows."""

import json
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar
from zlib import crc32

from meteragent.domain.codec import decode, encode
from meteragent.domain.commit import OpenWindow, TimelineState, Total
from meteragent.domain.errors import StoreError
from meteragent.domain.prices import Price
from meteragent.domain.terms import Terms

T = TypeVar("T")

APPLICATION_ID = 0x4D455445
"""The application id by which a SQLite file is recognised as a store."""

VERSION = 1
"""The version of the schema; a store of any other version is refused and not changed."""

SUMS = {
    "meta": "row_crc(key, value)",
    "mark": "row_crc(stream, meter) + end_ms",
    "terms": "row_crc(stream, id, terms)",
    "state": "row_crc(id, stream, meter, typeof(state))",  # a state contains its own sum (`encode_state`)
    "charge": "row_crc(meter, day_ms, stream, epsilon) + windows",
    "descriptor": "row_crc(queue, topic, id, payload)",
    # Invalid UTF-8 in a text would raise an error, instead of only holding back the damaged message.
    "outbox": "row_crc(typeof(queue) || typeof(topic) || typeof(id_of_terms), CAST(queue AS BLOB),"
    " CAST(topic AS BLOB), CAST(id_of_terms AS BLOB), due_ms, retain, until_ms, from_ms, to_ms, payload)"
    " + ifnull(delivered_ms, -1)",
    "total": "row_crc(stream, public_id, total)",
    "receiver": "row_crc(id, stream, name, topic, link, since_ms, until_ms, revoked_ms, reason, discarded,"
    " receipt)",
    "action": "row_crc(id, receiver, verb, origin, at_ms)",
    "announced": "row_crc(queue, topic)",
    "sent": "row_crc(queue, topic, id) + records + from_ms + to_ms",
    "crowd_keys": "row_crc(group_id, role, serial, list)",
}
"""The checksum of a row of each table, its column `crc`. Numbers that increase are added to the checksum, so
that one statement increases a number and its checksum."""


def _sum_column(table: str) -> str:
    """Return the checksum column as computed by SQLite, for a table with few rows in each commit."""
    return f"crc INTEGER AS ({SUMS[table]}) STORED"


TABLES = (
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {VERSION}",
    f"CREATE TABLE meta (key TEXT PRIMARY KEY, value, {_sum_column('meta')}) WITHOUT ROWID",
    """CREATE TABLE mark (stream TEXT, meter TEXT, end_ms INTEGER NOT NULL,
       crc INTEGER NOT NULL, PRIMARY KEY (stream, meter)) WITHOUT ROWID""",
    f"""CREATE TABLE terms (stream TEXT, id TEXT, terms TEXT NOT NULL, {_sum_column("terms")},
       PRIMARY KEY (stream, id)) WITHOUT ROWID""",
    # The key is not the meter, because rows must never move (rule 2 of the store).
    """CREATE TABLE state (id INTEGER PRIMARY KEY, stream TEXT NOT NULL, meter TEXT NOT NULL,
       crc INTEGER NOT NULL, state BLOB NOT NULL)""",
    "CREATE INDEX state_meter ON state (stream, meter)",
    """CREATE TABLE charge (meter TEXT, day_ms INTEGER, stream TEXT, epsilon TEXT,
       windows INTEGER NOT NULL, crc INTEGER NOT NULL,
       PRIMARY KEY (meter, day_ms, stream, epsilon)) WITHOUT ROWID""",
    f"""CREATE TABLE descriptor (queue TEXT, topic TEXT, id TEXT NOT NULL, payload BLOB NOT NULL,
       {_sum_column("descriptor")}, PRIMARY KEY (queue, topic)) WITHOUT ROWID""",
    # AUTOINCREMENT never assigns an id twice, so a late acknowledgement cannot refer to another row.
    """CREATE TABLE outbox (id INTEGER PRIMARY KEY AUTOINCREMENT, queue TEXT NOT NULL,
       due_ms INTEGER NOT NULL, topic TEXT NOT NULL, payload BLOB NOT NULL, retain INTEGER NOT NULL,
       delivered_ms INTEGER, id_of_terms TEXT, from_ms INTEGER, to_ms INTEGER, until_ms INTEGER,
       crc INTEGER NOT NULL)""",
    # With partial indexes, the time to find waiting rows does not depend on the number of delivered rows.
    "CREATE INDEX outbox_waiting ON outbox (queue, due_ms, id) WHERE delivered_ms IS NULL",
    "CREATE INDEX outbox_left ON outbox (delivered_ms, id) WHERE delivered_ms IS NOT NULL",
    # Triggers keep the totals up to date, so no code path can forget to. 64 is the size of a row without
    # topic and payload.
    """CREATE TABLE outbox_total (queue TEXT PRIMARY KEY, waiting INTEGER NOT NULL,
       waiting_bytes INTEGER NOT NULL, left_bytes INTEGER NOT NULL) WITHOUT ROWID""",
    """CREATE TRIGGER outbox_append AFTER INSERT ON outbox BEGIN
       INSERT INTO outbox_total
       VALUES (new.queue, 1, 64 + length(new.topic) + length(new.payload), 0)
       ON CONFLICT (queue) DO UPDATE SET waiting = waiting + 1,
       waiting_bytes = waiting_bytes + excluded.waiting_bytes; END""",
    """CREATE TRIGGER outbox_deliver AFTER UPDATE OF delivered_ms ON outbox BEGIN
       UPDATE outbox_total SET waiting = waiting - 1,
       waiting_bytes = waiting_bytes - 64 - length(new.topic) - length(new.payload),
       left_bytes = left_bytes + 64 + length(new.topic) + length(new.payload)
       WHERE queue = new.queue; END""",
    """CREATE TRIGGER outbox_prune AFTER DELETE ON outbox BEGIN
       UPDATE outbox_total SET left_bytes = left_bytes - 64 - length(old.topic) - length(old.payload)
       WHERE queue = old.queue; END""",
    f"""CREATE TABLE total (stream TEXT, public_id TEXT, total TEXT NOT NULL, {_sum_column("total")},
       PRIMARY KEY (stream, public_id)) WITHOUT ROWID""",
    # The grants: one row for each admission of a receiver, never deleted. `link` has the settings of the
    # receiver's broker.
    f"""CREATE TABLE receiver (id INTEGER PRIMARY KEY AUTOINCREMENT, stream TEXT NOT NULL, name TEXT NOT NULL,
       topic TEXT NOT NULL, link TEXT NOT NULL, since_ms INTEGER NOT NULL, until_ms INTEGER,
       revoked_ms INTEGER, reason TEXT, discarded INTEGER NOT NULL DEFAULT 0,
       receipt INTEGER NOT NULL DEFAULT 0, {_sum_column("receiver")})""",
    # What a person has done to receivers; a receiver's last row is its state.
    f"""CREATE TABLE action (id INTEGER PRIMARY KEY AUTOINCREMENT, receiver TEXT NOT NULL, verb TEXT NOT NULL,
       origin TEXT NOT NULL, at_ms INTEGER NOT NULL, {_sum_column("action")})""",
    # The topics on which a grant's descriptors may be retained, to be withdrawn when the grant is revoked.
    f"""CREATE TABLE announced (queue TEXT, topic TEXT, {_sum_column("announced")},
       PRIMARY KEY (queue, topic)) WITHOUT ROWID""",
    # The records that the broker of a grant's receiver has confirmed, for the receipt.
    """CREATE TABLE sent (queue TEXT, topic TEXT, id TEXT, records INTEGER NOT NULL, from_ms INTEGER NOT NULL,
       to_ms INTEGER NOT NULL, crc INTEGER NOT NULL, PRIMARY KEY (queue, topic, id)) WITHOUT ROWID""",
    # The newest list of keys of each operator of a crowd; its serial never falls.
    f"""CREATE TABLE crowd_keys (group_id TEXT, role TEXT, serial INTEGER NOT NULL, list BLOB NOT NULL,
       {_sum_column("crowd_keys")}, PRIMARY KEY (group_id, role)) WITHOUT ROWID""",
)
"""The statements that make a new store."""


def row_crc(*values: object) -> int:
    """Return the checksum of the values of a row; also registered as an SQL function."""
    return crc32(repr(values).encode())


_quoted = json.encoder.encode_basestring_ascii
_SUM = ',"crc":'
_UNREADABLE = (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, RecursionError)


def seal(text: str) -> str:
    """Add its CRC-32 to a JSON object, as the last field; SQLite does not detect a changed digit."""
    return f"{text[:-1]}{_SUM}{crc32(text.encode())}}}"


def unseal(text: str) -> str:
    """Return the JSON object that `seal` was given. Raises ValueError if its CRC is missing or wrong."""
    body = f"{text.rpartition(_SUM)[0]}}}"
    if text != seal(body):
        raise ValueError("wrong CRC")
    return body


def encode_state(state: TimelineState) -> bytes:
    """Encode a state like `seal`, but faster, because every commit writes a state for each of its meters."""
    windows = ",".join([_encode_window(window) for window in state.windows])
    text = (
        f'{{"integrated_until_ms":{state.integrated_until_ms},"standing_ms":{_number_or_null(state.standing_ms)},'
        f'"newest_ms":{_number_or_null(state.newest_ms)},"next_ms":{state.next_ms},'
        f'"idle_windows":{state.idle_windows},"windows":[{windows}]'
    ).encode()
    return b"%b%b%d}" % (text, _SUM.encode(), crc32(b"}", crc32(text)))


def _encode_window(window: OpenWindow) -> str:
    slots = ",".join([f"[{slot_index},{accumulator}]" for slot_index, accumulator in window.slots])
    destinations = ",".join([f"[{_quoted(queue)},{_quoted(topic)}]" for queue, topic in window.destinations])
    pad = "null" if window.sealed_pad is None else encode(window.sealed_pad)
    return (
        f'{{"start_ms":{window.start_ms},"terms_id":{_quoted(window.terms_id)},'
        f'"destinations":[{destinations}],"public_id":{_quoted(window.public_id)},'
        f'"noise_bound":{_number_or_null(window.noise_bound)},"draws":{window.draws},"slots":[{slots}],'
        f'"masked_slot":{_number_or_null(window.masked_slot)},"sealed_pad":{pad}}}'
    )


def _number_or_null(value: int | None) -> int | str:
    return "null" if value is None else value


def _decode_any(kind: type[T], text: str | bytes, noun: str) -> T:
    """Decode a value of type `kind`; bytes must be sealed. Raises StoreError if the text is invalid."""
    with suppress(*_UNREADABLE):
        return decode(kind, unseal(text.decode()) if isinstance(text, bytes) else text)
    raise StoreError(f"{noun} in the store is not readable") from None


def decode_state(text: bytes) -> TimelineState:
    """Decode a state, and ignore trailing zero bytes. Raises StoreError if it cannot be decoded."""
    return _decode_any(TimelineState, text.rstrip(b"\0"), "a state")


def decode_total(text: str) -> Total:
    """Decode a running total. Raises StoreError if it cannot be decoded."""
    return _decode_any(Total, text, "a total")


@dataclass(frozen=True)
class _Prices:
    """The prices of a stream."""

    prices: tuple[Price, ...]


def encode_prices(prices: Iterable[Price]) -> str:
    """Encode prices."""
    return encode(_Prices(tuple(prices)))


def decode_prices(text: Any) -> tuple[Price, ...]:
    """Decode prices. Raises StoreError if they cannot be decoded."""
    return _decode_any(_Prices, text, "a list of prices").prices


def decode_terms(text: str) -> Terms:
    """Decode terms. Raises StoreError if they cannot be decoded."""
    return _decode_any(Terms, text, "a stream's terms")


_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


def json_rows(rows: Any) -> str:
    """Return rows, or a mapping of names to values, as JSON for SQLite's `json_each`.

    SQLite runs one statement with one parameter without the interpreter lock, which the store's thread would
    otherwise need for each row. Raises StoreError for a string with a NUL, at which SQLite would cut it.
    """
    text = json.dumps(rows)
    if "\\u0000" in text and _NUL.search(text):
        raise StoreError("a name with a NUL cannot be stored")
    return text
