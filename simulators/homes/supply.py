"""Runs that deliver a given energy, and tariffs that many homes follow at once."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

import numpy as np

from simulators.homes.appliance import Runs
from simulators.homes.chance import Floats, Integers, normal, uniforms
from simulators.homes.region import Region
from simulators.homes.signature import DAY_S
from simulators.homes.weather import STEP_S, sky

KWH_MWS = 1000 * 1000 * 3600
"""A kilowatt-hour in mW s."""
_WIND_MEMORY = 0.6


def deliver(row: Integers, start_s: Integers, energy_mws: Integers, power_mw: Integers) -> Runs:
    """Return runs of constant power that use exactly the given energy: the last second takes the remainder.

    Runs without energy are left out.
    """
    full_s = energy_mws // power_mw
    levels_mw = np.stack([power_mw, energy_mws - full_s * power_mw], axis=1)
    ends_s = np.stack([full_s, full_s + (levels_mw[:, 1] > 0)], axis=1)
    return Runs(row, start_s, ends_s, levels_mw).where(energy_mws > 0)


def on_day(runs: Runs, shift_s: int = 0) -> Runs:
    """Return the runs that start on a day, with `shift_s` added to their times."""
    moved = Runs(runs.row, runs.start_s + shift_s, runs.ends_s, runs.levels_mw)
    return moved.where((moved.start_s >= 0) & (moved.start_s < DAY_S))


def join(parts: list[Runs]) -> Runs:
    """Return all runs of several tables; shorter ones get more steps, of no power and no duration."""
    steps = max(part.ends_s.shape[1] for part in parts)

    def widen(values: Integers, mode: Literal["edge", "constant"]) -> Integers:
        """Append columns: copies of the last one, or zeros."""
        return np.pad(values, ((0, 0), (0, steps - values.shape[1])), mode=mode)

    return Runs(
        np.concatenate([part.row for part in parts]),
        np.concatenate([part.start_s for part in parts]),
        np.concatenate([widen(part.ends_s, "edge") for part in parts]),
        np.concatenate([widen(part.levels_mw, "constant") for part in parts]),
    )


@lru_cache(maxsize=128)
def prices(seed: int, region: Region, day: int) -> Floats:
    """Return the price of each hour of a day, without a unit, for all homes with such a tariff.

    It has two daily peaks, and is lower with sun, wind and on free days (invented: only the order matters).
    """
    hour = np.arange(24)
    peaks = np.exp(-(((hour - 7.5) / 2) ** 2)) + 1.4 * np.exp(-(((hour - 18.5) / 2.5) ** 2))
    sun = sky(seed, region, day).global_w.reshape(24, 3600 // STEP_S).mean(axis=1) / 800
    chance = uniforms(seed, f"{region.name}: wind", 0, day - np.arange(8))
    wind = float((_WIND_MEMORY ** np.arange(8) * normal(chance[0], chance[1])).sum())
    gusts = uniforms(seed, f"{region.name}: gusts", 0, day, hour)
    night = 0.3 * np.cos(2 * np.pi * (hour - 15) / 24)
    noise = 0.1 * normal(gusts[0], gusts[1])
    return np.asarray(
        1 + peaks + night - 1.5 * sun - 0.2 * wind - 0.3 * region.is_free(day) + noise, np.float64
    )


def cheapest_hour(seed: int, region: Region, day: int, first: Integers, hours: Integers) -> Integers:
    """Return the start of the cheapest `hours` in a row, from `first` or later to 7:00 next day or earlier.

    Hours count from midnight of `day`. If there is not enough time, the answer is `first`.
    """
    cost_until = np.concatenate(
        [[0], np.cumsum(np.concatenate([prices(seed, region, day + k) for k in (0, 1)]))]
    )
    begin = np.arange(31)
    end = begin + hours[:, None]
    cost = cost_until[np.minimum(end, 48)] - cost_until[begin]
    fits = (begin >= first[:, None]) & (end <= 31)
    best = np.where(fits, cost, np.inf).argmin(axis=1)
    return np.asarray(np.where(fits.any(axis=1), best, first))
