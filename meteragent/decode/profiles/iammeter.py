"""IAMMETER Wi-Fi meters: rows of numbers without keys, one for each phase.

A row contains voltage, current, power (W), import and export (kWh), and optionally frequency and power
factor. ``Data`` holds the row of one phase; ``Datas`` holds the rows of three phases, and perhaps one with
their sum, which is ignored.
"""

from fractions import Fraction
from typing import Any

from meteragent.decode import PayloadNumber, Read
from meteragent.decode.json import document_of, number_of, value_at
from meteragent.decode.number import sum_clamped
from meteragent.decode.profile import CodedPart, Quantity
from meteragent.domain.errors import PayloadError
from meteragent.domain.units import Kind

_POWER, _IMPORT, _EXPORT = 2, 3, 4
_COLUMNS = (5, 7)


def _read_rows(payload: bytes) -> list[list[Any]]:
    """Return a row for each phase. Raises PayloadError if the rows do not match a known meter."""
    document = document_of(payload)
    phase, rows = value_at(document, "Data"), value_at(document, "Datas")
    if phase is None and rows is None:
        raise PayloadError("refused_missing")
    if phase is not None and rows is not None:
        raise PayloadError("refused_ambiguous")
    phases = [phase] if rows is None else rows
    is_supported = isinstance(phases, list) and len(phases) in (1, 3, 4)
    if not is_supported or not all(isinstance(row, list) and len(row) in _COLUMNS for row in phases):
        raise PayloadError("refused_type")
    return phases[:3]


def _sum_reader(column: int) -> Read:
    """Make a reader of a column's sum over all phases."""

    def read(payload: bytes) -> tuple[PayloadNumber]:
        """Read the sum. Raises PayloadError if a number is missing or wrong."""
        return (PayloadNumber(None, sum_clamped(number_of(row[column]) for row in _read_rows(payload))),)

    return read


def _phase_reader(index: int, column: int) -> Read:
    """Make a reader of a column's number for one phase."""

    def read(payload: bytes) -> tuple[PayloadNumber]:
        """Read the phase's number. Raises PayloadError if it is missing or wrong."""
        rows = _read_rows(payload)
        if index >= len(rows):
            raise PayloadError("refused_missing")
        return (PayloadNumber(None, number_of(rows[index][column])),)

    return read


def _quantities(kind: Kind, scale: int, name: str, column: int) -> dict[str, Quantity]:
    """Return the quantities in a column: the sum over all phases, and each phase."""
    phases = {
        f"{name}-{letter}": Quantity(kind, Fraction(scale), _phase_reader(index, column), has_time=False)
        for index, letter in enumerate("abc")
    }
    return {name: Quantity(kind, Fraction(scale), _sum_reader(column), has_time=False), **phases}


CODED_PARTS = {
    "iammeter": CodedPart(
        {
            **_quantities(Kind.POWER, 1, "power", _POWER),
            **_quantities(Kind.REGISTER, 1000, "import", _IMPORT),
            **_quantities(Kind.REGISTER, 1000, "export", _EXPORT),
        },
        fields=("Data", "Datas"),
    )
}
