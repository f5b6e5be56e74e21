"""The content of the store's file: the tables of each version; states, terms, totals and prices as JSON.

Some names are older than the glossary: `channel` is the name of a stream or, in the tables of messages
and of descriptors, of a queue, and `label` is the public id under which a meter's values leave. In the JSON
of a state, `radius` is the noise bound, `covered_ms` the time up to which spans are integrated, and `drawn`
the number of draws.
"""

import json
import math
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import fields
from fractions import Fraction
from typing import Any, cast, get_args
from zlib import crc32

from meteragent.domain.commit import OpenWindow, SealedPad, Slot, TimelineState, Total
from meteragent.domain.errors import StoreError
from meteragent.domain.shape import Band, Metric, Space
from meteragent.domain.terms import Clock, Crowd, Rounding, Terms
from meteragent.domain.units import ENERGY_UNIT, Kind
from meteragent.domain.weights import Price, Weights, WeightSource

APPLICATION_ID = 0x4D455445
"""The application id by which a SQLite file is recognised as a store."""

VERSION_1 = (
    f"PRAGMA application_id = {APPLICATION_ID}",
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID",
    """CREATE TABLE mark (channel TEXT, meter TEXT, end_ms INTEGER NOT NULL,
       PRIMARY KEY (channel, meter)) WITHOUT ROWID""",
    """CREATE TABLE terms (channel TEXT, id TEXT, terms TEXT NOT NULL,
       PRIMARY KEY (channel, id)) WITHOUT ROWID""",
    # The key is not the meter, because rows must never move (rule 2 of the store).
    """CREATE TABLE state (id INTEGER PRIMARY KEY, channel TEXT NOT NULL, meter TEXT NOT NULL,
       state BLOB NOT NULL)""",
    "CREATE INDEX state_meter ON state (channel, meter)",
    """CREATE TABLE charge (meter TEXT, day_ms INTEGER, channel TEXT, epsilon TEXT,
       windows INTEGER NOT NULL, PRIMARY KEY (meter, day_ms, channel, epsilon)) WITHOUT ROWID""",
    """CREATE TABLE descriptor (channel TEXT, topic TEXT, id TEXT NOT NULL, payload BLOB NOT NULL,
       PRIMARY KEY (channel, topic)) WITHOUT ROWID""",
    # AUTOINCREMENT never assigns an id twice, so a late acknowledgement cannot refer to another row.
    """CREATE TABLE outbox (id INTEGER PRIMARY KEY AUTOINCREMENT, channel TEXT NOT NULL,
       due_ms INTEGER NOT NULL, topic TEXT NOT NULL, payload BLOB NOT NULL, retain INTEGER NOT NULL,
       delivered_ms INTEGER)""",
    # With partial indexes, the time to find waiting rows does not depend on the number of delivered rows.
    "CREATE INDEX outbox_waiting ON outbox (channel, due_ms, id) WHERE delivered_ms IS NULL",
    "CREATE INDEX outbox_left ON outbox (delivered_ms, id) WHERE delivered_ms IS NOT NULL",
    # Triggers keep the totals up to date, so no code path can forget to. 64 is the size of a row without
    # topic and payload.
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
"""Terms may have bands. An older program would then draw noise for the wrong slots."""

VERSION_3 = (
    """CREATE TABLE total (channel TEXT, label TEXT, total TEXT NOT NULL,
       PRIMARY KEY (channel, label)) WITHOUT ROWID""",
)
"""Running totals and masked slots. An older program would release a masked slot unchanged."""

VERSION_4: tuple[str, ...] = ()
"""Terms may be dithered, accumulators are whole, and the noise bound is kept only until the noise of
all slots is drawn (see `earlier`). An older program would round dithered values half up."""

VERSION_5 = (
    # The grants: one row for each admission of a receiver, never deleted. `link` has the settings of the
    # receiver's broker.
    """CREATE TABLE receiver (id INTEGER PRIMARY KEY AUTOINCREMENT, channel TEXT NOT NULL, name TEXT NOT NULL,
       topic TEXT NOT NULL, link TEXT NOT NULL, since_ms INTEGER NOT NULL, until_ms INTEGER,
       revoked_ms INTEGER, reason TEXT, discarded INTEGER NOT NULL DEFAULT 0,
       receipt INTEGER NOT NULL DEFAULT 0)""",
    # The topics on which a grant's descriptors may be retained, to be withdrawn when the grant is revoked.
    """CREATE TABLE announced (queue TEXT, topic TEXT, PRIMARY KEY (queue, topic)) WITHOUT ROWID""",
    # The records that the broker of a grant's receiver has confirmed, for the receipt.
    """CREATE TABLE sent (queue TEXT, topic TEXT, id TEXT, records INTEGER NOT NULL, from_ms INTEGER NOT NULL,
       to_ms INTEGER NOT NULL, PRIMARY KEY (queue, topic, id)) WITHOUT ROWID""",
    "ALTER TABLE outbox ADD COLUMN id_of_terms TEXT",
    "ALTER TABLE outbox ADD COLUMN from_ms INTEGER",
    "ALTER TABLE outbox ADD COLUMN to_ms INTEGER",
)
"""Receivers of shared streams (`grants`). An older program neither sends nor changes their rows."""

VERSION_6 = (
    # The newest list of keys of each operator of a crowd; its serial never falls.
    """CREATE TABLE crowd_keys (group_id TEXT, role TEXT, serial INTEGER NOT NULL, list BLOB NOT NULL,
       PRIMARY KEY (group_id, role)) WITHOUT ROWID""",
    "ALTER TABLE outbox ADD COLUMN until_ms INTEGER",
)
"""Reports to crowds. An older program refuses a configuration with a crowd, and so opens no window."""

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    *(VERSION_1, VERSION_2, VERSION_3),
    *(VERSION_4, VERSION_5, VERSION_6),
)
"""Item i takes a store from version i to i + 1; all items that a store lacks run in one transaction. An item
only adds content, so that the previous version can use the result; if this is impossible, `COMPATIBLE_FROM`
is raised."""

COMPATIBLE_FROM = 4
"""The oldest version whose code can use a store of the newest version."""


_compact = json.JSONEncoder(separators=(",", ":"), default=str).encode
_quoted = json.encoder.encode_basestring_ascii
_SUM = ',"crc":'
_FRACTION = re.compile(r"-?[0-9]{1,4000}(/[0-9]{1,4000})?")
_UNREADABLE = (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, RecursionError)


def _seal(values: dict[str, Any]) -> str:
    """Encode fields as JSON, with the CRC-32 of the text as the last field.

    Integers of any size are encoded as numbers, and fractions as strings such as "1/3". A reader ignores
    unknown fields. The CRC detects a changed digit; SQLite does not.
    """
    text = _compact(values)
    return f"{text[:-1]}{_SUM}{crc32(text.encode())}}}"


def _unseal(text: str) -> Any:
    """Decode a string from `_seal`; a string without a CRC, from an earlier version, is not checked."""
    body, separator, crc = text.rpartition(_SUM)
    if separator and crc != f"{crc32(body.encode() + b'}')}}}":
        raise ValueError("wrong CRC")
    return json.loads(text)


def encode_state(state: TimelineState) -> bytes:
    """Encode a state like `_seal`, but faster, because every commit writes a state for each of its meters."""
    windows = ",".join([_window(window) for window in state.windows])
    text = (
        f'{{"covered_ms":{state.integrated_until_ms},"standing_ms":{_or_null(state.standing_ms)},'
        f'"newest_ms":{_or_null(state.newest_ms)},"next_ms":{state.next_ms},"idle":{state.idle_windows},'
        f'"windows":[{windows}]'
    ).encode()
    return b"%b%b%d}" % (text, _SUM.encode(), crc32(b"}", crc32(text)))


def _window(window: OpenWindow) -> str:
    slots = ",".join([f"[{slot_index},{accumulator}]" for slot_index, accumulator in window.slots])
    noise_bound = "" if window.noise_bound is None else f'"radius":{window.noise_bound},'
    pad = (
        "" if window.sealed_pad is None else f',"pad":{_compact([part.hex() for part in window.sealed_pad])}'
    )
    return (
        f'{{"start_ms":{window.start_ms},"terms":{_quoted(window.terms_id)},"topic":{_quoted(window.topic)},'
        f'"label":{_quoted(window.public_id)},{noise_bound}"drawn":{window.draws},'
        f'"slots":[{slots}],"masked":{_or_null(window.masked_slot)}{pad}}}'
    )


def _or_null(value: int | None) -> int | str:
    return "null" if value is None else value


def decode_state(text: bytes, version: int = len(MIGRATIONS)) -> TimelineState:
    """Decode a state, and ignore trailing zero bytes. Raises StoreError if it cannot be decoded.

    Before version 4, accumulators may be fractions, which `_round_down` rounds.
    """
    state: TimelineState | None = None
    with suppress(*_UNREADABLE):
        document = _unseal(text.rstrip(b"\0").decode())
        state = TimelineState(
            integrated_until_ms=_whole(document["covered_ms"]),
            standing_ms=_whole_or_none(document["standing_ms"]),
            newest_ms=_whole_or_none(document["newest_ms"]),
            next_ms=_whole(document["next_ms"]),
            idle_windows=_whole(document["idle"]),
            windows=tuple(_decode_window(window, version) for window in document["windows"]),
        )
    if state is None:
        raise StoreError("a state in the store is not readable") from None
    return state


def _decode_window(document: dict[str, Any], version: int) -> OpenWindow:
    masked_slot = _whole_or_none(document.get("masked"))
    slots = [
        Slot(
            _whole(slot_index),
            _whole(value) if version >= 4 else _round_down(value, is_masked=slot_index == masked_slot),
        )
        for slot_index, value in document["slots"]
    ]
    return OpenWindow(
        start_ms=_whole(document["start_ms"]),
        terms_id=_text(document["terms"]),
        topic=_text(document["topic"]),
        public_id=_text(document["label"]),
        noise_bound=_whole_or_none(document.get("radius")),
        draws=_whole(document["drawn"]),
        slots=tuple(slots),
        masked_slot=masked_slot,
        sealed_pad=_sealed_pad(document.get("pad")),
    )


def _sealed_pad(parts: list[str] | None) -> SealedPad | None:
    if parts is None:
        return None
    helper_key, pad, leader_public = map(bytes.fromhex, parts)
    return SealedPad(helper_key, pad, leader_public)


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise TypeError("not a whole number")
    return value


def _whole_or_none(value: Any) -> int | None:
    return None if value is None else _whole(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("not a string")
    return value


def _text_or_none(value: Any) -> str | None:
    return None if value is None else _text(value)


def _fraction(text: Any) -> Fraction:
    if _FRACTION.fullmatch(text) is None:
        raise ValueError("not a fraction")
    return Fraction(*map(int, text.split("/")))


def _fraction_or_none(text: Any) -> Fraction | None:
    return None if text is None else _fraction(text)


def _round_down(value: Any, *, is_masked: bool) -> int:
    """Round down an accumulator A of an earlier version, which may be a fraction; its release stays the same.

    With the terms' lattice L, A is released as floor((2A + L) / 2L) = floor((A + L/2) / L), and all later
    additions to A are whole. L is even, so for A = N + f with N whole and 0 <= f < 1, A + L/2 is a whole
    number plus f, and f does not change the floor. For a masked slot, the stored value is a whole number
    minus A, so rounding A down means rounding the stored value up.
    """
    if not isinstance(value, str):
        return _whole(value)
    return math.ceil(_fraction(value)) if is_masked else math.floor(_fraction(value))


def encode_total(total: Total) -> str:
    """Encode a running total as a JSON list."""
    return _compact(total)


def decode_total(text: str) -> Total:
    """Decode a running total. Raises StoreError if it cannot be decoded."""
    total: Total | None = None
    with suppress(*_UNREADABLE):
        since_ms, end_ms, unit, quantity, variance = json.loads(text)
        if unit in ENERGY_UNIT.values() and isinstance(variance, float | int) and 0 <= variance < math.inf:
            total = Total(_whole(since_ms), _whole(end_ms), unit, _whole(quantity), variance)
    if total is None:
        raise StoreError("a total in the store is not readable")
    return total


def _bands(rows: list[Any]) -> tuple[Band, ...]:
    return tuple(
        Band(_text(name), tuple((_whole(start), _whole(end)) for start, end in stretches))
        for name, stretches in rows
    )


def _weights(row: list[Any] | None) -> Weights | None:
    if row is None:
        return None
    unit, bound_u, default_u, source, prices = row
    return Weights(
        _text(unit),
        _whole(bound_u),
        _whole(default_u),
        WeightSource(source),
        _prices(prices),
    )


def _crowd(row: list[Any] | None) -> Crowd | None:
    if row is None:
        return None
    group_id, deadline_ms = row
    return Crowd(_text(group_id), _whole(deadline_ms))


def _rounding(name: Any) -> Rounding:
    if name not in get_args(Rounding):
        raise ValueError("not a rounding")
    return cast(Rounding, name)


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
    "metric": Metric,
    "weights": _weights,
    "threshold_u": _whole_or_none,
    "crowd": _crowd,
}
"""Decoders of those fields of terms that are not always whole numbers."""


def encode_prices(prices: Iterable[Price]) -> str:
    """Encode prices with `_seal`."""
    return _seal({"prices": list(prices)})


def decode_prices(text: Any) -> tuple[Price, ...]:
    """Decode prices. Raises StoreError if they cannot be decoded."""
    with suppress(*_UNREADABLE):
        return _prices(_unseal(text)["prices"])
    raise StoreError("prices in the store are not readable")


def _prices(rows: list[Any]) -> tuple[Price, ...]:
    return tuple((_whole(from_ms), _whole(to_ms), _whole(price_u)) for from_ms, to_ms, price_u in rows)


def encode_terms(terms: Terms) -> str:
    """Encode terms with `_seal`."""
    return _seal({field.name: getattr(terms, field.name) for field in fields(Terms)})


def decode_terms(text: str) -> Terms:
    """Decode terms; a missing field takes its default. Raises StoreError if they cannot be decoded."""
    terms: Terms | None = None
    with suppress(*_UNREADABLE):
        document = _unseal(text)
        names = [field.name for field in fields(Terms) if field.name in document]
        decoders: dict[str, Callable[[Any], Any]] = {name: _FIELDS.get(name, _whole) for name in names}
        terms = Terms(**{name: decode(document[name]) for name, decode in decoders.items()})
    if terms is None:
        raise StoreError("terms in the store are not readable")
    return terms
