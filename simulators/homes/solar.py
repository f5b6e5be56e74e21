"""Solar panels on roofs: their power follows the region's sky.

The plane's radiation is beam, isotropic diffuse (Liu and Jordan 1963) and reflected; the cells' temperature
follows Faiman (2008), and the panels and the inverter the PVWatts model (Dobos 2014). With `pvlib` installed,
tests/simulators/test_solar.py compares each step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from simulators.homes.appliance import Runs
from simulators.homes.chance import Floats, lognormal, normal, uniforms
from simulators.homes.equipment import SOLAR
from simulators.homes.household import Absences, Households
from simulators.homes.region import Region
from simulators.homes.weather import STEP_S, Sky, sky

_PEAK_W, _PEAK_SPREAD, _PEAK_BOUNDS_W = 7500, 0.4, (2000, 20_000)
"""The mean rated power of a roof, the deviation of its logarithm, and its bounds (assumptions; the German
mean of new roofs is near 8 kW, the British near 4 kW)."""
_BRITISH = 0.5
_ALBEDO = 0.2
_WIND_M_S = 1.0
_FAIMAN = 25.0, 6.84
_GAMMA = -0.0035
"""The change of power with the cells' temperature, for each K above 25 °C."""
_LOSSES = 0.1408
"""The losses by soil, shadow, wires and age (Dobos 2014, table 2)."""
_NOMINAL, _REFERENCE = 0.96, 0.9637
"""Efficiencies of the inverter (Dobos 2014)."""


class Roofs(NamedTuple):
    """The panels' rated power in W, their azimuth (clockwise from north) and tilt in radians: (homes,)."""

    peak_w: Floats
    azimuth: Floats
    tilt: Floats

    @classmethod
    def of(cls, people: Households, region: Region) -> Self:
        """Draw each home's roof."""
        chance = uniforms(people.seed, "solar panels: roof", people.homes)
        more = uniforms(people.seed, "solar panels: size", people.homes)
        mean_w = _PEAK_W * (_BRITISH if region.name == "GB" else 1)
        peak_w = (mean_w * lognormal(more[0], more[1], _PEAK_SPREAD)).clip(*_PEAK_BOUNDS_W)
        azimuth = np.pi + np.radians(50) * normal(chance[0], chance[1])
        return cls(peak_w, azimuth % (2 * np.pi), np.radians(20 + 25 * chance[2]))

    def plane_w(self, day: Sky) -> Floats:
        """Return the radiation on each roof in W/m², shape (homes, steps)."""
        tilt, azimuth = self.tilt[:, None], self.azimuth[:, None]
        sin_zenith = np.sqrt(1 - day.cos_zenith**2)
        incidence = day.cos_zenith * np.cos(tilt) + sin_zenith * np.sin(tilt) * np.cos(day.azimuth - azimuth)
        beam_w = day.beam_w * np.maximum(incidence, 0)
        diffuse_w = day.diffuse_w * (1 + np.cos(tilt)) / 2
        return np.asarray(beam_w + diffuse_w + day.global_w * _ALBEDO * (1 - np.cos(tilt)) / 2)

    def power_w(self, day: Sky) -> Floats:
        """Return the power that each roof delivers in W, at least 0, shape (homes, steps)."""
        plane_w = self.plane_w(day)
        cell_c = day.temperature_c + plane_w / (_FAIMAN[0] + _FAIMAN[1] * _WIND_M_S)
        peak_w = self.peak_w[:, None]
        direct_w = (1 - _LOSSES) * peak_w * plane_w / 1000 * (1 + _GAMMA * (cell_c - 25))
        limit_w = peak_w * (1 - _LOSSES)
        load = np.maximum(direct_w / limit_w, 1e-9)
        efficiency = _NOMINAL / _REFERENCE * (-0.0162 * load - 0.0059 / load + 0.9858)
        return np.asarray(np.clip(efficiency * direct_w, 0, _NOMINAL * limit_w))


@dataclass(frozen=True, slots=True)
class Panels:
    """All solar panels of a region: a run lasts from dawn to dusk, and its power is negative."""

    region: Region
    name: str = SOLAR

    def runs(self, people: Households, absences: Absences, activity: Floats, day: int) -> Runs:
        """Return a run for each home with panels; what people do does not change it."""
        del absences, activity
        row = np.flatnonzero(people.owns[SOLAR])
        today = sky(people.seed, self.region, day)
        step = np.flatnonzero(today.global_w > 0)
        power_w = Roofs.of(people.select(row), self.region).power_w(today)[:, step]
        ends_s = np.broadcast_to((step - step[0] + 1) * STEP_S, power_w.shape)
        start_s = np.full(len(row), step[0] * STEP_S)
        return Runs(row, start_s, ends_s, -np.rint(1000 * power_w).astype(np.int64))
