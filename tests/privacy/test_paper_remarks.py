"""What the three papers say beside their numbered items: in sections, remarks, footnotes and proofs."""

import itertools
import math
import statistics
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from meteragent.privacy.adversary import Neighbourhood
from meteragent.privacy.bits import SeededBits
from meteragent.privacy.channel import Channel, exp
from meteragent.privacy.divergence import LatticePair
from meteragent.privacy.floor import finite_floor, maximal_expected_error
from meteragent.privacy.mechanism.base import MetricMechanism
from meteragent.privacy.mechanism.categorical import Categorical
from meteragent.privacy.mechanism.laplace import LInfLaplace
from meteragent.privacy.mechanism.number import Laplace, TruncatedGeometric
from meteragent.privacy.mechanism.planar import PlanarLaplace
from meteragent.privacy.mechanism.product import MetricProduct
from meteragent.privacy.mechanism.response import After, OutputPerturbation, Sanitised
from meteragent.privacy.mechanism.vector import VectorLaplace
from meteragent.privacy.metric import (
    Distance,
    Scaled,
    absolute,
    chebyshev,
    discrete,
    domination,
    euclidean,
    hamming,
    is_metric,
    manhattan,
    normalised_manhattan,
)
from meteragent.privacy.optimality import least_maximal_error
from meteragent.privacy.query import average, most_common, percentile, total
from meteragent.privacy.space import Categories, Databases, Numbers
from meteragent.privacy.usefulness import norm_alpha
from simulators.papers.families import row_maps, row_sets
from tests.support.channels import FEW, channels

HALF = Fraction(1, 2)
levels = st.fractions(Fraction(1, 20), 3, max_denominator=20)


# Holohan, Leith, Mason 2014 -----------------------------------------------------------------------


def test_sets_are_released_by_a_mass_function() -> None:
    """Section 2.2: a set q has X_q by the masses of sets; (epsilon, delta) holds, exactly, for the query."""
    domain = Databases(Categories("abc"), 2)
    query = most_common(domain, 2)
    sets = Categorical(Categories(query.answers), "1/2", "1/10")
    mechanism = OutputPerturbation(sets, query)
    channel = sets.channel.after(query.function, domain.points)
    pairs = [(x, y) for x in domain.points for y in domain.neighbours(x)]
    epsilon, delta = mechanism.guarantee
    assert channel.smallest_delta(exp(epsilon), pairs) == delta == Fraction(1, 10)
    for x in domain.points:
        masses = np.exp(mechanism.log_mass(np.array(query.answers), x))
        assert masses == pytest.approx([float(p) for p in channel.row(x)], rel=1e-12)
        assert sum(channel.row(x)) == 1
    asked = [("a", "b"), ("b", "c")]
    drawn = mechanism.release(asked * 2000, bits=SeededBits(1))
    shares = [float(np.mean([z == query(x) for z in drawn[i::2]])) for i, x in enumerate(asked)]
    chance = float(sets.channel.rows[0][0])
    assert shares == pytest.approx([chance] * 2, abs=6 * 0.5 / math.sqrt(2000))


def test_fresh_noise_averages_out_and_one_release_does_not() -> None:
    """Section 4: N fresh answers have N times the level, and their majority errs ever less.

    A sanitised response gives the same answer again, so N of them have the level of one; so have the answers
    of a query with infinitely many.
    """
    coins = Channel("yn", "yn", [["3/4", "1/4"], ["1/4", "3/4"]])
    fresh, errors = coins, []
    for n in range(2, 6):
        fresh = fresh.combine_parallel(coins)
        assert fresh.largest_odds("y", "n") == 3**n
        errors.append(sum((min(p, q) for p, q in zip(*fresh.rows, strict=True)), exp(0) - 1) / 2)
    assert errors == [Fraction(1, 4), Fraction(5, 32), Fraction(5, 32), Fraction(53, 512)]
    again = coins.then(Channel("yn", ["yyyyy", "nnnnn"], [[1, 0], [0, 1]]))
    assert again.largest_odds("y", "n") == 3

    query = total(Databases(Numbers(0, 9), 2, "l1"))
    bounded = Categorical(Categories(range(19)), 3)
    answers = OutputPerturbation(bounded, query).release([(9, 4)] * 2000, bits=SeededBits(1))
    assert statistics.multimode(answers.tolist()) == [13]
    assert len(set(answers.tolist())) == 19
    sanitised = Sanitised(MetricProduct(Laplace("1/9", 1), 3, "l1"), (9, 4, 7))
    assert len({sanitised.answer(sum) for _ in range(50)}) == 1
    assert sanitised.answer(lambda d: d[0] / 7) == sanitised.released[0] / 7


@given(st.sets(st.fractions(0, 1, max_denominator=12), min_size=2, max_size=5), levels)
def test_equation_20_leaves_finitely_many_points(points: set[Fraction], epsilon: Fraction) -> None:
    """Where different points of [0, 1] are at least kappa apart, there are at most 1/kappa + 1 of them.

    For one point there is no kappa; for them Theorem 7's floor is at most the error of Example 6.
    """
    m, kappa = len(points) - 1, min(absolute(*pair) for pair in itertools.combinations(points, 2))
    assert isinstance(kappa, Fraction)
    assert m * kappa <= 1
    floor = finite_floor(m, kappa, epsilon)
    error = maximal_expected_error(Categorical(Categories(sorted(points)), epsilon).channel, absolute)
    assert 0 < floor <= error
    assert finite_floor(m, kappa, epsilon) == kappa * m / (m + exp(epsilon))
    with pytest.raises(ValueError, match="at least two points"):
        finite_floor(0, kappa, epsilon)


# Chatzikokolakis et al. 2013 ----------------------------------------------------------------------


@FEW
@given(channels(minimum=1, is_rational=True), levels)
def test_extended_pseudo_and_scaled_metrics(channel: Channel, epsilon: Fraction) -> None:
    """Section 2 and Definition 1: infinite distances promise nothing, distance 0 promises equal laws.

    The epsilon is part of the metric, and epsilon d_h is differential privacy.
    """

    def extended(x: int, y: int) -> Distance:
        return math.inf if 2 in (x, y) and x != y else absolute(x, y)

    def pseudo(x: int, y: int) -> Distance:
        return Fraction(0 if {x, y} <= {0, 1} else x != y)

    assert is_metric(range(3), extended)
    assert not is_metric(range(3), extended, extended=False)
    assert not is_metric(range(3), pseudo)
    told_apart = Channel(range(3), range(2), [[HALF, HALF], [HALF, HALF], [1, 0]])
    assert told_apart.is_private(epsilon, extended)
    assert told_apart.smallest_epsilon(extended) == 0
    assert not told_apart.is_private(epsilon, absolute)
    equal = all(p == q for p, q in zip(channel.row(0), channel.row(1), strict=True))
    assert channel.is_private(30, pseudo) == equal == (channel.smallest_epsilon(pseudo) < math.inf)
    equal_laws = channel.after(lambda x: max(x, 1), range(3))
    assert Channel(range(3), range(3), equal_laws.rows).is_private(30, pseudo)
    for metric in (absolute, extended, discrete):
        assert channel.is_private(epsilon, metric) == channel.is_private(1, Scaled(metric, epsilon))
    smallest = channel.smallest_epsilon(Scaled(absolute, epsilon))
    assert smallest == pytest.approx(channel.smallest_epsilon(absolute) / float(epsilon), rel=1e-14)


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(3, 2)])
@pytest.mark.parametrize("kind", ["hamming", "l1", "normalised l1", "linf"])
def test_a_family_after_a_query_has_every_level(kind: Any, epsilon: Fraction) -> None:
    """Below Fact 5: H with epsilon/Delta after f is epsilon d_X-private and no less, for any epsilon."""
    domain = Databases(Numbers(0, 2, "1/2"), 2, kind)
    for query in (total(domain), percentile(domain, 50), average(domain, rounded=True)):
        family = TruncatedGeometric(epsilon / Fraction(query.sensitivity), "1/2", 4)
        assert After(family, query).loss(Fraction(1)) == epsilon
        channel = family.channel.after(query.function, domain.points)
        assert channel.is_private(epsilon, domain.metric)
        assert not channel.is_private(epsilon * (1 - Fraction(1, 10**12)), domain.metric)


@pytest.mark.parametrize("epsilon", ["1/2", "1"])
@pytest.mark.parametrize("power", [0, 1, 2])
def test_risk_averse_users_are_served_best_too(power: int, epsilon: str) -> None:
    """Section 4.2: for who minds the largest mean loss, TG and a random remap reach the least there is."""
    k = 3
    apart = np.abs(np.arange(k + 1)[:, None] - np.arange(k + 1)).astype(float)
    loss = apart**power if power else (apart > 0).astype(float)
    masses = np.array(TruncatedGeometric(epsilon, 1, k).channel.rows, float)
    # Variables: the remap R(w | z), then the largest mean loss, sum of masses(x, z) R(w | z) loss(x, w).
    means = np.einsum("xz,xw->xzw", masses, loss).reshape(k + 1, -1)
    solution = linprog(
        np.append(np.zeros(means.shape[1]), 1),
        np.hstack([means, -np.ones((k + 1, 1))]),
        np.zeros(k + 1),
        np.hstack([np.kron(np.eye(k + 1), np.ones(k + 1)), np.zeros((k + 1, 1))]),
        np.ones(k + 1),
    )
    level = float(Fraction(epsilon)) * apart
    assert solution.fun == pytest.approx(least_maximal_error(loss, level), abs=1e-8)


def test_what_a_change_of_one_row_teaches() -> None:
    """Sections 5.1 and 5.2: Theorems 3 and 4 for Phi_1 and N_1.

    Under the normalised d_1 conclusions are 2 epsilon d(phi) <= 2 epsilon apart, and epsilon d(V')/d(V) is
    learnt in V'; under d_1 that may exceed 2 epsilon, and epsilon d(V') is little for who knows a row well.
    """
    values = (0, 1, 4)
    points = tuple(itertools.product(values, repeat=2))
    normalised = normalised_manhattan(4)
    channel = TruncatedGeometric("1/3", 1, 8).channel.after(sum, points)
    assert channel.is_private("1/3", manhattan)
    for phi in row_maps(values, 2):
        moved = max(manhattan(x, phi.phi(x)) for x in points)
        assert phi.loss(points, manhattan) == 2 * moved
        assert phi.loss(points, normalised) == 2 * moved / 4 <= 2
    assert max(phi.loss(points, manhattan) for phi in row_maps(values, 2)) == 8
    for near in row_sets(values, 2):
        width = max(manhattan(x, y) for x in near.members for y in near.members)
        assert (near.loss(points, manhattan), near.loss(points, normalised)) == (width, width / 4)
        assert near.largest_odds(channel) == exp(Fraction(width) / 3)
    assert Neighbourhood(frozenset({(0, 4), (1, 4)})).largest_odds(channel) == exp("1/3")


def test_histograms_have_another_d_1() -> None:
    """Section 5's footnote: d_1 of histograms is 0 if rows are exchanged, and at most 2 d_1 of the rows."""
    points = tuple(itertools.product(range(3), repeat=3))

    def of_histograms(x: Any, y: Any) -> Distance:
        return manhattan(*([z.count(v) for v in range(3)] for z in (x, y)))

    assert of_histograms((0, 1, 2), (2, 0, 1)) == 0 < manhattan((0, 1, 2), (2, 0, 1))
    assert of_histograms((0, 0, 0), (2, 0, 0)) == of_histograms((0, 0, 0), (1, 0, 0)) == 2
    assert domination(points, of_histograms, manhattan) == 2
    assert domination(points, manhattan, of_histograms) == math.inf


@given(st.lists(st.integers(0, 9), min_size=1, max_size=7))
def test_smallest_median_and_largest_are_percentiles(rows: list[int]) -> None:
    """Section 5.1: of 0, 50 and 100 %; of an even number of rows the median is the lower middle one."""
    domain = Databases(Numbers(0, 10**6), len(rows), "l1")
    answers = [percentile(domain, percent)(tuple(rows)) for percent in (0, 50, 100)]
    assert answers == [min(rows), statistics.median_low(rows), max(rows)]


def test_d_inf_alone_is_about_each_component() -> None:
    """Section 6.1: d_inf is the only d with d <= delta if and only if each component is, for all delta.

    So d_1 protects one reading of n, and d_inf all of them, for which independent noise has n times the loss.
    """
    points = list(itertools.product(range(4), repeat=2))
    pairs = list(itertools.product(points, repeat=2))

    def is_by_components(metric: Any) -> bool:
        return all(
            (metric(x, y) <= delta) == all(absolute(u, v) <= delta for u, v in zip(x, y, strict=True))
            for x, y in pairs
            for delta in (Fraction(i, 2) for i in range(9))
        )

    assert is_by_components(chebyshev)
    assert not any(map(is_by_components, (manhattan, euclidean, hamming, normalised_manhattan(3))))
    for x, y in pairs:  # the least such delta is d itself
        assert chebyshev(x, y) == min(
            delta for delta in range(4) if all(absolute(u, v) <= delta for u, v in zip(x, y, strict=True))
        )
    one, every, none = (0, 3, 0, 0), (3, 3, 3, 3), (0, 0, 0, 0)
    assert (manhattan(none, one), manhattan(none, every)) == (3, 12)
    assert chebyshev(none, one) == chebyshev(none, every) == 3
    noise = Laplace("1/3", 1)
    assert [MetricProduct(noise, 4, kind).loss(Fraction(3)) for kind in ("l1", "linf")] == [1, 4]
    lost = [
        float(
            MetricProduct(noise, 4, "linf").log_mass(x, x) - MetricProduct(noise, 4, "linf").log_mass(x, none)
        )
        for x in (one, every)
    ]
    assert lost == pytest.approx([1, 4], abs=1e-12)
    assert LInfLaplace("1/3", 1, 4).loss(3) == 1


# Pauwels, Gerchinovitz 2016 -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mechanism", "norm"),
    [
        (VectorLaplace("1/3", 1, 2), lambda z: abs(z[0]) + abs(z[1])),
        (PlanarLaplace("1/3", 1), lambda z: math.hypot(*z)),
        (LInfLaplace("1/3", 1, 2), lambda z: max(map(abs, z))),
    ],
)
def test_each_norm_has_its_density(mechanism: MetricMechanism, norm: Any) -> None:
    """Below Proposition 5: noise with density ~ e^(-epsilon |z|) is epsilon-private for any norm |z|.

    By the triangle inequality, which is an equality behind a point; l_1, l_2 and l_inf.
    """
    outputs = list(itertools.product(range(-9, 10), repeat=2))
    at_zero = mechanism.log_mass(outputs, (0, 0))
    assert at_zero - at_zero[180] == pytest.approx([-norm(y) / 3 for y in outputs], abs=1e-12)
    for x in itertools.product(range(-3, 4), repeat=2):
        lost = np.abs(at_zero - mechanism.log_mass(outputs, x))
        assert lost.max() == pytest.approx(norm(x) / 3, abs=1e-12)
        assert lost.max() == pytest.approx(float(mechanism.loss(Fraction(norm(x)))), abs=1e-12)


@given(st.fractions(Fraction(1, 20), 2, max_denominator=20), st.floats(0.01, 20))
def test_the_tail_of_laplace_noise(epsilon: Fraction, t: float) -> None:
    """Proposition 6's proof: P(|Y| >= b t) = e^-t; of m quanta it is 2 e^(-am)/(1 + e^-a), hardly more."""
    assert norm_alpha(1, epsilon, math.exp(-t)) * float(epsilon) == pytest.approx(t, rel=1e-9)
    noise, m = Laplace(epsilon, 1), math.ceil(t / float(epsilon))
    beyond = 1 - np.exp(noise.log_mass(range(1 - m, m), 0)).sum()
    a = float(noise.a)
    assert beyond == pytest.approx(2 * math.exp(-a * m) / (1 + math.exp(-a)), abs=1e-12)
    assert math.exp(-a * m) <= beyond + 1e-12


@given(
    st.fractions(Fraction(1, 50), 2, max_denominator=50), st.integers(1, 60), channels(inputs=2, minimum=1)
)
def test_the_divergence_in_the_proof_of_proposition_2(a: Fraction, k: int, channel: Channel) -> None:
    """KL <= epsilon, and by Pinsker's inequality no event's probability differs by more than sqrt(KL/2)."""
    pair, z = LatticePair(a, k), np.arange(k + 1)
    p = math.tanh(a / 2) * np.exp(-float(a) * z)
    p[0], p[k] = 1 / (1 + math.exp(-a)), math.exp(-a * k) / (1 + math.exp(-a))
    laws = [(p, p[::-1]), tuple(np.array([float(q) for q in row]) for row in channel.rows)]
    bounds = [float(pair.loss), channel.smallest_epsilon(absolute)]
    for (first, second), level in zip(laws, bounds, strict=True):
        divergence = float((first * np.log(first / second)).sum())
        apart = float(np.abs(first - second).sum()) / 2
        assert divergence <= level + 1e-12
        assert apart <= math.sqrt(max(divergence, 0) / 2) + 1e-9
    p_first, p_second = laws[0]
    assert pair.kl == pytest.approx(float((p_first * np.log(p_first / p_second)).sum()), rel=1e-9, abs=1e-12)
    assert pair.total_variation == pytest.approx(float(np.abs(p_first - p_second).sum()) / 2, rel=1e-9)
