"""Payload -> readings: one module per wire format, and profiles for known devices.

A decoder takes the payload's bytes and returns the readings in it, in the stream's unit, or raises
PayloadError with the name of the counter that counts it. It never logs and never chains the
parser's exception, which would hold the payload: parsers are called by `attempt`.
"""

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import NamedTuple, TypeVar

from meteragent.domain.errors import PayloadError
from meteragent.domain.reading import Reading

_In = TypeVar("_In")
_Out = TypeVar("_Out")

Decoder = Callable[[bytes], Sequence[Reading]]


class Found(NamedTuple):
    """A number in a payload, as the meter wrote it, in the meter's own unit.

    `time_ms` as in Reading; `id` is the meter that the payload names, where its format does.
    """

    time_ms: int | None
    number: Decimal
    id: str | None = None


def one(decode: Callable[[bytes], Reading]) -> Decoder:
    """The decoder of payloads that hold one reading each."""
    return lambda payload: (decode(payload),)


def attempt(reason: str, mistake: type[Exception], parse: Callable[[_In], _Out], found: _In) -> _Out:
    """`parse(found)`; a `mistake` in it is a PayloadError that keeps nothing of it.

    Raised outside the handler, because `from None` would leave the parser's exception, and the
    payload in it, in `__context__`.
    """
    try:  # as `suppress`, which takes longer than many a payload
        return parse(found)
    except (mistake, RecursionError):
        pass
    raise PayloadError(reason)
