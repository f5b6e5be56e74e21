"""The l_inf Laplace mechanism on the lattice q Z^n (THEORY 1, 2.1; for n = 1 the Laplace mechanism).

The noise of a window is z in Z^n, in quanta, with P(z) = e^(-a max|z_i|) / Z, a = epsilon q. What leaves,
x + q z, is epsilon d_inf-private for x in q Z^n: P(z - k)/P(z) <= e^(a max|k_i|) by the triangle
inequality. Also when each slot leaves at once and the readings react to it (THEORY 3.1).

Optimal among which mechanisms? On R^n no other noise that keeps epsilon d_inf at *all* distances has a
smaller mean of a loss that grows with |z_i| (`floor`). Noise that keeps a level at *one* radius, and promises
no more for less, can have less error: there the generalised staircase is optimal, for every norm (Kulesza,
Suresh, Wang 2025; Melbourne, Diaz, Asoodeh 2026). On R^n it is epsilon d-private for no epsilon, as its
density falls by e^level between points as near as one likes.

There are (2m+1)^n - (2m-1)^n points at max|z_i| = m > 0, so that, with r = R + 1/2,

    Z - 1 = sum over m > 0 of ((2m+1)^n - (2m-1)^n) e^(-am),
    Z = 2^n e^(a/2) (1 - e^-a) sum over R >= 0 of r^n e^(-ar).

The first is used while it has at most 2^17 terms that count (the terms are added as they are, so that ln Z
keeps its digits also where Z is hardly above 1). With more, a is so small that the second sum is an integral,
n! a^-(n+1): by Poisson's formula the two differ by 2 sum over m > 0 of |1 + 2 pi i m/a|^-(n+1), relatively,
below 1e-11 for n >= 2; for n = 1, Z = coth(a/2).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from meteragent.privacy import sampling
from meteragent.privacy.exact import Exact, positive, rational
from meteragent.privacy.mechanism.whole import moved_by, whole_vectors
from meteragent.privacy.space import Windows

_TERMS_LIMIT = 1 << 17


@dataclass(frozen=True, init=False)
class LInfLaplace:
    """Noise for windows of n slots: epsilon d_inf-private, epsilon in 1/unit.

    `quantum` is the lattice of slot values, in the unit. `a` = epsilon * quantum is the only parameter
    of the law of the noise in quanta, beside n.

    Raises:
        TypeError: a parameter is not exact; the text shows what to write.
        ValueError: a parameter is not above zero, or n/a >= 2^45.
    """

    epsilon: Fraction
    quantum: Fraction
    n: int
    a: Fraction = field(repr=False, compare=False)

    def __init__(self, epsilon: Exact, quantum: Exact, n: int) -> None:
        exact, lattice = positive("epsilon", epsilon), positive("quantum", quantum)
        a = sampling.check_parameters(n, exact * lattice)
        for name, value in (("epsilon", exact), ("quantum", lattice), ("n", n), ("a", a)):
            object.__setattr__(self, name, value)

    @property
    def space(self) -> Windows:
        """Windows of n whole quanta, at distance d_inf in the unit."""
        return Windows(self.n, self.quantum)

    def loss(self, distance: Exact) -> Fraction:
        """The privacy lost between windows at d_inf = `distance` (in the unit) before rounding.

            loss(d) = epsilon q ceil(d/q)

        Rounding by floor(x/q + 1/2) makes of a distance d at most q ceil(d/q), so at a multiple of
        the quantum it is epsilon d (THEORY 2.1). The odds between the two change by e^loss at most.

        Raises:
            TypeError: `distance` is not exact.  ValueError: it is negative.
        """
        exact = rational("distance", distance)
        if exact < 0:
            raise ValueError(f"a distance is not negative: {exact}")
        return self.a * -(-exact // self.quantum)

    def log_mass(self, outputs: ArrayLike, point: ArrayLike) -> NDArray[np.float64]:
        """The log of P(output | point): -a max|output_i - point_i| - ln Z, for `outputs` of shape (..., n).

        Both are integers in quanta; `point` has shape (n,). Right to about 1e-12 of itself.

        Raises:
            TypeError: the values are not integers.
            ValueError: the last axis is not n, or a value is beyond 2^62 quanta.
        """
        if np.ndim(point) != 1:
            raise ValueError(f"the point is one window, of shape ({self.n},), not {np.shape(point)}")
        largest = moved_by(outputs, point, self.n).max(axis=-1)
        a = float(self.a)
        return np.asarray(-a * largest - _log_total(self.n, a), np.float64)

    def noise_bound(self, bits: sampling.Bits) -> int:
        """R of one window, secret until the window is over, then wiped (THEORY 3.1).

        At most n times may `draw` be called with it: an n+1st slot costs many times epsilon.
        """
        return sampling.noise_bound(self.n, self.a, bits)

    def noise_bounds(self, count: int, bits: sampling.Bits) -> list[int]:
        """R of `count` windows, by the same law; of many at once in a fraction of the time."""
        drawn: list[int] = sampling.noise_bounds(self.n, self.a, count, bits).tolist()
        return drawn

    def draw(self, noise_bound: int, bits: sampling.Bits) -> int:
        """The noise of one slot in quanta, uniform on {-R .. R}, R = `noise_bound` of its window."""
        return sampling.uniform(noise_bound, bits)

    def slots(self, noise_bounds: Sequence[int], bits: sampling.Bits) -> list[int]:
        """The noise of one slot in each of many windows, by the same law as `draw`.

        Raises:
            ValueError: a noise bound is below 0 or not below 2^62.
        """
        noise: list[int] = sampling.uniform_rows(np.array(noise_bounds, np.int64), 1, bits)[:, 0].tolist()
        return noise

    def release(self, windows: ArrayLike, *, bits: sampling.Bits | None = None) -> NDArray[np.int64]:
        """`windows`, integers in quanta of shape (..., n), with fresh noise, as int64 in quanta.

        Each row is a window and is charged epsilon. Calling twice on one window charges it twice.
        `bits` are the operating system's unless given. The noise is drawn without a look at the values.

        Raises:
            TypeError: the values are not integers.
            ValueError: the last axis is not n, or a value is beyond 2^62 quanta.
        """
        values = whole_vectors(windows, self.n)
        source = sampling.BulkBits() if bits is None else bits
        noise = sampling.windows(self.n, self.a, values.size // self.n, source).reshape(values.shape)
        noise += values
        return noise

    def release_rows(self, windows: ArrayLike, rows: sampling.RowBits) -> NDArray[np.int64]:
        """`windows`, integers in quanta of shape (rows.count, n), with the noise of each row's own bits.

        As `release` by law and cost; a row's noise depends on its bits alone, not on what stands beside it.

        Raises:
            TypeError: the values are not integers.
            ValueError: the shape is not (rows.count, n), or a value is beyond 2^62 quanta.
            OverflowError: n is above 2^24, or a row has no more bits.
        """
        values = whole_vectors(windows, self.n)
        if values.shape != (rows.count, self.n):
            raise ValueError(f"{rows.count} windows have shape {rows.count, self.n}, not {values.shape}")
        noise = sampling.row_windows(self.n, self.a, rows)
        noise += values
        return noise


@lru_cache(maxsize=256)
def reach(n: int, a: Fraction) -> int:
    """Return K with P(|z_i| > K) < 2^-40 for the noise z_i of one slot, in quanta; it needs no R.

        K = ceil(28 / a) for n = 1, else ceil((44 + 5n/2) / a)

    For n = 1, P(|z| > K) = 2 e^(-a(K+1)) / (1 + e^-a) <= e^(-aK) <= e^-28 < 2^-40. For n > 1 |z_i| <= R, and
    P(R = r) = (2r+1)^n e^(-ar) / Z(a) with Z(a) = sum (2r+1)^n e^(-ar). With r = 3j + i, i < 3, is
    2r+1 <= 5 (2j+1), hence Z(a/3) <= 3 5^n Z(a), and by Chernoff's bound at 2a/3

        P(R > K) <= e^(-2a(K+1)/3) Z(a/3) / Z(a) < 3 5^n e^(-(88 + 5n)/3) < 3 e^(-88/3) < 2^-40,

    since 5 e^(-5/3) < 1.
    """
    return math.ceil(28 / a) if n == 1 else math.ceil((44 + Fraction(5 * n, 2)) / a)


@lru_cache(maxsize=256)
def _log_total(n: int, a: float) -> float:
    """The ln of Z."""
    if n == 1:
        return math.log1p(2 * math.exp(-a) / -math.expm1(-a))
    # n (y - ln(1+y)) >= n y^2 / (2(1+y)) = 60 at this end, r = (1+y) n/a.
    end = (n + 60 + math.sqrt(3600 + 120 * n)) / a
    if end > _TERMS_LIMIT:
        return (
            n * math.log(2) + a / 2 + math.log(-math.expm1(-a)) + math.lgamma(n + 1) - (n + 1) * math.log(a)
        )
    m = np.arange(1, math.ceil(end) + 2, dtype=np.float64)
    log_count = n * np.log(2 * m + 1) + np.log(-np.expm1(n * np.log1p(-2 / (2 * m + 1))))
    log_term = log_count - a * m
    most = float(log_term.max())
    if most < 0:
        return math.log1p(float(np.exp(log_term).sum()))
    return most + math.log(float(np.exp(log_term - most).sum()) + math.exp(-most))
