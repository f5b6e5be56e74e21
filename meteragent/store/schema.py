"""What the store's file holds: its tables by version, and states and terms as JSON."""

import json
import math
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields
from fractions import Fraction
from typing import Any, cast, get_args
from zlib import crc32

from meteragent.domain.commit import OpenWindow, Slot, TimelineState, Total
from meteragent.domain.errors import StoreError
from meteragent.domain.shape import Band, Space
from meteragent.domain.terms import Clock, Rounding, Terms
from meteragent.domain.units import ENERGY_UNIT, Kind

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

VERSION_4: tuple[str, ...] = ()
"""Terms may be dithered, accumulators are whole, and R is kept only while slots are to be drawn (`earlier`).
A program that does not know would round half up what is dithered already."""

MIGRATIONS: tuple[tuple[str, ...], ...] = (VERSION_1, VERSION_2, VERSION_3, VERSION_4)
"""Step i takes a store from version i to i + 1, in one transaction. A step only adds, so that the
version before can use the result; one that cannot do so raises COMPATIBLE_FROM."""

COMPATIBLE_FROM = 4
"""The oldest version whose code can use a store of the newest."""


_compact = json.JSONEncoder(separators=(",", ":"), default=str).encode
_quoted = json.encoder.encode_basestring_ascii
_SUM = ',"crc":'
_FRACTION = re.compile(r"-?[0-9]{1,4000}(/[0-9]{1,4000})?")
_UNREADABLE = (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, RecursionError)


def _sealed(known: dict[str, Any]) -> str:
    """As JSON with named fields (a reader ignores those it does not know), the last of them its CRC-32.

    Integers of any size are numbers, fractions are text, "p/q". SQLite would not see a digit that has
    become another one.
    """
    text = _compact(known)
    return f"{text[:-1]}{_SUM}{crc32(text.encode())}}}"


def _opened(text: str) -> Any:
    """The inverse of `_sealed`; what has no sum, because an earlier version wrote it, is taken as it is."""
    body, mark, stated = text.rpartition(_SUM)
    if mark and stated != f"{crc32(body.encode() + b'}')}}}":
        raise ValueError("another sum")
    return json.loads(text)


def encode_state(state: TimelineState) -> bytes:
    """As JSON (`_sealed`); written by hand, since every commit writes one for each of its meters."""
    windows = ",".join([_window(window) for window in state.windows])
    text = (
        f'{{"covered_ms":{state.covered_ms},"standing_ms":{_or_null(state.standing_ms)},'
        f'"newest_ms":{_or_null(state.newest_ms)},"next_ms":{state.next_ms},"idle":{state.idle},'
        f'"windows":[{windows}]'
    ).encode()
    return b"%b%b%d}" % (text, _SUM.encode(), crc32(b"}", crc32(text)))


def _window(window: OpenWindow) -> str:
    slots = ",".join([f"[{place},{kept}]" for place, kept in window.slots])
    noise_bound = "" if window.noise_bound is None else f'"radius":{window.noise_bound},'
    return (
        f'{{"start_ms":{window.start_ms},"terms":{_quoted(window.terms)},"topic":{_quoted(window.topic)},'
        f'"label":{_quoted(window.label)},{noise_bound}"drawn":{window.drawn},'
        f'"slots":[{slots}],"masked":{_or_null(window.masked)}}}'
    )


def _or_null(value: int | None) -> int | str:
    return "null" if value is None else value


def decode_state(text: bytes, version: int = len(MIGRATIONS)) -> TimelineState:
    """The inverse of `encode_state`, whatever zero bytes follow; raises StoreError.

    Of versions before 4, accumulators may be fractions, which are rounded as `_floored` says.
    """
    state: TimelineState | None = None
    with suppress(*_UNREADABLE):
        known = _opened(text.rstrip(b"\0").decode())
        state = TimelineState(
            covered_ms=_whole(known["covered_ms"]),
            standing_ms=_whole_or_none(known["standing_ms"]),
            newest_ms=_whole_or_none(known["newest_ms"]),
            next_ms=_whole(known["next_ms"]),
            idle=_whole(known["idle"]),
            windows=tuple(_decode_window(window, version) for window in known["windows"]),
        )
    if state is None:
        raise StoreError("a state in the store is not readable") from None
    return state


def _decode_window(known: dict[str, Any], version: int) -> OpenWindow:
    masked = _whole_or_none(known.get("masked"))
    slots = [
        Slot(_whole(place), _whole(kept) if version >= 4 else _floored(kept, masked=place == masked))
        for place, kept in known["slots"]
    ]
    return OpenWindow(
        start_ms=_whole(known["start_ms"]),
        terms=_text(known["terms"]),
        topic=_text(known["topic"]),
        label=_text(known["label"]),
        noise_bound=_whole_or_none(known.get("radius")),
        drawn=_whole(known["drawn"]),
        slots=tuple(slots),
        masked=masked,
    )


def _whole(found: Any) -> int:
    if type(found) is not int:
        raise TypeError("no whole number")
    return found


def _whole_or_none(found: Any) -> int | None:
    return None if found is None else _whole(found)


def _text(found: Any) -> str:
    if not isinstance(found, str):
        raise TypeError("no text")
    return found


def _text_or_none(found: Any) -> str | None:
    return None if found is None else _text(found)


def _fraction(found: Any) -> Fraction:
    if _FRACTION.fullmatch(found) is None:
        raise ValueError("no fraction")
    return Fraction(*map(int, found.split("/")))


def _fraction_or_none(found: Any) -> Fraction | None:
    return None if found is None else _fraction(found)


def _floored(found: Any, *, masked: bool) -> int:
    """Return an accumulator A of an earlier version, which may be a fraction N/D, rounded down.

    What is released stays the same. A closes as floor((2A + L) / 2L) = floor((A + L/2) / L), and what is
    still added to it is whole. L is even, so that for A = N + f, 0 <= f < 1, A + L/2 is a whole number plus
    f, which does not change the floor. What is kept of a masked slot is M = r c - A, r c whole: to round A
    down is to round M up.
    """
    if not isinstance(found, str):
        return _whole(found)
    return math.ceil(_fraction(found)) if masked else math.floor(_fraction(found))


def encode_total(total: Total) -> str:
    """As a JSON list."""
    return _compact(total)


def decode_total(text: str) -> Total:
    """The inverse of `encode_total`; raises StoreError."""
    total: Total | None = None
    with suppress(*_UNREADABLE):
        since_ms, end_ms, unit, quantity, variance = json.loads(text)
        if unit in ENERGY_UNIT.values() and isinstance(variance, float | int) and 0 <= variance < math.inf:
            total = Total(_whole(since_ms), _whole(end_ms), unit, _whole(quantity), variance)
    if total is None:
        raise StoreError("a total in the store is not readable")
    return total


def _bands(known: list[Any]) -> tuple[Band, ...]:
    return tuple(
        Band(_text(name), tuple((_whole(start), _whole(end)) for start, end in stretches))
        for name, stretches in known
    )


def _rounding(known: Any) -> Rounding:
    if known not in get_args(Rounding):
        raise ValueError("no rounding")
    return cast(Rounding, known)


_FIELDS: dict[str, Callable[[Any], Any]] = {
    "kind": Kind,
    "unit": _text,
    "clock": Clock,
    "level": _fraction,
    "radius": _fraction,
    "preset": _text_or_none,
    "space": Space,
    "timezone": _text_or_none,
    "bands": _bands,
    "others_per_day": _fraction,
    "modulus_u": _whole_or_none,
    "rounding": _rounding,
    "every_ms": _whole_or_none,
    "dead_band": _fraction_or_none,
}
"""The fields of terms that are no whole numbers."""


def encode_terms(terms: Terms) -> str:
    """As JSON (`_sealed`)."""
    return _sealed({field.name: getattr(terms, field.name) for field in fields(Terms)})


def decode_terms(text: str) -> Terms:
    """The inverse of `encode_terms`; a field that is not there has its default; raises StoreError."""
    terms: Terms | None = None
    with suppress(*_UNREADABLE):
        known = _opened(text)
        names = [field.name for field in fields(Terms) if field.name in known]
        readers: dict[str, Callable[[Any], Any]] = {name: _FIELDS.get(name, _whole) for name in names}
        terms = Terms(**{name: read(known[name]) for name, read in readers.items()})
    if terms is None:
        raise StoreError("terms in the store are not readable")
    return terms
