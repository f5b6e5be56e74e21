"""Answers to queries: noise on the data and then the query, or the query and then noise.

Sanitised response (Holohan 2014, section 2.2), X_Q(d) = Q(X_d). The database gets noise once, and all
that is ever answered is computed from that. So one release is charged, whatever is asked, however often:
the answers to any queries are (epsilon, delta)-private together exactly when the release is, as the
release is itself the answer to the identity query (Theorem 4, Corollary 1). A query that is repeated is
answered alike. It is `Sanitised`; for one function of what a mechanism releases, `Then`.

Output perturbation, X_Q(d) = X_{Q(d)}. Every answer gets fresh noise and is charged, also a repeated one:
the mean of many answers to one query is the answer. What is promised is promised about the answers' space
Y, and d goes with it:

* `After`: an epsilon d_Y-private mechanism after a Delta-sensitive query is Delta epsilon d_X-private
  (Chatzikokolakis 2013, Fact 5);
* `OutputPerturbation`: a pair (epsilon, delta) between any two answers is one between any two points.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from meteragent.privacy.bits import Bits
from meteragent.privacy.mechanism.base import Guarantee, Mechanism, MetricMechanism, PairMechanism
from meteragent.privacy.mechanism.categorical import as_given
from meteragent.privacy.query import Query
from meteragent.privacy.space import Databases, Space, listed

Answer = TypeVar("Answer")


# Noise, then the query ----------------------------------------------------------------------------


@dataclass(frozen=True, init=False)
class Sanitised:
    """One noisy release of a point (a database, say), and the answers to any queries on it.

    All answers together are as private as one release: `mechanism` states how private. The point itself
    is not kept. `released` is a point in the form of its space: a tuple of rows, or a single value.
    """

    mechanism: Mechanism
    released: Any

    def __init__(self, mechanism: Mechanism, point: Any, *, bits: Bits | None = None) -> None:
        object.__setattr__(self, "mechanism", mechanism)
        object.__setattr__(self, "released", plain(mechanism.release(as_given([point]), bits=bits)[0]))

    def answer(self, query: Query | Callable[[Any], Answer]) -> Answer:
        """The query's answer on what was released; no further charge, and the same each time.

        A `Query` is asked by its function: noise may have led out of its space.
        """
        function = query.function if isinstance(query, Query) else query
        return function(self.released)


@dataclass(frozen=True)
class Then:
    """A metric mechanism whose output passes through a function: post-processing, at no loss.

    `function` maps an array of outputs to an array of what is made of each, and never sees a point.
    """

    mechanism: MetricMechanism
    function: Callable[[NDArray[Any]], NDArray[Any]]

    @property
    def space(self) -> Any:
        """The mechanism's."""
        return self.mechanism.space

    def loss(self, distance: Fraction) -> Fraction:
        """The mechanism's: what is made of an output tells no more than the output."""
        return self.mechanism.loss(distance)

    def release(self, points: ArrayLike, *, bits: Bits | None = None) -> NDArray[Any]:
        """The function of a release; charged as that is."""
        return self.function(self.mechanism.release(points, bits=bits))

    def log_mass(self, outputs: ArrayLike, point: Any) -> NDArray[np.float64]:
        """The logarithm of P(y | x), y each of `outputs`, x = `point`: the sum over what is mapped to y.

        Raises:
            ValueError: the mechanism releases more than the points of its space, or they are too many.
        """
        before = listed(self.mechanism.space)
        mass = np.exp(self.mechanism.log_mass(before, point)) if before else np.zeros(0)
        if abs(mass.sum() - 1) > 1e-9:
            raise ValueError("the law of a function's value is known only where all outputs can be listed")
        after, wanted = self.function(np.asarray(before)), np.asarray(outputs)
        total = np.where(wanted[..., np.newaxis] == after, mass, 0).sum(axis=-1)
        with np.errstate(divide="ignore"):
            logarithm: NDArray[np.float64] = np.log(total)
        return logarithm


# The query, then noise ----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Answered:
    """A mechanism on the answers of a query.

    Raises:
        ValueError: an answer is no point of the mechanism's space.
    """

    mechanism: Mechanism
    query: Query

    def __post_init__(self) -> None:
        """Refuse answers that the mechanism cannot take."""
        for x in chain.from_iterable(self.query.domain.pairs()):
            if self.query(x) not in self.mechanism.space:
                raise ValueError(f"answers must be points of the mechanism's space, {self.mechanism.space}")

    @property
    def space(self) -> Space:
        """The query's."""
        return self.query.domain

    def release(self, points: Iterable[Any], *, bits: Bits | None = None) -> NDArray[Any]:
        """One noisy answer for each of `points`, a sequence or an array with a point in each row.

        Each answer is charged, also to a query that was asked before.

        Raises:
            ValueError: a point is not in the query's space.  What the mechanism raises.
        """
        answers = [self.query(plain(point)) for point in points]
        return self.mechanism.release(np.array(answers), bits=bits)

    def log_mass(self, outputs: ArrayLike, point: Any) -> NDArray[np.float64]:
        """That of the mechanism at the answer."""
        return self.mechanism.log_mass(outputs, self.query(point))


@dataclass(frozen=True)
class After(_Answered):
    """A metric mechanism after a query: Delta epsilon d_X-private (Chatzikokolakis 2013, Fact 5).

    The query's sensitivity Delta is checked in the mechanism's own metric, on the pairs of points that the
    query's space gives (all of a small one).

    Raises:
        TypeError: the mechanism has no loss.
        ValueError: the sensitivity is no exact number, or too small; an answer is not in its space.
    """

    mechanism: MetricMechanism

    def __post_init__(self) -> None:
        """Refuse a sensitivity that does not hold in the mechanism's metric."""
        super().__post_init__()
        delta, domain, answers = self.query.sensitivity, self.query.domain, self.mechanism.space
        if not isinstance(self.mechanism, MetricMechanism):
            raise TypeError(f"{type(self.mechanism).__name__} has no loss: see OutputPerturbation")
        if not isinstance(delta, Fraction):
            raise ValueError(f"declare an exact sensitivity, just above {delta}")  # noqa: TRY004
        for x, y in domain.pairs():
            if answers.metric(self.query(x), self.query(y)) > delta * domain.metric(x, y):
                raise ValueError(f"in the mechanism's metric its answers are more than {delta}-sensitive")

    def loss(self, distance: Fraction) -> Fraction:
        """The mechanism's loss at Delta times `distance`."""
        return self.mechanism.loss(Fraction(self.query.sensitivity) * distance)


@dataclass(frozen=True)
class OutputPerturbation(_Answered):
    """A mechanism with (epsilon, delta) between any two answers, after a query of any sensitivity.

    Holohan 2014, section 2.2. Neighbours' answers need not be neighbours, so a promise for neighbours,
    as that of a product, is not enough.

    Raises:
        TypeError: the mechanism has no pair.
        ValueError: its pair is one for neighbours, or an answer is not in its space.
    """

    mechanism: PairMechanism

    def __post_init__(self) -> None:
        """Refuse a promise that is none between any two answers."""
        super().__post_init__()
        if not isinstance(self.mechanism, PairMechanism):
            raise TypeError(f"{type(self.mechanism).__name__} has no guarantee: see After")
        if isinstance(self.mechanism.space, Databases):
            raise ValueError("a promise for neighbours says nothing of answers far apart")  # noqa: TRY004

    @property
    def guarantee(self) -> Guarantee:
        """The mechanism's, between any two points of the query's space."""
        return self.mechanism.guarantee


def plain(point: Any) -> Any:
    """A point as its space has it, nested tuples or a single value, out of a list or an array."""
    value = point.tolist() if isinstance(point, np.ndarray | np.generic) else point
    return tuple(map(plain, value)) if isinstance(value, list) else value
