"""What a mechanism is: a randomised map from the points of a metric space to what leaves.

Two promises are made. A metric one (Chatzikokolakis 2013, Definition 1): between any two points the odds
of whatever leaves change by at most e^loss(d), d their distance. A pair (epsilon, delta) for any two
points of the space or, where the space is one of databases, for neighbours (Holohan 2014, Definition 1).
A metric promise is also a pair: (loss(diameter), 0).
"""

from fractions import Fraction
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from meteragent.privacy.bits import Bits
from meteragent.privacy.exact import Exact, not_negative, rational


class Guarantee(NamedTuple):
    """(epsilon, delta): P(A | x) <= e^epsilon P(A | x') + delta for any event A."""

    epsilon: Fraction
    delta: Fraction


def pair(epsilon: Exact, delta: Exact) -> Guarantee:
    """Return (epsilon, delta) as a promise: epsilon >= 0, 0 <= delta <= 1 (Holohan 2014, Definition 1).

    Raises:
        TypeError: one is not exact.  ValueError: one is out of its range.
    """
    loose = rational("delta", delta)
    if not 0 <= loose <= 1:
        raise ValueError(f"delta must lie in [0, 1], not {loose}")
    return Guarantee(not_negative("epsilon", epsilon), loose)


@runtime_checkable
class Mechanism(Protocol):
    """Anything that releases points with noise; ours and anybody's.

    `space` is a metric space (`meteragent.privacy.space`): `metric(x, y)`, `diameter`, `x in space`, and
    `pairs()`, points that a test should tell apart.
    """

    @property
    def space(self) -> Any:
        """The metric space whose points it takes."""
        ...

    def release(self, points: Any, *, bits: Bits | None = None) -> NDArray[Any]:
        """`points`, an array of them, with fresh noise; `bits` are the operating system's unless given.

        Each point is charged; the same point twice is charged twice.
        """
        ...

    def log_mass(self, outputs: Any, point: Any) -> NDArray[np.float64]:
        """The logarithm of the probability (or density) of each of `outputs` where `point` is released."""
        ...


@runtime_checkable
class MetricMechanism(Mechanism, Protocol):
    """A mechanism with a metric promise."""

    def loss(self, distance: Fraction, /) -> Fraction:
        """The log of how much the odds may change between points at `distance`; 0 at 0."""
        ...


@runtime_checkable
class PairMechanism(Mechanism, Protocol):
    """A mechanism with a promise (epsilon, delta) between any two points, or neighbours."""

    @property
    def guarantee(self) -> Guarantee:
        """The pair."""
        ...
