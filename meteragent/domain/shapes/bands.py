"""Windows whose slots are bands: the energies of a tariff's bands, and the mean day.

When in the window a band has its hours differs from window to window and belongs to the terms of a window
(`Terms.places`).
"""

from dataclasses import dataclass
from typing import ClassVar

from meteragent.domain.shapes.base import Metric, Shape, Space
from meteragent.domain.units import Kind

UNKNOWN_BAND = "unknown"
"""The name of the band for energy whose time of use is unknown; it has no hours."""


@dataclass(frozen=True, slots=True)
class Banded(Shape):
    """A window whose slots are `bands`: (name, duration in ms), in the order in which they begin."""

    bands: tuple[tuple[str, int], ...]

    has_slots: ClassVar[bool] = True

    @property
    def n(self) -> int:
        """The number of bands."""
        return len(self.bands)

    @property
    def step_ms(self) -> int:
        """The duration of the shortest band that has hours."""
        return min(filter(None, (duration_ms for _, duration_ms in self.bands)), default=self.length_ms)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the bands."""
        return tuple(name for name, _ in self.bands)

    def slot_ms(self, slot_index: int) -> int:
        """Return the time of a band in the window."""
        return self.bands[slot_index][1]

    def is_sound(self) -> bool:
        """Return whether all bands but the unknown one have hours, which fit the window."""
        durations = dict(self.bands)
        have_hours = all(ms > 0 or name == UNKNOWN_BAND for name, ms in self.bands)
        fit = bool(self.bands) and len(durations) == self.n and sum(durations.values()) <= self.length_ms
        return have_hours and fit


@dataclass(frozen=True, slots=True)
class Bands(Banded):
    """A window with the energy of each band of a tariff, whatever the readings are (THEORY 3.9).

    The bands together cover each hour of the window once.

    After an outage, a register does not show the bands in which energy was used, so its windows have a band
    without hours, `UNKNOWN_BAND`, for that energy.
    """

    space: ClassVar[Space] = Space.BANDS
    metrics: ClassVar[tuple[Metric, ...]] = (Metric.L1,)

    @property
    def has_unknown(self) -> bool:
        """Whether energy whose time of use is unknown has a band of its own."""
        return UNKNOWN_BAND in self.names

    def is_energy(self, _kind: Kind) -> bool:
        """Return True: readings of power are integrated."""
        return True


@dataclass(frozen=True, slots=True)
class Profile(Banded):
    """A window with the mean, over all its days, of each band of the day (THEORY 3.6).

    The bands need not cover the day.
    """

    space: ClassVar[Space] = Space.PROFILE
    metrics: ClassVar[tuple[Metric, ...]] = (Metric.LINF, Metric.L1)

    def is_energy(self, kind: Kind) -> bool:
        """Return whether the bands hold energies, as the readings do."""
        return kind is not Kind.POWER
