"""The chance that noise alone makes a difference: exact for one term, an honest bound for a sum."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from meteragent.privacy import LInfLaplace
from meteragent.privacy.accuracy import half_width
from meteragent.privacy.tail import Term, quantile, tail_probability

Floats = NDArray[np.float64]
FRACTIONS = (0.0, 0.125, 0.25, 0.5, 0.75, 0.875, 0.999)


def mechanism(a: str, quantum: str = "1") -> LInfLaplace:
    """One slot with this epsilon in quanta."""
    return LInfLaplace(Fraction(a) / Fraction(quantum), Fraction(quantum), 1)


def slot_law(a: float, f: float) -> list[tuple[float, float]]:
    """The errors of a slot that is f above a whole quantum, and their probabilities."""
    reach = math.ceil(30 / a)
    r = math.exp(-a)
    whole = {k: (1 - r) / (1 + r) * r ** abs(k) for k in range(-reach, reach + 1)}
    return [(k + b - f, p * (f if b else 1 - f)) for k, p in whole.items() for b in (0, 1)]


def chances(laws: list[list[tuple[float, float]]], weights: tuple[float, ...], x: Floats) -> Floats:
    """P(weighted sum >= x) for each x, by enumeration."""
    sums, masses = np.zeros(1), np.ones(1)
    for law, weight in zip(laws, weights, strict=True):
        errors, probabilities = np.array(law).T
        sums = np.add.outer(sums, weight * errors).ravel()
        masses = np.multiply.outer(masses, probabilities).ravel()
    order = np.argsort(sums)
    above = np.append(np.cumsum(masses[order][::-1])[::-1], 0)
    return np.asarray(above[np.searchsorted(sums[order], x - 1e-12)])


@pytest.mark.parametrize("a", ["1/5", "1", "2"])
@pytest.mark.parametrize("weight", [1.0, -0.3])
def test_one_slot_is_exact(a: str, weight: float) -> None:
    """The bound is the largest enumerated chance: it is reached at the load that is worst for x."""
    for x in np.linspace(-4, 9, 27):
        bound = tail_probability([Term(mechanism(a), weight)], abs(weight) * float(x))
        worst = float(math.ceil(x) - x) if math.ceil(x) - x < 1 else 0.0
        found = [
            float(chances([slot_law(float(Fraction(a)), f)], (1.0,), np.array([x]))[0])
            for f in (*FRACTIONS, worst)
        ]
        assert max(found) == pytest.approx(bound, rel=1e-9)


@pytest.mark.parametrize(("a", "weights"), [("1", (1.0, 2.0)), ("1", (1.0, -1.0)), ("2", (0.3, 1.0, -0.45))])
def test_a_sum_is_bounded_at_every_load(a: str, weights: tuple[float, ...]) -> None:
    """No enumerated chance exceeds the bound, and the largest is at least that half a quantum further."""
    sizes = sum(map(abs, weights))
    x = np.linspace(-2, 12, 141)
    terms = [Term(mechanism(a), weight) for weight in weights]
    bound, further = (
        np.array([tail_probability(terms, value) for value in (x + shift).tolist()])
        for shift in (0, sizes / 2)
    )
    fractions = FRACTIONS if len(weights) == 2 else (0.0, 0.5, 0.875)
    largest = np.zeros(x.size)
    for loads in itertools.product(fractions, repeat=len(weights)):
        laws = [slot_law(float(Fraction(a)), f) for f in loads]
        largest = np.maximum(largest, chances(laws, weights, x))
    assert np.all(largest <= bound * (1 + 1e-6) + 1e-11)
    assert np.all((largest >= further * (1 - 1e-6) - 1e-11) | (x < sizes))


def test_a_scale_ten_per_cent_off_is_not_bounded() -> None:
    """Noise that is 10% larger exceeds the bound; noise that is 10% smaller stays under it, further off."""
    x = np.linspace(100, 600, 11)
    terms = [Term(mechanism("1/20"), 1.0), Term(mechanism("1/20"), 3.0)]
    bound = np.array([tail_probability(terms, value) for value in x.tolist()])
    for scale, exceeds in ((1.1, True), (1.0, False), (0.9, False)):
        laws = [slot_law(0.05 / scale, 0.5)] * 2
        assert bool(np.all(chances(laws, (1.0, 3.0), x) > bound)) is exceeds
    assert np.all(chances([slot_law(0.05, 0.5)] * 2, (1.0, 3.0), x) > 0.9 * bound)


@pytest.mark.parametrize("count", [1, 4, 60])
def test_the_law_off_the_lattice_is_that_of_laplace_numbers(count: int) -> None:
    """For a fine lattice: Gamma(count) minus Gamma(count), as its characteristic function gives it."""
    a, x = 1e-4, 3.0
    t = np.linspace(1e-6, 400, 400_000)
    wave = np.sin(t * x) / t * (1 + t**2) ** -float(count)
    expected = 0.5 - float(np.sum((wave[1:] + wave[:-1]) / 2) * (t[1] - t[0])) / math.pi
    assert tail_probability([Term(mechanism("1/10000"), a, count)], x) == pytest.approx(
        expected, rel=1e-3, abs=1e-5
    )


@given(
    a=st.sampled_from(["1/1000", "1/7", "1", "3"]),
    weights=st.lists(st.floats(0.01, 10), min_size=1, max_size=4),
    chance=st.floats(1e-6, 0.4),
)
def test_a_quantile_is_where_the_chance_is_reached(a: str, weights: list[float], chance: float) -> None:
    """The chance falls with x, and it is that of the quantile there."""
    terms = [Term(mechanism(a), weight) for weight in weights]
    x = quantile(terms, chance)
    assert tail_probability(terms, x) <= chance <= tail_probability(terms, x * (1 - 1e-9)) * (1 + 1e-6)
    assert tail_probability(terms, x + 1) <= tail_probability(terms, x)


def test_the_chance_fits_the_two_sided_interval() -> None:
    """At a fine lattice, 2.5% lie above the half width that holds 95%."""
    fine = mechanism("1/1000")
    assert quantile([Term(fine, 1.0)], 0.025) == pytest.approx(half_width(fine, 0.95, "dithered"), rel=1e-3)


def test_half_up_is_bounded_too() -> None:
    """An error that is rounded half up is at most z + 1/2."""
    up, dithered = (
        tail_probability([Term(mechanism("1"), 1.0, 1, rounding)], 3.2)
        for rounding in ("half-up", "dithered")
    )
    r = math.exp(-1)
    assert up >= r**3 / (1 + r)
    assert dithered < up


@pytest.mark.parametrize(
    "term",
    [
        Term(LInfLaplace("1/2", 1, 2), 1.0),
        Term(mechanism("1"), 0.0),
        Term(mechanism("1"), math.inf),
        Term(mechanism("1"), 1.0, 0),
    ],
)
def test_terms_that_make_no_sum_are_refused(term: Term) -> None:
    """Slots that share a noise bound, weights without a size, and no values at all."""
    with pytest.raises(ValueError, match="not a term"):
        tail_probability([term], 1.0)


def test_a_sum_has_terms_and_a_quantile_a_chance() -> None:
    """An empty sum has no law, and no noise exceeds a chance of 0."""
    with pytest.raises(ValueError, match="at least one term"):
        tail_probability([], 1.0)
    with pytest.raises(ValueError, match="between 1e-9 and 1"):
        quantile([Term(mechanism("1"), 1.0)], 0)
