"""The shape of a window: what its slots are, and where each of them lies.

A window is divided into equal slots (`linf`), into the blocks of a curve (`curve`: slots too, whose numbers
are read as one function), or into bands of the day over all days of the window (`profile`). How a
configuration, a record and a descriptor say it follows `Space`.
"""

from enum import StrEnum
from typing import NamedTuple


class Space(StrEnum):
    """What the slots of a window are: a vector, the blocks of a curve, or the bands of a mean day."""

    LINF = "linf"
    CURVE = "curve"
    PROFILE = "profile"


class Band(NamedTuple):
    """Hours of the day as one slot, and where it lies: (from, to) in ms after its window's start."""

    name: str
    stretches: tuple[tuple[int, int], ...]

    @property
    def duration_ms(self) -> int:
        """How long the slot lasts in all."""
        return sum(end_ms - start_ms for start_ms, end_ms in self.stretches)


def stretches(bands: tuple[Band, ...], step_ms: int, slot_index: int) -> tuple[tuple[int, int], ...]:
    """Return where a slot lies in its window: (from, to) in ms after the window's start, in order."""
    if bands:
        return bands[slot_index].stretches
    return ((slot_index * step_ms, (slot_index + 1) * step_ms),)
