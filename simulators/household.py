"""Who lives in the homes: what stays the same from day to day, and when nobody is there.

Homes differ in standby power, in how busy they are, in how late they do everything, and in whether all go
out to work on weekdays. They also travel: each week has a chance of a journey of 1 to 14 days. While nobody
is home no attended appliance is started. Sizes and habits are assumptions, scaled so that homes use about
8 kWh a day (330 W) on average; the folder's README compares them with real ones. Weather, seasons and
holidays of everybody at once are left out. Day 0 is a Monday.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from simulators.chance import Floats, Integers, lognormal, normal, uniforms
from simulators.signature import DAY_S

_HOME_SPREAD, _DAY_SPREAD = 0.45, 0.35
"""Of log-normal factors with mean 1: how busy a home is and its standby, how busy a day is."""
_STANDBY_W = 112
_LATE_S = 2900
_COMMUTERS = 0.45
_LEAVING_S, _RETURNING_S = (7.25 * 3600, 9.25 * 3600), (15.5 * 3600, 18.5 * 3600)
_JOURNEYS_A_WEEK = 0.06
JOURNEY_MAX_DAYS = 14


@dataclass(frozen=True, slots=True, eq=False)
class Absences:
    """When nobody is home on a day: [begin_s, end_s) after midnight, shape (homes,); equal where somebody is.

    One absence a day: at work, or the whole day on a journey.
    """

    begin_s: Integers
    end_s: Integers

    def cover(self, row: Integers, second: Integers) -> NDArray[np.bool_]:
        """Whether nobody was home, for each (row of a home, second after midnight)."""
        return (self.begin_s[row] <= second) & (second < self.end_s[row])


@dataclass(frozen=True, slots=True, eq=False)
class Households:
    """Homes and their traits, each an array of shape (homes,); `homes` are their numbers.

    `busy` is a factor with mean 1 on how often things are started, `late_s` how much later than others,
    `commutes` whether nobody is home on working days.
    """

    seed: int
    homes: Integers
    standby_mw: Integers
    busy: Floats
    late_s: Integers
    commutes: NDArray[np.bool_]

    @classmethod
    def of(cls, seed: int, homes: Integers) -> Self:
        """The traits of these homes: a home's own, whatever others are asked for."""
        size, people = uniforms(seed, "size", homes), uniforms(seed, "people", homes)
        standby_w = _STANDBY_W * lognormal(size[0], size[1], _HOME_SPREAD)
        return cls(
            seed,
            homes,
            np.rint(1000 * standby_w).astype(np.int64),
            lognormal(size[2], size[3], _HOME_SPREAD),
            np.rint(_LATE_S * normal(people[0], people[1])).astype(np.int64),
            people[2] < _COMMUTERS,
        )

    def activity(self, day: int) -> Floats:
        """How busy each home is on a day: the factor on every rate of starts."""
        drawn = uniforms(self.seed, "day", self.homes, day)
        return self.busy * lognormal(drawn[0], drawn[1], _DAY_SPREAD)

    def absences(self, day: int) -> Absences:
        """When nobody is home on a day."""
        drawn = uniforms(self.seed, "absence", self.homes, day)
        begin, end = _within(_LEAVING_S, drawn[0]), _within(_RETURNING_S, drawn[1])
        working = self.commutes & (day % 7 < 5)
        travels = self.travels(day)
        return Absences(
            np.where(working & ~travels, begin, 0), np.where(travels, DAY_S, np.where(working, end, 0))
        )

    def travels(self, day: int) -> NDArray[np.bool_]:
        """Whether each home is on a journey for the whole of a day.

        A journey begins in its week at a day of its own; those that can reach this day are looked at.
        """
        away = np.zeros(len(self.homes), np.bool_)
        for week in range(day // 7 - JOURNEY_MAX_DAYS // 7, day // 7 + 1):
            drawn = uniforms(self.seed, "journey", self.homes, week)
            first = week * 7 + np.floor(7 * drawn[1])
            days = 1 + np.floor(JOURNEY_MAX_DAYS * drawn[2] ** 2)
            away |= (drawn[0] < _JOURNEYS_A_WEEK) & (first <= day) & (day < first + days)
        return away


def _within(bounds: tuple[float, float], uniform: Floats) -> Integers:
    return np.floor(bounds[0] + (bounds[1] - bounds[0]) * uniform).astype(np.int64)
