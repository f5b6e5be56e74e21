"""Discrete Gaussian numbers: P(z) ~ e^(-z^2/(2 sigma^2)) on Z, for any rational sigma^2.

The method is rejection sampling from discrete Laplace numbers (Canonne, Kamath, Steinke 2020, Algorithm 3).
The envelope touches the distribution at two neighbouring values of |z|, m and m + 1 with m = floor(sigma),
because

    z^2 = (2m+1) |z| - m(m+1) + (|z|-m)(|z|-m-1).

So with b = (2m+1)/(2 sigma^2), a proposal from P(z) ~ e^(-b |z|) is accepted with probability e^(-k/(2
sigma^2)), where k = (|z|-m)(|z|-m-1) is an integer >= 0. This is the probability that a geometric number g
with P(g) ~ e^(-g/(2 sigma^2)) is at least k. So one such number decides exactly, for any denominator of
sigma^2. More than half of the proposals are accepted; for sigma >> 1 the share is sqrt(pi/(2e)) = 76%.
"""

from __future__ import annotations

from fractions import Fraction
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from meteragent.privacy.bits import Bits
from meteragent.privacy.exact import Exact, positive
from meteragent.privacy.sampling.geometric import discrete_laplace, geometric
from meteragent.privacy.sampling.parameters import SCALE_LIMIT

_REACH = 1 << 31  # its square fits into int64; a larger |z|, which is beyond 512 sigma, is clamped to it


def check_variance(sigma2: Exact) -> Fraction:
    """Return `sigma2` as a Fraction; refuse a variance for which noise cannot be drawn.

    Raises:
        TypeError: `sigma2` is not exact.  ValueError: it is not positive, or is at least 2^44.
    """
    exact = positive("sigma^2", sigma2)
    if 2 * exact >= SCALE_LIMIT:
        raise ValueError(
            f"sigma^2 must be below 2^44 quanta^2, not about {float(exact):.3g}: take a coarser quantum"
        )
    return exact


def discrete_gaussian(count: int, sigma2: Exact, bits: Bits) -> NDArray[np.int64]:
    """Draw `count` independent z with P(z) ~ e^(-z^2/(2 sigma2)), as int64 (Canonne, Kamath, Steinke 2020).

    The distribution is exact except beyond 512 sigma, a range with a probability below e^-2^17.

    Raises:
        TypeError: `sigma2` is not exact.  ValueError: sigma2 <= 0 or sigma2 >= 2^44.
    """
    exact = check_variance(sigma2)
    m, unit = isqrt(int(exact)), 1 / (2 * exact)
    draws = np.empty(count, np.int64)
    filled = 0
    while filled < count:
        remaining_count = count - filled
        proposals = remaining_count + remaining_count // 2 + 8
        z = discrete_laplace(proposals, (2 * m + 1) * unit, bits)
        beyond = np.minimum(np.abs(z), _REACH) - m
        accepted = z[geometric(proposals, unit, bits) >= beyond * (beyond - 1)][:remaining_count]
        draws[filled : filled + accepted.size] = accepted
        filled += accepted.size
    return draws
