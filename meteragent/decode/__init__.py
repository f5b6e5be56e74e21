"""Decode payloads into readings: one module per wire format, and profiles for known devices.

`config.source.build_decoder` makes a stream's decoder, which returns readings in the stream's unit, or raises
PayloadError with the name of a counter. A decoder never logs, and calls parsers through `parse_or_refuse`,
because a chained exception would contain the payload.
"""

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import NamedTuple, TypeVar

from meteragent.domain.errors import PayloadError
from meteragent.domain.reading import Reading

_In = TypeVar("_In")
_Out = TypeVar("_Out")

ARRIVAL = "arrival"
"""The word in profiles and configurations that chooses the time of arrival."""
Decoder = Callable[[bytes], Sequence[Reading]]


class PayloadNumber(NamedTuple):
    """A number from a payload (or a sum of several) in the device's unit, its times and the meter's name."""

    time_ms: int | None
    number: Decimal
    id: str | None = None
    seen_ms: int | None = None


Read = Callable[[bytes], Sequence[PayloadNumber]]
"""A function that returns the numbers in a payload, or raises PayloadError."""


def wrap_single(decode: Callable[[bytes], Reading]) -> Decoder:
    """Make a decoder for payloads with one reading each."""
    return lambda payload: (decode(payload),)


def make_start_decoder(decode: Decoder, interval_ms: int) -> Decoder:
    """Make a decoder that shifts the times of readings from the start to the end of their interval."""

    def end_ms(start_ms: int | None) -> int | None:
        """Return the end of the interval that begins at `start_ms`."""
        if start_ms is None:
            return None
        if start_ms < 0 < start_ms + interval_ms:
            raise PayloadError("refused_ahead")
        return start_ms + interval_ms or None

    return lambda payload: [reading._replace(time_ms=end_ms(reading.time_ms)) for reading in decode(payload)]


def parse_or_refuse(reason: str, mistake: type[Exception], parse: Callable[[_In], _Out], value: _In) -> _Out:
    """Return `parse(value)`; if it raises `mistake` or RecursionError, raise PayloadError with `reason`."""
    try:  # `suppress` would take longer than parsing a short payload
        return parse(value)
    except (mistake, RecursionError):
        pass
    raise PayloadError(reason)  # outside the handler, as `__context__` would keep the payload
