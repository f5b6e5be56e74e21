"""Statistics of an audit: bounds of probabilities and of their ratios, and Pearson's test (THEORY 6).

Bounds of probabilities are exact (Clopper and Pearson); chi-square's p is that of its limit.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

Floats = NDArray[np.float64]

MISS = 0.1
"""The chance to miss an effect of the size that is stated as detectable."""

_EXPECTED = 20.0  # the least expected count in a cell of chi-square


def clopper_pearson(successes: Any, trials: int, alarm: float) -> tuple[Floats, Floats]:
    """Bound a probability: the truth is below the first, or above the second, with alarm/2 at most."""
    k = np.asarray(successes, np.float64)
    low = np.where(k > 0, special.betaincinv(np.maximum(k, 1), trials - k + 1, alarm / 2), 0)
    high = np.where(k < trials, special.betaincinv(k + 1, np.maximum(trials - k, 1), 1 - alarm / 2), 1)
    return low, high


def lower_bound(inside: Any, against: Any, trials: int, alarm: float) -> Floats:
    """Bound ln P1/P0 from below by ln(low(P1)/high(P0)), wrong with a chance of `alarm` at most (THEORY 6).

    `inside` of `trials` draws were in the event under one window, `against` of as many under the other.
    """
    low, high = clopper_pearson(inside, trials, alarm)[0], clopper_pearson(against, trials, alarm)[1]
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(low) - np.log(high))


def windows_needed(x: float, excess: float, alarm: float = 0.05, miss: float = MISS) -> int:
    """Return the number of windows on each side that show a loss of (1 + excess) x where x is claimed.

    By the midrange it is 2 e^x (z/(excess x))^2, z = z(alarm) + z(miss), 2.93 for 5 % and 10 % (THEORY 6;
    normal approximation).
    """
    z = float(stats.norm.isf(alarm) + stats.norm.isf(miss))
    return math.ceil(2 * math.exp(x) * (z / (excess * x)) ** 2)


def midrange_power(trials: int, x: float, factor: float, alarm: float = 0.05) -> float:
    """Return the exact chance that `trials` windows on each side show more than x if the loss is factor * x.

    The event is {midrange >= shift} of a continuous l_inf law: P1 = 1/2, P0 = e^(-factor x)/2.
    """
    low, high = clopper_pearson(np.arange(trials + 1), trials, alarm)
    needed = np.searchsorted(low, math.exp(x) * high, side="right")
    against = stats.binom.pmf(np.arange(trials + 1), trials, math.exp(-factor * x) / 2)
    return float(against @ stats.binom.sf(needed - 1, trials, 0.5))


def chi_square(counts: Any, probabilities: Any) -> float:
    """Return Pearson's p of counts against probabilities; neighbouring cells join until each expects 20."""
    observed, expected = np.asarray(counts, float), np.asarray(probabilities, float) * np.sum(counts)
    starts, joined, remaining = [0], 0.0, float(expected.sum())
    for cell, value in enumerate(expected.tolist()):
        if joined >= _EXPECTED <= remaining:
            starts.append(cell)
            joined = 0.0
        joined, remaining = joined + value, remaining - value
    o, e = np.add.reduceat(observed, starts), np.add.reduceat(expected, starts)
    return float(stats.chi2.sf(((o - e) ** 2 / e).sum(), e.size - 1)) if e.size > 1 else 1.0


def binomial_p(successes: Any, trials: Any, probability: Any) -> Floats:
    """Return the two-sided p of a number of successes: twice the smaller tail, at most 1."""
    k = np.asarray(successes)
    tails = stats.binom.cdf(k, trials, probability), stats.binom.sf(k - 1, trials, probability)
    return np.asarray(np.minimum(1, 2 * np.minimum(*tails)))
