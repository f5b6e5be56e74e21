"""Electric heating: heat pumps with their backup heaters, and night storage.

A home needs heat in proportion to the difference between its balance temperature and the temperature outside,
whose daily swing is left out. A heat pump works in periods: it modulates down to a part of its capacity, and
below that it is on for a part of the period. Its coefficient of performance follows Ruhnau et al. (2019, Time
series of heat demand and heat pump efficiency, table 4), with their correction for real installations. The
backup heater delivers what the heat pump cannot. In frost, each long run of an air-source heat pump ends with
a defrost. Sizes of homes are assumptions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from simulators.homes.appliance import Runs
from simulators.homes.chance import Floats, Integers, lognormal, uniforms
from simulators.homes.equipment import HEAT_PUMP, NIGHT_STORAGE, choose
from simulators.homes.household import Absences, Households
from simulators.homes.region import Region
from simulators.homes.signature import DAY_S
from simulators.homes.supply import deliver, join, on_day
from simulators.homes.weather import STEP_S, sky

BACKUP = "backup heater"
BALANCE_C = 15.0
_LOSS_W_K, _LOSS_SPREAD = 190, 0.35
"""A house's heat loss in W for each K, and the deviation of its logarithm; a flat's is `_FLAT` times that."""
_FLAT = 0.5
_BIVALENT_C = -5.0
"""Below this outside temperature, an average heat pump needs its backup heater (assumption)."""
_FADE = 0.02
"""An air-source heat pump's capacity falls by this share for each K that it is colder outside."""
_CORRECTION = 0.85
_AIR, _GROUND = (6.08, -0.09, 0.0005), (10.29, -0.21, 0.0012)
_RADIATOR, _FLOOR = (40, -1.0), (30, -0.5)
_GROUND_C = 5.0
_GROUND_SHARE, _FLOOR_SHARE, _FIXED_SPEED_SHARE = 0.15, 0.5, 0.2
_LEAST_LOAD = 0.35
_PERIOD_S = 2400, 4800
_FROST_C = -7.0, 5.0
DEFROST_S, _DEFROST_AFTER_S, _DEFROST_POWER = 300, 1200, 0.6
"""The duration of a defrost, the shortest run that needs one, and its power divided by the run's."""
_HOURS = (0, 5, 6, 9, 16, 21, 23, 24)
_NEED = (0.55, 0.9, 1.4, 1.0, 1.15, 1.0, 0.7)
"""The heat needed between these hours, divided by the day's mean, in a home that is cooler at night."""
_SHORTEST_S = 60


class Pumps(NamedTuple):
    """Traits of heat pumps and their homes, each of shape (homes,)."""

    loss_w_k: Floats
    capacity_w: Floats
    is_ground: NDArray[np.bool_]
    is_floor: NDArray[np.bool_]
    least_load: Floats
    lowers: Floats
    period_s: Integers
    phase_s: Integers
    backup_mw: Integers

    @classmethod
    def of(cls, people: Households, region: Region) -> Self:
        """Draw each home's heat pump."""
        size = uniforms(people.seed, "heat pump: size", people.homes)
        kind = uniforms(people.seed, "heat pump: kind", people.homes)
        habit = uniforms(people.seed, "heat pump: habit", people.homes)
        loss_w_k = _LOSS_W_K * lognormal(size[0], size[1], _LOSS_SPREAD)
        period_s = np.floor(_PERIOD_S[0] + (_PERIOD_S[1] - _PERIOD_S[0]) * habit[0]).astype(np.int64)
        return cls(
            loss_w_k,
            loss_w_k * (BALANCE_C - _BIVALENT_C) * (0.85 + 0.5 * size[2]),
            kind[0] < _GROUND_SHARE,
            kind[1] < _FLOOR_SHARE,
            np.where(kind[2] < _FIXED_SPEED_SHARE, 1, _LEAST_LOAD),
            habit[1],
            period_s,
            np.floor(period_s * habit[2]).astype(np.int64),
            1000 * choose(region.backup_w, kind[3]),
        )


class Cycles(NamedTuple):
    """What heat pumps do in the periods that begin on one day, each of shape (homes, periods).

    `on_s` is the time on; `start_s` counts from midnight, and is outside the day where no period begins.
    `heat_w` is needed and `delivered_w` delivered, as heat; `power_w` is the electric power while on.
    """

    start_s: Integers
    on_s: Integers
    heat_w: Floats
    delivered_w: Floats
    power_w: Floats
    has_frost: NDArray[np.bool_]


def performance(source_c: Floats, sink_c: Floats, is_ground: NDArray[np.bool_]) -> Floats:
    """Return the coefficient of performance, at least 1."""
    lift_k = np.maximum(sink_c - source_c, 15)
    air, ground = (c[0] + c[1] * lift_k + c[2] * lift_k**2 for c in (_AIR, _GROUND))
    return np.asarray(np.maximum(_CORRECTION * np.where(is_ground, ground, air), 1))


def cycles(people: Households, region: Region, pumps: Pumps, day: int) -> Cycles:
    """Return the periods of each heat pump that begin on a day."""
    today = sky(people.seed, region, day)
    is_ground, is_floor = pumps.is_ground[:, None], pumps.is_floor[:, None]
    period_s = pumps.period_s[:, None]
    loss_w_k, capacity_w, least_load, lowers = (
        trait[:, None] for trait in (pumps.loss_w_k, pumps.capacity_w, pumps.least_load, pumps.lowers)
    )
    first = -((pumps.phase_s - day * DAY_S) // pumps.period_s)
    number = first[:, None] + np.arange(-(-DAY_S // _PERIOD_S[0]))
    start_s = number * period_s + pumps.phase_s[:, None] - day * DAY_S
    step = np.minimum(start_s // STEP_S, DAY_S // STEP_S - 1)
    air_c = today.temperature_c[step]
    profile = np.array(_NEED)[np.searchsorted(_HOURS, step * STEP_S / 3600, side="right") - 1]
    heat_w = loss_w_k * np.maximum(BALANCE_C - today.slow_c[step], 0) * (1 + lowers * (profile - 1))
    fading = np.where(is_ground, 1, 1 + _FADE * (air_c - _BIVALENT_C)).clip(0.4, 1.4)
    most_w = capacity_w * fading
    load = np.minimum(heat_w / most_w, 1)
    level = np.maximum(load, least_load)
    sink_c = np.where(is_floor, _FLOOR[0] + _FLOOR[1] * air_c, _RADIATOR[0] + _RADIATOR[1] * air_c)
    source_c = np.where(is_ground, _GROUND_C, air_c)
    power_w = level * most_w / performance(source_c, sink_c, is_ground)
    on_s = np.floor(period_s * load / level).astype(np.int64)
    # A run that does not fill its period begins at any time in it.
    chance = uniforms(people.seed, "heat pump: cycle", people.homes[:, None], 0, number)[0]
    start_s = start_s + np.floor(chance * (period_s - on_s)).astype(np.int64)
    has_frost = ~is_ground & (air_c > _FROST_C[0]) & (air_c < _FROST_C[1])
    return Cycles(start_s, on_s, heat_w, load * most_w, power_w, has_frost)


@dataclass(frozen=True, slots=True)
class HeatPumps:
    """All heat pumps of a region, as they heat rooms; `Tanks` includes the water that they heat."""

    region: Region
    name: str = HEAT_PUMP

    def runs(self, people: Households, absences: Absences, activity: Floats, day: int) -> Runs:
        """Return the cycles that start on the given day, each with its defrost at the end."""
        del absences, activity
        parts = []
        owners = np.flatnonzero(people.owns[HEAT_PUMP])
        homes = people.select(owners)
        pumps = Pumps.of(homes, self.region)
        for back in (1, 0):
            period = cycles(homes, self.region, pumps, day - back)
            row, column = np.nonzero(_begins(pumps, period, day - back) & (period.on_s >= _SHORTEST_S))
            on_s, power_w = period.on_s[row, column], period.power_w[row, column]
            defrosts = period.has_frost[row, column] & (on_s >= _DEFROST_AFTER_S)
            ends_s = np.stack([on_s - DEFROST_S * defrosts, on_s], axis=1)
            level_mw = np.rint(1000 * power_w).astype(np.int64)
            last_mw = np.rint(1000 * _DEFROST_POWER * power_w).astype(np.int64)
            levels = np.stack([level_mw, np.where(defrosts, last_mw, level_mw)], axis=1)
            runs = Runs(owners[row], period.start_s[row, column], ends_s, levels)
            parts.append(on_day(runs, -back * DAY_S))
        return join(parts)


@dataclass(frozen=True, slots=True)
class BackupHeaters:
    """The heaters that deliver what heat pumps cannot."""

    region: Region
    name: str = BACKUP

    def runs(self, people: Households, absences: Absences, activity: Floats, day: int) -> Runs:
        """Return the runs that start on the given day: one in each period in which heat is missing."""
        del absences, activity
        owners = np.flatnonzero(people.owns[HEAT_PUMP])
        homes = people.select(owners)
        pumps = Pumps.of(homes, self.region)
        parts = []
        for back in (1, 0):
            period = cycles(homes, self.region, pumps, day - back)
            missing_w = period.heat_w - period.delivered_w
            power_w = pumps.backup_mw[:, None] / 1000
            on_s = np.floor(pumps.period_s[:, None] * np.minimum(missing_w / power_w, 1)).astype(np.int64)
            row, column = np.nonzero(_begins(pumps, period, day - back) & (on_s >= _SHORTEST_S))
            levels = pumps.backup_mw[row][:, None]
            runs = Runs(owners[row], period.start_s[row, column], on_s[row, column][:, None], levels)
            parts.append(on_day(runs, -back * DAY_S))
        return join(parts)


def _begins(pumps: Pumps, period: Cycles, day: int) -> NDArray[np.bool_]:
    """Return whether each period begins on its day; its run may begin on the next one."""
    first = -((pumps.phase_s - day * DAY_S) // pumps.period_s)
    number = first[:, None] + np.arange(period.on_s.shape[1])
    begin_s = number * pumps.period_s[:, None] + pumps.phase_s[:, None] - day * DAY_S
    return np.asarray((begin_s >= 0) & (begin_s < DAY_S))


class Heaters(NamedTuple):
    """Traits of night storage heaters, each of shape (homes,)."""

    loss_w_k: Floats
    power_mw: Integers
    is_late: NDArray[np.bool_]
    delay_s: Integers

    @classmethod
    def of(cls, people: Households) -> Self:
        """Draw each home's heaters; in 7 hours, they can store the heat for a day of -12 °C."""
        size = uniforms(people.seed, "night storage: size", people.homes)
        habit = uniforms(people.seed, "night storage: habit", people.homes)
        loss_w_k = _FLAT * _LOSS_W_K * lognormal(size[0], size[1], _LOSS_SPREAD)
        power_mw = np.ceil(loss_w_k * (BALANCE_C + 12) * 24 / 7 / 500).astype(np.int64) * 500_000
        return cls(loss_w_k, power_mw, habit[0] < 0.5, np.floor(900 * habit[1]).astype(np.int64))


@dataclass(frozen=True, slots=True)
class NightStorage:
    """Storage heaters: they charge in the cheap hours what the coming day needs.

    Half of them begin with the cheap hours, and half end with the cheap hours; a home's delay is fixed.
    """

    region: Region
    name: str = NIGHT_STORAGE

    def runs(self, people: Households, absences: Absences, activity: Floats, day: int) -> Runs:
        """Return the runs that start on the given day."""
        del absences, activity
        owners = np.flatnonzero(people.owns[NIGHT_STORAGE])
        homes = people.select(owners)
        heaters = Heaters.of(homes)
        begin_s, lasts_s = self.region.night_s
        parts = []
        for night in (day - 1, day):
            # Cheap hours that begin before noon serve the same day, and later ones the next day.
            served = sky(people.seed, self.region, night + (begin_s > DAY_S // 2))
            need_w = heaters.loss_w_k * max(BALANCE_C - served.mean_c, 0)
            energy = np.floor(1000 * need_w * DAY_S).astype(np.int64)
            most_s = lasts_s - heaters.delay_s
            energy = np.minimum(energy, heaters.power_mw * (most_s - 1))
            duration_s = -(-energy // heaters.power_mw)
            late_s = lasts_s - heaters.delay_s - duration_s
            start_s = begin_s + np.where(heaters.is_late, late_s, heaters.delay_s)
            runs = deliver(owners, start_s, energy, heaters.power_mw)
            parts.append(on_day(runs, (night - day) * DAY_S))
        return join(parts)
