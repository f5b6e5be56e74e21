"""Answers to queries, with noise added either to the data before the query or to its answer.

Sanitised response (Holohan 2014, section 2.2): X_{Q,d} = Q(X_d). Noise is added to the database once, every
answer is computed from the noisy database, and a single release is charged, for any number of queries
(Theorem 4, Corollary 1). See `Sanitised` and, for one function of a mechanism's output, `Then`.

Output perturbation (section 2.2): the answer is X_{Q,d} = X_{Q(d)}. Every answer gets fresh noise and is
charged, even if the query is repeated. The promise holds on the space of answers, with the metric d_Y, and
carries over to databases, with the metric d_X:

* `After`: an epsilon d_Y-private mechanism after a Delta-sensitive query is Delta epsilon d_X-private
  (Chatzikokolakis 2013, Fact 5);
* `OutputPerturbation`: a pair (epsilon, delta) that holds between any two answers holds between any two
  points.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from meteragent.privacy.bits import Bits
from meteragent.privacy.exact import require_present, set_fields
from meteragent.privacy.mechanism.base import Guarantee, Mechanism, MetricMechanism, PairMechanism
from meteragent.privacy.mechanism.categorical import label_array
from meteragent.privacy.query import Query
from meteragent.privacy.space import Databases, Space, list_points

Answer = TypeVar("Answer")


@dataclass(frozen=True, init=False)
class Sanitised:
    """A noisy release of a point, such as a database, that answers any query; the point is not stored.

    All answers together are as private as `released`, a tuple (of rows, for a database) or a single value.
    """

    mechanism: Mechanism
    released: Any

    def __init__(self, mechanism: Mechanism, point: Any, *, bits: Bits | None = None) -> None:
        released = mechanism.release(label_array([point]), bits=bits)[0]
        set_fields(self, mechanism=mechanism, released=to_tuples(released))

    def answer(self, query: Query | Callable[[Any], Answer]) -> Answer:
        """Return a query's answer for the released point, at no charge; only a `Query`'s function is used."""
        function = query.function if isinstance(query, Query) else query
        return function(self.released)


@dataclass(frozen=True)
class Then:
    """A metric mechanism, then a function of its array of outputs: post-processing, which adds no loss."""

    mechanism: MetricMechanism
    function: Callable[[NDArray[Any]], NDArray[Any]]

    @property
    def space(self) -> Any:
        """The mechanism's space."""
        return self.mechanism.space

    def loss(self, distance: Fraction) -> Fraction:
        """Return the mechanism's loss, because the image of an output reveals no more than the output."""
        return self.mechanism.loss(distance)

    def release(self, points: ArrayLike, *, bits: Bits | None = None) -> NDArray[Any]:
        """Release `points`, each of which is charged, and apply the function to the outputs."""
        return self.function(self.mechanism.release(points, bits=bits))

    def log_mass(self, outputs: ArrayLike, point: Any) -> NDArray[np.float64]:
        """Return ln P of all outputs that are mapped to y. Raises ValueError if outputs cannot be listed."""
        originals = list_points(self.mechanism.space)
        mass = np.exp(self.mechanism.log_mass(originals, point)) if originals else np.zeros(0)
        if abs(mass.sum() - 1) > 1e-9:
            raise ValueError("the mass of a function's value is known only if all outputs can be listed")
        images, values = self.function(np.asarray(originals)), np.asarray(outputs)
        total = np.where(values[..., np.newaxis] == images, mass, 0).sum(axis=-1)
        with np.errstate(divide="ignore"):
            logarithm: NDArray[np.float64] = np.log(total)
        return logarithm


@dataclass(frozen=True)
class _Answered:
    """A mechanism after a query. Raises ValueError if a checked answer is outside the mechanism's space."""

    mechanism: Mechanism
    query: Query

    def __post_init__(self) -> None:
        """Check that the answers for the points of `pairs()` are points of the mechanism's space."""
        for x in chain.from_iterable(self.query.domain.pairs()):
            if self.query(x) not in self.mechanism.space:
                raise ValueError(f"answers must be points of the mechanism's space, {self.mechanism.space}")

    @property
    def space(self) -> Space:
        """The query's space."""
        return self.query.domain

    def release(self, points: Iterable[Any], *, bits: Bits | None = None) -> NDArray[Any]:
        """Release a noisy answer for each of `points`, a sequence or an array with a point in each row.

        Each point is charged, even if repeated. Raises ValueError if a point is not in the query's space, and
        as the mechanism does.
        """
        answers = [self.query(to_tuples(point)) for point in points]
        return self.mechanism.release(np.array(answers), bits=bits)

    def log_mass(self, outputs: ArrayLike, point: Any) -> NDArray[np.float64]:
        """Return the mechanism's log mass of each of `outputs` at the query's answer for `point`."""
        return self.mechanism.log_mass(outputs, self.query(point))


@dataclass(frozen=True)
class After(_Answered):
    """A metric mechanism after a query: Delta epsilon d_X-private (Chatzikokolakis 2013, Fact 5).

    The query's answers, and its sensitivity Delta in the mechanism's metric, are checked on the pairs of
    points that the query's space yields (all pairs of a small space). Raises TypeError if the mechanism is
    not a `MetricMechanism`; ValueError if the sensitivity is not an exact number, the checks show that it is
    too small, or a checked answer is not in the mechanism's space.
    """

    mechanism: MetricMechanism

    def __post_init__(self) -> None:
        """Check the answers, and the sensitivity in the mechanism's metric."""
        super().__post_init__()
        delta, domain, answers = self.query.sensitivity, self.query.domain, self.mechanism.space
        if not isinstance(self.mechanism, MetricMechanism):
            raise TypeError(f"{type(self.mechanism).__name__} has no loss: see OutputPerturbation")
        if not isinstance(delta, Fraction):
            raise ValueError(f"declare an exact sensitivity, just above {delta}")  # noqa: TRY004
        for x, y in domain.pairs():
            if answers.metric(self.query(x), self.query(y)) > delta * domain.metric(x, y):
                raise ValueError(f"in the mechanism's metric the answers are more than {delta}-sensitive")

    def loss(self, distance: Fraction) -> Fraction:
        """Return the mechanism's loss at Delta times `distance`."""
        return self.mechanism.loss(Fraction(self.query.sensitivity) * distance)


@dataclass(frozen=True)
class OutputPerturbation(_Answered):
    """A mechanism that promises (epsilon, delta) between any two answers, after a query of any sensitivity.

    See Holohan 2014, section 2.2. The answers for neighbours need not be neighbours, so a promise for
    neighbours, such as that of a product, does not suffice. Raises TypeError if the mechanism is not a
    `PairMechanism`; ValueError if the mechanism's pair holds only between neighbours, or the answer for a
    point that the query's space proposes is not in the mechanism's space.
    """

    mechanism: PairMechanism

    def __post_init__(self) -> None:
        """Check the answers, and that the promise holds between any two of them."""
        super().__post_init__()
        if not isinstance(self.mechanism, PairMechanism):
            raise TypeError(f"{type(self.mechanism).__name__} has no guarantee: see After")
        if isinstance(self.mechanism.space, Databases):
            raise ValueError("a promise for neighbours says nothing about answers that are far apart")  # noqa: TRY004

    @property
    def guarantee(self) -> Guarantee:
        """The mechanism's pair, which holds between any two points of the query's space."""
        return self.mechanism.guarantee


def to_tuples(point: Any) -> Any:
    """Convert a list or an array to nested tuples or a single value; return other objects unchanged."""
    value = require_present(point).tolist() if isinstance(point, np.ndarray | np.generic) else point
    return tuple(map(to_tuples, value)) if isinstance(value, list) else value
