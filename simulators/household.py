"""A household's load as synthetic signatures: a first cut, good for demonstrations.

Appliances run through cycles of (watts, seconds), start at random within their hours, on top of a
standby load and a refrigerator. A home keeps its traits (size, rhythm, what it owns, the power of each
appliance) from day to day; how much happens differs by the day. The same (seed, home, day) gives the
same watts, whatever else is simulated; seed 0 is a seed.

Sizes and habits are assumptions, scaled so that homes use about 8 kWh a day (330 W) on average, half of
them between 230 and 385 W. Weather, seasons, weekends and absences are left out.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

DAY_S = 86_400
GRID_S = 10
"""The resolution of the simulation; coarser series are means over it."""
MAIN_FUSE_W = 17_250
"""No home takes more: three phases of 25 A at 230 V."""

_HOME_SPREAD = 0.5
_DAY_SPREAD = 0.3
"""Of log-normal factors with mean 1: how busy a home is and its standby, how busy a day is."""


@dataclass(frozen=True, slots=True)
class Appliance:
    """A cycle of (watts, seconds), when it starts, and how many homes have it.

    `starts_per_day` is the mean in homes that have it; `hours` are (from, to, weight).
    """

    name: str
    cycle: tuple[tuple[float, int], ...]
    starts_per_day: float
    hours: tuple[tuple[int, int, float], ...]
    owners: float = 1.0

    def hour_weights(self) -> NDArray[np.float64]:
        """The probability of each hour of the day for a start."""
        weights = np.zeros(24)
        for begin, end, weight in self.hours:
            weights[begin:end] += weight
        return np.asarray(weights / weights.sum())


_EVENING = (17, 23, 5.0)
_WASHING = ((120, 180), (2050, 900), (150, 3000), (450, 600))
_DISHES = ((70, 300), (2000, 1200), (70, 1500), (2000, 600))
_BAKING = ((2300, 600), *((2300, 50), (30, 100)) * 12)
_FRYING = ((1800, 180), *((1800, 40), (0, 40)) * 10)
APPLIANCES = (
    Appliance("kettle", ((2200, 180),), 5, ((6, 9, 3), (9, 17, 1), (17, 23, 2))),
    Appliance("microwave", ((1250, 120),), 1.5, ((7, 9, 2), (12, 14, 2), (18, 21, 2))),
    Appliance("toaster", ((900, 150),), 0.8, ((6, 10, 1),)),
    Appliance("hob", _FRYING, 2, ((7, 9, 1), (11, 13, 2), (17, 20, 4)), owners=0.8),
    Appliance("oven", _BAKING, 0.7, ((11, 13, 1), (17, 20, 3))),
    Appliance("washing machine", _WASHING, 0.7, ((8, 20, 1),)),
    Appliance("tumble dryer", ((2100, 3000),), 0.5, ((10, 21, 1),), owners=0.4),
    Appliance("dishwasher", _DISHES, 0.8, ((12, 14, 1), _EVENING), owners=0.6),
    Appliance("vacuum cleaner", ((1100, 900),), 0.25, ((9, 18, 1),)),
    Appliance("lights", ((80, 7200),), 5, ((6, 8, 1), _EVENING)),
    Appliance("television", ((95, 5400),), 2.5, ((7, 9, 1), (12, 17, 1), _EVENING)),
    Appliance("computer", ((80, 7200),), 2.5, ((8, 22, 1),)),
)


@dataclass(frozen=True, slots=True)
class Home:
    """What stays the same from day to day."""

    standby_w: float
    busy: float
    late_h: float
    """How much later than others it does everything."""
    cold_w: float
    cold_period_s: float
    scales: NDArray[np.float64]
    """Of each appliance's power, around 1; 0 where the home has none."""


def home_of(seed: int, home: int) -> Home:
    """The traits of a home."""
    draw = np.random.default_rng(np.random.SeedSequence([seed, home]))
    owned = draw.random(len(APPLIANCES)) < [appliance.owners for appliance in APPLIANCES]
    return Home(
        standby_w=95 * _factor(draw, _HOME_SPREAD),
        busy=_factor(draw, _HOME_SPREAD),
        late_h=draw.normal(0, 0.8),
        cold_w=80 + 50 * draw.random(),
        cold_period_s=1800 + 1800 * draw.random(),
        scales=np.where(owned, 0.85 + 0.3 * draw.random(len(APPLIANCES)), 0),
    )


def load_w(seed: int, home: int, day: int, step_s: int = 300) -> NDArray[np.float64]:
    """One home's day as mean watts over steps, shape (86400 / step_s,).

    Raises ValueError when `step_s` is not a multiple of GRID_S that divides a day.
    """
    if step_s % GRID_S or DAY_S % step_s:
        raise ValueError(f"a step is a multiple of {GRID_S} s that divides a day, not {step_s} s")
    traits = home_of(seed, home)
    # A spawn key, because without one [seed, home] and [seed, home, 0] are the same seed.
    draw = np.random.default_rng(np.random.SeedSequence([seed, home], spawn_key=(day,)))
    series = traits.standby_w + _cold_w(traits, draw)
    busy = traits.busy * _factor(draw, _DAY_SPREAD)
    for appliance, scale in zip(APPLIANCES, traits.scales, strict=True):
        starts = draw.poisson(appliance.starts_per_day * busy)
        hours = draw.choice(24, starts, p=appliance.hour_weights()) + draw.random(starts)
        for hour in hours if scale else ():
            _run(series, appliance, scale, (hour + traits.late_h) % 24 * 3600)
    np.minimum(series, MAIN_FUSE_W, out=series)
    return np.asarray(series.reshape(-1, step_s // GRID_S).mean(axis=1))


def _factor(draw: np.random.Generator, spread: float) -> float:
    """A log-normal factor with mean 1."""
    return float(draw.lognormal(-(spread**2) / 2, spread))


def _cold_w(home: Home, draw: np.random.Generator) -> NDArray[np.float64]:
    """The refrigerator: a compressor that is on for a third of its period."""
    phase = np.arange(DAY_S // GRID_S) * GRID_S / home.cold_period_s + draw.random()
    return np.where(phase % 1 < 1 / 3, home.cold_w, 0.0)


def _run(series: NDArray[np.float64], appliance: Appliance, scale: float, at_s: float) -> None:
    """Add one run of an appliance; what lies beyond midnight is left out."""
    for watts, seconds in appliance.cycle:
        begin, end = round(at_s / GRID_S), round((at_s + seconds) / GRID_S)
        series[begin:end] += scale * watts
        at_s += seconds
