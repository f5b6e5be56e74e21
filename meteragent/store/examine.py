"""The examination of a store's content when the store is opened.

SQLite detects a malformed page, but not a changed number, or a string in place of a number. Whatever is
detected here counts as damage, and a damaged store is set aside. States, terms and prices have a checksum
(`schema`), unless an early version wrote them. In the other tables, the types of values are checked; so a
changed number is noticed only if it is impossible, such as an epsilon that is not positive.
"""

import json
import sqlite3
from collections.abc import Iterable
from contextlib import suppress
from fractions import Fraction
from typing import Any

from meteragent.domain.commit import OpenWindow
from meteragent.domain.errors import StoreError
from meteragent.domain.shape import UNKNOWN_BAND, Metric, Space
from meteragent.domain.terms import Terms
from meteragent.domain.units import UNITS, Kind
from meteragent.store.schema import decode_prices, decode_state, decode_terms, decode_total

_META: dict[str, tuple[type, ...]] = {
    "generation": (str,),
    "previous": (str,),
    "clock_ms": (int,),
    "floor_ms": (int,),
    "unknown_before_ms": (int, type(None)),
    "client_id": (str,),
    "secret": (bytes,),
}

_TYPES = {
    "the shard of a stream": "SELECT 1 FROM meta WHERE key GLOB 'shard/*' AND typeof(value) <> 'text'",
    "a mark": "SELECT 1 FROM mark WHERE (typeof(channel), typeof(meter), typeof(end_ms))"
    " <> ('text', 'text', 'integer')",
    "a charge": "SELECT 1 FROM charge WHERE (typeof(meter), typeof(day_ms), typeof(channel), typeof(windows))"
    " <> ('text', 'integer', 'text', 'integer')",
    "a descriptor": "SELECT 1 FROM descriptor WHERE"
    " (typeof(channel), typeof(topic), typeof(id), typeof(payload)) <> ('text', 'text', 'text', 'blob')",
    "a message": "SELECT 1 FROM outbox WHERE delivered_ms IS NULL AND"
    " (typeof(channel), typeof(due_ms), typeof(topic), typeof(payload), typeof(retain))"
    " <> ('text', 'integer', 'text', 'blob', 'integer')",
    "a count of messages": "SELECT 1 FROM outbox_total WHERE"
    " (typeof(channel), typeof(waiting), typeof(waiting_bytes), typeof(left_bytes))"
    " <> ('text', 'integer', 'integer', 'integer')",
}
"""The queries that select a row with a value of the wrong type, by the content that they check."""

_TYPES_5 = {
    "a receiver": "SELECT 1 FROM receiver WHERE"
    " (typeof(channel), typeof(name), typeof(topic), typeof(link), typeof(since_ms), typeof(discarded),"
    " typeof(receipt)) <> ('text', 'text', 'text', 'text', 'integer', 'integer', 'integer')"
    " OR typeof(until_ms) NOT IN ('integer', 'null')"
    " OR (typeof(revoked_ms), typeof(reason)) NOT IN (VALUES ('integer', 'text'), ('null', 'null'))",
    "a topic of a descriptor": "SELECT 1 FROM announced WHERE"
    " (typeof(queue), typeof(topic)) <> ('text', 'text')",
    "a count of sent records": "SELECT 1 FROM sent WHERE"
    " (typeof(queue), typeof(topic), typeof(id), typeof(records), typeof(from_ms), typeof(to_ms))"
    " <> ('text', 'text', 'text', 'integer', 'integer', 'integer')",
    "the slot of a message": "SELECT 1 FROM outbox WHERE delivered_ms IS NULL AND"
    " (typeof(id_of_terms), typeof(from_ms), typeof(to_ms))"
    " NOT IN (VALUES ('text', 'integer', 'integer'), ('null', 'null', 'null'))",
}
"""Such queries for the tables and columns that version 5 added."""

_TYPES_6 = {
    "a list of keys": "SELECT 1 FROM crowd_keys WHERE"
    " (typeof(group_id), typeof(role), typeof(serial), typeof(list)) <> ('text', 'text', 'integer', 'blob')",
    "the deadline of a message": "SELECT 1 FROM outbox WHERE delivered_ms IS NULL AND"
    " typeof(until_ms) NOT IN ('integer', 'null')",
}
"""Such queries for the tables and columns that version 6 added."""

_TEXTS = (
    "SELECT channel, meter FROM mark",
    "SELECT channel, meter FROM state",
    "SELECT channel, topic, id FROM descriptor",
    "SELECT DISTINCT channel, topic FROM outbox WHERE delivered_ms IS NULL",
)
_TEXTS_5 = (
    "SELECT channel, name, topic, link, reason FROM receiver",
    "SELECT queue, topic FROM announced",
    "SELECT queue, topic, id FROM sent",
    "SELECT DISTINCT id_of_terms FROM outbox WHERE delivered_ms IS NULL",
)
"""Queries for columns that a start reads as text; reading bytes that are not UTF-8 raises an exception.
`_TEXTS_5` is for the tables and columns that version 5 added."""


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
    [(version,)] = connection.execute("PRAGMA user_version")
    _examine_rows(connection, _TYPES, _TEXTS)
    if version >= 5:
        _examine_receivers(connection)
    if version >= 6:
        _examine_rows(connection, _TYPES_6, ("SELECT group_id, role FROM crowd_keys",))
    for _, epsilon in connection.execute("SELECT DISTINCT channel, epsilon FROM charge"):
        if not _is_positive(epsilon):
            raise _unreadable_error("a charge")
    _examine_states(connection, version)
    _examine_prices(connection)
    for (total,) in connection.execute("SELECT total FROM total") if version >= 3 else ():
        decode_total(total)


def _examine_rows(connection: sqlite3.Connection, types: dict[str, str], texts: Iterable[str]) -> None:
    """Run the queries for values of the wrong type, and the queries that read strings.

    Raises StoreError for a row with a wrong type, and sqlite3.Error for a string that cannot be read.
    """
    for content, query in types.items():
        if connection.execute(query).fetchone() is not None:
            raise _unreadable_error(content)
    for query in texts:
        for _ in connection.execute(query):
            pass


def _examine_receivers(connection: sqlite3.Connection) -> None:
    """Check the grants, and the rows for withdrawals and receipts. Raises the errors of `examine`."""
    _examine_rows(connection, _TYPES_5, _TEXTS_5)
    for (link,) in connection.execute("SELECT link FROM receiver"):
        if not _has_url(link):
            raise _unreadable_error("a receiver")


def _examine_prices(connection: sqlite3.Connection) -> None:
    """Check that the streams' prices can be read. Raises StoreError if they cannot."""
    for (prices,) in connection.execute("SELECT value FROM meta WHERE key GLOB 'prices/*'"):
        decode_prices(prices)


def _examine_states(connection: sqlite3.Connection, version: int) -> None:
    """Check that terms are usable, and that states agree with their terms and marks.

    Raises StoreError otherwise.
    """
    terms_by_id: dict[tuple[str, str], Terms] = {}
    for stream, id_, text in connection.execute("SELECT channel, id, terms FROM terms"):
        terms_by_id[stream, id_] = decode_terms(text)
        if not _are_usable(terms_by_id[stream, id_]):
            raise _unreadable_error("a stream's terms")
    rows = connection.execute(
        "SELECT state.channel, state.state, mark.end_ms FROM state LEFT JOIN mark"
        " ON mark.channel = state.channel AND mark.meter = state.meter"
    )
    for stream, state, mark_ms in rows:
        if not isinstance(state, bytes):
            raise _unreadable_error("a state")
        # A state that consists of zeros was blanked on purpose: it outgrew its row, its meter was forgotten,
        # or its windows were abandoned.
        for window in decode_state(state, version).windows if state.strip(b"\0") else ():
            terms = terms_by_id.get((stream, window.terms_id))
            if terms is None or not _is_possible(window, terms, version):
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


def _is_possible(window: OpenWindow, terms: Terms, version: int) -> bool:
    """Return whether a window under these terms can have this state."""
    slot_indexes = [slot.slot_index for slot in window.slots]
    needs_noise_bound = terms.metric is Metric.LINF and (version < 4 or window.draws < terms.n)
    return (
        (0 <= window.draws <= terms.n or (terms.space is Space.PEAK and window.draws > 0))
        and (window.noise_bound is not None) == needs_noise_bound
        and (window.noise_bound or 0) >= 0
        and (window.sealed_pad is None) == (terms.crowd is None)
        and slot_indexes
        == sorted({index for index in slot_indexes if 0 <= index < min(window.draws, terms.n)})
        and (
            window.masked_slot is None or (terms.kind is Kind.REGISTER and window.masked_slot in slot_indexes)
        )
    )


def _are_usable(terms: Terms) -> bool:
    """Return whether a mechanism and a grid can be built from the terms."""
    sizes = (terms.length_ms, terms.step_ms, terms.level, terms.radius, terms.quantum_u)
    band_indexes = range(len(terms.bands))
    return (
        terms.unit in UNITS[terms.kind]
        and all(size > 0 for size in sizes)
        and terms.n > 0
        and all(terms.slot_ms(index) > 0 or terms.bands[index].name == UNKNOWN_BAND for index in band_indexes)
        and (terms.kind is Kind.POWER or terms.interval_ms > 0)
        and (terms.space is Space.WEIGHTED) == (terms.weights is not None)
        and (terms.space is Space.ABOVE) == (terms.threshold_u is not None)
        and (terms.threshold_u is None or (terms.n == 1 and terms.kind is Kind.POWER))
        and (terms.weights is None or (terms.n == 1 and terms.weights.bound_u > 0))
        and (terms.crowd is None or (terms.n == 1 and terms.lattice(0) > 0))
    )
