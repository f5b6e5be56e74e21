"""Exact integer samplers from a stream of random bits that is passed in.

Theory of operation
-------------------
A privacy proof is about one law, so what is drawn must have exactly that law: a sampler that rounds
probabilities (any floating-point sampler) breaks the proof in the last bits, where an attacker looks
first. Three rules keep the samplers exact.

Rule 1: no floating point decides a draw. Every comparison is between integers.
Rule 2: a uniform number U in [0, 1) is never rounded. Its bits are revealed from the top, and it is
    compared with certified bounds of the probability p: U < p is known as soon as the bits seen so
    far lie wholly below or above the bounds. While they do not, more bits are revealed and the bounds
    refined. A p like e^(-1/220) is irrational, so this ends; it nearly always ends at once.
Rule 3: every random bit is used once.

What is drawn (THEORY 2, a = epsilon * quantum, a rational number):

* `radius`: R with P(R) ~ w(R) = (2R+1)^n e^(-aR). With R, n independent uniforms on {-R..R} have
  P(z) ~ e^(-a max|z_i|) (THEORY 2.1). At most n uniforms may ever be drawn from one R.
  log w is concave. So with M its mode, an integer, and b a width with w(M-b), w(M+b) <= w(M)/2, all
  that lies j*b or more from M weighs at most 2^-j w(M). The proposal takes a side, a block j with
  probability 2^-(j+1), a place in the block, and is kept with probability 2^j w(R)/w(M): rejection
  from an envelope of steps. With the least b that is at most 5.6 proposals on average for any n, a
  (concavity: the weights between M and M+b sum to 0.72 b or more), and about 2 for a << 1.
      w(R)/w(M) = (t e^-x)^n,   t = (2R+1)/(2M+1),   x = (R-M) a/n.
  M and b are found once per (n, a) with the same certified bounds. (The mode must be that of the
  integers: where a >> sqrt(n), w falls between two integers and is negligible at both, so that
  proposals weighed against its maximum over the reals are hardly ever kept.)
* `uniform`, `below`: masked rejection, the fair way to a range that is not a power of two.
* `geometric`: P(g) = (1-e^-a) e^(-ag). Its binary digits are independent: digit j is one with
  probability 1/(1+e^(a 2^j)), and what is beyond 2^J is again geometric (THEORY 2.4). All digits of a
  vector are decided at once, by 8 random bits each; the 1 in 256 that ties reveals 64 more.

How long a draw takes depends on the draw, never on data: draw when a window opens, off the path of a
release (THEORY 2.4 on timing).
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from meteragent.privacy.bits import Bits, SeededBits, SystemBits, UnsignedArray
from meteragent.privacy.exact import exp_neg_bounds, positive, power_bounds

__all__ = [
    "Bits",
    "SeededBits",
    "SystemBits",
    "below",
    "below_array",
    "check_parameters",
    "discrete_laplace",
    "geometric",
    "radius",
    "uniform",
]

SCALE_LIMIT = 1 << 45
"""n/a stays below it, so that the noise stays in int64 but for a chance below e^-2^17."""

_FIRST_BITS = 32  # of a uniform: decides all but about one comparison in 2^30
_TAIL = 45  # a geometric has a digit j while a 2^j is below it: what is beyond has chance e^-45


def below(m: int, bits: Bits) -> int:
    """One integer, uniform on {0 .. m-1}, m >= 1 of any size: masked rejection, under 2 tries.

    Raises:
        ValueError: m < 1.
    """
    if m < 1:
        raise ValueError(f"no integer lies in an empty range: m = {m}")
    k = (m - 1).bit_length()
    while True:
        drawn = bits.integer(k)
        if drawn < m:
            return drawn


def below_array(m: int, count: int, bits: Bits) -> NDArray[np.int64]:
    """`count` independent integers, uniform on {0 .. m-1}, as int64 of shape (count,).

    Raises:
        ValueError: m is not in 1 .. 2^63.
    """
    if not 1 <= m <= 1 << 63:
        raise ValueError("m must lie in 1 .. 2^63 to draw an array")
    k = (m - 1).bit_length()
    dtype = next(d for d in (np.uint8, np.uint16, np.uint32, np.uint64) if k <= 8 * d().itemsize)
    mask = dtype((1 << k) - 1)
    out = np.empty(count, np.int64)
    filled = 0
    while filled < count:
        missing = count - filled
        drawn = bits.array((missing << k) // m + missing // 16 + 8, dtype) & mask
        kept = drawn[drawn <= dtype(m - 1)][:missing]
        out[filled : filled + kept.size] = kept
        filled += kept.size
    return out


def uniform(radius: int, bits: Bits) -> int:
    """One integer, uniform on {-R .. R}, for R = `radius` >= 0 of any size.

    Raises:
        ValueError: R < 0.
    """
    return below(2 * radius + 1, bits) - radius


def check_parameters(n: int, a: Fraction) -> Fraction:
    """`a` as a Fraction, if n slots with noise of parameter a can be drawn.

    Raises:
        TypeError: n is not an int, or `a` is not exact.
        ValueError: n < 1, a <= 0, or n/a >= 2^45 (the noise would leave the range of int64).
    """
    if not isinstance(n, int):
        raise TypeError(f"n must be an int, not {type(n).__name__}")
    if n < 1:
        raise ValueError(f"n must be at least 1, not {n}")
    exact = positive("a", a)
    if n >= exact * SCALE_LIMIT:
        raise ValueError(f"n/a must be below 2^45, and {n} / ({exact}) is not: take a coarser quantum")
    return exact


@dataclass(frozen=True, slots=True)
class _Envelope:
    """The steps under which `radius` proposes, for one n and a: M, b, and a/n as two integers."""

    n: int
    slope_num: int
    slope_den: int
    mode: int
    block: int = 1

    def weight_bounds(self, point: int, k: int) -> tuple[int, int]:
        """Integers lo <= 2^k w(R)/w(M) <= hi at R = `point`; w(R)/w(M) = (t e^-x)^n."""
        w = k + self.n.bit_length() + 4
        lo, hi = exp_neg_bounds((point - self.mode) * self.slope_num, self.slope_den, w)
        num, den = 2 * point + 1, 2 * self.mode + 1
        lo, hi = power_bounds(lo * num // den, hi * num // den + 1, self.n, w)
        return lo >> w - k, (hi >> w - k) + 1

    def halved(self, width: int) -> bool:
        """Whether w is certified to be at most w(M)/2 at M + width and, where it is, M - width."""
        points = [self.mode + width] + [self.mode - width] * (width <= self.mode)
        half = 1 << _FIRST_BITS - 1
        return all(self.weight_bounds(point, _FIRST_BITS)[1] <= half for point in points)

    def keeps(self, proposal: int, j: int, bits: Bits) -> bool:
        """True with probability 2^j w(proposal)/w(M) (rule 2)."""
        k, u = _FIRST_BITS, bits.integer(_FIRST_BITS)
        while True:
            lo, hi = self.weight_bounds(proposal, k + j)
            if u < lo:
                return True
            if u >= hi:
                return False
            k, u = k + _FIRST_BITS, u << _FIRST_BITS | bits.integer(_FIRST_BITS)


@lru_cache(maxsize=256, typed=True)  # typed: a float that equals a cached Fraction is refused still
def _envelope(n: int, a: Fraction) -> _Envelope:
    a = check_parameters(n, a)
    slope = a / n
    below_peak = max(0, (2 * n * a.denominator - a.numerator) // (2 * a.numerator))  # floor(n/a - 1/2)
    envelope = _Envelope(n, slope.numerator, slope.denominator, below_peak)
    if _rises(envelope):
        envelope = replace(envelope, mode=below_peak + 1)
    return replace(envelope, block=_block_width(envelope))


def _rises(envelope: _Envelope) -> bool:
    """Whether w(M+1) > w(M). Never equal: one is a rational, the other an irrational multiple."""
    k = _FIRST_BITS
    while True:
        lo, hi = envelope.weight_bounds(envelope.mode + 1, k)
        if lo > 1 << k:
            return True
        if hi < 1 << k:
            return False
        k *= 2


def _block_width(envelope: _Envelope) -> int:
    """The least b at whose distance from M the weight is certified to have halved, by bisection."""
    high = 1
    while not envelope.halved(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if envelope.halved(middle) else (middle, high)
    return high


def radius(n: int, a: Fraction, bits: Bits) -> int:
    """One R >= 0 with P(R) ~ (2R+1)^n e^(-aR), exactly (THEORY 2.1, 2.2): the cube of a window.

    Raises:
        TypeError: n or `a` is not exact.  ValueError: n < 1, a <= 0 or n/a >= 2^45.
    """
    envelope = _envelope(n, a)
    while True:
        right = envelope.mode == 0 or bits.integer(1)
        j = 0
        while bits.integer(1):
            j += 1
        i = j * envelope.block + below(envelope.block, bits)
        proposal = envelope.mode + i if right else envelope.mode - 1 - i
        if proposal >= 0 and envelope.keeps(proposal, j, bits):
            return proposal


def _floor_bits(num: int, den: int, k: int, digit: bool) -> int:
    """floor(2^k p), certified, with y = e^(-num/den): p = y/(1+y) of a digit, p = y of the rest."""
    guard = 16
    while True:
        one = 1 << k + guard
        lo, hi = exp_neg_bounds(num, den, k + guard)
        if digit:
            lo, hi = lo * one // (one + lo), hi * one // (one + hi) + 1
        if lo >> guard == hi >> guard:
            return lo >> guard
        guard *= 2


@lru_cache(maxsize=256, typed=True)
def _expansions(a: Fraction, level: int) -> UnsignedArray:
    """One chunk of the binary expansion of each digit's probability, and last of the rest's.

    Level 0 is the first 8 bits (uint8), each later level the next 64 (uint64).
    """
    a = check_parameters(1, a)
    digits = 0
    while a.numerator << digits < _TAIL * a.denominator:
        digits += 1
    k, dtype = 8 + 64 * level, np.uint64 if level else np.uint8
    floors = [_floor_bits(a.numerator << j, a.denominator, k, j < digits) for j in range(digits + 1)]
    return np.array([floor % (1 << 64) for floor in floors], dtype)


def geometric(count: int, a: Fraction, bits: Bits) -> NDArray[np.int64]:
    """`count` independent g >= 0 with P(g) = (1-e^-a) e^(-ag), exactly (THEORY 2.4), as int64.

    Works on count * (log2(45/a) + 1) bytes at once.

    Raises:
        TypeError: `a` is not exact.  ValueError: a <= 0 or 1/a >= 2^45.
    """
    first = _expansions(a, 0)[:, np.newaxis]
    drawn = bits.array(first.size * count, np.uint8).reshape(first.size, count)
    ones = drawn < first
    row, column = np.divmod(np.flatnonzero(drawn == first), max(count, 1))
    level = 0
    while row.size:
        level += 1
        more, chunk = bits.array(row.size, np.uint64), _expansions(a, level)[row]
        ones[row, column] = more < chunk
        tied = more == chunk
        row, column = row[tied], column[tied]
    digits = first.size - 1
    values: NDArray[np.int64] = (np.int64(1) << np.arange(digits)) @ ones[:digits]
    beyond = np.flatnonzero(ones[digits])
    if beyond.size:
        values[beyond] += (1 + geometric(beyond.size, a * (1 << digits), bits)) << digits
    return values


def discrete_laplace(count: int, a: Fraction, bits: Bits) -> NDArray[np.int64]:
    """`count` independent z with P(z) = tanh(a/2) e^(-a|z|), exactly, as int64 (THEORY 2.4).

    The difference of two geometrics; what `radius` and `uniform` give for n = 1, many at a time.

    Raises:
        TypeError: `a` is not exact.  ValueError: a <= 0 or 1/a >= 2^45.
    """
    return geometric(count, a, bits) - geometric(count, a, bits)
