"""Shares modulo 2^64: the accumulator that starts with a pad, and the sum of a batch (crowd.md 4).

With L one quantum in accumulator units, P the pad, u the dither and S the energy so far,

    A = (u + S - P L) mod 2^64 L,     s = floor(A / L) = (m - P) mod 2^64,     m = floor((u + S) / L).

u - P L is uniform modulo 2^64 L, so A is independent of S: a one-time pad.
"""

from collections.abc import Iterable

MODULUS = 1 << 64
HOMES_MAX = 1 << 20
"""The largest number of reports in a batch."""
QUANTA_MAX = 1 << 40
"""The largest size of a home's energy in quanta. With HOMES_MAX, sums stay below 2^60."""


def open_accumulator(pad: int, dither: int, lattice: int) -> int:
    """Return the accumulator of a slot as it opens: (u - P L) mod 2^64 L.

    Raises:
        ValueError: the pad is not in 0 .. 2^64 - 1, or the dither not in 0 .. L - 1.
    """
    if not (0 <= pad < MODULUS and 0 <= dither < lattice):
        raise ValueError("a pad lies in 0 .. 2^64 - 1 and a dither in 0 .. L - 1")
    return (dither - pad * lattice) % (MODULUS * lattice)


def add(accumulator: int, energy: int, lattice: int) -> int:
    """Return the accumulator with some energy added, which may be negative."""
    return (accumulator + energy) % (MODULUS * lattice)


def close_accumulator(accumulator: int, lattice: int) -> int:
    """Return the share s = floor(A / L) of a slot as it closes."""
    return accumulator // lattice % MODULUS


def total(numbers: Iterable[int]) -> int:
    """Return a sum modulo 2^64."""
    return sum(numbers) % MODULUS


def signed(number: int) -> int:
    """Return a number modulo 2^64 as the signed number from -2^63 to 2^63 - 1."""
    return (number + (MODULUS >> 1)) % MODULUS - (MODULUS >> 1)
