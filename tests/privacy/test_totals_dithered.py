"""Errors of totals of dithered values: what their half widths cover at every load, by adding up the law.

A slot that is f of a quantum above a whole one is off by z + B - f; slots of windows of one are independent.
For slots of one window and for all at once see `test_accuracy_dithered`.
"""

from collections import Counter
from fractions import Fraction
from itertools import combinations_with_replacement

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from meteragent.privacy import DitheredLaplace, LInfLaplace, SeededBits, half_width, sd
from meteragent.privacy.accuracy import Rounding
from meteragent.privacy.totals import Part, Weighted, half_width_of_total, law_of_total, sd_of_total

Floats = NDArray[np.float64]
DITHERED: Rounding = "dithered"
NEAR = 1e-9
"""Fractions of sums are tried just beside a half, where the least is covered."""


def noise(a: float, n: int = 1) -> LInfLaplace:
    """A mechanism of the parameter a, on whole units."""
    return LInfLaplace(Fraction(a), 1, n)


def slot(a: float, f: float) -> Floats:
    """P(z + B = k) for k = -reach .. reach + 1 of a window of one slot."""
    z = np.arange(-_reach(a), _reach(a) + 1)
    return np.convolve(np.tanh(a / 2) * np.exp(-a * np.abs(z)), [1 - f, f])


def _reach(a: float) -> int:
    return int(40 / a) + 5


def covered(a: float, fractions: tuple[float, ...], h: float) -> float:
    """P(|sum of z + B - f| <= h) of slots at these fractions."""
    m = len(fractions)
    size = 1 << (m * (2 * _reach(a) + 2)).bit_length()
    spectrum = np.ones(size // 2 + 1, complex)
    for f, count in Counter(fractions).items():
        spectrum *= np.fft.rfft(slot(a, f), size) ** count
    error = np.arange(size) - m * _reach(a) - sum(fractions)
    return float(np.fft.irfft(spectrum, size)[np.abs(error) <= h + 1e-12].sum())


def loads(m: int) -> list[tuple[float, ...]]:
    """Fractions of m slots: all alike, so that the sum is at all places of the lattice; of two, all pairs."""
    grid = [k / 8 for k in range(9)]
    alike = {(k + e) / m % 1 for k in range(m) for e in (0, 0.25, 0.5 - NEAR, 0.5 + NEAR)}
    alike |= {0.5 - NEAR, 0.5, *grid}
    pairs = list(combinations_with_replacement([*grid, 0.5 - NEAR], 2)) if m == 2 else []
    return [*((f,) * m for f in sorted(alike)), *pairs]


@pytest.mark.parametrize("a", [0.05, 0.2, 1.0, 2.0])
@pytest.mark.parametrize("m", [2, 3, 5, 10])
@pytest.mark.parametrize("coverage", [0.8, 0.95, 0.99])
def test_a_sum_is_covered_at_every_load(a: float, m: int, coverage: float) -> None:
    """For 2 to 10 numbers the half width covers at each load, and is less than a quantum too wide."""
    h = half_width_of_total([Part(noise(a), 1, m, rounding=DITHERED)], coverage)
    assert min(covered(a, f, h) for f in loads(m)) >= coverage - 2e-4
    assert min(covered(a, f, h - 1.5) for f in loads(m)) < coverage


@pytest.mark.parametrize("a", [0.2, 1.0, 2.0])
@pytest.mark.parametrize("weight", [0.5, 0.25, 0.9])
def test_a_sum_of_unequal_weights_is_covered(a: float, weight: float) -> None:
    """Two numbers of which one weighs less: at all pairs of fractions, though they share no lattice."""
    parts = [Part(noise(a), rounding=DITHERED), Part(noise(a), weight=weight, rounding=DITHERED)]
    h = half_width_of_total(parts, 0.95)
    error = np.arange(-_reach(a), _reach(a) + 2)
    for f, g in ((f, g) for f, _ in loads(2) for g in (0.0, 0.25, 0.5 - NEAR, 0.5, 0.75)):
        inside = np.abs(np.add.outer(error - f, weight * (error - g))) <= h + 1e-12
        assert slot(a, f) @ inside @ slot(a, g) >= 0.95


def test_one_number_has_the_half_width_of_its_descriptor() -> None:
    """Of one slot it is `accuracy.half_width`, times the weight, whatever the rounding."""
    for a in (1 / 220, 1.0):
        h = half_width_of_total([Part(noise(a), weight=0.5, rounding=DITHERED)], 0.9)
        assert h == pytest.approx(half_width(noise(a), 0.9, DITHERED) / 2)


def test_the_deviation_is_the_mean_the_law_the_worst() -> None:
    """Sd is the root mean square over loads; the law of the error is that of the load that is worst."""
    window = Weighted(noise(0.5, 3), (1.0, 2.0, 0.5), 4, DITHERED)
    squares = 4 * (1 + 4 + 0.25)
    assert sd_of_total([window]) ** 2 == pytest.approx(squares * sd(noise(0.5, 3), DITHERED) ** 2)
    law = law_of_total([window])
    middle = (law.h[1:] + law.h[:-1]) / 2
    assert np.diff(law.within) @ middle**2 == pytest.approx(
        squares * (sd(noise(0.5, 3)) ** 2 + 1 / 4), rel=1e-3
    )


def test_where_noise_is_much_larger_than_a_quantum_nothing_changes() -> None:
    """At the default a month's and a street's half widths are those of half-up, to a part in a thousand."""
    for part in (Part(noise(1 / 220), 1, 1440, 0.0005), Part(noise(1 / 220), 1, 1000, 0.001)):
        half_up, dithered = (half_width_of_total([part._replace(rounding=r)]) for r in ("half-up", DITHERED))
        assert half_up < dithered < 1.001 * half_up


SAMPLES, ALARM = 5000, 1e-6
"""Totals of 12 slots of 3 windows half a quantum off; a right width is refused with ALARM at most."""


def test_draws_of_windows_are_covered_at_the_worst_load() -> None:
    """A sum of windows of several slots is within its half width 95 times of 100; within 0.85 of it, not."""
    a, n = Fraction(1), 4
    mechanism = DitheredLaplace(a, 1, n, Fraction(1, 1000))
    y = mechanism.release(np.full((SAMPLES, 3, n), 499), bits=SeededBits(5))
    error = np.abs((y - 0.499).sum(axis=(1, 2)))
    h = half_width_of_total([Part(LInfLaplace(a, 1, n), n, 3, rounding=DITHERED)])
    assert stats.binom.cdf(np.count_nonzero(error <= h), SAMPLES, 0.95) > ALARM
    assert stats.binom.cdf(np.count_nonzero(error <= 0.85 * h), SAMPLES, 0.95) < ALARM
