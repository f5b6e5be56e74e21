"""The error that a mechanism adds, before it is added: what a descriptor and `check` say.

All results are floats in the unit of the quantum (W for a quantum in W), per slot unless said.

Theory of operation
-------------------
With R as in THEORY 2.1 a slot's noise in quanta is uniform on {-R..R}. So Var z = E[R(R+1)]/3, and if
the rounding before the noise is off by U, uniform on the quantum's cell (-1/2, 1/2), then z + U is
uniform on (-(R+1/2), R+1/2), a law without steps:

    P(|z + U| > h) = sum over r = R + 1/2 > h of P(R) (1 - h/r),        P(R) ~ r^n e^(-a r).

Sums over the lattice are used while they have at most 2^17 terms. With more, a is so small that sums
over half-integers are integrals. Those are THEORY 1.2: r is Gamma(n+1, 1/a), so that E r^2 =
(n+1)(n+2)/a^2, and a |z + U| is Erlang(K) with K uniform on 1..n. By Poisson's formula the moments
differ by 2 sum over m >= 1 of |1 + 2 pi i m/a|^-(n+1) each, relatively, which is below 1e-10 for n >= 2
(n = 1 is in closed form); h, whose sum has a kink, differs by less than 1e-6.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from meteragent.privacy.mechanism.laplace import LInfLaplace

_TERMS_LIMIT = 1 << 17


class _Lattice(NamedTuple):
    """The law of r = R + 1/2: points and probabilities, but for a mass of about e^-60 at the end."""

    r: NDArray[np.float64]
    probability: NDArray[np.float64]


def _lattice(n: int, a: float) -> _Lattice | None:
    """The law of R as a table, or None where it would be too long (and is not needed)."""
    # n (y - ln(1+y)) >= n y^2 / (2(1+y)) = 60 at this end, r = (1+y) n/a.
    end = (n + 60 + math.sqrt(3600 + 120 * n)) / a
    if end > _TERMS_LIMIT:
        return None
    r = np.arange(math.ceil(end) + 1, dtype=np.float64) + 0.5
    log_weight = n * np.log(r) - a * r
    weight = np.exp(log_weight - log_weight.max())
    return _Lattice(r, weight / weight.sum())


def sd(mechanism: LInfLaplace) -> float:
    """The standard deviation of the noise of a slot: q sqrt(E[R(R+1)]/3).

    For n = 1, discrete Laplace: q / (sqrt2 sinh(a/2)). For a << 1: sqrt((n+1)(n+2)/3)/epsilon.
    """
    n, a = mechanism.n, float(mechanism.a)
    if n == 1:
        deviation = math.sqrt(2) * math.exp(-a / 2) / -math.expm1(-a)  # sinh would overflow
    elif (table := _lattice(n, a)) is None:
        deviation = math.sqrt(((n + 1) * (n + 2) / a**2 - 0.25) / 3)
    else:
        deviation = math.sqrt(float(np.sum(table.probability * (table.r**2 - 0.25))) / 3)
    return float(mechanism.quantum) * deviation


def sd_of_sum(mechanism: LInfLaplace, m: int) -> float:
    """The standard deviation of the noise in a sum of m slot values: sqrt(m) sd.

    The slots of one window are uncorrelated (THEORY 1.2: their signs are free), windows are
    independent; so it holds for any m slots, of one window, one meter or many.
    """
    return math.sqrt(m) * sd(mechanism)


@lru_cache(maxsize=256)
def half_width(mechanism: LInfLaplace, coverage: float = 0.95) -> float:
    """The h such that the slot's mean lies within value +- h with probability `coverage`.

    The error is counted against the mean before it was rounded to the quantum, its rounding taken as
    uniform on the quantum's cell: q (z + U). So h is a continuous function of all parameters; with
    negligible noise it is the cell's own coverage q/2, and for n = 1 and a << 1 it is
    -ln(1 - coverage)/epsilon, as the Laplace law has it.

    Raises:
        ValueError: coverage is not between 0 and 1.
    """
    if not 0 < coverage < 1:
        raise ValueError(f"coverage must lie between 0 and 1, not {coverage}")
    n, a = mechanism.n, float(mechanism.a)
    table = _lattice(n, a)
    low, high = 0.0, (n + 60 + math.sqrt(3600 + 120 * n)) / a + 1
    while (middle := (low + high) / 2) not in (low, high):
        beyond = _erlang_tail(n, a * middle) if table is None else _lattice_tail(table, middle)
        low, high = (middle, high) if beyond > 1 - coverage else (low, middle)
    return float(mechanism.quantum) * high


def _lattice_tail(table: _Lattice, h: float) -> float:
    """P(|z + U| > h) = sum over r > h of P(r) (1 - h/r)."""
    # Not as a dot product: its threads cost 100 times the sum where other programs use the cores.
    return float(np.sum(table.probability * np.maximum(1 - h / table.r, 0)))


def _erlang_tail(n: int, x: float) -> float:
    """P(|Z| > x) at epsilon = 1: the mean of Erlang(1..n)'s tails, e^-x sum_{i<n} (1 - i/n) x^i/i!."""
    i = np.arange(n)
    log_factorial = np.concatenate(([0.0], np.cumsum(np.log(i[1:]))))
    return float(np.exp(i * math.log(x) - x - log_factorial) @ (1 - i / n))
