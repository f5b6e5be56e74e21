"""What homes of a region own, and how their people's activity changes with the season."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from simulators.homes.chance import Floats, Integers, uniforms
from simulators.homes.region import Choice, Region, date_of

CAR, HEAT_PUMP, NIGHT_STORAGE, FLOW_HEATER, TANK, SOLAR, BATTERY, INDUCTION = (
    "electric car",
    "heat pump",
    "night storage",
    "flow heater",
    "hot water tank",
    "solar panels",
    "battery",
    "induction hob",
)
"""The names of what homes may own; loads have the same names."""
_H0 = (-3.92e-10, 3.2e-7, -7.02e-5, 2.1e-3, 1.24)
"""The polynomial in the day of the year by which profile H0 is made dynamic (Fünfgeld and Tiedemann 2000,
Anwendung der repräsentativen VDEW-Lastprofile)."""
_H0_MEAN = float(np.polyval(_H0, np.arange(1, 366)).mean())


def season(day: int) -> float:
    """Return the factor on activity that all homes share: that of profile H0, scaled to a mean of 1."""
    return float(np.polyval(_H0, date_of(day).timetuple().tm_yday)) / _H0_MEAN


def owners(seed: int, homes: Integers, region: Region) -> Mapping[str, NDArray[np.bool_]]:
    """Return, for each kind of equipment, whether each home has it.

    A battery comes with solar panels. A home with a heat pump has a tank that the heat pump heats, and no
    other electric heater of water or rooms.
    """
    shares = region.shares
    house, solar, car, heat = uniforms(seed, "equipment: house", homes)
    battery, water, induction, _ = uniforms(seed, "equipment: things", homes)
    is_house = house < shares.houses
    has_solar = is_house & (solar < shares.solar / shares.houses)
    has_pump = is_house & (heat < shares.heat_pump / shares.houses)
    without_pump = 1 - shares.heat_pump
    is_electric = ~has_pump & (water < (shares.flow_heater + shares.tank) / without_pump)
    has_flow = is_electric & (water < shares.flow_heater / without_pump)
    # Only flats have storage heaters; houses have the heat pumps.
    has_storage = ~is_house & (heat < shares.night_storage / (1 - shares.houses))
    return {
        CAR: is_house & (car < shares.car / shares.houses),
        HEAT_PUMP: has_pump,
        NIGHT_STORAGE: has_storage,
        FLOW_HEATER: has_flow,
        TANK: has_pump | (is_electric & ~has_flow),
        SOLAR: has_solar,
        BATTERY: has_solar & (battery < shares.battery / shares.solar),
        INDUCTION: induction < shares.induction,
    }


def choose(choice: Choice, uniform: Floats) -> Integers:
    """Return, for each uniform number, a value of the choice, drawn with the choice's weights."""
    bounds = np.cumsum(choice.weights)[:-1]
    return np.asarray(np.array(choice.values)[np.searchsorted(bounds, uniform, side="right")])
