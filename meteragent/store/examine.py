"""The examination of a store's content when the store is opened; what it detects is damage.

SQLite detects a malformed page, but not a changed number, or a string in place of a number. States, terms,
prices, marks, charges and messages have a checksum (`schema`); a damaged message alone is held back (`held`).
In the other tables, types are checked, so a changed number is noticed only if it is impossible.
"""

import json
import sqlite3
from contextlib import suppress
from typing import Any, Final, NamedTuple

from meteragent.domain.commit import OpenWindow
from meteragent.domain.errors import StoreError
from meteragent.domain.shapes import Accumulator
from meteragent.domain.terms import Terms
from meteragent.domain.units import UNITS, Kind
from meteragent.store.schema import decode_prices, decode_state, decode_terms, decode_total


class _Rows(NamedTuple):
    """Rows to check: what they hold, where they are, the types of their columns, and what else is wrong."""

    content: str
    table: str
    types: str
    wrong: str = "false"


_ROWS = (
    _Rows("a required value", "meta WHERE key IN ('generation', 'previous', 'client_id')", "value text"),
    _Rows("a required value", "meta WHERE key IN ('releases', 'clock_ms', 'floor_ms')", "value integer"),
    _Rows("a required value", "meta WHERE key = 'unknown_before_ms'", "value integer?"),
    _Rows("a required value", "meta WHERE key = 'secret'", "value blob"),
    _Rows("the time of a commit", "meta WHERE key = 'boot'", "value text"),
    _Rows("the shard of a stream", "meta WHERE key GLOB 'shard/*'", "value text"),
    _Rows("a mark", "mark", "end_ms integer", "crc IS NOT row_crc(stream, meter, end_ms)"),
    _Rows("a state", "state", "stream text, meter text, state blob"),
    _Rows(
        "a charge",
        "charge",
        "windows integer",
        "crc - windows IS NOT row_crc(meter, day_ms, stream, epsilon)",
    ),
    _Rows("a descriptor", "descriptor", "queue text, topic text, id text, payload blob"),
    _Rows("a message", "outbox WHERE delivered_ms IS NULL", "queue text, topic text, id_of_terms text?"),
    _Rows(
        "a count of messages",
        "outbox_total",
        "queue text, waiting integer, waiting_bytes integer, left_bytes integer",
    ),
    _Rows(
        "a receiver",
        "receiver",
        "stream text, name text, topic text, link text, since_ms integer, until_ms integer?,"
        " revoked_ms integer?, reason text?, discarded integer, receipt integer",
        "(revoked_ms IS NULL) <> (reason IS NULL)",
    ),
    _Rows("a topic of a descriptor", "announced", "queue text, topic text"),
    _Rows(
        "a count of sent records",
        "sent",
        "queue text, topic text, id text, records integer, from_ms integer, to_ms integer",
    ),
    _Rows("a list of keys", "crowd_keys", "group_id text, role text, serial integer, list blob"),
)

_REQUIRED: Final = object()


def meta_value(connection: sqlite3.Connection, key: str, default: Any = _REQUIRED) -> Any:
    """Return a value of the table `meta`, or the default. Raises StoreError if there is neither."""
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    if row is None and default is _REQUIRED:
        raise _unreadable_error("a required value")
    return default if row is None else row[0]


def examine_content(connection: sqlite3.Connection) -> None:
    """Check the content that startup requires. Raises StoreError or sqlite3.Error if it cannot be read."""
    for key in ("generation", "previous", "client_id", "releases", "clock_ms", "floor_ms", "secret"):
        meta_value(connection, key)
    meta_value(connection, "unknown_before_ms")
    for rows in _ROWS:
        _examine_rows(connection, rows)
    for (link,) in connection.execute("SELECT link FROM receiver"):
        if not _has_url(link):
            raise _unreadable_error("a receiver")
    _examine_states(connection)
    for (prices,) in connection.execute("SELECT value FROM meta WHERE key GLOB 'prices/*'"):
        decode_prices(prices)
    for (total,) in connection.execute("SELECT total FROM total"):
        decode_total(total)


def _examine_rows(connection: sqlite3.Connection, rows: _Rows) -> None:
    """Check the types of values. Raises StoreError for a wrong type, sqlite3.Error for bytes as a string."""
    types = dict(column.split() for column in rows.types.split(", "))
    wrong = [
        f"typeof({name}) NOT IN ('{type_.rstrip('?')}', '{'null' if type_.endswith('?') else ''}')"
        for name, type_ in types.items()
    ]
    table = f"FROM (SELECT * FROM {rows.table})"  # noqa: S608 -- a constant
    conditions = " OR ".join([*wrong, rows.wrong])
    if connection.execute(f"SELECT 1 {table} WHERE {conditions}").fetchone() is not None:
        raise _unreadable_error(rows.content)
    # A start reads texts as such, which fails if they are not UTF-8.
    texts = [name for name, type_ in types.items() if type_.startswith("text")]
    if texts:
        connection.execute(f"SELECT DISTINCT {', '.join(texts)} {table}").fetchall()


def _examine_states(connection: sqlite3.Connection) -> None:
    """Raise StoreError unless terms are usable, and states agree with their terms and marks."""
    terms_by_id: dict[tuple[str, str], Terms] = {}
    for stream, id_, text in connection.execute("SELECT stream, id, terms FROM terms"):
        terms_by_id[stream, id_] = decode_terms(text)
        if not _are_usable(terms_by_id[stream, id_]):
            raise _unreadable_error("a stream's terms")
    rows = connection.execute(
        "SELECT state.stream, state.state, mark.end_ms FROM state LEFT JOIN mark"
        " ON mark.stream = state.stream AND mark.meter = state.meter"
    )
    for stream, state, mark_ms in rows:
        # A state that consists of zeros was blanked on purpose: it outgrew its row, its meter was forgotten,
        # or its windows were abandoned.
        for window in decode_state(state).windows if state.strip(b"\0") else ():
            terms = terms_by_id.get((stream, window.terms_id))
            if terms is None or not _is_possible(window, terms):
                raise _unreadable_error("a state")
            if mark_ms is None or window.start_ms + terms.length_ms > mark_ms:
                raise _unreadable_error("a mark")


def _has_url(link: str) -> bool:
    """Return whether a link, the text of a broker's settings, contains the broker's address."""
    with suppress(ValueError, TypeError, KeyError, RecursionError):
        return isinstance(json.loads(link)["url"], str)
    return False


def _unreadable_error(content: str) -> StoreError:
    return StoreError(f"{content} in the store is not readable")


def _is_possible(window: OpenWindow, terms: Terms) -> bool:
    """Return whether a window under these terms can have this state."""
    slot_indexes = [slot.slot_index for slot in window.slots]
    shape, needs_noise_bound = terms.shape, not terms.metric.is_sum and window.draws < terms.n
    return (
        (0 <= window.draws <= terms.n or (shape.is_redrawn and window.draws > 0))
        and (window.noise_bound is not None) == needs_noise_bound
        and (window.noise_bound or 0) >= 0
        and (window.sealed_pad is not None) == (shape.accumulator is Accumulator.SHARE)
        and slot_indexes == sorted(set(slot_indexes))
        and set(slot_indexes) <= set(range(min(window.draws, terms.n)))
        and window.masked_slot in (None, *(slot_indexes if shape.is_difference_stored else ()))
    )


def _are_usable(terms: Terms) -> bool:
    """Return whether a mechanism and a grid can be built from the terms."""
    shape, readings = terms.shape, terms.readings
    return (
        readings.unit in UNITS[readings.kind]
        and (readings.kind is Kind.POWER or readings.interval_ms > 0)
        and shape.is_sound()
        and terms.metric in shape.metrics
        and readings.kind in shape.kinds
        and tuple(band.name for band in terms.places) == shape.names
        and all(size > 0 for size in (terms.level, terms.radius, terms.quantum_u))
        and all(terms.steps_per_quantum[index] > 0 for index in range(terms.n) if terms.slot_ms(index))
    )
