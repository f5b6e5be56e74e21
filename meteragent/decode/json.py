"""The profile `json`: JMESPath expressions select the value and the time in a JSON document.

Theory of operation
-------------------
A payload becomes a reading in this order:

1. Text: the payload is UTF-8 and not empty (`text_of`).
2. Document: the text is JSON, with decimals for all numbers (`document_of`), so that the meter's own digits
   are used, not the nearest binary float. NaN and infinities become a marker, `_NOT_FINITE`, because they do
   no harm in fields that are not selected. The parser fails on a number whose exponent is too large for a
   decimal; a slower parser then replaces that number with ±10**100, which later steps clamp or refuse, or
   with 0. A string that spells an object or a list, wherever it is, is replaced by that object or list.
3. Selection: the expressions are evaluated (`make_finder`); a plain field name needs only a look-up.
4. Types: the value must be a finite number (`number_of`), and the time must be in Unix seconds, Unix
   milliseconds or RFC 3339 (`time_of`). A number in a string is refused.
5. Unit: a document that states another unit next to the value is refused (`is_another_unit`). The value is
   multiplied by a constant factor and rounded to whole millionths (`make_scaler`).

Expressions are compiled when the configuration is read, so an invalid expression is an error in the
configuration, not in a payload. Most payloads are flat objects, for which the decoder of `_make_fast_decoder`
does all steps at once, in a third of the time. It refuses nothing: a payload that it does not recognise goes
through the steps above. It returns the same readings; a test compares the two.
"""

import json
import re
from collections.abc import Callable
from contextlib import suppress
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Any

from jmespath.exceptions import JMESPathError

from meteragent.decode import PayloadNumber, parse_or_refuse
from meteragent.decode.dialects import is_of_template, translate_path
from meteragent.decode.expression import compile_search
from meteragent.decode.foreign import form_of_text
from meteragent.decode.number import make_scaler, parse_finite, parse_number, text_of
from meteragent.decode.unit import UNIT_KEYS, is_another_unit
from meteragent.domain.errors import PayloadError
from meteragent.domain.grid import parse_time
from meteragent.domain.reading import Reading
from meteragent.domain.units import MICRO, UNIT_FACTOR

_MILLISECONDS_FROM = 10**11
"""The smallest Unix time that is read as milliseconds; in seconds, it would be after the year 5000."""
_TIME_MAX = 10**15
_INTEGER_MAX = 10**12
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_FLOOR_CONTEXT = Context(prec=64, rounding=ROUND_FLOOR)
_NOT_FINITE = object()
"""The marker for NaN and the infinities, which are refused only in the selected field."""

_DECODER = json.JSONDecoder(parse_float=Decimal, parse_int=Decimal, parse_constant=lambda _: _NOT_FINITE)
_FALLBACK_DECODER = json.JSONDecoder(
    parse_float=parse_finite, parse_int=parse_finite, parse_constant=lambda _: _NOT_FINITE
)
"""The decoder for documents with exponents that are too large for a decimal."""
_QUICK_DECODER = json.JSONDecoder(parse_float=Decimal)


def document_of(payload: bytes) -> Any:
    """Decode a payload as JSON with decimals for numbers. Raises PayloadError for any other payload."""
    text = text_of(payload)
    try:
        return _parse(text)
    except (ValueError, RecursionError):
        pass
    raise PayloadError(form_of_text(text) or "refused_json")


def _parse(text: str) -> Any:
    """Parse a document; replace each string in it that spells an object or a list by what it spells."""
    try:
        document = _DECODER.decode(text)
    except ArithmeticError:
        document = _FALLBACK_DECODER.decode(text)
    return _unwrap(document) if "\\" in text else document


def _unwrap(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _unwrap(child) for name, child in value.items()}
    if isinstance(value, list):
        return [_unwrap(child) for child in value]
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "[", '"'):
        with suppress(ValueError):
            return _parse(value)
    return value


def value_at(document: Any, *names: str) -> Any:
    """Return the value at a path of names in nested objects; None if the path does not exist."""
    for name in names:
        if not isinstance(document, dict):
            return None
        document = document.get(name)
    return document


def number_of(value: Any) -> Decimal:
    """Return a selected value if it is a finite number. Raises PayloadError for any other value."""
    if value is None:
        raise PayloadError("refused_missing")
    if value is _NOT_FINITE:
        raise PayloadError("refused_not_finite")
    if not isinstance(value, Decimal):
        raise PayloadError("refused_type")
    return value


def number_or_text(value: Any) -> Decimal:
    """Return a selected number, or the number that a string spells. Raises PayloadError for other values."""
    return parse_number(value) if isinstance(value, str) else number_of(value)


def time_of(value: Any) -> int:
    """Convert Unix seconds, Unix ms or RFC 3339 with a zone to Unix ms. Raises PayloadError for all else."""
    if value is None:
        raise PayloadError("refused_missing")
    if isinstance(value, Decimal) and 0 <= value < _TIME_MAX:
        scale = 1 if value >= _MILLISECONDS_FROM else 1000
        return int(_FLOOR_CONTEXT.multiply(value, Decimal(scale)))
    if isinstance(value, str):
        time_ms = parse_or_refuse("refused_time", ValueError, parse_time, value)
        if time_ms >= 0:
            return time_ms
    raise PayloadError("refused_time")


def compile_expression(expression: str) -> Callable[[Any], Any]:
    """Compile a JMESPath expression into a function of documents. Raises ValueError if it is invalid."""
    reason = "value_json is a name in templates only" if is_of_template(expression) else None
    if reason is None:
        try:
            return compile_search(expression)
        except (JMESPathError, RecursionError) as error:
            reason = str(error).partition("\n")[0].removesuffix(", for expression:")
    raise ValueError(f"a JMESPath expression ({translate_path(expression) or reason})")


def make_finder(expression: str) -> Callable[[Any], Any]:
    """Make a function that evaluates an expression on a document, with a direct look-up of plain names."""
    search = compile_expression(expression)

    def find(document: Any) -> Any:
        """Evaluate the expression. Raises PayloadError if it does not apply to the document."""
        if is_plain and isinstance(document, dict):
            return document.get(expression)
        # The library does not document its exceptions, so all exceptions are caught.
        return parse_or_refuse("refused_type", Exception, search, document)

    is_plain = _PLAIN.fullmatch(expression) is not None
    return find


def make_reader(
    value: str, time: str | None, unit: str | None = None, factor: Fraction = Fraction(1)
) -> Callable[[bytes], PayloadNumber]:
    """Make a reader of a payload's number and time, selected by the expressions `value` and `time`, if any.

    A 1 in the payload means `factor` times 1 `unit`. An object that states another unit for the number is
    refused. Raises ValueError if an expression is invalid.
    """
    find_value = make_finder(value)
    find_time = make_finder(time) if time is not None else None
    names = value.split(".")
    place = names[:-1] if all(map(_PLAIN.fullmatch, names)) else []
    size = factor * UNIT_FACTOR[unit] if unit is not None else factor

    def read(payload: bytes) -> PayloadNumber:
        """Return the number and the time. Raises PayloadError if the payload is refused."""
        document = document_of(payload)
        number, beside = number_of(find_value(document)), value_at(document, *place)
        if unit is not None and isinstance(beside, dict) and is_another_unit(beside, unit, size):
            raise PayloadError("refused_unit")
        return PayloadNumber(time_of(find_time(document)) if find_time else None, number)

    return read


def make_decoder(
    value: str, time: str | None, factor: Fraction = Fraction(1), unit: str | None = None
) -> Callable[[bytes], Reading]:
    """Make a decoder by `make_reader`. The number times `factor` is the value in the stream's unit."""
    read, micro = make_reader(value, time, unit, factor), make_scaler(factor)
    is_plain = _PLAIN.fullmatch(value) and _PLAIN.fullmatch(time or "t")
    fast_path = _make_fast_decoder(value, time, factor) if is_plain else None

    def decode(payload: bytes) -> Reading:
        """Return the reading of a payload. Raises PayloadError if the payload is refused."""
        if fast_path is not None and (reading := fast_path(payload)) is not None:
            return reading
        number = read(payload)
        return Reading(number.time_ms, micro(number.number))

    return decode


def _make_fast_decoder(value: str, time: str | None, factor: Fraction) -> Callable[[bytes], Reading | None]:
    """Make the fast path for objects with a number in the field `value` and, if it is set, a time in `time`.

    It returns None for any other payload, and then the general decoder decides. Whole numbers stay integers.
    """
    micro, unit = make_scaler(factor), factor * MICRO
    whole_factor = unit.numerator if unit.denominator == 1 else None

    def decode(payload: bytes) -> Reading | None:
        """Return the reading of a flat object; None for any other payload."""
        try:
            text = payload.decode()
            document, end = _QUICK_DECODER.raw_decode(text)
        except (ValueError, ArithmeticError, RecursionError):
            return None
        if end != len(text) or type(document) is not dict or not UNIT_KEYS.isdisjoint(document):
            return None
        number, time_ms = document.get(value), None
        if time is not None and (time_ms := _fast_time(document.get(time))) is None:
            return None
        if type(number) is int and whole_factor is not None and -_INTEGER_MAX <= number <= _INTEGER_MAX:
            return Reading(time_ms, number * whole_factor)
        return Reading(time_ms, micro(number)) if type(number) is Decimal else None

    return decode


def _fast_time(value: Any) -> int | None:
    """Convert a time as `time_of` does; return None for a value that `time_of` refuses."""
    if type(value) is int and 0 <= value < _TIME_MAX:
        return value if value >= _MILLISECONDS_FROM else 1000 * value
    try:
        return time_of(value)
    except PayloadError:
        return None
