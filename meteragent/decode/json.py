"""The profile `json`: value and time are found in a JSON document by JMESPath expressions.

Numbers are read as decimals, so that what the meter wrote is what counts.
"""

import json
import re
from collections.abc import Callable
from decimal import ROUND_FLOOR, Context, Decimal
from typing import Any

import jmespath
from jmespath.exceptions import JMESPathError

from meteragent.decode import Decoder, attempt
from meteragent.decode.number import finite, micro, text_of
from meteragent.errors import PayloadError
from meteragent.grid import parse_time
from meteragent.reading import Reading

_MILLISECONDS_FROM = Decimal(10) ** 11
"""Unix times from here on are milliseconds: as seconds they would be past the year 5000."""
_TIME_MAX = Decimal(10) ** 15


_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_FLOOR = Context(prec=64, rounding=ROUND_FLOOR)
_NOT_FINITE = object()
"""Stands for NaN and the infinities, which harm only where they are the value."""

_DECODER = json.JSONDecoder(parse_float=finite, parse_int=finite, parse_constant=lambda _: _NOT_FINITE)


def _document(payload: bytes) -> Any:
    return attempt("refused_json", ValueError, _DECODER.decode, text_of(payload))


def _value_u(found: Any) -> int:
    if found is None:
        raise PayloadError("refused_missing")
    if found is _NOT_FINITE:
        raise PayloadError("refused_not_finite")
    if not isinstance(found, Decimal):
        raise PayloadError("refused_type")
    return micro(found)


def _time_ms(found: Any) -> int:
    if found is None:
        raise PayloadError("refused_missing")
    if isinstance(found, Decimal) and 0 <= found < _TIME_MAX:
        scale = 1 if found >= _MILLISECONDS_FROM else 1000
        return int(_FLOOR.multiply(found, Decimal(scale)))
    if isinstance(found, str) and (time_ms := attempt("refused_time", ValueError, parse_time, found)) >= 0:
        return time_ms
    raise PayloadError("refused_time")


def compile_expression(expression: str) -> Any:
    """A JMESPath expression, compiled; raises ValueError when it is not one."""
    try:
        return jmespath.compile(expression)
    except JMESPathError as error:
        reason = str(error).partition("\n")[0].removesuffix(", for expression:")
        raise ValueError(f"a JMESPath expression ({reason})") from None


def _finder(expression: str) -> Callable[[Any], Any]:
    """A function that finds an expression in a document; a plain name needs no JMESPath."""
    compiled = compile_expression(expression)

    def find(document: Any) -> Any:
        if plain and isinstance(document, dict):
            return document.get(expression)
        return attempt("refused_type", Exception, compiled.search, document)  # what it raises is not stated

    plain = _PLAIN.fullmatch(expression) is not None
    return find


def decoder(value: str, time: str | None) -> Decoder:
    """The decoder for documents whose value and time are found by these expressions.

    The decoder raises PayloadError; without `time` readings have the time of their arrival.
    Raises ValueError when one is not a JMESPath expression.
    """
    find_value = _finder(value)
    find_time = _finder(time) if time is not None else None

    def decode(payload: bytes) -> Reading:
        document = _document(payload)
        value_u = _value_u(find_value(document))
        return Reading(_time_ms(find_time(document)) if find_time else None, value_u)

    return decode
