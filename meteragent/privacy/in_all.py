"""The loss of a change, given the sum of its effects over any number of slots (THEORY T.7).

Slot values are released with dithered rounding and with discrete l_inf Laplace noise over a window's n slots.
The loss between two series of slot values is at most

    (e^a - 1) d_1 / q = kappa epsilon d_1,        kappa = (e^a - 1) / a,        a = epsilon q,

where d_1 is the sum of all absolute differences, over any number of slots. This single bound holds for every
attacker, however the change is spread over slots. All values are rounded up: a bound is never below its
formula. The relative error of a loss is below 2^-60.
"""

import math
from fractions import Fraction

from meteragent.privacy.exact import Exact, exp_neg_bounds, not_negative, positive
from meteragent.privacy.mechanism.laplace import LInfLaplace

A_LIMIT = 64
"""The largest a at which kappa is computed; above a = 1 kappa is of little use."""
_BITS = 64


def kappa(a: Exact) -> Fraction:
    """Return (e^a - 1)/a, rounded up by a relative error < 2^-60. Raises ValueError for a > `A_LIMIT`."""
    loss = positive("a", a)
    if loss > A_LIMIT:
        raise ValueError(f"a must be at most {A_LIMIT}, not {float(loss):g}")
    # e^-a must be distinguished from 1 if a is small, and from 0 if a is large.
    bits = _BITS + 2 * math.ceil(loss) + loss.denominator.bit_length()
    low, _ = exp_neg_bounds(loss.numerator, loss.denominator, bits)
    factor = (Fraction(1 << bits, low) - 1) / loss
    return Fraction(math.ceil(factor * (1 << _BITS)), 1 << _BITS)


def loss_in_all(mechanism: LInfLaplace, change: Exact) -> Fraction:
    """Return the loss kappa epsilon d_1 of a change whose effects on all slots add up to d_1 = `change`.

    Raises ValueError if `change` is negative, or a is above `A_LIMIT`.
    """
    return kappa(mechanism.a) * mechanism.epsilon * not_negative("change", change)


def success_in_all(mechanism: LInfLaplace, change: Exact) -> float:
    """Return 1 - e^(-X/2)/2, X = `loss_in_all`, rounded up: a bound on any attacker's success.

    Two series of slot values are equally likely, and all releases are seen. The bound is 1 if a is above
    `A_LIMIT` and `change` is not 0. Raises ValueError if `change` is negative.
    """
    if not not_negative("change", change):
        return 0.5
    if mechanism.a > A_LIMIT:
        return 1.0
    half = loss_in_all(mechanism, change) / 2
    low, _ = exp_neg_bounds(half.numerator, half.denominator, _BITS)
    chance = 1 - Fraction(low, 2 << _BITS)
    nearest = float(chance)
    return nearest if nearest >= chance else math.nextafter(nearest, 1.0)
