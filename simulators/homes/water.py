"""Hot water: flow heaters, which need 18 to 24 kW while water is drawn, and tanks.

Draws follow Jordan and Vajen (2001, Realistic domestic hot-water profiles): small and medium draws, showers
and baths with their flows and durations; their numbers are scaled to 40 litres a day for each of two people.
Cold water comes from the ground, and is colder in winter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from simulators.homes.appliance import Appliance, Runs, starts_when_free
from simulators.homes.chance import Floats, lognormal, uniforms
from simulators.homes.equipment import FLOW_HEATER, HEAT_PUMP, TANK, choose
from simulators.homes.heating import performance
from simulators.homes.household import Absences, Households
from simulators.homes.region import HOUR_S, Region
from simulators.homes.signature import DAY_S, Signature
from simulators.homes.supply import deliver, join, on_day
from simulators.homes.weather import sky

J_PER_LITRE_K = 4186
_WARM_C, _TANK_C = 40.0, 55.0
_LITRES, _LITRES_SPREAD = 60, 0.5
"""Litres that a tank heats to `_TANK_C` on a day, and the deviation of their logarithm."""
_LOSS_WH = 1200
"""The energy that a tank loses on a day."""
_BY_NIGHT = 0.6
"""The share of electric tanks that heat in the cheap hours (assumption)."""
_PUMP_W = 1500, 2800


class Draw(NamedTuple):
    """A kind of draw: litres a minute, typical seconds, and how many there are on a day."""

    litres_min: float
    seconds: int
    a_day: float


_DRAWS = (Draw(3, 20, 8), Draw(6, 60, 5), Draw(8, 300, 1.1), Draw(14, 600, 0.08))
_SHOWERS = (Draw(8, 400, 1.3),)
_HOURS = ((5, 6, 1), (6, 9, 4), (9, 12, 1.5), (12, 17, 1), (17, 22, 2.5), (22, 24, 0.5))


@dataclass(frozen=True, slots=True)
class FlowHeaters:
    """Heaters without a tank: the power heats the flow from the mains' temperature, up to the rated power."""

    region: Region
    name: str = FLOW_HEATER

    def runs(self, people: Households, absences: Absences, activity: Floats, day: int) -> Runs:
        """Return the draws that start on the given day; one at a time, and none while nobody is home."""
        owners = np.flatnonzero(people.owns[FLOW_HEATER])
        homes = people.select(owners)
        draws = _SHOWERS if self.region.has_only_showers else _DRAWS
        numbers = np.array([draw.a_day for draw in draws])
        # The duration is not used: it is drawn below, for the kind of draw.
        starts = Appliance(self.name, Signature.on(1, 60), float(numbers.sum()), _HOURS, can_overlap=True)
        away = Absences(absences.begin_s[owners], absences.end_s[owners])
        begun = starts.runs(homes, away, activity[owners], day)
        row, start_s = begun.row, begun.start_s
        chance = uniforms(people.seed, f"{self.name}: draw", homes.homes[row], day, start_s)
        kind = np.searchsorted(np.cumsum(numbers / numbers.sum())[:-1], chance[0], side="right")
        lasts = np.array([draw.seconds for draw in draws])[kind] * lognormal(chance[1], chance[2], 0.35)
        flow = np.array([draw.litres_min for draw in draws])[kind] * (0.85 + 0.3 * chance[3])
        rise_k = _WARM_C - sky(people.seed, self.region, day).mains_c
        rated_w = choose(self.region.flow_heater_w, uniforms(people.seed, "flow heater", homes.homes)[0])
        power_w = np.minimum(flow / 60 * J_PER_LITRE_K * rise_k, rated_w[row])
        ends_s = np.maximum(np.floor(lasts).astype(np.int64), 5)[:, None]
        runs = Runs(owners[row], start_s, ends_s, np.rint(1000 * power_w).astype(np.int64)[:, None])
        return runs.where(starts_when_free(runs))


@dataclass(frozen=True, slots=True)
class Tanks:
    """Tanks, heated once a day by a heat pump or an electric element, with exactly the day's energy."""

    region: Region
    name: str = TANK

    def runs(self, people: Households, absences: Absences, activity: Floats, day: int) -> Runs:
        """Return the runs that start on the given day; nobody heats water during a journey."""
        del absences, activity
        owners = np.flatnonzero(people.owns[TANK])
        homes = people.select(owners)
        habit = uniforms(people.seed, "tank: habit", homes.homes)
        has_pump = homes.owns[HEAT_PUMP]
        night_s = self.region.night_s[0] + np.floor(1800 * habit[1])
        daily_s = np.floor(HOUR_S * (5 + 9 * habit[1]))
        start_s = np.where(~has_pump & (habit[0] < _BY_NIGHT), night_s, daily_s).astype(np.int64)
        pump_w = np.floor(_PUMP_W[0] + (_PUMP_W[1] - _PUMP_W[0]) * habit[2])
        power_mw = 1000 * np.where(has_pump, pump_w, self.region.tank_w).astype(np.int64)
        parts = []
        for back in (1, 0):
            chance = uniforms(people.seed, "tank: day", homes.homes, day - back)
            today = sky(people.seed, self.region, day - back)
            litres = _LITRES * homes.busy**0.5 * lognormal(chance[0], chance[1], _LITRES_SPREAD)
            heat_wh = litres * J_PER_LITRE_K * (_TANK_C - today.mains_c) / 3600 + _LOSS_WH
            air = np.full(len(owners), today.mean_c)
            factor = performance(air, np.full(len(owners), _TANK_C), np.zeros(len(owners), np.bool_))
            energy_wh = np.where(homes.travels(day - back), 0, heat_wh / np.where(has_pump, factor, 1))
            energy_mws = np.floor(3_600_000 * energy_wh).astype(np.int64)
            late_s = start_s + np.floor(600 * chance[2]).astype(np.int64)
            energy_mws = np.minimum(energy_mws, power_mw * (DAY_S // 2))
            parts.append(on_day(deliver(owners, late_s, energy_mws, power_mw), -back * DAY_S))
        return join(parts)
