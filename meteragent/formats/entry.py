"""The type that all formats share: the value of an interval, with its quality and standard deviation."""

from collections import Counter
from collections.abc import Iterable, Iterator
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Literal, NamedTuple

from meteragent.consume.series import Series
from meteragent.domain.errors import FormatError
from meteragent.domain.grid import iso_time
from meteragent.domain.identity import is_valid_name
from meteragent.domain.units import MICRO, UNIT_FACTOR

Quality = Literal["measured", "estimated"]

_BITS = 63


class Entry(NamedTuple):
    """The mean power (W, kW) or the energy (Wh, kWh) of an interval.

    A released value has the quality "estimated", the standard deviation `sd` of its noise, and the id `d` of
    its descriptor. For the value of a band, `band` is the band's name and the interval is the window;
    otherwise, `band` is empty.
    """

    meter: str
    start_ms: int
    end_ms: int
    value: Fraction
    unit: str
    quality: Quality = "measured"
    sd: float | None = None
    band: str = ""
    d: str = ""

    @property
    def is_energy(self) -> bool:
        """Whether the value is an energy."""
        return self.unit.endswith("Wh")

    @property
    def base_value(self) -> Fraction:
        """The value in W or Wh."""
        return self.value * UNIT_FACTOR[self.unit]

    @property
    def base_sd(self) -> float | None:
        """The standard deviation in W or Wh."""
        return None if self.sd is None else self.sd * UNIT_FACTOR[self.unit]


def entries_of(meters: Iterable[Series]) -> Iterator[Entry]:
    """Yield the entries of released series. Raises FormatError for values that are not additive."""
    for series in meters:
        for record in series.records:
            if not series.descriptor_of(record).shape.is_additive:
                raise FormatError("peaks, energies above a threshold and amounts of money are not converted")
            yield Entry(
                record.meter,
                record.time_ms,
                record.time_ms + record.step_ms,
                record.value,
                record.unit,
                "estimated",
                record.sd,
                record.band or "",
                record.descriptor,
            )


def drop_copies(entries: Iterable[Entry], left_out: Counter[str]) -> list[Entry]:
    """Return entries without copies, which `left_out` counts. Raises FormatError if intervals overlap."""
    counts = Counter(entries)
    rows = list(counts)
    if counts.total() > len(rows):
        left_out["a copy of a value"] += counts.total() - len(rows)
    for (*place, _, end_ms), (*next_place, start_ms, _) in pairwise(
        sorted((entry.meter, entry.is_energy, entry.band, entry.start_ms, entry.end_ms) for entry in rows)
    ):
        if place == next_place and start_ms < end_ms:
            meter, time = place[0], iso_time(start_ms)
            raise FormatError(f"two intervals of meter {meter!r} overlap at {time}: remove one of them")
    return rows


def require_intervals(entries: Iterable[Entry], form: str) -> list[Entry]:
    """Return entries sorted by meter and time. Raises FormatError if the format cannot carry one of them."""
    checked_entries = sorted(entries, key=lambda entry: (entry.meter, entry.start_ms, entry.unit, entry.d))
    for entry in checked_entries:
        if entry.band:
            raise FormatError(f"{form} cannot carry bands: use csv")
        if entry.start_ms % 1000 or entry.end_ms % 1000:
            raise FormatError(f"{form} cannot carry fractions of a second: use csv")
        if not is_valid_name(entry.meter):
            raise FormatError(f"{form} cannot carry the name {entry.meter!r}: rename the meter")
    return checked_entries


def to_decimal(value: Fraction) -> Decimal:
    """Return a value exactly. Raises FormatError if the value is too large or has over six decimals."""
    if (value * MICRO).denominator != 1 or abs(value * MICRO) >= 1 << _BITS:
        raise FormatError("a value has more than six decimal places, or more than 13 digits before them")
    return Decimal(int(value * MICRO)).scaleb(-6).normalize()
