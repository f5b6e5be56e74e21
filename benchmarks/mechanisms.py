"""Exact noise, compared with numpy's floating-point noise and with the peers' discrete noise.

`python -m benchmarks.mechanisms [--out FILE]`. A ratio is our readings per CPU-second divided by theirs. Our
mechanisms are called as a user of the library calls them, with bits from OpenSSL's generator; rows "kernel's
bits" use the same source as the agent. numpy's generator is PCG64, which is not secret, and the other peers
use their defaults. The level is that of the default preset: 1 at 220 quanta. No peer implements the l_inf
mechanism. Where our mechanism releases a window of n readings, the peers add independent noise of the same
scale to n readings, which is n times less private. The time of OpenDP and diffprivlib is linear in the number
of readings from 1,440 on, so these two get at most 1,440 readings.

Other rows compare our generator of large arrays of bits with the kernel's, and the random bytes drawn per
reading with the distribution's entropy, a lower bound for every sampler. The rows "time and the secret"
compare a call on windows at the top of the range with a call on windows of zeros. A ratio of about 1 means
that both calls take the same CPU time. The ratio covers neither caches nor later steps, such as writing a
record, whose length depends on the noisy value. These steps are timed by `tests/commands/timing.py`.
"""

import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from benchmarks.harness import ROUNDS, Result, Row, compare, peer, report, run
from meteragent.privacy.bits import Bits, SystemBits
from meteragent.privacy.bulk import BulkBits
from meteragent.privacy.mechanism.laplace import LInfLaplace
from meteragent.privacy.mechanism.number import Laplace, TruncatedGeometric

SCALE = 220
A = Fraction(1, SCALE)
PEER_COUNT, VALUE, HIGH, RANGE = 1440, 512, 1000, 20_000
SLOTS = (1, 4, 48, 96, 1440)
GOALS: dict[tuple[str, str, int, int], float] = {
    **{("l_inf noise", "numpy", 1000, n): goal for n, goal in zip(SLOTS, (1, 1, 3, 3.5, 3.5), strict=True)},
    ("l_inf noise", "numpy", 1, 1): 0.3,
    ("l_inf noise", "numpy", 1, 96): 0.1,
    ("l_inf noise", "numpy", 1, 1440): 0.5,
    ("discrete Laplace", "numpy", 1000, 1440): 0.6,
    ("discrete Laplace", "OpenDP", 1, 1440): 30,
    ("truncated geometric", "OpenDP", 1, 1440): 30,
}
"""Goals by mechanism, peer, number of arrays at once, and number of values in an array."""

SCALAR_KINDS = ("discrete Laplace", "truncated geometric")
BITS = SystemBits()
BULK = 1 << 20
ENTROPY = "entropy of its distribution"
LEAST_SAMPLE = 20_000

Call = Callable[[], object]


class CountedBits(SystemBits):
    """The operating system's bits, with a count of the bytes drawn."""

    def __init__(self) -> None:
        super().__init__()
        self.byte_count = 0

    def _take(self, size: int) -> bytes:
        """Take bits as `SystemBits` does, and count their bytes."""
        self.byte_count += size
        return super()._take(size)


class Mechanism(Protocol):
    """The methods of a mechanism that are measured."""

    def release(self, points: ArrayLike, /, *, bits: Bits | None = None) -> NDArray[np.int64]:
        """Release points with noise."""

    def log_mass(self, outputs: ArrayLike, point: Any, /) -> NDArray[np.float64]:
        """Return the log probability of each output."""


@dataclass(frozen=True)
class Case:
    """A mechanism, applied to `count` arrays of `n` values at once."""

    kind: str
    mechanism: Mechanism
    count: int
    n: int

    @property
    def name(self) -> str:
        """The name of the row."""
        noun = "vector" if self.kind in SCALAR_KINDS else "window"
        return f"{self.kind}, {f'{self.count:,} {noun}s' if self.count > 1 else f'a {noun}'} of {self.n:,}"

    @property
    def values(self) -> NDArray[np.int64]:
        """The values to which noise is added, shape (count, n)."""
        return np.full((self.count, self.n), VALUE)

    @property
    def point(self) -> object:
        """The point that is released, in the form that `log_mass` takes: a number, or an array of n."""
        return VALUE if self.kind in SCALAR_KINDS else np.full(self.n, VALUE)


def cases() -> Iterator[Case]:
    """Yield all mechanisms for each n in `SLOTS`, for 1,000 arrays at once and for one array."""
    for count in (1000, 1):
        for n in SLOTS:
            yield Case("l_inf noise", LInfLaplace(A, 1, n), count, n)
            yield Case("discrete Laplace", Laplace(A, 1), count, n)
            yield Case("truncated geometric", TruncatedGeometric(A, 1, HIGH), count, n)


# Comparisons with the peers -----------------------------------------------------------------------


def with_numpy(case: Case) -> tuple[Call, int]:
    """Return a function that draws floating-point noise, and the number of readings that it covers.

    For the truncated geometric mechanism, the function also adds the noise to the value and clamps the sum.
    """
    generator, shape = np.random.default_rng(), (case.count, case.n)
    if case.kind == "truncated geometric":
        return lambda: np.clip(VALUE + generator.laplace(0, SCALE, shape), 0, HIGH), case.count * case.n
    return lambda: generator.laplace(0, SCALE, shape), case.count * case.n


def with_opendp(case: Case) -> tuple[Call, int]:
    """Return a function that adds OpenDP's discrete noise to a vector, and the vector's length.

    For the truncated geometric mechanism, the function also clamps the sums.
    """
    dp = peer("opendp.prelude")
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i32")), dp.l1_distance(T="i32")
    noise = dp.m.make_laplace(*space, scale=float(SCALE))
    values = np.full(min(case.count * case.n, PEER_COUNT), VALUE, np.int32)
    if case.kind == "truncated geometric":
        return lambda: np.clip(noise(values), 0, HIGH), values.size
    return lambda: noise(values), values.size


def with_diffprivlib(case: Case) -> tuple[Call, int]:
    """Return a function that adds diffprivlib's discrete noise, one number at a time, and the count.

    For the truncated geometric mechanism, the peer's mechanism is truncated, too.
    """
    library = peer("diffprivlib.mechanisms")
    values = [VALUE] * min(case.count * case.n, PEER_COUNT)
    if case.kind == "truncated geometric":
        noise = library.GeometricTruncated(epsilon=1, sensitivity=SCALE, lower=0, upper=HIGH)
    else:
        noise = library.Geometric(epsilon=1, sensitivity=SCALE)
    return lambda: [noise.randomise(value) for value in values], len(values)


PEERS = {
    "numpy": (with_numpy, "numpy", "numpy Generator.laplace, PCG64"),
    "OpenDP": (with_opendp, "opendp.prelude", "OpenDP make_laplace"),
    "diffprivlib": (with_diffprivlib, "diffprivlib.mechanisms", "diffprivlib Geometric"),
}
"""The function that returns a peer's call, the module that the call needs, and the peer's name in a row."""


def compare_with_peer(case: Case, name: str) -> Row:
    """Return a row that compares a case with a peer."""
    make, _, against = PEERS[name]
    theirs, count = make(case)
    if case.kind == "truncated geometric":
        against += "Truncated" if name == "diffprivlib" else ", clamped"
    goal = GOALS.get((case.kind, name, case.count, case.n))
    work = case.count * case.n, count
    return Row(case.name, against, call(case, case.values), theirs, goal, work=work, unit="readings")


def with_kernel(case: Case) -> Row:
    """Return a row that compares a case with numpy, but with the agent's source of bits."""
    theirs, count = with_numpy(case)
    values, work = case.values, (case.count * case.n, count)

    def ours() -> object:
        """Add noise to the values."""
        return case.mechanism.release(values, bits=BITS)

    return Row(f"{case.name}, kernel's bits", PEERS["numpy"][2], ours, theirs, work=work, unit="readings")


def call(case: Case, values: NDArray[np.int64]) -> Call:
    """Return a function that adds noise to values, with the default source of bits."""
    return lambda: case.mechanism.release(values)


# Random bytes, and time ---------------------------------------------------------------------------


def random_bytes(case: Case) -> Result:
    """Compare the random bytes per reading with the entropy of the distribution, estimated from releases."""
    calls, bytes_pairs = max(1, LEAST_SAMPLE // (case.count * case.n)), []
    for _ in range(ROUNDS):
        counted_bits, entropy, values = CountedBits(), 0.0, case.values
        for _ in range(calls):
            releases = case.mechanism.release(values, bits=counted_bits)
            entropy -= float(case.mechanism.log_mass(releases, case.point).sum())
        drawn_bytes, entropy_bytes = (
            total / (calls * values.size) for total in (counted_bits.byte_count, entropy / math.log(256))
        )
        bytes_pairs.append((drawn_bytes, entropy_bytes))
    return compare(case.name, ENTROPY, bytes_pairs, "{:.2f} random bytes per reading, at least {:.2f}")


def secret_timings() -> Iterator[Row]:
    """Yield rows that compare the CPU time for values at the top of the range with the CPU time for zeros."""
    against, note = f"all {RANGE:,} quanta, compared with all 0", "1 means equal; CPU time of the call only"
    for count in (1000, 1):
        for case in (
            Case("l_inf noise", LInfLaplace(A, 1, 48), count, 48),
            Case("discrete Laplace", Laplace(A, 1), count, 48),
            Case("truncated geometric", TruncatedGeometric(A, 1, RANGE), count, 48),
        ):
            lowest, highest = np.zeros((count, 48), np.int64), np.full((count, 48), RANGE)
            yield Row(
                f"time and the secret: {case.name}",
                against,
                call(case, highest),
                call(case, lowest),
                note=note,
            )


def generator() -> Row:
    """Return a row that compares our generator of large arrays of bits with the kernel's generator."""
    bits = BulkBits()
    return Row(
        "random bits, 1 MiB at once",
        "the kernel's, os.urandom",
        lambda: bits.array(BULK, np.uint8),
        lambda: os.urandom(BULK),
        work=(BULK, BULK),
        unit="bytes",
    )


def main() -> None:
    """Run the benchmark, and print its results."""
    peers = [name for name, (_, module, _) in PEERS.items() if peer(module) is not None]
    rows = [compare_with_peer(case, name) for case in cases() for name in peers]
    rows += [with_kernel(case) for case in cases() if case.kind == "l_inf noise"]
    results = run([*rows, *secret_timings(), generator()])
    report([*results, *map(random_bytes, cases())], ["numpy", "opendp", "diffprivlib"])


if __name__ == "__main__":
    main()
