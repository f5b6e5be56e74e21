"""Resolve and select the records of SenML packs in JSON (RFC 8428, 8798, 9100).

Theory of operation
-------------------
A base field applies from its record on, until a later record replaces it. A record's name is bn + n, its time
is bt + t, its value is bv + v, and its sum is bs + s; if one of the two numbers is missing, it is taken as 0.
The record's unit is u, or bu if u is missing. Times from 2**28 on are seconds since the Unix epoch. Smaller
times are relative to the arrival, and 0 is the arrival itself. A relative time in the future is a plan, not a
measurement, and is refused.

The configuration selects records by their full name, or by the end of the name after a ``:`` or ``/``, or by
a unit that fits the configured kind. If the selected records have different names, the pack is refused.

Rules:
1. A receiver must understand fields that end in ``_``, so a pack with such a field is refused. A pack of an
   unknown version is refused, too.
2. Numbers are exact: power is converted to W and energy to J, because all units are whole multiples of these.
3. A sum (`s`) is the integral of a power over time, in J, so it is a register.
"""

from collections.abc import Iterator
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Any, NamedTuple

from meteragent.decode import PayloadNumber, Read
from meteragent.decode.json import document_of, number_of
from meteragent.domain.errors import PayloadError
from meteragent.domain.units import UNIT_FACTOR, UNITS, Kind

WATTS = {unit: UNIT_FACTOR[unit] for unit in UNITS[Kind.POWER]}
JOULES = {"J": 1, **{unit: 3600 * UNIT_FACTOR[unit] for unit in UNITS[Kind.REGISTER]}}
J_IN_WH = Fraction(1, 3600)
"""The number of Wh in one J, which is the scale of energies, because they are read in J."""

_VERSIONS = (10, 26)  # RFC 9100: 10 is RFC 8428, and 2**4 adds the secondary units of RFC 8798
_ABSOLUTE_S = 2**28
_TIME_MAX_S = 10**12
_EXACT_CONTEXT = Context(prec=96, rounding=ROUND_FLOOR)
_NUMBER_MAX = Decimal(10) ** 30


class Record(NamedTuple):
    """A resolved record. `value` and `sum` may have any type; each is None if missing."""

    name: str
    unit: str | None
    time_ms: int | None
    value: Any
    sum: Any


def read_records(payload: bytes) -> Iterator[Record]:
    """Yield the resolved records of a pack. Raises PayloadError if the payload is not a supported pack."""
    pack = document_of(payload)
    if not isinstance(pack, list) or not all(isinstance(fields, dict) for fields in pack):
        raise PayloadError("refused_type")
    if any(key.endswith("_") for fields in pack for key in fields):
        raise PayloadError("refused_extension")
    if any("bver" in fields and fields["bver"] not in _VERSIONS for fields in pack):
        raise PayloadError("refused_extension")
    base: dict[str, Any] = {}
    for fields in pack:
        base |= {key: value for key, value in fields.items() if key in ("bn", "bt", "bu", "bv", "bs")}
        yield _resolve(fields, base)


def _resolve(fields: dict[str, Any], base: dict[str, Any]) -> Record:
    """Combine a record's fields with the base fields. Raises PayloadError if a type or the time is wrong."""
    name, unit = (fields.get("n", ""), fields.get("u", base.get("bu")))
    base_name = base.get("bn", "")
    if not isinstance(name, str) or not isinstance(base_name, str) or not isinstance(unit, str | None):
        raise PayloadError("refused_type")
    time_ms = _time_ms(_add_numbers(base.get("bt", Decimal(0)), fields.get("t", Decimal(0))))
    value, total = _add_base(fields, "v", base.get("bv")), _add_base(fields, "s", base.get("bs"))
    is_not_numeric = "v" not in fields and any(key in fields for key in ("vs", "vb", "vd"))
    return Record(base_name + name, unit, time_ms, "" if is_not_numeric else value, total)


def _add_base(fields: dict[str, Any], key: str, base: Any) -> Any:
    """Return a field (0 if missing) plus its base, if any; return a field that is no number as it is."""
    value = fields.get(key)
    if base is None or (key in fields and not isinstance(value, Decimal)):
        return value
    return _add_numbers(base, Decimal(0) if value is None else value)


def _add_numbers(number: Any, base: Any) -> Decimal:
    """Return the sum of two numbers. Raises PayloadError if a value is not a number."""
    return _EXACT_CONTEXT.add(_clamp(number_of(number)), _clamp(number_of(base)))


def _clamp(number: Decimal) -> Decimal:
    """Clamp a number to ±10**30."""
    return _NUMBER_MAX.copy_sign(number) if number.copy_abs() > _NUMBER_MAX else number


def _time_ms(time_s: Decimal) -> int | None:
    """Convert a time to that of a `Reading`. Raises PayloadError if it is impossible or after the arrival."""
    if time_s.copy_abs() > _TIME_MAX_S or 0 < time_s < _ABSOLUTE_S:
        raise PayloadError("refused_time")
    return int(_EXACT_CONTEXT.multiply(time_s, Decimal(1000)).to_integral_value(ROUND_FLOOR)) or None


def make_reader(kind: Kind, name: str | None, *, is_sum: bool = False) -> Read:
    """Make a reader of the selected records of a pack, one number per record, in W or J (`J_IN_WH`).

    Without a name, records with a unit that fits `kind` are selected or, if `is_sum`, with a power's sum.
    """
    units = WATTS if kind is Kind.POWER or is_sum else JOULES

    def read(payload: bytes) -> list[PayloadNumber]:
        """Return the numbers in the selected records. Raises PayloadError if the pack is refused."""
        pack = list(read_records(payload))
        if name is None:
            matches = [
                record
                for record in pack
                if record.unit in units and (record.sum if is_sum else record.value) is not None
            ]
        else:
            ends = f":{name}", f"/{name}"
            matches = [record for record in pack if record.name == name or record.name.endswith(ends)]
        if not matches:
            raise PayloadError("other")
        if len({record.name for record in matches}) > 1:
            raise PayloadError("refused_ambiguous")
        return [PayloadNumber(record.time_ms, _number(record, kind, is_sum=is_sum)) for record in matches]

    return read


def _number(record: Record, kind: Kind, *, is_sum: bool) -> Decimal:
    """Return the selected number in a record, in W or J. Raises PayloadError if that is impossible."""
    if kind is Kind.REGISTER and (is_sum or record.unit in WATTS):
        factor, number = WATTS.get(record.unit or ""), record.sum
    else:
        factor, number = (WATTS if kind is Kind.POWER else JOULES).get(record.unit or ""), record.value
    if factor is None:
        raise PayloadError("refused_unit")
    return _EXACT_CONTEXT.multiply(_clamp(number_of(number)), Decimal(factor))
