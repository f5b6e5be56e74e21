"""The types of configuration values, each with its parser, refusals and JSON Schema."""

import re
from collections.abc import Callable
from contextlib import suppress
from datetime import date, datetime
from fractions import Fraction
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from meteragent.domain import identity
from meteragent.domain.figures import parse_exact
from meteragent.domain.grid import CALENDAR_UNITS, RFC3339, WEEKDAYS, Hours, parse_duration, parse_time
from meteragent.domain.shapes import Space
from meteragent.domain.units import UNIT_FACTOR

_SIZE = re.compile(r"(\d{1,9})(B|KiB|MiB)", re.ASCII)
_SIZE_BYTES = {"B": 1, "KiB": 1024, "MiB": 1024**2}
_ENERGY = re.compile(r"(\d+(?:\.\d+)?)\s*(Wh|kWh)", re.ASCII)
_HOURS = re.compile(r"(\d\d)(?::(\d\d))?[-/](\d\d)(?::(\d\d))?", re.ASCII)
_DAY_MIN = 24 * 60
_DAYS = r"[a-z]{3}(-[a-z]{3})?(, *[a-z]{3}(-[a-z]{3})?)*"
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_GROUP_ID = re.compile(r"[0-9a-f]{64}", re.ASCII)
_CURRENCY = re.compile(r"[A-Z]{3}", re.ASCII)
_PAGE_URL = re.compile(r"https?://[^\s/@?#]+(/[^\s@]*)?", re.ASCII)
SPACES = [str(space) for space in Space if space is not Space.SHARE]
_CLIENT_ID = re.compile(r"[^\x00-\x1f\x7f-\x9f]{1,200}")
_RECEIVER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}", re.ASCII)
_BAND_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9 ._-]{0,30}[A-Za-z0-9])?", re.ASCII)


def _from_text(parse: Callable[[str], int | str]) -> Callable[[Any], Any]:
    """Return a validator that parses a string."""

    def validate(value: Any) -> int | str:
        """Parse a value. Raises ValueError if it is not a string or `parse` refuses it."""
        if not isinstance(value, str):
            raise ValueError("a string with a unit, such as '30min'")  # noqa: TRY004  see parse_exact
        return parse(value)

    return validate


def _match(pattern: re.Pattern[str], expected: str) -> BeforeValidator:
    """Return a validator of strings that match a pattern."""

    def validate(value: Any) -> str:
        """Return a value. Raises ValueError unless it is a string that matches."""
        if isinstance(value, str) and pattern.fullmatch(value):
            return value
        raise ValueError(expected)

    return BeforeValidator(validate)


def _size(text: str) -> int:
    """Parse a size; return it in bytes."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError("a size such as '64KiB'")
    return int(match[1]) * _SIZE_BYTES[match[2]]


def _energy_wh(value: Any) -> Fraction:
    match = _ENERGY.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError("an energy such as '110Wh' or '0.3kWh'")
    return Fraction(match[1]) * UNIT_FACTOR[match[2]]


def parse_length(text: str) -> int | str:
    """Parse a window's length; return it in ms, or as a calendar unit."""
    if text in CALENDAR_UNITS:
        return text
    try:
        return parse_duration(text)
    except ValueError as error:
        raise ValueError(f"{error}; or, with window.timezone, '1d', '1w' or '1mo'") from None


def _check_length(text: str) -> str:
    """Check a window's length, and return it as written."""
    parse_length(text)
    return text


def _parse_hours(value: Any) -> Hours:
    match = _HOURS.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError("hours of the local day such as '00-07', '07:30-22' or '22-06'")
    start, end = (int(match[i]) * 60 + int(match[i + 1] or 0) for i in (1, 3))
    minute_max = max(int(match[2] or 0), int(match[4] or 0))
    if start >= _DAY_MIN or end > _DAY_MIN or start == end or minute_max > 59:
        raise ValueError("hours between 00:00 and 24:00 whose start and end differ")
    return Hours(start, end or _DAY_MIN)


def _parse_days(value: Any) -> frozenset[int]:
    """Parse days of the week; return them as numbers from 0 for Monday."""
    expected = "days of the week such as 'mon-fri', 'sat,sun' or 'mon-thu,sat'"
    days = set[int]()
    for part in value.split(",") if isinstance(value, str) else [""]:
        ends = [name.strip().lower() for name in part.split("-")]
        if len(ends) > 2 or not all(name in WEEKDAYS for name in ends):
            raise ValueError(expected)
        from_day, to_day = WEEKDAYS.index(ends[0]), WEEKDAYS.index(ends[-1])
        days |= {(from_day + after) % 7 for after in range((to_day - from_day) % 7 + 1)}
    return frozenset(days)


def _parse_date(value: Any) -> date:
    if type(value) is date:
        return value
    if isinstance(value, str) and _DATE.fullmatch(value):
        with suppress(ValueError):
            return date.fromisoformat(value)
    raise ValueError("a date such as 2026-12-25")


def _parse_moment(value: Any) -> int:
    """Parse a time with a zone, given as a TOML date-time or as a string; return it in Unix ms."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = value.isoformat()
    if isinstance(value, str):
        with suppress(ValueError):
            return parse_time(value)
    raise ValueError("a time with its zone, such as 2026-12-01T00:00:00+01:00")


def _template(value: Any) -> str:
    """Check a topic with its placeholders, and return it."""
    if not isinstance(value, str):
        raise ValueError("a topic such as 'meters/{meter}/power'")  # noqa: TRY004  see parse_exact
    identity.parse_sink_template(value)
    return value


def _space(value: Any) -> Space:
    """Check the name of a kind of window, and return it; `shares` is refused: `sink.crowd` implies it."""
    if value in SPACES:
        return Space(value)
    expected = f"{', '.join(map(repr, SPACES[:-1]))} or {SPACES[-1]!r}"
    raise PydanticCustomError("enum", "{expected}", {"expected": expected})


def _plain_topic(value: Any) -> str:
    if not isinstance(value, str) or "{" in value or not identity.is_publishable(value):
        raise ValueError("a topic without placeholders or wildcards, such as 'meteragent/status'")
    return value


def _parse_shard(value: Any) -> identity.Shard:
    if not isinstance(value, str):
        raise ValueError("a string such as '2/8': agent 2, counted from 0, of 8 agents")  # noqa: TRY004
    return identity.Shard.parse(value)


def _string_schema(pattern: str, *examples: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": f"^{pattern}$", "examples": list(examples)})


def _number_schema(**bounds: int) -> WithJsonSchema:
    """Return the JSON Schema of an exact number: a decimal, or a fraction as a string."""
    text = {"type": "string", "pattern": r"^\s*[-+]?[0-9._]+([eE][-+]?[0-9]+)?(/[0-9]+)?\s*$"}
    return WithJsonSchema({"anyOf": [{"type": "number", **bounds}, text]})


_DURATION = _string_schema(r"[0-9]+(ms|s|min|h|d)", "500ms", "10s", "30min", "24h", "30d")

Number = Annotated[Fraction, BeforeValidator(parse_exact), _number_schema()]
Positive = Annotated[Fraction, BeforeValidator(parse_exact), Field(gt=0), _number_schema(exclusiveMinimum=0)]
NotNegative = Annotated[Fraction, BeforeValidator(parse_exact), Field(ge=0), _number_schema(minimum=0)]
Duration = Annotated[int, BeforeValidator(_from_text(parse_duration)), _DURATION]
Span = Annotated[int, BeforeValidator(_from_text(parse_duration)), Field(gt=0), _DURATION]
_LENGTH = _string_schema("([0-9]+(ms|s|min|h|d)|1w|1mo)", "30min", "1d", "1mo")
Length = Annotated[int | str, BeforeValidator(_from_text(parse_length)), _LENGTH]
LengthText = Annotated[str, BeforeValidator(_from_text(_check_length)), _LENGTH]
Band = Annotated[Hours, BeforeValidator(_parse_hours), _string_schema(_HOURS.pattern, "00-07", "07:30-22")]
Days = Annotated[frozenset[int], BeforeValidator(_parse_days), _string_schema(_DAYS, "mon-fri", "sat,sun")]
Day = Annotated[date, BeforeValidator(_parse_date), _string_schema(_DATE.pattern, "2026-12-25")]
_BAND = "1 to 32 letters, digits, spaces and .-_, the first and last a letter or digit, such as 'night'"
BandName = Annotated[str, _match(_BAND_NAME, _BAND), _string_schema(_BAND_NAME.pattern, "night")]
Moment = Annotated[
    int, BeforeValidator(_parse_moment), _string_schema(RFC3339.pattern, "2026-12-01T00:00:00+01:00")
]
_RECEIVER = "1 to 32 letters, digits, - and _, the first a letter or digit, such as 'utility'"
ReceiverName = Annotated[
    str, _match(_RECEIVER_NAME, _RECEIVER), _string_schema(_RECEIVER_NAME.pattern, "utility", "tariff-app")
]
_PLAIN = "1 to 200 characters without control characters"
ClientId = Annotated[str, _match(_CLIENT_ID, _PLAIN), _string_schema(_CLIENT_ID.pattern, "home-7")]
_CODE = "the three capital letters of a currency, such as 'EUR'"
Currency = Annotated[str, _match(_CURRENCY, _CODE), _string_schema(_CURRENCY.pattern, "EUR")]
SpaceName = Annotated[Space, BeforeValidator(_space), WithJsonSchema({"type": "string", "enum": SPACES})]
_DIGEST = "64 lower-case hex digits, as the group's operators publish them"
GroupId = Annotated[str, _match(_GROUP_ID, _DIGEST), _string_schema(_GROUP_ID.pattern, "0f" * 32)]
Size = Annotated[int, BeforeValidator(_from_text(_size)), Field(gt=0), _string_schema(_SIZE.pattern, "64KiB")]
Energy = Annotated[
    Fraction, BeforeValidator(_energy_wh), Field(gt=0), _string_schema(_ENERGY.pattern, "110Wh", "0.3kWh")
]
Template = Annotated[
    str, BeforeValidator(_template), _string_schema(".*[{]meter[}].*", "private/{meter}/power")
]
PlainTopic = Annotated[str, BeforeValidator(_plain_topic), _string_schema("[^+#{]+", "meteragent/status")]
_URL = "an address without a login, such as 'http://gateway.local:8321'"
PageUrl = Annotated[
    str, _match(_PAGE_URL, _URL), _string_schema(_PAGE_URL.pattern, "http://gateway.local:8321")
]
Shard = Annotated[
    identity.Shard, BeforeValidator(_parse_shard), _string_schema("[0-9]{1,5}/[0-9]{1,5}", "0/8", "7/8")
]
Protocol = Literal["auto", "5", "3.1.1"]
