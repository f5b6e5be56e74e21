"""No mechanism is better than the floors; where they are attained, exactly; and where they end."""

import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from meteragent.privacy.channel.exponential import exp
from meteragent.privacy.channel.finite import Channel
from meteragent.privacy.floor import (
    WindowFloor,
    diameter_floor,
    expected_error,
    finite_floor,
    maximal_expected_error,
    two_point_floor,
)
from meteragent.privacy.metric import absolute, discrete
from meteragent.privacy.optimality import least_maximal_error

Floats = NDArray[np.float64]

epsilons = st.fractions(Fraction(1, 10), 4, max_denominator=20)
deltas = st.fractions(0, 1, max_denominator=20)


def categorical(m: int, epsilon: Fraction, delta: Fraction) -> Channel:
    """m+1 values, each other one with p = (1-delta)/(m+e^epsilon) (Holohan 2014, Example 6)."""
    p = (1 - delta) / (m + exp(epsilon))
    values = range(m + 1)
    return Channel(values, values, [[p if x != y else 1 - m * p for y in values] for x in values])


# Finite and bounded spaces --------------------------------------------------------------------------


def test_the_maximal_expected_error_is_the_worst_point_s() -> None:
    """Of a channel whose rows differ it is the largest mean distance, exactly."""
    channel = Channel([0, 1], [0, 1, 3], [["1/2", "1/4", "1/4"], ["1/3", "1/3", "1/3"]])
    assert expected_error(channel, absolute, 0) == Fraction(1)
    assert expected_error(channel, absolute, 1) == Fraction(1)
    other = Channel([0, 1], [0, 1, 3], [["1/2", "1/4", "1/4"], ["1/6", "1/3", "1/2"]])
    assert maximal_expected_error(other, absolute) == Fraction(7, 6)


def test_the_expected_error_of_a_query() -> None:
    """What a mechanism on answers is off by, at a database: of the answer, not of the database."""
    answers = Channel(range(3), range(3), [["1/2", "1/4", "1/4"], [0, 1, 0], ["1/8", "1/8", "3/4"]])
    released = answers.after(sum, [(0, 0), (0, 1), (1, 1)])
    errors = [expected_error(released, absolute, x, sum) for x in released.inputs]
    assert errors == [Fraction(3, 4), 0, Fraction(3, 8)]


def test_an_infinitely_far_output_counts_only_if_it_leaves() -> None:
    """An infinitely distant output adds nothing if it is impossible; otherwise no expected error exists."""

    def classes(x: int, y: int) -> Fraction | float:
        return Fraction(0) if x == y else math.inf

    assert expected_error(Channel([0, 1], [0, 1], [[1, 0], [0, 1]]), classes, 0) == 0
    with pytest.raises(ValueError, match="infinitely far"):
        expected_error(Channel([0, 1], [0, 1], [["1/2", "1/2"], [0, 1]]), classes, 0)


@settings(max_examples=30)
@given(st.integers(1, 6), epsilons, deltas)
def test_the_categorical_mechanism_attains_theorem_7(m: int, epsilon: Fraction, delta: Fraction) -> None:
    """Its maximal expected error is m (1-delta)/(m+e^epsilon), without rounding (Holohan, Theorem 7)."""
    channel = categorical(m, epsilon, delta)
    assert maximal_expected_error(channel, discrete) == finite_floor(m, 1, epsilon, delta)


@settings(max_examples=30)
@given(epsilons, deltas)
def test_randomised_response_attains_the_floor_of_two_points(epsilon: Fraction, delta: Fraction) -> None:
    """R (1-delta)/(1+e^epsilon) is exactly the error on {0, 5}: twice Theorem 6, which has half of it."""
    values = [0, 5]
    rows = categorical(1, epsilon, delta).rows
    error = maximal_expected_error(Channel(values, values, rows), absolute)
    assert error == two_point_floor(5, epsilon, delta) == 2 * diameter_floor(5, epsilon, delta)


SPACES = {
    "two points": [0.0, 1.0],
    "two points and what lies between": [0.0, 0.25, 0.5, 0.75, 1.0],
    "three points on a line": [0.0, 1.0, 2.0],
    "unequal": [0.0, 1.0, 3.0],
}


@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("epsilon", ["1/2", "2"])
@pytest.mark.parametrize("delta", ["0", "1/10", "1/2"])
def test_no_mechanism_is_below_the_floors(name: str, epsilon: str, delta: str) -> None:
    """The least maximal error by linear program, on small spaces, is not less; on two points it is equal."""
    points = np.array(SPACES[name])
    error = np.abs(points[:, None] - points)
    level = float(Fraction(epsilon)) * (1 - np.eye(points.size))
    least = least_maximal_error(error, level, float(Fraction(delta)))
    kappa, diameter = Fraction(float(np.min(error[error > 0]))), Fraction(float(points[-1]))
    theorem_6 = diameter * (1 - Fraction(delta)) / (2 * (1 + exp(epsilon)))
    assert diameter_floor(diameter, epsilon, delta) == theorem_6
    floors = [
        float(two_point_floor(diameter, epsilon, delta)),
        float(finite_floor(points.size - 1, kappa, epsilon, delta)),
    ]
    assert max(floors) <= least + 1e-9
    if points.size == 2:
        assert floors == pytest.approx([least, least], abs=1e-9)


def test_outputs_between_two_points_do_not_help() -> None:
    """Whoever must tell 0 from 1 may say anything in between, in vain: the floor stays."""
    outputs = np.linspace(0, 1, 9)
    error = np.array([outputs, 1 - outputs])
    least = least_maximal_error(error, 1 - np.eye(2), 0.1)
    assert least == pytest.approx(float(two_point_floor(1, 1, "1/10")), abs=1e-9)


def test_outputs_elsewhere_may_halve_the_floor_of_many_points() -> None:
    """Theorem 7 is about outputs among the points: the middle of a star is at kappa/2 from each."""
    error = np.hstack([1 - np.eye(4), np.full((4, 1), 0.5)])
    least = least_maximal_error(error, 0.1 * (1 - np.eye(4)))
    assert float(finite_floor(3, "1/2", "1/10")) <= least + 1e-9
    assert least < float(finite_floor(3, 1, "1/10"))


def test_the_best_pair_of_points_is_half_as_deep_as_theorem_6() -> None:
    """THEORY 1.4: 0.2785/epsilon, at x = 1.2785, of which Theorem 6 has half; the truth is 1/epsilon."""
    floors = {x: float(two_point_floor(Fraction(x, 1000), Fraction(x, 1000))) for x in range(1, 5000)}
    best = max(floors, key=lambda x: floors[x])
    assert (best, round(floors[best], 4)) == (1278, 0.2785)
    assert floors[best] < WindowFloor(1, 1).mean_absolute


@pytest.mark.parametrize("delta", ["-1/10", "11/10"])
def test_delta_lies_between_0_and_1(delta: str) -> None:
    """Otherwise it is refused."""
    with pytest.raises(ValueError, match="delta must lie in"):
        finite_floor(1, 1, 1, delta)


def test_floors_say_what_they_are_asked_wrongly() -> None:
    """No points, no distance, floats."""
    with pytest.raises(ValueError, match="at least two points"):
        finite_floor(0, 1, 1)
    with pytest.raises(ValueError, match="distance must be positive"):
        two_point_floor(0, 1)
    with pytest.raises(TypeError, match=r"write Fraction\('0.5'\)"):
        two_point_floor(1, 0.5)  # type: ignore[arg-type]


# Windows --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 6, 30, 500])
def test_the_floors_are_the_moments_of_the_erlang_mixture(n: int) -> None:
    """By an independent integral over Q(n, z)/n: (n+1)/(2 epsilon), (n+1)(n+2)/(3 epsilon^2) (THEORY 1.2)."""
    floor = WindowFloor(n, "1/10")
    assert floor.mean_absolute == 5 * (n + 1)
    assert floor.mean_square == Fraction(100 * (n + 1) * (n + 2), 3)
    with mpmath.workdps(20):
        for power, stated in ((1, floor.mean_absolute / 10), (2, floor.mean_square / 100)):

            def weighted(z: Any, power: int = power) -> Any:
                return z**power * mpmath.gammainc(n, z, regularized=True) / n

            mean = float(mpmath.quad(weighted, [0, 1, n, 2 * n + 9, 4 * n + 90]))
            assert mean == pytest.approx(float(stated), rel=1e-9)


@pytest.mark.parametrize("n", [1, 3, 30])
@pytest.mark.parametrize("tau", [0.01, 1, 20])
def test_the_l_inf_law_keeps_the_bound_of_one_line(n: int, tau: float) -> None:
    """On average at most epsilon tau readings are within tau, and nearly that number for tau << 1/epsilon.

    By THEORY 1.2: P(|z| > x) = Q(n+1, x) - x/n Q(n, x).
    """
    tails = [float(mpmath.gammainc(k, tau, regularized=True)) for k in (n + 1, n)]
    within = n * (1 - tails[0] + tau / n * tails[1])
    assert within <= tau
    if tau == 0.01:
        assert within == pytest.approx(0.01, rel=0.01)


def test_how_long_a_window_may_be() -> None:
    """155 W at 0.1/W are 30 readings (THEORY 1.5), and not 31."""
    assert WindowFloor(30, "1/10").mean_absolute == 155
    assert WindowFloor(31, "1/10").mean_absolute > 155


def test_a_short_range_is_beyond_the_floor() -> None:
    """The limit: on 0..4 at epsilon = 1/4 the best is below (n+1)/(2 epsilon), as a constant 2 is."""
    points = np.arange(5.0)
    error = np.abs(points[:, None] - points)
    least = least_maximal_error(error, error / 4)
    assert least < 2 < WindowFloor(1, "1/4").mean_absolute


def test_on_a_long_range_the_floor_holds() -> None:
    """On 0..24 at a = 1 the best for the worst point has the discrete Laplace law's error, 1/sinh(a)."""
    points = np.arange(25.0)
    error = np.abs(points[:, None] - points)
    assert least_maximal_error(error, error) == pytest.approx(1 / math.sinh(1), rel=5e-3)


@pytest.mark.parametrize("n", [0, -1])
def test_a_window_has_readings(n: int) -> None:
    """At least one."""
    with pytest.raises(ValueError, match="at least one reading"):
        WindowFloor(n, 1)


def test_random_private_noise_is_never_below_the_floor() -> None:
    """Noise of the laws e^-h(z), h 1-Lipschitz in d_inf, mixed from half-norms, on a fine grid for n = 2.

    h(z) = the mean of |z_1|, |z_2|, max|z_i| and |z_1 - z_2|/2 with random weights, at epsilon = 1.
    """
    rng = np.random.default_rng(3)
    axis = np.arange(-40, 40.1, 0.1)
    u, v = np.meshgrid(axis, axis)
    sup = np.maximum(np.abs(u), np.abs(v))
    parts = [np.abs(u), np.abs(v), sup, np.abs(u - v) / 2]
    floor = float(WindowFloor(2, 1).mean_absolute)
    for weights in [np.array([0, 0, 1.0, 0]), *rng.dirichlet([0.3, 0.3, 1.5, 0.3], size=8)]:
        law = np.exp(-sum(w * part for w, part in zip(weights, parts, strict=True)))
        mean = float(np.sum(law * (np.abs(u) + np.abs(v))) / np.sum(law) / 2)
        assert mean >= floor * 0.999
        if weights[2] == 1:
            assert mean == pytest.approx(floor, rel=1e-3)
