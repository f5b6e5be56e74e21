"""Independent discrete Laplace noise for vectors of numbers, private under d_1 (Pauwels 2016, Prop. 5).

A vector f of n answers (counts, sums) that changes by at most Delta in d_1 between neighbours is released as
f + q z with independent z_i, P(z_i) = tanh(a/2) e^(-a|z_i|), a = epsilon q / Delta. The probability of z is
proportional to e^(-a |z|_1). So by the triangle inequality an output changes the odds between two points of
q Z^n at d_1 = d by a factor of at most e^(epsilon d/Delta), which is attained. This is the Laplace mechanism
of the metric space (q Z^n, d_1/Delta) (Chatzikokolakis 2013, Definition 6). For two numbers the space is the
plane with the Manhattan metric.

Rounding to the lattice first, by floor(x/q + 1/2), may move two points apart: numbers that differed by s
quanta differ by a whole number k of quanta afterwards, with |k| - 1 < |s|. So sum(|k_i| - 1) < d/q, and

    d_1 after rounding <= q (ceil(d/q) + n - 1),        0 for d = 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from meteragent.privacy import sampling
from meteragent.privacy.exact import Exact, not_negative
from meteragent.privacy.mechanism.whole import VectorNoise, absolute_differences, require_int64_vectors
from meteragent.privacy.space import Windows


@dataclass(frozen=True, init=False)
class VectorLaplace(VectorNoise):
    """Independent discrete Laplace noise for n numbers: (epsilon/Delta) d_1-private (Pauwels, Prop. 5).

    `sensitivity` is Delta, the largest d_1 between the answers for neighbours, in the unit of `quantum`. An
    output changes the odds between such answers by a factor of at most e^epsilon. If each person has one
    value, counts of the values have Delta = 1 (if a person is added or removed) or 2 (if a value is changed).
    Raises TypeError if n is not an int; ValueError if a parameter is not positive, or 1/a >= 2^45.
    """

    @property
    def space(self) -> Windows:
        """The lattice q Z^n with d_1."""
        return Windows(self.n, self.quantum, metric="l1")

    def loss(self, distance: Fraction) -> Fraction:
        """Return epsilon d / Delta at d_1 = `distance` on the lattice. Raises ValueError if negative."""
        return self.epsilon * not_negative("distance", distance) / self.sensitivity

    def loss_before_rounding(self, distance: Exact) -> Fraction:
        """Return a (ceil(d/q) + n - 1), 0 for d = 0: a bound for points of R^n at d_1 = d before rounding."""
        exact = not_negative("distance", distance)
        return self.a * (math.ceil(exact / self.quantum) + self.n - 1) if exact else Fraction(0)

    def release(self, points: ArrayLike, *, bits: sampling.Bits | None = None) -> NDArray[np.int64]:
        """Release points of shape (..., n), integers in quanta, as int64; each is charged."""
        source = sampling.source_of(bits)
        rows = require_int64_vectors(points, self.n)
        return rows + sampling.discrete_laplace(rows.size, self.a, source).reshape(rows.shape)

    def log_mass(self, outputs: ArrayLike, point: ArrayLike) -> NDArray[np.float64]:
        """Return ln P(y | x) = n ln tanh(a/2) - a |y-x|_1 for each y of `outputs` (..., n), x = `point`."""
        a = float(self.a)
        distance = absolute_differences(outputs, point, self.n).sum(axis=-1, dtype=np.float64)
        return np.asarray(self.n * math.log(math.tanh(a / 2)) - a * distance)

    @property
    def expected_error(self) -> float:
        """The mean distance d_1 between the output and the true point, in the unit: n q / sinh(a)."""
        return self.n * float(self.quantum) / math.sinh(self.a) if self.a < 700 else 0.0

    def largest_error(self, beta: float) -> float:
        """Return the least m q with P(max|z_i| <= m) = (1 - 2 e^(-a(m+1))/(1+e^-a))^n >= 1 - `beta`."""
        a, number_chance = float(self.a), -math.expm1(math.log1p(-_probability(beta)) / self.n)
        beyond = 2 / (1 + math.exp(-a))  # beyond * e^(-a(m+1)) is P(|z| > m)
        m = max(0, math.ceil(math.log(beyond / number_chance) / a) - 2)
        while beyond * math.exp(-a * (m + 1)) > number_chance:
            m += 1
        return float(self.quantum) * m

    def largest_error_bound(self, beta: float) -> float:
        """Return (Delta/epsilon) ln(n/beta), rounded up to q (Pauwels 2016, Proposition 6).

        Without rounding, the bound may be too small: P(|z| >= m) = 2 e^(-am)/(1+e^-a) is more than e^(-am);
        P(|z| > m) is less. For example, the noisy counts of 10,000 first names at epsilon = Delta = 1 are all
        within 13 with a probability of 95%. Raises ValueError if beta is not between 0 and 1.
        """
        quanta = math.log(self.n / _probability(beta)) / float(self.a)
        return float(self.quantum) * math.ceil(quanta)


def _probability(beta: float) -> float:
    if not 0 < beta < 1:
        raise ValueError(f"beta must lie between 0 and 1, not {beta}")
    return beta
