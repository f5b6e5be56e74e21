"""Tests of a mechanism that claims to dither: its draws at fractions of a quantum (THEORY A.1.1, A.10).

With L steps per quantum, a slot at m L + r steps is released as y = z + m + B: z is the noise, and B ~
Bernoulli(f), f = r/L, is independent of z. Equal bits produce the same z and the same dither u, so the
releases of a window and of the whole quanta below it differ by B, however large the noise is. With half-up
rounding, no dither, or a dither below a quantum, the rate of rounding up differs from f. A dither derived
from the noise depends on the noise. A dither that is half a quantum too large shifts the mean.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from meteragent.privacy.bits import Bits, SeededBits
from meteragent.privacy.mechanism.window_law import WindowLaw, WindowMechanism
from meteragent.privacy.statistics import binomial_p, chi_square_p

Integers = NDArray[np.int64]

TESTS = 3
"""The number of tests that `dither_tests` yields."""

_PARTS = 4  # a quantum is divided into 4 parts: 1/4, 1/2 and 3/4 are tested, rounded down to steps
_CELLS = 20  # about equally likely cells of the distribution of y - m


def tested_fractions(steps: int) -> Integers:
    """Return 1/4, 1/2 and 3/4 quantum, rounded down to steps, or all whole steps if they are fewer than 4."""
    parts = min(steps, _PARTS)
    return np.array([steps * part // parts for part in range(1, parts)], np.int64)


class _Sample(NamedTuple):
    """Draws at a fraction f: B in all slots and, for one slot per window, z, B and an independent y - m."""

    all_b: Integers
    z: Integers
    b: Integers
    fresh: Integers


def dither_tests(
    mechanism: WindowMechanism, law: WindowLaw, steps: int, count: int, bits: Bits
) -> Iterator[tuple[str, float]]:
    """Yield the name and the p-value of each test of `count` windows; yield nothing if a quantum is one step.

    Fractions alternate over slots and windows. Each p-value is the smallest over the fractions, times the
    number of fractions, but at most 1. All p-values are 0 if any B is neither 0 nor 1.
    """
    parts, row = tested_fractions(steps), np.arange(count)
    if not parts.size:
        return
    kinds = (row[:, np.newaxis] + np.arange(law.n)) % parts.size
    seed = bits.integer(64)
    z = np.asarray(mechanism.release(0 * kinds, bits=SeededBits(seed)))
    b = np.asarray(mechanism.release(parts[kinds], bits=SeededBits(seed))) - z
    fresh = np.asarray(mechanism.release(parts[kinds], bits=bits))
    # The noises of one window are dependent, so z and y - m are those of one slot of each window.
    place = row, row // parts.size % law.n
    p_values = []
    for kind, part in enumerate(parts.tolist()):
        is_chosen = kinds[place] == kind
        arrays = [array[place][is_chosen].astype(np.int64) for array in (z, b, fresh)]
        p_values.append(_p_values(law, part / steps, _Sample(b[kinds == kind], *arrays)))
    is_possible = bool(np.isin(b, (0, 1)).all())
    names = "rounding up", "beside the noise", "at fractions"
    for name, p in zip(names, np.min(p_values, axis=0), strict=True):
        yield name, min(1.0, float(p) * parts.size) if is_possible else 0.0


def _p_values(law: WindowLaw, f: float, sample: _Sample) -> tuple[float, float, float]:
    """Return p-values for the rate of rounding up, for z and B jointly, and for y - m."""
    rate = float(binomial_p(np.count_nonzero(sample.all_b), sample.all_b.size, f))
    ends = law.quantiles([0.5], 1)
    cuts = np.concatenate([-1 - ends, [-1], ends])
    cell, chance = np.searchsorted(cuts, sample.z), np.diff(law.probability_below(cuts), prepend=0, append=1)
    counts = np.bincount(cell + chance.size * (sample.b > 0), minlength=2 * chance.size)
    joint = chi_square_p(counts, np.outer([1 - f, f], chance).ravel())
    ends = law.quantiles(np.arange(1, _CELLS) / _CELLS, 1)
    cuts = np.unique([-1 - ends, ends])
    chance = np.diff(
        (1 - f) * law.probability_below(cuts) + f * law.probability_below(cuts - 1), prepend=0, append=1
    )
    output = chi_square_p(np.bincount(np.searchsorted(cuts, sample.fresh), minlength=chance.size), chance)
    return rate, joint, output
