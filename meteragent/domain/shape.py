"""The shape of a window: the kind of its slots and their positions.

A window is divided into equal slots (`linf`), into the blocks of a curve (`curve`: equal slots whose values
represent one function), or into bands: hours of the day over all days of the window. In a `profile`, the
slots hold the same quantity as the readings; in `bands`, they hold energies, whatever the readings are. A
`weighted` window has one slot, whose value is the sum of energy times price. A `peak` has one slot, whose
value is the largest mean of the window's equal parts. A window `above` a threshold has one slot, whose value
is the energy above the threshold. Configurations, records and descriptors use the names of `Space`.
"""

from enum import StrEnum
from typing import NamedTuple


class Space(StrEnum):
    """The kind of slots: a vector, blocks of a curve, a mean day, energies of bands, or one number."""

    LINF = "linf"
    CURVE = "curve"
    PROFILE = "profile"
    BANDS = "bands"
    WEIGHTED = "weighted"
    PEAK = "peak"
    ABOVE = "above"


class Metric(StrEnum):
    """The distance between two windows: the largest difference in any slot, or the sum over all slots."""

    LINF = "linf"
    L1 = "l1"


UNKNOWN_BAND = "unknown"
"""The name of the band for energy whose time of use is unknown."""


class Band(NamedTuple):
    """Hours of the day that form one slot; `stretches` are (from, to) in ms after the window's start.

    The unknown band has no hours: its only stretch is empty and lies at the window's end.
    """

    name: str
    stretches: tuple[tuple[int, int], ...]

    @property
    def duration_ms(self) -> int:
        """The total duration of the slot's stretches."""
        return sum(end_ms - start_ms for start_ms, end_ms in self.stretches)


def stretches(bands: tuple[Band, ...], step_ms: int, slot_index: int) -> tuple[tuple[int, int], ...]:
    """Return the stretches of a slot as (from, to) in ms after the window's start, in order."""
    if bands:
        return bands[slot_index].stretches
    return ((slot_index * step_ms, (slot_index + 1) * step_ms),)
