"""Numbers and sums of them, combined: the least-squares solution, its errors, and intervals that cover.

The reference is the solution of the weighted normal equations, which knows nothing of trees. It is computed
with 200 bits: variances differ by factors of up to 1e14, and floating-point numbers would be less exact than
the two passes.
"""

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp
from numpy.typing import NDArray
from scipy import stats

from meteragent.privacy import DitheredLaplace, LInfLaplace, SeededBits, half_width, nested, sd
from meteragent.privacy.nested import Node, Tree

Floats = NDArray[np.float64]
BITS = 200


def kind(epsilon: Fraction | str, weight: float = 1.0) -> Node:
    """A kind of dithered numbers on whole units."""
    return Node(LInfLaplace(epsilon, 1, 1), "dithered", weight)


KINDS = st.builds(
    kind,
    st.sampled_from([Fraction(1, 220), Fraction(1, 20), Fraction(1, 3), Fraction(2)]),
    st.sampled_from([0.0005, 0.5, 1.0, 3.0]),
)
VALUES = st.integers(-1000, 1000).map(float)
TREES = st.recursive(
    st.builds(Tree.of, VALUES, KINDS),
    lambda children: st.builds(Tree.of, VALUES, KINDS, st.lists(children, min_size=1, max_size=4)),
    max_leaves=24,
)


def nodes(tree: Tree) -> list[Tree]:
    """All nodes, parents before children."""
    return [tree, *(node for child in tree.children for node in nodes(child))]


def design(tree: Tree) -> Floats:
    """Which leaves each node is the sum of: shape (nodes, leaves)."""
    leaves = [node for node in nodes(tree) if not node.children]
    return np.array([[leaf in nodes(node) for leaf in leaves] for node in nodes(tree)], float)


def solution(tree: Tree) -> tuple[Floats, Floats]:
    """The matrix from released values to best estimates, and the estimates' covariances."""
    x = design(tree).astype(int).astype(object)
    variances = [(node.kind.weight * sd(node.kind.mechanism, "dithered")) ** 2 for node in nodes(tree)]
    weights = [int(2**BITS / Fraction(variance)) for variance in variances]
    with mp.workprec(BITS):
        inverse = mp.inverse(mp.matrix((x.T * weights @ x).tolist())) * 2 ** (2 * BITS)
        leaves = np.array([[int(number) for number in row] for row in inverse.tolist()], object)
    covariance = (x @ leaves @ x.T / 2**BITS).astype(float)
    return covariance / variances, covariance


@settings(max_examples=150)
@given(TREES)
def test_two_passes_are_the_least_squares_solution(tree: Tree) -> None:
    """On any tree the estimates and their deviations are those of the normal equations."""
    matrix, covariance = solution(tree)
    expected = matrix @ np.array([node.value for node in nodes(tree)])
    estimates = list(tree.estimates())
    assert [node for node, _, _ in estimates] == nodes(tree)
    scale = np.abs(matrix) @ np.array([abs(node.value) + 1 for node in nodes(tree)])
    assert np.all(np.abs(np.array([value for _, value, _ in estimates]) - expected) <= 1e-9 * scale)
    deviations = [nested.sd(path) for _, _, path in estimates]
    assert np.allclose(deviations, np.sqrt(np.diag(covariance)), rtol=1e-9)


@settings(max_examples=60)
@given(TREES)
def test_the_parts_of_an_error_are_the_weights_of_the_solution(tree: Tree) -> None:
    """Each noise is in the law of an estimate with the weight that the estimate gives to its number."""
    matrix, _ = solution(tree)
    for row, (_, _, path) in zip(matrix, tree.estimates(), strict=True):
        expected = Counter[tuple[LInfLaplace, float]]()
        for node, weight in zip(nodes(tree), row, strict=True):
            expected[node.kind.mechanism, round(abs(weight) * node.kind.weight, 6)] += 1
        actual = Counter[tuple[LInfLaplace, float]]()
        for part in nested.error_parts(path):
            actual[part.mechanism, round(part.weights[0], 6)] += part.windows
        near = {(mechanism, weight): count for (mechanism, weight), count in actual.items() if weight > 1e-5}
        assert sum(near.values()) >= 1
        total = sum(weight**2 * count for (_, weight), count in near.items())
        assert total == pytest.approx(sum(w**2 * n for (_, w), n in expected.items()), rel=1e-3, abs=1e-9)
        assert actual.total() == len(nodes(tree))


@given(TREES)
def test_what_agrees_is_not_changed(tree: Tree) -> None:
    """Numbers without noise that add up stay as they are: the estimates are unbiased."""
    leaves = np.array([node.value for node in nodes(tree) if not node.children])
    exact = design(tree) @ leaves

    def rebuilt(node: Tree) -> Tree:
        """The same tree with exact values."""
        value = exact[nodes(tree).index(node)]
        return Tree.of(value, node.kind, [rebuilt(child) for child in node.children])

    estimates = [value for _, value, _ in rebuilt(tree).estimates()]
    assert np.allclose(estimates, exact, rtol=1e-9, atol=1e-6)


def test_slots_of_one_window_are_refused() -> None:
    """Their noises depend on one another, so no parts of a total would have their law."""
    with pytest.raises(ValueError, match="windows of one slot"):
        Tree.of(1.0, Node(LInfLaplace(1, 1, 2)))


def test_a_number_alone_has_its_own_interval() -> None:
    """A tree of one node is the number as it was released."""
    alone = kind("1/220", 0.0005)
    ((_, value, path),) = Tree.of(7.0, alone).estimates()
    assert value == 7.0
    assert nested.sd(path) == pytest.approx(0.0005 * sd(alone.mechanism, "dithered"))
    assert nested.half_width(path) == pytest.approx(0.0005 * half_width(alone.mechanism, 0.95, "dithered"))


# The table of half hours, days and months --------------------------------------------------------

HIDE_WH = 110
TABLE = [
    (("1",), 311, 1.08, 5.90),
    (("9/10", "1/10"), 344, 0.95, 5.20),
    (("3/4", "1/4"), 411, 0.57, 3.13),
    (("1/2", "1/2"), 616, 0.31, 1.69),
    (("7/10", "1/5", "1/10"), 441, 0.68, 1.44),
]
"""Shares of half hour, day and month; the sd of the best estimates of half hour (W), day and month (kWh)."""


HOURS: list[int | Fraction] = [Fraction(1, 2), 24, 720]


def numbers(share: str, hours: int | Fraction) -> Node:
    """Numbers that hide 110 Wh at this level, released as power in steps of at most 1/220 of the radius."""
    radius = Fraction(HIDE_WH) / hours
    return Node(LInfLaplace(Fraction(share) / radius, radius / 220, 1), "dithered", float(hours / 1000))


def closed_form(shares: tuple[str, ...]) -> tuple[float, float, float]:
    """The sd of the best estimates of half hour, day and month, from Laplace noise.

    A number of share s has variance 2 (E/s)^2. Upwards, inverse variances of a number and of its children's
    sum add up. Downwards, a child of variance U, of V for all, gains (U/V)^2 (V - F) where F is its parent's.
    """
    own = [2 * (HIDE_WH / 1000 / float(Fraction(share))) ** 2 for share in shares] + [math.inf] * (
        3 - len(shares)
    )
    day_up = 1 / (1 / (48 * own[0]) + 1 / own[1])
    month = 1 / (1 / (30 * day_up) + 1 / own[2])
    day = day_up - (30 * day_up - month) / 30**2
    half_hour = own[0] - (48 * own[0] - day) / 48**2
    return math.sqrt(half_hour) * 2000, math.sqrt(day), math.sqrt(month)


@pytest.mark.parametrize(("shares", "half_hour_w", "day_kwh", "month_kwh"), TABLE)
def test_the_table_of_shares_is_reproduced(
    shares: tuple[str, ...], half_hour_w: float, day_kwh: float, month_kwh: float
) -> None:
    """The closed form has the table's figures, and the exact law of the lattice agrees to 1 in 1000."""
    figures = closed_form(shares)
    assert round(figures[0]) == half_hour_w
    assert [round(figure, 2) for figure in figures[1:]] == [day_kwh, month_kwh]
    kinds = [numbers(share, hours) for share, hours in zip(shares, HOURS, strict=False)]
    path = nested.regular_path(kinds, (48, 30)[: len(kinds) - 1])
    exact = [nested.sd(path[:length]) for length in range(len(path), 0, -1)]
    while len(exact) < 3:
        exact.append(exact[-1] * math.sqrt((48, 30)[len(exact) - 1]))
    assert (2000 * exact[0], *exact[1:]) == pytest.approx(figures, rel=1e-3)


def test_what_a_month_of_its_own_adds() -> None:
    """Half hours leave at 444 W; without the month a day is off by 0.69 kWh, with it by 0.68."""
    kinds = [numbers(share, hours) for share, hours in (("7/10", Fraction(1, 2)), ("1/5", 24), ("1/10", 720))]
    assert 2000 * nested.sd((kinds[0],)) == pytest.approx(444.4, abs=0.1)
    assert nested.sd(nested.regular_path(kinds[:2], (48,))[:1]) == pytest.approx(0.694, abs=1e-3)
    assert nested.sd(nested.regular_path(kinds, (48, 30))[:2]) == pytest.approx(0.684, abs=1e-3)


# Coverage -----------------------------------------------------------------------------------------

SAMPLES, COVERAGE = 40_000, 0.95
ALARM = 1e-6
"""The false-alarm rate of each test of coverage. A scale 10% off is missed with at most this rate, too."""
EPSILONS = [Fraction(1, 60), Fraction(1, 90), Fraction(1, 100)]
COUNTS = (4, 3)


def model() -> Tree:
    """A month of 3 days of 4 slots each."""
    slot, day, month = map(kind, EPSILONS)
    return Tree.of(0, month, [Tree.of(0, day, [Tree.of(0, slot) for _ in range(4)]) for _ in range(3)])


def drawn(scale: Fraction) -> Floats:
    """Errors of all released numbers, half a quantum off, with noise of `scale` times the right one."""
    columns = []
    for seed, node in enumerate(nodes(model())):
        epsilon = node.kind.mechanism.epsilon / scale
        mechanism = DitheredLaplace(epsilon, 1, 1, Fraction(1, 1000))
        y = mechanism.release(np.full((SAMPLES, 1), 499), bits=SeededBits(1000 + seed))
        columns.append(y[:, 0] - 0.499)
    return np.array(columns)


def p_values(scale: Fraction) -> list[tuple[float, float]]:
    """The probabilities of at most, and at least, this number of errors within half widths, by length."""
    tree = model()
    errors = solution(tree)[0] @ drawn(scale)
    results = []
    for level in range(3):
        place, path = next(
            (place, path) for place, (_, _, path) in enumerate(tree.estimates()) if len(path) == level + 1
        )
        count = np.count_nonzero(np.abs(errors[place]) <= nested.half_width(path, COVERAGE))
        results.append(
            (
                float(stats.binom.cdf(count, SAMPLES, COVERAGE)),
                float(stats.binom.sf(count - 1, SAMPLES, 0.9515)),
            )
        )
    return results


def test_intervals_cover_what_they_say() -> None:
    """Month, day and slot are within their half widths in 95 of 100 draws, and in hardly more."""
    assert all(low > ALARM and high > ALARM for low, high in p_values(Fraction(1)))


def test_a_scale_ten_percent_off_is_rejected() -> None:
    """Noise that is 10% larger is covered too seldom, noise that is 10% smaller too often."""
    assert all(low < ALARM for low, _ in p_values(Fraction(11, 10)))
    assert all(high < ALARM for _, high in p_values(Fraction(9, 10)))


def test_the_power_of_the_tests_of_coverage_is_as_stated() -> None:
    """For Laplace noise, whose tails are the heaviest here, a scale 10% off is missed at most at ALARM."""
    low, high = (1 - (1 - COVERAGE) ** (1 / scale) for scale in (1.1, 0.9))
    bottom = stats.binom.ppf(ALARM, SAMPLES, COVERAGE)
    top = stats.binom.isf(ALARM, SAMPLES, 0.9515)
    assert stats.binom.sf(bottom, SAMPLES, low) < ALARM
    assert stats.binom.cdf(top, SAMPLES, high) < ALARM
