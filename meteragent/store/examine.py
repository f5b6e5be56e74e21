"""The examination of a store's content when the store is opened, which raises `Damage`.

SQLite detects a malformed page or index, but not a changed number or name. So each row has a checksum
(`schema.SUMS`). If only a message is damaged, it is held back, and the rest is used (`outbox.hold_damaged`).
"""

import sqlite3
from typing import Any, Final

from meteragent.domain.commit import OpenWindow
from meteragent.domain.errors import StoreError
from meteragent.domain.shapes import Accumulator
from meteragent.domain.terms import Terms
from meteragent.domain.units import UNITS, Kind
from meteragent.store.schema import SUMS, TABLES, decode_state, decode_terms


class Damage(StoreError):
    """The reason why a file cannot be used as the store."""


_ROWS = {
    "meta": ("a required value", "key"),
    "mark": ("a mark", "stream, meter"),
    "terms": ("a stream's terms", "stream"),
    "state": ("a state", "stream, meter"),
    "charge": ("a charge", "meter, stream"),
    "descriptor": ("a descriptor", "queue, topic"),
    "total": ("a total", "stream, public_id"),
    "receiver": ("a receiver", "stream, name"),
    "action": ("an action on a receiver", "receiver, verb"),
    "announced": ("a topic of a descriptor", "queue, topic"),
    "sent": ("a count of sent records", "queue, topic"),
    "crowd_keys": ("a list of keys", "group_id, role"),
}
"""For each table, the name of a row in messages, and the columns that identify a row."""

_REQUIRED: Final = object()


def meta_value(connection: sqlite3.Connection, key: str, default: Any = _REQUIRED) -> Any:
    """Return a value of the table `meta`, or the default. Raises Damage if both are missing."""
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    if row is None and default is _REQUIRED:
        raise _unreadable_error("a required value", key)
    return default if row is None else row[0]


def examine_content(connection: sqlite3.Connection) -> None:
    """Check the content that startup requires. Raises Damage or sqlite3.Error if it cannot be read."""
    for key in ("generation", "previous", "client_id", "releases", "clock_ms", "floor_ms", "secret"):
        meta_value(connection, key)
    meta_value(connection, "unknown_before_ms")
    definitions = {sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master")}
    if not definitions.issuperset(TABLES[2:]):
        raise _unreadable_error("a table")
    for table, (noun, names) in _ROWS.items():
        query = f"SELECT {names} FROM {table} WHERE crc IS NOT {SUMS[table]}"  # noqa: S608 -- constants
        for row in connection.execute(query):
            raise _unreadable_error(noun, row)
    _examine_states(connection)


def _examine_states(connection: sqlite3.Connection) -> None:
    """Raise Damage unless terms are usable, and states agree with their terms and marks."""
    terms_by_id: dict[tuple[str, str], Terms] = {}
    for stream, id_, text in connection.execute("SELECT stream, id, terms FROM terms"):
        terms_by_id[stream, id_] = decode_terms(text)
        if not _are_usable(terms_by_id[stream, id_]):
            raise _unreadable_error("a stream's terms", stream)
    rows = connection.execute(
        "SELECT state.stream, state.meter, state.state, mark.end_ms FROM state LEFT JOIN mark"
        " ON mark.stream = state.stream AND mark.meter = state.meter"
    )
    for stream, meter, state, mark_ms in rows:
        # A state that consists of zeros was blanked on purpose: it outgrew its row, its meter was forgotten,
        # or its windows were abandoned.
        try:
            windows = decode_state(state).windows if state.strip(b"\0") else ()
        except StoreError:
            raise _unreadable_error("a state", (stream, meter)) from None
        for window in windows:
            terms = terms_by_id.get((stream, window.terms_id))
            if terms is None or not _is_possible(window, terms):
                raise _unreadable_error("a state", (stream, meter))
            if mark_ms is None or window.start_ms + terms.length_ms > mark_ms:
                raise _unreadable_error("a mark", (stream, meter))


def _unreadable_error(content: str, *name: object) -> Damage:
    return Damage(" ".join([content, *map(ascii, name), "in the store is not readable"]))


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
