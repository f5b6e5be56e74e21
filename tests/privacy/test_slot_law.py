"""The law of one slot's noise is the window's law, summed over the other slots."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from meteragent.privacy import LInfLaplace
from meteragent.privacy.mechanism.slot_law import log_mass_of_slot
from meteragent.privacy.mechanism.window_law import WindowLaw


@pytest.mark.parametrize(("a", "n"), [("1/2", 1), ("3/2", 2), ("2", 3)])
def test_a_slot_s_law_is_the_window_s_summed(a: str, n: int) -> None:
    """The sum of the window's mass over all values of the other slots, by enumeration."""
    mechanism, reach = LInfLaplace(a, 1, n), 30
    others = np.array(list(itertools.product(range(-reach, reach + 1), repeat=n - 1)), np.int64)
    for k in (0, 1, -3, 7):
        windows = np.column_stack([np.full(len(others), k), others])
        summed = np.exp(mechanism.log_mass(windows, [0] * n)).sum()
        assert math.exp(log_mass_of_slot(mechanism, k)) == pytest.approx(summed, rel=1e-9)


@pytest.mark.parametrize(("a", "n"), [("1/220", 1), ("1/10", 6), ("1/50", 48)])
def test_a_slot_s_law_adds_up(a: str, n: int) -> None:
    """All values together have the chance 1, and the intervals of `WindowLaw` those that it says."""
    mechanism = LInfLaplace(a, 1, n)
    k = np.arange(math.ceil((n + 200) / mechanism.a))
    mass = np.exp(log_mass_of_slot(mechanism, k))
    within = 2 * np.cumsum(mass) - mass[0]
    assert within[-1] == pytest.approx(1, abs=1e-12)
    some = np.array([0, k.size // 30, k.size // 7])
    assert within[some] == pytest.approx(
        WindowLaw(n, float(mechanism.a)).probability_at_most(some, 1), rel=2e-5
    )


def test_far_away_and_for_any_parameter_it_is_a_number() -> None:
    """One slot is Laplace's; far in a tail of several the logarithm falls by a for each quantum."""
    alone = LInfLaplace("1/3", 1, 1)
    assert log_mass_of_slot(alone, [5, -5]) == pytest.approx(math.log(math.tanh(1 / 6)) - 5 / 3, rel=1e-12)
    for n in (2, 48):
        mechanism = LInfLaplace(Fraction(1, 10**9), 1, n)
        far = log_mass_of_slot(mechanism, [10**14, 10**14 + 10**9])
        assert far[0] - far[1] == pytest.approx(1 - (n - 1) * math.log1p(1e-5), rel=1e-4)
