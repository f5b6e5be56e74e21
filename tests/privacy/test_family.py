"""Family C: which queries are protected in a stronger sense by the noise they have (channel.has_same_noise).

Queries are searched exhaustively on small databases. The mechanism is the truncated geometric one on the
answers' lattice, with the noise that epsilon-differential privacy asks for; its exact matrix says whether
it also keeps the stronger promise.
"""

import itertools
from collections.abc import Callable, Sequence
from fractions import Fraction

import pytest

from meteragent.privacy.channel import Channel, exp, has_same_noise
from meteragent.privacy.metric import (
    Metric,
    absolute,
    chebyshev,
    discrete,
    domination,
    hamming,
    manhattan,
)
from meteragent.privacy.query import Query, average, count, percentile, total
from meteragent.privacy.space import Databases, Numbers

EPSILON = Fraction(1, 2)
Rows = tuple[int, ...]
Answer = Callable[[Rows], Fraction]

DOMAINS = [(range(2), 3), (range(3), 3), ((0, 1, 4), 2)]
QUERIES: dict[str, Answer] = {
    "count above 0": lambda x: Fraction(sum(v > 0 for v in x)),
    "sum": lambda x: Fraction(sum(x)),
    "average": lambda x: Fraction(sum(x), len(x)),
    "minimum": lambda x: Fraction(min(x)),
    "median": lambda x: Fraction(sorted(x)[(len(x) - 1) // 2]),
    "maximum": lambda x: Fraction(max(x)),
    "half the sum, rounded": lambda x: Fraction(sum(x) // 2),
}
OF_THE_FAMILY = {
    "normalised d_1": {"sum", "average", "minimum", "median", "maximum"},
    "normalised d_inf": {"minimum", "median", "maximum"},
}


def databases(values: Sequence[int], n: int) -> list[Rows]:
    """V^n."""
    return list(itertools.product(values, repeat=n))


def normalised(name: str, values: Sequence[int]) -> Metric:
    """d_1 or d_inf, divided by the width of V; nowhere above d_h."""
    metric: Metric = {"normalised d_1": manhattan, "normalised d_inf": chebyshev}[name]
    return lambda x, y: metric(x, y) / (max(values) - min(values))


def with_usual_noise(query: Answer, points: Sequence[Rows]) -> Channel:
    """The truncated geometric mechanism, of the scale that epsilon-d_h-privacy asks for, after the query."""
    delta = domination(points, lambda x, y: absolute(query(x), query(y)), hamming)
    answers = sorted({query(x) for x in points})
    unit = Fraction(1, max(answer.denominator for answer in answers))
    low, high = answers[0] / unit, answers[-1] / unit
    u = exp(-EPSILON * unit / Fraction(delta))

    def weight(y: int, z: int) -> object:
        distance = exp(-EPSILON * unit / Fraction(delta) * abs(y - z))
        return distance / (1 + u) if z in (low, high) else distance * (1 - u) / (1 + u)

    lattice = range(int(low), int(high) + 1)
    noise = Channel.of_weights(lattice, lattice, weight)  # type: ignore[arg-type]
    return noise.after(lambda x: int(query(x) / unit), points)


@pytest.mark.parametrize("stronger", OF_THE_FAMILY)
@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize(("values", "n"), DOMAINS)
def test_the_same_noise_keeps_the_stronger_promise_in_the_family_and_only_there(
    values: Sequence[int], n: int, name: str, stronger: str
) -> None:
    """Propositions 4 and 5 with their converse: in C exactly when the usual noise is private for both."""
    points, query, metric = databases(values, n), QUERIES[name], normalised(stronger, values)
    channel = with_usual_noise(query, points)
    assert channel.is_private(EPSILON, hamming)
    assert has_same_noise(query, points, hamming, metric) == channel.is_private(EPSILON, metric)


@pytest.mark.parametrize("stronger", OF_THE_FAMILY)
@pytest.mark.parametrize("name", QUERIES)
def test_who_is_in_the_family(name: str, stronger: str) -> None:
    """Sum and average are for d_1, order statistics also for d_inf; a count of several values is not."""
    values, n = range(4), 3
    member = has_same_noise(QUERIES[name], databases(values, n), hamming, normalised(stronger, values))
    assert member == (name in OF_THE_FAMILY[stronger])


def test_a_count_is_in_the_family_where_its_rows_are_far_apart() -> None:
    """Of two values a count is a sum; null values at the full width would do as well."""
    query = QUERIES["count above 0"]
    assert has_same_noise(query, databases((0, 1), 3), hamming, normalised("normalised d_1", (0, 1)))
    far = [x for x in databases((0, 4, 5), 2) if 5 not in x]
    assert not has_same_noise(query, far, hamming, normalised("normalised d_1", (0, 4, 5)))
    assert has_same_noise(query, far, hamming, normalised("normalised d_1", (0, 4)))


@pytest.mark.parametrize("ask", [total, average, lambda d: percentile(d, 50), lambda d: count(d, bool)])
def test_the_declared_sensitivities_say_the_same(ask: Callable[[Databases], Query]) -> None:
    """A query is in C when what it declares for d_h is what it declares for the normalised d_1."""
    usual, stronger = (ask(Databases(Numbers(0, 3), 2, kind)) for kind in ("hamming", "normalised l1"))
    points = databases(range(4), 2)
    declared = usual.sensitivity == stronger.sensitivity
    assert has_same_noise(usual, points, hamming, normalised("normalised d_1", range(4))) == declared


def test_a_weaker_notion_is_no_stronger_one() -> None:
    """The metrics are told apart: a distance that is somewhere above the other is refused."""
    with pytest.raises(ValueError, match="nowhere exceed"):
        has_same_noise(sum, databases((0, 2), 2), hamming, manhattan)
    with pytest.raises(ValueError, match="nowhere exceed"):
        has_same_noise(abs, [0, 2], discrete, absolute)
