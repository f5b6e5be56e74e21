"""Selection of one of n values by noise: report noisy max, and the exponential mechanism (Pauwels 2016).

Both mechanisms take a vector u of n values (counts, utilities) in whole quanta and release an index. Both
mechanisms are private under d_inf, because every value may change. Let Delta be the largest change of a value
between neighbours, in the unit. At d_inf = d the loss is

    epsilon q ceil(d/q) / Delta,  even if the values are first rounded by floor(x/q + 1/2).

Noisy max (Example 4) adds a geometric number g_i to each value, P(g) ~ e^(-ag) with a = epsilon q/(2 Delta),
and reports the index of the largest sum, the first one if there are several. Ties cost no privacy, and if no
value falls (as for counts to which one person is added), or if no value rises, the loss is half as large
(THEORY T.11).

The exponential mechanism (Proposition 7) reports r with P(r) ~ e^(a u_r): if values change by at most k
quanta, each weight changes by a factor of at most e^(ak), and so does their sum. For both mechanisms the
value at the reported index is within (2 Delta/epsilon)(ln n + t) of the largest with a probability of at
least 1 - e^-t (Example 6), because P(r) <= e^(-a (max u - u_r)) for every r.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from meteragent.privacy import sampling
from meteragent.privacy.exact import Exact, exp_neg_bounds, not_negative
from meteragent.privacy.mechanism.whole import VectorNoise, require_int64_vectors
from meteragent.privacy.space import Windows

_GUARD_BITS = 8
_TAIL = 45.0  # a sum over geometric numbers omits a mass of at most e^-45
_TERMS = 1 << 20  # the largest number of terms of a sum that are computed at once


@dataclass(frozen=True, init=False)
class _Selection(VectorNoise):
    """The parameters, space, loss and error bounds of noisy max and of the exponential mechanism."""

    @property
    def a(self) -> Fraction:
        """The quotient epsilon q / (2 Delta), half the privacy loss of one quantum."""
        return super().a / 2

    @property
    def space(self) -> Windows:
        """The lattice q Z^n with d_inf."""
        return Windows(self.n, self.quantum, metric="linf")

    def loss(self, distance: Fraction) -> Fraction:
        """Return epsilon q ceil(d/q) / Delta for d_inf before rounding. Raises ValueError if negative."""
        return 2 * self.a * math.ceil(not_negative("distance", distance) / self.quantum)

    def regret_bound(self, t: float) -> float:
        """Return (2 Delta/epsilon) (ln n + t), which max u - u_r exceeds with chance <= e^-t (Example 6)."""
        return (math.log(self.n) + t) * float(self.quantum / self.a)

    def tail_bound(self, utilities: ArrayLike, level: int) -> float:
        """Return min(1, #(values <= c) e^(-a (max u - c))), a bound on P(value <= c) (Pauwels, Example 6)."""
        u = require_int64_vectors(utilities, self.n)
        few = float(np.count_nonzero(u <= level))
        return min(1.0, few * math.exp(-float(self.a) * (int(u.max()) - level)))


@dataclass(frozen=True, init=False)
class NoisyMax(_Selection):
    """Report noisy max, the index of the largest of n noisy values: (epsilon/Delta) d_inf-private.

    See Pauwels 2016, Example 4. For counts that one person can only raise, the loss is half as large, so
    `epsilon` may be twice the level. Raises TypeError if n is not an int; ValueError if a parameter is not
    positive, or 1/a >= 2^45.
    """

    def monotone_loss(self, distance: Exact) -> Fraction:
        """Return the loss if no value falls, or if no value rises: half of `loss`."""
        return self.loss(not_negative("distance", distance)) / 2

    def release(self, points: ArrayLike, *, bits: sampling.Bits | None = None) -> NDArray[np.int64]:
        """Report an index (0 .. n-1) for each row of integers in quanta (..., n); each row is charged."""
        source = sampling.source_of(bits)
        rows = require_int64_vectors(points, self.n)
        noisy = rows + sampling.geometric(rows.size, self.a, source).reshape(rows.shape)
        return np.asarray(np.argmax(noisy, axis=-1), np.int64)

    def log_mass(self, outputs: ArrayLike, point: ArrayLike) -> NDArray[np.float64]:
        """Return ln P(index | u) for each index of `outputs` and the values u = `point`, in quanta.

        The mass of i is a sum over the winning sums v >= max u. Each term is the probability that
        u_i + g_i = v, the sums u_j + g_j before i are below v, and those after i are at most v. About 45 n/a
        terms are computed.
        """
        u = require_int64_vectors(point, self.n)
        a, gap = float(self.a), (u.max() - u).view(np.uint64).astype(np.float64)[:, np.newaxis]  # up to 2^63
        end, step = math.ceil(_TAIL / a) + 1, max(1, _TERMS // self.n)
        total = np.zeros(self.n)
        for start in range(0, end, step):
            excess = np.arange(start, min(start + step, end))
            total += _losing_chance(a, gap + excess) @ np.exp(-a * excess)
        log_mass = np.log(total) - a * gap[:, 0] + math.log(-math.expm1(-a))
        return np.asarray(log_mass[np.asarray(outputs)])


def _losing_chance(a: float, distance: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return P(sums j < i are below v and sums j > i at most v) for each i and v; distance_j = v - u_j."""
    with np.errstate(divide="ignore"):  # ln 0 for a value that cannot be below v
        log_below = np.cumsum(np.log(-np.expm1(-a * distance)), axis=0)
    log_at_most = np.cumsum(np.log(-np.expm1(-a * (distance + 1)))[::-1], axis=0)[::-1]
    log_before = np.vstack([np.zeros_like(log_below[:1]), log_below[:-1]])
    log_after = np.vstack([log_at_most[1:], np.zeros_like(log_at_most[:1])])
    return np.asarray(np.exp(log_before + log_after))


@dataclass(frozen=True, init=False)
class Exponential(_Selection):
    """The exponential mechanism, which reports one of n indices r with P(r) ~ e^(a u_r).

    See Pauwels 2016, Proposition 7. Utilities are whole quanta. With u_r = -|f - r| for a whole f, over all
    whole r, it would be the Laplace mechanism, whose loss is half of `loss`, because the sum of its weights
    is the same for every f. For n indices the loss is `loss`. The time that a choice takes depends on the
    differences between the utilities; the time that `NoisyMax` takes does not. Raises TypeError if n is not
    an int; ValueError if a parameter is not positive, or 1/a >= 2^45.
    """

    def release(self, points: ArrayLike, *, bits: sampling.Bits | None = None) -> NDArray[np.int64]:
        """Choose an index (0 .. n-1) for each row of utilities in quanta (..., n); each row is charged."""
        source = sampling.source_of(bits)
        rows = require_int64_vectors(points, self.n)
        distinct, group, counts = np.unique(
            rows.reshape(-1, self.n), axis=0, return_inverse=True, return_counts=True
        )
        indices = np.empty(group.size, np.int64)
        draws = [self._choose(u, k, source) for u, k in zip(distinct.tolist(), counts.tolist(), strict=True)]
        indices[np.argsort(group.ravel(), kind="stable")] = np.concatenate([indices[:0], *draws])
        return indices.reshape(rows.shape[:-1])

    def _choose(self, utilities: list[int], count: int, bits: sampling.Bits) -> NDArray[np.int64]:
        gaps = [max(utilities) - u for u in utilities]
        return sampling.choice(lambda k: self._cumulative(gaps, k), count, bits)

    def _cumulative(self, gaps: list[int], k: int) -> list[tuple[int, int]]:
        """Return integer bounds on 2^k P(index <= i), for i = 0 .. n-2."""
        w = k + self.n.bit_length() + _GUARD_BITS
        weights = [exp_neg_bounds(gap * self.a.numerator, self.a.denominator, w) for gap in gaps]
        rest_lo, rest_hi = (sum(bound) for bound in zip(*weights, strict=True))
        bounds, lo, hi = [], 0, 0
        for weight_lo, weight_hi in weights[:-1]:
            lo, hi = lo + weight_lo, hi + weight_hi
            rest_lo, rest_hi = rest_lo - weight_lo, rest_hi - weight_hi
            bounds.append(((lo << k) // (lo + rest_hi), (hi << k) // (hi + rest_lo) + 1))
        return bounds

    def log_mass(self, outputs: ArrayLike, point: ArrayLike) -> NDArray[np.float64]:
        """Return ln P(index | u) for each index of `outputs` and the utilities u = `point`, in quanta."""
        u = require_int64_vectors(point, self.n)
        log_weight = float(self.a) * (u - u.max())
        return np.asarray((log_weight - math.log(np.exp(log_weight).sum()))[np.asarray(outputs)])
