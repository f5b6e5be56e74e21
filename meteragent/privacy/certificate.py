"""Bounds, with proofs, on the probability of identifying which of N known load shapes is in a window.

The setting is a library of N windows x_i on the lattice (in quanta), a prior, and the release of one of them.
An attacker names shape i if the release is in A_i, and is right with probability S = sum over i of prior_i
P_i(A_i).

*For every mechanism* that is epsilon d_inf-private, mechanism and attacker together form a channel from
shapes to names. This channel is private, and S is linear in it. So S is at most the value of a linear
program, and any multipliers >= 0 of its constraints prove a bound (`optimality.dual_bound`), whichever solver
computed them. Further windows (`through`) can only lower this bound.

*A proof by hand*. Take weights y_c >= 0 on windows c of the lattice, such that for each i

    sum over c of y_c e^(-a d_inf(x_i, c)) >= prior_i.

Then Q = sum of y_c P_c has Q(A) >= prior_i P_i(A) for every event A and every private mechanism, so S is at
most the sum of the Q(A_i), which is at most the sum of all y_c. The least such sum is the value of a linear
program with N constraints (`mixture`), feasible for thousands of windows. With all weight on one window in
the middle of equally likely shapes this is the bound of THEORY 7.

A certificate holds for one quantised library, one prior and one window.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linprog

from meteragent.privacy.exact import require_present, set_fields
from meteragent.privacy.mechanism.laplace import LInfLaplace
from meteragent.privacy.optimality import dual_bound, least_cost

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, init=False, eq=False)
class Library:
    """N known windows of n slots: `signatures` in quanta, shape (N, n), and their prior.

    `prior` has N numbers that sum to 1; by default, all windows are equally likely. Raises TypeError if the
    signatures are not integers; ValueError if the signatures do not have the shape (N, n), or the prior is
    not a distribution on them.
    """

    signatures: Integers
    prior: Floats

    def __init__(self, signatures: ArrayLike, prior: Sequence[float] | None = None) -> None:
        windows = _require_integers("signatures", require_present(signatures))
        if windows.ndim != 2 or 0 in windows.shape:
            raise ValueError(f"signatures must have shape (N, n), not {windows.shape}")
        chances = np.full(len(windows), 1 / len(windows)) if prior is None else np.asarray(prior, float)
        if chances.shape != (len(windows),) or chances.min() < 0 or not math.isclose(chances.sum(), 1):
            raise ValueError(f"the prior must be {len(windows)} numbers >= 0 that sum to 1")
        set_fields(self, signatures=windows, prior=chances)


def _check_slots(mechanism: LInfLaplace, library: Library) -> None:
    n = mechanism.n
    if (slots := library.signatures.shape[1]) != n:
        raise ValueError(f"signatures must have {n} slots like the mechanism's windows, not {slots}")


@dataclass(frozen=True, eq=False)
class Certificate:
    """A bound, with its proof, on any attacker's success on one window, for mechanisms private at `level`.

    `bound` is an upper bound on the probability of success, and `attained` the success of some channel that
    is private at `level`, the matrix of epsilon d_inf between the program's windows. Their difference is the
    solver's gap. `cost`, `level` and `multipliers` are the proof: the arguments of `optimality.dual_bound`.
    """

    bound: float
    attained: float
    cost: Floats
    level: Floats
    multipliers: Floats

    def holds(self) -> bool:
        """Return whether the multipliers prove the bound; this needs no solver."""
        is_proof = bool(np.all(self.multipliers >= 0))
        return is_proof and self.bound >= -dual_bound(self.cost, self.level, self.multipliers)


def certify(mechanism: LInfLaplace, library: Library, through: ArrayLike = ()) -> Certificate:
    """Bound an attacker's success over all mechanisms as private as `mechanism`, by a linear program.

    Only n and a = epsilon * quantum of `mechanism` are used. `through` holds m further windows of the
    lattice, in quanta, of shape (m, n). There are at most (N+m)^2 N constraints: 20 shapes take less than a
    second, 40 several seconds. Raises TypeError if the values of `through` are not integers; ValueError if
    the signatures or `through` do not have the mechanism's n slots; ArithmeticError if the solver finds no
    solution.
    """
    _check_slots(mechanism, library)
    points = _append_windows(library, through)
    shapes = len(library.prior)
    cost = np.zeros((len(points), shapes))
    cost[:shapes] = -np.diag(library.prior)
    level = float(mechanism.a) * _distances(points, points)
    optimum = least_cost(cost, level)
    return Certificate(-optimum.bound, -optimum.value, cost, level, optimum.multipliers)


@dataclass(frozen=True, eq=False)
class Mixture:
    """A proof by hand: `weights` on `points`, in quanta; `bound` is the weights' sum, at most 1."""

    bound: float
    points: Integers
    weights: Floats


def mixture(mechanism: LInfLaplace, library: Library, through: ArrayLike = ()) -> Mixture:
    """Minimise the sum of weights y_c >= 0 with sum y_c e^(-a d(x_i, c)) >= prior_i for each shape i.

    The weights are on the library's windows, `through`, and the window in the library's middle, scaled up so
    that the inequalities hold despite the solver's tolerance. The bound is no smaller than that of `certify`
    for the same windows. Raises TypeError and ValueError as `certify` does.
    """
    _check_slots(mechanism, library)
    low, high = library.signatures.min(axis=0), library.signatures.max(axis=0)
    points = np.vstack([_append_windows(library, through), [(low + high) // 2]])
    factors = np.exp(-float(mechanism.a) * _distances(library.signatures, points))
    solution = linprog(np.ones(len(points)), -factors, -library.prior, method="highs")
    weights = np.maximum(solution.x, 0)
    weights *= max(1.0, float(np.max(library.prior / (factors @ weights))))
    return Mixture(min(1.0, float(weights.sum())), points, weights)


def _append_windows(library: Library, through: ArrayLike) -> Integers:
    """Return the library's windows, followed by `through`, which may be empty."""
    extra_windows, slots = require_present(through), library.signatures.shape[1]
    if not extra_windows.size:
        return library.signatures
    if extra_windows.ndim != 2 or extra_windows.shape[1] != slots:
        raise ValueError(f"`through` must have shape (m, {slots}), not {extra_windows.shape}")
    return np.vstack([library.signatures, _require_integers("`through`", extra_windows)])


def _require_integers(name: str, windows: NDArray[Any]) -> Integers:
    if windows.dtype.kind not in "iu":
        raise TypeError(f"{name} must be whole quanta, an array of integers, not of {windows.dtype}")
    return windows.astype(np.int64)


def _distances(windows: Integers, points: Integers) -> Floats:
    """Return d_inf for all pairs of a window and a point, in quanta."""
    return np.asarray(np.abs(windows[:, None] - points).max(axis=2), float)
