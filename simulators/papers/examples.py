"""The numerical examples of Chatzikokolakis 2013: registration dates and a smart meter's signature."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from meteragent.privacy import accuracy
from meteragent.privacy.bits import Bits
from meteragent.privacy.bulk import BulkBits
from meteragent.privacy.exact import Exact, positive, require_present
from meteragent.privacy.mechanism.laplace import LInfLaplace
from meteragent.privacy.mechanism.number import Laplace
from meteragent.privacy.usefulness import norm_alpha


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
