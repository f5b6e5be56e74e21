"""The pairs of Laplace distributions that dominate the outputs of metric mechanisms (THEORY 5.1, 7).

Theory of operation
-------------------
Let M be an epsilon d-private mechanism, and let x and x' be two points, with the loss X = epsilon d(x, x')
between them. If x and x' are joined by a path of small steps whose lengths add up to d(x, x') (as in R^n
under d_inf, and for curves under the sup norm), the pair of distributions (M(x), M(x')) is *dominated* by
(Lap(0, 1), Lap(X, 1)): one random map turns the first Laplace distribution into M(x) and the second into
M(x'). So everything that can be inferred from an output can also be inferred from the Laplace pair. On the
lattice, where a step is a quantum with loss a, the dominating pair consists of two discrete Laplace
distributions that are k quanta apart, as the points are (THEORY 5.1). With k = 1 the pair is that of
randomised response, which dominates every pair of distributions of any a-private mechanism. No divergence or
power defined below is larger for a dominated pair, and an adaptive sequence of releases is dominated by the
product of the pairs.

The pair k quanta apart (THEORY 7) has the loss ln(P/Q) = a(k - 2z) at z = 0..k. Outputs below 0 have the same
loss as 0 and count as 0; outputs above k count as k:

    P(z) = tanh(a/2) e^(-az), but 1/(1+e^-a) at 0 and e^(-ak)/(1+e^-a) at k;     Q(z) = P(k - z).

delta(epsilon') = 1 - e^((epsilon'-X)/2) at these losses, with X = ak, and is linear in e^epsilon' between
them. The limit of fine lattices is the continuous pair, for which the formula holds everywhere from -X to X.
So between its losses a lattice has a slightly larger delta than the limit, and delta does not rise if the
lattice is made twice as fine. The total variation distance TV is delta(0), and the power of the most powerful
test is B(q) = min over losses l of e^l q + delta(l).

With L = ln(P/Q) and r = e^(-a(1+2s)), the moments are

    ln E_P e^(sL) = sX + ln(1 + e^-a (e^(-2as) - 1) (1 - r^k) / ((1 - r)(1 + e^-a))).

They are s times the Renyi divergence of order 1+s. Their first derivative at s = 0, the Kullback-Leibler
divergence KL, is also the zCDP parameter. Proof: up to a factor, the measure sqrt(PQ) of L has the generating
function w^k + (1-e^-a)(w^(k-1) + .. + w) + 1 = (w^k (w - e^-a) - (1 - e^-a w)) / (w - 1). It has zeros only
on the unit circle, because |w^k (w - e^-a)| is below |1 - e^-a w| inside the circle and above it outside. So
E_P e^(sL) is a constant times the product of 1 + (s+1/2)^2 / t_i^2, t_i real. Its logarithm is concave in
(s+1/2)^2 and lies below its tangent at s = 0, which is KL s(s+1). So the Renyi divergence of order alpha is
at most alpha KL.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from meteragent.privacy.exact import Exact, positive, rational

Floats = NDArray[np.float64]


class Pair(Protocol):
    """Distributions P and Q, symmetric under exchange, and measures of how well they can be told apart."""

    @property
    def loss(self) -> Fraction:
        """The loss X, the largest ln(P/Q)."""
        ...

    @property
    def kl(self) -> float:
        """The Kullback-Leibler divergence E_P ln(P/Q); also the least rho of zCDP."""
        ...

    def moment(self, s: float) -> float:
        """Return the logarithm of E_P e^(sL), L = ln(P/Q), for s >= 0."""
        ...

    def lattice(self, points: int) -> LatticePair:
        """Return a lattice pair of about `points` points or fewer that dominates this pair."""
        ...


class _Divergences:
    """The divergence that both kinds of pair derive from their moments."""

    def rdp(self: Pair, order: float) -> float:
        """Return the Renyi divergence of an `order` >= 1; at order 1 it is KL, and at infinity it is X.

        Raises:
            ValueError: the order is below 1.
        """
        if not order >= 1:
            raise ValueError(f"the order must be at least 1, not {order}")
        if order == 1:
            return self.kl
        return float(self.loss) if math.isinf(order) else self.moment(order - 1) / (order - 1)


@dataclass(frozen=True, init=False)
class LaplacePair(_Divergences):
    """The pair (Lap(0, 1), Lap(X, 1)), dominant for points that are joined by a path (THEORY 5.1).

    `loss` is X = epsilon d >= 0, exact. On R^n the l_inf Laplace mechanism attains the pair along every sign
    vector.

    Raises:
        TypeError: `loss` is not exact.  ValueError: it is negative.
    """

    loss: Fraction

    def __init__(self, loss: Exact) -> None:
        exact = rational("loss", loss)
        if exact < 0:
            raise ValueError(f"a loss must not be negative: {exact}")
        object.__setattr__(self, "loss", exact)

    @property
    def risk(self) -> float:
        """The sum of the two error probabilities of the best test, 1 - TV = e^(-X/2)."""
        return math.exp(-self.loss / 2)

    @property
    def total_variation(self) -> float:
        """The total variation distance, 1 - e^(-X/2)."""
        return -math.expm1(-self.loss / 2)

    @property
    def kl(self) -> float:
        """The Kullback-Leibler divergence X + e^-X - 1; also the least rho of zCDP."""
        return float(self.loss) + math.expm1(-self.loss)

    def delta(self, epsilon: float) -> float:
        """Return the hockey-stick divergence sup_A P(A) - e^epsilon Q(A).

        For |epsilon| <= X it is 1 - e^((epsilon-X)/2), above X it is 0, and below -X it is 1 - e^epsilon.
        """
        x = float(self.loss)
        return -math.expm1(epsilon) if epsilon < -x else -math.expm1(min(0.0, (epsilon - x) / 2))

    def power(self, false_alarm: float) -> float:
        """Return B(q), the largest P(A) over the events A with Q(A) = q = `false_alarm`.

        B(q) is q e^X for q <= e^-X / 2, then 1 - e^-X / (4q) up to q = 1/2, and 1 - (1-q) e^-X for larger q
        (Neyman and Pearson).

        Raises:
            ValueError: q is not between 0 and 1.
        """
        q, x = _probability(false_alarm), float(self.loss)
        if q == 0:
            return 0.0
        return _tangent(q, x, min(max(x + math.log(2 * q), 0.0), x))

    def moment(self, s: float) -> float:
        """Return the logarithm of E_P e^(sL): sX + ln(1 - s (1 - e^(-(2s+1)X)) / (2s+1))."""
        x = float(self.loss)
        return s * x + math.log1p(s / (2 * s + 1) * math.expm1(-(2 * s + 1) * x))

    def lattice(self, points: int) -> LatticePair:
        """Return the pair with this loss on a lattice of `points` steps, which dominates this pair."""
        return LatticePair(self.loss / points if self.loss else 1, points if self.loss else 0)


@dataclass(frozen=True, init=False)
class LatticePair(_Divergences):
    """The pair of discrete Laplace distributions k quanta apart, dominant on the lattice (THEORY 5.1, 7).

    With the quantum q and the distance d, `a` = epsilon q is exact and positive, and `k` >= 0 is ceil(d/q).
    With k = 1 the pair dominates any a-private pair.

    Raises:
        TypeError: `a` is not exact.  ValueError: `a` is not positive, or `k` is negative.
    """

    a: Fraction
    k: int

    def __init__(self, a: Exact, k: int) -> None:
        if k < 0:
            raise ValueError(f"a distance must not be negative: {k} quanta")
        object.__setattr__(self, "a", positive("a", a))
        object.__setattr__(self, "k", int(k))

    @cached_property
    def loss(self) -> Fraction:
        """The loss X = a k."""
        return self.a * self.k

    @property
    def risk(self) -> float:
        """The sum of the best test's two error probabilities: e^(-X/2), or e^(-X/2)/cosh(a/2) for odd k."""
        a = float(self.a)
        return math.exp(-self.loss / 2) * (2 * math.exp(-a / 2) / (1 + math.exp(-a)) if self.k % 2 else 1)

    @property
    def total_variation(self) -> float:
        """The total variation distance: 1 - e^(-X/2), or 1 - 2 e^(-a(k+1)/2) / (1 + e^-a) for odd k."""
        return 1 - self.risk if self.k % 2 else -math.expm1(-self.loss / 2)

    @property
    def kl(self) -> float:
        """The Kullback-Leibler divergence X - (1 - e^-X) a / sinh a; also the least rho of zCDP."""
        a, x = float(self.a), float(self.loss)
        return x + math.expm1(-x) * 2 * a * math.exp(-a) / -math.expm1(-2 * a)

    def delta(self, epsilon: float) -> float:
        """Return the hockey-stick divergence sup_A P(A) - e^epsilon Q(A).

        The best A is z <= j, j = floor((X - epsilon) / 2a), so for |epsilon| < X the divergence is
        1 - (e^(-a(j+1)) + e^(epsilon - a(k-j))) / (1 + e^-a). For epsilon >= X it is 0, and for epsilon <= -X
        it is 1 - e^epsilon.
        """
        a, excess = float(self.a), float(self.loss) - epsilon
        if not 0 < excess < 2 * self.loss:
            return -math.expm1(epsilon) if excess > 0 else 0.0
        j = min(math.floor(excess / (2 * a)), self.k - 1)
        negative = math.expm1(-a * (j + 1)) - math.expm1(-a) + math.expm1(a * j - excess)
        return max(0.0, -negative / (1 + math.exp(-a)))

    def power(self, false_alarm: float) -> float:
        """Return B(q), the largest P(A) over the events A with Q(A) = q = `false_alarm`.

        B(q) is piecewise linear: min over j = 0..k of e^(a(k-2j)) q + 1 - e^(-aj). For k = 1 it is
        min(e^a q, 1 - e^-a (1-q)); for larger k it is this function applied k times.

        Raises:
            ValueError: q is not between 0 and 1.
        """
        q, a, x = _probability(false_alarm), float(self.a), float(self.loss)
        if q == 0:
            return 0.0
        j = min(max(math.floor((x + math.log(2 * q)) / a), 0), self.k)
        return min(_tangent(q, x, a * j), _tangent(q, x, a * min(j + 1, self.k)))

    def moment(self, s: float) -> float:
        """Return the logarithm of E_P e^(sL) by the formula in the module's docstring."""
        a, x, c = float(self.a), float(self.loss), 2 * s + 1
        scale = math.expm1(-c * x) / math.expm1(-c * a) * math.exp(-a) / (1 + math.exp(-a))
        return s * x + math.log1p(math.expm1(-2 * a * s) * scale)

    def masses(self) -> Floats:
        """Return P(z) for z = 0..k; the loss at z is a (k - 2z)."""
        a = float(self.a)
        mass = math.tanh(a / 2) * np.exp(-a * np.arange(self.k + 1))
        mass[0], mass[-1] = 1 / (1 + math.exp(-a)), math.exp(-self.loss) / (1 + math.exp(-a))
        return mass if self.k else np.ones(1)

    def lattice(self, points: int) -> LatticePair:
        """Return this pair or, if k exceeds `points`, a pair in steps of several quanta, rounded up."""
        c = -(-self.k // points) or 1
        return LatticePair(self.a * c, -(-self.k // c))


def _probability(value: float) -> float:
    if not 0 <= value <= 1:
        raise ValueError(f"a probability must lie between 0 and 1, not {value}")
    return value


def _tangent(q: float, x: float, t: float) -> float:
    """Return the value at q > 0 of the tangent of B with slope e^(x - 2t)."""
    return math.exp(math.log(q) + x - 2 * t) - math.expm1(-t)


class ErrorBounds(NamedTuple):
    """Four lower bounds on the sum of the two error probabilities of any test (THEORY 7)."""

    pauwels: float
    pinsker: float
    pure: float
    metric: float


def error_bounds(loss: Exact) -> ErrorBounds:
    """Return lower bounds on P(false alarm) + P(miss) for any test between two points at `loss` = epsilon d.

    `pauwels`: 1 - sqrt(loss/2) (Pauwels 2016, Proposition 2). `pinsker`: Pinsker's inequality with the
    largest KL of a pure mechanism, which is loss tanh(loss/2). `pure`: 1 - tanh(loss/2), tight for pure
    differential privacy (randomised response attains it). `metric`: e^(-loss/2), tight for metric privacy on
    R^n (the Laplace mechanism attains it); the bound on the lattice is `LatticePair(a, k).risk`. No bound is
    below 0.

    Raises:
        TypeError: `loss` is not exact.  ValueError: it is not positive.
    """
    pure, metric = LatticePair(loss, 1), LaplacePair(loss)
    pauwels, pinsker = (1 - math.sqrt(kl / 2) for kl in (float(pure.loss), pure.kl))
    return ErrorBounds(max(0.0, pauwels), max(0.0, pinsker), pure.risk, metric.risk)
