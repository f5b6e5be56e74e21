"""Interfaces of a mechanism: a randomised map from the points of a metric space to outputs.

Most mechanisms make one of two promises. Under a metric promise (Chatzikokolakis 2013, Definition 1), no
output changes the odds between two points by a factor of more than e^loss(d), where d is their distance. A
promise (epsilon, delta), which is called a pair, holds between any two points of the space or, in a space of
databases, between neighbours (Holohan 2014, Definition 1). On a space of finite diameter a metric promise
implies the pair (loss(diameter), 0).
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from meteragent.privacy.bits import Bits
from meteragent.privacy.exact import Exact, not_negative, to_rational


class Guarantee(NamedTuple):
    """The pair (epsilon, delta): P(A | x) <= e^epsilon P(A | x') + delta for any event A."""

    epsilon: Fraction
    delta: Fraction


def make_guarantee(epsilon: Exact, delta: Exact) -> Guarantee:
    """Return the pair (epsilon, delta). Raises ValueError if epsilon is negative or delta not in [0, 1]."""
    exact_delta = to_rational("delta", delta)
    if not 0 <= exact_delta <= 1:
        raise ValueError(f"delta must lie in [0, 1], not {exact_delta}")
    return Guarantee(not_negative("epsilon", epsilon), exact_delta)


@runtime_checkable
class Mechanism(Protocol):
    """An object, from this library or another, that releases points of a metric `space` with noise."""

    @property
    def space(self) -> Any:
        """The metric space whose points the mechanism takes."""

    def release(self, points: Any, *, bits: Bits | None = None) -> NDArray[Any]:
        """Release each point of the array `points` with fresh noise; each is charged, even a copy."""

    def log_mass(self, outputs: Any, point: Any) -> NDArray[np.float64]:
        """Return the log of the probability (or density) of each of `outputs` if `point` is released."""


@runtime_checkable
class MetricMechanism(Mechanism, Protocol):
    """A mechanism with a metric promise."""

    def loss(self, distance: Fraction, /) -> Fraction:
        """Return the largest |ln P(y | x)/P(y | x')| over y and points x, x' at `distance`; 0 at 0."""


@runtime_checkable
class LawlessMechanism(Protocol):
    """A mechanism that makes a metric promise; it need not state its output distribution (`log_mass`)."""

    @property
    def space(self) -> Any:
        """The metric space whose points the mechanism takes."""

    def release(self, points: Any, *, bits: Bits | None = None) -> NDArray[Any]:
        """Release each point of the array `points` with fresh noise. A mechanism may ignore `bits`."""

    def loss(self, distance: Fraction, /) -> Fraction:
        """Return a bound on the privacy loss between points at `distance`, as in `MetricMechanism`."""


@runtime_checkable
class PairMechanism(Mechanism, Protocol):
    """A mechanism with a promise (epsilon, delta) between any two points, or between neighbours."""

    @property
    def guarantee(self) -> Guarantee:
        """The pair (epsilon, delta)."""
