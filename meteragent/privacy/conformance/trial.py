"""A mechanism on trial: the pairs of points to tell apart, batches of points, and draws."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from meteragent.privacy.bits import Bits
from meteragent.privacy.mechanism.base import Mechanism, MetricMechanism, PairMechanism
from meteragent.privacy.space import Databases, Numbers, Windows

Floats = NDArray[np.float64]

_PAIRS_LIMIT = 512
_RANGE_LIMIT = 1 << 20


class Unusable(Exception):
    """What was given cannot be tried: the text says what is missing."""


@dataclass(frozen=True)
class PointPair:
    """Two points, and what is promised between them: |ln P/P'| <= loss, but for delta."""

    x: Any
    other: Any
    loss: float
    delta: float = 0.0


def promised(mechanism: Mechanism, pairs: Iterable[tuple[Any, Any]] | None) -> list[PointPair]:
    """The pairs between which something is promised.

    `pairs`, or those of the mechanism's space; of databases under a pair (epsilon, delta) those that
    differ in one row. Points at an infinite distance promise each other nothing.

    Raises:
        Unusable: a method or the promise is missing, or there are no such pairs.
    """
    missing = [name for name in ("space", "release", "log_mass") if not hasattr(mechanism, name)]
    if missing or not isinstance(mechanism, MetricMechanism | PairMechanism):
        missing += (
            [] if hasattr(mechanism, "loss") or hasattr(mechanism, "guarantee") else ["loss or guarantee"]
        )
        raise Unusable(f"a mechanism must have {', '.join(missing)}: see meteragent.privacy.mechanism.base")
    space = mechanism.space
    given = [(x, y) for x, y in islice(space.pairs() if pairs is None else pairs, _PAIRS_LIMIT)]
    if isinstance(mechanism, MetricMechanism):
        apart = [(x, y, space.metric(x, y)) for x, y in given]
        found = [PointPair(x, y, float(mechanism.loss(Fraction(d)))) for x, y, d in apart if 0 < d < math.inf]
    else:
        guarantee = [float(value) for value in mechanism.guarantee]
        found = [PointPair(x, y, *guarantee) for x, y in given if _neighbours(space, x, y)]
    if not found:
        raise Unusable("no two points are at a finite distance above zero: give `pairs`")
    return found


def _neighbours(space: Any, x: Any, y: Any) -> bool:
    if isinstance(space, Databases):
        return sum(bool(u != v) for u, v in zip(x, y, strict=True)) == 1
    return bool(x != y)


def array_of(points: Sequence[Any]) -> NDArray[Any]:
    """Points as an array with one entry (or row) each; of objects where numpy would mix or break them."""
    if len({type(point) for point in points}) == 1 and not isinstance(points[0], frozenset | set):
        array = np.asarray(points)
        if array.dtype != object:
            return array
    array = np.empty(len(points), object)
    array[:] = points
    return array


@dataclass(frozen=True)
class Trial:
    """A mechanism, its pairs of points, how many draws each test takes, and the bits."""

    mechanism: Any
    pairs: list[PointPair]
    samples: int
    bits: Bits

    def draw(self, point: Any, count: int, bits: Bits | None = None) -> NDArray[Any]:
        """`count` releases of a point."""
        batch = np.repeat(array_of([point]), count, axis=0)
        released = np.asarray(self.mechanism.release(batch, bits=bits or self.bits))
        if released.shape[:1] != (count,):
            raise Unusable(f"{count} points were released as an array of shape {released.shape}")
        return released

    def log_mass(self, outputs: NDArray[Any], point: Any) -> Floats:
        """One log mass for each output."""
        mass = np.asarray(self.mechanism.log_mass(outputs, point), np.float64)
        if mass.shape != (len(outputs),):
            raise Unusable(
                f"log_mass of {len(outputs)} outputs has shape {mass.shape}: one number each is needed"
            )
        if np.isnan(mass).any():
            raise Unusable("log_mass of an output is not a number: -inf says that it cannot leave")
        return mass

    def log_ratio(self, outputs: NDArray[Any], pair: PointPair) -> Floats:
        """The log of P(y | other)/P(y | x); 0 where y is possible at neither."""
        with np.errstate(invalid="ignore"):
            ratio = self.log_mass(outputs, pair.other) - self.log_mass(outputs, pair.x)
        return np.nan_to_num(ratio, nan=0.0, posinf=np.inf, neginf=-np.inf)

    def telling(self, count: int) -> list[PointPair]:
        """The pairs whose loss is nearest to 2, where fewest draws tell most (THEORY 6); each point once.

        Numbers and windows that are closer are moved apart, where their space allows.
        """
        pairs = sorted(map(self._stretched, self.pairs), key=lambda pair: abs(pair.loss - 2))
        return list({repr(pair.x): pair for pair in reversed(pairs)}.values())[: -count - 1 : -1]

    def _stretched(self, pair: PointPair) -> PointPair:
        space = self.mechanism.space
        if not (isinstance(space, Numbers | Windows) and 0 < pair.loss < 1) or pair.delta:
            return pair
        x, other = np.asarray(pair.x), np.asarray(pair.other)
        for k in range(round(2 / pair.loss), 1, -max(1, round(0.2 / pair.loss))):
            moved = (x + k * (other - x)).tolist()
            point = moved if isinstance(moved, int) else tuple(moved)
            if point in space:
                return PointPair(
                    pair.x, point, float(self.mechanism.loss(Fraction(space.metric(pair.x, point))))
                )
        return pair


def with_points(released: NDArray[Any], points: Sequence[Any]) -> NDArray[Any]:
    """Outputs, and the points too if they look like outputs."""
    given = array_of(points)
    kinds = {given.dtype.kind, released.dtype.kind}
    alike = given.shape[1:] == released.shape[1:] and (len(kinds) == 1 or kinds <= set("iuf"))
    return np.concatenate([released, given.astype(released.dtype)]) if alike else released


def possible(trial: Trial, drawn: NDArray[Any], point: Any) -> NDArray[Any]:
    """Different outputs: those that were drawn, and all whole numbers between them if they are such."""
    if drawn.dtype.kind in "iu" and drawn.ndim == 1 and np.ptp(drawn) < _RANGE_LIMIT:
        between = np.arange(int(drawn.min()), int(drawn.max()) + 1)
        try:
            trial.log_mass(between, point)
        except (ValueError, IndexError, KeyError):
            return np.unique(drawn)
        return between
    if drawn.dtype == object:
        return array_of(list(dict.fromkeys(drawn.tolist())))
    return np.unique(drawn, axis=0)
