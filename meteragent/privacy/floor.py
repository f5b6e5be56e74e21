"""Floors: lower bounds on the error of any private mechanism.

Finite and bounded spaces (Holohan 2014, on expected error). X_x is the output for x, a point of the space;
the *maximal expected error* of a sanitisation is the largest E d(x, X_x) over x. Let M be the maximal
expected error of any (epsilon, delta) sanitisation.

*Two points* at distance r have twice the floor of Theorem 6, which takes the diameter for r (THEORY T.1):
M >= r (1-delta)/(1+e^epsilon). Lemma 4, M > 0 for delta < 1, needs two points and follows from this.

*Many points* (Theorem 7). Points 0..m are pairwise at least kappa apart, and the outputs are among them. With
c = 1 - M/kappa, P(X_i = i) >= c for each i, so P(X_0 = i) >= e^-epsilon (c - delta). Together with
P(X_0 = 0) >= c these probabilities sum to at most 1, so c + m e^-epsilon (c - delta) <= 1, which is

    M >= kappa m (1-delta)/(m + e^epsilon).

The paper states Theorem 7 for outputs anywhere in the space that contains the points. This statement is
false: the centre of a triangle with sides of 1 is 0.577 from each of its corners, but the formula gives 0.664
at epsilon = 0.01. The proof's balls of radius kappa share none of the points, but overlap in the space around
the points; with balls of radius kappa/2 the proof holds.

Windows (THEORY 1.4). Let noise on R^n be epsilon d_inf-private. For every loss rho that does not decrease
with a reading's noise z, the mean loss per reading is at least that under l_inf Laplace noise,

    E rho(|z|) = E C(G/epsilon) epsilon/n,        C the integral of rho from 0, G ~ Gamma(n).

A mechanism that does not merely add noise is no better in its worst window. THEORY 1.4 and T.6 state the
limits of this, for readings in a range and on the lattice.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from meteragent.privacy.channel.exponential import Number, exp, to_number
from meteragent.privacy.channel.finite import Channel
from meteragent.privacy.exact import Exact, positive, set_fields
from meteragent.privacy.mechanism.base import make_guarantee
from meteragent.privacy.metric import Metric

OutputSet = Literal["points", "anywhere"]

# Finite and bounded spaces --------------------------------------------------------------------------


def expected_error(
    channel: Channel, metric: Metric, point: Any, query: Callable[[Any], Any] = lambda x: x
) -> Number:
    """Return E d(Q(x), X_x) at x = `point`, exactly: the sum over outputs y of P(y|x) d(Q(x), y).

    `query` is Q, whose answers the channel releases; the default is the identity (Holohan 2014, section 2.3).
    Raises ValueError if `point` is not an input, or a possible output is infinitely far from the answer.
    """
    total, truth = to_number("zero", 0), query(point)
    for output, mass in zip(channel.outputs, channel.row(point), strict=True):
        if mass != 0:
            distance = metric(truth, output)
            if not math.isfinite(distance):
                raise ValueError(
                    "the expected error is infinite: an output is infinitely far from the answer"
                )
            total += mass * Fraction(distance)
    return total


def maximal_expected_error(channel: Channel, metric: Metric) -> Number:
    """Return the largest `expected_error` (Holohan 2014, Equation 13). Raises ValueError if infinite."""
    return max(expected_error(channel, metric, x) for x in channel.inputs)


def two_point_floor(distance: Exact, epsilon: Exact, delta: Exact = 0) -> Number:
    """Return a lower bound on the maximal expected error if two points are r = `distance` apart.

        r (1-delta)/(1+e^epsilon)

    The bound holds for any (epsilon, delta) mechanism and any outputs in a space that contains both points.
    Randomised response attains it. With the diameter as the distance, it is twice the bound of Holohan 2014,
    Theorem 6. Raises ValueError if distance is not positive, epsilon is below zero, or delta is not in [0,
    1].
    """
    separation, pair = positive("distance", distance), make_guarantee(epsilon, delta)
    return separation * (1 - pair.delta) / (1 + exp(pair.epsilon))


def diameter_floor(diameter: Exact, epsilon: Exact, delta: Exact = 0) -> Number:
    """Return diam(D)/2 (1-delta)/(1+e^epsilon), half of `two_point_floor` (Holohan 2014, Theorem 6)."""
    return two_point_floor(diameter, epsilon, delta) / 2


def finite_floor(
    m: int, kappa: Exact, epsilon: Exact, delta: Exact = 0, *, outputs: OutputSet = "points"
) -> Number:
    """Return a lower bound on the maximal expected error on m+1 points, any two at least kappa apart.

        kappa m (1-delta)/(m + e^epsilon)        (Holohan 2014, Theorem 7)

    The bound holds for (epsilon, delta) mechanisms whose `outputs` are among the points; the categorical
    mechanism attains it for the discrete metric. For outputs "anywhere" in a space around the points, the
    bound is the larger of half of this value and `two_point_floor(kappa)`. Raises ValueError if m < 1, kappa
    is not positive, epsilon is below zero, or delta is not in [0, 1].
    """
    if m < 1:
        raise ValueError(f"m + 1 points must be at least two points: m must be at least 1, not {m}")
    separation, pair = positive("kappa", kappa), make_guarantee(epsilon, delta)
    floor = separation * m * (1 - pair.delta) / (m + exp(pair.epsilon))
    return floor if outputs == "points" else max(floor / 2, two_point_floor(separation, epsilon, delta))


@dataclass(frozen=True, init=False)
class WindowFloor:
    """Lower bounds on the errors of epsilon d_inf-private mechanisms on windows of n readings (THEORY 1.4).

    epsilon is in 1/unit; errors are in the unit, and squared errors in its square. The l_inf Laplace
    mechanism attains both bounds at once. The bounds hold for mechanisms that add noise on R^n, and for any
    other mechanism in its worst window. For readings in a range [0, P], a bound applies only if it is well
    below P/2, which is the error of an answer without any information. Raises ValueError if epsilon is not
    positive, or n < 1.
    """

    n: int
    epsilon: Fraction

    def __init__(self, n: int, epsilon: Exact) -> None:
        if n < 1:
            raise ValueError(f"a window needs at least one reading, not {n}")
        set_fields(self, n=n, epsilon=positive("epsilon", epsilon))

    @property
    def mean_absolute(self) -> Fraction:
        """The floor of the mean |error| of a reading: (n+1)/(2 epsilon)."""
        return (self.n + 1) / (2 * self.epsilon)

    @property
    def mean_square(self) -> Fraction:
        """The floor of the mean squared error of a reading: (n+1)(n+2)/(3 epsilon^2)."""
        return (self.n + 1) * (self.n + 2) / (3 * self.epsilon**2)
