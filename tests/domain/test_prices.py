"""A tariff: prices by band, a fee for a month, and what a price of unknown energy may be."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent.domain.tariff import MONTH_DAYS, Tariff, price_difference
from meteragent.domain.units import DAY_MS

BANDS = ("day", "night", "weekend")
prices = st.fixed_dictionaries(dict.fromkeys(BANDS, st.floats(-1, 1)))


def test_a_known_band_has_one_price() -> None:
    """Also one that is negative, and that of unknown energy if the tariff has one."""
    tariff = Tariff("a", {"day": 0.3, "night": -0.1, "unknown": 0.2})
    assert [tariff.price_range(band) for band in ("day", "night", "unknown")] == [
        (0.3, 0.3),
        (-0.1, -0.1),
        (0.2, 0.2),
    ]
    with pytest.raises(ValueError, match="no price for the band 'peak'"):
        tariff.price_range("peak")


def test_unknown_energy_has_a_range_of_prices() -> None:
    """From the lowest to the highest price."""
    assert Tariff("a", {"day": 0.3, "night": -0.1}).price_range("unknown") == (-0.1, 0.3)


@given(prices, prices, st.tuples(*[st.floats(0.01, 1)] * 3))
def test_the_difference_for_unknown_energy_holds_every_split(
    one: dict[str, float], other: dict[str, float], shares: tuple[float, float, float]
) -> None:
    """The energy was used in the same bands under both tariffs, whatever the shares of the bands were."""
    first, second = Tariff("one", one), Tariff("other", other)
    total = sum(shares)
    cost, second_cost = (
        sum(share / total * tariff.prices[band] for band, share in zip(BANDS, shares, strict=True))
        for tariff in (first, second)
    )
    low, high = price_difference(first, second, "unknown")
    assert low - 1e-9 <= cost - second_cost <= high + 1e-9
    assert price_difference(second, first, "unknown") == pytest.approx((-high, -low))
    single = one["day"] - other["day"]
    assert price_difference(first, second, "day") == (single, single)


def test_a_price_for_unknown_energy_leaves_the_range_of_the_other_tariff() -> None:
    """The prices are then not tied by shares; the same holds for tariffs of different bands."""
    known = Tariff("known", {"day": 0.3, "night": 0.1, "unknown": 0.25})
    open_ = Tariff("open", {"day": 0.4, "night": 0.2})
    assert price_difference(known, open_, "unknown") == pytest.approx((-0.15, 0.05))
    assert price_difference(open_, known, "unknown") == pytest.approx((-0.05, 0.15))
    apart = Tariff("apart", {"peak": 0.5})
    assert price_difference(apart, open_, "unknown") == pytest.approx((0.1, 0.3))


def test_twelve_months_and_a_mean_year_have_the_same_fees() -> None:
    """A local month pays one fee, whatever its length; another window pays in proportion to its time."""
    tariff = Tariff("a", {"day": 1}, fee=10)
    assert {tariff.fee_for_window(days * DAY_MS, is_month=True) for days in (28, 30, 31)} == {10}
    assert tariff.fee_for_window(round(365.25 * DAY_MS), is_month=False) == pytest.approx(120)
    assert tariff.fee_for_window(7 * DAY_MS, is_month=False) == pytest.approx(70 / MONTH_DAYS)


@pytest.mark.parametrize(
    ("bad", "fee", "text"),
    [
        ({}, 0, "at least one band"),
        ({"unknown": 1.0}, 0, "at least one band"),
        ({"day": math.inf}, 0, "finite"),
        ({"day": 1.0}, -1, "at least 0"),
        ({"day": 1.0}, math.nan, "at least 0"),
    ],
)
def test_a_tariff_has_prices_and_no_negative_fee(bad: dict[str, float], fee: float, text: str) -> None:
    """Anything else is refused."""
    with pytest.raises(ValueError, match=text):
        Tariff("bad", bad, fee)
