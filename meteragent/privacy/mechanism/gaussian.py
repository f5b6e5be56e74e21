"""Discrete Gaussian noise for windows, with zCDP at a radius as its promise (Canonne, Kamath, Steinke 2020).

Every number of a window gets independent noise with P(z) ~ e^(-z^2/(2 sigma^2)), z in quanta. Windows at
d_inf = d differ by at most k = ceil(d/q) quanta in each of n numbers, even if they are rounded first. So the
Renyi divergence of order alpha between the releases is at most alpha n k^2/(2 sigma^2). This is rho-zCDP with

    rho(d) = n k^2/(2 sigma^2),

and `sigma2` follows from the rho that is promised at a radius. The mechanism is epsilon d_inf-private for no
epsilon, because the privacy loss of an output is unbounded. For every epsilon it has a delta instead, which
is computed without slack, up to numerical errors. Of all pairs at d_inf <= d, those that differ by k in every
number are the worst: the distribution of a number is log-concave, so the best tests of 0 against j quanta are
half-lines, which do not lose power as j grows. By Blackwell's theorem the pair (0, j) is post-processing of
(0, k) for j <= k. The same holds for products of such pairs, and signs do not matter. For the worst pair the
log of the odds depends only on the sum S of the noise,

    ln(P/P') = (n k^2 - 2 k S)/(2 sigma^2),    delta(epsilon) = E_P (1 - e^(k (S - s)/sigma^2))+,

where s is the value of S at which this log is epsilon. S has the weights e^(-S^2/(2 n sigma^2)), up to a
relative error of at most about 2n e^(-pi^2 sigma^2) (Poisson summation on the integers with a given sum; no
error for n = 1). For sigma^2 < 5 the distribution of S is computed by convolution instead. A sum of more than
2^21 terms is replaced by its integral, the delta of the continuous Gaussian (Balle, Wang 2018, Theorem 8).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from meteragent.privacy import sampling
from meteragent.privacy.exact import Exact, not_negative, positive
from meteragent.privacy.mechanism.whole import differences, whole_vectors
from meteragent.privacy.space import Windows

_SMOOTH = 5.0  # from this sigma^2 on, S is discrete Gaussian within 1e-16 for n <= 10^5
_SPAN = 40.0  # in standard deviations: the tail beyond has a weight below e^-790
_TERMS_LIMIT = 1 << 21
_ORDERS = 4001  # points of the grid over alpha
_ERFC_LIMIT = 20.0  # erfc underflows at 27


@dataclass(frozen=True, init=False)
class DiscreteGaussian:
    """Discrete Gaussian noise for windows of n slots: rho-zCDP between any two windows at d_inf <= `radius`.

        sigma^2 = n ceil(radius/q)^2 / (2 rho)    in quanta^2, for each slot

    Raises:
        TypeError: a parameter is not exact, or n is not an int; the message shows a correct form.
        ValueError: a parameter is not positive, or sigma^2 >= 2^44 quanta^2.
    """

    rho: Fraction
    radius: Fraction
    quantum: Fraction
    n: int

    def __init__(self, rho: Exact, radius: Exact, quantum: Exact, n: int) -> None:
        object.__setattr__(self, "rho", positive("rho", rho))
        object.__setattr__(self, "radius", positive("radius", radius))
        object.__setattr__(self, "quantum", positive("quantum", quantum))
        sampling.check_parameters(n, Fraction(n))
        object.__setattr__(self, "n", n)
        sampling.check_variance(self.sigma2)

    @property
    def sigma2(self) -> Fraction:
        """The parameter sigma^2 of a slot's noise, in quanta^2; the variance is smaller if sigma is small."""
        return self.n * self._quanta(self.radius) ** 2 / (2 * self.rho)

    @property
    def space(self) -> Windows:
        """The lattice q Z^n with d_inf."""
        return Windows(self.n, self.quantum, metric="linf")

    def zcdp(self, distance: Exact) -> Fraction:
        """Return rho between windows whose d_inf before rounding is d = `distance`, in the unit.

            rho(d) = n ceil(d/q)^2/(2 sigma^2)

        The rhos of several releases add up.

        Raises:
            TypeError: `distance` is not exact.  ValueError: it is negative.
        """
        return self.n * self._quanta(distance) ** 2 / (2 * self.sigma2)

    def delta(self, epsilon: Exact, distance: Exact) -> float:
        """Return the least delta such that (epsilon, delta) holds between windows at d_inf <= `distance`.

        `distance` is in the unit. The relative error is at most 1e-7 if delta is above 1e-300.

        Raises:
            TypeError: a parameter is not exact.  ValueError: a parameter is negative.
        """
        k, eps = self._quanta(distance), float(not_negative("epsilon", epsilon))
        return _hockey_stick(self.n, k, float(self.sigma2), eps) if k else 0.0

    def delta_bound(self, epsilon: Exact, distance: Exact) -> float:
        """Return a delta that follows from rho = `zcdp(distance)` alone.

            inf over alpha > 1 of e^((alpha-1)(alpha rho - epsilon)) (1 - 1/alpha)^alpha / (alpha-1)

        See Canonne, Kamath, Steinke 2020, Corollary 13. The result is the minimum over a fine grid, or 1 if
        that is less. If the infimum is above 1e-20, the minimum exceeds it by less than 1e-4 of the infimum.
        The same formula holds for the sum of the rhos of several releases; for a single release `delta` is
        smaller.

        Raises:
            TypeError: a parameter is not exact.  ValueError: a parameter is negative.
        """
        rho, eps = float(self.zcdp(distance)), float(not_negative("epsilon", epsilon))
        if not rho:
            return 0.0
        # Where the bound is small, the best alpha - 1 is near the root of 2 rho s^2 - epsilon s - 1.
        root = (eps + math.sqrt(eps * eps + 8 * rho)) / (4 * rho)
        s = (root + 1) * np.exp2(np.linspace(-12, 4, _ORDERS))  # alpha - 1
        log_delta = s * ((s + 1) * rho - eps) - np.log(s) + (s + 1) * np.log(s / (s + 1))
        return min(1.0, math.exp(min(0.0, float(log_delta.min()))))

    def release(self, points: ArrayLike, *, bits: sampling.Bits | None = None) -> NDArray[np.int64]:
        """Release `points`, integers in quanta of shape (..., n), with fresh noise; return int64 in quanta.

        Each row is charged. `bits` is the source of randomness, by default `BulkBits`.

        Raises:
            TypeError: the values are not integers.
            ValueError: the length of the last axis is not n, or a value is beyond 2^62 quanta.
        """
        source = sampling.source_of(bits)
        rows = whole_vectors(points, self.n)
        return rows + sampling.discrete_gaussian(rows.size, self.sigma2, source).reshape(rows.shape)

    def log_mass(self, outputs: ArrayLike, point: ArrayLike) -> NDArray[np.float64]:
        """Return ln P(y | x) for each y of `outputs` (..., n) and x = `point`, in quanta.

        Raises:
            TypeError: the values are not integers.
            ValueError: the length of the last axis is not n, or a value is beyond 2^62 quanta.
        """
        variance = float(self.sigma2)
        z = differences(outputs, point, self.n).astype(np.float64)
        return np.asarray(-(z**2).sum(axis=-1) / (2 * variance) - self.n * math.log(_normaliser(variance)))

    @property
    def sd(self) -> float:
        """The standard deviation of a slot's noise, in the unit: q sigma, or less if sigma is small."""
        variance = float(self.sigma2)
        if variance < _SMOOTH:
            z, mass = _distribution(variance)
            variance = float(np.sum(z**2 * mass))
        return float(self.quantum) * math.sqrt(variance)

    def _quanta(self, distance: Exact) -> int:
        return math.ceil(not_negative("distance", distance) / self.quantum)


def _distribution(variance: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the integers within `_SPAN` standard deviations, and their probabilities."""
    reach = math.ceil(_SPAN * math.sqrt(variance)) + 1
    z = np.arange(-reach, reach + 1.0)
    return z, np.exp(-(z**2) / (2 * variance)) / _normaliser(variance)


def _normaliser(variance: float) -> float:
    """Sum e^(-z^2/(2 variance)) over all integers z.

    From variance 5 on, sqrt(2 pi variance) replaces the sum, with a relative error of 2 e^(-2 pi^2 variance).
    """
    if variance >= _SMOOTH:
        return math.sqrt(2 * math.pi * variance)
    z = np.arange(1.0, _SPAN * math.sqrt(variance) + 2)
    return 1 + 2 * float(np.exp(-(z**2) / (2 * variance)).sum())


@lru_cache(maxsize=8)
def _sum_distribution(n: int, variance: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the distribution of the sum S of n slots' noise: its points and their probabilities.

    From variance 5 on, S is taken as a discrete Gaussian number (see the module's docstring).
    """
    if n == 1 or variance >= _SMOOTH:
        return _distribution(n * variance)
    _, slot_mass = _distribution(variance)
    mass = slot_mass[:1] * 0 + 1
    for bit in f"{n:b}":  # by squaring; no term is negative, so nothing cancels
        mass = _trimmed(np.convolve(mass, mass))
        mass = _trimmed(np.convolve(mass, slot_mass)) if bit == "1" else mass
    return np.arange(0.0, len(mass)) - (len(mass) - 1) / 2, mass


def _trimmed(mass: NDArray[np.float64]) -> NDArray[np.float64]:
    """Remove the zeros at both ends of a symmetric distribution."""
    start = int(np.argmax(mass > 0))
    return mass[start : len(mass) - start]


def _hockey_stick(n: int, k: int, variance: float, epsilon: float) -> float:
    """Return delta(epsilon) as in the module's docstring, as a sum of positive terms."""
    if 2 * _SPAN * math.sqrt(n * variance) > _TERMS_LIMIT:
        return _normal_hockey_stick(k * math.sqrt(n / variance), epsilon)
    edge = (n * k * k - 2 * variance * epsilon) / (2 * k)
    s, mass = _sum_distribution(n, variance)
    is_gain = s < edge
    return float(np.sum(mass[is_gain] * -np.expm1((s[is_gain] - edge) * (k / variance))))


def _normal_hockey_stick(mu: float, epsilon: float) -> float:
    """Return F(mu/2 - epsilon/mu) - e^epsilon F(-mu/2 - epsilon/mu), F the standard normal distribution.

    Both terms have the factor e^(-x^2/2), x = mu/2 - epsilon/mu. If x < 0 this factor is taken out, so that
    neither term underflows.
    """
    x, y = mu / 2 - epsilon / mu, mu / 2 + epsilon / mu
    factor, tail = math.exp(-x * x / 2) / 2, _scaled_erfc(y / math.sqrt(2))
    if x < 0:
        return factor * (_scaled_erfc(-x / math.sqrt(2)) - tail)
    return math.erfc(-x / math.sqrt(2)) / 2 - factor * tail


def _scaled_erfc(x: float) -> float:
    """Return e^(x^2) erfc(x) for x >= 0, with a relative error below 1e-11."""
    if x < _ERFC_LIMIT:
        return math.exp(x * x) * math.erfc(x)
    u = 1 / (2 * x * x)  # the asymptotic series
    return (1 - u * (1 - 3 * u * (1 - 5 * u * (1 - 7 * u)))) / (x * math.sqrt(math.pi))
