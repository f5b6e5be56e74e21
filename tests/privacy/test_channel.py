"""A finite mechanism keeps a promise, or does not, exactly (meteragent.privacy.channel).

`qif`, a library for quantitative information flow that computes with floats, is the independent oracle on
random channels; closed forms are the oracle where the answer is a power of e.
"""

import itertools
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import qif
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from meteragent.privacy.channel import Channel, Number, all_events, exp
from meteragent.privacy.metric import (
    GraphMetric,
    Metric,
    Nullable,
    Scaled,
    absolute,
    chebyshev,
    discrete,
    domination,
    hamming,
    manhattan,
)
from tests.support.channels import FEW, LEVELS, ODDS, channels

HALF = Fraction(1, 2)


def floats(channel: Channel) -> NDArray[np.float64]:
    """The matrix, rounded."""
    return np.array([[float(p) for p in row] for row in channel.rows])


def truncated_geometric(k: int, epsilon: Fraction) -> Channel:
    """On {0..k} (Chatzikokolakis 2013, Figure 2 (iv), as THEORY 2.4 corrects it)."""
    u = exp(-epsilon)

    def probability(x: int, z: int) -> Number:
        return u_power(abs(x - z)) * (1 / (1 + u) if z in (0, k) else (1 - u) / (1 + u))

    def u_power(steps: int) -> Number:
        return exp(-epsilon * steps)

    points = range(k + 1)
    return Channel(points, points, [[probability(x, z) for z in points] for x in points])


def randomised_response(odds: Number | Fraction, m: int = 1) -> Channel:
    """The truth is `odds` times as probable as any other of m + 1 values."""
    points = range(m + 1)
    return Channel.of_weights(points, points, lambda x, z: odds if x == z else 1)


# What is a channel --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([["1/2", "1/2"]], "a row for each of 2 inputs"),
        ([["1/2", "1/2"], [1]], "has 2 entries"),
        ([["1/2", "1/2"], ["1/2", "1/3"]], "the row of 'b'"),
        ([["1/2", "1/2"], ["3/2", "-1/2"]], "must be >= 0"),
    ],
)
def test_a_matrix_that_is_no_channel_is_refused(rows: list[list[Any]], words: str) -> None:
    """Shape, sign and sum are checked exactly, and the text says which row."""
    with pytest.raises(ValueError, match=words):
        Channel("ab", "yz", rows)


def test_entries_are_exact() -> None:
    """Texts, decimals, ints and numbers are taken; a float is refused; names are different."""
    channel = Channel("ab", "yz", [["1/4", Decimal("0.75")], [exp(-1), 1 - exp(-1)]])
    assert channel.row("b")[1] + exp(-1) == 1
    assert channel.probability("y", "a") == Fraction(1, 4)
    assert channel.probability("zy", "b") == 1
    with pytest.raises(TypeError, match=r"Fraction\('0.5'\)"):
        Channel("ab", "yz", [[0.5, 0.5], [1, 0]])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="each only once"):
        Channel("aa", "yz", [[1, 0], [1, 0]])


def test_weights_without_a_positive_sum_are_no_law() -> None:
    """A row that has nowhere to go is refused by name."""
    with pytest.raises(ValueError, match="'b'"):
        Channel.of_weights("ab", "yz", lambda x, z: int(x == "a"))
    with pytest.raises(ValueError, match="must be >= 0"):
        Channel.of_weights("a", "yz", lambda x, z: 2 if z == "y" else -1)


# Metric privacy -----------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 2, 4])
@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(13, 20), Fraction(3)])
def test_the_truncated_geometric_is_exactly_as_private_as_it_says(k: int, epsilon: Fraction) -> None:
    """It holds at epsilon, and at nothing below, be it by a part in 10^30 (Definition 1, THEORY 2.4)."""
    channel = truncated_geometric(k, epsilon)
    assert channel.is_private(epsilon, absolute)
    assert not channel.is_private(epsilon * (1 - Fraction(1, 10**30)), absolute)
    assert channel.smallest_epsilon(absolute) == pytest.approx(float(epsilon), rel=1e-15)


@pytest.mark.parametrize("m", [1, 3])
def test_randomised_response_s_odds(m: int) -> None:
    """Odds of 3 are ln 3, of e^epsilon epsilon, whatever the number of values."""
    assert randomised_response(Fraction(3), m).largest_odds(0, 1) == 3
    assert randomised_response(Fraction(3), m).smallest_epsilon(discrete) == pytest.approx(
        math.log(3), rel=1e-15
    )
    channel = randomised_response(exp("1/3"), m)
    assert channel.is_private("1/3", discrete)
    assert not channel.is_private("333333333/1000000000", discrete)


def test_extended_metrics() -> None:
    """What is infinitely far apart promises nothing; what is at no distance must look the same."""
    told = Channel("abc", "yz", [[1, 0], ["1/2", "1/2"], ["1/3", "2/3"]])
    islands: Metric = GraphMetric([("b", "c")])
    assert told.is_private("1/2", islands)
    assert told.smallest_epsilon(islands) == pytest.approx(math.log(3 / 2))
    assert told.smallest_epsilon(GraphMetric([("a", "b"), ("b", "c")])) == math.inf
    assert told.largest_odds("a", "c") == 3
    assert told.largest_odds("c", "a") is None
    assert not told.is_private(10**6, discrete)
    assert not told.is_private(1, Scaled(discrete, 10**6))
    assert told.smallest_epsilon(lambda x, y: 0) == math.inf
    assert Channel("ab", "yz", [[HALF, HALF]] * 2).smallest_epsilon(lambda x, y: 0) == 0
    assert Channel("ab", "yz", [[HALF, HALF]] * 2).is_private("1/1000", lambda x, y: 0)
    nulls = Channel([0, None], "yz", [[1, 0], [0, 1]])
    assert nulls.is_private(1, Nullable(absolute, math.inf))


@pytest.mark.parametrize("distance", [-1, math.nan])
def test_what_is_no_distance_is_refused(distance: float) -> None:
    """A negative distance, or none, is an error and no promise."""
    with pytest.raises(ValueError, match="at least 0"):
        truncated_geometric(1, HALF).is_private(1, lambda x, y: distance)


@FEW
@given(channels(minimum=1, is_rational=True))
def test_the_smallest_level_is_qif_s(channel: Channel) -> None:
    """On random channels `qif` finds the same level, and its verdicts just above and below are ours."""
    matrix, level = floats(channel), channel.smallest_epsilon(absolute)
    assert qif.measure.d_privacy.smallest_epsilon(matrix, lambda i, j: abs(i - j)) == pytest.approx(
        level, abs=1e-12
    )
    if level > 0:
        for factor in (Fraction(99, 100), Fraction(101, 100)):
            scaled = Scaled(absolute, Fraction(level) * factor)
            verdict = qif.measure.d_privacy.is_private(matrix, lambda i, j, d=scaled: float(d(i, j)))
            assert channel.is_private(1, scaled) == verdict == (factor > 1)


def test_known_channels_are_qif_s() -> None:
    """The truncated geometric and randomised response have `qif`'s matrices; `beside` is its parallel."""
    np.testing.assert_allclose(
        floats(truncated_geometric(4, HALF)), qif.mechanism.d_privacy.geometric(5, 0.5)
    )
    np.testing.assert_allclose(
        floats(randomised_response(exp(1), 3)), qif.mechanism.d_privacy.randomized_response(4, 1.0)
    )
    one, other = truncated_geometric(2, HALF), randomised_response(Fraction(3), 2)
    np.testing.assert_allclose(
        floats(one.combine_parallel(other)), qif.channel.compose.parallel(floats(one), floats(other))
    )


@FEW
@given(channels(inputs=4, is_rational=True), LEVELS)
def test_a_smaller_metric_promises_more(channel: Channel, epsilon: Fraction) -> None:
    """Proposition 1: d <= d' makes d-privacy d'-privacy; epsilon d is a metric like any other."""
    bits = channel.after(lambda x: 2 * x[0] + x[1], itertools.product((0, 1), repeat=2))
    ordered: list[Metric] = [chebyshev, manhattan, lambda x, y: math.inf if x != y else 0]
    levels = [bits.smallest_epsilon(metric) for metric in ordered]
    assert levels == sorted(levels, reverse=True)
    verdicts = [bits.is_private(epsilon, metric) for metric in ordered]
    assert verdicts == sorted(verdicts)
    assert verdicts[-1]
    for metric in ordered[:2]:
        assert bits.is_private(epsilon, metric) == bits.is_private(1, Scaled(metric, epsilon))
    assert bits.smallest_epsilon(hamming) == bits.smallest_epsilon(manhattan)
    for small, large in itertools.permutations(ordered[:2]):
        factor = float(domination(bits.inputs, small, large))
        assert bits.smallest_epsilon(large) <= factor * bits.smallest_epsilon(small) * (1 + 1e-15)


# Pairs (epsilon, delta) ---------------------------------------------------------------------------


@FEW
@given(channels(inputs=2, outputs=4), ODDS)
def test_all_events_and_the_hockey_stick_agree_exactly(channel: Channel, odds: Number) -> None:
    """Definitions 1 and 2: the worst of all 16 events has the sum of the positive differences."""
    delta = channel.hockey_stick(0, 1, odds)
    assert channel.delta_on(all_events(channel.outputs), 0, 1, odds) == delta
    assert 0 <= delta <= 1
    assert channel.smallest_delta(odds) == max(delta, channel.hockey_stick(1, 0, odds))
    assert channel.smallest_delta(odds, pairs=[(0, 1)]) == delta


@FEW
@given(channels(inputs=2, outputs=4), LEVELS)
def test_no_delta_is_discrete_privacy(channel: Channel, epsilon: Fraction) -> None:
    """(epsilon, 0) between all inputs is epsilon-privacy for the discrete metric."""
    assert (channel.smallest_delta(exp(epsilon)) == 0) == channel.is_private(epsilon, discrete)


@FEW
@given(LEVELS, LEVELS, st.integers(1, 4))
def test_delta_of_the_categorical_mechanism(level: Fraction, claimed: Fraction, m: int) -> None:
    """At a smaller level than its own it is (e^level - e^claimed)/(m + e^level), at a greater one 0."""
    channel = randomised_response(exp(level), m)
    expected = (exp(level) - exp(claimed)) / (m + exp(level))
    assert channel.smallest_delta(exp(claimed)) == (expected if claimed < level else 0)


def test_odds_are_at_least_one() -> None:
    """A negative level is a mistake; so is a float."""
    channel = randomised_response(Fraction(3))
    with pytest.raises(ValueError, match="at least 1"):
        channel.hockey_stick(0, 1, exp(-1))
    with pytest.raises(TypeError, match="odds must be exact"):
        channel.delta_on([{0}], 0, 1, 1.5)  # type: ignore[arg-type]
    assert channel.hockey_stick(0, 1, 1) == HALF
    assert channel.delta_on([{0, 1}], 0, 1, 2) == 0
    assert channel.smallest_delta(1, pairs=[]) == 0


# Made of others -----------------------------------------------------------------------------------


@FEW
@given(channels(is_rational=True), channels(outputs=2), ODDS)
def test_post_processing_reveals_no_more(channel: Channel, later: Channel, odds: Number) -> None:
    """No level and no delta grows when only the outputs are seen; the matrix is the product."""
    after = channel.then(later)
    np.testing.assert_allclose(floats(after), floats(channel) @ floats(later), atol=1e-15)
    assert after.smallest_epsilon(absolute) <= channel.smallest_epsilon(absolute) * (1 + 1e-15)
    assert after.smallest_delta(odds) <= channel.smallest_delta(odds)


def test_a_mechanism_after_a_query() -> None:
    """Noise on a sum protects the databases for d_1, exactly as much (Fact 5)."""
    databases = list(itertools.product((0, 1, 2), repeat=2))
    noisy_sum = truncated_geometric(4, HALF).after(sum, databases)
    assert noisy_sum.is_private(HALF, manhattan)
    assert noisy_sum.smallest_epsilon(manhattan) == HALF
    assert noisy_sum.smallest_epsilon(hamming) == 1
    noisy_largest = truncated_geometric(2, HALF).after(max, databases)
    assert noisy_largest.smallest_epsilon(hamming) == 1
    assert noisy_largest.smallest_epsilon(chebyshev) == HALF
    with pytest.raises(ValueError, match="4 is not an input"):
        truncated_geometric(3, HALF).after(sum, databases)


@pytest.mark.parametrize(("one", "other"), [(HALF, Fraction(13, 20)), (Fraction(2), Fraction(2))])
def test_levels_add_on_one_input_and_not_on_two(one: Fraction, other: Fraction) -> None:
    """Sequential and parallel composition (Pauwels 2016, Propositions 4 and 3), both attained."""
    first, second = truncated_geometric(2, one), truncated_geometric(2, other)
    assert first.combine_parallel(second).is_private(one + other, absolute)
    assert not first.combine_parallel(second).is_private((one + other) * Fraction(999, 1000), absolute)
    both = first.combine_product(second)
    assert both.is_private(max(one, other), manhattan)
    assert not both.is_private(max(one, other) * Fraction(999, 1000), manhattan)
    assert both.probability([(0, 2)], (1, 2)) == first.row(1)[0] * second.row(2)[2]


@FEW
@given(channels(), st.lists(st.integers(0, 5), min_size=3, max_size=3).filter(any))
def test_posteriors_are_qif_s_and_average_to_the_prior(channel: Channel, weights: list[int]) -> None:
    """Bayes' rule, exactly; `qif` has the same columns in floats."""
    prior = {x: Fraction(weight, sum(weights)) for x, weight in enumerate(weights)}
    columns = [zip(prior.values(), channel.column(z), strict=True) for z in range(3)]
    seen = [sum((weight * p for weight, p in column), exp(0) - 1) for column in columns]
    possible = [z for z in range(3) if seen[z] > 0]
    posteriors = {z: channel.posterior(prior, z) for z in possible}
    assert sum(seen) == 1
    for x in range(3):
        assert sum((seen[z] * posteriors[z][x] for z in possible), exp(0) - 1) == prior[x]
    expected = qif.channel.posteriors(floats(channel), np.array([float(prior[x]) for x in range(3)]))
    if len(possible) == 3:
        ours = [[float(posteriors[z][x]) for z in possible] for x in range(3)]
        np.testing.assert_allclose(ours, expected, atol=1e-12)


def test_there_is_no_posterior_of_the_impossible() -> None:
    """An output that cannot occur, and a prior that is none, are refused."""
    channel = Channel("ab", "yz", [[1, 0], [HALF, HALF]])
    assert channel.posterior({"a": HALF, "b": HALF}, "y") == {"a": Fraction(2, 3), "b": Fraction(1, 3)}
    with pytest.raises(ValueError, match="cannot occur"):
        channel.posterior({"a": 1}, "z")
    with pytest.raises(ValueError, match="'x' is not an output"):
        channel.posterior({"a": 1}, "x")
    for bad in ({"a": HALF}, {"a": 2, "b": -1}, {"a": HALF, "c": HALF}):
        with pytest.raises(ValueError, match="sum to 1"):
            channel.posterior(bad, "y")
