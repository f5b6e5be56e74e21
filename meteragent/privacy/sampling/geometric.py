"""Geometric and discrete Laplace numbers, many at a time: P(g) = (1-e^-a) e^(-ag).

The binary digits of g are independent: digit j is one with probability 1/(1+e^(a 2^j)), and what is
above digit J is again geometric (THEORY 2.4). So groups of 8 digits are independent, and a group that is
worth x = a 2^j is r with P(r) ~ e^(-xr) for r < 256; the last one goes on: beyond, r is 256 and one more
number of that law, which has no memory. Each number
spends 16 random bits on a group: a table says which r they are, but for those prefixes, 1 in 256, in
which one r ends and another begins; they are refined by 32 more bits at a time.

The digits of discrete Laplace are those of its two's complement: z = g or, with probability
1/(1+e^a), z = -1-g, which is g with all digits turned. Check: P(z) ~ e^(-az) or e^-a e^(-a(-1-z)) = e^(az).
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from meteragent.privacy.bits import Bits
from meteragent.privacy.exact import GUARD_BITS, Exact, exp_neg_bounds
from meteragent.privacy.sampling.bernoulli import Thresholds, refined, thresholds
from meteragent.privacy.sampling.parameters import check_parameters

_DIGITS = 8
_PREFIX_BITS = 16
_TAIL = 45  # a number has a group worth x while x < 45: what is beyond has chance e^-45


@dataclass(frozen=True, eq=False, slots=True)
class _Group:
    """Neighbouring digits: r in 0 .. 2^digits - 1 with P(r) ~ e^(-xr); the last, r = 2^digits: beyond."""

    x: Fraction
    digits: int
    last: bool = False

    def cumulative(self, k: int) -> list[tuple[int, int]]:
        """Bounds of 2^k P(<= r), one pair for each r but the greatest.

        P(<= r) = 1 - q^(r+1), q = e^-x, in the last group, that over 1 - q^(2^digits) in others.
        """
        w = (
            k
            + self.digits
            + GUARD_BITS
            + max(0, self.x.denominator.bit_length() - self.x.numerator.bit_length())
        )
        one = 1 << w
        lo, hi = q_lo, q_hi = exp_neg_bounds(self.x.numerator, self.x.denominator, w)
        below = [(one - hi, one - lo)]
        for _ in range((1 << self.digits) - 1):
            lo, hi = lo * q_lo >> w, (hi * q_hi >> w) + 1
            below.append((one - hi, one - lo))
        if self.last:
            return [(lo >> w - k, (hi >> w - k) + 1) for lo, hi in below]
        all_lo, all_hi = below.pop()
        return [((lo << k) // all_hi, (hi << k) // all_lo + 1) for lo, hi in below]


@lru_cache(maxsize=256)
def _thresholds(group: _Group, k: int) -> Thresholds:
    return thresholds(group.cumulative(k), k)


def _known(group: _Group) -> NDArray[np.int16]:
    """For each prefix of a uniform the r that it means, -1 where it leaves that open."""
    lo, hi = _thresholds(group, _PREFIX_BITS)
    counts = (np.bincount(bound, minlength=2 << _PREFIX_BITS) for bound in (np.maximum(lo, 0), hi))
    most, least = (np.cumsum(count)[: 1 << _PREFIX_BITS] for count in counts)
    return np.where(most == least, least, -1).astype(np.int16)


class _Digits(NamedTuple):
    """The groups of digits for one `a`, the lowest first, then the sign; their tables end to end."""

    groups: tuple[_Group, ...]
    known: NDArray[np.int16]


@lru_cache(maxsize=32, typed=True)  # of 128 KiB a group; typed: a float equal to a Fraction is refused still
def _digits(a: Exact) -> _Digits:
    worth = [check_parameters(1, a)]
    while (x := worth[-1] * (1 << _DIGITS)) < _TAIL:
        worth.append(x)
    groups = [_Group(x, _DIGITS) for x in worth[:-1]]
    groups += [_Group(worth[-1], _DIGITS, last=True), _Group(worth[0], 1)]
    return _Digits(tuple(groups), np.concatenate([_known(group) for group in groups]))


def _drawn(digits: _Digits, used: int, count: int, bits: Bits) -> NDArray[np.int64]:
    """`count` of each of the first `used` groups: (used, count)."""
    prefix = bits.array(used * count, np.uint16).astype(np.int64)
    table = np.arange(used)[:, np.newaxis] << _PREFIX_BITS
    r = digits.known.take((prefix.reshape(used, count) + table).ravel())
    undecided = (r < 0).nonzero()[0]
    rows = undecided // max(count, 1)
    for i in sorted(set(rows.tolist())):
        group, own = digits.groups[i], undecided[rows == i]
        r[own] = refined(partial(_thresholds, group), _PREFIX_BITS, prefix[own], bits)
    return r.reshape(used, count).astype(np.int64)


def _joined(r: NDArray[np.int64], x: Fraction, bits: Bits) -> NDArray[np.int64]:
    """The numbers that groups make: (groups, count) -> (count,); the last group is worth x."""
    values: NDArray[np.int64] = r[0]
    for place in range(1, len(r)):
        values += r[place] << _DIGITS * place
    beyond = (r[-1] >> _DIGITS).nonzero()[0]
    if beyond.size:  # the last group's r is 2^8 and what a number without memory adds to it
        last = _DIGITS * (len(r) - 1)
        values[beyond] += geometric(beyond.size, x, bits) << last
    return values


def geometric(count: int, a: Exact, bits: Bits) -> NDArray[np.int64]:
    """`count` independent g >= 0 with P(g) = (1-e^-a) e^(-ag), exactly (THEORY 2.4), as int64.

    Spends 2 bytes on every 8 of the log2(45/a) binary digits.

    Raises:
        TypeError: `a` is not exact.  ValueError: a <= 0 or 1/a >= 2^45.
    """
    digits = _digits(a)
    return _joined(_drawn(digits, len(digits.groups) - 1, count, bits), digits.groups[-2].x, bits)


def discrete_laplace(count: int, a: Exact, bits: Bits) -> NDArray[np.int64]:
    """`count` independent z with P(z) = tanh(a/2) e^(-a|z|), exactly, as int64 (THEORY 2.4).

    What `noise_bound` and `uniform` give for n = 1, many at a time.

    Raises:
        TypeError: `a` is not exact.  ValueError: a <= 0 or 1/a >= 2^45.
    """
    digits = _digits(a)
    r = _drawn(digits, len(digits.groups), count, bits)
    values = _joined(r[:-1], digits.groups[-2].x, bits)
    values ^= -r[-1]
    return values
