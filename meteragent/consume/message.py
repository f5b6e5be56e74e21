"""Descriptors and records with exact numbers, parsed from messages; later versions may add fields."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from hashlib import sha256
from typing import Any, NamedTuple, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from meteragent.domain.errors import RecordError
from meteragent.domain.grid import Calendar
from meteragent.domain.metric import Metric
from meteragent.domain.shapes import Shape, Space, WithShape
from meteragent.domain.terms import Rounding
from meteragent.domain.units import DAY_MS, HOUR_MS, KILO, UNITS, Kind
from meteragent.privacy.accuracy import half_width, sd
from meteragent.privacy.mechanism.laplace import LInfLaplace
from meteragent.wire import shapes
from meteragent.wire.descriptor import canonical_json, facts_id
from meteragent.wire.grammar import DESCRIPTOR, RECORD, Table, read_rows

Message = bytes | str | Mapping[str, Any]
"""A message as it arrived, or already parsed by a JSON library."""

_METER_FIELDS = {"id", "meter", "valid_from", "store"}
"""The descriptor fields on which the descriptor's id does not depend."""
_DECODERS: dict[Callable[[str], Any], json.JSONDecoder] = {
    parse: json.JSONDecoder(parse_float=parse) for parse in (float, Decimal)
}


@dataclass(frozen=True)
class Descriptor(WithShape):
    """The terms under which records were released: the mechanism, the promise and the grid.

    `level`, `radius` and the mechanism's parameters are exact. The radius and the quantum are in `unit`, and
    epsilon in 1/`unit`; the unit of amounts is a currency. `facts` has all fields as received. The
    descriptors of different meters under the same terms compare equal and have the same id.

    `shape` is the kind of window, with its slots (`meteragent.domain.shapes`). `metric` is the distance to
    which the promise refers. With the metric `l1`, the noises of slots are independent, and the mechanism has
    n = 1. Windows follow the local calendar of `timezone`, or are aligned to the Unix epoch if it is None.
    `rounding` is the rule by which slot values are rounded to whole quanta.
    """

    id: str
    meter: str = field(compare=False)
    valid_from_ms: int = field(compare=False)
    kind: Kind
    unit: str
    level: Fraction
    radius: Fraction
    mechanism: LInfLaplace
    metric: Metric
    shape: Shape
    timezone: str | None
    rounding: Rounding
    facts: Mapping[str, Any] = field(repr=False, compare=False)

    @classmethod
    def parse(cls, message: Message) -> Self:
        """Parse a descriptor. Raises RecordError, which names a missing, wrong or inconsistent field."""
        fields = Fields(DESCRIPTOR, message, float)
        if fields["id"] != id_of(fields.facts):
            raise fields.error("id", "does not match its facts")
        descriptor = cls._from_fields(fields)
        fields.require(cls._agreements(descriptor, fields))
        return descriptor

    @classmethod
    def _from_fields(cls, fields: Fields) -> Self:
        return cls(
            id=fields["id"],
            meter=fields["meter"],
            valid_from_ms=fields["valid_from"],
            kind=Kind(fields["kind"]),
            unit=fields["unit"],
            level=fields["level"],
            radius=fields["radius"],
            mechanism=_mechanism(fields),
            metric=Metric(fields["metric"]),
            shape=_shape(fields),
            timezone=fields.get("timezone"),
            rounding=fields["rounding"],
            facts=fields.facts,
        )

    def _agreements(self, fields: Fields) -> Iterator[tuple[str, bool]]:
        """Yield (field, whether it is consistent) for each condition; each may rely on the previous ones."""
        noise, shape = self.mechanism, self.shape
        yield "metric", self.metric in shape.metrics
        yield "in_all", self.metric.is_sum == (self.facts.get("in_all") is True)
        yield "kind", self.kind in shape.kinds
        yield "unit", self.unit in [shape.value_unit(unit, self.kind) for unit in UNITS[self.kind]]
        yield "epsilon_unit", fields["epsilon_unit"] == f"1/{self.unit}"
        yield "epsilon", noise.epsilon * self.radius == self.level
        yield "timezone", self.timezone is None or _is_zone(self.timezone)
        yield "timezone", self.timezone is not None or not shape.names
        yield "length", self.timezone is None or _is_of_calendar(self.length_ms)
        yield "n", fields["n"] == self.n
        yield "step", fields["step"] == self.step_ms
        hides_wh = self.radius * shape.wh_per_value(self.unit, self.kind) * shape.hours_per_value(self.kind)
        yield "hides_wh", fields["hides_wh"] == hides_wh
        yield "sd", math.isclose(fields["sd"], sd(noise, self.rounding), rel_tol=1e-3)
        half = half_width(noise, 0.95, self.rounding)
        yield "ci95", math.isclose(fields["ci95"], half, rel_tol=1e-3)

    @classmethod
    def parse_stored(cls, text: str) -> Self:
        """Parse a stored descriptor, which has no meter and was checked. Raises RecordError if malformed."""
        facts = json.loads(text)
        own_facts = {"id": facts_id(facts), "meter": "", "valid_from": "1970-01-01T00:00:00Z"}
        return cls._from_fields(Fields(DESCRIPTOR, facts | own_facts, float))

    @cached_property
    def hashed_text(self) -> str:
        """The text whose hash is the id: the facts that all meters under the same terms share."""
        facts = {name: fact for name, fact in self.facts.items() if name not in _METER_FIELDS}
        return canonical_json(facts).decode()

    @cached_property
    def digest(self) -> str:
        """The whole SHA-256 whose beginning is the id, in hexadecimal; unlike the id, it cannot be forged."""
        return sha256(self.hashed_text.encode()).hexdigest()

    @cached_property
    def record_check(self) -> RecordCheck:
        """The facts with which each record must agree."""
        deviation = float(self.facts["sd"])
        return RecordCheck(self.shape, self.unit, self.mechanism.quantum, deviation, self.timezone)

    @property
    def variance(self) -> Fraction:
        """The variance of a value's noise, in unit², to 17 significant digits; variances of slots add up."""
        return Fraction(repr(sd(self.mechanism, self.rounding) ** 2))

    def require_kind(self, noun: str, *spaces: Space) -> None:
        """Raise ValueError unless the kind of window is one of `spaces`, the only kinds that have `noun`."""
        if self.shape.space not in spaces:
            names = " or ".join(f"'{space}'" for space in spaces)
            raise ValueError(f"only windows with the space {names} have {noun}")

    def require_load(self, *, may_be_amount: bool = False) -> None:
        """Raise ValueError unless values are energies or means of the load or, if allowed, its cost."""
        shape = self.shape
        if not (shape.is_summable if may_be_amount else shape.is_additive):
            raise ValueError(
                f"values with the space '{shape.space}' are neither energies nor means of the load:"
                " use weighted_total, highest_mean or energy_above"
            )

    def slot_ms(self, band: str | None = None) -> int:
        """Return the duration to which a value refers, or that of the given band in its window."""
        return self.shape.slot_ms(0 if band is None else self.shape.names.index(band))

    def kwh_per_unit(self, band: str | None = None) -> Fraction:
        """Return the kWh per unit of a value, or of a band's value. Raises as `require_load`."""
        self.require_load()
        kilo = self.shape.wh_per_value(self.unit, self.kind) / KILO
        return kilo if self.shape.is_energy(self.kind) else kilo * self.slot_ms(band) / HOUR_MS

    def window_ms(self, time_ms: int) -> int:
        """Return the start of the window that contains the slot starting at `time_ms`."""
        if self.timezone is None:
            return time_ms - time_ms % self.length_ms
        return self.calendar_in(self.timezone).start_ms(time_ms)

    def window_of_slot_ms(self, start_ms: int) -> int:
        """Return the start of a slot's window: its own start if a window is one slot or slots are bands."""
        return start_ms if self.n == 1 or self.shape.names else self.window_ms(start_ms)

    def calendar_in(self, timezone: str) -> Calendar:
        """Return the calendar in `timezone` whose days, weeks or months are the windows of these terms."""
        days = self.length_ms / DAY_MS
        return Calendar(timezone, "1d" if days < 1.5 else "1w" if days < 8 else "1mo")


@dataclass(frozen=True, slots=True)
class Record:
    """The private value of one slot, which starts at `time_ms` and lasts `step_ms`.

    `value` is exact, `sd` is the standard deviation of its noise, and both are in `unit`. `descriptor` is the
    id of the slot's descriptor. The record of a band or a peak has the start and the duration of the whole
    window. `band` is None if slots are not bands. `draws` is the number of times that the agent drew noise
    for a peak, and 1 for other values.
    """

    meter: str
    time_ms: int
    step_ms: int
    value: Fraction
    unit: str
    sd: float
    descriptor: str
    band: str | None = None
    draws: int = 1

    @classmethod
    def parse(cls, message: Message) -> Self:
        """Parse a record. Raises RecordError, which names a field that is missing or wrong."""
        fields = Fields(RECORD, message, Decimal)
        return cls(
            meter=fields["meter"],
            time_ms=fields["t"],
            step_ms=fields["for"],
            value=fields["value"],
            unit=fields["unit"],
            sd=float(fields["sd"]),
            descriptor=fields["d"],
            band=fields.get("band"),
            draws=fields.get("draws", 1),
        )


class RecordCheck(NamedTuple):
    """The part of a descriptor with which its records must agree; `sd` is the noise's standard deviation."""

    shape: Shape
    unit: str
    quantum: Fraction
    sd: float
    timezone: str | None

    def require_match(self, record: Record) -> int:
        """Return a record's value in quanta. Raises RecordError if a field does not match the descriptor."""
        from_ms, to_ms = self.shape.extent_ms(0)
        if (record.unit, record.step_ms) != (self.unit, to_ms - from_ms):
            raise RecordError("a record whose unit or duration does not match its descriptor")
        if record.band not in (self.shape.names or (None,)):
            raise RecordError("a record whose band is not one of its descriptor's bands")
        if record.draws < 1 or (record.draws > 1 and not self.shape.is_redrawn):
            raise RecordError("a record whose number of draws does not match its descriptor")
        value, quantum = record.value, self.quantum  # as whole numbers, because new fractions cost more
        quanta, remainder = divmod(
            value.numerator * quantum.denominator, value.denominator * quantum.numerator
        )
        if remainder or not math.isclose(record.sd, self.sd, rel_tol=1e-3):
            raise RecordError("a record whose value or sd does not match its descriptor")
        return quanta


class Fields:
    """The fields of one message, read as its table says; `facts` are the fields as they arrived.

    Raises RecordError if the message is longer than its table allows, is no JSON object or has another
    version, or a field is missing or wrong.
    """

    def __init__(self, table: Table, message: Message, parse_float: Callable[[str], Any]) -> None:
        self._noun = table.noun
        if isinstance(message, bytes | str) and len(message) > table.bytes_max:
            raise RecordError(f"a {table.noun} of more than {table.bytes_max} bytes")
        self.facts = load_fields(message, parse_float)
        version = self.facts.get("v")
        if isinstance(version, bool) or not isinstance(version, int | float | Decimal):
            raise self.error("v", "is missing or not a number")
        if version != 1:
            raise self.error("v", "is not 1: a later version wrote it")
        self._values = read_rows(table.rows, self.facts, self.error)

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of an optional field, or `default` if it is missing."""
        return self._values.get(name, default)

    def error(self, name: str, reason: str) -> RecordError:
        """Return an error that states the kind of message, the name of the field and the reason."""
        return RecordError(f"a {self._noun} whose {name!r} {reason}")

    def require(
        self,
        agreements: Iterable[tuple[str, bool]],
        reason: str = "contradicts other fields, or is unknown to this version",
    ) -> None:
        """Raise RecordError with a reason for the first field, if any, whose condition does not hold."""
        for name, agrees in agreements:
            if not agrees:
                raise self.error(name, reason)


def load_fields(message: Message, parse_float: Callable[[str], Any] = Decimal) -> Mapping[str, Any]:
    """Return the fields of a message, without checks. Raises RecordError if it is not a JSON object."""
    facts: Any = message
    if isinstance(message, bytes | str):
        with suppress(ValueError, ArithmeticError, RecursionError):
            if isinstance(message, bytes):
                message = message.decode(json.detect_encoding(message), "surrogatepass")
            facts = _DECODERS[parse_float].decode(message)
    if isinstance(facts, Mapping):
        return facts
    raise RecordError("a message that is not a JSON object")


def digest_of(facts: Mapping[str, Any], names: Collection[str] = _METER_FIELDS) -> str | None:
    """Return the digest of facts without the fields `names`, or None if they cannot be written as JSON."""
    with suppress(ValueError, TypeError, RecursionError):
        text = canonical_json({name: fact for name, fact in facts.items() if name not in names})
        return sha256(text).hexdigest()
    return None


def id_of(facts: Mapping[str, Any], names: Collection[str] = _METER_FIELDS) -> str | None:
    """Return the id of facts without the fields `names`, or None if they cannot be written as JSON."""
    digest = digest_of(facts, names)
    return None if digest is None else digest[:8]


def _mechanism(fields: Fields) -> LInfLaplace:
    n = 1 if Metric(fields["metric"]).is_sum else fields["n"]
    with suppress(ValueError):
        return LInfLaplace(fields["epsilon"], fields["quantum"], n)
    raise RecordError("a descriptor whose 'epsilon', 'quantum' and 'n' do not make a mechanism")


def _shape(fields: Fields) -> Shape:
    try:
        return shapes.read_shape(fields.facts, fields["length"], fields["step"])
    except ValueError as error:
        raise fields.error("space", f"contradicts other fields: {error}") from None


def _is_of_calendar(length_ms: int) -> bool:
    """Return whether a local day, week or month can last so long: clocks may change, or a day be skipped."""
    return any(
        low <= length_ms / DAY_MS <= high for low, high in ((0.85, 1.15), (5.85, 8.15), (26.85, 31.15))
    )


def _is_zone(name: str) -> bool:
    with suppress(ZoneInfoNotFoundError, ValueError, OSError):
        return bool(ZoneInfo(name))
    return False
