"""Statistics of an audit: bounds on probabilities and their ratios, p-values, and power (THEORY 6)."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

Floats = NDArray[np.float64]

MISS = 0.1
"""The probability of missing an effect whose size is stated as detectable."""

_EXPECTED = 20.0  # the smallest expected count in a cell of chi-square


def clopper_pearson(successes: Any, trials: int, false_alarm: float) -> tuple[Floats, Floats]:
    """Return bounds (low, high) on a probability, each wrong with a chance of at most false_alarm/2."""
    k = np.asarray(successes, np.float64)
    low = np.where(k > 0, special.betaincinv(np.maximum(k, 1), trials - k + 1, false_alarm / 2), 0)
    high = np.where(k < trials, special.betaincinv(k + 1, np.maximum(trials - k, 1), 1 - false_alarm / 2), 1)
    return low, high


def log_ratio_floor(inside: Any, against: Any, trials: int, false_alarm: float) -> Floats:
    """Bound ln P1/P0 from below by ln(low(P1)/high(P0)), wrong with chance `false_alarm` at most (THEORY 6).

    An event of probability P1 under one window and P0 under another contains `inside` of `trials` draws of
    the first window, and `against` of `trials` of the second. The bound is -inf if `inside` is 0.
    """
    low = clopper_pearson(inside, trials, false_alarm)[0]
    high = clopper_pearson(against, trials, false_alarm)[1]
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(low) - np.log(high))


def prove_loss(t0: Any, t1: Any, false_alarm: float) -> float:
    """Return a lower bound on the absolute log ratio of an event's probabilities under two windows.

    `t0` and `t1` are the values of a statistic T for equally many draws of each window. The event, {T >= c}
    or {T < c}, and the direction of the ratio are chosen on the first half of the draws and tested on the
    second half. The bound is wrong with a chance of at most `false_alarm`.
    """
    half = len(t0) // 2
    cuts = np.unique(np.quantile([t0[:half], t1[:half]], np.arange(65) / 64, method="nearest"))

    def counts(t: Any) -> Any:
        """Count the draws at or above each cut, and the draws below each cut."""
        at_least = half - np.searchsorted(np.sort(t), cuts)
        return np.array([at_least, half - at_least])

    chosen, tested = ([counts(t[part]) for t in (t0, t1)] for part in (slice(half), slice(half, 2 * half)))
    bounds = [log_ratio_floor(chosen[1 - i], chosen[i], half, false_alarm) for i in (0, 1)]
    world, tail, cut = np.unravel_index(int(np.argmax(bounds)), np.shape(bounds))
    return float(log_ratio_floor(tested[1 - world][tail, cut], tested[world][tail, cut], half, false_alarm))


def midrange_power(trials: int, x: float, factor: float, false_alarm: float = 0.05) -> float:
    """Return the exact chance that `trials` windows on each side prove a loss above x if it is factor * x."""
    low, high = clopper_pearson(np.arange(trials + 1), trials, false_alarm)
    threshold = np.searchsorted(low, math.exp(x) * high, side="right")
    against = stats.binom.pmf(np.arange(trials + 1), trials, math.exp(-factor * x) / 2)
    return float(against @ stats.binom.sf(threshold - 1, trials, 0.5))


def chi_square_p(counts: Any, probabilities: Any) -> float:
    """Return Pearson's p-value, with cells merged to expected counts of at least 20; 1 for a single cell."""
    observed_counts = np.asarray(counts, float)
    expected_counts = np.asarray(probabilities, float) * np.sum(counts)
    starts, merged_count, remaining_count = [0], 0.0, float(expected_counts.sum())
    for cell, value in enumerate(expected_counts.tolist()):
        if merged_count >= _EXPECTED <= remaining_count:
            starts.append(cell)
            merged_count = 0.0
        merged_count, remaining_count = merged_count + value, remaining_count - value
    o, e = np.add.reduceat(observed_counts, starts), np.add.reduceat(expected_counts, starts)
    return float(stats.chi2.sf(((o - e) ** 2 / e).sum(), e.size - 1)) if e.size > 1 else 1.0


def binomial_p(successes: Any, trials: Any, probability: Any) -> Floats:
    """Return the two-sided p-value of a number of successes: twice the smaller tail, at most 1."""
    k = np.asarray(successes)
    tails = stats.binom.cdf(k, trials, probability), stats.binom.sf(k - 1, trials, probability)
    return np.asarray(np.minimum(1, 2 * np.minimum(*tails)))
