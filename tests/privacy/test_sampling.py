"""The exact samplers, part by part (meteragent.privacy.sampling); their laws: tests/statistical."""

from collections.abc import Iterable
from fractions import Fraction
from itertools import product

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meteragent.privacy.bits import SeededBits
from meteragent.privacy.sampling import (
    below,
    below_array,
    discrete_laplace,
    geometric,
    noise_bound,
    uniform,
)
from meteragent.privacy.sampling.geometric import _digits, _thresholds
from meteragent.privacy.sampling.noise_bound import envelope_of
from meteragent.privacy.sampling.windows import table_of as windows_table
from tests.support.tape import Tape

PARAMETERS = [
    (1, Fraction(1, 220)),
    (1, Fraction(100)),
    (1, Fraction(1, 2)),
    (2, Fraction(7, 10)),
    (6, Fraction(1, 10)),
    (6, Fraction(2)),
    (30, Fraction(1)),
    (96, Fraction(1067, 10)),  # a >> sqrt(n): the reals' peak lies between two integers of little weight
    (144, Fraction(5)),
    (1440, Fraction(1, 220)),
    (1440, Fraction(100)),
    (8640, Fraction(100)),
]


def log_weight(n: int, a: Fraction, r: int) -> mpmath.mpf:
    """The log of w(R), n ln(2R+1) - aR, at the present working precision."""
    return n * mpmath.log(2 * r + 1) - mpmath.mpf(a.numerator) / a.denominator * r


def exact_weights(n: int, a: Fraction, points: Iterable[int], k: int = 240) -> list[Fraction]:
    """w(R)/w(M) as the sampler sees it, to k bits."""
    envelope = envelope_of(n, a)
    return [Fraction(sum(envelope.weight_bounds(point, k)), 2 << k) for point in points]


# Uniforms -----------------------------------------------------------------------------------------


def test_below_keeps_what_is_in_range_and_rejects_the_rest() -> None:
    """Of the equally likely values of the mask, those below m are taken as they are, others redrawn."""
    tape = Tape(7, 5, 4, 0, 6, 3)
    assert [below(5, tape) for _ in range(3)] == [4, 0, 3]


def test_below_one_needs_no_bits() -> None:
    """The only integer below 1 is 0."""
    assert below(1, Tape(0)) == 0


@pytest.mark.parametrize("m", [0, -3])
def test_an_empty_range_is_refused(m: int) -> None:
    """There is no integer below 0."""
    with pytest.raises(ValueError, match="must not be empty"):
        below(m, SeededBits(0))
    with pytest.raises(ValueError, match="m must lie in"):
        below_array(m, 3, SeededBits(0))


@pytest.mark.parametrize("m", [1, 2, 3, 255, 256, 257, 65536, 65537, 2**32, 2**32 + 1, 2**63 - 1, 2**63])
def test_an_array_stays_in_its_range_and_reaches_both_ends(m: int) -> None:
    """Arrays of uniforms cover 0 .. m-1 for every width of integer, at any count."""
    drawn = below_array(m, 5000, SeededBits(m))
    assert drawn.dtype == np.int64
    assert drawn.min() >= 0
    assert int(drawn.max()) < m
    assert drawn.min() <= m // 100
    assert int(drawn.max()) >= m - 1 - m // 100
    assert below_array(m, 0, SeededBits(m)).shape == (0,)


def test_an_array_beyond_int64_is_refused() -> None:
    """Arrays are int64, so m is at most 2^63."""
    with pytest.raises(ValueError, match="2\\^63"):
        below_array(2**63 + 1, 1, SeededBits(0))


def test_an_array_redraws_what_does_not_come_out_even() -> None:
    """For m = 3 one word of 2^32 is surplus, the word 0; it is redrawn until a different word comes."""
    third = 1431655765
    words = [0, 1, third, third + 1, 2 * third, 2 * third + 1, 3 * third]
    tape = Tape(words, [0], [2 * third + 1])
    assert below_array(3, 7, tape).tolist() == [2, 0, 0, 1, 1, 2, 2]
    assert below_array(1 << 32, 2, Tape([7, (1 << 32) - 1])).tolist() == [7, (1 << 32) - 1]


def test_an_array_of_a_great_range_redraws_what_is_out_of_it() -> None:
    """Above 2^32, a masked value that is not below m is redrawn, never folded back into the range."""
    m = (1 << 40) + 1
    tape = Tape([m, 5 + (1 << 41), (1 << 41) - 1, m - 1], [m + 1, 6], [7])
    assert below_array(m, 4, tape).tolist() == [7, 5, 6, m - 1]


@given(radius_=st.integers(0, 10**30), seed=st.integers(0, 99))
def test_a_uniform_lies_within_its_radius(radius_: int, seed: int) -> None:
    """A slot's uniform is an integer in -R .. R, for R of any size."""
    assert -radius_ <= uniform(radius_, SeededBits(seed)) <= radius_


def test_a_uniform_is_centred() -> None:
    """The 2R+1 values below 2R+1 are moved down by R: 0 gives -R, 2R gives R."""
    assert [uniform(2, Tape(value)) for value in range(5)] == [-2, -1, 0, 1, 2]


def test_a_negative_radius_is_refused() -> None:
    """A negative noise bound is refused."""
    with pytest.raises(ValueError, match="must not be empty"):
        uniform(-1, SeededBits(0))


# The noise bound of a window ---------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "a"), PARAMETERS)
def test_the_weights_are_enclosed(n: int, a: Fraction) -> None:
    """w(R)/w(M) = ((2R+1)/(2M+1))^n e^-a(R-M) lies between the sampler's bounds, a few units apart."""
    envelope = envelope_of(n, a)
    mode, block = envelope.mode, envelope.block
    near = range(max(0, mode - 3), mode + 4)
    far = [max(0, mode + block * i // 3) for i in range(-15, 16)]
    with mpmath.workdps(120):
        top = log_weight(n, a, mode)
        for point, k in product([*near, *far], (32, 64, 200)):
            lo, hi = envelope.weight_bounds(point, k)
            assert lo <= mpmath.ldexp(mpmath.exp(log_weight(n, a, point) - top), k) <= hi
            assert hi - lo <= 8


@pytest.mark.parametrize(("n", "a"), PARAMETERS)
def test_the_mode_is_the_heaviest_integer(n: int, a: Fraction) -> None:
    """No integer outweighs the mode: no probability of keeping a proposal would have to be above 1."""
    mode = envelope_of(n, a).mode
    with mpmath.workdps(60):
        top = log_weight(n, a, mode)
        assert log_weight(n, a, mode + 1) < top
        assert mode == 0 or log_weight(n, a, mode - 1) < top


@pytest.mark.parametrize(("n", "a"), PARAMETERS)
def test_the_steps_cover_the_law(n: int, a: Fraction) -> None:
    """In block j, on both sides, w(R) is at most 2^-j w(M), as the proposal assumes."""
    envelope = envelope_of(n, a)
    with mpmath.workdps(60):
        top = log_weight(n, a, envelope.mode)
        for j in range(60):
            nearest = envelope.mode + j * envelope.block
            assert log_weight(n, a, nearest) - top <= -j * mpmath.log(2)
            nearest = envelope.mode - 1 - j * envelope.block
            assert nearest < 0 or log_weight(n, a, nearest) - top <= -j * mpmath.log(2)


@settings(max_examples=60)
@given(n=st.integers(1, 3000), exponent=st.floats(-9, 12))
def test_few_proposals_are_needed(n: int, exponent: float) -> None:
    """At most 5.6 proposals are expected at every n and a, also where a >> sqrt(n)."""
    a = Fraction(2.0**exponent).limit_denominator(10**4)
    envelope = envelope_of(n, a)
    # The blocks at the mode alone; further ones only add weight.
    points = np.arange(max(0, envelope.mode - 2 * envelope.block), envelope.mode + 2 * envelope.block)
    centred = points - envelope.mode
    log_ratio = n * np.log1p(2 * centred / (2 * envelope.mode + 1)) - float(a) * centred
    sides = 2 if envelope.mode else 1
    assert sides * 2 * envelope.block <= 5.6 * np.exp(log_ratio).sum()


@pytest.mark.parametrize(("n", "a"), PARAMETERS)
def test_a_proposal_is_kept_exactly_below_its_probability(n: int, a: Fraction) -> None:
    """With P = 2^j w(R)/w(M), U is kept if and only if U < P, however close to P its bits lie."""
    envelope = envelope_of(n, a)
    point, j = envelope.mode + envelope.block + envelope.block // 2 + 1, 1
    with mpmath.workdps(120):
        ratio = mpmath.exp(log_weight(n, a, point) - log_weight(n, a, envelope.mode))
        expansion = int(mpmath.floor(mpmath.ldexp(ratio, 256 + j)))
    # The first 224 bits of U are those of P, one unit more, or one unit less; then all that can follow.
    for unit, kept in ((-1, True), (1, False)):
        for last in (0, (1 << 32) - 1):
            u = ((expansion >> 32) + unit << 32) + last
            chunks = [u >> shift & 0xFFFFFFFF for shift in range(224, -1, -32)]
            if u >= 0:
                assert envelope.accepts(point, j, Tape(*chunks)) is kept


def test_bits_of_a_uniform_are_revealed_only_while_needed() -> None:
    """A comparison that 32 bits decide takes 32 bits; one that ties takes more, and ends."""
    envelope = envelope_of(1, Fraction(1, 2))
    lo, hi = envelope.weight_bounds(envelope.mode + 2, 64)
    assert lo >> 32 == hi >> 32
    tie = lo >> 32
    clear = Tape(tie - 100, 7)
    assert envelope.accepts(envelope.mode + 2, 0, clear)
    assert clear.left == 1
    tied = Tape(tie, 0, 7)
    assert envelope.accepts(envelope.mode + 2, 0, tied)
    assert tied.left == 1


@pytest.mark.parametrize(("n", "a"), [*PARAMETERS, (1, Fraction(1, 1000)), (2, Fraction(1, 333))])
def test_weights_nearby_enclose_a_weight(n: int, a: Fraction) -> None:
    """The wider bounds that decide most comparisons contain the weight, also at zero and around the mode."""
    envelope = envelope_of(n, a)
    mode, block = envelope.mode, envelope.block
    points = {max(0, mode + block * i // 24 + shift) for i in range(-60, 61) for shift in (-1, 0, 1)}
    for point in {*points, 0, mode - 1 if mode else 0, mode, mode + 1}:
        lo, hi = envelope.weight_bounds(point, 80)
        near_lo, near_hi = envelope._neighbour_bounds(point, 40)
        assert near_lo << 40 <= hi
        assert lo <= near_hi << 40
        assert near_hi - near_lo <= (1 << 40) // 12 or point < block


def test_a_proposal_is_made_of_a_side_a_block_and_a_place() -> None:
    """The side bit, the ones that count blocks, the place in the block: M + jb + i or M - 1 - jb - i."""
    envelope = envelope_of(6, Fraction(1, 10))
    mode, block, certain = envelope.mode, envelope.block, 0
    assert (mode, block) == (60, 34)
    assert noise_bound(6, Fraction(1, 10), Tape(1, 0, 5, certain)) == mode + 5
    assert noise_bound(6, Fraction(1, 10), Tape(1, 1, 1, 0, 5, certain)) == mode + 2 * block + 5
    assert noise_bound(6, Fraction(1, 10), Tape(0, 1, 0, 5, certain)) == mode - 1 - block - 5
    below_zero = (0, 1, 0, 33)
    assert noise_bound(6, Fraction(1, 10), Tape(*below_zero, 1, 0, 5, certain)) == mode + 5
    rejected = (1, 0, 33, (1 << 32) - 1)
    assert noise_bound(6, Fraction(1, 10), Tape(*rejected, 1, 0, 5, certain)) == mode + 5


ORACLES = [  # THEORY oracles, discrete_R: n, a, P(R=0), E R, P(z = 0)
    (1, Fraction(1, 2), 0.0963679845201, 3.46052883387, 0.244918662404),
    (2, Fraction(7, 10), 0.0301881846013, 3.78102813083, 0.0599668321736),
    (6, Fraction(2), 0.00102148956645, 2.99902930833, 0.00118137070548),
    (6, Fraction(1, 10), 2.06429996636e-12, 69.5, 2.16923492801e-11),
    (30, Fraction(1), 2.12957438418e-42, 30.5, 3.36893707132e-42),
]


@pytest.mark.parametrize(("n", "a", "p_zero", "mean", "p_origin"), ORACLES)
def test_the_weights_give_the_law_of_the_theory(
    n: int, a: Fraction, p_zero: float, mean: float, p_origin: float
) -> None:
    """The weights the sampler compares with sum to THEORY's P(R = 0), E R and P(z = 0)."""
    weights = exact_weights(n, a, range(int((n + 60) * 3 / a)))
    total = sum(weights)
    assert float(weights[0] / total) == pytest.approx(p_zero, rel=1e-11)
    assert float(sum(r * w for r, w in enumerate(weights)) / total) == pytest.approx(mean, rel=1e-11)
    origin = sum(w / (2 * r + 1) ** n for r, w in enumerate(weights))
    assert float(origin / total) == pytest.approx(p_origin, rel=1e-11)


@pytest.mark.parametrize(("n", "a"), [(2, Fraction(7, 10)), (2, Fraction(3)), (3, Fraction(1, 2))])
def test_the_density_of_a_window_is_exponential_in_the_largest_noise(n: int, a: Fraction) -> None:
    """P(z)/P(0) = e^(-a max|z_i|) for every z of a box, P from the sampler's own weights (THEORY 2.1)."""
    weights = exact_weights(n, a, range(int((n + 200) / a)), k=400)
    cells = [w / (2 * r + 1) ** n for r, w in enumerate(weights)]
    ratios = [sum(cells[largest:]) / sum(cells) for largest in range(5)]
    with mpmath.workdps(80):
        for z in product(range(-4, 5), repeat=n):
            largest = max(abs(value) for value in z)
            ratio = ratios[largest]
            exact = mpmath.exp(-mpmath.mpf(a.numerator) / a.denominator * largest)
            assert abs(mpmath.mpf(ratio.numerator) / ratio.denominator / exact - 1) < mpmath.mpf(10) ** -60


# What is refused ----------------------------------------------------------------------------------


def test_a_float_is_refused_also_where_an_equal_fraction_is_cached() -> None:
    """A float `a` is a TypeError, also 0.5 right after Fraction(1, 2) was used."""
    bits = SeededBits(0)
    noise_bound(1, Fraction(1, 2), bits)
    geometric(1, Fraction(1, 2), bits)
    with pytest.raises(TypeError, match=r"Fraction\('0.5'\)"):
        noise_bound(1, 0.5, bits)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"Fraction\('0.5'\)"):
        geometric(1, 0.5, bits)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="n must be an int"):
        noise_bound(1.0, Fraction(1, 2), bits)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("n", "a", "text"),
    [
        (0, Fraction(1), "n must be at least 1"),
        (1, Fraction(0), "a must be positive"),
        (1, Fraction(-1, 2), "a must be positive"),
        (1, Fraction(1, 2**45), "n/a must be below 2\\^45"),
        (1440, Fraction(1440, 2**45), "n/a must be below 2\\^45"),
    ],
)
def test_parameters_out_of_range_are_refused(n: int, a: Fraction, text: str) -> None:
    """No slots, no noise, and noise that leaves int64 are refused with what is wrong."""
    with pytest.raises(ValueError, match=text):
        noise_bound(n, a, SeededBits(0))


def test_the_finest_parameters_can_be_drawn() -> None:
    """Just inside n/a < 2^45 the samplers work, and stay in int64."""
    a = Fraction(1, 2**45 - 1)
    assert noise_bound(1, a, SeededBits(0)) < 2**52
    assert np.abs(discrete_laplace(1000, a, SeededBits(0))).max() < 2**52


def test_the_tables_are_bounded() -> None:
    """What is kept per (n, a) is a bounded number of small tables."""
    assert envelope_of.cache_info().maxsize == 256
    assert windows_table.cache_info().maxsize == 64
    assert _digits.cache_info().maxsize == 32
    assert _thresholds.cache_info().maxsize == 256
