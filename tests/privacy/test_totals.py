"""Intervals of totals cover what they say (meteragent.privacy.totals).

Each formula that they are measured against is another way to the same law: enumeration of a window's
noise from its density, differences of gamma variables, Fourier's integral for a sum of uniforms.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import optimize, special, stats

from meteragent.privacy import LInfLaplace, SeededBits, discrete_laplace, half_width, sd
from meteragent.privacy.totals import Part, Weighted, half_width_of_total, sd_of_total

Floats = NDArray[np.float64]

COVERAGES = [0.1, 0.5, 0.95, 0.9999]


def mechanism(n: int, a: Fraction | str | int, quantum: Fraction = Fraction(1)) -> LInfLaplace:
    """A mechanism of the parameter a."""
    return LInfLaplace(Fraction(a) / quantum, quantum, n)


# Against enumeration ------------------------------------------------------------------------------


def window_sums(n: int, m: int, a: float, reach: int) -> Floats:
    """P(z_1 + .. + z_m = s) for s in -m reach .. m reach, from P(z) ~ e^(-a max|z_i|) itself."""
    axes = np.meshgrid(*(np.arange(-reach, reach + 1),) * n, indexing="ij")
    mass = np.exp(-a * np.max(np.abs(axes), axis=0)).ravel()
    sums = np.bincount(np.sum(axes[:m], axis=0).ravel() + m * reach, mass)
    return np.asarray(sums / sums.sum())


def rounding_within(m: int, x: Fraction) -> float:
    """P(u_1 + .. + u_m <= x) of uniforms on (-1/2, 1/2): Irwin and Hall's formula, exactly."""
    y = min(max(x + Fraction(m, 2), Fraction(0)), Fraction(m))
    terms = ((-1) ** k * math.comb(m, k) * (y - k) ** m for k in range(math.floor(y) + 1))
    return float(sum(terms, Fraction(0)) / math.factorial(m))


def enumerated_coverage(sums: Floats, slots: int, h: float) -> float:
    """P(|s + u| <= h), s with the masses `sums` around 0, u the rounding of some slots."""
    middle, exact = sums.size // 2, Fraction(h)
    near = range(max(0, middle - math.ceil(h) - slots), min(sums.size, middle + math.ceil(h) + slots + 1))
    return sum(
        float(sums[i])
        * (rounding_within(slots, exact - (i - middle)) - rounding_within(slots, -exact - (i - middle)))
        for i in near
    )


@pytest.mark.parametrize(
    ("n", "m", "a", "windows", "reach"),
    [
        (1, 1, "7/10", 2, 60),
        (1, 1, "4", 3, 12),
        (2, 1, "7/10", 1, 60),
        (2, 2, "7/10", 1, 60),
        (2, 2, "7/10", 2, 60),
        (3, 2, "7/10", 1, 45),
        (3, 3, "2", 2, 20),
        (2, 2, "12", 3, 4),
    ],
)
@pytest.mark.parametrize("coverage", COVERAGES)
def test_a_total_s_interval_covers_what_it_says(
    n: int, m: int, a: str, windows: int, reach: int, coverage: float
) -> None:
    """On small lattices the law of totals is that of the enumerated noise, rounding and all."""
    one = total = window_sums(n, m, float(Fraction(a)), reach)
    for _ in range(windows - 1):
        total = np.convolve(total, one)
    h = half_width_of_total([Part(mechanism(n, a), m, windows)], coverage)
    for wider, covered in ((-5e-5, "less"), (5e-5, "more")):
        found = enumerated_coverage(total, m * windows, h * (1 + wider))
        assert found < coverage if covered == "less" else found > coverage


# Against other formulas ---------------------------------------------------------------------------


GAUSS = np.polynomial.legendre.leggauss(400)


def laplace_sum_within(k: int, h: float) -> float:
    """P(|sum of k Laplace(1)| <= h): the difference of two gamma(k) variables."""
    nodes, weights = GAUSS
    low, high = max(0.0, k - 12 * math.sqrt(k)), k + 14 * math.sqrt(k) + 25
    g = (high - low) / 2 * nodes + (high + low) / 2
    beside = special.gammainc(k, g + h) - special.gammainc(k, np.maximum(g - h, 0))
    return float((high - low) / 2 * (weights * stats.gamma.pdf(g, k) * beside).sum())


@pytest.mark.parametrize("windows", [3, 48, 1440])
@pytest.mark.parametrize("coverage", COVERAGES)
def test_sums_of_numbers_are_sums_of_laplace_noise(windows: int, coverage: float) -> None:
    """On a fine lattice a sum of one-slot windows has the quantiles of a sum of Laplace variables."""
    h = half_width_of_total([Part(mechanism(1, "1/100000"), 1, windows)], coverage) / 1e5
    high = 40 + 8 * math.sqrt(windows)
    exact = optimize.brentq(lambda x: laplace_sum_within(windows, x) - coverage, 1e-6, high, xtol=1e-11)
    assert h == pytest.approx(exact, rel=1e-5)


def uniform_sum_within(m: int, x: Floats) -> Floats:
    """P(|u_1 + .. + u_m| <= x) of uniforms on (-1, 1): 2/pi times the integral of sinc^m sin(xt)/t."""
    t, dt = np.linspace(0, 60, 12_001, retstep=True)
    t = t[1:]
    inside = np.minimum(x, m)
    waves = np.sinc(t / math.pi) ** m / t * np.sin(inside[:, None] * t)
    return np.asarray((2 * waves.sum(axis=1) + inside) * dt / math.pi)


def window_within(n: int, m: int, a: float, h: float) -> float:
    """P(|error of the sum of m slots| <= h) as the mean over R."""
    r = np.arange(int((n + 60 + math.sqrt(3600 + 120 * n)) / a) + 2) + 0.5
    log_weight = n * np.log(r) - a * r
    weight = np.exp(log_weight - log_weight.max())
    kept = weight > 1e-16 * weight.max()
    weight, r = weight[kept], r[kept]
    return float(weight @ uniform_sum_within(m, h / r) / weight.sum())


@pytest.mark.parametrize(("n", "m", "a"), [(6, 6, "1/2"), (48, 7, "1"), (48, 48, "1/4"), (1440, 1440, "2")])
@pytest.mark.parametrize("coverage", COVERAGES)
def test_slots_of_one_window_share_its_radius(n: int, m: int, a: str, coverage: float) -> None:
    """The sum of m slots of one window has the law of R times a sum of uniforms."""
    h = half_width_of_total([Part(mechanism(n, a), m)], coverage)
    assert window_within(n, m, float(Fraction(a)), h * (1 - 1e-5)) < coverage
    assert window_within(n, m, float(Fraction(a)), h * (1 + 1e-5)) > coverage


def test_slots_of_one_window_are_not_independent() -> None:
    """A window's sum has a wider interval than as many slots of windows of their own."""
    whole = half_width_of_total([Part(mechanism(12, "1/220"), 12)], 0.99)
    apart = half_width_of_total([Part(mechanism(12, "1/220"), 1, 12)], 0.99)
    assert whole > 1.02 * apart


@pytest.mark.parametrize("n", [1, 2, 12])
@pytest.mark.parametrize("coverage", COVERAGES)
def test_a_number_has_the_half_width_of_its_descriptor(n: int, coverage: float) -> None:
    """For one slot it is `accuracy.half_width`, times the weight; so ci95 is the interval of a number."""
    one = mechanism(n, "1/220", Fraction(1, 10))
    h = half_width_of_total([Part(one, weight=0.5)], coverage)
    assert h == pytest.approx(half_width(one, coverage) / 2, rel=1e-12)


@pytest.mark.parametrize("n", [1, 4])
@pytest.mark.parametrize("coverage", COVERAGES)
def test_the_grid_agrees_with_the_exact_law_of_one_slot(n: int, coverage: float) -> None:
    """One slot among negligible ones, which goes over the grid, has the half width of one slot."""
    one, negligible = mechanism(n, "1/220"), Part(mechanism(1, 100), weight=1e-6)
    exact = half_width(one, coverage)
    assert half_width_of_total([Part(one), negligible], coverage) == pytest.approx(exact, rel=3e-5)


def test_many_homes_are_nearly_normal() -> None:
    """The mean of 1,000 homes over a month is normal but for its fourth moment: 1.96 sd."""
    home = Part(mechanism(1, "1/220"), 1, 1_440_000)
    assert half_width_of_total([home]) == pytest.approx(1.959964 * sd_of_total([home]), rel=1e-5)


def test_negligible_noise_leaves_the_error_of_rounding() -> None:
    """At a = 100 a total of 1,000 numbers is off by its roundings: 1.96 sqrt(1000/12) quanta."""
    h = half_width_of_total([Part(mechanism(1, 100), 1, 1000)])
    assert h == pytest.approx(1.959964 * math.sqrt(1000 / 12), rel=1e-3)
    assert sd_of_total([Part(mechanism(1, 100), 1, 1000)]) < 1e-18


# Properties ---------------------------------------------------------------------------------------


def test_the_deviation_of_a_total() -> None:
    """Variances add: slots are uncorrelated, windows and meters independent."""
    one, other = mechanism(4, "1/50"), mechanism(1, "1/220")
    parts = [Part(one, 3, 5, 0.5), Part(other, 1, 7)]
    assert sd_of_total(parts) == pytest.approx(math.sqrt(15 * (0.5 * sd(one)) ** 2 + 7 * sd(other) ** 2))


@given(
    coverage=st.floats(0.01, 0.999),
    counts=st.lists(st.integers(1, 30), min_size=1, max_size=3),
    scale=st.floats(1e-6, 1e6),
)
def test_how_a_total_is_split_into_parts_does_not_matter(
    coverage: float, counts: list[int], scale: float
) -> None:
    """Windows one by one or together, in any order, and in any unit: the same interval."""
    laws = [(mechanism(1, "1/220"), 1), (mechanism(1, "1/50"), 1), (mechanism(3, "2"), 2)]
    parts = [Part(law, m, count) for (law, m), count in zip(laws, counts, strict=False)]
    single = [part._replace(windows=1) for part in parts for _ in range(part.windows)]
    together = half_width_of_total(parts, coverage)
    assert half_width_of_total(single[::-1], coverage) == pytest.approx(together, rel=1e-9)
    scaled = [part._replace(weight=scale) for part in parts]
    assert half_width_of_total(scaled, coverage) == pytest.approx(scale * together, rel=1e-9)


@settings(max_examples=20)
@given(n=st.integers(1, 6), windows=st.integers(1, 50), coverage=st.floats(0.05, 0.99))
def test_more_of_anything_is_wider(n: int, windows: int, coverage: float) -> None:
    """An interval grows with coverage, windows, slots and noise."""
    h = half_width_of_total([Part(mechanism(n, "1/40"), n, windows)], coverage)
    assert half_width_of_total([Part(mechanism(n, "1/40"), n, windows)], coverage + 0.005) > h
    assert half_width_of_total([Part(mechanism(n, "1/40"), n, windows + 1)], coverage) > h
    assert half_width_of_total([Part(mechanism(n, "1/41"), n, windows)], coverage) > h
    if n > 1:
        assert half_width_of_total([Part(mechanism(n, "1/40"), n - 1, windows)], coverage) < h


def test_what_is_no_total_is_refused() -> None:
    """Invalid numbers of parts, slots and windows, weights and coverages are ValueErrors."""
    one = mechanism(2, "1/10")
    for part in (
        Part(one, 0),
        Part(one, 3),
        Part(one, 1, 0),
        Part(one, weight=0),
        Part(one, weight=math.inf),
    ):
        with pytest.raises(ValueError, match="not a part"):
            half_width_of_total([part])
    for weights in ((), (1.0, 0.0), (1.0, math.nan), (1.0, 2.0, 3.0)):
        with pytest.raises(ValueError, match="not a part"):
            half_width_of_total([Weighted(one, weights)])
    with pytest.raises(ValueError, match="at least one part"):
        half_width_of_total([])
    for coverage in (0, 1, math.nan):
        with pytest.raises(ValueError, match="between 0 and 1"):
            half_width_of_total([Part(one)], coverage)


# Against simulated noise --------------------------------------------------------------------------

TOTALS = 20_000
MARGIN = 5 * math.sqrt(0.95 * 0.05 / TOTALS)
"""Five deviations of a share of 95%: a right interval fails with a chance of 6e-7. With a scale 10% off the
share is at least 1.4% from 95%, 1.8 margins (Laplace's; 2.1% for normal totals): missed with 1e-5."""


def errors(a: Fraction, windows: int, n: int, seed: int) -> Floats:
    """The errors of TOTALS totals of whole windows, relative to the values before rounding."""
    bits, count = SeededBits(seed), TOTALS * windows
    before = np.random.default_rng(seed).uniform(0, 50, (count, n))
    if n == 1:
        noise = discrete_laplace(count, a, bits).reshape(count, 1)
    else:
        noise = LInfLaplace(a, Fraction(1), n).release(np.zeros((count, n), np.int64), bits=bits)
    return np.asarray((np.floor(before + 0.5) + noise - before).reshape(TOTALS, -1).sum(axis=1))


@pytest.mark.statistical
@pytest.mark.parametrize(("windows", "n"), [(20, 1), (1, 6), (2, 2)])
@pytest.mark.parametrize("a", [Fraction(1, 220), Fraction(2)])
def test_intervals_cover_simulated_noise(windows: int, n: int, a: Fraction) -> None:
    """95% of totals lie within their interval; of totals with noise 10% off, noticeably another share."""
    h = half_width_of_total([Part(LInfLaplace(a, Fraction(1), n), n, windows)])
    off = errors(a, windows, n, seed=windows)
    assert abs((np.abs(off) <= h).mean() - 0.95) < MARGIN
    for factor in (0.9, 1.1):
        assert abs((np.abs(factor * off) <= h).mean() - 0.95) > MARGIN


@pytest.mark.statistical
def test_intervals_cover_totals_of_different_meters() -> None:
    """A weighted total of unlike windows is covered as it says: 20 numbers and twice 2 windows of two."""
    numbers, windows = (
        LInfLaplace(Fraction(1, 220), Fraction(1), 1),
        LInfLaplace(Fraction(1, 90), Fraction(1), 2),
    )
    parts = [Part(numbers, 1, 20), Part(windows, 2, 2, weight=2.0)]
    off = errors(numbers.a, 20, 1, seed=1) + 2 * errors(windows.a, 2, 2, seed=2)
    h = half_width_of_total(parts)
    assert abs((np.abs(off) <= h).mean() - 0.95) < MARGIN
    for factor in (0.9, 1.1):
        assert abs((np.abs(factor * off) <= h).mean() - 0.95) > MARGIN


def test_enumeration_helpers_agree_with_themselves() -> None:
    """A window's enumerated sums are symmetric and have the variance that the mechanism states."""
    for n, m in itertools.product((1, 2, 3), (1, 2, 3)):
        if m <= n:
            sums = window_sums(n, m, 0.7, 45)
            s = np.arange(sums.size) - sums.size // 2
            assert sums @ s**2 == pytest.approx(sd_of_total([Part(mechanism(n, "7/10"), m)]) ** 2, rel=1e-9)
