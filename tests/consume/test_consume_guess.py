"""A receiver's guess under its own prior: the least expected loss by the record's law, and only a guess."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import FrozenInstanceError, replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meteragent.consume import PriorGuess, Series, collect, guess_under_prior
from meteragent.consume.guess import Loss
from meteragent.domain.terms import Rounding, Terms
from meteragent.privacy import DitheredLaplace, LInfLaplace, SeededBits
from meteragent.privacy.optimality import User, optimal_remap
from tests.consume.test_consume_shapes import BANDS, JUNE, JUNE_MS, PROFILE, received, schedule
from tests.support.messages import HALF_HOUR_MS, HOURLY, NOON_MS, TEN_MIN_MS, described, recorded
from tests.support.stores import TERMS
from tests.support.terms import terms_with

COARSE = replace(TERMS, radius=Fraction(3), level=Fraction(2))  # quanta of 1 W, a = 2/3, n = 1
PAIRS = terms_with(COARSE, step_ms=HALF_HOUR_MS // 2)  # n = 2
PRIOR = {
    Fraction(x): weight for x, weight in (("0", 3.0), ("2", 5.0), ("7/2", 2.0), ("9", 1.0), ("41/4", 0.5))
}
ROUNDINGS: tuple[Rounding, ...] = ("half-up", "dithered")
LOSSES: tuple[Loss, ...] = ("absolute", "squared")


def home(terms: Terms, quanta: Sequence[int]) -> Series:
    """The series of a meter that sent them."""
    return collect([described(terms), *recorded(terms, quanta)])["m1"]


def likelihood(terms: Terms, y: int, x: Fraction) -> float:
    """Return P(y | x) of a window's first slot, from the window's law, summed over the other slots."""
    others = np.array(list(itertools.product(range(-60, 61), repeat=terms.n - 1)), np.int64)
    outputs = np.column_stack([np.full(len(others), y), others])
    if terms.rounding == "dithered":
        dithered = DitheredLaplace(terms.epsilon, 1, terms.n, "1/4")
        point = [int(4 * x)] + [0] * (terms.n - 1)
        return float(np.exp(dithered.log_mass(outputs, point)).sum())
    point = [math.floor(x + Fraction(1, 2))] + [0] * (terms.n - 1)
    return float(np.exp(LInfLaplace(terms.epsilon, 1, terms.n).log_mass(outputs, point)).sum())


def expected_loss(posterior: dict[Fraction, float], guess: float, loss: str) -> float:
    """Return the posterior's mean loss of a guess."""
    power = 1 if loss == "absolute" else 2
    return sum(p * abs(float(x) - guess) ** power for x, p in posterior.items())


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("terms", [COARSE, PAIRS], ids=["n=1", "n=2"])
@pytest.mark.parametrize("loss", LOSSES)
def test_no_other_guess_costs_less(terms: Terms, rounding: Rounding, loss: Loss) -> None:
    """By brute force: the posterior of the window's own law, and every guess on a fine grid."""
    terms = replace(terms, rounding=rounding)
    grid = np.arange(-20, 161) / 8
    for y in (-4, 0, 1, 3, 6, 30):
        actual = guess_under_prior(home(terms, [y, 0]), NOON_MS, PRIOR, loss)
        assert (actual.loss, actual.unit) == (loss, "W")
        weights = {x: weight * likelihood(terms, y, x) for x, weight in PRIOR.items()}
        posterior = {x: weight / sum(weights.values()) for x, weight in weights.items()}
        least = min(expected_loss(posterior, float(guess), loss) for guess in grid)
        own = expected_loss(posterior, actual.guess, loss)
        assert own <= least + 1e-9
        assert own >= least - 0.005  # half a step of the grid, squared
        if loss == "squared":
            assert actual.guess == pytest.approx(sum(float(x) * p for x, p in posterior.items()), rel=1e-9)


@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_it_is_the_optimal_remap_of_a_finite_channel(rounding: Rounding) -> None:
    """As in `optimality.optimal_remap`: prior, the record's law as a matrix, loss |x - guess|."""
    terms = replace(COARSE, rounding=rounding)
    values = [*PRIOR]
    outputs = range(-15, 26)
    rows = [[likelihood(terms, y, x) for y in outputs] for x in values]
    numbers = np.array([float(x) for x in values])
    user = User(np.array([*PRIOR.values()]) / sum(PRIOR.values()), np.abs(numbers[:, None] - numbers))
    remap = numbers[optimal_remap(user, rows)]
    assert [guess_under_prior(home(terms, [y]), NOON_MS, PRIOR).guess for y in outputs] == remap.tolist()
    assert len(set(remap.tolist())) >= 3


@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_on_average_over_the_prior_it_is_nearer_than_the_record(rounding: Rounding) -> None:
    """Over 3,000 draws of value and noise the mean loss is that of the law, and less than half the record's.

    The record's is 2.9 absolute and 18 squared at a = 1/3. Seeds are fixed; of any seeds the mean lies
    within 6 standard deviations of the law's but for a chance below 1e-8.
    """
    terms = replace(COARSE, radius=Fraction(6), rounding=rounding)
    prior = {Fraction(0): 4.0, Fraction(1): 3.0, Fraction(5, 4): 2.0, Fraction(6): 1.0}
    x = np.random.default_rng(3).choice([0, 4, 5, 24], 3000, p=[0.4, 0.3, 0.2, 0.1])[:, None]
    laplace, dithered = LInfLaplace("1/3", 1, 1), DitheredLaplace("1/3", 1, 1, "1/4")
    bits = SeededBits(4)
    whole = rounding == "half-up"
    drawn = laplace.release((x + 2) // 4, bits=bits) if whole else dithered.release(x, bits=bits)
    y = drawn[:, 0]
    for power, loss in enumerate(LOSSES, 1):
        remap = {z: guess_under_prior(home(terms, [z]), NOON_MS, prior, loss).guess for z in range(-80, 90)}
        made = np.array([remap[z] for z in y.tolist()])
        losses, plain = (np.abs(value - x[:, 0] / 4) ** power for value in (made, y))
        law = sum(
            weight / 10 * likelihood(terms, z, value) * abs(guess - float(value)) ** power
            for value, weight in prior.items()
            for z, guess in remap.items()
        )
        assert abs(losses.mean() - law) < 6 * losses.std() / math.sqrt(3000)
        assert losses.mean() < plain.mean() / 2


def test_values_beyond_a_known_range_are_clamped() -> None:
    """A prior over loads is clamped as by the agent: weights beyond the range go to its ends."""
    prior = {-5: 1.0, 0: 1.0, 4: 2.0, 70: 3.0, 100: 4.0}
    clamped = {0: 2.0, 4: 2.0, 10: 7.0}
    for y in (-3, 2, 5, 8, 30):
        item = home(COARSE, [y])
        for loss in LOSSES:
            actual = guess_under_prior(item, NOON_MS, prior, loss, within=(0, 10))
            assert actual == guess_under_prior(item, NOON_MS, clamped, loss)
            assert 0 <= actual.guess <= 10
    with pytest.raises(ValueError, match="low end of the range is above"):
        guess_under_prior(home(COARSE, [1]), NOON_MS, prior, within=(10, 0))


@settings(max_examples=30, deadline=None)
@given(
    st.dictionaries(st.integers(0, 3000), st.floats(0.001, 1000), min_size=1, max_size=6),
    st.integers(-9000, 9000),
)
def test_a_guess_lies_among_what_is_expected(prior: dict[int, float], y: int) -> None:
    """However far away the record is; neither the scale of the weights nor values of weight 0 matter."""
    item = home(HOURLY, [y] * 6)
    for loss in LOSSES:
        actual = guess_under_prior(item, NOON_MS + TEN_MIN_MS, prior, loss).guess
        assert min(prior) - 1e-9 <= actual <= max(prior) + 1e-9
        doubled = {x: 2 * weight for x, weight in prior.items()} | {-1: 0.0}
        second = guess_under_prior(item, NOON_MS + TEN_MIN_MS, doubled, loss).guess
        assert second == pytest.approx(actual, rel=1e-9)


def test_a_band_of_a_mean_day_is_guessed() -> None:
    """The slot is named as everywhere else: its time, and its band where slots are bands."""
    month = received(schedule(PROFILE, BANDS), JUNE, [[10, 20, 40, 30]])
    actual = guess_under_prior(month, JUNE_MS, {100.0: 1.0, 300.0: 1.0}, band="06:00/17:00")
    assert actual.guess in (100, 300)
    with pytest.raises(ValueError, match="no record of a slot"):
        guess_under_prior(month, JUNE_MS, {100.0: 1.0})


def test_guesses_cannot_be_added_up() -> None:
    """A guess is not a number and has no interval or deviation; its fields are fixed."""
    guess = guess_under_prior(home(COARSE, [3]), NOON_MS, {0: 1, 3: 1})
    with pytest.raises(TypeError):
        sum([guess, guess])  # type: ignore[list-item]
    with pytest.raises(TypeError):
        float(guess)  # type: ignore[arg-type]
    assert PriorGuess.__slots__ == ("guess", "loss", "unit")
    with pytest.raises(FrozenInstanceError):
        guess.guess = 1.0  # type: ignore[misc]


@pytest.mark.parametrize(
    ("prior", "text"),
    [
        ({}, "a value with a positive weight"),
        ({1: 0.0}, "a value with a positive weight"),
        ({1: -1.0, 2: 3.0}, "finite and not negative"),
        ({1: math.nan}, "finite and not negative"),
        ({math.inf: 1.0}, "values of a prior and of a range must be finite"),
    ],
)
def test_a_table_that_is_no_prior_is_refused(prior: dict[float, float], text: str) -> None:
    """It needs a positive weight, finite weights and values, and one of the two known losses."""
    with pytest.raises(ValueError, match=text):
        guess_under_prior(home(COARSE, [3]), NOON_MS, prior)
    with pytest.raises(ValueError, match="'absolute' or 'squared'"):
        guess_under_prior(home(COARSE, [3]), NOON_MS, {1: 1.0}, "cubic")  # type: ignore[arg-type]
