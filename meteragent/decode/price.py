"""Messages with prices per kWh: a JSON object, or a list of such objects.

{"start": "2026-12-01T00:00:00Z", "end": "2026-12-01T01:00:00Z", "price": 0.2815}
"""

from typing import Any

from meteragent.decode import parse_or_refuse
from meteragent.decode.json import document_of, number_of
from meteragent.decode.number import to_millionths
from meteragent.domain.errors import PayloadError
from meteragent.domain.grid import parse_time
from meteragent.domain.prices import Price


def decode_prices(payload: bytes) -> list[Price]:
    """Return the prices in a message. Raises PayloadError if the message or a price cannot be read."""
    document = document_of(payload)
    return [_price(row) for row in (document if isinstance(document, list) else [document])]


def _price(row: Any) -> Price:
    """Return the price in one object. Raises PayloadError if it cannot be read."""
    if not isinstance(row, dict) or not {"start", "end", "price"} <= row.keys():
        raise PayloadError("refused_missing")
    return _time_ms(row["start"]), _time_ms(row["end"]), to_millionths(number_of(row["price"]))


def _time_ms(text: Any) -> int:
    """Return a time in ms since the Unix epoch. Raises PayloadError if it cannot be read."""
    if not isinstance(text, str):
        raise PayloadError("refused_time")
    return parse_or_refuse("refused_time", ValueError, parse_time, text)
