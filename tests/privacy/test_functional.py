"""Noise for curves through k functionals (meteragent.privacy.mechanism.functional; THEORY 4.1)."""

from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent.privacy.bits import SeededBits
from meteragent.privacy.curve import Means, Projection, block_means, hat_means
from meteragent.privacy.mechanism.functional import Functional
from meteragent.privacy.mechanism.laplace import LInfLaplace
from meteragent.privacy.space import Categories, Curve, Curves, Windows, polyline, steps

EPSILON, QUANTUM = Fraction(1, 3), Fraction(1, 2)
NOISE = LInfLaplace(EPSILON, QUANTUM, 3)
FUNCTIONALS: list[Means | Projection] = [
    block_means([0, 1, 4, 6]),
    hat_means([0, 2, 6]),
    Projection(6, [0, 3, "4.5"]),
]
OUTPUTS = np.array(list(product(range(-12, 13, 3), repeat=3)))


@pytest.mark.parametrize("functionals", FUNCTIONALS)
def test_curves_are_no_easier_to_tell_than_the_loss_says(functionals: Means | Projection) -> None:
    """P(y | f) <= e^loss(sup|f - g|) P(y | g), on the curves that the space gives to try; it is reached."""
    mechanism = Functional(NOISE, functionals)
    worst: dict[Fraction, float] = {}
    for f, g in mechanism.space.pairs():
        distance = Fraction(mechanism.space.metric(f, g))
        ratio = (mechanism.log_mass(OUTPUTS, f) - mechanism.log_mass(OUTPUTS, g)).max()
        worst[distance] = max(worst.get(distance, 0), float(ratio))
    assert sorted(worst) == [1, 5]
    for distance, ratio in worst.items():
        assert ratio == pytest.approx(float(mechanism.loss(distance)), rel=1e-9)
        assert mechanism.loss(distance) == EPSILON * distance


VALUES = st.lists(st.integers(-20, 20).map(lambda tenths: Fraction(tenths, 10)), min_size=3, max_size=3)


@given(first=VALUES, second=VALUES, functionals=st.sampled_from(FUNCTIONALS))
def test_rounding_costs_at_most_the_next_quantum(
    first: list[Fraction], second: list[Fraction], functionals: Means | Projection
) -> None:
    """For any two curves, whose functionals are not whole quanta, the loss at their distance holds."""
    mechanism = Functional(NOISE, functionals)
    f, g = steps([0, 2, 3, 6], first), polyline([0, 5, 6], second)
    ratio = (mechanism.log_mass(OUTPUTS, f) - mechanism.log_mass(OUTPUTS, g)).max()
    assert ratio <= float(mechanism.loss(Fraction(mechanism.space.metric(f, g)))) + 1e-9


def test_the_loss_counts_rounding_and_sensitivity() -> None:
    """At a distance d it is that of the mechanism at the next quantum above Delta d."""
    once = Functional(NOISE, FUNCTIONALS[0])
    quantum_loss = EPSILON * QUANTUM
    losses = {Fraction(0): 0, Fraction(1, 10): 1, Fraction(1, 2): 1, Fraction(51, 100): 2, Fraction(7): 14}
    assert {d: once.loss(d) / quantum_loss for d in losses} == losses
    heavy = Means(Curves(6), tuple(type(m)(m.pieces * 2) for m in block_means([0, 1, 4, 6]).means))
    assert heavy.sensitivity == 2
    assert Functional(NOISE, heavy).loss(Fraction(7)) == 28 * quantum_loss
    with pytest.raises(TypeError, match="distance must be exact"):
        once.loss(0.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="distance must not be negative"):
        once.loss("-1/10")


def test_a_release_is_the_mechanism_s_of_the_rounded_functionals() -> None:
    """Rounded half up to quanta, then noise; a row for each curve, and none for none."""
    mechanism = Functional(NOISE, FUNCTIONALS[0])
    curves = [steps([0, 1, 4, 6], ["0.24", "0.25", "-0.25"]), polyline([0, 6], [0, 6])]
    windows = [(0, 1, 0), (1, 5, 10)]
    assert [mechanism.window(f) for f in curves] == windows
    released = mechanism.release(curves, bits=SeededBits(5))
    assert (released == NOISE.release(windows, bits=SeededBits(5))).all()
    assert mechanism.release([]).shape == (0, 3)


@pytest.mark.parametrize("curve", [steps([0, 7], [1]), (1, 2, 3)])
def test_what_is_no_curve_of_the_space_is_refused(curve: Any) -> None:
    """A curve of a different duration, or a value that is not a curve, is refused."""
    mechanism = Functional(NOISE, FUNCTIONALS[0])
    with pytest.raises(ValueError, match=r"a curve on \[0, 6\] s"):
        mechanism.release([curve])


class Elsewhere:
    """A mechanism on another space."""

    def __init__(self, space: Any) -> None:
        self.space = space


@pytest.mark.parametrize(
    "space", [Windows(2), Windows(3, metric="l1"), Windows(3, low=0, high=9), Categories("abc")]
)
def test_only_a_mechanism_for_as_many_numbers_under_d_inf_will_do(space: Any) -> None:
    """Other lengths, other norms, bounds that functionals may leave, and other spaces are refused."""
    with pytest.raises(ValueError, match=r"Windows\(3, ..\) under d_inf"):
        Functional(Elsewhere(space), FUNCTIONALS[0])  # type: ignore[arg-type]


def test_the_law_of_a_curve_is_that_of_its_window() -> None:
    """Curves with the same functionals are not told apart at all."""
    mechanism = Functional(NOISE, FUNCTIONALS[0])
    f: Curve = steps([0, 1, 4, 6], [1, 2, 3])
    g = steps([0, "0.5", 1, 4, 6], [0, 2, 2, 3])
    assert (mechanism.log_mass(OUTPUTS, f) == NOISE.log_mass(OUTPUTS, (2, 4, 6))).all()
    assert (mechanism.log_mass(OUTPUTS, f) == mechanism.log_mass(OUTPUTS, g)).all()
