"""SenML packs in JSON (RFC 8428, 8798, 9100): the records of a pack, resolved, and which of them are meant.

Theory of operation
-------------------
Base fields hold from the record that has them to the next that has them. A record's name is bn + n, its
time bt + t, its unit u or else bu, its value bv + v and its sum bs + s; what is missing counts as 0. Times
from 2**28 on are seconds since the Unix epoch; those before are relative to the arrival, and 0 is the
arrival itself. A relative time in the future is a plan, not a measurement, and refused.

What is asked for is a name, or its end behind a ``:`` or ``/``; or no name, and then the records of a
fitting unit, if they have one name. Nothing is guessed: two names that fit are refused.

The rules
---------
1. A field that ends in ``_`` must be understood: a pack with one is refused, as is one of another version.
2. Numbers are exact: power is given in W and energy in J, of which all units are whole multiples.
3. A sum (`s`) is the integral of a power over time, in J: a register.
"""

from collections.abc import Callable, Iterator, Sequence
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Any, NamedTuple

from meteragent.decode import Found
from meteragent.decode.json import document_of, number_of
from meteragent.domain.errors import PayloadError
from meteragent.domain.units import Kind

WATTS = {"W": 1, "kW": 1000}
JOULES = {"J": 1, "Wh": 3600, "kWh": 3_600_000}
J_IN_WH = Fraction(1, 3600)
"""The scale of energies, which are given in J."""

_VERSIONS = (10, 26)  # RFC 9100: 10 is RFC 8428, + 2**4 the secondary units of RFC 8798
_ABSOLUTE_S = 2**28
_TIME_MAX_S = 10**12
_EXACT = Context(prec=96, rounding=ROUND_FLOOR)
_LARGE = Decimal(10) ** 30


class Record(NamedTuple):
    """A resolved record. `value` and `sum` are as they stand, None where there is none."""

    name: str
    unit: str | None
    time_ms: int | None
    value: Any
    sum: Any


def records(payload: bytes) -> Iterator[Record]:
    """The records of a pack; raises PayloadError where it is none, or must not be read as one."""
    pack = document_of(payload)
    if not isinstance(pack, list) or not all(isinstance(fields, dict) for fields in pack):
        raise PayloadError("refused_type")
    if any(label.endswith("_") for fields in pack for label in fields):
        raise PayloadError("refused_extension")
    if any("bver" in fields and fields["bver"] not in _VERSIONS for fields in pack):
        raise PayloadError("refused_extension")
    base: dict[str, Any] = {}
    for fields in pack:
        base |= {label: found for label, found in fields.items() if label in ("bn", "bt", "bu", "bv", "bs")}
        yield _resolved(fields, base)


def _resolved(fields: dict[str, Any], base: dict[str, Any]) -> Record:
    name, unit = (fields.get("n", ""), fields.get("u", base.get("bu")))
    base_name = base.get("bn", "")
    if not isinstance(name, str) or not isinstance(base_name, str) or not isinstance(unit, str | None):
        raise PayloadError("refused_type")
    time_ms = _time_ms(_added(base.get("bt", Decimal(0)), fields.get("t", Decimal(0))))
    value, total = _based(fields, "v", base.get("bv")), _based(fields, "s", base.get("bs"))
    other = any(label in fields for label in ("vs", "vb", "vd"))
    return Record(base_name + name, unit, time_ms, "" if other and "v" not in fields else value, total)


def _based(fields: dict[str, Any], label: str, base: Any) -> Any:
    """A field and its base: their sum where both are numbers, else the field as it stands."""
    found = fields.get(label)
    if base is None or (label in fields and not isinstance(found, Decimal)):
        return found
    return _added(base, Decimal(0) if found is None else found)


def _added(one: Any, other: Any) -> Decimal:
    return _EXACT.add(_bounded(number_of(one)), _bounded(number_of(other)))


def _bounded(number: Decimal) -> Decimal:
    """A number of a size that can be reckoned with exactly."""
    return _LARGE.copy_sign(number) if number.copy_abs() > _LARGE else number


def _time_ms(time_s: Decimal) -> int | None:
    """As Reading has it: since the epoch, or, negative, so long before the arrival; None is the arrival."""
    if time_s.copy_abs() > _TIME_MAX_S or 0 < time_s < _ABSOLUTE_S:
        raise PayloadError("refused_time")
    return int(_EXACT.multiply(time_s, Decimal(1000)).to_integral_value(ROUND_FLOOR)) or None


def reader(kind: Kind, name: str | None, *, of_sum: bool = False) -> Callable[[bytes], Sequence[Found]]:
    """What finds the records that are meant, all times of them: in W, or in J (`J_IN_WH`).

    Without a name those of a fitting unit; `of_sum`: the sum of a power, which is a register. A named record
    of a power is a register by its sum too.
    """
    units = WATTS if kind is Kind.POWER or of_sum else JOULES

    def read(payload: bytes) -> list[Found]:
        pack = list(records(payload))
        if name is None:
            meant = [
                one for one in pack if one.unit in units and (one.sum if of_sum else one.value) is not None
            ]
        else:
            meant = [one for one in pack if _is_named(one.name, name)]
        if not meant:
            raise PayloadError("other")
        if len({one.name for one in meant}) > 1:
            raise PayloadError("refused_ambiguous")
        return [Found(one.time_ms, _number(one, kind, of_sum=of_sum)) for one in meant]

    return read


def _is_named(full: str, name: str) -> bool:
    return full == name or full.endswith((f":{name}", f"/{name}"))


def _number(record: Record, kind: Kind, *, of_sum: bool) -> Decimal:
    """What is meant of a record, in W or in J."""
    if kind is Kind.REGISTER and (of_sum or record.unit in WATTS):
        factor, found = WATTS.get(record.unit or ""), record.sum
    else:
        factor, found = (WATTS if kind is Kind.POWER else JOULES).get(record.unit or ""), record.value
    if factor is None:
        raise PayloadError("refused_unit")
    return _EXACT.multiply(_bounded(number_of(found)), Decimal(factor))
