"""How well releases can be distinguished: the pairs of Laplace distributions that dominate (THEORY 5.1, 7).

Let M be an epsilon d-private mechanism, and let x and x' be two points, with the loss X = epsilon d(x, x')
between them. If they are joined by a path of small steps whose lengths add up to d(x, x') (as in R^n under
d_inf, and for curves under the sup norm), the pair (M(x), M(x')) is *dominated* by (Lap(0, 1), Lap(X, 1)):
one random map turns the first Laplace distribution into M(x) and the second into M(x'). So whatever can be
inferred from an output can be inferred from the Laplace pair. On the lattice, where a step is a quantum with
loss a, the dominating pair consists of two discrete Laplace distributions k quanta apart, with the loss a(k -
2z) at

    P(z) = tanh(a/2) e^(-az), but 1/(1+e^-a) at 0 and e^(-ak)/(1+e^-a) at k;     Q(z) = P(k - z),

z = 0..k, where outputs beyond 0 or k belong to the ends. At an epsilon between two losses, a lattice has a
slightly larger delta than the limit of fine lattices. The product of the pairs dominates an adaptive sequence
of releases.

With L = ln(P/Q) and r = e^(-a(1+2s)), the moments are

    ln E_P e^(sL) = sX + ln(1 + e^-a (e^(-2as) - 1) (1 - r^k) / ((1 - r)(1 + e^-a))).

Each moment is s times the Renyi divergence of order 1+s; the slope at s = 0 is the KL divergence.

For example, two load curves are 220 W apart in a window of level 1 at 220 W, on whole watts. For any test
that distinguishes them, the chances of a false alarm and of a miss sum to at least `risk`. With a false-alarm
probability of 0.05, the power of the test is at most `power(0.05)`:

    >>> from meteragent.privacy import LatticePair, error_bounds
    >>> pair = LatticePair("1/220", 220)
    >>> pair.loss, round(pair.risk, 4), round(pair.power(0.05), 4)
    (Fraction(1, 1), 0.6065, 0.1359)
    >>> [round(bound, 4) for bound in error_bounds(1)]
    [0.2929, 0.5193, 0.5379, 0.6065]

Many windows: the product of their pairs dominates any adaptive sequence of releases, and Renyi divergences
add up. For the least epsilon at a delta, give the sums to an accountant, such as dp-accounting. It can also
compose the lattice pair, as a discrete Laplace mechanism with the parameter a and the sensitivity k.

    >>> [round(17520 * pair.rdp(order)) for order in (1.5, 2, 4)]
    [8986, 10847, 14256]
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from meteragent.privacy.exact import Exact, positive, set_fields


@dataclass(frozen=True, init=False)
class LatticePair:
    """The pair of discrete Laplace distributions k quanta apart, dominant on the lattice (THEORY 5.1, 7).

    With the quantum q and the distance d, `a` = epsilon q is exact and positive, and `k` >= 0 is ceil(d/q).
    With k = 1 the pair dominates any a-private pair. Raises ValueError if `a` is not positive, or `k` is
    negative.
    """

    a: Fraction
    k: int
    loss: Fraction = field(repr=False, compare=False)
    """The loss X = a k."""

    def __init__(self, a: Exact, k: int) -> None:
        if k < 0:
            raise ValueError(f"a distance must not be negative: {k} quanta")
        set_fields(self, a=positive("a", a), k=int(k))
        object.__setattr__(self, "loss", self.a * self.k)

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

        B(q) is piecewise linear: min over j = 0..k of e^(a(k-2j)) q + 1 - e^(-aj). For k = 1 it is min(e^a q,
        1 - e^-a (1-q)); for larger k it is this function applied k times. Raises ValueError if q is not
        between 0 and 1.
        """
        q, a, x = _probability(false_alarm), float(self.a), float(self.loss)
        if q == 0:
            return 0.0
        j = min(max(math.floor((x + math.log(2 * q)) / a), 0), self.k)
        return min(_tangent(q, x, a * j), _tangent(q, x, a * min(j + 1, self.k)))

    def rdp(self, order: float) -> float:
        """Return the Renyi divergence, `kl` at order 1 and X at infinity. Raises ValueError if order < 1."""
        if not order >= 1:
            raise ValueError(f"the order must be at least 1, not {order}")
        if order == 1:
            return self.kl
        return float(self.loss) if math.isinf(order) else self.moment(order - 1) / (order - 1)

    def moment(self, s: float) -> float:
        """Return the logarithm of E_P e^(sL) by the formula in the module's docstring."""
        a, x, c = float(self.a), float(self.loss), 2 * s + 1
        scale = math.expm1(-c * x) / math.expm1(-c * a) * math.exp(-a) / (1 + math.exp(-a))
        return s * x + math.log1p(math.expm1(-2 * a * s) * scale)


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
    below 0. Raises ValueError if `loss` is not positive.
    """
    pure = LatticePair(loss, 1)
    pauwels, pinsker = (1 - math.sqrt(kl / 2) for kl in (float(pure.loss), pure.kl))
    return ErrorBounds(max(0.0, pauwels), max(0.0, pinsker), pure.risk, math.exp(-pure.loss / 2))
