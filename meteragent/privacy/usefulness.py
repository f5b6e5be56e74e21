"""(alpha, delta)-usefulness: how far outputs are from the true value.

A mechanism is (alpha, delta)-useful if for every x the output is farther than alpha from x with a probability
of at most delta (Blum, Ligett, Roth 2008; Chatzikokolakis 2013, section 5.2). For noise on R^n with density ~
e^(-epsilon norm(z)), for any norm, the norm of the noise is Gamma(n)/epsilon, because the volume of a ball
grows with the n-th power of its radius. So alpha is the same for every norm. It is ln(1/delta)/epsilon for a
number, and the solution of (1 + epsilon alpha) e^(-epsilon alpha) = delta in the plane, under d_2 and under
d_1. Under the l_inf Laplace distribution, alpha is for the largest error of a window; a single reading's
error is smaller (`accuracy.half_width`).

The output of the truncated geometric mechanism on 0..k is farther than j quanta from x with probability
e^(-a(j+1))/(1+e^-a) for each side of x with more than j points: both sides at the worst x if k >= 2(j+1).

*Geolocation* (section 6.2, which states no alpha). Level l within a radius r means epsilon = l/r. To retrieve
everything within some distance of the truth with probability 1 - delta, ask for a circle around the released
point whose radius is larger by `norm_alpha(2, epsilon, delta)`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from meteragent.privacy.channel.exponential import exp
from meteragent.privacy.channel.finite import Channel
from meteragent.privacy.exact import Exact, positive, to_rational
from meteragent.privacy.mechanism.number import TruncatedGeometric
from meteragent.privacy.metric import Distance, Metric


def least_alpha(beyond: Callable[[float], float], delta: float) -> float:
    """Return the least alpha >= 0 with P(d > alpha) = beyond(alpha) <= delta, to a float's last bits."""
    if not 0 < delta < 1:
        raise ValueError(f"delta must lie between 0 and 1, not {delta}")
    if beyond(0.0) <= delta:
        return 0.0
    low, high = 0.0, 1.0
    while beyond(high) > delta:
        low, high = high, 2 * high
    while (middle := (low + high) / 2) not in (low, high):
        low, high = (middle, high) if beyond(middle) > delta else (low, middle)
    return high


def norm_alpha(n: int, epsilon: Exact, delta: float) -> float:
    """Return alpha of noise on R^n with density ~ e^(-epsilon norm(z)): P(Gamma(n) > epsilon alpha) = delta.

    The result holds for any norm and is in the unit of 1/epsilon. It is for the Laplace mechanism on numbers
    if n = 1, for noise on the plane under d_2 or d_1 if n = 2, and for the largest error of a window under
    l_inf Laplace noise for any n. Raises ValueError if epsilon is not positive, n < 1, or delta is not
    between 0 and 1.
    """
    if n < 1:
        raise ValueError(f"noise has at least one dimension, not {n}")
    i = np.arange(n)
    log_factorial = np.concatenate(([0.0], np.cumsum(np.log(i[1:]))))

    def beyond(x: float) -> float:
        """Return P(Gamma(n) > x)."""
        return float(np.sum(np.exp(i * math.log(x) - x - log_factorial))) if x else 1.0

    return least_alpha(beyond, delta) / float(positive("epsilon", epsilon))


def channel_alpha(channel: Channel, metric: Metric, delta: Exact) -> Distance:
    """Return a channel's exact alpha, the least with P(d > alpha) <= delta < 1 at every input."""
    limit = _probability(delta)
    alpha: Distance = Fraction(0)
    for x, row in zip(channel.inputs, channel.rows, strict=True):
        remaining = limit
        by_distance = sorted(((metric(x, z), i) for i, z in enumerate(channel.outputs)), reverse=True)
        for distance, i in by_distance:
            if row[i] > remaining:
                alpha = max(alpha, distance)
                break
            remaining = remaining - row[i]  # type: ignore[assignment]
    return alpha


def geometric_alpha(mechanism: TruncatedGeometric, delta: Exact) -> Fraction:
    """Return the exact alpha, a multiple of the quantum. Raises ValueError if delta is not in [0, 1)."""
    limit, a, k = _probability(delta), mechanism.noise.a, mechanism.k
    low, high = -1, k  # in quanta: the smallest alpha lies above `low` and is at most `high`
    while high - low > 1:
        j = (low + high) // 2
        sides = 2 if k >= 2 * (j + 1) else 1
        low, high = (j, high) if sides * exp(-a * (j + 1)) > limit * (1 + exp(-a)) else (low, j)
    return high * mechanism.noise.quantum


def _probability(delta: Exact) -> Fraction:
    exact = to_rational("delta", delta)
    if not 0 <= exact < 1:
        raise ValueError(f"delta must be at least 0 and below 1, not {exact}")
    return exact
