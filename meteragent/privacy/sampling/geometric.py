"""Geometric and discrete Laplace random numbers, many at a time: P(g) = (1-e^-a) e^(-ag).

The binary digits of g are independent (THEORY 2.4). So groups of 8 digits are independent, and a group whose
lowest digit is worth x = a 2^j has the value r < 256 with P(r) ~ e^(-xr). The last group is unbounded: a
value of at least 256 is 256 plus another such number (a geometric number is memoryless). Each number uses 16
random bits per group. A table maps them to r, except for the prefixes (at most about 1 in 256) that contain a
boundary between two values of r, and take 32 more bits at a time. A discrete Laplace number is g or, with
probability 1/(1+e^a), z = -1-g, which is g with all digits inverted.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from meteragent.privacy.bits import Bits, SystemBits
from meteragent.privacy.exact import GUARD_BITS, Exact, check_parameters, exp_neg_bounds
from meteragent.privacy.sampling.alias import alias_table
from meteragent.privacy.sampling.bernoulli import Thresholds, make_thresholds, refine_indices

_DIGITS = 8
_PREFIX_BITS = 16
_TAIL = 45  # all groups but the first have x < 45; the last includes all digits that are worth 45 or more


@dataclass(frozen=True, eq=False, slots=True)
class _Group:
    """Digits whose value r has P(r) ~ e^(-xr); 2^digits in the last group means r >= 2^digits."""

    x: Fraction
    digits: int
    is_last: bool = False

    def cumulative(self, k: int) -> list[tuple[int, int]]:
        """Return bounds on 2^k P(value <= r), one pair for each r except the largest.

        With q = e^-x, P(value <= r) is 1 - q^(r+1) in the last group, and (1 - q^(r+1))/(1 - q^(2^digits))
        in the others.
        """
        smallness = max(0, self.x.denominator.bit_length() - self.x.numerator.bit_length())
        w = k + self.digits + GUARD_BITS + smallness
        unit = 1 << w
        lo, hi = q_lo, q_hi = exp_neg_bounds(self.x.numerator, self.x.denominator, w)
        bounds = [(unit - hi, unit - lo)]
        for _ in range((1 << self.digits) - 1):
            lo, hi = lo * q_lo >> w, (hi * q_hi >> w) + 1
            bounds.append((unit - hi, unit - lo))
        if self.is_last:
            return [(lo >> w - k, (hi >> w - k) + 1) for lo, hi in bounds]
        all_lo, all_hi = bounds.pop()
        return [((lo << k) // all_hi, (hi << k) // all_lo + 1) for lo, hi in bounds]


@lru_cache(maxsize=256)
def _thresholds(group: _Group, k: int) -> Thresholds:
    return make_thresholds(group.cumulative(k), k)


def _prefix_table(group: _Group) -> NDArray[np.int16]:
    """Tabulate r by the first 16 bits of a uniform number; an entry is -1 if the bits do not decide r."""
    lo, hi = _thresholds(group, _PREFIX_BITS)
    counts = (np.bincount(bound, minlength=2 << _PREFIX_BITS) for bound in (np.maximum(lo, 0), hi))
    largest, smallest = (np.cumsum(count)[: 1 << _PREFIX_BITS] for count in counts)
    return np.where(largest == smallest, smallest, -1).astype(np.int16)


class _Digits(NamedTuple):
    """The groups of digits for one `a` (lowest first, the sign last), and their joined prefix tables."""

    groups: tuple[_Group, ...]
    table: NDArray[np.int16]


@lru_cache(maxsize=32, typed=True)  # 128 KiB per group; typed, to refuse a float equal to a cached Fraction
def _digits(a: Exact) -> _Digits:
    """Create the groups and tables for `a`."""
    worth = [check_parameters(1, a)]
    while (x := worth[-1] * (1 << _DIGITS)) < _TAIL:
        worth.append(x)
    groups = [_Group(x, _DIGITS) for x in worth[:-1]]
    groups += [_Group(worth[-1], _DIGITS, is_last=True), _Group(worth[0], 1)]
    return _Digits(tuple(groups), np.concatenate([_prefix_table(group) for group in groups]))


def _draw_groups(digits: _Digits, groups: int, count: int, bits: Bits) -> NDArray[np.int64]:
    """Draw `count` values r for each of the first `groups` groups, as an array of shape (groups, count)."""
    prefix = bits.array(groups * count, np.uint16).astype(np.int64)
    offset = np.arange(groups)[:, np.newaxis] << _PREFIX_BITS
    r = digits.table.take((prefix.reshape(groups, count) + offset).ravel())
    undecided = (r < 0).nonzero()[0]
    rows = undecided // max(count, 1)
    for i in sorted(set(rows.tolist())):
        group, index = digits.groups[i], undecided[rows == i]
        r[index] = refine_indices(partial(_thresholds, group), _PREFIX_BITS, prefix[index], bits)
    return r.reshape(groups, count).astype(np.int64)


def _join(r: NDArray[np.int64], x: Fraction, bits: Bits) -> NDArray[np.int64]:
    """Join each number's groups, in an array of shape (groups, count); `x` is the rate of the last group."""
    values: NDArray[np.int64] = r[0]
    for place in range(1, len(r)):
        values += r[place] << _DIGITS * place
    beyond = (r[-1] >> _DIGITS).nonzero()[0]
    if beyond.size:  # r = 2^8 in the last group: add another such number, because it is memoryless
        shift = _DIGITS * (len(r) - 1)
        values[beyond] += geometric(beyond.size, x, bits) << shift
    return values


def geometric(count: int, a: Exact, bits: Bits) -> NDArray[np.int64]:
    """Draw `count` independent g >= 0 with P(g) = (1-e^-a) e^(-ag), exactly (THEORY 2.4), as int64.

    A draw uses 2 bytes for every 8 of its log2(45/a) binary digits. Raises ValueError if a <= 0 or 1/a >=
    2^45.
    """
    digits = _digits(a)
    return _join(_draw_groups(digits, len(digits.groups) - 1, count, bits), digits.groups[-2].x, bits)


def discrete_laplace(count: int, a: Exact, bits: Bits) -> NDArray[np.int64]:
    """Draw `count` independent z with P(z) = tanh(a/2) e^(-a|z|), exactly, as int64 (THEORY 2.4).

    The operating system's bits go through a table, where there is one. Bits from a key or a seed use no
    table, so they give the same numbers in every version.
    """
    if isinstance(bits, SystemBits) and (table := alias_table(0, a)):
        return table.draw(count, bits)
    digits = _digits(a)
    r = _draw_groups(digits, len(digits.groups), count, bits)
    values = _join(r[:-1], digits.groups[-2].x, bits)
    values ^= -r[-1]  # if the sign is 1, invert all digits: -1 - g
    return values
