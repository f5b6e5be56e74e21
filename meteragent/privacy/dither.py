"""Whether a mechanism that claims to dither does: its draws at fractions of a quantum (THEORY-2 A.1.1, A.10).

With L steps to a quantum, a slot at m L + r steps leaves as z + m + B, B ~ Bernoulli(f), f = r/L, independent
of z. Equal bits make equal z and u. So a window, and the whole quanta below it, released with the same bits,
show B itself however large the noise is: half-up rounding, no dither, or a dither of less than a quantum do
not round up as often as f, and a dither made from the noise is not independent of it. A dither that is half a
quantum too large (half up on top of it) shifts the mean by as much, which is seen where the noise is not much
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
_PARTS = 4  # of a quantum: fractions 1/4, 1/2, 3/4, or those next below them
_CELLS = 20


def fractions(steps: int) -> Integers:
    """Return the numbers of steps, of so many to a quantum, at which windows are tried."""
    parts = min(steps, _PARTS)
    return np.array([steps * part // parts for part in range(1, parts)], np.int64)


class _Drawn(NamedTuple):
    """What was drawn at one fraction: B of all slots; of one slot of each window its z, B and y - m."""

    up: Integers
    z: Integers
    b: Integers
    fresh: Integers


def dither_tests(
    mechanism: WindowMechanism, law: WindowLaw, steps: int, count: int, bits: Bits
) -> Iterator[tuple[str, float]]:
    """Yield each test of `count` windows with its p; none where a quantum is one step.

    Fractions are taken in turn, by slots and windows; a p is that of the worst fraction, times their number.
    """
    tried, row = fractions(steps), np.arange(count)
    if not tried.size:
        return
    kinds = (row[:, np.newaxis] + np.arange(law.n)) % tried.size
    seed = bits.integer(64)
    z = np.asarray(mechanism.release(0 * kinds, bits=SeededBits(seed)))
    up = np.asarray(mechanism.release(tried[kinds], bits=SeededBits(seed))) - z
    fresh = np.asarray(mechanism.release(tried[kinds], bits=bits))
    place = row, row // tried.size % law.n
    found = []
    for kind, part in enumerate(tried.tolist()):
        chosen = kinds[place] == kind
        of_one = [array[place][chosen].astype(np.int64) for array in (z, up, fresh)]
        found.append(_tests(law, part / steps, _Drawn(up[kinds == kind], *of_one)))
    is_possible = bool(np.isin(up, (0, 1)).all())
    for name, p in zip(
        ("rounding up", "beside the noise", "at fractions"), np.min(found, axis=0), strict=True
    ):
        yield name, min(1.0, float(p) * tried.size) if is_possible else 0.0


def _tests(law: WindowLaw, f: float, drawn: _Drawn) -> tuple[float, float, float]:
    """Return three p: how often slots round up, with which noise one does, and what leaves of one."""
    often = float(binomial_p(np.count_nonzero(drawn.up), drawn.up.size, f))
    ends = law.quantiles([0.5], 1)
    cuts = np.concatenate([-1 - ends, [-1], ends])
    place, alone = np.searchsorted(cuts, drawn.z), np.diff(law.below(cuts), prepend=0, append=1)
    counts = np.bincount(place + alone.size * (drawn.b > 0), minlength=2 * alone.size)
    with_noise = chi_square(counts, np.outer([1 - f, f], alone).ravel())
    ends = law.quantiles(np.arange(1, _CELLS) / _CELLS, 1)
    cuts = np.unique([-1 - ends, ends])
    alone = np.diff((1 - f) * law.below(cuts) + f * law.below(cuts - 1), prepend=0, append=1)
    leaves = chi_square(np.bincount(np.searchsorted(cuts, drawn.fresh), minlength=alone.size), alone)
    return often, with_noise, leaves
