"""The models of the configuration: every key, its type and its default (DESIGN 5)."""

import re
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from meteragent import topic
from meteragent.grid import CALENDAR_UNITS, DAY_MS, HOUR_MS, Hours, parse_duration
from meteragent.release import UNIT_FACTOR, Clock, Kind, Space

_SIZE = re.compile(r"(\d{1,9})(B|KiB|MiB)", re.ASCII)
_SIZE_BYTES = {"B": 1, "KiB": 1024, "MiB": 1024**2}
_ENERGY = re.compile(r"(\d+(?:\.\d+)?)\s*(Wh|kWh)", re.ASCII)


_HOURS = re.compile(r"(\d\d)(?::(\d\d))?[-/](\d\d)(?::(\d\d))?", re.ASCII)
_DAY_MIN = 24 * 60

_EXPONENT_MAX = 30
"""An integer of a million digits is nobody's setting, and would stall the check."""


def _number(value: Any) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, (int, Decimal, str)):
        raise ValueError("a decimal number")  # noqa: TRY004  pydantic reports ValueError only
    if isinstance(value, Decimal) and value.is_finite() and abs(value.adjusted()) > _EXPONENT_MAX:
        raise ValueError("a number of ordinary size, such as 220, 0.5 or '1/3'")
    try:
        return Fraction(value)
    except (ValueError, ZeroDivisionError, OverflowError):
        raise ValueError("a finite number such as 220, 0.5 or '1/3'") from None


def _text(parse: Callable[[str], int]) -> Callable[[Any], Any]:
    def validate(value: Any) -> int:
        if not isinstance(value, str):
            raise ValueError("a text with a unit, such as '30min'")  # noqa: TRY004  see _number
        return parse(value)

    return validate


def _size(text: str) -> int:
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError("a size such as '64KiB'")
    return int(match[1]) * _SIZE_BYTES[match[2]]


def _energy_wh(value: Any) -> Fraction:
    match = _ENERGY.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError("an energy such as '110Wh' or '0.3kWh'")
    return Fraction(match[1]) * UNIT_FACTOR[match[2]]


def _length(value: Any) -> int | str:
    if not isinstance(value, str):
        raise ValueError("a text with a unit, such as '30min'")  # noqa: TRY004  see _number
    if value in CALENDAR_UNITS:
        return value
    try:
        return parse_duration(value)
    except ValueError as error:
        raise ValueError(f"{error}; or with window.timezone '1d', '1w' or '1mo'") from None


def _hours(value: Any) -> Hours:
    match = _HOURS.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError("hours of the local day such as '00-07', '07:30-22' or '22-06'")
    start, end = (int(match[i]) * 60 + int(match[i + 1] or 0) for i in (1, 3))
    past_the_hour = max(int(match[2] or 0), int(match[4] or 0))
    if start >= _DAY_MIN or end > _DAY_MIN or start == end or past_the_hour > 59:
        raise ValueError("hours between 00:00 and 24:00 that end at another time than they start")
    return Hours(start, end or _DAY_MIN)


def _template(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("a topic such as 'meters/{meter}/power'")  # noqa: TRY004  see _number
    topic.parse_template(value)
    return value


def _plain_topic(value: Any) -> str:
    if not isinstance(value, str) or not value or set("+#{\0") & set(value) or value.startswith("$"):
        raise ValueError("a topic without placeholders and wildcards, such as 'meteragent/status'")
    return value


Number = Annotated[Fraction, BeforeValidator(_number)]
Positive = Annotated[Fraction, BeforeValidator(_number), Field(gt=0)]
NotNegative = Annotated[Fraction, BeforeValidator(_number), Field(ge=0)]
Duration = Annotated[int, BeforeValidator(_text(parse_duration))]
Span = Annotated[int, BeforeValidator(_text(parse_duration)), Field(gt=0)]
Length = Annotated[int | str, BeforeValidator(_length)]
Band = Annotated[Hours, BeforeValidator(_hours)]
Size = Annotated[int, BeforeValidator(_text(_size)), Field(gt=0)]
Energy = Annotated[Fraction, BeforeValidator(_energy_wh), Field(gt=0)]
Template = Annotated[str, BeforeValidator(_template)]
PlainTopic = Annotated[str, BeforeValidator(_plain_topic)]
Protocol = Literal["auto", "5", "3.1.1"]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)


class Broker(_Section):
    """How to speak to a broker."""

    username: str | None = None
    password_file: Path | None = None
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    protocol: Protocol = "auto"


class Source(Broker):
    """Where readings come from and what they mean; kind and unit have no default (law 5)."""

    url: str = "mqtt://127.0.0.1:1883"
    topic: str
    meter: str | None = None
    phases: tuple[str, ...] | None = Field(None, min_length=1)
    profile: str = "number"
    value: str | None = None
    time: str | None = None
    id: str | None = None
    kind: Kind
    unit: Literal["W", "kW", "Wh", "kWh"]
    scale: Positive | None = None
    hold: Span | None = None
    interval: Span | None = None
    modulus: Positive | None = None
    dead_band: NotNegative | None = None
    inflight: int = Field(1000, ge=1, le=30_000, strict=True)
    max_meters: int = Field(10_000, ge=1, strict=True)
    max_payload: Size = 64 * 1024


class Window(_Section):
    """The grid and its clock; slots are `step` long, or `blocks` of a window, or `bands` of the day."""

    length: Length | None = None
    step: Span | None = None
    blocks: int | None = Field(None, ge=1, le=100_000, strict=True)
    bands: tuple[Band, ...] | None = Field(None, min_length=1)
    timezone: str | None = None
    lateness: Duration | None = None
    clock: Clock = Clock.WALL
    ahead: Duration = 30 * 60_000
    gap: Number = Fraction(0)
    range: tuple[Number, Number] = (Fraction(0), Fraction(20_000))
    forget: Span = DAY_MS
    catch_up: Duration = 60_000


class Budget(_Section):
    """At most this level per aligned UTC period, over all streams of a meter."""

    level: Positive
    per: Span


class Privacy(_Section):
    """How much is hidden: a preset, or the numbers themselves (they win)."""

    preset: str = "appliance"
    level: Positive | None = None
    hide: Energy | None = None
    radius: Positive | None = None
    quantum: Positive | None = None
    space: Space | None = None
    budget: Budget | None = None


class Sink(Broker):
    """Where private records go."""

    url: str | None = None
    topic: Template
    format: Literal["json", "senml"] = "json"
    pseudonym_key_file: Path | None = None
    total: bool = Field(False, strict=True)
    status: PlainTopic | None = None
    home_assistant: PlainTopic | None = None
    spread: Duration = 0
    inflight: int = Field(100, ge=1, le=30_000, strict=True)


class Store(_Section):
    """The one file that holds ledger and outbox."""

    path: Path = Path("meteragent.db")
    keep: Span = 30 * DAY_MS
    max_mb: int = Field(512, ge=1, strict=True)
    flush: Duration = 0


class Page(_Section):
    """The local page: where it listens, and who may look."""

    listen: str = "127.0.0.1:8321"
    token_file: Path | None = None
    hosts: tuple[str, ...] = ()


class Stream(_Section):
    """One stream: a source, a grid, a promise and a sink; `name` is the ledger's channel."""

    name: str = "main"
    source: Source
    window: Window = Window()
    privacy: Privacy = Privacy()
    sink: Sink


class Config(_Section):
    """The whole file: flat (one stream called `main`) or with `[[stream]]`."""

    stream: tuple[Stream, ...] = Field(min_length=1)
    store: Store = Store()
    page: Page | None = None


class Preset(_Section):
    """Names for numbers, in W and Wh, that are both private and useful (DESIGN 5)."""

    length: int | str
    hide_wh: Fraction
    quantum_w: Fraction
    level: Fraction
    space: Space = Space.LINF
    blocks: int = 1


def _preset(
    length: int | str, hide_wh: int, quantum_w: str, *, space: Space = Space.LINF, blocks: int = 1
) -> Preset:
    return Preset(
        length=length,
        hide_wh=Fraction(hide_wh),
        quantum_w=Fraction(quantum_w),
        level=Fraction(1),
        space=space,
        blocks=blocks,
    )


_HALF_HOUR_MS = HOUR_MS // 2
PRESETS = {
    "television": _preset(_HALF_HOUR_MS, 20, "1"),
    "appliance": _preset(_HALF_HOUR_MS, 110, "1"),
    "street": _preset(_HALF_HOUR_MS, 300, "1"),
    "day": _preset("1d", 300, "0.1"),
    "bill": _preset("1mo", 6000, "0.01"),
    "typical-day": _preset("1mo", 1500, "0.01", space=Space.PROFILE, blocks=4),
}
