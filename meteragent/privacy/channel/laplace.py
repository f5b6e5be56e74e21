"""The Laplace mechanism of a space of up to seven points, or the proof that there is none.

Chatzikokolakis 2013, Definition 6: a Laplace mechanism with inputs and outputs Y has the probabilities

    P(z | y) = lambda(z) e^(-epsilon d(y, z)),        lambda >= 0 on Y,

with the same lambda for all y. So lambda cancels in the odds, and the mechanism is epsilon d-private (Fact
7). The exponential mechanism normalises each row separately, so its loss may be twice as large.

There is exactly one lambda with rows that sum to 1, if lambda may be negative (THEORY T.10): lambda(z) = det
M_z / det M with M(y, z) = e^(-epsilon d(y, z)), where M_z is M with column z replaced by ones. These are
quotients of sums of powers of e, whose signs are decided exactly. The space has a Laplace mechanism on its
points if and only if no lambda(z) is negative.
"""

from collections.abc import Hashable, Iterable
from fractions import Fraction
from itertools import permutations
from typing import Any

from meteragent.privacy.channel.exponential import Number, Sum, exp
from meteragent.privacy.channel.finite import Channel
from meteragent.privacy.exact import Exact, positive
from meteragent.privacy.metric import Metric

LARGEST = 7
"""The largest number of points, because a determinant of order 7 already has 7! = 5,040 terms."""

Exponents = list[list[Fraction]]
"""A matrix of powers of e, given by their exponents."""


class NoLaplaceMechanism(ValueError):
    """The error if a space has no Laplace mechanism: `densities`, the only solution, has negative values."""

    def __init__(self, densities: dict[Any, Number]) -> None:
        negative = [point for point, density in densities.items() if density.sign < 0]
        super().__init__(f"no Laplace mechanism: the only solution is negative at {negative!r}")
        self.densities = densities


def laplace_densities(points: Iterable[Hashable], metric: Metric, epsilon: Exact) -> dict[Any, Number]:
    """Return the only lambda with sum over z of lambda(z) e^(-epsilon d(y, z)) = 1 for each y, exactly.

    If lambda is negative somewhere, there is no Laplace mechanism. Raises ValueError unless epsilon is
    positive, and there are 1 to 7 different points at positive finite distances.
    """
    level, listed = positive("epsilon", epsilon), tuple(points)
    if not 0 < len(listed) <= LARGEST or len(set(listed)) < len(listed):
        raise ValueError(f"give 1 to {LARGEST} different points, not {listed!r}")
    exponents: Exponents = [[-level * _distance(metric, y, z) for z in listed] for y in listed]
    denominator = _determinant(exponents)
    densities = {}
    for column, point in enumerate(listed):
        replaced = [[*row[:column], Fraction(0), *row[column + 1 :]] for row in exponents]
        densities[point] = Number(_determinant(replaced), denominator)
    return densities


def laplace_channel(points: Iterable[Hashable], metric: Metric, epsilon: Exact) -> Channel:
    """Return the Laplace mechanism of a finite metric space as an exact channel, epsilon d-private.

    Raises NoLaplaceMechanism if there is none, and as `laplace_densities`.
    """
    densities = laplace_densities(points, metric, epsilon)
    if any(density.sign < 0 for density in densities.values()):
        raise NoLaplaceMechanism(densities)
    level = positive("epsilon", epsilon)
    rows = [
        [density * exp(-level * _distance(metric, y, z)) for z, density in densities.items()]
        for y in densities
    ]
    return Channel(densities, densities, rows)


def _distance(metric: Metric, y: Hashable, z: Hashable) -> Fraction:
    """Return the distance between two points, exactly; a float is taken as the number that it represents."""
    if y == z:
        return Fraction(0)
    distance = metric(y, z)
    if not 0 < distance < float("inf"):
        raise ValueError(f"{y!r} and {z!r} must be at a positive finite distance, not {distance}")
    return Fraction(distance)


def _determinant(exponents: Exponents) -> Sum:
    """Return the determinant of the powers of e with these exponents, as a sum over permutations."""
    total: dict[Fraction, Fraction] = {}
    for order in permutations(range(len(exponents))):
        exponent = sum((exponents[i][j] for i, j in enumerate(order)), Fraction(0))
        total[exponent] = total.get(exponent, Fraction(0)) + _parity(order)
    return {r: c for r, c in total.items() if c}


def _parity(order: tuple[int, ...]) -> int:
    """Return 1 for an even permutation, -1 for an odd one."""
    inversions = sum(order[i] > order[j] for j in range(len(order)) for i in range(j))
    return -1 if inversions % 2 else 1
