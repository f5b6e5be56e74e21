"""Randomised response over any finite set (Holohan 2014, Example 6).

With m others beside the true value, each of them leaves with probability p and the true one with the rest:

    p = (1 - delta)/(m + e^epsilon),        1 - m p = (e^epsilon + m delta)/(m + e^epsilon).

1 - m p = e^epsilon p + delta, so the pair (epsilon, delta) holds between any two values, and no smaller p
has it. For two values and delta = 0 it is Warner's randomised response, p = 1/(1 + e^epsilon).

It is drawn as a mixture, so that no draw depends on the value: with probability s = (m+1) p it is
replaced by one of all m+1 values, each as likely. p is irrational; s is compared with certified bounds,

    s = (m+1)(1-delta) y/(1 + m y),        y = e^-epsilon,  growing with y.
"""

import math
from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from meteragent.privacy import sampling
from meteragent.privacy.channel import Channel, exp
from meteragent.privacy.exact import Exact, exp_neg_bounds
from meteragent.privacy.mechanism.base import Guarantee, pair
from meteragent.privacy.space import Categories

_GUARD_BITS = 8
_PLAIN = ({int}, {str}, {bool})


def as_given(points: ArrayLike) -> NDArray[np.generic]:
    """`points` as an array of what they are: numpy makes a text of a number that stands beside one."""
    array = np.asarray(points)
    mixed = array.dtype.kind == "U" and not isinstance(points, np.ndarray)
    return np.array(points, object) if mixed else array


@dataclass(frozen=True, init=False)
class Categorical:
    """Values of a finite set of m+1 >= 2, each replaced by any other with p = (1-delta)/(m+e^epsilon).

    The promise is (epsilon, delta) between any two values (Holohan 2014, Example 6), without slack. At (0, 0)
    what leaves does not depend on the value; at delta = 1 it is the value.

    Raises:
        TypeError: epsilon or delta is not exact; the text shows what to write.
        ValueError: the set has one value, epsilon < 0, or delta is not in [0, 1].
    """

    space: Categories
    guarantee: Guarantee
    _places: dict[Hashable, int] = field(repr=False, compare=False)

    def __init__(self, space: Categories, epsilon: Exact, delta: Exact = 0) -> None:
        if len(space.points) < 2:
            raise ValueError("a set of one value hides nothing: give at least two")
        object.__setattr__(self, "space", space)
        object.__setattr__(self, "guarantee", pair(epsilon, delta))
        places = {value: place for place, value in enumerate(space.points)}
        object.__setattr__(self, "_places", places)

    @property
    def p(self) -> float:
        """The probability of each value that is not the true one: (1-delta)/(m+e^epsilon)."""
        epsilon, delta = map(float, self.guarantee)
        y = math.exp(-epsilon)
        return (1 - delta) * y / (1 + (len(self.space.points) - 1) * y)

    @property
    def expected_error(self) -> float:
        """The mean distance of what leaves from the truth, the same for each: m p (Holohan, Example 7).

        The metric is the discrete one, so it is the chance to be wrong, m (1-delta)/(m+e^epsilon); no
        (epsilon, delta) mechanism has a smaller largest one (Holohan, Theorem 7).
        """
        return (len(self.space.points) - 1) * self.p

    @property
    def channel(self) -> Channel:
        """Its matrix, exactly: rows and columns are the values."""
        values, (epsilon, delta) = self.space.points, self.guarantee
        p = (1 - delta) / (len(values) - 1 + exp(epsilon))
        kept = 1 - (len(values) - 1) * p
        return Channel(values, values, ([kept if y == x else p for y in values] for x in values))

    def release(self, points: ArrayLike, *, bits: sampling.Bits | None = None) -> NDArray[np.generic]:
        """`points`, labels in an array of any shape, each kept or replaced on its own; the same shape out.

        The dtype is that of the set's values: for texts as wide as the widest value of the set, since
        the width of a given array would tell which texts are in it. `bits` are the operating system's
        unless given. Each label is charged.

        Raises:
            ValueError: a label is not in the set; the text does not say which, as it may be private.
        """
        source = sampling.BulkBits() if bits is None else bits
        given = as_given(points)
        true = self._indices(given)
        replaced = sampling.choice(self._replacement_bounds, true.size, source) == 0
        drawn = sampling.below_array(len(self.space.points), true.size, source)
        return self._values()[np.where(replaced, drawn, true)].reshape(given.shape)

    def log_mass(self, outputs: ArrayLike, point: Hashable) -> NDArray[np.float64]:
        """The logarithm of P(y | x), y each of `outputs` and x = `point`: 1 - m p where equal, else p.

        Raises:
            ValueError: a label is not in the set.
        """
        epsilon, delta = map(float, self.guarantee)
        log_m = math.log(len(self.space.points) - 1)
        kept = np.logaddexp(epsilon, log_m + math.log(delta)) if delta else epsilon
        given = as_given(outputs)
        same = (self._indices(given) == self._place(point)).reshape(given.shape)
        replaced = math.log1p(-delta) if delta < 1 else -math.inf
        mass: NDArray[np.float64] = np.where(same, kept, replaced) - np.logaddexp(epsilon, log_m)
        return mass

    def _replacement_bounds(self, k: int) -> list[tuple[int, int]]:
        """Integers lo <= 2^k s <= hi, one pair: what `sampling.choice` asks for two outcomes."""
        (epsilon, delta), m = self.guarantee, len(self.space.points) - 1
        w, top = k + _GUARD_BITS + m.bit_length(), (m + 1) * (1 - delta)  # s grows by up to m+1 times y
        lo, hi = exp_neg_bounds(epsilon.numerator, epsilon.denominator, w)
        one = 1 << w
        below, above = top * (lo << k) / (one + m * lo), top * (hi << k) / (one + m * hi)
        return [(math.floor(below), math.ceil(above))]

    def _values(self) -> NDArray[np.generic]:
        """The set as an array in its order: of a plain dtype, if one holds all values as they are."""
        values = self.space.points
        plain = np.array(values) if {type(value) for value in values} in _PLAIN else np.empty(0)
        if plain.tolist() == list(values):
            return plain
        boxed = np.empty(len(values), object)
        boxed[:] = values
        return boxed

    def _indices(self, labels: NDArray[np.generic]) -> NDArray[np.int64]:
        return np.array([self._place(label) for label in labels.ravel().tolist()], np.int64)

    def _place(self, label: Hashable) -> int:
        try:
            return self._places[label]
        except (KeyError, TypeError):
            raise ValueError(f"a label is none of the set's {len(self._places)} values") from None
