"""A share: the energy of a slot, of which a home sends only one of two parts (docs/crowd.md 4)."""

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from meteragent.domain.readings import Readings
from meteragent.domain.shapes.base import Accumulator, Shape, Space
from meteragent.domain.units import HOUR_MS, UNIT_FACTOR, Kind


@dataclass(frozen=True, slots=True)
class Share(Shape):
    """A window whose energy, in Wh, counts in the total of the group with the id `group_id` (hex digits).

    The group's two operators add the noise. A report must have left `deadline_ms` after the window's end.
    """

    group_id: str
    deadline_ms: int

    space: ClassVar[Space] = Space.SHARE
    accumulator: ClassVar[Accumulator] = Accumulator.SHARE

    def is_energy(self, _kind: Kind) -> bool:
        """Return True: readings of power are integrated."""
        return True

    def value_unit(self, _unit: str, _kind: Kind) -> str:
        """Return Wh, the unit of all homes of a group."""
        return "Wh"

    def wh_per_value(self, _unit: str, _kind: Kind) -> Fraction:
        """Return 1."""
        return Fraction(1)

    def lattice(self, _slot_index: int, quantum_u: int, readings: Readings) -> int:
        """Return one quantum, in Wh, in units of the accumulator."""
        per_wh_ms = HOUR_MS if readings.kind is Kind.POWER else readings.interval_ms
        return quantum_u * per_wh_ms // UNIT_FACTOR[readings.unit]
