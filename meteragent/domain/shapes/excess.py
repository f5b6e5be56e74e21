"""The energy above a threshold: the integral of the power's excess over the threshold.

Each reading counts as max(value - threshold, 0), which changes by no more than the reading does. So the
energy above a threshold changes by no more than the energy that a change of the load adds and removes, and
the noise that hides such a change in the total energy also hides it here (THEORY-2 A.14). The energy used
*while* the power is above a threshold is a different quantity: when the power rises above the threshold, that
energy jumps by the threshold times the duration.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from meteragent.domain.shapes.base import Shape, Space
from meteragent.domain.units import MICRO, UNIT_FACTOR, Kind


@dataclass(frozen=True, slots=True)
class Excess(Shape):
    """A window with one number, the energy above `threshold_w`."""

    threshold_w: Fraction

    space: ClassVar[Space] = Space.ABOVE
    kinds: ClassVar[frozenset[Kind]] = frozenset({Kind.POWER})
    is_additive: ClassVar[bool] = False
    counts_all: ClassVar[bool] = False

    def is_energy(self, _kind: Kind) -> bool:
        """Return True."""
        return True

    def counted(self, value_u: int, unit: str) -> int:
        """Return the excess of a reading over the threshold, or 0 if there is none."""
        return max(value_u - int(self.threshold_w * MICRO / UNIT_FACTOR[unit]), 0)

    def is_sound(self) -> bool:
        """Return whether window and threshold are positive."""
        return self.length_ms > 0 and self.threshold_w > 0
