"""Simulated homes beside RAMP and the Richardson model, and how many a second.

`python -m benchmarks.simulators [--out FILE]`. Ratios of home-days per CPU-second. Ours: all appliances, the
television's content and the table of events, 1,000 homes for two days. RAMP: users of five appliances for
five days, as many home-days a call; its finest step is a minute. richardsonpy: a home of three for a year,
occupancy, light and appliances; it knows whole years only. Rates are of this machine, as it is now.
"""

import warnings
from collections.abc import Callable

import numpy as np
from ramp import UseCase, User
from richardsonpy.classes.electric_load import ElectricLoad
from richardsonpy.classes.occupancy import Occupancy
from richardsonpy.functions.change_resolution import change_resolution
from richardsonpy.functions.load_radiation import get_rad_from_try_path

from benchmarks.harness import Row, report, run, seconds
from simulators.fleet import Fleet

HOMES, DAYS = 1000, 2
RAMP_USERS, RAMP_DAYS = 400, 5
SECOND_HOMES, SECOND_DAYS = 40, 4
YEAR_HOMES, YEAR_DAYS, OCCUPANTS = 73, 5, 3
GOAL_AT_1_S = 300
"""Home-days per CPU-second on a quiet core."""


def ours(homes: int, days: int, step_s: int) -> Callable[[], object]:
    """Simulate so many homes and days; other days in every call, so that nothing is remembered."""
    fleet, first = Fleet(0, range(homes)), 0

    def call() -> object:
        nonlocal first
        first += days + 2
        return [day.watts.sum(dtype=np.float64) + len(day.events) for day in fleet.days(first, days, step_s)]

    return call


def ramp_user(number: int) -> User:
    """A home of lights, a television, a kettle, a refrigerator and a washing machine."""
    user = User(user_name=f"home {number}", num_users=1)
    some = {"time_fraction_random_variability": 0.2}
    evening = [[360, 540], [1020, 1380]]
    for name, watts, minutes, cycle in (
        ("light", 60, 240, 10),
        ("television", 95, 150, 15),
        ("kettle", 2200, 15, 3),
    ):
        made = user.add_appliance(
            name=name, number=1, power=watts, num_windows=2, func_time=minutes, func_cycle=cycle, **some
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
        name="washing machine", number=1, power=600, num_windows=1, func_time=60, func_cycle=50, **some
    )
    wash.windows([480, 1200], random_var_w=0.2)
    return user


def ramp(users: int, days: int) -> Callable[[], object]:
    """Simulate so many users and days with RAMP."""
    case = UseCase(users=[ramp_user(number) for number in range(users)], date_start="2025-01-06")
    case.initialize(num_days=days, force=True)
    simulate: Callable[[], object] = case.generate_daily_load_profiles
    return simulate


def richardson() -> Callable[[], object]:
    """Simulate a home for a year at 60 s with richardsonpy; the sunlight is read before."""
    direct, diffuse = (
        change_resolution(hourly, old_res=3600, new_res=60) for hourly in get_rad_from_try_path()
    )

    def call() -> object:
        present = Occupancy(number_occupants=OCCUPANTS).occupancy
        load = ElectricLoad(present, OCCUPANTS, q_direct=direct, q_diffuse=diffuse, timestep=60)
        return load.loadcurve.sum()

    return call


def rate(call: Callable[[], object], home_days: int) -> str:
    """Home-days per CPU-second, the best of three."""
    return f"{home_days / min(seconds(call, 1) for _ in range(3)):,.0f} home-days per CPU-second"


def main() -> None:
    """Measures everything here."""
    warnings.simplefilter("ignore")
    at_60_s, at_1_s = ours(HOMES, DAYS, 60), ours(SECOND_HOMES, SECOND_DAYS, 1)
    theirs, theirs_fewer = ramp(RAMP_USERS, RAMP_DAYS), ramp(SECOND_HOMES, SECOND_DAYS)
    note = f"{rate(at_1_s, SECOND_HOMES * SECOND_DAYS)}, goal {GOAL_AT_1_S}"
    rows = [
        Row("2,000 home-days at 60 s", "RAMP at 60 s", at_60_s, theirs, 4, rate(at_60_s, HOMES * DAYS)),
        Row("160 home-days at 1 s", "RAMP at 60 s", at_1_s, theirs_fewer, None, note),
        Row("365 home-days at 60 s", "richardsonpy at 60 s", ours(YEAR_HOMES, YEAR_DAYS, 60), richardson()),
    ]
    report(run(rows), ["numpy", "rampdemand", "richardsonpy"])


if __name__ == "__main__":
    main()
