"""Electric cars: a session has the energy that it was given, within charger and battery."""

from itertools import pairwise

import numpy as np
import pytest

from simulators.homes.appliance import Runs
from simulators.homes.car import ARRIVAL, PRICE, SUN, TIMER, Cars, Chargers, is_plugged, sessions, used_mws
from simulators.homes.equipment import CAR, SOLAR
from simulators.homes.household import Households
from simulators.homes.region import GERMANY, GREAT_BRITAIN, HOUR_S, Region
from simulators.homes.signature import DAY_S
from simulators.homes.supply import KWH_MWS, cheapest_hour, prices

DAYS = (12, 160)
"""A Saturday in winter, and a weekday in summer."""


def drivers(region: Region) -> Households:
    """Homes with a car, and with solar panels more often than in the region."""
    people = Households.of(4, np.arange(2500), region)
    return people.select(np.flatnonzero(people.owns[CAR]))


def energy_mws(runs: Runs) -> np.ndarray:
    """The energy of each run, in whole mW s."""
    return np.asarray((np.diff(runs.ends_s, axis=1, prepend=0) * runs.levels_mw).sum(axis=1))


def plugged(people: Households, region: Region, day: int) -> list[Runs]:
    """The runs of cars that are plugged in on a day, whenever they start."""
    return Chargers(region)._plugged_on(people, Cars.of(people, region), day)


@pytest.mark.parametrize("region", [GERMANY, GREAT_BRITAIN], ids=lambda region: region.name)
@pytest.mark.parametrize("day", DAYS)
def test_sessions_have_the_energy_they_were_given(region: Region, day: int) -> None:
    """To the last mW s, never above the charger's power, and in one run for each car."""
    people = drivers(region)
    cars = Cars.of(people, region)
    given = np.zeros(len(people.homes), np.int64)
    asked = sessions(people, region, cars, day)
    given[asked.row] = asked.energy_mws
    charged = np.zeros_like(given)
    for runs in plugged(people, region, day):
        np.add.at(charged, runs.row, energy_mws(runs))
        assert (runs.levels_mw >= 0).all()
        assert (runs.levels_mw <= cars.power_mw[runs.row][:, None]).all()
        assert (runs.stop_s - runs.start_s <= DAY_S).all()
    assert np.array_equal(given, charged)
    assert given.sum() > 100 * KWH_MWS
    assert (given <= cars.capacity_mws).all()


@pytest.mark.parametrize("region", [GERMANY, GREAT_BRITAIN], ids=lambda region: region.name)
def test_every_session_starts_on_one_day(region: Region) -> None:
    """A session that starts after midnight belongs to the next day; none is lost, none is there twice.

    A car's session has ended before its next one starts.
    """
    people, days = drivers(region), range(150, 157)
    expected = sorted(
        (row, start + day * DAY_S)
        for day in range(149, 157)
        for runs in plugged(people, region, day)
        for row, start in zip(runs.row.tolist(), runs.start_s.tolist(), strict=True)
        if 150 <= day + start // DAY_S <= 156
    )
    seen: list[tuple[int, int]] = []
    stops: list[int] = []
    for day in days:
        runs = Chargers(region).runs(people, people.absences(day), people.activity(day), day)
        assert ((runs.start_s >= 0) & (runs.start_s < DAY_S)).all()
        seen += zip(runs.row.tolist(), (runs.start_s + day * DAY_S).tolist(), strict=True)
        stops += (runs.stop_s + day * DAY_S).tolist()
    assert sorted(seen) == expected
    order = sorted(range(len(seen)), key=lambda index: seen[index])
    for before, after in pairwise(order):
        assert seen[before][0] != seen[after][0] or stops[before] <= seen[after][1]


def test_what_was_driven_is_charged_once() -> None:
    """Between two days on which a car is plugged in, sessions have what all days took, if it fits."""
    people = drivers(GERMANY)
    cars = Cars.of(people, GERMANY)
    days = range(200, 230)
    used = np.array([used_mws(people, GERMANY, day) for day in days])
    plugs = np.array([is_plugged(people, cars, day) for day in days])
    asked = [sessions(people, GERMANY, cars, day) for day in days]
    checked = 0
    for car in range(len(people.homes)):
        first, *later = np.flatnonzero(plugs[:, car]).tolist()
        for last in later:
            need = used[first + 1 : last + 1, car].sum()
            got = asked[last].energy_mws[asked[last].row == car].sum()
            most = min(cars.capacity_mws[car], cars.power_mw[car] * 10 * HOUR_S)
            assert got == (min(need, most) if last - first <= 14 else got)
            first, checked = last, checked + 1
    assert checked > 300


def test_strategies() -> None:
    """Arrivals are in the evening, timers in cheap hours, others follow the sun."""
    people = drivers(GREAT_BRITAIN)
    cars = Cars.of(people, GREAT_BRITAIN)
    assert set(cars.strategy.tolist()) == {ARRIVAL, TIMER, PRICE, SUN}
    assert SUN not in cars.strategy[~people.owns[SOLAR]]
    by_clock, by_sun = plugged(people, GREAT_BRITAIN, 160)
    hours = by_clock.start_s / HOUR_S
    strategy = cars.strategy[by_clock.row]
    assert ((hours[strategy == TIMER] >= 24.5) & (hours[strategy == TIMER] < 26)).all()
    assert ((hours[strategy == ARRIVAL] >= 12) & (hours[strategy == ARRIVAL] < 23.5)).all()
    assert (cars.strategy[by_sun.row] == SUN).all()
    power_mw = by_sun.levels_mw[:, :-3]
    assert ((power_mw == 0) | (power_mw >= 1_400_000) | (np.diff(power_mw, append=0) <= 0)).all()


def test_timers_of_many_homes_start_together() -> None:
    """A tariff is a common cause: most timers begin within the ten minutes that the rules allow."""
    people = drivers(GREAT_BRITAIN)
    timer = Cars.of(people, GREAT_BRITAIN).strategy == TIMER
    runs = plugged(people, GREAT_BRITAIN, 40)[0]
    late_s = runs.start_s[timer[runs.row]] - DAY_S - GREAT_BRITAIN.night_s[0]
    assert (late_s >= 0).all()
    assert (late_s < 600).mean() > 0.5
    assert late_s.std() > 60


def test_the_cheapest_hours() -> None:
    """No other start by 7:00 is cheaper; with too little time, charging starts at once."""
    both = np.concatenate([prices(1, GERMANY, day) for day in (30, 31)])
    first, hours = np.array([17, 20, 23, 22]), np.array([3, 1, 8, 12])
    best = cheapest_hour(1, GERMANY, 30, first, hours)
    for begin, length, at in zip(first[:3], hours[:3], best[:3], strict=True):
        costs = {hour: both[hour : hour + length].sum() for hour in range(begin, 32 - length)}
        assert costs[at] == pytest.approx(min(costs.values()))
    assert best[3] == 22


def test_cold_days_need_more() -> None:
    """The same trips take more energy in winter: about 10 to 45% more in January than in July.

    2,000 trips a season have a relative standard error of the mean of 2%, so that the chance of a false alarm
    is below 1e-6; a model without temperature gives 0%.
    """
    people = drivers(GERMANY)
    january, july = (
        np.mean([used_mws(people, GERMANY, day).mean() for day in range(first, first + 28)])
        for first in (0, 182)
    )
    assert 1.1 < january / july < 1.45
