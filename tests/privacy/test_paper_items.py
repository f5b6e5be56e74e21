"""Items of the three papers that no other test is about: lemmas, remarks, examples, ends of ranges."""

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

from meteragent.privacy.channel import Channel, all_events, exp
from meteragent.privacy.channel.sets import disjoint_first, disjoint_second
from meteragent.privacy.floor import finite_floor, maximal_expected_error, two_point_floor
from meteragent.privacy.mechanism.categorical import Categorical
from meteragent.privacy.mechanism.product import Product
from meteragent.privacy.mechanism.selection import Exponential, NoisyMax
from meteragent.privacy.mechanism.vector import VectorLaplace
from meteragent.privacy.metric import (
    GraphMetric,
    absolute,
    chebyshev,
    discrete,
    domination,
    hamming,
    manhattan,
    removal,
)
from meteragent.privacy.optimality import (
    User,
    best_for_all,
    best_mechanism,
    least_maximal_error,
    levels_between,
)
from meteragent.privacy.query import Query, average
from meteragent.privacy.space import Categories, Databases, Finite, Numbers, WithNull
from tests.support.draws import has_its_law

HALF = Fraction(1, 2)
sides = st.frozensets(st.integers(0, 4), max_size=4)


# Holohan, Leith, Mason 2014 -----------------------------------------------------------------------


@given(st.lists(st.tuples(sides, sides), max_size=4))
def test_unions_of_rectangles_become_disjoint(
    rectangles: list[tuple[frozenset[Any], frozenset[Any]]],
) -> None:
    """Lemmas 1 and 2: the same union, with second sides, or first sides, that are pairwise disjoint."""

    def union(parts: Any) -> set[tuple[Any, Any]]:
        return {point for a, b in parts for point in itertools.product(a, b)}

    for side, made in ((1, disjoint_second(rectangles)), (0, disjoint_first(rectangles))):
        assert union(made) == union(rectangles)
        assert all(not p[side] & q[side] for p, q in itertools.combinations(made, 2))
        assert all(a and b for a, b in made)


def test_too_many_rectangles_are_refused() -> None:
    """Twenty-one rectangles would have two million cells."""
    with pytest.raises(ValueError, match="at most 20"):
        disjoint_second([(frozenset("a"), frozenset("b"))] * 21)


@pytest.mark.parametrize("epsilon", ["0.01", "0.1", "0.5", "1"])
def test_theorem_7_for_outputs_anywhere(epsilon: str) -> None:
    """Its formula is false around a triangle's corners; the larger of half of it and two points holds."""
    error = _from_the_corners(12)
    least = least_maximal_error(error, float(epsilon) * (1 - np.eye(3)))
    printed, held = (float(finite_floor(2, 1, epsilon, outputs=o)) for o in ("points", "anywhere"))
    assert held <= least + 1e-9
    assert held == max(printed / 2, float(two_point_floor(1, epsilon)))
    assert (least < printed - 1e-4) == (epsilon in ("0.01", "0.1", "0.5"))


def _from_the_corners(steps: int) -> np.ndarray[Any, Any]:
    """Distances of the corners of a triangle with sides of 1 from the points of a grid in it."""
    corners = np.array([[0, 0], [1, 0], [0.5, math.sqrt(3) / 2]])
    shares = [(i, j, steps - i - j) for i in range(steps + 1) for j in range(steps + 1 - i)]
    points = np.array(shares) / steps @ corners
    return np.asarray(np.linalg.norm(corners[:, None] - points, axis=2))


@given(st.fractions(0, 3, max_denominator=9), st.fractions(0, 1, max_denominator=9))
def test_lemma_4_there_is_always_an_error(epsilon: Fraction, delta: Fraction) -> None:
    """The maximal expected error is positive for delta < 1 and two points; at delta = 1 it may be zero."""
    floor = two_point_floor(1, epsilon, delta)
    assert (floor > 0) == (delta < 1)
    channel = Categorical(Categories("ab"), epsilon, delta).channel
    assert maximal_expected_error(channel, discrete) == floor


def test_the_ends_of_the_range_of_a_promise() -> None:
    """Definition 1 allows epsilon = 0 and delta = 1: a coin that tells nothing, and no noise at all.

    At delta = 1 everything is allowed.
    """
    coin, bare = (Categorical(Categories("abc"), 0, delta) for delta in (0, 1))
    assert all(p == Fraction(1, 3) for p in coin.channel.rows[0])
    assert coin.channel.is_private(0, discrete)
    assert not Categorical(Categories("abc"), "1/9").channel.is_private(0, discrete)
    assert [float(p) for p in bare.channel.rows[0]] == [1, 0, 0]
    assert bare.release(["a", "c", "b"]).tolist() == ["a", "c", "b"]
    assert np.exp(bare.log_mass(["a", "b"], "a")).tolist() == [1, 0]
    assert finite_floor(2, 1, 0) == Fraction(2, 3)
    assert coin.channel.smallest_delta(1) == 0
    assert bare.channel.smallest_delta(1) == 1
    assert bare.channel.smallest_delta(exp(9)) == 1


@pytest.mark.parametrize(("k", "n"), [(2, 2), (3, 2), (2, 3)])
def test_how_many_pairs_and_events_suffice_for_a_product(k: int, n: int) -> None:
    """The remark after Theorem 5: C(k,2) pairs and 2^k events in place of n C(k,2) k^(n-1) and 2^(k^n).

    Each pair in both orders, and only if outputs lie in D: other ones may tell two points apart alone.
    """
    row = Categorical(Categories(range(k)), 1, "1/10")
    neighbours = [
        pair for pair in itertools.combinations(Product(row, n).space.points, 2) if hamming(*pair) == 1
    ]
    pairs = math.comb(k, 2)
    assert len(neighbours) == n * pairs * k ** (n - 1)
    assert len(list(itertools.combinations(row.space.points, 2))) == pairs
    assert len(all_events(row.channel.outputs)) == 2**k
    assert row.channel.smallest_delta(exp(1)) == Fraction(1, 10)
    uneven = Channel((0, 1), (0, 1), [[1, 0], [HALF, HALF]])
    assert [uneven.hockey_stick(*order, 2) for order in ((0, 1), (1, 0))] == [0, HALF]
    assert uneven.smallest_delta(2) == HALF
    quarter = Fraction(1, 4)
    outside = Channel((0, 1), (0, 1, "a", "b"), [[quarter, quarter, HALF, 0], [quarter, quarter, 0, HALF]])
    assert outside.delta_on(all_events((0, 1)), 0, 1, 1) == 0
    assert outside.smallest_delta(1) == HALF


@pytest.mark.parametrize("metric", [hamming, GraphMetric([((0, 0), (1, 1))])])
def test_any_neighbours_can_be_asked_for(metric: Any) -> None:
    """The remark of section 2.1: neighbours are the databases at distance 1, whatever the metric."""
    databases = list(itertools.product((0, 1), repeat=2))
    channel = Channel(databases, "yn", [[HALF, HALF], ["1/3", "2/3"], ["1/3", "2/3"], ["1/4", "3/4"]])
    pairs = [pair for pair in itertools.permutations(databases, 2) if metric(*pair) == 1]
    assert len(pairs) == (8 if metric is hamming else 2)
    by_hand = max(
        max(Fraction(0), Fraction(p) - Fraction(q))
        for x, y in pairs
        for p, q in zip(_rows(channel)[x], _rows(channel)[y], strict=True)
    )
    assert channel.smallest_delta(1, pairs=pairs) == by_hand


def _rows(channel: Channel) -> dict[Any, list[Fraction]]:
    """The rows of a channel of fractions."""
    return {x: [p.bounds(60)[0] for p in row] for x, row in zip(channel.inputs, channel.rows, strict=True)}


# Chatzikokolakis et al. 2013 ----------------------------------------------------------------------


def test_removals_are_between_one_and_two_replacements() -> None:
    """d_r counts rows that are removed or added: d_h <= d_r <= 2 d_h, both attained."""
    points = list(itertools.product((0, 1, None), repeat=2))
    assert domination(points, hamming, removal) == 1
    assert domination(points, removal, hamming) == 2
    links = [(x, y) for x, y in itertools.combinations(points, 2) if hamming(x, y) == 1 and _removes(x, y)]
    graph = GraphMetric(links)
    assert all(graph(x, y) == removal(x, y) for x, y in itertools.combinations(points, 2))


def _removes(x: tuple[Any, ...], y: tuple[Any, ...]) -> bool:
    """Whether the row that differs is absent in one of two databases."""
    return any(u != v and None in (u, v) for u, v in zip(x, y, strict=True))


def test_figure_1_with_the_numbers_of_its_caption() -> None:
    """H after f is ln 2-private and f 1-sensitive, and H(y1)(z1) = 3/4 > 2 H(y3)(z1): the converse fails."""
    path = GraphMetric([("x1", "x2"), ("x2", "x3")])
    query = Query({"x1": 0, "x2": 1, "x3": 2}.__getitem__, Finite(["x1", "x2", "x3"], path), _answers)
    answers = Channel(range(3), ("z1", "z2"), [["3/4", "1/4"], [HALF, HALF], ["1/4", "3/4"]])
    composed = answers.after(query.function, query.domain.points)  # type: ignore[attr-defined]
    assert query.sensitivity == 1
    assert not query.is_uniformly_sensitive
    assert composed.smallest_epsilon(path) == pytest.approx(math.log(2), rel=1e-12)
    assert answers.largest_odds(0, 2) == 3
    assert answers.smallest_epsilon(_answers) == pytest.approx(math.log(3), rel=1e-12)


def _answers(y: int, z: int) -> Fraction:
    """Figure 1's answers: any two at distance 1."""
    return Fraction(y != z)


GAPS = [
    ("0.2", (0.07, 0.36, 0.57), 2, (0.35, 0.36, 0.29), 0.0209),
    ("0.3", (0.06, 0.32, 0.62), 2, (0.36, 0.37, 0.27), 0.0234),
    ("0.5", (0.57, 0.17, 0.26), 1, (0.18, 0.42, 0.40), 0.0416),
]
"""epsilon, the prior of a user who minds |i-j|^power, that of one who minds being wrong; the joint gap."""


@pytest.mark.parametrize("case", GAPS)
def test_theorem_9_inside_its_range(case: Any) -> None:
    """Below ln 2 no mechanism serves both users of a triangle best; on a line of the same length one does."""
    epsilon, prior, power, other, gap = case
    apart = np.abs(np.arange(3)[:, None] - np.arange(3)).astype(float)
    both = [User(np.array(prior), apart**power), User(np.array(other), (apart > 0).astype(float))]
    level = float(epsilon)
    for distances, expected in ((1 - np.eye(3), gap), (apart, 0.0)):
        alone = sum(best_mechanism(user, level * distances).value for user in both)
        assert best_for_all(both, level * distances).bound - alone == pytest.approx(expected, abs=1e-4)


def test_the_corollary_to_theorem_12_fails_for_an_unrounded_average() -> None:
    """With absent rows, n = k = 2 and d_1 two users cannot both be served best; rounded they can."""
    domain = Databases(WithNull(Numbers(0, 2)), 2, "l1")
    users = ((0.47, 0.27, 0.02, 0.19, 0.05), (0.46, 0.13, 0.03, 0.17, 0.21))
    for query, expected in ((average(domain), 0.035), (average(domain, rounded=True), 0.0)):
        answers = sorted(query.answers)
        apart = np.array([[abs(float(y - z)) for z in answers] for y in answers])
        level = levels_between(answers, query.induced, 1)
        size = len(answers)
        priors = [np.array(p[:size]) / sum(p[:size]) for p in users]
        both = [User(priors[0], apart), User(priors[1], (apart > 0).astype(float))]
        alone = sum(best_mechanism(user, level).value for user in both)
        assert best_for_all(both, level).bound - alone == pytest.approx(expected, abs=1e-3)


# Pauwels, Gerchinovitz 2016 -----------------------------------------------------------------------


def test_proposition_3_independent_mechanisms_on_one_database_add() -> None:
    """1/2 and 13/20 together are 23/20, exactly; on disjoint parts the larger one remains.

    The chance of two answers is the product of theirs, in their order.
    """
    one, other = (Categorical(Categories("yn"), epsilon).channel for epsilon in ("1/2", "13/20"))
    together = one.combine_parallel(other)
    assert together.largest_odds(*one.inputs) == exp("23/20")
    for y, z in itertools.product("yn", repeat=2):
        expected = one.probability(y, "y") * other.probability(z, "y")
        assert together.probability([(y, z)], "y") == expected
    apart = one.combine_product(other)
    first, second = ((x, other.inputs[0]) for x in one.inputs)
    assert apart.largest_odds(first, second) == exp("1/2")


@pytest.mark.parametrize(("epsilon", "bound"), [(2, 12.21), (1, 24.42)])
def test_example_3_first_names_have_sensitivity_two(epsilon: int, bound: float) -> None:
    """A row that is replaced changes two counts: no count is off by more than 12.21 at epsilon = 2."""
    counts = VectorLaplace(epsilon, 1, 10_000, sensitivity=2)
    scale = 2 / epsilon
    assert scale * math.log(10_000 / 0.05) == pytest.approx(bound, abs=0.01)
    assert counts.largest_error_bound(0.05) == math.ceil(bound)


@pytest.mark.parametrize(("gap", "loss"), [(0, 1.307), (20, 1.913)])
def test_example_4_is_false_where_a_row_is_replaced(gap: int, loss: float) -> None:
    """Noisy max with Laplace(1/epsilon): one count falls, one rises, and odds exceed e^epsilon, up to e^2.

    `NoisyMax` states the loss for both cases, and draws from the law that it states.
    """

    def chance(lead: int) -> float:
        """P(u_1 + L_1 > u_2 + L_2) for u_1 - u_2 = lead and standard Laplace noise."""

        def below(x: float) -> float:
            return 0.5 * math.exp(x) if x < 0 else 1 - 0.5 * math.exp(-x)

        ends = sorted({-60.0, 0.0, float(-lead), 60.0})
        parts = itertools.pairwise(ends)
        return float(
            sum(quad(lambda x: 0.5 * math.exp(-abs(x)) * below(x + lead), a, b)[0] for a, b in parts)
        )

    assert math.log(chance(-gap) / chance(-gap - 2)) == pytest.approx(loss, abs=1e-3)
    assert NoisyMax(1, 1, 2).loss(Fraction(1)) == 1
    assert NoisyMax(1, 1, 2).monotone_loss(1) == HALF
    assert has_its_law(NoisyMax(1, 1, 2), [gap % 7, 7], range(2))


BIDS = (100, 100, 300)
"""In cents, as three bidders of Example 5 have them in euros: 1, 1 and 3."""


def revenue(price: int) -> int:
    """The price times how many bid at least that."""
    return price * sum(bid >= price for bid in BIDS)


def test_example_5_prices_where_noise_makes_no_sense() -> None:
    """A price of 3 earns 3, of 3.01 nothing: the exponential mechanism chooses by revenue."""
    prices = (100, 101, 300, 301)
    revenues = [revenue(price) for price in prices]
    assert revenues == [300, 101, 300, 0]
    choice = Exponential(1, "1/100", 4, sensitivity="3.01")
    law = np.exp(choice.log_mass(range(4), revenues))
    assert law == pytest.approx([0.301, 0.216, 0.301, 0.183], abs=1e-3)
    assert choice.regret_bound(1) == pytest.approx(14.4, abs=0.05)


@settings(max_examples=50)
@given(st.lists(st.integers(0, 9), min_size=3, max_size=3), st.integers(0, 9))
def test_example_6_counts_only_the_bad_choices(utilities: list[int], level: int) -> None:
    """P(u <= c) is at most (choices with u <= c) e^(epsilon (c - max u)/(2 Delta)), the finer bound.

    So u <= max u - (2 Delta/epsilon)(t + ln n) has a chance of e^-t or less.
    """
    choice = Exponential(1, 1, 3)
    law = np.exp(choice.log_mass(range(3), utilities))
    chance = float(law[np.array(utilities) <= level].sum())
    bound = choice.tail_bound(utilities, level)
    assert chance <= bound + 1e-12
    assert bound <= 3 * math.exp(-(max(utilities) - level) / 2) + 1e-12 or bound == 1
    t = (max(utilities) - level) / 2 - math.log(3)  # at which `level` is as far below the best as that
    assert choice.regret_bound(t) == pytest.approx(max(utilities) - level, abs=1e-12)
    assert chance <= math.exp(-t) + 1e-12


def test_the_definitions_of_sensitivity() -> None:
    """Definitions 2 and 3: the L1 distance of two histograms, and the change of any utility, by search."""
    domain = Databases(Categories("abc"), 2)

    def histogram(x: Any) -> tuple[int, ...]:
        return tuple(x.count(v) for v in "abc")

    moved = [
        sum(map(absolute, histogram(x), histogram(y))) for x in domain.points for y in domain.neighbours(x)
    ]
    assert max(moved) == 2
    changes = [
        max(map(absolute, histogram(x), histogram(y))) for x in domain.points for y in domain.neighbours(x)
    ]
    assert max(changes) == 1
    counts = Query(histogram, domain, manhattan)
    utilities = Query(lambda x: [4 * u for u in histogram(x)], domain, chebyshev)
    assert (counts.sensitivity, utilities.sensitivity) == (2, 4)
    assert VectorLaplace("1/2", 1, 3, sensitivity=2).loss(Fraction(2)) == HALF
    assert Exponential("1/2", 1, 3, sensitivity=4).loss(Fraction(4)) == HALF


@given(weights=st.lists(st.integers(1, 40), min_size=8, max_size=8))
@example([1, 7, 1, 3, 1, 3, 1, 1])
def test_equation_1_adjacent_databases_decide_for_all(weights: list[int]) -> None:
    """CABP (1): odds of e^epsilon between neighbours are d_P <= epsilon d_h, by a path of changed rows."""
    domain = Databases(Numbers(0, 1), 2, "hamming")
    laws = [
        [Fraction(w, v + w), Fraction(v, v + w)] for w, v in zip(weights[::2], weights[1::2], strict=True)
    ]
    channel = Channel(domain.points, "yz", laws)
    adjacent = [(x, y) for x in domain.points for y in domain.neighbours(x)]
    odds = [channel.largest_odds(x, y) for x, y in adjacent]
    assert None not in odds
    log_odds = max(Fraction(one.log()) for one in odds if one is not None)
    for level in (log_odds + Fraction("1e-9"), log_odds * Fraction("0.999")):
        holds = all(one is not None and one <= exp(level) for one in odds)
        assert channel.is_private(level, hamming) is holds
