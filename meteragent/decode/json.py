"""The profile `json`: JMESPath expressions select value and time in a JSON document.

Theory of operation
-------------------
A payload becomes a reading in this order:

1. Text: the payload is UTF-8 and not empty (`text_of`).
2. Document: JSON with decimals for all numbers (`document_of`), so the digits that the meter wrote count, not
   the nearest binary float. NaN and infinities become a marker, `_NOT_FINITE`, because they are harmless in
   fields that are not selected. A number whose exponent no decimal can hold makes the parser fail; a slower
   one replaces it by 0 or 10**100, which the later steps clamp or refuse.
3. Selection: the expressions are evaluated (`finder`); a plain field name is a dictionary look-up.
4. Types: the value must be a finite number (`number_of`), the time unix seconds, unix milliseconds or RFC
   3339 (`time_of`). Nothing is guessed: a number in a text, for instance, is refused.
5. Unit: the value times a constant factor, rounded to whole millionths (`scaled`).

Each step raises PayloadError with the name of its counter, and no exception of a parser stays in its context,
because that would hold the payload. Expressions are compiled when the configuration is read, so an invalid
one is an error of the configuration and never of a payload.

Most payloads are flat objects, for which `_quick` does all steps at once, in a third of the time. It decides
nothing by itself: whatever it does not recognise goes through the steps above, which then accept or refuse
it. Where it does return a reading, the steps above would return the same; a test compares the two.

Decoding keeps no state and nothing on disk, so a power cut concerns no code here: the broker sends an
unacknowledged message again, and the same bytes give the same reading.
"""

import json
import re
from collections.abc import Callable
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Any

from jmespath.exceptions import JMESPathError

from meteragent.decode import PayloadNumber, parse_without_context
from meteragent.decode.expression import searcher
from meteragent.decode.number import finite, number_in, scaled, text_of
from meteragent.domain.errors import PayloadError
from meteragent.domain.grid import parse_time
from meteragent.domain.reading import Reading
from meteragent.domain.units import MICRO

_MILLISECONDS_FROM = 10**11
"""The first unix time that is read as milliseconds: as seconds it would be past the year 5000."""
_TIME_MAX = 10**15
_LARGE = 10**12


_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_FLOOR = Context(prec=64, rounding=ROUND_FLOOR)
_NOT_FINITE = object()
"""The marker for NaN and the infinities, which are refused only as the value."""

_DECODER = json.JSONDecoder(parse_float=Decimal, parse_int=Decimal, parse_constant=lambda _: _NOT_FINITE)
_PATIENT = json.JSONDecoder(parse_float=finite, parse_int=finite, parse_constant=lambda _: _NOT_FINITE)
"""The decoder for documents with exponents that no decimal can hold."""
_QUICK = json.JSONDecoder(parse_float=Decimal)


def document_of(payload: bytes) -> Any:
    """Decode a payload as JSON with decimals for numbers; raises PayloadError for anything else."""
    return parse_without_context("refused_json", ValueError, _parsed, text_of(payload))


def _parsed(text: str) -> Any:
    try:
        return _DECODER.decode(text)
    except ArithmeticError:
        return _PATIENT.decode(text)


def value_at(document: Any, *names: str) -> Any:
    """Return the value under a path of names in nested objects; None if there is no such path."""
    for name in names:
        if not isinstance(document, dict):
            return None
        document = document.get(name)
    return document


def number_of(value: Any) -> Decimal:
    """Return a selected value that is a finite number; raises PayloadError for others."""
    if value is None:
        raise PayloadError("refused_missing")
    if value is _NOT_FINITE:
        raise PayloadError("refused_not_finite")
    if not isinstance(value, Decimal):
        raise PayloadError("refused_type")
    return value


def number_or_text(value: Any) -> Decimal:
    """Return a selected value that is a finite number or a text of one; raises PayloadError for others."""
    return number_in(value) if isinstance(value, str) else number_of(value)


def time_of(value: Any) -> int:
    """Convert a selected time to ms since the Unix epoch; raises PayloadError for others.

    Unix seconds, unix milliseconds, or RFC 3339 with a zone.
    """
    if value is None:
        raise PayloadError("refused_missing")
    if isinstance(value, Decimal) and 0 <= value < _TIME_MAX:
        scale = 1 if value >= _MILLISECONDS_FROM else 1000
        return int(_FLOOR.multiply(value, Decimal(scale)))
    if (
        isinstance(value, str)
        and (time_ms := parse_without_context("refused_time", ValueError, parse_time, value)) >= 0
    ):
        return time_ms
    raise PayloadError("refused_time")


def compile_expression(expression: str) -> Callable[[Any], Any]:
    """Compile a JMESPath expression to a function of documents; raises ValueError for an invalid one."""
    try:
        return searcher(expression)
    except (JMESPathError, RecursionError) as error:
        reason = str(error).partition("\n")[0].removesuffix(", for expression:")
        raise ValueError(f"a JMESPath expression ({reason})") from None


def finder(expression: str) -> Callable[[Any], Any]:
    """Make a function that evaluates an expression on a document; a plain name needs no JMESPath."""
    search = compile_expression(expression)

    def find(document: Any) -> Any:
        if plain and isinstance(document, dict):
            return document.get(expression)
        return parse_without_context(
            "refused_type", Exception, search, document
        )  # its exceptions are not documented

    plain = _PLAIN.fullmatch(expression) is not None
    return find


def reader(value: str, time: str | None) -> Callable[[bytes], PayloadNumber]:
    """Make a reader of the number and its time, selected by these expressions.

    Without `time`, readings have the time of their arrival. The reader raises PayloadError. Raises ValueError
    for an invalid JMESPath expression.
    """
    find_value = finder(value)
    find_time = finder(time) if time is not None else None

    def read(payload: bytes) -> PayloadNumber:
        document = document_of(payload)
        number = number_of(find_value(document))
        return PayloadNumber(time_of(find_time(document)) if find_time else None, number)

    return read


def decoder(value: str, time: str | None, factor: Fraction = Fraction(1)) -> Callable[[bytes], Reading]:
    """Make a decoder from a `reader`: the number times `factor` is in the stream's unit."""
    read, micro = reader(value, time), scaled(factor)
    quick = _quick(value, time, factor) if _PLAIN.fullmatch(value) and _PLAIN.fullmatch(time or "t") else None

    def decode(payload: bytes) -> Reading:
        if quick is not None and (reading := quick(payload)) is not None:
            return reading
        number = read(payload)
        return Reading(number.time_ms, micro(number.number))

    return decode


def _quick(value: str, time: str | None, factor: Fraction) -> Callable[[bytes], Reading | None]:
    """Make the fast path for flat objects, which takes a third of the time; it never refuses a payload.

    It returns None unless the payload is an object with a number, and a time if required, under these names;
    then the general decoder decides. Whole numbers stay integers.
    """
    micro, unit = scaled(factor), factor * MICRO
    whole_factor = unit.numerator if unit.denominator == 1 else None

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
        if type(number) is int and whole_factor is not None and -_LARGE <= number <= _LARGE:
            return Reading(time_ms, number * whole_factor)
        return Reading(time_ms, micro(number)) if type(number) is Decimal else None

    return decode


def _quick_time(value: Any) -> int | None:
    """Convert a time as `time_of`; return None for those that it refuses."""
    if type(value) is int and 0 <= value < _TIME_MAX:
        return value if value >= _MILLISECONDS_FROM else 1000 * value
    try:
        return time_of(value)
    except PayloadError:
        return None
