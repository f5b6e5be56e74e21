"""Noise for points of the plane: planar Laplace for d_2, and two Laplace numbers for d_1.

These are the Laplace mechanisms of (R^2, d_2) and (R^2, d_1) (Chatzikokolakis 2013, Definition 6, section
6.2) on the lattice q Z^2. With a = epsilon q, the noise z, in quanta, has the distribution

    P(z) = e^(-a |z|_2) / C(a),        C(a) = sum over Z^2 of e^(-a |z|_2),

and by the triangle inequality the output, x + q z, is exactly epsilon d_2-private on q Z^2. Outputs on the
line through two points, but not between them, attain the bound. `PlanarManhattan` uses |z|_1 instead, so that
the two coordinates of z are independent discrete Laplace numbers.

Rounding points of R^2 to the lattice first, each coordinate by floor(x/q + 1/2), may move two points apart:
a coordinate difference of s quanta becomes an integer k with |k| < |s| + 1. So d_2 grows by less than
sqrt2 q, with sqrt2 < 99/70 (for d_1 see `vector`).

With r = |z|_2, sums over the lattice are computed directly for a >= 1/20. For smaller a, the Poisson
summation formula is used: the sum of e^(-ar) over Z^2 equals the sum of its Fourier transform,
2 pi a/(a^2 + 4 pi^2 r^2)^(3/2). The term at 0, 2 pi/a^2, is the integral of e^(-ar) over the plane. Expanding
the other terms in a gives values of the Epstein zeta function,
Z(s) = sum over z != 0 of |z|_2^(-2s) = 4 zeta(s) beta(s), with Dirichlet's beta:

    C(a) = 2 pi/a^2 + a Z(3/2)/(4 pi^2) - 3 a^3 Z(5/2)/(32 pi^4) + ..

The next term is below 2e-14 times C. The sum of r e^(-ar) is -C'(a).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from meteragent.privacy import sampling
from meteragent.privacy.exact import Exact, not_negative, positive, set_fields
from meteragent.privacy.mechanism.vector import VectorLaplace
from meteragent.privacy.mechanism.whole import absolute_differences, require_int64_vectors
from meteragent.privacy.space import Windows

_ROOT_2_ABOVE = Fraction(99, 70)
_DIRECT = 1 / 20  # the least a for which the sum over the lattice, of (45/a)^2 terms, is computed directly
_SLACK = 1e-12  # bounds the relative error of distances as floats
_END = 45.0  # a direct sum has all terms with a r up to this; the tail beyond weighs less than 1e-17
_FIRST = 9.03362168310095 / (4 * math.pi**2)  # Z(3/2)
_SECOND = -3 * 5.090258233665483 / (32 * math.pi**4)  # Z(5/2)


class _Sums(NamedTuple):
    """The normaliser C(a), and the mean of |z|_2."""

    normaliser: float
    mean: float


@lru_cache(maxsize=64)
def _sums(a: float) -> _Sums:
    """Compute C(a) and the mean of |z|_2, directly or by the series of the module's docstring."""
    if a >= _DIRECT:
        r = _quarter(a)
        weight = np.exp(-a * r)
        normaliser = 1 + 4 * float(weight.sum())
        return _Sums(normaliser, 4 * float((r * weight).sum()) / normaliser)
    normaliser = 2 * math.pi / a**2 + _FIRST * a + _SECOND * a**3
    slope = -4 * math.pi / a**3 + _FIRST + 3 * _SECOND * a**2
    return _Sums(normaliser, -slope / normaliser)


def _quarter(a: float) -> NDArray[np.float64]:
    """Return |z|_2 for z_1 > 0, z_2 >= 0: a quarter of the lattice, whose rotations cover all but 0."""
    reach = math.ceil(_END / a) + 1
    return np.asarray(np.hypot(np.arange(1.0, reach)[:, np.newaxis], np.arange(0.0, reach)))


@dataclass(frozen=True, init=False)
class PlanarLaplace:
    """The planar Laplace mechanism: epsilon d_2-private on q Z^2, epsilon in 1/unit.

    For locations, `quantum` is the step of the grid in metres. With epsilon = level / radius, an output
    changes the odds between two places at most `radius` metres apart by a factor of at most e^level
    (Chatzikokolakis 2013, section 6.2). Raises ValueError if a parameter is not positive, or 10/a >= 2^45 for
    a = epsilon * quantum.
    """

    epsilon: Fraction
    quantum: Fraction

    def __init__(self, epsilon: Exact, quantum: Exact) -> None:
        set_fields(self, epsilon=positive("epsilon", epsilon), quantum=positive("quantum", quantum))
        sampling.check_planar(self.a)

    @property
    def a(self) -> Fraction:
        """The product epsilon q, the privacy loss of one quantum along an axis."""
        return self.epsilon * self.quantum

    @property
    def space(self) -> Windows:
        """The lattice q Z^2 with d_2."""
        return Windows(2, self.quantum, metric="l2")

    def loss(self, distance: Fraction) -> Fraction:
        """Return epsilon d for d_2 = d = `distance`, rounded up if irrational. Raises ValueError if d < 0."""
        return self.epsilon * not_negative("distance", distance)

    def loss_before_rounding(self, distance: Exact) -> Fraction:
        """Return epsilon (d + 99/70 q), 0 for d = 0: a bound for points of R^2 at d_2 = d before rounding."""
        exact = not_negative("distance", distance)
        return self.loss(exact + _ROOT_2_ABOVE * self.quantum) if exact else Fraction(0)

    def release(self, points: ArrayLike, *, bits: sampling.Bits | None = None) -> NDArray[np.int64]:
        """Release points of shape (..., 2), integers in quanta, as int64; each is charged."""
        source = sampling.source_of(bits)
        vectors = require_int64_vectors(points, 2)
        return vectors + sampling.planar_laplace(vectors.size // 2, self.a, source).reshape(vectors.shape)

    def log_mass(self, outputs: ArrayLike, point: ArrayLike) -> NDArray[np.float64]:
        """Return ln P(y | x) = -a |y-x|_2 - ln C(a) for each y of `outputs` (..., 2) and x = `point`."""
        x, y = np.moveaxis(absolute_differences(outputs, point, 2), -1, 0)
        return np.asarray(-float(self.a) * np.hypot(x, y) - math.log(_sums(float(self.a)).normaliser))

    @property
    def expected_error(self) -> float:
        """The mean d_2 of the output from the true point, in the unit; about 2/epsilon on a fine lattice."""
        return float(self.quantum) * _sums(float(self.a)).mean

    def beyond(self, distance: float) -> float:
        """Return the probability that the noise moves a point by more than `distance`, in the unit.

        For a >= 1/20, the probability is a sum over the lattice. For smaller a, the limit of fine lattices is
        used, with an error of less than 0.004. In this limit the length of the noise has an Erlang(2)
        distribution:

            P(|q z|_2 > d) = (1 + epsilon d) e^(-epsilon d).
        """
        a, quanta = float(self.a), distance / float(self.quantum)
        if distance < 0:
            return 1.0
        if a < _DIRECT:
            return (1 + a * quanta) * math.exp(-a * quanta)
        r = _quarter(a)
        is_beyond = r > quanta * (1 + _SLACK)  # three quanta of 1/10 are not beyond the float 0.3
        return 4 * float(np.exp(-a * r[is_beyond]).sum()) / _sums(a).normaliser


@dataclass(frozen=True, init=False)
class PlanarManhattan(VectorLaplace):
    """The Laplace mechanism of the plane with d_1 (Chatzikokolakis 2013, Definition 6), for two numbers."""

    def __init__(self, epsilon: Exact, quantum: Exact) -> None:
        super().__init__(epsilon, quantum, 2)
