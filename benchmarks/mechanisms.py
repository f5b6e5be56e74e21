"""Exact noise beside numpy's floating-point noise and beside the peers' discrete noise.

`python -m benchmarks.mechanisms [--out FILE]`. Ratios of readings per CPU-second, ours over theirs; ours
with the operating system's bits, numpy with its own generator, peers as they come. The level is that of
the default preset: 1 at 220 quanta.
"""

from fractions import Fraction
from typing import Any

import diffprivlib.mechanisms as diffprivlib
import numpy as np
import opendp.prelude as dp
from numpy.typing import NDArray

from benchmarks.harness import Row, report, run
from meteragent.privacy.bits import SystemBits, UnsignedArray
from meteragent.privacy.mechanism.laplace import LInfLaplace
from meteragent.privacy.mechanism.number import Laplace, TruncatedGeometric

SCALE = 220
A = Fraction(1, SCALE)
COUNT, HIGH = 1440, 1000
AT_ONCE = {1: 0.3, 4: 0.5, 48: 1, 96: 1, 1440: 1.5}  # DESIGN's goals
ONE_BY_ONE = {96: 0.1, 1440: 0.5}
BITS = SystemBits()


class CountedBits:
    """The operating system's bits, with the bytes that were taken."""

    def __init__(self) -> None:
        self.taken = 0

    def integer(self, k: int) -> int:
        """As `Bits.integer`."""
        self.taken += k + 7 >> 3
        return BITS.integer(k)

    def array(self, count: int, dtype: type[np.unsignedinteger[Any]]) -> UnsignedArray:
        """As `Bits.array`."""
        self.taken += count * np.dtype(dtype).itemsize
        return BITS.array(count, dtype)


def windows(count: int, n: int, goal: float) -> Row:
    """The l_inf noise of `count` windows of n against numpy's Laplace noise on an array of that shape."""
    mechanism, values = LInfLaplace(A, 1, n), np.full((count, n), 512)
    generator, counted = np.random.default_rng(), CountedBits()
    calls = max(1, 1000 // count)
    for _ in range(calls):
        mechanism.release(values, bits=counted)
    return Row(
        f"l_inf noise, {count:,} window{'s' * (count > 1)} of {n:,}",
        "numpy Generator.laplace",
        lambda: mechanism.release(values, bits=BITS),
        lambda: generator.laplace(0, SCALE, (count, n)),
        goal,
        f"{counted.taken / (calls * count * n):.2f} bytes a reading",
    )


def numbers() -> list[Row]:
    """Discrete Laplace and the truncated geometric, a vector of 1,440, against OpenDP and diffprivlib."""
    values: NDArray[np.int32] = np.full(COUNT, 512, np.int32)
    plain, counted = values.tolist(), CountedBits()
    laplace, truncated = Laplace(A, 1), TruncatedGeometric(A, 1, HIGH)
    laplace.release(values, bits=counted)
    note = f"{counted.taken / COUNT:.2f} bytes a reading"
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i32")), dp.l1_distance(T="i32")
    opendp: Any = dp.m.make_laplace(*space, scale=float(SCALE))
    geometric = diffprivlib.Geometric(epsilon=1, sensitivity=SCALE)
    cut = diffprivlib.GeometricTruncated(epsilon=1, sensitivity=SCALE, lower=0, upper=HIGH)

    def ours() -> object:
        return laplace.release(values, bits=BITS)

    def ours_cut() -> object:
        return truncated.release(values, bits=BITS)

    name, name_cut = "discrete Laplace, 1,440 at once", "truncated geometric, 1,440 at once"
    clamped = "OpenDP make_laplace, clamped"
    return [
        Row(name, "OpenDP make_laplace", ours, lambda: opendp(values), 30, note),
        Row(name, "diffprivlib Geometric", ours, lambda: [geometric.randomise(x) for x in plain]),
        Row(name_cut, clamped, ours_cut, lambda: np.clip(opendp(values), 0, HIGH), 30, note),
        Row(name_cut, "diffprivlib GeometricTruncated", ours_cut, lambda: [cut.randomise(x) for x in plain]),
    ]


def main() -> None:
    """Measures everything here."""
    rows = [windows(1000, n, goal) for n, goal in AT_ONCE.items()]
    rows += [windows(1, n, goal) for n, goal in ONE_BY_ONE.items()]
    report(run([*rows, *numbers()]), ["numpy", "opendp", "diffprivlib"])


if __name__ == "__main__":
    main()
