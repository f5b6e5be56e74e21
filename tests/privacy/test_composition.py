"""An odometer counts exactly and refuses what exceeds the budget; how epsilons compose is enumerated.

(meteragent.privacy.composition)
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from meteragent.privacy.composition import BudgetExceeded, Odometer

DAY_MS = 86_400_000
EPSILONS = st.fractions(Fraction(1, 1000), 1, max_denominator=1000)


def test_charges_add_exactly() -> None:
    """Ten charges of 1/10 are 1, without a rounding."""
    odometer = Odometer(DAY_MS)
    for _ in range(10):
        odometer.add("m1", 0, Fraction(1, 10))
    assert odometer.spent("m1", 0) == 1


def test_periods_are_aligned_to_the_epoch() -> None:
    """A charge counts in the aligned period its time lies in: from its start, up to the next one's."""
    odometer = Odometer(DAY_MS)
    odometer.add("m1", 3 * DAY_MS, Fraction(1))
    odometer.add("m1", 4 * DAY_MS - 1, Fraction(2))
    odometer.add("m1", 4 * DAY_MS, Fraction(4))
    odometer.add("m1", -1, Fraction(8))
    assert odometer.spent("m1", 3 * DAY_MS + 5) == 3
    assert odometer.spent("m1", 4 * DAY_MS + 5) == 4
    assert odometer.spent("m1", -DAY_MS) == 8
    assert odometer.spent("m1", 0) == 0
    assert odometer.period_ms(-1) == -DAY_MS


def test_meters_do_not_share() -> None:
    """What one key spends leaves the budget of another untouched."""
    odometer = Odometer(DAY_MS, Fraction(1))
    odometer.add("m1", 0, Fraction(1))
    odometer.add("m2", 0, Fraction(1))
    assert odometer.would_exceed("m1", 0, Fraction(1, 10**9))
    assert not odometer.would_exceed("m3", 0, Fraction(1))


def test_the_whole_budget_can_be_spent() -> None:
    """48 half hours of 1/220 fit a budget of 48/220 exactly; a forty-ninth does not."""
    odometer = Odometer(DAY_MS, Fraction(48, 220))
    for half_hour in range(48):
        odometer.add("m1", half_hour * 1_800_000, Fraction(1, 220))
    assert odometer.would_exceed("m1", 0, Fraction(1, 10**9))
    with pytest.raises(BudgetExceeded):
        odometer.add("m1", DAY_MS - 1, Fraction(1, 220))
    odometer.add("m1", DAY_MS, Fraction(1, 220))


def test_a_refused_charge_is_not_recorded() -> None:
    """A refusal says what was spent, asked and allowed, and leaves the account as it was."""
    odometer = Odometer(DAY_MS, Fraction(1))
    odometer.add("m1", 0, Fraction(2, 3))
    with pytest.raises(BudgetExceeded, match="2/3 is spent of a budget of 1: no room for 1/2") as refused:
        odometer.add("m1", 0, Fraction(1, 2))
    assert (refused.value.spent, refused.value.epsilon, refused.value.budget) == (
        Fraction(2, 3),
        Fraction(1, 2),
        Fraction(1),
    )
    assert odometer.spent("m1", 0) == Fraction(2, 3)
    odometer.add("m1", 0, Fraction(1, 3))


def test_history_is_restored_also_above_the_budget() -> None:
    """What was spent under an earlier, larger budget is the truth, and leaves no room."""
    odometer = Odometer(DAY_MS, Fraction(1))
    odometer.restore("m1", 0, Fraction(5))
    assert odometer.spent("m1", 0) == 5
    with pytest.raises(BudgetExceeded):
        odometer.add("m1", 0, Fraction(1, 10**6))


def test_without_a_budget_nothing_is_refused() -> None:
    """An odometer without a budget only counts."""
    odometer = Odometer(DAY_MS)
    odometer.add("m1", 0, Fraction(10**9))
    assert not odometer.would_exceed("m1", 0, Fraction(10**9))


def test_epsilons_are_exact_however_they_are_written() -> None:
    """A charge may be a text, to ask as to make it; a float is refused with what to write, in both."""
    odometer = Odometer(1000, budget="1/2")
    odometer.add("m1", 0, "1/4")
    assert not odometer.would_exceed("m1", 0, "0.25")
    assert odometer.would_exceed("m1", 0, "0.26")
    with pytest.raises(TypeError, match=r"epsilon must be exact.*Fraction\('0.25'\)"):
        odometer.would_exceed("m1", 0, 0.25)  # type: ignore[arg-type]


def test_forgotten_periods_can_be_charged_no_more() -> None:
    """Forgetting drops earlier periods for good: neither read as zero nor charged afresh."""
    odometer = Odometer(DAY_MS, Fraction(1))
    for day in range(3):
        odometer.add("m1", day * DAY_MS, Fraction(1, day + 2))
    odometer.forget_before(2 * DAY_MS + 1)
    odometer.forget_before(DAY_MS)
    assert odometer.spent("m1", 2 * DAY_MS) == Fraction(1, 4)
    for forgotten in (odometer.spent, lambda key, time: odometer.add(key, time, Fraction(1))):
        with pytest.raises(ValueError, match="forgotten"):
            forgotten("m1", 2 * DAY_MS - 1)


@pytest.mark.parametrize(
    ("epsilon", "error"), [(0.5, TypeError), (Fraction(0), ValueError), (-1, ValueError)]
)
def test_a_charge_is_exact_and_above_zero(epsilon: Fraction, error: type[Exception]) -> None:
    """A float, zero or negative charge is refused: nothing can lower what was spent."""
    with pytest.raises(error):
        Odometer(DAY_MS).add("m1", 0, epsilon)
    with pytest.raises(error):
        Odometer(DAY_MS, epsilon)


def test_a_period_has_a_length() -> None:
    """A period of no length is refused."""
    with pytest.raises(ValueError, match="at least 1 ms"):
        Odometer(0)


@given(
    budget=EPSILONS,
    charges=st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 3 * DAY_MS), EPSILONS), max_size=40),
)
def test_the_budget_holds_and_the_sum_is_the_truth(
    budget: Fraction, charges: list[tuple[str, int, Fraction]]
) -> None:
    """Whatever is asked in whatever order: spent is the sum of what was accepted, at most the budget."""
    odometer = Odometer(DAY_MS, budget)
    accepted: dict[tuple[str, int], Fraction] = {}
    for key, time_ms, epsilon in charges:
        account = (key, time_ms // DAY_MS)
        before = accepted.get(account, Fraction(0))
        assert odometer.would_exceed(key, time_ms, epsilon) == (before + epsilon > budget)
        try:
            odometer.add(key, time_ms, epsilon)
        except BudgetExceeded:
            continue
        accepted[account] = before + epsilon
    for (key, day), spent in accepted.items():
        assert odometer.spent(key, day * DAY_MS) == spent <= budget


# What sequence and parallel mean, enumerated ------------------------------------------------------

LEVELS = range(4)


def mass(a: Fraction, point: int, seen: int) -> float:
    """Of the truncated geometric law on 0..3 (Chatzikokolakis 2013, Figure 2)."""
    z, step = np.arange(-200, 201), float(a)
    return float(math.tanh(step / 2) * np.exp(-step * np.abs(z))[np.clip(point + z, 0, 3) == seen].sum())


def log_ratios(a: Fraction, x: int, y: int) -> NDArray[np.float64]:
    """Of what is seen of x and of y, for each that may be seen."""
    return np.array([math.log(mass(a, x, seen) / mass(a, y, seen)) for seen in LEVELS])


def test_sequence_adds_under_the_maximum_and_parallel_takes_the_largest_under_the_sum() -> None:
    """Two parts at 3/10 and 5/10, all pairs and outcomes: 8/10 max(d_1, d_2), 5/10 (d_1 + d_2), attained."""
    first, second = Fraction("0.3"), Fraction("0.5")
    tables = {(a, x, y): log_ratios(a, x, y) for a in (first, second) for x in LEVELS for y in LEVELS}
    worst_of_max, worst_of_sum = 0.0, 0.0
    for x1, y1, x2, y2 in itertools.product(LEVELS, repeat=4):
        d1, d2 = abs(x1 - y1), abs(x2 - y2)
        if d1 + d2:
            joint = float(np.add.outer(tables[first, x1, y1], tables[second, x2, y2]).max())
            worst_of_max = max(worst_of_max, joint / max(d1, d2))
            worst_of_sum = max(worst_of_sum, joint / (d1 + d2))
    assert worst_of_max == pytest.approx(float(first + second), rel=1e-12)
    assert worst_of_sum == pytest.approx(float(max(first, second)), rel=1e-12)


@given(seed=st.integers(0, 2**32 - 1))
def test_a_sequence_chosen_as_one_goes_stays_within_its_budget(seed: int) -> None:
    """All histories of two releases, the second's level and whether there is one depending on the first."""
    draw = np.random.default_rng(seed)
    first, budget = Fraction(1, 2), Fraction(5, 4)
    wishes = {seen: Fraction(int(draw.integers(1, 8)), 4) for seen in LEVELS}
    views: list[dict[tuple[int, ...], float]] = []
    for point in (1, 2):
        view: dict[tuple[int, ...], float] = {}
        for seen in LEVELS:
            account = Odometer(DAY_MS, budget)
            account.add("m1", 0, first)
            chance = mass(first, point, seen)
            assert account.would_exceed("m1", 0, wishes[seen]) == (first + wishes[seen] > budget)
            if account.would_exceed("m1", 0, wishes[seen]):
                view[seen,] = chance
                continue
            account.add("m1", 0, wishes[seen])
            assert account.spent("m1", 0) == first + wishes[seen]
            for again in LEVELS:
                view[seen, again] = chance * mass(wishes[seen], point, again)
        views.append(view)
    worst = max(abs(math.log(views[0][history] / views[1][history])) for history in views[0])
    assert worst <= budget + Fraction(1, 10**9)
    assert sum(views[0].values()) == pytest.approx(1, abs=1e-9)
