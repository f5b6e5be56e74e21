"""Homes of today: the same bits however they are asked for, exact sums, shares, and causes in common."""

import subprocess
import sys

import numpy as np
import pytest

from simulators.homes.appliance import CATALOGUE
from simulators.homes.equipment import BATTERY, CAR, HEAT_PUMP, INDUCTION, NIGHT_STORAGE, SOLAR, TANK
from simulators.homes.fleet import AWAY, Fleet
from simulators.homes.region import GERMANY, GREAT_BRITAIN, REGIONS, Region
from simulators.homes.signature import DAY_S
from tests.simulators.test_fleet import by_the_second, digest
from tests.support.not_run import ROOT

REGION = pytest.mark.parametrize("region", REGIONS.values(), ids=REGIONS)


def equipped(region: Region, seed: int = 0) -> list[int]:
    """A home with solar panels and a battery, a car, a heat pump, night storage, a tank, and nothing."""
    people = Fleet.of_today(seed, range(3000), region).people
    things = (BATTERY, CAR, HEAT_PUMP, NIGHT_STORAGE, TANK, INDUCTION)
    homes = [int(np.flatnonzero(people.owns[name])[0]) for name in things]
    plain = ~np.any([people.owns[name] for name in people.owns], axis=0)
    return sorted({*homes, int(np.flatnonzero(plain)[0])})


@REGION
@pytest.mark.parametrize("day", [20, 180])
def test_bits_do_not_depend_on_the_question(region: Region, day: int) -> None:
    """A home's day is the same alone, in any batch and order, and after other days."""
    homes = equipped(region)
    *_, among = Fleet.of_today(0, homes, region).days(day - 1, 2, 900)
    backwards = Fleet.of_today(0, homes[::-1], region).day(day, 900)
    for row, home in enumerate(homes):
        alone = Fleet.of_today(0, [home], region).day(day, 900)
        assert digest(alone, 0, home) == digest(among, row, home)
        assert digest(alone, 0, home) == digest(backwards, len(homes) - 1 - row, home)


def test_bits_do_not_depend_on_the_process() -> None:
    """Another process has the same bits."""
    homes = equipped(GERMANY)
    program = (
        "from simulators.homes.region import GERMANY\n"
        "from tests.simulators.test_fleet import Fleet, digest\n"
        f"*_, day = Fleet.of_today(0, {homes}, GERMANY).days(38, 3, 60)\n"
        f"print(digest(day, 1, {homes[1]}))"
    )
    told = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert told.stdout.strip() == digest(Fleet.of_today(0, [homes[1]], GERMANY).day(40, 60), 0, homes[1])


def test_without_a_region_nothing_changes() -> None:
    """Homes without a region have the catalogue, no batteries, and the bits of homes that never had one."""
    plain, same = Fleet(0, range(20)), Fleet.of_today(0, range(20), None)
    assert plain.day(3, 900).watts.tobytes() == same.day(3, 900).watts.tobytes()
    assert plain.names == same.names == (*(load.name for load in CATALOGUE), "television", AWAY)


def test_the_load_is_the_sum_of_its_runs() -> None:
    """By the second, the load is standby and what runs, from the day before too: to the last bit."""
    region = GERMANY
    fleet = Fleet(0, equipped(region), Fleet.of_today(0, [0], region).catalogue, region)
    expected = by_the_second(fleet, 20)
    assert np.array_equal(fleet.day(20).watts, (expected / 1000).astype(np.float32))


@REGION
def test_coarse_series_are_means_of_fine_ones(region: Region) -> None:
    """A value is the mean power of its step, with batteries and panels, too."""
    fleet = Fleet.of_today(0, equipped(region), region)
    fine = fleet.day(180).watts.astype(np.float64).reshape(len(fleet.homes), -1, 450).mean(axis=2)
    assert fleet.day(180, 450).watts == pytest.approx(fine, rel=1e-5, abs=1e-3)


def test_events_have_all_the_energy() -> None:
    """Standby and the energy of events is that of the series, but for what hangs over at both ends."""
    fleet = Fleet.of_today(0, range(150), GERMANY)
    days = list(fleet.days(19, 5, DAY_S))
    inside = crossing = 0.0
    begin, end = 20 * DAY_S, 24 * DAY_S
    for events in (day.events for day in days):
        energy = events.watts * (events.end_s - events.start_s)
        whole = (events.start_s >= begin) & (events.end_s <= end)
        part = ~whole & (events.end_s > begin) & (events.start_s < end)
        inside, crossing = inside + energy[whole].sum(), crossing + energy[part].sum()
    series = sum(float(day.watts.sum(dtype=np.float64)) for day in days[1:]) * DAY_S
    rest = series - fleet.people.standby_mw.sum() / 1000 * 4 * DAY_S - inside
    assert 0 < rest < crossing < 0.08 * series


@REGION
def test_shares(region: Region) -> None:
    """Homes own things as often as in the region: within 4.5 standard deviations of 20,000 homes.

    A correct share fails with probability 7e-6; one that is off by a half is seen, unless it is below 0.5%.
    """
    owns, count = Fleet.of_today(7, range(20_000), region).people.owns, 20_000
    shares = region.shares
    expected = {
        CAR: shares.car,
        HEAT_PUMP: shares.heat_pump,
        NIGHT_STORAGE: shares.night_storage,
        "flow heater": shares.flow_heater,
        TANK: shares.tank + shares.heat_pump,
        SOLAR: shares.solar,
        BATTERY: shares.battery,
        INDUCTION: shares.induction,
    }
    assert owns.keys() == expected.keys()
    for name, share in expected.items():
        limit = 4.5 * np.sqrt(share * (1 - share) / count)
        assert owns[name].mean() == pytest.approx(share, abs=limit), name
    assert not (owns[BATTERY] & ~owns[SOLAR]).any()
    assert not (owns[HEAT_PUMP] & (owns[NIGHT_STORAGE] | owns["flow heater"])).any()


def test_things_come_together() -> None:
    """Homes with solar panels have cars more often than others, because both need a house."""
    owns = Fleet.of_today(7, range(20_000), GERMANY).people.owns
    assert owns[CAR][owns[SOLAR]].mean() > 1.7 * owns[CAR][~owns[SOLAR]].mean()


def test_weather_seasons_and_holidays_are_common_causes() -> None:
    """Winter days differ from summer days in all homes, and on a holiday fewer people leave.

    Half of the homes commute, so that no chance explains the holiday (3 October 2025, a Friday).
    """
    today = Fleet.of_today(0, range(150), GERMANY)
    winter, summer = (
        np.mean([day.watts.mean() for day in today.days(first, 2, DAY_S)]) for first in (14, 196)
    )
    assert winter > 1.3 * summer
    away = [len(today.day(day, DAY_S).events.of(AWAY)) for day in (269, 270)]
    assert away[1] < 0.3 * away[0]
    assert GERMANY.is_free(270)
    assert not GREAT_BRITAIN.is_free(270)
