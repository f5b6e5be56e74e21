"""Privacy of load curves under the metric d_inf: the mathematics, usable alone.

It knows nothing of the agent. Parameters are exact (Fraction), random bits are an argument.

    from fractions import Fraction
    from meteragent.privacy import LInfLaplace, sd

    mechanism = LInfLaplace(epsilon=Fraction(1, 220), quantum=Fraction(1), n=1)
    noisy = mechanism.release([[512], [498]])  # two windows of one slot, in quanta
    print(mechanism.loss(Fraction(220)), sd(mechanism))  # level 1 at 220 W; 311.1 W

`exact` rational parameters and certified bounds; `bits` where randomness comes from; `sampling` the exact
samplers; `mechanism` the noise; `composition` what has been spent; `accuracy` the error of a number,
`totals` of sums; `inference` how often anybody can be right.
"""

from meteragent.privacy.accuracy import half_width, sd, sd_of_sum
from meteragent.privacy.composition import BudgetExceeded, Odometer
from meteragent.privacy.inference import success_bound
from meteragent.privacy.mechanism import LInfLaplace
from meteragent.privacy.sampling import (
    Bits,
    SeededBits,
    SystemBits,
    below,
    below_array,
    discrete_laplace,
    geometric,
    radius,
    uniform,
)
from meteragent.privacy.totals import Part, half_width_of_total, sd_of_total

__all__ = [
    "Bits",
    "BudgetExceeded",
    "LInfLaplace",
    "Odometer",
    "Part",
    "SeededBits",
    "SystemBits",
    "below",
    "below_array",
    "discrete_laplace",
    "geometric",
    "half_width",
    "half_width_of_total",
    "radius",
    "sd",
    "sd_of_sum",
    "sd_of_total",
    "success_bound",
    "uniform",
]
