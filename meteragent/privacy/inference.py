"""Bounds on any attacker's success in distinguishing load shapes; `check` reports `success_bound`.

The attacker knows both shapes, which are equally likely, and sees all releases of the windows in which the
shapes differ. With any test, the attacker is right with a probability of at most (1 + TV)/2, where TV is the
total variation distance between the distributions of the releases under the two shapes. One window is
dominated by the lattice pair at its distance, and any adaptive sequence of windows by the product, P and Q,
of the pairs (THEORY 5.1, 7). For one window of one slot the bound is attained.

With L = ln(P/Q) and mu = sqrt(P Q), 1 - TV = sum min(P, Q) = sum mu e^(-|L|/2). A pair has L = a (k - 2z) for
z = 0..k. There mu is e^(-ak/2)/(1+e^-a) at the ends, z = 0 and z = k, and this value times 1 - e^-a between
them. So mu's Fourier transform is

    phi(t) = e^(-ak/2)/(1+e^-a) (2 cos kt + (1-e^-a) sin((k-1)t)/sin t).

The transform of a product of pairs is the product of the transforms, and 1 - TV is the integral of that
product times the transform of e^(-|L|/2). By the midpoint rule with J points this is a sum of at most 2^13
terms. The rule integrates e^(-|L|/2) together with its copies at distances of 2aJ, of which every second is
negative. The result is too small by at most 6 e^(-aJ) in total for |L| <= 3aJ, and too large only beyond
that, by at most 2 e^(-3aJ/2) (Chernoff: mu(|L| > l) <= 2 e^(-l/2)). J is large enough that the first error is
below 1e-9 and the second below 1e-14. For each window 1e-13 is added to TV, which is more than the rounding
error of the sum. So a bound is never below the true value, and at most slightly above it.

A lattice that is too fine is replaced by one that is 2, 4, 8 .. times as coarse, with distances rounded up: k
quanta become ceil(k/c) steps of at most c quanta, each as private as one quantum of a lattice whose a is c
times as large. So the bound on the coarser lattice is no smaller.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from meteragent.privacy.divergence import LatticePair
from meteragent.privacy.mechanism.laplace import LInfLaplace

_POINTS_LIMIT = 1 << 14  # points of the midpoint rule; half are computed, and the others mirror these
_REACH = 23.0  # the smallest value of the product aJ: 6 e^-23 < 1e-9
_ROUNDING = 1e-13  # more than the rounding error of the sum, for each window

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


def success_bound(mechanism: LInfLaplace, distances: Sequence[Fraction], times: int = 1) -> float:
    """Return an upper bound on any attacker's chance of distinguishing two equally likely load shapes.

    Each of `distances` is how far apart the shapes are in one window (d_inf, in the unit of the quantum,
    before rounding). All of these windows are repeated `times` times: for example, an event of several
    windows takes place on each of `times` days.

    The bound lies between 1/2 (a coin toss, also if all distances are 0) and 1. The bound is not below the
    true value (except for the last bits of a float). For a = epsilon q >= 0.0015 and fewer than 10^5 windows
    it exceeds the value of the discrete Laplace pairs by at most 1e-8. A finer lattice is replaced by a
    coarser one, which adds less than 0.003 to a window's loss. The bound does not fall when a distance or
    `times` grows nor, apart from the effect of a coarser lattice, when epsilon grows (THEORY 5.1, 7). Raises
    ValueError if a distance is negative, or times < 1.
    """
    runs = ((distance, sum(1 for _ in group)) for distance, group in groupby(distances))
    return success_bound_of_runs(mechanism, runs, times)


def success_bound_of_runs(
    mechanism: LInfLaplace, runs: Iterable[tuple[Fraction, int]], times: int = 1
) -> float:
    """Return the `success_bound` of runs: pairs of a distance and the number of windows at that distance."""
    if times < 1:
        raise ValueError(f"an event happens at least once, not {times} times")
    a = float(mechanism.a)
    steps: Counter[int] = Counter()
    for distance, count in runs:
        steps[int(mechanism.loss(distance) / mechanism.a)] += count
    coarse = 1
    while a * coarse * _POINTS_LIMIT < _REACH:
        coarse *= 2
    counts: Counter[int] = Counter()
    for k, count in steps.items():
        if k and count:
            counts[-(-k // coarse)] += count
    if not counts:
        return 0.5
    product = _product_variation(a * coarse, counts, times)
    # The sum of all distances also bounds the product (THEORY 5.1, for the sum over windows).
    total = sum(k * count for k, count in steps.items())
    return (1 + min(product, LatticePair(mechanism.a, times * total).total_variation)) / 2


def _product_variation(a: float, counts: Mapping[int, int], times: int) -> float:
    """Return TV, rounded up, of the product of `counts[k]` pairs for each distance k, all `times` times.

    1 - TV = mean of (product of phi)(t) kernel(t) over t = pi (j + 1/2) / J, 0 <= j < J/2; J = `points`.
    """
    points = 1 << max(1, math.ceil(math.log2(_REACH / a)))
    odd = np.arange(1, points, 2)
    sines = np.sin(np.arange(4 * points) * (math.pi / 2 / points))
    product, log_scale = np.ones(odd.size), 0.0
    for k, count in counts.items():
        shape, log_top = _transform(a, k, odd, sines)
        product *= shape if count == 1 else shape**count
        log_scale += count * log_top
    is_odd = times * sum(k * count for k, count in counts.items()) % 2 == 1
    overlap = math.exp(times * log_scale) * float(np.mean(product**times * _kernel(a, is_odd, odd, sines)))
    return 1 - overlap + times * sum(counts.values()) * _ROUNDING


def _transform(a: float, k: int, odd: Integers, sines: Floats) -> tuple[Floats, float]:
    """Return phi/phi(0) at t = pi odd / (2J), and ln phi(0); `sines` has a full turn in 4J steps."""
    complement = -math.expm1(-a)
    top = 2 + (k - 1) * complement
    angle = odd * (k % sines.size)
    cosine = sines[angle + sines.size // 4 & sines.size - 1]
    shape = 2 * cosine + complement * sines[angle - odd & sines.size - 1] / sines[odd]
    return shape / top, math.log(top) - a * k / 2 - math.log1p(math.exp(-a))


def _kernel(a: float, is_odd: bool, odd: Integers, sines: Floats) -> Floats:
    """Return the sum of e^(-a|m|/2) cos(mt) over all odd m if `is_odd`, else over all even m."""
    complement = -math.expm1(-a)
    denominator: Floats = complement**2 + 4 * math.exp(-a) * sines[odd] ** 2
    if is_odd:
        return 2 * math.exp(-a / 2) * complement * sines[odd + sines.size // 4] / denominator
    return -math.expm1(-2 * a) / denominator
