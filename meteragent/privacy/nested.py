"""Least-squares combinations of released numbers with their released sums, and the errors (THEORY 3.8).

Each node of a tree is a number that was released with separate, independent noise. The measured values of a
node's children add up to the measured value of the node: for example, the half hours of a day, or the days of
a month. Two passes compute the best linear unbiased estimates of all measured values.

The weights depend on the variances of the noises alone, never on values. So the error of an estimate is a sum
of independent noises with known weights, and `privacy.totals` computes the distribution of the error, and
intervals, with the accuracy and the limits that its docstring states. The weights follow from the *path* of a
node: the kinds of the nodes from the root down to it. Nodes with equal paths have the same error
distribution.

For a dithered number, the variance is averaged over loads, from `accuracy.sd`. If all numbers are dithered,
the estimates are unbiased for every load. With half-up rounding, the rounding error can bias them.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, Self

from meteragent.privacy import accuracy
from meteragent.privacy.accuracy import Rounding
from meteragent.privacy.mechanism.laplace import LInfLaplace
from meteragent.privacy.totals import Weighted, half_width_of_total, sd_of_total


class Node(NamedTuple):
    """A kind of node; `weight` converts its number to the tree's unit; `children` are kinds with counts."""

    mechanism: LInfLaplace
    rounding: Rounding = "half-up"
    weight: float = 1.0
    children: tuple[tuple["Node", int], ...] = ()


Path = tuple[Node, ...]
"""The kinds of the nodes from the root of a tree to a node."""

_Source = tuple[LInfLaplace, Rounding, float]
_Sum = tuple[tuple[_Source, int], ...]
"""A weighted sum of independent noises: pairs of a noise (mechanism, rounding, weight) and its count."""


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """A released value and the trees below it; `z` is the best estimate from both, `place` a free label."""

    value: float
    kind: Node
    children: tuple["Tree", ...]
    z: float
    place: tuple[int, int]

    @classmethod
    def of(
        cls, value: float, kind: Node, children: Sequence["Tree"] = (), place: tuple[int, int] = (0, 0)
    ) -> Self:
        """Create the tree of a value; its kind gets the children's kinds. Raises ValueError unless n = 1."""
        if kind.mechanism.n != 1:
            raise ValueError(
                "nested numbers need windows of one slot: the slots of one window share a noise bound"
            )
        kind = kind._replace(children=tuple(Counter(child.kind for child in children).items()))
        own_share, share_below = _shares(kind)
        z = own_share * value + share_below * math.fsum(child.z for child in children)
        return cls(value, kind, tuple(children), z, place)

    def estimates(self) -> Iterator[tuple["Tree", float, Path]]:
        """Yield each node with its best linear unbiased estimate and its path, parents before children."""
        return _descend(self, self.z, (self.kind,))


def _descend(tree: Tree, estimate: float, path: Path) -> Iterator[tuple[Tree, float, Path]]:
    """Yield a node with its estimate and its path, and then each node below it in the same way."""
    yield tree, estimate, path
    excess = estimate - math.fsum(child.z for child in tree.children)
    for child in tree.children:
        share = _variance(child.kind) / _variance_below(tree.kind)
        yield from _descend(child, child.z + share * excess, (*path, child.kind))


def regular_path(kinds: Sequence[Node], counts: Sequence[int]) -> Path:
    """Return the path to a leaf of a tree with `counts[i]` nodes of `kinds[i]` per node of `kinds[i + 1]`.

    `kinds` are given without children, in order from the leaves to the root. Raises ValueError unless there
    is one more kind than counts.
    """
    path = [kinds[0]]
    for kind, count in zip(kinds[1:], counts, strict=True):
        path.append(kind._replace(children=((path[-1], count),)))
    return tuple(reversed(path))


def sd(path: Path) -> float:
    """Return the standard deviation of the error of the estimate at the end of a path, in the tree's unit."""
    return sd_of_total(error_parts(path))


def half_width(path: Path, coverage: float = 0.95) -> float:
    """Return an h such that the measured value is within h of the estimate with probability `coverage`."""
    return half_width_of_total(error_parts(path), coverage)


@lru_cache(maxsize=1024)
def error_parts(path: Path) -> tuple[Weighted, ...]:
    """Return the error of the estimate at the end of a path, as independent parts of a total (`totals`)."""
    within, outside = _outside(path)
    error: Counter[_Source] = Counter()
    _add(error, _error_of_z(path[-1]), within)
    _add(error, outside, 1.0)
    magnitudes: Counter[_Source] = Counter()  # noise is symmetric: the sign of a weight does not matter
    for (mechanism, rounding, weight), count in error.items():
        magnitudes[mechanism, rounding, abs(weight)] += count
    return tuple(
        Weighted(mechanism, (weight,), count, rounding)
        for (mechanism, rounding, weight), count in magnitudes.items()
        if weight > 0
    )


@lru_cache(maxsize=4096)
def _variance(kind: Node) -> float:
    """Return U, the variance of a node's best estimate from its own number and the numbers below it."""
    own_variance = _own_variance(kind)
    return 1 / (1 / own_variance + 1 / _variance_below(kind)) if kind.children else own_variance


@lru_cache(maxsize=4096)
def _variance_below(kind: Node) -> float:
    """Return V, the variance of the sum of the children's best estimates."""
    return math.fsum(count * _variance(child) for child, count in kind.children)


def _own_variance(kind: Node) -> float:
    """Return v, the variance of the noise of a node's own number."""
    return (kind.weight * accuracy.sd(kind.mechanism, kind.rounding)) ** 2


def _shares(kind: Node) -> tuple[float, float]:
    """Return the weights of a node's own number, U/v, and its children's sum, U/V, in the estimate z."""
    if not kind.children:
        return 1.0, 0.0
    variance = _variance(kind)
    return variance / _own_variance(kind), variance / _variance_below(kind)


@lru_cache(maxsize=4096)
def _error_of_z(kind: Node) -> _Sum:
    """Return the error of a node's estimate z, as a sum of noises."""
    own_share, share_below = _shares(kind)
    error: Counter[_Source] = Counter({(kind.mechanism, kind.rounding, own_share * kind.weight): 1})
    for child, count in kind.children:
        _add(error, _error_of_z(child), share_below, count)
    return tuple(error.items())


@lru_cache(maxsize=1024)
def _outside(path: Path) -> tuple[float, _Sum]:
    """Return k and E such that x = k z + E, with E a weighted sum of noises of nodes outside the subtree.

    x, y and z stand for the errors of a node's estimate, own number and z; S is the sum of its children's z.
    For its child c, it follows from x_c = z_c + r (x - S), r = U_c/V, and z = (U/v) y + (U/V) S that

        x_c = (1 - r (1 - k U/V)) z_c + r (E + k (U/v) y - (1 - k U/V) (S - z_c)).
    """
    if len(path) == 1:
        return 1.0, ()
    parent, kind = path[-2:]
    k, outside = _outside(path[:-1])
    own_share, share_below = _shares(parent)
    share = _variance(kind) / _variance_below(parent)
    error: Counter[_Source] = Counter()
    _add(error, outside, share)
    _add(error, (((parent.mechanism, parent.rounding, parent.weight), 1),), share * k * own_share)
    for sibling, count in parent.children:
        _add(error, _error_of_z(sibling), -share * (1 - k * share_below), count - (sibling == kind))
    return 1 - share * (1 - k * share_below), tuple(error.items())


def _add(error: Counter[_Source], addend: _Sum, factor: float, count: int = 1) -> None:
    """Add `count` independent copies of `addend`, times `factor`, to `error`."""
    for (mechanism, rounding, weight), copies in addend:
        if count:
            error[mechanism, rounding, factor * weight] += copies * count
