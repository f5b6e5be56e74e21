"""Streams: consecutive windows, totals over windows, and the map from a meter's readings to slot values.

Theory of operation
-------------------
Everything here except `overdraw_loss` is exact (Fraction, int). No noise is drawn here: `Accumulator`
receives it from its caller.

*Slot by slot.* The noise of all n slots of a window is fixed by the draws at its start. So a slot may be
released as soon as it ends, and later readings may react to it: for each history of outputs y, the noises
that two candidate loads x^0 and x^1 need are two fixed vectors, y - x^0(y) and y - x^1(y), at most Delta
apart, whose masses differ by a factor of at most e^(epsilon Delta). Stopping early or observing a prefix is
post-processing (THEORY 3.1). No slot may be drawn beyond the n-th (see `overdraw_loss`).

*Consecutive windows.* An event that spans several blocks is charged in each of them: `SlidingPlan` (THEORY
3.2).

*Totals.* A total can be the sum of the released slots, or a separate query: `TotalVariance` (THEORY 3.3).

*Before the noise.* The map from readings to slot values must not stretch distances. Weighted means with
non-negative public weights that sum to 1 do not stretch them: `hold_means` (time-weighted sample-and-hold,
THEORY 3.7), `typical_day` (THEORY 3.6). So a change by energy E inside one slot of length T moves the slot
values by at most E/T in d_inf: `energy_loss` (THEORY 3.5).

*Sums.* An `Accumulator` never stores a sum in the clear (THEORY 3.4).
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np

from meteragent.privacy.exact import Exact, positive, rational, round_half_up

_TERMS = 40  # terms e^-aR with a larger a R are omitted: e^-40 is below a float's last bit


def overdraw_loss(a: Exact, extra: int) -> float:
    """Return the loss per quantum (d_inf) if n + `extra` slots are drawn from the R of a window of n slots.

    Up to n slots the loss is a. With m = n + extra the probability of the noise is the sum over R >= max|z_i|
    of P(R)/(2R+1)^m, and P(R) ~ (2R+1)^n e^(-aR). So n cancels, and the odds change most where
    max|z_i| goes from 0 to 1, by the factor

        1 + 1 / (sum over R >= 1 of e^(-aR) / (2R+1)^extra).

    At a = 0.1, one slot too many costs 7.25 times a, and 30 cost 330 times a (THEORY 2.1).

    Raises:
        TypeError: a is not exact.  ValueError: a is not positive, or extra is negative.
    """
    step = float(positive("a", a))
    if extra < 0:
        raise ValueError(f"the number of slots beyond the window's end must not be negative: {extra}")
    if extra == 0:
        return step
    # Omitted terms (for a below 4e-5) can only make the loss larger.
    terms = np.arange(1, math.ceil(min(_TERMS / step, 1e6)) + 2, dtype=np.float64)
    # The logarithms are relative to the first term, which may underflow a float.
    logs = -step * (terms - 1) - extra * np.log((2 * terms + 1) / 3)
    log_sum = math.log(float(np.sum(np.exp(logs)))) - step - extra * math.log(3)
    return -log_sum + math.log1p(math.exp(log_sum))


@dataclass(frozen=True, init=False)
class SlidingPlan:
    """Blocks of `block` slots, each a window, so that `span` consecutive slots cost at most `epsilon`.

    The loss between two streams that differ by at most d, and only within `span` consecutive slots, is at
    most epsilon d: they differ in at most c = ceil((span-1)/block) + 1 blocks, and each block is released at
    epsilon/c (THEORY 3.2). `span` counts slots; an interval as long as w slots touches up to w + 1 slots.

    Raises:
        TypeError: epsilon is not exact.  ValueError: a parameter is not positive.
    """

    span: int
    epsilon: Fraction
    block: int

    def __init__(self, span: int, epsilon: Exact, block: int) -> None:
        if span < 1 or block < 1:
            raise ValueError(f"a span and a block need at least one slot, not {span} and {block}")
        object.__setattr__(self, "span", span)
        object.__setattr__(self, "epsilon", positive("epsilon", epsilon))
        object.__setattr__(self, "block", block)

    @classmethod
    def best(cls, span: int, epsilon: Exact) -> Self:
        """Return the plan with the least mean error; of equally good plans, the plan with the shortest block.

        The block is about sqrt(span) and the error about (sqrt(span) + 1)^2 / (2 epsilon). For long spans the
        error tends to half of that of independent noise of scale span/epsilon on each slot.
        """
        return min(
            (cls(span, epsilon, block) for block in range(1, max(span, 1) + 1)),
            key=lambda plan: plan.mean_error,
        )

    def touched(self, length: int) -> int:
        """Return the largest number of blocks that `length` slots can touch: ceil((length-1)/block) + 1.

        Raises:
            ValueError: length < 1.
        """
        if length < 1:
            raise ValueError(f"an event needs at least one slot, not {length}")
        return -(-(length - 1) // self.block) + 1

    @property
    def block_epsilon(self) -> Fraction:
        """The epsilon of each block: epsilon/c."""
        return self.epsilon / self.touched(self.span)

    @property
    def mean_error(self) -> Fraction:
        """A slot's mean absolute error with continuous noise: (block + 1) c / (2 epsilon) (THEORY 1.2)."""
        return (self.block + 1) / (2 * self.block_epsilon)

    def event_epsilon(self, length: int) -> Fraction:
        """Return the cost of an event of `length` slots per unit of d_inf; at `span` slots it is epsilon.

        `block` determines the metric, from d_1 (block = 1: a slot costs 1/span of the whole span) to d_inf
        (block = span: a slot costs half as much as the whole span).
        """
        return self.block_epsilon * self.touched(length)


class TotalVariance(NamedTuple):
    """The variance of the noise of a total of n slots, by the kind of release (THEORY 3.3; continuous noise).

    `summed`: the sum of the released slots of one l_inf window, n(n+1)(n+2)/(3 epsilon^2).
    `independent`: the sum of slots released with independent Laplace noise of scale n/epsilon,
    2n^3/epsilon^2.
    `query`: the total as a separate release (of sensitivity n), charged in addition to the window,
    2n^2/epsilon^2.
    Each of the three releases is, separately, epsilon d_inf-private.
    """

    summed: Fraction
    independent: Fraction
    query: Fraction

    @classmethod
    def of(cls, n: int, epsilon: Exact) -> Self:
        """Compute the variances for windows of n slots at `epsilon`.

        Raises:
            TypeError: epsilon is not exact.  ValueError: epsilon is not positive, or n < 1.
        """
        if n < 1:
            raise ValueError(f"a window needs at least one slot, not {n}")
        unit = 1 / positive("epsilon", epsilon) ** 2
        return cls(Fraction(n * (n + 1) * (n + 2), 3) * unit, 2 * n**3 * unit, 2 * n**2 * unit)


@dataclass(frozen=True)
class Accumulator:
    """The sum of a slot, which starts with the slot's noise: A = z q T + S (THEORY 3.4).

    All three numbers are integers in the same unit: `lattice` is q T (quantum times slot length); `stored` is
    A, the only value that the store holds; S is the sum of value times duration so far. The release is z +
    floor(S/(q T) + 1/2), which is the mechanism's release of the rounded mean, because z is an integer.

    A reader of the store learns A mod q T = S mod q T, because z q T is a multiple of q T (`residue`). This
    residue is the part of the sum below one quantum, without noise: sums with different residues can be
    distinguished with certainty. The remaining part, floor(S/(q T)), has the full noise. So the store is
    epsilon d_inf-private for sums that are a whole number of quanta apart, and the release is so for all
    sums. A reader of the store who also sees the release learns, to within a quantum, how much S grew after
    the store was read.

    Raises:
        ValueError: the lattice is not positive.
    """

    lattice: int
    stored: int

    def __post_init__(self) -> None:
        """Check that the lattice is positive."""
        if self.lattice < 1:
            raise ValueError(f"a quantum times a slot's length must be positive, not {self.lattice}")

    @classmethod
    def born(cls, noise: int, lattice: int) -> Self:
        """Start a slot with its noise, in quanta, before anything is added."""
        return cls(lattice, noise * lattice)

    def add(self, energy: int) -> Self:
        """Add `energy`, value times duration; return the new accumulator."""
        return type(self)(self.lattice, self.stored + energy)

    @property
    def release(self) -> int:
        """The released value at the slot's end, in quanta: floor(A/(q T) + 1/2)."""
        return round_half_up(self.stored, self.lattice)

    @property
    def residue(self) -> int:
        """A mod q T, which is S mod q T for any noise: a reader of the store knows it for certain."""
        return self.stored % self.lattice


def energy_loss(epsilon: Exact, energy: Exact, slot: Exact) -> Fraction:
    """Return the loss for a change by at most `energy` within a slot: epsilon E / T (THEORY 3.5).

    Units must match: epsilon in 1/W, energy in Wh, the slot's length in h. At epsilon = level/radius the loss
    is the level for E = radius T, the hidden energy. On a lattice, round E/T up to whole quanta first.

    Raises:
        TypeError: a parameter is not exact.
        ValueError: energy is negative, or another parameter is not positive.
    """
    exact_energy = rational("energy", energy)
    if exact_energy < 0:
        raise ValueError(f"the energy of a change must not be negative: {exact_energy}")
    return positive("epsilon", epsilon) * exact_energy / positive("slot", slot)


def typical_day(days: Sequence[Sequence[Exact]], bands: Sequence[Sequence[int]]) -> tuple[Fraction, ...]:
    """Return the mean over D days of each band's mean, one number for each band (THEORY 3.6).

    `days` holds the slot values of each day; days may have 23, 24 or 25 hours. `bands` holds the number
    0..k-1 of each slot's band. The bands are public. The weights of each result sum to 1, so the map is
    1-Lipschitz from sup to d_inf, and a change by at most W on one day moves the result by at most W/D in
    d_inf.

    Raises:
        TypeError: a value is not exact.
        ValueError: there is no day, days and bands do not match, or a day lacks a band.
    """
    if not days or [len(day) for day in days] != [len(labels) for labels in bands]:
        raise ValueError("give at least one day, and a band for each slot of each day")
    k = max((band for labels in bands for band in labels), default=-1) + 1
    if not k or any(set(labels) != set(range(k)) for labels in bands):
        raise ValueError(f"each day needs slots in each of the bands 0..{k - 1}")
    totals = [Fraction(0)] * k
    for day, labels in zip(days, bands, strict=True):
        for value, band in zip(day, labels, strict=True):
            totals[band] += rational("value", value) / labels.count(band)
    return tuple(total / len(days) for total in totals)


def hold_means(times: Sequence[int], values: Sequence[Exact], edges: Sequence[int]) -> tuple[Fraction, ...]:
    """Return the exact means over slots of a curve that holds each value until the next (THEORY 3.7).

    `times` and `edges` both increase, and `edges` bound the slots. The first time is not after the first
    edge. For fixed times the map is 1-Lipschitz from the largest difference of values to d_inf. A meter that
    reports on change reports at times that depend on the load. With a dead band, curves within r of each
    other have means within `reported_radius(r, dead_band)`, because the held value is within the dead band of
    its curve. A plain mean of the reports has no such bound.

    Raises:
        TypeError: a value is not exact.
        ValueError: times or edges do not increase, times and values differ in number, there is no slot, or no
            value holds at the start.
    """
    if len(times) != len(values) or any(a >= b for a, b in (*pairwise(times), *pairwise(edges))):
        raise ValueError("times and edges must increase, and each time needs a value")
    if not times or len(edges) < 2 or times[0] > edges[0]:
        raise ValueError("give at least one slot, and a value at or before its start")
    return tuple(_integrate(times, values, start, end) / (end - start) for start, end in pairwise(edges))


def _integrate(times: Sequence[int], values: Sequence[Exact], start: int, end: int) -> Fraction:
    """Return the integral of the held values from start to end."""
    low, high = bisect_right(times, start) - 1, bisect_left(times, end)
    bounds = [start, *times[low + 1 : high], end]
    heights = [rational("value", value) for value in values[low:high]]
    return sum((v * (b - a) for v, (a, b) in zip(heights, pairwise(bounds), strict=True)), Fraction(0))


def reported_radius(radius: Exact, dead_band: Exact) -> Fraction:
    """Return a bound, r + 2 dead_band, on the distance between the slot means of two curves' reports.

    See THEORY 3.7. The curves are within `radius` r of each other at all times.

    Raises:
        TypeError: a parameter is not exact.  ValueError: a parameter is negative.
    """
    r, band = rational("radius", radius), rational("dead_band", dead_band)
    if r < 0 or band < 0:
        raise ValueError(f"a radius and a dead band must not be negative: {r} and {band}")
    return r + 2 * band
