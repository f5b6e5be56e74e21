"""From a curve to finitely many numbers: weighted means and values at times.

Theory of operation
-------------------
A functional of a curve f on [0, T] is a weighted mean L f = integral of w f; its norm is the integral of |w|,
and |L f - L g| <= norm sup|f - g|. So (L_1 f, .. L_k f) with norms of at most 1 is 1-Lipschitz from the sup
norm to d_inf: epsilon-d_inf-private noise on the k numbers, and *any* reconstruction from them, is
epsilon-private for the sup norm on all curves (THEORY 4.1; Chatzikokolakis 2013, Fact 5). Conversely a
mechanism that releases curves keeps a promise if and only if all its finite projections do (Holohan 2014,
Theorem 3 and Example 4).
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

from meteragent.privacy.exact import Exact, rational
from meteragent.privacy.metric import Metric, chebyshev
from meteragent.privacy.space import Curve, Curves
from meteragent.privacy.space.curves import Piece

Weight = tuple[Fraction, Fraction, Piece]
"""A piece of a weight: from, to, and its values there; straight between."""


@dataclass(frozen=True)
class Mean:
    """The weighted mean integral w f, with w piecewise linear and zero where no piece is.

    Raises:
        TypeError: a number is not exact.
        ValueError: a piece does not end after its start, or starts before 0.
    """

    pieces: tuple[Weight, ...]

    def __post_init__(self) -> None:
        """Refuse what has no norm: a negative length would hide what a mean may move."""
        for start, end, ends in self.pieces:
            if not 0 <= rational("start", start) < rational("end", end):
                raise ValueError(f"a piece of a weight must grow in time from 0 on: not {start} to {end}")
            for value in ends:
                rational("weight", value)

    def __call__(self, curve: Curve) -> Fraction:
        """The mean of a curve, exactly."""
        return sum((_integral(piece, curve) for piece in self.pieces), Fraction(0))

    @property
    def norm(self) -> Fraction:
        """The integral of |w|, its total variation norm: by how much a change of sup 1 may move it."""
        return sum((_absolute(end - start, *ends) for start, end, ends in self.pieces), Fraction(0))


def _integral(weight: Weight, curve: Curve) -> Fraction:
    """The integral of w f over one piece of w."""
    start, end, (first, last) = weight
    slope, total = (last - first) / (end - start), Fraction(0)
    for low, high, (a, b) in curve.restricted(start, end):
        u, v = first + slope * (low - start), first + slope * (high - start)
        total += (high - low) * (2 * a * u + a * v + b * u + 2 * b * v) / 6
    return total


def _absolute(length: Fraction, first: Fraction, last: Fraction) -> Fraction:
    """The integral of |w| where w goes straight from one value to another."""
    if first * last >= 0:
        return length * abs(first + last) / 2
    return length * (first * first + last * last) / (2 * abs(last - first))


@dataclass(frozen=True)
class Means:
    """Weighted means L_1 .. L_k of the curves on [0, T]: a query, `sensitivity` = the largest norm.

    From the sup norm to d_inf (THEORY 4.1).

    Raises:
        ValueError: no mean, one that goes beyond T, or the curves' norm is not sup.
    """

    domain: Curves
    means: tuple[Mean, ...]

    def __post_init__(self) -> None:
        if not self.means or self.domain.norm != "sup":
            raise ValueError("at least one mean, of curves under the sup norm, is needed")
        if any(end > self.domain.duration_s for mean in self.means for _, end, _ in mean.pieces):
            raise ValueError(f"a mean's weight must end at {self.domain.duration_s} s, where the curves do")

    def __call__(self, curve: Curve) -> tuple[Fraction, ...]:
        """The k numbers of a curve, exactly."""
        return tuple(mean(curve) for mean in self.means)

    @property
    def k(self) -> int:
        """How many."""
        return len(self.means)

    @property
    def metric(self) -> Metric:
        """The metric d_inf."""
        return chebyshev

    @property
    def sensitivity(self) -> Fraction:
        """By how much a change of sup 1 may move a number."""
        return max(mean.norm for mean in self.means)


def block_means(edges_s: Sequence[Exact]) -> Means:
    """The means over the k blocks between k + 1 edges, the first of them 0 and the last T.

    Raises:
        TypeError: an edge is not exact.  ValueError: fewer than two, or edges that do not grow from 0.
    """
    edges = _growing("edges_s", edges_s)
    pieces = ((low, high, (1 / (high - low),) * 2) for low, high in pairwise(edges))
    return Means(Curves(edges[-1]), tuple(Mean((piece,)) for piece in pieces))


def hat_means(knots_s: Sequence[Exact]) -> Means:
    """The means weighted by linear B-splines: at a knot most, down to nothing at its two neighbours.

    At the ends half a hat. k knots, the first of them 0 and the last T.

    Raises:
        TypeError: a knot is not exact.  ValueError: fewer than two, or knots that do not grow from 0.
    """
    knots = _growing("knots_s", knots_s)
    means = []
    for i, knot in enumerate(knots):
        before, after = knots[max(i - 1, 0)], knots[min(i + 1, len(knots) - 1)]
        top = 2 / (after - before)
        rising = (before, knot, (Fraction(0), top))
        falling = (knot, after, (top, Fraction(0)))
        means.append(Mean(tuple(piece for piece in (rising, falling) if piece[0] < piece[1])))
    return Means(Curves(knots[-1]), tuple(means))


def _growing(name: str, times: Sequence[Exact]) -> tuple[Fraction, ...]:
    exact = tuple(rational(name, t) for t in times)
    if len(exact) < 2 or exact[0] != 0 or any(t >= u for t, u in pairwise(exact)):
        raise ValueError(f"{name} must be at least two times that grow from 0")
    return exact


@dataclass(frozen=True, init=False)
class Projection:
    """The values of a curve at finitely many times: a query of sensitivity 1 from the sup norm to d_inf.

    The sets of curves with values in given sets at such times are the cylinder sets; they are an algebra that
    generates the events of C([0, T]) (Holohan 2014, Example 4). So a mechanism that releases curves keeps its
    promise if and only if its image under every projection does (Theorem 3; for any metric, THEORY 4.1).

    Raises:
        TypeError: a number is not exact.  ValueError: no time, or one outside [0, T].
    """

    domain: Curves
    times_s: tuple[Fraction, ...]

    def __init__(self, duration_s: Exact, times_s: Sequence[Exact]) -> None:
        object.__setattr__(self, "domain", Curves(duration_s))
        object.__setattr__(self, "times_s", tuple(rational("time_s", t) for t in times_s))
        if not self.times_s or not all(0 <= t <= self.domain.duration_s for t in self.times_s):
            raise ValueError(f"a projection needs times in [0, {self.domain.duration_s}]")

    def __call__(self, curve: Curve) -> tuple[Fraction, ...]:
        """The curve's values at the times."""
        return tuple(curve(t) for t in self.times_s)

    @property
    def k(self) -> int:
        """How many."""
        return len(self.times_s)

    def image(self, law: Mapping[Curve, Any]) -> dict[tuple[Fraction, ...], Any]:
        """The law of the values, of a law of finitely many curves (curve: probability)."""
        summed: defaultdict[tuple[Fraction, ...], Any] = defaultdict(int)
        for curve, probability in law.items():
            summed[self(curve)] += probability
        return dict(summed)

    @property
    def metric(self) -> Metric:
        """The metric d_inf."""
        return chebyshev

    @property
    def sensitivity(self) -> Fraction:
        """1: no value changes by more than the sup."""
        return Fraction(1)
