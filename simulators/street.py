"""A street of simulated homes over whole days: what their meters send, and what is true."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from meteragent.domain.grid import parse_time
from meteragent.domain.units import DAY_MS
from simulators.fleet import Fleet

START_MS = parse_time("2025-01-06T00:00:00Z")
"""The first midnight: past, because an agent refuses readings of the future."""
READING_MS = 300_000

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Street:
    """`watts`: readings, shape (homes, days · 288); each is the mean power of the 5 minutes it begins.

    Meters send whole tenths of a watt; these are the truth.
    """

    seed: int
    watts: Floats

    @classmethod
    def simulated(cls, seed: int, homes: int, days: int) -> Self:
        """The same seed gives the same homes, and the same home the same days, whatever else is asked for."""
        simulated = Fleet(seed, range(homes)).days(0, days, READING_MS // 1000)
        watts = np.concatenate([day.watts for day in simulated], axis=1)
        return cls(seed, watts.astype(np.float64).round(1))

    @property
    def homes(self) -> int:
        """How many."""
        return len(self.watts)

    @property
    def meters(self) -> list[str]:
        """Their names: m1, m2 .."""
        return [f"m{home + 1}" for home in range(self.homes)]

    @property
    def days(self) -> int:
        """How long it is simulated."""
        return int(self.watts.shape[1]) * READING_MS // DAY_MS

    @property
    def readings(self) -> int:
        """How many readings are sent."""
        return self.homes * (int(self.watts.shape[1]) + 1)

    def slots(self, slot_ms: int) -> int:
        """How many slots there are of each home."""
        return self.days * DAY_MS // slot_ms

    def means_w(self, slot_ms: int) -> Floats:
        """The true mean power of each slot, shape (homes, slots)."""
        return np.asarray(self.watts.reshape(self.homes, -1, slot_ms // READING_MS).mean(axis=2))

    def messages(self) -> Iterator[tuple[int, bytes]]:
        """All readings in order of time, as (home, JSON payload).

        One more of each home follows at the end: it says how long the one before stood.
        """
        for at, column in enumerate([*self.watts.T, self.watts[:, -1]]):
            seconds = (START_MS + at * READING_MS) // 1000
            for home, watts in enumerate(column.tolist()):
                yield home, f'{{"t": {seconds}, "power": {watts!r}}}'.encode()
