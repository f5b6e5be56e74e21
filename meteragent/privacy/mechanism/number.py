"""Noise on numbers: each point of q Z, in whole quanta, gets independent discrete Laplace noise.

    output = x + z,        P(z) = tanh(a/2) e^(-a|z|)

This is the Laplace mechanism of the metric space q Z (Chatzikokolakis 2013, Definition 6 and Fact 7 for d =
|x - y|). With a = epsilon q it is epsilon d-private. This mechanism is `LInfLaplace` for windows of one slot.

`TruncatedGeometric` clips the output to 0 .. k, which costs no privacy: it is epsilon d-private on q [0 .. k]
(Chatzikokolakis 2013, Figure 2(iv)). The mass beyond each end is added to that end (THEORY 2.4), so

    P(y | x) = lambda(y) e^(-a|y-x|),    lambda = e^a/(e^a+1) at the ends, (e^a-1)/(e^a+1) = tanh(a/2) inside.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from meteragent.privacy import sampling
from meteragent.privacy.channel import Channel, exp
from meteragent.privacy.exact import Exact, set_fields
from meteragent.privacy.mechanism.laplace import LInfLaplace
from meteragent.privacy.mechanism.whole import require_int64
from meteragent.privacy.space import Numbers


@dataclass(frozen=True, init=False)
class Laplace:
    """The Laplace mechanism on the numbers q Z: it is epsilon |x - y|-private, with epsilon in 1/unit.

    `epsilon` and `quantum` (in the unit) are exact. The distribution of the noise, in quanta, depends only on
    a = epsilon * quantum. The distribution is that of `LInfLaplace` for n = 1, but points are single numbers,
    not windows. Raises ValueError if a parameter is not positive, or 1/a >= 2^45.
    """

    epsilon: Fraction
    quantum: Fraction

    def __init__(self, epsilon: Exact, quantum: Exact) -> None:
        exact = LInfLaplace(epsilon, quantum, 1)
        set_fields(self, epsilon=exact.epsilon, quantum=exact.quantum)

    @property
    def a(self) -> Fraction:
        """The privacy loss of one quantum, epsilon q."""
        return self.epsilon * self.quantum

    @property
    def space(self) -> Numbers:
        """The space q Z."""
        return Numbers(None, None, self.quantum)

    @property
    def expected_error(self) -> float:
        """The mean distance of the output from the true value, in the unit: E|q z| = q/sinh(a)."""
        a = float(self.a)  # math.sinh overflows if a > 710
        return float(self.quantum) * 2 * math.exp(-a) / -math.expm1(-2 * a)

    def loss(self, distance: Fraction) -> Fraction:
        """Return epsilon q ceil(d/q) for the distance before rounding. Raises ValueError if negative."""
        return LInfLaplace(self.epsilon, self.quantum, 1).loss(distance)

    def release(self, points: ArrayLike, *, bits: sampling.Bits | None = None) -> NDArray[np.int64]:
        """Release integers in quanta, in an array of any shape, each with its own noise, as int64."""
        source = sampling.source_of(bits)
        numbers = require_quanta(points, self.space)
        noisy = numbers.ravel() + sampling.discrete_laplace(numbers.size, self.a, source)
        return noisy.reshape(numbers.shape)

    def log_mass(self, outputs: ArrayLike, point: int) -> NDArray[np.float64]:
        """Return ln P(y | x) = ln tanh(a/2) - a|y-x| for each y of `outputs` and x = `point`, in quanta."""
        y, x = require_quanta(outputs, self.space), require_quanta(point, self.space)
        a, distance = float(self.a), np.abs(y - x)
        # The distance of 2^62 from -2^62 is 2^63, which overflows int64 but fits into uint64.
        mass: NDArray[np.float64] = math.log(math.tanh(a / 2)) - a * distance.view(np.uint64)
        return mass


@dataclass(frozen=True, init=False)
class TruncatedGeometric:
    """Discrete Laplace noise on the numbers 0, q .. kq, clipped to this range: epsilon |x - y|-private.

    The module's docstring has P(y | x) (Chatzikokolakis 2013, Figure 2(iv) with THEORY 2.4's correction).
    After a uniformly sensitive query whose answers are 0, q .. kq, it is optimal: no equally private
    mechanism on the answers is better for any Bayesian user whose loss grows with the distance (Theorems 8
    and 10). Counts under d_h, and sums, percentiles and *rounded* averages under d_1, are such queries; for
    other averages see `query.average`. Raises TypeError if epsilon or quantum is not exact, or k is not an
    int; ValueError if a parameter is not positive, or 1/(epsilon * quantum) >= 2^45.
    """

    noise: Laplace
    k: int

    def __init__(self, epsilon: Exact, quantum: Exact, k: int) -> None:
        if not isinstance(k, int):
            raise TypeError(f"k must be an int, not {type(k).__name__}")
        if k < 1:
            raise ValueError(f"k must be at least 1, not {k}")
        set_fields(self, noise=Laplace(epsilon, quantum), k=k)

    @property
    def space(self) -> Numbers:
        """The space of the numbers 0, q .. kq."""
        return Numbers(0, self.k, self.noise.quantum)

    def loss(self, distance: Fraction) -> Fraction:
        """Return the loss of the noise at `distance`. Clipping is post-processing, which adds none."""
        return self.noise.loss(distance)

    def expected_error(self, point: int) -> float:
        """Return the mean distance, in the unit, of the output from x = `point`, which is in quanta.

            q (2 - alpha^x - alpha^(k-x)) / (2 sinh a),        alpha = e^-a

        This mean is q times the sum of P(z <= -j) over j = 1 .. x and of P(z >= j) over j = 1 .. k-x. Each of
        these probabilities is alpha^j/(1+alpha).
        """
        a = float(self.noise.a)
        negative = math.expm1(-a * point) + math.expm1(-a * (self.k - point))
        return -negative / 2 * self.noise.expected_error

    @property
    def channel(self) -> Channel:
        """The mechanism's exact matrix, whose rows and columns are 0 .. k."""
        values = range(self.k + 1)
        inside = (1 - exp(-self.noise.a)) / (1 + exp(-self.noise.a))
        weights = [1 / (1 + exp(-self.noise.a)) if y in (0, self.k) else inside for y in values]
        rows = ([weights[y] * exp(-self.noise.a * abs(y - x)) for y in values] for x in values)
        return Channel(values, values, rows)

    def release(self, points: ArrayLike, *, bits: sampling.Bits | None = None) -> NDArray[np.int64]:
        """Release integers 0 .. k, in an array of any shape, each with its own noise, as int64."""
        noisy = self.noise.release(require_quanta(points, self.space), bits=bits)
        return np.clip(noisy, 0, self.k, out=noisy)

    def log_mass(self, outputs: ArrayLike, point: int) -> NDArray[np.float64]:
        """Return ln P(y | x) for each y of `outputs` and x = `point`, in quanta; -inf outside 0 .. k."""
        y, a = require_quanta(outputs, self.noise.space), float(self.noise.a)
        inner = self.noise.log_mass(y, int(require_quanta(point, self.space)))
        # Clipping adds the mass beyond an end to the end: a factor (e^a/(e^a+1)) / tanh(a/2) = 1/(1 - e^-a).
        end_excess = -math.log(-math.expm1(-a))
        return np.select(
            [(y < 0) | (y > self.k), (y == 0) | (y == self.k)], [-np.inf, inner + end_excess], inner
        )


def require_quanta(points: ArrayLike, space: Numbers) -> NDArray[np.int64]:
    """Return points of `space`, whole quanta, as int64. Raises TypeError or ValueError for anything else."""
    values = require_int64(points)
    if values.size and not (int(values.min()) in space and int(values.max()) in space):
        raise ValueError(f"a value is not in {space.low} .. {space.high}, in quanta")
    return values
