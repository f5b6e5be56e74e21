"""Arithmetic modulo 2^64: the accumulator, which starts from a pad, and the sum of a batch (crowd.md 6).

Let L be one quantum in accumulator units, P the pad, u the dither and S the energy so far. The accumulator A
and the share s are

    A = (u + S - P L) mod 2^64 L,     s = floor(A / L) = (m - P) mod 2^64,     m = floor((u + S) / L).

u - P L is uniform modulo 2^64 L, so A is independent of S: a one-time pad.
"""

from collections.abc import Iterable

MODULUS = 1 << 64
HOMES_MAX = 1 << 20
"""The largest number of reports in a batch."""
QUANTA_MAX = 1 << 40
"""The largest absolute value of a home's energy, in quanta. Sums over `HOMES_MAX` homes are at most 2^60."""


def open_accumulator(pad: int, dither: int, lattice: int) -> int:
    """Return the accumulator of a slot as it opens: (u - P L) mod 2^64 L. Raises ValueError beyond bounds."""
    if not (0 <= pad < MODULUS and 0 <= dither < lattice):
        raise ValueError("the pad must be in 0 .. 2^64 - 1, and the dither in 0 .. L - 1")
    return (dither - pad * lattice) % (MODULUS * lattice)


def add_energy(accumulator: int, energy: int, lattice: int) -> int:
    """Return the accumulator after `energy`, which may be negative, is added modulo 2^64 L."""
    return (accumulator + energy) % (MODULUS * lattice)


def close_accumulator(accumulator: int, lattice: int) -> int:
    """Return the share s = floor(A / L) of a slot as it closes."""
    return accumulator // lattice % MODULUS


def sum_modulo(numbers: Iterable[int]) -> int:
    """Return the sum of the numbers modulo 2^64."""
    return sum(numbers) % MODULUS


def to_signed_64(number: int) -> int:
    """Return the number from -2^63 to 2^63 - 1 that equals `number` modulo 2^64."""
    return (number + (MODULUS >> 1)) % MODULUS - (MODULUS >> 1)
