"""What energies of bands cost under tariffs, and how sure the cheapest is.

Statistical tests draw discrete Laplace noise and dither with numpy. They state the chance of a false alarm
and reject a noise whose scale is 10% off.
"""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from meteragent.consume import Series, Tariff, band_energies, collect, compare_tariffs, tariff_cost
from meteragent.domain.tariff import MONTH_DAYS
from meteragent.privacy.accuracy import sd
from tests.support.tariffs import (
    AUGUST_MS,
    JULY_MS,
    JUNE_MS,
    REGISTER,
    received,
    schedule_of_bands,
)

Floats = NDArray[np.float64]

FLAT = Tariff("flat", {"day": 0.30, "weekend": 0.30, "night": 0.30}, fee=9.5)
NIGHT = Tariff("night", {"day": 0.34, "weekend": 0.34, "night": 0.22}, fee=11)
WEEKEND = Tariff("weekend", {"day": 0.33, "weekend": 0.22, "night": 0.29}, fee=10.5)
MONTH = {"day": 120_000, "weekend": 40_000, "night": 90_000}
"""Energies of a month, in quanta of 1 Wh."""
HIGH_NOISE = "level = 1000000"
"""Noise that is almost always 0, on the same lattice."""


def home(month: dict[str, int] = MONTH, source: str = "", privacy: str = "") -> Series:
    """June of a home."""
    known = schedule_of_bands(privacy, source=source) if source else schedule_of_bands(privacy)
    return received(known, [month])


def noise(count: int, bands: int, scale: float = 1.0, seed: int = 1) -> Floats:
    """Errors of a band in Wh at level 1 for 1 kWh: discrete Laplace noise and dither at any load."""
    rng = np.random.default_rng(seed)
    a = 1 / (1000 * scale)
    whole = rng.geometric(-math.expm1(-a), (2, count, bands)).astype(float)
    f = rng.random((count, bands))
    return np.asarray(whole[0] - whole[1] + (rng.random((count, bands)) < f) - f)


def test_a_month_costs_its_energies_times_their_prices_and_one_fee() -> None:
    """250 kWh at 0.30 and a fee; the error is that of 250 kWh, or that of each band at its price."""
    series = home()
    cost = tariff_cost(series, FLAT, JUNE_MS)
    assert cost.unit == "EUR"
    assert cost.value == pytest.approx(250 * 0.30 + 9.5)
    bands = band_energies(series, JUNE_MS)
    assert cost.sd == pytest.approx(0.30 * math.hypot(*(band.sd for band in bands.values())))
    night = tariff_cost(series, NIGHT, JUNE_MS, coverage=0.5)
    assert night.value == pytest.approx(160 * 0.34 + 90 * 0.22 + 11)
    assert (night.low + night.high) / 2 == pytest.approx(night.value)
    assert night.coverage == 0.5


def test_the_cost_of_one_band_has_its_interval() -> None:
    """A tariff with one price that is not 0: exactly the interval of that band's energy, times the price."""
    series = home()
    free = Tariff("free", {"day": 0.0, "weekend": -0.25, "night": 0.0})
    cost, band = tariff_cost(series, free, JUNE_MS), band_energies(series, JUNE_MS)["weekend"]
    assert cost.high - cost.low == pytest.approx(0.25 * (band.high - band.low), rel=1e-9)
    assert cost.value == pytest.approx(-0.25 * band.value)
    nothing = tariff_cost(series, replace(free, prices=dict.fromkeys(free.prices, 0.0), fee=3), JUNE_MS)
    assert (nothing.value, nothing.sd, nothing.low, nothing.high) == (3, 0, 3, 3)


def test_months_add_and_other_windows_pay_in_proportion() -> None:
    """June and July: two fees; a week: 7 of 30.4375 days of a fee."""
    months = received(schedule_of_bands(), [MONTH, {"day": 1000, "weekend": 0, "night": 0}])
    both = tariff_cost(months, FLAT, JUNE_MS, AUGUST_MS)
    assert both.value == pytest.approx(251 * 0.30 + 19)
    assert tariff_cost(months, FLAT, JULY_MS).value == pytest.approx(0.30 + 9.5)
    assert both.sd == pytest.approx(math.sqrt(2) * tariff_cost(months, FLAT, JULY_MS).sd)
    known = schedule_of_bands(length="1w")
    monday_ms = JUNE_MS  # June 1, 2026, is a Monday
    week = tariff_cost(received(known, [MONTH], monday_ms), FLAT, monday_ms)
    assert week.value == pytest.approx(250 * 0.30 + 9.5 * 7 / MONTH_DAYS)
    days = schedule_of_bands(length="1d")
    day = tariff_cost(received(days, [{"day": 10_000, "night": 1000}]), FLAT, JUNE_MS)  # no weekend
    assert day.value == pytest.approx(11 * 0.30 + 9.5 / MONTH_DAYS)


def test_energy_of_an_unknown_band_widens_the_interval_and_is_not_guessed() -> None:
    """Its price is between the lowest and the highest: the interval is the union, its middle the value."""
    known = home({**MONTH, "unknown": 5000}, REGISTER)
    cost = tariff_cost(known, NIGHT, JUNE_MS)
    base = 160 * 0.34 + 90 * 0.22 + 11
    assert cost.value == pytest.approx(base + 5 * 0.28)
    prices = [
        tariff_cost(known, replace(NIGHT, prices={**NIGHT.prices, "unknown": price}), JUNE_MS)
        for price in (0.22, 0.28, 0.34)
    ]
    assert [priced.value for priced in prices] == pytest.approx([base + 1.1, base + 1.4, base + 1.7])
    assert cost.low <= min(priced.low for priced in prices)
    assert cost.high == pytest.approx(max(priced.high for priced in prices))
    assert cost.sd == pytest.approx(prices[2].sd)
    negative = tariff_cost(home({**MONTH, "unknown": -5000}, REGISTER), NIGHT, JUNE_MS)
    assert negative.value == pytest.approx(base - 1.4)
    assert negative.high - negative.low == pytest.approx(cost.high - cost.low)
    flat = tariff_cost(known, FLAT, JUNE_MS)
    assert flat.value == pytest.approx(255 * 0.30 + 9.5)


@given(
    prices=st.lists(st.floats(0.01, 1), min_size=3, max_size=3),
    unknown=st.integers(0, 20_000),
    shares=st.tuples(*[st.floats(0, 1)] * 3),
)
def test_the_interval_holds_the_cost_whatever_the_price_was(
    prices: list[float], unknown: int, shares: tuple[float, float, float]
) -> None:
    """Without noise, each split of the unknown energy over the bands has its cost inside."""
    tariff = Tariff("any", dict(zip(MONTH, prices, strict=True)))
    series = home({**MONTH, "unknown": unknown}, REGISTER, HIGH_NOISE)
    cost = tariff_cost(series, tariff, JUNE_MS)
    weights = np.array(shares) / sum(shares) if sum(shares) > 0 else np.ones(3) / 3
    true = sum(MONTH[band] / 1000 * price for band, price in tariff.prices.items())
    true += unknown / 1000 * float(weights @ prices)
    assert cost.low <= true <= cost.high


def test_the_cheapest_is_found_and_how_sure_it_is() -> None:
    """P-values of the others; nearly sure where the difference is many errors, and not where it is small."""
    choice = compare_tariffs(home(), [FLAT, NIGHT, WEEKEND], JUNE_MS)
    values = {name: cost.value for name, cost in choice.costs.items()}
    assert values == pytest.approx({"flat": 84.5, "night": 85.2, "weekend": 85.0})
    assert choice.cheapest == "flat"
    assert choice.p_values.keys() == values.keys() - {choice.cheapest}
    assert choice.sureness == pytest.approx(max(0, 1 - sum(choice.p_values.values())))
    sure = compare_tariffs(home({**MONTH, "night": 900_000}), [FLAT, NIGHT, WEEKEND], JUNE_MS)
    assert sure.cheapest == "night"
    assert sure.sureness == pytest.approx(1, abs=1e-9)


def test_equal_tariffs_cannot_be_told_apart() -> None:
    """Equal prices have no noise in their difference: the fees decide, and a tie is never sure."""
    dearer = replace(FLAT, name="fee", fee=9.6)
    assert compare_tariffs(home(), [FLAT, dearer], JUNE_MS).sureness == 1
    assert compare_tariffs(home(), [FLAT, replace(FLAT, name="same")], JUNE_MS).sureness == 0


def test_unknown_energy_lowers_the_sureness() -> None:
    """The smallest difference that a split of it allows counts; if that is below 0, nothing is sure."""
    month = {**MONTH, "night": 120_000}
    known, unknown = (
        compare_tariffs(home({**month, "unknown": wh}, REGISTER), [FLAT, NIGHT], JUNE_MS)
        for wh in (0, 20_000)
    )
    assert (known.cheapest, unknown.cheapest) == ("night", "night")
    assert known.sureness > unknown.sureness
    without = compare_tariffs(home(month), [FLAT, NIGHT], JUNE_MS)
    assert without.sureness > known.sureness
    lost = compare_tariffs(home({**month, "unknown": 900_000}, REGISTER), [FLAT, NIGHT], JUNE_MS)
    assert lost.sureness == 0
    base = known.costs["flat"].value - known.costs["night"].value
    just_lost = round(
        1000 * (base + 0.01) / 0.04
    )  # at worst, a kWh of it is 0.04 EUR dearer at night's prices
    doubtful = compare_tariffs(home({**month, "unknown": just_lost}, REGISTER), [FLAT, NIGHT], JUNE_MS)
    assert (doubtful.cheapest, doubtful.p_values) == ("night", {"flat": 1.0})


def exact_p_value(weights: tuple[float, ...], a: float, difference: float) -> float:
    """The largest chance over loads on a grid that a sum of errors is at least a difference."""
    r, reach, largest = math.exp(-a), math.ceil(30 / a), 0.0
    whole = np.arange(-reach, reach + 1)
    law = (1 - r) / (1 + r) * r ** np.abs(whole)
    for loads in itertools.product(np.linspace(0, 0.95, 20), repeat=len(weights)):
        sums, masses = np.zeros(1), np.ones(1)
        for f, weight in zip(loads, weights, strict=True):
            errors = np.concatenate((whole - f, whole + 1 - f)) * weight
            sums = np.add.outer(sums, errors).ravel()
            masses = np.multiply.outer(masses, np.concatenate((law * (1 - f), law * f))).ravel()
        largest = max(largest, float(masses[sums >= difference - 1e-12].sum()))
    return largest


def test_a_p_value_is_the_largest_chance_over_loads() -> None:
    """By enumeration at a coarse lattice: of one band that differs exactly, of two an honest bound."""
    series = home({"day": 3, "weekend": 2, "night": 5}, privacy="hide = '1Wh'\nlevel = 1\nquantum = 1")
    flat = Tariff("flat", dict.fromkeys(MONTH, 100.0))
    for prices, weights in (
        ({"day": 100.0, "weekend": 100.0, "night": 200.0}, (0.1,)),
        ({"day": 150.0, "weekend": 100.0, "night": 200.0}, (0.05, 0.1)),
    ):
        dearer = Tariff("dearer", prices)
        choice = compare_tariffs(series, [flat, dearer], JUNE_MS)
        difference = choice.costs["dearer"].value - choice.costs["flat"].value
        actual = exact_p_value(weights, 1.0, difference)
        if len(weights) == 1:
            assert choice.p_values["dearer"] == pytest.approx(actual, rel=1e-6)
        else:
            shift = sum(weights) / 2  # in EUR; the slowest tail falls by e in 0.1 EUR
            assert actual * (1 - 1e-9) <= choice.p_values["dearer"] <= math.exp(shift / 0.1) * actual


COUNT = 40_000
FALSE_ALARM_SE = 4.9
"""A share that is this many standard errors off happens by chance once in a million."""


@pytest.mark.statistical
@pytest.mark.parametrize(("scale", "passes"), [(1.0, True), (1.1, False), (1 / 1.1, False)])
def test_the_interval_of_a_cost_has_its_coverage(scale: float, passes: bool) -> None:
    """95% of months; false alarm 1e-6. A scale 10% off moves it by 0.015, which is seen with 1 - 1e-6."""
    cost = tariff_cost(home(), NIGHT, JUNE_MS)
    prices = np.array([NIGHT.prices[band] for band in MONTH]) / 1000
    errors = noise(COUNT, 3, scale) @ prices
    share = float(np.mean(np.abs(errors) <= cost.high - cost.value))
    assert (abs(share - 0.95) < FALSE_ALARM_SE * math.sqrt(0.95 * 0.05 / COUNT)) is passes
    is_sd = abs(float(np.std(errors)) / cost.sd - 1) < FALSE_ALARM_SE * math.sqrt(5 / 4 / COUNT)
    assert is_sd is passes


@pytest.mark.statistical
@pytest.mark.parametrize(("scale", "passes"), [(1.0, True), (1.1, False), (1 / 1.1, False)])
def test_a_wrong_tariff_is_called_surely_the_cheapest_as_often_as_stated(
    scale: float,
    passes: bool,
) -> None:
    """Two tariffs of almost the same cost: 95% sureness is wrong in 5% of months; false alarm 1e-6.

    A scale 10% off makes that 6.6% or 3.7%, 11 standard errors away.
    """
    month = {"day": 120_000, "weekend": 43_000, "night": 100_000}
    prices = {"flat": FLAT.prices, "night": NIGHT.prices}
    differences = np.array([prices["night"][band] - prices["flat"][band] for band in MONTH]) / 1000
    fees = replace(NIGHT, fee=9.5 - float(differences @ list(month.values())) + 1e-6)  # dearer by 1e-6 EUR
    errors = noise(COUNT, 3, scale, seed=2) @ differences
    # The sureness is a function of the released difference: find where it reaches 95%.
    released = np.sort(-errors)
    sure = [
        compare_tariffs(home(month), [replace(FLAT, fee=9.5 + float(more)), fees], JUNE_MS)
        for more in np.quantile(released, (0.93, 0.97))
    ]
    assert [choice.cheapest for choice in sure] == ["night", "night"]
    low, high = 0.0, 10.0
    for _ in range(40):
        middle = (low + high) / 2
        choice = compare_tariffs(home(month), [replace(FLAT, fee=9.5 + middle), fees], JUNE_MS)
        low, high = (low, middle) if choice.sureness >= 0.95 else (middle, high)
    share = float(np.mean(-errors >= high))
    assert (abs(share - 0.05) < FALSE_ALARM_SE * math.sqrt(0.05 * 0.95 / COUNT)) is passes


@pytest.mark.parametrize(
    ("prices", "fee", "text"),
    [
        ({}, 0, "at least one band"),
        ({"unknown": 0.3}, 0, "at least one band"),
        ({"day": math.nan}, 0, "finite"),
    ],
)
def test_tariffs_without_prices_are_refused(prices: dict[str, float], fee: float, text: str) -> None:
    """A price for a band that is known, and all of them finite."""
    with pytest.raises(ValueError, match=text):
        Tariff("bad", prices, fee)


def test_what_has_no_cost_is_refused() -> None:
    """A band without a price, a negative fee, records that lack a band, and comparisons that are none."""
    series = home()
    with pytest.raises(ValueError, match="no price for the band 'weekend'"):
        tariff_cost(series, Tariff("some", {"day": 1.0, "night": 1.0}), JUNE_MS)
    with pytest.raises(ValueError, match="at least 0"):
        replace(FLAT, fee=-1)
    with pytest.raises(ValueError, match="coverage"):
        tariff_cost(series, FLAT, JUNE_MS, coverage=1)
    with pytest.raises(ValueError, match="no records"):
        tariff_cost(series, FLAT, JULY_MS)
    with pytest.raises(ValueError, match="no records"):
        tariff_cost(replace(series, records=series.records[1:]), FLAT, JUNE_MS)
    for tariffs, text in (
        ([FLAT], "at least two"),
        ([FLAT, FLAT], "with different names"),
        ([FLAT, replace(NIGHT, currency="CHF")], "in the same currency"),
    ):
        with pytest.raises(ValueError, match=text):
            compare_tariffs(series, tariffs, JUNE_MS)


def test_other_windows_have_no_tariff() -> None:
    """Means of a profile are not energies of bands."""
    from tests.consume.test_consume_shapes import BANDS, JUNE, PROFILE, schedule, sent  # noqa: PLC0415

    profile = collect(sent(schedule(PROFILE, BANDS), JUNE, [[1, 2, 3, 4]]))["m1"]
    with pytest.raises(ValueError, match="'bands'"):
        tariff_cost(profile, FLAT, JUNE_MS)


def test_a_price_of_one_band_has_a_known_error() -> None:
    """1 kWh at level 1: 1.41 kWh a band, so 0.42 EUR at 0.30 (THEORY 3.9)."""
    (terms,) = home().descriptors.values()
    assert sd(terms.mechanism, "dithered") == pytest.approx(math.sqrt(2) * 1000, rel=1e-4)
    assert terms.radius == Fraction(1000)
