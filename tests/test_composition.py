"""The odometer counts exactly and refuses what exceeds the budget (meteragent.privacy.composition)."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent.privacy import BudgetExceeded, Odometer

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
