"""Bayesian adversaries: d-privacy as a bound on their conclusions, and families of bounds equivalent to it.

An adversary with a prior pi on the input x of a channel observes an output z. The adversary's conclusion is
the posterior. The distance d_P between two conclusions is the largest absolute logarithm of the ratio of the
probabilities that the two give to an event. L = P(z|.) is the likelihood; THEORY T.9 has the proofs.

Hiding functions (Chatzikokolakis 2013, Theorem 3). A function phi, which moves x by at most d(phi), replaces
x by phi(x) before the mechanism is applied. Two adversaries with the same prior observe z. The first takes z
for an output of x, and the second for an output of phi(x). With rho(x) = L(x)/L(phi(x)), the supremum over
all priors of the distance of their conclusions is max ln rho - min ln rho, which is at most 2 d(phi) for a
d-private mechanism. The theorem is about events: for a single hiding function, the union of two outputs can
reveal more than either output alone.

Neighbourhoods (Theorem 4). The adversary knows that x is in N, a set of diameter d(N). The supremum over all
priors of the distance between posterior and prior is max_N ln L - min_N ln L, which is at most d(N).

Families. The bounds of a family of neighbourhoods are equivalent to privacy for the metric of the shortest
chains of neighbours (`chain_metric`), which is never below d; if the two metrics are equal, the family is
maximally tight (Definition 3). A family of hiding functions is maximally tight if pairs that a phi exchanges
link any two points by a chain of length d (Definition 2); a phi that only maps x to y is not enough (T.3).

For example, the truncated geometric mechanism releases a count between 0 and 3. An adversary who considers 0
and 1 equally likely observes the output 0. For any prior on these two counts, posterior and prior differ by a
factor of at most e^(1/2):

    >>> from meteragent.privacy import Hiding, Neighbourhood, TruncatedGeometric, is_maximally_tight
    >>> mechanism = TruncatedGeometric("1/2", quantum=1, k=3)
    >>> channel, metric = mechanism.channel, mechanism.space.metric
    >>> posterior = channel.posterior({0: "1/2", 1: "1/2"}, 0)
    >>> {x: round(float(p), 4) for x, p in posterior.items()}
    {0: 0.6225, 1: 0.3775, 2: 0.0, 3: 0.0}
    >>> pair = Neighbourhood({0, 1})
    >>> pair.largest_odds(channel).log(), pair.holds(channel, metric, "1/2")
    (0.5, True)
    >>> pair.holds(channel, metric, "1/3"), pair.witness(channel, metric, "1/3")
    (False, Witness(prior={0: Fraction(1, 4), 1: Fraction(3, 4)}, event=(0,)))

If 0 is first exchanged with 1, and 2 with 3, the distance d_P between the two adversaries'
conclusions is at most 2 epsilon d(phi) = 1:

    >>> exchange = Hiding({0: 1, 1: 0, 2: 3, 3: 2}.__getitem__)
    >>> exchange.largest_odds(channel).log(), exchange.holds(channel, metric, "1/2")
    (1.0, True)

On a line, the bounds of neighbouring pairs are equivalent to privacy:

    >>> is_maximally_tight([Neighbourhood({i, i + 1}) for i in range(3)], channel.inputs, metric)
    True
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cmp_to_key
from itertools import combinations, permutations
from typing import Any, NamedTuple

from meteragent.privacy.channel import Channel, Distribution, Number, all_events, exp, to_number
from meteragent.privacy.exact import Exact, positive
from meteragent.privacy.metric import Distance, Metric, exceeds, shortest_paths

Point = Hashable
Law = Mapping[Any, Number]


class _Likelihoods(NamedTuple):
    """The likelihood of an event, given the input x, for each of two adversaries."""

    x: Point
    first: Number
    second: Number


class Conclusions(NamedTuple):
    """The conclusions of two adversaries with the same prior: two distributions of the input."""

    first: Law
    second: Law


class Witness(NamedTuple):
    """A prior and an event (a tuple of outputs) that break a bound on the distance between conclusions."""

    prior: dict[Point, Fraction]
    event: tuple[Point, ...]


def largest_odds_ratio(first: Law, second: Law) -> Number | None:
    """Return e^d_P, the largest ratio of a single point's two probabilities; None if infinite."""
    ratios = []
    for x in first.keys() | second.keys():
        p, q = (law.get(x, _ZERO) for law in (first, second))
        if p.sign != q.sign:
            return None
        if p.sign:
            ratios.append(max(p / q, q / p))
    return max(ratios)


class Comparison(ABC):
    """A comparison of the conclusions of two adversaries with the same prior: `Hiding` or `Neighbourhood`."""

    @abstractmethod
    def loss(self, points: Sequence[Point], metric: Metric) -> Distance:
        """Return the bound that d-privacy with epsilon 1 sets on the distance d_P of the conclusions."""

    @abstractmethod
    def links(self, points: Sequence[Point], metric: Metric) -> Iterator[tuple[Point, Point, Distance]]:
        """Yield pairs of points x, y, each with the bound on |ln L(x)/L(y)| that the comparison implies."""

    @abstractmethod
    def _events(self, channel: Channel) -> Iterable[tuple[Point, ...]]:
        """Return the events that suffice for the supremum over all events."""

    @abstractmethod
    def _likelihoods(self, channel: Channel, event: Iterable[Point]) -> Iterator[_Likelihoods]:
        """Yield, for each input to compare, the likelihoods by which the adversaries weight the prior."""

    def conclusions(self, channel: Channel, prior: Distribution, *event: Point) -> Conclusions:
        """Return both conclusions from an event (one or more outputs).

        The prior may have any positive sum. The prior's probabilities at points that are not compared are
        ignored. Raises ValueError if the event is empty, contains a point that is not an output, or cannot
        occur for one adversary, or a hiding function maps an input to a point that is not an input.
        """
        likelihoods = list(self._likelihoods(channel, event))
        first = {x: p * to_number("a weight", prior.get(x, 0)) for x, p, _ in likelihoods}
        second = {x: q * to_number("a weight", prior.get(x, 0)) for x, _, q in likelihoods}
        return Conclusions(_normalise(first), _normalise(second))

    def largest_odds(self, channel: Channel) -> Number | None:
        """Return the exact supremum of `largest_odds_ratio` over all priors and events; None if infinite.

        A finite supremum is attained only if it is 1. Raises ValueError if a hiding function maps an input to
        a point that is not an input, or is compared on more than 20 outputs, which have too many events.
        """
        largest = exp(0)
        for event in self._events(channel):
            if extremes := self._extremes(channel, event):
                (_, p, q), (_, r, s) = extremes
                if not q.sign * r.sign:
                    return None
                largest = max(largest, p * s / (q * r))
        return largest

    def holds(self, channel: Channel, metric: Metric, epsilon: Exact) -> bool:
        """Return whether all conclusions are within epsilon `loss`. Raises ValueError as `witness` does."""
        return self._bound(channel, metric, epsilon).admits(self.largest_odds(channel))

    def witness(self, channel: Channel, metric: Metric, epsilon: Exact) -> Witness | None:
        """Return a prior and an event that break the bound; None if the bound holds.

        The prior has its mass on the two points with the largest and the least ratio of likelihoods. The
        distance approaches the supremum as the prior's mass moves to the second point, so the first point's
        share is halved until the bound is broken. Raises ValueError if epsilon is not positive, or as for
        `largest_odds`.
        """
        bound = self._bound(channel, metric, epsilon)
        for event in self._events(channel):
            if extremes := self._extremes(channel, event):
                (x, p, q), (y, r, s) = extremes
                if bound.admits(p * s / (q * r) if q.sign * r.sign else None):
                    continue
                share = Fraction(1, 2)
                while bound.admits(
                    largest_odds_ratio(*self.conclusions(channel, {x: share, y: 1 - share}, *event))
                ):
                    share /= 2
                return Witness({x: share, y: 1 - share}, event)
        return None

    def _bound(self, channel: Channel, metric: Metric, epsilon: Exact) -> _Bound:
        factor, loss = positive("epsilon", epsilon), self.loss(channel.inputs, metric)
        return _Bound(None if loss == math.inf else exp(factor * Fraction(loss)))

    def _extremes(self, channel: Channel, event: Iterable[Point]) -> tuple[_Likelihoods, _Likelihoods] | None:
        """Return the likelihoods with the extreme ratios; None if an adversary excludes the event."""
        points = [x for x in self._likelihoods(channel, event) if x.first.sign or x.second.sign]
        if not any(x.first.sign for x in points) or not any(x.second.sign for x in points):
            return None
        return max(points, key=_BY_RATIO), min(points, key=_BY_RATIO)


@dataclass(frozen=True)
class Hiding(Comparison):
    """A hiding function phi: X -> X (Chatzikokolakis 2013, section 3 and Theorem 3).

    The first adversary takes an output to come from x, the second from phi(x); `loss` is 2 d(phi).
    """

    phi: Callable[[Any], Point]

    def reach(self, points: Iterable[Point], metric: Metric) -> Distance:
        """Return d(phi), the largest distance by which phi moves one of `points`."""
        return max(metric(x, self.phi(x)) for x in points)

    def loss(self, points: Sequence[Point], metric: Metric) -> Distance:
        """Return 2 d(phi)."""
        return 2 * self.reach(points, metric)

    def links(self, points: Sequence[Point], metric: Metric) -> Iterator[tuple[Point, Point, Distance]]:
        """Yield the pairs x, y that phi exchanges, each with d(phi), which bounds |ln L(x)/L(y)|."""
        reach = self.reach(points, metric)
        return ((x, y, reach) for x in points if (y := self.phi(x)) != x and self.phi(y) == x)

    def _events(self, channel: Channel) -> Iterable[tuple[Point, ...]]:
        """Return all nonempty events: a union of outputs can have larger odds than each of the outputs."""
        events = filter(None, all_events(channel.outputs))
        return (tuple(z for z in channel.outputs if z in event) for event in events)

    def _likelihoods(self, channel: Channel, event: Iterable[Point]) -> Iterator[_Likelihoods]:
        """Yield the likelihoods of each input x and of phi(x). Raises ValueError if phi(x) is no input."""
        likelihoods = dict(zip(channel.inputs, channel.likelihood(event), strict=True))
        for x, likelihood in likelihoods.items():
            if (image := self.phi(x)) not in likelihoods:
                raise ValueError(f"the hiding function maps {x!r} to {image!r}, which is not an input")
            yield _Likelihoods(x, likelihood, likelihoods[image])


@dataclass(frozen=True)
class Neighbourhood(Comparison):
    """A set N that is known to contain the input (Chatzikokolakis 2013, section 3 and Theorem 4).

    The conclusions are the posterior and the prior, both given N; `loss` is the diameter of N.
    """

    members: frozenset[Point]

    def loss(self, points: Sequence[Point], metric: Metric) -> Distance:  # noqa: ARG002
        """Return d(N), the diameter; `points` is not used."""
        return max((metric(x, y) for x, y in permutations(self.members, 2)), default=Fraction(0))

    def links(self, points: Sequence[Point], metric: Metric) -> Iterator[tuple[Point, Point, Distance]]:
        """Yield all pairs of members, each with d(N)."""
        diameter = self.loss(points, metric)
        return ((x, y, diameter) for x, y in permutations(self.members, 2))

    def _events(self, channel: Channel) -> Iterable[tuple[Point, ...]]:
        """Return the single outputs, which suffice: a ratio of sums is at most the largest ratio."""
        return ((output,) for output in channel.outputs)

    def _likelihoods(self, channel: Channel, event: Iterable[Point]) -> Iterator[_Likelihoods]:
        for x, likelihood in zip(channel.inputs, channel.likelihood(event), strict=True):
            if x in self.members:
                yield _Likelihoods(x, likelihood, exp(0))


@dataclass(frozen=True)
class _Bound:
    """The largest odds that a bound allows; None if the bound allows all odds."""

    odds: Number | None

    def admits(self, odds: Number | None) -> bool:
        """Return whether the odds (None if infinite) are within the bound."""
        return self.odds is None or (odds is not None and odds <= self.odds)


def _normalise(weights: Law) -> Law:
    total = sum(weights.values(), _ZERO)
    if not total.sign:
        raise ValueError("this event cannot occur under this prior: there is nothing to conclude")
    return {x: weight / total for x, weight in weights.items()}


def _compare(a: _Likelihoods, b: _Likelihoods) -> int:
    """Compare the ratios first/second without division; x/0 is above all other ratios."""
    return (a.first * b.second - b.first * a.second).sign


_BY_RATIO = cmp_to_key(_compare)
_ZERO = exp(0) - 1


def chain_metric(family: Iterable[Comparison], points: Sequence[Point], metric: Metric) -> Metric:
    """Return the metric of the shortest chains of links; infinity if there is no chain.

    A channel within all bounds of the family is private for this metric; for neighbourhoods, the converse
    holds, too. The result is at least `metric` if that satisfies the triangle inequality.
    """
    lengths: dict[tuple[Point, Point], Distance] = {}
    for comparison in family:
        for x, y, length in comparison.links(points, metric):
            lengths[x, y] = min(length, lengths.get((x, y), math.inf))
    chains = shortest_paths(lengths)
    return lambda x, y: Fraction(0) if x == y else chains.get(x, {}).get(y, math.inf)


def is_maximally_tight(family: Iterable[Comparison], points: Sequence[Point], metric: Metric) -> bool:
    """Return whether no shortest chain of links is longer than d, so that the bounds imply d-privacy.

    See Chatzikokolakis 2013, Definitions 2 and 3. If the result is True, a channel is epsilon-d-private if
    and only if every bound of the family holds (Theorems 3 and 4). If it is False, the bounds of a family of
    neighbourhoods do not imply d-privacy; those of a family of hiding functions might, on some spaces.
    """
    chain = chain_metric(family, points, metric)
    return not any(exceeds(chain(x, y), metric(x, y)) for x, y in combinations(points, 2))
