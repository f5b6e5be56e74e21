"""Coins and choices whose probabilities need only be enclosed between integers (rule 2 of the package).

The first k bits of U, uniform on [0, 1), place it in [u, u+1) / 2^k. With integers lo <= 2^k p <= hi, u < lo
implies U < p, and u >= hi implies U >= p. If lo <= u < hi, more bits of U are revealed and p is enclosed more
closely. If the bounds stay a few units apart, this happens with a probability of a few in 2^k.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from meteragent.privacy.bits import Bits

Bounds = Callable[[int], tuple[int, int]]
"""A function of k that returns integers (lo, hi) with lo <= 2^k p <= hi."""

FIRST_BITS = 32
"""The number of bits of U that are revealed at a time; 32 decide all but a few comparisons in 2^32."""

_WORD_BITS = 62  # the largest k for which bounds on 2^k p fit into int64


def bernoulli(bounds: Bounds, bits: Bits, height: int = 0) -> bool:
    """Draw whether height + U < p, exactly, where bounds(k) encloses 2^k p for k = 32, 64, 96 .."""
    k, u = FIRST_BITS, height << FIRST_BITS | bits.integer(FIRST_BITS)
    while True:
        lo, hi = bounds(k)
        if u < lo:
            return True
        if u >= hi:
            return False
        k, u = k + FIRST_BITS, u << FIRST_BITS | bits.integer(FIRST_BITS)


def choice(
    cumulative: Callable[[int], Sequence[tuple[int, int]]], count: int, bits: Bits
) -> NDArray[np.int64]:
    """Draw `count` independent indices from 0 .. m-1 exactly, from bounds on P(index <= i), as int64.

    cumulative(k), for k = 32, 64, 96 .., returns a sequence of m-1 pairs (lo, hi) with
    lo <= 2^k P(index <= i) <= hi for i = 0 .. m-2; P(index <= m-1) = 1 has no pair. Each call of `choice`
    calls `cumulative` once with k = 32: cache its result if it is costly to compute.
    """
    prefix = bits.array(count, np.uint32).astype(np.int64)
    thresholds_at = partial(_thresholds_of, cumulative)
    index, largest_index = index_range(thresholds_at(FIRST_BITS), prefix)
    undecided = np.flatnonzero(index != largest_index)
    index[undecided] = refine_indices(thresholds_at, FIRST_BITS, prefix[undecided], bits)
    return index


class Thresholds(NamedTuple):
    """The lower and the upper bounds on 2^k P(index <= i) for i = 0 .. m-2, each sorted."""

    lo: NDArray[Any]
    hi: NDArray[Any]


def make_thresholds(bounds: Sequence[tuple[int, int]], k: int) -> Thresholds:
    """Convert bounds to sorted arrays, of int64 for k <= 62, otherwise of Python integers.

    P(index <= i) grows with i. So the running maximum of the lower bounds, and the running minimum of the
    upper bounds from the end, are bounds, too, and are sorted.
    """
    dtype = np.int64 if k <= _WORD_BITS else np.object_
    lo = list(accumulate((lo for lo, _ in bounds), max))
    hi = list(accumulate((hi for _, hi in reversed(bounds)), min))[::-1]
    return Thresholds(np.array(lo, dtype), np.array(hi, dtype))


def index_range(thresholds: Thresholds, prefix: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the smallest and the largest index possible for uniform numbers that begin with `prefix`."""
    return thresholds.hi.searchsorted(prefix, side="right"), thresholds.lo.searchsorted(prefix, side="right")


def refine_indices(
    thresholds_at: Callable[[int], Thresholds], k: int, prefix: NDArray[Any], bits: Bits
) -> NDArray[np.int64]:
    """Decide the indices that the first k bits (`prefix`) leave open; use 32 more bits at a time."""
    index = np.zeros(prefix.size, np.int64)
    undecided = np.arange(prefix.size)
    while undecided.size:
        k += FIRST_BITS
        thresholds, suffix = thresholds_at(k), bits.array(undecided.size, np.uint32)
        prefix = (prefix.astype(thresholds.lo.dtype) << FIRST_BITS) + suffix.astype(thresholds.lo.dtype)
        index[undecided], largest_index = index_range(thresholds, prefix)
        is_open = index[undecided] != largest_index
        undecided, prefix = undecided[is_open], prefix[is_open]
    return index


def _thresholds_of(cumulative: Callable[[int], Sequence[tuple[int, int]]], k: int) -> Thresholds:
    return make_thresholds(cumulative(k), k)
