"""The error of a slot's published total (crowd.md 11).

The error of a total of n homes is the sum of two draws of discrete Laplace noise and of n dithering errors.
The variance of a dithering error is f (1 - f) quanta^2, where f is the fractional part of the home's energy
in quanta. The variance is 1/6 on average over f, and at most 1/4. So with the quantum q, one draw z and the
privacy loss a per quantum,

    sd = q sqrt(2 Var z + n/6),     Var z = 1 / (2 sinh(a/2)^2).

`crowd_half_width` is for the worst loads, with n/4 instead of n/6. The error's distribution lies between that
of the two draws, which dominate if a is small, and the normal distribution, which many dithering errors
approach. So the half-width is the larger of these two distributions' half-widths at a standard deviation of
1, times the error's standard deviation, plus half a quantum for the lattice.
"""

import math

from meteragent.privacy.mechanism.laplace import LInfLaplace
from meteragent.privacy.totals import Part, half_width_of_total, sd_of_total

COVERAGE = 0.95
_DITHER_MEAN, _DITHER_MAX = 1 / 6, 1 / 4


def crowd_sd(noise: LInfLaplace, homes: int) -> float:
    """Return the standard deviation of a total of `homes` homes, in the unit of the quantum."""
    return _deviation(noise, homes * _DITHER_MEAN)


def crowd_half_width(noise: LInfLaplace, homes: int, coverage: float = COVERAGE) -> float:
    """Return the half-width, in the quantum's unit, of the interval around a total of `homes` homes."""
    from statistics import NormalDist  # noqa: PLC0415 -- 0.2 MB, which an agent does not need

    two_draws, quantum = [Part(noise, windows=2)], float(noise.quantum)
    rounding_sd = quantum / math.sqrt(6)  # of the two rounding errors that `half_width_of_total` includes
    draws_factor = half_width_of_total(two_draws, coverage) / math.hypot(sd_of_total(two_draws), rounding_sd)
    normal_factor = NormalDist().inv_cdf((1 + coverage) / 2)
    return max(draws_factor, normal_factor) * _deviation(noise, homes * _DITHER_MAX) + quantum / 2


def _deviation(noise: LInfLaplace, dither_variance: float) -> float:
    draw_variance = 1 / (2 * math.sinh(float(noise.a) / 2) ** 2)
    return float(noise.quantum) * math.sqrt(2 * draw_variance + dither_variance)
