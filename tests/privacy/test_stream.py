"""A window slot by slot, windows in a row, and sums (meteragent.privacy.stream).

The numbers are those that the formulas of THEORY 3.2 and 3.3 give.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent.privacy.mechanism import LInfLaplace
from meteragent.privacy.stream import SlidingPlan
from meteragent.privacy.totals import Part, sd_of_total

EPSILONS = st.fractions(Fraction(1, 1000), 10, max_denominator=1000)


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


@pytest.mark.parametrize("n", [1, 30])
@pytest.mark.parametrize(("a", "extra", "times"), [(0.1, 1, 7.2505), (0.1, 30, 330.584), (3.0, 1, 1.3617)])
def test_a_surplus_slot_costs_many_times_epsilon(n: int, a: float, extra: int, times: float) -> None:
    """A slot more than n from one R costs 7.3 times epsilon, 30 of them 330 times, for any n (THEORY 2.1)."""
    for drawn, factor in ((n, 1.0), (n + extra, times)):
        masses = prefix_masses(n, a, drawn, 6)
        worst = max(math.log(mass / next_mass) for mass, next_mass in itertools.pairwise(masses))
        assert worst / a == pytest.approx(factor, rel=1e-4)


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
    """THEORY 3.2: the best blocks have an error of about half of independent noise's `span`."""
    plan = SlidingPlan.best(span, 1)
    assert (plan.block, plan.blocks_touched(span), plan.mean_error) == (block, touched, Fraction(error))
    assert plan.mean_error >= (math.sqrt(span) + 1) ** 2 / 2 - 1
    assert SlidingPlan.best(span, "0.1").mean_error == 10 * plan.mean_error


@pytest.mark.parametrize(("span", "block"), [(24, 6), (48, 8), (96, 12), (144, 13), (360, 20), (1440, 40)])
def test_blocks_of_about_the_root_are_as_good(span: int, block: int) -> None:
    """Blocks of about the root of the span (THEORY 3.2) have the least error too."""
    assert SlidingPlan(span, 1, block).mean_error == SlidingPlan.best(span, 1).mean_error


@given(span=st.integers(1, 60), block=st.integers(1, 60), epsilon=EPSILONS, length=st.integers(1, 90))
def test_a_span_costs_what_the_blocks_it_touches_cost(
    span: int, block: int, epsilon: Fraction, length: int
) -> None:
    """Wherever an event lies it touches `blocks_touched` blocks at most, and somewhere that many."""
    plan = SlidingPlan(span, epsilon, block)
    counts = {len({slot // block for slot in range(at, at + length)}) for at in range(block)}
    assert max(counts) == plan.blocks_touched(length)
    assert plan.block_epsilon * plan.blocks_touched(span) == epsilon


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
        SlidingPlan(3, 1, 1).blocks_touched(0)
    with pytest.raises(TypeError, match="epsilon must be exact"):
        SlidingPlan(3, 0.1, 1)  # type: ignore[arg-type]


# Sums --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "summed", "independent", "query", "gaussian"),
    [(30, 100, 232, 42, 127), (96, 552, 1330, 136, 406), (1440, 31582, 77279, 2036, 6084)],
)
def test_the_table_of_sums(n: int, summed: int, independent: int, query: int, gaussian: int) -> None:
    """THEORY 3.3: the total is best as its own query; Gaussian noise (mu = .2367) on slots lies between."""
    window, total = LInfLaplace("1/1000", 1, n), LInfLaplace(Fraction(1, 1000 * n), 1, 1)
    parts = [Part(window, slots=n), Part(total, windows=n), Part(total)]
    deviations = [sd_of_total([part]) / 1000 for part in parts]
    assert deviations == pytest.approx([summed, independent, query], abs=0.5)
    assert n / 0.2367043807 == pytest.approx(gaussian, abs=0.5)
