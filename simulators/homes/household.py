"""The people in the homes: habits that stay the same from day to day, and times when nobody is home.

Homes differ in standby power, in how busy they are, in how late they do everything, and in whether everyone
goes to work on weekdays. In each week, a household may begin a journey of 1 to 14 days. While nobody is home,
no attended appliance starts. Sizes and habits are assumptions, scaled so that homes use about 8 kWh a day
(330 W) on average; this folder's README compares simulated homes with real ones. Only homes of a region share
seasons and public holidays, and own what `equipment` says. Day 0 is a Monday.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from simulators.homes.chance import Floats, Integers, lognormal, normal, uniforms
from simulators.homes.equipment import owners, season
from simulators.homes.region import Region
from simulators.homes.signature import DAY_S

_HOME_SPREAD, _DAY_SPREAD = 0.45, 0.35
"""Standard deviations of the logarithms of factors with mean 1. `_HOME_SPREAD` is for a home's activity and
standby power, `_DAY_SPREAD` for a day's activity."""
_STANDBY_W = 112
_LATE_S = 2900
_COMMUTERS = 0.45
_LEAVING_S, _RETURNING_S = (7.25 * 3600, 9.25 * 3600), (15.5 * 3600, 18.5 * 3600)
_JOURNEYS_A_WEEK = 0.06
JOURNEY_MAX_DAYS = 14


@dataclass(frozen=True, slots=True, eq=False)
class Absences:
    """The absences of one day: nobody is home in [begin_s, end_s), in seconds after midnight, shape (homes,).

    Begin and end are equal where somebody is home all day. A home has at most one absence per day: at work,
    or all day on a journey.
    """

    begin_s: Integers
    end_s: Integers

    def cover(self, row: Integers, second: Integers) -> NDArray[np.bool_]:
        """Return whether nobody is home, for each pair of a home's row and a second after midnight."""
        return (self.begin_s[row] <= second) & (second < self.end_s[row])


@dataclass(frozen=True, slots=True, eq=False)
class Households:
    """Homes and their traits, each an array of shape (homes,); `homes` holds the homes' numbers.

    `busy` is a factor with mean 1 on the number of starts, `late_s` the delay of all starts in a home
    (negative if they are early), and `commutes` says whether nobody is home during work on weekdays. `owns`
    holds, for each thing that `equipment` names, whether each home has it; without a `region`, it is empty.
    """

    seed: int
    homes: Integers
    standby_mw: Integers
    busy: Floats
    late_s: Integers
    commutes: NDArray[np.bool_]
    region: Region | None = None
    owns: Mapping[str, NDArray[np.bool_]] = field(default_factory=dict)

    @classmethod
    def of(cls, seed: int, homes: Integers, region: Region | None = None) -> Self:
        """Draw the traits of homes; a home's traits do not depend on the other homes."""
        size, people = uniforms(seed, "size", homes), uniforms(seed, "people", homes)
        standby_w = _STANDBY_W * lognormal(size[0], size[1], _HOME_SPREAD)
        return cls(
            seed,
            homes,
            np.rint(1000 * standby_w).astype(np.int64),
            lognormal(size[2], size[3], _HOME_SPREAD),
            np.rint(_LATE_S * normal(people[0], people[1])).astype(np.int64),
            people[2] < _COMMUTERS,
            region,
            {} if region is None else owners(seed, homes, region),
        )

    def select(self, rows: Integers) -> Self:
        """Return the homes in the given rows."""
        return replace(
            self,
            homes=self.homes[rows],
            standby_mw=self.standby_mw[rows],
            busy=self.busy[rows],
            late_s=self.late_s[rows],
            commutes=self.commutes[rows],
            owns={name: mask[rows] for name, mask in self.owns.items()},
        )

    def activity(self, day: int) -> Floats:
        """Return the factor on each home's start rates on the given day."""
        chance = uniforms(self.seed, "day", self.homes, day)
        activity = self.busy * lognormal(chance[0], chance[1], _DAY_SPREAD)
        return activity if self.region is None else activity * season(day)

    def absences(self, day: int) -> Absences:
        """Return when nobody is home on the given day."""
        chance = uniforms(self.seed, "absence", self.homes, day)
        begin, end = _interpolate(_LEAVING_S, chance[0]), _interpolate(_RETURNING_S, chance[1])
        works = day % 7 < 5 if self.region is None else not self.region.is_free(day)
        working = self.commutes & works
        travels = self.travels(day)
        return Absences(
            np.where(working & ~travels, begin, 0), np.where(travels, DAY_S, np.where(working, end, 0))
        )

    def travels(self, day: int) -> NDArray[np.bool_]:
        """Return whether each home is on a journey for the whole of the given day.

        A journey begins on a random day of its week. All weeks whose journeys can reach this day are checked.
        """
        away = np.zeros(len(self.homes), np.bool_)
        for week in range(day // 7 - JOURNEY_MAX_DAYS // 7, day // 7 + 1):
            chance = uniforms(self.seed, "journey", self.homes, week)
            first_day = week * 7 + np.floor(7 * chance[1])
            days = 1 + np.floor(JOURNEY_MAX_DAYS * chance[2] ** 2)
            away |= (chance[0] < _JOURNEYS_A_WEEK) & (first_day <= day) & (day < first_day + days)
        return away


def _interpolate(bounds: tuple[float, float], uniform: Floats) -> Integers:
    return np.floor(bounds[0] + (bounds[1] - bounds[0]) * uniform).astype(np.int64)
