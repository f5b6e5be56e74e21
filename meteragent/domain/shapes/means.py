"""Equal slots: the mean power of each or, if readings are of energy, the energy in each; and curves."""

from dataclasses import dataclass
from typing import ClassVar

from meteragent.domain.shapes.base import Shape, Space
from meteragent.domain.units import Kind


@dataclass(frozen=True, slots=True)
class Equal(Shape):
    """A window of equal slots of `every_ms`, each with the mean of the power or the energy in it."""

    every_ms: int

    has_slots: ClassVar[bool] = True
    is_difference_stored: ClassVar[bool] = True

    @property
    def n(self) -> int:
        """The number of slots that fill the window."""
        return self.length_ms // self.every_ms

    @property
    def step_ms(self) -> int:
        """The duration of each slot."""
        return self.every_ms

    def extent(self, slot_index: int) -> tuple[int, int]:
        """Return where a slot lies in its window."""
        return slot_index * self.every_ms, (slot_index + 1) * self.every_ms

    def is_energy(self, kind: Kind) -> bool:
        """Return whether the slots hold energies, as the readings do."""
        return kind is not Kind.POWER

    def is_sound(self) -> bool:
        """Return whether whole slots fill the window."""
        return self.every_ms > 0 and self.length_ms > 0 and self.length_ms % self.every_ms == 0


@dataclass(frozen=True, slots=True)
class Means(Equal):
    """A window of slots that stand for themselves."""

    space: ClassVar[Space] = Space.LINF


@dataclass(frozen=True, slots=True)
class Curve(Equal):
    """A window that is one curve, released as the means of its blocks; a receiver rebuilds it in steps.

    The values of all blocks together represent one function on [0, T] (THEORY 4.1).
    """

    space: ClassVar[Space] = Space.CURVE
