"""IAMMETER Wi-Fi meters: rows of numbers without keys, one for each phase.

A row is voltage, current, power (W), import and export (kWh), then perhaps frequency and power factor. One
phase is ``Data``, three are ``Datas``; a fourth row of ``Datas`` is the device's own sum and is not counted.
"""

from collections.abc import Callable, Sequence
from decimal import Context
from fractions import Fraction
from functools import reduce
from typing import Any

from meteragent.decode import Found
from meteragent.decode.json import at, document_of, number_of
from meteragent.decode.profile import Profile, Quantity
from meteragent.domain.errors import PayloadError
from meteragent.domain.units import MINUTE_MS, Kind

_POWER, _IMPORT, _EXPORT = 2, 3, 4
_COLUMNS = (5, 7)
_EXACT = Context(prec=64, traps=[])


def _rows(payload: bytes) -> list[list[Any]]:
    """A row for each phase; raises PayloadError where the rows are not those of a known meter."""
    document = document_of(payload)
    single, rows = at(document, "Data"), at(document, "Datas")
    if single is None and rows is None:
        raise PayloadError("refused_missing")
    if single is not None and rows is not None:
        raise PayloadError("refused_ambiguous")
    found = [single] if rows is None else rows
    known = isinstance(found, list) and len(found) in (1, 3, 4)
    if not known or not all(isinstance(row, list) and len(row) in _COLUMNS for row in found):
        raise PayloadError("refused_type")
    return found[:3]


def _sum(column: int) -> Callable[[bytes], Sequence[Found]]:
    """The reader of the sum of all phases."""

    def read(payload: bytes) -> tuple[Found]:
        numbers = [number_of(row[column]) for row in _rows(payload)]
        return (Found(None, reduce(_EXACT.add, numbers)),)

    return read


def _phase(place: int, column: int) -> Callable[[bytes], Sequence[Found]]:
    """The reader of one phase."""

    def read(payload: bytes) -> tuple[Found]:
        rows = _rows(payload)
        if place >= len(rows):
            raise PayloadError("refused_missing")
        return (Found(None, number_of(rows[place][column])),)

    return read


def _quantities(kind: Kind, scale: int, name: str, column: int) -> dict[str, Quantity]:
    """The sum of all phases, and each phase."""
    phases = {
        f"{name}-{letter}": Quantity(kind, Fraction(scale), _phase(place, column), timed=False)
        for place, letter in enumerate("abc")
    }
    return {name: Quantity(kind, Fraction(scale), _sum(column), timed=False), **phases}


IAMMETER = Profile(
    name="iammeter",
    title="an IAMMETER WEM3080, WEM3080T or similar",
    topics=("device/{meter}/realtime",),
    quantities={
        **_quantities(Kind.POWER, 1, "power", _POWER),
        **_quantities(Kind.REGISTER, 1000, "import", _IMPORT),
        **_quantities(Kind.REGISTER, 1000, "export", _EXPORT),
    },
    every_ms=MINUTE_MS,
    hold_ms=5 * MINUTE_MS,
    identifies="the device's serial number",
    personal=("SN", "mac"),
    traps=(
        "how often it sends is its own setting: source.every states it",
        "numbers are known by their place alone",
        "a fourth row is the sum of the others: counting it too would double everything",
        "import and export of three phases are counted for each phase, not as a net meter does",
        "power is below 0 while more is fed in than drawn: window.range must reach below 0",
        "Solax inverters send messages that look alike; their longer rows are refused",
    ),
)

PROFILES = (IAMMETER,)
