"""The samplers have their exact laws, and the tests would notice if they had not.

Chi-square tests over cells of the exact law, with the error rates of `tests.statistical.chi_square`.
"""

from collections.abc import Callable
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from meteragent.core.noise import Noise
from meteragent.privacy import (
    Bits,
    LInfLaplace,
    SeededBits,
    SystemBits,
    below,
    below_array,
    discrete_laplace,
    geometric,
    noise_bound,
    uniform,
)
from meteragent.privacy.sampling import noise_bounds as many_radii
from meteragent.privacy.sampling import uniform_rows, windows
from tests.statistical.chi_square import ALARM, MISS, Cells, Floats, Integers, miss, p_value, rejects
from tests.support.tape import ReplayedBits

SOURCES = [SeededBits, ReplayedBits]
"""Bits of a seed, which are sampled as a key's are, and as of the operating system, for alias tables."""

# Laws, as probabilities of 0, 1, 2 .. -------------------------------------------------------------


def radius_law(n: int, a: Fraction) -> Floats:
    """P(R) ~ (2R+1)^n e^(-aR), n >= 0, up to where it is below e^-60 of its largest."""
    end = (n + 60 + (3600 + 120 * n) ** 0.5) / float(a)
    r = np.arange(int(end) + 3)
    log_weight = n * np.log(2 * r + 1) - float(a) * r
    weight = np.exp(log_weight - log_weight.max())
    return np.asarray(weight / weight.sum())


def magnitude_law(a: Fraction) -> Floats:
    """P(|z|) of discrete Laplace: tanh(a/2) at 0, twice that times e^(-a|z|) elsewhere."""
    z = np.arange(int(80 / float(a)) + 3)
    return np.asarray(np.where(z == 0, 1, 2) * np.tanh(float(a) / 2) * np.exp(-float(a) * z))


def noise_bounds(n: int, a: Fraction, draws: int, bits: Bits) -> Integers:
    """Independent noise bounds of windows."""
    return np.array([noise_bound(n, a, bits) for _ in range(draws)])


# The noise bound ---------------------------------------------------------------------------------------

NOISE_BOUNDS = [
    (1, Fraction(1, 220)),
    (1, Fraction(3, 2)),
    (2, Fraction(7, 10)),
    (6, Fraction(1, 220)),
    (30, Fraction(1, 10)),
    (96, Fraction(1067, 10)),  # a >> sqrt(n)
    (1440, Fraction(1, 220)),
]


@pytest.mark.parametrize(("n", "a"), NOISE_BOUNDS)
def test_the_radius_has_its_law(n: int, a: Fraction) -> None:
    """R has P(R) ~ (2R+1)^n e^-aR; a scale 10% too large or too small is told from it."""
    cells, bits, draws = Cells(radius_law(n, a)), SeededBits(n), 16_000 if n < 6 else 8000
    assert cells.p_value(noise_bounds(n, a, draws, bits)) > ALARM
    for factor in (Fraction(11, 10), Fraction(9, 10)):
        wrong = a / factor
        assert rejects(cells, radius_law(n, wrong), noise_bounds(n, wrong, draws, bits))


@pytest.mark.parametrize(("n", "a"), [(2, Fraction(7, 10)), (6, Fraction(1, 220)), (30, Fraction(1, 10))])
def test_one_shape_less_is_told_apart(n: int, a: Fraction) -> None:
    """(2R+1)^(n-1), the lattice's Gamma(n) where Gamma(n+1) is right, is rejected."""
    assert rejects(
        Cells(radius_law(n, a)), radius_law(n - 1, a), noise_bounds(n - 1, a, 12_000, SeededBits(n))
    )


def test_one_shape_less_is_told_apart_for_one_slot() -> None:
    """For n = 1 the lattice's Gamma(1) is the geometric law, and is rejected."""
    a = Fraction(1, 220)
    drawn = geometric(16_000, a, SeededBits(1))
    assert rejects(Cells(radius_law(1, a)), radius_law(0, a), drawn)
    assert Cells(radius_law(0, a)).p_value(drawn) > ALARM


def test_negligible_noise_is_negligible() -> None:
    """At a = 100 (level 1000, radius 10 W, quantum 1 W) R is its mode but for a chance of e^-90 a draw."""
    assert not noise_bounds(1, Fraction(100), 5000, SeededBits(0)).any()
    assert not discrete_laplace(100_000, Fraction(100), SeededBits(0)).any()


# The window ---------------------------------------------------------------------------------------


def slot_magnitudes(n: int, a: Fraction, draws: int, halved: int = 1) -> Integers:
    """|z| of one slot per window; `halved` = 2 draws from half the range."""
    bits = SeededBits(n + halved)
    return np.abs([uniform(noise_bound(n, a, bits) // halved, bits) for _ in range(draws)])


def slot_law(n: int, a: Fraction, halved: int = 1) -> Floats:
    """P(|z|) of one slot: a mixture of uniforms on -R//halved .. R//halved."""
    law = radius_law(n, a)
    reach = np.arange(len(law)) // halved
    per_point = np.bincount(reach, law / (2 * reach + 1))
    tails = np.cumsum(per_point[::-1])[::-1]
    return np.asarray(np.where(np.arange(len(tails)) == 0, 1, 2) * tails)


@pytest.mark.parametrize(("n", "a"), [(1, Fraction(1, 220)), (6, Fraction(1, 10)), (30, Fraction(1, 10))])
def test_a_slot_has_its_law(n: int, a: Fraction) -> None:
    """|z| of a slot has the marginal law of THEORY 1.2 on the lattice; half-range uniforms are rejected."""
    cells = Cells(slot_law(n, a))
    assert cells.p_value(slot_magnitudes(n, a, 12_000)) > ALARM
    assert rejects(cells, slot_law(n, a, halved=2), slot_magnitudes(n, a, 3000, halved=2))


def test_one_slot_is_discrete_laplace() -> None:
    """For n = 1, R and a uniform together give P(z) = tanh(a/2) e^-a|z|."""
    a = Fraction(1, 220)
    assert slot_law(1, a)[:3000] == pytest.approx(magnitude_law(a)[:3000], rel=1e-9)


BOX = 4


def window_law(a: Fraction, shape: int = 2) -> Floats:
    """P(z) for n = 2 on {-4..4}^2, and last what is outside; `shape` = 1 is the law of too small an R."""
    law = radius_law(shape, a)
    tails = np.cumsum((law / (2 * np.arange(len(law)) + 1) ** 2)[::-1])[::-1]
    z = np.arange(-BOX, BOX + 1)
    box = tails[np.maximum(np.abs(z)[:, None], np.abs(z))].ravel()
    return np.append(box, 1 - box.sum())


def window_counts(noise: Integers) -> Floats:
    """How many of the windows (rows of two) lie in each of those cells."""
    inside = (np.abs(noise) <= BOX).all(axis=1)
    row, column = (noise[inside] + BOX).T
    counts = np.bincount(row * (2 * BOX + 1) + column, minlength=(2 * BOX + 1) ** 2)
    return np.append(counts, len(noise) - inside.sum()).astype(float)


def test_a_window_has_its_joint_law() -> None:
    """For n = 2, P(z) ~ e^(-a max|z_i|) in each of 81 cells: slots are dependent exactly as they must be."""
    a, draws = Fraction(7, 10), 20_000
    noise = LInfLaplace(a, Fraction(1), 2).release(np.zeros((draws, 2), np.int64), bits=SeededBits(2))
    z = np.array(list(product(range(-BOX, BOX + 1), repeat=2)))
    exact = 0.0599668321736 * np.exp(-0.7 * np.abs(z).max(axis=1))  # THEORY oracles: P(z = 0)
    right = window_law(a)
    assert right[:-1] == pytest.approx(exact, rel=1e-9)
    assert p_value(window_counts(noise), right) > ALARM


def test_independent_noise_on_each_slot_is_told_apart() -> None:
    """Two independent Laplace draws, the trap of the literature, have another joint law."""
    a, draws = Fraction(7, 10), 20_000
    noise = discrete_laplace(2 * draws, a, SeededBits(3)).reshape(draws, 2)
    assert p_value(window_counts(noise), window_law(a)) < ALARM


def test_a_window_from_too_small_a_radius_is_told_apart() -> None:
    """Two uniforms on an R drawn for one slot have another joint law: an extra draw shows."""
    a, bits, draws = Fraction(7, 10), SeededBits(4), 20_000
    cubes = noise_bounds(1, a, draws, bits)
    noise = np.array([[uniform(int(cube), bits), uniform(int(cube), bits)] for cube in cubes])
    right, wrong = window_law(a), window_law(a, shape=1)
    assert miss(wrong, right, draws) < MISS
    assert p_value(window_counts(noise), right) < ALARM
    assert p_value(window_counts(noise), wrong) > ALARM


# Many windows at once -----------------------------------------------------------------------------

WINDOWS = [
    (2, Fraction(7, 10)),
    (4, Fraction(1, 220)),
    (30, Fraction(1, 10)),
    (96, Fraction(1067, 10)),  # a >> sqrt(n)
    (1440, Fraction(1, 220)),
]


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(("n", "a"), [(1, Fraction(1, 50)), *WINDOWS])
def test_many_radii_have_their_law(n: int, a: Fraction, source: Callable[[int], Bits]) -> None:
    """Drawn at once, R has the law of `noise_bound`; a scale 10% too large or too small is told from it."""
    cells, bits, draws = Cells(radius_law(n, a), 100), source(n), 200_000
    assert cells.p_value(many_radii(n, a, draws, bits)) > ALARM
    for factor in (Fraction(11, 10), Fraction(9, 10)):
        if a < n:  # else R is nearly always one value, whatever the scale
            assert rejects(cells, radius_law(n, a / factor), many_radii(n, a / factor, draws, bits))


@pytest.mark.parametrize(("n", "a"), WINDOWS)
def test_a_slot_of_many_windows_is_uniform_on_its_cube(n: int, a: Fraction) -> None:
    """Given R, z + R falls evenly into 2R+1 values: (z+R+V)/(2R+1), V uniform, into 50 equal parts."""
    bits, rows = SeededBits(n), 200_000 // n + 1
    cubes = many_radii(n, a, rows, bits)
    shares = uniform_rows(cubes, n, bits) + cubes[:, np.newaxis]
    smooth = np.random.default_rng(1).random(shares.shape)
    places = ((shares + smooth) / (2 * cubes + 1)[:, np.newaxis] * 50).astype(np.int64)
    counts = np.bincount(places.ravel(), minlength=50).astype(float)
    assert p_value(counts, np.full(50, 1 / 50)) > ALARM
    narrow = (shares * 9 // 10 + smooth) / (2 * cubes + 1)[:, np.newaxis]
    counts = np.bincount((narrow * 50).astype(np.int64).ravel(), minlength=50).astype(float)
    assert p_value(counts, np.full(50, 1 / 50)) < ALARM


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(("n", "a"), [(1, Fraction(1, 220)), *WINDOWS])
def test_the_largest_of_many_windows_has_its_law(n: int, a: Fraction, source: Callable[[int], Bits]) -> None:
    """P(max|z_i| = m) ~ ((2m+1)^n - (2m-1)^n) e^(-am); with epsilon 10% off it is told from it."""
    draws = 5000 if n > 96 else 40_000
    cells = Cells(largest_law(n, a))
    assert cells.p_value(np.abs(windows(n, a, draws, source(n))).max(axis=1)) > ALARM
    for factor in (Fraction(11, 10), Fraction(9, 10)):
        if a < n:
            wrong = np.abs(windows(n, a / factor, draws, source(n))).max(axis=1)
            assert rejects(cells, largest_law(n, a / factor), wrong)


def test_noise_drawn_ahead_has_its_law() -> None:
    """What the agent draws for many windows of one slot is discrete Laplace (THEORY 2.1)."""
    a, noise = Fraction(1, 220), Noise(SeededBits(8))
    drawn = np.array([noise.draw_window("a", LInfLaplace(a, 1, 1)) for _ in range(40_000)])
    assert Cells(radius_law(1, a)).p_value(drawn[:, 0]) > ALARM
    assert Cells(magnitude_law(a)).p_value(np.abs(drawn[:, 1])) > ALARM
    assert abs(int(np.sign(drawn[:, 1]).sum())) < 6 * 200


def largest_law(n: int, a: Fraction) -> Floats:
    """P(max|z_i| = m), m >= 0."""
    law = radius_law(n, a)
    m = np.arange(len(law))
    log_share = n * np.log(np.maximum(2 * m - 1, 1) / (2 * m + 1))
    log_count = n * np.log(2 * m + 1) + np.log(
        np.where(m == 0, 1, -np.expm1(np.where(m == 0, -1, log_share)))
    )
    log_mass = log_count - float(a) * m
    mass = np.exp(log_mass - log_mass.max())
    return np.asarray(mass / mass.sum())


# Uniforms and geometrics --------------------------------------------------------------------------


@pytest.mark.parametrize("m", [3, 40, 257, 1000, 2**31 + 7, 2**40 + 1, 2**62 + 1])
def test_a_uniform_is_uniform(m: int) -> None:
    """One by one or as an array, integers below m fall evenly into m, or 40, parts of the range."""
    parts = min(m, 40)
    edges = [(m * part + parts - 1) // parts for part in range(parts + 1)]
    sizes = np.diff(np.array(edges, dtype=object)).astype(float) / m
    bits = SeededBits(m)
    for drawn in (below_array(m, 20_000, bits).tolist(), [below(m, bits) for _ in range(20_000)]):
        counts = np.bincount([value * parts // m for value in drawn], minlength=parts)
        assert p_value(counts.astype(float), sizes) > ALARM


def test_uniforms_one_by_one_are_uniform() -> None:
    """The 2R+1 values of a slot's uniform are equally likely; one value less at an end is told apart."""
    bits, cube, draws = SeededBits(6), 7, 30_000
    even = Cells(np.full(2 * cube + 1, 1 / (2 * cube + 1)), 2 * cube + 1)
    assert even.p_value(np.array([uniform(cube, bits) + cube for _ in range(draws)])) > ALARM
    clipped = np.append(np.full(2 * cube, 1 / (2 * cube)), 0)
    assert rejects(even, clipped, below_array(2 * cube, draws, bits))


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("a", [Fraction(1, 10_000), Fraction(1, 220), Fraction(1, 2), Fraction(2)])
def test_discrete_laplace_has_its_law(a: Fraction, source: Callable[[int], Bits]) -> None:
    """P(z) = tanh(a/2) e^-a|z| with a fair sign; a scale 10% off is rejected."""
    draws, bits, cells = 200_000, source(7), Cells(magnitude_law(a))
    drawn = discrete_laplace(draws, a, bits)
    assert cells.p_value(np.abs(drawn)) > ALARM
    signs = np.array([(drawn < 0).sum(), (drawn > 0).sum()], float)
    assert p_value(signs, np.array([0.5, 0.5])) > ALARM
    for factor in (Fraction(11, 10), Fraction(9, 10)):
        wrong = discrete_laplace(draws, a / factor, bits)
        assert rejects(cells, magnitude_law(a / factor), np.abs(wrong))


@pytest.mark.parametrize("source", SOURCES)
def test_neighbours_in_a_vector_are_independent(source: Callable[[int], Bits]) -> None:
    """Consecutive draws of a vector, in 6 x 6 cells, fill them as independent ones do."""
    drawn = np.abs(discrete_laplace(100_000, Fraction(1, 2), source(8))).reshape(-1, 2)
    cells = Cells(magnitude_law(Fraction(1, 2)), 6)
    place = np.searchsorted(cells.starts, drawn, side="right") - 1
    kinds = len(cells.starts)
    counts = np.bincount(place[:, 0] * kinds + place[:, 1], minlength=kinds**2).astype(float)
    alone = cells.sums(cells.law)
    assert p_value(counts, np.outer(alone, alone).ravel()) > ALARM


# Bits ---------------------------------------------------------------------------------------------


def test_seeded_bits_are_fair() -> None:
    """Bytes of the seeded source are equally likely."""
    counts = np.bincount(SeededBits(0).array(200_000, np.uint8), minlength=256).astype(float)
    assert p_value(counts, np.full(256, 1 / 256)) > ALARM


def test_the_law_holds_with_the_system_s_bits() -> None:
    """From the operating system's bits, new in each run: bytes, bounds, slots; false-alarm rate 1e-9."""
    bits, alarm = SystemBits(), 1e-9 / 3
    counts = np.bincount(bits.array(200_000, np.uint8), minlength=256).astype(float)
    assert p_value(counts, np.full(256, 1 / 256)) > alarm
    cells = Cells(radius_law(6, Fraction(1, 10)), 20)
    assert cells.p_value(noise_bounds(6, Fraction(1, 10), 4000, bits)) > alarm
    cells = Cells(magnitude_law(Fraction(1, 220)))
    assert cells.p_value(np.abs(discrete_laplace(50_000, Fraction(1, 220), bits))) > alarm
