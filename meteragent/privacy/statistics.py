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
"""The chance to miss what is said to be found."""

_EXPECTED = 20.0  # in a cell of chi-square


def clopper_pearson(successes: Any, trials: int, alarm: float) -> tuple[Floats, Floats]:
    """Bounds of a probability; the truth is below the first, or above the second, with alarm/2 at most."""
    k = np.asarray(successes, np.float64)
    low = np.where(k > 0, special.betaincinv(np.maximum(k, 1), trials - k + 1, alarm / 2), 0)
    high = np.where(k < trials, special.betaincinv(k + 1, np.maximum(trials - k, 1), 1 - alarm / 2), 1)
    return low, high


def lower_bound(inside: Any, against: Any, trials: int, alarm: float) -> Floats:
    """ln(low(P1)/high(P0)): more than ln P1/P0 with a chance of `alarm` at most (THEORY 6).

    `inside` of `trials` draws were in the event under one window, `against` of as many under the other.
    """
    low, high = clopper_pearson(inside, trials, alarm)[0], clopper_pearson(against, trials, alarm)[1]
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(low) - np.log(high))


def windows_needed(x: float, excess: float, alarm: float = 0.05, miss: float = MISS) -> int:
    """Windows a side that show a loss of (1 + excess) x where x is claimed: 2 e^x (z/(excess x))^2.

    By the midrange; z = z(alarm) + z(miss), 2.93 for 5 % and 10 % (THEORY 6; normal approximation).
    """
    z = float(stats.norm.isf(alarm) + stats.norm.isf(miss))
    return math.ceil(2 * math.exp(x) * (z / (excess * x)) ** 2)


def midrange_power(trials: int, x: float, factor: float, alarm: float = 0.05) -> float:
    """The chance that `trials` windows a side show more than x where the loss is factor * x, exactly.

    The event is {midrange >= shift} of a continuous l_inf law: P1 = 1/2, P0 = e^(-factor x)/2.
    """
    low, high = clopper_pearson(np.arange(trials + 1), trials, alarm)
    needed = np.searchsorted(low, math.exp(x) * high, side="right")
    against = stats.binom.pmf(np.arange(trials + 1), trials, math.exp(-factor * x) / 2)
    return float(against @ stats.binom.sf(needed - 1, trials, 0.5))


def chi_square(counts: Any, probabilities: Any) -> float:
    """Pearson's p of counts against probabilities; neighbouring cells are joined until each expects 20."""
    observed, expected = np.asarray(counts, float), np.asarray(probabilities, float) * np.sum(counts)
    starts, held, left = [0], 0.0, float(expected.sum())
    for cell, value in enumerate(expected.tolist()):
        if held >= _EXPECTED <= left:
            starts.append(cell)
            held = 0.0
        held, left = held + value, left - value
    o, e = np.add.reduceat(observed, starts), np.add.reduceat(expected, starts)
    return float(stats.chi2.sf(((o - e) ** 2 / e).sum(), e.size - 1)) if e.size > 1 else 1.0


def binomial_p(successes: Any, trials: Any, probability: Any) -> Floats:
    """Return the two-sided p of so many successes: twice the smaller tail, at most 1."""
    k = np.asarray(successes)
    tails = stats.binom.cdf(k, trials, probability), stats.binom.sf(k - 1, trials, probability)
    return np.asarray(np.minimum(1, 2 * np.minimum(*tails)))
