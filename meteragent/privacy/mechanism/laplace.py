"""The l_inf Laplace mechanism on the lattice q Z^n; for n = 1 it is the Laplace mechanism (THEORY 1, 2.1).

The noise of a window is z in Z^n, in quanta, with P(z) = e^(-a max|z_i|) / Z, a = epsilon q. The output,
x + q z, is epsilon d_inf-private for x in q Z^n, also if each slot is released as soon as it ends and later
readings react to it (THEORY 3.1).

For windows of real numbers, no noise that is epsilon d_inf-private has a smaller mean error, for any measure
of error that grows with |z_i| (1.4). Noise that keeps a level at *one* radius only can (1.3).

There are (2m+1)^n - (2m-1)^n points with max|z_i| = m > 0. So, with r = R + 1/2 for R = 0, 1 ..,

    Z - 1 = sum over m > 0 of ((2m+1)^n - (2m-1)^n) e^(-am),
    Z = 2^n e^(a/2) (1 - e^-a) sum over R >= 0 of r^n e^(-ar).

The first sum is used if at most 2^17 of its terms matter (ln Z, the log1p of the sum, is then precise even if
Z is barely above 1). With more terms, r^n e^(-ar) is so smooth that its integral n! a^-(n+1) replaces the
second sum. By Poisson summation, the relative difference is at most 2 sum over m > 0 of |1 + 2 pi i
m/a|^-(n+1), which is below 1e-11 for n >= 2. For n = 1, Z = coth(a/2).
"""

from __future__ import annotations  # help() shows `ArrayLike`, not the long union that it stands for

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from meteragent.privacy import sampling
from meteragent.privacy.exact import Exact, not_negative, positive, set_fields
from meteragent.privacy.mechanism.whole import absolute_differences, require_int64_vectors
from meteragent.privacy.space import Windows

_TERMS_LIMIT = 1 << 17


@dataclass(frozen=True, init=False)
class LInfLaplace:
    """The l_inf Laplace mechanism: epsilon d_inf-private noise for windows of n slots.

    An output changes the odds between two windows by a factor of at most e^loss(d), where d is their d_inf
    distance: the largest difference between their values in any slot. At a multiple of the quantum, loss(d)
    is epsilon d.

        >>> mechanism = LInfLaplace(epsilon="1/220", quantum=10, n=2)  # level 1 at 220 W, in steps of 10 W
        >>> mechanism.loss(220)
        Fraction(1, 1)
        >>> mechanism.release([[51, 50], [10, 9]]).shape  # two windows, in quanta
        (2, 2)

    To release the slots of a window one by one, call `draw_noise_bound` when the window opens and `draw_slot`
    once for each slot.

    Attributes:
        epsilon: The privacy loss per unit of distance, in 1/unit.
        quantum: The step of the lattice of slot values, in the unit.
        n: The number of slots in a window.
        a: The product epsilon * quantum. The distribution of the noise, in quanta, depends only on a and n.

    Raises TypeError if a parameter is not exact (the message shows a correct form), or n is not an int;
    ValueError if a parameter is not positive, or n/a >= 2^45.
    """

    epsilon: Fraction
    quantum: Fraction
    n: int
    a: Fraction = field(repr=False, compare=False)

    def __init__(self, epsilon: Exact, quantum: Exact, n: int) -> None:
        exact, lattice = positive("epsilon", epsilon), positive("quantum", quantum)
        a = sampling.check_parameters(n, exact * lattice)
        set_fields(self, epsilon=exact, quantum=lattice, n=n, a=a)

    @cached_property
    def _table(self) -> sampling.AliasTable | None:
        """The table of the noise of one slot, so that it need not be looked up; None for n > 1."""
        return sampling.alias_table(0, self.a) if self.n == 1 else None

    @property
    def space(self) -> Windows:
        """The space of windows of n whole quanta, at distance d_inf in the unit."""
        return Windows(self.n, self.quantum)

    def loss(self, distance: Exact) -> Fraction:
        """Return epsilon q ceil(d/q), the loss between windows whose d_inf before rounding is d.

        Rounding by floor(x/q + 1/2) turns a distance d into at most q ceil(d/q) (THEORY 2.1). Raises
        ValueError if d is negative.
        """
        return self.a * math.ceil(not_negative("distance", distance) / self.quantum)

    def log_mass(self, outputs: ArrayLike, point: ArrayLike) -> NDArray[np.float64]:
        """Return ln P(output | point) = -a max|output_i - point_i| - ln Z for `outputs` of shape (..., n).

        Outputs and `point` are integers in quanta; `point` has shape (n,). The relative error of the result
        is about 1e-12. Raises TypeError if the values are not integers; ValueError if the last axis of
        `outputs` is not of length n, `point` does not have shape (n,), or a value is beyond 2^62 quanta.
        """
        if np.ndim(point) != 1:
            raise ValueError(f"the point is one window, of shape ({self.n},), not {np.shape(point)}")
        largest = absolute_differences(outputs, point, self.n).max(axis=-1)
        a = float(self.a)
        return np.asarray(-a * largest - _log_total(self.n, a), np.float64)

    def draw_noise_bound(self, bits: sampling.Bits) -> int:
        """Draw the noise bound R of one window (THEORY 3.1): secret, to be erased after its last slot.

        Call `draw_slot` with R at most n times: an (n+1)st slot costs many times epsilon (THEORY 2.1).
        """
        return sampling.noise_bound(self.n, self.a, bits)

    def draw_noise_bounds(self, count: int, bits: sampling.Bits) -> list[int]:
        """Draw the noise bounds of `count` windows, as `draw_noise_bound` does, but faster."""
        bounds: list[int] = sampling.noise_bounds(self.n, self.a, count, bits).tolist()
        return bounds

    def draw_slot(self, noise_bound: int, bits: sampling.Bits) -> int:
        """Draw the noise of one slot in quanta, uniform on {-R .. R} for its window's `noise_bound` R."""
        return sampling.uniform(noise_bound, bits)

    def draw_slots(self, noise_bounds: Sequence[int], bits: sampling.Bits) -> list[int]:
        """Draw the noise of one slot in each window, as `draw_slot` does. Raises as `uniform_rows` does."""
        noise: list[int] = sampling.uniform_rows(np.array(noise_bounds, np.int64), 1, bits)[:, 0].tolist()
        return noise

    def release(self, windows: ArrayLike, *, bits: sampling.Bits | None = None) -> NDArray[np.int64]:
        """Release windows of shape (..., n), integers in quanta, as int64; each is charged, even a copy."""
        values = require_int64_vectors(windows, self.n)
        source = sampling.source_of(bits)
        table = self._table if bits is None else None
        if table and values.size == 1:
            noisy = np.empty(values.shape, np.int64)
            noisy.fill(values.item() + table.draw_one(source))
            return noisy
        if table:
            return table.draw(values.size, source).reshape(values.shape) + values
        rows = values.reshape(-1, self.n)
        return sampling.windows(self.n, self.a, len(rows), source, rows).reshape(values.shape)

    def release_rows(self, windows: ArrayLike, rows: sampling.RowBits) -> NDArray[np.int64]:
        """Release `windows`, integers in quanta of shape (rows.count, n), each with the bits of its row.

        The distribution and the charge are the same as in `release`. A window's noise depends only on the
        bits of its row, not on other windows. Raises TypeError if the values are not integers; ValueError if
        the shape is not (rows.count, n), or a value is beyond 2^62 quanta; OverflowError if n is above 2^24
        (above 2^23 if a row's R is 2^31 or more), or a row's bits are used up.
        """
        values = require_int64_vectors(windows, self.n)
        if values.shape != (rows.count, self.n):
            raise ValueError(f"{rows.count} windows have shape {rows.count, self.n}, not {values.shape}")
        noise = sampling.row_windows(self.n, self.a, rows)
        noise += values
        return noise


@lru_cache(maxsize=256)
def reach_quanta(n: int, a: Fraction) -> int:
    """Return a K, in quanta, with P(|z_i| > K) < 2^-40 for the noise z_i of one slot.

        K = ceil(28 / a) for n = 1, else ceil((44 + 5n/2) / a)

    For n = 1, P(|z| > K) = 2 e^(-a(K+1)) / (1 + e^-a) <= e^(-aK) <= e^-28 < 2^-40. For n > 1, |z_i| <= R, and
    P(R = r) = (2r+1)^n e^(-ar) / W(a) with W(a) = sum (2r+1)^n e^(-ar). With r = 3j + i, i < 3, we have
    2r+1 <= 5 (2j+1), hence W(a/3) <= 3 5^n W(a), and by the Chernoff bound at 2a/3,

        P(R > K) <= e^(-2a(K+1)/3) W(a/3) / W(a) < 3 5^n e^(-(88 + 5n)/3) < 3 e^(-88/3) < 2^-40,

    since 5 e^(-5/3) < 1.
    """
    return math.ceil(28 / a) if n == 1 else math.ceil((44 + Fraction(5 * n, 2)) / a)


@lru_cache(maxsize=256)
def _log_total(n: int, a: float) -> float:
    """Return ln Z, by one of the formulas in the module's docstring."""
    if n == 1:
        return math.log1p(2 * math.exp(-a) / -math.expm1(-a))
    # At the sum's end, r = (1+y) n/a, a term is at most e^-60 times the largest, because
    # n (y - ln(1+y)) >= n y^2 / (2(1+y)) = 60.
    end = (n + 60 + math.sqrt(3600 + 120 * n)) / a
    if end > _TERMS_LIMIT:
        return (
            n * math.log(2) + a / 2 + math.log(-math.expm1(-a)) + math.lgamma(n + 1) - (n + 1) * math.log(a)
        )
    m = np.arange(1, math.ceil(end) + 2, dtype=np.float64)
    log_count = n * np.log(2 * m + 1) + np.log(-np.expm1(n * np.log1p(-2 / (2 * m + 1))))
    log_term = log_count - a * m
    top = float(log_term.max())
    if top < 0:
        return math.log1p(float(np.exp(log_term).sum()))
    return top + math.log(float(np.exp(log_term - top).sum()) + math.exp(-top))
