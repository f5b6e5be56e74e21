"""The closed forms of THEORY 3.8 and 3.9 next to the published figures, and the ratios of errors.

E is the hidden energy in kWh, at level 1. The standard deviation of a slot is sqrt(2) E / share in a window
with n = 1, and sqrt((n + 1)(n + 2) / 3) E in an l_inf window with n slots (THEORY 1.2).
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from simulators.tariffs import example_tariffs

SLOTS_A_DAY, DAYS = 48, 30
KETTLE_KWH, TARIFF_KWH, AWAY_KWH = 0.11, 1.0, 6.0
_UNITS = ("half hour, W", "day, kWh", "month, kWh")
RATIO_TOLERANCE = 0.15
"""The allowed relative deviation from the published ratios."""


class Figure(NamedTuple):
    """A figure as computed, and its published digits."""

    name: str
    computed: float
    printed: str

    @property
    def agrees(self) -> bool:
        """Whether the rounded figure has the published digits."""
        _, _, decimals = self.printed.partition(".")
        return abs(self.computed - float(self.printed)) <= 0.5 * 10.0 ** -len(decimals) + 1e-9


class Ratio(NamedTuple):
    """The error of a bill added up from half hours, that of a released bill, and the published ratio."""

    name: str
    half_hours_eur: float
    own_eur: float
    printed: float | None

    @property
    def computed(self) -> float:
        """The factor by which releasing the bill itself reduces the error."""
        return self.half_hours_eur / self.own_eur

    @property
    def agrees(self) -> bool:
        """Whether the ratio is within 15% of the published one; true if none was published."""
        return self.printed is None or abs(self.computed / self.printed - 1) <= RATIO_TOLERANCE


def sd_kwh(hidden_kwh: float, share: float = 1.0) -> float:
    """Return the standard deviation in kWh of an energy that hides `hidden_kwh` with a share of level 1."""
    return math.sqrt(2) * hidden_kwh / share


def linf_sd_kwh(hidden_kwh: float, n: int) -> float:
    """Return the standard deviation in kWh of each of n energies that share a noise bound."""
    return math.sqrt((n + 1) * (n + 2) / 3) * hidden_kwh


def figures() -> Iterator[Figure]:
    """Yield the figures for totals, bands and typical days, then those for nested streams."""
    for name, price, printed in (
        ("flat", 0.30, "0.047"),
        ("two rates", 0.34, "0.053"),
        ("three rates", 0.45, "0.070"),
        ("hourly prices", max(example_tariffs.HOURLY_EUR), "0.071"),
    ):
        yield Figure(f"one total at {name}, hiding 110 Wh, EUR", price * sd_kwh(KETTLE_KWH), printed)
    yield Figure("one total at 0.30, hiding 1 kWh, EUR", 0.30 * sd_kwh(TARIFF_KWH), "0.42")
    yield Figure("one total at 0.30, hiding 6 kWh, EUR", 0.30 * sd_kwh(AWAY_KWH), "2.5")
    highest = max(example_tariffs.HOURLY_EUR)
    yield Figure("one total at hourly prices, hiding 6 kWh, EUR", highest * sd_kwh(AWAY_KWH), "3.9")
    yield Figure("five bands at 0.30, hiding 1 kWh, EUR", 0.30 * math.sqrt(5) * sd_kwh(TARIFF_KWH), "0.95")
    yield Figure("a band, hiding 1 kWh, kWh", sd_kwh(TARIFF_KWH), "1.4")
    yield Figure("a band, l_inf with n = 5, hiding 1 kWh, kWh", linf_sd_kwh(TARIFF_KWH, 5), "3.7")
    yield Figure("a band, l_inf with n = 48, hiding 1 kWh, kWh", linf_sd_kwh(TARIFF_KWH, 48), "28.6")
    hours = DAYS * 24 / SLOTS_A_DAY
    for name, wh, printed in (("110 Wh", 110, "10"), ("600 Wh", 600, "57")):
        yield Figure(
            f"a half hour of a typical day, l1, hiding {name} in all, W", sd_kwh(wh) / hours, printed
        )
    yield Figure("the same, l_inf, hiding 110 Wh in each, W", linf_sd_kwh(110, SLOTS_A_DAY) / hours, "210")
    yield from _nested()


def _nested() -> Iterator[Figure]:
    for shares, printed in (
        ((1.0, 0.0, 0.0), ("311", "1.08", "5.90")),
        ((0.9, 0.1, 0.0), ("344", "0.95", "5.20")),
        ((0.75, 0.25, 0.0), ("411", "0.57", "3.13")),
        ((0.5, 0.5, 0.0), ("616", "0.31", "1.69")),
    ):
        for unit, computed, digits in zip(_UNITS, nested_sd(*shares), printed, strict=True):
            yield Figure(f"{_format_shares(shares)}: {unit}", computed, digits)
    three = (0.7, 0.2, 0.1)
    yield Figure(
        f"{_format_shares(three)}: a half hour as released, W", 2000 * sd_kwh(KETTLE_KWH, 0.7), "444"
    )
    yield Figure(f"{_format_shares(three)}: a day without its month, kWh", nested_sd(0.7, 0.2, 0)[1], "0.69")
    for unit, computed, digits in zip(_UNITS, nested_sd(*three), ("441", "0.68", "1.44"), strict=True):
        yield Figure(f"{_format_shares(three)}: {unit}", computed, digits)


def _format_shares(shares: tuple[float, float, float]) -> str:
    pairs = zip(shares, ("half hour", "day", "month"), strict=True)
    return "shares " + ", ".join(f"{share:g} {name}" for share, name in pairs if share)


def nested_sd(half_hour: float, day: float, month: float) -> tuple[float, float, float]:
    """Return the standard deviations of a nested half hour (in W), day and month (both in kWh).

    Let v be the variance of each of m fine values, and V that of their total. The combined total has the
    variance 1/(1/(m v) + 1/V). A fine value then has the variance v (1 - 1/m) + (the combined total's
    variance) / m^2.
    """
    fine = sd_kwh(KETTLE_KWH, half_hour) ** 2
    days = _combined(SLOTS_A_DAY * fine, day)
    fine = fine * (1 - 1 / SLOTS_A_DAY) + days / SLOTS_A_DAY**2
    months = _combined(DAYS * days, month)
    one_day = days * (1 - 1 / DAYS) + months / DAYS**2
    fine += (one_day - days) / SLOTS_A_DAY**2
    return 2000 * math.sqrt(fine), math.sqrt(one_day), math.sqrt(months)


def _combined(variance: float, share: float) -> float:
    """Combine the variance of summed fine values with the variance of the total's stream, if `share` > 0."""
    return variance if not share else 1 / (1 / variance + 1 / sd_kwh(KETTLE_KWH, share) ** 2)


def ratios() -> Iterator[Ratio]:
    """Yield the errors of bills added up from half hours and of released bills; both kinds hide 110 Wh."""
    slot_kwh = sd_kwh(KETTLE_KWH)
    tariff_prices = example_tariffs.prices()
    week = np.concatenate([example_tariffs.band_of_slots(weekday) for weekday in range(7)])
    printed = {"flat": 38.0, "hourly prices": 22.0}
    prices_by_name = {
        tariff.name: tariff_prices[number][week] for number, tariff in enumerate(example_tariffs.TARIFFS)
    } | {"hourly prices": np.array(example_tariffs.HOURLY_EUR)}
    for name, prices in prices_by_name.items():
        all_slots = math.sqrt(DAYS * SLOTS_A_DAY * float(np.mean(prices**2))) * slot_kwh
        yield Ratio(name, all_slots, float(prices.max()) * slot_kwh, printed.get(name))
