"""Register faults: rollovers, and resets to 0 (as when a meter is replaced or loses its count).

As in `fault`, faults are a pure function of the seed, the home and the day. The ground truth has a row for
the first reading after each rollover, and after each reset that follows a reading.
"""

from dataclasses import dataclass

import numpy as np

from meteragent.domain.units import DAY_MS
from simulators.homes.chance import Floats, Integers, uniforms
from simulators.homes.fault import Row
from simulators.homes.meter import Readings


@dataclass(frozen=True, slots=True)
class Resets:
    """Faults of a register: a reset each day with probability `reset`, and rollovers at `rollover_wh`.

    Raises ValueError if `reset` is not a probability, or `rollover_wh` is not positive.
    """

    reset: float = 0.01
    rollover_wh: float = 1e8

    def __post_init__(self) -> None:
        if not (0 <= self.reset <= 1 and self.rollover_wh > 0):
            raise ValueError("reset must be a probability, and rollover_wh must be above 0")

    def strike(
        self, seed: int, home: int, sent_ms: Integers, readings: Readings
    ) -> tuple[Readings, list[Row]]:
        """Apply faults to a rising register; return the faulty readings and the list of faults.

        Raises ValueError if the register ever falls: it must not have rolled over yet.
        """
        if np.any(np.diff(readings.values) < 0):
            raise ValueError("the register falls: it has already rolled over")
        base = np.zeros(len(sent_ms))
        resets = [
            index
            for index in (self._first_after(seed, home, day, sent_ms) for day in _days(sent_ms))
            if index
        ]
        for index in resets:
            base[index:] = readings.values[index - 1]
        counts_wh = readings.values - base
        rollovers = np.flatnonzero((np.diff(counts_wh // self.rollover_wh) > 0) & (np.diff(base) == 0)) + 1
        faults = [(index, "reset") for index in resets] + [(int(index), "rollover") for index in rollovers]
        stamps_ms, values = readings.times_ms, _round(counts_wh % self.rollover_wh)
        rows = [
            Row(home, int(sent_ms[index]), fault, int(stamps_ms[index])) for index, fault in sorted(faults)
        ]
        return Readings(stamps_ms, values), rows

    def _first_after(self, seed: int, home: int, day: int, sent_ms: Integers) -> int:
        """Return the index of the first reading after a day's reset, or 0.

        The index is 0 if the day has no reset, if all readings follow the reset, or if none does.
        """
        chance, time = uniforms(seed, "fault reset", home, day)[:2]
        if chance >= self.reset:
            return 0
        index = int(np.searchsorted(sent_ms, day * DAY_MS + int(time * DAY_MS)))
        return index if index < len(sent_ms) else 0


def _days(sent_ms: Integers) -> list[int]:
    """Return the days with readings, counted from the Unix epoch."""
    return [int(day) for day in np.unique(sent_ms // DAY_MS)]


def _round(values: Floats) -> Floats:
    """Round to nine decimal places, as a meter does, to remove the error of a subtraction."""
    return np.round(values, 9)
