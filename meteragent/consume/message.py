"""Descriptors and records with exact numbers, parsed from messages that must be complete and consistent.

Unknown fields are accepted, because later versions may add fields. Records are JSON objects or SenML packs
(`consume.senml`). A pack is converted to the fields of the equivalent JSON record.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, Self, TypeVar, cast, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from meteragent.consume import senml
from meteragent.domain.errors import RecordError
from meteragent.domain.grid import Calendar, parse_time
from meteragent.domain.shape import UNKNOWN_BAND, Metric, Space
from meteragent.domain.terms import Rounding
from meteragent.domain.units import DAY_MS, HOUR_MS, UNIT_FACTOR, UNITS, Kind
from meteragent.privacy.accuracy import half_width, sd
from meteragent.privacy.mechanism.laplace import LInfLaplace
from meteragent.wire import contract
from meteragent.wire.descriptor import facts_id

Message = bytes | str | Mapping[str, Any] | list[Any]
"""A message as it arrived, or already parsed by a JSON library; a list is a SenML pack."""

_METER_FIELDS = {"id", "meter", "valid_from", "store"}
"""The descriptor fields on which the descriptor's id does not depend."""

_L1_SPACES = {Space.BANDS, Space.PROFILE, Space.WEIGHTED}
"""The spaces whose promise may refer to the metric `l1`."""

_EXACT = re.compile(contract.EXACT, re.ASCII)
_JSON_NUMBER = re.compile(r"-?\d{1,60}(\.\d{1,30})?(e[+-]?\d{1,2})?", re.ASCII | re.IGNORECASE)
_ISO_DURATION = re.compile(contract.DURATION, re.ASCII)

T = TypeVar("T")


@dataclass(frozen=True)
class Descriptor:
    """The terms under which records were released: the mechanism, the promise and the grid.

    `level`, `radius` and the mechanism's parameters are exact. The radius and the quantum are in `unit`, and
    epsilon in 1/`unit`. `facts` has all fields as received. The descriptors of different meters under the
    same terms compare equal and have the same id.

    Slots are `step_ms` long, unless they are bands. `bands` gives the duration of each band in its window, in
    ms, by the band's name; it is empty if slots are not bands. If they are, `step_ms` is the shortest of
    these durations that is not 0. A peak has one slot, the window; its value is the largest mean of a
    part, and `step_ms` is the length of a part. `metric` is the distance to which the promise refers. With
    the metric `l1`, the noises of slots are independent, and the mechanism has n = 1. Windows follow the
    local calendar of `timezone`, or are aligned to the Unix epoch if it is None. `rounding` is the rule by
    which slot values are rounded to whole quanta; it is `half-up` if the field is absent. If values are
    amounts, `unit` is a currency, and `price_bound` is the bound on the price per kWh; otherwise
    `price_bound` is None.
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
    n: int
    length_ms: int
    step_ms: int
    space: Space
    timezone: str | None
    bands: Mapping[str, int] = field(compare=False)
    rounding: Rounding
    facts: Mapping[str, Any] = field(repr=False, compare=False)
    price_bound: Fraction | None = None

    @classmethod
    def parse(cls, message: Message) -> Self:
        """Parse a descriptor, which must be complete and consistent and have the id of its facts.

        Raises:
            RecordError: a field is missing, invalid or inconsistent; the error names it.
        """
        fields = Fields("descriptor", message, float)
        if fields.text("id") != _id_of(fields.facts):
            raise fields.error("id", "does not match its facts")
        descriptor = cls(
            id=fields.text("id"),
            meter=fields.text("meter"),
            valid_from_ms=fields.parse_with("valid_from", parse_time),
            kind=fields.parse_with("kind", Kind),
            unit=fields.text("unit"),
            level=fields.parse_with("level", exact),
            radius=fields.parse_with("radius", exact),
            mechanism=_mechanism(fields),
            metric=fields.parse_with("metric", Metric),
            n=fields.integer("n"),
            length_ms=fields.parse_with("length", duration_ms),
            step_ms=fields.parse_with("step", duration_ms),
            space=fields.parse_with("space", Space) if "space" in fields.facts else Space.LINF,
            timezone=fields.text("timezone") if "timezone" in fields.facts else None,
            bands=_bands(fields),
            rounding=fields.parse_with("rounding", _rounding) if "rounding" in fields.facts else "half-up",
            facts=fields.facts,
            price_bound=_price_bound(fields),
        )
        for name, agrees in descriptor._agreements(fields):
            if not agrees:
                raise fields.error(name, "contradicts other fields, or is unknown to this version")
        return descriptor

    def _agreements(self, fields: Fields) -> Iterator[tuple[str, bool]]:
        """Yield, for each condition of consistency, the field concerned and whether the condition holds.

        A condition may rely on the conditions before it.
        """
        noise = self.mechanism
        yield "metric", (self.metric is Metric.L1) <= (self.space in _L1_SPACES)
        yield "in_all", (self.metric is Metric.L1) == (self.facts.get("in_all") is True)
        yield "mechanism", fields.text("mechanism") == "linf-laplace"
        yield "weights", (self.price_bound is None) == (self.space is not Space.WEIGHTED)
        yield "threshold_w", ("threshold_w" in self.facts) == (self.space is Space.ABOVE)
        yield "unit", self._has_unit()
        yield "epsilon_unit", fields.text("epsilon_unit") == f"1/{self.unit}"
        yield "radius", self.radius > 0
        yield "epsilon", noise.epsilon * self.radius == self.level
        yield "timezone", self.timezone is None or _is_zone(self.timezone)
        if self.space in {Space.BANDS, Space.PROFILE}:
            yield "space", (self.space is Space.BANDS) <= (self.metric is Metric.L1)
            yield "bands", len(self.bands) == self.n and self.timezone is not None
            yield "step", min(filter(None, self.bands.values()), default=0) == self.step_ms
            yield "length", sum(self.bands.values()) <= self.length_ms
        elif self.space is Space.PEAK:
            yield "bands", not self.bands
            yield "n", self.n == 1
            yield "each_draw", self.facts.get("each_draw") is True
            yield "length", self.step_ms > 0 and self.length_ms % self.step_ms == 0
        else:
            if self.space is Space.ABOVE:
                yield "threshold_w", self.threshold_w > 0
                yield "kind", self.kind is Kind.POWER
                yield "n", self.n == 1
            if self.price_bound is not None:
                yield "weights", self.price_bound > 0
                yield "metric", self.metric is Metric.L1
                yield "n", self.n == 1
            yield "bands", not self.bands
            yield "length", self.n * self.step_ms == self.length_ms
        per_unit = self.kwh_per_unit() if self.price_bound is None else 1 / self.price_bound
        yield "hides_wh", fields.parse_with("hides_wh", exact) == self.radius * per_unit * 1000
        yield "sd", math.isclose(fields.number("sd"), sd(noise, self.rounding), rel_tol=1e-3)
        if "ci95" in fields.facts:
            half = half_width(noise, 0.95, self.rounding)
            yield "ci95", math.isclose(fields.number("ci95"), half, rel_tol=1e-3)

    def _has_unit(self) -> bool:
        """Return whether the unit is valid for the kind of the values."""
        if self.price_bound is not None:
            return self.facts["weights"].get("unit") == self.unit and self.unit not in UNIT_FACTOR
        return self.unit in UNITS[Kind.INTERVAL_ENERGY if self.is_energy else Kind.POWER]

    @property
    def is_energy(self) -> bool:
        """Whether values that are not amounts are energies; if not, they are means of the power."""
        if self.space in {Space.BANDS, Space.ABOVE}:
            return True
        return self.kind is not Kind.POWER and self.space is not Space.PEAK

    @property
    def threshold_w(self) -> Fraction:
        """The threshold in W above which energy is counted; 0 if it is missing or unreadable."""
        text = self.facts.get("threshold_w")
        with suppress(ValueError, ZeroDivisionError):
            return Fraction(text) if isinstance(text, str) and len(text) < 100 else Fraction(0)
        return Fraction(0)

    @property
    def variance(self) -> Fraction:
        """The variance of a value's noise, in unit², rounded to at most 17 significant digits.

        The noises of different slots are uncorrelated, so the variance of a sum of values is the sum of the
        values' variances.
        """
        return Fraction(repr(sd(self.mechanism, self.rounding) ** 2))

    def slot_ms(self, band: str | None = None) -> int:
        """Return `step_ms` or, if slots are bands, the duration in ms of the given band."""
        return self.step_ms if band is None else self.bands[band]

    def kwh_per_unit(self, band: str | None = None) -> Fraction:
        """Return the energy in kWh per unit of a slot's value, or of the value of the given band.

        Raises:
            ValueError: values are amounts, from which no energy follows.
        """
        if self.price_bound is not None:
            raise ValueError("amounts have no energy: use weighted_total")
        kilo = Fraction(UNIT_FACTOR[self.unit], 1000)
        return kilo if self.is_energy else kilo * self.slot_ms(band) / HOUR_MS

    def window_ms(self, time_ms: int) -> int:
        """Return the start of the window that contains the slot starting at `time_ms`."""
        if self.timezone is None:
            return time_ms - time_ms % self.length_ms
        return self.calendar(self.timezone).start_ms(time_ms)

    def calendar(self, timezone: str) -> Calendar:
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
        """Parse a record.

        Raises:
            RecordError: a field is missing or invalid; the error names it.
        """
        fields = Fields("record", message, Decimal)
        return cls(
            meter=fields.text("meter"),
            time_ms=fields.parse_with("t", parse_time),
            step_ms=fields.parse_with("for", duration_ms),
            value=fields.number("value"),
            unit=fields.text("unit"),
            sd=float(fields.number("sd")),
            descriptor=fields.text("d"),
            band=fields.text("band") if "band" in fields.facts else None,
            draws=fields.integer("draws") if "draws" in fields.facts else 1,
        )


class Fields:
    """The fields of one message, which are read by name and type. The field `v` must be 1."""

    def __init__(self, subject: str, message: Message, parse_float: Callable[[str], Any]) -> None:
        self._subject = subject
        self.facts = load(message, parse_float)
        if self.number("v") != 1:
            raise self.error("v", "is not 1: a later version wrote it")

    def error(self, name: str, reason: str) -> RecordError:
        """Return an error that states the kind of message, the name of the field and the reason."""
        return RecordError(f"a {self._subject} whose {name!r} {reason}")

    def text(self, name: str) -> str:
        """Return a field that must be a string. Raises RecordError if it is missing or not a string."""
        value = self.facts.get(name)
        if isinstance(value, str):
            return value
        raise self.error(name, "is missing or not a string")

    def number(self, name: str) -> Fraction:
        """Return the exact value of a field. Raises RecordError if it is missing, no number, or too long."""
        value = self.facts.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return Fraction(value)
        if isinstance(value, float | Decimal) and _JSON_NUMBER.fullmatch(str(value)):
            return Fraction(str(value))  # a float's string is the shortest decimal that represents it
        raise self.error(name, "is missing or not a number")

    def integer(self, name: str) -> int:
        """Return the value of a field. Raises RecordError if it is missing or not a whole number."""
        number = self.number(name)
        if number.denominator == 1:
            return number.numerator
        raise self.error(name, "is not a whole number")

    def parse_with(self, name: str, parse: Callable[[str], T]) -> T:
        """Return the result of `parse` for a field.

        Raises RecordError if the field is missing or not a string, or if `parse` fails.
        """
        text = self.text(name)
        with suppress(ValueError, ZeroDivisionError):
            return parse(text)
        raise self.error(name, "cannot be read")


def load(message: Message, parse_float: Callable[[str], Any] = Decimal) -> Mapping[str, Any]:
    """Return the fields of a message; `parse_float` converts JSON numbers with a fraction or an exponent.

    Raises:
        RecordError: the message is neither a JSON object nor a valid SenML pack of one record.
    """
    facts: Any = message
    if isinstance(message, bytes | str):
        with suppress(ValueError, ArithmeticError, RecursionError):
            facts = json.loads(message, parse_float=parse_float)
    if isinstance(facts, list):
        return senml.fields(facts)
    if isinstance(facts, Mapping):
        return facts
    raise RecordError("a message that is not a JSON object")


def _id_of(facts: Mapping[str, Any]) -> str | None:
    with suppress(ValueError, TypeError, RecursionError):
        return facts_id({name: fact for name, fact in facts.items() if name not in _METER_FIELDS})
    return None


def _mechanism(fields: Fields) -> LInfLaplace:
    epsilon, quantum = (fields.parse_with(name, exact) for name in ("epsilon", "quantum"))
    n = 1 if fields.text("metric") == Metric.L1 else fields.integer("n")
    with suppress(ValueError):
        return LInfLaplace(epsilon, quantum, n)
    raise RecordError("a descriptor whose 'epsilon', 'quantum' and 'n' do not make a mechanism")


def _bands(fields: Fields) -> Mapping[str, int]:
    """Return each band's duration in its window, in ms; empty if slots are not bands.

    Raises RecordError if the durations cannot be read.
    """
    durations = fields.facts.get("bands", {})
    with suppress(ValueError, TypeError, AttributeError):
        return {
            name: 0 if (name, text) == (UNKNOWN_BAND, "PT0S") else duration_ms(text)
            for name, text in durations.items()
        }
    raise fields.error("bands", "cannot be read")


def _price_bound(fields: Fields) -> Fraction | None:
    """Return the bound on the price per kWh, or None if values are not amounts.

    Raises RecordError if the bound cannot be read.
    """
    if "weights" not in fields.facts:
        return None
    with suppress(ValueError, TypeError, KeyError, ZeroDivisionError):
        return exact(fields.facts["weights"]["bound"])
    raise fields.error("weights", "cannot be read")


def _rounding(text: str) -> Rounding:
    if text not in get_args(Rounding):
        raise ValueError("not a rule of rounding")
    return cast(Rounding, text)


def _is_zone(name: str) -> bool:
    with suppress(ZoneInfoNotFoundError, ValueError, OSError):
        return bool(ZoneInfo(name))
    return False


def exact(text: str) -> Fraction:
    """Parse an integer, a decimal or a ratio of integers exactly.

    Raises ValueError for any other string, and ZeroDivisionError if the denominator is 0.
    """
    if _EXACT.fullmatch(text) is None:
        raise ValueError("not an integer, a decimal or a ratio of integers")
    return Fraction(text)


@lru_cache(maxsize=64)  # all records of a stream usually have the same duration
def duration_ms(text: str) -> int:
    """Parse an ISO 8601 duration in hours, minutes and seconds, and return it in ms.

    Raises ValueError if it has another form or is zero.
    """
    match = _ISO_DURATION.fullmatch(text)
    hours, minutes, seconds = (Fraction(part or 0) for part in match.groups()) if match else (0, 0, 0)
    if not (total_ms := int(1000 * (3600 * hours + 60 * minutes + seconds))):
        raise ValueError("not a duration in hours, minutes and seconds, such as PT30M")
    return total_ms
