"""Vectors with independent Laplace noise: private in d_1 over the sensitivity; their largest error."""

import math
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent.privacy.bits import SeededBits
from meteragent.privacy.mechanism.base import MetricMechanism
from meteragent.privacy.mechanism.vector import VectorLaplace
from tests.support.draws import has_its_law

EPSILON, QUANTUM, DELTA = Fraction(1, 3), Fraction(1, 2), Fraction(2)


def made(n: int) -> VectorLaplace:
    """The mechanism of these tests for n numbers."""
    return VectorLaplace(EPSILON, QUANTUM, n, DELTA)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_the_ratio_never_exceeds_the_loss_and_attains_it(n: int) -> None:
    """|ln P(y|x)/P(y|x')| <= epsilon d_1(x, x')/Delta on a box, and some y attains it (Proposition 5).

    The draws of the numbers have this law together: each has its own noise.
    """
    mechanism = made(n)
    outputs = np.array(list(product(range(-5, 6), repeat=n)))
    base = mechanism.log_mass(outputs, [0] * n)
    for k in product(range(-2, 3), repeat=n):
        worst = float(np.abs(base - mechanism.log_mass(outputs, k)).max())
        distance = mechanism.space.metric([0] * n, k)
        assert isinstance(distance, Fraction)
        assert worst == pytest.approx(float(mechanism.loss(distance)), abs=1e-12)
    assert has_its_law(VectorLaplace(2, QUANTUM, n, DELTA), [0] * n, list(product(range(-5, 6), repeat=n)))


def test_between_neighbours_the_loss_is_epsilon() -> None:
    """At d_1 = Delta, the sensitivity, the odds change by e^epsilon (Pauwels 2016, Proposition 5)."""
    assert made(7).loss(DELTA) == EPSILON
    assert made(7).a == EPSILON * QUANTUM / DELTA
    assert isinstance(made(7), MetricMechanism)


def test_the_mass_sums_to_one() -> None:
    """The masses of all vectors sum to 1, and the mean of d_1 by them is the expected error."""
    mechanism = VectorLaplace(2, 1, 2)
    outputs = np.stack(np.meshgrid(*[np.arange(-25, 26)] * 2), axis=-1)
    mass = np.exp(mechanism.log_mass(outputs, (0, 0)))
    assert float(mass.sum()) == pytest.approx(1, abs=1e-13)
    error = float((mass * np.abs(outputs).sum(axis=-1)).sum())
    assert mechanism.expected_error == pytest.approx(error, rel=1e-12)
    assert VectorLaplace(2000, 1, 2).expected_error == 0


@given(st.lists(st.tuples(*[st.fractions(-9, 9, max_denominator=99)] * 2), min_size=1, max_size=5))
def test_rounding_first_costs_no_more_than_stated(pairs: list[tuple[Fraction, Fraction]]) -> None:
    """The vectors floor(x/q + 1/2) are at most as far apart in d_1 as `loss_before_rounding` charges."""
    mechanism = made(len(pairs))
    distance = sum((abs(x - y) for x, y in pairs), Fraction(0))
    half = Fraction(1, 2)
    moved = sum(abs(math.floor(x / QUANTUM + half) - math.floor(y / QUANTUM + half)) for x, y in pairs)
    assert mechanism.loss(moved * QUANTUM) <= mechanism.loss_before_rounding(distance)


def test_rounding_first_can_cost_all_that_is_stated() -> None:
    """A hair in each of three numbers may become three quanta, one quantum in all three as well."""
    mechanism = made(3)
    assert mechanism.loss_before_rounding(Fraction(3, 10**9)) == 3 * mechanism.a
    assert mechanism.loss_before_rounding(QUANTUM) == 3 * mechanism.a
    assert mechanism.loss_before_rounding(QUANTUM + Fraction(1, 10**9)) == 4 * mechanism.a
    assert mechanism.loss_before_rounding(0) == 0


def chance_beyond(mechanism: VectorLaplace, quanta: int) -> float:
    """P(max|z_i| > quanta), from the masses of one number."""
    alone = VectorLaplace(mechanism.a, 1, 1)
    z = np.arange(-quanta, quanta + 1)[:, np.newaxis]
    return -math.expm1(mechanism.n * math.log(float(np.exp(alone.log_mass(z, [0])).sum())))


@pytest.mark.parametrize("epsilon", ["1/20", "1/2", "3"])
@pytest.mark.parametrize("n", [1, 2, 48])
@pytest.mark.parametrize("beta", [0.5, 0.05, 1e-3])
def test_the_largest_error_is_the_exact_quantile(epsilon: str, n: int, beta: float) -> None:
    """`largest_error` is exceeded with a chance of at most beta, one quantum less by more."""
    mechanism = VectorLaplace(epsilon, QUANTUM, n)
    quanta = round(mechanism.largest_error(beta) / float(QUANTUM))
    assert chance_beyond(mechanism, quanta) <= beta
    assert quanta == 0 or chance_beyond(mechanism, quanta - 1) > beta


@given(st.fractions(Fraction(1, 50), 20), st.integers(1, 10**5), st.floats(1e-9, 0.99))
def test_proposition_6_holds_on_the_lattice(a: Fraction, n: int, beta: float) -> None:
    """With a chance of 1 - beta all errors are at most (Delta/epsilon) ln(n/beta), rounded up."""
    mechanism = VectorLaplace(a, 1, n)
    bound = mechanism.largest_error_bound(beta)
    assert mechanism.largest_error(beta) <= bound
    assert math.log(n / beta) / float(a) <= bound < math.log(n / beta) / float(a) + 1


def test_the_first_names_example() -> None:
    """10,000 names at epsilon = 1: all counts are within ln(10000/0.05) = 12.2, that is 12, at 95%."""
    names = VectorLaplace(1, 1, 10_000)
    assert names.largest_error_bound(0.05) == 13
    assert names.largest_error(0.05) == 12
    assert math.log(10_000 / 0.05) == pytest.approx(12.2, abs=0.01)


def test_a_chance_is_between_zero_and_one() -> None:
    """Any other beta is refused."""
    for beta in (0.0, 1.0, -1.0, math.nan):
        with pytest.raises(ValueError, match="beta must lie between 0 and 1"):
            made(2).largest_error(beta)
        with pytest.raises(ValueError, match="beta must lie between 0 and 1"):
            made(2).largest_error_bound(beta)


def test_a_release_has_the_shape_of_its_vectors() -> None:
    """Vectors of shape (..., n) come back as int64 of that shape; the noise does not depend on them."""
    mechanism = made(5)
    for shape in [(5,), (3, 5), (2, 3, 5), (0, 5)]:
        assert mechanism.release(np.ones(shape, np.int16), bits=SeededBits(1)).shape == shape
    noise = mechanism.release(np.zeros((40, 5), np.int64), bits=SeededBits(2))
    vectors = np.arange(200).reshape(40, 5) * 10**12
    assert (mechanism.release(vectors, bits=SeededBits(2)) - vectors == noise).all()
    assert len(np.unique(noise)) > 20


def test_what_is_no_vector_is_refused() -> None:
    """Floats, other lengths and values beyond 2^62 quanta, on either side, are refused."""
    with pytest.raises(TypeError, match="whole quanta"):
        made(2).release([0.0, 1.0])
    with pytest.raises(ValueError, match=r"points have shape \(..., 2\)"):
        made(2).release([1, 2, 3])
    for value in (2**62 + 1, -(2**62) - 1):
        with pytest.raises(ValueError, match="beyond 2\\^62 quanta"):
            made(2).release([0, value])
    assert made(2).release([2**62, -(2**62)]).shape == (2,)


def test_each_number_has_its_own_noise() -> None:
    """Numbers of a vector are independent: no two are always alike, and their noise is uncorrelated."""
    noise = made(3).release(np.zeros((4000, 3), np.int64), bits=SeededBits(3)).astype(float)
    correlation = np.corrcoef(noise.T) - np.eye(3)
    assert float(np.abs(correlation).max()) < 0.1  # 6 sd


def test_parameters_are_exact_and_above_zero() -> None:
    """A float parameter is a TypeError that names it; zero and below are ValueErrors; n is an int."""
    good: dict[str, Any] = {"epsilon": "1/3", "quantum": "0.5", "n": 4, "sensitivity": 2}
    assert VectorLaplace(**good) == made(4)
    for name in ("epsilon", "quantum", "sensitivity"):
        with pytest.raises(TypeError, match=f"{name} must be exact"):
            VectorLaplace(**{**good, name: 0.25})
        with pytest.raises(ValueError, match=f"{name} must be positive"):
            VectorLaplace(**{**good, name: 0})
    with pytest.raises(TypeError, match="n must be an int"):
        VectorLaplace(**{**good, "n": 2.5})
    with pytest.raises(ValueError, match="n must be at least 1"):
        VectorLaplace(**{**good, "n": 0})
    with pytest.raises(ValueError, match="take a coarser quantum"):
        VectorLaplace(**{**good, "quantum": Fraction(1, 1 << 50)})
