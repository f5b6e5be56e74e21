"""Weather: one process of temperature and radiation for all homes of a region.

A day is a pure function of (seed, region, day). The daily temperature is a yearly cosine plus an anomaly; the
daily clearness follows the season and, in part, the anomaly: clear days are warm in summer and cold in
winter. Both anomalies are first-order processes, computed as sums over the last `_TERMS` days, because no
state may be carried from day to day. Within a day, clouds change every 5 minutes. The sun's position follows
Spencer (1971), the clear sky Haurwitz (1945), and the diffuse share Erbs et al. (1982).

The constants are fitted to the test reference years that `demandlib` ships (`Climate`); no data is copied.
Times are local standard time; there is no daylight saving time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from simulators.homes.chance import Floats, normal, uniforms
from simulators.homes.region import Climate, Region, date_of
from simulators.homes.signature import DAY_S

STEP_S = 300
STEPS = DAY_S // STEP_S
_MID_H = (np.arange(STEPS) + 0.5) * STEP_S / 3600
_TERMS = 40
_CLOUD_MEMORY, _CLEARNESS_SPREAD = 0.4, 0.155
"""The clearness' own correlation from day to day, and its standard deviation."""
_CLEARNESS = 0.05, 0.72
_WITH_WARMTH = 0.54, -0.23
"""The correlation of clearness with the temperature's anomaly, in summer and in winter."""
_RANGE_C = 1.5, 14.3
"""A day's highest and lowest temperature differ by `_RANGE_C[0] + _RANGE_C[1] · clearness`."""
_CLOUD_STEP = float(np.exp(-STEP_S / 2700))
"""The correlation of clouds from one step to the next; their time constant is an assumption."""
_ENHANCED = 1.1
"""The largest ratio of radiation to a clear sky's, before the day's radiation is scaled to its sum."""
SOLAR_CONSTANT = 1366.1


@dataclass(frozen=True, slots=True, eq=False)
class Sky:
    """A day of a region's weather, in steps of `STEP_S`, shape (STEPS,).

    Temperatures are in °C; radiation is in W/m²: `global_w` and `diffuse_w` on the horizontal plane, `beam_w`
    perpendicular to the sun. `cos_zenith` and `azimuth` (radians clockwise from north) say where the sun is.
    `slow_c` is the temperature without its daily swing, which a house of some inertia feels.
    """

    mean_c: float
    temperature_c: Floats
    slow_c: Floats
    global_w: Floats
    beam_w: Floats
    diffuse_w: Floats
    cos_zenith: Floats
    azimuth: Floats
    mains_c: float


@lru_cache(maxsize=128)
def sky(seed: int, region: Region, day: int) -> Sky:
    """Return a day's weather."""
    climate = region.climate
    means_c = [_mean_c(seed, region, day + offset) for offset in (-1, 0, 1)]
    slow_c = np.interp(_MID_H, (-12, 12, 36), means_c)
    clearness = _clearness(seed, region, day)
    half_range_c = (_RANGE_C[0] + _RANGE_C[1] * clearness) / 2
    cos_zenith, azimuth = sun(climate, day)
    global_w = _global_w(seed, region, day, clearness, cos_zenith)
    beam_w, diffuse_w = divide(global_w, cos_zenith, day_of_year(day))
    lagged = 2 * np.pi * (day_of_year(day) - climate.coldest_day - 35) / 365
    return Sky(
        means_c[1],
        slow_c - half_range_c * np.cos(2 * np.pi * (_MID_H - 3.5) / 24),
        slow_c,
        global_w,
        beam_w,
        diffuse_w,
        cos_zenith,
        azimuth,
        # Water comes from the ground, whose temperature lags behind the air's (a month, half of the swing).
        float(climate.mean_c + 1 - 0.55 * climate.swing_c * np.cos(lagged)),
    )


def day_of_year(day: int) -> int:
    """Return 1 on 1 January."""
    return date_of(day).timetuple().tm_yday


def _winter(climate: Climate, day: int) -> float:
    """Return 1 on the coldest day of the year, and 0 half a year later."""
    return float(0.5 + 0.5 * np.cos(2 * np.pi * (day_of_year(day) - climate.coldest_day) / 365))


def _between(bounds: tuple[float, float], winter: float) -> float:
    return bounds[0] + (bounds[1] - bounds[0]) * winter


@lru_cache(maxsize=512)
def _process(seed: int, stream: str, day: int, memory: float) -> float:
    """Return the value on a day of a stationary first-order process with variance 1."""
    chance = uniforms(seed, stream, 0, day - np.arange(_TERMS))
    weights = memory ** np.arange(_TERMS)
    return float((weights * normal(chance[0], chance[1])).sum() / np.sqrt((weights**2).sum()))


def _mean_c(seed: int, region: Region, day: int) -> float:
    climate = region.climate
    season_c = climate.mean_c - climate.swing_c * (2 * _winter(climate, day) - 1)
    anomaly = _process(seed, f"{region.name}: warmth", day, climate.memory)
    return season_c + _between(climate.spread_c, _winter(climate, day)) * anomaly


def _clearness(seed: int, region: Region, day: int) -> float:
    """Return the day's radiation on the ground, divided by the radiation above the atmosphere."""
    climate = region.climate
    winter = _winter(climate, day)
    shared = _between(_WITH_WARMTH, winter)
    warmth = _process(seed, f"{region.name}: warmth", day, climate.memory)
    clouds = _process(seed, f"{region.name}: clouds", day, _CLOUD_MEMORY)
    deviation = shared * warmth + np.sqrt(1 - shared**2) * clouds
    value = _between(climate.clearness[::-1], winter) + _CLEARNESS_SPREAD * deviation
    return float(np.clip(value, *_CLEARNESS))


def sun(climate: Climate, day: int) -> tuple[Floats, Floats]:
    """Return the cosine of the sun's zenith angle and its azimuth, in the middle of each step."""
    angle = 2 * np.pi / 365 * (day_of_year(day) - 1)
    declination = (
        0.006918
        - 0.399912 * np.cos(angle)
        + 0.070257 * np.sin(angle)
        - 0.006758 * np.cos(2 * angle)
        + 0.000907 * np.sin(2 * angle)
        - 0.002697 * np.cos(3 * angle)
        + 0.00148 * np.sin(3 * angle)
    )
    ahead_h = (24 / (2 * np.pi)) * (
        0.0000075
        + 0.001868 * np.cos(angle)
        - 0.032077 * np.sin(angle)
        - 0.014615 * np.cos(2 * angle)
        - 0.040849 * np.sin(2 * angle)
    )
    solar_h = _MID_H - climate.zone_h + climate.longitude / 15 + ahead_h
    hour_angle, latitude = np.pi * (solar_h - 12) / 12, np.radians(climate.latitude)
    east = -np.cos(declination) * np.sin(hour_angle)
    north = np.cos(latitude) * np.sin(declination) - np.sin(latitude) * np.cos(declination) * np.cos(
        hour_angle
    )
    up = np.sin(latitude) * np.sin(declination) + np.cos(latitude) * np.cos(declination) * np.cos(hour_angle)
    return np.asarray(up), np.asarray(np.arctan2(east, north) % (2 * np.pi))


def clear_sky_w(cos_zenith: Floats) -> Floats:
    """Return the global radiation of a clear sky (Haurwitz 1945)."""
    height = np.maximum(cos_zenith, 1e-9)
    return np.asarray(np.where(cos_zenith > 0, 1098 * height * np.exp(-0.059 / height), 0))


def above_w(number: int) -> float:
    """Return the radiation above the atmosphere on a day of the year (Spencer 1971)."""
    angle = 2 * np.pi / 365 * (number - 1)
    return float(
        SOLAR_CONSTANT
        * (
            1.00011
            + 0.034221 * np.cos(angle)
            + 0.00128 * np.sin(angle)
            + 0.000719 * np.cos(2 * angle)
            + 7.7e-05 * np.sin(2 * angle)
        )
    )


def _global_w(seed: int, region: Region, day: int, clearness: float, cos_zenith: Floats) -> Floats:
    """Return the global radiation, whose daily mean is what `clearness` lets through."""
    clear_w = clear_sky_w(cos_zenith)
    share = clearness * above_w(day_of_year(day)) * np.maximum(cos_zenith, 0).sum() / clear_w.sum()
    share = min(float(share), 1.0)
    chance = uniforms(seed, f"{region.name}: sky", 0, day, np.arange(STEPS))
    state, clouds = 0.0, []
    for shock in (np.sqrt(1 - _CLOUD_STEP**2) * normal(chance[0], chance[1])).tolist():
        state = _CLOUD_STEP * state + shock
        clouds.append(state)
    # Broken clouds change most where the sky is half clear.
    spread = 0.9 * np.sqrt(share * (1 - share))
    index = np.minimum(share * np.exp(spread * np.array(clouds)), _ENHANCED)
    return np.asarray(clear_w * index * (share * clear_w.sum() / (clear_w * index).sum()))


def divide(global_w: Floats, cos_zenith: Floats, number: int) -> tuple[Floats, Floats]:
    """Return beam and diffuse radiation (Erbs et al. 1982); below 3 degrees, all radiation is diffuse."""
    kt = np.clip(global_w / (above_w(number) * np.maximum(cos_zenith, 0.065)), 0, 1)
    middle = 0.9511 - 0.1604 * kt + 4.388 * kt**2 - 16.638 * kt**3 + 12.336 * kt**4
    share = np.where(kt <= 0.22, 1 - 0.09 * kt, np.where(kt <= 0.8, middle, 0.165))
    low = cos_zenith < np.cos(np.radians(87))
    diffuse_w = np.where(low, global_w, share * global_w)
    beam_w = np.where(low, 0, (global_w - diffuse_w) / np.where(low, 1, cos_zenith))
    return np.asarray(beam_w), np.asarray(diffuse_w)
