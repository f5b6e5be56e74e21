"""Windows in a row, sums, and what readings become before noise (meteragent.privacy.stream).

Numbers are THEORY's oracles, section `sliding`, and its table 3.3.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent.privacy.mechanism import LInfLaplace
from meteragent.privacy.stream import (
    Accumulator,
    SlidingPlan,
    TotalVariance,
    energy_loss,
    hold_means,
    overdraw_loss,
    reported_radius,
    typical_day,
)

EPSILONS = st.fractions(Fraction(1, 1000), 10, max_denominator=1000)
VALUES = st.integers(-1000, 1000).map(lambda tenths: Fraction(tenths, 10))
SIZES = st.integers(0, 500).map(lambda tenths: Fraction(tenths, 10))


# One window, slot by slot ------------------------------------------------------------------------


def prefix_masses(n: int, a: float, seen: int, reach: int) -> list[float]:
    """P(z_1 .. z_seen) by max|z_i|, times a constant: the sum over R of P(R)/(2R+1)^seen (THEORY 2.1)."""
    r = np.arange(reach + math.ceil(60 / a))
    terms = (2 * r + 1.0) ** (n - seen) * np.exp(-a * r)
    return [float(terms[largest:].sum()) for largest in range(reach + 1)]


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("step", [1, 2])
def test_an_adaptive_adversary_gains_nothing(n: int, step: int) -> None:
    """200 random pairs of worlds for each n whose readings react to what left: a Delta at most, and attained.

    The adversary chooses both candidates of a slot from what it has seen, at most `step` quanta apart. All
    that can be seen on a box is enumerated, also by who stops before the end.
    """
    a, reach = 0.7, 4
    mechanism = LInfLaplace(Fraction(7, 10), Fraction(1), n)
    masses = {seen: np.log(prefix_masses(n, a, seen, reach + 8)) for seen in range(1, n + 1)}
    draw = np.random.default_rng(31 + n + step)
    box = np.array(list(itertools.product(range(-reach, reach + 1), repeat=n)))
    worst = 0.0
    for _ in range(100):
        noise = [np.empty_like(box), np.empty_like(box)]
        for slot in range(n):
            _, history = np.unique(box[:, :slot], axis=0, return_inverse=True)
            count = int(history.max()) + 1
            reading = draw.integers(-2, 3, count)
            other = reading + draw.integers(-step, step + 1, count)
            noise[0][:, slot] = box[:, slot] - reading[history.ravel()]
            noise[1][:, slot] = box[:, slot] - other[history.ravel()]
        for seen in range(1, n + 1):
            largest = [np.abs(z[:, :seen]).max(axis=1) for z in noise]
            ratio = np.abs(masses[seen][largest[0]] - masses[seen][largest[1]]).max()
            worst = max(worst, float(ratio))
            assert ratio <= mechanism.loss(Fraction(step)) + Fraction(1, 10**9)
    assert worst == pytest.approx(a * step, rel=1e-9)


@pytest.mark.parametrize(
    ("a", "extra", "times"), [("0.1", 1, 7.2505), ("0.1", 30, 330.584), ("0.1", 0, 1), ("3", 1, 1.3617)]
)
def test_a_surplus_slot_costs_many_times_epsilon(a: str, extra: int, times: float) -> None:
    """A 31st slot from the R of a window of 30 costs 7.3 times epsilon, 60 of them 330 times (THEORY 2.1)."""
    assert overdraw_loss(a, extra) / float(a) == pytest.approx(times, rel=1e-4)


@given(a=st.fractions(Fraction(1, 50), 3, max_denominator=50), extra=st.integers(1, 20), n=st.integers(1, 4))
def test_the_cost_of_a_surplus_is_the_enumerated_one(a: Fraction, extra: int, n: int) -> None:
    """It is the largest step of the law of n + extra slots, whatever n is, and more than a."""
    for drawn in (n, n + extra):
        masses = prefix_masses(n, float(a), drawn, 6)
        worst = max(math.log(one / next_) for one, next_ in itertools.pairwise(masses))
        assert overdraw_loss(a, drawn - n) == pytest.approx(worst, rel=1e-9)
    assert overdraw_loss(a, extra) > a


def test_a_surplus_is_not_negative() -> None:
    """A window that ends early has no surplus; a float step is refused."""
    with pytest.raises(ValueError, match="beyond the window's end"):
        overdraw_loss(1, -1)
    with pytest.raises(TypeError, match="a must be exact"):
        overdraw_loss(0.5, 1)  # type: ignore[arg-type]
    assert math.isfinite(overdraw_loss(Fraction(1, 10**9), 1))
    assert overdraw_loss(1000, 500) == pytest.approx(1000 + 500 * math.log(3))


# Windows in a row --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("span", "block", "touched", "error"),
    [
        (6, 1, 6, "6"),
        (24, 4, 7, "17.5"),
        (30, 5, 7, "21"),
        (48, 6, 9, "31.5"),
        (96, 8, 13, "58.5"),
        (144, 11, 14, "84"),
        (360, 18, 21, "199.5"),
        (1440, 36, 41, "758.5"),
    ],
)
def test_the_best_plans(span: int, block: int, touched: int, error: str) -> None:
    """THEORY's table of sliding guarantees, whose error is about half of independent noise's `span`."""
    plan = SlidingPlan.best(span, 1)
    assert (plan.block, plan.touched(span), plan.mean_error) == (block, touched, Fraction(error))
    assert plan.mean_error >= (math.sqrt(span) + 1) ** 2 / 2 - 1
    assert SlidingPlan.best(span, "0.1").mean_error == 10 * plan.mean_error


@pytest.mark.parametrize(("span", "block"), [(24, 6), (48, 8), (96, 12), (144, 13), (360, 20), (1440, 40)])
def test_blocks_of_about_the_root_are_as_good(span: int, block: int) -> None:
    """The blocks that THEORY 3.2 names have the least error too."""
    assert SlidingPlan(span, 1, block).mean_error == SlidingPlan.best(span, 1).mean_error


@given(span=st.integers(1, 60), block=st.integers(1, 60), epsilon=EPSILONS, length=st.integers(1, 90))
def test_an_event_costs_what_the_blocks_it_touches_cost(
    span: int, block: int, epsilon: Fraction, length: int
) -> None:
    """Wherever an event lies its blocks sum to event_epsilon at most, and somewhere they do."""
    plan = SlidingPlan(span, epsilon, block)
    touched = {len({slot // block for slot in range(at, at + length)}) for at in range(block)}
    assert max(touched) == plan.touched(length)
    assert plan.event_epsilon(length) == plan.block_epsilon * max(touched)
    assert plan.event_epsilon(span) == epsilon
    assert plan.event_epsilon(length) <= plan.event_epsilon(length + 1)


@given(span=st.integers(1, 40), block=st.integers(1, 60), epsilon=EPSILONS)
def test_the_best_plan_is_the_best(span: int, block: int, epsilon: Fraction) -> None:
    """No block has a smaller error, longer than the span included, and none of the same error is shorter."""
    best, other = SlidingPlan.best(span, epsilon), SlidingPlan(span, epsilon, block)
    assert best.mean_error <= other.mean_error
    assert best.block <= block or best.mean_error < other.mean_error


def test_a_plan_has_slots() -> None:
    """No span, no block, no event and a float epsilon are refused."""
    for span, block in ((0, 1), (1, 0)):
        with pytest.raises(ValueError, match="at least one slot"):
            SlidingPlan(span, 1, block)
    with pytest.raises(ValueError, match="at least one slot"):
        SlidingPlan.best(0, 1)
    with pytest.raises(ValueError, match="at least one slot"):
        SlidingPlan(3, 1, 1).touched(0)
    with pytest.raises(TypeError, match="epsilon must be exact"):
        SlidingPlan(3, 0.1, 1)  # type: ignore[arg-type]


# Sums --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "summed", "independent", "query", "gaussian"),
    [(30, 100, 232, 42, 127), (96, 552, 1330, 136, 406), (1440, 31582, 77279, 2036, 6084)],
)
def test_the_table_of_sums(n: int, summed: int, independent: int, query: int, gaussian: int) -> None:
    """THEORY 3.3: the total is best as its own query; Gaussian noise (mu = .2367) on slots lies between."""
    deviations = [math.sqrt(variance) for variance in TotalVariance.of(n, 1)]
    assert deviations == pytest.approx([summed, independent, query], abs=0.5)
    assert n / 0.2367043807 == pytest.approx(gaussian, abs=0.5)
    assert list(TotalVariance.of(n, "0.5")) == [4 * variance for variance in TotalVariance.of(n, 1)]


def test_a_sum_has_slots() -> None:
    """A window of no slots is refused; of one, all three are the Laplace law's 2/epsilon^2."""
    assert set(TotalVariance.of(1, "1/3")) == {18}
    with pytest.raises(ValueError, match="at least one slot"):
        TotalVariance.of(0, 1)


# A sum that is never stored in the clear ----------------------------------------------------------


@given(
    noise=st.integers(-(10**9), 10**9),
    lattice=st.integers(1, 10**6),
    energies=st.lists(st.integers(-(10**9), 10**9), max_size=8),
)
def test_what_leaves_is_the_mechanism_of_the_rounded_mean(
    noise: int, lattice: int, energies: list[int]
) -> None:
    """floor(A/(q T) + 1/2) = z + floor(S/(q T) + 1/2), exactly, also for negative sums and at halves."""
    slot = Accumulator.born(noise, lattice)
    for energy in energies:
        slot = slot.add(energy)
    total = sum(energies)
    assert slot.stored == noise * lattice + total
    assert slot.release == noise + math.floor(Fraction(total, lattice) + Fraction(1, 2))


@given(noise=st.integers(-(10**6), 10**6), other=st.integers(-(10**6), 10**6), total=st.integers(0, 10**6))
def test_the_store_tells_the_sum_below_a_quantum_and_no_more(noise: int, other: int, total: int) -> None:
    """A mod q T is S mod q T under any noise; what is left, z + floor(S/(q T)), is the noise's to hide."""
    slot, again = Accumulator.born(noise, 1000).add(total), Accumulator.born(other, 1000).add(total)
    assert slot.residue == again.residue == total % 1000
    assert (slot.stored - slot.residue) // 1000 == noise + total // 1000
    one_less = Accumulator.born(noise - 1, 1000).add(total + 1000)  # another S, as likely but for e^a
    assert one_less == slot


def test_half_a_quantum_is_rounded_up() -> None:
    """Half a quantum is 1, one and a half 2, minus a half 0: never half-even, which makes of 1 quantum 2."""
    sums = [-500, 500, 1500, 2500]
    assert [Accumulator.born(0, 1000).add(s).release for s in sums] == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="positive"):
        Accumulator(0, 5)


# Before the noise ---------------------------------------------------------------------------------


def test_the_energy_hidden_costs_the_level() -> None:
    """110 Wh within half an hour at level 1 and 220 W cost 1, 55 Wh half of it, none nothing."""
    epsilon = Fraction(1, 220)
    assert [energy_loss(epsilon, wh, "0.5") for wh in (110, 55, 0)] == [1, Fraction(1, 2), 0]
    with pytest.raises(ValueError, match="not be negative"):
        energy_loss(1, -1, 1)
    with pytest.raises(ValueError, match="slot must be positive"):
        energy_loss(1, 1, 0)


@given(
    values=st.lists(VALUES, min_size=6, max_size=6),
    moves=st.lists(SIZES, min_size=6, max_size=6),
    signs=st.lists(st.sampled_from([-1, 1]), min_size=6, max_size=6),
)
def test_energy_moved_in_a_slot_bounds_the_distance(
    values: list[Fraction], moves: list[Fraction], signs: list[int]
) -> None:
    """Two slots of three readings: d_inf times epsilon is at most energy_loss of the most moved in a slot."""
    moved = [value + sign * move for value, sign, move in zip(values, signs, moves, strict=True)]
    means = [hold_means(range(6), curve, [0, 3, 6]) for curve in (values, moved)]
    energy = max(sum(moves[:3]), sum(moves[3:]))
    distance = max(abs(a - b) for a, b in zip(*means, strict=True))
    assert Fraction(1, 7) * distance <= energy_loss("1/7", energy, 3)


DAY_BANDS = {hours: [hour * 4 // 24 for hour in range(24)] for hours in (24,)}
DAY_BANDS[23] = DAY_BANDS[24][:2] + DAY_BANDS[24][3:]
DAY_BANDS[25] = [*DAY_BANDS[24][:3], *DAY_BANDS[24][2:]]
DAYS = st.lists(st.sampled_from([23, 24, 25]), min_size=1, max_size=5)


@given(hours=DAYS, day=st.integers(0, 4), seed=st.integers(0, 2**32 - 1))
def test_a_typical_day_does_not_stretch(hours: list[int], day: int, seed: int) -> None:
    """d_inf of two months' profiles is at most their sup distance; one day's change of W counts W/D."""
    bands = [DAY_BANDS[length] for length in hours]
    draw, day = np.random.default_rng(seed), day % len(hours)
    months = [[[int(value) for value in draw.integers(-99, 99, n)] for n in hours] for _ in range(2)]
    profiles = [typical_day(month, bands) for month in months]
    largest = max(abs(a - b) for one, two in zip(*months, strict=True) for a, b in zip(one, two, strict=True))
    assert max(abs(a - b) for a, b in zip(*profiles, strict=True)) <= largest
    changed = [month if index != day else months[1][day] for index, month in enumerate(months[0])]
    watts = max(abs(a - b) for a, b in zip(months[0][day], months[1][day], strict=True))
    profile = typical_day(changed, bands)
    assert max(abs(a - b) for a, b in zip(profiles[0], profile, strict=True)) <= watts / len(hours)


@pytest.mark.parametrize("hours", [23, 24, 25])
def test_a_typical_day_attains_its_bounds(hours: int) -> None:
    """A lift of a whole day by W among D = 4 moves each band by W/4; a constant month is its own profile."""
    bands = [DAY_BANDS[hours], DAY_BANDS[24], DAY_BANDS[24], DAY_BANDS[24]]
    flat = [[100] * len(labels) for labels in bands]
    assert list(typical_day(flat, bands)) == [100] * 4
    assert list(typical_day([[180] * hours, *flat[1:]], bands)) == [120] * 4
    band_lift = [[180 if band == 2 else 100 for band in bands[0]], *flat[1:]]
    assert list(typical_day(band_lift, bands)) == [100, 100, 120, 100]


def test_a_typical_day_has_its_bands_on_each_day() -> None:
    """No days, a slot without a band and a day without one of the bands are refused, a float too."""
    for days, bands in (([], []), ([[1, 2]], [[0]]), ([[1], [1]], [[0]])):
        with pytest.raises(ValueError, match="a band for each slot"):
            typical_day(days, bands)
    for bands in ([[0, 1], [0, 0]], [[0, 2], [0, 2]], [[0, -1], [0, -1]]):
        with pytest.raises(ValueError, match="each of the bands"):
            typical_day([[1, 2], [3, 4]], bands)
    with pytest.raises(ValueError, match="each of the bands"):
        typical_day([[]], [[]])
    with pytest.raises(TypeError, match="value must be exact"):
        typical_day([[1.5]], [[0]])  # type: ignore[list-item]


# Sample and hold ----------------------------------------------------------------------------------


@given(
    data=st.data(),
    gaps=st.lists(st.integers(1, 9), min_size=1, max_size=12),
    slots=st.lists(st.integers(1, 12), min_size=1, max_size=5),
    late=st.integers(0, 9),
)
def test_a_hold_is_the_mean_of_what_stood(
    data: st.DataObject, gaps: list[int], slots: list[int], late: int
) -> None:
    """Each slot's mean is that of the value that stood, millisecond by millisecond; it does not stretch."""
    times = list(itertools.accumulate(gaps, initial=0))
    edges = list(itertools.accumulate(slots, initial=late))
    curves = [data.draw(st.lists(VALUES, min_size=len(times), max_size=len(times))) for _ in range(2)]
    means = [hold_means(times, values, edges) for values in curves]
    for values, held in zip(curves, means, strict=True):
        stood = [values[max(i for i, time in enumerate(times) if time <= ms)] for ms in range(edges[-1])]
        assert held == tuple(sum(stood[a:b], Fraction(0)) / (b - a) for a, b in itertools.pairwise(edges))
    distance = max(abs(a - b) for a, b in zip(*curves, strict=True))
    assert max(abs(a - b) for a, b in zip(*means, strict=True)) <= distance


def reports(curve: list[Fraction], dead_band: Fraction) -> tuple[list[int], list[Fraction]]:
    """What a meter sends that reports the first value, and then each that is off the last by more."""
    times, values = [0], [curve[0]]
    for time, value in enumerate(curve):
        if abs(value - values[-1]) > dead_band:
            times.append(time)
            values.append(value)
    return times, values


@given(
    curve=st.lists(VALUES, min_size=12, max_size=12),
    shifts=st.lists(st.integers(-20, 20), min_size=12, max_size=12),
    radius=SIZES,
    dead_band=SIZES,
)
def test_reports_on_change_stretch_by_two_dead_bands(
    curve: list[Fraction], shifts: list[int], radius: Fraction, dead_band: Fraction
) -> None:
    """Curves within r, reported at times that depend on them, give means within r + 2 dead_band."""
    other = [value + shift * radius / 20 for value, shift in zip(curve, shifts, strict=True)]
    means = [hold_means(*reports(c, dead_band), [0, 4, 7, 12]) for c in (curve, other)]
    assert max(abs(a - b) for a, b in zip(*means, strict=True)) <= reported_radius(radius, dead_band)


def test_r_plus_two_dead_bands_is_reached() -> None:
    """One curve held a dead band too low, the other one too high: nothing smaller would do."""
    low, high = ([Fraction(v) for v in curve] for curve in ([0, 10, 10, 10], [25, 15, 15, 15]))
    means = [hold_means(*reports(curve, Fraction(10)), [1, 4]) for curve in (low, high)]
    assert means[1][0] - means[0][0] == 25 == reported_radius(5, 10)


def test_a_plain_mean_of_reports_has_no_bound() -> None:
    """Curves 2 W apart: the plain means of what is reported are 791 W apart, the held ones 2 W at most.

    A heater of 846 W in the second half hour. In one home the base load flickers by 2 W and the heater
    does not, in the other the heater does; the dead band is 1 W.
    """

    def flicker(base: int, times: int) -> list[Fraction]:
        return [Fraction(base + 2 * (minute % 2 if minute < times else 0)) for minute in range(30)]

    homes = [flicker(0, 0) + flicker(846, 30), flicker(0, 30) + flicker(846, 0)]
    assert max(abs(a - b) for a, b in zip(*homes, strict=True)) == 2
    sent = [reports(home, Fraction(1)) for home in homes]
    plain = [sum(values, Fraction(0)) / len(values) for _, values in sent]
    assert round(abs(plain[0] - plain[1])) == 791
    held = [hold_means(*one, [0, 60])[0] for one in sent]
    assert abs(held[0] - held[1]) <= 2 < reported_radius(2, 1)


def test_a_hold_needs_a_value_at_its_start() -> None:
    """No value at the first edge, times or edges that do not rise, no slot, a value too few: refused."""
    refused: list[tuple[list[int], list[int], list[int], str]] = [
        ([5], [1], [0, 10], "value at or before its start"),
        ([], [], [0, 10], "value at or before its start"),
        ([0], [1], [0], "at least one slot"),
        ([0, 0], [1, 2], [0, 10], "increase"),
        ([0], [1], [0, 10, 10], "increase"),
        ([0, 1], [1], [0, 10], "each time needs a value"),
    ]
    for times, values, edges, text in refused:
        with pytest.raises(ValueError, match=text):
            hold_means(times, values, edges)
    with pytest.raises(ValueError, match="not be negative"):
        reported_radius(1, -1)
    with pytest.raises(TypeError, match="dead_band must be exact"):
        reported_radius(1, 0.5)  # type: ignore[arg-type]
