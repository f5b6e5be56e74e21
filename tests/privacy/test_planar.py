"""Planar Laplace and planar Manhattan noise: exactly their laws, private in d_2 and d_1, errors as stated."""

import math
from fractions import Fraction
from itertools import product
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent.privacy.bits import SeededBits
from meteragent.privacy.mechanism.base import MetricMechanism
from meteragent.privacy.mechanism.planar import PlanarLaplace, PlanarManhattan
from meteragent.privacy.sampling import planar
from meteragent.privacy.sampling.planar import planar_laplace

EPSILON, QUANTUM = Fraction(1, 3), Fraction(1, 2)
BOX = list(product(range(-6, 7), repeat=2))
Planar = type[PlanarLaplace] | type[PlanarManhattan]

both = pytest.mark.parametrize("kind", [PlanarLaplace, PlanarManhattan])


# The sampler --------------------------------------------------------------------------------------


@given(st.integers(-(2**40), 2**40), st.integers(-(2**40), 2**40), st.sampled_from([10, 160, 10 << 16]))
def test_the_exponent_of_what_is_kept_is_what_the_proposal_lacks(x: int, y: int, scale: int) -> None:
    """`_due` is floor(s (|z|_2 - 7/10 |z|_1)), so that 7/10 |z|_1 and it make up |z|_2; -1 at the origin."""
    due = int(planar._floors(np.array([[x, y]]), scale)[0])
    missing = due + scale // 10 * 7 * (abs(x) + abs(y))
    square = scale**2 * (x * x + y * y)
    assert (missing == -1) if x == y == 0 else (missing**2 <= square < (missing + 1) ** 2)
    assert due >= -1


def test_a_root_is_exact_where_a_float_s_is_not() -> None:
    """10 |z|_2 just below a whole number of 31 bits: the float root is that number, the floor is one less."""
    for x, y in [(100_118_609, 97_265_861), (104_218_756, 92_859_258)]:
        assert math.sqrt(float(100 * (x * x + y * y))) == math.isqrt(100 * (x * x + y * y)) + 1
        assert planar._floors(np.array([[x, -y]]), 10).tolist() == [planar._floor([x, -y], 10)]


def test_points_near_the_limit_of_int64_are_decided_alike() -> None:
    """On either side of it, one at a time or together, what is due is the same."""
    for scale in (10, 640):
        edge = planar._REACH // scale
        points = [(edge - i, j) for i in range(-3, 4) for j in (0, 1, edge // 2, edge - 1, edge, edge + 1)]
        expected = [planar._floor(list(point), scale) for point in points]
        assert planar._floors(np.array(points), scale).tolist() == expected


@given(st.fractions(min_value=Fraction(1, 10**6), max_value=60), st.sampled_from([32, 64, 96]))
def test_a_digit_s_chance_is_enclosed(rate: Fraction, k: int) -> None:
    """The bounds of 1/(1 + e^rate) lie below and above it, a few units apart."""
    lo, hi = planar._digit_bounds(rate, k)
    with mpmath.workdps(60):
        chance = 2**k / (1 + mpmath.e ** (mpmath.mpf(rate.numerator) / rate.denominator))
        assert lo <= chance <= hi
    assert hi - lo <= 8


def test_the_sampler_gives_as_many_points_as_asked() -> None:
    """The shape is (count, 2), for none too; the noise is symmetric and not all alike."""
    for count in (0, 1, 2, 1000):
        assert planar_laplace(count, Fraction(1, 7), SeededBits(1)).shape == (count, 2)
    drawn = planar_laplace(1000, Fraction(1, 7), SeededBits(1))
    assert drawn.dtype == np.int64
    assert len({tuple(z) for z in drawn.tolist()}) > 300


def test_noise_that_would_leave_int64_is_refused() -> None:
    """Below a = 10/2^45 no sampler exists: making the mechanism is a ValueError."""
    with pytest.raises(ValueError, match="take a coarser quantum"):
        PlanarLaplace(1, Fraction(1, 1 << 42))
    PlanarLaplace(1, Fraction(1, 1 << 41))


# Privacy ------------------------------------------------------------------------------------------


def steps(kind: Planar, k: tuple[int, int]) -> float:
    """The length of a shift in quanta, in the mechanism's metric."""
    return math.hypot(*k) if kind is PlanarLaplace else float(abs(k[0]) + abs(k[1]))


@both
def test_the_ratio_never_exceeds_the_loss_and_attains_it(kind: Planar) -> None:
    """|ln P(y|x)/P(y|x')| <= epsilon d(x, x') for all y of a box, and some y attains it (Definition 6)."""
    mechanism = kind(EPSILON, QUANTUM)
    outputs = np.array(list(product(range(-40, 41), repeat=2)))
    at_zero = mechanism.log_mass(outputs, (0, 0))
    for k in [(1, 0), (0, 2), (1, 1), (3, 4), (-5, 2)]:
        worst = float(np.abs(at_zero - mechanism.log_mass(outputs, k)).max())
        assert worst == pytest.approx(float(EPSILON * QUANTUM) * steps(kind, k), abs=1e-13)


def test_the_ratio_is_exact_where_the_distance_is_rational() -> None:
    """At 3, 4, 5 the loss is epsilon times 5 quanta, an exact number, and x' itself attains it."""
    mechanism = PlanarLaplace(EPSILON, QUANTUM)
    distance = mechanism.space.metric((0, 0), (3, 4))
    assert isinstance(distance, Fraction)
    loss = mechanism.loss(distance)
    assert loss == EPSILON * 5 * QUANTUM
    ratio = mechanism.log_mass((0, 0), (0, 0)) - mechanism.log_mass((0, 0), (3, 4))
    assert float(ratio) == pytest.approx(float(loss), abs=1e-14)


@both
def test_the_metric_of_the_space_is_that_of_the_loss(kind: Planar) -> None:
    """`space.metric` is q times the length of the shift, and the mechanism is a metric one."""
    mechanism = kind(EPSILON, QUANTUM)
    assert isinstance(mechanism, MetricMechanism)
    for k in [(1, 0), (2, 2), (3, 4)]:
        assert float(mechanism.space.metric((5, 5), (5 + k[0], 5 + k[1]))) == pytest.approx(
            float(QUANTUM) * steps(kind, k)
        )


@both
@given(st.lists(st.fractions(-20, 20, max_denominator=1000), min_size=4, max_size=4))
def test_rounding_first_costs_no_more_than_stated(kind: Planar, numbers: list[Fraction]) -> None:
    """The points floor(x/q + 1/2) are at most as far apart as `loss_before_rounding` charges."""
    mechanism = kind(EPSILON, QUANTUM)
    shift = (numbers[0] - numbers[2], numbers[1] - numbers[3])
    x0, x1, y0, y1 = (math.floor(number / QUANTUM + Fraction(1, 2)) for number in numbers)
    charged = mechanism.loss_before_rounding(
        Fraction(math.ceil(math.hypot(*shift) * 10**9), 10**9)
        if kind is PlanarLaplace
        else abs(shift[0]) + abs(shift[1])
    ) / (EPSILON * QUANTUM)
    moved = (x0 - y0, x1 - y1)
    assert steps(kind, moved) <= charged


def test_rounding_can_cost_nearly_what_is_stated() -> None:
    """Two points a hair apart may become (0, 0) and (1, 1): sqrt2 quanta, and 99/70 are charged."""
    charged = PlanarLaplace(1, 1).loss_before_rounding("1e-9")
    assert math.sqrt(2) < charged < math.sqrt(2) + 1e-4
    assert PlanarManhattan(1, 1).loss_before_rounding("1e-9") == 2
    for kind in (PlanarLaplace, PlanarManhattan):
        assert kind(1, 1).loss_before_rounding(0) == 0
        assert kind(1, 1).loss(Fraction(0)) == 0


# The law ------------------------------------------------------------------------------------------


def normaliser(a: Fraction) -> mpmath.mpf:
    """C(a) by a theta function: the sum over Z^2 of e^(-ar) = int k(t) theta(t)^2 dt, right to 20 digits."""
    with mpmath.workdps(25):
        rate = mpmath.mpf(a.numerator) / a.denominator

        def inside(u: mpmath.mpf) -> mpmath.mpf:
            t = rate**2 / 4 * mpmath.exp(u)
            theta = mpmath.jtheta(3, 0, mpmath.exp(-t)) if t > 1 else _theta_small(t)
            return mpmath.exp(-u / 2 - mpmath.exp(-u)) / mpmath.sqrt(mpmath.pi) * theta**2

        step = mpmath.mpf(1) / 8
        return step * mpmath.fsum(inside(step * i) for i in range(-40, 1000))


def _theta_small(t: mpmath.mpf) -> mpmath.mpf:
    return mpmath.sqrt(mpmath.pi / t) * mpmath.jtheta(3, 0, mpmath.exp(-(mpmath.pi**2) / t))


@pytest.mark.parametrize(
    "a", [Fraction(1, 1000), Fraction(49, 1000), Fraction(1, 20), Fraction(1), Fraction(9)]
)
def test_the_mass_is_normalised(a: Fraction) -> None:
    """The log of P(0) is -ln C(a), right to 1e-12 on both sides of a = 1/20; for a << 1 it is a^2/(2 pi)."""
    mass = mpmath.exp(-float(PlanarLaplace(a, 1).log_mass((0, 0), (0, 0))))
    assert abs(mass / normaliser(a) - 1) < 1e-12
    if a < Fraction(1, 100):
        assert float(mass) == pytest.approx(2 * math.pi / float(a) ** 2, rel=1e-7)


def test_the_mass_of_manhattan_noise_is_a_product() -> None:
    """Two independent discrete Laplace numbers: their masses multiply."""
    mechanism, a = PlanarManhattan(EPSILON, QUANTUM), float(EPSILON * QUANTUM)
    for y in BOX:
        parts = [math.tanh(a / 2) * math.exp(-a * abs(v - x)) for v, x in zip(y, (2, -3), strict=True)]
        assert math.exp(mechanism.log_mass(y, (2, -3))) == pytest.approx(math.prod(parts), rel=1e-13)


@both
@pytest.mark.parametrize("a", [Fraction(1, 5), Fraction(2)])
def test_the_expected_error_is_the_mean_of_the_law(kind: Planar, a: Fraction) -> None:
    """`expected_error` is the sum of d(y, x) P(y | x), in the unit."""
    mechanism, reach = kind(a / QUANTUM, QUANTUM), int(45 / float(a)) + 2
    outputs = np.stack(np.meshgrid(*[np.arange(-reach, reach + 1)] * 2), axis=-1)
    norm = {PlanarLaplace: 2, PlanarManhattan: 1}[kind]
    length = np.linalg.norm(outputs, ord=norm, axis=-1) * float(QUANTUM)
    mass = np.exp(mechanism.log_mass(outputs, (0, 0)))
    assert float(mass.sum()) == pytest.approx(1, abs=1e-12)
    assert mechanism.expected_error == pytest.approx(float((mass * length).sum()), rel=1e-10)


def test_on_a_fine_lattice_the_error_is_two_over_epsilon() -> None:
    """E|z|_2 = 2/epsilon, to 1e-6 at a = 1/100, on whichever side of 1/20 it is computed."""
    assert PlanarLaplace("0.01", 1).expected_error == pytest.approx(200, rel=1e-6)
    assert PlanarLaplace("0.01", "0.01").expected_error == pytest.approx(200, rel=1e-9)
    below, above = PlanarLaplace("0.04999999999", 1), PlanarLaplace("0.05", 1)
    assert below.expected_error == pytest.approx(above.expected_error, rel=1e-9)


def test_the_chance_to_be_further_off_is_the_law_s() -> None:
    """`beyond` is the sum of the mass outside a disc; on a fine lattice Erlang(2)'s (1 + x) e^-x."""
    mechanism = PlanarLaplace(EPSILON, QUANTUM)
    outputs = np.stack(np.meshgrid(*[np.arange(-200, 201)] * 2), axis=-1)
    mass, length = np.exp(mechanism.log_mass(outputs, (0, 0))), np.hypot(*np.moveaxis(outputs, -1, 0)) / 2
    for distance in (0.0, 0.4, 0.5, 2.5, 2.51, 30.0):
        assert mechanism.beyond(distance) == pytest.approx(float(mass[length > distance].sum()), abs=1e-12)
    assert mechanism.beyond(-0.1) == 1
    tenths = PlanarLaplace(3, "1/10")
    assert tenths.beyond(0.3) == tenths.beyond(0.301) < tenths.beyond(0.299)  # 0.3/0.1 < 3 as floats
    fine, nearly = PlanarLaplace("1/100", 1), PlanarLaplace("1/20", 1)
    assert fine.beyond(300) == pytest.approx(4 * math.exp(-3), abs=1e-12)
    for x in np.linspace(0, 6, 10):
        assert nearly.beyond(20 * x) == pytest.approx((1 + x) * math.exp(-x), abs=0.004)


# What is taken and refused ------------------------------------------------------------------------


@both
def test_a_release_has_the_shape_of_its_points(kind: Planar) -> None:
    """Points of shape (..., 2) come back as int64 of that shape, with noise that the points do not change."""
    mechanism = kind(EPSILON, QUANTUM)
    for shape in [(2,), (5, 2), (3, 4, 2), (0, 2)]:
        released = mechanism.release(np.ones(shape, np.int32), bits=SeededBits(4))
        assert released.shape == shape
        assert released.dtype == np.int64
    noise = mechanism.release(np.zeros((50, 2), np.int64), bits=SeededBits(2))
    points = np.arange(100).reshape(50, 2) * 10**12
    assert (mechanism.release(points, bits=SeededBits(2)) - points == noise).all()
    assert (mechanism.release(points) != mechanism.release(points)).any()


@both
def test_what_is_no_point_is_refused(kind: Planar) -> None:
    """Floats, other shapes and values beyond 2^62 quanta are refused."""
    mechanism = kind(EPSILON, QUANTUM)
    with pytest.raises(TypeError, match="whole quanta"):
        mechanism.release(np.zeros((3, 2)))
    for shape in [(), (3,), (2, 1)]:
        with pytest.raises(ValueError, match="points have shape"):
            mechanism.release(np.zeros(shape, np.int64))
    with pytest.raises(ValueError, match="beyond"):
        mechanism.release([[0, 2**62 + 1]])


@both
def test_parameters_are_exact_and_above_zero(kind: Planar) -> None:
    """A float parameter or distance is a TypeError that names it; zero and below are ValueErrors."""
    good: dict[str, Any] = {"epsilon": "1/3", "quantum": "0.5"}
    assert kind(**good) == kind(EPSILON, QUANTUM)
    for name in good:
        with pytest.raises(TypeError, match=f"{name} must be exact"):
            kind(**{**good, name: 0.25})
        with pytest.raises(ValueError, match=f"{name} must be positive"):
            kind(**{**good, name: 0})
    with pytest.raises(TypeError, match="distance must be exact"):
        kind(**good).loss(0.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="not be negative"):
        kind(**good).loss_before_rounding(-1)
