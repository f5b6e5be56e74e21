"""The composition of many releases: (epsilon, delta) by bounds from rough to exact.

Theory of operation
-------------------
A pair consists of two distributions, P and Q (`divergence.pair`). The losses of independent pairs add. The
product of the pairs dominates any adaptive sequence of releases in which each release is dominated by its
pair (THEORY 5.1). The bounds, from rough to exact:

* basic: the sum of the losses, with delta = 0;
* zcdp: as rdp below, with the bound rho * order on the divergence of each order;
* rdp: Renyi divergences add up at every order, and the best order is converted to epsilon;
* pld (privacy loss distribution): delta = E_P (1 - e^(epsilon - L))+, where L is the summed loss.

For pld, the losses of all pairs are put on one grid. An atom between two grid points is split so that P and Q
keep their mass, which makes the pair worse, in proportion to the square of the grid's width (Doroshenko et
al. 2022, arXiv 2207.04380). If all pairs have the same a (the loss of one quantum), and a is not too small,
nothing is split. The distributions are tilted by e^(sL), which makes the relevant losses likely, and
convolved by the fast Fourier transform. Bounds on the omitted masses and on the rounding errors are added to
the result, so it can be too small only in its last bits. Tails that wrap around are bounded by Chernoff's
bound. The relative rounding error in l2 of a transform of N numbers is at most 8 u log2(N), u = 2^-53 (Higham
2002, Theorem 24.2); it counts once for each use of a distribution.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from meteragent.privacy.divergence.pair import LaplacePair, LatticePair, Pair
from meteragent.privacy.exact import Exact, positive

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_ATOMS_LIMIT = 1 << 18
_CELLS_PER_DEVIATION = 256  # cells per standard deviation of one window's loss
_TAIL_MASS = 1e-14  # the largest mass of the tilted distribution that is omitted at each end
_ROUNDING = 8 * 2.0**-53


def rdp_epsilon(order: float, divergence: float, delta: float) -> float:
    """Convert a Renyi `divergence` of an `order` above 1 to the epsilon for `delta`.

        max(0, divergence + ln((order-1)/order) - (ln delta + ln order)/(order-1))

    See Canonne, Kamath, Steinke 2020, arXiv 2004.00010, Proposition 12.

    Raises:
        ValueError: the order is not above 1, or delta is not between 0 and 1.
    """
    if not (order > 1 and 0 < delta < 1):
        raise ValueError(f"the order must be above 1 and delta between 0 and 1, not {order} and {delta}")
    s = order - 1
    return max(0.0, divergence + math.log(s / order) - (math.log(delta) + math.log(order)) / s)


def zcdp_epsilon(rho: float, delta: float) -> float:
    """Return the least `rdp_epsilon` over all orders for rho-zCDP, that is, for divergences rho * order.

    The result is at most rho + 2 sqrt(rho ln(1/delta)) (Bun, Steinke 2016, arXiv 1605.02065, Prop. 1.3).

    Raises:
        ValueError: rho is negative, or rho is positive and delta is not between 0 and 1.
    """
    if not rho >= 0:
        raise ValueError(f"rho must not be negative: {rho}")
    return _minimise(lambda s: rdp_epsilon(1 + s, rho * (1 + s), delta))[0] if rho else 0.0


def _minimise(function: Callable[[float], float]) -> tuple[float, float]:
    """Minimise a function of s > 0 on a grid that is refined three times. Return the minimum and its s."""
    low, high = 1e-6, 1e12
    for _ in range(4):
        grid = [float(s) for s in np.geomspace(low, high, 24)]
        values = [function(s) for s in grid]
        best = values.index(min(values))
        low, high = grid[max(0, best - 1)], grid[min(23, best + 1)]
    return values[best], grid[best]


class Figure(NamedTuple):
    """A pair (epsilon, delta) and the method that gave it: "basic", "zcdp", "rdp" or "pld"."""

    epsilon: float
    delta: float
    method: str


@dataclass(frozen=True)
class Composed:
    """The composition of many releases, as a count for each pair (Pauwels 2016, composition; THEORY 5.2).

    The bounds hold for any sequence of releases in which each release is dominated by its pair, given any
    earlier releases. The pairs must be fixed in advance. Epsilons are floats that can be too small only in
    their last bits.

    Raises:
        ValueError: a count is negative.
    """

    pairs: Mapping[Pair, int]

    def __post_init__(self) -> None:
        """Check that counts are not negative; drop pairs whose count or loss is 0."""
        if any(count < 0 for count in self.pairs.values()):
            raise ValueError("the count of a pair must not be negative")
        object.__setattr__(self, "pairs", {pair: n for pair, n in self.pairs.items() if n and pair.loss})

    @classmethod
    def at_radius(cls, charges: Mapping[Fraction, int], radius: Exact, quantum: Exact | None = None) -> Self:
        """Compose windows released at `charges`, {epsilon: count}.

        In each window the two curves are at most `radius` apart in d_inf. Slot values lie on the lattice of
        `quantum`, as those of a meter do; None means the limit of fine lattices.

        Raises:
            TypeError: an epsilon is neither a Fraction nor an int, or `radius` or `quantum` is not exact.
            ValueError: an epsilon, `radius` or `quantum` is not positive, or a count is negative.
        """
        for epsilon in charges:
            positive("epsilon", epsilon)
            if isinstance(epsilon, str | Decimal):  # two keys might state the same number
                raise TypeError(f"epsilon must be a Fraction: write Fraction({str(epsilon)!r})")
        r = positive("radius", radius)
        if quantum is None:
            return cls({LaplacePair(epsilon * r): count for epsilon, count in charges.items()})
        q = positive("quantum", quantum)
        return cls({LatticePair(epsilon * q, -(-r // q)): count for epsilon, count in charges.items()})

    @property
    def loss(self) -> Fraction:
        """The sum of all losses, exactly: epsilon for delta = 0 (basic composition)."""
        return sum((pair.loss * count for pair, count in self.pairs.items()), Fraction(0))

    @property
    def rho(self) -> float:
        """The sum of the pairs' zCDP parameters, each of which is the pair's KL divergence."""
        return sum(pair.kl * count for pair, count in self.pairs.items())

    def epsilon(self, delta: float) -> float:
        """Return the least epsilon for which all releases together are (epsilon, delta)-private (pld).

        The result is rounded up. For tens of windows or more, it is about 1 + 1e-5 times the exact value. For
        a few windows with different a, it exceeds the exact value by up to 1/256 of the standard deviation of
        a window's loss. It is 0 if the total loss is 0.

        Raises:
            ValueError: delta is not between 0 and 1 and the total loss is not 0.
        """
        high, tilt = self._rdp(delta)
        if not self.loss:
            return 0.0
        low, high, law = 0.0, min(high, float(self.loss)), _Tilted.of(self.pairs, tilt)
        if law.delta(low) <= delta:
            return low
        while (middle := (low + high) / 2) not in (low, high) and high - low > 1e-9 * high:
            low, high = (low, middle) if law.delta(middle) <= delta else (middle, high)
        return high

    def delta(self, epsilon: float) -> float:
        """Return the least delta for which all releases together are (epsilon, delta)-private (pld).

        The result is rounded up. At epsilon 0, delta is the total variation distance: a test that decides
        between two equally likely histories is correct with a probability of at most (1 + delta(0))/2.

        Raises:
            ValueError: epsilon is negative.
        """
        if not epsilon >= 0:
            raise ValueError(f"epsilon must not be negative: {epsilon}")
        if epsilon >= self.loss:
            return 0.0

        def log_delta(s: float) -> float:
            """Return ln delta by the formula of `rdp_epsilon`; the best s becomes the tilt."""
            return self._moment(s) - s * epsilon + s * math.log(s / (1 + s)) - math.log(1 + s)

        return _Tilted.of(self.pairs, _minimise(log_delta)[1]).delta(epsilon)

    def figures(self, delta: float) -> tuple[Figure, ...]:
        """Return (epsilon, delta) by each method: basic (with delta = 0), zcdp, rdp and pld.

        Raises:
            As for `epsilon`.
        """
        return (
            Figure(float(self.loss), 0.0, "basic"),
            Figure(zcdp_epsilon(self.rho, delta), delta, "zcdp"),
            Figure(self._rdp(delta)[0], delta, "rdp"),
            Figure(self.epsilon(delta), delta, "pld"),
        )

    def best(self, delta: float) -> Figure:
        """Return the figure with the least epsilon; if several are equal, that of the simplest method.

        Raises:
            As for `epsilon`.
        """
        return min(self.figures(delta), key=lambda figure: figure.epsilon)

    def _rdp(self, delta: float) -> tuple[float, float]:
        """Return the least epsilon that Renyi divergences give, and the s = order - 1 that gives it.

        The result is (0, 1) if the total loss is 0.
        """
        if not self.loss:
            return 0.0, 1.0
        return _minimise(lambda s: rdp_epsilon(1 + s, self._moment(s) / s, delta))

    def _moment(self, s: float) -> float:
        return sum(count * pair.moment(s) for pair, count in self.pairs.items())


class _Law(NamedTuple):
    """The tilted, normalised masses of X - L on a grid, for the cells with mass; a cell may occur twice.

    L is the loss of one window and X the largest loss of its pair.
    """

    cells: Integers
    masses: Floats

    def variance(self) -> float:
        """Return the variance, in cells."""
        mean = np.sum(self.masses * self.cells)
        return float(np.sum(self.masses * (self.cells - mean) ** 2))

    def log_moment(self, u: float) -> float:
        """Return the logarithm of E e^(u cell)."""
        exponent = u * self.cells
        top = float(exponent.max())
        return top + math.log(float(np.sum(self.masses * np.exp(exponent - top))))


class _Tilted(NamedTuple):
    """The tilted distribution of the summed loss: the mass of a loss L is P(L) e^(tilt L - log_moment).

    `error` bounds the error of any sum of masses with weights from 0 to 1.
    """

    losses: Floats
    masses: Floats
    tilt: float
    log_moment: float
    error: float

    @classmethod
    def of(cls, pairs: Mapping[Pair, int], tilt: float) -> _Tilted:
        """Put the losses of all pairs on a grid, tilt their distributions and convolve them."""
        width = _width(pairs)
        laws: list[tuple[_Law, int]] = []
        top = log_moment = 0.0
        for pair, count in pairs.items():
            fine = _fine(pair, width)
            law, log_scale = _deficits(fine, width, tilt)
            laws.append((law, count))
            top += float(fine.loss) * count
            log_moment += count * log_scale
        log_moment += tilt * top
        low, high = _range_of_sum(laws)
        size = 1 << max(1, math.ceil(math.log2(high - low + 1)))
        spectrum, rounding = np.ones(size // 2 + 1, np.complex128), 1.0
        for law, count in laws:
            circle = np.bincount(law.cells % size, law.masses, size)
            spectrum *= np.fft.rfft(circle) ** count
            rounding += 2 * count * math.sqrt(float(np.sum(circle**2)))
        masses = np.asarray(np.fft.irfft(spectrum, size), np.float64)
        losses = np.asarray(top - width * (low + (np.arange(size) - low) % size), np.float64)
        error = 2 * _TAIL_MASS + _ROUNDING * math.log2(size) * math.sqrt(size) * rounding
        return cls(losses, masses, tilt, log_moment, error)

    def delta(self, epsilon: float) -> float:
        """Return E_P (1 - e^(epsilon - L))+, plus the bound on its error."""
        is_above = self.losses > epsilon
        excess = self.losses[is_above] - epsilon
        tail = float(np.sum(self.masses[is_above] * np.exp(-self.tilt * excess) * -np.expm1(-excess)))
        log_scale = self.log_moment - self.tilt * epsilon
        return min(1.0, math.exp(min(log_scale, 700.0)) * (max(tail, 0.0) + self.error))


def _width(pairs: Mapping[Pair, int]) -> float:
    """Return a cell's width: about 1/256 of the root mean square deviation of the windows' losses.

    If all pairs are on lattices with the same a, the width is a multiple of 2a, and at least 2a.
    """
    variance = sum(count * min(2 * pair.kl, 4.0) for pair, count in pairs.items())
    width = math.sqrt(variance / sum(pairs.values())) / _CELLS_PER_DEVIATION
    steps = {2 * pair.a if isinstance(pair, LatticePair) else None for pair in pairs}
    step = steps.pop()
    if steps or step is None:
        return width
    return float(step) * max(1, math.floor(width / step))


def _fine(pair: Pair, width: float) -> LatticePair:
    """Return a lattice pair that dominates `pair`; steps are merged if there are too many."""
    if isinstance(pair, LatticePair):
        return pair.lattice(_ATOMS_LIMIT)
    return pair.lattice(min(_ATOMS_LIMIT, math.ceil(2 * pair.loss / width)))


def _deficits(fine: LatticePair, width: float, tilt: float) -> tuple[_Law, float]:
    """Return the tilted distribution of X - L under P, in cells, and the log of its unnormalised mass.

    The weights of the tilt are e^(-tilt (X - L)). An atom between cells is split: if its L lies between l and
    l + width, the upper end gets the share (1 - e^(l - L))/(1 - e^-width). So Q keeps its mass, too. Delta is
    exact at the grid's losses and linear in e^epsilon between them.
    """
    position = 2 * float(fine.a) / width * np.arange(fine.k + 1)
    cells = np.floor(position).astype(np.int64)
    masses = fine.masses()
    upper = masses * np.minimum(np.expm1(-width * (cells + 1 - position)) / math.expm1(-width), 1)
    cells, masses = np.append(cells, cells + 1), np.append(upper, masses - upper)
    masses *= np.exp(-tilt * width * cells)
    occupied = masses > 0
    total = float(masses.sum())
    return _Law(cells[occupied], masses[occupied] / total), math.log(total)


def _range_of_sum(laws: list[tuple[_Law, int]]) -> tuple[int, int]:
    """Return bounds on D, the sum of all windows' X - L, in cells, each wrong with a chance of at most 1e-14.

    The bounds follow from P(D > d) <= e^(-ud) E e^(uD), and from the same inequality for -D.
    """
    low, high = 0.0, float(sum(count * int(law.cells.max()) for law, count in laws))
    deviation = math.sqrt(sum(count * law.variance() for law, count in laws)) + 1e-3
    for u in np.geomspace(0.25, 16, 19) / deviation:
        up, down = (sum(count * law.log_moment(v) for law, count in laws) for v in (float(u), -float(u)))
        high = min(high, (up - math.log(_TAIL_MASS)) / u)
        low = max(low, (math.log(_TAIL_MASS) - down) / u)
    return math.floor(low), math.ceil(high)
