"""Records that came as SenML packs (RFC 8428), as the fields that a JSON record has.

A pack holds one record: the value as ``<meter>/power`` or ``<meter>/energy``, and beside it, under the same
name with ``_for``, ``_sd``, ``_terms`` and ``_band``, what else a record says (`meteragent.wire`). The base
fields may stand as they were sent, or resolved by whoever passed the pack on.
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

Named = dict[str, tuple[Fraction, Mapping[str, Any]]]
"""What a pack says, by resolved name: the time, and the other fields."""


def fields(pack: Sequence[Any]) -> Mapping[str, Any]:
    """The fields of the JSON record that says the same; numbers as they stand in the pack.

    Raises:
        RecordError: it is no pack of one record; the text names what is missing.
    """
    named = _resolved(pack)
    main = [name for name in named if name.rpartition("/")[2] in _QUANTITIES]
    if len(main) != 1:
        raise RecordError("a SenML pack without one power or energy")
    [name] = main
    times = {time for time, _ in named.values()}
    if len(times) != 1:
        raise RecordError("a SenML pack of several times")
    found = {
        "v": 1,
        "meter": _meter(name.rpartition("/")[0]),
        "t": iso_time(_ms(times.pop(), "time", _ABSOLUTE_S)),
        "for": iso_duration(_ms(_number(_field(named, f"{name}_for", "v")), "duration", 0)),
        "value": _field(named, name, "v"),
        "unit": _field(named, name, "u"),
        "sd": _field(named, f"{name}_sd", "v"),
        "d": _field(named, f"{name}_terms", "vs"),
    }
    if f"{name}_band" in named:
        found["band"] = _field(named, f"{name}_band", "vs")
    return found


def _resolved(pack: Sequence[Any]) -> Named:
    """The records of a pack by name; base values and what must be understood are refused."""
    named: Named = {}
    base: dict[str, Any] = {"bn": "", "bt": 0}
    for one in pack:
        if not isinstance(one, Mapping) or any(label.endswith("_") or label in ("bv", "bs") for label in one):
            raise RecordError("a SenML pack that needs what is not known here")
        if _number(one.get("bver", 10)) not in _VERSIONS:
            raise RecordError("a SenML pack of another version")
        base |= {label: found for label, found in one.items() if label in ("bn", "bt", "bu")}
        start_s, after_s = _number(base["bt"]), _number(one.get("t", 0))
        name = f"{base['bn']}{one.get('n', '')}"
        if start_s is None or after_s is None or name in named:
            raise RecordError("a SenML pack whose times or names cannot be read")
        named[name] = start_s + after_s, {"u": base.get("bu"), **one}
    return named


def _field(named: Named, name: str, label: str) -> Any:
    found = named[name][1] if name in named else {}
    if found.get(label) is None:
        raise RecordError(f"a SenML pack without {name.rpartition('/')[2]!r}")
    return found[label]


def _number(found: Any) -> Fraction | None:
    """A number, or the digits of one where they were kept as text; None when it is none."""
    if isinstance(found, bool) or not isinstance(found, int | float | str | Decimal):
        return None
    if _NUMERAL.fullmatch(str(found)) is None:
        return None
    return Fraction(str(found))


def _ms(seconds: Fraction | None, what: str, above_s: int) -> int:
    """Seconds in whole ms; raises RecordError where they are not, or not above the bound."""
    if seconds is None or not above_s < seconds < _TIME_MAX_S or (seconds * 1000).denominator != 1:
        raise RecordError(f"a SenML pack whose {what} cannot be read")
    return int(seconds * 1000)


def _meter(name: str) -> str:
    """A meter's own name from that in SenML."""
    if not name.startswith(UTF8):
        return name
    with suppress(ValueError):
        return bytes.fromhex(name.removeprefix(UTF8)).decode()
    raise RecordError("a SenML pack whose meter's name cannot be read")
