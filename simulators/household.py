"""A household's load as synthetic signatures: a first cut, good for demonstrations.

Appliances run through cycles of (watts, seconds), start at random within their hours, on top of a
standby load and a refrigerator. The same (seed, home, day) gives the same watts, whatever else is
simulated; seed 0 is a seed. Sizes and habits are assumptions, scaled so that homes use about 8 kWh a
day (330 W) on average.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

DAY_S = 86_400
GRID_S = 10
"""The resolution of the simulation; coarser series are means over it."""


@dataclass(frozen=True, slots=True)
class Appliance:
    """A cycle of (watts, seconds), how often a day it starts, and in which hours: (from, to, weight)."""

    name: str
    cycle: tuple[tuple[float, int], ...]
    starts_per_day: float
    hours: tuple[tuple[int, int, float], ...]

    def hour_weights(self) -> NDArray[np.float64]:
        """The probability of each hour of the day for a start."""
        weights = np.zeros(24)
        for begin, end, weight in self.hours:
            weights[begin:end] += weight
        return weights / weights.sum()


EVENING = (17, 23, 5.0)
APPLIANCES = (
    Appliance("kettle", ((2200, 150),), 5, ((6, 9, 3), (9, 17, 1), (17, 23, 2))),
    Appliance("microwave", ((1250, 120),), 1.5, ((7, 9, 2), (12, 14, 2), (18, 21, 2))),
    Appliance("toaster", ((900, 150),), 0.8, ((6, 10, 1),)),
    Appliance("washing machine", ((120, 180), (2050, 900), (150, 3000), (450, 600)), 0.6, ((8, 20, 1),)),
    Appliance("dishwasher", ((70, 300), (2000, 1200), (70, 1500), (2000, 600)), 0.5, ((12, 14, 1), EVENING)),
    Appliance("oven", ((2300, 600), *((2300, 50), (30, 100)) * 12), 0.6, ((11, 13, 1), (17, 20, 3))),
    Appliance("vacuum cleaner", ((1100, 900),), 0.25, ((9, 18, 1),)),
    Appliance("lights", ((70, 7200),), 3, ((6, 8, 1), EVENING)),
    Appliance("television", ((95, 5400),), 2, ((7, 9, 1), EVENING)),
    Appliance("computer", ((60, 7200),), 1.5, ((8, 22, 1),)),
)


def load_w(seed: int, home: int, day: int, step_s: int = 300) -> NDArray[np.float64]:
    """One home's day as mean watts over steps, shape (86400 / step_s,).

    Raises ValueError when `step_s` is not a multiple of GRID_S that divides a day.
    """
    if step_s % GRID_S or DAY_S % step_s:
        raise ValueError(f"a step is a multiple of {GRID_S} s that divides a day, not {step_s} s")
    draw = np.random.Generator(np.random.Philox(key=[seed, home * 100_000 + day]))
    series = np.full(DAY_S // GRID_S, 40 + 80 * draw.random())
    series += _refrigerator_w(draw)
    for appliance in APPLIANCES:
        for _ in range(draw.poisson(appliance.starts_per_day)):
            _run(series, appliance, draw)
    return np.asarray(series.reshape(-1, step_s // GRID_S).mean(axis=1))


def _refrigerator_w(draw: np.random.Generator) -> NDArray[np.float64]:
    """A compressor that is on for a third of its period."""
    period_s = 1800 + 1800 * draw.random()
    phase = (np.arange(DAY_S // GRID_S) * GRID_S / period_s + draw.random()) % 1
    return np.where(phase < 1 / 3, 70 + 50 * draw.random(), 0.0)


def _run(series: NDArray[np.float64], appliance: Appliance, draw: np.random.Generator) -> None:
    """Add one run of an appliance; what lies beyond midnight is left out."""
    hour = draw.choice(24, p=appliance.hour_weights())
    at_s = (hour + draw.random()) * 3600
    scale = 0.85 + 0.3 * draw.random()
    for watts, seconds in appliance.cycle:
        begin, end = round(at_s / GRID_S), round((at_s + seconds) / GRID_S)
        series[begin:end] += scale * watts
        at_s += seconds
