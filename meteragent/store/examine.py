"""The examination of a store's content when the store is opened.

SQLite detects a malformed page, but not a changed number, or a string in place of a number. Whatever is
detected here counts as damage, and a damaged store is set aside. States, terms and prices have a checksum
(`schema`). In the other tables, the types of values are checked; so a changed number is noticed only if it is
impossible, such as an epsilon that is not positive.
"""

import json
import sqlite3
from contextlib import suppress
from fractions import Fraction
from typing import Any

from meteragent.domain.commit import OpenWindow
from meteragent.domain.errors import StoreError
from meteragent.domain.shapes import Accumulator, Metric
from meteragent.domain.terms import Terms
from meteragent.domain.units import UNITS, Kind
from meteragent.store.schema import decode_prices, decode_state, decode_terms, decode_total

_META: dict[str, tuple[type, ...]] = {
    "generation": (str,),
    "previous": (str,),
    "releases": (int,),
    "clock_ms": (int,),
    "floor_ms": (int,),
    "unknown_before_ms": (int, type(None)),
    "client_id": (str,),
    "secret": (bytes,),
}

_TYPES = {
    "the shard of a stream": "SELECT 1 FROM meta WHERE key GLOB 'shard/*' AND typeof(value) <> 'text'",
    "a mark": "SELECT 1 FROM mark WHERE (typeof(stream), typeof(meter), typeof(end_ms))"
    " <> ('text', 'text', 'integer')",
    "a charge": "SELECT 1 FROM charge WHERE (typeof(meter), typeof(day_ms), typeof(stream), typeof(windows))"
    " <> ('text', 'integer', 'text', 'integer')",
    "a descriptor": "SELECT 1 FROM descriptor WHERE"
    " (typeof(queue), typeof(topic), typeof(id), typeof(payload)) <> ('text', 'text', 'text', 'blob')",
    "a message": "SELECT 1 FROM outbox WHERE delivered_ms IS NULL AND"
    " ((typeof(queue), typeof(due_ms), typeof(topic), typeof(payload), typeof(retain))"
    " <> ('text', 'integer', 'text', 'blob', 'integer')"
    " OR (typeof(id_of_terms), typeof(from_ms), typeof(to_ms))"
    " NOT IN (VALUES ('text', 'integer', 'integer'), ('null', 'null', 'null'))"
    " OR typeof(until_ms) NOT IN ('integer', 'null'))",
    "a count of messages": "SELECT 1 FROM outbox_total WHERE"
    " (typeof(queue), typeof(waiting), typeof(waiting_bytes), typeof(left_bytes))"
    " <> ('text', 'integer', 'integer', 'integer')",
    "a receiver": "SELECT 1 FROM receiver WHERE"
    " (typeof(stream), typeof(name), typeof(topic), typeof(link), typeof(since_ms), typeof(discarded),"
    " typeof(receipt)) <> ('text', 'text', 'text', 'text', 'integer', 'integer', 'integer')"
    " OR typeof(until_ms) NOT IN ('integer', 'null')"
    " OR (typeof(revoked_ms), typeof(reason)) NOT IN (VALUES ('integer', 'text'), ('null', 'null'))",
    "a topic of a descriptor": "SELECT 1 FROM announced WHERE"
    " (typeof(queue), typeof(topic)) <> ('text', 'text')",
    "a count of sent records": "SELECT 1 FROM sent WHERE"
    " (typeof(queue), typeof(topic), typeof(id), typeof(records), typeof(from_ms), typeof(to_ms))"
    " <> ('text', 'text', 'text', 'integer', 'integer', 'integer')",
    "a list of keys": "SELECT 1 FROM crowd_keys WHERE"
    " (typeof(group_id), typeof(role), typeof(serial), typeof(list)) <> ('text', 'text', 'integer', 'blob')",
}
"""The queries that select a row with a value of the wrong type, by the content that they check."""

_TEXTS = (
    "SELECT stream, meter FROM mark",
    "SELECT stream, meter FROM state",
    "SELECT queue, topic, id FROM descriptor",
    "SELECT DISTINCT queue, topic, id_of_terms FROM outbox WHERE delivered_ms IS NULL",
    "SELECT stream, name, topic, link, reason FROM receiver",
    "SELECT queue, topic FROM announced",
    "SELECT queue, topic, id FROM sent",
    "SELECT group_id, role FROM crowd_keys",
)
"""Queries for columns that a start reads as text; reading bytes that are not UTF-8 raises an exception."""


def meta(connection: sqlite3.Connection, key: str) -> Any:
    """Return the value of `key` in the table `meta`. Raises StoreError if there is no such key."""
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    if row is None:
        raise _unreadable_error("a required value")
    return row[0]


def examine(connection: sqlite3.Connection) -> None:
    """Check the content that startup requires.

    Raises StoreError or sqlite3.Error if some content cannot be read.
    """
    for key, types in _META.items():
        if not isinstance(meta(connection, key), types):
            raise _unreadable_error("a required value")
    _examine_types(connection)
    for (link,) in connection.execute("SELECT link FROM receiver"):
        if not _has_url(link):
            raise _unreadable_error("a receiver")
    for _, epsilon in connection.execute("SELECT DISTINCT stream, epsilon FROM charge"):
        if not _is_positive(epsilon):
            raise _unreadable_error("a charge")
    _examine_states(connection)
    for (prices,) in connection.execute("SELECT value FROM meta WHERE key GLOB 'prices/*'"):
        decode_prices(prices)
    for (total,) in connection.execute("SELECT total FROM total"):
        decode_total(total)


def _examine_types(connection: sqlite3.Connection) -> None:
    """Check the types of values. Raises StoreError for a wrong type, sqlite3.Error for bytes as a string."""
    for content, query in _TYPES.items():
        if connection.execute(query).fetchone() is not None:
            raise _unreadable_error(content)
    for query in _TEXTS:
        for _ in connection.execute(query):
            pass


def _examine_states(connection: sqlite3.Connection) -> None:
    """Check that terms are usable, and that states agree with their terms and marks.

    Raises StoreError otherwise.
    """
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
        if not isinstance(state, bytes):
            raise _unreadable_error("a state")
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


def _is_positive(epsilon: object) -> bool:
    with suppress(ValueError, ZeroDivisionError):
        # A damaged string could be so long that converting it would take too long.
        return isinstance(epsilon, str) and len(epsilon) < 5000 and Fraction(epsilon) > 0
    return False


def _unreadable_error(content: str) -> StoreError:
    return StoreError(f"{content} in the store is not readable")


def _is_possible(window: OpenWindow, terms: Terms) -> bool:
    """Return whether a window under these terms can have this state."""
    slot_indexes = [slot.slot_index for slot in window.slots]
    shape, needs_noise_bound = terms.shape, terms.metric is Metric.LINF and window.draws < terms.n
    return (
        (0 <= window.draws <= terms.n or (shape.is_redrawn and window.draws > 0))
        and (window.noise_bound is not None) == needs_noise_bound
        and (window.noise_bound or 0) >= 0
        and (window.sealed_pad is not None) == (shape.accumulator is Accumulator.SHARE)
        and slot_indexes
        == sorted({index for index in slot_indexes if 0 <= index < min(window.draws, terms.n)})
        and (
            window.masked_slot is None or (shape.is_difference_stored and window.masked_slot in slot_indexes)
        )
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
        and all(terms.lattice(index) > 0 for index in range(terms.n) if terms.slot_ms(index))
    )
