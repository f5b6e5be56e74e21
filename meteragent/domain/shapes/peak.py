"""The peak: the largest mean of the window's equal parts (THEORY-2 A.13)."""

from dataclasses import dataclass
from typing import ClassVar

from meteragent.domain.readings import Readings
from meteragent.domain.shapes.base import Accumulator, Shape, Space
from meteragent.domain.units import HOUR_MS, Kind


@dataclass(frozen=True, slots=True)
class Peak(Shape):
    """A window with one number, the largest mean power of its parts of `part_ms`.

    A change of the load by d in each part moves the largest mean by at most d (THEORY-2 A.13.1).
    """

    part_ms: int

    space: ClassVar[Space] = Space.PEAK
    accumulator: ClassVar[Accumulator] = Accumulator.LARGEST
    has_parts: ClassVar[bool] = True
    is_additive: ClassVar[bool] = False
    is_redrawn: ClassVar[bool] = True

    @property
    def step_ms(self) -> int:
        """The duration of a part."""
        return self.part_ms

    def is_energy(self, _kind: Kind) -> bool:
        """Return False: energies are divided by the time of a part."""
        return False

    def lattice(self, slot_index: int, quantum_u: int, readings: Readings) -> int:
        """Return one quantum in units of the accumulator; for energies, T is the interval times the hours."""
        if readings.kind is Kind.POWER:
            return Shape.lattice(self, slot_index, quantum_u, readings)
        return quantum_u * readings.interval_ms * self.part_ms // HOUR_MS

    def is_sound(self) -> bool:
        """Return whether whole parts fill the window."""
        return self.part_ms > 0 and self.length_ms > 0 and self.length_ms % self.part_ms == 0
