"""What Bayesian adversaries may conclude, and which bounds say it all (meteragent.privacy.adversary).

Both directions of every equivalence are tested on random channels, exactly: at a level just above a
channel's own all bounds hold, just below some member of the family, some prior and some output break one.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from meteragent.privacy.adversary import (
    Comparison,
    Hiding,
    Neighbourhood,
    chain_metric,
    is_maximally_tight,
    largest_odds_ratio,
)
from meteragent.privacy.channel import Channel, all_events, exp
from meteragent.privacy.metric import (
    GraphMetric,
    Metric,
    Nullable,
    absolute,
    chebyshev,
    discrete,
    euclidean,
    hamming,
    manhattan,
    normalised_manhattan,
)
from simulators.papers.families import replacements, whole_rows
from tests.support.channels import FEW, VERY_FEW, channels
from tests.support.families import boxes, database_exchanges, row_exchanges, row_segments

HALF = Fraction(1, 2)
JUST = Fraction(1, 1000)
METRICS: dict[str, Metric] = {
    "d_h": hamming,
    "d_1": manhattan,
    "normalised d_1": normalised_manhattan(3),
    "d_inf": chebyshev,
}
FAMILIES: dict[str, Callable[[Sequence[Any], int], tuple[Comparison, ...]]] = {
    "replacements": replacements,
    "Phi_h, Phi_1": row_exchanges,
    "Phi_inf": database_exchanges,
    "N_h": whole_rows,
    "N_1": row_segments,
    "N_inf": boxes,
}
TIGHT = {
    "replacements": set[str](),
    "Phi_h, Phi_1": {"d_h", "d_1", "normalised d_1"},
    "Phi_inf": set(METRICS),
    "N_h": {"d_h"},
    "N_1": {"d_h", "d_1", "normalised d_1"},
    "N_inf": set(METRICS),
}


def databases(values: Sequence[int], n: int) -> tuple[tuple[int, ...], ...]:
    """V^n."""
    return tuple(itertools.product(values, repeat=n))


def on_databases(channel: Channel, points: Sequence[Any]) -> Channel:
    """The same matrix, its inputs renamed."""
    return channel.after(dict(zip(points, channel.inputs, strict=True)).__getitem__, points)


def flag(points: Sequence[Any], metric: Metric, epsilon: Fraction, centre: Any) -> Channel:
    """To {0, 1} with P(1|x) = e^(-epsilon d(centre, x))/2: private for d, and not for less at the centre."""
    chances = [exp(-epsilon * Fraction(metric(centre, x))) / 2 for x in points]
    return Channel(points, (0, 1), [[1 - chance, chance] for chance in chances])


def judge(family: Sequence[Comparison], channel: Channel, metric: Metric, epsilon: Fraction) -> bool:
    """Whether all bounds of a family hold; one that does not has a witness, which is checked."""
    broken = [member for member in family if not member.holds(channel, metric, epsilon)]
    for member in family:
        witness = member.witness(channel, metric, epsilon)
        assert (witness is not None) == (member in broken)
        if witness is not None:
            conclusions = member.conclusions(channel, witness.prior, *witness.event)
            allowed = exp(epsilon * Fraction(member.loss(channel.inputs, metric)))
            apart = largest_odds_ratio(*conclusions)
            assert sum(witness.prior.values()) == 1
            assert apart is None or apart > allowed
    return not broken


def agrees(family: Sequence[Comparison], channel: Channel, metric: Metric) -> None:
    """The family's verdict is that of the definition, just above and just below the smallest level."""
    smallest = channel.smallest_epsilon(metric)
    if smallest == math.inf:
        assert not judge(family, channel, metric, Fraction(10))
        return
    level = Fraction(smallest)
    assert judge(family, channel, metric, level + JUST)
    if level > JUST:
        assert not judge(family, channel, metric, level - JUST)


# Conclusions --------------------------------------------------------------------------------------

priors = st.lists(st.integers(0, 9), min_size=3, max_size=3).filter(any)


@FEW
@given(channels(minimum=1), priors, st.sampled_from([(1, 2, 0), (0, 0, 2), (2, 1, 0)]), st.integers(0, 2))
def test_who_is_misled_concludes_what_the_hidden_channel_says(
    channel: Channel, weights: list[int], phi: tuple[int, ...], output: int
) -> None:
    """The two conclusions of a hiding function are the posteriors of K and of K after phi."""
    prior = {x: Fraction(weight, sum(weights)) for x, weight in enumerate(weights)}
    one, other = Hiding(phi.__getitem__).conclusions(channel, prior, output)
    assert one == channel.posterior(prior, output)
    assert other == channel.after(phi.__getitem__, range(3)).posterior(prior, output)


@FEW
@given(channels(minimum=1), priors, st.integers(0, 2))
def test_who_knows_a_neighbourhood_conditions_on_it(
    channel: Channel, weights: list[int], output: int
) -> None:
    """The two conclusions of a neighbourhood are posterior and prior, both given it."""
    near = (0, 2)
    if not weights[0] + weights[2]:
        weights[0] = 1
    total, within = sum(weights), Fraction(weights[0] + weights[2])
    prior = {x: Fraction(weight, total) for x, weight in enumerate(weights)}
    one, other = Neighbourhood(frozenset(near)).conclusions(channel, prior, output)
    posterior = channel.posterior(prior, output)
    assert other == {x: weights[x] / within for x in near}
    assert one == {x: posterior[x] / (posterior[0] + posterior[2]) for x in near}


def test_distance_of_conclusions() -> None:
    """The largest ratio in either direction; infinite if only one has a point; 0/0 counts as 1.

    The other metrics of section 2: d_1, d_2, d_inf, and chains of edges, of which there may be none.
    """
    one = {"a": exp(0) / 4, "b": exp(0) * 3 / 4, "c": exp(0) - 1}
    other = {"a": exp(0) / 2, "b": exp(0) / 2, "c": exp(0) - 1}
    assert largest_odds_ratio(one, other) == largest_odds_ratio(other, one) == 2
    assert largest_odds_ratio(one, one) == 1
    assert largest_odds_ratio(one, {"a": exp(0), "b": exp(0) - 1}) is None
    assert [metric((1, 1), (4, 5)) for metric in (manhattan, euclidean, chebyshev)] == [7, 5, 4]
    graph = GraphMetric([("a", "b"), ("b", "c"), ("c", "d"), ("a", "c"), ("y", "z")])
    assert [graph("a", end) for end in "abdz"] == [0, 1, 2, math.inf]


def test_there_is_no_conclusion_from_the_impossible() -> None:
    """An output that one of the two can never see is not evidence for that one."""
    channel = Channel("ab", "yz", [[1, 0], [HALF, HALF]])
    with pytest.raises(ValueError, match="cannot occur"):
        Hiding(lambda x: "a").conclusions(channel, {"a": 1, "b": 1}, "z")
    assert Hiding(lambda x: "a").largest_odds(channel) == 2
    with pytest.raises(ValueError, match="maps 'a' to 'c'"):
        Hiding(lambda x: "c").largest_odds(channel)


# Theorems 3 and 4, for every phi and every N ------------------------------------------------------

small_metrics = st.sampled_from([absolute, discrete, GraphMetric([(0, 2), (2, 1)]), GraphMetric([(0, 1)])])
all_phi = tuple(Hiding(phi.__getitem__) for phi in itertools.product(range(3), repeat=3))
all_near = tuple(Neighbourhood(frozenset(n)) for k in (1, 2, 3) for n in itertools.combinations(range(3), k))


@VERY_FEW
@given(channels(outputs=2), small_metrics)
@example(Channel(range(3), range(2), [["3/4", "1/4"], [HALF, HALF], ["1/4", "3/4"]]), absolute)
def test_hiding_functions_characterise_privacy(channel: Channel, metric: Metric) -> None:
    """Theorem 3: d-private means: for no phi, prior and event are conclusions more than 2 d(phi) apart.

    The supremum over priors is the largest ratio of likelihoods by the least, over all events.
    """
    agrees(all_phi, channel, metric)
    rows = [(500, 1), (167, 1), (1, 167), (1, 500)]  # of two outputs each has odds of 3, their union of 9
    told = Channel(range(4), "yzw", [[Fraction(n, 1000) for n in (p, q, 1000 - p - q)] for p, q in rows])
    phi = Hiding((1, 1, 3, 3).__getitem__)
    moved = told.after(phi.phi, range(4))
    ratios = [
        [p / q for p, q in zip(told.likelihood(event), moved.likelihood(event), strict=True)]
        for event in filter(None, all_events(told.outputs))
    ]
    assert phi.largest_odds(told) == max(max(ratio) / min(ratio) for ratio in ratios)


@FEW
@given(channels(outputs=2), small_metrics)
def test_neighbourhoods_characterise_privacy(channel: Channel, metric: Metric) -> None:
    """Theorem 4: d-private means that nothing is learnt within N beyond its diameter; also extended."""
    agrees(all_near, channel, metric)


@FEW
@given(channels(minimum=1), priors, st.sampled_from(all_phi + all_near), st.integers(0, 2))
def test_no_prior_goes_beyond_the_supremum(
    channel: Channel, weights: list[int], comparison: Comparison, output: int
) -> None:
    """`largest_odds` bounds the conclusions of any prior, and two points come within a thousandth of it."""
    largest = comparison.largest_odds(channel)
    assert largest is not None
    prior = {x: Fraction(weight + 1, sum(weights) + 3) for x, weight in enumerate(weights)}
    apart = largest_odds_ratio(*comparison.conclusions(channel, prior, output))
    assert apart is not None
    assert apart <= largest
    if largest > 1:
        near = Fraction(largest.log()) * (1 - JUST)

        def distance(x: int, y: int) -> Fraction:
            return Fraction(0) if x == y else near

        halved = HALF if isinstance(comparison, Hiding) else Fraction(1)
        assert comparison.witness(channel, distance, halved) is not None


@pytest.mark.parametrize("epsilon", [HALF, Fraction(3)])
def test_the_factor_two_is_needed(epsilon: Fraction) -> None:
    """Where phi exchanges two points of a mechanism that is exactly private, 2 d(phi) is the supremum."""
    channel = flag((0, 1), absolute, epsilon, 0)
    assert channel.is_private(epsilon, absolute)
    assert Hiding(lambda x: 1 - x).largest_odds(channel) == exp(2 * epsilon)
    assert Hiding(lambda x: 0).largest_odds(channel) == exp(epsilon)
    response = Channel.of_weights((0, 1), (0, 1), lambda x, z: exp(epsilon) if x == z else 1)
    assert Hiding(lambda x: 1 - x).largest_odds(response) == exp(2 * epsilon)
    assert Neighbourhood(frozenset({0, 1})).largest_odds(response) == exp(epsilon)


def test_what_is_infinitely_far_is_not_hidden() -> None:
    """An extended metric bounds nothing across its gap: the absent may be known to be absent."""
    channel = Channel([0, 1, None], "yz", [[HALF, HALF], ["1/3", "2/3"], [0, 1]])
    metric = Nullable(absolute, math.inf)
    assert channel.is_private(1, metric)
    assert Hiding(lambda x: None).holds(channel, metric, 1)
    assert Neighbourhood(frozenset({0, None})).holds(channel, metric, 1)
    assert Neighbourhood(frozenset({0, None})).largest_odds(channel) is None
    assert not Neighbourhood(frozenset({0, None})).holds(channel, Nullable(absolute, 9), 1)


# Theorems 1 and 2: standard differential privacy --------------------------------------------------

VALUES, POINTS = (0, 1, 3), databases((0, 1, 3), 2)


@VERY_FEW
@given(channels(inputs=9, outputs=2, minimum=1, is_rational=True))
def test_what_one_row_adds_characterises_differential_privacy(channel: Channel) -> None:
    """Theorem 2: knowing all rows but one, an adversary learns at most epsilon of it iff it is private."""
    agrees(whole_rows(VALUES, 2), on_databases(channel, POINTS), hamming)


@VERY_FEW
@given(channels(inputs=9, outputs=2, minimum=1, is_rational=True))
def test_a_row_replaced_changes_conclusions_by_two_epsilon(channel: Channel) -> None:
    """Theorem 1: d_h(phi_i,w) = 1, and so epsilon-differential privacy keeps conclusions 2 epsilon apart."""
    on_rows = on_databases(channel, POINTS)
    level = Fraction(on_rows.smallest_epsilon(hamming)) + JUST
    images = [[phi.phi(x) for x in POINTS] for phi in replacements(VALUES, 2)]
    assert images == [[(w, x[1]) for x in POINTS] for w in VALUES] + [
        [(x[0], w) for x in POINTS] for w in VALUES
    ]
    for phi in replacements(VALUES, 2):
        assert phi.loss(POINTS, hamming) == 2
        assert phi.holds(on_rows, hamming, level)


def test_replaced_rows_alone_know_privacy_up_to_a_factor_of_two() -> None:
    """Theorem 1's converse needs exchanges: at 2 epsilon no replacement shows it, and an exchange does."""
    points = databases((0, 1), 2)
    response = Channel.of_weights((0, 1), (0, 1), lambda x, z: exp(1) if x == z else 1)
    channel = response.after(lambda x: x[0], points)
    assert channel.smallest_epsilon(hamming) == 1
    assert all(phi.holds(channel, hamming, HALF) for phi in replacements((0, 1), 2))
    assert not all(phi.holds(channel, hamming, HALF) for phi in row_exchanges((0, 1), 2))
    assert not all(phi.holds(channel, hamming, HALF - JUST) for phi in replacements((0, 1), 2))


# Maximally tight families -------------------------------------------------------------------------


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("family", FAMILIES)
def test_which_families_are_maximally_tight(family: str, metric: str) -> None:
    """Definitions 2 and 3: Phi and N of a metric are tight for it, and not for one they were not made for."""
    members = FAMILIES[family](VALUES, 2)
    assert is_maximally_tight(members, POINTS, METRICS[metric]) == (metric in TIGHT[family])


@pytest.mark.parametrize(("family", "metric"), [(f, m) for f, names in TIGHT.items() for m in sorted(names)])
@VERY_FEW
@given(channel=channels(inputs=4, outputs=2, minimum=1, is_rational=True))
def test_a_tight_family_says_all_of_privacy(family: str, metric: str, channel: Channel) -> None:
    """Proposition 2: the family's bounds hold exactly when the channel is d-private."""
    points = databases((0, 3), 2)
    agrees(FAMILIES[family]((0, 3), 2), on_databases(channel, points), METRICS[metric])


@pytest.mark.parametrize(("family", "metric"), [(f, m) for f, names in TIGHT.items() for m in sorted(names)])
def test_a_tight_family_sees_what_stands_out_anywhere(family: str, metric: str) -> None:
    """On nine databases a mechanism that is private for d, and no more, is caught below its level."""
    for centre in POINTS[::8]:
        channel = flag(POINTS, METRICS[metric], Fraction(1), centre)
        assert channel.is_private(1, METRICS[metric])
        members = FAMILIES[family](VALUES, 2)
        assert all(member.holds(channel, METRICS[metric], 1) for member in members)
        assert not all(member.holds(channel, METRICS[metric], 1 - JUST) for member in members)


@pytest.mark.parametrize(
    ("family", "metric"),
    [(f, m) for f in ("N_h", "N_1") for m in METRICS if m not in TIGHT[f]],
)
def test_a_family_that_is_not_tight_overlooks_something(family: str, metric: str) -> None:
    """Neighbourhoods: a channel that is private for their chains keeps all bounds, and is not d-private."""
    members, d = FAMILIES[family](VALUES, 2), METRICS[metric]
    chain = chain_metric(members, POINTS, d)
    channel = flag(POINTS, chain, Fraction(1), POINTS[0])
    assert all(member.holds(channel, d, 1) for member in members)
    assert not channel.is_private(1, d)


def test_chains_add_up() -> None:
    """The chain of a whole row under d_1 is as long as the row is wide, and the way round is not shorter."""
    chain = chain_metric(whole_rows(VALUES, 2), POINTS, manhattan)
    assert chain((0, 0), (1, 0)) == 3
    assert chain((0, 0), (1, 1)) == 6
    assert chain((0, 0), (0, 0)) == 0
    assert chain_metric([], POINTS, manhattan)((0, 0), (0, 1)) == math.inf


@pytest.mark.parametrize("epsilon", [Fraction(1, 7), Fraction(3)])
def test_levels_are_exact_and_above_zero(epsilon: Fraction) -> None:
    """A bound is refused a float and a level of zero; at the level itself it holds."""
    near = Neighbourhood(frozenset({0, 1}))
    channel = flag((0, 1), absolute, epsilon, 0)
    assert near.holds(channel, absolute, epsilon)
    with pytest.raises(TypeError, match="must be exact"):
        near.holds(channel, absolute, float(epsilon))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="positive"):
        near.witness(channel, absolute, 0)
    with pytest.raises(ValueError, match="positive"):  # although the loss is infinite
        Hiding(lambda x: None).holds(
            Channel([0, None], "yz", [[1, 0], [0, 1]]), Nullable(absolute, math.inf), 0
        )
