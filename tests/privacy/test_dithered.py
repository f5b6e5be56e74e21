"""The dithered l_inf Laplace mechanism (THEORY A.1, A.10): every fraction and shift of small lattices.

With e^-a = t a rational, all is counted in rationals: a window of S steps leaves as z + floor((u + S)/L), u
in {0 .. L-1}, P(z) ~ t^max|z_i|. No tolerance, no sample.
"""

import math
from collections import Counter
from fractions import Fraction
from functools import cache, partial
from itertools import product
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from meteragent.privacy import DitheredLaplace, LInfLaplace, SeededBits, below_array
from meteragent.privacy.mechanism.base import MetricMechanism
from meteragent.privacy.mechanism.dithered import log_share
from meteragent.privacy.space import Windows
from tests.support.mechanism_contract import Conformance

LATTICES = [(4, Fraction(1, 3)), (7, Fraction(1, 2)), (10, Fraction(9, 10)), (12, Fraction(3, 5))]
"""L and t."""


def mass(outputs: tuple[int, ...], window: tuple[int, ...], steps: int, t: Fraction) -> Fraction:
    """P(y | S), but for the constant that all share, by counting every u."""
    moved = tuple(y - s // steps for y, s in zip(outputs, window, strict=True))
    return _counted(moved, tuple(s % steps for s in window), steps, t)


@cache
def _counted(moved: tuple[int, ...], rest: tuple[int, ...], steps: int, t: Fraction) -> Fraction:
    largest = Counter[int]()
    for dither in product(range(steps), repeat=len(rest)):
        rounded = ((u + s) // steps for u, s in zip(dither, rest, strict=True))
        largest[max(abs(y - m) for y, m in zip(moved, rounded, strict=True))] += 1
    total = sum((count * Fraction(t**size) for size, count in largest.items()), Fraction(0))
    return Fraction(total, steps ** len(rest))


def interpolated(shift: int, steps: int, t: Fraction) -> Fraction:
    """e^h(d) at d = shift/L: e^(a floor(d)) (1 + {d} (e^a - 1))."""
    whole, rest = divmod(shift, steps)
    return t**-whole * (1 + Fraction(rest, steps) * (1 / t - 1))


# The law, exactly ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("steps", "t"), LATTICES)
def test_one_slot_is_exactly_unbiased_and_a_mixture(steps: int, t: Fraction) -> None:
    """P(y | S) = (1 - f) p(y - m) + f p(y - m - 1), and the mean of floor((u + S)/L) is S/L, for every S."""
    for s in range(-steps, 2 * steps):
        m, f = s // steps, Fraction(s % steps, steps)
        for y in range(m - 5, m + 7):
            right = (1 - f) * t ** abs(y - m) + f * t ** abs(y - m - 1)
            assert mass((y,), (s,), steps, t) == right
        assert sum(Fraction((u + s) // steps, steps) for u in range(steps)) == Fraction(s, steps)


@pytest.mark.parametrize(("steps", "t"), LATTICES)
def test_the_loss_of_one_slot_is_h_and_is_reached(steps: int, t: Fraction) -> None:
    """Over every S and output the largest ratio at a shift is e^h(d), for every shift up to 3 quanta."""
    masses = {
        s: [mass((y,), (s,), steps, t) for y in range(-6, 10)] for s in range(-3 * steps, 4 * steps + 1)
    }
    for shift in range(3 * steps + 1):
        pairs = [pair for s in range(steps) for pair in ((s, s + shift), (s + shift, s))]
        ratios = (p / q for x, y in pairs for p, q in zip(masses[x], masses[y], strict=True))
        assert max(ratios) == interpolated(shift, steps, t)


SMALL = [(2, 3, Fraction(1, 2)), (2, 4, Fraction(1, 5)), (3, 2, Fraction(1, 6))]


@pytest.mark.parametrize(("n", "steps", "t"), SMALL)
def test_windows_lose_a_ceil_at_most(n: int, steps: int, t: Fraction) -> None:
    """Over all windows and outputs near them, no ratio at a shift up to 3/2 quanta passes e^(a ceil(d))."""
    box = list(product(range(-2, 4) if n < 3 else range(-1, 3), repeat=n))
    most = 3 * steps // 2
    for shift in product(range(-most, most + 1), repeat=n):
        quanta = -(max(map(abs, shift)) // -steps)
        for window in product(range(steps), repeat=n):
            there = tuple(s + k for s, k in zip(window, shift, strict=True))
            assert all(mass(y, window, steps, t) * t**quanta <= mass(y, there, steps, t) for y in box)


@pytest.mark.parametrize(("n", "steps", "t"), [(1, 6, Fraction(1, 2)), *SMALL])
def test_the_law_of_a_window_has_two_terms(n: int, steps: int, t: Fraction) -> None:
    """t^T (g + (1 - g) t) is the sum over all u, for every window of fractions and every output near it."""
    for window in product(range(steps), repeat=n):
        for outputs in product(range(-2, 4), repeat=n):
            near = [y - 1 if y > 0 else -y for y in outputs]
            both = zip(window, outputs, near, strict=True)
            g = math.prod(
                Fraction(s if y > 0 else steps - s, steps) for s, y, size in both if size == max(near)
            )
            assert mass(outputs, window, steps, t) == t ** max(near) * (g + (1 - g) * t)
            with mpmath.workdps(30):
                exact = mpmath.log(mpmath.mpf(t.numerator) / t.denominator) * max(near)
                exact += mpmath.log(mpmath.mpf((g + (1 - g) * t).numerator) / (g + (1 - g) * t).denominator)
            stated = log_share(outputs, np.array(window) / steps, -math.log(t))
            assert float(stated) == pytest.approx(float(exact), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize(("n", "steps", "a", "reach"), [(1, 7, 1, 40), (2, 4, "1/2", 60), (3, 1000, 1, 24)])
def test_the_stated_law_is_a_law_of_the_right_mean(n: int, steps: int, a: str, reach: int) -> None:
    """e^log_mass sums to 1 over the outputs and has the mean S/L, whatever the fractions."""
    mechanism = DitheredLaplace(a, 1, n, Fraction(1, steps))
    window = np.array([3, -5, 2 * steps + 1])[:n]
    box = np.array(list(product(range(-reach, reach + 1), repeat=n)))
    p = np.exp(mechanism.log_mass(box, window))
    assert p.sum() == pytest.approx(1, abs=1e-6)
    assert p @ box == pytest.approx(window / steps, abs=1e-5)


# What the library states ------------------------------------------------------------------------------


@given(st.fractions(Fraction(1, 10**6), 5), st.fractions(0, 50))
def test_the_stated_loss_is_h_and_never_less(a: Fraction, d: Fraction) -> None:
    """For n = 1 it is h(d) or at most 2^-60 more, so between a d and a d + a^2/8; at most that of n > 1."""
    loss = DitheredLaplace(a, 1, 1, 1).loss(d)
    with mpmath.workdps(60):
        exact_a, whole, rest = mpmath.mpf(a.numerator) / a.denominator, d // 1, d % 1
        rest = mpmath.mpf(rest.numerator) / rest.denominator
        h = exact_a * int(whole) + mpmath.log1p(rest * mpmath.expm1(exact_a))
        stated = mpmath.mpf(loss.numerator) / loss.denominator
        assert 0 <= stated - h + mpmath.mpf(10) ** -50 <= mpmath.mpf(2) ** -60
    slack = Fraction(1, 2**60)
    assert a * d <= loss <= a * d + a**2 / 8 + slack
    assert loss <= DitheredLaplace(a, 1, 2, 1).loss(d) == a * math.ceil(d)


def test_at_whole_quanta_it_is_the_lattice_s_mechanism() -> None:
    """Law and loss of windows of whole quanta are those of `LInfLaplace`: the default hides as before."""
    mechanism, lattice = DitheredLaplace("1/220", 1, 2, "1/1000"), LInfLaplace("1/220", 1, 2)
    outputs = np.array([[0, 0], [3, -400], [10**6, 5]])
    whole = mechanism.log_mass(outputs, np.array([2000, -1000]))
    assert whole == pytest.approx(lattice.log_mass(outputs, np.array([2, -1])), rel=1e-12)
    assert mechanism.loss(220) == lattice.loss(220) == 1
    assert mechanism.space == Windows(2, "1/1000")
    assert mechanism.steps == 1000
    assert isinstance(mechanism, MetricMechanism)
    one = DitheredLaplace("1/220", 1, 1, "1/1000")
    assert float(one.loss("110.5")) - 110.5 / 220 == pytest.approx(2.6e-6, rel=0.02)


@pytest.mark.parametrize(
    ("step", "error"), [(0, ValueError), (2, ValueError), ("2/3", ValueError), (0.5, TypeError)]
)
def test_a_quantum_is_whole_steps(step: Any, error: type[Exception]) -> None:
    """A step that is not exact, or does not divide the quantum into 1 to 2^62 steps, is refused."""
    with pytest.raises(error):
        DitheredLaplace(1, 1, 1, step)
    with pytest.raises(ValueError, match="2\\^62"):
        DitheredLaplace(1, 1, 1, Fraction(1, 2**63))


# Draws ------------------------------------------------------------------------------------------------


def test_a_release_is_the_floor_of_noise_dither_and_window() -> None:
    """Noise of windows, then a dither for each slot, from the same bits: floor((zL + u + S)/L), any size."""
    for steps in (1, 3, 10**12):
        mechanism = DitheredLaplace(1, 1, 2, Fraction(1, steps))
        windows = np.array([[0, 1], [-steps, steps - 1], [2**61, -(2**61)], [-1, 5]])
        bits = SeededBits(3)
        z = LInfLaplace(1, 1, 2).release(np.zeros((4, 2), int), bits=bits)
        u = below_array(steps, 8, bits).reshape(4, 2)
        exact = [
            [(int(a) * steps + int(b) + int(c)) // steps for a, b, c in zip(*rows, strict=True)]
            for rows in zip(z, u, windows, strict=True)
        ]
        assert mechanism.release(windows, bits=SeededBits(3)).tolist() == exact


SAMPLES, ALARM = 20_000, 1e-6
"""A right mechanism fails one of the four tests of the mixture with 4e-6, one of the means with 2e-6."""


@pytest.mark.parametrize("f", [0, 25, 50, 90])
def test_draws_follow_the_mixture(f: int) -> None:
    """At a = 1 draws at a fraction follow the stated law, with a mean within 5 standard errors of it."""
    y = DitheredLaplace(1, 1, 1, "1/100").release(np.full((SAMPLES, 1), f), bits=SeededBits(f))[:, 0]
    assert mixture_p(y, f) > ALARM
    assert abs(y.mean() - f / 100) < 5 * 1.45 / SAMPLES**0.5


@pytest.mark.parametrize("f", [25, 50])
def test_half_up_and_floor_do_not(f: int) -> None:
    """Half-up rounding, and no dither at all, miss the mixture beyond doubt: p below 1e-100."""
    z = LInfLaplace(1, 1, 1).release(np.zeros((SAMPLES, 1), int), bits=SeededBits(f))[:, 0]
    assert mixture_p(z + (f >= 50), f) < 1e-100
    assert mixture_p(z, f) < 1e-100


def mixture_p(y: Any, f: int) -> float:
    """Chi-square's p against the stated law; what is beyond -6 .. 7 is one cell."""
    inside = np.arange(-6, 8)
    p = np.exp(DitheredLaplace(1, 1, 1, "1/100").log_mass(inside[:, np.newaxis], np.array([f])))
    below = 1 - p.sum()
    counts = [np.count_nonzero(y == value) for value in inside]
    return float(stats.chisquare([*counts, SAMPLES - sum(counts)], SAMPLES * np.append(p, below)).pvalue)


class TestDitheredLaplace(Conformance):
    """The library's suite, audit included, with windows of quarters of a quantum."""

    tight = True

    def made(self) -> "partial[Any]":
        """One slot, where the stated loss is exact."""
        return partial(DitheredLaplace, epsilon="1/5", quantum=1, n=1, step="1/4")


class TestDitheredWindows(Conformance):
    """The suite on windows of several slots, whose stated loss is an upper bound between whole quanta."""

    tight = False

    def made(self) -> "partial[Any]":
        """Three slots of tenths of a unit."""
        return partial(DitheredLaplace, epsilon="3/2", quantum="1/10", n=3, step="1/30")
