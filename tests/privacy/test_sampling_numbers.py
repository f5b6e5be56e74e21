"""Coins, choices, geometric and discrete Laplace numbers, part by part; their laws: tests/statistical."""

from fractions import Fraction
from functools import partial
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meteragent.privacy.bits import Bits, SeededBits
from meteragent.privacy.exact import exp_neg_bounds
from meteragent.privacy.sampling import bernoulli, choice, discrete_laplace, geometric
from meteragent.privacy.sampling.geometric import _digits
from tests.support.tape import Tape

Bounds = tuple[int, int]
LEVELS = [Fraction(1, 2**44), Fraction(1, 10**5), Fraction(1, 220), Fraction(1, 2), Fraction(2), Fraction(50)]


def share(p: Fraction, k: int) -> Bounds:
    """The closest integers around 2^k p."""
    scaled = p * (1 << k)
    return scaled.numerator // scaled.denominator, -(-scaled.numerator // scaled.denominator)


# Coins and choices --------------------------------------------------------------------------------


def test_a_coin_is_tossed_by_as_many_bits_as_it_takes() -> None:
    """U < p is decided by 32 bits of U unless they lie within the bounds of p; then by 32 more."""
    third = 0x55555555
    for entries, outcome in [
        ([third - 1], True),
        ([third + 1], False),
        ([third, third - 1], True),
        ([third, third, third, third + 1], False),
    ]:
        tape = Tape(*entries, 7)
        assert bernoulli(lambda k: share(Fraction(1, 3), k), tape) is outcome
        assert tape.left == 1


@given(x=st.fractions(0, 10**6), u=st.integers(0, 2**32 - 1))
def test_a_coin_of_e_to_the_minus_x(x: Fraction, u: int) -> None:
    """True with probability e^-x: U < e^-x, for x of any size."""
    lo, hi = exp_neg_bounds(x.numerator, x.denominator, 160)
    tape = Tape(u, u, u, u, u)
    joined = sum(u << 32 * i for i in range(5))
    if joined + 1 < lo or joined >= hi or x == 0:
        bounds = partial(exp_neg_bounds, x.numerator, x.denominator)
        assert bernoulli(bounds, tape) is (x == 0 or joined < lo)


THIRDS = [Fraction(1, 3), Fraction(2, 3)]


def test_a_choice_is_where_its_uniform_lies() -> None:
    """The index is how many of the cumulative probabilities U has reached; what ties draws more bits."""
    one, two = 0x55555555, 0xAAAAAAAA
    clear = [0, one - 1, one + 1, two - 1, two + 1, 2**32 - 1]
    cumulative = lambda k: [share(p, k) for p in THIRDS]  # noqa: E731
    assert choice(cumulative, 6, Tape(clear)).tolist() == [0, 0, 1, 1, 2, 2]
    tape = Tape([one, 0, one, two], [one - 1, one, two], [one + 1, two + 1])
    assert choice(cumulative, 4, tape).tolist() == [0, 0, 1, 2]
    assert tape.left == 0


def test_a_choice_of_one_is_no_choice() -> None:
    """One index leaves nothing to choose; zero draws give no indices."""
    assert choice(lambda _: [], 3, SeededBits(0)).tolist() == [0, 0, 0]
    assert choice(lambda k: [share(p, k) for p in THIRDS], 0, SeededBits(0)).size == 0


def test_bounds_may_overlap() -> None:
    """Indices of probability zero, and bounds that cross by a few units, are handled."""

    def cumulative(k: int) -> list[Bounds]:
        lo, hi = share(Fraction(1, 3), k)
        return [(lo - 2, hi + 1), (lo - 3, hi + 3), (lo, hi + 2), (1 << k, 1 << k)]

    drawn = choice(cumulative, 3, Tape([0x55555555, 5, 0xFFFFFFFF], [0x55555559]))
    assert drawn.tolist() == [3, 0, 3]


# Digits -------------------------------------------------------------------------------------------

DIGITS = {  # THEORY oracles, discrete_geometric, digit_probs
    Fraction(1, 2): [0.377540668798, 0.26894142137, 0.119202922022, 0.0179862099621, 0.000335350130466],
    Fraction(1, 100): [0.497500020833, 0.49500016666, 0.49000133312, 0.480010659844, 0.460085115444],
    Fraction(2): [0.119202922022, 0.0179862099621, 0.000335350130466, 1.12535162055e-7],
}


@pytest.mark.parametrize("a", DIGITS)
def test_the_digits_have_the_probabilities_of_the_theory(a: Fraction) -> None:
    """Digit j of the lowest group is one with probability 1/(1+e^(a 2^j))."""
    at_most = [sum(pair) / 2**81 for pair in _digits(a).groups[0].cumulative(80)]
    mass = np.diff([0.0, *at_most, 1.0])
    for j, probability in enumerate(DIGITS[a]):
        ones = [r for r in range(mass.size) if r >> j & 1]
        assert mass[ones].sum() == pytest.approx(probability, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("a", LEVELS)
def test_groups_are_enclosed(a: Fraction) -> None:
    """P(<= r) of every group lies between its bounds, a few units apart, and the groups join."""
    groups = _digits(a).groups
    worth = a
    with mpmath.workprec(400):
        for group in groups:
            q = mpmath.exp(-mpmath.mpf(group.x.numerator) / group.x.denominator)
            whole = 1 - (0 if group.is_last else q ** (1 << group.digits))
            for k in (16, 48, 200):
                bounds = group.cumulative(k)
                assert len(bounds) == (1 << group.digits) - (not group.is_last)
                for r, (lo, hi) in enumerate(bounds):
                    assert lo <= mpmath.ldexp((1 - q ** (r + 1)) / whole, k) <= hi
                    assert hi - lo <= 3
    *lower, last, sign = groups
    for group in [*lower, last]:
        assert (group.x, group.digits) == (worth, 8)
        worth *= 256
    assert [group.is_last for group in groups] == [False] * len(lower) + [True, False]
    assert worth >= 45
    assert (sign.x, sign.digits) == (a, 1)


@pytest.mark.parametrize("a", LEVELS)
def test_a_prefix_says_a_group_only_where_it_is_certain(a: Fraction) -> None:
    """The table names r where all uniforms that begin so mean r, and leaves few prefixes open."""
    digits = _digits(a)
    for i, group in enumerate(digits.groups):
        table = digits.table[i << 16 : i + 1 << 16].astype(int)
        bounds = group.cumulative(64)
        for prefix in range(0, 1 << 16, 97):
            first, last = prefix << 48, (prefix + 1 << 48) - 1
            least, most = sum(hi <= first for _, hi in bounds), sum(lo <= last for lo, _ in bounds)
            assert table[prefix] in ((least, -1) if least == most else (-1,))
        assert (table < 0).sum() <= 3 * len(bounds) + 2


def reference(signed: bool, count: int, a: Fraction, bits: Bits) -> list[int]:
    """The same numbers from the same bits, one by one: each group's r by counting its exact bounds."""
    groups = list(_digits(a).groups)
    groups = groups if signed else groups[:-1]
    prefixes = bits.array(len(groups) * count, np.uint16).tolist()
    drawn = [grouped(group, prefixes[i * count : (i + 1) * count], bits) for i, group in enumerate(groups)]
    numbers = drawn[: len(groups) - signed]
    values = [sum(r << 8 * i for i, r in enumerate(rs)) for rs in zip(*numbers, strict=True)]
    last = 8 * (len(numbers) - 1)
    beyond = [i for i in range(count) if numbers[-1][i] == 256]
    if beyond:
        for i, more in zip(beyond, reference(False, len(beyond), a * (1 << last), bits), strict=True):
            values[i] += more << last
    return [-1 - g if s else g for g, s in zip(values, drawn[-1], strict=True)] if signed else values


def grouped(group: Any, prefixes: list[int], bits: Bits) -> list[int]:
    """The r of each prefix; those that are open draw 32 bits each, together, until they are not."""
    r, known, k = [0] * len(prefixes), dict(enumerate(prefixes)), 16
    while True:
        bounds = group.cumulative(k)
        for i, u in list(known.items()):
            r[i], most = sum(hi <= u for _, hi in bounds), sum(lo <= u for lo, _ in bounds)
            if r[i] == most:
                del known[i]
        if not known:
            return r
        k += 32
        words = bits.array(len(known), np.uint32).tolist()
        known = {i: u << 32 | word for (i, u), word in zip(known.items(), words, strict=True)}


@pytest.mark.parametrize("a", LEVELS)
def test_the_numbers_are_those_of_a_plain_reference(a: Fraction) -> None:
    """Vectors are, draw for draw, what a plain loop makes of the same bits."""
    assert geometric(400, a, SeededBits(1)).tolist() == reference(False, 400, a, SeededBits(1))
    assert discrete_laplace(400, a, SeededBits(2)).tolist() == reference(True, 400, a, SeededBits(2))


@pytest.mark.parametrize(("a", "place"), [(Fraction(1), 1), (Fraction(1, 5), 1), (Fraction(1, 220), 256)])
def test_beyond_its_digits_a_number_goes_on_by_the_same_law(a: Fraction, place: int) -> None:
    """Beyond, the last group is 256 and one more number of its law: 257 is e^-x times as likely as 256."""
    *lower, last, _ = _digits(a).groups
    draws = 0
    while last.cumulative(16 + 32 * draws)[-1][1] >= 1 << 16 + 32 * draws:
        draws += 1
    assert draws > 0
    for more, prefix in enumerate((0, 0xC000)):
        r = sum(hi <= prefix for _, hi in last.cumulative(16))  # what the prefix says of the number added
        tape = Tape([*[0] * len(lower), 0xFFFF], *[[0xFFFFFFFF]] * draws, [prefix])
        assert geometric(1, a, tape).tolist() == [(256 + r) * place]
        assert tape.left == 0
        assert (r > 0) == (more > 0)


@settings(max_examples=15)
@given(a=st.fractions(Fraction(1, 10**6), 200), count=st.integers(0, 40))
def test_vectors_have_their_shape_and_sign(a: Fraction, count: int) -> None:
    """A geometric is not negative; vectors of any length come as int64."""
    if a <= 0:
        return
    drawn = geometric(count, a, SeededBits(count))
    assert drawn.shape == (count,)
    assert drawn.dtype == np.int64
    assert (drawn >= 0).all()
    assert discrete_laplace(count, a, SeededBits(count)).shape == (count,)
