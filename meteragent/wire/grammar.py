"""The grammar of messages: the fields of each, with types and bounds, and whether they are required.

Theory of operation. A table has a row for each field. The form of a field consists of its JSON Schema and a
function that reads its value. The schemas of the contract are made from the tables, and receivers use them to
read messages. A message is checked in this order, so that no number in it can make reading expensive: its
length, the types and bounds of its fields, a descriptor's hash, and only then what needs arithmetic.
"""

import re
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, NamedTuple, get_args

from meteragent.domain.grid import RFC3339, parse_time
from meteragent.domain.metric import Metric
from meteragent.domain.terms import Clock, Rounding
from meteragent.domain.units import Kind
from meteragent.wire import shapes
from meteragent.wire.number import (
    BOUNDS,
    DURATION,
    DURATION_SCHEMA,
    EXACT_SCHEMA,
    UNIT_SCHEMA,
    Bounds,
    parse_ms,
    read_exact,
)

Schema = Mapping[str, Any]

SENT_SPACES: Final = tuple(space for space, row in shapes.ROWS.items() if row.read is not None)
"""The kinds of windows whose descriptors are sent."""
DRAWS_MAX: Final = 2**31 - 1
_SD_MAX: Final = 10**18
_END_MS: Final = parse_time("2200-01-01T00:00:00Z")
_TEXT_MAX: Final = 256
_NAME_MAX: Final = 128
_NAME = r"^[^\x00-\x1f\x7f-\x9f]*$"
"""A pattern for texts without control characters."""
_MISSING = "is missing or not a"
_BEYOND = "is out of its bounds"
_JSON_NUMBER = re.compile(r"-?\d{1,60}(\.\d{1,30})?(e[+-]?\d{1,2})?", re.ASCII | re.IGNORECASE)
_ANYTHING = Bounds(-(10**60), 10**60)


class Form(NamedTuple):
    """The type and bounds of a field; `read` returns its value, or raises ValueError with the reason."""

    schema: Schema
    read: Callable[[Any], Any]


class Row(NamedTuple):
    """A field: its form, its description, and whether every message must contain it."""

    form: Form
    words: str = ""
    is_required: bool = True

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the field."""
        return {**self.form.schema, **({"description": self.words} if self.words else {})}


class Table(NamedTuple):
    """The fields of a kind of message, and the largest number of bytes of a message."""

    noun: str
    bytes_max: int
    rows: Mapping[str, Row]

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the message, which may have further fields."""
        required = [name for name, row in self.rows.items() if row.is_required]
        properties = {name: row.schema for name, row in self.rows.items()}
        return {"type": "object", "required": required, "properties": properties}


def _read_string(value: Any, longest: int = _TEXT_MAX) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{_MISSING} string")  # noqa: TRY004 -- one type of error for all faults of a field
    if len(value) > longest:
        raise ValueError(_BEYOND)
    return value


def _require_within(number: Any, bounds: Bounds) -> Any:
    if not bounds.low <= number <= bounds.high:
        raise ValueError(_BEYOND)
    return number


def _bounded_reader(parse: Callable[[str], Any], bounds: Bounds = _ANYTHING) -> Callable[[Any], Any]:
    """Return a reader of texts that `parse` converts to numbers, which must be within bounds."""

    def read(value: Any) -> Any:
        """Return the number. Raises ValueError if the text is not a number within the bounds."""
        text = _read_string(value)
        try:
            number = parse(text)
        except (ValueError, ZeroDivisionError, OverflowError):
            raise ValueError("cannot be read") from None
        return _require_within(number, bounds)

    return read


def text(longest: int = _TEXT_MAX, shortest: int = 0, pattern: str = _NAME) -> Form:
    """Return the form of texts."""
    compiled = re.compile(pattern)

    def read(value: Any) -> str:
        """Return the text. Raises ValueError if the value is no text of such a length and pattern."""
        if shortest <= len(_read_string(value, longest)) and compiled.fullmatch(value):
            return str(value)
        raise ValueError("cannot be read")

    length = {"minLength": shortest} if shortest else {}
    return Form({"type": "string", **length, "maxLength": longest, "pattern": pattern}, read)


def choice(values: Collection[str]) -> Form:
    """Return the form of a field that has one of these texts as its value."""

    def read(value: Any) -> str:
        """Return the text. Raises ValueError if it is not one of the choices."""
        if _read_string(value) not in values:
            raise ValueError("cannot be read")
        return str(value)

    return Form({"enum": list(values)}, read)


def open_set(values: Collection[str]) -> Form:
    """Return the form of a field with one of these texts; later versions may allow further texts."""
    return Form({"enum": list(values)}, _read_string)


def constant(value: Any) -> Form:
    """Return the form of a field that always has the same value; 1 and true are different values."""

    def read(item: Any) -> Any:
        """Return the value. Raises ValueError if it is not the constant."""
        if repr(item) != repr(value):
            raise ValueError("cannot be read" if item else f"{_MISSING} known value")
        return item

    return Form({"const": value}, read)


def exact_number(bounds: Bounds = _ANYTHING) -> Form:
    """Return the form of exact numbers, which are written as texts."""
    return Form(EXACT_SCHEMA, _bounded_reader(read_exact, bounds))


def duration(bounds: Bounds = BOUNDS["length"]) -> Form:
    """Return the form of durations, which are written as texts; bounds are in ms."""
    return Form(DURATION_SCHEMA, _bounded_reader(parse_ms, bounds))


def number(bounds: Bounds, *, excludes_low: bool = False) -> Form:
    """Return the form of numbers within bounds; if `excludes_low`, the lower bound itself is not allowed."""

    def read(value: Any) -> Fraction:
        """Return the exact number. Raises ValueError if the value is not a number within the bounds."""
        if isinstance(value, int) and not isinstance(value, bool):
            result = Fraction(_require_within(value, bounds))
        elif isinstance(value, float | Decimal) and _JSON_NUMBER.fullmatch(text := str(value)):
            # The text of a float is the shortest that identifies it.
            result = _require_within(Fraction(value if isinstance(value, Decimal) else text), bounds)
        else:
            raise ValueError(f"{_MISSING} number")
        if excludes_low and result == bounds.low:
            raise ValueError(_BEYOND)
        return result

    lowest = "exclusiveMinimum" if excludes_low else "minimum"
    return Form({"type": "number", lowest: bounds.low, "maximum": bounds.high}, read)


def integer(bounds: Bounds) -> Form:
    """Return the form of whole numbers."""
    form = number(bounds)

    def read(value: Any) -> int:
        """Return the number. Raises ValueError if the value is not a whole number within the bounds."""
        result: Fraction = form.read(value)
        if result.denominator != 1:
            raise ValueError("is not a whole number")
        return result.numerator

    return Form({**form.schema, "type": "integer"}, read)


def checked_by(schema: Schema) -> Form:
    """Return the form of values that are used as they are, once their schema has accepted them.

    The schema may use only the keywords that `_reader` supports.
    """
    return Form(schema, _reader(schema))


def _reader(schema: Schema) -> Callable[[Any], Any]:
    if "anyOf" in schema:
        return _any_reader([_reader(alternative) for alternative in schema["anyOf"]])
    if "const" in schema:
        return constant(schema["const"]).read
    if "enum" in schema:
        return choice(schema["enum"]).read
    if schema["type"] == "string":
        return text(pattern=schema["pattern"]).read
    if schema["type"] == "integer":
        return integer(Bounds(schema["minimum"], schema["maximum"])).read
    return _object_reader(schema)


def _any_reader(readers: Collection[Callable[[Any], Any]]) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        """Return the value. Raises ValueError if no reader accepts the value."""
        for reader in readers:
            with suppress(ValueError):
                return reader(value)
        raise ValueError("cannot be read")

    return read


def _object_reader(schema: Schema) -> Callable[[Any], Any]:
    required_names, extra = set(schema.get("required", ())), schema.get("additionalProperties")
    readers = {name: _reader(inner_schema) for name, inner_schema in schema.get("properties", {}).items()}
    extra_reader = None if extra is None else _reader(extra)

    def read(value: Any) -> Any:
        """Return the value. Raises ValueError unless it is a small object with fields as stated."""
        if not isinstance(value, Mapping) or len(value) > BOUNDS["bands"].high:
            raise ValueError(f"{_MISSING} small object")
        if not value.keys() >= required_names:
            raise ValueError("lacks a field")
        for name, item in value.items():
            NAME.read(name)
            if (reader := readers.get(name, extra_reader)) is not None:
                reader(item)
        return value

    return read


def read_rows(
    rows: Mapping[str, Row], facts: Mapping[str, Any], error: Callable[[str, str], Exception]
) -> dict[str, Any]:
    """Return the values of the fields of `rows`. Raises `error(name, reason)` for the first wrong field."""
    values = {}
    for name, row in rows.items():
        if row.is_required or name in facts:
            wrong = ""
            try:
                values[name] = row.form.read(facts.get(name))
            except ValueError as reason:
                wrong = str(reason)
            if wrong:  # outside the handler, because a parser's error contains the value
                raise error(name, wrong)
    return values


NAME: Final = text(_NAME_MAX)
_ID = "^[0-9a-f]{8}$"
ID: Final = Form({"type": "string", "pattern": _ID, "examples": ["e1654215"]}, text(8, 8, _ID).read)
TIME: Final = Form(
    {"type": "string", "pattern": f"^{RFC3339.pattern}$", "examples": ["2026-11-20T12:00:00Z"]},
    _bounded_reader(parse_time, Bounds(0, _END_MS)),
)
UNIT: Final = checked_by(UNIT_SCHEMA)
SD: Final = number(Bounds(0, _SD_MAX), excludes_low=True)
VALUE: Final = number(Bounds(-(10**30), 10**30))
FACT: Final = checked_by(EXACT_SCHEMA)
"""An exact number that receivers do not compute with."""
VERSION: Final = Row(
    Form({"const": 1}, lambda value: value),  # it is checked before all other fields
    "The version of the contract.",
)
METER: Final = Row(NAME, "The public id of the meter: its name, or its pseudonym.")

RECORD: Final = Table(
    "record",
    2_048,
    {
        "v": VERSION,
        "meter": METER,
        "t": Row(TIME, "The start of the slot or, for a band or a peak, of the window."),
        "for": Row(duration(), "The duration of the slot or, for a band or a peak, of the window."),
        "value": Row(VALUE, "The private value, a multiple of the quantum. Negative values are normal."),
        "unit": Row(UNIT, "W or kW (means), Wh or kWh (energies), or the currency of amounts."),
        "sd": Row(SD, "The standard deviation of the noise, in the unit, to four digits."),
        "d": Row(ID, "The id of the descriptor."),
        "band": Row(text(_NAME_MAX, 1), "The band of a mean day or of a tariff.", is_required=False),
        "draws": Row(
            integer(Bounds(1, DRAWS_MAX)), "The number of draws of noise in a peak.", is_required=False
        ),
    },
)
"""The private value of one slot."""

_READINGS = {
    "type": "object",
    "properties": {
        "every": {"type": "string", "pattern": f"^{DURATION}$"},
        "dead_band": EXACT_SCHEMA,
        "counters": {"type": "integer", "minimum": 2, "maximum": 1000},
    },
}

DESCRIPTOR: Final = Table(
    "descriptor",
    16_384,
    {
        "v": VERSION,
        "id": Row(ID, "The hash of the facts: see docs/contracts.md, rule `id`."),
        "meter": METER,
        "metric": Row(choice([*Metric]), "linf: the radius holds in each slot; l1: in all slots together."),
        "epsilon": Row(exact_number(BOUNDS["epsilon"]), "level / radius."),
        "epsilon_unit": Row(text(8, 3, "^1/.+$"), "1 divided by the unit of the values."),
        "level": Row(
            exact_number(BOUNDS["level"]),
            "The bound on the privacy loss between loads that differ by `radius`.",
        ),
        "radius": Row(
            exact_number(BOUNDS["radius"]),
            "The distance between slot values for which `level` holds, in their unit.",
        ),
        "hides_wh": Row(
            exact_number(BOUNDS["hides_wh"]),
            "The energy by which a load may change and still be hidden at the level.",
        ),
        "n": Row(integer(BOUNDS["n"]), "The number of slots in a window."),
        "quantum": Row(exact_number(BOUNDS["quantum"]), "The step of the lattice of values, in their unit."),
        "mechanism": Row(
            constant("linf-laplace"), "The distribution of the noise: see docs/contracts.md, rule `terms`."
        ),
        "length": Row(duration(BOUNDS["length"]), "The duration of the window."),
        "step": Row(
            duration(BOUNDS["step"]), "The duration of a slot, of the shortest band, or of a peak's part."
        ),
        "kind": Row(choice([*Kind]), "The meaning of the meter's readings."),
        "unit": Row(UNIT, "The unit of the values."),
        "sd": Row(SD, "The standard deviation of the noise of a value, dither included."),
        "ci95": Row(SD, "The half-width of the interval that covers the value with probability 0.95."),
        "level_per_day": Row(FACT, "The sum of the levels of a day's windows."),
        "unbiased": Row(text(), "What the value estimates without bias, in words for people."),
        "space": Row(choice(SENT_SPACES), "The kind of window."),
        "rounding": Row(choice(get_args(Rounding)), "The rounding of values to the lattice."),
        "schedule": Row(open_set([*Clock, "archive"]), "The clock that closes windows; archive: no clock."),
        "noise": Row(open_set(["os", "prf"]), "os: the system's random numbers; prf: from a key (archives)."),
        "invariants": Row(
            Form({"type": "array"}, lambda value: value), "What is released exactly, without noise: nothing."
        ),
        "valid_from": Row(TIME, "The start of the first window under these terms."),
        **{name: Row(checked_by(schema), is_required=False) for name, schema in shapes.OWN_FIELDS.items()},
        **{
            name: row._replace(is_required=False)
            for name, row in {
                "preset": Row(text(), "The name under which the configuration chose the radius; for people."),
                "timezone": Row(
                    text(),
                    "The zone of the local calendar; without this field, windows follow the Unix epoch.",
                ),
                "in_all": Row(
                    constant(value=True), "The radius bounds the change in all slots together (l1)."
                ),
                "meter_epsilon_per_day": Row(FACT, "The charge of a day over all streams of the meter."),
                "meter_epsilon_unit": Row(constant("1/W"), "The unit of `meter_epsilon_per_day`."),
                "readings": Row(checked_by(_READINGS), "How readings follow the load."),
                "level_of_loads": Row(
                    FACT, "The level for a change in the load, which readings follow in steps."
                ),
                "store": Row(text(), "A mark that tells the stores of different agents apart."),
            }.items()
        },
    },
)
"""The terms under which records were released."""

TOTAL: Final = Table(
    "total",
    2_048,
    {
        "v": VERSION,
        "meter": METER,
        "t": Row(TIME, "The end of the newest slot in the total."),
        "value": Row(number(Bounds(-_SD_MAX, _SD_MAX)), "The energy since `since`. It may decrease."),
        "unit": Row(choice(["Wh", "kWh"])),
        "sd": Row(SD, "The standard deviation of the total's noise."),
        "since": Row(TIME, "The time at which the total was 0. It moves forward after a missing slot."),
        "d": Row(ID, "The descriptor of the newest slot."),
    },
)
"""The sum of all records of a public id (sink.total)."""

STATUS: Final = Table(
    "status",
    256,
    {"v": VERSION, "status": Row(choice(["online", "offline"])), "t": Row(TIME, is_required=False)},
)
"""Whether the agent is running (sink.status)."""
