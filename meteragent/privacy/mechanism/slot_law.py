"""The distribution of one slot's noise within a window of the l_inf Laplace mechanism.

Given the noise bound R, a window's noise z is uniform on {-R .. R}^n, and P(R) ~ (2R+1)^n e^(-aR) (THEORY
2.1). So one slot has the marginal distribution

    P(z_i = k) = S(n-1, 2|k|+1) e^(-a|k|) / S(n, 1),        S(m, c) = sum over j >= 0 of (c + 2j)^m e^(-aj),

and by the binomial theorem, with x = e^-a and B_i = sum over j >= 0 of j^i x^j / i!,

    S(m, c) = sum over i <= m of m!/(m-i)! c^(m-i) 2^i B_i,
    B_i = x/(1-x) (sum over l < i of B_l/(i-l)!),        B_0 = 1/(1-x).

All terms are positive, so nothing cancels for any a and k, even far out in the tail.
"""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from meteragent.privacy.mechanism.laplace import LInfLaplace

Floats = NDArray[np.float64]


def log_mass_of_slot(mechanism: LInfLaplace, noise: ArrayLike) -> Floats:
    """Return ln P(z_i = k) for one slot and each k of `noise`, in quanta.

    For n = 1 the result is ln tanh(a/2) - a|k|. The time to compute the coefficients is proportional to n^2,
    once for each pair (n, a); the time for each k is then proportional to n.
    """
    k = np.abs(np.asarray(noise, np.float64))
    a = float(mechanism.a)
    coefficients = _log_coefficients(mechanism.n, a)
    log_all = _log_sum(coefficients, mechanism.n, np.ones(()))
    return np.asarray(_log_sum(coefficients[:-1], mechanism.n - 1, 2 * k + 1) - a * k - log_all)


def _log_sum(coefficients: Floats, m: int, c: Floats) -> Floats:
    """Return ln S(m, c) for each c >= 1, from ln B_0 .. ln B_m."""
    i = np.arange(m + 1)
    shared = coefficients + i * math.log(2) + _log_factorials(m)[m] - _log_factorials(m)[m - i]
    return np.asarray(np.logaddexp.reduce(shared + (m - i) * np.log(c)[..., np.newaxis], axis=-1))


@lru_cache(maxsize=64)
def _log_coefficients(n: int, a: float) -> Floats:
    """Return ln B_0 .. ln B_n."""
    log_inverse = -math.log(-math.expm1(-a))  # -ln(1 - x)
    factorials = _log_factorials(n)
    log_b = np.full(n + 1, log_inverse)
    for i in range(1, n + 1):
        log_b[i] = log_inverse - a + np.logaddexp.reduce(log_b[:i] - factorials[i:0:-1])
    log_b.setflags(write=False)
    return log_b


def _log_factorials(n: int) -> Floats:
    """Return ln 0! .. ln n!."""
    return np.concatenate([np.zeros(1), np.cumsum(np.log(np.arange(1, n + 1)))])
