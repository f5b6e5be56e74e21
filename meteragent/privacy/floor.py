"""Floors: lower bounds on the error of any private mechanism.

Theory of operation
-------------------
Finite and bounded spaces (Holohan 2014, on expected error). X_x is the output for x, a point of the space;
the *maximal expected error* of a sanitisation is the largest E d(x, X_x) over x. Let M be the maximal
expected error of any (epsilon, delta) sanitisation.

*Two points* x, x' at distance r (Theorem 6: the diameter). For 0 <= s < r let B = {y: d(x, y) <= s}; in B,
d(x', y) >= r - s. With p = P(X_x not in B) and q = P(X_x' in B), 1 - p <= e^epsilon q + delta. Integrate over
s: p gives at most E d(x, X_x), because this is the integral of P(d > s), and q gives at most E d(x', X_x').
So r (1-delta) <= M + e^epsilon M. The paper uses a single ball, of radius r/2, and gets half of this bound:

    M >= r (1-delta)/(1+e^epsilon)    here;    M >= r/2 (1-delta)/(1+e^epsilon)    in Theorem 6.

Our bound is attained, on two points, by randomised response. For a metric promise, take two points at
distance t/epsilon: the floor is t/(1+e^t)/epsilon, which is largest at t = 1.2785 or, if no two points are so
far apart, at the largest distance (THEORY 1.4).

*Many points* (Theorem 7). Points 0..m are pairwise at least kappa apart, and the outputs are among them. With
c = 1 - M/kappa, P(X_i = i) >= c for each i, so P(X_0 = i) >= e^-epsilon (c - delta). Together with
P(X_0 = 0) >= c these probabilities sum to at most 1, so c + m e^-epsilon (c - delta) <= 1, which is

    M >= kappa m (1-delta)/(m + e^epsilon).

The categorical mechanism attains this bound for the discrete metric. The paper states Theorem 7 for outputs
anywhere in the space that contains the points. This statement is false: the centre of a triangle with sides
of 1 is 0.577 from each of its corners, but the formula gives 0.664 at epsilon = 0.01. The proof's balls of
radius kappa are disjoint on the points, but not in the space around them. With balls of radius kappa/2 the
proof holds for outputs anywhere, with kappa/2 in place of kappa. The floor of two points at distance kappa
holds for such outputs, too; the larger of the two bounds is the floor.

Lemma 4 states that M > 0 for delta < 1. The lemma requires a space with at least two points, and then follows
from the floor of two points.

Windows (THEORY 1.4). Let noise on R^n be epsilon d_inf-private, and let z be the noise of one reading. For
every loss rho that does not decrease with |z|, the mean loss per reading is at least that under l_inf Laplace
noise, for which |z| is Erlang(K)/epsilon with K uniform on 1..n. The largest error is stochastically no less
than Gamma(n)/epsilon. A mechanism that does not merely add noise is no better in its worst window. With C the
integral of rho from 0 and G ~ Gamma(n), the mean loss under l_inf Laplace noise is

    E rho(|z|) = E C(G/epsilon) epsilon/n,

since |z| is uniform on [0, g/epsilon] for g ~ Gamma(n+1), whose density, divided by g, is that of Gamma(n),
divided by n.
A weaker bound has a short proof: moving each z_i away from 0, by w clip(z_i/tau, -1, 1), multiplies volumes
by (1 + w/tau)^(number of |z_i| < tau) and the density by at least e^(-epsilon w). For w -> 0 that is

    sum over i of P(|z_i| < tau) <= epsilon tau.

Limits. For readings in a range [0, P] there is always an answer within P/2, so a floor above P/2 only means
that no useful release is possible. On the lattice the floor holds for |z| and z^2 in all cases that were
checked (n <= 7, `optimality.best_noise`). For n >= 3 the floor fails for the loss "1 unless exact": for a
small eta > 0, noise with probabilities ~ exp(-a (second + eta largest) / (1+eta)), where `largest` and
`second` are the largest and the second largest |z_i|, is exactly 0 in more slots, on average, than l_inf
Laplace noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from meteragent.privacy.channel.exponential import Number, exp, number
from meteragent.privacy.channel.finite import Channel
from meteragent.privacy.exact import Exact, not_negative, positive, rational
from meteragent.privacy.metric import Distance, Metric

Floats = NDArray[np.float64]
Outputs = Literal["points", "anywhere"]

_CELLS = 1 << 16


# Finite and bounded spaces --------------------------------------------------------------------------


def expected_error(
    channel: Channel, metric: Metric, point: Any, query: Callable[[Any], Any] = lambda x: x
) -> Number:
    """Return E d(Q(x), X_x) at x = `point`, exactly: the sum over outputs y of P(y|x) d(Q(x), y).

    `query` is Q, whose answers the channel releases; the default is the identity (Holohan 2014, section 2.3).

    Raises:
        ValueError: `point` is not an input, or a possible output is infinitely far from the answer.
    """
    total, truth = number("zero", 0), query(point)
    for output, mass in zip(channel.outputs, channel.row(point), strict=True):
        if mass != 0:
            total += mass * _finite(metric(truth, output))
    return total


def maximal_expected_error(channel: Channel, metric: Metric) -> Number:
    """Return the largest E d(x, X_x) over the inputs x, exactly (Holohan 2014, Equation 13).

    Raises:
        ValueError: a possible output is infinitely far from its input.
    """
    return max(expected_error(channel, metric, x) for x in channel.inputs)


def two_point_floor(distance: Exact, epsilon: Exact, delta: Exact = 0) -> Number:
    """Return a lower bound on the maximal expected error if two points are r = `distance` apart.

        r (1-delta)/(1+e^epsilon)

    The bound holds for any (epsilon, delta) mechanism and any outputs in a space that contains both points.
    Randomised response attains it. With the diameter as the distance, it is twice the bound of Holohan 2014,
    Theorem 6.

    Raises:
        TypeError: a parameter is not exact.
        ValueError: distance is not positive, epsilon is below zero, or delta is not in [0, 1].
    """
    return positive("distance", distance) * _certainty(delta) / (1 + exp(not_negative("epsilon", epsilon)))


def diameter_floor(diameter: Exact, epsilon: Exact, delta: Exact = 0) -> Number:
    """Return the bound of Holohan 2014, Theorem 6, as published: diam(D)/2 (1-delta)/(1+e^epsilon).

    The bound is half of `two_point_floor`.

    Raises:
        TypeError: a parameter is not exact.
        ValueError: diameter is not positive, epsilon is below zero, or delta is not in [0, 1].
    """
    return two_point_floor(diameter, epsilon, delta) / 2


def finite_floor(
    m: int, kappa: Exact, epsilon: Exact, delta: Exact = 0, *, outputs: Outputs = "points"
) -> Number:
    """Return a lower bound on the maximal expected error on m+1 points, any two at least kappa apart.

        kappa m (1-delta)/(m + e^epsilon)        (Holohan 2014, Theorem 7)

    The bound holds for (epsilon, delta) mechanisms whose `outputs` are among the points; the categorical
    mechanism attains it for the discrete metric. For outputs "anywhere" in a space around the points, the
    bound is the larger of half of this value and `two_point_floor(kappa)`.

    Raises:
        TypeError: a parameter is not exact.
        ValueError: m < 1, kappa is not positive, epsilon is below zero, or delta is not in [0, 1].
    """
    if m < 1:
        raise ValueError(f"m + 1 points must be at least two points: m must be at least 1, not {m}")
    separation, odds = positive("kappa", kappa), exp(not_negative("epsilon", epsilon))
    floor = separation * m * _certainty(delta) / (m + odds)
    return floor if outputs == "points" else max(floor / 2, two_point_floor(separation, epsilon, delta))


def metric_floor(epsilon: Exact, diameter: float = math.inf) -> float:
    """Return a lower bound on the maximal expected error of epsilon d-private mechanisms.

        x/(1+e^x)/epsilon,        x = min(1.2785, epsilon diameter)

    The space must be connected. The bound is the largest `two_point_floor` over pairs of points (THEORY 1.4,
    last claim): 0.2785/epsilon if the diameter is at least 1.2785/epsilon. In many spaces the bound is far
    below the least possible error; for d_inf see `WindowFloor`.

    Raises:
        TypeError: epsilon is not exact.  ValueError: epsilon is not positive.
    """
    level = float(positive("epsilon", epsilon))
    x = min(_BEST_LEVEL, level * diameter)
    return x / (1 + math.exp(x)) / level


_BEST_LEVEL = 1.2784645427610738  # the x with x = 1 + e^-x, at which x/(1+e^x) is largest


def _certainty(delta: Exact) -> Fraction:
    """Return 1 - delta."""
    exact = rational("delta", delta)
    if not 0 <= exact <= 1:
        raise ValueError(f"delta must lie in [0, 1], not {exact}")
    return 1 - exact


def _finite(distance: Distance) -> Fraction:
    if not math.isfinite(distance):
        raise ValueError("the expected error is infinite: an output is infinitely far from the answer")
    return Fraction(distance)


# Windows --------------------------------------------------------------------------------------------


@dataclass(frozen=True, init=False)
class WindowFloor:
    """Lower bounds on the errors of epsilon d_inf-private mechanisms on windows of n readings (THEORY 1.4).

    epsilon is in 1/unit; errors are in the unit, and squared errors in its square. The l_inf Laplace
    mechanism attains all of these bounds at once, except `within`. The bounds hold for mechanisms that add
    noise on R^n, and for any other mechanism in its worst window. For readings in a range [0, P], a bound
    applies only if it is well below P/2, which is the error of an answer without any information.

    Raises:
        TypeError: epsilon is not exact.  ValueError: epsilon is not positive, or n < 1.
    """

    n: int
    epsilon: Fraction

    def __init__(self, n: int, epsilon: Exact) -> None:
        if n < 1:
            raise ValueError(f"a window needs at least one reading, not {n}")
        object.__setattr__(self, "n", n)
        object.__setattr__(self, "epsilon", positive("epsilon", epsilon))

    @property
    def mean_absolute(self) -> Fraction:
        """The floor of the mean |error| of a reading: (n+1)/(2 epsilon)."""
        return (self.n + 1) / (2 * self.epsilon)

    @property
    def mean_square(self) -> Fraction:
        """The floor of the mean squared error of a reading: (n+1)(n+2)/(3 epsilon^2)."""
        return (self.n + 1) * (self.n + 2) / (3 * self.epsilon**2)

    @property
    def largest(self) -> Fraction:
        """The floor of the mean of the largest |error| of a window: n/epsilon."""
        return self.n / self.epsilon

    def mean_loss(self, loss: Callable[[Floats], Floats]) -> float:
        """Compute the floor of the mean of loss(|error|), for any loss that does not decrease with |error|.

        `loss` takes an array of values of |error|, in the unit. The relative error of the result is at most
        1e-5 for |error|^p with p from 1/2 to 10. If the loss jumps, the position of the jump is accurate to
        (n + 40 + sqrt(1600 + 80 n)) / (2^17 epsilon): 1e-3/epsilon for n = 20, 0.014/epsilon for n = 1440.
        """
        n, epsilon = self.n, float(self.epsilon)
        low, high = max(0.0, n - math.sqrt(80 * n)), n + 40 + math.sqrt(1600 + 80 * n)
        step = high / _CELLS
        g: Floats = (np.arange(_CELLS, dtype=np.float64) + 0.5) * step
        rho = loss(g / epsilon)
        integral = (np.cumsum(rho) - rho / 2) * step
        inside = g > low
        log_weight = (n - 1) * np.log(g[inside]) - g[inside]
        weight = np.exp(log_weight - log_weight.max())
        return float(np.sum(integral[inside] * weight) / np.sum(weight)) / n

    def within(self, reach: Exact) -> Fraction:
        """Return an upper bound on the mean number of a window's readings whose |error| is below `reach`.

        The bound is epsilon reach, or n if that is less; the module's docstring has its short proof.

        Raises:
            TypeError: reach is not exact.  ValueError: reach is not positive.
        """
        return min(Fraction(self.n), self.epsilon * positive("reach", reach))

    @staticmethod
    def longest(epsilon: Exact, error: Exact) -> int:
        """Return the number of readings in the longest window whose mean |error| can be at most `error`.

        The length is floor(2 epsilon error) - 1, or 0 if that is negative. If `error` is half the range of
        the readings, longer windows are no more useful than an answer without information.

        Raises:
            TypeError: a parameter is not exact.  ValueError: a parameter is not positive.
        """
        return max(0, math.floor(2 * positive("epsilon", epsilon) * positive("error", error)) - 1)
