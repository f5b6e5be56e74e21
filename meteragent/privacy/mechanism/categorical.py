"""Randomised response over any finite set (Holohan 2014, Example 6).

There are m values besides the true value. Each of them is released with probability p, and the true value
with probability 1 - m p:

    p = (1 - delta)/(m + e^epsilon),        1 - m p = (e^epsilon + m delta)/(m + e^epsilon).

As 1 - m p = e^epsilon p + delta, the pair (epsilon, delta) holds between any two values, but for no smaller
p. For two values and delta = 0 this is Warner's randomised response, p = 1/(1 + e^epsilon).

A release is drawn as a mixture, so that no draw depends on the value: with probability s = (m+1) p the value
is replaced by one of the m+1 values, all equally likely. p is irrational (unless epsilon = 0 or delta = 1),
so the draw compares a uniform number with certified bounds on s, which grows with y = e^-epsilon:

    s = (m+1)(1-delta) y/(1 + m y).
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from meteragent.privacy import sampling
from meteragent.privacy.channel import Channel, exp
from meteragent.privacy.exact import Exact, exp_neg_bounds, require_present, set_fields
from meteragent.privacy.mechanism.base import Guarantee, make_guarantee
from meteragent.privacy.space import Categories

_GUARD_BITS = 8
_PLAIN = ({int}, {str}, {bool})  # types of values that a numpy dtype holds unchanged


def label_array(points: ArrayLike) -> NDArray[np.generic]:
    """Return `points` as an array whose entries equal the given labels."""
    # numpy converts all values of a list to strings if one of them is a string.
    array = require_present(points)
    is_converted = array.dtype.kind == "U" and not isinstance(points, np.ndarray)
    return np.array(points, object) if is_converted else array


@dataclass(frozen=True, init=False)
class Categorical:
    """Randomised response over m+1 >= 2 values: each value but the true one is released with probability p.

    p = (1-delta)/(m+e^epsilon). The promise is (epsilon, delta) between any two values (Holohan 2014, Example
    6), without slack. At (0, 0) the output does not depend on the value; at delta = 1 the output is the
    value. Raises ValueError if the set has one value, epsilon < 0, or delta is not in [0, 1].
    """

    space: Categories
    guarantee: Guarantee
    _index_by_label: dict[Hashable, int] = field(repr=False, compare=False)

    def __init__(self, space: Categories, epsilon: Exact, delta: Exact = 0) -> None:
        if len(space.points) < 2:
            raise ValueError("a set of one value hides nothing: give at least two")
        set_fields(self, space=space, guarantee=make_guarantee(epsilon, delta))
        index_by_label = {value: index for index, value in enumerate(space.points)}
        object.__setattr__(self, "_index_by_label", index_by_label)

    @property
    def p(self) -> float:
        """The probability of each value other than the true value: (1-delta)/(m+e^epsilon)."""
        epsilon, delta = map(float, self.guarantee)
        y = math.exp(-epsilon)
        return (1 - delta) * y / (1 + (len(self.space.points) - 1) * y)

    @property
    def expected_error(self) -> float:
        """The mean distance of the output from the true value, m p for every true value (Holohan, Example 7).

        The metric is discrete, so this is the probability of a wrong output, m (1-delta)/(m+e^epsilon). No
        (epsilon, delta) mechanism whose outputs are among the values has a smaller maximum over the true
        values (Holohan, Theorem 7).
        """
        return (len(self.space.points) - 1) * self.p

    @property
    def channel(self) -> Channel:
        """The mechanism's exact matrix, whose rows and columns are the values."""
        values, (epsilon, delta) = self.space.points, self.guarantee
        p = (1 - delta) / (len(values) - 1 + exp(epsilon))
        p_true = 1 - (len(values) - 1) * p
        return Channel(values, values, ([p_true if y == x else p for y in values] for x in values))

    def release(self, points: ArrayLike, *, bits: sampling.Bits | None = None) -> NDArray[np.generic]:
        """Release `points`, an array of labels of any shape; each label is kept or replaced independently.

        The dtype is that of the set's values if all are ints, strings or bools, else object; strings are as
        wide as the widest value, because the caller's width would reveal their lengths. Raises ValueError,
        whose text omits the label, for one that is not in the set.
        """
        source = sampling.source_of(bits)
        labels = label_array(points)
        true_indices = self._indices(labels)
        is_replaced = sampling.choice(self._replacement_bounds, true_indices.size, source) == 0
        replacements = sampling.below_array(len(self.space.points), true_indices.size, source)
        return self._values()[np.where(is_replaced, replacements, true_indices)].reshape(labels.shape)

    def log_mass(self, outputs: ArrayLike, point: Hashable) -> NDArray[np.float64]:
        """Return ln P(y | x): 1 - m p at y = x, else p. Raises ValueError if a label is not in the set."""
        epsilon, delta = map(float, self.guarantee)
        log_m = math.log(len(self.space.points) - 1)
        log_equal = np.logaddexp(epsilon, log_m + math.log(delta)) if delta else epsilon
        labels = label_array(outputs)
        is_equal = (self._indices(labels) == self._index(point)).reshape(labels.shape)
        log_other = math.log1p(-delta) if delta < 1 else -math.inf
        mass: NDArray[np.float64] = np.where(is_equal, log_equal, log_other) - np.logaddexp(epsilon, log_m)
        return mass

    def _replacement_bounds(self, k: int) -> list[tuple[int, int]]:
        """Return integers lo <= 2^k s <= hi, as the list of one pair that `sampling.choice` needs."""
        (epsilon, delta), m = self.guarantee, len(self.space.points) - 1
        w, top = k + _GUARD_BITS + m.bit_length(), (m + 1) * (1 - delta)  # ds/dy <= m+1
        lo, hi = exp_neg_bounds(epsilon.numerator, epsilon.denominator, w)
        unit = 1 << w
        lower, upper = top * (lo << k) / (unit + m * lo), top * (hi << k) / (unit + m * hi)
        return [(math.floor(lower), math.ceil(upper))]

    def _values(self) -> NDArray[np.generic]:
        """Return the set's values in order, as an array of a plain dtype if the dtype fits them."""
        values = self.space.points
        plain = np.array(values) if {type(value) for value in values} in _PLAIN else np.empty(0)
        if plain.tolist() == list(values):
            return plain
        boxed = np.empty(len(values), object)
        boxed[:] = values
        return boxed

    def _indices(self, labels: NDArray[np.generic]) -> NDArray[np.int64]:
        return np.array([self._index(label) for label in labels.ravel().tolist()], np.int64)

    def _index(self, label: Hashable) -> int:
        try:
            return self._index_by_label[label]
        except (KeyError, TypeError):
            # The message omits the label, which may be private.
            raise ValueError(f"a label is none of the set's {len(self._index_by_label)} values") from None
