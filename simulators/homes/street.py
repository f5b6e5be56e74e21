"""A street of simulated homes over whole days: the messages from its meters, and the truth."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from meteragent.domain.grid import parse_time
from meteragent.domain.units import DAY_MS
from simulators.homes.fleet import Fleet

START_MS = parse_time("2026-01-05T00:00:00Z")
"""The first midnight, in Unix ms. It is in the past, because an agent refuses readings from the future, but
after the earliest time that an agent accepts."""
READING_MS = 300_000

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Street:
    """A street: `watts` holds its readings, shape (homes, days · 288), each the mean over the next 5 minutes.

    Meters send multiples of 0.1 W, and these readings are taken as the truth.
    """

    seed: int
    watts: Floats

    @classmethod
    def simulated(cls, seed: int, homes: int, days: int) -> Self:
        """Simulate a street; a seed always gives the same homes, and a home always has the same days."""
        fleet_days = Fleet(seed, range(homes)).days(0, days, READING_MS // 1000)
        watts = np.concatenate([day.watts for day in fleet_days], axis=1)
        return cls(seed, watts.astype(np.float64).round(1))

    @property
    def homes(self) -> int:
        """The number of homes."""
        return len(self.watts)

    @property
    def meters(self) -> list[str]:
        """The names of the meters: m1, m2 .."""
        return [f"m{home + 1}" for home in range(self.homes)]

    @property
    def days(self) -> int:
        """The number of simulated days."""
        return int(self.watts.shape[1]) * READING_MS // DAY_MS

    @property
    def readings(self) -> int:
        """The number of readings that are sent, including one final reading per home."""
        return self.homes * (int(self.watts.shape[1]) + 1)

    def slots(self, slot_ms: int) -> int:
        """Return the number of slots per home."""
        return self.days * DAY_MS // slot_ms

    def means_w(self, slot_ms: int) -> Floats:
        """Return the true mean power of each slot, shape (homes, slots)."""
        return np.asarray(self.watts.reshape(self.homes, -1, slot_ms // READING_MS).mean(axis=2))

    def payloads(self, index: int) -> list[bytes]:
        """Return each home's reading with the given index, counted from `START_MS`, as JSON.

        Before and after the simulated days, homes send the value of their first or last reading.
        """
        seconds = (START_MS + index * READING_MS) // 1000
        column = self.watts[:, min(max(index, 0), self.watts.shape[1] - 1)]
        return [f'{{"t": {seconds}, "power": {watts!r}}}'.encode() for watts in column.tolist()]

    def messages(self) -> Iterator[tuple[int, bytes]]:
        """Yield all readings in time order, as (home, JSON payload).

        The last message of each home repeats the home's last value, to show how long that value lasted.
        """
        for index in range(self.watts.shape[1] + 1):
            yield from enumerate(self.payloads(index))
