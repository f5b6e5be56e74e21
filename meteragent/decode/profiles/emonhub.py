"""OpenEnergyMonitor's emonhub: JSON, one topic for each input, or comma-separated values by position.

All three formats are often active at once, with the same content. The user's configuration names the inputs,
so ``source.value`` may be any name, or a position such as ``2 of 11``. A message with a different number of
values is refused, because their order is unknown.
"""

import re
from fractions import Fraction

from meteragent.decode import PayloadNumber, Read
from meteragent.decode.json import document_of, number_of, time_of, value_at
from meteragent.decode.number import parse_number, read_bare, text_of
from meteragent.decode.profile import CodedPart, Quantity
from meteragent.domain.errors import PayloadError
from meteragent.domain.units import Kind

_POSITION = re.compile(r"([1-9]\d?) of ([1-9]\d?)", re.ASCII)


def _input(key: str) -> Read:
    """Make a reader of an input: a field of a JSON object, or a bare number on the input's topic."""

    def read(payload: bytes) -> tuple[PayloadNumber]:
        """Read the input and, from JSON, its time. Raises PayloadError if either is missing or wrong."""
        if not payload.lstrip().startswith(b"{"):
            return read_bare(payload)
        document = document_of(payload)
        return (PayloadNumber(time_of(value_at(document, "time")), number_of(value_at(document, key))),)

    return read


def _column(position: int, count: int) -> Read:
    """Make a reader of the value at a position, counted from 1, among `count` values."""

    def read(payload: bytes) -> tuple[PayloadNumber]:
        """Read the value. Raises PayloadError if it is not a number, or if there are not `count` values."""
        columns = text_of(payload).split(",")
        if len(columns) != count:
            raise PayloadError("refused_columns")
        return (PayloadNumber(None, parse_number(columns[position - 1])),)

    return read


def _position_quantity(kind: Kind, name: str) -> Quantity | None:
    """Make the quantity, without a unit, at a position such as `2 of 11`; None if that is impossible."""
    match = _POSITION.fullmatch(name)
    if match is None or int(match[1]) > int(match[2]):
        return None
    return Quantity(kind, None, _column(int(match[1]), int(match[2])), has_time=False)


CODED_PARTS = {
    "emonhub": CodedPart(
        {
            "power1": Quantity(Kind.POWER, Fraction(1), _input("power1")),
            "P1": Quantity(Kind.POWER, Fraction(1), _input("P1")),
            "pulsecount": Quantity(Kind.REGISTER, None, _input("pulsecount"), is_count=True),
            "pulse": Quantity(Kind.REGISTER, None, _input("pulse"), is_count=True),
            "E1": Quantity(Kind.REGISTER, Fraction(1), _input("E1"), step_wh=Fraction(1)),
        },
        named=lambda kind, name: Quantity(kind, None, _input(name)),  # the configuration states the unit
        fields=("time", "power1", "P1", "pulsecount", "pulse", "E1"),
    ),
    "emonhub-csv": CodedPart(
        {"1 of 11": Quantity(Kind.POWER, None, _column(1, 11), has_time=False)}, named=_position_quantity
    ),
}
