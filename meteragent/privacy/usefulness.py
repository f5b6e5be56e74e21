"""(alpha, delta)-usefulness, the distance of outputs from the true value, and a paper's numerical examples.

A mechanism is (alpha, delta)-useful if for every x the output is farther than alpha from x with a probability
of at most delta (Blum, Ligett, Roth 2008; Chatzikokolakis 2013, section 5.2). For noise on R^n with density ~
e^(-epsilon norm(z)), for any norm, the norm of the noise is Gamma(n)/epsilon, because the volume of a ball
grows with the n-th power of its radius. So alpha is the same for every norm. It is ln(1/delta)/epsilon for a
number, and the solution of (1 + epsilon alpha) e^(-epsilon alpha) = delta in the plane, under d_2 and under
d_1. Under the l_inf Laplace distribution, alpha is for the largest error of a window; a single reading's
error is smaller (`accuracy.half_width`).

The output of the truncated geometric mechanism on 0..k is farther than j quanta from x with probability
e^(-a(j+1))/(1+e^-a) for each side of x that has more than j points. The worst x has two such sides if
k >= 2(j+1).

*Geolocation* (section 6.2, which states no alpha). Level l within a radius r means epsilon = l/r. To retrieve
everything within some distance of the truth with probability 1 - delta, ask for a circle around the released
point whose radius is larger by `norm_alpha(2, epsilon, delta)`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from meteragent.privacy import accuracy
from meteragent.privacy.bits import Bits
from meteragent.privacy.bulk import BulkBits
from meteragent.privacy.channel.exponential import exp
from meteragent.privacy.channel.finite import Channel
from meteragent.privacy.exact import Exact, positive, rational, require_present
from meteragent.privacy.mechanism.laplace import LInfLaplace
from meteragent.privacy.mechanism.number import Laplace, TruncatedGeometric
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
    exact = rational("delta", delta)
    if not 0 <= exact < 1:
        raise ValueError(f"delta must be at least 0 and below 1, not {exact}")
    return exact


def registration_dates(
    epsilon: Exact, span_days: Exact, radius_days: Exact, delta: float
) -> dict[str, float]:
    """Return alpha of the earliest registration date, in days, under "d_h" and under "d_1".

    This is Chatzikokolakis 2013, Example 1 and Figure 3. The noise is Laplace noise, for two promises:
    epsilon d_h, under which a date may move by the whole span, and (epsilon/radius) d_1, with level epsilon
    for dates within the radius of each other. The scales are span/epsilon and radius/epsilon, and alpha is
    the scale times ln(1/delta). Raises ValueError if epsilon, span or radius is not positive, or delta is not
    between 0 and 1.
    """
    level = positive("epsilon", epsilon)
    scales = {"d_h": positive("span_days", span_days), "d_1": positive("radius_days", radius_days)}
    return {metric: norm_alpha(1, level / days, delta) for metric, days in scales.items()}


class NoisySignature(NamedTuple):
    """A load signature with noise, `values` in quanta, and its promise.

    `reading_epsilon` holds if only one reading differs, and `window_epsilon` for d_inf; both are in 1/unit.
    `alpha` is the half-width of a reading's interval with coverage 1 - delta, in the unit.
    """

    values: NDArray[np.int64]
    reading_epsilon: Fraction
    window_epsilon: Fraction
    alpha: float


def smart_meter(
    signature: ArrayLike, epsilon: Exact, quantum: Exact, delta: float, bits: Bits | None = None
) -> dict[str, NoisySignature]:
    """Release a signature (n integers, in quanta) with three kinds of noise; return a result for each kind.

    This is Chatzikokolakis 2013, Fig. 4, corrected. "per reading" has the scale 1/epsilon, as in the figure,
    and is n epsilon d_inf-private for the window. "independent" has the scale n/epsilon and is epsilon
    d_inf-private. "l_inf" is the l_inf Laplace mechanism, which is epsilon d_inf-private. Raises TypeError if
    epsilon or quantum is not exact, or the signature's values are not integers; ValueError if the signature
    is not an array of n >= 1 numbers, epsilon or quantum is not positive, or delta is not between 0 and 1.
    """
    x, exact = require_present(signature), positive("epsilon", epsilon)
    if x.ndim != 1 or not x.size:
        raise ValueError(f"a signature is an array of n >= 1 readings, not of shape {x.shape}")
    source = BulkBits() if bits is None else bits
    n = x.size

    def noisy(mechanism: Laplace | LInfLaplace, window_epsilon: Fraction) -> NoisySignature:
        """Release the signature by a mechanism."""
        slots = mechanism.n if isinstance(mechanism, LInfLaplace) else 1
        reading = LInfLaplace(mechanism.epsilon, mechanism.quantum, slots)
        half_width = accuracy.half_width(reading, 1 - delta)
        noisy_values = mechanism.release(x, bits=source)
        return NoisySignature(noisy_values, mechanism.epsilon, window_epsilon, half_width)

    return {
        "per reading": noisy(Laplace(exact, quantum), n * exact),
        "independent": noisy(Laplace(exact / n, quantum), exact),
        "l_inf": noisy(LInfLaplace(exact, positive("quantum", quantum), n), exact),
    }
