"""Running sums, and totals of any stretch of time: what a receiver's register shows, and its error."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meteragent.consume import Series, collect, mean_energy, total
from meteragent.domain.terms import Terms
from meteragent.privacy import SeededBits, discrete_laplace
from meteragent.privacy.totals import Part, Weighted, half_width_of_total
from tests.support.messages import (
    ENERGY,
    HALF_HOUR_MS,
    HOURLY,
    KILO,
    NOON_MS,
    TEN_MIN_MS,
    described,
    recorded,
)
from tests.support.stores import TERMS
from tests.support.terms import terms_with


def series(terms: Terms, quanta: list[int], meter: str = "m1") -> Series:
    """A meter's series."""
    return collect([described(terms, meter), *recorded(terms, quanta, meter)])[meter]


# The register -------------------------------------------------------------------------------------


@pytest.mark.parametrize("terms", [TERMS, HOURLY, KILO, ENERGY])
def test_a_register_is_the_sum_of_what_left(terms: Terms) -> None:
    """At each slot's end it shows the energy since the start, with the error of that total."""
    home = series(terms, [512, -100, 300, 40, 7, 1, 900, -50])
    actual = total(home)
    assert actual.start_ms == NOON_MS
    assert actual.time_ms.tolist() == home.end_ms.tolist()
    for i, end_ms in enumerate(actual.time_ms.tolist()):
        exact = home.energy(NOON_MS, end_ms)
        assert actual.kwh[i] == pytest.approx(exact.value)
        assert actual.sd[i] == pytest.approx(exact.sd)
        half, slack = exact.high - exact.value, 1e-4
        assert half * (1 - slack) <= actual.high[i] - actual.kwh[i] <= half * 1.03
        assert actual.kwh[i] - actual.low[i] == pytest.approx(actual.high[i] - actual.kwh[i])
    last = home.energy(NOON_MS, int(home.end_ms[-1]))
    assert (actual.low[-1], actual.high[-1]) == pytest.approx((last.low, last.high), rel=1e-9)


def test_a_month_s_register_has_honest_intervals() -> None:
    """Over 1,440 slots no interval is narrower than its total's, none 3% wider; they only grow."""
    actual = total(series(TERMS, [100] * 1440), coverage=0.8)
    half = actual.high - actual.kwh
    assert (np.diff(half) > -1e-4 * half[:-1]).all()
    assert (np.diff(actual.sd) > 0).all()
    noise = TERMS.mechanism
    for i in (0, 1, 2, 3, 10, 100, 719, 1438, 1439):
        exact = half_width_of_total([Part(noise, 1, i + 1, 0.0005, "dithered")], 0.8)
        assert exact * (1 - 1e-4) <= half[i] <= exact * 1.03
    assert actual.sd[-1] == pytest.approx(actual.sd[0] * 1440**0.5)


def test_a_register_can_go_down_and_start_anywhere() -> None:
    """Negative slots lower it: cutting them off would make it run fast. It can start at any value."""
    home = series(TERMS, [100, -40, 100, 20])
    assert np.allclose(total(home).kwh, [0.05, 0.03, 0.08, 0.09])
    part = total(home, NOON_MS + HALF_HOUR_MS, NOON_MS + 3 * HALF_HOUR_MS)
    assert (part.start_ms, part.kwh.tolist()) == (NOON_MS + HALF_HOUR_MS, pytest.approx([-0.02, 0.03]))
    with pytest.raises(ValueError, match="read-only"):
        part.kwh[0] = 0


def test_a_register_does_not_run_over_a_gap() -> None:
    """There is no running sum over a missing record, but there are sums before and after the gap."""
    home = collect([described(TERMS), *recorded(TERMS, [1, 2]), *recorded(TERMS, [3], first=5)])["m1"]
    with pytest.raises(ValueError, match="no records of whole slots"):
        total(home)
    assert total(home, end_ms=home.gaps[0][0]).kwh[-1] == pytest.approx(0.0015)
    assert total(home, start_ms=home.gaps[0][1]).kwh[-1] == pytest.approx(0.0015)
    with pytest.raises(ValueError, match="between 0 and 1"):
        total(home, end_ms=home.gaps[0][0], coverage=1)


def test_a_register_goes_on_under_other_terms() -> None:
    """A change of terms changes how fast the error grows, not the sum."""
    finer = terms_with(TERMS, length_ms=TEN_MIN_MS, step_ms=TEN_MIN_MS, radius=Fraction(40))
    sent = [described(TERMS), described(finer), *recorded(TERMS, [60]), *recorded(finer, [6, 12], first=3)]
    actual = total(collect(sent)["m1"])
    assert actual.kwh == pytest.approx([0.03, 0.031, 0.033])
    wide, narrow = (item.mechanism for item in (TERMS, finer))
    half = half_width_of_total(
        [Part(wide, 1, 1, 0.0005, "dithered"), Part(narrow, 1, 2, 0.001 / 6, "dithered")]
    )
    assert actual.high[-1] - actual.kwh[-1] == pytest.approx(half, rel=1e-9)


@pytest.mark.statistical
def test_a_register_holds_the_measured_one() -> None:
    """Of 20,000 registers of 12 slots 70% hold the truth at the last time, and hardly more at each before.

    Five deviations of a share of 70% are 1.6%: a right register fails with a chance of 6e-7 a time. With
    noise of a scale 10% off the share at the last time moves by 4.5% or more: missed with 1e-18.
    """
    count, slots = 20_000, 12
    noise = TERMS.mechanism
    drawn = discrete_laplace(count * slots, noise.a, SeededBits(9))
    sums = 0.0005 * drawn.reshape(count, slots).cumsum(axis=1)
    actual = total(series(TERMS, [0] * slots), coverage=0.7)
    half = actual.high - actual.kwh
    share = (np.abs(sums) <= half).mean(axis=0)
    assert (np.abs(share - 0.71) < 0.01 + 0.016).all()
    assert abs(share[-1] - 0.7) < 0.016
    for factor in (0.9, 1.1):
        assert abs((np.abs(factor * sums[:, -1]) <= half[-1]).mean() - 0.7) > 0.016


# Totals that cut slots ----------------------------------------------------------------------------


def test_what_is_cut_has_no_total_unless_one_says_how() -> None:
    """By default a total is of whole slots; a share of a slot is a statement about what was not sent."""
    home = series(TERMS, [100, 200, 300])
    start_ms, end_ms = NOON_MS + HALF_HOUR_MS // 2, NOON_MS + 2 * HALF_HOUR_MS + HALF_HOUR_MS // 10
    with pytest.raises(ValueError, match="whole slots"):
        home.energy(start_ms, end_ms)
    actual = home.energy(start_ms, end_ms, cut="even")
    assert actual.value == pytest.approx(0.0005 * (100 / 2 + 200 + 300 / 10))
    noise = TERMS.mechanism
    parts = [Part(noise, 1, 1, share * 0.0005, "dithered") for share in (0.5, 1.0, 0.1)]
    assert actual.high - actual.value == pytest.approx(half_width_of_total(parts), rel=1e-9)


def test_slots_of_a_window_that_is_cut_share_its_radius() -> None:
    """The cut slot and the whole ones of one window are in one part, each with its weight."""
    home, noise = series(HOURLY, [10, 20, 30, 40, 50, 60]), HOURLY.mechanism
    actual = home.energy(NOON_MS + TEN_MIN_MS // 2, NOON_MS + 3 * TEN_MIN_MS, 0.9, cut="even")
    weights = tuple(share / 6000 for share in (0.5, 1.0, 1.0))
    half = half_width_of_total([Weighted(noise, weights, 1, "dithered")], 0.9)
    assert actual.value == pytest.approx((5 + 20 + 30) / 6000)
    assert actual.high - actual.value == pytest.approx(half, rel=1e-9)


def test_a_time_within_one_slot_has_its_share() -> None:
    """A tenth of a slot has a tenth of its energy and of its error; homes are averaged as usual."""
    homes = [series(TERMS, [100], "m1"), series(TERMS, [300], "m2")]
    start_ms = NOON_MS + HALF_HOUR_MS // 5
    actual = mean_energy(homes, start_ms, start_ms + HALF_HOUR_MS // 10, cut="even")
    whole = mean_energy(homes, NOON_MS, NOON_MS + HALF_HOUR_MS)
    assert actual.value == pytest.approx(whole.value / 10)
    assert actual.high - actual.value == pytest.approx((whole.high - whole.value) / 10)


@pytest.mark.parametrize(("start", "end"), [(0, 0), (1, 0), (-0.5, 1), (0, 2.5), (5, 6), (-1, 0), (-2, -1)])
def test_a_cut_total_is_of_what_is_there(start: float, end: float) -> None:
    """Time before, after or without records has no total, cut or not."""
    home = series(TERMS, [1, 2])
    with pytest.raises(ValueError, match="no records of"):
        home.energy(NOON_MS + int(start * HALF_HOUR_MS), NOON_MS + int(end * HALF_HOUR_MS), cut="even")


@settings(max_examples=30)
@given(cuts=st.lists(st.integers(1, 5 * 1800 - 1), min_size=1, max_size=4, unique=True))
def test_cut_totals_add(cuts: list[int]) -> None:
    """Wherever time is cut, the totals of the pieces add up to the whole's; whole slots are exact."""
    home = series(TERMS, [100, -7, 300, 12, 900])
    edges = [0, *sorted(cuts), 5 * 1800]
    pieces = [
        home.energy(NOON_MS + 1000 * low, NOON_MS + 1000 * high, cut="even").value
        for low, high in pairwise(edges)
    ]
    assert sum(pieces) == pytest.approx(home.energy(NOON_MS, NOON_MS + 5 * HALF_HOUR_MS).value)
    second = NOON_MS + HALF_HOUR_MS, NOON_MS + 2 * HALF_HOUR_MS
    assert home.energy(*second, cut="even") == home.energy(*second)
    both = [home.energy(NOON_MS, NOON_MS + 5 * HALF_HOUR_MS, cut=cut) for cut in (None, "even")]
    assert both[0] == both[1]
