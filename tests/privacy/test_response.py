"""Answers to queries: noise first and then any question, or the question first and then noise."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from meteragent.privacy import LInfLaplace, SeededBits
from meteragent.privacy.channel import Channel, exp
from meteragent.privacy.mechanism.base import MetricMechanism, PairMechanism
from meteragent.privacy.mechanism.categorical import Categorical
from meteragent.privacy.mechanism.number import Laplace, TruncatedGeometric
from meteragent.privacy.mechanism.product import Product
from meteragent.privacy.mechanism.response import After, OutputPerturbation, Sanitised, Then
from meteragent.privacy.mechanism.sanitisation import LaplaceSanitisation
from meteragent.privacy.metric import Scaled, absolute, euclidean
from meteragent.privacy.query import Query, count, percentile, total
from meteragent.privacy.space import Categories, Databases, Numbers, Windows

LABELS = Categorical(Categories(["on", "off"]), "1/2", "1/10")
HOMES = Product(LABELS, 3)
WINDOWS = Databases(Numbers(0, 4, "1/2"), 3, "linf")


def share_on(database: Any) -> int:
    """How many rows are on."""
    return sum(row == "on" for row in database)


# Sanitised ----------------------------------------------------------------------------------------


def test_one_release_answers_all_queries() -> None:
    """Answers come from the one release, whatever is asked, however often (Theorem 4, Corollary 1)."""
    homes = Product(LABELS, 200)
    sanitised = Sanitised(homes, ["on"] * 200)
    first = sanitised.answer(share_on)
    assert {sanitised.answer(share_on) for _ in range(100)} == {first}
    assert sanitised.answer(lambda d: d) == sanitised.released
    assert sanitised.answer(lambda d: d.index("off")) == sanitised.released.index("off")
    assert sanitised.answer(count(Databases(LABELS.space, 200), lambda row: row == "on")) == first
    assert len({Sanitised(homes, ["on"] * 200).answer(share_on) for _ in range(30)}) > 1


def test_the_answers_to_all_queries_are_as_private_as_the_release() -> None:
    """No query, and no two together, has a delta above that of the identity query (Theorem 4)."""
    channel, odds = LABELS.channel.combine_product(LABELS.channel), exp("1/2")
    identity = channel.smallest_delta(odds, neighbour_pairs())
    assert identity == Fraction(1, 10)
    queries = [share_on, lambda d: d[0], lambda d: (share_on(d), d[0]), lambda d: d]
    laws = [answered(channel, asked(query)) for query in queries]
    assert all(sum(row) == 1 for law in laws for row in law.rows)
    found = [law.smallest_delta(odds, neighbour_pairs()) for law in laws]
    assert all(delta <= identity for delta in found)
    assert found[-1] == identity
    assert (laws[-1].outputs, laws[-1].rows) == (channel.outputs, channel.rows)


def neighbour_pairs() -> list[tuple[Any, Any]]:
    """Databases of two rows of which one differs."""
    space = Databases(LABELS.space, 2)
    return [(x, other) for x in space.points for other in space.neighbours(x)]


def answered(channel: Channel, query: Any) -> Channel:
    """The channel from databases to the query's answer on what was released."""
    answers = tuple(dict.fromkeys(map(query, channel.outputs)))
    rows = ([Fraction(query(z) == answer) for answer in answers] for z in channel.outputs)
    return channel.then(Channel(channel.outputs, answers, rows))


def asked(query: Any) -> Any:
    """The query as `Sanitised` answers it where a database was released: at delta = 1, as it is."""
    bare = Product(Categorical(LABELS.space, 0, 1), 2)
    return lambda released: Sanitised(bare, released).answer(query)


def test_what_was_released_is_all_that_is_kept() -> None:
    """It holds the mechanism, which says how private it is, and the release; both cannot be changed."""
    sanitised = Sanitised(HOMES, ("on", "off", "on"), bits=SeededBits(1))
    assert vars(sanitised) == {"mechanism": HOMES, "released": sanitised.released}
    assert HOMES.release(["on", "off", "on"], bits=SeededBits(1)).tolist() == list(sanitised.released)
    assert sanitised.mechanism.guarantee == (Fraction(1, 2), Fraction(1, 10))  # type: ignore[attr-defined]
    assert isinstance(sanitised.released, tuple)
    with pytest.raises(AttributeError):
        sanitised.released = ("on", "on", "on")  # type: ignore[misc]
    with pytest.raises(ValueError, match="none of the set's"):
        Sanitised(HOMES, ["on", "off", "?"])


def test_any_mechanism_sanitises_a_point_of_its_space() -> None:
    """A number stays a number, a window a tuple of ints; noise may lead out of a query's own space."""
    assert isinstance(Sanitised(Laplace(1, 1), 5).released, int)
    window = Sanitised(LInfLaplace("1/100", 1, 4), np.array([1, 2, 3, 4])).released
    assert [type(value) for value in window] == [int] * 4
    far = Sanitised(Product(LaplaceSanitisation(Numbers(0, 5), "1/100"), 3), (0, 5, 5), bits=SeededBits(2))
    assert far.released not in Databases(Numbers(0, 5), 3)
    assert far.answer(total(Databases(Numbers(0, 5), 3))) == sum(far.released)


def test_it_is_the_release_that_is_private_not_each_repeated_query() -> None:
    """Asked 4,000 times, output perturbation gives the mean away, a sanitised response does not."""
    mechanism = Laplace("1/10", 1)
    query = Query(sum, Databases(Numbers(0, 4), 3, "l1"), sensitivity=1)
    fresh = After(mechanism, query).release([(1, 2, 3)] * 4000, bits=SeededBits(3))
    assert abs(fresh.mean() - 6) < 1  # sd 14.1 / sqrt(4000) = 0.22
    assert len(set(fresh.tolist())) > 20


# Post-processing ----------------------------------------------------------------------------------


def test_post_processing_keeps_the_loss() -> None:
    """A function of the output is as private as the output, and its law sums what is mapped to a value."""
    mechanism = TruncatedGeometric("1/2", 1, 5)
    half = Then(mechanism, lambda y: y // 2)
    assert half.loss(Fraction(3)) == mechanism.loss(Fraction(3)) == Fraction(3, 2)
    exact = answered(mechanism.channel, lambda y: y // 2)
    for x in range(6):
        assert np.exp(half.log_mass([0, 1, 2], x)) == pytest.approx(
            [float(p) for p in exact.row(x)], rel=1e-12
        )
    assert exact.is_private("1/2", half.space.metric)
    assert np.isneginf(half.log_mass([[7]], 0)).all()
    points = np.arange(6).repeat(20)
    released = half.release(points, bits=SeededBits(5))
    assert (released == mechanism.release(points, bits=SeededBits(5)) // 2).all()
    assert isinstance(half, MetricMechanism)


def test_the_law_of_a_function_of_endless_outputs_is_not_known() -> None:
    """Where a mechanism releases more than the points of its space, `log_mass` says so."""
    endless: list[Any] = [Laplace(1, 1), _Unclamped()]
    for mechanism in endless:
        with pytest.raises(ValueError, match="only if all outputs can be listed"):
            Then(mechanism, np.abs).log_mass([1], 1)


class _Unclamped(Laplace):
    """Noise on 0 .. 5 that leads out of it."""

    def __init__(self) -> None:
        super().__init__(1, 1)

    @property
    def space(self) -> Numbers:
        return Numbers(0, 5)


# Output perturbation ------------------------------------------------------------------------------


def test_a_mechanism_after_a_query_has_delta_times_the_loss() -> None:
    """Fact 5: the sum of 3 rows under d_inf is 3-sensitive; exactly 3 epsilon d_inf-private, not less."""
    query = total(WINDOWS)
    sums = TruncatedGeometric("1/2", "1/2", 12)
    mechanism = After(sums, query)
    assert query.sensitivity == 3
    assert mechanism.loss(Fraction(2)) == 3
    channel = sums.channel.after(query, [(0, 0, 0), (2, 2, 2), (0, 2, 4), (4, 4, 4)])
    assert channel.is_private(3 * Fraction(1, 2), WINDOWS.metric)
    assert channel.smallest_epsilon(WINDOWS.metric) == pytest.approx(1.5)
    with pytest.raises(ValueError, match="more than 3-sensitive"):
        After(TruncatedGeometric("1/2", "3/4", 12), query)  # whose metric is 3/2 times as large
    for x in [(0, 2, 4), (4, 4, 4)]:
        law = [float(p) for p in channel.row(x)]
        assert np.exp(mechanism.log_mass(range(13), x)) == pytest.approx(law, rel=1e-12)


def test_the_mean_is_released_on_its_own_lattice() -> None:
    """The mean of n rows under d_inf is 1-sensitive: a sum, in n-ths of the quantum (Theorem 13)."""
    mean = Query(sum, WINDOWS, Scaled(absolute, Fraction(1, 6)), 1)
    mechanism = After(TruncatedGeometric("1/2", Fraction(1, 6), 12), mean)
    assert mechanism.loss(Fraction(2)) == 1
    ends = mechanism.log_mass([0], (0, 0, 0)) - mechanism.log_mass([0], (4, 4, 4))
    assert ends == pytest.approx(1, rel=1e-12)


def test_an_answer_for_each_point() -> None:
    """Points in a list or in the rows of an array give one noisy answer each, those of the mechanism."""
    median = percentile(WINDOWS, 50)
    mechanism = After(TruncatedGeometric("1/2", "1/2", 4), median)
    points = [(0, 1, 4), (3, 3, 0), (2, 2, 2)]
    expected = mechanism.mechanism.release([1, 3, 2], bits=SeededBits(6))
    assert (mechanism.release(points, bits=SeededBits(6)) == expected).all()
    assert (mechanism.release(np.array(points, np.int16), bits=SeededBits(6)) == expected).all()
    assert mechanism.space is WINDOWS
    with pytest.raises(ValueError, match="not in the query's space"):
        mechanism.release([(0, 0, 5)])


def test_a_pair_between_any_two_answers_is_one_between_any_two_points() -> None:
    """(epsilon, delta) of the answers' space goes with a query of any sensitivity (2.2)."""
    domain = Databases(Categories(["on", "off"]), 3)
    most = Query(lambda d: "on" if share_on(d) > 1 else "off", domain, LABELS.space.metric)
    mechanism = OutputPerturbation(LABELS, most)
    assert mechanism.guarantee == LABELS.guarantee
    assert mechanism.space is domain
    channel = LABELS.channel.after(most, domain.points)
    assert channel.smallest_delta(exp("1/2")) == Fraction(1, 10)
    released = mechanism.release([("on", "on", "off"), ("off",) * 3] * 50, bits=SeededBits(7))
    assert set(released.tolist()) == {"on", "off"}
    law = mechanism.log_mass(["on", "off"], ("on", "on", "off"))
    assert (law == LABELS.log_mass(["on", "off"], "on")).all()
    assert isinstance(mechanism, PairMechanism)
    assert not isinstance(mechanism, MetricMechanism)


def test_a_promise_that_would_not_hold_is_refused() -> None:
    """A sensitivity in another unit or not exact, answers outside, the wrong kind of promise."""
    quanta = Query(sum, WINDOWS, absolute, 6)  # 3 rows, in quanta: 6 a unit
    clipped, three = TruncatedGeometric(1, "1/2", 3), Categorical(Categories(range(3)), 1)
    plane = Databases(Numbers(0, 2), 2)
    diagonal = Query(lambda d: d[0], Windows(2, 1, "l2", 0, 2), metric=lambda x, y: euclidean((x, x), (y, y)))
    identity = Query(lambda d: d, plane, plane.metric)
    single = Query(lambda d: d[0], plane)
    wrong: list[tuple[type[Exception], str, Any]] = [
        (ValueError, "more than 6-sensitive", lambda: After(Laplace(1, 2), quanta)),
        (ValueError, "declare an exact sensitivity, just above 1.41", lambda: After(Laplace(1, 1), diagonal)),
        (
            ValueError,
            "answers must be points of the mechanism's space",
            lambda: After(clipped, total(WINDOWS)),
        ),
        (TypeError, "Categorical has no loss: see OutputPerturbation", lambda: After(three, single)),  # type: ignore[arg-type]
        (TypeError, "Laplace has no guarantee: see After", lambda: OutputPerturbation(Laplace(1, 1), single)),  # type: ignore[arg-type]
        (ValueError, "a promise for neighbours", lambda: OutputPerturbation(Product(three, 2), identity)),
    ]
    assert After(Laplace(1, "1/2"), quanta).loss(Fraction(1)) == 6
    for error, text, make in wrong:
        with pytest.raises(error, match=text):
            make()
