"""Noise on numbers: the laws, what they promise, and the errors they make."""

from fractions import Fraction
from importlib import import_module
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent.privacy import LInfLaplace, PlanarLaplace, PlanarManhattan, SeededBits
from meteragent.privacy.mechanism.base import MetricMechanism, PairMechanism
from meteragent.privacy.mechanism.number import Laplace, TruncatedGeometric
from meteragent.privacy.mechanism.sanitisation import Calibration, LaplaceSanitisation
from meteragent.privacy.space import Numbers

ENDS = [0.622459331202, 0.148550677884, 0.0901005406575, 0.0546487403655]
ENDS += [0.0331461365463, 0.0201041480664, 0.0309904252788]
INSIDE = [0.228989990914, 0.148550677884, 0.244918662404, 0.148550677884]
INSIDE += [0.0901005406575, 0.0546487403655, 0.0842407098915]
ROWS = {0: ENDS, 2: INSIDE, 6: ENDS[::-1]}  # THEORY's oracles, section TG: a = 1/2, k = 6
ERRORS = [
    (Fraction(1, 2), 1.91903475133),
    (Fraction(1, 100), 99.9983333528),
]  # discrete_geometric: dlap_E_abs

positive = st.fractions(Fraction(1, 1000), 20, max_denominator=1000)
deltas = st.fractions(0, Fraction(99, 100), max_denominator=10**9)


def sanitisation(
    width: int = 50, epsilon: Any = 1, delta: Any = "0.01", calibration: Calibration = "holohan"
) -> LaplaceSanitisation:
    """A sanitisation of 0 .. width/10."""
    return LaplaceSanitisation(Numbers(0, width, "0.1"), epsilon, delta, calibration)


ALL = [Laplace("1/3", "1/2"), TruncatedGeometric("1/3", "1/2", 9), sanitisation()]


# The Laplace mechanism ----------------------------------------------------------------------------


@given(positive, positive, st.integers(-60, 60), st.integers(-60, 60), st.integers(-60, 60))
def test_the_odds_change_by_the_loss_at_most(e: Fraction, q: Fraction, x: int, other: int, y: int) -> None:
    """P(y | x)/P(y | x') <= e^loss(d), d = q |x - x'|, with equality at y = x (Definition 1)."""
    mechanism = Laplace(e, q)
    loss = float(mechanism.loss(q * abs(x - other)))
    changes = mechanism.log_mass([y, x], x) - mechanism.log_mass([y, x], other)
    assert changes[0] <= loss + 1e-9
    assert changes[1] == pytest.approx(loss, abs=1e-9)


@given(positive, positive, st.fractions(0, 1000))
def test_a_number_loses_what_a_window_of_one_slot_loses(e: Fraction, q: Fraction, d: Fraction) -> None:
    """Loss and law are those of `LInfLaplace` for n = 1, also between points of the lattice."""
    number, window, outputs = Laplace(e, q), LInfLaplace(e, q, 1), [-3, 0, 4, 90]
    assert number.loss(d) == window.loss(d)
    assert number.loss(7 * q) == 7 * e * q
    law = window.log_mass([[y] for y in outputs], [4])
    assert number.log_mass(outputs, 4) == pytest.approx(law, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(("a", "error"), ERRORS)
def test_the_error_of_a_number_is_in_closed_form(a: Fraction, error: float) -> None:
    """E|q z| = q/sinh(a), in the unit; it is the mean of the law that `log_mass` states."""
    mechanism, z = Laplace(a * 4, "1/4"), np.arange(-6000, 6001)
    mass = np.exp(mechanism.log_mass(z + 3, 3))
    assert mechanism.expected_error == pytest.approx(error / 4, rel=1e-11)
    assert mass.sum() == pytest.approx(1, abs=1e-12)
    assert (mass * abs(z)).sum() == pytest.approx(error, rel=1e-10)
    assert Laplace(2000, 1).expected_error == 0


# Truncated geometric ------------------------------------------------------------------------------


@pytest.mark.parametrize("point", ROWS)
def test_the_matrix_is_the_corrected_one(point: int) -> None:
    """Fig. 2(iv) with e^(q epsilon) for "epsilon^(q epsilon)": THEORY's rows, as channel and as log_mass.

    The densities (i) to (iii) are the masses of cells of a fine lattice: epsilon/2 on R, epsilon^2/(2 pi) for
    d_2 and epsilon^2/4 for d_1.
    """
    mechanism = TruncatedGeometric("1/4", 2, 6)
    assert [float(p) for p in mechanism.channel.row(point)] == pytest.approx(ROWS[point], rel=1e-11)
    assert np.exp(mechanism.log_mass(range(7), point)) == pytest.approx(ROWS[point], rel=1e-11)
    epsilon, cell = 2.0, 0.01
    planes = (PlanarLaplace(2, "0.01"), PlanarManhattan(2, "0.01"))
    logs = [Laplace(2, "0.01").log_mass(0, 0), *(plane.log_mass([0, 0], [0, 0]) for plane in planes)]
    masses = [float(np.exp(log)) for log in logs]
    densities = [epsilon / 2 * cell, epsilon**2 / (2 * np.pi) * cell**2, epsilon**2 / 4 * cell**2]
    assert masses == pytest.approx(densities, rel=1e-4)


@pytest.mark.parametrize(
    ("e", "q", "k"), [("1/2", "1", 6), ("7/3", "1/100", 3), ("5", "2", 1), ("1/4", "3", 4)]
)
def test_the_matrix_is_private_and_no_more_private(e: str, q: str, k: int) -> None:
    """Exactly epsilon |x - y|-private, and not for a smaller epsilon; log_mass is its logarithm."""
    mechanism = TruncatedGeometric(e, q, k)
    channel = mechanism.channel
    assert channel.is_private(e, mechanism.space.metric)
    assert not channel.is_private(Fraction(e) * Fraction(9999, 10_000), mechanism.space.metric)
    rows = [[p.log() for p in channel.row(x)] for x in range(k + 1)]
    assert [mechanism.log_mass(range(k + 1), x).tolist() for x in range(k + 1)] == [
        pytest.approx(row, rel=1e-9, abs=1e-12) for row in rows
    ]


def test_the_matrix_is_that_of_clipped_noise() -> None:
    """P(y | x) sums the discrete Laplace law over what is clipped to y; nothing lies outside 0 .. k."""
    mechanism, z = TruncatedGeometric("1/2", 1, 4), np.arange(-200, 201)
    for x in range(5):
        clipped = np.bincount(np.clip(x + z, 0, 4), np.exp(mechanism.noise.log_mass(x + z, x)))
        assert np.exp(mechanism.log_mass(range(5), x)) == pytest.approx(clipped, abs=1e-14)
    assert np.isneginf(mechanism.log_mass([-1, 5], 2)).all()
    points = np.arange(5).repeat(50)
    noisy = mechanism.noise.release(points, bits=SeededBits(3))
    assert (mechanism.release(points, bits=SeededBits(3)) == noisy.clip(0, 4)).all()


@pytest.mark.parametrize(("epsilon", "k"), [(Fraction(1, 2), 6), (Fraction(7, 5), 3), (Fraction(1, 20), 11)])
def test_libqif_has_the_same_matrix(epsilon: Fraction, k: int) -> None:
    """The geometric mechanism of libqif, an independent implementation of Fig. 2(iv)."""
    theirs = import_module("qif.mechanism").d_privacy.geometric(k + 1, float(epsilon))
    ours = [[float(p) for p in row] for row in TruncatedGeometric(epsilon, 1, k).channel.rows]
    assert np.abs(np.array(theirs) - ours).max() < 1e-14


@given(positive, positive, st.integers(1, 40))
def test_the_error_of_a_clipped_number_is_in_closed_form(e: Fraction, q: Fraction, k: int) -> None:
    """E|y - x| = q (2 - alpha^x - alpha^(k-x))/(2 sinh a) is the mean of the law; less than unclipped."""
    mechanism, y = TruncatedGeometric(e, q, k), np.arange(k + 1)
    for x in (0, k // 3, k):
        mean = float(q) * (np.exp(mechanism.log_mass(y, x)) * abs(y - x)).sum()
        assert mechanism.expected_error(x) == pytest.approx(mean, rel=1e-9)
        assert mechanism.expected_error(x) <= mechanism.noise.expected_error * (1 + 1e-12)


# (epsilon, delta) sanitisation --------------------------------------------------------------------


def real(x: Fraction) -> mpmath.mpf:
    """As many digits of a rational as mpmath works with."""
    return mpmath.mpf(x.numerator) / x.denominator


def hockey_stick(a: Fraction, k: int, epsilon: Fraction) -> mpmath.mpf:
    """The least delta of two discrete Laplace laws k quanta apart: the sum of p - e^epsilon p' > 0.

    P(z)/P(z - k) falls from e^(ak) at z <= 0 to e^(-ak) at z >= k, so that beyond k no term is positive.
    """
    alpha, odds = mpmath.exp(-real(a)), mpmath.exp(real(epsilon))
    up_to_zero = (1 - odds * alpha**k) / (1 + alpha)
    between = ((1 - alpha) / (1 + alpha) * (alpha**z - odds * alpha ** (k - z)) for z in range(1, k + 1))
    return mpmath.fsum(term for term in (up_to_zero, *between) if term > 0)


@given(positive, deltas, st.integers(1, 10**6))
def test_the_scale_is_the_papers_and_never_less(e: Fraction, delta: Fraction, width: int) -> None:
    """It is b >= D/(epsilon - ln(1-delta)), by less than 2^-40 of it, equal for delta = 0 (Example 5).

    The draws are those of Laplace noise of this scale.
    """
    mechanism = sanitisation(width, e, delta)
    with mpmath.workdps(60):
        formula = mpmath.mpf(width) / 10 / (real(e) - mpmath.log(1 - real(delta)))
        excess = real(mechanism.scale) / formula - 1
    assert mechanism.scale == Fraction(width, 10) / e if not delta else 0 < excess < 2**-40
    assert mechanism.guarantee == (e, delta)
    drawn = mechanism.release([0] * 200, bits=SeededBits(1))
    assert (drawn == mechanism.noise.release([0] * 200, bits=SeededBits(1))).all()


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(3)])
@pytest.mark.parametrize("delta", [Fraction(0), Fraction(1, 10**6), Fraction(1, 10), Fraction(1, 2)])
def test_the_pair_holds_between_any_two_numbers(epsilon: Fraction, delta: Fraction) -> None:
    """Delta on the lattice is at most what was asked for, at all distances up to the diameter."""
    mechanism = sanitisation(40, epsilon, delta)
    with mpmath.workdps(40):
        least = [hockey_stick(mechanism.noise.a, k, epsilon) for k in range(1, 41)]
        assert max(least) == least[-1]
        assert real(delta) / 3 < least[-1] < real(delta) if delta else abs(least[-1]) < 1e-38


def test_the_formula_has_slack_on_a_fine_lattice_only() -> None:
    """Of Example 5, delta is 1 - sqrt(1-delta) on a fine lattice (THEORY T.2), nearly all on a coarse one."""
    fine, coarse = sanitisation(4000, 1, "0.1"), sanitisation(1, 7, "0.1")
    with mpmath.workdps(40):
        assert float(hockey_stick(fine.noise.a, 4000, Fraction(1))) == pytest.approx(1 - 0.9**0.5, rel=1e-3)
        least = float(hockey_stick(coarse.noise.a, 1, Fraction(7)))
    assert least == pytest.approx(0.1 / (1 + 0.9 * np.exp(-7)), rel=1e-9)
    assert 0.0999 < least < 0.1


SCALES = [
    ("0.1", "0.1", 4.869, 3.425, 3.218),
    ("1", "0.1", 0.9047, 0.8761, 0.8260),
    ("1", "0.001", 0.9990, 0.9986, 0.9980),
]
"""epsilon, delta, and b/D of the three calibrations; the last on the real line."""


@pytest.mark.parametrize("case", SCALES)
def test_three_calibrations_of_the_scale(case: tuple[str, str, float, float, float]) -> None:
    """Example 5's scale, the least that is right for every set, and the least on a lattice of 10^5 steps."""
    epsilon, delta, *scales = case
    names: tuple[Calibration, ...] = ("holohan", "any set", "lattice")
    made = [sanitisation(10**5, epsilon, delta, name) for name in names]
    assert [float(m.scale) / 10**4 for m in made] == pytest.approx(
        scales, abs=1e-3 if scales[0] > 1 else 1e-4
    )
    line = 1 / (float(epsilon) - 2 * np.log1p(-float(delta)))
    assert float(made[-1].scale) / 10**4 == pytest.approx(line, rel=1e-8)


@given(positive, deltas, st.integers(1, 10**4))
def test_the_smallest_delta_is_exact_and_never_above_the_promise(
    e: Fraction, delta: Fraction, width: int
) -> None:
    """Every calibration keeps delta, the hockey stick's sum, and that of the lattice uses it up."""
    for name in ("holohan", "any set", "lattice"):
        mechanism = sanitisation(width, e, delta, name)
        assert mechanism.smallest_delta <= delta
        if width <= 40:
            with mpmath.workdps(60):
                summed = hockey_stick(mechanism.noise.a, width, e)
            assert float(mechanism.smallest_delta) == pytest.approx(float(summed), rel=1e-12, abs=1e-30)
    assert float(delta - mechanism.smallest_delta) <= 1e-11 * float(e + delta)


def test_two_numbers_a_quantum_apart_use_up_the_delta_of_any_set() -> None:
    """No formula in D, epsilon and delta asks for less noise than b = D/ln((e^epsilon+delta)/(1-delta))."""
    mechanism = sanitisation(1, "1/2", "1/10", "any set")
    assert float(Fraction(1, 10) - mechanism.smallest_delta) < 1e-12
    assert mechanism.noise.epsilon < sanitisation(1, "1/2", "1/10", "lattice").noise.epsilon * (
        1 + Fraction(1, 10**9)
    )


def test_a_calibration_that_is_not_known_is_refused() -> None:
    """An unknown calibration is refused by name, with those that there are."""
    with pytest.raises(ValueError, match=r"calibration is one of .*any set.*, not 'least'"):
        sanitisation(calibration="least")  # type: ignore[arg-type]


def test_without_delta_a_sanitisation_is_the_metric_mechanism() -> None:
    """For delta = 0 the two ends of the set lose epsilon, exactly, and the pair cannot be improved."""
    mechanism = sanitisation(50, "7/5", 0)
    assert mechanism.noise == Laplace(Fraction(7, 25), "1/10")
    assert mechanism.noise.loss(Fraction(5)) == Fraction(7, 5)
    change = mechanism.log_mass([0], 0) - mechanism.log_mass([0], 50)
    assert change == pytest.approx(1.4, rel=1e-12)


# What they take, and what they refuse -------------------------------------------------------------


def test_what_they_promise() -> None:
    """Laplace and truncated geometric promise for every distance, a sanitisation a pair."""
    assert [isinstance(m, MetricMechanism) for m in ALL] == [True, True, False]
    assert [isinstance(m, PairMechanism) for m in ALL] == [False, False, True]
    assert len({*ALL, Laplace(Fraction(1, 3), "0.5"), sanitisation()}) == 3


@pytest.mark.parametrize("mechanism", ALL)
def test_an_array_keeps_its_shape(mechanism: Any) -> None:
    """Integers of any shape and dtype come back as int64 of that shape; the input is left as it was."""
    for shape in [(), (4,), (2, 3), (0, 5)]:
        for dtype in (np.int16, np.uint64, np.int64):
            points = np.ones(shape, dtype)
            released = mechanism.release(points, bits=SeededBits(1))
            assert (released.shape, released.dtype) == (shape, np.int64)
            assert (points == 1).all()


def test_the_noise_does_not_depend_on_the_numbers() -> None:
    """With the same bits the noise is the same, whatever the numbers; without, it is fresh and secret."""
    for mechanism in (Laplace("1/3", "1/2"), sanitisation()):
        noise = mechanism.release(np.zeros(50, int), bits=SeededBits(2))
        assert (mechanism.release(np.arange(50), bits=SeededBits(2)) - np.arange(50) == noise).all()
        assert len(set(noise.tolist())) > 10
        assert (mechanism.release([7] * 200) != mechanism.release([7] * 200)).any()


def test_parameters_are_exact_and_in_range() -> None:
    """A float is refused with a text that shows what to write; so is what could not be kept or drawn."""
    wrong: list[tuple[type[Exception], str, Any]] = [
        (TypeError, r"epsilon must be exact.*Fraction\('0.1'\)", lambda: Laplace(0.1, 1)),  # type: ignore[arg-type]
        (TypeError, "quantum must be exact", lambda: Laplace(1, 0.1)),  # type: ignore[arg-type]
        (ValueError, "epsilon must be positive", lambda: Laplace(0, 1)),
        (ValueError, "take a coarser quantum", lambda: Laplace("1/1000", Fraction(1, 10**12))),
        (TypeError, "k must be an int", lambda: TruncatedGeometric(1, 1, 2.0)),  # type: ignore[arg-type]
        (ValueError, "k must be at least 1", lambda: TruncatedGeometric(1, 1, 0)),
        (TypeError, "epsilon must be exact", lambda: sanitisation(epsilon=0.1)),
        (TypeError, "delta must be exact", lambda: sanitisation(delta=1e-6)),
        (ValueError, "epsilon must not be negative", lambda: sanitisation(epsilon=-1)),
        (ValueError, "no finite noise", lambda: sanitisation(epsilon=0, delta=0)),
        (ValueError, "no finite noise", lambda: sanitisation(delta=1)),
        (ValueError, r"delta must lie in \[0, 1\]", lambda: sanitisation(delta="-1/9")),
        (ValueError, "diameter", lambda: LaplaceSanitisation(Numbers(0, None, 1), 1)),
        (ValueError, "diameter", lambda: LaplaceSanitisation(Numbers(3, 3, 1), 1)),
        (ValueError, "take a coarser quantum", lambda: sanitisation(10**15, "1/1000", 0)),
    ]
    for error, text, make in wrong:
        with pytest.raises(error, match=text):
            make()


@pytest.mark.parametrize("mechanism", ALL)
def test_what_is_no_number_of_the_space_is_refused(mechanism: Any) -> None:
    """Values that are not whole quanta, out of the set or out of int64 are refused."""
    with pytest.raises(TypeError, match="whole quanta"):
        mechanism.release(np.zeros(2))
    for value in (2**63 - 1, -(2**63)):
        with pytest.raises(ValueError, match="a value is"):
            mechanism.release([0, value])
        with pytest.raises(ValueError, match="a value is"):
            mechanism.log_mass([0], value)
    if mechanism.space.high is not None:
        for value in (-1, mechanism.space.high + 1):
            with pytest.raises(ValueError, match=r"not in 0 \.\."):
                mechanism.release([value])
            with pytest.raises(ValueError, match=r"not in 0 \.\."):
                mechanism.log_mass([0], value)
