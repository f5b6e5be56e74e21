"""What happens to registers: they begin again at 0 when a meter is replaced or forgets, and they roll over.

As with `fault`, whether and when is a pure function of seed, home and day, and the ground truth says what was
struck: the first reading after each reset, and the first after each rollover.
"""

from dataclasses import dataclass

import numpy as np

from meteragent.domain.units import DAY_MS
from simulators.chance import Floats, Integers, uniforms
from simulators.fault import Row
from simulators.meter import Readings


@dataclass(frozen=True, slots=True)
class Resets:
    """A register is reset on a day with the chance `reset`, and rolls over at `rollover_wh`.

    Raises ValueError for what is no probability, or a rollover that is not above 0.
    """

    reset: float = 0.01
    rollover_wh: float = 1e8

    def __post_init__(self) -> None:
        if not (0 <= self.reset <= 1 and self.rollover_wh > 0):
            raise ValueError("reset is a probability, and rollover_wh is above 0")

    def strike(
        self, seed: int, home: int, sent_ms: Integers, readings: Readings
    ) -> tuple[Readings, list[Row]]:
        """What a register that never fell shows instead, and where it was struck.

        Raises ValueError when it falls already: rollovers are made here.
        """
        if np.any(np.diff(readings.values) < 0):
            raise ValueError("a register that falls: it has rolled over before")
        base = np.zeros(len(sent_ms))
        struck = [at for at in (self._first_after(seed, home, day, sent_ms) for day in _days(sent_ms)) if at]
        for at in struck:
            base[at:] = readings.values[at - 1]
        shown = readings.values - base
        rolled = np.flatnonzero((np.diff(shown // self.rollover_wh) > 0) & (np.diff(base) == 0)) + 1
        rows = [(at, "reset") for at in struck] + [(int(at), "rollover") for at in rolled]
        stamps_ms, values = readings.times_ms, _whole(shown % self.rollover_wh)
        told = [Row(home, int(sent_ms[at]), what, int(stamps_ms[at])) for at, what in sorted(rows)]
        return Readings(stamps_ms, values), told

    def _first_after(self, seed: int, home: int, day: int, sent_ms: Integers) -> int:
        """The place of the first reading after a day's reset; 0 where there is none, or no reading before."""
        happens, at = uniforms(seed, "fault reset", home, day)[:2]
        if happens >= self.reset:
            return 0
        place = int(np.searchsorted(sent_ms, day * DAY_MS + int(at * DAY_MS)))
        return place if place < len(sent_ms) else 0


def _days(sent_ms: Integers) -> list[int]:
    """The days, since the Unix epoch, on which readings were sent."""
    return [int(day) for day in np.unique(sent_ms // DAY_MS)]


def _whole(values: Floats) -> Floats:
    """Multiples of a resolution are decimals: what a subtraction leaves behind them is cut off."""
    return np.round(values, 9)
