"""Bayesian adversaries: what d-privacy means for what anybody concludes, and families that say it all.

Theory of operation
-------------------
An adversary with a prior pi about the input x of a channel sees an output z and concludes the posterior.
Two conclusions are e^d_P apart in odds, d_P the largest |ln| of the ratio of their probabilities.

Hiding functions (Chatzikokolakis 2013, Theorem 3). A function phi replaces x before the mechanism sees it,
by at most d(phi) = sup d(x, phi(x)). Let sigma and sigma' be the conclusions from z of adversaries with one
prior, where the input was x and where it was phi(x). With L = P(z|.) and rho(x) = L(x)/L(phi(x)),

    sigma(x)/sigma'(x) = rho(x) / (a mean of rho, weighted by the prior and L o phi).

A mechanism that is d-private has |ln rho| <= d(phi), so d_P(sigma, sigma') <= 2 d(phi) for every prior.
Over all priors the supremum is exactly max ln rho - min ln rho: a prior that holds nearly all its mass on
the point of the least rho and the rest on that of the greatest comes as near as wanted. The theorem is about
events, and for one hiding function they matter: what is merged from two outputs can tell more than either,
because the point where rho is least may be another for each.

Neighbourhoods (Theorem 4). Let the adversary know that x is in N, a set of diameter d(N). Given that, the
odds between posterior and prior are L(x) / (the prior's mean of L on N): so |ln| of it is at most d(N), and
the supremum over all priors is exactly max_N ln L - min_N ln L.

Families. Do the bounds of a family of neighbourhoods, all together, say as much as d-privacy? They say
|ln L(x) - ln L(y)| <= d(N) for x, y in N, hence along every chain of neighbourhoods the sum of their
diameters: privacy for the metric of the shortest chains (`chain_metric`), which is never below d. Where the
two are equal the family is maximally tight (Definition 3) and Theorem 4 restricted to it is an equivalence
(Proposition 2). Where they differ at x, y, the channel to {0, 1} with P(1|z) = e^-chain(x, z) / 2 keeps all
bounds of the family and is not d-private: so the condition is also needed.

For hiding functions it suffices that some of them exchange x and y, as then rho(x) = 1/rho(y) and the
supremum is at least 2 |ln L(x)/L(y)|: a family whose exchanges chain up to d is maximally tight
(Definition 2). Functions that only replace do not suffice: rho = 1 where phi does nothing, and the bound of
2 epsilon for all phi_i,w, "row i becomes w", is kept by a mechanism that is 2 epsilon-private and no better.
So the converse of Theorem 1 holds with exchanges, and with replacements up to a factor of two.

"Maximally tight" is defined here by what is proved above: that the bounds of the family say all.

For example: counts 0 .. 3 released by the truncated geometric. From the output 0 somebody who holds 0 and 1
for equally likely concludes by how much they differ, and whoever knows that it is one of the two learns no
more than e^1/2, whatever the prior:

    >>> from meteragent.privacy import Hiding, Neighbourhood, TruncatedGeometric, is_maximally_tight
    >>> mechanism = TruncatedGeometric("1/2", quantum=1, k=3)
    >>> channel, metric = mechanism.channel, mechanism.space.metric
    >>> posterior = channel.posterior({0: "1/2", 1: "1/2"}, 0)
    >>> {x: round(float(p), 4) for x, p in posterior.items()}
    {0: 0.6225, 1: 0.3775, 2: 0.0, 3: 0.0}
    >>> known = Neighbourhood({0, 1})
    >>> known.largest_odds(channel).log(), known.holds(channel, metric, "1/2")
    (0.5, True)
    >>> known.holds(channel, metric, "1/3"), known.witness(channel, metric, "1/3")
    (False, Witness(prior={0: Fraction(1, 4), 1: Fraction(3, 4)}, event=(0,)))

Had the count been exchanged before, 0 for 1 and 2 for 3, conclusions differ by 2 epsilon d(phi) = 1 at most:

    >>> exchange = Hiding({0: 1, 1: 0, 2: 3, 3: 2}.__getitem__)
    >>> exchange.largest_odds(channel).log(), exchange.holds(channel, metric, "1/2")
    (1.0, True)

Neighbouring pairs tell all that privacy says on a line:

    >>> is_maximally_tight([Neighbourhood({i, i + 1}) for i in range(3)], channel.inputs, metric)
    True
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cmp_to_key
from itertools import combinations, permutations
from typing import Any, NamedTuple

from meteragent.privacy.channel import Channel, Distribution, Number, all_events, exp, number
from meteragent.privacy.exact import Exact, positive
from meteragent.privacy.metric import Distance, Metric, exceeds, shortest_paths

Point = Hashable
Law = Mapping[Any, Number]


class _Likely(NamedTuple):
    """How likely an output is to either of two adversaries, were the input x."""

    x: Point
    one: Number
    other: Number


class Conclusions(NamedTuple):
    """Where two adversaries with the same prior end: two laws of the input."""

    one: Law
    other: Law


class Witness(NamedTuple):
    """A prior and an event, its outputs, at which two conclusions are further apart than they may be."""

    prior: dict[Point, Fraction]
    event: tuple[Point, ...]


def odds_apart(one: Law, other: Law) -> Number | None:
    """e^d_P: the largest ratio, either way, of what two laws give a point; None where it is infinite.

    On a finite set points suffice for events (Chatzikokolakis 2013, section 2).
    """
    ratios = []
    for x in one.keys() | other.keys():
        p, q = (law.get(x, _NONE) for law in (one, other))
        if p.sign != q.sign:
            return None
        if p.sign:
            ratios.append(max(p / q, q / p))
    return max(ratios)


# Two adversaries ----------------------------------------------------------------------------------


class Comparison(ABC):
    """Two adversaries with one prior, who end with two conclusions: a `Hiding` or a `Neighbourhood`."""

    @abstractmethod
    def loss(self, points: Sequence[Point], metric: Metric) -> Distance:
        """What d-privacy lets the conclusions differ by, as d_P, at epsilon 1."""

    @abstractmethod
    def links(self, points: Sequence[Point], metric: Metric) -> Iterator[tuple[Point, Point, Distance]]:
        """Pairs of points, and the distance at which this comparison bounds the odds between them."""

    @abstractmethod
    def _events(self, channel: Channel) -> Iterable[tuple[Point, ...]]:
        """The events that have to be looked at."""

    @abstractmethod
    def _likelihoods(self, channel: Channel, event: Iterable[Point]) -> Iterator[_Likely]:
        """What either adversary weighs its prior with."""

    def conclusions(self, channel: Channel, prior: Distribution, *event: Point) -> Conclusions:
        """Return both conclusions from an event, one output or several; the prior may have any sum.

        Raises:
            TypeError: a probability of the prior is not exact.
            ValueError: the event holds what is no output or cannot occur for one of them, or a hiding
                function leaves the channel's inputs.
        """
        likely = list(self._likelihoods(channel, event))
        one = {x: p * number("a weight", prior.get(x, 0)) for x, p, _ in likely}
        other = {x: q * number("a weight", prior.get(x, 0)) for x, _, q in likely}
        return Conclusions(_normalised(one), _normalised(other))

    def largest_odds(self, channel: Channel) -> Number | None:
        """Return the supremum of `odds_apart` of both conclusions over priors and events; None if infinite.

        It is exact, and attained only where it is 1.

        Raises:
            ValueError: a hiding function, and more than 20 outputs: their events are too many.
        """
        largest = exp(0)
        for event in self._events(channel):
            if most_and_least := self._extremes(channel, event):
                (_, p, q), (_, r, s) = most_and_least
                if not q.sign * r.sign:
                    return None
                largest = max(largest, p * s / (q * r))
        return largest

    def holds(self, channel: Channel, metric: Metric, epsilon: Exact) -> bool:
        """Return whether no prior and no event take the conclusions further apart than epsilon `loss`.

        Raises:
            TypeError: epsilon is not exact.  ValueError: it is not above zero.
        """
        return self._bound(channel, metric, epsilon).admits(self.largest_odds(channel))

    def witness(self, channel: Channel, metric: Metric, epsilon: Exact) -> Witness | None:
        """Return a prior and an event that break the bound; None if it holds.

        The prior is on two points: those where the likelihoods differ the most, either way, with the
        second the more probable the closer the bound is to the supremum.

        Raises:
            TypeError: epsilon is not exact.  ValueError: it is not above zero.
        """
        bound = self._bound(channel, metric, epsilon)
        for event in self._events(channel):
            if most_and_least := self._extremes(channel, event):
                (x, p, q), (y, r, s) = most_and_least
                if bound.admits(p * s / (q * r) if q.sign * r.sign else None):
                    continue
                share = Fraction(1, 2)
                while bound.admits(odds_apart(*self.conclusions(channel, {x: share, y: 1 - share}, *event))):
                    share /= 2
                return Witness({x: share, y: 1 - share}, event)
        return None

    def _bound(self, channel: Channel, metric: Metric, epsilon: Exact) -> "_Bound":
        loss = self.loss(channel.inputs, metric)
        return _Bound(None if loss == math.inf else exp(positive("epsilon", epsilon) * Fraction(loss)))

    def _extremes(self, channel: Channel, event: Iterable[Point]) -> tuple[_Likely, _Likely] | None:
        """Where the first adversary's likelihood is greatest beside the second's, and where it is least.

        None where one of them never sees this event.
        """
        seen = [at for at in self._likelihoods(channel, event) if at.one.sign or at.other.sign]
        if not any(at.one.sign for at in seen) or not any(at.other.sign for at in seen):
            return None
        return max(seen, key=_BY_RATIO), min(seen, key=_BY_RATIO)


@dataclass(frozen=True)
class Hiding(Comparison):
    """A hiding function phi: X -> X (Chatzikokolakis 2013, section 3 and Theorem 3).

    One adversary's output comes from the input, the other's from phi of it; `loss` is 2 d(phi).
    """

    phi: Callable[[Any], Point]

    def reach(self, points: Iterable[Point], metric: Metric) -> Distance:
        """d(phi): the furthest that phi takes a point."""
        return max(metric(x, self.phi(x)) for x in points)

    def loss(self, points: Sequence[Point], metric: Metric) -> Distance:
        """2 d(phi)."""
        return 2 * self.reach(points, metric)

    def links(self, points: Sequence[Point], metric: Metric) -> Iterator[tuple[Point, Point, Distance]]:
        """The points that phi exchanges, at d(phi): there the conclusions differ by twice their |ln odds|."""
        reach = self.reach(points, metric)
        return ((x, y, reach) for x in points if (y := self.phi(x)) != x and self.phi(y) == x)

    def _events(self, channel: Channel) -> Iterable[tuple[Point, ...]]:
        """All of them: the odds of a union can exceed those of its parts, unlike those of a neighbourhood."""
        events = filter(None, all_events(channel.outputs))
        return (tuple(z for z in channel.outputs if z in event) for event in events)

    def _likelihoods(self, channel: Channel, event: Iterable[Point]) -> Iterator[_Likely]:
        seen = dict(zip(channel.inputs, channel.likelihood(event), strict=True))
        for x, likelihood in seen.items():
            if (hidden := self.phi(x)) not in seen:
                raise ValueError(f"the hiding function takes {x!r} to {hidden!r}, which is no input")
            yield _Likely(x, likelihood, seen[hidden])


@dataclass(frozen=True)
class Neighbourhood(Comparison):
    """A set N that the input is known to be in (Chatzikokolakis 2013, section 3 and Theorem 4).

    The conclusions are posterior and prior, both given N; `loss` is the diameter of N.
    """

    members: frozenset[Point]

    def loss(self, points: Sequence[Point], metric: Metric) -> Distance:  # noqa: ARG002  # of all inputs
        """d(N): the diameter."""
        return max((metric(x, y) for x, y in permutations(self.members, 2)), default=Fraction(0))

    def links(self, points: Sequence[Point], metric: Metric) -> Iterator[tuple[Point, Point, Distance]]:
        """Any two members, at d(N)."""
        diameter = self.loss(points, metric)
        return ((x, y, diameter) for x, y in permutations(self.members, 2))

    def _events(self, channel: Channel) -> Iterable[tuple[Point, ...]]:
        """Single outputs suffice: a ratio of sums is at most the largest ratio."""
        return ((output,) for output in channel.outputs)

    def _likelihoods(self, channel: Channel, event: Iterable[Point]) -> Iterator[_Likely]:
        for x, likelihood in zip(channel.inputs, channel.likelihood(event), strict=True):
            if x in self.members:
                yield _Likely(x, likelihood, exp(0))


@dataclass(frozen=True)
class _Bound:
    """The largest odds that are allowed; None: any."""

    odds: Number | None

    def admits(self, odds: Number | None) -> bool:
        return self.odds is None or (odds is not None and odds <= self.odds)


def _normalised(weights: Law) -> Law:
    total = sum(weights.values(), _NONE)
    if not total.sign:
        raise ValueError("this output cannot occur under this prior: there is nothing to conclude")
    return {x: weight / total for x, weight in weights.items()}


def _order(a: _Likely, b: _Likely) -> int:
    """Which ratio one/other is the greater; x/0 is above all."""
    return (a.one * b.other - b.one * a.other).sign


_BY_RATIO = cmp_to_key(_order)
_NONE = exp(0) - 1


# Families -----------------------------------------------------------------------------------------


def chain_metric(family: Iterable[Comparison], points: Sequence[Point], metric: Metric) -> Metric:
    """The length of the shortest chain of links between two points; infinity where there is none.

    A channel that keeps all bounds of the family is private for it; for neighbourhoods, and for no smaller
    metric: a channel keeps all bounds exactly when it is. It is at least `metric`, if that is a metric.
    """
    lengths: dict[tuple[Point, Point], Distance] = {}
    for comparison in family:
        for x, y, length in comparison.links(points, metric):
            lengths[x, y] = min(length, lengths.get((x, y), math.inf))
    chains = shortest_paths(lengths)
    return lambda x, y: Fraction(0) if x == y else chains.get(x, {}).get(y, math.inf)


def is_maximally_tight(family: Iterable[Comparison], points: Sequence[Point], metric: Metric) -> bool:
    """Whether the bounds of a family, all together, say all that d-privacy says: no chain is longer than d.

    Chatzikokolakis 2013, Definitions 2 and 3: then a channel is epsilon-d-private if (and only if) every
    bound of the family holds (Proposition 2). For neighbourhoods the condition is also needed; hiding
    functions could do without exchanges on some spaces.
    """
    chain = chain_metric(family, points, metric)
    return not any(exceeds(chain(x, y), metric(x, y)) for x, y in combinations(points, 2))
