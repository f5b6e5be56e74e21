"""Amounts: exact sums of energy times price, one noise for each window, and no more than the bound moves."""

import json
import math
from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent import config, consume
from meteragent.core.charges import Spending
from meteragent.core.factory import make_timeline
from meteragent.core.noise import Noise
from meteragent.core.pipeline import Pipeline
from meteragent.core.timeline import Timeline
from meteragent.core.window import RegisterUse, Window
from meteragent.domain.codec import encode
from meteragent.domain.commit import Snapshot
from meteragent.domain.counters import Counts
from meteragent.domain.grid import day_ms, parse_time
from meteragent.domain.metric import Metric
from meteragent.domain.prices import PRICE_MS, cut_at_prices, join_equal_prices
from meteragent.domain.schedule import Schedule
from meteragent.domain.shapes import Amount, Means, PriceSource, Space
from meteragent.domain.terms import Terms
from meteragent.domain.units import DAY_MS, HOUR_MS, MICRO
from meteragent.privacy import SeededBits
from meteragent.report import guarantee
from meteragent.store.schema import decode_terms
from meteragent.wire.descriptor import describe_terms
from tests.support.terms import terms_with
from tests.support.weighted import QUIET, price_of, schedule, text_of_prices
from tests.support.windows import restored_timeline, window_of
from tests.support.world import BASE_MS, message, stream

REGISTER = "kind = 'register'\nunit = 'kWh'\nevery = '10s'"
MONTH_MS = parse_time("2026-11-30T23:00:00Z")
"""Midnight of December 1 in Amsterdam."""


def released(known: Schedule, readings: Iterable[tuple[int, object]]) -> list[dict[str, object]]:
    """The records and descriptors that leave for readings (time in ms, value)."""
    pipeline = Pipeline(stream(known), Snapshot({}, {}, {}), Spending(), SeededBits(1), Counts())
    records = []
    for time_ms, value in readings:
        effects = pipeline.feed([message(time_ms - BASE_MS, value)], BASE_MS, BASE_MS)
        records += [json.loads(row.payload, parse_float=Decimal) for row in effects.commit.outgoing]
        records += [json.loads(row.payload) for row in effects.commit.descriptors]
    return records


def watts(time_ms: int) -> int:
    """A load that differs by hour and day."""
    hour = time_ms // HOUR_MS
    return 100 + 7 * (hour % 24) + hour // 24 % 5 * 100


@pytest.mark.parametrize("kind", ["power", "register", "interval_energy"])
@pytest.mark.parametrize("month", [12, 3, 10])
def test_the_amount_is_that_of_all_hours_whatever_the_device_states(kind: str, month: int) -> None:
    """Of a month with a holiday, or a change of clocks: the sum over its hours of energy times price."""
    sources = {
        "power": "hold = '400d'",
        "register": "kind = 'register'\nunit = 'Wh'",
        "interval_energy": "kind = 'interval_energy'\nunit = 'Wh'\ninterval = '1h'",
    }
    month_ms = parse_time(f"2026-{month:02}-01T00:00:00Z")
    register, readings = 5_000_000, []
    for time_ms in range(month_ms - DAY_MS, month_ms + 33 * DAY_MS, HOUR_MS):
        used = watts(time_ms)
        if kind == "power":
            readings.append((time_ms, used))
        else:
            readings.append((time_ms + HOUR_MS, used if kind == "interval_energy" else register + used))
        register += used
    quiet = f"hide = '110Wh'\nquantum = 0.000001\n{QUIET}"
    first, *_ = (row for row in released(schedule(sources[kind], quiet), readings) if "value" in row)
    start_ms = parse_time(str(first["t"]))
    end_ms = start_ms + int(str(first["for"])[2:-1]) * HOUR_MS
    hours = range(start_ms, end_ms, HOUR_MS)
    expected = sum((watts(at_ms) * price_of(at_ms) for at_ms in hours), Decimal(0)) / 1000
    assert isinstance(first["value"], Decimal)
    assert abs(first["value"] - expected) <= Decimal("0.000001")
    assert first["unit"] == "EUR"
    assert "band" not in first


def test_a_window_charges_level_times_its_hours_over_hide() -> None:
    """As if all its hours were one slot; the noise follows from the bound, not from the prices."""
    for length, days in (("1d", 1), ("1w", 7), ("1mo", 31)):
        known = schedule(privacy="hide = '110Wh'\nlevel = 0.5", length=length)
        terms = known.terms_at(known.first_start_ms(MONTH_MS))
        assert terms.length_ms == days * DAY_MS
        assert terms.epsilon_per_w == Fraction(1, 2) * days * 24 / 110
        assert (terms.n, terms.mechanism.n) == (1, 1)
        assert terms.hides_wh == 110
        assert terms.radius == Fraction(45, 100) * Fraction(110, 1000)


def test_the_descriptor_states_the_prices_and_never_linf() -> None:
    """It states l1, that the energy is hidden in all, the unit, and the bound."""
    terms = schedule().terms_at(MONTH_MS)
    facts = describe_terms(terms).facts
    assert (facts["metric"], facts["in_all"], facts["space"], facts["n"]) == ("l1", True, "weighted", 1)
    assert (facts["unit"], facts["epsilon_unit"], facts["hides_wh"]) == ("EUR", "1/EUR", "110")
    assert facts["weights"] == {"bound": "9/20", "default": "1/5", "unit": "EUR", "source": "table"}
    assert "linf" not in json.dumps({name: fact for name, fact in facts.items() if name != "mechanism"})


def amount(terms: Terms) -> Amount:
    """Return the shape of terms that release amounts."""
    assert isinstance(terms.shape, Amount)
    return terms.shape


def opened(terms: Terms, noise: int = 0, start_ms: int = MONTH_MS, until_ms: int = 0) -> Window:
    """An open window with this noise and no dither."""
    window = window_of(terms)(start_ms, terms, terms.id, (), "m1")
    window.open_slot(noise, until_ms, 0)
    return window


LOADS = st.lists(st.integers(-(10**10), 10**11), min_size=1, max_size=40)
"""Powers or uses, within the range and beyond it."""


@given(first=LOADS, second=LOADS, kind=st.sampled_from(["power", "register", "interval_energy"]))
def test_no_change_moves_more_than_the_bound_times_its_energy(
    first: list[int], second: list[int], kind: str
) -> None:
    """Whatever the prices: loads that differ by X in all have amounts that differ by at most bound * X."""
    sources = {
        "power": "",
        "register": REGISTER,
        "interval_energy": "kind = 'interval_energy'\nunit = 'Wh'\ninterval = '1h'",
    }
    terms = schedule(sources[kind]).terms_at(MONTH_MS)
    count = max(len(first), len(second))
    loads = [row + [0] * (count - len(row)) for row in (first, second)]
    step_ms = terms.length_ms // count
    sums, values = [], []
    for load in loads:
        window = opened(terms)
        clamped = []
        for number, value in enumerate(load):
            since_ms = MONTH_MS + number * step_ms
            use = RegisterUse(since_ms, step_ms, value * step_ms) if kind == "register" else value
            window.add_value(since_ms, since_ms + step_ms, use)
            clamped.append(min(max(value, terms.readings.low_u), terms.readings.high_u) * step_ms)
        sums.append(window.slots[0])
        values.append(clamped)
    moved = sum(abs(a - b) for a, b in zip(*values, strict=True))
    rounding = 2 * terms.prices_max + 2 * count  # each part of a register's span is rounded down
    slack = rounding * amount(terms).bound_u if kind == "register" else 0
    assert abs(sums[0] - sums[1]) <= amount(terms).bound_u * moved + slack
    # What the promise is about: the same in quanta, radius and Wh.
    per_wh = (
        Fraction(terms.steps_per_quantum[0]) / terms.quantum / MICRO * MICRO * terms.radius / terms.hides_wh
    )
    wh = Fraction(1, {"W": 1, "Wh": 1, "kWh": 1000}[terms.readings.unit])
    assert per_wh == wh * MICRO * (terms.readings.interval_ms or HOUR_MS) * amount(terms).bound_u


@given(
    cuts=st.lists(st.integers(0, 31 * DAY_MS), max_size=20),
    seed=st.integers(0, 2**32),
    value=st.none() | st.integers(0, 10**10),
)
def test_what_is_kept_is_noise_and_amount_however_time_is_cut(
    cuts: list[int], seed: int, value: int | None
) -> None:
    """A value over the month, in any parts, adds the same to what the noise began with."""
    terms, noise = schedule().terms_at(MONTH_MS), Noise(SeededBits(seed))
    window = window_of(terms)(MONTH_MS, terms, terms.id, (), "m1")
    window.open_first_slot(noise, MONTH_MS)
    before = window.slots[0]
    edges = sorted({0, terms.length_ms, *cuts})
    for from_ms, to_ms in pairwise(edges):
        window.add_value(MONTH_MS + from_ms, MONTH_MS + to_ms, value)
    hours = range(MONTH_MS, MONTH_MS + terms.length_ms, HOUR_MS)
    expected = sum(int(price_of(at_ms) * MICRO) * HOUR_MS for at_ms in hours) * (value or 0)
    assert window.slots[0] - before == expected
    assert (window.noise_bound, window.draws) == (None, 1)
    assert window.has_gap(0) == (value is None)


def test_gap_has_the_price_of_its_time() -> None:
    """A window that opens late, and one that is sealed, count the gap value at each time's price."""
    known = config.schedule(config.parse(text_of_prices(window="gap = 50")).stream[0])
    terms, middle_ms = known.terms_at(MONTH_MS), MONTH_MS + 9 * DAY_MS + 1234
    late, sealed, whole = opened(terms, until_ms=middle_ms), opened(terms), opened(terms)
    late.add_value(middle_ms, late.end_ms, None)
    sealed.add_value(MONTH_MS, middle_ms, None)
    sealed.seal_slots(middle_ms)
    whole.add_value(MONTH_MS - DAY_MS, whole.end_ms + DAY_MS, None)
    assert late.slots == sealed.slots == whole.slots
    assert whole.slots[0] > 0
    sealed.close_slot(0)
    sealed.seal_slots(middle_ms)
    whole.add_value(whole.end_ms, whole.end_ms + 1, None)
    assert not sealed.slots


@pytest.mark.parametrize("source", ["hold = '400d'", REGISTER])
def test_a_restart_changes_no_amount(source: str) -> None:
    """What the store keeps restores the same window; a register's accumulator is kept as it is."""
    known = schedule(source)
    terms = known.terms_at(MONTH_MS)
    timeline = make_timeline(known.usual, MONTH_MS)
    window = opened(terms, noise=5)
    timeline.windows.append(window)
    window.add_value(MONTH_MS, MONTH_MS + DAY_MS, 10**9)
    timeline.integrated_until_ms = MONTH_MS + DAY_MS
    state = timeline.stored_state()
    [kept] = state.windows
    assert kept.masked_slot is None
    restored: Timeline = restored_timeline(known.usual, MONTH_MS, state, {terms.id: terms})
    [again] = restored.windows
    assert isinstance(again, Window)
    assert again.slots == window.slots
    assert window.stored_state((MONTH_MS + DAY_MS, 10**12)).masked_slot is None


def test_a_window_is_charged_and_drawn_in_one_commit() -> None:
    """The amount has its noise when the window opens, in the commit that charges it."""
    pipeline = Pipeline(stream(schedule()), Snapshot({}, {}, {}), Spending(), SeededBits(1), Counts())
    pipeline.feed([message(MONTH_MS - HOUR_MS - BASE_MS, 1000)], BASE_MS, BASE_MS)
    effects = pipeline.feed([message(MONTH_MS - BASE_MS, 1000)], BASE_MS, BASE_MS)
    [state] = effects.commit.states.values()
    assert state is not None
    [window] = state.windows
    assert (window.draws, len(window.slots), window.noise_bound) == (1, 1, None)
    [(charge, meters)] = effects.commit.charges.items()
    assert (charge.day_ms, charge.epsilon_per_w) == (day_ms(MONTH_MS), Fraction(744, 110))
    assert meters == {"m1": 1}


def test_terms_of_amounts_survive_the_store() -> None:
    """Prices are stored with the terms; other terms have none."""
    terms = schedule().terms_at(MONTH_MS)
    assert decode_terms(encode(terms)) == terms
    assert terms.id != terms_with(terms, shape=replace(amount(terms), default_u=1)).id
    assert (terms.metric, terms.shape.space) == (Metric.L1, Space.WEIGHTED)
    plain = terms_with(terms, shape=Means(MONTH_MS, MONTH_MS), prices=(), metric=Metric.LINF)
    assert decode_terms(encode(plain)) == plain


def test_a_receiver_has_the_amount_with_its_interval() -> None:
    """An estimate in EUR, from the records and descriptors alone; an energy does not follow from it."""
    readings = [(MONTH_MS + hour * HOUR_MS, 1000) for hour in range(-2, 33 * 24)]
    home = consume.collect(map(json.dumps, jsonable(released(schedule(), readings))))["m1"]
    estimate = consume.weighted_total(home, MONTH_MS, 0.999)
    terms = schedule().terms_at(MONTH_MS)
    truth = float(sum(price_of(MONTH_MS + hour * HOUR_MS) for hour in range(744)))
    assert (estimate.unit, estimate.coverage) == ("EUR", 0.999)
    assert math.isclose(estimate.sd, terms.sd, rel_tol=1e-6)
    assert estimate.low < truth < estimate.high
    assert abs(estimate.value - truth) < 10 * terms.sd
    with pytest.raises(ValueError, match=r"'weighted' are neither energies .*use weighted_total"):
        home.energy(MONTH_MS, MONTH_MS + terms.length_ms)
    with pytest.raises(ValueError, match="have a curve"):
        consume.curve(home, MONTH_MS)


def jsonable(rows: Iterable[dict[str, object]]) -> list[dict[str, object]]:
    """Rows with floats for decimals."""
    return [{key: float(v) if isinstance(v, Decimal) else v for key, v in row.items()} for row in rows]


@pytest.mark.parametrize(("bound", "cents"), [("0.3", 4.67), ("0.34", 5.29), ("0.45", 7.0)])
def test_the_error_of_a_month_is_a_few_cents(bound: str, cents: float) -> None:
    """The examples of theory B.1, hiding 110 Wh in all: ± 0.05 to 0.07 EUR, before the run."""
    table = f"[window.weights]\nbound = {bound}\n[[window.weights.price]]\nhours = ['07-23']\nprice = 0.3\n"
    [source] = config.parse(text_of_prices(prices=table)).stream
    errors = guarantee.compute_guarantee(source).errors
    assert errors["month_total"].unit == "EUR"
    assert math.isclose(100 * errors["month_total"].value, cents, rel_tol=0.005)
    assert errors["month_total"].is_useful
    assert "month_kwh" not in errors


def test_errors_are_those_promised() -> None:
    """Of 4,000 windows: the mean square of the error, within 4 of its standard errors of the promise.

    A scale that is 10% off is 21% off in the square: 5.9 standard errors, and is accepted once in 35. False
    alarms are once in 15,000 (kurtosis 6 of Laplace noise).
    """
    terms, noise, count = schedule().terms_at(MONTH_MS), Noise(SeededBits(5)), 4000
    squares = []
    truth = Fraction(123_456_789, 10**7)
    for _ in range(count):
        window = window_of(terms)(MONTH_MS, terms, terms.id, (), "m1")
        window.open_first_slot(noise, MONTH_MS)
        window.slots[0] += int(truth / terms.quantum * terms.steps_per_quantum[0])
        squares.append(float(window.close_slot(0) * terms.quantum - truth) ** 2)
    mean = sum(squares) / count
    assert abs(mean / terms.sd**2 - 1) < 4 * math.sqrt(5 / count)


prices_of = st.lists(st.tuples(st.integers(0, 50), st.integers(1, 20), st.integers(-9, 9)), max_size=8)


@given(rows=prices_of, from_ms=st.integers(0, 100), length_ms=st.integers(0, 100))
def test_pieces_cover_a_stretch_once(rows: list[tuple[int, int, int]], from_ms: int, length_ms: int) -> None:
    """Each ms has the price of the row that holds it, or the default; joined rows are the same prices."""
    prices, at_ms = [], 0
    for gap_ms, duration_ms, price in rows:
        prices.append((at_ms + gap_ms, at_ms + gap_ms + duration_ms, price))
        at_ms += gap_ms + duration_ms
    by_ms = {ms: price for start, end, price in prices for ms in range(start, end)}
    for table in (prices, join_equal_prices(prices)):
        cut = list(cut_at_prices(table, 77, from_ms, from_ms + length_ms))
        shown = [(ms, price) for start, end, price in cut for ms in range(start, end)]
        assert shown == [(ms, by_ms.get(ms, 77)) for ms in range(from_ms, from_ms + length_ms)]


def test_prices_of_a_topic_count_as_one_for_each_quarter_hour() -> None:
    """For a register each price begins a new count, and how many there will be is not known beforehand."""
    terms = schedule(REGISTER).terms_at(MONTH_MS)
    by_hour = [price_of(MONTH_MS + hour * HOUR_MS) for hour in range(744)]
    assert terms.prices_max == 1 + sum(before != after for before, after in pairwise(by_hour))
    topic = terms_with(terms, shape=replace(amount(terms), source=PriceSource.TOPIC), prices=())
    assert topic.prices_max == terms.length_ms // PRICE_MS
