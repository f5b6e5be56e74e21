"""Records in SenML packs (RFC 8428), converted to the fields of a JSON record.

A pack holds one record. The name of the value is ``<meter>/power`` or ``<meter>/energy``. The names of the
duration, the sd, the descriptor's id, the band and the number of draws are this name followed by ``_for``,
``_sd``, ``_terms``, ``_band`` and ``_draws`` (`meteragent.wire`). A program that forwards a pack may resolve
the pack's base fields.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from typing import Any

from meteragent.domain.errors import RecordError
from meteragent.domain.grid import iso_duration, iso_time
from meteragent.wire.senml import UTF8

_QUANTITIES = ("power", "energy")
_VERSIONS = (10, 26)
_ABSOLUTE_S = 2**28
_TIME_MAX_S = 10**11

_NUMERAL = re.compile(r"-?\d{1,60}(\.\d{1,30})?(e[+-]?\d{1,2})?", re.ASCII | re.IGNORECASE)

PackFields = dict[str, tuple[Fraction, Mapping[str, Any]]]
"""The content of a pack: the time in s and the fields of each SenML record, by the record's resolved name."""


def fields(pack: Sequence[Any]) -> Mapping[str, Any]:
    """Return the fields of the equivalent JSON record.

    The value, the sd and the number of draws are returned as they are in the pack.

    Raises:
        RecordError: the pack does not hold exactly one valid record; the error states the reason.
    """
    fields_by_name = _resolve(pack)
    names = [name for name in fields_by_name if name.rpartition("/")[2] in _QUANTITIES]
    if len(names) != 1:
        raise RecordError("a SenML pack without exactly one power or energy")
    [name] = names
    times = {time for time, _ in fields_by_name.values()}
    if len(times) != 1:
        raise RecordError("a SenML pack with several times")
    document = {
        "v": 1,
        "meter": _meter(name.rpartition("/")[0]),
        "t": iso_time(_ms(times.pop(), "time", _ABSOLUTE_S)),
        "for": iso_duration(_ms(_number(_field(fields_by_name, f"{name}_for", "v")), "duration", 0)),
        "value": _field(fields_by_name, name, "v"),
        "unit": _field(fields_by_name, name, "u"),
        "sd": _field(fields_by_name, f"{name}_sd", "v"),
        "d": _field(fields_by_name, f"{name}_terms", "vs"),
    }
    if f"{name}_band" in fields_by_name:
        document["band"] = _field(fields_by_name, f"{name}_band", "vs")
    if f"{name}_draws" in fields_by_name:
        document["draws"] = _field(fields_by_name, f"{name}_draws", "v")
    return document


def _resolve(pack: Sequence[Any]) -> PackFields:
    """Resolve the names and times of a pack's SenML records.

    Raises RecordError if a SenML record is invalid, has a base value, or has a field that must be understood
    (its name ends in ``_``).
    """
    fields_by_name: PackFields = {}
    base: dict[str, Any] = {"bn": "", "bt": 0}
    for fields in pack:
        if not isinstance(fields, Mapping) or any(key.endswith("_") or key in ("bv", "bs") for key in fields):
            raise RecordError("a SenML pack with base values or with a field that must be understood")
        if _number(fields.get("bver", 10)) not in _VERSIONS:
            raise RecordError("a SenML pack with an unsupported version")
        base |= {key: value for key, value in fields.items() if key in ("bn", "bt", "bu")}
        base_s, offset_s = _number(base["bt"]), _number(fields.get("t", 0))
        name = f"{base['bn']}{fields.get('n', '')}"
        if base_s is None or offset_s is None or name in fields_by_name:
            raise RecordError("a SenML pack whose times or names cannot be read")
        fields_by_name[name] = base_s + offset_s, {"u": base.get("bu"), **fields}
    return fields_by_name


def _field(fields_by_name: PackFields, name: str, label: str) -> Any:
    record = fields_by_name[name][1] if name in fields_by_name else {}
    if record.get(label) is None:
        raise RecordError(f"a SenML pack without {name.rpartition('/')[2]!r}")
    return record[label]


def _number(value: Any) -> Fraction | None:
    """Parse a JSON number or a numeric string; return None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        return None
    if _NUMERAL.fullmatch(str(value)) is None:
        return None
    return Fraction(str(value))


def _ms(seconds: Fraction | None, subject: str, bound_s: int) -> int:
    """Convert seconds to ms.

    Raises RecordError unless the result is a whole number and `seconds` lies between `bound_s` and
    `_TIME_MAX_S` (both exclusive).
    """
    if seconds is None or not bound_s < seconds < _TIME_MAX_S or (seconds * 1000).denominator != 1:
        raise RecordError(f"a SenML pack whose {subject} cannot be read")
    return int(seconds * 1000)


def _meter(name: str) -> str:
    """Decode a meter's name from its SenML name. Raises RecordError if the name cannot be decoded."""
    if not name.startswith(UTF8):
        return name
    with suppress(ValueError):
        return bytes.fromhex(name.removeprefix(UTF8)).decode()
    raise RecordError("a SenML pack whose meter's name cannot be read")
