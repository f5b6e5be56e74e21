"""Reconstruction of a curve from finitely many numbers.

Theory of operation
-------------------
A reconstruction is the sum over j of v_j b_j(t). Its Lebesgue constant, the largest sum |b_j(t)|, is the
factor by which it may enlarge an error of the numbers. The least constant, 1, is that of positive functions
that sum to 1: steps, hats, Bernstein's polynomials. The constant of a cubic interpolating spline is 1.97, and
that of Chebyshev's polynomial through 33 points is 3.19 (THEORY 4.3). Bernstein's polynomials approximate a
kink slowly, as k^-1/2: for loads, use steps or hats.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Kind = Literal["steps", "hats", "bernstein"]


def reconstruct(values: ArrayLike, edges: ArrayLike, times: ArrayLike, kind: Kind = "steps") -> Floats:
    """Reconstruct curves at `times` from k block means, by positive functions that sum to 1 (THEORY 4.3).

    "steps" is constant within a block; "hats" is linear from the middle of a block to the middle of the next,
    and constant before the first middle and after the last; "bernstein" is the polynomial with these
    coefficients, for blocks of equal length. If the error of every number is at most h, so is the error
    of the curve, apart from that of the reconstruction itself.

    Args:
        values: shape (.., k), in the curve's unit: one curve per row.
        edges: shape (k + 1), increasing, in any unit of time.
        times: any shape S, in the same unit, from the first edge to the last (part of the last block).
        kind: the functions.

    Returns:
        Shape (.., *S).

    Raises:
        ValueError: the kind is unknown, shapes do not fit, edges do not increase, or times are outside them.
    """
    v, e, t = np.asarray(values, np.float64), np.asarray(edges), np.asarray(times)
    if v.ndim < 1 or e.shape != (v.shape[-1] + 1,) or not np.all(e[1:] > e[:-1]):
        raise ValueError(f"k values need k + 1 edges that grow: not shapes {v.shape} and {e.shape}")
    if t.size and not (e[0] <= t.min() and t.max() <= e[-1]):
        raise ValueError(f"times must lie in [{e[0]}, {e[-1]}]")
    if kind not in _KINDS:
        raise ValueError(f"a reconstruction is one of {[*_KINDS]}, not {kind!r}")
    return _KINDS[kind](v, e, t)


def _steps(values: Floats, edges: NDArray[Any], times: NDArray[Any]) -> Floats:
    """Return the value of the block that contains each time."""
    block = np.minimum(np.searchsorted(edges, times, side="right"), values.shape[-1]) - 1
    curves: Floats = values[..., block]
    return curves


def _hats(values: Floats, edges: NDArray[Any], times: NDArray[Any]) -> Floats:
    """Interpolate linearly between the middles of the blocks."""
    k = values.shape[-1]
    position = np.interp(times, edges[:-1] / 2 + edges[1:] / 2, np.arange(k))
    block = np.minimum(position.astype(np.int64), max(k - 2, 0))
    share = position - block
    curves: Floats = values[..., block] * (1 - share) + values[..., np.minimum(block + 1, k - 1)] * share
    return curves


def _bernstein(values: Floats, edges: NDArray[Any], times: NDArray[Any]) -> Floats:
    """Evaluate by raising the degree, b_j = (1-s) b_j + s b_(j-1): positive terms, so nothing cancels."""
    share = ((times - edges[0]) / (edges[-1] - edges[0])).astype(np.float64)
    basis = np.ones((1, *share.shape))
    for degree in range(1, values.shape[-1]):
        next_basis = np.zeros((degree + 1, *share.shape))
        next_basis[:-1] = basis * (1 - share)
        next_basis[1:] += basis * share
        basis = next_basis
    return np.tensordot(values, basis, axes=1)


_KINDS: Mapping[str, Callable[[Floats, NDArray[Any], NDArray[Any]], Floats]] = MappingProxyType(
    {"steps": _steps, "hats": _hats, "bernstein": _bernstein}
)


def lebesgue_constant(basis: ArrayLike) -> float:
    """Return the largest sum over j of |b_j(t)|, for the functions b_j in rows, at times in columns.

    The constant is the factor by which a reconstruction may enlarge an error of its numbers. The functions
    b_j of `reconstruct` are the curves that it returns for the rows of the identity matrix.
    """
    return float(np.abs(np.asarray(basis, np.float64)).sum(axis=0).max())
