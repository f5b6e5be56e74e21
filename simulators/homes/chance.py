"""Keyed random numbers: each is a pure function of a seed and a counter, whatever the order of drawing.

Philox4x32-10 (Salmon 2011, Parallel random numbers: as easy as 1, 2, 3) turns a counter and a key into four
words of 32 bits. Here the key is the seed, and the counter consists of a stream (a name for what is drawn), a
home, a day and an index. There is no state: home 7 on day 40 is the same whether it is simulated alone, among
a thousand homes, as part of a year or in another process. The generator uses only array arithmetic, and takes
about 10 ns per number. It is for simulations only, because a seeded generator hides nothing.
"""

from __future__ import annotations

from typing import Final
from zlib import crc32

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_ROUNDS: Final = 10
_MULTIPLIERS: Final = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_KEY_STEPS: Final = 0x9E3779B9, 0xBB67AE85
_LOW_BITS: Final = 0xFFFFFFFF
_LOW: Final = np.uint64(_LOW_BITS)
_HALF: Final = np.uint64(32)
_AT_ONCE: Final = 1 << 13
"""The number of counters processed at once; their words fit into a processor's cache."""
_MOST: Final = 256
"""A limit that Poisson counts do not reach; their means are below 100."""

Words = NDArray[np.uint64]


def philox(counter: tuple[Words, Words, Words, Words], key: int) -> Words:
    """Return four words of 32 bits, shape (4, n), for n counters of four words each (Philox4x32-10).

    The low 32 bits of `key` are its first word.
    """
    words = np.stack(counter)
    for begin in range(0, words.shape[1], _AT_ONCE):
        part = slice(begin, begin + _AT_ONCE)
        words[:, part] = _ten_rounds(words[:, part], key)
    return words


def _ten_rounds(words: Words, key: int) -> Words:
    """Return the words after ten rounds; `words` is overwritten."""
    a, b, c, d = words
    low, high = key & _LOW_BITS, key >> 32
    for _ in range(_ROUNDS):
        product_a, product_c = a * _MULTIPLIERS[0], c * _MULTIPLIERS[1]
        b ^= product_c >> _HALF
        b ^= np.uint64(low)
        d ^= product_a >> _HALF
        d ^= np.uint64(high)
        product_a &= _LOW
        product_c &= _LOW
        a, b, c, d = b, product_c, d, product_a
        low, high = (low + _KEY_STEPS[0]) & _LOW_BITS, (high + _KEY_STEPS[1]) & _LOW_BITS
    return np.stack([a, b, c, d])


def uniforms(seed: int, stream: str, home: ArrayLike, day: ArrayLike = 0, index: ArrayLike = 0) -> Floats:
    """Draw four independent numbers in (0, 1) for every (home, day, index), broadcast: shape (4, …).

    Homes, days and indices count modulo 2³², so there is a day before day 0. Raises ValueError if the seed is
    not in 0 .. 2⁶⁴ - 1.
    """
    if not 0 <= seed < 1 << 64:
        raise ValueError(f"a seed is a whole number from 0 to 2**64 - 1, not {seed}")
    counter = np.broadcast_arrays(index, day, home, crc32(stream.encode()))
    a, b, c, d = (np.asarray(word, np.int64).astype(np.uint64).ravel() & _LOW for word in counter)
    words = philox((a, b, c, d), seed).astype(np.float64).reshape(4, *counter[0].shape)
    words += 0.5
    words *= 2.0**-32
    return words


def normal(u: Floats, v: Floats) -> Floats:
    """Return standard normal numbers from pairs of uniform numbers (Box and Muller 1958)."""
    return np.asarray(np.sqrt(-2 * np.log(u)) * np.cos(2 * np.pi * v), np.float64)


def lognormal(u: Floats, v: Floats, spread: float) -> Floats:
    """Return factors with mean 1 whose logarithm has the standard deviation `spread`."""
    return np.asarray(np.exp(spread * normal(u, v) - spread**2 / 2))


def poisson(uniform: Floats, mean: Floats) -> Integers:
    """Return Poisson counts by inversion: the smallest k whose cumulative probability reaches `uniform`."""
    term = np.exp(-mean)
    total, count = term.copy(), np.zeros(np.shape(uniform), np.int64)
    for k in range(1, _MOST):
        exceeds = uniform > total
        if not exceeds.any():
            break
        count += exceeds
        term = term * mean / k
        total = total + term
    return count
