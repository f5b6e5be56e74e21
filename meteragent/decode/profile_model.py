"""The models of a profile file: every key, with its type and default (docs/profiles.md)."""

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import chain
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from meteragent.decode import ARRIVAL, reader
from meteragent.decode.json import compile_expression
from meteragent.decode.path import make_finder, names_of, words_in
from meteragent.decode.profile import Direction, Evidence, Origin, Profile, Quantity
from meteragent.domain.figures import parse_exact
from meteragent.domain.grid import parse_duration
from meteragent.domain.units import ENERGIES_WH, POWERS_W, Kind


def _parse_duration(value: Any) -> int:
    if not isinstance(value, str) or not (duration_ms := parse_duration(value)):
        raise ValueError("a duration such as '10s' or '5min'")
    return duration_ms


def _parse_period(value: Any) -> int:
    """Parse the time between powers. Return 0 if powers are sent on change."""
    return 0 if value == "on change" else _parse_duration(value)


def _path(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("a path, as a string")  # noqa: TRY004  pydantic reports only ValueError
    make_finder(value)
    return value


def _parse_sums(value: Any) -> tuple[tuple[reader.Term, ...], ...]:
    terms = value if isinstance(value, list) else [value]
    sums = terms if terms and isinstance(terms[0], list) else [terms]
    if not all(isinstance(paths, list) and paths for paths in sums):
        raise ValueError("a path, a list of paths to add, or a list of such lists")
    return tuple(tuple(_parse_term(path) for path in paths) for paths in sums)


def _parse_term(value: Any) -> reader.Term:
    """Parse a term of a sum: a path, which a minus sign may precede."""
    path = value.removeprefix("-") if isinstance(value, str) else value
    return reader.Term(_path(path), path != value)


def _check_channel(value: Any) -> Any:
    if value != "all" and (type(value) is not int or value < 0):
        raise ValueError("the channel's number, from 0, or 'all' for the sum")
    return value


def _plain_path(value: str) -> str:
    if "*" in (names_of(value) or "*"):
        raise ValueError("a path of names, such as 'params.ts'")
    return value


def _parse_time_path(value: str) -> str | None:
    """Parse the path of the time. Return None if the time of arrival is used."""
    return None if value == ARRIVAL else _plain_path(value)


def _check_topic(value: str) -> str:
    if not value or "#" in value or any(c in value for c in " \t\n"):
        raise ValueError("a topic such as 'tele/{meter}/SENSOR', where + is any segment")
    return value


def _check_prefix(value: str) -> str:
    """Check that a string is a JMESPath expression."""
    compile_expression(value)
    return value


def _parse_match(value: Any) -> tuple[reader.Conditions, ...]:
    tables = value if isinstance(value, list) else [value]
    if not all(isinstance(table, dict) for table in tables):
        raise ValueError("a table of paths, or a list of such tables")
    return tuple(
        tuple((_path(path), _conditions(condition)) for path, condition in table.items()) for table in tables
    )


def _conditions(condition: Any) -> tuple[reader.Condition, ...]:
    conditions = tuple(condition) if isinstance(condition, list) else (condition,)
    if not conditions or not all(isinstance(value, bool | str | int | Decimal) for value in conditions):
        raise ValueError("true (present), false (absent), the value that it must equal, or a list of these")
    return conditions


_Number = Annotated[Fraction, BeforeValidator(parse_exact), Field(ge=0)]
_Positive = Annotated[Fraction, BeforeValidator(parse_exact), Field(gt=0)]
_Duration = Annotated[int, BeforeValidator(_parse_duration)]
_Path = Annotated[str, BeforeValidator(_path)]
_Match = Annotated[tuple[reader.Conditions, ...], BeforeValidator(_parse_match)]
_Text = Annotated[str, Field(min_length=1)]


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True, defer_build=True)


class QuantityTable(_Table):
    """A number in the messages: `[quantity.NAME]`."""

    kind: Kind
    """`power`, `register` or `interval_energy`."""
    unit: Literal[*POWERS_W, *ENERGIES_WH] | None = None  # type: ignore[valid-type]  # pydantic knows it
    """The unit: W, kW, mW, MW, Wh, kWh, mWh, MWh, Wmin or J. Without `unit`, the configuration states it."""
    unit_at: _Path | None = None
    """The path of a string that must equal `unit`; otherwise, the message is refused."""
    value: Annotated[tuple[tuple[reader.Term, ...], ...], BeforeValidator(_parse_sums)] = ()
    """The path of the number, or a list of paths to add up; a minus sign before a path subtracts its number.

    Of several lists, the first list with a value is used. Without this key, the payload is a bare number."""
    channel: Annotated[int | Literal["all"] | None, BeforeValidator(_check_channel)] = None
    """If the value may be a list with one number per channel: the channel, from 0, or `all` for the sum."""
    text: bool = Field(default=False, strict=True)  # names: a key of the profile's file
    """Whether a string that spells a number is read as that number; otherwise, it is refused."""
    match: _Match = ()
    """Conditions that a message must meet in addition to those of the profile."""
    negative: _Match = ()
    """Conditions under which the number's sign is reversed."""
    interval: _Duration | None = None
    """The time that an interval energy covers."""
    every: _Duration | None = None
    """The usual time between readings, if it is not that between messages."""
    step: _Positive | None = None
    """The step in which an energy is counted, in Wh. Without it, `source.dead_band` is required."""
    counters: int = Field(default=1, ge=1, strict=True)
    """The number of counters that are summed."""
    direction: Direction | None = None
    """`import`, `export`, `net` (import minus export) or `both` (import and export counted together)."""
    topic: _Text | None = None
    """The end of the topic on which a bare number is sent."""

    @model_validator(mode="after")
    def _check_keys(self) -> Self:
        """Refuse keys that contradict each other."""
        is_power = self.kind is Kind.POWER
        units = POWERS_W if is_power else ENERGIES_WH
        if self.unit is not None and self.unit not in units:
            raise ValueError(f"unit: one of {', '.join(units)} for kind '{self.kind}'")
        if (self.interval is not None) is not (self.kind is Kind.INTERVAL_ENERGY):
            raise ValueError("interval: the time that each number covers, only for kind 'interval_energy'")
        if is_power and self.step is not None:
            raise ValueError("step: none, because a power is not counted")
        if is_power and self.counters != 1:
            raise ValueError("counters: none, because a power is not counted")
        if not self.value and (
            self.channel is not None or self.text or self.match or self.negative or self.unit_at
        ):
            raise ValueError(
                "value: the path of the number, which channel, text, match, negative and unit_at refer to"
            )
        if self.unit_at is not None and self.unit is None:
            raise ValueError("unit: the string that unit_at must find")
        return self

    def to_quantity(self, message: reader.Message) -> Quantity:
        """Return the quantity, for messages with the layout `message`."""
        scale = None if self.unit is None else (POWERS_W | ENERGIES_WH)[self.unit]
        limit = None
        if scale is not None and self.kind is Kind.POWER:
            limit = reader.WRAP_W * scale.denominator / scale.numerator
        if not self.value:
            read, timed = reader.make_bare_reader(limit), False
        else:
            value = reader.Value(
                sums=self.value,
                match=self.match,
                negative=self.negative,
                channel=self.channel,
                accepts_text=self.text,
                unit_path=self.unit_at,
                unit=self.unit,
            )
            read, timed = reader.make_document_reader(message, value, limit), message.time is not None
        return Quantity(
            kind=self.kind,
            scale=scale,
            read=read,
            interval_ms=self.interval,
            every_ms=self.every,
            has_time=timed,
            step_wh=self.step,
            counters=self.counters,
            direction=self.direction,
            topic=self.topic,
        )


class SourceTable(_Table):
    """The origin of facts: `[[source]]`."""

    address: _Text
    """The page's address, or the device and its firmware."""
    date: Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\d$")]
    """The date on which the page was read or the messages were captured."""
    facts: Literal["captured", "from documentation"]
    """`captured`: real messages; `from documentation`: a maker's description or a program's source code."""


class ProfileTable(_Table):
    """The keys of the whole file."""

    name: str
    """The profile's name, which is also the file's name."""
    title: _Text
    """The kind of device with `a` or `an` before it, or a name."""
    topics: list[Annotated[_Text, AfterValidator(_check_topic)]] = Field(min_length=1)
    """The usual topics, most likely first. `{meter}` and `{phase}` are segments, and `+` is any segment."""
    match: _Match = ()
    """The conditions that this family's messages meet; of several tables in a list, one must be met."""
    partial: _Match | None = None
    """The conditions that messages meet if they omit unchanged values. If such a message lacks the
    quantity, it is counted as `other`. `{}` matches all messages."""
    marks: _Match = ()
    """The conditions by which `discover` recognises this family's messages on any topic. Without this key,
    it recognises them by their quantities, unless a plain object may have these, too."""
    ends: list[Annotated[_Text, AfterValidator(_check_topic)]] = []
    """The ends of topics by which `discover` recognises this family, whatever precedes them."""
    beside: list[_Text] = []
    """If other families share `ends`: topics of this family in the same place, one of which was heard."""
    time: Annotated[str | None, BeforeValidator(_parse_time_path)]
    """The path of a Unix time in s or ms, or an RFC 3339 text with its zone; without either, `arrival`."""
    id: Annotated[str, AfterValidator(_plain_path)] | None = None
    """The path of the string that names the meter; `source.id` selects one."""
    last_seen: Annotated[str, AfterValidator(_plain_path)] | None = None
    """The path of the time when the gateway last heard the meter; a power older than `hold` is refused."""
    every: _Duration
    """The usual time between messages."""
    period: Annotated[int, BeforeValidator(_parse_period)] | None = None
    """The longest time between powers, or `on change`. Without this key, `source.every` is required."""
    hold: _Duration
    """The longest time for which a power stands if no other power follows."""
    dead_band: _Number | None = None
    """The largest difference, in W, between the load and the last power sent. Without this key,
    `source.dead_band` is required."""
    quantum: _Positive = Fraction(1)
    """The step, in W, in which the device states powers: 1 without this key."""
    identifies: _Text | None = None
    """The meaning of `{meter}` in the topics, if it names a device, person or contract and must be hidden."""
    dropped: list[_Text] = []
    """The fields that identify a device, a person, a place or a contract."""
    traps: list[_Text] = []
    """Facts that users must know before they trust a number."""
    others: Annotated[str, AfterValidator(_check_prefix)] | None = None
    """An expression for an object in which `source.value` may name any field; `@` is the message. The
    configuration states the field's kind and unit."""
    source: list[SourceTable] = Field(min_length=1)
    """The origins of the facts."""
    quantity: dict[str, QuantityTable] = Field(min_length=1)
    """The numbers, by name; the first of a kind is that kind's default."""

    def to_profile(self) -> Profile:
        """Return the profile that this file describes."""
        message = reader.Message(self.match, self.partial, self.time, self.id, self.last_seen)
        named = None if self.others is None else partial(_other_quantity, message, self.others)
        return Profile(
            name=self.name,
            title=self.title,
            topics=tuple(self.topics),
            quantities={name: table.to_quantity(message) for name, table in self.quantity.items()},
            every_ms=self.every,
            hold_ms=self.hold,
            period_ms=self.period,
            named=named,
            quantum_w=self.quantum,
            dead_band_w=self.dead_band or Fraction(0),
            knows_dead_band=self.dead_band is not None,
            identifies=self.identifies,
            personal=tuple(self.dropped),
            traps=tuple(self.traps),
            fields=tuple(dict.fromkeys(self._words())),
            evidence=Evidence(
                origins=tuple(Origin(origin.address, origin.date, origin.facts) for origin in self.source),
                marks=reader.matcher(self.marks) if self.marks else None,
                ends=tuple(self.ends),
                beside=tuple(self.beside),
            ),
        )

    def _words(self) -> Iterator[str]:
        """Yield the names on which the profile depends, and the strings that identify a kind of message."""
        paths = [path for path in (self.time, self.id, self.last_seen, self.others) if path is not None]
        matches = (
            self.match,
            self.partial or (),
            *(conditions for table in self.quantity.values() for conditions in (table.match, table.negative)),
        )
        for conditions in chain.from_iterable(matches):
            paths += [path for path, _ in conditions]
            yield from (value for _, values in conditions for value in values if isinstance(value, str))
        for table in self.quantity.values():
            paths += [term.path for terms in table.value for term in terms]
            paths += [] if table.unit_at is None else [table.unit_at]
        for path in paths:
            yield from words_in(path)


class CodedTable(ProfileTable):
    """The keys of a file whose family is read, wholly or in part, by a module of `decode.profiles`."""

    time: Annotated[str | None, BeforeValidator(_parse_time_path)] = None
    source: list[SourceTable] = []
    quantity: dict[str, QuantityTable] = {}


def _other_quantity(message: reader.Message, prefix: str, kind: Kind, path: str) -> Quantity | None:
    """Return the quantity at `path` below `prefix`; None if `path` is not a JMESPath expression."""
    value = reader.Value(((reader.Term(f"{prefix} | {path}", is_negative=False),),))
    try:
        compile_expression(path)
        read = reader.make_document_reader(message, value, None)
        return Quantity(kind, None, read, has_time=message.time is not None)
    except ValueError:
        return None
