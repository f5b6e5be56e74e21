"""Coins and choices whose probabilities need only be enclosed between integers (rule 2 of the package).

U, uniform on [0, 1), is known to k bits: it lies in [u, u+1) / 2^k. With integers lo <= 2^k p <= hi,
u < lo says U < p and u >= hi says U >= p. In between more bits of U are revealed and p is enclosed more
closely; if the bounds stay a few units apart that happens with a chance of a few in 2^k.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from meteragent.privacy.bits import Bits
from meteragent.privacy.exact import exp_neg_bounds

Bounds = Callable[[int], tuple[int, int]]
"""k -> integers (lo, hi) with lo <= 2^k p <= hi."""

FIRST_BITS = 32
"""How many bits of a uniform are revealed at a time: 32 decide all but a few comparisons in 2^32."""

_WORD_BITS = 62


def bernoulli(bounds: Bounds, bits: Bits) -> bool:
    """True with probability p, exactly, where bounds(k) encloses 2^k p, for k = 32, 64, 96 .."""
    k, u = FIRST_BITS, bits.integer(FIRST_BITS)
    while True:
        lo, hi = bounds(k)
        if u < lo:
            return True
        if u >= hi:
            return False
        k, u = k + FIRST_BITS, u << FIRST_BITS | bits.integer(FIRST_BITS)


def bernoulli_exp(num: int, den: int, bits: Bits) -> bool:
    """True with probability e^(-num/den), exactly, for num/den >= 0 of any size.

    Raises:
        ValueError: num < 0 or den < 1.
    """
    if num < 0 or den < 1:
        raise ValueError(f"e^-x is a probability for x >= 0, not for {num}/{den}")
    return bernoulli(lambda k: exp_neg_bounds(num, den, k) if num else (1 << k, 1 << k), bits)


def choice(
    cumulative: Callable[[int], Sequence[tuple[int, int]]], count: int, bits: Bits
) -> NDArray[np.int64]:
    """`count` independent indices of 0 .. m-1, exactly with P(index <= i) as enclosed, as int64.

    cumulative(k) is a sequence of m-1 pairs (lo, hi) with lo <= 2^k P(index <= i) <= hi for i = 0 .. m-2
    (P(index <= m-1) = 1 goes without saying), for k = 32, 64, 96 ..; it is called once per call with
    k = 32, so keep that if it is costly to make.
    """
    drawn = bits.array(count, np.uint32).astype(np.int64)
    at = partial(_thresholds_of, cumulative)
    index, most = between(at(FIRST_BITS), drawn)
    undecided = np.flatnonzero(index != most)
    index[undecided] = refined(at, FIRST_BITS, drawn[undecided], bits)
    return index


class Thresholds(NamedTuple):
    """Bounds of 2^k P(index <= i) for i = 0 .. m-2, each sorted."""

    lo: NDArray[Any]
    hi: NDArray[Any]


def thresholds(bounds: Sequence[tuple[int, int]], k: int) -> Thresholds:
    """Bounds as arrays: int64 while k <= 62, else of Python's integers.

    P(index <= i) grows with i, and so may its bounds, which makes them sorted.
    """
    dtype = np.int64 if k <= _WORD_BITS else np.object_
    lo = list(accumulate((lo for lo, _ in bounds), max))
    hi = list(accumulate((hi for _, hi in reversed(bounds)), min))[::-1]
    return Thresholds(np.array(lo, dtype), np.array(hi, dtype))


def between(at: Thresholds, known: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The least and the greatest index of uniforms that begin with the k bits `known`."""
    return at.hi.searchsorted(known, side="right"), at.lo.searchsorted(known, side="right")


def refined(at: Callable[[int], Thresholds], k: int, known: NDArray[Any], bits: Bits) -> NDArray[np.int64]:
    """The indices of uniforms whose first k bits, `known`, leave them open: 32 more at a time decide."""
    index = np.zeros(known.size, np.int64)
    left = np.arange(known.size)
    while left.size:
        k += FIRST_BITS
        edges, more = at(k), bits.array(left.size, np.uint32)
        known = (known.astype(edges.lo.dtype) << FIRST_BITS) + more.astype(edges.lo.dtype)
        index[left], most = between(edges, known)
        tied = index[left] != most
        left, known = left[tied], known[tied]
    return index


def _thresholds_of(cumulative: Callable[[int], Sequence[tuple[int, int]]], k: int) -> Thresholds:
    return thresholds(cumulative(k), k)
