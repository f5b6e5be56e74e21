"""Points of Z^2 with P(z) ~ e^(-a |z|_2), |z|_2 = sqrt(z_1^2 + z_2^2): planar Laplace on the lattice.

Two discrete Laplace numbers with b = 7a/10 have P(z) ~ e^(-b |z|_1). As |z|_1 <= sqrt2 |z|_2 and b sqrt2 < a,
a proposal may be accepted with probability e^(-a y), where y = |z|_2 - 7/10 |z|_1 >= 0. Then the accepted
proposals have the distribution P. For a << 1, 77% of the proposals are accepted (2 pi / (4 / 0.7^2)), and for
any a at least 72%.

A proposal is accepted as follows. An exponential lifetime T of rate a exceeds y with probability e^(-a y). In
units of 1/s, the integer part of T is geometric, P(g) ~ e^(-(a/s) g), and the integer part of y follows from
an integer root if s is a multiple of 10:

    floor(s y) = floor(sqrt(s^2 |z|_2^2)) - 7 s/10 |z|_1.

If the two integers differ, they decide. Otherwise (with a probability of at most a/s) more binary digits of T
and y are compared until they differ. The digits of T are independent, like those of a geometric number: digit
j is 1 with probability 1/(1 + e^((a/s) / 2^j)) (THEORY 2.4). If s y is itself an integer, T exceeds y.
"""

from __future__ import annotations

from fractions import Fraction
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from meteragent.privacy.bits import Bits
from meteragent.privacy.exact import Exact, check_parameters, exp_neg_bounds
from meteragent.privacy.sampling.bernoulli import bernoulli
from meteragent.privacy.sampling.geometric import discrete_laplace, geometric

_RARE = 1 << 10  # s is chosen so that a/s is at most 1/_RARE, unless s would exceed _FINEST
_FINEST = 10 << 16
_REACH = 1 << 30  # the sum of two squares of numbers s |z_i| below this fits into int64


def check_planar(a: Exact) -> Fraction:
    """Return `a` as a Fraction. Raises ValueError if a <= 0 or 10/a >= 2^45: int64 might overflow."""
    return check_parameters(10, a)


def planar_laplace(count: int, a: Exact, bits: Bits) -> NDArray[np.int64]:
    """Draw `count` independent z of Z^2 with P(z) ~ e^(-a |z|_2), exactly, as int64 of shape (count, 2).

    Points beyond 2^30/s quanta are slower. Raises ValueError if a <= 0 or 10/a >= 2^45.
    """
    exact = check_planar(a)
    draws = np.empty((count, 2), np.int64)
    filled = 0
    while filled < count:
        remaining_count = count - filled
        proposals = remaining_count + remaining_count // 3 + 8
        points = discrete_laplace(2 * proposals, exact * Fraction(7, 10), bits).reshape(-1, 2)
        accepted = points[_accept(points, exact, bits)][:remaining_count]
        draws[filled : filled + len(accepted)] = accepted
        filled += len(accepted)
    return draws


def _accept(points: NDArray[np.int64], a: Fraction, bits: Bits) -> NDArray[np.bool_]:
    """Accept each point with probability e^(-a y). Return a mask of the accepted points."""
    scale = 10
    while a * _RARE > scale and scale < _FINEST:
        scale *= 2
    lifetimes, floors = geometric(len(points), a / scale, bits), _floors(points, scale)
    accepted = lifetimes > floors
    for i in np.flatnonzero(lifetimes == floors):
        accepted[i] = _outlives(int(lifetimes[i]), points[i].tolist(), a, scale, bits)
    return accepted


def _floors(points: NDArray[np.int64], scale: int) -> NDArray[np.int64]:
    """Compute floor(s y) for each point; -1 for the point 0, which is always accepted."""
    sizes = np.abs(points)
    is_far = np.flatnonzero(sizes.max(axis=1, initial=0) >= _REACH // scale)
    sizes[is_far] = 0
    squares = scale**2 * (sizes**2).sum(axis=1)
    # The float root is a guess, which integers correct. This root is never too small, because the root of r^2
    # is r and rounding is monotone. The root may be one too large if a square of over 53 bits is rounded up.
    roots = np.sqrt(squares.astype(np.float64)).astype(np.int64)
    roots -= roots**2 > squares
    floors: NDArray[np.int64] = roots - scale // 10 * 7 * sizes.sum(axis=1)
    floors[is_far] = [_floor(points[i].tolist(), scale) for i in is_far]
    floors[~points.any(axis=1)] = -1  # below every lifetime, so that no more digits are compared
    return floors


def _floor(point: list[int], scale: int) -> int:
    """Compute floor(s y) for a point of any size; s is a multiple of 10."""
    x, y = point
    return isqrt(scale**2 * (x * x + y * y)) - scale // 10 * 7 * (abs(x) + abs(y))


def _outlives(lifetime: int, point: list[int], a: Fraction, scale: int, bits: Bits) -> bool:
    """Return whether T > y, given that both have the same integer part in units of 1/s."""
    while True:
        scale *= 2
        rate = a / scale
        lifetime = 2 * lifetime + bernoulli(lambda k, rate=rate: _digit_bounds(rate, k), bits)  # type: ignore[misc]
        floor = _floor(point, scale)
        if lifetime != floor:
            return lifetime > floor


def _digit_bounds(rate: Fraction, k: int) -> tuple[int, int]:
    """Return integers lo <= 2^k p <= hi for p = 1/(1 + e^rate) = x/(1+x), which grows with x = e^-rate."""
    unit = 1 << k
    lo, hi = exp_neg_bounds(rate.numerator, rate.denominator, k)
    return lo * unit // (unit + lo), hi * unit // (unit + hi) + 1
