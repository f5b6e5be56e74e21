"""Randomised response by coins, and a release that is not private (Pauwels 2016).

A yes or no is answered truthfully if a first coin says so, with probability t, and else by a fair coin:

    P(true answer) = (1+t)/2,   P(false answer) = (1-t)/2,   odds (1+t)/(1-t).

Two fair coins, t = 1/2, give odds of exactly 3: epsilon = ln 3. Here the coins are what is exact, and epsilon
is irrational; `Categorical` is the other way round.

From N answers the share of true yeses is estimated by (y - (1-t)/2)/t, y the share of yeses in the answers.
Answers have the variance (1+t)/2 (1-t)/2 whatever the truth, so the estimate is unbiased and off by

    sd = sqrt((1 - t^2)/N) / (2t),        for two fair coins sqrt(3/(4N)).
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from meteragent.privacy import sampling
from meteragent.privacy.exact import Exact, ln_bounds, positive
from meteragent.privacy.mechanism.base import Guarantee
from meteragent.privacy.space import Categories, Databases

_EPSILON_BITS = 64


class Estimate(NamedTuple):
    """A share of yeses, and the standard deviation of its error (both as floats)."""

    share: float
    sd: float


@dataclass(frozen=True, init=False)
class RandomisedResponse:
    """Yes or no, the truth with probability `truth`, else a fair coin: odds of (1+t)/(1-t) (Pauwels 2016).

    Raises:
        TypeError: `truth` is not exact; the text shows what to write.
        ValueError: it is not between 0 and 1.
    """

    truth: Fraction

    def __init__(self, truth: Exact = Fraction(1, 2)) -> None:
        exact = positive("truth", truth)
        if exact >= 1:
            raise ValueError(f"truth must be below 1, or nothing is hidden, not {exact}")
        object.__setattr__(self, "truth", exact)

    @property
    def space(self) -> Categories:
        """False and True."""
        return Categories([False, True])

    @property
    def odds(self) -> Fraction:
        """How much an answer changes the odds, e^epsilon = (1+t)/(1-t): 3 for two fair coins, exactly."""
        return (1 + self.truth) / (1 - self.truth)

    @property
    def guarantee(self) -> Guarantee:
        """(ln odds, 0), rounded up by less than 2^-60."""
        return Guarantee(Fraction(ln_bounds(self.odds, _EPSILON_BITS)[1], 1 << _EPSILON_BITS), Fraction(0))

    def release(self, points: ArrayLike, *, bits: sampling.Bits | None = None) -> NDArray[np.bool_]:
        """An answer for each of `points`, booleans or 0 and 1, of any shape; as booleans of that shape.

        Each is charged. `bits` are the operating system's unless given.

        Raises:
            ValueError: a value is neither yes nor no.
        """
        source = sampling.BulkBits() if bits is None else bits
        given = np.asarray(points)
        if not np.isin(given, [0, 1]).all():
            raise ValueError("an answer is yes or no: give booleans, or 0 and 1")
        truthful = sampling.choice(self._truthful_bounds, given.size, source) == 0
        fair = sampling.below_array(2, given.size, source) == 1
        return np.asarray(np.where(truthful, given.ravel() == 1, fair).reshape(given.shape))

    def _truthful_bounds(self, k: int) -> list[tuple[int, int]]:
        """Integers below and above 2^k t, one pair: what `sampling.choice` asks for two outcomes."""
        t = self.truth * (1 << k)
        return [(math.floor(t), math.ceil(t))]

    def log_mass(self, outputs: ArrayLike, point: object) -> NDArray[np.float64]:
        """The logarithm of P(answer | truth) of each of `outputs` for the truth `point`."""
        t = float(self.truth)
        return np.where(np.asarray(outputs) == point, math.log1p(t), math.log1p(-t)) - math.log(2)

    def estimate(self, answers: ArrayLike) -> Estimate:
        """The share of true yeses behind `answers`, without bias, so it may leave [0, 1]; and its sd.

        Raises:
            ValueError: there are no answers.
        """
        given, t = np.asarray(answers), float(self.truth)
        if not given.size:
            raise ValueError("a share needs at least one answer")
        return Estimate((float(given.mean()) - (1 - t) / 2) / t, math.sqrt((1 - t**2) / given.size) / (2 * t))


@dataclass(frozen=True)
class RandomRow:
    """One row of n, drawn at random, released as it is: private for no epsilon (Pauwels 2016).

    A row that occurs in one database and in no neighbour is released with probability 1/n, and so identifies:
    the odds there are infinite. As a pair it is (0, 1/n), and that for delta below 1/n no epsilon helps shows
    what such a delta is worth: a delta must be far below one over the number of people.
    """

    space: Databases

    @property
    def guarantee(self) -> Guarantee:
        """(0, 1/n) between neighbours; no larger epsilon has a smaller delta."""
        return Guarantee(Fraction(0), Fraction(1, self.space.n))

    def release(self, points: ArrayLike, *, bits: sampling.Bits | None = None) -> NDArray[np.generic]:
        """A row of each database of `points`, of shape (..., n), in shape (...).

        Raises:
            ValueError: the last axis is not n.
        """
        source = sampling.BulkBits() if bits is None else bits
        given = np.asarray(points)
        if given.ndim == 0 or given.shape[-1] != self.space.n:
            raise ValueError(f"databases have shape (..., {self.space.n}), not {given.shape}")
        databases = given.reshape(-1, self.space.n)
        row = sampling.below_array(self.space.n, len(databases), source)
        return databases[np.arange(len(databases)), row].reshape(given.shape[:-1])

    def log_mass(self, outputs: ArrayLike, point: ArrayLike) -> NDArray[np.float64]:
        """The logarithm of the share of `point`, a database, that equals each of `outputs`; -inf for none."""
        same = np.asarray(outputs)[..., np.newaxis] == np.asarray(point)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(same.mean(axis=-1)))
