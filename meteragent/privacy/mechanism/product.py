"""One mechanism, applied to every row of a database independently (Holohan 2014, section 5).

    X_d = (X_d1, .., X_dn),  independent,        P(y | d) = product of P(y_i | d_i)    (equation 7)

Neighbouring databases differ in one row, so all other factors cancel. Therefore a promise (epsilon, delta)
between any two values of a row implies the same promise between neighbours (Theorem 5; `Product`). The losses
of the rows do not add up.

This result requires that only one row changes. Under d_inf all n rows may change, so noise whose loss on a
row is loss(d) has the loss n loss(d) on windows (THEORY 0). Under d_1 (the sum of the rows' distances), its
loss is loss(d) if loss(d) is proportional to d. `MetricProduct` covers both cases.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from meteragent.privacy.bits import Bits
from meteragent.privacy.exact import set_fields
from meteragent.privacy.mechanism.base import Guarantee, Mechanism, MetricMechanism, PairMechanism
from meteragent.privacy.mechanism.categorical import label_array
from meteragent.privacy.space import Databases


@dataclass(frozen=True)
class _Rows:
    """A mechanism on rows, applied to each of n rows."""

    row: Mechanism
    space: Databases

    def release(self, points: ArrayLike, *, bits: Bits | None = None) -> NDArray[Any]:
        """Release databases in an array of shape (..., n), each row with its own noise.

        Each database is charged. Raises ValueError if the last axis is not n, and as the mechanism on rows.
        """
        return self.row.release(self._databases(points), bits=bits)

    def log_mass(self, outputs: ArrayLike, point: tuple[Any, ...]) -> NDArray[np.float64]:
        """Return ln P(y | d), a sum over n rows. Raises ValueError for another n, and as `row` does."""
        y = self._databases(outputs)
        if len(point) != self.space.n:
            raise ValueError(f"a database has {self.space.n} rows, not {len(point)}")
        rows = [self.row.log_mass(y[..., i], row) for i, row in enumerate(point)]
        mass: NDArray[np.float64] = np.sum(rows, axis=0)
        return mass

    def _databases(self, points: ArrayLike) -> NDArray[Any]:
        databases = label_array(points)
        if not databases.ndim or databases.shape[-1] != self.space.n:
            raise ValueError(f"databases have shape (..., {self.space.n}), not {databases.shape}")
        return databases


@dataclass(frozen=True, init=False)
class Product(_Rows):
    """A mechanism on single values, applied to n rows: neighbours have the (epsilon, delta) of a row.

    See Holohan 2014, equation 7 and Theorem 5; Lemma 3 is the converse. Neighbours differ in one row
    (`Databases`, Hamming). A metric mechanism on rows of finite diameter V has the pair (loss(V), 0). For
    databases that differ a little in all rows, see `MetricProduct`. Raises TypeError if the mechanism is
    neither a `PairMechanism` nor a `MetricMechanism`, or n is not an int; ValueError if a point is not a
    single value, n < 1, or the mechanism's promise implies no finite pair.
    """

    guarantee: Guarantee

    def __init__(self, row: Mechanism, n: int) -> None:
        set_fields(self, row=_require_row(row), space=Databases(row.space, n), guarantee=_pair_of(row))


@dataclass(frozen=True, init=False)
class MetricProduct(_Rows):
    """A metric mechanism, applied to n rows: the loss is loss(d) under d_1 and n loss(d) under d_inf.

    Independent epsilon d-private noise on each of n readings is epsilon d_1-private and n epsilon
    d_inf-private. The latter is tight: windows whose readings all differ by the same amount attain it (THEORY
    0). The loss of a row must be proportional to the distance between its points, as it is for `Laplace` and
    `TruncatedGeometric`. Raises TypeError if the mechanism is not a `MetricMechanism`, or n is not an int;
    ValueError if a point is not a single value, n < 1, or the metric is unknown.
    """

    row: MetricMechanism

    def __init__(self, row: MetricMechanism, n: int, metric: Literal["l1", "linf"]) -> None:
        if not isinstance(row, MetricMechanism):
            raise TypeError(f"{type(row).__name__} has no loss: it must state a promise for every distance")
        if metric not in ("l1", "linf"):
            raise ValueError(f"the metric must be l1 or linf, not {metric!r}")
        set_fields(self, row=_require_row(row), space=Databases(row.space, n, metric))

    def loss(self, distance: Fraction) -> Fraction:
        """Return the loss of a row at `distance`, times n under d_inf; under d_1 distances add up."""
        return self.row.loss(distance) * (self.space.n if self.space.kind == "linf" else 1)


def _require_row(row: Mechanism) -> Mechanism:
    point, _ = next(iter(row.space.pairs()))
    if np.ndim(point):
        raise ValueError("a row is a single value: choose a mechanism on numbers or categories")
    return row


def _pair_of(row: Mechanism) -> Guarantee:
    """Return the pair that `row` promises or, for a metric promise, the pair that this implies."""
    if isinstance(row, PairMechanism):
        return row.guarantee
    if not isinstance(row, MetricMechanism):
        raise TypeError(
            f"{type(row).__name__} states no promise: it is neither a PairMechanism nor a MetricMechanism"
        )
    diameter = row.space.diameter
    if diameter == math.inf:
        raise ValueError("rows may be any distance apart, so no epsilon holds: bound their space")
    return Guarantee(row.loss(diameter), Fraction(0))
