"""The profile `json`: value and time are found in a JSON document by JMESPath expressions.

Numbers are read as decimals, so that what the meter wrote is what counts.
"""

import json
import re
from collections.abc import Callable
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Any

from jmespath.exceptions import JMESPathError

from meteragent.decode import Found, attempt
from meteragent.decode.expression import searcher
from meteragent.decode.number import finite, number_in, scaled, text_of
from meteragent.domain.errors import PayloadError
from meteragent.domain.grid import parse_time
from meteragent.domain.reading import Reading
from meteragent.domain.units import MICRO

_MILLISECONDS_FROM = 10**11
"""Unix times from here on are milliseconds: as seconds they would be past the year 5000."""
_TIME_MAX = 10**15
_LARGE = 10**12


_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_FLOOR = Context(prec=64, rounding=ROUND_FLOOR)
_NOT_FINITE = object()
"""Stands for NaN and the infinities, which harm only where they are the value."""

_DECODER = json.JSONDecoder(parse_float=Decimal, parse_int=Decimal, parse_constant=lambda _: _NOT_FINITE)
_PATIENT = json.JSONDecoder(parse_float=finite, parse_int=finite, parse_constant=lambda _: _NOT_FINITE)
"""The same of numbers with exponents that no decimal has."""
_QUICK = json.JSONDecoder(parse_float=Decimal)


def document_of(payload: bytes) -> Any:
    """A payload as JSON, its numbers decimals; raises PayloadError when it is none."""
    return attempt("refused_json", ValueError, _parsed, text_of(payload))


def _parsed(text: str) -> Any:
    try:
        return _DECODER.decode(text)
    except ArithmeticError:
        return _PATIENT.decode(text)


def at(document: Any, *names: str) -> Any:
    """What stands under these names, each inside the one before; None where there is no such thing."""
    for name in names:
        if not isinstance(document, dict):
            return None
        document = document.get(name)
    return document


def number_of(found: Any) -> Decimal:
    """What an expression found, if it is a finite number; else raises PayloadError."""
    if found is None:
        raise PayloadError("refused_missing")
    if found is _NOT_FINITE:
        raise PayloadError("refused_not_finite")
    if not isinstance(found, Decimal):
        raise PayloadError("refused_type")
    return found


def number_or_text(found: Any) -> Decimal:
    """As `number_of`, of a family that writes its numbers as texts."""
    return number_in(found) if isinstance(found, str) else number_of(found)


def time_of(found: Any) -> int:
    """What an expression found as ms since the Unix epoch; else raises PayloadError.

    Unix seconds or milliseconds, or RFC 3339 with a zone.
    """
    if found is None:
        raise PayloadError("refused_missing")
    if isinstance(found, Decimal) and 0 <= found < _TIME_MAX:
        scale = 1 if found >= _MILLISECONDS_FROM else 1000
        return int(_FLOOR.multiply(found, Decimal(scale)))
    if isinstance(found, str) and (time_ms := attempt("refused_time", ValueError, parse_time, found)) >= 0:
        return time_ms
    raise PayloadError("refused_time")


def compile_expression(expression: str) -> Callable[[Any], Any]:
    """A JMESPath expression as a function of documents; raises ValueError when it is not one."""
    try:
        return searcher(expression)
    except (JMESPathError, RecursionError) as error:
        reason = str(error).partition("\n")[0].removesuffix(", for expression:")
        raise ValueError(f"a JMESPath expression ({reason})") from None


def finder(expression: str) -> Callable[[Any], Any]:
    """A function that finds an expression in a document; a plain name needs no JMESPath."""
    search = compile_expression(expression)

    def find(document: Any) -> Any:
        if plain and isinstance(document, dict):
            return document.get(expression)
        return attempt("refused_type", Exception, search, document)  # what it raises is not stated

    plain = _PLAIN.fullmatch(expression) is not None
    return find


def reader(value: str, time: str | None) -> Callable[[bytes], Found]:
    """What finds the number and its time in documents by these expressions.

    It raises PayloadError; without `time` readings have the time of their arrival.
    Raises ValueError when one is not a JMESPath expression.
    """
    find_value = finder(value)
    find_time = finder(time) if time is not None else None

    def read(payload: bytes) -> Found:
        document = document_of(payload)
        number = number_of(find_value(document))
        return Found(time_of(find_time(document)) if find_time else None, number)

    return read


def decoder(value: str, time: str | None, factor: Fraction = Fraction(1)) -> Callable[[bytes], Reading]:
    """As `reader`, with the number times `factor`, as it stands in the stream's unit."""
    read, micro = reader(value, time), scaled(factor)
    quick = _quick(value, time, factor) if _PLAIN.fullmatch(value) and _PLAIN.fullmatch(time or "t") else None

    def decode(payload: bytes) -> Reading:
        if quick is not None and (reading := quick(payload)) is not None:
            return reading
        found = read(payload)
        return Reading(found.time_ms, micro(found.number))

    return decode


def _quick(value: str, time: str | None, factor: Fraction) -> Callable[[bytes], Reading | None]:
    """The same of payloads as most are, at a third of the cost; None: this one takes a second look.

    Whole numbers stay integers. Nothing is refused here: what is no object with a number, and a time if there
    is to be one, under their names has not been understood.
    """
    micro, unit = scaled(factor), factor * MICRO
    whole = unit.numerator if unit.denominator == 1 else None

    def decode(payload: bytes) -> Reading | None:
        try:
            text = payload.decode()
            document, end = _QUICK.raw_decode(text)
        except (ValueError, ArithmeticError, RecursionError):
            return None
        if end != len(text) or type(document) is not dict:
            return None
        number, time_ms = document.get(value), None
        if time is not None and (time_ms := _quick_time(document.get(time))) is None:
            return None
        if type(number) is int and whole is not None and -_LARGE <= number <= _LARGE:
            return Reading(time_ms, number * whole)
        return Reading(time_ms, micro(number)) if type(number) is Decimal else None

    return decode


def _quick_time(found: Any) -> int | None:
    """As `time_of`; None where that refuses."""
    if type(found) is int and 0 <= found < _TIME_MAX:
        return found if found >= _MILLISECONDS_FROM else 1000 * found
    try:
        return time_of(found)
    except PayloadError:
        return None
