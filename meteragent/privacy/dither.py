"""Tests of a mechanism that claims to dither: its draws at fractions of a quantum (THEORY-2 A.1.1, A.10).

With L steps to a quantum, a slot at m L + r steps leaves as z + m + B, B ~ Bernoulli(f), f = r/L, independent
of z. Equal bits make equal z and u. So a window, and the whole quanta below it, released with the same bits,
show B itself however large the noise is. Half-up rounding, no dither, or a dither of less than a quantum
round up at another rate than f; a dither made from the noise is not independent of it. A dither that is half
a quantum too large (half up on top of it) shifts the mean by as much, which shows where the noise is not much
larger.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from meteragent.privacy.bits import Bits, SeededBits
from meteragent.privacy.mechanism.window_law import WindowLaw, WindowMechanism
from meteragent.privacy.statistics import binomial_p, chi_square

Integers = NDArray[np.int64]

TESTS = 3
"""The number of tests that `dither_tests` makes."""

_PARTS = 4  # of a quantum: fractions 1/4, 1/2, 3/4, or those next below them
_CELLS = 20  # of the law of y - m, about equally likely


def fractions(steps: int) -> Integers:
    """Return the parts of a quantum of `steps` steps at which windows are tried, in steps."""
    parts = min(steps, _PARTS)
    return np.array([steps * part // parts for part in range(1, parts)], np.int64)


class _Sample(NamedTuple):
    """The draws at one fraction: B of all slots, then z, B and y - m of one slot of each window."""

    up: Integers
    z: Integers
    b: Integers
    fresh: Integers


def dither_tests(
    mechanism: WindowMechanism, law: WindowLaw, steps: int, count: int, bits: Bits
) -> Iterator[tuple[str, float]]:
    """Yield each test of `count` windows with its p-value; no test where a quantum is one step.

    Fractions alternate over slots and windows. A p-value is that of the worst fraction, times the number of
    fractions.
    """
    parts, row = fractions(steps), np.arange(count)
    if not parts.size:
        return
    kinds = (row[:, np.newaxis] + np.arange(law.n)) % parts.size
    seed = bits.integer(64)
    z = np.asarray(mechanism.release(0 * kinds, bits=SeededBits(seed)))
    up = np.asarray(mechanism.release(parts[kinds], bits=SeededBits(seed))) - z
    fresh = np.asarray(mechanism.release(parts[kinds], bits=bits))
    # Slots of one window are dependent: of each window a single slot counts, every fraction and slot in turn.
    place = row, row // parts.size % law.n
    p_values = []
    for kind, part in enumerate(parts.tolist()):
        chosen = kinds[place] == kind
        single = [array[place][chosen].astype(np.int64) for array in (z, up, fresh)]
        p_values.append(_p_values(law, part / steps, _Sample(up[kinds == kind], *single)))
    is_possible = bool(np.isin(up, (0, 1)).all())
    for name, p in zip(
        ("rounding up", "beside the noise", "at fractions"), np.min(p_values, axis=0), strict=True
    ):
        yield name, min(1.0, float(p) * parts.size) if is_possible else 0.0


def _p_values(law: WindowLaw, f: float, sample: _Sample) -> tuple[float, float, float]:
    """Return three p-values: of the rate of rounding up, of z and B together, and of the law of y - m."""
    rate = float(binomial_p(np.count_nonzero(sample.up), sample.up.size, f))
    ends = law.quantiles([0.5], 1)
    cuts = np.concatenate([-1 - ends, [-1], ends])
    cell, chance = np.searchsorted(cuts, sample.z), np.diff(law.below(cuts), prepend=0, append=1)
    counts = np.bincount(cell + chance.size * (sample.b > 0), minlength=2 * chance.size)
    joint = chi_square(counts, np.outer([1 - f, f], chance).ravel())
    ends = law.quantiles(np.arange(1, _CELLS) / _CELLS, 1)
    cuts = np.unique([-1 - ends, ends])
    chance = np.diff((1 - f) * law.below(cuts) + f * law.below(cuts - 1), prepend=0, append=1)
    output = chi_square(np.bincount(np.searchsorted(cuts, sample.fresh), minlength=chance.size), chance)
    return rate, joint, output
