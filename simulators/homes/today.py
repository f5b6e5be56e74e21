"""The home of today: the catalogue of appliances, and the equipment that a region's homes own in addition."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from simulators.homes.appliance import CATALOGUE, Appliance, Load, Runs
from simulators.homes.car import Chargers
from simulators.homes.chance import Floats
from simulators.homes.equipment import INDUCTION
from simulators.homes.heating import BackupHeaters, HeatPumps, NightStorage
from simulators.homes.household import Absences, Households
from simulators.homes.region import Region
from simulators.homes.signature import Signature
from simulators.homes.solar import Panels
from simulators.homes.water import FlowHeaters, Tanks
from simulators.homes.weather import STEP_S, sky

_WAKING_H, _DARK_W = (6.5, 23.0), 20.0
"""Hours in which people are awake, and the global radiation below which they need light, in W/m²."""
_LIGHT_ALWAYS, _DARK_SHARE = 0.35, 0.4
"""The share of lighting that does not depend on daylight (assumption), and the dark share of waking hours."""
_INDUCTION = Signature.on(2800, 150).then(Signature.varying(700, 0.6, 15, 900))
"""An induction hob's plate: full power until water boils, then bursts; plates have 1.4 to 3.7 kW."""


@dataclass(frozen=True, slots=True)
class Among:
    """An appliance only in homes that own the equipment `name_owned`, or only in homes that do not."""

    load: Appliance
    name_owned: str
    is_owner: bool

    @property
    def name(self) -> str:
        """The appliance's name."""
        return self.load.name

    def runs(self, people: Households, absences: Absences, activity: Floats, day: int) -> Runs:
        """Return the runs in these homes."""
        row = np.flatnonzero(people.owns[self.name_owned] == self.is_owner)
        away = Absences(absences.begin_s[row], absences.end_s[row])
        runs = self.load.runs(people.select(row), away, activity[row], day)
        return Runs(row[runs.row], runs.start_s, runs.ends_s, runs.levels_mw)


@dataclass(frozen=True, slots=True)
class Lamps:
    """Lights that are switched on more often on dark days, in all homes of a region."""

    load: Appliance
    region: Region

    @property
    def name(self) -> str:
        """The appliance's name."""
        return self.load.name

    def runs(self, people: Households, absences: Absences, activity: Floats, day: int) -> Runs:
        """Return the runs that start on the given day."""
        return self.load.runs(people, absences, activity * darkness(people.seed, self.region, day), day)


@lru_cache(maxsize=128)
def darkness(seed: int, region: Region, day: int) -> float:
    """Return the factor by which lights are switched on more often on a day, about 1 on average."""
    begin, end = (int(hour * 3600) // STEP_S for hour in _WAKING_H)
    dark = float((sky(seed, region, day).global_w[begin:end] < _DARK_W).mean())
    return _LIGHT_ALWAYS + (1 - _LIGHT_ALWAYS) * dark / _DARK_SHARE


@lru_cache(maxsize=8)
def catalogue(region: Region) -> tuple[Load, ...]:
    """Return what homes of a region have today, except television and batteries."""
    loads: list[Load] = []
    for load in CATALOGUE:
        if isinstance(load, Appliance) and load.name == "hob":
            loads.append(Among(load, INDUCTION, is_owner=False))
            plates = Appliance(INDUCTION, _INDUCTION, load.starts_per_day, load.hours, spread=load.spread)
            loads.append(Among(plates, INDUCTION, is_owner=True))
        elif isinstance(load, Appliance) and load.name == "lights":
            loads.append(Lamps(load, region))
        else:
            loads.append(load)
    kinds = (Chargers, HeatPumps, BackupHeaters, NightStorage, FlowHeaters, Tanks, Panels)
    return (*loads, *(kind(region) for kind in kinds))
