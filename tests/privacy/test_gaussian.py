"""Discrete Gaussian noise: its law, rho at a radius, and the least delta for every epsilon."""

import math
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

import mpmath
import numpy as np
import opendp.prelude as dp
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from meteragent.privacy.bits import SeededBits
from meteragent.privacy.mechanism.base import Mechanism, MetricMechanism
from meteragent.privacy.mechanism.gaussian import DiscreteGaussian
from meteragent.privacy.sampling.gaussian import discrete_gaussian

# mu of the Gaussian that is (epsilon, delta), by Balle and Wang 2018, Theorem 8, to 12 digits.
MU = {
    ("0.1", "1e-6"): 0.0275446502438,
    ("0.5", "1e-9"): 0.0936864968178,
    ("1", "1e-6"): 0.236704380663,
    ("1", "1e-9"): 0.181974807295,
    ("2", "1e-6"): 0.448334740395,
    ("4", "1e-6"): 0.83785875709,
    ("4", "1e-9"): 0.672131690081,
}


def of_variance(sigma2: Fraction, n: int = 1) -> DiscreteGaussian:
    """The mechanism with this sigma^2, a radius and a quantum of 1."""
    return DiscreteGaussian(n / (2 * sigma2), 1, 1, n)


# The sampler --------------------------------------------------------------------------------------


@given(st.integers(-(10**6), 10**6), st.integers(0, 2000))
def test_the_envelope_touches_the_law_at_two_integers(z: int, m: int) -> None:
    """z^2 is (2m+1)|z| - m(m+1) + k with k = (|z|-m)(|z|-m-1) >= 0, and 0 at m and m+1 only."""
    k = (abs(z) - m) * (abs(z) - m - 1)
    assert z * z == (2 * m + 1) * abs(z) - m * (m + 1) + k
    assert k >= 0
    assert (k == 0) == (abs(z) in (m, m + 1))


@pytest.mark.parametrize(
    "sigma2", [Fraction(1, 100), Fraction(1, 3), Fraction(99, 100), Fraction(1), Fraction(12)]
)
def test_more_than_half_of_the_proposals_are_kept(sigma2: Fraction) -> None:
    """The sum of the law over that of the envelope, b = (2m+1)/(2 sigma^2): the work is bounded."""
    variance, m = float(sigma2), math.isqrt(int(sigma2))
    z = np.arange(-200, 201)
    law = float(np.exp(-(z**2) / (2 * variance)).sum())
    envelope = math.exp(m * (m + 1) / (2 * variance)) / math.tanh((2 * m + 1) / (4 * variance))
    assert 0.5 < law / envelope <= 1 + 1e-12


def test_the_sampler_gives_as_many_numbers_as_asked() -> None:
    """The shape is (count,), for none too, as int64."""
    for count in (0, 1, 1000):
        drawn = discrete_gaussian(count, Fraction(30), SeededBits(1))
        assert drawn.shape == (count,)
        assert drawn.dtype == np.int64


def test_a_variance_that_cannot_be_drawn_is_refused() -> None:
    """2^44 quanta^2 or more, zero and floats are refused."""
    with pytest.raises(ValueError, match="take a coarser quantum"):
        discrete_gaussian(1, Fraction(1 << 44), SeededBits(1))
    with pytest.raises(ValueError, match=r"sigma\^2 must be positive"):
        discrete_gaussian(1, Fraction(0), SeededBits(1))
    with pytest.raises(TypeError, match=r"sigma\^2 must be exact"):
        discrete_gaussian(1, 2.5, SeededBits(1))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="take a coarser quantum"):
        DiscreteGaussian("1/2", 1 << 22, 1, 1)
    assert DiscreteGaussian("1/2", (1 << 22) - 1, 1, 1).sigma2 < 1 << 44
    assert np.abs(discrete_gaussian(10, Fraction((1 << 44) - 1), SeededBits(1))).max() > 1 << 20


# rho ----------------------------------------------------------------------------------------------


def test_rho_is_what_is_promised_at_the_radius() -> None:
    """sigma^2 = n ceil(r/q)^2/(2 rho), and zcdp(r) is rho exactly, also where q does not divide r."""
    mechanism = DiscreteGaussian("1/8", 220, "0.5", 48)
    assert mechanism.sigma2 == 48 * 440**2 * 4
    assert mechanism.zcdp(220) == Fraction(1, 8)
    assert mechanism.zcdp(110) == Fraction(1, 32)
    assert mechanism.zcdp("109.6") == Fraction(1, 32)
    assert mechanism.zcdp(0) == 0
    assert DiscreteGaussian("1/8", "0.7", "0.5", 3).zcdp("0.7") == Fraction(1, 8)
    assert mechanism.sd == pytest.approx(0.5 * math.sqrt(48 * 4) * 440)


@pytest.mark.parametrize("sigma2", [Fraction(1, 3), Fraction(2), Fraction(30)])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_renyi_s_divergence_is_at_most_alpha_rho(sigma2: Fraction, k: int) -> None:
    """D_alpha(P(.|x), P(.|x+k)) <= alpha rho(k), equal where alpha k is whole (CKS 2020, Proposition 5)."""
    mechanism, y = of_variance(sigma2), np.arange(-150, 151)[:, np.newaxis]
    p, q = mechanism.log_mass(y, [0]), mechanism.log_mass(y, [k])
    for alpha in (1.2, 1.5, 2.0, 5.0):
        divergence = math.log(float(np.exp(alpha * p + (1 - alpha) * q).sum())) / (alpha - 1)
        bound = alpha * float(mechanism.zcdp(k))
        assert divergence <= bound + 1e-11
        if alpha * k == int(alpha * k):
            assert divergence == pytest.approx(bound, rel=1e-9)


@pytest.mark.parametrize("n", [1, 4])
def test_rho_is_opendp_s(n: int) -> None:
    """OpenDP's discrete Gaussian of the same scale has the same rho, at d_2 = sqrt(n) d."""
    dp.enable_features("contrib")
    theirs: Any = dp.m.make_gaussian(
        dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float), scale=7.0
    )
    mechanism = of_variance(Fraction(49), n)
    assert float(mechanism.zcdp(3)) == pytest.approx(theirs.map(3 * math.sqrt(n)), rel=1e-12)


# delta --------------------------------------------------------------------------------------------


@cache
def outputs(n: int, reach: int) -> NDArray[np.int64]:
    """All of a box."""
    return np.array(list(product(range(-reach, reach + 1), repeat=n)))


def brute_delta(mechanism: DiscreteGaussian, shift: tuple[int, ...], epsilon: float) -> float:
    """The sum of max(0, P - e^epsilon P') over a box."""
    box = outputs(mechanism.n, {1: 200, 2: 60, 3: 16}[mechanism.n])
    p, q = mechanism.log_mass(box, [0] * mechanism.n), mechanism.log_mass(box, shift)
    return float(np.maximum(np.exp(p) - np.exp(epsilon + q), 0).sum())


@pytest.mark.parametrize(
    ("n", "k", "sigma2"),
    [
        (1, 1, "1"),
        (1, 3, "20"),
        (2, 1, "1"),
        (2, 3, "9/50"),
        (2, 2, "11/2"),
        (2, 1, "60"),
        (3, 2, "2"),
        (3, 1, "1"),
    ],
)
def test_delta_is_the_least_one(n: int, k: int, sigma2: str) -> None:
    """`delta` is the hockey-stick divergence of windows k quanta apart in each number, on either path."""
    mechanism = of_variance(Fraction(sigma2), n)
    for epsilon in ("0", "1/2", "2", "5"):
        exact = brute_delta(mechanism, (k,) * n, float(Fraction(epsilon)))
        assert mechanism.delta(epsilon, k) == pytest.approx(exact, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("sigma2", ["1/5", "1", "6"])
def test_windows_apart_in_every_number_are_the_worst(sigma2: str) -> None:
    """No shift of at most k quanta in each number has a larger delta than (k, k)."""
    mechanism = of_variance(Fraction(sigma2), 2)
    for epsilon in ("0", "1/2", "3"):
        worst = mechanism.delta(epsilon, 2)
        for shift in product(range(-2, 3), repeat=2):
            assert brute_delta(mechanism, shift, float(Fraction(epsilon))) <= worst + 1e-12


@pytest.mark.parametrize("n", [1, 30])
@pytest.mark.parametrize(("epsilon", "delta"), MU)
def test_on_a_fine_lattice_delta_is_the_analytic_gaussian_s(epsilon: str, delta: str, n: int) -> None:
    """At sigma = sqrt(n) r/mu it is Balle and Wang's: by the sum (300 quanta) and by its limit (20,000)."""
    for radius, tolerance in ((300, 1e-4), (20_000, 1e-7)):
        mechanism = DiscreteGaussian(Fraction(MU[epsilon, delta]) ** 2 / 2, radius, 1, n)
        assert mechanism.delta(epsilon, radius) == pytest.approx(float(delta), rel=tolerance)


def test_the_sum_and_its_limit_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same delta, whether 2^20 terms are added up or the integral is taken."""
    mechanism = DiscreteGaussian("1/10", 5000, 1, 2)
    added = [mechanism.delta(epsilon, 5000) for epsilon in (0, 1, 3)]
    monkeypatch.setattr("meteragent.privacy.mechanism.gaussian._TERMS_LIMIT", 1)
    assert [mechanism.delta(epsilon, 5000) for epsilon in (0, 1, 3)] == pytest.approx(added, rel=1e-7)


@pytest.mark.parametrize(
    ("sigma", "k", "n", "epsilon"),
    [
        (7, 3, 1, "12"),
        (100, 1_250, 4, "700"),
        (40, 1_200, 1, "900"),
        (22_361, 162_935, 2, "343.4"),
        (20_000, 100_000, 9, "100"),
        (100_000, 100, 1, "0.01"),
        (100_000, 1_000, 1, "0"),
        (30_000, 990_000, 1, "1200"),
    ],
)
def test_a_small_delta_is_as_exact(sigma: int, k: int, n: int, epsilon: str) -> None:
    """Tails that lie beyond the range of floats are not lost: the sum and the integral are mpmath's."""
    mechanism = of_variance(Fraction(sigma) ** 2, n)
    with mpmath.workdps(60):
        eps, s2 = mpmath.mpf(epsilon), mpmath.mpf(sigma) ** 2
        if sigma < 1000:
            edge = (n * k * k - 2 * s2 * eps) / (2 * k)
            sum_s2 = n * s2
            points = range(int(mpmath.floor(edge)) - 60 * sigma, int(mpmath.ceil(edge)))
            weights = (
                (mpmath.exp(-(mpmath.mpf(z) ** 2) / (2 * sum_s2)), (z - edge) * k / s2) for z in points
            )
            total = mpmath.sqrt(2 * mpmath.pi * sum_s2)
            exact = mpmath.fsum(w * -mpmath.expm1(x) for w, x in weights) / total
        else:
            mu = k * mpmath.sqrt(n) / sigma
            left, right = mu / 2 - eps / mu, -mu / 2 - eps / mu
            exact = mpmath.ncdf(left) - mpmath.exp(eps) * mpmath.ncdf(right)
    assert exact > 1e-300
    assert mechanism.delta(epsilon, k) == pytest.approx(float(exact), rel=1e-7, abs=0)


@pytest.mark.parametrize("epsilon", ["0.5", "1", "2"])
def test_delta_is_below_dp_accounting_s_and_near_it(epsilon: str) -> None:
    """dp-accounting rounds losses up on a grid: its delta is a little above, never below."""
    theirs = pld.from_discrete_gaussian_mechanism(7.0, sensitivity=3, value_discretization_interval=1e-4)
    above = theirs.get_delta_for_epsilon(float(epsilon))
    ours = of_variance(Fraction(49)).delta(epsilon, 3)
    assert ours <= above * (1 + 1e-9)
    assert ours == pytest.approx(above, rel=1e-3)


@given(st.fractions(Fraction(1, 20), 40), st.integers(1, 5), st.integers(1, 3), st.fractions(0, 12))
def test_delta_is_a_probability_that_falls_with_epsilon_and_grows_with_distance(
    sigma2: Fraction, k: int, n: int, epsilon: Fraction
) -> None:
    """0 <= delta <= bound by rho <= 1; more epsilon needs no more delta; further apart needs no less."""
    mechanism = of_variance(sigma2, n)
    delta = mechanism.delta(epsilon, k)
    assert 0 <= delta <= mechanism.delta_bound(epsilon, k) * (1 + 1e-9) + 1e-300
    assert mechanism.delta_bound(epsilon, k) <= 1
    assert mechanism.delta(epsilon + Fraction(1, 7), k) <= delta
    assert mechanism.delta(epsilon, k + 1) >= delta * (1 - 1e-9)


def test_nothing_is_lost_between_equal_windows() -> None:
    """At distance 0 every delta is 0."""
    mechanism = DiscreteGaussian("1/8", 220, 1, 4)
    assert mechanism.delta(0, 0) == 0
    assert mechanism.delta_bound(0, 0) == 0


def test_the_bound_by_rho_is_corollary_13_and_opendp_s() -> None:
    """The infimum over alpha, found by mpmath to 10 digits; OpenDP's epsilon at delta = 1e-6 has it."""
    mechanism = of_variance(Fraction(49))
    rho = float(mechanism.zcdp(3))
    for epsilon in ("0.5", "2", "6"):
        eps = float(epsilon)

        def log_delta(alpha: Any, eps: float = eps) -> Any:
            return (
                (alpha - 1) * (alpha * rho - eps) - mpmath.log(alpha - 1) + alpha * mpmath.log(1 - 1 / alpha)
            )

        best = mpmath.findroot(lambda alpha: mpmath.diff(log_delta, alpha), 1.2 + eps / (2 * rho))
        assert mechanism.delta_bound(epsilon, 3) == pytest.approx(
            float(mpmath.exp(log_delta(best))), rel=1e-4
        )
    dp.enable_features("contrib")
    theirs: Any = dp.c.make_zCDP_to_approxDP(
        dp.m.make_gaussian(dp.atom_domain(T=int), dp.absolute_distance(T=int), scale=7.0)
    )
    epsilon_at = Fraction(theirs.map(3).epsilon(delta=1e-6))
    assert mechanism.delta_bound(epsilon_at, 3) == pytest.approx(1e-6, rel=1e-3)


@pytest.mark.parametrize("rho", ["1/100", "1/1000000", "1/100000000"])
def test_the_bound_by_rho_is_the_infimum_at_epsilon_zero(rho: str) -> None:
    """The best order is near 1/sqrt(2 rho), far above that of a large epsilon."""
    mechanism = DiscreteGaussian(rho, 1, 1, 1)
    value = float(Fraction(rho))

    def log_delta(s: float) -> float:
        """Return ln of the bound at alpha = s + 1."""
        return s * (s + 1) * value - math.log(s) + (s + 1) * math.log(s / (s + 1))

    best = min(log_delta(math.exp(k / 1000)) for k in range(-5000, 20_000))
    assert mechanism.delta_bound(0, 1) == pytest.approx(math.exp(best), rel=1e-4)


# The rest -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sigma2", [Fraction(1, 50), Fraction(1, 2), Fraction(49, 10), Fraction(5), Fraction(80)]
)
def test_the_mass_is_that_of_the_law(sigma2: Fraction) -> None:
    """The log is -|y-x|^2/(2 sigma^2) - n ln sum e^(-z^2/(2 sigma^2)), to 1e-12; its variance is sd^2."""
    mechanism, y = of_variance(sigma2), np.arange(-400, 401)[:, np.newaxis]
    with mpmath.workdps(30):
        q = mpmath.exp(-1 / (2 * mpmath.mpf(sigma2.numerator) / sigma2.denominator))
        log_normaliser = float(mpmath.log(mpmath.jtheta(3, 0, q)))
    expected = -(np.arange(-400, 401) ** 2) / (2 * float(sigma2)) - log_normaliser
    assert np.allclose(mechanism.log_mass(y, [0]), expected, rtol=1e-13, atol=1e-12)
    mass = np.exp(mechanism.log_mass(y, [0]))
    assert mechanism.sd**2 == pytest.approx(float((mass * y[:, 0] ** 2).sum()), rel=1e-11)
    twice = DiscreteGaussian(mechanism.rho * 2, 1, 1, 2)
    assert float(twice.log_mass([3, -2], [1, 1])) == pytest.approx(
        float(mechanism.log_mass([3], [1]) + mechanism.log_mass([-2], [1]))
    )


def test_it_is_a_mechanism_but_not_a_pure_one() -> None:
    """It has no loss: no epsilon holds at any distance."""
    mechanism = DiscreteGaussian("1/8", 220, 1, 4)
    assert isinstance(mechanism, Mechanism)
    assert not isinstance(mechanism, MetricMechanism)
    assert mechanism.space.n == 4


def test_a_release_has_the_shape_of_its_windows() -> None:
    """Windows of shape (..., n) come back as int64 of that shape; the noise does not depend on them."""
    mechanism = DiscreteGaussian("1/8", 3, 1, 3)
    for shape in [(3,), (4, 3), (2, 4, 3), (0, 3)]:
        released = mechanism.release(np.ones(shape, np.int16), bits=SeededBits(1))
        assert released.shape == shape
        assert released.dtype == np.int64
    noise = mechanism.release(np.zeros((40, 3), np.int64), bits=SeededBits(2))
    windows = np.arange(120).reshape(40, 3) * 10**12
    assert (mechanism.release(windows, bits=SeededBits(2)) - windows == noise).all()
    assert (mechanism.release(windows) != mechanism.release(windows)).any()
    with pytest.raises(TypeError, match="whole quanta"):
        mechanism.release(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="points have shape"):
        mechanism.release([1, 2])


def test_parameters_are_exact_and_above_zero() -> None:
    """A float parameter is a TypeError that names it; zero and below are ValueErrors."""
    good: dict[str, Any] = {"rho": "1/8", "radius": 220, "quantum": "0.5", "n": 4}
    for name in ("rho", "radius", "quantum"):
        with pytest.raises(TypeError, match=f"{name} must be exact"):
            DiscreteGaussian(**{**good, name: 0.25})
        with pytest.raises(ValueError, match=f"{name} must be positive"):
            DiscreteGaussian(**{**good, name: 0})
    with pytest.raises(ValueError, match="n must be at least 1"):
        DiscreteGaussian(**{**good, "n": 0})
    mechanism = DiscreteGaussian(**good)
    for wrong in (mechanism.delta, mechanism.delta_bound):
        with pytest.raises(TypeError, match="epsilon must be exact"):
            wrong(0.5, 1)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="epsilon must not be negative"):
            wrong(-1, 1)
        with pytest.raises(ValueError, match="not be negative"):
            wrong(1, -1)
