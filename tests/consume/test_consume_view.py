"""A view without negative values keeps the totals it can keep, and says where it cannot."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import optimize

from meteragent.consume import collect, nonnegative
from meteragent.consume.view import spread_deficit
from meteragent.domain.grid import parse_time
from meteragent.domain.units import DAY_MS
from meteragent.wire.descriptor import describe_terms
from meteragent.wire.record import RecordFormat
from tests.consume.test_consume_shapes import (
    BANDS,
    CURVE,
    JUNE,
    JUNE_10,
    JUNE_10_MS,
    PROFILE,
    received,
    schedule,
)
from tests.support.messages import HALF_HOUR_MS, NOON_MS, described, recorded
from tests.support.stores import TERMS
from tests.support.terms import terms_with

VALUES = st.lists(st.floats(-1e4, 1e4), min_size=1, max_size=30)


def test_a_deficit_is_shared_by_what_is_left() -> None:
    """By hand: 10, 5, 1, -4 sum to 12; the two largest, lowered by 3/2 each, do too."""
    assert spread_deficit([10, 5, 1, -4], [1, 1, 1, 1]).tolist() == pytest.approx([8.5, 3.5, 0, 0])
    assert spread_deficit([10, 5, 3, -3], [1, 1, 1, 1]).tolist() == pytest.approx([9, 4, 2, 0])
    assert spread_deficit([10, -4], [1, 2]).tolist() == pytest.approx([2, 0])
    assert spread_deficit([1e20, -1e20, 1], [1, 1, 1]).tolist() in ([1, 0, 0], [0, 0, 0])
    assert spread_deficit([3, 1], [1, 1]).tolist() == [3, 1]
    assert spread_deficit([3, -4], [1, 1]).tolist() == [0, 0]
    assert spread_deficit([], []).tolist() == []


@example(values=[193.0, 109.0, 116.99999999999818, -2.8e-204])
@given(values=VALUES)
def test_no_value_grows_but_to_zero(values: list[float]) -> None:
    """Whatever the rounding, for weights of any size."""
    x = np.array(values)
    for weights in (np.ones(x.size), np.linspace(0.1, 7, x.size)):
        assert (spread_deficit(x, weights) <= np.maximum(x, 0)).all()


@given(values=VALUES, data=st.data())
def test_a_view_keeps_the_total_and_the_order(values: list[float], data: st.DataObject) -> None:
    """Nothing is negative, the weighted total is kept or zero, nothing grows but to zero, order is kept."""
    size = len(values)
    weights = np.array(data.draw(st.lists(st.floats(0.1, 10), min_size=size, max_size=size)))
    x = np.array(values)
    actual = spread_deficit(x, weights)
    assert (actual >= 0).all()
    assert weights @ actual == pytest.approx(max(0, weights @ x), abs=1e-7, rel=1e-9)
    assert (actual <= np.maximum(x, 0)).all()
    assert (np.diff(actual[np.argsort(x)]) >= 0).all()


@given(values=st.lists(st.floats(-100, 100), min_size=2, max_size=4), data=st.data())
def test_a_view_is_the_nearest(values: list[float], data: st.DataObject) -> None:
    """No other values that are nowhere negative and keep the total are nearer, by a general optimiser."""
    size = len(values)
    w = np.array(data.draw(st.lists(st.floats(0.5, 2), min_size=size, max_size=size)))
    x = np.array(values)
    if w @ x <= 1:
        return
    actual = spread_deficit(x, w)
    other = optimize.minimize(
        lambda y: w @ (y - x) ** 2,
        np.full(size, w @ x / w.sum()),
        bounds=[(0, None)] * size,
        constraints={"type": "eq", "fun": lambda y: w @ (y - x)},
        method="SLSQP",
    )
    assert w @ (actual - x) ** 2 <= w @ (other.x - x) ** 2 * (1 + 1e-6) + 1e-6


def test_a_view_goes_by_days() -> None:
    """Half hours are lowered within their UTC day; a day whose total is negative is zero, and named."""
    midnight_ms = parse_time("2026-11-21T00:00:00Z")
    first = (midnight_ms - NOON_MS) // HALF_HOUR_MS
    home = collect([described(TERMS), *recorded(TERMS, [10, -4, 8, 3, -9, 2], first=first - 3)])["m1"]
    actual = nonnegative(home)
    assert actual.values.tolist() == pytest.approx([8, 0, 6, 0, 0, 0])
    assert actual.raised_ms.tolist() == [midnight_ms]
    assert actual.values[:3].sum() == pytest.approx(home.values[:3].sum())
    clean = nonnegative(home.between(midnight_ms - 3 * HALF_HOUR_MS, midnight_ms - 2 * HALF_HOUR_MS))
    assert (clean.values.tolist(), clean.raised_ms.tolist()) == ([10], [])
    assert not nonnegative(collect([described(TERMS), *recorded(TERMS, [0, 0])])["m1"]).raised_ms.size


def test_a_view_goes_by_windows_where_they_are_days_or_longer() -> None:
    """Local days of blocks keep each day's energy; a mean day keeps its month's, by the bands' hours."""
    home = received(schedule(CURVE, "length = '1d'\nblocks = 4"), JUNE_10, [[9, -1, 4, 0], [-5, 1, 1, 1]])
    actual = nonnegative(home)
    assert actual.values.reshape(2, 4).sum(axis=1).tolist() == pytest.approx([12, 0])
    assert actual.raised_ms.tolist() == [JUNE_10_MS + DAY_MS]
    month = received(schedule(PROFILE, BANDS), JUNE, [[100, -200, 400, 300]])
    view = nonnegative(month)
    assert view.values @ month.kwh_per_unit == pytest.approx(month.values @ month.kwh_per_unit)
    assert view.values.tolist() == pytest.approx([0, 0, 12 / 7, 5 / 7])  # 120 and 90 hours hold 0.27 kWh


def test_long_windows_on_the_epoch_keep_their_own_totals() -> None:
    """Windows of two days of a slot each keep the total of the two."""
    terms = terms_with(TERMS, length_ms=2 * DAY_MS, step_ms=DAY_MS)
    shared, start_ms = describe_terms(terms), NOON_MS - NOON_MS % (2 * DAY_MS)
    windows = enumerate([[-4, 10], [3, -7]])
    sent = [
        RecordFormat.of(shared).encode("m1", start_ms + 2 * k * DAY_MS, i, z)
        for k, window in windows
        for i, z in enumerate(window)
    ]
    actual = nonnegative(collect([described(terms), *sent])["m1"])
    assert actual.values.tolist() == pytest.approx([0, 6, 0, 0])
    assert actual.raised_ms.tolist() == [start_ms + 2 * DAY_MS]


def test_what_has_no_weight_has_no_view() -> None:
    """Each value needs a positive weight."""
    for weights in ([1], [1, 0], [1, -1], [[1, 1]]):
        with pytest.raises(ValueError, match="a positive weight"):
            spread_deficit([1, 2], weights)
    view = nonnegative(collect([described(TERMS), *recorded(TERMS, [1])])["m1"])
    with pytest.raises(ValueError, match="read-only"):
        view.values[0] = 0
