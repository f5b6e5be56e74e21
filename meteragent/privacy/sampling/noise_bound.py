"""The noise bound R of a window: P(R) ~ w(R) = (2R+1)^n e^(-aR), with a = epsilon * quantum rational.

If R is drawn first and then n independent uniform integers on {-R..R}, these have P(z) ~ e^(-a max|z_i|)
(THEORY 2.1). At most n integers may ever be drawn with one R. R is drawn by rejection under an envelope
(THEORY 2.2): steps around M, the mode of w over the integers, of the width b over which w falls to w(M)/2:

    w(R)/w(M) = (t e^-x)^n,   t = (2R+1)/(2M+1),   x = (R-M) a/n.

All comparisons use integers that enclose this ratio (`weight_bounds`), and so does the computation of M and
b, once per (n, a). To accept or reject a proposal, the first 32 bits of a uniform number are compared with
cached weights of nearby integers. These decide about 99% of the proposals; the others need the weight itself.
"""

from dataclasses import dataclass, replace
from functools import lru_cache

from meteragent.privacy.bits import Bits
from meteragent.privacy.exact import Exact, check_parameters, exp_neg_bounds, power_bounds
from meteragent.privacy.sampling.bernoulli import FIRST_BITS, bernoulli
from meteragent.privacy.sampling.uniform import below


@dataclass(frozen=True, eq=False, slots=True)
class Envelope:
    """The envelope of w for n and a: M, a/n as two integers, and b, over which w falls to 2^-fall w(M)."""

    n: int
    slope_num: int
    slope_den: int
    mode: int
    fall: int
    block: int = 1

    def weight_bounds(self, point: int, k: int) -> tuple[int, int]:
        """Return integers lo <= 2^k w(R)/w(M) <= hi at R = `point`; w(R)/w(M) = (t e^-x)^n."""
        w = k + self.n.bit_length() + 4
        lo, hi = exp_neg_bounds((point - self.mode) * self.slope_num, self.slope_den, w)
        num, den = 2 * point + 1, 2 * self.mode + 1
        lo, hi = power_bounds(lo * num // den, hi * num // den + 1, self.n, w)
        return lo >> w - k, (hi >> w - k) + 1

    def has_fallen(self, width: int) -> bool:
        """Return whether w is provably at most 2^-fall w(M) at M + width and M - width (if >= 0)."""
        points = [self.mode + width] + [self.mode - width] * (width <= self.mode)
        limit = 1 << FIRST_BITS - self.fall
        return all(self.weight_bounds(point, FIRST_BITS)[1] <= limit for point in points)

    def draw(self, bits: Bits) -> int:
        """Draw an R. The envelope must have fall = 1."""
        while True:
            is_above = self.mode == 0 or bits.integer(1)
            j = 0
            while bits.integer(1):
                j += 1
            i = j * self.block + below(self.block, bits)
            proposal = self.mode + i if is_above else self.mode - 1 - i
            if proposal >= 0 and self.accepts(proposal, j, bits):
                return proposal

    def accepts(self, proposal: int, j: int, bits: Bits) -> bool:
        """Return True with probability 2^j w(proposal)/w(M)."""

        def bounds(k: int) -> tuple[int, int]:
            """Return bounds on 2^k times this chance, first from cached neighbours of the proposal."""
            weight = self._neighbour_bounds if k == FIRST_BITS else self.weight_bounds
            return weight(proposal, k + j)

        return bernoulli(bounds, bits)

    def _neighbour_bounds(self, point: int, k: int) -> tuple[int, int]:
        """Return wider bounds, from the cached weights of neighbours: w is monotone on either side of M."""
        i, beyond = divmod(point - self.mode, self.step)
        lo, hi = _edge(self, i, k)
        if not beyond:
            return lo, hi
        next_lo, next_hi = _edge(self, i + 1, k)
        return min(lo, next_lo), max(hi, next_hi)

    @property
    def step(self) -> int:
        """The distance between integers with cached weights: 1/64 of a block, rounded down (at least 1)."""
        return max(1, self.block >> 6)


@lru_cache(maxsize=1 << 12)
def _edge(envelope: Envelope, i: int, k: int) -> tuple[int, int]:
    """Return bounds on 2^k w/w(M) at M + i steps, from the cache; (0, 0) at a negative point."""
    point = envelope.mode + i * envelope.step
    return envelope.weight_bounds(point, k) if point >= 0 else (0, 0)


@lru_cache(maxsize=256, typed=True)  # typed, so that a float equal to a cached Fraction is still refused
def envelope_of(n: int, a: Exact, fall: int = 1) -> Envelope:
    """Create an envelope with a block over which w falls to 2^-fall w(M); `draw` needs fall = 1."""
    exact = check_parameters(n, a)
    slope = exact / n
    num, den = exact.numerator, exact.denominator
    below_peak = max(0, (2 * n * den - num) // (2 * num))  # floor(n/a - 1/2)
    envelope = Envelope(n, slope.numerator, slope.denominator, below_peak, fall)
    if _rises(envelope):
        envelope = replace(envelope, mode=below_peak + 1)
    return replace(envelope, block=_block_width(envelope))


def _rises(envelope: Envelope) -> bool:
    """Return whether w(M+1) > w(M). The two weights are never equal, because w(M+1)/w(M) is irrational."""
    k = FIRST_BITS
    while True:
        lo, hi = envelope.weight_bounds(envelope.mode + 1, k)
        if lo > 1 << k:
            return True
        if hi < 1 << k:
            return False
        k *= 2


def _block_width(envelope: Envelope) -> int:
    """Find the least b at which w has provably fallen to 2^-fall w(M), by bisection."""
    high = 1
    while not envelope.has_fallen(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if envelope.has_fallen(middle) else (middle, high)
    return high


def noise_bound(n: int, a: Exact, bits: Bits) -> int:
    """Draw R >= 0, P(R) ~ (2R+1)^n e^(-aR), exactly (THEORY 2.1, 2.2). Raises as `check_parameters` does."""
    return envelope_of(n, a).draw(bits)
