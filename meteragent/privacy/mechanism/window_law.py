"""The distribution of a window's l_inf Laplace noise, and what follows from it (THEORY 2.1).

P(z) ~ e^(-a max|z_i|) for z in Z^n. Given R, z is uniform on {-R .. R}^n, and r = R + 1/2 has
P(r) ~ r^n e^(-ar) on the half-integers. So k given slots all lie within +-m with probability
E[min(1, (m + 1/2)/r)^k]. If more than 2^14 half-integers would be needed, the midpoints of about 2^13
wider cells replace them; for n up to 1,440, probabilities then have errors below 5e-5. In the limit of small
a, r is Gamma(n+1, 1/a) and the largest |z_i| is Gamma(n, 1/a) (THEORY 1.1, 1.2).
"""

import math
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from meteragent.privacy.mechanism.base import MetricMechanism

Floats = NDArray[np.float64]

_TERMS_LIMIT, _MIDPOINTS = 1 << 14, 1 << 13


class WindowMechanism(MetricMechanism, Protocol):
    """A metric mechanism on windows of `n` slots that adds noise on the lattice of `quantum`.

    Points are whole quanta or, if there is an attribute `step`, whole steps, which the mechanism rounds.
    """

    @property
    def n(self) -> int:
        """The number of slots in a window."""

    @property
    def quantum(self) -> Fraction:
        """The step of the lattice of outputs, in the unit."""


class WindowLaw:
    """The distribution of the noise of n slots, with a = epsilon q. Noise is in whole quanta."""

    def __init__(self, n: int, a: float) -> None:
        self.n, self.a = n, a
        end = (n + 60 + math.sqrt(3600 + 120 * n)) / a  # further weights are below e^-60 times the largest
        self._exact = end <= _TERMS_LIMIT
        width = 1.0 if self._exact else end / _MIDPOINTS
        self._r = (np.arange(math.ceil(end / width) + 1) + 0.5) * width
        log_weight = n * np.log(self._r) - a * self._r
        top = float(log_weight.max())
        weight = np.exp(log_weight - top)
        self._p = weight / weight.sum()
        # P(z) = (sum of e^(-aR) over R >= max|z_i|) / (sum of (2R+1)^n e^(-aR) over R >= 0)
        log_all = n * math.log(2) + a / 2 + top + math.log(width * float(weight.sum()))
        self.log_most = -log_all - math.log(-math.expm1(-a))  # ln P(0), the largest of all

    def log_mass(self, largest: Any) -> Floats:
        """Return ln P(z) for a window with max|z_i| = `largest`, a number or an array."""
        return np.asarray(self.log_most - self.a * np.asarray(largest, np.float64))

    def probability_at_most(self, m: Any, k: int) -> Floats:
        """Return P(|z_i| <= m in all of k given slots) for each integer of `m`; k = n is the whole window."""
        slot_masses = [np.minimum(1, max(0.0, value + 0.5) / self._r) for value in np.ravel(m).tolist()]
        return np.array([float(np.sum(self._p * slot_mass**k)) for slot_mass in slot_masses])

    def probability_below(self, c: Any) -> Floats:
        """Return P(z_i <= c) for one slot and each integer of `c`."""
        ends = np.asarray(c)
        within = self.probability_at_most(np.maximum(ends, -1 - ends), 1)  # |z_i| <= c, or |z_i| < -c
        return np.where(ends >= 0, 1 + within, 1 - within) / 2

    def quantiles(self, shares: Any, k: int) -> NDArray[np.int64]:
        """Return the distinct integers m at which `probability_at_most` is near one of `shares`."""
        ends = np.linspace(0, self._r[-1], 257).astype(np.int64)
        return np.unique(np.interp(shares, self.probability_at_most(ends, k), ends).astype(np.int64))

    def residue_probabilities(self, modulus: int) -> Floats:
        """Return P(z_i mod `modulus` = c) for one slot and each residue c; uniform if midpoints are used."""
        if not self._exact:
            return np.full(modulus, 1 / modulus)
        side = np.cumsum((self._p / (2 * self._r))[::-1])[::-1]
        z = np.arange(side.size)
        sides = np.bincount(z % modulus, side, modulus) + np.bincount(-z[1:] % modulus, side[1:], modulus)
        return np.asarray(sides)

    def divergence(self, mean: float) -> float:
        """Return D: the mean of max|z_i| over N windows is `mean` or beyond with probability <= e^(-N D).

        "Beyond" means farther from the expectation, on the same side. A maximum m, which c(m) points z have,
        has P_a(m) ~ c(m) e^(-am). D is the largest value over b of (a-b) mean + ln(P_b(0)/P_a(0)) (Chernoff).
        The largest value is attained at the b for which P_b has this mean; D is then the KL divergence of P_b
        from P_a. The search covers e^-2 a <= b <= e^2 a; if the best b lies outside, D is too small.
        """
        low, high = self.a * math.exp(-2), self.a * math.exp(2)
        for _ in range(40):  # golden-section search for the maximum of a concave function
            b, c = high - (high - low) * _GOLDEN, low + (high - low) * _GOLDEN
            low, high = (low, c) if self._exponent(b, mean) > self._exponent(c, mean) else (b, high)
        return max(0.0, self._exponent((low + high) / 2, mean))

    def _exponent(self, b: float, mean: float) -> float:
        """Return (a-b) mean + ln(P_b(0)/P_a(0))."""
        return (self.a - b) * mean + WindowLaw(self.n, b).log_most - self.log_most


_GOLDEN = (math.sqrt(5) - 1) / 2
