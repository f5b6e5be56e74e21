"""What a change costs by all that it moves (THEORY T.7): every split over several slots of small lattices.

With e^-a = t a rational, laws, likelihood ratios and total variation are counted in rationals, and powers of
e are enclosed by Taylor's series. No tolerance, no sample.
"""

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from itertools import product

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent.privacy import LInfLaplace, success_bound
from meteragent.privacy.in_all import A_LIMIT, kappa, loss_in_all, success_in_all

LATTICES = [(3, Fraction(1, 2)), (4, Fraction(2, 3)), (2, Fraction(1, 5))]
"""L, the steps of a quantum, and t = e^-a."""
SLOTS = 3
MOST = 5
"""The most steps that a change moves in all."""
TERMS = 60


@cache
def below_exp(x: Fraction) -> Fraction:
    """A rational below e^x for x > 0, and closer to it than 1e-20 for x < 10: Taylor's series, cut off."""
    return sum((x**k / math.factorial(k) for k in range(TERMS)), Fraction(0))


@cache
def above_exp(x: Fraction) -> Fraction:
    """A rational above e^x for 0 < x < 10."""
    return below_exp(x) + 2 * x**TERMS / math.factorial(TERMS)


def at_most(k: int, t: Fraction) -> Fraction:
    """P(z <= k) of discrete Laplace noise."""
    return t**-k / (1 + t) if k < 0 else 1 - t ** (k + 1) / (1 + t)


@cache
def cells(s: int, low: int, high: int, steps: int, t: Fraction) -> list[Fraction]:
    """P(y <= low), P(y = low + 1), .., P(y >= high) of what leaves for a slot of s steps."""
    m, f = s // steps, Fraction(s % steps, steps)
    below = [(1 - f) * at_most(y - m, t) + f * at_most(y - m - 1, t) for y in range(low, high)]
    return [b - a for a, b in zip([Fraction(0), *below], [*below, Fraction(1)], strict=True)]


def pair(s: int, shift: int, steps: int, t: Fraction) -> list[tuple[Fraction, Fraction]]:
    """Both laws of a slot that moves from s by `shift`; outputs of one likelihood ratio are one cell."""
    low, high = min(s, s + shift) // steps, max(s, s + shift) // steps + 1
    return list(zip(cells(s, low, high, steps, t), cells(s + shift, low, high, steps, t), strict=True))


def splits(moved: int, slots: int) -> Iterator[tuple[int, ...]]:
    """All ways to add and remove `moved` steps in all, over a number of slots."""
    for sizes in product(range(-moved, moved + 1), repeat=slots):
        if sum(map(abs, sizes)) == moved:
            yield sizes


def worst_ratio(pairs: list[list[tuple[Fraction, Fraction]]]) -> Fraction:
    """The largest likelihood ratio of independent slots, either way."""
    one, other = Fraction(1), Fraction(1)
    for slot in pairs:
        one *= max(p / q for p, q in slot)
        other *= max(q / p for p, q in slot)
    return max(one, other)


def overlap(pairs: list[list[tuple[Fraction, Fraction]]]) -> Fraction:
    """1 - TV of independent slots, outcome by outcome."""
    p_q = [(Fraction(1), Fraction(1))]
    for slot in pairs:
        p_q = [(p * a, q * b) for p, q in p_q for a, b in slot]
    return sum((min(p, q) for p, q in p_q), Fraction(0))


def cases(steps: int, moved: int) -> Iterator[tuple[tuple[int, int], ...]]:
    """(start, shift) of each slot that moves: every split, from every fraction of a quantum."""
    for split in splits(moved, SLOTS):
        shifts = sorted(filter(None, split))
        for starts in product(range(steps), repeat=len(shifts)):
            yield tuple(zip(starts, shifts, strict=True))


# The theorem ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("steps", "t"), LATTICES)
@pytest.mark.parametrize("moved", range(1, MOST + 1))
def test_no_split_beats_the_loss_and_the_pair(steps: int, t: Fraction, moved: int) -> None:
    """However a change is split over three slots: odds within e^X and 1 - TV >= e^(-X/2), X = (e^a-1) d_1."""
    loss = (1 / t - 1) * Fraction(moved, steps)
    for case in set(cases(steps, moved)):
        pairs = [pair(s, shift, steps, t) for s, shift in case]
        assert worst_ratio(pairs) <= below_exp(loss)
        assert overlap(pairs) >= 1 / below_exp(loss / 2)


@pytest.mark.parametrize(("steps", "t"), [(12, Fraction(1, 2)), (20, Fraction(9, 10))])
@pytest.mark.parametrize("slots", [1, 4, 8])
def test_a_smaller_constant_would_fail(steps: int, t: Fraction, slots: int) -> None:
    """A step in each slot: half of kappa, 1 for it, and half of what it is above 1 are all exceeded."""
    shifted = [pair(0, 1, steps, t)] * slots
    ratio, distance = worst_ratio(shifted), Fraction(slots, steps)
    loss = (1 / t - 1) * distance
    assert ratio <= below_exp(loss)
    assert ratio > above_exp(loss / 2)
    assert ratio**steps > t**-slots
    assert ratio ** (2 * steps) > t**-slots * above_exp(loss) ** steps


@pytest.mark.parametrize(("steps", "t"), LATTICES)
def test_half_of_it_would_be_beaten_by_an_attacker(steps: int, t: Fraction) -> None:
    """An attacker on a whole quantum in one slot is right more often than half the loss would allow."""
    loss = 1 / t - 1
    assert overlap([pair(0, steps, steps, t)]) < 1 / above_exp(loss / 4)


def mass(outputs: tuple[int, ...], window: tuple[int, ...], steps: int, t: Fraction) -> Fraction:
    """P(y | S) of a window with l_inf noise, but for a constant, by counting every dither."""
    return sum(
        (
            t ** max(abs(y - (u + s) // steps) for y, u, s in zip(outputs, dither, window, strict=True))
            for dither in product(range(steps), repeat=len(window))
        ),
        Fraction(0),
    )


@pytest.mark.parametrize(("steps", "t"), LATTICES)
def test_windows_of_two_slots_lose_no_more(steps: int, t: Fraction) -> None:
    """With l_inf noise over two slots the loss is at most (e^a-1) d_1 too, over all outputs near them."""
    box = list(product(range(-2, 4), repeat=2))
    windows = {w: [mass(y, w, steps, t) for y in box] for w in product(range(2 * steps), repeat=2)}
    for one, other in product(windows, repeat=2):
        moved = sum(abs(a - b) for a, b in zip(one, other, strict=True))
        most = below_exp((1 / t - 1) * Fraction(moved, steps))
        assert all(p <= most * q for p, q in zip(windows[one], windows[other], strict=True))


# What the library states ------------------------------------------------------------------------------


@given(st.fractions(Fraction(1, 10**9), A_LIMIT))
def test_kappa_is_rounded_up_and_hardly(a: Fraction) -> None:
    """It is never below (e^a - 1)/a and above it by less than 2^-60 of it."""
    with mpmath.workdps(80):
        exact_a = mpmath.mpf(a.numerator) / a.denominator
        exact = mpmath.expm1(exact_a) / exact_a
        stated = kappa(a)
        ratio = mpmath.mpf(stated.numerator) / stated.denominator / exact
        assert 0 <= ratio - 1 <= mpmath.mpf(2) ** -60


def test_kappa_of_the_presets() -> None:
    """It is 1.0023 at the default (1 W of 220), and 1.0126 for `television` (1 W of 40)."""
    assert round(float(kappa("1/220")), 4) == 1.0023
    assert round(float(kappa("1/40")), 4) == 1.0126


@given(
    a=st.fractions(Fraction(1, 1000), 5),
    quantum=st.fractions(Fraction(1, 100), 100),
    moved=st.fractions(0, 1000),
)
def test_the_chance_is_rounded_up_and_hardly(a: Fraction, quantum: Fraction, moved: Fraction) -> None:
    """1 - e^(-X/2)/2, never less and a float's last digit more; within a coin toss and certainty."""
    mechanism = LInfLaplace(a / quantum, quantum, 1)
    loss, chance = loss_in_all(mechanism, moved), success_in_all(mechanism, moved)
    with mpmath.workdps(60):
        exact_a = mpmath.mpf(a.numerator) / a.denominator
        distance = moved / quantum
        exact_loss = mpmath.expm1(exact_a) * distance.numerator / distance.denominator
        assert exact_loss <= mpmath.mpf(loss.numerator) / loss.denominator
        exact = 1 - mpmath.exp(-exact_loss / 2) / 2
        assert exact <= chance <= exact + mpmath.mpf(2) ** -51
    assert 0.5 <= chance <= 1


def test_at_the_default_it_is_close_to_that_of_one_slot() -> None:
    """110 Wh in all: right in 69.7 of 100, as in one slot; six half hours together tell no more."""
    mechanism = LInfLaplace("1/220", 1, 1)
    assert success_in_all(mechanism, 220) == pytest.approx(
        success_bound(mechanism, [Fraction(220)]), abs=4e-4
    )
    six = success_bound(mechanism, [Fraction(100)] * 6)
    assert six <= success_in_all(mechanism, 600)


def test_a_coarse_lattice_makes_no_promise() -> None:
    """Above a = 64 kappa is refused and the chance is 1; nothing moved is a coin toss."""
    with pytest.raises(ValueError, match="at most 64, not 65"):
        kappa(65)
    coarse = LInfLaplace(65, 1, 1)
    assert success_in_all(coarse, Fraction(1, 1000)) == 1.0
    assert success_in_all(coarse, 0) == 0.5
    assert success_in_all(LInfLaplace(64, 1, 1), 10**9) == 1.0
