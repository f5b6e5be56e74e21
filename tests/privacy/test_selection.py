"""Noisy max and the exponential mechanism: their laws, their privacy, ties, and how far below the best."""

import math
from fractions import Fraction
from itertools import product
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent.privacy.bits import SeededBits
from meteragent.privacy.mechanism.base import MetricMechanism
from meteragent.privacy.mechanism.number import Laplace
from meteragent.privacy.mechanism.selection import Exponential, NoisyMax
from tests.support.draws import has_its_law

EPSILON, QUANTUM, DELTA = Fraction(4, 3), Fraction(1, 2), Fraction(1, 3)
Selection = type[NoisyMax] | type[Exponential]

both = pytest.mark.parametrize("kind", [NoisyMax, Exponential])
values = st.lists(st.integers(-6, 6), min_size=1, max_size=6)


def masses(mechanism: NoisyMax | Exponential, u: list[int]) -> list[float]:
    """P(index | u) of every index."""
    listed: list[float] = np.exp(mechanism.log_mass(np.arange(len(u)), u)).tolist()
    return listed


# Laws ---------------------------------------------------------------------------------------------


@given(values, st.fractions(Fraction(1, 2), 6))
def test_the_law_of_noisy_max_is_that_of_its_draws(u: list[int], epsilon: Fraction) -> None:
    """log_mass is the chance, over independent geometric numbers, that i has the first largest sum."""
    mechanism = NoisyMax(epsilon, 1, len(u))
    y = math.exp(-float(epsilon) / 2)
    # Each i and each sum v: P(g_i = v - u_i), earlier ones below v, later ones at most v.
    expected = [0.0] * len(u)
    for i, v in product(range(len(u)), range(max(u), max(u) + 400)):
        before = math.prod(1 - y ** (v - u[j]) for j in range(i))
        after = math.prod(1 - y ** (v - u[j] + 1) for j in range(i + 1, len(u)))
        expected[i] += (1 - y) * y ** (v - u[i]) * before * after
    assert masses(mechanism, u) == pytest.approx(expected, rel=1e-10)
    assert sum(masses(mechanism, u)) == pytest.approx(1, abs=1e-10)


def test_a_long_sum_is_taken_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The law is the same however many terms are worked on at once."""
    mechanism, u = NoisyMax("1/10", 1, 3), [3, 0, 2]
    whole = masses(mechanism, u)
    monkeypatch.setattr("meteragent.privacy.mechanism.selection._TERMS", 100)
    assert masses(mechanism, u) == pytest.approx(whole, rel=1e-13)


def test_on_a_fine_lattice_noisy_max_of_two_is_permute_and_flip() -> None:
    """With exponential noise the lower of two, x below, is reported with probability e^(-epsilon x/2)/2."""
    mechanism = NoisyMax(1, "1/1000", 2)
    for gap in (0, 500, 3000):
        assert masses(mechanism, [gap, 0])[1] == pytest.approx(math.exp(-gap / 2000) / 2, rel=1e-3)


@given(values)
def test_the_law_of_the_exponential_mechanism(u: list[int]) -> None:
    """P(r) ~ e^(epsilon u(r)/(2 Delta)), u in the unit (Pauwels 2016)."""
    mechanism = Exponential(EPSILON, QUANTUM, len(u), DELTA)
    weights = [math.exp(float(EPSILON * QUANTUM * v / (2 * DELTA))) for v in u]
    assert masses(mechanism, u) == pytest.approx([w / sum(weights) for w in weights], rel=1e-12)


@given(st.lists(st.integers(0, 2000), min_size=1, max_size=8), st.sampled_from([32, 64]))
def test_the_exponential_mechanism_draws_from_certified_bounds(gaps: list[int], k: int) -> None:
    """The integers that a uniform is compared with enclose 2^k P(index <= i), a few units apart."""
    assert enclosed([0, *gaps], k) <= 4


@given(st.lists(st.integers(0, 9), min_size=1, max_size=8), st.integers(0, 8))
def test_bounds_hold_also_where_weights_are_coarse(gaps: list[int], i: int) -> None:
    """With no guard bits the bounds are wide, and still enclose."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("meteragent.privacy.mechanism.selection._GUARD_BITS", -4)
        enclosed([*gaps[:i], 0, *gaps[i:]], 10)


def enclosed(gaps: list[int], k: int) -> int:
    """How far apart the bounds of 2^k P(index <= i) are at most; fails where they do not enclose it."""
    mechanism = Exponential(EPSILON, QUANTUM, len(gaps), DELTA)
    with mpmath.workdps(60):
        rate = mpmath.mpf(mechanism.a.numerator) / mechanism.a.denominator
        weights = [mpmath.exp(-rate * gap) for gap in gaps]
        bounds = mechanism._cumulative(gaps, k)
        assert len(bounds) == len(gaps) - 1
        for i, (lo, hi) in enumerate(bounds):
            assert lo <= 2**k * mpmath.fsum(weights[: i + 1]) / mpmath.fsum(weights) <= hi
    return max(hi - lo for lo, hi in bounds)


# Privacy ------------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("n", [1, 2, 3])
def test_the_odds_of_an_index_change_by_at_most_the_loss(kind: Selection, n: int) -> None:
    """|ln P(i|u)/P(i|u')| <= epsilon d_inf(u, u')/Delta for all u, u' of a box, ties included.

    What is drawn has the stated law.
    """
    mechanism = kind(EPSILON, QUANTUM, n, DELTA)
    box = list(product(range(4), repeat=n))
    log_mass = {u: mechanism.log_mass(np.arange(n), u) for u in box}
    for u, other in product(box, repeat=2):
        distance = mechanism.space.metric(u, other)
        assert isinstance(distance, Fraction)
        worst = float(np.abs(log_mass[u] - log_mass[other]).max())
        assert worst <= float(mechanism.loss(distance)) + 1e-12
        rises = all(v >= w for v, w in zip(u, other, strict=True))
        if kind is NoisyMax and rises:
            assert worst <= float(NoisyMax(EPSILON, QUANTUM, n, DELTA).monotone_loss(distance)) + 1e-12
    if n > 1:
        assert has_its_law(mechanism, list(range(n)), range(n))


@both
def test_the_loss_is_tight(kind: Selection) -> None:
    """The index that falls far behind while all others gain has its odds changed by nearly e^loss."""
    mechanism = kind(EPSILON, QUANTUM, 2, DELTA)
    low, lower = mechanism.log_mass(1, [20, 0]), mechanism.log_mass(1, [21, -1])
    assert float(low - lower) == pytest.approx(float(mechanism.loss(QUANTUM)), rel=1e-3)


def test_the_loss_of_noisy_max_is_half_where_values_only_rise() -> None:
    """Tight as well: another's count rises by a quantum, the odds of the one behind fall by e^(loss/2)."""
    mechanism = NoisyMax(EPSILON, QUANTUM, 2, DELTA)
    ratio = mechanism.log_mass(1, [20, 0]) - mechanism.log_mass(1, [21, 0])
    assert float(ratio) == pytest.approx(float(mechanism.monotone_loss(QUANTUM)), rel=1e-3)
    assert mechanism.monotone_loss(QUANTUM) == mechanism.loss(QUANTUM) / 2


@both
def test_the_loss_is_epsilon_between_neighbours_and_counts_whole_quanta(kind: Selection) -> None:
    """At d_inf = Delta, a multiple of the quantum, it is epsilon; between quanta that of the next."""
    mechanism = kind(EPSILON, QUANTUM, 4, 3 * QUANTUM)
    assert mechanism.loss(3 * QUANTUM) == EPSILON
    assert mechanism.loss(QUANTUM / 100) == mechanism.loss(QUANTUM) == EPSILON / 3
    assert mechanism.loss(Fraction(0)) == 0
    assert isinstance(mechanism, MetricMechanism)


# Ties and errors ----------------------------------------------------------------------------------


def test_of_equal_sums_the_first_is_reported() -> None:
    """With noise that is nearly always zero, equal counts report the first of them."""
    mechanism = NoisyMax(200, 1, 4)
    assert mechanism.release([[1, 5, 5, 2]] * 3, bits=SeededBits(1)).tolist() == [1, 1, 1]
    assert Exponential(200, 1, 4).release([1, 4, 5, 2], bits=SeededBits(1)).tolist() == 2


@both
@given(values, st.floats(0, 8))
def test_proposition_7_bounds_how_far_below_the_best_it_is(kind: Selection, u: list[int], t: float) -> None:
    """With a chance of 1 - e^-t or more the value is at least max - (2 Delta/epsilon)(ln n + t)."""
    mechanism = kind(EPSILON, QUANTUM, len(u), DELTA)
    bound = mechanism.regret_bound(t)
    assert bound == pytest.approx(2 * float(DELTA / EPSILON) * (math.log(len(u)) + t))
    worse = [p for p, v in zip(masses(mechanism, u), u, strict=True) if (max(u) - v) * float(QUANTUM) > bound]
    assert sum(worse) <= math.exp(-t)


@given(values)
def test_noisy_max_is_nearer_the_best_than_the_exponential_mechanism(u: list[int]) -> None:
    """At the same loss, with the best first, the mean of the reported value is no smaller."""
    u = sorted(u, reverse=True)
    noisy, soft = (masses(kind(1, 1, len(u)), u) for kind in (NoisyMax, Exponential))
    means = [sum(p * v for p, v in zip(law, u, strict=True)) for law in (noisy, soft)]
    assert means[0] >= means[1] - 1e-9


# Examples -----------------------------------------------------------------------------------------


def test_a_median_by_the_exponential_mechanism() -> None:
    """Utility -|#below - #above| over a public grid finds the median of 101 readings to a grid step."""
    readings = np.arange(101) * 10
    grid = np.arange(0, 1001, 100)
    utility = -np.abs(
        (readings < grid[:, np.newaxis]).sum(axis=1) - (readings > grid[:, np.newaxis]).sum(axis=1)
    )
    law = masses(Exponential(1, 1, len(grid), 1), utility.tolist())
    assert int(np.argmax(law)) == 5
    assert law[5] > 0.99


def test_with_distance_as_utility_it_is_the_laplace_mechanism() -> None:
    """With u_r = -|f - r| over many r, P(r) = tanh(a/2) e^(-a|f-r|) up to what lies beyond the ends.

    As Laplace's mechanism it loses half of what it states as an exponential one (Remark 1).
    """
    f, a = 50, 0.5
    law = masses(Exponential(1, 1, 101), [-abs(f - r) for r in range(101)])
    expected = [math.tanh(a / 2) * math.exp(-a * abs(f - r)) for r in range(101)]
    assert law == pytest.approx(expected, rel=1e-9)
    assert Exponential(1, 1, 101).loss(Fraction(1)) == 2 * Laplace("1/2", 1).loss(Fraction(1))


# What is taken and refused ------------------------------------------------------------------------


@both
def test_a_release_is_an_index_a_row(kind: Selection) -> None:
    """Values of shape (..., n) give indices of shape (...), 0 .. n-1, as int64; one value gives 0."""
    mechanism = kind(EPSILON, QUANTUM, 3)
    rows = [[[9, 0, 0], [0, 0, 9]], [[0, 9, 0], [9, 0, 0]]]
    assert kind(100, 1, 3).release(rows, bits=SeededBits(2)).tolist() == [[0, 2], [1, 0]]
    for shape in [(3,), (4, 3), (2, 4, 3), (0, 3)]:
        chosen = mechanism.release(np.zeros(shape, np.int64), bits=SeededBits(1))
        assert chosen.shape == shape[:-1]
        assert chosen.dtype == np.int64
        assert ((chosen >= 0) & (chosen < 3)).all()
    assert kind(EPSILON, QUANTUM, 1).release([[7], [8]]).tolist() == [0, 0]


@both
def test_parameters_and_values_are_checked(kind: Selection) -> None:
    """Floats, zeros and wrong shapes are refused with a text that names what is wrong."""
    good: dict[str, Any] = {"epsilon": "4/3", "quantum": "0.5", "n": 3, "sensitivity": "1/3"}
    assert kind(**good) == kind(EPSILON, QUANTUM, 3, DELTA)
    for name in ("epsilon", "quantum", "sensitivity"):
        with pytest.raises(TypeError, match=f"{name} must be exact"):
            kind(**{**good, name: 0.25})
        with pytest.raises(ValueError, match=f"{name} must be positive"):
            kind(**{**good, name: 0})
    with pytest.raises(ValueError, match="n must be at least 1"):
        kind(**{**good, "n": 0})
    with pytest.raises(TypeError, match="whole quanta"):
        kind(**good).release([0.5, 1.0, 2.0])
    with pytest.raises(ValueError, match="points have shape"):
        kind(**good).release([1, 2])
