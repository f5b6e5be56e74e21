"""Load curves as finitely many numbers, and back (THEORY 4).

A projection maps a curve to its values at given times. It is 1-Lipschitz from the sup norm to d_inf, as block
means are, so a mechanism for windows becomes a mechanism for curves. `reconstruct` maps numbers to a curve.

A reconstruction is the sum over j of v_j b_j(t), with numbers v_j and functions b_j. For functions that are
non-negative and sum to 1, as steps, hats and Bernstein's polynomials are, errors of the numbers v_j are not
enlarged (THEORY 4.3). With k Bernstein polynomials the error near a kink falls only like k^-1/2, so use steps
or hats for loads.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from meteragent.privacy.exact import Exact, set_fields, to_rational
from meteragent.privacy.metric import Metric, chebyshev
from meteragent.privacy.space import Curve, Curves

Floats = NDArray[np.float64]
Kind = Literal["steps", "hats", "bernstein"]


@dataclass(frozen=True, init=False)
class Projection:
    """The query for a curve's values at finitely many times; its sensitivity from the sup norm to d_inf is 1.

    The sets of curves whose values at such times lie in given sets are the cylinder sets. The cylinder sets
    are an algebra that generates the events of C([0, T]) (Holohan 2014, Example 4). So a mechanism that
    releases curves keeps its promise if and only if its image under every projection does (Theorem 3; for any
    metric, THEORY 4.1). Raises TypeError if a number is not exact; ValueError if `duration_s` is not
    positive, there is no time, or a time is outside [0, T].
    """

    domain: Curves
    times_s: tuple[Fraction, ...]

    def __init__(self, duration_s: Exact, times_s: Sequence[Exact]) -> None:
        set_fields(self, domain=Curves(duration_s), times_s=tuple(to_rational("time_s", t) for t in times_s))
        if not self.times_s or not all(0 <= t <= self.domain.duration_s for t in self.times_s):
            raise ValueError(f"a projection needs times in [0, {self.domain.duration_s}]")

    def __call__(self, curve: Curve) -> tuple[Fraction, ...]:
        """Return the curve's values at the times."""
        return tuple(curve(t) for t in self.times_s)

    @property
    def k(self) -> int:
        """The number of values."""
        return len(self.times_s)

    def image(self, law: Mapping[Curve, Any]) -> dict[tuple[Fraction, ...], Any]:
        """Return the distribution of a random curve's values, given that of the curve, {curve: chance}."""
        probabilities: defaultdict[tuple[Fraction, ...], Any] = defaultdict(int)
        for curve, probability in law.items():
            probabilities[self(curve)] += probability
        return dict(probabilities)

    @property
    def metric(self) -> Metric:
        """The metric d_inf."""
        return chebyshev

    @property
    def sensitivity(self) -> Fraction:
        """The sensitivity, 1: no value changes by more than the curve does in the sup norm."""
        return Fraction(1)


def reconstruct(values: ArrayLike, edges: ArrayLike, times: ArrayLike, kind: Kind = "steps") -> Floats:
    """Reconstruct curves at `times` from k block means, by non-negative functions that sum to 1 (THEORY 4.3).

    "steps" is constant within a block, "hats" linear between the middles of blocks, and "bernstein" the
    polynomial with these Bernstein coefficients (for blocks of equal length). If every value is within h of
    the true value, the curve is within h of the curve that the true values give.

    `values` has shape (.., k), `edges` k + 1 increasing entries, and `times`, within them and in the same
    unit, any shape S; the result has shape (.., *S). The last edge belongs to the last block. Raises
    ValueError for another kind, a wrong shape, edges that do not increase, or a time beyond them.
    """
    v, e, t = np.asarray(values, np.float64), np.asarray(edges), np.asarray(times)
    if v.ndim < 1 or e.shape != (v.shape[-1] + 1,) or not np.all(e[1:] > e[:-1]):
        raise ValueError(f"k values need k + 1 increasing edges: not shapes {v.shape} and {e.shape}")
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
    """Interpolate linearly between the middles of neighbouring blocks."""
    k = values.shape[-1]
    position = np.interp(times, edges[:-1] / 2 + edges[1:] / 2, np.arange(k))
    block = np.minimum(position.astype(np.int64), max(k - 2, 0))
    share = position - block
    curves: Floats = values[..., block] * (1 - share) + values[..., np.minimum(block + 1, k - 1)] * share
    return curves


def _bernstein(values: Floats, edges: NDArray[Any], times: NDArray[Any]) -> Floats:
    """Evaluate a polynomial by raising the degree: b_j becomes (1-s) b_j + s b_(j-1), never negative."""
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
