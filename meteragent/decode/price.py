"""Messages with prices: a JSON object with `start`, `end` and `price`, or a list of such objects.

    {"start": "2026-12-01T00:00:00Z", "end": "2026-12-01T01:00:00Z", "price": 0.2815}

A price is in the unit of `window.weights` per kWh, and is rounded to whole millionths.
"""

import json
from decimal import Decimal
from typing import Any

from meteragent.decode import parse_without_context
from meteragent.decode.number import micro, number_in, text_of
from meteragent.domain.errors import PayloadError
from meteragent.domain.grid import parse_time
from meteragent.domain.weights import Price


def prices(payload: bytes) -> list[Price]:
    """Return the prices in a message. Raises PayloadError if the message or a price cannot be read."""
    document = parse_without_context("refused_json", ValueError, _load, text_of(payload))
    rows = document if isinstance(document, list) else [document]
    return [_price(row) for row in rows]


def _load(text: str) -> Any:
    """Decode JSON, with each number as a `_Number`."""
    return json.loads(text, parse_float=_number, parse_int=_number, parse_constant=_number)


class _Number(str):
    """A JSON number, as it was written."""

    __slots__ = ()


def _number(text: str) -> _Number:
    return _Number(text)


def _price(row: Any) -> Price:
    """Return the price in one object. Raises PayloadError if it cannot be read."""
    if not isinstance(row, dict) or not {"start", "end", "price"} <= row.keys():
        raise PayloadError("refused_missing")
    if not isinstance(row["price"], _Number):
        raise PayloadError("refused_type")
    price: Decimal = number_in(row["price"])
    return _time_ms(row["start"]), _time_ms(row["end"]), micro(price)


def _time_ms(text: Any) -> int:
    """Return a time in ms since the Unix epoch. Raises PayloadError if it cannot be read."""
    if not isinstance(text, str):
        raise PayloadError("refused_time")
    return parse_without_context("refused_time", ValueError, parse_time, text)
