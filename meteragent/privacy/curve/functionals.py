"""Maps from a curve to finitely many numbers: weighted means, and values at given times.

Theory of operation
-------------------
A functional of a curve f on [0, T] is a value, L f = f(t), or a weighted mean, L f = integral of w f. Its
norm is 1 for a value and the integral of |w| for a mean, and |L f - L g| <= norm sup|f - g|. So (L_1 f, ..
L_k f) with norms of at most 1 is 1-Lipschitz from the sup norm to d_inf. Therefore the k numbers with
epsilon-d_inf-private noise, and *any* reconstruction from them, are epsilon-private for the sup norm on all
curves (THEORY 4.1; Chatzikokolakis 2013, Fact 5). Conversely, a mechanism that releases curves keeps a
promise if and only if all its finite projections keep it (Holohan 2014, Theorem 3 and Example 4).
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
"""A linear piece of a weight: its start and its end, in seconds, and the weight's values at both."""


@dataclass(frozen=True)
class Mean:
    """A weighted mean: the integral of w f, where w is piecewise linear and zero outside its pieces.

    Where pieces overlap, w is their sum.

    Raises:
        TypeError: a number is not exact.
        ValueError: a piece does not end after its start, or starts before 0.
    """

    pieces: tuple[Weight, ...]

    def __post_init__(self) -> None:
        """Check the pieces; a piece of negative length, for example, would make the norm too small."""
        for start, end, ends in self.pieces:
            if not 0 <= rational("start", start) < rational("end", end):
                raise ValueError(f"a piece of a weight must end after its start >= 0, not {start} to {end}")
            for value in ends:
                rational("weight", value)

    def __call__(self, curve: Curve) -> Fraction:
        """Return the weighted mean of a curve, exactly; the part of w beyond the curve's end is ignored."""
        return sum((_integral(piece, curve) for piece in self.pieces), Fraction(0))

    @property
    def norm(self) -> Fraction:
        """The integral of |w| (the total variation norm): the largest |mean| of a curve with sup|f| = 1.

        If pieces overlap, the norm is the sum of their integrals, which is an upper bound.
        """
        return sum((_absolute(end - start, *ends) for start, end, ends in self.pieces), Fraction(0))


def _integral(weight: Weight, curve: Curve) -> Fraction:
    """Integrate w f over one piece of w."""
    start, end, (w_start, w_end) = weight
    slope, total = (w_end - w_start) / (end - start), Fraction(0)
    for low, high, (a, b) in curve.restricted(start, end):
        u, v = w_start + slope * (low - start), w_start + slope * (high - start)
        total += (high - low) * (2 * a * u + a * v + b * u + 2 * b * v) / 6
    return total


def _absolute(length: Fraction, w_start: Fraction, w_end: Fraction) -> Fraction:
    """Integrate |w| for a w that is linear from `w_start` to `w_end`."""
    if w_start * w_end >= 0:
        return length * abs(w_start + w_end) / 2
    return length * (w_start * w_start + w_end * w_end) / (2 * abs(w_end - w_start))


@dataclass(frozen=True)
class Means:
    """The query for the weighted means L_1 .. L_k of curves on [0, T].

    Its `sensitivity`, from the sup norm of curves to d_inf, is the largest norm (THEORY 4.1).

    Raises:
        ValueError: there is no mean, a mean extends beyond T, or the curves' norm is not sup.
    """

    domain: Curves
    means: tuple[Mean, ...]

    def __post_init__(self) -> None:
        if not self.means or self.domain.norm != "sup":
            raise ValueError("give at least one mean, and curves under the sup norm")
        if any(end > self.domain.duration_s for mean in self.means for _, end, _ in mean.pieces):
            raise ValueError(f"a mean's weight must end by {self.domain.duration_s} s, where the curves end")

    def __call__(self, curve: Curve) -> tuple[Fraction, ...]:
        """Return the k means of a curve, exactly."""
        return tuple(mean(curve) for mean in self.means)

    @property
    def k(self) -> int:
        """The number of means."""
        return len(self.means)

    @property
    def metric(self) -> Metric:
        """The metric d_inf."""
        return chebyshev

    @property
    def sensitivity(self) -> Fraction:
        """The largest norm: no mean changes by more if the curve changes by 1 in the sup norm."""
        return max(mean.norm for mean in self.means)


def block_means(edges_s: Sequence[Exact]) -> Means:
    """Return the query for the means over the k blocks between k + 1 edges, which run from 0 to T.

    Raises:
        TypeError: an edge is not exact.
        ValueError: there are fewer than two edges, or they do not increase from 0.
    """
    edges = _increasing("edges_s", edges_s)
    pieces = ((low, high, (1 / (high - low),) * 2) for low, high in pairwise(edges))
    return Means(Curves(edges[-1]), tuple(Mean((piece,)) for piece in pieces))


def hat_means(knots_s: Sequence[Exact]) -> Means:
    """Return the query for k means weighted by linear B-splines, or hats, one for each of k knots.

    Each weight peaks at its knot and is 0 at the neighbouring knots. The first knot is 0 and the last is T;
    the weight of each of these two knots is half a hat.

    Raises:
        TypeError: a knot is not exact.
        ValueError: there are fewer than two knots, or they do not increase from 0.
    """
    knots = _increasing("knots_s", knots_s)
    means = []
    for i, knot in enumerate(knots):
        previous_knot, next_knot = knots[max(i - 1, 0)], knots[min(i + 1, len(knots) - 1)]
        top = 2 / (next_knot - previous_knot)
        rising = (previous_knot, knot, (Fraction(0), top))
        falling = (knot, next_knot, (top, Fraction(0)))
        means.append(Mean(tuple(piece for piece in (rising, falling) if piece[0] < piece[1])))
    return Means(Curves(knots[-1]), tuple(means))


def _increasing(name: str, times: Sequence[Exact]) -> tuple[Fraction, ...]:
    """Return `times` as Fractions. Raises ValueError unless at least two times increase from 0."""
    exact = tuple(rational(name, t) for t in times)
    if len(exact) < 2 or exact[0] != 0 or any(t >= u for t, u in pairwise(exact)):
        raise ValueError(f"{name} must be at least two times that increase from 0")
    return exact


@dataclass(frozen=True, init=False)
class Projection:
    """The query for a curve's values at finitely many times; its sensitivity from the sup norm to d_inf is 1.

    The sets of curves whose values at such times lie in given sets are the cylinder sets. They are an algebra
    that generates the events of C([0, T]) (Holohan 2014, Example 4). So a mechanism that releases curves
    keeps its promise if and only if its image under every projection does (Theorem 3; for any metric, THEORY
    4.1).

    Raises:
        TypeError: a number is not exact.
        ValueError: `duration_s` is not positive, there is no time, or a time is outside [0, T].
    """

    domain: Curves
    times_s: tuple[Fraction, ...]

    def __init__(self, duration_s: Exact, times_s: Sequence[Exact]) -> None:
        object.__setattr__(self, "domain", Curves(duration_s))
        object.__setattr__(self, "times_s", tuple(rational("time_s", t) for t in times_s))
        if not self.times_s or not all(0 <= t <= self.domain.duration_s for t in self.times_s):
            raise ValueError(f"a projection needs times in [0, {self.domain.duration_s}]")

    def __call__(self, curve: Curve) -> tuple[Fraction, ...]:
        """Return the curve's values at the times."""
        return tuple(curve(t) for t in self.times_s)

    @property
    def k(self) -> int:
        """The number of values."""
        return len(self.times_s)

    def image(self, law: Mapping[Curve, Any]) -> dict[tuple[Fraction, ...], Any]:
        """Return the distribution of a random curve's values, given that of the curve, {curve: chance}."""
        probabilities: defaultdict[tuple[Fraction, ...], Any] = defaultdict(int)
        for curve, probability in law.items():
            probabilities[self(curve)] += probability
        return dict(probabilities)

    @property
    def metric(self) -> Metric:
        """The metric d_inf."""
        return chebyshev

    @property
    def sensitivity(self) -> Fraction:
        """The sensitivity, 1: no value changes by more than the curve does in the sup norm."""
        return Fraction(1)
