"""Batteries: each stores what its home's roof has to spare, and delivers what its home needs.

A battery acts once a minute on the mean power of that minute, in whole milliwatts and milliwatt-seconds. Its
level at midnight is found by going back to a day on which an empty and a full battery would have reached the
same level: from then on, the level does not depend on the past. So a day is the same whether it is simulated
alone or as part of a year, and no energy appears or vanishes at midnight.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from simulators.homes.appliance import Runs
from simulators.homes.chance import Integers, lognormal, uniforms
from simulators.homes.household import Households
from simulators.homes.signature import DAY_S
from simulators.homes.supply import KWH_MWS

STEP_S = 60
STEPS = DAY_S // STEP_S
_CAPACITY_KWH, _CAPACITY_SPREAD, _CAPACITY_BOUNDS_KWH = 10, 0.35, (4, 25)
"""BSW-Solar, end of 2024: 19 GWh in 1.8 million batteries, most of them in homes."""
_PERCENT = 95
"""The efficiency of charging, and that of discharging."""
_BACK_DAYS = 256

Net = Callable[[int, int], Iterator[NDArray[np.float32]]]
"""A function of the first day and the number of days; it yields each day's net power in W by the minute."""


class Flow(NamedTuple):
    """A day of batteries: the power that they draw in mW, and their levels, both of shape (homes, STEPS).

    The power is negative while they deliver; `levels_mws` holds the level after each minute.
    """

    power_mw: Integers
    levels_mws: Integers


@dataclass(frozen=True, slots=True, eq=False)
class Batteries:
    """The capacity in mW s and the largest power in mW of each battery, shape (homes,)."""

    capacity_mws: Integers
    power_mw: Integers

    @classmethod
    def of(cls, people: Households) -> Self:
        """Draw each home's battery; it charges in two hours or more."""
        chance = uniforms(people.seed, "battery: make", people.homes)
        kwh = _CAPACITY_KWH * lognormal(chance[0], chance[1], _CAPACITY_SPREAD)
        capacity_mws = KWH_MWS * np.floor(kwh.clip(*_CAPACITY_BOUNDS_KWH)).astype(np.int64)
        return cls(capacity_mws, np.floor(capacity_mws * (0.3 + 0.2 * chance[2]) / 3600).astype(np.int64))

    def follow(self, net_w: NDArray[np.float32], level_mws: Integers) -> Flow:
        """Let batteries with the given levels follow a day of their homes' net power, (homes, STEPS)."""
        spare_mw = -np.rint(1000 * net_w.astype(np.float64)).astype(np.int64)
        wanted_mw = np.clip(spare_mw, -self.power_mw[:, None], self.power_mw[:, None])
        # A full battery ends exactly at its capacity and an empty one at 0, so that levels do coincide.
        gain_mws = np.where(
            wanted_mw > 0, wanted_mw * STEP_S * _PERCENT // 100, wanted_mw * STEP_S * 100 // _PERCENT
        )
        levels_mws = np.empty((STEPS, len(level_mws)), np.int64)
        level = level_mws
        for minute, gain in enumerate(np.ascontiguousarray(gain_mws.T)):
            level = np.minimum(np.maximum(level + gain, 0), self.capacity_mws)
            levels_mws[minute] = level
        change_mws = np.diff(levels_mws.T, axis=1, prepend=level_mws[:, None])
        return Flow(_power_mw(change_mws), levels_mws.T)

    def level_at(self, net: Net, day: int) -> Integers:
        """Return the levels at the midnight at which a day begins.

        Raises ValueError if the level still depends on what was stored months before.
        """
        back = 1
        while back <= _BACK_DAYS:
            empty, full = np.zeros_like(self.capacity_mws), self.capacity_mws
            for net_w in net(day - back, back):
                empty, full = (self.follow(net_w, level).levels_mws[:, -1] for level in (empty, full))
            if np.array_equal(empty, full):
                return empty
            back *= 2
        raise ValueError(f"a battery is neither empty nor full on the {_BACK_DAYS} days before day {day}")

    def flows(self, net: Net, first: int, count: int) -> Iterator[Flow]:
        """Yield the flows of consecutive days."""
        level_mws = self.level_at(net, first)
        for net_w in net(first, count):
            flow = self.follow(net_w, level_mws)
            level_mws = flow.levels_mws[:, -1]
            yield flow


def as_runs(row: Integers, flow: Flow) -> Runs:
    """Return a day of batteries as one run each, from midnight to midnight."""
    ends_s = np.broadcast_to(STEP_S * (1 + np.arange(STEPS)), flow.power_mw.shape)
    return Runs(row, row * 0, ends_s, flow.power_mw)


def _power_mw(change_mws: Integers) -> Integers:
    """Return the power that changes a level in a minute, rounded so that no energy is gained."""
    charge_mw = -(-change_mws * 100 // (_PERCENT * STEP_S))
    deliver_mw = -change_mws * _PERCENT // (100 * STEP_S)
    return np.asarray(np.where(change_mws > 0, charge_mw, -deliver_mw))
