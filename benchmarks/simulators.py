"""Simulated homes, compared with RAMP and the Richardson model.

`python -m benchmarks.simulators [--out FILE]`. The rate is home-days per CPU-second, with the same number of
home-days on both sides; the creation of our homes and of RAMP's is not counted. Our homes include more than
the peers': all appliances, television content and a table of events. RAMP simulates users of five appliances.
Its finest step is a minute, so in the comparison at 1 s it produces a sixtieth of the values. richardsonpy
simulates the occupancy, light and appliances of a household of three. It supports only single homes and whole
years. A single home is the slowest case for our simulator, which processes many homes at a time, so
richardsonpy is also compared with a street of as many home-days. Rates depend on the machine and its load.
"""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness import Row, peer, report, run
from simulators.homes.fleet import Fleet
from simulators.homes.region import GERMANY, Region

HOMES, DAYS = 1000, 5
SECOND_HOMES, SECOND_DAYS = 40, 4
YEAR_HOMES, YEAR_DAYS, YEAR, OCCUPANTS = 73, 5, 365, 3
GOAL_AT_1_S, GOAL_RAMP = 300, 4
"""The goals: home-days per CPU-second at 1 s on a quiet core, and a multiple of RAMP's rate at 60 s."""

UNIT = "home-days"


def ours(homes: int, days: int, step_s: int, region: Region | None = None) -> Callable[[], object]:
    """Return a function that simulates `homes` homes for `days` days.

    Each call simulates different days from the previous call, so that no cache helps.
    """
    fleet, first_day = Fleet.of_today(0, range(homes), region), 0

    def call() -> object:
        """Simulate the next days; return, for each day, a number that depends on all of the day's values."""
        nonlocal first_day
        first_day += days + 2
        return [
            day.watts.sum(dtype=np.float64) + len(day.events) for day in fleet.days(first_day, days, step_s)
        ]

    return call


# RAMP ---------------------------------------------------------------------------------------------


def ramp_user(library: Any, number: int) -> Any:
    """Return a home of lights, a television, a kettle, a refrigerator and a washing machine."""
    user = library.User(user_name=f"home {number}", num_users=1)
    variability = {"time_fraction_random_variability": 0.2}
    evening = [[360, 540], [1020, 1380]]
    for name, watts, minutes, cycle in (
        ("light", 60, 240, 10),
        ("television", 95, 150, 15),
        ("kettle", 2200, 15, 3),
    ):
        appliance = user.add_appliance(
            name=name,
            number=1,
            power=watts,
            num_windows=2,
            func_time=minutes,
            func_cycle=cycle,
            **variability,
        )
        appliance.windows(*evening, random_var_w=0.2)
    refrigerator = user.add_appliance(
        name="refrigerator",
        number=1,
        power=100,
        num_windows=1,
        func_time=1440,
        func_cycle=30,
        fixed="yes",
        fixed_cycle=1,
    )
    refrigerator.windows([0, 1440])
    refrigerator.specific_cycle_1(100, 20, 5, 40)
    refrigerator.cycle_behaviour([0, 1440])
    washing_machine = user.add_appliance(
        name="washing machine", number=1, power=600, num_windows=1, func_time=60, func_cycle=50, **variability
    )
    washing_machine.windows([480, 1200], random_var_w=0.2)
    return user


def ramp(library: Any, users: int, days: int) -> Callable[[], object]:
    """Return a function that simulates `users` homes for `days` days with RAMP."""
    user_list = [ramp_user(library, number) for number in range(users)]
    case = library.UseCase(users=user_list, date_start="2025-01-06")
    case.initialize(num_days=days, force=True)
    simulate: Callable[[], object] = case.generate_daily_load_profiles
    return simulate


def compare_with_ramp() -> list[Row]:
    """Return rows that compare our homes, at 60 s and at 1 s, with RAMP at 60 s, its finest step."""
    library = peer("ramp")
    if library is None:
        return []
    home_days, home_days_at_1_s = HOMES * DAYS, SECOND_HOMES * SECOND_DAYS
    theirs, theirs_for_1_s = ramp(library, HOMES, DAYS), ramp(library, SECOND_HOMES, SECOND_DAYS)
    at_60_s, at_1_s = ours(HOMES, DAYS, 60), ours(SECOND_HOMES, SECOND_DAYS, 1)
    return [
        Row(
            "simulated homes at 60 s",
            "RAMP at 60 s",
            at_60_s,
            theirs,
            GOAL_RAMP,
            "",
            (home_days, home_days),
            UNIT,
        ),
        Row(
            "simulated homes at 1 s",
            "RAMP at 60 s, its finest",
            at_1_s,
            theirs_for_1_s,
            None,
            "",
            (home_days_at_1_s, home_days_at_1_s),
            UNIT,
        ),
    ]


# The Richardson model -----------------------------------------------------------------------------


def richardson() -> Callable[[], object] | None:
    """Return a function that simulates a home for a year at 60 s with richardsonpy and precomputed sunlight.

    Return None if richardsonpy is not installed.
    """
    if peer("richardsonpy") is None:
        return None
    load, people, sun, change = (
        peer(f"richardsonpy.{name}")
        for name in (
            "classes.electric_load",
            "classes.occupancy",
            "functions.load_radiation",
            "functions.change_resolution",
        )
    )
    direct, diffuse = (
        change.change_resolution(hourly, old_res=3600, new_res=60) for hourly in sun.get_rad_from_try_path()
    )

    def call() -> object:
        """Simulate a home; return the sum of its load."""
        occupancy = people.Occupancy(number_occupants=OCCUPANTS).occupancy
        home = load.ElectricLoad(occupancy, OCCUPANTS, q_direct=direct, q_diffuse=diffuse, timestep=60)
        return home.loadcurve.sum()

    return call


def compare_with_richardson() -> list[Row]:
    """Return rows that compare one home for a year, and a street of as many home-days, with richardsonpy."""
    theirs, baseline, home_days = richardson(), "richardsonpy at 60 s", (YEAR, YEAR)
    if theirs is None:
        return []
    single_home, street = ours(1, YEAR, 60), ours(YEAR_HOMES, YEAR_DAYS, 60)
    return [
        Row("a simulated home for a year at 60 s", baseline, single_home, theirs, None, "", home_days, UNIT),
        Row(
            f"{YEAR_HOMES} simulated homes for {YEAR_DAYS} days at 60 s",
            baseline,
            street,
            theirs,
            None,
            "",
            home_days,
            UNIT,
        ),
    ]


def compare_with_goal() -> Row:
    """Return a row that compares our simulation at 1 s with the CPU time that it may take."""
    days = SECOND_HOMES * SECOND_DAYS
    at_1_s, limit_s = ours(SECOND_HOMES, SECOND_DAYS, 1), days / GOAL_AT_1_S
    baseline = f"{GOAL_AT_1_S} home-days per CPU-second"
    return Row("simulated homes at 1 s", baseline, at_1_s, limit_s, 1, "", (days, days), UNIT)


def compare_with_plain() -> Row:
    """Return a row that compares homes of today, with weather and all that they own, with plain homes."""
    of_today, plain = ours(HOMES, DAYS, 60, GERMANY), ours(HOMES, DAYS, 60)
    count = HOMES * DAYS
    return Row(
        "homes of today at 60 s", "plain homes at 60 s", of_today, plain, None, "", (count, count), UNIT
    )


def main() -> None:
    """Run the benchmark, and print its results."""
    warnings.simplefilter("ignore")  # the peers emit warnings
    rows = [*compare_with_ramp(), compare_with_goal(), compare_with_plain(), *compare_with_richardson()]
    report(run(rows), ["numpy", "rampdemand", "richardsonpy"])


if __name__ == "__main__":
    main()
