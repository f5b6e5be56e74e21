"""Totals and means over many meters: what they are, their intervals, and which are published."""

import math
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from meteragent.consume import Cells, Descriptor, Rules, Series, Slots, by_feeder, collect, mean_value
from meteragent.domain.shapes import Profile
from meteragent.domain.terms import Terms
from meteragent.domain.units import Kind
from meteragent.privacy import SeededBits
from meteragent.privacy.totals import Part, Weighted, half_width_of_total
from meteragent.wire.descriptor import describe_terms
from tests.support.messages import ENERGY, HALF_HOUR_MS, HOURLY, KILO, NOON_MS, SPLIT, described, recorded
from tests.support.stores import TERMS
from tests.support.terms import terms_with

TIME = pa.timestamp("ms", "UTC")
ALARM = 1e-6
"""A right program fails a statistical test with at most this chance."""
FINE = replace(TERMS, radius=Fraction(40), quantum_u=10_000)


def series(terms: Terms, quanta: Sequence[int], meter: str = "m1", first: int = 0) -> Series:
    """A meter's series."""
    return collect([described(terms, meter), *recorded(terms, quanta, meter, first)])[meter]


def terms_of(terms: Terms) -> Descriptor:
    """The descriptor of terms, as it is received."""
    return Descriptor.parse(described(terms))


def matrix(quanta: NDArray[np.int64], terms: Terms = TERMS) -> Slots:
    """Slots of meters m0, m1 .. (rows) at consecutive times (columns), of windows of n slots."""
    meters, count = quanta.shape
    start_ms = NOON_MS + terms.step_ms * np.tile(np.arange(count), meters)
    return Slots(
        tuple(f"m{number}" for number in range(meters)),
        (terms_of(terms),),
        np.repeat(np.arange(meters), count),
        np.zeros(quanta.size, np.int64),
        start_ms - (start_ms - NOON_MS) % terms.length_ms,
        start_ms,
        start_ms + terms.step_ms,
        quanta.ravel() * terms.quantum_u,
    )


def shuffled(slots: Slots, seed: int) -> Slots:
    """The same rows in another order."""
    order = np.random.default_rng(seed).permutation(slots.meter.size)
    columns = ("meter", "terms", "window_ms", "start_ms", "end_ms", "value_u")
    return replace(slots, **{name: getattr(slots, name)[order] for name in columns})


def released(homes: Sequence[Series]) -> tuple[pa.Table, list[Descriptor]]:
    """Return the same homes as releases of an archive, one row per window, and their descriptors."""
    terms = {item.id: item for home in homes for item in home.descriptors.values()}
    windows = [home.of_window(ms) for home in homes for ms in np.unique(home.window_ms).tolist()]
    values = [[record.value for record in window.records] for window in windows]
    whole = all(value.denominator == 1 for row in values for value in row)
    kind, exact = (pa.int64(), int) if whole else (pa.decimal128(18, 3), _decimal)
    start_ms = [int(window.window_ms[0]) for window in windows]
    ids = [window.records[0].descriptor for window in windows]
    end_ms = [start + terms[id_].length_ms for start, id_ in zip(start_ms, ids, strict=True)]
    columns = {
        "meter": [window.meter for window in windows],
        "start": pa.array(start_ms, TIME),
        "end": pa.array(end_ms, TIME),
        "values": pa.array([[exact(value) for value in row] for row in values], pa.list_(kind)),
        "d": ids,
    }
    return pa.table(columns), list(terms.values())


def long(homes: Sequence[Series]) -> pa.Table:
    """Return the same, one row per slot."""
    records = [record for home in homes for record in home.records]
    columns = {
        "meter": [record.meter for record in records],
        "start": pa.array([record.time_ms for record in records], TIME),
        "end": pa.array([record.time_ms + record.step_ms for record in records], TIME),
        "value": pa.array([_decimal(record.value) for record in records], pa.decimal128(18, 3)),
        "d": [record.descriptor for record in records],
    }
    return pa.table(columns)


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)


def same(one: Cells, other: Cells) -> bool:
    """Return whether two are equal to the last bit."""
    return one.unit == other.unit and all(
        column.tobytes() == other.columns()[name].tobytes() for name, column in one.columns().items()
    )


# --- numbers ------------------------------------------------------------------------------------------


quanta = st.lists(st.lists(st.integers(-9999, 9999), min_size=6, max_size=6), min_size=1, max_size=5)


@given(homes=quanta, terms=st.sampled_from([TERMS, SPLIT, HOURLY, KILO, ENERGY, FINE]))
@settings(max_examples=40)
def test_a_cell_is_the_mean_of_its_homes(homes: list[list[int]], terms: Terms) -> None:
    """Value, deviation and interval are those of `mean_value`; the total is the exact sum."""
    meters = [series(terms, values, f"m{number}") for number, values in enumerate(homes)]
    actual = by_feeder(Slots.of(meters), coverage=0.9)
    assert actual.shown.all()
    assert actual.start_ms.tolist() == meters[0].time_ms.tolist()
    for place, time_ms in enumerate(actual.start_ms.tolist()):
        item = mean_value(meters, time_ms, 0.9)
        numbers = (actual.mean[place], actual.sd[place], actual.low[place], actual.high[place])
        assert numbers == pytest.approx((item.value, item.sd, item.low, item.high), rel=1e-12, abs=1e-9)
        assert actual.total[place] == float(sum(home.records[place].value for home in meters))
        assert (actual.homes[place], actual.unit) == (len(meters), item.unit)


@given(homes=quanta, seed=st.integers(0, 99), terms=st.sampled_from([TERMS, SPLIT, KILO]))
@settings(max_examples=30)
def test_order_and_origin_mean_nothing(homes: list[list[int]], seed: int, terms: Terms) -> None:
    """Rows in any order, from records or Parquet, per window or per slot: the same bytes."""
    meters = [series(terms, values, f"m{number}") for number, values in enumerate(homes)]
    slots = Slots.of(meters)
    feeders = {series.meter: f"f{number % 2}" for number, series in enumerate(meters)}
    actual = by_feeder(slots, feeders)
    assert same(actual, by_feeder(shuffled(slots, seed), feeders))
    wide, terms_known = released(meters)
    for table in (wide, long(meters)):
        read = Slots.of_releases(table, terms_known)
        assert same(actual, by_feeder(read, feeders))
        assert sorted(read.window_ms.tolist()) == sorted(slots.window_ms.tolist())


def test_homes_under_several_terms_have_one_mean() -> None:
    """Each home counts with its own noise, and only where it has a record."""
    item, other, late = (
        series(TERMS, [100, 200], "a"),
        series(FINE, [1000, 2000], "b"),
        series(TERMS, [7], "c", 1),
    )
    actual = by_feeder(Slots.of([item, other, late]))
    assert actual.homes.tolist() == [2, 3]
    assert actual.mean.tolist() == pytest.approx([55, 227 / 3])
    counts = ((1, 1), (2, 1))
    for place, (coarse, fine) in enumerate(counts):
        homes = coarse + fine
        parts = [Part(TERMS.mechanism, 1, coarse, 1 / homes, "dithered")]
        parts += [Part(FINE.mechanism, 1, fine, 1 / homes, "dithered")]
        half = half_width_of_total(parts)
        assert actual.high[place] - actual.mean[place] == pytest.approx(half)
        assert actual.mean[place] - actual.low[place] == pytest.approx(half)
    for homes_in_order in ([item, other, late], [other, late, item]):
        table, known = released(homes_in_order)
        assert same(actual, by_feeder(Slots.of_releases(table, known)))


def test_slots_of_other_lengths_are_other_cells() -> None:
    """In order of their start, then their end."""
    short = terms_with(TERMS, length_ms=HALF_HOUR_MS // 3, step_ms=HALF_HOUR_MS // 3)
    actual = by_feeder(Slots.of([series(TERMS, [5, 6], "a"), series(short, [1, 2, 3], "b")]))
    minutes = [
        ((start - NOON_MS) // 60_000, (end - NOON_MS) // 60_000)
        for start, end in zip(actual.start_ms.tolist(), actual.end_ms.tolist(), strict=True)
    ]
    assert minutes == [(0, 10), (0, 30), (10, 20), (20, 30), (30, 60)]
    assert actual.total.tolist() == [1, 5, 2, 3, 6]


def test_feeders_are_told_apart() -> None:
    """Feeders are in the order of their names, each with its own homes; columns have equal lengths."""
    slots = matrix(np.array([[1, 2], [30, 40], [500, 600]]))
    actual = by_feeder(slots, {"m0": "west", "m1": "east", "m2": "west"})
    assert actual.feeder.tolist() == ["east", "east", "west", "west"]
    assert actual.total.tolist() == [30, 40, 501, 602]
    assert actual.mean.tolist() == [30, 40, 250.5, 301]
    columns = actual.columns()
    assert pa.table(columns).num_rows == 4
    assert columns["start"][0] == np.datetime64(NOON_MS, "ms")


def test_what_has_no_total_is_refused() -> None:
    """Unlike units or kinds, bands, a repeated meter, a meter without a feeder."""
    home = series(TERMS, [1, 2])
    for other in (series(KILO, [1, 2], "k"), series(ENERGY, [1, 2], "e")):
        with pytest.raises(ValueError, match="one kind and unit for all"):
            Slots.of([home, other])
    with pytest.raises(ValueError, match="at least one slot"):
        Slots.of([])
    with pytest.raises(ValueError, match="overlap"):
        Slots.of([home, home])
    slots = Slots.of([home])
    with pytest.raises(ValueError, match="overlap"):
        replace(slots, start_ms=slots.start_ms - np.array([0, 1]))
    with pytest.raises(ValueError, match=r"meters without a feeder: 1$"):
        by_feeder(slots, {"other": "f"})
    with pytest.raises(ValueError, match="between 0 and 1"):
        by_feeder(slots, coverage=1)
    with pytest.raises(ValueError, match="belong to one time"):
        replace(slots, descriptors=(replace(slots.descriptors[0], shape=Profile(HALF_HOUR_MS, (("a", 1),))),))


@pytest.mark.parametrize("rules", [Rules(), Rules(at_least=1, share=0.9)])
def test_one_large_value_stops_no_total(rules: Rules) -> None:
    """A sum beyond 64 bits is exact, and the totals of all other slots and feeders are as before."""
    homes = [series(TERMS, [100, 200], meter) for meter in ("a", "b", "c")]
    large_u = 2**63 - 1
    slots = Slots.of(homes)
    large = replace(slots, value_u=np.where(slots.meter == 0, large_u, slots.value_u))
    feeder_of = {"a": "large", "b": "large", "c": "small"}
    expected, actual = by_feeder(slots, feeder_of, rules), by_feeder(large, feeder_of, rules)
    assert actual.feeder.tolist() == expected.feeder.tolist() == ["large", "large", "small", "small"]
    if rules.share is None:
        assert actual.total.tolist() == [(large_u + n * 10**8) / 10**6 for n in (1, 2)] + [100, 200]
    assert all(
        column.dtype == other.dtype
        for column, other in zip(actual.columns().values(), expected.columns().values(), strict=True)
    )


def test_a_table_must_say_what_its_values_are() -> None:
    """Releases need values, and the descriptor of each."""
    home = series(TERMS, [1])
    row = {
        "meter": ["m"],
        "start": pa.array([NOON_MS], TIME),
        "end": pa.array([NOON_MS + HALF_HOUR_MS], TIME),
        "values": pa.array([[1]], pa.list_(pa.int64())),
        "d": [home.records[0].descriptor],
    }
    terms = [terms_of(TERMS)]
    assert by_feeder(Slots.of_releases(pa.table(row), terms)).total.tolist() == [1]
    with pytest.raises(ValueError, match="not among `descriptors`"):
        Slots.of_releases(pa.table(row), [])
    for values in (pa.array([[]], pa.list_(pa.int64())), pa.array([None], pa.list_(pa.int64()))):
        with pytest.raises(ValueError, match="has no values"):
            Slots.of_releases(pa.table(row | {"values": values}), terms)
    for values in (pa.array([[None]], pa.list_(pa.int64())), pa.array([[10**17]], pa.list_(pa.int64()))):
        with pytest.raises(ValueError, match="is missing, or exceeds"):
            Slots.of_releases(pa.table(row | {"values": values}), terms)


# --- intervals ----------------------------------------------------------------------------------------


def noisy(truth: NDArray[np.int64], terms: Terms, seed: int) -> NDArray[np.int64]:
    """What leaves of true quanta, meters by slots, in windows of n."""
    mechanism = terms.mechanism
    windows = truth.reshape(-1, terms.n)
    actual = mechanism.release(windows, bits=SeededBits(seed))
    return np.asarray(actual, np.int64).reshape(truth.shape)


@pytest.mark.statistical
@pytest.mark.parametrize("homes", [1, 12])
def test_intervals_hold_as_often_as_they_say(homes: int) -> None:
    """Of 20,000 means the stated part holds the truth; an interval 8% too narrow or wide is seen.

    A right program fails with a chance of 1e-6, one that is 8% off passes with one below 1e-4.
    """
    truth = np.random.default_rng(1).integers(0, 3000, (homes, 20_000))
    actual = by_feeder(matrix(noisy(truth, TERMS, homes)), coverage=0.8)
    off, half = np.abs(actual.mean - truth.mean(axis=0)), (actual.high - actual.low) / 2
    holds = [int((off <= half * scale).sum()) for scale in (1, 0.92, 1.08)]
    passes = [stats.binomtest(count, 20_000, 0.8).pvalue > ALARM for count in holds]
    assert passes == [True, False, False]


@pytest.mark.statistical
def test_means_are_right_on_average() -> None:
    """The mean error of 21,000 means is no more than 5 of its deviations; rounding has no bias."""
    truth = np.random.default_rng(2).integers(0, 3000, (4, 21_000))
    actual = by_feeder(matrix(noisy(truth, SPLIT, 3), SPLIT))
    error = actual.mean - truth.mean(axis=0)
    assert abs(error.mean()) <= 5 * actual.sd[0] * (SPLIT.n / error.size) ** 0.5
    assert error.std() == pytest.approx(actual.sd[0], rel=0.05)


# --- rules --------------------------------------------------------------------------------------------


def test_small_groups_are_withheld() -> None:
    """Cells of fewer homes have no number, and say how many homes they have."""
    whole = Slots.of([series(TERMS, [1, 2], "a"), series(TERMS, [3, 4], "b"), series(TERMS, [5], "c", 1)])
    actual = by_feeder(whole, rules=Rules(at_least=3))
    assert actual.shown.tolist() == [False, True]
    assert actual.homes.tolist() == [2, 3]
    for name in ("total", "mean", "sd", "low", "high"):
        numbers = getattr(actual, name)
        assert np.isnan(numbers[0])
        assert numbers[1] == getattr(by_feeder(whole), name)[1]


def test_dominance_by_public_facts_is_exact() -> None:
    """A cell is withheld if a home has more than its share of the cell's capacity, whatever was used."""
    whole = Slots.of([series(TERMS, [1, 2], "a"), series(TERMS, [3, 4], "b"), series(TERMS, [5], "c", 1)])
    equal = {"a": 10.0, "b": 10.0, "c": 10.0}
    assert by_feeder(whole, rules=Rules(share=0.5, capacity=equal)).shown.tolist() == [True, True]
    assert by_feeder(whole, rules=Rules(share=0.4, capacity=equal)).shown.tolist() == [False, True]
    large = equal | {"c": 21.0}
    assert by_feeder(whole, rules=Rules(share=0.5, capacity=large)).shown.tolist() == [True, False]
    for capacity in ({"a": 1.0, "b": 1.0}, equal | {"c": 0.0}, equal | {"c": float("nan")}):
        with pytest.raises(ValueError, match=r"meters without a positive capacity: 1$"):
            by_feeder(whole, rules=Rules(share=0.5, capacity=capacity))


@pytest.mark.parametrize(
    "rule",
    [
        {"at_least": 0},
        {"share": 0.0},
        {"share": 1.0},
        {"error": 0.0},
        {"error": 0.5},
        {"capacity": {"a": 1.0}},
    ],
)
def test_what_is_no_rule_is_refused(rule: dict[str, object]) -> None:
    """Empty groups, shares of 0 or 1, chances of 0 or one half, capacities without a share."""
    with pytest.raises(ValueError, match=r"at_least|share"):
        Rules(**rule)  # type: ignore[arg-type]


def test_a_group_too_small_for_its_share_is_withheld_unseen() -> None:
    """Of six homes, one has at least a sixth: 15% cannot hold, not even with negative noise."""
    slots = matrix(np.full((6, 48), -10_000))
    assert not by_feeder(slots, rules=Rules(share=0.15)).shown.any()


def days(shares: Sequence[float], seed: int, feeders: int, terms: Terms) -> tuple[Slots, dict[str, str]]:
    """A day of many feeders alike, whose homes have these parts of its total."""
    homes, slots = len(shares), 48 * HALF_HOUR_MS // terms.step_ms
    truth = np.tile(np.round(330 * homes * np.array(shares)).astype(np.int64), feeders)
    actual = noisy(np.repeat(truth[:, np.newaxis], slots, axis=1), terms, seed)
    return matrix(actual, terms), {f"m{k}": f"f{k // homes:04d}" for k in range(homes * feeders)}


@pytest.mark.parametrize("terms", [TERMS, HOURLY])
def test_a_feeder_is_told_where_its_bound_says(terms: Terms) -> None:
    """Just if D_i + h_i <= 0, where h_i is that of the whole sum: own slots with 1 - s, all others with s."""
    share, homes, step_h = 0.3, 8, terms.step_ms / HALF_HOUR_MS / 2
    slots = 24 * terms.n
    parts = [
        Weighted(terms.mechanism, (step_h / 1000 * weight,) * terms.n, count, "dithered")
        for weight, count in ((1 - share, 24), (share, 24 * (homes - 1)))
    ]
    half = half_width_of_total(parts, 0.8)
    kwh = slots * step_h / 1000  # of a watt
    even_w = 1000
    edge_w = (share * (homes - 1) * even_w * kwh - half) / ((1 - share) * kwh)
    for watts, told in ((math.floor(edge_w) - 1, True), (math.ceil(edge_w) + 1, False)):
        quanta = np.full((homes, slots), even_w)
        quanta[3] = watts
        actual = by_feeder(matrix(quanta, terms), rules=Rules(share=share, error=0.1))
        assert set(actual.shown.tolist()) == {told}


@pytest.mark.statistical
@pytest.mark.parametrize("terms", [TERMS, HOURLY])
def test_a_feeder_that_is_dominated_is_told_as_seldom_as_is_said(terms: Terms) -> None:
    """Of 1,000 feeders in which a home has just more than its share the stated part is told, and no more.

    A right program fails with a chance of 2e-6; one whose h is a quarter too small or large is seen.
    """
    feeders = 1000
    rest = (1 - 0.2001) / 19
    slots, feeder_of = days([0.2001] + [rest] * 19, 5, feeders, terms)
    rules = [Rules(share=0.2, error=error) for error in (0.2, 0.26, 0.15)]
    told = [by_feeder(slots, feeder_of, item).shown.reshape(feeders, -1) for item in rules]
    assert all((item == item[:, :1]).all() for item in told)
    counts = [int(item[:, 0].sum()) for item in told]
    passes = [stats.binomtest(count, feeders, 0.2).pvalue > ALARM for count in counts]
    assert passes[0]
    assert stats.binomtest(counts[1], feeders, 0.2, alternative="greater").pvalue < 1e-3
    assert stats.binomtest(counts[2], feeders, 0.2, alternative="less").pvalue < 1e-2


@pytest.mark.statistical
def test_an_even_feeder_is_told() -> None:
    """Twenty homes that use the same for a day are told at 15%, all of 50 feeders; for one slot none is."""
    slots, feeder_of = days([1 / 20] * 20, 6, 50, TERMS)
    rules = Rules(at_least=15, share=0.15)
    assert by_feeder(slots, feeder_of, rules).shown.all()
    first = replace(
        slots,
        **{
            name: getattr(slots, name)[slots.start_ms == NOON_MS]
            for name in ("meter", "terms", "window_ms", "start_ms", "end_ms", "value_u")
        },
    )
    assert not by_feeder(first, feeder_of, rules).shown.any()


def test_energies_are_of_the_kind_that_they_are() -> None:
    """Dominance is about energy: watts count with their time, watt-hours as they are."""
    assert describe_terms(ENERGY).terms.readings.kind is Kind.INTERVAL_ENERGY
    for terms, quantum in ((TERMS, 330), (ENERGY, 165)):
        even = matrix(np.full((20, 480), quantum), terms)
        assert by_feeder(even, rules=Rules(share=0.15)).shown.all()
        uneven = np.full((20, 480), quantum)
        uneven[3] *= 5
        assert not by_feeder(matrix(uneven, terms), rules=Rules(share=0.15)).shown.any()
