"""The l_inf Laplace mechanism keeps the contract of mechanisms, and its own."""

from decimal import Decimal
from fractions import Fraction
from itertools import product

import mpmath
import numpy as np
import pytest

from meteragent.privacy import LInfLaplace, SeededBits, noise_bound, uniform
from meteragent.privacy.mechanism.base import MetricMechanism
from meteragent.privacy.sampling.noise_bound import envelope_of
from meteragent.privacy.space import Windows
from tests.support.mechanism_contract import Mechanism, MechanismContract


class TestLInfLaplace(MechanismContract):
    """The contract, with the law computed from the weights that the sampler itself compares with."""

    def make(self, epsilon: Fraction, quantum: Fraction, n: int) -> Mechanism:
        """An l_inf Laplace mechanism."""
        return LInfLaplace(epsilon, quantum, n)

    def probabilities(self, mechanism: Mechanism, reach: int) -> dict[tuple[int, ...], mpmath.mpf]:
        """P(z) = sum over R >= max|z_i| of w(R)/(2R+1)^n."""
        assert isinstance(mechanism, LInfLaplace)
        n, envelope = mechanism.n, envelope_of(mechanism.n, mechanism.a)
        with mpmath.workdps(60):
            weights = [envelope.weight_bounds(r, 200)[0] for r in range(int((n + 120) / mechanism.a))]
            cells = [mpmath.mpf(weight) / (2 * r + 1) ** n for r, weight in enumerate(weights)]
            tails = [mpmath.fsum(cells[largest:]) for largest in range(reach + 1)]
        box = product(range(-reach, reach + 1), repeat=n)
        return {z: tails[max(abs(value) for value in z)] for z in box}


def test_a_is_epsilon_times_quantum() -> None:
    """The noise in quanta has the parameter a = epsilon q; ints are exact too."""
    assert LInfLaplace(Fraction(1, 220), Fraction(1, 10), 4).a == Fraction(1, 2200)
    assert LInfLaplace(2, 3, 1).a == Fraction(6)


def test_parameters_may_be_written_in_any_exact_way() -> None:
    """Strings, Decimals, ints and Fractions that are equal make equal mechanisms."""
    written = [LInfLaplace(e, q, 2) for e, q in (("1/4", "0.1"), (Decimal("0.25"), Fraction(1, 10)))]
    assert written[0] == written[1] == LInfLaplace(Fraction(1, 4), Fraction(1, 10), 2)
    assert len(set(written)) == 1
    assert repr(written[0]) == "LInfLaplace(epsilon=Fraction(1, 4), quantum=Fraction(1, 10), n=2)"
    assert written[0].loss("0.15") == Fraction(1, 20)


def test_its_space_is_windows_at_d_inf() -> None:
    """Points are n whole quanta; their distance, in the unit, is what `loss` takes."""
    mechanism = LInfLaplace("1/220", "1/2", 3)
    assert mechanism.space == Windows(3, "1/2")
    assert mechanism.space.metric([0, 0, 5], [4, 0, 1]) == 2
    assert isinstance(mechanism, MetricMechanism)


# The law ------------------------------------------------------------------------------------------


def log_total(n: int, a: Fraction) -> mpmath.mpf:
    """The log of the sum over Z^n of e^(-a max|z_i|): over R as it stands, or by Poisson's formula."""
    x = mpmath.mpf(a.numerator) / a.denominator
    if n < 48 and a >= Fraction(1, 10):
        terms = range(int((n + 250) / a * 3) + 20)
        total = mpmath.fsum((2 * r + 1) ** n * mpmath.exp(-x * r) for r in terms)
        return mpmath.log(total * -mpmath.expm1(-x))
    waves = (mpmath.re((x / (x + 2j * mpmath.pi * m)) ** (n + 1)) * (-1) ** m for m in range(1, 400))
    integral = mpmath.loggamma(n + 1) - (n + 1) * mpmath.log(x)
    peaks = integral + mpmath.log(1 + 2 * mpmath.fsum(waves))
    return peaks + n * mpmath.log(2) + x / 2 + mpmath.log(-mpmath.expm1(-x))


@pytest.mark.parametrize("n", [2, 3, 48, 96, 1440])
@pytest.mark.parametrize("a", ["1/100000", "1/2000", "1/1000", "1/220", "1/60", "1/2", "5", "50"])
def test_the_log_mass_is_right_to_twelve_digits(n: int, a: str) -> None:
    """At z = 0 the log of the mass is -ln Z, to 1e-12 of itself, for a from 1e-5 to 50, also near 0."""
    mechanism, origin = LInfLaplace(a, 1, n), np.zeros(n, np.int64)
    with mpmath.workdps(60):
        expected = -log_total(n, Fraction(a))
        assert abs(float(mechanism.log_mass(origin, origin) / expected) - 1) < 1e-12


@pytest.mark.parametrize("a", ["1/100000", "1/220", "1/2", "50"])
def test_the_log_mass_of_a_number_is_discrete_laplace(a: str) -> None:
    """For n = 1, P(z) = tanh(a/2) e^(-a|z|)."""
    mechanism = LInfLaplace(a, 1, 1)
    x = mpmath.mpf(Fraction(a).numerator) / Fraction(a).denominator
    with mpmath.workdps(60):
        for z in (0, 1, -7, 1000):
            expected = mpmath.log(mpmath.tanh(x / 2)) - x * abs(z)
            assert abs(float(mechanism.log_mass([z + 3], [3]) / expected) - 1) < 1e-12


def test_masses_add_up() -> None:
    """Over a box that holds nearly all of it, the mass is 1; it depends on max|z_i| alone."""
    mechanism = LInfLaplace(1, 1, 2)
    outputs = np.array(list(product(range(-40, 41), repeat=2))).reshape(81, 81, 2)
    point = np.array([5, -3])
    log_mass = mechanism.log_mass(outputs + point, point)
    assert log_mass.shape == (81, 81)
    assert np.exp(log_mass).sum() == pytest.approx(1, abs=1e-14)
    assert log_mass[40 + 3, 40 - 2] == log_mass[40 - 3, 40 + 1]


def test_the_mass_of_what_is_no_window_is_refused() -> None:
    """A point is one window; outputs are windows."""
    mechanism = LInfLaplace(1, 1, 2)
    with pytest.raises(ValueError, match="the point is one window"):
        mechanism.log_mass([[0, 0]], [[0, 0]])
    with pytest.raises(ValueError, match="points have shape"):
        mechanism.log_mass([0, 0, 0], [0, 0])
    with pytest.raises(TypeError, match="whole quanta"):
        mechanism.log_mass([0.5, 0], [0, 0])


# Releases -----------------------------------------------------------------------------------------


def test_noise_beyond_int64_is_refused_when_the_mechanism_is_made() -> None:
    """A quantum so fine that n/a >= 2^45 is a ValueError that says what to do."""
    with pytest.raises(ValueError, match="take a coarser quantum"):
        LInfLaplace(Fraction(1, 1000), Fraction(1, 10**12), 1)


def test_the_window_in_parts_is_the_window_at_once() -> None:
    """One R by `draw_noise_bound`, then one `draw_slot` per slot, is what the samplers of THEORY 2.1 give."""
    mechanism = LInfLaplace(Fraction(1, 10), Fraction(1), 6)
    bits, same = SeededBits(5), SeededBits(5)
    for _ in range(50):
        cube = mechanism.draw_noise_bound(bits)
        assert cube == noise_bound(6, Fraction(1, 10), same)
        drawn = [mechanism.draw_slot(cube, bits) for _ in range(6)]
        assert drawn == [uniform(cube, same) for _ in range(6)]
        assert max(abs(z) for z in drawn) <= cube


def test_the_loss_of_the_default_preset_is_its_level() -> None:
    """Level 1 at 220 W: windows that differ by 220 W in any slots lose exactly 1, by 440 W 2."""
    mechanism = LInfLaplace(Fraction(1, 220), Fraction(1), 1)
    assert mechanism.loss(Fraction(220)) == 1
    assert mechanism.loss(Fraction(440)) == 2
    assert mechanism.loss(Fraction(2199, 10)) == 1


def test_each_row_has_its_own_radius() -> None:
    """Rows are windows: noise within a row shares one R, rows are independent."""
    mechanism = LInfLaplace(Fraction(1, 50), Fraction(1), 200)
    noise = mechanism.release(np.zeros((400, 200), np.int64), bits=SeededBits(9))
    largest = np.abs(noise).max(axis=1).astype(float)
    # max|z_i| ~ Gamma(n, 1/a): mean n/a, sd sqrt(n)/a (THEORY 1.2); with one R for all it would be ~ 1/a.
    assert largest.mean() == pytest.approx(200 * 50, rel=0.03)
    assert largest.std() == pytest.approx(200**0.5 * 50, rel=0.3)


def test_an_array_of_python_lists_is_an_array() -> None:
    """A library user may pass lists of ints."""
    mechanism = LInfLaplace(Fraction(100), Fraction(1), 2)
    assert mechanism.release([[5, 7], [-1, 0]]).tolist() == [[5, 7], [-1, 0]]
