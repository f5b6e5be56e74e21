"""Randomised response by coins: odds of exactly 3 for two fair ones; and releases that are not private."""

import math
from fractions import Fraction
from itertools import product

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent.privacy.bits import SeededBits
from meteragent.privacy.mechanism.base import Guarantee, PairMechanism
from meteragent.privacy.mechanism.randomised import RandomisedResponse, RandomRow
from meteragent.privacy.space import Categories, Databases
from tests.support.draws import has_its_law

truths = st.fractions(Fraction(1, 100), Fraction(99, 100), max_denominator=1000)


def masses(mechanism: RandomisedResponse) -> dict[tuple[bool, bool], float]:
    """P(answer | truth) of all four."""
    yes_no = (False, True)
    return {(y, x): math.exp(mechanism.log_mass(y, x)) for y, x in product(yes_no, repeat=2)}


def test_two_fair_coins_have_odds_of_three() -> None:
    """Truth with 1/2, else a fair coin: 3/4 against 1/4, epsilon = ln 3, also of draws (Pauwels 2016)."""
    mechanism = RandomisedResponse()
    assert mechanism.odds == 3
    with mpmath.workdps(40):
        epsilon = mpmath.mpf(mechanism.guarantee.epsilon.numerator) / mechanism.guarantee.epsilon.denominator
        assert 0 <= epsilon - mpmath.log(3) < mpmath.mpf(2) ** -60
    assert masses(mechanism) == pytest.approx(
        {(False, False): 0.75, (True, True): 0.75, (False, True): 0.25, (True, False): 0.25}
    )
    assert isinstance(mechanism, PairMechanism)
    assert all(has_its_law(mechanism, x, [False, True]) for x in (False, True))


@given(truths)
def test_the_odds_are_those_of_the_law(truth: Fraction) -> None:
    """The odds are the largest ratio of P(answer | truth); the guarantee holds and has no slack."""
    mechanism = RandomisedResponse(truth)
    law = masses(mechanism)
    assert law[True, True] / law[True, False] == pytest.approx(float(mechanism.odds), rel=1e-12)
    assert law[True, True] == law[False, False]
    assert law[True, True] + law[False, True] == pytest.approx(1, abs=1e-14)
    with mpmath.workdps(40):
        epsilon = mechanism.guarantee.epsilon
        slack = mpmath.mpf(epsilon.numerator) / epsilon.denominator - mpmath.log(
            mpmath.mpf(mechanism.odds.numerator) / mechanism.odds.denominator
        )
        assert 0 <= slack < mpmath.mpf(2) ** -60
    assert mechanism.guarantee.delta == 0


@given(truths, st.sampled_from([32, 64]))
def test_the_first_coin_is_enclosed_between_neighbouring_integers(truth: Fraction, k: int) -> None:
    """The coin is compared with floor and ceiling of 2^k t: a coin of any rational chance is exact."""
    ((lo, hi),) = RandomisedResponse(truth)._truthful_bounds(k)
    assert lo <= truth * 2**k <= hi <= lo + 1


def test_answers_have_the_stated_chances() -> None:
    """Of 40,000 answers a share of (1+t)/2 is true, for yes and for no; 6 sd are 0.015."""
    for truth in (Fraction(1, 2), Fraction(1, 10)):
        mechanism = RandomisedResponse(truth)
        for told in (False, True):
            answers = mechanism.release(np.full(40_000, told), bits=SeededBits(7))
            assert float((answers == told).mean()) == pytest.approx(float(1 + truth) / 2, abs=0.015)


def test_the_estimate_is_unbiased_and_as_far_off_as_it_says() -> None:
    """Over 400 surveys of 500 people the estimates' mean is the truth and their sd the one stated."""
    mechanism = RandomisedResponse(Fraction(1, 2))
    people = np.arange(500) < 100
    surveys = [mechanism.estimate(mechanism.release(people, bits=SeededBits(i))) for i in range(400)]
    shares = np.array([survey.share for survey in surveys])
    sd = surveys[0].sd
    assert sd == pytest.approx(math.sqrt(3 / (4 * 500)))
    assert float(shares.mean()) == pytest.approx(0.2, abs=5 * sd / 20)
    assert float(shares.std()) == pytest.approx(sd, rel=0.18)  # 5 sd of an sd from 400


def test_the_estimate_undoes_the_coins_exactly() -> None:
    """From the expected share of yeses, (1-t)/2 + p t, the estimate is p, for any p."""
    mechanism = RandomisedResponse(Fraction(1, 2))
    assert mechanism.estimate([True, False, False, False]).share == 0  # 1/4: nobody
    assert mechanism.estimate([True, True, True, False]).share == 1  # 3/4: everybody
    assert mechanism.estimate([False]).share == -0.5
    with pytest.raises(ValueError, match="at least one answer"):
        mechanism.estimate([])


@given(truths, st.lists(st.lists(st.integers(0, 99), min_size=3, max_size=3), min_size=2, max_size=2))
def test_what_is_done_to_an_answer_afterwards_costs_nothing(truth: Fraction, rows: list[list[int]]) -> None:
    """Post-processing: any random map of the answer changes the odds by no more (Pauwels 2016)."""
    mechanism = RandomisedResponse(truth)
    law = masses(mechanism)
    maps = [[p / (sum(row) or 1) for p in row] for row in rows]
    for z in range(3):
        told = [sum(law[y, x] * maps[y][z] for y in (False, True)) for x in (False, True)]
        assert max(told) <= float(mechanism.odds) * min(told) * (1 + 1e-12)


def test_what_is_no_answer_is_refused() -> None:
    """Values are booleans or 0 and 1, a chance is exact and between 0 and 1."""
    mechanism = RandomisedResponse("0.5")
    assert mechanism == RandomisedResponse()
    assert mechanism.release([[0, 1], [1, 1]], bits=SeededBits(1)).shape == (2, 2)
    assert mechanism.release(np.zeros((0, 3), bool)).shape == (0, 3)
    assert mechanism.release(True).dtype == bool
    with pytest.raises(ValueError, match="yes or no"):
        mechanism.release([0, 2])
    for truth in (0, 1, "3/2"):
        with pytest.raises(ValueError, match="truth must be"):
            RandomisedResponse(truth)
    with pytest.raises(TypeError, match="truth must be exact"):
        RandomisedResponse(0.5)  # type: ignore[arg-type]


# Not private --------------------------------------------------------------------------------------


def hockey_stick(mechanism: RandomRow, x: str, other: str, epsilon: float) -> float:
    """The least delta between two databases, by the law."""
    outputs = np.array(["a", "b", "c"])
    p, q = (np.exp(mechanism.log_mass(outputs, list(rows))) for rows in (x, other))
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


def test_a_random_row_is_private_for_no_epsilon() -> None:
    """A row that only one of two neighbours has leaves with 1/n: no epsilon gives a delta below that."""
    mechanism = RandomRow(Databases(Categories("abc"), 5))
    assert mechanism.guarantee == (Fraction(0), Fraction(1, 5))
    for epsilon in (0.0, 1.0, 30.0):
        assert hockey_stick(mechanism, "aaaab", "aaaaa", epsilon) == pytest.approx(1 / 5, abs=1e-15)
    assert mechanism.log_mass("b", list("aaaaa")) == -math.inf
    assert has_its_law(mechanism, list("aacab"), ["a", "b", "c"])


def test_as_a_pair_a_random_row_is_zero_and_one_over_n() -> None:
    """(0, 1/n) holds between all neighbours, which shows how little a delta of 1/n promises."""
    mechanism = RandomRow(Databases(Categories("abc"), 3))
    assert mechanism.guarantee == Guarantee(Fraction(0), Fraction(1, 3))
    assert isinstance(mechanism, PairMechanism)
    for x, other in mechanism.space.pairs():
        if mechanism.space.metric(x, other) == 1:
            assert hockey_stick(mechanism, "".join(x), "".join(other), 0.0) <= 1 / 3 + 1e-15


def test_a_random_row_is_one_of_the_rows() -> None:
    """Each row of a database leaves equally often; databases of shape (..., n) give rows of shape (...)."""
    mechanism = RandomRow(Databases(Categories("abcd"), 4))
    released = mechanism.release(np.array([list("abcd")] * 8000), bits=SeededBits(1))
    assert released.shape == (8000,)
    assert [float((released == row).mean()) for row in "abcd"] == pytest.approx([0.25] * 4, abs=0.03)  # 6 sd
    with pytest.raises(ValueError, match="databases have shape"):
        mechanism.release(np.array(list("abc")))
