"""The l_inf Laplace mechanism on the lattice q Z^n (THEORY 1, 2.1; for n = 1 the Laplace mechanism).

The noise of a window is z in Z^n, in quanta, with P(z) ~ e^(-a max|z_i|), a = epsilon q. What leaves,
x + q z, is epsilon d_inf-private for x in q Z^n: P(z - k)/P(z) <= e^(a max|k_i|) by the triangle
inequality. Also when each slot leaves at once and the readings react to it (THEORY 3.1).
"""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from meteragent.privacy import sampling
from meteragent.privacy.exact import positive, rational

_LATTICE_LIMIT = 1 << 62
"""|x| in quanta stays at or below it, so that x + z stays in int64."""


@dataclass(frozen=True)
class LInfLaplace:
    """Noise for windows of n slots: epsilon d_inf-private, epsilon in 1/unit.

    `epsilon` and `quantum` (the lattice of slot values, in the unit) are exact: a Fraction or an int.
    `a` = epsilon * quantum is the only parameter of the law of the noise in quanta, beside n.

    Raises:
        TypeError: a parameter is not exact; the text shows what to write.
        ValueError: a parameter is not above zero, or n/a >= 2^45.
    """

    epsilon: Fraction
    quantum: Fraction
    n: int
    a: Fraction = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse here what could not be drawn exactly."""
        epsilon, quantum = positive("epsilon", self.epsilon), positive("quantum", self.quantum)
        a = sampling.check_parameters(self.n, epsilon * quantum)
        for name, value in (("epsilon", epsilon), ("quantum", quantum), ("a", a)):
            object.__setattr__(self, name, value)

    def loss(self, distance: Fraction) -> Fraction:
        """The privacy lost between windows at d_inf = `distance` (in the unit) before rounding.

            loss(d) = epsilon q ceil(d/q)

        Rounding by floor(x/q + 1/2) makes of a distance d at most q ceil(d/q), so at a multiple of
        the quantum it is epsilon d (THEORY 2.1). The odds between the two change by e^loss at most.

        Raises:
            TypeError: `distance` is not exact.  ValueError: it is negative.
        """
        exact = rational("distance", distance)
        if exact < 0:
            raise ValueError(f"a distance is not negative: {exact}")
        return self.a * -(-exact // self.quantum)

    def radius(self, bits: sampling.Bits) -> int:
        """R of one window, secret until the window is over, then wiped (THEORY 3.1).

        At most n times may `draw` be called with it: an n+1st slot costs many times epsilon.
        """
        return sampling.radius(self.n, self.a, bits)

    def draw(self, radius: int, bits: sampling.Bits) -> int:
        """The noise of one slot in quanta, uniform on {-R .. R}, R = `radius` of its window."""
        return sampling.uniform(radius, bits)

    def release(self, windows: ArrayLike, *, bits: sampling.Bits | None = None) -> NDArray[np.int64]:
        """`windows`, integers in quanta of shape (..., n), with fresh noise, as int64 in quanta.

        Each row is a window and is charged epsilon. Calling twice on one window charges it twice.
        `bits` are the operating system's unless given.

        Raises:
            TypeError: the values are not integers.
            ValueError: the last axis is not n, or a value is beyond 2^62 quanta.
        """
        source = sampling.SystemBits() if bits is None else bits
        rows = self._lattice(windows)
        noisy = np.empty_like(rows)
        for index in np.ndindex(rows.shape[:-1]):
            cube = self.radius(source)
            noisy[index] = rows[index] + sampling.below_array(2 * cube + 1, self.n, source) - cube
        return noisy

    def _lattice(self, windows: ArrayLike) -> NDArray[np.int64]:
        values: NDArray[Any] = np.asarray(windows)
        if values.dtype.kind not in "iu":
            raise TypeError(f"values are whole quanta: an array of integers, not of {values.dtype}")
        if values.ndim == 0 or values.shape[-1] != self.n:
            raise ValueError(f"windows have shape (..., {self.n}), not {values.shape}")
        if values.size and max(int(values.max()), -int(values.min())) > _LATTICE_LIMIT:
            raise ValueError("a value is beyond 2^62 quanta")
        return values.astype(np.int64)
