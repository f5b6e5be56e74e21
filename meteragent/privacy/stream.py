"""Streams: windows that follow each other, sums of them, and what a meter's readings become before noise.

Theory of operation
-------------------
Everything here is exact (Fraction, int) and public: no noise is drawn and no secret kept.

*One window at once, slot by slot.* The whole noise of a window of n slots is fixed by what is drawn at its
start, so a slot may leave at once, and the readings may react to what has left: for each history of outputs
y the two candidates' noises are two fixed vectors, y - x^0(y) and y - x^1(y), at most Delta apart, and their
masses differ by at most e^(epsilon Delta); to stop early or to see a prefix is post-processing (THEORY 3.1).
It ends at n: `overdraw_loss`.

*Windows in a row.* An event that spans several blocks is charged in each: `SlidingPlan` (THEORY 3.2).

*Sums.* A total can be the sum of what has left, or a query of its own: `TotalVariance` (THEORY 3.3).

*Before the noise.* What makes slot values of readings must not stretch distances. Weighted means whose
weights are public and sum to 1 do not: `hold_means` (time-weighted sample-and-hold, THEORY 3.7),
`typical_day` (THEORY 3.6). So a change that moves energy E inside one slot of length T moves d_inf by at most
E/T: `energy_loss` (THEORY 3.5).

*A sum that is never stored in the clear.* `Accumulator` (THEORY 3.4).
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np

from meteragent.privacy.exact import Exact, positive, rational, round_half_up

_TERMS = 40  # of e^-aR: e^-40 is below a float's last bit


def overdraw_loss(a: Exact, extra: int) -> float:
    """What one quantum (d_inf) costs if n + `extra` slots are drawn from the R of a window of n.

    Up to n slots it is a. With m = n + extra the law of the noise is the sum over R >= max|z_i| of
    P(R)/(2R+1)^m, and P(R) ~ (2R+1)^n e^(-aR): so n cancels, and the odds change most from 0 to 1, by

        1 + 1 / (sum over R >= 1 of e^(-aR) / (2R+1)^extra).

    At a = 0.1 a single slot too many costs 7.3 times a, 30 cost 330 times (THEORY 2.1).

    Raises:
        TypeError: a is not exact.  ValueError: a is not above zero, or extra is negative.
    """
    step = float(positive("a", a))
    if extra < 0:
        raise ValueError(f"a window may be left early, but not drawn {extra} times beyond its end")
    if extra == 0:
        return step
    # To leave terms out, as below a = 4e-5, can only make the loss larger.
    terms = np.arange(1, math.ceil(min(_TERMS / step, 1e6)) + 2, dtype=np.float64)
    # In units of the first, which may be below what a float can hold.
    logs = -step * (terms - 1) - extra * np.log((2 * terms + 1) / 3)
    log_sum = math.log(float(np.sum(np.exp(logs)))) - step - extra * math.log(3)
    return -log_sum + math.log1p(math.exp(log_sum))


@dataclass(frozen=True, init=False)
class SlidingPlan:
    """Blocks of `block` slots, each a window of its own, so that any `span` slots in a row cost `epsilon`.

    Two streams that differ by at most d, and within `span` consecutive slots only, are told apart at a loss
    of at most epsilon d: they differ in at most c = ceil((span-1)/block) + 1 blocks, and each is released at
    epsilon/c (THEORY 3.2). `span` counts slots; a stretch of clock time of w slots touches w + 1 of them.

    Raises:
        TypeError: epsilon is not exact.  ValueError: a parameter is not above zero.
    """

    span: int
    epsilon: Fraction
    block: int

    def __init__(self, span: int, epsilon: Exact, block: int) -> None:
        if span < 1 or block < 1:
            raise ValueError(f"a span and a block have at least one slot, not {span} and {block}")
        object.__setattr__(self, "span", span)
        object.__setattr__(self, "epsilon", positive("epsilon", epsilon))
        object.__setattr__(self, "block", block)

    @classmethod
    def best(cls, span: int, epsilon: Exact) -> Self:
        """The plan with the least mean error, of equal ones that with the shortest block.

        The block is about sqrt(span) and the error about (sqrt(span) + 1)^2 / (2 epsilon), half of what
        independent noise of scale span/epsilon on each slot costs.
        """
        return min(
            (cls(span, epsilon, block) for block in range(1, max(span, 1) + 1)),
            key=lambda plan: plan.mean_error,
        )

    def touched(self, length: int) -> int:
        """The most blocks that `length` consecutive slots can touch: ceil((length-1)/block) + 1."""
        if length < 1:
            raise ValueError(f"an event has at least one slot, not {length}")
        return -(-(length - 1) // self.block) + 1

    @property
    def block_epsilon(self) -> Fraction:
        """What each block is released at: epsilon/c."""
        return self.epsilon / self.touched(self.span)

    @property
    def mean_error(self) -> Fraction:
        """The mean absolute error of a slot, on R: (block + 1) c / (2 epsilon) (THEORY 1.2)."""
        return (self.block + 1) / (2 * self.block_epsilon)

    def event_epsilon(self, length: int) -> Fraction:
        """What an event of `length` slots costs per unit of d_inf; at `span` slots it is epsilon.

        `block` is the dial between d_1 (1: a slot costs 1/span of the whole) and d_inf (span: as much).
        """
        return self.block_epsilon * self.touched(length)


class TotalVariance(NamedTuple):
    """The variance of the noise of a total of n slots, by what it is made of (THEORY 3.3; on R).

    `summed` the released slots of one l_inf window: n(n+1)(n+2)/(3 epsilon^2);
    `independent` slots released with independent Laplace noise n/epsilon: 2n^3/epsilon^2;
    `query` the total as its own release (its sensitivity is n), charged beside the window: 2n^2/epsilon^2.
    All three are epsilon d_inf-private.
    """

    summed: Fraction
    independent: Fraction
    query: Fraction

    @classmethod
    def of(cls, n: int, epsilon: Exact) -> Self:
        """For windows of n slots at `epsilon`.

        Raises:
            TypeError: epsilon is not exact.  ValueError: epsilon is not above zero, or n < 1.
        """
        if n < 1:
            raise ValueError(f"a window has at least one slot, not {n}")
        unit = 1 / positive("epsilon", epsilon) ** 2
        return cls(Fraction(n * (n + 1) * (n + 2), 3) * unit, 2 * n**3 * unit, 2 * n**2 * unit)


@dataclass(frozen=True)
class Accumulator:
    """A slot's sum that is born with its noise: A = z q T + S (THEORY 3.4).

    All integers, in one unit: `lattice` is q T (quantum times slot length), `stored` is A, which is all that
    a store holds; S is the sum of value times duration so far. The release is z + floor(S/(q T) + 1/2),
    exactly the mechanism's of the rounded mean, because z is an integer.

    What a reader of the store learns: A mod q T = S mod q T, because z q T is a multiple of q T (`residue`).
    That is the part of the sum below one quantum, in the clear: sums that differ in it are told apart for
    certain. For the rest, floor(S/(q T)), the full noise holds. So the store is epsilon d_inf-private for
    sums a whole number of quanta apart, and what leaves is for all. Who reads the store and sees the release
    learns S_end - S_then to within a quantum.

    Raises:
        ValueError: the lattice is not above zero.
    """

    lattice: int
    stored: int

    def __post_init__(self) -> None:
        """Refuse what has no quantum."""
        if self.lattice < 1:
            raise ValueError(f"a quantum times a slot's length is above zero, not {self.lattice}")

    @classmethod
    def born(cls, noise: int, lattice: int) -> Self:
        """With the noise of its slot, in quanta, before anything is added."""
        return cls(lattice, noise * lattice)

    def add(self, energy: int) -> Self:
        """With `energy`, value times duration, added."""
        return type(self)(self.lattice, self.stored + energy)

    @property
    def release(self) -> int:
        """What leaves at the slot's end, in quanta: floor(A/(q T) + 1/2)."""
        return round_half_up(self.stored, self.lattice)

    @property
    def residue(self) -> int:
        """A mod q T, which is S mod q T whatever the noise: what a reader of the store knows for certain."""
        return self.stored % self.lattice


def energy_loss(epsilon: Exact, energy: Exact, slot: Exact) -> Fraction:
    """The loss of a change that moves at most `energy` inside any one slot: epsilon E / T (THEORY 3.5).

    In units that fit: epsilon in 1/W, energy in Wh, the slot's length in h. At epsilon = level/radius it is
    the level where E = radius T, which is the energy hidden. On the lattice E/T counts as the next quantum.

    Raises:
        TypeError: a parameter is not exact.  ValueError: energy is negative, or another not above zero.
    """
    moved = rational("energy", energy)
    if moved < 0:
        raise ValueError(f"an energy that is moved is not negative: {moved}")
    return positive("epsilon", epsilon) * moved / positive("slot", slot)


def typical_day(days: Sequence[Sequence[Exact]], bands: Sequence[Sequence[int]]) -> tuple[Fraction, ...]:
    """The mean over the days of each band's mean: D days become one number per band (THEORY 3.6).

    `days` holds each day's slot values, 23, 24 or 25 hours of them; `bands` the number 0..k-1 of the band
    that each slot belongs to. The bands are public. The weights of each result sum to 1, so it is
    1-Lipschitz from sup to d_inf, and what changes by at most W on one day moves d_inf by at most W/D.

    Raises:
        TypeError: a value is not exact.
        ValueError: there is no day, days and bands do not fit, or some day lacks a band.
    """
    if not days or [len(day) for day in days] != [len(labels) for labels in bands]:
        raise ValueError("there is at least one day, and a band for each slot of each day")
    k = max((band for labels in bands for band in labels), default=-1) + 1
    if not k or any(set(labels) != set(range(k)) for labels in bands):
        raise ValueError(f"each day has slots in each of the bands 0..{k - 1}")
    totals = [Fraction(0)] * k
    for day, labels in zip(days, bands, strict=True):
        for value, band in zip(day, labels, strict=True):
            totals[band] += rational("value", value) / labels.count(band)
    return tuple(total / len(days) for total in totals)


def hold_means(times: Sequence[int], values: Sequence[Exact], edges: Sequence[int]) -> tuple[Fraction, ...]:
    """The exact means over slots of a curve that stands at each value until the next (THEORY 3.7).

    `times` rise and the first is not after the first of `edges`, which rise and bound the slots. For the
    same times it is 1-Lipschitz from the largest difference of values to d_inf. A meter that reports on
    change reports at times that depend on the load: for a dead band, curves within r of each other give
    means within `reported_radius(r, dead_band)`, because what is held is within the dead band of its curve.
    A plain mean of the reports has no such bound.

    Raises:
        TypeError: a value is not exact.
        ValueError: times or edges do not rise, do not fit the values, or nothing stands at the first edge.
    """
    if len(times) != len(values) or any(a >= b for a, b in (*pairwise(times), *pairwise(edges))):
        raise ValueError("times and edges rise, and each time has a value")
    if not times or len(edges) < 2 or times[0] > edges[0]:
        raise ValueError("there is a slot, and a value at its start")
    return tuple(_held(times, values, start, end) / (end - start) for start, end in pairwise(edges))


def _held(times: Sequence[int], values: Sequence[Exact], start: int, end: int) -> Fraction:
    """The integral from start to end."""
    first, last = bisect_right(times, start) - 1, bisect_left(times, end)
    bounds = [start, *times[first + 1 : last], end]
    held = [rational("value", value) for value in values[first:last]]
    return sum((v * (b - a) for v, (a, b) in zip(held, pairwise(bounds), strict=True)), Fraction(0))


def reported_radius(radius: Exact, dead_band: Exact) -> Fraction:
    """How far apart slot means can be whose curves are within `radius`: r + 2 dead_band (THEORY 3.7).

    Raises:
        TypeError: a parameter is not exact.  ValueError: one is negative.
    """
    r, band = rational("radius", radius), rational("dead_band", dead_band)
    if r < 0 or band < 0:
        raise ValueError(f"a radius and a dead band are not negative: {r} and {band}")
    return r + 2 * band
