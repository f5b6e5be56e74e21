"""Randomised response by coin tosses, and a release that is not private (Pauwels 2016).

A first coin selects the true yes or no with probability t; otherwise a second, fair coin gives the answer:

    P(true answer) = (1+t)/2,   P(false answer) = (1-t)/2,   odds (1+t)/(1-t).

Two fair coins, t = 1/2, give odds of exactly 3: epsilon = ln 3. Here the probabilities are exact and epsilon
is irrational; in `Categorical` epsilon is exact and the probabilities are irrational.

From N answers, the share of true yeses is estimated by (y - (1-t)/2)/t, where y is the share of yeses in the
answers. The estimate is unbiased. The variance of an answer is (1+t)/2 (1-t)/2 for either truth, so the error
of the estimate has the standard deviation

    sqrt((1 - t^2)/N) / (2t),        which is sqrt(3/(4N)) for two fair coins.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from meteragent.privacy import sampling
from meteragent.privacy.exact import Exact, ln_bounds, positive, require_present
from meteragent.privacy.mechanism.base import Guarantee
from meteragent.privacy.space import Categories, Databases

_EPSILON_BITS = 64


class Estimate(NamedTuple):
    """An estimated share of yeses, and the standard deviation of its error."""

    share: float
    sd: float


@dataclass(frozen=True, init=False)
class RandomisedResponse:
    """Yes or no: the truth with probability t = `truth`, otherwise a fair coin (Pauwels 2016).

    The odds are (1+t)/(1-t). Raises ValueError if `truth` is not above 0 and below 1.
    """

    truth: Fraction

    def __init__(self, truth: Exact = Fraction(1, 2)) -> None:
        exact = positive("truth", truth)
        if exact >= 1:
            raise ValueError(f"truth must be below 1, not {exact}: at 1 nothing is hidden")
        object.__setattr__(self, "truth", exact)

    @property
    def space(self) -> Categories:
        """The space of False and True."""
        return Categories([False, True])

    @property
    def odds(self) -> Fraction:
        """The factor by which an answer changes the odds, e^epsilon = (1+t)/(1-t): 3 for two fair coins."""
        return (1 + self.truth) / (1 - self.truth)

    @property
    def guarantee(self) -> Guarantee:
        """The pair (ln odds, 0), with ln odds rounded up by less than 2^-60."""
        return Guarantee(Fraction(ln_bounds(self.odds, _EPSILON_BITS)[1], 1 << _EPSILON_BITS), Fraction(0))

    def release(self, points: ArrayLike, *, bits: sampling.Bits | None = None) -> NDArray[np.bool_]:
        """Release an answer for each of `points`, booleans or 0 and 1 in an array of any shape."""
        source = sampling.source_of(bits)
        values = require_present(points)
        if not np.isin(values, [0, 1]).all():
            raise ValueError("an answer must be yes or no: give booleans, or 0 and 1")
        is_truthful = sampling.choice(self._truthful_bounds, values.size, source) == 0
        coin = sampling.below_array(2, values.size, source) == 1
        return np.asarray(np.where(is_truthful, values.ravel() == 1, coin).reshape(values.shape))

    def _truthful_bounds(self, k: int) -> list[tuple[int, int]]:
        """Return integers lo <= 2^k t <= hi, as the list of one pair that `sampling.choice` needs."""
        t = self.truth * (1 << k)
        return [(math.floor(t), math.ceil(t))]

    def log_mass(self, outputs: ArrayLike, point: object) -> NDArray[np.float64]:
        """Return ln P(answer | truth) for each answer of `outputs` and the truth `point`."""
        t = float(self.truth)
        return np.where(np.asarray(outputs) == point, math.log1p(t), math.log1p(-t)) - math.log(2)

    def estimate(self, answers: ArrayLike) -> Estimate:
        """Return an unbiased estimate of the share of true yeses behind `answers`, and its deviation."""
        array, t = np.asarray(answers), float(self.truth)
        if not array.size:
            raise ValueError("a share needs at least one answer")
        return Estimate((float(array.mean()) - (1 - t) / 2) / t, math.sqrt((1 - t**2) / array.size) / (2 * t))


@dataclass(frozen=True)
class RandomRow:
    """One row of n, drawn at random and released unchanged: private for no epsilon (Pauwels 2016).

    A row that occurs in one database but not in its neighbour is released with probability 1/n and then
    identifies the database, so the odds are infinite. The mechanism has the pair (0, 1/n); no epsilon holds
    with a delta below 1/n. So a delta of 1/n is a weak promise: delta must be far below one over the number
    of people.
    """

    space: Databases

    @property
    def guarantee(self) -> Guarantee:
        """The pair (0, 1/n) between neighbours; no larger epsilon has a smaller delta."""
        return Guarantee(Fraction(0), Fraction(1, self.space.n))

    def release(self, points: ArrayLike, *, bits: sampling.Bits | None = None) -> NDArray[np.generic]:
        """Release a row of each database, (..., n) to (...). Raises ValueError for another number of rows."""
        source = sampling.source_of(bits)
        values = require_present(points)
        if values.ndim == 0 or values.shape[-1] != self.space.n:
            raise ValueError(f"databases have shape (..., {self.space.n}), not {values.shape}")
        databases = values.reshape(-1, self.space.n)
        row = sampling.below_array(self.space.n, len(databases), source)
        return databases[np.arange(len(databases)), row].reshape(values.shape[:-1])

    def log_mass(self, outputs: ArrayLike, point: ArrayLike) -> NDArray[np.float64]:
        """Return, for each of `outputs`, the log of the share of rows of `point` that equal it (or -inf)."""
        is_equal = np.asarray(outputs)[..., np.newaxis] == np.asarray(point)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(is_equal.mean(axis=-1)))
