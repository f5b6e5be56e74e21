"""Whether what a store holds means something: looked at once, when it is opened.

SQLite finds a page that is no page, not a number that has become another one, nor a text where a number was.
What is found here is damage, and the store is set aside. States and terms have a sum of their own
(`schema`); of marks, charges and rows that wait it is seen that they are of their kind.
"""

import sqlite3
from contextlib import suppress
from fractions import Fraction
from typing import Any

from meteragent.domain.commit import OpenWindow
from meteragent.domain.errors import StoreError
from meteragent.domain.terms import Terms
from meteragent.domain.units import UNITS, Kind
from meteragent.store.schema import decode_state, decode_terms, decode_total

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
"""What must be of its kind, and what finds a row that is not."""

_TEXTS = (
    "SELECT channel, meter FROM mark",
    "SELECT channel, meter FROM state",
    "SELECT channel, topic, id FROM descriptor",
    "SELECT DISTINCT channel, topic FROM outbox WHERE delivered_ms IS NULL",
)
"""What is read as text, and must be: a byte that is no UTF-8 ends whoever reads it."""


def meta(connection: sqlite3.Connection, key: str) -> Any:
    """One of the single values of the store; raises StoreError where it is missing."""
    found = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    if found is None:
        raise _unreadable("a value that every store has")
    return found[0]


def examine(connection: sqlite3.Connection) -> None:
    """Look at all that a start needs; raises StoreError or sqlite3.Error where it cannot be read."""
    for key, types in _META.items():
        if not isinstance(meta(connection, key), types):
            raise _unreadable("a value that every store has")
    for what, query in _TYPES.items():
        if connection.execute(query).fetchone() is not None:
            raise _unreadable(what)
    for query in _TEXTS:
        for _ in connection.execute(query):
            pass
    for _, epsilon in connection.execute("SELECT DISTINCT channel, epsilon FROM charge"):
        if not _is_positive(epsilon):
            raise _unreadable("a charge")
    [(version,)] = connection.execute("PRAGMA user_version")
    _examine_states(connection, version)
    for (total,) in connection.execute("SELECT total FROM total") if version >= 3 else ():
        decode_total(total)


def _examine_states(connection: sqlite3.Connection, version: int) -> None:
    """States agree with their terms and marks."""
    known: dict[tuple[str, str], Terms] = {}
    for channel, id_, text in connection.execute("SELECT channel, id, terms FROM terms"):
        known[channel, id_] = decode_terms(text)
        if not _makes_sense(known[channel, id_]):
            raise _unreadable("a stream's terms")
    rows = connection.execute(
        "SELECT state.channel, state.state, mark.end_ms FROM state LEFT JOIN mark"
        " ON mark.channel = state.channel AND mark.meter = state.meter"
    )
    for channel, state, mark_ms in rows:
        if not isinstance(state, bytes):
            raise _unreadable("a state")
        for window in decode_state(state, version).windows if state.strip(b"\0") else ():
            terms = known.get((channel, window.terms))
            if terms is None or not _is_possible(window, terms, version):
                raise _unreadable("a state")
            if mark_ms is None or window.start_ms + terms.length_ms > mark_ms:
                raise _unreadable("a mark")


def _is_positive(epsilon: object) -> bool:
    with suppress(ValueError, ZeroDivisionError):
        return isinstance(epsilon, str) and len(epsilon) < 5000 and Fraction(epsilon) > 0
    return False


def _unreadable(what: str) -> StoreError:
    return StoreError(f"{what} in the store is not readable")


def _is_possible(window: OpenWindow, terms: Terms, version: int) -> bool:
    """Whether a window can have been open under its terms."""
    places = [slot.place for slot in window.slots]
    has_radius = version < 4 or window.drawn < terms.n
    return (
        0 <= window.drawn <= terms.n
        and (window.noise_bound is not None) == has_radius
        and (window.noise_bound or 0) >= 0
        and places == sorted({place for place in places if 0 <= place < window.drawn})
        and (window.masked is None or (terms.kind is Kind.REGISTER and window.masked in places))
    )


def _makes_sense(terms: Terms) -> bool:
    """Whether a mechanism and a grid can be made of terms."""
    sizes = (terms.length_ms, terms.step_ms, terms.level, terms.radius, terms.quantum_u)
    places = range(len(terms.bands))
    return (
        terms.unit in UNITS[terms.kind]
        and all(size > 0 for size in sizes)
        and terms.n > 0
        and all(terms.slot_ms(place) > 0 for place in places)
        and (terms.kind is Kind.POWER or terms.interval_ms > 0)
    )
