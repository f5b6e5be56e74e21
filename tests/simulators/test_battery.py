"""Batteries: they stay in their limits, lose what they must, and remember no more than their level."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulators.homes.battery import STEP_S, STEPS, Batteries, Flow
from simulators.homes.equipment import BATTERY
from simulators.homes.fleet import Fleet
from simulators.homes.region import GERMANY
from simulators.homes.signature import DAY_S
from simulators.homes.supply import KWH_MWS

ONE = Batteries(np.array([KWH_MWS]), np.array([2_000_000]))
"""A battery of 1 kWh and 2 kW."""


def net_w(*parts: tuple[float, int]) -> np.ndarray:
    """Return a day of one home's power: parts of (W, minutes), then 0."""
    minutes = np.repeat([watts for watts, _ in parts], [count for _, count in parts])
    return np.pad(minutes, (0, STEPS - len(minutes)))[None].astype(np.float32)


def test_a_day_by_hand() -> None:
    """1 kW to spare for 30 min stores 475 Wh; then 500 W are delivered until it is empty."""
    flow = ONE.follow(net_w((-1000, 30), (500, 120)), np.array([0]))
    assert (flow.power_mw[0, :30] == 1_000_000).all()
    assert flow.levels_mws[0, 29] == 0.475 * KWH_MWS
    delivered_wh = -flow.power_mw[0, 30:].sum() * STEP_S / 3.6e6
    assert delivered_wh == pytest.approx(475 * 0.95, abs=0.01)
    assert (flow.power_mw[0, 30:84] == -500_000).all()
    assert (flow.power_mw[0, 85:] == 0).all()
    assert flow.levels_mws[0, -1] == 0


def test_power_is_limited_and_full_is_full() -> None:
    """5 kW to spare charge at 2 kW until 1 kWh is in; 5 kW needed get 2 kW."""
    flow = ONE.follow(net_w((-5000, 60), (5000, 60)), np.array([0]))
    assert flow.power_mw.max() == 2_000_000
    assert flow.power_mw.min() == -2_000_000
    assert flow.levels_mws.max() == KWH_MWS
    assert flow.power_mw[0, 59] == 0


def check_limits(batteries: Batteries, watts: np.ndarray, level_mws: np.ndarray, flow: Flow) -> None:
    """Assert that a flow keeps to the limits, follows its home, and conserves energy minute by minute."""
    assert (flow.levels_mws >= 0).all()
    assert (flow.levels_mws <= batteries.capacity_mws[:, None]).all()
    assert (np.abs(flow.power_mw) <= batteries.power_mw[:, None]).all()
    spare_mw = -np.rint(1000 * watts.astype(np.float64)).astype(np.int64)
    # It neither takes more than there is to spare nor delivers more than the home needs.
    assert (flow.power_mw <= np.maximum(spare_mw, 0)).all()
    assert (flow.power_mw >= np.minimum(spare_mw, 0)).all()
    change = np.diff(flow.levels_mws, axis=1, prepend=level_mws[:, None])
    energy = flow.power_mw * STEP_S
    charge = np.maximum(energy, 0)
    assert (np.abs(change - 0.95 * charge)[energy > 0] <= 2 * STEP_S).all()
    assert (np.abs(change * 0.95 - energy)[energy < 0] <= 2 * STEP_S).all()
    assert (np.abs(change)[energy == 0] <= 2 * STEP_S).all()
    assert (energy >= change).all(), "energy appears"


@settings(max_examples=30)
@given(
    seed=st.integers(0, 2**32), scale=st.sampled_from([0.01, 300.0, 3000.0, 30_000.0]), share=st.floats(0, 1)
)
def test_limits(seed: int, scale: float, share: float) -> None:
    """Whatever the home does: levels, powers, directions and energy are possible."""
    watts = (np.random.default_rng(seed).standard_normal((3, STEPS)) * scale).astype(np.float32)
    batteries = Batteries(KWH_MWS * np.array([1, 7, 25]), np.array([300_000, 3_000_000, 11_000_000]))
    level = np.floor(share * batteries.capacity_mws).astype(np.int64)
    check_limits(batteries, watts, level, batteries.follow(watts, level))


def test_batteries_of_a_fleet() -> None:
    """In a fleet they follow all else that their homes use, and lose nothing at midnight."""
    fleet = Fleet.of_today(1, range(400), GERMANY)
    row = np.flatnonzero(fleet.people.owns[BATTERY])
    assert len(row) > 10
    plain = Fleet(1, row.tolist(), fleet.catalogue, GERMANY)
    batteries = Batteries.of(plain.people)
    level = batteries.level_at(plain.minutes, 100)
    days = zip(fleet.days(100, 4, STEP_S), plain.days(100, 4, STEP_S), strict=True)
    for day, rest in days:
        flow = batteries.follow(rest.watts, level)
        check_limits(batteries, rest.watts, level, flow)
        assert day.watts[row] == pytest.approx(rest.watts + flow.power_mw / 1000, abs=0.01)
        events = day.events.of(BATTERY)
        assert events.home.tolist() == row.tolist()
        assert events.watts == pytest.approx(flow.power_mw.mean(axis=1) / 1000)
        assert ((events.end_s - events.start_s) == DAY_S).all()
        level = flow.levels_mws[:, -1]
        assert np.array_equal(level, batteries.level_at(plain.minutes, day.day + 1))


def test_a_level_that_nobody_can_know_is_refused() -> None:
    """If a battery is neither emptied nor filled for months, its level depends on the distant past."""

    def nothing(first: int, count: int) -> Iterator[np.ndarray]:
        """Yield days without power."""
        del first
        yield from (np.zeros((1, STEPS), np.float32) for _ in range(min(count, 2)))

    with pytest.raises(ValueError, match="neither empty nor full"):
        ONE.level_at(nothing, 5)
