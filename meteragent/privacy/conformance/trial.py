"""A mechanism under test: the pairs of points to distinguish, its draws and masses, and arrays of outputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import groupby, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from meteragent.privacy.bits import Bits
from meteragent.privacy.mechanism.base import MetricMechanism, PairMechanism
from meteragent.privacy.space import Databases, Numbers, Windows

Floats = NDArray[np.float64]

_PAIRS_LIMIT = 512
_SHOWN = 4  # the longest window that is written in full
_RANGE_LIMIT = 1 << 20


class UnsupportedMechanism(Exception):
    """The error raised if a mechanism cannot be tested; its message says why."""


@dataclass(frozen=True)
class PointPair:
    """Two points x and x' (`x_prime`) and the promise between them: P(A | x) <= e^loss P(A | x') + delta."""

    x: Any
    x_prime: Any
    loss: float
    delta: float = 0.0


def point_text(point: Any) -> str:
    """Return a point, at most 40 characters of it, or a few words about the values of a long window."""
    if not isinstance(point, tuple) or len(point) <= _SHOWN:
        return f"{point!s:.40}"
    (first, count), *later_runs = [(value, len([*run])) for value, run in groupby(point)]
    if not later_runs:
        return f"all {first}"
    order = "in turn" if count == 1 else f"in runs of {count}"
    return f"{first}, {later_runs[0][0]} {order}" if len({*point}) == 2 else f"{first}, .., {point[-1]}"


def promised_pairs(
    mechanism: Any, pairs: Iterable[tuple[Any, Any]] | None, *, needs_law: bool = True
) -> list[PointPair]:
    """List the pairs of points between which the mechanism makes a promise that can be tested.

    The pairs are taken from the first 512 of `pairs` or, if `pairs` is None, of those that the mechanism's
    space proposes. For a promise (epsilon, delta), two databases are listed only if they differ in exactly
    one row, and two other points only if they differ. For a metric promise, pairs at distance 0 or at an
    infinite distance are omitted. If `needs_law` is False, the mechanism's methods are not checked. Raises
    UnsupportedMechanism if a method or the promise is missing, or there is no such pair.
    """
    missing_names = [name for name in ("space", "release", "log_mass") if not hasattr(mechanism, name)]
    if needs_law and (missing_names or not isinstance(mechanism, MetricMechanism | PairMechanism)):
        if not (hasattr(mechanism, "loss") or hasattr(mechanism, "guarantee")):
            missing_names.append("loss or guarantee")
        raise UnsupportedMechanism(
            f"a mechanism must have {', '.join(missing_names)}: see meteragent.privacy.mechanism.base"
        )
    space = mechanism.space
    candidates = [(x, y) for x, y in islice(space.pairs() if pairs is None else pairs, _PAIRS_LIMIT)]
    if not isinstance(mechanism, PairMechanism):
        distances = [(x, y, space.metric(x, y)) for x, y in candidates]
        listed = [
            PointPair(x, y, float(mechanism.loss(Fraction(d)))) for x, y, d in distances if 0 < d < math.inf
        ]
    else:
        guarantee = [float(value) for value in mechanism.guarantee]
        listed = [PointPair(x, y, *guarantee) for x, y in candidates if _are_neighbours(space, x, y)]
    if not listed:
        raise UnsupportedMechanism(
            "no two points are neighbours or at a positive finite distance: give `pairs`"
        )
    return listed


def _are_neighbours(space: Any, x: Any, y: Any) -> bool:
    if isinstance(space, Databases):
        return sum(bool(u != v) for u, v in zip(x, y, strict=True)) == 1
    return bool(x != y)


def to_array(points: Sequence[Any]) -> NDArray[Any]:
    """Return points as an array, of objects if types differ, the points are sets, or no dtype fits."""
    if len({type(point) for point in points}) == 1 and not isinstance(points[0], frozenset | set):
        array = np.asarray(points)
        if array.dtype != object:
            return array
    array = np.empty(len(points), object)
    array[:] = points
    return array


def release_copies(release: Callable[[Any], Any], point: Any, count: int) -> NDArray[Any]:
    """Release `point` `count` times at once. Raises UnsupportedMechanism for another number of outputs."""
    released = np.asarray(release(np.repeat(to_array([point]), count, axis=0)))
    if released.shape[:1] != (count,):
        raise UnsupportedMechanism(f"{count} points were released as an array of shape {released.shape}")
    return released


@dataclass(frozen=True)
class Trial:
    """A mechanism under test, its pairs of points, the number of draws for each test, and the bits."""

    mechanism: Any
    pairs: list[PointPair]
    samples: int
    bits: Bits

    def draw(self, point: Any, count: int, bits: Bits | None = None) -> NDArray[Any]:
        """Release `point` `count` times at once, with randomness from `bits`. Raises as `release_copies`."""
        return release_copies(partial(self.mechanism.release, bits=bits or self.bits), point, count)

    def log_mass(self, outputs: NDArray[Any], point: Any) -> Floats:
        """Return the outputs' log masses. Raises UnsupportedMechanism if one is missing or NaN."""
        mass = np.asarray(self.mechanism.log_mass(outputs, point), np.float64)
        if mass.shape != (len(outputs),):
            raise UnsupportedMechanism(
                f"log_mass of {len(outputs)} outputs has shape {mass.shape}: return one number for each"
            )
        if np.isnan(mass).any():
            raise UnsupportedMechanism("log_mass of an output is NaN: return -inf for an impossible output")
        return mass

    def log_ratio(self, outputs: NDArray[Any], pair: PointPair) -> Floats:
        """Return ln P(y | x')/P(y | x) for each output y; 0 if y is impossible at both points."""
        with np.errstate(invalid="ignore"):
            ratio = self.log_mass(outputs, pair.x_prime) - self.log_mass(outputs, pair.x)
        return np.nan_to_num(ratio, nan=0.0, posinf=np.inf, neginf=-np.inf)

    def most_telling_pairs(self, count: int) -> list[PointPair]:
        """Return up to `count` pairs with a loss nearest to 2, the most informative (THEORY 6).

        No two have the same first point. Under a metric promise, pairs of numbers or windows with a loss
        below 1 are moved apart if their space allows it.
        """
        nearest: dict[str, PointPair] = {}
        for pair in sorted(map(self._stretch, self.pairs), key=lambda pair: abs(pair.loss - 2)):
            nearest.setdefault(repr(pair.x), pair)
        return list(nearest.values())[:count]

    def _stretch(self, pair: PointPair) -> PointPair:
        """Move two points apart to a loss of about 2, or as far as possible; see `most_telling_pairs`."""
        space = self.mechanism.space
        is_metric = isinstance(space, Numbers | Windows) and not isinstance(self.mechanism, PairMechanism)
        if not (is_metric and 0 < pair.loss < 1):
            return pair
        x, x_prime = np.asarray(pair.x), np.asarray(pair.x_prime)
        for k in range(round(2 / pair.loss), 1, -max(1, round(0.2 / pair.loss))):
            coordinates = (x + k * (x_prime - x)).tolist()
            point = coordinates if isinstance(coordinates, int) else tuple(coordinates)
            if point in space:
                return PointPair(
                    pair.x, point, float(self.mechanism.loss(Fraction(space.metric(pair.x, point))))
                )
        return pair


def append_points(released: NDArray[Any], points: Sequence[Any]) -> NDArray[Any]:
    """Append `points` to `released` if the shapes fit and all are numbers or of one kind."""
    array = to_array(points)
    kinds = {array.dtype.kind, released.dtype.kind}
    has_same_form = array.shape[1:] == released.shape[1:] and (len(kinds) == 1 or kinds <= set("iuf"))
    return np.concatenate([released, array.astype(released.dtype)]) if has_same_form else released


def list_outputs(trial: Trial, draws: NDArray[Any], point: Any) -> NDArray[Any]:
    """List drawn outputs, and all ints in between if the span is below 2^20 and `log_mass` takes them."""
    if draws.dtype.kind in "iu" and draws.ndim == 1 and np.ptp(draws) < _RANGE_LIMIT:
        between = np.arange(int(draws.min()), int(draws.max()) + 1)
        try:
            trial.log_mass(between, point)
        except (ValueError, IndexError, KeyError):
            return np.unique(draws)
        return between
    if draws.dtype == object:
        return to_array(list(dict.fromkeys(draws.tolist())))
    return np.unique(draws, axis=0)
