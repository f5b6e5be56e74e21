"""Regions: climate, calendar, tariffs, and how many homes own what; all homes of a region share them.

Shares are of all households. Each has its source; where no published figure was found, it is called an
assumption. Only homes with a roof or a driveway of their own (`houses`) have a car, a heat pump or solar
panels, so that these come together, as in reality.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache
from typing import NamedTuple

from simulators.homes.signature import DAY_0

HOUR_S = 3600


class Climate(NamedTuple):
    """A temperature of mean - swing · cos(2π (n - coldest) / 365) on day n of the year, plus an anomaly.

    The anomaly is a first-order process with the correlation `memory` from day to day; its standard deviation
    is `spread_c` in summer and in winter. `clearness` is the mean of radiation on the ground divided by
    radiation above the atmosphere, in winter and in summer. Latitude and longitude are in degrees.
    """

    latitude: float
    longitude: float
    zone_h: int
    mean_c: float
    swing_c: float
    coldest_day: float
    memory: float
    spread_c: tuple[float, float]
    clearness: tuple[float, float]


class Shares(NamedTuple):
    """The shares of households that own each thing; `battery` and `solar` are shares of all, too."""

    houses: float
    car: float
    heat_pump: float
    night_storage: float
    flow_heater: float
    tank: float
    solar: float
    battery: float
    induction: float


class Choice(NamedTuple):
    """Values and their probabilities, which sum to 1."""

    values: tuple[int, ...]
    weights: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Region:
    """A region: everything that its homes have in common.

    `night_s` is the start of cheap hours and their duration, in s; `delay_s` the longest random delay of a
    charger. `car_w`, `flow_heater_w`, `tank_w` and `backup_w` are rated powers; `has_only_showers` says that
    a flow heater serves only a shower. `free_days` are public holidays other than Easter's, as (month, day);
    `easter` counts days from Easter Sunday.
    """

    name: str
    climate: Climate
    shares: Shares
    night_s: tuple[int, int]
    delay_s: int
    car_w: Choice
    flow_heater_w: Choice
    has_only_showers: bool
    tank_w: int
    backup_w: Choice
    free_days: tuple[tuple[int, int], ...]
    easter: tuple[int, ...]

    def is_free(self, day: int) -> bool:
        """Return whether nobody works: on Saturdays, Sundays, public holidays and 24 and 31 December."""
        if day % 7 >= 5:
            return True
        when = date_of(day)
        is_eve = when.month == 12 and when.day in (24, 31)
        moving = {easter_sunday(when.year) + timedelta(days) for days in self.easter}
        return is_eve or (when.month, when.day) in self.free_days or when in moving


def date_of(day: int) -> date:
    """Return the date of a day that is counted from day 0."""
    return DAY_0 + timedelta(day)


@lru_cache(maxsize=64)
def easter_sunday(year: int) -> date:
    """Return Easter Sunday in the Gregorian calendar (Butcher's algorithm; Meeus 1991, chapter 8)."""
    a, (b, c) = year % 19, divmod(year, 100)
    d, e = divmod(b, 4)
    f = (b - (b + 8) // 25 + 1) // 3
    h = (19 * a + b - d - f + 15) % 30
    i, k = divmod(c, 4)
    shift = (32 + 2 * e + 2 * i - h - k) % 7
    m = (a + 11 * h + 22 * shift) // 451
    month, day = divmod(h + shift - 7 * m + 114, 31)
    return date(year, month, day + 1)


GERMANY = Region(
    "DE",
    # Means over the 15 test reference years of Deutscher Wetterdienst (2010), as `demandlib` ships them;
    # tests/simulators/test_weather.py compares each figure with these data. Place: Kassel.
    Climate(51.3, 9.5, 1, 8.5, 8.8, 17, 0.6, (3.35, 4.1), (0.315, 0.48)),
    Shares(
        houses=0.45,  # assumption: households in houses of one or two homes
        car=0.06,  # KfW-Energiewendebarometer 2023
        heat_pump=0.057,  # BDEW, Wie heizt Deutschland? (2023)
        night_storage=0.026,  # BDEW 2021: direct electric heating
        flow_heater=0.11,  # Destatis 2018: 15% heat water with electricity; the division is an assumption
        tank=0.04,
        solar=0.12,  # KfW-Energiewendebarometer 2023
        battery=0.044,  # BSW-Solar, end of 2024: 1.8 million, of 41 million households
        induction=0.18,  # forsa for Miele, December 2010: the newest that was found, surely too low
    ),
    night_s=(22 * HOUR_S, 8 * HOUR_S),
    delay_s=60,
    car_w=Choice((11_000, 7_400, 3_700), (0.7, 0.1, 0.2)),  # assumption
    flow_heater_w=Choice((18_000, 21_000, 24_000), (0.3, 0.5, 0.2)),  # assumption
    has_only_showers=False,
    tank_w=2_000,
    backup_w=Choice((6_000, 9_000), (0.6, 0.4)),
    free_days=((1, 1), (5, 1), (10, 3), (12, 25), (12, 26)),
    easter=(-2, 1, 39, 50),
)
GREAT_BRITAIN = Region(
    "GB",
    # Monthly means: Met Office, UK climate averages 1991-2020, Midlands. The variability is of the mildest
    # German test reference years (1 and 2, at the coast), because the packages ship no British weather.
    Climate(52.5, -1.5, 0, 10.0, 6.3, 20, 0.5, (2.7, 3.4), (0.295, 0.45)),
    Shares(
        houses=0.67,  # Field Dynamics 2023, via Zapmap: households with a driveway
        car=0.035,  # Zapmap, end of 2024: a million home chargers, of 28.4 million households
        heat_pump=0.01,  # Nesta 2023: fewer than 1% of homes; Which? 2024: 2% of home owners
        night_storage=0.06,  # 1.7 million of 28.4 million (Sunamp 2024)
        flow_heater=0.4,  # assumption: electric showers
        tank=0.08,  # assumption: immersion heaters in daily use
        solar=0.041,  # MCS 2023: 1.3 million homes
        battery=0.01,  # assumption
        induction=0.15,  # assumption
    ),
    night_s=(30 * 60, 7 * HOUR_S),
    delay_s=600,  # The Electric Vehicles (Smart Charge Points) Regulations 2021, regulation 11
    car_w=Choice((7_400, 3_700), (0.85, 0.15)),  # assumption; 11 kW needs three phases
    flow_heater_w=Choice((7_500, 8_500, 9_500, 10_500), (0.2, 0.4, 0.3, 0.1)),  # assumption
    has_only_showers=True,
    tank_w=3_000,
    backup_w=Choice((3_000, 6_000), (0.7, 0.3)),
    free_days=((1, 1), (12, 25), (12, 26)),
    easter=(-2, 1),
)
REGIONS = {region.name: region for region in (GERMANY, GREAT_BRITAIN)}
