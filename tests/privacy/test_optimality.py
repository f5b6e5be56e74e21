"""The best private mechanism by linear program: where the truncated geometric is it, and where none is.

The programs' answers are compared with closed forms, with the dual bound that needs no solver, with qif's
own program, and with what the mechanisms themselves achieve.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import combinations_with_replacement, permutations, product
from typing import Any

import numpy as np
import pytest
import qif
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from meteragent.privacy.floor import finite_floor
from meteragent.privacy.mechanism.number import TruncatedGeometric
from meteragent.privacy.metric import manhattan
from meteragent.privacy.optimality import (
    User,
    bayes_loss,
    best_for_all,
    best_mechanism,
    dual_bound,
    expected_loss,
    least_cost,
    least_maximal_error,
    levels_between,
    optimal_remap,
)
from meteragent.privacy.query import Query, average, count, percentile, total
from meteragent.privacy.space import Databases, Numbers
from meteragent.privacy.space.databases import DatabaseMetric
from tests.support.best_noise import best_noise

Floats = NDArray[np.float64]

EXACT = 1e-9


def truncated_geometric(k: int, a: Fraction) -> Floats:
    """The mechanism's own law on 0..k, as a matrix."""
    mechanism = TruncatedGeometric(a, 1, k)
    return np.array([np.exp(mechanism.log_mass(np.arange(k + 1), x)) for x in range(k + 1)])


def line(k: int) -> Floats:
    """|i - j| on 0..k."""
    i = np.arange(k + 1)
    return np.asarray(np.abs(i[:, None] - i), float)


def users(k: int, count: int, seed: int) -> list[User]:
    """Users of answers 0..k: random priors, some almost sure, and random losses that grow with |i - j|."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        growing = np.cumsum(rng.random(k + 1) ** 3)
        prior = rng.dirichlet(np.full(k + 1, rng.choice([0.2, 1.0, 5.0])))
        found.append(User(prior, (growing - growing[0])[line(k).astype(int)]))
    return found


# Bayesian utility -----------------------------------------------------------------------------------


def test_the_optimal_remap_is_the_best_of_all_maps() -> None:
    """Of all 3^3 ways to remap three outputs none costs a user less than the optimal one."""
    channel = truncated_geometric(2, Fraction(1, 2))
    for user in users(2, 5, seed=1):
        losses = {}
        for remap in product(range(3), repeat=3):
            remapped = np.zeros((3, 3))
            for output, guess in enumerate(remap):
                remapped[:, guess] += channel[:, output]
            losses[remap] = expected_loss(user, remapped)
        assert bayes_loss(user, channel) == pytest.approx(min(losses.values()), abs=1e-14)
        best = tuple(optimal_remap(user, channel).tolist())
        assert losses[best] == pytest.approx(min(losses.values()), abs=1e-14)


def test_a_user_who_is_sure_remaps_everything_to_what_it_knows() -> None:
    """With all prior on 3 the guess is always 3 and nothing is lost; as it comes, the noise is lost."""
    user = User(np.eye(5)[3], line(4))
    channel = truncated_geometric(4, Fraction(1))
    assert optimal_remap(user, channel).tolist() == [3] * 5
    assert bayes_loss(user, channel) == 0
    by_hand = sum(abs(3 - z) * channel[3, z] for z in range(5))
    assert expected_loss(user, channel) == pytest.approx(by_hand, abs=1e-15)


# The program ----------------------------------------------------------------------------------------


def is_private(channel: Floats, level: Floats) -> bool:
    """K(z|x) <= e^level K(z|x') for all, up to the solver's tolerance."""
    with np.errstate(over="ignore"):
        ratio = np.exp(-level)[:, :, None] * channel[:, None, :] - channel[None, :, :]
    return bool(ratio.max() <= EXACT and channel.min() >= -EXACT and np.allclose(channel.sum(axis=1), 1))


@given(st.integers(2, 5), st.integers(2, 4), st.integers(0, 2**32))
def test_what_the_program_finds_is_private_and_meets_its_bound(secrets: int, outputs: int, seed: int) -> None:
    """For random costs and metrics: a private channel that costs the value, and a dual bound equal to it."""
    rng = np.random.default_rng(seed)
    points, cost = rng.random((secrets, 2)), rng.normal(size=(secrets, outputs))
    level = 3 * np.abs(points[:, None] - points).max(axis=2)
    optimum = least_cost(cost, level)
    assert is_private(optimum.channel, level)
    assert float(np.sum(cost * optimum.channel)) == pytest.approx(optimum.value, abs=EXACT)
    assert dual_bound(cost, level, optimum.multipliers) == optimum.bound
    assert optimum.bound == pytest.approx(optimum.value, abs=EXACT)


@given(st.integers(0, 2**32))
def test_any_multipliers_bound_every_private_channel_from_below(seed: int) -> None:
    """That of random multipliers is not above the truncated geometric's; negative ones prove nothing."""
    rng = np.random.default_rng(seed)
    cost, multipliers = rng.normal(size=(4, 4)), rng.exponential(0.1, size=(4, 4, 4))
    channel = truncated_geometric(3, Fraction(1, 2))
    assert dual_bound(cost, line(3) / 2, multipliers) <= float(np.sum(cost * channel)) + 1e-12
    with pytest.raises(ValueError, match="a multiplier is negative"):
        dual_bound(cost, line(3) / 2, -multipliers)


def test_what_may_be_told_apart_is_told_apart() -> None:
    """An infinite distance is not a constraint: nothing is lost between classes, everything within one."""
    level = np.array([[0, 0, math.inf], [0, 0, math.inf], [math.inf, math.inf, 0]])
    user = User(np.array([0.2, 0.5, 0.3]), 1 - np.eye(3))
    assert best_mechanism(user, level).value == pytest.approx(0.2, abs=EXACT)


def test_qif_s_program_finds_the_same_loss() -> None:
    """The least loss is that of an independent implementation, its geometric our mechanism's law."""
    k, a = 4, Fraction(1, 2)
    assert np.allclose(
        qif.mechanism.d_privacy.geometric(k + 1, float(a)), truncated_geometric(k, a), atol=1e-14
    )
    for user in users(k, 5, seed=2):
        theirs = qif.mechanism.d_privacy.min_loss_given_d(
            user.prior,
            k + 1,
            lambda x, y: float(a) * abs(x - y),
            lambda w, x, user=user: float(user.loss[x, w]),
        )
        assert best_mechanism(user, float(a) * line(k)).value == pytest.approx(
            expected_loss(user, theirs), abs=1e-7
        )


# Universal optimality -------------------------------------------------------------------------------


def databases(values: int, rows: int, metric: DatabaseMetric) -> Databases:
    """All `rows`-tuples of 0 .. values - 1."""
    return Databases(Numbers(0, values - 1, 1), rows, metric)


def whole_average(domain: Databases) -> Query:
    """The average, rounded down to a value."""
    return Query(lambda x: sum(x) // len(x), domain)


QUERIES: dict[str, Callable[[], Query]] = {
    "Theorem 8: a count under d_h": lambda: count(databases(3, 3, "hamming"), lambda row: row > 1),
    "Theorem 11: a sum under the normalised d_1": lambda: total(databases(3, 3, "normalised l1")),
    "Theorem 11: an average under the normalised d_1": lambda: average(databases(3, 2, "normalised l1")),
    "Theorem 12: a sum under d_1": lambda: total(databases(3, 2, "l1")),
    "Theorem 12: an average under d_1": lambda: average(databases(4, 2, "l1")),
    "Theorem 12: a median under d_1": lambda: percentile(databases(3, 3, "l1"), 50),
    "Theorem 11: a minimum under the normalised d_1": lambda: percentile(databases(4, 2, "normalised l1"), 0),
    "Theorem 13: a rounded average under d_inf": lambda: whole_average(databases(3, 3, "linf")),
    "Theorem 13: a median under d_inf": lambda: percentile(databases(3, 3, "linf"), 50),
    "Theorem 13: a third under d_inf": lambda: percentile(databases(3, 3, "linf"), 33),
}


def answers_of(query: Query) -> list[Any]:
    """All answers, from the smallest."""
    return sorted(query.answers)


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("epsilon", [Fraction(1, 3), Fraction(3, 2)])
def test_the_truncated_geometric_serves_every_user_best(name: str, epsilon: Fraction) -> None:
    """Of a uniformly sensitive query, TG and a remap attain the program's bound for random users."""
    query = QUERIES[name]()
    assert query.is_uniformly_sensitive
    answers = answers_of(query)
    step = query.induced(answers[0], answers[1])
    level = levels_between(answers, query.induced, epsilon)
    k = len(answers) - 1
    assert np.allclose(level, float(epsilon * step) * line(k), rtol=1e-14)
    channel = truncated_geometric(k, epsilon * Fraction(step))
    for user in users(k, 12, seed=k):
        assert bayes_loss(user, channel) == pytest.approx(best_mechanism(user, level).bound, abs=1e-8)


def test_other_mechanisms_do_not() -> None:
    """Less epsilon than allowed, or randomised response at the same level, is worse for some users."""
    response = (np.full((5, 5), 1.0) + 5 * np.eye(5)) / 10
    for other, level in (
        (truncated_geometric(4, Fraction(2, 5)), line(4) / 2),
        (response, math.log(6) * line(4)),
    ):
        assert is_private(other, level)
        gaps = [bayes_loss(user, other) - best_mechanism(user, level).bound for user in users(4, 12, seed=4)]
        assert max(gaps) > 0.01
        assert min(gaps) > -EXACT


def test_an_unrounded_average_under_d_inf_is_no_line() -> None:
    """Theorem 13 needs values as fine as the answers: of whole numbers some user is served better than by TG.

    Shifting two values by 1 moves their average by 1, and one alone by 1/2: both cost the same.
    """
    query = average(databases(3, 2, "linf"))
    answers = answers_of(query)
    assert not query.is_uniformly_sensitive
    level = levels_between(answers, query.induced, 1)
    assert level[0].tolist() == [0, 1, 1, 2, 2]
    channel = truncated_geometric(4, Fraction(1, 2))
    gaps = [bayes_loss(user, channel) - best_mechanism(user, level).value for user in users(4, 12, seed=3)]
    assert max(gaps) > 0.02
    assert min(gaps) > -EXACT


def on_databases(query: Query) -> tuple[list[int], Floats]:
    """The query's answers on all databases, as numbers of answers, and the databases' levels at epsilon 1."""
    assert isinstance(query.domain, Databases)
    points, order = query.domain.points, answers_of(query)
    return [order.index(query(x)) for x in points], levels_between(points, query.domain.metric, 1)


def test_private_on_answers_is_private_on_databases() -> None:
    """H is private for the induced metric exactly where H after the query is private on databases.

    Shown on the extreme mechanisms of the line and of the induced metric itself, which are on the edge.
    """
    query = total(databases(3, 2, "hamming"))
    induced = levels_between(answers_of(query), query.induced, 1)
    assert np.array_equal(induced, np.ceil(line(4) / 2))
    answers, level = on_databases(query)
    found = [
        best_mechanism(user, metric).channel for user in users(4, 8, seed=8) for metric in (induced, line(4))
    ]
    verdicts = [is_private(channel, induced) for channel in found]
    assert verdicts == [is_private(channel[answers], level) for channel in found]
    assert set(verdicts) == {True, False}


def test_counts_over_whole_databases_with_even_priors() -> None:
    """With every database of a count as likely, no mechanism at all beats TG, also not one that sees rows."""
    answers, level = on_databases(total(databases(2, 3, "hamming")))
    sizes = np.bincount(answers)
    channel = truncated_geometric(3, Fraction(1))
    for user in users(3, 6, seed=5):
        rows = User((user.prior / sizes)[answers], user.loss[answers])
        assert best_mechanism(rows, level).bound == pytest.approx(bayes_loss(user, channel), abs=1e-8)


def test_who_knows_which_databases_occur_may_do_better() -> None:
    """The limit of the theorem: of 001 and 110 only, at d_h = 3, a mechanism of the rows tells more.

    As much as the discrete Laplace pair at 3 quanta, which dominates (THEORY 7): half of 1 - TV is lost.
    """
    query = total(databases(2, 3, "hamming"))
    answers, level = on_databases(query)
    prior = np.array([0.5 if x in {(0, 0, 1), (1, 1, 0)} else 0 for x in product(range(2), repeat=3)])
    rows = User(prior, (line(3) > 0)[answers].astype(float))
    counted = User(np.array([0, 0.5, 0.5, 0]), (line(3) > 0).astype(float))
    alone = bayes_loss(counted, truncated_geometric(3, Fraction(1)))
    assert alone == pytest.approx(1 / (1 + math.e), abs=1e-12)
    assert best_mechanism(rows, level).value == pytest.approx(math.exp(-2) / (1 + math.exp(-1)), abs=EXACT)


# Theorem 9 ------------------------------------------------------------------------------------------

NEAR = User(np.array([1, 1, 3]) / 5, line(2))
NEARER = User(np.array([4, 4, 1]) / 9, line(2) ** 2)


def impossible(found: list[User], level: Floats) -> float:
    """How much the users of one mechanism lose at least, together, above what each could have alone."""
    return best_for_all(found, level).bound - sum(best_mechanism(user, level).value for user in found)


def test_no_mechanism_is_best_for_both_users_of_a_sum() -> None:
    """Theorem 9: of one value of {0, 1, 2} under d_h, any answer is next to any other, and two users differ.

    Their losses are |i - j| and its square, their priors differ. Whatever they make of the outputs of one
    mechanism, together they lose more than each with a mechanism of its own: by 0.09 at epsilon = 1.
    """
    query = total(databases(3, 1, "hamming"))
    induced = levels_between(answers_of(query), query.induced, 1)
    assert np.array_equal(induced, 1 - np.eye(3))
    assert impossible([NEAR, NEARER], induced) > 0.09


def test_on_a_line_the_same_two_users_agree() -> None:
    """Where the answers are a line, both are served best at once, and so are random pairs."""
    assert impossible([NEAR, NEARER], line(2)) == pytest.approx(0, abs=EXACT)
    for seed in range(5):
        assert impossible(users(2, 2, seed), line(2)) == pytest.approx(0, abs=EXACT)


def test_a_joint_output_is_a_guess_for_each() -> None:
    """Output z of the program for two users is guess z // 3 of the first and z % 3 of the second."""
    both = users(2, 2, seed=9)
    channel = best_for_all(both, line(2)).channel.reshape(3, 3, 3)
    for user, own in zip(both, (channel.sum(axis=2), channel.sum(axis=1)), strict=True):
        assert expected_loss(user, own) == pytest.approx(best_mechanism(user, line(2)).value, abs=EXACT)


def test_two_counts_at_once_have_no_best_mechanism() -> None:
    """Theorem 9 for a pair of counts: the induced graph is a square, of 00, 01, 11, 10, and no line."""
    square = levels_between([(0, 0), (0, 1), (1, 1), (1, 0)], manhattan, 1)
    even = np.full(4, 0.25)
    corner = User(even, 1 - np.eye(4))
    parity = User(even, np.array([[0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 1, 0]], float))
    assert impossible([corner, parity], square) > 0.01


# Maximal expected error -----------------------------------------------------------------------------


@given(st.integers(1, 3), st.sampled_from([0.3, 1.0, 2.5]), st.sampled_from([0.0, 0.1, 0.6]))
def test_the_least_maximal_error_of_categories_is_known(m: int, epsilon: float, delta: float) -> None:
    """It is m (1-delta)/(m + e^epsilon), by an independent program (Holohan, Theorem 7).

    It may be less where outputs may be a centre at 1/2 of all, which the floor for outputs anywhere allows.
    """
    value = least_maximal_error(1 - np.eye(m + 1), epsilon * (1 - np.eye(m + 1)), delta)
    assert value == pytest.approx(m * (1 - delta) / (m + math.exp(epsilon)), abs=EXACT)
    assert value == pytest.approx(float(finite_floor(m, 1, str(epsilon), str(delta))), abs=EXACT)
    with_centre = np.hstack([1 - np.eye(m + 1), np.full((m + 1, 1), 0.5)])
    least = least_maximal_error(with_centre, epsilon * (1 - np.eye(m + 1)), delta)
    assert float(finite_floor(m, 1, str(epsilon), str(delta), outputs="anywhere")) <= least + EXACT


def test_delta_does_not_chain() -> None:
    """With delta > 0 the promise for points at 2 epsilon follows from no others: it is asked for.

    The ends of three points in a row, told by two outputs: (1-delta)/(1+e^(2 epsilon)) are wrong.
    """
    error = np.array([[0, 1], [0, 0], [1, 0]], float)
    value = least_maximal_error(error, line(2) / 5, 0.2)
    assert value == pytest.approx(0.8 / (1 + math.exp(2 / 5)), abs=EXACT)


# Windows --------------------------------------------------------------------------------------------


def lattice_mean(n: int, a: float, reach: int, loss: Callable[[int], float]) -> float:
    """The mean loss of a window under the l_inf Laplace law, kept to the box, point by point."""
    mass = total = 0.0
    for key in combinations_with_replacement(range(reach + 1), n):
        points = len(set(permutations(key))) * 2 ** sum(z > 0 for z in key) * math.exp(-a * key[-1])
        mass, total = mass + points, total + points * sum(map(loss, key))
    return total / mass


def wrong(z: int) -> float:
    """1 where z is not zero."""
    return float(z != 0)


@pytest.mark.parametrize(("n", "a", "reach"), [(1, 1, 30), (2, 1, 20), (3, 1, 11), (4, 2, 7), (5, 2, 7)])
@pytest.mark.parametrize("loss", [abs, lambda z: z * z])
def test_no_noise_on_the_lattice_beats_the_l_inf_law(
    n: int, a: float, reach: int, loss: Callable[[int], float]
) -> None:
    """For |z| and z^2, n <= 5, the program over all laws ends at the l_inf Laplace law (T.6)."""
    best = best_noise(n, a, reach, loss)
    assert best == pytest.approx(lattice_mean(n, a, reach, loss), rel=1e-7)
    assert loss(reach + 1) >= best


def test_for_the_loss_wrong_at_all_another_law_is_better() -> None:
    """The limit: the number of wrong readings can be smaller on the lattice, at n = 3 by 2% (THEORY T.6)."""
    assert best_noise(3, 1.0, 11, wrong) < 0.98 * lattice_mean(3, 1.0, 11, wrong)
    assert best_noise(1, 1.0, 11, wrong) == pytest.approx(lattice_mean(1, 1.0, 11, wrong), rel=1e-7)


def test_the_law_that_is_better_is_private_and_known() -> None:
    """exp(-a (second + delta largest)/(1 + delta)), of |z| sorted: 2.316 wrong of 4 at a = 3, against 2.439.

    Its exponent is a times a mean of functions that move by at most d_inf, so it is a d_inf-private.
    """
    a, delta, reach = 3.0, 0.005, 8000
    plain = lattice_mean(4, a, 12, wrong)
    assert plain == pytest.approx(2.439, abs=5e-4)
    mass = total = 0.0
    for low in combinations_with_replacement(range(12), 3):
        sizes = np.arange(low[-1], reach)
        orders = np.array([len(set(permutations((*low, top)))) for top in range(low[-1], low[-1] + 2)], float)
        counts = np.where(sizes == low[-1], orders[0], orders[1])
        signs = 2.0 ** (sum(z > 0 for z in low) + (sizes > 0))
        points = counts * signs * np.exp(-a * (low[-1] + delta * sizes) / (1 + delta))
        mass += float(points.sum())
        total += float(points @ (sum(map(wrong, low)) + (sizes > 0)))
    assert total / mass == pytest.approx(2.316, abs=5e-4)
