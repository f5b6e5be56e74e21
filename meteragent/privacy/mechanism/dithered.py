"""The l_inf Laplace mechanism with dithered rounding: windows lie on a finer lattice than outputs.

A window S consists of n whole numbers of steps, and a quantum is L steps. With the noise z of `LInfLaplace`
and independent u_i, uniform on {0 .. L-1},

    y_i = floor((z_i L + u_i + S_i) / L) = z_i + m_i + B_i,        m_i = floor(S_i/L),  f_i = S_i/L - m_i,

with independent B_i ~ Bernoulli(f_i). So E y_i = S_i/L exactly (THEORY A.1.1). The noise must not depend on
S, so u is drawn with z, before a reading is added.

The loss between windows d quanta apart is at most a ceil(d) for any n (A.1.2). For n = 1 the largest loss is

    h(d) = a floor(d) + ln(1 + {d} (e^a - 1)),    {d} = d - floor(d),    a d <= h(d) <= a d + a^2/8  (A.1.3).

The distribution of y (A.10). Let t_i be the smaller of |y_i - m_i| and |y_i - m_i - 1|, w_i the probability
of the B_i that attains t_i, T the largest t_i and g the product of w_i over the slots with t_i = T. With the
sum Z of e^(-a max|z_i|) over Z^n,

    P(y | S) = e^(-aT) (g + (1 - g) e^-a) / Z.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from meteragent.privacy import sampling
from meteragent.privacy.exact import Exact, exp_neg_bounds, ln_bounds, positive, set_fields, to_rational
from meteragent.privacy.mechanism.laplace import LInfLaplace
from meteragent.privacy.mechanism.whole import require_int64_vectors
from meteragent.privacy.space import Windows

_STEPS_LIMIT = 1 << 62
_LOSS_BITS = 64
"""The working precision of a loss, in bits; the loss is at most 2^-60 too large."""


@dataclass(frozen=True, init=False)
class DitheredLaplace:
    """The l_inf Laplace mechanism that takes windows of n slots in steps and returns unbiased whole quanta.

    `epsilon` is in 1/unit, `quantum` and `step` are in the unit; a quantum is L whole steps. For windows of
    whole quanta the output has the same distribution as with `LInfLaplace`. Raises TypeError if n is not an
    int; ValueError if a parameter is not positive, n/a >= 2^45, or a quantum is not 1 to 2^62 whole steps.
    """

    epsilon: Fraction
    quantum: Fraction
    n: int
    step: Fraction

    rounding = "dithered"
    """The rounding of windows to whole quanta."""

    def __init__(self, epsilon: Exact, quantum: Exact, n: int, step: Exact) -> None:
        noise, width = LInfLaplace(epsilon, quantum, n), positive("step", step)
        steps = noise.quantum / width
        if steps.denominator != 1 or steps > _STEPS_LIMIT:
            raise ValueError(f"a quantum must be 1 to 2^62 whole steps, not {steps}")
        set_fields(self, epsilon=noise.epsilon, quantum=noise.quantum, n=noise.n, step=width)

    @property
    def noise(self) -> LInfLaplace:
        """The mechanism for windows of whole quanta."""
        return LInfLaplace(self.epsilon, self.quantum, self.n)

    @property
    def steps(self) -> int:
        """The number of steps in a quantum, L."""
        return (self.quantum / self.step).numerator

    @property
    def space(self) -> Windows:
        """The space of windows of n whole steps, at distance d_inf in the unit."""
        return Windows(self.n, self.step)

    def loss(self, distance: Exact) -> Fraction:
        """Return the privacy loss between windows whose d_inf is d = `distance`, in the unit.

        For n = 1 the loss is h(d/q) of the module's docstring, at most 2^-60 too large and never too small.
        For n > 1 it is a ceil(d/q). At multiples of the quantum both formulas give epsilon d. Raises
        ValueError if `distance` is negative.
        """
        lattice_loss = self.noise.loss(distance)
        part = to_rational("distance", distance) / self.quantum % 1
        if self.n > 1 or not part:
            return lattice_loss
        # h(d) - a ceil(d) = ln(f + (1 - f) e^-a), f = {d}.
        a = self.noise.a
        bits = _LOSS_BITS + part.denominator.bit_length()
        ratio = part + (1 - part) * Fraction(exp_neg_bounds(a.numerator, a.denominator, bits)[1], 1 << bits)
        return lattice_loss + min(Fraction(0), Fraction(ln_bounds(ratio, bits)[1], 1 << bits))

    def log_mass(self, outputs: ArrayLike, point: ArrayLike) -> NDArray[np.float64]:
        """Return ln P(output | point), outputs in quanta, point in steps. Raises as `release` does."""
        floor, remainder = np.divmod(require_int64_vectors(point, self.n), self.steps)
        fraction = remainder / self.steps
        moved = require_int64_vectors(outputs, self.n) - floor
        at_zero = float(self.noise.log_mass(np.zeros(self.n, np.int64), np.zeros(self.n, np.int64)))
        return at_zero + log_share(moved, fraction, float(self.noise.a))

    def release(self, windows: ArrayLike, *, bits: sampling.Bits | None = None) -> NDArray[np.int64]:
        """Release windows of shape (..., n), integers in steps, as int64 in quanta; each is charged."""
        values = require_int64_vectors(windows, self.n)
        source = sampling.SystemBits() if bits is None else bits
        noise = sampling.windows(self.n, self.noise.a, values.size // self.n, source).reshape(values.shape)
        dither = sampling.below_array(self.steps, values.size, source).reshape(values.shape)
        floor, remainder = np.divmod(values, self.steps)
        noise += floor + (dither >= self.steps - remainder)
        return noise


def log_share(moved: ArrayLike, fraction: ArrayLike, a: float) -> NDArray[np.float64]:
    """Return ln(P(y | S)/P(z = 0)) = -aT + ln(g + (1 - g) e^-a), as in the module's docstring.

    `moved` holds y - m in whole quanta, with shape (..., n); `fraction` holds the f of each slot.
    """
    difference = np.asarray(moved)
    is_above = difference > 0
    t = np.where(is_above, difference - 1, -difference)
    largest = t.max(axis=-1, keepdims=True)
    with np.errstate(divide="ignore"):
        log_chance = np.where(is_above, np.log(fraction), np.log1p(-np.asarray(fraction)))
        log_g = np.where(t == largest, log_chance, 0.0).sum(axis=-1)
        log_complement = np.log(-np.expm1(log_g))
    return np.asarray(-a * largest[..., 0] + np.logaddexp(log_g, log_complement - a))
