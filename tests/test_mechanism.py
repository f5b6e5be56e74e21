"""The l_inf Laplace mechanism keeps the contract of mechanisms, and its own."""

from fractions import Fraction
from itertools import product

import mpmath
import numpy as np
import pytest

from meteragent.privacy import LInfLaplace, SeededBits, radius, uniform
from meteragent.privacy.sampling.radius import envelope_of
from tests.contracts.mechanism_contract import Mechanism, MechanismContract


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
    assert LInfLaplace(2, 3, 1).a == Fraction(6)  # type: ignore[arg-type]


def test_noise_beyond_int64_is_refused_when_the_mechanism_is_made() -> None:
    """A quantum so fine that n/a >= 2^45 is a ValueError that says what to do."""
    with pytest.raises(ValueError, match="take a coarser quantum"):
        LInfLaplace(Fraction(1, 1000), Fraction(1, 10**12), 1)


def test_the_window_in_parts_is_the_window_at_once() -> None:
    """One R by `radius`, then one `draw` per slot, is what the samplers of THEORY 2.1 give."""
    mechanism = LInfLaplace(Fraction(1, 10), Fraction(1), 6)
    bits, same = SeededBits(5), SeededBits(5)
    for _ in range(50):
        cube = mechanism.radius(bits)
        assert cube == radius(6, Fraction(1, 10), same)
        drawn = [mechanism.draw(cube, bits) for _ in range(6)]
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
