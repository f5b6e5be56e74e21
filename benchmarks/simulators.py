"""Simulated homes beside RAMP and the Richardson model, and how many a second.

`python -m benchmarks.simulators [--out FILE]`. Home-days per CPU-second, as many homes and days on both,
in steps of as long; making the homes is not counted. Ours are all appliances, the television's content and
the table of what ran, which the peers do not make. RAMP: users of five appliances; a minute is its finest
step, so at 1 s it stands beside with a sixtieth of the values. richardsonpy: a home of three, occupancy,
light and appliances; it knows single homes and whole years only, which ours, that does many homes at a
time, is slowest at: so it stands beside a street of as many home-days too. Rates are of this machine, as
it is now.
"""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness import Row, peer, report, run
from simulators.fleet import Fleet

HOMES, DAYS = 1000, 5
SECOND_HOMES, SECOND_DAYS = 40, 4
YEAR_HOMES, YEAR_DAYS, YEAR, OCCUPANTS = 73, 5, 365, 3
GOAL_AT_1_S, GOAL_RAMP = 300, 4
"""Home-days per CPU-second on a quiet core, and times RAMP's rate."""

UNIT = "home-days"


def ours(homes: int, days: int, step_s: int) -> Callable[[], object]:
    """Simulate so many homes and days; other days in every call, so that nothing is remembered."""
    fleet, first = Fleet(0, range(homes)), 0

    def call() -> object:
        nonlocal first
        first += days + 2
        return [day.watts.sum(dtype=np.float64) + len(day.events) for day in fleet.days(first, days, step_s)]

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
        made = user.add_appliance(
            name=name,
            number=1,
            power=watts,
            num_windows=2,
            func_time=minutes,
            func_cycle=cycle,
            **variability,
        )
        made.windows(*evening, random_var_w=0.2)
    cold = user.add_appliance(
        name="refrigerator",
        number=1,
        power=100,
        num_windows=1,
        func_time=1440,
        func_cycle=30,
        fixed="yes",
        fixed_cycle=1,
    )
    cold.windows([0, 1440])
    cold.specific_cycle_1(100, 20, 5, 40)
    cold.cycle_behaviour([0, 1440])
    wash = user.add_appliance(
        name="washing machine", number=1, power=600, num_windows=1, func_time=60, func_cycle=50, **variability
    )
    wash.windows([480, 1200], random_var_w=0.2)
    return user


def ramp(library: Any, users: int, days: int) -> Callable[[], object]:
    """Simulate so many users and days with RAMP."""
    people = [ramp_user(library, number) for number in range(users)]
    case = library.UseCase(users=people, date_start="2025-01-06")
    case.initialize(num_days=days, force=True)
    simulate: Callable[[], object] = case.generate_daily_load_profiles
    return simulate


def beside_ramp() -> list[Row]:
    """Compare with RAMP at its finest step, and ours at 1 s with the same."""
    library = peer("ramp")
    if library is None:
        return []
    home_days, home_days_at_1_s = HOMES * DAYS, SECOND_HOMES * SECOND_DAYS
    theirs, fewer = ramp(library, HOMES, DAYS), ramp(library, SECOND_HOMES, SECOND_DAYS)
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
            fewer,
            None,
            "",
            (home_days_at_1_s, home_days_at_1_s),
            UNIT,
        ),
    ]


# The Richardson model -----------------------------------------------------------------------------


def richardson() -> Callable[[], object] | None:
    """Simulate a home for a year at 60 s with richardsonpy; the sunlight is read before."""
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
        present = people.Occupancy(number_occupants=OCCUPANTS).occupancy
        made = load.ElectricLoad(present, OCCUPANTS, q_direct=direct, q_diffuse=diffuse, timestep=60)
        return made.loadcurve.sum()

    return call


def beside_richardson() -> list[Row]:
    """Compare one home for a year, and a street of as many home-days."""
    theirs, against, work = richardson(), "richardsonpy at 60 s", (YEAR, YEAR)
    if theirs is None:
        return []
    alone, street = ours(1, YEAR, 60), ours(YEAR_HOMES, YEAR_DAYS, 60)
    return [
        Row("a simulated home for a year at 60 s", against, alone, theirs, None, "", work, UNIT),
        Row(
            f"{YEAR_HOMES} simulated homes for {YEAR_DAYS} days at 60 s",
            against,
            street,
            theirs,
            None,
            "",
            work,
            UNIT,
        ),
    ]


def absolute() -> Row:
    """Compare ours at 1 s with the CPU time that it may take."""
    days = SECOND_HOMES * SECOND_DAYS
    at_1_s, allowed_s = ours(SECOND_HOMES, SECOND_DAYS, 1), days / GOAL_AT_1_S
    against = f"{GOAL_AT_1_S} home-days per CPU-second"
    return Row("simulated homes at 1 s", against, at_1_s, allowed_s, 1, "", (days, days), UNIT)


def main() -> None:
    """Run this program."""
    warnings.simplefilter("ignore")  # the peers' own
    rows = [*beside_ramp(), absolute(), *beside_richardson()]
    report(run(rows), ["numpy", "rampdemand", "richardsonpy"])


if __name__ == "__main__":
    main()
