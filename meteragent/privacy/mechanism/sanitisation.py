"""Laplace noise on a bounded set of numbers, with a promise (epsilon, delta) between any two of them.

There are three calibrations of b, the scale of the noise, for a set of diameter D on the lattice q Z (THEORY
T.2 proves the last two):

    "holohan"   b = D/(epsilon - ln(1-delta))                        (Holohan 2014, Example 5)
    "any set"   b = D/ln((e^epsilon + delta)/(1-delta))              less noise, valid for every set
    "lattice"   the least b that keeps the promise on this lattice   least noise

No formula in D, epsilon and delta that holds for all sets needs less noise than "any set". For "lattice",
with k = D/q and a = q/b, the only condition is delta_min(a) <= delta, where

    delta_min(a) = 1 - (e^(-a(j+1)) + e^(epsilon - a(k-j)))/(1 + e^-a),        j = floor((ak - epsilon)/(2a)),

if ak > epsilon, and otherwise 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from meteragent.privacy import sampling
from meteragent.privacy.channel import Number, exp
from meteragent.privacy.exact import Exact, ln_bounds, set_fields
from meteragent.privacy.mechanism.base import Guarantee, make_guarantee
from meteragent.privacy.mechanism.number import Laplace, require_quanta
from meteragent.privacy.space import Numbers

Calibration = Literal["holohan", "any set", "lattice"]

_CLOSE_BITS = 48
"""The number of bits to which a scale is computed before it is rounded up; see `LaplaceSanitisation`."""


@dataclass(frozen=True, init=False)
class LaplaceSanitisation:
    """Laplace noise on a bounded set of numbers; (epsilon, delta) holds between any two (Holohan, Example 5).

    `calibration` names the formula of the noise's scale; the module's docstring has the three formulas. For
    delta = 0 the formulas agree: the mechanism is exactly epsilon/D |x-y|-private. For delta > 0 the scale is
    irrational and is rounded up, which only adds noise: by a factor below 1 + 2^-40 or, for "lattice" at
    epsilon = 0, below 1 + 2^-40 + 2^-50/delta. The output is not clamped to the set, so it is unbiased;
    clamping it costs no privacy. Raises ValueError if the set's diameter is 0 or infinite, epsilon < 0, delta
    is not in [0, 1), epsilon and delta are both 0 (no finite noise suffices), 1/a >= 2^45 (a = q/b), or the
    calibration is unknown.
    """

    space: Numbers
    guarantee: Guarantee
    noise: Laplace

    def __init__(
        self, space: Numbers, epsilon: Exact, delta: Exact = 0, calibration: Calibration = "holohan"
    ) -> None:
        diameter = space.diameter
        if not isinstance(diameter, Fraction) or not diameter:
            raise ValueError(f"the set's diameter must be finite and above 0, not {diameter}")
        if calibration not in _LARGEST_LOSS:
            raise ValueError(f"calibration is one of {[*_LARGEST_LOSS]}, not {calibration!r}")
        promise = make_guarantee(epsilon, delta)
        if promise.delta == 1 or not (promise.epsilon or promise.delta):
            raise ValueError(
                f"no finite noise scale above 0 has epsilon {promise.epsilon} and delta {promise.delta}"
            )
        loss = promise.epsilon
        if promise.delta:
            loss = _LARGEST_LOSS[calibration](promise, int(diameter / space.quantum))
        set_fields(self, space=space, guarantee=promise, noise=Laplace(loss / diameter, space.quantum))

    @property
    def scale(self) -> Fraction:
        """The scale b of the noise, in the unit: the formula's value, rounded up (see the class)."""
        return 1 / self.noise.epsilon

    @property
    def smallest_delta(self) -> Number:
        """The least delta of this noise at the promised epsilon, delta_min, exactly."""
        return _smallest_delta(self.noise.a, int(self.space.diameter / self.space.quantum), self.guarantee)

    def release(self, points: ArrayLike, *, bits: sampling.Bits | None = None) -> NDArray[np.int64]:
        """Release integers of the set, in quanta, each with its own noise, as int64 of the same shape."""
        return self.noise.release(require_quanta(points, self.space), bits=bits)

    def log_mass(self, outputs: ArrayLike, point: int) -> NDArray[np.float64]:
        """Return ln P(y | x) for each y of `outputs` and x = `point`, in quanta: the noise's log mass."""
        return self.noise.log_mass(outputs, int(require_quanta(point, self.space)))


def _smallest_delta(a: Fraction, k: int, promise: Guarantee) -> Number:
    """Return the exact hockey-stick divergence, at e^epsilon, of discrete Laplace numbers k quanta apart."""
    excess = a * k - promise.epsilon
    if excess <= 0:
        return exp(0) - 1
    j = min(math.floor(excess / (2 * a)), k - 1)
    return 1 - (exp(-a * (j + 1)) + exp(promise.epsilon - a * (k - j))) / (1 + exp(-a))


def _ln_below(quotient: Fraction, promise: Guarantee) -> Fraction:
    """Return a rational number at most 2^-40 (epsilon + delta) below ln(quotient), and never above it."""
    # Epsilon and delta are 0 or at least 1/denominator.
    k = _CLOSE_BITS + max(part.denominator.bit_length() for part in promise)
    return Fraction(ln_bounds(quotient, k)[0], 1 << k)


def _loss_of_holohan(promise: Guarantee, _: int) -> Fraction:
    """Return a rational number just below epsilon - ln(1-delta)."""
    return promise.epsilon + _ln_below(1 / (1 - promise.delta), promise)


def _loss_for_any_set(promise: Guarantee, _: int) -> Fraction:
    """Return a rational number just below ln((e^epsilon + delta)/(1-delta))."""
    odds, _upper = exp(promise.epsilon).bounds(2 * _CLOSE_BITS)
    return _ln_below((odds + promise.delta) / (1 - promise.delta), promise)


def _loss_on_lattice(promise: Guarantee, k: int) -> Fraction:
    """Return a rational number just below the largest loss X = ak that keeps the promise on the lattice."""
    low = _loss_for_any_set(promise, k)
    high = promise.epsilon + 2 * _ln_below(1 / (1 - promise.delta), promise) + low / (1 << _CLOSE_BITS)
    # At the same loss, delta is not smaller on the lattice than on the real line, so `high` exceeds the root.
    for _ in range(_CLOSE_BITS):
        middle = (low + high) / 2
        is_kept = _smallest_delta(middle / k, k, promise) <= promise.delta
        low, high = (middle, high) if is_kept else (low, middle)
    unit = 1 << _CLOSE_BITS + promise.epsilon.denominator.bit_length()
    return Fraction(math.floor(low * unit), unit)


_LARGEST_LOSS: dict[Calibration, Callable[[Guarantee, int], Fraction]] = {
    "holohan": _loss_of_holohan,
    "any set": _loss_for_any_set,
    "lattice": _loss_on_lattice,
}
"""For each calibration, a function that returns a rational number just below X = D/b, if delta > 0."""
