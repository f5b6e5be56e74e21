"""Payload -> Reading: one module per wire format, each with one decoder.

A decoder takes the payload's bytes and returns a Reading in the stream's unit, or raises
PayloadError with the name of the counter that counts it. It never logs and never chains the
parser's exception, which would hold the payload: parsers are called by `attempt`.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from meteragent.errors import PayloadError
from meteragent.reading import Reading

_In = TypeVar("_In")
_Out = TypeVar("_Out")

Decoder = Callable[[bytes], Reading]


def attempt(reason: str, mistake: type[Exception], parse: Callable[[_In], _Out], found: _In) -> _Out:
    """`parse(found)`; a `mistake` in it is a PayloadError that keeps nothing of it.

    Raised outside the handler, because `from None` would leave the parser's exception, and the
    payload in it, in `__context__`.
    """
    with suppress(mistake, RecursionError):
        return parse(found)
    raise PayloadError(reason)
