"""OpenEnergyMonitor's emonhub: JSON, one topic for each input, or comma-separated values by position.

All three formats are often active at once, with the same content, so read only one of them. The user's
configuration names the inputs, so ``source.value`` may be any name. Unnamed values are selected by position,
such as ``2 of 11``. A message with a different number of values is refused, because their order is unknown.
"""

import re
from collections.abc import Callable, Sequence
from fractions import Fraction

from meteragent.decode import PayloadNumber
from meteragent.decode.json import document_of, number_of, time_of, value_at
from meteragent.decode.number import bare, number_in, text_of
from meteragent.decode.profile import Profile, Quantity
from meteragent.domain.errors import PayloadError
from meteragent.domain.units import MINUTE_MS, Kind

_POSITION = re.compile(r"([1-9]\d?) of ([1-9]\d?)", re.ASCII)


def _input(key: str) -> Callable[[bytes], Sequence[PayloadNumber]]:
    """Make a reader of an input: a field of a JSON object, or a bare number on the input's topic."""

    def read(payload: bytes) -> tuple[PayloadNumber]:
        """Read the input and, from JSON, its time. Raises PayloadError if either is missing or wrong."""
        if not payload.lstrip().startswith(b"{"):
            return bare(payload)
        document = document_of(payload)
        return (PayloadNumber(time_of(value_at(document, "time")), number_of(value_at(document, key))),)

    return read


def _column(position: int, count: int) -> Callable[[bytes], Sequence[PayloadNumber]]:
    """Make a reader of the value at a position, counted from 1, among `count` values."""

    def read(payload: bytes) -> tuple[PayloadNumber]:
        """Read the value. Raises PayloadError if it is not a number, or if there are not `count` values."""
        columns = text_of(payload).split(",")
        if len(columns) != count:
            raise PayloadError("refused_columns")
        return (PayloadNumber(None, number_in(columns[position - 1])),)

    return read


def _input_quantity(kind: Kind, name: str) -> Quantity | None:
    """Make the quantity for an input, whose unit the configuration states."""
    return Quantity(kind, None, _input(name))


def _position_quantity(kind: Kind, name: str) -> Quantity | None:
    """Make the quantity for the value at a position, such as `2 of 11`; None if there is no such position.

    The configuration states the value's unit.
    """
    match = _POSITION.fullmatch(name)
    if match is None or int(match[1]) > int(match[2]):
        return None
    return Quantity(kind, None, _column(int(match[1]), int(match[2])), timed=False)


_TRAPS = (
    "the three formats have the same content: read only one of them",
    "pulsecount is a register of pulses: source.scale is the energy of a pulse, 1 Wh at 1000 pulses per kWh",
    "power is negative while more is fed in than drawn: window.range must reach below 0",
    "power is a sample or a mean of 5 to 10 s, depending on the device's firmware",
)

JSON = Profile(
    name="emonhub",
    title="an emonTx, emonPi or emonTH behind emonhub (JSON, or a topic for each input)",
    topics=("emon/{meter}", "emon/{meter}/power1", "emon/{meter}/P1", "emon/{meter}/E1"),
    quantities={
        "power1": Quantity(Kind.POWER, Fraction(1), _input("power1")),
        "P1": Quantity(Kind.POWER, Fraction(1), _input("P1")),
        "pulsecount": Quantity(Kind.REGISTER, None, _input("pulsecount"), is_count=True),
        "pulse": Quantity(Kind.REGISTER, None, _input("pulse"), is_count=True),
        "E1": Quantity(Kind.REGISTER, Fraction(1), _input("E1"), step_wh=Fraction(1)),
    },
    named=_input_quantity,
    every_ms=10_000,
    period_ms=10_000,
    hold_ms=5 * MINUTE_MS,
    traps=(
        "source.value may be the key of any other input, such as power2 or P3",
        "emonTx3cm, emonTx4, emonTx5 and emonPi2 name powers P1 to P6 and energies in Wh E1 to E6",
        "an energy E1 falls while more is fed in than drawn: read the power instead",
        *_TRAPS,
    ),
)
CSV = Profile(
    name="emonhub-csv",
    title="an emonTx, emonPi or emonTH behind emonhub (comma-separated values)",
    topics=("emonhub/rx/{meter}/values",),
    quantities={"1 of 11": Quantity(Kind.POWER, None, _column(1, 11), timed=False)},
    named=_position_quantity,
    every_ms=10_000,
    period_ms=10_000,
    hold_ms=5 * MINUTE_MS,
    traps=(
        "values are identified by position alone: value = '2 of 11' is the second of exactly eleven",
        "for a node that is received by radio, the signal strength comes last and is one more value",
        *_TRAPS,
    ),
)

PROFILES = (JSON, CSV)
