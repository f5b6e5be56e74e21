"""emonhub of OpenEnergyMonitor: JSON, one topic for each input, or comma-separated values by position.

All three formats are often on at once and say the same; one is to be read. What the inputs are called is
the user's configuration, so any of them can be named in ``source.value``. Values without names are asked for
as ``2 of 11``: where there are not so many, nobody knows which is which.
"""

import re
from collections.abc import Callable, Sequence
from fractions import Fraction

from meteragent.decode import Found
from meteragent.decode.json import at, document_of, number_of, time_of
from meteragent.decode.number import bare, number_in, text_of
from meteragent.decode.profile import Profile, Quantity
from meteragent.domain.errors import PayloadError
from meteragent.domain.units import MINUTE_MS, Kind

_PLACE = re.compile(r"([1-9]\d?) of ([1-9]\d?)", re.ASCII)


def _input(key: str) -> Callable[[bytes], Sequence[Found]]:
    """The reader of an input: from JSON by its key, or alone on its own topic."""

    def read(payload: bytes) -> tuple[Found]:
        if not payload.lstrip().startswith(b"{"):
            return bare(payload)
        document = document_of(payload)
        return (Found(time_of(at(document, "time")), number_of(at(document, key))),)

    return read


def _column(place: int, count: int) -> Callable[[bytes], Sequence[Found]]:
    """The reader of the value at a place, counted from 1, of so many."""

    def read(payload: bytes) -> tuple[Found]:
        columns = text_of(payload).split(",")
        if len(columns) != count:
            raise PayloadError("refused_columns")
        return (Found(None, number_in(columns[place - 1])),)

    return read


def _named(kind: Kind, name: str) -> Quantity | None:
    """Any input; its unit is the configuration's."""
    return Quantity(kind, None, _input(name))


def _placed(kind: Kind, name: str) -> Quantity | None:
    """The value at any place; its unit is the configuration's."""
    match = _PLACE.fullmatch(name)
    if match is None or int(match[1]) > int(match[2]):
        return None
    return Quantity(kind, None, _column(int(match[1]), int(match[2])), timed=False)


_TRAPS = (
    "the three formats say the same: only one of them is to be read",
    "pulsecount is a register of pulses: source.scale is what a pulse is, such as 1 Wh at 1000 pulses a kWh",
    "power is below 0 while more is fed in than drawn: window.range must reach below 0",
    "power is a sample or a mean of 5 to 10 s, by the device's firmware",
)

JSON = Profile(
    name="emonhub",
    title="an emonTx, emonPi or emonTH behind emonhub (JSON, or a topic for each input)",
    topics=("emon/{meter}", "emon/{meter}/power1"),
    quantities={
        "power1": Quantity(Kind.POWER, Fraction(1), _input("power1")),
        "pulsecount": Quantity(Kind.REGISTER, None, _input("pulsecount"), is_count=True),
    },
    named=_named,
    every_ms=10_000,
    period_ms=10_000,
    hold_ms=5 * MINUTE_MS,
    traps=("any other input by its key, such as P1 or power2", *_TRAPS),
)
CSV = Profile(
    name="emonhub-csv",
    title="an emonTx, emonPi or emonTH behind emonhub (comma-separated values)",
    topics=("emonhub/rx/{meter}/values",),
    quantities={"1 of 11": Quantity(Kind.POWER, None, _column(1, 11), timed=False)},
    named=_placed,
    every_ms=10_000,
    period_ms=10_000,
    hold_ms=5 * MINUTE_MS,
    traps=(
        "values are known by their place alone: value = '2 of 11' is the second of exactly eleven",
        "the signal's strength comes last where a node is heard by radio: it counts as one more",
        *_TRAPS,
    ),
)

PROFILES = (JSON, CSV)
