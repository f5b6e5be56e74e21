"""Electric cars: how far they drive, when they are plugged in, and when the charger delivers.

A session charges what the car has used since it was last plugged in, but at most what its battery holds or
the charger delivers in 10 hours. So a session's energy depends only on the days before it, never on another
session. A session starts on arrival, by a timer in the cheap hours, or in the cheapest hours of the night's
prices, or it follows the sun. In trials, cars were charged three times a week on average (Electric Nation
2019), and most of them at most once a day (My Electric Avenue 2015).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from simulators.homes.appliance import Runs
from simulators.homes.chance import Floats, Integers, lognormal, normal, uniforms
from simulators.homes.equipment import CAR, SOLAR, choose
from simulators.homes.household import Absences, Households
from simulators.homes.region import HOUR_S, Choice, Region
from simulators.homes.signature import DAY_S
from simulators.homes.solar import Roofs
from simulators.homes.supply import KWH_MWS, cheapest_hour, join, on_day
from simulators.homes.weather import STEP_S, STEPS, sky

ARRIVAL, TIMER, PRICE, SUN = range(4)
_STRATEGIES = Choice((ARRIVAL, TIMER, PRICE), (0.45, 0.4, 0.15))
"""Assumption; three of four homes with solar panels follow the sun instead."""
_FOLLOWS_SUN = 0.75
_KM_A_DAY, _KM_SPREAD, _IDLE = 44, 0.8, 0.25
"""The mean kilometres on a day with trips, the standard deviation of their logarithm, and the share of days
without trips. A year has 12,000 km (Kraftfahrt-Bundesamt 2023: 12,300)."""
_KWH_A_KM, _COLD = 0.17, 0.014
"""Consumption at 20 °C, and its relative increase for each K below (assumption: a third more at -5 °C)."""
_FROM_HOME, _CHARGER = 0.8, 0.9
"""The share of energy that is charged at home, and the efficiency of charging."""
_PLUGS = 0.25, 0.65
_LOOK_BACK = 14
_CAPACITY_KWH = Choice((30, 45, 60, 75), (0.2, 0.3, 0.35, 0.15))
_LONGEST_S = 10 * HOUR_S
"""The longest session. No session lasts until the car's next session, because arrivals are between 12:00 and
23:15, timers end before 1:41, and the sun is followed from 10:00 on."""
_SUN_FROM_S = 10 * HOUR_S
_FULL_POWER = 0.95
"""The share of a session's energy that is charged at full power; the remainder is charged at half power."""
_HOME_W, _LEAST_W = 400, 1400
"""The part of a roof's power that a charger does not use, and the least power of a charger (6 A), in W."""
_ARRIVAL_H, _ARRIVAL_SPREAD_H = 17.0, 2.5


class Cars(NamedTuple):
    """Traits of cars and chargers, each of shape (homes,)."""

    power_mw: Integers
    capacity_mws: Integers
    plugs: Floats
    strategy: Integers
    timer_s: Integers

    @classmethod
    def of(cls, people: Households, region: Region) -> Self:
        """Draw each home's car."""
        power, capacity, plugs, strategy = uniforms(people.seed, "car: make", people.homes)
        follows, timer, _, _ = uniforms(people.seed, "car: habit", people.homes)
        by_sun = people.owns[SOLAR] & (follows < _FOLLOWS_SUN)
        # People set timers to whole or half hours, most of them to the beginning of the cheap hours.
        late_s = np.where(timer < 0.6, 0, np.floor(6 * timer - 3).astype(np.int64) * HOUR_S // 2)
        return cls(
            1000 * choose(region.car_w, power),
            KWH_MWS * choose(_CAPACITY_KWH, capacity),
            _PLUGS[0] + (_PLUGS[1] - _PLUGS[0]) * plugs,
            np.where(by_sun, SUN, choose(_STRATEGIES, strategy)),
            region.night_s[0] + late_s,
        )


class Sessions(NamedTuple):
    """The sessions for which cars are plugged in on one day; times count from that day's midnight."""

    row: Integers
    arrival_s: Integers
    energy_mws: Integers


def used_mws(people: Households, region: Region, day: int) -> Integers:
    """Return the energy that each car's trips of a day take from the home's charger."""
    chance = uniforms(people.seed, "car: trips", people.homes, day)
    km = np.where(
        chance[0] < _IDLE, 0, _KM_A_DAY * people.busy**0.5 * lognormal(chance[1], chance[2], _KM_SPREAD)
    )
    cold = 1 + _COLD * max(0.0, 20 - sky(people.seed, region, day).mean_c)
    kwh = km * _KWH_A_KM * cold * _FROM_HOME / _CHARGER
    return np.asarray(np.where(people.travels(day), 0, np.floor(kwh * KWH_MWS))).astype(np.int64)


def is_plugged(people: Households, cars: Cars, day: int) -> NDArray[np.bool_]:
    """Return whether each car is plugged in on a day; on journeys, it is not."""
    chance = uniforms(people.seed, "car: plug", people.homes, day)
    return np.asarray((chance[0] < cars.plugs) & ~people.travels(day))


def sessions(people: Households, region: Region, cars: Cars, day: int) -> Sessions:
    """Return the sessions of cars that are plugged in on a day and need energy."""
    open_now = is_plugged(people, cars, day)
    energy = np.zeros(len(open_now), np.int64)
    for back in range(_LOOK_BACK):
        energy += np.where(open_now, used_mws(people, region, day - back), 0)
        open_now = open_now & ~is_plugged(people, cars, day - back - 1)
        if not open_now.any():
            break
    energy = np.minimum(energy, np.minimum(cars.capacity_mws, cars.power_mw * _LONGEST_S))
    row = np.flatnonzero(energy)
    return Sessions(row, _arrival_s(people, day)[row], energy[row])


def _arrival_s(people: Households, day: int) -> Integers:
    """Return when each car comes home: from work soon after its people, on other days at any time."""
    chance = uniforms(people.seed, "car: arrival", people.homes, day)
    home_s = people.absences(day).end_s
    hour = _ARRIVAL_H + _ARRIVAL_SPREAD_H * normal(chance[0], chance[1])
    later_s = np.floor(900 * chance[2]).astype(np.int64)
    free_s = np.floor(3600 * hour.clip(12, 23)).astype(np.int64)
    return np.asarray(np.where(home_s > 0, np.minimum(home_s, 23 * HOUR_S) + later_s, free_s))


def charge(row: Integers, start_s: Integers, energy_mws: Integers, power_mw: Integers) -> Runs:
    """Return runs that use exactly the given energy: at full power, at half power, and in a last second."""
    full_s = (energy_mws * int(100 * _FULL_POWER) // 100) // power_mw
    remainder = energy_mws - full_s * power_mw
    half_mw = power_mw // 2
    half_s = remainder // half_mw
    last_mw = remainder - half_s * half_mw
    ends_s = np.cumsum(np.stack([full_s, half_s, (last_mw > 0).astype(np.int64)], axis=1), axis=1)
    return Runs(row, start_s, ends_s, np.stack([power_mw, half_mw, last_mw], axis=1))


@dataclass(frozen=True, slots=True)
class Chargers:
    """All cars of a region that charge at home."""

    region: Region
    name: str = CAR

    def runs(self, people: Households, absences: Absences, activity: Floats, day: int) -> Runs:
        """Return the sessions that start on the given day, of cars plugged in on it or on the day before."""
        del absences, activity
        owners = np.flatnonzero(people.owns[CAR])
        homes = people.select(owners)
        cars = Cars.of(homes, self.region)
        parts = []
        for back in (1, 0):
            plugged = self._plugged_on(homes, cars, day - back)
            parts += [on_day(runs, -back * DAY_S) for runs in plugged]
        runs = join(parts)
        return Runs(owners[runs.row], runs.start_s, runs.ends_s, runs.levels_mw)

    def _plugged_on(self, people: Households, cars: Cars, day: int) -> list[Runs]:
        """Return the runs of the cars plugged in on a day; times count from that day's midnight."""
        row, arrival_s, energy_mws = sessions(people, self.region, cars, day)
        power_mw, strategy = cars.power_mw[row], cars.strategy[row]
        delay = uniforms(people.seed, "car: delay", people.homes[row], day)[0]
        delay_s = np.floor(self.region.delay_s * delay).astype(np.int64)
        hours = -(-energy_mws // (power_mw * HOUR_S)) + 1
        cheap = cheapest_hour(people.seed, self.region, day, -(-arrival_s // HOUR_S), hours)
        # A timer before noon means the next morning.
        timer_s = cars.timer_s[row]
        night_s = np.where(timer_s < DAY_S // 2, timer_s + DAY_S, timer_s)
        start_s = np.select(
            [strategy == TIMER, strategy == PRICE],
            [np.maximum(arrival_s, night_s + delay_s), np.maximum(arrival_s, cheap * HOUR_S + delay_s)],
            arrival_s,
        )
        # A car that is at work does not follow the sun.
        by_sun = (strategy == SUN) & (people.absences(day).end_s[row] == 0)
        by_clock = charge(row, start_s, energy_mws, power_mw).where(~by_sun)
        return [by_clock, self._by_sun(people, row[by_sun], energy_mws[by_sun], power_mw[by_sun], day)]

    def _by_sun(
        self, people: Households, row: Integers, energy_mws: Integers, power_mw: Integers, day: int
    ) -> Runs:
        """Return runs that follow the roofs' power while it suffices, and charge the remainder at dusk."""
        today = sky(people.seed, self.region, day)
        step = np.flatnonzero((today.global_w > 0) & (np.arange(STEPS) * STEP_S >= _SUN_FROM_S))
        spare_w = Roofs.of(people.select(row), self.region).power_w(today)[:, step] - _HOME_W
        wanted_mw = np.where(spare_w >= _LEAST_W, np.rint(1000 * spare_w), 0).astype(np.int64)
        level_mw = np.minimum(wanted_mw, power_mw[:, None])
        before = np.cumsum(level_mw, axis=1) - level_mw
        left_mws = np.maximum(energy_mws[:, None] - before * STEP_S, 0)
        # In the session's last step, the power is lower: it delivers what is left, to a whole mW.
        level_mw = np.minimum(level_mw, left_mws // STEP_S)
        grid = charge(row, np.zeros_like(row), energy_mws - level_mw.sum(axis=1) * STEP_S, power_mw)
        ends_s = np.broadcast_to((step - step[0] + 1) * STEP_S, level_mw.shape)
        return Runs(
            row,
            np.full(len(row), step[0] * STEP_S),
            np.concatenate([ends_s, ends_s[:, -1:] + grid.ends_s], axis=1),
            np.concatenate([level_mw, grid.levels_mw], axis=1),
        )
