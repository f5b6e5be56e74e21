"""The shape of a window: the kind of its slots, and the place of each of them.

A window is divided into equal slots (`linf`), into the blocks of a curve (`curve`: equal slots whose values
are read as one function), or into bands of the day over all days of the window (`profile`). Configurations,
records and descriptors use the names of `Space`.
"""

from enum import StrEnum
from typing import NamedTuple


class Space(StrEnum):
    """The meaning of a window's slots: a vector, the blocks of a curve, or the bands of a mean day."""

    LINF = "linf"
    CURVE = "curve"
    PROFILE = "profile"


class Band(NamedTuple):
    """Hours of the day as one slot; its stretches are (from, to) in ms after its window's start."""

    name: str
    stretches: tuple[tuple[int, int], ...]

    @property
    def duration_ms(self) -> int:
        """The duration of the slot, over all its stretches."""
        return sum(end_ms - start_ms for start_ms, end_ms in self.stretches)


def stretches(bands: tuple[Band, ...], step_ms: int, slot_index: int) -> tuple[tuple[int, int], ...]:
    """Return the stretches of a slot in its window: (from, to) in ms after the window's start, in order."""
    if bands:
        return bands[slot_index].stretches
    return ((slot_index * step_ms, (slot_index + 1) * step_ms),)
