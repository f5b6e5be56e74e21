"""Errors of dithered slots (THEORY A.8): figures, and coverage at every fraction of a quantum.

A value that is f of a quantum above a whole one leaves with the error z + B - f, B ~ Bernoulli(f).
"""

import math
from fractions import Fraction
from functools import cache
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from meteragent.privacy import (
    DitheredLaplace,
    LInfLaplace,
    SeededBits,
    half_width,
    half_width_of_window,
    sd,
)
from meteragent.privacy.mechanism.window_law import WindowLaw

Floats = NDArray[np.float64]

FRACTIONS = [*np.linspace(0, 1, 41), 0.5 - 1e-9, 0.5 + 1e-9]


@cache
def slot(n: int, a: float) -> Floats:
    """P(z = k) of a slot for k = -400 .. 400."""
    return np.diff(WindowLaw(n, a).probability_below(np.arange(-401, 401)))


def covered(p: Floats, h: float, f: float) -> float:
    """P(|z + B - f| <= h) of a slot, by adding up its law."""
    z = np.arange(-400, 401)
    inside = [float(p[np.abs(z + b - f) <= h + 1e-12].sum()) for b in (0, 1)]
    return (1 - f) * inside[0] + f * inside[1]


@pytest.mark.parametrize(
    ("a", "deviation", "bound", "half"),
    [
        ("1/220", 311.1270, 311.1271, 659.5),
        ("1/5", 7.0711, 7.0770, 15.5),
        ("1", 1.417, 1.446, 3.5),
        ("2", 0.7271, 0.7823, 2.5),
    ],
)
def test_the_figures_of_the_theory(a: str, deviation: float, bound: float, half: float) -> None:
    """One slot has the sd, its bound and the half width of THEORY A.8, in quanta and in the unit."""
    one, tenth = LInfLaplace(a, 1, 1), LInfLaplace(10 * Fraction(a), "1/10", 1)
    assert sd(one, "dithered") == pytest.approx(deviation, rel=2e-4)
    assert math.sqrt(sd(one) ** 2 + 1 / 4) == pytest.approx(bound, rel=2e-4)
    assert half_width(one, 0.95, "dithered") == half
    assert half_width(tenth, 0.95, "dithered") == pytest.approx(half / 10)
    assert sd(tenth, "dithered") == pytest.approx(deviation / 10, rel=2e-4)


def test_the_default_prints_as_before() -> None:
    """Level 1 at 220 W: sd 311.1 W to four digits; half widths differ by less than half a watt."""
    default = LInfLaplace("1/220", 1, 1)
    assert f"{sd(default, 'dithered'):.4g}" == f"{sd(default):.4g}" == "311.1"
    assert 0 < half_width(default, 0.95, "dithered") - half_width(default) < 0.5


@pytest.mark.parametrize("n", [1, 2, 6])
@pytest.mark.parametrize("a", [Fraction(1, 10), Fraction(1, 2), Fraction(1), Fraction(3)])
def test_the_deviation_is_the_mean_over_fractions(n: int, a: Fraction) -> None:
    """Sd squared is Var z plus the mean of f (1 - f) over f."""
    noise = LInfLaplace(a, 1, n)
    f = (np.arange(1000) + 0.5) / 1000
    assert sd(noise, "dithered") ** 2 - sd(noise) ** 2 == pytest.approx(np.mean(f * (1 - f)), abs=1e-6)


@pytest.mark.parametrize("n", [1, 2, 5])
@pytest.mark.parametrize("a", [0.2, 0.5, 1.0, 2.0, 4.0])
@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.95, 0.999])
def test_a_slot_is_covered_at_every_fraction(n: int, a: float, coverage: float) -> None:
    """Value +- h covers at least what it says at each f, and one quantum less does not at the worst."""
    law, noise = slot(n, a), LInfLaplace(Fraction(a), 1, n)
    h = half_width(noise, coverage, "dithered")
    assert h % 1 == 0.5
    least = min(covered(law, h, f) for f in FRACTIONS)
    assert least >= coverage - 1e-12
    assert least == pytest.approx(covered(law, h, 0.5 - 1e-9), abs=1e-8)
    assert h == 0.5 or min(covered(law, h - 1, f) for f in FRACTIONS) < coverage


def test_half_up_figures_do_not_cover_the_worst_fraction() -> None:
    """Taken for dithered values, half-up widths cover less than they say (THEORY A.8)."""
    for a, least in ((0.2, 0.945), (1.0, 0.927), (2.0, 0.865)):
        h = half_width(LInfLaplace(Fraction(a), 1, 1))
        assert min(covered(slot(1, a), h, f) for f in FRACTIONS) == pytest.approx(least, abs=1e-3)


def test_a_fine_lattice_has_half_up_s_widths_in_whole_quanta_and_a_half() -> None:
    """Where the table is too long for the lattice, the continuous width is rounded up to H + 1/2."""
    for n in (1, 6, 1440):
        fine = LInfLaplace(1, Fraction(1, 10**6), n)
        quanta = half_width(fine, 0.95, "dithered") * 1e6
        assert quanta % 1 == pytest.approx(0.5, abs=1e-3)
        assert 0 <= quanta - half_width(fine) * 1e6 < 1
        assert sd(fine, "dithered") == pytest.approx(sd(fine), rel=1e-9)


@pytest.mark.parametrize("a", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("coverage", [0.5, 0.95])
def test_a_window_is_covered_at_every_load(a: float, coverage: float) -> None:
    """Both slots of a window lie within value +- h at once, at all pairs of fractions, and h is the least."""
    h = half_width_of_window(LInfLaplace(Fraction(a), 1, 2), coverage, "dithered")
    z = np.arange(-90, 91)
    p = np.exp(WindowLaw(2, a).log_mass(np.maximum.outer(np.abs(z), np.abs(z))))

    def within(f: float, width: float) -> Floats:
        inside = [(np.abs(z + b - f) <= width + 1e-12).astype(float) for b in (0, 1)]
        return np.asarray((1 - f) * inside[0] + f * inside[1])

    def least(width: float) -> float:
        return min(
            float(within(f, width) @ p @ within(g, width)) for f, g in product(FRACTIONS[::4], FRACTIONS)
        )

    assert least(h) >= coverage - 1e-9
    assert least(h - 1) < coverage


SAMPLES, ALARM = 20_000, 1e-6
"""Three tests of draws, at the fraction that is covered least; each refuses a right figure with 1e-6 at most.

A width that is a tenth less, or a quantum where that is more, is refused.
"""


@pytest.mark.parametrize(("n", "a"), [(1, "1/220"), (1, "1"), (3, "1")])
def test_draws_are_covered_at_the_worst_fraction(n: int, a: str) -> None:
    """Of dithered draws half a quantum off at least 95 of 100 lie within the half width: exact binomial."""
    noise, steps = LInfLaplace(a, 1, n), 1000
    window = np.full((SAMPLES, n), steps // 2 - 1)
    y = DitheredLaplace(a, 1, n, Fraction(1, steps)).release(window, bits=SeededBits(n))[:, 0]
    error = np.abs(y - (steps // 2 - 1) / steps)
    h = half_width(noise, 0.95, "dithered")
    assert stats.binom.cdf(np.count_nonzero(error <= h), SAMPLES, 0.95) > ALARM
    less = h - max(1, h // 10)
    assert stats.binom.cdf(np.count_nonzero(error <= less), SAMPLES, 0.95) < ALARM
    assert math.isclose(float(np.mean(error**2)) ** 0.5, math.sqrt(sd(noise) ** 2 + 1 / 4), rel_tol=0.06)
